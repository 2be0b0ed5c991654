#include "sim/fabric/cluster_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define KIB 1024.0
#define NO_LINK UINT32_MAX
/* Of more ranks, splits make ten thousand flows that all end at their own time, and each end is solved again. */
#define EXACT_SPLIT_RANKS 64
#define ENDS_TOGETHER 0.005

static uint32_t rank_count(const struct cluster *cluster)
{
    return cluster->gpus * cluster->nodes;
}

static uint32_t nodes_per_leaf(const struct cluster *cluster)
{
    return cluster->node->has_nic ? (uint32_t)cluster->node->nic_leaf_nodes : 1;
}

/* Rails that the group's GPUs are dealt to. */
static uint32_t rails_of(const struct cluster *cluster)
{
    uint32_t rails = cluster->node->has_nic ? (uint32_t)cluster->node->nic_rails : 1;
    return rails < cluster->gpus ? rails : cluster->gpus;
}

/* Largest number of the group's GPUs of one node on one rail; the same for all rails where the GPUs divide evenly. */
static double gpus_per_rail(const struct cluster *cluster)
{
    return ceil((double)cluster->gpus / rails_of(cluster));
}

static bool spans_leaves(const struct cluster *cluster)
{
    return cluster->nodes > nodes_per_leaf(cluster);
}

static bool has_spine(const struct cluster *cluster)
{
    return cluster->nodes > 1 && (spans_leaves(cluster) || rails_of(cluster) > 1);
}

/* Nodes of the group under one leaf. */
static double nodes_together(const struct cluster *cluster)
{
    return fmin(cluster->nodes, nodes_per_leaf(cluster));
}

const char *cluster_view_text(enum cluster_view view)
{
    static const char *const texts[] = { "symmetric classes, one GPU for all", "classes by source GPU",
                                         "explicit flows" };
    return texts[view];
}

/* True when every row of the splits has one size for its node's other GPUs and one for all GPUs of other nodes. */
static bool rows_are_even(const struct cluster *cluster, const double *split)
{
    uint32_t ranks = rank_count(cluster);
    for (uint32_t from = 0; from < ranks; from++) {
        const double *row = split + (size_t)from * ranks;
        double piece[2] = { -1, -1 }; /* inside the node, outside */
        for (uint32_t to = 0; to < ranks; to++) {
            int side = from / cluster->gpus != to / cluster->gpus;
            if (to == from || row[to] == piece[side]) {
                continue;
            }
            if (piece[side] >= 0) {
                return false;
            }
            piece[side] = row[to];
        }
    }
    return true;
}

enum cluster_view cluster_view_of(const struct cluster *cluster, const struct cluster_traffic *traffic)
{
    if (traffic->split == NULL) {
        bool leaves_are_even = !has_spine(cluster) ||
                               ((!spans_leaves(cluster) || cluster->nodes % nodes_per_leaf(cluster) == 0) &&
                                cluster->gpus % rails_of(cluster) == 0);
        return leaves_are_even || traffic->switch_bytes > 0 ? CLUSTER_ONE_GPU : CLUSTER_PER_PAIR;
    }
    bool spine_is_wide = !has_spine(cluster) || cluster->node->nic_oversubscription <= 1;
    return spine_is_wide && rows_are_even(cluster, traffic->split) ? CLUSTER_BY_SOURCE : CLUSTER_PER_PAIR;
}

/* Capacity of all uplinks of one leaf: its nodes' NICs on its rail, all GPUs of a node counted, over the oversubscription. */
static double leaf_rate(const struct cluster *cluster)
{
    const struct node_profile *node = cluster->node;
    return node->nic_leaf_nodes * node->topology_gpus / node->nic_rails * node->nic_usable /
           node->nic_oversubscription;
}

static double nic_bytes(const struct cluster_wire *wire, double bytes)
{
    return bytes / (wire->link_share * wire->nic_share) + wire->message_bytes;
}

/* Link capacities are in usable wire bytes, so what workgroups move in payload is scaled alike. */
static double channels_capacity(const struct cluster_wire *wire)
{
    return wire->channels_gbs / wire->link_share;
}

/* ---- one GPU for all */

/* The links as the one GPU sees them; NO_LINK where it has none. */
struct one_gpu {
    struct fabric_network *network;
    uint32_t channels, local, nic, leaf;
};

static void one_gpu_init(struct one_gpu *one, struct fabric_network *network, const struct cluster *cluster,
                         const struct cluster_wire *wire)
{
    const struct node_profile *node = cluster->node;
    *one = (struct one_gpu){ network, NO_LINK, NO_LINK, NO_LINK, NO_LINK };
    if (wire->channels_gbs > 0) {
        one->channels = fabric_network_add_link(one->network, "gpu.channels", channels_capacity(wire));
    }
    if (cluster->gpus > 1) {
        double rate = node_profile_group_rate(node, cluster->gpus, false);
        one->local = fabric_network_add_link(one->network,
                                             node->topology == NODE_MESH ? "gpu.mesh" : "gpu.port", rate);
    }
    if (cluster->nodes > 1) {
        one->nic = fabric_network_add_link(one->network, "gpu.nic", node->nic_usable);
    }
    if (has_spine(cluster)) {
        double sharers = nodes_together(cluster) * gpus_per_rail(cluster);
        one->leaf = fabric_network_add_link(one->network, "gpu.leaf", leaf_rate(cluster) / sharers);
    }
}

/* A class of `count` flows of `bytes` over the links that exist. */
static void one_gpu_add(struct one_gpu *one, double count, double bytes, uint32_t first, uint32_t second)
{
    uint32_t path[3];
    uint32_t length = 0;
    const uint32_t links[] = { one->channels, first, second };
    for (int i = 0; i < 3; i++) {
        if (links[i] != NO_LINK) {
            path[length++] = links[i];
        }
    }
    if (count > 0 && bytes > 0 && length > 0) {
        fabric_network_add_flow(one->network, path, length, bytes, count, 0);
    }
}

/* One GPU's share of its leaf's uplinks when `sharers` send through them. */
static uint32_t one_gpu_edge(struct one_gpu *one, const struct cluster *cluster, double sharers)
{
    return fabric_network_add_link(one->network, "leaf.up", leaf_rate(cluster) / sharers);
}

/* To the next rank: a GPU inside a node over one link, and the last GPU of a node (under the edge of a leaf) over its NIC. */
static void one_gpu_add_neighbour(struct one_gpu *one, const struct cluster *cluster,
                                  const struct cluster_traffic *traffic, const struct cluster_wire *wire)
{
    if (cluster->gpus > 1) {
        double link = cluster->node->link_count * cluster->node->link_usable;
        uint32_t next = fabric_network_add_link(one->network, "gpu.to_next", link);
        one_gpu_add(one, 1, traffic->neighbour_bytes / wire->link_share, next, NO_LINK);
    }
    if (cluster->nodes > 1) {
        struct one_gpu last = *one;
        if (one->channels != NO_LINK) {
            last.channels = fabric_network_add_link(one->network, "last_gpu.channels",
                                                    channels_capacity(wire));
        }
        /* The next rank's rail is the first, so with rails every node's last GPU goes through the spine. */
        uint32_t uplinks = rails_of(cluster) > 1   ? one_gpu_edge(one, cluster, nodes_together(cluster))
                           : spans_leaves(cluster) ? one_gpu_edge(one, cluster, 1)
                                                   : NO_LINK;
        one_gpu_add(&last, 1, nic_bytes(wire, traffic->neighbour_bytes), one->nic, uplinks);
    }
}

static void one_gpu_load(struct one_gpu *one, const struct cluster *cluster,
                         const struct cluster_traffic *traffic, const struct cluster_wire *wire)
{
    double peers = cluster->gpus - 1.0;
    double near_nodes = nodes_together(cluster) - 1, far_nodes = cluster->nodes - 1.0 - near_nodes;
    one_gpu_add(one, 1, traffic->self_bytes / wire->link_share, NO_LINK, NO_LINK);
    one_gpu_add(one, peers, traffic->pair_bytes / wire->link_share, one->local, NO_LINK);
    if (traffic->remote_bytes > 0) {
        double bytes = nic_bytes(wire, traffic->remote_bytes), near = near_nodes * gpus_per_rail(cluster);
        one_gpu_add(one, near, bytes, one->nic, NO_LINK);
        one_gpu_add(one, (cluster->nodes - 1.0) * cluster->gpus - near, bytes, one->nic, one->leaf);
    }
    if (traffic->rail_each_bytes > 0) {
        double bytes = nic_bytes(wire, traffic->rail_each_bytes);
        one_gpu_add(one, near_nodes, bytes, one->nic, NO_LINK);
        one_gpu_add(one, far_nodes, bytes, one->nic, one->leaf);
    }
    if (traffic->rail_bytes > 0 && cluster->nodes > 1) {
        /* Stands for the last node under a leaf: its GPUs of a rail send through the uplinks, and no others do. */
        uint32_t uplinks = spans_leaves(cluster) ? one_gpu_edge(one, cluster, gpus_per_rail(cluster))
                                                 : NO_LINK;
        one_gpu_add(one, 1, nic_bytes(wire, traffic->rail_bytes), one->nic, uplinks);
    }
    if (traffic->neighbour_bytes > 0) {
        one_gpu_add_neighbour(one, cluster, traffic, wire);
    }
    if (traffic->switch_bytes > 0) {
        uint32_t adders = fabric_network_add_link(one->network, "switch.adders",
                                                  cluster->node->in_switch_rate);
        fabric_network_add_flow(one->network, &adders, 1, traffic->switch_bytes, 1, 0);
    }
}

/* ---- a flow per pair */

struct all_gpus {
    struct fabric_network *network;
    uint32_t *channels, *port_out, *port_in, *nic_out, *nic_in; /* [ranks] */
    uint32_t *pair;                                             /* [ranks][gpus]: to GPU k of the same node */
    uint32_t *leaf_up, *leaf_down;                              /* [ranks]: of the rank's leaf */
};

static uint32_t add_named(struct fabric_network *network, const char *what, uint32_t a, uint32_t b,
                          double rate)
{
    char name[64];
    snprintf(name, sizeof name, "node[%u].gpu[%u].%s", a, b, what);
    return fabric_network_add_link(network, name, rate);
}

static uint32_t *take_links(size_t count)
{
    uint32_t *links = malloc((count + 1) * sizeof *links);
    SIM_ASSERT(links != NULL, "no memory for %zu links", count);
    for (size_t i = 0; i < count; i++) {
        links[i] = NO_LINK;
    }
    return links;
}

static void all_gpus_add_local(struct all_gpus *all, const struct cluster *cluster, uint32_t rank)
{
    const struct node_profile *node = cluster->node;
    uint32_t n = rank / cluster->gpus, g = rank % cluster->gpus;
    double rate = node->link_count * node->link_usable;
    if (cluster->gpus == 1) {
        return;
    }
    if (node->topology == NODE_SWITCHED) {
        all->port_out[rank] = add_named(all->network, "port.out", n, g, rate);
        all->port_in[rank] = add_named(all->network, "port.in", n, g, rate);
        return;
    }
    for (uint32_t k = 0; k < cluster->gpus; k++) {
        if (k != g) {
            char what[24];
            snprintf(what, sizeof what, "to_gpu[%u]", k);
            all->pair[(size_t)rank * cluster->gpus + k] = add_named(all->network, what, n, g, rate);
        }
    }
}

static void all_gpus_add_network(struct all_gpus *all, const struct cluster *cluster, uint32_t rank)
{
    uint32_t n = rank / cluster->gpus, g = rank % cluster->gpus;
    if (cluster->nodes == 1) {
        return;
    }
    all->nic_out[rank] = add_named(all->network, "nic.out", n, g, cluster->node->nic_usable);
    all->nic_in[rank] = add_named(all->network, "nic.in", n, g, cluster->node->nic_usable);
    if (!has_spine(cluster)) {
        return;
    }
    /* The first GPU of the first node under a leaf stands for it. */
    uint32_t head = (n - n % nodes_per_leaf(cluster)) * cluster->gpus + g % rails_of(cluster);
    if (head == rank) {
        all->leaf_up[rank] = add_named(all->network, "leaf.up", n, g, leaf_rate(cluster));
        all->leaf_down[rank] = add_named(all->network, "leaf.down", n, g, leaf_rate(cluster));
    } else {
        all->leaf_up[rank] = all->leaf_up[head];
        all->leaf_down[rank] = all->leaf_down[head];
    }
}

static void all_gpus_init(struct all_gpus *all, const struct cluster *cluster,
                          const struct cluster_wire *wire)
{
    size_t ranks = rank_count(cluster);
    *all = (struct all_gpus){
        .network = fabric_network_create(),
        .channels = take_links(ranks),
        .port_out = take_links(ranks),
        .port_in = take_links(ranks),
        .nic_out = take_links(ranks),
        .nic_in = take_links(ranks),
        .pair = take_links(ranks * cluster->gpus),
        .leaf_up = take_links(ranks),
        .leaf_down = take_links(ranks),
    };
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (wire->channels_gbs > 0) {
            all->channels[rank] = add_named(all->network, "channels", rank / cluster->gpus,
                                            rank % cluster->gpus, channels_capacity(wire));
        }
        all_gpus_add_local(all, cluster, rank);
        all_gpus_add_network(all, cluster, rank);
    }
}

/* All but the network. */
static void all_gpus_forget(struct all_gpus *all)
{
    free(all->channels);
    free(all->port_out);
    free(all->port_in);
    free(all->nic_out);
    free(all->nic_in);
    free(all->pair);
    free(all->leaf_up);
    free(all->leaf_down);
}

/* One flow of `bytes` payload from rank `from` to rank `to`. */
static void all_gpus_add(struct all_gpus *all, const struct cluster *cluster, const struct cluster_wire *wire,
                         uint32_t from, uint32_t to, double bytes)
{
    uint32_t from_node = from / cluster->gpus, to_node = to / cluster->gpus;
    uint32_t links[FABRIC_PATH_LINKS_MAX], path[FABRIC_PATH_LINKS_MAX];
    uint32_t count = 0, length = 0;
    links[count++] = all->channels[from];
    if (from_node == to_node && from != to) {
        links[count++] = all->port_out[from];
        links[count++] = all->port_in[to];
        links[count++] = all->pair[(size_t)from * cluster->gpus + to % cluster->gpus];
    } else if (from_node != to_node) {
        links[count++] = all->nic_out[from];
        links[count++] = all->nic_in[to];
        if (all->leaf_up[from] != all->leaf_up[to]) {
            links[count++] = all->leaf_up[from];
            links[count++] = all->leaf_down[to];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (links[i] != NO_LINK) {
            path[length++] = links[i];
        }
    }
    if (bytes > 0 && length > 0) {
        double on_wire = from_node == to_node ? bytes / wire->link_share : nic_bytes(wire, bytes);
        fabric_network_add_flow(all->network, path, length, on_wire, 1, 0);
    }
}

static double bytes_between(const struct cluster *cluster, const struct cluster_traffic *traffic,
                            uint32_t from, uint32_t to)
{
    if (traffic->split != NULL) {
        return traffic->split[(size_t)from * rank_count(cluster) + to];
    }
    if (from == to) {
        return traffic->self_bytes;
    }
    bool same_node = from / cluster->gpus == to / cluster->gpus;
    bool is_rail = to == (from + cluster->gpus) % rank_count(cluster) && cluster->nodes > 1;
    bool same_index = !same_node && from % cluster->gpus == to % cluster->gpus;
    bool is_next = to == (from + 1) % rank_count(cluster);
    double bytes = same_node ? traffic->pair_bytes : traffic->remote_bytes;
    bytes += same_index ? traffic->rail_each_bytes : 0;
    return bytes + (is_rail ? traffic->rail_bytes : 0) + (is_next ? traffic->neighbour_bytes : 0);
}

static void all_gpus_load(struct all_gpus *all, const struct cluster *cluster,
                          const struct cluster_traffic *traffic, const struct cluster_wire *wire)
{
    uint32_t ranks = rank_count(cluster);
    for (uint32_t from = 0; from < ranks; from++) {
        for (uint32_t to = 0; to < ranks; to++) {
            all_gpus_add(all, cluster, wire, from, to, bytes_between(cluster, traffic, from, to));
        }
    }
}

/* ---- time */

static enum sim_status network_end(const struct fabric_network *network,
                                   const struct fabric_engine_ops *engine, double *time_us,
                                   struct sim_error *error)
{
    double *finish_us = calloc(network->flow_count + 1, sizeof *finish_us);
    SIM_ASSERT(finish_us != NULL, "no memory for %zu finish times", network->flow_count);
    enum sim_status status = engine->finish(network, finish_us, error);
    *time_us = 0;
    for (size_t f = 0; status == SIM_OK && f < network->flow_count; f++) {
        *time_us = fmax(*time_us, finish_us[f]);
    }
    free(finish_us);
    return status;
}

/* The flow classes of each source: all GPUs' links are then their own. */
static void load_by_source(struct fabric_network *network, const struct cluster *cluster, const double *split,
                           const struct cluster_wire *wire)
{
    uint32_t ranks = rank_count(cluster);
    for (uint32_t from = 0; from < ranks; from++) {
        const double *row = split + (size_t)from * ranks;
        uint32_t peer = from % cluster->gpus == 0 ? from + 1 : from - from % cluster->gpus;
        uint32_t far = (from + cluster->gpus) % ranks;
        struct one_gpu one;
        struct cluster_traffic traffic = {
            .self_bytes = row[from],
            .pair_bytes = cluster->gpus > 1 ? row[peer] : 0,
            .remote_bytes = cluster->nodes > 1 ? row[far] : 0,
        };
        one_gpu_init(&one, network, cluster, wire);
        one.leaf = NO_LINK; /* a spine without oversubscription never binds */
        one_gpu_load(&one, cluster, &traffic, wire);
    }
}

double cluster_ends_together(const struct cluster *cluster, const struct cluster_traffic *traffic)
{
    return traffic->split != NULL && rank_count(cluster) > EXACT_SPLIT_RANKS ? ENDS_TOGETHER : 0;
}

static enum sim_status per_pair_time(const struct cluster *cluster, const struct cluster_traffic *traffic,
                                     const struct cluster_wire *wire, const struct fabric_engine_ops *engine,
                                     double *time_us, size_t *flow_count, struct sim_error *error)
{
    struct all_gpus all;
    all_gpus_init(&all, cluster, wire);
    all_gpus_load(&all, cluster, traffic, wire);
    all.network->together = cluster_ends_together(cluster, traffic);
    enum sim_status status = network_end(all.network, engine, time_us, error);
    *flow_count += all.network->flow_count;
    all_gpus_forget(&all);
    fabric_network_destroy(all.network);
    return status;
}

enum sim_status cluster_step_time(const struct cluster *cluster, const struct cluster_traffic *traffic,
                                  const struct cluster_wire *wire, enum cluster_view view,
                                  const struct fabric_engine_ops *engine, double *time_us, size_t *flow_count,
                                  struct sim_error *error)
{
    if (view == CLUSTER_PER_PAIR) {
        SIM_ASSERT(traffic->switch_bytes == 0, "in-switch traffic has no pairs");
        return per_pair_time(cluster, traffic, wire, engine, time_us, flow_count, error);
    }
    struct fabric_network *network = fabric_network_create();
    if (view == CLUSTER_BY_SOURCE) {
        load_by_source(network, cluster, traffic->split, wire);
    } else {
        struct one_gpu one;
        one_gpu_init(&one, network, cluster, wire);
        one_gpu_load(&one, cluster, traffic, wire);
    }
    enum sim_status status = network_end(network, engine, time_us, error);
    *flow_count += network->flow_count;
    fabric_network_destroy(network);
    return status;
}

struct fabric_network *cluster_pairs_network(const struct cluster *cluster)
{
    struct cluster_wire bare = { .link_share = 1, .nic_share = 1 };
    struct all_gpus all;
    all_gpus_init(&all, cluster, &bare);
    for (uint32_t from = 0; from < rank_count(cluster); from++) {
        for (uint32_t to = 0; to < rank_count(cluster); to++) {
            if (from != to) {
                all_gpus_add(&all, cluster, &bare, from, to, 1);
            }
        }
    }
    all_gpus_forget(&all);
    return all.network;
}
