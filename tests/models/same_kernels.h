/* Of tests that count what a rewritten graph holds. */
#ifndef TESTS_MODELS_SAME_KERNELS_H
#define TESTS_MODELS_SAME_KERNELS_H
#include "workloads/graph.h"
#include <string.h>

/* Kernels of the same suite and kernel with exactly the same parameters. */
static inline size_t count_of(const struct graph *graph, const struct graph_node *like)
{
    size_t count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        count += node->kind == GRAPH_KERNEL && node->params != NULL && strcmp(node->suite, like->suite) == 0 &&
                 strcmp(node->kernel, like->kernel) == 0 && strcmp(node->params, like->params) == 0;
    }
    return count;
}

#endif
