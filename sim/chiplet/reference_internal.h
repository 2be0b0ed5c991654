/* The reference engine: the same package and the same waves as the fast engine, an event per line and contended stage, in
 * true arrival order. Slow and plain; the fast engine is held to it by tests/chiplet/test_reference.c. Private to sim/chiplet. */
#ifndef SIM_CHIPLET_REFERENCE_INTERNAL_H
#define SIM_CHIPLET_REFERENCE_INTERNAL_H
#include "sim/chiplet/executor_internal.h"

struct reference; /* units, waves and servers of its own; uses the package's tags, rows and counters */

struct reference *reference_create(struct package *package, const struct wave_program *program, const struct occupancy *occupancy);
void reference_destroy(struct reference *reference); /* NULL is allowed */

/* As executor_run(): a timed run from the package's present cache contents. */
void reference_run(struct reference *reference, const struct run_request *request, struct run_outcome *outcome);

#endif
