/* The pages, one per kind of answer; report.c picks. */
#ifndef REPORTS_REPORT_INTERNAL_H
#define REPORTS_REPORT_INTERNAL_H
#include "reports/chart.h"
#include "reports/page.h"
#include "reports/report.h"

void report_predict(struct page *page, const struct report_run *run);
void report_kernel(struct page *page, const struct report_run *run);
void report_atomics(struct page *page, const struct report_run *run);
void report_validate(struct page *page, const struct report_run *run);
void report_collective(struct page *page, const struct report_run *run);
void report_plan(struct page *page, const struct report_run *run);
void report_advise(struct page *page, const struct report_run *run);
void report_sweep(struct page *page, const struct report_run *run);
void report_compare(struct page *page, const struct report_run *run);

/* "1.00x [0.93, 1.08]" of an answer's uncertainty.ratio_to_first or, without samples, time_to_first. */
void report_ratio(struct page *page, const struct json *answer);
/* " [low, high]", or nothing where no samples were asked for: then the ends are absent, or both the answer itself. */
void report_interval(struct page *page, double low, double high);
/* "fitted 12, assumed 40, ...", and the notes of all answers, each once. */
void report_assumptions(struct page *page);
/* In a verdict whose answer has no interval: how to get one. */
void report_ask_samples(struct page *page, bool has_interval);
/* Of answers whose numbers carry their ends themselves ("samples"): what the intervals hold, or how to get them. */
void report_samples(struct page *page, const char *of_what);
/* The answer's interval, and what drives it, as a table; nothing without samples. */
void report_doubts(struct page *page, const char *unit);

#endif
