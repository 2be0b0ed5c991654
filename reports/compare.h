/* What changed between two answers of one kind: every number and word that differs, by how much, and whether the change
 * is outside what the intervals of the two answers leave open. Works on the JSON of any command. */
#ifndef REPORTS_COMPARE_H
#define REPORTS_COMPARE_H
#include "sim/reckon.h"

/* `a` and `b`: an answer or an array of answers, as --json prints them. Answers are paired by device where both name the
 * same ones, else in order. *out: "reckon.compare/1" (docs/schemas). Errors, SIM_BAD_ARGUMENT: no answer of reckon, kinds
 * or schema versions that differ, numbers of answers that differ. */
enum sim_status compare_answers(const struct json *a, const char *a_name, const struct json *b, const char *b_name,
                                struct json **out, struct sim_error *error);

#endif
