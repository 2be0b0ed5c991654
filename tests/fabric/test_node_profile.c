/* Node files: the real ones are sound, and each kind of damage is one line with file, line and key. */
#include "sim/core/json.h"
#include "tests/fabric/bare_node.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const node_names[] = { "h200x2",  "h200x8",  "h100x8", "b200x8",
                                          "mi300x8", "mi350x8", "mi355x8" };
#define NODES (sizeof node_names / sizeof node_names[0])

Test(node_profile, real_files_are_sound)
{
    for (size_t n = 0; n < NODES; n++) {
        struct node_profile *node = read_node(node_names[n]);
        cr_expect(strcmp(node_profile_name(node), node_names[n]) == 0, "%s", node_profile_name(node));
        cr_expect(gt(u32, node_profile_gpu_count(node), 1));
        for (size_t i = 0; i < node_profile_number_count(); i++) {
            struct node_profile_value value;
            if (node_profile_number_at(node, i, &value)) {
                cr_expect(value.low <= value.value && value.value <= value.high, "%s: %s", node_names[n],
                          value.key);
                cr_expect(strlen(value.source) > 2, "%s: %s", node_names[n], value.key);
                cr_expect(strcmp(value.kind, "assumed") != 0 || value.low < value.high,
                          "%s: %s is assumed without a range", node_names[n], value.key);
            }
        }
        node_profile_destroy(node);
    }
}

Test(node_profile, hash_moves_with_any_number)
{
    struct node_profile *node = read_node("b200x8");
    uint64_t before = node_profile_hash(node);
    for (size_t i = 0; i < node_profile_number_count(); i++) {
        struct node_profile_value value;
        if (node_profile_number_at(node, i, &value)) {
            double *number = node_profile_number(node, value.key), was = *number;
            *number += 1;
            cr_expect(ne(u64, node_profile_hash(node), before), "%s", value.key);
            *number = was;
        }
    }
    cr_expect(eq(u64, node_profile_hash(node), before));
    cr_expect(node_profile_number(node, "link.colour") == NULL);
    cr_expect(node_profile_number(node, "ll64.hop") == NULL, "b200x8 has no section ll64");
    node_profile_destroy(node);
}

/* calib/data/h200/memcpy.csv: 256 MiB to the device, pinned 4,849 us, pageable 14,531 us. */
Test(node_profile, host_link_prices_measured_copies)
{
    struct node_profile *node = read_node("h200x2");
    double rate, fixed, bytes = 256 * 1048576.0;
    node_profile_host_link(node, true, true, &rate, &fixed);
    cr_expect(epsilon_eq(dbl, (fixed + bytes / rate / 1000) / 4849.152, 1, 0.02));
    node_profile_host_link(node, true, false, &rate, &fixed);
    cr_expect(epsilon_eq(dbl, (fixed + bytes / rate / 1000) / 4864.896, 1, 0.02));
    node_profile_host_link(node, false, true, &rate, &fixed);
    cr_expect(epsilon_eq(dbl, (fixed + bytes / rate / 1000) / 14531.072, 1, 0.03));
    node_profile_destroy(node);
}

/* calib/data/h200/copies.csv, on the device: 0.7 us of a byte to it, 1.4 to the host; 1 MiB 21.5 us, pinned or pageable. */
Test(node_profile, small_copies_take_the_device_a_microsecond)
{
    struct node_profile *node = read_node("h200x2");
    double rate, fixed;
    for (int pinned = 0; pinned < 2; pinned++) {
        node_profile_host_link(node, pinned, true, &rate, &fixed);
        cr_expect(fixed >= 0.7 && fixed <= 2.5, "%g us", fixed);
    }
    cr_expect(epsilon_eq(dbl, (fixed + 1048576 / rate / 1000) / 21.5, 1, 0.1));
    cr_expect(eq(dbl, node_profile_staged_bytes(node), 1048576));
    node_profile_destroy(node);
}

/* The schema and the reader know the same sections, keys, units and requirements. */
Test(node_profile, schema_matches_the_reader)
{
    char path[512];
    struct json *schema = NULL;
    struct sim_error error;
    snprintf(path, sizeof path, "%s/docs/schemas/node.schema.json", SOURCE_DIR);
    cr_assert(json_read_file(path, &schema, &error) == SIM_OK, "%s", error.text);
    const struct json *sections = json_get(schema, "properties");
    size_t numbers = 0;
    for (size_t s = 0; s < json_count(sections); s++) {
        const struct json *keys = json_get(json_at(sections, s), "properties");
        for (size_t k = 0; keys != NULL && k < json_count(keys); k++) {
            numbers += json_get(json_get(json_at(keys, k), "properties"), "unit") != NULL;
        }
    }
    cr_expect(eq(sz, numbers, node_profile_number_count()));
    struct node_profile *node = read_node("mi350x8");
    for (size_t i = 0; i < node_profile_number_count(); i++) {
        struct node_profile_value value;
        if (!node_profile_number_at(node, i, &value)) {
            continue;
        }
        char section[32];
        const char *dot = strchr(value.key, '.');
        snprintf(section, sizeof section, "%.*s", (int)(dot - value.key), value.key);
        const struct json *object = json_get(json_get(json_get(sections, section), "properties"), dot + 1);
        cr_assert(object != NULL, "schema lacks %s", value.key);
        const struct json *unit = json_get(json_get(json_get(object, "properties"), "unit"), "const");
        cr_expect(unit != NULL && strcmp(json_string(unit), value.unit) == 0, "%s", value.key);
    }
    node_profile_destroy(node);
    json_destroy(schema);
}

/* ---- damage */

struct damage {
    const char *name, *find,
        *replace; /* in b200x8.json, first occurrence; replace NULL: cut the file there */
    const char *says;
};

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    cr_assert(file != NULL, "%s", path);
    char *text = calloc(1, 65536);
    size_t length = fread(text, 1, 65535, file);
    fclose(file);
    cr_assert(length > 0 && length < 65535);
    return text;
}

static void expect_refused(const char *original, const struct damage *damage)
{
    char path[] = "/tmp/reckon_node_XXXXXX";
    const char *at = strstr(original, damage->find);
    cr_assert(at != NULL, "%s: '%s' is not in the file", damage->name, damage->find);
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    FILE *file = fdopen(descriptor, "w");
    fwrite(original, 1, (size_t)(at - original), file);
    if (damage->replace != NULL) {
        fputs(damage->replace, file);
        fputs(at + strlen(damage->find), file);
    }
    fclose(file);
    struct node_profile *node = NULL;
    struct sim_error error = { 0 };
    enum sim_status status = node_profile_read(path, &node, &error);
    unlink(path);
    cr_expect(status != SIM_OK && sim_status_exit_code(status) == 1, "%s: accepted", damage->name);
    cr_expect(node == NULL);
    cr_expect(strstr(error.text, path) != NULL, "%s names no file: %s", damage->name, error.text);
    cr_expect(strstr(error.text, damage->says) != NULL && strchr(error.text, '\n') == NULL, "%s: %s",
              damage->name, error.text);
}

Test(node_profile, damage_is_one_line)
{
    static const struct damage damages[] = {
        { "unknown section", "\"memory\"", "\"memmory\"", "unknown key node.memmory" },
        { "unknown key", "\"usable\"", "\"useful\"", "unknown key link.useful" },
        { "unknown member", "\"low\"", "\"lowest\"", "unknown key topology.gpus.lowest" },
        { "wrong schema", "reckon.node/1", "reckon.node/9", "reckon.node/1" },
        { "no text", "\"device\": \"b200\"", "\"device\": \"\"", "device" },
        { "kind of topology", "\"switched\"", "\"torus\"", "mesh or switched" },
        { "wrong unit", "\"unit\": \"GB/s\"", "\"unit\": \"GiB/s\"", "must be in \"GB/s\"" },
        { "no unit", "\"unit\": \"GB/s\", ", "", "link.raw has no text unit" },
        { "text for number", "\"value\": 40.1", "\"value\": \"40.1\"", "link.usable has no number" },
        { "out of range", "\"value\": 40.1", "\"value\": -1", "out of range" },
        { "outside its own bounds", "\"value\": 40.1", "\"value\": 20", "its own low" },
        { "usable above raw", "\"value\": 40.1, \"unit\": \"GB/s\", \"low\": 38.095, \"high\": 43.308",
          "\"value\": 60, \"unit\": \"GB/s\", \"low\": 38, \"high\": 60", "above link.raw" },
        { "part of a GPU", "\"value\": 8, \"unit\": \"count\", \"low\": 8, \"high\": 8",
          "\"value\": 8.5, \"unit\": \"count\", \"low\": 8, \"high\": 9", "whole" },
        { "kind of number", "\"kind\": \"fitted\"", "\"kind\": \"guessed\"", "must be one of spec" },
        { "no source", "\"source\": \"node\"", "\"source\": \"\"", "source" },
        { "twice", "\"count\": {", "\"raw\": {", "raw" },
        { "cut", "\"library\"", NULL, "" },
        { "not an object", "{", "[{", "" },
    };
    char path[512];
    snprintf(path, sizeof path, "%s/devices/nodes/b200x8.json", SOURCE_DIR);
    char *original = read_text(path);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        expect_refused(original, &damages[i]);
    }
    free(original);
}

Test(node_profile, missing_file)
{
    struct node_profile *node;
    struct sim_error error;
    cr_expect(eq(int, node_profile_read("/nowhere/node.json", &node, &error), SIM_BAD_FILE));
    cr_expect(strstr(error.text, "/nowhere/node.json") != NULL, "%s", error.text);
}
