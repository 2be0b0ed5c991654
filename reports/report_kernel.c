/* One kernel on one or more devices. */
#include "reports/chart.h"
#include "reports/report_internal.h"
#include <math.h>
#include <string.h>

#define DEVICES_MAX 16

static const char *const stages[] = { "hbm", "l2", "l1", "latency", "issue", "matrix", "atomic", "launch", "dispatch", "die_link", "mall" };
_Static_assert(sizeof stages / sizeof stages[0] <= CHART_COLOURS, "a colour for each stage");
enum { STAGES = sizeof stages / sizeof stages[0] };

static void put_verdict(struct page *page)
{
    page_verdict_begin(page);
    for (size_t d = 0; d < document_count(page->document); d++) {
        const struct json *answer = document_at(page->document, d);
        const char *limiter = string_of(answer, "limiter");
        page_paragraph_begin(page, NULL);
        page_strong(page, string_of(answer, "device"));
        page_text(page, ": ");
        if (isfinite(number_of(answer, "time_us"))) {
            page_number(page, number_of(answer, "time_us"), 4, 1, " us");
            report_interval(page, number_of(answer, "time_us_low"), number_of(answer, "time_us_high"));
        } else {
            page_number(page, number_of(answer, "value"), 4, 1, " ");
            page_text(page, string_of(answer, "unit"));
        }
        if (d > 0 && isfinite(number_of(answer, "time_to_first"))) {
            page_text(page, ", ");
            report_ratio(page, answer);
            page_text(page, " the time of ");
            page_text(page, string_of(document_at(page->document, 0), "device"));
        }
        page_text(page, "; held by ");
        page_text(page, limiter);
        page_text(page, " (");
        page_number(page, number_of(object_of(answer, "stack"), limiter), 3, 100, "%");
        page_text(page, " of the time).");
        page_paragraph_end(page);
    }
    report_ask_samples(page, object_of(document_at(page->document, 0), "uncertainty") != NULL);
    page_verdict_end(page);
}

static void put_stacks(struct page *page)
{
    double parts[DEVICES_MAX][STAGES];
    struct chart_bar bars[DEVICES_MAX];
    size_t count = 0;
    for (size_t d = 0; d < document_count(page->document) && d < DEVICES_MAX; d++) {
        const struct json *answer = document_at(page->document, d);
        double time = number_of(answer, "time_us");
        for (size_t s = 0; s < STAGES; s++) {
            parts[d][s] = number_of(object_of(answer, "stack"), stages[s]) * (isfinite(time) ? time : 1);
        }
        bars[count++] = (struct chart_bar){ .label = string_of(answer, "device"), .parts = parts[d], .total = time,
                                            .low = number_of(answer, "time_us_low"), .high = number_of(answer, "time_us_high"),
                                            .limit = NAN, .remark = string_of(answer, "limiter") };
    }
    page_section(page, "stack", "Where the time goes");
    chart_bars(page, "Time by the stage that holds the waves", "us", stages, STAGES, bars, count);
}

struct figure {
    const char *title, *group, *key, *suffix; /* group "": of the answer itself */
    double factor;
};

static const struct figure figures[] = {
    { "time", "", "time_us", " us", 1 },
    { "time, a tenth of the samples below", "", "time_us_low", " us", 1 },
    { "time, a tenth of the samples above", "", "time_us_high", " us", 1 },
    { "device alone", "", "device_us", " us", 1 },
    { "value", "", "value", "", 1 },
    { "arithmetic", "", "tflops", " TFLOP/s", 1 },
    { "L2 traffic", "bytes", "l2", " MB", 1e-6 },
    { "die link traffic", "bytes", "die_link", " MB", 1e-6 },
    { "memory-side cache traffic", "bytes", "mall", " MB", 1e-6 },
    { "HBM traffic", "bytes", "hbm", " MB", 1e-6 },
    { "L1 hits", "hit_rate", "l1", "%", 100 },
    { "L2 hits", "hit_rate", "l2", "%", 100 },
    { "memory-side cache hits", "hit_rate", "mall", "%", 100 },
    { "waves per CU", "occupancy", "waves_per_cu", "", 1 },
    { "lanes at work", "occupancy", "lanes", "", 1 },
    { "atomics", "atomics", "count", "", 1 },
    { "operations on the hottest line", "atomics", "hottest_line_ops", "", 1 },
    { "core clock", "", "clock_mhz", " MHz", 1 },
    { "board power", "", "watts", " W", 1 },
    { "launches", "", "launches", "", 1 },
    { "share of the work simulated", "", "sampled_fraction", "%", 100 },
    { "sampling error", "", "sampling_error", "%", 100 },
};

static double figure_of(const struct json *answer, const struct figure *figure)
{
    return number_of(figure->group[0] != '\0' ? object_of(answer, figure->group) : answer, figure->key);
}

static void put_figures(struct page *page)
{
    struct page_column columns[1 + DEVICES_MAX] = { { "figure", false, false } };
    size_t count = document_count(page->document) > DEVICES_MAX ? DEVICES_MAX : document_count(page->document);
    for (size_t d = 0; d < count; d++) {
        columns[d + 1] = (struct page_column){ string_of(document_at(page->document, d), "device"), true, false };
    }
    page_section(page, "figures", "Figures");
    page_table_begin(page, "figures-table", "What the kernel does", columns, count + 1);
    for (size_t f = 0; f < sizeof figures / sizeof figures[0]; f++) {
        bool any = false;
        for (size_t d = 0; d < count; d++) {
            double value = figure_of(document_at(page->document, d), &figures[f]);
            any = any || (isfinite(value) && value != 0);
        }
        if (!any) {
            continue;
        }
        page_row_begin(page);
        bool sampled = object_of(document_at(page->document, 0), "uncertainty") != NULL;
        page_cell(page, sampled && strcmp(figures[f].key, "device_us") == 0 ? "device alone, at the profile's own values" : figures[f].title,
                  false);
        for (size_t d = 0; d < count; d++) {
            const struct json *answer = document_at(page->document, d);
            char suffix[32];
            snprintf(suffix, sizeof suffix, strcmp(figures[f].key, "value") == 0 ? " %s" : "%s",
                     strcmp(figures[f].key, "value") == 0 ? string_of(answer, "unit") : figures[f].suffix);
            page_cell_number(page, figure_of(answer, &figures[f]), 4, figures[f].factor, suffix);
        }
        page_row_end(page);
    }
    page_row_begin(page);
    page_cell(page, "atomics executed at", false);
    for (size_t d = 0; d < count; d++) {
        fputs("<td class=n>", page->out);
        page_text(page, string_of(object_of(document_at(page->document, d), "atomics"), "executed_at"));
        fputs("</td>", page->out);
    }
    page_row_end(page);
    page_table_end(page);
    page_table_begin(page, "stack-table", "Share of the time by stage", columns, count + 1);
    for (size_t s = 0; s < STAGES; s++) {
        page_row_begin(page);
        page_cell(page, stages[s], false);
        for (size_t d = 0; d < count; d++) {
            page_cell_number(page, number_of(object_of(document_at(page->document, d), "stack"), stages[s]), 3, 100, "%");
        }
        page_row_end(page);
    }
    page_table_end(page);
}

void report_kernel(struct page *page, const struct report_run *run)
{
    const struct json *first = document_at(page->document, 0), *params = object_of(first, "params");
    char title[160], lead[600] = "";
    for (size_t i = 0; params != NULL && i < json_count(params); i++) {
        size_t used = strlen(lead);
        char number[40] = "";
        const struct json *value = json_at(params, i);
        if (json_kind_of(value) == JSON_NUMBER) {
            number_text(json_number(value), number, sizeof number);
        }
        snprintf(lead + used, sizeof lead - used, "%s%s=%s", i > 0 ? " " : "", json_key(value),
                 json_kind_of(value) == JSON_STRING ? json_string(value) : number);
    }
    snprintf(title, sizeof title, "%s/%s", string_of(first, "suite"), string_of(first, "kernel"));
    page_begin(page, title, lead);
    put_verdict(page);
    put_stacks(page);
    put_figures(page);
    report_doubts(page, isfinite(number_of(first, "time_us")) ? "us" : string_of(first, "unit"));
    report_assumptions(page);
    page_end(page, run);
}
