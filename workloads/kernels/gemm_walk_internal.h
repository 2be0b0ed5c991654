/* Which workgroup has which tile, and which step of K comes when: the walk that the wave program of a product follows. */
#ifndef WORKLOADS_KERNELS_GEMM_WALK_INTERNAL_H
#define WORKLOADS_KERNELS_GEMM_WALK_INTERNAL_H
#include "workloads/kernels/gemm_internal.h"

/* One operand in memory: `k_major` rows run along K. */
struct gemm_operand {
    uint64_t base, pitch, batch_stride; /* elements */
    bool k_major;
};

struct gemm { /* the program's context; read-only while it runs */
    uint64_t m, n, k, batch;
    struct gemm_tile tile;
    struct gemm_operand a, b;
    uint64_t c;       /* first address of the result, or of the partial results of split tiles */
    uint64_t partial; /* of what stream-K workgroups leave, one tile each */
    uint32_t bytes, c_bytes;
    uint64_t steps;                         /* of K per item; of a whole tile where stream_k */
    uint64_t clusters_m, clusters_n, items; /* items: clusters of tiles, over batch and split */
    size_t group_count;                     /* of a grouped product; 0: not grouped */
    const uint64_t *group_end, *group_tiles; /* rows, and rows of clusters, up to the end of each group; the program's */
    uint64_t workgroups, trips;             /* trips: most steps of a workgroup */
    bool adds_up;                           /* K is split and the workgroup with the last part adds up */
    uint64_t parts;                         /* tiles of partial results */
    uint64_t groups;                        /* compute groups that workgroups are dealt to in turn */
    uint32_t *curve;                        /* of GEMM_MAP_CURVE: position -> row * clusters_n + column; the program's */
    uint32_t waves, lanes;
    enum gemm_style style;
    uint8_t dtype;
    uint64_t step_flops; /* matrix work of a wave in a step */
    uint32_t step_issue, step_valu, step_lds;
    uint32_t store_valu;
    uint16_t setup, step_latency, drain; /* cycles that a wave waits: before its first load, in a step, for its result to leave */
};

struct gemm_item {
    uint64_t batch, split, row, column; /* of the tile: first row and column; batch: which B */
    uint64_t row_end;                   /* of its product */
    uint32_t rank_m, rank_n;            /* in its cluster */
};

struct gemm_step {
    struct gemm_item item;
    uint64_t k, k_count;
    bool last;             /* the tile, or this workgroup's part of it, ends here */
    bool part_of_tile;     /* ... and another workgroup has its end (stream-K, or K split and added up in the kernel) */
    uint64_t run;          /* where its part lies; those of a tile lie one after the other */
    uint64_t parts_before; /* parts of the tile that ends here which others left */
};

/* Prefix sums of the groups of a grouped product, group_count x 2; owned by the caller. */
uint64_t *gemm_groups_create(struct gemm *gemm, const struct gemm_problem *problem);
/* Fixes clusters, steps, grid and order. workgroups 0: by rule. */
void gemm_walk_init(struct gemm *gemm, const struct gemm_machine *machine, const struct gemm_problem *problem,
                    uint64_t workgroups);
/* Where step `trip` of a workgroup is; false for a step that does not exist (a short last split, a missing item). */
bool gemm_step_of(const struct gemm *gemm, uint64_t workgroup, uint64_t trip, struct gemm_step *step);
/* Steps of all workgroups. */
uint64_t gemm_steps_total(const struct gemm *gemm);
/* Some workgroups have a tile more than others. */
bool gemm_is_uneven(const struct gemm *gemm);

#endif
