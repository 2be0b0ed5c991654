#include "sim/step/table_rows.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file input = fuzz_file_create(data, size);
    struct measured_table table;
    struct sim_error error;
    memset(&table, 0, sizeof table);
    measured_table_read(input.path, &table, &error); /* adds to the table, which is the caller's in any case */
    measured_table_finish(&table);
    fuzz_file_close(&input);
    return 0;
}
