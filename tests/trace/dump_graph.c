/* Print a trace's graph, a node a line: a helper for debugging the reader, not a command of the product. */
#include "workloads/trace/kineto.h"
#include <stdio.h>
#include <string.h>

static void print_node(const struct graph *graph, size_t i)
{
    static const char *const kinds[] = { "operator",   "launch", "sync", "kernel",
                                         "collective", "record", "wait" };
    static const char *const hows[] = { "", "by bytes ", "replayed " };
    const struct graph_node *node = &graph->nodes[i];
    printf("%zu rank %u %s at %.3f for %.3f us: %.*s%.70s", i, node->rank, kinds[node->kind],
           node->traced_start_us, node->traced_us, 2 * (int)(node->depth < 20 ? node->depth : 20),
           "                                        ", node->name);
    if (node->kind == GRAPH_HOST_LAUNCH) {
        printf(" -> %u", node->launched);
    } else if (node->kind == GRAPH_EVENT_RECORD || node->kind == GRAPH_EVENT_WAIT) {
        printf(" stream %u, waits for %d", node->stream, (int)node->waits_for);
    } else if (node->kind == GRAPH_COLLECTIVE) {
        printf(" stream %u: %s %s #%llu %.0f B over %u", node->stream, node->collective->kind,
               node->collective->group, (unsigned long long)node->collective->sequence,
               node->collective->bytes, node->collective->group_size);
    } else if (node->kind == GRAPH_KERNEL) {
        printf(" stream %u, %s by %s: %s%s/%s %s [%.4g + %.4g B, %.4g flop, %s]", node->stream,
               node->category, node->operator_name == NULL ? "-" : node->operator_name,
               hows[node->recognition], node->suite, node->kernel, node->params == NULL ? "" : node->params,
               node->bytes_read, node->bytes_written, node->flops, node->dtype);
    }
    printf("\n");
}

int main(int count, char **arguments)
{
    bool verbose = count > 1 && strcmp(arguments[1], "-v") == 0;
    int first = verbose ? 2 : 1;
    struct trace_options options = { .step = -1 };
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    enum sim_status status = trace_read((const char *const *)arguments + first, (size_t)(count - first),
                                        &options, &graph, &error);
    if (status != SIM_OK) {
        fprintf(stderr, "%s\n", error.text);
        return sim_status_exit_code(status);
    }
    printf("%s: %zu nodes, %u of %u ranks, %.3f us, device '%s'\n", graph->source, graph->node_count,
           graph->rank_count, graph->world_size, graph->traced_step_us, graph->device_title);
    for (size_t i = 0; i < graph->note_count; i++) {
        printf("note: %s\n", graph->notes[i]);
    }
    for (size_t i = 0; verbose && i < graph->node_count; i++) {
        print_node(graph, i);
    }
    graph_destroy(graph);
    return 0;
}
