/* See the header. Workers read files in order, at most `window` ahead of the one taken, so that memory is bounded by as many
 * files' events as there are processors; what is read does not depend on how many there are. */
#include "workloads/trace/rank_files_internal.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 64

struct rank_files {
    char **paths;
    size_t path_count;
    struct rank_input *inputs;
    bool *done;
    size_t count;
    int32_t step;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t next, released, window; /* under the lock */
    bool stop;
    pthread_t threads[THREADS_MAX];
    size_t thread_count;
};

/* ---- reading one ----------------------------------------------------------------------------------------------- */

static void read_execution_trace(struct rank_input *input)
{
    struct execution_trace *trace = NULL;
    input->status = execution_trace_read(input->path, &trace, &input->error);
    if (input->status == SIM_OK) {
        memcpy(input->schema, trace->schema, sizeof input->schema);
        input->status = execution_trace_synthesise(trace, &input->trace, &input->error);
    }
    execution_trace_destroy(trace);
}

/* Operators are joined to an execution trace by their place among all of a name: that takes the whole file. */
static void read_profile(struct rank_input *input, int32_t step)
{
    input->status = input->execution_path != NULL ? trace_file_read(input->path, &input->trace, &input->error)
                                                  : trace_file_read_step(input->path, step, &input->trace, &input->error);
    if (input->status != SIM_OK || input->execution_path == NULL) {
        return;
    }
    struct execution_trace *trace = NULL;
    input->status = execution_trace_read(input->execution_path, &trace, &input->error);
    if (input->status == SIM_OK) {
        memcpy(input->schema, trace->schema, sizeof input->schema);
        input->joined = execution_trace_join(trace, input->trace, &input->considered);
    }
    execution_trace_destroy(trace);
}

static void read_input(struct rank_input *input, int32_t step)
{
    switch (input->kind) {
    case INPUT_EXECUTION_TRACE: read_execution_trace(input); break;
    case INPUT_CHAKRA: input->status = chakra_read(input->path, &input->chakra, &input->error); break;
    case INPUT_CHAKRA_JSON: input->status = chakra_json_read(input->path, &input->chakra, &input->error); break;
    case INPUT_ROCPROF: input->status = rocprof_file_read(input->path, &input->trace, &input->error); break;
    default: read_profile(input, step); break;
    }
}

static void free_input(struct rank_input *input)
{
    trace_file_destroy(input->trace);
    chakra_file_destroy(input->chakra);
    input->trace = NULL;
    input->chakra = NULL;
}

/* ---- reading ahead --------------------------------------------------------------------------------------------- */

static void *work(void *context)
{
    struct rank_files *files = context;
    pthread_mutex_lock(&files->lock);
    while (!files->stop && files->next < files->count) {
        if (files->next >= files->released + files->window) {
            pthread_cond_wait(&files->changed, &files->lock);
            continue;
        }
        size_t index = files->next++;
        pthread_mutex_unlock(&files->lock);
        read_input(&files->inputs[index], files->step);
        pthread_mutex_lock(&files->lock);
        files->done[index] = true;
        pthread_cond_broadcast(&files->changed);
    }
    pthread_mutex_unlock(&files->lock);
    return NULL;
}

static void start_threads(struct rank_files *files)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = processors < 1 ? 1 : (size_t)processors > THREADS_MAX ? THREADS_MAX : (size_t)processors;
    files->window = wanted;
    while (files->count > 1 && files->thread_count < wanted && files->thread_count < files->count &&
           pthread_create(&files->threads[files->thread_count], NULL, work, files) == 0) {
        files->thread_count++;
    }
}

enum sim_status rank_files_take(struct rank_files *files, size_t index, struct rank_input **out, struct sim_error *error)
{
    struct rank_input *input = &files->inputs[index];
    if (files->thread_count == 0) {
        read_input(input, files->step);
    } else {
        pthread_mutex_lock(&files->lock);
        while (!files->done[index]) {
            pthread_cond_wait(&files->changed, &files->lock);
        }
        pthread_mutex_unlock(&files->lock);
    }
    *out = input;
    return input->status == SIM_OK ? SIM_OK : sim_fail(error, input->status, "%s", input->error.text);
}

void rank_files_release(struct rank_files *files, size_t index)
{
    free_input(&files->inputs[index]);
    pthread_mutex_lock(&files->lock);
    files->released = index + 1;
    pthread_cond_broadcast(&files->changed);
    pthread_mutex_unlock(&files->lock);
}

/* ---- which files are ranks ------------------------------------------------------------------------------------- */

/* The profiler trace that an execution trace belongs to: the only one, or that of its rank by name. */
static size_t partner_of(const struct rank_files *files, size_t index, size_t profiles, size_t executions)
{
    int64_t rank = input_rank_of_name(files->inputs[index].path);
    for (size_t i = 0; i < files->path_count; i++) {
        const struct rank_input *other = &files->inputs[i];
        if (other->kind != INPUT_KINETO || other->execution_path != NULL) {
            continue;
        }
        if ((profiles == 1 && executions == 1) || (rank >= 0 && input_rank_of_name(other->path) == rank)) {
            return i;
        }
    }
    return files->path_count;
}

static void pair_files(struct rank_files *files)
{
    size_t profiles = 0, executions = 0;
    for (size_t i = 0; i < files->path_count; i++) {
        profiles += files->inputs[i].kind == INPUT_KINETO;
        executions += files->inputs[i].kind == INPUT_EXECUTION_TRACE;
    }
    for (size_t i = 0; i < files->path_count; i++) {
        struct rank_input *input = &files->inputs[i];
        size_t partner = input->kind == INPUT_EXECUTION_TRACE ? partner_of(files, i, profiles, executions)
                                                              : files->path_count;
        if (partner < files->path_count) {
            files->inputs[partner].execution_path = input->path;
            input->path = NULL;
        }
    }
    for (size_t i = 0; i < files->path_count; i++) {
        if (files->inputs[i].path != NULL) {
            files->inputs[files->count++] = files->inputs[i];
        }
    }
}

enum sim_status rank_files_open(const char *const *paths, size_t path_count, int32_t step, struct rank_files **out,
                                struct sim_error *error)
{
    *out = NULL;
    if (path_count == 0) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "no trace file given");
    }
    struct rank_files *files = calloc(1, sizeof *files);
    SIM_ASSERT(files != NULL, "out of memory");
    files->step = step;
    pthread_mutex_init(&files->lock, NULL);
    pthread_cond_init(&files->changed, NULL);
    enum sim_status status = input_files_list(paths, path_count, &files->paths, &files->path_count, error);
    files->inputs = calloc(files->path_count + 1, sizeof *files->inputs);
    files->done = calloc(files->path_count + 1, sizeof *files->done);
    SIM_ASSERT(files->inputs != NULL && files->done != NULL, "out of memory");
    for (size_t i = 0; i < files->path_count && status == SIM_OK; i++) {
        files->inputs[i].path = files->paths[i];
        status = input_kind_of(files->paths[i], &files->inputs[i].kind, error);
    }
    if (status != SIM_OK) {
        rank_files_close(files);
        return status;
    }
    pair_files(files);
    start_threads(files);
    *out = files;
    return SIM_OK;
}

void rank_files_close(struct rank_files *files)
{
    if (files == NULL) {
        return;
    }
    pthread_mutex_lock(&files->lock);
    files->stop = true;
    pthread_cond_broadcast(&files->changed);
    pthread_mutex_unlock(&files->lock);
    for (size_t i = 0; i < files->thread_count; i++) {
        pthread_join(files->threads[i], NULL);
    }
    for (size_t i = 0; i < files->count; i++) {
        free_input(&files->inputs[i]);
    }
    pthread_cond_destroy(&files->changed);
    pthread_mutex_destroy(&files->lock);
    input_files_free(files->paths, files->path_count);
    free(files->inputs);
    free(files->done);
    free(files);
}

size_t rank_files_count(const struct rank_files *files)
{
    return files->count;
}

const char *rank_files_path(const struct rank_files *files, size_t index)
{
    return files->inputs[index].path;
}
