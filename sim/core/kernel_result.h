/* What the chip level tells the levels above about one kernel: the narrow result of design section 1. */
#ifndef SIM_CORE_KERNEL_RESULT_H
#define SIM_CORE_KERNEL_RESULT_H
#include <stdbool.h>
#include <stdint.h>

/* Stages of the cycle stack, in print order. X(enum, text). */
#define KERNEL_STAGE_LIST(X)                                                                       \
    X(ISSUE, "issue")                                                                              \
    X(MATRIX, "matrix")                                                                            \
    X(L1, "l1")                                                                                    \
    X(L2, "l2")                                                                                    \
    X(DIE_LINK, "die_link")                                                                        \
    X(MALL, "mall")                                                                                \
    X(HBM, "hbm")                                                                                  \
    X(ATOMIC, "atomic")                                                                            \
    X(LATENCY, "latency")                                                                          \
    X(DISPATCH, "dispatch")                                                                        \
    X(LAUNCH, "launch")

enum kernel_stage {
#define KERNEL_STAGE_ENUM(name, text) KERNEL_STAGE_##name,
    KERNEL_STAGE_LIST(KERNEL_STAGE_ENUM)
#undef KERNEL_STAGE_ENUM
        KERNEL_STAGES
};

enum kernel_level { KERNEL_LEVEL_L1, KERNEL_LEVEL_L2, KERNEL_LEVEL_DIE_LINK, KERNEL_LEVEL_MALL, KERNEL_LEVEL_HBM, KERNEL_LEVELS };

struct kernel_result {
    double duration_us;                 /* first workgroup dispatched to last one retired, one launch, no launch gap */
    double stack[KERNEL_STAGES];        /* fractions of the duration, sum 1 */
    enum kernel_stage limiter;          /* the largest of the stack */
    double bytes[KERNEL_LEVELS];        /* moved at each level over the whole kernel (extrapolated when sampled) */
    double hbm_read_bytes, hbm_write_bytes;
    double l1_hit_rate, l2_hit_rate, mall_hit_rate; /* of requests that reached the level; 0 when none did */
    double l2_near_hit_rate, l2_far_hit_rate; /* of loads: at the L2 partition that faces the unit, and of those it sent on, at the
                                                 other one; as hardware counts them */
    double waves_per_unit;              /* resident waves per CU/SM by resources */
    double lanes;                       /* mean active lanes per memory or vector instruction */
    double unit_share;                  /* share of the chip's CUs/SMs that the kernel occupies, 0..1 */
    double rounds;                      /* workgroups over those that the chip holds at once: below 1 they do not fill it */
    double hbm_share;                   /* mean HBM data-bus utilisation, 0..1 */
    double matrix_share;                /* mean matrix-unit utilisation, 0..1 */
    double atomic_count;                /* lane operations */
    double atomic_hottest_line_ops;     /* lane operations on the most loaded line (or atomic block) */
    const char *atomic_executed_at;     /* "l2", "memory_side", "lds" or "none"; static text */
    double flops;
    double clock_mhz;
    double watts;                       /* mean board power while it runs, idle included; 0: not modelled */
    double core_uj, memory_uj;          /* dynamic energy of the whole kernel: of the core domain as it would be at clock.core_max,
                                           and of what keeps its own voltage (sim/chiplet/power.h) */
    double sampled_fraction;            /* of the work units simulated; 1: exact */
    double sampling_error;              /* relative standard error of the duration from sampling, 0 when exact */
    uint64_t simulated_line_requests, simulated_wave_ops;
};

const char *kernel_stage_text(enum kernel_stage stage);

#endif
