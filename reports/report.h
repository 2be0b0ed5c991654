/* Writes an answer as a page. The answer is its JSON: a page shows what --json prints and nothing else, and holds it whole. */
#ifndef REPORTS_REPORT_H
#define REPORTS_REPORT_H
#include "sim/reckon.h"

struct report_run { /* what made the answer; borrowed */
    const char *command;  /* as typed, "reckon predict ..."; "" unknown */
    const char *version;  /* program and commit */
    uint64_t seed;
    const struct json *profiles; /* array: effective device profiles as `reckon devices NAME --json` prints them; NULL: none */
};

/* One file for the schema of `document` (an answer or an array of answers of one kind).
 * Errors: SIM_BAD_FILE when it cannot be written, SIM_UNSUPPORTED for a kind without a page. */
enum sim_status report_write(const struct json *document, const struct report_run *run, const char *path, struct sim_error *error);

/* A C++ kernel name down to its function: no return type, namespaces, template or call arguments. Never empty for a name. */
void report_short_name(const char *name, char *text, size_t capacity);

#endif
