#include "sim/step/step_fixes.h"
#include "workloads/kernels/fix.h"
#include <stdio.h>
#include <string.h>

/* A choice of the library for matrix products that is a parameter of its own. */
static const struct {
    const char *name, *suite, *kernel, *pair;
} stream_k = { "stream-k", "gemm", "mm", "stream_k=1" };

static const char *const levers[] = { "ll64", "single-qp", "direct-allgather", "p2p-batch", "wave-per-peer" };
#define LEVERS (sizeof levers / sizeof levers[0])

struct item { /* one NAME[@WHERE] */
    char name[STEP_FIX_TEXT_CAPACITY], where[STEP_FIX_TEXT_CAPACITY]; /* where "": everywhere */
};

/* The next item of *at, which moves behind it; false at the end. Overlong ones come out cut, and are no known name. */
static bool next_item(const char **at, struct item *item)
{
    if (*at == NULL || **at == '\0') {
        return false;
    }
    size_t length = strcspn(*at, "+"), name = strcspn(*at, "@+");
    snprintf(item->name, sizeof item->name, "%.*s", (int)name, *at);
    snprintf(item->where, sizeof item->where, "%.*s", name < length ? (int)(length - name - 1) : 0,
             *at + name + (name < length));
    *at += length + ((*at)[length] == '+');
    return true;
}

static bool is_lever(const char *name)
{
    for (size_t i = 0; i < LEVERS; i++) {
        if (strcmp(levers[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_kernel_fix(const char *name)
{
    for (int fix = 0; fix < KERNEL_FIXES; fix++) {
        if (strcmp(kernel_fix_text((enum kernel_fix)fix), name) == 0) {
            return true;
        }
    }
    return strcmp(name, stream_k.name) == 0;
}

static enum sim_status unknown(const char *name, struct sim_error *error)
{
    char list[512] = "";
    size_t used = 0;
    for (int fix = 0; fix < KERNEL_FIXES; fix++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%s, ", kernel_fix_text((enum kernel_fix)fix));
    }
    for (size_t i = 0; i < LEVERS; i++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%s, ", levers[i]);
    }
    return sim_fail(error, SIM_UNKNOWN_NAME, "unknown fix '%s': must be one of %s%s", name, list, stream_k.name);
}

enum sim_status step_fixes_check(const char *fixes, struct sim_error *error)
{
    struct item item, other;
    for (const char *at = fixes; next_item(&at, &item);) {
        if (item.name[0] == '\0') {
            return sim_fail(error, SIM_BAD_ARGUMENT, "fix '%.60s': a name is missing (NAME[@suite/kernel]+...)", fixes);
        }
        if (!is_kernel_fix(item.name) && !is_lever(item.name)) {
            return unknown(item.name, error);
        }
        for (const char *rest = at; next_item(&rest, &other);) {
            if (strcmp(item.name, other.name) == 0 && strcmp(item.where, other.where) == 0) {
                return sim_fail(error, SIM_BAD_ARGUMENT, "fix '%s' is there twice: name it once", item.name);
            }
        }
    }
    return SIM_OK;
}

bool step_fixes_at(const char *fixes, size_t index, char *text, size_t capacity)
{
    struct item item;
    size_t i = 0;
    for (const char *at = fixes; next_item(&at, &item); i++) {
        if (i == index) {
            snprintf(text, capacity, "%s%s%s", item.name, item.where[0] != '\0' ? "@" : "", item.where);
            return true;
        }
    }
    return false;
}

/* "tree-reduction, privatise" holds `name` as a whole word. */
static bool list_holds(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length) {
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool is_of(const struct item *item, const char *program)
{
    return item->where[0] == '\0' || strcmp(item->where, program) == 0;
}

bool step_fixes_of_kernel(const char *fixes, const char *suite, const char *kernel, const char *params, char *out,
                          size_t capacity)
{
    char program[STEP_FIX_TEXT_CAPACITY], taken[256], chosen[256] = "";
    struct item item;
    size_t used = 0;
    const char *pair = "";
    snprintf(program, sizeof program, "%s/%s", suite, kernel);
    if (fixes == NULL || fixes[0] == '\0' || (params != NULL && strstr(params, "fix=") != NULL)) {
        return false;
    }
    kernel_fixes_of(suite, kernel, taken, sizeof taken);
    for (const char *at = fixes; next_item(&at, &item);) {
        if (is_of(&item, program) && list_holds(taken, item.name) && used + strlen(item.name) + 2 < sizeof chosen) {
            used += (size_t)snprintf(chosen + used, sizeof chosen - used, "%s%s", used > 0 ? "+" : ";fix=", item.name);
        } else if (is_of(&item, program) && strcmp(item.name, stream_k.name) == 0 && strcmp(suite, stream_k.suite) == 0 &&
                   strcmp(kernel, stream_k.kernel) == 0) {
            pair = stream_k.pair;
        }
    }
    if (used == 0 && pair[0] == '\0') {
        return false;
    }
    int length = snprintf(out, capacity, "%s%s%s%s", params != NULL ? params : "", chosen, pair[0] != '\0' ? ";" : "", pair);
    return length > 0 && (size_t)length < capacity;
}

void step_fixes_of_collective(const char *fixes, const char *kind, void (*use)(void *context, const char *name), void *context)
{
    char program[STEP_FIX_TEXT_CAPACITY];
    struct item item;
    snprintf(program, sizeof program, "collective/%s", kind);
    for (const char *at = fixes; next_item(&at, &item);) {
        if (is_lever(item.name) && is_of(&item, program)) {
            use(context, item.name);
        }
    }
}

/* Suites whose kernels look rows up; one of theirs that draws no index refuses the parameters, and is then priced without. */
static bool looks_rows_up(const char *suite)
{
    static const char *const suites[] = { "embedding", "scatter", "tbe", "gis" };
    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
        if (strcmp(suites[i], suite) == 0) {
            return true;
        }
    }
    return false;
}

bool step_inputs_of_kernel(const char *inputs, const char *suite, const char *params, char *out, size_t capacity)
{
    if (inputs == NULL || inputs[0] == '\0' || !looks_rows_up(suite) ||
        (params != NULL && (strstr(params, "generator=") != NULL || strstr(params, "alpha=") != NULL ||
                            strstr(params, "hot_share=") != NULL || strstr(params, "index_file=") != NULL))) {
        return false;
    }
    int length = snprintf(out, capacity, "%s%s%s", params != NULL ? params : "", params != NULL && params[0] != '\0' ? ";" : "",
                          inputs);
    return length > 0 && (size_t)length < capacity;
}
