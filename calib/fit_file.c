#include "calib/fit_file.h"
#include "sim/core/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum sim_status bad(const struct fit_file *file, const struct json *at, struct sim_error *error,
                           const char *text)
{
    return sim_fail(error, SIM_BAD_FILE, "%s:%u: %s", file->path, json_line(at), text);
}

static enum sim_status check_keys(const struct fit_file *file, const struct json *object,
                                  const char *const *keys, struct sim_error *error)
{
    char text[256] = "";
    if (json_kind_of(object) != JSON_OBJECT) {
        return bad(file, object, error, "must be an object");
    }
    for (size_t i = 0; i < json_count(object); i++) {
        size_t k = 0;
        while (keys[k] != NULL && strcmp(keys[k], json_key(json_at(object, i))) != 0) {
            k++;
        }
        if (keys[k] != NULL) {
            continue;
        }
        int used = snprintf(text, sizeof text, "unknown key '%.40s' (valid:", json_key(json_at(object, i)));
        for (k = 0; keys[k] != NULL; k++) {
            used += snprintf(text + used, sizeof text - (size_t)used, "%s %s", k > 0 ? "," : "", keys[k]);
        }
        snprintf(text + used, sizeof text - (size_t)used, ")");
        return bad(file, json_at(object, i), error, text);
    }
    return SIM_OK;
}

/* `*text` stays borrowed from the tree. */
static enum sim_status text_of(const struct fit_file *file, const struct json *object, const char *key,
                               bool required, const char **text, struct sim_error *error)
{
    const struct json *value = json_get(object, key);
    *text = "";
    if (value == NULL && !required) {
        return SIM_OK;
    }
    if (value == NULL || json_kind_of(value) != JSON_STRING) {
        return sim_fail(error, SIM_BAD_FILE, "%s:%u: %s must be there and be text", file->path,
                        json_line(value != NULL ? value : object), key);
    }
    *text = json_string(value);
    return SIM_OK;
}

static enum sim_status number_of(const struct fit_file *file, const struct json *object, const char *key,
                                 double *number, struct sim_error *error)
{
    const struct json *value = json_get(object, key);
    if (value == NULL || json_kind_of(value) != JSON_NUMBER) {
        return sim_fail(error, SIM_BAD_FILE, "%s:%u: %s must be there and be a number", file->path,
                        json_line(value != NULL ? value : object), key);
    }
    *number = json_number(value);
    return SIM_OK;
}

static enum sim_status check_range(const struct fit_file *file, const struct json *item,
                                   const struct fit_file_value *value, struct sim_error *error)
{
    double min, max;
    chip_number_range(value->index, &min, &max);
    if (!(value->low < value->high)) {
        return sim_fail(error, SIM_BAD_FILE, "%s:%u: %s: low %g must be below high %g", file->path,
                        json_line(item), chip_number_key(value->index), value->low, value->high);
    }
    if (value->low < min || value->high > max) {
        return sim_fail(error, SIM_BAD_FILE,
                        "%s:%u: %s: %g..%g reaches beyond what a device may have, %g..%g %s", file->path,
                        json_line(item), chip_number_key(value->index), value->low, value->high, min, max,
                        chip_number_unit(value->index));
    }
    return SIM_OK;
}

static enum sim_status read_value(struct fit_file *file, const struct json *item, struct sim_error *error)
{
    static const char *const keys[] = { "key", "low", "high", "held_by", NULL };
    struct chip_profile any = { 0 };
    struct fit_file_value *value = &file->values[file->value_count];
    const char *key, *held_by;
    enum sim_status status = check_keys(file, item, keys, error);
    if (status == SIM_OK) {
        status = text_of(file, item, "key", true, &key, error);
    }
    if (status == SIM_OK) {
        status = text_of(file, item, "held_by", false, &held_by, error);
    }
    if (status == SIM_OK && chip_profile_number(&any, key, &value->index) == NULL) {
        return sim_fail(error, SIM_BAD_FILE,
                        "%s:%u: no profile has the number '%.60s' (section.key, as in l2.hit_latency; reckon "
                        "devices --help lists them)",
                        file->path, json_line(item), key);
    }
    if (status == SIM_OK) {
        status = number_of(file, item, "low", &value->low, error);
    }
    if (status == SIM_OK) {
        status = number_of(file, item, "high", &value->high, error);
    }
    for (size_t i = 0; status == SIM_OK && i < file->value_count; i++) {
        if (file->values[i].index == value->index) {
            return sim_fail(error, SIM_BAD_FILE, "%s:%u: %s is there twice", file->path, json_line(item),
                            key);
        }
    }
    if (status == SIM_OK) {
        status = check_range(file, item, value, error);
    }
    file->value_count += status == SIM_OK;
    return status;
}

static enum sim_status read_row(struct fit_file *file, const struct json *item, struct sim_error *error)
{
    static const char *const keys[] = { "suite", "kernel", "params", "weight", NULL };
    struct fit_file_rows *rows = &file->rows[file->rows_count];
    const char *suite, *kernel, *params;
    enum sim_status status = check_keys(file, item, keys, error);
    if (status == SIM_OK) {
        status = text_of(file, item, "suite", true, &suite, error);
    }
    if (status == SIM_OK) {
        status = text_of(file, item, "kernel", true, &kernel, error);
    }
    if (status == SIM_OK) {
        status = text_of(file, item, "params", false, &params, error);
    }
    rows->weight = 1;
    if (status == SIM_OK && json_get(item, "weight") != NULL) {
        status = number_of(file, item, "weight", &rows->weight, error);
        if (status == SIM_OK && !(rows->weight > 0 && rows->weight <= 1)) {
            return bad(file, json_get(item, "weight"), error, "weight must be above 0 and at most 1");
        }
    }
    if (status != SIM_OK) {
        return status;
    }
    if (strlen(suite) >= sizeof rows->suite || strlen(kernel) >= sizeof rows->kernel) {
        return bad(file, item, error, "suite or kernel is too long a name");
    }
    strcpy(rows->suite, suite);
    strcpy(rows->kernel, kernel);
    rows->params = strdup(params);
    SIM_ASSERT(rows->params != NULL, "no memory for a row entry");
    file->rows_count++;
    return SIM_OK;
}

/* The array `key` of at least one and at most `max` items, each through `read`. */
static enum sim_status read_list(struct fit_file *file, const struct json *root, const char *key, size_t max,
                                 enum sim_status (*read)(struct fit_file *, const struct json *,
                                                         struct sim_error *),
                                 struct sim_error *error)
{
    const struct json *list = json_get(root, key);
    if (list == NULL || json_kind_of(list) != JSON_ARRAY || json_count(list) == 0 || json_count(list) > max) {
        return sim_fail(error, SIM_BAD_FILE, "%s:%u: %s must be a list of 1..%zu entries", file->path,
                        json_line(list != NULL ? list : root), key, max);
    }
    enum sim_status status = SIM_OK;
    for (size_t i = 0; status == SIM_OK && i < json_count(list); i++) {
        status = read(file, json_at(list, i), error);
    }
    return status;
}

static enum sim_status read_root(struct fit_file *file, const struct json *root, struct sim_error *error)
{
    static const char *const keys[] = { "schema", "title", "iterations", "window_requests", "values", "rows", NULL };
    const char *schema, *title;
    double iterations = 0, window = 0;
    enum sim_status status = check_keys(file, root, keys, error);
    if (status == SIM_OK) {
        status = text_of(file, root, "schema", true, &schema, error);
    }
    if (status == SIM_OK && strcmp(schema, "reckon.fit/1") != 0) {
        return bad(file, root, error, "schema must be \"reckon.fit/1\"");
    }
    if (status == SIM_OK) {
        status = text_of(file, root, "title", false, &title, error);
    }
    if (status == SIM_OK) {
        snprintf(file->title, sizeof file->title, "%s", title);
    }
    if (status == SIM_OK && json_get(root, "iterations") != NULL) {
        status = number_of(file, root, "iterations", &iterations, error);
        if (status == SIM_OK && !(iterations >= 1 && iterations <= 1000)) {
            return bad(file, json_get(root, "iterations"), error, "iterations must be 1..1000");
        }
        file->iterations_max = (uint32_t)iterations;
    }
    if (status == SIM_OK && json_get(root, "window_requests") != NULL) {
        status = number_of(file, root, "window_requests", &window, error);
        if (status == SIM_OK && !(window >= 10000 && window <= 1e9)) {
            return bad(file, json_get(root, "window_requests"), error, "window_requests must be 10000..1e9");
        }
        file->window_requests = (uint64_t)window;
    }
    if (status == SIM_OK) {
        status = read_list(file, root, "values", FIT_VALUES_MAX, read_value, error);
    }
    return status == SIM_OK ? read_list(file, root, "rows", FIT_ROWS_MAX, read_row, error) : status;
}

enum sim_status fit_file_read(const char *path, struct fit_file *file, struct sim_error *error)
{
    struct json *root = NULL;
    memset(file, 0, sizeof *file);
    snprintf(file->path, sizeof file->path, "%s", path);
    enum sim_status status = json_read_file(path, &root, error);
    if (status == SIM_OK) {
        status = read_root(file, root, error);
    }
    json_destroy(root);
    if (status != SIM_OK) {
        fit_file_finish(file);
    }
    return status;
}

void fit_file_finish(struct fit_file *file)
{
    for (size_t i = 0; i < file->rows_count; i++) {
        free(file->rows[i].params);
    }
    file->rows_count = 0;
}

/* Whether "k=v;k=v" `params` holds the one pair of `length` bytes at `pair`. */
static bool holds_pair(const char *params, const char *pair, size_t length)
{
    for (const char *at = params; *at != '\0';) {
        size_t here = strcspn(at, ";");
        if (here == length && memcmp(at, pair, length) == 0) {
            return true;
        }
        at += here + (at[here] == ';');
    }
    return false;
}

static bool holds_all(const char *params, const char *wanted)
{
    for (const char *at = wanted; *at != '\0';) {
        size_t length = strcspn(at, ";");
        if (length > 0 && !holds_pair(params, at, length)) {
            return false;
        }
        at += length + (at[length] == ';');
    }
    return true;
}

size_t fit_file_entry_of(const struct fit_file *file, const char *suite, const char *kernel,
                         const char *params)
{
    for (size_t i = 0; i < file->rows_count; i++) {
        if (strcmp(file->rows[i].suite, suite) == 0 && strcmp(file->rows[i].kernel, kernel) == 0 &&
            holds_all(params, file->rows[i].params)) {
            return i;
        }
    }
    return file->rows_count;
}
