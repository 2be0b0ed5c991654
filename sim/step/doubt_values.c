#include "sim/step/doubt_values.h"
#include "sim/core/hash.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDE 10.0 /* a range beyond this factor is taken by its logarithm */
#define WAYS_MAX 16.0 /* what the chip model's caches can be built with; some ranges reach beyond */

struct collecting {
    struct doubt_values *values;
    uint64_t *ids; /* [unknown_count]: of key and source */
};

static bool is_power_of_two(double x)
{
    int exponent = 0;
    return x > 0 && frexp(x, &exponent) == 0.5;
}

static size_t unknown_of(struct collecting *collecting, const char *key, uint64_t source)
{
    uint64_t id = hash64_add(hash64_add_text(HASH64_START, key), source);
    struct doubt_values *values = collecting->values;
    for (size_t u = 0; u < values->unknown_count; u++) {
        if (collecting->ids[u] == id) {
            return u;
        }
    }
    collecting->ids = realloc(collecting->ids, (values->unknown_count + 1) * sizeof *collecting->ids);
    SIM_ASSERT(collecting->ids != NULL, "no memory for %zu unknowns", values->unknown_count);
    collecting->ids[values->unknown_count] = id;
    return values->unknown_count++;
}

static struct doubt_value *add(struct collecting *collecting, size_t d, const char *key, uint64_t source)
{
    size_t count = collecting->values->device[d].count++;
    struct doubt_value *grown = realloc(collecting->values->device[d].values, (count + 1) * sizeof *grown);
    SIM_ASSERT(grown != NULL, "no memory for %zu values", count);
    collecting->values->device[d].values = grown;
    grown[count] = (struct doubt_value){ .unknown = unknown_of(collecting, key, source) };
    snprintf(grown[count].key, sizeof grown[count].key, "%s", key);
    return &grown[count];
}

static void add_chip(struct collecting *collecting, size_t d, const struct chip_profile *chip)
{
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        const struct profile_value_meta *meta = &chip->meta[i];
        enum chip_number index = (enum chip_number)i;
        if (meta->source == NULL || meta->kind == PROFILE_MEASURED || !(meta->low < meta->high)) {
            continue;
        }
        double at = chip_number_value(chip, index);
        const char *unit = chip_number_unit(index);
        bool counted = strcmp(unit, "count") == 0,
             sized = counted || strcmp(unit, "B") == 0 || strcmp(unit, "KiB") == 0;
        struct doubt_value *value = add(collecting, d, chip_number_key(index), hash64_add_text(HASH64_START, meta->source));
        value->kind = meta->kind;
        value->where = DOUBT_CHIP;
        value->index = index;
        value->value = at;
        value->low = meta->low;
        value->high = strstr(value->key, ".ways") != NULL ? fmax(fmin(meta->high, WAYS_MAX), at) : meta->high;
        value->power_of_two = sized && is_power_of_two(at) && is_power_of_two(meta->low) && is_power_of_two(meta->high);
        value->whole = counted && floor(at) == at && floor(meta->low) == meta->low && floor(meta->high) == meta->high;
    }
}

static void add_node(struct collecting *collecting, size_t d, const struct node_profile *node)
{
    for (size_t i = 0; i < node_profile_number_count(); i++) {
        struct node_profile_value number;
        if (!node_profile_number_at(node, i, &number) || strcmp(number.kind, "measured") == 0 || !(number.low < number.high)) {
            continue;
        }
        struct doubt_value *value = add(collecting, d, number.key, hash64_add_text(HASH64_START, number.source));
        value->where = DOUBT_NODE;
        value->value = number.value;
        value->low = number.low;
        value->high = number.high;
        value->whole = strcmp(number.unit, "count") == 0;
        for (int k = 0; k < PROFILE_KINDS; k++) {
            if (strcmp(number.kind, profile_kind_text((enum profile_kind)k)) == 0) {
                value->kind = (enum profile_kind)k;
            }
        }
    }
}

static void add_host(struct collecting *collecting, size_t d, const struct host_profile *host)
{
    for (size_t i = 0; i < host->kinds.range_count; i++) {
        const struct value_range *range = &host->kinds.range[i];
        char key[64];
        snprintf(key, sizeof key, "host.%s", range->key);
        struct doubt_value *value = add(collecting, d, key, range->source);
        value->kind = range->kind;
        value->where = DOUBT_HOST;
        value->offset = range->offset;
        value->value = *(const double *)((const char *)host + range->offset);
        value->low = range->low;
        value->high = range->high;
    }
}

static void add_model(struct collecting *collecting, size_t d, const char *name, double error)
{
    char keys[2][64] = { "model error", "" };
    snprintf(keys[1], sizeof keys[1], "model error on %.40s", name);
    for (size_t i = 0; i < 2; i++) {
        struct doubt_value *value = add(collecting, d, keys[i], 0);
        value->kind = PROFILE_MEASURED;
        value->where = DOUBT_MODEL;
        value->high = error * sqrt(0.5);
        value->low = -value->high;
    }
}

void doubt_values_collect(struct reckon_device *const *devices, size_t device_count, bool chip_only, double model_error,
                          struct doubt_values *values)
{
    struct collecting collecting = { values, NULL };
    *values = (struct doubt_values){ .device_count = device_count, .device = calloc(device_count + 1, sizeof *values->device) };
    SIM_ASSERT(values->device != NULL, "no memory for %zu devices", device_count);
    for (size_t d = 0; d < device_count; d++) {
        add_chip(&collecting, d, &devices[d]->chip);
        add_model(&collecting, d, devices[d]->chip.name, model_error);
        if (!chip_only) {
            add_node(&collecting, d, devices[d]->node);
            add_host(&collecting, d, &devices[d]->host);
        }
    }
    free(collecting.ids);
}

/* Of a value added after the collecting: the coordinate of its like on another device, or a new one. */
static size_t unknown_added(struct doubt_values *values, const struct doubt_value *added)
{
    for (size_t d = 0; d < values->device_count; d++) {
        for (size_t i = 0; i < values->device[d].count; i++) {
            const struct doubt_value *value = &values->device[d].values[i];
            if (value->where == added->where && value->library == added->library && strcmp(value->key, added->key) == 0) {
                return value->unknown;
            }
        }
    }
    return values->unknown_count++;
}

static void add_later(struct doubt_values *values, size_t d, struct doubt_value added)
{
    added.unknown = unknown_added(values, &added);
    size_t at = values->device[d].count++;
    struct doubt_value *grown = realloc(values->device[d].values, (at + 1) * sizeof *grown);
    SIM_ASSERT(grown != NULL, "no memory for %zu values", at);
    values->device[d].values = grown;
    grown[at] = added;
}

void doubt_values_add_inputs(struct doubt_values *values, size_t d, const struct reckon_assumed *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct doubt_value input = { .kind = PROFILE_ASSUMED, .where = DOUBT_INPUT, .value = inputs[i].value, .low = inputs[i].low,
                                     .high = inputs[i].high, .whole = true };
        snprintf(input.key, sizeof input.key, "%s", inputs[i].key);
        add_later(values, d, input);
    }
}

void doubt_values_add_library(struct doubt_values *values, size_t d, struct library_profile *library, const char *class_name)
{
    if (library != NULL && library->menu.low < library->menu.high) {
        struct doubt_value filled = { .kind = library->menu.kind, .where = DOUBT_LIBRARY, .value = library->menu.filled,
                                      .low = library->menu.low, .high = library->menu.high, .library = &library->menu.filled };
        snprintf(filled.key, sizeof filled.key, "%.31s: filled", library->name);
        add_later(values, d, filled);
    }
    for (size_t i = 0; library != NULL && i < library->kernel_count; i++) {
        struct library_kernel *kernel = &library->kernels[i];
        if (kernel->low < kernel->high) {
            struct doubt_value setup = { .kind = kernel->kind, .where = DOUBT_LIBRARY, .value = kernel->setup_cycles, .low = kernel->low,
                                         .high = kernel->high, .library = &kernel->setup_cycles, .whole = true };
            snprintf(setup.key, sizeof setup.key, "%.15s: setup of %.36s", library->name, kernel->kernel);
            add_later(values, d, setup);
        }
    }
    for (size_t i = 0; library != NULL && i < library->class_count; i++) {
        struct library_class *class = &library->classes[i];
        if (!(class->low < class->high) || (class_name != NULL && strcmp(class->name, class_name) != 0)) {
            continue;
        }
        struct doubt_value value = { .kind = class->kind, .where = DOUBT_LIBRARY, .value = class->efficiency, .low = class->low,
                                     .high = class->high, .library = &class->efficiency };
        snprintf(value.key, sizeof value.key, "%.15s: %.46s", library->name, class->name);
        add_later(values, d, value);
    }
}

void doubt_values_finish(struct doubt_values *values)
{
    for (size_t d = 0; d < values->device_count; d++) {
        free(values->device[d].values);
    }
    free(values->device);
    *values = (struct doubt_values){ 0 };
}

static double between(double from, double to, double share)
{
    bool wide = from > 0 && to > 0 && fmax(from, to) > WIDE * fmin(from, to);
    return wide ? from * pow(to / from, share) : from + (to - from) * share;
}

static double at_coordinate(const struct doubt_value *value, double x)
{
    double at = x < 0.5 ? between(value->low, value->value, 2 * x) : between(value->value, value->high, 2 * x - 1);
    if (value->power_of_two) {
        return exp2(round(log2(at)));
    }
    return value->whole ? round(at) : at;
}

void doubt_values_set(const struct doubt_values *values, size_t d, const double *coordinates, struct reckon_device *device)
{
    enum chip_number index;
    for (size_t i = 0; i < values->device[d].count; i++) {
        const struct doubt_value *value = &values->device[d].values[i];
        if (value->where == DOUBT_MODEL || value->where == DOUBT_INPUT) {
            continue;
        }
        double at = coordinates != NULL ? at_coordinate(value, coordinates[value->unknown]) : value->value;
        if (value->where == DOUBT_CHIP) {
            *chip_profile_number(&device->chip, value->key, &index) = at;
        } else if (value->where == DOUBT_NODE) {
            *node_profile_number(device->node, value->key) = at;
        } else if (value->where == DOUBT_LIBRARY) {
            *value->library = at;
        } else {
            *(double *)((char *)&device->host + value->offset) = at;
        }
    }
    chip_profile_rehash(&device->chip);
}

void doubt_values_params(const struct doubt_values *values, size_t d, const double *coordinates, const char *params, char *text,
                         size_t capacity)
{
    size_t used = (size_t)snprintf(text, capacity, "%s", params != NULL ? params : "");
    for (size_t i = 0; i < values->device[d].count; i++) {
        const struct doubt_value *value = &values->device[d].values[i];
        if (value->where == DOUBT_INPUT) {
            SIM_ASSERT(used < capacity, "parameters beyond %zu characters", capacity);
            used += (size_t)snprintf(text + used, capacity - used, "%s%s=%.0f", used > 0 ? ";" : "", value->key,
                                     at_coordinate(value, coordinates[value->unknown]));
        }
    }
    SIM_ASSERT(used < capacity, "parameters beyond %zu characters", capacity);
}

/* Standard normal to within 0.01 between its 1% and 99% quantiles (a logistic). */
static double normal_at(double x)
{
    return log(x / (1 - x)) / 1.702;
}

double doubt_values_model_factor(const struct doubt_values *values, size_t d, const double *coordinates)
{
    double logarithm = 0;
    for (size_t i = 0; i < values->device[d].count; i++) {
        const struct doubt_value *value = &values->device[d].values[i];
        if (value->where == DOUBT_MODEL) {
            logarithm += value->high * normal_at(coordinates[value->unknown]);
        }
    }
    return exp(logarithm);
}
