/* What changed between two answers: the arithmetic is in each test. */
#include "reports/compare.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

static struct json *read(const char *text)
{
    struct json *root = NULL;
    struct sim_error error = { 0 };
    cr_assert(eq(int, json_read_text(text, "test", &root, &error), SIM_OK), "%s", error.text);
    return root;
}

static struct json *compare(const char *a, const char *b)
{
    struct json *x = read(a), *y = read(b), *out = NULL;
    struct sim_error error = { 0 };
    cr_assert(eq(int, compare_answers(x, "a", y, "b", &out, &error), SIM_OK), "%s", error.text);
    json_destroy(x);
    json_destroy(y);
    return out;
}

static const struct json *change_of(const struct json *out, const char *path)
{
    const struct json *changes = json_get(out, "changes");
    for (size_t i = 0; i < json_count(changes); i++) {
        if (strcmp(json_string(json_get(json_at(changes, i), "path")), path) == 0) {
            return json_at(changes, i);
        }
    }
    return NULL;
}

Test(compare, an_answer_against_itself_has_no_change)
{
    const char *text = "{\"schema\":\"reckon.kernel/1\",\"device\":\"d\",\"time_us\":3.25,\"limiter\":\"hbm\",\"stack\":{\"hbm\":1}}";
    struct json *out = compare(text, text);
    cr_expect(eq(sz, json_count(json_get(out, "changes")), 0));
    cr_expect(eq(sz, json_count(json_get(out, "words")), 0));
    cr_expect(eq(dbl, json_number(json_get(out, "same")), 3), "time_us, limiter and stack.hbm");
    json_destroy(out);
}

/* 10 -> 8 is -20%. [9, 11] and [7, 8.5] do not meet: outside; [9, 11] and [7, 9.5] do: inside. */
Test(compare, intervals_that_meet_are_inside)
{
    struct json *out = compare("{\"schema\":\"reckon.kernel/1\",\"device\":\"d\",\"time_us\":10,\"time_us_low\":9,\"time_us_high\":11}",
                               "{\"schema\":\"reckon.kernel/1\",\"device\":\"d\",\"time_us\":8,\"time_us_low\":7,\"time_us_high\":8.5}");
    const struct json *change = change_of(out, "time_us");
    cr_assert(change != NULL);
    cr_expect(epsilon_eq(dbl, json_number(json_get(change, "change")), -0.2, 1e-12));
    cr_expect(eq(str, (char *)json_string(json_get(change, "intervals")), "outside"));
    cr_expect(json_get(json_at(json_get(out, "answers"), 0), "change") != NULL);
    json_destroy(out);
    out = compare("{\"schema\":\"reckon.kernel/1\",\"device\":\"d\",\"time_us\":10,\"time_us_low\":9,\"time_us_high\":11}",
                  "{\"schema\":\"reckon.kernel/1\",\"device\":\"d\",\"time_us\":8,\"time_us_low\":7,\"time_us_high\":9.5}");
    cr_expect(eq(str, (char *)json_string(json_get(change_of(out, "time_us"), "intervals")), "inside"));
    json_destroy(out);
}

Test(compare, entries_are_paired_by_what_names_them_and_devices_by_name)
{
    struct json *out = compare(
        "[{\"schema\":\"reckon.predict/1\",\"device\":\"x\",\"kernels\":[{\"name\":\"k\",\"ms\":1},{\"name\":\"gone\",\"ms\":2}]},"
        "{\"schema\":\"reckon.predict/1\",\"device\":\"y\",\"kernels\":[]}]",
        "[{\"schema\":\"reckon.predict/1\",\"device\":\"y\",\"kernels\":[]},"
        "{\"schema\":\"reckon.predict/1\",\"device\":\"x\",\"kernels\":[{\"name\":\"new\",\"ms\":5},{\"name\":\"k\",\"ms\":3}]}]");
    cr_expect(eq(sz, json_count(json_get(out, "changes")), 1));
    cr_assert(change_of(out, "kernels[k].ms") != NULL);
    cr_expect(eq(dbl, json_number(json_get(change_of(out, "kernels[k].ms"), "change")), 2));
    cr_expect(eq(sz, json_count(json_get(out, "appeared")), 1));
    cr_expect(eq(sz, json_count(json_get(out, "vanished")), 1));
    json_destroy(out);
}

static void expect_refused(const char *a, const char *b, const char *piece)
{
    struct json *x = read(a), *y = read(b), *out = NULL;
    struct sim_error error = { 0 };
    cr_expect(eq(int, compare_answers(x, "a", y, "b", &out, &error), SIM_BAD_ARGUMENT));
    cr_expect(strstr(error.text, piece) != NULL, "\"%s\" lacks \"%s\"", error.text, piece);
    json_destroy(x);
    json_destroy(y);
}

Test(compare, other_kinds_are_refused)
{
    expect_refused("{\"schema\":\"reckon.predict/1\"}", "{\"schema\":\"reckon.kernel/1\"}", "one kind");
    expect_refused("{\"schema\":\"reckon.predict/1\"}", "{\"schema\":\"reckon.predict/2\"}", "reckon.predict/2");
    expect_refused("{\"x\":1}", "{\"schema\":\"reckon.kernel/1\"}", "no answer of reckon");
    expect_refused("[]", "{\"schema\":\"reckon.kernel/1\"}", "holds no answer");
    expect_refused("[{\"schema\":\"reckon.kernel/1\"},{\"schema\":\"reckon.kernel/1\"}]", "{\"schema\":\"reckon.kernel/1\"}", "2 answers");
}

/* The step by 1 ms first, though it moves by a tenth alone; then times of parts: 0.5 ms before 400 us, though that is fivefold; then
 * the rest, a share that grew 100-fold. A long name keeps its ends and the figure's key. */
Test(compare, what_moved_most_comes_first)
{
    char a[1024], b[1024], name[201];
    memset(name, 'n', 200);
    name[200] = '\0';
    static const char *const text = "{\"schema\":\"reckon.predict/1\",\"device\":\"d\",\"step_ms\":%s,\"kernels\":[{\"name\":\"%s\",\"ms\":%s,"
                                    "\"share\":%s}],\"launches\":[{\"name\":\"l\",\"time_us\":%s}]}";
    snprintf(a, sizeof a, text, "10", name, "5", "0.001", "100");
    snprintf(b, sizeof b, text, "11", name, "5.5", "0.1", "500");
    struct json *out = compare(a, b);
    const struct json *changes = json_get(out, "changes");
    cr_assert(eq(sz, json_count(changes), 4));
    const char *path[4];
    for (size_t i = 0; i < 4; i++) {
        path[i] = json_string(json_get(json_at(changes, i), "path"));
    }
    cr_expect(eq(str, (char *)path[0], "step_ms"));
    cr_expect(strstr(path[1], "...") != NULL && strcmp(path[1] + strlen(path[1]) - 4, "].ms") == 0, "%s", path[1]);
    cr_expect(eq(str, (char *)path[2], "launches[l].time_us"));
    cr_expect(strcmp(path[3] + strlen(path[3]) - 7, "].share") == 0, "%s", path[3]);
    json_destroy(out);
}
