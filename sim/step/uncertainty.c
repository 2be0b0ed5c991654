/* Intervals by samples of the values that were not measured. A kernel is simulated anew at each sample. A step has a hundred
 * kernels of which a few carry the time: these are simulated anew at each sample, the others follow the mean of those that
 * have their limiter, and the whole step is then scheduled again. */
#include "sim/step/uncertainty.h"
#include "sim/core/rng.h"
#include "sim/core/stats.h"
#include "sim/step/doubt_values.h"
#include "sim/step/parallel.h"
#include "sim/step/price_board.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MIN 8
#define SHARE_MIN 0.01 /* of the variance: less is no driver */
#define SAMPLES_MAX 4096
#define ANEW_SHARE 0.9 /* of kernel time: what is simulated anew, if it can be had for the work below */
#define ANEW_WORK 1.1e8 /* where the request names no sample_work */
#define FIXED_WORK 3e4  /* of one kernel beside its requests: the caches are set up */
#define PARAMS_CAPACITY 4096
#define KERNEL_WINDOW 200000 /* line requests of a sampled kernel: only its ratio to the nominal one is used */

/* ---- what samples tell */

struct column { /* one unknown over the samples: centred, then made orthogonal to those chosen before it */
    const char *device;
    const struct doubt_value *value;
    double *x; /* [samples] */
    bool taken;
};

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void centre(double *x, size_t count)
{
    double mean = 0;
    for (size_t i = 0; i < count; i++) {
        mean += x[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        x[i] -= mean;
    }
}

/* Greedy regression of the logarithm: the unknown that explains most, then most of the rest. It ends where the best of so many
 * unknowns would look as good by chance. */
static void find_drivers(struct column *columns, size_t column_count, uint32_t samples, bool name_device,
                         struct reckon_interval *interval)
{
    double *y = malloc(samples * sizeof *y), total = 0;
    SIM_ASSERT(y != NULL, "no memory for %u samples", samples);
    for (uint32_t i = 0; i < samples; i++) {
        y[i] = log(interval->samples[i]);
    }
    centre(y, samples);
    total = dot(y, y, samples);
    double chance = 2 * log((double)column_count + 1) / (double)samples;
    while (interval->driver_count < RECKON_DRIVERS_MAX && total > 1e-12 * samples) {
        struct column *best = NULL;
        double rest = dot(y, y, samples), most = 0;
        for (size_t c = 0; c < column_count; c++) {
            double length = dot(columns[c].x, columns[c].x, samples), along = dot(columns[c].x, y, samples);
            double gain = columns[c].taken || length < 1e-9 ? 0 : along * along / length;
            if (gain > most) {
                most = gain;
                best = &columns[c];
            }
        }
        if (best == NULL || most < chance * rest || most < SHARE_MIN * total) {
            break;
        }
        double slope = dot(best->x, y, samples) / dot(best->x, best->x, samples);
        struct reckon_driver *driver = &interval->drivers[interval->driver_count++];
        snprintf(driver->key, sizeof driver->key, "%s%s%s", name_device ? best->device : "", name_device ? " " : "", best->value->key);
        snprintf(driver->kind, sizeof driver->kind, "%s", profile_kind_text(best->value->kind));
        driver->unknown = best->value->unknown;
        driver->share = most / total;
        driver->effect = exp(slope) - 1; /* a coordinate runs over 1 */
        interval->explained += driver->share;
        best->taken = true;
        for (uint32_t i = 0; i < samples; i++) {
            y[i] -= slope * best->x[i];
        }
        for (size_t c = 0; c < column_count; c++) {
            double part = columns[c].taken ? 0 : dot(columns[c].x, best->x, samples) / dot(best->x, best->x, samples);
            for (uint32_t i = 0; part != 0 && i < samples; i++) {
                columns[c].x[i] -= part * best->x[i];
            }
        }
    }
    free(y);
}

static void fill_quantiles(struct reckon_interval *interval, uint32_t samples)
{
    double *sorted = malloc(samples * sizeof *sorted);
    SIM_ASSERT(sorted != NULL, "no memory for %u samples", samples);
    memcpy(sorted, interval->samples, samples * sizeof *sorted);
    stats_sort(sorted, samples);
    interval->median = stats_quantile_sorted(sorted, samples, 0.5);
    interval->low = stats_quantile_sorted(sorted, samples, 0.1);
    interval->high = stats_quantile_sorted(sorted, samples, 0.9);
    free(sorted);
}

/* The unknowns of these devices as columns; one that two devices share appears once. among: [unknown_count], NULL for all. */
static size_t make_columns(const struct doubt_values *values, struct reckon_device *const *devices, const size_t *which,
                           size_t which_count, const bool *among, const double *points, uint32_t samples,
                           struct column *columns)
{
    size_t count = 0;
    bool *seen = calloc(values->unknown_count + 1, sizeof *seen);
    SIM_ASSERT(seen != NULL, "no memory for %zu unknowns", values->unknown_count);
    for (size_t w = 0; w < which_count; w++) {
        for (size_t i = 0; i < values->device[which[w]].count; i++) {
            const struct doubt_value *value = &values->device[which[w]].values[i];
            if (seen[value->unknown] || (among != NULL && !among[value->unknown])) {
                continue;
            }
            seen[value->unknown] = true;
            struct column *column = &columns[count++];
            *column = (struct column){ devices[which[w]]->chip.name, value, malloc(samples * sizeof(double)), false };
            SIM_ASSERT(column->x != NULL, "no memory for %u samples", samples);
            for (uint32_t s = 0; s < samples; s++) {
                column->x[s] = points[s * values->unknown_count + value->unknown];
            }
            centre(column->x, samples);
        }
    }
    free(seen);
    return count;
}

static void explain(const struct doubt_values *values, struct reckon_device *const *devices, const size_t *which,
                    size_t which_count, const bool *among, const double *points, uint32_t samples,
                    struct reckon_interval *interval)
{
    struct column *columns = calloc(values->unknown_count + 1, sizeof *columns);
    SIM_ASSERT(columns != NULL, "no memory for %zu unknowns", values->unknown_count);
    size_t count = make_columns(values, devices, which, which_count, among, points, samples, columns);
    fill_quantiles(interval, samples);
    find_drivers(columns, count, samples, which_count > 1, interval);
    for (size_t c = 0; c < count; c++) {
        free(columns[c].x);
    }
    free(columns);
}

static struct reckon_doubts *doubts_create(size_t device_count, uint32_t samples, size_t value_count)
{
    struct reckon_doubts *doubts = calloc(1, sizeof *doubts);
    SIM_ASSERT(doubts != NULL, "no memory for doubts");
    *doubts = (struct reckon_doubts){ samples, device_count, value_count,
                                      calloc(device_count + 1, sizeof *doubts->time),
                                      calloc(device_count + 1, sizeof *doubts->ratio) };
    SIM_ASSERT(doubts->time != NULL && doubts->ratio != NULL, "no memory for %zu devices", device_count);
    for (size_t d = 0; d < device_count; d++) {
        doubts->time[d].samples = calloc(samples, sizeof(double));
        doubts->ratio[d].samples = calloc(samples, sizeof(double));
        SIM_ASSERT(doubts->time[d].samples != NULL && doubts->ratio[d].samples != NULL, "no memory for %u samples", samples);
        doubts->time[d].anew = doubts->ratio[d].anew = NAN;
    }
    return doubts;
}

void reckon_doubts_free(struct reckon_doubts *doubts)
{
    for (size_t d = 0; doubts != NULL && d < doubts->device_count; d++) {
        free(doubts->time[d].samples);
        free(doubts->ratio[d].samples);
    }
    if (doubts != NULL) {
        free(doubts->time);
        free(doubts->ratio);
        free(doubts);
    }
}

/* From the samples of the times to everything else. What drives a ratio is sought among what drives its two times: fewer
 * candidates need less to stand out. */
static void conclude(const struct doubt_values *values, struct reckon_device *const *devices, const double *points,
                     struct reckon_doubts *doubts)
{
    for (size_t d = 0; d < doubts->device_count; d++) {
        for (uint32_t s = 0; s < doubts->samples; s++) {
            doubts->time[d].samples[s] *= doubt_values_model_factor(values, d, points + s * values->unknown_count);
        }
    }
    for (size_t d = 0; d < doubts->device_count; d++) {
        size_t which[2] = { 0, d };
        bool *among = calloc(values->unknown_count + 1, sizeof *among);
        SIM_ASSERT(among != NULL, "no memory for %zu unknowns", values->unknown_count);
        explain(values, devices, &which[1], 1, NULL, points, doubts->samples, &doubts->time[d]);
        for (size_t w = 0; w < 2; w++) {
            for (size_t i = 0; i < doubts->time[which[w]].driver_count; i++) {
                among[doubts->time[which[w]].drivers[i].unknown] = true;
            }
        }
        for (uint32_t s = 0; s < doubts->samples; s++) {
            doubts->ratio[d].samples[s] = doubts->time[d].samples[s] / doubts->time[0].samples[s];
        }
        doubts->ratio[d].nominal = doubts->time[d].nominal / doubts->time[0].nominal;
        explain(values, devices, which, d > 0 ? 2 : 1, among, points, doubts->samples, &doubts->ratio[d]);
        free(among);
    }
}

static enum sim_status check_samples(uint32_t samples, struct sim_error *error)
{
    return samples >= SAMPLES_MIN && samples <= SAMPLES_MAX
               ? SIM_OK
               : sim_fail(error, SIM_BAD_ARGUMENT, "%u samples, must be %d..%d", samples, SAMPLES_MIN, SAMPLES_MAX);
}

static double *draw_points(uint64_t seed, const struct doubt_values *values, uint32_t samples)
{
    double *points = calloc((size_t)samples * (values->unknown_count + 1), sizeof *points);
    SIM_ASSERT(points != NULL, "no memory for %u samples", samples);
    if (values->unknown_count > 0) {
        rng_quasi_points(seed, samples, values->unknown_count, points);
    }
    return points;
}

/* ---- runs of one device, shared by kernels and steps */

struct outcome { /* of one sample, written by a worker */
    enum sim_status status;
    double value;
    char error[SIM_ERROR_TEXT_CAPACITY];
};

struct sampling {
    struct reckon *reckon;
    struct reckon_device *device;
    size_t d;
    const struct doubt_values *values;
    const double *points;
    uint32_t samples;
    struct outcome *outcomes; /* [samples], shared */
    const char *what;
    /* kernels */
    const struct reckon_kernel_request *kernel;
    /* steps */
    const struct reckon_predict_request *step;
    const struct priced_request *priced;
    size_t priced_count;
    const size_t *narrow; /* [priced_count]: the same kernel on the narrowest window priced; only its ratio is used */
    const size_t *anew; /* [anew_count]: of `priced` */
    size_t anew_count;
    struct anew_price {
        enum sim_status status;
        double ratio; /* to the nominal price */
        char error[SIM_ERROR_TEXT_CAPACITY];
    } *prices; /* [samples][anew_count], shared */
};

static const double *point_of(const struct sampling *sampling, size_t sample)
{
    return sampling->points + sample * sampling->values->unknown_count;
}

static void tick(void *context, size_t done, size_t count)
{
    const struct sampling *sampling = context;
    session_progress(sampling->reckon, sampling->what, done, count);
}

static enum sim_status take_outcomes(const struct sampling *sampling, struct reckon_interval *interval, struct sim_error *error)
{
    for (uint32_t s = 0; s < sampling->samples; s++) {
        const struct outcome *outcome = &sampling->outcomes[s];
        if (outcome->status != SIM_OK) {
            return sim_fail(error, outcome->status, "%s, sample %u of its uncertain values: %s", sampling->device->chip.name,
                            s + 1, outcome->error);
        }
        interval->samples[s] = outcome->value;
    }
    return SIM_OK;
}

/* A session for one sample: prices of its own, nothing said, in this process alone. */
static struct reckon session_alone(const struct reckon *reckon)
{
    struct reckon alone = { .options = reckon->options, .memo = price_memo_create(), .libraries = reckon->libraries };
    alone.options.jobs = 1;
    alone.options.progress = NULL;
    return alone;
}

static void session_alone_end(struct reckon *alone)
{
    price_memo_destroy(alone->memo);
    price_board_close(alone->launches);
}

/* ---- a kernel */

static enum sim_status kernel_time(const struct sampling *sampling, const struct reckon_kernel_request *request, double *time_us,
                                   struct sim_error *error)
{
    struct reckon alone = session_alone(sampling->reckon);
    struct reckon_kernel *kernel = NULL;
    enum sim_status status = reckon_kernel(&alone, sampling->device, request, &kernel, error);
    if (status == SIM_OK) {
        *time_us = kernel->time_us > 0 ? kernel->time_us : kernel->value;
    }
    reckon_kernel_free(kernel);
    session_alone_end(&alone);
    return status;
}

static void sample_kernel(void *context, size_t sample)
{
    struct sampling *sampling = context;
    struct outcome *outcome = &sampling->outcomes[sample];
    struct sim_error error = { 0 };
    struct reckon_kernel_request request = *sampling->kernel;
    char params[PARAMS_CAPACITY];
    doubt_values_set(sampling->values, sampling->d, point_of(sampling, sample), sampling->device);
    doubt_values_params(sampling->values, sampling->d, point_of(sampling, sample), request.params, params, sizeof params);
    request.params = params;
    outcome->status = kernel_time(sampling, &request, &outcome->value, &error);
    snprintf(outcome->error, sizeof outcome->error, "%s", error.text);
    doubt_values_set(sampling->values, sampling->d, NULL, sampling->device);
}

/* Times on a narrow window, each against the nominal one on the same window: what the window misses cancels. */
static enum sim_status sample_kernels(struct sampling *sampling, struct reckon_interval *interval, struct sim_error *error)
{
    struct reckon_kernel_request quick = *sampling->kernel;
    double nominal_quick = 0;
    enum sim_status status = kernel_time(sampling, sampling->kernel, &interval->nominal, error);
    quick.window_requests = quick.exact ? 0 : KERNEL_WINDOW;
    sampling->kernel = &quick;
    if (status == SIM_OK) {
        status = kernel_time(sampling, &quick, &nominal_quick, error);
    }
    if (status == SIM_OK) {
        status = parallel_run(sampling->reckon->options.jobs, sampling->samples, sample_kernel, sampling, tick, sampling, error);
    }
    if (status == SIM_OK) {
        status = take_outcomes(sampling, interval, error);
    }
    for (uint32_t s = 0; status == SIM_OK && s < sampling->samples; s++) {
        interval->samples[s] *= interval->nominal / nominal_quick;
    }
    return status;
}

/* ---- a step */

static double work_of(const struct priced_request *priced)
{
    return (double)priced->price->result.simulated_line_requests + (double)priced->price->result.simulated_wave_ops + FIXED_WORK;
}

struct candidate {
    size_t index;
    double worth; /* time per work */
};

static int by_worth(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->worth != y->worth ? (x->worth > y->worth ? -1 : 1) : (x->index < y->index ? -1 : 1);
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Equal but for the window. */
static bool same_kernel(const struct kernel_price_request *a, const struct kernel_price_request *b)
{
    return same_text(a->params, b->params) && strcmp(a->kernel, b->kernel) == 0 && strcmp(a->suite, b->suite) == 0 &&
           same_text(a->library, b->library) && a->cache == b->cache && a->exact == b->exact && a->core_mhz == b->core_mhz;
}

/* A kernel that weighs was priced twice, on a quick window and on a wide one: what a window misses cancels in a ratio. */
static size_t *find_narrow(const struct priced_request *priced, size_t count)
{
    size_t *narrow = malloc((count + 1) * sizeof *narrow);
    SIM_ASSERT(narrow != NULL, "no memory for %zu kernels", count);
    for (size_t i = 0; i < count; i++) {
        narrow[i] = i;
        for (size_t j = 0; j < count; j++) {
            if (priced[j].price->status == SIM_OK && priced[j].request.window_requests < priced[narrow[i]].request.window_requests &&
                same_kernel(&priced[i].request, &priced[j].request)) {
                narrow[i] = j;
            }
        }
    }
    return narrow;
}

/* The kernels to simulate anew: most time for the work first. Returns their share of all kernel time. */
static double choose_anew(const struct sampling *sampling, size_t *anew, size_t *anew_count)
{
    struct candidate *order = malloc((sampling->priced_count + 1) * sizeof *order);
    double total = 0, covered = 0, work = 0, most = sampling->step->sample_work > 0 ? sampling->step->sample_work : ANEW_WORK;
    SIM_ASSERT(order != NULL, "no memory for %zu kernels", sampling->priced_count);
    for (size_t i = 0; i < sampling->priced_count; i++) {
        const struct priced_request *priced = &sampling->priced[i];
        total += priced->used_us;
        order[i] = (struct candidate){ i, priced->used_us / work_of(&sampling->priced[sampling->narrow[i]]) };
    }
    qsort(order, sampling->priced_count, sizeof *order, by_worth);
    *anew_count = 0;
    for (size_t k = 0; k < sampling->priced_count && covered < ANEW_SHARE * total; k++) {
        const struct priced_request *priced = &sampling->priced[order[k].index];
        double more = work_of(&sampling->priced[sampling->narrow[order[k].index]]) * sampling->samples;
        if (priced->used_us > 0 && priced->price->status == SIM_OK && (work + more <= most || *anew_count == 0)) {
            anew[(*anew_count)++] = order[k].index;
            covered += priced->used_us;
            work += more;
        }
    }
    free(order);
    return total > 0 ? covered / total : 1;
}

static void price_anew(void *context, size_t task)
{
    struct sampling *sampling = context;
    size_t sample = task / sampling->anew_count;
    const struct priced_request *priced = &sampling->priced[sampling->narrow[sampling->anew[task % sampling->anew_count]]];
    struct anew_price *out = &sampling->prices[task];
    struct kernel_price *price = malloc(sizeof *price);
    SIM_ASSERT(price != NULL, "no memory for a price");
    doubt_values_set(sampling->values, sampling->d, point_of(sampling, sample), sampling->device);
    struct kernel_price_machine machine = session_machine(sampling->reckon, sampling->device);
    kernel_price_compute(&machine, &priced->request, price);
    out->status = price->status;
    out->ratio = price->status == SIM_OK ? price->device_us / priced->price->device_us : NAN;
    snprintf(out->error, sizeof out->error, "%s", price->error);
    doubt_values_set(sampling->values, sampling->d, NULL, sampling->device);
    free(price);
}

/* Mean ratio of the kernels simulated anew, by their time; of those with this limiter, where there are any. */
static double ratio_of_limiter(const struct sampling *sampling, size_t sample, enum kernel_stage limiter)
{
    double own = 0, own_weight = 0, all = 0, all_weight = 0;
    for (size_t k = 0; k < sampling->anew_count; k++) {
        const struct priced_request *priced = &sampling->priced[sampling->anew[k]];
        double ratio = sampling->prices[sample * sampling->anew_count + k].ratio;
        all += priced->used_us * ratio;
        all_weight += priced->used_us;
        if (priced->price->result.limiter == limiter) {
            own += priced->used_us * ratio;
            own_weight += priced->used_us;
        }
    }
    return own_weight > 0 ? own / own_weight : all_weight > 0 ? all / all_weight : 1;
}

static void add_scaled(struct reckon *alone, const struct reckon_device *device, const struct priced_request *priced, double ratio)
{
    char key[PRICE_KEY_CAPACITY];
    struct kernel_price *price = malloc(sizeof *price);
    SIM_ASSERT(price != NULL, "no memory for a price");
    *price = *priced->price;
    for (size_t i = 0; i < price->launch_count; i++) {
        price->launch_us[i] *= ratio;
    }
    price->device_us *= ratio;
    price->result.duration_us *= ratio;
    price_key(alone, device, &priced->request, key);
    price_memo_add(alone->memo, key, price);
    free(price);
}

/* All prices of this sample, in a session of its own: those simulated anew, and the others by their limiter's ratio. */
static void fill_memo(const struct sampling *sampling, size_t sample, struct reckon *alone)
{
    double by_limiter[KERNEL_STAGES];
    double *ratios = malloc((sampling->priced_count + 1) * sizeof *ratios);
    SIM_ASSERT(ratios != NULL, "no memory for %zu prices", sampling->priced_count);
    for (int stage = 0; stage < KERNEL_STAGES; stage++) {
        by_limiter[stage] = ratio_of_limiter(sampling, sample, (enum kernel_stage)stage);
    }
    for (size_t i = 0; i < sampling->priced_count; i++) {
        ratios[i] = by_limiter[sampling->priced[i].price->result.limiter];
    }
    for (size_t k = 0; k < sampling->anew_count; k++) {
        ratios[sampling->anew[k]] = ratios[sampling->narrow[sampling->anew[k]]] = sampling->prices[sample * sampling->anew_count + k].ratio;
    }
    for (size_t i = 0; i < sampling->priced_count; i++) {
        add_scaled(alone, sampling->device, &sampling->priced[i], ratios[i]);
    }
    free(ratios);
}

static void play_sample(void *context, size_t sample)
{
    struct sampling *sampling = context;
    struct outcome *outcome = &sampling->outcomes[sample];
    struct reckon alone = session_alone(sampling->reckon);
    struct reckon_prediction *prediction = NULL;
    struct sim_error error = { 0 };
    doubt_values_set(sampling->values, sampling->d, point_of(sampling, sample), sampling->device);
    fill_memo(sampling, sample, &alone);
    outcome->status = reckon_predict(&alone, sampling->device, sampling->step, &prediction, &error);
    if (outcome->status == SIM_OK) {
        outcome->value = prediction->step_ms;
    }
    snprintf(outcome->error, sizeof outcome->error, "%s", error.text);
    reckon_prediction_free(prediction);
    session_alone_end(&alone);
    doubt_values_set(sampling->values, sampling->d, NULL, sampling->device);
}

static enum sim_status price_all_anew(struct sampling *sampling, struct sim_error *error)
{
    size_t count = (size_t)sampling->samples * sampling->anew_count;
    enum sim_status status = count == 0 ? SIM_OK
                                        : parallel_run(sampling->reckon->options.jobs, count, price_anew, sampling, tick,
                                                       sampling, error);
    for (size_t i = 0; status == SIM_OK && i < count; i++) {
        const struct anew_price *price = &sampling->prices[i];
        if (price->status != SIM_OK) {
            status = sim_fail(error, price->status, "%s, sample %zu of its uncertain values: %s", sampling->device->chip.name,
                              i / sampling->anew_count + 1, price->error);
        }
    }
    return status;
}

static enum sim_status nominal_step(const struct sampling *sampling, double *step_ms, struct sim_error *error)
{
    struct reckon_prediction *prediction = NULL;
    enum sim_status status = reckon_predict(sampling->reckon, sampling->device, sampling->step, &prediction, error);
    if (status == SIM_OK) {
        *step_ms = prediction->step_ms;
    }
    reckon_prediction_free(prediction);
    return status;
}

static enum sim_status sample_steps(struct sampling *sampling, struct reckon_interval *interval, struct sim_error *error)
{
    struct priced_request *priced = NULL;
    enum sim_status status = nominal_step(sampling, &interval->nominal, error);
    if (status != SIM_OK) {
        return status;
    }
    sampling->priced_count = session_priced(sampling->reckon, sampling->device, &priced);
    sampling->priced = priced;
    size_t *narrow = find_narrow(priced, sampling->priced_count), *anew = malloc((sampling->priced_count + 1) * sizeof *anew);
    SIM_ASSERT(anew != NULL, "no memory for %zu kernels", sampling->priced_count);
    sampling->narrow = narrow;
    interval->anew = choose_anew(sampling, anew, &sampling->anew_count);
    sampling->anew = anew;
    size_t bytes = (size_t)sampling->samples * sampling->anew_count * sizeof *sampling->prices;
    sampling->prices = parallel_share(bytes);
    sampling->what = "kernels of samples";
    status = sampling->prices == NULL ? sim_fail(error, SIM_NO_MEMORY, "no memory for %zu bytes of prices", bytes)
                                      : price_all_anew(sampling, error);
    sampling->what = "samples";
    if (status == SIM_OK) {
        status = parallel_run(sampling->reckon->options.jobs, sampling->samples, play_sample, sampling, tick, sampling, error);
    }
    if (status == SIM_OK) {
        status = take_outcomes(sampling, interval, error);
    }
    parallel_unshare(sampling->prices, bytes);
    free(anew);
    free(narrow);
    free(priced);
    return status;
}

/* What the kernel assumes of its own parameters on each device, and the class of its library that it falls in: its plan says,
 * which the memo has if it was asked before. */
static enum sim_status add_inputs(struct reckon *reckon, struct reckon_device *const *devices, const struct reckon_kernel_request *request,
                                  struct doubt_values *values, struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    for (size_t d = 0; status == SIM_OK && d < values->device_count; d++) {
        struct reckon_kernel *kernel = NULL;
        status = reckon_kernel(reckon, devices[d], request, &kernel, error);
        if (status == SIM_OK) {
            doubt_values_add_inputs(values, d, kernel->inputs, kernel->input_count);
        }
        if (status == SIM_OK && kernel->library.name[0] != '\0') {
            doubt_values_add_library(values, d, library_set_find(&reckon->libraries, NULL, devices[d]->chip.name), kernel->library.class);
        }
        reckon_kernel_free(kernel);
    }
    return status;
}

/* ---- the two questions */

static enum sim_status run(struct reckon *reckon, struct reckon_device *const *devices, size_t device_count,
                           const struct reckon_kernel_request *kernel, const struct reckon_predict_request *step,
                           uint32_t samples, struct reckon_doubts **out, struct sim_error *error)
{
    struct doubt_values values = { 0 };
    enum sim_status status = check_samples(samples, error);
    *out = NULL;
    if (status != SIM_OK) {
        return status;
    }
    doubt_values_collect(devices, device_count, kernel != NULL, kernel != NULL ? DOUBT_MODEL_KERNEL : DOUBT_MODEL_STEP, &values);
    for (size_t d = 0; kernel == NULL && d < device_count; d++) {
        doubt_values_add_library(&values, d, library_set_find(&reckon->libraries, NULL, devices[d]->chip.name), NULL);
    }
    if (kernel != NULL) {
        status = add_inputs(reckon, devices, kernel, &values, error);
    }
    double *points = draw_points(reckon->options.seed, &values, samples);
    struct reckon_doubts *doubts = doubts_create(device_count, samples, values.unknown_count);
    size_t bytes = samples * sizeof(struct outcome);
    for (size_t d = 0; status == SIM_OK && d < device_count; d++) {
        struct sampling sampling = { .reckon = reckon, .device = devices[d], .d = d, .values = &values, .points = points,
                                     .samples = samples, .outcomes = parallel_share(bytes), .what = "samples",
                                     .kernel = kernel, .step = step };
        status = sampling.outcomes == NULL ? sim_fail(error, SIM_NO_MEMORY, "no memory for %u samples", samples)
                 : kernel != NULL          ? sample_kernels(&sampling, &doubts->time[d], error)
                                           : sample_steps(&sampling, &doubts->time[d], error);
        parallel_unshare(sampling.outcomes, bytes);
    }
    if (status == SIM_OK) {
        conclude(&values, devices, points, doubts);
        *out = doubts;
    } else {
        reckon_doubts_free(doubts);
    }
    doubt_values_finish(&values);
    free(points);
    return status;
}

enum sim_status reckon_predict_doubts(struct reckon *reckon, struct reckon_device *const *devices, size_t device_count,
                                      const struct reckon_predict_request *request, uint32_t samples,
                                      struct reckon_doubts **out, struct sim_error *error)
{
    return run(reckon, devices, device_count, NULL, request, samples, out, error);
}

enum sim_status reckon_kernel_doubts(struct reckon *reckon, struct reckon_device *const *devices, size_t device_count,
                                     const struct reckon_kernel_request *request, uint32_t samples,
                                     struct reckon_doubts **out, struct sim_error *error)
{
    return run(reckon, devices, device_count, request, NULL, samples, out, error);
}

/* ---- a collective */

enum sim_status uncertainty_collective(uint64_t seed, struct node_profile *node, const struct collective_request *request,
                                       const struct collective_result *result, enum fabric_engine engine, uint32_t samples,
                                       struct reckon_doubts **out, struct sim_error *error)
{
    struct reckon_device *device = calloc(1, sizeof *device); /* a node and no chip */
    struct collective_request held = *request;
    struct collective_result sampled;
    struct doubt_values values = { 0 };
    enum sim_status status = check_samples(samples, error);
    *out = NULL;
    SIM_ASSERT(device != NULL, "no memory for a node");
    device->node = node;
    held.algorithm = result->algorithm;
    held.protocol = result->protocol;
    doubt_values_collect(&device, 1, false, DOUBT_MODEL_COLLECTIVE, &values);
    double *points = draw_points(seed, &values, samples);
    struct reckon_doubts *doubts = doubts_create(1, samples, values.unknown_count);
    doubts->time[0].nominal = result->time_us;
    for (uint32_t s = 0; status == SIM_OK && s < samples; s++) {
        doubt_values_set(&values, 0, points + s * values.unknown_count, device);
        status = collective_time(node, &held, engine, &sampled, error);
        doubts->time[0].samples[s] = sampled.time_us;
    }
    doubt_values_set(&values, 0, NULL, device);
    if (status == SIM_OK) {
        conclude(&values, &device, points, doubts);
        *out = doubts;
    } else {
        reckon_doubts_free(doubts);
    }
    doubt_values_finish(&values);
    free(points);
    free(device);
    return status;
}

/* ---- JSON */

static void set_finite(struct json *object, const char *key, double value)
{
    if (isfinite(value)) {
        json_set_number(object, key, value);
    } else {
        json_set_null(object, key);
    }
}

struct json *reckon_interval_json(const struct reckon_interval *interval)
{
    struct json *object = json_new_object(), *drivers = json_new_array();
    json_set_number(object, "nominal", interval->nominal);
    json_set_number(object, "median", interval->median);
    json_set_number(object, "low", interval->low);
    json_set_number(object, "high", interval->high);
    for (size_t i = 0; i < interval->driver_count; i++) {
        struct json *driver = json_new_object();
        json_set_string(driver, "key", interval->drivers[i].key);
        json_set_string(driver, "kind", interval->drivers[i].kind);
        json_set_number(driver, "share", interval->drivers[i].share);
        json_set_number(driver, "effect", interval->drivers[i].effect);
        json_append(drivers, driver);
    }
    json_set(object, "drivers", drivers);
    json_set_number(object, "explained", interval->explained);
    set_finite(object, "simulated_anew", interval->anew);
    return object;
}
