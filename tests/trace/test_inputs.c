/* Inputs other than the profiler traces of our own runs: execution traces, Chakra, rocprofv3, public profiler traces of every
 * vintage, folders of ranks. What must come out is counted in the file itself (tests/fixtures/traces/README.md). */
#include "tests/trace/trace_test.h"
#include "workloads/trace/trace_internal.h"
#include <math.h>
#include <sys/stat.h>

#define PUBLIC(name) FIXTURE("public/" name)

static double sum_us(const struct graph *graph)
{
    double us = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        us += graph_is_device(&graph->nodes[i]) ? graph->nodes[i].traced_us : 0;
    }
    return us;
}

static size_t count_recognition(const struct graph *graph, enum graph_recognition how)
{
    size_t count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        count += graph_is_device(&graph->nodes[i]) && graph->nodes[i].recognition == (uint32_t)how;
    }
    return count;
}

/* ---- public profiler traces ------------------------------------------------------------------------------------- */

struct vintage {
    char file[64];
    double events, us; /* kernels, copies and fills of the step taken; their sum */
};
ParameterizedTestParameters(inputs, profiler_traces_of_every_vintage)
{
    static struct vintage cases[] = {
        { "odd_large_integer_rank70.json.gz", 1, 50 },                        /* an argument of 10159970886766084423 */
        { "odd_old_schema_capitalised_categories.json.gz", 32, 50 },          /* "Kernel", "Operator", "Runtime" */
        { "odd_tiny_backward_thread.json", 1, 45 },
        { "mi210_gpu_only.json.gz", 562, 5343 },                              /* no host side */
        { "mi250_minitoy_rocm6.2.json.gz", 16, 149 },                         /* ROCm 6.2; the last of two steps */
        { "mi3xx_vllm_decode_graph_replay.json.gz", 434, 10720 },             /* captured graph, no device name */
        { "benchmark_simple_add_trace.json.gz", 4, 16 },
        { "worker0_step_12.1694128201545.pt.trace.json.gz", 245 + 16, 6851 }, /* one rank of 8 */
    };
    return cr_make_param_array(struct vintage, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct vintage *c, inputs, profiler_traces_of_every_vintage)
{
    char path[300];
    snprintf(path, sizeof path, PUBLIC("%s"), c->file);
    struct graph *graph = read_one(path);
    cr_expect(eq(dbl, (double)(count_kind(graph, GRAPH_KERNEL) + count_kind(graph, GRAPH_COLLECTIVE)), c->events), "%s", c->file);
    cr_expect(epsilon_eq(dbl, sum_us(graph), c->us, 0.005 * c->us + 0.5), "%s", c->file);
    graph_destroy(graph);
}

Test(inputs, trace_without_gpu_events_is_refused_in_a_line)
{
    struct sim_error error = read_fails(PUBLIC("odd_cpu_only_gloo_ws300_rank34.json.gz"));
    cr_expect(strstr(error.text, "no kernels in the trace (30 events") != NULL, "%s", error.text);
}

/* ---- rocprofv3 -------------------------------------------------------------------------------------------------- */

/* 150 dispatches over 5 queues, 9321.177 us together; the grid counts work items. */
Test(inputs, rocprofv3_dispatches)
{
    struct graph *graph = read_one(PUBLIC("mi350x_rocprofv3_150_dispatches.json.gz"));
    cr_expect(eq(sz, count_kind(graph, GRAPH_KERNEL) + count_kind(graph, GRAPH_COLLECTIVE), 150));
    cr_expect(epsilon_eq(dbl, sum_us(graph), 9321.177, 0.01));
    cr_expect(eq(u32, graph->ranks[0].stream_count, 5));
    cr_expect(eq(str, graph->device_title, "AMD Instinct MI350X"));
    graph_destroy(graph);
    const char *path = write_text(
        "{\"rocprofiler-sdk-tool\": [{\"buffer_records\": {\"kernel_dispatch\": [{\"start_timestamp\": 9007199254740993, "
        "\"end_timestamp\": 9007199254741994, \"dispatch_info\": {\"agent_id\": {\"handle\": 1}, \"queue_id\": {\"handle\": 2}, "
        "\"kernel_id\": 8, \"workgroup_size\": {\"x\": 256, \"y\": 1, \"z\": 1}, \"grid_size\": {\"x\": 1000, \"y\": 2, \"z\": 1}}}, "
        "{\"start_timestamp\": 5, \"end_timestamp\": 4, \"dispatch_info\": {}}]}, "
        "\"kernel_symbols\": [{\"kernel_id\": 8, \"kernel_name\": \"late\"}]}]}");
    struct trace_file *file;
    struct sim_error error;
    cr_assert(rocprof_file_read(path, &file, &error) == SIM_OK, "%s", error.text);
    unlink(path);
    cr_assert(eq(sz, file->event_count, 1)); /* the other ends before it begins */
    cr_expect(eq(sz, file->impossible_count, 1));
    cr_expect(eq(i64, file->events[0].duration_ns, 1001)); /* doubles would give 1000 or 1002: beyond 2^53 */
    cr_expect(eq(str, (char *)file->events[0].name, "late"));
    cr_expect(eq(str, (char *)((const struct trace_device_args *)file->events[0].args)->grid, "[4,2,1]"));
    trace_file_destroy(file);
}

/* ---- execution traces ------------------------------------------------------------------------------------------- */

/* One rank of 8: five all-to-alls, three all-reduces; splits of the third all-to-all as recorded. */
Test(inputs, execution_trace_alone)
{
    struct graph *graph = read_one(PUBLIC("dlrm_eg_0.json.gz"));
    size_t exchanges = 0, reductions = 0;
    bool uneven = false;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_collective *c = graph->nodes[i].kind == GRAPH_COLLECTIVE ? graph->nodes[i].collective : NULL;
        exchanges += c != NULL && strcmp(c->kind, "all_to_all") == 0;
        reductions += c != NULL && strcmp(c->kind, "all_reduce") == 0;
        if (c != NULL && c->bytes == 3392 * 4) { /* [96, 224, 288, 1664, 592, 96, 192, 240] int32 */
            cr_assert(c->split_bytes_to != NULL);
            uneven = c->split_bytes_to[3] == 1664 * 4 && c->split_bytes_to[0] == 96 * 4;
        }
    }
    cr_expect(eq(sz, exchanges, 5));
    cr_expect(eq(sz, reductions, 3));
    cr_expect(uneven);
    cr_expect(eq(sz, count_recognition(graph, GRAPH_REPLAYED), 0)); /* nothing of no time */
    cr_expect(has_note(graph, "schema 1.0.1"));
    cr_expect(has_note(graph, "8 assumed"));
    graph_destroy(graph);
}

/* The profiler trace lacks what its collectives carry; the execution trace of the same rank has it. */
Test(inputs, execution_trace_joined_to_its_profiler_trace)
{
    const char *paths[] = { PUBLIC("dlrm_eg_0.json.gz"), PUBLIC("worker0_step_12.1694128201545.pt.trace.json.gz") };
    struct graph *alone = read_one(paths[1]), *joined = read_step(paths, 2, -1);
    cr_expect(eq(u32, joined->rank_count, 1));
    cr_expect(has_note(joined, "joined: 1633 of 1633 operators"));
    cr_expect(epsilon_eq(dbl, sum_us(joined), sum_us(alone), 1e-6)); /* times stay the profiler's */
    cr_expect(lt(sz, count_recognition(joined, GRAPH_REPLAYED), count_recognition(alone, GRAPH_REPLAYED)));
    graph_destroy(alone);
    graph_destroy(joined);
}

/* Two of eight ranks, each with its execution trace: joined by the ranks in their names. */
Test(inputs, ranks_and_their_execution_traces_in_any_order)
{
    const char *paths[] = { PUBLIC("dlrm_eg_1.json.gz"), PUBLIC("worker0_step_12.1694128201545.pt.trace.json.gz"),
                            PUBLIC("dlrm_eg_0.json.gz"), PUBLIC("worker1_step_12.1694128201556.pt.trace.json.gz") };
    struct graph *graph = read_step(paths, 4, -1);
    cr_expect(eq(u32, graph->rank_count, 2));
    cr_expect(eq(u32, graph->world_size, 8));
    cr_expect(has_note(graph, "rank 0: execution trace dlrm_eg_0.json.gz"));
    cr_expect(has_note(graph, "rank 1: execution trace dlrm_eg_1.json.gz"));
    graph_destroy(graph);
}

/* Both forms of a node say the same: flat up to schema 1.0.1, nested with attrs from 1.0.2 on. */
static void expect_one_product(const char *text)
{
    const char *path = write_text(text);
    struct graph *graph = read_one(path);
    unlink(path);
    cr_assert(eq(sz, count_kind(graph, GRAPH_KERNEL), 1));
    const struct graph_node *kernel = nth(graph, GRAPH_KERNEL, 0);
    cr_expect(eq(str, (char *)kernel->operator_name, "aten::mm"));
    cr_expect(eq(str, (char *)kernel->suite, "gemm"));
    cr_expect(strstr(kernel->params, "M=64;N=32;K=128") != NULL, "%s", kernel->params);
    graph_destroy(graph);
}

#define MM_VALUES "[[1,2,0,8192,4,\"cuda:0\"],[3,4,0,4096,4,\"cuda:0\"]]"
#define MM_RESULT "[[5,6,0,2048,4,\"cuda:0\"]]"
Test(inputs, execution_trace_schemas)
{
    expect_one_product("{\"schema\": \"1.0.1\", \"nodes\": [{\"name\": \"aten::mm\", \"id\": 7, \"rf_id\": 1, \"parent\": 2, "
                       "\"tid\": 1, \"op_schema\": \"aten::mm(Tensor self, Tensor mat2) -> Tensor\", \"inputs\": " MM_VALUES
                       ", \"input_shapes\": [[64,128],[128,32]], \"input_types\": [\"Tensor(float)\",\"Tensor(float)\"], "
                       "\"outputs\": " MM_RESULT ", \"output_shapes\": [[64,32]], \"output_types\": [\"Tensor(float)\"]}]}");
    static const char *const schemas[] = { "1.0.3-chakra.0.0.4", "1.1.0-chakra.0.0.4", "1.1.1-chakra.0.0.4" };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        char text[2000];
        snprintf(text, sizeof text,
                 "{\"schema\": \"%s\", \"pid\": 1, \"nodes\": [{\"id\": 7, \"name\": \"aten::mm\", \"ctrl_deps\": 2, \"inputs\": "
                 "{\"values\": " MM_VALUES ", \"shapes\": [[64,128],[128,32]], \"types\": [\"Tensor(float)\",\"Tensor(float)\"]%s}, "
                 "\"outputs\": {\"values\": " MM_RESULT ", \"shapes\": [[64,32]], \"types\": [\"Tensor(float)\"]}, \"attrs\": "
                 "[{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": 1}, {\"name\": \"tid\", \"type\": \"uint64\", \"value\": 1}, "
                 "{\"name\": \"op_schema\", \"type\": \"string\", \"value\": \"aten::mm(Tensor self, Tensor mat2) -> Tensor\"}]}]}",
                 schemas[i], i > 0 ? ", \"strides\": [[128,1],[32,1]]" : "");
        expect_one_product(text);
    }
}

/* A tensor's parent chain may be wrong in every way: nothing loops, nothing is lost. */
Test(inputs, execution_trace_whose_nodes_are_their_own_parents)
{
    const char *path = write_text(
        "{\"schema\": \"1.0.1\", \"nodes\": [{\"name\": \"a\", \"id\": 1, \"parent\": 2}, {\"name\": \"b\", \"id\": 2, \"parent\": 1}, "
        "{\"name\": \"aten::neg\", \"id\": 3, \"parent\": 3, \"op_schema\": \"x\", \"inputs\": [[1,2,0,64,4,\"cuda:0\"]], "
        "\"input_shapes\": [[64]], \"input_types\": [\"Tensor(float)\"], \"outputs\": []}]}");
    struct graph *graph = read_one(path);
    unlink(path);
    cr_expect(eq(sz, count_kind(graph, GRAPH_KERNEL), 1));
    graph_destroy(graph);
}

/* ---- Chakra ----------------------------------------------------------------------------------------------------- */

/* 10 us, an all-reduce of 4 MiB, 10 us, in a chain. */
Test(inputs, chakra_control)
{
    struct graph *graph = read_one(FIXTURE("field/ok-minimal.et"));
    cr_assert(eq(sz, count_kind(graph, GRAPH_KERNEL), 2));
    cr_assert(eq(sz, count_kind(graph, GRAPH_COLLECTIVE), 1));
    const struct graph_node *reduce = nth(graph, GRAPH_COLLECTIVE, 0);
    cr_expect(eq(str, reduce->collective->kind, "all_reduce"));
    cr_expect(eq(dbl, reduce->collective->bytes, 4194304));
    cr_expect(eq(sz, count_kind(graph, GRAPH_EVENT_WAIT), 2)); /* there and back */
    cr_expect(eq(dbl, sum_us(graph), 30)); /* the file states 10 us for the all-reduce too */
    cr_expect(graph->ideal_issue);
    graph_destroy(graph);
}

Test(inputs, chakra_cycle_is_named) /* H28 */
{
    struct sim_error error = read_fails(FIXTURE("field/h28-cycle.et"));
    cr_expect(strstr(error.text, "cycle of 3") != NULL, "%s", error.text);
    cr_expect(strstr(error.text, "2 'b'") != NULL && strstr(error.text, "3 'c'") != NULL && strstr(error.text, "4 'd'") != NULL, "%s",
              error.text);
}

Test(inputs, chakra_deep_chain) /* H29: 5,000 nodes of 1 us */
{
    struct graph *graph = read_one(FIXTURE("field/h29-deep-chain.et.gz"));
    cr_expect(eq(sz, count_kind(graph, GRAPH_KERNEL), 5000));
    cr_expect(eq(dbl, graph->traced_step_us, 5000));
    graph_destroy(graph);
}

Test(inputs, chakra_dangling_dependency_is_named) /* H30 */
{
    struct graph *graph = read_one(FIXTURE("field/h30-dangling-dep.et"));
    cr_expect(eq(dbl, graph->traced_step_us, 20));
    cr_expect(has_note(graph, "taken as satisfied, first node 5 on 0"));
    graph_destroy(graph);
}

Test(inputs, chakra_sizes_of_either_type) /* H43: int64 in one node, uint64 in the other */
{
    struct graph *graph = read_one(FIXTURE("field/h43-comm-size-types.et"));
    cr_assert(eq(sz, count_kind(graph, GRAPH_COLLECTIVE), 2));
    cr_expect(eq(dbl, nth(graph, GRAPH_COLLECTIVE, 0)->collective->bytes, 4194304));
    cr_expect(eq(dbl, nth(graph, GRAPH_COLLECTIVE, 1)->collective->bytes, 4194304));
    graph_destroy(graph);
}

/* A varint-framed message. */
struct message {
    unsigned char bytes[200];
    size_t length;
};

static void put_varint(struct message *m, uint64_t value)
{
    do {
        m->bytes[m->length++] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value != 0);
}

static void put_number(struct message *m, unsigned field, uint64_t value)
{
    put_varint(m, field << 3);
    put_varint(m, value);
}

static size_t write_message(FILE *file, const struct message *m)
{
    struct message head = { { 0 }, 0 };
    put_varint(&head, m->length);
    fwrite(head.bytes, 1, head.length, file);
    return fwrite(m->bytes, 1, m->length, file);
}

static FILE *begin_chakra(char *path)
{
    static const struct message metadata = { { 0x0a, 1, '0' }, 3 };
    strcpy(path, "/tmp/reckon_chain_XXXXXX");
    FILE *file = fdopen(mkstemp(path), "wb");
    cr_assert(file != NULL);
    write_message(file, &metadata);
    return file;
}

/* A million nodes, each depending on the one before: no recursion anywhere, the reader's or the graph's. */
Test(inputs, chakra_chain_of_a_million)
{
    char path[64];
    FILE *file = begin_chakra(path);
    for (uint64_t i = 1; i <= 1000000; i++) {
        struct message m = { { 0 }, 0 };
        put_number(&m, 1, i);
        put_number(&m, 3, 4);
        if (i > 1) {
            put_number(&m, 5, i - 1);
        }
        put_number(&m, 7, 1);
        write_message(file, &m);
    }
    fclose(file);
    struct graph *graph = read_one(path);
    unlink(path);
    cr_expect(eq(sz, count_kind(graph, GRAPH_KERNEL), 1000000));
    cr_expect(eq(dbl, graph->traced_step_us, 1e6));
    graph_destroy(graph);
}

Test(inputs, chakra_wrong_bytes)
{
    char path[64];
    FILE *file = begin_chakra(path);
    fputc(0x05, file); /* five bytes promised, two there */
    fwrite("\x08\x01", 1, 2, file);
    fclose(file);
    struct sim_error error = read_fails(path);
    cr_expect(strstr(error.text, "the file ends in message 1 at byte 5") != NULL, "%s", error.text);
    unlink(path);
    file = begin_chakra(path);
    fwrite("\xff\xff\xff\xff\x7f", 1, 5, file); /* 32 GiB promised */
    fclose(file);
    error = read_fails(path);
    cr_expect(strstr(error.text, "at most 16 MiB") != NULL, "%s", error.text);
    unlink(path);
}

Test(inputs, chakra_two_nodes_of_one_id)
{
    char path[64];
    FILE *file = begin_chakra(path);
    for (int i = 0; i < 2; i++) {
        struct message m = { { 0 }, 0 };
        put_number(&m, 1, 9);
        put_number(&m, 3, 4);
        put_number(&m, 7, 1);
        write_message(file, &m);
    }
    fclose(file);
    struct sim_error error = read_fails(path);
    cr_expect(strstr(error.text, "two nodes have the id 9") != NULL, "%s", error.text);
    unlink(path);
}

/* A ring all-reduce of 8 as sends and receives, a folder of 8 files: 14 steps of 131,072 B on each rank, both ways. */
Test(inputs, chakra_folder_of_ranks)
{
    struct graph *graph = read_one(PUBLIC("ring8"));
    cr_expect(eq(u32, graph->rank_count, 8));
    size_t exchanges = count_kind(graph, GRAPH_COLLECTIVE);
    cr_expect(eq(sz, exchanges % 16, 0)); /* as many sends as receives, the same on each rank */
    cr_expect(gt(sz, exchanges, 0));
    for (size_t i = 0; i < exchanges; i++) {
        cr_expect(eq(str, nth(graph, GRAPH_COLLECTIVE, i)->collective->kind, "send_recv"));
    }
    graph_destroy(graph);
}

/* 7 nodes as JSON; those of the device are a copy of 4 us and a broadcast of 28 us. */
Test(inputs, chakra_as_json)
{
    struct graph *graph = read_one(PUBLIC("chakra_jsonised_small.0.json"));
    cr_expect(eq(sz, count_kind(graph, GRAPH_HOST_OP), 5));
    cr_expect(eq(sz, count_kind(graph, GRAPH_KERNEL), 1));
    cr_expect(eq(dbl, sum_us(graph), 32));
    cr_expect(eq(u32, graph->world_size, 8)); /* "ngpus" */
    cr_expect(has_note(graph, "of 0 bytes"));
    graph_destroy(graph);
}

/* ---- folders and names ------------------------------------------------------------------------------------------ */

/* rank10 comes behind rank9; a space and letters beyond ASCII are bytes like others. */
Test(inputs, folder_of_twelve_ranks)
{
    char folder[64] = "/tmp/reckon r\xc3\xa4nke XXXXXX", path[128];
    cr_assert(mkdtemp(folder) != NULL);
    for (int r = 0; r < 12; r++) {
        snprintf(path, sizeof path, "%s/rank%d.json", folder, r);
        FILE *file = fopen(path, "w");
        fprintf(file, "{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":%d}]}", r + 1);
        fclose(file);
    }
    struct graph *graph = read_one(folder);
    cr_expect(eq(u32, graph->rank_count, 12));
    for (uint32_t r = 0; r < 12; r++) {
        cr_expect(eq(u32, graph->ranks[r].rank_id, r));
        cr_expect(eq(dbl, graph->ranks[r].traced_busy_us, r + 1));
        snprintf(path, sizeof path, "%s/rank%u.json", folder, r);
        unlink(path);
    }
    graph_destroy(graph);
    rmdir(folder);
}

/* A recording that ends earlier on one rank leaves it another last step. */
Test(inputs, ranks_of_different_steps_are_told)
{
    char text[2][400];
    const char *paths[2];
    for (int r = 0; r < 2; r++) {
        snprintf(text[r], sizeof text[r],
                 "{\"distributedInfo\": {\"rank\": %d, \"world_size\": 2}, \"traceEvents\": [{\"ph\":\"X\",\"cat\":\"user_annotation\","
                 "\"name\":\"ProfilerStep#%d\",\"ts\":0,\"dur\":9}, {\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":1}]}",
                 r, 5 - r);
        paths[r] = write_text(text[r]);
    }
    struct graph *graph = read_step(paths, 2, -1);
    cr_expect(has_note(graph, "rank 1: its last complete step is ProfilerStep#4, that of the first file ProfilerStep#5"));
    graph_destroy(graph);
    unlink(paths[0]);
    unlink(paths[1]);
}

Test(inputs, two_files_of_one_rank_are_refused)
{
    const char *first = write_text("{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":1}]}");
    const char *paths[] = { first, first };
    struct trace_options options = { .step = -1 };
    struct graph *graph;
    struct sim_error error;
    cr_assert(trace_read(paths, 2, &options, &graph, &error) != SIM_OK);
    cr_expect(strstr(error.text, "are both rank 0") != NULL, "%s", error.text);
    unlink(first);
}
