/* Values of a JSON file as small trees, one at a time: for the kinds of files whose elements are read whole. */
#include "workloads/trace/input_internal.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64
#define PATH_MAX_BYTES 512
#define ITEMS_MAX (4u << 20)          /* of one element */
#define TEXT_BYTES_MAX ((size_t)64 << 20) /* of one element */

/* Outside of a captured value, path[0 .. length] names where we are; depth_length[d] is its length at container depth d, and
 * is_list[d] says what that container is. Inside, open[] holds the containers from the root to here. */
struct collector {
    struct json_stream *stream;
    const char *const *paths;
    size_t path_count;
    json_item_visitor visit;
    void (*visitor_restart)(void *context);
    void *context;
    struct sim_error *error;
    char path[PATH_MAX_BYTES];
    size_t depth, path_length;
    size_t depth_length[DEPTH_MAX + 1];
    bool is_list[DEPTH_MAX + 1];
    bool capturing;
    size_t which, open_count, key;
    uint32_t open[DEPTH_MAX + 1], last[DEPTH_MAX + 1];
    struct json_item *items;
    size_t item_count, item_capacity;
    char *texts;
    size_t text_bytes, text_capacity;
};

static int refuse(struct collector *c, const char *why)
{
    c->stream->refusal = why;
    return 0;
}

/* ---- where we are ---------------------------------------------------------------------------------------------- */

/* The path of a value that begins here: the container's, and "[]" in a list. */
static void name_element(struct collector *c)
{
    if (c->depth > 0 && c->is_list[c->depth]) {
        c->path_length = c->depth_length[c->depth];
        if (c->path_length + 3 < PATH_MAX_BYTES) {
            memcpy(c->path + c->path_length, "[]", 3);
            c->path_length += 2;
        }
    }
}

static bool wanted(struct collector *c)
{
    name_element(c);
    for (size_t i = 0; i < c->path_count; i++) {
        if (strcmp(c->path, c->paths[i]) == 0) {
            c->which = i;
            return true;
        }
    }
    return false;
}

static int enter(struct collector *c, bool list)
{
    if (c->depth == DEPTH_MAX) {
        return refuse(c, "nested deeper than 64 levels, which no trace is");
    }
    c->depth++;
    c->depth_length[c->depth] = c->path_length;
    c->is_list[c->depth] = list;
    return 1;
}

static int leave(struct collector *c)
{
    c->path_length = c->depth_length[c->depth];
    c->path[c->path_length] = '\0';
    c->depth--;
    return 1;
}

/* ---- a captured value ------------------------------------------------------------------------------------------ */

static bool add_text(struct collector *c, const void *text, size_t length, size_t *offset)
{
    if (c->text_bytes + length + 1 > TEXT_BYTES_MAX) {
        return false;
    }
    if (c->text_bytes + length + 1 > c->text_capacity) {
        c->text_capacity = 2 * (c->text_bytes + length + 1) + 1024;
        c->texts = realloc(c->texts, c->text_capacity);
        SIM_ASSERT(c->texts != NULL, "out of memory for %zu bytes of one value", c->text_capacity);
    }
    *offset = c->text_bytes;
    memcpy(c->texts + c->text_bytes, text, length);
    c->texts[c->text_bytes + length] = '\0';
    c->text_bytes += length + 1;
    return true;
}

static uint32_t add_item(struct collector *c, enum json_item_kind kind)
{
    if (c->item_count == c->item_capacity) {
        c->item_capacity = c->item_capacity == 0 ? 64 : 2 * c->item_capacity;
        c->items = realloc(c->items, c->item_capacity * sizeof *c->items);
        SIM_ASSERT(c->items != NULL, "out of memory for %zu items of one value", c->item_capacity);
    }
    uint32_t index = (uint32_t)c->item_count++;
    c->items[index] = (struct json_item){ .kind = kind, .key = c->key, .first = UINT32_MAX, .next = UINT32_MAX };
    c->key = 0;
    if (c->open_count > 0) {
        struct json_item *parent = &c->items[c->open[c->open_count - 1]];
        if (parent->count++ == 0) {
            parent->first = index;
        } else {
            c->items[c->last[c->open_count - 1]].next = index;
        }
        c->last[c->open_count - 1] = index;
    }
    return index;
}

static int finish_value(struct collector *c)
{
    if (c->open_count > 0) {
        return 1;
    }
    const struct json_tree tree = { c->items, c->item_count, c->texts };
    c->capturing = false;
    c->stream->item_count++;
    if (c->visit(c->context, c->which, &tree, c->error) != SIM_OK) {
        c->stream->failure = c->error;
        return 0;
    }
    return 1;
}

static void begin_value(struct collector *c)
{
    c->capturing = true;
    c->item_count = c->open_count = c->key = 0;
    c->text_bytes = 0;
    size_t offset;
    add_text(c, "", 0, &offset); /* offset 0 is the empty text */
}

static int scalar(struct collector *c, enum json_item_kind kind, const void *text, size_t length)
{
    if (!c->capturing) {
        if (!wanted(c)) {
            return 1;
        }
        begin_value(c);
    }
    size_t offset;
    if (c->item_count >= ITEMS_MAX || !add_text(c, text, length, &offset)) {
        return refuse(c, "one element exceeds 4 million values or 64 MiB");
    }
    uint32_t index = add_item(c, kind); /* may move the items */
    c->items[index].text = offset;
    return finish_value(c);
}

static int container_start(struct collector *c, enum json_item_kind kind)
{
    if (!c->capturing) {
        if (!wanted(c)) {
            return enter(c, kind == JSON_ITEM_LIST);
        }
        begin_value(c);
    }
    if (c->open_count == DEPTH_MAX) {
        return refuse(c, "nested deeper than 64 levels, which no trace is");
    }
    if (c->item_count >= ITEMS_MAX) {
        return refuse(c, "one element exceeds 4 million values or 64 MiB");
    }
    uint32_t index = add_item(c, kind);
    c->open[c->open_count++] = index;
    return 1;
}

static int container_end(struct collector *c)
{
    if (!c->capturing) {
        return leave(c);
    }
    c->open_count--;
    return finish_value(c);
}

/* ---- the handler ----------------------------------------------------------------------------------------------- */

static int on_null(void *context)
{
    return scalar(context, JSON_ITEM_NULL, "", 0);
}
static int on_boolean(void *context, int value)
{
    return scalar(context, JSON_ITEM_BOOL, value ? "true" : "false", value ? 4 : 5);
}
static int on_number(void *context, const char *text, size_t length)
{
    return scalar(context, JSON_ITEM_NUMBER, text, length);
}
static int on_string(void *context, const unsigned char *text, size_t length)
{
    return scalar(context, JSON_ITEM_STRING, text, length);
}
static int on_map_start(void *context)
{
    return container_start(context, JSON_ITEM_MAP);
}
static int on_array_start(void *context)
{
    return container_start(context, JSON_ITEM_LIST);
}
static int on_end(void *context)
{
    return container_end(context);
}

static int on_map_key(void *context, const unsigned char *text, size_t length)
{
    struct collector *c = context;
    if (c->capturing) {
        return add_text(c, text, length, &c->key) ? 1 : refuse(c, "one element exceeds 4 million values or 64 MiB");
    }
    c->path_length = c->depth_length[c->depth];
    if (c->path_length + length + 4 < PATH_MAX_BYTES) { /* longer ones are none that is asked for */
        if (c->path_length > 0) {
            c->path[c->path_length++] = '.';
        }
        memcpy(c->path + c->path_length, text, length);
        c->path_length += length;
    }
    c->path[c->path_length] = '\0';
    return 1;
}

static void on_restart(void *context)
{
    struct collector *c = context;
    c->depth = c->path_length = 0;
    c->path[0] = '\0';
    c->capturing = false;
    if (c->visitor_restart != NULL) {
        c->visitor_restart(c->context);
    }
}

enum sim_status json_items_read(struct json_stream *stream, const char *const *paths, size_t path_count,
                                json_item_visitor visit, void (*restart)(void *context), void *context,
                                struct sim_error *error)
{
    static const struct json_handler handler = {
        .null = on_null,
        .boolean = on_boolean,
        .number = on_number,
        .string = on_string,
        .map_start = on_map_start,
        .map_key = on_map_key,
        .map_end = on_end,
        .array_start = on_array_start,
        .array_end = on_end,
        .restart = on_restart,
    };
    struct sim_error unused;
    struct collector *c = calloc(1, sizeof *c);
    SIM_ASSERT(c != NULL, "out of memory");
    c->stream = stream;
    c->paths = paths;
    c->path_count = path_count;
    c->visit = visit;
    c->visitor_restart = restart;
    c->context = context;
    c->error = error != NULL ? error : &unused;
    enum sim_status status = json_stream_parse(stream, &handler, c, c->error);
    free(c->items);
    free(c->texts);
    free(c);
    return status;
}

/* ---- reading a tree -------------------------------------------------------------------------------------------- */

const struct json_item *json_item_next(const struct json_tree *tree, const struct json_item *item)
{
    return item->next == UINT32_MAX ? NULL : &tree->items[item->next];
}

const struct json_item *json_item_get(const struct json_tree *tree, const struct json_item *map, const char *key)
{
    if (map == NULL || map->kind != JSON_ITEM_MAP) {
        return NULL;
    }
    for (uint32_t i = map->first; i != UINT32_MAX; i = tree->items[i].next) {
        if (strcmp(tree->texts + tree->items[i].key, key) == 0) {
            return &tree->items[i];
        }
    }
    return NULL;
}

const struct json_item *json_item_child(const struct json_tree *tree, const struct json_item *list, size_t index)
{
    uint32_t at = list == NULL || (list->kind != JSON_ITEM_LIST && list->kind != JSON_ITEM_MAP) ? UINT32_MAX : list->first;
    while (at != UINT32_MAX && index-- > 0) {
        at = tree->items[at].next;
    }
    return at == UINT32_MAX ? NULL : &tree->items[at];
}

const char *json_item_text(const struct json_tree *tree, const struct json_item *item)
{
    return item == NULL || item->kind == JSON_ITEM_LIST || item->kind == JSON_ITEM_MAP ? "" : tree->texts + item->text;
}

double json_item_number(const struct json_tree *tree, const struct json_item *item, double otherwise)
{
    const char *text = json_item_text(tree, item);
    char *end;
    double value = strtod(text, &end);
    return end == text || *end != '\0' || !isfinite(value) ? otherwise : value;
}

bool json_item_unsigned(const struct json_tree *tree, const struct json_item *item, uint64_t *out)
{
    const char *text = json_item_text(tree, item);
    char *end;
    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *out = value;
    return errno == 0 && *end == '\0';
}
