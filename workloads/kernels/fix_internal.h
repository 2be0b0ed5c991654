/* What kernel files say about themselves so that fixes can transform them. */
#ifndef WORKLOADS_KERNELS_FIX_INTERNAL_H
#define WORKLOADS_KERNELS_FIX_INTERNAL_H
#include "workloads/kernels/fix.h"
#include "workloads/kernels/index_draw_internal.h"

/* Whether the kernel being built was asked for `fix`. Build functions that have a structure of their own for a fix ask;
 * the others are transformed once they are built. */
bool kernel_has_fix(const struct kernel_build *build, enum kernel_fix fix);

/* Reads the parameter `fix`: an unknown name, a fix this kernel does not take, or two that exclude each other are errors
 * that name what would be valid. */
void kernel_fixes_read(struct kernel_build *build);
/* Transforms the launch named by kernel_fix_target with what was asked for and not yet done by the build function. */
void kernel_fixes_apply(struct kernel_build *build);

/* The tensor that the program of the plan's last launch adds to. row_bytes: of a row that a wave adds to in pieces, one
 * after the other; equal to element_bytes when every word stands alone. */
void kernel_fix_target(struct kernel_build *build, uint64_t address, double bytes, uint32_t row_bytes,
                       uint32_t element_bytes, enum wave_atomic_type type);
/* Copies of a privatised target in memory, read with the other parameters (kernels that take the fix). */
void kernel_fix_read_copies(struct kernel_build *build);

/* ---- sort-segment (fix_sort.c): replaces the scatter. Rows of `width` elements of `element_bytes`; lookups come from
 * `source` (one hold is taken). `reads` is false where only occurrences are counted. Launches: pairs, radix sort, run
 * heads, positions, then a wave per piece of up to SEGMENT_MOST lookups. */
#define SEGMENT_MOST 512
struct segment_shape {
    uint32_t width, element_bytes, index_bytes;
    enum wave_atomic_type type;
    bool reads;
};
void kernel_plan_add_sort_segment(struct kernel_build *build, struct index_source *source,
                                  const struct segment_shape *shape);

#endif
