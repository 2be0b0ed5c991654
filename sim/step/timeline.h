/* The steady step of a prediction as spans on lanes, with counters: what pages and trace viewers draw (sim/reckon.h). */
#ifndef SIM_STEP_TIMELINE_H
#define SIM_STEP_TIMELINE_H
#include "sim/chiplet/power.h"
#include "sim/reckon.h"
#include "sim/step/schedule.h"

/* loads and mhz: [graph->node_count], as step_clock_solve has them. Aborts if memory is short. */
struct reckon_timeline *timeline_of(const struct graph *graph, const struct step_timeline *played, const struct step_price *prices,
                                    const struct power_load *loads, const double *mhz, const struct chip_profile *chip);
void timeline_free(struct reckon_timeline *timeline); /* NULL is allowed */

#endif
