/* From a description to the graph of a step: each rank's parameters, forward pass, loss, backward pass, update. */
#include "workloads/models/build_internal.h"
#include "workloads/models/tape_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_own(const struct build *build, uint32_t table)
{
    return build->gpus == 1 || build->model->sequence_input || table % build->gpus == build->rank;
}

static void register_tables(struct build *build)
{
    const struct model *model = build->model;
    build->tables = calloc(model->table_count + 1, sizeof(void *));
    SIM_ASSERT(build->tables != NULL, "out of memory");
    for (uint32_t t = 0; t < model->table_count && model->lookup == LOOKUP_BAG; t++) {
        const struct model_table *table = &model->tables[t];
        if (!is_own(build, t)) {
            continue;
        }
        struct parameter *parameter = eager_parameter(build->eager, table->name, table->rows, table->dim);
        parameter->type = table->type;
        parameter->skew = table->skew;
        parameter->hot_share = table->hot_share;
        parameter->update = model->sparse_gradient ? UPDATE_SPARSE : UPDATE_DENSE;
        build->tables[t] = parameter;
        build->own_count++;
    }
}

static double state_bytes(enum model_optimizer optimizer, double rows, double columns)
{
    switch (optimizer) {
    case OPTIMIZER_ADAM:
    case OPTIMIZER_ADAMW: return 2 * rows * columns * 4;
    case OPTIMIZER_ROWWISE_ADAGRAD: return rows * 4;
    case OPTIMIZER_SHAMPOO: return (rows * columns + 2 * (rows * rows + columns * columns)) * 4;
    default: return 0;
    }
}

static void take_parameters(struct build *build)
{
    struct eager *eager = build->eager;
    for (uint32_t i = 0; i < eager->parameter_count; i++) {
        struct parameter *p = eager->parameters[i];
        bool table = p->update == UPDATE_SPARSE;
        enum model_optimizer optimizer = table ? build->model->tables[0].optimizer : build->model->optimizer;
        double shards = table ? 1 : eager->parameter_shards;
        double state = state_bytes(optimizer, p->rows, p->columns) / (table ? 1 : eager->state_shards);
        if (shards > 1) { /* fp32 shards; the gathered parameters belong to their unit */
            eager_permanent(eager, p->rows * p->columns * 4 / shards, GRAPH_MEMORY_PARAMETERS);
        } else {
            p->storage = eager_storage(eager, p->rows * p->columns * eager_type_bytes(p->type),
                                       table ? GRAPH_MEMORY_EMBEDDINGS : GRAPH_MEMORY_PARAMETERS);
        }
        if (state > 0) {
            eager_permanent(eager, state / 2, GRAPH_MEMORY_OPTIMIZER);
            eager_permanent(eager, state / 2, GRAPH_MEMORY_OPTIMIZER);
            eager_permanent(eager, 4, GRAPH_MEMORY_OPTIMIZER); /* step counter */
        }
    }
    eager_permanent(eager, build->model->workspace_mib * 1048576, GRAPH_MEMORY_WORKSPACE);
}

/* Inputs stay where they are from step to step: ids and offsets of bags, dense features, labels. */
static void take_inputs(struct build *build)
{
    const struct model *model = build->model;
    double all = build->batch * build->gpus;
    if (model->sequence_input) {
        eager_permanent(build->eager, build->positions * 8 * model->table_count, GRAPH_MEMORY_ACTIVATIONS);
        eager_permanent(build->eager, build->positions * 8, GRAPH_MEMORY_ACTIVATIONS);
        return;
    }
    for (uint32_t t = 0; model->lookup == LOOKUP_FUSED && t < model->table_count; t++) { /* of own examples, and received */
        eager_permanent(build->eager, 2 * build->batch * (model->tables[t].pooling + 1) * 8, GRAPH_MEMORY_ACTIVATIONS);
    }
    for (uint32_t t = 0; t < model->table_count; t++) {
        if (build->tables[t] != NULL) {
            eager_permanent(build->eager, all * model->tables[t].pooling * 8, GRAPH_MEMORY_ACTIVATIONS);
            eager_permanent(build->eager, all * 8, GRAPH_MEMORY_ACTIVATIONS);
        }
    }
    eager_permanent(build->eager, build->batch * 4, GRAPH_MEMORY_ACTIVATIONS);
}

static void register_all(struct build *build)
{
    double columns = build->model->sequence_input ? build->model->tables[0].dim : 0;
    register_tables(build);
    for (uint32_t i = 0; i < build->model->layer_count && build->status == SIM_OK; i++) {
        columns = layer_register(build, i, columns);
    }
}

/* ---- the step -------------------------------------------------------------------------------------------------- */

static struct tensor *pool_tables(struct build *build)
{
    const struct model *model = build->model;
    struct eager *eager = build->eager;
    struct tensor **parts = calloc(build->own_count + 1, sizeof(void *));
    uint32_t count = 0;
    SIM_ASSERT(parts != NULL, "out of memory");
    for (uint32_t t = 0; t < model->table_count; t++) {
        if (build->tables[t] != NULL) {
            parts[count++] = op_embedding_bag(eager, build->tables[t], build->batch * build->gpus,
                                              model->tables[t].pooling);
        }
    }
    struct tensor *stacked = op_stack(eager, parts, count);
    for (uint32_t i = 0; i < count; i++) {
        eager_release(eager, parts[i]);
    }
    free(parts);
    if (build->gpus == 1) {
        return stacked;
    }
    struct tensor *pooled = exchange_pooled(build, stacked);
    eager_release(eager, stacked);
    return pooled;
}

static struct tensor *forward(struct build *build)
{
    const struct model *model = build->model;
    struct eager *eager = build->eager;
    struct tensor *x = NULL, *pooled = NULL, *requested = NULL;
    if (build->sharded != NULL) {
        requested = sharded_request(build->sharded);
        eager_autocast_begin(eager);
        x = model->sequence_input ? sharded_wait(build->sharded, requested) : NULL;
    } else if (model->sequence_input) {
        eager_autocast_begin(eager);
        x = op_embedding(eager, build->tables[0], build->positions);
    } else {
        pooled = pool_tables(build);
        eager_autocast_begin(eager);
    }
    for (uint32_t i = 0; i < model->layer_count; i++) {
        if (model->layers[i].input > 0) {
            eager_release(eager, x);
            x = eager_tensor(eager, build->batch, model->layers[i].input, build->fsdp != NULL ? EAGER_BF16 : EAGER_FP32);
        }
        if (requested != NULL && pooled == NULL && layer_takes_pooled(&model->layers[i])) {
            pooled = sharded_wait(build->sharded, requested);
            if (build->fsdp != NULL) { /* inputs of sharded modules are cast */
                struct tensor *wide = pooled;
                pooled = op_cast(eager, wide, EAGER_BF16);
                eager_release(eager, wide);
            }
        }
        x = layer_forward(build, i, x, pooled);
    }
    eager_release(eager, pooled);
    eager_release(eager, requested);
    return x;
}

static struct tensor *loss_of(struct build *build, struct tensor *logits)
{
    struct eager *eager = build->eager;
    bool bce = build->model->bce;
    if (bce) {
        eager_autocast_end(eager);
    } else {
        eager_host(eager, "flatten .view");
    }
    struct tensor *wide = op_cast(eager, logits, EAGER_FP32);
    eager_release(eager, logits);
    struct tensor *loss = bce ? op_bce_loss(eager, wide) : op_cross_entropy(eager, wide);
    eager_release(eager, wide);
    if (!bce) {
        eager_autocast_end(eager);
    }
    return loss;
}

/* ZeRO-1: every GPU has updated its share of the parameters. */
static void gather_updated(struct build *build)
{
    double elements = 0;
    for (uint32_t i = 0; i < build->eager->parameter_count; i++) {
        const struct parameter *p = build->eager->parameters[i];
        elements += p->update == UPDATE_DENSE ? p->rows * p->columns : 0;
    }
    eager_host(build->eager, "c10d::_allgather_base_ .record_param_comms");
    eager_collective(build->eager, 0, "all_gather", elements * 4, build->gpus, build->group, build->collective_sequence++);
}

static void update(struct build *build)
{
    struct eager *eager = build->eager;
    for (uint32_t i = 0; i < eager->parameter_count; i++) {
        if (eager->parameters[i]->update == UPDATE_SPARSE && eager->parameters[i]->gradient != NULL) {
            op_sgd_sparse(eager, eager->parameters[i]);
        }
    }
    op_adam(eager, build->model->optimizer == OPTIMIZER_ADAMW ? "adamw" : "adam");
    if (build->gpus > 1 && build->model->parallel == PARALLEL_ZERO1) {
        gather_updated(build);
    }
    for (uint32_t i = 0; i < eager->parameter_count; i++) { /* zero_grad sets them to none */
        eager_drop(eager, eager->parameters[i]->gradient);
        eager->parameters[i]->gradient = NULL;
    }
}

static void run_step(struct build *build)
{
    bool parallel = build->gpus > 1;
    enum model_parallel kind = build->model->parallel;
    struct ddp *ddp = parallel && (kind == PARALLEL_DDP || kind == PARALLEL_ZERO1) ? ddp_begin(build) : NULL;
    if (build->fsdp != NULL) {
        fsdp_before_forward(fsdp_root(build->fsdp));
    }
    struct tensor *loss = loss_of(build, forward(build));
    eager_backward(build->eager, loss);
    ddp_end(ddp);
    fsdp_end(build->fsdp);
    if (parallel && build->model->parallel == PARALLEL_FLAT) {
        reduce_flat(build);
    }
    if (build->sharded != NULL) {
        sharded_reduce(build->sharded);
    }
    update(build);
    eager_release(build->eager, loss);
}

/* Sharded parameters and state, before memory is taken. */
static void begin_parallel(struct build *build)
{
    enum model_parallel parallel = build->model->parallel;
    if (build->gpus == 1) {
        return;
    }
    if (parallel == PARALLEL_ZERO2 || parallel == PARALLEL_ZERO3 || parallel == PARALLEL_HSDP) {
        build->fsdp = fsdp_begin(build);
        build->eager->autocast = false;
        build->eager->matrix_type = EAGER_BF16;
        build->eager->parameter_shards = build->eager->state_shards = fsdp_shards(build->fsdp);
    } else if (parallel == PARALLEL_ZERO1) {
        build->eager->state_shards = build->gpus;
    }
}

static enum sim_status build_rank(const struct model *model, struct graph *graph, uint32_t index, uint32_t rank,
                                  struct sim_error *error)
{
    struct build build = { .model = model,
                           .eager = eager_create(graph, index),
                           .rank = rank,
                           .gpus = model->gpus,
                           .batch = model->batch,
                           .sequence = model->sequence,
                           .positions = ceil(model->batch * model->sequence * model->length_share),
                           .group = "all",
                           .error = error };
    build.eager->autocast = model->precision == PRECISION_BF16_AUTOCAST;
    build.eager->matrix_type = model->precision == PRECISION_FP32 ? EAGER_FP32 : EAGER_BF16;
    register_all(&build);
    if (build.status == SIM_OK) {
        begin_parallel(&build);
    }
    if (build.status == SIM_OK && model->lookup == LOOKUP_FUSED) {
        build.sharded = sharded_begin(&build);
    }
    if (build.status == SIM_OK) {
        take_parameters(&build);
        take_inputs(&build);
        run_step(&build);
    }
    graph->ranks[index].rank_id = rank;
    graph->ranks[index].thread_count = 2;
    graph->ranks[index].stream_count = build.eager->streams;
    layers_finish(&build);
    sharded_end(build.sharded);
    free(build.tables);
    eager_destroy(build.eager);
    return build.status;
}

/* Lookups of a rank, the ids of all examples for its tables: what makes ranks differ. */
static double lookups_of(const struct model *model, uint32_t rank)
{
    double lookups = 0;
    if (model->plan != NULL) {
        struct plan_table *tables = model_plan_tables(model);
        lookups = plan_load(model->plan, tables, rank);
        free(tables);
        return lookups;
    }
    for (uint32_t t = rank; t < model->table_count && !model->sequence_input; t += model->gpus) {
        lookups += model->tables[t].pooling * model->tables[t].dim;
    }
    return lookups;
}

/* Bytes of tables on a rank. */
static double held_by(const struct model *model, uint32_t rank)
{
    double bytes = 0;
    if (model->plan == NULL) {
        return 0;
    }
    struct plan_table *tables = model_plan_tables(model);
    struct plan_shard *shards = calloc(model->plan->table_count + 1, sizeof *shards);
    SIM_ASSERT(shards != NULL, "out of memory");
    size_t count = plan_shards(model->plan, tables, rank, shards);
    for (size_t i = 0; i < count; i++) {
        bytes += plan_shard_bytes(&tables[shards[i].table], &shards[i]);
    }
    free(shards);
    free(tables);
    return bytes;
}

#define RANKS_ALL 8 /* up to so many ranks are all played; of more, the one with most to do, with least, and the fullest */
#define FULLER 1.05 /* than the other two: else it is one of them that says whether the step fits */
#define ALIKE 0.995 /* of the most lookups, by the rank with least, and of the fullest one's bytes: the one with most then stands for
                       all (a table cut by rows leaves its last owner a few rows short) */

/* Which ranks stand for all. Ranks that are not played arrive at collectives with the last that is. */
static uint32_t choose_ranks(const struct model *model, uint32_t chosen[RANKS_ALL])
{
    uint32_t most = 0, least = 0, fullest = 0;
    for (uint32_t rank = 1; rank < model->gpus; rank++) {
        fullest = held_by(model, rank) > held_by(model, fullest) ? rank : fullest;
        most = lookups_of(model, rank) > lookups_of(model, most) ? rank : most;
        least = lookups_of(model, rank) < lookups_of(model, least) ? rank : least;
    }
    if (lookups_of(model, least) >= ALIKE * lookups_of(model, most) && held_by(model, most) >= ALIKE * held_by(model, fullest)) {
        chosen[0] = most;
        return 1;
    }
    if (model->gpus <= RANKS_ALL) {
        for (uint32_t rank = 0; rank < model->gpus; rank++) {
            chosen[rank] = rank;
        }
        return model->gpus;
    }
    chosen[0] = most < least ? most : least;
    chosen[1] = most < least ? least : most;
    if (held_by(model, fullest) <= FULLER * fmax(held_by(model, most), held_by(model, least))) {
        return 2;
    }
    uint32_t at = 2;
    for (; at > 0 && chosen[at - 1] > fullest; at--) {
        chosen[at] = chosen[at - 1];
    }
    chosen[at] = fullest;
    return 3;
}

#define TABLES_EXPLAINED 8

static void note_plan(struct graph *graph, const struct model *model)
{
    struct plan_table *tables = model_plan_tables(model);
    char text[200];
    uint32_t shown = 0;
    graph_note(graph, "plan %s", model->plan->how);
    for (uint32_t t = 0; t < model->table_count && model->gpus > 1 && shown < TABLES_EXPLAINED; t++) {
        if (model->plan->entries[t].sharding != PLAN_DATA_PARALLEL) {
            plan_explain(model->plan, tables, t, text, sizeof text);
            graph_note(graph, "%s", text);
            shown++;
        }
    }
    free(tables);
}

/* What a layer finds in front of it. */
enum layer_input { INPUT_NONE, INPUT_EXAMPLES, INPUT_POSITIONS };

/* What is wrong with the place of a layer behind `before`, or NULL; `before` becomes what the layer leaves. */
static const char *misplaced(const struct model *model, const struct model_layer *layer, enum layer_input *before)
{
    bool attends = layer->kind == LAYER_TRANSFORMER || layer->kind == LAYER_HSTU || layer->kind == LAYER_GDPA;
    enum layer_input input = layer->input > 0 ? INPUT_EXAMPLES : *before;
    if (layer->input > 0 && model->sequence_input) {
        return "'input' is of dense features beside pooled tables: here it would leave the sequence unused";
    }
    if (input == INPUT_NONE) {
        return "nothing comes in: an mlp with 'input' or \"input\": \"sequence\" goes first";
    }
    if (attends && input != INPUT_POSITIONS) {
        return "attends to positions, and examples come in: \"input\": \"sequence\" is needed";
    }
    if (layer_takes_pooled(layer) && model->sequence_input) {
        return "meets pooled tables, of which a model with \"input\": \"sequence\" has none";
    }
    *before = layer_takes_pooled(layer) || layer->per_example ? INPUT_EXAMPLES : input;
    return NULL;
}

/* Every layer has its input, and somebody takes what the tables give. */
static enum sim_status check_layers(const struct model *model, struct sim_error *error)
{
    enum layer_input before = model->sequence_input ? INPUT_POSITIONS : INPUT_NONE;
    bool taken = model->sequence_input;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const char *wrong = misplaced(model, &model->layers[i], &before);
        if (wrong != NULL) {
            return sim_fail(error, SIM_BAD_FILE, "%s: layer %s: %s", model->path, model->layers[i].name, wrong);
        }
        taken = taken || layer_takes_pooled(&model->layers[i]);
    }
    return taken ? SIM_OK : sim_fail(error, SIM_BAD_FILE, "%s: no layer takes what the tables give: one of dot, dcn, fm does",
                                     model->path);
}

static enum sim_status check_model(const struct model *model, struct sim_error *error)
{
    for (uint32_t t = 1; t < model->table_count && model->sequence_input; t++) {
        if (model->tables[t].dim != model->tables[0].dim) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "%s: table %s: the tables of a sequence are added up and need one dim",
                            model->path, model->tables[t].name);
        }
    }
    if (model->deduplicated && (!model->sequence_input || model->lookup == LOOKUP_BAG)) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: \"deduplicated\" is of sequences with \"lookup\": \"fused\"", model->path);
    }
    for (uint32_t t = 0; t < model->table_count && model->lookup == LOOKUP_FUSED; t++) {
        if (fmod(model->tables[t].dim, PLAN_COLUMNS_GRAIN) != 0) { /* FBGEMM asserts it */
            return sim_fail(error, SIM_UNSUPPORTED, "%s: table %s has a dim of %g: fused lookups, sharded or not, take multiples of %d (--set lookup=bag has no such limit)",
                            model->path, model->tables[t].name, model->tables[t].dim, PLAN_COLUMNS_GRAIN);
        }
    }
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct model_layer *layer = &model->layers[i];
        if (layer->fused && model->precision != PRECISION_BF16) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "%s: layer %s: fused layers run in bf16: \"precision\" must be bf16", model->path,
                            layer->name);
        }
        if (layer->per_example && !model->sequence_input) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "%s: layer %s: \"per\": \"example\" is of a head over sequences", model->path,
                            layer->name);
        }
    }
    if (model->lookup == LOOKUP_BAG && model->sequence_input && model->table_count > 1) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: a sequence of %u tables needs \"lookup\": \"fused\"", model->path,
                        model->table_count);
    }
    if (model->lookup == LOOKUP_BAG && model->plan_name[0] != '\0') {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: a plan needs \"lookup\": \"fused\" (--set lookup=fused)", model->path);
    }
    if (model->lookup == LOOKUP_BAG && !model->sequence_input && model->gpus > model->table_count) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: %u GPUs and %u tables, one operator a table: use --set lookup=fused",
                        model->path, model->gpus, model->table_count);
    }
    return check_layers(model, error);
}

static enum sim_status build_graph(const struct model *model, struct graph **out, struct sim_error *error);

enum sim_status model_graph(const struct model *model, struct graph **out, struct sim_error *error)
{
    struct model planned = *model;
    struct plan *plan = NULL;
    enum sim_status status = check_model(model, error);
    *out = NULL;
    if (status == SIM_OK && model->lookup == LOOKUP_FUSED) {
        status = model_plan(model, &plan, error);
        planned.plan = plan;
    }
    if (status == SIM_OK) {
        status = build_graph(&planned, out, error);
    }
    plan_destroy(plan);
    return status;
}

static enum sim_status build_graph(const struct model *model, struct graph **out, struct sim_error *error)
{
    struct graph *graph = graph_create(model->name);
    enum sim_status status = SIM_OK;
    *out = NULL;
    if (model->plan != NULL) {
        note_plan(graph, model);
    }
    graph->world_size = model->gpus;
    graph->reserve_gib = model->reserve_gib;
    graph->reserve_share = model->reserve_share;
    graph->batch = model->batch;
    uint32_t chosen[RANKS_ALL], count = choose_ranks(model, chosen);
    graph_add_ranks(graph, count);
    for (uint32_t i = 0; status == SIM_OK && i < count; i++) {
        status = build_rank(model, graph, i, chosen[i], error);
    }
    if (status == SIM_OK) {
        status = graph_check(graph, error);
    }
    if (status != SIM_OK) {
        graph_destroy(graph);
        return status;
    }
    *out = graph;
    return SIM_OK;
}
