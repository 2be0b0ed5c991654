/* What would make a step shorter, ranked. */
#include "reports/report_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BARS_MAX 24

static bool truth(const struct json *object, const char *key)
{
    const struct json *value = json_get(object, key);
    return value != NULL && json_kind_of(value) == JSON_BOOL && json_bool(value);
}

static void put_gain(struct page *page, double gain, double low, double high)
{
    page_signed_percent(page, gain);
    if (isfinite(low) && isfinite(high)) {
        page_text(page, " [");
        page_signed_percent(page, low);
        page_text(page, ", ");
        page_signed_percent(page, high);
        page_text(page, "]");
    }
}

static void put_verdict(struct page *page, const struct json *root)
{
    const struct json *advice = object_of(root, "advice"), *together = object_of(root, "combination"), *changes = object_of(together, "changes");
    size_t worth = 0;
    for (size_t i = 0; i < json_count(advice); i++) {
        worth += truth(json_at(advice, i), "worth_it");
    }
    page_verdict_begin(page);
    page_paragraph_begin(page, NULL);
    page_text(page, "The step takes ");
    page_number(page, number_of(root, "step_ms"), 4, 1, " ms");
    report_interval(page, number_of(root, "step_ms_low"), number_of(root, "step_ms_high"));
    page_text(page, " on ");
    page_strong(page, string_of(root, "device"));
    page_text(page, worth == 0 ? "; no change that is known here is worth it." : "; changes that are worth it gain, each alone:");
    page_paragraph_end(page);
    for (size_t i = 0; i < json_count(advice); i++) {
        const struct json *one = json_at(advice, i);
        if (truth(one, "worth_it")) {
            page_paragraph_begin(page, NULL);
            page_strong(page, string_of(one, "change"));
            page_text(page, string_of(one, "program")[0] != '\0' ? " on " : "");
            page_text(page, string_of(one, "program"));
            page_text(page, ": ");
            put_gain(page, number_of(one, "gain"), number_of(one, "gain_low"), number_of(one, "gain_high"));
            page_text(page, ", at the price of ");
            page_text(page, string_of(one, "cost"));
            page_text(page, ".");
            page_paragraph_end(page);
        }
    }
    if (changes != NULL && json_count(changes) > 1) {
        page_paragraph_begin(page, NULL);
        page_text(page, "Together (");
        for (size_t i = 0; i < json_count(changes); i++) {
            page_text(page, i > 0 ? ", " : "");
            page_text(page, json_string(json_at(changes, i)));
        }
        page_text(page, "): ");
        put_gain(page, number_of(together, "gain"), number_of(together, "gain_low"), number_of(together, "gain_high"));
        page_text(page, ", to ");
        page_number(page, number_of(together, "step_ms"), 4, 1, " ms");
        report_interval(page, number_of(together, "step_ms_low"), number_of(together, "step_ms_high"));
        page_text(page, "; gains do not add: the sum would be ");
        page_signed_percent(page, number_of(together, "summed_gain"));
        page_text(page, ".");
        page_paragraph_end(page);
    }
    report_ask_samples(page, number_of(root, "samples") > 0);
    page_verdict_end(page);
}

static void put_chart(struct page *page, const struct json *advice)
{
    static const char *const parts[] = { "gain" };
    struct chart_bar bars[BARS_MAX];
    double values[BARS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < json_count(advice) && count < BARS_MAX; i++) {
        const struct json *one = json_at(advice, i);
        values[count] = number_of(one, "gain") * 100;
        if (values[count] > 0) {
            bars[count] = (struct chart_bar){ string_of(one, "change"), &values[count], values[count], number_of(one, "gain_low") * 100,
                                              number_of(one, "gain_high") * 100, NAN, truth(one, "worth_it") ? "" : "not worth it" };
            count++;
        }
    }
    chart_bars(page, "Gain in examples per second of each change alone", "%", parts, 1, bars, count);
}

static void put_table(struct page *page, const struct json *advice)
{
    static const struct page_column columns[] = { { "change", false, true }, { "gain", true, false }, { "gain low", true, false }, { "gain high", true, false },
                                                  { "step", true, false },   { "step low", true, false }, { "step high", true, false }, { "worth it", false, false },
                                                  { "share of GPU time", true, false }, { "memory", true, false }, { "worth a look when", false, true },
                                                  { "cost", false, true },   { "why not", false, true } };
    static const char *const gains[] = { "gain", "gain_low", "gain_high" }, *const steps[] = { "step_ms", "step_ms_low", "step_ms_high" };
    page_section(page, "advice", "Every change that was looked at");
    put_chart(page, advice);
    page_table_begin(page, "advice-table", "Priced by playing the step again with the change", columns, 13);
    for (size_t i = 0; i < json_count(advice); i++) {
        const struct json *one = json_at(advice, i);
        fputs(truth(one, "worth_it") ? "<tr class=key>" : "<tr>", page->out);
        page_cell(page, string_of(one, "change"), true);
        for (size_t k = 0; k < 3; k++) {
            fputs("<td class=n>", page->out);
            page_signed_percent(page, number_of(one, gains[k]));
            fputs("</td>", page->out);
        }
        for (size_t k = 0; k < 3; k++) {
            page_cell_number(page, number_of(one, steps[k]), 4, 1, k == 0 ? " ms" : "");
        }
        page_cell(page, truth(one, "worth_it") ? "yes" : "no", false);
        page_cell_number(page, number_of(one, "share"), 3, 100, "%");
        page_cell_number(page, number_of(one, "memory_gib_change"), 3, 1, " GiB");
        page_cell(page, string_of(one, "trigger"), true);
        page_cell(page, string_of(one, "cost"), true);
        page_cell(page, string_of(one, "refused"), true);
        page_row_end(page);
    }
    page_table_end(page);
}

void report_advise(struct page *page, const struct report_run *run)
{
    const struct json *root = document_at(page->document, 0);
    char title[400];
    snprintf(title, sizeof title, "What would make %.250s shorter on %s", string_of(root, "source"), string_of(root, "device"));
    page_begin(page, title, "");
    put_verdict(page, root);
    put_table(page, object_of(root, "advice"));
    report_samples(page, "the step, what is worth it and all of it together");
    report_assumptions(page);
    page_end(page, run);
}
