#include "workloads/rewrite_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSORS_MAX 64
#define DIMS_MAX 8
#define PARAMS_CAPACITY 2048
#define WIDTHS_MAX 4096

struct shape {
    double dims[DIMS_MAX];
    size_t count;
};

struct rewriting {
    const struct graph *graph;
    const struct rewrite_batch *change;
    struct sim_error *error;
    enum sim_status status;
    double widths[WIDTHS_MAX]; /* dimensions of the parameters' gradients */
    size_t width_count;
    size_t changed, kept, by_rule;
};

/* ---- shapes ---------------------------------------------------------------------------------------------------- */

/* The innermost lists of numbers in "[[8192,128],[],[[4,2],[4]]]". */
static size_t shapes_parse(const char *text, struct shape *shapes)
{
    size_t count = 0;
    for (const char *at = text; at != NULL && *at != '\0' && count < TENSORS_MAX;) {
        char *end = NULL;
        if (*at != '[' || at[1] < '0' || at[1] > '9') {
            at++;
            continue;
        }
        struct shape *shape = &shapes[count++];
        shape->count = 0;
        for (at++; *at >= '0' && *at <= '9';) {
            double value = strtod(at, &end);
            if (shape->count < DIMS_MAX) {
                shape->dims[shape->count++] = value;
            }
            at = end + (*end == ',' ? 1 : 0);
        }
    }
    return count;
}

static bool is_multiple(double value, double batch)
{
    return value >= batch && fmod(value, batch) == 0;
}

static bool is_width(const struct rewriting *w, double value)
{
    for (size_t i = 0; i < w->width_count; i++) {
        if (w->widths[i] == value) {
            return true;
        }
    }
    return false;
}

static const struct rewrite_dim *answer_for(const struct rewriting *w, double value)
{
    for (size_t i = 0; i < w->change->dim_count; i++) {
        if (w->change->dims[i].value == value) {
            return &w->change->dims[i];
        }
    }
    return NULL;
}

static bool is_batch(const struct rewriting *w, double value)
{
    const struct rewrite_dim *answer = answer_for(w, value);
    return answer != NULL ? answer->is_batch : is_multiple(value, w->change->from);
}

/* Dimensions of dense parameters, from the gradients that are accumulated. */
static void collect_widths(struct rewriting *w)
{
    struct shape shapes[TENSORS_MAX];
    for (size_t i = 0; i < w->graph->node_count; i++) {
        const struct graph_node *node = &w->graph->nodes[i];
        if (node->kind != GRAPH_HOST_OP || node->name == NULL || strstr(node->name, "AccumulateGrad") == NULL ||
            node->shapes == NULL) {
            continue;
        }
        size_t count = shapes_parse(node->shapes, shapes);
        for (size_t s = 0; s < count; s++) {
            for (size_t d = 0; d < shapes[s].count; d++) {
                if (!is_width(w, shapes[s].dims[d]) && w->width_count < WIDTHS_MAX) {
                    w->widths[w->width_count++] = shapes[s].dims[d];
                }
            }
        }
    }
}

static const char *what(const struct rewriting *w)
{
    return w->change->positions ? "sequence" : "batch";
}

static void ask_for(struct rewriting *w, const struct graph_node *node, double value, const char *why)
{
    if (w->status == SIM_OK) {
        w->status = sim_fail(w->error, SIM_BAD_ARGUMENT,
                             "%s: dimension %.0f of %.80s %s: it is %g times the %s of %.0f or a width of the model; say "
                             "--set dim%.0f=%s or --set dim%.0f=fixed",
                             w->graph->source, value, node->operator_name != NULL ? node->operator_name : node->name,
                             why, value / w->change->from, what(w), w->change->from, value, what(w), value);
    }
}

/* Every dimension of a kernel's operator is the batch or is not, beyond doubt. */
static void check_dims(struct rewriting *w, const struct graph_node *node, const struct shape *shapes, size_t count)
{
    for (size_t s = 0; s < count; s++) {
        size_t found = 0;
        for (size_t d = 0; d < shapes[s].count; d++) {
            double value = shapes[s].dims[d];
            bool candidate = is_batch(w, value);
            if (candidate && answer_for(w, value) == NULL && is_width(w, value)) {
                ask_for(w, node, value, "is in doubt");
            }
            found += candidate;
        }
        for (size_t d = 0; found > 1 && d < shapes[s].count; d++) {
            double value = shapes[s].dims[d];
            if (is_batch(w, value) && answer_for(w, value) == NULL && value != w->change->from) {
                ask_for(w, node, value, "stands beside another of its kind");
            }
        }
    }
}

/* ---- sizes ----------------------------------------------------------------------------------------------------- */

/* Parameters that say how much there is; the others say how it is done. */
static bool is_size(const char *key, size_t length)
{
    static const char *const sizes[] = { "n", "M", "N", "K", "B", "b", "batch", "rows", "cols", "inner", "outer", "elements",
                                         "grid", "bytes", "s", NULL };
    for (size_t i = 0; sizes[i] != NULL; i++) {
        if (strlen(sizes[i]) == length && strncmp(key, sizes[i], length) == 0) {
            return true;
        }
    }
    return false;
}

static double product_of(const struct shape *shape)
{
    double product = 1;
    for (size_t d = 0; d < shape->count; d++) {
        product *= shape->dims[d];
    }
    return product;
}

static size_t batch_dims(const struct rewriting *w, const struct shape *shape)
{
    size_t count = 0;
    for (size_t d = 0; d < shape->count; d++) {
        count += is_batch(w, shape->dims[d]);
    }
    return count;
}

enum origin { ORIGIN_NONE, ORIGIN_FIXED, ORIGIN_BATCH, ORIGIN_RULE };

/* What a size stands for: a dimension, a tensor's elements (or bytes), the result of a product of two matrices, leading or
 * trailing dimensions together. */
static enum origin origin_of(const struct rewriting *w, double value, const struct shape *shapes, size_t count)
{
    enum origin origin = ORIGIN_NONE;
    size_t with_batch = 0;
    for (size_t s = 0; s < count; s++) {
        double leading = 1, all = product_of(&shapes[s]);
        bool leading_batch = false;
        with_batch += batch_dims(w, &shapes[s]);
        for (size_t d = 0; d < shapes[s].count; d++) {
            bool batch = is_batch(w, shapes[s].dims[d]);
            leading *= shapes[s].dims[d];
            leading_batch = leading_batch || batch;
            if (shapes[s].dims[d] == value) {
                return batch ? ORIGIN_BATCH : ORIGIN_FIXED;
            }
            if (leading == value) {
                origin = leading_batch ? ORIGIN_BATCH : ORIGIN_FIXED;
            } else if (all / leading == value && d + 1 < shapes[s].count) {
                struct shape rest = { .count = 0 };
                for (size_t k = d + 1; k < shapes[s].count; k++) {
                    rest.dims[rest.count++] = shapes[s].dims[k];
                }
                origin = batch_dims(w, &rest) > 0 ? ORIGIN_BATCH : ORIGIN_FIXED;
            }
        }
        for (double bytes = 2; bytes <= 8; bytes *= 2) {
            if (origin == ORIGIN_NONE && all * bytes == value) {
                origin = batch_dims(w, &shapes[s]) > 0 ? ORIGIN_BATCH : ORIGIN_FIXED;
            }
        }
    }
    for (size_t a = 0; a < count && origin == ORIGIN_NONE; a++) {
        for (size_t b = 0; b < count; b++) {
            if (shapes[a].count == 2 && shapes[b].count == 2 && shapes[a].dims[1] == shapes[b].dims[0] &&
                shapes[a].dims[0] * shapes[b].dims[1] == value) {
                bool batch = is_batch(w, shapes[a].dims[0]) || is_batch(w, shapes[b].dims[1]);
                origin = batch ? ORIGIN_BATCH : ORIGIN_FIXED;
            }
        }
    }
    if (origin == ORIGIN_NONE && is_multiple(value, w->change->from) && with_batch > 0) {
        return ORIGIN_RULE; /* counted in examples by the launch: workgroups, picked elements */
    }
    return origin;
}

static double scaled(struct rewriting *w, const struct graph_node *node, double value)
{
    double to = value * w->change->to / w->change->from;
    if (to != floor(to) && w->status == SIM_OK) {
        w->status = sim_fail(w->error, SIM_BAD_ARGUMENT, "%s: %.0f of %.80s would be %g at %s %g: choose one that keeps it "
                                                         "whole",
                             w->graph->source, value, node->name, to, what(w), w->change->to);
    }
    return to;
}

static const char *rewrite_params(struct rewriting *w, const struct graph_node *node, const struct shape *shapes,
                                  size_t count, struct graph *to, bool *changed)
{
    char text[PARAMS_CAPACITY];
    size_t used = 0;
    for (const char *at = node->params; *at != '\0';) {
        size_t length = strcspn(at, ";"), key = strcspn(at, "=");
        char *end = NULL;
        double value = key < length ? strtod(at + key + 1, &end) : 0;
        bool whole = key < length && end == at + length;
        enum origin origin = whole && is_size(at, key) ? origin_of(w, value, shapes, count) : ORIGIN_NONE;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", used > 0 ? ";" : "");
        if (origin == ORIGIN_BATCH || origin == ORIGIN_RULE) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%.*s=%.0f", (int)key, at,
                                     scaled(w, node, value));
            w->by_rule += origin == ORIGIN_RULE;
            *changed = true;
        } else {
            used += (size_t)snprintf(text + used, sizeof text - used, "%.*s", (int)length, at);
        }
        SIM_ASSERT(used < sizeof text, "parameters of %s too long", node->name);
        at += length + (at[length] == ';' ? 1 : 0);
    }
    return graph_intern(to, text);
}

/* ---- the graph ------------------------------------------------------------------------------------------------- */

/* The reduction behind a split product belongs to the library's choice, which is made anew. */
static bool is_split_reduction(const struct graph_node *node)
{
    return node->kind == GRAPH_KERNEL && node->category != NULL && strcmp(node->category, "gemm") == 0 &&
           strcmp(node->suite, "reduction") == 0;
}

static void change_kernel(struct rewriting *w, struct graph_node *node, struct graph *to)
{
    struct shape shapes[TENSORS_MAX];
    size_t count = shapes_parse(node->shapes, shapes), with_batch = 0;
    bool changed = false;
    check_dims(w, node, shapes, count);
    for (size_t s = 0; s < count; s++) {
        with_batch += batch_dims(w, &shapes[s]) > 0;
    }
    if (node->params != NULL && with_batch > 0) {
        node->params = rewrite_params(w, node, shapes, count, to, &changed);
    } else if (node->params != NULL) {
        node->params = graph_intern(to, node->params);
    }
    if (with_batch > 0 && node->recognition != GRAPH_RECOGNISED) {
        double ratio = w->change->to / w->change->from;
        node->bytes_read *= ratio;
        node->bytes_written *= ratio;
        node->flops *= ratio;
        changed = true;
    }
    w->changed += changed;
    w->kept += !changed;
    node->traced_us = 0;
}

/* Gradients do not grow with the batch, what is exchanged for examples does. */
static void change_collective(struct rewriting *w, struct graph_node *node, struct graph *to)
{
    struct graph_collective *collective = graph_add_collective(to);
    *collective = *node->collective;
    bool examples = strcmp(collective->kind, "all_to_all") == 0 || strcmp(collective->kind, "send_recv") == 0;
    double ratio = examples ? w->change->to / w->change->from : 1;
    collective->bytes *= ratio;
    collective->split_bytes_to = NULL;
    node->collective = collective;
    node->traced_us = 0;
    w->changed += examples;
    w->kept += !examples;
}

void rewrite_copy_texts(struct graph_node *node, struct graph *to)
{
    node->name = graph_intern(to, node->name);
    node->operator_name = graph_intern(to, node->operator_name);
    node->category = graph_intern(to, node->category);
    node->shapes = graph_intern(to, node->shapes);
}

/* New index of each node; NONE for those that go: split reductions and their launches. */
static uint32_t *number_nodes(const struct graph *graph)
{
    uint32_t *to = malloc((graph->node_count + 1) * sizeof *to), next = 0;
    bool *gone = calloc(graph->node_count + 1, sizeof *gone);
    SIM_ASSERT(to != NULL && gone != NULL, "out of memory");
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        if (node->kind == GRAPH_HOST_LAUNCH && node->launched_count <= 1 &&
            is_split_reduction(&graph->nodes[node->launched])) {
            gone[i] = gone[node->launched] = true;
        }
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        to[i] = gone[i] ? UINT32_MAX : next++;
    }
    free(gone);
    return to;
}

static void copy_nodes(struct rewriting *w, struct graph *to)
{
    uint32_t *number = number_nodes(w->graph);
    for (size_t i = 0; i < w->graph->node_count && w->status == SIM_OK; i++) {
        struct graph_node node = w->graph->nodes[i];
        if (number[i] == UINT32_MAX) {
            continue;
        }
        rewrite_copy_texts(&node, to);
        if (node.kind == GRAPH_KERNEL) {
            change_kernel(w, &node, to);
        } else if (node.kind == GRAPH_COLLECTIVE) {
            change_collective(w, &node, to);
        }
        if (node.launched != UINT32_MAX) {
            node.launched = number[node.launched];
        }
        bool names_node = node.kind == GRAPH_EVENT_WAIT || (node.kind == GRAPH_HOST_SYNC && node.sync == GRAPH_SYNC_EVENT);
        if (names_node && node.waits_for != UINT32_MAX) {
            node.waits_for = number[node.waits_for];
        }
        graph_add(to, &node);
    }
    free(number);
}

struct graph *rewrite_begin(const struct graph *graph)
{
    struct graph *to = graph_create(graph->source);
    graph_add_ranks(to, graph->rank_count);
    for (uint32_t r = 0; r < graph->rank_count && graph->ranks != NULL; r++) {
        to->ranks[r] = graph->ranks[r];
    }
    to->world_size = graph->world_size;
    to->ranks_stand_for_all = graph->ranks_stand_for_all;
    to->steps_in_trace = graph->steps_in_trace;
    to->ideal_issue = graph->ideal_issue;
    to->traced_step_us = graph->traced_step_us;
    for (size_t i = 0; i < graph->note_count; i++) {
        graph_note(to, "%s", graph->notes[i]);
    }
    return to;
}

enum sim_status rewrite_finish(struct graph *to, enum sim_status status, struct graph **out, struct sim_error *error)
{
    if (status == SIM_OK) {
        status = graph_check(to, error);
    }
    if (status != SIM_OK) {
        graph_destroy(to);
        return status;
    }
    *out = to;
    return SIM_OK;
}

static enum sim_status check_change(const struct graph *graph, const struct rewrite_batch *change,
                                    struct sim_error *error)
{
    struct shape shapes[TENSORS_MAX];
    if (!(change->from >= 1)) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: a trace does not know its %s", graph->source,
                        change->positions ? "sequences: say sequence=RECORDED:NEW" : "batch: say --batch (recorded, examples a GPU)");
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        size_t count = shapes_parse(graph->nodes[i].shapes, shapes);
        for (size_t s = 0; s < count; s++) {
            for (size_t d = 0; d < shapes[s].count; d++) {
                if (shapes[s].dims[d] == change->from) {
                    return SIM_OK;
                }
            }
        }
    }
    return sim_fail(error, SIM_BAD_ARGUMENT, "%s: no operator has a dimension of %.0f: was it recorded at that %s?",
                    graph->source, change->from, change->positions ? "sequence" : "batch");
}

enum sim_status rewrite_batch(const struct graph *graph, const struct rewrite_batch *change, struct graph **out,
                              struct sim_error *error)
{
    *out = NULL;
    enum sim_status status = check_change(graph, change, error);
    if (status != SIM_OK) {
        return status;
    }
    struct rewriting *w = calloc(1, sizeof *w);
    SIM_ASSERT(w != NULL, "out of memory");
    w->graph = graph;
    w->change = change;
    w->error = error;
    collect_widths(w);
    struct graph *to = rewrite_begin(graph);
    to->batch = change->positions ? graph->batch : change->to;
    copy_nodes(w, to);
    graph_note(to, "%s %.0f rewritten to %.0f by shape algebra: %zu kernels and collectives changed, %zu do not depend on it%s",
               what(w), change->from, change->to, w->changed, w->kept,
               w->by_rule > 0 ? "; some sizes that no shape shows are taken in proportion" : "");
    status = w->status;
    free(w);
    return rewrite_finish(to, status, out, error);
}

/* ---- GPUs ------------------------------------------------------------------------------------------------------ */

static enum sim_status check_gpus(const struct graph *graph, uint32_t gpus, struct sim_error *error)
{
    if (graph->world_size < 2) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "%s: recorded on one GPU, so what several would exchange is not in it: describe the model (workloads/models)",
                        graph->source);
    }
    if (gpus < 2) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: gpus=%u of a run of %u: must be 2 or more", graph->source, gpus,
                        graph->world_size);
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_collective *collective = graph->nodes[i].collective;
        if (graph->nodes[i].kind != GRAPH_COLLECTIVE || collective == NULL) {
            continue;
        }
        if (collective->group_size != graph->world_size) {
            return sim_fail(error, SIM_BAD_ARGUMENT,
                            "%s: %.60s is among %u of %u ranks, and how such a group would grow is not in a trace: describe the model",
                            graph->source, graph->nodes[i].name, collective->group_size, graph->world_size);
        }
        if (strcmp(collective->kind, "all_gather") == 0 || strcmp(collective->kind, "reduce_scatter") == 0) {
            return sim_fail(error, SIM_BAD_ARGUMENT,
                            "%s: %.60s may move parameters, whose size stays, or rows, whose number grows with the GPUs: describe the "
                            "model", graph->source, graph->nodes[i].name);
        }
    }
    return SIM_OK;
}

enum sim_status rewrite_gpus(const struct graph *graph, uint32_t gpus, struct graph **out, struct sim_error *error)
{
    *out = NULL;
    enum sim_status status = check_gpus(graph, gpus, error);
    if (status != SIM_OK) {
        return status;
    }
    struct graph *to = rewrite_begin(graph);
    bool dealt = false;
    to->world_size = gpus;
    to->ranks_stand_for_all = true;
    to->batch = graph->batch;
    for (size_t i = 0; i < graph->node_count; i++) {
        struct graph_node node = graph->nodes[i];
        rewrite_copy_texts(&node, to);
        node.params = node.params != NULL ? graph_intern(to, node.params) : NULL;
        node.traced_us = 0;
        if (node.kind == GRAPH_COLLECTIVE && node.collective != NULL) {
            struct graph_collective *collective = graph_add_collective(to);
            *collective = *node.collective;
            collective->group_size = gpus;
            collective->split_bytes_to = NULL;
            node.collective = collective;
            dealt = dealt || strcmp(collective->kind, "all_to_all") == 0;
        }
        graph_add(to, &node);
    }
    graph_note(to, "%u GPUs rewritten to %u at the same batch a GPU%s", graph->world_size, gpus,
               dealt ? "; tables are taken as dealt out evenly, each GPU looking up as much as before" : "");
    return rewrite_finish(to, SIM_OK, out, error);
}

/* ---- precision of products ------------------------------------------------------------------------------------- */

/* `params` with dtype=`to` in place of dtype=`from`; NULL: it says another. */
static const char *with_dtype(struct graph *graph, const char *params, const char *from, const char *to)
{
    char key[24], text[PARAMS_CAPACITY];
    snprintf(key, sizeof key, "dtype=%s", from);
    const char *at = strstr(params, key);
    bool whole = at != NULL && (at == params || at[-1] == ';') && (at[strlen(key)] == ';' || at[strlen(key)] == '\0');
    if (!whole) {
        return NULL;
    }
    int length = snprintf(text, sizeof text, "%.*sdtype=%s%s", (int)(at - params), params, to, at + strlen(key));
    SIM_ASSERT(length < (int)sizeof text, "parameters of a product too long");
    return graph_intern(graph, text);
}

enum sim_status rewrite_products(const struct graph *graph, const char *dtype, struct graph **out, struct sim_error *error)
{
    const char *from = strcmp(dtype, "tf32") == 0 ? "fp32" : "tf32";
    size_t changed = 0, products = 0;
    const char *other = NULL;
    *out = NULL;
    struct graph *to = rewrite_begin(graph);
    to->batch = graph->batch;
    for (size_t i = 0; i < graph->node_count; i++) {
        struct graph_node node = graph->nodes[i];
        rewrite_copy_texts(&node, to);
        node.traced_us = 0;
        const char *changed_params = NULL;
        if (node.kind == GRAPH_KERNEL && node.params != NULL && strcmp(node.suite, "gemm") == 0) {
            changed_params = with_dtype(to, node.params, from, dtype);
            products++;
            other = changed_params == NULL ? node.params : other;
        }
        if (changed_params != NULL) {
            snprintf(node.dtype, sizeof node.dtype, "%s", dtype);
            changed++;
        }
        node.params = changed_params != NULL ? changed_params : node.params != NULL ? graph_intern(to, node.params) : NULL;
        if (node.collective != NULL) {
            struct graph_collective *collective = graph_add_collective(to);
            *collective = *node.collective;
            collective->split_bytes_to = NULL;
            node.collective = collective;
        }
        graph_add(to, &node);
    }
    if (changed == 0) {
        const char *found = other != NULL ? strstr(other, "dtype=") : NULL;
        graph_destroy(to);
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "%s: none of its %zu products is in %s (%.12s): between %s and others casts come or go too, which are not in a trace: "
                        "describe the model (workloads/models)",
                        graph->source, products, from, found != NULL ? found : "no dtype", dtype);
    }
    graph_note(to, "%zu products of %s run in %s; operands and results stay fp32 in memory", changed, from, dtype);
    return rewrite_finish(to, SIM_OK, out, error);
}
