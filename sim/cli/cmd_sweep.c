/* reckon sweep STUDY.json --db FILE: prices the points of a study and prints its front. */
#include "reckon_version.h"
#include "sim/cli/cli.h"
#include "sim/step/parallel.h"
#include "studies/mpi.h"
#include "studies/sweep.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTION_DB = 0x2000, OPTION_CSV, OPTION_TOP };

#define REASONS_SHOWN 8
#define FRONT_SHOWN 20
#define INTERVAL_WIDTH 18
#define PROGRESS_AFTER_S 2.0
#define PROGRESS_EVERY_S 0.5

static const char doc[] =
    "Prices every point of a study (docs/studies.md), or searches it, and keeps the results in an SQLite file. A sweep that was "
    "ended, however, goes on where it was when it is started again. Under mpirun every rank is a worker, on one machine or "
    "many; the file has the same bytes whatever the number of workers. Exits with 2 where no point is feasible.\v"
    "Examples:\n  reckon sweep studies/examples/mlperf_dlrm_v2.json --db mlperf.db \\\n    --csv mlperf.csv\n"
    "  mpirun -n 8 reckon sweep studies/examples/mlperf_dlrm_v2.json --db mlperf.db\n"
    "  reckon sweep tests/fixtures/studies/tiny.json --db tiny.db \\\n    --uncertainty 32 --html tiny.html\n"
    "  sqlite3 mlperf.db 'select settings, examples_per_s from point where pareto'";

static const struct argp_option options[] = {
    { "db", OPTION_DB, "FILE", 0, "the store: made, or gone on with", 1 },
    { "csv", OPTION_CSV, "FILE", 0, "all points as CSV too", 1 },
    { "top", OPTION_TOP, "N", 0, "rows of the front that are printed (default 20)", 1 },
    { 0 },
};

struct arguments {
    struct cli_common common;
    const char *study, *database, *csv;
    size_t top;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct cli_common *common = &arguments->common;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = common; return 0;
    case OPTION_DB: arguments->database = cli_output_name(common, "--db", argument); return 0;
    case OPTION_CSV: arguments->csv = cli_output(common, "--csv", argument); return 0;
    case OPTION_TOP: arguments->top = (size_t)cli_integer(common, "--top", argument, 0, 1000000); return 0;
    case ARGP_KEY_ARG:
        if (arguments->study != NULL) {
            cli_usage_error(common, "'%s': one study at a time", argument);
        }
        arguments->study = argument;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- progress */

static void duration_text(double seconds, char *text, size_t capacity)
{
    unsigned long whole = seconds < 360000 ? (unsigned long)(seconds + 0.5) : 360000;
    if (whole >= 3600) {
        snprintf(text, capacity, "%lu:%02lu:%02lu", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        snprintf(text, capacity, "%lu:%02lu", whole / 60, whole % 60);
    }
}

static void show_progress(void *context, const struct sweep_progress *progress)
{
    double *shown = context;
    char left[32] = "?";
    if (progress->seconds < PROGRESS_AFTER_S || progress->seconds - *shown < PROGRESS_EVERY_S) {
        return;
    }
    *shown = progress->seconds;
    if (isfinite(progress->seconds_left)) {
        duration_text(progress->seconds_left, left, sizeof left);
    }
    fprintf(stderr, "\r\033[Kpoints: %zu of %zu, %zu infeasible; %.0f%% of prices known; %s left", progress->done, progress->total,
            progress->infeasible, progress->asked > 0 ? 100 * (double)progress->found / (double)progress->asked : 0, left);
    fflush(stderr);
}

/* ---- results */

/* Reasons with their numbers left out, so that points that fail alike count as one. */
static void reason_kind(const char *reason, char *text, size_t capacity)
{
    size_t used = 0;
    for (size_t i = 0; reason[i] != '\0' && reason[i] != ';' && used + 1 < capacity; i++) {
        bool digit = (reason[i] >= '0' && reason[i] <= '9') || (reason[i] == '.' && used > 0 && text[used - 1] == 'N');
        if (!digit) {
            text[used++] = reason[i];
        } else if (used == 0 || text[used - 1] != 'N') {
            text[used++] = 'N';
        }
    }
    text[used] = '\0';
}

struct reason_count {
    char text[160];
    size_t count;
};

static size_t count_reasons(const struct sweep_result *result, struct reason_count *reasons)
{
    size_t count = 0;
    for (size_t r = 0; r < result->record_count; r++) {
        char text[160];
        size_t k = 0;
        if (result->records[r].status != RECORD_INFEASIBLE) {
            continue;
        }
        reason_kind(result->records[r].reason, text, sizeof text);
        while (k < count && strcmp(reasons[k].text, text) != 0) {
            k++;
        }
        if (k == REASONS_SHOWN) {
            k = REASONS_SHOWN - 1; /* the last also counts the rest */
            snprintf(reasons[k].text, sizeof reasons[k].text, "other reasons");
        } else if (k == count) {
            snprintf(reasons[k].text, sizeof reasons[k].text, "%s", text);
            count++;
        }
        reasons[k].count++;
    }
    return count;
}

/* A record with samples: its times are their medians, as everywhere; what power makes of it stays as it is. */
static struct study_record at_median(const struct sweep_result *result, size_t r)
{
    struct study_record record = result->records[r];
    if (result->step_ms != NULL && isfinite(result->step_ms[r].median)) {
        double slower = result->step_ms[r].median / record.metric[METRIC_STEP_MS];
        record.metric[METRIC_STEP_MS] = result->step_ms[r].median;
        record.metric[METRIC_EXAMPLES] /= slower;
        record.metric[METRIC_EXAMPLES_GPU] /= slower;
        record.metric[METRIC_EXAMPLES_WATT] /= slower;
        record.metric[METRIC_EXAMPLES_COST] /= slower;
    }
    return record;
}

static void print_record(const struct study *study, const struct sweep_result *result, size_t r)
{
    char settings[2048];
    struct study_record median = at_median(result, r);
    const struct study_record *record = &median;
    struct study_point point;
    study_point_at(study, record->point, &point);
    study_point_text(&point, settings, sizeof settings);
    char interval[64] = "";
    if (result->step_ms != NULL) {
        snprintf(interval, sizeof interval, "[%.4g, %.4g]", result->step_ms[r].low, result->step_ms[r].high);
    }
    printf("  %-8u %-12s %14.6g %12.5g %10.4g %*s%9.4g %10.4g  %s%s%s\n", record->point, point.device,
           record->metric[METRIC_EXAMPLES], record->metric[METRIC_EXAMPLES_GPU], record->metric[METRIC_STEP_MS],
           result->step_ms != NULL ? -INTERVAL_WIDTH : 0, interval, record->metric[METRIC_MEMORY_GIB], record->metric[METRIC_EXPOSED_COMM_MS], settings, point.node != NULL ? " node=" : "",
           point.node != NULL ? point.node : "");
}

static void print_table(const struct study *study, const struct sweep_result *result, const bool *front, size_t top)
{
    size_t shown = 0, all = 0;
    printf("  %-8s %-12s %14s %12s %10s %*s%9s %10s  %s\n", "point", "device", "examples/s", "per GPU", "step ms",
           result->step_ms != NULL ? -INTERVAL_WIDTH : 0, result->step_ms != NULL ? "80% of it" : "", "GiB", "exposed ms", "settings");
    for (size_t r = 0; r < result->record_count; r++) {
        all += front[r];
        if (front[r] && shown < top) {
            print_record(study, result, r);
            shown++;
        }
    }
    if (all > shown) {
        printf("  and %zu more (--top %zu)\n", all - shown, all);
    }
}

static void print_text(const struct arguments *arguments, const struct study *study, const struct sweep_result *result)
{
    struct reason_count reasons[REASONS_SHOWN] = { 0 };
    size_t reason_count = count_reasons(result, reasons);
    printf("%s: %zu points, %zu tried (%zu now in %.1f s, %zu before), %zu feasible, %zu infeasible\n", study->name, result->points,
           result->record_count, result->now, result->seconds, result->before, result->feasible, result->infeasible);
    if (result->asked > 0) {
        printf("prices of kernels: %llu asked for, %llu known already (%.1f%%), %llu simulated\n", (unsigned long long)result->asked,
               (unsigned long long)result->found, 100 * (double)result->found / (double)result->asked,
               (unsigned long long)(result->asked - result->found));
    }
    for (size_t k = 0; k < reason_count; k++) {
        printf("  infeasible x%zu: %s\n", reasons[k].count, reasons[k].text);
    }
    if (result->best != SIZE_MAX) {
        printf("\nbest by %s of %zu tried\n", metric_text(study->search_objective), result->record_count);
        bool *only = calloc(result->record_count + 1, sizeof *only);
        SIM_ASSERT(only != NULL, "no memory to print");
        only[result->best] = true;
        print_table(study, result, only, 1);
        free(only);
    }
    if (result->feasible == 0) {
        return; /* finish_sweep says so */
    }
    printf("\nfront of");
    for (size_t i = 0; i < study->objective_count; i++) {
        printf("%s %s %s", i > 0 ? "," : "", metric_better(study->objectives[i]) > 0 ? "most" : "least",
               metric_text(study->objectives[i]));
    }
    printf(", over all devices\n");
    print_table(study, result, result->front, arguments->top);
}

/* Throughput is work over the step's time, so its ends are the step's the other way round. */
static void add_intervals(struct json *object, const struct study_record *record, const struct sweep_interval *step)
{
    static const enum metric of_time[] = { METRIC_EXAMPLES, METRIC_EXAMPLES_GPU, METRIC_EXAMPLES_COST };
    char key[64];
    json_set_number(object, "step_ms_low", step->low);
    json_set_number(object, "step_ms_high", step->high);
    for (size_t k = 0; k < sizeof of_time / sizeof of_time[0]; k++) {
        double value = record->metric[of_time[k]];
        if (isfinite(value)) {
            snprintf(key, sizeof key, "%s_low", metric_text(of_time[k]));
            json_set_number(object, key, value * step->median / step->high);
            snprintf(key, sizeof key, "%s_high", metric_text(of_time[k]));
            json_set_number(object, key, value * step->median / step->low);
        }
    }
}

static struct json *record_json(const struct study *study, const struct sweep_result *result, size_t r)
{
    struct study_record median = at_median(result, r);
    const struct study_record *record = &median;
    struct json *object = json_new_object(), *settings = json_new_object();
    struct study_point point;
    study_point_at(study, record->point, &point);
    json_set_integer(object, "point", record->point);
    json_set_string(object, "device", point.device);
    for (size_t i = 0; i < point.setting_count; i++) {
        json_set_string(settings, point.keys[i], point.values[i]);
    }
    json_set(object, "settings", settings);
    for (int m = 0; m < METRICS; m++) {
        if (isfinite(record->metric[m])) {
            json_set_number(object, metric_text((enum metric)m), record->metric[m]);
        } else {
            json_set_null(object, metric_text((enum metric)m));
        }
    }
    json_set_bool(object, "pareto", result->front[r]);
    json_set_bool(object, "pareto_device", result->device_front[r]);
    if (result->step_ms != NULL) {
        add_intervals(object, record, &result->step_ms[r]);
    }
    return object;
}

static struct json *notes_json(const struct study *study, const struct sweep_result *result)
{
    struct json *notes = json_new_array();
    char text[240];
    json_append_string(notes, result->step_ms != NULL
                                  ? "points of the fronts: median and 80% interval of the samples; which points these are was decided at the "
                                    "profiles' own values"
                                  : "every point is the whole step played at the profiles' own values: --uncertainty N gives the fronts' intervals");
    if (study->window_requests > 0) {
        snprintf(text, sizeof text, "kernels are simulated for %llu line requests and extrapolated, as the study asks: coarser than predict",
                 (unsigned long long)study->window_requests);
        json_append_string(notes, text);
    }
    for (size_t c = 0; c < study->constraint_count; c++) {
        const struct study_constraint *limit = &study->constraints[c];
        if (isfinite(limit->min) && isfinite(limit->max)) {
            snprintf(text, sizeof text, "constraint: %s from %g to %g", metric_text(limit->metric), limit->min, limit->max);
        } else {
            snprintf(text, sizeof text, "constraint: %s at %s %g", metric_text(limit->metric), isfinite(limit->min) ? "least" : "most",
                     isfinite(limit->min) ? limit->min : limit->max);
        }
        json_append_string(notes, text);
    }
    if (result->record_count < result->points) {
        json_append_string(notes, "a search tried some of the points: one that it never tried may be better");
    }
    return notes;
}

static struct json *answer_json(const struct arguments *arguments, const struct study *study, const struct sweep_result *result)
{
    struct json *object = json_new_object(), *front = json_new_array(), *list = json_new_array(), *memo = json_new_object();
    struct json *objectives = json_new_array();
    struct reason_count reasons[REASONS_SHOWN] = { 0 };
    size_t reason_count = count_reasons(result, reasons);
    json_set_string(object, "schema", "reckon.sweep/1");
    json_set_string(object, "study", study->name);
    json_set_string(object, "db", arguments->database);
    for (size_t i = 0; i < study->objective_count; i++) {
        json_append_string(objectives, metric_text(study->objectives[i]));
    }
    json_set(object, "objectives", objectives);
    json_set_integer(object, "samples", arguments->common.uncertainty);
    json_set_integer(object, "points", (int64_t)result->points);
    json_set_integer(object, "tried", (int64_t)result->record_count);
    json_set_integer(object, "tried_before", (int64_t)result->before);
    json_set_integer(object, "feasible", (int64_t)result->feasible);
    json_set_integer(object, "infeasible", (int64_t)result->infeasible);
    for (size_t k = 0; k < reason_count; k++) {
        struct json *entry = json_new_object();
        json_set_string(entry, "reason", reasons[k].text);
        json_set_integer(entry, "count", (int64_t)reasons[k].count);
        json_append(list, entry);
    }
    json_set(object, "reasons", list);
    json_set_integer(memo, "asked", (int64_t)result->asked);
    json_set_integer(memo, "found", (int64_t)result->found);
    json_set(object, "prices", memo);
    for (size_t r = 0; r < result->record_count; r++) {
        if (result->front[r] || result->device_front[r]) {
            json_append(front, record_json(study, result, r));
        }
    }
    json_set(object, "front", front);
    if (result->best != SIZE_MAX) {
        json_set(object, "best", record_json(study, result, result->best));
    } else {
        json_set_null(object, "best");
    }
    json_set(object, "notes", notes_json(study, result));
    return object;
}

/* ---- the command */

/* Nothing that was tried can be: which reason is most frequent, and where the others are. */
static int fail_infeasible(const struct arguments *arguments, const struct study *study, const struct sweep_result *result)
{
    struct reason_count reasons[REASONS_SHOWN] = { 0 };
    size_t count = count_reasons(result, reasons), most = 0;
    struct sim_error error = { 0 };
    for (size_t k = 1; k < count; k++) {
        most = reasons[k].count > reasons[most].count ? k : most;
    }
    const struct study_record *example = NULL;
    for (size_t r = 0; r < result->record_count && example == NULL; r++) {
        char text[160];
        reason_kind(result->records[r].reason, text, sizeof text);
        example = strcmp(text, reasons[most].text) == 0 ? &result->records[r] : NULL;
    }
    sim_fail(&error, SIM_DOES_NOT_FIT, "%s: none of the %zu points tried is feasible; %zu of them: %.160s; the reason of each is in %s",
             study->path, result->record_count, reasons[most].count, example != NULL ? example->reason : reasons[most].text,
             arguments->database);
    return cli_fail(&arguments->common, &error);
}

/* With the profiles of the devices that were tried. */
static enum sim_status write_page(const struct arguments *arguments, const struct study *study, const struct sweep_result *result,
                                  const struct json *document, struct sim_error *error)
{
    struct reckon *reckon = NULL;
    struct reckon_device *devices[CLI_DEVICES_MAX];
    const struct chip_profile *chips[CLI_DEVICES_MAX];
    const char *names[CLI_DEVICES_MAX];
    size_t count = 0;
    if (arguments->common.html == NULL) {
        return SIM_OK;
    }
    enum sim_status status = reckon_create(&arguments->common.options, &reckon, error);
    for (size_t r = 0; status == SIM_OK && r < result->record_count && count < CLI_DEVICES_MAX; r++) {
        struct study_point point;
        size_t seen = 0;
        study_point_at(study, result->records[r].point, &point);
        while (seen < count && strcmp(names[seen], point.device) != 0) {
            seen++;
        }
        if (seen == count) {
            names[count] = point.device;
            status = reckon_device_open(reckon, point.device, point.node, &devices[count], error);
            if (status == SIM_OK) {
                chips[count] = reckon_device_chip(devices[count]);
                count++;
            }
        }
    }
    if (status == SIM_OK) {
        status = cli_write_page_of(&arguments->common, chips, count, document, error);
    }
    for (size_t i = 0; i < count; i++) {
        reckon_device_close(devices[i]);
    }
    reckon_destroy(reckon);
    return status;
}

static int finish_sweep(struct arguments *arguments, const struct study *study, const struct sweep_result *result)
{
    struct sim_error error = { 0 };
    if (arguments->csv != NULL && sweep_write_csv(study, result, arguments->csv, &error) != SIM_OK) {
        return cli_fail(&arguments->common, &error);
    }
    struct json *document = answer_json(arguments, study, result);
    if (write_page(arguments, study, result, document, &error) != SIM_OK) {
        json_destroy(document);
        return cli_fail(&arguments->common, &error);
    }
    if (arguments->common.json) {
        cli_print_json(document);
    } else {
        json_destroy(document);
        print_text(arguments, study, result);
    }
    if (result->feasible == 0) {
        return fail_infeasible(arguments, study, result);
    }
    if (study->has_search && result->best == SIZE_MAX) {
        sim_fail(&error, SIM_UNSUPPORTED, "%s: %s is not known of any of the %zu feasible points", study->path,
                 metric_text(study->search_objective), result->feasible);
        return cli_fail(&arguments->common, &error);
    }
    return 0;
}

static int sweep(struct arguments *arguments)
{
    struct sim_error error = { 0 };
    struct study *study = NULL;
    struct sweep_result result = { 0 };
    double shown = 0;
    bool first = mpi_rank() == 0, terminal = first && !arguments->common.quiet && isatty(STDERR_FILENO);
    struct sweep_options sweep_options = { .session = arguments->common.options,
                                           .program = RECKON_VERSION " " RECKON_COMMIT,
                                           .database = arguments->database,
                                           .samples = arguments->common.uncertainty,
                                           .progress = terminal ? show_progress : NULL,
                                           .progress_context = &shown };
    enum sim_status status = study_read(arguments->study, &study, &error);
    if (status == SIM_OK) {
        status = sweep_run(study, &sweep_options, &result, &error);
    }
    if (shown > 0) {
        fprintf(stderr, "\r\033[K");
    }
    int code = status != SIM_OK && first ? cli_fail(&arguments->common, &error) : sim_status_exit_code(status);
    if (status == SIM_OK && first) {
        code = finish_sweep(arguments, study, &result);
    }
    sweep_result_finish(&result);
    study_destroy(study);
    return code;
}

int cmd_sweep(int argc, char **argv)
{
    static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 90 }, { 0 } };
    static const struct argp argp = { options, parse, "STUDY.json", doc, children, NULL, NULL };
    struct arguments arguments = { .common = { .command = argv[0], .options = { .seed = 1 }, .has_html = true, .has_intervals = true, .names_devices = "the study names its devices" }, .top = FRONT_SHOWN };
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    if (arguments.study == NULL) {
        cli_usage_error(&arguments.common, "a study is needed (docs/studies.md)");
    }
    if (arguments.database == NULL) {
        cli_usage_error(&arguments.common, "--db FILE is needed: where the results are kept");
    }
    if (!mpi_begin()) {
        cli_usage_error(&arguments.common, "started by mpirun, but built without MPI (cmake -DRECKON_MPI=ON)");
    }
    if (arguments.common.options.jobs == 0) {
        arguments.common.options.jobs = parallel_default_jobs();
    }
    int code = sweep(&arguments);
    mpi_end();
    return code;
}
