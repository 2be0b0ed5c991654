/* One step of one or more ranks played out in time: hosts issue, streams run in order, collectives meet, everything shares
 * the chip. Several steps run back to back and the increment in the steady state is the step time.
 *
 * Model. A rank has one host timeline: its host nodes run one after another in graph order (workloads/graph.h says why).
 * A device item starts when its stream has come to it, its launch has arrived and it finds slots; its slots are what is
 * left by items that started before it, so a kernel behind a full-chip kernel waits. Beside others an item slows by the
 * rounds that its workgroups then take in the slots it got (a product of one workgroup a unit takes two, however few are
 * missing; not while HBM holds it anyway, see hbm_held), and, when the HBM shares of all that run
 * add up to more than one, by that sum. A
 * collective moves data from the moment its last rank has started it, at the rate of the slowest rank; ranks that wait
 * hold their slots. Ranks that are not in the graph are taken to arrive with the last that is. Left out: workgroups
 * trickling in as an older kernel drains, and PCIe contention. */
#ifndef SIM_STEP_SCHEDULE_H
#define SIM_STEP_SCHEDULE_H
#include "sim/core/status.h"
#include "workloads/graph.h"
#include <stdbool.h>

struct step_price {    /* of a device node; ignored for other nodes */
    double us;         /* alone on the device, >= 0 */
    double call_us;    /* of the host in the call that launches it, beyond launch_us */
    double unit_share; /* 0..1 of the CUs/SMs it fills; 0: needs none (copy engine) */
    double rounds;     /* in which its workgroups pass through all of its slots; 0: so many that they can be cut at will */
    double hbm_share;  /* 0..1 of the HBM rate it uses while it runs alone */
    double hbm_held;   /* 0..1 of its time in which HBM holds it and fewer slots would do */
};

struct step_host_costs {
    double operator_us, launch_us, event_us, sync_us, start_us;
    double queue_depth;
    bool traced_operators; /* operators cost their traced own time instead of operator_us */
};

struct step_options {
    double stream_gap_us; /* end of a kernel to the start of the next in its stream */
    /* false: steps are queued back to back, and a synchronise behind a rank's last launch is the recording loop's, not the
     * step's, and is left out. */
    bool synchronise_each_step;
};

struct step_rank_times {
    double host_ms;         /* host time of one step: all its calls, without waiting */
    double gpu_busy_ms;     /* union of kernels and collectives */
    double gpu_moving_ms;   /* the same, collectives from the moment their last rank is there */
    double exposed_comm_ms; /* collectives with no kernel beside them, waiting for late ranks included */
};

struct step_timeline {
    double step_ms;       /* increment per step in the steady state */
    double first_step_ms; /* from idle: start of the first step to its last completion */
    double drift;         /* |last increment / the one before - 1|: 0 when steady */
    size_t node_count;
    /* [node_count], of one steady step, relative to its first start; -1: not run. Owned. */
    double *start_us, *end_us;
    /* [node_count], of the same step and origin: when the host was in the call, waiting included; NAN: no host node, or not run.
     * The host runs ahead of the device, so these may be below 0. Owned. */
    double *host_start_us, *host_end_us;
    uint32_t rank_count;
    struct step_rank_times *ranks; /* [rank_count]; owned */
    size_t dropped_syncs;          /* synchronises left out, see options */
};

/* prices: [graph->node_count]. The graph must have passed graph_check (asserted where cheap).
 * Errors: SIM_BAD_TRACE when the step cannot finish: ranks wait for collectives of each other in different orders
 * (names one of them). */
enum sim_status step_schedule(const struct graph *graph, const struct step_price *prices,
                              const struct step_host_costs *host, const struct step_options *options,
                              struct step_timeline **out, struct sim_error *error);
void step_timeline_destroy(struct step_timeline *timeline); /* NULL is allowed */

#endif
