/* Shares of kernels and collectives for the scheduler, and measured rows of two streams side by side, which the scheduler
 * alone must explain: suites
 *   overlap    gemm_plus_copy, params copies: a GEMM of 8192^3 (bf16) beside copies of 512 MiB on another stream
 *   overlap2   KIND_gemm, KIND_lookup, KIND_copy, params mb, calls, reps: `calls` collectives of `mb` MiB a rank in a row
 *              beside `reps` x 4 GEMMs (8192^3), embedding lookups (4 Mi ids of 128 floats in bags of 32) or copies (1 GiB)
 * Source of what ran: calib/data/h200/source/kernels.py (overlap), overlap2.py. */
#ifndef SIM_STEP_OVERLAP_H
#define SIM_STEP_OVERLAP_H
#include "sim/step/schedule.h"
#include "sim/step/session.h"

/* What a priced kernel, or a collective, takes of the device beside others. HBM shares are of the rate that copying
 * kernels reach (node profile, memory.rate), not of the bus. */
struct step_price step_price_of_kernel(const struct reckon_device *device, const struct kernel_price *price);
struct step_price step_price_of_collective(const struct reckon_device *device,
                                           const struct collective_result *result);

/* Bytes from rank to rank of an all_to_all whose ranks send uneven amounts, [group_size][group_size] in order of their ranks;
 * NULL: another collective, or even as far as the ranks given tell. Ranks that are not given send the mean of the others,
 * evenly. Aborts if memory is short; the caller frees. O(nodes). */
double *step_collective_splits(const struct graph *graph, const struct graph_node *node);

bool overlap_rows_cover(const char *suite, const char *kernel);

/* Parts of a row's answer [us]. Alone: each stream by itself. together: from the host's first call to the last end. */
struct overlap_times {
    double together_us, first_alone_us, second_alone_us;
};

/* Errors: unknown suite, kernel or parameter, missing parameter, counts that are not whole or absurd; what pricing says. */
enum sim_status overlap_row_time(const struct reckon *reckon, const struct reckon_device *device,
                                 const char *suite, const char *kernel, const char *params,
                                 const struct harness_profile *harness, struct overlap_times *times,
                                 struct sim_error *error);

#endif
