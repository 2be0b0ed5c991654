/* gather: rows of a table in random order, index load then row load, one after the other. */
#include "workloads/kernels/index_draw_internal.h"

#define GATHER_SEED 7 /* the measuring program's */
#define VECTOR 16     /* bytes a lane loads */

struct gather {
    struct index_source *source;
    uint64_t rows, row_bytes, n;
    uint64_t lanes_per_row; /* a group of this many neighbouring threads reads one row */
    uint64_t groups;        /* of the grid */
    uint64_t table, indices;
    uint32_t lanes;
};

static uint64_t gather_row(const struct gather *k, uint64_t i)
{
    return index_source_row(k->source, 0, i, 0);
}

/* The rows that the wave's groups read in trip `t`; false when the last of them is done. */
static uint64_t gather_trips(const struct gather *k, uint64_t first_group)
{
    return first_group < k->n ? ceil_div(k->n - first_group, k->groups) : 0;
}

/* sm_90: 21 registers, not unrolled: 8 instructions (25 cycles) from the row's return to the next index load, 6 (18)
 * from the index to the row load; 72 before the loop, two divisions among them. */
static void gather_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                        struct wave_op *op)
{
    const struct gather *k = program->context;
    uint64_t thread = wave_index(program, state) * k->lanes;
    uint64_t first = thread / k->lanes_per_row, last = (thread + k->lanes - 1) / k->lanes_per_row;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, 9, 63, 151 + 8 * KERNEL_SPECIAL_CYCLES);
        state->pc = 1;
        return;
    }
    if (state->trip >= min_u64(gather_trips(k, first), window->trip_limit)) {
        op_end(op);
        return;
    }
    uint64_t i = first + state->trip * k->groups;
    uint64_t groups = min_u64(last - first + 1, k->n - i), lanes = 0;
    if (state->pc == 1) {
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 2, 6, 17);
        op_span(op, k->indices + i * 4, groups * 4);
        op_lanes(op, k->lanes);
        state->pc = 2;
        return;
    }
    op_begin(op, WAVE_LOAD, 0);
    op_work(op, 1, 5, 12);
    op->cache = WAVE_CACHE_L2;
    for (uint64_t g = 0; g < groups; g++) {
        /* Lanes of this group inside the wave: all of them but at the wave's edges. */
        uint64_t start = (first + g) * k->lanes_per_row, end = start + k->lanes_per_row;
        uint64_t from = max_u64(start, thread), to = min_u64(end, thread + k->lanes);
        op_span(op, k->table + gather_row(k, i + g) * k->row_bytes + (from - start) * VECTOR, (to - from) * VECTOR);
        lanes += to - from;
    }
    op_lanes(op, lanes);
    op->work_units = 1;
    state->pc = 1;
    state->trip++;
}

static uint64_t gather_work(const struct gather *k, uint64_t waves)
{
    uint64_t trips = 0;
    for (uint64_t wave = 0; wave < waves; wave++) {
        trips += gather_trips(k, wave * k->lanes / k->lanes_per_row);
    }
    return trips;
}

static void random_rows_build(struct kernel_build *build)
{
    uint64_t row_bytes = kernel_param_integer(build, "row_bytes", VECTOR, 16384);
    double table_mib = kernel_param_real(build, "table_mb", 1e-3, 1e7);
    uint64_t n = kernel_param_integer_or(build, "n", 1, 4000000000, min_u64(1u << 25, (6ull << 30) / row_bytes), NULL);
    if (row_bytes % VECTOR != 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter row_bytes=%llu is not valid: must be a multiple of %d",
                    (unsigned long long)row_bytes, VECTOR);
    }
    uint64_t rows = (uint64_t)(table_mib * 1048576 / (double)row_bytes);
    if (rows == 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter table_mb=%g is not valid: must hold one row of %llu bytes",
                    table_mib, (unsigned long long)row_bytes);
    }
    kernel_require_hbm(build, table_mib * 1048576 + 4.0 * (double)n, "table and indices");
    struct index_request request = index_request_read(build, INDEX_UNIFORM, INDEX_ZIPF);
    if (!kernel_params_done(build)) {
        return;
    }
    struct index_source *source = index_request_open(build, &request, 1, n, 1, rows, GATHER_SEED);
    if (source == NULL) {
        return;
    }
    struct wave_program *program = kernel_program_create("gather rows", sizeof(struct gather), gather_next);
    struct gather *k = program->context;
    uint64_t threads = 8ull * build->machine->units * 256;
    *k = (struct gather){ .source = source, .rows = rows, .row_bytes = row_bytes, .n = n, .lanes_per_row = row_bytes / VECTOR,
                          .lanes = build->machine->lanes };
    kernel_program_adopt(program, source, index_source_release);
    k->groups = threads / k->lanes_per_row;
    k->table = kernel_program_tensor(program, "table", (double)rows * (double)row_bytes);
    k->indices = kernel_program_tensor(program, "indices", 4.0 * (double)n);
    program->registers_per_lane = 21;
    kernel_program_grid(program, threads, 256, k->lanes);
    program->work_units_total = gather_work(k, program->workgroups * program->waves_per_workgroup);
    program->trips_per_wave = max_u64(1, n / k->groups);
    program->l2_footprint_bytes = (double)rows * (double)row_bytes + 4.0 * (double)n;
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, (double)n * (double)row_bytes * 1e-6, "TB/s");
}

const struct kernel_definition gather_kernels[] = {
    { "gather", "random_rows", "n random rows of a table, 16 bytes a lane, L1 bypassed",
      "row_bytes (a multiple of 16), table_mb (MiB), n (rows read; 6 GiB worth, at most 2^25)" INDEX_HELP, random_rows_build },
    { .suite = NULL },
};
