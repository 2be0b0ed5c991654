#include "sim/step/input_verdict.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOUBTFUL_SHARE 0.8  /* below this share of understood GPU time a step time is given with a warning */
#define INFLATED_HOST 1.5   /* profilers that record shapes and stacks slow the host by more */

/* Weight of a node: its traced time, or the predicted one where nothing was timed. */
static void weigh(const struct graph *graph, const struct input_share *shares, size_t count, struct reckon_input *out)
{
    double weights[RECKON_PRICED_KINDS] = { 0 }, all = 0;
    bool timed = false;
    for (size_t i = 0; i < count; i++) {
        timed = timed || shares[i].node->traced_us > 0;
    }
    timed = timed && !graph->ideal_issue;
    for (size_t i = 0; i < count; i++) {
        double us = timed ? shares[i].node->traced_us : shares[i].us;
        weights[shares[i].priced] += us;
        all += us;
        out->untimed_count += shares[i].priced == RECKON_PRICED_REPLAYED && shares[i].node->traced_us <= 0;
    }
    out->gpu_events = count;
    out->program_share = all > 0 ? weights[RECKON_PRICED_PROGRAM] / all : 0;
    out->fabric_share = all > 0 ? weights[RECKON_PRICED_FABRIC] / all : 0;
    out->bytes_share = all > 0 ? weights[RECKON_PRICED_BYTES] / all : 0;
    out->replayed_share = all > 0 ? weights[RECKON_PRICED_REPLAYED] / all : 0;
}

/* ---- waiting in collectives ------------------------------------------------------------------------------------ */

struct span {
    double start_us, end_us;
};

static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return x->start_us < y->start_us ? -1 : x->start_us > y->start_us;
}

static double union_us(struct span *spans, size_t count)
{
    double covered = 0, until = -INFINITY;
    if (count > 0) {
        qsort(spans, count, sizeof *spans, by_start);
    }
    for (size_t i = 0; i < count; i++) {
        covered += fmax(spans[i].end_us - fmax(until, spans[i].start_us), 0);
        until = fmax(until, spans[i].end_us);
    }
    return covered;
}

/* The recorded collective's waiting; of one rank, what it lasts beyond the fabric's time. */
static double wait_us(const struct input_share *share, bool by_ranks)
{
    if (share->node->kind != GRAPH_COLLECTIVE) {
        return 0;
    }
    bool by_fabric = !by_ranks && share->priced == RECKON_PRICED_FABRIC;
    return by_ranks ? share->node->traced_wait_us : by_fabric ? fmax(share->node->traced_us - share->us, 0) : 0;
}

/* A wait comes first: the data moves once the last rank is there. */
static void measure_waits(const struct graph *graph, const struct input_share *shares, size_t count, bool traced_here,
                          struct reckon_input *out)
{
    struct span *all = calloc(count + 1, sizeof *all), *moving = calloc(count + 1, sizeof *moving);
    double waiting_us = 0;
    size_t collectives = 0;
    SIM_ASSERT(all != NULL && moving != NULL, "no memory for %zu spans", count);
    out->wait_by_ranks = graph->rank_count > 1;
    for (uint32_t rank = 0; rank < graph->rank_count; rank++) {
        size_t used = 0;
        for (size_t i = 0; i < count; i++) {
            const struct graph_node *node = shares[i].node;
            if (node->rank != rank || node->traced_start_us < 0 || !(node->traced_us >= 0)) {
                continue;
            }
            double end_us = node->traced_start_us + node->traced_us + node->traced_wait_us;
            all[used] = (struct span){ node->traced_start_us, end_us };
            moving[used++] = (struct span){ node->traced_start_us + wait_us(&shares[i], out->wait_by_ranks), end_us };
            collectives += node->kind == GRAPH_COLLECTIVE;
        }
        waiting_us += union_us(all, used) - union_us(moving, used);
    }
    free(all);
    free(moving);
    bool known = collectives > 0 && !graph->ideal_issue && (out->wait_by_ranks || traced_here);
    out->traced_wait_ms = known ? waiting_us * 1e-3 / graph->rank_count : NAN;
}

/* ---- the host -------------------------------------------------------------------------------------------------- */

static double traced_host_ms(const struct graph *graph)
{
    double us = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        bool waits = node->kind == GRAPH_HOST_SYNC;
        us += graph_is_host(node) && !waits && node->traced_us > 0 ? node->traced_us : 0;
    }
    return us * 1e-3 / graph->rank_count;
}

static void judge(const struct graph *graph, bool traced_here, struct reckon_input *out)
{
    double understood = 1 - out->replayed_share;
    out->enough = true;
    if (graph->ideal_issue && out->replayed_share > 0) {
        snprintf(out->verdict, sizeof out->verdict, "usable: %.0f%% of the GPU time is stated by the input and not scaled to the device",
                 100 * out->replayed_share);
    } else if (understood < RECKON_UNDERSTOOD_SHARE && !traced_here) {
        out->enough = false;
        snprintf(out->verdict, sizeof out->verdict,
                 "not enough is understood: %.0f%% of the GPU time could only be replayed as recorded; a step time is given from %.0f%% understood",
                 100 * out->replayed_share, 100 * RECKON_UNDERSTOOD_SHARE);
    } else if (understood < RECKON_UNDERSTOOD_SHARE) {
        snprintf(out->verdict, sizeof out->verdict,
                 "usable on the device it was recorded on: %.0f%% of the GPU time is replayed as recorded", 100 * out->replayed_share);
    } else if (understood < DOUBTFUL_SHARE) {
        snprintf(out->verdict, sizeof out->verdict, "usable with doubt: %.0f%% of the GPU time is replayed as recorded",
                 100 * out->replayed_share);
    } else {
        snprintf(out->verdict, sizeof out->verdict, "usable");
    }
    if (out->enough && out->untimed_count > 0) {
        size_t used = strlen(out->verdict);
        snprintf(out->verdict + used, sizeof out->verdict - used, "; %zu kernel%s with neither time nor shapes count%s as 0",
                 out->untimed_count, out->untimed_count == 1 ? "" : "s", out->untimed_count == 1 ? "s" : "");
    }
}

void input_verdict_fill(const struct graph *graph, const struct input_share *shares, size_t count, bool traced_here,
                        double host_ms, struct reckon_input *out)
{
    *out = (struct reckon_input){ .known = true,
                                  .ranks = graph->rank_count,
                                  .world_size = graph->world_size,
                                  .steps = graph->steps_in_trace,
                                  .host_inflation = NAN };
    for (uint32_t r = 0; graph->ranks != NULL && r < graph->rank_count; r++) {
        out->streams = graph->ranks[r].stream_count > out->streams ? graph->ranks[r].stream_count : out->streams;
        out->traced_step_ms = fmax(out->traced_step_ms, graph->ranks[r].traced_step_us * 1e-3);
        out->traced_busy_ms += graph->ranks[r].traced_busy_us * 1e-3 / graph->rank_count;
        out->traced_kernel_ms += graph->ranks[r].traced_kernel_us * 1e-3 / graph->rank_count;
    }
    weigh(graph, shares, count, out);
    measure_waits(graph, shares, count, traced_here, out);
    double host = traced_host_ms(graph);
    if (host > 0 && host_ms > 0 && !graph->ideal_issue) {
        out->host_inflation = host / host_ms;
    }
    out->host_inflated = out->host_inflation > INFLATED_HOST;
    judge(graph, traced_here, out);
}
