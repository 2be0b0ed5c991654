/* What changed between two answers. */
#include "reports/report_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_WRITTEN 200
#define BARS_MAX 16

static void put_pair(struct page *page, const struct json *pair)
{
    const char *a = string_of(pair, "a"), *b = string_of(pair, "b"), *figure = string_of(pair, "figure"),
               *intervals = string_of(pair, "intervals");
    page_paragraph_begin(page, NULL);
    page_strong(page, a);
    if (strcmp(a, b) != 0) {
        page_text(page, " against ");
        page_strong(page, b);
    }
    if (figure[0] == '\0') {
        page_text(page, a[0] != '\0' ? ": no single figure to compare." : "No single figure to compare.");
    } else {
        page_text(page, a[0] != '\0' ? ": " : "");
        page_text(page, figure);
        page_text(page, " went from ");
        page_number(page, number_of(pair, "a_value"), 4, 1, "");
        page_text(page, " to ");
        page_number(page, number_of(pair, "b_value"), 4, 1, "");
        page_text(page, " (");
        page_signed_percent(page, number_of(pair, "change"));
        page_text(page, ")");
        page_text(page, strcmp(intervals, "outside") == 0  ? ", outside the intervals of the two: a change that the doubt does not explain."
                        : strcmp(intervals, "inside") == 0 ? ", inside the intervals of the two: the doubt could explain it."
                                                           : "; neither answer has intervals (--uncertainty N gives them).");
    }
    page_paragraph_end(page);
}

static void put_change(struct page *page, const struct json *change)
{
    page_row_begin(page);
    page_cell(page, string_of(change, "device"), false);
    page_cell(page, string_of(change, "path"), true);
    page_cell_number(page, number_of(change, "a"), 5, 1, "");
    page_cell_number(page, number_of(change, "b"), 5, 1, "");
    fputs("<td class=n>", page->out);
    page_signed_percent(page, number_of(change, "change"));
    fputs("</td>", page->out);
    page_cell(page, string_of(change, "intervals"), false);
    page_row_end(page);
}

/* Rows behind the first, for the script to show on demand. */
static void put_more(struct page *page, const struct json *changes)
{
    char full[40], shown[64];
    page_json_begin(page, "changes-more");
    fputc('[', page->out);
    for (size_t i = ROWS_WRITTEN; i < json_count(changes); i++) {
        const struct json *change = json_at(changes, i);
        const double values[] = { number_of(change, "a"), number_of(change, "b") };
        fputs(i > ROWS_WRITTEN ? ",[" : "[", page->out);
        page_json_string(page, string_of(change, "device"));
        fputc(',', page->out);
        page_json_string(page, string_of(change, "path"));
        for (size_t k = 0; k < 2; k++) {
            number_text(values[k], full, sizeof full);
            rounded_text(values[k], 5, shown, sizeof shown);
            fprintf(page->out, ",[%s,\"%s\"]", full, shown);
        }
        double ratio = number_of(change, "change");
        number_text(ratio, full, sizeof full);
        if (isfinite(ratio)) {
            fprintf(page->out, ",[%s,\"%+.1f%%\"],", full, ratio * 100);
        } else {
            fputs(",null,", page->out);
        }
        page_json_string(page, string_of(change, "intervals"));
        fputc(']', page->out);
    }
    fputc(']', page->out);
    page_json_end(page);
}

static void put_changes(struct page *page, const struct json *changes)
{
    static const struct page_column columns[] = { { "device", false, false }, { "what", false, true },  { "A", true, false },
                                                  { "B", true, false },       { "change", true, false }, { "intervals", false, false } };
    bool more = json_count(changes) > ROWS_WRITTEN;
    page_section(page, "numbers", "Numbers that changed");
    if (json_count(changes) == 0) {
        page_paragraph_begin(page, NULL);
        page_text(page, "None.");
        page_paragraph_end(page);
        return;
    }
    page_table_begin_more(page, "changes", "Figures of the whole answer first, then times of its parts by what they moved, then the rest by how much it changed", columns, 6,
                          more ? "changes-more" : NULL);
    for (size_t i = 0; i < json_count(changes) && i < ROWS_WRITTEN; i++) {
        put_change(page, json_at(changes, i));
    }
    page_table_end(page);
    if (more) {
        put_more(page, changes);
    }
}

static void put_words(struct page *page, const struct json *words)
{
    static const struct page_column columns[] = { { "device", false, false }, { "what", false, true }, { "A", false, true }, { "B", false, true } };
    if (json_count(words) == 0) {
        return;
    }
    page_section(page, "words", "Words that changed");
    page_table_begin(page, "words-table", "Limiters, modes, names and the like", columns, 4);
    for (size_t i = 0; i < json_count(words); i++) {
        const struct json *word = json_at(words, i);
        page_row_begin(page);
        page_cell(page, string_of(word, "device"), false);
        page_cell(page, string_of(word, "path"), true);
        page_cell(page, string_of(word, "a"), true);
        page_cell(page, string_of(word, "b"), true);
        page_row_end(page);
    }
    page_table_end(page);
}

static void put_entries(struct page *page, const struct json *entries, const char *id, const char *title)
{
    static const struct page_column columns[] = { { "device", false, false }, { "list", false, false }, { "entry", false, true } };
    if (json_count(entries) == 0) {
        return;
    }
    page_section(page, id, title);
    page_table_begin(page, id, title, columns, 3);
    for (size_t i = 0; i < json_count(entries); i++) {
        page_row_begin(page);
        page_cell(page, string_of(json_at(entries, i), "device"), false);
        page_cell(page, string_of(json_at(entries, i), "path"), false);
        page_cell(page, string_of(json_at(entries, i), "entry"), true);
        page_row_end(page);
    }
    page_table_end(page);
}

void report_compare(struct page *page, const struct report_run *run)
{
    const struct json *document = document_at(page->document, 0), *answers = object_of(document, "answers");
    char title[600], lead[120];
    snprintf(title, sizeof title, "%.250s \xe2\x86\x92 %.250s", string_of(document, "a"), string_of(document, "b"));
    snprintf(lead, sizeof lead, "Two answers of %s: what changed, by how much, and whether the doubt explains it.", string_of(document, "of"));
    page_begin(page, title, lead);
    page_verdict_begin(page);
    for (size_t i = 0; i < json_count(answers); i++) {
        put_pair(page, json_at(answers, i));
    }
    page_paragraph_begin(page, NULL);
    page_number(page, number_of(document, "same"), 9, 1, "");
    page_text(page, " numbers and words are the same in both.");
    page_paragraph_end(page);
    page_verdict_end(page);
    put_changes(page, object_of(document, "changes"));
    put_words(page, object_of(document, "words"));
    put_entries(page, object_of(document, "appeared"), "appeared", "Entries that only B has");
    put_entries(page, object_of(document, "vanished"), "vanished", "Entries that only A has");
    page_end(page, run);
}
