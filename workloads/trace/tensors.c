/* Operator arguments as the profiler writes them: "Input Dims" [[8192,128],[],[[4,2],[4]]], "Input type"
 * ["float","Scalar","TensorList"], "Input Strides" like the dims, "Concrete Inputs" ["","0",""]. One entry an argument;
 * a list argument has one entry more of nesting; long lists are cut to [] by the profiler. */
#include "workloads/trace/trace_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 64
#define TENSORS_MAX 4096

struct type_name {
    const char *type, *dtype;
    uint32_t bytes;
};

static const struct type_name type_names[] = {
    { "float", "fp32", 4 },
    { "c10::BFloat16", "bf16", 2 },
    { "c10::Half", "fp16", 2 },
    { "double", "fp64", 8 },
    { "long int", "int64", 8 },
    { "long", "int64", 8 },
    { "int", "int32", 4 },
    { "short", "int16", 2 },
    { "signed char", "int8", 1 },
    { "unsigned char", "uint8", 1 },
    { "bool", "bool", 1 },
    { "c10::Float8_e4m3fn", "fp8", 1 },
    { "c10::Float8_e5m2", "fp8", 1 },
    { "c10::Float8_e4m3fnuz", "fp8", 1 },
    { "c10::Float8_e5m2fnuz", "fp8", 1 },
    { "c10::complex<float>", "c64", 8 },
    { "c10::complex<double>", "c128", 16 },
};

static const struct type_name *type_of(const char *type, size_t length)
{
    for (size_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++) {
        if (strlen(type_names[i].type) == length && memcmp(type_names[i].type, type, length) == 0) {
            return &type_names[i];
        }
    }
    return NULL;
}

/* ---- the text -------------------------------------------------------------------------------------------------- */

struct slice {
    const char *text;
    size_t length;
};

/* The end of the value at `at`: a bracket with all it holds, a string with its quotes, or a bare word. */
static const char *value_end(const char *at)
{
    size_t depth = 0;
    bool quoted = false;
    for (; *at != '\0'; at++) {
        if (quoted) {
            if (*at == '\\' && at[1] != '\0') {
                at++;
            } else if (*at == '"') {
                quoted = false;
            }
        } else if (*at == '"') {
            quoted = true;
        } else if (*at == '[' || *at == '{') {
            depth++;
        } else if (*at == ']' || *at == '}') {
            if (depth == 0) {
                return at;
            }
            depth--;
        } else if (*at == ',' && depth == 0) {
            return at;
        }
    }
    return at;
}

/* Split "[a,b,c]" into at most `capacity` values; returns how many it has. 0 for anything that is no list. */
static size_t split(struct slice list, struct slice *values, size_t capacity)
{
    if (list.text == NULL || list.length < 2 || list.text[0] != '[') {
        return 0;
    }
    const char *at = list.text + 1, *stop = list.text + list.length - 1;
    size_t count = 0;
    while (at < stop) {
        const char *end = value_end(at);
        end = end > stop ? stop : end;
        if (count < capacity) {
            values[count] = (struct slice){ at, (size_t)(end - at) };
        }
        count++;
        at = end + 1;
    }
    return count < capacity ? count : capacity;
}

static struct slice whole(const char *text)
{
    return (struct slice){ text, text == NULL ? 0 : strlen(text) };
}

static struct slice unquoted(struct slice value)
{
    if (value.length >= 2 && value.text[0] == '"') {
        return (struct slice){ value.text + 1, value.length - 2 };
    }
    return value;
}

/* Integers of "[1,2,3]"; returns how many, or SIZE_MAX when one is none or there are too many. */
static size_t integers(struct slice list, int64_t *values, size_t capacity)
{
    struct slice parts[TENSOR_DIMS_MAX + 1];
    size_t count = split(list, parts, TENSOR_DIMS_MAX + 1);
    if (count > capacity) {
        return SIZE_MAX;
    }
    for (size_t i = 0; i < count; i++) {
        char *end;
        values[i] = strtoll(parts[i].text, &end, 10);
        if (end != parts[i].text + parts[i].length || parts[i].length == 0) {
            return SIZE_MAX;
        }
    }
    return count;
}

bool dims_parse(const char *text, uint64_t *values, size_t count)
{
    int64_t numbers[TENSOR_DIMS_MAX] = { 0 };
    if (text == NULL || integers(whole(text), numbers, TENSOR_DIMS_MAX) != count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = numbers[i] < 0 ? 0 : (uint64_t)numbers[i];
    }
    return true;
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

struct builder {
    struct operator_tensors out;
    struct trace_argument arguments[ARGUMENTS_MAX];
    struct trace_tensor *tensors; /* grows up to TENSORS_MAX */
    size_t capacity;
};

static void add_tensor(struct builder *b, size_t argument, size_t element, struct slice dims,
                       struct slice strides, const struct type_name *type)
{
    struct trace_tensor tensor = { .argument = (uint32_t)argument, .element = (uint32_t)element };
    size_t count = integers(dims, tensor.dims, TENSOR_DIMS_MAX);
    if (count == SIZE_MAX || b->out.tensor_count == TENSORS_MAX) {
        return;
    }
    tensor.dim_count = (uint32_t)count;
    tensor.has_strides = integers(strides, tensor.strides, TENSOR_DIMS_MAX) == count;
    if (type != NULL) {
        snprintf(tensor.dtype, sizeof tensor.dtype, "%s", type->dtype);
        tensor.element_bytes = type->bytes;
    }
    if (b->out.tensor_count == b->capacity) {
        b->capacity = b->capacity == 0 ? 16 : 2 * b->capacity;
        b->tensors = realloc(b->tensors, b->capacity * sizeof *b->tensors);
        SIM_ASSERT(b->tensors != NULL, "out of memory");
    }
    b->tensors[b->out.tensor_count++] = tensor;
}

static bool is_nested(struct slice list)
{
    return list.length >= 2 && list.text[0] == '[' && list.text[1] == '[';
}

static void add_list(struct builder *b, size_t argument, struct slice dims, struct slice strides,
                     const struct type_name *type)
{
    size_t room = dims.length / 2 + 1 < TENSORS_MAX ? dims.length / 2 + 1 : TENSORS_MAX; /* "[],": a list of n is longer */
    struct slice *d = malloc(2 * room * sizeof *d), *s = d + room;
    SIM_ASSERT(d != NULL, "out of memory");
    size_t count = split(dims, d, room), stride_count = split(strides, s, room);
    for (size_t i = 0; i < count; i++) {
        add_tensor(b, argument, i, d[i], i < stride_count ? s[i] : (struct slice){ NULL, 0 }, type);
    }
    free(d);
}

static void add_argument(struct builder *b, size_t argument, struct slice dims, struct slice strides,
                         struct slice type, bool has_types)
{
    struct trace_argument *out = &b->arguments[argument];
    *out = (struct trace_argument){ .first = (uint32_t)b->out.tensor_count };
    type = unquoted(type);
    const struct type_name *known = type_of(type.text, type.length);
    if (is_nested(dims) || (type.length >= 10 && strncmp(type.text, "TensorList", 10) == 0)) {
        out->is_list = true;
        if (is_nested(dims)) {
            /* "TensorList(float)" is ours, from an execution trace; the profiler does not say of what */
            const char *inside = type.length > 12 && type.text[10] == '(' ? type.text + 11 : NULL;
            add_list(b, argument, dims, strides, inside == NULL ? NULL : type_of(inside, type.length - 12));
        }
    } else if (known != NULL || (!has_types && dims.length > 2)) {
        add_tensor(b, argument, 0, dims, strides, known);
        out->is_tensor = b->out.tensor_count > out->first;
    }
    out->count = (uint32_t)b->out.tensor_count - out->first;
}

static void *copy(struct arena *arena, const void *items, size_t bytes)
{
    void *memory = arena_alloc(arena, bytes);
    if (bytes > 0) {
        memcpy(memory, items, bytes);
    }
    return memory;
}

const struct operator_tensors *operator_tensors_parse(struct arena *arena,
                                                      const struct trace_operator_args *args)
{
    static const struct trace_operator_args nothing;
    args = args == NULL ? &nothing : args;
    if (args->dims == NULL && args->concrete == NULL) {
        return arena_alloc(arena, sizeof(struct operator_tensors));
    }
    struct builder *b = calloc(1, sizeof *b);
    SIM_ASSERT(b != NULL, "out of memory");
    struct slice dims[ARGUMENTS_MAX], types[ARGUMENTS_MAX], strides[ARGUMENTS_MAX], concrete[ARGUMENTS_MAX];
    size_t dim_count = split(whole(args->dims), dims, ARGUMENTS_MAX);
    size_t type_count = split(whole(args->types), types, ARGUMENTS_MAX);
    size_t stride_count = split(whole(args->strides), strides, ARGUMENTS_MAX);
    b->out.concrete_count = split(whole(args->concrete), concrete, ARGUMENTS_MAX);
    for (size_t i = 0; i < dim_count; i++) {
        static const struct slice none = { "", 0 };
        add_argument(b, i, dims[i], i < stride_count ? strides[i] : none, i < type_count ? types[i] : none,
                     type_count > 0);
    }
    b->out.argument_count = dim_count;
    struct operator_tensors *out = arena_alloc(arena, sizeof *out);
    *out = b->out;
    out->arguments = copy(arena, b->arguments, dim_count * sizeof b->arguments[0]);
    out->tensors = copy(arena, b->tensors, b->out.tensor_count * sizeof b->tensors[0]);
    free(b->tensors);
    out->concrete = arena_alloc(arena, out->concrete_count * sizeof *out->concrete);
    for (size_t i = 0; i < out->concrete_count; i++) {
        struct slice value = unquoted(concrete[i]);
        out->concrete[i] = arena_intern(arena, value.text, value.length);
    }
    free(b);
    return out;
}

/* ---- arguments of an execution trace ---------------------------------------------------------------------------- */

struct text_out {
    char *bytes;
    size_t length, capacity;
};

static void put(struct text_out *out, const char *bytes, size_t length)
{
    if (out->length + length > out->capacity) {
        out->capacity = 2 * (out->length + length) + 256;
        out->bytes = realloc(out->bytes, out->capacity);
        SIM_ASSERT(out->bytes != NULL, "out of memory");
    }
    memcpy(out->bytes + out->length, bytes, length);
    out->length += length;
}

static void put_text(struct text_out *out, const char *text)
{
    put(out, text, strlen(text));
}

/* Without blanks outside of quotes; single quotes, which some writers use, become double. */
static char *normalised(const char *text)
{
    char *copy = strdup(text == NULL ? "" : text), *to = copy, quote = 0;
    SIM_ASSERT(copy != NULL, "out of memory");
    for (const char *at = copy; *at != '\0'; at++) {
        if (quote == 0 && (*at == ' ' || *at == '\n' || *at == '\t')) {
            continue;
        }
        if (quote == 0 && (*at == '"' || *at == '\'')) {
            quote = *at;
            *to++ = '"';
        } else if (*at == quote) {
            quote = 0;
            *to++ = '"';
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
    return copy;
}

/* "Tensor(float)" -> float; lists of tensors -> TensorList; the rest is no tensor. */
static bool put_type(struct text_out *out, struct slice type)
{
    bool tensor = type.length > 8 && strncmp(type.text, "Tensor(", 7) == 0;
    bool list = type.length > 19 && strncmp(type.text, "GenericList[Tensor(", 19) == 0;
    put_text(out, "\"");
    if (tensor && strncmp(type.text + 7, "nullptr", 7) != 0) {
        put(out, type.text + 7, type.length - 8);
    } else if (list) {
        put_text(out, "TensorList");
        const char *end = memchr(type.text + 19, ')', type.length - 19);
        put(out, "(", 1);
        put(out, type.text + 19, end == NULL ? 0 : (size_t)(end - type.text - 19));
        put(out, ")", 1);
    } else {
        put_text(out, tensor ? "" : "Scalar");
    }
    put_text(out, "\"");
    return (tensor && strncmp(type.text + 7, "nullptr", 7) != 0) || list;
}

static void put_concrete(struct text_out *out, struct slice value, bool tensor)
{
    put_text(out, "\"");
    struct slice bare = unquoted(value);
    for (size_t i = 0; !tensor && i < bare.length; i++) {
        if (bare.text[i] != '"' && bare.text[i] != '\\') {
            put(out, bare.text + i, 1);
        }
        if (bare.text[i] == ',' && bare.text[0] == '[') {
            put_text(out, " "); /* as the profiler writes lists */
        }
    }
    put_text(out, "\"");
}

const struct trace_operator_args *operator_args_from_lists(struct arena *arena, const char *values, const char *shapes,
                                                           const char *types, const char *strides)
{
    char *texts[4] = { normalised(values), normalised(shapes), normalised(types), normalised(strides) };
    struct slice lists[4][ARGUMENTS_MAX];
    size_t counts[4];
    for (size_t k = 0; k < 4; k++) {
        counts[k] = split(whole(texts[k]), lists[k], ARGUMENTS_MAX);
    }
    struct trace_operator_args *args = arena_alloc(arena, sizeof *args);
    struct text_out out[4] = { { 0 } }; /* dims, types, strides, concrete */
    for (size_t i = 0; i < counts[1]; i++) {
        for (size_t k = 0; k < 4; k++) {
            put_text(&out[k], i == 0 ? "[" : ",");
        }
        bool tensor = put_type(&out[1], i < counts[2] ? unquoted(lists[2][i]) : (struct slice){ "", 0 });
        bool strided = tensor && i < counts[3];
        put(&out[0], tensor ? lists[1][i].text : "[]", tensor ? lists[1][i].length : 2);
        put(&out[2], strided ? lists[3][i].text : "[]", strided ? lists[3][i].length : 2);
        put_concrete(&out[3], i < counts[0] ? lists[0][i] : (struct slice){ "", 0 }, tensor);
    }
    const char **fields[4] = { &args->dims, &args->types, &args->strides, &args->concrete };
    for (size_t k = 0; k < 4; k++) {
        put_text(&out[k], counts[1] == 0 ? "[]" : "]");
        bool given = k != 2 || counts[3] > 0;
        *fields[k] = given ? arena_intern(arena, out[k].bytes, out[k].length) : NULL;
        free(out[k].bytes);
        free(texts[k]);
    }
    return args;
}

double tensor_elements(const struct trace_tensor *tensor)
{
    double elements = 1;
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        elements *= (double)tensor->dims[i];
    }
    return elements;
}

double tensor_bytes(const struct trace_tensor *tensor)
{
    double elements = 1;
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        elements *= tensor->has_strides && tensor->strides[i] == 0 ? 1 : (double)tensor->dims[i];
    }
    return elements * tensor->element_bytes;
}

const struct trace_tensor *operator_tensor(const struct operator_tensors *tensors, size_t argument)
{
    if (argument >= tensors->argument_count || !tensors->arguments[argument].is_tensor) {
        return NULL;
    }
    return &tensors->tensors[tensors->arguments[argument].first];
}

const char *operator_concrete(const struct operator_tensors *tensors, size_t argument)
{
    return argument < tensors->concrete_count ? tensors->concrete[argument] : "";
}
