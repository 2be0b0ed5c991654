/* Model descriptions from JSON, and changes to them. */
#include "sim/core/data_path.h"
#include "sim/core/json.h"
#include "workloads/models/model_internal.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    const char *path;
    struct sim_error *error;
    enum sim_status status;
};

static void fail(struct reading *r, const struct json *at, const char *format, ...)
{
    char text[400];
    va_list arguments;
    if (r->status != SIM_OK) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->status = sim_fail(r->error, SIM_BAD_FILE, "%s:%u: %s", r->path, at != NULL ? json_line(at) : 1, text);
}

/* ---- typed values with their ranges ---------------------------------------------------------------------------- */

static bool is_among(const char *key, const char *const *keys)
{
    for (size_t i = 0; keys[i] != NULL; i++) {
        if (strcmp(keys[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static void check_keys(struct reading *r, const struct json *object, const char *what, const char *const *keys)
{
    for (size_t i = 0; i < json_count(object); i++) {
        const struct json *child = json_at(object, i);
        if (!is_among(json_key(child), keys)) {
            char list[300] = "";
            for (size_t k = 0; keys[k] != NULL; k++) {
                size_t used = strlen(list);
                snprintf(list + used, sizeof list - used, "%s%s", k > 0 ? ", " : "", keys[k]);
            }
            fail(r, child, "unknown key '%s' of %s (keys: %s)", json_key(child), what, list);
        }
    }
}

static double number(struct reading *r, const struct json *object, const char *key, double fallback, double min,
                     double max)
{
    const struct json *value = json_get(object, key);
    if (value == NULL) {
        if (isnan(fallback)) {
            fail(r, object, "'%s' is missing (a number of %g to %g)", key, min, max);
        }
        return fallback;
    }
    if (json_kind_of(value) != JSON_NUMBER || json_number(value) < min || json_number(value) > max) {
        if (json_kind_of(value) == JSON_NUMBER) {
            fail(r, value, "'%s' is %g, must be %g to %g", key, json_number(value), min, max);
        } else {
            fail(r, value, "'%s' must be a number of %g to %g", key, min, max);
        }
        return fallback;
    }
    return json_number(value);
}

static const char *text(struct reading *r, const struct json *object, const char *key, const char *fallback)
{
    const struct json *value = json_get(object, key);
    if (value == NULL) {
        if (fallback == NULL) {
            fail(r, object, "'%s' is missing (a text)", key);
        }
        return fallback != NULL ? fallback : "";
    }
    if (json_kind_of(value) != JSON_STRING) {
        fail(r, value, "'%s' must be a text", key);
        return fallback != NULL ? fallback : "";
    }
    return json_string(value);
}

static bool truth(struct reading *r, const struct json *object, const char *key, bool fallback)
{
    const struct json *value = json_get(object, key);
    if (value == NULL) {
        return fallback;
    }
    if (json_kind_of(value) != JSON_BOOL) {
        fail(r, value, "'%s' must be true or false", key);
        return fallback;
    }
    return json_bool(value);
}

static int choice_of(const char *value, const char *const *choices)
{
    for (int i = 0; choices[i] != NULL; i++) {
        if (strcmp(value, choices[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static int choice(struct reading *r, const struct json *object, const char *key, const char *fallback,
                  const char *const *choices)
{
    const char *value = text(r, object, key, fallback);
    int found = choice_of(value, choices);
    if (found < 0) {
        char list[200] = "";
        for (size_t k = 0; choices[k] != NULL; k++) {
            size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s", k > 0 ? "|" : "", choices[k]);
        }
        fail(r, json_get(object, key), "'%s' is '%s', must be %s", key, value, list);
        return 0;
    }
    return found;
}

static const char *const precisions[] = { "fp32", "bf16-autocast", "bf16", NULL };
static const char *const parallels[] = { "none", "flat", "ddp", "zero1", "zero2", "zero3", "hsdp", NULL };
static const char *const optimizers[] = { "sgd", "adam", "adamw", "rowwise-adagrad", "shampoo", NULL };
static const char *const types[] = { "fp32", "bf16", "fp16", NULL };
static const char *const lookups[] = { "bag", "fused", NULL };
static const char *const losses[] = { "cross-entropy", "bce", NULL };
static const char *const activations[] = { "none", "relu", "gelu", "silu", NULL };
static const char *const layer_kinds[] = { "mlp", "dot", "dcn", "fm", "transformer", "hstu", "gdpa", "head", NULL };

/* ---- tables ---------------------------------------------------------------------------------------------------- */

static void read_table(struct reading *r, struct model *model, const struct json *object)
{
    static const char *const keys[] = { "name", "count", "rows", "dim", "pooling", "skew", "hot_share", "weighted",
                                        "precision", "optimizer", "gradient", "per", NULL };
    check_keys(r, object, "a table", keys);
    uint32_t count = (uint32_t)number(r, object, "count", 1, 1, 1e6);
    const struct json *pooling = json_get(object, "pooling");
    struct model_table table = { 0 };
    snprintf(table.name, sizeof table.name, "%s", text(r, object, "name", "table"));
    table.rows = number(r, object, "rows", NAN, 1, 1e12);
    table.dim = number(r, object, "dim", NAN, 1, 1e6);
    table.skew = number(r, object, "skew", 0, 0, 10);
    table.hot_share = number(r, object, "hot_share", 0, 0, 1);
    table.weighted = truth(r, object, "weighted", false);
    table.type = (enum eager_type)choice(r, object, "precision", "fp32", types);
    table.optimizer = (enum model_optimizer)choice(r, object, "optimizer", "sgd", optimizers);
    static const char *const per[] = { "position", "example", NULL };
    table.per_example = choice(r, object, "per", "position", per) == 1;
    const char *gradient = text(r, object, "gradient", "sparse");
    model->sparse_gradient = strcmp(gradient, "dense") != 0;
    bool listed = pooling != NULL && json_kind_of(pooling) == JSON_ARRAY;
    if (listed && json_count(pooling) != count) {
        fail(r, pooling, "'pooling' lists %zu values for %u tables", json_count(pooling), count);
    }
    struct model_table *all = realloc(model->tables, (model->table_count + count) * sizeof *all);
    SIM_ASSERT(all != NULL, "no memory for %u tables", count);
    model->tables = all;
    for (uint32_t i = 0; i < count && r->status == SIM_OK; i++) {
        struct model_table *to = &all[model->table_count++];
        *to = table;
        if (count > 1) {
            snprintf(to->name, sizeof to->name, "%.48s%u", table.name, i);
        }
        if (listed) {
            const struct json *value = json_at(pooling, i);
            if (json_kind_of(value) != JSON_NUMBER || json_number(value) <= 0 || json_number(value) > 1e6) {
                fail(r, value, "'pooling' of table %s must be a number above 0 and to 1e6", to->name);
                return;
            }
            to->pooling = json_number(value);
        } else {
            to->pooling = number(r, object, "pooling", 1, 1e-6, 1e6);
        }
    }
}

/* ---- layers ---------------------------------------------------------------------------------------------------- */

static void read_layer(struct reading *r, struct model *model, const struct json *object)
{
    static const char *const keys[] = { "kind", "name", "input", "widths", "activation", "bias", "count", "rank",
                                        "heads", "inner", "classes", "causal", "head_dim", "attention", "fused", "per", NULL };
    if (model->layer_count == MODEL_LAYERS_MAX) {
        fail(r, object, "more than %d layers", MODEL_LAYERS_MAX);
        return;
    }
    check_keys(r, object, "a layer", keys);
    struct model_layer *layer = &model->layers[model->layer_count++];
    layer->kind = (enum model_layer_kind)choice(r, object, "kind", NULL, layer_kinds);
    snprintf(layer->name, sizeof layer->name, "%s", text(r, object, "name", layer_kinds[layer->kind]));
    layer->input = number(r, object, "input", 0, 0, 1e9);
    layer->activation = (enum eager_activation)choice(r, object, "activation", "relu", activations);
    layer->bias = truth(r, object, "bias", true);
    layer->count = number(r, object, "count", 1, 1, 1e4);
    layer->rank = number(r, object, "rank", 0, 0, 1e6);
    layer->heads = number(r, object, "heads", 1, 1, 1e4);
    layer->inner = number(r, object, "inner", 4, 1e-3, 64);
    layer->classes = number(r, object, "classes", 1, 1, 1e9);
    static const char *const attentions[] = { "softmax", "silu", "gelu", NULL };
    layer->attention = (enum model_attention)choice(r, object, "attention",
                                                    layer->kind == LAYER_GDPA ? "gelu" : "softmax", attentions);
    layer->head_dim = number(r, object, "head_dim", 0, 0, 4096);
    layer->causal = truth(r, object, "causal", true);
    layer->fused = truth(r, object, "fused", false);
    static const char *const per[] = { "position", "example", NULL };
    layer->per_example = choice(r, object, "per", "position", per) == 1;
    if (layer->fused && (layer->kind != LAYER_HSTU || layer->attention != ATTENTION_SILU)) {
        fail(r, json_get(object, "fused"), "'fused' is of hstu layers with \"attention\": \"silu\"");
    }
    if (layer->per_example && layer->kind != LAYER_HEAD) {
        fail(r, json_get(object, "per"), "'per' is of a head: position, or example (one position of each sequence)");
    }
    const struct json *widths = json_get(object, "widths");
    if (layer->kind == LAYER_MLP && (widths == NULL || json_kind_of(widths) != JSON_ARRAY || json_count(widths) == 0 ||
                                     json_count(widths) > MODEL_WIDTHS_MAX)) {
        fail(r, object, "an mlp needs 'widths', a list of 1 to %d numbers", MODEL_WIDTHS_MAX);
        return;
    }
    for (size_t i = 0; widths != NULL && json_kind_of(widths) == JSON_ARRAY && i < json_count(widths); i++) {
        const struct json *value = json_at(widths, i);
        if (json_kind_of(value) != JSON_NUMBER || json_number(value) < 1) {
            fail(r, value, "a width must be a number of at least 1");
            return;
        }
        layer->width[layer->width_count++] = json_number(value);
    }
}

static void read_list(struct reading *r, struct model *model, const struct json *root, const char *key,
                      void (*read)(struct reading *, struct model *, const struct json *))
{
    const struct json *list = json_get(root, key);
    if (list == NULL || json_kind_of(list) != JSON_ARRAY || json_count(list) == 0) {
        fail(r, list != NULL ? list : root, "'%s' must be a list of at least one object", key);
        return;
    }
    for (size_t i = 0; i < json_count(list) && r->status == SIM_OK; i++) {
        if (json_kind_of(json_at(list, i)) != JSON_OBJECT) {
            fail(r, json_at(list, i), "'%s' must hold objects", key);
            return;
        }
        read(r, model, json_at(list, i));
    }
}

static void read_root(struct reading *r, struct model *model, const struct json *root)
{
    static const char *const keys[] = { "schema", "name", "title", "source", "assumptions", "batch", "sequence", "precision",
                                        "optimizer", "lookup", "input", "tables", "layers", "loss", "checkpoint",
                                        "parallel", "gpus", "workspace_mib", "bucket_mib", "plan", "table_gib", "per_node", "length_share", "exchange",
                                        "pipelined", "deduplicated", NULL };
    check_keys(r, root, "a model", keys);
    snprintf(model->name, sizeof model->name, "%s", text(r, root, "name", NULL));
    model->batch = number(r, root, "batch", NAN, 1, 1e9);
    model->sequence = number(r, root, "sequence", 1, 1, 1e7);
    model->exchange = (enum eager_type)choice(r, root, "exchange", "fp32", types);
    model->length_share = number(r, root, "length_share", 1, 1e-4, 1);
    model->checkpoint = number(r, root, "checkpoint", 0, 0, 1);
    model->gpus = (uint32_t)number(r, root, "gpus", 1, 1, 1e6);
    model->precision = (enum model_precision)choice(r, root, "precision", "bf16-autocast", precisions);
    model->parallel = (enum model_parallel)choice(r, root, "parallel", "flat", parallels);
    model->optimizer = (enum model_optimizer)choice(r, root, "optimizer", "adam", optimizers);
    model->lookup = (enum model_lookup)choice(r, root, "lookup", "bag", lookups);
    model->bce = choice(r, root, "loss", "bce", losses) == 1;
    model->workspace_mib = number(r, root, "workspace_mib", 64, 0, 1e5);
    model->bucket_mib = number(r, root, "bucket_mib", 25, 0, 1e5);
    snprintf(model->plan_name, sizeof model->plan_name, "%s", text(r, root, "plan", ""));
    model->table_gib = number(r, root, "table_gib", 96, 0.001, 1e6);
    model->gives_table_gib = json_get(root, "table_gib") != NULL;
    model->per_node = (uint32_t)number(r, root, "per_node", 8, 1, 1024);
    model->pipelined = truth(r, root, "pipelined", true);
    model->deduplicated = truth(r, root, "deduplicated", false);
    model->sequence_input = strcmp(text(r, root, "input", "pooled"), "sequence") == 0;
    read_list(r, model, root, "tables", read_table);
    read_list(r, model, root, "layers", read_layer);
}

enum sim_status model_read(const char *path, struct model **out, struct sim_error *error)
{
    struct json *root = NULL;
    char *imported = NULL;
    enum sim_status status = SIM_OK;
    *out = NULL;
    if (model_can_import(path)) {
        status = model_import(path, &imported, error);
        status = status == SIM_OK ? json_read_text(imported, path, &root, error) : status;
        free(imported);
    } else {
        status = json_read_file(path, &root, error);
    }
    if (status != SIM_OK) {
        return status;
    }
    struct model *model = calloc(1, sizeof *model);
    SIM_ASSERT(model != NULL, "no memory for a model");
    snprintf(model->path, sizeof model->path, "%s", path);
    model->reserve_gib = model->reserve_share = -1;
    struct reading reading = { .path = path, .error = error };
    const struct json *schema = json_kind_of(root) == JSON_OBJECT ? json_get(root, "schema") : NULL;
    if (schema == NULL || json_kind_of(schema) != JSON_STRING || strcmp(json_string(schema), "reckon.model/1") != 0) {
        fail(&reading, root, "not a model description: its 'schema' must be \"reckon.model/1\"");
    } else {
        read_root(&reading, model, root);
    }
    json_destroy(root);
    if (reading.status != SIM_OK) {
        model_destroy(model);
        return reading.status;
    }
    *out = model;
    return SIM_OK;
}

void model_destroy(struct model *model)
{
    if (model != NULL) {
        free(model->tables);
        free(model);
    }
}

bool model_is_file(const char *path)
{
    char head[4096];
    if (model_can_import(path)) {
        return true;
    }
    if (!data_path_ends_in(path, ".json")) {
        return false;
    }
    FILE *file = data_path_is_pipe(path) ? NULL : fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    head[fread(head, 1, sizeof head - 1, file)] = '\0';
    fclose(file);
    return strstr(head, "reckon.model/") != NULL;
}

void model_room(struct model *model, double gpu_gib)
{
    if (!model->gives_table_gib) {
        model->table_gib = fmax(model->table_gib, gpu_gib * 2 / 3);
    }
}

uint32_t model_gpus(const struct model *model)
{
    return model->gpus;
}

double model_batch(const struct model *model)
{
    return model->batch;
}

const char *model_name(const struct model *model)
{
    return model->name;
}

/* ---- changes --------------------------------------------------------------------------------------------------- */

static enum sim_status set_number(const char *key, const char *value, double min, double max, double *out,
                                  struct sim_error *error)
{
    char *end = NULL;
    double x = strtod(value, &end);
    if (value[0] == '\0' || *end != '\0' || !(x >= min && x <= max)) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "--set %s=%s: must be a number of %g to %g", key, value, min, max);
    }
    *out = x;
    return SIM_OK;
}

static enum sim_status set_choice(const char *key, const char *value, const char *const *choices, int *out,
                                  struct sim_error *error)
{
    int found = choice_of(value, choices);
    if (found < 0) {
        char list[200] = "";
        for (size_t k = 0; choices[k] != NULL; k++) {
            size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s", k > 0 ? "|" : "", choices[k]);
        }
        return sim_fail(error, SIM_BAD_ARGUMENT, "--set %s=%s: must be %s", key, value, list);
    }
    *out = found;
    return SIM_OK;
}

/* Blocks of the stack that repeats: the one layer with heads. */
static struct model_layer *repeated_layer(struct model *model)
{
    for (uint32_t i = 0; i < model->layer_count; i++) {
        enum model_layer_kind kind = model->layers[i].kind;
        if (kind == LAYER_TRANSFORMER || kind == LAYER_HSTU || kind == LAYER_GDPA) {
            return &model->layers[i];
        }
    }
    for (uint32_t i = 0; i < model->layer_count; i++) {
        if (model->layers[i].kind == LAYER_DCN || model->layers[i].kind == LAYER_FM) {
            return &model->layers[i];
        }
    }
    return NULL;
}

static enum sim_status set_in_tables(struct model *model, const char *key, const char *value, struct sim_error *error)
{
    double x = 0;
    bool skew = strcmp(key, "skew") == 0;
    enum sim_status status = set_number(key, value, skew ? 0 : 1, skew ? 10 : 1e12, &x, error);
    for (uint32_t i = 0; status == SIM_OK && i < model->table_count; i++) {
        struct model_table *table = &model->tables[i];
        *(skew ? &table->skew : strcmp(key, "rows") == 0 ? &table->rows : &table->dim) = x;
    }
    struct model_layer *first = &model->layers[0]; /* a bottom mlp ends in the tables' dim */
    if (status == SIM_OK && strcmp(key, "dim") == 0 && first->kind == LAYER_MLP && first->input > 0) {
        first->width[first->width_count - 1] = x;
    }
    return status;
}

static enum sim_status set_in_layers(struct model *model, const char *key, const char *value, struct sim_error *error)
{
    struct model_layer *layer = repeated_layer(model);
    if (layer == NULL) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "--set %s=%s: %s has no repeated layer", key, value, model->name);
    }
    return set_number(key, value, 1, 1e4, strcmp(key, "layers") == 0 ? &layer->count : &layer->heads, error);
}

/* reserve=10%, reserve=24GiB, reserve=0: memory of a GPU that the step may not have. */
static enum sim_status set_reserve(struct model *model, const char *value, struct sim_error *error)
{
    char *end = NULL;
    double x = strtod(value, &end);
    bool share = strcmp(end, "%") == 0, gib = strcmp(end, "GiB") == 0, none = x == 0 && *end == '\0';
    if (end == value || !(share || gib || none) || !(x >= 0 && x <= (share ? 100 : 1e6))) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "--set reserve=%s: must be a share of the device's memory (10%%), an amount (24GiB), or 0", value);
    }
    model->reserve_share = share ? x / 100 : -1;
    model->reserve_gib = share ? -1 : x;
    return SIM_OK;
}

enum sim_status model_set(struct model *model, const char *assignment, struct sim_error *error)
{
    char key[64];
    const char *equals = strchr(assignment, '=');
    int found = 0;
    double x = 0;
    enum sim_status status;
    if (equals == NULL || equals == assignment || (size_t)(equals - assignment) >= sizeof key) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "--set %s: must be KEY=VALUE", assignment);
    }
    snprintf(key, sizeof key, "%.*s", (int)(equals - assignment), assignment);
    const char *value = equals + 1;
    if (strcmp(key, "batch") == 0) {
        return set_number(key, value, 1, 1e9, &model->batch, error);
    }
    if (strcmp(key, "sequence") == 0) {
        return set_number(key, value, 1, 1e7, &model->sequence, error);
    }
    if (strcmp(key, "checkpoint") == 0) {
        return set_number(key, value, 0, 1, &model->checkpoint, error);
    }
    if (strcmp(key, "length_share") == 0) {
        return set_number(key, value, 1e-4, 1, &model->length_share, error);
    }
    if (strcmp(key, "plan") == 0) {
        snprintf(model->plan_name, sizeof model->plan_name, "%s", value);
        return SIM_OK;
    }
    if (strcmp(key, "table_gib") == 0) {
        return set_number(key, value, 0.001, 1e6, &model->table_gib, error);
    }
    if (strcmp(key, "reserve") == 0) {
        return set_reserve(model, value, error);
    }
    if (strcmp(key, "lookup") == 0) {
        status = set_choice(key, value, lookups, &found, error);
        model->lookup = status == SIM_OK ? (enum model_lookup)found : model->lookup;
        return status;
    }
    if (strcmp(key, "pipelined") == 0) {
        status = set_choice(key, value, (const char *const[]){ "false", "true", NULL }, &found, error);
        model->pipelined = status == SIM_OK ? found == 1 : model->pipelined;
        return status;
    }
    if (strcmp(key, "bucket_mib") == 0) {
        return set_number(key, value, 0, 1e5, &model->bucket_mib, error);
    }
    if (strcmp(key, "gpus") == 0) {
        status = set_number(key, value, 1, 1e6, &x, error);
        model->gpus = status == SIM_OK ? (uint32_t)x : model->gpus;
        return status;
    }
    if (strcmp(key, "precision") == 0) {
        status = set_choice(key, value, precisions, &found, error);
        model->precision = status == SIM_OK ? (enum model_precision)found : model->precision;
        return status;
    }
    if (strcmp(key, "parallel") == 0) {
        status = set_choice(key, value, parallels, &found, error);
        model->parallel = status == SIM_OK ? (enum model_parallel)found : model->parallel;
        return status;
    }
    if (strcmp(key, "optimizer") == 0) {
        status = set_choice(key, value, optimizers, &found, error);
        model->optimizer = status == SIM_OK ? (enum model_optimizer)found : model->optimizer;
        return status;
    }
    if (strcmp(key, "width") == 0) { /* of a sequence model: what its table holds */
        return model->sequence_input ? set_in_tables(model, "dim", value, error)
                                     : sim_fail(error, SIM_BAD_ARGUMENT, "--set %s: %s has no one width", assignment,
                                                model->name);
    }
    if (strcmp(key, "rows") == 0 || strcmp(key, "dim") == 0 || strcmp(key, "skew") == 0) {
        return set_in_tables(model, key, value, error);
    }
    if (strcmp(key, "layers") == 0 || strcmp(key, "heads") == 0) {
        return set_in_layers(model, key, value, error);
    }
    return sim_fail(error, SIM_BAD_ARGUMENT,
                    "--set %s: not a key of a model (batch, sequence, layers, heads, width, rows, dim, skew, precision, "
                    "optimizer, checkpoint, parallel, bucket_mib, gpus, lookup, plan, table_gib, reserve, pipelined, length_share)",
                    assignment);
}
