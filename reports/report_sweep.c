/* A study: its front. */
#include "reports/report_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 10
#define COLUMNS_MAX 32

static const struct {
    const char *key, *title;
} metrics[] = {
    { "step_ms", "step [ms]" },
    { "step_ms_low", "step low" },
    { "step_ms_high", "step high" },
    { "examples_per_s", "examples/s" },
    { "examples_per_s_low", "examples/s low" },
    { "examples_per_s_high", "examples/s high" },
    { "examples_per_s_per_gpu", "examples/s a GPU" },
    { "examples_per_s_per_watt", "examples/s a watt" },
    { "examples_per_cost", "examples a unit of cost" },
    { "memory_gib", "memory [GiB]" },
    { "capacity_gib", "capacity [GiB]" },
    { "exposed_comm_ms", "exposed comm. [ms]" },
    { "gpu_busy_ms", "GPU busy [ms]" },
    { "host_ms", "host [ms]" },
    { "board_watts", "board [W]" },
    { "core_mhz", "core clock [MHz]" },
    { "recognised_fraction", "by programs" },
    { "gpus", "GPUs" },
    { "batch", "batch" },
    { "global_batch", "global batch" },
};
enum { METRICS = sizeof metrics / sizeof metrics[0] };

static bool truth(const struct json *object, const char *key)
{
    const struct json *value = json_get(object, key);
    return value != NULL && json_kind_of(value) == JSON_BOOL && json_bool(value);
}

static void settings_text(const struct json *record, char *text, size_t capacity)
{
    const struct json *settings = object_of(record, "settings");
    text[0] = '\0';
    for (size_t i = 0; settings != NULL && i < json_count(settings); i++) {
        const struct json *value = json_at(settings, i);
        size_t used = strlen(text);
        snprintf(text + used, capacity - used, "%s%s=%s", i > 0 ? " " : "", json_key(value),
                 json_kind_of(value) == JSON_STRING ? json_string(value) : "");
    }
}

static void put_record(struct page *page, const struct json *record)
{
    char text[400];
    settings_text(record, text, sizeof text);
    page_strong(page, string_of(record, "device"));
    page_text(page, text[0] != '\0' ? " with " : "");
    page_text(page, text);
    page_text(page, ": ");
    page_number(page, number_of(record, "step_ms"), 4, 1, " ms");
    report_interval(page, number_of(record, "step_ms_low"), number_of(record, "step_ms_high"));
    page_text(page, ", ");
    page_number(page, number_of(record, "examples_per_s"), 4, 1, " examples/s");
    report_interval(page, number_of(record, "examples_per_s_low"), number_of(record, "examples_per_s_high"));
    page_text(page, ", ");
    page_number(page, number_of(record, "memory_gib"), 4, 1, " GiB");
}

/* "examples/s" of a metric's title, "memory" of "memory [GiB]". */
static void put_title(struct page *page, const char *key)
{
    char text[64];
    const char *title = key;
    for (size_t m = 0; m < METRICS; m++) {
        title = strcmp(key, metrics[m].key) == 0 ? metrics[m].title : title;
    }
    const char *unit = strstr(title, " [");
    snprintf(text, sizeof text, "%.*s", (int)(unit != NULL ? (size_t)(unit - title) : strlen(title)), title);
    page_text(page, text);
}

/* As studies/metrics.h has it of those that an objective may be: throughput is better more, all else less. */
static bool is_less_better(const char *key)
{
    return strncmp(key, "examples_per", 12) != 0;
}

/* The front's best by one objective; of equals the first. NULL: none has it. */
static const struct json *best_by(const struct json *front, const char *key)
{
    const struct json *best = NULL;
    for (size_t i = 0; i < json_count(front); i++) {
        double value = number_of(json_at(front, i), key), most = best != NULL ? number_of(best, key) : NAN;
        if (truth(json_at(front, i), "pareto") && isfinite(value) && (best == NULL || (is_less_better(key) ? value < most : value > most))) {
            best = json_at(front, i);
        }
    }
    return best;
}

static void put_verdict(struct page *page, const struct json *root)
{
    const struct json *front = object_of(root, "front"), *best = object_of(root, "best");
    page_verdict_begin(page);
    page_paragraph_begin(page, NULL);
    page_number(page, number_of(root, "tried"), 7, 1, "");
    page_text(page, " of ");
    page_number(page, number_of(root, "points"), 7, 1, "");
    page_text(page, " points tried: ");
    page_number(page, number_of(root, "feasible"), 7, 1, "");
    page_text(page, " can run, ");
    page_number(page, number_of(root, "infeasible"), 7, 1, "");
    page_text(page, " cannot.");
    page_paragraph_end(page);
    if (best != NULL) {
        page_paragraph_begin(page, NULL);
        page_text(page, "The search's best: ");
        put_record(page, best);
        page_text(page, ".");
        page_paragraph_end(page);
    }
    const struct json *objectives = object_of(root, "objectives");
    for (size_t k = 0; objectives != NULL && k < json_count(objectives); k++) {
        const char *key = json_string(json_at(objectives, k));
        const struct json *record = best_by(front, key);
        if (record != NULL) {
            page_paragraph_begin(page, NULL);
            page_text(page, is_less_better(key) ? "Least " : "Most ");
            put_title(page, key);
            page_text(page, ": ");
            put_record(page, record);
            page_text(page, ".");
            page_paragraph_end(page);
        }
    }
    report_ask_samples(page, number_of(root, "samples") > 0);
    page_verdict_end(page);
}

static unsigned colour_of(const char *names[DEVICES_MAX], size_t *count, const char *name)
{
    size_t i = 0;
    while (i < *count && strcmp(names[i], name) != 0) {
        i++;
    }
    if (i == *count && *count < DEVICES_MAX) {
        names[(*count)++] = name;
    }
    return (unsigned)i;
}

static void put_plot(struct page *page, const struct json *front)
{
    static const struct chart_axes axes = { "memory of the fullest GPU [GiB]", "examples/s a GPU", false, false };
    const char *names[DEVICES_MAX];
    size_t name_count = 0, count = json_count(front), whisker_count = 0;
    struct chart_point *points = calloc(count + 1, sizeof *points);
    struct chart_line *whiskers = calloc(count + 1, sizeof *whiskers);
    double(*ends)[4] = calloc(count + 1, sizeof *ends);
    char(*labels)[480] = calloc(count + 1, sizeof *labels), text[400];
    SIM_ASSERT(points != NULL && labels != NULL && whiskers != NULL && ends != NULL, "no memory for %zu points", count);
    for (size_t i = 0; i < count; i++) {
        const struct json *record = json_at(front, i);
        settings_text(record, text, sizeof text);
        snprintf(labels[i], sizeof labels[0], "%s %s", string_of(record, "device"), text);
        bool on = truth(record, "pareto");
        points[i] = (struct chart_point){ number_of(record, "memory_gib"), number_of(record, "examples_per_s_per_gpu"), on ? 7 : 4,
                                          colour_of(names, &name_count, string_of(record, "device")), !on, labels[i] };
        double low = number_of(record, "examples_per_s_per_gpu_low"), high = number_of(record, "examples_per_s_per_gpu_high");
        if (isfinite(low) && isfinite(high)) {
            memcpy(ends[i], (const double[]){ points[i].x, points[i].x, low, high }, sizeof ends[i]);
            whiskers[whisker_count++] = (struct chart_line){ NULL, ends[i], ends[i] + 2, 2, points[i].colour, 0, false };
        }
    }
    page_section(page, "front", "The front");
    page_paragraph_begin(page, "soft");
    page_text(page, "Full: no point of any device is better in every objective. Ring: on its own device's front alone.");
    page_text(page, whisker_count > 0 ? " Upright lines: 80% of the samples." : "");
    page_paragraph_end(page);
    chart_legend(page, names, name_count);
    chart_xy(page, "Throughput against memory", &axes, whiskers, whisker_count, points, count);
    free(whiskers);
    free(ends);
    free(points);
    free(labels);
}

static void put_table(struct page *page, const struct json *front)
{
    struct page_column columns[COLUMNS_MAX] = { { "device", false, false }, { "settings", false, true }, { "front", false, false } };
    size_t taken[METRICS], count = 0;
    char text[400];
    for (size_t m = 0; m < METRICS; m++) {
        bool any = false;
        for (size_t i = 0; i < json_count(front); i++) {
            any = any || isfinite(number_of(json_at(front, i), metrics[m].key));
        }
        if (any) {
            columns[3 + count] = (struct page_column){ metrics[m].title, true, false };
            taken[count++] = m;
        }
    }
    page_table_begin(page, "front-table", "Points of the fronts", columns, 3 + count);
    for (size_t i = 0; i < json_count(front); i++) {
        const struct json *record = json_at(front, i);
        settings_text(record, text, sizeof text);
        fputs(truth(record, "pareto") ? "<tr class=key>" : "<tr>", page->out);
        page_cell(page, string_of(record, "device"), false);
        page_cell(page, text, true);
        page_cell(page, truth(record, "pareto") ? "all devices" : "its device", false);
        for (size_t k = 0; k < count; k++) {
            page_cell_number(page, number_of(record, metrics[taken[k]].key), 4, 1, "");
        }
        page_row_end(page);
    }
    page_table_end(page);
}

static void put_reasons(struct page *page, const struct json *reasons)
{
    static const struct page_column columns[] = { { "points", true, false }, { "reason", false, true } };
    if (reasons == NULL || json_count(reasons) == 0) {
        return;
    }
    page_section(page, "infeasible", "Why points cannot run");
    page_table_begin(page, "reasons-table", "Points by reason", columns, 2);
    for (size_t i = 0; i < json_count(reasons); i++) {
        page_row_begin(page);
        page_cell_number(page, number_of(json_at(reasons, i), "count"), 7, 1, "");
        page_cell(page, string_of(json_at(reasons, i), "reason"), true);
        page_row_end(page);
    }
    page_table_end(page);
}

void report_sweep(struct page *page, const struct report_run *run)
{
    const struct json *root = document_at(page->document, 0), *front = object_of(root, "front");
    page_begin(page, string_of(root, "study"), "A study: many points of one step.");
    put_verdict(page, root);
    put_plot(page, front);
    put_table(page, front);
    put_reasons(page, object_of(root, "reasons"));
    report_samples(page, "points of the fronts");
    report_assumptions(page);
    page_end(page, run);
}
