/* Fully sharded training (FSDP with a unit per block, ZeRO-2, ZeRO-3, HSDP): parameters live in shards of fp32; a unit's are
 * gathered in bf16 on a stream of their own before its forward pass and, under ZeRO-3, again before its backward pass, the
 * next unit's ahead of need; its gradients are reduced and scattered in fp32 as soon as they are all there.
 * After torch/distributed/fsdp/_runtime_utils.py, with BACKWARD_PRE prefetch. The root unit stays gathered over the step. */
#include "workloads/models/build_internal.h"
#include "workloads/models/tape_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define UNSHARD_STREAM 1
#define REDUCE_STREAM 2

struct eager_unit {
    struct fsdp *fsdp;
    struct parameter **list;
    uint32_t count, arrived;
    double elements;
    struct storage *gathered;
    uint32_t gathered_record, reduced_record;
    struct eager_unit *before; /* whose backward pass comes next */
};

struct fsdp {
    struct build *build;
    struct eager_unit *units; /* [0]: root */
    uint32_t unit_count;
    uint32_t shards, copies; /* GPUs that share a copy, and copies (HSDP) */
    bool reshard;            /* ZeRO-3: gathered parameters are dropped after the forward pass */
};

static void unit_add(struct eager_unit *unit, struct parameter *parameter)
{
    struct parameter **list = realloc(unit->list, (unit->count + 1) * sizeof(void *));
    SIM_ASSERT(list != NULL, "out of memory");
    unit->list = list;
    list[unit->count++] = parameter;
    unit->elements += parameter->rows * parameter->columns;
    parameter->unit = unit;
}

static void gather(struct eager_unit *unit)
{
    struct fsdp *fsdp = unit->fsdp;
    struct build *build = fsdp->build;
    struct eager *eager = build->eager;
    double shard = ceil(unit->elements / fsdp->shards);
    if (unit->gathered != NULL) {
        return;
    }
    eager_host(eager, "FullyShardedDataParallel._unshard .to ..copy_ .empty");
    unit->gathered = eager_storage(eager, unit->elements * 2, GRAPH_MEMORY_COMMUNICATION);
    eager_kernel_on(eager, UNSHARD_STREAM, "elementwise", "aten::copy_", "elementwise", "cast",
                    "n=%.0f;dtype_in=fp32;dtype_out=bf16;style=vectorized;cache=produced", shard);
    eager_host(eager, ".c10d::_allgather_base_ ..record_param_comms");
    eager_collective(eager, UNSHARD_STREAM, "all_gather", unit->elements * 2, fsdp->shards, build->group,
                     build->collective_sequence++);
    unit->gathered_record = eager_record(eager, UNSHARD_STREAM);
}

static void reshard(struct eager_unit *unit)
{
    eager_drop(unit->fsdp->build->eager, unit->gathered);
    unit->gathered = NULL;
}

/* ---- the hooks of a unit --------------------------------------------------------------------------------------- */

void fsdp_before_forward(struct eager_unit *unit)
{
    if (unit != NULL && unit->fsdp->build->eager->replaying == NULL) {
        gather(unit);
        eager_wait(unit->fsdp->build->eager, 0, unit->gathered_record);
        eager_host(unit->fsdp->build->eager, "split_with_sizes .as_strided view view view view view view view view");
    }
}

static void before_backward(struct eager *eager, struct function *f)
{
    struct eager_unit *unit = f->context;
    gather(unit);
    eager_wait(eager, 0, unit->gathered_record);
    if (unit->before != NULL) {
        gather(unit->before);
    }
    f->out[0] = eager_view(eager, f->in[0], f->in[0]->rows, f->in[0]->columns);
}

struct tensor *fsdp_after_forward(struct eager_unit *unit, struct tensor *y)
{
    struct eager *eager = unit->fsdp->build->eager;
    if (eager->replaying != NULL || eager->stopped) {
        return y;
    }
    struct tensor *out = eager_view(eager, y, y->rows, y->columns);
    struct checkpoint *recording = eager->recording;
    eager->recording = NULL; /* the hook is not recomputed */
    struct function *f = eager_function(eager, "FsdpPreBackward", before_backward, 1);
    eager->recording = recording;
    f->context = unit;
    eager_edge(f, 0, y);
    eager_produce(out, f, 0);
    eager_release(eager, y);
    if (unit->fsdp->reshard) {
        reshard(unit);
    }
    return out;
}

/* All gradients of the unit are there: into one list, to fp32, reduced and scattered. */
static void after_backward(struct eager_unit *unit)
{
    struct fsdp *fsdp = unit->fsdp;
    struct build *build = fsdp->build;
    struct eager *eager = build->eager;
    eager_host(eager, "FullyShardedDataParallel._post_backward_hook .cat .to ..copy_");
    struct storage *flat = eager_storage(eager, unit->elements * 2, GRAPH_MEMORY_GRADIENTS);
    eager_kernel(eager, "memory", "aten::cat", "cat", "concat", "rows=1;cols=%.0f;tensors=%u;dtype=bf16;cache=produced",
                 ceil(unit->elements / unit->count), unit->count);
    for (uint32_t i = 0; i < unit->count; i++) {
        eager_drop(eager, unit->list[i]->gradient);
        unit->list[i]->gradient = NULL;
    }
    if (unit != &fsdp->units[0] || fsdp->reshard) {
        reshard(unit);
    }
    struct storage *wide = eager_storage(eager, unit->elements * 4, GRAPH_MEMORY_GRADIENTS);
    struct storage *shard = eager_storage(eager, ceil(unit->elements / fsdp->shards) * 4, GRAPH_MEMORY_GRADIENTS);
    eager_wait(eager, REDUCE_STREAM, eager_record(eager, 0));
    eager_kernel_on(eager, REDUCE_STREAM, "elementwise", "aten::copy_", "elementwise", "cast",
                    "n=%.0f;dtype_in=bf16;dtype_out=fp32;style=unrolled;cache=produced", unit->elements);
    eager_host(eager, ".c10d::_reduce_scatter_base_ ..record_param_comms");
    eager_collective(eager, REDUCE_STREAM, "reduce_scatter", unit->elements * 4, fsdp->shards, build->group,
                     build->collective_sequence++);
    if (fsdp->copies > 1) {
        eager_host(eager, ".c10d::allreduce_ ..record_param_comms");
        eager_collective(eager, REDUCE_STREAM, "all_reduce", ceil(unit->elements / fsdp->shards) * 4, fsdp->copies,
                         "copies", build->collective_sequence++);
    }
    unit->reduced_record = eager_record(eager, REDUCE_STREAM);
    eager_drop(eager, flat);
    eager_drop(eager, wide);
    for (uint32_t i = 0; i < unit->count; i++) {
        unit->list[i]->gradient = eager_keep(shard);
    }
    eager_drop(eager, shard);
}

static void gradient_ready(void *context, struct eager *eager, struct parameter *parameter)
{
    struct eager_unit *unit = parameter->unit;
    (void)context;
    (void)eager;
    if (unit != NULL && ++unit->arrived == unit->count) {
        after_backward(unit);
    }
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

struct fsdp *fsdp_begin(struct build *build)
{
    const struct model *model = build->model;
    struct fsdp *fsdp = calloc(1, sizeof *fsdp);
    SIM_ASSERT(fsdp != NULL, "out of memory");
    fsdp->build = build;
    fsdp->reshard = model->parallel != PARALLEL_ZERO2;
    fsdp->shards = build->gpus;
    fsdp->copies = 1;
    if (model->parallel == PARALLEL_HSDP && build->gpus > model->per_node) {
        fsdp->shards = model->per_node;
        fsdp->copies = build->gpus / model->per_node;
    }
    fsdp->unit_count = 1 + layer_unit_count(build);
    fsdp->units = calloc(fsdp->unit_count, sizeof *fsdp->units);
    SIM_ASSERT(fsdp->units != NULL, "out of memory");
    for (uint32_t i = 0; i < fsdp->unit_count; i++) {
        fsdp->units[i].fsdp = fsdp;
        fsdp->units[i].before = i > 1 ? &fsdp->units[i - 1] : NULL;
    }
    layer_units(build, unit_add, fsdp->units + 1, sizeof *fsdp->units);
    for (uint32_t i = 0; i < build->eager->parameter_count; i++) {
        struct parameter *p = build->eager->parameters[i];
        if (p->unit == NULL && p->update == UPDATE_DENSE) {
            unit_add(&fsdp->units[0], p);
        }
        if (p->update == UPDATE_DENSE) {
            p->type = EAGER_BF16; /* what the operators see */
        }
    }
    build->eager->hooks.context = fsdp;
    build->eager->hooks.gradient_ready = gradient_ready;
    return fsdp;
}

double fsdp_shards(const struct fsdp *fsdp)
{
    return fsdp->shards;
}

struct eager_unit *fsdp_root(struct fsdp *fsdp)
{
    return &fsdp->units[0];
}

/* The optimiser waits for all reductions. */
void fsdp_end(struct fsdp *fsdp)
{
    if (fsdp == NULL) {
        return;
    }
    for (uint32_t i = 0; i < fsdp->unit_count; i++) {
        struct eager_unit *unit = &fsdp->units[i];
        if (unit->count > 0 && unit->arrived == unit->count) {
            eager_wait(fsdp->build->eager, 0, unit->reduced_record);
        }
        reshard(unit);
        free(unit->list);
        unit->list = NULL;
    }
    fsdp->build->eager->hooks.gradient_ready = NULL;
    free(fsdp->units);
    free(fsdp);
}
