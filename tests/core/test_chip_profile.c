#include "sim/core/chip_profile.h"
#include "sim/core/data_path.h"
#include "tests/core/profile_edit.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>

static struct chip_profile read_device(const char *name)
{
    char path[DATA_PATH_CAPACITY];
    struct chip_profile profile;
    struct sim_error error;
    cr_assert(eq(int, data_path_find("devices", "device", name, path, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(int, chip_profile_read(path, &profile, &error), SIM_OK), "%s", error.text);
    return profile;
}

Test(chip_profile, every_shipped_device_is_valid_and_named_for_its_file)
{
    struct data_names names;
    struct sim_error error;
    cr_assert(eq(int, data_path_list("devices", &names, &error), SIM_OK), "%s", error.text);
    cr_expect(ge(sz, names.count, 3));
    for (size_t i = 0; i < names.count; i++) {
        struct chip_profile profile = read_device(names.name[i]);
        cr_expect(eq(str, profile.name, names.name[i]));
        for (int n = 0; n < CHIP_NUMBERS; n++) {
            enum chip_number number = (enum chip_number)n;
            if (chip_number_present(&profile, number)) {
                cr_expect(profile.meta[n].source != NULL, "%s.%s", profile.name, chip_number_key(number));
            } else {
                cr_expect(eq(dbl, chip_number_value(&profile, number), 0));
                cr_expect(eq(ptr, profile.meta[n].source, NULL));
            }
        }
        chip_profile_finish(&profile);
    }
    data_names_finish(&names);
}

Test(chip_profile, a_measured_value_is_in_its_field_with_its_origin)
{
    /* 0.732 ns between integer atomics on one address, measured on the H200 */
    struct chip_profile profile = read_device("h200");
    enum chip_number index;
    double *value = chip_profile_number(&profile, "atomic.int_interval", &index);
    cr_expect(eq(ptr, value, &profile.atomic_int_interval));
    cr_expect(eq(dbl, *value, 0.732));
    cr_expect(eq(int, index, CHIP_NUMBER_atomic_int_interval));
    cr_expect(eq(str, (char *)chip_number_unit(index), "ns"));
    cr_expect(eq(int, profile.meta[index].kind, PROFILE_MEASURED));
    cr_expect(eq(int, profile.l2_organisation, CHIP_L2_PARTITIONED));
    cr_expect(eq(u32, chip_unit_count(&profile), 132));
    cr_expect(eq(str, profile.trace_names, "NVIDIA H200"));
    cr_expect(not(profile.has_mall));
    cr_expect(chip_profile_number(&profile, "atomic.nothing", NULL) == NULL);
    chip_profile_finish(&profile);
    chip_profile_finish(&profile); /* zeroed memory is allowed */
}

/* The nine published figures of the MI350X that tools got wrong: FP64 72.1 and FP32 144.2 TFLOP/s, 256 CUs on 8 dies, 160 KB
 * of LDS per CU, 4 MB of L2 per die, 256 MB last level, 8 TB/s, 288 GB. */
Test(chip_profile, mi350x_has_its_nine_published_values)
{
    struct chip_profile p = read_device("mi350x");
    double units_mhz = p.package_units_total * p.clock_core_max;
    cr_expect(lt(dbl, fabs(p.matrix_fp64 * units_mhz / 1e6 - 72.1), 0.05));
    cr_expect(lt(dbl, fabs(p.matrix_fp32 * units_mhz / 1e6 - 144.2), 0.05));
    cr_expect(eq(u32, chip_unit_count(&p), 256));
    cr_expect(eq(dbl, p.package_groups, 8));
    cr_expect(eq(dbl, p.unit_lds, 160));
    cr_expect(eq(dbl, p.l2_capacity / p.package_groups, 4));
    cr_expect(eq(dbl, p.mall_capacity, 256));
    cr_expect(eq(dbl, p.hbm_channels * p.hbm_channel_rate, 8000)); /* GB/s */
    cr_expect(eq(dbl, p.hbm_capacity, 288));
    chip_profile_finish(&p);
}

Test(chip_profile, the_hash_follows_every_number_and_choice)
{
    struct chip_profile p = read_device("mi350x");
    uint64_t hash = p.hash;
    chip_profile_rehash(&p);
    cr_expect(eq(u64, p.hash, hash));
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        double *value = chip_profile_number(&p, chip_number_key((enum chip_number)i), NULL), before = *value;
        *value = nextafter(before, 1e9);
        chip_profile_rehash(&p);
        cr_expect(ne(u64, p.hash, hash), "%s", chip_number_key((enum chip_number)i));
        *value = before;
    }
    p.dispatch_order = CHIP_DISPATCH_BREADTH_FIRST_UNITS;
    chip_profile_rehash(&p);
    cr_expect(ne(u64, p.hash, hash));
    chip_profile_finish(&p);
}

Test(chip_profile, a_choice_reads_back_as_its_word)
{
    struct chip_profile p = read_device("mi350x");
    char word[64];
    chip_choice_text(&p, CHIP_CHOICE_l2_organisation, word, sizeof word);
    cr_expect(eq(str, word, "private"));
    chip_choice_text(&p, CHIP_CHOICE_atomic_executed_at, word, sizeof word);
    cr_expect(eq(str, word, "memory_side"));
    chip_profile_finish(&p);
}

/* ---- damage, one key at a time. `object` replaces the value of section.key. */
struct damage {
    char device[16], section[16], key[32], object[160], expect[200];
};

#define OBJECT(value, unit, low, high)                                                  \
    "{ \"value\": " value ", \"unit\": \"" unit "\", \"low\": " low ", \"high\": " high \
    ", \"kind\": \"spec\", \"source\": \"t\" }"

ParameterizedTestParameters(chip_profile, refuses)
{
    static struct damage cases[] = {
        { "h200", "l2", "hit_latency", "278",
          "l2.hit_latency is a number: must be an object with value, unit" },
        { "h200", "l2", "hit_latency",
          "{ \"value\": 278, \"low\": 1, \"high\": 300, \"kind\": \"spec\", \"source\": \"t\" }",
          "l2.hit_latency = 278 has no unit: must be \"cycle\"; plausible is 1 to 5000 cycle" },
        { "h200", "hbm", "channel_rate", OBJECT("0.0256", "TB/s", "0", "1"),
          "hbm.channel_rate is in \"TB/s\": must be \"GB/s\"" },
        { "h200", "l2", "hit_latency", OBJECT("9000", "cycle", "1", "9000"),
          "l2.hit_latency = 9000 cycle is out of range: plausible is 1 to 5000 cycle" },
        { "h200", "l2", "hit_latency", OBJECT("278", "cycle", "279", "300"),
          "l2.hit_latency = 278 cycle lies outside its own low 279 and high 300" },
        { "h200", "l2", "hit_latency", OBJECT("278", "cycle", "0", "300"),
          "low 0 or high 300 is out of range" },
        { "h200", "l2", "hit_latency",
          "{ \"value\": 278, \"unit\": \"cycle\", \"kind\": \"spec\", \"source\": \"t\" }",
          "l2.hit_latency has no number low" },
        { "h200", "l2", "hit_latency",
          "{ \"value\": 278, \"unit\": \"cycle\", \"low\": 1, \"high\": 300, \"kind\": \"guess\", "
          "\"source\": \"t\" }",
          "l2.hit_latency.kind = \"guess\": one of spec, measured, derived, fitted, assumed" },
        { "h200", "l2", "hit_latency",
          "{ \"value\": 278, \"unit\": \"cycle\", \"low\": 1, \"high\": 300, \"kind\": \"spec\", \"source\": "
          "\"\" }",
          "l2.hit_latency.source is empty" },
        { "h200", "l2", "hit_latency",
          "{ \"value\": 278, \"unit\": \"cycle\", \"low\": 1, \"high\": 300, \"kind\": \"spec\", \"source\": "
          "\"t\", \"note\": 1 }",
          "unknown key l2.hit_latency.note" },
        { "h200", "package", "groups", OBJECT("1.5", "count", "1", "2"),
          "package.groups = 1.5 count must be a whole number" },
        { "h200", "l2", "organisation", "{ \"value\": \"shared\", \"kind\": \"spec\", \"source\": \"t\" }",
          "l2.organisation = \"shared\": must be one of private|partitioned" },
        { "h200", "package", "units_per_group", OBJECT("65", "count", "65", "65"),
          "package.units_total = 132 count does not equal package.groups x package.units_per_group = 2 x 65: "
          "plausible is 130" },
        { "mi350x", "unit", "registers", OBJECT("1048577", "count", "1", "1048577"),
          "unit.registers = 1048577 count is out of range" },
        { "mi350x", "l1", "capacity", OBJECT("1024", "KiB", "1", "1024"), "" },
        { "mi350x", "l1", "sector", OBJECT("96", "B", "96", "96"),
          "l1.sector = 96 B does not divide l1.line = 128 B" },
        { "mi350x", "l2", "line", OBJECT("96", "B", "96", "96"), "l2.line = 96 B must be a power of two" },
        { "mi350x", "l2", "interleave", OBJECT("32", "B", "32", "32"),
          "l2.interleave = 32 B is less than l2.sector = 64 B" },
        { "mi350x", "l2", "hit_latency", OBJECT("100", "cycle", "1", "300"),
          "l2.hit_latency = 100 cycle is not above l1.hit_latency" },
        { "mi350x", "l2", "far_latency", OBJECT("80", "cycle", "0", "100"),
          "l2.far_latency = 80 cycle with l2.organisation private" },
        { "mi350x", "mall", "capacity", OBJECT("16", "MiB", "16", "16"),
          "mall.capacity = 16 MiB is smaller than l2.capacity = 32 MiB" },
        { "mi350x", "mall", "slices", OBJECT("0", "count", "0", "1"),
          "mall.slices = 0 count is out of range" },
        { "mi350x", "hbm", "channels", OBJECT("2", "count", "2", "2"),
          "hbm.channel_rate = 31.25 GB/s x hbm.channels = 62.5 GB/s for the package: plausible is 100 to "
          "50000 GB/s" },
        { "mi350x", "hbm", "refresh_time", OBJECT("4000", "ns", "4000", "4000"),
          "hbm.refresh_time = 4000 ns is not below hbm.refresh_interval" },
        { "mi350x", "hbm", "access", OBJECT("512", "B", "512", "512"), "" },
        { "mi350x", "hbm", "row", OBJECT("128", "B", "128", "128"), "" },
        { "mi350x", "dispatch", "dispatchers", OBJECT("4", "count", "4", "4"),
          "dispatch.dispatchers = 4 count must be 1 or package.groups = 8" },
        { "mi350x", "unit", "waves_max", OBJECT("30", "count", "30", "30"),
          "unit.waves_max = 30 count is not a multiple of unit.simds = 4" },
        { "mi350x", "unit", "lds_per_workgroup_max", OBJECT("161", "KiB", "161", "161"),
          "unit.lds_per_workgroup_max = 161 KiB is more than unit.lds = 160 KiB" },
        { "mi350x", "clock", "core_memory_bound", OBJECT("2300", "MHz", "2300", "2300"),
          "clock.core_memory_bound = 2300 MHz is above clock.core_max = 2200 MHz" },
        { "mi350x", "matrix", "fp8", OBJECT("2048", "FLOP/cycle", "2048", "2048"),
          "matrix.fp8 = 2048 FLOP/cycle is below matrix.bf16" },
        { "mi350x", "matrix", "tf32", OBJECT("8192", "FLOP/cycle", "8192", "8192"),
          "matrix.tf32 = 8192 FLOP/cycle is above matrix.bf16" },
        { "mi350x", "power", "board_limit", OBJECT("200", "W", "200", "200"),
          "power.idle = 240 W is not below power.board_limit = 200 W" },
        { "mi350x", "tlb", "reach", OBJECT("0.1", "MiB", "0.1", "0.1"), "" },
    };
    return cr_make_param_array(struct damage, cases, sizeof cases / sizeof cases[0]);
}

struct seen {
    size_t count;
    bool found;
    const char *expect;
    char first[SIM_ERROR_TEXT_CAPACITY];
};

static void look(void *context, const struct sim_error *error)
{
    struct seen *seen = context;
    if (seen->count++ == 0) {
        snprintf(seen->first, sizeof seen->first, "%s", error->text);
    }
    seen->found = seen->found || strstr(error->text, seen->expect) != NULL;
}

ParameterizedTest(struct damage *c, chip_profile, refuses)
{
    char path[64];
    if (c->expect[0] == '\0') { /* odd but possible: must be taken */
        profile_write(profile_set(profile_text(c->device), c->section, c->key, c->object), path);
        struct chip_profile profile;
        struct sim_error error = { 0 };
        cr_expect(eq(int, chip_profile_read(path, &profile, &error), SIM_OK), "%s.%s: %s", c->section, c->key,
                  error.text);
        chip_profile_finish(&profile);
        remove(path);
        return;
    }
    profile_write(profile_set(profile_text(c->device), c->section, c->key, c->object), path);
    struct seen seen = { .expect = c->expect };
    size_t count = chip_profile_check(path, look, &seen);
    cr_expect(eq(sz, count, seen.count));
    cr_expect(seen.found, "%s.%s: %zu complaints, first: %s", c->section, c->key, seen.count, seen.first);
    cr_expect(strncmp(seen.first, path, strlen(path)) == 0 && seen.first[strlen(path)] == ':',
              "no file and line: %s", seen.first);
    struct chip_profile profile;
    struct sim_error error = { 0 };
    cr_expect(eq(int, chip_profile_read(path, &profile, &error), SIM_BAD_PROFILE));
    cr_expect(strncmp(error.text, seen.first, strlen(seen.first)) == 0, "read says %s, check %s", error.text,
              seen.first);
    remove(path);
}

/* Every key of every section, left out one at a time, is missed by name. */
Test(chip_profile, no_key_has_a_silent_default, .timeout = 60)
{
    const char *const devices[] = { "mi350x", "b200" };
    for (int d = 0; d < 2; d++) {
        struct chip_profile whole = read_device(devices[d]);
        for (int i = 0; i < CHIP_NUMBERS; i++) {
            const char *dotted = chip_number_key((enum chip_number)i);
            if (!chip_number_present(&whole, (enum chip_number)i)) {
                continue;
            }
            char section[32], renamed[64], expect[96], path[64], after[64], from[64];
            snprintf(section, sizeof section, "%.*s", (int)strcspn(dotted, "."), dotted);
            const char *key = strchr(dotted, '.') + 1;
            snprintf(after, sizeof after, "\n  \"%s\": {", section);
            snprintf(from, sizeof from, "\"%s\": ", key);
            snprintf(renamed, sizeof renamed, "\"%s_x\": ", key);
            char *text = profile_text(devices[d]), *at = strstr(strstr(text, after), from);
            size_t size_bytes = strlen(text) + 3;
            char *edited = calloc(1, size_bytes);
            snprintf(edited, size_bytes, "%.*s%s%s", (int)(at - text), text, renamed, at + strlen(from));
            free(text);
            profile_write(edited, path);
            snprintf(expect, sizeof expect, "%s is missing", dotted);
            struct seen seen = { .expect = expect };
            cr_expect(eq(sz, chip_profile_check(path, look, &seen), 2), "%s: %s", dotted,
                      seen.first); /* unknown, missing */
            cr_expect(seen.found, "%s: %s", dotted, seen.first);
            remove(path);
        }
        chip_profile_finish(&whole);
    }
}

Test(chip_profile, a_die_link_needs_two_dies)
{
    char path[64];
    struct seen seen = { .expect = "package.dies = 1 count but there is a section die_link" };
    char *text = profile_text("mi350x");
    char *dies = strstr(text, "\"dies\": { \"value\": 2, \"unit\": \"count\", \"low\": 2, \"high\": 2");
    cr_assert(dies != NULL);
    memcpy(dies, "\"dies\": { \"value\": 1, \"unit\": \"count\", \"low\": 1, \"high\": 1", 58);
    profile_write(text, path);
    cr_expect(eq(sz, chip_profile_check(path, look, &seen), 1), "%s", seen.first);
    cr_expect(seen.found, "%s", seen.first);
    remove(path);
}

Test(chip_profile, top_of_the_file)
{
    static const struct {
        const char *from, *to, *expect;
    } cases[] = {
        { "\"schema\"", "\"schema\": \"reckon.device/2\",", "schema must be \"reckon.device/1\"" },
        { "\"name\"", "\"name\": 7,", "name is a number: must be a text" },
        { "\"title\"", "\"tittle\": \"x\",", "unknown key tittle" },
        { "\"node\"", "", "node is missing" },
        { "\"trace_names\"", "\"trace_names\": [\"a|b\"],", "trace_names must not hold" },
        { "\"name\"", "\"name\": \"a_name_far_longer_than_the_31_bytes_it_may_have\",",
          "name is longer than 31 bytes" },
        { "\"clock\": {", "\"clock\": 5, \"l2\": {", "clock is a number: must be an object" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[64];
        struct seen seen = { .expect = cases[i].expect };
        profile_write(profile_replace_line(profile_text("h200"), "{", cases[i].from, cases[i].to), path);
        chip_profile_check(path, look, &seen);
        if (i < 6) {
            cr_expect(seen.found, "%s: %s", cases[i].expect, seen.first);
        } else {
            cr_expect(ge(sz, seen.count, 1)); /* l2 given twice: refused as JSON */
        }
        remove(path);
    }
}

/* ---- no field is silently unused */

/* The C sources of the folders that model something, one after the other. */
static char *model_sources(void)
{
    FILE *pipe = popen("find " SOURCE_DIR "/sim " SOURCE_DIR "/workloads " SOURCE_DIR
                       "/studies -name '*.[ch]' "
                       "-not -path '*/sim/core/*' -not -path '*/sim/cli/*' -exec cat {} +",
                       "r");
    size_t capacity = 32u << 20;
    char *text = calloc(1, capacity);
    cr_assert(pipe != NULL);
    size_t size_bytes = fread(text, 1, capacity - 1, pipe);
    pclose(pipe);
    cr_assert(gt(sz, size_bytes, 100000));
    cr_assert(lt(sz, size_bytes, capacity - 1));
    return text;
}

static bool is_field_used(const char *sources, const char *field)
{
    size_t length = strlen(field);
    for (const char *at = sources; (at = strstr(at, field)) != NULL; at += length) {
        bool member = at > sources && (at[-1] == '.' || at[-1] == '>');
        bool whole = strchr("abcdefghijklmnopqrstuvwxyz0123456789_", at[length]) == NULL;
        if (member && whole) {
            return true;
        }
    }
    return false;
}

Test(chip_profile, a_number_is_used_by_a_model_or_says_that_it_is_informational)
{
    char *sources = model_sources();
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        char field[64];
        snprintf(field, sizeof field, "%s", chip_number_key((enum chip_number)i));
        *strchr(field, '.') = '_';
        bool informational = strstr(chip_number_help((enum chip_number)i), "(informational)") != NULL;
        cr_expect(ne(int, informational, is_field_used(sources, field)), "%s %s", field,
                  informational ? "is used: take (informational) off its help"
                                : "is used by no model: say (informational)");
    }
    free(sources);
}

/* ---- names */

Test(data_path, an_unknown_device_lists_the_known_and_takes_no_near_one)
{
    char path[DATA_PATH_CAPACITY];
    const char *const near[] = { "MI350", "mi350", "mi350x ", "H200", "AMD Instinct MI399X", "h20", "" };
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        struct sim_error error = { 0 };
        cr_expect(eq(int, data_path_find("devices", "device", near[i], path, &error), SIM_UNKNOWN_NAME), "%s",
                  near[i]);
        cr_expect(strstr(error.text, "known are a100, ") != NULL && strstr(error.text, "mi350x") != NULL,
                  "%s", error.text);
    }
}

Test(data_path, a_path_is_taken_as_it_is)
{
    char path[DATA_PATH_CAPACITY];
    struct sim_error error = { 0 };
    cr_expect(
        eq(int, data_path_find("devices", "device", SOURCE_DIR "/devices/h200.json", path, &error), SIM_OK));
    cr_expect(eq(str, path, SOURCE_DIR "/devices/h200.json"));
    cr_expect(eq(int, data_path_find("devices", "device", "nowhere.json", path, &error), SIM_BAD_FILE));
    cr_expect(eq(str, error.text, "device file nowhere.json: No such file or directory"));
}

Test(data_path, the_environment_names_another_folder)
{
    char path[DATA_PATH_CAPACITY];
    struct sim_error error = { 0 };
    setenv("RECKON_DATA", "/nonexistent", 1);
    cr_expect(eq(int, data_path_find("devices", "device", "h200", path, &error), SIM_BAD_FILE));
    cr_expect(strstr(error.text, "/nonexistent/devices: No such file or directory (set RECKON_DATA") ==
                  error.text,
              "%s", error.text);
    setenv("RECKON_DATA", SOURCE_DIR, 1);
    cr_expect(eq(int, data_path_find("devices", "device", "h200", path, &error), SIM_OK), "%s", error.text);
}
