#include "sim/step/harness_profile.h"
#include <math.h>
#include <string.h>

static const char *const cache_texts[HARNESS_CACHES] = { "program", "clean", "own", "predecessor",
                                                         "flushed" };

#define ROW(field, unit, min, max, help)                                      \
    {                                                                         \
#field, unit, min, max, offsetof(struct harness_profile, field), help \
    }
static const struct value_row rows[] = {
    ROW(empty_us, "us", 0, 1000, "what the program reads for an empty kernel"),
    ROW(launch_interval_us, "us", 0, 1000, "least time between two calls of the program's host"),
    ROW(inner_interval_us, "us", 0, 1000, "least time between the launches that one call makes"),
};
#undef ROW

/* Optional values of an entry of `covers`; 0 where they are not given. */
#define ROW(key, unit, min, max, field, help)                                  \
    {                                                                          \
        key, unit, min, max, offsetof(struct harness_coverage, field), help \
    }
static const struct value_row coverage_rows[] = {
    ROW("call_us", "us", 0, 1e6, call_us, "host time of one measured call"),
    ROW("lead_us", "us", 0, 1e6, lead_us, "host time between the first event and the launch, the device idle"),
    ROW("calls", "count", 0, 1e6, loop.calls, "calls in a row, with little between them"),
    ROW("between_us", "us", 0, 1e6, loop.between_us, "other work between those calls"),
    ROW("pause_us", "us", 0, 1e9, loop.pause_us, "light work after the last of them"),
    ROW("spin_mhz", "MHz", 0, 10000, loop.spin_mhz, "clock for which the cycles of a spun pause are counted"),
    ROW("step_mhz", "MHz", 100, 5000, loop.step_mhz, "clock that the power of a step's other kernels leaves"),
    ROW("copy_pause_us", "us", 0, 1e6, loop.copy_pause_us, "what a copy that fills a pause is taken to last"),
};
#undef ROW

double harness_floor_us(const struct harness_profile *harness, const struct chip_profile *chip)
{
    return fmax(harness->empty_us - chip->launch_latency, 0);
}

double harness_interval_us(const struct harness_profile *harness, const struct harness_coverage *coverage,
                           bool launches_are_calls)
{
    if (launches_are_calls) {
        return harness->launch_interval_us;
    }
    return coverage != NULL && coverage->cache == HARNESS_CACHE_FLUSHED ? 0 : harness->inner_interval_us;
}

const char *harness_cache_text(enum harness_cache cache)
{
    SIM_ASSERT(cache < HARNESS_CACHES, "cache %d", (int)cache);
    return cache_texts[cache];
}

int harness_cache_parse(const char *text)
{
    for (int i = 0; i < HARNESS_CACHES; i++) {
        if (strcmp(text, cache_texts[i]) == 0) {
            return i;
        }
    }
    return -1;
}

/* "covers": [{"suite": "gemm", "cache": "flushed"}, {"suite": "launch", "kernel": "empty", "cache": "own", "call_us": {...}}] */
static enum sim_status coverage_read(const char *path, const struct json *list,
                                     struct harness_profile *harness, struct sim_error *error)
{
    if (list == NULL || json_kind_of(list) != JSON_ARRAY) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s: key 'covers' must be a list of {suite, kernel, cache}",
                        path);
    }
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *entry = json_at(list, i);
        struct harness_coverage *coverage = &harness->coverage[harness->coverage_count];
        char cache[32] = "";
        if (harness->coverage_count == sizeof harness->coverage / sizeof harness->coverage[0]) {
            return sim_fail(error, SIM_BAD_PROFILE, "%s:%u: more than %zu entries in 'covers'", path,
                            json_line(entry), harness->coverage_count);
        }
        static const char *const keys[] = { "suite",    "kernel",  "params", "cache", "call_us", "lead_us", "calls", "between_us",
                                            "pause_us", "spin_mhz", "step_mhz", "copy_pause_us", NULL };
        enum sim_status status = value_keys_check(path, entry, keys, error);
        if (status == SIM_OK) {
            status = value_text_read(path, entry, "suite", coverage->suite, sizeof coverage->suite, error);
        }
        if (status == SIM_OK && json_get(entry, "kernel") != NULL) {
            status = value_text_read(path, entry, "kernel", coverage->kernel, sizeof coverage->kernel, error);
        }
        if (status == SIM_OK && json_get(entry, "params") != NULL) {
            status = value_text_read(path, entry, "params", coverage->params, sizeof coverage->params, error);
        }
        if (status == SIM_OK) {
            status = value_text_read(path, entry, "cache", cache, sizeof cache, error);
        }
        for (size_t r = 0; status == SIM_OK && r < sizeof coverage_rows / sizeof coverage_rows[0]; r++) {
            const struct json *value = json_get(entry, coverage_rows[r].key);
            if (value != NULL) {
                status = value_row_read(path, value, &coverage_rows[r], coverage, &harness->kinds, error);
            }
        }
        if (status != SIM_OK) {
            return status;
        }
        if (harness_cache_parse(cache) < 0) {
            return sim_fail(error, SIM_BAD_PROFILE,
                            "%s:%u: cache '%s' is none of program, clean, own, predecessor, flushed", path,
                            json_line(entry), cache);
        }
        coverage->cache = (enum harness_cache)harness_cache_parse(cache);
        harness->coverage_count++;
    }
    return SIM_OK;
}

static enum sim_status libraries_read(const char *path, const struct json *list,
                                      struct harness_profile *harness, struct sim_error *error)
{
    if (list == NULL || json_kind_of(list) != JSON_ARRAY) {
        return sim_fail(error, SIM_BAD_PROFILE, "%s: key 'libraries' must be a list of texts", path);
    }
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *entry = json_at(list, i);
        if (json_kind_of(entry) != JSON_STRING ||
            strlen(json_string(entry)) >= sizeof harness->libraries[0] ||
            harness->library_count == sizeof harness->libraries / sizeof harness->libraries[0]) {
            return sim_fail(error, SIM_BAD_PROFILE,
                            "%s:%u: 'libraries' takes up to 16 texts of up to 31 bytes", path,
                            json_line(entry));
        }
        strcpy(harness->libraries[harness->library_count++], json_string(entry));
    }
    return SIM_OK;
}

enum sim_status harness_profile_read(const char *path, struct harness_profile *harness,
                                     struct sim_error *error)
{
    struct json *root = NULL;
    enum sim_status status = json_read_file(path, &root, error);
    if (status != SIM_OK) {
        return status;
    }
    static const char *const keys[] = { "schema", "name", "title", "libraries", "covers", "values", NULL };
    memset(harness, 0, sizeof *harness);
    if ((status = value_keys_check(path, root, keys, error)) == SIM_OK &&
        (status = value_text_read(path, root, "name", harness->name, sizeof harness->name, error)) ==
            SIM_OK &&
        (status = value_text_read(path, root, "title", harness->title, sizeof harness->title, error)) ==
            SIM_OK &&
        (status = coverage_read(path, json_get(root, "covers"), harness, error)) == SIM_OK &&
        (status = libraries_read(path, json_get(root, "libraries"), harness, error)) == SIM_OK) {
        status = value_table_read(path, json_get(root, "values"), rows, sizeof rows / sizeof rows[0], harness,
                                  &harness->kinds, error);
    }
    json_destroy(root);
    return status;
}

const char *harness_library(const struct harness_profile *harness, const char *library)
{
    for (size_t i = 0; i < harness->library_count; i++) {
        if (strcmp(harness->libraries[i], library) == 0) {
            return harness->libraries[i];
        }
    }
    return NULL;
}

static bool library_matches(const struct harness_profile *harness, const char *library)
{
    return library == NULL ? harness->library_count == 0 : harness_library(harness, library) != NULL;
}

const struct harness_coverage *harness_covers(const struct harness_profile *harness, const char *suite,
                                              const char *kernel, const char *library)
{
    const struct harness_coverage *best = NULL;
    if (!library_matches(harness, library)) {
        return NULL;
    }
    for (size_t i = 0; i < harness->coverage_count; i++) {
        const struct harness_coverage *coverage = &harness->coverage[i];
        if (strcmp(coverage->suite, suite) != 0) {
            continue;
        }
        if (strcmp(coverage->kernel, kernel) == 0) {
            return coverage;
        }
        if (coverage->kernel[0] == '\0') {
            best = coverage;
        }
    }
    return best;
}
