/* Fit files: what is read, which rows an entry takes, and each wrong input as one line that names file, line and key. */
#include "calib/chosen_rows.h"
#include "calib/fit_file.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_text(const char *text, char path[64])
{
    snprintf(path, 64, "/tmp/reckon_fit_test_%d", (int)getpid());
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static enum sim_status read_fit(const char *text, struct fit_file *fit, struct sim_error *error)
{
    char path[64];
    write_text(text, path);
    enum sim_status status = fit_file_read(path, fit, error);
    unlink(path);
    return status;
}

static const char good[] =
    "{\"schema\": \"reckon.fit/1\", \"title\": \"two\", \"iterations\": 7,\n"
    "\"values\": [{\"key\": \"l2.hit_latency\", \"low\": 200, \"high\": 300}],\n"
    "\"rows\": [{\"suite\": \"gis\", \"kernel\": \"forward\", \"params\": \"run=1;D=32\"},\n"
    "{\"suite\": \"latency\", \"kernel\": \"chase_l1\"}]}";

Test(fit_file, entries_take_rows_that_hold_all_their_pairs)
{
    struct fit_file fit;
    struct sim_error error = { 0 };
    cr_assert(eq(int, read_fit(good, &fit, &error), SIM_OK), "%s", error.text);
    cr_expect(eq(int, (int)fit.values[0].index, CHIP_NUMBER_l2_hit_latency));
    cr_expect(eq(u32, fit.iterations_max, 7));
    cr_expect(eq(sz, fit_file_entry_of(&fit, "gis", "forward", "D=32;rows=1000;run=1;n=2097152"), 0));
    cr_expect(eq(sz, fit_file_entry_of(&fit, "gis", "forward", "D=32;rows=1000;run=16;n=2097152"), 2),
              "run=1 is no part of run=16");
    cr_expect(eq(sz, fit_file_entry_of(&fit, "gis", "forward", "D=320;rows=1000;run=1"), 2));
    cr_expect(eq(sz, fit_file_entry_of(&fit, "gis", "backward_atomic", "D=32;run=1"), 2));
    cr_expect(eq(sz, fit_file_entry_of(&fit, "latency", "chase_l1", "kb=16"), 1),
              "no parameters take all rows");
    fit_file_finish(&fit);
}

struct damage {
    char name[40], from[80], to[120], piece[60];
};

ParameterizedTestParameters(fit_file, wrong_input_is_one_line)
{
    static struct damage cases[] = {
        { "unknown profile key", "l2.hit_latency", "l2.speed", "l2.speed" },
        { "low above high", "\"low\": 200", "\"low\": 400", "l2.hit_latency" },
        { "range beyond any device", "\"high\": 300", "\"high\": 1e9", "beyond what a device may have" },
        { "no low", "\"low\": 200, ", "", "low must be there" },
        { "low is text", "\"low\": 200", "\"low\": \"x\"", "low must be there" },
        { "unknown key", "\"iterations\"", "\"steps\"", "steps" },
        { "no steps", "\"iterations\": 7", "\"iterations\": 0", "1..1000" },
        { "other schema", "reckon.fit/1", "reckon.fit/9", "schema" },
        { "no values", "[{\"key\": \"l2.hit_latency\", \"low\": 200, \"high\": 300}]", "[]",
          "values must be a list" },
        { "twice", "[{\"key\": \"l2.hit_latency\", \"low\": 200, \"high\": 300}]",
          "[{\"key\":\"l2.ways\",\"low\":8,\"high\":16},{\"key\":\"l2.ways\",\"low\":8,\"high\":16}]",
          "twice" },
        { "row without suite", "\"suite\": \"gis\", ", "", "suite must be there" },
        { "broken", "\"rows\"", "rows", ":" },
    };
    return cr_make_param_array(struct damage, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct damage *c, fit_file, wrong_input_is_one_line)
{
    char text[2048];
    struct fit_file fit;
    struct sim_error error = { 0 };
    const char *at = strstr(good, c->from);
    cr_assert(at != NULL);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, c->to, at + strlen(c->from));
    cr_expect(ne(int, read_fit(text, &fit, &error), SIM_OK), "%s was accepted", c->name);
    cr_expect(strstr(error.text, c->piece) != NULL, "%s: \"%s\" lacks \"%s\"", c->name, error.text, c->piece);
    cr_expect(strstr(error.text, "/tmp/reckon_fit_test_") != NULL, "%s: \"%s\" names no file", c->name,
              error.text);
}

/* ---- tables */

/* extension ".jsonl": rows of the microkernels, one JSON object a line. */
static enum sim_status read_rows_as(const char *extension, const char *devices, const char *content,
                                    struct chosen_rows *rows, struct sim_error *error)
{
    struct fit_file fit;
    char path[64], named[80];
    const char *const paths[] = { named };
    cr_assert(eq(int,
                 read_fit("{\"schema\": \"reckon.fit/1\", \"values\": [{\"key\": \"l2.hit_latency\", "
                          "\"low\": 200, \"high\": 300}],\n"
                          "\"rows\": [{\"suite\": \"latency\", \"kernel\": \"chase_l1\"}]}",
                          &fit, error),
                 SIM_OK));
    write_text(content, path);
    snprintf(named, sizeof named, "%s%s", path, extension);
    cr_assert(eq(int, rename(path, named), 0));
    enum sim_status status = chosen_rows_read(paths, 1, &fit, devices, rows, error);
    unlink(named);
    fit_file_finish(&fit);
    return status;
}

static enum sim_status read_rows(const char *lines, struct chosen_rows *rows, struct sim_error *error)
{
    char text[8192];
    snprintf(text, sizeof text, "suite,kernel,params,time_us,value,unit,observed\n%s", lines);
    return read_rows_as("", "", text, rows, error);
}

#define MICRO_ROW(time, check)                                                                                          \
    "{\"schema\": \"reckon.micro/1\", \"suite\": \"latency\", \"kernel\": \"chase_l1\", \"params\": \"kb=16\", \"time_us\": " time \
    ", \"value\": 38.5, \"unit\": \"cycles\", \"check\": \"" check "\", \"device\": \"NVIDIA H200\"}\n"

Test(chosen_rows, json_lines_become_lines_of_a_table)
{
    struct chosen_rows rows;
    struct sim_error error = { 0 };
    cr_assert(eq(int, read_rows_as(".jsonl", "Other|NVIDIA H200", MICRO_ROW("0", "ok"), &rows, &error), SIM_OK), "%s",
              error.text);
    cr_assert(eq(sz, rows.count, 1));
    cr_expect(eq(str, rows.line[0], "latency,chase_l1,kb=16,0,38.5,cycles,"));
    chosen_rows_finish(&rows);
}

struct bad_json_row {
    char devices[24], content[320], piece[48];
};

ParameterizedTestParameters(chosen_rows, wrong_json_is_one_line)
{
    static struct bad_json_row cases[] = {
        { "NVIDIA H100", MICRO_ROW("0", "ok"), ":1: measured on 'NVIDIA H200'" },
        { "NVIDIA H200", MICRO_ROW("0", "failed"), ":1: latency/chase_l1 failed its own check" },
        { "NVIDIA H200", MICRO_ROW("-3", "ok"), ":1: time_us is '-3'" },
        { "NVIDIA H200", MICRO_ROW("NaN", "ok"), ":1: the line is no JSON" },
        { "NVIDIA H200", MICRO_ROW("\"fast\"", "ok"), ":1: time_us and value must be numbers" },
        { "NVIDIA H200", "{\"schema\": \"reckon.micro/1\"}\n", ":1: a row needs schema" },
    };
    return cr_make_param_array(struct bad_json_row, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct bad_json_row *c, chosen_rows, wrong_json_is_one_line)
{
    struct chosen_rows rows;
    struct sim_error error = { 0 };
    cr_expect(eq(int, read_rows_as(".jsonl", c->devices, c->content, &rows, &error), SIM_BAD_FILE), "accepted: %s", c->content);
    cr_expect(strstr(error.text, c->piece) != NULL, "\"%s\" lacks \"%s\"", error.text, c->piece);
}

Test(chosen_rows, lines_are_kept_as_they_are)
{
    struct chosen_rows rows;
    struct sim_error error = { 0 };
    cr_assert(eq(int,
                 read_rows("latency,chase_l1,kb=16,0.000,38.9,cycles,x=1\nlatency,other,kb=16,0,1,cycles,\n",
                           &rows, &error),
                 SIM_OK),
              "%s", error.text);
    cr_assert(eq(sz, rows.count, 1));
    cr_expect(eq(str, rows.line[0], "latency,chase_l1,kb=16,0.000,38.9,cycles,x=1"));
    chosen_rows_finish(&rows);
}

struct bad_row {
    char line[80], piece[40];
};

ParameterizedTestParameters(chosen_rows, wrong_input_is_one_line)
{
    static struct bad_row cases[] = {
        { "latency,chase_l1,kb=16,nan,38.9,cycles", ":2: time_us is 'nan'" },
        { "latency,chase_l1,kb=16,-1,38.9,cycles", ":2: time_us is '-1'" },
        { "latency,chase_l1,kb=16,inf,38.9,cycles", ":2: time_us is 'inf'" },
        { "latency,chase_l1,kb=16,0,-2,cycles", ":2: value is '-2'" },
        { "latency,chase_l1,kb=16,0,0,cycles", "neither time_us nor value" },
        { "latency,chase_l1,kb=16,,38.9,cycles", ":2: time_us is ''" },
        { "latency,chase_l1,kb=16,1", "fewer columns" },
        { "latency,other,kb=16,0,1,cycles", "latency/chase_l1" },
    };
    return cr_make_param_array(struct bad_row, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct bad_row *c, chosen_rows, wrong_input_is_one_line)
{
    struct chosen_rows rows;
    struct sim_error error = { 0 };
    cr_expect(eq(int, read_rows(c->line, &rows, &error), SIM_BAD_FILE), "'%s' was accepted", c->line);
    cr_expect(strstr(error.text, c->piece) != NULL, "\"%s\" lacks \"%s\"", error.text, c->piece);
}

/* 61 rows, one more than a fit may have. */
Test(chosen_rows, too_many_are_refused)
{
    struct chosen_rows rows;
    struct sim_error error = { 0 };
    char *lines = calloc(1, 61 * 64);
    for (int i = 0; i < 61; i++) {
        sprintf(lines + strlen(lines), "latency,chase_l1,kb=%d,0,1,cycles\n", i + 1);
    }
    cr_expect(eq(int, read_rows(lines, &rows, &error), SIM_BAD_FILE));
    cr_expect(strstr(error.text, "60") != NULL, "%s", error.text);
    free(lines);
}
