/* What the files that build a step share. */
#ifndef WORKLOADS_MODELS_BUILD_INTERNAL_H
#define WORKLOADS_MODELS_BUILD_INTERNAL_H
#include "workloads/models/eager_internal.h"
#include "workloads/models/model_internal.h"

struct block; /* one of a repeated layer, with its parameters and its input */

struct layer_parameters {
    struct parameter **list; /* in order of registration */
    uint32_t count;
    struct block *blocks;
    uint32_t block_count;
};

struct build {
    const struct model *model;
    struct eager *eager;
    uint32_t rank, gpus;
    double batch, sequence;       /* of this rank */
    struct parameter **tables;    /* [model->table_count]; NULL: not on this rank */
    uint32_t own_count;           /* tables on this rank */
    struct layer_parameters layers[MODEL_LAYERS_MAX];
    uint64_t collective_sequence;
    char group[32];
    struct sim_error *error;
    enum sim_status status;
};

/* build_layers.c: parameters in the order in which the program registers them, then the forward pass.
 * `x` is taken and a new tensor given; `pooled` is borrowed. */
double layer_register(struct build *build, uint32_t index, double columns); /* output columns; 0 on error */
struct tensor *layer_forward(struct build *build, uint32_t index, struct tensor *x, struct tensor *pooled);
void layers_finish(struct build *build);

/* build_parallel.c */
struct tensor *exchange_pooled(struct build *build, struct tensor *stacked);
void reduce_flat(struct build *build); /* all gradients as one list */

/* build_ddp.c: from before the backward pass until behind it; the end frees. */
struct ddp;
struct ddp *ddp_begin(struct build *build);
void ddp_end(struct ddp *ddp); /* NULL is allowed */

#endif
