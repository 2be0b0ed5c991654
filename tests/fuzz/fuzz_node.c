#include "sim/fabric/fabric.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct node_profile *node = NULL;
    struct sim_error error;
    if (node_profile_read(input.path, &node, &error) == SIM_OK) {
        node_profile_destroy(node);
    }
    fuzz_file_close(&input);
    return 0;
}
