/* Building blocks around sorting: a one-sweep radix sort as CUB 3.0 (CUDA 13.0) builds it for pairs, its chained passes
 * (selection, unique keys, sums), and two trivial ones. Shapes that the compiled sources do not show (8-byte keys) are
 * those of recorded launches on H200: threads, registers, shared memory, grid.
 *
 * The sort reads all keys once for the histograms of all digits, sums them, and then sweeps once per 8-bit digit: a
 * workgroup takes the next tile (a counter), ranks its keys in shared memory, learns where its digits start by looking
 * back at the tiles before it, and writes keys and values to their places. Tiles have 384 threads with 17 pairs each for
 * 4-byte keys (12 for 8-byte ones).
 * Model: digits are evenly spread, so each of a tile's runs is tile / 2^bits long; a lookback is two dependent loads. A
 * digit that all keys share leaves full tiles in order: they skip the ranking, as the library does. */
#include "workloads/kernels/sort_internal.h"

#define SWEEP_THREADS 384
#define DIGITS SORT_DIGITS
#define HISTOGRAM_THREADS 128
#define HISTOGRAM_ITEMS 16

uint32_t kernel_key_bits(uint64_t count)
{
    uint32_t bits = 1;
    while (bits < 64 && (1ull << bits) < count) {
        bits++;
    }
    return bits;
}

/* ---- fill ---- */

struct fill {
    uint64_t bytes, target;
    uint32_t lanes;
};

static void fill_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                      struct wave_op *op)
{
    const struct fill *k = program->context;
    (void)window;
    uint64_t first = wave_index(program, state) * k->lanes * 16;
    if (state->pc == 1 || first >= k->bytes) {
        op_end(op);
        return;
    }
    uint64_t bytes = min_u64(k->lanes * 16ull, k->bytes - first);
    state->pc = 1;
    op_begin(op, WAVE_STORE, WAVE_NO_WAIT);
    op_work(op, 6, 14, 40 + 2 * KERNEL_SPECIAL_CYCLES);
    op_span(op, k->target + first, bytes);
    op_lanes(op, ceil_div(bytes, 16));
    op->work_units = 1;
}

void kernel_plan_add_fill(struct kernel_build *build, double bytes, double repeat)
{
    if (!kernel_build_ok(build) || bytes < 1) {
        return;
    }
    uint32_t lanes = build->machine->lanes;
    struct wave_program *program = kernel_program_create("fill", sizeof(struct fill), fill_next);
    struct fill *k = program->context;
    *k = (struct fill){ .bytes = (uint64_t)bytes, .lanes = lanes };
    k->target = kernel_program_tensor(program, "target", bytes);
    program->registers_per_lane = 16;
    kernel_program_grid(program, ceil_div(k->bytes, 16), 128, lanes);
    program->work_units_total = ceil_div(k->bytes, lanes * 16ull);
    program->l2_footprint_bytes = bytes;
    program->is_divisible = true;
    kernel_program_plain(program);
    kernel_plan_add(build, program, repeat);
}

/* ---- element-wise pass ---- */

struct map {
    uint64_t n, in, out;
    uint32_t in_bytes, out_bytes, threads, lanes;
    struct kernel_map_cost cost;
};

static void map_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                     struct wave_op *op)
{
    const struct map *k = program->context;
    (void)window;
    uint64_t first = state->workgroup * k->threads + (uint64_t)state->wave * k->lanes;
    uint64_t end = min_u64(min_u64(first + k->lanes, (state->workgroup + 1) * k->threads), k->n);
    if (first >= end || state->pc == 2) {
        op_end(op);
        return;
    }
    op_lanes(op, end - first);
    if (state->pc == 0 && k->in_bytes > 0) {
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, k->cost.issue, k->cost.valu, k->cost.latency);
        op_span(op, k->in + first * k->in_bytes, (end - first) * k->in_bytes);
        state->pc = 1;
        return;
    }
    op_begin(op, WAVE_STORE, 0);
    op_work(op, k->cost.after_issue, k->cost.after_valu, k->cost.after_latency);
    op_span(op, k->out + first * k->out_bytes, (end - first) * k->out_bytes);
    op->work_units = 1;
    state->pc = 2;
}

void kernel_plan_add_map(struct kernel_build *build, const char *name, uint64_t n, uint32_t threads, uint32_t in_bytes,
                         uint32_t out_bytes, struct kernel_map_cost cost)
{
    if (!kernel_build_ok(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create(name, sizeof(struct map), map_next);
    struct map *k = program->context;
    *k = (struct map){ .n = n, .in_bytes = in_bytes, .out_bytes = out_bytes, .threads = threads,
                       .lanes = build->machine->lanes, .cost = cost };
    if (in_bytes > 0) {
        k->in = kernel_program_tensor(program, "in", (double)n * in_bytes);
    }
    k->out = kernel_program_tensor(program, "out", (double)n * out_bytes);
    program->registers_per_lane = cost.registers;
    kernel_program_grid(program, n, threads, k->lanes);
    uint64_t full = n / threads, rest = n % threads;
    program->work_units_total = full * program->waves_per_workgroup + ceil_div(rest, k->lanes);
    program->l2_footprint_bytes = (double)n * (in_bytes + out_bytes);
    program->is_divisible = true;
    kernel_program_plain(program);
    kernel_plan_add(build, program, 1);
}

/* ---- histograms of all digits ---- */

struct histogram {
    uint64_t n, keys, bins;
    uint32_t key_bytes, passes, used_passes, lanes; /* used: digits that differ between keys */
};

#define HISTOGRAM_TILE (HISTOGRAM_THREADS * HISTOGRAM_ITEMS)

static uint64_t histogram_tiles(const struct histogram *k, const struct wave_program *program, uint64_t workgroup)
{
    uint64_t tiles = ceil_div(k->n, HISTOGRAM_TILE);
    return workgroup < tiles ? ceil_div(tiles - workgroup, program->workgroups) : 0;
}

/* sm_90: 40 registers. Per tile 16 loads in flight, then per digit 79 instructions and 16 shared-memory atomics (141
 * cycles); at the end a global 64-bit atomic per bin that is not empty. */
static void histogram_next(const struct wave_program *program, const struct wave_window *window,
                           struct wave_state *state, struct wave_op *op)
{
    const struct histogram *k = program->context;
    switch (state->pc) {
    case 0:
        wave_first_trip(window, state);
        op_begin(op, WAVE_BARRIER, WAVE_NO_WAIT);
        op_work(op, 59, 44, 238);
        op->lds_bytes = DIGITS * 4 * k->passes * k->lanes / HISTOGRAM_THREADS;
        state->pc = 1;
        return;
    case 1:
        if (state->trip < min_u64(histogram_tiles(k, program, state->workgroup), window->trip_limit)) {
            uint64_t tile = state->workgroup + state->trip * program->workgroups, lanes = 0;
            op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
            op_work(op, 14 + HISTOGRAM_ITEMS, 15, 97);
            for (uint32_t item = 0; item < HISTOGRAM_ITEMS; item++) {
                uint64_t first = tile * HISTOGRAM_TILE + item * HISTOGRAM_THREADS + (uint64_t)state->wave * k->lanes;
                uint64_t count = first < k->n ? min_u64(k->lanes, k->n - first) : 0;
                op_span_apart(op, k->keys + first * k->key_bytes, count * k->key_bytes);
                lanes += count;
            }
            if (lanes == 0) { /* behind the end of the last tile */
                op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
            }
            op_lanes(op, min_u64(lanes, k->lanes));
            state->r[0] = lanes;
            state->pc = 2;
            return;
        }
        op_begin(op, WAVE_BARRIER, 0);
        op_work(op, 10, 10, 40);
        state->pc = 3;
        return;
    case 2:
        op_begin(op, WAVE_COMPUTE, 0);
        op_work(op, 25 * k->passes, 54 * k->passes, 62 * k->passes);
        op->lds_atomics = (uint32_t)state->r[0] * k->passes;
        op_lanes(op, min_u64(state->r[0], k->lanes));
        op->work_units = 1;
        state->trip++;
        state->pc = 1;
        return;
    default: {
        /* r[1]: bins of the workgroup's threads, a wave's width of them a time. */
        uint64_t bin = (uint64_t)state->wave * k->lanes + state->r[1]++ * HISTOGRAM_THREADS;
        if (bin >= (uint64_t)DIGITS * k->passes) {
            op_end(op);
            return;
        }
        /* Empty bins are skipped: all of them in a workgroup without a tile, all but one of a shared digit. */
        uint64_t lanes = bin < (uint64_t)DIGITS * k->used_passes ? k->lanes : bin % DIGITS == 0;
        lanes = histogram_tiles(k, program, state->workgroup) > 0 ? lanes : 0;
        op_begin(op, lanes > 0 ? WAVE_ATOMIC : WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, 6, 6, 45 + 33);
        op->atomic_type = WAVE_ATOMIC_INT;
        op->element_bytes = 8;
        op_span(op, k->bins + bin * 8, lanes * 8);
        op_lanes(op, lanes);
    }
    }
}

void kernel_plan_add_histogram(struct kernel_build *build, uint64_t n, uint32_t key_bytes, uint32_t passes, uint32_t used_passes)
{
    if (!kernel_build_ok(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("radix sort: histograms", sizeof(struct histogram),
                                                         histogram_next);
    struct histogram *k = program->context;
    *k = (struct histogram){ .n = n, .key_bytes = key_bytes, .passes = passes, .used_passes = used_passes,
                             .lanes = build->machine->lanes };
    k->keys = kernel_program_tensor(program, "keys", (double)n * key_bytes);
    k->bins = kernel_program_tensor(program, "bins", 8.0 * DIGITS * passes);
    program->registers_per_lane = key_bytes == 4 ? 40 : 72;
    program->lds_bytes = 1024 * key_bytes;
    /* The launch sizes its grid by what fits on a unit by registers: 12, or 7 for 8-byte keys. */
    program->workgroups = (key_bytes == 4 ? 12ull : 7ull) * build->machine->units;
    program->waves_per_workgroup = (uint32_t)ceil_div(HISTOGRAM_THREADS, k->lanes);
    uint64_t tiles = ceil_div(n, HISTOGRAM_TILE);
    program->work_units_total = tiles * program->waves_per_workgroup;
    program->trips_per_wave = max_u64(1, tiles / program->workgroups);
    program->l2_footprint_bytes = (double)n * key_bytes;
    kernel_program_plain(program);
    kernel_plan_add(build, program, 1);
}

/* ---- exclusive sums of the bins: one workgroup per digit ---- */

struct bin_sum {
    uint64_t bins;
    uint32_t lanes;
};

static void bin_sum_next(const struct wave_program *program, const struct wave_window *window,
                         struct wave_state *state, struct wave_op *op)
{
    const struct bin_sum *k = program->context;
    (void)program, (void)window;
    uint64_t at = (state->workgroup * DIGITS + (uint64_t)state->wave * k->lanes) * 8;
    switch (state->pc++) {
    case 0:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 4, 8, 20 + 2 * KERNEL_SPECIAL_CYCLES);
        break;
    case 1: /* one wave sums what the others left in shared memory, by shuffles */
    case 2:
        op_begin(op, WAVE_BARRIER, 0);
        op_work(op, state->wave == 0 ? 40 : 4, state->wave == 0 ? 45 : 4,
                state->wave == 0 ? 150 + 5 * KERNEL_SHUFFLE_CYCLES : 12);
        return;
    case 3:
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 2, 2, 33);
        op->work_units = 1;
        break;
    default:
        op_end(op);
        return;
    }
    op_span(op, k->bins + at, k->lanes * 8ull);
    op_lanes(op, k->lanes);
}

void kernel_plan_add_bin_sum(struct kernel_build *build, uint32_t passes)
{
    if (!kernel_build_ok(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("radix sort: bin sums", sizeof(struct bin_sum), bin_sum_next);
    struct bin_sum *k = program->context;
    k->lanes = build->machine->lanes;
    k->bins = kernel_program_tensor(program, "bins", 8.0 * DIGITS * passes);
    program->lds_bytes = 2336;
    kernel_program_grid(program, (uint64_t)passes * DIGITS, DIGITS, k->lanes);
    program->work_units_total = program->workgroups * program->waves_per_workgroup;
    kernel_program_plain(program);
    kernel_plan_add(build, program, 1);
}

/* ---- one sweep ---- */

struct sweep {
    uint64_t n, tiles;
    uint32_t key_bytes, value_bytes, threads, items, tile, digits, lanes;
    uint64_t counter, lookback, keys_in, keys_out, values_in, values_out;
};

enum sweep_step {
    SWEEP_TAKE, SWEEP_TAKEN, SWEEP_LOAD, SWEEP_COUNT, SWEEP_PUBLISH, SWEEP_PUBLISHED, SWEEP_RANK, SWEEP_EXCHANGE,
    SWEEP_LOOK, SWEEP_LOOK_FURTHER, SWEEP_PLACED, SWEEP_KEYS, SWEEP_VALUES, SWEEP_EXCHANGE_VALUES, SWEEP_STORE_VALUES,
    SWEEP_DONE
};

/* Items of the tile that exist. */
static uint64_t sweep_tile_items(const struct sweep *k, uint64_t tile)
{
    return min_u64(k->tile, k->n - tile * k->tile);
}

/* First sorted position of a digit within a tile. */
static uint64_t digit_start(const struct sweep *k, uint64_t digit)
{
    return digit * k->tile / k->digits;
}

/* Where sorted position `at` of `tile` goes, and how many positions from it on are neighbours there. */
static uint64_t sweep_place(const struct sweep *k, uint64_t tile, uint64_t at, uint64_t *neighbours)
{
    uint64_t digit = at * k->digits / k->tile;
    while (digit_start(k, digit + 1) <= at) {
        digit++;
    }
    uint64_t start = digit_start(k, digit), next = digit_start(k, digit + 1);
    *neighbours = next - at;
    return start * k->tiles + tile * (next - start) + at - start;
}

/* The j-th store of a wave covers `lanes` consecutive sorted positions. */
static void sweep_store(const struct sweep *k, const struct wave_state *state, uint64_t target, uint32_t item_bytes,
                        struct wave_op *op)
{
    uint64_t at = state->trip * k->threads + (uint64_t)state->wave * k->lanes;
    uint64_t end = min_u64(at + k->lanes, sweep_tile_items(k, state->workgroup)), neighbours;
    op_begin(op, at < end ? WAVE_STORE : WAVE_COMPUTE, WAVE_NO_WAIT);
    op_lanes(op, at < end ? end - at : 0);
    for (; at < end; at += neighbours) {
        uint64_t place = sweep_place(k, state->workgroup, at, &neighbours);
        neighbours = min_u64(neighbours, end - at);
        op_span_apart(op, target + place * item_bytes, neighbours * item_bytes);
    }
}

static void sweep_load(const struct sweep *k, const struct wave_state *state, uint64_t source, uint32_t item_bytes,
                       struct wave_op *op)
{
    /* Warp-striped: a wave's items are consecutive. */
    uint64_t first = (uint64_t)state->wave * k->lanes * k->items;
    uint64_t count = sweep_tile_items(k, state->workgroup);
    count = first < count ? min_u64((uint64_t)k->lanes * k->items, count - first) : 0;
    op_begin(op, count > 0 ? WAVE_LOAD : WAVE_COMPUTE, WAVE_NO_WAIT);
    op_span(op, source + (state->workgroup * k->tile + first) * item_bytes, count * item_bytes);
    op_lanes(op, count > 0 ? k->lanes : 0);
}

static void sweep_barrier(struct wave_op *op, uint32_t issue, uint32_t valu, uint32_t latency)
{
    op_begin(op, WAVE_BARRIER, 0);
    op_work(op, issue, valu, latency);
}

/* A full tile whose keys all share the digit. */
static bool sweep_in_order(const struct sweep *k, uint64_t tile)
{
    return k->digits == 1 && sweep_tile_items(k, tile) == k->tile;
}

/* One lookback row of 256 counters, by the first waves of the workgroup. */
static bool sweep_counters(const struct sweep *k, const struct wave_state *state, uint64_t tile, struct wave_op *op)
{
    uint64_t first = (uint64_t)state->wave * k->lanes;
    if (first >= DIGITS) {
        return false;
    }
    op_span(op, k->lookback + (tile * DIGITS + first) * 4, min_u64(k->lanes, DIGITS - first) * 4);
    op_lanes(op, min_u64(k->lanes, DIGITS - first));
    return true;
}

/* sm_90, 80 registers, 17 items: instruction counts and cycles of the full-tile path, phase by phase. Ranking takes 39
 * instructions (118 cycles) an item in a chain: match by 8 votes, the leader's shared-memory atomic, a shuffle. A key's
 * store takes two shared-memory loads in a row (20 instructions, 57 cycles), a value's takes two more (10, 31).
 * LDS load or atomic to use: 33 cycles. Random banks: 54/16 of the conflict-free time (3.4 of 32 lanes on one bank). */
#define LDS_CYCLES 33
#define RANDOM_BANKS_X16 54
static void sweep_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                       struct wave_op *op)
{
    const struct sweep *k = program->context;
    (void)program, (void)window;
    uint32_t items = k->items, bytes = items * k->lanes;
    switch (state->pc++) {
    case SWEEP_TAKE:
        if (state->wave == 0) {
            op_begin(op, WAVE_ATOMIC, WAVE_NO_WAIT);
            op_work(op, 5, 6, 18 + 2 * KERNEL_SPECIAL_CYCLES);
            op->atomic_type = WAVE_ATOMIC_INT;
            op->atomic_flags = WAVE_ATOMIC_RETURN;
            op->element_bytes = 4;
            op_span(op, k->counter, 4);
            op_lanes(op, 1);
            return;
        }
        state->pc++;
        __attribute__((fallthrough));
    case SWEEP_TAKEN:
        sweep_barrier(op, 6, 6, 20);
        state->pc = SWEEP_LOAD;
        return;
    case SWEEP_LOAD:
        sweep_load(k, state, k->keys_in, k->key_bytes, op);
        op_work(op, 12 + items, 35, 60 + LDS_CYCLES + 3 * items);
        return;
    case SWEEP_COUNT: /* early counts of the wave's digits */
        sweep_barrier(op, 19 + items, 13 + 4 * items, 115 + LDS_CYCLES);
        op->lds_atomics = bytes;
        return;
    case SWEEP_PUBLISH: /* the tile's digit counts, for the tiles behind */
        op_begin(op, state->wave * k->lanes < DIGITS ? WAVE_STORE : WAVE_COMPUTE, 0);
        op_work(op, 28, 17, 86 + LDS_CYCLES);
        op->lds_bytes = 4 * k->lanes * 24;
        sweep_counters(k, state, state->workgroup, op);
        return;
    case SWEEP_PUBLISHED: /* whether one digit holds all; then the sums over digits */
        sweep_barrier(op, 38, 50, 200 + 3 * LDS_CYCLES);
        if (sweep_in_order(k, state->workgroup)) {
            state->pc = SWEEP_LOOK;
        }
        return;
    case SWEEP_RANK:
        sweep_barrier(op, 48 + 4 * items, 34 + 35 * items,
                      180 + items * (79 + KERNEL_SHUFFLE_CYCLES + LDS_CYCLES));
        op->lds_atomics = bytes / 8;
        op->lds_bytes = 4 * k->lanes * 24;
        return;
    case SWEEP_EXCHANGE: /* keys to their sorted positions in shared memory */
        op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, 6 + items, 14 + 2 * items, 73);
        op->lds_bytes = bytes * k->key_bytes;
        op->lds_conflict_x16 = RANDOM_BANKS_X16;
        op_lanes(op, k->lanes);
        return;
    case SWEEP_LOOK:
    case SWEEP_LOOK_FURTHER: {
        uint64_t back = state->pc == SWEEP_LOOK + 1 ? 1 : 2;
        if (state->workgroup >= back && state->wave * k->lanes < DIGITS) {
            op_begin(op, WAVE_LOAD, 0);
            op_work(op, 4, 6, 41 + KERNEL_SPECIAL_CYCLES);
            op->cache = WAVE_CACHE_L2;
            sweep_counters(k, state, state->workgroup - back, op);
            return;
        }
        op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, 1, 1, 0);
        return;
    }
    case SWEEP_PLACED:
        sweep_barrier(op, 14, 29, 111);
        return;
    case SWEEP_KEYS:
        sweep_store(k, state, k->keys_out, k->key_bytes, op);
        if (sweep_in_order(k, state->workgroup)) {
            op_work(op, 1, 3, 3);
        } else {
            op_work(op, 9, 11, 37 + 2 * LDS_CYCLES);
            op->lds_bytes = k->lanes * (k->key_bytes + 8);
        }
        if (++state->trip < items) {
            state->pc = SWEEP_KEYS;
        }
        return;
    case SWEEP_VALUES:
        sweep_load(k, state, k->values_in, k->value_bytes, op);
        op_work(op, 12 + items, 35, 60 + 3 * items);
        return;
    case SWEEP_EXCHANGE_VALUES:
        state->trip = 0;
        if (sweep_in_order(k, state->workgroup)) {
            op_begin(op, WAVE_COMPUTE, 0);
            op_work(op, 2, 4, 10);
            return;
        }
        sweep_barrier(op, 4 + items, 10, 43);
        op->lds_bytes = bytes * k->value_bytes;
        op->lds_conflict_x16 = RANDOM_BANKS_X16;
        return;
    case SWEEP_STORE_VALUES:
        sweep_store(k, state, k->values_out, k->value_bytes, op);
        op_work(op, 4, 6, 21 + LDS_CYCLES);
        op->lds_bytes = k->lanes * (k->value_bytes + 8);
        if (++state->trip < items) {
            state->pc = SWEEP_STORE_VALUES;
        } else {
            op->work_units = 1;
        }
        return;
    default:
        op_end(op);
    }
}

static uint32_t sweep_items(uint32_t key_bytes, uint32_t value_bytes)
{
    return key_bytes == 4 && value_bytes <= 4 ? 17 : 12;
}

void kernel_plan_add_sweeps(struct kernel_build *build, const struct sort_sweep *shape, double passes)
{
    if (!kernel_build_ok(build)) {
        return;
    }
    uint64_t n = shape->n;
    uint32_t key_bytes = shape->key_bytes, value_bytes = shape->value_bytes;
    struct wave_program *program = kernel_program_create("radix sort: one sweep", sizeof(struct sweep), sweep_next);
    struct sweep *k = program->context;
    *k = (struct sweep){ .n = n, .key_bytes = key_bytes, .value_bytes = value_bytes, .threads = shape->threads,
                         .items = shape->items, .tile = shape->items * shape->threads, .digits = 1u << shape->bits,
                         .lanes = build->machine->lanes };
    k->tiles = ceil_div(n, k->tile);
    double padded = (double)k->tiles * k->tile;
    k->counter = kernel_program_tensor(program, "tile counter", 4);
    k->lookback = kernel_program_tensor(program, "lookback", (double)k->tiles * DIGITS * 4);
    k->keys_in = kernel_program_tensor(program, "keys in", (double)n * key_bytes);
    k->keys_out = kernel_program_tensor(program, "keys out", padded * key_bytes);
    k->values_in = kernel_program_tensor(program, "values in", (double)n * value_bytes);
    k->values_out = kernel_program_tensor(program, "values out", padded * value_bytes);
    program->registers_per_lane = 80;
    program->lds_bytes = k->tile * (key_bytes > value_bytes ? key_bytes : value_bytes) + 2048;
    program->workgroups = k->tiles;
    program->waves_per_workgroup = shape->threads / k->lanes;
    program->work_units_total = k->tiles * program->waves_per_workgroup;
    program->l2_footprint_bytes = 2.0 * (double)n * (key_bytes + value_bytes);
    program->is_divisible = true;
    kernel_require_lds(build, program->lds_bytes);
    kernel_program_plain(program);
    kernel_plan_add(build, program, passes);
}

void kernel_plan_add_sort(struct kernel_build *build, uint64_t n, uint32_t key_bytes, uint32_t value_bytes,
                          uint32_t bits, uint32_t used_bits)
{
    if (!kernel_build_ok(build)) {
        return;
    }
    SIM_ASSERT(used_bits <= bits, "%u of %u key bits used", used_bits, bits);
    uint32_t passes = (uint32_t)ceil_div(bits, 8), used_passes = (uint32_t)ceil_div(used_bits, 8);
    uint64_t tiles = ceil_div(n, (uint64_t)sweep_items(key_bytes, value_bytes) * SWEEP_THREADS);
    kernel_plan_add_fill(build, 8.0 * DIGITS * passes, 1);           /* bins and counters */
    kernel_plan_add_histogram(build, n, key_bytes, passes, used_passes);
    kernel_plan_add_bin_sum(build, passes);
    kernel_plan_add_fill(build, (double)tiles * DIGITS * 4, passes); /* lookback, per pass */
    struct sort_sweep sweep = { n, key_bytes, value_bytes, SWEEP_THREADS, sweep_items(key_bytes, value_bytes), 8 };
    if (used_bits >= 8) {
        kernel_plan_add_sweeps(build, &sweep, used_bits / 8);
    }
    if (used_bits % 8 > 0) {
        sweep.bits = used_bits % 8;
        kernel_plan_add_sweeps(build, &sweep, 1);
    }
    if (passes > used_passes) {
        sweep.bits = 0;
        kernel_plan_add_sweeps(build, &sweep, passes - used_passes);
    }
}

/* ---- chained passes ---- */

static const struct {
    const char *name;
    struct chained_shape shape;
} chained_passes[] = {
    [KERNEL_SELECT_FLAGGED] = { "select flagged", { 384, 15, 4, 4, 49, 0 } },
    [KERNEL_UNIQUE_BY_KEY] = { "unique by key", { 640, 7, 8, 8, 48, 0 } },
    [KERNEL_EXCLUSIVE_SUM] = { "exclusive sum", { 128, 7, 8, 8, 47, 1 } },
};

struct chained {
    struct chained_shape shape;
    uint64_t n, written, tiles;
    uint32_t tile, lanes;
    uint64_t in, out, status;
};

enum chained_step { CHAINED_LOAD, CHAINED_COUNT, CHAINED_LOOK, CHAINED_PLACED, CHAINED_STORE, CHAINED_DONE };

/* The load of one item of every lane: neighbours, or strided over all of the wave's lines. */
static void chained_load(const struct chained *k, uint64_t first, uint64_t end, uint64_t item, struct wave_op *op)
{
    uint64_t at = first + (k->shape.striped ? item * k->lanes : item);
    if (at >= end) {
        return; /* behind the end of the input: nothing is issued */
    }
    op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
    if (k->shape.striped) {
        uint64_t count = min_u64(k->lanes, end - at);
        op_span(op, k->in + at * k->shape.item_bytes, count * k->shape.item_bytes);
        op_lanes(op, count);
        return;
    }
    for (; at < end; at += k->shape.items) {
        op_span_apart(op, k->in + at * k->shape.item_bytes, k->shape.item_bytes);
    }
    op_lanes(op, op->span_count);
}

/* sm_90, select: 52 instructions to the first load, 100 from the last to the first barrier, then five shuffles, the look
 * back by the first wave, 33 to the second barrier and 10 per item (41 cycles) to the stores. The loads go out together.
 * Selected items leave in order: the wave's share is contiguous, and an even part of all (model). */
static void chained_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                         struct wave_op *op)
{
    const struct chained *k = program->context;
    (void)program, (void)window;
    uint32_t items = k->shape.items;
    uint64_t first = min_u64(state->workgroup * k->tile + (uint64_t)state->wave * k->lanes * items, k->n);
    uint64_t end = min_u64(min_u64(first + (uint64_t)k->lanes * items, (state->workgroup + 1) * k->tile), k->n);
    switch (state->pc) {
    case CHAINED_LOAD:
        op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, state->trip == 0 ? 24 : 1, state->trip == 0 ? 30 : 2, state->trip == 0 ? 100 : 1);
        chained_load(k, first, end, state->trip, op);
        if (++state->trip == items) {
            state->pc = CHAINED_COUNT;
        }
        return;
    case CHAINED_COUNT:
        op_begin(op, WAVE_BARRIER, 0);
        op_work(op, 9, 17 + 5 * items, 131 + 5 * KERNEL_SHUFFLE_CYCLES + LDS_CYCLES);
        op->lds_bytes = (k->shape.striped ? 2 * items * k->shape.item_bytes : 4) * k->lanes;
        state->pc = CHAINED_LOOK;
        return;
    case CHAINED_LOOK: /* the first wave reads the sums of as many tiles before as it has lanes */
        state->pc = CHAINED_PLACED;
        if (state->wave == 0 && state->workgroup > 0) {
            uint64_t back = min_u64(k->lanes, state->workgroup);
            op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
            op_work(op, 20, 30, 100 + 2 * KERNEL_SPECIAL_CYCLES);
            op->cache = WAVE_CACHE_L2;
            op_span(op, k->status + (state->workgroup - back) * 16, back * 16);
            op_lanes(op, back);
            return;
        }
        __attribute__((fallthrough));
    case CHAINED_PLACED:
        op_begin(op, WAVE_BARRIER, 0);
        op_work(op, 9, 24, 67 + (state->wave == 0 ? 6 * KERNEL_SHUFFLE_CYCLES : 0));
        state->pc = CHAINED_STORE;
        return;
    case CHAINED_STORE: {
        uint64_t from = (uint64_t)((double)first / (double)k->n * (double)k->written);
        uint64_t to = (uint64_t)((double)max_u64(end, first) / (double)k->n * (double)k->written);
        op_begin(op, to > from ? WAVE_STORE : WAVE_COMPUTE, 0);
        op_work(op, 4 * items, 6 * items, 31 * items);
        op_span(op, k->out + from * k->shape.out_bytes, (to - from) * k->shape.out_bytes);
        op_lanes(op, min_u64(k->lanes, to - from));
        op->work_units = 1;
        state->pc = CHAINED_DONE;
        return;
    }
    default:
        op_end(op);
    }
}

void kernel_plan_add_chained_pass(struct kernel_build *build, const char *name, const struct chained_shape *shape, uint64_t n,
                                  uint64_t written)
{
    if (!kernel_build_ok(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create(name, sizeof(struct chained), chained_next);
    struct chained *k = program->context;
    *k = (struct chained){ .shape = *shape, .n = n, .written = written, .lanes = build->machine->lanes,
                           .tile = shape->items * shape->threads };
    k->tiles = ceil_div(n, k->tile);
    k->in = kernel_program_tensor(program, "in", (double)n * shape->item_bytes);
    k->out = kernel_program_tensor(program, "out", (double)written * shape->out_bytes);
    k->status = kernel_program_tensor(program, "tile status", (double)k->tiles * 16);
    program->registers_per_lane = shape->registers;
    program->lds_bytes = k->tile * shape->out_bytes;
    program->workgroups = k->tiles;
    program->waves_per_workgroup = shape->threads / k->lanes;
    program->work_units_total = k->tiles * program->waves_per_workgroup;
    program->l2_footprint_bytes = (double)n * shape->item_bytes + (double)written * shape->out_bytes;
    program->is_divisible = true;
    kernel_require_lds(build, program->lds_bytes);
    kernel_program_plain(program);
    kernel_plan_add(build, program, 1);
}

void kernel_plan_add_chained(struct kernel_build *build, enum kernel_chained_pass pass, uint64_t n, uint64_t written)
{
    const struct chained_shape *shape = &chained_passes[pass].shape;
    kernel_plan_add_fill(build, (double)ceil_div(n, (uint64_t)shape->items * shape->threads) * 16, 1); /* tile status */
    kernel_plan_add_chained_pass(build, chained_passes[pass].name, shape, n, written);
}
