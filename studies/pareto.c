#include "studies/pareto.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTIVES_MAX 4

struct candidate {
    double score[OBJECTIVES_MAX]; /* more is better */
    size_t index, group;
};

static int by_score(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->group != y->group) {
        return x->group < y->group ? -1 : 1;
    }
    for (size_t o = 0; o < OBJECTIVES_MAX; o++) {
        if (x->score[o] != y->score[o]) {
            return x->score[o] > y->score[o] ? -1 : 1;
        }
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

static bool beats(const struct candidate *x, const struct candidate *y)
{
    bool better = false;
    for (size_t o = 0; o < OBJECTIVES_MAX; o++) {
        if (x->score[o] < y->score[o]) {
            return false;
        }
        better = better || x->score[o] > y->score[o];
    }
    return better;
}

void pareto_front(const struct study_record *records, const size_t *group, size_t count, const enum metric *objectives,
                  size_t objective_count, bool *front)
{
    struct candidate *candidates = calloc(count + 1, sizeof *candidates);
    size_t *kept = malloc((count + 1) * sizeof *kept), candidate_count = 0, kept_count = 0;
    SIM_ASSERT(candidates != NULL && kept != NULL && objective_count <= OBJECTIVES_MAX, "no memory for %zu points", count);
    memset(front, 0, count * sizeof *front);
    for (size_t i = 0; i < count; i++) {
        struct candidate candidate = { .index = i, .group = group != NULL ? group[i] : 0 };
        bool known = records[i].status == RECORD_FEASIBLE;
        for (size_t o = 0; o < objective_count; o++) {
            candidate.score[o] = records[i].metric[objectives[o]] * metric_better(objectives[o]);
            known = known && isfinite(candidate.score[o]);
        }
        if (known) {
            candidates[candidate_count++] = candidate;
        }
    }
    /* Best first by the first objective, so that a point can only be beaten by one before it. */
    qsort(candidates, candidate_count, sizeof *candidates, by_score);
    for (size_t i = 0; i < candidate_count; i++) {
        bool beaten = false;
        kept_count = i > 0 && candidates[i].group != candidates[i - 1].group ? 0 : kept_count;
        for (size_t k = 0; !beaten && k < kept_count; k++) {
            beaten = beats(&candidates[kept[k]], &candidates[i]);
        }
        if (!beaten) {
            kept[kept_count++] = i;
            front[candidates[i].index] = true;
        }
    }
    free(candidates);
    free(kept);
}
