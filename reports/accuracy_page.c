#include "reports/accuracy_page.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLOT 190        /* of a plot's square, pixels */
#define MARGIN 34
#define BAND 0.25       /* the shaded part of a plot: within a quarter */
#define WORST 10

static const char style[] =
    "body{font:14px/1.45 system-ui,sans-serif;color:#1c2430;background:#fff;margin:0 auto;max-width:1120px;padding:24px}"
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:19px;margin:36px 0 4px;border-top:1px solid #d5dae1;padding-top:20px}"
    "h3{font-size:15px;margin:22px 0 6px}p{margin:6px 0;max-width:80ch}"
    "table{border-collapse:collapse;margin:8px 0;font-variant-numeric:tabular-nums}"
    "th,td{padding:3px 10px;text-align:right;border-bottom:1px solid #e6e9ee}th{font-weight:600;color:#4a5565}"
    "th:first-child,td:first-child{text-align:left}.wide td:first-child{font:12px ui-monospace,monospace;max-width:620px;"
    "overflow-wrap:anywhere}.plots{display:flex;flex-wrap:wrap;gap:10px 18px}figure{margin:0}figcaption{font-size:13px}"
    "svg text{font:10px system-ui,sans-serif;fill:#5a6675}.none{color:#8a94a3}"
    "@media(max-width:700px){body{padding:12px}.scroll{overflow-x:auto}}";

static void put_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc(*text, out);
        }
    }
}

/* ---- figures of a suite */

struct spread {
    size_t count;
    double median, p90, bias; /* p90: nearest rank, the largest of fewer than 8 */
};

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_of(const double *sorted, size_t count)
{
    return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static bool counts(const struct reckon_validate_row *row)
{
    return row->skipped == NULL || row->cannot;
}

static struct spread spread_of(const struct accuracy_section *section, const char *suite, bool fitted)
{
    const struct reckon_validation *validation = section->validation;
    struct spread spread = { 0, NAN, NAN, NAN };
    size_t predicted = 0;
    double *errors = malloc((validation->row_count + 1) * sizeof *errors),
           *signed_errors = malloc((validation->row_count + 1) * sizeof *errors);
    SIM_ASSERT(errors != NULL && signed_errors != NULL, "no memory for %zu rows", validation->row_count);
    for (size_t i = 0; i < validation->row_count; i++) {
        const struct reckon_validate_row *row = &validation->rows[i];
        if (strcmp(row->suite, suite) != 0 || section->fitted[i] != fitted || !counts(row)) {
            continue;
        }
        errors[spread.count++] = row->error;
        if (!row->cannot) {
            signed_errors[predicted++] = row->predicted / row->measured - 1;
        }
    }
    if (spread.count > 0) {
        qsort(errors, spread.count, sizeof *errors, by_number);
        spread.median = median_of(errors, spread.count);
        spread.p90 = errors[spread.count < 8 ? spread.count - 1 : (size_t)ceil(0.9 * (double)spread.count) - 1];
    }
    if (predicted > 0) {
        qsort(signed_errors, predicted, sizeof *signed_errors, by_number);
        spread.bias = median_of(signed_errors, predicted);
    }
    free(errors);
    free(signed_errors);
    return spread;
}

static void put_spread(FILE *out, const struct spread *spread)
{
    if (spread->count == 0) {
        fprintf(out, "<td class=none>0</td><td class=none>-</td><td class=none>-</td><td class=none>-</td>");
        return;
    }
    fprintf(out, "<td>%zu</td><td>%.1f%%</td><td>%.1f%%</td>", spread->count, spread->median * 100, spread->p90 * 100);
    fprintf(out, isfinite(spread->bias) ? "<td>%+.1f%%</td>" : "<td>-</td>", spread->bias * 100);
}

static void put_suites(FILE *out, const struct accuracy_section *section)
{
    fprintf(out, "<div class=scroll><table><tr><th>suite</th><th>rows</th><th>median</th><th>p90</th><th>bias</th><th>fitted rows</th>"
                 "<th>median</th><th>p90</th><th>bias</th><th>no program</th></tr>\n");
    for (size_t s = 0; s < section->validation->suite_count; s++) {
        const struct reckon_validate_suite *suite = &section->validation->suites[s];
        struct spread rest = spread_of(section, suite->suite, false), fitted = spread_of(section, suite->suite, true);
        fputs("<tr><td>", out);
        put_text(out, suite->suite);
        fputs("</td>", out);
        put_spread(out, &rest);
        put_spread(out, &fitted);
        fprintf(out, "<td%s>%zu</td></tr>\n", suite->skipped == 0 ? " class=none" : "", suite->skipped);
    }
    fputs("</table></div>\n", out);
}

/* ---- plots */

struct axis {
    double low, high; /* logarithms to the base of ten */
};

static bool plotted(const struct reckon_validate_row *row, const char *suite)
{
    return strcmp(row->suite, suite) == 0 && row->skipped == NULL && row->measured > 0 && row->predicted > 0;
}

static struct axis axis_of(const struct reckon_validation *validation, const char *suite, size_t *count)
{
    struct axis axis = { INFINITY, -INFINITY };
    *count = 0;
    for (size_t i = 0; i < validation->row_count; i++) {
        const struct reckon_validate_row *row = &validation->rows[i];
        if (plotted(row, suite)) {
            axis.low = fmin(axis.low, log10(fmin(row->measured, row->predicted)));
            axis.high = fmax(axis.high, log10(fmax(row->measured, row->predicted)));
            (*count)++;
        }
    }
    axis.low -= 0.12;
    axis.high += 0.12;
    return axis;
}

static double place(const struct axis *axis, double value)
{
    return (value - axis->low) / (axis->high - axis->low) * PLOT;
}

static void tick_text(double value, char *text, size_t capacity)
{
    if (value >= 0.01 && value < 1e5) {
        snprintf(text, capacity, "%g", value);
    } else {
        snprintf(text, capacity, "%.0e", value);
    }
}

static void put_tick(FILE *out, const struct axis *axis, double value)
{
    char text[24];
    double at = place(axis, log10(value));
    if (at < 0 || at > PLOT) {
        return;
    }
    tick_text(value, text, sizeof text);
    fprintf(out, "<text x=%.1f y=%d text-anchor=middle>%s</text><text x=-4 y=%.1f text-anchor=end>%s</text>", at, PLOT + 13, text,
            PLOT - at + 3, text);
    fprintf(out, "<path d=\"M%.1f %dv-4M0 %.1fh4\" stroke=\"#9aa5b4\"/>", at, PLOT, PLOT - at);
}

/* Decades, every second one of many, or 1, 2, 5 where there are less than two. */
static void put_grid(FILE *out, const struct axis *axis)
{
    double band = log10(1 + BAND) / (axis->high - axis->low) * PLOT, decades = axis->high - axis->low;
    fprintf(out, "<svg width=%d height=%d><polygon points=\"0,%.1f %d,%.1f %d,%.1f 0,%.1f\" fill=\"#e8f0fa\"/>", PLOT, PLOT,
            PLOT - band, PLOT, -band, PLOT, band, PLOT + band);
    fprintf(out, "<line x1=0 y1=%d x2=%d y2=0 stroke=\"#9fb3cc\"/></svg><rect width=%d height=%d fill=none stroke=\"#c3cad4\"/>", PLOT,
            PLOT, PLOT, PLOT);
    double step = decades > 4 ? 2 : 1;
    for (double e = floor(axis->low); e <= axis->high; e += step) {
        put_tick(out, axis, pow(10, e));
        if (decades < 2) {
            put_tick(out, axis, 2 * pow(10, e));
            put_tick(out, axis, 5 * pow(10, e));
        }
    }
}

static void put_points(FILE *out, const struct accuracy_section *section, const char *suite, const struct axis *axis)
{
    const struct reckon_validation *validation = section->validation;
    for (size_t i = 0; i < validation->row_count; i++) {
        const struct reckon_validate_row *row = &validation->rows[i];
        if (!plotted(row, suite)) {
            continue;
        }
        fprintf(out, "<circle cx=%.1f cy=%.1f r=%s><title>", place(axis, log10(row->measured)),
                PLOT - place(axis, log10(row->predicted)),
                section->fitted[i] ? "2.6 fill=none stroke=\"#d9822b\"" : "2.2 fill=\"#2f6fb3\" fill-opacity=\".65\"");
        put_text(out, row->kernel);
        fputc(' ', out);
        put_text(out, row->params);
        fprintf(out, ": measured %.4g, predicted %.4g %s</title></circle>\n", row->measured, row->predicted, row->unit);
    }
}

/* Rows with a time and rows with a value stand in one plot: both axes are in the row's own unit. */
static void put_plot(FILE *out, const struct accuracy_section *section, const char *suite)
{
    size_t count = 0;
    struct axis axis = axis_of(section->validation, suite, &count);
    if (count == 0) {
        return;
    }
    fprintf(out, "<figure><svg width=%d height=%d viewBox=\"-%d -6 %d %d\">", PLOT + MARGIN + 8,
            PLOT + MARGIN, MARGIN, PLOT + MARGIN + 8, PLOT + MARGIN);
    put_grid(out, &axis);
    put_points(out, section, suite, &axis);
    fprintf(out, "<text x=%d y=%d text-anchor=middle>measured</text><text transform=\"translate(10 %d) rotate(-90)\" "
                 "text-anchor=end>predicted</text></svg><figcaption>",
            PLOT / 2, PLOT + 26, 4);
    put_text(out, suite);
    fprintf(out, ", %zu rows</figcaption></figure>\n", count);
}

/* ---- the worst, and what it rests on */

static int by_error(const void *a, const void *b)
{
    const struct reckon_validate_row *x = *(const struct reckon_validate_row *const *)a,
                                     *y = *(const struct reckon_validate_row *const *)b;
    return x->error != y->error ? (x->error > y->error ? -1 : 1) : x < y ? -1 : x > y;
}

static void put_worst(FILE *out, const struct accuracy_section *section)
{
    const struct reckon_validation *validation = section->validation;
    const struct reckon_validate_row **order = malloc((validation->row_count + 1) * sizeof(struct reckon_validate_row *));
    size_t count = 0;
    SIM_ASSERT(order != NULL, "no memory for %zu rows", validation->row_count);
    for (size_t i = 0; i < validation->row_count; i++) {
        if (isfinite(validation->rows[i].error)) {
            order[count++] = &validation->rows[i];
        }
    }
    qsort(order, count, sizeof order[0], by_error);
    fputs("<h3>Furthest off</h3><div class=scroll><table class=wide><tr><th>row</th><th>measured</th><th>predicted</th><th>off</th></tr>\n", out);
    for (size_t i = 0; i < count && i < WORST; i++) {
        fputs("<tr><td>", out);
        put_text(out, order[i]->suite);
        fputc('/', out);
        put_text(out, order[i]->kernel);
        fputc(' ', out);
        put_text(out, order[i]->params);
        fprintf(out, "</td><td>%.4g %s</td>", order[i]->measured, order[i]->unit);
        if (order[i]->cannot) {
            fputs("<td colspan=2>cannot: ", out);
            put_text(out, order[i]->skipped);
            fputs("</td></tr>\n", out);
        } else {
            fprintf(out, "<td>%.4g</td><td>%+.0f%%</td></tr>\n", order[i]->predicted,
                    (order[i]->predicted / order[i]->measured - 1) * 100);
        }
    }
    fputs("</table></div>\n", out);
    free(order);
}

static void put_basis(FILE *out, const struct chip_profile *chip)
{
    size_t kinds[PROFILE_KINDS] = { 0 };
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        if (chip->meta[i].source != NULL) {
            kinds[chip->meta[i].kind]++;
        }
    }
    fputs("<p>Values of the chip by kind:", out);
    for (int k = 0; k < PROFILE_KINDS; k++) {
        fprintf(out, "%s %zu %s", k > 0 ? "," : "", kinds[k], profile_kind_text((enum profile_kind)k));
    }
    fputs(".</p>\n", out);
}

static void put_section(FILE *out, const struct accuracy_section *section)
{
    fputs("<h2>", out);
    put_text(out, section->chip->title);
    fputs("</h2><p>Rows of ", out);
    put_text(out, section->tables);
    fputs(".</p>\n", out);
    put_basis(out, section->chip);
    put_suites(out, section);
    fputs("<div class=plots>\n", out);
    for (size_t s = 0; s < section->validation->suite_count; s++) {
        put_plot(out, section, section->validation->suites[s].suite);
    }
    fputs("</div>\n", out);
    put_worst(out, section);
}

void accuracy_page_write(const struct accuracy_section *sections, size_t count, FILE *out)
{
    fprintf(out, "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>reckon: accuracy"
                 "</title><style>%s</style>\n<h1>Predictions against measurements</h1>\n<p>Error: predicted over measured, minus 1, of "
                 "the time, or of the value where a row has no time. p90: nearest rank, the largest of fewer than 8 rows. Rows that a fit "
                 "was held to stand apart (<span style=\"color:#d9822b\">&#9675;</span> in the plots, <span style=\"color:#2f6fb3\">&#9679;</span> "
                 "for the others): claims rest on the others. The shaded band is a quarter either way; both axes are logarithmic, in the row's "
                 "own unit.</p>\n",
            style);
    for (size_t i = 0; i < count; i++) {
        put_section(out, &sections[i]);
    }
    fputs("</html>\n", out);
}
