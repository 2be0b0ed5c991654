/* What is read is printed and read again: the same bytes. */
#include "sim/core/json.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    struct json *value = NULL, *again = NULL;
    struct sim_error error;
    if (json_read_text(text, "fuzz", &value, &error) == SIM_OK) {
        char *printed = json_print(value, true);
        if (json_read_text(printed, "printed", &again, &error) != SIM_OK) {
            fprintf(stderr, "not read again: %s\n", error.text);
            abort();
        }
        char *second = json_print(again, true);
        if (strcmp(printed, second) != 0) {
            abort();
        }
        free(printed);
        free(second);
        json_destroy(value);
        json_destroy(again);
    }
    free(text);
    return 0;
}
