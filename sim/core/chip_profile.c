/* The tables below are CHIP_PROFILE_SECTIONS, _NUMBERS and _CHOICES expanded to rows with offsets: one place knows the
 * keys. Reading goes section by section in their order; every complaint goes through one door (reader_complain), which
 * either keeps the first (chip_profile_read) or passes all on (chip_profile_check). */
#include "sim/core/chip_profile.h"
#include "sim/core/hash.h"
#include "sim/core/json.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHIP_PROFILE_SCHEMA "reckon.device/1"

struct section_row {
    const char *name;
    bool required;
    size_t has_offset;
};

struct number_row {
    const char *section, *key, *dotted, *unit, *help;
    double min, max;
    size_t offset, has_offset;
};

struct choice_row {
    const char *section, *key, *dotted, *list, *help;
    size_t offset, has_offset;
};

static const struct section_row sections[] = {
#define SECTION_ROW(section, required, help) \
    { #section, required, offsetof(struct chip_profile, has_##section) },
    CHIP_PROFILE_SECTIONS(SECTION_ROW)
#undef SECTION_ROW
};

static const struct number_row numbers[CHIP_NUMBERS] = {
#define NUMBER_ROW(section, key, unit, min, max, help) \
    { #section,                                        \
      #key,                                            \
      #section "." #key,                               \
      unit,                                            \
      help,                                            \
      min,                                             \
      max,                                             \
      offsetof(struct chip_profile, section##_##key),  \
      offsetof(struct chip_profile, has_##section) },
    CHIP_PROFILE_NUMBERS(NUMBER_ROW)
#undef NUMBER_ROW
};

static const struct choice_row choices[CHIP_CHOICES] = {
#define CHOICE_ROW(section, key, list, help)          \
    { #section,                                       \
      #key,                                           \
      #section "." #key,                              \
      list,                                           \
      help,                                           \
      offsetof(struct chip_profile, section##_##key), \
      offsetof(struct chip_profile, has_##section) },
    CHIP_PROFILE_CHOICES(CHOICE_ROW)
#undef CHOICE_ROW
};

static const char *const kind_texts[PROFILE_KINDS] = { "spec", "measured", "derived", "fitted", "assumed" };

static const struct text_row {
    const char *key, *help;
    size_t offset, capacity;
    bool required;
} texts[] = {
#define TEXT_ROW(field, required, help)                                                                \
    {                                                                                                  \
#field, help, offsetof(struct chip_profile, field), sizeof(((struct chip_profile *)0)->field), \
            required                                                                                   \
    }
    TEXT_ROW(name, true, "the name --device takes"),
    TEXT_ROW(title, true, "the name reports print"),
    TEXT_ROW(node, true, "node profile that --node defaults to"),
    TEXT_ROW(host, true, "host profile"),
    TEXT_ROW(trace_names, false, "device names in traces that mean this one"),
#undef TEXT_ROW
};

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

struct reader {
    const char *path;
    struct chip_profile *profile;
    chip_profile_complaint complain;
    void *context;
    size_t complaints;
    uint32_t line[CHIP_NUMBERS]; /* of each number, for the checks of combinations */
};

static void reader_complain(struct reader *reader, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void reader_complain(struct reader *reader, uint32_t line, const char *format, ...)
{
    char what[SIM_ERROR_TEXT_CAPACITY];
    struct sim_error error;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    sim_fail(&error, SIM_BAD_PROFILE, "%s:%u: %s", reader->path, line, what);
    reader->complaints++;
    reader->complain(reader->context, &error);
}

static double *number_at(struct chip_profile *profile, enum chip_number index)
{
    return (double *)((char *)profile + numbers[index].offset);
}

static int *choice_at(struct chip_profile *profile, enum chip_choice index)
{
    return (int *)((char *)profile + choices[index].offset);
}

static bool *has_at(struct chip_profile *profile, size_t has_offset)
{
    return (bool *)((char *)profile + has_offset);
}

/* ---- one value */

static bool is_whole_unit(const char *unit)
{
    return strcmp(unit, "count") == 0 || strcmp(unit, "B") == 0;
}

/* "0.25 to 1024 MiB", as every complaint about a number ends. */
static const char *range_text(const struct number_row *row, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.10g to %.10g %s", row->min, row->max, row->unit);
    return text;
}

/* The child's text, or NULL after a complaint. */
static const char *read_text_child(struct reader *reader, const struct json *object, const char *dotted,
                                   const char *key, const char *valid)
{
    const struct json *child = json_get(object, key);
    if (child == NULL) {
        reader_complain(reader, json_line(object), "%s has no %s: %s", dotted, key, valid);
        return NULL;
    }
    if (json_kind_of(child) != JSON_STRING || json_string(child)[0] == '\0') {
        reader_complain(reader, json_line(child), "%s.%s is %s: %s", dotted, key,
                        json_kind_of(child) == JSON_STRING ? "empty" : json_kind_text(json_kind_of(child)),
                        valid);
        return NULL;
    }
    return json_string(child);
}

static void read_origin(struct reader *reader, const struct json *object, const char *dotted,
                        struct profile_value_meta *meta)
{
    const char *kind = read_text_child(reader, object, dotted, "kind",
                                       "one of spec, measured, derived, fitted, assumed");
    if (kind != NULL) {
        size_t i = 0;
        while (i < PROFILE_KINDS && strcmp(kind, kind_texts[i]) != 0) {
            i++;
        }
        if (i == PROFILE_KINDS) {
            reader_complain(reader, json_line(object),
                            "%s.kind = \"%s\": one of spec, measured, derived, fitted, assumed", dotted,
                            kind);
        } else {
            meta->kind = (enum profile_kind)i;
        }
    }
    const char *source = read_text_child(reader, object, dotted, "source", "say where the value is from");
    if (source != NULL) {
        free(meta->source);
        meta->source = strdup(source);
        SIM_ASSERT(meta->source != NULL, "no memory for the source of %s", dotted);
    }
}

static bool check_members(struct reader *reader, const struct json *object, const char *dotted,
                          const char *const *known, size_t known_count, const char *valid)
{
    if (json_kind_of(object) != JSON_OBJECT) {
        reader_complain(reader, json_line(object), "%s is %s: must be an object with %s", dotted,
                        json_kind_text(json_kind_of(object)), valid);
        return false;
    }
    for (size_t i = 0; i < json_count(object); i++) {
        const char *key = json_key(json_at(object, i));
        size_t k = 0;
        while (k < known_count && strcmp(key, known[k]) != 0) {
            k++;
        }
        if (k == known_count) {
            reader_complain(reader, json_line(json_at(object, i)), "unknown key %s.%s: must have %s", dotted,
                            key, valid);
        }
    }
    return true;
}

/* A required numeric member; false after a complaint. */
static bool read_number_child(struct reader *reader, const struct json *object, const struct number_row *row,
                              const char *key, double *value)
{
    char range[96];
    const struct json *child = json_get(object, key);
    if (child == NULL || json_kind_of(child) != JSON_NUMBER) {
        reader_complain(reader, json_line(child == NULL ? object : child),
                        "%s has no number %s: plausible is %s", row->dotted, key,
                        range_text(row, range, sizeof range));
        return false;
    }
    *value = json_number(child);
    return true;
}

static void read_number(struct reader *reader, const struct json *object, enum chip_number index)
{
    static const char *const known[] = { "value", "unit", "low", "high", "kind", "source" };
    const struct number_row *row = &numbers[index];
    struct profile_value_meta *meta = &reader->profile->meta[index];
    char range[96];
    range_text(row, range, sizeof range);
    reader->line[index] = json_line(object);
    if (!check_members(reader, object, row->dotted, known, COUNT_OF(known),
                       "value, unit, low, high, kind, source")) {
        return;
    }
    double value = NAN;
    bool has_value = read_number_child(reader, object, row, "value", &value);
    const struct json *unit = json_get(object, "unit");
    if (unit == NULL || json_kind_of(unit) != JSON_STRING) {
        char shown[40] = "";
        if (has_value) {
            snprintf(shown, sizeof shown, " = %.10g", value);
        }
        reader_complain(reader, json_line(object), "%s%s has no unit: must be \"%s\"; plausible is %s",
                        row->dotted, shown, row->unit, range);
        has_value = false;
    } else if (strcmp(json_string(unit), row->unit) != 0) {
        reader_complain(reader, json_line(object), "%s is in \"%s\": must be \"%s\"; plausible is %s",
                        row->dotted, json_string(unit), row->unit, range);
        has_value = false;
    }
    bool has_bounds = read_number_child(reader, object, row, "low", &meta->low);
    has_bounds = read_number_child(reader, object, row, "high", &meta->high) && has_bounds;
    read_origin(reader, object, row->dotted, meta);
    if (!has_value) {
        return;
    }
    if (!(value >= row->min && value <= row->max)) {
        reader_complain(reader, json_line(object), "%s = %.10g %s is out of range: plausible is %s",
                        row->dotted, value, row->unit, range);
    } else if (is_whole_unit(row->unit) && value != floor(value)) {
        reader_complain(reader, json_line(object), "%s = %.10g %s must be a whole number, %s", row->dotted,
                        value, row->unit, range);
    } else if (has_bounds && !(meta->low <= value && value <= meta->high)) {
        reader_complain(reader, json_line(object),
                        "%s = %.10g %s lies outside its own low %.10g and high %.10g", row->dotted, value,
                        row->unit, meta->low, meta->high);
    } else if (has_bounds && !(meta->low >= row->min && meta->high <= row->max)) {
        reader_complain(reader, json_line(object),
                        "%s: low %.10g or high %.10g is out of range: plausible is %s", row->dotted,
                        meta->low, meta->high, range);
    }
    *number_at(reader->profile, index) = value;
}

/* Index of `word` in "a|b|c", or -1. */
static int index_in_list(const char *list, const char *word)
{
    size_t length = strlen(word);
    int index = 0;
    for (const char *at = list; at != NULL; index++) {
        if (strncmp(at, word, length) == 0 && (at[length] == '|' || at[length] == '\0')) {
            return index;
        }
        at = strchr(at, '|');
        at = at == NULL ? NULL : at + 1;
    }
    return -1;
}

static void read_choice(struct reader *reader, const struct json *object, enum chip_choice index)
{
    static const char *const known[] = { "value", "kind", "source" };
    const struct choice_row *row = &choices[index];
    if (!check_members(reader, object, row->dotted, known, COUNT_OF(known), "value, kind, source")) {
        return;
    }
    const char *value = read_text_child(reader, object, row->dotted, "value", row->list);
    if (value != NULL) {
        int chosen = index_in_list(row->list, value);
        if (chosen < 0) {
            reader_complain(reader, json_line(object), "%s = \"%s\": must be one of %s", row->dotted, value,
                            row->list);
        }
        *choice_at(reader->profile, index) = chosen;
    }
    read_origin(reader, object, row->dotted, &reader->profile->choice_meta[index]);
}

/* ---- one section, and the file */

static void read_section(struct reader *reader, const struct json *section, const char *name)
{
    if (json_kind_of(section) != JSON_OBJECT) {
        reader_complain(reader, json_line(section), "%s is %s: must be an object", name,
                        json_kind_text(json_kind_of(section)));
        return;
    }
    char valid[SIM_ERROR_TEXT_CAPACITY / 2] = "";
    const char *known[64];
    size_t known_count = 0;
    for (int i = 0; i < CHIP_NUMBERS + CHIP_CHOICES; i++) {
        bool number = i < CHIP_NUMBERS;
        const char *owner = number ? numbers[i].section : choices[i - CHIP_NUMBERS].section;
        if (strcmp(owner, name) == 0) {
            const char *key = number ? numbers[i].key : choices[i - CHIP_NUMBERS].key;
            SIM_ASSERT(known_count < COUNT_OF(known), "section %s has too many keys", name);
            known[known_count++] = key;
            size_t length = strlen(valid);
            snprintf(valid + length, sizeof valid - length, "%s%s", length == 0 ? "" : ", ", key);
        }
    }
    check_members(reader, section, name, known, known_count, valid);
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        if (strcmp(numbers[i].section, name) == 0) {
            const struct json *child = json_get(section, numbers[i].key);
            char range[96];
            if (child != NULL) {
                read_number(reader, child, (enum chip_number)i);
            } else {
                reader_complain(reader, json_line(section), "%s is missing (%s): plausible is %s",
                                numbers[i].dotted, numbers[i].help,
                                range_text(&numbers[i], range, sizeof range));
            }
        }
    }
    for (int i = 0; i < CHIP_CHOICES; i++) {
        if (strcmp(choices[i].section, name) == 0) {
            const struct json *child = json_get(section, choices[i].key);
            if (child != NULL) {
                read_choice(reader, child, (enum chip_choice)i);
            } else {
                reader_complain(reader, json_line(section), "%s is missing (%s): one of %s",
                                choices[i].dotted, choices[i].help, choices[i].list);
            }
        }
    }
}

static bool is_known_top_key(const char *key)
{
    for (size_t i = 0; i < COUNT_OF(sections); i++) {
        if (strcmp(key, sections[i].name) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        if (strcmp(key, texts[i].key) == 0) {
            return true;
        }
    }
    return strcmp(key, "schema") == 0;
}

/* A top-level text, or "trace_names": an array of texts kept with '|' between them. */
static void read_top_text(struct reader *reader, const struct json *root, const struct text_row *row)
{
    char *target = (char *)reader->profile + row->offset;
    const struct json *value = json_get(root, row->key);
    if (value == NULL) {
        if (row->required) {
            reader_complain(reader, 1, "%s is missing: a text, %s", row->key, row->help);
        }
        return;
    }
    bool list = !row->required;
    if (json_kind_of(value) != (list ? JSON_ARRAY : JSON_STRING)) {
        reader_complain(reader, json_line(value), "%s is %s: must be %s, %s", row->key,
                        json_kind_text(json_kind_of(value)), list ? "an array of texts" : "a text",
                        row->help);
        return;
    }
    size_t length = 0;
    for (size_t i = 0; i < (list ? json_count(value) : 1); i++) {
        const struct json *item = list ? json_at(value, i) : value;
        if (json_kind_of(item) != JSON_STRING || json_string(item)[0] == '\0' ||
            strchr(json_string(item), '|') != NULL) {
            reader_complain(reader, json_line(item), "%s must not hold an empty text, a '|' or %s", row->key,
                            json_kind_text(json_kind_of(item)));
            return;
        }
        int wrote = snprintf(target + length, row->capacity - length, "%s%s", i == 0 ? "" : "|",
                             json_string(item));
        length += (size_t)wrote;
        if (length >= row->capacity) {
            reader_complain(reader, json_line(item), "%s is longer than %zu bytes", row->key,
                            row->capacity - 1);
            return;
        }
    }
}

static void read_root(struct reader *reader, const struct json *root)
{
    if (json_kind_of(root) != JSON_OBJECT) {
        reader_complain(reader, 1, "a device file is an object, this is %s",
                        json_kind_text(json_kind_of(root)));
        return;
    }
    const struct json *schema = json_get(root, "schema");
    if (schema == NULL || json_kind_of(schema) != JSON_STRING ||
        strcmp(json_string(schema), CHIP_PROFILE_SCHEMA) != 0) {
        reader_complain(reader, schema == NULL ? 1 : json_line(schema), "schema must be \"%s\"",
                        CHIP_PROFILE_SCHEMA);
        return;
    }
    for (size_t i = 0; i < json_count(root); i++) {
        const char *key = json_key(json_at(root, i));
        if (!is_known_top_key(key)) {
            char valid[SIM_ERROR_TEXT_CAPACITY / 2] = "";
            for (size_t s = 0; s < COUNT_OF(sections); s++) {
                size_t length = strlen(valid);
                snprintf(valid + length, sizeof valid - length, ", %s", sections[s].name);
            }
            reader_complain(
                reader, json_line(json_at(root, i)),
                "unknown key %s: a device file has schema, name, title, node, host, trace_names%s", key,
                valid);
        }
    }
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        read_top_text(reader, root, &texts[i]);
    }
    for (size_t i = 0; i < COUNT_OF(sections); i++) {
        const struct json *section = json_get(root, sections[i].name);
        *has_at(reader->profile, sections[i].has_offset) = section != NULL;
        if (section != NULL) {
            read_section(reader, section, sections[i].name);
        } else if (sections[i].required) {
            reader_complain(reader, 1, "section %s is missing", sections[i].name);
        }
    }
}

/* ---- combinations */

/* Complain "FILE:LINE: key = value unit WHAT" if `wrong`. A number that could not be read is NaN by now: conditions are
 * written as ordered comparisons, which NaN never satisfies, so that one damage is not reported twice. */
static void refuse_if(struct reader *reader, bool wrong, enum chip_number index, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void refuse_if(struct reader *reader, bool wrong, enum chip_number index, const char *format, ...)
{
    if (!wrong) {
        return;
    }
    char what[SIM_ERROR_TEXT_CAPACITY / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    reader_complain(reader, reader->line[index], "%s = %.10g %s %s", numbers[index].dotted,
                    *number_at(reader->profile, index), numbers[index].unit, what);
}

static bool differs(double a, double b)
{
    return a < b || a > b;
}

static bool leaves_rest(double value, double divisor)
{
    return fmod(value, divisor) > 0;
}

/* Keys that address arithmetic splits by shifts. */
static void check_powers_of_two(struct reader *reader)
{
    static const enum chip_number keys[] = {
        CHIP_NUMBER_unit_lanes,    CHIP_NUMBER_l1_line,      CHIP_NUMBER_l1_sector,  CHIP_NUMBER_l2_line,
        CHIP_NUMBER_l2_sector,     CHIP_NUMBER_mall_line,    CHIP_NUMBER_hbm_access, CHIP_NUMBER_hbm_row,
        CHIP_NUMBER_l2_interleave, CHIP_NUMBER_atomic_block,
    };
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        double value = *number_at(reader->profile, keys[i]);
        int exponent;
        refuse_if(reader, value > 0 && differs(frexp(value, &exponent), 0.5), keys[i],
                  "must be a power of two");
    }
}

static void check_unit(struct reader *reader)
{
    const struct chip_profile *p = reader->profile;
    double units = p->package_groups * p->package_units_per_group;
    double l2_group_kib = p->l2_capacity * 1024 / p->package_groups;
    double registers_kib = p->unit_registers * 4 / 1024;
    refuse_if(reader, differs(units, p->package_units_total), CHIP_NUMBER_package_units_total,
              "does not equal package.groups x package.units_per_group = %.10g x %.10g: plausible is %.10g",
              p->package_groups, p->package_units_per_group, units);
    refuse_if(reader, registers_kib > l2_group_kib, CHIP_NUMBER_unit_registers,
              "(%.10g KiB) is larger than the L2 of its group, l2.capacity / package.groups = %.10g KiB: "
              "plausible is "
              "%.10g to %.10g count",
              registers_kib, l2_group_kib, numbers[CHIP_NUMBER_unit_registers].min, l2_group_kib * 256);
    refuse_if(reader, p->l1_capacity > l2_group_kib, CHIP_NUMBER_l1_capacity,
              "is larger than the L2 of its group, l2.capacity / package.groups = %.10g KiB", l2_group_kib);
    refuse_if(reader, p->unit_registers < p->unit_lanes * p->unit_registers_per_lane_max,
              CHIP_NUMBER_unit_registers,
              "cannot hold one wave of unit.lanes x unit.registers_per_lane_max = %.10g",
              p->unit_lanes * p->unit_registers_per_lane_max);
    refuse_if(reader, p->unit_register_granularity > p->unit_registers_per_lane_max,
              CHIP_NUMBER_unit_register_granularity, "is more than unit.registers_per_lane_max = %.10g",
              p->unit_registers_per_lane_max);
    refuse_if(reader, leaves_rest(p->unit_waves_max, p->unit_simds), CHIP_NUMBER_unit_waves_max,
              "is not a multiple of unit.simds = %.10g", p->unit_simds);
    refuse_if(reader, p->unit_lds_per_workgroup_max > p->unit_lds, CHIP_NUMBER_unit_lds_per_workgroup_max,
              "is more than unit.lds = %.10g KiB", p->unit_lds);
    refuse_if(reader, p->unit_lds_reserved_per_workgroup > p->unit_lds * 1024,
              CHIP_NUMBER_unit_lds_reserved_per_workgroup, "is more than unit.lds = %.10g KiB", p->unit_lds);
}

static void check_caches(struct reader *reader)
{
    const struct chip_profile *p = reader->profile;
    double l2_sets_bytes = p->l2_line * p->l2_ways * p->l2_slices_per_group * p->package_groups;
    bool private_l2 = p->l2_organisation == CHIP_L2_PRIVATE;
    refuse_if(reader, leaves_rest(p->l1_line, p->l1_sector), CHIP_NUMBER_l1_sector,
              "does not divide l1.line = %.10g B", p->l1_line);
    refuse_if(reader, leaves_rest(p->l2_line, p->l2_sector), CHIP_NUMBER_l2_sector,
              "does not divide l2.line = %.10g B", p->l2_line);
    refuse_if(reader, p->l2_interleave < p->l2_sector, CHIP_NUMBER_l2_interleave,
              "is less than l2.sector = %.10g B: a sector would lie on two slices", p->l2_sector);
    refuse_if(reader, p->l1_capacity * 1024 < p->l1_line * p->l1_ways, CHIP_NUMBER_l1_capacity,
              "does not hold one set of l1.ways x l1.line = %.10g B", p->l1_line * p->l1_ways);
    refuse_if(reader, p->l2_capacity * 1048576 < l2_sets_bytes, CHIP_NUMBER_l2_capacity,
              "does not hold one set a slice: ways x line x slices = %.10g B", l2_sets_bytes);
    refuse_if(reader, p->l2_hit_latency <= p->l1_hit_latency, CHIP_NUMBER_l2_hit_latency,
              "is not above l1.hit_latency = %.10g cycle", p->l1_hit_latency);
    refuse_if(reader, p->l2_hit_latency_spread >= p->l2_hit_latency, CHIP_NUMBER_l2_hit_latency_spread,
              "is not below l2.hit_latency = %.10g cycle", p->l2_hit_latency);
    refuse_if(reader, private_l2 && p->l2_far_latency > 0, CHIP_NUMBER_l2_far_latency,
              "with l2.organisation private: must be 0, a private L2 has no far part");
    refuse_if(reader, private_l2 && p->l2_copies == CHIP_L2_COPIES_FAR, CHIP_NUMBER_l2_far_latency,
              "with l2.organisation private: l2.copies must be none");
    refuse_if(reader, p->atomic_block > p->l2_line, CHIP_NUMBER_atomic_block,
              "is more than l2.line = %.10g B", p->l2_line);
    refuse_if(reader, p->mall_capacity < p->l2_capacity, CHIP_NUMBER_mall_capacity,
              "is smaller than l2.capacity = %.10g MiB", p->l2_capacity);
    double l2_ns = p->l2_hit_latency / p->clock_core_max * 1e3;
    refuse_if(reader, p->mall_latency <= l2_ns, CHIP_NUMBER_mall_latency,
              "is not above l2.hit_latency = %.10g ns at clock.core_max", l2_ns);
}

static void check_memory(struct reader *reader)
{
    const struct chip_profile *p = reader->profile;
    double rate = p->hbm_channels * p->hbm_channel_rate;
    refuse_if(reader, rate < 100 || rate > 50000, CHIP_NUMBER_hbm_channel_rate,
              "x hbm.channels = %.10g GB/s for the package: plausible is 100 to 50000 GB/s", rate);
    refuse_if(reader, leaves_rest(p->hbm_row, p->hbm_access), CHIP_NUMBER_hbm_access,
              "does not divide hbm.row = %.10g B", p->hbm_row);
    refuse_if(reader, p->hbm_refresh_time >= p->hbm_refresh_interval, CHIP_NUMBER_hbm_refresh_time,
              "is not below hbm.refresh_interval = %.10g ns", p->hbm_refresh_interval);
    refuse_if(reader, p->hbm_capacity * 1024 <= p->l2_capacity, CHIP_NUMBER_hbm_capacity,
              "is not above l2.capacity = %.10g MiB", p->l2_capacity);
    refuse_if(reader, p->has_die_link && p->package_dies < 2, CHIP_NUMBER_package_dies,
              "but there is a section die_link: dies must be 2 or more, or the section absent");
    refuse_if(reader, !p->has_die_link && p->package_dies > 1, CHIP_NUMBER_package_dies,
              "but there is no section die_link: dies must be 1, or the section present");
    refuse_if(reader, leaves_rest(p->package_groups, p->package_dies), CHIP_NUMBER_package_dies,
              "does not divide package.groups = %.10g", p->package_groups);
    refuse_if(reader, p->tlb_reach * 1024 < p->tlb_page, CHIP_NUMBER_tlb_reach,
              "is less than tlb.page = %.10g KiB", p->tlb_page);
}

static void check_rest(struct reader *reader)
{
    const struct chip_profile *p = reader->profile;
    refuse_if(reader, p->clock_core_memory_bound > p->clock_core_max, CHIP_NUMBER_clock_core_memory_bound,
              "is above clock.core_max = %.10g MHz", p->clock_core_max);
    refuse_if(reader, p->clock_core_dense > p->clock_core_max, CHIP_NUMBER_clock_core_dense,
              "is above clock.core_max = %.10g MHz", p->clock_core_max);
    refuse_if(reader,
              differs(p->dispatch_dispatchers, 1) && differs(p->dispatch_dispatchers, p->package_groups),
              CHIP_NUMBER_dispatch_dispatchers, "must be 1 or package.groups = %.10g", p->package_groups);
    refuse_if(reader, p->power_idle >= p->power_board_limit, CHIP_NUMBER_power_idle,
              "is not below power.board_limit = %.10g W", p->power_board_limit);
    refuse_if(reader, p->matrix_fp8 > 0 && p->matrix_fp8 < p->matrix_bf16, CHIP_NUMBER_matrix_fp8,
              "is below matrix.bf16 = %.10g FLOP/cycle: 0 (not native) or at least that", p->matrix_bf16);
    refuse_if(reader, p->matrix_tf32 > p->matrix_bf16, CHIP_NUMBER_matrix_tf32,
              "is above matrix.bf16 = %.10g FLOP/cycle", p->matrix_bf16);
}

/* ---- public */

/* Before reading, nothing is known: NaN and -1. Afterwards that is left only in sections that are absent, or where there
 * was a complaint and the profile is not handed out. */
static void mark_unknown(struct chip_profile *profile)
{
    memset(profile, 0, sizeof *profile);
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        *number_at(profile, (enum chip_number)i) = NAN;
    }
    for (int i = 0; i < CHIP_CHOICES; i++) {
        *choice_at(profile, (enum chip_choice)i) = -1;
    }
}

static void clear_absent(struct chip_profile *profile)
{
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        if (!*has_at(profile, numbers[i].has_offset)) {
            *number_at(profile, (enum chip_number)i) = 0;
        }
    }
    for (int i = 0; i < CHIP_CHOICES; i++) {
        if (!*has_at(profile, choices[i].has_offset)) {
            *choice_at(profile, (enum chip_choice)i) = 0;
        }
    }
}

static void read_all(struct reader *reader)
{
    struct sim_error error;
    struct json *root = NULL;
    mark_unknown(reader->profile);
    if (json_read_file(reader->path, &root, &error) != SIM_OK) {
        reader->complaints++;
        reader->complain(reader->context, &error);
        return;
    }
    read_root(reader, root);
    json_destroy(root);
    check_unit(reader);
    check_caches(reader);
    check_memory(reader);
    check_rest(reader);
    check_powers_of_two(reader);
    clear_absent(reader->profile);
    chip_profile_rehash(reader->profile);
}

struct first_complaint {
    struct sim_error error;
    bool taken;
};

static void keep_first(void *context, const struct sim_error *error)
{
    struct first_complaint *first = context;
    if (!first->taken) {
        first->error = *error;
        first->taken = true;
    }
}

enum sim_status chip_profile_read(const char *path, struct chip_profile *profile, struct sim_error *error)
{
    struct first_complaint first = { .taken = false };
    struct reader reader = { .path = path, .profile = profile, .complain = keep_first, .context = &first };
    read_all(&reader);
    if (reader.complaints == 0) {
        return SIM_OK;
    }
    chip_profile_finish(profile);
    if (reader.complaints == 1) {
        return sim_fail(error, first.error.status, "%s", first.error.text);
    }
    return sim_fail(error, first.error.status, "%s (and %zu more: reckon devices --check %s)",
                    first.error.text, reader.complaints - 1, path);
}

size_t chip_profile_check(const char *path, chip_profile_complaint complain, void *context)
{
    struct chip_profile profile;
    struct reader reader = { .path = path, .profile = &profile, .complain = complain, .context = context };
    read_all(&reader);
    chip_profile_finish(&profile);
    return reader.complaints;
}

void chip_profile_finish(struct chip_profile *profile)
{
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        free(profile->meta[i].source);
    }
    for (int i = 0; i < CHIP_CHOICES; i++) {
        free(profile->choice_meta[i].source);
    }
    memset(profile, 0, sizeof *profile);
}

double *chip_profile_number(struct chip_profile *profile, const char *dotted_key, enum chip_number *index)
{
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        if (strcmp(numbers[i].dotted, dotted_key) == 0) {
            if (index != NULL) {
                *index = (enum chip_number)i;
            }
            return number_at(profile, (enum chip_number)i);
        }
    }
    return NULL;
}

static const struct number_row *number_row(enum chip_number index)
{
    SIM_ASSERT((unsigned)index < CHIP_NUMBERS, "number %d of %d", (int)index, CHIP_NUMBERS);
    return &numbers[index];
}

static const struct choice_row *choice_row(enum chip_choice index)
{
    SIM_ASSERT((unsigned)index < CHIP_CHOICES, "choice %d of %d", (int)index, CHIP_CHOICES);
    return &choices[index];
}

const char *chip_number_key(enum chip_number index)
{
    return number_row(index)->dotted;
}
const char *chip_number_unit(enum chip_number index)
{
    return number_row(index)->unit;
}
const char *chip_number_help(enum chip_number index)
{
    return number_row(index)->help;
}

void chip_number_range(enum chip_number index, double *min, double *max)
{
    *min = number_row(index)->min;
    *max = number_row(index)->max;
}

bool chip_number_present(const struct chip_profile *profile, enum chip_number index)
{
    return *(const bool *)((const char *)profile + number_row(index)->has_offset);
}

double chip_number_value(const struct chip_profile *profile, enum chip_number index)
{
    return *(const double *)((const char *)profile + number_row(index)->offset);
}

const char *chip_choice_key(enum chip_choice index)
{
    return choice_row(index)->dotted;
}
const char *chip_choice_list(enum chip_choice index)
{
    return choice_row(index)->list;
}
const char *chip_choice_help(enum chip_choice index)
{
    return choice_row(index)->help;
}

void chip_choice_text(const struct chip_profile *profile, enum chip_choice index, char *text, size_t capacity)
{
    const char *word = choice_row(index)->list;
    for (int chosen = *(const int *)((const char *)profile + choices[index].offset); chosen > 0; chosen--) {
        word = strchr(word, '|');
        SIM_ASSERT(word != NULL, "%s is beyond its list", choices[index].dotted);
        word++;
    }
    snprintf(text, capacity, "%.*s", (int)strcspn(word, "|"), word);
}

const char *profile_kind_text(enum profile_kind kind)
{
    SIM_ASSERT((unsigned)kind < PROFILE_KINDS, "kind %d", (int)kind);
    return kind_texts[kind];
}

void chip_profile_rehash(struct chip_profile *profile)
{
    uint64_t hash = HASH64_START;
    for (size_t i = 0; i < COUNT_OF(sections); i++) {
        hash = hash64_add(hash, *has_at(profile, sections[i].has_offset));
    }
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        hash = hash64_add_double(hash, *number_at(profile, (enum chip_number)i));
    }
    for (int i = 0; i < CHIP_CHOICES; i++) {
        hash = hash64_add(hash, (uint64_t)*choice_at(profile, (enum chip_choice)i));
    }
    profile->hash = hash;
}
