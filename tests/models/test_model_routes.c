/* The graph of a description against that of a recorded step of the same model: the same kernels with the same parameters.
 * A library's own choices (tiles, splits of K and the reduction behind them) are not the model's to know. */
#include "sim/core/data_path.h"
#include "workloads/models/model.h"
#include "workloads/trace/kineto.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 700

struct kernels {
    char (*text)[TEXT];
    size_t count, operators, launches;
};

static void value_of(const char *params, const char *key, char *out, size_t capacity)
{
    size_t length = strlen(key);
    snprintf(out, capacity, "-");
    for (const char *at = params; at != NULL && *at != '\0'; at = strchr(at, ';') != NULL ? strchr(at, ';') + 1 : NULL) {
        if (strncmp(at, key, length) == 0 && at[length] == '=') {
            snprintf(out, capacity, "%.*s", (int)strcspn(at + length + 1, ";"), at + length + 1);
        }
    }
}

/* Products by their shape alone, the rest in full; what has no counterpart on the other route gives "". */
static void name_kernel(const struct graph_node *node, char out[TEXT])
{
    char m[32], n[32], k[32];
    const char *params = node->params != NULL ? node->params : "";
    out[0] = '\0';
    if (node->recognition != GRAPH_RECOGNISED || strstr(params, "dtype_in=fp32;dtype_out=bf16;cache") != NULL ||
        strcmp(node->suite, "optimizer") == 0 || strcmp(node->suite, "sort") == 0) {
        return; /* sorts (described by their bytes), reductions of split products, the cut tensor lists of a profiler */
    }
    if (strcmp(node->suite, "gemm") == 0) {
        value_of(params, "M", m, sizeof m);
        value_of(params, "N", n, sizeof n);
        value_of(params, "K", k, sizeof k);
        snprintf(out, TEXT, "gemm %sx%sx%s", m, n, k);
    } else {
        snprintf(out, TEXT, "%s/%s %s", node->suite, node->kernel, params);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static struct kernels kernels_of(const struct graph *graph)
{
    struct kernels kernels = { .text = calloc(graph->node_count + 1, TEXT) };
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        if (node->rank != 0) {
            continue;
        }
        kernels.operators += node->kind == GRAPH_HOST_OP;
        kernels.launches += node->kind == GRAPH_HOST_LAUNCH;
        if (node->kind == GRAPH_KERNEL) {
            name_kernel(node, kernels.text[kernels.count]);
            kernels.count += kernels.text[kernels.count][0] != '\0';
        }
    }
    qsort(kernels.text, kernels.count, TEXT, by_text);
    return kernels;
}

/* Kernels of one list that the other lacks, over both. */
static size_t differences(const struct kernels *a, const struct kernels *b)
{
    size_t i = 0, j = 0, count = 0;
    while (i < a->count || j < b->count) {
        int order = i == a->count ? 1 : j == b->count ? -1 : strcmp(a->text[i], b->text[j]);
        if (order == 0) {
            i++;
            j++;
        } else {
            fprintf(stderr, "%s only: %s\n", order < 0 ? "model" : "trace", order < 0 ? a->text[i] : b->text[j]);
            count++;
            i += order < 0;
            j += order > 0;
        }
    }
    return count;
}

static void compare(const char *name, const char *setting, const char *const *traces, size_t trace_count,
                    size_t differ_max)
{
    char path[DATA_PATH_CAPACITY];
    struct model *model = NULL;
    struct graph *described = NULL, *recorded = NULL;
    struct sim_error error = { 0 };
    struct trace_options options = { .step = -1 };
    cr_assert_eq(data_path_find("workloads/models", "model", name, path, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_read(path, &model, &error), SIM_OK, "%s", error.text);
    cr_assert(setting == NULL || model_set(model, setting, &error) == SIM_OK, "%s", error.text);
    cr_assert_eq(model_graph(model, &described, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(trace_read(traces, trace_count, &options, &recorded, &error), SIM_OK, "%s", error.text);
    struct kernels ours = kernels_of(described), theirs = kernels_of(recorded);
    cr_expect(ours.count > 150, "%zu kernels", ours.count);
    size_t differ = differences(&ours, &theirs);
    cr_expect(differ <= differ_max, "%s: %zu kernels differ", name, differ);
    double operators = (double)ours.operators / (double)theirs.operators;
    double launches = (double)ours.launches / (double)theirs.launches;
    cr_expect(operators > 0.97 && operators < 1.03, "%s: %zu operators, recorded %zu", name, ours.operators,
              theirs.operators);
    cr_expect(launches > 0.95 && launches < 1.03, "%s: %zu launches, recorded %zu", name, ours.launches, theirs.launches);
    free(ours.text);
    free(theirs.text);
    graph_destroy(described);
    graph_destroy(recorded);
    model_destroy(model);
}

#define FIXTURE(name) SOURCE_DIR "/tests/fixtures/traces/" name ".kineto.json.gz"
#define MEASURED(name) SOURCE_DIR "/calib/data/h200/traces/" name ".kineto.json.gz"

Test(model_routes, dlrm_small)
{
    static const char *const traces[] = { FIXTURE("dlrm_small_w1_r0") };
    compare("dlrm_small", NULL, traces, 1, 2); /* strides of one sum */
}

Test(model_routes, dlrm_dcnv2)
{
    static const char *const traces[] = { FIXTURE("dlrm_dcnv2_w1_r0") };
    compare("dlrm_dcnv2", NULL, traces, 1, 0);
}

Test(model_routes, dlrm_dcnv2_on_two)
{
    static const char *const traces[] = { FIXTURE("dlrm_dcnv2_B8192_w2_r0"), FIXTURE("dlrm_dcnv2_B8192_w2_r1") };
    compare("dlrm_dcnv2", "gpus=2", traces, 2, 0);
}

Test(model_routes, hstu)
{
    static const char *const traces[] = { MEASURED("hstu_w1_r0") };
    compare("hstu", NULL, traces, 1, 0);
}

Test(model_routes, gpt13b)
{
    static const char *const traces[] = { MEASURED("gpt13b_B8_ac0_w1_r0") };
    compare("gpt13b", NULL, traces, 1, 2); /* tile states of its scans */
}
