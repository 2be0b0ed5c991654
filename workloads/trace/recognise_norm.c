/* Norms, softmax, losses and plain reductions: the operator's tensors give rows and columns. */
#include "workloads/trace/recognise_internal.h"
#include <stdlib.h>
#include <string.h>

static void build_matrix(struct recogniser *r, const char *suite, const char *kernel, double rows,
                         double columns, const char *dtype_key, const struct trace_tensor *x)
{
    recognised_as(r, suite, kernel);
    param_number(r, "rows", rows);
    param_number(r, "cols", columns);
    param_text(r, dtype_key, dtype_of_bytes(x->element_bytes));
    result_dtype(r, x->dtype);
}

/* ---- layer norm ------------------------------------------------------------------------------------------------ */

/* The normalised shape "[512]" gives the columns. */
static bool layer_matrix(const struct recogniser *r, size_t x_argument, size_t shape_argument,
                         const struct trace_tensor **x, double *rows, double *columns)
{
    int64_t shape[TENSOR_DIMS_MAX];
    *x = tensor_at(r, x_argument);
    size_t count = concrete_list(operator_concrete(r->tensors, shape_argument), shape, TENSOR_DIMS_MAX);
    if (*x == NULL || (*x)->element_bytes == 0 || count == SIZE_MAX || count == 0) {
        return false;
    }
    *columns = 1;
    for (size_t i = 0; i < count; i++) {
        *columns *= (double)shape[i];
    }
    *rows = *columns >= 1 ? tensor_elements(*x) / *columns : 0;
    return *rows >= 1;
}

static bool build_layer_forward(struct recogniser *r)
{
    const struct trace_tensor *x;
    double rows, columns;
    if (!layer_matrix(r, 0, 1, &x, &rows, &columns)) {
        return false;
    }
    build_matrix(r, "norm", "layer_forward", rows, columns, "dtype", x);
    param_in_step_cache(r);
    result_bytes(r, tensor_bytes(x), tensor_bytes(x), 8 * rows * columns);
    return true;
}

static bool build_layer_backward(struct recogniser *r, const char *kernel, double writes_matrix)
{
    const struct trace_tensor *gradient;
    double rows, columns;
    if (!layer_matrix(r, 0, 2, &gradient, &rows, &columns)) {
        return false;
    }
    build_matrix(r, "norm", kernel, rows, columns, "dtype", gradient);
    param_in_step_cache(r);
    result_bytes(r, 2 * tensor_bytes(gradient), writes_matrix * tensor_bytes(gradient), 12 * rows * columns);
    return true;
}

static bool build_layer_grad_input(struct recogniser *r)
{
    return build_layer_backward(r, "layer_grad_input", 1);
}

static bool build_layer_grad_weight(struct recogniser *r)
{
    return build_layer_backward(r, "layer_grad_weight", 0);
}

/* ---- softmax --------------------------------------------------------------------------------------------------- */

/* Over the innermost dimension only. */
static bool softmax_matrix(const struct recogniser *r, size_t dim_argument, const struct trace_tensor **x,
                           double *rows, double *columns)
{
    *x = tensor_at(r, 0);
    const char *text = operator_concrete(r->tensors, dim_argument);
    char *end;
    long axis = strtol(text, &end, 10);
    if (*x == NULL || (*x)->dim_count == 0 || (*x)->element_bytes == 0 || end == text) {
        return false;
    }
    long last = (long)(*x)->dim_count - 1;
    if (axis != -1 && axis != last) {
        return false;
    }
    *columns = (double)(*x)->dims[last];
    *rows = *columns >= 1 ? tensor_elements(*x) / *columns : 0;
    return *rows >= 1;
}

static bool build_softmax(struct recogniser *r, const char *kernel, size_t dim_argument, double reads)
{
    const struct trace_tensor *x;
    double rows, columns;
    if (!softmax_matrix(r, dim_argument, &x, &rows, &columns)) {
        return false;
    }
    build_matrix(r, "norm", kernel, rows, columns, "dtype_in", x);
    param_number(r, "log", strstr(innermost_operator(r), "log_softmax") != NULL);
    param_in_step_cache(r);
    result_bytes(r, reads * tensor_bytes(x), tensor_bytes(x), 5 * rows * columns);
    return true;
}

static bool build_softmax_forward(struct recogniser *r)
{
    return build_softmax(r, "softmax_forward", 1, 1);
}

static bool build_softmax_backward(struct recogniser *r)
{
    return build_softmax(r, "softmax_backward", 2, 2);
}

/* ---- losses ---------------------------------------------------------------------------------------------------- */

static bool build_nll(struct recogniser *r, const char *kernel, size_t scores_argument)
{
    const struct trace_tensor *scores = tensor_at(r, scores_argument);
    if (scores == NULL || scores->dim_count != 2 || scores->element_bytes == 0 ||
        tensor_elements(scores) < 1) {
        return false;
    }
    double rows = (double)scores->dims[0];
    build_matrix(r, "loss", kernel, rows, (double)scores->dims[1], "dtype", scores);
    param_in_step_cache(r);
    result_bytes(r, rows * (8 + scores->element_bytes), rows * scores->element_bytes, rows);
    return true;
}

static bool build_nll_forward(struct recogniser *r)
{
    return build_nll(r, "nll_forward", 0);
}

static bool build_nll_backward(struct recogniser *r)
{
    return build_nll(r, "nll_backward", 1);
}

/* ---- reductions ------------------------------------------------------------------------------------------------ */

/* The dimensions are the operator's second argument, "[0]", "[]" or nothing for all of them. */
static bool build_reduction(struct recogniser *r)
{
    const struct trace_tensor *x = tensor_at(r, 0);
    int64_t axes[TENSOR_DIMS_MAX];
    if (x == NULL || x->element_bytes == 0 || tensor_elements(x) < 1) {
        return false;
    }
    size_t count = concrete_list(operator_concrete(r->tensors, 1), axes, TENSOR_DIMS_MAX);
    bool reduced[TENSOR_DIMS_MAX] = { false };
    for (size_t i = 0; i < x->dim_count; i++) {
        reduced[i] = count == SIZE_MAX || count == 0;
    }
    for (size_t i = 0; count != SIZE_MAX && i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + (int64_t)x->dim_count : axes[i];
        if (axis < 0 || axis >= (int64_t)x->dim_count) {
            return false;
        }
        reduced[axis] = true;
    }
    double kept = 1, gone = 1;
    for (size_t i = 0; i < x->dim_count; i++) {
        *(reduced[i] ? &gone : &kept) *= (double)x->dims[i];
    }
    const char *dtype = dtype_of_bytes(x->element_bytes);
    if (kept == 1) {
        recognised_as(r, "reduction", "all");
        param_number(r, "n", gone);
    } else {
        bool inner = x->dim_count > 0 && reduced[x->dim_count - 1];
        recognised_as(r, "reduction", inner ? "rows" : "columns");
        param_number(r, "rows", inner ? kept : gone);
        param_number(r, "cols", inner ? gone : kept);
    }
    param_text(r, "dtype_in", dtype);
    param_in_step_cache(r);
    result_bytes(r, tensor_bytes(x), kept * x->element_bytes, tensor_elements(x));
    result_dtype(r, x->dtype);
    return true;
}

const struct recogniser_rule recogniser_norm_rules[] = {
    { "layer_norm_grad_input", NULL, "normalisation", build_layer_grad_input },
    { "GammaBetaBackward", NULL, "normalisation", build_layer_grad_weight },
    { "GradGammaBeta", NULL, "normalisation", build_layer_grad_weight },
    { "layer_norm", "native_layer_norm", "normalisation", build_layer_forward },
    { "LayerNorm", "native_layer_norm", "normalisation", build_layer_forward },
    { "SoftMaxForward", "softmax", "normalisation", build_softmax_forward },
    { "softmax_warp_forward", "softmax", "normalisation", build_softmax_forward },
    { "SoftMaxBackward", "softmax_backward", "normalisation", build_softmax_backward },
    { "softmax_warp_backward", "softmax_backward", "normalisation", build_softmax_backward },
    { "nll_loss_forward", NULL, "reduction", build_nll_forward },
    { "nll_loss_backward", NULL, "reduction", build_nll_backward },
    { "batch_norm", NULL, "normalisation", NULL },
    { "bn_", "batch_norm", "normalisation", NULL },
    { "reduce_kernel<", NULL, "reduction", build_reduction },
    { NULL, NULL, NULL, NULL },
};
