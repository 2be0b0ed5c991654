/* gis: grouped index select. Forward gathers rows, one thread an element; backward scatters gradients, a wave walks 16
 * consecutive rows column by column, with plain atomics or through a cache of two rows in registers. */
#include "workloads/kernels/fix_internal.h"

#define GIS_SEED 11       /* the measuring program's */
#define ROWS_PER_WAVE 16

struct gis {
    struct index_source *source;
    uint64_t n, rows, run; /* gathered rows; rows of the table; equal indices in a row */
    uint64_t width;        /* elements of a row, fp32 */
    uint64_t table, indices, gradient;
    uint32_t lanes;
    uint32_t group;        /* forward by rows: lanes that take a row's piece of as many columns; 0: a thread an element */
};

static uint64_t gis_row(const struct gis *k, uint64_t i)
{
    return index_source_row(k->source, 0, i, 0);
}

/* sm_90: 14 registers; 39 instructions with a division before the index load (149 cycles, seven scoreboard results), 12
 * from it to the row load, 4 to the store. */
static void gis_forward_next(const struct wave_program *program, const struct wave_window *window,
                             struct wave_state *state, struct wave_op *op)
{
    const struct gis *k = program->context;
    (void)window;
    uint64_t first = wave_index(program, state) * k->lanes, total = k->n * k->width;
    uint64_t end = min_u64(first + k->lanes, total);
    if (first >= end || state->pc == 3) {
        op_end(op);
        return;
    }
    uint64_t row_first = first / k->width, row_last = (end - 1) / k->width;
    op_lanes(op, end - first);
    switch (state->pc++) {
    case 0:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 5, 34, 110 + 7 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->indices + row_first * 4, (row_last - row_first + 1) * 4);
        return;
    case 1:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 2, 10, 0);
        for (uint64_t row = row_first; row <= row_last; row++) {
            uint64_t from = max_u64(first, row * k->width), to = min_u64(end, (row + 1) * k->width);
            op_span(op, k->table + (gis_row(k, row) * k->width + from - row * k->width) * 4, (to - from) * 4);
        }
        return;
    default:
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 2, 2, 1);
        op_span(op, k->gradient + first * 4, (end - first) * 4);
        op->work_units = 1;
    }
}

/* The library's mapping on wide waves: groups of lanes take pieces of rows, so that a row narrower than its group leaves
 * lanes idle; as many groups side by side as a wave holds. At most ROW_GRID workgroups a unit walk the pieces, and find out
 * anew which row they are at each time, by the same divisions. */
#define ROW_GRID 64
static void gis_rows_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                          struct wave_op *op)
{
    const struct gis *k = program->context;
    if (state->r[0] == 0) {
        state->r[0] = 1;
        wave_first_trip(window, state);
    }
    uint64_t per_row = ceil_div(k->width, k->group), groups = k->lanes / k->group, lanes = 0;
    uint64_t waves = program->workgroups * program->waves_per_workgroup;
    uint64_t first = (wave_index(program, state) + state->trip * waves) * groups;
    uint64_t end = min_u64(first + groups, k->n * per_row);
    if (first >= end || state->trip >= window->trip_limit) {
        op_end(op);
        return;
    }
    uint32_t step = state->pc;
    state->pc = (step + 1) % 3;
    state->trip += step == 2;
    op_begin(op, step == 2 ? WAVE_STORE : WAVE_LOAD, step == 0 ? WAVE_NO_WAIT : 0);
    op_work(op, step == 0 ? 5 : 2, step == 0 ? 34 : step == 1 ? 10 : 2,
            step == 0 ? 110 + 7 * KERNEL_SPECIAL_CYCLES : step == 2 ? 1 : 0);
    for (uint64_t piece = first; piece < end; piece++) {
        uint64_t item = piece / per_row, column = piece % per_row * k->group;
        uint64_t count = min_u64(k->group, k->width - column);
        if (step == 0) {
            op_span(op, k->indices + item * 4, column == 0 || piece == first ? 4 : 0);
        } else if (step == 1) {
            op_span(op, k->table + (gis_row(k, item) * k->width + column) * 4, count * 4);
        } else {
            op_span(op, k->gradient + (item * k->width + column) * 4, count * 4);
        }
        lanes += count;
    }
    op_lanes(op, lanes);
    op->work_units = step == 2 ? 1 : 0;
}

/* Where a wave stands in backward: trip = column chunk x rows + row. */
struct gis_place {
    uint64_t row, lanes, column;
    bool last_of_chunk;
};

static bool gis_place(const struct gis *k, const struct wave_program *program, const struct wave_state *state,
                      uint64_t limit, struct gis_place *out)
{
    uint64_t first = wave_index(program, state) * ROWS_PER_WAVE;
    uint64_t rows = first < k->n ? min_u64(ROWS_PER_WAVE, k->n - first) : 0;
    if (rows == 0 || state->trip >= min_u64(rows * ceil_div(k->width, k->lanes), limit)) {
        return false;
    }
    out->row = first + state->trip % rows;
    out->column = state->trip / rows * k->lanes;
    out->lanes = min_u64(k->lanes, k->width - out->column);
    out->last_of_chunk = state->trip % rows == rows - 1;
    return true;
}

static void gis_load(const struct gis *k, const struct gis_place *place, bool index, struct wave_op *op)
{
    if (index) {
        op_span(op, k->indices + place->row * 4, 4);
    } else {
        op_span_apart(op, k->gradient + (place->row * k->width + place->column) * 4, place->lanes * 4);
    }
    op_lanes(op, place->lanes);
}

static void gis_add(const struct gis *k, uint64_t row, const struct gis_place *place, struct wave_op *op)
{
    op->atomic_type = WAVE_ATOMIC_FP32;
    op->element_bytes = 4;
    op_span(op, k->table + (row * k->width + place->column) * 4, place->lanes * 4);
    op_lanes(op, place->lanes);
}

/* sm_90: 40 registers. Plain: per row 4 instructions to both loads (index and gradient, independent), then 9 (29 cycles)
 * to the atomic; the next row's index load stands behind the atomic, which may alias. */
static void gis_atomic_next(const struct wave_program *program, const struct wave_window *window,
                            struct wave_state *state, struct wave_op *op)
{
    const struct gis *k = program->context;
    struct gis_place place;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, 7, 32, 62 + 4 * KERNEL_SPECIAL_CYCLES);
        state->pc = 1;
        return;
    }
    if (!gis_place(k, program, state, window->trip_limit, &place)) {
        op_end(op);
        return;
    }
    if (state->pc == 1) {
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 2, 2, 6);
        gis_load(k, &place, true, op);
        gis_load(k, &place, false, op);
        state->pc = 2;
        return;
    }
    op_begin(op, WAVE_ATOMIC, 0);
    op_work(op, 1, 8, 20);
    gis_add(k, gis_row(k, place.row), &place, op);
    op->work_units = 1;
    state->pc = 1;
    state->trip++;
}

/* The cache of two rows. r[0] and r[1]: newest and oldest cached row, plus one (0: empty). r[2]: rows still to be
 * flushed at the end of a column chunk. */
enum gis_cached_step { CACHED_START, CACHED_INDEX, CACHED_GRADIENT, CACHED_DECIDE, CACHED_EVICT, CACHED_FLUSH };

/* sm_90: per row the index load, the gradient load, then three dependent compare-and-branch pairs on the index alone
 * (11 instructions, 56 cycles); a hit waits for the gradient and adds, a miss adds the oldest row to memory (6
 * instructions, 30 cycles) while its own gradient is still on the way. */
static void gis_cached_next(const struct wave_program *program, const struct wave_window *window,
                            struct wave_state *state, struct wave_op *op)
{
    const struct gis *k = program->context;
    struct gis_place place;
    if (state->pc == CACHED_START) {
        wave_first_trip(window, state);
        op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, 7, 32, 62 + 4 * KERNEL_SPECIAL_CYCLES);
        state->pc = CACHED_INDEX;
        return;
    }
    if (!gis_place(k, program, state, window->trip_limit, &place)) {
        op_end(op);
        return;
    }
    uint64_t row = gis_row(k, place.row) + 1;
    switch (state->pc) {
    case CACHED_INDEX:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 2, 1, 5);
        gis_load(k, &place, true, op);
        state->pc = CACHED_GRADIENT;
        return;
    case CACHED_GRADIENT:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 1, 3, 6);
        gis_load(k, &place, false, op);
        state->pc = CACHED_DECIDE;
        return;
    case CACHED_DECIDE: {
        bool hit = row == state->r[0] || row == state->r[1];
        op_begin(op, WAVE_COMPUTE, hit ? 0 : 1);
        op_work(op, 5, hit ? 8 : 6, hit ? 30 : 45);
        op_lanes(op, place.lanes);
        state->r[3] = hit ? 0 : state->r[1]; /* to be evicted */
        if (!hit) {
            state->r[1] = state->r[0];
            state->r[0] = row;
        }
        break;
    }
    case CACHED_EVICT:
        op_begin(op, WAVE_ATOMIC, WAVE_NO_WAIT);
        op_work(op, 1, 6, 23);
        gis_add(k, state->r[3] - 1, &place, op);
        state->r[3] = 0;
        break;
    default: /* CACHED_FLUSH: newest first */
        op_begin(op, WAVE_ATOMIC, 0);
        op_work(op, 5, 11, 29);
        gis_add(k, (state->r[0] != 0 ? state->r[0] : state->r[1]) - 1, &place, op);
        state->r[state->r[0] != 0 ? 0 : 1] = 0;
        break;
    }
    if (state->r[3] != 0) {
        state->pc = CACHED_EVICT;
    } else if (place.last_of_chunk && (state->r[0] != 0 || state->r[1] != 0)) {
        state->pc = CACHED_FLUSH;
    } else {
        op->work_units = 1;
        state->pc = CACHED_INDEX;
        state->trip++;
    }
}

enum gis_variant { GIS_FORWARD, GIS_ATOMIC, GIS_CACHED };

static void gis_build(struct kernel_build *build, enum gis_variant variant)
{
    uint64_t width = kernel_param_integer(build, "D", 1, 65536);
    uint64_t rows = kernel_param_integer(build, "rows", 1, 1ull << 31);
    uint64_t run = kernel_param_integer_or(build, "run", 1, 1ull << 31, 1, NULL);
    uint64_t n = kernel_param_integer_or(build, "n", ROWS_PER_WAVE, 1ull << 31, 1ull << 21, NULL);
    struct index_request request = index_request_read(build, INDEX_UNIFORM, INDEX_ZIPF);
    bool packed = kernel_has_fix(build, KERNEL_FIX_ROW_PACK), wide = build->machine->lanes > 32;
    bool by_row = false;
    if (variant == GIS_FORWARD) { /* the measuring program and the library part where a wave is wider than a group of 32 */
        by_row = kernel_param_choice_or(build, "map", "element|row", wide, wide ? "a wave takes a row's piece of its width, as "
                                        "the library does; element: a thread an element" : NULL) == 1;
        if (packed && !by_row && kernel_param_given(build, "map")) {
            kernel_fail(build, SIM_BAD_ARGUMENT, "fix row-pack changes map=row; map=element leaves no lane idle");
        }
    } else {
        kernel_fix_read_copies(build);
    }
    if (run > 1 && (request.file != NULL || request.kind != INDEX_UNIFORM)) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter run=%llu goes with uniform indices alone", (unsigned long long)run);
    }
    kernel_require_hbm(build, 4.0 * (double)width * ((double)rows + (double)n), "table and gradient");
    if (!kernel_params_done(build)) {
        return;
    }
    struct index_source *source = index_request_open(build, &request, 1, n, 1, rows, GIS_SEED);
    if (source == NULL) {
        return;
    }
    source->run = run;
    build->plan->flops = variant == GIS_FORWARD ? 0 : (double)n * (double)width;
    kernel_value_per_time(build, 2.0 * (double)n * (double)width * 4 * 1e-6, "TB/s");
    if (kernel_has_fix(build, KERNEL_FIX_SORT_SEGMENT)) {
        kernel_plan_add_sort_segment(build, source, &(struct segment_shape){ (uint32_t)width, 4, 4, WAVE_ATOMIC_FP32, true });
        return;
    }
    static const wave_next steps[] = { gis_forward_next, gis_atomic_next, gis_cached_next };
    static const char *const names[] = { "gis forward", "gis backward, atomics", "gis backward, two-row cache" };
    struct wave_program *program = kernel_program_create(names[variant], sizeof(struct gis), steps[variant]);
    struct gis *k = program->context;
    *k = (struct gis){ .source = source, .n = n, .rows = rows, .run = run, .width = width,
                       .lanes = build->machine->lanes };
    kernel_program_adopt(program, source, index_source_release);
    k->table = kernel_program_tensor(program, "table", 4.0 * (double)rows * (double)width);
    k->indices = kernel_program_tensor(program, "indices", 4.0 * (double)n);
    k->gradient = kernel_program_tensor(program, "gradient", 4.0 * (double)n * (double)width);
    if (variant == GIS_FORWARD) {
        program->registers_per_lane = 14;
        k->group = !by_row ? 0 : packed ? 32 : k->lanes;
        uint64_t waves = by_row ? ceil_div(n * ceil_div(width, k->group), k->lanes / k->group)
                                : ceil_div(n * width, k->lanes);
        program->next = by_row ? gis_rows_next : gis_forward_next;
        kernel_program_grid(program, by_row ? waves * k->lanes : n * width, 256, k->lanes);
        program->work_units_total = waves;
        if (by_row) {
            program->workgroups = min_u64(program->workgroups, (uint64_t)ROW_GRID * build->machine->units);
            program->trips_per_wave = ceil_div(waves, program->workgroups * program->waves_per_workgroup);
        }
    } else {
        /* The grid is sized for whole groups of 16 rows; what its last workgroup has over covers the rest. */
        program->registers_per_lane = 40;
        kernel_program_grid(program, n / ROWS_PER_WAVE * k->lanes, 256, k->lanes);
        uint64_t walked = min_u64(n, program->workgroups * program->waves_per_workgroup * ROWS_PER_WAVE);
        program->work_units_total = walked * ceil_div(width, k->lanes);
        kernel_program_loops(program, build->machine, ROWS_PER_WAVE * ceil_div(width, k->lanes));
        program->flops = (double)walked * (double)width;
        program->workgroups_differ = k->source->kind != INDEX_UNIFORM;
    }
    program->l2_footprint_bytes = 4.0 * (double)width * ((double)min_u64(rows, ceil_div(n, run)) + (double)n);
    uint64_t table = k->table;
    kernel_plan_add(build, program, 1);
    kernel_fix_target(build, table, 4.0 * (double)rows * (double)width, 4, 4, WAVE_ATOMIC_FP32);
}

static void forward_build(struct kernel_build *build)
{
    gis_build(build, GIS_FORWARD);
}

static void backward_atomic_build(struct kernel_build *build)
{
    gis_build(build, GIS_ATOMIC);
}

static void backward_cached_build(struct kernel_build *build)
{
    gis_build(build, GIS_CACHED);
}

/* Not measured: the repair by sorting. Pairs of (row, place), a radix sort, where the runs start, and a wave per distinct
 * row that writes it once, without atomics. */
static void backward_sorted_build(struct kernel_build *build)
{
    uint64_t width = kernel_param_integer(build, "D", 4, 65536);
    uint64_t rows = kernel_param_integer(build, "rows", 1, 1ull << 31);
    uint64_t run = kernel_param_integer_or(build, "run", 1, 1ull << 31, 1, NULL);
    uint64_t n = kernel_param_integer_or(build, "n", ROWS_PER_WAVE, 1ull << 31, 1ull << 21, NULL);
    if (width % 4 != 0 || width * 4 > 32ull * build->machine->lanes) {
        kernel_fail(build, SIM_UNSUPPORTED, "parameter D=%llu is not valid: must be a multiple of 4 up to %u (two 16-byte "
                    "loads a lane)", (unsigned long long)width, 8 * build->machine->lanes);
    }
    kernel_require_hbm(build, 4.0 * (double)width * ((double)rows + (double)n), "table and gradient");
    if (!kernel_params_done(build)) {
        return;
    }
    struct index_source *source = index_source_create(INDEX_UNIFORM, 1, 1, n, 1, rows, GIS_SEED);
    source->run = run;
    struct run_table *runs = run_table_create(source);
    uint32_t bits = kernel_key_bits(rows);
    kernel_plan_add_map(build, "pairs", n, 256, 4, 8,
                        (struct kernel_map_cost){ 4, 10, 40 + 2 * KERNEL_SPECIAL_CYCLES, 4, 6, 12, 12 });
    kernel_plan_add_sort(build, n, 4, 4, bits, bits);
    kernel_plan_add_map(build, "flag run heads", n, 256, 4, 4,
                        (struct kernel_map_cost){ 6, 13, 57 + 2 * KERNEL_SPECIAL_CYCLES, 2, 5, 10, 12 });
    kernel_plan_add_chained(build, KERNEL_SELECT_FLAGGED, n, runs->count);
    run_table_release(runs);
    kernel_plan_add_sorted_backward(build, source, (uint32_t)width, 4);
    build->plan->flops = (double)n * (double)width;
    kernel_value_per_time(build, 2.0 * (double)n * (double)width * 4 * 1e-6, "TB/s");
}

#define GIS_SHAPE "D (fp32 elements of a row), rows (of the table), run (equal indices in a row, 1), n (2^21)"
#define GIS_HELP GIS_SHAPE ", map (forward: element|row)" INDEX_HELP

const struct kernel_definition gis_kernels[] = {
    { "gis", "forward", "gather n rows, one thread an element", GIS_HELP, forward_build },
    { "gis", "backward_atomic", "scatter-add n gradients, an atomic per row and column", GIS_HELP,
      backward_atomic_build },
    { "gis", "backward_cached", "the same through a cache of two rows per column", GIS_HELP, backward_cached_build },
    { "gis", "backward_sorted", "the same sorted: a wave per distinct row, no atomics", GIS_SHAPE, backward_sorted_build },
    { .suite = NULL },
};
