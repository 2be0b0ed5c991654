#include "sim/step/parallel.h"
#include "sim/core/worker_process.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct board { /* shared by all workers of one run */
    atomic_size_t next, done;
};

void *parallel_share(size_t bytes)
{
    void *memory = mmap(NULL, bytes == 0 ? 1 : bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                        0);
    return memory == MAP_FAILED ? NULL : memory;
}

void parallel_unshare(void *memory, size_t bytes)
{
    if (memory != NULL) {
        munmap(memory, bytes == 0 ? 1 : bytes);
    }
}

uint32_t parallel_default_jobs(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        return (uint32_t)CPU_COUNT(&set);
    }
    return 1;
}

static void work(struct board *board, size_t count, void (*task)(void *, size_t), void *context)
{
    for (;;) {
        size_t index = atomic_fetch_add(&board->next, 1);
        if (index >= count) {
            return;
        }
        task(context, index);
        atomic_fetch_add(&board->done, 1);
    }
}

static void run_here(size_t count, void (*task)(void *, size_t), void *context,
                     void (*tick)(void *, size_t, size_t), void *tick_context)
{
    for (size_t i = 0; i < count; i++) {
        if (tick != NULL) {
            tick(tick_context, i, count);
        }
        task(context, i);
    }
}

static void wait_for(pid_t *workers, uint32_t started, const struct board *board, size_t count,
                     void (*tick)(void *, size_t, size_t), void *tick_context)
{
    uint32_t running = started;
    while (running > 0) {
        for (uint32_t w = 0; w < started; w++) {
            int state = 0;
            if (workers[w] <= 0 || waitpid(workers[w], &state, WNOHANG) != workers[w]) {
                continue;
            }
            workers[w] = 0;
            running--;
            if (!WIFEXITED(state) || WEXITSTATUS(state) != 0) {
                if (WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL) { /* the others say what it was before they end */
                    fputs("reckon: internal error: a worker process was killed, most likely for memory (--jobs=1 needs least)\n", stderr);
                }
                for (uint32_t k = 0; k < started; k++) { /* the others' results are not wanted any more */
                    if (workers[k] > 0) {
                        kill(workers[k], SIGTERM);
                        waitpid(workers[k], NULL, 0);
                    }
                }
                abort();
            }
        }
        if (tick != NULL) {
            tick(tick_context, atomic_load(&board->done), count);
        }
        if (running > 0) {
            nanosleep(&(struct timespec){ .tv_nsec = running < started ? 1000000 : 5000000 }, NULL);
        }
    }
}

enum sim_status parallel_run(uint32_t jobs, size_t count, void (*task)(void *context, size_t index),
                             void *context, void (*tick)(void *tick_context, size_t done, size_t count),
                             void *tick_context, struct sim_error *error)
{
    uint32_t wanted = count < jobs ? (uint32_t)count : jobs;
    if (wanted <= 1) {
        run_here(count, task, context, tick, tick_context);
        return SIM_OK;
    }
    struct board *board = parallel_share(sizeof *board);
    pid_t *workers = calloc(wanted, sizeof *workers);
    uint32_t started = 0;
    if (board == NULL || workers == NULL) {
        free(workers);
        parallel_unshare(board, sizeof *board);
        return sim_fail(error, SIM_NO_MEMORY, "no memory for %u workers", wanted);
    }
    fflush(NULL); /* or every worker would print the parent's buffered text again */
    pid_t parent = getpid();
    for (; started < wanted; started++) {
        workers[started] = fork();
        if (workers[started] == 0) {
            worker_process_ends_with(parent);
            work(board, count, task, context);
            fflush(stderr);
            free(workers); /* the parent's list, of no use here */
            _exit(0);
        }
        if (workers[started] < 0) {
            break;
        }
    }
    if (started > 0) {
        wait_for(workers, started, board, count, tick, tick_context);
    }
    free(workers);
    parallel_unshare(board, sizeof *board);
    return started > 0 ? SIM_OK
                       : sim_fail(error, SIM_NO_MEMORY, "no worker could be started: %s", strerror(errno));
}
