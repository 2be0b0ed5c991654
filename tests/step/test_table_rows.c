/* Measurement tables as files: both headers, what is left alone, and each damage with file and line. */
#include "sim/step/table_rows.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KERNELS "suite,kernel,params,time_us,value,unit,observed\n"
#define STEPS "gpus,case,params,sync_ms,step_ms,examples_per_s,peak_gib\n"

static char folder[] = "/tmp/reckon_rows_XXXXXX";

static void make_folder(void)
{
    cr_assert(mkdtemp(folder) != NULL);
}

static void remove_folder(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert(eq(int, system(command), 0));
}

static char *write_csv(const char *name, const char *text)
{
    char *path = NULL;
    cr_assert(gt(int, asprintf(&path, "%s/%s", folder, name), 0));
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL);
    fputs(text, file);
    fclose(file);
    return path;
}

static void expect_error(const char *text, const char *piece)
{
    struct measured_table table = { 0 };
    struct sim_error error = { 0 };
    char *path = write_csv("bad.csv", text);
    cr_expect(eq(int, measured_table_read(path, &table, &error), SIM_BAD_FILE), "accepted: %s", text);
    cr_expect(strstr(error.text, piece) != NULL, "\"%s\" lacks \"%s\"", error.text, piece);
    measured_table_finish(&table);
    free(path);
}

TestSuite(table_rows, .init = make_folder, .fini = remove_folder);

Test(table_rows, a_row_with_a_time_may_lack_a_value)
{
    struct measured_table table = { 0 };
    struct sim_error error = { 0 };
    char *path = write_csv("time.csv", KERNELS "atomic,add,n=4,384,,us,\n");
    cr_assert(eq(int, measured_table_read(path, &table, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(sz, table.row_count, 1));
    cr_expect(eq(dbl, table.rows[0].time_us, 384));
    cr_expect(eq(dbl, table.rows[0].value, 0));
    measured_table_finish(&table);
    free(path);
    expect_error(KERNELS "atomic,add,n=4,0,,us,\n", ":2: value is ''");
}

Test(table_rows, kernel_rows_keep_their_columns_and_drop_observed)
{
    struct measured_table table = { 0 };
    struct sim_error error = { 0 };
    char *path = write_csv(
        "a.csv", KERNELS
        "latency,chase,kb=16,0.000,287.2,cycles,\npower,duty,n=1;low=idle,12.5,3,TFLOP/s,mhz=1;w=2\n");
    cr_assert(eq(int, measured_table_read(path, &table, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(sz, table.row_count, 2));
    cr_expect(eq(dbl, table.rows[0].value, 287.2));
    cr_expect(eq(dbl, table.rows[0].time_us, 0));
    cr_expect(eq(str, table.rows[0].unit, "cycles"));
    cr_expect(eq(str, table.rows[1].params, "n=1;low=idle"));
    cr_expect(eq(dbl, table.rows[1].time_us, 12.5));
    cr_expect(eq(u32, table.rows[1].line, 3));
    measured_table_finish(&table);
    free(path);
}

/* Three runs of one case: medians 8 and 2; another GPU count is another case; a run out of memory has no time. */
Test(table_rows, repeated_steps_become_their_median)
{
    struct measured_table table = { 0 };
    struct sim_error error = { 0 };
    char *path = write_csv("steps.csv",
                           STEPS "1,a,B=1,0,9,1,1\n1,a,B=1,0,8,1,2\n2,a,B=1,0,5,1,1\n1,a,B=1,0,7,1,3\n"
                                 "1,b,B=2;OOM,nan,nan,nan,0\n");
    cr_assert(eq(int, measured_table_read(path, &table, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(sz, table.step_count, 2));
    cr_expect(eq(dbl, table.steps[0].step_ms, 8));
    cr_expect(eq(dbl, table.steps[0].peak_gib, 2));
    cr_expect(eq(sz, table.steps[0].repeats, 3));
    cr_expect(eq(u32, table.steps[1].gpus, 2));
    measured_table_finish(&table);
    free(path);
}

Test(table_rows, folder_reads_in_name_order_and_leaves_other_files_alone)
{
    struct measured_table table = { 0 };
    struct sim_error error = { 0 };
    free(write_csv("b.csv", KERNELS "s,second,,1,1,u\n"));
    free(write_csv("a.csv", KERNELS "s,first,,1,1,u\n"));
    free(write_csv("slices.csv", "stride,offset,class\n1,2,3\n"));
    free(write_csv("note.txt", "not a table"));
    cr_assert(eq(int, measured_table_read(folder, &table, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(sz, table.row_count, 2));
    cr_expect(eq(str, table.rows[0].kernel, "first"));
    cr_expect(eq(sz, table.ignored_count, 1));
    measured_table_finish(&table);
}

Test(table_rows, damage_is_named_by_file_and_line)
{
    expect_error("x,y\n1,2\n", "bad.csv:1: the header");
    expect_error(KERNELS "a,b,c,1,1,u\na,b,c,1\n", "bad.csv:3: 4 columns");
    expect_error(KERNELS "a,b,c,fast,1,u\n", "bad.csv:2: time_us is 'fast'");
    expect_error(KERNELS "a,b,c,1,inf,u\n", "bad.csv:2: value is 'inf'");
    expect_error(STEPS "1,a,B=1,0,9,1\n", "bad.csv:2: 6 columns");
    expect_error(STEPS "0,a,B=1,0,9,1,1\n", "gpus is 0");
}

Test(table_rows, missing_and_empty_folders_are_errors)
{
    struct measured_table table = { 0 };
    struct sim_error error = { 0 };
    cr_expect(eq(int, measured_table_read("/nowhere/at/all", &table, &error), SIM_BAD_FILE));
    cr_expect(strstr(error.text, "/nowhere/at/all") != NULL);
    cr_expect(eq(int, measured_table_read(folder, &table, &error), SIM_BAD_FILE));
    cr_expect(strstr(error.text, "no CSV file") != NULL, "%s", error.text);
    measured_table_finish(&table);
}
