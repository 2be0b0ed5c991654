#include "calib/workers.h"
#include "sim/core/status.h"
#include "sim/core/worker_process.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void *workers_share(size_t bytes)
{
    void *memory = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    SIM_ASSERT(memory != MAP_FAILED, "no memory for %zu shared bytes", bytes);
    return memory;
}

void workers_unshare(void *memory, size_t bytes)
{
    if (memory != NULL) {
        munmap(memory, bytes + 1);
    }
}

static void work(atomic_size_t *next, size_t count, void (*task)(void *, size_t), void *context)
{
    for (size_t i; (i = atomic_fetch_add(next, 1)) < count;) {
        task(context, i);
    }
}

void workers_run(uint32_t jobs, size_t count, void (*task)(void *context, size_t index), void *context)
{
    atomic_size_t *next = workers_share(sizeof *next);
    uint32_t started = 0;
    pid_t parent = getpid();
    fflush(NULL); /* or every worker would print buffered text again */
    for (; started + 1 < jobs && started + 1 < count; started++) {
        pid_t worker = fork();
        if (worker == 0) {
            worker_process_ends_with(parent);
            work(next, count, task, context);
            _exit(0);
        }
        if (worker < 0) {
            break;
        }
    }
    work(next, count, task, context);
    for (uint32_t w = 0; w < started; w++) {
        int state = 0;
        pid_t worker = wait(&state);
        SIM_ASSERT(worker > 0 && WIFEXITED(state) && WEXITSTATUS(state) == 0, "worker %d died", (int)worker);
    }
    workers_unshare(next, sizeof *next);
}

uint32_t workers_jobs(uint32_t wanted)
{
    cpu_set_t set;
    if (wanted > 0) {
        return wanted;
    }
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}
