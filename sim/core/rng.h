/* Deterministic random streams. A stream is named: (seed, name) gives the same numbers on every machine, and streams of
 * different names are independent, so adding a user of randomness changes nobody else's numbers. No global generator.
 * xoshiro256++ (Blackman and Vigna), seeded by splitmix64. */
#ifndef SIM_CORE_RNG_H
#define SIM_CORE_RNG_H
#include "sim/core/hash.h"
#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t state[4]; /* never all zero */
};

/* The stream `name` of `seed`. */
void rng_init(struct rng *rng, uint64_t seed, const char *name);

/* The stream of item `index` of `stream` (any 64-bit value, as from rng_stream_id): for programs that must give the same
 * draw for an item whenever it is asked, in any order. Cheap: four multiplications. */
static inline void rng_init_at(struct rng *rng, uint64_t stream, uint64_t index)
{
    uint64_t at = hash64_add(stream, index);
    for (int i = 0; i < 4; i++) {
        at += 0x9e3779b97f4a7c15u;
        rng->state[i] = hash64_mix(at);
    }
}

uint64_t rng_stream_id(uint64_t seed, const char *name);

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t sum = s[0] + s[3];
    uint64_t result = (sum << 23 | sum >> 41) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return result;
}

/* In [0, 1), multiples of 2^-53. */
static inline double rng_uniform(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1.0p-53;
}

/* In [0, bound), every value alike (Lemire's multiplication with rejection). Requires bound > 0. */
uint64_t rng_below(struct rng *rng, uint64_t bound);

/* Quasi-random points of the unit cube, points[count][dimensions], each in (0, 1): Sobol's sequence (GSL, 40 dimensions), and
 * beyond 40 further sets of it in an order of their own (Owen's Latin supercube). Shifted at random by `seed` modulo 1; the same
 * seed gives the same points. Requires dimensions > 0. */
void rng_quasi_points(uint64_t seed, size_t count, size_t dimensions, double *points);

/* Zipf(alpha) on 1..n by rejection-inversion (Hoermann and Derflinger 1996): no table, O(1) set-up, right for every
 * alpha >= 0 (1 included) and n up to 2^53. About 1.1 uniform draws each. */
struct zipf {
    double alpha, n;
    double integral_first, integral_last, squeeze; /* of the hat; zipf.c's own */
};
void zipf_init(struct zipf *zipf, double alpha, uint64_t n); /* requires alpha >= 0, 1 <= n <= 2^53 */
uint64_t zipf_draw(const struct zipf *zipf, struct rng *rng);

/* numpy's zipf(alpha): unbounded, P(k) = k^-alpha / zeta(alpha) for k = 1 .. 2^63 - 1; and the row an embedding benchmark
 * makes of it, k modulo rows (row 0 is rank `rows`; the tail wraps: 12 to 16% of draws at alpha 1.15 and a million rows).
 * Ranks beyond 2^53 carry the rounding of doubles as numpy's do: they are multiples of powers of two, and at alpha 1.05 the
 * tail there is 1.4 times too heavy. Requires alpha > 1, rows > 0. */
uint64_t zipf_unbounded_draw(double alpha, struct rng *rng);
uint64_t zipf_modulo_row(double alpha, uint64_t rows, struct rng *rng);

#endif
