/* Fused attention: shapes from the framework's attention operator around the launch, which has [batch, heads, sequence,
 * width] whatever layout the library's own operator below it uses. */
#include "workloads/trace/recognise_internal.h"
#include <string.h>

struct attention_operator {
    const char *name;
    size_t query, causal;
    bool backward;
};

/* Argument numbers of the operators' schemas (PyTorch 2.11, native_functions.yaml). */
static const struct attention_operator attention_operators[] = {
    { "aten::scaled_dot_product_attention", 0, 5, false },
    { "aten::_scaled_dot_product_cudnn_attention", 0, 6, false },
    { "aten::_scaled_dot_product_efficient_attention", 0, 6, false },
    { "aten::_scaled_dot_product_flash_attention", 0, 4, false },
    { "aten::_scaled_dot_product_cudnn_attention_backward", 1, 14, true },
    { "aten::_scaled_dot_product_efficient_attention_backward", 1, 11, true },
    { "aten::_scaled_dot_product_flash_attention_backward", 1, 11, true },
};

struct attention {
    double batch, heads, rows, depth, kv_heads, kv_rows;
    bool causal, backward;
    const char *dtype;
};

static bool read_operator(const struct recogniser *r, const struct attention_operator *op,
                          const struct site_operator *site, struct attention *out)
{
    const struct operator_tensors *tensors = operator_tensors_parse(r->arena, site->args);
    const struct trace_tensor *q = operator_tensor(tensors, op->query),
                              *k = operator_tensor(tensors, op->query + 1);
    if (q == NULL || k == NULL || q->dim_count != 4 || k->dim_count != 4) {
        return false;
    }
    *out = (struct attention){
        .batch = (double)q->dims[0],
        .heads = (double)q->dims[1],
        .rows = (double)q->dims[2],
        .depth = (double)q->dims[3],
        .kv_heads = (double)k->dims[1],
        .kv_rows = (double)k->dims[2],
        .backward = op->backward,
        .causal = strcmp(operator_concrete(tensors, op->causal), "True") == 0,
        .dtype = q->dtype,
    };
    return out->batch >= 1 && out->heads >= 1 && out->rows >= 1 && out->depth >= 8;
}

static bool find_attention(const struct recogniser *r, struct attention *out)
{
    for (size_t i = 0; i < r->site->operator_count; i++) {
        for (size_t k = 0; k < sizeof attention_operators / sizeof attention_operators[0]; k++) {
            if (strcmp(r->site->operators[i].name, attention_operators[k].name) == 0) {
                return read_operator(r, &attention_operators[k], &r->site->operators[i], out);
            }
        }
    }
    return false;
}

static void param_shape(struct recogniser *r, const struct attention *a)
{
    param_number(r, "b", a->batch);
    param_number(r, "h", a->heads);
    param_number(r, "s", a->rows);
    param_number(r, "d", a->depth);
}

/* Query, keys, values, and the result or, backward, all of them and their gradients. */
static void report_attention(struct recogniser *r, const struct attention *a)
{
    double q = a->batch * a->heads * a->rows * a->depth * 2,
           kv = a->batch * a->kv_heads * a->kv_rows * a->depth * 2;
    double products = (a->backward ? 10 : 4) * a->batch * a->heads * a->rows * a->kv_rows * a->depth *
                      (a->causal ? 0.5 : 1);
    result_bytes(r, a->backward ? 3 * q + 2 * kv : q + 2 * kv, a->backward ? q + 2 * kv : q, products);
    result_dtype(r, a->dtype);
}

static bool build_main(struct recogniser *r)
{
    struct attention a;
    if (!find_attention(r, &a)) {
        return false;
    }
    report_attention(r, &a);
    if (strcmp(a.dtype, "bf16") != 0 && strcmp(a.dtype, "fp16") != 0) {
        return false;
    }
    recognised_as(r, "attention", a.backward ? "sdpa_bwd" : "sdpa_fwd");
    param_shape(r, &a);
    param_number(r, "causal", a.causal);
    if (a.kv_heads != a.heads) {
        param_number(r, "kv_heads", a.kv_heads);
    }
    if (a.kv_rows != a.rows) {
        param_number(r, "s_kv", a.kv_rows);
    }
    param_text(r, "dtype", a.dtype);
    if (a.backward) {
        param_text(r, "launches", "main"); /* the trace has the others as kernels of their own */
    }
    param_in_step_cache(r);
    return true;
}

static bool build_beside(struct recogniser *r, const char *kernel, double read, double written)
{
    struct attention a;
    if (!find_attention(r, &a)) {
        return false;
    }
    double elements = a.batch * a.heads * a.rows * a.depth;
    recognised_as(r, "attention", kernel);
    param_shape(r, &a);
    param_in_step_cache(r);
    result_bytes(r, elements * read, elements * written, 0);
    result_dtype(r, a.dtype);
    return true;
}

static bool build_dot_do_o(struct recogniser *r)
{
    return build_beside(r, "dot_do_o", 4, 4); /* two 16-bit tensors read, fp32 dQ cleared */
}

static bool build_convert_dq(struct recogniser *r)
{
    return build_beside(r, "convert_dq", 4, 2);
}

const struct recogniser_rule recogniser_attention_rules[] = {
    { "dot_do_o", NULL, "attention", build_dot_do_o },
    { "bwd_preprocess", "attention", "attention", build_dot_do_o },
    { "convert_dq", NULL, "attention", build_convert_dq },
    { "sdpa_", NULL, "attention", build_main },
    { "flash_fwd", NULL, "attention", build_main },
    { "flash_bwd_dq_dk_dv", NULL, "attention", build_main },
    { "fmha_cutlass", NULL, "attention", build_main },
    { "attn_fwd", "attention", "attention", build_main },
    { "fmha", NULL, "attention", NULL },
    { "flash", NULL, "attention", NULL },
    { "bwd_kernel_d", "attention", "attention", NULL },
    { NULL, NULL, NULL, NULL },
};
