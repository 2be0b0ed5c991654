/* Figures of a page, as SVG: colours are the page's (style k0..k10, s0..s10, k11..k13 for the host), so that they follow light, dark and print. */
#ifndef REPORTS_CHART_H
#define REPORTS_CHART_H
#include "reports/page.h"

enum { CHART_COLOURS = 11 };

/* ---- bars that are sums of parts */
struct chart_bar {
    const char *label;
    const double *parts; /* [part_count]; NaN and negative parts are left out */
    double total;        /* written at the end of the bar; NAN: none */
    double low, high;    /* interval of the total; NAN: none */
    double limit;        /* a mark: capacity; NAN: none */
    const char *remark;  /* behind the total; may be "" */
};
void chart_bars(struct page *page, const char *title, const char *unit, const char *const *parts, size_t part_count,
                const struct chart_bar *bars, size_t bar_count);

/* ---- lines and points over two axes */
struct chart_line {
    const char *label; /* NULL: not in the legend */
    const double *x, *y;
    size_t count;
    unsigned colour, dash; /* dash 0: solid */
    bool marks;            /* a dot at every point */
};
struct chart_point {
    double x, y, size; /* radius in pixels */
    unsigned colour;
    bool ring;
    const char *label; /* tooltip */
};
struct chart_axes {
    const char *x_label, *y_label;
    bool x_log, y_log;
};
void chart_xy(struct page *page, const char *title, const struct chart_axes *axes, const struct chart_line *lines, size_t line_count,
              const struct chart_point *points, size_t point_count);

/* ---- how an answer moves with each assumption */
struct chart_swing {
    const char *label;
    double low, high; /* the answer at the assumption's low and high end */
};
void chart_swings(struct page *page, const char *title, const char *unit, double base, const struct chart_swing *swings, size_t count);

/* ---- lanes over time, zoomable: the timeline of a prediction (docs/schemas/predict). names: categories in the order of the
 * page's colours; the host's calls come behind them. */
void chart_timeline(struct page *page, const struct json *timeline, const char *device, const char *const *names, size_t name_count);

/* A legend in the page's colours. */
void chart_legend(struct page *page, const char *const *names, size_t count);

#endif
