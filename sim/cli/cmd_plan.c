/* reckon plan DEMAND.json: prices the demand's models on its offers (studies/plan.h) and prints what to buy or lease. */
#include "sim/cli/cli.h"
#include "studies/procurement.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char doc[] = "What a demand needs: GPUs, nodes, racks, power, cost, and the cheapest mix of the offers. DEMAND.json names models with "
                          "examples a day or a time to train, offers with prices, the site and its limits (docs/schemas/demand.schema.json).\v"
                          "Example:\n  reckon plan reports/examples/six_models.demand.json --html plan.html";

struct arguments {
    struct cli_common common;
    const char *path;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &arguments->common; return 0;
    case ARGP_KEY_ARG:
        if (arguments->path != NULL) {
            cli_usage_error(&arguments->common, "'%s': one demand at a time", argument);
        }
        arguments->path = argument;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static double number_at(const struct json *object, const char *key)
{
    const struct json *value = object != NULL ? json_get(object, key) : NULL;
    return value != NULL && json_kind_of(value) == JSON_NUMBER ? json_number(value) : NAN;
}

static const char *text_at(const struct json *object, const char *key)
{
    const struct json *value = json_get(object, key);
    return value != NULL && json_kind_of(value) == JSON_STRING ? json_string(value) : "";
}

static void print_fleet(const struct json *root)
{
    const struct json *fleet = json_get(root, "fleet");
    printf("\n%-24s %7s %7s %7s %9s %9s %14s %14s\n", "fleet", "nodes", "GPUs", "racks", "kW rated", "kW mean", "capital", "running");
    for (size_t i = 0; i < json_count(fleet); i++) {
        const struct json *one = json_at(fleet, i);
        printf("  %-22.22s %7.0f %7.0f %7.0f %9.1f %9.1f %14.0f %14.0f\n", text_at(one, "offer"), number_at(one, "nodes"), number_at(one, "gpus"),
               number_at(one, "racks"), number_at(one, "kw_rated"), number_at(one, "kw_mean"), number_at(one, "capital"),
               number_at(one, "lease") + number_at(one, "energy") + number_at(one, "upkeep"));
    }
}

static void print_models(const struct json *root)
{
    const struct json *models = json_get(root, "models");
    printf("\n%-24s %-16s %5s %6s %10s %12s %8s %9s\n", "models", "offer", "jobs", "GPUs", "step ms", "examples/s", "goodput", "free GiB");
    for (size_t m = 0; m < json_count(models); m++) {
        const struct json *model = json_at(models, m), *offers = json_get(model, "offers");
        for (size_t o = 0; o < json_count(offers); o++) {
            const struct json *offer = json_at(offers, o);
            if (json_bool(json_get(offer, "possible"))) {
                printf("  %-22.22s %-16.16s %5.0f %6.0f %10.3f %12.0f %7.1f%% %9.1f\n", text_at(model, "model"), text_at(offer, "offer"),
                       number_at(offer, "jobs"), number_at(offer, "gpus_per_job"), number_at(offer, "step_ms"), number_at(offer, "examples_per_s"),
                       100 * number_at(json_get(offer, "goodput"), "goodput"), number_at(offer, "memory_free_gib"));
            } else {
                printf("  %-22.22s %-16.16s cannot: %.90s\n", text_at(model, "model"), text_at(offer, "offer"), text_at(offer, "reason"));
            }
        }
    }
}

/* "  rows 1000 to 128000 and more" */
static void print_room(const struct json *room, const char *key)
{
    char name[32];
    double most = number_at(room, key);
    snprintf(name, sizeof name, "%s_now", key);
    if (isfinite(most)) {
        printf("  %s %.0f to %.0f", key, number_at(room, name), most);
        snprintf(name, sizeof name, "%s_more", key);
        fputs(json_bool(json_get(room, name)) ? " or more" : "", stdout);
    }
}

static void print_headroom(const struct json *root)
{
    const struct json *models = json_get(root, "models");
    printf("\nmemory headroom: the most of one size that still fits, all else as it is\n");
    for (size_t m = 0; m < json_count(models); m++) {
        const struct json *model = json_at(models, m), *offers = json_get(model, "offers");
        for (size_t o = 0; o < json_count(offers); o++) {
            const struct json *offer = json_at(offers, o);
            if (json_bool(json_get(offer, "possible"))) {
                const struct json *room = json_get(offer, "headroom");
                printf("  %-22.22s %-16.16s", text_at(model, "model"), text_at(offer, "offer"));
                print_room(room, "layers");
                print_room(room, "rows");
                print_room(room, "sequence");
                putchar('\n');
            }
        }
    }
}

static void print_alone(const struct json *root)
{
    const struct json *alone = json_get(root, "alone");
    printf("\n%-24s %14s %9s  %s\n", "one offer alone", "cost", "over mix", "break-even price ratio");
    for (size_t i = 0; i < json_count(alone); i++) {
        const struct json *one = json_at(alone, i), *even = json_get(one, "break_even");
        if (json_bool(json_get(one, "possible"))) {
            printf("  %-22.22s %14.0f %8.2fx  ", text_at(one, "offer"), number_at(one, "cost_total"), number_at(one, "cost_over_mix"));
        } else {
            printf("  %-22.22s %14s %9s  ", text_at(one, "offer"), "impossible", "");
        }
        if (isnan(number_at(even, "ratio"))) {
            printf("none: %s\n", text_at(even, "reason"));
        } else if (isnan(number_at(even, "ratio_low"))) {
            printf("%.2fx of %s (given %.2fx)\n", number_at(even, "ratio"), text_at(even, "against"), number_at(even, "given"));
        } else {
            printf("%.2fx [%.2f, %.2f] of %s (given %.2fx)\n", number_at(even, "ratio"), number_at(even, "ratio_low"),
                   number_at(even, "ratio_high"), text_at(even, "against"), number_at(even, "given"));
        }
    }
}

static void print_swings(const struct json *root)
{
    const struct json *swings = json_get(root, "sensitivity");
    double base = number_at(root, "cost_total");
    printf("\n%-44s %10s %10s\n", "cost as each assumption goes low to high", "low", "high");
    for (size_t i = 0; i < json_count(swings) && i < 12; i++) {
        const struct json *swing = json_at(swings, i);
        double low = number_at(swing, "cost_low"), high = number_at(swing, "cost_high");
        char texts[2][16] = { "impossible", "impossible" };
        if (isfinite(low)) {
            snprintf(texts[0], sizeof texts[0], "%+.1f%%", (low / base - 1) * 100);
        }
        if (isfinite(high)) {
            snprintf(texts[1], sizeof texts[1], "%+.1f%%", (high / base - 1) * 100);
        }
        printf("  %-42.42s %10s %10s  %.4g to %.4g%s\n", text_at(swing, "key"), texts[0], texts[1], number_at(swing, "low"),
               number_at(swing, "high"), json_bool(json_get(swing, "range_given")) ? "" : " (a tenth either way)");
    }
}

static void print_text(const struct json *root)
{
    const struct json *notes = json_get(root, "notes");
    const char *currency = text_at(root, "currency");
    printf("%s over %g years%s\n\n", text_at(root, "demand"), number_at(root, "years"),
           json_bool(json_get(root, "example_prices")) ? ", at example prices" : "");
    printf("%.0f GPUs in %.0f nodes and %.0f racks, %.1f kW rated; %s %.0f capital and %.0f a year to run: %.4g a billion examples\n",
           number_at(root, "gpus"), number_at(root, "nodes"), number_at(root, "racks"), number_at(root, "kw_rated"), currency,
           number_at(root, "capital"), number_at(root, "running_per_year"), number_at(root, "cost_per_billion_examples"));
    if (isfinite(number_at(root, "cost_total_low")) && isfinite(number_at(root, "cost_total_high"))) {
        printf("cost in all %.0f [%.0f, %.0f]: the cheapest mix in 80%% of the samples of the speeds\n", number_at(root, "cost_total"),
               number_at(root, "cost_total_low"), number_at(root, "cost_total_high"));
    }
    print_fleet(root);
    print_models(root);
    print_headroom(root);
    print_alone(root);
    print_swings(root);
    puts("\nnotes");
    for (size_t i = 0; i < json_count(notes); i++) {
        printf("  %s\n", json_string(json_at(notes, i)));
    }
}

static int solve(struct arguments *arguments, struct procurement *plan)
{
    struct reckon *reckon = NULL;
    struct sim_error error = { 0 };
    cli_progress(&arguments->common);
    if (arguments->common.uncertainty > 0) {
        procurement_set_samples(plan, arguments->common.uncertainty);
    }
    enum sim_status status = reckon_create(&arguments->common.options, &reckon, &error);
    if (status == SIM_OK) {
        status = procurement_solve(reckon, plan, &error);
    }
    reckon_destroy(reckon);
    if (status != SIM_OK) {
        return cli_fail(&arguments->common, &error);
    }
    const struct chip_profile *chips[CLI_DEVICES_MAX];
    size_t count = procurement_device_count(plan);
    for (size_t i = 0; i < count; i++) {
        chips[i] = procurement_chip(plan, i);
    }
    struct json *document = procurement_json(plan);
    status = cli_write_page_of(&arguments->common, chips, count, document, &error);
    if (status == SIM_OK && arguments->common.json) {
        cli_print_json(document);
        return 0;
    }
    if (status == SIM_OK) {
        print_text(document);
    }
    json_destroy(document);
    return status == SIM_OK ? 0 : cli_fail(&arguments->common, &error);
}

int cmd_plan(int argc, char **argv)
{
    static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 90 }, { 0 } };
    static const struct argp argp = { NULL, parse, "DEMAND.json", doc, children, NULL, NULL };
    struct arguments arguments = { .common = { .command = argv[0], .options = { .seed = 1 }, .has_intervals = true, .has_html = true,
                                                .names_devices = "the demand's offers name the devices" } };
    struct procurement *plan = NULL;
    struct sim_error error = { 0 };
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    if (arguments.path == NULL) {
        cli_usage_error(&arguments.common, "a demand is needed (docs/schemas/demand.schema.json)");
    }
    int code = procurement_read(arguments.path, &plan, &error) == SIM_OK ? solve(&arguments, plan) : cli_fail(&arguments.common, &error);
    procurement_free(plan);
    free(arguments.common.options.progress_context);
    cli_common_finish(&arguments.common);
    return code;
}
