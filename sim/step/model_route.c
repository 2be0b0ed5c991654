#include "sim/step/model_route.h"
#include "sim/core/data_path.h"
#include "sim/step/memory.h"
#include "sim/step/session.h"
#include "workloads/models/model.h"
#include "workloads/rewrite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB 1073741824.0

bool reckon_is_model(const char *path)
{
    return model_is_file(path);
}

static enum sim_status set_all(struct model *model, const struct reckon_model_request *request,
                               const char *const *more, struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    char text[64];
    if (request->gpus > 0) {
        snprintf(text, sizeof text, "gpus=%u", request->gpus);
        status = model_set(model, text, error);
    }
    if (status == SIM_OK && request->batch > 0) {
        snprintf(text, sizeof text, "batch=%.17g", request->batch);
        status = model_set(model, text, error);
    }
    for (size_t i = 0; status == SIM_OK && i < request->setting_count; i++) {
        status = model_set(model, request->settings[i], error);
    }
    for (size_t i = 0; status == SIM_OK && more != NULL && more[i] != NULL; i++) {
        status = model_set(model, more[i], error);
    }
    return status;
}

static enum sim_status describe(const struct reckon_model_request *request, const char *const *more,
                                struct graph **out, struct sim_error *error)
{
    struct model *model = NULL;
    *out = NULL;
    enum sim_status status = model_read(request->path, &model, error);
    if (status == SIM_OK) {
        model_room(model, request->gpu_gib);
        status = set_all(model, request, more, error);
    }
    if (status == SIM_OK) {
        status = model_graph(model, out, error);
    }
    model_destroy(model);
    return status;
}

enum sim_status reckon_graph_describe(struct reckon *reckon, const struct reckon_model_request *request,
                                      struct graph **out, struct sim_error *error)
{
    (void)reckon;
    return describe(request, NULL, out, error);
}

enum sim_status reckon_model_memory(const struct reckon_device *device, const struct reckon_model_request *request, bool *fits,
                                    double *peak_gib, double *reserve_gib, struct sim_error *error)
{
    struct graph *graph = NULL;
    struct step_memory memory = { 0 };
    enum sim_status status = describe(request, NULL, &graph, error);
    if (status != SIM_OK) {
        return status;
    }
    step_memory_measure(graph, &memory);
    *peak_gib = memory.peak_bytes / GIB;
    *reserve_gib = step_memory_reserve_gib(graph, device->chip.hbm_capacity);
    *fits = memory.known && *peak_gib + *reserve_gib <= device->chip.hbm_capacity;
    graph_destroy(graph);
    return SIM_OK;
}

/* ---- advice ---------------------------------------------------------------------------------------------------- */

/* `also`: a second change, or NULL. */
static double peak_with(const struct reckon_model_request *request, const char *change, const char *also)
{
    const char *const more[] = { change, also, NULL };
    struct graph *graph = NULL;
    struct step_memory memory = { 0 };
    if (describe(request, more, &graph, NULL) != SIM_OK) {
        return INFINITY;
    }
    step_memory_measure(graph, &memory);
    graph_destroy(graph);
    return memory.known ? memory.peak_bytes / GIB : INFINITY;
}

#define GPUS_MOST 1024

/* The fewest GPUs, doubled, that hold the step, tables spread as the description says (`also` NULL) or over all of them. */
static bool advise_gpus(const struct reckon_model_request *model, double room, const char *also, const char *also_text, char *text,
                        size_t capacity)
{
    char change[64];
    for (uint32_t gpus = 2; gpus <= GPUS_MOST; gpus *= 2) {
        snprintf(change, sizeof change, "gpus=%u", gpus);
        double peak = peak_with(model, change, also);
        if (peak <= room) {
            snprintf(text, capacity, "; %s--set %s fits (peak %.1f GiB)", also_text, change, peak);
            return true;
        }
    }
    return false;
}

/* "; its largest table, cat_0, takes 400.0 GiB", where a tenth of the peak is tables. */
static int name_largest_table(const struct reckon_model_request *request, double peak_gib, char *text, size_t capacity)
{
    struct model *model = NULL;
    const char *name = "";
    int used = 0;
    if (model_read(request->path, &model, NULL) == SIM_OK && set_all(model, request, NULL, NULL) == SIM_OK) {
        double gib = model_largest_table(model, &name) / GIB;
        used = gib > 0.1 * peak_gib ? snprintf(text, capacity, "; its largest table, %.40s, takes %.1f GiB", name, gib) : 0;
    }
    model_destroy(model);
    return used > 0 ? used : 0;
}

static double batch_of(const struct reckon_model_request *request)
{
    struct model *model = NULL;
    double batch = 0;
    if (model_read(request->path, &model, NULL) == SIM_OK && set_all(model, request, NULL, NULL) == SIM_OK) {
        batch = model_batch(model);
    }
    model_destroy(model);
    return batch;
}

void model_route_advise(const struct reckon_model_request *model, double capacity_gib, double peak_gib,
                        double reserve_gib, char *text, size_t capacity)
{
    char change[64];
    double room = capacity_gib - reserve_gib;
    int used = snprintf(text, capacity, "peak %.1f GiB and reserve %.1f GiB are %.1f GiB more than %.1f GiB", peak_gib,
                        reserve_gib, peak_gib + reserve_gib - capacity_gib, capacity_gib);
    if (model == NULL || used < 0 || (size_t)used + 80 >= capacity) {
        return;
    }
    used += name_largest_table(model, peak_gib, text + used, capacity - (size_t)used);
    for (int quarter = 1; quarter <= 4; quarter++) {
        snprintf(change, sizeof change, "checkpoint=%g", quarter / 4.0);
        double peak = peak_with(model, change, NULL);
        if (peak <= room && peak < peak_gib) {
            snprintf(text + used, capacity - (size_t)used, "; --set %s fits (peak %.1f GiB)", change, peak);
            return;
        }
    }
    double proposed = peak_with(model, "plan=auto", NULL);
    if (proposed <= room && proposed < peak_gib) {
        snprintf(text + used, capacity - (size_t)used, "; --set plan=auto fits (peak %.1f GiB)", proposed);
        return;
    }
    double batch = floor(batch_of(model) / 2);
    for (; batch >= 1; batch = floor(batch / 2)) {
        snprintf(change, sizeof change, "batch=%.0f", batch);
        double peak = peak_with(model, change, NULL);
        if (peak <= room) {
            snprintf(text + used, capacity - (size_t)used, "; --set %s fits (peak %.1f GiB)", change, peak);
            return;
        }
        if (peak > 0.98 * peak_gib) {
            break; /* the batch is not what fills it */
        }
    }
    if (advise_gpus(model, room, NULL, "", text + used, capacity - (size_t)used) ||
        advise_gpus(model, room, "plan=auto", "--set plan=auto ", text + used, capacity - (size_t)used) ||
        advise_gpus(model, room, "lookup=fused", "--set lookup=fused ", text + used, capacity - (size_t)used)) {
        return;
    }
    snprintf(text + used, capacity - (size_t)used, "; neither recomputing, another plan, a smaller batch nor %d GPUs are enough", GPUS_MOST);
}

/* ---- measured cases -------------------------------------------------------------------------------------------- */

/* What the step tables call the values that model_set knows by other names; NULL: says what the description says. */
static const struct {
    const char *key, *set;
} case_keys[] = {
    { "B", "batch" }, { "S", "sequence" },  { "heads", "heads" }, { "layers", "layers" }, { "rows", "rows" },
    { "D", "dim" },   { "alpha", "skew" },  { "ac", "checkpoint" }, { "parallel", "parallel" }, { "d", "width" },
    { "hot", NULL },  { "tables", NULL },   { "dcn", NULL },
};

static enum sim_status settings_of(const char *params, char texts[][64], const char **settings, size_t *count,
                                   struct sim_error *error)
{
    for (const char *at = params; *at != '\0';) {
        size_t length = strcspn(at, ";"), known = sizeof case_keys / sizeof case_keys[0], k = 0;
        size_t key = strcspn(at, "=");
        while (k < known && (strlen(case_keys[k].key) != key || strncmp(at, case_keys[k].key, key) != 0)) {
            k++;
        }
        if (k == known || key >= length || *count == 16) {
            return sim_fail(error, SIM_UNSUPPORTED, "'%.*s' is no parameter of a described step", (int)length, at);
        }
        if (case_keys[k].set != NULL) {
            snprintf(texts[*count], 64, "%s=%.*s", case_keys[k].set, (int)(length - key - 1), at + key + 1);
            settings[*count] = texts[*count];
            (*count)++;
        }
        at += length + (at[length] == ';' ? 1 : 0);
    }
    return SIM_OK;
}

static enum sim_status model_of_case(const char *name, char path[DATA_PATH_CAPACITY], struct sim_error *error)
{
    struct data_names names = { 0 };
    const char *best = NULL;
    enum sim_status status = data_path_list("workloads/models", &names, error);
    for (size_t i = 0; status == SIM_OK && i < names.count; i++) {
        size_t length = strlen(names.name[i]);
        bool begins = strncmp(name, names.name[i], length) == 0 && (name[length] == '\0' || name[length] == '_');
        if (begins && (best == NULL || length > strlen(best))) {
            best = names.name[i];
        }
    }
    if (status == SIM_OK) {
        status = best != NULL ? data_path_find("workloads/models", "model", best, path, error)
                              : sim_fail(error, SIM_UNSUPPORTED, "no model description for case %s", name);
    }
    data_names_finish(&names);
    return status;
}

bool model_route_knows(const char *name)
{
    char path[DATA_PATH_CAPACITY];
    return model_of_case(name, path, NULL) == SIM_OK;
}

enum sim_status model_route_case(struct reckon *reckon, const char *name, const char *params, uint32_t gpus,
                                 struct graph **out, struct sim_error *error)
{
    char path[DATA_PATH_CAPACITY], texts[16][64];
    const char *settings[16];
    struct reckon_model_request request = { .path = path, .settings = settings, .gpus = gpus };
    *out = NULL;
    enum sim_status status = model_of_case(name, path, error);
    if (status == SIM_OK) {
        status = settings_of(params, texts, settings, &request.setting_count, error);
    }
    return status == SIM_OK ? reckon_graph_describe(reckon, &request, out, error) : status;
}

/* ---- a trace changed ------------------------------------------------------------------------------------------- */

#define DIMS_MAX 64

/* What is asked of a trace. */
struct trace_change {
    struct rewrite_batch batch, sequence;
    struct rewrite_dim dims[DIMS_MAX];
    size_t dim_count;
    uint32_t gpus; /* 0: as recorded */
    struct rewrite_blocks blocks; /* from 0: as recorded */
    const char *products;         /* tf32, fp32, or NULL: as recorded */
};

/* What a trace cannot be asked, and what of it is missing there. */
static const struct {
    const char *key, *missing;
} not_in_traces[] = {
    { "precision", "which casts another precision adds or drops (tf32 and fp32 have none)" },
    { "plan", "which table a lookup belongs to and how many rows it has" },
};

static enum sim_status refuse_setting(const char *setting, struct sim_error *error)
{
    size_t length = strcspn(setting, "=");
    for (size_t i = 0; i < sizeof not_in_traces / sizeof not_in_traces[0]; i++) {
        if (strlen(not_in_traces[i].key) == length && strncmp(setting, not_in_traces[i].key, length) == 0) {
            return sim_fail(error, SIM_UNSUPPORTED, "--set %s: a trace does not say %s: describe the model (workloads/models)", setting,
                            not_in_traces[i].missing);
        }
    }
    return sim_fail(error, SIM_UNSUPPORTED,
                    "--set %s: of a trace only batch, sequence, gpus, layers, checkpoint and precision can be changed (skew, hot_share and fix set, dimN=batch|sequence|fixed "
                    "said); describe the model for the rest (workloads/models)",
                    setting);
}

static enum sim_status read_sequence(const char *setting, const char *value, struct rewrite_batch *sequence, struct sim_error *error)
{
    char *colon = NULL, *end = NULL;
    sequence->from = strtod(value, &colon);
    sequence->to = *colon == ':' ? strtod(colon + 1, &end) : 0;
    if (end == NULL || *end != '\0' || !(sequence->from >= 1 && sequence->from <= 1e9) || !(sequence->to >= 1 && sequence->to <= 1e9)) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "--set %s: must be sequence=RECORDED:NEW, each a number of 1 to 1e9, for a trace does not "
                                                 "know its own", setting);
    }
    return SIM_OK;
}

static enum sim_status read_dim(const char *setting, const char *equals, struct trace_change *change, struct sim_error *error)
{
    char *end = NULL;
    double value = strtod(setting + 3, &end);
    bool scales = strcmp(equals + 1, "batch") == 0 || strcmp(equals + 1, "sequence") == 0;
    if (end != equals || change->dim_count == DIMS_MAX || (!scales && strcmp(equals + 1, "fixed") != 0)) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "--set %s: must be dimN=batch, dimN=sequence or dimN=fixed", setting);
    }
    change->dims[change->dim_count++] = (struct rewrite_dim){ value, scales };
    return SIM_OK;
}

static enum sim_status read_layers(const char *setting, const char *value, struct rewrite_blocks *blocks, struct sim_error *error)
{
    char *colon = NULL, *end = NULL;
    double from = strtod(value, &colon), to = *colon == ':' ? strtod(colon + 1, &end) : 0;
    bool counts = from >= 2 && from <= 1e4 && from == floor(from) && to >= 1 && to <= 1e4 && to == floor(to);
    if (end == NULL || *end != '\0' || !counts) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "--set %s: must be layers=RECORDED:NEW, whole numbers up to 10000 (recorded: 2 or more), for "
                                                 "layers are found in a trace by their number", setting);
    }
    blocks->from = (uint32_t)from;
    blocks->to = (uint32_t)to;
    return SIM_OK;
}

static enum sim_status read_checkpoint(const char *setting, const char *value, struct rewrite_blocks *blocks, struct sim_error *error)
{
    char *end = NULL;
    blocks->recomputed = strtod(value, &end);
    bool share = end != value && *end == '\0' && blocks->recomputed >= 0 && blocks->recomputed <= 1;
    return share ? SIM_OK : sim_fail(error, SIM_BAD_ARGUMENT, "--set %s: must be a share of the layers, 0 to 1", setting);
}

static enum sim_status read_setting(const char *setting, struct trace_change *change, struct sim_error *error)
{
    const char *equals = strchr(setting, '=');
    char *end = NULL;
    if (equals == NULL) {
        return refuse_setting(setting, error);
    }
    if (strncmp(setting, "batch=", 6) == 0) {
        change->batch.to = strtod(equals + 1, &end);
        return *end == '\0' && change->batch.to >= 1 && change->batch.to <= 1e9
                   ? SIM_OK
                   : sim_fail(error, SIM_BAD_ARGUMENT, "--set %s: must be a number of 1 to 1e9", setting);
    }
    if (strncmp(setting, "sequence=", 9) == 0) {
        return read_sequence(setting, equals + 1, &change->sequence, error);
    }
    if (strncmp(setting, "gpus=", 5) == 0) {
        double gpus = strtod(equals + 1, &end);
        change->gpus = *end == '\0' && gpus >= 1 && gpus <= 1e5 && gpus == floor(gpus) ? (uint32_t)gpus : 0;
        return change->gpus > 0 ? SIM_OK
                                : sim_fail(error, SIM_BAD_ARGUMENT, "--set %s: must be a whole number of 2 to 100000", setting);
    }
    if (strncmp(setting, "layers=", 7) == 0) {
        return read_layers(setting, equals + 1, &change->blocks, error);
    }
    if (strncmp(setting, "checkpoint=", 11) == 0) {
        return read_checkpoint(setting, equals + 1, &change->blocks, error);
    }
    if (strcmp(setting, "precision=tf32") == 0 || strcmp(setting, "precision=fp32") == 0) {
        change->products = equals + 1;
        return SIM_OK;
    }
    return strncmp(setting, "dim", 3) == 0 ? read_dim(setting, equals, change, error) : refuse_setting(setting, error);
}

/* *graph is the recorded one or a rewrite of it, which goes once the next has been made. */
static enum sim_status take(enum sim_status status, const struct graph *recorded, const struct graph **graph, struct graph *const *rewritten)
{
    if (status == SIM_OK) {
        if (*graph != recorded) {
            graph_destroy((struct graph *)*graph);
        }
        *graph = *rewritten;
    }
    return status;
}

/* Layers first, since their number is that of the recorded operators; then sizes, then GPUs. */
static enum sim_status apply_change(const struct graph *recorded, struct trace_change *change, struct graph **out, struct sim_error *error)
{
    struct rewrite_batch *shapes = change->sequence.to > 0 ? &change->sequence : &change->batch;
    const struct graph *graph = recorded;
    struct graph *next = NULL;
    enum sim_status status = SIM_OK;
    shapes->dims = change->dims;
    shapes->dim_count = change->dim_count;
    bool other = change->gpus > 0 || change->blocks.from > 0 || change->products != NULL;
    if (change->blocks.from > 0) {
        status = take(rewrite_blocks(graph, &change->blocks, &next, error), recorded, &graph, &next);
    }
    if (status == SIM_OK && change->products != NULL) {
        status = take(rewrite_products(graph, change->products, &next, error), recorded, &graph, &next);
    }
    if (status == SIM_OK && (!other || shapes->to != shapes->from)) {
        status = take(rewrite_batch(graph, shapes, &next, error), recorded, &graph, &next);
    }
    if (status == SIM_OK && change->gpus > 0) {
        status = take(rewrite_gpus(graph, change->gpus, &next, error), recorded, &graph, &next);
    }
    if (status != SIM_OK) {
        graph_destroy(graph != recorded ? (struct graph *)graph : NULL);
        return status;
    }
    *out = (struct graph *)graph;
    if ((*out)->batch <= 0) {
        (*out)->batch = change->batch.to;
    }
    return status;
}

enum sim_status reckon_graph_rewrite(struct reckon *reckon, const struct graph *graph, double batch,
                                     const char *const *settings, size_t setting_count, struct graph **out,
                                     struct sim_error *error)
{
    struct trace_change change = { .batch = { .from = batch, .to = batch }, .sequence = { .positions = true } };
    enum sim_status status = SIM_OK;
    (void)reckon;
    *out = NULL;
    for (size_t i = 0; status == SIM_OK && i < setting_count; i++) {
        status = read_setting(settings[i], &change, error);
    }
    if (status == SIM_OK && change.sequence.to > 0 && change.batch.to != batch) {
        status = sim_fail(error, SIM_BAD_ARGUMENT, "batch and sequence of a trace change one at a time: which of them a dimension holds would "
                                                   "be in doubt");
    }
    if (status == SIM_OK && change.blocks.recomputed > 0 && change.blocks.from == 0) {
        status = sim_fail(error, SIM_BAD_ARGUMENT, "--set checkpoint=%g: say layers=RECORDED:NEW too, for layers are found in a trace by their "
                                                   "number", change.blocks.recomputed);
    }
    return status == SIM_OK ? apply_change(graph, &change, out, error) : status;
}
