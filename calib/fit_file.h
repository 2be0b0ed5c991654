/* A fit as a file says it: which numbers of a chip profile are free and between what, and which measured rows hold them.
 * {"schema": "reckon.fit/1", "title": "...",
 *  "values": [{"key": "l2.read_line_time", "low": 1.2, "high": 1.6, "held_by": "bandwidth/read in L2"}, ...],
 *  "rows": [{"suite": "bandwidth", "kernel": "read", "params": "mb=16"}, ...]}
 * A row entry takes every measured row of the kernel whose parameters contain all of its own; "weight", above 0 to 1, says how
 * good a measurement it is (1). "window_requests" at the top: simulate so many line requests of a row's kernel, and extrapolate. */
#ifndef CALIB_FIT_FILE_H
#define CALIB_FIT_FILE_H
#include "calib/fit.h"
#include "sim/core/chip_profile.h"
#include <stdbool.h>
#include <stddef.h>

struct fit_file_value {
    enum chip_number index;
    double low, high; /* physical range, in the key's unit */
};

struct fit_file_rows {
    char suite[32], kernel[48];
    char *params; /* owned; "" takes all rows of the kernel */
    double weight;
};

struct fit_file {
    char path[256], title[128];
    size_t value_count, rows_count;
    struct fit_file_value values[FIT_VALUES_MAX];
    struct fit_file_rows rows[FIT_ROWS_MAX];
    uint32_t iterations_max;  /* 0: the default */
    uint64_t window_requests; /* 0: the chip model's default */
};

/* Errors: each one line with file, line and key: unknown or missing keys, a key no profile has or twice, low not below high
 * or outside what any device may have, too many of either. */
enum sim_status fit_file_read(const char *path, struct fit_file *file, struct sim_error *error);
void fit_file_finish(struct fit_file *file); /* zeroed memory is allowed */

/* Index of the first entry that takes this row, or rows_count. */
size_t fit_file_entry_of(const struct fit_file *file, const char *suite, const char *kernel,
                         const char *params);

#endif
