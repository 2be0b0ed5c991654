/* A like part of a package for a like part of a grid. Private to sim/chiplet.
 * Where the workgroups of a grid are alike, share data with their neighbours alone, and a package is made of like groups, a share of
 * the grid on the same share of the groups, memory-side cache and channels takes the time of the whole: each group, each channel
 * and each link sees what it sees there. Windows of a step are run so; `exact`, and the default window, are not.
 * Model: queues at few channels fill a little less evenly than at many (tests/chiplet/test_part.c bounds what that does). */
#ifndef SIM_CHIPLET_PART_INTERNAL_H
#define SIM_CHIPLET_PART_INTERNAL_H
#include "sim/chiplet/chip.h"

struct part {
    uint32_t of; /* the whole is so many parts */
    struct chip_profile profile;
    struct wave_program program; /* borrows the whole program's context */
    struct chip_options options;
};

/* False when the kernel or the package has no like parts, or the options ask for more than a step's window. */
bool part_of(const struct chip_profile *profile, const struct wave_program *program, const struct chip_options *options,
             struct part *part);

/* The part's result as that of the whole, but for its power. */
void part_extend(const struct part *part, const struct wave_program *program, struct kernel_result *result);

#endif
