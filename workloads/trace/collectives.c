/* Collectives: what the process group recorded beside the kernel (or beside the operator that launched it), and the ranks
 * of a run joined. A rank's n-th collective of a group is every other rank's n-th of it. */
#include "workloads/trace/trace_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kind_name {
    const char *part, *kind;
};

/* By what the framework calls it, else by the kernel's name; letters are compared without case, _ left out. The first that
 * fits counts, so the longer stand first. */
static const struct kind_name kind_names[] = {
    { "alltoall", "all_to_all" },
    { "reducescatter", "reduce_scatter" },
    { "allreduce", "all_reduce" },
    { "allgather", "all_gather" },
    { "gatherintotensor", "all_gather" },
    { "broadcast", "broadcast" },
    { "sendrecv", "send_recv" },
    { "send", "send_recv" },
    { "recv", "send_recv" },
};

struct dtype_name {
    const char *name;
    double bytes;
};
static const struct dtype_name dtype_names[] = {
    { "float", 4 },   { "half", 2 },         { "bfloat16", 2 },   { "double", 8 }, { "long", 8 },
    { "int", 4 },     { "short", 2 },        { "byte", 1 },       { "char", 1 },   { "bool", 1 },
    { "float8", 1 },  { "float8e4m3fn", 1 }, { "float8e5m2", 1 }, { "int8", 1 },   { "uint8", 1 },
    { "float32", 4 }, { "float16", 2 },      { "int64", 8 },
};

static void squash(const char *text, char *out, size_t capacity)
{
    size_t used = 0;
    for (; *text != '\0' && *text != '(' && used + 1 < capacity; text++) {
        if (*text != '_') {
            out[used++] = *text >= 'A' && *text <= 'Z' ? (char)(*text - 'A' + 'a') : *text;
        }
    }
    out[used] = '\0';
}

const char *collective_kind_of(const char *text)
{
    char bare[160];
    squash(text, bare, sizeof bare);
    for (size_t i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++) {
        if (strstr(bare, kind_names[i].part) != NULL) {
            return kind_names[i].kind;
        }
    }
    return NULL;
}

static double dtype_bytes(const char *dtype)
{
    char bare[32];
    squash(dtype == NULL ? "" : dtype, bare, sizeof bare);
    for (size_t i = 0; i < sizeof dtype_names / sizeof dtype_names[0]; i++) {
        if (strcmp(bare, dtype_names[i].name) == 0) {
            return dtype_names[i].bytes;
        }
    }
    return 0;
}

bool collective_is(const struct trace_event *event)
{
    if (event->category != TRACE_KERNEL) {
        return false;
    }
    const struct trace_device_args *args = event->args;
    return strncmp(event->name, "ncclDevKernel", 13) == 0 || strncmp(event->name, "ncclKernel", 10) == 0 ||
           strncmp(event->name, "rcclKernel", 10) == 0 || args->collective != NULL;
}

/* The kernel's own record, else that of the innermost operator around its launch that has one. */
static const struct trace_collective_args *find_args(const struct host_step *step,
                                                     const struct device_item *item)
{
    const struct trace_device_args *device = item->event->args;
    if (device->collective != NULL) {
        return device->collective;
    }
    for (uint32_t i = step->items[item->launch].parent; i != TRACE_NONE; i = step->items[i].parent) {
        const struct trace_operator_args *args = step->items[i].event->args;
        if (args != NULL && args->collective != NULL) {
            return args->collective;
        }
    }
    return NULL;
}

/* nccl-tests' size of the message: all-gather by its output, reduce-scatter by its input, both over the whole group. */
static double message_elements(const char *kind, const struct trace_collective_args *args, double group_size)
{
    double in = args->in_elements > 0 ? args->in_elements : 0,
           out = args->out_elements > 0 ? args->out_elements : 0;
    if (strcmp(kind, "all_gather") == 0) {
        return out > in ? out : in * group_size; /* some versions record one rank's part as output */
    }
    if (strcmp(kind, "reduce_scatter") == 0) {
        return in > out ? in : out * group_size;
    }
    return in > out ? in : out;
}

static void read_splits(struct graph_collective *out, const struct trace_collective_args *args,
                        struct graph *graph)
{
    const char *text = args->in_split;
    if (text == NULL || strlen(text) <= 2 || out->group_size < 2 || out->group_size > 4096) {
        return;
    }
    double *split = arena_alloc(graph->arena, out->group_size * sizeof *split), sum = 0;
    uint32_t count = 0;
    for (const char *at = text + 1; *at != '\0' && *at != ']' && count < out->group_size;) {
        char *end;
        split[count] = strtod(at, &end);
        if (end == at || split[count] < 0) {
            break; /* "..." of a list the profiler cut */
        }
        sum += split[count++];
        at = end + strspn(end, ", ");
    }
    if (count != out->group_size || !(sum > 0)) {
        graph_note(graph, "a collective's split sizes %.80s do not name %u ranks: taken as even", text,
                   out->group_size);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        split[i] *= out->bytes / sum;
    }
    out->split_bytes_to = split;
}

/* Older recordings: the library region around the launch names the kind and its first tensors. In out->bytes. */
static const char *from_region(const struct host_step *step, const struct device_item *item,
                               double group_size, struct graph_collective *out)
{
    uint32_t region = step->items[item->launch].region;
    if (region == TRACE_NONE) {
        return NULL;
    }
    const struct trace_event *event = step->items[region].event;
    const char *kind = collective_kind_of(event->name);
    struct arena *scratch = arena_create();
    const struct operator_tensors *tensors = operator_tensors_parse(scratch, event->args);
    double bytes = 0;
    for (size_t i = 0; i < tensors->tensor_count && tensors->tensors[i].argument == 0; i++) {
        bytes += tensor_elements(&tensors->tensors[i]) * tensors->tensors[i].element_bytes;
    }
    arena_destroy(scratch);
    out->bytes = kind != NULL && strcmp(kind, "all_gather") == 0 ? bytes * group_size : bytes;
    return kind;
}

struct graph_collective *collective_of(const struct host_step *step, const struct device_item *item,
                                       int64_t world_size, struct graph *graph, const char **name)
{
    struct graph_collective *out = graph_add_collective(graph);
    const struct trace_collective_args *args = find_args(step, item);
    const char *kind = args != NULL ? collective_kind_of(args->name) : NULL;
    *name = args != NULL ? args->name : item->event->name;
    if (args == NULL) {
        kind = from_region(step, item, world_size > 0 ? (double)world_size : 1, out);
        kind = kind != NULL ? kind : collective_kind_of(item->event->name);
    }
    snprintf(out->kind, sizeof out->kind, "%s", kind != NULL ? kind : "unknown");
    double group_size = args != NULL && args->group_size > 0 ? args->group_size
                        : world_size > 0                     ? (double)world_size
                                                             : 1;
    out->group_size = (uint32_t)group_size;
    if (args == NULL) {
        snprintf(out->group, sizeof out->group, "world");
        return out;
    }
    if (args->group_ranks != NULL && strlen(args->group_ranks) < sizeof out->group &&
        strchr(args->group_ranks, '.') == NULL) {
        snprintf(out->group, sizeof out->group, "%s", args->group_ranks);
    } else {
        snprintf(out->group, sizeof out->group, "group %.24s of %u",
                 args->group_name != NULL ? args->group_name : "?", out->group_size);
    }
    out->bytes = message_elements(out->kind, args, group_size) * dtype_bytes(args->dtype);
    out->in_place = strcmp(out->kind, "all_reduce") == 0 ||
                    strcmp(out->kind, "broadcast") == 0; /* the framework's way */
    if (strcmp(out->kind, "all_to_all") == 0) {
        read_splits(out, args, graph);
    }
    return out;
}

/* ---- joining the ranks ----------------------------------------------------------------------------------------- */

struct meeting {
    const char *group;
    uint64_t sequence;
    uint32_t node;
};

static int compare_meetings(const void *a, const void *b)
{
    const struct meeting *x = a, *y = b;
    int order = strcmp(x->group, y->group);
    if (order == 0 && x->sequence != y->sequence) {
        order = x->sequence < y->sequence ? -1 : 1;
    }
    return order != 0 ? order : x->node < y->node ? -1 : x->node > y->node;
}

/* Number each rank's collectives of a group in launch order: nodes of a rank are in launch order, so sorting by group,
 * then rank, then node brings each count together. */
static int compare_members(const void *a, const void *b)
{
    const struct meeting *x = a, *y = b; /* sequence: the rank */
    return compare_meetings(x, y);
}

static size_t find_members(const struct graph *graph, struct meeting *members)
{
    size_t count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        if (node->kind == GRAPH_COLLECTIVE) {
            members[count++] = (struct meeting){ node->collective->group, node->rank, (uint32_t)i };
        }
    }
    return count;
}

static void join_one(struct graph *graph, const struct meeting *first, size_t count, size_t *disagree,
                     uint32_t *example)
{
    double least = graph->nodes[first->node].traced_us;
    for (size_t i = 1; i < count; i++) {
        const struct graph_node *node = &graph->nodes[first[i].node], *other = &graph->nodes[first->node];
        least = node->traced_us < least ? node->traced_us : least;
        bool same_size = node->collective->bytes == other->collective->bytes ||
                         strcmp(other->collective->kind, "all_to_all") ==
                             0; /* ranks may send unequal amounts */
        if (strcmp(node->collective->kind, other->collective->kind) != 0 || !same_size) {
            *example = first[i].node;
            ++*disagree;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct graph_node *node = &graph->nodes[first[i].node];
        node->traced_wait_us = node->traced_us - least;
        node->traced_us = least;
    }
}

void collectives_join(struct graph *graph)
{
    struct meeting *members = malloc((graph->node_count + 1) * sizeof *members);
    SIM_ASSERT(members != NULL, "out of memory");
    size_t count = find_members(graph, members), disagree = 0, alone = 0;
    uint32_t example = 0;
    if (count > 0) {
        qsort(members, count, sizeof *members, compare_members);
    }
    uint64_t sequence = 0;
    for (size_t i = 0; i < count; i++) {
        bool continues = i > 0 && strcmp(members[i - 1].group, members[i].group) == 0 &&
                         graph->nodes[members[i - 1].node].rank == graph->nodes[members[i].node].rank;
        sequence = continues ? sequence + 1 : 0;
        graph->nodes[members[i].node].collective->sequence = sequence;
    }
    for (size_t i = 0; i < count; i++) {
        members[i].sequence = graph->nodes[members[i].node].collective->sequence;
    }
    if (count > 0) {
        qsort(members, count, sizeof *members, compare_meetings);
    }
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1;
             end < count &&
             compare_meetings(&members[i], &(struct meeting){ members[end].group, members[end].sequence,
                                                              members[i].node }) == 0;
             end++) {
        }
        join_one(graph, &members[i], end - i, &disagree, &example);
        alone += graph->rank_count > 1 && end - i < graph->rank_count &&
                 graph->nodes[members[i].node].collective->group_size >= graph->world_size;
    }
    if (disagree > 0) {
        graph_note(
            graph,
            "%zu collectives differ in kind or size between ranks that meet in them, first %s of %.40s #%llu",
            disagree, graph->nodes[example].collective->kind, graph->nodes[example].collective->group,
            (unsigned long long)graph->nodes[example].collective->sequence);
    }
    if (alone > 0) {
        graph_note(graph, "%zu collectives of the whole run are missing in some of the %u ranks given", alone,
                   graph->rank_count);
    }
    free(members);
}
