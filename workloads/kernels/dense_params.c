/* Parameters that the dense kernels read in the same way. */
#include "workloads/kernels/dense_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The value of `key` in the canonical text "k=v;k=v", up to its ';'. */
static const char *value_of(const struct kernel_build *build, const char *key, size_t *length)
{
    size_t key_length = strlen(key);
    for (const char *pair = kernel_params_text(build->params); *pair != '\0';) {
        const char *end = strchrnul(pair, ';');
        if (strncmp(pair, key, key_length) == 0 && pair[key_length] == '=') {
            *length = (size_t)(end - pair) - key_length - 1;
            return pair + key_length + 1;
        }
        pair = *end == ';' ? end + 1 : end;
    }
    *length = 0;
    return "";
}

uint32_t dense_param_list(struct kernel_build *build, const char *key, uint64_t min, uint64_t max,
                          uint64_t *values, uint32_t capacity, bool optional)
{
    if (!kernel_param_given(build, key)) {
        if (!optional) {
            kernel_fail(build, SIM_BAD_ARGUMENT,
                        "parameter '%s' is missing (valid: numbers from %llu to %llu with ':' between)", key,
                        (unsigned long long)min, (unsigned long long)max);
        }
        return 0;
    }
    size_t length;
    const char *text = value_of(build, key, &length), *end = text + length;
    for (uint32_t count = 0; count < capacity;) {
        char *after = NULL;
        errno = 0;
        double value = strtod(text, &after);
        if (after == text || after > end || !(value >= (double)min && value <= (double)max) ||
            value != (double)(uint64_t)value) {
            break;
        }
        values[count++] = (uint64_t)value;
        if (after == end) {
            return count;
        }
        if (*after != ':') {
            break;
        }
        text = after + 1;
    }
    text = value_of(build, key, &length);
    kernel_fail(
        build, SIM_BAD_ARGUMENT,
        "parameter %s=%.*s is not valid: must be at most %u whole numbers from %llu to %llu with ':' between",
        key, (int)length, text, capacity, (unsigned long long)min, (unsigned long long)max);
    return 0;
}

static int cache_choice(struct kernel_build *build)
{
    return kernel_param_choice_or(build, "cache", "flushed|own|clean|produced", 0, NULL);
}

void dense_cache_param(struct kernel_build *build)
{
    cache_choice(build);
}

void dense_cache_apply(struct kernel_build *build, struct wave_program *program)
{
    static const enum wave_initial_cache states[] = { WAVE_CACHE_STATE_FLUSHED, WAVE_CACHE_STATE_OWN,
                                                      WAVE_CACHE_STATE_CLEAN, WAVE_CACHE_STATE_PREDECESSOR };
    program->initial_cache = states[cache_choice(build)];
    if (program->initial_cache == WAVE_CACHE_STATE_PREDECESSOR) {
        program->predecessor.address = kernel_tensor_address(0);
        program->predecessor_bytes = (uint64_t)kernel_program_tensor_at(program, 0).bytes;
        program->predecessor.bytes = (uint32_t)program->predecessor_bytes;
    }
}

uint32_t dense_param_bytes(struct kernel_build *build, const char *key, int fallback)
{
    static const uint32_t bytes[] = { 4, 2, 2, 4, 2, 2, 1, 1, 4, 8, 8, 1 };
    return bytes[fallback < 0 ? kernel_param_choice(build, key, DENSE_DTYPES)
                              : kernel_param_choice_or(build, key, DENSE_DTYPES, fallback, NULL)];
}
