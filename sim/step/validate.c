/* Predictions against measured rows: each row priced as `kernel` or `predict` would, through the harness profile that
 * covers its suite, and the errors summed up per suite. */
#include "sim/core/data_path.h"
#include "sim/fabric/fabric_rows.h"
#include "sim/reckon.h"
#include "sim/step/overlap.h"
#include "sim/step/memory.h"
#include "sim/step/model_route.h"
#include "sim/step/parallel.h"
#include "sim/step/params_text.h"
#include "sim/step/session.h"
#include "sim/step/table_rows.h"
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum row_kind { ROW_KERNEL, ROW_COLLECTIVE, ROW_OVERLAP, ROW_STEP, ROW_STEP_MODEL, ROW_MEMORY };

struct row_task {
    enum row_kind kind;
    size_t row;                          /* in validation->rows */
    struct kernel_price_request request; /* ROW_KERNEL; of ROW_COLLECTIVE only the names */
    char *params;                        /* backing of request.params; owned */
    const struct harness_profile *harness;
    const struct harness_coverage *coverage;
    bool by_value;       /* the table's value is compared, not its time */
    char *trace_pattern; /* ROW_STEP; owned */
    const struct step_row *step; /* ROW_STEP_MODEL, ROW_MEMORY */
};

struct row_outcome { /* written by workers */
    enum sim_status status;
    double predicted, seconds;
    char error[SIM_ERROR_TEXT_CAPACITY];
};

struct validation_build {
    struct reckon *reckon;
    const struct reckon_device *device;
    uint64_t window_requests;
    struct reckon_validation *validation;
    struct measured_table table;
    struct harness_profile *harnesses;
    size_t harness_count;
    enum reckon_route route;
    struct row_task *tasks; /* steps first: they are the longest */
    size_t task_count;
    struct row_outcome *outcomes; /* [task_count], shared with the workers */
};

static char *copied(const char *text)
{
    char *copy = strdup(text);
    SIM_ASSERT(copy != NULL, "no memory for a row");
    return copy;
}

/* ---- which rows can be predicted, and how */

static enum sim_status harnesses_read(struct validation_build *build, struct sim_error *error)
{
    struct data_names names = { 0 };
    enum sim_status status = data_path_list("devices/harness", &names, error);
    build->harnesses = calloc(names.count + 1, sizeof *build->harnesses);
    SIM_ASSERT(build->harnesses != NULL, "no memory for %zu harnesses", names.count);
    for (size_t i = 0; status == SIM_OK && i < names.count; i++) {
        status = session_harness_read(names.name[i], &build->harnesses[i], error);
        build->harness_count = i + 1;
    }
    data_names_finish(&names);
    return status;
}

/* A kernel's own entry wins over its suite's, whichever file holds it; among equals the first file by name. */
static const struct harness_profile *harness_for(const struct validation_build *build, const char *suite,
                                                 const char *kernel, const char *library,
                                                 const struct harness_coverage **coverage)
{
    const struct harness_profile *best = NULL;
    for (size_t i = 0; i < build->harness_count; i++) {
        const struct harness_coverage *found = harness_covers(&build->harnesses[i], suite, kernel, library);
        if (found != NULL && (best == NULL || (found->kernel[0] != '\0' && (*coverage)->kernel[0] == '\0'))) {
            best = &build->harnesses[i];
            *coverage = found;
        }
    }
    return best;
}

/* `library=` says which library was timed: it chooses the harness and is no parameter of the kernel. */
static char *without_library(const char *params, char library[32])
{
    char *kept = copied(params), *out = kept;
    library[0] = '\0';
    for (const char *at = params; *at != '\0';) {
        size_t length = strcspn(at, ";");
        if (strncmp(at, "library=", 8) == 0) {
            snprintf(library, 32, "%.*s", (int)(length - 8), at + 8);
        } else if (length > 0) {
            if (out != kept) {
                *out++ = ';';
            }
            memcpy(out, at, length);
            out += length;
        }
        at += length + (at[length] == ';' ? 1 : 0);
    }
    *out = '\0';
    return kept;
}

static struct reckon_validate_row *row_add(struct reckon_validation *validation, const char *suite,
                                           const char *kernel, const char *params, double measured,
                                           const char *unit)
{
    struct reckon_validate_row *rows = realloc(validation->rows, (validation->row_count + 1) * sizeof *rows);
    SIM_ASSERT(rows != NULL, "no memory for %zu rows", validation->row_count);
    validation->rows = rows;
    struct reckon_validate_row *row = &rows[validation->row_count++];
    *row = (struct reckon_validate_row){ .measured = measured, .predicted = NAN, .error = NAN };
    snprintf(row->suite, sizeof row->suite, "%s", suite);
    snprintf(row->kernel, sizeof row->kernel, "%s", kernel);
    snprintf(row->unit, sizeof row->unit, "%s", unit);
    row->params = copied(params);
    return row;
}

static void row_skip(struct reckon_validate_row *row, const char *why)
{
    free(row->skipped);
    row->skipped = copied(why);
}

static void add_kernel_task(struct validation_build *build, const struct table_row *measured)
{
    char library[32], why[200];
    bool by_value = measured->time_us <= 0;
    struct reckon_validate_row *row = row_add(
        build->validation, measured->suite, measured->kernel, measured->params,
        by_value ? measured->value : measured->time_us, by_value ? measured->unit : "us");
    struct row_task task = { .kind = ROW_KERNEL,
                             .row = build->validation->row_count - 1,
                             .by_value = by_value };
    const struct harness_coverage *coverage = NULL;
    if (fabric_rows_cover(measured->suite)) {
        task.kind = ROW_COLLECTIVE;
    } else if (overlap_rows_cover(measured->suite, measured->kernel)) {
        task.kind = ROW_OVERLAP;
    } else if (!kernel_is_registered(measured->suite, measured->kernel)) {
        snprintf(why, sizeof why, "no program for %s/%s yet", measured->suite, measured->kernel);
        row_skip(row, why);
        return;
    }
    task.params = without_library(measured->params, library);
    if (task.kind == ROW_COLLECTIVE) { /* the fabric reads the library itself */
        free(task.params);
        task.params = copied(measured->params);
    }
    task.harness = harness_for(build, measured->suite, measured->kernel, library[0] != '\0' ? library : NULL,
                               &coverage);
    if (task.harness == NULL) {
        snprintf(why, sizeof why, "no harness profile covers suite %s%s%s", measured->suite,
                 library[0] != '\0' ? ", library " : "", library);
        row_skip(row, why);
        free(task.params);
        return;
    }
    task.coverage = coverage;
    char *params = params_with_defaults(task.params, coverage->params);
    free(task.params);
    task.params = params;
    task.request = (struct kernel_price_request){
        .suite = measured->suite,
        .kernel = measured->kernel,
        .params = task.params,
        .library = harness_library(task.harness, library),
        .cache = coverage->cache,
        .loop = coverage->loop,
        .window_requests = build->window_requests
    };
    build->tasks[build->task_count++] = task;
}

static char *trace_pattern_of(const struct step_row *step)
{
    const char *slash = strrchr(step->path, '/');
    char *pattern = NULL;
    SIM_ASSERT(asprintf(&pattern, "%.*straces/%s_w%u_r*.kineto.json.gz",
                        slash != NULL ? (int)(slash - step->path + 1) : 0, step->path, step->name,
                        step->gpus) > 0,
               "no memory for a path");
    return pattern;
}

static bool any_file(const char *pattern)
{
    glob_t found = { 0 };
    bool any = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    globfree(&found);
    return any;
}

static void add_step_tasks(struct validation_build *build, const struct step_row *step)
{
    char params[256];
    snprintf(params, sizeof params, "gpus=%u;%s", step->gpus, step->params);
    struct reckon_validate_row *row = row_add(build->validation, "steps", step->name, params, step->step_ms,
                                              "ms");
    struct row_task task = { .kind = ROW_STEP,
                             .row = build->validation->row_count - 1,
                             .trace_pattern = trace_pattern_of(step),
                             .step = step };
    bool described = build->route != RECKON_ROUTE_TRACE && model_route_knows(step->name);
    if (build->route != RECKON_ROUTE_MODEL && any_file(task.trace_pattern)) {
        build->tasks[build->task_count++] = task;
    } else {
        free(task.trace_pattern);
        task.trace_pattern = NULL;
        task.kind = ROW_STEP_MODEL;
        if (described) {
            build->tasks[build->task_count++] = task;
        } else {
            row_skip(row, build->route == RECKON_ROUTE_TRACE ? "no trace of this case"
                                                             : "neither a trace nor a model description of this case");
        }
    }
    row = row_add(build->validation, "steps_memory", step->name, params, step->peak_gib, "GiB");
    if (described) {
        build->tasks[build->task_count++] = (struct row_task){ .kind = ROW_MEMORY,
                                                               .row = build->validation->row_count - 1,
                                                               .step = step };
    } else {
        row_skip(row, build->route == RECKON_ROUTE_TRACE ? "a trace does not tell the peak"
                                                         : "no model description of this case");
    }
}

static void build_tasks(struct validation_build *build)
{
    build->tasks = calloc(build->table.row_count + 2 * build->table.step_count + 1, sizeof *build->tasks);
    SIM_ASSERT(build->tasks != NULL, "no memory for %zu rows", build->table.row_count);
    for (size_t i = 0; i < build->table.step_count; i++) {
        add_step_tasks(build, &build->table.steps[i]);
    }
    for (size_t i = 0; i < build->table.row_count; i++) {
        add_kernel_task(build, &build->table.rows[i]);
    }
}

/* ---- predicting one row, in a worker */

static void run_kernel(struct validation_build *build, const struct row_task *task,
                       struct row_outcome *outcome)
{
    struct kernel_price price;
    struct kernel_price_machine machine = session_machine(build->reckon, build->device);
    kernel_price_compute(&machine, &task->request, &price);
    outcome->status = price.status;
    if (price.status != SIM_OK) {
        snprintf(outcome->error, sizeof outcome->error, "%s", price.error);
        return;
    }
    double time_us = kernel_price_measured_us(&price, &build->device->chip,
                                              harness_floor_us(task->harness, &build->device->chip),
                                              harness_interval_us(task->harness, task->coverage, price.time_is_per_call));
    time_us = fmax(time_us + task->coverage->lead_us + price.host_us, task->coverage->call_us);
    outcome->predicted = time_us;
    if (task->by_value &&
        !kernel_price_value(&price, price.value_only ? price.device_us : time_us, &outcome->predicted)) {
        outcome->status = SIM_UNSUPPORTED;
        snprintf(outcome->error, sizeof outcome->error, "the program of %s/%s gives no value",
                 task->request.suite, task->request.kernel);
    }
}

static void run_collective(struct validation_build *build, const struct row_task *task,
                           struct row_outcome *outcome)
{
    struct fabric_row_harness harness = { harness_floor_us(task->harness, &build->device->chip),
                                          task->harness->launch_interval_us };
    struct sim_error error = { 0 };
    double time_us = NAN, value = NAN;
    outcome->status = fabric_row_time(
        build->device->node, task->request.suite, task->request.kernel, task->params, &harness,
        build->reckon->options.fabric_simgrid ? FABRIC_ENGINE_SIMGRID : FABRIC_ENGINE_FLUID, &time_us, &value,
        NULL, &error);
    outcome->predicted = task->by_value ? value : time_us;
    snprintf(outcome->error, sizeof outcome->error, "%s", error.text);
}

static void run_overlap(struct validation_build *build, const struct row_task *task,
                        struct row_outcome *outcome)
{
    struct overlap_times times = { 0 };
    struct sim_error error = { 0 };
    outcome->status = overlap_row_time(build->reckon, build->device, task->request.suite,
                                       task->request.kernel, task->params, task->harness, &times, &error);
    double longer_us = fmax(times.first_alone_us, times.second_alone_us);
    outcome->predicted = task->by_value ? times.together_us / longer_us : times.together_us;
    snprintf(outcome->error, sizeof outcome->error, "%s", error.text);
}

static enum sim_status step_of_traces(struct validation_build *build, const char *pattern, double *step_ms,
                                      struct sim_error *error)
{
    struct reckon alone = { .options = build->reckon->options, .memo = price_memo_create(), .libraries = build->reckon->libraries };
    struct graph *graph = NULL;
    struct reckon_prediction *prediction = NULL;
    glob_t found = { 0 };
    alone.options.jobs = 1; /* rows run side by side already */
    alone.options.progress = NULL;
    enum sim_status status = SIM_BAD_FILE;
    if (glob(pattern, 0, NULL, &found) == 0) {
        status = reckon_graph_read(&alone, (const char *const *)found.gl_pathv, found.gl_pathc, false, &graph,
                                   error);
    }
    if (status == SIM_OK) {
        struct reckon_predict_request request = { .graph = graph };
        status = reckon_predict(&alone, build->device, &request, &prediction, error);
    }
    *step_ms = status == SIM_OK ? prediction->step_ms : NAN;
    reckon_prediction_free(prediction);
    reckon_graph_free(graph);
    globfree(&found);
    price_memo_destroy(alone.memo);
    return status;
}

/* By its model description: the time of a step, or the allocator's peak. */
static enum sim_status step_of_model(struct validation_build *build, const struct row_task *task, double *predicted,
                                     struct sim_error *error)
{
    struct reckon alone = { .options = build->reckon->options, .memo = price_memo_create(), .libraries = build->reckon->libraries };
    struct graph *graph = NULL;
    struct reckon_prediction *prediction = NULL;
    alone.options.jobs = 1;
    alone.options.progress = NULL;
    enum sim_status status = model_route_case(&alone, task->step->name, task->step->params, task->step->gpus, &graph,
                                              error);
    if (status == SIM_OK && task->kind == ROW_MEMORY) {
        struct step_memory memory;
        step_memory_measure(graph, &memory);
        *predicted = memory.peak_bytes / 1073741824.0;
    } else if (status == SIM_OK) {
        struct reckon_predict_request request = { .graph = graph };
        status = reckon_predict(&alone, build->device, &request, &prediction, error);
        if (status == SIM_OK && isnan(prediction->step_ms)) {
            status = sim_fail(error, SIM_DOES_NOT_FIT, "does not fit: %s", prediction->memory_advice);
        }
        *predicted = status == SIM_OK ? prediction->step_ms : NAN;
    }
    reckon_prediction_free(prediction);
    reckon_graph_free(graph);
    price_memo_destroy(alone.memo);
    return status;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void run_task(void *context, size_t index)
{
    struct validation_build *build = context;
    const struct row_task *task = &build->tasks[index];
    struct row_outcome *outcome = &build->outcomes[index];
    double start = seconds_now();
    if (task->kind == ROW_STEP_MODEL || task->kind == ROW_MEMORY) {
        struct sim_error error = { 0 };
        outcome->status = step_of_model(build, task, &outcome->predicted, &error);
        snprintf(outcome->error, sizeof outcome->error, "%s", error.text);
    } else if (task->kind == ROW_STEP) {
        struct sim_error error = { 0 };
        outcome->status = step_of_traces(build, task->trace_pattern, &outcome->predicted, &error);
        snprintf(outcome->error, sizeof outcome->error, "%s", error.text);
    } else if (task->kind == ROW_COLLECTIVE) {
        run_collective(build, task, outcome);
    } else if (task->kind == ROW_OVERLAP) {
        run_overlap(build, task, outcome);
    } else {
        run_kernel(build, task, outcome);
    }
    outcome->seconds = seconds_now() - start;
}

static void tick(void *context, size_t done, size_t count)
{
    const struct validation_build *build = context;
    session_progress(build->reckon, "rows", done, count);
}

static enum sim_status run_tasks(struct validation_build *build, struct sim_error *error)
{
    size_t bytes = build->task_count * sizeof *build->outcomes;
    build->outcomes = parallel_share(bytes);
    if (build->outcomes == NULL) {
        return sim_fail(error, SIM_NO_MEMORY, "no memory for %zu outcomes", build->task_count);
    }
    enum sim_status status = parallel_run(build->reckon->options.jobs, build->task_count, run_task, build,
                                          tick, build, error);
    for (size_t i = 0; status == SIM_OK && i < build->task_count; i++) {
        const struct row_outcome *outcome = &build->outcomes[i];
        struct reckon_validate_row *row = &build->validation->rows[build->tasks[i].row];
        row->seconds = outcome->seconds;
        row->cannot = outcome->status != SIM_OK;
        row->predicted = row->cannot ? NAN : outcome->predicted;
        row->error = row->cannot ? 1 : fabs(row->predicted / row->measured - 1);
        if (row->cannot) {
            row_skip(row, outcome->error);
        }
    }
    parallel_unshare(build->outcomes, bytes);
    return status;
}

/* ---- suites */

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_of(const double *sorted, size_t count)
{
    return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static void suite_measure(const struct reckon_validation *validation, struct reckon_validate_suite *suite,
                          double *errors, double *signed_errors)
{
    size_t count = 0, predicted = 0;
    for (size_t i = 0; i < validation->row_count; i++) {
        const struct reckon_validate_row *row = &validation->rows[i];
        if (strcmp(row->suite, suite->suite) != 0) {
            continue;
        }
        suite->rows++;
        suite->seconds += row->seconds;
        if (row->skipped != NULL && !row->cannot) {
            suite->skipped++;
            continue;
        }
        errors[count++] = row->error;
        if (!row->cannot) {
            signed_errors[predicted++] = row->predicted / row->measured - 1;
        }
    }
    suite->median = suite->p90 = suite->max = suite->bias = NAN;
    if (count > 0) {
        qsort(errors, count, sizeof errors[0], by_number);
        size_t rank = (size_t)ceil(0.9 * (double)count);
        suite->median = median_of(errors, count);
        suite->max = errors[count - 1];
        suite->p90 = count < 8 ? suite->max : errors[rank - 1];
    }
    if (predicted > 0) {
        qsort(signed_errors, predicted, sizeof signed_errors[0], by_number);
        suite->bias = median_of(signed_errors, predicted);
    }
}

static void fill_suites(struct reckon_validation *validation)
{
    double *errors = malloc((validation->row_count + 1) * sizeof *errors);
    double *signed_errors = malloc((validation->row_count + 1) * sizeof *signed_errors);
    validation->suites = calloc(validation->row_count + 1, sizeof *validation->suites);
    SIM_ASSERT(errors != NULL && signed_errors != NULL && validation->suites != NULL,
               "no memory for the suites");
    for (size_t i = 0; i < validation->row_count; i++) {
        size_t s = 0;
        while (s < validation->suite_count &&
               strcmp(validation->suites[s].suite, validation->rows[i].suite) != 0) {
            s++;
        }
        if (s == validation->suite_count) {
            validation->suite_count++;
            snprintf(validation->suites[s].suite, sizeof validation->suites[s].suite, "%s",
                     validation->rows[i].suite);
            suite_measure(validation, &validation->suites[s], errors, signed_errors);
        }
    }
    free(errors);
    free(signed_errors);
}

/* ---- the whole */

static void build_finish(struct validation_build *build)
{
    for (size_t i = 0; i < build->task_count; i++) {
        free(build->tasks[i].params);
        free(build->tasks[i].trace_pattern);
    }
    free(build->tasks);
    free(build->harnesses);
    measured_table_finish(&build->table);
}

enum sim_status reckon_validate(struct reckon *reckon, const struct reckon_device *device,
                                const struct reckon_validate_request *request, struct reckon_validation **out,
                                struct sim_error *error)
{
    struct validation_build build = { .reckon = reckon,
                                      .device = device, .route = request->route,
                                      .window_requests = request->window_requests };
    enum sim_status status = harnesses_read(&build, error);
    *out = NULL;
    build.validation = calloc(1, sizeof *build.validation);
    SIM_ASSERT(build.validation != NULL, "no memory for a validation");
    for (size_t i = 0; status == SIM_OK && i < request->path_count; i++) {
        status = measured_table_read(request->paths[i], &build.table, error);
    }
    if (status == SIM_OK) {
        snprintf(build.validation->device, sizeof build.validation->device, "%s", device->chip.name);
        for (size_t i = 0; i < build.table.ignored_count; i++) {
            notes_add(&build.validation->notes, "not a measurement table: %s", build.table.ignored[i]);
        }
        build_tasks(&build);
        status = run_tasks(&build, error);
    }
    if (status == SIM_OK) {
        fill_suites(build.validation);
        *out = build.validation;
    } else {
        reckon_validation_free(build.validation);
    }
    build_finish(&build);
    return status;
}

void reckon_validation_free(struct reckon_validation *validation)
{
    if (validation == NULL) {
        return;
    }
    for (size_t i = 0; i < validation->row_count; i++) {
        free(validation->rows[i].params);
        free(validation->rows[i].skipped);
    }
    free(validation->rows);
    free(validation->suites);
    notes_free(&validation->notes);
    free(validation);
}
