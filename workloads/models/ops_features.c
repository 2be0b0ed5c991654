/* Bags of embeddings and the interaction of features. */
#include "workloads/models/eager_internal.h"
#include "workloads/models/tape_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- bags, one table an operator ------------------------------------------------------------------------------- */

/* number: ids, columns, bags. */
static void bag_backward(struct eager *eager, struct function *f)
{
    double ids = f->number[0], columns = f->number[1], bags = f->number[2];
    eager_host(eager, ".._embedding_bag_backward ..._embedding_bag_sparse_backward ....index_select .....empty "
                      ".....resize_ .....view .....expand ......as_strided .....gather ......as_strided "
                      "......as_strided");
    f->out[0] = eager_tensor(eager, ids, columns, f->in[0]->type);
    eager_kernel(eager, "embedding", "aten::gather", "scatter", "index_select", "n=%.0f;D=%.0f;rows=%.0f;dtype=fp32",
                 ids, columns, bags);
    eager_host(eager, "....embedding_sparse_backward .....reshape ......view .....reshape ......view .....to "
                      "....._sparse_coo_tensor_unsafe ......_sparse_coo_tensor_with_dims_and_tensors .......empty "
                      ".......empty .......resize_ .......resize_");
}

struct tensor *op_embedding_bag(struct eager *eager, struct parameter *table, double bags, double pooling)
{
    double ids = bags * pooling;
    char ids_drawn[64];
    eager_id_params(table, ids_drawn);
    eager_host(eager, "embedding_bag ._embedding_bag ..empty ..empty ..empty ..empty");
    struct tensor *y = eager_tensor(eager, bags, table->columns, table->type);
    struct storage *bag_of_id = eager_storage(eager, ids * 8, GRAPH_MEMORY_ACTIVATIONS);
    struct storage *bag_size = eager_storage(eager, bags * 8, GRAPH_MEMORY_ACTIVATIONS);
    struct function *f = eager_function(eager, "EmbeddingBagBackward0", bag_backward, 1);
    if (f != NULL) {
        f->number[0] = ids;
        f->number[1] = table->columns;
        f->number[2] = bags;
        eager_edge_parameter(eager, f, 0, table);
        eager_save(eager, f, 0, bag_of_id);
        eager_save(eager, f, 1, bag_size);
        eager_saved(eager, f);
    }
    table->sparse_rows = ids;
    eager_kernel(eager, "embedding", "aten::_embedding_bag", "embedding", "bag_forward",
                 "B=%.0f;L=%.0f;D=%.0f;rows=%.0f;dtype=%s%s", bags, fmax(floor(pooling + 0.5), 1), table->columns,
                 table->rows, eager_type_text(table->type), ids_drawn);
    eager_produce(y, f, 0);
    eager_drop(eager, bag_of_id);
    eager_drop(eager, bag_size);
    return y;
}

/* ---- stack ----------------------------------------------------------------------------------------------------- */

static void stack_backward(struct eager *eager, struct function *f)
{
    double rows = f->number[0], columns = f->number[1];
    for (uint32_t i = 0; i < f->edge_count; i++) {
        eager_host(eager, "..select ...as_strided");
        f->out[i] = eager_view(eager, f->in[0], rows, columns);
    }
}

struct tensor *op_stack(struct eager *eager, struct tensor **parts, uint32_t count)
{
    double elements = tensor_elements_of(parts[0]);
    eager_host(eager, "stack .cat");
    struct tensor *y = eager_tensor(eager, count * parts[0]->rows, parts[0]->columns, parts[0]->type);
    struct function *f = eager_function(eager, "StackBackward0", stack_backward, count);
    for (uint32_t i = 0; f != NULL && i < count; i++) {
        eager_edge(f, i, parts[i]);
    }
    if (f != NULL) {
        f->number[0] = parts[0]->rows;
        f->number[1] = parts[0]->columns;
    }
    eager_kernel(eager, "memory", "aten::cat", "cat", "concat",
                 "rows=1;cols=%.0f;tensors=%u;dtype=%s;cache=produced", elements, count,
                 eager_type_text(parts[0]->type));
    eager_host(eager, ".view");
    eager_produce(y, f, 0);
    return y;
}

/* ---- dense features beside the pooled ones --------------------------------------------------------------------- */

/* edges: 0 dense features, 1 pooled; number: batch, tables, dim, type of the dense ones. */
static void join_backward(struct eager *eager, struct function *f)
{
    double batch = f->number[0], tables = f->number[1], dim = f->number[2];
    eager_host(eager, "..narrow ...slice ....as_strided ..narrow ...slice ....as_strided "
                      "autograd::engine::evaluate_function:TransposeBackward0 .TransposeBackward0 ..transpose "
                      "...as_strided");
    for (uint32_t i = 0; i < 2; i++) {
        if (wants(f, i)) {
            f->out[i] = eager_view(eager, f->in[0], i == 0 ? batch : tables * batch, dim);
            f->out[i]->strided = true;
            f->out[i]->pitch = (tables + 1) * dim;
        }
    }
}

struct tensor *op_join_features(struct eager *eager, struct tensor *x, struct tensor *e, double batch, double tables,
                                double dim)
{
    eager_host(eager, "unsqueeze .as_strided");
    struct tensor *wide = op_cast(eager, x, e->type);
    eager_host(eager, "transpose .as_strided cat");
    struct tensor *z = eager_tensor(eager, batch, (tables + 1) * dim, e->type);
    int bytes = (int)eager_type_bytes(e->type);
    eager_kernel(eager, "memory", "aten::cat", "elementwise", "map",
                 "n=%.0f;bytes_in=%d;bytes_out=%d;valu=18;sfu=0;style=strided;cache=produced", tensor_elements_of(z),
                 bytes, bytes);
    struct function *f = eager_function(eager, "CatBackward0", join_backward, 2);
    if (f != NULL) {
        f->number[0] = batch;
        f->number[1] = tables;
        f->number[2] = dim;
        eager_edge(f, 0, wide);
        eager_edge(f, 1, e);
    }
    eager_produce(z, f, 0);
    eager_release(eager, wide);
    return z;
}

/* ---- dot products of all pairs --------------------------------------------------------------------------------- */

static const char *matrix_type_text(const struct eager *eager)
{
    return eager->matrix_type == EAGER_FP32 ? "tf32" : eager_type_text(eager->matrix_type);
}

/* edges: 0 z, 1 its transpose (the same z); number: batch, features, dim. */
static void bmm_backward(struct eager *eager, struct function *f)
{
    double batch = f->number[0], n = f->number[1], dim = f->number[2];
    enum eager_type type = f->in[0]->type;
    eager_host(eager, "..transpose ...as_strided ..bmm");
    f->out[1] = eager_tensor(eager, batch, n * dim, type);
    eager_kernel(eager, "gemm", "aten::bmm", "gemm", "bmm",
                 "b=%.0f;M=%.0f;N=%.0f;K=%.0f;dtype=%s;trans=tn;cache=produced", batch, dim, n, n,
                 matrix_type_text(eager));
    eager_host(eager, "..transpose ...as_strided ..bmm");
    f->out[0] = eager_tensor(eager, batch, n * dim, type);
    eager_kernel(eager, "gemm", "aten::bmm", "gemm", "bmm",
                 "b=%.0f;M=%.0f;N=%.0f;K=%.0f;dtype=%s;trans=nn;cache=produced", batch, n, dim, n,
                 matrix_type_text(eager));
}

/* The transpose of the second operand comes back as a strided view. */
static void transpose_backward(struct eager *eager, struct function *f)
{
    eager_host(eager, "..transpose ...as_strided");
    f->out[0] = eager_view(eager, f->in[0], f->in[0]->rows, f->in[0]->columns);
    f->out[0]->strided = true;
    f->out[0]->pitch = f->number[0];
}

static void index_map(struct eager *eager, double n, const char *in, int valu, int sfu)
{
    eager_kernel(eager, "elementwise", "aten::_index_put_impl_", "elementwise", "map",
                 "n=%.0f;bytes_in=%s;bytes_out=8;valu=%d;sfu=%d;style=vectorized;cache=produced", n, in, valu, sfu);
}

/* The gradient of indexing: zeros, then a sorted index_put of every pair's value. number: batch, pairs, features. */
static void index_backward(struct eager *eager, struct function *f)
{
    double batch = f->number[0], pairs = f->number[1], all = f->number[2] * f->number[2];
    enum eager_type type = f->in[0]->type;
    int bytes = (int)eager_type_bytes(type);
    eager_host(eager, "..new_zeros ...new_empty ....empty ...zero_ ....fill_");
    f->out[0] = eager_tensor(eager, batch, all, type);
    eager_kernel(eager, "elementwise", "aten::fill_", "elementwise", "fill", "n=%.0f;dtype=%s;cache=produced",
                 batch * all, eager_type_text(type));
    eager_host(eager, ".._index_put_impl_ ...remainder ....remainder");
    index_map(eager, pairs, "8", 24, 1);
    eager_host(eager, "...mul ....mul");
    index_map(eager, pairs, "8", 1, 0);
    eager_host(eager, "...to ...expand ....as_strided ...contiguous ....clone .....empty_like ......empty .....copy_");
    struct tensor *copy = eager_tensor(eager, batch, pairs, type);
    eager_kernel(eager, "elementwise", "aten::copy_", "elementwise", "map",
                 "n=%.0f;bytes_in=%d;bytes_out=%d;valu=0;sfu=0;style=strided;repeat=1;run=%.0f;pitch=%.0f;"
                 "cache=produced",
                 batch * pairs, bytes, bytes, pairs, f->in[0]->pitch > 0 ? f->in[0]->pitch : pairs);
    eager_host(eager, "...reshape ....view ...empty_like ....empty ...empty_like ....empty ...divide_ ....div_ .....div_");
    index_map(eager, pairs, "8", 20, 1);
    eager_host(eager, "...arange ....empty ....arange .....resize_");
    eager_kernel(eager, "elementwise", "aten::arange", "elementwise", "fill", "n=%.0f;dtype=int64;cache=produced",
                 pairs);
    eager_kernel_bytes(eager, "sort", "aten::_index_put_impl_", 2 * pairs * 8, 2 * pairs * 8);
    eager_kernel(eager, "embedding", "aten::_index_put_impl_", "index", "put_sorted", "n=%.0f;outer=%.0f;row=%.0f;dtype=%s",
                 pairs, batch, all, eager_type_text(type));
    eager_release(eager, copy);
}

/* edges: 0 dense features (bf16), 1 indexed products; number: batch, dim, pairs. */
static void interaction_cat_backward(struct eager *eager, struct function *f)
{
    double batch = f->number[0], dim = f->number[1], pairs = f->number[2];
    eager_host(eager, "..narrow ...slice ....as_strided ..narrow ...slice ....as_strided");
    for (uint32_t i = 0; i < 2; i++) {
        f->out[i] = eager_view(eager, f->in[0], batch, i == 0 ? dim : pairs);
        f->out[i]->strided = true;
        f->out[i]->pitch = dim + pairs;
    }
}

static struct tensor *products_of_pairs(struct eager *eager, struct tensor *z, double batch, double n, double dim)
{
    bool casts = z->type != eager->matrix_type && eager->inside_autocast;
    eager_host(eager, "transpose .as_strided bmm");
    struct function *turn = eager_function(eager, "TransposeBackward0", transpose_backward, 1);
    struct tensor *left = casts ? op_cast(eager, z, eager->matrix_type) : eager_view(eager, z, z->rows, z->columns);
    struct tensor *turned = eager_view(eager, z, z->rows, z->columns);
    if (turn != NULL) {
        turn->number[0] = n * dim;
        eager_edge(turn, 0, z);
        eager_produce(turned, turn, 0);
    }
    struct tensor *right = casts ? op_cast(eager, turned, eager->matrix_type)
                                 : eager_view(eager, turned, z->rows, z->columns);
    eager_host(eager, ".bmm");
    struct tensor *products = eager_tensor(eager, batch, n * n, left->type);
    struct function *f = eager_function(eager, "BmmBackward0", bmm_backward, 2);
    if (f != NULL) {
        f->number[0] = batch;
        f->number[1] = n;
        f->number[2] = dim;
        eager_edge(f, 0, left);
        eager_edge(f, 1, right);
        eager_save(eager, f, 0, left->storage);
        eager_save(eager, f, 1, right->storage);
        eager_saved(eager, f);
    }
    eager_kernel(eager, "gemm", "aten::bmm", "gemm", "bmm",
                 "b=%.0f;M=%.0f;N=%.0f;K=%.0f;dtype=%s;trans=nt;cache=produced", batch, n, n, dim,
                 matrix_type_text(eager));
    eager_produce(products, f, 0);
    eager_release(eager, left);
    eager_release(eager, turned);
    eager_release(eager, right);
    return products;
}

struct tensor *op_dot_interaction(struct eager *eager, struct tensor *x, struct tensor *z, double batch,
                                  double features, double dim)
{
    double pairs = features * (features - 1) / 2;
    struct tensor *products = products_of_pairs(eager, z, batch, features, dim);
    eager_host(eager, "flatten .view index .as_strided .reshape ..view");
    struct tensor *picked = eager_tensor(eager, batch, pairs, products->type);
    int bytes = (int)eager_type_bytes(products->type);
    struct function *index = eager_function(eager, "IndexBackward0", index_backward, 1);
    if (index != NULL) {
        index->number[0] = batch;
        index->number[1] = pairs;
        index->number[2] = features;
        eager_edge(index, 0, products);
    }
    eager_kernel(eager, "embedding", "aten::index", "elementwise", "map",
                 "n=%.0f;bytes_in=%d;bytes_out=%d;valu=20;sfu=0;style=strided;cache=produced", batch * pairs, bytes,
                 bytes);
    eager_produce(picked, index, 0);
    struct tensor *dense = op_cast(eager, x, picked->type);
    eager_host(eager, "cat");
    struct tensor *y = eager_tensor(eager, batch, dim + pairs, picked->type);
    struct function *f = eager_function(eager, "CatBackward0", interaction_cat_backward, 2);
    if (f != NULL) {
        f->number[0] = batch;
        f->number[1] = dim;
        f->number[2] = pairs;
        eager_edge(f, 0, dense);
        eager_edge(f, 1, picked);
    }
    eager_kernel(eager, "memory", "aten::cat", "cat", "concat", "rows=%.0f;cols=%.0f:%.0f;dtype=%s;cache=produced",
                 batch, dim, pairs, eager_type_text(picked->type));
    eager_produce(y, f, 0);
    eager_release(eager, products);
    eager_release(eager, picked);
    eager_release(eager, dense);
    return y;
}
