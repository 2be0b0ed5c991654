/* FBGEMM's batched lookups (split and dense tables) and their fused backward. The operator's arguments hold whole tables, of
 * which a lookup touches a part: they are never what is read. Arguments in order: .., D_offsets [T + 1], total_D, max_D,
 * hash_size_cumsum, total_hash_size_bits, indices [n], offsets [B T + 1], ..; the inner operators (forward_*_cuda) have no
 * hash arguments. */
#include "workloads/trace/recognise_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LANE_ELEMENTS 4 /* a lane holds vectors of four */
#define LONG_RUN 1024   /* indices that one row of the long-run kernel's grid stands for */

struct lookup {
    double tables, indices, bags; /* bags of all tables */
    double width, rows;           /* mean of the tables; rows 0: unknown */
    uint32_t index_bytes;
    bool width_assumed;
};

/* Most elements of a row that the compiled kernel can hold: lanes x vectors x 4, "<.., 2ul" or "<.., 1ul, 8ul" (vectors, lanes). */
static double widest_row(const struct recogniser *r)
{
    double numbers[4];
    size_t count = template_numbers(r->site->name, "kernel", numbers, 4);
    count = count > 0 ? count : template_numbers(r->site->name, "_1", numbers, 4);
    double vectors = count > 0 ? numbers[0] : 1;
    double lanes = r->site->block[0] > 0 && r->site->block[0] <= 64 ? (double)r->site->block[0] : 32;
    return fmin(fmax(vectors, 1), 8) * lanes * LANE_ELEMENTS;
}

static size_t first_scalar(const struct operator_tensors *tensors)
{
    size_t i = 0;
    while (i < tensors->argument_count && (tensors->arguments[i].is_tensor || tensors->arguments[i].is_list)) {
        i++;
    }
    return i;
}

static double total_width(const struct recogniser *r, size_t scalar)
{
    char *end;
    const char *text = operator_concrete(r->tensors, scalar);
    double value = strtod(text, &end);
    return end != text && value >= 1 && value < 1e9 ? value : 0;
}

static bool read_lookup(const struct recogniser *r, struct lookup *out)
{
    const struct operator_tensors *tensors = r->tensors;
    bool inner = strstr(innermost_operator(r), "forward") != NULL;
    size_t scalar = first_scalar(tensors), indices_at = scalar + (inner ? 2 : 4);
    if (scalar < 3) {
        return false;
    }
    const struct trace_tensor *widths = tensor_at(r, scalar - 1), *indices = tensor_at(r, indices_at),
                              *offsets = tensor_at(r, indices_at + 1), *momentum = inner ? NULL : tensor_at(r, scalar + 13);
    size_t weights_at = scalar >= 7 && !inner ? scalar - 6 : 0;
    const struct trace_tensor *weights = tensor_at(r, weights_at);
    if (widths == NULL || indices == NULL || offsets == NULL || widths->dim_count != 1 || indices->dim_count != 1 ||
        offsets->dim_count != 1 || widths->dims[0] < 2 || offsets->dims[0] < 2) {
        return false;
    }
    *out = (struct lookup){ .tables = (double)widths->dims[0] - 1,
                            .indices = tensor_elements(indices),
                            .bags = (double)offsets->dims[0] - 1,
                            .index_bytes = indices->element_bytes > 0 ? indices->element_bytes : 8 };
    double held = weights != NULL ? tensor_elements(weights) : 0, kept = momentum != NULL ? tensor_elements(momentum) : 0;
    if (total_width(r, scalar) > 0) {
        out->width = total_width(r, scalar) / out->tables;
    } else if (kept >= out->tables && held / kept >= 4 && held / kept <= widest_row(r)) { /* a row-wise optimiser's state */
        out->width = held / kept;
    } else {
        out->width = widest_row(r) / 2;
        out->width_assumed = true;
    }
    out->rows = held > 0 ? fmax(floor(held / out->width / out->tables), 1) : 0;
    return out->bags >= out->tables;
}

static bool build_forward(struct recogniser *r)
{
    struct lookup lookup;
    if (!read_lookup(r, &lookup)) {
        return false;
    }
    double element_bytes = strstr(r->site->name, "kernel<c10::Half") != NULL ? 2 : 4;
    double width = fmax(4, 4 * floor(lookup.width / 4 + 0.5));
    result_bytes(r, lookup.indices * (width * element_bytes + lookup.index_bytes) + 8 * lookup.bags, lookup.bags * width * 4,
                 lookup.indices * width);
    result_dtype(r, element_bytes == 2 ? "fp16" : "fp32");
    double bags = floor(lookup.bags / lookup.tables), length = floor(lookup.indices / lookup.bags + 0.5);
    if (lookup.rows < 1 || lookup.indices < 0.5 * lookup.bags || bags < 1) { /* mostly empty bags: what they move */
        return false;
    }
    recognised_as(r, "tbe", "forward");
    param_number(r, "B", fmax(1, floor(lookup.indices / lookup.tables / fmax(length, 1) + 0.5)));
    param_number(r, "T", lookup.tables);
    param_number(r, "L", fmax(length, 1));
    param_number(r, "D", width);
    param_number(r, "rows", lookup.rows);
    param_number(r, "alpha", 0);
    param_text(r, "prec", element_bytes == 2 ? "fp16" : "fp32");
    r->out->assumption = lookup.width_assumed
                             ? "tables of equal rows; width half of what the kernel is compiled for; indices uniform over the rows"
                             : "tables of equal width and rows, bags all of their mean length, indices uniform over the rows";
    return true;
}

/* The gradients of all lookups are gathered once by the two kernels of runs, half each for want of the runs' lengths. */
static bool bytes_of_runs(struct recogniser *r)
{
    bool of_warps = strstr(r->site->name, "warp_per_row") != NULL;
    double per_group = of_warps ? (double)r->site->block[1] : LONG_RUN;
    double lookups = (double)r->site->grid[0] * per_group, width = widest_row(r) / 2;
    if (lookups < 1) {
        return false;
    }
    result_bytes(r, 0.5 * lookups * (width * 4 + 8), 0.1 * lookups * width * 4, lookups * width);
    result_dtype(r, "fp32");
    r->out->assumption = "half of the lookups' gradients to each kernel of runs, rows half as wide as compiled for, a fifth distinct";
    return false;
}

/* fbgemm::permute_2D_sparse_data, permute_sparse_features(order [features], lengths [features in, batch], indices [n], weights) */
static bool build_permute(struct recogniser *r)
{
    const struct trace_tensor *order = tensor_at(r, 0), *lengths = tensor_at(r, 1),
                              *indices = tensor_at(r, 2);
    if (order == NULL || lengths == NULL || indices == NULL || lengths->dim_count != 2 ||
        tensor_elements(order) < 1 || tensor_elements(lengths) < 1 ||
        (indices->element_bytes != 4 && indices->element_bytes != 8)) {
        return false;
    }
    const struct trace_tensor *weights = tensor_at(r, 3);
    double features = tensor_elements(order), batch = (double)lengths->dims[1];
    double n = floor(tensor_elements(indices) * features /
                     (double)lengths->dims[0]); /* some features twice, or left out */
    double weight_bytes = weights != NULL && tensor_elements(weights) > 0 ? weights->element_bytes : 0;
    recognised_as(r, "tbe", "permute");
    param_number(r, "features", features);
    param_number(r, "batch", batch);
    param_number(r, "n", n);
    param_number(r, "index_bytes", indices->element_bytes);
    param_number(r, "weight_bytes", weight_bytes);
    result_bytes(r, n * (indices->element_bytes + weight_bytes) + 8 * features * batch,
                 n * (indices->element_bytes + weight_bytes), 0);
    result_dtype(r, indices->dtype);
    r->out->assumption = "bags of permuted features all of their mean length";
    return true;
}

/* fbgemm::bounds_check_indices(rows [tables], indices [n], offsets [tables x batch + 1], ..): nothing out of bounds. */
static bool build_bounds_check(struct recogniser *r)
{
    const struct trace_tensor *rows = tensor_at(r, 0), *indices = tensor_at(r, 1), *offsets = tensor_at(r, 2);
    double lanes = (double)r->site->block[0], threads = lanes * (double)r->site->block[1];
    if (rows == NULL || indices == NULL || offsets == NULL || tensor_elements(rows) < 1 ||
        tensor_elements(offsets) < 2 || threads < 32 || threads > 1024) {
        return false;
    }
    double tables = tensor_elements(rows), bags = fmax(1, floor((tensor_elements(offsets) - 1) / tables));
    double n = tensor_elements(indices), bytes = n * indices->element_bytes;
    recognised_as(r, "bounds_check", "per_thread_atomic");
    param_number(r, "tables", tables);
    param_number(r, "batch", bags);
    param_number(r, "bag", fmax(1, floor(n / (tables * bags) + 0.5)));
    param_number(r, "block", threads);
    param_number(r, "block_x", lanes);
    param_number(r, "rate", 0);
    result_bytes(r, bytes + 8 * tables * bags, 0, 0);
    result_dtype(r, indices->dtype);
    r->out->assumption = "no index out of bounds; bags all of their mean length, at least one index";
    return true;
}

/* Searches in the runs' lengths, and the like. */
static bool bytes_of_grid(struct recogniser *r)
{
    if (strstr(r->site->name, "per_row") != NULL) {
        return false; /* priced already */
    }
    double threads = workgroups_of(r->site) * (double)r->site->block[0] * (double)r->site->block[1];
    if (threads >= 1) {
        result_bytes(r, threads * 8, threads * 4, 0);
    }
    return false;
}

const struct recogniser_rule recogniser_table_rules[] = {
    { "embedding_codegen_forward", "lookup", "embedding", build_forward },
    { "embedding_codegen_forward", "forward", "embedding", build_forward },
    { "embedding (of fbgemm::", "lookup", "embedding", build_forward },
    { "embedding_backward_codegen", NULL, "embedding", NULL },
    { "per_row", "Lookup", "embedding", bytes_of_runs },
    { "split_embedding", "Lookup", "embedding", bytes_of_grid },
    { "permute_2D_data_kernel", "permute_", "embedding", build_permute },
    { "permute_indices_weights_kernel", "permute_", "embedding", build_permute },
    { "bounds_check_indices_kernel", "bounds_check", "embedding", build_bounds_check },
    { "permute_2D_lengths_kernel", NULL, "embedding", bytes_of_grid }, /* its operator also holds the indices */
    { "embedding_codegen", NULL, "embedding", NULL },
    { NULL, NULL, NULL, NULL },
};
