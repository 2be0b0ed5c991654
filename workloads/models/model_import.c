/* Public configurations read as model descriptions: DLRM v2 as its benchmark writes it (JSON or YAML: rows and ids a feature,
 * widths), and TorchRec's train-pipeline benchmarks (YAML: counts of features, one dim, tables beside them). PARAM's benchmark
 * of a lookup is one operator, not a step: it is refused with the kernel that it is.
 * Keys are found at any depth; what a file does not say is taken as its program's default and noted as assumed. */
#include "sim/core/data_path.h"
#include "sim/core/json.h"
#include "workloads/models/model_internal.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 4096
#define DESCRIPTION_BYTES 262144

/* ---- finding values -------------------------------------------------------------------------------------------- */

static size_t indentation(const char *line)
{
    return strspn(line, " ");
}

/* Just behind "key:" where the key stands alone; NULL when there is none. Comments are not told apart: no key is in one. */
static const char *behind_key(const char *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = strstr(text, key); at != NULL; at = strstr(at + 1, key)) {
        const char *end = at + length + (at[length] == '"' ? 1 : 0);
        bool starts = at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_');
        if (starts && *end == ':') {
            return end + 1;
        }
    }
    return NULL;
}

static const char *line_end(const char *at)
{
    const char *end = strchr(at, '\n');
    return end != NULL ? end + 1 : at + strlen(at);
}

/* Digits may be grouped by underscores: 100_000. */
static bool number_at(const char *at, double *value)
{
    char digits[64];
    size_t used = 0;
    for (; used + 1 < sizeof digits && (isalnum((unsigned char)*at) || strchr("+-._", *at) != NULL) && *at != '\0'; at++) {
        if (*at != '_') {
            digits[used++] = *at;
        }
    }
    digits[used] = '\0';
    char *end = NULL;
    *value = strtod(digits, &end);
    return used > 0 && *end == '\0' && isfinite(*value);
}

/* The numbers of a list "[a, b]", of one value, or of the deeper lines below ("- a", "name: a"). Returns how many. */
static size_t numbers_of(const char *text, const char *key, double *values, size_t capacity)
{
    const char *at = behind_key(text, key);
    size_t count = 0;
    if (at == NULL) {
        return 0;
    }
    at += strspn(at, " ");
    if (*at == '[') {
        for (at++; *at != '\0' && *at != ']' && count < capacity;) {
            at += strspn(at, " \n,");
            if (number_at(at, &values[count])) {
                count++;
            }
            at += strcspn(at, ",]\n ");
        }
        return count;
    }
    if (*at != '\n' && *at != '\0') {
        return number_at(at, values) ? 1 : 0;
    }
    const char *line = at;
    while (line > text && line[-1] != '\n') {
        line--;
    }
    size_t depth = indentation(line);
    for (line = line_end(at); *line != '\0' && count < capacity; line = line_end(line)) {
        const char *value = line + indentation(line);
        bool item = *value == '-';
        if (*value == '\n' || *value == '#') {
            continue;
        }
        if (indentation(line) < depth || (indentation(line) == depth && !item)) {
            break;
        }
        const char *colon = memchr(value, ':', (size_t)(line_end(line) - value));
        value = colon != NULL ? colon + 1 : item ? value + 1 : value;
        value += strspn(value, " ");
        if (number_at(value, &values[count])) {
            count++;
        }
    }
    return count;
}

static double number_of(const char *text, const char *key, double fallback)
{
    double value = fallback;
    return numbers_of(text, key, &value, 1) == 1 ? value : fallback;
}

/* ---- writing the description ----------------------------------------------------------------------------------- */

struct description {
    char *text;
    size_t used;
};

static void add(struct description *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct description *d, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(d->text + d->used, DESCRIPTION_BYTES - d->used, format, arguments);
    va_end(arguments);
    SIM_ASSERT(length >= 0 && d->used + (size_t)length < DESCRIPTION_BYTES, "an imported description is too long");
    d->used += (size_t)length;
}

static void add_widths(struct description *d, const double *widths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add(d, "%s%.0f", i > 0 ? ", " : "", widths[i]);
    }
}

static bool import_dlrm(const char *text, struct description *d)
{
    double rows[VALUES_MAX], ids[VALUES_MAX], bottom[MODEL_WIDTHS_MAX], top[MODEL_WIDTHS_MAX];
    size_t tables = numbers_of(text, "num_embeddings_per_feature", rows, VALUES_MAX);
    size_t pooled = numbers_of(text, "multi_hot_sizes", ids, VALUES_MAX);
    size_t bottoms = numbers_of(text, "dense_arch_layer_sizes", bottom, MODEL_WIDTHS_MAX);
    size_t tops = numbers_of(text, "over_arch_layer_sizes", top, MODEL_WIDTHS_MAX);
    double dim = number_of(text, "embedding_dim", 0), rank = number_of(text, "dcn_low_rank_dim", 0);
    if (tables == 0 || bottoms == 0 || tops == 0 || dim < 1) {
        return false;
    }
    double gpus = number_of(text, "world_size", 8), batch = number_of(text, "global_batch_size", 8192 * gpus) / gpus;
    add(d, "\"assumptions\": [\"%s%.0f GPUs unless said; ids uniform\"], \"batch\": %.0f, \"gpus\": %.0f, \"tables\": [",
        pooled == tables ? "" : "one id a feature; ", gpus, fmax(floor(batch), 1), gpus);
    for (size_t t = 0; t < tables; t++) {
        add(d, "%s{\"name\": \"cat_%zu\", \"rows\": %.0f, \"dim\": %.0f, \"pooling\": %g, \"optimizer\": \"rowwise-adagrad\"}",
            t > 0 ? ", " : "", t, rows[t], dim, pooled == tables ? ids[t] : 1);
    }
    add(d, "], \"layers\": [{\"kind\": \"mlp\", \"name\": \"bottom\", \"input\": %.0f, \"widths\": [",
        number_of(text, "num_dense_features", 13));
    add_widths(d, bottom, bottoms);
    add(d, "]}, ");
    if (rank > 0) {
        add(d, "{\"kind\": \"dcn\", \"count\": %.0f, \"rank\": %.0f}", number_of(text, "dcn_num_layers", 3), rank);
    } else {
        add(d, "{\"kind\": \"dot\"}");
    }
    add(d, ", {\"kind\": \"mlp\", \"name\": \"top\", \"widths\": [");
    add_widths(d, top, tops);
    add(d, "]}]");
    return true;
}

/* Defaults of torchrec/distributed/benchmark: batch 8192, 10 ids, tables of max(i + 1, 100) x 2000 rows, dense layers 128. */
static bool import_pipeline(const char *text, struct description *d)
{
    double plain = number_of(text, "num_unweighted_features", -1), weighted = number_of(text, "num_weighted_features", 0);
    double dim = number_of(text, "embedding_feature_dim", 128), ids = number_of(text, "feature_pooling_avg", 10);
    if (plain < 0 || plain + weighted < 1 || plain + weighted > VALUES_MAX) {
        return false;
    }
    double gpus = number_of(text, "world_size", 2), width = number_of(text, "dense_arch_out_size", 128);
    double hidden = number_of(text, "over_arch_hidden_layers", 5), over = number_of(text, "over_arch_out_size", 1024);
    add(d, "\"assumptions\": [\"tables of max(i + 1, 100) x 2000 rows, as the benchmark makes them\", \"dense and pooled features "
           "meet in dot products of width %.0f\", \"tables listed beside the features are left out\"], ", dim);
    add(d, "\"batch\": %.0f, \"gpus\": %.0f, \"plan\": \"%s\", \"tables\": [", number_of(text, "batch_size", 8192), gpus,
        strstr(text, "sharding_type: table_wise") != NULL ? "table_wise" : "auto");
    for (double t = 0; t < plain + weighted; t++) {
        add(d, "%s{\"name\": \"%s%.0f\", \"rows\": %.0f, \"dim\": %.0f, \"pooling\": %g, \"weighted\": %s, \"optimizer\": "
               "\"rowwise-adagrad\"}",
            t > 0 ? ", " : "", t < plain ? "table_" : "weighted_table_", t < plain ? t : t - plain, fmax(t + 1, 100) * 2000,
            dim, ids, t < plain ? "false" : "true");
    }
    add(d, "], \"layers\": [{\"kind\": \"mlp\", \"name\": \"dense\", \"input\": %.0f, \"widths\": [%.0f, %.0f]}, {\"kind\": "
           "\"dot\"}, {\"kind\": \"mlp\", \"name\": \"over\", \"widths\": [",
        number_of(text, "num_float_features", 10), width, dim);
    for (double i = 0; i < hidden && i < MODEL_WIDTHS_MAX - 1; i++) {
        add(d, "%.0f, ", over);
    }
    add(d, "1]}]");
    return true;
}

static char *whole_file(const char *path)
{
    FILE *file = data_path_is_pipe(path) ? NULL : fopen(path, "r");
    if (file == NULL) {
        return NULL;
    }
    char *text = calloc(1, DESCRIPTION_BYTES);
    SIM_ASSERT(text != NULL, "no memory for a configuration");
    text[fread(text, 1, DESCRIPTION_BYTES - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* ---- what is known and not a step ------------------------------------------------------------------------------- */

#define PARAM_LOOKUP "SplitTableBatchedEmbeddingBagsCodegen"

/* The number of the argument called `name` of PARAM's list of {name, type, value}, in any order and depth; `fallback` without. */
static double param_number(const struct json *value, const char *name, double fallback)
{
    const struct json *called = json_kind_of(value) == JSON_OBJECT ? json_get(value, "name") : NULL;
    const struct json *given = called != NULL ? json_get(value, "value") : NULL;
    if (given != NULL && json_kind_of(called) == JSON_STRING && strcmp(json_string(called), name) == 0) {
        return json_kind_of(given) == JSON_NUMBER ? json_number(given) : fallback;
    }
    for (size_t i = 0; i < json_count(value); i++) {
        double found = param_number(json_at(value, i), name, NAN);
        if (isfinite(found)) {
            return found;
        }
    }
    return fallback;
}

static enum sim_status refuse_param_lookup(const char *text, const char *path, struct sim_error *error)
{
    struct json *root = NULL;
    enum sim_status status = json_read_text(text, path, &root, error);
    if (status != SIM_OK) {
        return status;
    }
    double batch = param_number(root, "batch_size", NAN), ids = param_number(root, "pooling_factor", NAN);
    double rows = param_number(root, "rows", NAN), dim = param_number(root, "dim", NAN), tables = param_number(root, "num_tables", 1);
    json_destroy(root);
    if (!isfinite(batch) || !isfinite(ids) || !isfinite(rows) || !isfinite(dim)) {
        return sim_fail(error, SIM_BAD_FILE, "%s: a PARAM benchmark of one lookup, not a step, and without one number each of rows, "
                        "dim, batch_size and pooling_factor", path);
    }
    return sim_fail(error, SIM_BAD_FILE, "%s: a PARAM benchmark of one lookup, not a step: reckon kernel tbe/forward (or "
                    "tbe/backward) B=%.0f T=%.0f L=%g D=%.0f rows=%.0f%s", path, batch, tables, ids, dim, rows,
                    strstr(text, "\"fp16\"") != NULL ? " prec=fp16" : "");
}

static const struct {
    const char *mark;
    bool (*import)(const char *text, struct description *d);
} kinds[] = { { "num_embeddings_per_feature", import_dlrm }, { "num_unweighted_features", import_pipeline } };

bool model_can_import(const char *path)
{
    if (data_path_ends_in(path, ".yml") || data_path_ends_in(path, ".yaml") || data_path_ends_in(path, ".gin")) { /* no trace is: what is not known is refused */
        return true;
    }
    char *text = data_path_ends_in(path, ".json") ? whole_file(path) : NULL;
    bool known = text != NULL && behind_key(text, PARAM_LOOKUP) != NULL;
    for (size_t i = 0; text != NULL && i < sizeof kinds / sizeof kinds[0]; i++) {
        known = known || behind_key(text, kinds[i].mark) != NULL;
    }
    free(text);
    return known;
}

enum sim_status model_import(const char *path, char **out, struct sim_error *error)
{
    char *text = whole_file(path);
    *out = NULL;
    if (text == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    if (behind_key(text, PARAM_LOOKUP) != NULL) {
        enum sim_status status = refuse_param_lookup(text, path, error);
        free(text);
        return status;
    }
    struct description d = { calloc(1, DESCRIPTION_BYTES), 0 };
    SIM_ASSERT(d.text != NULL, "no memory for a description");
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    bool done = false;
    for (size_t i = 0; !done && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (behind_key(text, kinds[i].mark) != NULL) {
            d.used = 0;
            add(&d, "{\"schema\": \"reckon.model/1\", \"name\": \"%.*s\", \"lookup\": \"fused\", \"parallel\": \"ddp\", \"loss\": "
                    "\"bce\", ",
                (int)strcspn(name, "."), name);
            done = kinds[i].import(text, &d);
            add(&d, "}");
        }
    }
    free(text);
    if (!done) {
        free(d.text);
        return sim_fail(error, SIM_BAD_FILE,
                        "%s: not a configuration that can be imported: rows and widths of a DLRM (num_embeddings_per_feature, "
                        "dense_arch_layer_sizes, over_arch_layer_sizes, embedding_dim), or features of a TorchRec benchmark; "
                        "another step is described in docs/schemas/model.schema.json",
                        path);
    }
    *out = d.text;
    return SIM_OK;
}
