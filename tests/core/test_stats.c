#include "sim/core/probes.h"
#include "sim/core/stats.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <signal.h>

Test(stats, median_of_odd_and_even_samples)
{
    double odd[] = { 9, 1, 5 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 };
    cr_expect(eq(dbl, stats_median(odd, 3), 5));
    cr_expect(eq(dbl, stats_median(even, 4), 2.5)); /* (2 + 3) / 2 */
    cr_expect(eq(dbl, stats_median(one, 1), 7));
}

Test(stats, percentile_is_nearest_rank)
{
    double ten[] = { 10, 9, 8, 7, 6, 5, 4, 3, 2, 1 };
    cr_expect(eq(dbl, stats_percentile(ten, 10, 90), 9));  /* rank ceil(9.0) = 9 */
    cr_expect(eq(dbl, stats_percentile(ten, 10, 91), 10)); /* rank ceil(9.1) = 10 */
    cr_expect(eq(dbl, stats_percentile(ten, 10, 100), 10));
    cr_expect(eq(dbl, stats_percentile(ten, 10, 0.1), 1)); /* rank ceil(0.01) = 1 */
    double seven[] = { 1, 2, 3, 4, 5, 6, 7 };
    cr_expect(eq(dbl, stats_percentile(seven, 7, 90),
                 7)); /* rank ceil(6.3) = 7: a short suite reports its maximum */
}

/* 0.29 * 100 is 28.999999999999996 in binary and 0.07 * 100 is 7.000000000000001: the rank must be 29 and 7. */
Test(stats, percentile_rank_survives_binary_fractions)
{
    double hundred[100];
    for (int i = 0; i < 100; i++) {
        hundred[i] = i + 1;
    }
    cr_expect(eq(dbl, stats_percentile(hundred, 100, 29), 29));
    cr_expect(eq(dbl, stats_percentile(hundred, 100, 7), 7));
}

Test(stats, nothing_has_no_median, .signal = SIGABRT)
{
    double none[1] = { 0 };
    stats_median(none, 0);
}

Test(stats, not_a_number_is_a_bug, .signal = SIGABRT)
{
    double values[] = { 1, NAN };
    stats_sort(values, 2);
}

Test(stats, running_mean_and_variance)
{
    /* 2, 4, 4, 4, 5, 5, 7, 9 around 1e9: mean 5, squared distances 9+1+1+1+0+0+4+16 = 32, variance 32/7 */
    const double values[] = { 2, 4, 4, 4, 5, 5, 7, 9 };
    struct stats_running running = { 0 };
    cr_expect(eq(dbl, stats_running_standard_error(&running), 0));
    for (int i = 0; i < 8; i++) {
        stats_running_add(&running, 1e9 + values[i]);
    }
    cr_expect(ieee_ulp_eq(dbl, running.mean, 1e9 + 5, 4));
    cr_expect(lt(dbl, fabs(stats_running_variance(&running) - 32.0 / 7), 1e-6));
    cr_expect(lt(dbl, fabs(stats_running_standard_error(&running) - sqrt(32.0 / 7 / 8)), 1e-6));
}

static void count_values(void *context, const struct probe_note *note)
{
    *(uint64_t *)context += note->value * note->what;
}

Test(probes, told_only_to_who_listens)
{
    uint64_t sum = 0;
    struct probe probe = { 0 };
    probe_tell(&probe, 1, 0, 0, 5);
    cr_expect(eq(u64, sum, 0));
    probe = (struct probe){ .listen = count_values, .context = &sum };
    probe_tell(&probe, 2, 0, 0, 5);
    cr_expect(eq(u64, sum, 10));
}

/* Of 1, 2, 4: the middle is the median, a quarter lies halfway from 1 to 2, nine tenths at place 1.8, so four fifths from 2 to 4. */
Test(stats, quantiles_lie_between_order_statistics)
{
    const double values[] = { 1, 2, 4 };
    cr_expect(eq(dbl, stats_quantile_sorted(values, 3, 0.5), 2));
    cr_expect(eq(dbl, stats_quantile_sorted(values, 3, 0.25), 1.5));
    cr_expect(epsilon_eq(dbl, stats_quantile_sorted(values, 3, 0.9), 3.6, 1e-12));
    cr_expect(eq(dbl, stats_quantile_sorted(values, 3, 1), 4));
    cr_expect(eq(dbl, stats_quantile_sorted(values, 1, 0.9), 1));
}
