/* The tiles that are weighed. Sizes are what libraries build; which of them a device can run follows from its matrix
 * instruction, accumulators and LDS. */
#include "workloads/kernels/dense_internal.h"
#include "workloads/kernels/gemm_select.h"
#include <string.h>

#define SPLIT_STEPS_MIN 4 /* K steps that a part must have to be worth its own workgroup */
/* Libraries build fewer kernels for 4-byte operands: cuBLAS tilesize64x64 to 128x256, by the names of its kernels. */
#define TF32_TILE_MIN 64
/* Bulk copies of a copy engine move 128 B of a row at once; waves that load by themselves may take more of each row, which
 * hipBLASLt's kernels of narrow tiles do (DepthU of 128 and 256). */
#define DEEP_TILE_MAX 64
#define EPILOGUE_LDS 16384
#define ALL_CANDIDATES 1024 /* a caller with room for as many wants to see them */

/* As deep a prefetch as LDS holds beside an epilogue buffer. */
static uint32_t stages_for(const struct gemm_machine *machine, const struct gemm_problem *problem,
                           const struct gemm_tile *tile)
{
    if (problem->style == GEMM_REGISTER) {
        return 2;
    }
    uint32_t most = problem->style == GEMM_COPIES ? 4 : machine->stages_max;
    uint64_t step = (uint64_t)(tile->m + tile->n) * tile->k * problem->type.bytes;
    uint64_t lds = (uint64_t)machine->lds_workgroup_max;
    uint64_t room = lds > EPILOGUE_LDS ? lds - EPILOGUE_LDS : lds;
    return (uint32_t)max_u64(2, min_u64(most, room / step));
}

/* Neighbours share the larger operand tile where the grid allows. */
static void cluster_for(const struct gemm_machine *machine, const struct gemm_problem *problem, struct gemm_tile *tile)
{
    bool pair = machine->multicast > 1 && problem->style == GEMM_ASYNC && !tile->stream_k;
    uint64_t tiles_m = problem->group_count > 0 ? 1 : ceil_div(problem->m, tile->m), tiles_n = ceil_div(problem->n, tile->n);
    bool over_n = pair && tiles_n > 1 && (tile->m >= tile->n || tiles_m == 1);
    tile->cluster_n = over_n && tiles_n % 2 == 0 ? 2 : 1;
    tile->cluster_m = pair && tile->cluster_n == 1 && tiles_m > 1 && tiles_m % 2 == 0 ? 2 : 1;
}

static bool is_possible(const struct gemm_machine *machine, const struct gemm_problem *problem,
                        const struct gemm_tile *tile)
{
    uint32_t m = machine->instruction_m, n = machine->instruction_n;
    bool either_way = (tile->m % m == 0 && tile->n % n == 0) || (tile->n % m == 0 && tile->m % n == 0);
    bool even = last_pow2(tile->m) == tile->m && last_pow2(tile->n) == tile->n;
    if (problem->style != GEMM_ASYNC) { /* lanes that carry operands share a tile evenly */
        either_way = tile->m >= 32 && tile->n >= 32 && even;
    } else if (problem->type.dtype == WAVE_TF32) {
        either_way = either_way && tile->m >= TF32_TILE_MIN && tile->n >= TF32_TILE_MIN && even;
    }
    return either_way && (uint64_t)tile->m * tile->n <= machine->accumulators &&
           gemm_tile_lds(problem, tile) <= machine->lds_workgroup_max;
}

struct best_list {
    struct gemm_estimate *items;
    size_t count, capacity, weighed;
};

static void keep(struct best_list *list, const struct gemm_estimate *estimate)
{
    size_t at = list->count;
    list->weighed++;
    if (at == list->capacity && estimate->us >= list->items[at - 1].us) {
        return;
    }
    at = at == list->capacity ? at - 1 : at;
    for (; at > 0 && list->items[at - 1].us > estimate->us; at--) {
        list->items[at] = list->items[at - 1];
    }
    list->items[at] = *estimate;
    list->count += list->count < list->capacity;
}

struct selection {
    const struct gemm_machine *machine;
    const struct gemm_problem *problem;
    const struct gemm_tile *given;
    struct best_list list;
};

/* A tile size before its splits: what all of them share. */
struct size {
    struct gemm_tile tile;
    double tiles, least_step;
};

/* False: the device cannot run it. */
static bool size_init(const struct selection *s, struct gemm_tile tile, struct size *size)
{
    tile.stages = s->given->stages != 0 ? s->given->stages : stages_for(s->machine, s->problem, &tile);
    bool fixed = s->given->m != 0 && s->given->n != 0;
    if (!fixed && !is_possible(s->machine, s->problem, &tile)) {
        return false;
    }
    tile.resident = s->given->resident;
    tile.cluster_m = s->given->cluster_m;
    tile.cluster_n = s->given->cluster_n;
    if (s->given->cluster_m == 0) {
        cluster_for(s->machine, s->problem, &tile);
    }
    size->tile = tile;
    size->tiles = (double)(gemm_tile_rows(s->problem, tile.m) * ceil_div(s->problem->n, tile.n) * s->problem->batch);
    size->least_step = gemm_least_step(s->machine, s->problem, &tile);
    return true;
}

static void weigh(struct selection *s, const struct size *size, uint32_t split)
{
    struct best_list *list = &s->list;
    struct gemm_tile tile = size->tile;
    struct gemm_estimate estimate;
    tile.split = split;
    if (list->count == list->capacity && list->capacity < ALL_CANDIDATES &&
        gemm_least_us(s->machine, s->problem, &tile, size->tiles, size->least_step) > list->items[list->count - 1].us) {
        list->weighed++;
        return;
    }
    gemm_estimate_tile(s->machine, s->problem, &tile, &estimate);
    keep(list, &estimate);
}

/* One tile size: split K further and further while the units are not full; or share K steps evenly. */
static void weigh_splits(struct selection *s, struct gemm_tile tile)
{
    static const uint32_t splits[] = { 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32 };
    struct size size;
    if (!size_init(s, tile, &size)) {
        return;
    }
    double units = s->machine->units;
    uint64_t depth = ceil_div(s->problem->k, tile.k);
    if (s->given->split != 0) {
        weigh(s, &size, s->given->split);
        return;
    }
    weigh(s, &size, 1);
    for (size_t i = 1; i < sizeof splits / sizeof splits[0]; i++) {
        bool deep = depth >= (uint64_t)SPLIT_STEPS_MIN * splits[i], wanted = size.tiles * splits[i] <= 2 * units;
        if (!deep || !wanted) {
            break;
        }
        weigh(s, &size, splits[i]);
    }
    tile.stream_k = true;
    if (size.tiles > units && size.tiles < 4 * units && depth >= 2 * SPLIT_STEPS_MIN && s->problem->style == GEMM_ASYNC &&
        s->problem->batch == 1 && size_init(s, tile, &size)) {
        weigh(s, &size, 1);
    }
}

static bool waits_for_memory(const struct gemm_estimate *estimate)
{
    const double *step = estimate->step;
    double memory = step[GEMM_LIMIT_HBM] > step[GEMM_LIMIT_LATENCY] ? step[GEMM_LIMIT_HBM] : step[GEMM_LIMIT_LATENCY];
    return memory > step[GEMM_LIMIT_MATRIX] && memory > step[GEMM_LIMIT_LDS];
}

size_t gemm_select(const struct gemm_machine *machine, const struct gemm_problem *problem,
                   const struct gemm_tile *given, struct gemm_estimate *best, size_t capacity)
{
    static const uint32_t sizes[] = { 256, 192, 128, 320, 224, 176, 168, 160, 144, 112, 96, 80, 64, 48, 32, 16 };
    struct selection s = { machine, problem, given, { best, 0, capacity, 0 } };
    uint32_t line = problem->style == GEMM_ASYNC ? 128 : 64; /* bytes of a row of an operand tile */
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
            struct gemm_tile tile = { .m = sizes[i], .n = sizes[j], .k = line / problem->type.bytes };
            tile.m = given->m != 0 ? given->m : tile.m;
            tile.n = given->n != 0 ? given->n : tile.n;
            tile.k = given->k != 0 ? given->k : tile.k;
            tile.stream_k = given->stream_k;
            bool skinny = problem->style == GEMM_ASYNC && (tile.m <= DEEP_TILE_MAX || tile.n <= DEEP_TILE_MAX);
            bool repeated = (given->m != 0 && i > 0) || (given->n != 0 && j > 0);
            if (!repeated) {
                weigh_splits(&s, tile);
            }
            bool by_memory = s.list.count > 0 && waits_for_memory(&s.list.items[0]);
            if (!repeated && skinny && by_memory && given->k == 0 && !machine->runs_ahead) {
                tile.k *= 2;
                weigh_splits(&s, tile);
            }
        }
    }
    SIM_ASSERT(s.list.count > 0, "no tile for a product of %llu x %llu x %llu", (unsigned long long)problem->m,
               (unsigned long long)problem->n, (unsigned long long)problem->k);
    return s.list.weighed;
}
