/* The text form of predictions: devices side by side, so that a person sees at once which is faster, by how much and why. */
#ifndef SIM_CLI_PRINT_PREDICT_H
#define SIM_CLI_PRINT_PREDICT_H
#include "sim/reckon.h"
#include <stdbool.h>
#include <stddef.h>

struct print_predict_options {
    size_t top;       /* kernels in the table */
    bool all_kernels; /* then every kernel, traced against predicted */
};

/* predictions: of one graph, one per device, count > 0. */
void print_predict(struct reckon_prediction *const *predictions, size_t count,
                   const struct print_predict_options *options);

#endif
