/* Device memory over a step: what the allocator holds when, its peak, and who owns the bytes at that moment.
 * A graph of a model lists its allocations in host order; a trace does not, so nothing is known of it. */
#ifndef SIM_STEP_MEMORY_H
#define SIM_STEP_MEMORY_H
#include <stdbool.h>
#include <stddef.h>
#include "workloads/graph.h"

struct step_memory {
    bool known;
    uint32_t rank;                           /* the one with the highest peak */
    double peak_bytes;                       /* the allocator's, without reserve */
    double owner_bytes[GRAPH_MEMORY_OWNERS]; /* at the peak; they sum to it */
    uint32_t peak_node;                      /* the host is about to issue it */
};

/* O(n log n) in the allocations. */
void step_memory_measure(const struct graph *graph, struct step_memory *memory);

/* Memory that is not the allocator's: context, code of loaded kernels, communicators, and blocks that fragmentation keeps
 * free; or what a description keeps free instead, of a device of `capacity_gib`. GiB. */
double step_memory_reserve_gib(const struct graph *graph, double capacity_gib);

const char *step_memory_owner_text(enum graph_memory_owner owner);

#endif
