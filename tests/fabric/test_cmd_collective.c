/* reckon collective as a user meets it: what it prints, and one line with exit code 1 for each wrong request. */
#include "sim/core/json.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void expect_in(const char *text, const char *const *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cr_expect(strstr(text, wanted[i]) != NULL, "no %s in\n%s", wanted[i], text);
    }
}

/* A lever is a line with before, after, gain and CUs; the answer above is the one with it. */
Test(cmd_collective, levers_print_before_and_after)
{
    struct outcome outcome = reckon("all_gather 64MiB --node mi350x8 --fix ll64");
    const char *const wanted[] = { "lever", "ll64", "ring/LL128", "ring/LL64", "CUs taken", "registers" };
    cr_expect(eq(int, outcome.exit_code, 0));
    expect_in(outcome.text, wanted, sizeof wanted / sizeof wanted[0]);
    struct json *root = reckon_json(
        "all_to_all 23MiB --node mi350x8 --gpus 128 --nodes 16 --fix single-qp --fix "
        "wave-per-peer");
    const struct json *fixes = json_get(root, "fixes"), *qp = json_at(fixes, 0), *wave = json_at(fixes, 1);
    cr_expect(eq(sz, json_count(fixes), 2));
    cr_expect(epsilon_eq(dbl, number(qp, "before_us") / number(qp, "after_us"), number(qp, "gain"), 1e-12));
    cr_expect(number(qp, "gain") > 1.1);
    cr_expect(
        epsilon_eq(dbl, number(wave, "before_us"), number(qp, "after_us"), 1e-9)); /* the first stays on */
    cr_expect(epsilon_eq(dbl, number(root, "time_us"), number(wave, "after_us"), 1e-9));
    cr_expect(number(wave, "after_units") < number(wave, "before_units"));
    cr_expect(epsilon_eq(dbl, number(root, "units_taken"), number(wave, "after_units"), 1e-9));
    json_destroy(root);
}

Test(cmd_collective, interval_holds_the_time_and_memory_has_two_ends)
{
    struct json *root = reckon_json("all_to_all 256MiB --node mi350x8 --gpus 8");
    cr_expect(number(root, "time_us_low") < number(root, "time_us"));
    cr_expect(number(root, "time_us") < number(root, "time_us_high"));
    cr_expect(epsilon_eq(dbl, number(root, "hbm_send_bytes") + number(root, "hbm_receive_bytes"),
                         number(root, "hbm_bytes"), 1));
    json_destroy(root);
}

/* Skewed by source: one class of flows per source and kind, and the same time as a flow per pair; the choice is printed. */
Test(cmd_collective, skew_prints_how_flows_were_written_down)
{
    struct json *classes = reckon_json("all_to_all 64MiB --node b200x8 --gpus 32 --nodes 4 --skew 0.3");
    struct json *flows = reckon_json(
        "all_to_all 64MiB --node b200x8 --gpus 32 --nodes 4 --skew 0.3 --explicit");
    cr_expect(strstr(json_string(json_get(classes, "flows")), "by source") != NULL);
    cr_expect(strstr(json_string(json_get(flows, "flows")), "explicit") != NULL);
    cr_expect(epsilon_eq(dbl, number(flows, "time_us") / number(classes, "time_us"), 1, 1e-9));
    json_destroy(classes);
    json_destroy(flows);
    /* two ranks that send 2 and 4 MiB: the mean rank's time at 4 */
    struct json *list = reckon_json("all_to_all 2MiB,4MiB --node h200x2"),
                *even = reckon_json("all_to_all 4MiB --node h200x2");
    cr_expect(epsilon_eq(dbl, number(list, "time_us") / number(even, "time_us"), 1, 1e-3));
    json_destroy(list);
    json_destroy(even);
}

/* A file of splits: lines are sources. Rank 1 sends 8 MiB and rank 0 two, so the call lasts as 8 MiB a rank between all would,
 * 16 MiB in all with as much kept; a line too few is an error that names the file. */
Test(cmd_collective, splits_come_from_a_file)
{
    char path[] = "/tmp/reckon_splits_XXXXXX", command[256];
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    const char text[] = "8MiB,2MiB\n8MiB,8MiB\n";
    cr_assert(write(descriptor, text, sizeof text - 1) == (ssize_t)(sizeof text - 1));
    snprintf(command, sizeof command, "all_to_all 1 --node h200x2 --splits %s", path);
    struct json *splits = reckon_json(command), *even = reckon_json("all_to_all 16MiB --node h200x2");
    cr_expect(epsilon_eq(dbl, number(splits, "time_us") / number(even, "time_us"), 1, 1e-6));
    json_destroy(splits);
    json_destroy(even);
    cr_assert(ftruncate(descriptor, 10) == 0);
    struct outcome outcome = reckon(command);
    unlink(path);
    close(descriptor);
    cr_expect(eq(int, outcome.exit_code, 1));
    cr_expect(strstr(outcome.text, path) != NULL && strstr(outcome.text, "1 lines for 2 ranks") != NULL, "%s",
              outcome.text);
}

/* A group by ranks is a group by number where it is even. */
Test(cmd_collective, ranks_name_a_group)
{
    struct json *named = reckon_json("all_reduce 8MiB --node mi350x8 --ranks 0,2-3,7");
    struct json *counted = reckon_json("all_reduce 8MiB --node mi350x8 --gpus 4");
    struct json *spread = reckon_json("all_reduce 8MiB --node mi350x8 --nodes 3 --ranks 0-3,16-19");
    struct json *two = reckon_json("all_reduce 8MiB --node mi350x8 --nodes 2 --gpus 8");
    cr_expect(eq(dbl, number(named, "time_us"), number(counted, "time_us")));
    cr_expect(eq(dbl, number(spread, "time_us"), number(two, "time_us")));
    json_destroy(named);
    json_destroy(counted);
    json_destroy(spread);
    json_destroy(two);
}

/* Rails with an oversubscribed spine: direct all-to-all slows down, hierarchical does not. */
Test(cmd_collective, set_changes_the_node)
{
#define CLUSTER "all_to_all 1GiB --node b200x8 --gpus 64 --nodes 8 --algorithm "
#define RAILS " --set nic.rails=8 --set nic.oversubscription=4 --set nic.leaf_nodes=8"
    struct json *flat = reckon_json(CLUSTER "direct"), *rails = reckon_json(CLUSTER "direct" RAILS);
    struct json *two = reckon_json(CLUSTER "hierarchical"),
                *two_rails = reckon_json(CLUSTER "hierarchical" RAILS);
    cr_expect(number(rails, "time_us") > 2 * number(flat, "time_us"));
    cr_expect(epsilon_eq(dbl, number(two_rails, "time_us") / number(two, "time_us"), 1, 1e-9));
    json_destroy(flat);
    json_destroy(rails);
    json_destroy(two);
    json_destroy(two_rails);
}

/* The page holds both curves, the bound and a dot for each of the 31 rows that were measured. */
Test(cmd_collective, svg_shows_predicted_and_measured)
{
    char path[] = "/tmp/reckon_curve_XXXXXX", command[256];
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    close(descriptor);
    snprintf(command, sizeof command,
             "all_reduce 1MiB --node mi350x8 --harness rccl_tests_one_process --svg %s", path);
    cr_expect(eq(int, reckon(command).exit_code, 0));
    FILE *file = fopen(path, "r");
    cr_assert(file != NULL);
    static char text[65536];
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    const char *const wanted[] = { "<svg",
                                   "</svg>",
                                   "polyline class=\"p\"",
                                   "polyline class=\"b\"",
                                   "31 rows of calib/data/published/mi350x/collective.csv",
                                   "bus bandwidth" };
    expect_in(text, wanted, sizeof wanted / sizeof wanted[0]);
    int dots = 0;
    for (const char *at = text; (at = strstr(at, "<circle")) != NULL; at++) {
        dots++;
    }
    cr_expect(eq(int, dots, 2 * 31 + 1)); /* two panels and the legend */
}

/* Out and in again as a SimGrid platform: the wires' time is the bound of the node. */
Test(cmd_collective, platform_files_go_out_and_in)
{
    char path[] = "/tmp/reckon_out_XXXXXX.xml", command[256];
    int descriptor = mkstemps(path, 4);
    cr_assert(descriptor >= 0);
    close(descriptor);
    snprintf(command, sizeof command,
             "all_to_all 64MiB --node b200x8 --gpus 16 --nodes 2 --export-platform %s", path);
    struct json *node = reckon_json(command);
    snprintf(command, sizeof command, "all_to_all 64MiB --platform %s", path);
    struct json *wires = reckon_json(command);
    snprintf(command, sizeof command, "all_to_all 64MiB --platform %s --engine simgrid", path);
    struct json *simgrid = reckon_json(command);
    unlink(path);
    cr_expect(epsilon_eq(dbl, number(wires, "transfer_us") / number(node, "bound_us"), 1, 1e-9));
    cr_expect(epsilon_eq(dbl, number(simgrid, "time_us") / number(wires, "time_us"), 1, 1e-9));
    json_destroy(node);
    json_destroy(wires);
    json_destroy(simgrid);
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
        { "all_reduce 1MiB --node b200x8 --ranks 0,1,9", "all_reduce: rank 9 of the group is not one of" },
        { "all_reduce 1MiB --node b200x8 --ranks 0,1,1", "rank 1 of the group is named twice" },
        { "all_reduce 1MiB --node b200x8 --ranks 0-x", "0-3,6" },
        { "all_reduce 1MiB --node b200x8 --nodes 2 --ranks 0,1,8", "must be even" },
        { "all_reduce 1MiB,2MiB --node h200x2", "all_reduce: rank 1 gives 2097152 bytes and rank 0" },
        { "all_reduce 1MiB,1MiB,1MiB --node h200x2", "3 sizes for 2 ranks" },
        { "all_reduce 1MiB --node b200x8 --skew 0.5", "for all_to_all" },
        { "all_to_all 1MiB --node b200x8 --skew 2", "--skew" },
        { "all_to_all 1MiB --node b200x8 --splits /nowhere.csv", "/nowhere.csv" },
        { "all_to_all 1MiB --node b200x8 --fix stream-k", "single-qp" },
        { "all_to_all 1MiB --node b200x8 --fix single-qp", "2 nodes" },
        { "all_to_all 1MiB --node b200x8 --fix ll64", "all_to_all: ranks 0 to 7" },
        { "all_to_all 1MiB --node b200x8 --set nic.rails=0", "1 to 64" },
        { "all_to_all 1MiB --node b200x8 --measured x.csv", "--svg" },
        { "all_to_all 1MiB --node b200x8 --harness nobody", "nccl_tests" },
        { "all_to_all 1MiB --node b200x8 --platform x.xml", "not both" },
        { "all_to_all 1MiB --platform /nowhere.xml", "/nowhere.xml" },
        { "all_to_all 1MiB --platform x.xml --fix ll64", "need --node" },
        { "all_to_all 1MiB --node b200x8 --svg /nowhere/x.svg", "/nowhere/x.svg" },
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
