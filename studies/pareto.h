/* The points that no other point beats in every objective. */
#ifndef STUDIES_PARETO_H
#define STUDIES_PARETO_H
#include "studies/metrics.h"
#include <stddef.h>

/* Mark on front[count] the feasible records, with all objectives known, that no other record is at least as good as in all
 * objectives and better in one. Where group is given, only records of equal group compete. O(n log n + n x front). */
void pareto_front(const struct study_record *records, const size_t *group, size_t count, const enum metric *objectives,
                  size_t objective_count, bool *front);

#endif
