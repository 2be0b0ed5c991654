#include "sim/core/rng.h"
#include "sim/core/status.h"
#include <gsl/gsl_qrng.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t rng_stream_id(uint64_t seed, const char *name)
{
    return hash64_add_text(hash64_add(HASH64_START, seed), name);
}

void rng_init(struct rng *rng, uint64_t seed, const char *name)
{
    rng_init_at(rng, rng_stream_id(seed, name), 0);
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    SIM_ASSERT(bound > 0, "nothing is below 0");
    unsigned __int128 product = (unsigned __int128)rng_next(rng) * bound;
    if ((uint64_t)product < bound) {
        uint64_t biased = -bound % bound; /* 2^64 mod bound */
        while ((uint64_t)product < biased) {
            product = (unsigned __int128)rng_next(rng) * bound;
        }
    }
    return (uint64_t)(product >> 64);
}

/* ---- quasi-random points */

#define SOBOL_DIMENSIONS 40 /* of GSL's table */

static void shuffle(struct rng *rng, size_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (size_t i = count; i > 1; i--) {
        size_t k = (size_t)rng_below(rng, i), kept = order[i - 1];
        order[i - 1] = order[k];
        order[k] = kept;
    }
}

void rng_quasi_points(uint64_t seed, size_t count, size_t dimensions, double *points)
{
    size_t *order = malloc((count + 1) * sizeof *order);
    SIM_ASSERT(dimensions > 0, "points of no dimensions");
    SIM_ASSERT(order != NULL, "no memory for %zu points", count);
    for (size_t first = 0; first < dimensions; first += SOBOL_DIMENSIONS) {
        size_t here = dimensions - first < SOBOL_DIMENSIONS ? dimensions - first : SOBOL_DIMENSIONS;
        double shift[SOBOL_DIMENSIONS], point[SOBOL_DIMENSIONS];
        char name[32];
        struct rng rng;
        snprintf(name, sizeof name, "quasi %zu", first);
        rng_init(&rng, seed, name);
        for (size_t d = 0; d < here; d++) {
            shift[d] = rng_uniform(&rng);
        }
        shuffle(&rng, order, count);
        gsl_qrng *sobol = gsl_qrng_alloc(gsl_qrng_sobol, (unsigned)here);
        SIM_ASSERT(sobol != NULL, "no memory for a sequence");
        for (size_t i = 0; i < count; i++) {
            double *row = points + (first == 0 ? i : order[i]) * dimensions + first;
            gsl_qrng_get(sobol, point);
            for (size_t d = 0; d < here; d++) {
                double x = point[d] + shift[d];
                row[d] = fmin(fmax(x - floor(x), 0x1.0p-53), 1 - 0x1.0p-53);
            }
        }
        gsl_qrng_free(sobol);
    }
    free(order);
}

/* ---- bounded Zipf. The hat is h(x) = x^-alpha; H its integral from 1, written so that alpha = 1 is no special case. */

/* (exp(x) - 1) / x and log1p(x) / x, stable at 0. */
static double expm1_over(double x)
{
    return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x * 0.5 * (1 + x / 3 * (1 + 0.25 * x));
}

static double log1p_over(double x)
{
    return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x * (0.5 - x * (1.0 / 3 - 0.25 * x));
}

static double hat(double alpha, double x)
{
    return exp(-alpha * log(x));
}

static double hat_integral(double alpha, double x)
{
    double l = log(x);
    return expm1_over((1 - alpha) * l) * l;
}

static double hat_integral_inverse(double alpha, double y)
{
    double t = fmax(y * (1 - alpha), -1);
    return exp(log1p_over(t) * y);
}

void zipf_init(struct zipf *zipf, double alpha, uint64_t n)
{
    SIM_ASSERT(alpha >= 0 && isfinite(alpha), "alpha %g", alpha);
    SIM_ASSERT(n >= 1 && n <= UINT64_C(1) << 53, "n %llu", (unsigned long long)n);
    zipf->alpha = alpha;
    zipf->n = (double)n;
    zipf->integral_first = hat_integral(alpha, 1.5) - 1;
    zipf->integral_last = hat_integral(alpha, (double)n + 0.5);
    zipf->squeeze = 2 - hat_integral_inverse(alpha, hat_integral(alpha, 2.5) - hat(alpha, 2));
}

uint64_t zipf_draw(const struct zipf *zipf, struct rng *rng)
{
    for (;;) {
        double u = zipf->integral_last + rng_uniform(rng) * (zipf->integral_first - zipf->integral_last);
        double x = hat_integral_inverse(zipf->alpha, u);
        double k = fmin(fmax(floor(x + 0.5), 1), zipf->n);
        if (k - x <= zipf->squeeze || u >= hat_integral(zipf->alpha, k + 0.5) - hat(zipf->alpha, k)) {
            return (uint64_t)k;
        }
    }
}

/* ---- unbounded Zipf: Devroye 1986, chapter X.6, as numpy has it */

uint64_t zipf_unbounded_draw(double alpha, struct rng *rng)
{
    SIM_ASSERT(alpha > 1, "alpha %g: an unbounded Zipf needs more than 1", alpha);
    double b = pow(2, alpha - 1);
    for (;;) {
        double u = 1 - rng_uniform(rng); /* (0, 1] */
        double v = rng_uniform(rng);
        double x = floor(pow(u, -1 / (alpha - 1)));
        if (!(x >= 1 && x < 0x1.0p63)) {
            continue;
        }
        double t = pow(1 + 1 / x, alpha - 1);
        if (v * x * (t - 1) / (b - 1) <= t / b) {
            return (uint64_t)x;
        }
    }
}

uint64_t zipf_modulo_row(double alpha, uint64_t rows, struct rng *rng)
{
    SIM_ASSERT(rows > 0, "a table without rows");
    return zipf_unbounded_draw(alpha, rng) % rows;
}
