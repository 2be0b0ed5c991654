/* Attention, embeddings of sequences and the losses. */
#include "workloads/models/eager_internal.h"
#include "workloads/models/tape_internal.h"
#include <math.h>
#include <stdio.h>

/* ---- attention ------------------------------------------------------------------------------------------------- */

static void attention_backward(struct eager *eager, struct function *f)
{
    double b = f->number[0], h = f->number[1], s = f->number[2], d = f->number[3];
    int causal = f->number[4] > 0;
    enum eager_type type = (enum eager_type)f->number[5];
    eager_host(eager, ".._scaled_dot_product_cudnn_attention_backward ..._cudnn_attention_backward ....empty_like "
                      ".....empty_strided ....empty_like .....empty_strided ....empty_like .....empty_strided");
    for (uint32_t i = 0; i < 3; i++) {
        f->out[i] = eager_tensor(eager, b * s, h * d, type);
    }
    struct storage *sums = eager_storage(eager, b * h * s * 4, GRAPH_MEMORY_ACTIVATIONS);
    struct storage *wide = eager_storage(eager, b * h * s * d * 4, GRAPH_MEMORY_ACTIVATIONS); /* dQ in fp32 */
    eager_kernel(eager, "memory", "aten::_cudnn_attention_backward", "memory", "set", "bytes=4;cache=produced");
    eager_kernel(eager, "attention", "aten::_cudnn_attention_backward", "attention", "dot_do_o",
                 "b=%.0f;h=%.0f;s=%.0f;d=%.0f;cache=produced", b, h, s, d);
    eager_kernel(eager, "attention", "aten::_cudnn_attention_backward", "attention", "sdpa_bwd",
                 "b=%.0f;h=%.0f;s=%.0f;d=%.0f;causal=%d;dtype=%s;launches=main;cache=produced", b, h, s, d, causal,
                 eager_type_text(type));
    eager_kernel(eager, "attention", "aten::_cudnn_attention_backward", "attention", "convert_dq",
                 "b=%.0f;h=%.0f;s=%.0f;d=%.0f;cache=produced", b, h, s, d);
    eager_drop(eager, sums);
    eager_drop(eager, wide);
    for (uint32_t i = 0; i < 3; i++) {
        eager_host(eager, "autograd::engine::evaluate_function:TransposeBackward0 .TransposeBackward0 ..transpose "
                          "...as_strided autograd::engine::evaluate_function:ViewBackward0 .ViewBackward0 ..reshape "
                          "...view");
    }
}

/* Jagged sequences, one compiled kernel each way; q, k and v are kept, no statistics. */
static void pointwise_kernel(struct eager *eager, const struct function *f, const char *kind, const char *way)
{
    char kernel[24];
    double b = f->number[0], tokens = f->number[6];
    snprintf(kernel, sizeof kernel, "%s_%s", kind, way);
    eager_kernel(eager, "attention", kernel, "attention", kernel,
                 "B=%.0f;S=%.0f;heads=%.0f;kv_heads=%.0f;d=%.0f;tokens=%.0f;sum_len2=%.0f;causal=%d", b, f->number[2],
                 f->number[1], f->number[1], f->number[3], tokens, tokens * tokens / b, f->number[4] > 0);
}

static void pointwise_backward(struct eager *eager, struct function *f)
{
    double columns = f->number[1] * f->number[3];
    eager_host(eager, "..empty_like ...empty_strided ..empty_like ...empty_strided ..empty_like ...empty_strided");
    for (uint32_t i = 0; i < 3; i++) {
        f->out[i] = eager_tensor(eager, f->number[6], columns, (enum eager_type)f->number[5]);
    }
    pointwise_kernel(eager, f, f->context, "bwd");
}

static struct tensor *pointwise_attention(struct eager *eager, struct tensor *const inputs[3], const double *numbers,
                                          const char *kind)
{
    struct tensor *q = inputs[0];
    eager_host(eager, "view view view PointwiseAttention .empty_like ..empty_strided");
    struct tensor *y = eager_tensor(eager, q->rows, q->columns, q->type);
    struct function shapes = { 0 }, *f = eager_function(eager, "PointwiseAttentionBackward", pointwise_backward, 3);
    for (uint32_t i = 0; i < 7; i++) {
        shapes.number[i] = numbers[i];
        if (f != NULL) {
            f->number[i] = numbers[i];
        }
    }
    for (uint32_t i = 0; f != NULL && i < 3; i++) {
        f->context = (void *)(uintptr_t)kind;
        eager_edge(f, i, inputs[i]);
        eager_save(eager, f, i, inputs[i]->storage);
    }
    eager_saved(eager, f);
    pointwise_kernel(eager, &shapes, kind, "fwd");
    eager_produce(y, f, 0);
    return y;
}

struct tensor *op_attention(struct eager *eager, struct tensor *q, struct tensor *k, struct tensor *v, double batch,
                            double heads, double sequence, bool causal, const char *pointwise)
{
    double d = q->columns / heads;
    if (pointwise != NULL) {
        const double numbers[] = { batch, heads, sequence, d, causal, q->type, q->rows };
        return pointwise_attention(eager, (struct tensor *const[]){ q, k, v }, numbers, pointwise);
    }
    struct tensor *const inputs[] = { q, k, v };
    SIM_ASSERT(q->rows == batch * sequence, "attention over %g rows, %g x %g expected", q->rows, batch, sequence);
    eager_host(eager, "view transpose .as_strided view transpose .as_strided view transpose .as_strided "
                      "scaled_dot_product_attention .scaled_dot_product_attention "
                      ".._scaled_dot_product_cudnn_attention ..._cudnn_attention_forward ....empty ....empty "
                      "....empty_like .....empty_strided ....empty");
    struct tensor *y = eager_tensor(eager, q->rows, q->columns, q->type);
    struct storage *statistics = eager_storage(eager, batch * heads * sequence * 4, GRAPH_MEMORY_ACTIVATIONS);
    struct function *f = eager_function(eager, "ScaledDotProductCudnnAttentionBackward0", attention_backward, 3);
    if (f != NULL) {
        const double numbers[] = { batch, heads, sequence, d, causal, q->type };
        for (uint32_t i = 0; i < 6; i++) {
            f->number[i] = numbers[i];
        }
        for (uint32_t i = 0; i < 3; i++) {
            eager_edge(f, i, inputs[i]);
            eager_save(eager, f, i, inputs[i]->storage);
        }
        eager_save(eager, f, 3, y->storage);
        eager_save(eager, f, 4, statistics);
        eager_saved(eager, f);
    }
    eager_kernel(eager, "memory", "aten::_cudnn_attention_forward", "memory", "set", "bytes=4;cache=produced");
    eager_kernel(eager, "attention", "aten::_cudnn_attention_forward", "attention", "sdpa_fwd",
                 "b=%.0f;h=%.0f;s=%.0f;d=%.0f;causal=%d;dtype=%s;cache=produced", batch, heads, sequence, d, causal,
                 eager_type_text(q->type));
    eager_host(eager, "transpose .as_strided reshape .view");
    eager_produce(y, f, 0);
    eager_drop(eager, statistics);
    return y;
}

/* ---- one id, one row ------------------------------------------------------------------------------------------- */

static void embedding_sparse_backward(struct eager *eager, struct function *f)
{
    struct tensor *gradient = f->in[0];
    eager_host(eager, "..embedding_backward ...embedding_sparse_backward ....reshape .....view ....reshape .....view "
                      "....to ...._sparse_coo_tensor_unsafe ....._sparse_coo_tensor_with_dims_and_tensors "
                      "......empty ......empty ......resize_ ......resize_");
    f->out[0] = eager_view(eager, gradient, gradient->rows, gradient->columns);
}

#define SORT_PASSES 8 /* 64-bit keys, 8 bits a pass */

/* Sort the ids, find the segments, sum each: mostly small kernels whose programs are not there yet, so by their bytes. */
static void embedding_dense_backward(struct eager *eager, struct function *f)
{
    static const char name[] = "aten::embedding_dense_backward";
    double ids = f->number[0], rows = f->number[1], columns = f->number[2], index_bytes = 2 * ids * 8;
    struct tensor *gradient = f->in[0];
    eager_host(eager, "..embedding_backward ...embedding_dense_backward ....view ....empty_like .....empty "
                      "....empty_like .....empty ....arange .....empty .....arange ......resize_");
    struct storage *sorted = eager_storage(eager, 4 * ids * 8, GRAPH_MEMORY_ACTIVATIONS);
    eager_kernel(eager, "elementwise", name, "elementwise", "fill", "n=%.0f;dtype=int64;cache=produced", ids);
    eager_kernel(eager, "memory", name, "memory", "set", "bytes=32;cache=produced");
    eager_kernel(eager, "memory", name, "memory", "set", "bytes=16384;cache=produced");
    eager_kernel_bytes(eager, "sort", name, index_bytes, index_bytes);
    eager_kernel_bytes(eager, "sort", name, index_bytes, index_bytes);
    for (int pass = 0; pass < SORT_PASSES; pass++) {
        eager_kernel(eager, "memory", name, "memory", "set", "bytes=%.0f;cache=produced", ceil(ids / 4));
        eager_kernel_bytes(eager, "sort", name, index_bytes, index_bytes);
    }
    eager_host(eager, "....zeros .....empty .....zero_ ......fill_");
    f->out[0] = eager_tensor(eager, rows, columns, gradient->type);
    eager_kernel(eager, "elementwise", "aten::fill_", "elementwise", "fill", "n=%.0f;dtype=%s;cache=produced",
                 rows * columns, eager_type_text(gradient->type));
    for (int i = 0; i < 7; i++) {
        eager_host(eager, "....empty");
        eager_kernel_bytes(eager, "sort", name, index_bytes, index_bytes);
    }
    for (int i = 0; i < 2; i++) {
        double bytes = ids * columns * eager_type_bytes(gradient->type);
        eager_kernel_bytes(eager, "embedding", name, bytes, bytes);
    }
    eager_drop(eager, sorted);
}

struct tensor *op_embedding(struct eager *eager, struct parameter *table, double ids)
{
    bool sparse = table->update == UPDATE_SPARSE;
    eager_host(eager, "embedding .reshape ..view .index_select ..empty ..resize_ ..view ..expand ...as_strided "
                      "..gather ...as_strided ...as_strided");
    struct tensor *y = eager_tensor(eager, ids, table->columns, table->type);
    struct function *f = eager_function(eager, "EmbeddingBackward0",
                                        sparse ? embedding_sparse_backward : embedding_dense_backward, 1);
    if (f != NULL) {
        f->number[0] = ids;
        f->number[1] = table->rows;
        f->number[2] = table->columns;
        eager_edge_parameter(eager, f, 0, table);
    }
    table->sparse_rows = ids;
    eager_kernel(eager, "embedding", "aten::gather", "scatter", "index_select", "n=%.0f;D=%.0f;rows=%.0f;dtype=fp32",
                 ids, ceil(table->columns * eager_type_bytes(table->type) / 4), table->rows);
    eager_host(eager, ".view");
    eager_produce(y, f, 0);
    return y;
}

/* ---- losses ---------------------------------------------------------------------------------------------------- */

static void bce_map(struct eager *eager, const char *name, double n, const char *in, int valu, int sfu,
                    const char *style)
{
    eager_kernel(eager, "elementwise", name, "elementwise", "map",
                 "n=%.0f;bytes_in=%s;bytes_out=4;valu=%d;sfu=%d;style=%s;cache=produced", n, in, valu, sfu, style);
}

static void bce_backward(struct eager *eager, struct function *f)
{
    double n = f->number[0];
    eager_host(eager, "..sigmoid");
    f->out[0] = eager_tensor(eager, n, 1, EAGER_FP32);
    bce_map(eager, "aten::sigmoid", n, "4", 14, 2, "vectorized");
    eager_host(eager, "..sub_");
    bce_map(eager, "aten::sub_", n, "4:4", 1, 0, "vectorized");
    eager_host(eager, "..mul_");
    bce_map(eager, "aten::mul_", n, "4", 1, 0, "strided");
    eager_host(eager, "..div_ ...div_");
    bce_map(eager, "aten::div_", n, "4", 1, 0, "vectorized");
}

struct tensor *op_bce_loss(struct eager *eager, struct tensor *logits)
{
    double n = tensor_elements_of(logits);
    eager_host(eager, "binary_cross_entropy_with_logits .log_sigmoid ..log_sigmoid_forward ...empty_like "
                      "....empty_strided ...empty");
    struct tensor *wide = eager_tensor(eager, n, 1, EAGER_FP32);
    bce_map(eager, "aten::log_sigmoid_forward", n, "4", 22, 2, "vectorized");
    eager_host(eager, ".empty_like ..empty_strided .fill_");
    eager_kernel(eager, "elementwise", "aten::fill_", "elementwise", "fill", "n=%.0f;dtype=fp32;cache=produced", n);
    static const char *const steps[] = { ".sub_", ".mul_", ".sub_" };
    for (int i = 0; i < 3; i++) {
        eager_host(eager, steps[i]);
        bce_map(eager, "aten::sub_", n, "4:4", 1, 0, "vectorized");
    }
    eager_host(eager, ".mean ..mean ...as_strided");
    struct tensor *loss = eager_tensor(eager, 1, 1, EAGER_FP32);
    struct function *f = eager_function(eager, "BinaryCrossEntropyWithLogitsBackward0", bce_backward, 1);
    if (f != NULL) {
        f->number[0] = n;
        eager_edge(f, 0, logits);
        eager_save(eager, f, 0, logits->storage);
        eager_saved(eager, f);
    }
    eager_kernel(eager, "reduction", "aten::mean", "reduction", "all", "n=%.0f;dtype_in=fp32;cache=produced", n);
    eager_produce(loss, f, 0);
    eager_release(eager, wide);
    return loss;
}

static void log_softmax_backward(struct eager *eager, struct function *f)
{
    struct tensor *gradient = f->in[0];
    eager_host(eager, ".._log_softmax_backward_data");
    f->out[0] = eager_tensor(eager, gradient->rows, gradient->columns, EAGER_FP32);
    eager_kernel(eager, "normalisation", "aten::_log_softmax_backward_data", "norm", "softmax_backward",
                 "rows=%.0f;cols=%.0f;dtype_in=fp32;log=1;cache=produced", gradient->rows, gradient->columns);
}

static void nll_backward(struct eager *eager, struct function *f)
{
    double rows = f->number[0], columns = f->number[1];
    eager_host(eager, "..nll_loss_backward ...zero_ ....fill_");
    f->out[0] = eager_tensor(eager, rows, columns, EAGER_FP32);
    eager_kernel(eager, "elementwise", "aten::fill_", "elementwise", "fill", "n=%.0f;dtype=fp32;cache=produced",
                 rows * columns);
    eager_kernel(eager, "reduction", "aten::nll_loss_backward", "loss", "nll_backward",
                 "rows=%.0f;cols=%.0f;dtype=fp32;cache=produced", rows, columns);
}

struct tensor *op_cross_entropy(struct eager *eager, struct tensor *logits)
{
    eager_host(eager, "cross_entropy_loss .log_softmax ..log_softmax ...to ..._log_softmax");
    struct tensor *logs = eager_tensor(eager, logits->rows, logits->columns, EAGER_FP32);
    struct function *soft = eager_function(eager, "LogSoftmaxBackward0", log_softmax_backward, 1);
    if (soft != NULL) {
        eager_edge(soft, 0, logits);
        eager_save(eager, soft, 0, logs->storage);
        eager_saved(eager, soft);
    }
    eager_kernel(eager, "normalisation", "aten::_log_softmax", "norm", "softmax_forward",
                 "rows=%.0f;cols=%.0f;dtype_in=fp32;log=1;cache=produced", logits->rows, logits->columns);
    eager_produce(logs, soft, 0);
    eager_host(eager, ".nll_loss_nd ..nll_loss ...nll_loss ....nll_loss_forward .....resize_");
    struct tensor *loss = eager_tensor(eager, 1, 1, EAGER_FP32);
    struct function *nll = eager_function(eager, "NllLossBackward0", nll_backward, 1);
    if (nll != NULL) {
        nll->number[0] = logits->rows;
        nll->number[1] = logits->columns;
        eager_edge(nll, 0, logs);
        eager_save(eager, nll, 0, logs->storage);
        eager_saved(eager, nll);
    }
    eager_kernel(eager, "reduction", "aten::nll_loss_forward", "loss", "nll_forward",
                 "rows=%.0f;cols=%.0f;dtype=fp32;cache=produced", logits->rows, logits->columns);
    eager_produce(loss, nll, 0);
    eager_release(eager, logs);
    return loss;
}
