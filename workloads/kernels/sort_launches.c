/* Sorts and scans launch by launch, as a recorded step holds them: the launches of sort.c one at a time, and the sort of keys
 * that fit one workgroup (cub/agent/single_pass_scan_operators, block/block_radix_sort.cuh and block_radix_rank.cuh): 256
 * threads hold all pairs, and pass by pass of 6 bits count digits in packed 16-bit counters of their own, sum these over the
 * workgroup, and exchange keys and values through shared memory. Costs are counted from that source, an instruction an
 * operation; its time is dependent shared-memory accesses and barriers. */
#include "workloads/kernels/sort_internal.h"

#define TILE_THREADS 256
#define TILE_BITS 6
#define TILE_COUNTERS 33 /* of 32 bits a thread: 64 digits packed in pairs, and one against bank conflicts */
#define TILE_ITEMS_4B 19 /* of 4 bytes; fewer of wider ones */
#define TILE_LDS_CYCLES 33
#define TILE_RANDOM_BANKS_X16 54 /* as in sort.c */

struct single_tile {
    uint64_t n, keys_in, keys_out, values_in, values_out;
    uint32_t key_bytes, value_bytes, items, passes, lanes;
};

/* Per pass. */
enum tile_step {
    TILE_COUNT,
    TILE_UPSWEEP,
    TILE_DOWNSWEEP,
    TILE_RANK,
    TILE_KEYS,
    TILE_VALUES_OUT,
    TILE_VALUES,
    TILE_STEPS
};

static uint32_t tile_items(uint32_t key_bytes, uint32_t value_bytes)
{
    uint32_t widest = key_bytes > value_bytes ? key_bytes : value_bytes;
    return widest > 4 ? TILE_ITEMS_4B * 4 / widest : TILE_ITEMS_4B;
}

/* What the wave holds of a tensor: its threads' items are neighbours. */
static bool tile_span(const struct single_tile *k, const struct wave_state *state, uint64_t tensor,
                      uint32_t bytes, struct wave_op *op)
{
    uint64_t share = (uint64_t)k->lanes * k->items, first = min_u64(state->wave * share, k->n);
    uint64_t count = min_u64(share, k->n - first);
    op_span(op, tensor + first * bytes, count * bytes);
    op_lanes(op, min_u64(ceil_div(count, k->items), k->lanes));
    return count * bytes > 0;
}

static void tile_move(const struct single_tile *k, const struct wave_state *state, enum wave_op_kind kind,
                      bool values, struct wave_op *op)
{
    bool load = kind == WAVE_LOAD;
    uint64_t tensor = values ? (load ? k->values_in : k->values_out) : load ? k->keys_in : k->keys_out;
    op_begin(op, kind, WAVE_NO_WAIT);
    op_work(op, 4 + k->items, 2 * k->items, load && !values ? 40 + 2 * KERNEL_SPECIAL_CYCLES : 8);
    if (!tile_span(k, state, tensor, values ? k->value_bytes : k->key_bytes, op)) {
        op->kind = WAVE_COMPUTE;
    }
}

/* Exchange through shared memory, one way: to their ranks, where pairs scatter over the banks, or back in order. What fills the
 * tile up to its size is all alike and stays in order. */
static void tile_exchange(const struct single_tile *k, const struct wave_state *state, uint32_t bytes,
                          bool to_ranks, struct wave_op *op)
{
    bool pairs = (uint64_t)state->wave * k->lanes * k->items < k->n;
    op_work(op, k->items + 2, 2 * k->items, TILE_LDS_CYCLES);
    op->lds_bytes = k->items * bytes * k->lanes;
    op->lds_conflict_x16 = to_ranks && pairs ? TILE_RANDOM_BANKS_X16 : 0;
}

static void tile_pass(const struct single_tile *k, const struct wave_state *state, enum tile_step step,
                      struct wave_op *op)
{
    op_begin(op, WAVE_BARRIER, 0);
    switch (step) {
    case TILE_COUNT: /* counters cleared, then item by item one read and written, each after the one before */
        op_work(op, TILE_COUNTERS + 2 * k->items, 8 * k->items, k->items * (TILE_LDS_CYCLES + 8));
        op->lds_bytes = (4 * TILE_COUNTERS + 4 * k->items) * k->lanes;
        return;
    case TILE_UPSWEEP: /* a thread's counters summed, then over the wave by shuffles */
        op_work(op, TILE_COUNTERS + 7, TILE_COUNTERS + 12, TILE_LDS_CYCLES + 5 * KERNEL_SHUFFLE_CYCLES);
        op->lds_bytes = 4 * TILE_COUNTERS * k->lanes;
        return;
    case TILE_DOWNSWEEP: /* the waves' sums, then the counters back */
        op_work(op, TILE_COUNTERS + 10, TILE_COUNTERS + 12, 2 * TILE_LDS_CYCLES);
        op->lds_bytes = 4 * TILE_COUNTERS * k->lanes;
        return;
    case TILE_RANK: tile_exchange(k, state, k->key_bytes + 2, true, op); return;
    case TILE_KEYS: tile_exchange(k, state, k->key_bytes, false, op); return;
    case TILE_VALUES_OUT: tile_exchange(k, state, k->value_bytes, true, op); return;
    default: tile_exchange(k, state, k->value_bytes, false, op); return;
    }
}

enum { TILE_LOAD_KEYS, TILE_LOAD_VALUES, TILE_PASSES, TILE_STORE_KEYS, TILE_STORE_VALUES, TILE_END };

/* trip: the pass; r[0]: its step. */
static void single_tile_next(const struct wave_program *program, const struct wave_window *window,
                             struct wave_state *state, struct wave_op *op)
{
    const struct single_tile *k = program->context;
    (void)window;
    switch (state->pc) {
    case TILE_LOAD_KEYS:
    case TILE_LOAD_VALUES: tile_move(k, state, WAVE_LOAD, state->pc++ == TILE_LOAD_VALUES, op); return;
    case TILE_PASSES:
        tile_pass(k, state, (enum tile_step)state->r[0], op);
        /* keys alone skip the values' two steps */
        if (++state->r[0] == (k->value_bytes > 0 ? TILE_STEPS : TILE_VALUES_OUT)) {
            state->r[0] = 0;
            state->pc += ++state->trip == k->passes;
        }
        return;
    case TILE_STORE_KEYS: tile_move(k, state, WAVE_STORE, false, op); break;
    case TILE_STORE_VALUES:
        tile_move(k, state, WAVE_STORE, true, op);
        op->work_units = 1;
        break;
    default: op_end(op); return;
    }
    state->pc++;
}

static uint32_t param_bytes(struct kernel_build *build, const char *key, uint64_t least, uint64_t value)
{
    return (uint32_t)kernel_param_integer_or(build, key, least, 16, value, NULL);
}

static void build_single_tile(struct kernel_build *build)
{
    uint64_t n = kernel_param_integer(build, "n", 1, 1ull << 20);
    uint32_t key_bytes = param_bytes(build, "key_bytes", 1, 8),
             value_bytes = param_bytes(build, "value_bytes", 0, 4);
    uint64_t bits = kernel_param_integer_or(build, "bits", 1, 128, 8ull * key_bytes, NULL);
    uint32_t items = tile_items(key_bytes, value_bytes);
    if (n > (uint64_t)items * TILE_THREADS) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "parameter n=%llu is not valid: one workgroup holds at most %u pairs of that size",
                    (unsigned long long)n, items * TILE_THREADS);
    }
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("radix sort: single tile",
                                                         sizeof(struct single_tile), single_tile_next);
    struct single_tile *k = program->context;
    *k = (struct single_tile){ .n = n,
                               .key_bytes = key_bytes,
                               .value_bytes = value_bytes,
                               .items = items,
                               .passes = (uint32_t)ceil_div(bits, TILE_BITS),
                               .lanes = build->machine->lanes };
    k->keys_in = kernel_program_tensor(program, "keys in", (double)n * key_bytes);
    k->keys_out = kernel_program_tensor(program, "keys out", (double)n * key_bytes);
    k->values_in = kernel_program_tensor(program, "values in", (double)n * value_bytes);
    k->values_out = kernel_program_tensor(program, "values out", (double)n * value_bytes);
    program->registers_per_lane = 96;
    program->lds_bytes = 4 * TILE_COUNTERS * TILE_THREADS;
    kernel_program_grid(program, TILE_THREADS, TILE_THREADS, k->lanes);
    program->work_units_total = program->waves_per_workgroup;
    program->l2_footprint_bytes = 2.0 * (double)n * (key_bytes + value_bytes);
    kernel_program_plain(program);
    kernel_require_lds(build, program->lds_bytes);
    kernel_plan_add(build, program, 1);
}

/* ---- the launches of sort.c ---- */

static uint32_t param_threads(struct kernel_build *build, uint64_t value)
{
    uint64_t threads = kernel_param_integer_or(build, "threads", 64, 1024, value, NULL);
    if (threads % 64 != 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter threads=%llu is not valid: must be a multiple of 64",
                    (unsigned long long)threads);
    }
    return (uint32_t)threads;
}

static void build_histogram(struct kernel_build *build)
{
    uint64_t n = kernel_param_integer(build, "n", 1, 1ull << 40);
    uint32_t key_bytes = kernel_param_choice_or(build, "key_bytes", "4|8", 1, NULL) == 0 ? 4 : 8;
    uint32_t passes = (uint32_t)kernel_param_integer_or(build, "passes", 1, key_bytes, key_bytes, NULL);
    if (kernel_params_done(build)) {
        kernel_plan_add_histogram(build, n, key_bytes, passes, passes);
    }
}

static void build_bin_sum(struct kernel_build *build)
{
    uint64_t passes = kernel_param_integer(build, "passes", 1, 16);
    if (kernel_params_done(build)) {
        kernel_plan_add_bin_sum(build, (uint32_t)passes);
    }
}

static void build_sweep(struct kernel_build *build)
{
    struct sort_sweep sweep = { .n = kernel_param_integer(build, "n", 1, 1ull << 40) };
    sweep.key_bytes = param_bytes(build, "key_bytes", 1, 8);
    sweep.value_bytes = param_bytes(build, "value_bytes", 0, 4);
    sweep.threads = param_threads(build, 384);
    sweep.items = (uint32_t)kernel_param_integer_or(build, "items", 1, 64, 12, NULL);
    sweep.bits = (uint32_t)kernel_param_integer_or(build, "bits", 0, 8, 8, NULL);
    if (kernel_params_done(build)) {
        kernel_plan_add_sweeps(build, &sweep, 1);
    }
}

static void build_chained(struct kernel_build *build)
{
    uint64_t n = kernel_param_integer(build, "n", 1, 1ull << 40);
    struct chained_shape shape = { .threads = param_threads(build, 128), .registers = 48 };
    shape.items = (uint32_t)kernel_param_integer(build, "items", 1, 64);
    shape.item_bytes = param_bytes(build, "item_bytes", 1, 4);
    shape.out_bytes = param_bytes(build, "out_bytes", 1, 4);
    shape.striped = kernel_param_choice_or(build, "loads", "neighbours|striped", 1, NULL) == 1;
    if (kernel_params_done(build)) {
        kernel_plan_add_chained_pass(build, "chained pass", &shape, n, n);
    }
}

const struct kernel_definition sort_kernels[] = {
    { "sort", "single_tile", "radix sort of what one workgroup holds",
      "n (pairs), key_bytes (8), value_bytes (4), bits (all)", build_single_tile },
    { "sort", "histogram", "digits of all keys counted", "n (keys), key_bytes (4|8; 8), passes (key_bytes)",
      build_histogram },
    { "sort", "bin_sum", "sums over the digits' counts", "passes", build_bin_sum },
    { "sort", "sweep", "one pass of a radix sort",
      "n (pairs), key_bytes (8), value_bytes (4), threads (384), items (a thread's; 12), bits (8)",
      build_sweep },
    { "sort", "chained", "scan, or selection, whose workgroups look back at those before",
      "n (items), items (a thread's), threads (128), item_bytes (4), out_bytes (4), loads "
      "(neighbours|striped; striped)",
      build_chained },
    { .suite = NULL },
};
