#include "studies/study_internal.h"
#include "sim/core/data_path.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AXIS_VALUES_MAX 100000

struct reading {
    struct study *study;
    struct sim_error *error;
    char **texts; /* of the list's points; handed to the study */
    size_t text_count;
};

static enum sim_status bad(const struct reading *r, const struct json *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static enum sim_status bad(const struct reading *r, const struct json *at, const char *format, ...)
{
    char text[700];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return sim_fail(r->error, SIM_BAD_FILE, "%s:%u: %s", r->study->path, at != NULL ? json_line(at) : 1u, text);
}

static void *zeroed(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    SIM_ASSERT(memory != NULL, "no memory for a study");
    return memory;
}

static char *copy(const char *text)
{
    char *made = strdup(text);
    SIM_ASSERT(made != NULL, "no memory for a study");
    return made;
}

static enum sim_status need_kind(const struct reading *r, const struct json *value, enum json_kind kind, const char *key)
{
    if (json_kind_of(value) != kind) {
        return bad(r, value, "\"%s\" must be %s, not %s", key, json_kind_text(kind), json_kind_text(json_kind_of(value)));
    }
    return SIM_OK;
}

static enum sim_status need_number(const struct reading *r, const struct json *value, const char *key, double min, double max,
                                   double *out)
{
    if (json_kind_of(value) != JSON_NUMBER || !(json_number(value) >= min && json_number(value) <= max)) {
        return bad(r, value, "\"%s\" must be a number of %g to %g", key, min, max);
    }
    *out = json_number(value);
    return SIM_OK;
}

/* ---- values */

static enum sim_status value_text(const struct reading *r, const struct json *value, const char *key, char text[256])
{
    switch (json_kind_of(value)) {
    case JSON_NUMBER: snprintf(text, 256, "%.12g", json_number(value)); return SIM_OK;
    case JSON_BOOL: snprintf(text, 256, "%s", json_bool(value) ? "true" : "false"); return SIM_OK;
    case JSON_STRING:
        if (strlen(json_string(value)) < 256 && strpbrk(json_string(value), ";\n\r") == NULL) {
            snprintf(text, 256, "%s", json_string(value));
            return SIM_OK;
        }
        return bad(r, value, "a value of \"%s\" is longer than 255 bytes, or has a ';' or a line end in it", key);
    default: return bad(r, value, "values of \"%s\" must be texts or numbers, not %s", key, json_kind_text(json_kind_of(value)));
    }
}

static void add_value(struct study_axis *axis, const char *text)
{
    if ((axis->count & (axis->count - 1)) == 0) { /* room for twice as many at each power of two */
        size_t room = axis->count > 0 ? 2 * axis->count : 1;
        char **grown = realloc(axis->values, room * sizeof *grown);
        SIM_ASSERT(grown != NULL, "no memory for %zu values", room);
        axis->values = grown;
    }
    axis->values[axis->count++] = copy(text);
}

/* {"from": A, "to": B, "times": F} or {.., "step": S}: A, A x F, .. or A, A + S, .. up to B. */
static enum sim_status add_range(struct reading *r, const struct json *range, struct study_axis *axis)
{
    double from = 0, to = 0, by = 0;
    const struct json *f = json_get(range, "from"), *t = json_get(range, "to"), *times = json_get(range, "times"),
                      *step = json_get(range, "step");
    if (f == NULL || t == NULL || (times == NULL) == (step == NULL) || json_count(range) != 3) {
        return bad(r, range, "a range of \"%s\" must be {\"from\", \"to\", \"times\"} or {\"from\", \"to\", \"step\"}", axis->key);
    }
    enum sim_status status = need_number(r, f, "from", -1e15, 1e15, &from);
    status = status == SIM_OK ? need_number(r, t, "to", -1e15, 1e15, &to) : status;
    if (status == SIM_OK) {
        status = times != NULL ? need_number(r, times, "times", 1.0001, 1e9, &by) : need_number(r, step, "step", 1e-9, 1e15, &by);
    }
    if (status == SIM_OK && (times != NULL && !(from > 0))) {
        status = bad(r, f, "\"from\" of a range with \"times\" must be above 0");
    }
    for (size_t i = 0; status == SIM_OK; i++) {
        double x = times != NULL ? from * pow(by, (double)i) : from + by * (double)i;
        char text[64];
        if (x > to * (1 + 1e-9)) {
            break;
        }
        if (i == AXIS_VALUES_MAX) {
            return bad(r, range, "a range of \"%s\" has more than %d values", axis->key, AXIS_VALUES_MAX);
        }
        snprintf(text, sizeof text, "%.12g", fabs(x - round(x)) < 1e-9 * fabs(x) ? round(x) : x);
        add_value(axis, text);
    }
    return status;
}

static enum sim_status read_axis(struct reading *r, const struct json *values, struct study_axis *axis)
{
    char text[256];
    const char *key = json_key(values);
    enum sim_status status = SIM_OK;
    if (strlen(key) >= sizeof axis->key) {
        return bad(r, values, "grid key \"%.40s\" is too long", key);
    }
    snprintf(axis->key, sizeof axis->key, "%s", key);
    if (json_kind_of(values) == JSON_OBJECT) {
        status = add_range(r, values, axis);
    } else if (json_kind_of(values) == JSON_ARRAY) {
        for (size_t i = 0; status == SIM_OK && i < json_count(values); i++) {
            status = value_text(r, json_at(values, i), key, text);
            if (status == SIM_OK) {
                add_value(axis, text);
            }
        }
    } else {
        status = value_text(r, values, key, text);
        if (status == SIM_OK) {
            add_value(axis, text);
        }
    }
    if (status == SIM_OK && axis->count == 0) {
        status = bad(r, values, "grid: \"%s\" has no value, so the grid is empty", key);
    }
    return status;
}

static enum sim_status read_grid(struct reading *r, const struct json *grid)
{
    struct study *study = r->study;
    double points = 1;
    enum sim_status status = need_kind(r, grid, JSON_OBJECT, "grid");
    if (status != SIM_OK) {
        return status;
    }
    if (json_count(grid) == 0) {
        return bad(r, grid, "grid is empty: it needs \"device\" and what is to vary");
    }
    if (json_count(grid) > STUDY_SETTINGS_MAX) {
        return bad(r, grid, "grid has more than %d keys", STUDY_SETTINGS_MAX);
    }
    study->axes = zeroed(json_count(grid), sizeof *study->axes);
    for (size_t i = 0; status == SIM_OK && i < json_count(grid); i++) {
        study->axis_count++;
        status = read_axis(r, json_at(grid, i), &study->axes[i]);
        points *= (double)study->axes[i].count;
        if (status == SIM_OK && points > STUDY_POINTS_MAX) { /* before more values are laid out */
            status = bad(r, grid, "grid has %.0f points up to \"%s\", more than %d", points, study->axes[i].key, STUDY_POINTS_MAX);
        }
    }
    study->grid_count = status == SIM_OK ? (size_t)points : 0;
    return status;
}

/* ---- points by hand */

static const char *keep(struct reading *r, const char *text)
{
    char **grown = realloc(r->texts, (r->text_count + 1) * sizeof *grown);
    SIM_ASSERT(grown != NULL, "no memory for %zu texts", r->text_count);
    r->texts = grown;
    return r->texts[r->text_count++] = copy(text);
}

static void point_set(struct study_point *point, const char *key, const char *value)
{
    if (strcmp(key, "device") == 0) {
        point->device = value;
    } else if (strcmp(key, "node") == 0) {
        point->node = value;
    } else {
        point->keys[point->setting_count] = key;
        point->values[point->setting_count++] = value;
    }
}

static enum sim_status read_points(struct reading *r, const struct json *list)
{
    struct study *study = r->study;
    char text[256];
    enum sim_status status = need_kind(r, list, JSON_ARRAY, "points");
    if (status != SIM_OK) {
        return status;
    }
    if (json_count(list) == 0) {
        return bad(r, list, "\"points\" is empty");
    }
    study->list = zeroed(json_count(list), sizeof *study->list);
    for (size_t i = 0; status == SIM_OK && i < json_count(list); i++) {
        const struct json *object = json_at(list, i);
        status = need_kind(r, object, JSON_OBJECT, "points");
        if (status == SIM_OK && json_count(object) > STUDY_SETTINGS_MAX) {
            status = bad(r, object, "a point has more than %d keys", STUDY_SETTINGS_MAX);
        }
        for (size_t k = 0; status == SIM_OK && k < json_count(object); k++) {
            const struct json *value = json_at(object, k);
            status = value_text(r, value, json_key(value), text);
            if (status == SIM_OK) {
                point_set(&study->list[i], keep(r, json_key(value)), keep(r, text));
            }
        }
        if (status == SIM_OK && study->list[i].device == NULL) {
            status = bad(r, object, "a point names no \"device\"");
        }
        study->list_count++;
    }
    return status;
}

/* ---- the rest */

static enum sim_status read_constraints(struct reading *r, const struct json *object)
{
    struct study *study = r->study;
    enum sim_status status = need_kind(r, object, JSON_OBJECT, "constraints");
    study->constraints = zeroed(status == SIM_OK ? json_count(object) : 0, sizeof *study->constraints);
    for (size_t i = 0; status == SIM_OK && i < json_count(object); i++) {
        const struct json *bounds = json_at(object, i);
        struct study_constraint *c = &study->constraints[study->constraint_count++];
        struct sim_error reason;
        *c = (struct study_constraint){ .min = -INFINITY, .max = INFINITY };
        if (metric_parse(json_key(bounds), &c->metric, &reason) != SIM_OK) {
            return bad(r, bounds, "constraints: %s", reason.text);
        }
        status = need_kind(r, bounds, JSON_OBJECT, json_key(bounds));
        for (size_t k = 0; status == SIM_OK && k < json_count(bounds); k++) {
            const struct json *bound = json_at(bounds, k);
            bool max = strcmp(json_key(bound), "max") == 0;
            if (!max && strcmp(json_key(bound), "min") != 0) {
                return bad(r, bound, "constraints: \"%s\" has \"%s\": must be \"min\" or \"max\"", json_key(bounds), json_key(bound));
            }
            status = need_number(r, bound, json_key(bound), -1e18, 1e18, max ? &c->max : &c->min);
        }
        if (status == SIM_OK && !(c->min <= c->max)) {
            status = bad(r, bounds, "constraints contradict each other: %s must be at least %g and at most %g", json_key(bounds),
                         c->min, c->max);
        }
    }
    return status;
}

static enum sim_status read_costs(struct reading *r, const struct json *object)
{
    struct study *study = r->study;
    enum sim_status status = need_kind(r, object, JSON_OBJECT, "cost_per_gpu_hour");
    study->costs = zeroed(status == SIM_OK ? json_count(object) : 0, sizeof *study->costs);
    for (size_t i = 0; status == SIM_OK && i < json_count(object); i++) {
        const struct json *cost = json_at(object, i);
        struct study_cost *to = &study->costs[study->cost_count++];
        snprintf(to->device, sizeof to->device, "%s", json_key(cost));
        status = need_number(r, cost, json_key(cost), 1e-9, 1e12, &to->per_gpu_hour);
    }
    return status;
}

static enum sim_status read_metric(const struct reading *r, const struct json *value, const char *key, enum metric *metric)
{
    struct sim_error reason;
    enum sim_status status = need_kind(r, value, JSON_STRING, key);
    if (status == SIM_OK && metric_parse(json_string(value), metric, &reason) != SIM_OK) {
        status = bad(r, value, "%s: %s", key, reason.text);
    }
    if (status == SIM_OK && metric_better(*metric) == 0) {
        status = bad(r, value, "%s: of %s neither more nor less is better", key, json_string(value));
    }
    return status;
}

static enum sim_status read_pareto(struct reading *r, const struct json *list)
{
    struct study *study = r->study;
    enum sim_status status = need_kind(r, list, JSON_ARRAY, "pareto");
    if (status == SIM_OK && (json_count(list) == 0 || json_count(list) > STUDY_OBJECTIVES_MAX)) {
        status = bad(r, list, "\"pareto\" must name 1 to %d metrics", STUDY_OBJECTIVES_MAX);
    }
    study->objective_count = 0;
    for (size_t i = 0; status == SIM_OK && i < json_count(list); i++) {
        status = read_metric(r, json_at(list, i), "pareto", &study->objectives[study->objective_count++]);
    }
    return status;
}

static enum sim_status read_search(struct reading *r, const struct json *object)
{
    struct study *study = r->study;
    double evaluations = 0;
    enum sim_status status = need_kind(r, object, JSON_OBJECT, "search");
    const struct json *objective = status == SIM_OK ? json_get(object, "objective") : NULL,
                      *limit = status == SIM_OK ? json_get(object, "evaluations") : NULL;
    if (status == SIM_OK && (objective == NULL || limit == NULL || json_count(object) != 2)) {
        status = bad(r, object, "\"search\" must be {\"objective\": METRIC, \"evaluations\": N}");
    }
    status = status == SIM_OK ? read_metric(r, objective, "objective", &study->search_objective) : status;
    status = status == SIM_OK ? need_number(r, limit, "evaluations", 1, STUDY_POINTS_MAX, &evaluations) : status;
    study->has_search = true;
    study->search_evaluations = (size_t)evaluations;
    return status;
}

/* As a name of workloads/models, or a file beside the study. */
static enum sim_status read_input(struct reading *r, const struct json *value)
{
    char path[DATA_PATH_CAPACITY];
    const char *text, *slash = strrchr(r->study->path, '/');
    enum sim_status status = need_kind(r, value, JSON_STRING, "input");
    if (status != SIM_OK) {
        return status;
    }
    text = json_string(value);
    if (strchr(text, '/') == NULL && strstr(text, ".json") == NULL) { /* .json.gz too */
        struct sim_error reason;
        if (data_path_find("workloads/models", "model", text, path, &reason) != SIM_OK) {
            return bad(r, value, "input: %s", reason.text);
        }
    } else if (text[0] == '/' || slash == NULL) {
        snprintf(path, sizeof path, "%s", text);
    } else {
        snprintf(path, sizeof path, "%.*s/%s", (int)(slash - r->study->path), r->study->path, text);
    }
    r->study->inputs[r->study->input_count++] = copy(path);
    return SIM_OK;
}

static enum sim_status read_inputs(struct reading *r, const struct json *value)
{
    bool many = json_kind_of(value) == JSON_ARRAY;
    size_t count = many ? json_count(value) : 1;
    enum sim_status status = SIM_OK;
    r->study->inputs = zeroed(count, sizeof *r->study->inputs);
    for (size_t i = 0; status == SIM_OK && i < count; i++) {
        status = read_input(r, many ? json_at(value, i) : value);
    }
    if (status == SIM_OK && count == 0) {
        status = bad(r, value, "\"input\" is empty");
    }
    return status;
}

static enum sim_status read_key(struct reading *r, const struct json *value)
{
    struct study *study = r->study;
    const char *key = json_key(value);
    double x = 0;
    enum sim_status status = SIM_OK;
    if (strcmp(key, "schema") == 0) {
        return json_kind_of(value) == JSON_STRING && strcmp(json_string(value), "reckon.study/1") == 0
                   ? SIM_OK
                   : bad(r, value, "\"schema\" must be \"reckon.study/1\"");
    }
    if (strcmp(key, "name") == 0) {
        status = need_kind(r, value, JSON_STRING, key);
        snprintf(study->name, sizeof study->name, "%s", status == SIM_OK ? json_string(value) : "");
        return status;
    }
    if (strcmp(key, "title") == 0) {
        return need_kind(r, value, JSON_STRING, key);
    }
    if (strcmp(key, "input") == 0) {
        return read_inputs(r, value);
    }
    if (strcmp(key, "batch") == 0) {
        return need_number(r, value, key, 1, 1e12, &study->batch);
    }
    if (strcmp(key, "grid") == 0) {
        return read_grid(r, value);
    }
    if (strcmp(key, "points") == 0) {
        return read_points(r, value);
    }
    if (strcmp(key, "constraints") == 0) {
        return read_constraints(r, value);
    }
    if (strcmp(key, "cost_per_gpu_hour") == 0) {
        return read_costs(r, value);
    }
    if (strcmp(key, "pareto") == 0) {
        return read_pareto(r, value);
    }
    if (strcmp(key, "search") == 0) {
        return read_search(r, value);
    }
    if (strcmp(key, "window_requests") == 0) {
        status = need_number(r, value, key, 1000, 1e9, &x);
        study->window_requests = (uint64_t)x;
        return status;
    }
    return bad(r, value,
               "unknown key \"%.40s\": must be schema, name, title, input, batch, grid, points, constraints, cost_per_gpu_hour, "
               "pareto, search or window_requests",
               key);
}

static enum sim_status read_root(struct reading *r, const struct json *root)
{
    static const char *const needed[] = { "schema", "name", "input" };
    enum sim_status status = need_kind(r, root, JSON_OBJECT, "a study");
    for (size_t i = 0; status == SIM_OK && i < sizeof needed / sizeof needed[0]; i++) {
        const struct json *value = json_get(root, needed[i]);
        if (value == NULL) {
            status = bad(r, root, "\"%s\" is missing", needed[i]);
        } else if (i == 0) {
            status = read_key(r, value); /* what is no study is said to be none, before what it lacks */
        }
    }
    for (size_t i = 0; status == SIM_OK && i < json_count(root); i++) {
        status = read_key(r, json_at(root, i));
    }
    if (status == SIM_OK && study_point_count(r->study) == 0) {
        status = bad(r, root, "no point: \"grid\" or \"points\" is needed");
    }
    if (status == SIM_OK && r->study->has_search && (r->study->axis_count == 0 || r->study->list_count > 0)) {
        status = bad(r, root, "\"search\" goes over a \"grid\" alone");
    }
    return status;
}

enum sim_status study_read(const char *path, struct study **out, struct sim_error *error)
{
    struct json *root = NULL;
    *out = NULL;
    enum sim_status status = json_read_file(path, &root, error);
    if (status != SIM_OK) {
        return status;
    }
    struct reading r = { .study = zeroed(1, sizeof *r.study), .error = error };
    r.study->path = copy(path);
    r.study->objectives[0] = METRIC_EXAMPLES;
    r.study->objectives[1] = METRIC_MEMORY_GIB;
    r.study->objective_count = 2;
    status = read_root(&r, root);
    r.study->owned = r.texts;
    r.study->owned_count = r.text_count;
    if (status == SIM_OK) {
        r.study->text = json_print(root, false);
        status = study_check(r.study, error);
    }
    json_destroy(root);
    if (status != SIM_OK) {
        study_destroy(r.study);
        return status;
    }
    *out = r.study;
    return SIM_OK;
}

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; texts != NULL && i < count; i++) {
        free(texts[i]);
    }
    free(texts);
}

void study_destroy(struct study *study)
{
    if (study == NULL) {
        return;
    }
    for (size_t i = 0; i < study->axis_count; i++) {
        free_texts(study->axes[i].values, study->axes[i].count);
    }
    free_texts(study->inputs, study->input_count);
    free_texts(study->owned, study->owned_count);
    free(study->axes);
    free(study->list);
    free(study->constraints);
    free(study->costs);
    free(study->text);
    free(study->path);
    free(study);
}
