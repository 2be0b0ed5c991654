/* Layers of a recorded step, found by structure. A rank's host issues the same operators for every layer, so the sequence of its
 * nodes has stretches in which a period of nodes comes as many times as there are layers: one forward, one backward, perhaps one of an
 * optimiser that walks parameters. Where a layer begins does not matter: a period taken out of a stretch, or put behind it, leaves
 * a step of fewer or more layers. What is done once for all parameters (optimiser launches over lists of tensors, exchanges of
 * gradients) grows with their elements, which the gradients that are accumulated show. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/core/hash.h"
#include "workloads/rewrite_internal.h"

#define STRETCHES_MAX 64
#define PERIODS_TRIED 256
#define GROUPS_MAX 64
#define GRADIENT "torch::autograd::AccumulateGrad"

struct stretch {
    size_t first, period; /* positions in the rank's sequence */
    bool backward;
};

struct layers { /* of one rank */
    const struct graph *graph;
    const struct rewrite_blocks *change;
    const uint32_t *nodes; /* [count] indices in `graph`, in host order */
    size_t count;
    struct stretch stretches[STRETCHES_MAX];
    size_t stretch_count;
    double parameters, layer_parameters; /* elements; of all, of a layer; 0: not shown */
};

/* ---- finding stretches ----------------------------------------------------------------------------------------- */

static uint64_t add_text(uint64_t hash, const char *text)
{
    return hash64_add_text(hash, text != NULL ? text : "");
}

static uint64_t signature_of(const struct graph_node *node)
{
    uint64_t hash = hash64_add(HASH64_START, node->kind);
    hash = hash64_add(hash, node->depth);
    hash = hash64_add(hash, graph_is_device(node) ? node->stream : 0);
    hash = add_text(add_text(hash, node->name), node->operator_name);
    hash = add_text(add_text(add_text(hash, node->suite), node->kernel), node->params);
    hash = add_text(hash, node->shapes);
    return node->collective != NULL ? hash64_add_double(add_text(hash, node->collective->kind), node->collective->bytes) : hash;
}

struct occurrence {
    uint64_t signature;
    size_t at;
};

static int by_signature(const void *a, const void *b)
{
    const struct occurrence *x = a, *y = b;
    if (x->signature != y->signature) {
        return x->signature < y->signature ? -1 : 1;
    }
    return x->at < y->at ? -1 : x->at > y->at;
}

struct distance {
    size_t nodes, count;
};

static int by_nodes(const void *a, const void *b)
{
    const struct distance *x = a, *y = b;
    return x->nodes < y->nodes ? -1 : x->nodes > y->nodes;
}

static int by_count(const void *a, const void *b) /* most first, then the shortest */
{
    const struct distance *x = a, *y = b;
    return x->count != y->count ? (x->count > y->count ? -1 : 1) : by_nodes(a, b);
}

/* Distances between a node and the next like it, most frequent first. */
static size_t distances_of(const uint64_t *signatures, size_t count, struct distance *distances)
{
    struct occurrence *occurrences = malloc((count + 1) * sizeof *occurrences);
    SIM_ASSERT(occurrences != NULL, "out of memory");
    for (size_t i = 0; i < count; i++) {
        occurrences[i] = (struct occurrence){ signatures[i], i };
    }
    qsort(occurrences, count, sizeof occurrences[0], by_signature);
    size_t found = 0, merged = 0;
    for (size_t i = 1; i < count; i++) {
        if (occurrences[i].signature == occurrences[i - 1].signature) {
            distances[found++] = (struct distance){ occurrences[i].at - occurrences[i - 1].at, 1 };
        }
    }
    free(occurrences);
    qsort(distances, found, sizeof distances[0], by_nodes);
    for (size_t i = 0; i < found; i++) {
        if (merged > 0 && distances[merged - 1].nodes == distances[i].nodes) {
            distances[merged - 1].count++;
        } else {
            distances[merged++] = distances[i];
        }
    }
    qsort(distances, merged, sizeof distances[0], by_count);
    return merged;
}

static const struct graph_node *node_at(const struct layers *l, size_t position)
{
    return &l->graph->nodes[l->nodes[position]];
}

static bool has_device_work(const struct layers *l, const struct stretch *stretch)
{
    for (size_t i = 0; i < stretch->period; i++) {
        if (graph_is_device(node_at(l, stretch->first + i))) {
            return true;
        }
    }
    return false;
}

static bool is_backward(const struct layers *l, const struct stretch *stretch)
{
    for (size_t i = 0; i < stretch->period; i++) {
        const char *name = node_at(l, stretch->first + i)->name;
        if (name != NULL && (strstr(name, "Backward") != NULL || strstr(name, GRADIENT) != NULL)) {
            return true;
        }
    }
    return false;
}

/* Of two that overlap the longer stays. */
static void add_stretch(struct layers *l, struct stretch stretch, uint32_t copies)
{
    if (!has_device_work(l, &stretch)) {
        return;
    }
    for (size_t s = 0; s < l->stretch_count; s++) {
        const struct stretch *other = &l->stretches[s];
        if (stretch.first < other->first + other->period * copies && other->first < stretch.first + stretch.period * copies) {
            if (stretch.period > other->period) {
                l->stretches[s] = stretch;
            }
            return;
        }
    }
    if (l->stretch_count < STRETCHES_MAX) {
        l->stretches[l->stretch_count++] = stretch;
    }
}

static void find_stretches(struct layers *l)
{
    uint32_t copies = l->change->from;
    uint64_t *signatures = malloc((l->count + 1) * sizeof *signatures);
    struct distance *distances = malloc((l->count + 1) * sizeof *distances);
    SIM_ASSERT(signatures != NULL && distances != NULL, "out of memory");
    for (size_t i = 0; i < l->count; i++) {
        signatures[i] = signature_of(node_at(l, i));
    }
    size_t tried = distances_of(signatures, l->count, distances);
    tried = tried < PERIODS_TRIED ? tried : PERIODS_TRIED;
    for (size_t d = 0; d < tried; d++) {
        size_t period = distances[d].nodes, like = 0;
        for (size_t i = 0; i + period < l->count; i++) {
            like = signatures[i] == signatures[i + period] ? like + 1 : 0;
            bool ends = like > 0 && (i + 1 + period == l->count || signatures[i + 1] != signatures[i + 1 + period]);
            if (ends && (like + period) / period == copies) {
                add_stretch(l, (struct stretch){ .first = i + 1 - like, .period = period }, copies);
            }
        }
    }
    for (size_t s = 0; s < l->stretch_count; s++) {
        l->stretches[s].backward = is_backward(l, &l->stretches[s]);
    }
    free(signatures);
    free(distances);
}

/* The stretch of most nodes of its kind. */
static const struct stretch *main_stretch(const struct layers *l, bool backward)
{
    const struct stretch *longest = NULL;
    for (size_t s = 0; s < l->stretch_count; s++) {
        const struct stretch *stretch = &l->stretches[s];
        if (stretch->backward == backward && (longest == NULL || stretch->period > longest->period)) {
            longest = stretch;
        }
    }
    return longest;
}

static double elements_of(const char *shapes)
{
    double elements = 1;
    for (const char *at = shapes; at != NULL && *at != '\0' && *at != ']';) {
        char *end = NULL;
        double dim = strtod(at, &end);
        elements *= end != at ? dim : 1;
        at = end != at ? end : at + 1;
    }
    return shapes != NULL ? elements : 0;
}

static void count_parameters(struct layers *l)
{
    const struct stretch *backward = main_stretch(l, true);
    for (size_t i = 0; i < l->count; i++) {
        const struct graph_node *node = node_at(l, i);
        if (node->kind != GRAPH_HOST_OP || node->name == NULL || strcmp(node->name, GRADIENT) != 0) {
            continue;
        }
        double elements = elements_of(node->shapes);
        l->parameters += elements;
        l->layer_parameters += backward != NULL && i >= backward->first && i < backward->first + backward->period ? elements : 0;
    }
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */

static bool trains(const struct layers *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const char *name = node_at(l, i)->name;
        if (name != NULL && strstr(name, "Backward") != NULL) {
            return true;
        }
    }
    return false;
}

static bool period_has(const struct layers *l, const struct stretch *stretch, const struct graph_node *like)
{
    for (size_t i = 0; i < stretch->period; i++) {
        const struct graph_node *node = node_at(l, stretch->first + i);
        if (node->kind == GRAPH_KERNEL && node->params != NULL && strcmp(node->name, like->name) == 0 &&
            strcmp(node->params, like->params) == 0) {
            return true;
        }
    }
    return false;
}

/* Does the backward pass run the products of the forward one again? The last may be left out (nodes_again()). */
static bool computes_again(const struct layers *l, const struct stretch *forward, const struct stretch *backward)
{
    size_t products = 0, again = 0;
    for (size_t i = 0; i < forward->period; i++) {
        const struct graph_node *node = node_at(l, forward->first + i);
        if (node->kind == GRAPH_KERNEL && node->params != NULL && strcmp(node->suite, "gemm") == 0) {
            products++;
            again += period_has(l, backward, node);
        }
    }
    return products > 0 && again >= (products > 1 ? products - 1 : 1);
}

/* Operators that keep nothing of what they are given. */
static bool keeps_nothing(const char *name)
{
    static const char *const names[] = { "aten::add", "aten::add_", "aten::view", "aten::reshape", "aten::_unsafe_view", "aten::as_strided",
                                         "aten::t", "aten::transpose", "aten::expand", "aten::empty", "aten::empty_strided" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (name != NULL && strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Nodes of a forward layer that are run again: a framework stops once all that was kept is there again. The last product's result is
 * not kept where only operators follow that keep nothing (a residual's sum), so the product is not run. */
static size_t nodes_again(const struct layers *l, const struct stretch *forward)
{
    size_t product = forward->period;
    for (size_t i = forward->period; i-- > 0 && product == forward->period;) {
        const struct graph_node *node = node_at(l, forward->first + i);
        bool is_product = node->kind == GRAPH_KERNEL && strcmp(node->suite, "gemm") == 0;
        if (!is_product && node->kind == GRAPH_HOST_OP && !keeps_nothing(node->name)) {
            return forward->period;
        }
        product = is_product ? i : product;
    }
    const char *operator_name = product < forward->period ? node_at(l, forward->first + product)->operator_name : NULL;
    for (size_t i = product; operator_name != NULL && i-- > 0;) {
        const struct graph_node *node = node_at(l, forward->first + i);
        if (node->kind == GRAPH_HOST_OP && node->name != NULL && strcmp(node->name, operator_name) == 0) {
            return i;
        }
    }
    return forward->period;
}

static enum sim_status check_layers(const struct layers *l, struct sim_error *error)
{
    const struct stretch *forward = main_stretch(l, false), *backward = main_stretch(l, true);
    const char *source = l->graph->source;
    if (forward == NULL || (trains(l) && backward == NULL)) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "%s: no stretch of %s operators repeats %u times, so which make a layer is not seen: say layers=RECORDED:NEW with "
                        "the number of like layers, or describe the model (workloads/models)",
                        source, forward == NULL ? "forward" : "backward", l->change->from);
    }
    if (l->change->recomputed == 0) {
        return SIM_OK;
    }
    if (backward == NULL) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: no backward pass, in which blocks would be computed again", source);
    }
    if (computes_again(l, forward, backward)) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: its blocks are computed again already; what they would keep without that is not in a "
                                                 "trace: describe the model (workloads/models)", source);
    }
    for (size_t i = 0; i < forward->period; i++) {
        if (node_at(l, forward->first + i)->kind == GRAPH_COLLECTIVE) {
            return sim_fail(error, SIM_BAD_ARGUMENT,
                            "%s: a layer gathers (%.60s), and whether computing it again gathers again is not in a trace: describe the "
                            "model (workloads/models)", source, node_at(l, forward->first + i)->name);
        }
    }
    return SIM_OK;
}

/* ---- the new sequence ------------------------------------------------------------------------------------------ */

#define NO_STRETCH SIZE_MAX

struct emitted { /* a node of the new graph */
    size_t position;  /* whose copy it is */
    size_t stretch;   /* or NO_STRETCH */
    size_t layer;     /* in the new stretch */
    size_t again;     /* computed again: 1 + index of its first node in `emitted`; else 0 */
};

struct sequence {
    const struct layers *layers;
    struct emitted *emitted;
    size_t count;
    size_t again_nodes;            /* of a forward layer, where it is computed again */
    size_t *outside;               /* [positions] -> emitted */
    size_t *inside[STRETCHES_MAX]; /* [layers x period] -> emitted */
};

static size_t stretch_of(const struct layers *l, size_t position)
{
    for (size_t s = 0; s < l->stretch_count; s++) {
        const struct stretch *stretch = &l->stretches[s];
        if (position >= stretch->first && position < stretch->first + stretch->period * l->change->from) {
            return s;
        }
    }
    return NO_STRETCH;
}

static void emit(struct sequence *q, struct emitted emitted)
{
    q->emitted[q->count++] = emitted;
}

/* The forward layer that backward layer `layer` belongs to, before it. */
static void emit_again(struct sequence *q, const struct stretch *forward)
{
    size_t first = q->count;
    for (size_t i = 0; i < q->again_nodes; i++) {
        emit(q, (struct emitted){ .position = forward->first + i, .stretch = NO_STRETCH, .again = 1 + first });
    }
}

static void emit_stretch(struct sequence *q, size_t s)
{
    const struct layers *l = q->layers;
    const struct stretch *stretch = &l->stretches[s], *forward = main_stretch(l, false);
    size_t again = stretch == main_stretch(l, true) ? (size_t)lround(l->change->recomputed * l->change->to) : 0;
    for (size_t layer = 0; layer < l->change->to; layer++) {
        size_t copied = layer < l->change->from ? layer : l->change->from - 1;
        if (layer + again >= l->change->to) { /* the first layers' backward comes last */
            emit_again(q, forward);
        }
        for (size_t i = 0; i < stretch->period; i++) {
            q->inside[s][layer * stretch->period + i] = q->count;
            emit(q, (struct emitted){ .position = stretch->first + copied * stretch->period + i, .stretch = s, .layer = layer });
        }
    }
}

static struct sequence sequence_of(const struct layers *l)
{
    struct sequence q = { .layers = l, .again_nodes = nodes_again(l, main_stretch(l, false)) };
    size_t most = l->count;
    for (size_t s = 0; s < l->stretch_count; s++) {
        most += 2 * l->stretches[s].period * l->change->to;
        q.inside[s] = malloc((l->stretches[s].period * l->change->to + 1) * sizeof *q.inside[s]);
        SIM_ASSERT(q.inside[s] != NULL, "out of memory");
    }
    q.emitted = malloc((most + 1) * sizeof *q.emitted);
    q.outside = malloc((l->count + 1) * sizeof *q.outside);
    SIM_ASSERT(q.emitted != NULL && q.outside != NULL, "out of memory");
    for (size_t position = 0; position < l->count;) {
        size_t s = stretch_of(l, position);
        if (s == NO_STRETCH) {
            q.outside[position] = q.count;
            emit(&q, (struct emitted){ .position = position, .stretch = NO_STRETCH });
            position++;
        } else {
            emit_stretch(&q, s);
            position += l->stretches[s].period * l->change->from;
        }
    }
    SIM_ASSERT(q.count <= most, "%zu nodes in room for %zu", q.count, most);
    return q;
}

static void sequence_finish(struct sequence *q)
{
    for (size_t s = 0; s < q->layers->stretch_count; s++) {
        free(q->inside[s]);
    }
    free(q->emitted);
    free(q->outside);
}

/* The emitted node that stands for position `target` as `from` means it: in its own layer what is, layers before it as many before,
 * and from behind a stretch as many before the stretch's end. */
static size_t emitted_for(const struct sequence *q, const struct emitted *from, size_t target)
{
    const struct layers *l = q->layers;
    size_t s = stretch_of(l, target);
    if (from->again > 0) {
        const struct stretch *forward = main_stretch(l, false);
        if (target >= forward->first && target < forward->first + q->again_nodes) {
            return from->again - 1 + target - forward->first;
        }
    }
    if (s == NO_STRETCH) {
        return q->outside[target];
    }
    const struct stretch *stretch = &l->stretches[s];
    size_t layer = (target - stretch->first) / stretch->period, offset = (target - stretch->first) % stretch->period;
    ptrdiff_t moved = 0;
    if (from->stretch == s) {
        moved = (ptrdiff_t)from->layer - (ptrdiff_t)((from->position - stretch->first) / stretch->period);
    } else if (from->position > target) {
        moved = (ptrdiff_t)l->change->to - (ptrdiff_t)l->change->from;
    }
    ptrdiff_t new_layer = (ptrdiff_t)layer + moved;
    new_layer = new_layer < 0 ? 0 : new_layer < (ptrdiff_t)l->change->to ? new_layer : (ptrdiff_t)l->change->to - 1;
    return q->inside[s][(size_t)new_layer * stretch->period + offset];
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

/* Work over all parameters at once: as much more or less as there are. */
static const char *scaled_list(struct graph *to, const char *params, double ratio)
{
    static const char *const amounts[] = { "elements", "chunks", "tensors", "n" };
    char text[2048];
    size_t used = 0;
    for (const char *at = params; *at != '\0';) {
        size_t length = strcspn(at, ";"), key = strcspn(at, "=");
        bool is_amount = false;
        for (size_t a = 0; a < sizeof amounts / sizeof amounts[0]; a++) {
            is_amount = is_amount || (strlen(amounts[a]) == key && strncmp(at, amounts[a], key) == 0);
        }
        if (is_amount) {
            double value = fmax(1, round(strtod(at + key + 1, NULL) * ratio));
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s=%.0f", used > 0 ? ";" : "", (int)key, at, value);
        } else {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", used > 0 ? ";" : "", (int)length, at);
        }
        SIM_ASSERT(used < sizeof text, "parameters of a list too long");
        at += length + (at[length] == ';' ? 1 : 0);
    }
    return graph_intern(to, text);
}

static bool is_gradients(const struct graph_collective *collective)
{
    return strcmp(collective->kind, "all_reduce") == 0 || strcmp(collective->kind, "reduce_scatter") == 0 ||
           strcmp(collective->kind, "all_gather") == 0;
}

struct group_count {
    char group[48];
    uint64_t next;
};

struct writing {
    struct graph *to;
    double ratio; /* of parameters, new over recorded */
    struct group_count groups[GROUPS_MAX];
    size_t group_count;
    size_t scaled;
};

/* Collectives of a group are numbered anew, since some have gone or come. */
static uint64_t next_of_group(struct writing *w, const char *group)
{
    for (size_t g = 0; g < w->group_count; g++) {
        if (strcmp(w->groups[g].group, group) == 0) {
            return w->groups[g].next++;
        }
    }
    SIM_ASSERT(w->group_count < GROUPS_MAX, "more than %d process groups", GROUPS_MAX);
    snprintf(w->groups[w->group_count].group, sizeof w->groups[0].group, "%s", group);
    w->groups[w->group_count].next = 1;
    return w->groups[w->group_count++].next - 1;
}

static void write_node(struct writing *w, const struct sequence *q, size_t index, size_t base)
{
    const struct layers *l = q->layers;
    const struct emitted *from = &q->emitted[index];
    struct graph_node node = *node_at(l, from->position);
    bool once = from->stretch == NO_STRETCH && from->again == 0;
    rewrite_copy_texts(&node, w->to);
    node.traced_us = 0;
    node.params = node.params == NULL ? NULL
                  : once && strcmp(node.suite, "optimizer") == 0 && w->ratio != 1 ? scaled_list(w->to, node.params, w->ratio)
                                                                                  : graph_intern(w->to, node.params);
    w->scaled += once && node.params != NULL && strcmp(node.suite, "optimizer") == 0;
    if (node.launched != UINT32_MAX) {
        size_t target = l->nodes[from->position] < node.launched ? from->position + (node.launched - l->nodes[from->position]) : from->position;
        while (target < l->count && l->nodes[target] < node.launched) {
            target++;
        }
        node.launched = (uint32_t)(base + emitted_for(q, from, target));
    }
    bool names_node = node.kind == GRAPH_EVENT_WAIT || (node.kind == GRAPH_HOST_SYNC && node.sync == GRAPH_SYNC_EVENT);
    if (names_node && node.waits_for != UINT32_MAX) {
        size_t target = 0;
        while (target < l->count && l->nodes[target] != node.waits_for) {
            target++;
        }
        node.waits_for = target < l->count ? (uint32_t)(base + emitted_for(q, from, target)) : UINT32_MAX;
    }
    if (node.kind == GRAPH_COLLECTIVE && node.collective != NULL) {
        struct graph_collective *collective = graph_add_collective(w->to);
        *collective = *node.collective;
        collective->split_bytes_to = NULL;
        collective->sequence = next_of_group(w, collective->group);
        collective->bytes *= once && is_gradients(collective) ? w->ratio : 1;
        w->scaled += once && is_gradients(collective);
        node.collective = collective;
    }
    graph_add(w->to, &node);
}

static enum sim_status rewrite_rank(const struct graph *graph, const struct rewrite_blocks *change, uint32_t rank, struct graph *to,
                                    struct sim_error *error)
{
    uint32_t *nodes = malloc((graph->node_count + 1) * sizeof *nodes);
    SIM_ASSERT(nodes != NULL, "out of memory");
    struct layers l = { .graph = graph, .change = change, .nodes = nodes };
    for (size_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].rank == rank) {
            nodes[l.count++] = (uint32_t)i;
        }
    }
    find_stretches(&l);
    count_parameters(&l);
    enum sim_status status = check_layers(&l, error);
    if (status == SIM_OK) {
        struct writing w = { .to = to, .ratio = 1 };
        if (l.layer_parameters > 0) {
            w.ratio = 1 + l.layer_parameters * ((double)change->to - (double)change->from) / l.parameters;
        }
        struct sequence q = sequence_of(&l);
        size_t base = to->node_count;
        for (size_t i = 0; i < q.count; i++) {
            write_node(&w, &q, i, base);
        }
        if (rank == 0) {
            const struct stretch *forward = main_stretch(&l, false), *backward = main_stretch(&l, true);
            graph_note(to, "%u layers found by structure (%zu nodes forward, %zu backward), rewritten to %u, %ld computed again%s", change->from,
                       forward->period, backward != NULL ? backward->period : 0, change->to, lround(change->recomputed * change->to),
                       change->recomputed > 0 ? ", up to the last result kept; the framework's wrapper itself is not in it" : "");
            if (change->to != change->from && l.layer_parameters > 0) {
                graph_note(to, "parameters %.4g to %.4g: %zu launches and exchanges over all of them in proportion", l.parameters,
                           l.parameters * w.ratio, w.scaled);
            } else if (change->to != change->from) {
                graph_note(to, "gradients are not shown, so launches over all parameters keep their size");
            }
        }
        sequence_finish(&q);
    }
    free(nodes);
    return status;
}

enum sim_status rewrite_blocks(const struct graph *graph, const struct rewrite_blocks *change, struct graph **out, struct sim_error *error)
{
    *out = NULL;
    struct graph *to = rewrite_begin(graph);
    enum sim_status status = SIM_OK;
    to->batch = graph->batch;
    for (uint32_t rank = 0; status == SIM_OK && rank < graph->rank_count; rank++) {
        status = rewrite_rank(graph, change, rank, to, error);
    }
    return rewrite_finish(to, status, out, error);
}
