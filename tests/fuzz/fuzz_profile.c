#include "sim/core/chip_profile.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct chip_profile chip;
    struct sim_error error;
    memset(&chip, 0, sizeof chip);
    chip_profile_read(input.path, &chip, &error);
    chip_profile_finish(&chip);
    fuzz_file_close(&input);
    return 0;
}
