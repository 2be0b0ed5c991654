/* A whole step, kernels and collectives of two ranks, with either flow engine: the same step to 1e-9. */
#include "sim/reckon.h"
#include "workloads/graph.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint32_t launch(struct graph *graph, uint32_t rank, uint32_t stream, uint32_t kind)
{
    struct graph_node call = { .kind = GRAPH_HOST_LAUNCH,
                               .rank = rank,
                               .launched = (uint32_t)graph->node_count + 1,
                               .waits_for = UINT32_MAX,
                               .name = "launch",
                               .category = "other",
                               .traced_us = 0,
                               .traced_start_us = -1 };
    graph_add(graph, &call);
    struct graph_node node = call;
    node.kind = kind;
    node.stream = stream;
    node.launched = UINT32_MAX;
    node.name = kind == GRAPH_KERNEL ? "add" : "collective";
    return graph_add(graph, &node);
}

static void add_kernel(struct graph *graph, uint32_t rank)
{
    uint32_t index = launch(graph, rank, 0, GRAPH_KERNEL); /* may move the nodes */
    struct graph_node *node = &graph->nodes[index];
    strcpy(node->suite, "pointwise");
    strcpy(node->kernel, "add");
    node->params = "n=1000000;dtype=fp32";
    strcpy(node->dtype, "fp32");
}

static void add_collective(struct graph *graph, uint32_t rank, const char *kind, double bytes,
                           uint64_t sequence, const double *splits)
{
    uint32_t index = launch(graph, rank, 1, GRAPH_COLLECTIVE);
    struct graph_collective *collective = graph_add_collective(graph);
    snprintf(collective->kind, sizeof collective->kind, "%s", kind);
    strcpy(collective->group, "world");
    collective->bytes = bytes;
    collective->group_size = 2;
    collective->sequence = sequence;
    collective->split_bytes_to = splits;
    graph->nodes[index].collective = collective;
}

/* uneven: rank 0 sends 6 MiB to rank 1 and keeps 2, rank 1 the halves of 8. */
static struct graph *step_graph(bool uneven)
{
    static const double splits[2][2] = { { 2 << 20, 6 << 20 }, { 4 << 20, 4 << 20 } };
    struct graph *graph = graph_create("two ranks");
    graph->rank_count = graph->world_size = 2;
    for (uint32_t rank = 0; rank < 2; rank++) {
        add_kernel(graph, rank);
        add_collective(graph, rank, "all_to_all", 8 << 20, 0, uneven ? splits[rank] : NULL);
        add_kernel(graph, rank);
        add_collective(graph, rank, "all_reduce", 3 << 20, 1, NULL);
    }
    return graph;
}

static double step_ms(bool simgrid, bool uneven)
{
    struct reckon_options options = { .jobs = 1, .seed = 1, .fabric_simgrid = simgrid };
    struct reckon *reckon;
    struct reckon_device *device;
    struct reckon_prediction *prediction = NULL;
    struct sim_error error = { 0 };
    cr_assert(reckon_create(&options, &reckon, &error) == SIM_OK, "%s", error.text);
    cr_assert(reckon_device_open(reckon, "h200", "h200x2", &device, &error) == SIM_OK, "%s", error.text);
    struct graph *graph = step_graph(uneven);
    cr_assert(graph_check(graph, &error) == SIM_OK, "%s", error.text);
    struct reckon_predict_request request = { .graph = graph };
    enum sim_status status = reckon_predict(reckon, device, &request, &prediction, &error);
    cr_assert(status == SIM_OK, "%s", error.text);
    double ms = prediction->step_ms;
    reckon_prediction_free(prediction);
    reckon_graph_free(graph);
    reckon_device_close(device);
    reckon_destroy(reckon);
    return ms;
}

Test(step_engines, a_whole_step_is_the_same_with_either_engine)
{
    for (int uneven = 0; uneven < 2; uneven++) {
        double fluid = step_ms(false, uneven), simgrid = step_ms(true, uneven);
        cr_expect(fluid > 0 && fabs(simgrid / fluid - 1) < 1e-9, "fluid %.12g, simgrid %.12g ms", fluid,
                  simgrid);
    }
}

/* 6 MiB instead of 4 go over the link one way: the step is longer. */
Test(step_engines, uneven_splits_are_priced)
{
    double even = step_ms(false, false), uneven = step_ms(false, true);
    cr_expect(uneven > even, "%.12g and %.12g ms", even, uneven);
}
