/* embedding: PyTorch's embedding_bag (sum). Forward: a wave takes 32 columns (its lanes) of a bag and walks the lookups
 * one by one. Dense backward: a gradient of the table's full size, zeroed, and a sort-based accumulation:
 *   zeros, arange, radix sort of all 64 key bits, unique_by_key, partial counts and their sums, partial sums of up to 10
 *   lookups, and a sum per distinct row that writes its gradient row.
 * Structure from the library's sources of 2.x, launch by launch as recorded on H200; its grids are sized by upper bounds
 * (the counts stay on the device). */
#include "workloads/kernels/index_draw_internal.h"

#define EMBEDDING_SEED 23 /* the measuring program draws with the framework's generator */
#define PARTIAL 10        /* lookups of one partial sum */
#define INDEX_BYTES 8

struct bag {
    struct index_source *source;
    struct run_table *runs;
    uint32_t *first_partial;       /* [runs + 1], backward */
    uint64_t bags, length, rows, width, chunks; /* chunks of `lanes` columns */
    uint32_t lanes, element_bytes;
    uint64_t weights, indices, offsets, output, offset2bag, bag_size;      /* forward */
    struct index_request request;
    uint64_t gradient, order, partial_starts, partial_sums, counts, sorted, run_starts, run_partials, table_gradient;
};

/* Columns of a chunk: first, and how many. */
static uint64_t chunk_columns(const struct bag *k, uint64_t chunk, uint64_t *first)
{
    *first = chunk * k->lanes;
    return min_u64(k->lanes, k->width - *first);
}

/* ---- forward ---- */

#define FORWARD_GRID 1024
#define FORWARD_ROWS 8 /* waves a workgroup: block (lanes, 256 / lanes) */

/* trip = (bag chunk of the wave) x length + lookup. Read from the library's own machine code (2.11, sm_90, 40 registers)
 * with executions and stalls counted per instruction on the H200. The compiler split the loop over a bag in two, since the
 * assertion on each index does not depend on the rows:
 *   check   all indices of the bag, in blocks of 16 (5, 5, then 6 loads in flight), of 4, then 1 and up to 2 at the end
 *   sum     the indices again, now from L1, and the rows: four lookups a trip. Each index is waited for alone, but rows 0
 *           to 2 stay in flight until the fourth address is needed, whose index the compiler placed behind the wait for row
 *           0; lookups left over go one by one.
 * The store of the lookup's bag (first column's lane) costs its issue slot in every chunk. */
enum bag_step { BAG_NEXT, BAG_CHECK, BAG_SUM, BAG_ORIGIN, BAG_SIZE, BAG_STORE };

struct bag_cost {
    uint8_t issue, valu, latency;
};

/* The check's steps, and what runs between a step and the next. */
enum bag_check { CHECK_START, CHECK_FIVE, CHECK_FIVE_MORE, CHECK_SIX, CHECK_FOUR, CHECK_ONE, CHECK_TWO };
static const struct bag_cost bag_check_before[] = {
    [CHECK_FIVE] = { 7, 2, 26 }, [CHECK_FIVE_MORE] = { 5, 15, 14 }, [CHECK_SIX] = { 6, 19, 25 },
    [CHECK_FOUR] = { 13, 6, 119 }, [CHECK_ONE] = { 5, 4, 29 }, [CHECK_TWO] = { 4, 9, 39 },
};
static const struct bag_cost bag_check_after[] = {
    [CHECK_START] = { 11, 32, 119 }, [CHECK_SIX] = { 1, 30, 38 }, [CHECK_FOUR] = { 1, 22, 45 }, [CHECK_TWO] = { 0 },
};

/* The step after `last` with `left` lookups to check; CHECK_START: none is left. */
static enum bag_check bag_check_step(enum bag_check last, uint64_t left)
{
    if (last == CHECK_FIVE || last == CHECK_FIVE_MORE) {
        return last + 1;
    }
    return left >= 16 ? CHECK_FIVE : left >= 4 ? CHECK_FOUR : left == 0 ? CHECK_START
           : last == CHECK_ONE ? CHECK_TWO : CHECK_ONE;
}

static uint64_t bag_check_count(enum bag_check step, uint64_t left)
{
    static const uint8_t counts[] = { 0, 5, 5, 6, 4, 1, 2 };
    return min_u64(counts[step], left);
}

/* One access of the sum: what it loads, earlier loads it may leave in flight, its instructions. */
enum bag_access { BAG_INDEX, BAG_ROW, BAG_ADD };
struct bag_sum_step {
    uint8_t access, lookup, wait;
    struct bag_cost cost;
};
static const struct bag_sum_step bag_four[] = {
    { BAG_INDEX, 0, 0, { 2, 4, 11 } },           { BAG_ROW, 0, 0, { 5, 12, 14 } },
    { BAG_INDEX, 1, WAVE_NO_WAIT, { 2, 0, 6 } }, { BAG_ROW, 1, 1, { 2, 6, 16 } },
    { BAG_INDEX, 2, WAVE_NO_WAIT, { 2, 2, 33 } }, { BAG_ROW, 2, 2, { 2, 15, 22 } },
    { BAG_INDEX, 3, WAVE_NO_WAIT, { 2, 1, 8 } }, { BAG_ROW, 3, 2, { 1, 10, 23 } },
    { BAG_ADD, 3, 1, { 2, 28, 29 } },
};
static const struct bag_sum_step bag_one[] = { { BAG_INDEX, 0, 0, { 2, 7, 19 } }, { BAG_ROW, 0, 0, { 1, 6, 15 } } };

/* The trip of the sum is over when its last step is: on to the next, or to the bag's end. The bag's last trip is counted
 * when its result is stored (r[5]), since trip says which bag this is. */
static void bag_trip_end(uint64_t left, struct wave_state *state)
{
    uint64_t covered = left >= 4 ? 4 : 1;
    if (state->r[3] < (left >= 4 ? sizeof bag_four / sizeof bag_four[0] : sizeof bag_one / sizeof bag_one[0])) {
        return;
    }
    state->r[3] = 0;
    state->r[5] = covered;
    if (covered == left) {
        state->pc = BAG_SIZE;
    } else {
        state->trip += covered;
    }
}

/* r[0]: 1 once started; r[1]: lookups checked so far; r[2]: last step of the check; r[3]: step of the sum's
 * trip; r[5]: lookups of the bag's last trip. */
static void bag_forward_next(const struct wave_program *program, const struct wave_window *window,
                             struct wave_state *state, struct wave_op *op)
{
    const struct bag *k = program->context;
    uint64_t waves = program->workgroups * program->waves_per_workgroup, total = k->bags * k->chunks;
    if (state->r[0] == 0) {
        state->r[0] = 1;
        wave_first_trip(window, state);
    }
    uint64_t item = wave_index(program, state) + state->trip / k->length * waves;
    uint64_t bag = item / k->chunks, chunk = item % k->chunks, first;
    uint64_t columns = chunk_columns(k, chunk, &first), lookup = state->trip % k->length;
    uint64_t left = state->trip < window->trip_limit ? min_u64(k->length - lookup, window->trip_limit - state->trip) : 0;
    uint64_t index = k->indices + (bag * k->length + lookup) * INDEX_BYTES;
    op_lanes(op, columns);
    switch (state->pc) {
    case BAG_NEXT:
        if (item >= total || left == 0) {
            op_end(op);
            return;
        }
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 22, 61, 223 + 4 * KERNEL_SPECIAL_CYCLES);
        op_span_apart(op, k->offsets + bag * 8, 8);
        op_span_apart(op, k->offsets + (bag + 1 < k->bags ? bag + 1 : bag) * 8, 8);
        state->r[1] = state->r[2] = state->r[3] = 0;
        state->pc = BAG_CHECK;
        return;
    case BAG_CHECK: {
        enum bag_check last = (enum bag_check)state->r[2], step = bag_check_step(last, left - state->r[1]);
        uint64_t count = bag_check_count(step, left - state->r[1]);
        struct bag_cost before = step == CHECK_START ? (struct bag_cost){ 13, 32, 143 } : bag_check_before[step];
        struct bag_cost after = bag_check_after[last <= CHECK_FOUR ? last : CHECK_TWO];
        op_begin(op, count > 0 ? WAVE_LOAD : WAVE_COMPUTE, 0);
        op_work(op, before.issue + after.issue, before.valu + after.valu, before.latency + after.latency);
        for (uint64_t i = 0; i < count; i++) {
            op_span_apart(op, index + (state->r[1] + i) * INDEX_BYTES, INDEX_BYTES);
        }
        state->r[1] += count;
        state->r[2] = step;
        state->pc = count > 0 ? BAG_CHECK : BAG_SUM;
        return;
    }
    case BAG_SUM: {
        bool four = left >= 4; /* the same in all steps of a trip */
        struct bag_sum_step step = (four ? bag_four : bag_one)[state->r[3]++];
        bool closes = four ? step.access == BAG_ADD : step.access == BAG_ROW;
        uint32_t convert = k->element_bytes == 2 && closes ? (four ? 8 : 2) : 0; /* two instructions a half row */
        op_begin(op, step.access == BAG_ADD ? WAVE_COMPUTE : WAVE_LOAD, step.wait);
        op_work(op, step.cost.issue, step.cost.valu + convert, step.cost.latency);
        if (step.access == BAG_INDEX) {
            op_span(op, index + step.lookup * INDEX_BYTES, INDEX_BYTES);
        } else if (step.access == BAG_ROW) {
            uint64_t row = index_source_row(k->source, 0, bag, lookup + step.lookup);
            op_span(op, k->weights + (row * k->width + first) * k->element_bytes, columns * k->element_bytes);
            op->work_units = 1;
            state->pc = chunk == 0 ? BAG_ORIGIN : BAG_SUM;
        }
        if (state->pc == BAG_SUM) {
            bag_trip_end(left, state);
        }
        return;
    }
    case BAG_ORIGIN:
        op_begin(op, WAVE_STORE, WAVE_NO_WAIT);
        op_span(op, k->offset2bag + (bag * k->length + lookup + state->r[3] / 2 - 1) * 8, 8);
        op_lanes(op, 1);
        state->pc = BAG_SUM;
        bag_trip_end(left, state);
        return;
    case BAG_SIZE:
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 9, 24, 80);
        op_span(op, k->bag_size + bag * 8, 8);
        state->pc = BAG_STORE;
        return;
    default:
        op_begin(op, WAVE_STORE, WAVE_NO_WAIT);
        op_work(op, 1, 0, 3);
        op_span(op, k->output + (bag * k->width + first) * k->element_bytes, columns * k->element_bytes);
        state->trip += state->r[5];
        state->pc = BAG_NEXT;
    }
}

/* ---- backward: partial sums ---- */

/* The partial sum `id`: r[0] its run, r[1] its first lookup in the run, r[2] how many. */
static bool partial_find(const struct bag *k, uint64_t id, struct wave_state *state)
{
    uint64_t low = 0, high = k->runs->count;
    if (id >= k->first_partial[k->runs->count]) {
        return false;
    }
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        if (k->first_partial[middle] <= id) {
            low = middle;
        } else {
            high = middle;
        }
    }
    state->r[0] = low;
    state->r[1] = (id - k->first_partial[low]) * PARTIAL;
    state->r[2] = min_u64(PARTIAL, run_table_length(k->runs, low) - state->r[1]);
    return true;
}

enum partial_step { PARTIAL_COUNT, PARTIAL_BOUNDS, PARTIAL_ORDER, PARTIAL_BAG, PARTIAL_ROW, PARTIAL_STORE, PARTIAL_END };

/* sm_90 (re-expressed; 32 registers as recorded). 4 instructions to the number of partial sums, 85 to the bounds (237 cycles, one
 * 64-bit division by the 32-bit path); per lookup three loads in a row: place, bag, gradient (17, 4 and 15
 * instructions). */
static void partial_sum_next(const struct wave_program *program, const struct wave_window *window,
                             struct wave_state *state, struct wave_op *op)
{
    const struct bag *k = program->context;
    uint64_t wave = wave_index(program, state), id = wave / k->chunks, first;
    uint64_t columns = chunk_columns(k, wave % k->chunks, &first);
    uint64_t sorted = k->runs->starts[state->r[0]] + state->r[1] + state->trip; /* place in sorted order */
    op_lanes(op, columns);
    switch (state->pc) {
    case PARTIAL_COUNT:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 2, 2, 8 + KERNEL_SPECIAL_CYCLES);
        op_span(op, k->counts, 8);
        state->pc = partial_find(k, id, state) ? PARTIAL_BOUNDS : PARTIAL_END;
        wave_first_trip(window, state);
        return;
    case PARTIAL_BOUNDS:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 38, 47, 152 + 5 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->partial_starts + id * 8, id + 1 < k->first_partial[k->runs->count] ? 16 : 8);
        state->pc = PARTIAL_ORDER;
        return;
    case PARTIAL_ORDER:
        if (state->trip >= min_u64(state->r[2], window->trip_limit)) {
            op_begin(op, WAVE_STORE, 0);
            op_work(op, 4, 8, 25);
            op_span(op, k->partial_sums + (id * k->width + first) * 4, columns * 4);
            state->pc = PARTIAL_END;
            return;
        }
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 4, 9, 30);
        op_span(op, k->order + sorted * 8, 8);
        state->pc = PARTIAL_BAG;
        return;
    case PARTIAL_BAG: {
        uint64_t bag = run_table_bag(k->runs, k->source, 0, state->r[0], state->r[1] + state->trip);
        uint64_t place = splitmix64_at(EMBEDDING_SEED + 1, sorted) % k->length;
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 1, 3, 10);
        op_span(op, k->offset2bag + (bag * k->length + place) * 8, 8);
        state->pc = PARTIAL_ROW;
        return;
    }
    case PARTIAL_ROW: {
        uint64_t bag = run_table_bag(k->runs, k->source, 0, state->r[0], state->r[1] + state->trip);
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 4, 11, 30);
        op_span(op, k->gradient + (bag * k->width + first) * k->element_bytes, columns * k->element_bytes);
        op->work_units = 1;
        state->trip++;
        state->pc = PARTIAL_ORDER;
        return;
    }
    default:
        op_end(op);
    }
}

/* ---- backward: sum per distinct row ---- */

enum total_step { TOTAL_COUNT, TOTAL_BOUNDS, TOTAL_SUM, TOTAL_START, TOTAL_KEY, TOTAL_STORE, TOTAL_END };

/* sm_90 (re-expressed; 24 registers as recorded): 67 instructions with a division to the bounds (245 cycles), four partial sums in
 * flight (19 instructions, 49), then run start, row number and store in a row. */
static void total_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                       struct wave_op *op)
{
    const struct bag *k = program->context;
    uint64_t wave = wave_index(program, state), run = wave / k->chunks, first;
    uint64_t columns = chunk_columns(k, wave % k->chunks, &first);
    op_lanes(op, columns);
    switch (state->pc) {
    case TOTAL_COUNT:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 2, 2, 8 + KERNEL_SPECIAL_CYCLES);
        op_span(op, k->counts, 16);
        wave_first_trip(window, state);
        state->pc = run < k->runs->count ? TOTAL_BOUNDS : TOTAL_END;
        return;
    case TOTAL_BOUNDS:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 14, 53, 178 + 5 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->run_partials + run * 8, run + 1 < k->runs->count ? 16 : 8);
        state->pc = TOTAL_SUM;
        return;
    case TOTAL_SUM: {
        uint64_t from = k->first_partial[run] + state->trip;
        uint64_t limit = min_u64(k->first_partial[run + 1] - k->first_partial[run], window->trip_limit);
        uint64_t count = state->trip < limit ? (limit - state->trip >= 4 ? 4 : 1) : 0;
        if (count > 0) {
            op_begin(op, WAVE_LOAD, 0);
            op_work(op, count == 4 ? 5 : 2, count == 4 ? 14 : 5, count == 4 ? 30 : 17);
            for (uint64_t i = 0; i < count; i++) {
                op_span_apart(op, k->partial_sums + ((from + i) * k->width + first) * 4, columns * 4);
            }
            op->work_units = (uint32_t)count;
            state->trip += count;
            return;
        }
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 3, 2, 9);
        op_span(op, k->run_starts + run * 8, 8);
        state->pc = TOTAL_KEY;
        return;
    }
    case TOTAL_KEY:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 2, 3, 11);
        op_span(op, k->sorted + (uint64_t)k->runs->starts[run] * 8, 8);
        state->pc = TOTAL_STORE;
        return;
    case TOTAL_STORE:
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 4, 9, 32);
        op_span(op, k->table_gradient + (k->runs->rows[run] * k->width + first) * k->element_bytes,
                columns * k->element_bytes);
        state->pc = TOTAL_END;
        return;
    default:
        op_end(op);
    }
}

/* ---- building ---- */

static struct bag bag_read(struct kernel_build *build)
{
    struct bag k = { .lanes = build->machine->lanes };
    k.bags = kernel_param_integer(build, "B", 1, 1ull << 30);
    k.length = kernel_param_integer(build, "L", 1, 1ull << 20);
    k.width = kernel_param_integer(build, "D", 1, 16384);
    k.rows = kernel_param_integer(build, "rows", 1, UINT32_MAX);
    k.element_bytes = kernel_dtype_bytes(kernel_param_dtype(build, "dtype"));
    k.request = index_request_read(build, INDEX_UNIFORM, INDEX_ZIPF);
    k.chunks = ceil_div(k.width, k.lanes);
    double lookups = (double)k.bags * (double)k.length, row_bytes = (double)k.width * k.element_bytes;
    if (lookups >= 4294967295.0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameters B and L are not valid: at most 4294967295 lookups, got %.4g",
                    lookups);
    }
    kernel_require_hbm(build, (double)k.rows * row_bytes, "the table");
    kernel_require_hbm(build, (double)k.bags * row_bytes + 3 * 8 * lookups, "indices and pooled rows");
    return k;
}

static void bag_value(struct kernel_build *build, const struct bag *k)
{
    double bytes = (double)k->bags * (double)k->length * (double)k->width * k->element_bytes;
    kernel_value_per_time(build, bytes * 1e-6, "TB/s");
    build->plan->flops = (double)k->bags * (double)k->length * (double)k->width;
}

static struct index_source *bag_source(struct kernel_build *build, const struct bag *k)
{
    return index_request_open(build, &k->request, 1, k->bags, k->length, k->rows, EMBEDDING_SEED);
}

static void bag_forward_build(struct kernel_build *build)
{
    struct bag shape = bag_read(build);
    if (!kernel_params_done(build)) {
        return;
    }
    struct index_source *source = bag_source(build, &shape);
    if (source == NULL) {
        return;
    }
    struct wave_program *program = kernel_program_create("embedding_bag forward", sizeof(struct bag),
                                                         bag_forward_next);
    struct bag *k = program->context;
    *k = shape;
    k->source = source;
    kernel_program_adopt(program, k->source, index_source_release);
    double lookups = (double)k->bags * (double)k->length, row_bytes = (double)k->width * k->element_bytes;
    k->weights = kernel_program_tensor(program, "table", (double)k->rows * row_bytes);
    k->indices = kernel_program_tensor(program, "indices", lookups * INDEX_BYTES);
    k->offsets = kernel_program_tensor(program, "offsets", (double)k->bags * 8);
    k->output = kernel_program_tensor(program, "pooled rows", (double)k->bags * row_bytes);
    k->offset2bag = kernel_program_tensor(program, "bag of lookup", lookups * 8);
    k->bag_size = kernel_program_tensor(program, "bag sizes", (double)k->bags * 8);
    program->registers_per_lane = 40;
    program->workgroups = FORWARD_GRID;
    program->waves_per_workgroup = 256 / k->lanes;
    program->work_units_total = k->bags * k->chunks * k->length;
    program->trips_per_wave = max_u64(1, k->bags * k->chunks / (program->workgroups * program->waves_per_workgroup)) *
                              k->length;
    program->trips_period = k->length;
    program->flops = lookups * (double)k->width;
    kernel_plan_add(build, program, 1);
    bag_value(build, k);
}

/* Both accumulation kernels; `waves` is the grid in waves of `lanes` columns. */
static struct wave_program *accumulate_program(const struct bag *shape, struct index_source *source,
                                               struct run_table *runs, const char *name, wave_next next,
                                               uint64_t sums)
{
    struct wave_program *program = kernel_program_create(name, sizeof(struct bag), next);
    struct bag *k = program->context;
    *k = *shape;
    k->source = index_source_share(source);
    kernel_program_adopt(program, source, index_source_release);
    k->runs = run_table_share(runs);
    kernel_program_adopt(program, runs, run_table_release);
    k->first_partial = kernel_program_scratch(program, (runs->count + 1) * sizeof *k->first_partial);
    for (uint64_t run = 0; run < runs->count; run++) {
        k->first_partial[run + 1] = k->first_partial[run] + (uint32_t)ceil_div(run_table_length(runs, run), PARTIAL);
    }
    uint64_t block_waves = min_u64(k->chunks, 1024 / k->lanes);
    program->waves_per_workgroup = (uint32_t)block_waves;
    program->workgroups = ceil_div(sums * k->chunks, block_waves);
    program->workgroups_differ = true;
    k->counts = kernel_program_tensor(program, "counts", 16);
    k->partial_sums = kernel_program_tensor(program, "partial sums",
                                            (double)k->first_partial[runs->count] * (double)k->width * 4);
    return program;
}

static void add_partial_sums(struct kernel_build *build, const struct bag *shape, struct index_source *source,
                             struct run_table *runs, uint64_t most)
{
    struct wave_program *program = accumulate_program(shape, source, runs, "embedding gradient: partial sums",
                                                      partial_sum_next, most);
    struct bag *k = program->context;
    double lookups = (double)runs->lookups;
    k->partial_starts = kernel_program_tensor(program, "partial starts", 8.0 * k->first_partial[runs->count]);
    k->order = kernel_program_tensor(program, "sorted places", 8 * lookups);
    k->offset2bag = kernel_program_tensor(program, "bag of lookup", 8 * lookups);
    k->gradient = kernel_program_tensor(program, "gradient", (double)k->bags * (double)k->width * k->element_bytes);
    program->registers_per_lane = 32;
    program->work_units_total = runs->lookups * k->chunks;
    kernel_program_loops(program, build->machine, runs->lookups / k->first_partial[runs->count]);
    kernel_plan_add(build, program, 1);
}

static void add_totals(struct kernel_build *build, const struct bag *shape, struct index_source *source,
                       struct run_table *runs, uint64_t most)
{
    struct wave_program *program = accumulate_program(shape, source, runs, "embedding gradient: row sums", total_next,
                                                      most);
    struct bag *k = program->context;
    k->run_partials = kernel_program_tensor(program, "first partials", 8.0 * (double)runs->count);
    k->run_starts = kernel_program_tensor(program, "run starts", 8.0 * (double)runs->count);
    k->sorted = kernel_program_tensor(program, "sorted rows", 8.0 * (double)runs->lookups);
    k->table_gradient = kernel_program_tensor(program, "table gradient",
                                              (double)k->rows * (double)k->width * k->element_bytes);
    program->registers_per_lane = 24;
    program->work_units_total = k->first_partial[runs->count] * k->chunks;
    kernel_program_loops(program, build->machine, k->first_partial[runs->count] / runs->count);
    kernel_plan_add(build, program, 1);
}

static void bag_backward_dense_build(struct kernel_build *build)
{
    struct bag shape = bag_read(build);
    kernel_require_hbm(build, (double)shape.bags * (double)shape.length * (double)shape.width * 4, "partial sums");
    if (!kernel_params_done(build)) {
        return;
    }
    struct index_source *source = bag_source(build, &shape);
    if (source == NULL) {
        return;
    }
    struct run_table *runs = run_table_create(source);
    uint64_t lookups = runs->lookups, most_runs = min_u64(lookups, shape.rows);
    uint64_t most_partials = lookups / PARTIAL + most_runs;
    /* sm_90 (re-expressed): 27 instructions to the run's bounds, 21 to the store. Registers as recorded. */
    struct kernel_map_cost per_run = { 9, 18, 45 + 3 * KERNEL_SPECIAL_CYCLES, 2, 19, 40, 16 };
    struct kernel_map_cost trivial = { 6, 10, 40 + 2 * KERNEL_SPECIAL_CYCLES, 2, 6, 12, 16 };
    kernel_plan_add_fill(build, (double)shape.rows * (double)shape.width * shape.element_bytes, 1);
    kernel_plan_add_map(build, "arange", lookups, 64, 0, 8, trivial);
    kernel_plan_add_sort(build, lookups, 8, 8, 64, kernel_key_bits(shape.rows));
    kernel_plan_add_chained(build, KERNEL_UNIQUE_BY_KEY, lookups, runs->count);
    kernel_plan_add_map(build, "partial sums per run", most_runs, 32, 8, 8, per_run);
    kernel_plan_add_chained(build, KERNEL_EXCLUSIVE_SUM, most_runs, most_runs);
    kernel_plan_add_map(build, "number of partial sums", 1, 1, 16, 8, trivial);
    kernel_plan_add_map(build, "partial starts", most_runs, 32, 24, 8, per_run);
    if (kernel_build_ok(build)) {
        add_partial_sums(build, &shape, source, runs, most_partials);
    }
    if (kernel_build_ok(build)) {
        add_totals(build, &shape, source, runs, most_runs);
    }
    run_table_release(runs);
    index_source_release(source);
    bag_value(build, &shape);
}

#define BAG_HELP "B (bags), L (lookups a bag), D, rows, dtype (float32|float16|bfloat16)" INDEX_HELP

const struct kernel_definition embedding_kernels[] = {
    { "embedding", "bag_forward", "PyTorch embedding_bag, sum", BAG_HELP, bag_forward_build },
    { "embedding", "bag_backward_dense", "its dense gradient: zeros, sort, partial sums, row sums", BAG_HELP,
      bag_backward_dense_build },
    { .suite = NULL },
};
