/* See sim/reckon.h. Samples are played in forked processes: their parts come back through shared memory, one line a sample, in
 * whatever order they end; quantiles do not depend on it. */
#include "sim/reckon.h"
#include "sim/core/stats.h"
#include "sim/step/parallel.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LOW_SHARE 0.1
#define HIGH_SHARE 0.9

/* The parts of one device's answer: its categories, then its kernels. `values`: [sample_capacity][part_count], NAN where a
 * sample lacks the part. */
struct parts {
    struct reckon_prediction *answer; /* at the profile's own values; borrowed */
    size_t part_count;
    size_t *by_key; /* [kernel_count]: the answer's kernels by key */
    double *values; /* shared */
};

struct reckon_part_samples {
    size_t device_count;
    uint32_t sample_capacity;
    struct parts *parts;
    _Atomic uint32_t *taken; /* [device_count]: lines filled; shared */
};

/* ---- a sample's parts ------------------------------------------------------------------------------------------- */

/* The kernel of the answer that has this key alone, or kernel_count. */
static size_t kernel_of_key(const struct parts *parts, const char *key)
{
    const struct reckon_prediction *answer = parts->answer;
    size_t low = 0, high = answer->kernel_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(answer->kernels[parts->by_key[middle]].key, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < answer->kernel_count && strcmp(answer->kernels[parts->by_key[low]].key, key) == 0;
    bool shared = found && low + 1 < answer->kernel_count && strcmp(answer->kernels[parts->by_key[low + 1]].key, key) == 0;
    return found && !shared ? parts->by_key[low] : answer->kernel_count;
}

static void fill_line(const struct parts *parts, const struct reckon_prediction *sample, double *line)
{
    const struct reckon_prediction *answer = parts->answer;
    for (size_t i = 0; i < parts->part_count; i++) {
        line[i] = NAN;
    }
    for (size_t c = 0; c < answer->category_count; c++) {
        for (size_t k = 0; k < sample->category_count; k++) {
            if (strcmp(sample->categories[k].name, answer->categories[c].name) == 0) {
                line[c] = sample->categories[k].ms;
            }
        }
    }
    for (size_t k = 0; k < sample->kernel_count; k++) {
        size_t own = kernel_of_key(parts, sample->kernels[k].key);
        if (own < answer->kernel_count) {
            double *ms = &line[answer->category_count + own];
            *ms = isnan(*ms) ? sample->kernels[k].ms : *ms + sample->kernels[k].ms;
        }
    }
}

/* The answer itself, asked again: no sample of it. */
static bool is_answer(const struct reckon_prediction *answer, const struct reckon_prediction *other)
{
    bool same = answer->step_ms == other->step_ms && answer->category_count == other->category_count;
    for (size_t c = 0; same && c < answer->category_count; c++) {
        same = answer->categories[c].ms == other->categories[c].ms;
    }
    return same;
}

static void take(void *context, const struct reckon_prediction *sample)
{
    const struct reckon_part_samples *samples = context;
    for (size_t d = 0; d < samples->device_count; d++) {
        const struct parts *parts = &samples->parts[d];
        if (strcmp(parts->answer->device, sample->device) != 0 || is_answer(parts->answer, sample)) {
            continue;
        }
        uint32_t line = atomic_fetch_add(&samples->taken[d], 1);
        SIM_ASSERT(line < samples->sample_capacity, "%u samples of %u", line + 1, samples->sample_capacity);
        fill_line(parts, sample, parts->values + (size_t)line * parts->part_count);
    }
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* Of one part; NAN where fewer than half of the samples have it. Without any sample unlike the answer it is sure. */
static void interval_of(const struct parts *parts, uint32_t lines, size_t part, double nominal, double *low, double *high)
{
    double *sorted = malloc((lines + 1) * sizeof *sorted);
    size_t count = 0;
    SIM_ASSERT(sorted != NULL, "no memory for %u samples", lines);
    for (uint32_t s = 0; s < lines; s++) {
        double ms = parts->values[(size_t)s * parts->part_count + part];
        if (!isnan(ms)) {
            sorted[count++] = ms;
        }
    }
    *low = *high = lines == 0 ? nominal : NAN;
    if (count > 0 && 2 * count >= lines) {
        stats_sort(sorted, count);
        *low = stats_quantile_sorted(sorted, count, LOW_SHARE);
        *high = stats_quantile_sorted(sorted, count, HIGH_SHARE);
    }
    free(sorted);
}

void reckon_part_samples_conclude(struct reckon_part_samples *samples)
{
    for (size_t d = 0; d < samples->device_count; d++) {
        const struct parts *parts = &samples->parts[d];
        struct reckon_prediction *answer = parts->answer;
        uint32_t lines = atomic_load(&samples->taken[d]);
        answer->parts_have_intervals = true;
        for (size_t c = 0; c < answer->category_count; c++) {
            struct reckon_category *category = &answer->categories[c];
            interval_of(parts, lines, c, category->ms, &category->ms_low, &category->ms_high);
        }
        for (size_t k = 0; k < answer->kernel_count; k++) {
            struct reckon_kernel_row *row = &answer->kernels[k];
            interval_of(parts, lines, answer->category_count + k, row->ms, &row->ms_low, &row->ms_high);
        }
    }
}

static const struct reckon_kernel_row *sorting; /* of by_row_key: qsort hands no context over */

static int by_row_key(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int order = strcmp(sorting[x].key, sorting[y].key);
    return order != 0 ? order : (x > y) - (x < y);
}

struct reckon_part_samples *reckon_part_samples_create(struct reckon_prediction *const *answers, size_t device_count,
                                                       uint32_t sample_count, struct reckon_predict_request *request)
{
    struct reckon_part_samples *samples = calloc(1, sizeof *samples);
    SIM_ASSERT(samples != NULL, "no memory for samples");
    samples->device_count = device_count;
    samples->sample_capacity = sample_count + 1; /* the answer asked again may differ in what is not compared */
    samples->parts = calloc(device_count + 1, sizeof *samples->parts);
    samples->taken = parallel_share(device_count * sizeof *samples->taken);
    SIM_ASSERT(samples->parts != NULL && samples->taken != NULL, "no memory for samples of %zu devices", device_count);
    for (size_t d = 0; d < device_count; d++) {
        struct parts *parts = &samples->parts[d];
        parts->answer = answers[d];
        parts->part_count = answers[d]->category_count + answers[d]->kernel_count;
        parts->by_key = malloc((answers[d]->kernel_count + 1) * sizeof *parts->by_key);
        parts->values = parallel_share((size_t)samples->sample_capacity * (parts->part_count + 1) * sizeof(double));
        SIM_ASSERT(parts->by_key != NULL && parts->values != NULL, "no memory for samples of %zu parts", parts->part_count);
        for (size_t k = 0; k < answers[d]->kernel_count; k++) {
            parts->by_key[k] = k;
        }
        sorting = answers[d]->kernels;
        if (answers[d]->kernel_count > 0) {
            qsort(parts->by_key, answers[d]->kernel_count, sizeof *parts->by_key, by_row_key);
        }
    }
    request->played = take;
    request->played_context = samples;
    return samples;
}

void reckon_part_samples_free(struct reckon_part_samples *samples, struct reckon_predict_request *request)
{
    if (samples == NULL) {
        return;
    }
    request->played = NULL;
    request->played_context = NULL;
    for (size_t d = 0; d < samples->device_count; d++) {
        const struct parts *parts = &samples->parts[d];
        free(parts->by_key);
        parallel_unshare(parts->values, (size_t)samples->sample_capacity * (parts->part_count + 1) * sizeof(double));
    }
    parallel_unshare(samples->taken, samples->device_count * sizeof *samples->taken);
    free(samples->parts);
    free(samples);
}
