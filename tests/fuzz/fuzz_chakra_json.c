#include "tests/fuzz/fuzz.h"
#include "workloads/trace/chakra_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct chakra_file *file = NULL;
    struct sim_error error;
    if (chakra_json_read(input.path, &file, &error) == SIM_OK) {
        struct graph *graph = graph_create("fuzz");
        graph_add_ranks(graph, 1);
        if (chakra_build(file, graph, 0, 8, "", &error) == SIM_OK && graph_check(graph, &error) != SIM_OK) {
            fprintf(stderr, "a graph that breaks its laws: %s\n", error.text);
            abort();
        }
        graph_destroy(graph);
        chakra_file_destroy(file);
    }
    fuzz_file_close(&input);
    return 0;
}
