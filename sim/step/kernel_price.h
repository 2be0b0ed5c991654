/* What one kernel costs on one device: the launches that the registry plans for it, run on the chip model, each with the
 * device's launch path in front of it and the gaps between them. Plain data, so that worker processes can hand it back
 * through shared memory.
 *
 * Launch path. A profiler sees an empty kernel last launch.latency though its workgroups take only start and release: the
 * front end reads the launch packet and drains afterwards. That difference is added to every kernel of a stream; inside a
 * captured graph it hides behind the kernel before. So it does in a stream among the launches of one plan, as far as the launch
 * before runs beyond its own path: the packets that wait are read meanwhile. */
#ifndef SIM_STEP_KERNEL_PRICE_H
#define SIM_STEP_KERNEL_PRICE_H
#include "sim/chiplet/chip.h"
#include "sim/chiplet/power.h"
#include "sim/core/kernel_result.h"
#include "sim/fabric/fabric.h"
#include "sim/step/harness_profile.h"
#include "sim/step/kernel_price_loop.h"
#include "sim/step/library_profile.h"
#include "workloads/kernels/kernel.h"
#include <stdbool.h>
#include <stdint.h>

#define KERNEL_PRICE_LAUNCHES_MAX (sizeof((struct kernel_plan *)0)->launches / sizeof(struct kernel_launch))

struct price_board;

struct kernel_price_machine { /* borrowed */
    const struct chip_profile *chip;
    const struct node_profile *node; /* for copies over the host link */
    const struct library_set *libraries; /* NULL: matrix products run the selector's tile */
    enum chip_engine engine;
    uint64_t seed;
    struct price_board *board; /* NULL, or where launches are kept that kernels have in common (sorts, fills), and those of a
                                  kernel that is asked again at a wider window; the chip is then as its hash says */
};

struct kernel_price_request {
    const char *suite, *kernel, *params; /* params: "k=v;k=v", NULL for none */
    const char *library; /* of matrix products, one of library_profile.tables; NULL: the device's own; "none": the selector's tile */
    enum harness_cache cache;
    bool in_step;       /* other kernels ran before: a single launch whose program starts from its own data, as a benchmark that
                           repeats it does, starts from clean caches */
    double core_mhz;    /* a fixed core clock; 0: the highest that its kind of kernel holds, and what power leaves of it */
    struct kernel_price_loop loop;
    bool exact;
    uint64_t window_requests; /* line requests simulated before extrapolating; 0: the chip model's default */
    uint64_t wide_requests;   /* 0, or a wider window: launches with much of the kernel's doubt are run again at it, or at the
                                 chip model's default where the window meets data that the whole kernel may not */
};

struct kernel_price {
    enum sim_status status;
    char error[SIM_ERROR_TEXT_CAPACITY];         /* when status is not SIM_OK */
    size_t launch_count;                         /* classes of launches, in order */
    double launch_us[KERNEL_PRICE_LAUNCHES_MAX]; /* launch path included */
    double launch_path_us[KERNEL_PRICE_LAUNCHES_MAX]; /* of which the launch path */
    double launch_repeat[KERNEL_PRICE_LAUNCHES_MAX];
    bool launch_dependent[KERNEL_PRICE_LAUNCHES_MAX]; /* starts as the launch before ends */
    double launches;             /* sum of the repeats */
    double device_us;            /* first launch's start to the last one's end, device alone, all queued */
    double host_us;              /* of the calls, beyond a launch's: a pageable copy staged before the device begins */
    double clock_exponent;       /* device_us goes with the core clock^-exponent near the clock it was priced at */
    double doubt;                /* of device_us, relative: the sampling error, and what a window cannot tell (kernel_price.c) */
    double sustained_mhz;        /* clock at which it could go on for ever within power.board_limit */
    struct {
        char name[32], class[64]; /* name "": the product runs the selector's tile; class "": at its rate */
        double efficiency, filled; /* filled: of the menu */
        uint32_t tile_m, tile_n;  /* of its menu; 0: the selector's */
        bool is_best;             /* of the tiles that the library is known to hold */
        uint32_t refused_m, refused_n; /* a tile that it would have, which does not run here; 0: none */
    } library;
    struct kernel_result result; /* all launches together; gaps are its launch stage */
    bool graph_style, time_is_per_call, value_only;
    enum kernel_value_rule value_rule;
    double value_amount, value_factor;
    char value_unit[16];
    double flops;
    size_t assumption_count;
    struct kernel_assumption assumptions[16];
};

/* Never fails by itself: the outcome is price->status. */
void kernel_price_compute(const struct kernel_price_machine *machine,
                          const struct kernel_price_request *request, struct kernel_price *price);

/* Time from the first launch call to the last launch's end when a host issues a launch every `interval_us` at best, plus
 * `floor_us`. Inside a captured graph only the first launch waits for the host. Per call where the table counts so. */
double kernel_price_measured_us(const struct kernel_price *price, const struct chip_profile *chip,
                                double floor_us, double interval_us);

/* The table's value for a time; false when the kernel has none. `time_us` is as the table has it (per call or whole). */
bool kernel_price_value(const struct kernel_price *price, double time_us, double *value);

/* The kernel as a load on the governor, at clock.core_max. */
struct power_load kernel_price_load(const struct kernel_price *price, const struct chip_profile *chip);

/* A kernel is held by the matrix units, and starts from clock.core_max, above this mean utilisation. */
#define KERNEL_PRICE_MATRIX_HEAVY 0.3

#endif
