/* Event-driven max-min fluid flows. At each instant at which flows start or finish, the rates of the connected part of
 * the network that they touch are solved again by progressive filling; the rest keeps its rates and finish events.
 *
 * Progressive filling: the link with the least (capacity left / members not yet frozen) freezes its flows at that share;
 * repeat. A link's share only grows while others freeze, so a stale heap key is found by recomputing it on pop.
 *
 * Invariants between instants: rate[f] > 0 exactly while state[f] is FLOWING; left[f] is what was left at since[f]; the
 * heap of ends holds each FLOWING flow once, and nothing else.
 * Cost: O(flows x path) per solve of a part, O(log flows) per event. Memory is taken before the first event. */
#include "sim/fabric/engine.h"
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Two finish times nearer than this are one instant: they differ by rounding alone. */
#define SAME_INSTANT 1e-12
#define BYTES_PER_US 1000.0 /* of one GB/s */

enum flow_state { LATENT, FLOWING, DONE };

/* Ascending by (key, index): equal keys pop in index order, so that runs repeat. Holds an index at most once, and where
 * it is, so that a key can be changed in place; never more than `capacity` entries, taken when it is made. */
struct heap_entry {
    double key;
    uint32_t index;
};

struct heap {
    struct heap_entry *entry;
    uint32_t *place; /* of an index in `entry`, plus 1; 0: not in the heap */
    size_t count;
};

struct fluid {
    const struct fabric_network *network;
    size_t *first;     /* [link_count + 1] into `on_link` */
    uint32_t *on_link; /* flows of each link */
    /* flows */
    unsigned char *state;
    bool *in_part, *frozen;
    double *rate, *rate_before, *left, *since, *finish;
    /* links */
    bool *link_in_part;
    double *spare, *weight; /* capacity left; members not yet frozen */
    /* the part that is solved now */
    uint32_t *part_flow, *part_link;
    size_t part_flows, part_links;
    uint32_t *by_start; /* flows in order of their start */
    uint32_t *batch;    /* flows that start or end at this instant */
    struct heap ends;   /* of flowing flows: when each ends at its present rate */
    struct heap shares; /* of links: the least share first */
};

static void *take(size_t count, size_t element_bytes)
{
    void *memory = calloc(count + 1, element_bytes);
    SIM_ASSERT(memory != NULL, "no memory for %zu elements", count);
    return memory;
}

/* ---- heap */

static void heap_init(struct heap *heap, size_t capacity)
{
    *heap = (struct heap){ take(capacity, sizeof(struct heap_entry)), take(capacity, sizeof(uint32_t)), 0 };
}

static void heap_finish(struct heap *heap)
{
    free(heap->entry);
    free(heap->place);
}

static bool is_before(const struct heap_entry *a, const struct heap_entry *b)
{
    return a->key < b->key || (a->key == b->key && a->index < b->index);
}

static void heap_place(struct heap *heap, size_t at, struct heap_entry entry)
{
    heap->entry[at] = entry;
    heap->place[entry.index] = (uint32_t)at + 1;
}

static void heap_rise(struct heap *heap, size_t at, struct heap_entry entry)
{
    while (at > 0 && is_before(&entry, &heap->entry[(at - 1) / 2])) {
        heap_place(heap, at, heap->entry[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_place(heap, at, entry);
}

static void heap_sink(struct heap *heap, size_t at, struct heap_entry entry)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count && is_before(&heap->entry[child + 1], &heap->entry[child])) {
            child++;
        }
        if (!is_before(&heap->entry[child], &entry)) {
            break;
        }
        heap_place(heap, at, heap->entry[child]);
        at = child;
    }
    heap_place(heap, at, entry);
}

/* Insert `index`, or move it to its new key. */
static void heap_set(struct heap *heap, uint32_t index, double key)
{
    struct heap_entry entry = { key, index };
    if (heap->place[index] == 0) {
        heap_rise(heap, heap->count++, entry);
        return;
    }
    size_t at = heap->place[index] - 1;
    if (is_before(&entry, &heap->entry[at])) {
        heap_rise(heap, at, entry);
    } else {
        heap_sink(heap, at, entry);
    }
}

static struct heap_entry heap_pop(struct heap *heap)
{
    struct heap_entry top = heap->entry[0];
    struct heap_entry moved = heap->entry[--heap->count];
    heap->place[top.index] = 0;
    if (heap->count > 0) {
        heap_sink(heap, 0, moved);
    }
    return top;
}

/* Insert `index` or change its key without regard to order; heap_build must follow. */
static void heap_put(struct heap *heap, uint32_t index, double key)
{
    size_t at = heap->place[index] != 0 ? heap->place[index] - 1 : heap->count++;
    heap_place(heap, at, (struct heap_entry){ key, index });
}

/* Put entries that lie in any order in order: O(count). */
static void heap_build(struct heap *heap)
{
    for (size_t i = heap->count / 2; i-- > 0;) {
        heap_sink(heap, i, heap->entry[i]);
    }
}

/* Move the indices of all entries with key <= limit to `out`; returns their number. Pops one by one while they are few
 * of the heap; the rest then goes in one pass, because the flows of symmetric traffic all end at once. */
static size_t heap_take_until(struct heap *heap, double limit, uint32_t *out)
{
    size_t taken = 0, few = 16 + heap->count / 32;
    while (heap->count > 0 && heap->entry[0].key <= limit && taken < few) {
        out[taken++] = heap_pop(heap).index;
    }
    if (heap->count == 0 || heap->entry[0].key > limit) {
        return taken;
    }
    size_t kept = 0;
    for (size_t i = 0; i < heap->count; i++) {
        struct heap_entry entry = heap->entry[i];
        if (entry.key <= limit) {
            heap->place[entry.index] = 0;
            out[taken++] = entry.index;
        } else {
            heap_place(heap, kept++, entry);
        }
    }
    heap->count = kept;
    heap_build(heap);
    return taken;
}

/* ---- build */

static void fluid_index_links(struct fluid *fluid)
{
    const struct fabric_network *network = fluid->network;
    for (size_t p = 0; p < network->path_count; p++) {
        fluid->first[network->path[p] + 1]++;
    }
    for (size_t l = 0; l < network->link_count; l++) {
        fluid->first[l + 1] += fluid->first[l];
    }
    size_t *next = take(network->link_count, sizeof *next);
    for (size_t f = 0; f < network->flow_count; f++) {
        const struct fabric_flow *flow = &network->flow[f];
        for (uint32_t k = 0; k < flow->path_count; k++) {
            uint32_t link = network->path[flow->path_first + k];
            fluid->on_link[fluid->first[link] + next[link]++] = (uint32_t)f;
        }
    }
    free(next);
}

static void fluid_init(struct fluid *fluid, const struct fabric_network *network)
{
    SIM_ASSERT(network->flow_count < UINT32_MAX, "%zu flows", network->flow_count);
    size_t flows = network->flow_count, links = network->link_count;
    *fluid = (struct fluid){
        .network = network,
        .first = take(links + 1, sizeof(size_t)),
        .on_link = take(network->path_count, sizeof(uint32_t)),
        .state = take(flows, 1),
        .in_part = take(flows, sizeof(bool)),
        .frozen = take(flows, sizeof(bool)),
        .rate = take(flows, sizeof(double)),
        .rate_before = take(flows, sizeof(double)),
        .left = take(flows, sizeof(double)),
        .since = take(flows, sizeof(double)),
        .finish = take(flows, sizeof(double)),
        .link_in_part = take(links, sizeof(bool)),
        .spare = take(links, sizeof(double)),
        .weight = take(links, sizeof(double)),
        .part_flow = take(flows, sizeof(uint32_t)),
        .part_link = take(links, sizeof(uint32_t)),
    };
    fluid->by_start = take(flows, sizeof(uint32_t));
    fluid->batch = take(flows, sizeof(uint32_t));
    heap_init(&fluid->ends, flows);
    heap_init(&fluid->shares, links);
    fluid_index_links(fluid);
}

static void fluid_finish(struct fluid *fluid)
{
    free(fluid->first);
    free(fluid->on_link);
    free(fluid->state);
    free(fluid->in_part);
    free(fluid->frozen);
    free(fluid->rate);
    free(fluid->rate_before);
    free(fluid->left);
    free(fluid->since);
    free(fluid->finish);
    free(fluid->link_in_part);
    free(fluid->spare);
    free(fluid->weight);
    free(fluid->part_flow);
    free(fluid->part_link);
    free(fluid->by_start);
    free(fluid->batch);
    heap_finish(&fluid->ends);
    heap_finish(&fluid->shares);
}

/* ---- the part that changed */

static void part_add_links(struct fluid *fluid, uint32_t flow_index)
{
    const struct fabric_flow *flow = &fluid->network->flow[flow_index];
    for (uint32_t k = 0; k < flow->path_count; k++) {
        uint32_t link = fluid->network->path[flow->path_first + k];
        if (!fluid->link_in_part[link]) {
            fluid->link_in_part[link] = true;
            fluid->part_link[fluid->part_links++] = link;
        }
    }
}

/* Extend the links in the part to all flowing flows and links that they reach. */
static void part_close(struct fluid *fluid)
{
    for (size_t i = 0; i < fluid->part_links; i++) {
        uint32_t link = fluid->part_link[i];
        for (size_t k = fluid->first[link]; k < fluid->first[link + 1]; k++) {
            uint32_t flow = fluid->on_link[k];
            if (fluid->state[flow] == FLOWING && !fluid->in_part[flow]) {
                fluid->in_part[flow] = true;
                fluid->part_flow[fluid->part_flows++] = flow;
                part_add_links(fluid, flow);
            }
        }
    }
}

static void part_clear(struct fluid *fluid)
{
    for (size_t i = 0; i < fluid->part_flows; i++) {
        fluid->in_part[fluid->part_flow[i]] = false;
    }
    for (size_t i = 0; i < fluid->part_links; i++) {
        fluid->link_in_part[fluid->part_link[i]] = false;
    }
    fluid->part_flows = fluid->part_links = 0;
}

/* ---- progressive filling */

static void freeze(struct fluid *fluid, uint32_t flow_index, double share)
{
    const struct fabric_flow *flow = &fluid->network->flow[flow_index];
    fluid->rate[flow_index] = share;
    fluid->frozen[flow_index] = true;
    for (uint32_t k = 0; k < flow->path_count; k++) {
        uint32_t link = fluid->network->path[flow->path_first + k];
        fluid->spare[link] = fmax(0, fluid->spare[link] - share * flow->multiplicity);
        fluid->weight[link] -= flow->multiplicity;
    }
}

static void part_solve(struct fluid *fluid)
{
    for (size_t i = 0; i < fluid->part_links; i++) {
        uint32_t link = fluid->part_link[i];
        fluid->spare[link] = fluid->network->link[link].capacity_gbs;
        fluid->weight[link] = 0;
    }
    for (size_t i = 0; i < fluid->part_flows; i++) {
        const struct fabric_flow *flow = &fluid->network->flow[fluid->part_flow[i]];
        fluid->frozen[fluid->part_flow[i]] = false;
        for (uint32_t k = 0; k < flow->path_count; k++) {
            fluid->weight[fluid->network->path[flow->path_first + k]] += flow->multiplicity;
        }
    }
    for (size_t i = 0; i < fluid->part_links; i++) {
        uint32_t link = fluid->part_link[i];
        if (fluid->weight[link] > 0.5) {
            heap_set(&fluid->shares, link, fluid->spare[link] / fluid->weight[link]);
        }
    }
    while (fluid->shares.count > 0) {
        struct heap_entry least = heap_pop(&fluid->shares);
        if (fluid->weight[least.index] < 0.5) {
            continue;
        }
        double share = fluid->spare[least.index] / fluid->weight[least.index];
        if (share > least.key * (1 + SAME_INSTANT)) {
            heap_set(&fluid->shares, least.index, share);
            continue;
        }
        for (size_t k = fluid->first[least.index]; k < fluid->first[least.index + 1]; k++) {
            uint32_t flow = fluid->on_link[k];
            if (fluid->in_part[flow] && !fluid->frozen[flow]) {
                freeze(fluid, flow, share);
            }
        }
    }
}

/* ---- events */

static double ends_at(const struct fluid *fluid, uint32_t flow)
{
    SIM_ASSERT(fluid->rate[flow] > 0, "flow %u starves", flow);
    return fluid->since[flow] + fluid->left[flow] / (fluid->rate[flow] * BYTES_PER_US);
}

/* Solve the part; flows whose rate changed settle what they moved before and get a new end. The others keep theirs, so
 * that a flow which nothing touches ends exactly at bytes over rate. */
static void part_update(struct fluid *fluid, double now)
{
    part_close(fluid);
    for (size_t i = 0; i < fluid->part_flows; i++) {
        fluid->rate_before[fluid->part_flow[i]] = fluid->rate[fluid->part_flow[i]];
    }
    part_solve(fluid);
    bool is_bulk = fluid->part_flows > fluid->ends.count / 4;
    for (size_t i = 0; i < fluid->part_flows; i++) {
        uint32_t flow = fluid->part_flow[i];
        if (fluid->rate[flow] != fluid->rate_before[flow]) {
            double moved = fluid->rate_before[flow] * BYTES_PER_US * (now - fluid->since[flow]);
            fluid->left[flow] = fmax(0, fluid->left[flow] - moved);
            fluid->since[flow] = now;
            (is_bulk ? heap_put : heap_set)(&fluid->ends, flow, ends_at(fluid, flow));
        }
    }
    if (is_bulk) {
        heap_build(&fluid->ends);
    }
    part_clear(fluid);
}

/* A flow starts or ends; its links are then part of what must be solved. */
static void flow_step(struct fluid *fluid, uint32_t flow, double now)
{
    if (fluid->state[flow] == LATENT && fluid->network->flow[flow].bytes > 0) {
        fluid->state[flow] = FLOWING;
        fluid->left[flow] = fluid->network->flow[flow].bytes;
        fluid->since[flow] = now;
    } else {
        fluid->state[flow] = DONE;
        fluid->finish[flow] = now;
    }
    fluid->rate[flow] = 0;
    part_add_links(fluid, flow);
}

static int compare_starts(const void *a, const void *b, void *context)
{
    const struct fabric_flow *flow = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (flow[x].start_us != flow[y].start_us) {
        return flow[x].start_us < flow[y].start_us ? -1 : 1;
    }
    return x < y ? -1 : 1;
}

static void fluid_sort_starts(struct fluid *fluid)
{
    const struct fabric_flow *flow = fluid->network->flow;
    size_t count = fluid->network->flow_count;
    bool sorted = true;
    for (size_t f = 0; f < count; f++) {
        fluid->by_start[f] = (uint32_t)f;
        sorted = sorted && (f == 0 || flow[f - 1].start_us <= flow[f].start_us);
    }
    if (!sorted) {
        qsort_r(fluid->by_start, count, sizeof *fluid->by_start, compare_starts, (void *)flow);
    }
}

static void fluid_run(struct fluid *fluid)
{
    const struct fabric_flow *flow = fluid->network->flow;
    size_t next = 0, count = fluid->network->flow_count;
    double ends_within = fmax(SAME_INSTANT, fluid->network->together);
    fluid_sort_starts(fluid);
    while (next < count || fluid->ends.count > 0) {
        double now = next < count ? flow[fluid->by_start[next]].start_us : DBL_MAX;
        now = fluid->ends.count > 0 ? fmin(now, fluid->ends.entry[0].key) : now;
        size_t batch = heap_take_until(&fluid->ends, now * (1 + ends_within), fluid->batch);
        while (next < count && flow[fluid->by_start[next]].start_us <= now * (1 + SAME_INSTANT)) {
            fluid->batch[batch++] = fluid->by_start[next++];
        }
        for (size_t i = 0; i < batch; i++) {
            flow_step(fluid, fluid->batch[i], now);
        }
        part_update(fluid, now);
    }
}

/* ---- the two slots */

static enum sim_status fluid_rates(const struct fabric_network *network, double *rate_gbs,
                                   struct sim_error *error)
{
    (void)error;
    struct fluid fluid;
    fluid_init(&fluid, network);
    for (size_t f = 0; f < network->flow_count; f++) {
        fluid.state[f] = FLOWING;
        part_add_links(&fluid, (uint32_t)f);
    }
    part_close(&fluid);
    part_solve(&fluid);
    for (size_t f = 0; f < network->flow_count; f++) {
        rate_gbs[f] = fluid.rate[f];
    }
    fluid_finish(&fluid);
    return SIM_OK;
}

static enum sim_status fluid_finish_times(const struct fabric_network *network, double *finish_us,
                                          struct sim_error *error)
{
    (void)error;
    struct fluid fluid;
    fluid_init(&fluid, network);
    fluid_run(&fluid);
    for (size_t f = 0; f < network->flow_count; f++) {
        SIM_ASSERT(fluid.state[f] == DONE, "flow %zu never ended", f);
        finish_us[f] = fluid.finish[f];
    }
    fluid_finish(&fluid);
    return SIM_OK;
}

const struct fabric_engine_ops fluid_engine_ops = {
    .name = "fluid",
    .summary = "max-min fair flows, our solver",
    .rates = fluid_rates,
    .finish = fluid_finish_times,
};
