/* An answer of `reckon collective` as text and as JSON. */
#ifndef SIM_CLI_PRINT_COLLECTIVE_H
#define SIM_CLI_PRINT_COLLECTIVE_H
#include "sim/fabric/fabric.h"
#include "sim/reckon.h"
#include <stdbool.h>

#define COLLECTIVE_LEVERS_MAX 8

struct collective_lever_answer {
    const char *name;
    struct collective_result off, on;
    double off_units, on_units; /* CUs or SMs taken */
};

struct collective_answer {
    const struct node_profile *node; /* NULL: a platform file */
    const char *platform;            /* its path, or NULL */
    struct collective_request request;
    struct collective_result result; /* with all levers on */
    bool has_interval;
    double low_us, high_us;
    const struct reckon_doubts *doubts; /* with --uncertainty, else NULL; time_us is then the median */
    double units_taken, unit_count;     /* 0: the node's device is not known */
    const char *harness;                /* NULL: device time alone */
    double called_us;                   /* with a harness: a call as its program reads it */
    size_t lever_count;
    struct collective_lever_answer levers[COLLECTIVE_LEVERS_MAX];
};

void collective_print_text(const struct collective_answer *answer);
struct json *collective_json(const struct collective_answer *answer);

#endif
