#include "sim/core/json.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct json *parse(const char *text)
{
    struct json *value = NULL;
    struct sim_error error;
    enum sim_status status = json_read_text(text, "t.json", &value, &error);
    cr_assert(eq(int, status, SIM_OK), "%s", error.text);
    return value;
}

Test(json, reads_every_kind_with_its_line)
{
    struct json *root = parse(
        "{\n \"a\": [1, -2.5e1,\n true, null, \"x\\u00e9\\n\"],\n\n \"b\": {\"c\": false}\n}\n");
    const struct json *a = json_get(root, "a");
    cr_assert(eq(sz, json_count(a), 5));
    cr_expect(eq(dbl, json_number(json_at(a, 0)), 1));
    cr_expect(eq(dbl, json_number(json_at(a, 1)), -25));
    cr_expect(json_bool(json_at(a, 2)));
    cr_expect(eq(int, json_kind_of(json_at(a, 3)), JSON_NULL));
    cr_expect(eq(str, (char *)json_string(json_at(a, 4)), "x\xc3\xa9\n"));
    cr_expect(eq(str, (char *)json_key(json_at(root, 1)), "b"));
    cr_expect(not(json_bool(json_get(json_get(root, "b"), "c"))));
    cr_expect(json_get(root, "absent") == NULL);
    cr_expect(eq(u32, json_line(a), 2));
    cr_expect(eq(u32, json_line(json_at(a, 2)), 3));
    cr_expect(eq(u32, json_line(json_get(root, "b")), 5));
    json_destroy(root);
}

/* What must be refused, on which line, and a piece of what must be said. */
struct bad_text {
    char text[96];
    char expect[64];
};

ParameterizedTestParameters(json, refuses)
{
    static struct bad_text cases[] = {
        { "{\n\"a\": 1,\n\"b\": inf\n}", "t.json:3: not valid JSON at column 6: inf" },
        { "{\"a\": 1", "t.json:1: not valid JSON: the text ends too early" },
        { "", "t.json:1: not valid JSON: the text ends too early" },
        { "{\"a\": 1}\n\nx", "t.json:3: not valid JSON at column 1: x" },
        { "{\"a\": 1,\n\"b\": 2,\n\"a\": 3}", "t.json:3: key \"a\" given twice (first on line 1)" },
        { "[\n1,\n01]", "t.json:3: 01 is not a JSON number" },
        { "[1.]", "t.json:1: 1. is not a JSON number" },
        { "[1,\n1e400]", "t.json:2: 1e400 is not in the range of a double" },
        { "[\"a\tb\"]", "t.json:1: control character 0x09 inside a string" },
        { "[\"\xff\"]", "t.json:1: byte 0xff inside a string is not UTF-8" },
        { "[\"\xc0\xaf\"]", "t.json:1: byte 0xc0 inside a string is not UTF-8" },
        { "[\"\xed\xa0\x80\"]", "t.json:1: byte 0xed inside a string is not UTF-8" },
        { "[\"a\\u0000b\"]", "t.json:1: \\u0000 inside a string is not supported" },
        { "[1,\n\f2]", "t.json:2: control character 0x0c between values" },
        { "[NaN]", "t.json:1: not valid JSON" },
        { "[1,]", "t.json:1: not valid JSON" },
        { "\xef\xbb\xbf\xef\xbb\xbf" "false", "t.json:1: not valid JSON" }, /* one byte-order mark is let pass */
    };
    return cr_make_param_array(struct bad_text, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct bad_text *c, json, refuses)
{
    struct json *value;
    struct sim_error error = { 0 };
    cr_expect(eq(int, json_read_text(c->text, "t.json", &value, &error), SIM_BAD_FILE), "%s", c->text);
    cr_expect(value == NULL);
    cr_expect(strstr(error.text, c->expect) != NULL, "said: %s", error.text);
}

Test(json, depth_is_bounded)
{
    size_t depth = 100000;
    char *text = malloc(depth + 1);
    struct json *value;
    struct sim_error error;
    memset(text, '[', depth);
    text[depth] = '\0';
    cr_expect(eq(int, json_read_text(text, "t.json", &value, &error), SIM_BAD_FILE));
    free(text);
}

Test(json, a_file_that_is_not_there_or_not_text_is_one_line)
{
    struct json *value;
    struct sim_error error;
    cr_expect(eq(int, json_read_file("/nonexistent/a.json", &value, &error), SIM_BAD_FILE));
    cr_expect(eq(str, error.text, "/nonexistent/a.json: No such file or directory"));
    cr_expect(eq(int, json_read_file("/tmp", &value, &error), SIM_BAD_FILE));
    cr_expect(strstr(error.text, "/tmp: ") == error.text);
    char path[] = "/tmp/json_zeroXXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    fwrite("[1]\0[2]", 1, 7, file);
    fclose(file);
    cr_expect(eq(int, json_read_file(path, &value, &error), SIM_BAD_FILE));
    cr_expect(strstr(error.text, "byte 3 is zero") != NULL, "said: %s", error.text);
    remove(path);
}

Test(json, numbers_print_with_the_fewest_digits_that_read_back)
{
    struct json *array = json_new_array();
    json_append_number(array, 0.1);
    json_append_number(array, 0.1 + 0.2); /* needs 17 digits */
    json_append_number(array, 5e-324);
    json_append_number(array, -0.0);
    json_append_number(array, 9007199254740992.0);
    json_append_number(array, 1e22);
    char *text = json_print(array, false);
    cr_expect(eq(str, text, "[0.1,0.30000000000000004,4.94065645841247e-324,0,9007199254740992,1e+22]"));
    free(text);
    json_destroy(array);
}

Test(json, what_is_printed_reads_back_and_prints_the_same)
{
    struct json *root = json_new_object(), *list = json_new_array();
    json_set_string(root, "text", "quote \" slash \\ line \n bell \a e \xc3\xa9");
    json_set_integer(root, "integer", -((int64_t)1 << 53));
    json_set_bool(root, "yes", true);
    json_set_null(root, "nothing");
    json_set(root, "empty", json_new_object());
    for (int i = 0; i < 60; i++) {
        json_append_number(list, i / 7.0);
    }
    json_append_string(list, "end");
    json_set(root, "list", list);
    for (int pretty = 0; pretty < 2; pretty++) {
        char *text = json_print(root, pretty);
        struct json *back = parse(text);
        char *again = json_print(back, pretty);
        cr_expect(eq(str, text, again));
        cr_expect(eq(str, (char *)json_string(json_get(back, "text")),
                     "quote \" slash \\ line \n bell \a e \xc3\xa9"));
        cr_expect(eq(dbl, json_number(json_get(back, "integer")), -9007199254740992.0));
        free(text);
        free(again);
        json_destroy(back);
    }
    json_destroy(root);
}

Test(json, setting_a_key_again_replaces_it_in_place)
{
    struct json *root = json_new_object();
    json_set_number(root, "a", 1);
    json_set_number(root, "b", 2);
    json_set_string(root, "a", "new");
    char *text = json_print(root, false);
    cr_expect(eq(str, text, "{\"a\":\"new\",\"b\":2}"));
    free(text);
    json_destroy(root);
}

Test(json, infinity_cannot_be_written, .signal = SIGABRT)
{
    json_set_number(json_new_object(), "x", INFINITY);
}

Test(json, integers_beyond_a_double_cannot_be_written, .signal = SIGABRT)
{
    json_set_integer(json_new_object(), "x", ((int64_t)1 << 53) + 1);
}

Test(json, the_wrong_kind_is_a_bug, .signal = SIGABRT)
{
    json_number(parse("\"1\""));
}
