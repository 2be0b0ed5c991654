/* What the files that give advice share. */
#ifndef STUDIES_ADVISE_INTERNAL_H
#define STUDIES_ADVISE_INTERNAL_H
#include "studies/advise.h"

struct advice_list {
    size_t count, capacity;
    struct advice *advice;
};

/* advise_candidates.c: all that applies to the step as it is, in a fixed order; whether triggers are met. */
void advise_candidates(const struct reckon_prediction *base, const struct reckon_source *source, struct advice_list *list);
/* GPU time of a program's rows [ms per rank]. */
double advise_program_ms(const struct reckon_prediction *prediction, const char *program);

#endif
