/* A sweep over the ranks of an MPI run: rank 0 keeps the store and hands out points, the others work. Without MPI in the build, or
 * without mpirun around it, there is one rank. The one door to MPI is mpi.c. */
#ifndef STUDIES_MPI_H
#define STUDIES_MPI_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Join the run, if there is one; once. False: started by mpirun, but built without MPI. */
bool mpi_begin(void);
void mpi_end(void);
bool mpi_is_running(void);
uint32_t mpi_rank(void);
uint32_t mpi_rank_count(void);

/* A name for a file that the ranks of this machine share, the same on all of them; the first of them (mpi_is_first_here) removes
 * the file when mpi_meet says that all have it open. */
void mpi_shared_name(char *path, size_t capacity);
bool mpi_is_first_here(void);
void mpi_meet(void);
bool mpi_agree(bool fine); /* whether all ranks are */

/* Rank 0. Whether a rank waits for a task, and which: hand_out gives it one. collect takes one record if there is one. */
bool mpi_rank_waits(uint32_t *rank);
void mpi_hand_out(uint32_t task);
bool mpi_collect(void *record, size_t record_bytes, bool *has_record);
void mpi_dismiss(void); /* all other ranks; their last records must have been taken */

/* Other ranks: run(context, task, record) until dismissed. */
void mpi_serve(void (*run)(void *context, uint32_t task, void *record), void *context, size_t record_bytes);

#endif
