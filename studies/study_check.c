/* A study that has been read: what its points are, and whether each could be priced at all. */
#include "sim/core/data_path.h"
#include "sim/core/hash.h"
#include "studies/study_internal.h"
#include "workloads/models/model.h"
#include "workloads/plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t study_point_count(const struct study *study)
{
    return study->grid_count + study->list_count;
}

static void point_add(struct study_point *point, const char *key, const char *value)
{
    if (strcmp(key, "device") == 0) {
        point->device = value;
    } else if (strcmp(key, "node") == 0) {
        point->node = value;
    } else if (strcmp(key, "fix") != 0 || value[0] != '\0') { /* fix "" is the step as it is */
        point->keys[point->setting_count] = key;
        point->values[point->setting_count++] = value;
    }
}

void study_point_at(const struct study *study, size_t index, struct study_point *point)
{
    SIM_ASSERT(index < study_point_count(study), "point %zu", index);
    *point = (struct study_point){ 0 };
    if (index >= study->grid_count) {
        *point = study->list[index - study->grid_count];
        return;
    }
    size_t place[STUDY_SETTINGS_MAX], rest = index;
    for (size_t a = study->axis_count; a-- > 0;) {
        place[a] = rest % study->axes[a].count;
        rest /= study->axes[a].count;
    }
    for (size_t a = 0; a < study->axis_count; a++) {
        point_add(point, study->axes[a].key, study->axes[a].values[place[a]]);
    }
}

void study_point_text(const struct study_point *point, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < point->setting_count && used < capacity; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%s=%s", i > 0 ? ";" : "", point->keys[i], point->values[i]);
    }
}

const char *study_point_value(const struct study_point *point, const char *key)
{
    for (size_t i = 0; i < point->setting_count; i++) {
        if (strcmp(point->keys[i], key) == 0) {
            return point->values[i];
        }
    }
    return NULL;
}

double study_point_gpus(const struct study *study, const struct study_point *point)
{
    const char *text = study_point_value(point, "gpus");
    return text != NULL ? strtod(text, NULL) : study->gpus;
}

double study_point_batch(const struct study *study, const struct study_point *point)
{
    const char *text = study_point_value(point, "batch");
    return text != NULL ? strtod(text, NULL) : study->batch;
}

static bool is_file(const char *value)
{
    return strchr(value, '/') != NULL || data_path_ends_in(value, ".json");
}

void study_setting(const struct study *study, const struct study_point *point, size_t index, char *text, size_t capacity)
{
    const char *key = point->keys[index], *value = point->values[index], *slash = strrchr(study->path, '/');
    if (strcmp(key, "plan") == 0 && is_file(value) && value[0] != '/' && slash != NULL) {
        snprintf(text, capacity, "%s=%.*s/%s", key, (int)(slash - study->path), study->path, value);
    } else {
        snprintf(text, capacity, "%s=%s", key, value);
    }
}

double study_cost_of(const struct study *study, const char *device)
{
    for (size_t i = 0; i < study->cost_count; i++) {
        if (strcmp(study->costs[i].device, device) == 0) {
            return study->costs[i].per_gpu_hour;
        }
    }
    return NAN;
}

bool study_breaks(const struct study *study, const struct study_record *record, bool priced, char *reason, size_t capacity)
{
    for (size_t i = 0; i < study->constraint_count; i++) {
        const struct study_constraint *c = &study->constraints[i];
        double value = record->metric[c->metric];
        const char *name = metric_text(c->metric), *unit = metric_unit(c->metric);
        if (isnan(value)) {
            if (priced) {
                snprintf(reason, capacity, "%s is not known, and is bounded", name);
                return true;
            }
        } else if (value < c->min || value > c->max) {
            snprintf(reason, capacity, "%s %.6g is %s %.6g%s%s", name, value, value < c->min ? "below" : "above",
                     value < c->min ? c->min : c->max, unit[0] != '\0' ? " " : "", unit);
            return true;
        }
    }
    return false;
}

/* ---- checks */

static enum sim_status fail(const struct study *study, struct sim_error *error, const char *key, const char *text)
{
    return sim_fail(error, SIM_BAD_FILE, "%s: %s: %s", study->path, key, text);
}

/* "auto", a kind of sharding, or a file beside the study. */
static enum sim_status try_plan(const struct study *study, const char *value, struct sim_error *error)
{
    char path[1024] = "plan=", list[200] = "auto";
    struct study_point point = { .setting_count = 1, .keys = { "plan" }, .values = { value } };
    for (int kind = 0; kind < PLAN_SHARDINGS; kind++) {
        size_t used = strlen(list);
        if (strcmp(value, plan_sharding_text((enum plan_sharding)kind)) == 0) {
            return SIM_OK;
        }
        snprintf(list + used, sizeof list - used, ", %s", plan_sharding_text((enum plan_sharding)kind));
    }
    study_setting(study, &point, 0, path, sizeof path);
    if (value[0] == '\0' || strcmp(value, "auto") == 0 || access(path + strlen("plan="), R_OK) == 0) {
        return SIM_OK;
    }
    return sim_fail(error, SIM_BAD_FILE, "%s: plan: '%.80s' is neither %s nor a file that can be read", study->path, value, list);
}

/* One value of one key on the input: what a description would refuse, or what cannot be changed in a trace. */
static enum sim_status try_value(const struct study *study, struct model *model, const char *key, const char *value,
                                 struct sim_error *error)
{
    char setting[320], path[DATA_PATH_CAPACITY], *end = NULL;
    struct sim_error reason = { 0 };
    if (strcmp(key, "device") == 0 || strcmp(key, "node") == 0) {
        return data_path_find(key[0] == 'd' ? "devices" : "devices/nodes", key, value, path, &reason) == SIM_OK
                   ? SIM_OK
                   : fail(study, error, key, reason.text);
    }
    if (strcmp(key, "fix") == 0) {
        return reckon_fixes_check(value, &reason) == SIM_OK ? SIM_OK : fail(study, error, key, reason.text);
    }
    if (strcmp(key, "plan") == 0 && model != NULL) {
        return try_plan(study, value, error);
    }
    snprintf(setting, sizeof setting, "%s=%s", key, value);
    if (model != NULL) {
        return model_set(model, setting, &reason) == SIM_OK ? SIM_OK : fail(study, error, key, reason.text);
    }
    bool number = strcmp(key, "batch") == 0 || strcmp(key, "skew") == 0 || strcmp(key, "hot_share") == 0;
    if (number && (strtod(value, &end) < (key[0] == 'b' ? 1 : 0) || end == value || *end != '\0')) {
        return fail(study, error, key, "must be a number");
    }
    if (key[0] == 'b' && number && !(study->batch > 0)) {
        return fail(study, error, key, "a trace does not know its batch: give the recorded one as \"batch\" of the study");
    }
    return number || strncmp(key, "dim", 3) == 0
               ? SIM_OK
               : fail(study, error, key, "not a key of a trace (device, node, batch, dimN, skew, hot_share, fix)");
}

static enum sim_status try_values(const struct study *study, struct model *model, struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    bool device = false;
    for (size_t a = 0; status == SIM_OK && a < study->axis_count; a++) {
        const struct study_axis *axis = &study->axes[a];
        device = device || strcmp(axis->key, "device") == 0;
        for (size_t i = 0; status == SIM_OK && i < axis->count; i++) {
            status = try_value(study, model, axis->key, axis->values[i], error);
        }
    }
    if (status == SIM_OK && study->axis_count > 0 && !device) {
        status = fail(study, error, "grid", "\"device\" is missing");
    }
    for (size_t p = 0; status == SIM_OK && p < study->list_count; p++) {
        const struct study_point *point = &study->list[p];
        status = try_value(study, model, "device", point->device, error);
        if (status == SIM_OK && point->node != NULL) {
            status = try_value(study, model, "node", point->node, error);
        }
        for (size_t i = 0; status == SIM_OK && i < point->setting_count; i++) {
            status = try_value(study, model, point->keys[i], point->values[i], error);
        }
    }
    return status;
}

struct fingerprint {
    uint64_t hash;
    size_t index;
};

static int by_hash(const void *a, const void *b)
{
    const struct fingerprint *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash ? 1 : -1) : (x->index > y->index) - (x->index < y->index);
}

uint64_t study_point_hash(const struct study_point *point)
{
    char text[STUDY_SETTINGS_MAX * 320];
    study_point_text(point, text, sizeof text);
    uint64_t hash = hash64_add_text(HASH64_START, point->device);
    return hash64_add_text(hash64_add_text(hash, point->node != NULL ? point->node : ""), text);
}

static enum sim_status check_twice(const struct study *study, struct sim_error *error)
{
    size_t count = study_point_count(study);
    struct fingerprint *prints = malloc(count * sizeof *prints);
    enum sim_status status = SIM_OK;
    SIM_ASSERT(prints != NULL, "no memory for %zu points", count);
    for (size_t i = 0; i < count; i++) {
        struct study_point point;
        study_point_at(study, i, &point);
        prints[i] = (struct fingerprint){ study_point_hash(&point), i };
    }
    qsort(prints, count, sizeof *prints, by_hash);
    for (size_t i = 1; status == SIM_OK && i < count; i++) {
        if (prints[i].hash == prints[i - 1].hash) {
            char text[400];
            struct study_point point;
            study_point_at(study, prints[i].index, &point);
            study_point_text(&point, text, sizeof text);
            status = sim_fail(error, SIM_BAD_FILE, "%s: points %zu and %zu are the same (%s, %s): leave one out", study->path,
                              prints[i - 1].index, prints[i].index, point.device, text);
        }
    }
    free(prints);
    return status;
}

/* Constraints on what a point says itself, before anything is priced: one point at least must be left. */
static enum sim_status check_constraints(const struct study *study, struct sim_error *error)
{
    char reason[240] = "";
    for (size_t i = 0; i < study_point_count(study); i++) {
        struct study_point point;
        struct study_record record;
        study_point_at(study, i, &point);
        study_record_begin(study, &point, i, &record);
        if (!study_breaks(study, &record, false, reason, sizeof reason)) {
            return SIM_OK;
        }
    }
    return sim_fail(error, SIM_BAD_FILE, "%s: constraints: no point of %zu can meet them (the last: %s)", study->path,
                    study_point_count(study), reason);
}

void study_record_begin(const struct study *study, const struct study_point *point, size_t index, struct study_record *record)
{
    memset(record, 0, sizeof *record); /* its padding is written to pipes */
    record->point = (uint32_t)index;
    for (int m = 0; m < METRICS; m++) {
        record->metric[m] = NAN;
    }
    double batch = study_point_batch(study, point), gpus = study_point_gpus(study, point);
    record->metric[METRIC_GPUS] = gpus;
    record->metric[METRIC_BATCH] = batch > 0 ? batch : NAN;
    record->metric[METRIC_GLOBAL_BATCH] = batch > 0 ? batch * gpus : NAN;
}

static enum sim_status check_objectives(const struct study *study, struct sim_error *error)
{
    bool cost = study->has_search && study->search_objective == METRIC_EXAMPLES_COST;
    for (size_t i = 0; i < study->objective_count; i++) {
        cost = cost || study->objectives[i] == METRIC_EXAMPLES_COST;
    }
    for (size_t i = 0; cost && i < study_point_count(study); i++) {
        struct study_point point;
        study_point_at(study, i, &point);
        if (isnan(study_cost_of(study, point.device))) {
            return sim_fail(error, SIM_BAD_FILE, "%s: examples_per_cost is asked for, and cost_per_gpu_hour has no %s", study->path,
                            point.device);
        }
    }
    return SIM_OK;
}

enum sim_status study_check(struct study *study, struct sim_error *error)
{
    struct model *model = NULL;
    enum sim_status status = SIM_OK;
    study->is_model = study->input_count == 1 && model_is_file(study->inputs[0]);
    study->gpus = (double)study->input_count;
    if (study->is_model && study->batch > 0) {
        return fail(study, error, "batch", "of a model description belongs into the grid; this key is for traces");
    }
    if (study->is_model) {
        status = model_read(study->inputs[0], &model, error);
    }
    if (status == SIM_OK && model != NULL) {
        study->gpus = model_gpus(model);
        study->batch = model_batch(model);
    }
    status = status == SIM_OK ? try_values(study, model, error) : status;
    model_destroy(model);
    status = status == SIM_OK ? check_twice(study, error) : status;
    status = status == SIM_OK ? check_constraints(study, error) : status;
    return status == SIM_OK ? check_objectives(study, error) : status;
}
