/* Bounded robust least squares over a model that is a program: few values, each between a low and a high, and residuals
 * that the caller computes. Knows nothing of chips or tables. Every number it returns is a function of its input. */
#ifndef CALIB_FIT_H
#define CALIB_FIT_H
#include "sim/core/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIT_VALUES_MAX 40
#define FIT_ROWS_MAX 60

struct fit_value {
    double start, low, high; /* low < high, low <= start <= high */
};

struct fit_task { /* one row asked for at one set of values */
    size_t row;
    const double *values; /* [value_count]; tasks of one set share the pointer */
};

struct fit_problem {
    size_t value_count, row_count; /* 1..FIT_VALUES_MAX and value_count..FIT_ROWS_MAX */
    const struct fit_value *values;
    const uint32_t *group; /* [value_count]: values that most likely move the same rows; NULL: one group */
    const double *trust;   /* [row_count]: weight of a row by the quality of its measurement, above 0 to 1; NULL: all 1 */
    /* residuals[task_count], relative: predicted / measured - 1. A status other than SIM_OK ends the fit with it. The tasks
     * are independent, so that a model that is slow can answer many at once. The model may be noisy and have kinks; it must
     * give the same answer to the same values. */
    enum sim_status (*residuals)(void *context, const struct fit_task *tasks, size_t task_count,
                                 double *residuals, struct sim_error *error);
    void *context;
    uint32_t iterations_max; /* rounds between two looks at what is identified; 0: 30 */
};

/* What the rows cannot tell: moving along it by its spread changes no row by more than the scatter. */
struct fit_direction {
    size_t fixed; /* the value with the largest part, which was put back to its start */
    double
        spread; /* one standard deviation along it, in units of the values' ranges; INFINITY: no effect at all */
    double part[FIT_VALUES_MAX]; /* unit vector over the values, each in units of its range */
};

struct fit_solution {
    size_t value_count, row_count;
    double value[FIT_VALUES_MAX];
    bool identified[FIT_VALUES_MAX];                    /* false: back at its start, see `direction` */
    double standard_error[FIT_VALUES_MAX];              /* NAN when not identified */
    double correlation[FIT_VALUES_MAX][FIT_VALUES_MAX]; /* NAN where either is not identified */
    double start_residual[FIT_ROWS_MAX], residual[FIT_ROWS_MAX];
    double weight[FIT_ROWS_MAX]; /* Tukey's, 0: an outlier that was left out, 1: full */
    double scatter;              /* robust standard deviation of the residuals */
    size_t direction_count;
    struct fit_direction direction[FIT_VALUES_MAX];
    uint32_t iterations, evaluations; /* sets of values tried */
    size_t tasks;                     /* rows simulated in all */
    size_t heeding; /* pairs of a row and a value that moves it, by 0.0015 of its prediction or more over a quarter of the range */
};

/* Errors: SIM_BAD_ARGUMENT for a start or bounds that make no sense or too few rows; SIM_UNSUPPORTED when it does not
 * converge or the rows identify none of the values; what `residuals` returned. The solution is then not valid. */
enum sim_status fit_solve(const struct fit_problem *problem, struct fit_solution *solution,
                          struct sim_error *error);

#endif
