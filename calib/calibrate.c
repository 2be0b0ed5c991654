#include "calib/calibrate.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/core/data_path.h"
#include "sim/core/json.h"

struct memo_entry { double values[FIT_VALUES_MAX], residuals[FIT_ROWS_MAX]; };

struct trial { /* one device whose numbers are changed, and the rows it is held to */
    struct reckon *reckon;
    struct reckon_device *device;
    struct calibration *calibration;
    char table[64];               /* the chosen rows as a file */
    struct memo_entry *memo;
    size_t memo_count;
};

/* ---- the model that is fitted */

static enum sim_status predict(struct trial *trial, struct reckon_validation **validation, struct sim_error *error)
{
    const char *path = trial->table;
    struct reckon_validate_request request = { .paths = &path, .path_count = 1 };
    return reckon_validate(trial->reckon, trial->device, &request, validation, error);
}

static void set_values(struct trial *trial, const double *values)
{
    struct chip_profile *chip = reckon_device_chip_edit(trial->device);
    enum chip_number index;
    for (size_t i = 0; i < trial->calibration->fit.value_count; i++) {
        *chip_profile_number(chip, chip_number_key(trial->calibration->fit.values[i].index), &index) = values[i];
    }
    chip_profile_rehash(chip);
}

static const struct memo_entry *memo_find(const struct trial *trial, const double *values)
{
    for (size_t m = 0; m < trial->memo_count; m++) {
        if (memcmp(trial->memo[m].values, values, trial->calibration->fit.value_count * sizeof values[0]) == 0) {
            return &trial->memo[m];
        }
    }
    return NULL;
}

static void memo_add(struct trial *trial, const double *values, const double *residuals)
{
    trial->memo = realloc(trial->memo, (trial->memo_count + 1) * sizeof *trial->memo);
    SIM_ASSERT(trial->memo != NULL, "no memory for %zu trials", trial->memo_count);
    struct memo_entry *entry = &trial->memo[trial->memo_count++];
    memcpy(entry->values, values, trial->calibration->fit.value_count * sizeof values[0]);
    memcpy(entry->residuals, residuals, trial->calibration->row_count * sizeof residuals[0]);
}

static enum sim_status check_row(const struct reckon_validate_row *row, struct sim_error *error)
{
    return row->skipped == NULL ? SIM_OK
                                : sim_fail(error, SIM_UNSUPPORTED, "%s/%s %s cannot be predicted, so no fit can use it: %s", row->suite,
                                           row->kernel, row->params, row->skipped);
}

static enum sim_status residuals_of(void *context, const double *values, double *residuals, struct sim_error *error)
{
    struct trial *trial = context;
    struct reckon_validation *validation = NULL;
    const struct memo_entry *known = memo_find(trial, values);
    if (known != NULL) {
        memcpy(residuals, known->residuals, trial->calibration->row_count * sizeof residuals[0]);
        return SIM_OK;
    }
    set_values(trial, values);
    enum sim_status status = predict(trial, &validation, error);
    for (size_t r = 0; status == SIM_OK && r < trial->calibration->row_count; r++) {
        status = check_row(&validation->rows[r], error);
        residuals[r] = validation->rows[r].predicted / validation->rows[r].measured - 1;
    }
    if (status == SIM_OK) {
        memo_add(trial, values, residuals);
    }
    reckon_validation_free(validation);
    return status;
}

/* ---- set-up */

/* Names and measured figures of the rows, as the simulator reads them; also the first look whether all can be predicted. */
static enum sim_status read_rows(struct trial *trial, struct sim_error *error)
{
    struct reckon_validation *validation = NULL;
    struct calibration *calibration = trial->calibration;
    double residuals[FIT_ROWS_MAX];
    enum sim_status status = predict(trial, &validation, error);
    for (size_t r = 0; status == SIM_OK && r < validation->row_count; r++) {
        const struct reckon_validate_row *row = &validation->rows[r];
        struct calibration_row *kept = &calibration->rows[calibration->row_count++];
        snprintf(kept->suite, sizeof kept->suite, "%s", row->suite);
        snprintf(kept->kernel, sizeof kept->kernel, "%s", row->kernel);
        snprintf(kept->unit, sizeof kept->unit, "%s", row->unit);
        kept->params = strdup(row->params);
        kept->measured = row->measured;
        SIM_ASSERT(kept->params != NULL, "no memory for a row");
        residuals[r] = row->predicted / row->measured - 1;
        status = check_row(row, error);
    }
    if (status == SIM_OK) {
        memo_add(trial, calibration->base_value, residuals);
    }
    reckon_validation_free(validation);
    return status;
}

static enum sim_status set_problem(const struct calibration *calibration, const struct chip_profile *chip, struct fit_value *values,
                                   double *base, struct sim_error *error)
{
    for (size_t i = 0; i < calibration->fit.value_count; i++) {
        const struct fit_file_value *free_value = &calibration->fit.values[i];
        const char *key = chip_number_key(free_value->index);
        if (!chip_number_present(chip, free_value->index)) {
            return sim_fail(error, SIM_BAD_PROFILE, "%s: %s is free in %s, but the profile has no such section", calibration->base_path, key,
                            calibration->fit.path);
        }
        base[i] = chip_number_value(chip, free_value->index);
        if (!(base[i] >= free_value->low && base[i] <= free_value->high)) {
            return sim_fail(error, SIM_BAD_PROFILE, "%s: %s is %g %s, outside the range %g..%g of %s", calibration->base_path, key, base[i],
                            chip_number_unit(free_value->index), free_value->low, free_value->high, calibration->fit.path);
        }
        values[i] = (struct fit_value){ base[i], free_value->low, free_value->high };
    }
    return SIM_OK;
}

static enum sim_status make_table(struct trial *trial, const struct chosen_rows *rows, struct sim_error *error)
{
    strcpy(trial->table, "/tmp/reckon-fit-XXXXXX");
    int file = mkstemp(trial->table);
    if (file < 0) {
        trial->table[0] = '\0';
        return sim_fail(error, SIM_BAD_FILE, "/tmp: no temporary file: %s", strerror(errno));
    }
    close(file);
    return chosen_rows_write(rows, trial->table, error);
}

static enum sim_status run(struct trial *trial, struct sim_error *error)
{
    struct calibration *calibration = trial->calibration;
    struct fit_value values[FIT_VALUES_MAX];
    enum sim_status status = set_problem(calibration, reckon_device_chip(trial->device), values, calibration->base_value, error);
    if (status == SIM_OK) {
        status = read_rows(trial, error);
    }
    struct fit_problem problem = { .value_count = calibration->fit.value_count, .row_count = calibration->row_count, .values = values,
                                   .residuals = residuals_of, .context = trial, .iterations_max = calibration->fit.iterations_max };
    return status == SIM_OK ? fit_solve(&problem, &calibration->solution, error) : status;
}

static enum sim_status open_all(struct trial *trial, const char *base, const char *fit_path, const char *const *tables, size_t table_count,
                                struct sim_error *error)
{
    struct calibration *calibration = trial->calibration;
    struct chosen_rows rows = { 0 };
    snprintf(calibration->base, sizeof calibration->base, "%s", base);
    enum sim_status status = data_path_find("devices", "device", base, calibration->base_path, error);
    if (status == SIM_OK) {
        status = reckon_device_open(trial->reckon, base, NULL, &trial->device, error);
    }
    if (status == SIM_OK) {
        status = fit_file_read(fit_path, &calibration->fit, error);
    }
    if (status == SIM_OK) {
        status = chosen_rows_read(tables, table_count, &calibration->fit, &rows, error);
    }
    if (status == SIM_OK) {
        status = make_table(trial, &rows, error);
    }
    chosen_rows_finish(&rows);
    return status;
}

enum sim_status calibrate(struct reckon *reckon, const char *base, const char *fit_path, const char *const *tables, size_t table_count,
                          struct calibration **out, struct sim_error *error)
{
    struct trial trial = { .reckon = reckon, .calibration = calloc(1, sizeof(struct calibration)) };
    *out = NULL;
    if (trial.calibration == NULL) {
        return sim_fail(error, SIM_NO_MEMORY, "no memory for a calibration");
    }
    enum sim_status status = open_all(&trial, base, fit_path, tables, table_count, error);
    if (status == SIM_OK) {
        status = run(&trial, error);
    }
    if (trial.table[0] != '\0') {
        unlink(trial.table);
    }
    reckon_device_close(trial.device);
    free(trial.memo);
    if (status == SIM_OK) {
        *out = trial.calibration;
    } else {
        calibration_destroy(trial.calibration);
    }
    return status;
}

void calibration_destroy(struct calibration *calibration)
{
    if (calibration == NULL) {
        return;
    }
    for (size_t r = 0; r < calibration->row_count; r++) {
        free(calibration->rows[r].params);
    }
    fit_file_finish(&calibration->fit);
    free(calibration);
}

/* ---- report */

static void set_number_or_null(struct json *object, const char *key, double value)
{
    if (isfinite(value)) {
        json_set_number(object, key, value);
    } else {
        json_set_null(object, key);
    }
}

static struct json *values_json(const struct calibration *calibration)
{
    const struct fit_solution *solution = &calibration->solution;
    struct json *list = json_new_array();
    for (size_t i = 0; i < solution->value_count; i++) {
        const struct fit_file_value *value = &calibration->fit.values[i];
        struct json *item = json_new_object(), *correlations = json_new_object();
        json_set_string(item, "key", chip_number_key(value->index));
        json_set_string(item, "unit", chip_number_unit(value->index));
        json_set_number(item, "base", calibration->base_value[i]);
        json_set_number(item, "value", solution->value[i]);
        json_set_number(item, "low", value->low);
        json_set_number(item, "high", value->high);
        json_set_bool(item, "identified", solution->identified[i]);
        set_number_or_null(item, "standard_error", solution->standard_error[i]);
        for (size_t k = 0; k < solution->value_count; k++) {
            if (k != i && isfinite(solution->correlation[i][k])) {
                json_set_number(correlations, chip_number_key(calibration->fit.values[k].index), solution->correlation[i][k]);
            }
        }
        json_set(item, "correlations", correlations);
        json_append(list, item);
    }
    return list;
}

static struct json *directions_json(const struct calibration *calibration)
{
    struct json *list = json_new_array();
    for (size_t d = 0; d < calibration->solution.direction_count; d++) {
        const struct fit_direction *direction = &calibration->solution.direction[d];
        struct json *item = json_new_object(), *parts = json_new_object();
        json_set_string(item, "kept_at_base", chip_number_key(calibration->fit.values[direction->fixed].index));
        set_number_or_null(item, "spread", direction->spread);
        for (size_t i = 0; i < calibration->solution.value_count; i++) {
            if (fabs(direction->part[i]) > 0.1) {
                json_set_number(parts, chip_number_key(calibration->fit.values[i].index), direction->part[i]);
            }
        }
        json_set(item, "parts", parts);
        json_append(list, item);
    }
    return list;
}

static struct json *rows_json(const struct calibration *calibration)
{
    const struct fit_solution *solution = &calibration->solution;
    struct json *list = json_new_array();
    for (size_t r = 0; r < calibration->row_count; r++) {
        const struct calibration_row *row = &calibration->rows[r];
        struct json *item = json_new_object();
        json_set_string(item, "suite", row->suite);
        json_set_string(item, "kernel", row->kernel);
        json_set_string(item, "params", row->params);
        json_set_number(item, "measured", row->measured);
        json_set_string(item, "unit", row->unit);
        json_set_number(item, "residual_base", solution->start_residual[r]);
        json_set_number(item, "residual", solution->residual[r]);
        json_set_number(item, "weight", solution->weight[r]);
        json_append(list, item);
    }
    return list;
}

struct json *calibration_json(const struct calibration *calibration)
{
    struct json *object = json_new_object();
    json_set_string(object, "schema", "reckon.calibration/1");
    json_set_string(object, "base", calibration->base);
    json_set_string(object, "fit", calibration->fit.path);
    json_set_number(object, "scatter", calibration->solution.scatter);
    json_set_integer(object, "iterations", calibration->solution.iterations);
    json_set_integer(object, "evaluations", calibration->solution.evaluations);
    json_set(object, "values", values_json(calibration));
    json_set(object, "not_identified", directions_json(calibration));
    json_set(object, "rows", rows_json(calibration));
    return object;
}
