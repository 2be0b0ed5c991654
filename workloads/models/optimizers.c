/* What happens to the gradients: sparse SGD by table, fused Adam over lists of tensors. */
#include "workloads/models/eager_internal.h"
#include "workloads/models/tape_internal.h"
#include <math.h>
#include <stdio.h>

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

static void adam_launch(struct eager *eager, const char *name, double elements, double tensors, double chunks,
                        const char *bytes)
{
    eager_kernel(eager, "optimizer", name, "optimizer", "multi_tensor",
                 "elements=%.0f;reads=4:%s:4:4;writes=4:4:4;tensors=%.0f;chunks=%.0f;cache=produced", elements, bytes,
                 tensors, chunks);
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

void op_adam(struct eager *eager, const char *kind)
{
    char call[24];
    double elements = 0, tensors = 0, chunks = 0;
    snprintf(call, sizeof call, "_fused_%s_", kind);
    step_counters(eager);
    eager_host(eager, call);
    for (uint32_t i = 0; i < eager->parameter_count; i++) {
        const struct parameter *parameter = eager->parameters[i];
        double left = ceil(parameter->rows * parameter->columns / eager->state_shards);
        if (!is_updated(parameter)) {
            continue;
        }
        for (tensors += 1; left > 0;) {
            double n = fmin(left, CHUNK_ELEMENTS);
            left -= n;
            elements += n;
            chunks += 1;
            bool full = chunks == CHUNKS_MAX || (left <= 0 && tensors == ADAM_TENSORS_MAX);
            if (full) {
                adam_launch(eager, call, elements, tensors, chunks, "4");
                elements = chunks = 0;
                tensors = left > 0 ? 1 : 0;
            }
        }
    }
    if (chunks > 0) {
        adam_launch(eager, call, elements, tensors, chunks, "4");
    }
}
