/* What sweep.c and search.c share. */
#ifndef STUDIES_SWEEP_INTERNAL_H
#define STUDIES_SWEEP_INTERNAL_H
#include "studies/sweep.h"

struct sweep_bench; /* prices points and keeps them */

/* Have these points tried, where they have not been. */
enum sim_status sweep_try(struct sweep_bench *bench, const uint32_t *points, size_t count, struct sim_error *error);
bool sweep_tried(const struct sweep_bench *bench, uint32_t point);
const struct study_record *sweep_record(const struct sweep_bench *bench, uint32_t point); /* of a tried point */

/* search.c: best-first over the grid, in rounds, within the study's evaluations. What is tried next depends on records alone,
 * never on who was done first. */
enum sim_status search_run(const struct study *study, struct sweep_bench *bench, struct sim_error *error);
/* The best feasible of the tried points; UINT32_MAX: none. */
uint32_t search_best(const struct study *study, const struct sweep_bench *bench);

#endif
