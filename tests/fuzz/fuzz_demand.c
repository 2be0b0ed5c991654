#include "tests/fuzz/fuzz.h"
#include "studies/procurement.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct procurement *procurement = NULL;
    struct sim_error error;
    if (procurement_read(input.path, &procurement, &error) == SIM_OK) {
        procurement_free(procurement);
    }
    fuzz_file_close(&input);
    return 0;
}
