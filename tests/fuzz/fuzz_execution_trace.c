/* The first byte says how far: alone, or joined to a profiler trace with operators of the same names. */
#include "tests/fuzz/fuzz.h"
#include "workloads/trace/trace_internal.h"
#include <string.h>

static void join(const struct execution_trace *trace)
{
    struct trace_file *file = trace_file_create("fuzz");
    size_t considered;
    for (size_t i = 0; i < trace->node_count && i < 100; i++) {
        const char *name = trace->nodes[i].name;
        struct trace_event event = { .start_ns = (int64_t)i,
                                     .duration_ns = 1,
                                     .name = arena_intern(file->arena, name, strlen(name)),
                                     .category = TRACE_OPERATOR };
        trace_file_add(file, &event);
    }
    execution_trace_join(trace, file, &considered);
    trace_file_destroy(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct execution_trace *trace = NULL;
    struct trace_file *file = NULL;
    struct sim_error error;
    if (execution_trace_read(input.path, &trace, &error) == SIM_OK) {
        if (execution_trace_synthesise(trace, &file, &error) == SIM_OK) {
            struct host_step *step = NULL;
            host_step_create(file, -1, &step, &error);
            host_step_destroy(step);
            trace_file_destroy(file);
        }
        join(trace);
        execution_trace_destroy(trace);
    }
    fuzz_file_close(&input);
    return 0;
}
