/* A step of eager training as a framework issues it: operators of the forward pass put their calls and kernels into a
 * graph and a tape of what the backward pass has to do; the engine then plays the tape in the framework's order. Tensors
 * count references, so the graph also holds when the allocator takes and gives back each block.
 *
 * Model. Calls, casts and saved tensors are those that PyTorch 2.11 issues under autocast, read from recorded traces of
 * the four models that were measured; tests/models holds the two routes against each other, kernel by kernel.
 * Host calls are written as a trace shows them: names in order, a leading dot per level of nesting. */
#ifndef WORKLOADS_MODELS_EAGER_INTERNAL_H
#define WORKLOADS_MODELS_EAGER_INTERNAL_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "workloads/graph.h"

enum eager_type { EAGER_FP32, EAGER_BF16, EAGER_FP16, EAGER_INT64, EAGER_TYPES };

double eager_type_bytes(enum eager_type type);
const char *eager_type_text(enum eager_type type); /* fp32 ... as kernels' dtype parameters have it */

struct storage; /* a block of device memory; opaque */
struct eager;

/* A matrix as kernels see it: `columns` innermost, `rows` all the rest. */
struct tensor {
    struct storage *storage;
    double rows, columns;
    enum eager_type type;
    bool strided;              /* rows lie `pitch` elements apart */
    double pitch;
    bool wants_gradient;
    struct function *producer; /* NULL: an input, or no gradient wanted */
    uint32_t slot;             /* which output of the producer */
    struct parameter *parameter;
};

struct edge {
    struct function *next; /* NULL: no gradient wanted */
    uint32_t slot;
};

#define FUNCTION_SAVED 6
#define FUNCTION_NUMBERS 12
#define FUNCTION_SLOTS 8

/* A step of the backward pass. Takes the gradients of its outputs, gives one per edge. */
struct function {
    const char *name;
    void (*backward)(struct eager *eager, struct function *function);
    uint64_t sequence;
    uint32_t edge_count;
    struct edge *edges;
    struct tensor **out;                  /* [edge_count]: what backward gives; NULL: none */
    struct tensor *in[FUNCTION_SLOTS];    /* gradients that have arrived */
    struct storage *saved[FUNCTION_SAVED];
    double number[FUNCTION_NUMBERS];      /* shapes: each backward says which */
    void *context; /* borrowed: what backward needs beside shapes */
    struct parameter *parameter;
    struct checkpoint *checkpoint;        /* its saved tensors are computed again first */
    uint32_t pending;
    bool visited;
};

enum parameter_update { UPDATE_DENSE, UPDATE_SPARSE };

struct parameter {
    const char *name;
    double rows, columns;
    enum eager_type type;
    enum parameter_update update;
    struct storage *storage, *gradient;
    double sparse_rows; /* UPDATE_SPARSE: rows of the gradient */
    double skew, hot_share; /* of a table's ids: Zipf exponent (0: uniform), share on one row */
    struct tensor *cast; /* autocast's copy, while its region lasts */
    struct function *accumulate;
    struct eager_unit *unit; /* of sharded parameters */
    double index; /* order of registration */
};

/* Called at places of the step where parallel training adds work; any may be NULL. */
struct eager_hooks {
    void *context;
    void (*gradient_ready)(void *context, struct eager *eager, struct parameter *parameter);
};

struct eager_step; /* what ran under a checkpoint, to run again */
struct checkpoint {
    void (*run)(struct eager *eager, void *context); /* the forward pass of the region */
    void *context;
    struct function **functions; /* of the region, in order of creation */
    uint32_t function_count;
    bool recomputed;
};

struct eager {
    struct graph *graph;
    uint32_t rank;
    bool autocast; /* matrix products in bf16 of fp32 parameters */
    enum eager_type matrix_type; /* products run in this type (fp32 means tf32 where the library may) */
    uint64_t sequence;
    struct parameter **parameters;
    uint32_t parameter_count;
    struct function **functions; /* all, for clean-up */
    size_t function_count;
    struct checkpoint **regions; /* all, for clean-up */
    uint32_t region_count;
    struct checkpoint *recording; /* functions made now belong to it */
    struct checkpoint *replaying; /* saved tensors made now go to its functions */
    uint32_t replay_at;
    bool stopped; /* a replay has all it needs: operators do nothing */
    bool inside_autocast;
    struct eager_hooks hooks;
    double parameter_shards, state_shards; /* GPUs that share dense parameters, and their optimiser's state */
    uint32_t streams;
    uint32_t thread;
};

struct eager *eager_create(struct graph *graph, uint32_t rank);
void eager_destroy(struct eager *eager); /* NULL is allowed */

/* ---- host and device */

void eager_host(struct eager *eager, const char *calls);
/* One launch and its kernel on stream 0. `name`: the operator. */
void eager_kernel(struct eager *eager, const char *category, const char *name, const char *suite,
                  const char *kernel, const char *params, ...) __attribute__((format(printf, 6, 7)));
void eager_kernel_on(struct eager *eager, uint32_t stream, const char *category, const char *name,
                     const char *suite, const char *kernel, const char *params, ...)
    __attribute__((format(printf, 7, 8)));
/* A kernel that no program covers: bytes only. */
void eager_kernel_bytes(struct eager *eager, const char *category, const char *name, double bytes_read,
                        double bytes_written);
uint32_t eager_collective(struct eager *eager, uint32_t stream, const char *kind, double bytes,
                          uint32_t group_size, const char *group, uint64_t sequence);
uint32_t eager_record(struct eager *eager, uint32_t stream);
void eager_wait(struct eager *eager, uint32_t stream, uint32_t record);

/* ---- memory */

struct storage *eager_storage(struct eager *eager, double bytes, enum graph_memory_owner owner);
struct storage *eager_keep(struct storage *storage); /* one more reference; NULL is allowed */
void eager_drop(struct eager *eager, struct storage *storage);
double eager_storage_bytes(const struct storage *storage);
/* Memory that outlives the step. */
void eager_permanent(struct eager *eager, double bytes, enum graph_memory_owner owner);

struct tensor *eager_tensor(struct eager *eager, double rows, double columns, enum eager_type type);
struct tensor *eager_view(struct eager *eager, const struct tensor *of, double rows, double columns);
void eager_release(struct eager *eager, struct tensor *tensor); /* NULL is allowed */
double tensor_elements_of(const struct tensor *tensor);

/* ---- tape */

struct function *eager_function(struct eager *eager, const char *name,
                                void (*backward)(struct eager *, struct function *), uint32_t edge_count);
void eager_edge(struct function *function, uint32_t index, const struct tensor *input);
/* Keep a tensor's memory for the backward pass. */
void eager_save(struct eager *eager, struct function *function, uint32_t index, struct storage *storage);
/* All of a function's tensors are saved: call once, before the operator's kernel runs. */
void eager_saved(struct eager *eager, struct function *function);
void eager_produce(struct tensor *tensor, struct function *function, uint32_t slot);

/* Run the backward pass from a scalar loss. */
void eager_backward(struct eager *eager, struct tensor *loss);
/* Forward pass of `run` whose saved tensors are dropped and computed again. */
void eager_checkpoint(struct eager *eager, void (*run)(struct eager *eager, void *context), void *context);
void eager_autocast_begin(struct eager *eager);
void eager_autocast_end(struct eager *eager); /* drops the casts of parameters */

/* How a table's ids are drawn, as parameters of the sparse kernels: "" or ";generator=..". */
void eager_id_params(const struct parameter *table, char text[64]);

struct parameter *eager_parameter(struct eager *eager, const char *name, double rows, double columns);

/* ---- operators (ops_*.c). Each returns a tensor the caller releases; inputs stay the caller's. */

struct tensor *op_cast(struct eager *eager, const struct tensor *x, enum eager_type type);
struct tensor *op_linear(struct eager *eager, struct tensor *x, struct parameter *weight,
                         struct parameter *bias, bool three_dimensional);
enum eager_activation { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_GELU, ACTIVATION_SILU };
struct tensor *op_activation(struct eager *eager, struct tensor *x, enum eager_activation kind);
struct tensor *op_layer_norm(struct eager *eager, struct tensor *x, struct parameter *weight,
                             struct parameter *bias);
struct tensor *op_add(struct eager *eager, struct tensor *a, struct tensor *b);
struct tensor *op_multiply(struct eager *eager, struct tensor *a, struct tensor *b);
void op_chunk(struct eager *eager, struct tensor *x, uint32_t count, struct tensor **parts);
/* `pointwise` NULL: softmax over whole sequences; "hstu" or "gdpa": pointwise, over as many positions as there are rows. */
struct tensor *op_attention(struct eager *eager, struct tensor *q, struct tensor *k, struct tensor *v,
                            double batch, double heads, double sequence, bool causal, const char *pointwise);
struct tensor *op_embedding(struct eager *eager, struct parameter *table, double ids);
struct tensor *op_embedding_bag(struct eager *eager, struct parameter *table, double bags, double pooling);
struct tensor *op_stack(struct eager *eager, struct tensor **parts, uint32_t count);
/* x[:, None] beside the pooled embeddings e [tables, batch, dim], as [batch, tables + 1, dim]. */
struct tensor *op_join_features(struct eager *eager, struct tensor *x, struct tensor *e, double batch,
                                double tables, double dim);
struct tensor *op_dot_interaction(struct eager *eager, struct tensor *x, struct tensor *z, double batch,
                                  double features, double dim);
/* ops_fm.c. Matrices [m, n] of each example turned to [n, m], given as so many rows; products a [m, k] x b [k, n] of each
 * example; columns side by side. */
struct tensor *op_turn(struct eager *eager, struct tensor *x, double batch, double m, double n, double rows);
struct tensor *op_batched_product(struct eager *eager, struct tensor *a, struct tensor *b, double batch, double m, double n,
                                  double k);
struct tensor *op_beside(struct eager *eager, struct tensor *a, struct tensor *b);
/* ops_stu.c: an HSTU layer in its two fused functions over jagged sequences of at most `sequence` positions. */
struct stu {
    struct parameter *norm, *norm_bias, *wide, *wide_bias, *out_norm, *out_norm_bias, *out; /* out: [columns, 3 inner] */
    double inner, batch, heads, sequence;
    bool causal;
};
struct tensor *op_stu(struct eager *eager, struct tensor *x, const struct stu *stu);
struct tensor *op_last_positions(struct eager *eager, struct tensor *x, double examples); /* one of each sequence */
struct tensor *op_bce_loss(struct eager *eager, struct tensor *logits);
struct tensor *op_cross_entropy(struct eager *eager, struct tensor *logits);
void op_sgd_sparse(struct eager *eager, struct parameter *table);
/* `kind`: adam or adamw; all dense parameters with a gradient. */
void op_adam(struct eager *eager, const char *kind);

#endif
