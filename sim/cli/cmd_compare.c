/* reckon compare A.json B.json: what changed between two answers (reports/compare.h). */
#include "reports/compare.h"
#include "sim/cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_ALL = 0x2000 };

static const char doc[] = "What changed from A to B: two answers of one command as --json printed them. Answers are paired by device.\v"
                          "Example:\n  reckon predict step.json.gz --device h200 --json >a.json\n"
                          "  reckon predict step.json.gz --device mi350x --json >b.json\n"
                          "  reckon compare a.json b.json --html change.html";

static const struct argp_option options[] = {
    { "all", OPTION_ALL, NULL, 0, "every change, not only the largest", 1 },
    { 0 },
};

struct arguments {
    struct cli_common common;
    const char *paths[2];
    size_t path_count;
    bool all;
};

#define SHOWN 24

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &arguments->common; return 0;
    case OPTION_ALL: arguments->all = true; return 0;
    case ARGP_KEY_ARG:
        if (arguments->path_count == 2) {
            cli_usage_error(&arguments->common, "'%s': two files are compared, not more", argument);
        }
        arguments->paths[arguments->path_count++] = argument;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const char *text_at(const struct json *object, const char *key)
{
    const struct json *value = json_get(object, key);
    return value != NULL && json_kind_of(value) == JSON_STRING ? json_string(value) : "";
}

static void print_pairs(const struct json *document)
{
    const struct json *answers = json_get(document, "answers");
    for (size_t i = 0; i < json_count(answers); i++) {
        const struct json *pair = json_at(answers, i);
        const char *figure = text_at(pair, "figure"), *intervals = text_at(pair, "intervals");
        printf("%s%s%s", text_at(pair, "a"), strcmp(text_at(pair, "a"), text_at(pair, "b")) != 0 ? " against " : "",
               strcmp(text_at(pair, "a"), text_at(pair, "b")) != 0 ? text_at(pair, "b") : "");
        if (figure[0] != '\0') {
            const struct json *change = json_get(pair, "change");
            printf("  %s %.4g -> %.4g", figure, json_number(json_get(pair, "a_value")), json_number(json_get(pair, "b_value")));
            if (change != NULL) {
                printf(" (%+.1f%%)", json_number(change) * 100);
            }
            printf("%s%s", intervals[0] == '\0' ? ", no intervals (--uncertainty N gives them)" : ", ",
                   strcmp(intervals, "outside") == 0  ? "outside the 80% intervals"
                   : strcmp(intervals, "inside") == 0 ? "inside the 80% intervals"
                                                      : "");
        }
        putchar('\n');
    }
}

static void print_changes(const struct json *document, bool all)
{
    const struct json *changes = json_get(document, "changes");
    size_t shown = json_count(changes);
    shown = !all && shown > SHOWN ? SHOWN : shown;
    if (shown > 0) {
        printf("\n%14s %14s %9s  %-8s %s\n", "a", "b", "change", "interval", "what");
    }
    for (size_t i = 0; i < shown; i++) {
        const struct json *change = json_at(changes, i), *ratio = json_get(change, "change");
        char text[24];
        snprintf(text, sizeof text, "%+.1f%%", json_kind_of(ratio) == JSON_NUMBER ? json_number(ratio) * 100 : 0.0);
        printf("%14.6g %14.6g %9s  %-8s %s %s\n", json_number(json_get(change, "a")), json_number(json_get(change, "b")),
               json_kind_of(ratio) == JSON_NUMBER ? text : "-", text_at(change, "intervals"), text_at(change, "device"),
               text_at(change, "path"));
    }
    if (shown < json_count(changes)) {
        printf("and %zu more numbers (--all lists them)\n", json_count(changes) - shown);
    }
}

static void print_words(const struct json *document, bool all)
{
    static const char *const lists[] = { "appeared", "vanished" };
    const struct json *words = json_get(document, "words");
    for (size_t i = 0; i < json_count(words) && (all || i < SHOWN); i++) {
        const struct json *word = json_at(words, i);
        printf("%s%s %s: %s -> %s\n", i == 0 ? "\n" : "", text_at(word, "device"), text_at(word, "path"), text_at(word, "a"),
               text_at(word, "b"));
    }
    for (size_t l = 0; l < 2; l++) {
        const struct json *list = json_get(document, lists[l]);
        for (size_t i = 0; i < json_count(list) && (all || i < SHOWN); i++) {
            const struct json *entry = json_at(list, i);
            printf("%s%s: %s %s %s\n", i == 0 ? "\n" : "", lists[l], text_at(entry, "device"), text_at(entry, "path"),
                   text_at(entry, "entry"));
        }
    }
}

static int answer(struct arguments *arguments, struct json *document)
{
    struct sim_error error = { 0 };
    if (cli_write_page(&arguments->common, NULL, document, &error) != SIM_OK) {
        json_destroy(document);
        return cli_fail(&arguments->common, &error);
    }
    if (arguments->common.json) {
        cli_print_json(document);
        return 0;
    }
    printf("%s -> %s\n", text_at(document, "a"), text_at(document, "b"));
    print_pairs(document);
    print_changes(document, arguments->all);
    print_words(document, arguments->all);
    printf("\n%.0f numbers and words are the same\n", json_number(json_get(document, "same")));
    json_destroy(document);
    return 0;
}

int cmd_compare(int argc, char **argv)
{
    static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 90 }, { 0 } };
    static const struct argp argp = { options, parse, "A.json B.json", doc, children, NULL, NULL };
    struct arguments arguments = { .common = { .command = argv[0], .options = { .seed = 1 }, .has_html = true,
                                                .simulates_nothing = true, .names_devices = "the answers name their devices" } };
    struct json *a = NULL, *b = NULL, *document = NULL;
    struct sim_error error = { 0 };
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    if (arguments.path_count != 2) {
        cli_usage_error(&arguments.common, "two files of answers are needed (--json writes them)");
    }
    enum sim_status status = json_read_file(arguments.paths[0], &a, &error);
    if (status == SIM_OK) {
        status = json_read_file(arguments.paths[1], &b, &error);
    }
    if (status == SIM_OK) {
        status = compare_answers(a, arguments.paths[0], b, arguments.paths[1], &document, &error);
    }
    int code = status == SIM_OK ? answer(&arguments, document) : cli_fail(&arguments.common, &error);
    json_destroy(a);
    json_destroy(b);
    cli_common_finish(&arguments.common);
    return code;
}
