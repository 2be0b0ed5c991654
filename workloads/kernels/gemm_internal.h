/* What the files of the matrix products share: a chosen tile becomes a wave program. */
#ifndef WORKLOADS_KERNELS_GEMM_INTERNAL_H
#define WORKLOADS_KERNELS_GEMM_INTERNAL_H
#include "workloads/kernels/gemm_select.h"

struct gemm_launch {
    struct gemm_problem problem;
    struct gemm_tile tile;
    uint64_t workgroups; /* of the grid; 0: by rule */
    bool bias;
    bool own_cache; /* the caches hold what the call before left, else a predecessor's unrelated dirty lines */
};

/* The product alone; parts of K are left as fp32 partial results (tensor "c"). */
struct wave_program *gemm_program_create(const struct gemm_machine *machine, const struct gemm_launch *launch);

/* The order of tiles along a Hilbert curve, `rows` x `columns` of them: position -> row * columns + column. Owned by the
 * caller; O(rows x columns). */
uint32_t *gemm_curve_create(uint64_t rows, uint64_t columns);
#define GEMM_CURVE_TILES_MAX (1u << 20)

#endif
