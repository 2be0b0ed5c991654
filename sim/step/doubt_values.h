/* The values of devices that may be another than their profiles say, and where each is in a sample of them all. */
#ifndef SIM_STEP_DOUBT_VALUES_H
#define SIM_STEP_DOUBT_VALUES_H
#include "sim/step/session.h"

struct doubt_value {
    char key[64]; /* "hbm.activate_interval", "host.launch_us" */
    enum profile_kind kind;
    enum { DOUBT_CHIP, DOUBT_NODE, DOUBT_HOST, DOUBT_MODEL, DOUBT_INPUT, DOUBT_LIBRARY } where; /* INPUT: a parameter of the kernel left out */
    enum chip_number index; /* DOUBT_CHIP */
    size_t offset;          /* DOUBT_HOST */
    double *library;        /* DOUBT_LIBRARY: a value of it; borrowed */
    double value, low, high;
    bool whole, power_of_two; /* what the model needs it to be */
    size_t unknown;           /* which coordinate of a sample is its own */
};

/* How far the model itself is from what it describes, where its values are right: standard deviation of the logarithm, from the
 * rows that no fit was held to (reports/accuracy.md: nine tenths of the kernels' rows are within 12 to 20%, of the collectives'
 * within 15 to 30%, of the recorded steps within 24%). Half of its variance is taken to be the same on all devices, since the
 * programs are, and half a device's own. */
#define DOUBT_MODEL_KERNEL 0.09
#define DOUBT_MODEL_COLLECTIVE 0.15
#define DOUBT_MODEL_STEP 0.10

/* Of several devices: a value with the same key and the same source on two of them is one unknown. */
struct doubt_values {
    size_t device_count, unknown_count;
    struct {
        size_t count;
        struct doubt_value *values;
    } *device;
};

/* chip_only: what a kernel by itself rests on, without node and host. */
void doubt_values_collect(struct reckon_device *const *devices, size_t device_count, bool chip_only, double model_error,
                          struct doubt_values *values);
/* Also what the answer of device `d` assumes of its own parameters; the same parameter on two devices is one unknown. After the
 * collecting, before the points are drawn. */
void doubt_values_add_inputs(struct doubt_values *values, size_t d, const struct reckon_assumed *inputs, size_t count);
/* Also what its library leaves open: its menu's share, and the efficiency of a class (NULL: of all classes). The same library on two
 * devices is the same unknowns. */
void doubt_values_add_library(struct doubt_values *values, size_t d, struct library_profile *library, const char *class_name);
void doubt_values_finish(struct doubt_values *values); /* zeroed memory is allowed */

/* Set device `d` to a sample, coordinates[unknown_count] in (0, 1): half of them below the profile's value, half above; over
 * a range of more than a factor of ten by its logarithm. NULL: the profile's own values. */
void doubt_values_set(const struct doubt_values *values, size_t d, const double *coordinates, struct reckon_device *device);

/* The parameters of a sample: `params` ("k=v;k=v" or NULL) and those of device `d` that were left out. */
void doubt_values_params(const struct doubt_values *values, size_t d, const double *coordinates, const char *params, char *text,
                         size_t capacity);

/* What a sample makes of an answer of device `d`: the model's own error. */
double doubt_values_model_factor(const struct doubt_values *values, size_t d, const double *coordinates);

#endif
