#include "sim/step/overlap.h"
#include "sim/step/step_clock.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0
#define CALLS_MAX 4096
#define STREAMS 2u

/* ---- shares */

/* Rate that the bus utilisation of a kernel is counted against, over the rate that copying kernels reach. */
static double bus_over_reach(const struct reckon_device *device)
{
    double bus_gbs = device->chip.hbm_channels * device->chip.hbm_channel_rate;
    return bus_gbs / node_profile_memory_rate(device->node);
}

struct step_price step_price_of_kernel(const struct reckon_device *device, const struct kernel_price *price)
{
    return (struct step_price){
        .us = price->device_us,
        .call_us = price->host_us,
        .unit_share = fmin(price->result.unit_share, 1),
        .rounds = price->result.rounds,
        .hbm_share = fmin(price->result.hbm_share * bus_over_reach(device), 1),
        .hbm_held = fmin(price->result.stack[KERNEL_STAGE_HBM], 1),
    };
}

struct step_price step_price_of_collective(const struct reckon_device *device,
                                           const struct collective_result *result)
{
    const struct chip_profile *chip = &device->chip;
    double reach_bytes = result->time_us * node_profile_memory_rate(device->node) * 1e3;
    double units = collective_units_taken(result, chip->unit_registers,
                                          chip->unit_waves_max * chip->unit_lanes);
    return (struct step_price){
        .us = result->time_us,
        .unit_share = fmin(units / chip_unit_count(chip), 1),
        .hbm_share = fmin(result->hbm_bytes / reach_bytes, 1),
    };
}

/* ---- uneven sizes */

static bool meets(const struct graph_node *a, const struct graph_node *b)
{
    return b->kind == GRAPH_COLLECTIVE && b->collective != NULL &&
           a->collective->sequence == b->collective->sequence &&
           strcmp(a->collective->group, b->collective->group) == 0 &&
           strcmp(a->collective->kind, b->collective->kind) == 0;
}

static bool sends_unevenly(const struct graph_collective *collective, double bytes)
{
    bool uneven = collective->bytes != bytes;
    for (uint32_t to = 1; collective->split_bytes_to != NULL && to < collective->group_size; to++) {
        uneven = uneven || collective->split_bytes_to[to] != collective->split_bytes_to[0];
    }
    return uneven;
}

double *step_collective_splits(const struct graph *graph, const struct graph_node *node)
{
    uint32_t ranks = node->collective->group_size, given = 0;
    double sum = 0;
    bool uneven = false;
    if (strcmp(node->collective->kind, "all_to_all") != 0) {
        return NULL;
    }
    double *split = calloc((size_t)ranks * ranks, sizeof *split);
    SIM_ASSERT(split != NULL, "no memory for the splits of %u ranks", ranks);
    for (size_t i = 0; i < graph->node_count && given < ranks; i++) {
        if (!meets(node, &graph->nodes[i]) || graph->nodes[i].collective->group_size != ranks) {
            continue;
        }
        const struct graph_collective *sent = graph->nodes[i].collective;
        uneven = uneven || sends_unevenly(sent, node->collective->bytes);
        for (uint32_t to = 0; to < ranks; to++) {
            split[(size_t)given * ranks + to] = sent->split_bytes_to != NULL ? sent->split_bytes_to[to]
                                                                             : sent->bytes / ranks;
        }
        sum += sent->bytes;
        given++;
    }
    if (!uneven || !(sum > 0)) {
        free(split);
        return NULL;
    }
    for (size_t i = (size_t)given * ranks; i < (size_t)ranks * ranks; i++) {
        split[i] = sum / given / ranks;
    }
    return split;
}

/* ---- what the rows ran */

struct compute_part {
    const char *word, *suite, *kernel, *params;
    enum harness_cache cache;
};

static const struct compute_part parts[] = {
    { "gemm", "gemm", "mm", "M=8192;N=8192;K=8192;dtype=bf16;trans=nn", HARNESS_CACHE_OWN },
    { "lookup", "embedding", "bag_forward", "B=131072;L=32;D=128;rows=10000000;dtype=float32",
      HARNESS_CACHE_OWN },
    { "copy", "pointwise", "copy", "n=268435456;dtype=fp32", HARNESS_CACHE_OWN },
};
static const struct compute_part half_gib_copy = { "copy", "pointwise", "copy", "n=134217728;dtype=fp32",
                                                   HARNESS_CACHE_OWN };
static const char *const collectives[] = { "all_reduce", "all_to_all" };

/* One stream of a row: `count` equal items. */
struct overlap_stream {
    const char *collective;          /* kind, or NULL: kernels */
    const struct compute_part *part; /* kernels */
    double bytes;                    /* of one collective */
    double interval_us;              /* least time of the host between two of its launches */
    uint32_t count;
    struct step_price price;
    struct power_load load; /* of one item */
};

static const struct compute_part *part_of(const char *kernel, const char **collective)
{
    for (size_t c = 0; c < sizeof collectives / sizeof collectives[0]; c++) {
        size_t length = strlen(collectives[c]);
        if (strncmp(kernel, collectives[c], length) != 0 || kernel[length] != '_') {
            continue;
        }
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
            if (strcmp(kernel + length + 1, parts[p].word) == 0) {
                *collective = collectives[c];
                return &parts[p];
            }
        }
    }
    return NULL;
}

bool overlap_rows_cover(const char *suite, const char *kernel)
{
    const char *collective;
    return (strcmp(suite, "overlap") == 0 && strcmp(kernel, "gemm_plus_copy") == 0) ||
           (strcmp(suite, "overlap2") == 0 && part_of(kernel, &collective) != NULL);
}

/* ---- parameters */

static enum sim_status read_param(const char *suite, const char *text, size_t length, const char *const *keys,
                                  double *values, struct sim_error *error)
{
    for (size_t k = 0; keys[k] != NULL; k++) {
        size_t key_length = strlen(keys[k]);
        if (length <= key_length || strncmp(text, keys[k], key_length) != 0 || text[key_length] != '=') {
            continue;
        }
        char *end = NULL;
        double value = strtod(text + key_length + 1, &end);
        if (end != text + length || !(value > 0 && value <= 1e6)) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "%s: %.*s must be a number above 0 and up to 1e6", suite,
                            (int)length, text);
        }
        if (!isnan(values[k])) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "%s: parameter %s is given twice", suite, keys[k]);
        }
        values[k] = value;
        return SIM_OK;
    }
    return sim_fail(error, SIM_BAD_ARGUMENT, "%s: unknown parameter \"%.*s\": must be %s, %s or %s", suite,
                    (int)length, text, keys[0], keys[1] != NULL ? keys[1] : keys[0],
                    keys[1] != NULL ? keys[2] : keys[0]);
}

/* values: one per key, all of them needed. */
static enum sim_status read_params(const char *suite, const char *params, const char *const *keys,
                                   double *values, struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    for (size_t k = 0; keys[k] != NULL; k++) {
        values[k] = NAN;
    }
    for (const char *at = params; status == SIM_OK && *at != '\0';) {
        size_t length = strcspn(at, ";");
        status = length > 0 ? read_param(suite, at, length, keys, values, error) : SIM_OK;
        at += length + (at[length] == ';');
    }
    for (size_t k = 0; status == SIM_OK && keys[k] != NULL; k++) {
        bool is_count = strcmp(keys[k], "mb") != 0;
        if (isnan(values[k]) || (is_count && (values[k] != floor(values[k]) || values[k] > CALLS_MAX))) {
            status = sim_fail(error, SIM_BAD_ARGUMENT, "%s: parameter %s %s", suite, keys[k],
                              isnan(values[k]) ? "is missing" : "must be a whole number up to 4096");
        }
    }
    return status;
}

static enum sim_status streams_of(const struct reckon_device *device, const char *suite, const char *kernel,
                                  const char *params, const struct harness_profile *harness,
                                  struct overlap_stream streams[STREAMS], struct sim_error *error)
{
    static const char *const copy_keys[] = { "copies", NULL };
    static const char *const pair_keys[] = { "mb", "calls", "reps", NULL };
    double values[3], kernel_us = device->host.operator_us + device->host.launch_us;
    if (!overlap_rows_cover(suite, kernel)) {
        return sim_fail(error, SIM_UNKNOWN_NAME,
                        "unknown overlap %s/%s: must be overlap/gemm_plus_copy or overlap2/{all_reduce,"
                        "all_to_all}_{gemm,lookup,copy}",
                        suite, kernel);
    }
    if (strcmp(suite, "overlap") == 0) {
        enum sim_status status = read_params(suite, params, copy_keys, values, error);
        streams[0] = (struct overlap_stream){ .part = &parts[0], .count = 1, .interval_us = kernel_us };
        streams[1] = (struct overlap_stream){ .part = &half_gib_copy, .interval_us = kernel_us };
        streams[1].count = status == SIM_OK ? (uint32_t)values[0] : 0;
        return status;
    }
    enum sim_status status = read_params(suite, params, pair_keys, values, error);
    if (status == SIM_OK) {
        streams[1] = (struct overlap_stream){ .count = 4 * (uint32_t)values[2], .interval_us = kernel_us };
        streams[1].part = part_of(kernel, &streams[0].collective);
        streams[0].part = NULL;
        streams[0].bytes = values[0] * MIB;
        streams[0].count = (uint32_t)values[1];
        streams[0].interval_us = harness->launch_interval_us;
    }
    return status;
}

static enum sim_status price_stream(const struct reckon *reckon, const struct reckon_device *device,
                                    struct overlap_stream *stream, struct sim_error *error)
{
    if (stream->collective != NULL) {
        struct collective_request request = {
            .kind = stream->collective, .bytes = stream->bytes, .gpus = 2, .nodes = 1
        };
        struct collective_result result;
        enum sim_status status = collective_time(
            device->node, &request,
            reckon->options.fabric_simgrid ? FABRIC_ENGINE_SIMGRID : FABRIC_ENGINE_FLUID, &result, error);
        if (status == SIM_OK) {
            stream->price = step_price_of_collective(device, &result);
            stream->load = (struct power_load){
                .us = result.time_us,
                .memory_watts = result.hbm_bytes * device->chip.power_hbm_byte * 1e-6 / result.time_us,
            };
        }
        return status;
    }
    struct kernel_price_machine machine = session_machine(reckon, device);
    struct kernel_price_request request = { .suite = stream->part->suite,
                                            .kernel = stream->part->kernel,
                                            .params = stream->part->params,
                                            .cache = stream->part->cache };
    struct kernel_price price;
    kernel_price_compute(&machine, &request, &price);
    if (price.status != SIM_OK) {
        return sim_fail(error, price.status, "%s", price.error);
    }
    stream->price = step_price_of_kernel(device, &price);
    stream->load = kernel_price_load(&price, &device->chip);
    return SIM_OK;
}

/* ---- played out */

/* The row's program as a graph: node by node what it costs alone, draws, and at which clock it ran. */
struct overlap_play {
    struct graph *graph;
    struct step_price *prices; /* [nodes] */
    struct power_load *loads;
    double *mhz;
};

static void add_node(struct overlap_play *play, struct graph_node node, const struct overlap_stream *stream)
{
    size_t index = play->graph->node_count;
    node.traced_start_us = -1;
    if (stream != NULL) {
        play->prices[index] = stream->price;
        play->loads[index] = stream->load;
    }
    graph_add(play->graph, &node);
}

/* One item: what the host does before it, its launch, itself. */
static void add_item(struct overlap_play *play, const struct overlap_stream *stream, uint32_t index,
                     uint64_t sequence, double launch_us)
{
    struct graph_node call = { .kind = GRAPH_HOST_OP, .launched = UINT32_MAX, .waits_for = UINT32_MAX };
    call.traced_us = fmax(stream->interval_us - launch_us, 0);
    add_node(play, call, NULL);
    struct graph_node launch = { .kind = GRAPH_HOST_LAUNCH, .waits_for = UINT32_MAX, .traced_us = -1 };
    launch.launched = (uint32_t)play->graph->node_count + 1;
    add_node(play, launch, NULL);
    struct graph_node item = { .kind = stream->collective != NULL ? GRAPH_COLLECTIVE : GRAPH_KERNEL,
                               .stream = index,
                               .name = "item",
                               .category = "other",
                               .launched = UINT32_MAX,
                               .waits_for = UINT32_MAX,
                               .traced_us = -1 };
    if (stream->collective != NULL) {
        item.collective = graph_add_collective(play->graph);
        snprintf(item.collective->kind, sizeof item.collective->kind, "%s", stream->collective);
        item.collective->sequence = sequence;
        item.collective->group_size = 2;
    }
    add_node(play, item, stream);
}

/* All of the first stream is launched before the second, as the programs do; then the host waits for both, so that
 * successive steps of the schedule do not meet. The other rank does the same and is not played. */
static void play_init(struct overlap_play *play, const struct reckon_device *device,
                      const struct overlap_stream *streams, size_t stream_count)
{
    size_t nodes = 1;
    for (size_t s = 0; s < stream_count; s++) {
        nodes += 3 * (size_t)streams[s].count;
    }
    *play = (struct overlap_play){ .graph = graph_create("overlap"),
                                   .prices = calloc(nodes, sizeof *play->prices),
                                   .loads = calloc(nodes, sizeof *play->loads),
                                   .mhz = calloc(nodes, sizeof *play->mhz) };
    SIM_ASSERT(play->prices != NULL && play->loads != NULL && play->mhz != NULL, "no memory for %zu nodes",
               nodes);
    play->graph->rank_count = 1;
    play->graph->world_size = 2;
    for (size_t s = 0; s < stream_count; s++) {
        for (uint32_t i = 0; i < streams[s].count; i++) {
            add_item(play, &streams[s], (uint32_t)s, i, device->host.launch_us);
        }
    }
    struct graph_node sync = { .kind = GRAPH_HOST_SYNC,
                               .sync = GRAPH_SYNC_DEVICE,
                               .launched = UINT32_MAX,
                               .waits_for = UINT32_MAX,
                               .traced_us = -1 };
    add_node(play, sync, NULL);
    for (size_t i = 0; i < nodes; i++) {
        play->mhz[i] = device->chip.clock_core_max;
    }
}

static void play_finish(struct overlap_play *play)
{
    graph_destroy(play->graph);
    free(play->prices);
    free(play->loads);
    free(play->mhz);
}

static enum sim_status play_once(const struct overlap_play *play, const struct reckon_device *device,
                                 struct step_timeline **timeline, struct sim_error *error)
{
    const struct host_profile *host = &device->host;
    struct step_host_costs costs = { .operator_us = host->operator_us,
                                     .launch_us = host->launch_us,
                                     .event_us = host->event_us,
                                     .start_us = host->start_us,
                                     .queue_depth = host->queue_depth,
                                     .traced_operators = true };
    struct step_options options = { .stream_gap_us = device->chip.launch_stream_gap,
                                    .synchronise_each_step = true };
    return step_schedule(play->graph, play->prices, &costs, &options, timeline, error);
}

/* Schedule and governor in turn until they agree, as in predict.c. */
#define CLOCK_ROUNDS 4
#define CLOCK_AGREES 0.001

static enum sim_status play(const struct reckon_device *device, const struct overlap_stream *streams,
                            size_t stream_count, bool is_sustained, double *us, struct sim_error *error)
{
    const struct chip_profile *chip = &device->chip;
    struct overlap_play row;
    struct step_timeline *timeline = NULL;
    play_init(&row, device, streams, stream_count);
    enum sim_status status = play_once(&row, device, &timeline, error);
    for (int round = 0; status == SIM_OK && is_sustained && round < CLOCK_ROUNDS; round++) {
        double before = timeline->first_step_ms;
        struct step_clock_rank rank;
        step_clock_solve(row.graph, timeline, chip, row.loads, row.mhz, &rank);
        for (size_t i = 0; i < row.graph->node_count; i++) {
            if (row.loads[i].us > 0) {
                row.prices[i].us = power_load_us(&row.loads[i], chip, row.mhz[i]);
            }
        }
        step_timeline_destroy(timeline);
        timeline = NULL;
        status = play_once(&row, device, &timeline, error);
        if (status == SIM_OK && fabs(timeline->first_step_ms / before - 1) < CLOCK_AGREES) {
            break;
        }
    }
    *us = status == SIM_OK ? timeline->first_step_ms * 1e3 : NAN;
    step_timeline_destroy(timeline);
    play_finish(&row);
    return status;
}

/* Does the program repeat the row for longer than the board averages its power? Then its clock is that of the steady state;
 * else it is over before the board has seen it. */
static bool outlasts_the_limit(const struct harness_profile *harness, const char *suite, const char *kernel,
                               const struct chip_profile *chip, double us)
{
    const struct harness_coverage *coverage = harness_covers(harness, suite, kernel, NULL);
    return coverage != NULL && coverage->loop.calls * (us + coverage->loop.between_us) > chip->power_limit_window * 1e3;
}

enum sim_status overlap_row_time(const struct reckon *reckon, const struct reckon_device *device,
                                 const char *suite, const char *kernel, const char *params,
                                 const struct harness_profile *harness, struct overlap_times *times,
                                 struct sim_error *error)
{
    struct overlap_stream streams[STREAMS] = { { 0 } };
    double floor_us = harness_floor_us(harness, &device->chip);
    bool is_sustained = false;
    enum sim_status status = streams_of(device, suite, kernel, params, harness, streams, error);
    for (size_t s = 0; status == SIM_OK && s < STREAMS; s++) {
        status = price_stream(reckon, device, &streams[s], error);
    }
    if (status == SIM_OK) {
        status = play(device, streams, STREAMS, false, &times->together_us, error);
        is_sustained = outlasts_the_limit(harness, suite, kernel, &device->chip, times->together_us);
    }
    if (status == SIM_OK && is_sustained) {
        status = play(device, streams, STREAMS, true, &times->together_us, error);
    }
    if (status == SIM_OK) {
        status = play(device, &streams[0], 1, is_sustained, &times->first_alone_us, error);
    }
    if (status == SIM_OK) {
        status = play(device, &streams[1], 1, is_sustained, &times->second_alone_us, error);
    }
    times->together_us += floor_us;
    times->first_alone_us += floor_us;
    times->second_alone_us += floor_us;
    return status;
}
