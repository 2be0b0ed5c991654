#include "sim/core/json.h"
#include "tests/core/profile_edit.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <sys/wait.h>

/* Output of `reckon devices ARGUMENTS`, standard output and errors together; the caller frees it. */
static char *run_devices(const char *arguments, int *exit_code)
{
    char command[8192];
    snprintf(command, sizeof command, "%s %s 2>&1", DEVICES_ALONE, arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe != NULL);
    char *text = calloc(1, 1 << 18);
    size_t size_bytes = fread(text, 1, (1 << 18) - 1, pipe);
    text[size_bytes] = '\0';
    *exit_code = WEXITSTATUS(pclose(pipe));
    return text;
}

static void expect_text(const char *arguments, int expect_code, const char *const *pieces, size_t count)
{
    int code;
    char *text = run_devices(arguments, &code);
    cr_expect(eq(int, code, expect_code), "%s: %s", arguments, text);
    for (size_t i = 0; i < count; i++) {
        cr_expect(strstr(text, pieces[i]) != NULL, "%s lacks \"%s\":\n%s", arguments, pieces[i], text);
    }
    free(text);
}

Test(cmd_devices, lists_every_device_with_units)
{
    const char *const pieces[] = { "b200 ",        "h200 ",     "mi350x ",    "2200 MHz",
                                   "2307 TFLOP/s", "8.00 TB/s", "288.00 GiB", "assumed" };
    expect_text("", 0, pieces, 8);
}

Test(cmd_devices, prints_a_value_with_unit_range_kind_and_source)
{
    const char *const pieces[] = { "atomic.fp32_interval", "1.76 ns", "[1.74, 1.78]", "measured",
                                   "calib/data/h200/atomic.csv" };
    expect_text("h200", 0, pieces, 5);
}

/* FP64 72.1, FP32 144.2 TFLOP/s; 256 CUs on 8 dies; 160 KiB; 4 MiB; 256 MiB; 8 TB/s; 288 GiB; balance 9.0 FLOP/B. */
Test(cmd_devices, prints_the_nine_values_of_the_mi350x)
{
    static const struct {
        const char *key, *unit;
        double value;
    } nine[] = { { "fp64", "TFLOP/s", 72.0896 }, { "fp32", "TFLOP/s", 144.1792 },
                 { "units", "count", 256 },      { "groups", "count", 8 },
                 { "lds_per_unit", "KiB", 160 }, { "l2_per_group", "MiB", 4 },
                 { "mall", "MiB", 256 },         { "hbm_rate", "TB/s", 8 },
                 { "hbm_capacity", "GiB", 288 } };
    int code;
    struct json *root;
    struct sim_error error = { 0 };
    char *text = run_devices("mi350x --json", &code);
    cr_assert(eq(int, code, 0));
    cr_assert(eq(int, json_read_text(text, "devices", &root, &error), SIM_OK), "%s", error.text);
    cr_expect(eq(str, (char *)json_string(json_get(root, "schema")), "reckon.devices/1"));
    const struct json *derived = json_get(json_at(json_get(root, "devices"), 0), "derived");
    for (int i = 0; i < 9; i++) {
        const struct json *figure = json_get(derived, nine[i].key);
        cr_assert(figure != NULL, "%s", nine[i].key);
        cr_expect(ieee_ulp_eq(dbl, json_number(json_get(figure, "value")), nine[i].value, 4), "%s",
                  nine[i].key);
        cr_expect(eq(str, (char *)json_string(json_get(figure, "unit")), (char *)nine[i].unit));
    }
    json_destroy(root);
    free(text);
}

/* The file written by a hand that swapped L2 and register file, kept 4 of the 8 dies and left the unit off the bandwidth:
 * 256 CUs, 4 dies, 512 KiB of L2 a die, 4 MiB of registers a CU (1,048,576 of 32 bits), rate 8.0 without a unit. */
Test(cmd_devices, check_names_each_swapped_field)
{
    char path[64], arguments[128];
    char *text = profile_text("mi350x");
    text = profile_set_number(text, "package", "groups", "4", "count");
    text = profile_set_number(text, "unit", "lds", "64", "KiB");
    text = profile_set_number(text, "unit", "lds_per_workgroup_max", "64", "KiB");
    text = profile_set_number(text, "unit", "registers", "1048576", "count");
    text = profile_set_number(text, "l2", "capacity", "2", "MiB"); /* 4 dies of 524,288 B */
    text = profile_set(text, "hbm", "channel_rate",
                       "{ \"value\": 8.0, \"low\": 8, \"high\": 8, \"kind\": \"spec\", \"source\": \"t\" }");
    profile_write(text, path);
    snprintf(arguments, sizeof arguments, "--check %s", path);
    const char *const pieces[] = {
        ("unit.registers = 1048576 count (4096 KiB) is larger than the L2 of its group, l2.capacity / "
         "package.groups = 512 KiB: plausible is 1024 to 131072 count"),
        ("package.units_total = 256 count does not equal package.groups x package.units_per_group = 4 x 32: "
         "plausible is 128"),
        "hbm.channel_rate = 8 has no unit: must be \"GB/s\"; plausible is 0.1 to 1000 GB/s",
    };
    expect_text(arguments, 1, pieces, 3);
    remove(path);
}

Test(cmd_devices, check_of_a_good_file_and_of_none)
{
    const char *const good[] = { "h200.json: valid" }, *const none[] = {
        "nothing.json: No such file or directory"
    };
    expect_text("--check " SOURCE_DIR "/devices/h200.json", 0, good, 1);
    expect_text("--check nothing.json", 1, none, 1);
}

Test(cmd_devices, check_as_json)
{
    int code;
    struct json *root;
    struct sim_error error = { 0 };
    char path[64], arguments[128];
    profile_write(profile_set_number(profile_text("h200"), "l2", "ways", "0", "count"), path);
    snprintf(arguments, sizeof arguments, "--json --check %s", path);
    char *text = run_devices(arguments, &code);
    cr_expect(eq(int, code, 1));
    cr_assert(eq(int, json_read_text(text, "check", &root, &error), SIM_OK), "%s", error.text);
    cr_expect(not(json_bool(json_get(root, "valid"))));
    cr_expect(eq(sz, json_count(json_get(root, "problems")), 1));
    json_destroy(root);
    free(text);
    remove(path);
}

Test(cmd_devices, user_errors_are_one_line)
{
    static const char *const cases[] = {
        "MI350", "h200 b200", "--chek x", "--check", "h200 --check x", "\"\""
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int code;
        char *text = run_devices(cases[i], &code);
        cr_expect(eq(int, code, 1), "%s", cases[i]);
        cr_expect(strncmp(text, "reckon devices: ", 16) == 0 && strchr(text, '\n') == text + strlen(text) - 1,
                  "%s: %s", cases[i], text);
        free(text);
    }
}

/* A bandwidth's unit is in the manual, so nobody has to guess it. */
Test(cmd_devices, help_lists_every_key_with_unit_and_range)
{
    const char *const pieces[] = { "hbm.channel_rate", "GB/s", "l2.organisation", "private|partitioned",
                                   "0.25 to 1024" };
    expect_text("--help", 0, pieces, 5);
}

Test(cmd_devices, the_schema_in_the_documentation_is_the_one_printed)
{
    int code;
    char *text = run_devices("--schema", &code);
    char *kept = calloc(1, 1 << 18);
    FILE *file = fopen(SOURCE_DIR "/docs/schemas/device.schema.json", "rb");
    cr_assert(file != NULL);
    cr_assert(fread(kept, 1, (1 << 18) - 1, file) > 0);
    fclose(file);
    cr_expect(eq(int, code, 0));
    cr_expect(strcmp(text, kept) == 0,
              "write it anew: reckon devices --schema > docs/schemas/device.schema.json");
    free(kept);
    free(text);
}
