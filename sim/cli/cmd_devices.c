/* reckon devices: what is known of each package, how well, and from where; and the check of a device file. */
#include "sim/cli/cli.h"
#include "sim/core/chip_profile.h"
#include "sim/core/data_path.h"
#include "sim/core/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *name;  /* of the device to print; NULL: list all */
    const char *check; /* file to check */
    bool json, help, schema;
};

static const char usage[] =
    "usage: reckon devices [NAME|FILE.json] [--json]     list the devices, or print one\n"
    "       reckon devices --check FILE [--json]          check a device file\n"
    "       reckon devices --schema                       JSON Schema of a device file\n"
    "       reckon devices --help                         this, and every key of a device file\n"
    "Example:\n  reckon devices mi350x\n";

static enum sim_status parse(int argc, char **argv, struct options *options, struct sim_error *error)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--json") == 0) {
            options->json = true;
        } else if (strcmp(word, "--schema") == 0) {
            options->schema = true;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            options->help = true;
        } else if (strcmp(word, "--quiet") == 0) {
            continue; /* nothing here takes long enough for progress */
        } else if (strcmp(word, "--check") == 0 || strncmp(word, "--check=", 8) == 0) {
            options->check = word[7] == '=' ? word + 8 : i + 1 < argc ? argv[++i] : NULL;
            if (options->check == NULL || options->check[0] == '\0') {
                return sim_fail(error, SIM_BAD_ARGUMENT, "--check needs a file");
            }
        } else if (word[0] == '-') {
            return sim_fail(error, SIM_BAD_ARGUMENT,
                            "unknown option %s: valid are --check FILE, --json, --schema, --help",
                            word);
        } else if (options->name != NULL) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "one name at a time, got \"%s\" and \"%s\"",
                            options->name, word);
        } else {
            options->name = word;
        }
    }
    if (options->check != NULL && options->name != NULL) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "\"%s\" beside --check: give one of them", options->name);
    }
    return SIM_OK;
}

/* ---- figures that follow from a profile; computed here, never typed into a file */

struct derived {
    const char *key, *unit, *help;
    double value;
};

#define DERIVED_MAX 16

static double tflops(const struct chip_profile *p, double flop_per_cycle)
{
    return flop_per_cycle * p->package_units_total * p->clock_core_max / 1e6;
}

static size_t derive(const struct chip_profile *p, struct derived d[DERIVED_MAX])
{
    size_t n = 0;
    double hbm_gbs = p->hbm_channels * p->hbm_channel_rate;
    d[n++] = (struct derived){ "units", "count", "CUs or SMs of the package", p->package_units_total };
    d[n++] = (struct derived){ "groups", "count", "compute dies, or L2 partitions", p->package_groups };
    d[n++] = (struct derived){ "bf16", "TFLOP/s", "dense matrix peak at clock.core_max",
                               tflops(p, p->matrix_bf16) };
    d[n++] = (struct derived){ "fp8", "TFLOP/s", "dense matrix peak at clock.core_max; 0: not native",
                               tflops(p, p->matrix_fp8) };
    d[n++] = (struct derived){ "fp32", "TFLOP/s", "peak at clock.core_max", tflops(p, p->matrix_fp32) };
    d[n++] = (struct derived){ "fp64", "TFLOP/s", "peak at clock.core_max", tflops(p, p->matrix_fp64) };
    d[n++] = (struct derived){ "bf16_sustained", "TFLOP/s", "the same at clock.core_dense",
                               tflops(p, p->matrix_bf16) * p->clock_core_dense / p->clock_core_max };
    d[n++] = (struct derived){ "lds_per_unit", "KiB", "LDS or shared memory", p->unit_lds };
    d[n++] = (struct derived){ "l2_per_group", "MiB", "L2 of one group", p->l2_capacity / p->package_groups };
    d[n++] = (struct derived){ "l2_total", "MiB", "L2 of the package", p->l2_capacity };
    if (p->has_mall) {
        d[n++] = (struct derived){ "mall", "MiB", "memory-side cache", p->mall_capacity };
    }
    d[n++] = (struct derived){ "hbm_rate", "TB/s", "HBM peak (10^12 B/s)", hbm_gbs * 1e-3 };
    d[n++] = (struct derived){ "hbm_capacity", "GiB", "HBM usable by a program", p->hbm_capacity };
    d[n++] = (struct derived){ "fp64_balance", "FLOP/B", "fp64 peak over HBM peak",
                               tflops(p, p->matrix_fp64) * 1e3 / hbm_gbs };
    d[n++] = (struct derived){ "bf16_balance", "FLOP/B", "bf16 peak over HBM peak",
                               tflops(p, p->matrix_bf16) * 1e3 / hbm_gbs };
    SIM_ASSERT(n <= DERIVED_MAX, "%zu derived figures", n);
    return n;
}

static void count_kinds(const struct chip_profile *p, size_t count[PROFILE_KINDS])
{
    memset(count, 0, PROFILE_KINDS * sizeof *count);
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        if (chip_number_present(p, (enum chip_number)i)) {
            count[p->meta[i].kind]++;
        }
    }
    for (int i = 0; i < CHIP_CHOICES; i++) {
        count[p->choice_meta[i].kind] += p->choice_meta[i].source != NULL;
    }
}

static void kinds_text(const struct chip_profile *p, char *text, size_t capacity)
{
    size_t count[PROFILE_KINDS];
    count_kinds(p, count);
    size_t length = 0;
    for (int k = 0; k < PROFILE_KINDS && length < capacity; k++) {
        length += (size_t)snprintf(text + length, capacity - length, "%s%zu %s", k == 0 ? "" : ", ", count[k],
                                   profile_kind_text((enum profile_kind)k));
    }
}

/* The section's end in "section.key". */
static int section_length(const char *dotted)
{
    return (int)strcspn(dotted, ".");
}

/* ---- as JSON */

static struct json *kinds_json(const struct chip_profile *p)
{
    size_t count[PROFILE_KINDS];
    struct json *kinds = json_new_object();
    count_kinds(p, count);
    for (int k = 0; k < PROFILE_KINDS; k++) {
        json_set_integer(kinds, profile_kind_text((enum profile_kind)k), (int64_t)count[k]);
    }
    return kinds;
}

static struct json *summary_json(const struct chip_profile *p, const char *path)
{
    struct derived derived[DERIVED_MAX];
    char hash[20];
    struct json *device = json_new_object();
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)p->hash);
    json_set_string(device, "name", p->name);
    json_set_string(device, "title", p->title);
    json_set_string(device, "file", path);
    json_set_string(device, "hash", hash);
    json_set_string(device, "node", p->node);
    json_set_string(device, "host", p->host);
    json_set(device, "kinds", kinds_json(p));
    struct json *figures = json_new_object();
    size_t count = derive(p, derived);
    for (size_t i = 0; i < count; i++) {
        struct json *figure = json_new_object();
        json_set_number(figure, "value", derived[i].value);
        json_set_string(figure, "unit", derived[i].unit);
        json_set(figures, derived[i].key, figure);
    }
    json_set(device, "derived", figures);
    return device;
}

static struct json *section_of(struct json *values, const char *dotted)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", section_length(dotted), dotted);
    struct json *section = json_child(values, name);
    if (section == NULL) {
        section = json_new_object();
        json_set(values, name, section);
    }
    return section;
}

static struct json *values_json(const struct chip_profile *p)
{
    struct json *values = json_new_object();
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        enum chip_number number = (enum chip_number)i;
        if (!chip_number_present(p, number)) {
            continue;
        }
        const char *key = chip_number_key(number);
        struct json *value = json_new_object();
        json_set_number(value, "value", chip_number_value(p, number));
        json_set_string(value, "unit", chip_number_unit(number));
        json_set_number(value, "low", p->meta[i].low);
        json_set_number(value, "high", p->meta[i].high);
        json_set_string(value, "kind", profile_kind_text(p->meta[i].kind));
        json_set_string(value, "source", p->meta[i].source);
        json_set(section_of(values, key), key + section_length(key) + 1, value);
    }
    for (int i = 0; i < CHIP_CHOICES; i++) {
        if (p->choice_meta[i].source == NULL) {
            continue;
        }
        char word[64];
        const char *key = chip_choice_key((enum chip_choice)i);
        struct json *value = json_new_object();
        chip_choice_text(p, (enum chip_choice)i, word, sizeof word);
        json_set_string(value, "value", word);
        json_set_string(value, "kind", profile_kind_text(p->choice_meta[i].kind));
        json_set_string(value, "source", p->choice_meta[i].source);
        json_set(section_of(values, key), key + section_length(key) + 1, value);
    }
    return values;
}

struct json *cli_device_json(const struct chip_profile *chip)
{
    struct json *device = summary_json(chip, "");
    json_set(device, "values", values_json(chip));
    return device;
}

static void put_json(struct json *document)
{
    char *text = json_print(document, true);
    puts(text);
    free(text);
    json_destroy(document);
}

/* ---- JSON Schema of a device file: docs/schemas/device.schema.json is this, byte for byte */

static struct json *schema_of_type(const char *type)
{
    struct json *schema = json_new_object();
    json_set_string(schema, "type", type);
    return schema;
}

/* An object that must hold exactly the keys set later through schema_require. */
static struct json *schema_object(void)
{
    struct json *schema = schema_of_type("object");
    json_set_bool(schema, "additionalProperties", false);
    json_set(schema, "required", json_new_array());
    json_set(schema, "properties", json_new_object());
    return schema;
}

static void schema_require(struct json *schema, const char *key, struct json *property)
{
    json_append_string(json_child(schema, "required"), key);
    json_set(json_child(schema, "properties"), key, property);
}

static struct json *schema_of_definition(const char *reference)
{
    struct json *schema = json_new_object();
    json_set_string(schema, "$ref", reference);
    return schema;
}

static struct json *schema_definitions(void)
{
    struct json *definitions = json_new_object(), *kind = json_new_object(), *kinds = json_new_array();
    for (int k = 0; k < PROFILE_KINDS; k++) {
        json_append_string(kinds, profile_kind_text((enum profile_kind)k));
    }
    json_set(kind, "enum", kinds);
    json_set(definitions, "kind", kind);
    struct json *text = schema_of_type("string");
    json_set_integer(text, "minLength", 1);
    json_set(definitions, "text", text);
    return definitions;
}

static void schema_require_origin(struct json *schema)
{
    schema_require(schema, "kind", schema_of_definition("#/definitions/kind"));
    schema_require(schema, "source", schema_of_definition("#/definitions/text"));
}

static struct json *schema_number(enum chip_number number)
{
    double min, max;
    struct json *schema = schema_object(), *unit = json_new_object();
    bool whole = strcmp(chip_number_unit(number), "count") == 0 || strcmp(chip_number_unit(number), "B") == 0;
    chip_number_range(number, &min, &max);
    json_set_string(schema, "description", chip_number_help(number));
    json_set_string(unit, "const", chip_number_unit(number));
    const char *const figures[] = { "value", "low", "high" };
    for (int i = 0; i < 3; i++) {
        struct json *figure = schema_of_type(i == 0 && whole ? "integer" : "number");
        json_set_number(figure, "minimum", min);
        json_set_number(figure, "maximum", max);
        schema_require(schema, figures[i], figure);
    }
    schema_require(schema, "unit", unit);
    schema_require_origin(schema);
    return schema;
}

static struct json *schema_choice(enum chip_choice choice)
{
    struct json *schema = schema_object(), *value = json_new_object(), *words = json_new_array();
    char list[128];
    snprintf(list, sizeof list, "%s", chip_choice_list(choice));
    for (char *rest = list, *word; (word = strsep(&rest, "|")) != NULL;) {
        json_append_string(words, word);
    }
    json_set_string(schema, "description", chip_choice_help(choice));
    json_set(value, "enum", words);
    schema_require(schema, "value", value);
    schema_require_origin(schema);
    return schema;
}

static void put_schema(void)
{
    struct json *schema = schema_object(), *name = json_new_object(), *names = schema_of_type("array");
    json_set_string(schema, "$schema", "http://json-schema.org/draft-07/schema#");
    json_set_string(schema, "$id", "reckon.device/1");
    json_set(schema, "definitions", schema_definitions());
    json_set_string(schema, "title",
                    "reckon device profile (devices/NAME.json); written by reckon devices --schema");
    json_set_string(name, "const", "reckon.device/1");
    schema_require(schema, "schema", name);
    const char *const texts[] = { "name", "title", "node", "host" };
    for (int i = 0; i < 4; i++) {
        schema_require(schema, texts[i], schema_of_definition("#/definitions/text"));
    }
    json_set(names, "items", schema_of_definition("#/definitions/text"));
    json_set(json_child(schema, "properties"), "trace_names", names);
    static const struct {
        const char *name, *help;
        bool required;
    } sections[] = {
#define SECTION_ROW(section, required, help) { #section, help, required },
        CHIP_PROFILE_SECTIONS(SECTION_ROW)
#undef SECTION_ROW
    };
    for (size_t s = 0; s < sizeof sections / sizeof sections[0]; s++) {
        struct json *section = schema_object();
        json_set_string(section, "description", sections[s].help);
        if (sections[s].required) {
            schema_require(schema, sections[s].name, section);
        } else {
            json_set(json_child(schema, "properties"), sections[s].name, section);
        }
    }
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        const char *key = chip_number_key((enum chip_number)i);
        schema_require(section_of(json_child(schema, "properties"), key), key + section_length(key) + 1,
                       schema_number((enum chip_number)i));
    }
    for (int i = 0; i < CHIP_CHOICES; i++) {
        const char *key = chip_choice_key((enum chip_choice)i);
        schema_require(section_of(json_child(schema, "properties"), key), key + section_length(key) + 1,
                       schema_choice((enum chip_choice)i));
    }
    put_json(schema);
}

/* ---- as text */

static void put_values(const struct chip_profile *p)
{
    const char *section = "";
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        enum chip_number number = (enum chip_number)i;
        const char *key = chip_number_key(number);
        if (!chip_number_present(p, number)) {
            continue;
        }
        if (strncmp(section, key, (size_t)section_length(key) + 1) != 0) {
            section = key;
            printf("\n");
        }
        char range[64];
        snprintf(range, sizeof range, "[%.6g, %.6g]", p->meta[i].low, p->meta[i].high);
        printf("%-32s %10.6g %-10s %-18s %-8s  %s\n", key, chip_number_value(p, number),
               chip_number_unit(number), range, profile_kind_text(p->meta[i].kind), p->meta[i].source);
    }
    printf("\n");
    for (int i = 0; i < CHIP_CHOICES; i++) {
        if (p->choice_meta[i].source != NULL) {
            char word[64];
            chip_choice_text(p, (enum chip_choice)i, word, sizeof word);
            printf("%-32s %-40s %-8s  %s\n", chip_choice_key((enum chip_choice)i), word,
                   profile_kind_text(p->choice_meta[i].kind), p->choice_meta[i].source);
        }
    }
}

static void put_device(const struct chip_profile *p, const char *path)
{
    struct derived derived[DERIVED_MAX];
    char kinds[160];
    kinds_text(p, kinds, sizeof kinds);
    printf("%s: %s\nfile %s, hash %016llx\nnode %s, host %s\nvalues: %s\n\n", p->name, p->title, path,
           (unsigned long long)p->hash, p->node, p->host, kinds);
    size_t count = derive(p, derived);
    printf("follows from the values:\n");
    for (size_t i = 0; i < count; i++) {
        printf("%-32s %10.6g %-10s %s\n", derived[i].key, derived[i].value, derived[i].unit, derived[i].help);
    }
    printf("\n%-32s %10s %-10s %-18s %-8s  %s\n", "key", "value", "unit", "[low, high]", "kind", "source");
    put_values(p);
    printf("\nsections this device does not have: %s%s%s%s\n", p->has_die_link ? "" : "die_link ",
           p->has_mall ? "" : "mall ", p->has_tlb ? "" : "tlb ",
           p->has_die_link && p->has_mall && p->has_tlb ? "none" : "");
}

static void put_summary(const struct chip_profile *p)
{
    char kinds[160];
    kinds_text(p, kinds, sizeof kinds);
    printf("%-10s %-24s %5.0f %5.0f MHz %6.0f TFLOP/s %6.2f TB/s %7.2f GiB  %s\n", p->name, p->title,
           p->package_units_total, p->clock_core_max, tflops(p, p->matrix_bf16),
           p->hbm_channels * p->hbm_channel_rate * 1e-3, p->hbm_capacity, kinds);
}

static void put_manual(void)
{
    printf("%s\nA device file is an object with schema, name, title, node, host, trace_names and these "
           "sections. Every number is\n"
           "{value, unit, low, high, kind, source}; every choice {value, kind, source}. kind is spec, "
           "measured, derived,\n"
           "fitted or assumed. Sections die_link, mall and tlb may be absent as a whole.\n\n",
           usage);
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        double min, max;
        chip_number_range((enum chip_number)i, &min, &max);
        printf("%-32s %-10s %10.6g to %-10.6g %s\n", chip_number_key((enum chip_number)i),
               chip_number_unit((enum chip_number)i), min, max, chip_number_help((enum chip_number)i));
    }
    for (int i = 0; i < CHIP_CHOICES; i++) {
        printf("%-32s %-36s %s\n", chip_choice_key((enum chip_choice)i),
               chip_choice_list((enum chip_choice)i), chip_choice_help((enum chip_choice)i));
    }
}

/* ---- the three things the command does */

static enum sim_status print_device(const struct options *options, struct sim_error *error)
{
    char path[DATA_PATH_CAPACITY];
    struct chip_profile profile;
    enum sim_status status = data_path_find("devices", "device", options->name, path, error);
    if (status == SIM_OK) {
        status = chip_profile_read(path, &profile, error);
    }
    if (status != SIM_OK) {
        return status;
    }
    if (options->json) {
        struct json *document = json_new_object();
        struct json *devices = json_new_array();
        struct json *device = summary_json(&profile, path);
        json_set_string(document, "schema", "reckon.devices/1");
        json_set(device, "values", values_json(&profile));
        json_append(devices, device);
        json_set(document, "devices", devices);
        put_json(document);
    } else {
        put_device(&profile, path);
    }
    chip_profile_finish(&profile);
    return SIM_OK;
}

/* A file that cannot be read is told on stderr and does not hide the others; the status is the last such. */
static enum sim_status list_devices(const struct options *options, struct sim_error *error)
{
    struct data_names names;
    enum sim_status status = data_path_list("devices", &names, error);
    if (status != SIM_OK) {
        return status;
    }
    struct json *devices = options->json ? json_new_array() : NULL;
    if (!options->json) {
        printf("%-10s %-24s %5s %9s %14s %11s %11s  %s\n", "name", "title", "units", "clock", "bf16 peak",
               "HBM", "HBM", "values by kind");
    }
    for (size_t i = 0; i < names.count; i++) {
        char path[DATA_PATH_CAPACITY];
        struct chip_profile profile;
        struct sim_error one;
        enum sim_status read = data_path_find("devices", "device", names.name[i], path, &one);
        if (read == SIM_OK) {
            read = chip_profile_read(path, &profile, &one);
        }
        if (read != SIM_OK) {
            if (status != SIM_OK) {
                fprintf(stderr, "reckon devices: %s\n", error->text);
            }
            *error = one;
            status = read;
            continue;
        }
        if (options->json) {
            json_append(devices, summary_json(&profile, path));
        } else {
            put_summary(&profile);
        }
        chip_profile_finish(&profile);
    }
    if (options->json) {
        struct json *document = json_new_object();
        json_set_string(document, "schema", "reckon.devices/1");
        json_set(document, "devices", devices);
        put_json(document);
    } else {
        printf("one device with every value, range and source: reckon devices NAME\n");
    }
    data_names_finish(&names);
    return status;
}

struct check {
    struct json *problems; /* NULL: print them */
    enum sim_status status;
};

static void take_problem(void *context, const struct sim_error *problem)
{
    struct check *check = context;
    check->status = problem->status;
    if (check->problems != NULL) {
        json_append_string(check->problems, problem->text);
    } else {
        fprintf(stderr, "%s\n", problem->text);
    }
}

/* Every problem is one line on stderr (or of "problems"); a status other than SIM_OK has nothing left to say. */
static enum sim_status check_file(const struct options *options)
{
    struct check check = { .problems = options->json ? json_new_array() : NULL, .status = SIM_OK };
    size_t problems = chip_profile_check(options->check, take_problem, &check);
    if (options->json) {
        struct json *document = json_new_object();
        json_set_string(document, "schema", "reckon.devices_check/1");
        json_set_string(document, "file", options->check);
        json_set_bool(document, "valid", problems == 0);
        json_set(document, "problems", check.problems);
        put_json(document);
    } else if (problems == 0) {
        struct chip_profile profile;
        char kinds[160];
        enum sim_status status = chip_profile_read(options->check, &profile, NULL);
        SIM_ASSERT(status == SIM_OK, "%s was valid a moment ago", options->check);
        kinds_text(&profile, kinds, sizeof kinds);
        printf("%s: valid, %s\n", options->check, kinds);
        chip_profile_finish(&profile);
    } else {
        fprintf(stderr, "%s: %zu problem%s\n", options->check, problems, problems == 1 ? "" : "s");
    }
    return check.status;
}

int cmd_devices(int argc, char **argv)
{
    struct options options = { 0 };
    struct sim_error error = { 0 };
    enum sim_status status = parse(argc, argv, &options, &error);
    if (status == SIM_OK && options.help) {
        put_manual();
        return 0;
    }
    if (status == SIM_OK && options.schema) {
        put_schema();
        return 0;
    }
    if (status == SIM_OK && options.check != NULL) {
        return sim_status_exit_code(check_file(&options));
    }
    if (status == SIM_OK) {
        status = options.name != NULL ? print_device(&options, &error) : list_devices(&options, &error);
    }
    if (status != SIM_OK) {
        fprintf(stderr, "reckon devices: %s\n", error.text);
    }
    return sim_status_exit_code(status);
}
