/* The answer of `reckon atomics` and how it is written: text, JSON, SVG. */
#ifndef SIM_CLI_PRINT_ATOMICS_H
#define SIM_CLI_PRINT_ATOMICS_H
#include "sim/cli/cli.h"

#define ATOMICS_VALUES_MAX 64
#define ATOMICS_CURVES_MAX 8 /* without a fix, and one per --fix */
#define ATOMICS_SENSITIVITY_MAX 16

/* Time at the low and high end of one number that nobody has published, the others as they are. */
struct atomics_sensitivity {
    const char *key, *unit;
    double low, high, value; /* of the number */
    double us_low, us_high;
};

struct atomics_device {
    struct reckon_kernel *kernels[ATOMICS_CURVES_MAX][ATOMICS_VALUES_MAX];
    size_t sensitivity_count;
    struct atomics_sensitivity sensitivity[ATOMICS_SENSITIVITY_MAX];
    size_t sensitive_at; /* index of the value at which they were taken */
};

struct atomics_answer {
    const char *suite, *kernel, *params; /* params: without what varies */
    const char *variable, *parameter;
    bool logarithmic; /* the values' axis */
    size_t value_count, curve_count, device_count;
    uint32_t samples;                      /* behind the kernels' times and intervals; 0: none, and intervals are of the window alone */
    double values[ATOMICS_VALUES_MAX];     /* ascending */
    const char *fixes[ATOMICS_CURVES_MAX]; /* [0] NULL: as it is; "A" or "A+B" */
    struct atomics_device *devices;        /* [device_count] */
};

/* Where curve b falls below curve a (times[] of the same values), interpolated in the logarithm of their ratio. Returns how
 * many crossings were written to at[] and whether b is below a at the first value. */
size_t atomics_crossings(const struct atomics_answer *answer, const double *a, const double *b,
                         double at[ATOMICS_VALUES_MAX], bool *below_first);

void print_atomics_text(const struct atomics_answer *answer);
struct json *atomics_json(const struct atomics_answer *answer, size_t device);
enum sim_status write_atomics_svg(const struct atomics_answer *answer, const char *path,
                                  struct sim_error *error);

#endif
