#include "studies/sweep_internal.h"
#include "sim/core/data_path.h"
#include "sim/core/hash.h"
#include "studies/mpi.h"
#include "studies/pareto.h"
#include "studies/pool.h"
#include "studies/store.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHARED_PRICES 131072
#define IDENTITY_CAPACITY 256
#define SAMPLE_WORK 2.5e8 /* line requests and wave operations of all samples of all points of the fronts */

struct open_device {
    const char *device, *node; /* texts of the study; node NULL: the device's own */
    struct reckon_device *open;
};

struct sweep_bench {
    const struct study *study;
    const struct sweep_options *options;
    struct reckon *reckon;
    struct reckon_source *input;
    struct open_device *devices;
    size_t device_count;
    struct store *store;           /* rank 0 */
    struct pool *pool;             /* rank 0 */
    struct study_record **records; /* rank 0: [points], of the tried */
    struct sweep_progress progress;
    size_t now;
    double started;
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- in a worker */

static struct reckon_device *device_of(const struct sweep_bench *bench, const struct study_point *point)
{
    for (size_t i = 0; i < bench->device_count; i++) {
        const struct open_device *device = &bench->devices[i];
        bool node = point->node == NULL || device->node == NULL ? point->node == device->node
                                                                : strcmp(point->node, device->node) == 0;
        if (node && strcmp(point->device, device->device) == 0) {
            return device->open;
        }
    }
    return NULL;
}

static void set_reason(struct study_record *record, enum sim_status status, const char *text)
{
    record->status = status == SIM_NO_MEMORY ? RECORD_ERROR : RECORD_INFEASIBLE;
    record->error_status = status;
    snprintf(record->reason, sizeof record->reason, "%.*s", (int)sizeof record->reason - 1, text);
}

/* A point as it is asked for. */
struct asked_point {
    char texts[STUDY_SETTINGS_MAX][320];
    const char *settings[STUDY_SETTINGS_MAX];
    struct reckon_point_request request;
};

static void ask_point(const struct study *study, const struct study_point *point, struct asked_point *asked)
{
    for (size_t i = 0; i < point->setting_count; i++) {
        study_setting(study, point, i, asked->texts[i], sizeof asked->texts[i]);
        asked->settings[i] = asked->texts[i];
    }
    asked->request = (struct reckon_point_request){ .settings = asked->settings,
                                                    .setting_count = point->setting_count,
                                                    .window_requests = study->window_requests };
}

static void price_point(const struct sweep_bench *bench, const struct study_point *point, struct study_record *record)
{
    struct asked_point asked;
    struct reckon_prediction *prediction = NULL;
    struct sim_error error = { 0 };
    ask_point(bench->study, point, &asked);
    enum sim_status status = reckon_point(bench->reckon, device_of(bench, point), bench->input, &asked.request, &prediction, &error);
    if (status != SIM_OK) {
        set_reason(record, status, error.text);
        return;
    }
    record_fill(record, prediction, study_point_batch(bench->study, point), study_cost_of(bench->study, point->device));
    if (prediction->fits_known && !prediction->fits) {
        set_reason(record, SIM_DOES_NOT_FIT, prediction->memory_advice);
    } else if (!isfinite(prediction->step_ms)) {
        set_reason(record, SIM_UNSUPPORTED, prediction->input.verdict);
    } else if (study_breaks(bench->study, record, true, record->reason, sizeof record->reason)) {
        record->status = RECORD_INFEASIBLE;
    }
    reckon_prediction_free(prediction);
}

static void work_on(void *context, uint32_t task, void *out)
{
    const struct sweep_bench *bench = context;
    struct study_record *record = out;
    struct study_point point;
    struct reckon_memo_counts before = reckon_memo(bench->reckon);
    study_point_at(bench->study, task, &point);
    study_record_begin(bench->study, &point, task, record);
    if (study_breaks(bench->study, record, false, record->reason, sizeof record->reason)) {
        record->status = RECORD_INFEASIBLE;
    } else {
        price_point(bench, &point, record);
    }
    struct reckon_memo_counts after = reckon_memo(bench->reckon);
    record->asked = after.asked - before.asked;
    record->found = after.found - before.found;
}

static void begin_work(void *context)
{
    const struct sweep_bench *bench = context;
    store_leave(bench->store);
}

/* ---- rank 0 */

static void tell(struct sweep_bench *bench)
{
    struct sweep_progress *progress = &bench->progress;
    progress->seconds = seconds_now() - bench->started;
    progress->seconds_left = bench->now > 0 ? progress->seconds / (double)bench->now * (double)(progress->total - progress->done)
                                            : NAN;
    if (bench->options->progress != NULL) {
        bench->options->progress(bench->options->progress_context, progress);
    }
}

static void keep_record(struct sweep_bench *bench, const struct study_record *record)
{
    struct study_record *kept = malloc(sizeof *kept);
    SIM_ASSERT(kept != NULL, "no memory for a record");
    *kept = *record;
    bench->records[record->point] = kept;
    bench->progress.done++;
    bench->progress.infeasible += record->status == RECORD_INFEASIBLE;
}

static enum sim_status take_record(void *context, const void *data, struct sim_error *error)
{
    struct sweep_bench *bench = context;
    const struct study_record *record = data;
    if (record->status == RECORD_ERROR) {
        return sim_fail(error, (enum sim_status)record->error_status, "point %u: %s", record->point, record->reason);
    }
    enum sim_status status = store_put(bench->store, record, error);
    if (status == SIM_OK) {
        bench->now++;
        bench->progress.asked += record->asked;
        bench->progress.found += record->found;
        keep_record(bench, record);
    }
    return status;
}

static void be_idle(void *context)
{
    tell(context);
}

bool sweep_tried(const struct sweep_bench *bench, uint32_t point)
{
    return bench->records[point] != NULL;
}

const struct study_record *sweep_record(const struct sweep_bench *bench, uint32_t point)
{
    return bench->records[point];
}

enum sim_status sweep_try(struct sweep_bench *bench, const uint32_t *points, size_t count, struct sim_error *error)
{
    uint32_t *missing = malloc((count + 1) * sizeof *missing);
    size_t missing_count = 0;
    enum sim_status status = SIM_OK;
    SIM_ASSERT(missing != NULL, "no memory for %zu points", count);
    for (size_t i = 0; status == SIM_OK && i < count; i++) {
        if (sweep_tried(bench, points[i])) {
            continue;
        }
        if (store_has(bench->store, points[i])) {
            struct study_record record;
            status = store_get(bench->store, points[i], &record, error);
            if (status == SIM_OK) {
                keep_record(bench, &record);
            }
        } else {
            missing[missing_count++] = points[i];
        }
    }
    if (status == SIM_OK && missing_count > 0) {
        status = pool_run(bench->pool, missing, missing_count, take_record, be_idle, bench, error);
    }
    free(missing);
    return status;
}

struct placed {
    const char *device, *batch;
    uint32_t point;
};

static int by_kernels(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    int order = strcmp(x->device, y->device);
    order = order != 0 ? order : strcmp(x->batch, y->batch);
    return order != 0 ? order : (x->point > y->point) - (x->point < y->point);
}

/* Points that share most of their kernels, those of a device and batch, one after the other: workers take them in rows. */
static enum sim_status try_all(struct sweep_bench *bench, struct sim_error *error)
{
    size_t count = study_point_count(bench->study);
    uint32_t *points = malloc((count + 1) * sizeof *points);
    struct placed *placed = malloc((count + 1) * sizeof *placed);
    SIM_ASSERT(points != NULL && placed != NULL, "no memory for %zu points", count);
    for (size_t i = 0; i < count; i++) {
        struct study_point point;
        study_point_at(bench->study, i, &point);
        const char *batch = study_point_value(&point, "batch");
        placed[i] = (struct placed){ point.device, batch != NULL ? batch : "", (uint32_t)i };
    }
    qsort(placed, count, sizeof *placed, by_kernels);
    for (size_t i = 0; i < count; i++) {
        points[i] = placed[i].point;
    }
    enum sim_status status = sweep_try(bench, points, count, error);
    free(placed);
    free(points);
    return status;
}

/* ---- opening */

static enum sim_status hash_file(const char *path, uint64_t *hash, struct sim_error *error)
{
    char block[65536];
    size_t got = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: cannot be opened", path);
    }
    while ((got = fread(block, 1, sizeof block, file)) > 0) {
        *hash = hash64_add_bytes(*hash, block, got);
    }
    fclose(file);
    return SIM_OK;
}

static enum sim_status hash_profile(const char *folder, const char *kind, const char *name, uint64_t *hash,
                                    struct sim_error *error)
{
    char path[DATA_PATH_CAPACITY];
    enum sim_status status = data_path_find(folder, kind, name, path, error);
    return status == SIM_OK ? hash_file(path, hash, error) : status;
}

/* Everything that an answer rests on beside the program: inputs, sharding plans, profiles. */
static enum sim_status hash_basis(const struct sweep_bench *bench, char text[IDENTITY_CAPACITY], struct sim_error *error)
{
    const struct study *study = bench->study;
    uint64_t hash = HASH64_START;
    enum sim_status status = SIM_OK;
    for (size_t i = 0; status == SIM_OK && i < study->input_count; i++) {
        status = hash_file(study->inputs[i], &hash, error);
    }
    for (size_t i = 0; status == SIM_OK && i < bench->device_count; i++) {
        const struct open_device *device = &bench->devices[i];
        const struct chip_profile *chip = reckon_device_chip(device->open);
        status = hash_profile("devices", "device", device->device, &hash, error);
        if (status == SIM_OK) {
            status = hash_profile("devices/nodes", "node", device->node != NULL ? device->node : chip->node, &hash, error);
        }
        status = status == SIM_OK ? hash_profile("devices/hosts", "host", chip->host, &hash, error) : status;
    }
    for (size_t i = 0; status == SIM_OK && i < study_point_count(study); i++) {
        struct study_point point;
        study_point_at(study, i, &point);
        for (size_t k = 0; status == SIM_OK && k < point.setting_count; k++) {
            if (strcmp(point.keys[k], "plan") != 0) {
                continue;
            }
            char setting[1024];
            study_setting(study, &point, k, setting, sizeof setting);
            const char *file = setting + strlen("plan=");
            if (access(file, R_OK) == 0) {
                status = hash_file(file, &hash, error);
            }
        }
    }
    snprintf(text, IDENTITY_CAPACITY, "%016llx", (unsigned long long)hash);
    return status;
}

static enum sim_status open_devices(struct sweep_bench *bench, struct sim_error *error)
{
    size_t count = study_point_count(bench->study);
    enum sim_status status = SIM_OK;
    for (size_t i = 0; status == SIM_OK && i < count; i++) {
        struct study_point point;
        study_point_at(bench->study, i, &point);
        if (device_of(bench, &point) == NULL) {
            struct open_device *grown = realloc(bench->devices, (bench->device_count + 1) * sizeof *grown);
            SIM_ASSERT(grown != NULL, "no memory for devices");
            bench->devices = grown;
            grown[bench->device_count] = (struct open_device){ point.device, point.node, NULL };
            status = reckon_device_open(bench->reckon, point.device, point.node, &grown[bench->device_count].open, error);
            bench->device_count += status == SIM_OK;
        }
    }
    return status;
}

static enum sim_status open_session(struct sweep_bench *bench, struct sim_error *error)
{
    char shared[256];
    struct reckon_options options = bench->options->session;
    bool many = mpi_rank_count() > 1;
    options.jobs = 1; /* of a session: workers do not fork again */
    options.progress = NULL;
    mpi_shared_name(shared, sizeof shared);
    enum sim_status status = reckon_create(&options, &bench->reckon, error);
    if (status == SIM_OK) {
        status = reckon_share_prices(bench->reckon, many ? shared : NULL, SHARED_PRICES, error);
    }
    if (many) {
        mpi_meet();
        if (mpi_is_first_here()) {
            unlink(shared);
        }
    }
    if (status == SIM_OK) {
        status = reckon_source_open(bench->reckon, (const char *const *)bench->study->inputs, bench->study->input_count,
                                   bench->study->is_model ? 0 : bench->study->batch, &bench->input, error);
    }
    return status == SIM_OK ? open_devices(bench, error) : status;
}

static enum sim_status open_store(struct sweep_bench *bench, struct sim_error *error)
{
    char options[IDENTITY_CAPACITY], basis[IDENTITY_CAPACITY];
    const struct reckon_options *session = &bench->options->session;
    struct store_identity identity = { bench->options->program, bench->study->text, options, basis };
    snprintf(options, sizeof options, "seed %llu, chip engine %s, flow engine %s", (unsigned long long)session->seed,
             session->chip_reference ? "reference" : "fast", session->fabric_simgrid ? "simgrid" : "fluid");
    enum sim_status status = hash_basis(bench, basis, error);
    return status == SIM_OK ? store_open(bench->options->database, bench->study, &identity, &bench->store, error) : status;
}

static enum sim_status open_bench(struct sweep_bench *bench, struct sim_error *error)
{
    enum sim_status status = open_session(bench, error);
    if (status == SIM_OK && mpi_rank() == 0) {
        status = open_store(bench, error);
    }
    if (!mpi_agree(status == SIM_OK) && status == SIM_OK) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "another rank could not start: it says why");
    }
    return status;
}

static void close_bench(struct sweep_bench *bench)
{
    pool_destroy(bench->pool);
    store_close(bench->store);
    for (size_t i = 0; i < bench->device_count; i++) {
        reckon_device_close(bench->devices[i].open);
    }
    for (size_t i = 0; bench->records != NULL && i < study_point_count(bench->study); i++) {
        free(bench->records[i]);
    }
    free(bench->records);
    free(bench->devices);
    reckon_source_close(bench->input);
    reckon_destroy(bench->reckon);
}

/* ---- the run */

static void collect(struct sweep_bench *bench, size_t before, struct sweep_result *result)
{
    size_t count = study_point_count(bench->study);
    size_t *group = malloc((count + 1) * sizeof *group);
    result->points = count;
    result->before = before;
    result->now = bench->now;
    result->asked = bench->progress.asked;
    result->found = bench->progress.found;
    result->records = calloc(count + 1, sizeof *result->records);
    result->front = calloc(count + 1, sizeof(bool));
    result->device_front = calloc(count + 1, sizeof(bool));
    SIM_ASSERT(group != NULL && result->records != NULL && result->front != NULL && result->device_front != NULL,
               "no memory for %zu records", count);
    for (size_t i = 0; i < count; i++) {
        struct study_point point;
        if (bench->records[i] == NULL) {
            continue;
        }
        study_point_at(bench->study, i, &point);
        size_t d = 0;
        while (strcmp(bench->devices[d].device, point.device) != 0) {
            d++;
        }
        group[result->record_count] = d;
        result->records[result->record_count++] = *bench->records[i];
        result->feasible += bench->records[i]->status == RECORD_FEASIBLE;
        result->infeasible += bench->records[i]->status == RECORD_INFEASIBLE;
    }
    const struct study *study = bench->study;
    pareto_front(result->records, NULL, result->record_count, study->objectives, study->objective_count, result->front);
    pareto_front(result->records, group, result->record_count, study->objectives, study->objective_count, result->device_front);
    free(group);
    result->best = SIZE_MAX;
    uint32_t best = study->has_search ? search_best(study, bench) : UINT32_MAX;
    for (size_t i = 0; i < result->record_count; i++) {
        result->best = result->records[i].point == best ? i : result->best;
    }
}

/* The fronts' points and a search's best, one after the other, each with all workers. */
static enum sim_status sample_fronts(struct sweep_bench *bench, struct sweep_result *result, struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    size_t wanted = 0;
    result->step_ms = malloc((result->record_count + 1) * sizeof *result->step_ms);
    SIM_ASSERT(result->step_ms != NULL, "no memory for %zu intervals", result->record_count);
    for (size_t r = 0; r < result->record_count; r++) {
        wanted += result->front[r] || result->device_front[r] || r == result->best;
    }
    reckon_set_jobs(bench->reckon, bench->options->session.jobs);
    for (size_t r = 0; status == SIM_OK && r < result->record_count; r++) {
        struct study_point point;
        struct asked_point asked;
        struct reckon_doubts *doubts = NULL;
        result->step_ms[r] = (struct sweep_interval){ NAN, NAN, NAN };
        if (!result->front[r] && !result->device_front[r] && r != result->best) {
            continue;
        }
        study_point_at(bench->study, result->records[r].point, &point);
        ask_point(bench->study, &point, &asked);
        status = reckon_point_doubts(bench->reckon, device_of(bench, &point), bench->input, &asked.request, bench->options->samples,
                                     SAMPLE_WORK / (double)wanted, &doubts, error);
        if (status == SIM_OK) {
            result->step_ms[r] = (struct sweep_interval){ doubts->time[0].median, doubts->time[0].low, doubts->time[0].high };
        }
        reckon_doubts_free(doubts);
        tell(bench);
    }
    return status;
}

/* Fronts by point number, as the store has them. */
static enum sim_status finish(struct sweep_bench *bench, const struct sweep_result *result, struct sim_error *error)
{
    size_t count = study_point_count(bench->study);
    bool *front = calloc(2 * count + 1, sizeof *front);
    SIM_ASSERT(front != NULL, "no memory for %zu points", count);
    for (size_t i = 0; i < result->record_count; i++) {
        front[result->records[i].point] = result->front[i];
        front[count + result->records[i].point] = result->device_front[i];
    }
    enum sim_status status = store_finish(bench->store, front, front + count, count, error);
    free(front);
    return status;
}

static enum sim_status lead(struct sweep_bench *bench, struct sweep_result *result, struct sim_error *error)
{
    const struct study *study = bench->study;
    struct pool_work work = { work_on, bench, sizeof(struct study_record), begin_work };
    size_t before = store_count(bench->store), total = study_point_count(study);
    uint32_t jobs = mpi_is_running() ? 1 : bench->options->session.jobs;
    bench->progress.total = study->has_search && study->search_evaluations < total ? study->search_evaluations : total;
    bench->records = calloc(total + 1, sizeof *bench->records);
    SIM_ASSERT(bench->records != NULL, "no memory for %zu points", total);
    bench->started = seconds_now();
    enum sim_status status = pool_create(jobs, &work, &bench->pool, error);
    if (status == SIM_OK) {
        status = study->has_search ? search_run(study, bench, error) : try_all(bench, error);
    }
    mpi_dismiss();
    if (status == SIM_OK) {
        collect(bench, before, result);
        result->seconds = seconds_now() - bench->started;
        if (!store_is_finished(bench->store) || bench->now > 0) {
            status = finish(bench, result, error);
        }
        if (status == SIM_OK && bench->options->samples > 0) {
            status = sample_fronts(bench, result, error);
        }
    }
    return status;
}

enum sim_status sweep_run(const struct study *study, const struct sweep_options *options, struct sweep_result *result,
                          struct sim_error *error)
{
    struct sweep_bench bench = { .study = study, .options = options };
    *result = (struct sweep_result){ .is_first = mpi_rank() == 0, .best = SIZE_MAX };
    enum sim_status status = open_bench(&bench, error);
    if (status == SIM_OK && result->is_first) {
        status = lead(&bench, result, error);
    } else if (status == SIM_OK) {
        mpi_serve(work_on, &bench, sizeof(struct study_record));
    }
    close_bench(&bench);
    return status;
}

void sweep_result_finish(struct sweep_result *result)
{
    free(result->records);
    free(result->front);
    free(result->device_front);
    free(result->step_ms);
    *result = (struct sweep_result){ 0 };
}
