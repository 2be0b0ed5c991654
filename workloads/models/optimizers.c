/* What happens to the gradients: sparse SGD by table, fused Adam over lists of tensors. */
#include "workloads/models/eager_internal.h"
#include "workloads/models/tape_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void op_sgd_sparse(struct eager *eager, struct parameter *table)
{
    eager_host(eager, "add_ .add .._nnz ..result_type ..to .._values ..to .._indices ..sparse_dim ..is_coalesced "
                      "..squeeze ...as_strided ..view ..reshape ...view ..index_add_");
    char ids[64];
    eager_id_params(table, ids);
    eager_kernel(eager, "embedding", "aten::index_add_", "scatter", "index_add",
                 "n=%.0f;D=%.0f;rows=%.0f;dtype=fp32%s", table->sparse_rows, table->columns, table->rows, ids);
    eager_host(eager, "..copy_");
}

/* torch/csrc: MultiTensorApply.cuh. A launch takes so many tensors and so many chunks of so many elements. */
#define CHUNK_ELEMENTS 65536.0
#define CHUNKS_MAX 320
#define COUNTER_TENSORS_MAX 110 /* lists of one tensor each */
#define ADAM_TENSORS_MAX 36     /* four lists and the step counters */

static bool is_updated(const struct parameter *parameter)
{
    return parameter->update == UPDATE_DENSE && parameter->gradient != NULL;
}

struct adam_launch {
    double elements, tensors, chunks;
};

/* The parameters in order, cut where a launch is full of chunks or of tensors. */
static uint32_t cut_launches(const struct eager *eager, struct adam_launch *launches)
{
    struct adam_launch at = { 0 };
    uint32_t count = 0;
    for (uint32_t i = 0; i < eager->parameter_count; i++) {
        const struct parameter *parameter = eager->parameters[i];
        double left = ceil(parameter->rows * parameter->columns / eager->state_shards);
        if (!is_updated(parameter)) {
            continue;
        }
        for (at.tensors += 1; left > 0;) {
            double n = fmin(left, CHUNK_ELEMENTS);
            left -= n;
            at.elements += n;
            at.chunks += 1;
            if (at.chunks == CHUNKS_MAX || (left <= 0 && at.tensors == ADAM_TENSORS_MAX)) {
                launches[count++] = at;
                at = (struct adam_launch){ .tensors = left > 0 ? 1 : 0 };
            }
        }
    }
    if (at.chunks > 0) {
        launches[count++] = at;
    }
    return count;
}

/* Chunks of all parameters: no more launches than that. */
static size_t chunks_of(const struct eager *eager)
{
    double chunks = 1;
    for (uint32_t i = 0; i < eager->parameter_count; i++) {
        chunks += ceil(eager->parameters[i]->rows * eager->parameters[i]->columns / CHUNK_ELEMENTS);
    }
    return (size_t)chunks;
}

static void step_counters(struct eager *eager)
{
    double left = 0;
    for (uint32_t i = 0; i < eager->parameter_count; i++) {
        left += is_updated(eager->parameters[i]) ? 1 : 0;
    }
    eager_host(eager, "_foreach_add_");
    for (; left > 0; left -= COUNTER_TENSORS_MAX) {
        double n = fmin(left, COUNTER_TENSORS_MAX);
        eager_kernel(eager, "optimizer", "aten::_foreach_add_", "optimizer", "multi_tensor",
                     "elements=%.0f;reads=4;writes=4;tensors=%.0f;chunks=%.0f;valu=2;sfu=0;registers=32;"
                     "cache=produced",
                     n, n, n);
    }
}

/* Full launches are alike but for where their tensors end: they are given their mean, and so priced once. */
void op_adam(struct eager *eager, const char *kind)
{
    char call[24];
    struct adam_launch *launches = calloc(chunks_of(eager), sizeof *launches), mean = { 0 };
    SIM_ASSERT(launches != NULL, "out of memory");
    snprintf(call, sizeof call, "_fused_%s_", kind);
    step_counters(eager);
    eager_host(eager, call);
    uint32_t count = cut_launches(eager, launches), full = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (launches[i].chunks == CHUNKS_MAX) {
            full++;
            mean.elements += launches[i].elements;
            mean.tensors += launches[i].tensors;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct adam_launch *l = &launches[i];
        bool is_full = l->chunks == CHUNKS_MAX;
        eager_kernel(eager, "optimizer", call, "optimizer", "multi_tensor",
                     "elements=%.0f;reads=4:4:4:4;writes=4:4:4;tensors=%.0f;chunks=%.0f;cache=produced",
                     is_full ? floor(mean.elements / full) : l->elements,
                     is_full ? ceil(mean.tensors / full) : l->tensors, l->chunks);
    }
    free(launches);
}
