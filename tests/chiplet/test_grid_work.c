/* Grids of unlike workgroups, dealt out by hand. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "sim/chiplet/grid_work.h"

/* Workgroup n's two waves run as many operations of a unit each as `length` says. */
struct lengths {
    uint64_t (*of)(uint64_t workgroup);
};

static void next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state, struct wave_op *op)
{
    const struct lengths *lengths = program->context;
    (void)window;
    bool ends = state->trip++ >= lengths->of(state->workgroup);
    op->kind = ends ? WAVE_END : WAVE_COMPUTE;
    op->work_units = !ends;
}

static struct wave_program program_of(struct lengths *lengths, uint64_t workgroups)
{
    return (struct wave_program){ .name = "unlike", .workgroups = workgroups, .waves_per_workgroup = 2, .work_units_total = 1, .next = next,
                                  .context = lengths };
}

static uint64_t alike(uint64_t workgroup)
{
    (void)workgroup;
    return 5;
}

/* 1, 2, 3, .. 16 and again, as causal tiles of 16 a head. */
static uint64_t causal(uint64_t workgroup)
{
    return workgroup % 16 + 1;
}

static uint64_t last_is_long(uint64_t workgroup)
{
    return workgroup == 1023 ? 64 : workgroup % 2 + 1;
}

Test(grid_work, alike_workgroups_weigh_alike)
{
    struct lengths lengths = { alike };
    struct wave_program program = program_of(&lengths, 4096);
    struct grid_work work = grid_work_of(&program, 8);
    cr_expect(eq(dbl, work.variation, 0));
    for (uint32_t d = 0; d < 8; d++) {
        cr_expect(eq(dbl, work.share[d], 1));
    }
    cr_expect(eq(ptr, work.units, NULL));
}

/* Die d of eight has tiles of d + 1 and d + 9 steps: a mean of d + 5 where all have 8.5. */
Test(grid_work, dies_have_the_tiles_that_their_number_gives_them)
{
    struct lengths lengths = { causal };
    struct wave_program program = program_of(&lengths, 2048);
    struct grid_work work = grid_work_of(&program, 8);
    for (uint32_t d = 0; d < 8; d++) {
        cr_expect(epsilon_eq(dbl, work.share[d], (d + 5.0) / 8.5, 1e-12));
    }
    cr_expect(epsilon_eq(dbl, work.variation, 4.61 / 8.5, 0.05)); /* sqrt((16^2 - 1) / 12) = 4.61, of a sample */
    cr_expect(eq(flt, work.units[15], 32)); /* two waves of 16 */
    cr_expect(eq(dbl, (double)(work.longest % 16), 15));
    grid_work_finish(&work);
}

/* Two dies with half and one and a half of the mean: together for half of the even time, then the longer alone. */
Test(grid_work, the_longest_die_ends_last)
{
    struct grid_work work = { .dies = 2, .share = { 0.5, 1.5 }, .workgroups = 2 };
    struct grid_slots slots = { .units = 1, .resident = 1, .alone = 1, .die_alone = 1 };
    cr_expect(epsilon_eq(dbl, grid_work_stretch(&work, &slots), 1.5, 1e-12));
    slots.die_alone = 1.25; /* 0.5 together, then 1.0 at 1.25 */
    cr_expect(epsilon_eq(dbl, grid_work_stretch(&work, &slots), 0.5 + 1.0 / 1.25, 1e-12));
    slots.die_alone = 4; /* but two dies leave it twice the pace at most */
    cr_expect(epsilon_eq(dbl, grid_work_stretch(&work, &slots), 0.5 + 1.0 / 2, 1e-12));
}

/* 1,023 workgroups of 2 and 4 units (two waves of 1 and 2), the last of 128: 512 x 2 + 511 x 4 + 128 = 3,196 units, on one unit of one
 * slot. It takes as long as its work: 1. On four slots, each a unit of its own, all are busy until (3196 - 128) / 4 = 767 units of time
 * and the last runs on to 767 + 128 or a slot's end later, where 3196 / 4 = 799 would do. */
Test(grid_work, a_long_workgroup_at_the_end_is_alone_for_long)
{
    struct lengths lengths = { last_is_long };
    struct wave_program program = program_of(&lengths, 1024);
    struct grid_work work = grid_work_of(&program, 1);
    struct grid_slots slots = { .units = 1, .resident = 1, .alone = 1, .die_alone = 1 };
    cr_expect(epsilon_eq(dbl, grid_work_stretch(&work, &slots), 1, 1e-12));
    slots.units = 4;
    cr_expect(epsilon_eq(dbl, grid_work_stretch(&work, &slots), (767 + 128) / 799.0, 4 / 799.0));
    /* the four on one unit: the last, once alone, runs up to four times as fast */
    slots = (struct grid_slots){ .units = 1, .resident = 4, .alone = 4, .die_alone = 1 };
    cr_expect(epsilon_eq(dbl, grid_work_stretch(&work, &slots), 1, 4 / 799.0));
    slots.alone = 2;
    cr_expect(epsilon_eq(dbl, grid_work_stretch(&work, &slots), (767 + 128 / 2.0) / 799, 6 / 799.0));
    grid_work_finish(&work);
}

/* 200,000 workgroups of about 18 calls are 1.8 M calls for one wave each, above the bound: shares by a pick, without single lengths. */
Test(grid_work, long_grids_are_picked_from)
{
    struct lengths lengths = { causal };
    struct wave_program program = program_of(&lengths, 200000);
    struct grid_work work = grid_work_of(&program, 8);
    cr_expect(eq(ptr, work.units, NULL));
    double sum = 0;
    for (uint32_t d = 0; d < 8; d++) {
        cr_expect(epsilon_eq(dbl, work.share[d], (d + 5.0) / 8.5, 0.03));
        sum += work.share[d];
    }
    cr_expect(epsilon_eq(dbl, sum, 8, 1e-9));
}
