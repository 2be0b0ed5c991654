/* The front of records, worked out by hand. */
#include "studies/pareto.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>

#define COUNT 7

static const enum metric objectives[] = { METRIC_EXAMPLES, METRIC_MEMORY_GIB };

/* Most examples, least memory. 1 beats 0 (same memory, more examples) and 3; 2 has the least memory; 4 equals 1 and so is beside
 * it; 5 would beat all and is infeasible; 6 has no memory figure. */
static void fill(struct study_record *records)
{
    static const double examples[COUNT] = { 10, 20, 5, 15, 20, 100, 50 }, memory[COUNT] = { 8, 8, 2, 9, 8, 1, NAN };
    for (size_t i = 0; i < COUNT; i++) {
        records[i] = (struct study_record){ .point = (uint32_t)i, .status = i == 5 ? RECORD_INFEASIBLE : RECORD_FEASIBLE };
        records[i].metric[METRIC_EXAMPLES] = examples[i];
        records[i].metric[METRIC_MEMORY_GIB] = memory[i];
    }
}

static void expect_front(const bool *front, const bool *wanted)
{
    for (size_t i = 0; i < COUNT; i++) {
        cr_expect(eq(int, front[i], wanted[i]), "record %zu", i);
    }
}

Test(pareto, beaten_points_are_not_on_the_front)
{
    static const bool wanted[COUNT] = { false, true, true, false, true, false, false };
    struct study_record records[COUNT];
    bool front[COUNT];
    fill(records);
    pareto_front(records, NULL, COUNT, objectives, 2, front);
    expect_front(front, wanted);
}

/* 0 and 3 in a group of their own: 0 has less memory, 3 more examples. */
Test(pareto, groups_do_not_compete)
{
    static const bool wanted[COUNT] = { true, true, true, true, true, false, false };
    static const size_t group[COUNT] = { 1, 0, 0, 1, 0, 0, 0 };
    struct study_record records[COUNT];
    bool front[COUNT];
    fill(records);
    pareto_front(records, group, COUNT, objectives, 2, front);
    expect_front(front, wanted);
}

Test(pareto, one_objective_leaves_the_best_alone)
{
    static const bool wanted[COUNT] = { false, false, true, false, false, false, false };
    struct study_record records[COUNT];
    bool front[COUNT];
    fill(records);
    pareto_front(records, NULL, COUNT, &objectives[1], 1, front);
    expect_front(front, wanted);
}
