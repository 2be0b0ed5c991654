#include "sim/step/step_clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct span { /* of one node on one device, within [0, step) */
    double start_us, end_us;
    uint32_t node;
};

struct stretch { /* between two starts or ends: the same nodes run */
    struct power_load load;
    uint32_t first, count; /* in `members` */
    struct power_run run;
};

struct device_step {
    struct span *spans;
    size_t span_count;
    double *cuts;
    size_t cut_count;
    struct stretch *stretches;
    size_t stretch_count;
    uint32_t *members;
    size_t member_count, member_capacity;
};

static void *grown(void *memory, size_t count, size_t size)
{
    void *bigger = realloc(memory, (count + 1) * size);
    SIM_ASSERT(bigger != NULL, "no memory for %zu spans of a step", count);
    return bigger;
}

static void span_add(struct device_step *device, double start, double end, uint32_t node)
{
    if (end > start) {
        device->spans[device->span_count++] = (struct span){ start, end, node };
        device->cuts[device->cut_count++] = start;
        device->cuts[device->cut_count++] = end;
    }
}

/* Spans of the rank's nodes; what outlasts the step goes on at the start of the next. */
static void spans_of(struct device_step *device, const struct graph *graph,
                     const struct step_timeline *timeline, const struct power_load *loads, uint32_t rank,
                     double step_us)
{
    device->span_count = device->cut_count = 0;
    device->cuts[device->cut_count++] = 0;
    device->cuts[device->cut_count++] = step_us;
    for (size_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].rank != rank || loads[i].us <= 0 || timeline->start_us[i] < 0) {
            continue;
        }
        double start = fmod(timeline->start_us[i], step_us);
        double end = start + fmin(timeline->end_us[i] - timeline->start_us[i], step_us);
        span_add(device, start, fmin(end, step_us), (uint32_t)i);
        span_add(device, 0, end - step_us, (uint32_t)i);
    }
}

static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return x->start_us != y->start_us ? (x->start_us < y->start_us ? -1 : 1) : (x->node > y->node) - (x->node < y->node);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What runs in [start, end): energies spread over the node's own time there, brought to clock.core_max. */
static void stretch_fill(struct stretch *stretch, const struct device_step *device, double us,
                         const struct step_timeline *timeline, const struct chip_profile *chip,
                         const struct power_load *loads, const double *mhz)
{
    double core = 0, memory = 0, pull = 0, weight = 0, factor = 1;
    for (uint32_t m = 0; m < stretch->count; m++) {
        uint32_t i = device->members[stretch->first + m];
        double ran_us = timeline->end_us[i] - timeline->start_us[i];
        double part = loads[i].us * us / ran_us; /* of the load's time at the highest clock */
        double heavy = part * (loads[i].core_watts + 1e-9);
        core += part * loads[i].core_watts;
        memory += part * loads[i].memory_watts;
        pull += heavy * loads[i].exponent;
        factor += heavy * (pow(mhz[i] / chip->clock_core_max, loads[i].exponent) - 1);
        weight += heavy;
    }
    if (weight > 0) {
        factor = 1 + (factor - 1) / weight;
    }
    double at_max_us = us * factor;
    stretch->load = (struct power_load){ .us = at_max_us,
                                         .core_watts = core / at_max_us,
                                         .memory_watts = memory / at_max_us,
                                         .exponent = weight > 0 ? pull / weight : 0 };
}

static void stretches_of(struct device_step *device, const struct step_timeline *timeline,
                         const struct chip_profile *chip, const struct power_load *loads, const double *mhz)
{
    size_t open = 0; /* spans before it have ended by now */
    device->stretch_count = device->member_count = 0;
    qsort(device->spans, device->span_count, sizeof device->spans[0], by_start);
    qsort(device->cuts, device->cut_count, sizeof device->cuts[0], by_value);
    for (size_t c = 0; c + 1 < device->cut_count; c++) {
        double start = device->cuts[c], end = device->cuts[c + 1];
        if (end <= start) {
            continue;
        }
        struct stretch *stretch = &device->stretches[device->stretch_count++];
        *stretch = (struct stretch){ .first = (uint32_t)device->member_count };
        while (open < device->span_count && device->spans[open].end_us <= start) {
            open++;
        }
        for (size_t s = open; s < device->span_count && device->spans[s].start_us < end; s++) {
            if (device->spans[s].end_us <= start) {
                continue;
            }
            if (device->member_count == device->member_capacity) {
                device->member_capacity = 2 * device->member_capacity + 64;
                device->members = grown(device->members, device->member_capacity, sizeof device->members[0]);
            }
            device->members[device->member_count++] = device->spans[s].node;
            stretch->count++;
        }
        stretch_fill(stretch, device, end - start, timeline, chip, loads, mhz);
    }
}

static void govern(struct device_step *device, const struct chip_profile *chip)
{
    struct power_load *loads = grown(NULL, device->stretch_count, sizeof *loads);
    struct power_run *runs = grown(NULL, device->stretch_count, sizeof *runs);
    struct power_governor governor;
    for (size_t s = 0; s < device->stretch_count; s++) {
        loads[s] = device->stretches[s].load;
    }
    power_governor_init(&governor, chip, true);
    power_governor_settle(&governor, loads, device->stretch_count, runs);
    for (size_t s = 0; s < device->stretch_count; s++) {
        device->stretches[s].run = runs[s];
    }
    free(loads);
    free(runs);
}

/* A node's clock: the mean over the stretches it runs in, by time. */
static void clocks_out(const struct device_step *device, const struct chip_profile *chip, double *mhz,
                       double *time_us, struct step_clock_rank *rank)
{
    double busy = 0, busy_mhz = 0, all = 0, watts = 0;
    for (size_t s = 0; s < device->stretch_count; s++) {
        const struct stretch *stretch = &device->stretches[s];
        for (uint32_t m = 0; m < stretch->count; m++) {
            uint32_t i = device->members[stretch->first + m];
            mhz[i] = time_us[i] > 0 ? mhz[i] : 0;
            time_us[i] += stretch->run.us;
            mhz[i] += (stretch->run.mhz - mhz[i]) * stretch->run.us / time_us[i];
        }
        all += stretch->run.us;
        watts += stretch->run.us * stretch->run.watts;
        busy += stretch->count > 0 ? stretch->run.us : 0;
        busy_mhz += stretch->count > 0 ? stretch->run.us * stretch->run.mhz : 0;
    }
    rank->mhz = busy > 0 ? busy_mhz / busy : chip->clock_core_max;
    rank->watts = all > 0 ? watts / all : chip->power_idle;
}

void step_clock_solve(const struct graph *graph, const struct step_timeline *timeline,
                      const struct chip_profile *chip, const struct power_load *loads, double *mhz,
                      struct step_clock_rank *ranks)
{
    struct device_step device = { .spans = grown(NULL, 2 * graph->node_count, sizeof *device.spans),
                                  .cuts = grown(NULL, 4 * graph->node_count + 2, sizeof *device.cuts),
                                  .stretches = grown(NULL, 4 * graph->node_count + 2, sizeof *device.stretches) };
    double *time_us = grown(NULL, graph->node_count, sizeof *time_us);
    memset(time_us, 0, (graph->node_count + 1) * sizeof *time_us);
    for (uint32_t r = 0; r < graph->rank_count; r++) {
        spans_of(&device, graph, timeline, loads, r, timeline->step_ms * 1e3);
        stretches_of(&device, timeline, chip, loads, mhz);
        govern(&device, chip);
        clocks_out(&device, chip, mhz, time_us, &ranks[r]);
    }
    free(device.spans);
    free(device.cuts);
    free(device.stretches);
    free(device.members);
    free(time_us);
}
