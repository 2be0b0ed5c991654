#include "sim/chiplet/grid_work.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sim/core/hash.h"
#include "sim/core/status.h"

#define CALLS_PROBED 4000u  /* for each die, to see whether workgroups differ at all */
#define CALLS_MOST 1000000u /* about 30 ms */
#define PROBED 64u          /* workgroups of each die, at most */
#define MATTERS 0.01        /* of a die's share */
#define STANDARD_ERRORS 3.0 /* that a share must be off by to be believed */

struct sums {
    double units, squares;
    uint64_t count, calls;
    bool waves_alike; /* of every workgroup walked */
};

static double units_of_wave(const struct wave_program *program, uint64_t workgroup, uint32_t wave, uint64_t *calls)
{
    const struct wave_window window = { .trip_limit = UINT64_MAX };
    struct wave_state state = { .workgroup = workgroup, .wave = wave };
    struct wave_op op;
    double units = 0;
    do {
        memset(&op, 0, offsetof(struct wave_op, spans));
        op.wait_outstanding = WAVE_NO_WAIT;
        program->next(program, &window, &state, &op);
        units += op.work_units;
        (*calls)++;
    } while (op.kind != WAVE_END);
    return units;
}

/* Of one in `stride` of the die's workgroups, the first `waves` of each, until `calls_most`; the pick within a stride has no period. */
static struct sums walk(const struct wave_program *program, uint32_t die, uint32_t dies, uint64_t stride, uint32_t waves,
                        uint64_t calls_most)
{
    struct sums sums = { .waves_alike = true };
    uint64_t all = (program->workgroups - die + dies - 1) / dies;
    for (uint64_t first = 0; first < all && sums.calls < calls_most; first += stride) {
        uint64_t turn = first + (stride > 1 ? hash64_mix(first) % stride : 0);
        if (turn >= all) {
            break;
        }
        double units = 0;
        for (uint32_t w = 0; w < waves; w++) {
            double own = units_of_wave(program, die + turn * dies, w, &sums.calls);
            sums.waves_alike = sums.waves_alike && (w == 0 || own * w == units);
            units += own;
        }
        sums.units += units;
        sums.squares += units * units;
        sums.count++;
    }
    return sums;
}

static double variance_of(const struct sums *sums)
{
    double mean = sums->units / (double)sums->count;
    return fmax(sums->squares / (double)sums->count - mean * mean, 0);
}

static void walk_all(struct grid_work *work, const struct wave_program *program, uint32_t waves, double *units)
{
    uint64_t calls = 0;
    work->units = malloc(program->workgroups * sizeof *work->units);
    SIM_ASSERT(work->units != NULL, "no memory for %llu workgroups", (unsigned long long)program->workgroups);
    for (uint64_t n = 0; n < program->workgroups; n++) {
        double own = 0;
        for (uint32_t w = 0; w < waves; w++) {
            own += units_of_wave(program, n, w, &calls);
        }
        own *= (double)program->waves_per_workgroup / waves;
        work->units[n] = (float)own;
        work->longest = own > (double)work->units[work->longest] ? n : work->longest;
        units[n % work->dies] += own;
    }
}

/* Relative standard error of the die that is known worst. */
static double walk_some(const struct grid_work *work, const struct wave_program *program, uint32_t waves, uint64_t stride, double *units)
{
    double worst = 0;
    for (uint32_t d = 0; d < work->dies; d++) {
        struct sums sums = walk(program, d, work->dies, stride, waves, UINT64_MAX);
        double per_workgroup = sums.units / (double)sums.count;
        units[d] = per_workgroup * (double)((program->workgroups - d + work->dies - 1) / work->dies);
        worst = per_workgroup > 0 ? fmax(worst, sqrt(variance_of(&sums) / (double)sums.count) / per_workgroup) : worst;
    }
    return worst;
}

struct grid_work grid_work_of(const struct wave_program *program, uint32_t dies)
{
    SIM_ASSERT(dies > 0 && dies <= GRID_DIES_MAX, "%u dies", dies);
    struct grid_work work = { .dies = dies, .workgroups = program->workgroups };
    for (uint32_t d = 0; d < dies; d++) {
        work.share[d] = 1;
    }
    if (program->workgroups < (uint64_t)dies * PROBED) {
        return work;
    }
    uint32_t waves = program->waves_per_workgroup;
    struct sums probe = walk(program, 0, 1, program->workgroups / (PROBED * dies), waves, CALLS_PROBED * dies);
    double mean = probe.units / (double)probe.count;
    work.variation = mean > 0 ? sqrt(variance_of(&probe)) / mean : 0;
    if (work.variation <= GRID_UNLIKE) {
        return work;
    }
    double calls = (double)probe.calls / (double)probe.count * (double)program->workgroups;
    if (probe.waves_alike) {
        calls /= waves;
        waves = 1;
    }
    double units[GRID_DIES_MAX] = { 0 };
    double total = 0;
    double error = 0;
    if (calls <= CALLS_MOST) {
        walk_all(&work, program, waves, units);
    } else {
        error = walk_some(&work, program, waves, (uint64_t)ceil(calls / CALLS_MOST), units);
    }
    double most = 0;
    for (uint32_t d = 0; d < dies; d++) {
        total += units[d];
        most = fmax(most, units[d]);
    }
    if (most * dies / total - 1 > fmax(MATTERS, STANDARD_ERRORS * error)) {
        for (uint32_t d = 0; d < dies; d++) {
            work.share[d] = units[d] * dies / total;
        }
    }
    return work;
}

void grid_work_finish(struct grid_work *work)
{
    free(work->units);
    work->units = NULL;
}

/* ---- dealing out: units share their pace among the workgroups on them */

struct unit_state {
    double now;       /* up to which its workgroups have run */
    double next;      /* when the first of them ends */
    uint32_t running;
    double left[GRID_RESIDENT_MAX]; /* work units */
};

static double pace(const struct grid_slots *slots, uint32_t running)
{
    return fmin(slots->alone, (double)slots->resident / running);
}

static void foresee(struct unit_state *unit, const struct grid_slots *slots)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < unit->running; i++) {
        least = fmin(least, unit->left[i]);
    }
    unit->next = unit->running > 0 ? unit->now + least / pace(slots, unit->running) : INFINITY;
}

static void run_until(struct unit_state *unit, const struct grid_slots *slots, double time)
{
    double done = (time - unit->now) * pace(slots, unit->running);
    for (uint32_t i = 0; i < unit->running; i++) {
        unit->left[i] -= done;
    }
    unit->now = time;
}

static struct unit_state *first_to_end(struct unit_state *units, uint32_t count)
{
    struct unit_state *first = units;
    for (uint32_t u = 1; u < count; u++) {
        first = units[u].next < first->next ? &units[u] : first;
    }
    return first;
}

/* When the die's last workgroup ends, in work units of a slot at its pace among the usual number. */
static double die_end(const struct grid_work *work, uint32_t die, const struct grid_slots *slots)
{
    struct unit_state *units = calloc(slots->units, sizeof *units);
    SIM_ASSERT(units != NULL, "no memory for %u units", slots->units);
    uint64_t at = die;
    for (uint32_t i = 0; i < slots->units * slots->resident && at < work->workgroups; i++, at += work->dies) {
        struct unit_state *unit = &units[i % slots->units];
        unit->left[unit->running++] = (double)work->units[at];
    }
    for (uint32_t u = 0; u < slots->units; u++) {
        foresee(&units[u], slots);
    }
    double end = 0;
    for (;;) {
        struct unit_state *unit = first_to_end(units, slots->units);
        if (!isfinite(unit->next)) {
            break;
        }
        end = unit->next;
        run_until(unit, slots, unit->next);
        for (uint32_t i = 0; i < unit->running; i++) {
            while (i < unit->running && unit->left[i] <= 1e-9) {
                if (at < work->workgroups) {
                    unit->left[i] = (double)work->units[at];
                    at += work->dies;
                } else {
                    unit->left[i] = unit->left[--unit->running];
                }
            }
        }
        foresee(unit, slots);
    }
    free(units);
    return end;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double grid_work_stretch(const struct grid_work *work, const struct grid_slots *slots)
{
    SIM_ASSERT(slots->resident > 0 && slots->resident <= GRID_RESIDENT_MAX, "%u workgroups on a unit", slots->resident);
    double end[GRID_DIES_MAX];
    memcpy(end, work->share, sizeof end);
    if (work->units != NULL) {
        double total = 0;
        for (uint64_t n = 0; n < work->workgroups; n++) {
            total += (double)work->units[n];
        }
        double even = total / ((double)work->dies * slots->units * slots->resident);
        for (uint32_t d = 0; d < work->dies; d++) {
            end[d] = die_end(work, d, slots) / even;
        }
    }
    qsort(end, work->dies, sizeof *end, ascending);
    double time = 0;
    double done = 0;
    for (uint32_t k = 0; k < work->dies; k++) {
        time += (end[k] - done) / fmin(slots->die_alone, (double)work->dies / (work->dies - k));
        done = end[k];
    }
    return fmax(time, 1);
}
