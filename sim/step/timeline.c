#include "sim/step/timeline.h"
#include "sim/core/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTER_BINS 500
#define EXPOSED_NAME "communication not hidden"

struct build {
    const struct graph *graph;
    const struct step_timeline *played;
    struct reckon_timeline *timeline;
    const char **known; /* [name_count], sorted by text: the names to be */
    size_t span_capacity;
};

static void *memory_of(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    SIM_ASSERT(memory != NULL, "no memory for %zu parts of a timeline", count);
    return memory;
}

static char *copy_of(const char *text)
{
    char *copy = strdup(text);
    SIM_ASSERT(copy != NULL, "no memory for a name");
    return copy;
}

/* ---- names: each once, sorted */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *name_of(const struct graph *graph, size_t i)
{
    static const char *const waits[] = { "wait for the device", "wait for a stream", "wait for an event" };
    const struct graph_node *node = &graph->nodes[i];
    const char *name = node->name != NULL ? node->name : "?";
    return node->kind == GRAPH_HOST_SYNC && node->name == NULL ? waits[node->sync <= GRAPH_SYNC_EVENT ? node->sync : 0] : name;
}

static void build_names(struct build *build)
{
    struct reckon_timeline *timeline = build->timeline;
    size_t count = 0;
    build->known = memory_of(build->graph->node_count + 1, sizeof(char *));
    for (size_t i = 0; i < build->graph->node_count; i++) {
        build->known[count++] = name_of(build->graph, i);
    }
    build->known[count++] = EXPOSED_NAME;
    qsort(build->known, count, sizeof(char *), by_text);
    timeline->names = memory_of(count, sizeof(char *));
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(build->known[i], build->known[timeline->name_count - 1]) != 0) {
            build->known[timeline->name_count] = build->known[i];
            timeline->names[timeline->name_count++] = copy_of(build->known[i]);
        }
    }
}

static uint32_t name_index(const struct build *build, const char *name)
{
    const char **found = bsearch(&name, build->known, build->timeline->name_count, sizeof(char *), by_text);
    SIM_ASSERT(found != NULL, "'%s' is no name of the timeline", name);
    return (uint32_t)(found - build->known);
}

static uint32_t category_index(struct reckon_timeline *timeline, const char *name)
{
    for (size_t c = 0; c < timeline->category_count; c++) {
        if (strcmp(timeline->categories[c], name) == 0) {
            return (uint32_t)c;
        }
    }
    timeline->categories = realloc(timeline->categories, (timeline->category_count + 1) * sizeof(char *));
    SIM_ASSERT(timeline->categories != NULL, "no memory for a category");
    timeline->categories[timeline->category_count] = copy_of(name);
    return (uint32_t)timeline->category_count++;
}

/* ---- lanes and spans */

static uint32_t lane_index(struct reckon_timeline *timeline, enum reckon_lane_kind kind, uint32_t rank, uint32_t index)
{
    for (size_t l = 0; l < timeline->lane_count; l++) {
        const struct reckon_lane *lane = &timeline->lanes[l];
        if (lane->kind == kind && lane->rank == rank && lane->index == index) {
            return (uint32_t)l;
        }
    }
    timeline->lanes = realloc(timeline->lanes, (timeline->lane_count + 1) * sizeof *timeline->lanes);
    SIM_ASSERT(timeline->lanes != NULL, "no memory for a lane");
    timeline->lanes[timeline->lane_count] = (struct reckon_lane){ kind, rank, index };
    return (uint32_t)timeline->lane_count++;
}

static void span_add(struct build *build, uint32_t lane, const char *name, const char *category, double start, double end)
{
    struct reckon_timeline *timeline = build->timeline;
    if (timeline->span_count == build->span_capacity) {
        build->span_capacity = build->span_capacity * 2 + 1024;
        timeline->spans = realloc(timeline->spans, build->span_capacity * sizeof *timeline->spans);
        SIM_ASSERT(timeline->spans != NULL, "no memory for %zu spans", build->span_capacity);
    }
    timeline->spans[timeline->span_count++] = (struct reckon_span){ lane, name_index(build, name), category_index(timeline, category),
                                                                    start, end };
    timeline->start_us = fmin(timeline->start_us, start);
    timeline->end_us = fmax(timeline->end_us, end);
}

static uint32_t rank_number(const struct graph *graph, uint32_t rank)
{
    return graph->ranks != NULL ? graph->ranks[rank].rank_id : rank;
}

static const char *host_category(const struct graph_node *node)
{
    return node->kind == GRAPH_HOST_OP ? "host operator" : node->kind == GRAPH_HOST_SYNC ? "host waits" : "host call";
}

static void build_spans(struct build *build)
{
    const struct graph *graph = build->graph;
    const struct step_timeline *played = build->played;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        uint32_t rank = rank_number(graph, node->rank);
        if (graph_is_device(node) && played->start_us[i] >= 0 && played->end_us[i] > played->start_us[i]) {
            span_add(build, lane_index(build->timeline, RECKON_LANE_STREAM, rank, node->stream), name_of(graph, i),
                     node->category != NULL ? node->category : "other", played->start_us[i], played->end_us[i]);
        } else if (graph_is_host(node) && isfinite(played->host_start_us[i]) && played->host_end_us[i] > played->host_start_us[i]) {
            /* One chain of host calls a rank, whichever threads it goes through (workloads/graph.h). */
            span_add(build, lane_index(build->timeline, RECKON_LANE_HOST, rank, 0), name_of(graph, i), host_category(node),
                     played->host_start_us[i], played->host_end_us[i]);
        }
    }
}

/* ---- communication with no kernel beside it */

struct edge {
    double at;
    int kernels, collectives; /* +1 at a start, -1 at an end */
};

static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : (x->kernels + x->collectives) - (y->kernels + y->collectives);
}

static void build_exposed(struct build *build, uint32_t rank)
{
    const struct graph *graph = build->graph;
    struct edge *edges = memory_of(2 * graph->node_count, sizeof *edges);
    size_t count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].rank == rank && graph_is_device(&graph->nodes[i]) && build->played->start_us[i] >= 0) {
            bool collective = graph->nodes[i].kind == GRAPH_COLLECTIVE;
            edges[count++] = (struct edge){ build->played->start_us[i], !collective, collective };
            edges[count++] = (struct edge){ build->played->end_us[i], -!collective, -collective };
        }
    }
    qsort(edges, count, sizeof edges[0], by_time);
    int kernels = 0, collectives = 0;
    double since = NAN;
    for (size_t i = 0; i < count; i++) {
        kernels += edges[i].kernels;
        collectives += edges[i].collectives;
        bool exposed = collectives > 0 && kernels == 0;
        if (exposed && isnan(since)) {
            since = edges[i].at;
        } else if (!exposed && !isnan(since)) {
            if (edges[i].at > since) {
                span_add(build, lane_index(build->timeline, RECKON_LANE_EXPOSED, rank_number(graph, rank), 0), EXPOSED_NAME, "collective",
                         since, edges[i].at);
            }
            since = NAN;
        }
    }
    free(edges);
}

static int lane_order(const struct reckon_lane *a, const struct reckon_lane *b)
{
    static const int places[] = { [RECKON_LANE_HOST] = 0, [RECKON_LANE_STREAM] = 1, [RECKON_LANE_EXPOSED] = 2 };
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return a->kind != b->kind ? places[a->kind] - places[b->kind] : (a->index > b->index) - (a->index < b->index);
}

static int by_lane(const void *a, const void *b)
{
    return lane_order(a, b);
}

static int by_span(const void *a, const void *b)
{
    const struct reckon_span *x = a, *y = b;
    if (x->lane != y->lane) {
        return x->lane < y->lane ? -1 : 1;
    }
    return x->start_us != y->start_us ? (x->start_us < y->start_us ? -1 : 1)
                                      : (x->end_us != y->end_us ? (x->end_us > y->end_us ? -1 : 1) : (x->name > y->name) - (x->name < y->name));
}

static void sort_lanes(struct reckon_timeline *timeline)
{
    struct reckon_lane *before = memory_of(timeline->lane_count, sizeof *before);
    uint32_t *place = memory_of(timeline->lane_count, sizeof *place);
    memcpy(before, timeline->lanes, timeline->lane_count * sizeof *before);
    qsort(timeline->lanes, timeline->lane_count, sizeof timeline->lanes[0], by_lane);
    for (size_t l = 0; l < timeline->lane_count; l++) {
        for (uint32_t n = 0; n < timeline->lane_count; n++) {
            place[l] = lane_order(&before[l], &timeline->lanes[n]) == 0 ? n : place[l];
        }
    }
    for (size_t i = 0; i < timeline->span_count; i++) {
        timeline->spans[i].lane = place[timeline->spans[i].lane];
    }
    qsort(timeline->spans, timeline->span_count, sizeof timeline->spans[0], by_span);
    free(before);
    free(place);
}

/* ---- counters: means over bins, of the first rank's device */

static void add_over(double *bins, const struct reckon_counters *counters, double start, double end, double rate)
{
    for (size_t b = 0; b < counters->count; b++) {
        double from = counters->start_us + counters->bin_us * (double)b, to = from + counters->bin_us;
        double overlap = fmin(end, to) - fmax(start, from);
        if (overlap > 0) {
            bins[b] += rate * overlap / counters->bin_us;
        }
        if (from >= end) {
            return;
        }
    }
}

static void build_counters(struct build *build, const struct step_price *prices, const struct power_load *loads, const double *mhz,
                           const struct chip_profile *chip)
{
    struct reckon_counters *counters = &build->timeline->counters;
    const struct graph *graph = build->graph;
    double *busy = memory_of(COUNTER_BINS, sizeof *busy);
    counters->count = build->timeline->end_us > build->timeline->start_us ? COUNTER_BINS : 0;
    counters->start_us = build->timeline->start_us;
    counters->bin_us = (build->timeline->end_us - build->timeline->start_us) / COUNTER_BINS;
    counters->hbm_share = memory_of(COUNTER_BINS, sizeof(double));
    counters->watts = memory_of(COUNTER_BINS, sizeof(double));
    counters->clock_mhz = memory_of(COUNTER_BINS, sizeof(double));
    for (size_t i = 0; i < graph->node_count; i++) {
        double start = build->played->start_us[i], end = build->played->end_us[i];
        if (graph->nodes[i].rank != 0 || !graph_is_device(&graph->nodes[i]) || start < 0 || end <= start) {
            continue;
        }
        add_over(counters->hbm_share, counters, start, end, prices[i].hbm_share * prices[i].us / (end - start));
        add_over(busy, counters, start, end, 1);
        add_over(counters->clock_mhz, counters, start, end, mhz[i]);
        if (loads[i].us > 0) {
            double above = power_load_watts(&loads[i], chip, mhz[i]) - chip->power_idle;
            add_over(counters->watts, counters, start, end, above * power_load_us(&loads[i], chip, mhz[i]) / (end - start));
        }
    }
    for (size_t b = 0; b < counters->count; b++) {
        counters->hbm_share[b] = fmin(counters->hbm_share[b], 1);
        counters->watts[b] += chip->power_idle;
        counters->clock_mhz[b] = busy[b] >= 1 ? counters->clock_mhz[b] / busy[b]
                                              : counters->clock_mhz[b] + (1 - busy[b]) * chip->clock_core_max;
    }
    free(busy);
}

struct reckon_timeline *timeline_of(const struct graph *graph, const struct step_timeline *played, const struct step_price *prices,
                                    const struct power_load *loads, const double *mhz, const struct chip_profile *chip)
{
    struct build build = { .graph = graph, .played = played, .timeline = memory_of(1, sizeof(struct reckon_timeline)) };
    build_names(&build);
    build_spans(&build);
    for (uint32_t r = 0; r < graph->rank_count; r++) {
        build_exposed(&build, r);
    }
    sort_lanes(build.timeline);
    build_counters(&build, prices, loads, mhz, chip);
    free(build.known);
    return build.timeline;
}

void timeline_free(struct reckon_timeline *timeline)
{
    if (timeline == NULL) {
        return;
    }
    for (size_t i = 0; i < timeline->name_count; i++) {
        free(timeline->names[i]);
    }
    for (size_t i = 0; i < timeline->category_count; i++) {
        free(timeline->categories[i]);
    }
    free(timeline->names);
    free(timeline->categories);
    free(timeline->lanes);
    free(timeline->spans);
    free(timeline->counters.hbm_share);
    free(timeline->counters.watts);
    free(timeline->counters.clock_mhz);
    free(timeline);
}

/* ---- JSON */

static struct json *texts_json(char *const *texts, size_t count)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < count; i++) {
        json_append_string(list, texts[i]);
    }
    return list;
}

static double nanoseconds(double us)
{
    return round(us * 1000) / 1000; /* what a reader can use of a time in us */
}

static struct json *numbers_json(const double *values, size_t count, double digits)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < count; i++) {
        json_append_number(list, round(values[i] * digits) / digits);
    }
    return list;
}

static void lane_text(const struct reckon_lane *lane, char *text, size_t capacity)
{
    static const char *const kinds[] = { "host", "stream", "exposed" };
    snprintf(text, capacity, lane->kind == RECKON_LANE_STREAM ? "rank %u %s %u" : "rank %u %s", lane->rank, kinds[lane->kind], lane->index);
}

struct json *reckon_timeline_json(const struct reckon_timeline *timeline)
{
    static const char *const kinds[] = { "host", "stream", "exposed" };
    struct json *object = json_new_object(), *lanes = json_new_array(), *counters = json_new_object();
    size_t at = 0;
    json_set_number(object, "start_us", nanoseconds(timeline->start_us));
    json_set_number(object, "end_us", nanoseconds(timeline->end_us));
    json_set(object, "names", texts_json(timeline->names, timeline->name_count));
    json_set(object, "categories", texts_json(timeline->categories, timeline->category_count));
    for (size_t l = 0; l < timeline->lane_count; l++) {
        struct json *lane = json_new_object(), *spans = json_new_array();
        char name[48];
        lane_text(&timeline->lanes[l], name, sizeof name);
        json_set_string(lane, "name", name);
        json_set_string(lane, "kind", kinds[timeline->lanes[l].kind]);
        json_set_integer(lane, "rank", timeline->lanes[l].rank);
        for (; at < timeline->span_count && timeline->spans[at].lane == l; at++) {
            const struct reckon_span *span = &timeline->spans[at];
            struct json *entry = json_new_array();
            json_append_number(entry, nanoseconds(span->start_us));
            json_append_number(entry, nanoseconds(span->end_us - span->start_us));
            json_append_number(entry, span->name);
            json_append_number(entry, span->category);
            json_append(spans, entry);
        }
        json_set(lane, "spans", spans);
        json_append(lanes, lane);
    }
    json_set(object, "lanes", lanes);
    json_set_number(counters, "start_us", nanoseconds(timeline->counters.start_us));
    json_set_number(counters, "bin_us", timeline->counters.bin_us);
    json_set(counters, "hbm_share", numbers_json(timeline->counters.hbm_share, timeline->counters.count, 1e4));
    json_set(counters, "watts", numbers_json(timeline->counters.watts, timeline->counters.count, 10));
    json_set(counters, "clock_mhz", numbers_json(timeline->counters.clock_mhz, timeline->counters.count, 10));
    json_set(object, "counters", counters);
    return object;
}
