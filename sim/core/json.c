/* cJSON reads the text; the tree is ours: children in an array (json_at is O(1)) and the line of every value, which
 * cJSON does not keep. A second walk over the text, in step with cJSON's tree, finds the lines and refuses what cJSON
 * lets pass: repeated keys, numbers like 01 or 1e400, control characters, bad UTF-8, an embedded \u0000. */
#include "sim/core/json.h"
#include "sim/core/printable.h"
#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_FILE_BYTES_MAX (256u << 20)
#define JSON_LINE_COLUMNS 110 /* pretty printing keeps a container of scalars on one line up to here */

struct json {
    enum json_kind kind;
    uint32_t line; /* 1-based in the text it was read from; 0: built by us */
    bool boolean;
    double number;
    char *string;        /* JSON_STRING */
    char *key;           /* when the parent is an object */
    struct json **child; /* JSON_ARRAY and JSON_OBJECT, in order */
    size_t count, capacity;
};

/* ---- memory: a document is small, so running out is a bug of the machine, not a case to handle */

static void *json_allocate(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);
    SIM_ASSERT(memory != NULL, "no memory for %zu bytes of JSON", size_bytes);
    return memory;
}

static char *json_copy_text(const char *text)
{
    size_t size_bytes = strlen(text) + 1;
    return memcpy(json_allocate(size_bytes), text, size_bytes);
}

static struct json *json_new(enum json_kind kind)
{
    struct json *value = json_allocate(sizeof *value);
    value->kind = kind;
    return value;
}

static void json_push(struct json *parent, struct json *child)
{
    if (parent->count == parent->capacity) {
        parent->capacity = parent->capacity == 0 ? 8 : 2 * parent->capacity;
        struct json **grown = realloc(parent->child, parent->capacity * sizeof *grown);
        SIM_ASSERT(grown != NULL, "no memory for %zu JSON children", parent->capacity);
        parent->child = grown;
    }
    parent->child[parent->count++] = child;
}

void json_destroy(struct json *value)
{
    if (value == NULL) {
        return;
    }
    for (size_t i = 0; i < value->count; i++) {
        json_destroy(value->child[i]);
    }
    free(value->child);
    free(value->string);
    free(value->key);
    free(value);
}

/* ---- reading */

/* The text after cJSON has accepted it; `at` moves in step with cJSON's tree. */
struct scanner {
    const char *at;
    const char *name; /* for errors */
    uint32_t line;
    struct sim_error *error;
};

static enum sim_status scanner_fail(const struct scanner *scanner, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static enum sim_status scanner_fail(const struct scanner *scanner, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return sim_fail(scanner->error, SIM_BAD_FILE, "%s:%u: %s", scanner->name, scanner->line, what);
}

static enum sim_status skip_space(struct scanner *scanner)
{
    for (; (unsigned char)*scanner->at <= ' ' && *scanner->at != '\0'; scanner->at++) {
        if (*scanner->at == '\n') {
            scanner->line++;
        } else if (*scanner->at != ' ' && *scanner->at != '\t' && *scanner->at != '\r') {
            return scanner_fail(scanner, "control character 0x%02x between values",
                                (unsigned char)*scanner->at);
        }
    }
    return SIM_OK;
}

/* cJSON has checked quotes and escapes. */
static enum sim_status skip_string(struct scanner *scanner)
{
    for (scanner->at++; *scanner->at != '"';) {
        if ((unsigned char)*scanner->at < ' ') {
            return scanner_fail(scanner, "control character 0x%02x inside a string (write it as an escape)",
                                (unsigned char)*scanner->at);
        }
        if (*scanner->at == '\\') {
            if (strncmp(scanner->at, "\\u0000", 6) == 0) {
                return scanner_fail(scanner, "\\u0000 inside a string is not supported");
            }
            scanner->at += 2;
            continue;
        }
        size_t length = utf8_length((const unsigned char *)scanner->at);
        if (length == 0) {
            return scanner_fail(scanner, "byte 0x%02x inside a string is not UTF-8",
                                (unsigned char)*scanner->at);
        }
        scanner->at += length;
    }
    scanner->at++;
    return SIM_OK;
}

static const char *skip_digits(const char *at)
{
    while (isdigit((unsigned char)*at)) {
        at++;
    }
    return at;
}

static enum sim_status skip_number(struct scanner *scanner, double value)
{
    const char *start = scanner->at;
    const char *at = start + (*start == '-');
    const char *whole = at;
    at = skip_digits(at);
    bool valid = at > whole && (*whole != '0' || at == whole + 1);
    if (valid && *at == '.') {
        const char *fraction = at + 1;
        at = skip_digits(fraction);
        valid = at > fraction;
    }
    if (valid && (*at == 'e' || *at == 'E')) {
        const char *exponent = at + 1 + (at[1] == '+' || at[1] == '-');
        at = skip_digits(exponent);
        valid = at > exponent;
    }
    if (!valid || !isfinite(value)) {
        int length = (int)strspn(start, "+-.0123456789eE");
        return scanner_fail(scanner, "%.*s is not %s", length > 40 ? 40 : length, start,
                            valid ? "in the range of a double" : "a JSON number");
    }
    scanner->at = at;
    return SIM_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const struct json *left = *(struct json *const *)a, *right = *(struct json *const *)b;
    int order = strcmp(left->key, right->key);
    return order != 0 ? order : (left->line > right->line) - (left->line < right->line);
}

static enum sim_status check_keys_differ(const struct json *object, const struct scanner *scanner)
{
    if (object->count < 2) {
        return SIM_OK;
    }
    struct json **sorted = json_allocate(object->count * sizeof *sorted);
    memcpy(sorted, object->child, object->count * sizeof *sorted);
    qsort(sorted, object->count, sizeof *sorted, compare_keys);
    enum sim_status status = SIM_OK;
    for (size_t i = 1; i < object->count && status == SIM_OK; i++) {
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0) {
            status = sim_fail(scanner->error, SIM_BAD_FILE,
                              "%s:%u: key \"%s\" given twice (first on line %u)", scanner->name,
                              sorted[i]->line, sorted[i]->key, sorted[i - 1]->line);
        }
    }
    free(sorted);
    return status;
}

static enum sim_status read_value(struct scanner *scanner, const cJSON *item, struct json **out);

static enum sim_status read_children(struct scanner *scanner, const cJSON *item, struct json *value)
{
    bool object = value->kind == JSON_OBJECT;
    enum sim_status status = SIM_OK;
    scanner->at++; /* the opening bracket */
    for (const cJSON *child = item->child; child != NULL && status == SIM_OK; child = child->next) {
        struct json *read = NULL;
        uint32_t line = 0;
        if ((status = skip_space(scanner)) != SIM_OK) {
            break;
        }
        if (object) {
            line = scanner->line;
            if ((status = skip_string(scanner)) != SIM_OK || (status = skip_space(scanner)) != SIM_OK) {
                break;
            }
            scanner->at++; /* the colon */
        }
        if ((status = read_value(scanner, child, &read)) != SIM_OK) {
            break;
        }
        if (object) {
            read->key = json_copy_text(child->string);
            read->line = line; /* the key's, where a person looks */
        }
        json_push(value, read);
        status = skip_space(scanner);
        scanner->at += child->next != NULL; /* the comma */
    }
    if (status == SIM_OK && (status = skip_space(scanner)) == SIM_OK) {
        scanner->at++; /* the closing bracket */
        status = object ? check_keys_differ(value, scanner) : SIM_OK;
    }
    return status;
}

static enum sim_status read_value(struct scanner *scanner, const cJSON *item, struct json **out)
{
    enum sim_status status = skip_space(scanner);
    if (status != SIM_OK) {
        return status;
    }
    struct json *value = json_new(JSON_NULL);
    value->line = scanner->line;
    if (cJSON_IsObject(item) || cJSON_IsArray(item)) {
        value->kind = cJSON_IsObject(item) ? JSON_OBJECT : JSON_ARRAY;
        status = read_children(scanner, item, value);
    } else if (cJSON_IsString(item)) {
        value->kind = JSON_STRING;
        value->string = json_copy_text(item->valuestring);
        status = skip_string(scanner);
    } else if (cJSON_IsNumber(item)) {
        value->kind = JSON_NUMBER;
        value->number = item->valuedouble;
        status = skip_number(scanner, value->number);
    } else {
        value->kind = cJSON_IsNull(item) ? JSON_NULL : JSON_BOOL;
        value->boolean = cJSON_IsTrue(item);
        scanner->at += cJSON_IsFalse(item) ? 5 : 4; /* false; true, null */
    }
    if (status != SIM_OK) {
        json_destroy(value);
        value = NULL;
    }
    *out = value;
    return status;
}

static enum sim_status fail_at(const char *text, const char *damage, const char *name,
                               struct sim_error *error)
{
    uint32_t line = 1;
    const char *line_start = text;
    while (isspace((unsigned char)*damage)) {
        damage++;
    }
    for (const char *c = text; c < damage; c++) {
        if (*c == '\n') {
            line++;
            line_start = c + 1;
        }
    }
    if (*damage == '\0') {
        return sim_fail(error, SIM_BAD_FILE, "%s:%u: not valid JSON: the text ends too early", name, line);
    }
    int shown = (int)strcspn(damage, "\r\n");
    return sim_fail(error, SIM_BAD_FILE, "%s:%u: not valid JSON at column %zu: %.*s", name, line,
                    (size_t)(damage - line_start) + 1, shown > 40 ? 40 : shown, damage);
}

enum sim_status json_read_text(const char *text, const char *name_for_errors, struct json **out,
                               struct sim_error *error)
{
    *out = NULL;
    /* the parser passes over one byte-order mark, as some editors write */
    const char *body = strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
    const char *end = body;
    cJSON *tree = cJSON_ParseWithOpts(text, &end, true);
    if (tree == NULL) {
        return fail_at(body, end == NULL ? body : end, name_for_errors, error);
    }
    struct scanner scanner = { .at = body, .name = name_for_errors, .line = 1, .error = error };
    enum sim_status status = read_value(&scanner, tree, out);
    if (status == SIM_OK && (status = skip_space(&scanner)) == SIM_OK) {
        SIM_ASSERT(*scanner.at == '\0', "JSON walk of %s stopped early at line %u", name_for_errors,
                   scanner.line);
    }
    cJSON_Delete(tree);
    if (status != SIM_OK) {
        json_destroy(*out);
        *out = NULL;
    }
    return status;
}

enum sim_status json_read_file(const char *path, struct json **out, struct sim_error *error)
{
    *out = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    size_t size_bytes = 0, capacity = 1u << 16;
    char *text = json_allocate(capacity);
    enum sim_status status = SIM_OK;
    for (size_t got; (got = fread(text + size_bytes, 1, capacity - 1 - size_bytes, file)) > 0;) {
        size_bytes += got;
        if (size_bytes == capacity - 1) {
            capacity *= 2;
            char *grown = realloc(text, capacity);
            SIM_ASSERT(grown != NULL, "no memory for %zu bytes of %s", capacity, path);
            text = grown;
        }
        if (size_bytes > JSON_FILE_BYTES_MAX) {
            status = sim_fail(error, SIM_BAD_FILE, "%s: larger than %u MiB, the limit for a JSON document",
                              path, JSON_FILE_BYTES_MAX >> 20);
            goto done;
        }
    }
    if (ferror(file)) {
        status = sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
        goto done;
    }
    text[size_bytes] = '\0';
    if (strlen(text) != size_bytes) {
        status = sim_fail(error, SIM_BAD_FILE, "%s: byte %zu is zero: not a text file", path, strlen(text));
        goto done;
    }
    status = json_read_text(text, path, out, error);
done:
    free(text);
    fclose(file);
    return status;
}

enum json_kind json_kind_of(const struct json *value)
{
    return value->kind;
}

const char *json_kind_text(enum json_kind kind)
{
    static const char *const texts[] = { "null",     "true or false", "a number",
                                         "a string", "an array",      "an object" };
    SIM_ASSERT((unsigned)kind < sizeof texts / sizeof texts[0], "kind %d", (int)kind);
    return texts[kind];
}

size_t json_count(const struct json *value)
{
    return value->count;
}

const struct json *json_at(const struct json *value, size_t index)
{
    SIM_ASSERT(index < value->count, "index %zu of %zu", index, value->count);
    return value->child[index];
}

const char *json_key(const struct json *child)
{
    return child->key;
}

uint32_t json_line(const struct json *value)
{
    return value->line;
}

static size_t find_key(const struct json *object, const char *key)
{
    size_t i = 0;
    while (i < object->count && (object->child[i]->key == NULL || strcmp(object->child[i]->key, key) != 0)) {
        i++;
    }
    return i;
}

const struct json *json_get(const struct json *object, const char *key)
{
    size_t i = find_key(object, key);
    return i < object->count ? object->child[i] : NULL;
}

struct json *json_child(struct json *object, const char *key)
{
    size_t i = find_key(object, key);
    return i < object->count ? object->child[i] : NULL;
}

double json_number(const struct json *value)
{
    SIM_ASSERT(value->kind == JSON_NUMBER, "asked a number of %s", json_kind_text(value->kind));
    return value->number;
}

bool json_bool(const struct json *value)
{
    SIM_ASSERT(value->kind == JSON_BOOL, "asked a bool of %s", json_kind_text(value->kind));
    return value->boolean;
}

const char *json_string(const struct json *value)
{
    SIM_ASSERT(value->kind == JSON_STRING, "asked a string of %s", json_kind_text(value->kind));
    return value->string;
}

/* ---- writing */

struct json *json_new_object(void)
{
    return json_new(JSON_OBJECT);
}
struct json *json_new_array(void)
{
    return json_new(JSON_ARRAY);
}

static struct json *new_string(const char *value)
{
    struct json *string = json_new(JSON_STRING);
    string->string = json_copy_text(value);
    text_make_utf8(string->string);
    return string;
}

static struct json *new_number(double value)
{
    SIM_ASSERT(isfinite(value), "a JSON number must be finite, got %g", value);
    struct json *number = json_new(JSON_NUMBER);
    number->number = value;
    return number;
}

void json_set(struct json *object, const char *key, struct json *child)
{
    SIM_ASSERT(object->kind == JSON_OBJECT, "key %s set in %s", key, json_kind_text(object->kind));
    SIM_ASSERT(child->key == NULL, "%s already has a parent, as %s", key, child->key);
    child->key = json_copy_text(key);
    text_make_utf8(child->key);
    size_t i = find_key(object, key);
    if (i < object->count) {
        json_destroy(object->child[i]);
        object->child[i] = child;
    } else {
        json_push(object, child);
    }
}

void json_set_string(struct json *object, const char *key, const char *value)
{
    json_set(object, key, new_string(value));
}

void json_set_number(struct json *object, const char *key, double value)
{
    SIM_ASSERT(isfinite(value), "%s must be finite, got %g", key, value);
    json_set(object, key, new_number(value));
}

void json_set_integer(struct json *object, const char *key, int64_t value)
{
    SIM_ASSERT(value <= ((int64_t)1 << 53) && value >= -((int64_t)1 << 53), "%s = %lld is beyond 2^53", key,
               (long long)value);
    json_set(object, key, new_number((double)value));
}

void json_set_bool(struct json *object, const char *key, bool value)
{
    struct json *child = json_new(JSON_BOOL);
    child->boolean = value;
    json_set(object, key, child);
}

void json_set_null(struct json *object, const char *key)
{
    json_set(object, key, json_new(JSON_NULL));
}

void json_append(struct json *array, struct json *child)
{
    SIM_ASSERT(array->kind == JSON_ARRAY, "append to %s", json_kind_text(array->kind));
    SIM_ASSERT(child->key == NULL, "child already has a parent, as %s", child->key);
    json_push(array, child);
}

void json_append_string(struct json *array, const char *value)
{
    json_append(array, new_string(value));
}
void json_append_number(struct json *array, double value)
{
    json_append(array, new_number(value));
}

struct printer {
    char *text;
    size_t size_bytes, capacity;
};

static void print_bytes(struct printer *printer, const char *bytes, size_t size_bytes)
{
    if (printer->size_bytes + size_bytes + 1 > printer->capacity) {
        printer->capacity = 2 * (printer->size_bytes + size_bytes + 1);
        char *grown = realloc(printer->text, printer->capacity);
        SIM_ASSERT(grown != NULL, "no memory for %zu bytes of JSON text", printer->capacity);
        printer->text = grown;
    }
    memcpy(printer->text + printer->size_bytes, bytes, size_bytes);
    printer->size_bytes += size_bytes;
    printer->text[printer->size_bytes] = '\0';
}

static void print_text(struct printer *printer, const char *text)
{
    print_bytes(printer, text, strlen(text));
}

static void print_string(struct printer *printer, const char *string)
{
    print_bytes(printer, "\"", 1);
    for (const char *c = string; *c != '\0';) {
        size_t plain = strcspn(
            c, "\"\\\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13"
               "\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f");
        print_bytes(printer, c, plain);
        c += plain;
        if (*c != '\0') {
            char escape[8];
            if (*c == '"' || *c == '\\') {
                snprintf(escape, sizeof escape, "\\%c", *c);
            } else if (*c == '\n' || *c == '\t') {
                snprintf(escape, sizeof escape, "\\%c", *c == '\n' ? 'n' : 't');
            } else {
                snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*c & 0x1fu);
            }
            print_text(printer, escape);
            c++;
        }
    }
    print_bytes(printer, "\"", 1);
}

static void print_number(struct printer *printer, double value)
{
    char digits[40];
    value = value + 0.0; /* -0 prints as 0 */
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    print_text(printer, digits);
}

static void print_value(struct printer *printer, const struct json *value, int depth, bool pretty);

static void print_indent(struct printer *printer, int depth)
{
    print_bytes(printer, "\n", 1);
    for (int i = 0; i < depth; i++) {
        print_bytes(printer, "  ", 2);
    }
}

/* All children on one line; `spaced` puts a space after commas and colons. */
static void print_inline(struct printer *printer, const struct json *value, bool spaced)
{
    bool object = value->kind == JSON_OBJECT;
    print_bytes(printer, object ? "{" : "[", 1);
    for (size_t i = 0; i < value->count; i++) {
        print_text(printer, i == 0 ? "" : spaced ? ", " : ",");
        if (object) {
            print_string(printer, value->child[i]->key);
            print_text(printer, spaced ? ": " : ":");
        }
        print_value(printer, value->child[i], 0, false);
    }
    print_bytes(printer, object ? "}" : "]", 1);
}

/* True when the container was printed on one line because it holds only scalars and fits. */
static bool print_short(struct printer *printer, const struct json *value, int depth)
{
    for (size_t i = 0; i < value->count; i++) {
        if (value->child[i]->count > 0) {
            return false;
        }
    }
    size_t before = printer->size_bytes;
    print_inline(printer, value, true);
    size_t key_columns = value->key == NULL ? 0 : strlen(value->key) + 4;
    if (printer->size_bytes - before + key_columns + 2 * (size_t)depth <= JSON_LINE_COLUMNS) {
        return true;
    }
    printer->size_bytes = before;
    printer->text[before] = '\0';
    return false;
}

static void print_children(struct printer *printer, const struct json *value, int depth)
{
    bool object = value->kind == JSON_OBJECT;
    print_bytes(printer, object ? "{" : "[", 1);
    for (size_t i = 0; i < value->count; i++) {
        print_text(printer, i == 0 ? "" : ",");
        print_indent(printer, depth + 1);
        if (object) {
            print_string(printer, value->child[i]->key);
            print_bytes(printer, ": ", 2);
        }
        print_value(printer, value->child[i], depth + 1, true);
    }
    print_indent(printer, depth);
    print_bytes(printer, object ? "}" : "]", 1);
}

static void print_value(struct printer *printer, const struct json *value, int depth, bool pretty)
{
    switch (value->kind) {
    case JSON_NULL: print_text(printer, "null"); break;
    case JSON_BOOL: print_text(printer, value->boolean ? "true" : "false"); break;
    case JSON_NUMBER: print_number(printer, value->number); break;
    case JSON_STRING: print_string(printer, value->string); break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        if (!pretty) {
            print_inline(printer, value, false);
        } else if (!print_short(printer, value, depth)) {
            print_children(printer, value, depth);
        }
        break;
    }
}

char *json_print(const struct json *value, bool pretty)
{
    struct printer printer = { 0 };
    print_value(&printer, value, 0, pretty);
    return printer.text;
}
