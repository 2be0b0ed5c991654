/* How far a kernel's answer can be trusted: whether its suite was measured on the device that was asked about. */
#include "sim/cli/cli.h"
#include "sim/core/data_path.h"
#include "sim/step/table_rows.h"
#include <stdio.h>
#include <string.h>

/* Rows of the suite among a device's tables, measured here or published; 0 where there are none. */
static size_t rows_of(const char *device, const char *suite, char *where, size_t capacity)
{
    static const char *const folders[] = { "calib/data", "calib/data/published" };
    size_t rows = 0;
    for (size_t f = 0; f < 2 && rows == 0; f++) {
        struct measured_table table = { 0 };
        char path[DATA_PATH_CAPACITY];
        snprintf(path, sizeof path, "%s/%s/%s", data_path_root(), folders[f], device);
        if (measured_table_read(path, &table, NULL) == SIM_OK) {
            for (size_t i = 0; i < table.row_count; i++) {
                rows += strcmp(table.rows[i].suite, suite) == 0;
            }
            snprintf(where, capacity, "%s/%s", folders[f], device);
        }
        measured_table_finish(&table);
    }
    return rows;
}

/* The first other device that has such rows; "" for none. */
static size_t rows_elsewhere(const char *device, const char *suite, char *other, size_t capacity)
{
    struct data_names names = { 0 };
    char where[96];
    size_t rows = 0;
    if (data_path_list("devices", &names, NULL) == SIM_OK) {
        for (size_t i = 0; rows == 0 && i < names.count; i++) {
            rows = strcmp(names.name[i], device) != 0 ? rows_of(names.name[i], suite, where, sizeof where) : 0;
            snprintf(other, capacity, "%s", names.name[i]);
        }
        data_names_finish(&names);
    }
    return rows;
}

void cli_print_calibration(const char *device, const char *suite)
{
    char where[96] = "", other[64] = "";
    size_t rows = rows_of(device, suite, where, sizeof where);
    if (rows > 0) {
        printf("  calibrated: suite %s has %zu measured rows of this device; reckon validate %s --device %s says how far off\n", suite, rows,
               where, device);
        return;
    }
    printf("  uncalibrated: no measured row of suite %s on this device", suite);
    rows = rows_elsewhere(device, suite, other, sizeof other);
    if (rows > 0) {
        printf("; the kernel's program is held by %zu of %s", rows, other);
    }
    puts("; --uncertainty gives an interval");
}
