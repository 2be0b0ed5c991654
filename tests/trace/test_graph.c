/* The laws of a graph: what graph_check lets pass and what it names. */
#include "workloads/graph.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

static struct graph_node host(enum graph_node_kind kind, const char *name)
{
    return (struct graph_node){ .kind = kind, .name = name, .launched = UINT32_MAX, .waits_for = UINT32_MAX };
}

static uint32_t add_kernel(struct graph *graph, uint32_t rank, uint32_t stream, const char *name)
{
    struct graph_node launch = host(GRAPH_HOST_LAUNCH, "launch");
    launch.rank = rank;
    launch.launched = (uint32_t)graph->node_count + 1;
    graph_add(graph, &launch);
    struct graph_node kernel = host(GRAPH_KERNEL, name);
    kernel.rank = rank;
    kernel.stream = stream;
    kernel.recognition = GRAPH_REPLAYED;
    return graph_add(graph, &kernel);
}

static void add_collective(struct graph *graph, uint32_t rank, uint32_t stream, const char *group,
                           uint64_t sequence)
{
    uint32_t i = add_kernel(graph, rank, stream, group);
    graph->nodes[i].kind = GRAPH_COLLECTIVE;
    graph->nodes[i].collective = graph_add_collective(graph);
    strcpy(graph->nodes[i].collective->kind, "all_reduce");
    strcpy(graph->nodes[i].collective->group, group);
    graph->nodes[i].collective->sequence = sequence;
}

static uint32_t add_event(struct graph *graph, enum graph_node_kind kind, uint32_t stream, uint32_t waits_for,
                          const char *name)
{
    struct graph_node node = host(kind, name);
    node.stream = stream;
    node.waits_for = waits_for;
    return graph_add(graph, &node);
}

static struct graph *start(uint32_t ranks)
{
    struct graph *graph = graph_create("made");
    graph_add_ranks(graph, ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        graph->ranks[r] = (struct graph_rank){ .rank_id = r, .thread_count = 1, .stream_count = 4 };
    }
    return graph;
}

static void expect_sound(struct graph *graph)
{
    struct sim_error error = { 0 };
    cr_expect(eq(int, graph_check(graph, &error), SIM_OK), "%s", error.text);
    graph_destroy(graph);
}

static void expect_broken(struct graph *graph, const char *part, const char *another)
{
    struct sim_error error = { 0 };
    cr_expect(eq(int, graph_check(graph, &error), SIM_BAD_TRACE));
    cr_expect(strstr(error.text, part) != NULL && strstr(error.text, another) != NULL, "%s", error.text);
    cr_expect(strchr(error.text, '\n') == NULL);
    graph_destroy(graph);
}

Test(graph, two_streams_joined_by_an_event_are_sound)
{
    struct graph *graph = start(1);
    add_kernel(graph, 0, 0, "producer");
    uint32_t record = add_event(graph, GRAPH_EVENT_RECORD, 0, UINT32_MAX, "record");
    add_event(graph, GRAPH_EVENT_WAIT, 1, record, "wait");
    add_kernel(graph, 0, 1, "consumer");
    struct graph_node sync = host(GRAPH_HOST_SYNC, "sync");
    sync.sync = GRAPH_SYNC_DEVICE;
    graph_add(graph, &sync);
    expect_sound(graph);
}

Test(graph, empty_is_sound)
{
    expect_sound(start(1));
}

Test(graph, launch_of_a_host_node_is_named)
{
    struct graph *graph = start(1);
    struct graph_node launch = host(GRAPH_HOST_LAUNCH, "launch");
    launch.launched = 0;
    graph_add(graph, &launch);
    expect_broken(graph, "node 0 'launch'", "no device node");
}

Test(graph, kernel_without_a_launch_is_named)
{
    struct graph *graph = start(1);
    struct graph_node kernel = host(GRAPH_KERNEL, "orphan");
    kernel.recognition = GRAPH_REPLAYED;
    graph_add(graph, &kernel);
    expect_broken(graph, "'orphan'", "has no launch");
}

Test(graph, kernel_launched_twice_is_named)
{
    struct graph *graph = start(1);
    uint32_t kernel = add_kernel(graph, 0, 0, "twice");
    struct graph_node launch = host(GRAPH_HOST_LAUNCH, "again");
    launch.launched = kernel;
    graph_add(graph, &launch);
    expect_broken(graph, "'twice'", "launched twice");
}

Test(graph, wait_for_a_kernel_is_named)
{
    struct graph *graph = start(1);
    uint32_t kernel = add_kernel(graph, 0, 0, "k");
    add_event(graph, GRAPH_EVENT_WAIT, 1, kernel, "wait");
    expect_broken(graph, "'wait'", "no event record");
}

Test(graph, stream_and_rank_out_of_range_are_named)
{
    struct graph *graph = start(1);
    add_kernel(graph, 0, 4, "far");
    expect_broken(graph, "'far'", "stream");
    graph = start(1);
    add_kernel(graph, 1, 0, "elsewhere");
    expect_broken(graph, "node 0", "rank");
}

Test(graph, times_that_are_none_are_named)
{
    struct graph *graph = start(1);
    uint32_t kernel = add_kernel(graph, 0, 0, "endless");
    graph->nodes[kernel].traced_us = INFINITY;
    expect_broken(graph, "'endless'", "not finite");
    graph = start(1);
    kernel = add_kernel(graph, 0, 0, "backwards");
    graph->nodes[kernel].traced_us = -1;
    expect_broken(graph, "'backwards'", "negative");
}

/* The device nodes stand against the order of their launches. */
Test(graph, stream_against_launch_order_is_named)
{
    struct graph *graph = start(1);
    struct graph_node launch = host(GRAPH_HOST_LAUNCH, "first");
    launch.launched = 3;
    graph_add(graph, &launch);
    launch.name = "second";
    launch.launched = 2;
    graph_add(graph, &launch);
    struct graph_node kernel = host(GRAPH_KERNEL, "of second");
    kernel.recognition = GRAPH_REPLAYED;
    graph_add(graph, &kernel);
    kernel.name = "of first";
    graph_add(graph, &kernel);
    expect_broken(graph, "'of first'", "later launch");
}

/* The host waits for a record that it makes only afterwards: wait -> sync -> record -> wait. */
Test(graph, cycle_is_named_node_by_node)
{
    struct graph *graph = start(1);
    add_kernel(graph, 0, 1, "k");
    struct graph_node sync = host(GRAPH_HOST_SYNC, "sync for later");
    sync.sync = GRAPH_SYNC_EVENT;
    sync.waits_for = 3;
    graph_add(graph, &sync);
    add_event(graph, GRAPH_EVENT_RECORD, 1, UINT32_MAX, "later record");
    expect_broken(graph, "node 2 'sync for later'", "node 3 'later record'");
}

/* Rank 0 runs A then B on one stream, rank 1 B then A: each waits for the other. On two streams they do not. */
Test(graph, ranks_that_meet_in_different_orders_are_a_cycle)
{
    for (uint32_t second = 0; second < 2; second++) {
        struct graph *graph = start(2);
        add_collective(graph, 0, 0, "A", 0);
        add_collective(graph, 0, second, "B", 0);
        add_collective(graph, 1, second, "B", 0);
        add_collective(graph, 1, 0, "A", 0);
        if (second == 0) {
            expect_broken(graph, "cycle", "'A'");
        } else {
            expect_sound(graph);
        }
    }
}

/* The same across an event record, whose host call does not wait for its stream. */
Test(graph, record_does_not_hold_the_host)
{
    struct graph *graph = start(2);
    add_collective(graph, 0, 0, "A", 0);
    add_event(graph, GRAPH_EVENT_RECORD, 0, UINT32_MAX, "record");
    add_collective(graph, 0, 1, "B", 0);
    add_collective(graph, 1, 1, "B", 0);
    add_collective(graph, 1, 0, "A", 0);
    expect_sound(graph);
}

/* A million kernels on one stream, synchronised at the end: the walk keeps its own stack. */
Test(graph, long_chains_need_no_deep_stack, .timeout = 60)
{
    struct graph *graph = start(1);
    for (size_t i = 0; i < 1000000; i++) {
        add_kernel(graph, 0, 0, "k");
    }
    struct graph_node sync = host(GRAPH_HOST_SYNC, "sync");
    sync.sync = GRAPH_SYNC_STREAM;
    sync.waits_for = 0;
    graph_add(graph, &sync);
    expect_sound(graph);
}

Test(graph, notes_are_cut_visibly)
{
    struct graph *graph = start(1);
    char text[300];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    graph_note(graph, "%s", text);
    graph_note(graph, "short");
    cr_expect(eq(sz, strlen(graph->notes[0]), 199));
    cr_expect(eq(str, graph->notes[0] + 196, "..."));
    cr_expect(eq(str, graph->notes[1], "short"));
    cr_expect(graph_intern(graph, "a") == graph_intern(graph, "a"));
    graph_destroy(graph);
    graph_destroy(NULL);
}
