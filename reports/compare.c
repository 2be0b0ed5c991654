#include "reports/compare.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_CAPACITY 1024
#define ENTRY_SHOWN 120 /* characters of an entry's identity in a path */
#define CHANGE_EPSILON 1e-12 /* relative; numbers of one answer read back print alike */

struct walk {
    struct json *changes, *words, *appeared, *vanished; /* taken over by the answer */
    const char *device;
    char path[PATH_CAPACITY];
    size_t same;
};

/* Members whose words say which entry of a list one is; what they are in one list they are in the other. */
static const char *const identity_keys[] = { "device", "name",  "program",  "suite", "kernel", "params", "fix",
                                             "against", "model", "offer",   "label", "key",    "rank",   "value" };

static size_t path_push(struct walk *walk, const char *format, const char *piece)
{
    size_t used = strlen(walk->path);
    snprintf(walk->path + used, sizeof walk->path - used, format, piece);
    return used;
}

/* Of a list's entry: a name longer than a line keeps its two ends, which tell kernels apart. */
static size_t path_push_entry(struct walk *walk, const char *identity)
{
    char piece[ENTRY_SHOWN + 8];
    size_t length = strlen(identity);
    if (length <= ENTRY_SHOWN) {
        return path_push(walk, "[%s]", identity);
    }
    snprintf(piece, sizeof piece, "%.*s...%s", ENTRY_SHOWN / 2, identity, identity + length - ENTRY_SHOWN / 2);
    return path_push(walk, "[%s]", piece);
}

static const char *text_of(const struct json *value, char *text, size_t capacity)
{
    switch (value != NULL ? json_kind_of(value) : JSON_NULL) {
    case JSON_STRING: return json_string(value);
    case JSON_NUMBER: snprintf(text, capacity, "%.10g", json_number(value)); return text;
    case JSON_BOOL: return json_bool(value) ? "true" : "false";
    case JSON_NULL: return "null";
    default: snprintf(text, capacity, "%zu entries", json_count(value)); return text;
    }
}

/* ---- entries of lists */

struct entry {
    char identity[PATH_CAPACITY];
    const struct json *value;
    size_t index;
};

static void identify(struct entry *entry, const struct json *value, size_t index)
{
    char text[32];
    size_t used = 0;
    entry->value = value;
    entry->index = index;
    entry->identity[0] = '\0';
    if (json_kind_of(value) != JSON_OBJECT) {
        snprintf(entry->identity, sizeof entry->identity, "%s",
                 json_kind_of(value) == JSON_STRING ? json_string(value) : "");
        return;
    }
    for (size_t k = 0; k < sizeof identity_keys / sizeof identity_keys[0]; k++) {
        const struct json *member = json_get(value, identity_keys[k]);
        bool counts = member != NULL && json_kind_of(member) <= JSON_STRING &&
                      (strcmp(identity_keys[k], "value") != 0 || used == 0); /* a value is an identity where nothing else is */
        if (counts && used < sizeof entry->identity - 1) {
            int wrote = snprintf(entry->identity + used, sizeof entry->identity - used, "%s%s", used > 0 ? " " : "",
                                 text_of(member, text, sizeof text));
            used += wrote > 0 ? (size_t)wrote : 0;
        }
    }
}

static int by_identity(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = strcmp(x->identity, y->identity);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static struct entry *entries_of(const struct json *list)
{
    struct entry *entries = malloc((json_count(list) + 1) * sizeof *entries);
    SIM_ASSERT(entries != NULL, "no memory for %zu entries", json_count(list));
    for (size_t i = 0; i < json_count(list); i++) {
        identify(&entries[i], json_at(list, i), i);
    }
    qsort(entries, json_count(list), sizeof entries[0], by_identity);
    return entries;
}

static void note_entry(struct walk *walk, struct json *list, const struct entry *entry)
{
    struct json *object = json_new_object();
    char text[32];
    if (walk->device != NULL) {
        json_set_string(object, "device", walk->device);
    } else {
        json_set_null(object, "device");
    }
    json_set_string(object, "path", walk->path);
    snprintf(text, sizeof text, "%zu", entry->index);
    json_set_string(object, "entry", entry->identity[0] != '\0' ? entry->identity : text);
    json_append(list, object);
}

static void compare_values(struct walk *walk, const struct json *parent_a, const struct json *parent_b, const struct json *a,
                           const struct json *b);

static void compare_lists(struct walk *walk, const struct json *a, const struct json *b)
{
    struct entry *x = entries_of(a), *y = entries_of(b);
    size_t i = 0, j = 0;
    while (i < json_count(a) || j < json_count(b)) {
        int order = i == json_count(a) ? 1 : j == json_count(b) ? -1 : strcmp(x[i].identity, y[j].identity);
        if (order < 0) {
            note_entry(walk, walk->vanished, &x[i++]);
        } else if (order > 0) {
            note_entry(walk, walk->appeared, &y[j++]);
        } else {
            size_t used = path_push_entry(walk, x[i].identity);
            compare_values(walk, NULL, NULL, x[i].value, y[j].value);
            walk->path[used] = '\0';
            i++;
            j++;
        }
    }
    free(x);
    free(y);
}

/* ---- numbers and words */

static struct json *change_new(const struct walk *walk)
{
    struct json *object = json_new_object();
    if (walk->device != NULL) {
        json_set_string(object, "device", walk->device);
    } else {
        json_set_null(object, "device");
    }
    json_set_string(object, "path", walk->path);
    return object;
}

struct bounds {
    bool known;
    double low, high;
};

/* The interval that an answer gives beside the number `key`: KEY_low and KEY_high. */
static struct bounds bounds_of(const struct json *parent, const char *key, double value)
{
    char name[96];
    struct bounds bounds = { false, value, value };
    if (parent == NULL || key == NULL) {
        return bounds;
    }
    snprintf(name, sizeof name, "%s_low", key);
    const struct json *low = json_get(parent, name);
    snprintf(name, sizeof name, "%s_high", key);
    const struct json *high = json_get(parent, name);
    if (low != NULL && high != NULL && json_kind_of(low) == JSON_NUMBER && json_kind_of(high) == JSON_NUMBER) {
        bounds = (struct bounds){ true, json_number(low), json_number(high) };
    }
    return bounds;
}

static void compare_numbers(struct walk *walk, const struct json *parent_a, const struct json *parent_b, const struct json *a,
                            const struct json *b)
{
    double x = json_number(a), y = json_number(b);
    if (fabs(x - y) <= CHANGE_EPSILON * fmax(fabs(x), fabs(y))) {
        walk->same++;
        return;
    }
    struct json *change = change_new(walk);
    json_set_number(change, "a", x);
    json_set_number(change, "b", y);
    if (x != 0 && isfinite(y / x)) {
        json_set_number(change, "change", y / x - 1);
    } else {
        json_set_null(change, "change");
    }
    struct bounds p = bounds_of(parent_a, json_key(a), x), q = bounds_of(parent_b, json_key(b), y);
    if (p.known || q.known) {
        json_set_string(change, "intervals", p.low <= q.high && q.low <= p.high ? "inside" : "outside");
        json_set_number(change, "a_low", p.low);
        json_set_number(change, "a_high", p.high);
        json_set_number(change, "b_low", q.low);
        json_set_number(change, "b_high", q.high);
    } else {
        json_set_null(change, "intervals");
    }
    json_append(walk->changes, change);
}

static void compare_words(struct walk *walk, const struct json *a, const struct json *b)
{
    char x[64], y[64];
    const char *before = text_of(a, x, sizeof x), *after = text_of(b, y, sizeof y);
    if (strcmp(before, after) == 0) {
        walk->same++;
        return;
    }
    struct json *word = change_new(walk);
    json_set_string(word, "a", before);
    json_set_string(word, "b", after);
    json_append(walk->words, word);
}

static bool is_bound(const struct json *object, const char *key)
{
    char base[96];
    size_t length = strlen(key), cut = length > 4 && strcmp(key + length - 4, "_low") == 0    ? 4
                                       : length > 5 && strcmp(key + length - 5, "_high") == 0 ? 5
                                                                                              : 0;
    snprintf(base, sizeof base, "%.*s", (int)(length - cut), key);
    return cut > 0 && json_get(object, base) != NULL;
}

/* Not of the answer: host seconds, and what is the answer's frame. */
static bool is_left_out(const char *key)
{
    static const char *const names[] = { "schema", "seconds", "timeline", "identity", "device", "samples" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(key, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void compare_objects(struct walk *walk, const struct json *a, const struct json *b)
{
    static const struct json *const none = NULL;
    for (size_t i = 0; i < json_count(a); i++) {
        const struct json *x = json_at(a, i), *y = json_get(b, json_key(x));
        if (is_left_out(json_key(x)) || is_bound(a, json_key(x))) {
            continue; /* a bound speaks beside its number */
        }
        size_t used = path_push(walk, walk->path[0] != '\0' ? ".%s" : "%s", json_key(x));
        compare_values(walk, a, b, x, y);
        walk->path[used] = '\0';
    }
    for (size_t i = 0; i < json_count(b); i++) {
        const struct json *y = json_at(b, i);
        if (json_get(a, json_key(y)) == NULL && !is_left_out(json_key(y)) && !is_bound(b, json_key(y))) {
            size_t used = path_push(walk, walk->path[0] != '\0' ? ".%s" : "%s", json_key(y));
            compare_values(walk, a, b, none, y);
            walk->path[used] = '\0';
        }
    }
}

static void compare_values(struct walk *walk, const struct json *parent_a, const struct json *parent_b, const struct json *a,
                           const struct json *b)
{
    enum json_kind x = a != NULL ? json_kind_of(a) : JSON_NULL, y = b != NULL ? json_kind_of(b) : JSON_NULL;
    if (x == JSON_OBJECT && y == JSON_OBJECT) {
        compare_objects(walk, a, b);
    } else if (x == JSON_ARRAY && y == JSON_ARRAY) {
        compare_lists(walk, a, b);
    } else if (x == JSON_NUMBER && y == JSON_NUMBER) {
        compare_numbers(walk, parent_a, parent_b, a, b);
    } else {
        compare_words(walk, a, b);
    }
}

/* ---- answers */

static size_t answer_count(const struct json *document)
{
    return json_kind_of(document) == JSON_ARRAY ? json_count(document) : 1;
}

static const struct json *answer_at(const struct json *document, size_t index)
{
    return json_kind_of(document) == JSON_ARRAY ? json_at(document, index) : document;
}

static const char *word_of(const struct json *answer, const char *key)
{
    const struct json *value = json_kind_of(answer) == JSON_OBJECT ? json_get(answer, key) : NULL;
    return value != NULL && json_kind_of(value) == JSON_STRING ? json_string(value) : NULL;
}

static enum sim_status check_document(const struct json *document, const char *name, const char **schema,
                                      struct sim_error *error)
{
    *schema = NULL;
    for (size_t i = 0; i < answer_count(document); i++) {
        const char *own = word_of(answer_at(document, i), "schema");
        if (own == NULL || strncmp(own, "reckon.", 7) != 0) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "%s:%u: no answer of reckon: \"schema\" must be \"reckon.NAME/1\", as --json prints",
                            name, json_line(answer_at(document, i)));
        }
        if (*schema != NULL && strcmp(own, *schema) != 0) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "%s:%u: %s beside %s in one file: answers of one kind are compared", name,
                            json_line(answer_at(document, i)), own, *schema);
        }
        *schema = own;
    }
    return *schema != NULL ? SIM_OK : sim_fail(error, SIM_BAD_ARGUMENT, "%s: holds no answer", name);
}

/* The answer of `b` for the same device as a's i-th, when both name each device once; else the i-th. */
static const struct json *partner_of(const struct json *a, const struct json *b, size_t i)
{
    const char *device = word_of(answer_at(a, i), "device");
    for (size_t j = 0; device != NULL && j < answer_count(b); j++) {
        const char *other = word_of(answer_at(b, j), "device");
        if (other != NULL && strcmp(device, other) == 0) {
            return answer_at(b, j);
        }
    }
    return answer_at(b, i);
}

/* The one number an answer is asked for; NULL where there is no such one. */
static const char *main_figure(const struct json *answer)
{
    static const char *const names[] = { "step_ms", "time_us", "cost_total" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct json *value = json_get(answer, names[i]);
        if (value != NULL && json_kind_of(value) == JSON_NUMBER) {
            return names[i];
        }
    }
    return NULL;
}

static struct json *pair_json(const struct json *a, const struct json *b)
{
    struct json *pair = json_new_object();
    const char *x = word_of(a, "device"), *y = word_of(b, "device"), *figure = main_figure(a);
    const struct json *before = figure != NULL ? json_get(a, figure) : NULL, *after = figure != NULL ? json_get(b, figure) : NULL;
    json_set_string(pair, "a", x != NULL ? x : "");
    json_set_string(pair, "b", y != NULL ? y : "");
    if (after == NULL || json_kind_of(after) != JSON_NUMBER) {
        json_set_null(pair, "figure");
        return pair;
    }
    struct bounds p = bounds_of(a, figure, json_number(before)), q = bounds_of(b, figure, json_number(after));
    json_set_string(pair, "figure", figure);
    json_set_number(pair, "a_value", json_number(before));
    json_set_number(pair, "b_value", json_number(after));
    if (json_number(before) != 0) {
        json_set_number(pair, "change", json_number(after) / json_number(before) - 1);
    }
    if (p.known || q.known) {
        json_set_string(pair, "intervals", p.low <= q.high && q.low <= p.high ? "inside" : "outside");
    } else {
        json_set_null(pair, "intervals");
    }
    return pair;
}

/* Of a change in a time, whose key ends in its unit: by how many microseconds; NAN of other figures. */
static double time_moved_us(const struct json *change, const char *path)
{
    size_t length = strlen(path);
    const char *end = length > 3 ? path + length - 3 : "";
    if ((end[0] != '.' && end[0] != '_') || end[2] != 's' || (end[1] != 'u' && end[1] != 'm')) {
        return NAN;
    }
    return fabs(json_number(json_get(change, "b")) - json_number(json_get(change, "a"))) * (end[1] == 'm' ? 1e3 : 1);
}

static int by_size(const void *a, const void *b)
{
    const struct json *x = *(const struct json *const *)a, *y = *(const struct json *const *)b;
    const char *p = json_string(json_get(x, "path")), *q = json_string(json_get(y, "path"));
    bool head_x = strpbrk(p, ".[") == NULL, head_y = strpbrk(q, ".[") == NULL;
    const struct json *cx = json_get(x, "change"), *cy = json_get(y, "change");
    double dx = json_kind_of(cx) == JSON_NUMBER ? fabs(log1p(fmax(json_number(cx), -0.999999))) : INFINITY;
    double dy = json_kind_of(cy) == JSON_NUMBER ? fabs(log1p(fmax(json_number(cy), -0.999999))) : INFINITY;
    if (head_x != head_y) {
        return head_x ? -1 : 1;
    }
    double tx = time_moved_us(x, p), ty = time_moved_us(y, q);
    if (!head_x && isnan(tx) != isnan(ty)) {
        return isnan(tx) ? 1 : -1;
    }
    if (!head_x && !isnan(tx) && tx != ty) {
        return tx > ty ? -1 : 1;
    }
    return dx != dy ? (dx > dy ? -1 : 1) : strcmp(p, q);
}

/* Figures of the whole answer first, then times of its parts by what they moved, then the rest by how much it changed. */
static struct json *sorted(struct json *changes)
{
    size_t count = json_count(changes);
    struct json *list = json_new_array();
    const struct json **order = malloc((count + 1) * sizeof(struct json *));
    SIM_ASSERT(order != NULL, "no memory for %zu changes", count);
    for (size_t i = 0; i < count; i++) {
        order[i] = json_at(changes, i);
    }
    qsort(order, count, sizeof order[0], by_size);
    for (size_t i = 0; i < count; i++) {
        struct json *copy = json_new_object();
        for (size_t k = 0; k < json_count(order[i]); k++) {
            const struct json *member = json_at(order[i], k);
            switch (json_kind_of(member)) {
            case JSON_NUMBER: json_set_number(copy, json_key(member), json_number(member)); break;
            case JSON_STRING: json_set_string(copy, json_key(member), json_string(member)); break;
            default: json_set_null(copy, json_key(member)); break;
            }
        }
        json_append(list, copy);
    }
    free(order);
    json_destroy(changes);
    return list;
}

enum sim_status compare_answers(const struct json *a, const char *a_name, const struct json *b, const char *b_name,
                                struct json **out, struct sim_error *error)
{
    const char *schema_a = NULL, *schema_b = NULL;
    *out = NULL;
    enum sim_status status = check_document(a, a_name, &schema_a, error);
    if (status == SIM_OK) {
        status = check_document(b, b_name, &schema_b, error);
    }
    if (status != SIM_OK) {
        return status;
    }
    if (strcmp(schema_a, schema_b) != 0) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s is %s and %s is %s: two answers of one kind are compared", a_name, schema_a,
                        b_name, schema_b);
    }
    if (answer_count(a) != answer_count(b)) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s holds %zu answers and %s %zu: ask both for the same devices", a_name,
                        answer_count(a), b_name, answer_count(b));
    }
    struct walk walk = { .changes = json_new_array(), .words = json_new_array(), .appeared = json_new_array(),
                         .vanished = json_new_array() };
    struct json *pairs = json_new_array();
    for (size_t i = 0; i < answer_count(a); i++) {
        const struct json *x = answer_at(a, i), *y = partner_of(a, b, i);
        walk.device = word_of(x, "device");
        json_append(pairs, pair_json(x, y));
        compare_objects(&walk, x, y);
    }
    *out = json_new_object();
    json_set_string(*out, "schema", "reckon.compare/1");
    json_set_string(*out, "of", schema_a);
    json_set_string(*out, "a", a_name);
    json_set_string(*out, "b", b_name);
    json_set(*out, "answers", pairs);
    json_set_integer(*out, "same", (int64_t)walk.same);
    json_set(*out, "changes", sorted(walk.changes));
    json_set(*out, "words", walk.words);
    json_set(*out, "appeared", walk.appeared);
    json_set(*out, "vanished", walk.vanished);
    return SIM_OK;
}
