/* The layers of a model on the tape. Python keeps a local until its function returns; where that decides when memory is
 * given back, the code below keeps it as long. */
#include "workloads/models/build_internal.h"
#include "workloads/models/tape_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parameters ------------------------------------------------------------------------------------------------ */

static struct parameter *add_parameter(struct build *build, struct layer_parameters *to, const char *layer,
                                       const char *name, double rows, double columns)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", layer, name);
    struct parameter *parameter = eager_parameter(build->eager, full, rows, columns);
    struct parameter **list = realloc(to->list, (to->count + 1) * sizeof(void *));
    SIM_ASSERT(list != NULL, "out of memory");
    parameter->type = build->model->precision == PRECISION_BF16 ? EAGER_BF16 : EAGER_FP32;
    to->list = list;
    list[to->count++] = parameter;
    return parameter;
}

static struct parameter *add_to_layer(struct build *build, const char *name, double rows, double columns)
{
    uint32_t index = build->registering;
    return add_parameter(build, &build->layers[index], build->model->layers[index].name, name, rows, columns);
}

static double register_mlp(struct build *build, const struct model_layer *layer, struct layer_parameters *to,
                           double columns)
{
    double width = layer->input > 0 ? layer->input : columns;
    for (uint32_t i = 0; i < layer->width_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%u.weight", i);
        add_parameter(build, to, layer->name, name, layer->width[i], width);
        if (layer->bias) {
            snprintf(name, sizeof name, "%u.bias", i);
            add_parameter(build, to, layer->name, name, 1, layer->width[i]);
        }
        width = layer->width[i];
    }
    return width;
}

struct block {
    struct build *build;
    const struct model_layer *layer;
    struct parameter *norm[4], *weight[4], *bias[4];
    struct tensor *input, *output;
    struct eager_unit *unit; /* of sharded parameters; else NULL */
};

static void register_linear(struct build *build, struct layer_parameters *to, struct block *block, uint32_t i,
                            const char *name, double out, double in)
{
    char text[40];
    snprintf(text, sizeof text, "%s.weight", name);
    block->weight[i] = add_parameter(build, to, block->layer->name, text, out, in);
    snprintf(text, sizeof text, "%s.bias", name);
    block->bias[i] = add_parameter(build, to, block->layer->name, text, 1, out);
}

static void register_norm(struct build *build, struct layer_parameters *to, struct block *block, uint32_t i,
                          double columns)
{
    block->norm[2 * i] = add_parameter(build, to, block->layer->name, "norm.weight", 1, columns);
    block->norm[2 * i + 1] = add_parameter(build, to, block->layer->name, "norm.bias", 1, columns);
}

static double register_blocks(struct build *build, const struct model_layer *layer, struct layer_parameters *to,
                              double columns)
{
    to->block_count = (uint32_t)layer->count;
    to->blocks = calloc(to->block_count, sizeof *to->blocks);
    SIM_ASSERT(to->blocks != NULL, "out of memory");
    for (uint32_t i = 0; i < to->block_count; i++) {
        struct block *block = &to->blocks[i];
        block->build = build;
        block->layer = layer;
        register_norm(build, to, block, 0, columns);
        if (layer->kind == LAYER_TRANSFORMER) {
            register_linear(build, to, block, 0, "qkv", 3 * columns, columns);
            register_linear(build, to, block, 1, "o", columns, columns);
            register_norm(build, to, block, 1, columns);
            register_linear(build, to, block, 2, "up", layer->inner * columns, columns);
            register_linear(build, to, block, 3, "down", columns, layer->inner * columns);
        } else { /* gate, query, key and value of equal width */
            double inner = layer->head_dim > 0 ? layer->heads * layer->head_dim : columns;
            register_linear(build, to, block, 0, "uqkv", 4 * inner, columns);
            if (layer->fused) {
                block->weight[1] = add_parameter(build, to, layer->name, "o.weight", columns, 3 * inner);
            } else {
                register_linear(build, to, block, 1, "o", columns, inner);
            }
            register_norm(build, to, block, 1, inner);
        }
    }
    return columns;
}

static enum sim_status does_not_fit(struct build *build, const struct model_layer *layer, const char *what)
{
    build->status = sim_fail(build->error, SIM_BAD_FILE, "%s: layer %s: %s", build->model->path, layer->name, what);
    return build->status;
}

double layer_register(struct build *build, uint32_t index, double columns)
{
    const struct model *model = build->model;
    const struct model_layer *layer = &model->layers[index];
    struct layer_parameters *to = &build->layers[index];
    double dim = model->tables[0].dim, features = model->table_count + 1;
    if (layer->kind == LAYER_MLP) {
        return register_mlp(build, layer, to, columns);
    }
    switch (layer->kind) {
    case LAYER_DOT:
    case LAYER_DCN:
    case LAYER_FM:
        for (uint32_t t = 1; t < model->table_count; t++) {
            if (model->tables[t].dim != dim) {
                does_not_fit(build, layer, "needs tables of one dim");
                return 0;
            }
        }
        if (columns != dim) {
            does_not_fit(build, layer, "the layer before it must end in the tables' dim");
            return 0;
        }
        if (layer->kind == LAYER_DOT) {
            return dim + features * (features - 1) / 2;
        }
        if (layer->rank < 1) {
            does_not_fit(build, layer, "needs a 'rank' of at least 1");
            return 0;
        }
        if (layer->kind == LAYER_FM) {
            build->registering = index;
            fm_register(build, layer, features, dim, add_to_layer);
            return features * dim;
        }
        for (int part = 0; part < 2; part++) { /* all V before all W, as two module lists register them */
            for (double i = 0; i < layer->count; i++) {
                double wide = features * dim;
                add_parameter(build, to, layer->name, part == 0 ? "v.weight" : "w.weight", part == 0 ? layer->rank : wide,
                              part == 0 ? wide : layer->rank);
                if (part == 1) {
                    add_parameter(build, to, layer->name, "w.bias", 1, wide);
                }
            }
        }
        return features * dim;
    case LAYER_TRANSFORMER:
    case LAYER_HSTU:
    case LAYER_GDPA:
        if (layer->attention == ATTENTION_SOFTMAX && model->length_share < 1) {
            does_not_fit(build, layer, "softmax attention runs over whole sequences: \"length_share\" must be 1, or \"attention\" "
                                       "silu or gelu");
            return 0;
        }
        return register_blocks(build, layer, to, columns);
    case LAYER_HEAD:
        add_parameter(build, to, layer->name, "weight", layer->classes, columns);
        if (layer->bias) {
            add_parameter(build, to, layer->name, "bias", 1, layer->classes);
        }
        return layer->classes;
    default: SIM_ASSERT(false, "layer %s of kind %d", layer->name, layer->kind); return 0;
    }
}

/* ---- forward --------------------------------------------------------------------------------------------------- */

static struct tensor *forward_mlp(struct build *build, const struct model_layer *layer,
                                  const struct layer_parameters *of, struct tensor *x)
{
    struct eager *eager = build->eager;
    uint32_t at = 0;
    for (uint32_t i = 0; i < layer->width_count; i++) {
        struct parameter *weight = of->list[at++], *bias = layer->bias ? of->list[at++] : NULL;
        struct tensor *y = op_linear(eager, x, weight, bias, false);
        eager_release(eager, x);
        x = y;
        if (i + 1 < layer->width_count && layer->activation != ACTIVATION_NONE) {
            y = op_activation(eager, x, layer->activation);
            eager_release(eager, x);
            x = y;
        }
    }
    return x;
}

static struct tensor *forward_cross(struct build *build, const struct model_layer *layer,
                                    const struct layer_parameters *of, struct tensor *z)
{
    struct eager *eager = build->eager;
    uint32_t layers = (uint32_t)layer->count;
    eager_host(eager, "flatten .view");
    struct tensor *y = eager_view(eager, z, z->rows, z->columns);
    for (uint32_t i = 0; i < layers; i++) {
        struct tensor *down = op_linear(eager, y, of->list[i], NULL, false);
        struct tensor *up = op_linear(eager, down, of->list[layers + 2 * i], of->list[layers + 2 * i + 1], false);
        eager_release(eager, down);
        struct tensor *crossed = op_multiply(eager, z, up);
        eager_release(eager, up);
        struct tensor *sum = op_add(eager, crossed, y);
        eager_release(eager, crossed);
        eager_release(eager, y);
        y = sum;
    }
    return y;
}

static struct tensor *forward_interaction(struct build *build, const struct model_layer *layer,
                                          const struct layer_parameters *of, struct tensor *x, struct tensor *pooled)
{
    struct eager *eager = build->eager;
    double dim = build->model->tables[0].dim, tables = build->model->table_count;
    struct tensor *z = op_join_features(eager, x, pooled, build->batch, tables, dim);
    struct tensor *y = layer->kind == LAYER_DOT  ? op_dot_interaction(eager, x, z, build->batch, tables + 1, dim)
                       : layer->kind == LAYER_FM ? fm_forward(build, layer, of->list, z, tables + 1, dim)
                                                 : forward_cross(build, layer, of, z);
    eager_release(eager, z);
    eager_release(eager, x);
    return y;
}

static struct tensor *attend(struct block *block, struct tensor *wide, uint32_t parts, struct tensor **gate)
{
    struct eager *eager = block->build->eager;
    struct tensor *part[4];
    op_chunk(eager, wide, parts, part);
    struct tensor **qkv = parts == 4 ? part + 1 : part;
    static const char *const kernels[] = { NULL, "hstu", "gdpa" };
    struct tensor *y = op_attention(eager, qkv[0], qkv[1], qkv[2], block->build->batch, block->layer->heads,
                                    block->build->sequence, block->layer->causal, kernels[block->layer->attention]);
    for (uint32_t i = 0; i < 3; i++) {
        eager_release(eager, qkv[i]);
    }
    *gate = parts == 4 ? part[0] : NULL;
    return y;
}

static struct tensor *linear_of(struct block *block, uint32_t i, struct tensor *x)
{
    struct tensor *y = op_linear(block->build->eager, x, block->weight[i], block->bias[i], true);
    eager_release(block->build->eager, x);
    return y;
}

static void run_transformer(struct eager *eager, void *context)
{
    struct block *block = context;
    struct tensor *gate = NULL, *x = block->input;
    struct tensor *wide = linear_of(block, 0, op_layer_norm(eager, x, block->norm[0], block->norm[1]));
    struct tensor *attended = attend(block, wide, 3, &gate);
    eager_release(eager, wide);
    struct tensor *o = linear_of(block, 1, attended);
    struct tensor *middle = op_add(eager, x, o);
    eager_release(eager, o);
    struct tensor *up = linear_of(block, 2, op_layer_norm(eager, middle, block->norm[2], block->norm[3]));
    struct tensor *active = op_activation(eager, up, ACTIVATION_GELU);
    eager_release(eager, up);
    struct tensor *down = linear_of(block, 3, active);
    block->output = op_add(eager, middle, down);
    eager_release(eager, middle);
    eager_release(eager, down);
    if (eager->replaying != NULL) {
        eager_release(eager, block->output);
        eager_release(eager, block->input);
        block->input = block->output = NULL;
    }
}

static void run_hstu(struct eager *eager, void *context)
{
    struct block *block = context;
    struct tensor *gate = NULL, *x = block->input;
    struct tensor *wide = linear_of(block, 0, op_layer_norm(eager, x, block->norm[0], block->norm[1]));
    struct tensor *active = op_activation(eager, wide, ACTIVATION_SILU);
    eager_release(eager, wide);
    struct tensor *attended = attend(block, active, 4, &gate);
    eager_release(eager, active);
    struct tensor *normed = op_layer_norm(eager, attended, block->norm[2], block->norm[3]);
    eager_release(eager, attended);
    struct tensor *gated = op_multiply(eager, normed, gate);
    eager_release(eager, normed);
    eager_release(eager, gate);
    struct tensor *o = linear_of(block, 1, gated);
    block->output = op_add(eager, x, o);
    eager_release(eager, o);
    if (eager->replaying != NULL) {
        eager_release(eager, block->output);
        eager_release(eager, block->input);
        block->input = block->output = NULL;
    }
}

static void run_fused(struct eager *eager, void *context)
{
    struct block *block = context;
    const struct model_layer *layer = block->layer;
    const struct stu stu = { .norm = block->norm[0], .norm_bias = block->norm[1], .wide = block->weight[0], .wide_bias = block->bias[0],
                             .out_norm = block->norm[2], .out_norm_bias = block->norm[3], .out = block->weight[1],
                             .inner = block->weight[0]->rows / 4, .batch = block->build->batch, .heads = layer->heads,
                             .sequence = block->build->sequence, .causal = layer->causal };
    block->output = op_stu(eager, block->input, &stu);
    if (eager->replaying != NULL) {
        eager_release(eager, block->output);
        eager_release(eager, block->input);
        block->input = block->output = NULL;
    }
}

static struct tensor *forward_blocks(struct build *build, const struct model_layer *layer,
                                     const struct layer_parameters *of, struct tensor *x)
{
    void (*run)(struct eager *, void *) = layer->kind == LAYER_TRANSFORMER ? run_transformer : layer->fused ? run_fused : run_hstu;
    for (uint32_t i = 0; i < of->block_count; i++) {
        struct block *block = &of->blocks[i];
        block->input = x;
        fsdp_before_forward(block->unit);
        if (i < build->model->checkpoint * layer->count) {
            eager_checkpoint(build->eager, run, block);
            x = block->output; /* the region keeps its input */
        } else {
            run(build->eager, block);
            eager_release(build->eager, block->input);
            x = block->output;
        }
        x = block->unit != NULL ? fsdp_after_forward(block->unit, x) : x;
    }
    return x;
}

struct tensor *layer_forward(struct build *build, uint32_t index, struct tensor *x, struct tensor *pooled)
{
    const struct model_layer *layer = &build->model->layers[index];
    const struct layer_parameters *of = &build->layers[index];
    struct tensor *y = NULL;
    switch (layer->kind) {
    case LAYER_MLP: return forward_mlp(build, layer, of, x);
    case LAYER_DOT:
    case LAYER_DCN:
    case LAYER_FM: return forward_interaction(build, layer, of, x, pooled);
    case LAYER_TRANSFORMER:
    case LAYER_HSTU:
    case LAYER_GDPA: return forward_blocks(build, layer, of, x);
    default: /* the head; the loss comes behind it */
        if (layer->per_example) {
            y = op_last_positions(build->eager, x, build->batch);
            eager_release(build->eager, x);
            x = y;
        }
        y = op_linear(build->eager, x, of->list[0], layer->bias ? of->list[1] : NULL, true);
        eager_release(build->eager, x);
        return y;
    }
}

uint32_t layer_unit_count(const struct build *build)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_LAYERS_MAX; i++) {
        count += build->layers[i].block_count;
    }
    return count;
}

void layer_units(struct build *build, void (*add)(struct eager_unit *, struct parameter *), struct eager_unit *first,
                 size_t unit_bytes)
{
    char *at = (char *)first;
    for (uint32_t i = 0; i < MODEL_LAYERS_MAX; i++) {
        for (uint32_t b = 0; b < build->layers[i].block_count; b++, at += unit_bytes) {
            struct block *block = &build->layers[i].blocks[b];
            block->unit = (struct eager_unit *)(void *)at;
            for (uint32_t k = 0; k < 4; k++) {
                struct parameter *const all[] = { block->norm[k], block->weight[k], block->bias[k] };
                for (uint32_t p = 0; p < 3; p++) {
                    if (all[p] != NULL) {
                        add(block->unit, all[p]);
                    }
                }
            }
        }
    }
}

bool layer_takes_pooled(const struct model_layer *layer)
{
    return layer->kind == LAYER_DOT || layer->kind == LAYER_DCN || layer->kind == LAYER_FM;
}

void layers_finish(struct build *build)
{
    for (uint32_t i = 0; i < MODEL_LAYERS_MAX; i++) {
        free(build->layers[i].list);
        free(build->layers[i].blocks);
    }
}
