/* Index distributions from files: what they hold is what is drawn, and what is wrong is named with its line. */
#include "tests/kernels/walk.h"
#include "workloads/kernels/index_draw_internal.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_file(char *path, const char *text)
{
    strcpy(path, "/tmp/reckon-test-index-XXXXXX");
    int file = mkstemp(path);
    cr_assert(file >= 0);
    cr_assert(eq(i64, write(file, text, strlen(text)), (int64_t)strlen(text)));
    close(file);
}

/* Lookups of each target of a histogram, by a visit of its atomics. */
struct counts {
    uint64_t base, of[64];
};

static void count_targets(void *user, const struct wave_op *op)
{
    struct counts *counts = user;
    for (uint32_t lane = 0; op->kind == WAVE_ATOMIC && lane < op->lane_count; lane++) {
        counts->of[(op->lane_address[lane] - counts->base) / 4]++;
    }
}

static struct counts histogram_of(const char *params, const char *file_text)
{
    char path[64], all[256];
    write_file(path, file_text);
    snprintf(all, sizeof all, "%s;index_file=%s", params, path);
    struct kernel_plan *plan = walk_plan("scatter", "histogram", all, 64);
    struct counts counts = { .base = kernel_tensor_address(0) };
    walk_program(plan->launches[0].program, 64, WALK_ALL, count_targets, &counts);
    kernel_plan_destroy(plan);
    unlink(path);
    return counts;
}

Test(index_input, a_trace_is_met_in_its_order_and_again)
{
    struct counts counts = histogram_of("n=10;rows=8",
                                        "# three lookups\n5\n 5\n\n7\n"); /* 5 5 7 5 5 7 5 5 7 5 */
    cr_expect(eq(u64, counts.of[5], 7));
    cr_expect(eq(u64, counts.of[7], 3));
}

Test(index_input, counts_by_row_are_exact_when_all_are_drawn)
{
    struct counts counts = histogram_of("n=100;rows=64", "row,count\n3,60\n0,1\n63,39\n");
    cr_expect(eq(u64, counts.of[3], 60));
    cr_expect(eq(u64, counts.of[0], 1));
    cr_expect(eq(u64, counts.of[63], 39));
}

/* 2 rows of 30 lookups and 4 of 10, somewhere in the table. */
Test(index_input, counts_of_counts_are_exact_too)
{
    struct counts counts = histogram_of("n=100;rows=64", "lookups,rows\n30,2\n10,4\n");
    uint64_t of30 = 0, of10 = 0;
    for (int i = 0; i < 64; i++) {
        of30 += counts.of[i] == 30;
        of10 += counts.of[i] == 10;
        cr_expect(counts.of[i] == 0 || counts.of[i] == 10 || counts.of[i] == 30);
    }
    cr_expect(eq(u64, of30, 2));
    cr_expect(eq(u64, of10, 4));
}

/* Half of the distinct rows once and half more often; lookups 20% and 80%: mean 2.5, so 0.5 x 2.5 / 0.5 = 1 and 4 a row. 100
 * lookups: 20 rows once, 80 / 4 = 20 rows four times. */
static const char statistics[] =
    "table_a\nAvg col size: 2.5\nHistogram of col sizes:\n(0, 1]: 0.5\n(1, 8]: 0.5\n[0, 1]\n"
    "Ratio of index distribution at different column sizes:\n(0, 1]: 0.2\n(1, 8]: 0.8\n[0, 1]\n"
    "table_b\nAvg col size: 1\nHistogram of col sizes:\n(0, 1]: 1\n[0, 1]\n"
    "Ratio of index distribution at different column sizes:\n(0, 1]: 1\n[0, 1]\n";

Test(index_input, locality_statistics_become_rows_of_their_multiplicity)
{
    struct counts counts = histogram_of("n=100;rows=64", statistics);
    uint64_t of1 = 0, of4 = 0;
    for (int i = 0; i < 64; i++) {
        of1 += counts.of[i] == 1;
        of4 += counts.of[i] == 4;
    }
    cr_expect(eq(u64, of1, 20));
    cr_expect(eq(u64, of4, 20));
    counts = histogram_of("n=60;rows=64;index_block=table_b", statistics);
    for (int i = 0; i < 64; i++) {
        cr_expect(counts.of[i] <= 1);
    }
}

/* alpha 1 on 2 rows: 2/3 and 1/3 of the draws; four standard deviations of 30,000 draws are 327. */
Test(index_input, a_bounded_zipf_takes_alphas_up_to_one)
{
    struct index_source *source = index_source_create(INDEX_ZIPF_BOUNDED, 1, 1, 30000, 1, 2, 7);
    uint64_t of0 = 0;
    for (uint64_t i = 0; i < 30000; i++) {
        of0 += index_source_row(source, 0, i, 0) == 0;
    }
    cr_expect(ge(u64, of0, 20000 - 327));
    cr_expect(le(u64, of0, 20000 + 327));
    index_source_release(source);
}

struct wrong_file {
    char text[64], params[64], says[64];
};

ParameterizedTestParameters(index_input, wrong_files_are_one_line_with_the_line_number)
{
    static struct wrong_file cases[] = {
        { "1\n2\nx\n", "n=10;rows=8", "line 3: 'x': one index a line" },
        { "1\n-2\n", "n=10;rows=8", "line 2: '-2': one index a line" },
        { "1\n8\n", "n=10;rows=8", "line 2: '8': must be below rows=8" },
        { "", "n=10;rows=8", "line 0: no index in the file" },
        { "# nothing\n\n", "n=10;rows=8", "line 2: no index in the file" },
        { "row,count\n1,2\n9,1\n", "n=10;rows=8", "line 3: '9,1': the row must be below rows=8" },
        { "row,count\n1;2\n", "n=10;rows=8", "line 2: '1;2': row,count is needed" },
        { "lookups,rows\n1,9\n", "n=10;rows=8", "line 2: '1,9': more rows than rows=8" },
        { "lookups,rows\n0,4\n", "n=10;rows=8", "line 2: no lookup" },
        { "rows\n1,9\n", "n=10;rows=8", "line 1: 'rows': neither an index" },
        { "1\n", "n=10;rows=8;alpha=1.1", "stands for the generator" },
        { "t\n", "n=10;rows=8;index_block=u", "ends without a complete block 'u'" },
    };
    return cr_make_param_array(struct wrong_file, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct wrong_file *c, index_input, wrong_files_are_one_line_with_the_line_number)
{
    char path[64], all[256];
    write_file(path, c->text);
    snprintf(all, sizeof all, "%s;index_file=%s", c->params, path);
    struct kernel_params *params;
    struct kernel_plan *plan = NULL;
    struct sim_error error = { .text = "" };
    struct kernel_machine machine = walk_machine(4, 64);
    cr_assert(eq(int, kernel_params_parse(all, &params, &error), SIM_OK));
    cr_expect(
        eq(int,
           sim_status_exit_code(kernel_plan_create("scatter", "histogram", params, &machine, &plan, &error)),
           1));
    cr_expect(ne(ptr, strstr(error.text, c->says), NULL), "says: %s", error.text);
    kernel_plan_destroy(plan);
    kernel_params_destroy(params);
    unlink(path);
}

struct rows_read {
    uint64_t base, of[8];
};

static void count_rows(void *user, const struct wave_op *op)
{
    struct rows_read *rows = user;
    for (uint32_t i = 0; op->kind == WAVE_LOAD && i < op->span_count; i++) {
        uint64_t at = op->spans[i].address - rows->base;
        if (at < 8 * 256) {
            rows->of[at / 256] += op->spans[i].bytes;
        }
    }
}

/* A table of eight rows of 256 bytes, 0.001953125 MiB; 30 lookups of a trace of three. */
Test(index_input, a_gather_reads_the_rows_of_its_file)
{
    char path[64], params[256];
    write_file(path, "3\n3\n1\n");
    snprintf(params, sizeof params, "row_bytes=256;table_mb=0.001953125;n=30;index_file=%s", path);
    struct kernel_plan *plan = walk_plan("gather", "random_rows", params, 64);
    struct rows_read rows = { .base = kernel_tensor_address(0) };
    walk_program(plan->launches[0].program, 64, WALK_ALL, count_rows, &rows);
    cr_expect(eq(u64, rows.of[3], 20 * 256));
    cr_expect(eq(u64, rows.of[1], 10 * 256));
    cr_expect(eq(u64, rows.of[0] + rows.of[2], 0));
    kernel_plan_destroy(plan);
    unlink(path);
}

Test(index_input, a_missing_file_is_named)
{
    struct kernel_params *params;
    struct kernel_plan *plan = NULL;
    struct sim_error error = { .text = "" };
    struct kernel_machine machine = walk_machine(4, 64);
    cr_assert(eq(int, kernel_params_parse("n=10;rows=8;index_file=/nowhere/x", &params, &error), SIM_OK));
    cr_expect(
        eq(int, kernel_plan_create("scatter", "histogram", params, &machine, &plan, &error), SIM_BAD_FILE));
    cr_expect(ne(ptr, strstr(error.text, "index_file=/nowhere/x: No such file"), NULL), "%s", error.text);
    kernel_params_destroy(params);
}
