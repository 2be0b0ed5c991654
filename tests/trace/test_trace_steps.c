/* From files to steps: the field cases, which step is taken, what belongs to it, and the host's order. */
#include "tests/trace/trace_test.h"

/* ---- field cases ------------------------------------------------------------------------------------------------ */

struct field_case {
    char file[40], note[64];
    size_t kernels, collectives;
    double step_us, busy_us, sum_us;
    uint32_t streams;
};

ParameterizedTestParameters(trace_steps, field_cases)
{
    static struct field_case cases[] = {
        { "ok-minimal", "2 GPU events on 1 stream", 2, 0, 200, 150, 150, 1 },
        { "h22-submicrosecond-kernels", "3 GPU events", 3, 0, 30, 0.75, 0.75, 1 },
        { "h23-rccl-correlation-zero", "1 GPU event without a launch", 1, 1, 700, 500, 580, 2 },
        { "h24-no-profilerstep", "no ProfilerStep marker", 2, 0, 999, 995, 995, 1 },
        { "h25-no-rank", "taken as rank 0", 2, 0, 200, 150, 150, 1 },
        { "h27-streams-above-2p53", "2 streams", 2, 0, 150, 100, 200, 2 },
        { "h31-unknown-collective", "fused_gossip_v9", 0, 4, 400, 200, 200, 1 },
        { "h32-same-stream-overlap", "k_first and k_second by 2 us", 2, 0, 40, 20, 22, 1 },
        { "h42-graph-kernels", "3 GPU events", 3, 0, 120, 60, 60, 1 },
    };
    return cr_make_param_array(struct field_case, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct field_case *c, trace_steps, field_cases)
{
    char path[256];
    snprintf(path, sizeof path, FIXTURE("field/%s.json"), c->file);
    struct graph *graph = read_one(path);
    cr_expect(eq(sz, count_kind(graph, GRAPH_KERNEL), c->kernels), "%s", c->file);
    cr_expect(eq(sz, count_kind(graph, GRAPH_COLLECTIVE), c->collectives), "%s", c->file);
    cr_expect(eq(dbl, graph->traced_step_us, c->step_us), "%s", c->file);
    cr_expect(eq(dbl, graph->ranks[0].traced_busy_us, c->busy_us), "%s", c->file);
    cr_expect(eq(dbl, graph->ranks[0].traced_kernel_us, c->sum_us), "%s", c->file);
    cr_expect(eq(u32, graph->ranks[0].stream_count, c->streams), "%s", c->file);
    cr_expect(has_note(graph, c->note), "%s: no note '%s'", c->file, c->note);
    graph_destroy(graph);
}

/* 1,048,576 floats into an all-to-all over 8 ranks: 4 MiB, kept without its launch, which is made up where it began. */
Test(trace_steps, collective_without_correlation_stays_whole)
{
    struct graph *graph = read_one(FIXTURE("field/h23-rccl-correlation-zero.json"));
    const struct graph_node *node = nth(graph, GRAPH_COLLECTIVE, 0);
    cr_expect(eq(str, node->collective->kind, "all_to_all"));
    cr_expect(eq(dbl, node->collective->bytes, 1048576 * 4.0));
    cr_expect(eq(u32, node->collective->group_size, 8));
    cr_expect(eq(dbl, node->traced_us, 500));
    const struct graph_node *launch = &graph->nodes[index_of(graph, node) - 1];
    cr_expect(eq(int, launch->kind, GRAPH_HOST_LAUNCH));
    cr_expect(eq(dbl, launch->traced_start_us, 50));
    const struct graph_node *kernel = nth(graph, GRAPH_KERNEL, 0);
    cr_expect(eq(str, (char *)kernel->operator_name, "aten::bmm"));
    graph_destroy(graph);
}

Test(trace_steps, collectives_are_typed_or_replayed)
{
    struct graph *graph = read_one(FIXTURE("field/h31-unknown-collective.json"));
    static const char *const kinds[] = { "all_reduce", "broadcast", "unknown", "send_recv" };
    for (size_t i = 0; i < 4; i++) {
        const struct graph_node *node = nth(graph, GRAPH_COLLECTIVE, i);
        cr_expect(eq(str, node->collective->kind, (char *)kinds[i]));
        cr_expect(eq(int, node->recognition, i == 2 ? GRAPH_REPLAYED : GRAPH_RECOGNISED));
    }
    graph_destroy(graph);
}

Test(trace_steps, graph_launch_owns_all_its_kernels)
{
    struct graph *graph = read_one(FIXTURE("field/h42-graph-kernels.json"));
    cr_assert(eq(sz, count_kind(graph, GRAPH_HOST_LAUNCH), 1));
    const struct graph_node *launch = nth(graph, GRAPH_HOST_LAUNCH, 0);
    cr_expect(eq(u32, launch->launched_count, 3));
    static const char *const names[] = { "graph_gather", "graph_gemm", "graph_scatter" };
    for (uint32_t i = 0; i < 3; i++) {
        const struct graph_node *kernel = &graph->nodes[launch->launched + i];
        cr_expect(eq(str, (char *)kernel->name, (char *)names[i]));
        cr_expect(eq(str, (char *)kernel->operator_name, "hipGraphLaunch"));
    }
    graph_destroy(graph);
}

Test(trace_steps, two_64_bit_streams_stay_two)
{
    struct graph *graph = read_one(FIXTURE("field/h27-streams-above-2p53.json"));
    cr_expect(ne(u32, nth(graph, GRAPH_KERNEL, 0)->stream, nth(graph, GRAPH_KERNEL, 1)->stream));
    graph_destroy(graph);
}

/* ---- real steps ------------------------------------------------------------------------------------------------- */

/* Reference figures by a script over the JSON: device events whose correlation is that of a runtime call that began in
 * ProfilerStep#2; operators of the threads that made those calls; host time as the union per thread of operators,
 * launches and synchronisations, in nanoseconds. */
struct real_case {
    char file[40];
    size_t device, kernels, launches, operators, syncs;
    double step_us, kernel_us, host_us;
};

ParameterizedTestParameters(trace_steps, real_steps)
{
    static struct real_case cases[] = {
        { "dlrm_dcnv2_w1_r0", 264, 247, 264, 2569, 1, 46620.441, 7844.043, 42191.190 },
        { "dlrm_small_w1_r0", 196, 190, 196, 2234, 1, 61703.974, 2103.641, 56344.674 },
        { "dlrm_dcnv2_B8192_w2_r0", 257, 215, 257, 1948, 1, 54246.118, 37023.866, 48535.422 },
        { "dlrm_dcnv2_B8192_w2_r1", 257, 215, 257, 1948, 1, 59679.057, 7813.267, 52558.246 },
    };
    return cr_make_param_array(struct real_case, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct real_case *c, trace_steps, real_steps)
{
    char path[256];
    snprintf(path, sizeof path, FIXTURE("%s.kineto.json.gz"), c->file);
    struct graph *graph = read_one(path);
    size_t device = 0, fills_and_copies = 0, operators = 0;
    double host_us = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        device += graph_is_device(node);
        fills_and_copies += graph_is_device(node) && strncmp(node->name, "Mem", 3) == 0;
        operators += node->kind == GRAPH_HOST_OP;
        host_us += graph_is_host(node) ? node->traced_us : 0;
        if (graph_is_device(node)) {
            cr_expect(node->category != NULL && node->category[0] != '\0', "%s", node->name);
        }
    }
    cr_expect(eq(sz, device, c->device), "%s", c->file);
    cr_expect(eq(sz, device - fills_and_copies, c->kernels), "%s", c->file);
    cr_expect(eq(sz, count_kind(graph, GRAPH_HOST_LAUNCH), c->launches), "%s", c->file);
    cr_expect(eq(sz, operators, c->operators), "%s", c->file);
    cr_expect(eq(sz, count_kind(graph, GRAPH_HOST_SYNC), c->syncs), "%s", c->file);
    cr_expect(epsilon_eq(dbl, graph->traced_step_us, c->step_us, 1e-6), "%s", c->file);
    cr_expect(epsilon_eq(dbl, graph->ranks[0].traced_kernel_us, c->kernel_us, 1e-6), "%s", c->file);
    cr_expect(epsilon_eq(dbl, host_us, c->host_us, 1e-6), "%s: own times add up to the union", c->file);
    cr_expect(eq(dbl, graph->steps_in_trace, 2), "%s", c->file);
    graph_destroy(graph);
}

/* Forward, backward and optimiser follow one another though backward runs on a thread of its own. */
Test(trace_steps, host_order_follows_the_step)
{
    struct graph *graph = read_one(FIXTURE("dlrm_dcnv2_w1_r0.kineto.json.gz"));
    size_t bag = 0, backward = 0, optimiser = 0, sync = 0;
    double last_start = -1;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        if (!graph_is_host(node)) {
            continue;
        }
        cr_expect(node->traced_start_us >= last_start, "node %zu %s", i, node->name);
        last_start = node->traced_start_us;
        bag = strcmp(node->name, "aten::_embedding_bag") == 0 ? i : bag;
        backward = strstr(node->name, "SigmoidBackward") != NULL || strstr(node->name, "MmBackward0") != NULL
                       ? i
                       : backward;
        optimiser = strcmp(node->name, "aten::_fused_adam_") == 0 ? i : optimiser;
        sync = node->kind == GRAPH_HOST_SYNC ? i : sync;
    }
    cr_expect(bag > 0 && bag < backward && backward < optimiser && optimiser < sync, "%zu %zu %zu %zu", bag,
              backward, optimiser, sync);
    cr_expect(ne(u32, graph->nodes[bag].thread, graph->nodes[backward].thread));
    cr_expect(eq(u32, graph->nodes[bag].thread, graph->nodes[optimiser].thread));
    graph_destroy(graph);
}

/* A device node stands right behind its launch, launches in stream order. */
Test(trace_steps, launches_stand_before_what_they_launch)
{
    struct graph *graph = read_one(FIXTURE("dlrm_small_w1_r0.kineto.json.gz"));
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].kind == GRAPH_HOST_LAUNCH) {
            cr_expect(eq(u32, graph->nodes[i].launched, i + 1));
            cr_expect(graph->nodes[i].traced_start_us <= graph->nodes[i + 1].traced_start_us);
        }
    }
    graph_destroy(graph);
}

/* ---- which step ------------------------------------------------------------------------------------------------- */

#define STEP(n, start)                                                      \
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#" #n \
    "\",\"pid\":1,\"tid\":1,\"ts\":" #start ",\"dur\":100}"
#define LAUNCH(correlation, start)                                                              \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1," \
    "\"ts\":" #start ",\"dur\":2,\"args\":{\"correlation\":" #correlation "}}"
#define KERNEL(correlation, start)                                                                       \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k" #correlation "\",\"pid\":0,\"tid\":7,\"ts\":" #start \
    ",\"dur\":10,\"args\":{\"device\":0,\"stream\":7,\"correlation\":" #correlation "}}"

/* Two kernels launched in step 1 run in step 2's time; they are step 1's. */
Test(trace_steps, kernels_belong_to_the_step_that_launched_them)
{
    const char *events = STEP(1, 0) "," STEP(2, 100) "," LAUNCH(1, 10) "," LAUNCH(2, 90) "," LAUNCH(
        3, 110) "," KERNEL(1, 120) "," KERNEL(2, 130) "," KERNEL(3, 140);
    char *text = malloc(strlen(events) + 64);
    sprintf(text, "{\"traceEvents\": [%s]}", events);
    const char *path = write_text(text);
    struct graph *first = read_step(&path, 1, 1), *last = read_step(&path, 1, 2);
    cr_expect(eq(sz, count_kind(first, GRAPH_KERNEL), 2));
    cr_expect(eq(str, (char *)nth(first, GRAPH_KERNEL, 1)->name, "k2"));
    cr_expect(eq(sz, count_kind(last, GRAPH_KERNEL), 1));
    cr_expect(eq(str, (char *)nth(last, GRAPH_KERNEL, 0)->name, "k3"));
    graph_destroy(first);
    graph_destroy(last);

    struct trace_options options = { .step = 7 };
    struct graph *none = NULL;
    struct sim_error error = { 0 };
    cr_expect(eq(int, trace_read(&path, 1, &options, &none, &error), SIM_UNKNOWN_NAME));
    cr_expect(strstr(error.text, "ProfilerStep#7") != NULL &&
                  strstr(error.text, "ProfilerStep#1 to ProfilerStep#2") != NULL,
              "%s", error.text);
    unlink(path);
    free(text);
}

/* Step 2 was cut off after one of three kernels: the last complete step is step 1. */
Test(trace_steps, cut_off_step_is_not_taken)
{
    struct graph *graph = read_events(
        STEP(1, 0) "," STEP(2, 100) "," LAUNCH(1, 10) "," LAUNCH(2, 20) "," LAUNCH(3, 30) "," LAUNCH(
            4, 110) "," KERNEL(1, 40) "," KERNEL(2, 50) "," KERNEL(3, 60) "," KERNEL(4, 140));
    cr_expect(eq(sz, count_kind(graph, GRAPH_KERNEL), 3));
    cr_expect(has_note(graph, "ProfilerStep#1 of 2 steps"));
    graph_destroy(graph);
}

Test(trace_steps, kernels_outside_every_step_are_told)
{
    struct graph *graph = read_events(
        STEP(1, 100) "," LAUNCH(1, 10) "," LAUNCH(2, 120) "," KERNEL(1, 40) "," KERNEL(2, 150));
    cr_expect(eq(sz, count_kind(graph, GRAPH_KERNEL), 1));
    cr_expect(has_note(graph, "1 GPU event launched outside every step"));
    graph_destroy(graph);
}

/* A pageable copy holds the host: a sync on its stream stands behind its launch. */
Test(trace_steps, pageable_copy_blocks_the_host)
{
    struct graph *graph = read_events(
        STEP(1, 0) ",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaMemcpyAsync\",\"pid\":1,\"tid\":1,"
                   "\"ts\":5,\"dur\":30,\"args\":"
                   "{\"correlation\":5}},{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy DtoH (Device "
                   "-> Pageable)\",\"pid\":0,"
                   "\"tid\":7,\"ts\":12,\"dur\":3,\"args\":{\"device\":0,\"stream\":7,\"correlation\":5,"
                   "\"bytes\":4}}");
    cr_assert(eq(sz, count_kind(graph, GRAPH_HOST_SYNC), 1));
    const struct graph_node *sync = nth(graph, GRAPH_HOST_SYNC, 0);
    cr_expect(eq(int, sync->sync, GRAPH_SYNC_STREAM));
    cr_expect(eq(u32, sync->waits_for, nth(graph, GRAPH_KERNEL, 0)->stream));
    cr_expect(eq(dbl, sync->traced_us, 0));
    graph_destroy(graph);
}

/* An operator of 40 us with a launch of 2 us and an inner operator of 10 us has 28 us of its own. */
Test(trace_steps, own_time_leaves_children_out)
{
    struct graph *graph = read_events(STEP(
        1,
        0) ",{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"outer\",\"pid\":1,\"tid\":1,\"ts\":10,\"dur\":40},"
           "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"inner\",\"pid\":1,\"tid\":1,\"ts\":30,\"dur\":10},"
           "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaDeviceGetAttribute\",\"pid\":1,\"tid\":1,"
           "\"ts\":15,\"dur\":1,"
           "\"args\":{\"correlation\":8}}," LAUNCH(1, 20) "," KERNEL(1, 60));
    cr_assert(eq(sz, count_kind(graph, GRAPH_HOST_OP), 2)); /* the query is part of the operator around it */
    cr_expect(eq(dbl, nth(graph, GRAPH_HOST_OP, 0)->traced_us, 28));
    cr_expect(eq(u32, nth(graph, GRAPH_HOST_OP, 0)->depth, 0));
    cr_expect(eq(dbl, nth(graph, GRAPH_HOST_OP, 1)->traced_us, 10));
    cr_expect(eq(u32, nth(graph, GRAPH_HOST_OP, 1)->depth, 1));
    cr_expect(eq(dbl, nth(graph, GRAPH_HOST_LAUNCH, 0)->traced_us, 2));
    graph_destroy(graph);
}

/* With the trace's host times asked for, what lies between the calls is host work too: 20 us before, 8 us between. */
Test(trace_steps, gaps_count_when_host_times_are_kept)
{
    const char *path = write_text("{\"traceEvents\": [" STEP(1, 0) "," LAUNCH(1, 20) "," LAUNCH(
        2, 30) "," KERNEL(1, 40) "," KERNEL(2, 50) "]}");
    struct trace_options options = { .step = -1, .keep_host_times = true };
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    cr_assert(trace_read(&path, 1, &options, &graph, &error) == SIM_OK, "%s", error.text);
    unlink(path);
    cr_assert(eq(sz, count_kind(graph, GRAPH_HOST_OP), 2));
    cr_expect(eq(dbl, nth(graph, GRAPH_HOST_OP, 0)->traced_us, 20));
    cr_expect(eq(dbl, nth(graph, GRAPH_HOST_OP, 1)->traced_us, 8));
    graph_destroy(graph);
}

#define GRAPH_KERNEL_EVENT(name, start)                                                                             \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name "\",\"pid\":0,\"tid\":7,\"ts\":" #start                       \
    ",\"dur\":10,\"args\":{\"device\":0,\"stream\":7,\"correlation\":1}}"

/* A compiled function of one tensor of 40 MB launches a captured graph: its product and its fill are not the tensor's bytes. Launched alone, a
 * kernel is the operator's. */
Test(trace_steps, kernels_of_a_captured_graph_have_no_tensors)
{
    static const char function[] = ",{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"CompiledFunction\",\"pid\":1,\"tid\":1,\"ts\":5,\"dur\":20,\"args\":"
                                   "{\"Input Dims\":[[1000,10000]],\"Input type\":[\"float\"]}},";
    char events[2000];
    snprintf(events, sizeof events, STEP(1, 0) "%s" LAUNCH(1, 10) "," GRAPH_KERNEL_EVENT("some_gemm", 30) "," GRAPH_KERNEL_EVENT("some_fill", 40), function);
    struct graph *captured = read_events(events);
    snprintf(events, sizeof events, STEP(1, 0) "%s" LAUNCH(1, 10) "," GRAPH_KERNEL_EVENT("some_gemm", 30), function);
    struct graph *alone = read_events(events);
    cr_expect(eq(int, nth(captured, GRAPH_KERNEL, 0)->recognition, GRAPH_REPLAYED));
    cr_expect(eq(int, nth(captured, GRAPH_KERNEL, 1)->recognition, GRAPH_REPLAYED));
    cr_expect(has_note(captured, "part of a captured graph"));
    cr_expect(eq(int, nth(alone, GRAPH_KERNEL, 0)->recognition, GRAPH_BY_BYTES));
    graph_destroy(captured);
    graph_destroy(alone);
}

/* A number of ranks that no run has is told and not used; one below the file's own rank grows, and that is told. */
Test(trace_steps, wrong_world_sizes_are_told)
{
    const char *event = "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2,\"tid\":7}";
    const struct {
        const char *said, *told;
        uint32_t world;
    } cases[] = { { "\"rank\":0,\"world_size\":4000000000", "its world_size, 4000000000", 1 },
                  { "\"rank\":0,\"world_size\":0", "its world_size, 0", 1 },
                  { "\"rank\":9,\"world_size\":4", "rank 9 in a run of 4 ranks: taken as one of 10", 10 } };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char text[256];
        snprintf(text, sizeof text, "{\"distributedInfo\":{%s},\"traceEvents\":[%s]}", cases[c].said, event);
        const char *path = write_text(text);
        struct graph *graph = read_one(path);
        unlink(path);
        cr_expect(has_note(graph, cases[c].told), "%s", cases[c].told);
        cr_expect(eq(u32, graph->world_size, cases[c].world));
        graph_destroy(graph);
    }
}

/* ---- ranks ------------------------------------------------------------------------------------------------------ */

Test(trace_steps, ranks_may_come_in_any_order)
{
    const char *paths[] = { FIXTURE("dlrm_dcnv2_B8192_w2_r1.kineto.json.gz"),
                            FIXTURE("dlrm_dcnv2_B8192_w2_r0.kineto.json.gz") };
    struct graph *graph = read_step(paths, 2, -1);
    cr_expect(eq(u32, graph->rank_count, 2));
    cr_expect(eq(u32, graph->world_size, 2));
    cr_expect(eq(u32, graph->ranks[0].rank_id, 0));
    cr_expect(epsilon_eq(dbl, graph->ranks[0].traced_step_us, 54246.118, 1e-6));
    cr_expect(epsilon_eq(dbl, graph->ranks[1].traced_step_us, 59679.057, 1e-6));
    for (size_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].kind == GRAPH_COLLECTIVE && graph->nodes[i].collective->sequence == 2) {
            cr_expect(eq(str, graph->nodes[i].collective->kind, "all_reduce"));
        }
    }
    graph_destroy(graph);
}

Test(trace_steps, one_rank_twice_is_refused)
{
    const char *paths[] = { FIXTURE("dlrm_dcnv2_B8192_w2_r0.kineto.json.gz"),
                            FIXTURE("dlrm_dcnv2_B8192_w2_r0.kineto.json.gz") };
    struct trace_options options = { .step = -1 };
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    cr_expect(eq(int, trace_read(paths, 2, &options, &graph, &error), SIM_BAD_TRACE));
    cr_expect(strstr(error.text, "both rank 0") != NULL, "%s", error.text);
    cr_expect(graph == NULL);
}

Test(trace_steps, ranks_of_different_runs_are_refused)
{
    const char *paths[] = { FIXTURE("dlrm_dcnv2_B8192_w2_r1.kineto.json.gz"),
                            FIXTURE("field/h31-unknown-collective.json") };
    struct trace_options options = { .step = -1 };
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    cr_expect(eq(int, trace_read(paths, 2, &options, &graph, &error), SIM_BAD_TRACE));
    cr_expect(strstr(error.text, "8 ranks") != NULL, "%s", error.text);
}

/* Durations in the two files: all-to-alls 3322.587 and 10797.837 us on rank 0, 187.839 and 188.832 on rank 1, all-reduce
 * 13871.240 and 237.888: rank 0 waited for rank 1, whose times are the transfer. */
Test(trace_steps, transfer_is_the_least_over_the_ranks)
{
    const char *paths[] = { FIXTURE("dlrm_dcnv2_B8192_w2_r0.kineto.json.gz"),
                            FIXTURE("dlrm_dcnv2_B8192_w2_r1.kineto.json.gz") };
    struct graph *graph = read_step(paths, 2, -1);
    static const double transfer_us[] = { 187.839, 188.832, 237.888 };
    static const double bytes[] = { 27262976 * 4.0, 27262976 * 4.0, 16044545 * 4.0 };
    size_t seen = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        if (node->kind == GRAPH_COLLECTIVE) {
            cr_assert(node->collective->sequence < 3);
            cr_expect(eq(dbl, node->traced_us, transfer_us[node->collective->sequence]));
            cr_expect(eq(dbl, node->collective->bytes, bytes[node->collective->sequence]));
            cr_expect(eq(str, node->collective->group, "[0, 1]"));
            seen++;
        }
    }
    cr_expect(eq(sz, seen, 6));
    graph_destroy(graph);
}

Test(trace_steps, same_files_same_graph)
{
    struct graph *a = read_one(FIXTURE("dlrm_small_w1_r0.kineto.json.gz")),
                 *b = read_one(FIXTURE("dlrm_small_w1_r0.kineto.json.gz"));
    cr_assert(eq(sz, a->node_count, b->node_count));
    for (size_t i = 0; i < a->node_count; i++) {
        const char *x = a->nodes[i].params, *y = b->nodes[i].params;
        cr_expect(eq(str, (char *)(x == NULL ? "" : x), (char *)(y == NULL ? "" : y)));
        cr_expect(eq(str, (char *)a->nodes[i].name, (char *)b->nodes[i].name));
    }
    graph_destroy(a);
    graph_destroy(b);
}
