/* What parallel training adds: the exchange of pooled embeddings and the reduction of dense gradients. */
#include "workloads/models/build_internal.h"
#include "workloads/models/tape_internal.h"
#include <math.h>
#include <stdio.h>

static void strided_copy(struct eager *eager, double rows, double columns, double inner, enum eager_type type)
{
    eager_kernel(eager, "elementwise", "aten::copy_", "transpose", "strided_copy",
                 "batch=1;rows=%.0f;cols=%.0f;inner=%.0f;dtype=%s;cache=produced", rows, columns, inner,
                 eager_type_text(type));
}

static void all_to_all(struct build *build, struct eager *eager, double bytes)
{
    eager_collective(eager, 0, "all_to_all", bytes, build->gpus, build->group, build->collective_sequence++);
}

static void exchange_backward(struct eager *eager, struct function *f)
{
    struct build *build = f->context;
    struct tensor *gradient = f->in[0];
    double elements = tensor_elements_of(gradient), dim = gradient->columns;
    double tables = gradient->rows / build->batch;
    eager_host(eager, "..contiguous ...clone ....empty_like .....empty ....copy_");
    struct tensor *packed = eager_tensor(eager, gradient->rows, dim, gradient->type);
    strided_copy(eager, build->batch, tables, dim, gradient->type);
    eager_host(eager, "..empty_like ...empty_strided ..c10d::alltoall_base_ ...record_param_comms");
    struct tensor *received = eager_tensor(eager, build->own_count * build->batch * build->gpus, dim, gradient->type);
    eager_owned_by(eager, received->storage, GRAPH_MEMORY_COMMUNICATION);
    all_to_all(build, eager, elements * eager_type_bytes(gradient->type));
    eager_release(eager, packed);
    eager_host(eager, "autograd::engine::evaluate_function:CloneBackward0 .CloneBackward0 "
                      "autograd::engine::evaluate_function:TransposeBackward0 .TransposeBackward0 ..transpose ...as_strided "
                      "autograd::engine::evaluate_function:ViewBackward0 .ViewBackward0 ..reshape ...clone ....empty_like "
                      ".....empty ....copy_ ..._unsafe_view");
    f->out[0] = eager_tensor(eager, received->rows, dim, gradient->type);
    strided_copy(eager, build->gpus, build->own_count, build->batch * dim, gradient->type);
    eager_release(eager, received);
}

/* [own tables, all examples, dim] -> [all tables, own examples, dim]. */
struct tensor *exchange_pooled(struct build *build, struct tensor *stacked)
{
    struct eager *eager = build->eager;
    double dim = stacked->columns, inner = build->batch * dim;
    eager_host(eager, "view transpose .as_strided contiguous .clone ..empty_like ...empty ..copy_");
    struct tensor *packed = eager_tensor(eager, stacked->rows, dim, stacked->type);
    strided_copy(eager, build->own_count, build->gpus, inner, stacked->type);
    eager_host(eager, "A2A .empty_like ..empty_strided .c10d::alltoall_base_ ..record_param_comms");
    struct tensor *y = eager_tensor(eager, build->model->table_count * build->batch, dim, stacked->type);
    eager_owned_by(eager, y->storage, GRAPH_MEMORY_COMMUNICATION);
    struct function *f = eager_function(eager, "A2ABackward", exchange_backward, 1);
    if (f != NULL) {
        f->context = build;
        eager_edge(f, 0, stacked);
    }
    all_to_all(build, eager, tensor_elements_of(packed) * eager_type_bytes(stacked->type));
    eager_host(eager, "reshape .view");
    eager_produce(y, f, 0);
    eager_release(eager, packed);
    return y;
}

/* f = cat of all gradients; all_reduce(f); each gradient copied back. */
void reduce_flat(struct build *build)
{
    struct eager *eager = build->eager;
    double elements = 0;
    char columns[2048] = "";
    size_t used = 0, count = 0;
    for (uint32_t i = 0; i < eager->parameter_count; i++) {
        const struct parameter *p = eager->parameters[i];
        if (p->update == UPDATE_DENSE && p->gradient != NULL) {
            elements += p->rows * p->columns;
            eager_host(eager, "flatten .view");
            count++;
            if (used + 24 < 400) {
                used += (size_t)snprintf(columns + used, sizeof columns - used, "%s%.0f", used > 0 ? ":" : "",
                                         p->rows * p->columns);
            }
        }
    }
    eager_host(eager, "cat");
    struct tensor *flat = eager_tensor(eager, 1, elements, EAGER_FP32);
    eager_owned_by(eager, flat->storage, GRAPH_MEMORY_COMMUNICATION);
    if (used + 24 < 400) {
        eager_kernel(eager, "memory", "aten::cat", "cat", "concat", "rows=1;cols=%s;dtype=fp32;cache=produced", columns);
    } else {
        eager_kernel(eager, "memory", "aten::cat", "cat", "concat",
                     "rows=1;cols=%.0f;tensors=%zu;dtype=fp32;cache=produced", ceil(elements / (double)count), count);
    }
    eager_host(eager, "c10d::allreduce_ .record_param_comms");
    eager_collective(eager, 0, "all_reduce", elements * 4, build->gpus, build->group, build->collective_sequence++);
    for (uint32_t i = 0; i < eager->parameter_count; i++) {
        const struct parameter *p = eager->parameters[i];
        if (p->update == UPDATE_DENSE && p->gradient != NULL) {
            eager_host(eager, "slice .as_strided view_as .view copy_");
            eager_kernel(eager, "memory", "aten::copy_", "memory", "copy", "bytes=%.0f;cache=produced",
                         p->rows * p->columns * 4);
        }
    }
    eager_release(eager, flat);
}
