/* The registry of kernels: "suite/kernel" and k=v parameters -> the launches (wave programs) that carry it out.
 * Names and parameters are those of the measurement tables (measured suites) and of docs/design.md section 6. */
#ifndef WORKLOADS_KERNELS_KERNEL_H
#define WORKLOADS_KERNELS_KERNEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sim/core/status.h"
#include "sim/core/wave_program.h"

struct chip_profile;

/* What a launch configuration may ask of the machine, and no more. */
struct kernel_machine {
    uint32_t units;        /* CUs or SMs */
    uint32_t lanes;        /* of a wave */
    uint64_t hbm_bytes;    /* tables beyond it are refused */
    uint32_t lds_bytes_per_workgroup_max;
    double matrix_flops_per_cycle[WAVE_DTYPES]; /* per unit; 0: not native */
    double core_mhz;       /* for kernels whose result is in cycles */
    uint32_t registers_per_lane_max;
    uint32_t simd_registers;    /* of a lane, over all waves that a SIMD holds */
    uint32_t dispatch_dies; /* dies that workgroups are dealt over one after the other (XCDs); 0 or 1: not so */
    uint32_t parts;         /* chip_parts(); a launch may then be built as its like part (wave_program.part_of); 0 or 1: whole */
    uint32_t multicast_units; /* neighbouring units that one load can serve (thread-block clusters); 0: as the chip says */
    const struct chip_profile *chip; /* for choices that weigh the chip (tiles of matrix products); borrowed; NULL: round
                                        numbers of no device beside the above */
};

/* k=v pairs, order kept. A value may contain '=' and must not contain ';'. */
struct kernel_params;
/* Parse "k=v;k=v" (NULL or "" is empty). Errors: no '=', empty key, the same key twice. */
enum sim_status kernel_params_parse(const char *text, struct kernel_params **out, struct sim_error *error);
enum sim_status kernel_params_add(struct kernel_params *params, const char *pair, struct sim_error *error);
void kernel_params_destroy(struct kernel_params *params);
const char *kernel_params_text(const struct kernel_params *params); /* canonical k=v;k=v in given order, borrowed */

/* What carries out a launch. Anything but WAVES is a closed form by design (copy engines, host). */
enum kernel_launch_kind { KERNEL_LAUNCH_WAVES, KERNEL_LAUNCH_COPY_H2D, KERNEL_LAUNCH_COPY_D2H, KERNEL_LAUNCH_COPY_PAGEABLE };

struct kernel_launch {
    enum kernel_launch_kind kind;
    struct wave_program *program; /* owned by the plan; NULL unless WAVES */
    double copy_bytes;            /* for copies over the host link */
    double repeat;                /* times this launch runs in the kernel (>= 0; a mean may be fractional) */
    bool dependent;               /* its workgroups are in place when the launch before ends: no launch path, no gap */
};

enum kernel_launch_style { KERNEL_STYLE_STREAM, KERNEL_STYLE_GRAPH };

/* What the table's `value` column holds, from the predicted time. */
enum kernel_value_rule {
    KERNEL_VALUE_NONE,
    KERNEL_VALUE_AMOUNT_PER_TIME, /* value = amount / time, in `unit` (amount given per microsecond of time) */
    KERNEL_VALUE_TIME_PER_AMOUNT, /* value = time_us x factor / amount (us/kernel, ns/op, cycles, s) */
    KERNEL_VALUE_COUNT,           /* value = amount: a count that does not depend on time */
    KERNEL_VALUE_WATTS            /* value = mean board power while the plan repeats back to back */
};

/* A matrix product whose tile the selector chose, for what a library would make of it. */
struct kernel_product {
    double m, n, k, batch; /* m 0: none */
    const char *dtype, *trans; /* static */
    uint32_t tile_m, tile_n;   /* chosen */
};

/* A plan whose first launch is played in bursts of its repeat, with a pause between them that holds the board's power down:
 * what the clock, and so the time of that launch, depends on. */
struct kernel_duty {
    bool given;      /* false: the plan runs once */
    double duty;     /* share of the burst in burst and pause, at the highest clock, 0..1 */
    bool copies;     /* the pause is filled with whole runs of the second launch; else the device waits */
    bool excursion;  /* false: power never exceeds the board's limit, however briefly */
};

/* What stands for a parameter that was left out: "rows = 1e7 (range 1e6..1e7): the study does not say". Where a plausible range is
 * known, key names the parameter and an interval may ask again with any value of it; else key is "". */
struct kernel_assumption {
    char text[160];
    char key[16];
    double value, low, high; /* whole numbers, low <= value <= high; where key is not "" */
};

struct kernel_plan {
    char suite[32], kernel[48];
    size_t launch_count;
    struct kernel_launch launches[24];   /* in order, in one stream; each starts when the one before has ended */
    enum kernel_launch_style style;
    bool time_is_per_call;               /* the table's time_us is per launch (n launches back to back), not for all */
    uint32_t timed_calls;                /* 0 or 1: one timed call; n: the table adds up n of them, so that what the measuring
                                            program adds to a call counts n times */
    bool value_only;                     /* latency-like rows: time_us is 0 in the table, only value counts */
    enum kernel_value_rule value_rule;
    double value_amount, value_factor;
    char value_unit[16];
    double flops;                        /* useful arithmetic of the whole kernel; 0: undefined */
    struct kernel_duty duty;
    struct kernel_product product; /* of launches[0] */
    size_t assumption_count;
    struct kernel_assumption assumptions[16];
};

/* Build the plan of one kernel. Errors (one line): unknown suite or kernel (lists the names), unknown parameter (lists
 * the valid ones), missing parameter without a documented value, zero, negative or absurd sizes, tables beyond HBM, more
 * LDS than a workgroup can have. The caller destroys the plan. */
enum sim_status kernel_plan_create(const char *suite, const char *kernel, const struct kernel_params *params,
                                   const struct kernel_machine *machine, struct kernel_plan **out,
                                   struct sim_error *error);
void kernel_plan_destroy(struct kernel_plan *plan); /* NULL is allowed */

/* Of a launch whose program is known whole by a few numbers (fills, sorts, scans): a hash of its name, shape and those numbers, so
 * that launches of the same identity run alike on one chip, whatever kernel they are part of. 0: not such a launch. Stable
 * between processes of one build. */
uint64_t kernel_launch_identity(const struct kernel_launch *launch);

/* For help, completion and "is this row supported": one line per registered kernel. */
struct kernel_entry { const char *suite, *kernel, *summary, *params_help; };
size_t kernel_registry_count(void);
struct kernel_entry kernel_registry_at(size_t index);
bool kernel_is_registered(const char *suite, const char *kernel);

#endif
