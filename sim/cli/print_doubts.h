/* Intervals of an answer for people: median and 80% interval of each device, what drives them, and devices against the first. */
#ifndef SIM_CLI_PRINT_DOUBTS_H
#define SIM_CLI_PRINT_DOUBTS_H
#include "sim/reckon.h"

/* names: [doubts->device_count]; unit: of the times, "ms" or "us". */
void print_doubts(const struct reckon_doubts *doubts, const char *const *names, const char *unit);

/* The interval of device d and, beyond the first, of its ratio to the first, for the JSON of an answer. */
struct json *doubts_json(const struct reckon_doubts *doubts, size_t d);

/* The answer of one device, or an array of them in the order given, each with its ratio to the first and its doubts (NULL: none).
 * objects: [count], taken; figure: [count], what the ratio is of. The caller frees the result with json_destroy. */
struct json *doubts_answers(struct json *const *objects, const double *figure, size_t count, const struct reckon_doubts *doubts);

#endif
