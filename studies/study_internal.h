/* What the files that read a study share. */
#ifndef STUDIES_STUDY_INTERNAL_H
#define STUDIES_STUDY_INTERNAL_H
#include "studies/study.h"

/* study_check.c: values tried on the input, points that are there twice, constraints that cannot be met. */
enum sim_status study_check(struct study *study, struct sim_error *error);

#endif
