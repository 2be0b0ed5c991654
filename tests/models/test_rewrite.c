/* A recorded step at another batch against the description of the same model at that batch: kernel for kernel. */
#include "sim/core/data_path.h"
#include "tests/models/same_kernels.h"
#include "workloads/models/model.h"
#include "workloads/rewrite.h"
#include "workloads/trace/kineto.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIXTURE(name) SOURCE_DIR "/tests/fixtures/traces/" name ".kineto.json.gz"

static struct graph *read_traces(const char *const *paths, size_t count)
{
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    struct trace_options options = { .step = -1 };
    cr_assert_eq(trace_read(paths, count, &options, &graph, &error), SIM_OK, "%s", error.text);
    return graph;
}

static struct graph *read_trace(const char *path)
{
    return read_traces(&path, 1);
}

static struct graph *describe(const char *name, const char *setting)
{
    char path[DATA_PATH_CAPACITY];
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    cr_assert_eq(data_path_find("workloads/models", "model", name, path, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_read(path, &model, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_set(model, setting, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_graph(model, &graph, &error), SIM_OK, "%s", error.text);
    model_destroy(model);
    return graph;
}

static void compare(const char *trace, const char *name, double to, size_t differ_max)
{
    char setting[40];
    struct graph *recorded = read_trace(trace), *rewritten = NULL;
    struct sim_error error = { 0 };
    struct rewrite_batch change = { .from = 8192, .to = to };
    snprintf(setting, sizeof setting, "batch=%.0f", to);
    struct graph *described = describe(name, setting);
    cr_assert_eq(rewrite_batch(recorded, &change, &rewritten, &error), SIM_OK, "%s", error.text);
    size_t compared = 0, differ = 0;
    for (size_t i = 0; i < rewritten->node_count; i++) {
        const struct graph_node *node = &rewritten->nodes[i];
        if (node->kind != GRAPH_KERNEL || node->params == NULL || strcmp(node->suite, "gemm") == 0 ||
            strcmp(node->suite, "memory") == 0 || strcmp(node->suite, "sort") == 0) {
            continue; /* products by their library's choices, fills of a library's counters, sorts (described by their bytes) */
        }
        compared++;
        if (count_of(described, node) == 0) {
            fprintf(stderr, "%s at %.0f: not described: %s/%s %s\n", name, to, node->suite, node->kernel, node->params);
            differ++;
        }
    }
    cr_expect(compared > 130, "%zu kernels compared", compared);
    cr_expect(differ <= differ_max, "%zu kernels differ", differ);
    cr_expect_eq(rewritten->batch, to);
    cr_expect_str_empty(rewritten->device_title, "nothing of it was timed on the recorded device");
    graph_destroy(recorded);
    graph_destroy(rewritten);
    graph_destroy(described);
}

Test(rewrite, a_larger_batch_gives_the_kernels_of_a_larger_batch)
{
    compare(FIXTURE("dlrm_small_w1_r0"), "dlrm_small", 65536, 1);
    compare(FIXTURE("dlrm_dcnv2_w1_r0"), "dlrm_dcnv2", 32768, 0);
}

Test(rewrite, a_smaller_batch_gives_the_kernels_of_a_smaller_batch)
{
    compare(FIXTURE("dlrm_small_w1_r0"), "dlrm_small", 512, 1);
    compare(FIXTURE("dlrm_dcnv2_w1_r0"), "dlrm_dcnv2", 1024, 0);
}

static void expect_refused(const char *trace, double from, double to, const struct rewrite_dim *dims, size_t dim_count,
                           const char *says)
{
    struct graph *recorded = read_trace(trace), *rewritten = NULL;
    struct sim_error error = { 0 };
    struct rewrite_batch change = { .from = from, .to = to, .dims = dims, .dim_count = dim_count };
    cr_expect_eq(rewrite_batch(recorded, &change, &rewritten, &error), SIM_BAD_ARGUMENT);
    cr_expect(strstr(error.text, says) != NULL, "'%s' does not say '%s'", error.text, says);
    graph_destroy(recorded);
    graph_destroy(rewritten);
}

/* hstu was recorded at batch 32, and every width of it is a multiple of 32. */
Test(rewrite, a_dimension_in_doubt_is_asked_for)
{
    static const char trace[] = SOURCE_DIR "/calib/data/h200/traces/hstu_w1_r0.kineto.json.gz";
    expect_refused(trace, 32, 64, NULL, 0, "=batch or --set dim");
}

Test(rewrite, what_cannot_be_is_said)
{
    expect_refused(FIXTURE("dlrm_small_w1_r0"), 0, 64, NULL, 0, "--batch");
    expect_refused(FIXTURE("dlrm_small_w1_r0"), 7777, 64, NULL, 0, "was it recorded at that batch");
}

/* Tensors [32, 1024, 512] and the like: with each answer given, the sequence stays and the batch doubles. */
Test(rewrite, answers_settle_what_is_in_doubt)
{
    static const char trace[] = SOURCE_DIR "/calib/data/h200/traces/hstu_w1_r0.kineto.json.gz";
    static const struct rewrite_dim dims[] = { { 10000000, false }, { 512, false }, { 2048, false }, { 128, false },
                                               { 1024, false },     { 64, false },  { 1048576, false }, { 65536, false },
                                               { 262144, false } };
    struct graph *recorded = read_trace(trace), *rewritten = NULL;
    struct sim_error error = { 0 };
    struct rewrite_batch change = { .from = 32, .to = 64, .dims = dims, .dim_count = sizeof dims / sizeof dims[0] };
    cr_assert_eq(rewrite_batch(recorded, &change, &rewritten, &error), SIM_OK, "%s", error.text);
    size_t doubled = 0;
    for (size_t i = 0; i < rewritten->node_count; i++) {
        const char *params = rewritten->nodes[i].params;
        doubled += params != NULL && strstr(params, "b=64;h=8;s=1024;d=64") != NULL;
    }
    cr_expect_eq(doubled, 8 * 4, "%zu attention kernels of 8 layers at batch 64 (one forward, three backward)", doubled);
    graph_destroy(recorded);
    graph_destroy(rewritten);
}

/* Sequences of 1,024 halved, against the description at 512: attention and what is done for each position. The width of 2,048 is
 * answered for. */
Test(rewrite, another_sequence_gives_the_kernels_of_that_sequence)
{
    static const struct rewrite_dim dims[] = { { 2048, false }, { 10000000, false } };
    struct graph *recorded = read_trace(SOURCE_DIR "/calib/data/h200/traces/hstu_w1_r0.kineto.json.gz"), *rewritten = NULL;
    struct graph *described = describe("hstu", "sequence=512");
    struct rewrite_batch change = { .positions = true, .from = 1024, .to = 512, .dims = dims, .dim_count = 2 };
    struct sim_error error = { 0 };
    cr_assert_eq(rewrite_batch(recorded, &change, &rewritten, &error), SIM_OK, "%s", error.text);
    size_t compared = 0, differ = 0;
    for (size_t i = 0; i < rewritten->node_count; i++) {
        const struct graph_node *node = &rewritten->nodes[i];
        if (node->kind != GRAPH_KERNEL || node->params == NULL || strcmp(node->suite, "gemm") == 0 ||
            strcmp(node->suite, "memory") == 0) {
            continue;
        }
        compared++;
        if (count_of(described, node) == 0) {
            fprintf(stderr, "hstu at 512: not described: %s/%s %s\n", node->suite, node->kernel, node->params);
            differ++;
        }
    }
    cr_expect(compared > 200, "%zu kernels compared", compared);
    cr_expect(differ <= 8, "%zu of %zu kernels differ", differ, compared);
    graph_destroy(recorded);
    graph_destroy(rewritten);
    graph_destroy(described);
}

/* The collectives of two GPUs become those of sixteen, of the same bytes a GPU; kernels stay. */
Test(rewrite, other_gpus_are_the_same_step_with_wider_collectives)
{
    static const char *const ranks[] = { SOURCE_DIR "/calib/data/h200/traces/dlrm_dcnv2_B8192_w2_r0.kineto.json.gz",
                                         SOURCE_DIR "/calib/data/h200/traces/dlrm_dcnv2_B8192_w2_r1.kineto.json.gz" };
    struct graph *recorded = read_traces(ranks, 2), *rewritten = NULL;
    struct sim_error error = { 0 };
    cr_assert_eq(rewrite_gpus(recorded, 16, &rewritten, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(rewritten->node_count, recorded->node_count);
    cr_expect_eq(rewritten->world_size, 16);
    size_t collectives = 0;
    for (size_t i = 0; i < recorded->node_count; i++) {
        const struct graph_node *before = &recorded->nodes[i], *after = &rewritten->nodes[i];
        if (before->kind == GRAPH_COLLECTIVE) {
            collectives++;
            cr_expect_eq(after->collective->group_size, 16);
            cr_expect_eq(after->collective->bytes, before->collective->bytes);
        } else if (before->params != NULL) {
            cr_expect_str_eq(after->params, before->params);
        }
    }
    cr_expect(collectives > 4, "%zu collectives", collectives);
    graph_destroy(recorded);
    graph_destroy(rewritten);
}

Test(rewrite, gpus_that_a_trace_cannot_tell_of_are_refused)
{
    struct graph *recorded = read_trace(FIXTURE("dlrm_small_w1_r0")), *rewritten = NULL;
    struct sim_error error = { 0 };
    cr_expect_eq(rewrite_gpus(recorded, 8, &rewritten, &error), SIM_BAD_ARGUMENT);
    cr_expect(strstr(error.text, "recorded on one GPU") != NULL, "%s", error.text);
    graph_destroy(recorded);
}
