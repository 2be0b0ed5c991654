#include "tests/fuzz/fuzz.h"
#include "workloads/trace/trace_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct trace_file *file = NULL;
    struct sim_error error;
    if (rocprof_file_read(input.path, &file, &error) == SIM_OK) {
        struct host_step *step = NULL;
        if (host_step_create(file, -1, &step, &error) == SIM_OK) {
            stream_waits_resolve(step);
        }
        host_step_destroy(step);
        trace_file_destroy(file);
    }
    fuzz_file_close(&input);
    return 0;
}
