/* Holds free numbers of a chip profile to measured rows: the simulator's own answers against the rows, through fit.h. */
#ifndef CALIB_CALIBRATE_H
#define CALIB_CALIBRATE_H
#include "calib/chosen_rows.h"
#include "calib/fit.h"
#include "calib/fit_file.h"
#include "sim/reckon.h"

struct calibration_row {
    char suite[32], kernel[48], unit[24];
    char *params; /* owned */
    double measured, weight; /* weight: what the fit file trusts it */
};

struct calibration {
    char base[128]; /* as the caller named it */
    char base_path[4096];
    struct fit_file fit;
    double base_value[FIT_VALUES_MAX];
    bool rehearsal;                     /* rows hold the base's own answers, not measurements */
    double start_value[FIT_VALUES_MAX]; /* where the fit began: the base, or disturbed for a rehearsal */
    size_t row_count;
    struct calibration_row rows[FIT_ROWS_MAX];
    struct fit_solution solution;
};

/* Fit the values of `fit_path` to its rows of `tables`, starting from device profile `base` (name or file). Errors: a base
 * or table that cannot be read, a base value outside the fit's range, a key whose section the base lacks, a row that the
 * simulator cannot predict, no convergence (SIM_UNSUPPORTED). Rows run on options->jobs processes, one row each. */
enum sim_status calibrate(const struct reckon_options *options, const char *base, const char *fit_path,
                          const char *const *tables, size_t table_count, struct calibration **out,
                          struct sim_error *error);
/* The same on rows whose figures are the base's own answers, from values that were all moved by `share` of themselves, up or down by
 * the seed, and from ranges wide enough for it: which values do such rows give back? */
enum sim_status calibrate_rehearse(const struct reckon_options *options, const char *base, const char *fit_path,
                                   const char *const *tables, size_t table_count, double share, struct calibration **out,
                                   struct sim_error *error);
void calibration_destroy(struct calibration *calibration); /* NULL is allowed */

/* The base profile with the identified values replaced: kind fitted, low and high two standard errors away but within the
 * fit's range, source the fit and its suites. All else stays, byte for byte where the base has one value a line. The file
 * is checked as a device before it takes its place. */
enum sim_status calibration_write_profile(const struct calibration *calibration, const char *path,
                                          struct sim_error *error);

struct json *calibration_json(const struct calibration *calibration);

#endif
