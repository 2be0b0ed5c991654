/* The measured rows that a fit is held to: read from tables with the header "suite,kernel,params,time_us,value,unit[,observed]"
 * and from the JSON lines of the microkernels (calib/microkernels/micro.h), kept when the fit file takes them. Their lines are
 * kept as a table would have them, to be handed on as a table of their own. */
#ifndef CALIB_CHOSEN_ROWS_H
#define CALIB_CHOSEN_ROWS_H
#include "calib/fit_file.h"
#include "sim/core/status.h"
#include <stddef.h>

struct chosen_rows {
    size_t count;
    char *line[FIT_ROWS_MAX]; /* without the newline; owned */
    double weight[FIT_ROWS_MAX]; /* of the fit file's entry */
};

/* Read `paths`: CSV files and JSON lines (*.jsonl), or folders whose *.csv with this header and *.jsonl are read in name order.
 * devices: names that the measured device may have, '|' between them, as chip_profile.trace_names; "" for any. Errors, with
 * file and line: a time or value that is no finite number or negative, a row without either, one of another device or one that
 * failed its own check (JSON lines say both); more rows than FIT_ROWS_MAX; an entry of the fit file that takes none (named by
 * its suite, kernel and parameters). */
enum sim_status chosen_rows_read(const char *const *paths, size_t path_count, const struct fit_file *fit,
                                 const char *devices, struct chosen_rows *rows, struct sim_error *error);
void chosen_rows_finish(struct chosen_rows *rows); /* zeroed memory is allowed */

/* Write them as a table at `path`. */
enum sim_status chosen_rows_write(const struct chosen_rows *rows, const char *path, struct sim_error *error);

#endif
