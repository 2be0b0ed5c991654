/* Fixes: what each takes away and what it adds, by the arithmetic of its rule, and what is refused. */
#include "tests/kernels/walk.h"
#include "workloads/kernels/fix.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t atomics_of(const char *suite, const char *kernel, const char *params, uint32_t lanes)
{
    struct kernel_plan *plan = walk_plan(suite, kernel, params, lanes);
    struct walk walk = walk_program(plan->launches[plan->launch_count - 1].program, lanes, WALK_ALL, NULL,
                                    NULL);
    cr_assert(eq(str, walk.problem, ""), "%s", params);
    kernel_plan_destroy(plan);
    return walk.atomic_lanes;
}

static char *temporary_file(const char *text)
{
    static char path[] = "/tmp/reckon-test-fixes-XXXXXX";
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int file = mkstemp(path);
    cr_assert(file >= 0);
    cr_assert(eq(i64, write(file, text, strlen(text)), (int64_t)strlen(text)));
    close(file);
    return path;
}

/* Field case H09: runs of up to 512 leave an atomic per run and column where a row has several, none elsewhere. Rows with
 * 1,000,000, 512, 513 and 1 duplicates at 128 columns: ceil(1,000,000 / 512) = 1,954 runs, so 250,112; 0; 2 x 128; 0. */
struct multiplicity {
    char lookups[16];
    uint64_t n, atomics;
};

ParameterizedTestParameters(fixes, sorted_runs_leave_the_counted_atomics)
{
    static struct multiplicity cases[] = {
        { "1000000", 1000000, 250112 }, { "512", 512, 0 }, { "513", 513, 256 }, { "1", 1, 0 }
    };
    return cr_make_param_array(struct multiplicity, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct multiplicity *c, fixes, sorted_runs_leave_the_counted_atomics, .timeout = 60)
{
    char text[64], params[256];
    snprintf(text, sizeof text, "lookups,rows\n%s,1\n", c->lookups);
    char *path = temporary_file(text);
    snprintf(params, sizeof params, "n=%llu;D=128;rows=4;index_file=%s;fix=sort-segment",
             (unsigned long long)c->n, path);
    cr_expect(eq(u64, atomics_of("scatter", "index_add", params, 64), c->atomics), "%s duplicates",
              c->lookups);
    unlink(path);
}

/* The other variant of H09: one per index and column. */
Test(fixes, without_a_sort_each_index_and_column_is_an_atomic)
{
    cr_expect(eq(u64, atomics_of("scatter", "index_add", "n=1026;D=128;rows=4", 64), 1026 * 128));
}

struct lanes_seen {
    uint64_t most, valu, atomics;
};

static void see_atomic(void *user, const struct wave_op *op)
{
    struct lanes_seen *seen = user;
    if (op->kind == WAVE_ATOMIC) {
        uint64_t lanes = op->lane_count > 0 ? op->lane_count : op->spans[0].bytes / op->element_bytes;
        seen->most = max_u64(seen->most, lanes);
        seen->valu += op->valu_slots;
        seen->atomics++;
    }
}

static struct lanes_seen seen_of(const char *params)
{
    struct lanes_seen seen = { 0 };
    struct kernel_plan *plan = walk_plan("scatter", "index_add", params, 64);
    walk_program(plan->launches[plan->launch_count - 1].program, 64, WALK_ALL, see_atomic, &seen);
    kernel_plan_destroy(plan);
    return seen;
}

/* 7 targets: at most 7 lanes are left of a wave of 64. */
Test(fixes, wave_aggregate_leaves_a_lane_per_distinct_word)
{
    struct lanes_seen plain = seen_of("n=6400;D=1;rows=7"),
                      merged = seen_of("n=6400;D=1;rows=7;fix=wave-aggregate");
    cr_expect(eq(u64, plain.most, 64));
    cr_expect(eq(u64, merged.most, 7));
    cr_expect(eq(u64, merged.atomics, plain.atomics));
}

/* Field case H04: 64 lanes on 64 columns of a row never meet: as many atomics, and the search is paid in full, 64 rounds. */
Test(fixes, wave_aggregate_pays_for_nothing_where_lanes_are_distinct)
{
    struct lanes_seen plain = seen_of("n=640;D=64;rows=1000"),
                      merged = seen_of("n=640;D=64;rows=1000;fix=wave-aggregate");
    cr_expect(eq(u64, merged.most, 64));
    cr_expect(ge(u64, merged.valu, plain.valu + 64 * 10 * merged.atomics));
}

/* Copies in memory take more memory, and say so; field case H07. */
Test(fixes, copies_in_memory_are_counted_and_noted)
{
    struct kernel_plan *plan = walk_plan("scatter", "index_add",
                                         "n=1000;D=64;rows=100;hot_share=0.1;fix=privatise;copies=4", 64);
    cr_assert(eq(u64, plan->launch_count, 3));
    cr_expect(eq(str, (char *)plan->launches[0].program->name, "fill"));
    cr_expect(eq(str, (char *)plan->launches[1].program->name, "index_add"));
    cr_expect(eq(str, (char *)plan->launches[2].program->name, "sum of private copies"));
    cr_assert(eq(u64, plan->assumption_count, 1));
    cr_expect(ne(ptr, strstr(plan->assumptions[0].text, "4 copies of the target take 0.09766 MiB"),
                 NULL)); /* 4 x 100 x 64 x 4 B */
    kernel_plan_destroy(plan);
}

/* ---- refusals ---- */

struct refusal {
    char suite[24], kernel[24], params[96], says[96];
};

ParameterizedTestParameters(fixes, what_cannot_be_fixed_is_refused)
{
    static struct refusal cases[] = {
        { "bounds_check", "per_thread_atomic", "rate=0.1;fix=sort-segment",
          "those that do: tree-reduction, wave-aggregate" },
        { "bounds_check", "per_thread_atomic", "rate=0.1;fix=treereduction", "unknown fix 'treereduction'" },
        { "bandwidth", "read", "mb=1;fix=privatise", "none does" },
        { "scatter", "histogram", "n=100;rows=2;fix=tree-reduction", "needs one word" },
        { "scatter", "histogram", "n=100;rows=2;fix=privatise+sort-segment", "exclude each other" },
        { "scatter", "histogram", "n=100;rows=2;bins=private;fix=privatise", "is fix privatise already" },
        { "gis", "forward", "D=64;rows=10;map=element;fix=row-pack", "leaves no lane idle" },
        { "bounds_check", "per_thread_atomic", "rate=0.1;block_x=8;fix=row-pack",
          "goes without fix row-pack" },
    };
    return cr_make_param_array(struct refusal, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct refusal *c, fixes, what_cannot_be_fixed_is_refused)
{
    struct kernel_params *params;
    struct kernel_plan *plan = NULL;
    struct sim_error error = { .text = "" };
    struct kernel_machine machine = walk_machine(4, 64);
    cr_assert(eq(int, kernel_params_parse(c->params, &params, &error), SIM_OK));
    cr_expect(ne(int, kernel_plan_create(c->suite, c->kernel, params, &machine, &plan, &error), SIM_OK), "%s",
              c->params);
    cr_expect(ne(ptr, strstr(error.text, c->says), NULL), "%s says: %s", c->params, error.text);
    cr_expect(eq(ptr, plan, NULL));
    kernel_plan_destroy(plan);
    kernel_params_destroy(params);
}
