/* What the host does between kernels: a few numbers of one framework on one kind of host (devices/hosts/NAME.json).
 * A profiled trace's own host times are inflated up to tenfold, so these price the host unless asked otherwise. */
#ifndef SIM_STEP_HOST_PROFILE_H
#define SIM_STEP_HOST_PROFILE_H
#include "sim/core/status.h"
#include "sim/step/value_table.h"

struct host_profile {
    char name[32], title[96];
    double operator_us; /* framework operator, its own time, nested operators counted on their own */
    double launch_us;   /* one launch, copy or fill call */
    double event_us;    /* one event record or stream wait call */
    double sync_us;     /* a synchronise call's return after the device is done */
    double start_us;    /* launch call's return to the kernel's start on an idle stream */
    double queue_depth; /* launches a host may be ahead of a device before the next launch blocks */
    struct value_kinds kinds;
};

/* Errors: as value_table_read. */
enum sim_status host_profile_read(const char *path, struct host_profile *host, struct sim_error *error);

#endif
