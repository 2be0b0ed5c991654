/* What-if on a recorded step: its batch or its sequences' length changed by algebra over the shapes of its operators, or the number
 * of its GPUs.
 *
 * A dimension is the batch, or examples in it, when it is a whole multiple of the recorded batch. Where a dimension could
 * as well be a width of the model (a parameter's gradient has it, or one tensor has two such dimensions) it is asked for by
 * name, never guessed. A kernel's sizes follow from the dimensions that they stand for; library products are chosen anew
 * for the changed shape. Positions of a sequence are found as examples are. */
#ifndef WORKLOADS_REWRITE_H
#define WORKLOADS_REWRITE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sim/core/status.h"
#include "workloads/graph.h"

struct rewrite_dim { /* the user's answer about a dimension */
    double value;
    bool is_batch;
};

struct rewrite_batch {
    bool positions;  /* not examples a GPU, but positions of a sequence */
    double from, to;
    const struct rewrite_dim *dims;
    size_t dim_count;
};

/* A new graph at the other batch; its device title is dropped, since nothing in it was timed so. Errors:
 * SIM_BAD_ARGUMENT: the trace was not recorded at `from` (no dimension is a multiple), a dimension that must be named,
 * a size that would not be whole. */
enum sim_status rewrite_batch(const struct graph *graph, const struct rewrite_batch *change, struct graph **out,
                              struct sim_error *error);

/* The same step on `gpus` GPUs, each with the batch it had: every collective over all of them takes them all. Gradients and what a
 * GPU sends of its examples stay, tables are taken as dealt out evenly, so that each GPU looks up as much as before. The ranks
 * given stand for the others. Errors: SIM_BAD_ARGUMENT for a trace of one GPU (which work its tables would share out is not in it),
 * a collective among a part of the ranks, and all-gathers or reduce-scatters, which may be of parameters or of rows. */
enum sim_status rewrite_gpus(const struct graph *graph, uint32_t gpus, struct graph **out, struct sim_error *error);

struct rewrite_blocks {
    uint32_t from, to; /* like layers, recorded and new; > 0 */
    double recomputed; /* share of the new ones whose backward computes them again (activation checkpointing), the first; [0, 1] */
};

/* Fewer or more layers, or layers computed again. Layers are found by structure: stretches of a rank's operators that repeat `from`
 * times, forward and backward. Errors, SIM_BAD_ARGUMENT: no such stretches; layers that are computed again already, or that gather
 * parameters, where `recomputed` asks for more; what of them another trace would hold is not in this one. */
enum sim_status rewrite_blocks(const struct graph *graph, const struct rewrite_blocks *change, struct graph **out, struct sim_error *error);

/* Products of fp32 operands in tf32, or back (`dtype`: tf32, fp32): nothing else of the step depends on it. SIM_BAD_ARGUMENT when no
 * product is of the other kind. */
enum sim_status rewrite_products(const struct graph *graph, const char *dtype, struct graph **out, struct sim_error *error);

#endif
