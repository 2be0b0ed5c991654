/* A page: one HTML file that needs nothing else. Escapes every text, keeps every number in full beside its rounded form
 * (<data value>), and ends with what made it. Style and script are reports/page/page.css and page.js; uPlot is inlined where a
 * page has zoomable series. Figures are in reports/chart.h. */
#ifndef REPORTS_PAGE_H
#define REPORTS_PAGE_H
#include "reports/report.h"
#include <stdio.h>

struct page {
    FILE *out;
    const struct json *document; /* embedded whole, as --json prints it */
    bool series;                 /* has zoomable series: uPlot is inlined */
    unsigned figures, tables;    /* so far: numbers their ids */
};

void page_begin(struct page *page, const char *title, const char *lead); /* lead may be "" */
/* Ends the page: assumptions are the caller's, before; here profiles, seed, command and the data. */
void page_end(struct page *page, const struct report_run *run);

/* ---- text. Everything is escaped. */
void page_escape(FILE *out, const char *text);
void page_verdict_begin(struct page *page);
void page_verdict_end(struct page *page);
void page_section(struct page *page, const char *id, const char *title);
void page_subsection(struct page *page, const char *title);
void page_paragraph_begin(struct page *page, const char *class_name); /* NULL: plain */
void page_paragraph_end(struct page *page);
void page_text(struct page *page, const char *text);
void page_strong(struct page *page, const char *text);
/* `digits` significant digits shown of value x factor, the full value kept; "-" for NaN. suffix may be "". */
void page_number(struct page *page, double value, int digits, double factor, const char *suffix);
void page_fixed(struct page *page, double value, int decimals, const char *suffix); /* ratios: 1.00x */
void page_signed_percent(struct page *page, double fraction); /* "+12.3%"; the fraction is kept */
void page_notes(struct page *page, const struct json *notes, const char *prefix); /* list items, each text once is the caller's care */

/* ---- tables: sortable and downloadable */
struct page_column {
    const char *title;
    bool number, wide;
};
void page_table_begin(struct page *page, const char *id, const char *caption, const struct page_column *columns, size_t count);
void page_row_begin(struct page *page);
void page_cell(struct page *page, const char *text, bool wide);
void page_cell_number(struct page *page, double value, int digits, double factor, const char *suffix);
void page_row_end(struct page *page);
/* more_id: id of a script element with further rows as JSON (page_more_begin), or NULL. */
void page_table_end(struct page *page);
void page_table_begin_more(struct page *page, const char *id, const char *caption, const struct page_column *columns, size_t count,
                           const char *more_id);
void page_json_begin(struct page *page, const char *id); /* <script type=application/json id=..> */
void page_json_string(struct page *page, const char *text);
void page_json_end(struct page *page);

/* The shortest decimal that reads back equal. */
void number_text(double value, char *text, size_t capacity);
void rounded_text(double value, int digits, char *text, size_t capacity);

/* ---- reading answers */
double number_of(const struct json *object, const char *key);           /* NAN when absent or no number */
const char *string_of(const struct json *object, const char *key);      /* "" when absent or no string */
const struct json *object_of(const struct json *object, const char *key); /* NULL when absent or null */
size_t document_count(const struct json *document);                     /* answers in an array, or 1 */
const struct json *document_at(const struct json *document, size_t index);

#endif
