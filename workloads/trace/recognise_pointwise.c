/* Element-wise kernels of the framework: three launch styles by the name of the kernel template, the arithmetic by the
 * functor inside it, the operands by the operator's tensors. */
#include "workloads/trace/recognise_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPERANDS_MAX 5

/* Vector and special-function slots per element of a functor; `part` is looked for in the kernel's name, the first that
 * fits counts. Counts are read off the formulas, as in the kernels of workloads/kernels: a division is 8 and a special
 * one, an exponential 4 and a special one. */
struct functor {
    const char *part;
    double valu, sfu;
};
static const struct functor functors[] = {
    { "GeluBackward", 34, 2 },
    { "GeluCUDAKernel", 25, 1 },
    { "silu_backward", 22, 2 },
    { "silu_kernel", 15, 2 },
    { "log_sigmoid_backward", 20, 2 },
    { "log_sigmoid", 22, 2 },
    { "sigmoid_backward", 4, 0 },
    { "sigmoid", 14, 2 },
    { "tanh_backward", 4, 0 },
    { "tanh", 18, 2 },
    { "exp_kernel", 5, 1 },
    { "log_kernel", 6, 1 },
    { "rsqrt", 3, 1 },
    { "sqrt", 8, 1 },
    { "pow", 20, 3 },
    { "DivFunctor", 9, 1 },
    { "div_trunc", 20, 1 },
    { "div_floor", 24, 1 },
    { "div_true", 9, 1 },
    { "reciprocal", 8, 1 },
    { "remainder", 24, 1 },
    { "fmod", 24, 1 },
    { "threshold", 2, 0 },
    { "clamp", 2, 0 },
    { "where", 2, 0 },
    { "CUDAFunctor_add", 1, 0 },
    { "MulFunctor", 1, 0 },
    { "AddFunctor", 1, 0 },
    { "addcmul", 3, 0 },
    { "addcdiv", 11, 1 },
    { "lerp", 4, 0 },
    { "copy", 0, 0 },
    { "Fill", 0, 0 },
};

enum style { VECTORIZED, UNROLLED, STRIDED };
static const char *const style_names[] = { "vectorized", "unrolled", "strided" };

static enum style style_of(const char *name)
{
    return strstr(name, "vectorized_elementwise_kernel") != NULL ? VECTORIZED
           : strstr(name, "unrolled_elementwise_kernel") != NULL ? UNROLLED
                                                                 : STRIDED;
}

static struct functor functor_of(const char *name)
{
    for (size_t i = 0; i < sizeof functors / sizeof functors[0]; i++) {
        if (strstr(name, functors[i].part) != NULL) {
            return functors[i];
        }
    }
    return (struct functor){ "", 2, 0 };
}

/* How many tensors the kernel touches: the length of its pointer array, results first. 0 unknown. */
static size_t pointer_count(const char *name)
{
    const char *at = strstr(name, "array<char*, ");
    return at == NULL ? 0 : (size_t)strtoul(at + strlen("array<char*, "), NULL, 10);
}

/* ---- where an operand's elements lie --------------------------------------------------------------------------- */

/* Of the result's shape, innermost first: neighbouring dimensions that run on are one. */
struct layout {
    size_t count;
    double size[TENSOR_DIMS_MAX], stride[TENSOR_DIMS_MAX];
};

/* The operand broadcast to the result's dims. False when it cannot be. */
static bool lay_out(const struct trace_tensor *operand, const struct trace_tensor *result, struct layout *out)
{
    out->count = 0;
    if (operand->dim_count > result->dim_count) {
        return false;
    }
    double contiguous = 1;
    for (uint32_t k = 0; k < result->dim_count; k++) {
        double size = (double)result->dims[result->dim_count - 1 - k], stride = 0;
        if (k < operand->dim_count) {
            uint32_t d = operand->dim_count - 1 - k;
            if (operand->dims[d] != 1 && operand->dims[d] != (int64_t)size) {
                return false;
            }
            if (operand->dims[d] != 1) {
                stride = operand->has_strides ? (double)operand->strides[d] : contiguous;
            }
            contiguous *= (double)operand->dims[d];
        }
        if (size == 1) {
            continue;
        }
        size_t last = out->count - 1;
        if (out->count > 0 && stride == out->stride[last] * out->size[last]) {
            out->size[last] *= size;
        } else {
            out->size[out->count] = size;
            out->stride[out->count++] = stride;
        }
    }
    return true;
}

/* Each value `repeat` times, `run` values side by side, then `pitch` on. False when the strides are of another kind. */
struct pattern {
    double repeat, run, pitch;
};

static bool pattern_of(const struct layout *layout, struct pattern *out)
{
    *out = (struct pattern){ 1, 0, 0 };
    size_t at = 0;
    if (layout->count > at && layout->stride[at] == 0) {
        out->repeat = layout->size[at++];
    }
    if (at == layout->count) {
        return true;
    }
    if (layout->stride[at] != 1) {
        return false;
    }
    double run = layout->size[at++];
    if (at == layout->count) {
        return true;
    }
    out->run = run;
    out->pitch = layout->stride[at++];
    return at == layout->count;
}

/* ---- operands of the operator ---------------------------------------------------------------------------------- */

struct operands {
    size_t input_count;
    const struct trace_tensor *inputs[OPERANDS_MAX];
    const struct trace_tensor
        *shape; /* the tensor with the most dimensions and elements: the result's shape */
    double elements;
    char result_dtype[8];
    uint32_t result_bytes;
};

static bool is_in_place(const char *operator_name)
{
    size_t length = strlen(operator_name);
    return length > 0 && operator_name[length - 1] == '_';
}

static bool is_copy(const char *operator_name)
{
    return strstr(operator_name, "copy_") != NULL;
}

static bool gives_bool(const char *operator_name)
{
    static const char *const names[] = { "aten::eq",       "aten::ne",    "aten::lt",
                                         "aten::le",       "aten::gt",    "aten::ge",
                                         "aten::logical_", "aten::isnan", "aten::isinf" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i]);
        bool prefix = names[i][length - 1] == '_'; /* aten::gelu is no aten::ge */
        if (strncmp(operator_name, names[i], length) == 0 && (prefix || operator_name[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Types rank by what a mixed operation gives: wider floats, floats before integers. */
static int promotion_rank(const struct trace_tensor *tensor)
{
    static const char *const order[] = { "bool",  "uint8", "int8", "int16", "int32",
                                         "int64", "fp16",  "bf16", "fp32",  "fp64" };
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (strcmp(tensor->dtype, order[i]) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* A number passed as a 0-dim tensor is a kernel argument, not memory. */
static bool is_memory(const struct trace_tensor *tensor)
{
    return tensor->dim_count > 0 && tensor_elements(tensor) > 0;
}

static bool find_operands(struct recogniser *r, struct operands *o)
{
    memset(o, 0, sizeof *o);
    const char *name = innermost_operator(r);
    size_t pointers = pointer_count(r->site->name), inputs_max = pointers > 0 ? pointers - 1 : OPERANDS_MAX;
    bool copy = is_copy(name);
    const struct trace_tensor *first = NULL, *widest = NULL;
    for (size_t i = 0; i < r->tensors->tensor_count; i++) {
        const struct trace_tensor *tensor = &r->tensors->tensors[i];
        if (!is_memory(tensor) || tensor->element_bytes == 0) {
            continue;
        }
        first = first == NULL ? tensor : first;
        if (o->shape == NULL || tensor_elements(tensor) > o->elements) {
            o->shape = tensor;
            o->elements = tensor_elements(tensor);
        }
        bool is_result = copy && tensor == first;
        if (!is_result && o->input_count < inputs_max && o->input_count < OPERANDS_MAX) {
            o->inputs[o->input_count++] = tensor;
            widest = widest == NULL || promotion_rank(tensor) > promotion_rank(widest) ? tensor : widest;
        }
    }
    if (o->shape == NULL) {
        return false;
    }
    const struct trace_tensor *result = copy || is_in_place(name) || widest == NULL ? first : widest;
    bool boolean = gives_bool(name) && !is_in_place(name);
    o->result_bytes = boolean ? 1 : result->element_bytes;
    snprintf(o->result_dtype, sizeof o->result_dtype, "%s", boolean ? "bool" : result->dtype);
    return true;
}

static void report_operands(struct recogniser *r, const struct operands *o, double flops_per_element)
{
    double read = 0;
    for (size_t i = 0; i < o->input_count; i++) {
        read += tensor_bytes(o->inputs[i]);
    }
    result_bytes(r, read, o->elements * o->result_bytes, o->elements * flops_per_element);
    result_dtype(r, o->result_dtype);
}

/* ---- builders -------------------------------------------------------------------------------------------------- */

static bool build_map(struct recogniser *r, const struct operands *o)
{
    enum style style = style_of(r->site->name);
    struct functor functor = functor_of(r->site->name);
    double in[OPERANDS_MAX], out = o->result_bytes, repeat[OPERANDS_MAX], run[OPERANDS_MAX],
                             pitch[OPERANDS_MAX];
    bool shaped = false;
    for (size_t i = 0; i < o->input_count; i++) {
        struct layout layout;
        struct pattern pattern = { 1, 0, 0 };
        if (style != VECTORIZED &&
            (!lay_out(o->inputs[i], o->shape, &layout) || !pattern_of(&layout, &pattern))) {
            r->out->assumption = "an element-wise operand with permuted dimensions is read as if contiguous";
            pattern = (struct pattern){ 1, 0, 0 };
        }
        in[i] = o->inputs[i]->element_bytes;
        repeat[i] = pattern.repeat;
        run[i] = pattern.run;
        pitch[i] = pattern.pitch;
        shaped = shaped || pattern.repeat != 1 || pattern.run != 0;
    }
    recognised_as(r, "elementwise", "map");
    param_number(r, "n", o->elements);
    if (o->input_count > 0) {
        param_list(r, "bytes_in", in, o->input_count);
    }
    param_list(r, "bytes_out", &out, 1);
    param_number(r, "valu", functor.valu);
    param_number(r, "sfu", functor.sfu);
    param_text(r, "style", style_names[style]);
    if (shaped) {
        param_list(r, "repeat", repeat, o->input_count);
        param_list(r, "run", run, o->input_count);
        param_list(r, "pitch", pitch, o->input_count);
    }
    param_in_step_cache(r);
    report_operands(r, o, functor.valu);
    return true;
}

static bool build_elementwise(struct recogniser *r)
{
    struct operands o;
    return find_operands(r, &o) && build_map(r, &o);
}

/* Of a range or random kernel the operator has no tensors: the grid tells, 4 elements a lane. */
static bool build_index_fill(struct recogniser *r)
{
    double lanes = workgroups_of(r->site) *
                   (double)(r->site->block[0] * r->site->block[1] * r->site->block[2]);
    const char *end = operator_concrete(r->tensors, 1);
    double elements = strtod(end, NULL) - strtod(operator_concrete(r->tensors, 0), NULL);
    elements = elements >= 1 && elements <= lanes ? elements : lanes;
    if (elements < 1) {
        return false;
    }
    recognised_as(r, "elementwise", "fill");
    param_number(r, "n", elements);
    param_text(r, "dtype", "int64");
    param_in_step_cache(r);
    result_bytes(r, 0, elements * 8, 0);
    result_dtype(r, "int64");
    return true;
}

static bool build_fill(struct recogniser *r)
{
    const struct trace_tensor *target = tensor_at(r, 0);
    if (target == NULL || target->element_bytes == 0 || tensor_elements(target) < 1) {
        return false;
    }
    recognised_as(r, "elementwise", "fill");
    param_number(r, "n", tensor_elements(target));
    param_text(r, "dtype", dtype_of_bytes(target->element_bytes));
    param_in_step_cache(r);
    result_bytes(r, 0, tensor_bytes(target), 0);
    result_dtype(r, target->dtype);
    return true;
}

/* A copy whose source, walked in the result's order, is a matrix across: out[b][c][r][i] = in[b][r][c][i]. */
static bool build_transposition(struct recogniser *r, const struct operands *o, const struct layout *source)
{
    size_t at = 0;
    double inner = 1;
    if (source->count > 0 && source->stride[0] == 1) {
        inner = source->size[at++];
    }
    if (source->count < at + 2) {
        return false;
    }
    double rows = source->size[at], row_stride = source->stride[at], columns = source->size[at + 1],
           column_stride = source->stride[at + 1];
    bool across = column_stride == inner && row_stride >= columns * inner;
    if (!across || o->inputs[0]->element_bytes != o->result_bytes) {
        return false;
    }
    double batch = o->elements / (inner * rows * columns);
    recognised_as(r, "transpose", "strided_copy");
    param_number(r, "batch", batch);
    param_number(r, "rows", rows);
    param_number(r, "cols", columns);
    param_number(r, "inner", inner);
    param_text(r, "dtype", dtype_of_bytes(o->result_bytes));
    param_in_step_cache(r);
    report_operands(r, o, 0);
    return true;
}

/* A product's bias, spread over its result before the product is added: aten::addmm(bias [N], a [M, K], b [K, N]). */
static bool build_bias(struct recogniser *r)
{
    const struct trace_tensor *bias = tensor_at(r, 0), *a = tensor_at(r, 1), *b = tensor_at(r, 2);
    if (bias == NULL || a == NULL || b == NULL || a->dim_count != 2 || b->dim_count != 2 ||
        bias->element_bytes == 0) {
        return false;
    }
    double rows = (double)a->dims[0], columns = (double)b->dims[1], bytes = bias->element_bytes, none = 0,
           one = 1;
    recognised_as(r, "elementwise", "map");
    param_number(r, "n", rows * columns);
    param_list(r, "bytes_in", &bytes, 1);
    param_list(r, "bytes_out", &bytes, 1);
    param_number(r, "valu", 0);
    param_number(r, "sfu", 0);
    param_text(r, "style", style_names[STRIDED]);
    param_list(r, "repeat", &one, 1);
    param_list(r, "run", &columns, 1);
    param_list(r, "pitch", &none, 1);
    param_in_step_cache(r);
    result_bytes(r, columns * bytes, rows * columns * bytes, 0);
    result_dtype(r, bias->dtype);
    return true;
}

static bool build_copy(struct recogniser *r)
{
    struct operands o;
    if (strstr(innermost_operator(r), "addmm") != NULL) {
        return build_bias(r);
    }
    if (!find_operands(r, &o)) {
        return false;
    }
    if (!is_copy(innermost_operator(r))) { /* a broadcast or cast inside another operator */
        return build_map(r, &o);
    }
    if (o.input_count != 1) {
        return false;
    }
    enum style style = style_of(r->site->name);
    struct layout source;
    struct pattern pattern;
    bool laid_out = lay_out(o.inputs[0], o.shape, &source);
    if (style == STRIDED && laid_out && !pattern_of(&source, &pattern) &&
        build_transposition(r, &o, &source)) {
        return true;
    }
    bool changes_type = strcmp(o.inputs[0]->dtype, o.result_dtype) != 0;
    bool plain = laid_out && pattern_of(&source, &pattern) && pattern.repeat == 1 && pattern.run == 0;
    if (!changes_type || style == STRIDED || (style == UNROLLED && !plain)) {
        return build_map(r, &o);
    }
    recognised_as(r, "elementwise", "cast");
    param_number(r, "n", o.elements);
    param_text(r, "dtype_in", dtype_of_bytes(o.inputs[0]->element_bytes));
    param_text(r, "dtype_out", dtype_of_bytes(o.result_bytes));
    param_text(r, "style", style_names[style]);
    param_in_step_cache(r);
    report_operands(r, &o, 1);
    return true;
}

/* ---- concatenation --------------------------------------------------------------------------------------------- */

#define CAT_TENSORS_MAX 128

static uint32_t opaque_bytes(const char *name)
{
    const char *at = strstr(name, "OpaqueType<");
    return at == NULL ? 0 : (uint32_t)strtoul(at + strlen("OpaqueType<"), NULL, 10);
}

/* The general kernel, for inputs that are not contiguous: an element at a time, its offset divided out of its index. */
static bool build_strided_cat(struct recogniser *r, double elements, double bytes)
{
    recognised_as(r, "elementwise", "map");
    param_number(r, "n", elements);
    param_list(r, "bytes_in", &bytes, 1);
    param_list(r, "bytes_out", &bytes, 1);
    param_number(r, "valu", 18);
    param_number(r, "sfu", 0);
    param_text(r, "style", style_names[STRIDED]);
    param_in_step_cache(r);
    result_bytes(r, elements * bytes, elements * bytes, 0);
    result_dtype(r, dtype_of_bytes((uint32_t)bytes));
    return true;
}

static bool build_cat(struct recogniser *r)
{
    if (r->tensors->argument_count == 0 || !r->tensors->arguments[0].is_list) {
        return false;
    }
    const struct trace_argument *list = &r->tensors->arguments[0];
    const struct trace_tensor *first = &r->tensors->tensors[list->first];
    uint32_t bytes = opaque_bytes(r->site->name);
    if (list->count == 0 || list->count > CAT_TENSORS_MAX || bytes == 0) {
        return false;
    }
    long axis = strtol(operator_concrete(r->tensors, 1), NULL, 10);
    axis = axis < 0 ? axis + (long)first->dim_count : axis;
    if (axis < 0 || axis >= (long)first->dim_count) {
        return false;
    }
    double rows = 1, columns[CAT_TENSORS_MAX], all = 0;
    bool equal = true;
    size_t count = 0;
    for (long d = 0; d < axis; d++) {
        rows *= (double)first->dims[d];
    }
    for (uint32_t i = 0; i < list->count; i++) {
        double elements = tensor_elements(&r->tensors->tensors[list->first + i]);
        if (elements < 1) {
            continue; /* empty parts are skipped by the operator too */
        }
        columns[count] = elements / rows;
        equal = equal && columns[count] == columns[0];
        all += elements;
        count++;
    }
    if (count == 0) {
        return false;
    }
    if (strstr(r->site->name, "CatArrayBatchedCopy<") != NULL) {
        return build_strided_cat(r, all, bytes);
    }
    recognised_as(r, "cat", "concat");
    param_number(r, "rows", rows);
    param_list(r, "cols", columns, equal ? 1 : count);
    if (equal) {
        param_number(r, "tensors", (double)count);
    }
    param_text(r, "dtype", dtype_of_bytes(bytes));
    param_in_step_cache(r);
    result_bytes(r, all * bytes, all * bytes, 0);
    result_dtype(r, dtype_of_bytes(bytes));
    return true;
}

/* ---- multi-tensor kernels -------------------------------------------------------------------------------------- */

#define CHUNK_ELEMENTS 65536.0 /* MultiTensorApply.cuh: a workgroup's share */

/* Elements of the launch: its part of the operator's lists where the profiler recorded them, else of the parameters that
 * got a gradient; never more than its chunks hold. */
static double multi_tensor_elements(struct recogniser *r, double *tensors)
{
    double elements = 0, chunks = workgroups_of(r->site);
    *tensors = 0;
    if (r->tensors->argument_count > 0 && r->tensors->arguments[0].count > 0) {
        const struct trace_argument *list = &r->tensors->arguments[0];
        for (uint32_t i = 0; i < list->count; i++) {
            elements += tensor_elements(&r->tensors->tensors[list->first + i]);
        }
        *tensors = list->count;
    } else {
        bool one_each = chunks > 0 && chunks / r->site->grid_share >= r->site->dense_parameter_tensors &&
                        r->site->dense_parameter_tensors > 0;
        *tensors = r->site->dense_parameter_tensors;
        elements = one_each && strstr(r->site->name, "FusedOptimizer") != NULL ? r->site->dense_parameters
                                                                               : *tensors;
        r->out->assumption =
            strstr(r->site->name, "FusedOptimizer") != NULL
                ? "an optimiser's tensor list was cut by the profiler: the parameters with a gradient, by "
                  "chunks"
                : "a multi-tensor list was cut by the profiler: one element a parameter (step counters)";
    }
    elements *= r->site->grid_share;
    *tensors *= r->site->grid_share;
    double most = chunks * CHUNK_ELEMENTS;
    return most > 0 && elements > most ? most : elements;
}

static bool build_multi_tensor(struct recogniser *r)
{
    const char *name = r->site->name;
    bool optimiser = strstr(name, "FusedOptimizer") != NULL;
    double numbers[4], tensors, elements = multi_tensor_elements(r, &tensors),
                                chunks = workgroups_of(r->site);
    double depth = template_numbers(name,
                                    optimiser ? "FusedOptimizerTensorListMetadata" : "TensorListMetadata",
                                    numbers, 4) > 0
                       ? numbers[0]
                       : 0;
    double reads = depth, writes = 1;
    if (optimiser) {
        writes = depth - 1; /* all but the gradients */
    } else if (template_numbers(name, "Functor", numbers, 4) >= 3) {
        reads = numbers[1]; /* <type, lists, lists read, list written> */
    }
    if (depth < 1 || reads > OPERANDS_MAX || reads < 1 || chunks < 1 || elements < 1) {
        return false;
    }
    double element_bytes = strstr(name, "Functor<c10::") != NULL    ? 2
                           : strstr(name, "Functor<double") != NULL ? 8
                                                                    : 4;
    double bytes[OPERANDS_MAX] = { element_bytes, element_bytes, element_bytes, element_bytes,
                                   element_bytes };
    recognised_as(r, "optimizer", "multi_tensor");
    elements = elements < 1 ? 1 : (double)(uint64_t)(elements + 0.5);
    tensors = tensors < 1 ? 1 : (double)(uint64_t)(tensors + 0.5);
    param_number(r, "elements", elements);
    param_list(r, "reads", bytes, (size_t)reads);
    param_list(r, "writes", bytes, (size_t)writes);
    param_number(r, "tensors", tensors);
    param_number(r, "chunks", chunks);
    if (!optimiser) {
        param_number(r, "valu", functor_of(name).valu);
        param_number(r, "sfu", functor_of(name).sfu);
        param_number(r, "registers", 32);
    }
    param_in_step_cache(r);
    result_bytes(r, elements * reads * element_bytes, elements * writes * element_bytes,
                 elements * (optimiser ? 15 : 1));
    result_dtype(r, dtype_of_bytes((uint32_t)element_bytes));
    return true;
}

const struct recogniser_rule recogniser_pointwise_rules[] = {
    { "multi_tensor_apply_kernel", "_foreach_", "optimizer", build_multi_tensor },
    { "multi_tensor_apply_kernel", NULL, "optimizer", build_multi_tensor },
    { "CatArrayBatchedCopy", "cat", "memory", build_cat },
    { "elementwise_kernel_with_index", NULL, "elementwise", build_index_fill },
    { "FillFunctor", NULL, "elementwise", build_fill },
    { "_copy_kernel", NULL, "elementwise", build_copy },
    { "elementwise_kernel", NULL, "elementwise", build_elementwise },
    { NULL, NULL, NULL, NULL },
};
