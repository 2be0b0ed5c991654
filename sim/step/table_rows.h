/* Measurement tables: CSV files with a header line. Two kinds: "suite,kernel,params,time_us,value,unit[,observed]" and
 * steps ("gpus,case,params,sync_ms,step_ms,examples_per_s,peak_gib"). Other headers are told apart and left alone. */
#ifndef SIM_STEP_TABLE_ROWS_H
#define SIM_STEP_TABLE_ROWS_H
#include "sim/core/status.h"
#include <stddef.h>
#include <stdint.h>

struct table_row {
    char *suite, *kernel, *params, *unit;
    double time_us, value;
    const char *path; /* borrowed from the table */
    uint32_t line;
};

struct step_row { /* one case; repeated rows already reduced to their median */
    char *name, *params;
    uint32_t gpus;
    double step_ms, peak_gib;
    size_t repeats;
    const char *path;
};

struct measured_table {
    size_t row_count, step_count, path_count, ignored_count;
    struct table_row *rows;
    struct step_row *steps;
    char **paths;   /* files read */
    char **ignored; /* files with another header */
};

/* Read `path`: a CSV file, or a folder whose *.csv files are read in name order. Adds to `table` (zeroed at first).
 * Errors name file and line: unreadable, a number that is none, too few columns; a file named by itself with an unknown
 * header; a folder without any table. `observed` is never read: it holds results. */
enum sim_status measured_table_read(const char *path, struct measured_table *table, struct sim_error *error);
void measured_table_finish(struct measured_table *table);

#endif
