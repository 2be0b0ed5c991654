#include "calib/calibrate.h"
#include "calib/workers.h"
#include "sim/core/data_path.h"
#include "sim/core/json.h"
#include "sim/core/rng.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct answer { /* of one row, written by a worker */
    enum sim_status status;
    double predicted;
    char error[SIM_ERROR_TEXT_CAPACITY];
};

struct trial { /* one device whose numbers are changed, and the rows it is held to */
    struct reckon *reckon; /* with one process: rows run side by side already */
    struct reckon_device *device;
    struct calibration *calibration;
    struct chosen_rows chosen;
    uint32_t jobs;
    char folder[64];              /* of one table a row */
    double seconds[FIT_ROWS_MAX]; /* a row's cost when it was first predicted */
    double disturb;               /* of each value, for a rehearsal; 0: none */
    uint64_t seed;
    const struct fit_task *tasks; /* of the run in progress */
    const size_t *order;          /* [task count], the longest first */
    struct answer *answers;       /* shared with the workers */
};

/* ---- the model that is fitted */

static void row_path(const struct trial *trial, size_t r, char path[96])
{
    snprintf(path, 96, "%s/%zu.csv", trial->folder, r);
}

static enum sim_status predict_row(struct trial *trial, size_t r, struct reckon_validation **validation,
                                   struct sim_error *error)
{
    char text[96];
    const char *path = text;
    row_path(trial, r, text);
    struct reckon_validate_request request = { .paths = &path,
                                               .path_count = 1,
                                               .window_requests = trial->calibration->fit.window_requests };
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

static enum sim_status check_row(const struct reckon_validate_row *row, struct sim_error *error)
{
    return row->skipped == NULL
               ? SIM_OK
               : sim_fail(error, SIM_UNSUPPORTED, "%s/%s %s cannot be predicted, so no fit can use it: %s",
                          row->suite, row->kernel, row->params, row->skipped);
}

static void run_task(void *context, size_t index)
{
    struct trial *trial = context;
    const struct fit_task *task = &trial->tasks[trial->order[index]];
    struct answer *answer = &trial->answers[trial->order[index]];
    struct reckon_validation *validation = NULL;
    struct sim_error error = { 0 };
    set_values(trial, task->values);
    answer->status = predict_row(trial, task->row, &validation, &error);
    if (answer->status == SIM_OK) {
        answer->status = check_row(&validation->rows[0], &error);
        answer->predicted = validation->rows[0].predicted;
    }
    snprintf(answer->error, sizeof answer->error, "%s", error.text);
    reckon_validation_free(validation);
}

static void order_by_cost(const struct trial *trial, size_t count, size_t *order)
{
    size_t filled = 0, rows[FIT_ROWS_MAX], row_count = trial->calibration->row_count;
    for (size_t r = 0; r < row_count; r++) { /* insertion: rows are few */
        size_t at = r;
        for (; at > 0 && trial->seconds[rows[at - 1]] < trial->seconds[r]; at--) {
            rows[at] = rows[at - 1];
        }
        rows[at] = r;
    }
    for (size_t k = 0; k < row_count; k++) {
        for (size_t t = 0; t < count; t++) {
            if (trial->tasks[t].row == rows[k]) {
                order[filled++] = t;
            }
        }
    }
}

static enum sim_status residuals_of(void *context, const struct fit_task *tasks, size_t task_count,
                                    double *residuals, struct sim_error *error)
{
    struct trial *trial = context;
    enum sim_status status = SIM_OK;
    size_t bytes = task_count * sizeof(struct answer), *order = malloc((task_count + 1) * sizeof *order);
    SIM_ASSERT(order != NULL, "no memory for %zu tasks", task_count);
    trial->tasks = tasks;
    trial->order = order;
    trial->answers = workers_share(bytes);
    order_by_cost(trial, task_count, order);
    workers_run(trial->jobs, task_count, run_task, trial);
    for (size_t t = 0; t < task_count; t++) {
        const struct answer *answer = &trial->answers[t];
        residuals[t] = answer->predicted / trial->calibration->rows[tasks[t].row].measured - 1;
        if (status == SIM_OK && answer->status != SIM_OK) {
            status = sim_fail(error, answer->status, "%s", answer->error);
        }
    }
    workers_unshare(trial->answers, bytes);
    free(order);
    return status;
}

/* ---- set-up */

/* Name and measured figure of each row, as the simulator reads them; also the first look whether all can be predicted. */
static enum sim_status read_rows(struct trial *trial, struct sim_error *error)
{
    struct calibration *calibration = trial->calibration;
    enum sim_status status = SIM_OK;
    for (size_t r = 0; status == SIM_OK && r < trial->chosen.count; r++) {
        struct reckon_validation *validation = NULL;
        status = predict_row(trial, r, &validation, error);
        if (status == SIM_OK && validation->row_count != 1) {
            status = sim_fail(error, SIM_BAD_FILE, "row '%s' is no measurement", trial->chosen.line[r]);
        }
        if (status == SIM_OK) {
            const struct reckon_validate_row *row = &validation->rows[0];
            struct calibration_row *kept = &calibration->rows[calibration->row_count++];
            snprintf(kept->suite, sizeof kept->suite, "%s", row->suite);
            snprintf(kept->kernel, sizeof kept->kernel, "%s", row->kernel);
            snprintf(kept->unit, sizeof kept->unit, "%s", row->unit);
            kept->params = strdup(row->params);
            SIM_ASSERT(kept->params != NULL, "no memory for a row");
            kept->measured = calibration->rehearsal ? row->predicted : row->measured;
            kept->weight = trial->chosen.weight[r];
            trial->seconds[r] = row->seconds;
            status = check_row(row, error);
        }
        reckon_validation_free(validation);
    }
    return status;
}

/* Values of one section move much the same rows. */
static uint32_t section_of(enum chip_number index)
{
    const char *key = chip_number_key(index);
    uint32_t hash = 2166136261u;
    for (; *key != '.'; key++) {
        hash = (hash ^ (unsigned char)*key) * 16777619u;
    }
    return hash;
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

/* Move every value off its base, within a range that holds such a move both ways. */
static void disturb(struct fit_value *values, size_t count, double share, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed, "calibration rehearsal");
    for (size_t i = 0; i < count; i++) {
        double base = values[i].start;
        values[i].low = fmin(values[i].low, base * (1 - share));
        values[i].high = fmax(values[i].high, base * (1 + share));
        values[i].start = base * (rng_uniform(&rng) < 0.5 ? 1 - share : 1 + share);
    }
}

static enum sim_status make_tables(struct trial *trial, struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    strcpy(trial->folder, "/tmp/reckon-fit-XXXXXX");
    if (mkdtemp(trial->folder) == NULL) {
        trial->folder[0] = '\0';
        return sim_fail(error, SIM_BAD_FILE, "/tmp: no temporary folder: %s", strerror(errno));
    }
    for (size_t r = 0; status == SIM_OK && r < trial->chosen.count; r++) {
        struct chosen_rows one = { .count = 1, .line = { trial->chosen.line[r] } };
        char path[96];
        row_path(trial, r, path);
        status = chosen_rows_write(&one, path, error);
    }
    return status;
}

static void remove_tables(const struct trial *trial)
{
    for (size_t r = 0; trial->folder[0] != '\0' && r < trial->chosen.count; r++) {
        char path[96];
        row_path(trial, r, path);
        unlink(path);
    }
    if (trial->folder[0] != '\0') {
        rmdir(trial->folder);
    }
}

static enum sim_status run(struct trial *trial, struct sim_error *error)
{
    struct calibration *calibration = trial->calibration;
    struct fit_value values[FIT_VALUES_MAX];
    uint32_t groups[FIT_VALUES_MAX];
    double trust[FIT_ROWS_MAX];
    struct fit_task all[FIT_ROWS_MAX];
    enum sim_status status = set_problem(calibration, reckon_device_chip(trial->device), values,
                                         calibration->base_value, error);
    if (status == SIM_OK) {
        status = read_rows(trial, error);
    }
    if (status == SIM_OK && calibration->rehearsal) {
        disturb(values, calibration->fit.value_count, trial->disturb, trial->seed);
        for (size_t i = 0; i < calibration->fit.value_count; i++) { /* what is printed beside the values */
            calibration->fit.values[i].low = values[i].low;
            calibration->fit.values[i].high = values[i].high;
        }
    }
    for (size_t i = 0; i < calibration->fit.value_count; i++) {
        calibration->start_value[i] = values[i].start;
    }
    for (size_t i = 0; i < calibration->fit.value_count; i++) {
        groups[i] = section_of(calibration->fit.values[i].index);
    }
    for (size_t r = 0; r < calibration->row_count; r++) {
        trust[r] = calibration->rows[r].weight;
        all[r] = (struct fit_task){ r, calibration->solution.value };
    }
    struct fit_problem problem = { .value_count = calibration->fit.value_count,
                                   .row_count = calibration->row_count,
                                   .values = values,
                                   .group = groups,
                                   .trust = trust,
                                   .residuals = residuals_of,
                                   .context = trial,
                                   .iterations_max = calibration->fit.iterations_max };
    if (status == SIM_OK) {
        status = fit_solve(&problem, &calibration->solution, error);
    }
    if (status == SIM_OK) { /* what is reported is simulated at the values that are written, not remembered */
        status = residuals_of(trial, all, calibration->row_count, calibration->solution.residual, error);
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
        status = chosen_rows_read(tables, table_count, &calibration->fit,
                                  reckon_device_chip(trial->device)->trace_names, &trial->chosen, error);
    }
    if (status == SIM_OK) {
        status = make_tables(trial, error);
    }
    return status;
}

static enum sim_status calibrate_rows(const struct reckon_options *options, const char *base, const char *fit_path,
                                      const char *const *tables, size_t table_count, double share, struct calibration **out,
                                      struct sim_error *error)
{
    struct trial trial = { .calibration = calloc(1, sizeof(struct calibration)),
                           .jobs = workers_jobs(options->jobs),
                           .disturb = share,
                           .seed = options->seed };
    struct reckon_options alone = *options;
    alone.jobs = 1;
    alone.progress = NULL;
    *out = NULL;
    if (trial.calibration == NULL) {
        return sim_fail(error, SIM_NO_MEMORY, "no memory for a calibration");
    }
    trial.calibration->rehearsal = share > 0;
    enum sim_status status = reckon_create(&alone, &trial.reckon, error);
    if (status == SIM_OK) {
        status = open_all(&trial, base, fit_path, tables, table_count, error);
    }
    if (status == SIM_OK) {
        status = run(&trial, error);
    }
    remove_tables(&trial);
    chosen_rows_finish(&trial.chosen);
    reckon_device_close(trial.device);
    reckon_destroy(trial.reckon);
    if (status == SIM_OK) {
        *out = trial.calibration;
    } else {
        calibration_destroy(trial.calibration);
    }
    return status;
}

enum sim_status calibrate(const struct reckon_options *options, const char *base, const char *fit_path,
                          const char *const *tables, size_t table_count, struct calibration **out,
                          struct sim_error *error)
{
    return calibrate_rows(options, base, fit_path, tables, table_count, 0, out, error);
}

enum sim_status calibrate_rehearse(const struct reckon_options *options, const char *base, const char *fit_path,
                                   const char *const *tables, size_t table_count, double share, struct calibration **out,
                                   struct sim_error *error)
{
    SIM_ASSERT(share > 0 && share < 1, "values disturbed by %g of themselves", share);
    return calibrate_rows(options, base, fit_path, tables, table_count, share, out, error);
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
        json_set_number(item, "start", calibration->start_value[i]);
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
    json_set_bool(object, "rehearsal", calibration->rehearsal);
    json_set_number(object, "scatter", calibration->solution.scatter);
    json_set_integer(object, "iterations", calibration->solution.iterations);
    json_set_integer(object, "evaluations", calibration->solution.evaluations);
    json_set(object, "values", values_json(calibration));
    json_set(object, "not_identified", directions_json(calibration));
    json_set(object, "rows", rows_json(calibration));
    return object;
}
