/* reckon kernel SUITE/KERNEL k=v ... */
#include "sim/cli/atomic_range.h"
#include "sim/cli/cli.h"
#include "sim/cli/print_doubts.h"
#include "workloads/kernels/fix.h"
#include "workloads/kernels/kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_EXACT = 0x2000, OPTION_HARNESS, OPTION_CACHE, OPTION_LIST, OPTION_FIX };

static const char doc[] = "Time of one kernel on a device: device time alone, unless --harness names a "
                          "measuring program. Names and parameters are "
                          "those of the measured tables; --list shows them.\v"
                          "Example:\n  reckon kernel tbe/forward B=65536 T=5 L=55 D=192 rows=100000 \\\n    "
                          "alpha=1.15 prec=fp16 --device h200,mi350x";

static const struct argp_option options[] = {
    { "exact", OPTION_EXACT, NULL, 0, "simulate all of the kernel, no sampling", 1 },
    { "harness", OPTION_HARNESS, "NAME", 0, "add what this measuring program adds (devices/harness)", 1 },
    { "cache", OPTION_CACHE, "clean|own|predecessor|flushed", 0,
      "what the caches hold when it starts (default: as its own benchmark leaves them)", 1 },
    { "list", OPTION_LIST, NULL, 0, "list the kernels and their parameters", 1 },
    { "fix", OPTION_FIX, "F", 0, "a repair of the kernel (may be given again); --list names those each kernel takes", 1 },
    { 0 },
};

struct arguments {
    struct cli_common common;
    struct reckon_kernel_request request;
    char name[96]; /* SUITE/KERNEL, cut in two */
    char params[1024];
    char fixes[256]; /* "fix=A+B", or empty */
    bool list;
};

static void take_name(struct arguments *arguments, const char *text)
{
    if (strlen(text) >= sizeof arguments->name || strchr(text, '/') == NULL) {
        cli_usage_error(&arguments->common, "'%s': a kernel is named SUITE/KERNEL (--list shows them)", text);
    }
    strcpy(arguments->name, text);
    char *slash = strchr(arguments->name, '/');
    *slash = '\0';
    arguments->request.suite = arguments->name;
    arguments->request.kernel = slash + 1;
}

static void take_param(struct arguments *arguments, const char *text)
{
    size_t used = strlen(arguments->params);
    if (strchr(text, '=') == NULL) {
        cli_usage_error(&arguments->common, "'%s': a parameter is given as k=v", text);
    }
    if (used + strlen(text) + 2 > sizeof arguments->params) {
        cli_usage_error(&arguments->common, "'%.40s': more than %zu bytes of parameters", text,
                        sizeof arguments->params);
    }
    snprintf(arguments->params + used, sizeof arguments->params - used, "%s%s", used > 0 ? ";" : "", text);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    static const char *const caches[] = { "clean", "own", "predecessor", "flushed" };
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &arguments->common; return 0;
    case OPTION_EXACT: arguments->request.exact = true; return 0;
    case OPTION_HARNESS: arguments->request.harness = argument; return 0;
    case OPTION_LIST: arguments->list = true; return 0;
    case OPTION_FIX: cli_add_fix(&arguments->common, arguments->fixes, sizeof arguments->fixes, argument); return 0;
    case OPTION_CACHE:
        arguments->request.cache = (enum reckon_cache)(
            RECKON_CACHE_CLEAN + cli_choice(&arguments->common, "--cache", argument, caches, 4));
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->request.suite == NULL) {
            take_name(arguments, argument);
        } else {
            take_param(arguments, argument);
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void print_list(void)
{
    for (size_t i = 0; i < kernel_registry_count(); i++) {
        struct kernel_entry entry = kernel_registry_at(i);
        printf("%s/%s\n    %s\n    %s\n", entry.suite, entry.kernel, entry.summary, entry.params_help);
        char fixes[256];
        if (kernel_fixes_of(entry.suite, entry.kernel, fixes, sizeof fixes)[0] != '\0') {
            printf("    fixes: %s\n", fixes);
        }
    }
}

/* ---- text */

static void print_row(const char *label, struct reckon_kernel *const *kernels, size_t count,
                      void (*cell)(const struct reckon_kernel *kernel, char *text, size_t capacity))
{
    char text[32];
    printf("%-22s", label);
    for (size_t i = 0; i < count; i++) {
        cell(kernels[i], text, sizeof text);
        printf(" %16s", text);
    }
    putchar('\n');
}

static void cell_device(const struct reckon_kernel *kernel, char *text, size_t capacity)
{
    snprintf(text, capacity, "%s", kernel->device);
}
static void cell_time(const struct reckon_kernel *kernel, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.4g us", kernel->time_us);
}
static void cell_limiter(const struct reckon_kernel *kernel, char *text, size_t capacity)
{
    snprintf(text, capacity, "%s", kernel_stage_text(kernel->result.limiter));
}
static void cell_value(const struct reckon_kernel *kernel, char *text, size_t capacity)
{
    snprintf(text, capacity, kernel->has_value ? "%.4g %s" : "-", kernel->value, kernel->unit);
}
static void cell_atomic(const struct reckon_kernel *kernel, char *text, size_t capacity)
{
    if (kernel->result.atomic_count > 0) {
        snprintf(text, capacity, "%.4g ns", kernel->device_us * 1e3 / (double)kernel->result.atomic_count);
    } else {
        snprintf(text, capacity, "-");
    }
}
static void cell_hits(const struct reckon_kernel *kernel, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.0f / %.0f / %.0f%%", kernel->result.l1_hit_rate * 100,
             kernel->result.l2_hit_rate * 100, kernel->result.mall_hit_rate * 100);
}
static void cell_hbm(const struct reckon_kernel *kernel, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.4g MB", kernel->result.bytes[KERNEL_LEVEL_HBM] * 1e-6);
}
static void cell_occupancy(const struct reckon_kernel *kernel, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.1f / %.1f", kernel->result.waves_per_unit, kernel->result.lanes);
}
static void cell_clock(const struct reckon_kernel *kernel, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.0f MHz, %.0f W", kernel->result.clock_mhz, kernel->result.watts);
}

static void print_stack(struct reckon_kernel *const *kernels, size_t count)
{
    puts("cycle stack");
    for (int s = 0; s < KERNEL_STAGES; s++) {
        bool any = false;
        for (size_t i = 0; i < count; i++) {
            any = any || kernels[i]->result.stack[s] >= 0.0005;
        }
        if (!any) {
            continue;
        }
        printf("  %-20s", kernel_stage_text((enum kernel_stage)s));
        for (size_t i = 0; i < count; i++) {
            printf(" %15.1f%%", kernels[i]->result.stack[s] * 100);
        }
        putchar('\n');
    }
}

static void print_notes(struct reckon_kernel *const *kernels, size_t count)
{
    char basis[160];
    for (size_t i = 0; i < count; i++) {
        cli_basis_text(&kernels[i]->basis, basis, sizeof basis);
        printf("%s rests on %s values\n", kernels[i]->device, basis);
        cli_print_calibration(kernels[i]->device, kernels[i]->suite);
        for (size_t n = 0; n < kernels[i]->notes.count; n++) {
            printf("  %s\n", kernels[i]->notes.text[n]);
        }
    }
}

static void print_text(struct reckon_kernel *const *kernels, size_t count)
{
    printf("%s/%s %s%s%s\n\n", kernels[0]->suite, kernels[0]->kernel, kernels[0]->params,
           kernels[0]->harness[0] != '\0' ? ", measured by " : ", device time alone", kernels[0]->harness);
    print_row("", kernels, count, cell_device);
    print_row("time", kernels, count, cell_time);
    print_row("value", kernels, count, cell_value);
    print_row("limiter", kernels, count, cell_limiter);
    if (kernels[0]->result.atomic_count > 0) {
        print_row("time per atomic", kernels, count, cell_atomic);
    }
    print_row("HBM traffic", kernels, count, cell_hbm);
    print_row("hits L1 / L2 / MALL", kernels, count, cell_hits);
    print_row("waves per CU / lanes", kernels, count, cell_occupancy);
    print_row("clock, board power", kernels, count, cell_clock);
    print_stack(kernels, count);
    print_notes(kernels, count);
}

static struct json *answers_json(struct reckon_kernel *const *kernels, size_t count, const struct reckon_doubts *doubts)
{
    struct json *objects[CLI_DEVICES_MAX];
    double figure[CLI_DEVICES_MAX];
    for (size_t i = 0; i < count; i++) {
        objects[i] = reckon_kernel_json(kernels[i]);
        figure[i] = kernels[i]->time_us;
    }
    return doubts_answers(objects, figure, count, doubts);
}

/* With doubt the answer is the median; its parts stay those at the profile's own values. */
static enum sim_status add_doubts(struct arguments *arguments, struct reckon *reckon, struct reckon_device *const *devices,
                                  struct reckon_kernel *const *kernels, struct reckon_doubts **doubts, struct sim_error *error)
{
    size_t count = arguments->common.device_count;
    enum sim_status status = reckon_kernel_doubts(reckon, devices, count, &arguments->request, arguments->common.uncertainty,
                                                  doubts, error);
    for (size_t i = 0; status == SIM_OK && i < count && kernels[i]->time_us > 0; i++) {
        const struct reckon_interval *time = &(*doubts)->time[i];
        kernels[i]->tflops *= kernels[i]->time_us / time->median;
        kernels[i]->time_us = time->median;
        kernels[i]->time_us_low = time->low;
        kernels[i]->time_us_high = time->high;
    }
    return status;
}

static void print_doubts_text(struct reckon_kernel *const *kernels, const struct reckon_doubts *doubts)
{
    const char *names[CLI_DEVICES_MAX];
    for (size_t i = 0; i < doubts->device_count; i++) {
        names[i] = kernels[i]->device;
    }
    print_doubts(doubts, names, kernels[0]->time_us > 0 ? "us" : kernels[0]->unit);
}

int cmd_kernel(int argc, char **argv)
{
    static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 90 }, { 0 } };
    static const struct argp argp = { options, parse, "SUITE/KERNEL k=v...", doc, children, NULL, NULL };
    struct arguments arguments = { .common = { .command = argv[0], .options = { .seed = 1 }, .has_intervals = true, .has_html = true } };
    struct reckon *reckon = NULL;
    struct reckon_device *devices[CLI_DEVICES_MAX];
    struct reckon_kernel *kernels[CLI_DEVICES_MAX] = { 0 };
    struct reckon_doubts *doubts = NULL;
    struct sim_error error = { 0 };
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    if (arguments.list) {
        print_list();
        cli_common_finish(&arguments.common);
        return 0;
    }
    if (arguments.request.suite == NULL) {
        cli_usage_error(&arguments.common, "a kernel SUITE/KERNEL is needed (--list shows them)");
    }
    if (arguments.fixes[0] != '\0') {
        take_param(&arguments, arguments.fixes);
    }
    arguments.request.params = arguments.params;
    int code = cli_open(&arguments.common, NULL, &reckon, devices);
    for (size_t i = 0; code == 0 && i < arguments.common.device_count; i++) {
        if (reckon_kernel(reckon, devices[i], &arguments.request, &kernels[i], &error) != SIM_OK) {
            code = cli_fail(&arguments.common, &error);
        } else if (arguments.common.uncertainty == 0 &&
                   atomic_range_note(reckon, devices[i], &arguments.request, kernels[i], &error) != SIM_OK) {
            code = cli_fail(&arguments.common, &error);
        }
    }
    if (code == 0 && arguments.common.uncertainty > 0 &&
        add_doubts(&arguments, reckon, devices, kernels, &doubts, &error) != SIM_OK) {
        code = cli_fail(&arguments.common, &error);
    }
    if (code == 0 && arguments.common.html != NULL) {
        struct json *document = answers_json(kernels, arguments.common.device_count, doubts);
        if (cli_write_page(&arguments.common, devices, document, &error) != SIM_OK) {
            code = cli_fail(&arguments.common, &error);
        }
        json_destroy(document);
    }
    if (code == 0 && arguments.common.json) {
        cli_print_json(answers_json(kernels, arguments.common.device_count, doubts));
    } else if (code == 0) {
        print_text(kernels, arguments.common.device_count);
        cli_print_origin(devices, arguments.common.device_count);
        if (doubts != NULL) {
            print_doubts_text(kernels, doubts);
        }
    }
    reckon_doubts_free(doubts);
    for (size_t i = 0; i < CLI_DEVICES_MAX; i++) {
        reckon_kernel_free(kernels[i]);
    }
    cli_close(&arguments.common, reckon, devices);
    return code;
}
