/* Forked workers. */
#ifndef SIM_CORE_WORKER_PROCESS_H
#define SIM_CORE_WORKER_PROCESS_H
#include <sys/types.h>

/* In a worker just forked by `parent`: end when it ends, so that an interrupt of the parent alone leaves none behind. */
void worker_process_ends_with(pid_t parent);

#endif
