/* One collective on a node or a cluster. */
#include "reports/report_internal.h"
#include <math.h>
#include <string.h>

static void put_verdict(struct page *page, const struct json *answer)
{
    page_verdict_begin(page);
    page_paragraph_begin(page, NULL);
    page_strong(page, string_of(answer, "kind"));
    page_text(page, " takes ");
    page_number(page, number_of(answer, "time_us"), 4, 1, " us");
    if (isfinite(number_of(answer, "time_us_low"))) {
        page_text(page, " [");
        page_number(page, number_of(answer, "time_us_low"), 4, 1, "");
        page_text(page, ", ");
        page_number(page, number_of(answer, "time_us_high"), 4, 1, "");
        page_text(page, "]");
    }
    page_text(page, " among ");
    page_number(page, number_of(answer, "gpus"), 6, 1, " GPUs");
    page_text(page, ", a bus bandwidth of ");
    page_number(page, number_of(answer, "busbw_gbs"), 4, 1, " GB/s");
    page_text(page, "; held by ");
    page_text(page, string_of(answer, "limiter"));
    page_text(page, ". The bytes alone at usable link rates would take ");
    page_number(page, number_of(answer, "bound_us"), 4, 1, " us");
    page_text(page, ".");
    page_paragraph_end(page);
    page_verdict_end(page);
}

/* Every number and word of `object`, as a table; lists and objects apart. */
static void put_members(struct page *page, const struct json *object, const char *id, const char *caption)
{
    static const struct page_column columns[] = { { "what", false, false }, { "value", true, false } };
    page_table_begin(page, id, caption, columns, 2);
    for (size_t i = 0; i < json_count(object); i++) {
        const struct json *member = json_at(object, i);
        if (json_kind_of(member) == JSON_NUMBER) {
            page_row_begin(page);
            page_cell(page, json_key(member), false);
            page_cell_number(page, json_number(member), 6, 1, "");
            page_row_end(page);
        } else if (json_kind_of(member) == JSON_STRING) {
            page_row_begin(page);
            page_cell(page, json_key(member), false);
            fputs("<td class=n>", page->out);
            page_text(page, json_string(member));
            fputs("</td>", page->out);
            page_row_end(page);
        }
    }
    page_table_end(page);
}

static void put_fixes(struct page *page, const struct json *fixes)
{
    static const struct page_column columns[] = { { "fix", false, false },  { "before", true, false },      { "after", true, false },
                                                  { "gain", true, false }, { "units before", true, false }, { "units after", true, false } };
    if (fixes == NULL || json_count(fixes) == 0) {
        return;
    }
    page_section(page, "fixes", "What a change would give");
    page_table_begin(page, "fixes-table", "Each change alone", columns, 6);
    for (size_t i = 0; i < json_count(fixes); i++) {
        const struct json *fix = json_at(fixes, i);
        page_row_begin(page);
        page_cell(page, string_of(fix, "fix"), false);
        page_cell_number(page, number_of(fix, "before_us"), 4, 1, " us");
        page_cell_number(page, number_of(fix, "after_us"), 4, 1, " us");
        page_cell_number(page, number_of(fix, "gain"), 3, 1, "x");
        page_cell_number(page, number_of(fix, "before_units"), 3, 1, "");
        page_cell_number(page, number_of(fix, "after_units"), 3, 1, "");
        page_row_end(page);
    }
    page_table_end(page);
}

void report_collective(struct page *page, const struct report_run *run)
{
    const struct json *answer = document_at(page->document, 0), *links = object_of(answer, "links");
    static const char *const parts[] = { "time" };
    char title[160];
    snprintf(title, sizeof title, "%s on %s", string_of(answer, "kind"), string_of(answer, "node"));
    page_begin(page, title, "");
    put_verdict(page, answer);
    double time = number_of(answer, "time_us"), bound = number_of(answer, "bound_us"), wire = number_of(answer, "transfer_us"),
           latency = number_of(answer, "latency_us");
    struct chart_bar bars[] = {
        { "predicted", &time, time, number_of(answer, "time_us_low"), number_of(answer, "time_us_high"), NAN, "" },
        { "transfer", &wire, wire, NAN, NAN, NAN, "" },
        { "launch and steps", &latency, latency, NAN, NAN, NAN, "may overlap" },
        { "bytes alone", &bound, bound, NAN, NAN, NAN, "" },
    };
    page_section(page, "time", "Time");
    chart_bars(page, "Time and its bound", "us", parts, 1, bars, 4);
    put_members(page, answer, "figures-table", "Figures");
    put_fixes(page, object_of(answer, "fixes"));
    if (links != NULL) {
        page_section(page, "links", "Links");
        put_members(page, links, "links-table", "One way, GB/s");
    }
    report_doubts(page, "us");
    page_end(page, run);
}
