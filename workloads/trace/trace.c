/* trace_read: rank files -> one graph. Files are read, joined and let go one after another, so that only the graph and one
 * file's events are held. */
#include "workloads/trace/kineto.h"
#include "workloads/trace/rank_files_internal.h"
#include "workloads/trace/trace_internal.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPERATORS_MAX 64      /* around one launch */
#define WORLD_ASSUMED 8       /* ranks of a run whose files do not say: one node of today's machines */
#define OVERLAP_SLACK_NS 1000 /* time stamps of neighbours on a stream overlap by less in sound recordings */

/* One rank on its way into the graph. */
struct rank_builder {
    struct graph *graph;
    struct host_step *step;
    size_t first_node;     /* of this rank in the graph */
    struct arena *scratch; /* parsed operator arguments; lives as long as the rank's file */
    uint32_t rank;         /* index in order of reading */
    char label[32];        /* "" or "rank 3: ", before each note */
    uint32_t *node_of_item;
    double dense_parameters, dense_parameter_tensors;
    double recognised_us, by_bytes_us, replayed_us;
    size_t recognised_count, by_bytes_count, replayed_count;
    const char *assumptions[32]; /* distinct, in order of appearance */
    size_t assumption_counts[32];
    size_t assumption_count;
    size_t unknown_collectives, empty_collectives;
    double unknown_collective_us;
    const char *unknown_collective;
    int64_t host_clock_ns; /* end of the outermost host work so far */
};

static void note(struct rank_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct rank_builder *b, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    graph_note(b->graph, "%s%s", b->label, text);
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* ---- device nodes ---------------------------------------------------------------------------------------------- */

static double us(int64_t ns)
{
    return (double)ns / 1000;
}

static double workgroups(const struct trace_event *event)
{
    const struct trace_device_args *args = event->args;
    uint64_t grid[3];
    return dims_parse(args->grid, grid, 3) ? (double)grid[0] * (double)grid[1] * (double)grid[2] : 0;
}

/* Part of the workgroups of all kernels of this name under the same operator call. */
static double grid_share(const struct host_step *step, uint32_t device)
{
    const struct trace_event *event = step->device[device].event;
    uint32_t parent = step->items[step->device[device].launch].parent;
    double own = workgroups(event), all = 0;
    if (parent == TRACE_NONE || own == 0) {
        return 1;
    }
    uint32_t first = device;
    while (first > 0 && step->items[step->device[first - 1].launch].parent == parent) {
        first--;
    }
    for (uint32_t i = first; i < step->device_count && step->items[step->device[i].launch].parent == parent;
         i++) {
        all += step->device[i].event->name == event->name ? workgroups(step->device[i].event) : 0;
    }
    return own / all;
}

/* The kernels launched next under the same operator call. */
static void find_after(const struct host_step *step, uint32_t device, struct kernel_site *site)
{
    uint32_t parent = step->items[step->device[device].launch].parent;
    for (uint32_t i = device + 1;
         parent != TRACE_NONE && i < step->device_count && site->after_count < SITE_AFTER_MAX &&
         step->items[step->device[i].launch].parent == parent;
         i++) {
        const struct trace_event *event = step->device[i].event;
        const struct trace_device_args *args = event->args;
        struct site_kernel *after = &site->after[site->after_count++];
        after->name = event->name;
        dims_parse(args->grid, after->grid, 3);
        dims_parse(args->block, after->block, 3);
    }
}

static void remember_assumption(struct rank_builder *b, const char *text)
{
    for (size_t i = 0; i < b->assumption_count; i++) {
        if (strcmp(b->assumptions[i], text) == 0) {
            b->assumption_counts[i]++;
            return;
        }
    }
    if (b->assumption_count < sizeof b->assumptions / sizeof b->assumptions[0]) {
        b->assumption_counts[b->assumption_count] = 1;
        b->assumptions[b->assumption_count++] = text;
    }
}

static void recognise(struct rank_builder *b, uint32_t device, struct graph_node *node)
{
    const struct host_step *step = b->step;
    const struct trace_event *event = step->device[device].event;
    const struct trace_device_args *args = event->args;
    struct site_operator operators[OPERATORS_MAX];
    struct kernel_site site = {
        .name = event->name,
        .category = event->category,
        .bytes = args->bytes,
        .traced_us = node->traced_us,
        .operators = operators,
        .grid_share = 1,
        .dense_parameters = b->dense_parameters,
        .dense_parameter_tensors = b->dense_parameter_tensors,
    };
    /* Around the launch of a captured graph stands an operator whose tensors are the whole graph's: they say nothing of one kernel. */
    const struct host_item *launch = &step->items[step->device[device].launch];
    bool captured = launch->device_count > 1 || (launch->event != NULL && strstr(launch->event->name, "GraphLaunch") != NULL);
    for (uint32_t i = launch->parent; !captured && i != TRACE_NONE && site.operator_count < OPERATORS_MAX; i = step->items[i].parent) {
        operators[site.operator_count++] = (struct site_operator){ step->items[i].event->name,
                                                                   step->items[i].event->args };
    }
    if (dims_parse(args->grid, site.grid, 3) && dims_parse(args->block, site.block, 3)) {
        site.grid_share = grid_share(step, device);
    }
    if (device > 0 && site.operator_count > 0 &&
        step->items[step->device[device - 1].launch].parent ==
            step->items[step->device[device].launch].parent) {
        const struct trace_event *before = step->device[device - 1].event;
        const struct trace_device_args *before_args = before->args;
        site.before_name = before->name;
        dims_parse(before_args->grid, site.before_grid, 3);
    }
    if (site.operator_count > 0) {
        find_after(step, device, &site);
    }
    struct kernel_recognition r;
    kernel_recognise(&site, b->scratch, &r);
    node->recognition = r.how;
    node->category = graph_intern(b->graph, r.category);
    node->bytes_read = r.bytes_read;
    node->bytes_written = r.bytes_written;
    node->flops = r.flops;
    memcpy(node->dtype, r.dtype, sizeof node->dtype);
    switch (r.how) {
    case GRAPH_RECOGNISED:
        memcpy(node->suite, r.suite, sizeof node->suite);
        memcpy(node->kernel, r.kernel, sizeof node->kernel);
        node->params = graph_intern(b->graph, r.params);
        b->recognised_us += node->traced_us;
        b->recognised_count++;
        break;
    case GRAPH_BY_BYTES:
        b->by_bytes_us += node->traced_us;
        b->by_bytes_count++;
        break;
    default: b->replayed_us += node->traced_us; b->replayed_count++;
    }
    if (r.assumption != NULL) {
        remember_assumption(b, r.assumption);
    }
    if (captured && r.how == GRAPH_REPLAYED) {
        remember_assumption(b, "part of a captured graph, without an operator of its own: as recorded");
    }
}

static void describe_collective(struct rank_builder *b, const struct device_item *item,
                                struct graph_node *node)
{
    const char *called;
    node->kind = GRAPH_COLLECTIVE;
    node->category = graph_intern(b->graph, "collective");
    node->collective = collective_of(b->step, item, b->graph->world_size, b->graph, &called);
    bool unknown = strcmp(node->collective->kind, "unknown") == 0;
    node->recognition = unknown ? GRAPH_REPLAYED : GRAPH_RECOGNISED;
    if (unknown) {
        b->unknown_collective = b->unknown_collectives++ == 0 ? called : b->unknown_collective;
        b->unknown_collective_us += node->traced_us;
    } else {
        b->empty_collectives += node->collective->bytes == 0;
    }
}

static const char *shapes_of(const struct trace_event *event)
{
    const struct trace_operator_args *args = event != NULL && event->category == TRACE_OPERATOR ? event->args : NULL;
    return args != NULL && args->dims != NULL && strpbrk(args->dims, "0123456789") != NULL ? args->dims : NULL;
}

/* Of the innermost operator around an item that has any. */
static const char *shapes_around(const struct host_step *step, uint32_t item)
{
    const char *shapes = NULL;
    for (uint32_t i = item; shapes == NULL && i != TRACE_NONE; i = step->items[i].parent) {
        shapes = shapes_of(step->items[i].event);
    }
    return shapes;
}

static void add_device_node(struct rank_builder *b, uint32_t device)
{
    const struct host_step *step = b->step;
    const struct device_item *item = &step->device[device];
    const struct host_item *launch = &step->items[item->launch];
    const char *operator_name = launch->parent != TRACE_NONE ? step->items[launch->parent].event->name
                                : launch->event != NULL && launch->device_count > 1
                                    ? launch->event->name /* a captured graph */
                                    : NULL;
    struct graph_node node = {
        .kind = GRAPH_KERNEL,
        .rank = b->rank,
        .stream = item->stream,
        .name = graph_intern(b->graph, item->event->name),
        .operator_name = graph_intern(b->graph, operator_name),
        .shapes = graph_intern(b->graph, shapes_around(step, launch->parent)),
        .traced_start_us = us(item->event->start_ns - step->start_ns),
        .traced_us = us(item->event->duration_ns),
        .launched = UINT32_MAX,
        .waits_for = UINT32_MAX,
    };
    if (collective_is(item->event)) {
        describe_collective(b, item, &node);
    } else {
        recognise(b, device, &node);
    }
    graph_add(b->graph, &node);
}

/* ---- host nodes ------------------------------------------------------------------------------------------------ */

static struct graph_node host_node(const struct rank_builder *b, const struct host_item *item,
                                   enum graph_node_kind kind)
{
    const char *name = item->event != NULL ? item->event->name : "(launch not in the trace)";
    return (struct graph_node){
        .kind = kind,
        .rank = b->rank,
        .thread = item->thread,
        .name = graph_intern(b->graph, name),
        .category = graph_intern(b->graph, "host"),
        .traced_start_us = us(item->start_ns - b->step->start_ns),
        .traced_us = us(item->own_ns),
        .launched = UINT32_MAX,
        .waits_for = UINT32_MAX,
        .depth = item->depth,
        .shapes = graph_intern(b->graph, shapes_of(item->event)),
    };
}

static void add_launch(struct rank_builder *b, uint32_t index)
{
    const struct host_item *item = &b->step->items[index];
    struct graph_node node = host_node(b, item, GRAPH_HOST_LAUNCH);
    node.launched = (uint32_t)b->graph->node_count + 1;
    node.launched_count = item->device_count;
    graph_add(b->graph, &node);
    for (uint32_t i = item->device_first; i < item->device_first + item->device_count; i++) {
        add_device_node(b, i);
    }
    if (item->record_behind) { /* waits name it through this item */
        node = host_node(b, item, GRAPH_EVENT_RECORD);
        node.name = graph_intern(b->graph, "(record not in the trace)");
        node.traced_us = 0;
        node.stream = item->stream;
        b->node_of_item[index] = graph_add(b->graph, &node);
    }
    if (item->blocking) {
        node = host_node(b, item, GRAPH_HOST_SYNC);
        node.traced_us = 0; /* the call's time is at its launch */
        node.sync = GRAPH_SYNC_STREAM;
        node.waits_for = b->step->device[item->device_first].stream;
        graph_add(b->graph, &node);
    }
}

static void add_sync(struct rank_builder *b, const struct host_item *item)
{
    struct graph_node node = host_node(b, item, GRAPH_HOST_SYNC);
    if (item->kind == HOST_SYNC_DEVICE) {
        node.sync = GRAPH_SYNC_DEVICE;
    } else if (item->kind == HOST_SYNC_STREAM) {
        node.sync = GRAPH_SYNC_STREAM;
        node.waits_for = item->stream;
    } else {
        node.sync = GRAPH_SYNC_EVENT;
        node.waits_for = b->node_of_item[item->waits_for];
    }
    graph_add(b->graph, &node);
}

/* With the trace's own host times: what the program does between framework calls, as host work of that length. */
static void add_gap(struct rank_builder *b, const struct host_item *item)
{
    int64_t gap_ns = item->start_ns - b->host_clock_ns;
    if (gap_ns > 0) {
        struct host_item between = { .start_ns = b->host_clock_ns, .own_ns = gap_ns, .thread = item->thread };
        struct graph_node node = host_node(b, &between, GRAPH_HOST_OP);
        node.name = graph_intern(b->graph, "(between operators)");
        graph_add(b->graph, &node);
    }
    int64_t end_ns = item->start_ns + (item->event != NULL ? item->event->duration_ns : 0);
    b->host_clock_ns = end_ns > b->host_clock_ns ? end_ns : b->host_clock_ns;
}

static void add_item(struct rank_builder *b, uint32_t i)
{
    const struct host_item *item = &b->step->items[i];
    b->node_of_item[i] = (uint32_t)b->graph->node_count;
    struct graph_node node;
    switch (item->kind) {
    case HOST_OPERATOR:
    case HOST_WORK:
        node = host_node(b, item, GRAPH_HOST_OP);
        graph_add(b->graph, &node);
        break;
    case HOST_LAUNCH: add_launch(b, i); break;
    case HOST_RECORD:
        node = host_node(b, item, GRAPH_EVENT_RECORD);
        node.stream = item->stream;
        graph_add(b->graph, &node);
        break;
    case HOST_WAIT:
        node = host_node(b, item, GRAPH_EVENT_WAIT);
        node.stream = item->stream;
        node.waits_for = b->node_of_item[item->waits_for];
        graph_add(b->graph, &node);
        break;
    case HOST_SYNC_DEVICE:
    case HOST_SYNC_STREAM:
    case HOST_SYNC_EVENT: add_sync(b, item); break;
    default: break;
    }
}

/* Parameters that got a dense gradient: what a fused optimiser will update. A sparse gradient has no strides. */
static void count_parameters(struct rank_builder *b)
{
    for (size_t i = 0; i < b->step->item_count; i++) {
        const struct host_item *item = &b->step->items[i];
        if (item->kind != HOST_OPERATOR ||
            strcmp(item->event->name, "torch::autograd::AccumulateGrad") != 0) {
            continue;
        }
        const struct operator_tensors *tensors = operator_tensors_parse(b->scratch, item->event->args);
        const struct trace_tensor *gradient = operator_tensor(tensors, 0);
        if (gradient != NULL && gradient->has_strides) {
            b->dense_parameters += tensor_elements(gradient);
            b->dense_parameter_tensors++;
        }
    }
}

/* ---- a rank's figures and notes -------------------------------------------------------------------------------- */

static int compare_starts(const void *a, const void *b)
{
    const struct trace_event *x = *(const struct trace_event *const *)a,
                             *y = *(const struct trace_event *const *)b;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Busy time as a union over the streams; overlaps on one stream are noted. */
static void measure_device(struct rank_builder *b, struct graph_rank *out)
{
    const struct host_step *step = b->step;
    const struct trace_event **events = malloc((step->device_count + 1) * sizeof *events);
    const struct trace_event **last = calloc(step->file->track_count + 1, sizeof *last);
    SIM_ASSERT(events != NULL && last != NULL, "out of memory");
    for (size_t i = 0; i < step->device_count; i++) {
        events[i] = step->device[i].event;
    }
    if (step->device_count > 0) {
        qsort(events, step->device_count, sizeof *events, compare_starts);
    }
    int64_t busy_ns = 0, sum_ns = 0, end_ns = INT64_MIN;
    size_t overlaps = 0;
    const struct trace_event *pair[2] = { NULL, NULL };
    for (size_t i = 0; i < step->device_count; i++) {
        const struct trace_event *event = events[i], *before = last[event->track];
        int64_t stop_ns = event->start_ns + event->duration_ns;
        int64_t from_ns = event->start_ns > end_ns ? event->start_ns : end_ns;
        busy_ns += stop_ns > from_ns ? stop_ns - from_ns : 0;
        sum_ns += event->duration_ns;
        end_ns = stop_ns > end_ns ? stop_ns : end_ns;
        if (before != NULL && before->start_ns + before->duration_ns > event->start_ns + OVERLAP_SLACK_NS &&
            overlaps++ == 0) {
            pair[0] = before;
            pair[1] = event;
        }
        if (before == NULL || stop_ns > before->start_ns + before->duration_ns) {
            last[event->track] = event;
        }
    }
    out->traced_busy_us = us(busy_ns);
    out->traced_kernel_us = us(sum_ns);
    if (overlaps > 0) {
        note(b,
             "%zu pair%s of kernels overlap on one stream (clocks or early launch), first %.40s and %.40s by "
             "%.3g us: order kept, busy time is the union",
             overlaps, plural(overlaps), pair[0]->name, pair[1]->name,
             us(pair[0]->start_ns + pair[0]->duration_ns - pair[1]->start_ns));
    }
    free(events);
    free(last);
}

static void note_reading(struct rank_builder *b)
{
    const struct host_step *step = b->step;
    const struct trace_file *file = step->file;
    if (file->damage[0] != '\0') {
        note(b, "recovered: %s; all %zu events before it are used", file->damage, file->list_event_count);
    }
    if (file->odd_numbers[0] != '\0') {
        note(b, "%s", file->odd_numbers);
    }
    if (file->rank < 0) {
        note(b, "the file does not say its rank: taken as rank %u", b->graph->ranks[b->rank].rank_id);
    }
    if (file->odd_world_size[0] != '\0') {
        note(b, "its world_size, %s, is no number of ranks (1 to 10000000): taken as not said", file->odd_world_size);
    }
    if (file->impossible_count > 0) {
        note(b, "%zu event%s left out: negative duration or above a day, first %.60s", file->impossible_count,
             plural(file->impossible_count), file->impossible_name);
    }
    if (file->incomplete_count > 0) {
        note(b, "%zu event%s left out: no complete slice (begin without end, or no time)",
             file->incomplete_count, plural(file->incomplete_count));
    }
}

/* Of an execution trace: its clock only orders. */
static void forget_times(struct rank_builder *b, struct graph_rank *out)
{
    for (size_t i = b->first_node; i < b->graph->node_count; i++) {
        b->graph->nodes[i].traced_start_us = -1;
        b->graph->nodes[i].traced_us = 0;
    }
    out->traced_step_us = out->traced_busy_us = out->traced_kernel_us = 0;
}

static void note_step(struct rank_builder *b, const struct graph_rank *rank)
{
    const struct host_step *step = b->step;
    if (!step->has_marker) {
        note(b, "no ProfilerStep marker%s: the whole trace is taken as one step",
             step->steps_found > 0 ? " with kernels" : "");
    }
    note(b,
         "%s of %zu step%s: %zu GPU events on %u stream%s, %.4g us busy (union), %.4g us summed, over %.4g "
         "us (profiled)",
         step->has_marker ? step->step_name : "the whole", step->steps_found > 0 ? step->steps_found : 1,
         plural(step->steps_found > 0 ? step->steps_found : 1), step->device_count, step->stream_count,
         plural(step->stream_count), rank->traced_busy_us, rank->traced_kernel_us, rank->traced_step_us);
    if (step->outside_count > 0) {
        note(b, "%zu GPU event%s launched outside every step left out", step->outside_count,
             plural(step->outside_count));
    }
    if (step->unlaunched_count > 0) {
        note(b, "%zu GPU event%s without a launch in the trace: taken as launched when %s began",
             step->unlaunched_count, plural(step->unlaunched_count),
             step->unlaunched_count == 1 ? "it" : "each");
    }
    if (step->silent_launch_count > 0) {
        note(b, "%zu launch call%s without a GPU event in the trace: only host time",
             step->silent_launch_count, plural(step->silent_launch_count));
    }
    if (step->other_thread_count > 0) {
        note(b, "%zu host event%s on threads that launch nothing left out", step->other_thread_count,
             plural(step->other_thread_count));
    }
    if (step->waits_contradicted > 0) {
        note(b,
             "%zu stream wait%s whose event the trace does not name left out: device times contradict the "
             "likely one",
             step->waits_contradicted, plural(step->waits_contradicted));
    }
    if (step->waits_unresolved > 0) {
        note(b, "%zu stream wait%s left out: no event to wait for found on another stream",
             step->waits_unresolved, plural(step->waits_unresolved));
    }
}

static void note_device(struct rank_builder *b)
{
    double all = b->recognised_us + b->by_bytes_us + b->replayed_us;
    if (b->step->file->synthetic) {
        note(b, "recognised: %zu kernels; by their tensors' bytes: %zu; with neither, so at 0 us: %zu", b->recognised_count,
             b->by_bytes_count, b->replayed_count);
    } else if (all > 0) {
        note(b,
             "recognised: %zu kernels, %.1f%% of kernel time; by their tensors' bytes: %zu, %.1f%%; replayed "
             "at traced time: %zu, %.1f%%",
             b->recognised_count, 100 * b->recognised_us / all, b->by_bytes_count, 100 * b->by_bytes_us / all,
             b->replayed_count, 100 * b->replayed_us / all);
    }
    if (b->unknown_collectives > 0) {
        note(b,
             "%zu collective%s of unknown kind, first %.60s: replayed at traced time (%.4g us), not scaled",
             b->unknown_collectives, plural(b->unknown_collectives), b->unknown_collective,
             b->unknown_collective_us);
    }
    if (b->empty_collectives > 0) {
        note(b, "%zu collective%s of 0 bytes: the trace does not say the size", b->empty_collectives,
             plural(b->empty_collectives));
    }
    for (size_t i = 0; i < b->assumption_count; i++) {
        note(b, "assumed for %zu kernel%s: %s", b->assumption_counts[i], plural(b->assumption_counts[i]),
             b->assumptions[i]);
    }
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static void build_rank(struct graph *graph, uint32_t rank, struct host_step *step, bool keep_host_times,
                       bool labelled)
{
    struct rank_builder b = {
        .graph = graph, .step = step, .rank = rank, .first_node = graph->node_count, .scratch = arena_create(),
        .host_clock_ns = step->start_ns
    };
    struct graph_rank *out = &graph->ranks[rank];
    if (labelled) {
        snprintf(b.label, sizeof b.label, "rank %u: ", out->rank_id);
    }
    out->thread_count = step->thread_count;
    out->stream_count = step->stream_count;
    out->traced_step_us = us(step->end_ns - step->start_ns);
    stream_waits_resolve(step);
    count_parameters(&b);
    b.node_of_item = calloc(step->item_count + 1, sizeof *b.node_of_item);
    SIM_ASSERT(b.node_of_item != NULL, "out of memory");
    for (uint32_t i = 0; i < step->item_count; i++) {
        const struct host_item *item = &step->items[i];
        if (item->skip || item->kind == HOST_REGION) {
            continue;
        }
        if (keep_host_times && item->parent == TRACE_NONE) {
            add_gap(&b, item);
        }
        add_item(&b, i);
    }
    note_reading(&b);
    if (step->file->synthetic) {
        forget_times(&b, out);
    } else {
        measure_device(&b, out);
        note_step(&b, out);
    }
    note_device(&b);
    free(b.node_of_item);
    arena_destroy(b.scratch);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* What a file says of its place in the run; -1 where it does not. */
struct identity {
    const char *path;
    int64_t rank, world_size;
    const char *device_title;
};

/* Where the file does not say its rank, its name may; a file alone is rank 0. */
static enum sim_status take_identity(struct graph *graph, const struct identity *file, const struct rank_files *files,
                                     uint32_t index, struct sim_error *error)
{
    int64_t named = rank_files_count(files) > 1 ? input_rank_of_name(file->path) : -1;
    uint32_t rank_id = file->rank >= 0 ? (uint32_t)file->rank : named >= 0 ? (uint32_t)named : 0;
    for (uint32_t i = 0; i < index; i++) {
        if (graph->ranks[i].rank_id == rank_id) {
            return sim_fail(error, SIM_BAD_TRACE, "%s and %s are both rank %u%s: give one file a rank",
                            rank_files_path(files, i), file->path, rank_id,
                            file->rank < 0 ? " (no rank in distributedInfo, nor in the name)" : "");
        }
    }
    graph->ranks[index].rank_id = rank_id;
    if (file->world_size > 0 && graph->world_size > 0 && index > 0 &&
        graph->world_size != (uint32_t)file->world_size) {
        return sim_fail(error, SIM_BAD_TRACE,
                        "%s is of a run of %lld ranks, %s of one of %u: files of one run are wanted",
                        file->path, (long long)file->world_size, rank_files_path(files, 0), graph->world_size);
    }
    if (file->world_size > 0) {
        graph->world_size = (uint32_t)file->world_size;
    }
    if (index == 0) {
        snprintf(graph->device_title, sizeof graph->device_title, "%s", file->device_title);
    } else if (strcmp(graph->device_title, file->device_title) != 0) {
        graph_note(graph, "%.60s names its device '%.40s', %.60s '%.40s'", base_name(file->path),
                   file->device_title, base_name(rank_files_path(files, 0)), graph->device_title);
    }
    return SIM_OK;
}

static void note_join(struct graph *graph, const struct rank_input *input, const char *label)
{
    if (input->execution_path != NULL) {
        graph_note(graph, "%sexecution trace %.60s (schema %s) joined: %zu of %zu operators without arguments got theirs",
                   label, base_name(input->execution_path), input->schema, input->joined, input->considered);
    } else if (input->kind == INPUT_EXECUTION_TRACE) {
        graph_note(graph, "%sexecution trace (schema %s): it has no kernels and no times; one kernel is taken for each operator "
                          "that nothing below launches for", label, input->schema);
    }
}

static bool has_synthetic_collectives(const struct trace_file *file)
{
    for (size_t i = 0; i < file->event_count; i++) {
        if (collective_is(&file->events[i])) {
            return true;
        }
    }
    return false;
}

static bool has_collectives(const struct chakra_file *file)
{
    for (size_t i = 0; i < file->node_count; i++) {
        if (file->nodes[i].type == CHAKRA_COLLECTIVE) {
            return true;
        }
    }
    return false;
}

static enum sim_status add_chakra(struct graph *graph, struct rank_input *input, const struct rank_files *files, uint32_t index,
                                  struct sim_error *error)
{
    const struct chakra_file *file = input->chakra;
    const struct identity identity = { input->path, index == 0 && rank_files_count(files) == 1 ? input_rank_of_name(input->path) : -1,
                                       file->world_size, "" };
    enum sim_status status = take_identity(graph, &identity, files, index, error);
    if (status != SIM_OK) {
        return status;
    }
    char label[32] = "";
    if (rank_files_count(files) > 1) {
        snprintf(label, sizeof label, "rank %u: ", graph->ranks[index].rank_id);
    }
    uint32_t world = graph->world_size;
    if (world == 0) {
        world = rank_files_count(files) > 1 ? (uint32_t)rank_files_count(files) : WORLD_ASSUMED;
        if (rank_files_count(files) == 1 && has_collectives(file)) {
            graph_note(graph, "the file does not say how many ranks the run has: %u assumed", world);
        }
        graph->world_size = has_collectives(file) ? world : 0;
    }
    graph->steps_in_trace = 1;
    graph->ideal_issue = true;
    return chakra_build(file, graph, index, world, label, error);
}

static enum sim_status add_trace(struct graph *graph, struct rank_input *input, const struct rank_files *files, uint32_t index,
                                 const struct trace_options *options, char first_step[32], struct sim_error *error)
{
    struct trace_file *file = input->trace;
    bool labelled = rank_files_count(files) > 1;
    struct host_step *step = NULL;
    if (file->synthetic && file->world_size < 0 && graph->world_size == 0 && (labelled || has_synthetic_collectives(file))) {
        file->world_size = labelled ? (int64_t)rank_files_count(files) : WORLD_ASSUMED;
        if (!labelled) {
            graph_note(graph, "the file does not say how many ranks the run has: %d assumed", WORLD_ASSUMED);
        }
    }
    const struct identity identity = { input->path, file->rank, file->world_size, file->device_title };
    enum sim_status status = take_identity(graph, &identity, files, index, error);
    if (status == SIM_OK) {
        status = host_step_create(file, options->step, &step, error);
    }
    if (status == SIM_OK) {
        build_rank(graph, index, step, options->keep_host_times, labelled);
        double steps = step->steps_found > 0 ? (double)step->steps_found : 1;
        graph->steps_in_trace = index == 0 || steps < graph->steps_in_trace ? steps : graph->steps_in_trace;
        char label[32] = "";
        if (labelled) {
            snprintf(label, sizeof label, "rank %u: ", graph->ranks[index].rank_id);
        }
        note_join(graph, input, label);
        if (index > 0 && step->has_marker && strcmp(step->step_name, first_step) != 0) {
            graph_note(graph, "%sits last complete step is %s, that of the first file %s: ranks of different steps are joined", label,
                       step->step_name, first_step[0] != '\0' ? first_step : "unmarked");
        } else if (index == 0) {
            memcpy(first_step, step->step_name, sizeof step->step_name);
        }
    }
    host_step_destroy(step);
    return status;
}

static enum sim_status read_one(struct graph *graph, struct rank_files *files, uint32_t index,
                                const struct trace_options *options, char first_step[32], struct sim_error *error)
{
    struct rank_input *input;
    enum sim_status status = rank_files_take(files, index, &input, error);
    if (status == SIM_OK && input->chakra != NULL) {
        status = add_chakra(graph, input, files, index, error);
    } else if (status == SIM_OK) {
        status = add_trace(graph, input, files, index, options, first_step, error);
    }
    rank_files_release(files, index);
    return status;
}

/* Ranks ascend; nodes stay where they are. */
static void sort_ranks(struct graph *graph)
{
    uint32_t *place = calloc(graph->rank_count + 1, sizeof *place);
    struct graph_rank *sorted = calloc(graph->rank_count + 1, sizeof *sorted);
    SIM_ASSERT(place != NULL && sorted != NULL, "out of memory");
    for (uint32_t i = 0; i < graph->rank_count; i++) {
        for (uint32_t j = 0; j < graph->rank_count; j++) {
            place[i] += graph->ranks[j].rank_id < graph->ranks[i].rank_id;
        }
        sorted[place[i]] = graph->ranks[i];
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        graph->nodes[i].rank = place[graph->nodes[i].rank];
    }
    free(graph->ranks);
    graph->ranks = sorted;
    free(place);
}

static void finish_ranks(struct graph *graph)
{
    uint32_t said = graph->world_size;
    for (uint32_t i = 0; i < graph->rank_count; i++) {
        graph->traced_step_us = fmax(graph->traced_step_us, graph->ranks[i].traced_step_us);
        uint32_t least = graph->ranks[i].rank_id + 1;
        graph->world_size = graph->world_size < least ? least : graph->world_size;
    }
    if (said > 0 && said < graph->world_size) {
        graph_note(graph, "rank %u in a run of %u ranks: taken as one of %u", graph->world_size - 1, said, graph->world_size);
    }
    graph->world_size = graph->world_size < graph->rank_count ? graph->rank_count : graph->world_size;
    sort_ranks(graph);
    collectives_join(graph);
}

enum sim_status trace_read(const char *const *paths, size_t path_count, const struct trace_options *options,
                           struct graph **out, struct sim_error *error)
{
    *out = NULL;
    struct rank_files *files;
    enum sim_status status = rank_files_open(paths, path_count, options->step, &files, error);
    if (status != SIM_OK) {
        return status;
    }
    size_t count = rank_files_count(files);
    struct graph *graph = graph_create(base_name(rank_files_path(files, 0)));
    if (count > 1) {
        snprintf(graph->source, sizeof graph->source, "%.200s and %zu more", base_name(rank_files_path(files, 0)),
                 count - 1);
    }
    graph_add_ranks(graph, (uint32_t)count);
    char first_step[32] = "";
    for (uint32_t i = 0; i < count && status == SIM_OK; i++) {
        status = read_one(graph, files, i, options, first_step, error);
    }
    rank_files_close(files);
    if (status == SIM_OK) {
        finish_ranks(graph);
        status = graph_check(graph, error);
    }
    if (status != SIM_OK) {
        graph_destroy(graph);
        return status;
    }
    *out = graph;
    return SIM_OK;
}
