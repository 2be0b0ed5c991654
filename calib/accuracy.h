/* How far predictions are from what was measured: per suite, with the rows that fits were held to apart from the rest.
 * Accuracy claims rest on the rest. */
#ifndef CALIB_ACCURACY_H
#define CALIB_ACCURACY_H
#include "calib/counters.h"
#include "calib/fit_file.h"
#include "sim/reckon.h"
#include <stdio.h>

struct accuracy {
    struct reckon_validation *validation;
    bool *fitted;                   /* [validation->row_count]: a row that the fit file takes */
    struct counters_table counters; /* empty when the folder has no counters.csv */
};

/* Predict every row of the folder `tables`, and compare with tables/counters.csv when that is there. fit: NULL for none; jobs:
 * processes for the latter (reckon_validate takes the session's). */
enum sim_status accuracy_measure(struct reckon *reckon, const struct reckon_device *device, uint32_t jobs,
                                 const char *tables, const struct fit_file *fit, struct accuracy *accuracy,
                                 struct sim_error *error);
void accuracy_finish(struct accuracy *accuracy); /* zeroed memory is allowed */

/* As Markdown. chip: whose values; worst: rows furthest off to list; 0: none. */
void accuracy_write(const struct accuracy *accuracy, const struct chip_profile *chip, size_t worst, FILE *out);

#endif
