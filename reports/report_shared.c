/* What several pages show alike: ratios, assumptions, doubt. */
#include "reports/report_internal.h"
#include <math.h>
#include <string.h>

void report_ratio(struct page *page, const struct json *answer)
{
    const struct json *ratio = object_of(object_of(answer, "uncertainty"), "ratio_to_first");
    if (ratio == NULL) {
        page_fixed(page, number_of(answer, "time_to_first"), 2, "x");
        return;
    }
    page_fixed(page, number_of(ratio, "median"), 2, "x");
    page_text(page, " [");
    page_fixed(page, number_of(ratio, "low"), 2, "");
    page_text(page, ", ");
    page_fixed(page, number_of(ratio, "high"), 2, "");
    page_text(page, "]");
}

void report_interval(struct page *page, double low, double high)
{
    if (isfinite(low) && isfinite(high) && low < high) {
        page_text(page, " [");
        page_number(page, low, 4, 1, "");
        page_text(page, ", ");
        page_number(page, high, 4, 1, "");
        page_text(page, "]");
    }
}

void report_short_name(const char *name, char *text, size_t capacity)
{
    const char *start = strncmp(name, "void ", 5) == 0 ? name + 5 : name;
    static const char unnamed[] = "(anonymous namespace)::";
    for (const char *at = strstr(start, unnamed); at != NULL && at < start + strcspn(start, "<"); at = strstr(start, unnamed)) {
        start = at + sizeof unnamed - 1;
    }
    size_t length = strcspn(start, "<(");
    for (size_t i = length; i > 0; i--) {
        if (start[i - 1] == ':') {
            start += i;
            length -= i;
            break;
        }
    }
    if (length == 0) { /* begins with a bracket */
        start = name;
        length = strlen(name);
    }
    snprintf(text, capacity, "%.*s", (int)length, start);
}

static bool has_note(const struct json *answer, const char *text)
{
    const struct json *notes = object_of(answer, "notes");
    for (size_t i = 0; notes != NULL && i < json_count(notes); i++) {
        if (json_kind_of(json_at(notes, i)) == JSON_STRING && strcmp(json_string(json_at(notes, i)), text) == 0) {
            return true;
        }
    }
    return false;
}

/* Does the text of the list's entry `n` stand before it too? */
static bool is_before(const struct json *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(json_string(json_at(list, i)), json_string(json_at(list, n))) == 0) {
            return true;
        }
    }
    return false;
}

/* A note once: plain when every answer has it, else behind the devices that do. */
static void put_note(struct page *page, size_t first, const char *text)
{
    size_t count = document_count(page->document), with = 0;
    for (size_t i = 0; i < count; i++) {
        if (has_note(document_at(page->document, i), text)) {
            if (i < first) {
                return;
            }
            with++;
        }
    }
    fputs("<li>", page->out);
    for (size_t i = 0, named = 0; with < count && i < count; i++) {
        if (has_note(document_at(page->document, i), text)) {
            page_text(page, named++ > 0 ? ", " : "");
            page_strong(page, string_of(document_at(page->document, i), "device"));
        }
    }
    page_text(page, with < count ? ": " : "");
    page_text(page, text);
    fputs("</li>\n", page->out);
}

static void put_basis(struct page *page, const struct json *answer)
{
    const struct json *basis = object_of(answer, "basis");
    if (basis == NULL) {
        return;
    }
    page_paragraph_begin(page, NULL);
    page_strong(page, string_of(answer, "device"));
    page_text(page, " rests on ");
    for (size_t i = 0; i < json_count(basis); i++) {
        page_text(page, i == 0 ? "" : i + 1 == json_count(basis) ? " and " : ", ");
        page_number(page, json_number(json_at(basis, i)), 6, 1, " ");
        page_text(page, json_key(json_at(basis, i)));
    }
    page_text(page, " values");
    if (string_of(answer, "node")[0] != '\0') {
        page_text(page, " (node ");
        page_text(page, string_of(answer, "node"));
        if (string_of(answer, "host")[0] != '\0') {
            page_text(page, ", host ");
            page_text(page, string_of(answer, "host"));
        }
        page_text(page, ")");
    }
    page_text(page, ".");
    page_paragraph_end(page);
}

void report_assumptions(struct page *page)
{
    bool any = false;
    for (size_t i = 0; i < document_count(page->document) && !any; i++) {
        const struct json *notes = object_of(document_at(page->document, i), "notes");
        any = object_of(document_at(page->document, i), "basis") != NULL || (notes != NULL && json_count(notes) > 0);
    }
    if (!any) {
        return;
    }
    page_section(page, "assumed", "What is assumed, left out or odd");
    for (size_t i = 0; i < document_count(page->document); i++) {
        put_basis(page, document_at(page->document, i));
    }
    fputs("<ul class=notes>\n", page->out);
    for (size_t i = 0; i < document_count(page->document); i++) {
        const struct json *notes = object_of(document_at(page->document, i), "notes");
        for (size_t n = 0; notes != NULL && n < json_count(notes); n++) {
            if (!is_before(notes, n)) {
                put_note(page, i, json_string(json_at(notes, n)));
            }
        }
    }
    fputs("</ul>\n", page->out);
}

void report_ask_samples(struct page *page, bool has_interval)
{
    if (!has_interval) {
        page_paragraph_begin(page, "soft");
        page_text(page, "No interval was asked for: --uncertainty 64 gives one.");
        page_paragraph_end(page);
    }
}

void report_samples(struct page *page, const char *of_what)
{
    double samples = number_of(document_at(page->document, 0), "samples");
    page_section(page, "doubt", "How sure this is");
    page_paragraph_begin(page, NULL);
    if (samples > 0) {
        page_number(page, samples, 5, 1, " samples of what nobody measured and of the model's own error: ");
        page_text(page, of_what);
        page_text(page, " carry their median and 80% interval. predict --uncertainty ranks the values that drive one.");
    } else {
        page_text(page, "No samples were asked for: these are answers at the profiles' own values. With --uncertainty 32, ");
        page_text(page, of_what);
        page_text(page, " carry their median and 80% interval.");
    }
    page_paragraph_end(page);
}

static void put_drivers(struct page *page, const struct json *interval, const char *device, const char *what)
{
    const struct json *drivers = object_of(interval, "drivers");
    for (size_t i = 0; drivers != NULL && i < json_count(drivers); i++) {
        const struct json *driver = json_at(drivers, i);
        page_row_begin(page);
        page_cell(page, device, false);
        page_cell(page, what, false);
        page_cell(page, string_of(driver, "key"), true);
        page_cell(page, string_of(driver, "kind"), false);
        page_cell_number(page, number_of(driver, "share"), 3, 100, "%");
        fputs("<td class=n>", page->out);
        page_signed_percent(page, number_of(driver, "effect"));
        fputs("</td>", page->out);
        page_row_end(page);
    }
}

static bool has_drivers(const struct json *document)
{
    for (size_t i = 0; i < document_count(document); i++) {
        const struct json *doubt = object_of(document_at(document, i), "uncertainty");
        const struct json *of_time = object_of(doubt, "drivers"), *of_ratio = object_of(object_of(doubt, "ratio_to_first"), "drivers");
        if ((of_time != NULL && json_count(of_time) > 0) || (of_ratio != NULL && json_count(of_ratio) > 0)) {
            return true;
        }
    }
    return false;
}

void report_doubts(struct page *page, const char *unit)
{
    static const struct page_column columns[] = { { "device", false, false }, { "of", false, false },   { "value", false, true },
                                                  { "kind", false, false },   { "share of the variance", true, false },
                                                  { "effect over its range", true, false } };
    const struct json *first = object_of(document_at(page->document, 0), "uncertainty");
    page_section(page, "doubt", "How sure this is, and what drives the doubt");
    if (first == NULL) {
        page_paragraph_begin(page, NULL);
        bool bounded = number_of(document_at(page->document, 0), "time_us_low") < number_of(document_at(page->document, 0), "time_us_high");
        page_text(page, bounded ? "The interval is of each uncertain number of the node at the ends of its range, one at a time, joined as the root of the squares. " : "");
        page_text(page, "No samples were asked for: these are answers at the profiles' own values. --uncertainty 64 gives every answer its "
                        "median, its 80% interval and the values that drive it.");
        page_paragraph_end(page);
        return;
    }
    for (size_t i = 0; i < document_count(page->document); i++) {
        const struct json *answer = document_at(page->document, i), *doubt = object_of(answer, "uncertainty");
        page_paragraph_begin(page, NULL);
        page_strong(page, string_of(answer, "device"));
        page_text(page, ": ");
        page_number(page, number_of(doubt, "median"), 4, 1, " ");
        page_text(page, unit);
        page_text(page, " [");
        page_number(page, number_of(doubt, "low"), 4, 1, "");
        page_text(page, ", ");
        page_number(page, number_of(doubt, "high"), 4, 1, "");
        page_text(page, "], ");
        page_number(page, number_of(doubt, "nominal"), 4, 1, " ");
        page_text(page, unit);
        page_text(page, " at the profile's own values; ");
        page_number(page, number_of(doubt, "samples"), 5, 1, "");
        page_text(page, " samples of ");
        page_number(page, number_of(doubt, "values"), 5, 1, "");
        page_text(page, " unknowns.");
        page_paragraph_end(page);
    }
    if (!has_drivers(page->document)) {
        page_paragraph_begin(page, NULL);
        page_text(page, "No single unknown stands out among so few samples.");
        page_paragraph_end(page);
        return;
    }
    page_table_begin(page, "drivers", "Unknowns that stand out", columns, 6);
    for (size_t i = 0; i < document_count(page->document); i++) {
        const struct json *answer = document_at(page->document, i), *doubt = object_of(answer, "uncertainty");
        char against[64];
        put_drivers(page, doubt, string_of(answer, "device"), "time");
        snprintf(against, sizeof against, "time over %s", string_of(document_at(page->document, 0), "device"));
        put_drivers(page, object_of(doubt, "ratio_to_first"), string_of(answer, "device"), against);
    }
    page_table_end(page);
}
