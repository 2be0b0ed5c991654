#include "tests/fuzz/fuzz.h"
#include "workloads/trace/trace_internal.h"

/* What two passes keep of a step is what the whole file has of it. */
static void compare_passes(const char *path, const struct host_step *whole)
{
    struct trace_file *file = NULL;
    struct host_step *step = NULL;
    struct sim_error error;
    if (trace_file_read_two_passes(path, -1, &file)) {
        SIM_ASSERT(host_step_create(file, -1, &step, &error) == SIM_OK, "%s", error.text);
        SIM_ASSERT(whole != NULL && step->item_count == whole->item_count && step->device_count == whole->device_count,
                   "%zu items, %zu device events", step->item_count, step->device_count);
        host_step_destroy(step);
        trace_file_destroy(file);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct trace_file *file = NULL;
    struct sim_error error;
    if (trace_file_read(input.path, &file, &error) == SIM_OK) {
        struct host_step *step = NULL;
        if (host_step_create(file, -1, &step, &error) == SIM_OK) {
            stream_waits_resolve(step);
        }
        compare_passes(input.path, step);
        host_step_destroy(step);
        trace_file_destroy(file);
    }
    fuzz_file_close(&input);
    return 0;
}
