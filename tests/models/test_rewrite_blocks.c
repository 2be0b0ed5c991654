/* Layers of a recorded step found by structure: fewer, more, computed again; and products in another precision. */
#include "sim/core/data_path.h"
#include "tests/models/same_kernels.h"
#include "workloads/models/model.h"
#include "workloads/rewrite.h"
#include "workloads/trace/kineto.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define TRACE(name) SOURCE_DIR "/calib/data/h200/traces/" name ".kineto.json.gz"

static struct graph *read_trace(const char *path)
{
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    struct trace_options options = { .step = -1 };
    cr_assert_eq(trace_read(&path, 1, &options, &graph, &error), SIM_OK, "%s", error.text);
    return graph;
}

static struct graph *describe(const char *name, const char *first, const char *second)
{
    char path[DATA_PATH_CAPACITY];
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    cr_assert_eq(data_path_find("workloads/models", "model", name, path, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_read(path, &model, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_set(model, first, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_set(model, second, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_graph(model, &graph, &error), SIM_OK, "%s", error.text);
    model_destroy(model);
    return graph;
}

static struct graph *rewrite(const struct graph *graph, uint32_t from, uint32_t to, double recomputed)
{
    struct graph *rewritten = NULL;
    struct sim_error error = { 0 };
    struct rewrite_blocks change = { from, to, recomputed };
    cr_assert_eq(rewrite_blocks(graph, &change, &rewritten, &error), SIM_OK, "%s", error.text);
    return rewritten;
}

static size_t kernels_of(const struct graph *graph, const char *suite, const char *kernel)
{
    size_t count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        count += node->kind == GRAPH_KERNEL && strcmp(node->suite, suite) == 0 && (kernel == NULL || strcmp(node->kernel, kernel) == 0);
    }
    return count;
}

/* Kernels whose number in the description of the same step is another; products are by their library's choices, lists of an optimiser
 * are cut differently, fills are of a library's counters. */
static size_t differing(const struct graph *rewritten, const struct graph *described, size_t *compared)
{
    size_t differ = 0;
    *compared = 0;
    for (size_t i = 0; i < rewritten->node_count; i++) {
        const struct graph_node *node = &rewritten->nodes[i];
        if (node->kind == GRAPH_KERNEL && node->params != NULL && strcmp(node->suite, "gemm") != 0 && strcmp(node->suite, "memory") != 0 &&
            strcmp(node->suite, "optimizer") != 0) {
            *compared += 1;
            differ += count_of(rewritten, node) != count_of(described, node);
        }
    }
    return differ;
}

static void compare(const char *trace, const char *name, const char *batch, uint32_t from, uint32_t to, double recomputed, const char *setting)
{
    struct graph *recorded = read_trace(trace), *rewritten = rewrite(recorded, from, to, recomputed);
    struct graph *described = describe(name, batch, setting);
    size_t compared, differ = differing(rewritten, described, &compared);
    cr_expect(compared > 100, "%zu kernels compared", compared);
    cr_expect(differ * 16 <= compared, "%s %s: %zu of %zu kernels are not as often in the description", name, setting, differ, compared);
    cr_expect_str_empty(rewritten->device_title, "nothing of it was timed on the recorded device");
    graph_destroy(recorded);
    graph_destroy(rewritten);
    graph_destroy(described);
}

Test(rewrite_blocks, fewer_and_more_layers_have_the_kernels_of_the_description)
{
    compare(TRACE("gpt13b_B8_ac0_w1_r0"), "gpt13b", "batch=8", 24, 12, 0, "layers=12");
    compare(TRACE("gpt13b_B8_ac0_w1_r0"), "gpt13b", "batch=8", 24, 30, 0, "layers=30");
    compare(TRACE("hstu_w1_r0"), "hstu", "batch=32", 8, 4, 0, "layers=4");
}

Test(rewrite_blocks, layers_computed_again_have_the_kernels_of_the_description)
{
    compare(TRACE("gpt13b_B8_ac0_w1_r0"), "gpt13b", "batch=8", 24, 24, 1, "checkpoint=1");
    compare(TRACE("gpt13b_B8_ac0_w1_r0"), "gpt13b", "batch=8", 24, 24, 0.5, "checkpoint=0.5");
}

/* A block has four products: the last one's result is added to the residual, which keeps nothing, so it is not run again. */
Test(rewrite_blocks, what_nothing_keeps_is_not_computed_again)
{
    struct graph *recorded = read_trace(TRACE("gpt13b_B8_ac0_w1_r0")), *again = rewrite(recorded, 24, 24, 1);
    cr_expect_eq(kernels_of(recorded, "attention", "sdpa_fwd"), 24);
    cr_expect_eq(kernels_of(again, "attention", "sdpa_fwd"), 48);
    cr_expect_eq(kernels_of(again, "gemm", NULL), kernels_of(recorded, "gemm", NULL) + 24 * 3);
    graph_destroy(recorded);
    graph_destroy(again);
}

/* 50,304 x 2,048 words and 1,024 positions, 12 x 2,048^2 and 13 x 2,048 a layer (four products with bias, two norms), one norm. */
Test(rewrite_blocks, work_over_all_parameters_is_in_proportion)
{
    double layer = 12 * 2048.0 * 2048 + 13 * 2048, rest = 2 * 50304 * 2048.0 + 2048;
    struct graph *recorded = read_trace(TRACE("gpt13b_B8_ac0_w1_r0")), *half = rewrite(recorded, 24, 12, 0);
    double elements[2] = { 0 };
    const struct graph *graphs[] = { recorded, half };
    for (size_t g = 0; g < 2; g++) {
        for (size_t i = 0; i < graphs[g]->node_count; i++) {
            const struct graph_node *node = &graphs[g]->nodes[i];
            const char *at = node->kind == GRAPH_KERNEL && strcmp(node->suite, "optimizer") == 0 ? strstr(node->params, "elements=") : NULL;
            double value = 0;
            elements[g] += at != NULL && sscanf(at, "elements=%lf", &value) == 1 ? value : 0;
        }
    }
    double expected = (12 * layer + rest) / (24 * layer + rest);
    cr_expect_float_eq(elements[1] / elements[0], expected, 0.01, "%.4f of the elements for %.4f", elements[1] / elements[0], expected);
    graph_destroy(recorded);
    graph_destroy(half);
}

/* ---- a step made by hand: forward and backward of three layers, each with a gather on a second stream that its kernel waits for */

struct made {
    struct graph *graph;
    uint32_t record;
};

static uint32_t add(struct made *made, struct graph_node node)
{
    node.traced_start_us = -1;
    if (node.kind != GRAPH_HOST_LAUNCH) {
        node.launched = UINT32_MAX;
    }
    if (node.kind != GRAPH_EVENT_WAIT) {
        node.waits_for = UINT32_MAX;
    }
    return graph_add(made->graph, &node);
}

static void add_kernel(struct made *made, const char *name, const char *suite, const char *params)
{
    uint32_t launch = add(made, (struct graph_node){ .kind = GRAPH_HOST_LAUNCH, .name = "launch", .launched = (uint32_t)made->graph->node_count + 1 });
    struct graph_node kernel = { .kind = GRAPH_KERNEL, .name = name, .operator_name = "aten::mm", .category = "gemm", .params = params };
    snprintf(kernel.suite, sizeof kernel.suite, "%s", suite);
    snprintf(kernel.kernel, sizeof kernel.kernel, "mm");
    cr_assert_eq(add(made, kernel), launch + 1);
}

static void add_gather(struct made *made, uint64_t sequence)
{
    struct graph_collective *gather = graph_add_collective(made->graph);
    *gather = (struct graph_collective){ .kind = "all_gather", .bytes = 1e6, .group_size = 2, .group = "all", .sequence = sequence };
    add(made, (struct graph_node){ .kind = GRAPH_HOST_LAUNCH, .name = "launch", .launched = (uint32_t)made->graph->node_count + 1 });
    add(made, (struct graph_node){ .kind = GRAPH_COLLECTIVE, .name = "gather", .stream = 1, .collective = gather });
    made->record = add(made, (struct graph_node){ .kind = GRAPH_EVENT_RECORD, .name = "record", .stream = 1 });
    add(made, (struct graph_node){ .kind = GRAPH_EVENT_WAIT, .name = "wait", .waits_for = made->record });
}

static struct graph *make_step(const char *dtype, bool gathers)
{
    struct made made = { .graph = graph_create("made by hand") };
    char params[64];
    graph_add_ranks(made.graph, 1);
    made.graph->world_size = 1;
    made.graph->ranks[0] = (struct graph_rank){ .thread_count = 1, .stream_count = 2 };
    snprintf(params, sizeof params, "M=64;N=64;K=64;dtype=%s", dtype);
    const char *forward = graph_intern(made.graph, params);
    snprintf(params, sizeof params, "M=64;N=64;K=128;dtype=%s", dtype);
    const char *backward = graph_intern(made.graph, params);
    for (uint64_t layer = 0; layer < 6; layer++) {
        if (layer == 3) {
            add(&made, (struct graph_node){ .kind = GRAPH_HOST_OP, .name = "loss" });
        }
        add(&made, (struct graph_node){ .kind = GRAPH_HOST_OP, .name = layer < 3 ? "aten::mm" : "MmBackward0" });
        if (gathers) {
            add_gather(&made, layer);
        }
        add_kernel(&made, layer < 3 ? "forward" : "backward", "gemm", layer < 3 ? forward : backward);
    }
    struct sim_error error = { 0 };
    cr_assert_eq(graph_check(made.graph, &error), SIM_OK, "%s", error.text);
    return made.graph;
}

/* Each wait is for the record of its own layer, two nodes before it, and the group's collectives are numbered without a gap. */
static void expect_whole(const struct graph *graph, size_t layers)
{
    uint64_t next = 0;
    size_t kernels = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        if (node->kind == GRAPH_EVENT_WAIT) {
            cr_expect_eq(node->waits_for, i - 1);
        } else if (node->kind == GRAPH_HOST_LAUNCH) {
            cr_expect_eq(node->launched, i + 1);
        } else if (node->kind == GRAPH_COLLECTIVE) {
            cr_expect_eq(node->collective->sequence, next++);
        }
        kernels += node->kind == GRAPH_KERNEL;
    }
    cr_expect_eq(kernels, layers * 2, "%zu kernels for %zu layers", kernels, layers);
    cr_expect_eq(next, layers * 2);
}

Test(rewrite_blocks, launches_waits_and_collectives_follow_their_layer)
{
    struct graph *recorded = make_step("bf16", true);
    for (uint32_t layers = 1; layers <= 5; layers++) {
        struct graph *rewritten = rewrite(recorded, 3, layers, 0);
        expect_whole(rewritten, layers);
        graph_destroy(rewritten);
    }
    graph_destroy(recorded);
}

static void expect_refused(const struct graph *graph, struct rewrite_blocks change, const char *says)
{
    struct graph *rewritten = NULL;
    struct sim_error error = { 0 };
    cr_expect_eq(rewrite_blocks(graph, &change, &rewritten, &error), SIM_BAD_ARGUMENT);
    cr_expect(strstr(error.text, says) != NULL, "'%s' does not say '%s'", error.text, says);
}

Test(rewrite_blocks, what_a_trace_does_not_hold_is_refused)
{
    struct graph *plain = make_step("bf16", false), *gathering = make_step("bf16", true), *dlrm = read_trace(TRACE("dlrm_small_w1_r0"));
    struct graph *again = rewrite(plain, 3, 3, 1);
    cr_expect_eq(kernels_of(again, "gemm", NULL), 6); /* a product whose result nothing keeps: nothing is computed again */
    expect_refused(plain, (struct rewrite_blocks){ 7, 3, 0 }, "repeats 7 times");
    expect_refused(dlrm, (struct rewrite_blocks){ 24, 12, 0 }, "repeats 24 times");
    expect_refused(gathering, (struct rewrite_blocks){ 3, 3, 1 }, "gathers again is not in a trace");
    graph_destroy(plain);
    graph_destroy(gathering);
    graph_destroy(dlrm);
    graph_destroy(again);
}

Test(rewrite_blocks, layers_computed_again_once_are_not_again)
{
    struct graph *described = describe("gpt13b", "batch=8", "checkpoint=1");
    expect_refused(described, (struct rewrite_blocks){ 24, 24, 0.5 }, "computed again already");
    graph_destroy(described);
}

Test(rewrite_blocks, products_of_fp32_run_in_tf32_and_back)
{
    struct graph *fp32 = make_step("fp32", false), *bf16 = make_step("bf16", false), *tf32 = NULL, *back = NULL, *none = NULL;
    struct sim_error error = { 0 };
    cr_assert_eq(rewrite_products(fp32, "tf32", &tf32, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(rewrite_products(tf32, "fp32", &back, &error), SIM_OK, "%s", error.text);
    for (size_t i = 0; i < fp32->node_count; i++) {
        if (fp32->nodes[i].kind == GRAPH_KERNEL) {
            cr_expect(strstr(tf32->nodes[i].params, "dtype=tf32") != NULL, "%s", tf32->nodes[i].params);
            cr_expect_str_eq(back->nodes[i].params, fp32->nodes[i].params);
        }
    }
    cr_expect_eq(rewrite_products(bf16, "tf32", &none, &error), SIM_BAD_ARGUMENT);
    cr_expect(strstr(error.text, "casts come or go") != NULL, "%s", error.text);
    graph_destroy(fp32);
    graph_destroy(bf16);
    graph_destroy(tf32);
    graph_destroy(back);
}
