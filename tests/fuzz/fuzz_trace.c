/* The whole way: any kind of file, compressed or not, to a graph. */
#include "tests/fuzz/fuzz.h"
#include "workloads/trace/kineto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct trace_options options = { .step = -1, .keep_host_times = size % 2 == 1 };
    struct graph *graph = NULL;
    struct sim_error error;
    const char *path = input.path;
    if (trace_read(&path, 1, &options, &graph, &error) == SIM_OK) {
        graph_destroy(graph);
    }
    fuzz_file_close(&input);
    return 0;
}
