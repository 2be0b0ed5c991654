/* The radix sort's launches: what a pass reads and writes, and that its scattered stores are a permutation. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>
#include "tests/kernels/walk.h"

/* Counts stores per 4-byte item of one tensor. */
struct coverage {
    uint64_t first, items;
    uint8_t *hits;
    uint64_t outside;
};

static void cover(void *user, const struct wave_op *op)
{
    struct coverage *c = user;
    for (uint32_t i = 0; op->kind == WAVE_STORE && i < op->span_count; i++) {
        uint64_t at = (op->spans[i].address - c->first) / 4;
        if (op->spans[i].address >> KERNEL_TENSOR_SHIFT != c->first >> KERNEL_TENSOR_SHIFT) {
            continue;
        }
        for (uint64_t item = at; item < at + op->spans[i].bytes / 4; item++) {
            if (item < c->items) {
                c->hits[item]++;
            } else {
                c->outside++;
            }
        }
    }
}

static const struct wave_program *launch_named(const struct kernel_plan *plan, const char *name, size_t nth)
{
    for (size_t i = 0; i < plan->launch_count; i++) {
        if (strcmp(plan->launches[i].program->name, name) == 0 && nth-- == 0) {
            return plan->launches[i].program;
        }
    }
    abort();
}

static size_t tensor_named(const struct wave_program *program, const char *name)
{
    for (size_t i = 0; i < kernel_program_tensor_count(program); i++) {
        if (strcmp(kernel_program_tensor_at(program, i).name, name) == 0) {
            return i;
        }
    }
    abort();
}

/* 3 x 1000 rows need 12 bits: one sweep of 8 and one of 4 bits. 8000 tiles' worth is not needed: 20,000 lookups make three
 * full tiles of 6528 and a partial one. */
#define LOOKUPS 21000u
#define PLAN "B=1000;T=3;L=7;D=64;rows=1000"

static void check_sweep(const struct wave_program *sweep, uint32_t lanes, const char *tensor, uint64_t tiles)
{
    size_t index = tensor_named(sweep, tensor);
    uint64_t items = (uint64_t)kernel_program_tensor_at(sweep, index).bytes / 4;
    struct coverage c = { .first = kernel_tensor_address(index), .items = items, .hits = calloc(items, 1) };
    struct walk walk = walk_program(sweep, lanes, WALK_ALL, cover, &c);
    uint64_t once = 0;
    for (uint64_t i = 0; i < items; i++) {
        cr_assert(le(u32, c.hits[i], 1), "%s %llu is written twice", tensor, (unsigned long long)i);
        once += c.hits[i];
    }
    cr_expect(eq(u64, once, LOOKUPS));
    cr_expect(eq(u64, c.outside, 0));
    /* keys and values in, and two rows of 256 counters by each tile that has as many tiles before it: of four 3 + 2 */
    cr_expect(eq(u64, walk.load_bytes, LOOKUPS * 8 + (2 * tiles - 3) * 1024));
    cr_expect(eq(u64, walk.store_bytes, LOOKUPS * 8 + tiles * 1024));
    free(c.hits);
}

Test(sort, a_sweep_writes_every_pair_to_a_place_of_its_own)
{
    static const uint32_t lanes[] = { 32, 64 };
    for (size_t i = 0; i < 2; i++) {
        struct kernel_plan *plan = walk_plan("tbe", "sort", PLAN, lanes[i]);
        for (size_t pass = 0; pass < 2; pass++) {
            const struct wave_program *sweep = launch_named(plan, "radix sort: one sweep", pass);
            check_sweep(sweep, lanes[i], "keys out", 4);
            check_sweep(sweep, lanes[i], "values out", 4);
        }
        kernel_plan_destroy(plan);
    }
}

/* The same of a recorded launch with tiles of 256 x 11 = 2,816: 8 of them. */
Test(sort, a_recorded_sweep_of_other_tiles_is_a_permutation_too)
{
    for (uint32_t lanes = 32; lanes <= 64; lanes *= 2) {
        struct kernel_plan *plan = walk_plan("sort", "sweep", "n=21000;key_bytes=4;threads=256;items=11",
                                             lanes);
        check_sweep(plan->launches[0].program, lanes, "keys out", 8);
        check_sweep(plan->launches[0].program, lanes, "values out", 8);
        kernel_plan_destroy(plan);
    }
}

static void count_barriers(void *user, const struct wave_op *op)
{
    *(uint32_t *)user += op->kind == WAVE_BARRIER;
}

/* 23 bits are four passes of six; each has seven barriers, five without values. Every wave meets each. */
Test(sort, a_single_tile_takes_a_pass_for_six_bits)
{
    static const struct {
        const char *params;
        uint32_t passes, barriers;
    } cases[] = {
        { "n=351;value_bytes=8;bits=23", 4, 7 },
        { "n=351;value_bytes=0;bits=24", 4, 5 },
        { "n=1;value_bytes=4;bits=25", 5, 7 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t lanes = 32; lanes <= 64; lanes *= 2) {
            uint32_t barriers = 0;
            struct kernel_plan *plan = walk_plan("sort", "single_tile", cases[i].params, lanes);
            walk_program(plan->launches[0].program, lanes, WALK_ALL, count_barriers, &barriers);
            cr_expect(eq(u32, barriers, 256 / lanes * cases[i].passes * cases[i].barriers), "%s",
                      cases[i].params);
            kernel_plan_destroy(plan);
        }
    }
}

/* 12 bits: two digits; the histogram reads each key once and counts two digits in shared memory. */
Test(sort, histograms_read_the_keys_once)
{
    struct kernel_plan *plan = walk_plan("tbe", "sort", PLAN, 32);
    struct walk walk = walk_program(launch_named(plan, "radix sort: histograms", 0), 32, WALK_ALL, NULL, NULL);
    cr_expect(eq(u64, walk.load_bytes, LOOKUPS * 4));
    cr_expect(eq(u64, walk.lds_atomics, LOOKUPS * 2));
    /* ceil(21000 / 2048) = 11 workgroups have a tile; each adds 2 x 256 bins */
    cr_expect(eq(u64, walk.atomic_lanes, 11 * 512));
    kernel_plan_destroy(plan);
}

/* 64-bit keys of which 9 bits differ: of eight sweeps one of 8 bits, one of 1 bit, six over a shared digit. */
Test(sort, digits_that_all_keys_share_are_swept_in_order)
{
    struct kernel_plan *plan = walk_plan("embedding", "bag_backward_dense", "B=3000;L=7;D=64;rows=500;dtype=float32", 32);
    double passes[] = { 1, 1, 6 };
    for (size_t i = 0, found = 0; i < plan->launch_count; i++) {
        if (strcmp(plan->launches[i].program->name, "radix sort: one sweep") == 0) {
            cr_expect(eq(dbl, plan->launches[i].repeat, passes[found]));
            found++;
        }
    }
    kernel_plan_destroy(plan);
}

Test(sort, key_bits)
{
    cr_expect(eq(u32, kernel_key_bits(1), 1));
    cr_expect(eq(u32, kernel_key_bits(2), 1));
    cr_expect(eq(u32, kernel_key_bits(3), 2));
    cr_expect(eq(u32, kernel_key_bits(500000), 19)); /* 2^19 = 524288 */
    cr_expect(eq(u32, kernel_key_bits(1ull << 32), 32));
}

/* Launches of the same identity are op for op the same, wherever they come from; the sort of (row, bag) pairs does not know how
 * wide rows are, and knows how many pairs there are. */
Test(sort, same_identity_is_the_same_ops)
{
    static const char *const params[] = { "B=3000;T=1;L=7;D=64;rows=1000", "B=3000;T=1;L=7;D=128;rows=1000", "B=5000;T=1;L=7;D=64;rows=1000",
                                          "B=3000;T=1;L=7;D=64;rows=100" };
    struct kernel_plan *plans[4];
    uint32_t shared[4] = { 0 }, named = 0;
    for (int p = 0; p < 4; p++) {
        plans[p] = walk_plan("tbe", "backward", params[p], 64);
    }
    for (size_t i = 0; i < plans[0]->launch_count; i++) {
        const struct kernel_launch *a = &plans[0]->launches[i];
        named += kernel_launch_identity(a) != 0;
        for (int p = 0; p < 4; p++) {
            bool met = false;
            for (size_t k = 0; k < plans[p]->launch_count; k++) {
                const struct kernel_launch *b = &plans[p]->launches[k];
                if (kernel_launch_identity(a) == 0 || kernel_launch_identity(a) != kernel_launch_identity(b)) {
                    continue;
                }
                cr_expect(eq(u64, walk_program(a->program, 64, WALK_ALL, NULL, NULL).hash,
                             walk_program(b->program, 64, WALK_ALL, NULL, NULL).hash), "%s and %s", a->program->name, b->program->name);
                met = true;
            }
            shared[p] += met;
        }
    }
    /* linearise, bins, histograms, bin sums, lookback, two sweeps (8 and 2 bits of 1000 rows), unique and sum with their states */
    cr_expect(named >= 10, "%u launches have an identity", named);
    cr_expect(eq(u32, shared[0], named));
    cr_expect(eq(u32, shared[1], named - 1), "width matters to one: the sums of long runs are zeroed first");
    cr_expect(shared[2] < named / 2, "%u of %u launches do not know the number of pairs", shared[2], named);
    cr_expect(shared[3] < named, "100 rows need one sweep");
    for (int p = 0; p < 4; p++) {
        kernel_plan_destroy(plans[p]);
    }
}
