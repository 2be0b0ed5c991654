/* What-if on a recorded step: its batch changed by algebra over the shapes of its operators.
 *
 * A dimension is the batch, or examples in it, when it is a whole multiple of the recorded batch. Where a dimension could
 * as well be a width of the model (a parameter's gradient has it, or one tensor has two such dimensions) it is asked for by
 * name, never guessed. A kernel's sizes follow from the dimensions that they stand for; library products are chosen anew
 * for the changed shape. */
#ifndef WORKLOADS_REWRITE_H
#define WORKLOADS_REWRITE_H
#include <stdbool.h>
#include <stddef.h>
#include "sim/core/status.h"
#include "workloads/graph.h"

struct rewrite_dim { /* the user's answer about a dimension */
    double value;
    bool is_batch;
};

struct rewrite_batch {
    double from, to; /* examples a GPU */
    const struct rewrite_dim *dims;
    size_t dim_count;
};

/* A new graph at the other batch; its device title is dropped, since nothing in it was timed so. Errors:
 * SIM_BAD_ARGUMENT: the trace was not recorded at `from` (no dimension is a multiple), a dimension that must be named,
 * a size that would not be whole. */
enum sim_status rewrite_batch(const struct graph *graph, const struct rewrite_batch *change, struct graph **out,
                              struct sim_error *error);

#endif
