/* Which stream waits for which: inferred for a data-parallel step, from what the profiler says, and not at all where device
 * times contradict it. The events follow what PyTorch 2.11 with NCCL records. */
#include "tests/trace/trace_test.h"

static char events[20000];

static void begin(void)
{
    strcpy(events, "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":"
                   "1,\"ts\":0,\"dur\":1000}");
}

static void host(const char *category, const char *name, double start, double duration, int correlation)
{
    sprintf(events + strlen(events),
            ",{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":%g,\"dur\":%g,\"args\":"
            "{\"correlation\":%d}}",
            category, name, start, duration, correlation);
}

static void call(const char *name, double start)
{
    host("cuda_runtime", name, start, 0.5, (int)(1000 + 2 * start));
}

static void launch(const char *kernel, int stream, double start, double device_start, double device_duration)
{
    int correlation = (int)start;
    host("cuda_runtime", "cudaLaunchKernel", start, 0.5, correlation);
    sprintf(events + strlen(events),
            ",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":0,\"tid\":%d,\"ts\":%g,\"dur\":%g,"
            "\"args\":{\"device\":0,\"stream\":%d,"
            "\"correlation\":%d}}",
            kernel, stream, device_start, device_duration, stream, correlation);
}

/* One bucket as the process group issues it at `start`: 20 us of calls. */
static void all_reduce(double start, double device_start, double device_duration)
{
    host("cpu_op", "record_param_comms", start, 20, 0);
    call("cudaEventRecordWithFlags", start + 1); /* the compute stream so far */
    call("cudaStreamWaitEvent", start + 2);      /* the communication stream waits for it */
    host("user_annotation", "nccl:all_reduce", start + 3, 16, 0);
    call("cudaEventRecord", start + 4); /* the library's own from here */
    call("cudaStreamWaitEvent", start + 5);
    launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 17, start + 6, device_start, device_duration);
    call("cudaEventRecord", start + 7);
    call("cudaStreamWaitEvent", start + 8);
    call("cudaEventRecordWithFlags", start + 9); /* end of the collective */
}

static void expect_wait(const struct graph *graph, size_t n, uint32_t stream, const char *behind)
{
    const struct graph_node *wait = nth(graph, GRAPH_EVENT_WAIT, n);
    const struct graph_node *record = &graph->nodes[wait->waits_for];
    cr_expect(eq(u32, wait->stream, stream), "wait %zu", n);
    uint32_t before = wait->waits_for;
    while (!graph_is_device(&graph->nodes[before]) || graph->nodes[before].stream != record->stream) {
        cr_assert(before > 0);
        before--;
    }
    cr_expect(eq(str, (char *)graph->nodes[before].name, (char *)behind), "wait %zu", n);
}

/* Two gradients, a bucket each; the optimiser's kernel waits for both. Stream 0 computes, stream 1 communicates. */
Test(stream_waits, buckets_wait_for_gradients_and_the_optimiser_for_buckets)
{
    begin();
    launch("grad_a", 7, 10, 20, 30);
    all_reduce(12, 51, 100);
    launch("grad_b", 7, 40, 60, 30);
    all_reduce(42, 152, 100);
    call("cudaStreamWaitEvent", 70);
    call("cudaStreamWaitEvent", 72);
    launch("adam", 7, 80, 260, 10);
    struct graph *graph = read_events(events);
    cr_assert(eq(sz, count_kind(graph, GRAPH_EVENT_WAIT), 4));
    cr_assert(eq(sz, count_kind(graph, GRAPH_EVENT_RECORD), 4));
    expect_wait(graph, 0, 1, "grad_a");
    expect_wait(graph, 1, 1, "grad_b");
    expect_wait(graph, 2, 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    cr_expect(lt(u32, nth(graph, GRAPH_EVENT_WAIT, 2)->waits_for,
                 nth(graph, GRAPH_EVENT_WAIT, 3)->waits_for)); /* oldest first */
    expect_wait(graph, 3, 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    cr_expect(eq(sz, count_kind(graph, GRAPH_COLLECTIVE), 2));
    graph_destroy(graph);
}

/* All on one stream: nothing to order, the calls are part of their operator's time (20 - 2 launches of 0.5). */
Test(stream_waits, one_stream_needs_no_events)
{
    begin();
    launch("grad", 17, 10, 20, 30);
    all_reduce(12, 51, 100);
    struct graph *graph = read_events(events);
    cr_expect(eq(sz, count_kind(graph, GRAPH_EVENT_WAIT) + count_kind(graph, GRAPH_EVENT_RECORD), 0));
    cr_expect(eq(dbl, nth(graph, GRAPH_HOST_OP, 0)->traced_us, 19.5));
    graph_destroy(graph);
}

/* The kernel behind the wait began long before the collective ended: the wait was for something else. */
Test(stream_waits, contradicted_guess_is_dropped_and_told)
{
    begin();
    launch("grad", 7, 10, 20, 30);
    all_reduce(12, 51, 500);
    call("cudaStreamWaitEvent", 70);
    launch("early", 7, 80, 100, 10);
    struct graph *graph = read_events(events);
    cr_expect(eq(sz, count_kind(graph, GRAPH_EVENT_WAIT), 1)); /* only the bucket's */
    cr_expect(has_note(graph, "1 stream wait whose event the trace does not name left out"));
    graph_destroy(graph);
}

/* A side stream: record on one, wait on the other right behind it. */
Test(stream_waits, record_and_wait_side_by_side_join_two_streams)
{
    begin();
    launch("copy_in", 7, 10, 20, 30);
    call("cudaEventRecordWithFlags", 12);
    call("cudaStreamWaitEvent", 14);
    launch("lookup", 9, 20, 51, 10);
    struct graph *graph = read_events(events);
    cr_assert(eq(sz, count_kind(graph, GRAPH_EVENT_WAIT), 1));
    expect_wait(graph, 0, 1, "copy_in");
    graph_destroy(graph);
}

/* HIP records waits and no records: they are taken to stand behind the launches. */
Test(stream_waits, absent_records_are_made_up)
{
    begin();
    launch("grad", 7, 10, 20, 30);
    host("cpu_op", "record_param_comms", 12, 20, 0);
    call("hipStreamWaitEvent", 14);
    launch("ncclDevKernel_Generic_AllReduce", 17, 18, 51, 100);
    call("hipStreamWaitEvent", 70);
    launch("adam", 7, 80, 260, 10);
    struct graph *graph = read_events(events);
    cr_assert(eq(sz, count_kind(graph, GRAPH_EVENT_WAIT), 2));
    expect_wait(graph, 0, 1, "grad");
    expect_wait(graph, 1, 0, "ncclDevKernel_Generic_AllReduce");
    graph_destroy(graph);
}

/* Without records: an operator's collective on its own stream, whose end nothing in the step waits for, then a gradient and its
 * all-reduce. The optimiser's wait is for the one as whose end its kernel began (151), not for the older. */
Test(stream_waits, device_times_say_which_end_was_awaited)
{
    begin();
    launch("first", 7, 2, 4, 1);
    host("cpu_op", "record_param_comms", 12, 6, 0);
    call("cudaStreamWaitEvent", 13);
    launch("ncclKernel_SendRecv_RING_SIMPLE", 17, 15, 20, 10);
    launch("grad", 7, 30, 40, 10);
    host("cpu_op", "record_param_comms", 42, 6, 0);
    call("cudaStreamWaitEvent", 43);
    launch("ncclKernel_AllReduce_RING_LL_Sum_float", 17, 45, 51, 100);
    call("cudaStreamWaitEvent", 60);
    launch("adam", 7, 80, 155, 10);
    struct graph *graph = read_events(events);
    size_t last = count_kind(graph, GRAPH_EVENT_WAIT) - 1;
    expect_wait(graph, last, 0, "ncclKernel_AllReduce_RING_LL_Sum_float");
    graph_destroy(graph);
}

/* cuda_sync names both streams of a wait: 9 waits for 7, though its next launch would say otherwise. */
Test(stream_waits, named_streams_are_believed)
{
    begin();
    launch("a", 7, 10, 20, 30);
    call("cudaEventRecord", 12);
    call("cudaStreamWaitEvent", 14);
    strcat(events, ",{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait "
                   "Event\",\"pid\":0,\"tid\":9,\"ts\":14,\"dur\":0.5,\"args\":"
                   "{\"stream\":9,\"wait_on_stream\":7,\"correlation\":1028}}");
    launch("b", 7, 20, 51, 10);
    launch("c", 9, 30, 70, 10);
    struct graph *graph = read_events(events);
    cr_assert(eq(sz, count_kind(graph, GRAPH_EVENT_WAIT), 1));
    expect_wait(graph, 0, 1, "a");
    graph_destroy(graph);
}

/* A sharded layer as FSDP runs it: cast on one stream, gather on another, compute on a third; the gather is launched on the
 * caller's stream, so its operator does not wait. Gather waits for the cast, compute for the gather. */
Test(stream_waits, sharded_parameters_are_gathered_before_use)
{
    begin();
    launch("embedding", 7, 10, 20, 30);
    launch("cast_shard", 21, 20, 30, 5);
    call("cudaEventRecordWithFlags", 22);
    call("cudaStreamWaitEvent", 24);
    host("cpu_op", "record_param_comms", 30, 20, 0);
    host("user_annotation", "nccl:_all_gather_base", 31, 16, 0);
    call("cudaEventRecord", 32);
    call("cudaStreamWaitEvent", 33);
    launch("ncclDevKernel_AllGather_RING_LL", 25, 34, 40, 60);
    call("cudaEventRecord", 36);
    call("cudaEventRecordWithFlags", 37);
    call("cudaEventRecordWithFlags", 52);
    call("cudaStreamWaitEvent", 54);
    launch("layer", 7, 60, 101, 10);
    struct graph *graph = read_events(events);
    cr_assert(eq(sz, count_kind(graph, GRAPH_EVENT_WAIT), 2));
    expect_wait(graph, 0, 2, "cast_shard");
    expect_wait(graph, 1, 0, "ncclDevKernel_AllGather_RING_LL");
    graph_destroy(graph);
}

/* A record made early and waited for late, with a record of the waiting stream in between. */
Test(stream_waits, late_wait_finds_the_latest_record_elsewhere)
{
    begin();
    launch("prefetch", 9, 10, 20, 30);
    call("cudaEventRecord", 12);
    launch("compute", 7, 20, 20, 40);
    call("cudaEventRecord", 22);
    launch("more", 7, 30, 61, 5);
    call("cudaStreamWaitEvent", 34);
    launch("uses_both", 7, 40, 70, 10);
    struct graph *graph = read_events(events);
    cr_assert(eq(sz, count_kind(graph, GRAPH_EVENT_WAIT), 1));
    expect_wait(graph, 0, 1, "prefetch");
    graph_destroy(graph);
}

/* A stream synchronisation is of the stream launched on last; the time of the call is not the host's own work to keep. */
Test(stream_waits, stream_sync_is_of_the_last_stream)
{
    begin();
    launch("a", 7, 10, 20, 30);
    launch("b", 9, 20, 51, 10);
    call("cudaStreamSynchronize", 30);
    struct graph *graph = read_events(events);
    const struct graph_node *sync = nth(graph, GRAPH_HOST_SYNC, 0);
    cr_expect(eq(int, sync->sync, GRAPH_SYNC_STREAM));
    cr_expect(eq(u32, sync->waits_for, 1));
    graph_destroy(graph);
}

Test(stream_waits, event_sync_waits_for_the_last_record)
{
    begin();
    launch("a", 7, 10, 20, 30);
    call("cudaEventRecord", 12);
    call("cudaEventSynchronize", 14);
    struct graph *graph = read_events(events);
    const struct graph_node *sync = nth(graph, GRAPH_HOST_SYNC, 0);
    cr_expect(eq(int, sync->sync, GRAPH_SYNC_EVENT));
    cr_expect(eq(u32, sync->waits_for, index_of(graph, nth(graph, GRAPH_EVENT_RECORD, 0))));
    graph_destroy(graph);
}
