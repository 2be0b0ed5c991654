/* Chakra nodes -> graph. The dependencies alone order the nodes; they are laid out in a topological order, ties by place in
 * the file (no recursion: chains of a million nodes are real). Compute goes to stream 0, memory moves to 1, collectives to 2
 * (each in that order, as an accelerator's queues run it), sends and receives to a stream for each peer, direction and tag; a
 * dependency across streams is an event record and a wait. Between those, device nodes are issued together, like a captured
 * graph: the format knows no host calls for them.
 *
 * A send is over for its own rank when it is handed to the network, so what depends on it depends on what it depends on; the
 * transfer itself starts when both ends are there and ends with the receive. */
#include "workloads/trace/chakra_internal.h"
#include "sim/core/hash.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_COMPUTE, STREAM_MEMORY, STREAM_COLLECTIVE, STREAM_PEER_FIRST };
#define STREAMS_MAX 256 /* peers beyond share streams */
#define EXPAND_MAX 256  /* sends that depend on sends, followed back */

#define OPERATORS_MAX 64
#define CYCLE_SHOWN 8

/* Arrays over nodes. */
struct builder {
    const struct chakra_file *file;
    struct graph *graph;
    struct arena *scratch;
    uint32_t rank, world_size;
    const char *label;
    struct sim_error *error;
    uint32_t *slots; /* hash of id -> node + 1 */
    size_t slot_count;
    uint32_t *dep;       /* [dep_count]: node of file->deps, TRACE_NONE absent or itself a dependency of nothing */
    uint32_t *order;     /* topological */
    uint32_t *graph_node; /* of device nodes and host nodes; TRACE_NONE: nothing to run */
    uint32_t *record;    /* the record behind a device node; TRACE_NONE: none */
    bool *awaited;       /* some node on another stream depends on it */
    uint32_t open_launch; /* launch that still takes device nodes; TRACE_NONE */
    uint32_t *waited; /* [waiting * STREAMS_MAX + awaited stream]: latest node waited for */
    uint32_t *place;     /* in `order` */
    uint32_t *stream;    /* of device nodes */
    struct peer_stream {
        int type;
        int64_t peer, tag;
    } peers[STREAMS_MAX];
    size_t peer_count;
    uint32_t *expanded; /* what expand_deps found */
    size_t expanded_count, expanded_capacity;
    /* for notes */
    size_t dangling, zero_bytes, no_time, unknown_type, stood_in, host_waits;
    uint64_t dangling_node, dangling_id;
    const char *zero_name, *no_time_name, *stand_in;
};

static void note(const struct builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const struct builder *b, const char *format, ...)
{
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    graph_note(b->graph, "%s%s", b->label, text);
}

/* ---- dependencies ---------------------------------------------------------------------------------------------- */

static uint32_t find(const struct builder *b, uint64_t id)
{
    for (size_t at = hash64_mix(id) & (b->slot_count - 1); b->slots[at] != 0; at = (at + 1) & (b->slot_count - 1)) {
        if (b->file->nodes[b->slots[at] - 1].id == id) {
            return b->slots[at] - 1;
        }
    }
    return TRACE_NONE;
}

static enum sim_status index_ids(struct builder *b)
{
    b->slot_count = 64;
    while (b->slot_count < 2 * b->file->node_count) {
        b->slot_count *= 2;
    }
    b->slots = calloc(b->slot_count, sizeof *b->slots);
    SIM_ASSERT(b->slots != NULL, "out of memory");
    for (uint32_t i = 0; i < b->file->node_count; i++) {
        uint64_t id = b->file->nodes[i].id;
        if (find(b, id) != TRACE_NONE) {
            return sim_fail(b->error, SIM_BAD_TRACE, "%s: two nodes have the id %llu ('%.60s' and '%.60s')", b->file->path,
                            (unsigned long long)id, b->file->nodes[find(b, id)].name, b->file->nodes[i].name);
        }
        size_t at = hash64_mix(id) & (b->slot_count - 1);
        while (b->slots[at] != 0) {
            at = (at + 1) & (b->slot_count - 1);
        }
        b->slots[at] = i + 1;
    }
    return SIM_OK;
}

static void resolve_deps(struct builder *b)
{
    const struct chakra_file *file = b->file;
    for (size_t i = 0; i < file->node_count; i++) {
        const struct chakra_node *node = &file->nodes[i];
        for (size_t d = node->dep_first; d < node->dep_first + node->dep_count; d++) {
            b->dep[d] = find(b, file->deps[d]);
            if (b->dep[d] == TRACE_NONE && b->dangling++ == 0) {
                b->dangling_node = node->id;
                b->dangling_id = file->deps[d];
            }
        }
    }
}

/* ---- order ----------------------------------------------------------------------------------------------------- */

/* Nodes that nothing holds up any more, least place in the file first: a binary heap. */
struct heap {
    uint32_t *items;
    size_t count;
};

static void heap_push(struct heap *heap, uint32_t item)
{
    size_t at = heap->count++;
    for (; at > 0 && heap->items[(at - 1) / 2] > item; at = (at - 1) / 2) {
        heap->items[at] = heap->items[(at - 1) / 2];
    }
    heap->items[at] = item;
}

static uint32_t heap_pop(struct heap *heap)
{
    uint32_t top = heap->items[0], last = heap->items[--heap->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        child += child + 1 < heap->count && heap->items[child + 1] < heap->items[child];
        if (heap->items[child] >= last) {
            break;
        }
        heap->items[at] = heap->items[child];
    }
    heap->items[at] = last;
    return top;
}

/* From any node that is held up, back along dependencies that are held up too, until one comes again. */
static enum sim_status name_cycle(const struct builder *b, const uint32_t *held)
{
    const struct chakra_file *file = b->file;
    uint32_t at = 0;
    while (held[at] == 0) {
        at++;
    }
    uint32_t *seen = calloc(file->node_count + 1, sizeof *seen);
    SIM_ASSERT(seen != NULL, "out of memory");
    char text[600];
    size_t used = 0, length = 0;
    uint32_t first = TRACE_NONE;
    for (int pass = 0; pass < 2; pass++) { /* into the cycle, then once around it */
        do {
            seen[at] = (uint32_t)pass + 1;
            if (pass == 1 && length++ < CYCLE_SHOWN) {
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%llu '%.40s'", length > 1 ? ", " : "",
                                         (unsigned long long)file->nodes[at].id, file->nodes[at].name);
            }
            const struct chakra_node *node = &file->nodes[at];
            for (size_t d = node->dep_first; d < node->dep_first + node->dep_count; d++) {
                if (b->dep[d] != TRACE_NONE && held[b->dep[d]] != 0) {
                    at = b->dep[d];
                    break;
                }
            }
        } while (pass == 0 ? seen[at] == 0 : at != first);
        first = at;
    }
    free(seen);
    return sim_fail(b->error, SIM_BAD_TRACE, "%s: nodes depend on each other in a cycle of %zu: %s%s", file->path, length,
                    text, length > CYCLE_SHOWN ? ", .." : "");
}

/* dependents: for each node, where its list in `list` begins. */
static void invert(const struct builder *b, size_t *begins, uint32_t *list)
{
    const struct chakra_file *file = b->file;
    for (size_t d = 0; d < file->dep_count; d++) {
        begins[b->dep[d] == TRACE_NONE ? file->node_count + 1 : b->dep[d] + 1]++;
    }
    begins[file->node_count + 1] = 0;
    for (size_t i = 0; i < file->node_count; i++) {
        begins[i + 1] += begins[i];
    }
    size_t *at = malloc((file->node_count + 1) * sizeof *at);
    SIM_ASSERT(at != NULL, "out of memory");
    memcpy(at, begins, (file->node_count + 1) * sizeof *at);
    for (uint32_t i = 0; i < file->node_count; i++) {
        const struct chakra_node *node = &file->nodes[i];
        for (size_t d = node->dep_first; d < node->dep_first + node->dep_count; d++) {
            if (b->dep[d] != TRACE_NONE) {
                list[at[b->dep[d]]++] = i;
            }
        }
    }
    free(at);
}

static enum sim_status sort_nodes(struct builder *b)
{
    const struct chakra_file *file = b->file;
    size_t count = file->node_count, done = 0;
    uint32_t *held = calloc(count + 1, sizeof *held);
    size_t *begins = calloc(count + 2, sizeof *begins);
    uint32_t *list = malloc((file->dep_count + 1) * sizeof *list);
    struct heap ready = { malloc((count + 1) * sizeof *ready.items), 0 };
    SIM_ASSERT(held != NULL && begins != NULL && list != NULL && ready.items != NULL, "out of memory");
    invert(b, begins, list);
    for (uint32_t i = 0; i < count; i++) {
        const struct chakra_node *node = &file->nodes[i];
        for (size_t d = node->dep_first; d < node->dep_first + node->dep_count; d++) {
            held[i] += b->dep[d] != TRACE_NONE;
        }
        if (held[i] == 0) {
            heap_push(&ready, i);
        }
    }
    while (ready.count > 0) {
        uint32_t i = heap_pop(&ready);
        b->place[i] = (uint32_t)done;
        b->order[done++] = i;
        for (size_t k = begins[i]; k < begins[i + 1]; k++) {
            if (--held[list[k]] == 0) {
                heap_push(&ready, list[k]);
            }
        }
    }
    enum sim_status status = done < count ? name_cycle(b, held) : SIM_OK;
    free(held);
    free(begins);
    free(list);
    free(ready.items);
    return status;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static bool runs_on_device(const struct chakra_node *node)
{
    return !node->on_host && node->type >= CHAKRA_MEM_LOAD && node->type <= CHAKRA_COLLECTIVE;
}

static uint32_t peer_stream(struct builder *b, const struct chakra_node *node)
{
    struct peer_stream wanted = { node->type, node->type == CHAKRA_SEND ? node->destination : node->source, node->tag };
    for (size_t i = 0; i < b->peer_count; i++) {
        if (b->peers[i].type == wanted.type && b->peers[i].peer == wanted.peer && b->peers[i].tag == wanted.tag) {
            return STREAM_PEER_FIRST + (uint32_t)i;
        }
    }
    if (STREAM_PEER_FIRST + b->peer_count == STREAMS_MAX) {
        return STREAMS_MAX - 1;
    }
    b->peers[b->peer_count] = wanted;
    return STREAM_PEER_FIRST + (uint32_t)b->peer_count++;
}

static void choose_streams(struct builder *b)
{
    for (size_t k = 0; k < b->file->node_count; k++) {
        const struct chakra_node *node = &b->file->nodes[b->order[k]];
        b->stream[b->order[k]] = !runs_on_device(node)                                            ? TRACE_NONE
                                 : node->type == CHAKRA_COMPUTE                                   ? STREAM_COMPUTE
                                 : node->type == CHAKRA_COLLECTIVE                                ? STREAM_COLLECTIVE
                                 : node->type == CHAKRA_MEM_LOAD || node->type == CHAKRA_MEM_STORE ? STREAM_MEMORY
                                                                                                  : peer_stream(b, node);
    }
}

static void expanded_add(struct builder *b, uint32_t node)
{
    if (b->expanded_count == b->expanded_capacity) {
        b->expanded_capacity = b->expanded_capacity == 0 ? 64 : 2 * b->expanded_capacity;
        b->expanded = realloc(b->expanded, b->expanded_capacity * sizeof *b->expanded);
        SIM_ASSERT(b->expanded != NULL, "out of memory");
    }
    b->expanded[b->expanded_count++] = node;
}

/* Device nodes that a node waits for, in b->expanded: its dependencies, and for a send those of the send. */
static void expand_deps(struct builder *b, uint32_t index)
{
    uint32_t sends[EXPAND_MAX];
    size_t count = 0, done = 0;
    b->expanded_count = 0;
    for (uint32_t at = index;; at = sends[done++]) {
        const struct chakra_node *node = &b->file->nodes[at];
        for (size_t d = node->dep_first; d < node->dep_first + node->dep_count; d++) {
            uint32_t dep = b->dep[d];
            if (dep == TRACE_NONE || !runs_on_device(&b->file->nodes[dep])) {
                continue;
            }
            if (b->file->nodes[dep].type == CHAKRA_SEND && count < EXPAND_MAX) {
                sends[count++] = dep;
            } else {
                expanded_add(b, dep);
            }
        }
        if (done == count) {
            return;
        }
    }
}

struct collective_kind {
    const char *name, *kind, *stands_in_for; /* stands_in_for: NULL, it is that kind */
};

/* By the format's number. */
static const struct collective_kind collective_kinds[] = {
    { "allreduce", "all_reduce", NULL },
    { "reduce", "all_reduce", "reduce is priced as all-reduce, which moves more" },
    { "allgather", "all_gather", NULL },
    { "gather", "all_gather", "gather is priced as all-gather, which moves more" },
    { "scatter", "broadcast", "scatter is priced as broadcast, which moves more" },
    { "broadcast", "broadcast", NULL },
    { "alltoall", "all_to_all", NULL },
    { "reducescatter", "reduce_scatter", NULL },
    { "reducescatter", "reduce_scatter", NULL },
    { "barrier", "all_reduce", "barrier is priced as an all-reduce of 4 bytes" },
};
#define KIND_COUNT (sizeof collective_kinds / sizeof collective_kinds[0])
#define KIND_BARRIER 9

static int64_t kind_number(const struct chakra_node *node)
{
    if (node->comm_type >= 0) {
        return node->comm_type < (int64_t)KIND_COUNT ? node->comm_type : -1;
    }
    const char *kind = collective_kind_of(node->name);
    for (size_t i = 0; kind != NULL && i < KIND_COUNT; i++) {
        if (strcmp(collective_kinds[i].kind, kind) == 0 && collective_kinds[i].stands_in_for == NULL) {
            return (int64_t)i;
        }
    }
    return -1;
}

static void describe_exchange(struct builder *b, const struct chakra_node *node, struct graph_collective *out)
{
    int64_t self = b->graph->ranks[b->rank].rank_id;
    int64_t source = node->source >= 0 ? node->source : self, destination = node->destination >= 0 ? node->destination : self;
    snprintf(out->kind, sizeof out->kind, "send_recv");
    snprintf(out->group, sizeof out->group, "p2p %lld>%lld #%lld", (long long)source, (long long)destination,
             (long long)node->tag);
    out->group_size = 2;
    out->bytes = node->comm_bytes > 0 ? node->comm_bytes : 0;
}

static void describe_collective(struct builder *b, const struct chakra_node *node, struct graph_collective *out)
{
    int64_t number = kind_number(node);
    const struct collective_kind *kind = number >= 0 ? &collective_kinds[number] : NULL;
    double bytes = node->comm_bytes > 0 ? node->comm_bytes : 0;
    snprintf(out->kind, sizeof out->kind, "%s", kind != NULL ? kind->kind : "unknown");
    snprintf(out->group, sizeof out->group, "%.40s", node->group != NULL && node->group[0] != '\0' ? node->group : "world");
    out->group_size = b->world_size;
    out->in_place = true;
    if (kind != NULL && kind->stands_in_for != NULL) {
        b->stood_in++;
        b->stand_in = kind->stands_in_for;
    }
    if (number == KIND_BARRIER) {
        bytes = 4;
    } else if (kind != NULL && strcmp(kind->kind, "all_gather") == 0) {
        bytes *= b->world_size; /* the format gives a rank's part, the graph the whole output */
    }
    out->bytes = bytes;
}

static void add_communication(struct builder *b, const struct chakra_node *node, struct graph_node *out)
{
    out->kind = GRAPH_COLLECTIVE;
    out->category = graph_intern(b->graph, "collective");
    out->collective = graph_add_collective(b->graph);
    if (node->type == CHAKRA_COLLECTIVE) {
        describe_collective(b, node, out->collective);
    } else {
        describe_exchange(b, node, out->collective);
    }
    bool unknown = strcmp(out->collective->kind, "unknown") == 0;
    out->recognition = unknown ? GRAPH_REPLAYED : GRAPH_RECOGNISED;
    if (out->collective->bytes == 0 && b->zero_bytes++ == 0) {
        b->zero_name = node->name;
    }
}

/* By its name and the shapes of the host operators around it, else by its stated work, else by its stated time. */
static void add_work(struct builder *b, const struct chakra_node *node, struct graph_node *out)
{
    struct site_operator operators[OPERATORS_MAX];
    struct kernel_site site = { .name = node->name,
                                .category = TRACE_KERNEL,
                                .bytes = -1,
                                .traced_us = out->traced_us,
                                .operators = operators,
                                .grid_share = 1 };
    uint32_t around = node->has_parent ? find(b, node->parent) : TRACE_NONE;
    while (around != TRACE_NONE && b->file->nodes[around].on_host && site.operator_count < OPERATORS_MAX) {
        const struct chakra_node *parent = &b->file->nodes[around];
        operators[site.operator_count++] = (struct site_operator){ parent->name, parent->args };
        around = parent->has_parent ? find(b, parent->parent) : TRACE_NONE;
    }
    struct kernel_recognition r;
    kernel_recognise(&site, b->scratch, &r);
    if (r.how == GRAPH_REPLAYED && (node->flops > 0 || node->bytes > 0)) {
        r.how = GRAPH_BY_BYTES;
        r.bytes_read = node->bytes > 0 ? node->bytes : 0;
        r.flops = node->flops > 0 ? node->flops : 0;
    }
    out->recognition = r.how;
    out->category = graph_intern(b->graph, r.category);
    out->operator_name = graph_intern(b->graph, site.operator_count > 0 ? operators[0].name : NULL);
    out->bytes_read = r.bytes_read;
    out->bytes_written = r.bytes_written;
    out->flops = r.flops;
    memcpy(out->dtype, r.dtype, sizeof out->dtype);
    memcpy(out->suite, r.suite, sizeof out->suite);
    memcpy(out->kernel, r.kernel, sizeof out->kernel);
    out->params = r.how == GRAPH_RECOGNISED ? graph_intern(b->graph, r.params) : NULL;
    if (r.how == GRAPH_REPLAYED && node->duration_us < 0 && b->no_time++ == 0) {
        b->no_time_name = node->name;
    }
}

static uint32_t add_host(struct builder *b, const struct graph_node *like, enum graph_node_kind kind)
{
    struct graph_node node = *like;
    node.kind = kind;
    node.category = graph_intern(b->graph, "host");
    b->open_launch = TRACE_NONE;
    return graph_add(b->graph, &node);
}

static struct graph_node blank(const struct builder *b, const char *name)
{
    return (struct graph_node){ .rank = b->rank,
                                .name = graph_intern(b->graph, name),
                                .traced_start_us = -1,
                                .launched = UINT32_MAX,
                                .waits_for = UINT32_MAX };
}

/* Waits for what it depends on elsewhere: of each stream the latest, unless an earlier node of its stream did already. */
static void add_waits(struct builder *b, uint32_t index)
{
    uint32_t stream = b->stream[index];
    expand_deps(b, index);
    for (size_t i = 0; i < b->expanded_count; i++) {
        uint32_t dep = b->expanded[i];
        uint32_t *before = &b->waited[stream * STREAMS_MAX + b->stream[dep]];
        if (b->stream[dep] == stream || (*before != TRACE_NONE && b->place[*before] >= b->place[dep])) {
            continue;
        }
        *before = dep;
        struct graph_node wait = blank(b, "(dependency)");
        wait.stream = stream;
        wait.waits_for = b->record[dep];
        add_host(b, &wait, GRAPH_EVENT_WAIT);
    }
}

static void add_device(struct builder *b, uint32_t index)
{
    const struct chakra_node *node = &b->file->nodes[index];
    struct graph_node out = blank(b, node->name);
    out.kind = GRAPH_KERNEL;
    out.stream = b->stream[index];
    out.traced_us = node->duration_us > 0 ? node->duration_us : 0;
    add_waits(b, index);
    if (node->type >= CHAKRA_SEND) {
        add_communication(b, node, &out);
    } else {
        add_work(b, node, &out);
    }
    if (b->open_launch == TRACE_NONE) {
        struct graph_node launch = blank(b, "(issue)");
        launch.launched = (uint32_t)b->graph->node_count + 1;
        uint32_t opened = add_host(b, &launch, GRAPH_HOST_LAUNCH);
        b->open_launch = opened;
    }
    b->graph_node[index] = graph_add(b->graph, &out);
    b->graph->nodes[b->open_launch].launched_count++;
    if (b->awaited[index]) {
        struct graph_node record = blank(b, "(dependency)");
        record.stream = out.stream;
        b->record[index] = add_host(b, &record, GRAPH_EVENT_RECORD);
    }
}

static void add_node(struct builder *b, uint32_t index)
{
    const struct chakra_node *node = &b->file->nodes[index];
    if (runs_on_device(node)) {
        add_device(b, index);
    } else if (node->on_host) {
        struct graph_node out = blank(b, node->name);
        out.traced_us = node->duration_us > 0 ? node->duration_us : 0;
        b->graph_node[index] = add_host(b, &out, GRAPH_HOST_OP);
        for (size_t d = node->dep_first; d < node->dep_first + node->dep_count; d++) {
            b->host_waits += b->dep[d] != TRACE_NONE && runs_on_device(&b->file->nodes[b->dep[d]]);
        }
    } else {
        b->unknown_type += node->type != CHAKRA_METADATA;
    }
}

static void find_awaited(struct builder *b)
{
    for (uint32_t i = 0; i < b->file->node_count; i++) {
        if (!runs_on_device(&b->file->nodes[i])) {
            continue;
        }
        expand_deps(b, i);
        for (size_t k = 0; k < b->expanded_count; k++) {
            uint32_t dep = b->expanded[k];
            b->awaited[dep] = b->awaited[dep] || b->stream[dep] != b->stream[i];
        }
    }
}

/* ---- figures and notes ----------------------------------------------------------------------------------------- */

/* The longest chain of stated times. */
static double critical_path_us(const struct builder *b, size_t *device_count, double *device_us)
{
    double *end = calloc(b->file->node_count + 1, sizeof *end), longest = 0;
    SIM_ASSERT(end != NULL, "out of memory");
    for (size_t k = 0; k < b->file->node_count; k++) {
        uint32_t i = b->order[k];
        const struct chakra_node *node = &b->file->nodes[i];
        for (size_t d = node->dep_first; d < node->dep_first + node->dep_count; d++) {
            end[i] = b->dep[d] != TRACE_NONE && end[b->dep[d]] > end[i] ? end[b->dep[d]] : end[i];
        }
        bool device = runs_on_device(node);
        double own_us = device && node->duration_us > 0 ? node->duration_us : 0;
        end[i] += own_us;
        longest = end[i] > longest ? end[i] : longest;
        *device_count += device;
        *device_us += own_us;
    }
    free(end);
    return longest;
}

static void add_notes(struct builder *b)
{
    if (b->dangling > 0) {
        note(b, "%zu dependenc%s on nodes that the file lacks taken as satisfied, first node %llu on %llu", b->dangling,
             b->dangling == 1 ? "y" : "ies", (unsigned long long)b->dangling_node, (unsigned long long)b->dangling_id);
    }
    if (b->zero_bytes > 0) {
        note(b, "%zu communication node%s of 0 bytes, or without a size, first '%.60s'", b->zero_bytes,
             b->zero_bytes == 1 ? "" : "s", b->zero_name);
    }
    if (b->no_time > 0) {
        note(b, "%zu node%s with neither time nor work nor shapes taken as 0 us, first '%.60s'", b->no_time,
             b->no_time == 1 ? "" : "s", b->no_time_name);
    }
    if (b->stood_in > 0) {
        note(b, "%zu collective%s: %s", b->stood_in, b->stood_in == 1 ? "" : "s", b->stand_in);
    }
    if (b->unknown_type > 0) {
        note(b, "%zu node%s of no known type left out", b->unknown_type, b->unknown_type == 1 ? "" : "s");
    }
    if (b->host_waits > 0) {
        note(b, "%zu dependenc%s of host nodes on device nodes only order them: the host is not held up", b->host_waits,
             b->host_waits == 1 ? "y" : "ies");
    }
    if (b->file->odd_numbers[0] != '\0') {
        note(b, "%s", b->file->odd_numbers);
    }
}

static enum sim_status build(struct builder *b)
{
    const struct chakra_file *file = b->file;
    struct graph_rank *rank = &b->graph->ranks[b->rank];
    enum sim_status status = index_ids(b);
    if (status == SIM_OK) {
        resolve_deps(b);
        status = sort_nodes(b);
    }
    if (status != SIM_OK) {
        return status;
    }
    size_t device_count = 0;
    double device_us = 0, path_us = critical_path_us(b, &device_count, &device_us);
    if (device_count == 0) {
        return sim_fail(b->error, SIM_BAD_TRACE, "%s: %zu nodes and none that a device runs (compute, memory, communication)",
                        file->path, file->node_count);
    }
    choose_streams(b);
    find_awaited(b);
    for (size_t k = 0; k < file->node_count; k++) {
        add_node(b, b->order[k]);
    }
    rank->thread_count = 1;
    rank->stream_count = STREAM_PEER_FIRST + (uint32_t)b->peer_count;
    rank->traced_step_us = rank->traced_busy_us = path_us;
    rank->traced_kernel_us = device_us;
    note(b, "%zu nodes, %zu of them for the device; critical path %.6g us of the times stated in the file, their sum %.6g us",
         file->node_count, device_count, path_us, device_us);
    add_notes(b);
    return SIM_OK;
}

static void *none_array(size_t count)
{
    void *array = malloc((count + 1) * sizeof(uint32_t));
    SIM_ASSERT(array != NULL, "out of memory");
    memset(array, 0xff, (count + 1) * sizeof(uint32_t));
    return array;
}

enum sim_status chakra_build(const struct chakra_file *file, struct graph *graph, uint32_t rank, uint32_t world_size,
                             const char *label, struct sim_error *error)
{
    struct builder b = { .file = file,
                         .graph = graph,
                         .scratch = arena_create(),
                         .rank = rank,
                         .world_size = world_size,
                         .label = label,
                         .error = error,
                         .open_launch = TRACE_NONE };
    b.waited = none_array((size_t)STREAMS_MAX * STREAMS_MAX);
    b.stream = none_array(file->node_count);
    b.dep = none_array(file->dep_count);
    b.order = none_array(file->node_count);
    b.place = none_array(file->node_count);
    b.graph_node = none_array(file->node_count);
    b.record = none_array(file->node_count);
    b.awaited = calloc(file->node_count + 1, sizeof *b.awaited);
    SIM_ASSERT(b.awaited != NULL, "out of memory");
    enum sim_status status = build(&b);
    free(b.slots);
    free(b.dep);
    free(b.order);
    free(b.place);
    free(b.stream);
    free(b.waited);
    free(b.expanded);
    free(b.graph_node);
    free(b.record);
    free(b.awaited);
    arena_destroy(b.scratch);
    return status;
}
