/* The GPUs of a group and what lies between them, as a network of links; and traffic on it, either as the flow classes
 * of one GPU that stands for all (where all are alike) or as a flow per pair. Both give the same answer (test
 * fabric.symmetric_classes_equal_explicit_flows).
 *
 * Links, one way each:
 *   channels  what the workgroups of a collective on one GPU can move, their own copies included
 *   mesh      a pair's own link(s); a group of n uses n - 1 per GPU
 *   port      a GPU's links into and out of the switch
 *   nic       in and out, one per GPU
 *   leaf      uplinks and downlinks of `nic.leaf_nodes` nodes, shared; absent while the group fits under one leaf
 * Left out: contention inside a switch, PCIe between GPU and NIC, rails (each GPU reaches every other through its leaf). */
#ifndef SIM_FABRIC_CLUSTER_INTERNAL_H
#define SIM_FABRIC_CLUSTER_INTERNAL_H
#include <stdbool.h>
#include "sim/fabric/engine.h"
#include "sim/fabric/network.h"
#include "sim/fabric/node_profile_internal.h"

struct cluster {
    const struct node_profile *node;
    uint32_t gpus, nodes; /* per node; ranks = gpus x nodes */
};

/* What every GPU sends in one step, payload bytes. Zero: no such flow. */
struct cluster_traffic {
    double pair_bytes;     /* to each other GPU of its node */
    double neighbour_bytes; /* to the next rank */
    double rail_bytes;     /* to the GPU of the same index in the next node */
    double remote_bytes;   /* to each GPU of each other node */
    double self_bytes;     /* copied within the GPU by the same workgroups */
    double switch_bytes;   /* through the adders of the switch */
    const double *split;   /* [ranks][ranks], replaces pair, remote and self; or NULL */
};

/* How payload becomes wire time. */
struct cluster_wire {
    double link_share;     /* payload bytes moved per usable link byte: payload ratio x efficiency */
    double channels_gbs;   /* payload rate of the workgroups of one GPU; 0: no limit */
    bool message_overhead; /* count nic.message_overhead */
};

/* True where one GPU stands for all: no splits, and every leaf holds equally many nodes of the group. */
bool cluster_is_symmetric(const struct cluster *cluster, const struct cluster_traffic *traffic);

/* Time until all of one step's flows have ended [us]. Adds the flow classes it used to *flow_count. */
enum sim_status cluster_step_time(const struct cluster *cluster, const struct cluster_traffic *traffic,
                                  const struct cluster_wire *wire, bool explicit_flows, const struct fabric_engine_ops *engine,
                                  double *time_us, size_t *flow_count, struct sim_error *error);

#endif
