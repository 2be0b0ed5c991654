/* reckon atomics and kernel --fix as a user meets them. */
#include "sim/core/json.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_CAPACITY (1 << 20)

struct run {
    int code;
    char out[OUTPUT_CAPACITY], error[4096];
};

static void take(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "r");
    cr_assert(ne(ptr, file, NULL));
    text[fread(text, 1, capacity - 1, file)] = '\0';
    fclose(file);
    unlink(path);
}

static struct run *run(const char *arguments)
{
    static struct run result;
    char command[2048], out[64], error[64];
    snprintf(out, sizeof out, "/tmp/reckon_atomics_out_%d", (int)getpid());
    snprintf(error, sizeof error, "/tmp/reckon_atomics_error_%d", (int)getpid());
    snprintf(command, sizeof command, "RECKON_DATA=%s %s %s >%s 2>%s", SOURCE_DIR, RECKON_PROGRAM, arguments,
             out, error);
    int state = system(command);
    result.code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    take(out, result.out, sizeof result.out);
    take(error, result.error, sizeof result.error);
    return &result;
}

Test(atomics, wrong_requests_are_one_line)
{
    static const char *const cases[][2] = {
        { "atomics --device h200", "SUITE/KERNEL is needed" },
        { "atomics scatter/histogram n=1000 --device h200", "--over is needed" },
        { "atomics scatter/histogram n=1000 --over speed=1,2 --device h200",
          "one of rate, addresses, skew, hot_share" },
        { "atomics scatter/histogram n=1000 --over addresses=4,2 --device h200", "must ascend" },
        { "atomics scatter/histogram n=1000 --over addresses=1.5 --device h200", "whole number from 1" },
        { "atomics scatter/histogram n=1000 --over addresses=1:9:1 --device h200", "2 to 64 points" },
        { "atomics scatter/histogram n=1000 --over addresses=1,2x --device h200", "'x' is not understood" },
        { "atomics scatter/histogram n=1000 rows=5 --over addresses=1,2 --device h200",
          "is given and varies too" },
        { "atomics scatter/histogram n=1000 rows=5 --over rate=0,1 --device h200",
          "unknown parameter 'rate'" },
        { "atomics scatter/histogram n=1000 --over addresses=1,2 --device h200 --fix row-pack",
          "those that do" },
        { "atomics scatter/histogram n=1000 --over addresses=1,2 --device h200 --svg /nowhere/a.svg",
          "--svg /nowhere/a.svg" },
        { "kernel bounds_check/per_thread_atomic rate=0.1 --device h200 --fix sort-segment",
          "those that do: tree-reduction" },
        { "kernel bounds_check/per_thread_atomic rate=0.1 --device h200 --fix wings", "unknown fix 'wings'" },
        { "kernel gather/random_rows row_bytes=128 table_mb=1 n=1000 --device h200 --fix privatise",
          "none does" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run *result = run(cases[i][0]);
        size_t length = strlen(result->error);
        cr_expect(eq(int, result->code, 1), "%s: %s", cases[i][0], result->error);
        cr_expect(eq(str, result->out, ""), "%s printed a result", cases[i][0]);
        cr_expect(length > 0 && strchr(result->error, '\n') == result->error + length - 1, "%s", cases[i][0]);
        cr_expect(strstr(result->error, cases[i][1]) != NULL, "%s: %s", cases[i][0], result->error);
    }
}

static double time_at(const struct json *answer, size_t curve, size_t point)
{
    const struct json *points = json_get(json_at(json_get(answer, "curves"), curve), "points");
    return json_number(json_get(json_at(points, point), "time_us"));
}

/* One word, then many: contention goes, and private counters win at one end only. Two runs give the same bytes. */
#define CURVE                                                                                        \
    "atomics scatter/histogram n=100000 --over addresses=1,1000,1000000 --device mi350x,b200 --fix " \
    "privatise --jobs 1 "

Test(atomics, curves_name_their_crossover_and_where_atomics_execute, .timeout = 120)
{
    struct run *result = run(CURVE "--json --svg /tmp/reckon_atomics_test.svg");
    struct json *root = NULL;
    struct sim_error error = { .text = "" };
    cr_assert(eq(int, result->code, 0), "%s", result->error);
    cr_assert(eq(int, json_read_text(result->out, "output", &root, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(sz, json_count(root), 2));
    static const char *const places[] = { "memory_side", "l2" };
    for (size_t d = 0; d < 2; d++) {
        const struct json *answer = json_at(root, d);
        cr_expect(lt(dbl, time_at(answer, 1, 0), time_at(answer, 0, 0) / 4)); /* one word: private counters */
        cr_expect(gt(dbl, time_at(answer, 1, 2),
                     time_at(answer, 0, 2))); /* a million: copies cost more than they save */
        cr_expect(gt(dbl, time_at(answer, 0, 0), 4 * time_at(answer, 0, 1)));
        const struct json *crossing = json_at(json_get(answer, "crossovers"), 0);
        cr_expect(json_bool(json_get(crossing, "faster_at_first")));
        cr_assert(eq(sz, json_count(json_get(crossing, "at")), 1));
        double at = json_number(json_at(json_get(crossing, "at"), 0));
        cr_expect(at > 1 && at < 1000000);
        const struct json *point = json_at(json_get(json_at(json_get(answer, "curves"), 0), "points"), 0);
        cr_expect(eq(str, (char *)json_string(json_get(json_get(point, "atomics"), "executed_at")),
                     (char *)places[d]));
    }
    /* Nobody has published the rates of the first device. */
    cr_expect(gt(sz, json_count(json_get(json_at(root, 0), "sensitivity")), 0));
    json_destroy(root);
    char picture[200] = "";
    take("/tmp/reckon_atomics_test.svg", picture, sizeof picture);
    cr_expect(eq(int, strncmp(picture, "<svg ", 5), 0));
    static char first[OUTPUT_CAPACITY];
    strcpy(first, run(CURVE)->out);
    cr_expect(ne(ptr, strstr(first, "privatise pays up to addresses"), NULL), "%s", first);
    cr_expect(ne(ptr, strstr(first, "is not published"), NULL), "%s", first);
    cr_expect(eq(str, first, run(CURVE)->out));
}
