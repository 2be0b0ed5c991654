/* Single launches of sorts and of passes whose workgroups chain their sums (sort.c), for plans made of them and for those of a
 * recorded step, where each is a kernel of its own (sort_launches.c). */
#ifndef WORKLOADS_KERNELS_SORT_INTERNAL_H
#define WORKLOADS_KERNELS_SORT_INTERNAL_H
#include "workloads/kernels/kernels_internal.h"

#define SORT_DIGITS 256 /* of a pass of eight bits */

/* Digits of all keys counted, and the sums of the bins: one workgroup per digit. */
void kernel_plan_add_histogram(struct kernel_build *build, uint64_t n, uint32_t key_bytes, uint32_t passes,
                               uint32_t used_passes);
void kernel_plan_add_bin_sum(struct kernel_build *build, uint32_t passes);

/* A sweep by `bits` of the key: tiles of threads x items pairs. */
struct sort_sweep {
    uint64_t n;
    uint32_t key_bytes, value_bytes, threads, items, bits;
};
void kernel_plan_add_sweeps(struct kernel_build *build, const struct sort_sweep *shape, double passes);

struct chained_shape {
    uint32_t threads, items, item_bytes, out_bytes, registers;
    uint32_t striped; /* 1: loads in order through shared memory; 0: a thread's items are neighbours */
};
/* `name` is static. */
void kernel_plan_add_chained_pass(struct kernel_build *build, const char *name,
                                  const struct chained_shape *shape, uint64_t n, uint64_t written);

#endif
