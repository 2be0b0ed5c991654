#include "calib/calibrate.h"
#include "sim/core/data_path.h"
#include "sim/core/json.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct memo_entry {
    double values[FIT_VALUES_MAX], residuals[FIT_ROWS_MAX];
};

/* Whether a row heeds a value, learnt from trials that differ in that value alone. A row is simulated again only when a
 * value changed that it may heed: most rows heed few, and a whole fit is hundreds of trials. */
enum { UNCHANGED_TRIALS = 2 }; /* one up and one down, neither of which changed a bit of the answer */

struct trial { /* one device whose numbers are changed, and the rows it is held to */
    struct reckon *reckon;
    struct reckon_device *device;
    struct calibration *calibration;
    struct chosen_rows chosen;
    char table[64]; /* rows to predict, as a file */
    struct memo_entry *memo;
    size_t memo_count;
    bool heeds[FIT_ROWS_MAX][FIT_VALUES_MAX];
    unsigned unchanged[FIT_ROWS_MAX][FIT_VALUES_MAX];
};

/* ---- the model that is fitted */

static enum sim_status predict(struct trial *trial, struct reckon_validation **validation,
                               struct sim_error *error)
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
        *chip_profile_number(chip, chip_number_key(trial->calibration->fit.values[i].index),
                             &index) = values[i];
    }
    chip_profile_rehash(chip);
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* Whether row r's answer of an earlier trial holds for `values`. */
static bool answers_row(const struct trial *trial, const struct memo_entry *entry, const double *values,
                        size_t r)
{
    for (size_t i = 0; i < trial->calibration->fit.value_count; i++) {
        bool heedless = !trial->heeds[r][i] && trial->unchanged[r][i] >= UNCHANGED_TRIALS;
        if (!heedless && !same_bits(entry->values[i], values[i])) {
            return false;
        }
    }
    return true;
}

static const struct memo_entry *memo_find(const struct trial *trial, const double *values, size_t r)
{
    for (size_t m = trial->memo_count; m-- > 0;) {
        if (answers_row(trial, &trial->memo[m], values, r)) {
            return &trial->memo[m];
        }
    }
    return NULL;
}

/* What the newest trial tells beside an earlier one that differs in one value. */
static void learn(struct trial *trial, const struct memo_entry *earlier, const struct memo_entry *newest)
{
    size_t differing = 0, last = 0;
    for (size_t i = 0; i < trial->calibration->fit.value_count; i++) {
        if (!same_bits(earlier->values[i], newest->values[i])) {
            differing++;
            last = i;
        }
    }
    for (size_t r = 0; differing == 1 && r < trial->calibration->row_count; r++) {
        bool same = same_bits(earlier->residuals[r], newest->residuals[r]);
        trial->heeds[r][last] = trial->heeds[r][last] || !same;
        trial->unchanged[r][last] += same;
    }
}

static void memo_add(struct trial *trial, const double *values, const double *residuals)
{
    trial->memo = realloc(trial->memo, (trial->memo_count + 1) * sizeof *trial->memo);
    SIM_ASSERT(trial->memo != NULL, "no memory for %zu trials", trial->memo_count);
    struct memo_entry *entry = &trial->memo[trial->memo_count];
    memcpy(entry->values, values, trial->calibration->fit.value_count * sizeof values[0]);
    memcpy(entry->residuals, residuals, trial->calibration->row_count * sizeof residuals[0]);
    for (size_t m = 0; m < trial->memo_count; m++) {
        learn(trial, &trial->memo[m], entry);
    }
    trial->memo_count++;
}

static enum sim_status check_row(const struct reckon_validate_row *row, struct sim_error *error)
{
    return row->skipped == NULL
               ? SIM_OK
               : sim_fail(error, SIM_UNSUPPORTED, "%s/%s %s cannot be predicted, so no fit can use it: %s",
                          row->suite, row->kernel, row->params, row->skipped);
}

/* Simulate the rows of `wanted`, in this order. */
static enum sim_status predict_rows(struct trial *trial, const size_t *wanted, size_t wanted_count,
                                    double *residuals, struct sim_error *error)
{
    struct chosen_rows some = { .count = wanted_count };
    struct reckon_validation *validation = NULL;
    for (size_t w = 0; w < wanted_count; w++) {
        some.line[w] = trial->chosen.line[wanted[w]];
    }
    enum sim_status status = chosen_rows_write(&some, trial->table, error);
    if (status == SIM_OK) {
        status = predict(trial, &validation, error);
    }
    for (size_t w = 0; status == SIM_OK && w < wanted_count; w++) {
        status = check_row(&validation->rows[w], error);
        residuals[wanted[w]] = validation->rows[w].predicted / validation->rows[w].measured - 1;
    }
    reckon_validation_free(validation);
    return status;
}

static enum sim_status residuals_of(void *context, const double *values, double *residuals,
                                    struct sim_error *error)
{
    struct trial *trial = context;
    size_t wanted[FIT_ROWS_MAX], wanted_count = 0;
    for (size_t r = 0; r < trial->calibration->row_count; r++) {
        const struct memo_entry *known = memo_find(trial, values, r);
        if (known != NULL) {
            residuals[r] = known->residuals[r];
        } else {
            wanted[wanted_count++] = r;
        }
    }
    set_values(trial, values);
    enum sim_status status = wanted_count > 0 ? predict_rows(trial, wanted, wanted_count, residuals, error)
                                              : SIM_OK;
    if (status == SIM_OK && wanted_count > 0) {
        memo_add(trial, values, residuals);
    }
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

static enum sim_status set_problem(const struct calibration *calibration, const struct chip_profile *chip,
                                   struct fit_value *values, double *base, struct sim_error *error)
{
    for (size_t i = 0; i < calibration->fit.value_count; i++) {
        const struct fit_file_value *free_value = &calibration->fit.values[i];
        const char *key = chip_number_key(free_value->index);
        if (!chip_number_present(chip, free_value->index)) {
            return sim_fail(error, SIM_BAD_PROFILE,
                            "%s: %s is free in %s, but the profile has no such section",
                            calibration->base_path, key, calibration->fit.path);
        }
        base[i] = chip_number_value(chip, free_value->index);
        if (!(base[i] >= free_value->low && base[i] <= free_value->high)) {
            return sim_fail(error, SIM_BAD_PROFILE, "%s: %s is %g %s, outside the range %g..%g of %s",
                            calibration->base_path, key, base[i], chip_number_unit(free_value->index),
                            free_value->low, free_value->high, calibration->fit.path);
        }
        values[i] = (struct fit_value){ base[i], free_value->low, free_value->high };
    }
    return SIM_OK;
}

static enum sim_status make_table(struct trial *trial, struct sim_error *error)
{
    strcpy(trial->table, "/tmp/reckon-fit-XXXXXX");
    int file = mkstemp(trial->table);
    if (file < 0) {
        trial->table[0] = '\0';
        return sim_fail(error, SIM_BAD_FILE, "/tmp: no temporary file: %s", strerror(errno));
    }
    close(file);
    return chosen_rows_write(&trial->chosen, trial->table, error);
}

static enum sim_status run(struct trial *trial, struct sim_error *error)
{
    struct calibration *calibration = trial->calibration;
    struct fit_value values[FIT_VALUES_MAX];
    enum sim_status status = set_problem(calibration, reckon_device_chip(trial->device), values,
                                         calibration->base_value, error);
    if (status == SIM_OK) {
        status = read_rows(trial, error);
    }
    struct fit_problem problem = { .value_count = calibration->fit.value_count,
                                   .row_count = calibration->row_count,
                                   .values = values,
                                   .residuals = residuals_of,
                                   .context = trial,
                                   .iterations_max = calibration->fit.iterations_max };
    if (status == SIM_OK) {
        status = fit_solve(&problem, &calibration->solution, error);
    }
    size_t all[FIT_ROWS_MAX];
    for (size_t r = 0; r < calibration->row_count; r++) {
        all[r] = r;
    }
    if (status == SIM_OK) { /* what is reported is simulated at the values that are written, not remembered */
        set_values(trial, calibration->solution.value);
        status = predict_rows(trial, all, calibration->row_count, calibration->solution.residual, error);
    }
    return status;
}

static enum sim_status open_all(struct trial *trial, const char *base, const char *fit_path,
                                const char *const *tables, size_t table_count, struct sim_error *error)
{
    struct calibration *calibration = trial->calibration;
    snprintf(calibration->base, sizeof calibration->base, "%s", base);
    enum sim_status status = data_path_find("devices", "device", base, calibration->base_path, error);
    if (status == SIM_OK) {
        status = reckon_device_open(trial->reckon, base, NULL, &trial->device, error);
    }
    if (status == SIM_OK) {
        status = fit_file_read(fit_path, &calibration->fit, error);
    }
    if (status == SIM_OK) {
        status = chosen_rows_read(tables, table_count, &calibration->fit, &trial->chosen, error);
    }
    if (status == SIM_OK) {
        status = make_table(trial, error);
    }
    return status;
}

enum sim_status calibrate(struct reckon *reckon, const char *base, const char *fit_path,
                          const char *const *tables, size_t table_count, struct calibration **out,
                          struct sim_error *error)
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
    chosen_rows_finish(&trial.chosen);
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
                json_set_number(correlations, chip_number_key(calibration->fit.values[k].index),
                                solution->correlation[i][k]);
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
        json_set_string(item, "kept_at_base",
                        chip_number_key(calibration->fit.values[direction->fixed].index));
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
