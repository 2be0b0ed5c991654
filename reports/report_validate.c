/* Predictions against measured rows. */
#include "reports/report_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SUITES_MAX 40

static void put_suites(struct page *page, const struct json *suites)
{
    static const struct page_column columns[] = { { "suite", false, false }, { "rows", true, false }, { "skipped", true, false },
                                                  { "median error", true, false }, { "p90", true, false }, { "largest", true, false },
                                                  { "bias", true, false } };
    page_section(page, "suites", "Suites");
    page_table_begin(page, "suites-table", "Error: predicted over measured, minus 1, of the time or else of the value", columns, 7);
    for (size_t i = 0; i < json_count(suites); i++) {
        const struct json *suite = json_at(suites, i);
        page_row_begin(page);
        page_cell(page, string_of(suite, "suite"), false);
        page_cell_number(page, number_of(suite, "rows"), 6, 1, "");
        page_cell_number(page, number_of(suite, "skipped"), 6, 1, "");
        page_cell_number(page, number_of(suite, "median"), 3, 100, "%");
        page_cell_number(page, number_of(suite, "p90"), 3, 100, "%");
        page_cell_number(page, number_of(suite, "max"), 3, 100, "%");
        page_cell_number(page, number_of(suite, "bias"), 3, 100, "%");
        page_row_end(page);
    }
    page_table_end(page);
}

static void put_plot(struct page *page, const struct json *rows, const char *suite)
{
    static const struct chart_axes axes = { "measured", "predicted", true, true };
    size_t count = 0;
    struct chart_point *points = calloc(json_count(rows) + 1, sizeof *points);
    char(*labels)[240] = calloc(json_count(rows) + 1, sizeof *labels), title[120];
    SIM_ASSERT(points != NULL && labels != NULL, "no memory for %zu points", json_count(rows));
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < json_count(rows); i++) {
        const struct json *row = json_at(rows, i);
        double measured = number_of(row, "measured"), predicted = number_of(row, "predicted");
        if (strcmp(string_of(row, "suite"), suite) == 0 && measured > 0 && predicted > 0) {
            snprintf(labels[count], sizeof labels[0], "%s %.120s: measured %.4g, predicted %.4g %s", string_of(row, "kernel"),
                     string_of(row, "params"), measured, predicted, string_of(row, "unit"));
            points[count] = (struct chart_point){ measured, predicted, 3.5, 0, false, labels[count] };
            low = fmin(low, fmin(measured, predicted));
            high = fmax(high, fmax(measured, predicted));
            count++;
        }
    }
    double x[2] = { low, high }, y[2] = { low, high }, more[2] = { low * 1.25, high * 1.25 }, less[2] = { low / 1.25, high / 1.25 };
    struct chart_line lines[] = { { "equal", x, y, 2, 7, 0, false }, { "a quarter more or less", x, more, 2, 7, 1, false }, { NULL, x, less, 2, 7, 1, false } };
    if (count > 0) {
        snprintf(title, sizeof title, "%.40s, %zu rows, in each row's own unit", suite, count);
        chart_xy(page, title, &axes, lines, 3, points, count);
    }
    free(points);
    free(labels);
}

static int by_error(const void *a, const void *b)
{
    const struct json *x = *(const struct json *const *)a, *y = *(const struct json *const *)b;
    double p = number_of(x, "error"), q = number_of(y, "error");
    p = isfinite(p) ? p : -1;
    q = isfinite(q) ? q : -1;
    return p != q ? (p > q ? -1 : 1) : x < y ? -1 : x > y;
}

static void put_rows(struct page *page, const struct json *rows)
{
    static const struct page_column columns[] = { { "suite", false, false },  { "kernel", false, false }, { "parameters", false, true },
                                                  { "measured", true, false }, { "predicted", true, false }, { "unit", false, false },
                                                  { "error", true, false },   { "not predicted", false, true } };
    const struct json **order = malloc((json_count(rows) + 1) * sizeof(struct json *));
    SIM_ASSERT(order != NULL, "no memory for %zu rows", json_count(rows));
    for (size_t i = 0; i < json_count(rows); i++) {
        order[i] = json_at(rows, i);
    }
    qsort(order, json_count(rows), sizeof order[0], by_error);
    page_section(page, "rows", "Rows");
    page_table_begin(page, "rows-table", "Every row, the furthest off first", columns, 8);
    for (size_t i = 0; i < json_count(rows); i++) {
        page_row_begin(page);
        page_cell(page, string_of(order[i], "suite"), false);
        page_cell(page, string_of(order[i], "kernel"), false);
        page_cell(page, string_of(order[i], "params"), true);
        page_cell_number(page, number_of(order[i], "measured"), 5, 1, "");
        page_cell_number(page, number_of(order[i], "predicted"), 5, 1, "");
        page_cell(page, string_of(order[i], "unit"), false);
        page_cell_number(page, number_of(order[i], "error"), 3, 100, "%");
        page_cell(page, string_of(order[i], "skipped"), true);
        page_row_end(page);
    }
    page_table_end(page);
    free(order);
}

void report_validate(struct page *page, const struct report_run *run)
{
    const struct json *answer = document_at(page->document, 0), *suites = object_of(answer, "suites"), *rows = object_of(answer, "rows");
    char title[80];
    snprintf(title, sizeof title, "Predictions for %s against measured rows", string_of(answer, "device"));
    page_begin(page, title, "");
    page_verdict_begin(page);
    for (size_t i = 0; i < json_count(suites); i++) {
        const struct json *suite = json_at(suites, i);
        page_paragraph_begin(page, NULL);
        page_strong(page, string_of(suite, "suite"));
        page_text(page, ": half of the rows within ");
        page_number(page, number_of(suite, "median"), 2, 100, "%");
        page_text(page, ", nine in ten within ");
        page_number(page, number_of(suite, "p90"), 2, 100, "%");
        page_text(page, ".");
        page_paragraph_end(page);
    }
    page_verdict_end(page);
    put_suites(page, suites);
    page_section(page, "plots", "Predicted over measured");
    for (size_t i = 0; i < json_count(suites) && i < SUITES_MAX; i++) {
        put_plot(page, rows, string_of(json_at(suites, i), "suite"));
    }
    put_rows(page, rows);
    report_assumptions(page);
    page_end(page, run);
}
