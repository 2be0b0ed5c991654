#include "reports/report_internal.h"
void report_plan(struct page *page, const struct report_run *run)
{
    (void)page;
    (void)run;
}
