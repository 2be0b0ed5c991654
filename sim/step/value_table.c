#include "sim/step/value_table.h"
#include "sim/core/hash.h"
#include <string.h>

static enum sim_status number_of(const char *path, const struct json *value, const char *row_key,
                                 const char *field, double *out, struct sim_error *error)
{
    const struct json *number = json_get(value, field);
    if (number == NULL || json_kind_of(number) != JSON_NUMBER) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: %s.%s: a number is needed", path, json_line(value),
                        row_key, field);
    }
    *out = json_number(number);
    return SIM_OK;
}

static enum sim_status text_of(const char *path, const struct json *value, const char *row_key,
                               const char *field, const char **out, struct sim_error *error)
{
    const struct json *text = json_get(value, field);
    if (text == NULL || json_kind_of(text) != JSON_STRING || json_string(text)[0] == '\0') {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: %s.%s: a text is needed", path, json_line(value),
                        row_key, field);
    }
    *out = json_string(text);
    return SIM_OK;
}

static void add_range(struct value_kinds *kinds, const struct value_row *row, double low, double high,
                      enum profile_kind kind, const char *source)
{
    if (kind != PROFILE_MEASURED && low < high && kinds->range_count < VALUE_RANGES_MAX) {
        kinds->range[kinds->range_count++] = (struct value_range){
            row->key, row->offset, low, high, kind, hash64_add_text(HASH64_START, source)
        };
    }
}

enum sim_status value_row_read(const char *path, const struct json *value, const struct value_row *row,
                               void *target, struct value_kinds *kinds, struct sim_error *error)
{
    double number = 0, low = 0, high = 0;
    const char *unit = NULL, *kind = NULL, *source = NULL;
    enum sim_status status = SIM_OK;
    if (json_kind_of(value) != JSON_OBJECT) {
        return sim_fail(error, SIM_BAD_PROFILE,
                        "%s:%u: %s: an object with value, unit, low, high, kind, source is needed", path,
                        json_line(value), row->key);
    }
    if ((status = number_of(path, value, row->key, "value", &number, error)) != SIM_OK ||
        (status = number_of(path, value, row->key, "low", &low, error)) != SIM_OK ||
        (status = number_of(path, value, row->key, "high", &high, error)) != SIM_OK ||
        (status = text_of(path, value, row->key, "unit", &unit, error)) != SIM_OK ||
        (status = text_of(path, value, row->key, "kind", &kind, error)) != SIM_OK ||
        (status = text_of(path, value, row->key, "source", &source, error)) != SIM_OK) {
        return status;
    }
    if (strcmp(unit, row->unit) != 0) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: %s: unit is '%s', must be '%s'", path,
                        json_line(value), row->key, unit, row->unit);
    }
    if (!(number >= row->min && number <= row->max)) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: %s = %g %s is outside %g..%g", path, json_line(value),
                        row->key, number, row->unit, row->min, row->max);
    }
    if (!(low <= number && number <= high)) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: %s = %g %s is outside its own low..high %g..%g", path,
                        json_line(value), row->key, number, row->unit, low, high);
    }
    for (int k = 0; k < PROFILE_KINDS; k++) {
        if (strcmp(kind, profile_kind_text((enum profile_kind)k)) == 0) {
            if (kinds != NULL) {
                kinds->count[k]++;
                add_range(kinds, row, low, high, (enum profile_kind)k, source);
            }
            *(double *)((char *)target + row->offset) = number;
            return SIM_OK;
        }
    }
    return sim_fail(error, SIM_BAD_PROFILE,
                    "%s:%u: %s.kind '%s' is none of spec, measured, derived, fitted, assumed", path,
                    json_line(value), row->key, kind);
}

enum sim_status value_table_read(const char *path, const struct json *values, const struct value_row *rows,
                                 size_t row_count, void *target, struct value_kinds *kinds,
                                 struct sim_error *error)
{
    if (values == NULL || json_kind_of(values) != JSON_OBJECT) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s: key 'values' must be an object of values", path);
    }
    for (size_t i = 0; i < json_count(values); i++) {
        const char *key = json_key(json_at(values, i));
        size_t r = 0;
        while (r < row_count && strcmp(rows[r].key, key) != 0) {
            r++;
        }
        if (r == row_count) {
            return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: unknown key '%s'", path,
                            json_line(json_at(values, i)), key);
        }
    }
    for (size_t r = 0; r < row_count; r++) {
        const struct json *value = json_get(values, rows[r].key);
        if (value == NULL) {
            return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: key '%s' [%s] is missing (%s)", path,
                            json_line(values), rows[r].key, rows[r].unit, rows[r].help);
        }
        enum sim_status status = value_row_read(path, value, &rows[r], target, kinds, error);
        if (status != SIM_OK) {
            return status;
        }
    }
    return SIM_OK;
}

enum sim_status value_keys_check(const char *path, const struct json *object, const char *const *keys,
                                 struct sim_error *error)
{
    if (json_kind_of(object) != JSON_OBJECT) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: an object is needed, not a %s", path,
                        json_line(object), json_kind_text(json_kind_of(object)));
    }
    for (size_t i = 0; i < json_count(object); i++) {
        const char *key = json_key(json_at(object, i));
        size_t k = 0;
        while (keys[k] != NULL && strcmp(keys[k], key) != 0) {
            k++;
        }
        if (keys[k] == NULL) {
            return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: unknown key '%s'", path,
                            json_line(json_at(object, i)), key);
        }
    }
    return SIM_OK;
}

enum sim_status value_text_read(const char *path, const struct json *object, const char *key, char *out,
                                size_t capacity, struct sim_error *error)
{
    const struct json *text = json_get(object, key);
    if (text == NULL || json_kind_of(text) != JSON_STRING || json_string(text)[0] == '\0') {
        return sim_fail(error, SIM_BAD_PROFILE, "%s: key '%s': a text is needed", path, key);
    }
    if (strlen(json_string(text)) >= capacity) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: '%s' is longer than %zu bytes", path, json_line(text),
                        key, capacity - 1);
    }
    strcpy(out, json_string(text));
    return SIM_OK;
}
