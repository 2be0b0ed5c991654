/* What a collective library runs for a call: algorithms and protocols, their steps and the traffic of each, and how it
 * chooses. A plan is priced in collective.c. */
#ifndef SIM_FABRIC_LIBRARY_INTERNAL_H
#define SIM_FABRIC_LIBRARY_INTERNAL_H
#include "sim/fabric/cluster_internal.h"
#include <stdbool.h>

enum collective_kind {
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    BROADCAST,
    SEND_RECV,
    COLLECTIVE_KINDS
};
enum collective_algorithm {
    ALGORITHM_RING,
    ALGORITHM_DIRECT,
    ALGORITHM_TREE,
    ALGORITHM_IN_SWITCH,
    ALGORITHM_HIERARCHICAL,
    ALGORITHMS
};
enum collective_protocol { PROTOCOL_SIMPLE, PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_LL64, PROTOCOLS };

struct protocol_numbers {
    bool present;
    double payload, efficiency, start_us, hop_us, overlap, channel_bytes;
};

struct library_call {
    struct cluster cluster;
    enum collective_kind kind;
    double bytes;        /* nccl-tests convention */
    const double *split; /* all_to_all only; [ranks][ranks] or NULL */
    /* Settings of the library, the node's own unless the request says otherwise. */
    double queue_pairs, p2p_batch, channels_max, threads;
};

/* `count` equal dependent steps. */
struct library_steps {
    double count, latency_us; /* latency of one */
    struct cluster_traffic traffic;
};

#define LIBRARY_STEPS_MAX 3

struct library_plan {
    enum collective_algorithm algorithm;
    enum collective_protocol protocol;
    struct library_steps steps[LIBRARY_STEPS_MAX];
    int step_kinds;
    double overlap;  /* exponent of the norm of latency and transfer in each step */
    double fixed_us; /* launch, and what happens once */
    struct cluster_wire wire;
    uint32_t channels;
    double hbm_bytes; /* read and written in one GPU's memory */
    double *splits;   /* owned: what steps of a hierarchical call with splits point to; or NULL */
};

const char *collective_kind_text(enum collective_kind kind);
const char *collective_algorithm_text(enum collective_algorithm algorithm);
const char *collective_protocol_text(enum collective_protocol protocol);

/* -1 when the name is not known; the list for the error is "a, b, c". */
int collective_kind_parse(const char *name);
int collective_algorithm_parse(const char *name);
int collective_protocol_parse(const char *name);
const char *collective_kind_list(void);
const char *collective_algorithm_list(void);
const char *collective_protocol_list(void);

struct protocol_numbers library_protocol(const struct node_profile *node, enum collective_protocol protocol);

/* Whether the library has this combination at all. */
bool library_can(const struct library_call *call, enum collective_algorithm algorithm,
                 enum collective_protocol protocol);

/* Whether it would choose it by itself (LL64, hierarchical and over-limit direct algorithms only when forced). */
bool library_considers(const struct library_call *call, enum collective_algorithm algorithm,
                       enum collective_protocol protocol);

/* Time that the library's own cost model expects, or a negative number where it has none (then what is really fastest
 * counts). Source of the form: NCCL src/graph/tuning.cc, ncclTopoTuneModel and ncclTopoGetAlgoTime. */
double library_expects_us(const struct library_call *call, enum collective_algorithm algorithm,
                          enum collective_protocol protocol);

/* Requires library_can(). The caller finishes the plan. */
void library_plan(const struct library_call *call, enum collective_algorithm algorithm,
                  enum collective_protocol protocol, struct library_plan *plan);
void library_plan_finish(struct library_plan *plan); /* zeroed memory is allowed */

/* busbw / algbw of nccl-tests for `ranks`. */
double collective_bus_factor(enum collective_kind kind, double ranks);

#endif
