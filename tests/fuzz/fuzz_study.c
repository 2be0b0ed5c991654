#include "tests/fuzz/fuzz.h"
#include "studies/study.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct study *study = NULL;
    struct sim_error error;
    if (study_read(input.path, &study, &error) == SIM_OK) {
        study_destroy(study);
    }
    fuzz_file_close(&input);
    return 0;
}
