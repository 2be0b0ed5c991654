/* reckon power: what board power leaves a dense product in bursts, by duty and length of a burst, with excursions above the
 * board's limit and without. The product is priced once; the rest is the governor (sim/chiplet/power.h). */
#include "sim/chiplet/power.h"
#include "sim/core/output_file.h"
#include "sim/cli/cli.h"
#include "sim/core/json.h"
#include "sim/step/session.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_SVG = 0x3000, OPTION_LOW };

static const char doc[] = "Throughput of an n x n x n product in bursts with pauses, by duty and burst, with excursions above "
                          "the board's power limit over without.\v"
                          "Example:\n  reckon power n=8192 dtype=bf16 --device mi350x --svg gain.svg";

static const struct argp_option options[] = {
    { "svg", OPTION_SVG, "FILE", 0, "write the curves of the first device", 1 },
    { "low-watts", OPTION_LOW, "W", 0, "board power in the pauses (default: idle)", 1 },
    { 0 },
};

#define DUTY_COUNT 20
static const double burst_ms[] = { 1, 10, 50, 200, 1000 };
#define BURST_COUNT (sizeof burst_ms / sizeof burst_ms[0])

struct arguments {
    struct cli_common common;
    const char *svg;
    double low_watts; /* 0: idle */
    uint64_t n;
    char dtype[8];
};

struct curve {
    double product_us, steady_us, steady_mhz, highest_mhz, highest_watts;
    double gain[BURST_COUNT][DUTY_COUNT];
};

static double duty_at(size_t index)
{
    return (double)(index + 1) / DUTY_COUNT;
}

static void take_param(struct arguments *arguments, const char *text)
{
    static const char *const dtypes[] = { "bf16", "fp16", "tf32", "fp32", "fp8" };
    if (strncmp(text, "n=", 2) == 0) {
        arguments->n = cli_integer(&arguments->common, "n", text + 2, 16, 65536);
    } else if (strncmp(text, "dtype=", 6) == 0) {
        strcpy(arguments->dtype, dtypes[cli_choice(&arguments->common, "dtype", text + 6, dtypes, 5)]);
    } else {
        cli_usage_error(&arguments->common, "'%s' is neither n=N nor dtype=T", text);
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &arguments->common; return 0;
    case OPTION_SVG: arguments->svg = cli_output(&arguments->common, "--svg", argument); return 0;
    case OPTION_LOW: arguments->low_watts = cli_number(&arguments->common, "--low-watts", argument, 1, 5000); return 0;
    case ARGP_KEY_ARG: take_param(arguments, argument); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static enum sim_status curve_make(struct reckon *reckon, const struct reckon_device *device,
                                  const struct arguments *arguments, struct curve *curve, struct sim_error *error)
{
    const struct chip_profile *chip = reckon_device_chip(device);
    char params[96];
    unsigned long long n = arguments->n;
    snprintf(params, sizeof params, "M=%llu;N=%llu;K=%llu;dtype=%s", n, n, n, arguments->dtype);
    struct kernel_price_request request = { .suite = "gemm", .kernel = "mm", .params = params };
    enum sim_status status = session_price(reckon, device, &request, 1, error);
    if (status != SIM_OK) {
        return status;
    }
    const struct kernel_price *price = session_price_of(reckon, device, &request);
    if (price->status != SIM_OK) {
        return sim_fail(error, price->status, "%s", price->error);
    }
    struct power_load product = kernel_price_load(price, chip);
    double low = fmax(arguments->low_watts - chip->power_idle, 0);
    curve->product_us = product.us;
    curve->highest_mhz = chip->clock_core_max;
    curve->highest_watts = power_load_watts(&product, chip, chip->clock_core_max);
    curve->steady_mhz = power_clock_for(&product, chip, chip->power_board_limit);
    curve->steady_us = power_load_us(&product, chip, curve->steady_mhz);
    for (size_t b = 0; b < BURST_COUNT; b++) {
        for (size_t d = 0; d < DUTY_COUNT; d++) {
            struct power_load loads[2] = { product, { .memory_watts = low } };
            struct power_run runs[2];
            struct power_governor governor;
            loads[0].us = product.us * fmax(1, round(burst_ms[b] * 1e3 / product.us));
            loads[1].us = loads[0].us * (1 - duty_at(d)) / duty_at(d);
            power_governor_init(&governor, chip, true);
            power_governor_settle(&governor, loads, 2, runs);
            curve->gain[b][d] = curve->steady_us * loads[0].us / product.us / runs[0].us;
        }
    }
    return SIM_OK;
}

static void print_text(const struct arguments *arguments, const struct chip_profile *chip, const struct curve *curve)
{
    printf("%s, %s %llu^3: %.4g us at %.0f MHz (%.0f W), %.4g us at %.0f MHz within %.0f W\n\n", chip->name,
           arguments->dtype, (unsigned long long)arguments->n, curve->product_us, curve->highest_mhz, curve->highest_watts,
           curve->steady_us, curve->steady_mhz, chip->power_board_limit);
    printf("gain of excursions, by duty and length of a burst\n  duty ");
    for (size_t b = 0; b < BURST_COUNT; b++) {
        printf(" %6.0f ms", burst_ms[b]);
    }
    putchar('\n');
    for (size_t d = 1; d < DUTY_COUNT; d += 2) {
        printf("  %.2f ", duty_at(d));
        for (size_t b = 0; b < BURST_COUNT; b++) {
            printf(" %8.3fx", curve->gain[b][d]);
        }
        putchar('\n');
    }
}

static struct json *curve_json(const struct arguments *arguments, const struct chip_profile *chip, const struct curve *curve)
{
    struct json *object = json_new_object(), *rows = json_new_array();
    json_set_string(object, "schema", "reckon.power/1");
    json_set_string(object, "device", chip->name);
    json_set_number(object, "n", (double)arguments->n);
    json_set_string(object, "dtype", arguments->dtype);
    json_set_number(object, "highest_us", curve->product_us);
    json_set_number(object, "steady_us", curve->steady_us);
    json_set_number(object, "steady_mhz", curve->steady_mhz);
    for (size_t b = 0; b < BURST_COUNT; b++) {
        for (size_t d = 0; d < DUTY_COUNT; d++) {
            struct json *row = json_new_object();
            json_set_number(row, "burst_ms", burst_ms[b]);
            json_set_number(row, "duty", duty_at(d));
            json_set_number(row, "gain", curve->gain[b][d]);
            json_append(rows, row);
        }
    }
    json_set(object, "rows", rows);
    return object;
}

/* ---- the curves */

#define WIDTH 680.0
#define HEIGHT 400.0
#define LEFT 60.0
#define RIGHT 180.0
#define TOP 44.0
#define BOTTOM 48.0
#define GAIN_TOP 1.5
/* Best duty and duration of the study's 8192^3 product on an MI350X (arXiv:2610.22230, Fig. 6). */
#define PUBLISHED_GAIN 1.33

static double x_of(double duty)
{
    return LEFT + duty * (WIDTH - LEFT - RIGHT);
}

static double y_of(double gain)
{
    return HEIGHT - BOTTOM - (gain - 1) / (GAIN_TOP - 1) * (HEIGHT - TOP - BOTTOM);
}

static enum sim_status svg_write(const struct arguments *arguments, const struct chip_profile *chip,
                                 const struct curve *curve, struct sim_error *error)
{
    static const char *const colours[BURST_COUNT] = { "#2563a8", "#2a8a5e", "#b06a12", "#a8324a", "#6b4fa0" };
    struct output_file file;
    enum sim_status status = output_file_open(&file, "--svg ", arguments->svg, error);
    if (status != SIM_OK) {
        return status;
    }
    FILE *out = file.stream;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n"
            "<text x=\"%.0f\" y=\"22\" font-size=\"14\" fill=\"#222\">Gain of power excursions: %s, %s %llu&#179;, %.0f W</text>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, chip->name, arguments->dtype, (unsigned long long)arguments->n,
            chip->power_board_limit);
    for (int i = 0; i <= 5; i++) {
        double gain = 1 + i * 0.1, duty = i * 0.2;
        fprintf(out, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#e3e6ea\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%.1fx</text>\n",
                LEFT, y_of(gain), x_of(1), LEFT - 8, y_of(gain) + 4, gain);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#555\">%.1f</text>\n", x_of(duty), HEIGHT - BOTTOM + 18,
                duty);
    }
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#555\">duty of the bursts</text>\n", x_of(0.5), HEIGHT - 10);
    fprintf(out, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#444\" stroke-dasharray=\"5 4\"/><text x=\"%.1f\" y=\"%.1f\" fill=\"#444\">%.2fx published (MI350X)</text>\n",
            LEFT, y_of(PUBLISHED_GAIN), x_of(1), x_of(1) + 8, y_of(PUBLISHED_GAIN) + 4, PUBLISHED_GAIN);
    fprintf(out, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#222\" stroke-width=\"1.5\"/><text x=\"%.1f\" y=\"%.1f\" fill=\"#222\">no excursion</text>\n",
            LEFT, y_of(1), x_of(1), x_of(1) + 8, y_of(1) + 4);
    for (size_t b = 0; b < BURST_COUNT; b++) {
        fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colours[b]);
        for (size_t d = 0; d < DUTY_COUNT; d++) {
            fprintf(out, "%.1f,%.1f ", x_of(duty_at(d)), y_of(curve->gain[b][d]));
        }
        fprintf(out, "\"/><text x=\"%.1f\" y=\"%.1f\" fill=\"%s\">bursts of %.0f ms</text>\n", x_of(1) + 8, TOP + 130 + 18.0 * (double)b, colours[b],
                burst_ms[b]);
    }
    fputs("</svg>\n", out);
    return output_file_close(&file, error);
}

int cmd_power(int argc, char **argv)
{
    static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 90 }, { 0 } };
    static const struct argp argp = { options, parse, "[n=N] [dtype=T]", doc, children, NULL, NULL };
    struct arguments arguments = { .common = { .command = argv[0], .options = { .seed = 1 } }, .n = 8192, .dtype = "bf16" };
    struct reckon *reckon = NULL;
    struct reckon_device *devices[CLI_DEVICES_MAX];
    struct sim_error error = { 0 };
    struct json *list = json_new_array();
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    int code = cli_open(&arguments.common, NULL, &reckon, devices);
    for (size_t i = 0; code == 0 && i < arguments.common.device_count; i++) {
        const struct chip_profile *chip = reckon_device_chip(devices[i]);
        struct curve curve = { 0 };
        enum sim_status status = curve_make(reckon, devices[i], &arguments, &curve, &error);
        if (status == SIM_OK && i == 0 && arguments.svg != NULL) {
            status = svg_write(&arguments, chip, &curve, &error);
        }
        if (status != SIM_OK) {
            code = cli_fail(&arguments.common, &error);
        } else if (arguments.common.json) {
            json_append(list, curve_json(&arguments, chip, &curve));
        } else {
            print_text(&arguments, chip, &curve);
        }
    }
    if (code == 0 && arguments.common.json) {
        cli_print_json(list);
    } else {
        json_destroy(list);
    }
    cli_close(&arguments.common, reckon, devices);
    return code;
}
