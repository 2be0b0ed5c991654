#include "sim/step/params_text.h"
#include "sim/core/status.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The pair behind the one at `at`, or the text's end. */
static const char *next_pair(const char *at)
{
    at += strcspn(at, ";");
    return at + (*at == ';');
}

/* Does the text give the key of the pair that `pair` begins with? */
static bool has_key(const char *params, const char *pair)
{
    size_t length = strcspn(pair, "=");
    for (const char *at = params; *at != '\0'; at = next_pair(at)) {
        if (strncmp(at, pair, length + 1) == 0) {
            return true;
        }
    }
    return false;
}

char *params_with_defaults(const char *params, const char *defaults)
{
    const char *given = params != NULL ? params : "";
    size_t capacity = strlen(given) + strlen(defaults) + 2;
    char *all = malloc(capacity);
    SIM_ASSERT(all != NULL, "no memory for %zu bytes of parameters", capacity);
    size_t used = (size_t)snprintf(all, capacity, "%s", given);
    for (const char *at = defaults; *at != '\0'; at = next_pair(at)) {
        int length = (int)strcspn(at, ";");
        if (length > 0 && !has_key(given, at)) {
            used += (size_t)snprintf(all + used, capacity - used, "%s%.*s", used > 0 ? ";" : "", length, at);
        }
    }
    return all;
}
