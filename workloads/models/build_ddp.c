/* DistributedDataParallel: gradients go into buckets in the order in which they come; a full bucket is reduced on a stream
 * of its own while the backward pass goes on, and copied back behind it (torch/csrc/distributed/c10d/reducer.cpp). */
#include "workloads/models/build_internal.h"
#include "workloads/models/tape_internal.h"
#include <stdlib.h>

#define FIRST_BUCKET_BYTES 1048576.0 /* so that the first reduction starts early */
#define REDUCTION_STREAM 1

struct bucket {
    double bytes;
    uint32_t first, count; /* parameters, in order of arrival */
    uint32_t reduced;      /* record behind its reduction */
};

struct ddp {
    struct build *build;
    struct parameter **arrived;
    uint32_t arrived_count;
    struct bucket *buckets;
    uint32_t bucket_count;
};

static struct bucket *open_bucket(struct ddp *ddp)
{
    struct bucket *buckets = realloc(ddp->buckets, (ddp->bucket_count + 1) * sizeof *buckets);
    SIM_ASSERT(buckets != NULL, "out of memory");
    ddp->buckets = buckets;
    buckets[ddp->bucket_count] = (struct bucket){ .first = ddp->arrived_count };
    return &buckets[ddp->bucket_count++];
}

static void reduce_bucket(struct ddp *ddp, struct bucket *bucket)
{
    struct build *build = ddp->build;
    struct eager *eager = build->eager;
    eager_host(eager, ".c10d::allreduce_ ..record_param_comms");
    eager_wait(eager, REDUCTION_STREAM, eager_record(eager, 0));
    eager_collective(eager, REDUCTION_STREAM, "all_reduce", bucket->bytes, build->gpus, build->group,
                     build->collective_sequence++);
    bucket->reduced = eager_record(eager, REDUCTION_STREAM);
}

static bool is_open(const struct ddp *ddp)
{
    return ddp->bucket_count > 0 && ddp->buckets[ddp->bucket_count - 1].reduced == UINT32_MAX;
}

static void gradient_ready(void *context, struct eager *eager, struct parameter *parameter)
{
    struct ddp *ddp = context;
    double elements = parameter->rows * parameter->columns;
    if (parameter->update != UPDATE_DENSE) {
        return;
    }
    if (!is_open(ddp)) {
        open_bucket(ddp)->reduced = UINT32_MAX;
    }
    struct bucket *bucket = &ddp->buckets[ddp->bucket_count - 1];
    struct parameter **arrived = realloc(ddp->arrived, (ddp->arrived_count + 1) * sizeof(void *));
    SIM_ASSERT(arrived != NULL, "out of memory");
    ddp->arrived = arrived;
    arrived[ddp->arrived_count++] = parameter;
    eager_host(eager, ".torch::distributed::reducer::mul_out ..mul");
    eager_kernel(eager, "elementwise", "aten::mul", "elementwise", "map",
                 "n=%.0f;bytes_in=%.0f;bytes_out=4;valu=1;sfu=0;style=vectorized;cache=produced", elements,
                 eager_type_bytes(parameter->type));
    bucket->bytes += elements * 4;
    bucket->count++;
    double full = ddp->bucket_count == 1 ? FIRST_BUCKET_BYTES : ddp->build->model->bucket_mib * 1048576;
    if (bucket->bytes >= full) {
        reduce_bucket(ddp, bucket);
    }
}

static void copy_back(struct ddp *ddp, const struct bucket *bucket)
{
    struct eager *eager = ddp->build->eager;
    eager_wait(eager, 0, bucket->reduced);
    for (uint32_t i = 0; i < bucket->count; i++) {
        eager_host(eager, "as_strided torch.distributed.ddp.reducer::copy_bucket_to_grad .copy_");
        const struct parameter *p = ddp->arrived[bucket->first + i];
        eager_kernel(eager, "memory", "aten::copy_", "memory", "copy", "bytes=%.0f;cache=produced",
                     p->rows * p->columns * 4);
    }
}

struct ddp *ddp_begin(struct build *build)
{
    struct ddp *ddp = calloc(1, sizeof *ddp);
    double bytes = 0;
    SIM_ASSERT(ddp != NULL, "out of memory");
    ddp->build = build;
    for (uint32_t i = 0; i < build->eager->parameter_count; i++) {
        const struct parameter *p = build->eager->parameters[i];
        bytes += p->update == UPDATE_DENSE ? p->rows * p->columns * 4 : 0;
    }
    /* Measured (gpt13b_ddp_B4): the peak holds two copies beside the gradients, one more than the buckets (DEVIATIONS). */
    eager_permanent(build->eager, bytes, GRAPH_MEMORY_COMMUNICATION);
    eager_permanent(build->eager, bytes, GRAPH_MEMORY_COMMUNICATION);
    build->eager->hooks.context = ddp;
    build->eager->hooks.gradient_ready = gradient_ready;
    return ddp;
}

void ddp_end(struct ddp *ddp)
{
    if (ddp == NULL) {
        return;
    }
    if (is_open(ddp)) {
        reduce_bucket(ddp, &ddp->buckets[ddp->bucket_count - 1]);
    }
    for (uint32_t i = 0; i < ddp->bucket_count; i++) {
        copy_back(ddp, &ddp->buckets[i]);
    }
    ddp->build->eager->hooks.gradient_ready = NULL;
    free(ddp->arrived);
    free(ddp->buckets);
    free(ddp);
}
