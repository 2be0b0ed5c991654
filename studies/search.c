/* Bounded search for the best point of a grid. A round takes the best point that has not been expanded and tries its neighbours:
 * the values next to its own on an axis of numbers, and further ones at doubling distance; every other value on an axis of
 * names. It ends at the limit of tries, or when the best few points have no untried neighbour. */
#include "studies/sweep_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXPAND_BEST 3 /* points, from the best down, whose neighbours must all be known before it ends */

struct search {
    const struct study *study;
    struct sweep_bench *bench;
    uint32_t *tried; /* in the order of their trial */
    size_t tried_count, limit;
    bool *listed, *expanded; /* [points] */
    uint32_t *round;         /* [limit] */
    size_t round_count;
};

static bool is_numeric(const struct study_axis *axis)
{
    for (size_t i = 0; i < axis->count; i++) {
        char *end = NULL;
        strtod(axis->values[i], &end);
        if (end == axis->values[i] || *end != '\0') {
            return false;
        }
    }
    return true;
}

static double score(const struct search *search, uint32_t point)
{
    const struct study_record *record = sweep_record(search->bench, point);
    double value = record->metric[search->study->search_objective] * metric_better(search->study->search_objective);
    return record->status == RECORD_FEASIBLE && isfinite(value) ? value : -INFINITY;
}

static void list(struct search *search, uint32_t point)
{
    if (!search->listed[point] && search->tried_count + search->round_count < search->limit) {
        search->listed[point] = true;
        search->round[search->round_count++] = point;
    }
}

static void list_neighbours(struct search *search, uint32_t point)
{
    const struct study *study = search->study;
    size_t stride = study->grid_count, rest = point;
    for (size_t a = 0; a < study->axis_count; a++) {
        const struct study_axis *axis = &study->axes[a];
        stride /= axis->count;
        size_t at = rest / stride;
        uint32_t base = (uint32_t)(point - at * stride);
        rest %= stride;
        bool numeric = is_numeric(axis);
        for (size_t distance = 1; distance < axis->count; distance = numeric ? distance * 2 : distance + 1) {
            if (at + distance < axis->count) {
                list(search, (uint32_t)(base + (at + distance) * stride));
            }
            if (at >= distance) {
                list(search, (uint32_t)(base + (at - distance) * stride));
            }
        }
    }
}

static enum sim_status try_round(struct search *search, struct sim_error *error)
{
    enum sim_status status = sweep_try(search->bench, search->round, search->round_count, error);
    for (size_t i = 0; status == SIM_OK && i < search->round_count; i++) {
        search->tried[search->tried_count++] = search->round[i];
    }
    search->round_count = 0;
    return status;
}

/* The best of the first EXPAND_BEST that is not expanded; UINT32_MAX: all of them are. While nothing is feasible, the first tried
 * that is not expanded. */
static uint32_t next_to_expand(const struct search *search)
{
    bool *taken = calloc(search->tried_count + 1, sizeof *taken);
    uint32_t found = UINT32_MAX;
    SIM_ASSERT(taken != NULL, "no memory for a search");
    for (int k = 0; k < EXPAND_BEST && found == UINT32_MAX; k++) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < search->tried_count; i++) {
            bool better = best == SIZE_MAX || score(search, search->tried[i]) > score(search, search->tried[best]);
            if (!taken[i] && better && (isfinite(score(search, search->tried[i])))) {
                best = i;
            }
        }
        if (best == SIZE_MAX) {
            break;
        }
        taken[best] = true;
        found = search->expanded[search->tried[best]] ? UINT32_MAX : search->tried[best];
    }
    bool any = false;
    for (size_t i = 0; i < search->tried_count; i++) {
        any = any || isfinite(score(search, search->tried[i]));
    }
    for (size_t i = 0; !any && found == UINT32_MAX && i < search->tried_count; i++) {
        found = search->expanded[search->tried[i]] ? UINT32_MAX : search->tried[i];
    }
    free(taken);
    return found;
}

/* The middle of axes of numbers, the first of names: for each device alike. */
static void list_start(struct search *search)
{
    const struct study *study = search->study;
    size_t point = 0, stride = study->grid_count, device_stride = 0, devices = 1;
    for (size_t a = 0; a < study->axis_count; a++) {
        const struct study_axis *axis = &study->axes[a];
        stride /= axis->count;
        if (strcmp(axis->key, "device") == 0) {
            device_stride = stride;
            devices = axis->count;
        } else if (is_numeric(axis)) {
            point += stride * (axis->count / 2);
        }
    }
    for (size_t d = 0; d < devices; d++) {
        list(search, (uint32_t)(point + d * device_stride));
    }
}

enum sim_status search_run(const struct study *study, struct sweep_bench *bench, struct sim_error *error)
{
    size_t points = study->grid_count;
    struct search search = { .study = study,
                             .bench = bench,
                             .limit = study->search_evaluations < points ? study->search_evaluations : points,
                             .tried = calloc(points + 1, sizeof(uint32_t)),
                             .round = calloc(points + 1, sizeof(uint32_t)),
                             .listed = calloc(points + 1, sizeof(bool)),
                             .expanded = calloc(points + 1, sizeof(bool)) };
    SIM_ASSERT(search.tried != NULL && search.round != NULL && search.listed != NULL && search.expanded != NULL,
               "no memory for %zu points", points);
    list_start(&search);
    enum sim_status status = try_round(&search, error);
    while (status == SIM_OK && search.tried_count < search.limit) {
        uint32_t point = next_to_expand(&search);
        if (point == UINT32_MAX) {
            break;
        }
        search.expanded[point] = true;
        list_neighbours(&search, point);
        status = try_round(&search, error);
    }
    free(search.tried);
    free(search.round);
    free(search.listed);
    free(search.expanded);
    return status;
}

uint32_t search_best(const struct study *study, const struct sweep_bench *bench)
{
    struct search search = { .study = study, .bench = (struct sweep_bench *)bench };
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < study->grid_count; i++) {
        if (sweep_tried(bench, i) && isfinite(score(&search, i)) &&
            (best == UINT32_MAX || score(&search, i) > score(&search, best))) {
            best = i;
        }
    }
    return best;
}
