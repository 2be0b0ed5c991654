/* Which tile a matrix product takes, and what it costs: the analytical selector. Pure functions of the device profile's
 * numbers and of the sizes; a selection weighs some hundred candidates in well under a fifth of a millisecond.
 *
 * A candidate is an output tile, its depth in K, how K is split over workgroups and how tiles are dealt to compute groups.
 * Its time is computed level by level: matrix instructions, LDS, the L2 of the tiles that run together, the memory-side
 * cache, HBM. The largest of these per K step counts, with a share of the next; then rounds of tiles over the units,
 * prologue, stores, and the reduction of split tiles.
 * Leaves out: conflicts of addresses, TLB, power; the event-driven model of the same tile has the first. */
#ifndef WORKLOADS_KERNELS_GEMM_SELECT_H
#define WORKLOADS_KERNELS_GEMM_SELECT_H
#include "sim/core/chip_profile.h"
#include "sim/core/wave_program.h"
#include "workloads/kernels/kernel.h"

/* ---- the machine, in core cycles and bytes ---- */
struct gemm_machine {
    double units, groups, units_per_group; /* groups: those that tiles are dealt to in turn; 1 where units are */
    bool private_l2;                       /* one L2 per group, else one for all */
    double simds, lanes, issue_interval, valu_interval;
    double lds_bytes, lds_rate, lds_reserved; /* of a unit */
    double lds_workgroup_max;
    double registers;
    uint32_t accumulators; /* fp32 results a workgroup can hold beside its operands */
    uint32_t instruction_m, instruction_n; /* a tile is a multiple of one in each direction, whichever way round */
    uint32_t stages_max;                   /* K steps of operands that library kernels hold at once */
    bool split_in_kernel;                  /* the workgroup with the last part of K adds up the others', else a launch does */
    bool split_early;                      /* that launch is in place when the product ends */
    bool runs_ahead;                       /* a copy engine fetches the next tile's operands while this one ends */
    uint32_t result_buffers;               /* 2: results have a memory of their own, and one tile leaves beside the next */
    double operand_rows;                   /* rows of the wider operand that one reading of the narrower one from LDS serves */
    uint32_t multicast;                    /* neighbouring units that one load can serve */
    double sustained;                      /* of the matrix rate, operands random, instructions back to back */
    double rate[WAVE_DTYPES];              /* FLOP a cycle and unit; 0 none */
    double fill_rate, store_rate;          /* of a unit, bytes a cycle */
    double l2_rate, mall_rate, hbm_rate;   /* of the package; mall_rate 0: no memory-side cache */
    double l2_bytes, mall_bytes;           /* l2_bytes: of one L2 */
    double l2_slices;                      /* of one L2 */
    double hbm_row_bytes, hbm_row_loss;    /* bytes in a row of a channel, side by side in memory; bytes that opening it costs */
    double l2_latency, mall_latency, hbm_latency;
    double in_flight, line_bytes;          /* most operand bytes that a unit can have asked for, in whole lines */
    double workgroup_start, workgroup_end, launch, gap; /* cycles */
    double mhz;
};

/* At the clock that dense work starts from. */
void gemm_machine_of_chip(const struct chip_profile *chip, struct gemm_machine *machine);
/* From what a launch configuration knows; the chip's own numbers where it names a chip, else round ones. */
void gemm_machine_of(const struct kernel_machine *kernel_machine, struct gemm_machine *machine);

/* ---- the product ---- */
enum gemm_dtype { GEMM_BF16, GEMM_FP16, GEMM_TF32, GEMM_FP32, GEMM_FP8, GEMM_DTYPES };
#define GEMM_DTYPE_CHOICES "bf16|fp16|tf32|fp32|fp8"
enum gemm_trans { GEMM_NT, GEMM_NN, GEMM_TT, GEMM_TN }; /* n row-major, t transposed; A then B */
#define GEMM_TRANS_CHOICES "nt|nn|tt|tn"

/* Share of the matrix rate that instructions with register operands reach. Luo et al., Dissecting the NVIDIA Hopper
 * Architecture through Microbenchmarking, arXiv:2501.12084: mma reaches 63% of what wgmma does. */
#define GEMM_REGISTER_RATE 0.63

/* How operands reach the matrix unit; see gemm_program.c. */
enum gemm_style { GEMM_AUTO, GEMM_ASYNC, GEMM_COPIES, GEMM_REGISTER };

/* How a number type runs: its own unit, or what it is emulated by. */
struct matrix_type {
    uint32_t bytes;     /* of an operand element in memory */
    uint32_t out_bytes; /* of a result element */
    uint8_t dtype;      /* enum wave_dtype that runs it */
    double products;    /* products per useful product */
    double rate;        /* FLOP a cycle and unit */
    const char *emulation; /* NULL where native */
};

/* A grouped product is `group_count` products of the same N and K whose rows lie one after the other: m is their sum, batch
 * 1, and each has its own B. */
struct gemm_problem {
    uint64_t m, n, k, batch;
    size_t group_count;      /* 0: not grouped */
    const uint64_t *group_m; /* rows of each, > 0; borrowed */
    enum gemm_trans trans;
    struct matrix_type type;
    uint32_t width; /* bytes that one lane's copy can move: the common alignment of the rows, at most 16 */
    enum gemm_style style;
    bool through_registers; /* async, but neither operand can be read from LDS as it lies */
    uint32_t turned;        /* 1: A, 2: B lies the wrong way in LDS and is turned over in registers; 0: neither */
    double register_rate;   /* share of the matrix rate with operands from registers */
};

/* Fails (false) where the machine has no rate for the dtype at all. out_bytes 0: as the dtype. style GEMM_AUTO: by
 * alignment and dtype. */
bool gemm_problem_init(const struct gemm_machine *machine, uint64_t m, uint64_t n, uint64_t k, uint64_t batch,
                       enum gemm_dtype dtype, enum gemm_trans trans, uint32_t out_bytes, enum gemm_style style,
                       double register_rate, struct gemm_problem *problem);

/* Rows of all groups; set before gemm_select. */
void gemm_problem_group(struct gemm_problem *problem, const uint64_t *group_m, size_t group_count);

/* ---- the choice ---- */
enum gemm_mapping {
    GEMM_MAP_BAND,   /* bands of `group` rows of tiles, each walked column by column */
    GEMM_MAP_ROW,    /* row by row */
    GEMM_MAP_COLUMN, /* column by column */
    GEMM_MAP_CURVE,  /* along a Hilbert curve, a patch per compute group */
    GEMM_MAPPINGS
};
const char *gemm_mapping_text(enum gemm_mapping mapping);

struct gemm_tile {
    uint32_t m, n, k, stages;
    uint32_t split;    /* parts of K, each with its own workgroup; 1 none */
    bool stream_k;     /* as many workgroups as units, each an equal run of K steps across tiles; split is 1 */
    uint32_t resident; /* workgroups that a unit holds at most; 0: as its resources allow */
    uint32_t cluster_m, cluster_n;
    enum gemm_mapping mapping;
    uint32_t group;    /* of GEMM_MAP_BAND, in clusters */
    bool by_group;     /* neighbouring tiles on one compute group, else dealt out in turn */
};

enum gemm_limit { GEMM_LIMIT_MATRIX, GEMM_LIMIT_LDS, GEMM_LIMIT_ISSUE, GEMM_LIMIT_L1, GEMM_LIMIT_L2, GEMM_LIMIT_MALL,
                  GEMM_LIMIT_HBM, GEMM_LIMIT_LATENCY, GEMM_LIMIT_LAUNCH, GEMM_LIMITS };
const char *gemm_limit_text(enum gemm_limit limit);

struct gemm_estimate {
    struct gemm_tile tile;
    double us;              /* launch to end, reduction included */
    double reduction_us;    /* of it */
    enum gemm_limit limit;  /* largest part of a K step, or launch where the steps are the smaller half */
    double step[GEMM_LIMITS]; /* cycles of a K step in a full round, by level */
    double steps, rounds;   /* K steps of a tile; rounds of tiles over the units */
    double filled;          /* of the slots of those rounds, 0..1 */
    double useful;          /* of the matrix work done, 0..1: what edges leave */
    double hit_l2;          /* of operand bytes asked of an L2 */
    double workgroups, per_unit;
};

/* Estimate of one tile; all its fields set but mapping, group and by_group, which are chosen here. */
void gemm_estimate_tile(const struct gemm_machine *machine, const struct gemm_problem *problem,
                        const struct gemm_tile *tile, struct gemm_estimate *estimate);

/* Cycles that no K step of a workgroup of the tile is below, however tiles are mapped and K is split. */
double gemm_least_step(const struct gemm_machine *machine, const struct gemm_problem *problem, const struct gemm_tile *tile);

/* Time that no estimate of the tile is below: its steps in rounds, each `step` (gemm_least_step), and what comes before, after
 * and on top of them. tiles: of the output. */
double gemm_least_us(const struct gemm_machine *machine, const struct gemm_problem *problem, const struct gemm_tile *tile,
                     double tiles, double step);

/* Candidates with their estimates, best first, at most `capacity` of them; returns how many were weighed. Fields of
 * `given` that are not 0 are kept in every candidate (m, n, k, stages, split, resident, cluster_m with cluster_n). At least one. */
size_t gemm_select(const struct gemm_machine *machine, const struct gemm_problem *problem,
                   const struct gemm_tile *given, struct gemm_estimate *best, size_t capacity);

/* ---- rules that the wave program shares ---- */
uint64_t gemm_tile_rows(const struct gemm_problem *problem, uint32_t tile_m); /* of tiles, over the groups */
uint32_t gemm_tile_lds(const struct gemm_problem *problem, const struct gemm_tile *tile);
/* Cycles in which a workgroup's waves can do nothing but wait for the result to leave its staging buffer. */
double gemm_drain_cycles(const struct gemm_machine *machine, const struct gemm_problem *problem,
                         const struct gemm_tile *tile);
/* Cycles before the first load of a workgroup: descriptors, barriers, addresses. */
double gemm_setup_cycles(const struct gemm_problem *problem);
/* Cycles of matrix work of a K step: multiply-adds, or reading operands from LDS, whichever is more. */
double gemm_step_cycles(const struct gemm_machine *machine, const struct gemm_problem *problem,
                        const struct gemm_tile *tile);
uint32_t gemm_threads(const struct gemm_machine *machine, const struct gemm_tile *tile);
uint32_t gemm_registers(const struct gemm_machine *machine, const struct gemm_tile *tile);
/* A workgroup that fills LDS stays on its unit and takes tile after tile, where operands can be fetched ahead. */
bool gemm_is_persistent(const struct gemm_machine *machine, const struct gemm_problem *problem,
                        const struct gemm_tile *tile);

#endif
