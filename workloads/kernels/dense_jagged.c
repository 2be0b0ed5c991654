/* Attention with a pointwise activation (SiLU, GeLU) in place of softmax, over jagged sequences, as a Triton program runs it
 * (calib/data/h200/source/jagged.py): a grid of (tiles of the longest sequence) x (batch x heads), of which those beyond a
 * sequence's end leave at once.
 * Forward: a program keeps BLOCK_M queries and walks the keys in steps of BLOCK_N, whose K and V are copied ahead into shared
 * memory (`stages` buffers; 1: loaded when needed). Backward: it keeps BLOCK_N keys and walks the queries of one head, adding
 * dK and dV to memory by atomics at the end, or of all heads that share the key head, storing once (kv-accumulate).
 *
 * Registers a thread, from the tiles that live at once: the accumulators, the scores in fp32 and their two-byte copy, and 40
 * for addresses and the activation. Slots per score from the algorithm, compares and selects at half rate (2). SiLU: scale 1,
 * negated and scaled again 1, EX2 with its range test and two predicated products 6 (1 special), add 1, the compiler's
 * full-range division 12 (1 special: two range tests, two scalings, the products), product 1, conversion and its packing 2;
 * with 2 for the special ones' issue. Sixteen waves a unit come within 5% of what is measured by it. */
#include "workloads/kernels/dense_internal.h"
#include "workloads/kernels/fix_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define JAGGED_BASE_REGISTERS 40.0
#define MATRIX_CHAIN_CYCLES 120u /* last matrix instruction to its registers, and the wait's own instructions */
#define EXIT_SLOTS 30u
#define FENCE_CYCLES 600u /* a trip to L2 and back, as where partial sums meet in memory (dense_rows.c) */
#define LDS_CYCLES 40u /* a store to shared memory until others may load it */
#define PROLOGUE_SLOTS 200u /* pointers and bounds of all tiles, in 64 bits */
/* The activation of one score is a chain (scale, exponential, add, reciprocal, product) whose special results come late; a wave
 * alone waits about this long per score in spite of its other scores. */
#define SCORE_STALL_CYCLES 14.0
#define BATCH_MAX (1u << 20)

enum jagged_pass { JAGGED_FORWARD, JAGGED_ATOMIC, JAGGED_ACCUMULATE, JAGGED_DQ };

struct jagged {
    uint64_t batch, heads, kv_heads, depth, tiles;
    uint64_t *start; /* [batch + 1] first token of a sequence */
    uint32_t block_m, block_n, waves, lanes, stages, element_bytes;
    enum jagged_pass pass;
    bool causal, swizzle;
    uint32_t atomic_flags, dies; /* dies: over which neighbours are kept together; 0: dealt out */
    uint64_t offsets, q, k, v, o, d_o, dk, dv;
    double score_valu, score_sfu; /* per score, activation (and its gradient) */
    uint32_t chain_cycles, spilled; /* matrix result to registers; registers that a step stores and loads again */
};

/* Queries are kept and keys walked, or the other way round. */
static bool keeps_queries(const struct jagged *jagged)
{
    return jagged->pass == JAGGED_FORWARD || jagged->pass == JAGGED_DQ;
}

/* ---- where a program works ---- */

struct tile {
    uint64_t sequence, head, kv_head, first, length, steps, group_steps;
};

static uint64_t grid_columns(const struct jagged *jagged)
{
    return jagged->batch * (jagged->pass == JAGGED_ACCUMULATE ? jagged->kv_heads : jagged->heads);
}

/* tl.swizzle2d over groups of 8 tiles. */
static void swizzle2d(uint64_t *i, uint64_t *j, uint64_t size_i, uint64_t size_j)
{
    uint64_t group = 8, ij = *i * size_j + *j, first = ij / (group * size_j) * group, in_group = ij % (group * size_j);
    uint64_t size = min_u64(group, size_i - first);
    *i = first + in_group % size;
    *j = in_group / size;
}

/* False for a program beyond its sequence's end. */
static bool tile_of(const struct jagged *jagged, uint64_t workgroup, struct tile *tile)
{
    uint64_t all = jagged->tiles * grid_columns(jagged), share = jagged->dies > 1 ? all / jagged->dies : 0;
    if (workgroup < share * jagged->dies) { /* dealt round robin over dies: each gets neighbours */
        workgroup = workgroup % jagged->dies * share + workgroup / jagged->dies;
    }
    uint64_t i = workgroup % jagged->tiles, j = workgroup / jagged->tiles, group = jagged->heads / jagged->kv_heads;
    if (jagged->swizzle) {
        swizzle2d(&i, &j, jagged->tiles, grid_columns(jagged));
    }
    uint64_t own = jagged->pass == JAGGED_ACCUMULATE ? jagged->kv_heads : jagged->heads;
    tile->sequence = j / own;
    tile->head = j % own * (jagged->pass == JAGGED_ACCUMULATE ? group : 1);
    tile->kv_head = tile->head / group;
    tile->length = jagged->start[tile->sequence + 1] - jagged->start[tile->sequence];
    uint32_t kept = keeps_queries(jagged) ? jagged->block_m : jagged->block_n;
    uint32_t moving = keeps_queries(jagged) ? jagged->block_n : jagged->block_m;
    tile->first = i * kept;
    if (tile->first >= tile->length) {
        return false;
    }
    uint64_t from = 0, to = tile->length;
    if (jagged->causal && keeps_queries(jagged)) {
        to = min_u64(to, tile->first + kept);
    } else if (jagged->causal) {
        from = tile->first / moving * moving;
    }
    tile->group_steps = ceil_div(to - from, moving);
    tile->steps = tile->group_steps * (jagged->pass == JAGGED_ACCUMULATE ? group : 1);
    return true;
}

/* ---- memory: a wave's share of a tile's rows ---- */

struct rows {
    uint64_t base, row_heads, head; /* [token][head][depth] */
    uint32_t bytes;
};

static void add_rows(const struct jagged *jagged, const struct tile *tile, struct rows rows, uint64_t first,
                     uint64_t count, uint32_t wave, struct wave_op *op)
{
    uint64_t end = min_u64(first + count, tile->length), own = first < end ? end - first : 0;
    for (uint64_t r = own * wave / jagged->waves; r < own * (wave + 1) / jagged->waves; r++) {
        uint64_t token = jagged->start[tile->sequence] + first + r;
        bool fits = op_span_apart(op, rows.base + ((token * rows.row_heads + rows.head) * jagged->depth) * rows.bytes,
                                  jagged->depth * rows.bytes);
        SIM_ASSERT(fits, "a step's rows need more than %d spans a wave", WAVE_SPANS_MAX);
    }
}

static struct rows q_rows(const struct jagged *jagged, uint64_t base, const struct tile *tile, uint64_t step)
{
    return (struct rows){ base, jagged->heads, tile->head + step / tile->group_steps, jagged->element_bytes };
}

static struct rows kv_rows(const struct jagged *jagged, uint64_t base, const struct tile *tile, uint32_t bytes)
{
    return (struct rows){ base, jagged->kv_heads, tile->kv_head, bytes };
}

static void load_begin(const struct jagged *jagged, struct wave_op *op)
{
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < op->span_count; s++) {
        bytes += op->spans[s].bytes;
    }
    op_begin(op, op->span_count > 0 ? WAVE_LOAD : WAVE_COMPUTE, WAVE_NO_WAIT);
    /* 16 B a lane; address, bound and copy, of which the bound is at half rate */
    op_work(op, (uint32_t)ceil_div(bytes, 16ull * jagged->lanes) * 6 + 6, 0, 0);
    op_lanes(op, jagged->lanes);
    op->cache = WAVE_CACHE_L2;
}

/* K and V of a step forward, Q and dO of a step backward. */
static void load_step(const struct jagged *jagged, const struct tile *tile, uint64_t step, uint32_t wave,
                      struct wave_op *op)
{
    uint64_t local = step % tile->group_steps;
    if (keeps_queries(jagged)) {
        uint64_t first = local * jagged->block_n;
        add_rows(jagged, tile, kv_rows(jagged, jagged->k, tile, jagged->element_bytes), first, jagged->block_n, wave, op);
        add_rows(jagged, tile, kv_rows(jagged, jagged->v, tile, jagged->element_bytes), first, jagged->block_n, wave, op);
    } else {
        uint64_t from = jagged->causal ? tile->first / jagged->block_m * jagged->block_m : 0;
        uint64_t first = from + local * jagged->block_m;
        add_rows(jagged, tile, q_rows(jagged, jagged->q, tile, step), first, jagged->block_m, wave, op);
        add_rows(jagged, tile, q_rows(jagged, jagged->d_o, tile, step), first, jagged->block_m, wave, op);
    }
    load_begin(jagged, op);
}

static void load_kept(const struct jagged *jagged, const struct tile *tile, uint32_t wave, struct wave_op *op)
{
    if (keeps_queries(jagged)) {
        add_rows(jagged, tile, q_rows(jagged, jagged->q, tile, 0), tile->first, jagged->block_m, wave, op);
        if (jagged->pass == JAGGED_DQ) {
            add_rows(jagged, tile, q_rows(jagged, jagged->d_o, tile, 0), tile->first, jagged->block_m, wave, op);
        }
    } else {
        add_rows(jagged, tile, kv_rows(jagged, jagged->k, tile, jagged->element_bytes), tile->first, jagged->block_n, wave, op);
        add_rows(jagged, tile, kv_rows(jagged, jagged->v, tile, jagged->element_bytes), tile->first, jagged->block_n, wave, op);
    }
    load_begin(jagged, op);
}

/* ---- the walk ----
 * trip: step in use. r[0]: next step to load. r[1]: result op. pc: phase. */
enum {
    PHASE_START,
    PHASE_KEPT,
    PHASE_FILL,
    PHASE_LOADED,
    PHASE_COPIED,
    PHASE_SCORES,
    PHASE_ACTIVATE,
    PHASE_GRADIENT,
    PHASE_SHARE,
    PHASE_ADD,
    PHASE_RESULT,
    PHASE_END
};

static uint64_t tile_flops(const struct jagged *jagged)
{
    return 2ull * jagged->block_m * jagged->block_n * jagged->depth / jagged->waves;
}

static double scores_per_lane(const struct jagged *jagged)
{
    return (double)jagged->block_m * jagged->block_n / jagged->waves / jagged->lanes;
}

static void matrix_op(const struct jagged *jagged, struct wave_op *op, uint32_t products)
{
    op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
    op_work(op, 6 * products, 0, 0);
    op->wait_matrix = 1;
    op->matrix_flops = products * tile_flops(jagged);
    op->matrix_dtype = WAVE_BF16;
    op_lanes(op, jagged->lanes);
}

/* Vector work on the scores before `products` more products. */
static void score_op(const struct jagged *jagged, struct wave_op *op, double valu, double sfu, uint32_t products)
{
    double scores = scores_per_lane(jagged);
    matrix_op(jagged, op, products);
    op_work(op, 6 * products + 8, slots16(scores * valu), jagged->chain_cycles + slots16(scores * SCORE_STALL_CYCLES));
    op->sfu_slots = (uint16_t)slots16(scores * sfu);
}

/* Slots of the causal mask: the key's index, a comparison, a select and the predicate's copy, all at half rate. */
static double mask_slots(const struct jagged *jagged)
{
    return jagged->causal ? 8 : 0;
}

static bool result_store(const struct jagged *jagged, const struct tile *tile, struct wave_state *state,
                         struct wave_op *op)
{
    uint64_t part = state->r[1]++;
    if (keeps_queries(jagged) && part == 0) {
        add_rows(jagged, tile, q_rows(jagged, jagged->o, tile, 0), tile->first, jagged->block_m, state->wave, op);
    } else if (jagged->pass == JAGGED_ACCUMULATE && part < 2) {
        add_rows(jagged, tile, kv_rows(jagged, part == 0 ? jagged->dk : jagged->dv, tile, 4), tile->first, jagged->block_n,
                 state->wave, op);
    } else {
        return false;
    }
    op_begin(op, op->span_count > 0 ? WAVE_STORE : WAVE_COMPUTE, 0);
    op->wait_matrix = 1;
    op_work(op, 8 * op->span_count, slots16(op->span_count * (double)jagged->depth / jagged->lanes), part == 0 ? MATRIX_CHAIN_CYCLES : 0);
    op_lanes(op, jagged->lanes);
    return true;
}

/* dK and dV leave in the layout of the accumulator: an instruction adds two neighbouring values a lane, four lanes side by side,
 * eight rows (of 32 lanes). The language's default order is acquire and release: a fence
 * before each waits until the one before has been taken. */
static bool result_add(const struct jagged *jagged, const struct tile *tile, struct wave_state *state, struct wave_op *op)
{
    uint64_t lane_rows = max_u64(1, jagged->lanes / 4), own = jagged->block_n / jagged->waves;
    uint64_t row_groups = ceil_div(own, lane_rows), pieces = jagged->depth / 8, all = 2 * row_groups * pieces;
    for (uint64_t part; (part = state->r[1]++) < all;) {
        struct rows rows = kv_rows(jagged, part < all / 2 ? jagged->dk : jagged->dv, tile, 4);
        uint64_t piece = part % pieces, first = tile->first + state->wave * own + part / pieces % row_groups * lane_rows;
        uint64_t end = min_u64(min_u64(first + lane_rows, tile->first + (state->wave + 1) * own), tile->length);
        for (uint64_t row = first; row < end; row++) {
            uint64_t token = jagged->start[tile->sequence] + row;
            op_span_apart(op, rows.base + ((token * rows.row_heads + rows.head) * jagged->depth + piece * 8) * 4, 32);
        }
        if (op->span_count == 0) {
            continue;
        }
        op_begin(op, WAVE_ATOMIC, WAVE_NO_WAIT);
        op->wait_matrix = 1;
        op_work(op, 4, 0, (part == 0 ? MATRIX_CHAIN_CYCLES : 0) + (jagged->atomic_flags != 0 ? FENCE_CYCLES : 0));
        op->atomic_type = WAVE_ATOMIC_FP32;
        op->atomic_flags = (uint8_t)jagged->atomic_flags;
        op->element_bytes = 4;
        op_lanes(op, 4 * op->span_count); /* each adds two values */
        return true;
    }
    return false;
}

static void next_step(struct wave_state *state)
{
    state->trip++;
    state->pc = PHASE_FILL;
}

/* One phase; true when it filled the op. */
static bool phase(const struct jagged *jagged, const struct tile *tile, struct wave_state *state, struct wave_op *op)
{
    bool backward = jagged->pass != JAGGED_FORWARD;
    uint64_t ahead = jagged->stages - 1;
    switch (state->pc) {
    case PHASE_KEPT:
        load_kept(jagged, tile, state->wave, op);
        op->wait_outstanding = 0; /* for the sequence's bounds */
        op->issue_slots = (uint16_t)(op->issue_slots + PROLOGUE_SLOTS);
        state->pc = PHASE_FILL;
        return true;
    case PHASE_FILL:
        if (state->trip == tile->steps) {
            state->pc = PHASE_RESULT;
            return false;
        }
        if (state->r[0] <= state->trip + ahead && state->r[0] < tile->steps) {
            load_step(jagged, tile, state->r[0]++, state->wave, op);
            return true;
        }
        state->pc = PHASE_LOADED;
        return false;
    case PHASE_LOADED: /* the buffers of this step are full, those of the last one free */
        op_begin(op, WAVE_BARRIER, (uint8_t)(state->r[0] - state->trip - 1));
        op_work(op, 6, 0, 0);
        op->lds_bytes = (uint32_t)(2ull * (keeps_queries(jagged) ? jagged->block_n : jagged->block_m) * jagged->depth *
                                   jagged->element_bytes / jagged->waves);
        state->pc = jagged->stages == 1 ? PHASE_COPIED : PHASE_SCORES;
        return true;
    case PHASE_COPIED: /* loaded into registers and stored to shared memory, which all waves must have left and then see */
        op_begin(op, WAVE_BARRIER, WAVE_NO_WAIT);
        op_work(op, slots16(3.0 * op->lds_bytes / 16 / jagged->lanes) + 12, 0, LDS_CYCLES);
        state->pc = PHASE_SCORES;
        return true;
    case PHASE_SCORES:
        matrix_op(jagged, op, backward ? 2 : 1);
        state->pc = PHASE_ACTIVATE;
        return true;
    case PHASE_ACTIVATE:
        score_op(jagged, op, jagged->score_valu + mask_slots(jagged), jagged->score_sfu, backward ? 0 : 1);
        op->work_units = !backward;
        op->issue_slots = (uint16_t)(op->issue_slots + 2 * jagged->spilled);
        state->pc = !backward ? PHASE_FILL : jagged->pass == JAGGED_DQ ? PHASE_GRADIENT : PHASE_SHARE;
        state->trip += !backward;
        return true;
    case PHASE_SHARE: /* P and dS, transposed, through shared memory */
        op_begin(op, WAVE_BARRIER, WAVE_NO_WAIT);
        op_work(op, slots16(scores_per_lane(jagged)), 0, 0);
        op->lds_bytes = (uint32_t)(2 * scores_per_lane(jagged) * jagged->lanes * 2 * jagged->element_bytes);
        state->pc = PHASE_GRADIENT;
        return true;
    case PHASE_GRADIENT:
        matrix_op(jagged, op, jagged->pass == JAGGED_DQ ? 1 : 2);
        op->work_units = 1;
        next_step(state);
        return true;
    case PHASE_RESULT:
        if (jagged->pass == JAGGED_ATOMIC ? result_add(jagged, tile, state, op)
                                          : result_store(jagged, tile, state, op)) {
            return true;
        }
        state->pc = PHASE_END;
        return false;
    default: op_end(op); return true;
    }
}

static void jagged_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                        struct wave_op *op)
{
    const struct jagged *jagged = program->context;
    struct tile tile;
    (void)window;
    if (state->pc == PHASE_START) {
        uint64_t column = state->workgroup / jagged->tiles;
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, EXIT_SLOTS, 0, 0);
        op_span(op, jagged->offsets + column % jagged->batch * 8, 16);
        op_lanes(op, 2);
        state->pc = PHASE_KEPT;
        state->trip = 0;
        return;
    }
    if (!tile_of(jagged, state->workgroup, &tile)) {
        op_end(op);
        op->wait_outstanding = 0;
        return;
    }
    while (!phase(jagged, &tile, state, op)) {
    }
}

/* ---- building ---- */

struct jagged_params {
    uint64_t batch, longest, heads, kv_heads, depth, block_m, block_n, warps, stages;
    double tokens, sum_len2;
    int act;
    bool causal, swizzle, by_die, relaxed, small_matrix, more_waves;
};

/* Slots per score: valu, special. The scale, the conversion and the product are in all of them. */
static const struct {
    double valu, sfu;
} activations[] = {
    { 24, 2 }, /* SiLU */
    { 24, 2 }, /* GeLU, x sigmoid(1.702 x): the factor folds into the exponent's */
    { 29, 2 }, /* GeLU, tanh by the sigmoid: cube, polynomial, 2 s - 1, one more product */
    { 50, 2 }, /* GeLU, the library's tanh: a polynomial and an exponential, selects at half rate */
    { 10, 1 }, /* softmax: scale and subtract, a maximum at half rate, EX2 with its range test, sum, conversion */
};
#define ACTS "silu|gelu_sigmoid|gelu_tanh|gelu|softmax"
enum { ACT_SILU, ACT_GELU_SIGMOID, ACT_GELU_TANH, ACT_GELU, ACT_SOFTMAX };
#define GRADIENT_VALU 12.0 /* derivative 4, dP times it and the scale 2, its mask 4, conversion and shared-memory address 2 */

/* Lengths drawn evenly between two bounds, of which mean and mean square are known; spread by the golden ratio, so that any
 * stretch of the batch has all lengths. */
static void draw_lengths(struct jagged *jagged, double mean, double mean_square, uint64_t longest)
{
    double half = sqrt(3 * fmax(mean_square - mean * mean, 0));
    double low = fmax(mean - half, 1), high = fmin(2 * mean - low, (double)longest);
    for (uint64_t b = 0; b < jagged->batch; b++) {
        double at = fmod(0.5 + (double)b * 0.6180339887498949, 1);
        uint64_t length = (uint64_t)fmax(1, fmin(round(low + (high - low) * at), (double)longest));
        jagged->start[b + 1] = jagged->start[b] + length;
    }
}

static bool check(struct kernel_build *build, const struct jagged_params *p)
{
    if (!kernel_params_done(build)) {
        return false;
    }
    if (p->heads % p->kv_heads != 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "kv_heads=%llu is not valid: must divide heads=%llu",
                    (unsigned long long)p->kv_heads, (unsigned long long)p->heads);
    } else if (p->tokens > (double)p->batch * (double)p->longest || p->tokens < (double)p->batch) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "tokens=%.0f is not valid: must be from B=%llu to B x S=%.0f", p->tokens,
                    (unsigned long long)p->batch, (double)p->batch * (double)p->longest);
    } else if (p->sum_len2 < p->tokens * p->tokens / (double)p->batch * 0.999 ||
               p->sum_len2 > p->tokens * (double)p->longest * 1.001) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "sum_len2=%.0f does not go with tokens=%.0f: must be from %.0f to %.0f",
                    p->sum_len2, p->tokens, p->tokens * p->tokens / (double)p->batch, p->tokens * (double)p->longest);
    } else if (build->machine->matrix_flops_per_cycle[WAVE_BF16] <= 0) {
        kernel_fail(build, SIM_UNSUPPORTED, "the device has no matrix rate for bf16");
    }
    return kernel_build_ok(build);
}

static uint64_t tensor(struct wave_program *program, const char *name, double tokens, uint64_t heads, uint64_t depth,
                       uint32_t bytes)
{
    return kernel_program_tensor(program, name, tokens * (double)heads * (double)depth * bytes);
}

/* Matrix instructions of 32 x 32 hold a wider block of operands and results than those of 16 x 16, and their results come
 * later; where the machine has one shape the choice changes nothing. */
#define WIDE_REGISTERS 16.0
#define WIDE_CHAIN_CYCLES 64u
#define REGISTER_STEP 8u

/* The compiler is told to keep a wave more on each SIMD: registers beyond its share are stored and loaded again every step. */
static void one_more_wave(struct kernel_build *build, struct wave_program *program, struct jagged *jagged)
{
    uint32_t resident = build->machine->simd_registers / program->registers_per_lane;
    uint32_t share = build->machine->simd_registers / (resident + 1) / REGISTER_STEP * REGISTER_STEP;
    if (share >= 2 * REGISTER_STEP && share < program->registers_per_lane) {
        jagged->spilled += program->registers_per_lane - share;
        program->registers_per_lane = share;
    }
}

static void registers_and_lds(struct kernel_build *build, struct wave_program *program, const struct jagged_params *p,
                              struct jagged *jagged)
{
    double threads = (double)jagged->waves * jagged->lanes, m = jagged->block_m, n = jagged->block_n,
           depth = (double)jagged->depth;
    bool backward = jagged->pass != JAGGED_FORWARD, queries = keeps_queries(jagged);
    double accumulators = queries ? m * depth : 2 * n * depth, scores = backward ? 2.5 * m * n : 1.5 * m * n;
    double registers = JAGGED_BASE_REGISTERS + (p->small_matrix ? 0 : WIDE_REGISTERS) + (accumulators + scores) / threads;
    uint32_t most = build->machine->registers_per_lane_max / REGISTER_STEP * REGISTER_STEP, live = (uint32_t)ceil(registers);
    program->registers_per_lane = most > 0 && live > most ? most : live;
    jagged->spilled = live - program->registers_per_lane;
    if (p->more_waves) {
        one_more_wave(build, program, jagged);
    }
    double moving = 2 * (queries ? n : m) * depth * jagged->element_bytes;
    double shared = backward && !queries ? 2 * m * n * jagged->element_bytes : 0;
    uint64_t buffers = max_u64(1, jagged->stages - 1); /* the kept tile stays in registers, and so does the newest copy */
    program->lds_bytes = (uint32_t)((double)buffers * moving + shared);
    kernel_require_lds(build, program->lds_bytes);
}

static uint64_t all_steps(const struct jagged *jagged, uint64_t workgroups)
{
    uint64_t steps = 0;
    struct tile tile;
    for (uint64_t w = 0; w < workgroups; w++) {
        steps += tile_of(jagged, w, &tile) ? tile.steps : 0;
    }
    return steps;
}

static void add_jagged(struct kernel_build *build, const char *name, const struct jagged_params *p, enum jagged_pass pass)
{
    struct wave_program *program = kernel_program_create(name, sizeof(struct jagged), jagged_next);
    struct jagged *jagged = program->context;
    *jagged = (struct jagged){
        .batch = p->batch, .heads = p->heads, .kv_heads = p->kv_heads, .depth = p->depth,
        .block_m = (uint32_t)p->block_m, .block_n = (uint32_t)p->block_n, .waves = (uint32_t)p->warps,
        .lanes = build->machine->lanes, .stages = (uint32_t)p->stages, .element_bytes = 2, .pass = pass,
        .causal = p->causal, .swizzle = p->swizzle, .dies = p->by_die ? build->machine->dispatch_dies : 0,
        .atomic_flags = p->relaxed ? 0 : WAVE_ATOMIC_ACQ_REL,
    };
    jagged->tiles = ceil_div(p->longest, keeps_queries(jagged) ? p->block_m : p->block_n);
    jagged->chain_cycles = MATRIX_CHAIN_CYCLES + (p->small_matrix ? 0 : WIDE_CHAIN_CYCLES);
    jagged->start = kernel_program_scratch(program, (p->batch + 1) * sizeof *jagged->start);
    draw_lengths(jagged, p->tokens / (double)p->batch, p->sum_len2 / (double)p->batch, p->longest);
    double tokens = (double)jagged->start[p->batch];
    jagged->offsets = kernel_program_tensor(program, "offsets", ((double)p->batch + 2) * 8);
    jagged->q = tensor(program, "q", tokens, p->heads, p->depth, 2);
    jagged->k = tensor(program, "k", tokens, p->kv_heads, p->depth, 2);
    jagged->v = tensor(program, "v", tokens, p->kv_heads, p->depth, 2);
    if (keeps_queries(jagged)) {
        jagged->o = tensor(program, pass == JAGGED_DQ ? "dq" : "o", tokens, p->heads, p->depth, 2);
    }
    if (pass != JAGGED_FORWARD) {
        jagged->d_o = tensor(program, "do", tokens, p->heads, p->depth, 2);
    }
    if (!keeps_queries(jagged)) {
        jagged->dk = tensor(program, "dk", tokens, p->kv_heads, p->depth, 4);
        jagged->dv = tensor(program, "dv", tokens, p->kv_heads, p->depth, 4);
    }
    jagged->score_valu = activations[p->act].valu + (pass == JAGGED_FORWARD ? 0 : GRADIENT_VALU);
    jagged->score_sfu = activations[p->act].sfu;
    registers_and_lds(build, program, p, jagged);
    program->workgroups = jagged->tiles * grid_columns(jagged);
    program->waves_per_workgroup = jagged->waves;
    /* workgroups differ, but golden-ratio lengths make any stretch of them alike, and in a stretch tiles of a head find each
     * other's keys in the caches */
    program->work_units_total = all_steps(jagged, program->workgroups) * jagged->waves;
    program->initial_cache = WAVE_CACHE_STATE_FLUSHED;
    double products = pass == JAGGED_FORWARD ? 4 : pass == JAGGED_DQ ? 2 : 8; /* the other two are counted with dK and dV */
    program->flops = products * p->sum_len2 * (p->causal ? 0.5 : 1) * (double)p->heads * (double)p->depth;
    kernel_plan_add(build, program, 1);
    if (kernel_build_ok(build)) {
        build->plan->flops += program->flops;
        kernel_value_per_time(build, build->plan->flops * 1e-6, "TFLOP/s");
    }
}

static void read_shape(struct kernel_build *build, struct jagged_params *p)
{
    p->batch = kernel_param_integer(build, "B", 1, BATCH_MAX);
    p->longest = kernel_param_integer(build, "S", 1, 1u << 20);
    p->heads = kernel_param_integer(build, "heads", 1, 1024);
    p->kv_heads = kernel_param_integer_or(build, "kv_heads", 1, 1024, p->heads, NULL);
    p->depth = kernel_param_integer(build, "d", 16, 256);
    double mean = fmax(1, (double)p->longest / 2);
    p->tokens = kernel_param_real_or(build, "tokens", 1, 1e12, (double)p->batch * mean,
                                     "B x S / 2: lengths drawn evenly up to S");
    mean = p->tokens / (double)p->batch;
    double half = fmin(mean, (double)p->longest - mean);
    p->sum_len2 = kernel_param_real_or(build, "sum_len2", 1, 1e18, (double)p->batch * (mean * mean + half * half / 3),
                                       "lengths drawn evenly around their mean");
}

static void read_launch(struct kernel_build *build, struct jagged_params *p, uint64_t block_m, uint64_t block_n,
                        uint64_t warps, uint64_t stages)
{
    p->block_m = kernel_param_integer_or(build, "block_m", 16, 256, block_m, NULL);
    p->block_n = kernel_param_integer_or(build, "block_n", 16, 256, block_n, NULL);
    p->warps = kernel_param_integer_or(build, "warps", 1, 16, warps, NULL);
    p->stages = kernel_param_integer_or(build, "stages", 1, 8, stages, NULL);
}

/* Wave32 machines multiply whole tiles at once (or have one shape): the choice is for those that have both. */
static void launch_of(struct kernel_build *build, struct jagged_params *p, int act, bool causal,
                      uint64_t block_m, uint64_t block_n, uint64_t warps, uint64_t stages)
{
    p->act = kernel_param_choice_or(build, "act", ACTS, act, NULL);
    p->causal = kernel_param_integer_or(build, "causal", 0, 1, causal, NULL) == 1;
    read_launch(build, p, block_m, block_n, warps, stages);
    p->small_matrix = build->machine->lanes < 64;
}

static void build_forward(struct kernel_build *build)
{
    struct jagged_params p = { 0 };
    read_shape(build, &p);
    launch_of(build, &p, ACT_SILU, true, 64, 64, 4, 2);
    p.swizzle = kernel_param_integer_or(build, "swizzle", 0, 1, 0, NULL) == 1;
    if (check(build, &p)) {
        add_jagged(build, "jagged_forward", &p, JAGGED_FORWARD);
    }
}

static void build_backward(struct kernel_build *build, const char *name, enum jagged_pass pass)
{
    struct jagged_params p = { 0 };
    read_shape(build, &p);
    launch_of(build, &p, ACT_SILU, true, 64, 64, 4, 2);
    if (pass == JAGGED_ATOMIC) {
        p.relaxed = kernel_param_choice_or(build, "order", "acq_rel|relaxed", 0, NULL) == 1;
    }
    if (check(build, &p)) {
        add_jagged(build, name, &p, pass);
    }
}

static void build_atomic(struct kernel_build *build)
{
    build_backward(build, "jagged_dkdv_atomic", JAGGED_ATOMIC);
}

static void build_accumulate(struct kernel_build *build)
{
    build_backward(build, "jagged_dkdv_accumulate", JAGGED_ACCUMULATE);
}

/* ---- attention/gdpa, hstu, jfa ---- */

/* Shapes are not published; the defaults meet what is: GDPA's 85.9 GFLOP and the TFLOP/s before and after its fixes, which heads of
 * 64 come nearer to than heads of 128; HSTU's histories at the sparsity named, 0.95, where its fixes gain what is published; JFA
 * 655,360 tokens with grouped heads, at the length where atomics cost what their fix is said to save. All are inputs. */
struct form {
    const char *name;
    int act;
    bool causal;
    uint64_t batch, longest, heads, kv_heads, depth;
    double fill; /* mean length over the longest */
};
static const struct form gdpa = { "gdpa", ACT_GELU, false, 1024, 256, 16, 16, 64, 0.484 };
static const struct form hstu = { "hstu", ACT_SILU, true, 256, 2048, 8, 8, 64, 0.05 };
static const struct form jfa = { "jfa", ACT_SOFTMAX, true, 1280, 1024, 8, 2, 128, 0.5 };
#define UNPUBLISHED "the study gives no shapes"

static void read_form(struct kernel_build *build, const struct form *form, struct jagged_params *p)
{
    p->batch = kernel_param_integer_or(build, "B", 1, BATCH_MAX, form->batch, "64..4096: " UNPUBLISHED);
    p->longest = kernel_param_integer_or(build, "S", 1, 1u << 20, form->longest, "128..8192: " UNPUBLISHED);
    p->heads = kernel_param_integer_or(build, "heads", 1, 1024, form->heads, "2..16: " UNPUBLISHED);
    p->kv_heads = kernel_param_integer_or(build, "kv_heads", 1, 1024, min_u64(form->kv_heads, p->heads), NULL);
    p->depth = kernel_param_integer_or(build, "d", 16, 256, form->depth, "64..128: " UNPUBLISHED);
    double sparsity = kernel_param_real_or(build, "sparsity", 0, 0.999, 1 - form->fill, "0..0.95: " UNPUBLISHED);
    double mean = fmax(1, (1 - sparsity) * (double)p->longest), half = fmin(mean - 1, (double)p->longest - mean);
    p->tokens = kernel_param_real_or(build, "tokens", 1, 1e12, (double)p->batch * mean, NULL);
    mean = p->tokens / (double)p->batch;
    p->sum_len2 = kernel_param_real_or(build, "sum_len2", 1, 1e18, (double)p->batch * (mean * mean + half * half / 3), NULL);
    bool two = kernel_has_fix(build, KERNEL_FIX_PIPELINE2);
    launch_of(build, p, form->act, form->causal, 128, 64, 4, two ? 2 : 1);
    p->small_matrix = p->small_matrix || kernel_has_fix(build, KERNEL_FIX_MFMA16);
    p->more_waves = kernel_has_fix(build, KERNEL_FIX_OCCUPANCY);
    p->by_die = kernel_has_fix(build, KERNEL_FIX_XCD_SWIZZLE);
    if (kernel_has_fix(build, KERNEL_FIX_FAST_GELU) && (p->act == ACT_GELU || p->act == ACT_GELU_TANH)) {
        p->act = ACT_GELU_SIGMOID;
    }
}

static void form_forward(struct kernel_build *build, const struct form *form)
{
    struct jagged_params p = { 0 };
    read_form(build, form, &p);
    if (check(build, &p)) {
        add_jagged(build, "attention_forward", &p, JAGGED_FORWARD);
    }
}

static void form_backward(struct kernel_build *build, const struct form *form)
{
    struct jagged_params p = { 0 };
    read_form(build, form, &p);
    p.relaxed = kernel_param_choice_or(build, "order", "acq_rel|relaxed", 0, NULL) == 1; /* the language's default */
    if (check(build, &p)) {
        bool accumulate = kernel_has_fix(build, KERNEL_FIX_KV_ACCUMULATE) || p.kv_heads == p.heads;
        add_jagged(build, "attention_dkdv", &p, accumulate ? JAGGED_ACCUMULATE : JAGGED_ATOMIC);
        add_jagged(build, "attention_dq", &p, JAGGED_DQ);
    }
}

#define FORM(name)                                        \
    static void build_##name##_fwd(struct kernel_build *build) \
    {                                                     \
        form_forward(build, &name);                       \
    }                                                     \
    static void build_##name##_bwd(struct kernel_build *build) \
    {                                                     \
        form_backward(build, &name);                      \
    }
FORM(gdpa)
FORM(hstu)
FORM(jfa)
#undef FORM

#define SHAPE_HELP                                                                                                       \
    "B (sequences), S (the longest), heads, kv_heads (heads), d, tokens (B S / 2), sum_len2 (of squared lengths; as drawn " \
    "evenly), act (" ACTS "; silu), causal (0|1; 1), block_m (64), block_n (64), warps (4), stages (2)"

#define FORM_HELP                                                                                                        \
    "B, S, heads, kv_heads, d, sparsity (1 - mean length / S; unpublished, assumed), tokens, sum_len2, act (" ACTS "), "    \
    "causal (0|1), block_m (128), block_n (64), warps (4), stages (1; pipeline2: 2)"
#define ORDER_HELP ", order (acq_rel|relaxed; acq_rel): of the atomics"

const struct kernel_definition dense_jagged_kernels[] = {
    { "jagged", "forward", "pointwise attention over jagged sequences", SHAPE_HELP ", swizzle (0|1; 0)", build_forward },
    { "jagged", "backward_dkdv_atomic", "its dK and dV, query heads racing by atomics",
      SHAPE_HELP ", order (acq_rel|relaxed; acq_rel)", build_atomic },
    { "jagged", "backward_dkdv_accumulate", "its dK and dV, accumulated per key head", SHAPE_HELP, build_accumulate },
    { "attention", "gdpa_fwd", "generalised dot-product attention with GeLU", FORM_HELP, build_gdpa_fwd },
    { "attention", "gdpa_bwd", "its backward: dK and dV, then dQ", FORM_HELP ORDER_HELP, build_gdpa_bwd },
    { "attention", "hstu_fwd", "attention with SiLU over jagged histories", FORM_HELP, build_hstu_fwd },
    { "attention", "hstu_bwd", "its backward: dK and dV, then dQ", FORM_HELP ORDER_HELP, build_hstu_bwd },
    { "attention", "jfa_fwd", "jagged flash attention with grouped heads", FORM_HELP, build_jfa_fwd },
    { "attention", "jfa_bwd", "its backward: dK and dV, then dQ", FORM_HELP ORDER_HELP, build_jfa_bwd },
    { NULL, NULL, NULL, NULL, NULL },
};
