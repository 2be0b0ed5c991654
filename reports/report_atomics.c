/* Time against contention: curves per device and fix, and where they cross. */
#include "reports/report_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CURVES_MAX 64
#define VALUES_MAX 256

static const char *fix_of(const struct json *curve)
{
    const char *fix = string_of(curve, "fix");
    return fix[0] != '\0' ? fix : "as written";
}

static bool in_order(const struct json *points)
{
    for (size_t i = 1; points != NULL && i < json_count(points); i++) {
        if (number_of(json_at(points, i), "value") < number_of(json_at(points, i - 1), "value")) {
            return false;
        }
    }
    return true;
}

/* ---- verdict: per device, what each fix does at the ends, and where it begins or ends to pay */

static void put_crossing(struct page *page, const struct json *crossing)
{
    const struct json *at = object_of(crossing, "at"), *first = json_get(crossing, "faster_at_first");
    bool faster = first != NULL && json_kind_of(first) == JSON_BOOL && json_bool(first);
    if (at == NULL || json_count(at) == 0) {
        page_text(page, faster ? " faster than as written over the whole range" : " slower than as written over the whole range");
        return;
    }
    page_text(page, faster ? " pays up to " : " pays from ");
    for (size_t i = 0; i < json_count(at); i++) {
        page_text(page, i == 0 ? "" : (i % 2 == 1) != faster ? " up to " : " and again from ");
        page_number(page, json_number(json_at(at, i)), 3, 1, "");
    }
}

static void put_time(struct page *page, const struct json *point)
{
    page_number(page, number_of(point, "time_us"), 4, 1, " us");
    report_interval(page, number_of(point, "time_us_low"), number_of(point, "time_us_high"));
}

static void put_device_verdict(struct page *page, const struct json *answer)
{
    const struct json *curves = object_of(answer, "curves"), *crossings = object_of(answer, "crossovers");
    page_paragraph_begin(page, NULL);
    page_strong(page, string_of(answer, "device"));
    for (size_t c = 0; curves != NULL && c < json_count(curves); c++) {
        const struct json *points = object_of(json_at(curves, c), "points");
        if (points == NULL || json_count(points) == 0) {
            continue;
        }
        const struct json *from = json_at(points, 0), *to = json_at(points, json_count(points) - 1);
        page_text(page, c == 0 ? ": " : "; ");
        page_text(page, fix_of(json_at(curves, c)));
        page_text(page, " ");
        put_time(page, from);
        page_text(page, " at ");
        page_number(page, number_of(from, "value"), 4, 1, "");
        page_text(page, " and ");
        put_time(page, to);
        page_text(page, " at ");
        page_number(page, number_of(to, "value"), 4, 1, "");
        for (size_t x = 0; c > 0 && crossings != NULL && x < json_count(crossings); x++) {
            const struct json *crossing = json_at(crossings, x);
            if (string_of(crossing, "against")[0] == '\0' && strcmp(string_of(crossing, "fix"), string_of(json_at(curves, c), "fix")) == 0) {
                page_text(page, ",");
                put_crossing(page, crossing);
            }
        }
    }
    page_text(page, ".");
    page_paragraph_end(page);
}

/* ---- curves */

struct curves {
    struct chart_line lines[CURVES_MAX];
    double x[CURVES_MAX][VALUES_MAX], y[CURVES_MAX][VALUES_MAX];
    char labels[CURVES_MAX][120];
    struct chart_point rings[CURVES_MAX * 4];
    char ring_labels[CURVES_MAX * 4][120];
    size_t count, ring_count;
    bool x_log;
};

static double time_at(const struct chart_line *line, double value, bool x_log)
{
    for (size_t i = 1; i < line->count; i++) {
        double a = line->x[i - 1], b = line->x[i];
        if (value >= a && value <= b) {
            double share = x_log ? log(value / a) / log(b / a) : (value - a) / (b - a);
            return line->y[i - 1] * pow(line->y[i] / line->y[i - 1], share); /* on the line as drawn: time is logarithmic */
        }
    }
    return NAN;
}

static void take_rings(struct curves *curves, const struct json *answer, const struct chart_line *plain, unsigned colour)
{
    const struct json *crossings = object_of(answer, "crossovers");
    for (size_t x = 0; crossings != NULL && x < json_count(crossings); x++) {
        const struct json *crossing = json_at(crossings, x), *at = object_of(crossing, "at");
        for (size_t i = 0; string_of(crossing, "against")[0] == '\0' && at != NULL && i < json_count(at); i++) {
            if (curves->ring_count == CURVES_MAX * 4) {
                return;
            }
            double value = json_number(json_at(at, i));
            char *label = curves->ring_labels[curves->ring_count];
            snprintf(label, sizeof curves->ring_labels[0], "%s, %s: crossover at %.3g", string_of(answer, "device"), string_of(crossing, "fix"),
                     value);
            curves->rings[curves->ring_count++] = (struct chart_point){ value, time_at(plain, value, curves->x_log), 8, colour, true, label };
        }
    }
}

static void take_curves(struct curves *curves, const struct json *document)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t d = 0; d < document_count(document); d++) {
        const struct json *list = object_of(document_at(document, d), "curves");
        size_t first = curves->count;
        for (size_t c = 0; list != NULL && c < json_count(list) && curves->count < CURVES_MAX; c++) {
            const struct json *points = object_of(json_at(list, c), "points");
            size_t k = curves->count, n = 0;
            for (; n < json_count(points) && n < VALUES_MAX; n++) {
                curves->x[k][n] = number_of(json_at(points, n), "value");
                curves->y[k][n] = number_of(json_at(points, n), "time_us");
                low = fmin(low, curves->x[k][n]);
                high = fmax(high, curves->x[k][n]);
            }
            snprintf(curves->labels[k], sizeof curves->labels[0], "%s, %s", string_of(document_at(document, d), "device"),
                     fix_of(json_at(list, c)));
            curves->lines[k] = (struct chart_line){ curves->labels[k], curves->x[k], curves->y[k], n, (unsigned)d, (unsigned)c, true };
            curves->count++;
        }
        curves->x_log = low > 0 && high / low > 30;
        if (curves->count > first) {
            take_rings(curves, document_at(document, d), &curves->lines[first], (unsigned)d);
        }
    }
}

static void put_zoomable(struct page *page, const struct curves *curves, const char *variable)
{
    char text[40];
    page_json_begin(page, "curves-series");
    fprintf(page->out, "{\"x\":\"%s\",\"y\":\"time [us]\",\"logx\":%s,\"logy\":true,\"points\":true,\"names\":[", variable, curves->x_log ? "true" : "false");
    for (size_t c = 0; c < curves->count; c++) {
        fputs(c > 0 ? "," : "", page->out);
        page_json_string(page, curves->labels[c]);
    }
    fputs("],\"colors\":[", page->out);
    for (size_t c = 0; c < curves->count; c++) {
        fprintf(page->out, "%s%u", c > 0 ? "," : "", curves->lines[c].colour);
    }
    fputs("],\"dashes\":[", page->out);
    for (size_t c = 0; c < curves->count; c++) {
        fprintf(page->out, "%s%u", c > 0 ? "," : "", curves->lines[c].dash > 0);
    }
    fputs("],\"values\":[[", page->out);
    for (size_t i = 0; i < curves->lines[0].count; i++) {
        number_text(curves->x[0][i], text, sizeof text);
        fprintf(page->out, "%s%s", i > 0 ? "," : "", text);
    }
    for (size_t c = 0; c < curves->count; c++) {
        fputs("],[", page->out);
        for (size_t i = 0; i < curves->lines[c].count; i++) {
            number_text(curves->y[c][i], text, sizeof text);
            fprintf(page->out, "%s%s", i > 0 ? "," : "", text);
        }
    }
    fputs("]]}", page->out);
    page_json_end(page);
    fputs("<details><summary>Zoomable curves</summary><p class=soft>Drag to zoom, double click for all; both ends of the legend's lines can be "
          "switched off.</p><div class=plot data-of=\"curves-series\" role=img aria-label=\"Time over contention, zoomable\"></div></details>\n",
          page->out);
}

/* A point with an interval anywhere: without one, its columns would stand empty. */
static bool has_intervals(const struct json *document)
{
    for (size_t d = 0; d < document_count(document); d++) {
        const struct json *curves = object_of(document_at(document, d), "curves");
        for (size_t c = 0; curves != NULL && c < json_count(curves); c++) {
            const struct json *points = object_of(json_at(curves, c), "points");
            for (size_t i = 0; points != NULL && i < json_count(points); i++) {
                if (isfinite(number_of(json_at(points, i), "time_us_low"))) {
                    return true;
                }
            }
        }
    }
    return false;
}

static void put_table(struct page *page)
{
    static const struct page_column plain[] = { { "device", false, false },      { "fix", false, false },    { "value", true, false },
                                                { "time", true, false },         { "limiter", false, false }, { "atomic share", true, false },
                                                { "atomics", true, false },      { "hottest line", true, false }, { "executed at", false, false } };
    static const struct page_column sampled[] = { { "device", false, false }, { "fix", false, false },        { "value", true, false },
                                                  { "time", true, false },    { "time low", true, false },    { "time high", true, false },
                                                  { "limiter", false, false }, { "atomic share", true, false },
                                                  { "atomics", true, false }, { "hottest line", true, false }, { "executed at", false, false } };
    bool intervals = has_intervals(page->document);
    page_section(page, "points", "Points");
    page_table_begin(page, "points-table",
                     intervals ? "Every point of the curves; low and high: a tenth of the samples is beyond" : "Every point of the curves",
                     intervals ? sampled : plain, intervals ? 11 : 9);
    for (size_t d = 0; d < document_count(page->document); d++) {
        const struct json *answer = document_at(page->document, d), *curves = object_of(answer, "curves");
        for (size_t c = 0; curves != NULL && c < json_count(curves); c++) {
            const struct json *points = object_of(json_at(curves, c), "points");
            for (size_t i = 0; points != NULL && i < json_count(points); i++) {
                const struct json *point = json_at(points, i), *atomics = object_of(point, "atomics");
                page_row_begin(page);
                page_cell(page, string_of(answer, "device"), false);
                page_cell(page, fix_of(json_at(curves, c)), false);
                page_cell_number(page, number_of(point, "value"), 5, 1, "");
                page_cell_number(page, number_of(point, "time_us"), 5, 1, " us");
                if (intervals) {
                    page_cell_number(page, number_of(point, "time_us_low"), 4, 1, " us");
                    page_cell_number(page, number_of(point, "time_us_high"), 4, 1, " us");
                }
                page_cell(page, string_of(point, "limiter"), false);
                page_cell_number(page, number_of(point, "atomic_share"), 3, 100, "%");
                page_cell_number(page, number_of(atomics, "count"), 6, 1, "");
                page_cell_number(page, number_of(atomics, "hottest_line_ops") > 0 ? number_of(atomics, "hottest_line_ops") : NAN, 6, 1, "");
                page_cell(page, string_of(atomics, "executed_at"), false);
                page_row_end(page);
            }
        }
    }
    page_table_end(page);
}

static void put_sensitivity(struct page *page)
{
    static const struct page_column columns[] = { { "device", false, false }, { "value", false, true },         { "taken", true, false },
                                                  { "low", true, false },     { "high", true, false },          { "unit", false, false },
                                                  { "at", true, false },      { "time at its low end", true, false }, { "time at its high end", true, false } };
    bool any = false;
    for (size_t d = 0; d < document_count(page->document); d++) {
        const struct json *list = object_of(document_at(page->document, d), "sensitivity");
        for (size_t i = 0; list != NULL && i < json_count(list); i++) {
            const struct json *entry = json_at(list, i);
            if (!any) {
                page_section(page, "unpublished", "Values that nobody has published");
                page_table_begin(page, "sensitivity-table", "What the time would be over the range of each", columns, 9);
                any = true;
            }
            page_row_begin(page);
            page_cell(page, string_of(document_at(page->document, d), "device"), false);
            page_cell(page, string_of(entry, "key"), true);
            page_cell_number(page, number_of(entry, "value"), 4, 1, "");
            page_cell_number(page, number_of(entry, "low"), 4, 1, "");
            page_cell_number(page, number_of(entry, "high"), 4, 1, "");
            page_cell(page, string_of(entry, "unit"), false);
            page_cell_number(page, number_of(entry, "at"), 4, 1, "");
            page_cell_number(page, number_of(entry, "time_us_low"), 4, 1, " us");
            page_cell_number(page, number_of(entry, "time_us_high"), 4, 1, " us");
            page_row_end(page);
        }
    }
    if (any) {
        page_table_end(page);
    }
}

void report_atomics(struct page *page, const struct report_run *run)
{
    const struct json *first = document_at(page->document, 0), *over = object_of(first, "over");
    struct curves *curves = calloc(1, sizeof *curves);
    char title[200], axis[80];
    SIM_ASSERT(curves != NULL, "no memory for curves");
    const char *variable = string_of(over, "variable"), *parameter = string_of(over, "parameter");
    snprintf(axis, sizeof axis, strcmp(variable, parameter) == 0 ? "%s" : "%s (%s)", variable, parameter);
    snprintf(title, sizeof title, "%s/%s over %s", string_of(first, "suite"), string_of(first, "kernel"), variable);
    page_begin(page, title, string_of(first, "params"));
    page_verdict_begin(page);
    for (size_t d = 0; d < document_count(page->document); d++) {
        put_device_verdict(page, document_at(page->document, d));
    }
    const struct json *points = object_of(json_at(object_of(first, "curves"), 0), "points");
    report_ask_samples(page, isfinite(number_of(json_at(points, 0), "time_us_low")));
    page_verdict_end(page);
    take_curves(curves, page->document);
    struct chart_axes axes = { axis, "time [us]", curves->x_log, true };
    page_section(page, "curves", "Time against contention");
    page_paragraph_begin(page, "soft");
    page_text(page, "Device time alone. A colour per device, a dash per fix; a ring where a fix begins or ends to pay.");
    page_paragraph_end(page);
    chart_xy(page, title, &axes, curves->lines, curves->count, curves->rings, curves->ring_count);
    if (curves->count > 0 && in_order(object_of(json_at(object_of(first, "curves"), 0), "points"))) {
        put_zoomable(page, curves, axis);
    }
    put_table(page);
    put_sensitivity(page);
    report_assumptions(page);
    page_end(page, run);
    free(curves);
}
