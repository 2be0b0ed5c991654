#include "studies/pool.h"
#include "studies/mpi.h"
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define IDLE_MS 100
#define IDLE_MPI_MS 1 /* ranks cannot wake a poll */
#define NO_TASK UINT32_MAX

struct worker {
    pid_t pid;
    int socket;
    uint32_t task; /* NO_TASK: idle */
};

/* A worker has one task at most. */
struct pool {
    struct pool_work work;
    uint32_t count;
    struct worker *workers;
    void *record;
};

static bool read_all(int file, void *data, size_t bytes)
{
    for (char *at = data; bytes > 0;) {
        ssize_t got = read(file, at, bytes);
        if (got <= 0) {
            if (got < 0 && errno == EINTR) {
                continue;
            }
            return false;
        }
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool write_all(int file, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        ssize_t put = send(file, at, bytes, MSG_NOSIGNAL);
        if (put < 0) {
            if (errno == EINTR) {
                continue;
            }
            return false;
        }
        at += put;
        bytes -= (size_t)put;
    }
    return true;
}

_Noreturn static void serve(const struct pool_work *work, int file, pid_t parent)
{
    uint32_t task;
    void *record = calloc(1, work->record_bytes);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || record == NULL) {
        _exit(3);
    }
    if (work->begin != NULL) {
        work->begin(work->context);
    }
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the most it takes: what one simulation frees, the next one has as it is */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    while (read_all(file, &task, sizeof task)) {
        work->run(work->context, task, record);
        if (!write_all(file, record, work->record_bytes)) {
            break;
        }
    }
    fflush(stderr);
    _exit(0);
}

static bool start(struct pool *pool, struct worker *worker)
{
    int ends[2];
    pid_t parent = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return false;
    }
    fflush(NULL);
    worker->pid = fork();
    if (worker->pid == 0) {
        for (uint32_t w = 0; w < pool->count; w++) {
            close(pool->workers[w].socket);
        }
        close(ends[0]);
        serve(&pool->work, ends[1], parent);
    }
    close(ends[1]);
    if (worker->pid < 0) {
        close(ends[0]);
        return false;
    }
    worker->socket = ends[0];
    worker->task = NO_TASK;
    return true;
}

enum sim_status pool_create(uint32_t jobs, const struct pool_work *work, struct pool **out, struct sim_error *error)
{
    struct pool *pool = calloc(1, sizeof *pool);
    *out = NULL;
    SIM_ASSERT(pool != NULL, "no memory for a pool");
    pool->work = *work;
    pool->workers = calloc(jobs, sizeof *pool->workers);
    pool->record = calloc(1, work->record_bytes);
    SIM_ASSERT(pool->workers != NULL && pool->record != NULL, "no memory for %u workers", jobs);
    while (pool->count < jobs && start(pool, &pool->workers[pool->count])) {
        pool->count++;
    }
    if (pool->count == 0) {
        pool_destroy(pool);
        return sim_fail(error, SIM_NO_MEMORY, "no worker could be started: %s", strerror(errno));
    }
    *out = pool;
    return SIM_OK;
}

void pool_destroy(struct pool *pool)
{
    if (pool == NULL) {
        return;
    }
    for (uint32_t w = 0; w < pool->count; w++) {
        close(pool->workers[w].socket);
        if (pool->workers[w].task != NO_TASK) {
            kill(pool->workers[w].pid, SIGKILL); /* its answer is not wanted any more */
        }
        waitpid(pool->workers[w].pid, NULL, 0);
    }
    free(pool->workers);
    free(pool->record);
    free(pool);
}

/* ---- a run */

struct share { /* of the tasks, [next, end): what one worker is still to do */
    size_t next, end;
};

/* Neighbouring tasks have most in common, so a worker is given them in a row; who is out of work takes the second half of what
 * the one with most left has. */
struct pool_run {
    struct pool *pool;
    const uint32_t *tasks;
    size_t count, finished;
    struct share *shares; /* of the workers here, then of the other ranks */
    uint32_t share_count;
    enum sim_status (*done)(void *, const void *, struct sim_error *);
    void *context;
    struct sim_error *error;
};

static enum sim_status died(struct pool_run *run, struct worker *worker)
{
    int state = 0;
    waitpid(worker->pid, &state, 0);
    uint32_t task = worker->task;
    close(worker->socket);
    *worker = run->pool->workers[--run->pool->count];
    return sim_fail(run->error, SIM_NO_MEMORY, "a worker died at point %u (%s %d): what was done before is kept", task,
                    WIFSIGNALED(state) ? "signal" : "exit code", WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state));
}

static void share_out(struct pool_run *run)
{
    run->share_count = run->pool->count + mpi_rank_count() - 1;
    run->shares = calloc(run->share_count, sizeof *run->shares);
    SIM_ASSERT(run->shares != NULL, "no memory for the shares of %u workers", run->share_count);
    for (uint32_t w = 0; w < run->share_count; w++) {
        run->shares[w] = (struct share){ run->count * w / run->share_count, run->count * (w + 1) / run->share_count };
    }
}

static uint32_t next_task(struct pool_run *run, uint32_t who)
{
    struct share *own = &run->shares[who], *most = own;
    for (uint32_t w = 0; own->next == own->end && w < run->share_count; w++) {
        struct share *other = &run->shares[w];
        most = other->end - other->next > most->end - most->next ? other : most;
    }
    if (most != own) {
        size_t half = most->next + (most->end - most->next) / 2;
        *own = (struct share){ half, most->end };
        most->end = half;
    }
    return own->next < own->end ? run->tasks[own->next++] : NO_TASK;
}

static enum sim_status hand_out(struct pool_run *run)
{
    for (uint32_t w = 0; w < run->pool->count; w++) {
        struct worker *worker = &run->pool->workers[w];
        if (worker->task != NO_TASK) {
            continue;
        }
        worker->task = next_task(run, w);
        if (worker->task != NO_TASK && !write_all(worker->socket, &worker->task, sizeof worker->task)) {
            return died(run, worker);
        }
    }
    return SIM_OK;
}

static enum sim_status collect(struct pool_run *run, int wait_ms)
{
    struct pool *pool = run->pool;
    struct pollfd *files = calloc(pool->count, sizeof *files);
    SIM_ASSERT(files != NULL, "no memory to wait for %u workers", pool->count);
    uint32_t count = pool->count;
    enum sim_status status = SIM_OK;
    for (uint32_t w = 0; w < count; w++) {
        files[w] = (struct pollfd){ .fd = pool->workers[w].socket, .events = POLLIN };
    }
    poll(files, count, wait_ms);
    for (uint32_t w = 0; status == SIM_OK && w < count; w++) {
        struct worker *worker = &pool->workers[w];
        if (files[w].revents == 0) {
            continue;
        }
        if (!read_all(worker->socket, pool->record, pool->work.record_bytes)) {
            status = died(run, worker);
        } else {
            worker->task = NO_TASK;
            run->finished++;
            status = run->done(run->context, pool->record, run->error);
        }
    }
    free(files);
    return status;
}

/* Ranks that ask for work, and bring what they have done. */
static enum sim_status serve_ranks(struct pool_run *run)
{
    bool has_record = false;
    enum sim_status status = SIM_OK;
    uint32_t rank = 0, task = 0;
    while (mpi_rank_waits(&rank) && (task = next_task(run, run->pool->count + rank - 1)) != NO_TASK) {
        mpi_hand_out(task);
    }
    while (status == SIM_OK && mpi_collect(run->pool->record, run->pool->work.record_bytes, &has_record) && has_record) {
        run->finished++;
        status = run->done(run->context, run->pool->record, run->error);
    }
    return status;
}

enum sim_status pool_run(struct pool *pool, const uint32_t *tasks, size_t count,
                         enum sim_status (*done)(void *context, const void *record, struct sim_error *error),
                         void (*idle)(void *context), void *context, struct sim_error *error)
{
    struct pool_run run = { .pool = pool, .tasks = tasks, .count = count, .done = done, .context = context, .error = error };
    enum sim_status status = SIM_OK;
    share_out(&run);
    int wait_ms = mpi_rank_count() > 1 ? IDLE_MPI_MS : IDLE_MS;
    while (status == SIM_OK && run.finished < count) {
        status = hand_out(&run);
        status = status == SIM_OK ? serve_ranks(&run) : status;
        status = status == SIM_OK ? collect(&run, wait_ms) : status;
        if (idle != NULL) {
            idle(context);
        }
    }
    free(run.shares);
    return status;
}
