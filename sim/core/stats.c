#include "sim/core/stats.h"
#include "sim/core/status.h"
#include <math.h>
#include <stdlib.h>

static int compare_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void stats_sort(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        SIM_ASSERT(!isnan(values[i]), "value %zu of %zu is not a number", i, count);
    }
    if (count > 1) {
        qsort(values, count, sizeof *values, compare_values);
    }
}

double stats_median_sorted(const double *values, size_t count)
{
    SIM_ASSERT(count > 0, "median of nothing");
    return count % 2 == 1 ? values[count / 2] : values[count / 2 - 1] / 2 + values[count / 2] / 2;
}

double stats_percentile_sorted(const double *values, size_t count, double percent)
{
    SIM_ASSERT(count > 0, "percentile of nothing");
    SIM_ASSERT(percent > 0 && percent <= 100, "percentile %g", percent);
    /* the tolerance keeps 90 of 10 values at rank 9 where 0.9 * 10 rounds up */
    double rank = ceil(percent / 100 * (double)count - 1e-9);
    size_t index = rank < 1 ? 0 : (size_t)rank - 1;
    return values[index < count ? index : count - 1];
}

double stats_quantile_sorted(const double *values, size_t count, double share)
{
    SIM_ASSERT(count > 0 && share >= 0 && share <= 1, "quantile %g of %zu values", share, count);
    double at = share * (double)(count - 1);
    size_t below = (size_t)at;
    return below + 1 < count ? values[below] + (at - (double)below) * (values[below + 1] - values[below]) : values[count - 1];
}

double stats_median(double *values, size_t count)
{
    stats_sort(values, count);
    return stats_median_sorted(values, count);
}

double stats_percentile(double *values, size_t count, double percent)
{
    stats_sort(values, count);
    return stats_percentile_sorted(values, count, percent);
}

double stats_mean(const double *values, size_t count)
{
    SIM_ASSERT(count > 0, "mean of nothing");
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum / (double)count;
}

void stats_running_add(struct stats_running *running, double value)
{
    running->count++;
    double before = value - running->mean;
    running->mean += before / (double)running->count;
    running->squares += before * (value - running->mean);
}

double stats_running_variance(const struct stats_running *running)
{
    return running->count < 2 ? 0 : running->squares / (double)(running->count - 1);
}

double stats_running_standard_error(const struct stats_running *running)
{
    return running->count < 2 ? 0 : sqrt(stats_running_variance(running) / (double)running->count);
}
