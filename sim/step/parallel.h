/* Independent tasks over forked worker processes. Results live in memory that parent and workers share, so a task's
 * outcome never depends on how many workers there were or on their order. */
#ifndef SIM_STEP_PARALLEL_H
#define SIM_STEP_PARALLEL_H
#include "sim/core/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory that forked workers write and the parent reads. NULL when the host has none. */
void *parallel_share(size_t bytes);
void parallel_unshare(void *memory, size_t bytes); /* NULL is allowed */

/* Run task(context, i) for i in 0..count-1, each once; tasks write their results through shared memory.
 * jobs <= 1 runs in this process. The parent calls tick (NULL is allowed) about ten times a second with the number done.
 * Errors: SIM_NO_MEMORY when no worker could be started. A worker that dies takes the program down with it (a bug in the
 * model is not a result): the parent aborts after the worker has printed why. */
enum sim_status parallel_run(uint32_t jobs, size_t count, void (*task)(void *context, size_t index),
                             void *context, void (*tick)(void *tick_context, size_t done, size_t count),
                             void *tick_context, struct sim_error *error);

/* Processors this process may run on. */
uint32_t parallel_default_jobs(void);

#endif
