/* Board power: what a kernel's activity costs, and the clock that a governor leaves it.
 *
 * Energy. A kernel's dynamic energy is a sum over its activity: matrix FLOP by data type, lane instructions, bytes through
 * L2 and bytes on the HBM bus, each at its own cost (profile section `power`). Costs of the core domain are those at
 * clock.core_max and follow the clock by power.voltage_exponent, down to power.voltage_floor; the memory has its own voltage.
 *
 * Governor. Board power is averaged over windows (exponentially, with half the window as time constant: the mean age of a
 * plain window); in each the average stays below that window's share of power.board_limit. Every power.response the governor
 * chooses the clock at which the load it has seen since the last choice keeps every window below its limit; a load it has
 * not seen yet runs at the old clock. Left out: temperature, leakage that rises with it, and steps of the clock. */
#ifndef SIM_CHIPLET_POWER_H
#define SIM_CHIPLET_POWER_H
#include "sim/core/chip_profile.h"
#include "sim/core/kernel_result.h"
#include "sim/core/wave_program.h"
#include <stdbool.h>

/* Activity of one launch, whole. */
struct power_activity {
    double lane_instructions; /* instructions x lanes of a wave, whether active or not */
    double matrix_flops[WAVE_DTYPES];
    double l2_bytes, hbm_bytes;
};

/* Dynamic energy of one launch: of the core domain at clock.core_max, and of what keeps its own voltage. */
struct power_energy {
    double core_uj, memory_uj;
};

/* Instructions and matrix work of `program`, from the operations of a few of its workgroups spread over the grid, scaled to
 * all its work units; bytes from `result`. */
struct power_activity power_activity_of(const struct wave_program *program, const struct kernel_result *result,
                                        uint32_t lanes);
struct power_energy power_energy_of(const struct chip_profile *chip, const struct power_activity *activity);

/* Energy of a core operation at `mhz` over that at clock.core_max. */
double power_core_scale(const struct chip_profile *chip, double mhz);

/* A stretch of like work: a kernel, a run of kernels, or a pause (exponent 0, no power). */
struct power_load {
    double us;           /* at clock.core_max */
    double core_watts;   /* above idle at clock.core_max, of the core domain */
    double memory_watts; /* above idle, of the rest */
    double exponent;     /* time goes with clock^-exponent, 0..1 */
};

double power_load_us(const struct power_load *load, const struct chip_profile *chip, double mhz);
/* Board power while the load runs at `mhz`. */
double power_load_watts(const struct power_load *load, const struct chip_profile *chip, double mhz);
/* Highest clock at which the load's power is at most `watts`; clock.core_max when it never exceeds it, and no less than
 * POWER_CLOCK_LEAST of it. */
double power_clock_for(const struct power_load *load, const struct chip_profile *chip, double watts);
#define POWER_CLOCK_LEAST 0.2 /* share of clock.core_max */

enum { POWER_WINDOWS = 2 }; /* the board limit's own, and the excursion's */

struct power_governor { /* plain state; copy it to branch */
    const struct chip_profile *chip;
    bool excursion; /* false: board power never exceeds power.board_limit, however briefly */
    double mhz;
    double average_watts[POWER_WINDOWS];
    double since_us;                                                /* since the last choice */
    double seen_core_uj, seen_memory_uj, seen_us, seen_exponent_us; /* load since then, at clock.core_max */
};

/* At rest: the board has been idle, the clock is the highest. */
void power_governor_init(struct power_governor *governor, const struct chip_profile *chip, bool excursion);

struct power_run {
    double us;    /* what the load took */
    double mhz;   /* mean clock over it */
    double watts; /* mean board power over it */
};
/* Run `load` from the governor's present state. */
struct power_run power_governor_run(struct power_governor *governor, const struct power_load *load);

/* The pattern `loads` repeated for ever: what each takes in the steady state. Returns the number of repetitions it took. */
unsigned power_governor_settle(struct power_governor *governor, const struct power_load *loads, size_t count,
                               struct power_run *runs);

#endif
