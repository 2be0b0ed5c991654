/* A like part of a package for a like part of a kernel. Private to sim/chiplet.
 * Of a package of like groups with L2s of their own, an n-th part of every group (units and L2 slices), of the memory-side cache,
 * the channels and the links meets in an n-th part of a kernel what the whole meets in the whole kernel, and takes its time. Parts
 * of kernels are of two kinds:
 *   the first workgroups of a grid whose workgroups are alike and share data with their neighbours alone (wave_program.is_divisible);
 *   a program that is itself a part of its launch, in work and in data (wave_program.part_of).
 * A window on a part is run as wide as it would be on the whole, so it sees n times as much of the kernel. `exact`, and the default
 * window, run the whole package.
 * Model: queues at few channels and slices fill a little less evenly than at many (tests/chiplet/test_part.c bounds what that does). */
#ifndef SIM_CHIPLET_PART_INTERNAL_H
#define SIM_CHIPLET_PART_INTERNAL_H
#include "sim/chiplet/chip.h"

struct part {
    double work; /* the whole has so many times the part's */
    struct chip_profile profile;
    struct wave_program program; /* borrows the given program's context */
};

/* False when the kernel or the package has no like parts, or the options ask for more than a step's window. */
bool part_of(const struct chip_profile *profile, const struct wave_program *program, const struct chip_options *options,
             struct part *part);

/* The part's result as that of the whole; its power is the part's board's. */
void part_extend(const struct part *part, struct kernel_result *result);

#endif
