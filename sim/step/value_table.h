/* Small profiles of this folder (hosts, harnesses): every number carries value, unit, low, high, kind and source, as in
 * device files. A table of the caller says which keys exist; it is the reader, the bounds and the manual in one. */
#ifndef SIM_STEP_VALUE_TABLE_H
#define SIM_STEP_VALUE_TABLE_H
#include "sim/core/chip_profile.h"
#include "sim/core/json.h"
#include "sim/core/status.h"
#include <stddef.h>

struct value_row {
    const char *key, *unit;
    double min, max;
    size_t offset; /* of a double in the caller's struct */
    const char *help;
};

struct value_range { /* of a value that is not measured and may be another */
    const char *key; /* of the caller's table */
    size_t offset;
    double low, high;
    enum profile_kind kind;
    uint64_t source; /* hash of its text: values of one source are one unknown */
};
#define VALUE_RANGES_MAX 16

/* How many values of each kind a result rests on, and those that doubt attaches to. */
struct value_kinds {
    size_t count[PROFILE_KINDS];
    size_t range_count;
    struct value_range range[VALUE_RANGES_MAX]; /* the first ones of the file */
};

/* Read each row's value from the JSON object `values` into `target`, and count kinds (NULL: not wanted).
 * Errors, one line with path, line and key: unknown or missing key, wrong unit, value outside [min, max] or outside its
 * own [low, high], unknown kind, missing source. */
enum sim_status value_table_read(const char *path, const struct json *values, const struct value_row *rows,
                                 size_t row_count, void *target, struct value_kinds *kinds,
                                 struct sim_error *error);

/* One value by itself, as value_table_read reads each of its rows. */
enum sim_status value_row_read(const char *path, const struct json *value, const struct value_row *row,
                               void *target, struct value_kinds *kinds, struct sim_error *error);

/* No key but those of the NULL-ended list. Errors name path, line and key. */
enum sim_status value_keys_check(const char *path, const struct json *object, const char *const *keys,
                                 struct sim_error *error);

/* A required text beside the values. Errors name path and key. */
enum sim_status value_text_read(const char *path, const struct json *object, const char *key, char *out,
                                size_t capacity, struct sim_error *error);

#endif
