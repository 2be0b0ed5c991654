/* One kernel on one package: the chip level of docs/design.md section 3.
 * Thread-safe: a chip is a value; runs share nothing but the read-only profile and program. */
#ifndef SIM_CHIPLET_CHIP_H
#define SIM_CHIPLET_CHIP_H
#include <stdint.h>
#include "sim/core/chip_profile.h"
#include "sim/core/kernel_result.h"
#include "sim/core/status.h"
#include "sim/core/wave_program.h"

enum chip_engine { CHIP_ENGINE_FAST, CHIP_ENGINE_REFERENCE };

struct chip_options {
    enum chip_engine engine;
    bool exact;                  /* run every work unit */
    uint64_t window_requests;    /* line requests to simulate before extrapolating; 0: the documented default */
    double core_mhz;             /* 0: the profile's clock.core_max */
    uint64_t seed;
    double available_unit_share; /* CUs/SMs left by what runs beside it; 0 is read as 1 */
};

/* Like parts that every group, cache and link of the package can be cut into, for programs that are parts of launches
 * (wave_program.part_of); 1: none. */
uint32_t chip_parts(const struct chip_profile *profile);

/* Run `program` on the package, or, when it is a part, on the like part of it; the result is then the whole launch's. Errors: SIM_DOES_NOT_FIT when one workgroup needs more registers, LDS or waves than a
 * unit has (says which and by how much). */
enum sim_status chip_run(const struct chip_profile *profile, const struct wave_program *program,
                         const struct chip_options *options, struct kernel_result *result, struct sim_error *error);

#endif
