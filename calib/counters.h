/* Hardware counters of measured kernels against what the simulator counts in the same kernels: bytes of DRAM traffic, and
 * hits of loads in the near and the far part of L2. Times can be right for wrong reasons; these say which mechanism is off. */
#ifndef CALIB_COUNTERS_H
#define CALIB_COUNTERS_H
#include "sim/reckon.h"
#include <stdio.h>

struct counters_side { /* what a kernel did, as counted or as simulated */
    double dram_read_bytes, dram_write_bytes;
    double near_hit,
        far_hit; /* of loads at the L2 slice that faces the unit, and of those that it sent on; NAN: hardly any */
};

struct counters_row {
    char counted_as[32];                     /* the table's name of the kernel */
    char suite[32], kernel[48], params[256]; /* as the simulator calls it */
    double unit_bytes; /* loads, stores and atomics of all units at L2: what differences are held against */
    struct counters_side measured, simulated;
    double
        worst; /* largest difference: DRAM bytes over unit_bytes, hit rates as they are weighted by their share */
    char worst_of[16]; /* "DRAM read", ... */
};

struct counters_table {
    size_t row_count, left_out; /* rows without a program here */
    struct counters_row *rows;
};

/* Read a counter table (header "kernel,params,dram__sectors_read,...") and simulate each kernel that has a program, over `jobs` processes. Errors:
 * file and line of a missing column or a count that is none; what reckon_kernel returned. */
enum sim_status counters_compare(struct reckon *reckon, const struct reckon_device *device, uint32_t jobs,
                                 const char *path, struct counters_table *table, struct sim_error *error);
void counters_finish(struct counters_table *table); /* zeroed memory is allowed */

/* As a Markdown section: all rows, the furthest off first, `worst` of them or all with 0. */
void counters_write(const struct counters_table *table, size_t worst, FILE *out);

#endif
