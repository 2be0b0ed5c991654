/* Fixes: repairs that a kernel can be asked for ("fix=NAME+NAME" among its parameters), by the names of docs/design.md
 * section 6. A fix is a transform of the wave program: it counts what it adds (instructions, shared memory, registers,
 * passes, memory), so that it can lose as well as win. */
#ifndef WORKLOADS_KERNELS_FIX_H
#define WORKLOADS_KERNELS_FIX_H
#include <stddef.h>
#include "sim/core/status.h"

/* In print order. X(ENUM, name, summary). */
#define KERNEL_FIX_LIST(X)                                                                                             \
    X(TREE_REDUCTION, "tree-reduction", "a tree in shared memory, one atomic per workgroup")                           \
    X(REGISTER_CACHE, "register-cache", "sums of the last two rows in registers, an atomic when one is evicted")       \
    X(WAVE_AGGREGATE, "wave-aggregate", "lanes of a wave that hit one word are added up before one atomic")            \
    X(SORT_SEGMENT, "sort-segment", "indices sorted, runs of up to 512 summed, atomics only where a row has several")  \
    X(PRIVATISE, "privatise", "private copies of the target: in shared memory if it fits, else `copies` in memory")    \
    X(ROW_PACK, "row-pack", "narrow rows or bags share a wave: by groups of 32 lanes, or a lane each")                 \
    X(XCD_SWIZZLE, "xcd-swizzle", "neighbouring workgroups on one die")                                                \
    X(WAVE_PER_ROW, "wave-per-row", "a wave per row, more rows in flight, metadata in scalar registers")               \
    X(OCCUPANCY, "occupancy", "a wave more per SIMD: registers beyond its share are spilled")                          \
    X(MFMA16, "mfma16", "matrix instructions of 16 x 16 instead of 32 x 32")                                           \
    X(FAST_GELU, "fast-gelu", "GeLU by the sigmoid: hardware exponential and reciprocal instead of tanh")              \
    X(PIPELINE2, "pipeline2", "two stages: the next tiles are copied while these are used")                            \
    X(KV_ACCUMULATE, "kv-accumulate", "dK and dV accumulated per key head and stored once, instead of atomics")

enum kernel_fix {
#define KERNEL_FIX_ENUM(name, text, summary) KERNEL_FIX_##name,
    KERNEL_FIX_LIST(KERNEL_FIX_ENUM)
#undef KERNEL_FIX_ENUM
        KERNEL_FIXES
};

const char *kernel_fix_text(enum kernel_fix fix);
const char *kernel_fix_summary(enum kernel_fix fix);
/* "tree-reduction, wave-aggregate": those that a kernel takes, "" for none. Returns `text`. */
const char *kernel_fixes_of(const char *suite, const char *kernel, char *text, size_t capacity);

#endif
