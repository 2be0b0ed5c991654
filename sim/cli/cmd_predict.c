/* reckon predict INPUT... : reads the trace or the model, asks for a prediction per device, prints (print_predict.c). */
#include "reports/perfetto.h"
#include "sim/cli/cli.h"
#include "sim/cli/print_doubts.h"
#include "sim/cli/print_predict.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_NODE = 0x2000,
    OPTION_GPUS,
    OPTION_BATCH,
    OPTION_MODE,
    OPTION_STEP_MS,
    OPTION_TRACED_HOST,
    OPTION_KERNELS,
    OPTION_TOP,
    OPTION_SET,
    OPTION_FORCE,
    OPTION_FIX,
    OPTION_PERFETTO
};

static const char doc[] =
    "How long a training step takes on other devices. INPUT is a profiler (Kineto) trace, a PyTorch execution "
    "trace, a Chakra trace (protobuf or JSON) or rocprofv3 JSON, plain, gzip or zstd (give the files of all ranks together, or "
    "their folder), or one model description (workloads/models). Steps are taken as queued back to back.\v"
    "Examples:\n  reckon predict dlrm.kineto.json.gz --device mi350x,b200,h200 \\\n    --batch 8192 --uncertainty 64 --html step.html --perfetto step.json\n"
    "  reckon predict workloads/models/gpt13b.json --device b200 \\\n    --set batch=16 --set checkpoint=0.5";

static const struct argp_option options[] = {
    { "node", OPTION_NODE, "N", 0, "node profile (default: the one the device names)", 1 },
    { "gpus", OPTION_GPUS, "G", 0, "GPUs of the run (default: the ranks given)", 1 },
    { "batch", OPTION_BATCH, "B", 0, "examples per GPU and step, for examples/s: a trace does not know it",
      1 },
    { "mode", OPTION_MODE, "model", 0, "model: the simulator alone (anchored is not there yet)", 1 },
    { "step-ms", OPTION_STEP_MS, "X", 0, "measured step of the recorded run, to be named in the output", 1 },
    { "traced-host", OPTION_TRACED_HOST, NULL, 0,
      "host operators at their traced times, which a profiler inflates, instead of the host profile's", 1 },
    { "force", OPTION_FORCE, NULL, 0, "a step time even where less than half of the trace's GPU time is understood", 1 },
    { "kernels", OPTION_KERNELS, NULL, 0, "list every kernel: traced against predicted time", 1 },
    { "top", OPTION_TOP, "N", 0, "kernels in the table (default 15)", 1 },
    { "set", OPTION_SET, "k=v", 0, "change a trace: batch (recorded at --batch), sequence=RECORDED:NEW, layers=RECORDED:NEW, checkpoint=SHARE, precision=tf32|fp32, gpus, dimV=batch|sequence|fixed, skew, hot_share (of looked-up rows); or a model: batch, sequence, layers, heads, width, rows, dim, skew, precision, optimizer, "
                                   "checkpoint, parallel, gpus, plan, reserve; or either: fix=A+B", 1 },
    { "fix", OPTION_FIX, "F[@P]", 0, "a fix on every kernel or collective that takes it, or on program P alone (reckon advise lists them); again for more", 1 },
    { "perfetto", OPTION_PERFETTO, "F", 0, "write the predicted step as a trace for ui.perfetto.dev, names as a profile has them", 1 },
    { 0 },
};

struct arguments {
    struct cli_common common;
    struct reckon_predict_request request;
    const char **paths, **settings;
    size_t path_count, setting_count;
    const char *node, *perfetto;
    char fixes[512], inputs[96]; /* backing of the request's */
    struct print_predict_options print;
};

static void append(const struct cli_common *common, char *text, size_t capacity, const char *between, const char *piece)
{
    size_t used = strlen(text);
    if (used + strlen(piece) + strlen(between) + 1 > capacity) {
        cli_usage_error(common, "'%.60s': too many of its kind", piece);
    }
    snprintf(text + used, capacity - used, "%s%s", used > 0 ? between : "", piece);
}

static void add_fixes(struct arguments *arguments, const char *option, const char *fixes)
{
    if (fixes[0] == '\0') {
        cli_usage_error(&arguments->common, "%s '': the name of a fix is needed (reckon advise lists those that apply)", option);
    }
    append(&arguments->common, arguments->fixes, sizeof arguments->fixes, "+", fixes);
}

/* fix=A+B is a request's, not a graph's. */
static void take_setting(struct arguments *arguments, char *setting)
{
    if (strncmp(setting, "fix=", 4) == 0) {
        add_fixes(arguments, "--set fix", setting + 4);
    } else {
        cli_check_setting(&arguments->common, arguments->settings, arguments->setting_count, setting);
        arguments->settings[arguments->setting_count++] = setting;
    }
}

/* skew=A and hot_share=H of a trace say which rows its kernels look up; of a model they are its tables' own. */
static void take_inputs(struct arguments *arguments)
{
    size_t kept = 0;
    for (size_t i = 0; i < arguments->setting_count; i++) {
        const char *setting = arguments->settings[i];
        bool skew = strncmp(setting, "skew=", 5) == 0, hot = strncmp(setting, "hot_share=", 10) == 0;
        if (skew || hot) {
            char pair[48];
            double value = cli_number(&arguments->common, skew ? "--set skew" : "--set hot_share", strchr(setting, '=') + 1, 0,
                                      skew ? 8 : 1);
            snprintf(pair, sizeof pair, "%s=%.12g", skew ? "alpha" : "hot_share", value);
            append(&arguments->common, arguments->inputs, sizeof arguments->inputs, ";", pair);
        } else {
            arguments->settings[kept++] = setting;
        }
    }
    arguments->setting_count = kept;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    static const char *const modes[] = { "model", "anchored" };
    struct arguments *arguments = state->input;
    struct cli_common *common = &arguments->common;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = common; return 0;
    case OPTION_NODE: arguments->node = argument; return 0;
    case OPTION_GPUS:
        arguments->request.gpus = (uint32_t)cli_integer(common, "--gpus", argument, 1, 1000000);
        return 0;
    case OPTION_BATCH: arguments->request.batch = cli_number(common, "--batch", argument, 1, 1e12); return 0;
    case OPTION_MODE:
        arguments->request.mode = (enum reckon_mode)cli_choice(common, "--mode", argument, modes, 2);
        return 0;
    case OPTION_STEP_MS:
        arguments->request.step_ms = cli_number(common, "--step-ms", argument, 1e-6, 1e9);
        return 0;
    case OPTION_TRACED_HOST: arguments->request.traced_host_times = true; return 0;
    case OPTION_PERFETTO: arguments->perfetto = cli_output(common, "--perfetto", argument); return 0;
    case OPTION_FORCE: arguments->request.refuse_unrecognised = false; return 0;
    case OPTION_SET: take_setting(arguments, argument); return 0;
    case OPTION_FIX: add_fixes(arguments, "--fix", argument); return 0;
    case OPTION_KERNELS: arguments->print.all_kernels = true; return 0;
    case OPTION_TOP:
        arguments->print.top = (size_t)cli_integer(common, "--top", argument, 0, 100000);
        return 0;
    case ARGP_KEY_ARG: arguments->paths[arguments->path_count++] = argument; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static struct json *answers_json(struct reckon_prediction *const *predictions, size_t count, const struct reckon_doubts *doubts)
{
    struct json *objects[CLI_DEVICES_MAX];
    double figure[CLI_DEVICES_MAX];
    for (size_t i = 0; i < count; i++) {
        objects[i] = reckon_prediction_json(predictions[i]);
        figure[i] = predictions[i]->step_ms;
    }
    return doubts_answers(objects, figure, count, doubts);
}

/* With doubt the answer is the median; its parts stay those at the profile's own values, with intervals. */
static enum sim_status add_doubts(struct arguments *arguments, struct reckon *reckon, struct reckon_device *const *devices,
                                  struct reckon_prediction *const *predictions, struct reckon_doubts **doubts,
                                  struct sim_error *error)
{
    size_t count = arguments->common.device_count;
    for (size_t i = 0; i < count; i++) {
        if (isnan(predictions[i]->step_ms)) {
            return SIM_OK; /* no time, no doubt about it */
        }
    }
    struct reckon_part_samples *parts =
        reckon_part_samples_create(predictions, count, arguments->common.uncertainty, &arguments->request);
    enum sim_status status = reckon_predict_doubts(reckon, devices, count, &arguments->request, arguments->common.uncertainty,
                                                   doubts, error);
    if (status == SIM_OK) {
        reckon_part_samples_conclude(parts);
    }
    reckon_part_samples_free(parts, &arguments->request);
    for (size_t i = 0; status == SIM_OK && i < count; i++) {
        const struct reckon_interval *time = &(*doubts)->time[i];
        predictions[i]->examples_per_s *= predictions[i]->step_ms / time->median;
        predictions[i]->step_ms = time->median;
        predictions[i]->step_ms_low = time->low;
        predictions[i]->step_ms_high = time->high;
    }
    return status;
}

static void print_doubts_text(struct reckon_prediction *const *predictions, const struct reckon_doubts *doubts)
{
    const char *names[CLI_DEVICES_MAX];
    for (size_t i = 0; i < doubts->device_count; i++) {
        names[i] = predictions[i]->device;
    }
    print_doubts(doubts, names, "ms");
}

/* The trace at another batch; the recorded one is --batch. */
static enum sim_status rewrite_trace(struct arguments *arguments, struct reckon *reckon, struct graph **graph,
                                     struct sim_error *error)
{
    struct graph *rewritten = NULL;
    enum sim_status status = reckon_graph_rewrite(reckon, *graph, arguments->request.batch, arguments->settings,
                                                  arguments->setting_count, &rewritten, error);
    reckon_graph_free(*graph);
    *graph = rewritten;
    arguments->request.batch = 0; /* the graph knows it now */
    return status;
}

/* Of a description, --batch and --gpus are settings too; and no host was traced. */
static void refuse_twice(const struct arguments *arguments)
{
    char text[48];
    if (arguments->request.batch > 0) {
        snprintf(text, sizeof text, "batch=%g", arguments->request.batch);
        cli_check_setting(&arguments->common, arguments->settings, arguments->setting_count, text);
    }
    if (arguments->request.gpus > 0) {
        snprintf(text, sizeof text, "gpus=%u", (unsigned)arguments->request.gpus);
        cli_check_setting(&arguments->common, arguments->settings, arguments->setting_count, text);
    }
    if (arguments->request.traced_host_times) {
        cli_usage_error(&arguments->common, "--traced-host: '%s' is a model description, without traced times", arguments->paths[0]);
    }
}

static enum sim_status read_input(struct arguments *arguments, struct reckon *reckon, struct reckon_model_request *model,
                                  struct graph **graph, struct sim_error *error)
{
    for (size_t i = 0; i < arguments->path_count; i++) {
        if (reckon_is_model(arguments->paths[i])) {
            if (arguments->path_count > 1) {
                return sim_fail(error, SIM_BAD_ARGUMENT, "%s: a model description is the only input of a prediction",
                                arguments->paths[i]);
            }
            refuse_twice(arguments);
            arguments->request.model = model;
            arguments->request.batch = 0;
            return reckon_graph_describe(reckon, model, graph, error);
        }
    }
    take_inputs(arguments);
    enum sim_status status = reckon_graph_read(reckon, arguments->paths, arguments->path_count,
                                               arguments->request.traced_host_times, graph, error);
    return status == SIM_OK && arguments->setting_count > 0 ? rewrite_trace(arguments, reckon, graph, error) : status;
}

/* Too little of a trace understood: all but the step time is answered, and exit code 2. */
static int report_not_understood(const struct arguments *arguments, struct reckon_prediction *const *predictions,
                                 size_t count)
{
    int code = 0;
    for (size_t i = 0; i < count; i++) {
        const struct reckon_input *input = &predictions[i]->input;
        if (input->known && !input->enough && arguments->request.refuse_unrecognised) {
            fprintf(stderr, "%s: no step time on %s: %s (--force gives one)\n", arguments->common.command,
                    predictions[i]->device, input->verdict);
            code = 2;
        }
    }
    return code;
}

/* A step that does not fit is answered (fits: false, no times), said on standard error, and exit code 2. */
static int report_unfit(const struct arguments *arguments, struct reckon_prediction *const *predictions, size_t count)
{
    int code = 0;
    for (size_t i = 0; i < count; i++) {
        if (predictions[i]->fits_known && !predictions[i]->fits) {
            fprintf(stderr, "%s: does not fit %s: %s\n", arguments->common.command, predictions[i]->device,
                    predictions[i]->memory_advice);
            code = 2;
        }
    }
    return code;
}

/* The page and the trace, where asked for. */
static int write_files(const struct arguments *arguments, struct reckon_device *const *devices,
                       struct reckon_prediction *const *predictions, const struct reckon_doubts *doubts)
{
    struct sim_error error = { 0 };
    enum sim_status status = SIM_OK;
    if (arguments->perfetto != NULL) {
        status = perfetto_write(predictions, arguments->common.device_count, arguments->perfetto, &error);
    }
    if (status == SIM_OK && arguments->common.html != NULL) {
        struct json *document = answers_json(predictions, arguments->common.device_count, doubts);
        status = cli_write_page(&arguments->common, devices, document, &error);
        json_destroy(document);
    }
    return status == SIM_OK ? 0 : cli_fail(&arguments->common, &error);
}

static int predict(struct arguments *arguments, struct reckon *reckon, struct reckon_device *const *devices)
{
    struct reckon_prediction *predictions[CLI_DEVICES_MAX] = { 0 };
    struct graph *graph = NULL;
    struct reckon_doubts *doubts = NULL;
    struct sim_error error = { 0 };
    int code = 0;
    size_t count = arguments->common.device_count;
    struct reckon_model_request model = { .path = arguments->paths[0],
                                          .settings = arguments->settings,
                                          .setting_count = arguments->setting_count,
                                          .gpus = arguments->request.gpus,
                                          .batch = arguments->request.batch,
                                          .gpu_gib = reckon_device_chip(devices[0])->hbm_capacity };
    for (size_t i = 1; i < count; i++) { /* one plan for all of them, that the smallest can hold */
        model.gpu_gib = fmin(model.gpu_gib, reckon_device_chip(devices[i])->hbm_capacity);
    }
    enum sim_status status = read_input(arguments, reckon, &model, &graph, &error);
    arguments->request.fixes = arguments->fixes[0] != '\0' ? arguments->fixes : NULL;
    arguments->request.inputs = arguments->inputs[0] != '\0' ? arguments->inputs : NULL;
    if (status != SIM_OK) {
        return cli_fail(&arguments->common, &error);
    }
    arguments->request.graph = graph;
    arguments->request.timeline = arguments->common.html != NULL || arguments->perfetto != NULL;
    for (size_t i = 0; code == 0 && i < count; i++) {
        if (reckon_predict(reckon, devices[i], &arguments->request, &predictions[i], &error) != SIM_OK) {
            code = cli_fail(&arguments->common, &error);
        }
    }
    if (code == 0 && arguments->common.uncertainty > 0 &&
        add_doubts(arguments, reckon, devices, predictions, &doubts, &error) != SIM_OK) {
        code = cli_fail(&arguments->common, &error);
    }
    code = code == 0 ? write_files(arguments, devices, predictions, doubts) : code;
    if (code == 0 && arguments->common.json) {
        cli_print_json(answers_json(predictions, count, doubts));
    } else if (code == 0) {
        print_predict(predictions, count, &arguments->print);
        cli_print_origin(devices, count);
        if (doubts != NULL) {
            print_doubts_text(predictions, doubts);
        }
    }
    reckon_doubts_free(doubts);
    code = code == 0 ? report_unfit(arguments, predictions, count) : code;
    code = code == 0 ? report_not_understood(arguments, predictions, count) : code;
    for (size_t i = 0; i < count; i++) {
        reckon_prediction_free(predictions[i]);
    }
    reckon_graph_free(graph);
    return code;
}

int cmd_predict(int argc, char **argv)
{
    static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 90 }, { 0 } };
    static const struct argp argp = { options, parse, "INPUT...", doc, children, NULL, NULL };
    struct arguments arguments = { .common = { .command = argv[0], .options = { .seed = 1 }, .has_intervals = true, .has_html = true },
                                   .request = { .refuse_unrecognised = true },
                                   .print = { .top = 15 } };
    struct reckon *reckon = NULL;
    struct reckon_device *devices[CLI_DEVICES_MAX];
    arguments.paths = calloc((size_t)argc + 1, sizeof(char *));
    arguments.settings = calloc((size_t)argc + 1, sizeof(char *));
    SIM_ASSERT(arguments.paths != NULL && arguments.settings != NULL, "no memory for %d arguments", argc);
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    if (arguments.path_count == 0) {
        cli_usage_error(&arguments.common, "a trace or a model description is needed");
    }
    int code = cli_open(&arguments.common, arguments.node, &reckon, devices);
    if (code == 0) {
        code = predict(&arguments, reckon, devices);
    }
    cli_close(&arguments.common, reckon, devices);
    free(arguments.paths);
    free(arguments.settings);
    return code;
}
