/* Reader of devices/nodes/NAME.json. Tables, not code, know the keys: see node_profile_internal.h. */
#include "sim/core/hash.h"
#include "sim/core/json.h"
#include "sim/fabric/node_profile_internal.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE_PROFILE_SCHEMA "reckon.node/1"
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct section_row {
    const char *name, *help;
    bool required;
    size_t has_offset;
};

struct number_row {
    const char *section, *key, *dotted, *unit, *help;
    double min, max;
    size_t offset;
};

struct text_row {
    const char *key, *help;
    size_t offset, capacity;
};

static const struct section_row sections[] = {
#define SECTION_ROW(section, required, help) \
    { #section, help, required, offsetof(struct node_profile, has_##section) },
    NODE_PROFILE_SECTIONS(SECTION_ROW)
#undef SECTION_ROW
};

static const struct number_row numbers[] = {
#define NUMBER_ROW(section, key, unit, min, max, help) \
    {                                                  \
        #section,                                      \
        #key,                                          \
        #section "." #key,                             \
        unit,                                          \
        help,                                          \
        min,                                           \
        max,                                           \
        offsetof(struct node_profile, section##_##key) \
    },
    NODE_PROFILE_NUMBERS(NUMBER_ROW)
#undef NUMBER_ROW
};

#define TEXT_ROW(field, help)                                                                         \
    {                                                                                                 \
#field, help, offsetof(struct node_profile, field), sizeof(((struct node_profile *)0)->field) \
    }
static const struct text_row texts[] = {
    TEXT_ROW(name, "the name of this file without .json"),
    TEXT_ROW(title, "for reports"),
    TEXT_ROW(device, "device profile of the GPUs"),
    TEXT_ROW(library_name, "library and version that the library sections describe"),
};

static const char *const topology_words[] = { "mesh", "switched" };

/* What every reading function needs; the first complaint ends the reading. */
struct reader {
    const char *path;
    struct node_profile *node;
    struct sim_error *error;
};

static enum sim_status complain(const struct reader *reader, const struct json *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static enum sim_status complain(const struct reader *reader, const struct json *at, const char *format, ...)
{
    char what[SIM_ERROR_TEXT_CAPACITY / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    uint32_t line = at == NULL ? 1 : json_line(at);
    return sim_fail(reader->error, SIM_BAD_PROFILE, "%s:%u: %s", reader->path, line, what);
}

static enum sim_status check_keys(const struct reader *reader, const struct json *object, const char *dotted,
                                  const char *const *known, size_t known_count)
{
    char valid[384] = "";
    for (size_t k = 0; k < known_count; k++) {
        size_t length = strlen(valid);
        snprintf(valid + length, sizeof valid - length, "%s%s", k == 0 ? "" : ", ", known[k]);
    }
    if (json_kind_of(object) != JSON_OBJECT) {
        return complain(reader, object, "%s is %s: must be an object with %s", dotted,
                        json_kind_text(json_kind_of(object)), valid);
    }
    for (size_t i = 0; i < json_count(object); i++) {
        const char *key = json_key(json_at(object, i));
        size_t k = 0;
        while (k < known_count && strcmp(key, known[k]) != 0) {
            k++;
        }
        if (k == known_count) {
            return complain(reader, json_at(object, i), "unknown key %s.%s: must be one of %s", dotted, key,
                            valid);
        }
    }
    return SIM_OK;
}

/* The text under `key`, not empty; NULL after a complaint. */
static const char *text_child(const struct reader *reader, const struct json *object, const char *dotted,
                              const char *key, const char *help)
{
    const struct json *child = json_get(object, key);
    if (child == NULL || json_kind_of(child) != JSON_STRING || json_string(child)[0] == '\0') {
        complain(reader, child == NULL ? object : child, "%s has no text %s: %s", dotted, key, help);
        return NULL;
    }
    return json_string(child);
}

static enum sim_status read_origin(const struct reader *reader, const struct json *object, const char *dotted,
                                   struct profile_value_meta *meta)
{
    char kinds[96] = "";
    for (int k = 0; k < PROFILE_KINDS; k++) {
        size_t length = strlen(kinds);
        snprintf(kinds + length, sizeof kinds - length, "%s%s", k == 0 ? "" : ", ",
                 profile_kind_text((enum profile_kind)k));
    }
    const char *kind = text_child(reader, object, dotted, "kind", kinds);
    if (kind == NULL) {
        return SIM_BAD_PROFILE;
    }
    int k = 0;
    while (k < PROFILE_KINDS && strcmp(kind, profile_kind_text((enum profile_kind)k)) != 0) {
        k++;
    }
    if (k == PROFILE_KINDS) {
        return complain(reader, object, "%s.kind is \"%s\": must be one of %s", dotted, kind, kinds);
    }
    meta->kind = (enum profile_kind)k;
    const char *source = text_child(reader, object, dotted, "source", "say where the value is from");
    if (source == NULL) {
        return SIM_BAD_PROFILE;
    }
    meta->source = strdup(source);
    return meta->source == NULL ? sim_fail(reader->error, SIM_NO_MEMORY, "%s: no memory", reader->path)
                                : SIM_OK;
}

static enum sim_status number_child(const struct reader *reader, const struct json *object,
                                    const struct number_row *row, const char *key, double *value)
{
    const struct json *child = json_get(object, key);
    if (child == NULL || json_kind_of(child) != JSON_NUMBER) {
        return complain(reader, child == NULL ? object : child, "%s has no number %s: %s, %g to %g %s",
                        row->dotted, key, row->help, row->min, row->max, row->unit);
    }
    *value = json_number(child);
    if (!(*value >= row->min && *value <= row->max)) {
        return complain(reader, child, "%s: %s = %.10g %s is out of range: must be %g to %g", row->dotted,
                        key, *value, row->unit, row->min, row->max);
    }
    if (strcmp(row->unit, "count") == 0 && *value != floor(*value)) {
        return complain(reader, child, "%s: %s = %.10g must be a whole number", row->dotted, key, *value);
    }
    return SIM_OK;
}

static enum sim_status read_number(const struct reader *reader, const struct json *object,
                                   const struct number_row *row)
{
    static const char *const known[] = { "value", "unit", "low", "high", "kind", "source" };
    struct profile_value_meta *meta = &reader->node->meta[row - numbers];
    double *value = (double *)((char *)reader->node + row->offset);
    enum sim_status status = check_keys(reader, object, row->dotted, known, COUNT_OF(known));
    if (status != SIM_OK) {
        return status;
    }
    const char *unit = text_child(reader, object, row->dotted, "unit", row->unit);
    if (unit == NULL) {
        return SIM_BAD_PROFILE;
    }
    if (strcmp(unit, row->unit) != 0) {
        return complain(reader, object, "%s is in \"%s\": must be in \"%s\"", row->dotted, unit, row->unit);
    }
    if ((status = number_child(reader, object, row, "value", value)) != SIM_OK ||
        (status = number_child(reader, object, row, "low", &meta->low)) != SIM_OK ||
        (status = number_child(reader, object, row, "high", &meta->high)) != SIM_OK) {
        return status;
    }
    if (!(meta->low <= *value && *value <= meta->high)) {
        return complain(reader, object, "%s = %.10g %s lies outside its own low %.10g and high %.10g",
                        row->dotted, *value, row->unit, meta->low, meta->high);
    }
    return read_origin(reader, object, row->dotted, meta);
}

static enum sim_status read_topology_kind(const struct reader *reader, const struct json *section)
{
    static const char *const known[] = { "value", "kind", "source" };
    const struct json *object = json_get(section, "kind");
    if (object == NULL) {
        return complain(reader, section, "topology.kind is missing: mesh or switched");
    }
    enum sim_status status = check_keys(reader, object, "topology.kind", known, COUNT_OF(known));
    if (status != SIM_OK) {
        return status;
    }
    const char *word = text_child(reader, object, "topology.kind", "value", "mesh or switched");
    if (word == NULL) {
        return SIM_BAD_PROFILE;
    }
    for (size_t i = 0; i < COUNT_OF(topology_words); i++) {
        if (strcmp(word, topology_words[i]) == 0) {
            reader->node->topology = (enum node_topology)i;
            return read_origin(reader, object, "topology.kind", &reader->node->topology_meta);
        }
    }
    return complain(reader, object, "topology.kind = \"%s\": must be mesh or switched", word);
}

static enum sim_status read_section(const struct reader *reader, const struct json *section, const char *name)
{
    const char *known[16];
    size_t known_count = 0;
    bool is_topology = strcmp(name, "topology") == 0;
    if (is_topology) {
        known[known_count++] = "kind";
    }
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        if (strcmp(numbers[i].section, name) == 0) {
            SIM_ASSERT(known_count < COUNT_OF(known), "section %s has too many keys", name);
            known[known_count++] = numbers[i].key;
        }
    }
    enum sim_status status = check_keys(reader, section, name, known, known_count);
    for (size_t i = 0; status == SIM_OK && i < COUNT_OF(numbers); i++) {
        if (strcmp(numbers[i].section, name) == 0) {
            const struct json *child = json_get(section, numbers[i].key);
            status = child != NULL
                         ? read_number(reader, child, &numbers[i])
                         : complain(reader, section, "%s is missing: %s, %g to %g %s", numbers[i].dotted,
                                    numbers[i].help, numbers[i].min, numbers[i].max, numbers[i].unit);
        }
    }
    return status == SIM_OK && is_topology ? read_topology_kind(reader, section) : status;
}

static enum sim_status check_root_keys(const struct reader *reader, const struct json *root)
{
    const char *known[1 + COUNT_OF(texts) + COUNT_OF(sections)] = { "schema" };
    size_t known_count = 1;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        known[known_count++] = texts[i].key;
    }
    for (size_t i = 0; i < COUNT_OF(sections); i++) {
        known[known_count++] = sections[i].name;
    }
    return check_keys(reader, root, "node", known, known_count);
}

static enum sim_status read_texts(const struct reader *reader, const struct json *root)
{
    const char *schema = text_child(reader, root, "node", "schema", NODE_PROFILE_SCHEMA);
    if (schema == NULL || strcmp(schema, NODE_PROFILE_SCHEMA) != 0) {
        return complain(reader, root, "schema must be \"%s\"", NODE_PROFILE_SCHEMA);
    }
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        const char *text = text_child(reader, root, "node", texts[i].key, texts[i].help);
        if (text == NULL) {
            return SIM_BAD_PROFILE;
        }
        if (strlen(text) >= texts[i].capacity) {
            return complain(reader, json_get(root, texts[i].key), "%s is longer than %zu bytes", texts[i].key,
                            texts[i].capacity - 1);
        }
        strcpy((char *)reader->node + texts[i].offset, text);
    }
    return SIM_OK;
}

static enum sim_status read_root(const struct reader *reader, const struct json *root)
{
    enum sim_status status = check_root_keys(reader, root);
    if (status == SIM_OK) {
        status = read_texts(reader, root);
    }
    for (size_t i = 0; status == SIM_OK && i < COUNT_OF(sections); i++) {
        const struct json *section = json_get(root, sections[i].name);
        *(bool *)((char *)reader->node + sections[i].has_offset) = section != NULL;
        if (section != NULL) {
            status = read_section(reader, section, sections[i].name);
        } else if (sections[i].required) {
            status = complain(reader, root, "section %s is missing: %s", sections[i].name, sections[i].help);
        }
    }
    return status;
}

/* Values that are each possible but not together. */
static enum sim_status check_combinations(const struct reader *reader, const struct json *root)
{
    const struct node_profile *node = reader->node;
    if (node->link_usable > node->link_raw) {
        return complain(reader, json_get(root, "link"), "link.usable = %g GB/s is above link.raw = %g GB/s",
                        node->link_usable, node->link_raw);
    }
    if (node->has_nic && node->nic_usable > node->nic_raw) {
        return complain(reader, json_get(root, "nic"), "nic.usable = %g GB/s is above nic.raw = %g GB/s",
                        node->nic_usable, node->nic_raw);
    }
    if (node->has_in_switch && node->topology != NODE_SWITCHED) {
        return complain(reader, json_get(root, "in_switch"), "in_switch needs topology.kind = switched");
    }
    if (node->has_in_switch && node->in_switch_gpus_min > node->topology_gpus) {
        return complain(reader, json_get(root, "in_switch"),
                        "in_switch.gpus_min = %g is above topology.gpus = %g", node->in_switch_gpus_min,
                        node->topology_gpus);
    }
    return SIM_OK;
}

enum sim_status node_profile_read(const char *path, struct node_profile **out, struct sim_error *error)
{
    *out = NULL;
    struct json *root = NULL;
    enum sim_status status = json_read_file(path, &root, error);
    if (status != SIM_OK) {
        return status;
    }
    struct reader reader = { .path = path, .node = calloc(1, sizeof *reader.node), .error = error };
    if (reader.node == NULL) {
        status = sim_fail(error, SIM_NO_MEMORY, "%s: no memory", path);
        goto done;
    }
    if ((status = read_root(&reader, root)) == SIM_OK) {
        status = check_combinations(&reader, root);
    }
    if (status != SIM_OK) {
        node_profile_destroy(reader.node);
        goto done;
    }
    *out = reader.node;
done:
    json_destroy(root);
    return status;
}

void node_profile_destroy(struct node_profile *node)
{
    if (node == NULL) {
        return;
    }
    for (size_t i = 0; i < NODE_NUMBERS; i++) {
        free(node->meta[i].source);
    }
    free(node->topology_meta.source);
    free(node);
}

uint32_t node_profile_gpu_count(const struct node_profile *node)
{
    return (uint32_t)node->topology_gpus;
}

const char *node_profile_name(const struct node_profile *node)
{
    return node->name;
}

const char *node_profile_title(const struct node_profile *node)
{
    return node->title;
}

const char *node_profile_device(const struct node_profile *node)
{
    return node->device;
}

const char *node_profile_library(const struct node_profile *node)
{
    return node->library_name;
}

uint64_t node_profile_hash(const struct node_profile *node)
{
    uint64_t hash = hash64_add(HASH64_START, (uint64_t)node->topology);
    for (size_t i = 0; i < COUNT_OF(sections); i++) {
        hash = hash64_add(hash, *(const bool *)((const char *)node + sections[i].has_offset));
    }
    for (size_t i = 0; i < NODE_NUMBERS; i++) {
        hash = hash64_add_double(hash, *(const double *)((const char *)node + numbers[i].offset));
    }
    return hash;
}

size_t node_profile_number_count(void)
{
    return NODE_NUMBERS;
}

static bool section_present(const struct node_profile *node, const char *name)
{
    for (size_t i = 0; i < COUNT_OF(sections); i++) {
        if (strcmp(sections[i].name, name) == 0) {
            return *(const bool *)((const char *)node + sections[i].has_offset);
        }
    }
    return false;
}

bool node_profile_number_at(const struct node_profile *node, size_t index, struct node_profile_value *out)
{
    SIM_ASSERT(index < NODE_NUMBERS, "number %zu of %d", index, NODE_NUMBERS);
    const struct number_row *row = &numbers[index];
    if (!section_present(node, row->section)) {
        return false;
    }
    *out = (struct node_profile_value){
        .key = row->dotted,
        .unit = row->unit,
        .help = row->help,
        .value = *(const double *)((const char *)node + row->offset),
        .low = node->meta[index].low,
        .high = node->meta[index].high,
        .kind = profile_kind_text(node->meta[index].kind),
        .source = node->meta[index].source,
    };
    return true;
}

double *node_profile_number(struct node_profile *node, const char *dotted_key)
{
    for (size_t i = 0; i < NODE_NUMBERS; i++) {
        if (strcmp(numbers[i].dotted, dotted_key) == 0) {
            return section_present(node, numbers[i].section) ? (double *)((char *)node + numbers[i].offset)
                                                             : NULL;
        }
    }
    return NULL;
}

enum sim_status node_profile_set(struct node_profile *node, const char *pair, struct sim_error *error)
{
    const char *equals = strchr(pair, '=');
    size_t length = equals == NULL ? 0 : (size_t)(equals - pair);
    const struct number_row *row = NULL;
    for (size_t i = 0; i < COUNT_OF(numbers) && equals != NULL; i++) {
        bool same = strlen(numbers[i].dotted) == length && strncmp(numbers[i].dotted, pair, length) == 0;
        row = same && section_present(node, numbers[i].section) ? &numbers[i] : row;
    }
    if (row == NULL) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "\"%s\": must be section.key=value of node %s (reckon devices %s lists them)", pair,
                        node->name, node->name);
    }
    char *end = NULL;
    double value = strtod(equals + 1, &end);
    bool is_whole = strcmp(row->unit, "count") != 0 || value == floor(value);
    if (end == equals + 1 || *end != '\0' || !(value >= row->min && value <= row->max) || !is_whole) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: must be a %snumber of %g to %g %s: %s", pair,
                        is_whole ? "" : "whole ", row->min, row->max, row->unit, row->help);
    }
    double *number = (double *)((char *)node + row->offset), was = *number;
    *number = value;
    bool above_raw = node->link_usable > node->link_raw ||
                     (node->has_nic && node->nic_usable > node->nic_raw);
    if (above_raw) {
        *number = was;
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: the usable rate would be above the raw one", pair);
    }
    return SIM_OK;
}

void node_profile_host_link(const struct node_profile *node, bool pinned, bool to_device, double *rate_gbs,
                            double *fixed_us)
{
    *fixed_us = pinned ? node->host_fixed_pinned : node->host_fixed_pageable;
    if (pinned) {
        *rate_gbs = to_device ? node->host_to_device_pinned : node->host_to_host_pinned;
    } else {
        *rate_gbs = to_device ? node->host_to_device_pageable : node->host_to_host_pageable;
    }
}

double node_profile_staged_bytes(const struct node_profile *node)
{
    return node->host_staged * 1024;
}

double node_profile_memory_rate(const struct node_profile *node)
{
    return node->memory_rate;
}

double node_profile_group_rate(const struct node_profile *node, uint32_t gpus, bool raw)
{
    double link = node->link_count * (raw ? node->link_raw : node->link_usable);
    return node->topology == NODE_MESH ? (gpus - 1.0) * link : link;
}

void node_profile_links(const struct node_profile *node, uint32_t gpus, struct node_link_table *out)
{
    SIM_ASSERT(gpus >= 1 && gpus <= node->topology_gpus, "group of %u", gpus);
    double links = node->link_count * (node->topology == NODE_MESH ? gpus - 1.0 : 1.0);
    *out = (struct node_link_table){
        .topology = topology_words[node->topology],
        .links_used = (uint32_t)links,
        .link_raw_gbs = node->link_raw,
        .link_usable_gbs = node->link_usable,
        .group_raw_gbs = node_profile_group_rate(node, gpus, true),
        .group_usable_gbs = node_profile_group_rate(node, gpus, false),
        .nic_raw_gbs = node->has_nic ? node->nic_raw : 0,
        .nic_usable_gbs = node->has_nic ? node->nic_usable : 0,
    };
}
