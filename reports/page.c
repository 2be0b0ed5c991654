#include "reports/page.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UPRIGHT_COLUMNS 14 /* a table of more, columns of text twice, is printed on pages laid across */
#define SHORT_TEXT 24 /* characters that a table keeps on one line */

extern const char page_css[], page_js[], uplot_js[], uplot_css[]; /* made by cmake/EmbedText.cmake */

#define INTERVAL_NOTE "Intervals hold 80% of the samples; a number without one rests on the profile's own values."

/* ---- numbers */

void number_text(double value, char *text, size_t capacity)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, capacity, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            return;
        }
    }
}

/* Significant digits without an exponent where a reader can do without. */
void rounded_text(double value, int digits, char *text, size_t capacity)
{
    double size = fabs(value);
    if (size == 0) {
        snprintf(text, capacity, "0");
    } else if (size >= 1e15 || size < 1e-5) {
        snprintf(text, capacity, "%.*e", digits - 1, value);
    } else {
        int before = (int)floor(log10(size)) + 1, decimals = digits - before;
        snprintf(text, capacity, "%.*f", decimals > 0 ? decimals : 0, value);
        if (decimals > 0 && fabs(strtod(text, NULL) - value) <= 1e-14 * size) { /* exact but for a sum's last bits: no zeros behind it */
            size_t length = strlen(text);
            while (text[length - 1] == '0') {
                text[--length] = '\0';
            }
            text[length - (text[length - 1] == '.')] = '\0';
        }
    }
    char *dot = strchr(text, '.');
    size_t length = dot != NULL ? (size_t)(dot - text) : strlen(text), first = text[0] == '-';
    if (strchr(text, 'e') == NULL && length - first > 4) { /* thin spaces would not sort or search: commas */
        char grouped[64];
        size_t at = 0;
        for (size_t i = 0; text[i] != '\0' && at < sizeof grouped - 2; i++) {
            if (i > first && i < length && (length - i) % 3 == 0) {
                grouped[at++] = ',';
            }
            grouped[at++] = text[i];
        }
        grouped[at] = '\0';
        snprintf(text, capacity, "%s", grouped);
    }
}

/* ---- text */

void page_escape(FILE *out, const char *text)
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

void page_text(struct page *page, const char *text)
{
    page_escape(page->out, text);
}

void page_strong(struct page *page, const char *text)
{
    fputs("<strong>", page->out);
    page_escape(page->out, text);
    fputs("</strong>", page->out);
}

void page_number(struct page *page, double value, int digits, double factor, const char *suffix)
{
    char full[40], shown[64];
    if (!isfinite(value)) {
        fputs("&ndash;", page->out);
        return;
    }
    number_text(value, full, sizeof full);
    rounded_text(value * factor, digits, shown, sizeof shown);
    fprintf(page->out, "<data value=\"%s\">%s", full, shown);
    page_escape(page->out, suffix);
    fputs("</data>", page->out);
}

void page_fixed(struct page *page, double value, int decimals, const char *suffix)
{
    char full[40];
    if (!isfinite(value)) {
        fputs("&ndash;", page->out);
        return;
    }
    number_text(value, full, sizeof full);
    fprintf(page->out, "<data value=\"%s\">%.*f%s</data>", full, decimals, value, suffix);
}

void page_signed_percent(struct page *page, double fraction)
{
    char full[40];
    if (!isfinite(fraction)) {
        fputs("&ndash;", page->out);
        return;
    }
    number_text(fraction, full, sizeof full);
    fprintf(page->out, "<data value=\"%s\">%+.1f%%</data>", full, fraction * 100);
}

void page_verdict_begin(struct page *page)
{
    fputs("<section class=verdict id=verdict aria-label=Verdict>\n", page->out);
}

void page_verdict_end(struct page *page)
{
    fputs("</section>\n", page->out);
}

void page_section(struct page *page, const char *id, const char *title)
{
    fprintf(page->out, "<h2 id=\"%s\">", id);
    page_escape(page->out, title);
    fputs("</h2>\n", page->out);
}

void page_subsection(struct page *page, const char *title)
{
    fputs("<h3>", page->out);
    page_escape(page->out, title);
    fputs("</h3>\n", page->out);
}

void page_paragraph_begin(struct page *page, const char *class_name)
{
    fprintf(page->out, class_name != NULL ? "<p class=\"%s\">" : "<p>", class_name);
}

void page_paragraph_end(struct page *page)
{
    fputs("</p>\n", page->out);
}

void page_notes(struct page *page, const struct json *notes, const char *prefix)
{
    for (size_t i = 0; notes != NULL && i < json_count(notes); i++) {
        fputs("<li>", page->out);
        page_escape(page->out, prefix);
        page_escape(page->out, json_kind_of(json_at(notes, i)) == JSON_STRING ? json_string(json_at(notes, i)) : "");
        fputs("</li>\n", page->out);
    }
}

/* ---- tables */

void page_table_begin_more(struct page *page, const char *id, const char *caption, const struct page_column *columns, size_t count,
                           const char *more_id)
{
    size_t widths = count;
    page->tables++;
    for (size_t i = 0; i < count; i++) {
        widths += columns[i].wide;
    }
    fprintf(page->out, "<div class=%s tabindex=0 role=region aria-label=\"", widths > UPRIGHT_COLUMNS ? "\"scroll across\"" : "scroll");
    page_escape(page->out, caption);
    fprintf(page->out, "\"><table class=sort id=\"%s\"", id);
    if (more_id != NULL) {
        fprintf(page->out, " data-more=\"%s\"%s", more_id, strcmp(more_id, "kernels-more") == 0 ? " data-rows=kernels" : "");
    }
    fputs("><caption><span>", page->out);
    page_escape(page->out, caption);
    fputs("</span></caption><thead><tr>", page->out);
    for (size_t i = 0; i < count; i++) {
        fprintf(page->out, "<th scope=col%s>", columns[i].number ? " class=n" : columns[i].wide ? " class=w" : "");
        page_escape(page->out, columns[i].title);
        fputs("</th>", page->out);
    }
    fputs("</tr></thead><tbody>\n", page->out);
}

void page_table_begin(struct page *page, const char *id, const char *caption, const struct page_column *columns, size_t count)
{
    page_table_begin_more(page, id, caption, columns, count, NULL);
}

void page_row_begin(struct page *page)
{
    fputs("<tr>", page->out);
}

void page_cell(struct page *page, const char *text, bool wide)
{
    fputs(wide ? "<td class=w>" : strlen(text) <= SHORT_TEXT ? "<td class=t>" : "<td>", page->out);
    for (const char *end = strpbrk(text, ";@"); wide && end != NULL; end = strpbrk(text, ";@")) { /* parameters break between themselves */
        for (; text <= end; text++) {
            page_escape(page->out, (const char[]){ *text, '\0' });
        }
        fputs("<wbr>", page->out);
    }
    page_escape(page->out, text);
    fputs("</td>", page->out);
}

void page_cell_number(struct page *page, double value, int digits, double factor, const char *suffix)
{
    fputs("<td class=n>", page->out);
    page_number(page, value, digits, factor, suffix);
    fputs("</td>", page->out);
}

void page_row_end(struct page *page)
{
    fputs("</tr>\n", page->out);
}

void page_table_end(struct page *page)
{
    fputs("</tbody></table></div>\n", page->out);
}

/* ---- JSON inside the page: "</" and "<!" cannot stand in a script element */

static void put_json_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<') {
            fputs("\\u003c", out);
        } else {
            fputc(*text, out);
        }
    }
}

void page_json_begin(struct page *page, const char *id)
{
    fprintf(page->out, "<script type=\"application/json\" id=\"%s\">", id);
}

void page_json_string(struct page *page, const char *text)
{
    struct json *array = json_new_array();
    json_append_string(array, text);
    char *printed = json_print(array, false);
    size_t length = strlen(printed);
    printed[length - 1] = '\0'; /* the closing bracket */
    put_json_text(page->out, printed + 1);
    free(printed);
    json_destroy(array);
}

void page_json_end(struct page *page)
{
    fputs("</script>\n", page->out);
}

static void put_json(struct page *page, const char *id, const struct json *value)
{
    char *text = json_print(value, false);
    page_json_begin(page, id);
    put_json_text(page->out, text);
    page_json_end(page);
    free(text);
}

/* ---- begin and end */

void page_begin(struct page *page, const char *title, const char *lead)
{
    fputs("<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=viewport content=\"width=device-width,initial-scale=1\">\n"
          "<meta http-equiv=Content-Security-Policy content=\"default-src 'none';style-src 'unsafe-inline';script-src 'unsafe-inline';img-src data:\">\n"
          "<link rel=icon href=\"data:,\">\n<title>",
          page->out);
    page_escape(page->out, title);
    fputs("</title>\n<style>\n", page->out);
    fputs(page_css, page->out);
    fputs("</style>\n", page->out);
    if (page->series) {
        fprintf(page->out, "<style>%s</style>\n", uplot_css);
    }
    fputs("</head>\n<body>\n<a class=skip href=\"#verdict\">To the verdict</a>\n<header><div><h1>", page->out);
    page_escape(page->out, title);
    fputs("</h1>", page->out);
    if (lead[0] != '\0') {
        fputs("<p class=soft>", page->out);
        page_escape(page->out, lead);
        fputs("</p>", page->out);
    }
    fputs("</div><button id=theme hidden>Light or dark</button></header>\n<main>\n", page->out);
}

static void put_profile(struct page *page, const struct json *profile, size_t index)
{
    static const struct page_column columns[] = { { "key", false, false },  { "value", true, false }, { "low", true, false },
                                                  { "high", true, false },  { "unit", false, false }, { "kind", false, false },
                                                  { "source", false, true } };
    const struct json *values = object_of(profile, "values");
    char id[40], name[160];
    snprintf(id, sizeof id, "profile%zu", index);
    snprintf(name, sizeof name, "Every value of %s and where it comes from", string_of(profile, "name"));
    fputs("<details><summary>", page->out);
    page_text(page, string_of(profile, "title"));
    fputs(": profile ", page->out);
    page_text(page, string_of(profile, "hash"));
    fputs("</summary>\n", page->out);
    page_table_begin(page, id, name, columns, sizeof columns / sizeof columns[0]);
    for (size_t s = 0; values != NULL && s < json_count(values); s++) {
        const struct json *section = json_at(values, s);
        for (size_t k = 0; k < json_count(section); k++) {
            const struct json *value = json_at(section, k);
            char key[128];
            snprintf(key, sizeof key, "%s.%s", json_key(section), json_key(value));
            page_row_begin(page);
            page_cell(page, key, false);
            if (isfinite(number_of(value, "value"))) {
                page_cell_number(page, number_of(value, "value"), 6, 1, "");
            } else {
                page_cell(page, string_of(value, "value"), false);
            }
            page_cell_number(page, number_of(value, "low"), 6, 1, "");
            page_cell_number(page, number_of(value, "high"), 6, 1, "");
            page_cell(page, string_of(value, "unit"), false);
            page_cell(page, string_of(value, "kind"), false);
            page_cell(page, string_of(value, "source"), true);
            page_row_end(page);
        }
    }
    page_table_end(page);
    fputs("</details>\n", page->out);
}

void page_end(struct page *page, const struct report_run *run)
{
    page_section(page, "made", "What this page rests on");
    page_paragraph_begin(page, NULL);
    page_text(page, INTERVAL_NOTE);
    page_paragraph_end(page);
    for (size_t i = 0; run->profiles != NULL && i < json_count(run->profiles); i++) {
        put_profile(page, json_at(run->profiles, i), i);
    }
    fputs("</main>\n<footer>", page->out);
    if (run->command[0] != '\0') {
        fputs("<p>Made by <code>", page->out);
        page_text(page, run->command);
        fputs("</code></p>", page->out);
    }
    fprintf(page->out, "<p>%s, seed %llu. Every number of this page is in the answer that it holds (element <code>answer</code>), as "
                       "<code>--json</code> prints it.</p></footer>\n",
            run->version, (unsigned long long)run->seed);
    put_json(page, "answer", page->document);
    if (run->profiles != NULL) {
        put_json(page, "profiles", run->profiles);
    }
    if (page->series) {
        fprintf(page->out, "<script>%s</script>\n", uplot_js);
    }
    fputs("<script>\n", page->out);
    fputs(page_js, page->out);
    fputs("</script>\n</body>\n</html>\n", page->out);
}

/* ---- reading answers */

double number_of(const struct json *object, const char *key)
{
    const struct json *value = object != NULL ? json_get(object, key) : NULL;
    return value != NULL && json_kind_of(value) == JSON_NUMBER ? json_number(value) : NAN;
}

const char *string_of(const struct json *object, const char *key)
{
    const struct json *value = object != NULL ? json_get(object, key) : NULL;
    return value != NULL && json_kind_of(value) == JSON_STRING ? json_string(value) : "";
}

const struct json *object_of(const struct json *object, const char *key)
{
    const struct json *value = object != NULL ? json_get(object, key) : NULL;
    return value != NULL && json_kind_of(value) >= JSON_ARRAY ? value : NULL;
}

size_t document_count(const struct json *document)
{
    return json_kind_of(document) == JSON_ARRAY ? json_count(document) : 1;
}

const struct json *document_at(const struct json *document, size_t index)
{
    return json_kind_of(document) == JSON_ARRAY ? json_at(document, index) : document;
}
