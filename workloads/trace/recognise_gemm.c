/* Matrix products: sizes from the operator's tensors, the tile from the library kernel's name.
 *
 * Libraries work column-major, so their first tile dimension covers the framework's N and their second its M. nvjet names
 * end in three letters: the operands' and the result's; a T in third place swaps the tile against the framework's view
 * (64x8_.._TNT covers 8192 x 1 with 64 along 8192). The recorded grids of the traces in tests/fixtures agree. */
#include "workloads/trace/recognise_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SPLIT_MAX 35 /* gemm/tile takes no more */

struct product {
    double batch, m, n, k;
    const char *trans;
    const struct trace_tensor *a, *b;
};

/* Tile of a kernel name, in its own order; 0 unknown. */
struct named_tile {
    unsigned first, second, k, stages, cluster_first, cluster_second;
    bool swapped, registers;
};

/* ---- the operator ---------------------------------------------------------------------------------------------- */

static bool is_row_major(const struct trace_tensor *tensor)
{
    return !tensor->has_strides || tensor->strides[tensor->dim_count - 1] == 1;
}

/* Where both strides are 1 (a vector) either reading is right: take the one that needs no transposition. */
static const char *trans_of(const struct trace_tensor *a, const struct trace_tensor *b)
{
    bool a_rows = is_row_major(a), b_rows = is_row_major(b);
    return a_rows ? (b_rows ? "nn" : "nt") : b_rows ? "tn" : "tt";
}

struct product_operator {
    const char *name;
    size_t a, b;
};
static const struct product_operator product_operators[] = {
    { "aten::mm", 0, 1 },      { "aten::addmm", 1, 2 },      { "aten::bmm", 0, 1 },
    { "aten::baddbmm", 1, 2 }, { "aten::_scaled_mm", 0, 1 }, { "aten::_addmm_activation", 1, 2 },
    { "aten::matmul", 0, 1 },  { "aten::mv", 0, 1 },         { "aten::dot", 0, 1 },
};

static bool find_product(const struct recogniser *r, struct product *p)
{
    const char *name = innermost_operator(r);
    for (size_t i = 0; i < sizeof product_operators / sizeof product_operators[0]; i++) {
        const struct product_operator *op = &product_operators[i];
        size_t length = strlen(op->name);
        if (strncmp(name, op->name, length) != 0 || (name[length] != '\0' && name[length] != '_')) {
            continue;
        }
        const struct trace_tensor *a = tensor_at(r, op->a), *b = tensor_at(r, op->b);
        if (a == NULL || b == NULL || a->dim_count != b->dim_count ||
            (a->dim_count != 2 && a->dim_count != 3)) {
            return false;
        }
        uint32_t d = a->dim_count - 2;
        *p = (struct product){ .batch = d == 1 ? (double)a->dims[0] : 1,
                               .m = (double)a->dims[d],
                               .k = (double)a->dims[d + 1],
                               .n = (double)b->dims[d + 1],
                               .trans = trans_of(a, b),
                               .a = a,
                               .b = b };
        return b->dims[d] == a->dims[d + 1] && p->batch >= 1 && p->m >= 1 && p->n >= 1 && p->k >= 1;
    }
    return false;
}

/* fp32 operands run as tf32 on matrix units unless the kernel's name says otherwise. */
static const char *dtype_of(const struct product *p, const char *kernel)
{
    if (strcmp(p->a->dtype, "fp32") != 0) {
        return p->a->dtype;
    }
    bool vector_units = strstr(kernel, "sgemm") != NULL || strstr(kernel, "SIMT") != NULL ||
                        strstr(kernel, "simt") != NULL || strstr(kernel, "gemv") != NULL ||
                        strstr(kernel, "_SB_") != NULL || strstr(kernel, "ffma") != NULL;
    return vector_units ? "fp32" : "tf32";
}

/* ---- the name -------------------------------------------------------------------------------------------------- */

/* "192x64": digits, x, digits. Moves `at` behind it; leaves everything alone otherwise. */
static bool read_pair(const char **at, unsigned *first, unsigned *second)
{
    char *middle, *end;
    if (**at < '0' || **at > '9') {
        return false;
    }
    unsigned long a = strtoul(*at, &middle, 10);
    if (*middle != 'x' || middle[1] < '0' || middle[1] > '9') {
        return false;
    }
    unsigned long b = strtoul(middle + 1, &end, 10);
    if (a > 65536 || b > 65536) {
        return false;
    }
    *first = (unsigned)a;
    *second = (unsigned)b;
    *at = end;
    return true;
}

/* The text behind the next '_' that digits, x, digits follow; NULL none. */
static const char *next_pair(const char *at)
{
    unsigned first, second;
    for (at = at == NULL ? NULL : strchr(at, '_'); at != NULL; at = strchr(at + 1, '_')) {
        const char *pair = at + 1;
        if (read_pair(&pair, &first, &second)) {
            return at + 1;
        }
    }
    return NULL;
}

/* nvjet_sm90_tst_192x192_64x4_1x2_h_bz_coopB_bias_TNN */
static bool read_nvjet(const char *name, struct named_tile *t)
{
    const char *at = strstr(name, "nvjet_");
    at = at == NULL ? NULL : next_pair(at);
    if (at == NULL || !read_pair(&at, &t->first, &t->second) || *at++ != '_' ||
        !read_pair(&at, &t->k, &t->stages) || *at++ != '_' ||
        !read_pair(&at, &t->cluster_first, &t->cluster_second)) {
        return false;
    }
    t->swapped = name[strlen(name) - 1] == 'T';
    return true;
}

/* ..._tilesize128x128x64_stage4_..., Cijk_..._MT256x128x64_... */
static bool read_three(const char *name, struct named_tile *t)
{
    const char *tilesize = strstr(name, "tilesize"), *macro = strstr(name, "_MT"),
               *stage = strstr(name, "_stage");
    const char *at = tilesize != NULL ? tilesize + strlen("tilesize")
                     : macro != NULL  ? macro + strlen("_MT")
                                      : NULL;
    if (at == NULL || !read_pair(&at, &t->first, &t->second) || *at != 'x') {
        return false;
    }
    t->k = (unsigned)strtoul(at + 1, NULL, 10);
    t->stages = stage == NULL ? 0 : (unsigned)strtoul(stage + strlen("_stage"), NULL, 10);
    return true;
}

/* cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_tn_align1, cutlass_80_..._128x64_64x6_nn_align8,
 * ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn */
static bool read_two(const char *name, struct named_tile *t)
{
    const char *at = next_pair(strstr(name, "gemm"));
    if (at == NULL || !read_pair(&at, &t->first, &t->second)) {
        return false;
    }
    const char *stages = strstr(at, "stages_");
    at = stages != NULL ? stages + strlen("stages") : at;
    if (*at == '_') {
        at++;
        read_pair(&at, &t->k, &t->stages);
    }
    t->registers = strstr(name, "cutlass_75") != NULL;
    return true;
}

static bool read_tile(const char *name, struct named_tile *t)
{
    memset(t, 0, sizeof *t);
    if (!read_nvjet(name, t) && !read_three(name, t) && !read_two(name, t)) {
        return false;
    }
    return t->first >= 8 && t->first <= 1024 && t->second >= 8 && t->second <= 1024;
}

/* Along the framework's M and N. */
static void orient(const struct named_tile *t, const struct product *p, double *tile_m, double *tile_n,
                   bool *first_is_m)
{
    *first_is_m = t->swapped;
    if ((p->m == 1) !=
        (p->n == 1)) { /* a vector: the library may have swapped it, the wide side covers the long one */
        *first_is_m = (t->first >= t->second) == (p->m > p->n);
    }
    *tile_m = *first_is_m ? t->first : t->second;
    *tile_n = *first_is_m ? t->second : t->first;
}

/* How many workgroups share a tile's K: workgroups over tiles, where the name or the grid's third dimension says so. */
static double split_of(const char *name, const uint64_t grid[3], const struct product *p, double tile_m,
                       double tile_n)
{
    double tiles = ceil(p->m / tile_m) * ceil(p->n / tile_n) * p->batch;
    double workgroups = (double)grid[0] * (double)grid[1] * (double)grid[2];
    bool by_name = strstr(name, "splitK") != NULL;
    bool by_depth = (strstr(name, "cutlass") != NULL || strstr(name, "xmma") != NULL) && p->batch == 1 && grid[2] > 1;
    if (workgroups == 0 || (!by_name && !by_depth)) {
        return 1;
    }
    double split = by_depth && !by_name ? (double)grid[2] : floor(workgroups / tiles + 0.5);
    return split < 1 ? 1 : split;
}

/* ---- builders -------------------------------------------------------------------------------------------------- */

static void param_tile(struct recogniser *r, const struct product *p, const struct named_tile *t)
{
    double tile_m, tile_n;
    bool first_is_m;
    orient(t, p, &tile_m, &tile_n, &first_is_m);
    double split = split_of(r->site->name, r->site->grid, p, tile_m, tile_n);
    param_number(r, "tile_m", tile_m);
    param_number(r, "tile_n", tile_n);
    if (t->k >= 4) {
        param_number(r, "tile_k", t->k);
    }
    if (t->stages >= 2) {
        param_number(r, "stages", t->stages);
    }
    if (split > SPLIT_MAX) {
        r->out->assumption = "a product split over more than 35 parts of K is priced as split over 35";
        split = SPLIT_MAX;
    }
    if (split > 1) {
        param_number(r, "split_k", split);
        param_number(r, "reduction", 0); /* the recording has it as a kernel of its own */
    }
    if (t->cluster_first > 0) {
        param_number(r, "cluster_m", first_is_m ? t->cluster_first : t->cluster_second);
        param_number(r, "cluster_n", first_is_m ? t->cluster_second : t->cluster_first);
    }
    if (t->registers) {
        param_text(r, "style", "register");
    }
    if (strstr(r->site->name, "_bias") != NULL) {
        param_number(r, "bias", 1);
    }
}

static void report_product(struct recogniser *r, const struct product *p)
{
    result_bytes(r, tensor_bytes(p->a) + tensor_bytes(p->b), p->batch * p->m * p->n * p->a->element_bytes,
                 2 * p->batch * p->m * p->n * p->k);
    result_dtype(r, dtype_of(p, r->site->name));
}

static bool build_gemm(struct recogniser *r)
{
    static const char *const dtypes[] = { "bf16", "fp16", "tf32", "fp32", "fp8" };
    struct product p;
    struct named_tile tile;
    if (!find_product(r, &p)) {
        return false;
    }
    report_product(r, &p);
    bool known = false;
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        known = known || strcmp(r->out->dtype, dtypes[i]) == 0;
    }
    if (!known) {
        return false;
    }
    bool tiled = read_tile(r->site->name, &tile);
    recognised_as(r, "gemm", tiled ? "tile" : p.batch > 1 ? "bmm" : "mm");
    if (p.batch > 1) {
        param_number(r, tiled ? "batch" : "b", p.batch);
    }
    param_number(r, "M", p.m);
    param_number(r, "N", p.n);
    param_number(r, "K", p.k);
    param_text(r, "dtype", r->out->dtype);
    param_text(r, "trans", p.trans);
    if (tiled) {
        param_tile(r, &p, &tile);
    }
    param_in_step_cache(r);
    return true;
}

/* The partial results of a split product, added up: fp32, one matrix a part. */
static bool build_split_reduction(struct recogniser *r)
{
    struct product p;
    struct named_tile tile;
    if (!find_product(r, &p) || r->site->before_name == NULL || !read_tile(r->site->before_name, &tile)) {
        return false;
    }
    double tile_m, tile_n;
    bool first_is_m;
    orient(&tile, &p, &tile_m, &tile_n, &first_is_m);
    double split = split_of(r->site->before_name, r->site->before_grid, &p, tile_m, tile_n),
           results = p.batch * p.m * p.n;
    recognised_as(r, "reduction", "columns");
    param_number(r, "rows", split);
    param_number(r, "cols", results);
    param_text(r, "dtype_in", "fp32");
    param_text(r, "dtype_out", dtype_of_bytes(p.a->element_bytes));
    param_in_step_cache(r);
    result_bytes(r, split * results * 4, results * p.a->element_bytes, split * results);
    result_dtype(r, p.a->dtype);
    return true;
}

const struct recogniser_rule recogniser_gemm_rules[] = {
    { "splitKreduce", NULL, "gemm", build_split_reduction },
    { "_execute_split_k", NULL, "gemm", build_split_reduction },
    { "nvjet_", NULL, "gemm", build_gemm },
    { "gemm", NULL, "gemm", build_gemm },
    { "Cijk_", NULL, "gemm", build_gemm },
    { "gemv", NULL, "gemm", build_gemm },
    { "xmma_", "mm", "gemm", build_gemm },
    { "cutlass", "mm", "gemm", build_gemm },
    { "dot_kernel", NULL, "gemm", NULL },
    { "implicit_convolve", NULL, "gemm", NULL },
    { "fprop", "conv", "gemm", NULL },
    { "dgrad", "conv", "gemm", NULL },
    { "wgrad", "conv", "gemm", NULL },
    { NULL, NULL, NULL, NULL },
};
