/* reckon advise INPUT --device D: what would make the step shorter, ranked. */
#include "sim/cli/cli.h"
#include "sim/step/parallel.h"
#include "studies/advise.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_NODE = 0x2000, OPTION_GPUS, OPTION_BATCH, OPTION_SET, OPTION_FIX };

static const char doc[] =
    "Fixes of kernels and collectives, and changes of the model, each priced by playing the whole step again, ranked by the time per "
    "example that it saves, with what it costs; those not worth it are listed too, and the best together, since gains do not add. "
    "INPUT is a recorded step (all its ranks) or a model description, as predict takes it.\v"
    "Examples:\n  reckon advise dlrm.kineto.json.gz --device mi350x --set hot_share=0.5\n"
    "  reckon advise workloads/models/mlperf_dlrm_v2.json --device b200\n"
    "  reckon advise tests/fixtures/models/tiny.json --device h200 \\\n    --uncertainty 32 --html advice.html";

static const struct argp_option options[] = {
    { "node", OPTION_NODE, "N", 0, "node profile (default: the one the device names)", 1 },
    { "gpus", OPTION_GPUS, "G", 0, "GPUs of a described step", 1 },
    { "batch", OPTION_BATCH, "B", 0, "examples per GPU: at which a trace was recorded, so that batches can be tried; of a description", 1 },
    { "set", OPTION_SET, "k=v", 0, "the step as it is with this changed, as in predict", 1 },
    { "fix", OPTION_FIX, "F[@P]", 0, "the step as it is with this fix already", 1 },
    { 0 },
};

struct arguments {
    struct cli_common common;
    const char **paths, **settings;
    size_t path_count, setting_count;
    const char *node;
    double batch;
    char gpus[32], batch_text[48], fixes[512];
};

static void add_setting(struct arguments *arguments, const char *setting)
{
    if (arguments->setting_count == 16) {
        cli_usage_error(&arguments->common, "--set '%.60s': more than 16 settings", setting);
    }
    cli_check_setting(&arguments->common, arguments->settings, arguments->setting_count, setting);
    arguments->settings[arguments->setting_count++] = setting;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct cli_common *common = &arguments->common;
    size_t used = strlen(arguments->fixes);
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = common; return 0;
    case OPTION_NODE: arguments->node = argument; return 0;
    case OPTION_GPUS:
        snprintf(arguments->gpus, sizeof arguments->gpus, "gpus=%u", (unsigned)cli_integer(common, "--gpus", argument, 1, 1000000));
        return 0;
    case OPTION_BATCH: arguments->batch = cli_number(common, "--batch", argument, 1, 1e12); return 0;
    case OPTION_SET: add_setting(arguments, argument); return 0;
    case OPTION_FIX:
        if (argument[0] == '\0') {
            cli_usage_error(common, "--fix '': the name of a fix is needed (without --fix, those that apply are listed)");
        }
        if (used + strlen(argument) + 6 > sizeof arguments->fixes) {
            cli_usage_error(common, "--fix '%.60s': too many of them", argument);
        }
        snprintf(arguments->fixes + used, sizeof arguments->fixes - used, "%s%s", used == 0 ? "fix=" : "+", argument);
        return 0;
    case ARGP_KEY_ARG: arguments->paths[arguments->path_count++] = argument; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void print_gain(const struct advice *advice)
{
    char memory[32] = "";
    if (isfinite(advice->memory_gib_change) && fabs(advice->memory_gib_change) >= 0.05) {
        snprintf(memory, sizeof memory, " (%+.1f GiB)", advice->memory_gib_change);
    }
    printf("  %+6.1f%% [%+.1f, %+.1f]  %9.3f ms  %-44s %s%s\n", advice->gain * 100, advice->gain_low * 100, advice->gain_high * 100,
           advice->step_ms, advice->change, advice->triggered ? "" : "(trigger not met) ", "");
    printf("           when: %s\n           cost: %s%s\n", advice->trigger, advice->cost, memory);
}

static void print_not_worth(const struct advise_result *result)
{
    printf("\nnot worth it\n");
    for (size_t i = 0; i < result->count; i++) {
        const struct advice *advice = &result->advice[i];
        if (advice->priced && advice->gain < ADVICE_WORTH) {
            printf("  %+6.1f%%  %-44s %s\n", advice->gain * 100, advice->change,
                   advice->refused[0] != '\0'      ? advice->refused
                   : advice->gain < -ADVICE_WORTH  ? "makes it longer"
                   : result->host_ms > result->gpu_busy_ms ? "the host binds the step"
                                                           : "changes too little");
        }
    }
    for (size_t i = 0; i < result->count; i++) {
        const struct advice *advice = &result->advice[i];
        if (!advice->priced) {
            printf("       -   %-44s %s\n", advice->change, advice->refused);
        }
    }
}

static void print_text(const struct advise_result *result)
{
    size_t worth = 0;
    printf("%s on %s: %.3f ms", result->source, result->device, result->step_ms);
    if (result->samples > 0) {
        printf(" [%.3f, %.3f]", result->step_ms_low, result->step_ms_high);
    }
    if (isfinite(result->examples_per_s)) {
        printf(", %.6g examples/s", result->examples_per_s);
    }
    printf("; GPU busy %.3f ms, host %.3f ms\n\ngain in time per example, 80%% interval, step; 'when' is what the change is for\n",
           result->gpu_busy_ms, result->host_ms);
    for (size_t i = 0; i < result->count; i++) {
        if (result->advice[i].priced && result->advice[i].gain >= ADVICE_WORTH) {
            print_gain(&result->advice[i]);
            worth++;
        }
    }
    if (worth == 0) {
        printf("  no change gains %.1f%%\n", ADVICE_WORTH * 100);
    }
    if (result->combined_count > 1) {
        printf("\ntogether: %+.1f%% [%+.1f, %+.1f], %.3f ms (their gains add up to %+.1f%%)\n", result->combined_gain * 100,
               result->combined_gain_low * 100, result->combined_gain_high * 100, result->combined_step_ms, result->summed_gain * 100);
        for (size_t i = 0; i < result->combined_count; i++) {
            printf("  %s\n", result->advice[result->combined[i]].change);
        }
    } else if (result->combined_count == 1 && worth > 1) {
        printf("\ntogether: beside %s no other gains %.1f%% more\n", result->advice[result->combined[0]].change,
               ADVISE_COMBINE_GAIN * 100);
    }
    print_not_worth(result);
    printf("\nprices of kernels: %llu asked for, %llu known already\n", (unsigned long long)result->asked,
           (unsigned long long)result->found);
}

static int advise(struct arguments *arguments, struct reckon *reckon, struct reckon_device *const *devices)
{
    struct sim_error error = { 0 };
    struct reckon_source *source = NULL;
    struct advise_result *result = NULL;
    bool model = arguments->path_count == 1 && reckon_is_model(arguments->paths[0]);
    enum sim_status status = reckon_source_open(reckon, arguments->paths, arguments->path_count, model ? 0 : arguments->batch, &source,
                                                &error);
    if (model && arguments->batch > 0) {
        snprintf(arguments->batch_text, sizeof arguments->batch_text, "batch=%.12g", arguments->batch);
        add_setting(arguments, arguments->batch_text);
    }
    if (arguments->gpus[0] != '\0') {
        add_setting(arguments, arguments->gpus);
    }
    if (arguments->fixes[0] != '\0') {
        add_setting(arguments, arguments->fixes);
    }
    struct advise_request request = { .source = source,
                                      .settings = arguments->settings,
                                      .setting_count = arguments->setting_count,
                                      .jobs = arguments->common.options.jobs,
                                      .samples = arguments->common.uncertainty,
                                      .progress = arguments->common.options.progress,
                                      .progress_context = arguments->common.options.progress_context };
    status = status == SIM_OK ? advise_run(reckon, devices[0], &request, &result, &error) : status;
    int code = status == SIM_OK ? 0 : cli_fail(&arguments->common, &error);
    struct json *document = status == SIM_OK ? advise_json(result) : NULL;
    if (code == 0 && cli_write_page(&arguments->common, devices, document, &error) != SIM_OK) {
        code = cli_fail(&arguments->common, &error);
    }
    if (code == 0 && arguments->common.json) {
        cli_print_json(document);
        document = NULL;
    } else if (code == 0) {
        print_text(result);
    }
    json_destroy(document);
    advise_result_free(result);
    reckon_source_close(source);
    return code;
}

int cmd_advise(int argc, char **argv)
{
    static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 90 }, { 0 } };
    static const struct argp argp = { options, parse, "INPUT...", doc, children, NULL, NULL };
    struct arguments arguments = { .common = { .command = argv[0], .options = { .seed = 1 }, .has_html = true, .has_intervals = true } };
    struct reckon *reckon = NULL;
    struct reckon_device *devices[CLI_DEVICES_MAX];
    arguments.paths = calloc((size_t)argc + 1, sizeof(char *));
    arguments.settings = calloc((size_t)argc + 20, sizeof(char *));
    SIM_ASSERT(arguments.paths != NULL && arguments.settings != NULL, "no memory for %d arguments", argc);
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    if (arguments.path_count == 0) {
        cli_usage_error(&arguments.common, "a trace or a model description is needed");
    }
    if (arguments.common.device_count > 1) {
        cli_usage_error(&arguments.common, "--device: advice is for one device at a time");
    }
    if (arguments.common.options.jobs == 0) {
        arguments.common.options.jobs = parallel_default_jobs();
    }
    int code = cli_open(&arguments.common, arguments.node, &reckon, devices);
    if (code == 0) {
        code = advise(&arguments, reckon, devices);
    }
    cli_close(&arguments.common, reckon, devices);
    free(arguments.paths);
    free(arguments.settings);
    return code;
}
