#include "workloads/graph.h"
#include "sim/core/printable.h"
#include "workloads/arena.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* ---- building -------------------------------------------------------------------------------------------------- */

struct graph *graph_create(const char *source)
{
    struct graph *graph = calloc(1, sizeof *graph);
    SIM_ASSERT(graph != NULL, "out of memory");
    graph->arena = arena_create();
    graph->reserve_gib = graph->reserve_share = -1;
    snprintf(graph->source, sizeof graph->source, "%s", source);
    return graph;
}

/* Room for one more: arrays double at each power of two, so that no capacity has to be kept. */
static void *room_for_one(void *items, size_t count, size_t item_bytes)
{
    if (count != 0 && (count < 8 || (count & (count - 1)) != 0)) {
        return items;
    }
    size_t capacity = count < 8 ? 8 : count * 2;
    items = realloc(items, capacity * item_bytes);
    SIM_ASSERT(items != NULL, "out of memory for %zu items", capacity);
    return items;
}

uint32_t graph_add(struct graph *graph, const struct graph_node *node)
{
    SIM_ASSERT(graph->node_count < NONE, "too many nodes");
    graph->nodes = room_for_one(graph->nodes, graph->node_count, sizeof *graph->nodes);
    graph->nodes[graph->node_count] = *node;
    return (uint32_t)graph->node_count++;
}

void graph_add_ranks(struct graph *graph, uint32_t rank_count)
{
    SIM_ASSERT(graph->ranks == NULL, "ranks already there");
    graph->ranks = calloc(rank_count, sizeof *graph->ranks);
    SIM_ASSERT(graph->ranks != NULL, "out of memory for %u ranks", rank_count);
    graph->rank_count = rank_count;
}

void graph_note(struct graph *graph, const char *format, ...)
{
    graph->notes = room_for_one(graph->notes, graph->note_count, sizeof *graph->notes);
    char *text = graph->notes[graph->note_count++];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof *graph->notes, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof *graph->notes) {
        memcpy(text + sizeof *graph->notes - 4, "...", 4);
    }
}

const char *graph_intern(struct graph *graph, const char *text)
{
    if (text == NULL) {
        return NULL;
    }
    size_t length = strlen(text);
    if (!text_is_printable(text)) {
        char *printable = arena_alloc(graph->arena, length + 1);
        memcpy(printable, text, length + 1);
        text_make_printable(printable);
        text = printable;
    }
    return arena_intern(graph->arena, text, length);
}

struct graph_collective *graph_add_collective(struct graph *graph)
{
    return arena_alloc(graph->arena, sizeof(struct graph_collective));
}

uint32_t graph_add_allocation(struct graph *graph, const struct graph_allocation *allocation)
{
    graph->allocations = room_for_one(graph->allocations, graph->allocation_count, sizeof *graph->allocations);
    graph->allocations[graph->allocation_count] = *allocation;
    return (uint32_t)graph->allocation_count++;
}

void graph_destroy(struct graph *graph)
{
    if (graph == NULL) {
        return;
    }
    arena_destroy(graph->arena);
    free(graph->nodes);
    free(graph->notes);
    free(graph->ranks);
    free(graph->allocations);
    free(graph);
}

bool graph_is_device(const struct graph_node *node)
{
    return node->kind == GRAPH_KERNEL || node->kind == GRAPH_COLLECTIVE;
}

bool graph_is_host(const struct graph_node *node)
{
    return !graph_is_device(node);
}

/* ---- the laws -------------------------------------------------------------------------------------------------- */

/* What the walk knows. A node is one or two vertices of the dependency graph: its place on a stream is vertex i, its
 * place in the host order vertex node_count + i (records and waits have both, and the host does not wait for the
 * stream's). Collectives that ranks meet in share the stream vertex of the first, `meeting[i]`. */
struct checker {
    const struct graph *graph;
    struct sim_error *error;
    uint32_t *launch_of;     /* device nodes: the launch that names it, or NONE */
    uint32_t *stream_before; /* nodes on a stream: the one before it, or NONE */
    uint32_t *host_before;   /* host nodes: the one before it in the rank, or NONE */
    uint32_t *meeting;       /* node whose stream vertex stands for this one's */
    size_t *predecessors_at; /* [2 x nodes + 1] into predecessors */
    uint32_t *predecessors;
    uint32_t stream_count; /* over all ranks */
    uint32_t *stream_base; /* [rank]: where its streams begin among them */
    uint32_t *stream_last; /* [stream]: last node seen while walking, or NONE */
};

static bool is_on_stream(const struct graph_node *node)
{
    return graph_is_device(node) || node->kind == GRAPH_EVENT_RECORD || node->kind == GRAPH_EVENT_WAIT;
}

static enum sim_status fail(const struct checker *c, size_t i, const char *what)
{
    const struct graph_node *node = &c->graph->nodes[i];
    return sim_fail(c->error, SIM_BAD_TRACE, "%s: node %zu '%.80s' of rank %u %s", c->graph->source, i,
                    node->name == NULL ? "?" : node->name, node->rank, what);
}

static enum sim_status check_times(const struct checker *c, size_t i)
{
    const struct graph_node *node = &c->graph->nodes[i];
    const double values[] = { node->traced_us, node->bytes_read, node->bytes_written, node->flops };
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        if (!isfinite(values[k]) || values[k] < 0) {
            return fail(c, i, "has a time, byte or operation count that is negative or not finite");
        }
    }
    if (!isfinite(node->traced_start_us)) {
        return fail(c, i, "has a start time that is not finite");
    }
    return SIM_OK;
}

static enum sim_status check_node(const struct checker *c, size_t i)
{
    const struct graph *graph = c->graph;
    const struct graph_node *node = &graph->nodes[i];
    if (node->kind > GRAPH_EVENT_WAIT) {
        return fail(c, i, "is of no known kind");
    }
    if (node->rank >= graph->rank_count) {
        return fail(c, i, "belongs to a rank that is not in the graph");
    }
    if (graph->ranks != NULL && is_on_stream(node) && node->stream >= graph->ranks[node->rank].stream_count) {
        return fail(c, i, "is on a stream that its rank does not have");
    }
    if (node->kind == GRAPH_COLLECTIVE && node->collective == NULL) {
        return fail(c, i, "is a collective without its group and size");
    }
    if (node->kind == GRAPH_KERNEL && node->recognition == GRAPH_RECOGNISED && node->params == NULL) {
        return fail(c, i, "is recognised but has no parameters");
    }
    bool waits_for_record = node->kind == GRAPH_EVENT_WAIT ||
                            (node->kind == GRAPH_HOST_SYNC && node->sync == GRAPH_SYNC_EVENT);
    if (waits_for_record) {
        if (node->waits_for >= graph->node_count ||
            graph->nodes[node->waits_for].kind != GRAPH_EVENT_RECORD ||
            graph->nodes[node->waits_for].rank != node->rank) {
            return fail(c, i, "waits for something that is no event record of its rank");
        }
    }
    return check_times(c, i);
}

static enum sim_status check_launches(struct checker *c)
{
    const struct graph *graph = c->graph;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        if (node->kind != GRAPH_HOST_LAUNCH) {
            continue;
        }
        uint32_t count = node->launched_count == 0 ? 1 : node->launched_count;
        for (uint32_t k = 0; k < count; k++) {
            size_t target = (size_t)node->launched + k;
            if (target >= graph->node_count || !graph_is_device(&graph->nodes[target]) ||
                graph->nodes[target].rank != node->rank) {
                return fail(c, i, "launches something that is no device node of its rank");
            }
            if (c->launch_of[target] != NONE) {
                return fail(c, target, "is launched twice");
            }
            c->launch_of[target] = (uint32_t)i;
        }
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        if (graph_is_device(&graph->nodes[i]) && c->launch_of[i] == NONE) {
            return fail(c, i, "has no launch");
        }
    }
    return SIM_OK;
}

/* Number the streams of all ranks; NONE in stream_last. False when there are absurdly many. */
static bool number_streams(struct checker *c)
{
    const struct graph *graph = c->graph;
    uint64_t total = 0;
    uint32_t *counts = c->stream_base; /* counts first, then their running sum */
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        bool names_stream = is_on_stream(node);
        uint32_t stream = node->stream;
        if (node->kind == GRAPH_HOST_SYNC && node->sync == GRAPH_SYNC_STREAM) {
            names_stream = true;
            stream = node->waits_for;
        }
        if (names_stream && stream >= graph->node_count + 4096) {
            return false;
        }
        if (names_stream && stream >= counts[node->rank]) {
            counts[node->rank] = stream + 1;
        }
    }
    for (uint32_t r = 0; r < graph->rank_count; r++) {
        uint32_t count = counts[r];
        c->stream_base[r] = (uint32_t)total;
        total += count;
    }
    if (total > NONE / 2) {
        return false;
    }
    c->stream_count = (uint32_t)total;
    c->stream_base[graph->rank_count] = c->stream_count;
    c->stream_last = malloc((c->stream_count + 1) * sizeof *c->stream_last);
    SIM_ASSERT(c->stream_last != NULL, "out of memory");
    for (uint32_t s = 0; s < c->stream_count; s++) {
        c->stream_last[s] = NONE;
    }
    return true;
}

static enum sim_status link_order(struct checker *c)
{
    const struct graph *graph = c->graph;
    uint32_t *host_last = malloc((graph->rank_count + 1) * sizeof *host_last);
    SIM_ASSERT(host_last != NULL, "out of memory");
    for (uint32_t r = 0; r < graph->rank_count; r++) {
        host_last[r] = NONE;
    }
    enum sim_status status = SIM_OK;
    for (size_t i = 0; status == SIM_OK && i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        c->host_before[i] = c->stream_before[i] = NONE;
        if (graph_is_host(node)) {
            c->host_before[i] = host_last[node->rank];
            host_last[node->rank] = (uint32_t)i;
        }
        if (is_on_stream(node)) {
            uint32_t *last = &c->stream_last[c->stream_base[node->rank] + node->stream];
            c->stream_before[i] = *last;
            *last = (uint32_t)i;
            uint32_t before = c->stream_before[i];
            if (before != NONE && graph_is_device(node) && graph_is_device(&graph->nodes[before]) &&
                c->launch_of[before] > c->launch_of[i]) {
                status = fail(c, i, "stands behind a later launch on its stream");
            }
        }
    }
    free(host_last);
    return status;
}

/* Ranks meet in a collective: same group, same sequence. Sorting brings members together. */
struct member {
    const struct graph_collective *collective;
    uint32_t node, rank;
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    int order = strcmp(x->collective->group, y->collective->group);
    if (order == 0 && x->collective->sequence != y->collective->sequence) {
        order = x->collective->sequence < y->collective->sequence ? -1 : 1;
    }
    if (order == 0 && x->node != y->node) {
        order = x->node < y->node ? -1 : 1;
    }
    return order;
}

static void join_meetings(struct checker *c)
{
    const struct graph *graph = c->graph;
    size_t count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        c->meeting[i] = (uint32_t)i;
        count += graph->nodes[i].kind == GRAPH_COLLECTIVE;
    }
    struct member *members = malloc((count + 1) * sizeof *members);
    SIM_ASSERT(members != NULL, "out of memory");
    count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        if (node->kind == GRAPH_COLLECTIVE) {
            members[count++] = (struct member){ node->collective, (uint32_t)i, node->rank };
        }
    }
    qsort(members, count, sizeof *members, compare_members);
    for (size_t k = 1; k < count; k++) {
        const struct member *first = &members[k - 1];
        if (strcmp(first->collective->group, members[k].collective->group) == 0 &&
            first->collective->sequence == members[k].collective->sequence &&
            first->rank != members[k].rank) {
            c->meeting[members[k].node] = c->meeting[first->node];
        }
    }
    free(members);
}

/* Vertices as in struct checker. */
static uint32_t stream_vertex(const struct checker *c, uint32_t node)
{
    return c->meeting[node];
}

static uint32_t host_vertex(const struct checker *c, uint32_t node)
{
    return (uint32_t)c->graph->node_count + node;
}

/* Call visit(to, from) for every dependency of every node, in index order. */
static void each_dependency(struct checker *c, void (*visit)(struct checker *c, uint32_t to, uint32_t from))
{
    const struct graph *graph = c->graph;
    for (uint32_t s = 0; s < c->stream_count; s++) {
        c->stream_last[s] = NONE;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        uint32_t base = c->stream_base[node->rank], end = c->stream_base[node->rank + 1];
        if (graph_is_host(node) && c->host_before[i] != NONE) {
            visit(c, host_vertex(c, i), host_vertex(c, c->host_before[i]));
        }
        if (node->kind == GRAPH_HOST_SYNC && node->sync == GRAPH_SYNC_EVENT) {
            visit(c, host_vertex(c, i), stream_vertex(c, node->waits_for));
        } else if (node->kind == GRAPH_HOST_SYNC) {
            bool one = node->sync == GRAPH_SYNC_STREAM;
            for (uint32_t s = one ? base + node->waits_for : base;
                 s < (one ? base + node->waits_for + 1 : end); s++) {
                if (c->stream_last[s] != NONE) {
                    visit(c, host_vertex(c, i), stream_vertex(c, c->stream_last[s]));
                }
            }
        }
        if (is_on_stream(node)) {
            uint32_t at = stream_vertex(c, i);
            if (c->stream_before[i] != NONE) {
                visit(c, at, stream_vertex(c, c->stream_before[i]));
            }
            visit(c, at, host_vertex(c, graph_is_device(node) ? c->launch_of[i] : i));
            if (node->kind == GRAPH_EVENT_WAIT) {
                visit(c, at, stream_vertex(c, node->waits_for));
            }
            c->stream_last[base + node->stream] = i;
        }
    }
}

static void count_dependency(struct checker *c, uint32_t to, uint32_t from)
{
    (void)from;
    c->predecessors_at[to + 1]++;
}

static void store_dependency(struct checker *c, uint32_t to, uint32_t from)
{
    c->predecessors[c->predecessors_at[to]++] = from;
}

static void build_dependencies(struct checker *c)
{
    size_t vertex_count = 2 * c->graph->node_count;
    each_dependency(c, count_dependency);
    for (size_t v = 0; v < vertex_count; v++) {
        c->predecessors_at[v + 1] += c->predecessors_at[v];
    }
    c->predecessors = malloc((c->predecessors_at[vertex_count] + 1) * sizeof *c->predecessors);
    SIM_ASSERT(c->predecessors != NULL, "out of memory");
    each_dependency(c, store_dependency);
    for (size_t v = vertex_count; v > 0; v--) { /* storing moved each start to its end */
        c->predecessors_at[v] = c->predecessors_at[v - 1];
    }
    c->predecessors_at[0] = 0;
}

/* path[from .. count-1] is a cycle, each entry depending on the next; say it in the order things would have to run. */
static enum sim_status fail_cycle(const struct checker *c, const uint32_t *path, size_t from, size_t count)
{
    char text[600] = "";
    size_t used = 0, shown = 0, last = SIZE_MAX;
    for (size_t k = count; k-- > from && shown < 6;) {
        size_t node = path[k] % c->graph->node_count;
        if (node == last) {
            continue; /* both vertices of one node */
        }
        last = node;
        const char *name = c->graph->nodes[node].name;
        int length = snprintf(text + used, sizeof text - used, "node %zu '%.40s' -> ", node,
                              name == NULL ? "?" : name);
        used += (size_t)length < sizeof text - used ? (size_t)length : sizeof text - used - 1;
        shown++;
    }
    return sim_fail(c->error, SIM_BAD_TRACE, "%s: dependency cycle: %s%snode %zu", c->graph->source, text,
                    shown == 6 ? "... -> " : "", (size_t)(path[count - 1] % c->graph->node_count));
}

static enum sim_status check_cycles(struct checker *c)
{
    size_t vertex_count = 2 * c->graph->node_count;
    enum { NEW, OPEN, DONE };
    unsigned char *state = calloc(vertex_count + 1, 1);
    uint32_t *path = malloc((vertex_count + 1) * sizeof *path);
    size_t *next = malloc((vertex_count + 1) * sizeof *next);
    SIM_ASSERT(state != NULL && path != NULL && next != NULL, "out of memory");
    enum sim_status status = SIM_OK;
    for (size_t start = 0; status == SIM_OK && start < vertex_count; start++) {
        size_t depth = 0;
        if (state[start] != NEW) {
            continue;
        }
        path[depth] = (uint32_t)start;
        next[depth++] = c->predecessors_at[start];
        state[start] = OPEN;
        while (depth > 0 && status == SIM_OK) {
            uint32_t at = path[depth - 1];
            if (next[depth - 1] == c->predecessors_at[at + 1]) {
                state[at] = DONE;
                depth--;
                continue;
            }
            uint32_t before = c->predecessors[next[depth - 1]++];
            if (state[before] == NEW) {
                state[before] = OPEN;
                path[depth] = before;
                next[depth++] = c->predecessors_at[before];
            } else if (state[before] == OPEN) {
                size_t from = depth - 1;
                while (from > 0 && path[from] != before) { /* an open vertex is on the path */
                    from--;
                }
                status = fail_cycle(c, path, from, depth);
            }
        }
    }
    free(state);
    free(path);
    free(next);
    return status;
}

enum sim_status graph_check(const struct graph *graph, struct sim_error *error)
{
    struct checker c = { .graph = graph, .error = error };
    enum sim_status status = SIM_OK;
    for (size_t i = 0; i < graph->node_count; i++) {
        status = check_node(&c, i);
        if (status != SIM_OK) {
            return status;
        }
    }
    size_t count = graph->node_count;
    c.launch_of = malloc((count + 1) * sizeof *c.launch_of);
    c.stream_before = malloc((count + 1) * sizeof *c.stream_before);
    c.host_before = malloc((count + 1) * sizeof *c.host_before);
    c.meeting = malloc((count + 1) * sizeof *c.meeting);
    c.predecessors_at = calloc(2 * count + 2, sizeof *c.predecessors_at);
    c.stream_base = calloc(graph->rank_count + 2, sizeof *c.stream_base);
    SIM_ASSERT(c.launch_of != NULL && c.stream_before != NULL && c.host_before != NULL, "out of memory");
    SIM_ASSERT(c.meeting != NULL && c.predecessors_at != NULL && c.stream_base != NULL, "out of memory");
    for (size_t i = 0; i < count; i++) {
        c.launch_of[i] = NONE;
    }
    status = check_launches(&c);
    if (status == SIM_OK && !number_streams(&c)) {
        status = sim_fail(error, SIM_BAD_TRACE, "%s: a stream index is out of range", graph->source);
    }
    if (status == SIM_OK) {
        status = link_order(&c);
    }
    if (status == SIM_OK) {
        join_meetings(&c);
        build_dependencies(&c);
        status = check_cycles(&c);
    }
    free(c.launch_of);
    free(c.stream_before);
    free(c.host_before);
    free(c.meeting);
    free(c.predecessors_at);
    free(c.predecessors);
    free(c.stream_base);
    free(c.stream_last);
    return status;
}
