/* A recorded step on a device: price every device node of the graph, play the step out, and say what it rests on. */
#include "sim/core/data_path.h"
#include "sim/core/printable.h"
#include "sim/core/units.h"
#include "sim/fabric/fabric.h"
#include "sim/reckon.h"
#include "sim/step/input_verdict.h"
#include "sim/step/memory.h"
#include "sim/step/model_route.h"
#include "sim/step/overlap.h"
#include "sim/step/rechoose.h"
#include "sim/step/schedule.h"
#include "sim/step/session.h"
#include "sim/step/step_clock.h"
#include "sim/step/step_fixes.h"
#include "sim/step/timeline.h"
#include "workloads/graph.h"
#include "workloads/trace/kineto.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rate that a kernel without a program reaches of its data type's peak, where only its flops are known. Assumed: library
 * kernels of middling shapes reach 0.4 to 0.7; such kernels are flagged and counted wherever it is used. */
#define BY_FLOPS_EFFICIENCY 0.5
#define WAITS_MOST 2 /* times what a collective takes by itself: more, and it is a slower rank that it waits for */

#define GIB 1073741824.0
#define ASSUMPTIONS_SHOWN 3 /* per program */

/* First window of a kernel of a step, which has a hundred distinct ones: sparse kernels are within 3% of an exact run at it;
 * bulk ones of few rounds are not. Those whose own error estimate may move the step by more than the share below are run
 * again at a wider one. */
#define QUICK_REQUESTS 100000
#define REFINED_REQUESTS 500000
#define STEP_ERROR_SHARE 0.002

#define CHANGED_CAPACITY 448

struct node_pricing {                    /* of one device node */
    struct kernel_price_request request; /* program, or the stand-in copy of a kernel priced by bytes */
    bool has_request;
    char params[RECHOOSE_PARAMS_CAPACITY]; /* backing of request.params where they are not the node's own */
    const char *plain;                     /* parameters without fixes and inputs */
    char changed[CHANGED_CAPACITY];        /* backing of request.params with them */
    bool has_fixes, has_inputs;            /* in `changed` */
    enum reckon_priced priced;
    struct step_price price;
    char limiter[24];
};

struct prediction_build {
    struct reckon *reckon;
    const struct reckon_device *device;
    const struct reckon_predict_request *request;
    const struct graph *graph;
    struct reckon_prediction *prediction;
    struct node_pricing *nodes;            /* [node_count] */
    struct step_price *prices;             /* [node_count] */
    struct kernel_price_request *requests; /* gathered for session_price */
    struct step_timeline *timeline;
    bool traced_here; /* recorded on the device asked for */
};

enum sim_status reckon_graph_read(struct reckon *reckon, const char *const *paths, size_t path_count,
                                  bool traced_host_times, struct graph **out, struct sim_error *error)
{
    (void)reckon;
    struct trace_options options = { .step = -1, .keep_host_times = traced_host_times };
    enum sim_status status = trace_read(paths, path_count, &options, out, error);
    if (status == SIM_OK) {
        status = graph_check(*out, error);
        if (status != SIM_OK) {
            graph_destroy(*out);
            *out = NULL;
        }
    }
    return status;
}

void reckon_graph_free(struct graph *graph)
{
    graph_destroy(graph);
}

/* From a model: nothing in it was timed. */
static bool is_described(const struct graph *graph)
{
    return graph->traced_step_us <= 0 && graph->allocation_count > 0;
}

static bool title_is_of(const char *title, const struct chip_profile *chip)
{
    size_t length = strlen(title);
    for (const char *at = chip->trace_names; length > 0 && *at != '\0';) {
        size_t name = strcspn(at, "|");
        if (name == length && strncmp(at, title, name) == 0) {
            return true;
        }
        at += name + (at[name] == '|' ? 1 : 0);
    }
    return false;
}

/* ---- kernels */

/* A copy that moves the node's bytes, half in and half out: an elementwise program on the chip, ramps and all. */
static void request_by_bytes(struct node_pricing *pricing, const struct graph_node *node, uint64_t window)
{
    double elements = ceil((node->bytes_read + node->bytes_written) / 8);
    snprintf(pricing->params, sizeof pricing->params, "n=%.0f;dtype=fp32", fmax(elements, 1));
    pricing->request = (struct kernel_price_request){
        .suite = "pointwise", .kernel = "copy", .params = pricing->params, .window_requests = window
    };
    pricing->has_fixes = pricing->has_inputs = false;
    pricing->has_request = true;
    pricing->priced = RECKON_PRICED_BYTES;
}

static uint64_t window_of(const struct prediction_build *build)
{
    return build->request->window_requests > 0 ? build->request->window_requests : QUICK_REQUESTS;
}

/* The request's inputs and fixes, as far as they are `wanted`, on what the node's own parameters say. */
static void change_params(const struct prediction_build *build, struct node_pricing *pricing, bool want_inputs,
                          bool want_fixes)
{
    char with_inputs[CHANGED_CAPACITY];
    const char *suite = pricing->request.suite, *kernel = pricing->request.kernel, *params = pricing->plain;
    pricing->has_inputs = want_inputs && step_inputs_of_kernel(build->request->inputs, suite, params, with_inputs,
                                                               sizeof with_inputs);
    params = pricing->has_inputs ? with_inputs : params;
    pricing->has_fixes = want_fixes && step_fixes_of_kernel(build->request->fixes, suite, kernel, params, pricing->changed,
                                                            sizeof pricing->changed);
    if (pricing->has_inputs && !pricing->has_fixes) {
        snprintf(pricing->changed, sizeof pricing->changed, "%s", with_inputs);
    }
    pricing->request.params = pricing->has_inputs || pricing->has_fixes ? pricing->changed : pricing->plain;
}

static bool has_bytes(const struct graph_node *node)
{
    return node->bytes_read + node->bytes_written > 0 || node->flops > 0;
}

static void request_unrecognised(struct node_pricing *pricing, const struct graph_node *node, uint64_t window)
{
    pricing->has_request = false;
    if (has_bytes(node)) {
        request_by_bytes(pricing, node, window);
    } else {
        pricing->priced = RECKON_PRICED_REPLAYED;
    }
}

static void request_kernel(const struct prediction_build *build, struct node_pricing *pricing,
                           const struct graph_node *node)
{
    if (node->recognition == GRAPH_RECOGNISED) {
        const char *kernel = node->kernel, *params = node->params;
        if (!build->traced_here &&
            rechoose(node->suite, node->kernel, node->params, &kernel, pricing->params)) {
            params = pricing->params;
        }
        pricing->request = (struct kernel_price_request){
            .suite = node->suite,
            .kernel = kernel,
            .params = params,
            .in_step = params == NULL || strstr(params, "cache=") == NULL,
            .window_requests = window_of(build),
        };
        pricing->plain = params;
        change_params(build, pricing, true, true);
        pricing->has_request = true;
        pricing->priced = RECKON_PRICED_PROGRAM;
    } else if (node->recognition == GRAPH_BY_BYTES) {
        request_unrecognised(pricing, node, window_of(build));
    } else {
        pricing->priced = RECKON_PRICED_REPLAYED;
    }
}

static enum sim_status price_requests(struct prediction_build *build, struct sim_error *error)
{
    size_t count = 0;
    for (size_t i = 0; i < build->graph->node_count; i++) {
        if (build->nodes[i].has_request) {
            build->requests[count++] = build->nodes[i].request;
        }
    }
    return session_price(build->reckon, build->device, build->requests, count, error);
}

/* A price that was refused, asked again in a plainer way: without the fixes, without the inputs, by bytes. */
static enum sim_status ask_plainer(struct prediction_build *build, const struct graph_node *node,
                                   struct node_pricing *pricing, const struct kernel_price *price, struct sim_error *error)
{
    struct reckon_notes *notes = &build->prediction->notes;
    if (pricing->has_fixes) {
        notes_add(notes, "fixes left out of %s/%s: %s", node->suite, pricing->request.kernel, price->error);
        change_params(build, pricing, true, false);
    } else if (pricing->has_inputs) {
        notes_add(notes, "%s not said of %s/%s: %s", build->request->inputs, node->suite, pricing->request.kernel,
                  price->error);
        change_params(build, pricing, false, false);
    } else if (pricing->priced != RECKON_PRICED_BYTES) {
        notes_add(notes, "no price from %s/%s, so by its tensors' bytes: %.*s", node->suite, node->kernel,
                  (int)strcspn(price->error, "("), price->error);
        request_unrecognised(pricing, node, window_of(build));
    } else {
        return sim_fail(error, price->status, "%s: %s", node->name, price->error);
    }
    return SIM_OK;
}

/* Parameters that the registry refuses make a kernel an unrecognised one; anything else that fails is the user's to know. */
static enum sim_status demote_refused(struct prediction_build *build, struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    for (bool demoted = true; status == SIM_OK && demoted;) {
        demoted = false;
        for (size_t i = 0; status == SIM_OK && i < build->graph->node_count; i++) {
            struct node_pricing *pricing = &build->nodes[i];
            const struct kernel_price *price = pricing->has_request
                                                   ? session_price_of(build->reckon, build->device, &pricing->request)
                                                   : NULL;
            if (price != NULL && price->status != SIM_OK) {
                status = ask_plainer(build, &build->graph->nodes[i], pricing, price, error);
                demoted = true;
            }
        }
        if (status == SIM_OK && demoted) {
            status = price_requests(build, error);
        }
    }
    return status;
}

struct price_weight {
    const struct kernel_price *price;
    double us; /* of all nodes with this price */
};

static int by_price(const void *a, const void *b)
{
    const struct price_weight *x = a, *y = b;
    return x->price < y->price ? -1 : x->price > y->price;
}

/* Time of all nodes that share a price, one entry a price, by address; only looked up, so the order shows nowhere. */
static size_t weigh_prices(const struct prediction_build *build, struct price_weight *weights,
                           double *total_us)
{
    size_t count = 0, merged = 0;
    *total_us = 0;
    for (size_t i = 0; i < build->graph->node_count; i++) {
        if (build->nodes[i].has_request) {
            const struct kernel_price *price = session_price_of(build->reckon, build->device,
                                                                &build->nodes[i].request);
            weights[count++] = (struct price_weight){ price, price->device_us };
            *total_us += price->device_us;
        }
    }
    qsort(weights, count, sizeof weights[0], by_price);
    for (size_t i = 0; i < count; i++) {
        if (merged > 0 && weights[merged - 1].price == weights[i].price) {
            weights[merged - 1].us += weights[i].us;
        } else {
            weights[merged++] = weights[i];
        }
    }
    return merged;
}

/* The kernels whose quick window leaves too much doubt for their weight in the step, again at a wider window. */
static enum sim_status refine_prices(struct prediction_build *build, struct sim_error *error)
{
    double total_us = 0;
    bool refined = false;
    if (build->request->window_requests > 0) {
        return SIM_OK; /* the caller has chosen */
    }
    struct price_weight *weights = malloc((build->graph->node_count + 1) * sizeof *weights);
    if (weights == NULL) {
        return sim_fail(error, SIM_NO_MEMORY, "no memory to weigh %zu nodes", build->graph->node_count);
    }
    size_t count = weigh_prices(build, weights, &total_us);
    for (size_t i = 0; i < build->graph->node_count; i++) {
        if (!build->nodes[i].has_request) {
            continue;
        }
        struct price_weight key = { session_price_of(build->reckon, build->device, &build->nodes[i].request),
                                    0 };
        const struct price_weight *weight = bsearch(&key, weights, count, sizeof weights[0], by_price);
        SIM_ASSERT(weight != NULL, "node %zu has no weight", i);
        if (weight->us * key.price->doubt > STEP_ERROR_SHARE * total_us) {
            build->nodes[i].request.wide_requests = REFINED_REQUESTS;
            refined = true;
        }
    }
    free(weights);
    return refined ? price_requests(build, error) : SIM_OK;
}

static double flops_us(const struct chip_profile *chip, const struct graph_node *node)
{
    double per_cycle = chip->matrix_fp32;
    if (strcmp(node->dtype, "bf16") == 0 || strcmp(node->dtype, "fp16") == 0) {
        per_cycle = chip->matrix_bf16;
    } else if (strcmp(node->dtype, "tf32") == 0 && chip->matrix_tf32 > 0) {
        per_cycle = chip->matrix_tf32;
    }
    double flops_per_us = per_cycle * chip_unit_count(chip) * chip->clock_core_memory_bound;
    return node->flops > 0 ? node->flops / (flops_per_us * BY_FLOPS_EFFICIENCY) : 0;
}

/* The first few of a program; shapes make variants of one text without end. */
static void note_assumption(struct reckon_notes *notes, const struct kernel_price_request *request,
                            const char *text)
{
    char prefix[128];
    size_t before = 0;
    int length = snprintf(prefix, sizeof prefix, "assumed for %s/%s: ", request->suite, request->kernel);
    for (size_t i = 0; i < notes->count; i++) {
        before += strncmp(notes->text[i], prefix, (size_t)length) == 0;
    }
    if (before < ASSUMPTIONS_SHOWN) {
        notes_add(notes, "%s%s", prefix, text);
    } else {
        notes_add(notes, "%sand more of the kind (reckon kernel %s/%s lists them for one shape)", prefix,
                  request->suite, request->kernel);
    }
}

static void price_from_program(struct prediction_build *build, const struct graph_node *node,
                               struct node_pricing *pricing)
{
    const struct kernel_price *price = session_price_of(build->reckon, build->device, &pricing->request);
    pricing->price = step_price_of_kernel(build->device, price);
    snprintf(pricing->limiter, sizeof pricing->limiter, "%s", kernel_stage_text(price->result.limiter));
    for (size_t i = 0; i < price->assumption_count && pricing->priced == RECKON_PRICED_PROGRAM; i++) {
        note_assumption(&build->prediction->notes, &pricing->request, price->assumptions[i].text);
    }
    double by_flops = pricing->priced == RECKON_PRICED_BYTES ? flops_us(&build->device->chip, node) : 0;
    if (by_flops > pricing->price.us) {
        pricing->price = (struct step_price){ .us = by_flops,
                                              .unit_share = 1,
                                              .hbm_share = pricing->price.hbm_share * pricing->price.us /
                                                           by_flops };
        snprintf(pricing->limiter, sizeof pricing->limiter, "matrix");
    }
}

static enum sim_status price_replayed(const struct graph_node *node, struct node_pricing *pricing,
                                      struct sim_error *error)
{
    if (!(node->traced_us >= 0)) {
        return sim_fail(error, SIM_BAD_TRACE, "kernel '%s' has no program, no tensors and no traced time",
                        node->name);
    }
    pricing->priced = RECKON_PRICED_REPLAYED;
    pricing->price = (struct step_price){
        .us = node->traced_us
    }; /* no slots, no HBM: it is not slowed a second time */
    snprintf(pricing->limiter, sizeof pricing->limiter, "replayed");
    return SIM_OK;
}

/* ---- collectives */

static enum sim_status collective_request_of(const struct reckon_device *device,
                                             const struct graph_node *node,
                                             struct collective_request *request, struct sim_error *error)
{
    const struct graph_collective *collective = node->collective;
    uint32_t per_node = node_profile_gpu_count(device->node);
    *request = (struct collective_request){ .kind = collective->kind,
                                            .bytes = collective->bytes,
                                            .nodes = 1,
                                            .gpus = collective->group_size,
                                            .split_bytes = NULL };
    if (collective->group_size > per_node) {
        if (collective->group_size % per_node != 0) {
            return sim_fail(
                error, SIM_BAD_ARGUMENT,
                "%s over %u ranks does not divide over nodes of %u GPUs (%s): choose another --node",
                collective->kind, collective->group_size, per_node, node_profile_name(device->node));
        }
        request->gpus = per_node;
        request->nodes = collective->group_size / per_node;
    }
    return SIM_OK;
}

struct lever_use {
    struct prediction_build *build;
    struct collective_request *request;
    struct collective_result *result;
    enum fabric_engine engine;
};

/* Taken where it shortens the call: a library that has it picks by size. */
static void use_lever(void *context, const char *name)
{
    struct lever_use *use = context;
    struct collective_request before, after;
    struct collective_result result;
    struct sim_error refused = { 0 };
    struct reckon_notes *notes = &use->build->prediction->notes;
    if (collective_lever(use->build->device->node, name, use->request, &before, &after, &refused) != SIM_OK ||
        collective_time(use->build->device->node, &after, use->engine, &result, &refused) != SIM_OK) {
        notes_add(notes, "fix left out of a collective: %s", refused.text);
    } else if (result.time_us < use->result->time_us) {
        *use->request = after;
        *use->result = result;
    } else {
        notes_add(notes, "fix %s shortens no %s of %.3g bytes", name, use->request->kind, use->request->bytes);
    }
}

static enum sim_status price_collective(struct prediction_build *build, const struct graph_node *node,
                                        struct node_pricing *pricing, struct sim_error *error)
{
    struct collective_request request;
    struct collective_result result;
    bool known = node->collective != NULL && strcmp(node->collective->kind, "unknown") != 0;
    if (!known || node->collective->bytes <= 0 || node->collective->group_size < 2) {
        notes_add(&build->prediction->notes,
                  "collective '%.80s' (%s) is replayed at its traced %.1f us and not scaled", node->name,
                  known ? "no bytes or one rank" : "of an unknown kind", node->traced_us);
        return price_replayed(node, pricing, error);
    }
    enum sim_status status = collective_request_of(build->device, node, &request, error);
    double *split = step_collective_splits(build->graph, node);
    request.split_bytes = split;
    if (status == SIM_OK) {
        struct lever_use use = { build, &request, &result,
                                 build->reckon->options.fabric_simgrid ? FABRIC_ENGINE_SIMGRID : FABRIC_ENGINE_FLUID };
        status = collective_time(build->device->node, &request, use.engine, &result, error);
        if (status == SIM_OK) {
            step_fixes_of_collective(build->request->fixes, request.kind, use_lever, &use);
        }
    }
    free(split);
    if (status != SIM_OK && request.nodes > 1) {
        return sim_fail(error, status,
                        "%s over %u ranks is beyond node %s of %u GPUs: choose another --node (%s)",
                        request.kind, node->collective->group_size, node_profile_name(build->device->node),
                        request.gpus, error->text);
    }
    if (status != SIM_OK) {
        return status;
    }
    pricing->priced = RECKON_PRICED_FABRIC;
    pricing->price = step_price_of_collective(build->device, &result);
    snprintf(pricing->limiter, sizeof pricing->limiter, "%.23s", result.limiter);
    return SIM_OK;
}

/* ---- all nodes */

static enum sim_status fill_prices(struct prediction_build *build, struct sim_error *error)
{
    for (size_t i = 0; i < build->graph->node_count; i++) {
        const struct graph_node *node = &build->graph->nodes[i];
        struct node_pricing *pricing = &build->nodes[i];
        enum sim_status status = SIM_OK;
        if (node->kind == GRAPH_COLLECTIVE && pricing->limiter[0] == '\0') {
            status = price_collective(build, node, pricing, error);
        } else if (node->kind == GRAPH_KERNEL && pricing->has_request) {
            price_from_program(build, node, pricing);
            session_use(build->reckon, build->device, &pricing->request, pricing->price.us);
        } else if (node->kind == GRAPH_KERNEL) {
            status = price_replayed(node, pricing, error);
        }
        if (status != SIM_OK) {
            return status;
        }
        build->prices[i] = pricing->price;
    }
    return SIM_OK;
}

static void count_use(void *context, const char *name)
{
    (void)name;
    *(bool *)context = true;
}

/* Each fix must find a program of the step that takes it. */
static enum sim_status check_fixes_apply(struct prediction_build *build, struct sim_error *error)
{
    char item[STEP_FIX_TEXT_CAPACITY * 2], unused[CHANGED_CAPACITY];
    for (size_t k = 0; step_fixes_at(build->request->fixes, k, item, sizeof item); k++) {
        bool used = false;
        for (size_t i = 0; !used && i < build->graph->node_count; i++) {
            const struct graph_node *node = &build->graph->nodes[i];
            const struct kernel_price_request *request = &build->nodes[i].request;
            if (node->kind == GRAPH_COLLECTIVE && node->collective != NULL) {
                step_fixes_of_collective(item, node->collective->kind, count_use, &used);
            } else if (build->nodes[i].has_request && build->nodes[i].priced == RECKON_PRICED_PROGRAM) {
                used = step_fixes_of_kernel(item, request->suite, request->kernel, build->nodes[i].plain, unused, sizeof unused);
            }
        }
        if (!used) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "fix '%s': no kernel or collective of %s takes it (reckon advise lists those that apply)",
                            item, build->graph->source);
        }
    }
    return SIM_OK;
}

static enum sim_status price_all(struct prediction_build *build, struct sim_error *error)
{
    for (size_t i = 0; i < build->graph->node_count; i++) {
        if (build->graph->nodes[i].kind == GRAPH_KERNEL) {
            request_kernel(build, &build->nodes[i], &build->graph->nodes[i]);
        }
    }
    enum sim_status status = check_fixes_apply(build, error);
    if (status == SIM_OK) {
        status = price_requests(build, error);
    }
    if (status == SIM_OK) {
        status = demote_refused(build, error);
    }
    if (status == SIM_OK) {
        status = refine_prices(build, error);
    }
    return status == SIM_OK ? fill_prices(build, error) : status;
}

static enum sim_status schedule(struct prediction_build *build, struct sim_error *error)
{
    const struct host_profile *host = &build->device->host;
    struct step_host_costs costs = {
        .operator_us = host->operator_us,
        .launch_us = host->launch_us,
        .event_us = host->event_us,
        .sync_us = host->sync_us,
        .start_us = host->start_us,
        .queue_depth = host->queue_depth,
        .traced_operators = build->request->traced_host_times,
    };
    struct step_options options = { .stream_gap_us = build->device->chip.launch_stream_gap };
    if (build->graph->ideal_issue) {
        costs = (struct step_host_costs){ .queue_depth = host->queue_depth };
        options.stream_gap_us = 0;
    }
    step_timeline_destroy(build->timeline);
    build->timeline = NULL;
    return step_schedule(build->graph, build->prices, &costs, &options, &build->timeline, error);
}

/* Steps of schedule and governor until they agree; three suffice, since a stretched kernel draws as much energy. */
#define CLOCK_ROUNDS 4
#define CLOCK_AGREES 0.001 /* of the step */

static void power_loads(const struct prediction_build *build, struct power_load *loads)
{
    const struct chip_profile *chip = &build->device->chip;
    for (size_t i = 0; i < build->graph->node_count; i++) {
        const struct node_pricing *pricing = &build->nodes[i];
        double us = pricing->price.us;
        loads[i] = (struct power_load){ 0 };
        if (build->graph->nodes[i].kind == GRAPH_KERNEL && pricing->has_request) {
            loads[i] = kernel_price_load(session_price_of(build->reckon, build->device, &pricing->request),
                                         chip);
        } else if (graph_is_device(&build->graph->nodes[i]) && us > 0) { /* no activity known but its HBM traffic */
            double bytes_per_us = pricing->price.hbm_share * chip->hbm_channels * chip->hbm_channel_rate * 1e3;
            loads[i] = (struct power_load){ .us = us,
                                            .memory_watts = bytes_per_us * chip->power_hbm_byte * 1e-6 };
        }
    }
}

static void note_clock(struct prediction_build *build, const struct step_clock_rank *ranks)
{
    double mhz = 0, watts = 0;
    for (uint32_t r = 0; r < build->graph->rank_count; r++) {
        mhz += ranks[r].mhz / build->graph->rank_count;
        watts += ranks[r].watts / build->graph->rank_count;
    }
    build->prediction->watts = watts;
    build->prediction->clock_mhz = mhz;
    notes_add(&build->prediction->notes, "board power: %.0f W on average of %.0f; core clock %.0f MHz while busy",
              watts, build->device->chip.power_board_limit, mhz);
}

/* The clock that board power leaves each kernel, and the step it makes. */
static enum sim_status apply_power(struct prediction_build *build, struct sim_error *error)
{
    const struct chip_profile *chip = &build->device->chip;
    size_t count = build->graph->node_count;
    struct power_load *loads = calloc(count + 1, sizeof *loads);
    double *mhz = calloc(count + 1, sizeof *mhz);
    struct step_clock_rank *ranks = calloc(build->graph->rank_count + 1, sizeof *ranks);
    enum sim_status status = SIM_OK;
    if (loads == NULL || mhz == NULL || ranks == NULL) {
        status = sim_fail(error, SIM_NO_MEMORY, "no memory for the clocks of %zu nodes", count);
    } else {
        power_loads(build, loads);
    }
    for (size_t i = 0; status == SIM_OK && i < count; i++) {
        mhz[i] = chip->clock_core_max;
    }
    for (int round = 0; status == SIM_OK && round < CLOCK_ROUNDS; round++) {
        double before = build->timeline->step_ms;
        step_clock_solve(build->graph, build->timeline, chip, loads, mhz, ranks);
        for (size_t i = 0; i < count; i++) {
            build->prices[i].us = build->nodes[i].price.us * pow(chip->clock_core_max / mhz[i], loads[i].exponent);
        }
        status = schedule(build, error);
        if (status == SIM_OK && fabs(build->timeline->step_ms / before - 1) < CLOCK_AGREES) {
            break;
        }
    }
    if (status == SIM_OK) {
        note_clock(build, ranks);
        if (build->request->timeline) {
            build->prediction->timeline = timeline_of(build->graph, build->timeline, build->prices, loads, mhz, chip);
        }
    }
    free(loads);
    free(mhz);
    free(ranks);
    return status;
}

/* ---- the answer */

static char *program_text(const struct graph_node *node, const struct node_pricing *pricing)
{
    char text[96];
    switch (pricing->priced) {
    case RECKON_PRICED_PROGRAM:
        snprintf(text, sizeof text, "%s/%s", pricing->request.suite, pricing->request.kernel);
        break;
    case RECKON_PRICED_FABRIC: snprintf(text, sizeof text, "collective/%s", node->collective->kind); break;
    case RECKON_PRICED_BYTES: snprintf(text, sizeof text, "bytes"); break;
    default: snprintf(text, sizeof text, "replayed"); break;
    }
    return strdup(text);
}

static char *params_text(const struct graph_node *node, const struct node_pricing *pricing)
{
    char text[96] = "";
    if (pricing->priced == RECKON_PRICED_PROGRAM && pricing->request.params != NULL) {
        return strdup(pricing->request.params);
    }
    if (pricing->priced == RECKON_PRICED_FABRIC) {
        snprintf(text, sizeof text, "bytes=%.0f;gpus=%u", node->collective->bytes,
                 node->collective->group_size);
    }
    if (pricing->priced == RECKON_PRICED_BYTES) {
        snprintf(text, sizeof text, "bytes=%.0f", node->bytes_read + node->bytes_written);
    }
    return strdup(text);
}

/* Name, program and parameters as recorded: what a row means on any device. */
static char *key_text(const struct graph_node *node)
{
    char *text = NULL;
    int wrote = node->kind == GRAPH_COLLECTIVE && node->collective != NULL
                    ? asprintf(&text, "%s|%s|%.0f|%u", node->name, node->collective->kind,
                               node->collective->bytes, node->collective->group_size)
                    : asprintf(&text, "%s|%s/%s|%s|%.0f", node->name, node->suite, node->kernel,
                               node->params != NULL ? node->params : "",
                               node->bytes_read + node->bytes_written);
    SIM_ASSERT(wrote >= 0, "no memory for a row");
    return text;
}

static int by_identity(const void *a, const void *b)
{
    const struct reckon_kernel_row *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order != 0 ? order : strcmp(x->program, y->program);
}

static int by_time(const void *a, const void *b)
{
    const struct reckon_kernel_row *x = a, *y = b;
    return x->ms != y->ms ? (x->ms > y->ms ? -1 : 1) : by_identity(a, b);
}

static int by_category_time(const void *a, const void *b)
{
    const struct reckon_category *x = a, *y = b;
    return x->ms != y->ms ? (x->ms > y->ms ? -1 : 1) : strcmp(x->name, y->name);
}

static void row_free(struct reckon_kernel_row *row)
{
    free(row->key);
    free(row->name);
    free(row->program);
    free(row->params);
}

static void category_add(struct reckon_prediction *prediction, const char *name, double ms, double count)
{
    size_t c = 0;
    while (c < prediction->category_count && strcmp(prediction->categories[c].name, name) != 0) {
        c++;
    }
    if (c == prediction->category_count) {
        struct reckon_category *grown = realloc(prediction->categories, (c + 1) * sizeof *grown);
        SIM_ASSERT(grown != NULL, "no memory for %zu categories", c);
        prediction->categories = grown;
        grown[c] = (struct reckon_category){ 0 };
        snprintf(grown[c].name, sizeof grown[c].name, "%s", name);
        prediction->category_count++;
    }
    prediction->categories[c].ms += ms;
    prediction->categories[c].count += count;
}

/* What the chip model says of the row's kernel. */
static void fill_row_price(const struct prediction_build *build, const struct node_pricing *pricing, double per_rank,
                           struct reckon_kernel_row *row)
{
    if (!pricing->has_request) {
        return;
    }
    const struct kernel_price *price = session_price_of(build->reckon, build->device, &pricing->request);
    row->has_stack = true;
    memcpy(row->stack, price->result.stack, sizeof row->stack);
    row->hbm_bytes = price->result.bytes[KERNEL_LEVEL_HBM] * per_rank;
    row->flops = fmax(price->flops, 0) * per_rank;
}

/* A row per device node, then merged where name, program and parameters are the same. Figures per GPU. */
static void fill_rows(struct prediction_build *build)
{
    struct reckon_prediction *prediction = build->prediction;
    double per_rank = 1.0 / build->graph->rank_count, longest = 0;
    size_t count = 0, merged = 0;
    struct reckon_kernel_row *rows = calloc(build->graph->node_count + 1, sizeof *rows);
    SIM_ASSERT(rows != NULL, "no memory for %zu rows", build->graph->node_count);
    for (size_t i = 0; i < build->graph->node_count; i++) {
        const struct graph_node *node = &build->graph->nodes[i];
        const struct node_pricing *pricing = &build->nodes[i];
        if (!graph_is_device(node)) {
            continue;
        }
        struct reckon_kernel_row *row = &rows[count++];
        row->key = key_text(node);
        row->name = strdup(node->name != NULL ? node->name : "?");
        row->program = program_text(node, pricing);
        row->params = params_text(node, pricing);
        SIM_ASSERT(row->name != NULL && row->program != NULL && row->params != NULL, "no memory for %zu rows",
                   count);
        snprintf(row->category, sizeof row->category, "%s",
                 node->category != NULL ? node->category : "other");
        snprintf(row->limiter, sizeof row->limiter, "%s", pricing->limiter);
        row->priced = pricing->priced;
        row->count = per_rank;
        fill_row_price(build, pricing, per_rank, row);
        row->ms = (build->timeline->end_us[i] - build->timeline->start_us[i]) * 1e-3 * per_rank;
        if (node->kind == GRAPH_COLLECTIVE && row->ms > WAITS_MOST * pricing->price.us * 1e-3 * per_rank) {
            snprintf(row->limiter, sizeof row->limiter, "slow rank");
        }
        row->traced_ms = node->traced_us > 0 && !is_described(build->graph) ? node->traced_us * 1e-3 * per_rank
                                                                            : NAN; /* of another batch nothing was timed */
        category_add(prediction, row->category, row->ms, per_rank);
    }
    qsort(rows, count, sizeof rows[0], by_identity);
    for (size_t i = 0; i < count; i++) {
        if (merged > 0 && by_identity(&rows[merged - 1], &rows[i]) == 0) {
            rows[merged - 1].count += rows[i].count;
            rows[merged - 1].ms += rows[i].ms;
            rows[merged - 1].traced_ms += rows[i].traced_ms;
            if (rows[i].ms > longest) { /* the limiter is that of the longest */
                longest = rows[i].ms;
                memcpy(rows[merged - 1].limiter, rows[i].limiter, sizeof rows[i].limiter);
            }
            rows[merged - 1].hbm_bytes += rows[i].hbm_bytes;
            rows[merged - 1].flops += rows[i].flops;
            row_free(&rows[i]);
        } else {
            longest = rows[i].ms;
            rows[merged++] = rows[i];
        }
    }
    qsort(rows, merged, sizeof rows[0], by_time);
    qsort(prediction->categories, prediction->category_count, sizeof prediction->categories[0],
          by_category_time);
    prediction->kernels = rows;
    prediction->kernel_count = merged;
}

/* Shares of GPU time: what programs and the fabric priced, and what came out within a factor of two of the trace. */
static void fill_shares(struct prediction_build *build)
{
    double all = 0, recognised = 0, traced = 0, within = 0;
    for (size_t i = 0; i < build->graph->node_count; i++) {
        const struct graph_node *node = &build->graph->nodes[i];
        const struct node_pricing *pricing = &build->nodes[i];
        if (!graph_is_device(node)) {
            continue;
        }
        all += pricing->price.us;
        bool modelled = pricing->priced == RECKON_PRICED_PROGRAM || pricing->priced == RECKON_PRICED_FABRIC;
        recognised += modelled ? pricing->price.us : 0;
        if (node->kind == GRAPH_KERNEL && node->traced_us > 0) {
            traced += node->traced_us;
            bool near = pricing->price.us <= 2 * node->traced_us && pricing->price.us >= node->traced_us / 2;
            within += near && pricing->priced != RECKON_PRICED_REPLAYED ? node->traced_us : 0;
        }
    }
    build->prediction->recognised_fraction = all > 0 ? recognised / all : 1;
    build->prediction->within_2x_fraction = build->traced_here && traced > 0 ? within / traced : NAN;
}

/* HBM of the device the trace was recorded on, GiB; 0 when no profile knows its name. */
static double recorded_capacity_gib(const char *title)
{
    struct data_names names = { 0 };
    double capacity = 0;
    if (data_path_list("devices", &names, NULL) != SIM_OK) {
        return 0;
    }
    for (size_t i = 0; i < names.count && capacity == 0; i++) {
        char path[DATA_PATH_CAPACITY];
        struct chip_profile chip;
        memset(&chip, 0, sizeof chip);
        if (data_path_find("devices", "device", names.name[i], path, NULL) == SIM_OK &&
            chip_profile_read(path, &chip, NULL) == SIM_OK && title_is_of(title, &chip)) {
            capacity = chip.hbm_capacity;
        }
        chip_profile_finish(&chip);
    }
    data_names_finish(&names);
    return capacity;
}

/* Of a described step: the allocator's peak against the device. */
static void fill_described_memory(struct prediction_build *build, const struct step_memory *memory)
{
    struct reckon_prediction *prediction = build->prediction;
    const double *owner = memory->owner_bytes;
    const struct graph_node *at = memory->peak_node < build->graph->node_count
                                      ? &build->graph->nodes[memory->peak_node]
                                      : NULL;
    at = at != NULL && at->kind == GRAPH_HOST_LAUNCH ? &build->graph->nodes[at->launched] : at;
    prediction->memory_known = true;
    prediction->memory_gib = (struct reckon_memory){
        .parameters = owner[GRAPH_MEMORY_PARAMETERS] / GIB,
        .gradients = owner[GRAPH_MEMORY_GRADIENTS] / GIB,
        .optimizer = owner[GRAPH_MEMORY_OPTIMIZER] / GIB,
        .embeddings = owner[GRAPH_MEMORY_EMBEDDINGS] / GIB,
        .activations = owner[GRAPH_MEMORY_ACTIVATIONS] / GIB,
        .communication = owner[GRAPH_MEMORY_COMMUNICATION] / GIB,
        .workspace = owner[GRAPH_MEMORY_WORKSPACE] / GIB,
        .reserve = step_memory_reserve_gib(build->graph, prediction->capacity_gib),
        .peak = memory->peak_bytes / GIB,
    };
    snprintf(prediction->memory_moment, sizeof prediction->memory_moment, "%s%.80s", memory->peak_node == 0 ? "" : "at ",
             at != NULL ? at->name : "the end of the step");
    if (build->graph->reserve_share >= 0) {
        notes_add(&prediction->notes, "memory: a reserve of %g%% is %.2f GiB of this device's %.2f, and another amount on a device with more or less",
                  100 * build->graph->reserve_share, prediction->memory_gib.reserve, prediction->capacity_gib);
    }
    prediction->fits_known = true;
    prediction->fits = prediction->memory_gib.peak + prediction->memory_gib.reserve <= prediction->capacity_gib;
    if (!prediction->fits) {
        model_route_advise(build->request->model, prediction->capacity_gib, prediction->memory_gib.peak,
                           prediction->memory_gib.reserve, prediction->memory_advice,
                           sizeof prediction->memory_advice);
    }
}

/* A trace does not hold allocations; that it was recorded tells that the step fits where it ran. */
static void fill_memory(struct prediction_build *build)
{
    struct reckon_prediction *prediction = build->prediction;
    struct step_memory memory;
    step_memory_measure(build->graph, &memory);
    prediction->capacity_gib = build->device->chip.hbm_capacity;
    if (memory.known) {
        fill_described_memory(build, &memory);
        return;
    }
    double recorded = recorded_capacity_gib(build->graph->device_title);
    if (recorded > 0 && recorded <= prediction->capacity_gib) {
        prediction->fits_known = prediction->fits = true;
        notes_add(&prediction->notes,
                  "memory: peak unknown from a trace; the step ran in %.1f GiB, so it fits in %.1f", recorded,
                  prediction->capacity_gib);
    } else {
        notes_add(&prediction->notes,
                  "memory: peak unknown from a trace, so whether it fits in %.1f GiB is unknown too",
                  prediction->capacity_gib);
    }
}

static void fill_notes(struct prediction_build *build)
{
    struct reckon_notes *notes = &build->prediction->notes;
    const struct graph *graph = build->graph;
    for (size_t i = 0; i < graph->note_count; i++) {
        notes_add(notes, "%s: %s", is_described(graph) ? "model" : "trace", graph->notes[i]);
    }
    bool exchanges = false;
    for (size_t i = 0; i < graph->node_count && !exchanges; i++) {
        exchanges = graph->nodes[i].kind == GRAPH_COLLECTIVE;
    }
    if (build->device->node_named && !exchanges) {
        notes_add(notes, "node %s changes nothing: the step has no collective", node_profile_name(build->device->node));
    }
    if (!build->traced_here && !is_described(graph)) {
        notes_add(notes,
                  "recorded on %s: traced times are of that device, and library kernels are taken as the "
                  "target's own library would run them",
                  graph->device_title[0] != '\0' ? graph->device_title : "an unnamed device");
    }
    if (build->timeline->dropped_syncs > 0) {
        notes_add(
            notes,
            "%zu synchronise call(s) at the end of the recorded step left out: steps are queued back to back",
            build->timeline->dropped_syncs);
    }
    if (graph->world_size > graph->rank_count) {
        const char *given = "given: the others are taken to arrive with the last of these";
        if (graph->ranks_stand_for_all) {
            given = "given, which stand for the others";
        } else if (is_described(graph) && graph->rank_count == 1) {
            given = "played, the one with most to do; the others do the same, or within half a percent";
        } else if (is_described(graph)) {
            given = graph->rank_count > 2 ? "played, those with most and least to do and the fullest; the others arrive with the last of these"
                                          : "played, those with most and least to do; the others arrive with the last of these";
        }
        notes_add(notes, "%u of %u ranks %s", graph->rank_count, graph->world_size, given);
    }
    double host_ms = 0, host_less_busy_ms = 0;
    for (uint32_t r = 0; r < build->timeline->rank_count; r++) {
        host_ms = fmax(host_ms, build->timeline->ranks[r].host_ms);
        host_less_busy_ms += build->timeline->ranks[r].host_ms - build->timeline->ranks[r].gpu_busy_ms;
    }
    if (host_ms > 0.9 * build->timeline->step_ms) {
        const struct host_profile *host = &build->device->host;
        notes_add(notes,
                  "%s: calls take %.3f of %.3f ms at %g us an operator and %g us a launch (%s, %zu "
                  "of its values assumed)",
                  host_less_busy_ms > 0 ? "host-bound" : "the host has little to spare", host_ms, build->timeline->step_ms, host->operator_us, host->launch_us, host->name,
                  host->kinds.count[PROFILE_ASSUMED]);
    }
    if (build->timeline->drift > 0.01) {
        notes_add(notes, "successive steps still differ by %.1f%%", build->timeline->drift * 100);
    }
    if (build->request->step_ms > 0) {
        notes_add(notes, "measured step named by the user: %.3f ms (mode model does not use it)",
                  build->request->step_ms);
    }
}

static void fill_times(struct prediction_build *build)
{
    struct reckon_prediction *prediction = build->prediction;
    const struct step_timeline *timeline = build->timeline;
    double per_rank = 1.0 / timeline->rank_count;
    prediction->step_ms = timeline->step_ms;
    prediction->step_ms_low = prediction->step_ms_high = NAN;
    double batch = build->request->batch > 0 ? build->request->batch : build->graph->batch;
    prediction->examples_per_s = batch > 0 ? batch * prediction->gpus / (timeline->step_ms * 1e-3) : NAN;
    for (uint32_t r = 0; r < timeline->rank_count; r++) {
        prediction->gpu_busy_ms += timeline->ranks[r].gpu_busy_ms * per_rank;
        prediction->gpu_moving_ms += timeline->ranks[r].gpu_moving_ms * per_rank;
        prediction->host_ms += timeline->ranks[r].host_ms * per_rank;
        prediction->exposed_comm_ms += timeline->ranks[r].exposed_comm_ms * per_rank;
    }
}

static void fill_head(struct prediction_build *build)
{
    struct reckon_prediction *prediction = build->prediction;
    const struct reckon_device *device = build->device;
    snprintf(prediction->device, sizeof prediction->device, "%s", device->chip.name);
    snprintf(prediction->node, sizeof prediction->node, "%s", node_profile_name(device->node));
    snprintf(prediction->host, sizeof prediction->host, "%s", device->host.name);
    snprintf(prediction->source, sizeof prediction->source, "%s", build->graph->source);
    text_make_printable(prediction->source);
    snprintf(prediction->mode, sizeof prediction->mode, "model");
    prediction->gpus = build->request->gpus != 0      ? build->request->gpus
                       : is_described(build->graph) || build->graph->ranks_stand_for_all ? build->graph->world_size
                                                    : build->graph->rank_count;
    fill_memory(build);
    basis_add_chip(&prediction->basis, &device->chip);
    basis_add_kinds(&prediction->basis, &device->host.kinds);
}

static bool cannot_run(const struct reckon_prediction *prediction)
{
    return prediction->fits_known && !prediction->fits;
}

/* A step that cannot be: its memory, and no times. */
static void fill_impossible(struct reckon_prediction *prediction)
{
    prediction->step_ms = prediction->step_ms_low = prediction->step_ms_high = NAN;
    prediction->examples_per_s = prediction->within_2x_fraction = NAN;
    prediction->gpu_busy_ms = prediction->gpu_moving_ms = prediction->host_ms = prediction->exposed_comm_ms = NAN;
    prediction->recognised_fraction = prediction->watts = prediction->clock_mhz = NAN;
    notes_add(&prediction->notes, "does not fit: %s", prediction->memory_advice);
}

static enum sim_status check_request(const struct reckon_predict_request *request, struct sim_error *error)
{
    const struct graph *graph = request->graph;
    if (request->mode == RECKON_MODE_ANCHORED) {
        return sim_fail(error, SIM_UNSUPPORTED, "mode anchored is not there yet: use --mode model");
    }
    if (request->gpus != 0 && request->gpus != graph->rank_count && request->gpus != graph->world_size) {
        return sim_fail(
            error, SIM_UNSUPPORTED,
            "--gpus %u: the step was recorded on %u; --set gpus=%u asks for another number at the same batch a GPU",
            request->gpus, graph->world_size, request->gpus);
    }
    return step_fixes_check(request->fixes, error);
}

static void fill_input(struct prediction_build *build)
{
    struct reckon_prediction *prediction = build->prediction;
    struct input_share *shares = calloc(build->graph->node_count + 1, sizeof *shares);
    size_t count = 0;
    SIM_ASSERT(shares != NULL, "no memory for %zu shares", build->graph->node_count);
    for (size_t i = 0; i < build->graph->node_count; i++) {
        if (graph_is_device(&build->graph->nodes[i])) {
            shares[count++] = (struct input_share){ &build->graph->nodes[i], build->nodes[i].priced,
                                                    build->nodes[i].price.us };
        }
    }
    input_verdict_fill(build->graph, shares, count, build->traced_here, prediction->host_ms, &prediction->input);
    free(shares);
    if (build->request->refuse_unrecognised && !prediction->input.enough) {
        prediction->step_ms = prediction->examples_per_s = NAN;
    }
}

static enum sim_status play(struct prediction_build *build, struct sim_error *error)
{
    enum sim_status status = price_all(build, error);
    if (status == SIM_OK) {
        status = schedule(build, error);
    }
    if (status == SIM_OK) {
        status = apply_power(build, error);
    }
    if (status == SIM_OK) {
        fill_times(build);
        fill_rows(build);
        fill_shares(build);
        if (!is_described(build->graph)) {
            fill_input(build);
        }
        fill_notes(build);
    }
    return status;
}

enum sim_status reckon_predict(struct reckon *reckon, const struct reckon_device *device,
                               const struct reckon_predict_request *request, struct reckon_prediction **out,
                               struct sim_error *error)
{
    struct prediction_build build = { .reckon = reckon,
                                      .device = device,
                                      .request = request,
                                      .graph = request->graph,
                                      .traced_here = title_is_of(request->graph->device_title,
                                                                 &device->chip) };
    enum sim_status status = check_request(request, error);
    *out = NULL;
    if (status != SIM_OK) {
        return status;
    }
    build.prediction = calloc(1, sizeof *build.prediction);
    build.nodes = calloc(build.graph->node_count + 1, sizeof *build.nodes);
    build.prices = calloc(build.graph->node_count + 1, sizeof *build.prices);
    build.requests = calloc(build.graph->node_count + 1, sizeof *build.requests);
    if (build.prediction == NULL || build.nodes == NULL || build.prices == NULL || build.requests == NULL) {
        status = sim_fail(error, SIM_NO_MEMORY, "no memory to price %zu nodes", build.graph->node_count);
    }
    if (status == SIM_OK) {
        session_begin_prediction(reckon);
        fill_head(&build);
        status = cannot_run(build.prediction) ? SIM_OK : play(&build, error);
    }
    if (status == SIM_OK && cannot_run(build.prediction)) {
        fill_impossible(build.prediction);
    }
    if (status == SIM_OK) {
        *out = build.prediction;
        if (request->played != NULL) {
            request->played(request->played_context, build.prediction);
        }
    } else {
        reckon_prediction_free(build.prediction);
    }
    step_timeline_destroy(build.timeline);
    free(build.nodes);
    free(build.prices);
    free(build.requests);
    return status;
}

void reckon_prediction_free(struct reckon_prediction *prediction)
{
    if (prediction == NULL) {
        return;
    }
    for (size_t i = 0; i < prediction->kernel_count; i++) {
        row_free(&prediction->kernels[i]);
    }
    free(prediction->kernels);
    free(prediction->categories);
    timeline_free(prediction->timeline);
    notes_free(&prediction->notes);
    free(prediction);
}
