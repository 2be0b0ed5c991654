/* Runs a study: every point, or those that a search comes by, priced by workers, kept in a store as they are done. */
#ifndef STUDIES_SWEEP_H
#define STUDIES_SWEEP_H
#include "studies/study.h"

struct sweep_progress {
    size_t done, total, infeasible; /* total of a search: what it may try at most */
    double seconds, seconds_left;   /* left NAN: not known yet */
    uint64_t asked, found;          /* prices */
};

struct sweep_options {
    struct reckon_options session; /* jobs: workers; under mpirun each rank is one */
    const char *program;           /* version and commit */
    const char *database;
    uint32_t samples; /* of every point of a front, for its interval; 0: none. Not kept in the store */
    void (*progress)(void *context, const struct sweep_progress *progress); /* NULL: silent */
    void *progress_context;
};

/* Of a record's step: 10% and 90% of the samples; NAN where none were asked for, or off the fronts. */
struct sweep_interval {
    double median, low, high;
};

struct sweep_result {
    bool is_first;          /* rank 0: the others have nothing to say */
    size_t points;          /* of the study */
    size_t before, now;     /* tried before, and in this run */
    size_t feasible, infeasible;
    uint64_t asked, found;  /* prices, in this run */
    double seconds;
    size_t record_count;    /* tried, by number */
    struct study_record *records;
    bool *front, *device_front; /* [record_count] */
    struct sweep_interval *step_ms; /* [record_count]; NULL: no samples were asked for */
    size_t best;            /* index of a search's best record; SIZE_MAX: no feasible one, or no search */
};

/* Errors: as store_open, reckon_source_open and reckon_device_open; SIM_DOES_NOT_FIT never: it is a point's reason. */
enum sim_status sweep_run(const struct study *study, const struct sweep_options *options, struct sweep_result *result,
                          struct sim_error *error);
void sweep_result_finish(struct sweep_result *result);

/* All tried points as CSV: a column per key of the study. SIM_BAD_FILE. */
enum sim_status sweep_write_csv(const struct study *study, const struct sweep_result *result, const char *path,
                                struct sim_error *error);

#endif
