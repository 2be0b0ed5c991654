/* Parameters of a kernel as tables and the command line give them. */
#include "tests/fuzz/fuzz.h"
#include "workloads/kernels/kernel.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    struct kernel_params *params = NULL;
    struct sim_error error;
    if (kernel_params_parse(text, &params, &error) == SIM_OK) {
        kernel_params_destroy(params);
    }
    free(text);
    return 0;
}
