/* reckon collective as a user meets it: what it prints, and one line with exit code 1 for each wrong request. */
#include "sim/core/json.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct outcome {
    char text[16384]; /* standard output, and standard error after it */
    int exit_code;
};

static struct outcome reckon(const char *arguments)
{
    static struct outcome outcome;
    char command[1024];
    snprintf(command, sizeof command, "%s collective %s 2>&1", RECKON_PROGRAM, arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe != NULL);
    size_t length = fread(outcome.text, 1, sizeof outcome.text - 1, pipe);
    outcome.text[length] = '\0';
    outcome.exit_code = pclose(pipe) >> 8;
    return outcome;
}

static struct json *reckon_json(const char *arguments)
{
    char with_json[512];
    struct json *root = NULL;
    struct sim_error error;
    snprintf(with_json, sizeof with_json, "%s --json", arguments);
    struct outcome outcome = reckon(with_json);
    cr_assert(outcome.exit_code == 0, "%s", outcome.text);
    cr_assert(json_read_text(outcome.text, "output", &root, &error) == SIM_OK, "%s", error.text);
    return root;
}

static double number(const struct json *root, const char *key)
{
    cr_assert(json_get(root, key) != NULL, "no %s", key);
    return json_number(json_get(root, key));
}

Test(cmd_collective, prints_bound_bandwidth_limiter_and_both_link_rates)
{
    struct outcome outcome = reckon("all_to_all 256MiB --node mi350x8 --gpus 8");
    cr_expect(eq(int, outcome.exit_code, 0));
    const char *const wanted[] = { "time",   "bound", "bus bandwidth", "limiter", "raw",
                                   "usable", "76.8",  "61.4",          "7 links", "mesh" };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        cr_expect(strstr(outcome.text, wanted[i]) != NULL, "no %s in\n%s", wanted[i], outcome.text);
    }
}

Test(cmd_collective, says_when_the_switch_adds)
{
    cr_expect(strstr(reckon("all_reduce 4GiB --node b200x8").text, "may exceed the usable link rate") !=
              NULL);
    cr_expect(strstr(reckon("all_reduce 4GiB --node b200x8 --algorithm ring").text, "may exceed") == NULL);
}

/* 1 MiB is 1,048,576 bytes and 1 MB a million; busbw = bytes / time x 2 (n - 1) / n. */
Test(cmd_collective, json_agrees_with_itself)
{
    struct json *root = reckon_json("allreduce 1MiB --node h200x8 --gpus 4");
    cr_expect(eq(dbl, number(root, "bytes"), 1048576));
    cr_expect(eq(dbl, number(root, "gpus"), 4));
    cr_expect(
        epsilon_eq(dbl, number(root, "busbw_gbs"), 1048576 / number(root, "time_us") / 1000 * 1.5, 1e-9));
    cr_expect(number(root, "bound_us") < number(root, "time_us"));
    json_destroy(root);
    root = reckon_json("all_reduce '1 MB' --node h200x8");
    cr_expect(eq(dbl, number(root, "bytes"), 1e6));
    cr_expect(eq(dbl, number(root, "gpus"), 8)); /* all of the node */
    json_destroy(root);
}

Test(cmd_collective, gpus_count_all_nodes_together)
{
    struct json *root = reckon_json("all_reduce 64MiB --node mi355x8 --gpus 16 --nodes 2");
    cr_expect(eq(dbl, number(root, "gpus"), 16));
    cr_expect(eq(dbl, number(root, "nodes"), 2));
    json_destroy(root);
}

Test(cmd_collective, both_engines_and_explicit_flows_agree)
{
    struct json *fluid = reckon_json("all_to_all 8MiB --node b200x8 --gpus 16 --nodes 2");
    struct json *simgrid = reckon_json("all_to_all 8MiB --node b200x8 --gpus 16 --nodes 2 --engine simgrid");
    struct json *flows = reckon_json("all_to_all 8MiB --node b200x8 --gpus 16 --nodes 2 --explicit");
    cr_expect(epsilon_eq(dbl, number(simgrid, "time_us") / number(fluid, "time_us"), 1, 1e-9));
    cr_expect(epsilon_eq(dbl, number(flows, "time_us") / number(fluid, "time_us"), 1, 1e-9));
    cr_expect(strcmp(json_string(json_get(simgrid, "engine")), "simgrid") == 0);
    json_destroy(fluid);
    json_destroy(simgrid);
    json_destroy(flows);
}

Test(cmd_collective, wrong_requests_are_one_line)
{
    static const struct {
        const char *arguments, *says;
    } cases[] = {
        { "", "KIND BYTES" },
        { "all_reduce --node b200x8", "KIND BYTES" },
        { "all_reduce 0 --node b200x8", "above 0" },
        { "all_reduce 1XB --node b200x8", "MiB" },
        { "all_reduce nan --node b200x8", "BYTES 'nan'" },
        { "all_reduce 1MiB", "--node" },
        { "all_reduce 1MiB 7 --node b200x8", "one word too many" },
        { "all_reduce 1MiB --node b300x8", "mi350x8" },
        { "gossip 1MiB --node b200x8", "all_to_all" },
        { "all_reduce 1MiB --node b200x8 --gpus 16", "--nodes 2" },
        { "all_reduce 1MiB --node b200x8 --gpus 1", "at least 2" },
        { "all_reduce 1MiB --node b200x8 --gpus 7 --nodes 2", "divide" },
        { "all_reduce 1MiB --node b200x8 --protocol LL64", "LL128" },
        { "all_reduce 1MiB --node b200x8 --protocol LL9", "LL64" },
        { "all_reduce 1MiB --node b200x8 --algorithm star", "in_switch" },
        { "all_reduce 1MiB --node b200x8 --gpus 4 --algorithm in_switch", "ring/simple" },
        { "all_reduce 1MiB --node b200x8 --device h200", "--device" },
        { "all_reduce 1MiB --node b200x8 --engine ns3", "simgrid" },
        { "all_reduce 1MiB --node b200x8 --colour", "--colour" },
        { "all_reduce 1MiB --node h200x2 --gpus 4 --nodes 2", "no network" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome outcome = reckon(cases[i].arguments);
        size_t length = strlen(outcome.text);
        cr_expect(eq(int, outcome.exit_code, 1), "%s", cases[i].arguments);
        cr_expect(strstr(outcome.text, cases[i].says) != NULL, "%s: %s", cases[i].arguments, outcome.text);
        cr_expect(length > 1 && strchr(outcome.text, '\n') == outcome.text + length - 1,
                  "%s: not one line: %s", cases[i].arguments, outcome.text);
    }
}
