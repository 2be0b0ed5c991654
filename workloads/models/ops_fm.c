/* Operators of factorisation-machine layers (Wukong): feature matrices turned, multiplied per example, joined. */
#include "workloads/models/eager_internal.h"
#include "workloads/models/tape_internal.h"
#include <stdio.h>

/* ---- turn ------------------------------------------------------------------------------------------------------ */

static void turn_kernel(struct eager *eager, double batch, double rows, double columns, enum eager_type type)
{
    eager_kernel(eager, "elementwise", "aten::copy_", "transpose", "strided_copy",
                 "batch=%.0f;rows=%.0f;cols=%.0f;inner=1;dtype=%s;cache=produced", batch, rows, columns,
                 eager_type_text(type));
}

/* number: batch, and rows and columns of the input's matrices, and how the input counts its rows. */
static void turn_backward(struct eager *eager, struct function *f)
{
    double batch = f->number[0], m = f->number[1], n = f->number[2];
    enum eager_type type = f->in[0]->type;
    eager_host(eager, "..permute ...as_strided ..clone ...empty_like ....empty ...copy_");
    f->out[0] = eager_tensor(eager, f->number[3], batch * m * n / f->number[3], type);
    turn_kernel(eager, batch, n, m, type);
}

struct tensor *op_turn(struct eager *eager, struct tensor *x, double batch, double m, double n, double rows)
{
    eager_host(eager, "permute .as_strided contiguous .clone ..empty_like ...empty ..copy_");
    struct tensor *y = eager_tensor(eager, rows, batch * m * n / rows, x->type);
    struct function *f = eager_function(eager, "CloneBackward0", turn_backward, 1);
    if (f != NULL) {
        const double numbers[] = { batch, m, n, x->rows };
        for (uint32_t i = 0; i < 4; i++) {
            f->number[i] = numbers[i];
        }
        eager_edge(f, 0, x);
    }
    turn_kernel(eager, batch, m, n, x->type);
    eager_produce(y, f, 0);
    return y;
}

/* ---- products per example -------------------------------------------------------------------------------------- */

static void product(struct eager *eager, double batch, double m, double n, double k, const char *trans)
{
    const char *type = eager->matrix_type == EAGER_FP32 ? "tf32" : eager_type_text(eager->matrix_type);
    eager_kernel(eager, "gemm", "aten::bmm", "gemm", "bmm", "b=%.0f;M=%.0f;N=%.0f;K=%.0f;dtype=%s;trans=%s;cache=produced",
                 batch, m, n, k, type, trans);
}

/* number: batch, m, n, k, rows of b. */
static void batched_backward(struct eager *eager, struct function *f)
{
    double batch = f->number[0], m = f->number[1], n = f->number[2], k = f->number[3];
    enum eager_type type = f->in[0]->type;
    eager_host(eager, "..transpose ...as_strided ..bmm");
    f->out[0] = eager_tensor(eager, batch, m * k, type);
    product(eager, batch, m, k, n, "nt");
    eager_host(eager, "..transpose ...as_strided ..bmm");
    f->out[1] = eager_tensor(eager, f->number[4], batch * k * n / f->number[4], type);
    product(eager, batch, k, n, m, "tn");
}

struct tensor *op_batched_product(struct eager *eager, struct tensor *a, struct tensor *b, double batch, double m, double n,
                                  double k)
{
    bool casts = eager->inside_autocast;
    eager_host(eager, "bmm");
    struct tensor *left = casts ? op_cast(eager, a, eager->matrix_type) : eager_view(eager, a, a->rows, a->columns);
    struct tensor *right = casts ? op_cast(eager, b, eager->matrix_type) : eager_view(eager, b, b->rows, b->columns);
    struct tensor *y = eager_tensor(eager, batch, m * n, left->type);
    struct function *f = eager_function(eager, "BmmBackward0", batched_backward, 2);
    if (f != NULL) {
        const double numbers[] = { batch, m, n, k, b->rows };
        for (uint32_t i = 0; i < 5; i++) {
            f->number[i] = numbers[i];
        }
        eager_edge(f, 0, left);
        eager_edge(f, 1, right);
        eager_save(eager, f, 0, left->storage);
        eager_save(eager, f, 1, right->storage);
        eager_saved(eager, f);
    }
    product(eager, batch, m, n, k, "nn");
    eager_produce(y, f, 0);
    eager_release(eager, left);
    eager_release(eager, right);
    return y;
}

/* ---- join ------------------------------------------------------------------------------------------------------ */

/* number: columns of both. */
static void beside_backward(struct eager *eager, struct function *f)
{
    eager_host(eager, "..narrow ...slice ....as_strided ..narrow ...slice ....as_strided");
    for (uint32_t i = 0; i < 2; i++) {
        f->out[i] = eager_view(eager, f->in[0], f->in[0]->rows, f->number[i]);
        f->out[i]->strided = true;
        f->out[i]->pitch = f->number[0] + f->number[1];
    }
}

struct tensor *op_beside(struct eager *eager, struct tensor *a, struct tensor *b)
{
    eager_host(eager, "cat");
    struct tensor *y = eager_tensor(eager, a->rows, a->columns + b->columns, a->type);
    struct function *f = eager_function(eager, "CatBackward0", beside_backward, 2);
    if (f != NULL) {
        f->number[0] = a->columns;
        f->number[1] = b->columns;
        eager_edge(f, 0, a);
        eager_edge(f, 1, b);
    }
    eager_kernel(eager, "memory", "aten::cat", "cat", "concat", "rows=%.0f;cols=%.0f:%.0f;dtype=%s;cache=produced", a->rows,
                 a->columns, b->columns, eager_type_text(a->type));
    eager_produce(y, f, 0);
    return y;
}
