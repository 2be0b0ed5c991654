#include "sim/step/rechoose.h"
#include <stdio.h>
#include <string.h>

/* The program that takes a library's choices, and the one that makes them. */
static const struct {
    const char *suite, *traced, *chooses, *chooses_batched;
    const char *choices[16]; /* keys that go */
    const char *batch, *batch_out;
} program = {
    "gemm",
    "tile",
    "mm",
    "bmm",
    { "tile_m", "tile_n", "tile_k", "stages", "split_k", "cluster_m", "cluster_n", "workgroups", "style",
      "register_rate" },
    "batch",
    "b",
};

static bool is_key(const char *pair, size_t length, const char *key)
{
    size_t key_length = strlen(key);
    return length > key_length && strncmp(pair, key, key_length) == 0 && pair[key_length] == '=';
}

static bool is_choice(const char *const *choices, const char *pair, size_t length)
{
    for (size_t i = 0; choices[i] != NULL; i++) {
        if (is_key(pair, length, choices[i])) {
            return true;
        }
    }
    return false;
}

bool rechoose(const char *suite, const char *kernel, const char *params, const char **kernel_out,
              char params_out[RECHOOSE_PARAMS_CAPACITY])
{
    if (strcmp(suite, program.suite) != 0 || strcmp(kernel, program.traced) != 0 || params == NULL) {
        return false;
    }
    size_t used = 0;
    *kernel_out = program.chooses;
    for (const char *at = params; *at != '\0';) {
        size_t length = strcspn(at, ";"), skip = 0;
        if (!is_choice(program.choices, at, length)) {
            const char *prefix = "";
            if (is_key(at, length, program.batch)) {
                *kernel_out = program.chooses_batched;
                prefix = program.batch_out;
                skip = strlen(program.batch);
            }
            int wrote = snprintf(params_out + used, RECHOOSE_PARAMS_CAPACITY - used, "%s%s%.*s",
                                 used > 0 ? ";" : "", prefix, (int)(length - skip), at + skip);
            used += (size_t)wrote;
            if (used >= RECHOOSE_PARAMS_CAPACITY) {
                return false;
            }
        }
        at += length + (at[length] == ';' ? 1 : 0);
    }
    return true;
}
