/* The description as read; shared by the files of workloads/models. */
#ifndef WORKLOADS_MODELS_MODEL_INTERNAL_H
#define WORKLOADS_MODELS_MODEL_INTERNAL_H
#include "workloads/models/eager_internal.h"
#include "workloads/models/model.h"

#define MODEL_NAME_CAPACITY 64
#define MODEL_WIDTHS_MAX 16
#define MODEL_LAYERS_MAX 64

enum model_precision { PRECISION_FP32, PRECISION_BF16_AUTOCAST, PRECISION_BF16 };
enum model_parallel { PARALLEL_NONE, PARALLEL_FLAT, PARALLEL_DDP, PARALLEL_ZERO1, PARALLEL_ZERO2, PARALLEL_ZERO3, PARALLEL_HSDP };
enum model_optimizer { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW, OPTIMIZER_ROWWISE_ADAGRAD, OPTIMIZER_SHAMPOO };
enum model_lookup { LOOKUP_BAG, LOOKUP_FUSED }; /* one operator a table, or one kernel for all of a device */

struct model_table {
    char name[MODEL_NAME_CAPACITY];
    double rows, dim, pooling; /* pooling: mean ids an example */
    double skew;               /* Zipf exponent of the ids; 0: uniform */
    double hot_share;          /* of ids on one row */
    bool weighted, per_example; /* of sequence models: an id an example instead of one a position */
    enum eager_type type;
    enum model_optimizer optimizer;
};

enum model_layer_kind { LAYER_MLP, LAYER_DOT, LAYER_DCN, LAYER_FM, LAYER_TRANSFORMER, LAYER_HSTU, LAYER_GDPA, LAYER_HEAD };

enum model_attention { ATTENTION_SOFTMAX, ATTENTION_SILU, ATTENTION_GELU }; /* pointwise ones over jagged sequences */

struct model_layer {
    enum model_layer_kind kind;
    char name[MODEL_NAME_CAPACITY];
    double width[MODEL_WIDTHS_MAX]; /* mlp: of its layers */
    uint32_t width_count;
    double input;                   /* mlp that starts from dense features: how many; 0: goes on from the layer before */
    enum eager_activation activation;
    bool bias;
    double count, rank, heads, inner, classes;
    bool causal;
    double head_dim;                /* 0: the width over the heads */
    enum model_attention attention;
    bool fused;                     /* hstu: in two fused functions that compute again what is cheap, output product of three parts */
    bool per_example;               /* head: of one position of each sequence */
};

struct model {
    char name[MODEL_NAME_CAPACITY], path[1024];
    double batch, sequence, checkpoint;
    double length_share; /* mean length of the sequences over `sequence` */
    uint32_t gpus;
    enum model_precision precision;
    enum model_parallel parallel;
    enum model_optimizer optimizer;
    enum model_lookup lookup;
    bool sequence_input; /* the first table is looked up an id a position, not pooled */
    bool deduplicated;   /* ids that a GPU asks for several times are asked for once, and their rows spread over the positions */
    bool sparse_gradient;
    struct model_table *tables;
    uint32_t table_count;
    struct model_layer layers[MODEL_LAYERS_MAX];
    uint32_t layer_count;
    bool bce; /* loss: binary cross entropy, else cross entropy */
    double workspace_mib, bucket_mib;
    char plan_name[1024]; /* "": by rank number in turn for bags, proposed for fused lookups; a kind of sharding; or a file */
    double table_gib;     /* of a GPU, for tables: what a proposal may fill */
    bool gives_table_gib; /* in the file */
    double reserve_gib, reserve_share; /* as in struct graph */
    uint32_t per_node;
    enum eager_type exchange; /* in which pooled rows and their gradients travel */
    bool pipelined;       /* ids of the next batch are exchanged beside this one */
    const struct plan *plan; /* while a graph is built */
};

/* model_import.c: public configurations as text of a description. */
bool model_can_import(const char *path);
enum sim_status model_import(const char *path, char **out, struct sim_error *error); /* the caller frees */

#endif
