/* scatter: PyTorch's index_add (atomics), index_select (a workgroup a row), and a histogram. */
#include "workloads/kernels/kernels_internal.h"

#define SCATTER_SEED 17

/* What index_add and histogram share: n items, each going to one of `rows` targets. */
struct scatter {
    uint64_t n, rows, width;      /* width: fp32 elements of a row, 1 in a histogram */
    uint64_t threads, trips;      /* of the grid; of its longest wave */
    double hot_share;             /* of the items that go to row 0; the others are uniform */
    uint64_t target, source, indices;
    uint32_t lanes, block;
    uint8_t flags;                /* enum wave_atomic_flags */
    bool private_bins;
};

static uint64_t scatter_row(const struct scatter *k, uint64_t i)
{
    uint64_t bits = splitmix64_at(SCATTER_SEED, i);
    if (k->hot_share > 0 && (double)(bits >> 11) * 0x1.0p-53 < k->hot_share) {
        return 0;
    }
    return splitmix64_at(SCATTER_SEED + 1, i) % k->rows;
}

/* Items of the wave's trip: [*first, *first + count). */
static uint64_t scatter_items(const struct scatter *k, const struct wave_state *state, uint64_t trip, uint64_t total,
                              uint64_t *first)
{
    uint64_t lanes = min_u64(k->lanes, k->block - (uint64_t)state->wave * k->lanes);
    *first = state->workgroup * k->block + (uint64_t)state->wave * k->lanes + trip * k->threads;
    return *first < total ? min_u64(lanes, total - *first) : 0;
}

static uint64_t scatter_work(const struct scatter *k, const struct wave_program *program, uint64_t total)
{
    uint64_t trips = 0;
    for (uint64_t group = 0; group < program->workgroups; group++) {
        for (uint32_t wave = 0; wave < program->waves_per_workgroup; wave++) {
            uint64_t first = group * k->block + (uint64_t)wave * k->lanes;
            trips += first < total ? ceil_div(total - first, k->threads) : 0;
        }
    }
    return trips;
}

/* index_add: a thread an element, elements dealt round the grid; index load, source load and atomic in a row.
 * sm_90 (re-expressed, with the bounds assertion; 32 registers as recorded): a division before the index load, another one before
 * the source load: 30 instructions (115 cycles), 29 (129), 8 (19). */
static void index_add_next(const struct wave_program *program, const struct wave_window *window,
                           struct wave_state *state, struct wave_op *op)
{
    const struct scatter *k = program->context;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->pc = 1;
    }
    uint64_t first, count = scatter_items(k, state, state->trip, k->n * k->width, &first);
    if (count == 0 || state->trip >= window->trip_limit) {
        op_end(op);
        return;
    }
    uint64_t row = first / k->width, last = (first + count - 1) / k->width;
    op_lanes(op, count);
    switch (state->pc++) {
    case 1:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 3, 27, 85 + 4 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->indices + row * 8, (last - row + 1) * 8);
        return;
    case 2:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 3, 26, 100 + 4 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->source + first * 4, count * 4);
        return;
    default:
        op_begin(op, WAVE_ATOMIC, 0);
        op_work(op, 2, 6, 11);
        op->atomic_type = WAVE_ATOMIC_FP32;
        op->atomic_flags = k->flags;
        op->element_bytes = 4;
        if (row == last) {
            op_span(op, k->target + (scatter_row(k, row) * k->width + first - row * k->width) * 4, count * 4);
        } else { /* rows of one wave may be the same one */
            op->lane_count = (uint32_t)count;
            for (uint64_t e = 0; e < count; e++) {
                uint64_t at = first + e;
                op->lane_address[e] = k->target + (scatter_row(k, at / k->width) * k->width + at % k->width) * 4;
            }
        }
        op->work_units = 1;
        state->pc = 1;
        state->trip++;
    }
}

static uint8_t scatter_flags(struct kernel_build *build)
{
    int cas = kernel_param_choice_or(build, "kind", "native|cas", 0, NULL);
    int ordered = kernel_param_choice_or(build, "order", "relaxed|acq_rel", 0, NULL);
    return (uint8_t)((cas ? WAVE_ATOMIC_CAS_LOOP : 0) | (ordered ? WAVE_ATOMIC_ACQ_REL : 0));
}

static struct scatter scatter_read(struct kernel_build *build, bool histogram)
{
    struct scatter k = { .lanes = build->machine->lanes };
    k.n = kernel_param_integer(build, "n", 1, 1ull << 32);
    k.width = histogram ? 1 : kernel_param_integer(build, "D", 1, 65536);
    k.rows = kernel_param_integer(build, "rows", 1, 1ull << 32);
    if (!histogram) {
        kernel_param_choice_or(build, "dtype", "fp32|float32", 0, NULL);
    }
    return k;
}

static void scatter_grid(struct kernel_build *build, struct wave_program *program, struct scatter *k, uint64_t total)
{
    uint64_t groups = min_u64(ceil_div(total, k->block), 8ull * build->machine->units);
    k->threads = groups * k->block;
    kernel_program_grid(program, k->threads, k->block, k->lanes);
    program->work_units_total = scatter_work(k, program, total);
    program->trips_per_wave = max_u64(1, total / k->threads);
}

static void index_add_build(struct kernel_build *build)
{
    struct scatter shape = scatter_read(build, false);
    shape.hot_share = kernel_param_real_or(build, "hot_share", 0, 1, 0, NULL);
    shape.flags = scatter_flags(build);
    shape.block = 128;
    double source_bytes = 4.0 * (double)shape.n * (double)shape.width;
    double target_bytes = 4.0 * (double)shape.rows * (double)shape.width;
    kernel_require_hbm(build, source_bytes + target_bytes, "source and target");
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("index_add", sizeof(struct scatter), index_add_next);
    struct scatter *k = program->context;
    *k = shape;
    k->target = kernel_program_tensor(program, "target", target_bytes);
    k->source = kernel_program_tensor(program, "source", source_bytes);
    k->indices = kernel_program_tensor(program, "indices", 8.0 * (double)k->n);
    program->registers_per_lane = 32;
    scatter_grid(build, program, k, k->n * k->width);
    program->flops = (double)k->n * (double)k->width;
    build->plan->flops = program->flops;
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, 2 * source_bytes * 1e-6, "TB/s");
}

/* ---- index_select: a workgroup an index, 16 bytes a lane ---- */

struct row_select {
    uint64_t n, rows, row_bytes, row_groups; /* row_groups: workgroups a row (grid.y) */
    uint64_t target, source, indices;
    uint32_t lanes, block;
};

/* sm_90 (re-expressed; 32 registers as recorded): 11 instructions to the index, 53 to the row, 10 to the store. */
static void row_select_next(const struct wave_program *program, const struct wave_window *window,
                            struct wave_state *state, struct wave_op *op)
{
    const struct row_select *k = program->context;
    (void)program, (void)window;
    uint64_t index = state->workgroup % k->n, group = state->workgroup / k->n;
    uint64_t lane_first = (group * k->block + (uint64_t)state->wave * k->lanes) * 16;
    uint64_t bytes = lane_first < k->row_bytes ? min_u64(k->lanes * 16ull, k->row_bytes - lane_first) : 0;
    switch (state->pc++) {
    case 0:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 5, 6, 21 + 2 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->indices + index * 8, 8);
        op_lanes(op, k->lanes);
        op->work_units = bytes == 0;
        return;
    case 1:
        if (bytes == 0) {
            break;
        }
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 8, 45, 116 + 4 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->source + splitmix64_at(SCATTER_SEED + 1, index) % k->rows * k->row_bytes + lane_first, bytes);
        op_lanes(op, ceil_div(bytes, 16));
        return;
    case 2:
        if (bytes == 0) {
            break;
        }
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 3, 7, 25);
        op_span(op, k->target + index * k->row_bytes + lane_first, bytes);
        op_lanes(op, ceil_div(bytes, 16));
        op->work_units = 1;
        return;
    default:
        break;
    }
    op_end(op);
}

static void index_select_build(struct kernel_build *build)
{
    struct scatter shape = scatter_read(build, false);
    double out_bytes = 4.0 * (double)shape.n * (double)shape.width;
    double table_bytes = 4.0 * (double)shape.rows * (double)shape.width;
    if (shape.width % 4 != 0) {
        kernel_fail(build, SIM_UNSUPPORTED, "parameter D=%llu is not valid: rows must be a multiple of 16 bytes (other "
                    "widths take another kernel)", (unsigned long long)shape.width);
    }
    kernel_require_hbm(build, out_bytes + table_bytes, "table and result");
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("index_select", sizeof(struct row_select), row_select_next);
    struct row_select *k = program->context;
    *k = (struct row_select){ .n = shape.n, .rows = shape.rows, .row_bytes = shape.width * 4, .lanes = shape.lanes };
    uint64_t threads = ceil_div(ceil_div(k->row_bytes, 16), k->lanes) * k->lanes;
    k->block = (uint32_t)min_u64(256, threads);
    k->row_groups = ceil_div(k->row_bytes, k->block * 16ull);
    k->source = kernel_program_tensor(program, "table", table_bytes);
    k->target = kernel_program_tensor(program, "result", out_bytes);
    k->indices = kernel_program_tensor(program, "indices", 8.0 * (double)k->n);
    program->registers_per_lane = 32;
    program->workgroups = k->n * k->row_groups;
    program->waves_per_workgroup = (uint32_t)ceil_div(k->block, k->lanes);
    program->work_units_total = program->workgroups * program->waves_per_workgroup;
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, 2 * out_bytes * 1e-6, "TB/s");
}

/* ---- histogram: an int counter per row ---- */

/* Not measured. Global counters: a 4-byte value a lane and trip, then its atomic. Private ones: counters in shared
 * memory, added to the global ones at the end. Costs as index_add without its divisions. */
static void histogram_next(const struct wave_program *program, const struct wave_window *window,
                           struct wave_state *state, struct wave_op *op)
{
    const struct scatter *k = program->context;
    uint64_t first, count;
    switch (state->pc) {
    case 0:
        wave_first_trip(window, state);
        state->pc = 1;
        if (k->private_bins) {
            op_begin(op, WAVE_BARRIER, WAVE_NO_WAIT);
            op_work(op, 6, 12, 54);
            op->lds_bytes = (uint32_t)(k->rows * 4 * k->lanes / k->block);
            return;
        }
        __attribute__((fallthrough));
    case 1:
        count = scatter_items(k, state, state->trip, k->n, &first);
        if (count > 0 && state->trip < window->trip_limit) {
            op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
            op_work(op, 2, 8, 20);
            op_span(op, k->source + first * 4, count * 4);
            op_lanes(op, count);
            state->pc = 2;
            return;
        }
        state->pc = 3;
        if (k->private_bins) {
            op_begin(op, WAVE_BARRIER, 0);
            op_work(op, 2, 2, 13);
            return;
        }
        op_end(op);
        return;
    case 2:
        count = scatter_items(k, state, state->trip, k->n, &first);
        op_begin(op, k->private_bins ? WAVE_COMPUTE : WAVE_ATOMIC, 0);
        op_work(op, 1, 5, 12);
        op_lanes(op, count);
        op->work_units = 1;
        state->trip++;
        state->pc = 1;
        if (k->private_bins) {
            op->lds_atomics = (uint32_t)count;
            return;
        }
        op->atomic_type = WAVE_ATOMIC_INT;
        op->atomic_flags = k->flags;
        op->element_bytes = 4;
        op->lane_count = (uint32_t)count;
        for (uint64_t e = 0; e < count; e++) {
            op->lane_address[e] = k->target + scatter_row(k, first + e) * 4;
        }
        return;
    default: {
        uint64_t bin = (uint64_t)state->wave * k->lanes + state->r[0]++ * k->block;
        if (!k->private_bins || bin >= k->rows) {
            op_end(op);
            return;
        }
        count = min_u64(k->lanes, k->rows - bin);
        op_begin(op, WAVE_ATOMIC, WAVE_NO_WAIT);
        op_work(op, 3, 4, 12 + 33);
        op->lds_bytes = (uint32_t)count * 4;
        op->atomic_type = WAVE_ATOMIC_INT;
        op->atomic_flags = k->flags;
        op->element_bytes = 4;
        op_span(op, k->target + bin * 4, count * 4);
        op_lanes(op, count);
    }
    }
}

static void histogram_build(struct kernel_build *build)
{
    struct scatter shape = scatter_read(build, true);
    shape.hot_share = kernel_param_real_or(build, "hot_share", 0, 1, 0, NULL);
    shape.flags = scatter_flags(build);
    shape.private_bins = kernel_param_choice_or(build, "bins", "global|private", 0, NULL) == 1;
    shape.block = 256;
    kernel_require_hbm(build, 4.0 * ((double)shape.n + (double)shape.rows), "values and counters");
    if (shape.private_bins) {
        kernel_require_lds(build, shape.rows * 4);
    }
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("histogram", sizeof(struct scatter), histogram_next);
    struct scatter *k = program->context;
    *k = shape;
    k->target = kernel_program_tensor(program, "counters", 4.0 * (double)k->rows);
    k->source = kernel_program_tensor(program, "values", 4.0 * (double)k->n);
    program->registers_per_lane = 24;
    program->lds_bytes = shape.private_bins ? (uint32_t)(shape.rows * 4) : 0;
    scatter_grid(build, program, k, k->n);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, (double)k->n * 1e-3, "Gop/s");
}

#define ATOMIC_HELP ", hot_share (of items on one row, 0), kind (native|cas), order (relaxed|acq_rel)"

const struct kernel_definition scatter_kernels[] = {
    { "scatter", "index_add", "rows of a source added to random rows by fp32 atomics",
      "n, D (fp32 elements), rows, dtype (fp32)" ATOMIC_HELP, index_add_build },
    { "scatter", "index_select", "random rows copied, a workgroup a row", "n, D (fp32 elements), rows, dtype (fp32)",
      index_select_build },
    { "scatter", "histogram", "values counted by integer atomics",
      "n, rows (counters), bins (global|private: in shared memory first)" ATOMIC_HELP, histogram_build },
    { .suite = NULL },
};
