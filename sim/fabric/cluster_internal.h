/* The GPUs of a group and what lies between them, as a network of links; and traffic on it, written down as coarsely as
 * its symmetry allows (enum cluster_view; test fabric.symmetric_classes_equal_explicit_flows).
 *
 * Links, one way each:
 *   channels  what the workgroups of a collective on one GPU can move, their own copies included
 *   mesh      a pair's own link(s); a group of n uses n - 1 per GPU
 *   port      a GPU's links into and out of the switch
 *   nic       in and out, one per GPU
 *   leaf      uplinks and downlinks of a leaf switch towards the spine, shared. A leaf joins the NICs of one rail of
 *             `nic.leaf_nodes` nodes; a node's GPUs are dealt to `nic.rails` rails (1: all of a node under one leaf).
 *             Absent while the group fits under one leaf
 * Left out: contention inside a switch, PCIe between GPU and NIC. */
#ifndef SIM_FABRIC_CLUSTER_INTERNAL_H
#define SIM_FABRIC_CLUSTER_INTERNAL_H
#include "sim/fabric/engine.h"
#include "sim/fabric/network.h"
#include "sim/fabric/node_profile_internal.h"
#include <stdbool.h>

struct cluster {
    const struct node_profile *node;
    uint32_t gpus, nodes; /* per node; ranks = gpus x nodes */
};

/* What every GPU sends in one step, payload bytes. Zero: no such flow. */
struct cluster_traffic {
    double pair_bytes;      /* to each other GPU of its node */
    double neighbour_bytes; /* to the next rank */
    double rail_bytes;      /* to the GPU of the same index in the next node */
    double rail_each_bytes; /* to the GPU of the same index in each other node */
    double remote_bytes;    /* to each GPU of each other node */
    double self_bytes;      /* copied within the GPU by the same workgroups */
    double switch_bytes;    /* through the adders of the switch */
    const double *split;    /* [ranks][ranks], replaces pair, remote and self; or NULL */
};

/* How payload becomes wire time. */
struct cluster_wire {
    double link_share;    /* payload bytes moved per usable link byte: payload ratio x efficiency */
    double nic_share;     /* the same of NICs, on top of link_share */
    double channels_gbs;  /* payload rate of the workgroups of one GPU; 0: no limit */
    double message_bytes; /* that each message costs a NIC on top of its own */
};

/* How the flows of a step are written down. Wherever a coarser view is taken, it gives the answer of the finest. */
enum cluster_view {
    CLUSTER_ONE_GPU, /* flow classes of one GPU that stands for all: no splits, every leaf holds equally many nodes */
    CLUSTER_BY_SOURCE, /* flow classes of each GPU: splits that depend on the source alone, no oversubscribed spine. What
                        * arrives at a GPU is then within its links: n senders of at most 1/n of an equal link each */
    CLUSTER_PER_PAIR, /* a flow per pair */
};
const char *cluster_view_text(enum cluster_view view);
/* The coarsest view that holds. O(ranks^2) with splits. */
enum cluster_view cluster_view_of(const struct cluster *cluster, const struct cluster_traffic *traffic);

/* Time until all of one step's flows have ended [us], in `view` (the one that cluster_view_of gives, or a finer one).
 * Adds the flow classes it used to *flow_count. */
enum sim_status cluster_step_time(const struct cluster *cluster, const struct cluster_traffic *traffic,
                                  const struct cluster_wire *wire, enum cluster_view view,
                                  const struct fabric_engine_ops *engine, double *time_us, size_t *flow_count,
                                  struct sim_error *error);

/* Share of the time within which engine fluid takes the ends of this traffic's explicit flows as one; 0: exact. */
double cluster_ends_together(const struct cluster *cluster, const struct cluster_traffic *traffic);

/* All links of the cluster and a flow of 1 byte from each rank to each other one, in that order. The caller destroys it. */
struct fabric_network *cluster_pairs_network(const struct cluster *cluster);

#endif
