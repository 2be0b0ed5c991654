/* reckon atomics SUITE/KERNEL k=v ... --over VARIABLE=LIST: time against contention, before and after each fix. */
#include "sim/cli/atomic_range.h"
#include "sim/cli/print_atomics.h"
#include "sim/step/session.h"
#include "workloads/kernels/fix.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_OVER = 0x2000, OPTION_FIX, OPTION_SVG };

#define POINTS_DEFAULT 5
#define PARAMS_CAPACITY 512

static const char doc[] =
    "Time of a kernel that adds to memory against what makes it slow, on one or more devices, before and "
    "after each fix, with the crossovers.\vVariables: rate (of violations), addresses (distinct "
    "ones: the kernel's naddr or rows), skew (Zipf's alpha), hot_share (of lookups on one row). LIST is "
    "a,b,c or first:last[:points].\nExample:\n  reckon atomics bounds_check/per_thread_atomic \\\n    "
    "--over rate=0:0.2 --device mi350x,b200 --fix tree-reduction";

static const struct argp_option options[] = {
    { "over", OPTION_OVER, "VARIABLE=LIST", 0, "rate, addresses, skew or hot_share, and its values", 1 },
    { "fix", OPTION_FIX, "F[+F]", 0,
      "a curve more, with this fix; repeatable (reckon kernel --list names them)", 1 },
    { "svg", OPTION_SVG, "FILE", 0, "the curves as a picture", 1 },
    { 0 },
};

static const struct variable {
    const char *name, *suite, *parameter; /* suite NULL: all others */
    double min, max;
    bool whole;
} variables[] = {
    { "rate", NULL, "rate", 0, 1, false },
    { "addresses", "atomic", "naddr", 1, 4294967295.0, true },
    { "addresses", NULL, "rows", 1, 4294967295.0, true },
    { "skew", NULL, "alpha", 0, 8, false },
    { "hot_share", NULL, "hot_share", 0, 1, false },
};

struct arguments {
    struct cli_common common;
    char name[96]; /* SUITE/KERNEL, cut in two */
    char params[PARAMS_CAPACITY];
    const char *over, *svg;
    struct atomics_answer answer;
};

static void take_word(struct arguments *arguments, const char *text)
{
    struct atomics_answer *answer = &arguments->answer;
    if (answer->suite == NULL) {
        if (strlen(text) >= sizeof arguments->name || strchr(text, '/') == NULL) {
            cli_usage_error(&arguments->common,
                            "'%s': a kernel is named SUITE/KERNEL (reckon kernel --list shows them)", text);
        }
        strcpy(arguments->name, text);
        char *slash = strchr(arguments->name, '/');
        *slash = '\0';
        answer->suite = arguments->name;
        answer->kernel = slash + 1;
        return;
    }
    size_t used = strlen(arguments->params);
    if (strchr(text, '=') == NULL || strncmp(text, "fix=", 4) == 0) {
        cli_usage_error(&arguments->common, "'%s': a parameter is given as k=v, a fix by --fix", text);
    }
    if (used + strlen(text) + 2 > sizeof arguments->params) {
        cli_usage_error(&arguments->common, "'%.40s': more than %d bytes of parameters", text,
                        PARAMS_CAPACITY);
    }
    snprintf(arguments->params + used, sizeof arguments->params - used, "%s%s", used > 0 ? ";" : "", text);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct atomics_answer *answer = &arguments->answer;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &arguments->common; return 0;
    case OPTION_OVER: arguments->over = argument; return 0;
    case OPTION_SVG: arguments->svg = cli_output(&arguments->common, "--svg", argument); return 0;
    case OPTION_FIX:
        if (answer->curve_count == ATOMICS_CURVES_MAX) {
            cli_usage_error(&arguments->common, "--fix '%s': more than %d fixes", argument,
                            ATOMICS_CURVES_MAX - 1);
        }
        answer->fixes[answer->curve_count++] = argument;
        return 0;
    case ARGP_KEY_ARG: take_word(arguments, argument); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- what varies */

static const struct variable *find_variable(struct arguments *arguments, const char *list)
{
    size_t length = (size_t)(list - arguments->over);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const struct variable *v = &variables[i];
        if (strlen(v->name) == length && strncmp(v->name, arguments->over, length) == 0 &&
            (v->suite == NULL || strcmp(v->suite, arguments->answer.suite) == 0)) {
            return v;
        }
    }
    cli_usage_error(&arguments->common, "--over '%s': must be one of rate, addresses, skew, hot_share",
                    arguments->over);
}

static double read_value(struct arguments *arguments, const struct variable *variable, const char *text,
                         char **end)
{
    double value = strtod(text, end);
    if (*end == text || !(value >= variable->min && value <= variable->max) ||
        (variable->whole && value != floor(value))) {
        cli_usage_error(&arguments->common, "--over '%s': at '%.20s' a %snumber from %g to %g is needed",
                        arguments->over, text, variable->whole ? "whole " : "", variable->min, variable->max);
    }
    return value;
}

static void add_value(struct arguments *arguments, double value)
{
    struct atomics_answer *answer = &arguments->answer;
    if (answer->value_count > 0 && value <= answer->values[answer->value_count - 1]) {
        if (value == answer->values[answer->value_count - 1]) {
            return; /* two points of a range on one whole number */
        }
        cli_usage_error(&arguments->common, "--over '%s': values must ascend", arguments->over);
    }
    if (answer->value_count == ATOMICS_VALUES_MAX) {
        cli_usage_error(&arguments->common, "--over '%s': more than %d values", arguments->over,
                        ATOMICS_VALUES_MAX);
    }
    answer->values[answer->value_count++] = value;
}

/* Addresses go by equal factors, all others by equal steps. */
static void add_range(struct arguments *arguments, const struct variable *variable, double first, double last,
                      double points)
{
    if (!(last > first) || !(points >= 2 && points <= ATOMICS_VALUES_MAX) || points != floor(points)) {
        cli_usage_error(&arguments->common,
                        "--over '%s': first:last[:points] needs first below last and 2 to %d points",
                        arguments->over, ATOMICS_VALUES_MAX);
    }
    for (int i = 0; i < (int)points; i++) {
        double share = i / (points - 1);
        double value = variable->whole ? round(first * pow(last / first, share))
                                       : first + share * (last - first);
        add_value(arguments, i + 1 == (int)points ? last : value);
    }
}

static void read_over(struct arguments *arguments)
{
    const char *equals = arguments->over != NULL ? strchr(arguments->over, '=') : NULL;
    if (equals == NULL) {
        cli_usage_error(&arguments->common,
                        "--over is needed: VARIABLE=LIST, with rate, addresses, skew or hot_share");
    }
    const struct variable *variable = find_variable(arguments, equals);
    arguments->answer.variable = variable->name;
    arguments->answer.parameter = variable->parameter;
    char *end;
    double first = read_value(arguments, variable, equals + 1, &end);
    if (*end == ':') {
        double last = read_value(arguments, variable, end + 1, &end), points = POINTS_DEFAULT;
        if (*end == ':') {
            points = strtod(end + 1, &end);
        }
        if (*end == '\0') {
            add_range(arguments, variable, first, last, points);
        }
    } else {
        add_value(arguments, first);
        while (*end == ',') {
            add_value(arguments, read_value(arguments, variable, end + 1, &end));
        }
    }
    if (*end != '\0') {
        cli_usage_error(&arguments->common,
                        "--over '%s': '%s' is not understood: a,b,c or first:last[:points] is needed",
                        arguments->over, end);
    }
    arguments->answer.logarithmic = variable->whole;
    size_t length = strlen(variable->parameter);
    for (const char *at = arguments->params; at != NULL;
         at = strchr(at, ';') != NULL ? strchr(at, ';') + 1 : NULL) {
        if (strncmp(at, variable->parameter, length) == 0 && at[length] == '=') {
            cli_usage_error(&arguments->common, "parameter '%s' is given and varies too: leave it out",
                            variable->parameter);
        }
    }
}

/* ---- pricing */

/* Parameters of one point; caller frees. A skew is Zipf's alpha for every value, 1 and below too, unless the user names
 * another generator. */
static char *point_params(const struct arguments *arguments, size_t curve, size_t value)
{
    const struct atomics_answer *answer = &arguments->answer;
    bool zipf = strcmp(answer->variable, "skew") == 0 && strstr(arguments->params, "generator=") == NULL;
    char *text = NULL;
    int length = asprintf(&text, "%s%s%s=%.15g%s%s%s", arguments->params,
                          arguments->params[0] != '\0' ? ";" : "", answer->parameter, answer->values[value],
                          zipf ? ";generator=zipf" : "", answer->fixes[curve] != NULL ? ";fix=" : "",
                          answer->fixes[curve] != NULL ? answer->fixes[curve] : "");
    SIM_ASSERT(length >= 0, "no memory for parameters");
    return text;
}

/* All points of a device at once over the session's workers, then one by one from its memo. */
static enum sim_status price_device(struct arguments *arguments, struct reckon *reckon,
                                    const struct reckon_device *device, struct atomics_device *out,
                                    struct sim_error *error)
{
    struct atomics_answer *answer = &arguments->answer;
    struct kernel_price_request requests[ATOMICS_CURVES_MAX * ATOMICS_VALUES_MAX] = { 0 };
    char *params[ATOMICS_CURVES_MAX * ATOMICS_VALUES_MAX] = { 0 };
    size_t count = answer->curve_count * answer->value_count;
    for (size_t i = 0; i < count; i++) {
        params[i] = point_params(arguments, i / answer->value_count, i % answer->value_count);
        requests[i] = (struct kernel_price_request){ .suite = answer->suite,
                                                     .kernel = answer->kernel,
                                                     .params = params[i],
                                                     .cache = HARNESS_CACHE_PROGRAM };
    }
    enum sim_status status = session_price(reckon, device, requests, count, error);
    for (size_t i = 0; i < count; i++) {
        struct reckon_kernel_request request = { .suite = answer->suite,
                                                 .kernel = answer->kernel,
                                                 .params = params[i] };
        if (status == SIM_OK) {
            status = reckon_kernel(reckon, device, &request,
                                   &out->kernels[i / answer->value_count][i % answer->value_count], error);
        }
        free(params[i]);
    }
    return status;
}

/* ---- sensitivity */

/* The plain kernel at point `at`, with one number at an end of its range. */
static enum sim_status price_with(struct arguments *arguments, struct reckon *reckon, struct reckon_device *device,
                                  enum chip_number index, bool high, size_t at, double *us, struct sim_error *error)
{
    char *params = point_params(arguments, 0, at);
    struct reckon_kernel_request request = { .suite = arguments->answer.suite,
                                             .kernel = arguments->answer.kernel,
                                             .params = params };
    enum sim_status status = atomic_range_price(reckon, device, &request, &index, 1, high, us, error);
    free(params);
    return status;
}

/* Values of the atomic unit that nobody has published, where the kernel leans on atomics: its time at their low and high. */
static enum sim_status find_sensitivity(struct arguments *arguments, struct reckon *reckon,
                                        struct reckon_device *device, struct atomics_device *out,
                                        struct sim_error *error)
{
    const struct chip_profile *chip = reckon_device_chip(device);
    const struct atomics_answer *answer = &arguments->answer;
    for (size_t v = 1; v < answer->value_count; v++) { /* where atomics hold most time */
        const struct reckon_kernel *const *plain = (const struct reckon_kernel *const *)out->kernels[0];
        bool more = plain[v]->time_us * plain[v]->result.stack[KERNEL_STAGE_ATOMIC] >
                    plain[out->sensitive_at]->time_us *
                        plain[out->sensitive_at]->result.stack[KERNEL_STAGE_ATOMIC];
        out->sensitive_at = more ? v : out->sensitive_at;
    }
    const struct reckon_kernel *kernel = out->kernels[0][out->sensitive_at];
    enum sim_status status = SIM_OK;
    bool leans = kernel->result.stack[KERNEL_STAGE_ATOMIC] >= ATOMIC_RANGE_LEANS;
    for (int i = 0; i < CHIP_NUMBERS && leans && status == SIM_OK; i++) {
        enum chip_number index = (enum chip_number)i, same;
        if (!atomic_range_unpublished(chip, index) || out->sensitivity_count == ATOMICS_SENSITIVITY_MAX) {
            continue;
        }
        const char *key = chip_number_key(index);
        struct atomics_sensitivity *s = &out->sensitivity[out->sensitivity_count];
        *s = (struct atomics_sensitivity){ .key = key,
                                           .unit = chip_number_unit(index),
                                           .low = chip->meta[index].low,
                                           .high = chip->meta[index].high,
                                           .value = *chip_profile_number(reckon_device_chip_edit(device), key, &same) };
        status = price_with(arguments, reckon, device, index, false, out->sensitive_at, &s->us_low, error);
        if (status == SIM_OK) {
            status = price_with(arguments, reckon, device, index, true, out->sensitive_at, &s->us_high, error);
        }
        bool moves = fabs(s->us_low / kernel->time_us - 1) > ATOMIC_RANGE_MOVES ||
                     fabs(s->us_high / kernel->time_us - 1) > ATOMIC_RANGE_MOVES;
        out->sensitivity_count += moves;
    }
    return status;
}

/* ---- doubt */

/* Every point at samples of what nobody measured, paired over the devices: time_us becomes their median. After the sensitivity,
 * which compares with the profile's own values. */
static enum sim_status sample_points(struct arguments *arguments, struct reckon *reckon, struct reckon_device *const *devices,
                                     struct sim_error *error)
{
    struct atomics_answer *answer = &arguments->answer;
    enum sim_status status = SIM_OK;
    for (size_t i = 0; status == SIM_OK && i < answer->curve_count * answer->value_count; i++) {
        size_t c = i / answer->value_count, v = i % answer->value_count;
        char *params = point_params(arguments, c, v);
        struct reckon_kernel_request request = { .suite = answer->suite, .kernel = answer->kernel, .params = params };
        struct reckon_doubts *doubts = NULL;
        status = reckon_kernel_doubts(reckon, devices, answer->device_count, &request, arguments->common.uncertainty, &doubts, error);
        for (size_t d = 0; status == SIM_OK && d < answer->device_count; d++) {
            struct reckon_kernel *kernel = answer->devices[d].kernels[c][v];
            kernel->time_us = doubts->time[d].median;
            kernel->time_us_low = doubts->time[d].low;
            kernel->time_us_high = doubts->time[d].high;
        }
        reckon_doubts_free(doubts);
        free(params);
    }
    answer->samples = arguments->common.uncertainty;
    return status;
}

/* ---- the command */

static struct json *answers_json(const struct atomics_answer *answer)
{
    struct json *list = json_new_array();
    if (answer->device_count == 1) {
        json_destroy(list);
        return atomics_json(answer, 0);
    }
    for (size_t d = 0; d < answer->device_count; d++) {
        json_append(list, atomics_json(answer, d));
    }
    return list;
}

/* The page, where asked for, and the answer. */
static int give_answer(const struct arguments *arguments, struct reckon_device *const *devices)
{
    struct sim_error error = { 0 };
    struct json *document = answers_json(&arguments->answer);
    if (cli_write_page(&arguments->common, devices, document, &error) != SIM_OK) {
        json_destroy(document);
        return cli_fail(&arguments->common, &error);
    }
    if (arguments->common.json) {
        cli_print_json(document);
        return 0;
    }
    json_destroy(document);
    print_atomics_text(&arguments->answer);
    return 0;
}

int cmd_atomics(int argc, char **argv)
{
    static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 90 }, { 0 } };
    static const struct argp argp = { options, parse, "SUITE/KERNEL k=v...", doc, children, NULL, NULL };
    struct arguments arguments = { .common = { .command = argv[0], .options = { .seed = 1 }, .has_html = true, .has_intervals = true },
                                   .answer = { .curve_count = 1 } };
    struct atomics_answer *answer = &arguments.answer;
    struct reckon *reckon = NULL;
    struct reckon_device *devices[CLI_DEVICES_MAX];
    struct sim_error error = { 0 };
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    if (answer->suite == NULL) {
        cli_usage_error(&arguments.common,
                        "a kernel SUITE/KERNEL is needed (reckon kernel --list shows them)");
    }
    answer->params = arguments.params;
    read_over(&arguments);
    int code = cli_open(&arguments.common, NULL, &reckon, devices);
    answer->device_count = arguments.common.device_count;
    answer->devices = calloc(answer->device_count > 0 ? answer->device_count : 1, sizeof *answer->devices);
    SIM_ASSERT(answer->devices != NULL, "no memory for an answer");
    for (size_t d = 0; code == 0 && d < answer->device_count; d++) {
        enum sim_status status = price_device(&arguments, reckon, devices[d], &answer->devices[d], &error);
        if (status == SIM_OK) {
            status = find_sensitivity(&arguments, reckon, devices[d], &answer->devices[d], &error);
        }
        code = status == SIM_OK ? 0 : cli_fail(&arguments.common, &error);
    }
    if (code == 0 && arguments.common.uncertainty > 0 && sample_points(&arguments, reckon, devices, &error) != SIM_OK) {
        code = cli_fail(&arguments.common, &error);
    }
    if (code == 0 && arguments.svg != NULL && write_atomics_svg(answer, arguments.svg, &error) != SIM_OK) {
        code = cli_fail(&arguments.common, &error);
    }
    if (code == 0) {
        code = give_answer(&arguments, devices);
    }
    for (size_t i = 0; i < answer->device_count * ATOMICS_CURVES_MAX * ATOMICS_VALUES_MAX; i++) {
        size_t within = i % (ATOMICS_CURVES_MAX * ATOMICS_VALUES_MAX);
        reckon_kernel_free(answer->devices[i / (ATOMICS_CURVES_MAX * ATOMICS_VALUES_MAX)]
                               .kernels[within / ATOMICS_VALUES_MAX][within % ATOMICS_VALUES_MAX]);
    }
    free(answer->devices);
    cli_close(&arguments.common, reckon, devices);
    return code;
}
