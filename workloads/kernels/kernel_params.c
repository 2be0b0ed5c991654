#include "workloads/kernels/kernels_internal.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys and values are slices of their own heap strings; `text` is the canonical form, rebuilt on every add. */
struct kernel_pair {
    char *key, *value;
};

struct kernel_params {
    size_t count, capacity;
    struct kernel_pair *pairs;
    char *text;
};

static void *checked(void *memory)
{
    SIM_ASSERT(memory != NULL, "kernel parameters: out of memory");
    return memory;
}

static const char *params_find(const struct kernel_params *params, const char *key)
{
    for (size_t i = 0; params != NULL && i < params->count; i++) {
        if (strcmp(params->pairs[i].key, key) == 0) {
            return params->pairs[i].value;
        }
    }
    return NULL;
}

static char *trimmed(const char *start, const char *end)
{
    while (start < end && isspace((unsigned char)*start)) {
        start++;
    }
    while (end > start && isspace((unsigned char)end[-1])) {
        end--;
    }
    return checked(strndup(start, (size_t)(end - start)));
}

static void params_retext(struct kernel_params *params)
{
    size_t bytes = 1;
    for (size_t i = 0; i < params->count; i++) {
        bytes += strlen(params->pairs[i].key) + strlen(params->pairs[i].value) + 2;
    }
    params->text = checked(realloc(params->text, bytes));
    char *end = params->text;
    *end = '\0';
    for (size_t i = 0; i < params->count; i++) {
        end += sprintf(end, "%s%s=%s", i == 0 ? "" : ";", params->pairs[i].key, params->pairs[i].value);
    }
}

static struct kernel_params *params_create(void)
{
    struct kernel_params *params = checked(calloc(1, sizeof *params));
    params_retext(params);
    return params;
}

static enum sim_status params_add_slice(struct kernel_params *params, const char *start, const char *end,
                                        struct sim_error *error)
{
    const char *equals = memchr(start, '=', (size_t)(end - start));
    if (equals == NULL) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "kernel parameter '%.*s' has no '=': write key=value",
                        (int)(end - start), start);
    }
    struct kernel_pair pair = { trimmed(start, equals), trimmed(equals + 1, end) };
    enum sim_status status = SIM_OK;
    if (pair.key[0] == '\0') {
        status = sim_fail(error, SIM_BAD_ARGUMENT, "kernel parameter '%.*s' has no key: write key=value",
                          (int)(end - start), start);
    } else if (params_find(params, pair.key) != NULL) {
        status = sim_fail(error, SIM_BAD_ARGUMENT, "kernel parameter '%s' is given twice (%s and %s): give it once",
                          pair.key, params_find(params, pair.key), pair.value);
    }
    if (status != SIM_OK) {
        free(pair.key);
        free(pair.value);
        return status;
    }
    if (params->count == params->capacity) {
        params->capacity = params->capacity == 0 ? 8 : 2 * params->capacity;
        params->pairs = checked(realloc(params->pairs, params->capacity * sizeof *params->pairs));
    }
    params->pairs[params->count++] = pair;
    params_retext(params);
    return SIM_OK;
}

enum sim_status kernel_params_parse(const char *text, struct kernel_params **out, struct sim_error *error)
{
    struct kernel_params *params = params_create();
    const char *start = text == NULL ? "" : text;
    while (*start != '\0') {
        const char *end = strchrnul(start, ';');
        enum sim_status status = params_add_slice(params, start, end, error);
        if (status != SIM_OK) {
            kernel_params_destroy(params);
            *out = NULL;
            return status;
        }
        start = *end == ';' ? end + 1 : end;
    }
    *out = params;
    return SIM_OK;
}

enum sim_status kernel_params_add(struct kernel_params *params, const char *pair, struct sim_error *error)
{
    if (strchr(pair, ';') != NULL) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "kernel parameter '%s' holds a ';': give one key=value at a time",
                        pair);
    }
    return params_add_slice(params, pair, pair + strlen(pair), error);
}

void kernel_params_destroy(struct kernel_params *params)
{
    if (params == NULL) {
        return;
    }
    for (size_t i = 0; i < params->count; i++) {
        free(params->pairs[i].key);
        free(params->pairs[i].value);
    }
    free(params->pairs);
    free(params->text);
    free(params);
}

const char *kernel_params_text(const struct kernel_params *params)
{
    return params->text;
}

/* ---- what a build function reads ---- */

static void build_error(struct kernel_build *build, enum sim_status status, const char *format, va_list arguments)
{
    if (build->status != SIM_OK) {
        return;
    }
    char text[SIM_ERROR_TEXT_CAPACITY];
    vsnprintf(text, sizeof text, format, arguments);
    build->status = sim_fail(build->error, status, "%s/%s: %s", build->definition->suite, build->definition->kernel,
                             text);
}

void kernel_fail(struct kernel_build *build, enum sim_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    build_error(build, status, format, arguments);
    va_end(arguments);
}

bool kernel_build_ok(const struct kernel_build *build)
{
    return build->status == SIM_OK;
}

/* The value of `key`, NULL when absent; remembers that the key is valid. */
static const char *ask(struct kernel_build *build, const char *key)
{
    for (size_t i = 0; i < build->asked_count; i++) {
        if (strcmp(build->asked[i], key) == 0) {
            return params_find(build->params, key);
        }
    }
    SIM_ASSERT(build->asked_count < sizeof build->asked / sizeof build->asked[0], "%s/%s reads too many parameters",
               build->definition->suite, build->definition->kernel);
    SIM_ASSERT(!build->done, "%s/%s reads '%s' after kernel_params_done", build->definition->suite,
               build->definition->kernel, key);
    build->asked[build->asked_count++] = key;
    return params_find(build->params, key);
}

static const char *ask_required(struct kernel_build *build, const char *key, const char *valid)
{
    const char *value = ask(build, key);
    if (value == NULL) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter '%s' is missing (valid: %s)", key, valid);
    }
    return value;
}

bool kernel_param_given(struct kernel_build *build, const char *key)
{
    return ask(build, key) != NULL;
}

const char *kernel_param_peek(const struct kernel_build *build, const char *key)
{
    return params_find(build->params, key);
}

const char *kernel_param_text_or(struct kernel_build *build, const char *key, const char *value)
{
    const char *text = ask(build, key);
    return text != NULL ? text : value;
}

/* Numbers in messages as a person writes them: no exponent below a million of millions. */
static const char *number_text(double value, char text[32])
{
    snprintf(text, 32, fabs(value) < 1e15 && value == floor(value) ? "%.0f" : "%.6g", value);
    return text;
}

static const char *range_text(double min, double max, char text[80])
{
    char low[32], high[32];
    snprintf(text, 80, "%s to %s", number_text(min, low), number_text(max, high));
    return text;
}

/* False (and an error) unless `text` is a finite number in [min, max], and a whole one if `whole`. */
static bool parse_number(struct kernel_build *build, const char *key, const char *text, double min, double max,
                         bool whole, double *number)
{
    char *end = NULL, range[80];
    double value = strtod(text, &end);
    bool usable = end != text && *end == '\0' && isfinite(value) && value >= min && value <= max &&
                  (!whole || value == floor(value));
    if (!usable) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter %s=%s is not valid: must be a %snumber from %s", key, text,
                    whole ? "whole " : "", range_text(min, max, range));
        return false;
    }
    *number = value;
    return true;
}

static double read_number(struct kernel_build *build, const char *key, const char *text, double min, double max,
                          bool whole)
{
    double value = min;
    if (text != NULL) {
        parse_number(build, key, text, min, max, whole, &value);
    }
    return value;
}

uint64_t kernel_param_integer(struct kernel_build *build, const char *key, uint64_t min, uint64_t max)
{
    char range[80];
    const char *text = ask_required(build, key, range_text((double)min, (double)max, range));
    return (uint64_t)read_number(build, key, text, (double)min, (double)max, true);
}

double kernel_param_real(struct kernel_build *build, const char *key, double min, double max)
{
    char range[80];
    return read_number(build, key, ask_required(build, key, range_text(min, max, range)), min, max, false);
}

/* Index of `text` in "a|b|c", or -1. */
static int choice_index(const char *choices, const char *text)
{
    int index = 0;
    for (const char *start = choices;; index++) {
        const char *end = strchrnul(start, '|');
        if (strlen(text) == (size_t)(end - start) && strncmp(start, text, (size_t)(end - start)) == 0) {
            return index;
        }
        if (*end == '\0') {
            return -1;
        }
        start = end + 1;
    }
}

static const char *choice_text(const char *choices, int index, char text[32])
{
    const char *start = choices;
    for (int i = 0; i < index; i++) {
        start = strchrnul(start, '|') + 1;
    }
    snprintf(text, 32, "%.*s", (int)(strchrnul(start, '|') - start), start);
    return text;
}

static int read_choice(struct kernel_build *build, const char *key, const char *choices, const char *text)
{
    int index = choice_index(choices, text);
    if (index < 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter %s=%s is not valid: must be one of %s", key, text, choices);
        return 0;
    }
    return index;
}

int kernel_param_choice(struct kernel_build *build, const char *key, const char *choices)
{
    const char *text = ask_required(build, key, choices);
    return text == NULL ? 0 : read_choice(build, key, choices, text);
}

static void assume_value(struct kernel_build *build, const char *key, const char *value, const char *range,
                         const char *why)
{
    if (why != NULL) {
        kernel_assume(build, "%s = %s (range %s): %s", key, value, range, why);
    }
}

uint64_t kernel_param_integer_or(struct kernel_build *build, const char *key, uint64_t min, uint64_t max,
                                 uint64_t value, const char *why)
{
    const char *text = ask(build, key);
    if (text != NULL) {
        return (uint64_t)read_number(build, key, text, (double)min, (double)max, true);
    }
    char number[32], range[80];
    assume_value(build, key, number_text((double)value, number), range_text((double)min, (double)max, range), why);
    return value;
}

double kernel_param_real_or(struct kernel_build *build, const char *key, double min, double max, double value,
                            const char *why)
{
    const char *text = ask(build, key);
    if (text != NULL) {
        return read_number(build, key, text, min, max, false);
    }
    char number[32], range[80];
    assume_value(build, key, number_text(value, number), range_text(min, max, range), why);
    return value;
}

uint64_t kernel_param_unknown(struct kernel_build *build, const char *key, uint64_t min, uint64_t max, struct kernel_unknown unknown)
{
    const char *text = ask(build, key);
    if (text != NULL) {
        return (uint64_t)read_number(build, key, text, (double)min, (double)max, true);
    }
    char number[32], range[80];
    double value = (double)unknown.value, low = (double)unknown.low, high = (double)unknown.high;
    size_t count = build->plan->assumption_count;
    assume_value(build, key, number_text(value, number), range_text(low, high, range), unknown.why);
    if (build->plan->assumption_count > count) {
        struct kernel_assumption *assumption = &build->plan->assumptions[count];
        SIM_ASSERT(low <= value && value <= high && strlen(key) < sizeof assumption->key, "%s = %g of %g to %g", key, value, low, high);
        snprintf(assumption->key, sizeof assumption->key, "%s", key);
        assumption->value = value;
        assumption->low = low;
        assumption->high = high;
    }
    return unknown.value;
}

int kernel_param_choice_or(struct kernel_build *build, const char *key, const char *choices, int index,
                           const char *why)
{
    const char *text = ask(build, key);
    if (text != NULL) {
        return read_choice(build, key, choices, text);
    }
    char name[32];
    assume_value(build, key, choice_text(choices, index, name), choices, why);
    return index;
}

enum kernel_dtype kernel_param_dtype(struct kernel_build *build, const char *key)
{
    return (enum kernel_dtype)(kernel_param_choice(build, key, KERNEL_DTYPE_CHOICES) % 3);
}

uint32_t kernel_dtype_bytes(enum kernel_dtype dtype)
{
    return dtype == KERNEL_FP32 ? 4 : 2;
}

static void list_asked(const struct kernel_build *build, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < build->asked_count && used < capacity; i++) {
        int written = snprintf(text + used, capacity - used, "%s%s", i == 0 ? "" : ", ", build->asked[i]);
        used += written > 0 ? (size_t)written : 0;
    }
}

bool kernel_params_done(struct kernel_build *build)
{
    build->done = true;
    for (size_t i = 0; build->status == SIM_OK && build->params != NULL && i < build->params->count; i++) {
        bool known = false;
        for (size_t j = 0; j < build->asked_count; j++) {
            known = known || strcmp(build->asked[j], build->params->pairs[i].key) == 0;
        }
        if (!known) {
            char valid[512];
            list_asked(build, valid, sizeof valid);
            kernel_fail(build, SIM_BAD_ARGUMENT, "unknown parameter '%s' (valid: %s)", build->params->pairs[i].key,
                        valid);
        }
    }
    return build->status == SIM_OK;
}

void kernel_require_hbm(struct kernel_build *build, double bytes, const char *what)
{
    if (bytes > (double)build->machine->hbm_bytes) {
        kernel_fail(build, SIM_DOES_NOT_FIT, "%s needs %.4g GiB of HBM, the device has %.4g GiB: make it smaller", what,
                    bytes / 0x1p30, (double)build->machine->hbm_bytes / 0x1p30);
    }
}

void kernel_require_lds(struct kernel_build *build, uint64_t bytes)
{
    if (bytes > build->machine->lds_bytes_per_workgroup_max) {
        kernel_fail(build, SIM_DOES_NOT_FIT, "a workgroup asks for %llu B of LDS (shared memory), it can have %u B",
                    (unsigned long long)bytes, build->machine->lds_bytes_per_workgroup_max);
    }
}

void kernel_assume(struct kernel_build *build, const char *format, ...)
{
    struct kernel_plan *plan = build->plan;
    if (build->status != SIM_OK) {
        return;
    }
    SIM_ASSERT(plan->assumption_count < sizeof plan->assumptions / sizeof plan->assumptions[0],
               "%s/%s assumes too much", plan->suite, plan->kernel);
    va_list arguments;
    va_start(arguments, format);
    struct kernel_assumption *assumption = &plan->assumptions[plan->assumption_count++];
    vsnprintf(assumption->text, sizeof assumption->text, format, arguments);
    va_end(arguments);
}
