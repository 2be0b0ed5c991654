/* The drawn indices: the measured ones where they can be indexed, the right distribution where not. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include "sim/core/rng.h"
#include "workloads/kernels/index_draw_internal.h"

/* splitmix64 as the measuring program steps it. */
static uint64_t step(uint64_t *s)
{
    *s += 0x9E3779B97f4A7C15ull;
    uint64_t z = *s;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

Test(index_draw, uniform_rows_are_those_of_the_measuring_program_in_order)
{
    struct index_source *source = index_source_create(INDEX_UNIFORM, 1, 3, 20, 7, 1000, 5);
    uint64_t s = 5;
    for (uint64_t table = 0; table < 3; table++) {
        for (uint64_t bag = 0; bag < 20; bag++) {
            for (uint64_t place = 0; place < 7; place++) {
                cr_assert(eq(u64, index_source_row(source, table, bag, place), step(&s) % 1000));
            }
        }
    }
    index_source_release(source);
}

/* P(rank 1) = 1 / zeta(alpha): zeta(1.15) = 7.2547, zeta(1.5) = 2.6124 (tables). 200,000 draws: five standard errors. */
Test(index_draw, zipf_head_has_the_right_share)
{
    static const struct {
        double alpha, zeta;
    } cases[] = { { 1.15, 7.2547 }, { 1.5, 2.6124 }, { 2, 1.6449 } };
    static struct zipf_table table;
    for (size_t i = 0; i < 3; i++) {
        zipf_table_init(&table, cases[i].alpha);
        cr_expect(epsilon_eq(dbl, table.zeta, cases[i].zeta, 1e-4));
        double n = 200000, hits = 0, p = 1 / cases[i].zeta;
        for (uint64_t d = 0; d < 200000; d++) {
            hits += zipf_table_row(&table, 1ull << 40, 9, d) == 1;
        }
        cr_expect(lt(dbl, fabs(hits / n - p), 5 * sqrt(p * (1 - p) / n)), "alpha %g: %g against %g", cases[i].alpha,
                  hits / n, p);
    }
}

/* The same distribution as core's exact rejection sampler: largest gap of the two distribution functions over the ranks
 * up to 2^60, against the two-sample Kolmogorov-Smirnov bound at 1e-4 (2.23 sqrt(2 / n)). */
Test(index_draw, zipf_tail_agrees_with_the_exact_sampler)
{
    enum { DRAWS = 200000, BINS = 61 };
    static struct zipf_table table;
    static double ours[BINS], exact[BINS];
    struct rng rng;
    rng_init(&rng, 1, "zipf tail");
    zipf_table_init(&table, 1.15);
    for (uint64_t d = 0; d < DRAWS; d++) {
        uint64_t a = zipf_table_row(&table, UINT64_MAX, 3, d), b = zipf_unbounded_draw(1.15, &rng);
        int bin_a = a > 0 ? 63 - __builtin_clzll(a) : 0, bin_b = 63 - __builtin_clzll(b);
        ours[bin_a < BINS ? bin_a : BINS - 1]++;
        exact[bin_b < BINS ? bin_b : BINS - 1]++;
    }
    double gap = 0, sum = 0;
    for (int i = 0; i < BINS; i++) {
        sum += (ours[i] - exact[i]) / DRAWS;
        gap = fabs(sum) > gap ? fabs(sum) : gap;
    }
    cr_expect(lt(dbl, gap, 2.23 * sqrt(2.0 / DRAWS)), "gap %g", gap);
}

/* 3 L draws, the L smallest distinct ascending. */
Test(index_draw, fbgemm_bags_are_distinct_and_ascending)
{
    struct index_source *source = index_source_create(INDEX_FBGEMM_ZIPF, 1.15, 2, 300, 20, 1000, 1234);
    for (uint64_t bag = 0; bag < 300; bag++) {
        for (uint64_t place = 1; place < 20; place++) {
            uint64_t before = index_source_row(source, 0, bag, place - 1), row = index_source_row(source, 0, bag, place);
            cr_assert(lt(u64, before, row), "bag %llu", (unsigned long long)bag);
            cr_assert(lt(u64, row, 1000));
        }
    }
    index_source_release(source);
}

/* Runs are the distinct rows with their counts, whatever the generator. */
Test(index_draw, runs_count_the_real_draws)
{
    struct index_source *source = index_source_create(INDEX_UNIFORM, 1, 2, 500, 7, 1000, 5);
    struct run_table *runs = run_table_create(source);
    static uint32_t counts[1000];
    for (uint64_t i = 0; i < 3500; i++) {
        counts[index_source_row(source, 0, i / 7, i % 7)]++;
    }
    uint64_t run = 0;
    for (uint32_t row = 0; row < 1000; row++) {
        if (counts[row] > 0) {
            cr_assert(eq(u32, runs->rows[run], row));
            cr_assert(eq(u64, run_table_length(runs, run), counts[row]));
            run++;
        }
    }
    cr_expect(eq(u64, run, runs->count));
    cr_expect(eq(u64, runs->starts[runs->count], 3500));
    run_table_release(runs);
    index_source_release(source);
}

/* The measured table's figures: unique rows of B=65536;T=5;L=55 are 500000, 4863997 and (Zipf 1.15) 499701, 2455810; runs of
 * the library's generator 29126. One of five tables is drawn. */
Test(index_draw, distinct_rows_come_out_as_observed, .timeout = 60)
{
    static const struct {
        enum index_kind kind;
        double alpha;
        uint64_t rows, seed, observed;
        double tolerance;
    } cases[] = { { INDEX_UNIFORM, 1, 100000, 5, 500000, 1e-4 },      { INDEX_UNIFORM, 1, 1000000, 5, 4863997, 1e-3 },
                  { INDEX_ZIPF, 1.15, 100000, 5, 499701, 1e-3 },      { INDEX_ZIPF, 1.15, 1000000, 5, 2455810, 1e-2 },
                  { INDEX_FBGEMM_ZIPF, 1.15, 100000, 1234, 29126, 2e-2 } };
    for (size_t i = 0; i < 5; i++) {
        struct index_source *source = index_source_create(cases[i].kind, cases[i].alpha, 5, 65536, 55, cases[i].rows,
                                                          cases[i].seed);
        struct run_table *runs = run_table_create(source);
        double error = 5.0 * (double)runs->count / (double)cases[i].observed - 1;
        cr_expect(lt(dbl, fabs(error), cases[i].tolerance), "case %zu: %llu runs", i, (unsigned long long)runs->count);
        run_table_release(runs);
        index_source_release(source);
    }
}

/* The lookups of a run belong to bags in ascending order, and a row that takes a fifth of all lookups of bags of 10 comes
 * twice in a row in each. */
Test(index_draw, bags_of_a_run_ascend)
{
    struct index_source *source = index_source_create(INDEX_ZIPF, 1.5, 1, 1000, 10, 100, 5);
    struct run_table *runs = run_table_create(source);
    for (uint64_t run = 0; run < runs->count; run++) {
        uint64_t last = 0;
        for (uint64_t j = 0; j < run_table_length(runs, run); j++) {
            uint64_t bag = run_table_bag(runs, source, 0, run, j);
            cr_assert(ge(u64, bag, last));
            cr_assert(lt(u64, bag, 1000));
            last = bag;
        }
    }
    /* rank 1 has 1 / zeta(1.5) = 38% of 10,000 lookups */
    cr_expect(eq(u32, runs->rows[runs->longest], 1));
    cr_expect(epsilon_eq(dbl, (double)run_table_length(runs, runs->longest), 3828, 200));
    run_table_release(runs);
    index_source_release(source);
}
