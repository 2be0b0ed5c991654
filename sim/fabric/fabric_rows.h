/* Measured rows of collectives (calib/data) as requests: what `validate` compares. Suites
 *   nccl        params mb, world: the per-rank tensor in MiB; value: GB/s of that tensor
 *   collective  params bytes, gpus (all nodes together), nodes, dtype, library: nccl-tests conventions; value: GB/s */
#ifndef SIM_FABRIC_FABRIC_ROWS_H
#define SIM_FABRIC_FABRIC_ROWS_H
#include "sim/fabric/fabric.h"
#include <stdbool.h>

/* What the measuring program's host adds; zeros: device time alone. */
struct fabric_row_harness {
    double floor_us;           /* an event interval around nothing */
    double launch_interval_us; /* least time between launches: calls queue behind it */
};

/* Mean time of one of `calls` calls, queued back to back between two events, of a collective that takes the device
 * `device_us`. */
double fabric_called_us(const struct fabric_row_harness *harness, double calls, double device_us);

bool fabric_rows_cover(const char *suite);

/* The request that a row describes. `request->kind` borrows from a static list.
 * Errors: unknown suite or collective, missing, unknown or repeated parameter, text that is not a number. */
enum sim_status fabric_row_request(const char *suite, const char *kernel, const char *params,
                                   struct collective_request *request, struct sim_error *error);

/* Time [us] and value of a row as its program would report them. harness, value and detail may be NULL.
 * Errors: those of fabric_row_request and collective_time. */
enum sim_status fabric_row_time(const struct node_profile *node, const char *suite, const char *kernel,
                                const char *params, const struct fabric_row_harness *harness,
                                enum fabric_engine engine, double *time_us, double *value,
                                struct collective_result *detail, struct sim_error *error);

#endif
