/* A Chakra execution trace written as JSON: {"workload_graph": [{"Id", "Name", "NodeType", "ctrlDeps", "data_deps",
 * "runtime", "is_cpu_op", ..}], "ngpus": N}. */
#include "workloads/trace/chakra_internal.h"
#include "workloads/trace/input_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum path { PATH_NODE, PATH_GPUS, PATH_COUNT };
static const char *const paths[PATH_COUNT] = { "workload_graph[]", "ngpus" };

static const struct json_item *either(const struct json_tree *tree, const char *key, const char *other)
{
    const struct json_item *item = json_item_get(tree, tree->items, key);
    return item != NULL ? item : json_item_get(tree, tree->items, other);
}

static void take_deps(struct chakra_file *file, const struct json_tree *tree, const struct json_item *list)
{
    for (const struct json_item *item = json_item_child(tree, list, 0); item != NULL; item = json_item_next(tree, item)) {
        uint64_t id;
        if (json_item_unsigned(tree, item, &id)) {
            chakra_add_dep(file, id);
        }
    }
}

static int64_t small_or_none(double value)
{
    return value >= 0 && value < 1e7 ? (int64_t)value : -1;
}

static enum sim_status take_node(struct chakra_file *file, const struct json_tree *tree, struct sim_error *error)
{
    uint64_t id;
    if (!json_item_unsigned(tree, either(tree, "Id", "id"), &id)) {
        return sim_fail(error, SIM_BAD_TRACE, "%s: node %zu of workload_graph has no Id (a whole number)", file->path,
                        file->node_count);
    }
    struct chakra_node *node = chakra_add_node(file);
    const char *name = json_item_text(tree, either(tree, "Name", "name"));
    node->id = id;
    node->name = arena_intern(file->arena, name, strlen(name));
    node->type = (int)small_or_none(json_item_number(tree, either(tree, "NodeType", "type"), -1));
    node->on_host = strcmp(json_item_text(tree, json_item_get(tree, tree->items, "is_cpu_op")), "true") == 0;
    double runtime = json_item_number(tree, either(tree, "runtime", "duration_micros"), -1);
    node->duration_us = runtime > 0 && runtime < 86400e6 ? runtime : -1;
    node->comm_bytes = json_item_number(tree, either(tree, "comm_size", "tensor_size"), -1);
    node->comm_type = small_or_none(json_item_number(tree, json_item_get(tree, tree->items, "comm_type"), -1));
    node->source = small_or_none(json_item_number(tree, json_item_get(tree, tree->items, "comm_src"), -1));
    node->destination = small_or_none(json_item_number(tree, json_item_get(tree, tree->items, "comm_dst"), -1));
    node->tag = small_or_none(json_item_number(tree, json_item_get(tree, tree->items, "comm_tag"), -1));
    node->flops = json_item_number(tree, json_item_get(tree, tree->items, "num_ops"), -1);
    node->bytes = json_item_number(tree, json_item_get(tree, tree->items, "tensor_size"), -1);
    const struct json_item *control = either(tree, "ctrlDeps", "ctrl_deps");
    node->has_parent = json_item_unsigned(tree, json_item_child(tree, control, 0), &node->parent);
    take_deps(file, tree, control);
    take_deps(file, tree, json_item_get(tree, tree->items, "data_deps"));
    return SIM_OK;
}

static enum sim_status visit(void *context, size_t which, const struct json_tree *tree, struct sim_error *error)
{
    struct chakra_file *file = context;
    if (which == PATH_NODE) {
        return take_node(file, tree, error);
    }
    double gpus = json_item_number(tree, tree->items, -1);
    file->world_size = gpus >= 1 ? small_or_none(gpus) : -1;
    return SIM_OK;
}

static void restart(void *context)
{
    struct chakra_file *file = context;
    file->node_count = file->dep_count = 0;
}

enum sim_status chakra_json_read(const char *path, struct chakra_file **out, struct sim_error *error)
{
    *out = NULL;
    struct chakra_file *file = chakra_file_create(path);
    struct json_stream stream = { .path = path };
    enum sim_status status = json_items_read(&stream, paths, PATH_COUNT, visit, restart, file, error);
    if (status != SIM_OK) {
        chakra_file_destroy(file);
        return status;
    }
    if (stream.odd_number_count > 0) {
        snprintf(file->odd_numbers, sizeof file->odd_numbers, "%zu bare inf or nan taken as absent, first %s",
                 stream.odd_number_count, stream.odd_number);
    }
    *out = file;
    return SIM_OK;
}
