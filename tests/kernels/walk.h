/* A functional interpreter of wave programs: runs every wave of a program, op by op, without a chip, holds each op to
 * the contract of sim/core/wave_program.h and adds up what it moved. */
#ifndef TESTS_KERNELS_WALK_H
#define TESTS_KERNELS_WALK_H
#include "workloads/kernels/kernels_internal.h"

struct walk {
    uint64_t ops, units;
    uint64_t load_bytes, store_bytes; /* of spans */
    uint64_t atomic_lanes;            /* elements */
    uint64_t lds_atomics;
    uint64_t hash;                    /* of every op, in order */
    char problem[256];                /* first breach of the contract; empty: none */
};

/* Called for every op when not NULL. */
typedef void (*walk_visit)(void *user, const struct wave_op *op);

struct walk walk_program(const struct wave_program *program, uint32_t lanes, struct wave_window window,
                         walk_visit visit, void *user);

static const struct wave_window WALK_ALL = { .trip_limit = UINT64_MAX };

/* A machine of `units` units of `lanes` lanes with 64 GiB and 160 KiB of LDS. */
struct kernel_machine walk_machine(uint32_t units, uint32_t lanes);

/* The plan of "suite/kernel" with parameters "k=v;k=v"; aborts the test when it cannot be built. */
struct kernel_plan *walk_plan(const char *suite, const char *kernel, const char *params, uint32_t lanes);

#endif
