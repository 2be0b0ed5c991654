#include "sim/cli/collective_curve.h"
#include "sim/core/output_file.h"
#include "sim/core/data_path.h"
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZES 25 /* 512 B x 2^i */
#define FIRST_BYTES 512.0
#define BYTES_PER_US 1000.0
#define MEASURED_MAX 256
#define CALLS 20.0 /* as nccl-tests times them */

/* Geometry, in SVG units. */
#define WIDTH 860
#define LEFT 80
#define RIGHT 24
#define PANEL_TOP 64
#define PANEL_HEIGHT 250
#define PANEL_GAP 70

struct point {
    double bytes, us, bus_gbs;
};

struct curve {
    struct point predicted[SIZES], bound[SIZES], measured[MEASURED_MAX];
    size_t measured_count;
    const char *file; /* of the measured rows, for the legend */
};

static enum sim_status predict(const struct collective_curve_request *request, struct curve *curve,
                               struct sim_error *error)
{
    for (int i = 0; i < SIZES; i++) {
        struct collective_request call = request->call;
        struct collective_result result;
        call.bytes = ldexp(FIRST_BYTES, i);
        call.split_bytes = NULL;
        enum sim_status status = collective_time(request->node, &call, request->engine, &result, error);
        if (status != SIM_OK) {
            return status;
        }
        double us = fabric_called_us(&request->harness, CALLS, result.time_us);
        double per_call = result.busbw_gbs * result.time_us;
        curve->predicted[i] = (struct point){ call.bytes, us, per_call / us };
        curve->bound[i] = (struct point){ call.bytes, result.bound_us, per_call / result.bound_us };
    }
    return SIM_OK;
}

/* A row of the same call, or nothing. */
static void take_row(const struct collective_curve_request *request, char *line, struct curve *curve)
{
    char suite[24], kernel[48], params[200];
    double us;
    struct collective_request row, same;
    struct collective_result factor;
    struct sim_error ignored;
    if (sscanf(line, "%23[^,],%47[^,],%199[^,],%lf", suite, kernel, params, &us) != 4 || !(us > 0) ||
        !fabric_rows_cover(suite) || curve->measured_count == MEASURED_MAX ||
        fabric_row_request(suite, kernel, params, &row, &ignored) != SIM_OK ||
        row.gpus != request->call.gpus || row.nodes != request->call.nodes) {
        return;
    }
    same = request->call;
    same.bytes = row.bytes;
    same.split_bytes = NULL;
    if (!collective_same_kind(row.kind, same.kind) ||
        collective_time(request->node, &same, request->engine, &factor, &ignored) != SIM_OK) {
        return;
    }
    double per_call = factor.busbw_gbs * factor.time_us;
    curve->measured[curve->measured_count++] = (struct point){ row.bytes, us, per_call / us };
}

static enum sim_status read_measured(const struct collective_curve_request *request, const char *path,
                                     struct curve *curve, struct sim_error *error)
{
    char *line = NULL;
    size_t capacity = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    while (getline(&line, &capacity, file) >= 0) {
        take_row(request, line, curve);
    }
    free(line);
    fclose(file);
    return SIM_OK;
}

static enum sim_status find_measured(const struct collective_curve_request *request, struct curve *curve,
                                     char path[DATA_PATH_CAPACITY], struct sim_error *error)
{
    if (request->measured != NULL) {
        snprintf(path, DATA_PATH_CAPACITY, "%s", request->measured);
        return read_measured(request, path, curve, error);
    }
    const char *device = node_profile_device(request->node);
    for (int i = 0; i < 2; i++) {
        snprintf(path, DATA_PATH_CAPACITY, "%.3900s/calib/data/%s%.32s/%s", data_path_root(),
                 i == 0 ? "published/" : "", device, i == 0 ? "collective.csv" : "nccl.csv");
        if (access(path, R_OK) == 0) {
            return read_measured(request, path, curve, error);
        }
    }
    path[0] = '\0';
    return SIM_OK;
}

/* ---- drawing. Both axes of both panels are logarithmic. */

struct panel {
    FILE *out;
    double top;
    double bytes_low, bytes_high, low, high; /* powers of two; powers of ten */
    bool is_time;
};

static double x_of(const struct panel *panel, double bytes)
{
    double share = log(bytes / panel->bytes_low) / log(panel->bytes_high / panel->bytes_low);
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct panel *panel, double value)
{
    double share = log(value / panel->low) / log(panel->high / panel->low);
    return panel->top + (1 - share) * PANEL_HEIGHT;
}

static double value_of(const struct panel *panel, const struct point *point)
{
    return panel->is_time ? point->us : point->bus_gbs;
}

static void fit_range(struct panel *panel, const struct curve *curve)
{
    double low = INFINITY, high = 0, first = FIRST_BYTES, last = ldexp(FIRST_BYTES, SIZES - 1);
    for (int i = 0; i < SIZES; i++) {
        low = fmin(low, value_of(panel, &curve->predicted[i]));
        high = fmax(high, fmax(value_of(panel, &curve->predicted[i]),
                               panel->is_time ? 0 : value_of(panel, &curve->bound[i])));
    }
    for (size_t i = 0; i < curve->measured_count; i++) {
        low = fmin(low, value_of(panel, &curve->measured[i]));
        high = fmax(high, value_of(panel, &curve->measured[i]));
        first = fmin(first, curve->measured[i].bytes);
        last = fmax(last, curve->measured[i].bytes);
    }
    panel->low = pow(10, floor(log10(low)));
    panel->high = pow(10, ceil(log10(high)));
    panel->bytes_low = exp2(floor(log2(first)));
    panel->bytes_high = exp2(ceil(log2(last)));
}

static void size_text(double bytes, char *text, size_t capacity)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, capacity, "%g %s", bytes, units[unit]);
}

static void draw_axes(const struct panel *panel, const char *title)
{
    FILE *out = panel->out;
    double right = WIDTH - RIGHT, bottom = panel->top + PANEL_HEIGHT;
    fprintf(out, "<text x=\"%d\" y=\"%.1f\" class=\"t\">%s</text>\n", LEFT, panel->top - 10, title);
    for (double v = panel->low; v <= panel->high * 1.001; v *= 10) {
        double y = y_of(panel, v);
        fprintf(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"g\"/>", LEFT, y, right, y);
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" class=\"a\" text-anchor=\"end\">%g</text>\n", LEFT - 8, y + 4,
                v);
    }
    for (double b = panel->bytes_low; b <= panel->bytes_high * 1.001; b *= 8) {
        char text[32];
        size_text(b, text, sizeof text);
        double x = x_of(panel, b);
        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"g\"/>", x, panel->top, x,
                bottom);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"a\" text-anchor=\"middle\">%s</text>\n", x,
                bottom + 18, text);
    }
}

static void draw_line(const struct panel *panel, const struct point *points, const char *class_name)
{
    fprintf(panel->out, "<polyline class=\"%s\" points=\"", class_name);
    for (int i = 0; i < SIZES; i++) {
        double value = value_of(panel, &points[i]);
        if (value >= panel->low && value <= panel->high) {
            fprintf(panel->out, "%.1f,%.1f ", x_of(panel, points[i].bytes), y_of(panel, value));
        }
    }
    fprintf(panel->out, "\"/>\n");
}

static void draw_panel(struct panel *panel, const struct curve *curve, const char *title)
{
    fit_range(panel, curve);
    draw_axes(panel, title);
    draw_line(panel, curve->bound, "b");
    draw_line(panel, curve->predicted, "p");
    for (size_t i = 0; i < curve->measured_count; i++) {
        fprintf(panel->out, "<circle class=\"m\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n",
                x_of(panel, curve->measured[i].bytes), y_of(panel, value_of(panel, &curve->measured[i])));
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of |predicted/measured - 1|, between sizes by interpolation in logarithms. */
static double median_error(const struct curve *curve)
{
    double errors[MEASURED_MAX];
    size_t count = 0;
    for (size_t i = 0; i < curve->measured_count; i++) {
        double at = log2(curve->measured[i].bytes / FIRST_BYTES);
        if (at < 0 || at > SIZES - 1) {
            continue;
        }
        int before = (int)fmin(floor(at), SIZES - 2);
        double share = at - before, low = log(curve->predicted[before].us),
               high = log(curve->predicted[before + 1].us);
        errors[count++] = fabs(exp(low + share * (high - low)) / curve->measured[i].us - 1);
    }
    qsort(errors, count, sizeof errors[0], compare);
    return count == 0 ? NAN : errors[(count - 1) / 2];
}

static void draw(FILE *out, const struct collective_curve_request *request, const struct curve *curve)
{
    double bottom = PANEL_TOP + 2 * PANEL_HEIGHT + PANEL_GAP;
    uint32_t gpus = request->call.gpus * request->call.nodes;
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\" "
        "font-family=\"sans-serif\">\n<style>.a{font-size:12px;fill:#444}.t{font-size:13px;font-weight:600;"
        "fill:#222}.h{font-size:17px;font-weight:600;fill:#111}.g{stroke:#ddd}.p{fill:none;stroke:#1f6fb4;"
        "stroke-width:2.2}.b{fill:none;stroke:#888;stroke-width:1.4;stroke-dasharray:5 4}.m{fill:#d2561e;"
        "fill-opacity:.75}</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        WIDTH, bottom + 84, WIDTH, bottom + 84);
    fprintf(out, "<text x=\"%d\" y=\"28\" class=\"h\">%s among %u GPUs on %u node%s %s</text>\n", LEFT,
            request->call.kind, gpus, request->call.nodes, request->call.nodes == 1 ? "" : "s",
            node_profile_name(request->node));
    struct panel time = { .out = out, .top = PANEL_TOP, .is_time = true };
    struct panel bandwidth = { .out = out, .top = PANEL_TOP + PANEL_HEIGHT + PANEL_GAP };
    draw_panel(&time, curve, "time of a call [us]");
    draw_panel(&bandwidth, curve, "bus bandwidth [GB/s]");
    double y = bottom + 50;
    fprintf(out, "<line x1=\"%d\" y1=\"%.0f\" x2=\"%d\" y2=\"%.0f\" class=\"p\"/>", LEFT, y, LEFT + 30, y);
    fprintf(out, "<text x=\"%d\" y=\"%.0f\" class=\"a\">predicted</text>", LEFT + 36, y + 4);
    fprintf(out, "<line x1=\"%d\" y1=\"%.0f\" x2=\"%d\" y2=\"%.0f\" class=\"b\"/>", LEFT + 120, y, LEFT + 150,
            y);
    fprintf(out, "<text x=\"%d\" y=\"%.0f\" class=\"a\">bound: bytes at usable link rates</text>", LEFT + 156,
            y + 4);
    y += 22;
    if (curve->measured_count > 0) {
        fprintf(out, "<circle class=\"m\" cx=\"%d\" cy=\"%.0f\" r=\"3.5\"/>", LEFT + 15, y);
        fprintf(out,
                "<text x=\"%d\" y=\"%.0f\" class=\"a\">measured: %zu rows of %s, median error %.1f%%</text>",
                LEFT + 36, y + 4, curve->measured_count, curve->file, 100 * median_error(curve));
    } else {
        fprintf(out, "<text x=\"%d\" y=\"%.0f\" class=\"a\">no measured rows of this call</text>", LEFT + 36,
                y + 4);
    }
    fprintf(out, "\n</svg>\n");
}

enum sim_status collective_curve_write(const struct collective_curve_request *request, const char *path,
                                       size_t *measured_count, struct sim_error *error)
{
    char measured[DATA_PATH_CAPACITY];
    struct curve *curve = calloc(1, sizeof *curve);
    SIM_ASSERT(curve != NULL, "no memory for a curve");
    enum sim_status status = predict(request, curve, error);
    if (status == SIM_OK) {
        status = find_measured(request, curve, measured, error);
    }
    struct output_file file = { 0 };
    if (status == SIM_OK) {
        status = output_file_open(&file, "", path, error);
    }
    if (status == SIM_OK) {
        const char *inside = strstr(measured, "calib/data/");
        curve->file = inside != NULL ? inside : measured;
        draw(file.stream, request, curve);
        *measured_count = curve->measured_count;
        status = output_file_close(&file, error);
    }
    free(curve);
    return status;
}
