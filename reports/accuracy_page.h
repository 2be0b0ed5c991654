/* One HTML page on how far predictions are from what was measured: a device a section, a scatter plot and a line a suite, the
 * worst ten rows, rows that a fit was held to apart from the rest, and what kinds of values the device rests on. The page is one
 * file without scripts; plots are SVG in it. */
#ifndef REPORTS_ACCURACY_PAGE_H
#define REPORTS_ACCURACY_PAGE_H
#include "sim/reckon.h"
#include <stdio.h>

struct accuracy_section { /* borrowed */
    const struct reckon_validation *validation;
    const bool *fitted;                /* [validation->row_count] */
    const struct chip_profile *chip;   /* whose values */
    const char *tables;                /* where the rows come from, for the heading */
};

void accuracy_page_write(const struct accuracy_section *sections, size_t count, FILE *out);

#endif
