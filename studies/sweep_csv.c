#include "sim/core/output_file.h"
#include "studies/sweep.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX (2 * STUDY_SETTINGS_MAX)

struct keys { /* of all points, in the order in which the study first has them */
    const char *text[KEYS_MAX];
    size_t count;
};

static void add_key(struct keys *keys, const char *key)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (strcmp(keys->text[i], key) == 0) {
            return;
        }
    }
    if (keys->count < KEYS_MAX) {
        keys->text[keys->count++] = key;
    }
}

static void collect_keys(const struct study *study, struct keys *keys)
{
    for (size_t a = 0; a < study->axis_count; a++) {
        const char *key = study->axes[a].key;
        if (strcmp(key, "device") != 0 && strcmp(key, "node") != 0) {
            add_key(keys, key);
        }
    }
    for (size_t p = 0; p < study->list_count; p++) {
        for (size_t i = 0; i < study->list[p].setting_count; i++) {
            add_key(keys, study->list[p].keys[i]);
        }
    }
}

static void put_text(FILE *file, const char *text)
{
    if (strpbrk(text, ",\"\n") == NULL) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text != '\0'; text++) {
        fputs(*text == '"' ? "\"\"" : (const char[]){ *text, '\0' }, file);
    }
    fputc('"', file);
}

static void put_row(FILE *file, const struct study *study, const struct keys *keys, const struct sweep_result *result, size_t r)
{
    const struct study_record *record = &result->records[r];
    struct study_point point;
    study_point_at(study, record->point, &point);
    fprintf(file, "%u,%s,%s", record->point, point.device, point.node != NULL ? point.node : "");
    for (size_t k = 0; k < keys->count; k++) {
        fputc(',', file);
        for (size_t i = 0; i < point.setting_count; i++) {
            if (strcmp(point.keys[i], keys->text[k]) == 0) {
                put_text(file, point.values[i]);
            }
        }
    }
    fprintf(file, ",%s,", record->status == RECORD_FEASIBLE ? "feasible" : "infeasible");
    put_text(file, record->status == RECORD_FEASIBLE ? "" : record->reason);
    for (int m = 0; m < METRICS; m++) {
        if (isfinite(record->metric[m])) {
            fprintf(file, ",%.9g", record->metric[m]);
        } else {
            fputc(',', file);
        }
    }
    fprintf(file, ",%d,%d\n", result->front[r], result->device_front[r]);
}

enum sim_status sweep_write_csv(const struct study *study, const struct sweep_result *result, const char *path,
                                struct sim_error *error)
{
    struct keys keys = { .count = 0 };
    struct output_file output = { 0 };
    enum sim_status status = output_file_open(&output, "--csv ", path, error);
    if (status != SIM_OK) {
        return status;
    }
    FILE *file = output.stream;
    collect_keys(study, &keys);
    fputs("point,device,node", file);
    for (size_t k = 0; k < keys.count; k++) { /* a key may have a metric's name */
        fprintf(file, ",set_%s", keys.text[k]);
    }
    fputs(",status,reason", file);
    for (int m = 0; m < METRICS; m++) {
        fprintf(file, ",%s", metric_text((enum metric)m));
    }
    fputs(",pareto,pareto_device\n", file);
    for (size_t r = 0; r < result->record_count; r++) {
        put_row(file, study, &keys, result, r);
    }
    return output_file_close(&output, error);
}
