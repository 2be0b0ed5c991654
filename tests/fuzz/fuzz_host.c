/* Host and harness profiles, and a table of measured rows. */
#include "sim/step/harness_profile.h"
#include "sim/step/host_profile.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct host_profile host;
    struct harness_profile harness;
    struct sim_error error;
    memset(&host, 0, sizeof host);
    memset(&harness, 0, sizeof harness);
    host_profile_read(input.path, &host, &error);
    harness_profile_read(input.path, &harness, &error);
    fuzz_file_close(&input);
    return 0;
}
