/* The values of devices that may be another than their profiles say, and where each is in a sample of them all. */
#ifndef SIM_STEP_DOUBT_VALUES_H
#define SIM_STEP_DOUBT_VALUES_H
#include "sim/step/session.h"

struct doubt_value {
    char key[64]; /* "hbm.activate_interval", "host.launch_us" */
    enum profile_kind kind;
    enum { DOUBT_CHIP, DOUBT_NODE, DOUBT_HOST } where;
    enum chip_number index; /* DOUBT_CHIP */
    size_t offset;          /* DOUBT_HOST */
    double value, low, high;
    bool whole, power_of_two; /* what the model needs it to be */
    size_t unknown;           /* which coordinate of a sample is its own */
};

/* Of several devices: a value with the same key and the same source on two of them is one unknown. */
struct doubt_values {
    size_t device_count, unknown_count;
    struct {
        size_t count;
        struct doubt_value *values;
    } *device;
};

/* chip_only: what a kernel by itself rests on, without node and host. */
void doubt_values_collect(struct reckon_device *const *devices, size_t device_count, bool chip_only,
                          struct doubt_values *values);
void doubt_values_finish(struct doubt_values *values); /* zeroed memory is allowed */

/* Set device `d` to a sample, coordinates[unknown_count] in (0, 1): half of them below the profile's value, half above; over
 * a range of more than a factor of ten by its logarithm. NULL: the profile's own values. */
void doubt_values_set(const struct doubt_values *values, size_t d, const double *coordinates, struct reckon_device *device);

#endif
