/* Executing waves on a package: units, dispatcher, and the fast engine's run. Private to sim/chiplet. */
#ifndef SIM_CHIPLET_EXECUTOR_INTERNAL_H
#define SIM_CHIPLET_EXECUTOR_INTERNAL_H
#include "sim/chiplet/package_internal.h"
#include "sim/core/wave_program.h"

#define SIMDS_MAX 8
#define RUN_ROUNDS 4 /* of resident workgroups, whose lives are added up */
#define RUN_MARKS 6 /* times at evenly spaced unit counts, between 40% and 85% of a run where nothing else is said */
#define MARKS_FIRST 0.4
#define MARKS_SPAN 0.45
#define MARKS_END (MARKS_FIRST + MARKS_SPAN)

struct occupancy {
    uint32_t workgroups_per_unit;
    uint32_t waves_per_unit;
    const char *limit; /* what limits it, static text */
};

/* SIM_DOES_NOT_FIT names the resource and by how much. */
enum sim_status occupancy_of(const struct chip_profile *profile, const struct wave_program *program, struct occupancy *out,
                             struct sim_error *error);

/* Which part of the kernel a run executes. */
struct run_request {
    uint64_t first_workgroup, workgroup_count; /* consecutive in the sample's own order */
    uint64_t sample_of;      /* 0: workgroup index = position; else positions are spread over this many workgroups */
    struct wave_window window;
    uint64_t units_expected; /* for the marks; 0: none */
    uint32_t marks_first, marks_span; /* thousandths of units_expected: first mark, and from it to the last; 0: the usual 400, 450 */
    bool marks_by_dispatch;  /* marks at 40% .. 100% of the workgroups dispatched, and the run stops at the last: for grids whose
                                workgroups differ so much that the longest outlive the rest by far */
    bool stops_at_marks;     /* at the last of them, whatever is left to run */
    bool in_flow;            /* from the middle of a long grid: the first workgroups resident are met spread over their lives */
    uint32_t rounds_wanted;  /* not 0: stop once every slot has seen so many workgroups end */
    double unit_share;       /* of CUs/SMs available, (0, 1] */
    bool one_wave_only;      /* the other waves of the workgroup retire at once */
    uint32_t one_wave;
    bool one_group_only;     /* workgroups of other dispatch groups (XCDs) never start */
    uint32_t one_group;
};

/* A unit's waves go to its SIMDs in turn, those of its next slot where the last one's ended: slot s is the (s / units)-th of unit
 * s % units, so that workgroups of fewer waves than a unit has SIMDs share them. */
static inline uint32_t run_simd_of(uint32_t slot, uint32_t units, uint32_t waves_per_workgroup, uint32_t wave, uint32_t simds)
{
    return (slot / units * waves_per_workgroup + wave) % simds;
}

/* Units after which the index-th mark is set. */
static inline uint64_t run_mark_due(const struct run_request *request, uint32_t index)
{
    uint64_t first = request->marks_first > 0 ? request->marks_first : (uint64_t)(1000 * MARKS_FIRST + 0.5);
    uint64_t span = request->marks_span > 0 ? request->marks_span : (uint64_t)(1000 * MARKS_SPAN + 0.5);
    return request->units_expected * (first * (RUN_MARKS - 1) + span * index) / (1000 * (RUN_MARKS - 1));
}

struct run_outcome {
    sim_ticks end;                     /* last wave retired and last store or atomic drained */
    sim_ticks mark[RUN_MARKS];         /* when k-th mark of the units was reached */
    uint64_t mark_units[RUN_MARKS];
    double round_life[RUN_ROUNDS];     /* of the workgroups that were k-th in their slot and had a successor: ticks, summed */
    uint64_t round_count[RUN_ROUNDS];  /* how many */
    double slot_end;                   /* of the slots that found no next workgroup: when their last one ended, ticks, summed */
    uint64_t slots_ended;              /* how many */
    uint64_t units;                    /* work units executed */
    uint64_t wave_ops;
    double blame[KERNEL_STAGES];       /* wave-time by stage, ticks */
    double utilisation[KERNEL_STAGES]; /* of the stage's busiest server, 0..1 */
    double lanes_sum, lanes_ops;
    uint64_t lds_atomics;
    uint32_t resident_waves;
    bool stopped;                      /* by one of these, before the work was done */
};

struct executor; /* units and waves; one at a time per package, which takes its memory back at its own end */

struct executor *executor_create(struct package *package, const struct wave_program *program, const struct occupancy *occupancy);

/* Timed run from the package's present cache contents. */
void executor_run(struct executor *executor, const struct run_request *request, struct run_outcome *outcome);
/* Functional run of the same request: cache contents alone. Stops after `request_limit` line requests; returns how many. */
uint64_t executor_warm(struct executor *executor, const struct run_request *request, uint64_t request_limit);

struct request_mix {
    double per_unit;   /* line requests per work unit */
    double sent_share; /* of them, stores and atomics: [0, 1] */
    double atomic_share;
};
/* Of `waves` sampled waves, functionally and without touching caches. */
struct request_mix executor_request_mix(struct executor *executor, const struct run_request *request, uint32_t waves);

#endif
