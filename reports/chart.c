#include "reports/chart.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A figure is drawn twice, for a page and for a phone, and the style shows one: scaled down its text could not be read, and a box
 * that scrolls hides what its caption names. The phone's has no tooltips, since nothing hovers there. */
struct sheet {
    const char *class_name;
    double width;
    int ticks; /* of a linear axis, and decades written of a logarithmic one: about */
    bool narrow;
};
static const struct sheet sheets[] = { { "wide", 860, 5, false }, { "narrow", 360, 3, true } };
enum { SHEETS = sizeof sheets / sizeof sheets[0] };

static void figure_begin(struct page *page, const char *title)
{
    page->figures++;
    fputs("<figure>", page->out);
    page_subsection(page, title);
}

static void svg_begin(struct page *page, const struct sheet *sheet, const char *title, double height)
{
    fprintf(page->out, "<svg class=%s viewBox=\"0 0 %.0f %.0f\" role=img aria-label=\"", sheet->class_name, sheet->width, height);
    page_escape(page->out, title);
    fputs("\">\n", page->out);
}

static void svg_end(struct page *page)
{
    fputs("</svg>\n", page->out);
}

static void figure_end(struct page *page)
{
    fputs("</figure>\n", page->out);
}

static void put_tooltip(struct page *page, const struct sheet *sheet, const char *text)
{
    if (!sheet->narrow) {
        fputs("<title>", page->out);
        page_escape(page->out, text);
        fputs("</title>", page->out);
    }
}

static void put_label(struct page *page, double x, double y, const char *anchor, const char *class_name, const char *text)
{
    fprintf(page->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=%s%s%s>", x, y, anchor, class_name[0] != '\0' ? " class=" : "",
            class_name);
    page_escape(page->out, text);
    fputs("</text>", page->out);
}

void chart_legend(struct page *page, const char *const *names, size_t count)
{
    fputs("<ul class=legend>", page->out);
    for (size_t i = 0; i < count; i++) {
        fprintf(page->out, "<li><i class=k%zu></i>", i % CHART_COLOURS);
        page_escape(page->out, names[i]);
        fputs("</li>", page->out);
    }
    fputs("</ul>\n", page->out);
}

static void cut_text(const char *text, size_t most, char *cut, size_t capacity)
{
    snprintf(cut, capacity, "%s", text);
    if (strlen(cut) > most && most + 4 < capacity) {
        while (most > 0 && ((unsigned char)cut[most] & 0xC0) == 0x80) {
            most--; /* not inside a character */
        }
        strcpy(cut + most, "\xe2\x80\xa6");
    }
}

/* ---- axes */

struct axis {
    double low, high, from, to; /* of the data; in pixels */
    bool log;
    int ticks; /* as the sheet's */
};

static double place(const struct axis *axis, double value)
{
    double share = axis->log ? log(value / axis->low) / log(axis->high / axis->low) : (value - axis->low) / (axis->high - axis->low);
    return axis->from + share * (axis->to - axis->from);
}

static double nice_step(double span, int steps)
{
    double raw = span / steps, size = pow(10, floor(log10(raw))), lead = raw / size;
    return size * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

/* The k-th tick, or NAN behind the last. */
static double tick_at(const struct axis *axis, int k)
{
    double decades = axis->log ? log10(axis->high / axis->low) : 0;
    if (axis->log && decades < 0.44 * axis->ticks) { /* 1, 2, 5 */
        static const double leads[] = { 1, 2, 5 };
        int first = (int)floor(log10(axis->low) + 1e-9), seen = 0;
        for (int e = first; e < first + 6; e++) {
            for (int l = 0; l < 3; l++) {
                double value = leads[l] * pow(10, e);
                if (value >= axis->low * 0.999 && value <= axis->high * 1.001 && seen++ == k) {
                    return value;
                }
            }
        }
        return NAN;
    }
    double value = axis->log ? pow(10, ceil(log10(axis->low) - 1e-9) + k * fmax(1, ceil(decades / (axis->ticks + 3))))
                             : nice_step(axis->high - axis->low, axis->ticks) * (ceil(axis->low / nice_step(axis->high - axis->low, axis->ticks) - 1e-9) + k);
    return value <= axis->high * (1 + 1e-9) + (axis->log ? 0 : 1e-12) ? value : NAN;
}

static void tick_text(double value, char *text, size_t capacity)
{
    if (value != 0 && (fabs(value) >= 1e10 || fabs(value) < 1e-3)) {
        snprintf(text, capacity, "%.3g", value);
    } else {
        rounded_text(value, 3, text, capacity);
        if (strchr(text, '.') != NULL) { /* 0.500 as 0.5 */
            size_t length = strlen(text);
            while (text[length - 1] == '0') {
                text[--length] = '\0';
            }
            text[length - (text[length - 1] == '.')] = '\0';
        }
    }
}

static void put_x_ticks(struct page *page, const struct axis *x, double top, double bottom)
{
    double tick = 0;
    char text[40];
    for (int k = 0; k < 60 && isfinite(tick = tick_at(x, k)); k++) {
        fprintf(page->out, "<line class=grid x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", place(x, tick), top, place(x, tick), bottom);
        tick_text(tick, text, sizeof text);
        put_label(page, place(x, tick), bottom + 17, "middle", "soft", text);
    }
}

static void put_y_ticks(struct page *page, const struct axis *y, double left, double right)
{
    double tick = 0;
    char text[40];
    for (int k = 0; k < 60 && isfinite(tick = tick_at(y, k)); k++) {
        fprintf(page->out, "<line class=grid x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", left, place(y, tick), right, place(y, tick));
        tick_text(tick, text, sizeof text);
        put_label(page, left - 7, place(y, tick) + 4, "end", "soft", text);
    }
}

/* ---- bars */

#define BAR_HEIGHT 20.0

struct bar_place { /* label, bar and total in a row, or label and total above the bar */
    double left, right, pitch, bar_y, text_y;
};
static const struct bar_place bar_places[SHEETS] = { { 200, 200, 34, 0, 15 }, { 6, 14, 54, 24, 15 } };

static void put_total(struct page *page, const struct sheet *sheet, const char *unit, const struct chart_bar *bar, double end, double y)
{
    char text[160], number[48];
    rounded_text(bar->total, 4, number, sizeof number);
    snprintf(text, sizeof text, "%s %s%s%s", number, unit, bar->remark[0] != '\0' ? ", " : "", bar->remark);
    put_label(page, sheet->narrow ? sheet->width - 6 : end + 8, y, sheet->narrow ? "end" : "start", "", text);
}

static void put_bar(struct page *page, const struct sheet *sheet, const char *unit, const char *const *parts, size_t part_count,
                    const struct chart_bar *bar, const struct axis *x, double top)
{
    const struct bar_place *at = &bar_places[sheet->narrow];
    char text[160], cut[40], number[48];
    double sum = 0, y = top + at->bar_y;
    cut_text(bar->label, 24, cut, sizeof cut);
    put_label(page, sheet->narrow ? at->left : at->left - 8, top + at->text_y, sheet->narrow ? "start" : "end", "", cut);
    for (size_t p = 0; p < part_count; p++) {
        if (!(bar->parts[p] > 0)) {
            continue;
        }
        rounded_text(bar->parts[p], 4, number, sizeof number);
        snprintf(text, sizeof text, "%s, %s: %s %s", bar->label, parts[p], number, unit);
        fprintf(page->out, "<rect class=k%zu x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\">", p % CHART_COLOURS, place(x, sum), y,
                place(x, sum + bar->parts[p]) - place(x, sum), BAR_HEIGHT);
        put_tooltip(page, sheet, text);
        fputs("</rect>", page->out);
        sum += bar->parts[p];
    }
    if (isfinite(bar->low) && isfinite(bar->high) && bar->low < bar->high) {
        double middle = y + BAR_HEIGHT / 2;
        fprintf(page->out, "<path class=whisker d=\"M%.1f %.1fV%.1fM%.1f %.1fH%.1fM%.1f %.1fV%.1f\"/>", place(x, bar->low), middle - 6,
                middle + 6, place(x, bar->low), middle, place(x, bar->high), place(x, bar->high), middle - 6, middle + 6);
    }
    if (isfinite(bar->limit)) {
        fprintf(page->out, "<line class=limit x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", place(x, bar->limit), y - 5,
                place(x, bar->limit), y + BAR_HEIGHT + 5);
    }
    if (isfinite(bar->total)) {
        double end = fmax(fmax(sum, isfinite(bar->high) ? bar->high : 0), isfinite(bar->limit) ? bar->limit : 0);
        put_total(page, sheet, unit, bar, place(x, end), top + at->text_y);
    }
}

/* Where the longest bar, whisker or mark ends. */
static double bars_end(const struct chart_bar *bars, size_t bar_count, size_t part_count)
{
    double most = 0;
    for (size_t b = 0; b < bar_count; b++) {
        double sum = 0;
        for (size_t p = 0; p < part_count; p++) {
            sum += bars[b].parts[p] > 0 ? bars[b].parts[p] : 0;
        }
        most = fmax(most, fmax(sum, fmax(isfinite(bars[b].high) ? bars[b].high : 0, isfinite(bars[b].limit) ? bars[b].limit : 0)));
    }
    return most;
}

void chart_bars(struct page *page, const char *title, const char *unit, const char *const *parts, size_t part_count,
                const struct chart_bar *bars, size_t bar_count)
{
    double most = bars_end(bars, bar_count, part_count);
    if (!(most > 0)) {
        return;
    }
    figure_begin(page, title);
    if (part_count > 1) {
        chart_legend(page, parts, part_count);
    }
    for (size_t s = 0; s < SHEETS; s++) {
        const struct sheet *sheet = &sheets[s];
        const struct bar_place *at = &bar_places[s];
        struct axis x = { 0, most, at->left, sheet->width - at->right, false, sheet->ticks };
        double bottom = 8 + at->pitch * (double)bar_count;
        svg_begin(page, sheet, title, bottom + 40);
        put_x_ticks(page, &x, 0, bottom);
        for (size_t b = 0; b < bar_count; b++) {
            put_bar(page, sheet, unit, parts, part_count, &bars[b], &x, 8 + at->pitch * (double)b);
        }
        put_label(page, (at->left + sheet->width - at->right) / 2, bottom + 35, "middle", "soft", unit);
        svg_end(page);
    }
    figure_end(page);
}

/* ---- lines and points */

#define XY_TOP 12.0
#define XY_RIGHT 24.0

static const struct {
    double left, height;
} xy_places[SHEETS] = { { 92, 360 }, { 92, 260 } };

static void extend(struct axis *axis, double value)
{
    if (isfinite(value) && (!axis->log || value > 0)) {
        axis->low = fmin(axis->low, value);
        axis->high = fmax(axis->high, value);
    }
}

static bool settle(struct axis *axis)
{
    if (!(axis->low <= axis->high)) {
        return false;
    }
    if (axis->log) {
        axis->low /= 1.25;
        axis->high *= 1.25;
    } else {
        double margin = fmax((axis->high - axis->low) * 0.06, fabs(axis->high) * 1e-3 + 1e-12);
        axis->low = axis->low >= 0 && axis->low < 0.4 * axis->high ? 0 : axis->low - margin;
        axis->high += margin;
    }
    return true;
}

static bool drawable(const struct axis *x, const struct axis *y, double at, double value)
{
    return isfinite(at) && isfinite(value) && (!x->log || at > 0) && (!y->log || value > 0);
}

static void put_line(struct page *page, const struct sheet *sheet, const struct chart_line *line, const struct axis *x, const struct axis *y)
{
    char text[200];
    fprintf(page->out, "<polyline class=\"line s%u d%u\" points=\"", line->colour % CHART_COLOURS, line->dash % 5);
    for (size_t i = 0; i < line->count; i++) {
        if (drawable(x, y, line->x[i], line->y[i])) {
            fprintf(page->out, "%.1f,%.1f ", place(x, line->x[i]), place(y, line->y[i]));
        }
    }
    fputs("\"/>", page->out);
    for (size_t i = 0; i < line->count && line->marks; i++) {
        if (drawable(x, y, line->x[i], line->y[i])) {
            fprintf(page->out, "<circle class=k%u cx=\"%.1f\" cy=\"%.1f\" r=3>", line->colour % CHART_COLOURS, place(x, line->x[i]),
                    place(y, line->y[i]));
            snprintf(text, sizeof text, "%.150s: %.4g at %.4g", line->label != NULL ? line->label : "", line->y[i], line->x[i]);
            put_tooltip(page, sheet, text);
            fputs("</circle>", page->out);
        }
    }
    fputc('\n', page->out);
}

static void put_line_legend(struct page *page, const struct chart_line *lines, size_t count)
{
    fputs("<ul class=legend>", page->out);
    for (size_t i = 0; i < count; i++) {
        if (lines[i].label != NULL) {
            fprintf(page->out,
                    "<li><svg viewBox=\"0 0 30 10\" style=\"display:inline-block;width:30px;min-width:0;height:10px;margin-right:.35rem\" "
                    "aria-hidden=true><line class=\"line s%u d%u\" x1=0 y1=5 x2=30 y2=5 /></svg>",
                    lines[i].colour % CHART_COLOURS, lines[i].dash % 5);
            page_escape(page->out, lines[i].label);
            fputs("</li>", page->out);
        }
    }
    fputs("</ul>\n", page->out);
}

static void put_point(struct page *page, const struct sheet *sheet, const struct chart_point *point, const struct axis *x, const struct axis *y)
{
    if (!drawable(x, y, point->x, point->y)) {
        return;
    }
    fprintf(page->out, "<circle class=%c%u%s cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", point->ring ? 's' : 'k', point->colour % CHART_COLOURS,
            point->ring ? " style=\"fill:none;stroke-width:2\"" : " fill-opacity=.75", place(x, point->x), place(y, point->y), point->size);
    put_tooltip(page, sheet, point->label != NULL ? point->label : "");
    fputs("</circle>\n", page->out);
}

void chart_xy(struct page *page, const char *title, const struct chart_axes *axes, const struct chart_line *lines, size_t line_count,
              const struct chart_point *points, size_t point_count)
{
    struct axis x = { INFINITY, -INFINITY, 0, 0, axes->x_log, 0 }, y = { INFINITY, -INFINITY, 0, 0, axes->y_log, 0 };
    bool named = false;
    for (size_t i = 0; i < line_count; i++) {
        named = named || lines[i].label != NULL;
        for (size_t k = 0; k < lines[i].count; k++) {
            extend(&x, lines[i].x[k]);
            extend(&y, lines[i].y[k]);
        }
    }
    for (size_t i = 0; i < point_count; i++) {
        extend(&x, points[i].x);
        extend(&y, points[i].y);
    }
    if (!settle(&x) || !settle(&y)) {
        return;
    }
    figure_begin(page, title);
    if (named) {
        put_line_legend(page, lines, line_count);
    }
    for (size_t s = 0; s < SHEETS; s++) {
        const struct sheet *sheet = &sheets[s];
        double left = xy_places[s].left, right = sheet->width - XY_RIGHT, bottom = XY_TOP + xy_places[s].height;
        x.from = left;
        x.to = right;
        y.from = bottom;
        y.to = XY_TOP;
        x.ticks = sheet->ticks;
        y.ticks = sheets[0].ticks;
        svg_begin(page, sheet, title, bottom + 44);
        put_x_ticks(page, &x, XY_TOP, bottom);
        put_y_ticks(page, &y, left, right);
        for (size_t i = 0; i < line_count; i++) {
            put_line(page, sheet, &lines[i], &x, &y);
        }
        for (size_t i = 0; i < point_count; i++) {
            put_point(page, sheet, &points[i], &x, &y);
        }
        put_label(page, (left + right) / 2, bottom + 38, "middle", "soft", axes->x_label);
        fprintf(page->out, "<text transform=\"translate(14 %.0f) rotate(-90)\" text-anchor=middle class=soft>", (XY_TOP + bottom) / 2);
        page_escape(page->out, axes->y_label);
        fputs("</text>", page->out);
        svg_end(page);
    }
    figure_end(page);
}

/* ---- swings */

#define SWING_HEIGHT 18.0

static const struct bar_place swing_places[SHEETS] = { { 310, 40, 28, 0, 14 }, { 6, 14, 46, 20, 14 } };

static void put_swing(struct page *page, const struct sheet *sheet, const char *unit, const struct chart_swing *swing, const struct axis *x,
                      double middle, double top)
{
    const struct bar_place *at = &swing_places[sheet->narrow];
    const double ends[2] = { swing->low, swing->high };
    static const char *const names[2] = { "low", "high" };
    char cut[80], text[200];
    cut_text(swing->label, sheet->narrow ? 48 : 38, cut, sizeof cut);
    put_label(page, sheet->narrow ? at->left : at->left - 8, top + at->text_y, sheet->narrow ? "start" : "end", "", cut);
    for (unsigned e = 0; e < 2; e++) {
        double end = place(x, ends[e]);
        fprintf(page->out, "<rect class=k%u x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\">", e, fmin(end, middle), top + at->bar_y,
                fabs(end - middle), SWING_HEIGHT);
        snprintf(text, sizeof text, "%s at its %s end: %.5g %s", swing->label, names[e], ends[e], unit);
        put_tooltip(page, sheet, text);
        fputs("</rect>", page->out);
    }
    fputc('\n', page->out);
}

void chart_swings(struct page *page, const char *title, const char *unit, double base, const struct chart_swing *swings, size_t count)
{
    struct axis x = { base, base, 0, 0, false, 0 };
    for (size_t i = 0; i < count; i++) {
        extend(&x, swings[i].low);
        extend(&x, swings[i].high);
    }
    if (count == 0 || !(x.high > x.low)) {
        return;
    }
    x.low -= (x.high - x.low) * 0.05;
    x.high += (x.high - x.low) * 0.05;
    figure_begin(page, title);
    for (size_t s = 0; s < SHEETS; s++) {
        const struct sheet *sheet = &sheets[s];
        const struct bar_place *at = &swing_places[s];
        double bottom = 8 + at->pitch * (double)count;
        x.from = at->left;
        x.to = sheet->width - at->right;
        x.ticks = sheet->ticks;
        svg_begin(page, sheet, title, bottom + 40);
        put_x_ticks(page, &x, 0, bottom);
        for (size_t i = 0; i < count; i++) {
            put_swing(page, sheet, unit, &swings[i], &x, place(&x, base), 8 + at->pitch * (double)i);
        }
        fprintf(page->out, "<line class=axis x1=\"%.1f\" y1=0 x2=\"%.1f\" y2=\"%.1f\"/>", place(&x, base), place(&x, base), bottom);
        put_label(page, (at->left + sheet->width - at->right) / 2, bottom + 35, "middle", "soft", unit);
        svg_end(page);
    }
    figure_end(page);
}

/* ---- timeline */

#define LANE_PITCH 24.0
#define LANE_WIDTH 2000.0
#define LANES_MAX 40
#define THIN (1.0 / 3000) /* of the step: spans below this that touch are drawn as one */

/* Of a category: its place in the page's list; what the host does comes in three behind them. */
static unsigned category_colour(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return (unsigned)(i % CHART_COLOURS);
        }
    }
    return strcmp(name, "host operator") == 0 ? CHART_COLOURS + 2 : strcmp(name, "host waits") == 0 ? CHART_COLOURS + 1 : CHART_COLOURS;
}

struct drawn { /* spans of a lane gathered into one rectangle */
    double start, end;
    size_t count;
    unsigned colour;
    const char *name;
};

static void put_drawn(struct page *page, const struct drawn *drawn, double whole, double lane)
{
    if (drawn->count == 0) {
        return;
    }
    fprintf(page->out, "<rect class=k%u x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=18><title>", drawn->colour,
            drawn->start / whole * LANE_WIDTH, lane * LANE_PITCH + 3, fmax((drawn->end - drawn->start) / whole * LANE_WIDTH, 0.4));
    page_escape(page->out, drawn->name);
    if (drawn->count > 1) {
        fprintf(page->out, " and %zu more", drawn->count - 1);
    }
    fprintf(page->out, ": %.1f us from %.1f us</title></rect>", drawn->end - drawn->start, drawn->start);
}

static void put_lane(struct page *page, const struct json *timeline, const struct json *lane, size_t index, double start, double whole,
                     const char *const *colours, size_t colour_count)
{
    const struct json *names = object_of(timeline, "names"), *categories = object_of(timeline, "categories");
    const struct json *spans = object_of(lane, "spans");
    struct drawn drawn = { 0 };
    for (size_t i = 0; spans != NULL && i < json_count(spans); i++) {
        const struct json *span = json_at(spans, i);
        double from = json_number(json_at(span, 0)) - start, to = from + json_number(json_at(span, 1));
        if (to <= 0) {
            continue; /* before the window: see window_start */
        }
        from = fmax(from, 0);
        const char *name = json_string(json_at(names, (size_t)json_number(json_at(span, 2))));
        unsigned colour = category_colour(colours, colour_count, json_string(json_at(categories, (size_t)json_number(json_at(span, 3)))));
        bool joins = drawn.count > 0 && colour == drawn.colour && from - drawn.end < whole * THIN && to - from < whole * THIN &&
                     drawn.end - drawn.start < whole * THIN * 4;
        if (!joins) {
            put_drawn(page, &drawn, whole, (double)index);
            drawn = (struct drawn){ from, to, 0, colour, name };
        }
        drawn.end = fmax(drawn.end, to);
        drawn.count++;
    }
    put_drawn(page, &drawn, whole, (double)index);
    fputc('\n', page->out);
}

/* A host runs ahead of a busy device by many times the step: the window begins a little before the device does. */
static double window_start(const struct json *timeline)
{
    const struct json *lanes = object_of(timeline, "lanes");
    double first = INFINITY, end = number_of(timeline, "end_us");
    for (size_t l = 0; lanes != NULL && l < json_count(lanes); l++) {
        const struct json *spans = object_of(json_at(lanes, l), "spans");
        if (strcmp(string_of(json_at(lanes, l), "kind"), "host") != 0 && spans != NULL && json_count(spans) > 0) {
            first = fmin(first, json_number(json_at(json_at(spans, 0), 0)));
        }
    }
    return isfinite(first) ? fmax(number_of(timeline, "start_us"), first - 0.05 * (end - first)) : number_of(timeline, "start_us");
}

void chart_timeline(struct page *page, const struct json *timeline, const char *device, const char *const *names, size_t name_count)
{
    const struct json *lanes = object_of(timeline, "lanes"), *categories = object_of(timeline, "categories");
    double start = window_start(timeline), whole = number_of(timeline, "end_us") - start;
    size_t count = lanes != NULL ? json_count(lanes) : 0;
    char title[120];
    if (count == 0 || !(whole > 0)) {
        return;
    }
    count = count > LANES_MAX ? LANES_MAX : count;
    snprintf(title, sizeof title, "One step on %s", device);
    figure_begin(page, title);
    fputs("<ul class=legend>", page->out);
    for (size_t i = 0; i < json_count(categories); i++) {
        fprintf(page->out, "<li><i class=k%u></i>", category_colour(names, name_count, json_string(json_at(categories, i))));
        page_escape(page->out, json_string(json_at(categories, i)));
        fputs("</li>", page->out);
    }
    fputs("</ul>\n<div class=lanes><ol aria-hidden=true>", page->out);
    for (size_t i = 0; i < count; i++) {
        fputs("<li>", page->out);
        page_escape(page->out, string_of(json_at(lanes, i), "name"));
        fputs("</li>", page->out);
    }
    fputs("</ol><div class=scroll tabindex=0 role=region aria-label=\"", page->out);
    page_escape(page->out, title);
    fprintf(page->out, "; plus and minus zoom\"><svg viewBox=\"0 0 %.0f %.0f\" preserveAspectRatio=none height=\"%.0f\" style=\"height:%.0fpx\" role=img aria-label=\"",
            LANE_WIDTH, LANE_PITCH * (double)count, LANE_PITCH * (double)count, LANE_PITCH * (double)count);
    page_escape(page->out, title);
    fputs("\">\n", page->out);
    double step = nice_step(whole, 10);
    for (double at = step; at < whole; at += step) {
        fprintf(page->out, "<line class=grid vector-effect=non-scaling-stroke x1=\"%.1f\" y1=0 x2=\"%.1f\" y2=\"%.0f\"><title>%.4g us</title></line>", at / whole * LANE_WIDTH,
                at / whole * LANE_WIDTH, LANE_PITCH * (double)count, at);
    }
    for (size_t i = 0; i < count; i++) {
        put_lane(page, timeline, json_at(lanes, i), i, start, whole, names, name_count);
    }
    char text[40];
    tick_text(step, text, sizeof text);
    fprintf(page->out, "</svg></div></div><figcaption>A vertical line every <span class=tick>%s us</span>. Lanes: streams of the GPU and the host's calls; spans in "
                       "touch that are too narrow to see are drawn as one.",
            text);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(string_of(json_at(lanes, i), "kind"), "exposed") == 0) {
            fputs(" Exposed: communication that no kernel runs beside.", page->out);
            break;
        }
    }
    if (start > number_of(timeline, "start_us")) {
        fputs(" The host is ahead of the device: calls of this step that it made earlier are left out (the trace of --perfetto has them).", page->out);
    }
    if (count < json_count(lanes)) {
        fprintf(page->out, " Of %zu lanes the first %zu are drawn; the trace of --perfetto has all.", json_count(lanes), count);
    }
    fputs("</figcaption></figure>\n", page->out);
}
