/* reckon validate DIR|CSV... */
#include "sim/cli/cli.h"
#include "workloads/kernels/kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_WORST = 0x2000, OPTION_ROUTE };

static const char doc[] = "Predict every row of measured tables and compare. A folder's CSV files are read, "
                          "and its steps.csv by traces/CASE_wG_r*. "
                          "Error of a row: |predicted / measured - 1| of its time, or of its value where the "
                          "time is 0; p90 is the nearest rank, and "
                          "the maximum under 8 rows. Rows without a program are listed as skipped; a row "
                          "whose prediction fails counts as 100%. With --uncertainty, whether each kernel's 80% interval "
                          "holds what was measured.\v"
                          "Example:\n  reckon validate calib/data/h200 --device h200";

static const struct argp_option options[] = {
    { "worst", OPTION_WORST, "N", 0, "show the N rows that are furthest off (default 10)", 1 },
    { "route", OPTION_ROUTE, "trace|model", 0, "steps by trace or by model description alone (default: by trace where there is one)", 1 },
    { 0 },
};

struct arguments {
    struct cli_common common;
    struct reckon_validate_request request;
    const char **paths;
    size_t worst;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &arguments->common; return 0;
    case OPTION_WORST:
        arguments->worst = (size_t)cli_integer(&arguments->common, "--worst", argument, 0, 1000000);
        return 0;
    case OPTION_ROUTE:
        arguments->request.route = (enum reckon_route)(
            RECKON_ROUTE_TRACE +
            cli_choice(&arguments->common, "--route", argument, (const char *const[]){ "trace", "model" }, 2));
        return 0;
    case ARGP_KEY_ARG: arguments->paths[arguments->request.path_count++] = argument; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void print_suites(const struct reckon_validation *validation)
{
    printf("%-14s %6s %8s %8s %8s %8s %8s %8s\n", "suite", "rows", "skipped", "median", "p90", "max", "bias",
           "seconds");
    for (size_t i = 0; i < validation->suite_count; i++) {
        const struct reckon_validate_suite *suite = &validation->suites[i];
        printf("%-14s %6zu %8zu", suite->suite, suite->rows, suite->skipped);
        const double shown[] = { suite->median, suite->p90, suite->max, suite->bias };
        for (size_t k = 0; k < 4; k++) {
            if (isfinite(shown[k])) {
                printf(k == 3 ? " %+7.1f%%" : " %7.1f%%", shown[k] * 100);
            } else {
                printf(" %8s", "-");
            }
        }
        printf(" %8.1f\n", suite->seconds);
    }
}

static int by_error(const void *a, const void *b)
{
    const struct reckon_validate_row *x = *(const struct reckon_validate_row *const *)a;
    const struct reckon_validate_row *y = *(const struct reckon_validate_row *const *)b;
    if (x->error != y->error) {
        return x->error > y->error ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

static void print_worst(const struct reckon_validation *validation, size_t worst)
{
    const struct reckon_validate_row **rows = malloc((validation->row_count + 1) *
                                                     sizeof(struct reckon_validate_row *));
    size_t count = 0;
    SIM_ASSERT(rows != NULL, "no memory for %zu rows", validation->row_count);
    for (size_t i = 0; i < validation->row_count; i++) {
        if (isfinite(validation->rows[i].error)) {
            rows[count++] = &validation->rows[i];
        }
    }
    qsort(rows, count, sizeof rows[0], by_error);
    printf("\nfurthest off\n");
    for (size_t i = 0; i < count && i < worst; i++) {
        const struct reckon_validate_row *row = rows[i];
        if (row->cannot) {
            printf("  cannot   %s/%s %s: %s\n", row->suite, row->kernel, row->params, row->skipped);
        } else {
            printf("  %+7.1f%%  %s/%s %s: measured %.6g, predicted %.6g %s\n",
                   (row->predicted / row->measured - 1) * 100, row->suite, row->kernel, row->params,
                   row->measured, row->predicted, row->unit);
        }
    }
    free(rows);
}

/* Each reason once, with how many rows it holds. */
static void print_skipped(const struct reckon_validation *validation)
{
    bool *listed = calloc(validation->row_count + 1, sizeof *listed), any = false;
    SIM_ASSERT(listed != NULL, "no memory for %zu rows", validation->row_count);
    for (size_t i = 0; i < validation->row_count; i++) {
        const struct reckon_validate_row *row = &validation->rows[i];
        size_t count = 0;
        if (row->skipped == NULL || row->cannot || listed[i]) {
            continue;
        }
        for (size_t j = i; j < validation->row_count; j++) {
            const struct reckon_validate_row *other = &validation->rows[j];
            if (other->skipped != NULL && !other->cannot && strcmp(other->skipped, row->skipped) == 0) {
                listed[j] = true;
                count++;
            }
        }
        printf("%s  %4zu rows: %s\n", any ? "" : "\nskipped\n", count, row->skipped);
        any = true;
    }
    free(listed);
}

static void print_text(const struct reckon_validation *validation, size_t worst)
{
    printf("Predictions for %s against measured rows\n\n", validation->device);
    print_suites(validation);
    print_worst(validation, worst);
    print_skipped(validation);
    for (size_t i = 0; i < validation->notes.count; i++) {
        printf("%s\n", validation->notes.text[i]);
    }
}

/* ---- coverage: with --uncertainty, does the interval of a kernel's row hold the measured time? */

struct cover {
    double low, high; /* NAN where the row has no interval: not a kernel's time, or not predicted */
};

/* Its own interval, carried to what the measuring program reads. */
static enum sim_status cover_row(const struct arguments *arguments, struct reckon *reckon, struct reckon_device *device,
                                 const struct reckon_validate_row *row, struct cover *cover, struct sim_error *error)
{
    struct reckon_kernel_request request = { .suite = row->suite, .kernel = row->kernel, .params = row->params };
    struct reckon_kernel *kernel = NULL;
    struct reckon_doubts *doubts = NULL;
    enum sim_status status = reckon_kernel(reckon, device, &request, &kernel, error);
    if (status == SIM_OK) {
        status = reckon_kernel_doubts(reckon, &device, 1, &request, arguments->common.uncertainty, &doubts, error);
    }
    if (status == SIM_OK) {
        double scale = row->predicted / doubts->time[0].nominal;
        *cover = (struct cover){ doubts->time[0].low * scale, doubts->time[0].high * scale };
    }
    reckon_kernel_free(kernel);
    reckon_doubts_free(doubts);
    return status;
}

static enum sim_status cover_rows(const struct arguments *arguments, struct reckon *reckon, struct reckon_device *device,
                                  const struct reckon_validation *validation, struct cover *covers, struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    for (size_t i = 0; status == SIM_OK && i < validation->row_count; i++) {
        const struct reckon_validate_row *row = &validation->rows[i];
        covers[i] = (struct cover){ NAN, NAN };
        if (isfinite(row->predicted) && kernel_is_registered(row->suite, row->kernel) && strcmp(row->unit, "us") == 0 &&
            strstr(row->params, "library=") == NULL) {
            status = cover_row(arguments, reckon, device, row, &covers[i], error);
        }
    }
    return status;
}

static void print_cover(const struct reckon_validation *validation, const struct cover *covers)
{
    size_t rows = 0, inside = 0;
    double widest = 0;
    printf("\n80%% intervals\n");
    for (size_t i = 0; i < validation->row_count; i++) {
        const struct reckon_validate_row *row = &validation->rows[i];
        if (!isfinite(covers[i].low)) {
            continue;
        }
        bool in = row->measured >= covers[i].low && row->measured <= covers[i].high;
        rows++;
        inside += in;
        widest = fmax(widest, covers[i].high / covers[i].low);
        printf("  %-7s %s/%s %s: measured %.6g %s, interval %.6g to %.6g (%.2fx)\n", in ? "inside" : "outside", row->suite,
               row->kernel, row->params, row->measured, row->unit, covers[i].low, covers[i].high,
               covers[i].high / covers[i].low);
    }
    printf("  %zu of %zu rows inside, widest interval %.2fx\n", inside, rows, widest);
}

static struct json *cover_json(const struct reckon_validation *validation, const struct cover *covers)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < validation->row_count; i++) {
        if (isfinite(covers[i].low)) {
            struct json *entry = json_new_object();
            json_set_integer(entry, "row", (int64_t)i);
            json_set_number(entry, "low", covers[i].low);
            json_set_number(entry, "high", covers[i].high);
            json_set_bool(entry, "inside",
                          validation->rows[i].measured >= covers[i].low && validation->rows[i].measured <= covers[i].high);
            json_append(list, entry);
        }
    }
    return list;
}

static int validate(struct arguments *arguments, struct reckon *reckon, struct reckon_device *device)
{
    struct reckon_validation *validation = NULL;
    struct cover *covers = NULL;
    struct sim_error error = { 0 };
    if (reckon_validate(reckon, device, &arguments->request, &validation, &error) != SIM_OK) {
        return cli_fail(&arguments->common, &error);
    }
    struct json *document = reckon_validation_json(validation);
    struct reckon_device *const devices[] = { device };
    enum sim_status status = SIM_OK;
    if (arguments->common.uncertainty > 0) {
        covers = calloc(validation->row_count + 1, sizeof *covers);
        SIM_ASSERT(covers != NULL, "no memory for %zu rows", validation->row_count);
        status = cover_rows(arguments, reckon, device, validation, covers, &error);
        json_set(document, "intervals", cover_json(validation, covers));
    }
    if (status == SIM_OK) {
        status = cli_write_page(&arguments->common, devices, document, &error);
    }
    int code = status == SIM_OK ? 0 : cli_fail(&arguments->common, &error);
    if (code == 0 && arguments->common.json) {
        cli_print_json(document);
        document = NULL;
    } else if (code == 0) {
        print_text(validation, arguments->worst);
        if (covers != NULL) {
            print_cover(validation, covers);
        }
    }
    json_destroy(document);
    free(covers);
    reckon_validation_free(validation);
    return code;
}

int cmd_validate(int argc, char **argv)
{
    static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 90 }, { 0 } };
    static const struct argp argp = { options, parse, "DIR|CSV...", doc, children, NULL, NULL };
    struct arguments arguments = { .common = { .command = argv[0], .options = { .seed = 1 }, .has_html = true, .has_intervals = true }, .worst = 10 };
    struct reckon *reckon = NULL;
    struct reckon_device *devices[CLI_DEVICES_MAX];
    arguments.paths = calloc((size_t)argc + 1, sizeof(char *));
    SIM_ASSERT(arguments.paths != NULL, "no memory for %d arguments", argc);
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    if (arguments.request.path_count == 0) {
        cli_usage_error(&arguments.common, "a folder or CSV file of measurements is needed");
    }
    if (arguments.common.device_count > 1) {
        cli_usage_error(&arguments.common, "one --device at a time: rows were measured on one");
    }
    arguments.request.paths = arguments.paths;
    int code = cli_open(&arguments.common, NULL, &reckon, devices);
    if (code == 0) {
        code = validate(&arguments, reckon, devices[0]);
    }
    cli_close(&arguments.common, reckon, devices);
    free(arguments.paths);
    return code;
}
