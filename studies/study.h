/* A study: one input, and the points at which it is priced. Files: docs/schemas/study.schema.json, docs/studies.md.
 * Points are the grid, last axis fastest, then the list; their numbers are their place in that order. */
#ifndef STUDIES_STUDY_H
#define STUDIES_STUDY_H
#include "sim/reckon.h"
#include "studies/metrics.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STUDY_SETTINGS_MAX 24
#define STUDY_POINTS_MAX 1000000

struct study_axis {
    char key[32];
    size_t count;
    char **values; /* as texts; owned */
};

/* A value of a point is a text of the study: an axis value, or one of the list's. */
struct study_point {
    const char *device, *node; /* node NULL: the device's own */
    size_t setting_count;
    const char *keys[STUDY_SETTINGS_MAX], *values[STUDY_SETTINGS_MAX]; /* of what changes the input, in the study's order */
};

struct study_constraint {
    enum metric metric;
    double min, max; /* -INFINITY, INFINITY: not bounded */
};

struct study_cost {
    char device[64];
    double per_gpu_hour;
};

#define STUDY_OBJECTIVES_MAX 4

struct study {
    char name[64];
    char *text;         /* the study file as one line of JSON: what a store holds it against */
    char *path;         /* of the study file */
    char **inputs;      /* paths, as this process opens them */
    size_t input_count;
    bool is_model;
    double batch, gpus; /* of the input as it is; batch 0: unknown */
    size_t axis_count;
    struct study_axis *axes;
    size_t grid_count, list_count;
    struct study_point *list;
    size_t constraint_count;
    struct study_constraint *constraints;
    size_t cost_count;
    struct study_cost *costs;
    size_t objective_count;
    enum metric objectives[STUDY_OBJECTIVES_MAX]; /* of the Pareto front */
    bool has_search;
    enum metric search_objective;
    size_t search_evaluations;
    uint64_t window_requests; /* 0: as predict */
    char **owned; /* texts of the list */
    size_t owned_count;
};

/* Read and check a study; every value is tried on the input, so that what is wrong is said before anything runs. Errors, one line
 * with file, line and key: unknown keys, an empty axis or no point at all, a point twice, constraints that no point can meet,
 * values that the input does not take, unknown devices, nodes, metrics and fixes. */
enum sim_status study_read(const char *path, struct study **out, struct sim_error *error);
void study_destroy(struct study *study); /* NULL is allowed */

size_t study_point_count(const struct study *study);
void study_point_at(const struct study *study, size_t index, struct study_point *point); /* texts are the study's */

const char *study_point_value(const struct study_point *point, const char *key); /* of a setting; NULL: not among them */
/* "k=v;k=v" of the settings. */
void study_point_text(const struct study_point *point, char *text, size_t capacity);
double study_point_gpus(const struct study *study, const struct study_point *point);  /* the point's, else the input's */
double study_point_batch(const struct study *study, const struct study_point *point); /* per GPU; 0: unknown */
/* "key=value" as reckon_point takes it: files named by a study lie beside it. */
void study_setting(const struct study *study, const struct study_point *point, size_t index, char *text, size_t capacity);
uint64_t study_point_hash(const struct study_point *point); /* of device, node and settings */
/* An unpriced record: what the point says by itself. */
void study_record_begin(const struct study *study, const struct study_point *point, size_t index, struct study_record *record);
double study_cost_of(const struct study *study, const char *device); /* NAN: unknown */

/* The first constraint that a record breaks, as one line; false when it breaks none. Metrics that are not known break none
 * before a point is priced (`priced` false), and any after. */
bool study_breaks(const struct study *study, const struct study_record *record, bool priced, char *reason, size_t capacity);

#endif
