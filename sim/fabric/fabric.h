/* Collectives on a node or cluster: how long, and what limits them. Engines (fluid, simgrid) sit behind it.
 * Rates are GB/s (1e9), times us, sizes bytes. */
#ifndef SIM_FABRIC_FABRIC_H
#define SIM_FABRIC_FABRIC_H
#include "sim/core/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node_profile; /* opaque; devices/nodes/NAME.json, same value format as device files */

/* Read and check a node file. Errors, one line with file, line and key: unknown or missing key, wrong unit, value outside
 * its range or its own [low, high], usable rate above raw, in-switch reduction without a switch. */
enum sim_status node_profile_read(const char *path, struct node_profile **out, struct sim_error *error);
void node_profile_destroy(struct node_profile *node);
uint32_t node_profile_gpu_count(const struct node_profile *node); /* per node */
const char *node_profile_name(const struct node_profile *node);
const char *node_profile_title(const struct node_profile *node);
const char *node_profile_device(
    const struct node_profile *node); /* name of the device profile in each slot */
const char *node_profile_library(const struct node_profile *node); /* whose collectives it describes */
uint64_t node_profile_hash(const struct node_profile *node);
/* Host link of one GPU (PCIe): usable rate [GB/s] and fixed time [us] of one copy, as the device sees it. */
void node_profile_host_link(const struct node_profile *node, bool pinned, bool to_device, double *rate_gbs,
                            double *fixed_us);
/* A pageable copy to the device of at most so many bytes is put into a pinned buffer first, by the host at the pageable rate,
 * while the device does not work on it; then it is copied as a pinned one. A larger one goes in pieces, both at work. */
double node_profile_staged_bytes(const struct node_profile *node);

/* Memory traffic that copying kernels reach in one GPU [GB/s]. */
double node_profile_memory_rate(const struct node_profile *node);

/* One number of a node profile, for manuals, reports and uncertainty. Texts are borrowed from the profile. */
struct node_profile_value {
    const char *key, *unit, *help; /* key: "section.key" */
    double value, low, high;
    const char *kind, *source;
};
size_t node_profile_number_count(void);
/* False when the section of number `index` (< count) is absent from this node. */
bool node_profile_number_at(const struct node_profile *node, size_t index, struct node_profile_value *out);
/* Address of a number by "section.key" (fits, sampling of uncertain values), or NULL: unknown or absent. */
double *node_profile_number(struct node_profile *node, const char *dotted_key);

/* Set "section.key=value". Errors: no '=', unknown or absent key, not a number, out of range, usable above raw. */
enum sim_status node_profile_set(struct node_profile *node, const char *pair, struct sim_error *error);

/* Raw and usable rates as a group of `gpus` in one node meets them: on a mesh each pair has its own link, so a group
 * has (gpus - 1) of them per GPU and never more. Rates are one way, per GPU. */
struct node_link_table {
    const char *topology;                   /* "mesh", "switched" */
    uint32_t links_used;                    /* per GPU */
    double link_raw_gbs, link_usable_gbs;   /* one link */
    double group_raw_gbs, group_usable_gbs; /* all links of a GPU towards the group */
    double nic_raw_gbs, nic_usable_gbs;     /* of one GPU; 0: the node has no network */
};
/* Requires (asserted): gpus in 1..node_profile_gpu_count. */
void node_profile_links(const struct node_profile *node, uint32_t gpus, struct node_link_table *out);

enum fabric_engine { FABRIC_ENGINE_FLUID, FABRIC_ENGINE_SIMGRID };

struct collective_request {
    const char *kind; /* all_reduce all_gather reduce_scatter all_to_all broadcast send_recv; names with an
                            * optional underscore left out (allreduce, alltoall) are the same */
    double
        bytes; /* nccl-tests convention: all_gather total output, reduce_scatter total input, all_to_all per-rank total */
    uint32_t gpus; /* in the group, per node */
    uint32_t nodes;
    const char *protocol;  /* NULL: as the library chooses; simple LL LL128 LL64 */
    const char *algorithm; /* NULL: as the library chooses; ring direct tree in_switch hierarchical */
    const double *
        split_bytes; /* all_to_all: [gpus*nodes][gpus*nodes] bytes from i to j, or NULL for equal. Rank r is GPU
                                * r % gpus of node r / gpus. `bytes` is then ignored and may be 0. */
    bool explicit_flows; /* every flow by itself even where symmetric classes would give the same answer */
    /* Settings of the library; 0: the node profile's. */
    uint32_t queue_pairs; /* of a connection: a message goes out in so many pieces */
    uint32_t p2p_batch;   /* peers whose messages start together */
    uint32_t channels;    /* most workgroups on a GPU */
    uint32_t threads;     /* lanes of a workgroup */
    uint32_t registers;   /* 32-bit registers of a lane */
};

struct collective_result {
    double time_us; /* one call, all ranks ready at 0 */
    double algbw_gbs, busbw_gbs;
    double bound_us;  /* wire bound alone, no latencies */
    char limiter[32]; /* the largest part of the time: latency, link, nic, protocol, memory, in_switch */
    char algorithm[16], protocol[16], engine[16];
    uint32_t channels;           /* workgroups the collective occupies on each GPU, */
    uint32_t threads, registers; /* the lanes of each and the 32-bit registers of a lane */
    double hbm_bytes;            /* read + written in one GPU's memory (the busiest, where splits differ): */
    double hbm_send_bytes;       /* of these, reads of what it sends; */
    double hbm_receive_bytes;   /* and the rest: what arrives, through buffers to its place, and own copies */
    double latency_us, wire_us; /* the parts: launch and dependent steps; transfer beyond them */
    bool in_switch;             /* reduced inside the switch: busbw may exceed the usable link rate */
    char choice[96];            /* how flows were written down: one GPU for all, by source GPU, or explicit */
};

/* Errors, one line each: unknown kind, algorithm or protocol; zero or absurd bytes; a group of fewer than two GPUs or of
 * more than a node has; several nodes without a network; a protocol or algorithm that node, kind or group cannot use. */
enum sim_status collective_time(const struct node_profile *node, const struct collective_request *request,
                                enum fabric_engine engine, struct collective_result *result,
                                struct sim_error *error);

/* Low and high of the time when each uncertain number of the node goes to the ends of its range, one at a time, joined as the
 * root of the squares, with algorithm and protocol held. False: too many explicit flows to do that. */
bool collective_interval(const struct node_profile *node, const struct collective_request *request,
                         const struct collective_result *result, enum fabric_engine engine, double *low_us,
                         double *high_us);

/* The request with a practitioner's lever off and on: ll64, single-qp, direct-allgather, p2p-batch, wave-per-peer.
 * Errors: unknown name (lists them), a lever that does not touch this kind, node or number of nodes. */
enum sim_status collective_lever(const struct node_profile *node, const char *name,
                                 const struct collective_request *request, struct collective_request *before,
                                 struct collective_request *after, struct sim_error *error);

/* CUs or SMs that a collective takes from kernels beside it, for a unit that holds `unit_registers` and `unit_threads`:
 * its workgroups spread over the units and take their share of each, the larger one of registers and lanes. */
double collective_units_taken(const struct collective_result *result, double unit_registers,
                              double unit_threads);

/* Both name one collective: "allreduce" and "all_reduce". */
bool collective_same_kind(const char *a, const char *b);

/* Whether ranks of one call agree: kinds other than all_to_all need one size. bytes: [rank_count].
 * SIM_BAD_ARGUMENT names the collective, the first rank that differs and both sizes. */
enum sim_status collective_check_sizes(const char *kind, const double *bytes, uint32_t rank_count,
                                       struct sim_error *error);

/* Engine by name; SIM_UNKNOWN_NAME lists the names with their summaries. */
enum sim_status fabric_engine_parse(const char *name, enum fabric_engine *out, struct sim_error *error);

#endif
