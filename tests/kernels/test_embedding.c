/* embedding_bag forward against the hardware counters of the library's own kernel (calib/data/h200/counters_torch.csv). */
#include "tests/kernels/walk.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

struct tally {
    uint64_t instructions, loads;
};

static void count(void *user, const struct wave_op *op)
{
    struct tally *tally = user;
    tally->instructions += op->issue_slots + op->valu_slots;
    tally->loads += op->kind == WAVE_LOAD ? op->span_count : 0;
}

/* Counted on B=65536, L=55, D=192, float32: 736,493,568 instructions and 65,667,060 load instructions over 65,536 bags of 6
 * chunks, that is 1,873 and 167 (2 offsets, 55 x 3) a bag and chunk. Bags are alike, so 64 of them stand for all. */
Test(embedding, bag_forward_issues_what_was_counted)
{
    struct kernel_plan *plan = walk_plan("embedding", "bag_forward",
                                         "B=64;L=55;D=192;rows=1000;dtype=float32", 32);
    struct tally tally = { 0 };
    walk_program(plan->launches[0].program, 32, WALK_ALL, count, &tally);
    double parts = 64 * 6;
    cr_expect(eq(u64, tally.loads, 64 * 6 * (2 + 3 * 55)));
    cr_expect(epsilon_eq(dbl, (double)tally.instructions / parts, 736493568.0 / (65536 * 6), 0.05 * 1873));
    kernel_plan_destroy(plan);
}

/* L=100, D=128, float16: 56,000,512 instructions over 4,096 bags of 4 chunks. */
Test(embedding, halves_take_two_more_instructions_a_lookup)
{
    struct kernel_plan *plan = walk_plan("embedding", "bag_forward",
                                         "B=64;L=100;D=128;rows=1000;dtype=float16", 32);
    struct tally tally = { 0 };
    walk_program(plan->launches[0].program, 32, WALK_ALL, count, &tally);
    cr_expect(epsilon_eq(dbl, (double)tally.instructions / (64 * 4), 56000512.0 / (4096 * 4), 0.05 * 3418));
    kernel_plan_destroy(plan);
}
