/* Numbered tasks over workers: processes forked here, or the other ranks of an MPI run (mpi.c). Each task gives one record of a
 * fixed size; records come back in the order in which they are done. */
#ifndef STUDIES_POOL_H
#define STUDIES_POOL_H
#include "sim/reckon.h"
#include <stddef.h>
#include <stdint.h>

struct pool_work {
    void (*run)(void *context, uint32_t task, void *record); /* in a worker */
    void *context;
    size_t record_bytes;
    void (*begin)(void *context); /* in a worker forked here, before its first task; NULL is allowed */
};

struct pool;

/* Fork `jobs` workers. SIM_NO_MEMORY: none could be started. They end with the process that made them, however it ends. */
enum sim_status pool_create(uint32_t jobs, const struct pool_work *work, struct pool **out, struct sim_error *error);
void pool_destroy(struct pool *pool); /* NULL is allowed */

/* Hand out all tasks and take every record: done(context, record) may fail, which ends the run. idle (NULL is allowed) is called
 * about ten times a second. Errors: what `done` returned; SIM_NO_MEMORY when a worker died, with the task it had. */
enum sim_status pool_run(struct pool *pool, const uint32_t *tasks, size_t count,
                         enum sim_status (*done)(void *context, const void *record, struct sim_error *error),
                         void (*idle)(void *context), void *context, struct sim_error *error);

#endif
