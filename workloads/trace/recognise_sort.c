/* Launches of device-wide sorts and scans (CUB, which frameworks and table libraries call). Their sizes are in no operator's
 * arguments when the call is made inside one, as a backward's sort of its lookups is; the launch has them: a tile a workgroup,
 * of as many items a thread as the library's tuning gives (cub/device/dispatch/tuning). */
#include "workloads/trace/recognise_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TILE_BITS_UNKNOWN 24 /* numbers of ten million rows */

static const char half_last_tile[] =
    "a sort's or scan's last tile is half full, where no operator tells its items";
static const char unknown_bits[] = "keys of a sort in one workgroup have 24 bits that count (range 8 to 64)";

struct pair_bytes {
    double key, value;
};

/* Bytes of the type that a template argument names; 0: a type of no size; < 0: unknown. */
static double type_bytes(const char *name)
{
    static const struct {
        const char *type;
        double bytes;
    } types[] = {
        { "unsigned long", 8 }, { "long", 8 },   { "double", 8 },        { "unsigned int", 4 },
        { "int", 4 },           { "float", 4 },  { "unsigned char", 1 }, { "signed char", 1 },
        { "char", 1 },          { "bool", 1 },   { "short", 2 },         { "unsigned short", 2 },
        { "c10::Half", 2 },     { "__half", 2 }, { "c10::BFloat16", 2 }, { "__nv_bfloat16", 2 },
    };
    const char *comma = strpbrk(name, ",>"), *opaque = strstr(name, "OpaqueType<"),
               *none = strstr(name, "NullType");
    if (comma != NULL && opaque != NULL && opaque < comma) {
        return strtod(opaque + strlen("OpaqueType<"), NULL);
    }
    if (comma != NULL && none != NULL && none < comma) {
        return 0;
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strncmp(name, types[i].type, strlen(types[i].type)) == 0) {
            return types[i].bytes;
        }
    }
    return -1;
}

/* The first argument of the template `of`; NULL without one. */
static const char *template_start(const char *name, const char *of)
{
    const char *at = strstr(name, of);
    return at == NULL ? NULL : at + strlen(of);
}

/* The argument behind `at`, at the same depth. */
static const char *next_argument(const char *at)
{
    int depth = 0;
    for (; *at != '\0' && depth >= 0; at++) {
        if (*at == ',' && depth == 0) {
            return at + 1 + strspn(at + 1, " ");
        }
        depth += (*at == '<') - (*at == '>');
    }
    return NULL;
}

/* Keys and values of a radix sort, of which its policy is the name's first template. */
static bool read_pair(const char *name, struct pair_bytes *out)
{
    const char *key = template_start(name, "DeviceRadixSortPolicy<");
    key = key != NULL ? key : template_start(name, "policy_hub<");
    const char *value = key == NULL ? NULL : next_argument(key);
    if (value == NULL) {
        return false;
    }
    *out = (struct pair_bytes){ type_bytes(key), type_bytes(value) };
    return out->key >= 1 && out->key <= 16 && out->value >= 0 && out->value <= 16;
}

/* Pairs a thread of a sweep holds. The library has a width per generation of chips, told by the workgroup, and scales it by the
 * wider of key and value; the latest one has fixed ones. */
static double sweep_items(const char *name, double threads, const struct pair_bytes *pair)
{
    double widest = fmax(fmax(pair->key, pair->value), 4);
    bool narrow = pair->key == 4 && pair->value == 4, latest = strstr(name, "Policy800") == NULL;
    if (threads != 256 && latest) {
        return narrow ? 17 : 12;
    }
    double items_of_4_bytes = threads != 256 ? 21 : narrow ? 46 : 23;
    return fmax(1, floor(items_of_4_bytes * 4 / widest));
}

/* Items in `tiles` tiles: as many as a tensor of whole numbers of the operator has, where that fits. */
static double items_in_tiles(struct recogniser *r, double tiles, double tile)
{
    for (size_t i = 0; i < r->tensors->tensor_count; i++) {
        const struct trace_tensor *tensor = &r->tensors->tensors[i];
        double elements = strncmp(tensor->dtype, "int", 3) == 0 && tensor->dim_count > 0
                              ? tensor_elements(tensor)
                              : 0;
        if (elements > (tiles - 1) * tile && elements <= tiles * tile) {
            return elements;
        }
    }
    r->out->assumption = half_last_tile;
    return floor((tiles - 0.5) * tile);
}

/* What the sweeps behind a launch sort, and how many there are up to the next sort. */
struct coming_sort {
    double items, passes;
};

static bool find_sort(struct recogniser *r, struct coming_sort *out)
{
    *out = (struct coming_sort){ 0 };
    for (size_t i = 0; i < r->site->after_count; i++) {
        const struct site_kernel *after = &r->site->after[i];
        struct pair_bytes pair;
        if (strstr(after->name, "RadixSortHistogram") != NULL && out->passes > 0) {
            break;
        }
        if (strstr(after->name, "RadixSortOnesweep") == NULL || !read_pair(after->name, &pair) ||
            after->grid[0] < 1) {
            continue;
        }
        double threads = (double)after->block[0];
        if (out->passes++ == 0) {
            out->items = items_in_tiles(r, (double)after->grid[0],
                                        threads * sweep_items(after->name, threads, &pair));
        }
    }
    return out->items >= 1;
}

static bool has_launch(const struct recogniser *r)
{
    return workgroups_of(r->site) >= 1 && r->site->block[0] >= 1;
}

static bool build_histogram(struct recogniser *r)
{
    struct coming_sort sort;
    struct pair_bytes pair;
    if (!read_pair(r->site->name, &pair) || (pair.key != 4 && pair.key != 8) || !find_sort(r, &sort)) {
        return false;
    }
    recognised_as(r, "sort", "histogram");
    param_number(r, "n", sort.items);
    param_number(r, "key_bytes", pair.key);
    param_number(r, "passes", fmin(sort.passes, pair.key));
    result_bytes(r, sort.items * pair.key, 2048 * sort.passes, 0);
    result_dtype(r, dtype_of_bytes((uint32_t)pair.key));
    return true;
}

static bool build_bin_sum(struct recogniser *r)
{
    double passes = workgroups_of(r->site);
    if (passes < 1 || passes > 16) {
        return false;
    }
    recognised_as(r, "sort", "bin_sum");
    param_number(r, "passes", passes);
    result_bytes(r, 2048 * passes, 2048 * passes, 0);
    result_dtype(r, "int64");
    return true;
}

static bool build_sweep(struct recogniser *r)
{
    struct pair_bytes pair;
    if (!has_launch(r) || !read_pair(r->site->name, &pair) || r->site->block[0] % 64 != 0 || pair.key > 8) {
        return false;
    }
    double threads = (double)r->site->block[0], items = sweep_items(r->site->name, threads, &pair);
    double n = items_in_tiles(r, workgroups_of(r->site), threads * items);
    recognised_as(r, "sort", "sweep");
    param_number(r, "n", n);
    param_number(r, "key_bytes", pair.key);
    param_number(r, "value_bytes", pair.value);
    param_number(r, "threads", threads);
    param_number(r, "items", items);
    result_bytes(r, n * (pair.key + pair.value), n * (pair.key + pair.value), 0);
    result_dtype(r, dtype_of_bytes((uint32_t)pair.key));
    return true;
}

static bool build_single_tile(struct recogniser *r)
{
    struct pair_bytes pair;
    if (!read_pair(r->site->name, &pair) || pair.key > 8) {
        return false;
    }
    double widest = fmax(fmax(pair.key, pair.value), 4),
           n = items_in_tiles(r, 1, 256 * floor(19 * 4 / widest));
    recognised_as(r, "sort", "single_tile");
    param_number(r, "n", n);
    param_number(r, "key_bytes", pair.key);
    param_number(r, "value_bytes", pair.value);
    param_number(r, "bits", fmin(TILE_BITS_UNKNOWN, 8 * pair.key));
    result_bytes(r, n * (pair.key + pair.value), n * (pair.key + pair.value), 0);
    result_dtype(r, dtype_of_bytes((uint32_t)pair.key));
    r->out->assumption = unknown_bits;
    return true;
}

/* ---- passes whose workgroups look back ---- */

struct chained {
    double items, item_bytes, out_bytes;
};

static bool build_chained(struct recogniser *r, const struct chained *c)
{
    if (!has_launch(r) || r->site->block[0] % 64 != 0 || c->item_bytes < 1 || c->item_bytes > 16 ||
        c->out_bytes > 16) {
        return false;
    }
    double threads = (double)r->site->block[0],
           n = items_in_tiles(r, workgroups_of(r->site), threads * c->items);
    recognised_as(r, "sort", "chained");
    param_number(r, "n", n);
    param_number(r, "items", c->items);
    param_number(r, "threads", threads);
    param_number(r, "item_bytes", c->item_bytes);
    param_number(r, "out_bytes", c->out_bytes);
    result_bytes(r, n * c->item_bytes, n * c->out_bytes, n);
    result_dtype(r, dtype_of_bytes((uint32_t)c->item_bytes));
    return true;
}

/* 15 items of 4 bytes a thread, scaled by the element. Its type is the third argument of the policy, or the hub's first. */
static bool build_scan(struct recogniser *r)
{
    const char *type = template_start(r->site->name, "AgentScanPolicy<");
    type = type == NULL ? NULL : next_argument(type);
    type = type == NULL ? NULL : next_argument(type);
    type = type != NULL ? type : template_start(r->site->name, "DeviceScanPolicy<");
    type = type != NULL ? type : template_start(r->site->name, "policy_hub<");
    double bytes = type == NULL ? -1 : type_bytes(type);
    struct chained scan = { fmax(1, floor(15 * 4 / fmax(bytes, 4))), bytes, bytes };
    return build_chained(r, &scan);
}

/* Each run's key and its length; runs of one. */
static bool build_reduce_by_key(struct recogniser *r)
{
    const char *type = template_start(r->site->name, "DispatchReduceByKey<");
    double bytes = type == NULL ? -1 : type_bytes(type);
    struct chained reduce = { 6, bytes, bytes + 4 };
    return build_chained(r, &reduce);
}

/* Where runs of equal keys start: seven 8-byte keys a thread. */
static bool build_unique_by_key(struct recogniser *r)
{
    struct chained unique = { 7, 8, 8 };
    return build_chained(r, &unique);
}

/* A word of status for every tile. */
static bool build_status(struct recogniser *r)
{
    if (!has_launch(r)) {
        return false;
    }
    double words = workgroups_of(r->site) * (double)r->site->block[0];
    recognised_as(r, "elementwise", "fill");
    param_number(r, "n", words);
    param_text(r, "dtype", "int64");
    param_in_step_cache(r);
    result_bytes(r, 0, words * 8, 0);
    result_dtype(r, "int64");
    return true;
}

/* ---- row numbers ahead of the sort ---- */

static bool build_linearize(struct recogniser *r)
{
    struct coming_sort sort;
    if (!has_launch(r)) {
        return false;
    }
    double bags = workgroups_of(r->site) * (double)r->site->block[0];
    if (!find_sort(r, &sort)) {
        sort.items = bags;
        r->out->assumption = "row numbers of a small backward: an index a bag";
    }
    double index_bytes = strstr(r->site->name, "linearize_index_kernel<int") != NULL ? 4 : 8;
    recognised_as(r, "tbe", "linearize");
    param_number(r, "bags", bags);
    param_number(r, "n", sort.items);
    param_number(r, "index_bytes", index_bytes);
    result_bytes(r, sort.items * index_bytes + 8 * bags, sort.items * 12, 0);
    result_dtype(r, "int64");
    return true;
}

const struct recogniser_rule recogniser_sort_rules[] = {
    { "DeviceRadixSortSingleTileKernel", NULL, "sort", build_single_tile },
    { "DeviceRadixSortHistogramKernel", NULL, "sort", build_histogram },
    { "DeviceRadixSortExclusiveSumKernel", NULL, "sort", build_bin_sum },
    { "DeviceRadixSortOnesweepKernel", NULL, "sort", build_sweep },
    { "DeviceScanInitKernel", NULL, "sort", build_status },
    { "DeviceCompactInitKernel", NULL, "sort", build_status },
    { "DeviceScanKernel", NULL, "sort", build_scan },
    { "DeviceReduceByKeyKernel", NULL, "sort", build_reduce_by_key },
    { "DeviceUniqueByKeySweepKernel", NULL, "sort", build_unique_by_key },
    { "linearize_index_kernel", NULL, "embedding", build_linearize },
    { NULL, NULL, NULL, NULL },
};
