/* Algorithms of a collective call as steps. Bytes per step follow from the algorithm alone; latencies, rates and shares
 * are the node profile's.
 *
 * c = bytes / ranks is the piece of one rank, n the GPUs of a node in the group, m the nodes.
 *   ring       ranks - 1 steps (twice for all-reduce), in each every rank passes a piece on. A mesh carries n - 1 rings at
 *              once, one per link of a GPU; several nodes carry n rings, each leaving a node through another NIC, so that
 *              1/n of a piece crosses a NIC and the rest stays inside.
 *   direct     every rank sends to all others at once: one step, two for all-reduce (reduce-scatter, then all-gather).
 *   tree       all-reduce: a chain inside each node, a double binary tree over nodes; chunks follow each other, so the
 *              latencies add once and the bytes flow once.
 *   in_switch  all-reduce: the switch adds what all GPUs store.
 *   hierarchical  several nodes: what can be gathered or added inside the node is, and NICs only talk along rails, in fewer and
 *              larger messages. All-to-all: everything for a rail goes to its GPU of the node, then over the rail. All-reduce:
 *              reduce-scatter in the node, ring all-reduce of the piece along the rail, all-gather in the node.
 * Simplifications: K4 and K6 have no n - 1 disjoint rings, the libraries count on them all the same; a double tree's
 * two halves are taken as even. */
#include "sim/fabric/library_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define KIB 1024.0
#define BYTES_PER_US 1000.0 /* of one GB/s */
#define LL128_LINE_BYTES 128.0

static const char *const kind_words[] = { "all_reduce", "all_gather", "reduce_scatter",
                                          "all_to_all", "broadcast",  "send_recv" };
static const char *const algorithm_words[] = { "ring", "direct", "tree", "in_switch", "hierarchical" };
static const char *const protocol_words[] = { "simple", "LL", "LL128", "LL64" };

/* Equal but for case and underscores: all_reduce, allreduce, AllReduce. */
static bool same_word(const char *a, const char *b)
{
    for (;;) {
        a += *a == '_';
        b += *b == '_';
        if (strncasecmp(a, b, 1) != 0) {
            return false;
        }
        if (*a == '\0') {
            return true;
        }
        a++;
        b++;
    }
}

static int find_word(const char *const *words, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (same_word(words[i], name)) {
            return i;
        }
    }
    return -1;
}

const char *collective_kind_text(enum collective_kind kind)
{
    return kind_words[kind];
}

const char *collective_algorithm_text(enum collective_algorithm algorithm)
{
    return algorithm_words[algorithm];
}

const char *collective_protocol_text(enum collective_protocol protocol)
{
    return protocol_words[protocol];
}

int collective_kind_parse(const char *name)
{
    return find_word(kind_words, COLLECTIVE_KINDS, name);
}

int collective_algorithm_parse(const char *name)
{
    return find_word(algorithm_words, ALGORITHMS, name);
}

int collective_protocol_parse(const char *name)
{
    return find_word(protocol_words, PROTOCOLS, name);
}

const char *collective_kind_list(void)
{
    return "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv";
}

const char *collective_algorithm_list(void)
{
    return "ring, direct, tree, in_switch, hierarchical";
}

const char *collective_protocol_list(void)
{
    return "simple, LL, LL128, LL64";
}

struct protocol_numbers library_protocol(const struct node_profile *node, enum collective_protocol protocol)
{
#define PROTOCOL_CASE(word, NAME)                                                                        \
    case PROTOCOL_##NAME:                                                                                \
        return (struct protocol_numbers){                                                                \
            node->has_##word, node->word##_payload, node->word##_efficiency,         node->word##_start, \
            node->word##_hop, node->word##_overlap, node->word##_channel_bytes * KIB                     \
        };
    switch (protocol) {
        PROTOCOL_CASE(simple, SIMPLE)
        PROTOCOL_CASE(ll, LL)
        PROTOCOL_CASE(ll128, LL128)
        PROTOCOL_CASE(ll64, LL64)
    case PROTOCOLS: break;
    }
#undef PROTOCOL_CASE
    SIM_ASSERT(false, "protocol %d", (int)protocol);
}

static double ranks_of(const struct library_call *call)
{
    return (double)call->cluster.gpus * call->cluster.nodes;
}

/* ---- what there is, and what is chosen */

static bool is_ring_kind(enum collective_kind kind)
{
    return kind == ALL_REDUCE || kind == ALL_GATHER || kind == REDUCE_SCATTER || kind == BROADCAST;
}

bool library_can(const struct library_call *call, enum collective_algorithm algorithm,
                 enum collective_protocol protocol)
{
    const struct node_profile *node = call->cluster.node;
    bool is_kept_whole = protocol != PROTOCOL_LL128 || call->cluster.nodes == 1 || node->nic_ll128 > 0;
    if (!library_protocol(node, protocol).present || !is_kept_whole) {
        return false;
    }
    switch (algorithm) {
    case ALGORITHM_RING: return is_ring_kind(call->kind);
    case ALGORITHM_DIRECT: return call->kind != BROADCAST;
    case ALGORITHM_TREE: return call->kind == ALL_REDUCE && node->has_tree && call->cluster.nodes > 1;
    case ALGORITHM_IN_SWITCH:
        return call->kind == ALL_REDUCE && node->has_in_switch && call->cluster.nodes == 1 &&
               call->cluster.gpus >= node->in_switch_gpus_min && protocol == PROTOCOL_SIMPLE;
    case ALGORITHM_HIERARCHICAL:
        return call->cluster.nodes > 1 && call->cluster.gpus > 1 && call->kind != BROADCAST &&
               call->kind != SEND_RECV;
    case ALGORITHMS: break;
    }
    return false;
}

static bool direct_within_limits(const struct library_call *call)
{
    const struct node_profile *node = call->cluster.node;
    if (!is_ring_kind(call->kind)) {
        return true;
    }
    if (!node->has_direct) {
        return false;
    }
    switch (call->kind) {
    case ALL_REDUCE:
        return call->bytes >= node->direct_all_reduce_min * KIB &&
               call->bytes <= node->direct_all_reduce_limit * KIB;
    case ALL_GATHER: return call->bytes <= node->direct_all_gather_limit * KIB;
    case REDUCE_SCATTER: return call->bytes <= node->direct_reduce_scatter_limit * KIB;
    default: return false;
    }
}

static double largest_split(const struct library_call *call)
{
    size_t ranks = (size_t)ranks_of(call);
    double largest = 0;
    for (size_t i = 0; i < ranks * ranks; i++) {
        largest = i / ranks == i % ranks ? largest : fmax(largest, call->split[i]);
    }
    return largest;
}

/* Largest message between two ranks of a direct step. */
static double message_bytes(const struct library_call *call)
{
    if (call->split != NULL) {
        return largest_split(call);
    }
    return call->kind == SEND_RECV ? call->bytes : call->bytes / ranks_of(call);
}

bool library_considers(const struct library_call *call, enum collective_algorithm algorithm,
                       enum collective_protocol protocol)
{
    if (!library_can(call, algorithm, protocol) || protocol == PROTOCOL_LL64 ||
        algorithm == ALGORITHM_HIERARCHICAL) {
        return false;
    }
    if (algorithm != ALGORITHM_DIRECT) {
        return true;
    }
    if (!is_ring_kind(call->kind)) { /* point-to-point kernels know two protocols and go by size */
        bool is_small = message_bytes(call) <= call->cluster.node->p2p_ll_limit * KIB;
        return protocol == (is_small ? PROTOCOL_LL : PROTOCOL_SIMPLE);
    }
    return direct_within_limits(call);
}

double library_expects_us(const struct library_call *call, enum collective_algorithm algorithm,
                          enum collective_protocol protocol)
{
    const struct node_profile *node = call->cluster.node;
    bool knows = node->has_tuner && call->cluster.nodes == 1 && is_ring_kind(call->kind);
    if (!knows || (algorithm != ALGORITHM_RING && algorithm != ALGORITHM_IN_SWITCH)) {
        return -1;
    }
    double ranks = ranks_of(call);
    double usable = node_profile_group_rate(node, call->cluster.gpus, false);
    double wire_bytes = call->bytes * collective_bus_factor(call->kind, ranks);
    if (algorithm == ALGORITHM_IN_SWITCH) {
        return node->tuner_in_switch_latency +
               wire_bytes / (node->tuner_in_switch_share * usable * BYTES_PER_US);
    }
    double steps = call->kind == ALL_REDUCE ? 2 * (ranks - 1) : call->kind == BROADCAST ? 1 : ranks - 1;
    switch (protocol) {
    case PROTOCOL_LL:
        return node->tuner_base_ll + steps * node->tuner_hop_ll +
               wire_bytes / (fmin(node->tuner_cap_ll, usable / 2) * BYTES_PER_US);
    case PROTOCOL_LL128:
        return node->tuner_base_ll128 + steps * node->tuner_hop_ll128 +
               wire_bytes / (node->tuner_share_ll128 * usable * BYTES_PER_US);
    case PROTOCOL_SIMPLE:
        return node->tuner_base_simple + steps * node->tuner_hop_simple +
               wire_bytes / (usable * BYTES_PER_US);
    default: return -1;
    }
}

double collective_bus_factor(enum collective_kind kind, double ranks)
{
    switch (kind) {
    case ALL_REDUCE: return 2 * (ranks - 1) / ranks;
    case ALL_GATHER:
    case REDUCE_SCATTER:
    case ALL_TO_ALL: return (ranks - 1) / ranks;
    default: return 1;
    }
}

/* ---- plans */

static uint32_t channel_count(const struct library_call *call, double pieces)
{
    return (uint32_t)fmin(call->channels_max, fmax(1, ceil(pieces)));
}

/* Bytes that a GPU copies within itself beside the transfers: its own piece of an out-of-place call. It is stored by the
 * workgroups that also send it, so it costs them half a pass. */
static double own_copy_us(const struct library_plan *plan, double bytes)
{
    return bytes / (2 * plan->wire.channels_gbs * fmin(1, plan->wire.link_share) * BYTES_PER_US);
}

static void add_steps(struct library_plan *plan, double count, double latency_us,
                      struct cluster_traffic traffic)
{
    if (count > 0) {
        SIM_ASSERT(plan->step_kinds < LIBRARY_STEPS_MAX, "%d kinds of steps", plan->step_kinds);
        plan->steps[plan->step_kinds++] = (struct library_steps){ count, latency_us, traffic };
    }
}

/* What a GPU sends when `bytes` go on to the next rank of rings spread over all its links and NICs. */
static struct cluster_traffic ring_traffic(const struct cluster *cluster, double bytes)
{
    double n = cluster->gpus;
    if (cluster->nodes == 1) {
        return (struct cluster_traffic){ .pair_bytes = bytes / (n - 1) };
    }
    return (struct cluster_traffic){ .pair_bytes = n > 1 ? bytes / n : 0, .rail_bytes = bytes / n };
}

/* Memory traffic of ring kernels: what arrives is written to a buffer and read from it, what a rank contributes is read,
 * what it keeps is written. */
static double ring_hbm_bytes(const struct library_call *call, double piece_bytes)
{
    double ranks = ranks_of(call), passed = piece_bytes * (ranks - 1);
    switch (call->kind) {
    case ALL_GATHER: return 2 * passed + 2 * piece_bytes;
    case REDUCE_SCATTER: return 2 * passed + call->bytes + piece_bytes;
    case ALL_REDUCE: return (2 * passed + call->bytes) + (2 * passed + piece_bytes);
    default: return 2 * call->bytes;
    }
}

/* One step over the network, one way. */
static double network_step_us(const struct library_plan *plan, const struct node_profile *node, double hop_us)
{
    return node->nic_latency + hop_us + (plan->protocol == PROTOCOL_SIMPLE ? node->nic_simple_latency : 0);
}

/* Visibility waits per line of LL128: the parts in which the link shows a line. */
static double ll128_waits(const struct node_profile *node)
{
    return fmax(1, LL128_LINE_BYTES / node->link_line);
}

/* Kernels that wait for a flag in each line they store: LL64, and LL128 where its line is split. */
static double waits_per_line(const struct node_profile *node, enum collective_protocol protocol)
{
    if (!node->has_ll64) {
        return 0;
    }
    if (protocol == PROTOCOL_LL64) {
        return 1;
    }
    return protocol == PROTOCOL_LL128 && ll128_waits(node) > 1 ? ll128_waits(node) : 0;
}

static void plan_ring(const struct library_call *call, const struct protocol_numbers *protocol,
                      struct library_plan *plan)
{
    const struct cluster *cluster = &call->cluster;
    const struct node_profile *node = cluster->node;
    double ranks = ranks_of(call), piece_bytes = call->bytes / ranks;
    double rounds = call->kind == ALL_REDUCE ? 2 : 1;
    double inner_us = node->link_latency + protocol->hop_us;
    double outer_us = network_step_us(plan, node, protocol->hop_us);
    double outer_steps = rounds * (cluster->nodes - 1.0);
    double inner_steps = rounds * (ranks - 1) - outer_steps;
    bool waits_to_add = (call->kind == ALL_REDUCE || call->kind == REDUCE_SCATTER) &&
                        waits_per_line(node, plan->protocol) > 0;
    plan->fixed_us += waits_to_add ? (ranks - 1) * node->memory_latency : 0;
    plan->hbm_bytes = ring_hbm_bytes(call, piece_bytes);
    plan->fixed_us += protocol->start_us;
    if (call->kind == BROADCAST) { /* chunks follow each other down the ring: bytes flow once */
        add_steps(plan, 1, inner_steps * inner_us + outer_steps * outer_us,
                  ring_traffic(cluster, call->bytes));
        plan->overlap = 1;
        return;
    }
    add_steps(plan, inner_steps, inner_us, ring_traffic(cluster, piece_bytes));
    add_steps(plan, outer_steps, outer_us, ring_traffic(cluster, piece_bytes));
    plan->fixed_us += own_copy_us(plan, piece_bytes);
}

/* Everyone to everyone: latency of one exchange, what each further peer and the first piece of a message cost, and the
 * first pass through the buffers, which later passes find in cache. */
static void plan_direct(const struct library_call *call, const struct protocol_numbers *protocol,
                        struct library_plan *plan)
{
    const struct cluster *cluster = &call->cluster;
    const struct node_profile *node = cluster->node;
    double ranks = ranks_of(call), piece_bytes = message_bytes(call), peers = ranks - 1;
    double hop_us = plan->protocol == PROTOCOL_SIMPLE ? node->p2p_hop : protocol->hop_us;
    double part_bytes = node->p2p_part * KIB;
    struct cluster_traffic traffic = { .pair_bytes = piece_bytes,
                                       .remote_bytes = cluster->nodes > 1 ? piece_bytes : 0 };
    if (call->kind == SEND_RECV) {
        traffic = (struct cluster_traffic){ .neighbour_bytes = piece_bytes };
        peers = 1;
    }
    if (call->kind == ALL_TO_ALL) {
        traffic.self_bytes = call->bytes / ranks;
        traffic.split = call->split;
    }
    double first_us = cluster->nodes > 1 ? network_step_us(plan, node, hop_us) : node->link_latency + hop_us;
    double latency_us = first_us + (ceil(peers / call->p2p_batch) - 1) * node->p2p_peer +
                        fmin(piece_bytes, part_bytes) / (node->p2p_part_rate * BYTES_PER_US) +
                        peers * fmin(piece_bytes, node->p2p_buffer * KIB) /
                            (node->p2p_buffer_rate * BYTES_PER_US);
    if (plan->protocol == PROTOCOL_SIMPLE) {
        plan->wire.link_share = protocol->payload * node->p2p_efficiency;
    }
    plan->channels = channel_count(call, peers * ceil(piece_bytes / part_bytes));
    plan->wire.channels_gbs = plan->channels * node->library_channel_rate;
    plan->overlap = 1;
    add_steps(plan, call->kind == ALL_REDUCE ? 2 : 1, latency_us, traffic);
    if (is_ring_kind(call->kind)) {
        plan->fixed_us += own_copy_us(plan, piece_bytes);
    }
    /* read at the source, written to and read from the buffer, written at its place; a GPU's own piece twice only */
    plan->hbm_bytes = (call->kind == ALL_REDUCE ? 2 : 1) * (4 * piece_bytes * peers) + 2 * piece_bytes;
}

static void plan_tree(const struct library_call *call, const struct protocol_numbers *protocol,
                      struct library_plan *plan)
{
    const struct cluster *cluster = &call->cluster;
    const struct node_profile *node = cluster->node;
    double n = cluster->gpus, levels = ceil(log2(cluster->nodes));
    double inner_us = node->link_latency + protocol->hop_us;
    double outer_us = network_step_us(plan, node, protocol->hop_us);
    double latency_us = 2 * ((n - 1) * inner_us + levels * outer_us);
    /* A rank passes everything up and down its chain; two nodes exchange everything once, more also forward it. */
    struct cluster_traffic traffic = {
        .pair_bytes = n > 1 ? 2 * call->bytes / n : 0,
        .rail_bytes = (cluster->nodes > 2 ? 2 : 1) * call->bytes / n,
    };
    plan->wire.link_share *= node->tree_efficiency;
    plan->fixed_us += protocol->start_us;
    plan->hbm_bytes = 8 * call->bytes * (n - 1) / n + 2 * call->bytes;
    plan->overlap = 1;
    add_steps(plan, 1, latency_us, traffic);
}

static double largest_row(const double *split, size_t ranks)
{
    double largest = 0;
    for (size_t from = 0; from < ranks; from++) {
        double sum = 0;
        for (size_t to = 0; to < ranks; to++) {
            sum += split[from * ranks + to];
        }
        largest = fmax(largest, sum);
    }
    return largest;
}

/* Splits of the two steps. In the node: what `from` has for any GPU of an index goes to that index's GPU here. Along the rail:
 * what the node has for the GPU of that index there. */
static void split_hierarchical(const struct library_call *call, struct library_plan *plan)
{
    size_t gpus = call->cluster.gpus, ranks = gpus * call->cluster.nodes;
    plan->splits = calloc(2 * ranks * ranks, sizeof *plan->splits);
    SIM_ASSERT(plan->splits != NULL, "no memory for the splits of %zu ranks", ranks);
    double *in_node = plan->splits, *along = plan->splits + ranks * ranks;
    for (size_t from = 0; from < ranks; from++) {
        for (size_t to = 0; to < ranks; to++) {
            double bytes = call->split[from * ranks + to];
            size_t relay = from - from % gpus + to % gpus;
            in_node[from * ranks + relay] += bytes;
            along[relay * ranks + to] += relay / gpus == to / gpus ? 0 : bytes;
        }
    }
    plan->steps[0].traffic = (struct cluster_traffic){ .split = in_node };
    plan->steps[1].traffic = (struct cluster_traffic){ .split = along };
    plan->hbm_bytes = 4 * (largest_row(in_node, ranks) + largest_row(along, ranks));
}

/* Inside a node everyone sends to everyone at once, along rails a ring. */
static void plan_hierarchical(const struct library_call *call, const struct protocol_numbers *protocol,
                              struct library_plan *plan)
{
    const struct cluster *cluster = &call->cluster;
    const struct node_profile *node = cluster->node;
    double n = cluster->gpus, m = cluster->nodes, piece_bytes = call->bytes / (n * m);
    double inner_us = node->link_latency + protocol->hop_us +
                      (ceil((n - 1) / call->p2p_batch) - 1) * node->p2p_peer;
    double outer_us = network_step_us(plan, node, protocol->hop_us);
    double of_node_bytes = m * piece_bytes; /* a GPU's share when a node divides the call */
    struct cluster_traffic in_node = { .pair_bytes = of_node_bytes };
    plan->fixed_us += protocol->start_us;
    plan->overlap = 1;
    plan->hbm_bytes = 4 * of_node_bytes * (n - 1) + 2 * piece_bytes;
    if (call->kind == ALL_TO_ALL) {
        in_node.self_bytes = of_node_bytes;
        add_steps(plan, 1, inner_us, in_node);
        add_steps(plan, 1, outer_us + (ceil((m - 1) / call->p2p_batch) - 1) * node->p2p_peer,
                  (struct cluster_traffic){ .rail_each_bytes = n * piece_bytes });
        plan->hbm_bytes += 4 * n * piece_bytes * (m - 1);
        if (call->split != NULL) {
            split_hierarchical(call, plan);
        }
        return;
    }
    struct cluster_traffic along = { .rail_bytes = piece_bytes };
    double rounds = call->kind == ALL_REDUCE ? 2 : 1;
    add_steps(plan, rounds, inner_us, in_node);
    add_steps(plan, rounds * (m - 1), outer_us, along);
    plan->hbm_bytes = rounds * (plan->hbm_bytes + 2 * (m - 1) * piece_bytes);
}

static void plan_in_switch(const struct library_call *call, struct library_plan *plan)
{
    double ranks = ranks_of(call);
    struct cluster_traffic traffic = { .switch_bytes = call->bytes *
                                                       collective_bus_factor(ALL_REDUCE, ranks) };
    plan->hbm_bytes = 2 * call->bytes *
                      (1 + 1 / ranks); /* all read once by the switch, written once; own part staged */
    plan->overlap = 1;
    add_steps(plan, 1, call->cluster.node->in_switch_latency, traffic);
}

/* Payload rate [GB/s] of a workgroup of such a kernel: what its lanes store in one wait; 0: of no other. */
static double flag_rate_gbs(const struct library_call *call, enum collective_protocol protocol)
{
    const struct node_profile *node = call->cluster.node;
    double waits = waits_per_line(node, protocol);
    if (waits == 0) {
        return 0;
    }
    double wait_us = waits * (node->link_latency + node->ll64_hop);
    double stored_bytes = call->threads * node->ll64_thread_bytes * library_protocol(node, protocol).payload;
    return stored_bytes / wait_us / BYTES_PER_US;
}

/* The numbers of a protocol with all its waits: a split line waits again in each step. */
static struct protocol_numbers plan_protocol(const struct node_profile *node,
                                             enum collective_protocol protocol)
{
    struct protocol_numbers numbers = library_protocol(node, protocol);
    double waits = protocol == PROTOCOL_LL128 ? ll128_waits(node) : 1;
    numbers.hop_us += (waits - 1) * (node->link_latency + numbers.hop_us);
    return numbers;
}

void library_plan_finish(struct library_plan *plan)
{
    free(plan->splits);
    plan->splits = NULL;
}

void library_plan(const struct library_call *call, enum collective_algorithm algorithm,
                  enum collective_protocol protocol, struct library_plan *plan)
{
    SIM_ASSERT(library_can(call, algorithm, protocol), "%s has no %s", algorithm_words[algorithm],
               protocol_words[protocol]);
    const struct node_profile *node = call->cluster.node;
    struct protocol_numbers numbers = plan_protocol(node, protocol);
    uint32_t channels = channel_count(call, call->bytes / numbers.channel_bytes);
    *plan = (struct library_plan){
        .algorithm = algorithm,
        .protocol = protocol,
        .overlap = numbers.overlap,
        .fixed_us = node->library_launch,
        .wire = { .link_share = numbers.payload * numbers.efficiency,
                  .nic_share = node->has_nic && protocol == PROTOCOL_LL ? node->nic_ll_efficiency : 1,
                  .channels_gbs = channels * node->library_channel_rate,
                  .message_bytes = call->cluster.nodes > 1
                                       ? node->nic_message_overhead * KIB * call->queue_pairs
                                       : 0 },
        .channels = channels,
    };
    switch (algorithm) {
    case ALGORITHM_RING: plan_ring(call, &numbers, plan); break;
    case ALGORITHM_DIRECT: plan_direct(call, &numbers, plan); break;
    case ALGORITHM_TREE: plan_tree(call, &numbers, plan); break;
    case ALGORITHM_IN_SWITCH: plan_in_switch(call, plan); break;
    case ALGORITHM_HIERARCHICAL: plan_hierarchical(call, &numbers, plan); break;
    case ALGORITHMS: SIM_ASSERT(false, "algorithm %d", (int)algorithm);
    }
    double flag_gbs = flag_rate_gbs(call, protocol);
    if (flag_gbs > 0 && plan->wire.channels_gbs > 0) {
        plan->wire.channels_gbs = fmin(plan->wire.channels_gbs, plan->channels * flag_gbs);
    }
}
