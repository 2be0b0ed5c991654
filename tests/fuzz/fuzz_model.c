#include "tests/fuzz/fuzz.h"
#include "workloads/models/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct model *model = NULL;
    struct sim_error error;
    if (model_read(input.path, &model, &error) == SIM_OK) {
        model_destroy(model);
    }
    fuzz_file_close(&input);
    return 0;
}
