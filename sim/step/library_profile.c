#include "sim/step/library_profile.h"
#include "sim/core/data_path.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct value_row efficiency_row = { "efficiency", "ratio", 0.01, 1, offsetof(struct library_class, efficiency),
                                                 "of the rate of the selector's tile" };

struct bound {
    const char *key;
    size_t offset;
    double otherwise;
};
static const struct bound bounds[] = {
    { "side_least", offsetof(struct library_class, side_least), 0 },
    { "side_most", offsetof(struct library_class, side_most), INFINITY },
    { "n_most", offsetof(struct library_class, n_most), INFINITY },
    { "k_least", offsetof(struct library_class, k_least), 0 },
    { "k_most", offsetof(struct library_class, k_most), INFINITY },
    { "fill_least", offsetof(struct library_class, fill_least), 0 },
    { "fill_below", offsetof(struct library_class, fill_below), INFINITY },
    { "not_multiple_of", offsetof(struct library_class, multiple), 0 },
};

static enum sim_status number_read(const char *path, const struct json *object, const char *key, double otherwise, double *out,
                                   struct sim_error *error)
{
    const struct json *value = json_get(object, key);
    *out = otherwise;
    if (value == NULL) {
        return SIM_OK;
    }
    if (json_kind_of(value) != JSON_NUMBER || !(json_number(value) >= 0)) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: '%s' must be a number from 0 up", path, json_line(value), key);
    }
    *out = json_number(value);
    return SIM_OK;
}

static enum sim_status class_read(const char *path, const struct json *entry, struct library_class *class,
                                  struct value_kinds *kinds, struct sim_error *error)
{
    static const char *const keys[] = { "name",       "dtypes",     "trans",           "side_least", "side_most", "n_most", "k_least", "k_most",
                                        "fill_least", "fill_below", "not_multiple_of", "efficiency", NULL };
    enum sim_status status = value_keys_check(path, entry, keys, error);
    if (status == SIM_OK) {
        status = value_text_read(path, entry, "name", class->name, sizeof class->name, error);
    }
    if (status == SIM_OK && json_get(entry, "dtypes") != NULL) {
        status = value_text_read(path, entry, "dtypes", class->dtypes, sizeof class->dtypes, error);
    }
    if (status == SIM_OK && json_get(entry, "trans") != NULL) {
        status = value_text_read(path, entry, "trans", class->trans, sizeof class->trans, error);
    }
    for (size_t i = 0; status == SIM_OK && i < sizeof bounds / sizeof bounds[0]; i++) {
        status = number_read(path, entry, bounds[i].key, bounds[i].otherwise, (double *)((char *)class + bounds[i].offset), error);
    }
    const struct json *efficiency = json_get(entry, "efficiency");
    if (status == SIM_OK && efficiency == NULL) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: class '%s' has no 'efficiency'", path, json_line(entry), class->name);
    }
    struct value_kinds own = { 0 };
    if (status == SIM_OK) {
        status = value_row_read(path, efficiency, &efficiency_row, class, &own, error);
    }
    class->low = class->high = class->efficiency;
    if (status == SIM_OK && own.range_count > 0) {
        class->low = own.range[0].low;
        class->high = own.range[0].high;
        class->kind = own.range[0].kind;
        class->source = own.range[0].source;
    }
    for (int k = 0; k < PROFILE_KINDS; k++) {
        kinds->count[k] += own.count[k];
    }
    return status;
}

static enum sim_status classes_read(const char *path, const struct json *list, struct library_profile *library,
                                    struct sim_error *error)
{
    size_t most = sizeof library->classes / sizeof library->classes[0];
    if (list == NULL || json_kind_of(list) != JSON_ARRAY || json_count(list) > most) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s: key 'classes' must be a list of up to %zu {name, .., efficiency}", path, most);
    }
    for (size_t i = 0; i < json_count(list); i++) {
        enum sim_status status = class_read(path, json_at(list, i), &library->classes[i], &library->kinds, error);
        if (status != SIM_OK) {
            return status;
        }
        library->class_count++;
    }
    return SIM_OK;
}

static const struct value_row filled_row = { "filled", "ratio", 0.01, 1, offsetof(struct library_profile, menu.filled),
                                             "share of the units that a tile's workgroups must fill" };

static enum sim_status menu_read(const char *path, const struct json *menu, struct library_profile *library, struct sim_error *error)
{
    static const char *const keys[] = { "tiles", "tiles_source", "side_least", "filled", NULL };
    size_t most = sizeof library->menu.tiles / sizeof library->menu.tiles[0];
    if (menu == NULL) {
        return SIM_OK;
    }
    enum sim_status status = value_keys_check(path, menu, keys, error);
    const struct json *tiles = json_get(menu, "tiles"), *filled = json_get(menu, "filled");
    if (status == SIM_OK && (tiles == NULL || json_kind_of(tiles) != JSON_ARRAY || json_count(tiles) == 0 || json_count(tiles) > most || filled == NULL)) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: 'menu' must hold 'tiles', a list of 1 to %zu pairs of sides, and 'filled'", path,
                        json_line(menu), most);
    }
    for (size_t i = 0; status == SIM_OK && i < json_count(tiles); i++) {
        const struct json *pair = json_at(tiles, i);
        size_t numbers = json_kind_of(pair) == JSON_ARRAY ? json_count(pair) : 0;
        bool is_tile = numbers == 2 || numbers == 3;
        for (size_t j = 0; is_tile && j < numbers; j++) {
            is_tile = json_kind_of(json_at(pair, j)) == JSON_NUMBER && json_number(json_at(pair, j)) >= 16;
        }
        double longer = is_tile ? json_number(json_at(pair, 0)) : 0, shorter = is_tile ? json_number(json_at(pair, 1)) : 0;
        double before = i > 0 ? (double)library->menu.tiles[i - 1][0] * library->menu.tiles[i - 1][1] : INFINITY;
        if (!(shorter >= 16 && longer >= shorter && longer <= 1024 && longer * shorter < before)) {
            return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: 'tiles' must be [long, short] of 16 to 1024, each smaller than the one before, and may have "
                            "the largest K that it is known for", path, json_line(pair));
        }
        library->menu.k_most[i] = numbers == 3 ? json_number(json_at(pair, 2)) : INFINITY;
        library->menu.tiles[i][0] = (uint32_t)longer;
        library->menu.tiles[i][1] = (uint32_t)shorter;
    }
    struct value_kinds own = { 0 };
    if (status == SIM_OK) {
        library->menu.tile_count = json_count(tiles);
        status = number_read(path, menu, "side_least", 0, &library->menu.side_least, error);
    }
    if (status == SIM_OK) {
        status = value_row_read(path, filled, &filled_row, library, &own, error);
    }
    library->menu.low = own.range_count > 0 ? own.range[0].low : library->menu.filled;
    library->menu.high = own.range_count > 0 ? own.range[0].high : library->menu.filled;
    library->menu.kind = own.range_count > 0 ? own.range[0].kind : PROFILE_MEASURED;
    for (int k = 0; k < PROFILE_KINDS; k++) {
        library->kinds.count[k] += own.count[k];
    }
    return status;
}

static bool tile_read(const struct json *tile, struct library_configuration *out)
{
    uint32_t *sides[] = { &out->m, &out->n, &out->k };
    bool is_tile = tile != NULL && json_kind_of(tile) == JSON_ARRAY && json_count(tile) == 3;
    for (size_t i = 0; is_tile && i < 3; i++) {
        double side = json_kind_of(json_at(tile, i)) == JSON_NUMBER ? json_number(json_at(tile, i)) : 0;
        is_tile = side >= 16 && side <= 1024 && fmod(side, 16) == 0;
        *sides[i] = is_tile ? (uint32_t)side : 0;
    }
    return is_tile;
}

static enum sim_status configuration_read(const char *path, const struct json *entry, double before, struct library_configuration *out,
                                          struct sim_error *error)
{
    static const char *const keys[] = { "m_most", "tile", "stages", NULL };
    double stages = 0;
    enum sim_status status = value_keys_check(path, entry, keys, error);
    if (status == SIM_OK) {
        status = number_read(path, entry, "m_most", INFINITY, &out->m_most, error);
    }
    if (status == SIM_OK) {
        status = number_read(path, entry, "stages", 0, &stages, error);
    }
    if (status == SIM_OK && !(out->m_most > before && tile_read(json_get(entry, "tile"), out) && stages >= 2 && stages <= 8)) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: a configuration must have 'm_most' above the one before (the last without), 'tile' "
                        "[m, n, k] of multiples of 16 to 1024 and 'stages' of 2 to 8", path, json_line(entry));
    }
    out->stages = (uint32_t)stages;
    return status;
}

static enum sim_status configurations_read(const char *path, const struct json *object, struct library_profile *library,
                                           struct sim_error *error)
{
    static const char *const keys[] = { "rows", "source", NULL };
    size_t most = sizeof library->configurations / sizeof library->configurations[0];
    char source[512];
    if (object == NULL) {
        return SIM_OK;
    }
    enum sim_status status = value_keys_check(path, object, keys, error);
    const struct json *rows = status == SIM_OK ? json_get(object, "rows") : NULL;
    if (status == SIM_OK && (rows == NULL || json_kind_of(rows) != JSON_ARRAY || json_count(rows) == 0 || json_count(rows) > most)) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: 'configurations' must hold 'rows', a list of 1 to %zu {m_most, tile, stages}, and 'source'",
                        path, json_line(object), most);
    }
    if (status == SIM_OK) {
        status = value_text_read(path, object, "source", source, sizeof source, error);
    }
    double before = 0;
    for (size_t i = 0; status == SIM_OK && i < json_count(rows); i++) {
        status = configuration_read(path, json_at(rows, i), before, &library->configurations[i], error);
        before = library->configurations[i].m_most;
        library->configuration_count++;
    }
    return status;
}

static bool library_tile_read(const struct json *list, struct library_tile *out)
{
    static const double least[6] = { 16, 16, 16, 2, 0, 0 }, most[6] = { 1024, 1024, 1024, 8, 32, 16 };
    uint32_t *numbers[6] = { &out->m, &out->n, &out->k, &out->stages, &out->split, &out->resident };
    bool is_tile = json_kind_of(list) == JSON_ARRAY && json_count(list) == 6;
    for (size_t i = 0; is_tile && i < 6; i++) {
        double number = json_kind_of(json_at(list, i)) == JSON_NUMBER ? json_number(json_at(list, i)) : -1;
        is_tile = number >= least[i] && number <= most[i] && floor(number) == number;
        *numbers[i] = is_tile ? (uint32_t)number : 0;
    }
    return is_tile;
}

static enum sim_status tiles_read(const char *path, const struct json *object, struct library_profile *library, struct sim_error *error)
{
    static const char *const keys[] = { "list", "source", NULL };
    char source[512];
    if (object == NULL) {
        return SIM_OK;
    }
    enum sim_status status = value_keys_check(path, object, keys, error);
    const struct json *list = status == SIM_OK ? json_get(object, "list") : NULL;
    if (status == SIM_OK && (list == NULL || json_kind_of(list) != JSON_ARRAY || json_count(list) == 0 || json_count(list) > LIBRARY_TILES_MAX)) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: 'tiles' must hold 'list', 1 to %d of [m, n, k, stages, split, resident], and 'source'",
                        path, json_line(object), LIBRARY_TILES_MAX);
    }
    if (status == SIM_OK) {
        status = value_text_read(path, object, "source", source, sizeof source, error);
    }
    for (size_t i = 0; status == SIM_OK && i < json_count(list); i++) {
        if (!library_tile_read(json_at(list, i), &library->tiles[i])) {
            return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: one of 'tiles' must be [m, n, k, stages, split, resident]: sides of 16 to 1024, "
                            "stages of 2 to 8, split to 32 and resident to 16, 0 for any", path, json_line(json_at(list, i)));
        }
        library->tile_count++;
    }
    return status;
}

static const struct value_row setup_row = { "setup_cycles", "cycle", 0, 60000, offsetof(struct library_kernel, setup_cycles),
                                            "of a workgroup before its first load" };

static enum sim_status kernel_read(const char *path, const struct json *entry, struct library_kernel *out, struct value_kinds *kinds,
                                   struct sim_error *error)
{
    static const char *const keys[] = { "kernel", "params", "setup_cycles", "source", NULL };
    char source[512];
    struct value_kinds own = { 0 };
    const struct json *setup = json_get(entry, "setup_cycles");
    enum sim_status status = value_keys_check(path, entry, keys, error);
    if (status == SIM_OK) {
        status = value_text_read(path, entry, "kernel", out->kernel, sizeof out->kernel, error);
    }
    if (status == SIM_OK) {
        status = value_text_read(path, entry, "params", out->params, sizeof out->params, error);
    }
    if (status == SIM_OK) {
        status = value_text_read(path, entry, "source", source, sizeof source, error);
    }
    if (status == SIM_OK && setup != NULL) {
        status = value_row_read(path, setup, &setup_row, out, &own, error);
    }
    out->low = own.range_count > 0 ? own.range[0].low : out->setup_cycles;
    out->high = own.range_count > 0 ? own.range[0].high : out->setup_cycles;
    out->kind = own.range_count > 0 ? own.range[0].kind : PROFILE_MEASURED;
    for (int k = 0; k < PROFILE_KINDS; k++) {
        kinds->count[k] += own.count[k];
    }
    return status;
}

static enum sim_status kernels_read(const char *path, const struct json *list, struct library_profile *library, struct sim_error *error)
{
    size_t most = sizeof library->kernels / sizeof library->kernels[0];
    enum sim_status status = SIM_OK;
    if (list != NULL && (json_kind_of(list) != JSON_ARRAY || json_count(list) > most)) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: 'kernels' must be a list of up to %zu {kernel, params, source}", path, json_line(list),
                        most);
    }
    for (size_t i = 0; status == SIM_OK && list != NULL && i < json_count(list); i++) {
        status = kernel_read(path, json_at(list, i), &library->kernels[i], &library->kinds, error);
        library->kernel_count++;
    }
    return status;
}

static enum sim_status names_read(const char *path, const struct json *root, const char *key, char names[16][32], size_t *count,
                                  struct sim_error *error)
{
    const struct json *list = json_get(root, key);
    if (list == NULL || json_kind_of(list) != JSON_ARRAY || json_count(list) > 16) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s: key '%s' must be a list of up to 16 texts", path, key);
    }
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *entry = json_at(list, i);
        if (json_kind_of(entry) != JSON_STRING || strlen(json_string(entry)) >= sizeof names[0]) {
            return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: '%s' takes texts of up to 31 bytes", path, json_line(entry), key);
        }
        strcpy(names[(*count)++], json_string(entry));
    }
    return SIM_OK;
}

enum sim_status library_profile_read(const char *path, struct library_profile *library, struct sim_error *error)
{
    static const char *const keys[] = { "schema", "name", "title", "tables", "devices", "large_tile", "menu", "configurations", "tiles", "kernels", "classes", NULL };
    struct json *root = NULL;
    enum sim_status status = json_read_file(path, &root, error);
    if (status != SIM_OK) {
        return status;
    }
    memset(library, 0, sizeof *library);
    if ((status = value_keys_check(path, root, keys, error)) == SIM_OK &&
        (status = value_text_read(path, root, "name", library->name, sizeof library->name, error)) == SIM_OK &&
        (status = value_text_read(path, root, "title", library->title, sizeof library->title, error)) == SIM_OK &&
        (status = names_read(path, root, "tables", library->tables, &library->table_count, error)) == SIM_OK &&
        (status = names_read(path, root, "devices", library->devices, &library->device_count, error)) == SIM_OK &&
        (status = number_read(path, root, "large_tile", 0, &library->large_tile, error)) == SIM_OK) {
        status = menu_read(path, json_get(root, "menu"), library, error);
    }
    if (status == SIM_OK) {
        status = configurations_read(path, json_get(root, "configurations"), library, error);
    }
    if (status == SIM_OK) {
        status = tiles_read(path, json_get(root, "tiles"), library, error);
    }
    if (status == SIM_OK) {
        status = kernels_read(path, json_get(root, "kernels"), library, error);
    }
    if (status == SIM_OK) {
        status = classes_read(path, json_get(root, "classes"), library, error);
    }
    if (status == SIM_OK && library->large_tile < 1) {
        status = sim_fail(error, SIM_BAD_PROFILE, "%s: key 'large_tile' must be 1 or more", path);
    }
    json_destroy(root);
    return status;
}

enum sim_status library_set_read(struct library_set *set, struct sim_error *error)
{
    struct data_names names = { 0 };
    enum sim_status status = data_path_list("devices/libraries", &names, error);
    *set = (struct library_set){ .libraries = calloc(names.count + 1, sizeof *set->libraries) };
    SIM_ASSERT(set->libraries != NULL, "no memory for %zu libraries", names.count);
    for (size_t i = 0; status == SIM_OK && i < names.count; i++) {
        char path[DATA_PATH_CAPACITY];
        status = data_path_find("devices/libraries", "library", names.name[i], path, error);
        if (status == SIM_OK) {
            status = library_profile_read(path, &set->libraries[set->count++], error);
        }
    }
    data_names_finish(&names);
    return status;
}

void library_set_finish(struct library_set *set)
{
    free(set->libraries);
    *set = (struct library_set){ 0 };
}

static bool is_among(char names[16][32], size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

struct library_profile *library_set_find(const struct library_set *set, const char *table, const char *device)
{
    for (size_t i = 0; set != NULL && i < set->count; i++) {
        struct library_profile *library = &set->libraries[i];
        if (table != NULL ? is_among(library->tables, library->table_count, table)
                          : is_among(library->devices, library->device_count, device)) {
            return library;
        }
    }
    return NULL;
}

/* "bf16" in "bf16|fp16"; "" holds all. */
static bool choice_holds(const char *choices, const char *choice)
{
    size_t length = strlen(choice);
    for (const char *at = choices; *at != '\0'; at += strcspn(at, "|"), at += *at == '|') {
        if (strcspn(at, "|") == length && strncmp(at, choice, length) == 0) {
            return true;
        }
    }
    return choices[0] == '\0';
}

const struct library_configuration *library_configuration_of(const struct library_profile *library, const struct kernel_product *product)
{
    for (size_t i = 0; i < library->configuration_count && choice_holds("bf16|fp16", product->dtype); i++) {
        if (product->m <= library->configurations[i].m_most) {
            return &library->configurations[i];
        }
    }
    return NULL;
}

bool library_tiles_text(const struct library_profile *library, const struct kernel_product *product, char *text, size_t capacity)
{
    size_t used = 0;
    for (size_t i = 0; i < library->tile_count && used < capacity; i++) {
        const struct library_tile *tile = &library->tiles[i];
        used += (size_t)snprintf(text + used, capacity - used, "%s%u:%u:%u:%u:%u:%u", i > 0 ? ":" : "", tile->m, tile->n, tile->k, tile->stages,
                                 tile->split, tile->resident);
    }
    return used > 0 && used < capacity && choice_holds("bf16|fp16", product->dtype);
}

const struct library_kernel *library_kernel_of(const struct library_profile *library, const char *suite, const char *kernel)
{
    size_t length = strlen(suite);
    for (size_t i = 0; i < library->kernel_count; i++) {
        const char *name = library->kernels[i].kernel;
        if (strncmp(name, suite, length) == 0 && name[length] == '/' && strcmp(name + length + 1, kernel) == 0) {
            return &library->kernels[i];
        }
    }
    return NULL;
}

static uint32_t side_within(uint32_t side, double size)
{
    while (side / 2 >= size && side > 16) {
        side /= 2;
    }
    return side;
}

size_t library_menu_tile(const struct library_profile *library, double units, const struct kernel_product *product, size_t from,
                         uint32_t *tile_m, uint32_t *tile_n)
{
    size_t i = fmin(product->m, product->n) < library->menu.side_least ? library->menu.tile_count : from;
    for (; i < library->menu.tile_count; i++) {
        bool tall = product->m >= product->n;
        *tile_m = side_within(library->menu.tiles[i][tall ? 0 : 1], product->m);
        *tile_n = side_within(library->menu.tiles[i][tall ? 1 : 0], product->n);
        bool fills = ceil(product->m / *tile_m) * ceil(product->n / *tile_n) * product->batch >= library->menu.filled * units;
        if (fills && product->k <= library->menu.k_most[i]) {
            break;
        }
    }
    return i;
}

const struct library_class *library_class_of(const struct library_profile *library, double units,
                                             const struct kernel_product *product)
{
    double side = fmin(product->m, product->n), tile = library->large_tile;
    double tiles = ceil(product->m / tile) * ceil(product->n / tile) * product->batch;
    double fill = tiles / (ceil(tiles / units) * units);
    for (size_t i = 0; i < library->class_count; i++) {
        const struct library_class *class = &library->classes[i];
        bool odd = class->multiple == 0 || fmod(product->n, class->multiple) != 0;
        if (odd && side >= class->side_least && side <= class->side_most && product->n <= class->n_most && product->k >= class->k_least &&
            product->k <= class->k_most && fill >= class->fill_least && fill < class->fill_below &&
            choice_holds(class->dtypes, product->dtype) && choice_holds(class->trans, product->trans)) {
            return class;
        }
    }
    return NULL;
}
