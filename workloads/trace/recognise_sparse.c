/* Embeddings, gathers, scatters and the sorts around them. Which rows are asked for is not in a trace: indices are taken
 * as uniform over the rows, unless the operator around the launch says that they ascend. */
#include "workloads/trace/recognise_internal.h"
#include <math.h>
#include <string.h>

static const char uniform_indices[] =
    "indices uniform over the rows (range: uniform to Zipf); a trace does not hold them";

static bool is_matrix(const struct trace_tensor *tensor)
{
    return tensor != NULL && tensor->dim_count == 2 && tensor->element_bytes > 0 &&
           tensor_elements(tensor) >= 1;
}

/* ---- embedding bag --------------------------------------------------------------------------------------------- */

/* aten::_embedding_bag(weight [rows, D], indices [n], offsets [B], ..) */
static bool build_bag_forward(struct recogniser *r)
{
    const struct trace_tensor *weight = tensor_at(r, 0), *indices = tensor_at(r, 1),
                              *offsets = tensor_at(r, 2);
    if (!is_matrix(weight) || indices == NULL || offsets == NULL) {
        return false;
    }
    double n = tensor_elements(indices), bags = tensor_elements(offsets), width = (double)weight->dims[1];
    bool last_offset = strcmp(operator_concrete(r->tensors, 7), "True") == 0;
    bags -= last_offset ? 1 : 0;
    if (bags < 1 || n < 1) {
        return false;
    }
    double length = floor(n / bags + 0.5);
    recognised_as(r, "embedding", "bag_forward");
    param_number(r, "B", bags);
    param_number(r, "L", length < 1 ? 1 : length);
    param_number(r, "D", width);
    param_number(r, "rows", (double)weight->dims[0]);
    param_text(r, "dtype", weight->dtype);
    result_bytes(r, n * (width * weight->element_bytes + indices->element_bytes),
                 bags * width * weight->element_bytes, n * width);
    result_dtype(r, weight->dtype);
    r->out->assumption = length * bags == n ? uniform_indices
                                            : "bags all of their mean length, indices uniform over the rows";
    return true;
}

/* ---- gather and scatter of rows -------------------------------------------------------------------------------- */

/* scatter/index_select and index_add count in fp32 elements: a copied row of another type is a row of as many bytes. */
static void build_rows(struct recogniser *r, const char *kernel, double n, const struct trace_tensor *table,
                       double index_bytes)
{
    double row_bytes = (double)table->dims[1] * table->element_bytes;
    bool adds = strcmp(kernel, "index_add") == 0;
    recognised_as(r, "scatter", kernel);
    param_number(r, "n", n);
    param_number(r, "D", ceil(row_bytes / 4));
    param_number(r, "rows", (double)table->dims[0]);
    param_text(r, "dtype", "fp32");
    result_bytes(r, n * (row_bytes + index_bytes), n * row_bytes, adds ? n * (double)table->dims[1] : 0);
    result_dtype(r, table->dtype);
    r->out->assumption = uniform_indices;
}

/* aten::gather(self [rows, D], dim, index [n, D] expanded, ..) as index_select and embedding issue it, and those two. */
static bool build_gather(struct recogniser *r)
{
    const struct trace_tensor *table = tensor_at(r, 0);
    const char *name = innermost_operator(r);
    const struct trace_tensor *index = tensor_at(r, strcmp(name, "aten::embedding") == 0 ? 1 : 2);
    if (!is_matrix(table) || index == NULL) {
        return false;
    }
    double n = strcmp(name, "aten::gather") == 0 ? (double)index->dims[0] : tensor_elements(index);
    if (n < 1) {
        return false;
    }
    build_rows(r, "index_select", n, table, index->element_bytes);
    return true;
}

/* aten::index_add_(self [rows, D], dim, index [n], source [n, D], alpha) */
static bool build_index_add(struct recogniser *r)
{
    const struct trace_tensor *table = tensor_at(r, 0), *index = tensor_at(r, 2);
    if (!is_matrix(table) || index == NULL || tensor_elements(index) < 1 ||
        strcmp(table->dtype, "fp32") != 0) {
        return false;
    }
    build_rows(r, "index_add", tensor_elements(index), table, index->element_bytes);
    return true;
}

/* ---- element-wise indexing ------------------------------------------------------------------------------------- */

/* aten::index(self, indices): the index tensors are not recorded, the grid tells the result's elements: 128 threads of 4.
 * Loads and stores one by one, with the offset arithmetic of two strided dimensions and an index on top. */
static bool build_index(struct recogniser *r)
{
    const struct trace_tensor *self = tensor_at(r, 0);
    double lanes[2] = { 128, 4 }, elements;
    template_numbers(r->site->name, "index_elementwise_kernel", lanes, 2);
    elements = workgroups_of(r->site) * lanes[0] * lanes[1];
    if (self == NULL || self->element_bytes == 0 || elements < 1) {
        return false;
    }
    double bytes = self->element_bytes;
    recognised_as(r, "elementwise", "map");
    param_number(r, "n", elements);
    param_list(r, "bytes_in", &bytes, 1);
    param_list(r, "bytes_out", &bytes, 1);
    param_number(r, "valu", 20);
    param_number(r, "sfu", 0);
    param_text(r, "style", "strided");
    param_in_step_cache(r);
    result_bytes(r, elements * bytes, elements * bytes, 0);
    result_dtype(r, self->dtype);
    r->out->assumption =
        "an index operator's elements lie as in its result; a trace does not hold the indices";
    return true;
}

/* ---- what the registry lacks: bytes closer than those of all tensors --------------------------------------------- */

/* Keys and values of the integer tensor that is sorted, read and written once. */
static bool bytes_of_indices(struct recogniser *r)
{
    for (size_t i = 0; i < r->tensors->tensor_count; i++) {
        const struct trace_tensor *tensor = &r->tensors->tensors[i];
        if (strncmp(tensor->dtype, "int", 3) == 0 && tensor->dim_count > 0) {
            double bytes = 2 * tensor_elements(tensor) * tensor->element_bytes;
            result_bytes(r, bytes, bytes, 0);
            result_dtype(r, tensor->dtype);
            break;
        }
    }
    return false;
}

/* fbgemm::permute_2D_sparse_data, permute_sparse_features(order [T], lengths [T, B], values [n], ..): the first kernel moves the lengths alone. */
static bool bytes_of_lengths(struct recogniser *r)
{
    const struct trace_tensor *lengths = tensor_at(r, 1);
    if (lengths != NULL && tensor_elements(lengths) >= 1) {
        result_bytes(r, tensor_bytes(lengths), tensor_bytes(lengths), 0);
        result_dtype(r, lengths->dtype);
    }
    return false;
}

/* aten::embedding_dense_backward(gradient [.., D], indices, ..): gradient rows read, as many partial sums written at most. */
static bool bytes_of_gradient(struct recogniser *r)
{
    const struct trace_tensor *gradient = tensor_at(r, 0);
    if (gradient != NULL && tensor_elements(gradient) >= 1) {
        result_bytes(r, tensor_bytes(gradient), tensor_bytes(gradient), tensor_elements(gradient));
        result_dtype(r, gradient->dtype);
    }
    return false;
}

/* aten::_index_put_impl_(self [outer, row], indices, values [outer, n], ..): a wave per index and outer row. Of other ranks
 * the grid alone is known: it is so much larger than the data that its dispatch is most of the time. */
static bool build_index_put(struct recogniser *r)
{
    const struct kernel_site *site = r->site;
    const struct trace_tensor *values = tensor_at(r, 2), *self = tensor_at(r, 0);
    bool rows = is_matrix(self) && is_matrix(values) && self->dims[0] == values->dims[0] && self->element_bytes <= 4;
    double threads = (double)(site->block[0] * site->block[1] * site->block[2]);
    if (values != NULL && tensor_elements(values) >= 1) {
        result_bytes(r, 2 * tensor_bytes(values), tensor_bytes(values), tensor_elements(values));
        result_dtype(r, values->dtype);
    }
    if (workgroups_of(site) < 1 || threads < 1) {
        return false;
    }
    if (rows) {
        recognised_as(r, "index", "put_sorted");
        param_number(r, "n", (double)values->dims[1]);
        param_number(r, "outer", (double)self->dims[0]);
        param_number(r, "row", (double)self->dims[1]);
        param_text(r, "dtype", self->dtype);
        return true;
    }
    recognised_as(r, "launch", "dispatch");
    param_number(r, "grid", workgroups_of(site));
    param_number(r, "block", threads);
    r->out->assumption =
        "a sorted index_put is priced by the dispatch of its workgroups alone, without its few bytes";
    return true;
}

const struct recogniser_rule recogniser_sparse_rules[] = {
    { "EmbeddingBag_updateOutputKernel", "_embedding_bag", "embedding", build_bag_forward },
    { "EmbeddingBag", NULL, "embedding", NULL },
    { "embedding", NULL, "embedding", NULL },
    { "vectorized_gather_kernel", NULL, "embedding", build_gather },
    { "indexSelectLargeIndex", NULL, "embedding", build_gather },
    { "indexSelectSmallIndex", NULL, "embedding", build_gather },
    { "indexFuncLargeIndex", "index_add", "embedding", build_index_add },
    { "indexFuncSmallIndex", "index_add", "embedding", build_index_add },
    { "indexing_backward_kernel", "index_put", "embedding", build_index_put },
    { "index_elementwise_kernel", "index", "embedding", build_index },
    { "compute_grad_weight", NULL, "embedding", bytes_of_gradient },
    { "sum_and_scatter", NULL, "embedding", bytes_of_gradient },
    { "permute_2D_lengths", "permute_", "embedding", bytes_of_lengths },
    { "RadixSort", NULL, "sort", bytes_of_indices },
    { "radix_sort", NULL, "sort", bytes_of_indices },
    { "UniqueByKey", NULL, "sort", bytes_of_indices },
    { "DeviceScan", NULL, "sort", bytes_of_indices },
    { "DeviceCompactInit", NULL, "sort", bytes_of_indices },
    { "krn_partial", NULL, "sort", bytes_of_indices },
    { "compute_num_of_partial_segments", NULL, "sort", bytes_of_indices },
    { NULL, NULL, NULL, NULL },
};
