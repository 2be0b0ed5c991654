/* Order statistics of small samples, and running mean and variance. */
#ifndef SIM_CORE_STATS_H
#define SIM_CORE_STATS_H
#include <stddef.h>
#include <stdint.h>

/* Sort ascending in place. NaN is a bug (asserted). */
void stats_sort(double *values, size_t count);

/* Of values sorted ascending. Median: the mean of the middle two when count is even. Percentile: nearest rank, the least
 * value with at least percent/100 of the sample at or below it. Require count > 0, 0 < percent <= 100. */
double stats_median_sorted(const double *values, size_t count);
double stats_percentile_sorted(const double *values, size_t count, double percent);
/* Linear between the order statistics of values sorted ascending. Requires count > 0, 0 <= share <= 1. */
double stats_quantile_sorted(const double *values, size_t count, double share);

/* The same of any order; `values` is sorted on return. */
double stats_median(double *values, size_t count);
double stats_percentile(double *values, size_t count, double percent);

double stats_mean(const double *values, size_t count); /* requires count > 0 */

/* Mean and variance of a stream (Welford), weights alike. Zeroed memory is an empty one. */
struct stats_running {
    uint64_t count;
    double mean, squares; /* sum of squared distances from the mean */
};
void stats_running_add(struct stats_running *running, double value);
double stats_running_variance(
    const struct stats_running *running); /* of the sample, n - 1; 0 below two values */
double stats_running_standard_error(
    const struct stats_running *running); /* of the mean; 0 below two values */

#endif
