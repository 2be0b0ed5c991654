/* An HSTU layer as the public training code runs it (mlcommons/training recommendation_v4, ops/hstu_compute and ops/triton): two
 * autograd functions of a few kernels each. The first is norm, one product for gate, value, query and key, SiLU of the gate, and
 * attention; the second norm, gate and the three parts side by side in one kernel, and the output product onto the residual. They
 * keep the input, the gate and what was attended, and compute norm, product and the three parts again in the backward pass.
 * Both are played as one function here: nothing runs between them. */
#include "workloads/models/eager_internal.h"
#include "workloads/models/tape_internal.h"
#include <math.h>
#include <stdio.h>

enum stu_edge { STU_X, STU_NORM, STU_NORM_BIAS, STU_WIDE, STU_WIDE_BIAS, STU_OUT_NORM, STU_OUT_NORM_BIAS, STU_OUT, STU_EDGES };
enum stu_number { STU_TOKENS, STU_COLUMNS, STU_INNER, STU_BATCH, STU_HEADS, STU_SEQUENCE, STU_CAUSAL };

#define PARTS 3 /* side by side before the output product: gate, attended, gated norm */

static void product(struct eager *eager, double m, double n, double k, const char *trans, bool bias)
{
    eager_kernel(eager, "gemm", bias ? "aten::addmm" : "aten::mm", "gemm", "mm", "M=%.0f;N=%.0f;K=%.0f;dtype=%s;trans=%s%s;cache=produced",
                 m, n, k, eager->matrix_type == EAGER_FP32 ? "tf32" : eager_type_text(eager->matrix_type), trans, bias ? ";bias=1" : "");
}

/* A compiled kernel whose programs read `in` values of a position's columns and write `out`, of two bytes each. */
static void map(struct eager *eager, const char *name, double n, uint32_t in, uint32_t out, int valu, int sfu)
{
    static const char twos[] = "2:2:2:2:2:2";
    eager_kernel(eager, "normalisation", name, "elementwise", "map",
                 "n=%.0f;bytes_in=%.*s;bytes_out=%.*s;valu=%d;sfu=%d;style=vectorized;cache=produced", n, (int)(2 * in - 1), twos,
                 (int)(2 * out - 1), twos, valu, sfu);
}

static void attention(struct eager *eager, const double *number, const char *way)
{
    char kernel[16];
    double b = number[STU_BATCH], tokens = number[STU_TOKENS];
    snprintf(kernel, sizeof kernel, "hstu_%s", way);
    eager_kernel(eager, "attention", kernel, "attention", kernel,
                 "B=%.0f;S=%.0f;heads=%.0f;kv_heads=%.0f;d=%.0f;tokens=%.0f;sum_len2=%.0f;causal=%d", b, number[STU_SEQUENCE],
                 number[STU_HEADS], number[STU_HEADS], number[STU_INNER] / number[STU_HEADS], tokens, tokens * tokens / b,
                 number[STU_CAUSAL] > 0);
}

/* The gate is a quarter of the wide product's columns. */
static void gate(struct eager *eager, const double *number, bool backward)
{
    double inner = number[STU_INNER];
    if (backward) {
        eager_kernel(eager, "elementwise", "aten::silu_backward", "elementwise", "map",
                     "n=%.0f;bytes_in=2:2;bytes_out=2;valu=22;sfu=2;style=strided;repeat=1:1;run=%.0f:%.0f;pitch=%.0f:%.0f;cache=produced",
                     number[STU_TOKENS] * inner, inner, inner, inner, 4 * inner);
    } else {
        eager_kernel(eager, "elementwise", "aten::silu", "elementwise", "map",
                     "n=%.0f;bytes_in=2;bytes_out=2;valu=15;sfu=2;style=strided;repeat=1;run=%.0f;pitch=%.0f;cache=produced",
                     number[STU_TOKENS] * inner, inner, 4 * inner);
    }
}

static void norm(struct eager *eager, double tokens, double columns)
{
    eager_kernel(eager, "normalisation", "weighted_layer_norm_fwd", "inductor", "rmsnorm", "rows=%.0f;cols=%.0f;dtype=bf16", tokens,
                 columns);
}

static void backward(struct eager *eager, struct function *f)
{
    const double *number = f->number;
    double tokens = number[STU_TOKENS], columns = number[STU_COLUMNS], inner = number[STU_INNER];
    struct tensor *gradient = f->in[0];
    eager_host(eager, "..HSTUComputeOutputBackward ...mm ...empty_like ...empty_like ...empty_like ...mm");
    struct tensor *parts = eager_tensor(eager, tokens, PARTS * inner, gradient->type);
    product(eager, tokens, PARTS * inner, columns, "nn", false);
    struct tensor *of_attended = eager_tensor(eager, tokens, inner, gradient->type);
    struct tensor *again = eager_tensor(eager, tokens, PARTS * inner, gradient->type);
    map(eager, "ln_mul_dropout_bwd", tokens * inner, PARTS + 2, PARTS + 2, 40, 1);
    f->out[STU_OUT] = eager_tensor(eager, columns, PARTS * inner, gradient->type);
    product(eager, PARTS * inner, columns, tokens, "tn", false);
    eager_release(eager, parts);
    eager_release(eager, again);
    eager_host(eager, "..HSTUPreprocessAndAttentionBackward ...empty_like ...addmm ...empty_like ...silu_backward ...sum ...mm ...mm");
    struct tensor *normed = eager_tensor(eager, tokens, columns, gradient->type);
    norm(eager, tokens, columns);
    struct tensor *wide = eager_tensor(eager, tokens, 4 * inner, gradient->type);
    product(eager, tokens, 4 * inner, columns, "nt", true);
    struct tensor *of_wide = eager_tensor(eager, tokens, 4 * inner, gradient->type);
    attention(eager, number, "bwd");
    eager_release(eager, wide);
    eager_release(eager, of_attended);
    gate(eager, number, true);
    f->out[STU_WIDE_BIAS] = eager_tensor(eager, 1, 4 * inner, gradient->type);
    eager_kernel(eager, "reduction", "aten::sum", "reduction", "columns", "rows=%.0f;cols=%.0f;dtype_in=bf16;cache=produced", tokens,
                 4 * inner);
    struct tensor *of_normed = eager_tensor(eager, tokens, columns, gradient->type);
    product(eager, tokens, columns, 4 * inner, "nn", false);
    f->out[STU_WIDE] = eager_tensor(eager, 4 * inner, columns, gradient->type);
    product(eager, columns, 4 * inner, tokens, "tn", false);
    eager_release(eager, normed);
    eager_release(eager, of_wide);
    f->out[STU_X] = eager_tensor(eager, tokens, columns, gradient->type);
    map(eager, "weighted_layer_norm_bwd", tokens * columns, 2, 1, 20, 0);
    eager_release(eager, of_normed);
    eager_host(eager, "..add");
    map(eager, "aten::add", tokens * columns, 2, 1, 1, 0); /* of the residual */
    for (int norms = STU_NORM; norms <= STU_OUT_NORM; norms += STU_OUT_NORM - STU_NORM) {
        f->out[norms] = eager_tensor(eager, 1, norms == STU_NORM ? columns : inner, gradient->type);
        f->out[norms + 1] = eager_tensor(eager, 1, norms == STU_NORM ? columns : inner, gradient->type);
    }
}

struct tensor *op_stu(struct eager *eager, struct tensor *x, const struct stu *stu)
{
    double inner = stu->inner;
    double number[] = { x->rows, x->columns, inner, stu->batch, stu->heads, stu->sequence, stu->causal };
    struct parameter *const parameters[] = { NULL, stu->norm, stu->norm_bias, stu->wide, stu->wide_bias, stu->out_norm, stu->out_norm_bias, stu->out };
    eager_host(eager, "HSTUPreprocessAndAttention .empty_like .addmm .silu .empty_like");
    struct tensor *kept_gate = eager_tensor(eager, x->rows, inner, x->type), *attended = eager_tensor(eager, x->rows, inner, x->type);
    struct function *f = eager_function(eager, "HSTULayerBackward", backward, STU_EDGES);
    if (f != NULL) {
        for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
            f->number[i] = number[i];
        }
        eager_edge(f, STU_X, x);
        for (uint32_t i = STU_NORM; i < STU_EDGES; i++) {
            eager_edge_parameter(eager, f, i, parameters[i]);
        }
        eager_save(eager, f, 0, x->storage);
        eager_save(eager, f, 1, kept_gate->storage);
        eager_save(eager, f, 2, attended->storage);
        eager_saved(eager, f);
    }
    struct tensor *normed = eager_tensor(eager, x->rows, x->columns, x->type);
    norm(eager, x->rows, x->columns);
    struct tensor *wide = eager_tensor(eager, x->rows, 4 * inner, x->type);
    product(eager, x->rows, 4 * inner, x->columns, "nt", true);
    eager_release(eager, normed);
    gate(eager, number, false);
    attention(eager, number, "fwd");
    eager_release(eager, wide);
    eager_host(eager, "HSTUComputeOutput .empty .addmm ..copy_");
    struct tensor *parts = eager_tensor(eager, x->rows, PARTS * inner, x->type);
    map(eager, "ln_mul_dropout_fwd", x->rows * inner, 2, PARTS, 20, 1);
    struct tensor *y = eager_tensor(eager, x->rows, x->columns, x->type);
    eager_kernel(eager, "memory", "aten::copy_", "memory", "copy", "bytes=%.0f;cache=produced", x->rows * x->columns * 2); /* the residual */
    product(eager, x->rows, x->columns, PARTS * inner, "nn", false);
    eager_release(eager, parts);
    eager_release(eager, kept_gate);
    eager_release(eager, attended);
    eager_produce(y, f, 0);
    return y;
}

/* ---- the candidate's position of each sequence ------------------------------------------------------------------- */

static void split_backward(struct eager *eager, struct function *f)
{
    double tokens = f->number[0], columns = f->number[1];
    struct tensor *gradient = f->in[0];
    eager_host(eager, "..concat_2D_jagged ...empty");
    f->out[0] = eager_tensor(eager, tokens, columns, gradient->type);
    eager_kernel(eager, "elementwise", "concat_2D_jagged", "elementwise", "fill", "n=%.0f;dtype=%s;cache=produced", tokens * columns,
                 eager_type_text(gradient->type));
}

struct tensor *op_last_positions(struct eager *eager, struct tensor *x, double examples)
{
    eager_host(eager, "split_2D_jagged .empty .empty");
    struct tensor *y = eager_tensor(eager, examples, x->columns, x->type);
    struct function *f = eager_function(eager, "Split2DJaggedBackward", split_backward, 1);
    if (f != NULL) {
        f->number[0] = x->rows;
        f->number[1] = x->columns;
        eager_edge(f, 0, x);
    }
    eager_kernel(eager, "memory", "split_2D_jagged", "memory", "copy", "bytes=%.0f;cache=produced",
                 x->rows * x->columns * eager_type_bytes(x->type)); /* both parts are written */
    eager_produce(y, f, 0);
    return y;
}
