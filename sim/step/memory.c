#include "sim/step/memory.h"
#include <stdlib.h>
#include <string.h>

/* Of a process with an open device: driver context and loaded kernels. Assumed 0.6 (0.4 to 1.2) GiB: what eager PyTorch
 * processes show on large GPUs beyond their allocator; communicators take a few hundred MiB more. */
#define CONTEXT_GIB 0.6
#define COMMUNICATOR_GIB 0.4

struct change {
    uint32_t node, owner;
    double bytes; /* negative: given back */
};

/* What is given back at a node is given back before more is taken there. */
static int by_node(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static void measure_rank(const struct graph *graph, uint32_t rank, struct change *changes, struct step_memory *memory)
{
    double held[GRAPH_MEMORY_OWNERS] = { 0 }, total = 0;
    size_t count = 0;
    for (size_t i = 0; i < graph->allocation_count; i++) {
        const struct graph_allocation *a = &graph->allocations[i];
        if (a->rank != rank || a->bytes <= 0 || a->until_node <= a->from_node) {
            continue;
        }
        changes[count++] = (struct change){ a->from_node, a->owner, a->bytes };
        if (a->until_node != UINT32_MAX) {
            changes[count++] = (struct change){ a->until_node, a->owner, -a->bytes };
        }
    }
    qsort(changes, count, sizeof changes[0], by_node);
    for (size_t i = 0; i < count; i++) {
        held[changes[i].owner] += changes[i].bytes;
        total += changes[i].bytes;
        if (total > memory->peak_bytes) {
            memory->peak_bytes = total;
            memory->rank = rank;
            memory->peak_node = changes[i].node;
            memcpy(memory->owner_bytes, held, sizeof held);
        }
    }
}

void step_memory_measure(const struct graph *graph, struct step_memory *memory)
{
    memset(memory, 0, sizeof *memory);
    if (graph->allocation_count == 0) {
        return;
    }
    struct change *changes = malloc(2 * graph->allocation_count * sizeof *changes);
    SIM_ASSERT(changes != NULL, "no memory for %zu allocations", graph->allocation_count);
    for (uint32_t rank = 0; rank < graph->rank_count; rank++) {
        measure_rank(graph, rank, changes, memory);
    }
    free(changes);
    memory->known = true;
}

double step_memory_reserve_gib(const struct graph *graph, double capacity_gib)
{
    if (graph->reserve_gib >= 0) {
        return graph->reserve_gib;
    }
    if (graph->reserve_share >= 0) {
        return graph->reserve_share * capacity_gib;
    }
    return CONTEXT_GIB + (graph->world_size > 1 ? COMMUNICATOR_GIB : 0);
}

const char *step_memory_owner_text(enum graph_memory_owner owner)
{
    static const char *const texts[GRAPH_MEMORY_OWNERS] = { "parameters",  "gradients",     "optimizer", "embeddings",
                                                            "activations", "communication", "workspace" };
    return texts[owner];
}
