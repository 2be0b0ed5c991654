/* One point of a study: an input that was read once, changed, priced on a device. */
#include "sim/reckon.h"
#include "sim/step/session.h"
#include "sim/step/step_fixes.h"
#include "workloads/graph.h"
#include "workloads/models/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUTS_CAPACITY 96

struct reckon_source {
    char *path;          /* of a model; NULL: a trace */
    struct graph *graph; /* of a trace */
    uint32_t gpus;
    double batch; /* described or recorded, per GPU; 0: unknown */
};

static enum sim_status open_model(const char *path, struct reckon_source *input, struct sim_error *error)
{
    struct model *model = NULL;
    enum sim_status status = model_read(path, &model, error);
    if (status == SIM_OK) {
        input->path = strdup(path);
        SIM_ASSERT(input->path != NULL, "no memory for a path");
        input->gpus = model_gpus(model);
        input->batch = model_batch(model);
    }
    model_destroy(model);
    return status;
}

static enum sim_status open_trace(struct reckon *reckon, const char *const *paths, size_t path_count, double batch,
                                  struct reckon_source *input, struct sim_error *error)
{
    for (size_t i = 0; i < path_count; i++) {
        if (reckon_is_model(paths[i])) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "%s: a model description is the only input of a study", paths[i]);
        }
    }
    enum sim_status status = reckon_graph_read(reckon, paths, path_count, false, &input->graph, error);
    if (status == SIM_OK) {
        input->gpus = input->graph->world_size;
        input->batch = batch;
    }
    return status;
}

enum sim_status reckon_source_open(struct reckon *reckon, const char *const *paths, size_t path_count, double batch,
                                  struct reckon_source **out, struct sim_error *error)
{
    *out = NULL;
    struct reckon_source *input = calloc(1, sizeof *input);
    if (input == NULL) {
        return sim_fail(error, SIM_NO_MEMORY, "no memory for an input");
    }
    enum sim_status status = path_count == 1 && reckon_is_model(paths[0])
                                 ? open_model(paths[0], input, error)
                                 : open_trace(reckon, paths, path_count, batch, input, error);
    if (status != SIM_OK) {
        reckon_source_close(input);
        return status;
    }
    *out = input;
    return SIM_OK;
}

void reckon_source_close(struct reckon_source *input)
{
    if (input != NULL) {
        reckon_graph_free(input->graph);
        free(input->path);
        free(input);
    }
}

bool reckon_source_is_model(const struct reckon_source *input)
{
    return input->path != NULL;
}

uint32_t reckon_source_gpus(const struct reckon_source *input)
{
    return input->gpus;
}

double reckon_source_batch(const struct reckon_source *input)
{
    return input->batch;
}

enum sim_status reckon_fixes_check(const char *fixes, struct sim_error *error)
{
    return step_fixes_check(fixes, error);
}

/* ---- a point */

struct point { /* settings by what they change */
    const char *fixes;
    char inputs[INPUTS_CAPACITY];
    const char **graph; /* the rest; borrowed texts */
    size_t graph_count;
    double batch;
};

static const char *value_of(const char *setting, const char *key)
{
    size_t length = strlen(key);
    return strncmp(setting, key, length) == 0 && setting[length] == '=' ? setting + length + 1 : NULL;
}

static enum sim_status add_input(struct point *point, const char *key, const char *setting, const char *value,
                                 struct sim_error *error)
{
    char *end = NULL;
    double x = strtod(value, &end), max = strcmp(key, "alpha") == 0 ? 8 : 1;
    if (value[0] == '\0' || *end != '\0' || !(x >= 0 && x <= max)) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: must be a number of 0 to %g", setting, max);
    }
    size_t used = strlen(point->inputs);
    if (x > 0) {
        snprintf(point->inputs + used, sizeof point->inputs - used, "%s%s=%.12g", used > 0 ? ";" : "", key, x);
    }
    return SIM_OK;
}

static enum sim_status sort_settings(const struct reckon_source *input, const struct reckon_point_request *request,
                                     struct point *point, struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    for (size_t i = 0; status == SIM_OK && i < request->setting_count; i++) {
        const char *setting = request->settings[i], *fixes = value_of(setting, "fix");
        const char *skew = value_of(setting, "skew"), *hot = value_of(setting, "hot_share");
        if (fixes != NULL && point->fixes != NULL) {
            status = sim_fail(error, SIM_BAD_ARGUMENT, "%s: fixes are there twice: join them as fix=A+B", setting);
        } else if (fixes != NULL) {
            point->fixes = fixes;
        } else if (input->path == NULL && skew != NULL) {
            status = add_input(point, "alpha", setting, skew, error);
        } else if (input->path == NULL && hot != NULL) {
            status = add_input(point, "hot_share", setting, hot, error);
        } else {
            point->graph[point->graph_count++] = setting;
            const char *batch = value_of(setting, "batch");
            point->batch = batch != NULL ? strtod(batch, NULL) : point->batch;
        }
    }
    return status;
}

/* The point's graph: of a trace without changes the input's own, else a new one in *made. */
static enum sim_status point_graph(struct reckon *reckon, const struct reckon_source *input, const struct point *point,
                                   const struct reckon_model_request *model, struct graph **made, struct sim_error *error)
{
    if (input->path != NULL) {
        return reckon_graph_describe(reckon, model, made, error);
    }
    return point->graph_count > 0 ? reckon_graph_rewrite(reckon, input->graph, input->batch, point->graph,
                                                         point->graph_count, made, error)
                                  : SIM_OK;
}

/* A point as a prediction's request, while `answer` is at work on it. */
struct asked {
    struct reckon_prediction *prediction; /* in place of doubts */
    struct reckon_doubts *doubts;
    struct reckon_device *sampled; /* NULL: a prediction is wanted */
    uint32_t samples;
    double sample_work;
};

static enum sim_status answer_doubts(struct reckon *reckon, struct reckon_predict_request *predict, struct asked *asked,
                                     struct sim_error *error)
{
    enum sim_status status = reckon_predict(reckon, asked->sampled, predict, &asked->prediction, error);
    if (status == SIM_OK && isnan(asked->prediction->step_ms)) {
        const struct reckon_prediction *prediction = asked->prediction;
        bool too_large = prediction->fits_known && !prediction->fits;
        status = sim_fail(error, too_large ? SIM_DOES_NOT_FIT : SIM_UNSUPPORTED, "%s",
                          too_large ? prediction->memory_advice : prediction->input.verdict);
    }
    predict->sample_work = asked->sample_work;
    if (status == SIM_OK) {
        status = reckon_predict_doubts(reckon, &asked->sampled, 1, predict, asked->samples, &asked->doubts, error);
    }
    reckon_prediction_free(asked->prediction);
    asked->prediction = NULL;
    return status;
}

static enum sim_status ask(struct reckon *reckon, const struct reckon_device *device, const struct reckon_source *input,
                           const struct reckon_point_request *request, struct asked *asked, struct sim_error *error)
{
    struct point point = { .batch = input->batch };
    struct graph *made = NULL;
    point.graph = malloc((request->setting_count + 1) * sizeof *point.graph);
    if (point.graph == NULL) {
        return sim_fail(error, SIM_NO_MEMORY, "no memory for %zu settings", request->setting_count);
    }
    enum sim_status status = sort_settings(input, request, &point, error);
    struct reckon_model_request model = { .path = input->path, .settings = point.graph, .setting_count = point.graph_count,
                                          .gpu_gib = reckon_device_chip(device)->hbm_capacity };
    if (status == SIM_OK) {
        status = point_graph(reckon, input, &point, &model, &made, error);
    }
    if (status == SIM_OK) {
        struct reckon_predict_request predict = { .graph = made != NULL ? made : input->graph,
                                                  .model = input->path != NULL ? &model : NULL,
                                                  .batch = input->path != NULL ? 0 : point.batch,
                                                  .fixes = point.fixes,
                                                  .inputs = point.inputs[0] != '\0' ? point.inputs : NULL,
                                                  .window_requests = request->window_requests,
                                                  .refuse_unrecognised = true };
        status = asked->sampled != NULL ? answer_doubts(reckon, &predict, asked, error)
                                        : reckon_predict(reckon, device, &predict, &asked->prediction, error);
    }
    reckon_graph_free(made);
    free(point.graph);
    return status;
}

enum sim_status reckon_point(struct reckon *reckon, const struct reckon_device *device, const struct reckon_source *input,
                             const struct reckon_point_request *request, struct reckon_prediction **out,
                             struct sim_error *error)
{
    struct asked asked = { 0 };
    enum sim_status status = ask(reckon, device, input, request, &asked, error);
    *out = asked.prediction;
    return status;
}

enum sim_status reckon_point_doubts(struct reckon *reckon, struct reckon_device *device, const struct reckon_source *input,
                                    const struct reckon_point_request *request, uint32_t samples, double sample_work,
                                    struct reckon_doubts **out, struct sim_error *error)
{
    struct asked asked = { .sampled = device, .samples = samples, .sample_work = sample_work };
    enum sim_status status = ask(reckon, device, input, request, &asked, error);
    *out = asked.doubts;
    return status;
}
