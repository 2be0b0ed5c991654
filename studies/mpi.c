#include "studies/mpi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool under_mpirun(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMI_RANK") != NULL || getenv("PMIX_RANK") != NULL;
}

#ifdef RECKON_MPI
#include <mpi.h>

#define TAG_RECORD 1 /* worker to rank 0; empty at first */
#define TAG_TASK 2   /* rank 0 to worker */
#define NO_TASK UINT32_MAX

/* Known from MPI itself, which is one a process; `waiting` are ranks that have sent their record and got no task yet. */
static struct {
    bool begun;
    int rank, count, here;
    MPI_Comm machine;
    int *waiting;
    int waiting_count;
} run;

bool mpi_begin(void)
{
    if (!under_mpirun() || run.begun) {
        return true;
    }
    int given = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run.count);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, run.rank, MPI_INFO_NULL, &run.machine);
    MPI_Comm_rank(run.machine, &run.here);
    run.waiting = calloc((size_t)run.count, sizeof *run.waiting);
    run.begun = true;
    return true;
}

void mpi_end(void)
{
    if (run.begun) {
        MPI_Comm_free(&run.machine);
        MPI_Finalize();
        free(run.waiting);
        memset(&run, 0, sizeof run);
    }
}

bool mpi_is_running(void)
{
    return run.begun;
}

uint32_t mpi_rank(void)
{
    return run.begun ? (uint32_t)run.rank : 0;
}

uint32_t mpi_rank_count(void)
{
    return run.begun ? (uint32_t)run.count : 1;
}

void mpi_shared_name(char *path, size_t capacity)
{
    int process = (int)getpid();
    if (run.begun) {
        MPI_Bcast(&process, 1, MPI_INT, 0, run.machine);
    }
    snprintf(path, capacity, "/dev/shm/reckon_prices_%d", process);
}

bool mpi_is_first_here(void)
{
    return !run.begun || run.here == 0;
}

void mpi_meet(void)
{
    if (run.begun) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

bool mpi_agree(bool fine)
{
    int all = fine;
    if (run.begun) {
        int mine = fine;
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    return all;
}

bool mpi_rank_waits(uint32_t *rank)
{
    bool waits = run.begun && run.waiting_count > 0;
    *rank = waits ? (uint32_t)run.waiting[run.waiting_count - 1] : 0;
    return waits;
}

void mpi_hand_out(uint32_t task)
{
    int rank = run.waiting[--run.waiting_count];
    MPI_Send(&task, 1, MPI_UINT32_T, rank, TAG_TASK, MPI_COMM_WORLD);
}

bool mpi_collect(void *record, size_t record_bytes, bool *has_record)
{
    int there = 0, bytes = 0;
    MPI_Status status;
    *has_record = false;
    while (run.begun && run.count > 1) {
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_RECORD, MPI_COMM_WORLD, &there, &status);
        if (!there) {
            return false;
        }
        MPI_Recv(record, (int)record_bytes, MPI_BYTE, status.MPI_SOURCE, TAG_RECORD, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        run.waiting[run.waiting_count++] = status.MPI_SOURCE;
        if (bytes > 0) {
            *has_record = true;
            return true;
        }
    }
    return false;
}

void mpi_dismiss(void)
{
    uint32_t none = NO_TASK;
    for (int rank = 1; run.begun && rank < run.count; rank++) {
        MPI_Send(&none, 1, MPI_UINT32_T, rank, TAG_TASK, MPI_COMM_WORLD);
    }
}

void mpi_serve(void (*work)(void *context, uint32_t task, void *record), void *context, size_t record_bytes)
{
    void *record = calloc(1, record_bytes);
    uint32_t task = NO_TASK;
    int bytes = 0;
    for (;;) {
        MPI_Send(record, bytes, MPI_BYTE, 0, TAG_RECORD, MPI_COMM_WORLD);
        MPI_Recv(&task, 1, MPI_UINT32_T, 0, TAG_TASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (task == NO_TASK) {
            break;
        }
        work(context, task, record);
        bytes = (int)record_bytes;
    }
    free(record);
}

#else

bool mpi_begin(void)
{
    return !under_mpirun();
}

void mpi_end(void)
{
}

bool mpi_is_running(void)
{
    return false;
}

uint32_t mpi_rank(void)
{
    return 0;
}

uint32_t mpi_rank_count(void)
{
    return 1;
}

void mpi_shared_name(char *path, size_t capacity)
{
    snprintf(path, capacity, "%s", "");
}

bool mpi_is_first_here(void)
{
    return true;
}

void mpi_meet(void)
{
}

bool mpi_agree(bool fine)
{
    return fine;
}

bool mpi_rank_waits(uint32_t *rank)
{
    *rank = 0;
    return false;
}

void mpi_hand_out(uint32_t task)
{
    (void)task;
}

bool mpi_collect(void *record, size_t record_bytes, bool *has_record)
{
    (void)record;
    (void)record_bytes;
    *has_record = false;
    return false;
}

void mpi_dismiss(void)
{
}

void mpi_serve(void (*work)(void *context, uint32_t task, void *record), void *context, size_t record_bytes)
{
    (void)work;
    (void)context;
    (void)record_bytes;
}
#endif
