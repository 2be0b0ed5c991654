#include "sim/cli/print_atomics.h"
#include "sim/core/output_file.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double time_of(const struct atomics_answer *answer, size_t device, size_t curve, size_t value)
{
    return answer->devices[device].kernels[curve][value]->time_us;
}

static void times_of(const struct atomics_answer *answer, size_t device, size_t curve, double *times)
{
    for (size_t v = 0; v < answer->value_count; v++) {
        times[v] = time_of(answer, device, curve, v);
    }
}

static const char *fix_name(const struct atomics_answer *answer, size_t curve)
{
    return answer->fixes[curve] != NULL ? answer->fixes[curve] : "as it is";
}

static const char *device_name(const struct atomics_answer *answer, size_t device)
{
    return answer->devices[device].kernels[0][0]->device;
}

/* ---- crossings */

size_t atomics_crossings(const struct atomics_answer *answer, const double *a, const double *b,
                         double at[ATOMICS_VALUES_MAX], bool *below_first)
{
    size_t count = 0;
    double before = 0; /* log b/a of the last value where they differ */
    size_t before_at = 0;
    *below_first = false;
    for (size_t v = 0; v < answer->value_count; v++) {
        double now = log(b[v] / a[v]);
        if (fabs(now) < 1e-9) {
            continue;
        }
        if (before == 0) {
            *below_first = now < 0;
        } else if ((now < 0) != (before < 0)) {
            double share = before / (before - now), x0 = answer->values[before_at], x1 = answer->values[v];
            bool by_logarithm = answer->logarithmic && x0 > 0;
            at[count++] = by_logarithm ? x0 * pow(x1 / x0, share) : x0 + share * (x1 - x0);
        }
        before = now;
        before_at = v;
    }
    return count;
}

/* "pays from rate 0.012 up", for any number of crossings. `verb` in the third person. */
static void crossing_text(const struct atomics_answer *answer, const double *a, const double *b,
                          const char *verb, char *text, size_t capacity)
{
    double at[ATOMICS_VALUES_MAX];
    bool below;
    size_t count = atomics_crossings(answer, a, b, at, &below);
    if (count == 0) {
        snprintf(text, capacity, "%s at %s value shown", verb, below ? "every" : "no");
        return;
    }
    size_t used = (size_t)snprintf(text, capacity, "%s ", verb);
    for (size_t i = 0; i < count && used < capacity; i++) {
        bool starts = below == (i % 2 == 1); /* b falls below a here */
        int written = 0;
        if (starts) {
            written = snprintf(text + used, capacity - used, "%sfrom %s %.3g", i > 1 ? " and " : "",
                               answer->variable, at[i]);
            written += i + 1 == count
                           ? snprintf(text + used + written, capacity - used - (size_t)written, " up")
                           : 0;
        } else {
            written = snprintf(text + used, capacity - used, i == 0 ? "up to %s %.3g" : " up to %s %.3g",
                               answer->variable, at[i]);
        }
        used += (size_t)written;
    }
}

/* ---- text */

static void print_intervals(const struct atomics_answer *answer, size_t v)
{
    if (answer->samples == 0) {
        return;
    }
    printf("%-12s", "");
    for (size_t d = 0; d < answer->device_count; d++) {
        for (size_t c = 0; c < answer->curve_count; c++) {
            const struct reckon_kernel *kernel = answer->devices[d].kernels[c][v];
            char text[48];
            snprintf(text, sizeof text, "[%.4g, %.4g]", kernel->time_us_low, kernel->time_us_high);
            printf(" %22.22s", text);
        }
    }
    putchar('\n');
}

static void print_times(const struct atomics_answer *answer)
{
    printf("%-12s", answer->parameter);
    for (size_t d = 0; d < answer->device_count; d++) {
        for (size_t c = 0; c < answer->curve_count; c++) {
            char head[48];
            snprintf(head, sizeof head, "%s%s%s", device_name(answer, d), c > 0 ? " " : "",
                     c > 0 ? fix_name(answer, c) : "");
            printf(" %22.22s", head);
        }
    }
    putchar('\n');
    for (size_t v = 0; v < answer->value_count; v++) {
        printf("%-12.6g", answer->values[v]);
        for (size_t d = 0; d < answer->device_count; d++) {
            for (size_t c = 0; c < answer->curve_count; c++) {
                const struct reckon_kernel *kernel = answer->devices[d].kernels[c][v];
                printf(" %10.4g us %8s", kernel->time_us, kernel_stage_text(kernel->result.limiter));
            }
        }
        putchar('\n');
        print_intervals(answer, v);
    }
    if (answer->samples > 0) {
        printf("below each time its 80%% interval, of %u samples; limiters at the profile's own values\n", answer->samples);
    }
}

static void print_places(const struct atomics_answer *answer)
{
    size_t last = answer->value_count - 1;
    puts("\nwhere the atomics execute, at the last value");
    for (size_t d = 0; d < answer->device_count; d++) {
        for (size_t c = 0; c < answer->curve_count; c++) {
            const struct kernel_result *result = &answer->devices[d].kernels[c][last]->result;
            printf("  %-10s %-28s %-12s %12.4g operations, %.0f%% of the time", device_name(answer, d),
                   fix_name(answer, c), result->atomic_executed_at, result->atomic_count,
                   100 * result->stack[KERNEL_STAGE_ATOMIC]);
            if (result->atomic_hottest_line_ops > 0) { /* unknown to an engine that does not count them */
                printf(", %.4g of them on the hottest block", result->atomic_hottest_line_ops);
            }
            putchar('\n');
        }
    }
}

static void print_crossings(const struct atomics_answer *answer)
{
    double plain[ATOMICS_VALUES_MAX], other[ATOMICS_VALUES_MAX];
    char text[256];
    if (answer->curve_count > 1 || answer->device_count > 1) {
        puts("\ncrossovers");
    }
    for (size_t d = 0; d < answer->device_count; d++) {
        times_of(answer, d, 0, plain);
        for (size_t c = 1; c < answer->curve_count; c++) {
            times_of(answer, d, c, other);
            crossing_text(answer, plain, other, "pays", text, sizeof text);
            printf("  %s: %s %s\n", device_name(answer, d), fix_name(answer, c), text);
        }
    }
    for (size_t d = 1; d < answer->device_count; d++) {
        for (size_t c = 0; c < answer->curve_count; c++) {
            times_of(answer, 0, c, plain);
            times_of(answer, d, c, other);
            crossing_text(answer, plain, other, "is faster", text, sizeof text);
            printf("  %s against %s, %s: %s %s\n", device_name(answer, d), device_name(answer, 0),
                   fix_name(answer, c), device_name(answer, d), text);
        }
    }
}

static void print_sensitivity(const struct atomics_answer *answer)
{
    for (size_t d = 0; d < answer->device_count; d++) {
        const struct atomics_device *device = &answer->devices[d];
        for (size_t i = 0; i < device->sensitivity_count; i++) {
            const struct atomics_sensitivity *s = &device->sensitivity[i];
            printf("%s%s: %s is not published: %g %s taken, %g to %g would make %s=%g take %.4g to %.4g us "
                   "(%.4g)\n",
                   d + i == 0 || i == 0 ? "\n" : "", device_name(answer, d), s->key, s->value, s->unit,
                   s->low, s->high, answer->parameter, answer->values[device->sensitive_at], s->us_low,
                   s->us_high, time_of(answer, d, 0, device->sensitive_at));
        }
    }
}

void print_atomics_text(const struct atomics_answer *answer)
{
    printf("%s/%s%s%s over %s, device time alone\n\n", answer->suite, answer->kernel,
           answer->params[0] != '\0' ? " " : "", answer->params, answer->variable);
    print_times(answer);
    print_places(answer);
    print_crossings(answer);
    print_sensitivity(answer);
    for (size_t d = 0; d < answer->device_count; d++) {
        for (size_t c = 0; c < answer->curve_count; c++) {
            const struct reckon_notes *notes = &answer->devices[d].kernels[c][0]->notes;
            for (size_t n = 0; n < notes->count; n++) {
                bool seen = false;
                for (size_t e = 0; e < d * answer->curve_count + c && !seen; e++) {
                    const struct reckon_notes *old =
                        &answer->devices[e / answer->curve_count].kernels[e % answer->curve_count][0]->notes;
                    for (size_t m = 0; m < old->count && !seen; m++) {
                        seen = strcmp(old->text[m], notes->text[n]) == 0;
                    }
                }
                if (!seen) {
                    printf("note: %s\n", notes->text[n]);
                }
            }
        }
    }
}

/* ---- JSON */

static struct json *point_json(const struct atomics_answer *answer, size_t v,
                               const struct reckon_kernel *kernel)
{
    struct json *point = json_new_object(), *atomics = json_new_object();
    json_set_number(point, "value", answer->values[v]);
    json_set_number(point, "time_us", kernel->time_us);
    if (answer->samples > 0) {
        json_set_number(point, "time_us_low", kernel->time_us_low);
        json_set_number(point, "time_us_high", kernel->time_us_high);
    } else {
        json_set_null(point, "time_us_low");
        json_set_null(point, "time_us_high");
    }
    json_set_string(point, "limiter", kernel_stage_text(kernel->result.limiter));
    json_set_number(point, "atomic_share", kernel->result.stack[KERNEL_STAGE_ATOMIC]);
    json_set_number(atomics, "count", kernel->result.atomic_count);
    json_set_string(atomics, "executed_at", kernel->result.atomic_executed_at);
    json_set_number(atomics, "hottest_line_ops", kernel->result.atomic_hottest_line_ops);
    json_set(point, "atomics", atomics);
    return point;
}

static struct json *crossing_json(const struct atomics_answer *answer, const double *a, const double *b)
{
    double at[ATOMICS_VALUES_MAX];
    bool below;
    size_t count = atomics_crossings(answer, a, b, at, &below);
    struct json *object = json_new_object(), *list = json_new_array();
    json_set_bool(object, "faster_at_first", below);
    for (size_t i = 0; i < count; i++) {
        json_append_number(list, at[i]);
    }
    json_set(object, "at", list);
    return object;
}

static void set_name_or_null(struct json *object, const char *key, const char *name)
{
    if (name != NULL) {
        json_set_string(object, key, name);
    } else {
        json_set_null(object, key);
    }
}

struct json *atomics_json(const struct atomics_answer *answer, size_t device)
{
    double plain[ATOMICS_VALUES_MAX], other[ATOMICS_VALUES_MAX];
    struct json *object = json_new_object(), *over = json_new_object(), *curves = json_new_array();
    struct json *crossovers = json_new_array(), *sensitivity = json_new_array(), *notes = json_new_array();
    json_set_string(object, "schema", "reckon.atomics/1");
    json_set_string(object, "device", device_name(answer, device));
    json_set_string(object, "suite", answer->suite);
    json_set_string(object, "kernel", answer->kernel);
    json_set_string(object, "params", answer->params);
    json_set_string(over, "variable", answer->variable);
    json_set_string(over, "parameter", answer->parameter);
    json_set(object, "over", over);
    for (size_t c = 0; c < answer->curve_count; c++) {
        struct json *curve = json_new_object(), *points = json_new_array();
        set_name_or_null(curve, "fix", answer->fixes[c]);
        for (size_t v = 0; v < answer->value_count; v++) {
            json_append(points, point_json(answer, v, answer->devices[device].kernels[c][v]));
        }
        json_set(curve, "points", points);
        json_append(curves, curve);
    }
    json_set(object, "curves", curves);
    times_of(answer, device, 0, plain);
    for (size_t c = 1; c < answer->curve_count; c++) {
        times_of(answer, device, c, other);
        struct json *crossing = crossing_json(answer, plain, other);
        json_set_string(crossing, "fix", answer->fixes[c]);
        json_set_null(crossing, "against");
        json_append(crossovers, crossing);
    }
    for (size_t d = 0; d < answer->device_count; d++) {
        for (size_t c = 0; d != device && c < answer->curve_count; c++) {
            times_of(answer, d, c, plain);
            times_of(answer, device, c, other);
            struct json *crossing = crossing_json(answer, plain, other);
            set_name_or_null(crossing, "fix", answer->fixes[c]);
            json_set_string(crossing, "against", device_name(answer, d));
            json_append(crossovers, crossing);
        }
    }
    json_set(object, "crossovers", crossovers);
    const struct atomics_device *own = &answer->devices[device];
    for (size_t i = 0; i < own->sensitivity_count; i++) {
        const struct atomics_sensitivity *s = &own->sensitivity[i];
        struct json *entry = json_new_object();
        json_set_string(entry, "key", s->key);
        json_set_string(entry, "unit", s->unit);
        json_set_number(entry, "value", s->value);
        json_set_number(entry, "low", s->low);
        json_set_number(entry, "high", s->high);
        json_set_number(entry, "at", answer->values[own->sensitive_at]);
        json_set_number(entry, "time_us_low", s->us_low);
        json_set_number(entry, "time_us_high", s->us_high);
        json_append(sensitivity, entry);
    }
    json_set(object, "sensitivity", sensitivity);
    for (size_t c = 0; c < answer->curve_count; c++) {
        const struct reckon_notes *list = &own->kernels[c][0]->notes;
        for (size_t n = 0; n < list->count; n++) {
            json_append_string(notes, list->text[n]);
        }
    }
    if (answer->samples > 0) {
        char text[160];
        snprintf(text, sizeof text, "times are medians of %u samples of what nobody measured, their ends a tenth of them below and above; all else is at the "
                 "profile's own values", answer->samples);
        json_append_string(notes, text);
    }
    json_set(object, "notes", notes);
    return object;
}

/* ---- SVG: time, logarithmic, over what varies; a colour per device, a dash per fix. */

#define WIDTH 900
#define HEIGHT 560
#define LEFT 84
#define RIGHT 30
#define TOP 74
#define BOTTOM 64
#define LEGEND_LINE 20

struct chart {
    const struct atomics_answer *answer;
    FILE *out;
    double x_low, x_high, low, high; /* low and high: powers of ten in us */
};

static double x_at(const struct chart *chart, double value)
{
    double share = chart->answer->logarithmic ? log(value / chart->x_low) / log(chart->x_high / chart->x_low)
                                              : (value - chart->x_low) / (chart->x_high - chart->x_low);
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double y_at(const struct chart *chart, double us)
{
    return TOP + (1 - log(us / chart->low) / log(chart->high / chart->low)) * (HEIGHT - TOP - BOTTOM);
}

static void fit_axes(struct chart *chart)
{
    const struct atomics_answer *answer = chart->answer;
    chart->low = INFINITY;
    for (size_t d = 0; d < answer->device_count; d++) {
        for (size_t c = 0; c < answer->curve_count; c++) {
            for (size_t v = 0; v < answer->value_count; v++) {
                chart->low = fmin(chart->low, time_of(answer, d, c, v));
                chart->high = fmax(chart->high, time_of(answer, d, c, v));
            }
        }
    }
    chart->low = pow(10, floor(log10(chart->low)));
    chart->high = pow(10, ceil(log10(chart->high * 1.0001)));
    chart->x_low = answer->values[0];
    chart->x_high = answer->values[answer->value_count - 1];
    if (chart->x_high <= chart->x_low) { /* a single value */
        chart->x_high = chart->x_low + fmax(fabs(chart->x_low), 1);
    }
}

static void draw_grid(const struct chart *chart)
{
    FILE *out = chart->out;
    double right = WIDTH - RIGHT, bottom = HEIGHT - BOTTOM;
    for (double us = chart->low; us <= chart->high * 1.001; us *= 10) {
        double y = y_at(chart, us);
        fprintf(out, "<line class=\"g\" x1=\"%d\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", LEFT, y, right, y);
        fprintf(out, "<text class=\"a\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 8, y + 4,
                us);
    }
    double last = -INFINITY;
    for (size_t v = 0; v < chart->answer->value_count; v++) {
        double x = x_at(chart, chart->answer->values[v]);
        fprintf(out, "<line class=\"g\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\"/>", x, TOP, x, bottom);
        if (x - last >= 44) { /* else the numbers run into each other */
            fprintf(out, "<text class=\"a\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.4g</text>\n", x,
                    bottom + 18, chart->answer->values[v]);
            last = x;
        }
    }
    bool same = strcmp(chart->answer->variable, chart->answer->parameter) == 0;
    fprintf(out, "<text class=\"t\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s%s%s%s</text>\n",
            (LEFT + right) / 2, bottom + 42, chart->answer->variable, same ? "" : " (",
            same ? "" : chart->answer->parameter, same ? "" : ")");
    fprintf(out, "<text class=\"t\" x=\"%d\" y=\"%d\">time [us]</text>\n", LEFT - 60, TOP - 14);
}

static void draw_curve(const struct chart *chart, size_t device, size_t curve)
{
    const struct atomics_answer *answer = chart->answer;
    fprintf(chart->out, "<g class=\"d%zu f%zu\"><polyline points=\"", device % 6, curve % 5);
    for (size_t v = 0; v < answer->value_count; v++) {
        fprintf(chart->out, "%.1f,%.1f ", x_at(chart, answer->values[v]),
                y_at(chart, time_of(answer, device, curve, v)));
    }
    fprintf(chart->out, "\"/>");
    for (size_t v = 0; v < answer->value_count; v++) {
        fprintf(chart->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>", x_at(chart, answer->values[v]),
                y_at(chart, time_of(answer, device, curve, v)));
    }
    fprintf(chart->out, "</g>\n");
}

/* A ring where a fix begins or ends to pay. */
static void draw_crossings(const struct chart *chart, size_t device, size_t curve)
{
    const struct atomics_answer *answer = chart->answer;
    double plain[ATOMICS_VALUES_MAX], other[ATOMICS_VALUES_MAX], at[ATOMICS_VALUES_MAX];
    bool below;
    times_of(answer, device, 0, plain);
    times_of(answer, device, curve, other);
    size_t count = atomics_crossings(answer, plain, other, at, &below);
    for (size_t i = 0; i < count; i++) {
        size_t v = 1;
        while (v + 1 < answer->value_count && answer->values[v] < at[i]) {
            v++;
        }
        double x0 = x_at(chart, answer->values[v - 1]), x1 = x_at(chart, answer->values[v]),
               x = x_at(chart, at[i]);
        double y0 = y_at(chart, plain[v - 1]), y1 = y_at(chart, plain[v]);
        fprintf(chart->out,
                "<circle class=\"c\" cx=\"%.1f\" cy=\"%.1f\" r=\"7\"><title>%s: %.3g</title></circle>\n", x,
                y0 + (y1 - y0) * (x - x0) / (x1 - x0), fix_name(answer, curve), at[i]);
    }
}

static void draw_legend(const struct chart *chart)
{
    const struct atomics_answer *answer = chart->answer;
    double y = HEIGHT + 4;
    for (size_t d = 0; d < answer->device_count; d++) {
        for (size_t c = 0; c < answer->curve_count; c++, y += LEGEND_LINE) {
            fprintf(chart->out,
                    "<g class=\"d%zu f%zu\"><line x1=\"%d\" y1=\"%.0f\" x2=\"%d\" y2=\"%.0f\"/></g>", d % 6,
                    c % 5, LEFT, y, LEFT + 44, y);
            const struct reckon_kernel *last = answer->devices[d].kernels[c][answer->value_count - 1];
            fprintf(chart->out,
                    "<text class=\"a\" x=\"%d\" y=\"%.0f\">%s, %s: %.4g us at %.4g, atomics at %s</text>\n",
                    LEFT + 54, y + 4, device_name(answer, d), fix_name(answer, c), last->time_us,
                    answer->values[answer->value_count - 1], last->result.atomic_executed_at);
        }
    }
}

static const char style[] =
    "<style>svg{background:#fff}.a{font-size:12px;fill:#444}.t{font-size:13px;font-weight:600;fill:#222}"
    ".h{font-size:16px;font-weight:600;fill:#111}.s{font-size:12px;fill:#555}.g{stroke:#e2e2e2}"
    "g polyline,g line{fill:none;stroke-width:2.2}g "
    "circle{stroke:none}.c{fill:none;stroke:#222;stroke-width:1.6}"
    ".d0{stroke:#1f6fb4;fill:#1f6fb4}.d1{stroke:#c2410c;fill:#c2410c}.d2{stroke:#15803d;fill:#15803d}"
    ".d3{stroke:#7e22ce;fill:#7e22ce}.d4{stroke:#a16207;fill:#a16207}.d5{stroke:#0f766e;fill:#0f766e}"
    ".f1 polyline,.f1 line{stroke-dasharray:7 4}.f2 polyline,.f2 line{stroke-dasharray:2 4}"
    ".f3 polyline,.f3 line{stroke-dasharray:10 3 2 3}.f4 polyline,.f4 line{stroke-dasharray:4 2}"
    "@media "
    "(prefers-color-scheme:dark){svg{background:#15181c}.a{fill:#c4c9cf}.t{fill:#e6e9ec}.h{fill:#fff}.s{fill:"
    "#aab1b8}"
    ".g{stroke:#2c3238}.c{stroke:#fff}.d0{stroke:#6cb0ee;fill:#6cb0ee}.d1{stroke:#fb9a5b;fill:#fb9a5b}"
    ".d2{stroke:#67c98a;fill:#67c98a}.d3{stroke:#c99af5;fill:#c99af5}.d4{stroke:#e0c05a;fill:#e0c05a}"
    ".d5{stroke:#5cc9bd;fill:#5cc9bd}}</style>\n";

enum sim_status write_atomics_svg(const struct atomics_answer *answer, const char *path,
                                  struct sim_error *error)
{
    struct output_file file;
    enum sim_status status = output_file_open(&file, "--svg ", path, error);
    if (status != SIM_OK) {
        return status;
    }
    FILE *out = file.stream;
    struct chart chart = { .answer = answer, .out = out };
    int height = HEIGHT + LEGEND_LINE * (int)(answer->device_count * answer->curve_count) + 12;
    fit_axes(&chart);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\">\n%s",
            WIDTH, height, WIDTH, height, style);
    fprintf(out, "<text class=\"h\" x=\"%d\" y=\"26\">%s/%s over %s</text>\n", LEFT - 60, answer->suite,
            answer->kernel, answer->variable);
    fprintf(out, "<text class=\"s\" x=\"%d\" y=\"44\">%s</text>\n", LEFT - 60, answer->params);
    draw_grid(&chart);
    for (size_t d = 0; d < answer->device_count; d++) {
        for (size_t c = 0; c < answer->curve_count; c++) {
            draw_curve(&chart, d, c);
        }
        for (size_t c = 1; c < answer->curve_count; c++) {
            draw_crossings(&chart, d, c);
        }
    }
    draw_legend(&chart);
    fprintf(out, "</svg>\n");
    return output_file_close(&file, error);
}
