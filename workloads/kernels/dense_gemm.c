/* Matrix products. One program serves every tile kernel: a workgroup owns output tiles, walks K with `stages` of
 * prefetch, feeds the matrix unit asynchronously and stores the tile. Three ways to bring operands:
 *
 * async:    whole tiles go to LDS in bulk (TMA, direct-to-LDS) and the matrix unit reads them there, so only bytes, matrix
 *           work and the depth of the prefetch matter. Kernels that fill LDS are persistent: as many workgroups as units,
 *           each with several tiles, whose loads run ahead across tiles.
 * copies:   rows of A, B or C that are not 16 B apart, or operands that the matrix unit cannot read from LDS as they lie.
 *           Lanes copy 4 to 16 B each into LDS, some steps ahead, with a barrier a step; matrix instructions take their
 *           operands from registers, at a part of the rate (`register_rate`).
 * register: the same where rows are 2 B apart, less than such a copy can move: loads pass registers, one step ahead.
 *
 * Neighbouring workgroups of a cluster share tiles: each loads its part and the hardware delivers it to all.
 * The tile rule weighs rounds of tiles over the units, matrix time and operand time of a step; see tile_cost. */
#include "workloads/kernels/dense_internal.h"

/* Share of the matrix rate that instructions with register operands reach. Luo et al., Dissecting the NVIDIA Hopper
 * Architecture through Microbenchmarking, arXiv:2501.12084: mma reaches 63% of what wgmma does. */
#define REGISTER_RATE 0.63
#define SIZE_MAX_GEMM (1ull << 28)
#define SPANS_PER_OP 64u

enum gemm_style { GEMM_AUTO, GEMM_ASYNC, GEMM_COPIES, GEMM_REGISTER };

/* How a number type runs: its own unit, or what it is emulated by. */
struct matrix_type {
    uint32_t bytes;     /* of an operand element in memory */
    uint32_t out_bytes; /* of a result element, unless given */
    uint8_t dtype;      /* enum wave_dtype that runs it */
    double products;    /* products per useful product */
    double rate;        /* FLOP per cycle and unit */
};

/* One operand in memory: `k_major` rows run along K. */
struct gemm_operand {
    uint64_t base, pitch, batch_stride; /* elements */
    bool k_major;
};

struct gemm_tile {
    uint32_t m, n, k, stages, split;
    uint32_t cluster_m, cluster_n;
};

struct gemm {
    uint64_t m, n, k, batch;
    struct gemm_tile tile;
    struct gemm_operand a, b;
    uint64_t c; /* first address of the result, or of the partial results */
    uint32_t bytes, c_bytes;
    uint64_t steps;                                 /* of K per item */
    uint64_t clusters_m, clusters_n, items, rounds; /* items: clusters of tiles, over batch and split */
    uint64_t group;                                 /* rows of clusters walked together */
    uint32_t waves, lanes;
    enum gemm_style style;
    uint8_t dtype;
    uint64_t step_flops; /* matrix work of a wave in a step */
    uint32_t step_issue, step_valu, step_lds;
    uint32_t store_valu;
};

/* ---- where things are ---- */

struct item {
    uint64_t batch, split, row, column; /* of the tile: first row and column */
    uint32_t rank_m, rank_n;            /* in its cluster */
};

static uint32_t cluster_size(const struct gemm_tile *tile)
{
    return tile->cluster_m * tile->cluster_n;
}

/* Which item a workgroup has in a round; false beyond the last. Tiles are walked in groups of `group` rows of clusters, so
 * that workgroups that run together share rows of A and columns of B in the caches. */
static bool item_of(const struct gemm *gemm, const struct wave_program *program, uint64_t workgroup,
                    uint64_t round, struct item *item)
{
    uint32_t cluster = cluster_size(&gemm->tile), rank = (uint32_t)(workgroup % cluster);
    uint64_t index = round * (program->workgroups / cluster) + workgroup / cluster;
    if (index >= gemm->items) {
        return false;
    }
    uint64_t tiles = gemm->clusters_m * gemm->clusters_n, slice = index / tiles, t = index % tiles;
    uint64_t band = t / (gemm->group * gemm->clusters_n);
    uint64_t height = min_u64(gemm->group, gemm->clusters_m - band * gemm->group);
    uint64_t in_band = t - band * gemm->group * gemm->clusters_n;
    uint64_t cm = band * gemm->group + in_band % height, cn = in_band / height;
    item->rank_m = rank % gemm->tile.cluster_m;
    item->rank_n = rank / gemm->tile.cluster_m;
    item->row = (cm * gemm->tile.cluster_m + item->rank_m) * gemm->tile.m;
    item->column = (cn * gemm->tile.cluster_n + item->rank_n) * gemm->tile.n;
    item->batch = slice / gemm->tile.split;
    item->split = slice % gemm->tile.split;
    return true;
}

/* Where step `trip` of a wave is; false for a step that does not exist (a short last split, a missing item). */
struct step {
    struct item item;
    uint64_t k, k_count;
    bool last; /* of its item */
};

static bool step_of(const struct gemm *gemm, const struct wave_program *program, uint64_t workgroup,
                    uint64_t trip, struct step *step)
{
    if (trip >= gemm->rounds * gemm->steps ||
        !item_of(gemm, program, workgroup, trip / gemm->steps, &step->item)) {
        return false;
    }
    uint64_t own = trip % gemm->steps;
    step->k = (step->item.split * gemm->steps + own) * gemm->tile.k;
    step->last = own + 1 == gemm->steps || step->k + gemm->tile.k >= gemm->k;
    if (step->k >= gemm->k) {
        return false;
    }
    step->k_count = min_u64(gemm->tile.k, gemm->k - step->k);
    return true;
}

/* Lines of an operand tile in memory: `count` pieces of `length` elements, `pitch` apart. */
struct lines {
    uint64_t first, count, length;
};

/* The part of an operand tile that this workgroup loads: along K-major rows, or rows of K. `from`, `extent`: the tile's
 * place along the other dimension and that dimension's size; `share` of `shares` in the cluster. */
static struct lines operand_lines(const struct gemm_operand *operand, const struct step *step, uint64_t from,
                                  uint64_t tile, uint64_t extent, uint32_t share, uint32_t shares)
{
    uint64_t end = min_u64(from + tile, extent);
    if (from >= end) {
        return (struct lines){ 0, 0, 0 };
    }
    if (operand->k_major) {
        uint64_t part = ceil_div(tile, shares), first = min_u64(end, from + share * part);
        uint64_t count = min_u64(part, end - first);
        return (struct lines){ first * operand->pitch + step->k, count, step->k_count };
    }
    uint64_t part = ceil_div(step->k_count, shares), first = min_u64(step->k_count, share * part);
    return (struct lines){ (step->k + first) * operand->pitch + from, min_u64(part, step->k_count - first),
                           end - from };
}

static struct lines a_lines(const struct gemm *gemm, const struct step *step)
{
    struct lines lines = operand_lines(&gemm->a, step, step->item.row, gemm->tile.m, gemm->m,
                                       step->item.rank_n, gemm->tile.cluster_n);
    lines.first += step->item.batch * gemm->a.batch_stride;
    return lines;
}

static struct lines b_lines(const struct gemm *gemm, const struct step *step)
{
    struct lines lines = operand_lines(&gemm->b, step, step->item.column, gemm->tile.n, gemm->n,
                                       step->item.rank_m, gemm->tile.cluster_m);
    lines.first += step->item.batch * gemm->b.batch_stride;
    return lines;
}

/* Lines [first, end) of the A and B lines together that a wave loads. */
static void wave_share(const struct gemm *gemm, uint32_t wave, uint64_t lines, uint64_t *first, uint64_t *end)
{
    *first = lines * wave / gemm->waves;
    *end = lines * (wave + 1) / gemm->waves;
}

/* Load ops that step `trip` takes in a wave. */
static uint64_t load_ops(const struct gemm *gemm, const struct wave_program *program,
                         const struct wave_state *state, uint64_t trip)
{
    struct step step;
    uint64_t first, end;
    if (!step_of(gemm, program, state->workgroup, trip, &step)) {
        return 0;
    }
    wave_share(gemm, state->wave, a_lines(gemm, &step).count + b_lines(gemm, &step).count, &first, &end);
    return ceil_div(end - first, SPANS_PER_OP);
}

/* The part-th op of the loads of a step. */
static void load_spans(const struct gemm *gemm, const struct wave_program *program,
                       const struct wave_state *state, uint64_t trip, uint64_t part, struct wave_op *op)
{
    struct step step;
    uint64_t first, end;
    bool exists = step_of(gemm, program, state->workgroup, trip, &step);
    SIM_ASSERT(exists, "loads of step %llu, which does not exist", (unsigned long long)trip);
    struct lines a = a_lines(gemm, &step), b = b_lines(gemm, &step);
    wave_share(gemm, state->wave, a.count + b.count, &first, &end);
    first += part * SPANS_PER_OP;
    end = min_u64(end, first + SPANS_PER_OP);
    for (uint64_t i = first; i < end; i++) {
        bool of_a = i < a.count;
        const struct gemm_operand *operand = of_a ? &gemm->a : &gemm->b;
        const struct lines *lines = of_a ? &a : &b;
        uint64_t index = lines->first + (of_a ? i : i - a.count) * operand->pitch;
        op_span(op, operand->base + index * gemm->bytes, lines->length * gemm->bytes);
    }
    op->cache = gemm->style == GEMM_REGISTER ? WAVE_CACHE_L1 : WAVE_CACHE_L2;
}

/* ---- the program ----
 * r[0]: steps whose loads have all been issued lie below it. r[1]: next load op of step r[0]. r[2]: phase within the
 * current step. r[3]: next store op. */
enum { PHASE_FILL, PHASE_STEP, PHASE_LOADS, PHASE_BARRIER, PHASE_EPILOGUE, PHASE_STORE, PHASE_NEXT };

struct walk {
    const struct gemm *gemm;
    const struct wave_program *program;
    struct wave_state *state;
    struct wave_op *op;
    uint64_t limit; /* steps of this window */
};

/* Issue one load op of the steps below `target`; false when none is left. */
static bool issue_load(const struct walk *walk, uint64_t target)
{
    struct wave_state *state = walk->state;
    for (; state->r[0] < min_u64(target, walk->limit); state->r[0]++, state->r[1] = 0) {
        if (state->r[1] < load_ops(walk->gemm, walk->program, state, state->r[0])) {
            load_spans(walk->gemm, walk->program, state, state->r[0], state->r[1]++, walk->op);
            op_begin(walk->op, WAVE_LOAD, WAVE_NO_WAIT);
            op_work(walk->op, walk->gemm->step_issue, walk->gemm->step_valu, 0);
            op_lanes(walk->op, walk->gemm->lanes);
            return true;
        }
    }
    return false;
}

/* Load ops issued for steps after `trip`: what may stay in flight while its data are used. */
static uint8_t loads_after(const struct walk *walk, uint64_t trip)
{
    uint64_t count = 0;
    for (uint64_t t = trip + 1; t < walk->state->r[0]; t++) {
        count += load_ops(walk->gemm, walk->program, walk->state, t);
    }
    return (uint8_t)min_u64(count, WAVE_NO_WAIT - 1);
}

static void matrix_step(const struct walk *walk)
{
    const struct gemm *gemm = walk->gemm;
    op_begin(walk->op, WAVE_COMPUTE, loads_after(walk, walk->state->trip));
    op_work(walk->op, 8, 0, 0);
    walk->op->wait_matrix = 1; /* the step before has left its buffer */
    walk->op->matrix_flops = gemm->step_flops;
    walk->op->matrix_dtype = gemm->dtype;
    walk->op->work_units = 1;
    op_lanes(walk->op, gemm->lanes);
}

/* Rows of the tile that a wave stores. */
static void store_rows(const struct gemm *gemm, const struct item *item, uint32_t wave, uint64_t *first,
                       uint64_t *end)
{
    *first = min_u64(gemm->m, item->row + (uint64_t)gemm->tile.m * wave / gemm->waves);
    *end = min_u64(gemm->m, item->row + (uint64_t)gemm->tile.m * (wave + 1) / gemm->waves);
}

static bool store_step(const struct walk *walk)
{
    const struct gemm *gemm = walk->gemm;
    struct item item;
    uint64_t first, end;
    bool exists = item_of(gemm, walk->program, walk->state->workgroup, walk->state->trip / gemm->steps,
                          &item);
    SIM_ASSERT(exists, "store of an item that does not exist");
    store_rows(gemm, &item, walk->state->wave, &first, &end);
    uint64_t row = first + walk->state->r[3] * SPANS_PER_OP;
    if (row >= end || item.column >= gemm->n) {
        return false;
    }
    uint64_t columns = min_u64(gemm->tile.n, gemm->n - item.column);
    uint64_t slice = item.batch * gemm->tile.split + item.split;
    for (uint64_t r = row; r < min_u64(end, row + SPANS_PER_OP); r++) {
        op_span(walk->op, gemm->c + ((slice * gemm->m + r) * gemm->n + item.column) * gemm->c_bytes,
                columns * gemm->c_bytes);
    }
    walk->state->r[3]++;
    op_begin(walk->op, WAVE_STORE, WAVE_NO_WAIT);
    op_work(walk->op, 4, 0, 0);
    op_lanes(walk->op, gemm->lanes);
    return true;
}

static void next_trip(struct wave_state *state)
{
    state->trip++;
    state->r[2] = PHASE_STEP;
    state->r[3] = 0;
}

/* One phase; true when it filled the op. */
static bool walk_phase(const struct walk *walk)
{
    const struct gemm *gemm = walk->gemm;
    struct wave_state *state = walk->state;
    struct step step;
    switch (state->r[2]) {
    case PHASE_FILL:
        if (issue_load(walk, state->trip + gemm->tile.stages - 1)) {
            return true;
        }
        state->r[2] = PHASE_STEP;
        return false;
    case PHASE_STEP:
        if (!step_of(gemm, walk->program, state->workgroup, state->trip, &step)) {
            next_trip(state);
            return false;
        }
        matrix_step(walk);
        state->r[2] = PHASE_LOADS;
        return true;
    case PHASE_LOADS:
        if (issue_load(walk, state->trip + gemm->tile.stages)) {
            return true;
        }
        state->r[2] = gemm->style == GEMM_ASYNC ? PHASE_EPILOGUE : PHASE_BARRIER;
        return false;
    case PHASE_BARRIER:
        op_begin(walk->op, WAVE_BARRIER, loads_after(walk, state->trip + 1));
        op_work(walk->op, 4, 0, 0);
        walk->op->wait_matrix = 1;
        walk->op->lds_bytes = gemm->step_lds;
        state->r[2] = PHASE_EPILOGUE;
        return true;
    case PHASE_EPILOGUE:
        if (!step_of(gemm, walk->program, state->workgroup, state->trip, &step) || !step.last) {
            next_trip(state);
            return false;
        }
        op_begin(walk->op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(walk->op, 20, gemm->store_valu, 0);
        walk->op->wait_matrix = 1;
        walk->op->lds_bytes = 2 * gemm->tile.m * gemm->tile.n * gemm->c_bytes / gemm->waves;
        state->r[2] = PHASE_STORE;
        return true;
    default:
        if (store_step(walk)) {
            return true;
        }
        next_trip(state);
        return false;
    }
}

static void gemm_next(const struct wave_program *program, const struct wave_window *window,
                      struct wave_state *state, struct wave_op *op)
{
    const struct gemm *gemm = program->context;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->r[0] = state->trip;
        state->pc = 1;
    }
    struct walk walk = { gemm, program, state, op, min_u64(window->trip_limit, gemm->rounds * gemm->steps) };
    while (state->trip < walk.limit) {
        if (walk_phase(&walk)) {
            return;
        }
    }
    op_end(op);
}

/* ---- the tile rule ---- */

#define UNIT_FILL_RATE 40.0 /* operand bytes per cycle that a unit can count on from L2 when all ask */
#define LDS_RATE 128.0      /* bytes per cycle that LDS feeds the matrix unit with */
#define OVERLAP_LOSS 0.25 /* of the shorter of operand and matrix time that is not hidden behind the longer */
#define TILE_START_CYCLES 1200.0 /* first operands of a tile, and its store */
#define SPLIT_CYCLES 4000.0      /* the launch that adds partial results up */

struct shape {
    uint64_t m, n, k, batch;
    struct matrix_type type;
    uint32_t units, lanes, lds_bytes, multicast;
    uint32_t width; /* bytes of a lane's copy */
    enum gemm_style style;
    double register_rate;
};

/* Cycles of matrix work in a step: multiply-adds, or reading the operands of every 64-row (or column) instruction. */
static double step_cycles(const struct shape *shape, const struct gemm_tile *tile)
{
    double wide = tile->m > tile->n ? tile->m : tile->n, narrow = tile->m > tile->n ? tile->n : tile->m;
    double flops = 2.0 * tile->m * tile->n * tile->k * shape->type.products;
    double multiply = flops /
                      (shape->type.rate * (shape->style == GEMM_ASYNC || shape->type.dtype == WAVE_FP32
                                               ? 1
                                               : shape->register_rate));
    double read = wide / 64 * (64 + narrow) * tile->k * shape->type.bytes / LDS_RATE;
    return multiply > read ? multiply : read;
}

static uint32_t tile_lds(const struct shape *shape, const struct gemm_tile *tile)
{
    return tile->stages * (tile->m + tile->n) * tile->k * shape->type.bytes;
}

static double tile_cost(const struct shape *shape, const struct gemm_tile *tile)
{
    double tiles = (double)(ceil_div(shape->m, tile->m) * ceil_div(shape->n, tile->n) * shape->batch) *
                   tile->split;
    uint64_t per_unit = max_u64(1, min_u64(8, shape->lds_bytes / tile_lds(shape, tile)));
    double steps = (double)ceil_div(ceil_div(shape->k, tile->k), tile->split);
    double fetched = (double)tile->m / tile->cluster_n + (double)tile->n / tile->cluster_m;
    double fill = fetched * tile->k * shape->type.bytes / UNIT_FILL_RATE, matrix = step_cycles(shape, tile);
    double rounds = (double)ceil_div((uint64_t)tiles, (uint64_t)shape->units);
    double longer = fill > matrix ? fill : matrix, shorter = fill > matrix ? matrix : fill;
    double cycles = rounds *
                        (steps * (longer + OVERLAP_LOSS * shorter) + TILE_START_CYCLES / (double)per_unit) +
                    TILE_START_CYCLES;
    double c_bytes = (double)(shape->m * shape->n * shape->batch);
    double stores = c_bytes * (tile->split > 1 ? 8.0 * tile->split : shape->type.out_bytes);
    return cycles + stores / (shape->units * UNIT_FILL_RATE) + (tile->split > 1 ? SPLIT_CYCLES : 0);
}

/* As deep a prefetch as LDS holds beside an epilogue buffer, 2 to 12 steps. */
static uint32_t stages_for(const struct shape *shape, const struct gemm_tile *tile)
{
    if (shape->style == GEMM_REGISTER) {
        return 2;
    }
    uint32_t most = shape->style == GEMM_COPIES ? 4 : 12;
    uint64_t step = (uint64_t)(tile->m + tile->n) * tile->k * shape->type.bytes;
    uint64_t room = shape->lds_bytes > 16384 ? shape->lds_bytes - 16384 : shape->lds_bytes;
    return (uint32_t)max_u64(2, min_u64(most, room / step));
}

static void cluster_for(const struct shape *shape, struct gemm_tile *tile)
{
    bool pair = shape->multicast > 1 && shape->style == GEMM_ASYNC;
    bool over_n = tile->m >= tile->n; /* share the larger operand tile */
    tile->cluster_n = pair && over_n && ceil_div(shape->n, tile->n) % 2 == 0 ? 2 : 1;
    tile->cluster_m = pair && tile->cluster_n == 1 && ceil_div(shape->m, tile->m) % 2 == 0 ? 2 : 1;
}

static bool tile_is_possible(const struct shape *shape, const struct gemm_tile *tile)
{
    bool accumulators = (uint64_t)tile->m * tile->n <=
                        (uint64_t)shape->lanes * 1024; /* 128 (256) a lane, 256 lanes */
    bool wide = tile->m >= 64 || tile->n >= 64 ||
                (tile->m >= 32 && tile->n >= 32 && shape->style != GEMM_ASYNC);
    return accumulators && wide && tile_lds(shape, tile) <= shape->lds_bytes;
}

/* The cheapest tile; the given values (not 0) are kept. */
static struct gemm_tile choose_tile(const struct shape *shape, struct gemm_tile given)
{
    static const uint32_t sizes[] = { 256, 192, 128, 96, 64, 32, 16 };
    struct gemm_tile best = given;
    double best_cost = -1;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
            for (uint32_t split = 1; split <= 32; split *= 2) {
                struct gemm_tile tile = given;
                tile.m = given.m != 0 ? given.m : sizes[i];
                tile.n = given.n != 0 ? given.n : sizes[j];
                tile.split = given.split != 0 ? given.split : split;
                if (tile.split > 1 && ceil_div(shape->k, tile.k) < 4 * tile.split && given.split == 0) {
                    continue;
                }
                tile.stages = given.stages != 0 ? given.stages : stages_for(shape, &tile);
                if (given.cluster_m == 0) {
                    cluster_for(shape, &tile);
                }
                double cost = tile_is_possible(shape, &tile) || (given.m != 0 && given.n != 0)
                                  ? tile_cost(shape, &tile)
                                  : -1;
                if (cost >= 0 && (best_cost < 0 || cost < best_cost)) {
                    best = tile;
                    best_cost = cost;
                }
            }
        }
    }
    return best;
}

/* ---- building ---- */

static const char gemm_dtypes[] = "bf16|fp16|tf32|fp32|fp8";
enum { TYPE_BF16, TYPE_FP16, TYPE_TF32, TYPE_FP32, TYPE_FP8 };

static const char trans_choices[] = "nt|nn|tt|tn";
enum { TRANS_NT, TRANS_NN, TRANS_TT, TRANS_TN };

static struct matrix_type matrix_type(struct kernel_build *build, int choice)
{
    static const uint8_t dtypes[] = { WAVE_BF16, WAVE_FP16, WAVE_TF32, WAVE_FP32, WAVE_FP8 };
    static const uint32_t bytes[] = { 2, 2, 4, 4, 1 };
    const double *rates = build->machine->matrix_flops_per_cycle;
    struct matrix_type type = { .bytes = bytes[choice],
                                .out_bytes = bytes[choice] < 2 ? 2 : bytes[choice],
                                .dtype = dtypes[choice],
                                .products = 1,
                                .rate = rates[dtypes[choice]] };
    if (type.rate <= 0 && choice == TYPE_FP16) {
        type.rate = rates[WAVE_BF16];
    }
    if (type.rate <= 0 && (choice == TYPE_TF32 || choice == TYPE_FP8)) {
        type.dtype = WAVE_BF16;
        type.rate = rates[WAVE_BF16];
        type.products = choice == TYPE_TF32 ? 3 : 1;
        kernel_assume(build, choice == TYPE_TF32
                                 ? "tf32 has no matrix rate here: emulated by three bf16 products"
                                 : "fp8 has no matrix rate here: widened to bf16");
    }
    if (type.rate <= 0) {
        kernel_fail(build, SIM_UNSUPPORTED, "the device has no matrix rate for this dtype");
    }
    return type;
}

struct gemm_params {
    uint64_t m, n, k, batch;
    int dtype, trans, style;
    struct gemm_tile tile;
    uint64_t workgroups;
    double register_rate;
    uint32_t out_bytes;
    bool bias, warm;
};

static void read_tile(struct kernel_build *build, struct gemm_params *p)
{
    p->tile.m = (uint32_t)kernel_param_integer_or(build, "tile_m", 8, 1024, 0, NULL);
    p->tile.n = (uint32_t)kernel_param_integer_or(build, "tile_n", 8, 1024, 0, NULL);
    p->tile.k = (uint32_t)kernel_param_integer_or(build, "tile_k", 4, 1024, 0, NULL);
    p->tile.stages = (uint32_t)kernel_param_integer_or(build, "stages", 2, 64, 0, NULL);
    p->tile.split = (uint32_t)kernel_param_integer_or(build, "split_k", 1, 64, 0, NULL);
    bool cluster = kernel_param_given(build, "cluster_m") || kernel_param_given(build, "cluster_n");
    p->tile.cluster_m = (uint32_t)kernel_param_integer_or(build, "cluster_m", 1, 16, cluster ? 1 : 0, NULL);
    p->tile.cluster_n = (uint32_t)kernel_param_integer_or(build, "cluster_n", 1, 16, cluster ? 1 : 0, NULL);
    p->workgroups = kernel_param_integer_or(build, "workgroups", 1, 1u << 20, 0, NULL);
    p->style = kernel_param_choice_or(build, "style", "auto|async|copies|register", GEMM_AUTO, NULL);
}

/* Bytes that one lane's copy can move: the common alignment of the rows of A, B and C, at most 16. */
static uint32_t copy_width(const struct gemm_params *p, struct matrix_type type, uint32_t out_bytes)
{
    uint64_t rows[] = { (p->trans < 2 ? p->k : p->m) * type.bytes,
                        (p->trans % 2 == 0 ? p->k : p->n) * type.bytes, p->n * out_bytes };
    uint32_t width = 16;
    for (int i = 0; i < 3; i++) {
        while (rows[i] % width != 0) {
            width /= 2;
        }
    }
    return width > type.bytes ? width : type.bytes;
}

static struct shape shape_for(struct kernel_build *build, const struct gemm_params *p,
                              struct matrix_type type)
{
    struct shape shape = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .batch = p->batch,
        .type = type,
        .units = build->machine->units,
        .lanes = build->machine->lanes,
        .lds_bytes = build->machine->lds_bytes_per_workgroup_max,
        .multicast = build->machine->multicast_units,
        .register_rate = p->register_rate,
        .style = (enum gemm_style)p->style,
    };
    shape.type.out_bytes = p->out_bytes != 0 ? p->out_bytes : type.out_bytes;
    shape.width = copy_width(p, type, shape.type.out_bytes);
    if (shape.style == GEMM_AUTO) {
        /* Four-byte operands are read from LDS along K only; one of the two may come from registers instead. The vector
         * units always take registers. */
        bool readable = type.bytes < 4 || p->trans != TRANS_TN || type.products > 1;
        bool bulk = shape.width == 16 && readable && type.dtype != WAVE_FP32;
        shape.style = bulk ? GEMM_ASYNC : shape.width < 4 ? GEMM_REGISTER : GEMM_COPIES;
    }
    return shape;
}

static uint64_t raster_group(const struct gemm *gemm, uint64_t clusters)
{
    /* A near-square patch of the result runs at once: as many rows of clusters as make it so. */
    uint64_t rows = 1;
    double height = (double)gemm->tile.m * gemm->tile.cluster_m,
           width = (double)gemm->tile.n * gemm->tile.cluster_n;
    while (rows < gemm->clusters_m &&
           (double)(rows + 1) * (double)(rows + 1) * height / width <= (double)clusters) {
        rows++;
    }
    return rows;
}

static void set_operand(struct gemm_operand *operand, struct wave_program *program, const char *name,
                        bool k_major, uint64_t k, uint64_t other, uint64_t batch, uint32_t bytes)
{
    operand->k_major = k_major;
    operand->pitch = k_major ? k : other;
    operand->batch_stride = k * other;
    operand->base = kernel_program_tensor(program, name, (double)k * (double)other * (double)batch * bytes);
}

/* Instructions per wave and step. async: a bulk copy per operand. copies: each copy has its bounds check and address, 6.
 * register: each access has those, its conversion and its LDS store, 28 in kernels for single elements. */
static void set_step_cost(struct gemm *gemm, const struct shape *shape)
{
    const struct gemm_tile *tile = &gemm->tile;
    gemm->step_flops = (uint64_t)(step_cycles(shape, tile) * shape->type.rate / gemm->waves);
    gemm->step_issue = 6;
    if (shape->type.dtype == WAVE_FP32) {
        gemm->step_flops += gemm->step_flops /
                            8; /* LDS reads and addresses take 8 slots beside 64 multiply-adds */
    }
    if (gemm->style == GEMM_ASYNC) {
        return;
    }
    double accesses = (double)(tile->m + tile->n) * tile->k * gemm->bytes /
                      (double)(gemm->waves * gemm->lanes * shape->width);
    double ops = (double)ceil_div(ceil_div(tile->m + tile->n, gemm->waves), SPANS_PER_OP);
    gemm->step_valu = slots16(accesses * (gemm->style == GEMM_REGISTER ? 28 : 6) / ops);
    uint64_t wide = max_u64(tile->m, tile->n), narrow = min_u64(tile->m, tile->n);
    gemm->step_lds = (uint32_t)((tile->m + tile->n + ceil_div(wide, 64) * (64 + narrow)) * tile->k *
                                gemm->bytes / gemm->waves);
}

static void set_items(struct gemm *gemm, struct wave_program *program, const struct shape *shape,
                      uint64_t workgroups)
{
    const struct gemm_tile *tile = &gemm->tile;
    uint32_t cluster = cluster_size(tile);
    gemm->steps = ceil_div(ceil_div(gemm->k, tile->k), tile->split);
    gemm->clusters_m = ceil_div(ceil_div(gemm->m, tile->m), tile->cluster_m);
    gemm->clusters_n = ceil_div(ceil_div(gemm->n, tile->n), tile->cluster_n);
    gemm->items = gemm->clusters_m * gemm->clusters_n * gemm->batch * tile->split;
    bool persistent = gemm->style == GEMM_ASYNC && 2 * tile_lds(shape, tile) > shape->lds_bytes;
    uint64_t clusters = gemm->items;
    if (workgroups > 0) {
        clusters = min_u64(clusters, max_u64(1, workgroups / cluster));
    } else if (persistent) {
        clusters = min_u64(clusters, max_u64(1, shape->units / cluster));
    }
    gemm->rounds = ceil_div(gemm->items, clusters);
    gemm->group = raster_group(gemm, max_u64(1, min_u64(clusters, shape->units / cluster)));
    program->workgroups = clusters * cluster;
    program->waves_per_workgroup = gemm->waves;
}

/* Steps of all items, counted by split: only the last ones of K may be short. */
static uint64_t steps_total(const struct gemm *gemm)
{
    uint64_t all = ceil_div(gemm->k, gemm->tile.k), steps = 0;
    for (uint64_t split = 0; split < gemm->tile.split; split++) {
        uint64_t before = split * gemm->steps;
        steps += before >= all ? 0 : min_u64(gemm->steps, all - before);
    }
    return steps * gemm->clusters_m * gemm->clusters_n * gemm->batch * cluster_size(&gemm->tile);
}

static struct wave_program *gemm_program(const struct gemm_params *p, const struct shape *shape,
                                         struct gemm_tile tile)
{
    struct wave_program *program = kernel_program_create("gemm", sizeof(struct gemm), gemm_next);
    struct gemm *gemm = program->context;
    gemm->m = p->m;
    gemm->n = p->n;
    gemm->k = p->k;
    gemm->batch = p->batch;
    gemm->tile = tile;
    gemm->bytes = shape->type.bytes;
    gemm->dtype = shape->type.dtype;
    gemm->style = shape->style;
    gemm->lanes = shape->lanes;
    uint32_t threads = (uint64_t)tile.m * tile.n >= 128 * 128 ? 256 : 128;
    gemm->waves = (uint32_t)ceil_div(threads, shape->lanes);
    bool a_k_major = p->trans < 2, b_k_major = p->trans % 2 == 0;
    set_operand(&gemm->a, program, "a", a_k_major, p->k, p->m, p->batch, gemm->bytes);
    set_operand(&gemm->b, program, "b", b_k_major, p->k, p->n, p->batch, gemm->bytes);
    gemm->c_bytes = tile.split > 1 ? 4 : shape->type.out_bytes;
    gemm->c = kernel_program_tensor(
        program, "c", (double)p->m * (double)p->n * (double)p->batch * tile.split * gemm->c_bytes);
    set_items(gemm, program, shape, p->workgroups);
    set_step_cost(gemm, shape);
    gemm->store_valu = slots16((double)tile.m * tile.n / threads * (p->bias ? 3.0 : 2.0));
    program->registers_per_lane = (uint32_t)min_u64(shape->lanes * 8 - 2,
                                                    (uint64_t)tile.m * tile.n / threads + 40);
    program->lds_bytes = tile_lds(shape, &tile);
    program->work_units_total = steps_total(gemm) * gemm->waves;
    /* Steps cost alike, so a sample may take any; workgroups with one tile more end later and may bound the kernel. */
    uint64_t trips = program->work_units_total / gemm->waves / program->workgroups;
    program->trips_per_wave = trips >= 8 ? trips : 0;
    bool uneven = gemm->items % (program->workgroups / cluster_size(&tile)) != 0;
    program->longest_wave_trips = uneven ? gemm->rounds * gemm->steps : 0;
    program->flops = 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
    return program;
}

/* splitKreduce: workgroups of 512 add the partial results, two elements a lane, all splits in flight. */
static void add_split_reduction(struct kernel_build *build, const struct gemm_params *p, uint32_t split,
                                uint32_t out_bytes)
{
    struct dense_map *map;
    struct wave_program *program = dense_map_create("split_k_reduction", &map);
    double elements = (double)p->m * (double)p->n * (double)p->batch;
    map->elements = p->m * p->n * p->batch;
    map->threads = 512;
    map->elements_per_lane = 2;
    map->vector = elements >= 2 && map->elements % 2 == 0 ? 2 : 1;
    map->access_issue = 3;
    map->start_issue = 30;
    map->valu = split + 1.0;
    uint64_t partial = kernel_program_tensor(program, "partial", elements * 4 * split);
    for (uint32_t i = 0; i < split; i++) {
        map->operands[map->load_count++] = (struct dense_operand){ .base = partial + i * map->elements * 4,
                                                                   .bytes = 4 };
    }
    dense_map_store(program, "c", out_bytes, elements);
    dense_map_finish(program, build->machine);
    program->initial_cache = WAVE_CACHE_STATE_PREDECESSOR;
    program->predecessor.address = kernel_tensor_address(0);
    program->predecessor_bytes = (uint64_t)elements * 4 * split;
    program->predecessor.bytes = (uint32_t)program->predecessor_bytes;
    program->flops = elements * split;
    kernel_plan_add(build, program, 1);
}

static void check_tile(struct kernel_build *build, const struct shape *shape, const struct gemm_tile *tile)
{
    if (tile->split > DENSE_OPERANDS_MAX - 1) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "split_k=%u is not valid: must be at most %d", tile->split,
                    DENSE_OPERANDS_MAX - 1);
    }
    if (tile->split > ceil_div(shape->k, tile->k)) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "split_k=%u is not valid: K=%llu has %llu steps of tile_k=%u",
                    tile->split, (unsigned long long)shape->k,
                    (unsigned long long)ceil_div(shape->k, tile->k), tile->k);
    }
    kernel_require_lds(build, tile_lds(shape, tile));
}

/* Everything after the sizes. Fills M, N, K, batch before. */
static void build_gemm(struct kernel_build *build, struct gemm_params *p, bool measured_cold)
{
    p->register_rate = kernel_param_real_or(build, "register_rate", 0.1, 1, REGISTER_RATE, NULL);
    bool out_given = kernel_param_given(build, "dtype_out");
    p->out_bytes = out_given ? dense_param_bytes(build, "dtype_out", DENSE_REQUIRED) : 0;
    p->bias = kernel_param_integer_or(build, "bias", 0, 1, 0, NULL) == 1;
    read_tile(build, p);
    dense_cache_param(build);
    if (!kernel_params_done(build)) {
        return;
    }
    struct matrix_type type = matrix_type(build, p->dtype);
    if (!kernel_build_ok(build)) {
        return;
    }
    struct shape shape = shape_for(build, p, type);
    if (p->tile.k == 0) {
        p->tile.k = (shape.style == GEMM_ASYNC ? 128u : 64u) / type.bytes;
    }
    struct gemm_tile tile = choose_tile(&shape, p->tile);
    if (p->tile.cluster_m == 0 && p->tile.m != 0) {
        cluster_for(&shape, &tile);
    }
    check_tile(build, &shape, &tile);
    double elements = (double)p->batch * ((double)p->m * (double)p->k + (double)p->k * (double)p->n);
    kernel_require_hbm(build, elements * type.bytes, "the operands");
    if (!kernel_build_ok(build)) {
        return;
    }
    if (shape.style != GEMM_ASYNC && type.dtype != WAVE_FP32) {
        kernel_assume(build,
                      "register_rate = %g (range 0.4 to 1): of the matrix rate, operands from registers",
                      p->register_rate);
    }
    kernel_assume(build, "tile %ux%ux%u, %u stages, split_k %u, cluster %ux%u%s", tile.m, tile.n, tile.k,
                  tile.stages, tile.split, tile.cluster_m, tile.cluster_n,
                  p->tile.m != 0 ? " as given" : ": chosen by rule");
    struct wave_program *program = gemm_program(p, &shape, tile);
    dense_cache_apply(build, program);
    if (!measured_cold && !kernel_param_given(build, "cache")) {
        program->initial_cache = WAVE_CACHE_STATE_OWN;
    }
    double flops = program->flops;
    kernel_plan_add(build, program, 1);
    if (tile.split > 1 && kernel_build_ok(build)) {
        add_split_reduction(build, p, tile.split, shape.type.out_bytes);
    }
    build->plan->flops = flops;
    kernel_value_per_time(build, flops * 1e-6, "TFLOP/s");
}

static void read_sizes(struct kernel_build *build, struct gemm_params *p)
{
    p->m = kernel_param_integer(build, "M", 1, SIZE_MAX_GEMM);
    p->n = kernel_param_integer(build, "N", 1, SIZE_MAX_GEMM);
    p->k = kernel_param_integer(build, "K", 1, SIZE_MAX_GEMM);
    p->dtype = kernel_param_choice(build, "dtype", gemm_dtypes);
}

/* The measuring program flushes the L2 before calls of fewer than 2^38 multiply-adds, and repeats the others. */
static void build_mm(struct kernel_build *build)
{
    struct gemm_params p = { .batch = 1 };
    read_sizes(build, &p);
    p.trans = kernel_param_choice_or(build, "trans", trans_choices, 0, NULL);
    build_gemm(build, &p, (double)p.m * (double)p.n * (double)p.k < 0x1p38);
}

static void build_bmm(struct kernel_build *build)
{
    struct gemm_params p = { 0 };
    p.batch = kernel_param_integer(build, "b", 1, 1u << 28);
    read_sizes(build, &p);
    p.trans = kernel_param_choice_or(build, "trans", trans_choices, 1, NULL);
    build_gemm(build, &p, true);
}

static void build_tile(struct kernel_build *build)
{
    struct gemm_params p = { 0 };
    p.batch = kernel_param_integer_or(build, "batch", 1, 1u << 28, 1, NULL);
    read_sizes(build, &p);
    p.trans = kernel_param_choice_or(build, "trans", trans_choices, 0, NULL);
    if (!kernel_param_given(build, "tile_m") || !kernel_param_given(build, "tile_n")) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "tile_m and tile_n must be given: gemm/mm chooses a tile by itself");
    }
    build_gemm(build, &p, true);
}

#define TILE_HELP                                                                                          \
    "tile_m, tile_n, tile_k, stages, split_k, cluster_m, cluster_n (by rule; cluster: workgroups that "    \
    "share loads), "                                                                                       \
    "workgroups (grid; by rule), style (auto|async|copies|register; auto), register_rate (0.1..1; 0.63), " \
    "dtype_out (fp8: bf16, "                                                                               \
    "else dtype), bias (0|1; 0), cache (flushed|own|clean|produced)"

const struct kernel_definition dense_gemm_kernels[] = {
    { "gemm", "mm", "matrix product; trans: n row-major, t transposed, of A then B",
      "M, N, K, dtype (bf16|fp16|tf32|fp32|fp8), trans (nt|nn|tt|tn; nt), " TILE_HELP, build_mm },
    { "gemm", "bmm", "batch of matrix products", "b (batch), M, N, K, dtype, trans (nn), " TILE_HELP,
      build_bmm },
    { "gemm", "tile", "matrix product with the tile of a traced kernel",
      "M, N, K, dtype, tile_m, tile_n, trans (nt), batch (1), " TILE_HELP, build_tile },
    { NULL, NULL, NULL, NULL, NULL },
};
