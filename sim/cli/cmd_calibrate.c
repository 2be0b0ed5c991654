/* reckon calibrate --from CSV... --base PROFILE --fit FIT.json -o PROFILE, and --accuracy DIR for the report on all rows. */
#include "calib/accuracy.h"
#include "calib/calibrate.h"
#include "calib/workers.h"
#include "reports/accuracy_page.h"
#include "sim/cli/cli.h"
#include "sim/core/output_file.h"
#include "sim/core/data_path.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MICRO_FOLDER_DEFAULT "micro-results"
#define REHEARSAL_SHARE 0.3  /* by which a rehearsal moves every value */
#define REHEARSAL_BACK 0.05 /* of a value: nearer to what it was counts as found */
#define WORST_ROWS 10 /* of a report on one device */

enum { OPTION_RUN = 0x2000, OPTION_FROM, OPTION_BASE, OPTION_FIT, OPTION_ACCURACY, OPTION_ALSO, OPTION_REHEARSE };

static const char doc[] =
    "Fit numbers of a device profile to measured rows, or report how far predictions are from all of them. "
    "The fit file says which "
    "numbers are free, between what, and which rows hold them.\v"
    "Examples:\n"
    "  reckon calibrate --from calib/data/h200 --base h200 \\\n    --fit calib/fits/h200.json -o h200-fitted.json\n"
    "  reckon calibrate --accuracy calib/data/h200 --base h200 \\\n    --fit calib/fits/h200.json -o "
    "reports/accuracy.md\n"
    "A fit that does not converge writes nothing and exits 2.";

static const struct argp_option options[] = {
    { "from", OPTION_FROM, "DIR|CSV...", 0, "measured tables; more may follow as arguments", 1 },
    { "base", OPTION_BASE, "PROFILE", 0, "device to start from, by name or file", 1 },
    { "fit", OPTION_FIT, "FIT.json", 0, "free values and their rows (default: calib/fits/NAME.json, NAME_micro.json for microkernels)", 1 },
    { "output", 'o', "FILE", 0, "where the profile (or the report) goes", 1 },
    { "accuracy", OPTION_ACCURACY, "DIR", 0, "no fit: predict every row of DIR, those of the fit file apart",
      1 },
    { "also", OPTION_ALSO, "DEVICE=DIR", 0, "with --accuracy: another device and its tables (may be given again)", 1 },
    { "run", OPTION_RUN, "DIR", OPTION_ARG_OPTIONAL,
      "build and run the microkernels on the GPU of this machine, results to DIR (" MICRO_FOLDER_DEFAULT "), then fit to them", 1 },
    { "rehearse", OPTION_REHEARSE, 0, 0,
      "no measurement: the rows take the base's own answers, its values are all moved by 30%, and the fit has to find them again", 1 },
    { 0 },
};

struct arguments {
    struct cli_common common;
    const char **from; /* [argc] */
    size_t from_count;
    const char *base, *fit, *output, *accuracy, *run;
    bool rehearse;
    const char *also[CLI_DEVICES_MAX]; /* DIR of common.devices[1 + i] */
    char *also_names[CLI_DEVICES_MAX]; /* handed to common.devices */
    size_t also_count;
    char default_fit[DATA_PATH_CAPACITY];
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &arguments->common; return 0;
    case OPTION_FROM:
    case ARGP_KEY_ARG: arguments->from[arguments->from_count++] = argument; return 0;
    case OPTION_BASE: arguments->base = argument; return 0;
    case OPTION_FIT: arguments->fit = argument; return 0;
    case 'o': arguments->output = cli_output(&arguments->common, "-o", argument); return 0;
    case OPTION_ACCURACY: arguments->accuracy = argument; return 0;
    case OPTION_REHEARSE: arguments->rehearse = true; return 0;
    case OPTION_ALSO: {
        const char *equals = strchr(argument, '=');
        if (equals == NULL || equals == argument || equals[1] == '\0' || arguments->also_count + 1 == CLI_DEVICES_MAX) {
            cli_usage_error(&arguments->common, "--also '%s': DEVICE=DIR is needed, at most %d times", argument,
                            CLI_DEVICES_MAX - 1);
        }
        arguments->also_names[arguments->also_count] = strndup(argument, (size_t)(equals - argument));
        arguments->also[arguments->also_count++] = equals + 1;
        return 0;
    }
    case OPTION_RUN: arguments->run = argument != NULL ? argument : MICRO_FOLDER_DEFAULT; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- text */

static void print_values(const struct calibration *calibration)
{
    const struct fit_solution *solution = &calibration->solution;
    printf("%-26s %10s %10s %10s  %-9s %s\n", "value", "base", "fitted", "std error", "unit", "range");
    for (size_t i = 0; i < solution->value_count; i++) {
        const struct fit_file_value *value = &calibration->fit.values[i];
        printf("%-26s %10.5g ", chip_number_key(value->index), calibration->base_value[i]);
        if (solution->identified[i]) {
            printf("%10.5g %10.2g ", solution->value[i], solution->standard_error[i]);
        } else {
            printf("%10s %10s ", "kept", "-");
        }
        double edge = 0.05 * (value->high - value->low);
        bool on_bound = solution->identified[i] &&
                        (solution->value[i] < value->low + edge || solution->value[i] > value->high - edge);
        printf(" %-9s %g..%g%s\n", chip_number_unit(value->index), value->low, value->high,
               on_bound ? ", at its end" : "");
    }
}

static void print_directions(const struct calibration *calibration)
{
    for (size_t d = 0; d < calibration->solution.direction_count; d++) {
        const struct fit_direction *direction = &calibration->solution.direction[d];
        printf("%s%s: the rows cannot tell", d == 0 ? "\nnot identified\n  " : "  ",
               chip_number_key(calibration->fit.values[direction->fixed].index));
        if (isinf(direction->spread)) {
            printf(" (no effect on any row)");
        }
        for (size_t i = 0, shown = 0; i < calibration->solution.value_count; i++) {
            if (i != direction->fixed && fabs(direction->part[i]) > 0.3) {
                printf("%s%s", shown++ == 0 ? " it from " : ", ",
                       chip_number_key(calibration->fit.values[i].index));
            }
        }
        putchar('\n');
    }
}

static void print_correlations(const struct calibration *calibration)
{
    bool any = false;
    for (size_t i = 0; i < calibration->solution.value_count; i++) {
        for (size_t k = 0; k < i; k++) {
            double correlation = calibration->solution.correlation[i][k];
            if (fabs(correlation) > 0.7) {
                printf("%s  %+.2f  %s, %s\n", any ? "" : "\ncorrelated by more than 0.7\n", correlation,
                       chip_number_key(calibration->fit.values[k].index),
                       chip_number_key(calibration->fit.values[i].index));
                any = true;
            }
        }
    }
}

static void print_rows(const struct calibration *calibration)
{
    const struct fit_solution *solution = &calibration->solution;
    printf("\n%8s %8s %7s  row\n", "base", "fitted", "weight");
    for (size_t r = 0; r < calibration->row_count; r++) {
        const struct calibration_row *row = &calibration->rows[r];
        printf("%+7.1f%% %+7.1f%% %7.2f  %s/%s %s: %.6g %s\n", solution->start_residual[r] * 100,
               solution->residual[r] * 100, solution->weight[r], row->suite, row->kernel, row->params,
               row->measured, row->unit);
    }
    printf("\nscatter %.2f%%; %u steps, %u evaluations of which %zu rows were simulated; %zu of %zu pairs of row and "
           "value move\n",
           solution->scatter * 100, solution->iterations, solution->evaluations, solution->tasks,
           solution->heeding, solution->row_count * solution->value_count);
}

/* What the rehearsal moved and what the fit made of it. */
static void print_rehearsal(const struct calibration *calibration)
{
    const struct fit_solution *solution = &calibration->solution;
    size_t told = 0, back = 0;
    printf("%-26s %10s %10s %10s %8s %10s  %s\n", "value", "was", "moved to", "found", "off", "std error", "unit");
    for (size_t i = 0; i < solution->value_count; i++) {
        double base = calibration->base_value[i], off = solution->value[i] / base - 1;
        printf("%-26s %10.5g %10.5g ", chip_number_key(calibration->fit.values[i].index), base, calibration->start_value[i]);
        if (solution->identified[i]) {
            told++;
            back += fabs(off) <= REHEARSAL_BACK;
            printf("%10.5g %+7.1f%% %10.2g", solution->value[i], off * 100, solution->standard_error[i]);
        } else {
            printf("%10s %8s %10s", "not told", "-", "-");
        }
        printf("  %s\n", chip_number_unit(calibration->fit.values[i].index));
    }
    printf("\n%zu of %zu values are told by the rows; %zu of these came back within %g%%\n", told, solution->value_count, back,
           REHEARSAL_BACK * 100);
}

/* ---- measuring */

/* Build and run the microkernels; their script says in one line what is missing. */
static int run_microkernels(const struct arguments *arguments)
{
    char script[DATA_PATH_CAPACITY];
    int state = 0;
    snprintf(script, sizeof script, "%s/calib/microkernels/run.sh", data_path_root());
    if (access(script, R_OK) != 0) {
        fprintf(stderr, "%s: %s: %s\n", arguments->common.command, script, strerror(errno));
        return 1;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execlp("sh", "sh", script, arguments->run, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &state, 0) != child || !WIFEXITED(state)) {
        fprintf(stderr, "%s: the microkernels did not run to their end\n", arguments->common.command);
        return 2;
    }
    return WEXITSTATUS(state) == 3 ? 0 : WEXITSTATUS(state); /* 3: rows that failed their check are refused where a fit takes them */
}

static bool has_json_lines(const char *path)
{
    char micro[DATA_PATH_CAPACITY];
    snprintf(micro, sizeof micro, "%s/micro.jsonl", path);
    return access(micro, R_OK) == 0 || data_path_ends_in(path, ".jsonl");
}

/* calib/fits has a file a device, and one for the rows of its microkernels. */
static void choose_fit(struct arguments *arguments, const struct reckon_device *device)
{
    bool micro = false;
    for (size_t i = 0; i < arguments->from_count; i++) {
        micro = micro || has_json_lines(arguments->from[i]);
    }
    if (arguments->fit == NULL) {
        snprintf(arguments->default_fit, sizeof arguments->default_fit, "%s/calib/fits/%s%s.json", data_path_root(),
                 reckon_device_chip(device)->name, micro ? "_micro" : "");
        arguments->fit = arguments->default_fit;
    }
}

/* ---- the two tasks */

static int run_fit(struct arguments *arguments)
{
    struct calibration *calibration = NULL;
    struct sim_error error = { 0 };
    const struct reckon_options *how = &arguments->common.options;
    enum sim_status status =
        arguments->rehearse
            ? calibrate_rehearse(how, arguments->base, arguments->fit, arguments->from, arguments->from_count, REHEARSAL_SHARE,
                                 &calibration, &error)
            : calibrate(how, arguments->base, arguments->fit, arguments->from, arguments->from_count, &calibration, &error);
    if (status == SIM_OK && !arguments->rehearse) {
        status = calibration_write_profile(calibration, arguments->output, &error);
    }
    if (status != SIM_OK) {
        calibration_destroy(calibration);
        return cli_fail(&arguments->common, &error);
    }
    if (arguments->common.json) {
        cli_print_json(calibration_json(calibration));
    } else if (arguments->rehearse) {
        print_rehearsal(calibration);
        print_rows(calibration);
    } else {
        print_values(calibration);
        print_directions(calibration);
        print_correlations(calibration);
        print_rows(calibration);
        printf("written: %s\n", arguments->output);
    }
    calibration_destroy(calibration);
    return 0;
}

struct report { /* of the devices of one --accuracy */
    size_t count;
    struct accuracy accuracy[CLI_DEVICES_MAX];
    const char *tables[CLI_DEVICES_MAX];
    struct reckon_device *const *devices;
};

static void write_markdown(const struct report *report, size_t worst, FILE *out)
{
    for (size_t i = 0; i < report->count; i++) {
        fprintf(out, "%s", i > 0 ? "\n" : "");
        accuracy_write(&report->accuracy[i], reckon_device_chip(report->devices[i]), worst, out);
    }
}

static void write_page(const struct report *report, size_t unused, FILE *out)
{
    struct accuracy_section sections[CLI_DEVICES_MAX];
    (void)unused;
    for (size_t i = 0; i < report->count; i++) {
        sections[i] = (struct accuracy_section){ report->accuracy[i].validation, report->accuracy[i].fitted,
                                                 reckon_device_chip(report->devices[i]), report->tables[i] };
    }
    accuracy_page_write(sections, report->count, out);
}

static enum sim_status write_file(const struct report *report, const char *path,
                                  void (*write)(const struct report *, size_t, FILE *), struct sim_error *error)
{
    struct output_file file;
    enum sim_status status = output_file_open(&file, "", path, error);
    if (status != SIM_OK) {
        return status;
    }
    write(report, WORST_ROWS, file.stream);
    return output_file_close(&file, error);
}

static int run_accuracy(struct arguments *arguments, struct reckon *reckon, struct reckon_device *const *devices)
{
    struct fit_file fit = { 0 };
    struct report report = { .devices = devices };
    struct sim_error error = { 0 };
    enum sim_status status = arguments->fit != NULL ? fit_file_read(arguments->fit, &fit, &error) : SIM_OK;
    for (size_t i = 0; status == SIM_OK && i <= arguments->also_count; i++) {
        report.tables[i] = i == 0 ? arguments->accuracy : arguments->also[i - 1];
        status = accuracy_measure(reckon, devices[i], workers_jobs(arguments->common.options.jobs), report.tables[i],
                                  i == 0 && arguments->fit != NULL ? &fit : NULL, &report.accuracy[i], &error);
        report.count += status == SIM_OK;
    }
    if (status == SIM_OK && arguments->output != NULL) {
        status = write_file(&report, arguments->output, write_markdown, &error);
    }
    if (status == SIM_OK && arguments->common.html != NULL) {
        status = write_file(&report, arguments->common.html, write_page, &error);
    }
    if (status == SIM_OK) {
        write_markdown(&report, 0, stdout);
    }
    for (size_t i = 0; i < report.count; i++) {
        accuracy_finish(&report.accuracy[i]);
    }
    fit_file_finish(&fit);
    return status == SIM_OK ? 0 : cli_fail(&arguments->common, &error);
}

static void check_arguments(const struct arguments *arguments)
{
    const struct cli_common *common = &arguments->common;
    if (arguments->base == NULL) {
        cli_usage_error(common, "--base is needed: the device profile to start from");
    }
    if (arguments->accuracy != NULL && arguments->from_count > 0) {
        cli_usage_error(common, "--from and --accuracy are two tasks: give one");
    }
    if (arguments->accuracy == NULL && (arguments->also_count > 0 || arguments->common.html != NULL)) {
        cli_usage_error(common, "--also and --html belong to --accuracy");
    }
    if (arguments->accuracy != NULL && common->json) {
        cli_usage_error(common, "--accuracy has no JSON form; reckon validate --json gives the rows");
    }
    if (arguments->run != NULL && (arguments->accuracy != NULL || arguments->from_count > 0)) {
        cli_usage_error(common, "--run measures by itself: give no --from or --accuracy with it");
    }
    if (arguments->accuracy == NULL && arguments->run == NULL && arguments->from_count == 0) {
        cli_usage_error(common, "--from CSV (measured tables) or --run (measure here) is needed");
    }
    if (arguments->rehearse && (arguments->accuracy != NULL || arguments->run != NULL || arguments->output != NULL)) {
        cli_usage_error(common, "--rehearse writes no profile and measures nothing: give --from and no -o, --run or --accuracy");
    }
    if (arguments->accuracy == NULL && arguments->output == NULL && !arguments->rehearse) {
        cli_usage_error(common, "-o FILE (the fitted profile) is needed");
    }
}

int cmd_calibrate(int argc, char **argv)
{
    static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 90 }, { 0 } };
    static const struct argp argp = { options, parse, "[DIR|CSV...]", doc, children, NULL, NULL };
    struct arguments arguments = { .common = { .command = argv[0], .options = { .seed = 1 }, .has_html = true, .names_devices = "the device is named by --base here" } };
    struct reckon *reckon = NULL;
    struct reckon_device *devices[CLI_DEVICES_MAX];
    arguments.from = calloc((size_t)argc + 1, sizeof(char *));
    SIM_ASSERT(arguments.from != NULL, "no memory for %d arguments", argc);
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    check_arguments(&arguments);
    arguments.common.devices[arguments.common.device_count++] = strdup(arguments.base);
    for (size_t i = 0; i < arguments.also_count; i++) {
        arguments.common.devices[arguments.common.device_count++] = arguments.also_names[i];
    }
    int code = cli_open(&arguments.common, NULL, &reckon, devices);
    if (code == 0 && arguments.run != NULL) {
        code = run_microkernels(&arguments);
        arguments.from[arguments.from_count++] = arguments.run;
    }
    if (code == 0 && arguments.accuracy == NULL) {
        choose_fit(&arguments, devices[0]);
    }
    if (code == 0) {
        code = arguments.accuracy != NULL ? run_accuracy(&arguments, reckon, devices)
                                          : run_fit(&arguments);
    }
    cli_close(&arguments.common, reckon, devices);
    free(arguments.from);
    return code;
}
