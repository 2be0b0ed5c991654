/* Predicted curves of a collective over sizes beside measured rows, as one SVG page: time above, bus bandwidth below. */
#ifndef SIM_CLI_COLLECTIVE_CURVE_H
#define SIM_CLI_COLLECTIVE_CURVE_H
#include "sim/fabric/fabric.h"
#include "sim/fabric/fabric_rows.h"

struct collective_curve_request {
    const struct node_profile *node;
    struct collective_request call; /* bytes and splits are ignored */
    enum fabric_engine engine;
    struct fabric_row_harness harness; /* zeros: device time alone */
    const char *measured; /* CSV file; NULL: the published table of the node's device, where there is one */
};

/* Sizes 512 B to 8 GiB. *measured_count: rows of the same collective, GPUs and nodes that were drawn.
 * Errors: those of collective_time, a measured file that cannot be read, a file that cannot be written. */
enum sim_status collective_curve_write(const struct collective_curve_request *request, const char *path,
                                       size_t *measured_count, struct sim_error *error);

#endif
