/* What a collective is: kind, size by nccl-tests' convention, splits, groups, and the ranks joined. */
#include "tests/trace/trace_test.h"

static struct graph *one(const char *kernel, const char *arguments)
{
    char text[2000];
    sprintf(text,
            "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":"
            "1,\"dur\":1,\"args\":{\"correlation\":1}},"
            "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":0,\"tid\":7,\"ts\":5,\"dur\":10,"
            "\"args\":{\"device\":0,\"stream\":7,"
            "\"correlation\":1%s}}",
            kernel, arguments);
    return read_events(text);
}

struct size_case {
    char name[32], kind[24], dtype[16];
    double in, out, group, bytes;
};
ParameterizedTestParameters(collectives, sizes_follow_nccl_tests)
{
    static struct size_case cases[] = {
        { "allreduce", "all_reduce", "Float", 1000, 1000, 8, 4000 },
        { "_allgather_base", "all_gather", "BFloat16", 1000, 8000, 8, 16000 }, /* total output */
        { "all_gather", "all_gather", "Half", 1000, 1000, 8, 16000 }, /* output recorded as one part */
        { "_reduce_scatter_base", "reduce_scatter", "Float", 8000, 1000, 8, 32000 }, /* total input */
        { "all_to_allv", "all_to_all", "Float", 1000, 1200, 8, 4800 },
        { "broadcast", "broadcast", "Long", 10, 10, 8, 80 },
        { "recv", "send_recv", "Byte", 0, 10, 2, 10 },
        { "reduce", "unknown", "Float", 10, 10, 8, 40 },
    };
    return cr_make_param_array(struct size_case, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct size_case *c, collectives, sizes_follow_nccl_tests)
{
    char arguments[400];
    sprintf(arguments,
            ",\"Collective name\":\"%s\",\"In msg nelems\":%.0f,\"Out msg nelems\":%.0f,\"Group "
            "size\":%.0f,\"dtype\":\"%s\"",
            c->name, c->in, c->out, c->group, c->dtype);
    struct graph *graph = one("ncclDevKernel_Generic", arguments);
    const struct graph_collective *collective = nth(graph, GRAPH_COLLECTIVE, 0)->collective;
    cr_expect(eq(str, (char *)collective->kind, c->kind), "%s", c->name);
    cr_expect(eq(dbl, collective->bytes, c->bytes), "%s", c->name);
    cr_expect(eq(dbl, collective->group_size, c->group), "%s", c->name);
    graph_destroy(graph);
}

/* 3 + 1 rows of 100 elements of 4 bytes. */
Test(collectives, uneven_splits_are_bytes_to_each_rank)
{
    struct graph *graph = one(
        "ncclDevKernel_SendRecv",
        ",\"Collective name\":\"all_to_allv\",\"In msg nelems\":400,\"Out msg nelems\":400,"
        "\"Group size\":2,\"dtype\":\"Float\",\"In split size\":\"[3, 1]\"");
    const struct graph_collective *collective = nth(graph, GRAPH_COLLECTIVE, 0)->collective;
    cr_assert(collective->split_bytes_to != NULL);
    cr_expect(eq(dbl, collective->split_bytes_to[0], 1200));
    cr_expect(eq(dbl, collective->split_bytes_to[1], 400));
    graph_destroy(graph);
}

Test(collectives, cut_split_lists_are_even_and_told)
{
    struct graph *graph = one(
        "ncclDevKernel_SendRecv",
        ",\"Collective name\":\"all_to_allv\",\"In msg nelems\":400,\"Out msg nelems\":400,"
        "\"Group size\":4,\"dtype\":\"Float\",\"In split size\":\"[3, ...]\"");
    cr_expect(nth(graph, GRAPH_COLLECTIVE, 0)->collective->split_bytes_to == NULL);
    cr_expect(has_note(graph, "taken as even"));
    graph_destroy(graph);
}

Test(collectives, kernel_alone_gives_its_kind_and_a_warning)
{
    struct graph *graph = one("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "");
    cr_expect(eq(str, nth(graph, GRAPH_COLLECTIVE, 0)->collective->kind, "all_reduce"));
    cr_expect(has_note(graph, "1 collective of 0 bytes"));
    graph_destroy(graph);
}

/* The record beside the operator counts when the kernel has none, as with RCCL. */
Test(collectives, operator_around_the_launch_describes_it)
{
    struct graph *graph = read_events(
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"record_param_comms\",\"pid\":1,\"tid\":1,\"ts\":0,"
        "\"dur\":9,\"args\":{\"Collective name\":"
        "\"allreduce\",\"In msg nelems\":25,\"Out msg nelems\":25,\"Group "
        "size\":8,\"dtype\":\"BFloat16\",\"Process Group Ranks\":\"[0, 1]\"}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"hipExtLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":1,"
        "\"dur\":1,\"args\":{\"correlation\":1}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_Generic\",\"pid\":0,\"tid\":7,\"ts\":5,"
        "\"dur\":10,\"args\":{\"device\":0,\"stream\":7,"
        "\"correlation\":1}}");
    const struct graph_collective *collective = nth(graph, GRAPH_COLLECTIVE, 0)->collective;
    cr_expect(eq(str, (char *)collective->kind, "all_reduce"));
    cr_expect(eq(dbl, collective->bytes, 50));
    cr_expect(eq(str, (char *)collective->group, "[0, 1]"));
    graph_destroy(graph);
}

/* Older recordings have neither; the library region's own tensor tells. 6144 fp32 to everyone. */
Test(collectives, library_region_describes_it)
{
    struct graph *graph = read_events("{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"nccl:all_to_"
                                      "all\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":9,\"args\":{\"Input Dims\":"
                                      "[[6144]],\"Input type\":[\"float\"]}},"
                                      "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\","
                                      "\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1,\"args\":{\"correlation\":1}},"
                                      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclKernel_SendRecv_RING_"
                                      "SIMPLE_Sum_int8_t\",\"pid\":0,\"tid\":7,\"ts\":5,\"dur\":10,\"args\":"
                                      "{\"device\":0,\"stream\":7,\"correlation\":1}}");
    const struct graph_collective *collective = nth(graph, GRAPH_COLLECTIVE, 0)->collective;
    cr_expect(eq(str, (char *)collective->kind, "all_to_all"));
    cr_expect(eq(dbl, collective->bytes, 24576));
    graph_destroy(graph);
}

static const char *rank_file(int rank, const char *events)
{
    char *text = malloc(strlen(events) + 200);
    sprintf(text, "{\"distributedInfo\":{\"rank\":%d,\"world_size\":2},\"traceEvents\":[%s]}", rank, events);
    const char *path = write_text(text);
    free(text);
    return path;
}

#define COLLECTIVE(correlation, start, duration, name, elements)                                             \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"              \
    "\"ts\":" #correlation ",\"dur\":0.5,\"args\":{\"correlation\":" #correlation "}},"                      \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_Generic\",\"pid\":0,\"tid\":7,\"ts\":" #start \
    ",\"dur\":" #duration ",\"args\":{\"device\":0,\"stream\":7,\"correlation\":" #correlation               \
    ",\"Collective name\":\"" name "\",\"In msg nelems\":" #elements ",\"Out msg nelems\":" #elements        \
    ",\"Group size\":2,\"dtype\":\"Float\",\"Process Group Ranks\":\"[0, 1]\"}}"

/* The second of each rank meets the second of the other: least of 50 and 20. */
Test(collectives, nth_meets_nth)
{
    const char *paths[] = {
        rank_file(0, COLLECTIVE(1, 10, 10, "allreduce", 5) "," COLLECTIVE(2, 30, 50, "allreduce", 7)),
        rank_file(1, COLLECTIVE(1, 10, 40, "allreduce", 5) "," COLLECTIVE(2, 60, 20, "allreduce", 7))
    };
    struct graph *graph = read_step(paths, 2, -1);
    static const double us[] = { 10, 20, 10, 20 };
    for (size_t i = 0; i < 4; i++) {
        cr_expect(eq(dbl, nth(graph, GRAPH_COLLECTIVE, i)->traced_us, us[i]));
        cr_expect(eq(u64, nth(graph, GRAPH_COLLECTIVE, i)->collective->sequence, i % 2));
    }
    cr_expect(not(has_note(graph, "differ")));
    graph_destroy(graph);
    unlink(paths[0]);
    unlink(paths[1]);
}

Test(collectives, ranks_that_disagree_are_told)
{
    const char *paths[] = { rank_file(0, COLLECTIVE(1, 10, 10, "allreduce",
                                                    5) "," COLLECTIVE(2, 30, 50, "allreduce", 7)),
                            rank_file(1, COLLECTIVE(1, 10, 40, "allreduce", 6)) };
    struct graph *graph = read_step(paths, 2, -1);
    cr_expect(has_note(graph, "1 collectives differ in kind or size"));
    cr_expect(has_note(graph, "1 collectives of the whole run are missing in some"));
    graph_destroy(graph);
    unlink(paths[0]);
    unlink(paths[1]);
}
