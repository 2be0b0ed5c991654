#include "workloads/kernels/gemm_walk_internal.h"
#include "workloads/kernels/dense_internal.h"
#include <stdlib.h>

static uint32_t cluster_size(const struct gemm_tile *tile)
{
    return tile->cluster_m * tile->cluster_n;
}

/* ---- the order of tiles ---- */

static void hilbert_turn(uint64_t side, uint64_t *x, uint64_t *y, uint64_t rx, uint64_t ry)
{
    if (ry == 0) {
        if (rx == 1) {
            *x = side - 1 - *x;
            *y = side - 1 - *y;
        }
        uint64_t t = *x;
        *x = *y;
        *y = t;
    }
}

static void hilbert_at(uint64_t side, uint64_t position, uint64_t *x, uint64_t *y)
{
    *x = *y = 0;
    for (uint64_t s = 1; s < side; s *= 2) {
        uint64_t rx = 1 & (position / 2), ry = 1 & (position ^ rx);
        hilbert_turn(s, x, y, rx, ry);
        *x += s * rx;
        *y += s * ry;
        position /= 4;
    }
}

/* Squares of a Hilbert curve, side by side along the longer dimension. */
uint32_t *gemm_curve_create(uint64_t rows, uint64_t columns)
{
    uint64_t side = next_pow2(min_u64(rows, columns)), squares = ceil_div(max_u64(rows, columns), side), count = 0;
    uint32_t *curve = malloc(rows * columns * sizeof *curve);
    SIM_ASSERT(curve != NULL, "no memory for the order of %llu tiles", (unsigned long long)(rows * columns));
    for (uint64_t i = 0; i < squares * side * side; i++) {
        uint64_t along, across;
        hilbert_at(side, i % (side * side), &along, &across);
        along += i / (side * side) * side;
        uint64_t row = rows >= columns ? along : across, column = rows >= columns ? across : along;
        if (row < rows && column < columns) {
            curve[count++] = (uint32_t)(row * columns + column);
        }
    }
    SIM_ASSERT(count == rows * columns, "the curve misses tiles");
    return curve;
}

/* Row and column of the t-th tile cluster of a product. */
static void place(const struct gemm *gemm, uint64_t t, uint64_t *row, uint64_t *column)
{
    switch (gemm->tile.mapping) {
    case GEMM_MAP_ROW:
        *row = t / gemm->clusters_n;
        *column = t % gemm->clusters_n;
        return;
    case GEMM_MAP_COLUMN:
        *row = t % gemm->clusters_m;
        *column = t / gemm->clusters_m;
        return;
    case GEMM_MAP_CURVE:
        *row = gemm->curve[t] / gemm->clusters_n;
        *column = gemm->curve[t] % gemm->clusters_n;
        return;
    default: break;
    }
    uint64_t group = gemm->tile.group, band = t / (group * gemm->clusters_n);
    uint64_t height = min_u64(group, gemm->clusters_m - band * group);
    uint64_t in_band = t - band * group * gemm->clusters_n;
    *row = band * group + in_band % height;
    *column = in_band / height;
}

/* Workgroups that are dealt to compute groups in turn take neighbouring tiles within a group: of `count` tiles at once,
 * group g has a run of them. A permutation of 0..count-1. */
static uint64_t by_group(const struct gemm *gemm, uint64_t index, uint64_t count)
{
    if (!gemm->tile.by_group || gemm->groups <= 1) {
        return index;
    }
    uint64_t group = index % gemm->groups, each = count / gemm->groups, longer = count % gemm->groups;
    return group * each + min_u64(group, longer) + index / gemm->groups;
}

/* The rows of row `cm` of clusters. */
static void place_rows(const struct gemm *gemm, uint64_t cm, struct gemm_item *item)
{
    uint64_t first = 0, before = 0;
    item->row_end = gemm->m;
    item->batch = 0;
    if (gemm->group_count > 0) {
        size_t group = 0;
        while (cm >= gemm->group_tiles[group]) {
            group++;
        }
        first = group > 0 ? gemm->group_end[group - 1] : 0;
        before = group > 0 ? gemm->group_tiles[group - 1] : 0;
        item->row_end = gemm->group_end[group];
        item->batch = group;
    }
    item->row = first + ((cm - before) * gemm->tile.cluster_m + item->rank_m) * gemm->tile.m;
}

static void fill_item(const struct gemm *gemm, uint64_t index, uint32_t rank, struct gemm_item *item)
{
    uint64_t tiles = gemm->clusters_m * gemm->clusters_n, slice = index / tiles, cm, cn;
    place(gemm, index % tiles, &cm, &cn);
    item->rank_m = rank % gemm->tile.cluster_m;
    item->rank_n = rank / gemm->tile.cluster_m;
    place_rows(gemm, cm, item);
    item->column = (cn * gemm->tile.cluster_n + item->rank_n) * gemm->tile.n;
    item->batch += slice / gemm->tile.split;
    item->split = slice % gemm->tile.split;
}

/* ---- steps ---- */

static bool tiled_step(const struct gemm *gemm, uint64_t workgroup, uint64_t trip, struct gemm_step *step)
{
    uint32_t cluster = cluster_size(&gemm->tile);
    uint64_t clusters = gemm->workgroups / cluster, round = trip / gemm->steps, own = trip % gemm->steps;
    uint64_t at = workgroup / cluster, base = round * clusters;
    uint64_t count = base < gemm->items ? min_u64(clusters, gemm->items - base) : 0;
    if (at >= count) {
        return false;
    }
    uint64_t index = base + by_group(gemm, at, count);
    fill_item(gemm, index, (uint32_t)(workgroup % cluster), &step->item);
    step->k = (step->item.split * gemm->steps + own) * gemm->tile.k;
    step->last = own + 1 == gemm->steps || step->k + gemm->tile.k >= gemm->k;
    if (gemm->adds_up && step->last) {
        uint64_t tile = index % (gemm->clusters_m * gemm->clusters_n) + step->item.batch * gemm->clusters_m * gemm->clusters_n;
        step->part_of_tile = step->item.split + 1 < gemm->tile.split;
        step->parts_before = step->part_of_tile ? 0 : gemm->tile.split - 1;
        step->run = (tile * cluster + workgroup % cluster) * gemm->tile.split + step->item.split;
    }
    return step->k < gemm->k;
}

/* First step of a workgroup's run. */
static uint64_t run_start(const struct gemm *gemm, uint64_t workgroup)
{
    uint64_t all = gemm->items * gemm->steps, each = all / gemm->workgroups, longer = all % gemm->workgroups;
    return workgroup * each + min_u64(workgroup, longer);
}

static bool streamed_step(const struct gemm *gemm, uint64_t workgroup, uint64_t trip, struct gemm_step *step)
{
    uint64_t run = by_group(gemm, workgroup, gemm->workgroups);
    uint64_t start = run_start(gemm, run), end = run_start(gemm, run + 1), at = start + trip;
    if (at >= end) {
        return false;
    }
    uint64_t first = at / gemm->steps * gemm->steps; /* of the tile */
    fill_item(gemm, at / gemm->steps, 0, &step->item);
    step->run = run;
    step->k = (at - first) * gemm->tile.k;
    bool tile_ends = at + 1 == first + gemm->steps;
    step->last = tile_ends || at + 1 == end;
    step->part_of_tile = step->last && !tile_ends;
    for (uint64_t before = run; tile_ends && before > 0 && run_start(gemm, before) > first; before--) {
        step->parts_before++;
    }
    return true;
}

bool gemm_step_of(const struct gemm *gemm, uint64_t workgroup, uint64_t trip, struct gemm_step *step)
{
    *step = (struct gemm_step){ 0 };
    if (trip >= gemm->trips ||
        !(gemm->tile.stream_k ? streamed_step : tiled_step)(gemm, workgroup, trip, step)) {
        return false;
    }
    step->k_count = min_u64(gemm->tile.k, gemm->k - step->k);
    return true;
}

/* ---- the grid ---- */

uint64_t *gemm_groups_create(struct gemm *gemm, const struct gemm_problem *problem)
{
    size_t count = problem->group_count;
    uint64_t *sums = malloc(2 * count * sizeof *sums), rows = 0, tiles = 0;
    SIM_ASSERT(sums != NULL, "no memory for %zu groups", count);
    for (size_t i = 0; i < count; i++) {
        rows += problem->group_m[i];
        tiles += ceil_div(ceil_div(problem->group_m[i], gemm->tile.m), gemm->tile.cluster_m);
        sums[i] = rows;
        sums[count + i] = tiles;
    }
    gemm->group_count = count;
    gemm->group_end = sums;
    gemm->group_tiles = sums + count;
    return sums;
}

void gemm_walk_init(struct gemm *gemm, const struct gemm_machine *machine, const struct gemm_problem *problem,
                    uint64_t workgroups)
{
    struct gemm_tile *tile = &gemm->tile;
    uint32_t cluster = cluster_size(tile);
    uint64_t units = (uint64_t)machine->units;
    gemm->groups = (uint64_t)machine->groups;
    gemm->adds_up = machine->split_in_kernel && tile->split > 1;
    gemm->steps = ceil_div(ceil_div(gemm->k, tile->k), tile->split);
    gemm->clusters_m = gemm->group_count > 0 ? gemm->group_tiles[gemm->group_count - 1]
                                             : ceil_div(ceil_div(gemm->m, tile->m), tile->cluster_m);
    gemm->clusters_n = ceil_div(ceil_div(gemm->n, tile->n), tile->cluster_n);
    gemm->items = gemm->clusters_m * gemm->clusters_n * gemm->batch * tile->split;
    if (tile->stream_k) {
        gemm->workgroups = min_u64(workgroups > 0 ? workgroups : units, gemm->items * gemm->steps);
        gemm->trips = ceil_div(gemm->items * gemm->steps, gemm->workgroups);
    } else {
        uint64_t clusters = gemm->items;
        if (workgroups > 0) {
            clusters = min_u64(clusters, max_u64(1, workgroups / cluster));
        } else if (gemm_is_persistent(machine, problem, tile)) {
            clusters = min_u64(clusters, max_u64(1, units / cluster));
        }
        gemm->workgroups = clusters * cluster;
        gemm->trips = ceil_div(gemm->items, clusters) * gemm->steps;
    }
    gemm->parts = tile->stream_k ? gemm->workgroups : gemm->adds_up ? gemm->items * cluster : 0;
    tile->group = (uint32_t)max_u64(1, min_u64(tile->group, gemm->clusters_m));
    if (tile->mapping == GEMM_MAP_CURVE && gemm->clusters_m * gemm->clusters_n > GEMM_CURVE_TILES_MAX) {
        tile->mapping = GEMM_MAP_BAND; /* the same patches, nearly, without a table */
    }
    if (tile->mapping == GEMM_MAP_CURVE) {
        gemm->curve = gemm_curve_create(gemm->clusters_m, gemm->clusters_n);
    }
}

/* Counted by split: only the last steps of K may be short. */
uint64_t gemm_steps_total(const struct gemm *gemm)
{
    uint64_t all = ceil_div(gemm->k, gemm->tile.k), steps = 0;
    for (uint64_t split = 0; split < gemm->tile.split; split++) {
        uint64_t before = split * gemm->steps;
        steps += before >= all ? 0 : min_u64(gemm->steps, all - before);
    }
    return steps * gemm->clusters_m * gemm->clusters_n * gemm->batch * cluster_size(&gemm->tile);
}

bool gemm_is_uneven(const struct gemm *gemm)
{
    return !gemm->tile.stream_k && gemm->items % (gemm->workgroups / cluster_size(&gemm->tile)) != 0;
}
