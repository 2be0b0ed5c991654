/* The recogniser: rules family by family, then bytes of the operator's tensors, then the traced time. */
#include "workloads/trace/recognise_internal.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sparse before pointwise: an index kernel is often an elementwise_kernel instance. */
static const struct recogniser_rule *const families[] = {
    recogniser_table_rules, recogniser_gemm_rules,   recogniser_attention_rules, recogniser_norm_rules,
    recogniser_sort_rules,  recogniser_sparse_rules, recogniser_pointwise_rules, recogniser_memory_rules,
};

/* ---- writing the result ---------------------------------------------------------------------------------------- */

void recognised_as(struct recogniser *r, const char *suite, const char *kernel)
{
    r->out->how = GRAPH_RECOGNISED;
    snprintf(r->out->suite, sizeof r->out->suite, "%s", suite);
    snprintf(r->out->kernel, sizeof r->out->kernel, "%s", kernel);
    r->params_used = 0;
    r->out->params[0] = '\0';
}

/* A parameter list that would not fit makes the kernel unrecognised: half a list is a wrong one. */
static void append(struct recogniser *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(struct recogniser *r, const char *format, ...)
{
    size_t room = sizeof r->out->params - r->params_used;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(r->out->params + r->params_used, room, format, arguments);
    va_end(arguments);
    if ((size_t)length >= room) {
        r->out->how = GRAPH_REPLAYED;
        r->params_used = 0;
        return;
    }
    r->params_used += (size_t)length;
}

static const char *separator(const struct recogniser *r)
{
    return r->params_used > 0 ? ";" : "";
}

void param_text(struct recogniser *r, const char *key, const char *value)
{
    append(r, "%s%s=%s", separator(r), key, value);
}

static void append_number(struct recogniser *r, double value)
{
    if (value == floor(value) && fabs(value) < 1e15) {
        append(r, "%.0f", value);
    } else {
        append(r, "%.9g", value);
    }
}

void param_number(struct recogniser *r, const char *key, double value)
{
    append(r, "%s%s=", separator(r), key);
    append_number(r, value);
}

void param_list(struct recogniser *r, const char *key, const double *values, size_t count)
{
    append(r, "%s%s=", separator(r), key);
    for (size_t i = 0; i < count; i++) {
        append(r, "%s", i > 0 ? ":" : "");
        append_number(r, values[i]);
    }
}

void param_in_step_cache(struct recogniser *r)
{
    param_text(r, "cache", "produced");
}

void result_bytes(struct recogniser *r, double read, double written, double flops)
{
    r->out->bytes_read = read;
    r->out->bytes_written = written;
    r->out->flops = flops;
}

void result_dtype(struct recogniser *r, const char *dtype)
{
    snprintf(r->out->dtype, sizeof r->out->dtype, "%s", dtype);
}

/* ---- reading the site ------------------------------------------------------------------------------------------ */

const char *innermost_operator(const struct recogniser *r)
{
    return r->site->operator_count > 0 ? r->site->operators[0].name : "";
}

bool under_operator(const struct recogniser *r, const char *part)
{
    for (size_t i = 0; i < r->site->operator_count; i++) {
        if (strstr(r->site->operators[i].name, part) != NULL) {
            return true;
        }
    }
    return false;
}

const struct operator_tensors *tensors_of_operator(const struct recogniser *r, const char *part)
{
    for (size_t i = 0; i < r->site->operator_count; i++) {
        if (strstr(r->site->operators[i].name, part) != NULL) {
            return operator_tensors_parse(r->arena, r->site->operators[i].args);
        }
    }
    return NULL;
}

const struct trace_tensor *tensor_at(const struct recogniser *r, size_t argument)
{
    return operator_tensor(r->tensors, argument);
}

double workgroups_of(const struct kernel_site *site)
{
    return (double)site->grid[0] * (double)site->grid[1] * (double)site->grid[2];
}

size_t template_numbers(const char *name, const char *after, double *values, size_t capacity)
{
    const char *at = strstr(name, after);
    size_t count = 0;
    if (at == NULL) {
        return 0;
    }
    at += strlen(after);
    for (int depth = *at == '<' ? 1 : 0; depth > 0 && count < capacity && *++at != '\0';) {
        depth += (*at == '<') - (*at == '>');
        bool starts = depth == 1 && *at >= '0' && *at <= '9' && strchr("<, ", at[-1]) != NULL;
        if (starts) {
            char *end;
            values[count] = strtod(at, &end);
            count += strchr(",>u", *end) != NULL; /* 32u and the like count, names with digits do not */
            at = end - 1;
        }
    }
    return count;
}

size_t concrete_list(const char *text, int64_t *values, size_t capacity)
{
    size_t count = 0;
    if (text[0] != '[') {
        return SIZE_MAX;
    }
    for (const char *at = text + 1; *at != '\0' && *at != ']';) {
        char *end;
        long long value = strtoll(at, &end, 10);
        if (end == at || count == capacity) {
            return SIZE_MAX;
        }
        values[count++] = value;
        at = end + strspn(end, ", ");
    }
    return count;
}

const char *dtype_of_bytes(uint32_t bytes)
{
    switch (bytes) {
    case 1: return "int8";
    case 2: return "bf16";
    case 8: return "int64";
    default: return "fp32";
    }
}

/* ---- what no rule fits ----------------------------------------------------------------------------------------- */

/* Of the innermost operator that names tensors: all are read; the largest is taken to be written once more, as the result
 * is not among the arguments. In-place operators write their first. */
static bool by_bytes(struct recogniser *r)
{
    const struct kernel_site *site = r->site;
    if (site->bytes > 0) {
        result_bytes(r, site->category == TRACE_MEMCPY ? site->bytes : 0, site->bytes, 0);
        return true;
    }
    for (size_t i = 0; i < site->operator_count; i++) {
        const struct operator_tensors *tensors = i == 0 ? r->tensors
                                                        : operator_tensors_parse(r->arena,
                                                                                 site->operators[i].args);
        double read = 0, largest = 0;
        for (size_t k = 0; k < tensors->tensor_count; k++) {
            double bytes = tensor_bytes(&tensors->tensors[k]);
            read += bytes;
            if (bytes > largest) {
                largest = bytes;
                result_dtype(r, tensors->tensors[k].dtype);
            }
        }
        if (largest > 0) {
            result_bytes(r, read, largest, 0);
            return true;
        }
    }
    return false;
}

static bool fits(const struct recogniser *r, const struct recogniser_rule *rule)
{
    return strstr(r->site->name, rule->kernel) != NULL &&
           (rule->operator_name == NULL || strstr(innermost_operator(r), rule->operator_name) != NULL);
}

void kernel_recognise(const struct kernel_site *site, struct arena *arena, struct kernel_recognition *out)
{
    memset(out, 0, sizeof *out);
    out->how = GRAPH_REPLAYED;
    struct recogniser r = { .site = site, .arena = arena, .out = out };
    r.tensors = operator_tensors_parse(arena, site->operator_count > 0 ? site->operators[0].args : NULL);
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        for (const struct recogniser_rule *rule = families[f]; rule->kernel != NULL; rule++) {
            if (!fits(&r, rule)) {
                continue;
            }
            out->category = out->category == NULL ? rule->category : out->category;
            if (rule->build != NULL && rule->build(&r) && out->how == GRAPH_RECOGNISED) {
                out->category = rule->category;
                return;
            }
            out->how = GRAPH_REPLAYED;
            out->assumption = NULL;
        }
    }
    out->category = out->category == NULL ? "other" : out->category;
    out->suite[0] = out->kernel[0] = out->params[0] = '\0';
    bool known = out->bytes_read + out->bytes_written + out->flops > 0; /* a builder got that far */
    out->how = known || by_bytes(&r) ? GRAPH_BY_BYTES : GRAPH_REPLAYED;
}
