#include "studies/advise_internal.h"
#include "studies/pool.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARED_PRICES 65536
#define SETTINGS_MAX 32
#define COMBINE_TRIES 12

/* 80% of a normal spread, and how far the model is from what it describes (standard deviations of logarithms, from rows that no
 * fit was held to; sim/step/doubt_values.h has the same). Two programs share half of a kernel's variance, so their ratio has
 * a kernel's own; so has a changed step against the step. */
#define SPREAD_80 1.2816
#define DOUBT_KERNEL 0.09
#define DOUBT_COLLECTIVE 0.15
#define DOUBT_STEP 0.05
#define SAMPLE_WORK 2.5e8 /* line requests and wave operations of all samples of all changes */

struct advice_record {
    uint32_t index, status;
    char reason[200];
    double step_ms, examples_per_s, program_ms, memory_gib;
    char note[160];
    uint64_t asked, found;
};

struct advising {
    struct reckon *reckon;
    struct reckon_device *device;
    const struct advise_request *request;
    struct advice_list list;
    const struct reckon_prediction *base;
    struct advice_record *records; /* [list.count] */
    size_t done;
    uint64_t asked, found;
};

/* ---- one trial */

static bool same_key(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return length == strcspn(b, "=") && strncmp(a, b, length) == 0;
}

/* The step's own settings with changes: fixes are joined, other keys replaced. */
static size_t change_settings(const struct advise_request *request, const char *const *changes, size_t change_count,
                              const char **settings, char *fixes, size_t capacity)
{
    size_t count = 0, used = 0;
    fixes[0] = '\0';
    for (size_t i = 0; i < request->setting_count + change_count; i++) {
        const char *setting = i < request->setting_count ? request->settings[i] : changes[i - request->setting_count];
        if (strncmp(setting, "fix=", 4) == 0) {
            used += (size_t)snprintf(fixes + used, capacity - used, "%s%s", used == 0 ? "fix=" : "+", setting + 4);
            SIM_ASSERT(used < capacity, "fixes of %zu bytes", used);
            continue;
        }
        size_t k = 0;
        while (k < count && !same_key(settings[k], setting)) {
            k++;
        }
        settings[k] = setting;
        count = k == count ? count + 1 : count;
    }
    if (used > 0) {
        settings[count++] = fixes;
    }
    return count;
}

static enum sim_status try_changes(const struct advising *advising, const char *const *changes, size_t change_count,
                                   struct reckon_prediction **out, struct sim_error *error)
{
    const char *settings[SETTINGS_MAX * 2];
    char fixes[1024];
    struct reckon_point_request request = { .settings = settings };
    SIM_ASSERT(advising->request->setting_count + change_count < SETTINGS_MAX, "too many settings");
    request.setting_count = change_settings(advising->request, changes, change_count, settings, fixes, sizeof fixes);
    return reckon_point(advising->reckon, advising->device, advising->request->source, &request, out, error);
}

static enum sim_status sample_changes(const struct advising *advising, const char *const *changes, size_t change_count, double work,
                                      struct reckon_doubts **out, struct sim_error *error)
{
    const char *settings[SETTINGS_MAX * 2];
    char fixes[1024];
    struct reckon_point_request request = { .settings = settings };
    request.setting_count = change_settings(advising->request, changes, change_count, settings, fixes, sizeof fixes);
    return reckon_point_doubts(advising->reckon, advising->device, advising->request->source, &request, advising->request->samples,
                               work, out, error);
}

/* What the program itself says of the change: memory it takes, or why it is left out. */
static const char *note_of(const struct reckon_prediction *prediction, const struct advice *advice, bool *left_out)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(advice->change + 4, "@"), advice->change + 4);
    *left_out = false;
    for (size_t i = 0; advice->kind != ADVICE_DESIGN && i < prediction->notes.count; i++) {
        const char *note = prediction->notes.text[i], *of = strstr(note, name);
        bool assumed = strncmp(note, "assumed for ", 12) == 0 && of != NULL && of[strlen(name)] == ':'; /* an amount, not a mention */
        bool out = strncmp(note, "fix left out", 12) == 0 || (strncmp(note, "fixes left out of ", 18) == 0 &&
                                                               strncmp(note + 18, advice->program, strlen(advice->program)) == 0);
        if (assumed || out) {
            *left_out = out;
            return assumed ? of : note;
        }
    }
    return NULL;
}

static void work_on(void *context, uint32_t task, void *out)
{
    struct advising *advising = context;
    struct advice_record *record = out;
    const struct advice *advice = &advising->list.advice[task];
    const char *change = advice->change;
    struct reckon_prediction *prediction = NULL;
    struct sim_error error = { 0 };
    struct reckon_memo_counts before = reckon_memo(advising->reckon);
    memset(record, 0, sizeof *record);
    record->index = task;
    record->status = try_changes(advising, &change, 1, &prediction, &error);
    if (record->status == SIM_OK && !isfinite(prediction->step_ms)) {
        record->status = SIM_DOES_NOT_FIT;
        snprintf(error.text, sizeof error.text, "%s", prediction->fits_known && !prediction->fits ? prediction->memory_advice
                                                                                                 : prediction->input.verdict);
    }
    snprintf(record->reason, sizeof record->reason, "%.*s", (int)sizeof record->reason - 1, error.text);
    if (record->status == SIM_OK) {
        bool left_out = false;
        const char *note = note_of(prediction, advice, &left_out);
        snprintf(left_out ? record->reason : record->note, left_out ? sizeof record->reason : sizeof record->note, "%s",
                 note != NULL ? note : "");
        record->step_ms = prediction->step_ms;
        record->examples_per_s = prediction->examples_per_s;
        record->program_ms = advise_program_ms(prediction, advice->program);
        record->memory_gib = prediction->memory_known ? prediction->memory_gib.peak : NAN;
    }
    struct reckon_memo_counts after = reckon_memo(advising->reckon);
    record->asked = after.asked - before.asked;
    record->found = after.found - before.found;
    reckon_prediction_free(prediction);
}

static enum sim_status take_record(void *context, const void *data, struct sim_error *error)
{
    struct advising *advising = context;
    const struct advice_record *record = data;
    if (record->status == SIM_NO_MEMORY) {
        return sim_fail(error, SIM_NO_MEMORY, "%s", record->reason);
    }
    advising->records[record->index] = *record;
    advising->asked += record->asked;
    advising->found += record->found;
    advising->done++;
    return SIM_OK;
}

static void be_idle(void *context)
{
    struct advising *advising = context;
    if (advising->request->progress != NULL) {
        advising->request->progress(advising->request->progress_context, "changes priced", advising->done, advising->list.count);
    }
}

/* ---- gains */

/* Time per example where the examples are known, else of the step. */
static double gain_of(const struct reckon_prediction *base, double step_ms, double examples_per_s)
{
    return isfinite(base->examples_per_s) && isfinite(examples_per_s) ? examples_per_s / base->examples_per_s - 1
                                                                      : base->step_ms / step_ms - 1;
}

/* The changed program's time is in doubt by itself; how much of that the step shows is how much of the change it showed. */
static void fill_gain(const struct reckon_prediction *base, const struct advice_record *record, struct advice *advice)
{
    advice->priced = true;
    advice->step_ms = record->step_ms;
    advice->gain = gain_of(base, record->step_ms, record->examples_per_s);
    advice->memory_gib_change = base->memory_known ? record->memory_gib - base->memory_gib.peak : NAN;
    if (advice->kind == ADVICE_DESIGN) {
        double spread = exp(SPREAD_80 * DOUBT_STEP);
        advice->gain_low = (1 + advice->gain) / spread - 1;
        advice->gain_high = (1 + advice->gain) * spread - 1;
        return;
    }
    double before_ms = advise_program_ms(base, advice->program), spread = exp(SPREAD_80 * (advice->kind == ADVICE_LEVER
                                                                                              ? DOUBT_COLLECTIVE
                                                                                              : DOUBT_KERNEL));
    double moved = before_ms - record->program_ms;
    double shown = fabs(moved) > 1e-9 ? fmin(fmax((base->step_ms - record->step_ms) / moved, 0), 1) : 0;
    double scale = (1 + advice->gain) * record->step_ms;
    advice->gain_low = scale / (record->step_ms + shown * record->program_ms * (spread - 1)) - 1;
    advice->gain_high = scale / (record->step_ms - shown * record->program_ms * (1 - 1 / spread)) - 1;
}

static int by_gain(const void *a, const void *b)
{
    const struct advice *x = a, *y = b;
    if (x->priced != y->priced) {
        return x->priced ? -1 : 1;
    }
    if (x->priced && x->gain != y->gain) {
        return x->gain > y->gain ? -1 : 1;
    }
    return strcmp(x->change, y->change);
}

static void rank(struct advising *advising)
{
    for (size_t i = 0; i < advising->list.count; i++) {
        struct advice *advice = &advising->list.advice[i];
        const struct advice_record *record = &advising->records[i];
        if (advice->refused[0] != '\0') {
            continue;
        }
        if (record->reason[0] != '\0') {
            snprintf(advice->refused, sizeof advice->refused, "%s", record->reason);
        }
        if (record->note[0] != '\0') {
            snprintf(advice->cost, sizeof advice->cost, "%s", record->note);
        }
        if (record->status == SIM_OK) {
            fill_gain(advising->base, record, advice);
        }
    }
    qsort(advising->list.advice, advising->list.count, sizeof advising->list.advice[0], by_gain);
}

/* ---- together */

static bool goes_beside(const struct advise_result *result, size_t candidate)
{
    const char *change = result->advice[candidate].change;
    for (size_t i = 0; i < result->combined_count; i++) {
        const char *other = result->advice[result->combined[i]].change;
        if (strncmp(change, "fix=", 4) != 0 && same_key(change, other)) {
            return false;
        }
    }
    return true;
}

static enum sim_status combine(struct advising *advising, struct advise_result *result, struct sim_error *error)
{
    const char *changes[ADVICE_COMBINED_MAX];
    double best_gain = 0, spread_low = 1, spread_high = 1;
    size_t tries = 0;
    result->combined_step_ms = advising->base->step_ms;
    for (size_t i = 0; i < result->count && result->combined_count < ADVICE_COMBINED_MAX && tries < COMBINE_TRIES; i++) {
        struct advice *advice = &result->advice[i];
        if (!advice->priced || advice->gain < ADVICE_WORTH || !goes_beside(result, i)) {
            continue;
        }
        struct reckon_prediction *prediction = NULL;
        struct sim_error refused = { 0 };
        changes[result->combined_count] = advice->change;
        tries++;
        enum sim_status status = try_changes(advising, changes, result->combined_count + 1, &prediction, &refused);
        if (status == SIM_NO_MEMORY) {
            return sim_fail(error, status, "%s", refused.text);
        }
        double gain = status == SIM_OK && isfinite(prediction->step_ms)
                          ? gain_of(advising->base, prediction->step_ms, prediction->examples_per_s)
                          : -1;
        if (gain > best_gain + ADVISE_COMBINE_GAIN) {
            best_gain = gain;
            result->combined[result->combined_count++] = i;
            result->combined_step_ms = prediction->step_ms;
            result->summed_gain += advice->gain;
            spread_low *= (1 + advice->gain_low) / (1 + advice->gain);
            spread_high *= (1 + advice->gain_high) / (1 + advice->gain);
        }
        reckon_prediction_free(prediction);
    }
    result->combined_gain = best_gain;
    result->combined_gain_low = (1 + best_gain) * spread_low - 1;
    result->combined_gain_high = (1 + best_gain) * spread_high - 1;
    return SIM_OK;
}

/* ---- samples: the step before and after a change at the same sets of values, so that what is unknown in both alike cancels.
 * What is left is joined to the model's own error on the change, which is independent of it. */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The two ends of a gain: apart by the samples' spread of before over after and by what the model's error gave, as logarithms of
 * independent errors add. `gain` becomes the median. */
static void widen(const struct reckon_interval *before, const struct reckon_interval *after, uint32_t samples, double *gain, double *low,
                  double *high)
{
    double *ratios = malloc(samples * sizeof *ratios), nominal = before->nominal / after->nominal;
    SIM_ASSERT(ratios != NULL, "no memory for %u samples", samples);
    for (uint32_t s = 0; s < samples; s++) {
        ratios[s] = before->samples[s] / after->samples[s] / nominal;
    }
    qsort(ratios, samples, sizeof *ratios, by_value);
    double median = 0.5 * (ratios[(samples - 1) / 2] + ratios[samples / 2]);
    double down = log(median / ratios[samples / 10]), up = log(ratios[samples - 1 - samples / 10] / median);
    double own_down = log((1 + *gain) / (1 + *low)), own_up = log((1 + *high) / (1 + *gain)), middle = (1 + *gain) * median;
    *gain = middle - 1;
    *low = middle * exp(-hypot(down, own_down)) - 1;
    *high = middle * exp(hypot(up, own_up)) - 1;
    free(ratios);
}

static void take_step(const struct reckon_interval *time, double *step_ms, double *low, double *high)
{
    *step_ms = time->median;
    *low = time->low;
    *high = time->high;
}

static enum sim_status sample_all(struct advising *advising, struct advise_result *result, struct sim_error *error)
{
    struct reckon_doubts *before = NULL, *after = NULL;
    const char *changes[ADVICE_COMBINED_MAX];
    size_t wanted = result->combined_count > 1 ? 2 : 1;
    for (size_t i = 0; i < result->count; i++) {
        wanted += result->advice[i].priced && result->advice[i].gain >= ADVICE_WORTH;
    }
    double work = SAMPLE_WORK / (double)wanted;
    enum sim_status status = sample_changes(advising, NULL, 0, work, &before, error);
    for (size_t i = 0; status == SIM_OK && i < result->count; i++) {
        struct advice *advice = &result->advice[i];
        const char *change = advice->change;
        if (!advice->priced || advice->gain < ADVICE_WORTH) {
            continue;
        }
        status = sample_changes(advising, &change, 1, work, &after, error);
        if (status == SIM_OK) {
            take_step(&after->time[0], &advice->step_ms, &advice->step_ms_low, &advice->step_ms_high);
            widen(&before->time[0], &after->time[0], result->samples, &advice->gain, &advice->gain_low, &advice->gain_high);
        }
        reckon_doubts_free(after);
    }
    for (size_t i = 0; i < result->combined_count; i++) {
        changes[i] = result->advice[result->combined[i]].change;
    }
    if (status == SIM_OK && result->combined_count > 0) {
        status = sample_changes(advising, changes, result->combined_count, work, &after, error);
        if (status == SIM_OK) {
            take_step(&after->time[0], &result->combined_step_ms, &result->combined_step_ms_low, &result->combined_step_ms_high);
            widen(&before->time[0], &after->time[0], result->samples, &result->combined_gain, &result->combined_gain_low,
                  &result->combined_gain_high);
            reckon_doubts_free(after);
        }
    }
    if (status == SIM_OK) {
        result->examples_per_s *= result->step_ms / before->time[0].median;
        take_step(&before->time[0], &result->step_ms, &result->step_ms_low, &result->step_ms_high);
    }
    reckon_doubts_free(before);
    return status;
}

/* ---- all of it */

static enum sim_status price_candidates(struct advising *advising, struct sim_error *error)
{
    size_t count = advising->list.count, wanted = 0;
    uint32_t *tasks = calloc(count + 1, sizeof *tasks);
    struct pool_work work = { .run = work_on, .context = advising, .record_bytes = sizeof(struct advice_record) };
    struct pool *pool = NULL;
    advising->records = calloc(count + 1, sizeof *advising->records);
    SIM_ASSERT(tasks != NULL && advising->records != NULL, "no memory for %zu candidates", count);
    for (size_t i = 0; i < count; i++) {
        if (advising->list.advice[i].refused[0] == '\0') {
            tasks[wanted++] = (uint32_t)i;
        }
    }
    reckon_set_jobs(advising->reckon, 1); /* workers do not fork again */
    enum sim_status status = pool_create(advising->request->jobs, &work, &pool, error);
    if (status == SIM_OK) {
        status = pool_run(pool, tasks, wanted, take_record, be_idle, advising, error);
    }
    pool_destroy(pool);
    reckon_set_jobs(advising->reckon, advising->request->jobs);
    free(tasks);
    return status;
}

static enum sim_status price_base(struct advising *advising, struct reckon_prediction **base, struct sim_error *error)
{
    enum sim_status status = try_changes(advising, NULL, 0, base, error);
    if (status == SIM_OK && !isfinite((*base)->step_ms)) {
        const struct reckon_prediction *p = *base;
        status = p->fits_known && !p->fits ? sim_fail(error, SIM_DOES_NOT_FIT, "the step does not fit %s: %s", p->device, p->memory_advice)
                                           : sim_fail(error, SIM_UNSUPPORTED, "%s", p->input.verdict);
    }
    return status;
}

enum sim_status advise_run(struct reckon *reckon, struct reckon_device *device, const struct advise_request *request,
                           struct advise_result **out, struct sim_error *error)
{
    struct advising advising = { .reckon = reckon, .device = device, .request = request };
    struct reckon_prediction *base = NULL;
    struct advise_result *result = calloc(1, sizeof *result);
    SIM_ASSERT(result != NULL, "no memory for advice");
    *out = NULL;
    enum sim_status status = reckon_share_prices(reckon, NULL, SHARED_PRICES, error);
    status = status == SIM_OK ? price_base(&advising, &base, error) : status;
    if (status == SIM_OK) {
        advising.base = base;
        snprintf(result->device, sizeof result->device, "%s", base->device);
        snprintf(result->source, sizeof result->source, "%s", base->source);
        result->step_ms = base->step_ms;
        result->samples = request->samples;
        result->step_ms_low = result->step_ms_high = result->combined_step_ms_low = result->combined_step_ms_high = NAN;
        result->examples_per_s = base->examples_per_s;
        result->host_ms = base->host_ms;
        result->gpu_busy_ms = base->gpu_busy_ms;
        advise_candidates(base, request->source, &advising.list);
        status = price_candidates(&advising, error);
    }
    if (status == SIM_OK) {
        rank(&advising);
        result->advice = advising.list.advice;
        result->count = advising.list.count;
        status = combine(&advising, result, error);
        if (status == SIM_OK && request->samples > 0) {
            status = sample_all(&advising, result, error);
        }
        struct reckon_memo_counts counts = reckon_memo(reckon);
        result->asked = advising.asked + counts.asked;
        result->found = advising.found + counts.found;
    }
    result->advice = advising.list.advice;
    free(advising.records);
    reckon_prediction_free(base);
    if (status != SIM_OK) {
        advise_result_free(result);
        return status;
    }
    *out = result;
    return SIM_OK;
}

void advise_result_free(struct advise_result *result)
{
    if (result != NULL) {
        free(result->advice);
        free(result);
    }
}
