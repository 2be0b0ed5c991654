/* Casts, products, activations, normalisation and element-wise arithmetic. */
#include "workloads/models/eager_internal.h"
#include "workloads/models/tape_internal.h"
#include <math.h>
#include <stdio.h>

/* cuBLAS clears a tile counter before persistent kernels of many tiles: seen in traces from 2^23 results on. */
#define TILE_COUNTER_RESULTS 8388608.0

static const char *vectorized(bool strided)
{
    return strided ? "strided" : "vectorized";
}

/* ---- casts ----------------------------------------------------------------------------------------------------- */

/* From and to: fp32 to bf16 is one vectorised kernel, the way back an unrolled one. */
static void cast_kernel(struct eager *eager, double n, enum eager_type from, enum eager_type to)
{
    eager_kernel(eager, "elementwise", "aten::copy_", "elementwise", "cast",
                 "n=%.0f;dtype_in=%s;dtype_out=%s;style=%s;cache=produced", n, eager_type_text(from),
                 eager_type_text(to), from == EAGER_FP32 ? "vectorized" : "unrolled");
}

static void strided_cast_kernel(struct eager *eager, const struct tensor *x, enum eager_type to)
{
    eager_kernel(eager, "elementwise", "aten::copy_", "elementwise", "map",
                 "n=%.0f;bytes_in=%.0f;bytes_out=%.0f;valu=0;sfu=0;style=strided;repeat=1;run=%.0f;pitch=%.0f;"
                 "cache=produced",
                 tensor_elements_of(x), eager_type_bytes(x->type), eager_type_bytes(to), x->columns, x->pitch);
}

static void cast_backward(struct eager *eager, struct function *f)
{
    struct tensor *gradient = f->in[0];
    enum eager_type type = (enum eager_type)f->number[0];
    eager_host(eager, "..to ..._to_copy ....empty_strided ....copy_");
    struct tensor *out = eager_tensor(eager, gradient->rows, gradient->columns, type);
    if (gradient->strided) {
        strided_cast_kernel(eager, gradient, type);
    } else {
        cast_kernel(eager, tensor_elements_of(gradient), gradient->type, type);
    }
    f->out[0] = out;
}

static struct tensor *cast_as(struct eager *eager, const struct tensor *x, enum eager_type type, const char *calls)
{
    eager_host(eager, calls);
    struct tensor *y = eager_tensor(eager, x->rows, x->columns, type);
    if (x->strided) {
        strided_cast_kernel(eager, x, type);
    } else {
        cast_kernel(eager, tensor_elements_of(x), x->type, type);
    }
    if (x->wants_gradient) {
        struct function *f = eager_function(eager, "ToCopyBackward0", cast_backward, 1);
        if (f != NULL) {
            f->number[0] = x->type;
            eager_edge(f, 0, x);
            eager_produce(y, f, 0);
        }
    }
    return y;
}

struct tensor *op_cast(struct eager *eager, const struct tensor *x, enum eager_type type)
{
    if (x->type == type) {
        eager_host(eager, "to");
        return eager_view(eager, x, x->rows, x->columns);
    }
    return cast_as(eager, x, type, "to ._to_copy ..empty_strided ..copy_");
}

/* The copy of a parameter that products use: made once per autocast region. */
static struct tensor *parameter_cast(struct eager *eager, struct parameter *parameter)
{
    struct tensor whole = { .storage = parameter->storage,
                            .rows = parameter->rows,
                            .columns = parameter->columns,
                            .type = parameter->type };
    if (!eager->inside_autocast || parameter->type == eager->matrix_type) {
        struct tensor *view = eager_view(eager, &whole, whole.rows, whole.columns);
        view->parameter = parameter;
        return view;
    }
    if (parameter->cast == NULL) {
        eager_host(eager, ".to .._to_copy ...empty_strided ...copy_");
        struct tensor *cast = eager_tensor(eager, whole.rows, whole.columns, eager->matrix_type);
        cast_kernel(eager, tensor_elements_of(&whole), parameter->type, eager->matrix_type);
        struct function *f = eager_function(eager, "ToCopyBackward0", cast_backward, 1);
        if (f != NULL) {
            f->number[0] = parameter->type;
            eager_edge_parameter(eager, f, 0, parameter);
            eager_produce(cast, f, 0);
        }
        if (eager->stopped) {
            return cast;
        }
        parameter->cast = cast;
    }
    return eager_view(eager, parameter->cast, whole.rows, whole.columns);
}

static struct tensor *input_cast(struct eager *eager, const struct tensor *x)
{
    if (!eager->inside_autocast || x->type == eager->matrix_type) {
        return eager_view(eager, x, x->rows, x->columns);
    }
    return cast_as(eager, x, eager->matrix_type, ".to .._to_copy ...empty_strided ...copy_");
}

/* ---- matrix products ------------------------------------------------------------------------------------------- */

static const char *product_type(const struct eager *eager)
{
    return eager->matrix_type == EAGER_FP32 ? "tf32" : eager_type_text(eager->matrix_type);
}

static void gemm(struct eager *eager, double m, double n, double k, const char *trans, bool bias)
{
    const char *name = bias ? "aten::addmm" : "aten::mm";
    if (m * n > TILE_COUNTER_RESULTS) {
        eager_kernel(eager, "memory", name, "memory", "set", "bytes=4;cache=produced");
    }
    eager_kernel(eager, "gemm", name, "gemm", "mm", "M=%.0f;N=%.0f;K=%.0f;dtype=%s;trans=%s%s;cache=produced", m, n,
                 k, product_type(eager), trans, bias ? ";bias=1" : "");
}

static void sum_rows(struct eager *eager, double rows, double columns, enum eager_type type)
{
    eager_host(eager, "..t ...transpose ....as_strided .sum");
    if (columns == 1) {
        eager_kernel(eager, "reduction", "aten::sum", "reduction", "all", "n=%.0f;dtype_in=%s;cache=produced", rows,
                     eager_type_text(type));
    } else {
        eager_kernel(eager, "memory", "aten::sum", "memory", "set", "bytes=%.0f;cache=produced",
                     4 * ceil(columns / 128));
        eager_kernel(eager, "reduction", "aten::sum", "reduction", "columns",
                     "rows=%.0f;cols=%.0f;dtype_in=%s;cache=produced", rows, columns, eager_type_text(type));
    }
    eager_host(eager, ".view");
}

/* edges: 0 input, 1 weight, 2 bias; number: M, N, K, with bias, three-dimensional. */
static void linear_backward(struct eager *eager, struct function *f)
{
    double m = f->number[0], n = f->number[1], k = f->number[2];
    bool bias = f->number[3] > 0, views = f->number[4] > 0;
    enum eager_type type = f->in[0]->type;
    bool input_first = bias; /* addmm gives the input's gradient first, mm the weight's */
    for (int pass = 0; pass < 2; pass++) {
        bool of_input = (pass == 0) == input_first;
        if (of_input && wants(f, 0)) {
            eager_host(eager, bias ? "..t ...transpose ....as_strided ..mm"
                                   : "..t ...transpose ....as_strided ..t ...transpose ....as_strided ..mm");
            f->out[0] = eager_tensor(eager, m, k, type);
            gemm(eager, m, k, n, "nn", false);
        } else if (!of_input) {
            eager_host(eager, "..t ...transpose ....as_strided ..mm");
            f->out[1] = eager_tensor(eager, n, k, type);
            gemm(eager, n, k, m, "tn", false);
        }
    }
    if (bias) {
        f->out[2] = eager_tensor(eager, 1, n, type);
        sum_rows(eager, m, n, type);
    }
    eager_host(eager, "autograd::engine::evaluate_function:TBackward0 .TBackward0 ..t ...transpose ....as_strided");
    if (views) {
        eager_host(eager, "autograd::engine::evaluate_function:ViewBackward0 .ViewBackward0 ..reshape ...view "
                          "autograd::engine::evaluate_function:ViewBackward0 .ViewBackward0 ..reshape ...view");
    }
}

struct tensor *op_linear(struct eager *eager, struct tensor *x, struct parameter *weight, struct parameter *bias,
                         bool three_dimensional)
{
    double m = x->rows, n = weight->rows, k = weight->columns;
    SIM_ASSERT(x->columns == k, "%s: input of %g columns, weight of %g", weight->name, x->columns, k);
    eager_host(eager, "linear");
    struct tensor *b = bias != NULL ? parameter_cast(eager, bias) : NULL;
    struct tensor *w = parameter_cast(eager, weight);
    struct tensor *in = input_cast(eager, x);
    eager_host(eager, eager->inside_autocast ? ".linear ..t ...transpose ....as_strided"
                                             : ".t ..transpose ...as_strided");
    eager_host(eager, bias != NULL ? (three_dimensional ? "..view ..addmm ..view" : "..addmm")
                                   : (three_dimensional ? "..matmul ...reshape ....view ...mm ..._unsafe_view"
                                                        : "..matmul ...mm"));
    struct function *f = eager_function(eager, bias != NULL ? "AddmmBackward0" : "MmBackward0", linear_backward, 3);
    if (f != NULL) {
        f->number[0] = m;
        f->number[1] = n;
        f->number[2] = k;
        f->number[3] = bias != NULL;
        f->number[4] = three_dimensional;
        eager_edge(f, 0, in);
        if (w->parameter != NULL) {
            eager_edge_parameter(eager, f, 1, weight);
        } else {
            eager_edge(f, 1, w);
        }
        if (b != NULL && b->parameter != NULL) {
            eager_edge_parameter(eager, f, 2, bias);
        } else if (b != NULL) {
            eager_edge(f, 2, b);
        }
        eager_save(eager, f, 0, in->storage);
        eager_save(eager, f, 1, wants(f, 0) && w->parameter == NULL ? w->storage : NULL); /* a parameter stays anyway */
        eager_saved(eager, f);
    }
    struct tensor *y = eager_tensor(eager, m, n, in->type);
    if (bias != NULL && n == 1) { /* a single column is broadcast first */
        eager_host(eager, "...expand ....as_strided");
        eager_kernel(eager, "elementwise", "aten::addmm", "elementwise", "map",
                     "n=%.0f;bytes_in=%.0f;bytes_out=%.0f;valu=0;sfu=0;style=strided;repeat=1;run=1;pitch=0;"
                     "cache=produced",
                     m, eager_type_bytes(y->type), eager_type_bytes(y->type));
    }
    gemm(eager, m, n, k, "nt", bias != NULL && n > 1);
    eager_produce(y, f, 0);
    eager_release(eager, b);
    eager_release(eager, w);
    eager_release(eager, in);
    return y;
}

/* ---- activations ----------------------------------------------------------------------------------------------- */

/* Vector and special-function instructions per element, as recognised in traces (workloads/trace/recognise_pointwise.c). */
static const struct activation {
    const char *forward, *backward_name, *backward;
    int valu, sfu, valu_backward, sfu_backward;
    bool saves_result;
} activations[] = {
    [ACTIVATION_NONE] = { 0 },
    [ACTIVATION_RELU] = { "relu .clamp_min", "ReluBackward0", "..threshold_backward", 2, 0, 2, 0, true },
    [ACTIVATION_GELU] = { "gelu", "GeluBackward0", "..gelu_backward", 25, 1, 34, 2, false },
    [ACTIVATION_SILU] = { "silu", "SiluBackward0", "..silu_backward", 15, 2, 22, 2, false },
};

static void activation_backward(struct eager *eager, struct function *f)
{
    const struct activation *a = &activations[(int)f->number[0]];
    struct tensor *gradient = f->in[0];
    int bytes = (int)eager_type_bytes(gradient->type);
    eager_host(eager, a->backward);
    f->out[0] = eager_tensor(eager, gradient->rows, gradient->columns, gradient->type);
    eager_kernel(eager, "elementwise", a->backward + 2, "elementwise", "map",
                 "n=%.0f;bytes_in=%d:%d;bytes_out=%d;valu=%d;sfu=%d;style=vectorized;cache=produced",
                 tensor_elements_of(gradient), bytes, bytes, bytes, a->valu_backward, a->sfu_backward);
}

struct tensor *op_activation(struct eager *eager, struct tensor *x, enum eager_activation kind)
{
    const struct activation *a = &activations[kind];
    int bytes = (int)eager_type_bytes(x->type);
    if (kind == ACTIVATION_NONE) {
        return eager_view(eager, x, x->rows, x->columns);
    }
    eager_host(eager, a->forward);
    struct tensor *y = eager_tensor(eager, x->rows, x->columns, x->type);
    struct function *f = eager_function(eager, a->backward_name, activation_backward, 1);
    if (f != NULL) {
        f->number[0] = kind;
        eager_edge(f, 0, x);
        eager_save(eager, f, 0, a->saves_result ? y->storage : x->storage);
        eager_saved(eager, f);
    }
    eager_kernel(eager, "elementwise", a->forward, "elementwise", "map",
                 "n=%.0f;bytes_in=%d;bytes_out=%d;valu=%d;sfu=%d;style=vectorized;cache=produced",
                 tensor_elements_of(x), bytes, bytes, a->valu, a->sfu);
    eager_produce(y, f, 0);
    return y;
}

/* ---- layer norm ------------------------------------------------------------------------------------------------ */

static void layer_norm_backward(struct eager *eager, struct function *f)
{
    struct tensor *gradient = f->in[0];
    const char *type = eager_type_text(gradient->type);
    eager_host(eager, "..native_layer_norm_backward ...empty ...empty ...empty");
    f->out[0] = eager_tensor(eager, gradient->rows, gradient->columns, gradient->type);
    f->out[1] = eager_tensor(eager, 1, gradient->columns, gradient->type);
    f->out[2] = eager_tensor(eager, 1, gradient->columns, gradient->type);
    eager_kernel(eager, "normalisation", "aten::native_layer_norm_backward", "norm", "layer_grad_input",
                 "rows=%.0f;cols=%.0f;dtype=%s;cache=produced", gradient->rows, gradient->columns, type);
    eager_kernel(eager, "normalisation", "aten::native_layer_norm_backward", "norm", "layer_grad_weight",
                 "rows=%.0f;cols=%.0f;dtype=%s;cache=produced", gradient->rows, gradient->columns, type);
}

struct tensor *op_layer_norm(struct eager *eager, struct tensor *x, struct parameter *weight, struct parameter *bias)
{
    struct tensor *in;
    eager_host(eager, "layer_norm");
    if (eager->inside_autocast && x->type != EAGER_FP32) {
        in = cast_as(eager, x, EAGER_FP32, ".to .._to_copy ...empty_strided ...copy_");
    } else {
        in = eager_view(eager, x, x->rows, x->columns);
    }
    eager_host(eager, ".layer_norm ..native_layer_norm ...empty ...empty ...empty");
    struct tensor *y = eager_tensor(eager, in->rows, in->columns, in->type);
    struct storage *mean = eager_storage(eager, in->rows * 4, GRAPH_MEMORY_ACTIVATIONS);
    struct storage *spread = eager_storage(eager, in->rows * 4, GRAPH_MEMORY_ACTIVATIONS);
    struct function *f = eager_function(eager, "NativeLayerNormBackward0", layer_norm_backward, 3);
    if (f != NULL) {
        eager_edge(f, 0, in);
        eager_edge_parameter(eager, f, 1, weight);
        eager_edge_parameter(eager, f, 2, bias);
        eager_save(eager, f, 0, in->storage);
        eager_save(eager, f, 1, mean);
        eager_save(eager, f, 2, spread);
        eager_saved(eager, f);
    }
    eager_kernel(eager, "normalisation", "aten::native_layer_norm", "norm", "layer_forward",
                 "rows=%.0f;cols=%.0f;dtype=%s;cache=produced", in->rows, in->columns, eager_type_text(in->type));
    eager_host(eager, "...view ...view");
    eager_produce(y, f, 0);
    eager_drop(eager, mean);
    eager_drop(eager, spread);
    eager_release(eager, in);
    return y;
}

/* ---- sum and product ------------------------------------------------------------------------------------------- */

static enum eager_type wider(enum eager_type a, enum eager_type b)
{
    return a == EAGER_FP32 || b == EAGER_FP32 ? EAGER_FP32 : a;
}

/* One kernel over two operands; strided ones are named by their runs. */
static void binary_kernel(struct eager *eager, const char *name, const struct tensor *a, const struct tensor *b,
                          enum eager_type out)
{
    int bytes_a = (int)eager_type_bytes(a->type), bytes_b = (int)eager_type_bytes(b->type);
    double n = tensor_elements_of(a);
    if (a->strided || b->strided) {
        eager_kernel(eager, "elementwise", name, "elementwise", "map",
                     "n=%.0f;bytes_in=%d:%d;bytes_out=%.0f;valu=1;sfu=0;style=strided;repeat=1:1;run=%.0f:%.0f;"
                     "pitch=%.0f:%.0f;cache=produced",
                     n, bytes_a, bytes_b, eager_type_bytes(out), a->strided ? a->columns : 0,
                     b->strided ? b->columns : 0, a->strided ? a->pitch : 0, b->strided ? b->pitch : 0);
    } else {
        eager_kernel(eager, "elementwise", name, "elementwise", "map",
                     "n=%.0f;bytes_in=%d:%d;bytes_out=%.0f;valu=1;sfu=0;style=%s;cache=produced", n, bytes_a,
                     bytes_b, eager_type_bytes(out), bytes_a == bytes_b ? vectorized(false) : "unrolled");
    }
}

/* The gradient handed to both operands, cast where one is narrower. */
static void add_backward(struct eager *eager, struct function *f)
{
    for (uint32_t i = 0; i < 2; i++) {
        enum eager_type type = (enum eager_type)f->number[i];
        struct tensor *gradient = f->in[0];
        if (!wants(f, i)) {
            continue;
        }
        if (type == gradient->type) {
            f->out[i] = eager_view(eager, gradient, gradient->rows, gradient->columns);
        } else {
            eager_host(eager, ".to .._to_copy ...empty_strided ...copy_");
            f->out[i] = eager_tensor(eager, gradient->rows, gradient->columns, type);
            cast_kernel(eager, tensor_elements_of(gradient), gradient->type, type);
        }
    }
}

struct tensor *op_add(struct eager *eager, struct tensor *a, struct tensor *b)
{
    enum eager_type type = wider(a->type, b->type);
    eager_host(eager, "add");
    struct tensor *y = eager_tensor(eager, a->rows, a->columns, type);
    struct function *f = eager_function(eager, "AddBackward0", add_backward, 2);
    if (f != NULL) {
        f->number[0] = a->type;
        f->number[1] = b->type;
        eager_edge(f, 0, a);
        eager_edge(f, 1, b);
    }
    binary_kernel(eager, "aten::add", a, b, type);
    eager_produce(y, f, 0);
    return y;
}

/* edges: 0 self, 1 other; number: their types, and other's row length and pitch. */
static void multiply_backward(struct eager *eager, struct function *f)
{
    struct tensor *gradient = f->in[0];
    for (int pass = 1; pass >= 0; pass--) { /* other first */
        enum eager_type type = (enum eager_type)f->number[pass];
        struct tensor factor = *gradient;
        factor.type = (enum eager_type)f->number[1 - pass];
        factor.strided = f->number[3 - pass] > 0;
        factor.pitch = f->number[3 - pass];
        if (!wants(f, (uint32_t)pass)) {
            continue;
        }
        eager_host(eager, "..mul");
        struct tensor *out = eager_tensor(eager, gradient->rows, gradient->columns,
                                          wider(gradient->type, factor.type));
        binary_kernel(eager, "aten::mul", gradient, &factor, out->type);
        f->out[pass] = out;
        f->number[6 + pass] = type != out->type;
    }
    for (int pass = 0; pass < 2; pass++) {
        struct tensor *wide = f->out[pass];
        if (wide != NULL && f->number[6 + pass] > 0) {
            enum eager_type type = (enum eager_type)f->number[pass];
            eager_host(eager, ".to .._to_copy ...empty_strided ...copy_");
            f->out[pass] = eager_tensor(eager, wide->rows, wide->columns, type);
            cast_kernel(eager, tensor_elements_of(wide), wide->type, type);
            eager_release(eager, wide);
        }
    }
}

struct tensor *op_multiply(struct eager *eager, struct tensor *a, struct tensor *b)
{
    enum eager_type type = wider(a->type, b->type);
    eager_host(eager, "mul");
    struct tensor *y = eager_tensor(eager, a->rows, a->columns, type);
    struct function *f = eager_function(eager, "MulBackward0", multiply_backward, 2);
    if (f != NULL) {
        f->number[0] = a->type;
        f->number[1] = b->type;
        f->number[2] = a->strided ? a->pitch : 0; /* [2 + i]: pitch of operand i; factor of pass p is operand 1 - p */
        f->number[3] = b->strided ? b->pitch : 0;
        eager_edge(f, 0, a);
        eager_edge(f, 1, b);
        eager_save(eager, f, 0, a->storage);
        eager_save(eager, f, 1, b->storage);
        eager_saved(eager, f);
    }
    binary_kernel(eager, "aten::mul", a, b, type);
    eager_produce(y, f, 0);
    return y;
}

/* ---- chunks of the last dimension ------------------------------------------------------------------------------ */

static void chunk_backward(struct eager *eager, struct function *f)
{
    double count = f->number[0], rows = f->number[1], columns = f->number[2];
    enum eager_type type = (enum eager_type)f->number[3];
    eager_host(eager, "..cat");
    f->out[0] = eager_tensor(eager, rows, columns * count, type);
    eager_kernel(eager, "memory", "aten::cat", "cat", "concat",
                 "rows=%.0f;cols=%.0f;tensors=%.0f;dtype=%s;cache=produced", rows, columns, count,
                 eager_type_text(type));
}

void op_chunk(struct eager *eager, struct tensor *x, uint32_t count, struct tensor **parts)
{
    SIM_ASSERT(count <= FUNCTION_SLOTS, "%u chunks", count);
    eager_host(eager, "chunk .split");
    struct function *f = eager_function(eager, "SplitBackward0", chunk_backward, 1);
    if (f != NULL) {
        f->number[0] = count;
        f->number[1] = x->rows;
        f->number[2] = x->columns / count;
        f->number[3] = x->type;
        eager_edge(f, 0, x);
    }
    for (uint32_t i = 0; i < count; i++) {
        eager_host(eager, "..narrow ...slice ....as_strided");
        parts[i] = eager_view(eager, x, x->rows, x->columns / count);
        parts[i]->strided = true;
        parts[i]->pitch = x->columns;
        eager_produce(parts[i], f, i);
    }
}
