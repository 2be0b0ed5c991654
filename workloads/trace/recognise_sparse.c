/* Embeddings, gathers, scatters and the sorts around them. Which rows are asked for is not in a trace: indices are taken
 * as uniform over the rows, unless the operator around the launch says that they ascend. */
#include <stdlib.h>
#include <string.h>
#include "workloads/trace/recognise_internal.h"

static const char uniform_indices[] = "indices uniform over the rows (range: uniform to Zipf); a trace does not hold them";

static bool is_matrix(const struct trace_tensor *tensor)
{
    return tensor != NULL && tensor->dim_count == 2 && tensor->element_bytes > 0 && tensor_elements(tensor) >= 1;
}

/* ---- embedding bag --------------------------------------------------------------------------------------------- */

/* aten::_embedding_bag(weight [rows, D], indices [n], offsets [B], ..) */
static bool build_bag_forward(struct recogniser *r)
{
    const struct trace_tensor *weight = tensor_at(r, 0), *indices = tensor_at(r, 1), *offsets = tensor_at(r, 2);
    if (!is_matrix(weight) || indices == NULL || offsets == NULL) {
        return false;
    }
    double n = tensor_elements(indices), bags = tensor_elements(offsets), width = (double)weight->dims[1];
    bool last_offset = strcmp(operator_concrete(r->tensors, 7), "True") == 0;
    bags -= last_offset ? 1 : 0;
    if (bags < 1 || n < 1) {
        return false;
    }
    recognised_as(r, "embedding", "bag_forward");
    param_number(r, "B", bags);
    param_number(r, "L", n / bags);
    param_number(r, "D", width);
    param_number(r, "rows", (double)weight->dims[0]);
    param_text(r, "dtype", weight->dtype);
    result_bytes(r, n * (width * weight->element_bytes + indices->element_bytes), bags * width * weight->element_bytes, n * width);
    result_dtype(r, weight->dtype);
    r->out->assumption = uniform_indices;
    return true;
}

/* ---- gather and scatter of rows -------------------------------------------------------------------------------- */

static bool build_rows(struct recogniser *r, const char *kernel, double n, const struct trace_tensor *table, double index_bytes)
{
    double width = (double)table->dims[1], row_bytes = width * table->element_bytes;
    bool adds = strcmp(kernel, "index_add") == 0;
    recognised_as(r, "scatter", kernel);
    param_number(r, "n", n);
    param_number(r, "D", width);
    param_number(r, "rows", (double)table->dims[0]);
    param_text(r, "dtype", table->dtype);
    result_bytes(r, n * (row_bytes + index_bytes), n * row_bytes, adds ? n * width : 0);
    result_dtype(r, table->dtype);
    return true;
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
    r->out->assumption = uniform_indices;
    return true;
}

/* aten::index_add_(self [rows, D], dim, index [n], source [n, D], alpha) */
static bool build_index_add(struct recogniser *r)
{
    const struct trace_tensor *table = tensor_at(r, 0), *index = tensor_at(r, 2);
    if (!is_matrix(table) || index == NULL || tensor_elements(index) < 1) {
        return false;
    }
    build_rows(r, "index_add", tensor_elements(index), table, index->element_bytes);
    r->out->assumption = uniform_indices;
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
    { "indexing_backward_kernel", NULL, "embedding", NULL },
    { "index_elementwise_kernel", NULL, "embedding", NULL },
    { "compute_grad_weight", NULL, "embedding", NULL },
    { "sum_and_scatter", NULL, "embedding", NULL },
    { "RadixSort", NULL, "sort", NULL },
    { "radix_sort", NULL, "sort", NULL },
    { "UniqueByKey", NULL, "sort", NULL },
    { "DeviceScan", NULL, "sort", NULL },
    { "DeviceCompactInit", NULL, "sort", NULL },
    { "krn_partial", NULL, "sort", NULL },
    { "compute_num_of_partial_segments", NULL, "sort", NULL },
    { NULL, NULL, NULL, NULL },
};
