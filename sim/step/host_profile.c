#include "sim/step/host_profile.h"
#include <stddef.h>
#include <string.h>

#define ROW(field, unit, min, max, help)                                   \
    {                                                                      \
#field, unit, min, max, offsetof(struct host_profile, field), help \
    }
static const struct value_row rows[] = {
    ROW(operator_us, "us", 0, 1000, "one framework operator, nested ones not counted"),
    ROW(launch_us, "us", 0, 1000, "one launch, copy or fill call"),
    ROW(event_us, "us", 0, 1000, "one event record or stream wait call"),
    ROW(sync_us, "us", 0, 10000, "return of a synchronise call after the device is done"),
    ROW(start_us, "us", 0, 1000, "return of a launch call to the kernel's start on an idle stream"),
    ROW(queue_depth, "count", 1, 1e6, "launches a host may be ahead of a device"),
};
#undef ROW

enum sim_status host_profile_read(const char *path, struct host_profile *host, struct sim_error *error)
{
    struct json *root = NULL;
    enum sim_status status = json_read_file(path, &root, error);
    if (status != SIM_OK) {
        return status;
    }
    static const char *const keys[] = { "schema", "name", "title", "values", NULL };
    memset(host, 0, sizeof *host);
    if ((status = value_keys_check(path, root, keys, error)) == SIM_OK &&
        (status = value_text_read(path, root, "name", host->name, sizeof host->name, error)) == SIM_OK &&
        (status = value_text_read(path, root, "title", host->title, sizeof host->title, error)) == SIM_OK) {
        status = value_table_read(path, json_get(root, "values"), rows, sizeof rows / sizeof rows[0], host,
                                  &host->kinds, error);
    }
    json_destroy(root);
    return status;
}
