/* scatter: PyTorch's index_add (atomics) and the operators that run the same kernel, index_select (a workgroup a row), and a
 * histogram. */
#include "sim/core/chip_profile.h"
#include "workloads/kernels/fix_internal.h"

#define SCATTER_SEED 17

/* What index_add and histogram share: n items, each going to one of `rows` targets. */
struct scatter {
    struct index_source *drawn;   /* the row of each item */
    uint64_t n, rows, width;      /* width: elements of a row, 1 in a histogram */
    uint64_t threads, trips;      /* of the grid; of its longest wave */
    uint64_t target, source, indices;
    uint32_t lanes, block, element_bytes;
    uint8_t flags;                /* enum wave_atomic_flags */
    uint8_t type;                 /* enum wave_atomic_type */
    bool private_bins;
};

static uint64_t scatter_row(const struct scatter *k, uint64_t i)
{
    return index_source_row(k->drawn, 0, i, 0);
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
 * the source load: 30 instructions (115 cycles), 29 (129), 8 (19). Counted on the library's own: 103 instructions a trip, 12 of
 * them conversions and reciprocals, so four divisions (calib/data/h200/counters_torch.csv: remainder, and offsets in target and
 * source apart); the two of a stretch do not wait for each other and add their issue slots. For wider waves another compiler writes
 * the code, nobody has counted it, and pytorch/pytorch#159430 leaves no room for so many: two divisions there. */
#define SECOND_DIVISION(k) ((k)->lanes > 32 ? 0 : 18u)
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
        op_work(op, 3, 27 + SECOND_DIVISION(k), 85 + 4 * KERNEL_SPECIAL_CYCLES + 4 * SECOND_DIVISION(k));
        op_span(op, k->indices + row * 8, (last - row + 1) * 8);
        return;
    case 2:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 3, 26 + SECOND_DIVISION(k), 100 + 4 * KERNEL_SPECIAL_CYCLES + 4 * SECOND_DIVISION(k));
        op_span(op, k->source + first * k->element_bytes, count * k->element_bytes);
        return;
    default:
        op_begin(op, WAVE_ATOMIC, 0);
        op_work(op, k->element_bytes == 2 ? 4 : 2, k->element_bytes == 2 ? 12 : 6, k->element_bytes == 2 ? 28 : 11);
        op->atomic_type = k->type;
        op->atomic_flags = k->flags;
        op->element_bytes = (uint8_t)k->element_bytes;
        if (row == last) {
            op_span(op, k->target + (scatter_row(k, row) * k->width + first - row * k->width) * k->element_bytes,
                    count * k->element_bytes);
        } else { /* rows of one wave may be the same one */
            op->lane_count = (uint32_t)count;
            for (uint64_t e = 0; e < count; e++) {
                uint64_t at = first + e;
                op->lane_address[e] = k->target + (scatter_row(k, at / k->width) * k->width + at % k->width) *
                                                      k->element_bytes;
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
    struct scatter k = { .lanes = build->machine->lanes, .element_bytes = 4, .type = WAVE_ATOMIC_FP32 };
    k.n = kernel_param_integer(build, "n", 1, 1ull << 32);
    k.width = histogram ? 1 : kernel_param_integer(build, "D", 1, 65536);
    k.rows = kernel_param_integer(build, "rows", 1, 1ull << 32);
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

/* ---- the same by bulk requests: rows come to shared memory and are added to memory by an instruction each ----
 * The unit's bulk engine takes one request after another, whatever it moves (unit.bulk_interval): one for a tile of neighbouring
 * source rows, one for each row's addition. Beyond BULK_CHUNK a row goes in pieces of that size. A workgroup a unit, its waves at
 * the engine in turn, each with a few tiles under way. As pytorch/pytorch#182675 and #183739 describe it. */
#define BULK_CHUNK 512
#define BULK_WAVES 8
#define BULK_TILES_AHEAD 8
#define BULK_ROWS_MAX 8

struct bulk {
    struct index_source *drawn;
    uint64_t n, row_bytes, tiles, waves; /* tiles: of the grid, a chunk each where rows are longer */
    uint64_t target, source, indices;
    uint32_t rows, chunks, interval; /* rows of a tile; chunks of a row; cycles between requests of one wave */
    uint8_t element_bytes, type;
};

/* r[0]: tiles loaded up to here; r[1]: rows of the tile added; trip: tiles of the wave. */
static void bulk_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state, struct wave_op *op)
{
    const struct bulk *k = program->context;
    uint64_t wave = wave_index(program, state), own = wave < k->tiles ? ceil_div(k->tiles - wave, k->waves) : 0;
    uint64_t limit = min_u64(own, window->trip_limit);
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->r[0] = state->trip;
        state->pc = 1;
    }
    if (state->trip >= limit) {
        op_end(op);
        return;
    }
    bool loads = state->r[1] == 0 && state->r[0] < min_u64(limit, state->trip + BULK_TILES_AHEAD);
    uint64_t tile = wave + (loads ? state->r[0] : state->trip) * k->waves;
    uint64_t row = tile / k->chunks * k->rows, offset = tile % k->chunks * BULK_CHUNK;
    uint64_t rows = min_u64(k->rows, k->n - row), bytes = min_u64(k->chunks > 1 ? BULK_CHUNK : k->row_bytes, k->row_bytes - offset);
    op_lanes(op, 1);
    if (loads) {
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op->cache = WAVE_CACHE_L2;
        op_work(op, 4, 10, k->interval);
        op_span(op, k->source + row * k->row_bytes + offset, k->chunks > 1 ? bytes : rows * bytes);
        op_span_apart(op, k->indices + row * 8, rows * 8);
        state->r[0]++;
        return;
    }
    uint64_t to = index_source_row(k->drawn, 0, row + state->r[1], 0);
    op_begin(op, WAVE_ATOMIC, state->r[1] == 0 ? (uint8_t)(state->r[0] - state->trip - 1) : WAVE_NO_WAIT);
    op_work(op, 2, 4, k->interval);
    op->lds_bytes = (uint32_t)bytes;
    op->atomic_type = k->type;
    op->element_bytes = k->element_bytes;
    op_span(op, k->target + to * k->row_bytes + offset, bytes);
    op->work_units = 1;
    if (++state->r[1] == rows) {
        state->r[1] = 0;
        state->trip++;
    }
}

static void bulk_plan(struct kernel_build *build, const struct scatter *shape, struct index_source *drawn, uint32_t rows)
{
    const struct chip_profile *chip = build->machine->chip;
    double interval = chip != NULL ? chip->unit_bulk_interval : 16;
    struct wave_program *program = kernel_program_create("bulk scatter-add", sizeof(struct bulk), bulk_next);
    struct bulk *k = program->context;
    *k = (struct bulk){ .drawn = drawn, .n = shape->n, .row_bytes = shape->width * shape->element_bytes, .type = shape->type,
                        .element_bytes = (uint8_t)shape->element_bytes, .interval = (uint32_t)(interval * BULK_WAVES + 0.5) };
    kernel_program_adopt(program, drawn, index_source_release);
    k->chunks = (uint32_t)ceil_div(k->row_bytes, BULK_CHUNK);
    k->rows = k->chunks > 1 ? 1 : rows;
    k->tiles = ceil_div(k->n, k->rows) * k->chunks;
    k->target = kernel_program_tensor(program, "target", (double)shape->rows * (double)k->row_bytes);
    k->source = kernel_program_tensor(program, "source", (double)k->n * (double)k->row_bytes);
    k->indices = kernel_program_tensor(program, "indices", 8.0 * (double)k->n);
    program->workgroups = min_u64(build->machine->units, ceil_div(k->tiles, BULK_WAVES));
    program->waves_per_workgroup = BULK_WAVES;
    k->waves = program->workgroups * BULK_WAVES;
    program->registers_per_lane = 40;
    program->workgroups_per_unit_max = 1;
    program->lds_bytes = (uint32_t)(BULK_WAVES * BULK_TILES_AHEAD * k->rows * min_u64(k->row_bytes, BULK_CHUNK));
    program->work_units_total = k->n * k->chunks;
    program->trips_per_wave = max_u64(1, k->tiles / k->waves);
    program->flops = build->plan->flops;
    kernel_require_lds(build, program->lds_bytes);
    if (interval <= 0) {
        kernel_fail(build, SIM_UNSUPPORTED, "parameter code=bulk is not valid: the device has no bulk reductions (unit.bulk_interval is 0)");
    }
    kernel_plan_add(build, program, 1);
}

/* index_add, index_put with accumulation, scatter_add and the gradient of a small embedding table run one and the same
 * kernel. 16-bit elements: each lane's addition goes by the packed atomic on its pair of elements, with a zero beside it. */
static void index_add_build(struct kernel_build *build)
{
    struct scatter shape = scatter_read(build, false);
    uint32_t type = (uint32_t)kernel_param_choice_or(build, "dtype", "fp32|fp16|bf16|float32|float16|bfloat16", 0, NULL) % 3;
    struct index_request request = index_request_read(build, INDEX_UNIFORM, INDEX_ZIPF);
    shape.flags = scatter_flags(build);
    shape.block = 128;
    kernel_fix_read_copies(build);
    bool bulk = kernel_param_choice_or(build, "code", "element|bulk", 0, NULL) == 1;
    uint32_t bulk_rows = bulk ? (uint32_t)kernel_param_integer_or(build, "tile", 1, BULK_ROWS_MAX, 4, "rows that one bulk load brings; 1 in "
                                                                  "earlier versions") : 0;
    if (type != 0) {
        shape.element_bytes = 2;
        shape.type = WAVE_ATOMIC_PACKED16;
    }
    double source_bytes = (double)shape.element_bytes * (double)shape.n * (double)shape.width;
    double target_bytes = (double)shape.element_bytes * (double)shape.rows * (double)shape.width;
    kernel_require_hbm(build, source_bytes + target_bytes, "source and target");
    if (bulk && (build->fixes != 0 || shape.flags != 0)) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter code=bulk goes without fixes, kind and order");
    }
    if (bulk && shape.width * shape.element_bytes % 16 != 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter code=bulk is not valid: rows must be a multiple of 16 bytes");
    }
    if (!kernel_params_done(build)) {
        return;
    }
    struct index_source *drawn = index_request_open(build, &request, 1, shape.n, 1, shape.rows, SCATTER_SEED + 1);
    if (drawn == NULL) {
        return;
    }
    build->plan->flops = (double)shape.n * (double)shape.width;
    kernel_value_per_time(build, 2 * source_bytes * 1e-6, "TB/s");
    if (bulk) {
        bulk_plan(build, &shape, drawn, bulk_rows);
        return;
    }
    if (kernel_has_fix(build, KERNEL_FIX_SORT_SEGMENT)) {
        kernel_plan_add_sort_segment(build, drawn,
                                     &(struct segment_shape){ (uint32_t)shape.width, shape.element_bytes, 8,
                                                              (enum wave_atomic_type)shape.type, true });
        return;
    }
    struct wave_program *program = kernel_program_create("index_add", sizeof(struct scatter), index_add_next);
    struct scatter *k = program->context;
    *k = shape;
    k->drawn = drawn;
    kernel_program_adopt(program, drawn, index_source_release);
    k->target = kernel_program_tensor(program, "target", target_bytes);
    k->source = kernel_program_tensor(program, "source", source_bytes);
    k->indices = kernel_program_tensor(program, "indices", 8.0 * (double)k->n);
    program->registers_per_lane = 32;
    scatter_grid(build, program, k, k->n * k->width);
    program->flops = build->plan->flops;
    uint64_t target = k->target;
    kernel_plan_add(build, program, 1);
    kernel_fix_target(build, target, target_bytes, shape.element_bytes, shape.element_bytes,
                      (enum wave_atomic_type)shape.type);
}

/* ---- index_select: a workgroup an index, 16 bytes a lane ---- */

struct row_select {
    struct index_source *drawn;
    uint64_t n, row_bytes, row_groups; /* row_groups: workgroups a row (grid.y) */
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
        op_span(op, k->source + index_source_row(k->drawn, 0, index, 0) * k->row_bytes + lane_first, bytes);
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
    kernel_param_choice_or(build, "dtype", "fp32|float32", 0, NULL);
    struct index_request request = index_request_read(build, INDEX_UNIFORM, INDEX_ZIPF);
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
    struct index_source *drawn = index_request_open(build, &request, 1, shape.n, 1, shape.rows, SCATTER_SEED + 1);
    if (drawn == NULL) {
        return;
    }
    struct wave_program *program = kernel_program_create("index_select", sizeof(struct row_select), row_select_next);
    struct row_select *k = program->context;
    *k = (struct row_select){ .drawn = drawn, .n = shape.n, .row_bytes = shape.width * 4, .lanes = shape.lanes };
    kernel_program_adopt(program, drawn, index_source_release);
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
            op->lds_bytes = (uint32_t)(k->rows * k->element_bytes * k->lanes / k->block);
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
        op->element_bytes = (uint8_t)k->element_bytes;
        op->lane_count = (uint32_t)count;
        for (uint64_t e = 0; e < count; e++) {
            op->lane_address[e] = k->target + scatter_row(k, first + e) * k->element_bytes;
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
        op->lds_bytes = (uint32_t)count * k->element_bytes;
        op->atomic_type = WAVE_ATOMIC_INT;
        op->atomic_flags = k->flags;
        op->element_bytes = (uint8_t)k->element_bytes;
        op_span(op, k->target + bin * k->element_bytes, count * k->element_bytes);
        op_lanes(op, count);
    }
    }
}

static void histogram_of(struct kernel_build *build, struct scatter shape)
{
    struct index_request request = index_request_read(build, INDEX_UNIFORM, INDEX_ZIPF);
    shape.flags = scatter_flags(build);
    shape.private_bins = kernel_param_choice_or(build, "bins", "global|private", 0, NULL) == 1;
    shape.type = WAVE_ATOMIC_INT;
    shape.block = 256;
    kernel_fix_read_copies(build);
    if (shape.private_bins && build->fixes != 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter bins=private is fix privatise already: give one of them");
    }
    double counter_bytes = (double)shape.element_bytes * (double)shape.rows;
    kernel_require_hbm(build, 4.0 * (double)shape.n + counter_bytes, "values and counters");
    if (shape.private_bins) {
        kernel_require_lds(build, shape.rows * shape.element_bytes);
    }
    if (!kernel_params_done(build)) {
        return;
    }
    struct index_source *drawn = index_request_open(build, &request, 1, shape.n, 1, shape.rows, SCATTER_SEED + 1);
    if (drawn == NULL) {
        return;
    }
    kernel_value_per_time(build, (double)shape.n * 1e-3, "Gop/s");
    if (kernel_has_fix(build, KERNEL_FIX_SORT_SEGMENT)) {
        kernel_plan_add_sort_segment(build, drawn, &(struct segment_shape){ 1, shape.element_bytes, 4, WAVE_ATOMIC_INT, false });
        return;
    }
    struct wave_program *program = kernel_program_create("histogram", sizeof(struct scatter), histogram_next);
    struct scatter *k = program->context;
    *k = shape;
    k->drawn = drawn;
    kernel_program_adopt(program, drawn, index_source_release);
    k->target = kernel_program_tensor(program, "counters", counter_bytes);
    k->source = kernel_program_tensor(program, "values", 4.0 * (double)k->n);
    program->registers_per_lane = 24;
    program->lds_bytes = shape.private_bins ? (uint32_t)counter_bytes : 0;
    scatter_grid(build, program, k, k->n);
    uint64_t target = k->target;
    kernel_plan_add(build, program, 1);
    kernel_fix_target(build, target, counter_bytes, shape.element_bytes, shape.element_bytes, WAVE_ATOMIC_INT);
}

static void histogram_build(struct kernel_build *build)
{
    struct scatter shape = scatter_read(build, true);
    shape.element_bytes = kernel_param_choice_or(build, "counter", "u32|u64", 0, NULL) == 1 ? 8 : 4;
    histogram_of(build, shape);
}

/* That of a public collection of MI300X times: a u64 counter a bin, about ten bins. */
static void ten_bins_build(struct kernel_build *build)
{
    struct scatter shape = { .lanes = build->machine->lanes, .element_bytes = 8, .width = 1 };
    shape.n = kernel_param_integer(build, "n", 1, 1ull << 32);
    shape.rows = kernel_param_unknown(build, "rows", 1, 1ull << 32, (struct kernel_unknown){ 10, 8, 12, "about 10 bins, filled evenly" });
    histogram_of(build, shape);
}

#define ATOMIC_HELP ", kind (native|cas), order (relaxed|acq_rel), copies" INDEX_HELP
#define ADD_HELP "n, D (elements of a row), rows, dtype (fp32|fp16|bf16), code (element|bulk), tile (rows of a bulk load)" ATOMIC_HELP

const struct kernel_definition scatter_kernels[] = {
    { "scatter", "index_add", "rows of a source added to random rows by atomics", ADD_HELP, index_add_build },
    { "scatter", "index_put", "the same under accumulation", ADD_HELP, index_add_build },
    { "scatter", "scatter_add", "the same by element indices of a row", ADD_HELP, index_add_build },
    { "embedding", "backward_atomic", "the gradient of a small table, by the same kernel", ADD_HELP, index_add_build },
    { "scatter", "index_select", "random rows copied, a workgroup a row",
      "n, D (fp32 elements), rows, dtype (fp32)" INDEX_HELP, index_select_build },
    { "scatter", "histogram", "values counted by integer atomics",
      "n, rows (counters), bins (global|private: in shared memory first), counter (u32|u64)" ATOMIC_HELP, histogram_build },
    { "npb_ep", "histogram", "values counted in a few u64 counters", "n, rows, bins" ATOMIC_HELP, ten_bins_build },
    { .suite = NULL },
};
