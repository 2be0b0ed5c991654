/* What the files that build a step share. */
#ifndef WORKLOADS_MODELS_BUILD_INTERNAL_H
#define WORKLOADS_MODELS_BUILD_INTERNAL_H
#include "workloads/models/eager_internal.h"
#include "workloads/models/model_internal.h"
#include "workloads/plan.h"

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
    double positions;             /* of all its sequences together */
    struct parameter **tables;    /* [model->table_count]; NULL: not on this rank */
    uint32_t own_count;           /* tables on this rank */
    struct sharded *sharded;      /* fused lookups; else NULL */
    struct fsdp *fsdp;            /* sharded parameters; else NULL */
    struct layer_parameters layers[MODEL_LAYERS_MAX];
    uint32_t registering; /* the layer whose parameters are added */
    uint64_t collective_sequence;
    char group[32];
    struct sim_error *error;
    enum sim_status status;
};

/* build_layers.c: parameters in the order in which the program registers them, then the forward pass.
 * `x` is taken and a new tensor given; `pooled` is borrowed. */
double layer_register(struct build *build, uint32_t index, double columns); /* output columns; 0 on error */
struct tensor *layer_forward(struct build *build, uint32_t index, struct tensor *x, struct tensor *pooled);
/* build_fm.c: n features of width d. */
void fm_register(struct build *build, const struct model_layer *layer, double n, double d,
                 struct parameter *(*add)(struct build *, const char *, double, double));
struct tensor *fm_forward(struct build *build, const struct model_layer *layer, struct parameter **list, struct tensor *z,
                          double n, double d);
/* Blocks that are sharded by themselves: how many, and their parameters handed to `add`, a unit of `unit_bytes` each. */
uint32_t layer_unit_count(const struct build *build);
void layer_units(struct build *build, void (*add)(struct eager_unit *, struct parameter *), struct eager_unit *first,
                 size_t unit_bytes);
bool layer_takes_pooled(const struct model_layer *layer);
void layers_finish(struct build *build);

/* build_parallel.c */
struct tensor *exchange_pooled(struct build *build, struct tensor *stacked);
void reduce_flat(struct build *build); /* all gradients as one list */

/* build_sharded.c: a model with fused lookups. Begin takes the tables' memory; request starts lookups and their exchange,
 * wait gives the pooled rows of own examples [batch, all dims]; reduce comes behind the backward pass. */
struct sharded;
struct sharded *sharded_begin(struct build *build);
struct tensor *sharded_request(struct sharded *sharded);
struct tensor *sharded_wait(struct sharded *sharded, struct tensor *pooled);
void sharded_reduce(struct sharded *sharded);
void sharded_end(struct sharded *sharded); /* NULL is allowed */

/* model_plan.c: the tables as a plan sees them; the caller frees. */
struct plan_table *model_plan_tables(const struct model *model);
/* The model's plan: its file, its kind, or a proposal. */
enum sim_status model_plan(const struct model *model, struct plan **out, struct sim_error *error);

/* build_fsdp.c: before memory is taken until behind the backward pass; the end frees. */
struct fsdp;
struct fsdp *fsdp_begin(struct build *build);
double fsdp_shards(const struct fsdp *fsdp); /* GPUs that share one copy of the parameters */
struct eager_unit *fsdp_root(struct fsdp *fsdp);
void fsdp_before_forward(struct eager_unit *unit); /* NULL is allowed */
struct tensor *fsdp_after_forward(struct eager_unit *unit, struct tensor *y); /* takes y */
void fsdp_end(struct fsdp *fsdp); /* NULL is allowed */

/* build_ddp.c: from before the backward pass until behind it; the end frees. */
struct ddp;
struct ddp *ddp_begin(struct build *build);
void ddp_end(struct ddp *ddp); /* NULL is allowed */

#endif
