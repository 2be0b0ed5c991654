/* rocprofv3 JSON (rocprofiler-sdk): kernel dispatches and copies with their times, no host side and no operators. */
#include "workloads/trace/input_internal.h"
#include "workloads/trace/trace_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_MAX ((uint64_t)INT64_MAX)

enum path { PATH_AGENT, PATH_SYMBOL, PATH_KERNEL_NAME, PATH_DISPATCH, PATH_COPY, PATH_COUNT };
static const char *const paths[PATH_COUNT] = {
    "rocprofiler-sdk-tool[].agents[]",
    "rocprofiler-sdk-tool[].kernel_symbols[]",
    "rocprofiler-sdk-tool[].buffer_records.names.kernel_names[]",
    "rocprofiler-sdk-tool[].buffer_records.kernel_dispatch[]",
    "rocprofiler-sdk-tool[].buffer_records.memory_copy[]",
};

struct symbol {
    uint64_t id;
    const char *name;
};

/* Dispatches name their kernel by id; symbols may come behind them, so names are put in at the end (event.correlation holds
 * the id until then). */
struct rocprof {
    struct trace_file *file;
    struct symbol *symbols;
    size_t symbol_count, symbol_capacity;
};

static uint64_t handle_of(const struct json_tree *tree, const struct json_item *map, const char *key)
{
    uint64_t value = 0;
    const struct json_item *item = json_item_get(tree, map, key);
    const struct json_item *handle = json_item_get(tree, item, "handle");
    json_item_unsigned(tree, handle != NULL ? handle : item, &value);
    return value;
}

static void add_symbol(struct rocprof *r, const struct json_tree *tree)
{
    static const char *const names[] = { "formatted_kernel_name", "demangled_kernel_name", "kernel_name" };
    const struct json_item *root = tree->items;
    const char *name = "";
    for (size_t i = 0; i < sizeof names / sizeof names[0] && name[0] == '\0'; i++) {
        name = json_item_text(tree, json_item_get(tree, root, names[i]));
    }
    uint64_t id;
    if (!json_item_unsigned(tree, json_item_get(tree, root, "kernel_id"), &id) || name[0] == '\0') {
        return;
    }
    if (r->symbol_count == r->symbol_capacity) {
        r->symbol_capacity = r->symbol_capacity == 0 ? 256 : 2 * r->symbol_capacity;
        r->symbols = realloc(r->symbols, r->symbol_capacity * sizeof *r->symbols);
        SIM_ASSERT(r->symbols != NULL, "out of memory");
    }
    r->symbols[r->symbol_count++] = (struct symbol){ id, arena_intern(r->file->arena, name, strlen(name)) };
}

static void add_agent(struct rocprof *r, const struct json_tree *tree)
{
    const struct json_item *root = tree->items;
    const char *name = json_item_text(tree, json_item_get(tree, root, "product_name"));
    bool gpu = json_item_number(tree, json_item_get(tree, root, "type"), 0) == 2;
    if (gpu && r->file->device_title[0] == '\0') {
        snprintf(r->file->device_title, sizeof r->file->device_title, "%s", name);
    }
}

static const char *dims_text(struct rocprof *r, const struct json_tree *tree, const struct json_item *size,
                             const struct json_item *divisor)
{
    static const char *const axes[] = { "x", "y", "z" };
    uint64_t dims[3];
    for (size_t i = 0; i < 3; i++) {
        uint64_t by = 1;
        if (!json_item_unsigned(tree, json_item_get(tree, size, axes[i]), &dims[i]) ||
            (divisor != NULL && !json_item_unsigned(tree, json_item_get(tree, divisor, axes[i]), &by))) {
            return NULL;
        }
        dims[i] = by > 0 ? dims[i] / by + (dims[i] % by != 0) : dims[i];
    }
    char text[80];
    int length = snprintf(text, sizeof text, "[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", dims[0], dims[1], dims[2]);
    return arena_intern(r->file->arena, text, (size_t)length);
}

static const char *id_text(struct rocprof *r, uint64_t id)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%" PRIu64, id);
    return arena_intern(r->file->arena, text, (size_t)length);
}

static bool times_of(struct rocprof *r, const struct json_tree *tree, struct trace_event *event)
{
    uint64_t start, end;
    if (!json_item_unsigned(tree, json_item_get(tree, tree->items, "start_timestamp"), &start) ||
        !json_item_unsigned(tree, json_item_get(tree, tree->items, "end_timestamp"), &end)) {
        r->file->incomplete_count++;
        return false;
    }
    if (start > NS_MAX / 2 || end < start || end - start > (uint64_t)86400 * 1000000000) {
        if (r->file->impossible_count++ == 0) {
            r->file->impossible_name = "a dispatch or copy";
        }
        return false;
    }
    event->start_ns = (int64_t)start;
    event->duration_ns = (int64_t)(end - start);
    return true;
}

/* The grid of a dispatch counts work items. */
static void add_dispatch(struct rocprof *r, const struct json_tree *tree)
{
    struct trace_event event = { .category = TRACE_KERNEL };
    const struct json_item *info = json_item_get(tree, tree->items, "dispatch_info");
    r->file->list_event_count++;
    if (!times_of(r, tree, &event)) {
        return;
    }
    const struct json_item *block = json_item_get(tree, info, "workgroup_size");
    struct trace_device_args *args = arena_alloc(r->file->arena, sizeof *args);
    *args = (struct trace_device_args){ .grid = dims_text(r, tree, json_item_get(tree, info, "grid_size"), block),
                                        .block = dims_text(r, tree, block, NULL),
                                        .bytes = -1 };
    event.args = args;
    event.correlation = handle_of(tree, info, "kernel_id");
    event.track = trace_file_track(r->file, id_text(r, handle_of(tree, info, "agent_id")),
                                   id_text(r, handle_of(tree, info, "queue_id")));
    trace_file_add(r->file, &event);
}

static void add_copy(struct rocprof *r, const struct json_tree *tree)
{
    struct trace_event event = { .category = TRACE_MEMCPY };
    r->file->list_event_count++;
    if (!times_of(r, tree, &event)) {
        return;
    }
    struct trace_device_args *args = arena_alloc(r->file->arena, sizeof *args);
    *args = (struct trace_device_args){ .bytes = json_item_number(tree, json_item_get(tree, tree->items, "bytes"), -1) };
    event.args = args;
    event.name = arena_intern(r->file->arena, "Memcpy", 6);
    event.track = trace_file_track(r->file, id_text(r, handle_of(tree, tree->items, "dst_agent_id")),
                                   arena_intern(r->file->arena, "copy", 4));
    trace_file_add(r->file, &event);
}

static enum sim_status visit(void *context, size_t which, const struct json_tree *tree, struct sim_error *error)
{
    (void)error;
    switch (which) {
    case PATH_AGENT: add_agent(context, tree); break;
    case PATH_SYMBOL:
    case PATH_KERNEL_NAME: add_symbol(context, tree); break;
    case PATH_DISPATCH: add_dispatch(context, tree); break;
    default: add_copy(context, tree); break;
    }
    return SIM_OK;
}

static int compare_symbols(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void name_dispatches(struct rocprof *r)
{
    if (r->symbol_count > 0) {
        qsort(r->symbols, r->symbol_count, sizeof *r->symbols, compare_symbols);
    }
    for (size_t i = 0; i < r->file->event_count; i++) {
        struct trace_event *event = &r->file->events[i];
        if (event->category != TRACE_KERNEL) {
            continue;
        }
        struct symbol key = { event->correlation, NULL };
        const struct symbol *symbol = r->symbol_count == 0 ? NULL
                                                           : bsearch(&key, r->symbols, r->symbol_count,
                                                                     sizeof *r->symbols, compare_symbols);
        event->name = symbol != NULL ? symbol->name
                                     : arena_intern(r->file->arena, "(kernel without a name)", 23);
        event->correlation = 0; /* no host side to be joined to */
    }
}

static void restart(void *context)
{
    struct rocprof *r = context;
    r->symbol_count = 0;
    r->file->event_count = r->file->list_event_count = r->file->impossible_count = r->file->incomplete_count = 0;
    r->file->device_title[0] = '\0';
}

enum sim_status rocprof_file_read(const char *path, struct trace_file **out, struct sim_error *error)
{
    *out = NULL;
    struct rocprof r = { .file = trace_file_create(path) };
    struct json_stream stream = { .path = path };
    r.file->device_only = true;
    enum sim_status status = json_items_read(&stream, paths, PATH_COUNT, visit, restart, &r, error);
    if (status == SIM_OK) {
        name_dispatches(&r);
    }
    free(r.symbols);
    if (status != SIM_OK) {
        trace_file_destroy(r.file);
        return status;
    }
    *out = r.file;
    return SIM_OK;
}
