/* Independent tasks over forked processes. Results go to memory that all share, so an outcome does not depend on how many
 * workers there were or on their order. */
#ifndef CALIB_WORKERS_H
#define CALIB_WORKERS_H
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory that workers write and the caller reads. Aborts when the host has none. */
void *workers_share(size_t bytes);
void workers_unshare(void *memory, size_t bytes); /* NULL is allowed */

/* Run task(context, i) once for each i below `count`, taken up in this order; this process is one of the `jobs` workers. A
 * worker that dies (a bug of the model, which it has printed) ends the program. */
void workers_run(uint32_t jobs, size_t count, void (*task)(void *context, size_t index), void *context);

/* `wanted`, or with 0 the processors this process may run on. */
uint32_t workers_jobs(uint32_t wanted);

#endif
