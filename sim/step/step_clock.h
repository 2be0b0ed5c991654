/* The core clock over a step: the governor of sim/chiplet/power.h, driven by what each device runs when, the step repeated
 * for ever. Kernels stretch where it lowers the clock, so the step is played out again until the two agree. */
#ifndef SIM_STEP_STEP_CLOCK_H
#define SIM_STEP_STEP_CLOCK_H
#include "sim/chiplet/power.h"
#include "sim/step/schedule.h"

struct step_clock_rank {
    double mhz;   /* mean over the time that the device is busy; clock.core_max when it never is */
    double watts; /* mean board power over the step */
};

/* loads: [graph->node_count], of device nodes alone at clock.core_max; us 0 for nodes that take no part.
 * mhz: [graph->node_count], in: the clock each node ran at in `timeline`; out: what the governor leaves it.
 * ranks: [graph->rank_count]. Aborts if memory is short. O(device nodes x steps in three of the longest power windows). */
void step_clock_solve(const struct graph *graph, const struct step_timeline *timeline,
                      const struct chip_profile *chip, const struct power_load *loads, double *mhz,
                      struct step_clock_rank *ranks);

#endif
