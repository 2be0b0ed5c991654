/* A training step on one or more devices. */
#include "reports/report_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 16
#define CATEGORIES_MAX 24
#define ROWS_WRITTEN 60
#define POINTS_MAX 400

static const char *const bound_texts[][2] = { { "gpu", "the GPU" }, { "host", "the host's calls" }, { "communication", "communication" } };

static const char *bound_text(const struct json *answer)
{
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(string_of(answer, "bound"), bound_texts[i][0]) == 0) {
            return bound_texts[i][1];
        }
    }
    return "";
}

static bool does_not_fit(const struct json *answer)
{
    const struct json *fits = json_get(answer, "fits");
    return fits != NULL && json_kind_of(fits) == JSON_BOOL && !json_bool(fits);
}

/* ---- verdict */

static void put_device_verdict(struct page *page, const struct json *answer, size_t index)
{
    page_paragraph_begin(page, NULL);
    page_strong(page, string_of(answer, "device"));
    if (does_not_fit(answer)) {
        fputs(": <span class=bad>does not fit</span>: it needs ", page->out);
        page_number(page, number_of(object_of(answer, "memory_gib"), "peak"), 4, 1, " GiB");
        page_text(page, " and a reserve of ");
        page_number(page, number_of(object_of(answer, "memory_gib"), "reserve"), 3, 1, " GiB");
        page_text(page, " where there are ");
        page_number(page, number_of(object_of(answer, "memory_gib"), "capacity"), 4, 1, " GiB");
        page_text(page, ", so there is no step time.");
        page_paragraph_end(page);
        return;
    }
    if (!isfinite(number_of(answer, "step_ms"))) {
        page_text(page, ": no step time, since not enough of the step is understood.");
        page_paragraph_end(page);
        return;
    }
    page_text(page, ": ");
    page_number(page, number_of(answer, "step_ms"), 4, 1, " ms");
    report_interval(page, number_of(answer, "step_ms_low"), number_of(answer, "step_ms_high"));
    page_text(page, " a step");
    if (isfinite(number_of(answer, "examples_per_s"))) {
        page_text(page, ", ");
        page_number(page, number_of(answer, "examples_per_s"), 4, 1, " examples/s");
    }
    if (index > 0) {
        page_text(page, ", ");
        report_ratio(page, answer);
        page_text(page, " the time of ");
        page_text(page, string_of(document_at(page->document, 0), "device"));
    }
    page_text(page, "; bound by ");
    page_text(page, bound_text(answer));
    page_text(page, ".");
    page_paragraph_end(page);
}

static void put_verdict(struct page *page)
{
    page_verdict_begin(page);
    for (size_t i = 0; i < document_count(page->document); i++) {
        put_device_verdict(page, document_at(page->document, i), i);
    }
    const char *input = string_of(object_of(document_at(page->document, 0), "input"), "verdict");
    if (input[0] != '\0') {
        page_paragraph_begin(page, "soft");
        page_text(page, "Input: ");
        page_text(page, input);
        page_text(page, ".");
        page_paragraph_end(page);
    }
    report_ask_samples(page, object_of(document_at(page->document, 0), "uncertainty") != NULL);
    page_verdict_end(page);
}

/* ---- figures side by side */

static void put_figures(struct page *page)
{
    static const struct {
        const char *key, *title, *suffix;
        double factor;
        const char *needs; /* shown only where this is known too */
    } rows[] = {
        { "step_ms", "step, queued back to back", " ms", 1, NULL },
        { "step_ms_low", "step, a tenth of the samples below", " ms", 1, NULL },
        { "step_ms_high", "step, a tenth of the samples above", " ms", 1, NULL },
        { "gpu_busy_ms", "GPU busy", " ms", 1, NULL },
        { "gpu_moving_ms", "GPU busy, without waiting for ranks", " ms", 1, "gpu_busy_recorded_waits_ms" },
        { "gpu_busy_recorded_waits_ms", "GPU busy, with the waits of the recording", " ms", 1, NULL },
        { "host_ms", "host busy", " ms", 1, NULL },                      { "exposed_comm_ms", "communication not hidden", " ms", 1, NULL },
        { "examples_per_s", "examples per second, all GPUs", "", 1, NULL }, { "watts", "board power, mean of a GPU", " W", 1, NULL },
        { "clock_mhz", "core clock while busy", " MHz", 1, NULL },       { "recognised_fraction", "GPU time priced by a kernel program", "%", 100, NULL },
        { "within_2x_fraction", "traced kernel time met within 2x", "%", 100, NULL },
    };
    struct page_column columns[1 + DEVICES_MAX] = { { "figure", false, false } };
    size_t count = document_count(page->document);
    count = count > DEVICES_MAX ? DEVICES_MAX : count;
    for (size_t d = 0; d < count; d++) {
        columns[d + 1] = (struct page_column){ string_of(document_at(page->document, d), "device"), true, false };
    }
    page_section(page, "figures", "The step");
    page_table_begin(page, "figures-table", "Per GPU, means over the ranks", columns, count + 1);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        bool any = false;
        for (size_t d = 0; d < count; d++) {
            const char *needed = rows[r].needs != NULL ? rows[r].needs : rows[r].key;
            any = any || isfinite(number_of(document_at(page->document, d), needed));
        }
        if (!any) {
            continue;
        }
        page_row_begin(page);
        page_cell(page, rows[r].title, false);
        for (size_t d = 0; d < count; d++) {
            page_cell_number(page, number_of(document_at(page->document, d), rows[r].key), 4, rows[r].factor, rows[r].suffix);
        }
        page_row_end(page);
    }
    page_table_end(page);
}

static const struct json *category_of(const struct json *answer, const char *name)
{
    const struct json *categories = object_of(answer, "categories");
    for (size_t c = 0; categories != NULL && c < json_count(categories); c++) {
        if (strcmp(string_of(json_at(categories, c), "name"), name) == 0) {
            return json_at(categories, c);
        }
    }
    return NULL;
}

static double category_ms(const struct json *answer, const char *name)
{
    const struct json *category = category_of(answer, name);
    return category != NULL ? number_of(category, "ms") : 0;
}

/* Answers of samples: their categories and kernels have a low and a high end. */
static bool has_intervals(const struct json *document)
{
    bool has = false;
    for (size_t d = 0; d < document_count(document); d++) {
        const struct json *categories = object_of(document_at(document, d), "categories");
        has = has || (categories != NULL && json_count(categories) > 0 && json_get(json_at(categories, 0), "ms_low") != NULL);
    }
    return has;
}

static size_t category_names(const struct json *document, const char *names[CATEGORIES_MAX])
{
    size_t count = 0;
    for (size_t d = 0; d < document_count(document); d++) {
        const struct json *categories = object_of(document_at(document, d), "categories");
        for (size_t c = 0; categories != NULL && c < json_count(categories); c++) {
            const char *name = string_of(json_at(categories, c), "name");
            size_t k = 0;
            while (k < count && strcmp(names[k], name) != 0) {
                k++;
            }
            if (k == count && count < CATEGORIES_MAX) {
                names[count++] = name;
            }
        }
    }
    return count;
}

static void put_categories(struct page *page)
{
    const char *names[CATEGORIES_MAX];
    double parts[DEVICES_MAX][CATEGORIES_MAX];
    struct chart_bar bars[DEVICES_MAX];
    size_t count = category_names(page->document, names), devices = 0;
    for (size_t d = 0; d < document_count(page->document) && devices < DEVICES_MAX; d++) {
        const struct json *answer = document_at(page->document, d);
        if (does_not_fit(answer)) {
            continue;
        }
        for (size_t c = 0; c < count; c++) {
            parts[devices][c] = category_ms(answer, names[c]);
        }
        bars[devices] = (struct chart_bar){ .label = string_of(answer, "device"), .parts = parts[devices], .total = NAN, .low = NAN,
                                            .high = NAN, .limit = number_of(answer, "step_ms"), .remark = "" };
        devices++;
    }
    page_section(page, "categories", "Where the GPU's time goes");
    page_paragraph_begin(page, "soft");
    page_text(page, "GPU time of a step by category, a GPU; the dashed mark is the step. Kernels that overlap add up to more than the step, "
                    "a step that waits for the host or for other ranks to less.");
    page_paragraph_end(page);
    chart_bars(page, "GPU time by category", "ms", names, count, bars, devices);
    struct page_column columns[2 + 3 * DEVICES_MAX] = { { "category", false, false }, { "calls", true, false } };
    char titles[DEVICES_MAX][2][64];
    size_t all = document_count(page->document) > DEVICES_MAX ? DEVICES_MAX : document_count(page->document);
    size_t each = has_intervals(page->document) ? 3 : 1;
    for (size_t d = 0; d < all; d++) {
        const char *device = string_of(document_at(page->document, d), "device");
        columns[each * d + 2] = (struct page_column){ device, true, false };
        for (size_t k = 0; each == 3 && k < 2; k++) {
            snprintf(titles[d][k], sizeof titles[d][k], "%s %s", device, k == 0 ? "low" : "high");
            columns[each * d + 3 + k] = (struct page_column){ titles[d][k], true, false };
        }
    }
    page_table_begin(page, "category-table", each == 3 ? "GPU time by category [ms] at the profile's own values; low and high: a tenth of the samples is beyond"
                                                     : "GPU time by category [ms]",
                     columns, each * all + 2);
    const struct json *own = object_of(document_at(page->document, 0), "categories");
    for (size_t c = 0; c < count; c++) {
        page_row_begin(page);
        page_cell(page, names[c], false);
        double calls = NAN;
        for (size_t k = 0; own != NULL && k < json_count(own); k++) {
            calls = strcmp(string_of(json_at(own, k), "name"), names[c]) == 0 ? number_of(json_at(own, k), "count") : calls;
        }
        page_cell_number(page, calls, 6, 1, "");
        for (size_t d = 0; d < all; d++) {
            const struct json *answer = document_at(page->document, d), *category = category_of(answer, names[c]);
            page_cell_number(page, does_not_fit(answer) ? NAN : category_ms(answer, names[c]), 4, 1, "");
            for (size_t k = 0; each == 3 && k < 2; k++) {
                page_cell_number(page, category != NULL ? number_of(category, k == 0 ? "ms_low" : "ms_high") : NAN, 4, 1, "");
            }
        }
        page_row_end(page);
    }
    page_table_end(page);
}

/* ---- timeline */

static void put_series(struct page *page, const struct json *timeline, size_t index)
{
    static const char *const keys[] = { "hbm_share", "watts", "clock_mhz" };
    static const char *const titles[] = { "HBM use", "board power [W]", "core clock [MHz]" };
    const struct json *counters = object_of(timeline, "counters");
    double start = number_of(counters, "start_us"), bin = number_of(counters, "bin_us");
    for (size_t k = 0; counters != NULL && k < 3; k++) {
        const struct json *values = object_of(counters, keys[k]);
        char id[48], text[40];
        if (values == NULL || json_count(values) == 0) {
            continue;
        }
        snprintf(id, sizeof id, "series%zu-%s", index, keys[k]);
        page_json_begin(page, id);
        fprintf(page->out, "{\"x\":\"us\",\"y\":\"%s\",\"names\":[\"%s\"],\"colors\":[%zu],\"values\":[[", titles[k], titles[k], k);
        for (size_t i = 0; i < json_count(values); i++) {
            fprintf(page->out, "%s%.3f", i > 0 ? "," : "", start + bin * ((double)i + 0.5));
        }
        fputs("],[", page->out);
        for (size_t i = 0; i < json_count(values); i++) {
            number_text(json_number(json_at(values, i)), text, sizeof text);
            fprintf(page->out, "%s%s", i > 0 ? "," : "", text);
        }
        fputs("]]}", page->out);
        page_json_end(page);
        fprintf(page->out, "<div class=plot data-of=\"%s\" role=img aria-label=\"%s over the step\"></div>\n", id, titles[k]);
    }
}

static void put_timelines(struct page *page)
{
    const char *names[CATEGORIES_MAX];
    size_t name_count = category_names(page->document, names);
    bool any = false;
    for (size_t d = 0; d < document_count(page->document); d++) {
        const struct json *answer = document_at(page->document, d), *timeline = object_of(answer, "timeline");
        if (timeline == NULL) {
            continue;
        }
        if (!any) {
            page_section(page, "timeline", "The step as it runs");
        }
        any = true;
        chart_timeline(page, timeline, string_of(answer, "device"), names, name_count);
        fputs("<details><summary>HBM use, power and clock over this step on ", page->out);
        page_text(page, string_of(answer, "device"));
        fputs("</summary><p class=soft>Of the first rank's GPU, as means over a five-hundredth of the span; drag to zoom, double click for "
              "all. Only this step's kernels count, though steps overlap.</p>\n",
              page->out);
        put_series(page, timeline, d);
        fputs("</details>\n", page->out);
    }
}

/* ---- kernels */

struct cell_row { /* of the kernel table: a row of the first device and its partners */
    const struct json *rows[DEVICES_MAX];
    size_t at[DEVICES_MAX]; /* their places in the answers' lists */
};

static int by_key(const void *a, const void *b)
{
    const struct json *x = *(const struct json *const *)a, *y = *(const struct json *const *)b;
    int order = strcmp(string_of(x, "name"), string_of(y, "name"));
    order = order != 0 ? order : strcmp(string_of(x, "category"), string_of(y, "category"));
    double p = number_of(x, "count"), q = number_of(y, "count");
    return order != 0 ? order : p < q ? -1 : p > q;
}

static const struct json **sorted_kernels(const struct json *answer, size_t *count)
{
    const struct json *kernels = object_of(answer, "kernels");
    *count = kernels != NULL ? json_count(kernels) : 0;
    const struct json **list = malloc((*count + 1) * sizeof(struct json *));
    SIM_ASSERT(list != NULL, "no memory for %zu kernels", *count);
    for (size_t i = 0; i < *count; i++) {
        list[i] = json_at(kernels, i);
    }
    return list;
}

/* The other device's row of the same kernel: n-th of its name and calls here is n-th of these there, by time. */
static void find_partners(const struct json *document, size_t d, const struct json **own, size_t count, struct cell_row *rows)
{
    size_t other_count = 0;
    const struct json **other = sorted_kernels(document_at(document, d), &other_count);
    struct entry {
        const struct json *row;
        size_t at;
    } *a = malloc((count + 1) * sizeof *a), *b = malloc((other_count + 1) * sizeof *b);
    SIM_ASSERT(a != NULL && b != NULL, "no memory for %zu kernels", count + other_count);
    for (size_t i = 0; i < count; i++) {
        a[i] = (struct entry){ own[i], i };
    }
    for (size_t i = 0; i < other_count; i++) {
        b[i] = (struct entry){ other[i], i };
    }
    int (*order)(const void *, const void *) = by_key;
    qsort(a, count, sizeof a[0], order);
    qsort(b, other_count, sizeof b[0], order);
    for (size_t i = 0, j = 0; i < count && j < other_count;) {
        int side = by_key(&a[i].row, &b[j].row);
        if (side == 0) {
            rows[a[i].at].rows[d] = b[j].row;
            rows[a[i].at].at[d] = b[j].at;
        }
        i += side <= 0;
        j += side >= 0;
    }
    free(a);
    free(b);
    free(other);
}

static void row_label(const struct json *row, char *text, size_t capacity)
{
    char name[160];
    const char *priced = string_of(row, "priced");
    if (strcmp(priced, "program") == 0 || strcmp(priced, "fabric") == 0) {
        snprintf(text, capacity, "%s %s", string_of(row, "program"), string_of(row, "params"));
    } else {
        report_short_name(string_of(row, "name"), name, sizeof name);
        snprintf(text, capacity, "%s (%s)", name, string_of(row, "program"));
    }
}

static const char *const stage_names[] = { "hbm", "l2", "l1", "latency", "issue", "matrix", "atomic", "launch", "dispatch", "die_link", "mall" };
#define STAGES (sizeof stage_names / sizeof stage_names[0])

static size_t stack_of(const struct json *row, double shares[STAGES], char *text, size_t capacity)
{
    const struct json *stack = object_of(row, "stack");
    size_t used = 0, count = 0;
    text[0] = '\0';
    for (size_t s = 0; s < STAGES; s++) {
        shares[s] = stack != NULL ? number_of(stack, stage_names[s]) : NAN;
        if (shares[s] > 0) {
            used += (size_t)snprintf(text + used, capacity - used, "%s%s %.0f%%", count > 0 ? ", " : "", stage_names[s], shares[s] * 100);
            count++;
        }
    }
    return count;
}

static void put_stack(struct page *page, const struct json *row)
{
    double shares[STAGES];
    char text[320];
    if (stack_of(row, shares, text, sizeof text) == 0) {
        fputs("<td></td>", page->out);
        return;
    }
    fprintf(page->out, "<td><span class=bar role=img aria-label=\"%s\" title=\"%s\">", text, text);
    for (size_t s = 0; s < STAGES; s++) {
        if (shares[s] > 0) {
            fprintf(page->out, "<i class=k%zu style=\"width:%.1f%%\"></i>", s % CHART_COLOURS, shares[s] * 100);
        }
    }
    fputs("</span></td>", page->out);
}

static void put_kernel_row(struct page *page, const struct cell_row *cells, size_t devices, bool intervals)
{
    const struct json *row = cells->rows[0];
    char label[400], name[160];
    row_label(row, label, sizeof label);
    report_short_name(string_of(row, "name"), name, sizeof name);
    page_row_begin(page);
    fputs("<td class=w title=\"", page->out);
    page_text(page, string_of(row, "name"));
    fputs("\">", page->out);
    page_text(page, name);
    fputs("</td>", page->out);
    page_cell(page, label, true);
    page_cell(page, string_of(row, "category"), false);
    page_cell_number(page, number_of(row, "count"), 5, 1, "");
    page_cell_number(page, number_of(row, "traced_ms"), 4, 1, "");
    for (size_t d = 0; d < devices; d++) {
        const struct json *own = cells->rows[d];
        page_cell_number(page, own != NULL ? number_of(own, "ms") : NAN, 4, 1, "");
        for (size_t k = 0; intervals && k < 2; k++) {
            page_cell_number(page, own != NULL ? number_of(own, k == 0 ? "ms_low" : "ms_high") : NAN, 4, 1, "");
        }
        page_cell(page, own != NULL ? string_of(own, "limiter") : "", false);
        if (own != NULL) {
            put_stack(page, own);
        } else {
            fputs("<td></td>", page->out);
        }
    }
    page_row_end(page);
}

static void put_kernel_table(struct page *page, const struct cell_row *rows, size_t count, size_t devices)
{
    static const char *const plain[] = { "%s [ms]", "%s limiter", "%s stack" },
                             *const with_intervals[] = { "%s [ms]", "%s low", "%s high", "%s limiter", "%s stack" };
    bool intervals = has_intervals(page->document);
    const char *const *formats = intervals ? with_intervals : plain;
    size_t each = intervals ? 5 : 3;
    struct page_column columns[5 + 5 * DEVICES_MAX] = { { "kernel", false, true },   { "priced as", false, true },   { "category", false, false },
                                                        { "calls", true, false }, { "traced [ms]", true, false } };
    char titles[DEVICES_MAX][5][64];
    for (size_t d = 0; d < devices; d++) {
        const char *device = string_of(document_at(page->document, d), "device");
        for (size_t k = 0; k < each; k++) {
            snprintf(titles[d][k], sizeof titles[d][k], formats[k], device);
            columns[5 + each * d + k] = (struct page_column){ titles[d][k], k + 2 < each, false };
        }
    }
    bool more = count > ROWS_WRITTEN;
    chart_legend(page, stage_names, STAGES);
    page_table_begin_more(page, "kernels-table",
                          intervals ? "Kernels of a step, a GPU, most time first, at the profile's own values; low and high: a tenth of the samples "
                                      "is beyond; stacks are shares of a kernel's own time"
                                    : "Kernels of a step, a GPU, most time first; stacks are shares of a kernel's own time",
                          columns, 5 + each * devices, more ? "kernels-more" : NULL);
    for (size_t i = 0; i < count && i < ROWS_WRITTEN; i++) {
        put_kernel_row(page, &rows[i], devices, intervals);
    }
    page_table_end(page);
    if (more) {
        page_json_begin(page, "kernels-more"); /* places in the answers' lists: the script makes the rows */
        fputc('[', page->out);
        for (size_t i = ROWS_WRITTEN; i < count; i++) {
            for (size_t d = 0; d < devices; d++) {
                fprintf(page->out, "%s%ld", d > 0 ? "," : i > ROWS_WRITTEN ? ",[" : "[", rows[i].rows[d] != NULL ? (long)rows[i].at[d] : -1L);
            }
            fputc(']', page->out);
        }
        fputc(']', page->out);
        page_json_end(page);
    }
}

static void put_kernels(struct page *page)
{
    size_t count = 0, devices = document_count(page->document);
    devices = devices > DEVICES_MAX ? DEVICES_MAX : devices;
    const struct json **own = sorted_kernels(document_at(page->document, 0), &count);
    struct cell_row *rows = calloc(count + 1, sizeof *rows);
    SIM_ASSERT(rows != NULL, "no memory for %zu kernels", count);
    for (size_t i = 0; i < count; i++) {
        rows[i].rows[0] = own[i];
        rows[i].at[0] = i;
    }
    for (size_t d = 1; d < devices; d++) {
        find_partners(page->document, d, own, count, rows);
    }
    if (count > 0) {
        page_section(page, "kernels", "Kernels");
        put_kernel_table(page, rows, count, devices);
    }
    free(rows);
    free(own);
}

/* ---- roofline: what each kernel does a second against what the chip could, by its work per HBM byte */

static double derived_of(const struct report_run *run, const char *device, const char *key)
{
    for (size_t i = 0; run->profiles != NULL && i < json_count(run->profiles); i++) {
        const struct json *profile = json_at(run->profiles, i);
        if (strcmp(string_of(profile, "name"), device) == 0) {
            return number_of(object_of(object_of(profile, "derived"), key), "value");
        }
    }
    return NAN;
}

static void put_roofline(struct page *page, const struct report_run *run)
{
    static const struct chart_axes axes = { "FLOP per byte of HBM traffic", "TFLOP/s", true, true };
    struct chart_point *points = calloc(POINTS_MAX, sizeof *points);
    struct chart_line lines[2 * DEVICES_MAX];
    double xs[DEVICES_MAX][2][3], ys[DEVICES_MAX][2][3];
    char(*labels)[200] = calloc(POINTS_MAX, sizeof *labels), names[DEVICES_MAX][2][80];
    size_t count = 0, line_count = 0;
    SIM_ASSERT(points != NULL && labels != NULL, "no memory for %d points", POINTS_MAX);
    double least = INFINITY, most = 0;
    size_t left_out = 0;
    for (size_t d = 0; d < document_count(page->document) && d < DEVICES_MAX; d++) {
        const struct json *kernels = object_of(document_at(page->document, d), "kernels");
        for (size_t i = 0; kernels != NULL && i < json_count(kernels); i++) {
            const struct json *row = json_at(kernels, i);
            double flops = number_of(row, "flops"), bytes = number_of(row, "hbm_bytes"), ms = number_of(row, "ms");
            if (!(flops > 0 && bytes > 0 && ms > 0)) {
                continue;
            }
            if (count == POINTS_MAX) {
                left_out++;
                continue;
            }
            snprintf(labels[count], sizeof labels[0], "%s: %s %.100s, %.4g ms a step", string_of(document_at(page->document, d), "device"),
                     string_of(row, "program"), string_of(row, "params"), ms);
            points[count] = (struct chart_point){ flops / bytes, flops / ms * 1e-9, fmin(3 + 6 * sqrt(ms / fmax(number_of(document_at(page->document, d), "step_ms"), ms)) * 2, 14),
                                                  (unsigned)d, false, labels[count] };
            least = fmin(least, points[count].x);
            most = fmax(most, points[count].x);
            count++;
        }
    }
    for (size_t d = 0; count > 0 && d < document_count(page->document) && d < DEVICES_MAX; d++) {
        const char *device = string_of(document_at(page->document, d), "device");
        double rate = derived_of(run, device, "hbm_rate"), peaks[2] = { derived_of(run, device, "bf16"), derived_of(run, device, "fp32") };
        for (size_t k = 0; k < 2 && rate > 0 && peaks[k] > 0; k++) {
            double *x = xs[d][k], *y = ys[d][k];
            x[0] = fmin(least, 0.2);
            x[1] = peaks[k] / rate; /* where the roof bends */
            x[2] = fmax(most, 2 * peaks[0] / rate);
            for (size_t i = 0; i < 3; i++) {
                y[i] = fmin(peaks[k], x[i] * rate);
            }
            snprintf(names[d][k], sizeof names[d][k], "%s, HBM and %s peak", device, k == 0 ? "bf16" : "fp32");
            lines[line_count++] = (struct chart_line){ names[d][k], x, y, 3, (unsigned)d, (unsigned)k, false };
        }
    }
    if (count > 0) {
        page_section(page, "roofline", "Roofline");
        page_paragraph_begin(page, "soft");
        page_text(page, "Each kernel that counts its arithmetic, by its share of the step (size). Above fp32's line only matrix units can be; "
                        "far below both lines something else holds: see the stacks. HBM traffic alone counts: what a cache still has moves a point to the right.");
        if (left_out > 0) {
            char text[120];
            snprintf(text, sizeof text, " The first %d are drawn; %zu shorter ones are in the table alone.", POINTS_MAX, left_out);
            page_text(page, text);
        }
        page_paragraph_end(page);
        chart_xy(page, "Kernels of this step under the roofs", &axes, lines, line_count, points, count);
    }
    free(points);
    free(labels);
}

/* ---- memory */

static const char *const memory_keys[] = { "parameters", "gradients", "optimizer", "embeddings", "activations", "communication",
                                           "workspace",  "peak",      "reserve",   "capacity" };

static void put_memory_table(struct page *page)
{
    struct page_column columns[2 + DEVICES_MAX] = { { "figure", false, false } };
    size_t count = document_count(page->document) > DEVICES_MAX ? DEVICES_MAX : document_count(page->document);
    for (size_t d = 0; d < count; d++) {
        columns[d + 1] = (struct page_column){ string_of(document_at(page->document, d), "device"), true, false };
    }
    page_table_begin(page, "memory-table", "GiB of a GPU at the allocator's peak", columns, count + 1);
    for (size_t k = 0; k < sizeof memory_keys / sizeof memory_keys[0]; k++) {
        page_row_begin(page);
        page_cell(page, memory_keys[k], false);
        for (size_t d = 0; d < count; d++) {
            page_cell_number(page, number_of(object_of(document_at(page->document, d), "memory_gib"), memory_keys[k]), 4, 1, "");
        }
        page_row_end(page);
    }
    page_table_end(page);
}

static void put_memory(struct page *page)
{
    static const char *const owners[] = { "parameters",  "gradients",     "optimizer", "embeddings",
                                          "activations", "communication", "workspace", "reserve" };
    enum { OWNERS = sizeof owners / sizeof owners[0] };
    double parts[DEVICES_MAX][OWNERS];
    struct chart_bar bars[DEVICES_MAX];
    size_t count = 0;
    bool known = false;
    for (size_t d = 0; d < document_count(page->document) && count < DEVICES_MAX; d++) {
        const struct json *answer = document_at(page->document, d), *memory = object_of(answer, "memory_gib");
        known = known || isfinite(number_of(memory, "peak"));
        for (size_t k = 0; k < OWNERS; k++) {
            parts[count][k] = number_of(memory, owners[k]);
        }
        bars[count] = (struct chart_bar){ .label = string_of(answer, "device"), .parts = parts[count], .low = NAN, .high = NAN,
                                          .total = number_of(memory, "peak"),
                                          .limit = number_of(memory, "capacity"), .remark = does_not_fit(answer) ? "does not fit" : "at the peak" };
        count++;
    }
    page_section(page, "memory", "Memory");
    page_paragraph_begin(page, NULL);
    if (!known) {
        page_text(page, "A trace does not hold allocations, so the peak is not known. Capacity: ");
        for (size_t d = 0; d < document_count(page->document); d++) {
            page_text(page, d > 0 ? ", " : "");
            page_text(page, string_of(document_at(page->document, d), "device"));
            page_text(page, " ");
            page_number(page, number_of(object_of(document_at(page->document, d), "memory_gib"), "capacity"), 4, 1, " GiB");
        }
        page_text(page, ".");
        page_paragraph_end(page);
        return;
    }
    page_text(page, "Who holds the memory at the allocator's peak, of a GPU, and the reserve beside it; the dashed mark is the capacity.");
    page_paragraph_end(page);
    chart_bars(page, "Memory at the peak", "GiB", owners, OWNERS, bars, count);
    put_memory_table(page);
}

void report_predict(struct page *page, const struct report_run *run)
{
    const struct json *first = document_at(page->document, 0);
    char title[400], lead[200], devices[160] = "";
    for (size_t d = 0; d < document_count(page->document); d++) {
        size_t used = strlen(devices);
        snprintf(devices + used, sizeof devices - used, "%s%s", d > 0 ? ", " : "", string_of(document_at(page->document, d), "device"));
    }
    snprintf(title, sizeof title, "%.230s on %.159s", string_of(first, "source"), devices);
    snprintf(lead, sizeof lead, "A training step on %.0f GPU%s, mode %s, steps queued back to back.", number_of(first, "gpus"),
             number_of(first, "gpus") == 1 ? "" : "s", string_of(first, "mode"));
    page_begin(page, title, lead);
    put_verdict(page);
    put_figures(page);
    put_categories(page);
    put_timelines(page);
    put_kernels(page);
    put_roofline(page, run);
    put_memory(page);
    report_doubts(page, "ms");
    report_assumptions(page);
    page_end(page, run);
}
