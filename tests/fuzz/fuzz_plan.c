#include "tests/fuzz/fuzz.h"
#include "workloads/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct plan_table tables[] = { { .name = "a", .rows = 1000, .dim = 64 },
                                                { .name = "b", .rows = 100000, .dim = 128 },
                                                { .name = "c", .rows = 10, .dim = 6 } };
    struct fuzz_file input = fuzz_file_create(data, size);
    struct plan *plan = NULL;
    struct sim_error error;
    if (plan_read(input.path, tables, 3, 4, 4, &plan, &error) == SIM_OK) {
        plan_destroy(plan);
    }
    fuzz_file_close(&input);
    return 0;
}
