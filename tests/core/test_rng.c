#include "sim/core/rng.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

/* Reference output of xoshiro256++ for state {1, 2, 3, 4}, from its authors' code: 41943041, 58720359, 3588806011781223. */
Test(rng, is_the_published_generator)
{
    struct rng rng = { { 1, 2, 3, 4 } };
    cr_expect(eq(u64, rng_next(&rng), 41943041));
    cr_expect(eq(u64, rng_next(&rng), 58720359));
    cr_expect(eq(u64, rng_next(&rng), 3588806011781223));
}

Test(rng, a_named_stream_is_fixed_and_differs_by_name_and_seed)
{
    struct rng a, again, other_name, other_seed;
    rng_init(&a, 1, "gather");
    rng_init(&again, 1, "gather");
    rng_init(&other_name, 1, "gathes");
    rng_init(&other_seed, 2, "gather");
    int same_name = 0, same_seed = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_next(&a);
        cr_assert(eq(u64, x, rng_next(&again)));
        same_name += x == rng_next(&other_name);
        same_seed += x == rng_next(&other_seed);
    }
    cr_expect(eq(int, same_name, 0));
    cr_expect(eq(int, same_seed, 0));
}

/* Streams must not be shifts of one another or share bits: the correlation of 64 x 4096 bits of neighbours, in standard
 * deviations, stays below 5 (two-sided chance 6e-7 each, 40 pairs). */
Test(rng, neighbouring_streams_are_independent)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct rng a, b;
        rng_init(&a, seed, "x");
        rng_init(&b, seed + 1, "x");
        int64_t agree = 0, bits = 64 * 4096;
        for (int i = 0; i < 4096; i++) {
            agree += __builtin_popcountll(rng_next(&a) ^ rng_next(&b));
        }
        cr_expect(lt(dbl, fabs((double)agree - (double)bits / 2) / sqrt((double)bits / 4), 5), "seed %lu", seed);
    }
}

Test(rng, an_item_gives_the_same_draw_in_any_order)
{
    uint64_t stream = rng_stream_id(7, "rows");
    struct rng first, second, first_again;
    rng_init_at(&first, stream, 1000);
    rng_init_at(&second, stream, 1001);
    rng_init_at(&first_again, stream, 1000);
    uint64_t x = rng_next(&first);
    cr_expect(ne(u64, x, rng_next(&second)));
    cr_expect(eq(u64, x, rng_next(&first_again)));
}

/* 2^64 numbers onto 3 * 2^62 values: without rejection every fourth number doubles a value, always a multiple of 3, so that
 * half of the draws would be multiples of 3 where a fair generator gives a third. */
Test(rng, below_has_no_bias)
{
    struct rng rng;
    rng_init(&rng, 3, "below");
    uint64_t bound = UINT64_C(3) << 62;
    int n = 300000, multiples = 0;
    for (int i = 0; i < n; i++) {
        uint64_t x = rng_below(&rng, bound);
        cr_assert(lt(u64, x, bound));
        multiples += x % 3 == 0;
    }
    /* binomial, p = 1/3: sd = sqrt(n * 2/9) = 258; biased it would be n/2 */
    cr_expect(lt(dbl, fabs(multiples - n / 3.0), 5 * 258));
    cr_expect(eq(u64, rng_below(&rng, 1), 0));
}

Test(rng, nothing_is_below_zero, .signal = SIGABRT)
{
    struct rng rng;
    rng_init(&rng, 0, "");
    rng_below(&rng, 0);
}

Test(rng, uniform_fills_the_unit_interval)
{
    struct rng rng;
    rng_init(&rng, 1, "uniform");
    double sum = 0, least = 1, most = 0;
    int n = 100000;
    for (int i = 0; i < n; i++) {
        double u = rng_uniform(&rng);
        sum += u;
        least = fmin(least, u);
        most = fmax(most, u);
    }
    /* mean 1/2, sd of the mean sqrt(1/12/n) = 0.00091; the extremes are within 20/n but for a chance of 2e-9 */
    cr_expect(lt(dbl, fabs(sum / n - 0.5), 5 * 0.00091));
    cr_expect(ge(dbl, least, 0));
    cr_expect(lt(dbl, least, 20.0 / n));
    cr_expect(lt(dbl, most, 1));
    cr_expect(gt(dbl, most, 1 - 20.0 / n));
}

/* Draws against k^-alpha / sum, by chi-square over the ranks 1..9 and the rest: 9 degrees of freedom, 99.99% point 33.7.
 * Each case has its own seed, since equal seeds make the cases' chi-squares alike. */
struct zipf_case {
    double alpha;
    uint64_t n;
};

ParameterizedTestParameters(rng, bounded_zipf)
{
    static struct zipf_case cases[] = { { 0, 50 },        { 0.5, 1000 },    { 0.99, 100000 },
                                        { 1, 1000 },      { 1, 1000000 },   { 1.0000001, 1000 },
                                        { 1.15, 100000 }, { 1.5, 1000000 }, { 3, 1000 },
                                        { 1.2, 10 } };
    return cr_make_param_array(struct zipf_case, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct zipf_case *c, rng, bounded_zipf)
{
    struct zipf zipf;
    struct rng rng;
    uint64_t count[11] = { 0 };
    double total = 0, head = 0, n = 200000;
    zipf_init(&zipf, c->alpha, c->n);
    rng_init(&rng, (uint64_t)(c->alpha * 1000) + c->n, "zipf");
    for (int i = 0; i < (int)n; i++) {
        uint64_t k = zipf_draw(&zipf, &rng);
        cr_assert(ge(u64, k, 1));
        cr_assert(le(u64, k, c->n));
        count[k < 10 ? k : 10]++;
    }
    for (uint64_t k = 1; k <= c->n; k++) {
        total += pow((double)k, -c->alpha);
    }
    double chi_square = 0;
    for (uint64_t k = 1; k <= 10; k++) {
        double p = k < 10 ? pow((double)k, -c->alpha) / total : 1 - head;
        head += p;
        chi_square += pow((double)count[k] - n * p, 2) / (n * p);
    }
    cr_expect(lt(dbl, chi_square, 33.7), "alpha %g n %lu: chi-square %g", c->alpha, c->n, chi_square);
}

Test(rng, zipf_of_one_row_is_that_row)
{
    struct zipf zipf;
    struct rng rng;
    zipf_init(&zipf, 1.15, 1);
    rng_init(&rng, 1, "one");
    for (int i = 0; i < 1000; i++) {
        cr_assert(eq(u64, zipf_draw(&zipf, &rng), 1));
    }
}

Test(rng, zipf_of_nothing_is_a_bug, .signal = SIGABRT)
{
    struct zipf zipf;
    zipf_init(&zipf, 1, 0);
}

/* zeta(a, q) = sum over k >= 0 of (q + k)^-a by Euler-Maclaurin after 20 terms; right to 1e-12 for a > 1.05. */
static double hurwitz_zeta(double a, double q)
{
    double sum = 0;
    for (int k = 0; k < 20; k++) {
        sum += pow(q + k, -a);
    }
    double x = q + 20;
    return sum + pow(x, 1 - a) / (a - 1) + pow(x, -a) / 2 + a * pow(x, -a - 1) / 12 -
           a * (a + 1) * (a + 2) * pow(x, -a - 3) / 720;
}

/* Row r of `rows` is hit by the ranks r, r + rows, r + 2 rows, ...: P = rows^-a zeta(a, r / rows) / zeta(a, 1), where row 0
 * stands for r = rows. 1009 is odd: ranks beyond 2^53 are multiples of powers of two (numpy's too), which an even number of
 * rows would show. Chi-square over rows 0..9 and the rest: 10 degrees of freedom, 99.99% point 35.6. */
Test(rng, modulo_zipf_matches_its_closed_form)
{
    const double alphas[] = { 1.15, 1.2, 1.5 };
    for (int a = 0; a < 3; a++) {
        double alpha = alphas[a], rows = 1009, n = 300000, chi_square = 0, head = 0;
        struct rng rng;
        uint64_t count[11] = { 0 };
        rng_init(&rng, (uint64_t)a + 11, "modulo");
        for (int i = 0; i < (int)n; i++) {
            uint64_t row = zipf_modulo_row(alpha, (uint64_t)rows, &rng);
            cr_assert(lt(u64, row, (uint64_t)rows));
            count[row < 10 ? row : 10]++;
        }
        /* draws beyond 2^63 are refused: 2^(-63 (a - 1)) / ((a - 1) zeta) of them, 0.1% at 1.15, taken off the tail,
         * which falls evenly over the rows */
        double cut = pow(2, -63 * (alpha - 1)) / (alpha - 1) / hurwitz_zeta(alpha, 1);
        for (int r = 0; r <= 10; r++) {
            double p = r < 10 ? (pow(rows, -alpha) * hurwitz_zeta(alpha, (r == 0 ? rows : r) / rows) /
                                     hurwitz_zeta(alpha, 1) -
                                 cut / rows) /
                                    (1 - cut)
                              : 1 - head;
            head += p;
            chi_square += pow((double)count[r] - n * p, 2) / (n * p);
        }
        cr_expect(lt(dbl, chi_square, 35.6), "alpha %g: chi-square %g", alpha, chi_square);
    }
}

/* The unbounded tail wraps: at alpha 1.15 and 10^6 rows 12 to 16% of the draws exceed the table (rank > rows). */
Test(rng, unbounded_zipf_wraps_as_the_embedding_benchmarks_do)
{
    struct rng rng;
    int beyond = 0, n = 100000;
    rng_init(&rng, 5, "wrap");
    for (int i = 0; i < n; i++) {
        beyond += zipf_unbounded_draw(1.15, &rng) > 1000000;
    }
    double expected = hurwitz_zeta(1.15, 1e6 + 1) / hurwitz_zeta(1.15, 1);
    cr_expect(gt(dbl, expected, 0.10));
    cr_expect(lt(dbl, expected, 0.17));
    cr_expect(lt(dbl, fabs(beyond / (double)n - expected), 5 * sqrt(expected / n)));
}

Test(rng, unbounded_zipf_needs_alpha_above_one, .signal = SIGABRT)
{
    struct rng rng;
    rng_init(&rng, 1, "x");
    zipf_unbounded_draw(1, &rng);
}
