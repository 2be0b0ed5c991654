/* PyTorch execution traces (ExecutionTraceObserver), schemas 1.0.1 to 1.1.1: operators with their arguments, no kernels and
 * no times. Up to 1.0.1 a node's fields are flat (input_shapes, parent, rf_id); from 1.0.2 on, inputs and outputs are
 * objects, the parent is ctrl_deps and the rest are attrs of name, type and value. */
#include "workloads/trace/input_internal.h"
#include "workloads/trace/trace_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum path { PATH_SCHEMA, PATH_NODE, PATH_COUNT };
static const char *const paths[PATH_COUNT] = { "schema", "nodes[]" };

#define TEXT_BYTES_MAX ((size_t)4 << 20) /* of one argument list */

/* ---- values as text -------------------------------------------------------------------------------------------- */

struct text {
    char *bytes;
    size_t length, capacity;
};

static void append(struct text *out, const char *bytes, size_t length)
{
    if (out->length + length + 1 > out->capacity) {
        out->capacity = 2 * (out->length + length + 1) + 256;
        out->bytes = realloc(out->bytes, out->capacity);
        SIM_ASSERT(out->bytes != NULL, "out of memory");
    }
    memcpy(out->bytes + out->length, bytes, length);
    out->length += length;
    out->bytes[out->length] = '\0';
}

/* Depth is bounded by the reader's. */
static void render(const struct json_tree *tree, const struct json_item *item, struct text *out)
{
    if (item->kind == JSON_ITEM_LIST || item->kind == JSON_ITEM_MAP) {
        append(out, "[", 1);
        for (const struct json_item *child = json_item_child(tree, item, 0); child != NULL;) {
            render(tree, child, out);
            child = json_item_next(tree, child);
            append(out, ",", child != NULL);
        }
        append(out, "]", 1);
        return;
    }
    const char *text = json_item_text(tree, item);
    bool quoted = item->kind == JSON_ITEM_STRING;
    append(out, "\"", quoted);
    for (; *text != '\0'; text++) {
        append(out, *text == '"' || *text == '\\' || *text == '\'' ? "_" : text, 1); /* only names of values */
    }
    append(out, "\"", quoted);
}

static char *text_of(const struct json_tree *tree, const struct json_item *item)
{
    struct text out = { 0 };
    if (item == NULL) {
        return NULL;
    }
    render(tree, item, &out);
    if (out.length > TEXT_BYTES_MAX) {
        free(out.bytes);
        return NULL;
    }
    return out.bytes;
}

/* ---- a node ---------------------------------------------------------------------------------------------------- */

/* One node's fields in either form. */
struct fields {
    const struct json_tree *tree;
    const struct json_item *inputs, *shapes, *types, *strides, *outputs, *output_types, *attrs;
};

static const struct json_item *field(const struct fields *f, const char *key)
{
    const struct json_item *item = json_item_get(f->tree, f->tree->items, key);
    if (item != NULL) {
        return item;
    }
    for (const struct json_item *attr = json_item_child(f->tree, f->attrs, 0); attr != NULL;
         attr = json_item_next(f->tree, attr)) {
        if (strcmp(json_item_text(f->tree, json_item_get(f->tree, attr, "name")), key) == 0) {
            return json_item_get(f->tree, attr, "value");
        }
    }
    return NULL;
}

static struct fields fields_of(const struct json_tree *tree)
{
    const struct json_item *root = tree->items;
    const struct json_item *inputs = json_item_get(tree, root, "inputs"), *outputs = json_item_get(tree, root, "outputs");
    struct fields f = { .tree = tree, .inputs = inputs, .outputs = outputs, .attrs = json_item_get(tree, root, "attrs") };
    if (inputs != NULL && inputs->kind == JSON_ITEM_MAP) {
        f.inputs = json_item_get(tree, inputs, "values");
        f.shapes = json_item_get(tree, inputs, "shapes");
        f.types = json_item_get(tree, inputs, "types");
        f.strides = json_item_get(tree, inputs, "strides");
        f.outputs = json_item_get(tree, outputs, "values");
        f.output_types = json_item_get(tree, outputs, "types");
    } else {
        f.shapes = json_item_get(tree, root, "input_shapes");
        f.types = json_item_get(tree, root, "input_types");
        f.output_types = json_item_get(tree, root, "output_types");
    }
    return f;
}

/* A tensor is [tensor id, storage id, offset, elements, element bytes, "device"]. Visits those of a list of values, one level
 * of lists inside included. */
struct tensors_seen {
    bool on_device;
    uint64_t storages[64];
    size_t storage_count;
};

static bool see_tensor(const struct json_tree *tree, const struct json_item *value, struct tensors_seen *seen)
{
    const struct json_item *device = value->kind == JSON_ITEM_LIST && value->count == 6 ? json_item_child(tree, value, 5)
                                                                                        : NULL;
    if (device == NULL || device->kind != JSON_ITEM_STRING) {
        return false;
    }
    uint64_t storage = 0;
    seen->on_device = seen->on_device || strncmp(json_item_text(tree, device), "cuda", 4) == 0 ||
                      strncmp(json_item_text(tree, device), "hip", 3) == 0;
    if (json_item_unsigned(tree, json_item_child(tree, value, 1), &storage) && storage != 0 && seen->storage_count < 64) {
        seen->storages[seen->storage_count++] = storage;
    }
    return true;
}

static void see_tensors(const struct json_tree *tree, const struct json_item *values, struct tensors_seen *seen)
{
    for (const struct json_item *value = json_item_child(tree, values, 0); value != NULL;
         value = json_item_next(tree, value)) {
        if (see_tensor(tree, value, seen) || value->kind != JSON_ITEM_LIST) {
            continue;
        }
        for (const struct json_item *inner = json_item_child(tree, value, 0); inner != NULL;
             inner = json_item_next(tree, inner)) {
            see_tensor(tree, inner, seen);
        }
    }
}

static bool share_storage(const struct tensors_seen *a, const struct tensors_seen *b)
{
    for (size_t i = 0; i < a->storage_count; i++) {
        for (size_t k = 0; k < b->storage_count; k++) {
            if (a->storages[i] == b->storages[k]) {
                return true;
            }
        }
    }
    return false;
}

/* The in-place form of an operator ends in _, that with a result given in _out or .out. */
static bool writes_in_place(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && (name[length - 1] == '_' || strstr(name, "_foreach_") != NULL || strstr(name, "_fused_") != NULL ||
                          strstr(name, "copy") != NULL || strstr(name, "index_put") != NULL);
}

/* ---- collectives ----------------------------------------------------------------------------------------------- */

static double elements_of(const struct operator_tensors *tensors)
{
    double elements = 0;
    for (size_t i = 0; i < tensors->tensor_count && tensors->tensors[i].argument == tensors->tensors[0].argument; i++) {
        elements += tensor_elements(&tensors->tensors[i]);
    }
    return elements;
}

static const char *first_string(const struct fields *f)
{
    for (const struct json_item *value = json_item_child(f->tree, f->inputs, 0); value != NULL;
         value = json_item_next(f->tree, value)) {
        if (value->kind == JSON_ITEM_STRING && json_item_text(f->tree, value)[0] != '\0') {
            return json_item_text(f->tree, value);
        }
    }
    return "";
}

/* Lists of whole numbers among the values: the splits of an all-to-all, in then out. */
static const char *split_of(struct arena *arena, const struct fields *f, const char *key, size_t nth)
{
    const struct json_item *item = field(f, key);
    if (item == NULL) {
        for (const struct json_item *value = json_item_child(f->tree, f->inputs, 0); value != NULL && item == NULL;
             value = json_item_next(f->tree, value)) {
            const struct json_item *first = json_item_child(f->tree, value, 0);
            bool numbers = value->kind == JSON_ITEM_LIST && first != NULL && first->kind == JSON_ITEM_NUMBER &&
                           !(value->count == 6 && json_item_child(f->tree, value, 5)->kind == JSON_ITEM_STRING);
            item = numbers && nth-- == 0 ? value : NULL;
        }
    }
    char *text = item != NULL && item->kind == JSON_ITEM_STRING ? strdup(json_item_text(f->tree, item)) : text_of(f->tree, item);
    const char *kept = text == NULL ? NULL : arena_intern(arena, text, strlen(text));
    free(text);
    return kept;
}

static const char *kept_text(struct arena *arena, const char *text)
{
    return text[0] == '\0' ? NULL : arena_intern(arena, text, strlen(text));
}

static bool is_bookkeeping(const char *name)
{
    static const char *const names[] = { "wait", "init", "end", "startcoalesced", "endcoalesced", "barrier", "start_coalescing" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcasecmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void take_collective(struct arena *arena, const struct fields *f, struct execution_node *node)
{
    const char *name = json_item_text(f->tree, field(f, "collective_name"));
    name = name[0] != '\0' ? name : first_string(f);
    node->waits = name[0] == '\0' || is_bookkeeping(name);
    if (node->waits) {
        return;
    }
    const struct operator_tensors *tensors = operator_tensors_parse(arena, node->args);
    struct trace_collective_args *out = arena_alloc(arena, sizeof *out);
    const char *dtype = json_item_text(f->tree, field(f, "dtype"));
    uint32_t element_bytes = tensors->tensor_count > 0 ? tensors->tensors[0].element_bytes : 0;
    static const char *const by_bytes[] = { "", "byte", "half", "", "float", "", "", "", "long" };
    double in = json_item_number(f->tree, field(f, "in_msg_nelems"), -1);
    if (dtype[0] == '\0' && tensors->tensor_count > 0 && element_bytes == 0) { /* a list: of floats, as gradients are */
        element_bytes = 4;
    }
    *out = (struct trace_collective_args){
        .name = arena_intern(arena, name, strlen(name)),
        .dtype = kept_text(arena, dtype[0] != '\0' ? dtype : element_bytes < 9 ? by_bytes[element_bytes] : ""),
        .group_name = kept_text(arena, json_item_text(f->tree, field(f, "pg_name"))),
        .group_ranks = NULL,
        .in_split = split_of(arena, f, "in_split_size", 0),
        .out_split = split_of(arena, f, "out_split_size", 1),
        .in_elements = in >= 0 ? in : elements_of(tensors),
        .out_elements = json_item_number(f->tree, field(f, "out_msg_nelems"), -1),
        .group_size = json_item_number(f->tree, field(f, "pg_size"), -1),
    };
    struct trace_operator_args *args = arena_alloc(arena, sizeof *args);
    *args = *node->args;
    args->collective = out;
    node->args = args;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static enum sim_status take_node(struct execution_trace *trace, const struct json_tree *tree, struct sim_error *error)
{
    struct fields f = fields_of(tree);
    double thread = json_item_number(tree, field(&f, "tid"), 0);
    struct execution_node node = { .thread = 0 };
    const struct json_item *parent = json_item_get(tree, tree->items, "ctrl_deps");
    if (!json_item_unsigned(tree, json_item_get(tree, tree->items, "id"), &node.id)) {
        return sim_fail(error, SIM_BAD_TRACE, "%s: node %zu of the execution trace has no id (a whole number)", trace->path,
                        trace->node_count);
    }
    if (!(fabs(thread) < 0x1p63)) {
        return sim_fail(error, SIM_BAD_TRACE, "%s: node %llu of the execution trace has thread %g (tid), must be a whole number of 64 bits",
                        trace->path, (unsigned long long)node.id, thread);
    }
    node.thread = (int64_t)thread;
    parent = parent != NULL ? parent : field(&f, "parent");
    parent = parent != NULL && parent->kind == JSON_ITEM_LIST ? json_item_child(tree, parent, 0) : parent;
    json_item_unsigned(tree, parent, &node.parent);
    const char *name = json_item_text(tree, json_item_get(tree, tree->items, "name"));
    node.name = arena_intern(trace->arena, name, strlen(name));
    node.has_schema = json_item_text(tree, field(&f, "op_schema"))[0] != '\0';
    struct tensors_seen in = { 0 }, out = { 0 };
    see_tensors(tree, f.inputs, &in);
    see_tensors(tree, f.outputs, &out);
    node.on_device = in.on_device || out.on_device;
    node.is_view = out.storage_count > 0 && share_storage(&in, &out) && !writes_in_place(name);
    char *values = text_of(tree, f.inputs), *shapes = text_of(tree, f.shapes), *types = text_of(tree, f.types),
         *strides = text_of(tree, f.strides);
    node.args = operator_args_from_lists(trace->arena, values, shapes, types, strides);
    free(values);
    free(shapes);
    free(types);
    free(strides);
    if (strcmp(name, "record_param_comms") == 0) {
        take_collective(trace->arena, &f, &node);
    }
    if (trace->node_count == trace->node_capacity) {
        trace->node_capacity = trace->node_capacity == 0 ? 1024 : 2 * trace->node_capacity;
        trace->nodes = realloc(trace->nodes, trace->node_capacity * sizeof *trace->nodes);
        SIM_ASSERT(trace->nodes != NULL, "out of memory for %zu nodes", trace->node_capacity);
    }
    trace->nodes[trace->node_count++] = node;
    return SIM_OK;
}

static enum sim_status visit(void *context, size_t which, const struct json_tree *tree, struct sim_error *error)
{
    struct execution_trace *trace = context;
    if (which == PATH_NODE) {
        return take_node(trace, tree, error);
    }
    snprintf(trace->schema, sizeof trace->schema, "%.39s", json_item_text(tree, tree->items));
    return SIM_OK;
}

static void restart(void *context)
{
    struct execution_trace *trace = context;
    trace->node_count = 0;
}

static int compare_ids(const void *a, const void *b)
{
    const struct execution_node *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

enum sim_status execution_trace_read(const char *path, struct execution_trace **out, struct sim_error *error)
{
    *out = NULL;
    struct execution_trace *trace = calloc(1, sizeof *trace);
    SIM_ASSERT(trace != NULL, "out of memory");
    trace->arena = arena_create();
    trace->path = path;
    struct json_stream stream = { .path = path };
    enum sim_status status = json_items_read(&stream, paths, PATH_COUNT, visit, restart, trace, error);
    if (status == SIM_OK && trace->node_count == 0) {
        status = sim_fail(error, SIM_BAD_TRACE, "%s: an execution trace without nodes", path);
    }
    if (status != SIM_OK) {
        execution_trace_destroy(trace);
        return status;
    }
    qsort(trace->nodes, trace->node_count, sizeof *trace->nodes, compare_ids);
    if (stream.odd_number_count > 0) {
        snprintf(trace->odd_numbers, sizeof trace->odd_numbers, "%zu bare inf or nan taken as absent, first %s",
                 stream.odd_number_count, stream.odd_number);
    }
    *out = trace;
    return SIM_OK;
}

void execution_trace_destroy(struct execution_trace *trace)
{
    if (trace != NULL) {
        arena_destroy(trace->arena);
        free(trace->nodes);
        free(trace);
    }
}

/* ---- joined to a profiler trace -------------------------------------------------------------------------------- */

/* Occurrences of a name in order: events by start, nodes by id. */
struct occurrence {
    const char *name;
    int64_t order;
    uint32_t index;
};

static int compare_occurrences(const void *a, const void *b)
{
    const struct occurrence *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order != 0) {
        return order;
    }
    return x->order != y->order ? (x->order < y->order ? -1 : 1) : x->index < y->index ? -1 : x->index > y->index;
}

static const char *moved(struct arena *arena, const char *text)
{
    return text == NULL ? NULL : arena_intern(arena, text, strlen(text));
}

static const struct trace_operator_args *moved_args(struct arena *arena, const struct trace_operator_args *args)
{
    struct trace_operator_args *out = arena_alloc(arena, sizeof *out);
    *out = (struct trace_operator_args){ moved(arena, args->dims), moved(arena, args->types), moved(arena, args->strides),
                                         moved(arena, args->concrete), NULL };
    if (args->collective != NULL) {
        struct trace_collective_args *collective = arena_alloc(arena, sizeof *collective);
        *collective = *args->collective;
        collective->name = moved(arena, collective->name);
        collective->dtype = moved(arena, collective->dtype);
        collective->group_name = moved(arena, collective->group_name);
        collective->in_split = moved(arena, collective->in_split);
        collective->out_split = moved(arena, collective->out_split);
        out->collective = collective;
    }
    return out;
}

static bool lacks_args(const struct trace_event *event)
{
    const struct trace_operator_args *args = event->args;
    bool communication = strcmp(event->name, "record_param_comms") == 0;
    return args == NULL || (communication ? args->collective == NULL : args->dims == NULL || args->concrete == NULL);
}

/* Shapes that the profiler did record must be the node's. */
static bool contradicts(const struct trace_event *event, const struct execution_node *node)
{
    const struct trace_operator_args *args = event->args;
    if (args == NULL || args->dims == NULL || node->args->dims == NULL) {
        return false;
    }
    return strcmp(args->dims, node->args->dims) != 0 && strchr(args->dims, '1') != NULL && strstr(args->dims, "[[") == NULL;
}

size_t execution_trace_join(const struct execution_trace *trace, struct trace_file *file, size_t *considered)
{
    struct occurrence *nodes = malloc((trace->node_count + 1) * sizeof *nodes);
    struct occurrence *events = malloc((file->event_count + 1) * sizeof *events);
    SIM_ASSERT(nodes != NULL && events != NULL, "out of memory");
    size_t event_count = 0, joined = 0;
    for (uint32_t i = 0; i < trace->node_count; i++) {
        nodes[i] = (struct occurrence){ trace->nodes[i].name, (int64_t)i, i };
    }
    for (uint32_t i = 0; i < file->event_count; i++) {
        if (file->events[i].category == TRACE_OPERATOR) {
            events[event_count++] = (struct occurrence){ file->events[i].name, file->events[i].start_ns, i };
        }
    }
    qsort(nodes, trace->node_count, sizeof *nodes, compare_occurrences);
    if (event_count > 0) {
        qsort(events, event_count, sizeof *events, compare_occurrences);
    }
    *considered = 0;
    for (size_t e = 0, n = 0, e_end, n_end; e < event_count; e = e_end) {
        for (e_end = e; e_end < event_count && strcmp(events[e_end].name, events[e].name) == 0; e_end++) {
        }
        while (n < trace->node_count && strcmp(nodes[n].name, events[e].name) < 0) {
            n++;
        }
        for (n_end = n; n_end < trace->node_count && strcmp(nodes[n_end].name, events[e].name) == 0; n_end++) {
        }
        for (size_t k = e; k < e_end; k++) {
            struct trace_event *event = &file->events[events[k].index];
            if (!lacks_args(event)) {
                continue;
            }
            ++*considered;
            bool repeats = n_end > n && (e_end - e) % (n_end - n) == 0; /* as many, or as many in each of several steps */
            const struct execution_node *node = repeats ? &trace->nodes[nodes[n + (k - e) % (n_end - n)].index] : NULL;
            if (node != NULL && !contradicts(event, node)) {
                event->args = moved_args(file->arena, node->args);
                joined++;
            }
        }
        n = n_end;
    }
    free(nodes);
    free(events);
    return joined;
}

/* ---- alone ----------------------------------------------------------------------------------------------------- */

/* The kernel that an operator is taken to launch, by part of its name; the first that fits counts. What no line names is an
 * elementwise kernel of its name. */
struct operator_kernel {
    const char *operator_part, *kernel;
};

static const struct operator_kernel operator_kernels[] = {
    { "convolution_backward", "dgrad" },
    { "conv", "fprop" },
    { "scaled_dot_product", "flash_fwd" },
    { "addmm", "gemm" },
    { "bmm", "gemm" },
    { "::mm", "gemm" },
    { "matmul", "gemm" },
    { "_scaled_mm", "gemm" },
    { "::mv", "gemv" },
    { "::dot", "gemv" },
    { "native_layer_norm_backward", "layer_norm_grad_input" },
    { "layer_norm", "layer_norm" },
    { "batch_norm", "batch_norm" },
    { "softmax_backward", "softmax_warp_backward" },
    { "softmax", "softmax_warp_forward" },
    { "nll_loss_backward", "nll_loss_backward" },
    { "nll_loss", "nll_loss_forward" },
    { "_embedding_bag_dense_backward", "compute_grad_weight" },
    { "embedding_dense_backward", "compute_grad_weight" },
    { "_embedding_bag", "EmbeddingBag_updateOutputKernel" },
    { "embedding", "vectorized_gather_kernel" },
    { "index_select", "indexSelectLargeIndex" },
    { "index_add", "indexFuncLargeIndex" },
    { "index_put", "indexing_backward_kernel" },
    { "lookup", "embedding" },
    { "Lookup", "embedding" },
    { "::cat", "CatArrayBatchedCopy" },
    { "_foreach_", "multi_tensor_apply_kernel" },
    { "_fused_", "multi_tensor_apply_kernel" },
    { "::sum", "reduce_kernel<sum>" },
    { "::mean", "reduce_kernel<mean>" },
    { "::norm", "reduce_kernel<norm>" },
    { "::max", "reduce_kernel<max>" },
    { "::min", "reduce_kernel<min>" },
    { "::argmax", "reduce_kernel<argmax>" },
    { "sort", "radix_sort" },
    { "unique", "radix_sort" },
    { "zero_", "FillFunctor" },
    { "fill_", "FillFunctor" },
    { "copy_", "direct_copy_kernel elementwise_kernel" },
    { "clone", "direct_copy_kernel elementwise_kernel" },
    { "::relu", "elementwise_kernel clamp" },
    { "::add", "elementwise_kernel CUDAFunctor_add" },
    { "::sub", "elementwise_kernel CUDAFunctor_add" },
    { "::mul", "elementwise_kernel MulFunctor" },
    { "::div", "elementwise_kernel DivFunctor" },
};

/* Operators that touch no element: they make, describe or hand over tensors. */
static bool launches_nothing(const char *name)
{
    if (strstr(name, "::") != NULL && strncmp(name, "aten::", 6) != 0) {
        return false; /* a library's own operators do work */
    }
    static const char *const parts[] = { "::empty", "resize_", "::set_", "record_stream", "is_pinned", "::detach", "detach_",
                                         "resolve_", "lift_fresh", "::view", "as_strided", "_reshape_alias", "::alias",
                                         "::result_type", "::to", "::size", "AccumulateGrad", "expand", "::t", "transpose",
                                         "::narrow", "::slice", "::select", "::split", "::chunk", "::unbind", "squeeze",
                                         "::permute", "::reshape", "::item", "is_nonzero", "_has_", "::stride", "pin_memory" };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *found = strstr(name, parts[i]);
        if (found != NULL && (parts[i][0] != ':' || strlen(parts[i]) > 4 || found[strlen(parts[i])] == '\0')) {
            return true;
        }
    }
    return false;
}

static const char *kernel_of(struct arena *arena, const char *operator_name)
{
    const char *kernel = "elementwise_kernel";
    for (size_t i = 0; i < sizeof operator_kernels / sizeof operator_kernels[0]; i++) {
        if (strstr(operator_name, operator_kernels[i].operator_part) != NULL) {
            kernel = operator_kernels[i].kernel;
            break;
        }
    }
    char text[256];
    int length = snprintf(text, sizeof text, "%s (of %.180s)", kernel, operator_name);
    return arena_intern(arena, text, (size_t)length);
}

/* Arrays over nodes: index of the parent (TRACE_NONE), last node below, and whether it or what it calls launches. */
struct tree_of_nodes {
    uint32_t *parent, *last;
    bool *launches, *below;
};

static uint32_t find_node(const struct execution_trace *trace, uint64_t id)
{
    struct execution_node key = { .id = id };
    const struct execution_node *node = bsearch(&key, trace->nodes, trace->node_count, sizeof key, compare_ids);
    return node == NULL ? TRACE_NONE : (uint32_t)(node - trace->nodes);
}

static bool may_launch(const struct execution_node *node)
{
    if (strcmp(node->name, "record_param_comms") == 0) {
        return !node->waits;
    }
    bool operator_like = node->has_schema || strstr(node->name, "CppNode<") != NULL;
    return operator_like && node->on_device && !node->is_view && !launches_nothing(node->name);
}

static void find_launching(struct tree_of_nodes *t, const struct execution_trace *trace)
{
    for (uint32_t i = 0; i < trace->node_count; i++) {
        uint32_t parent = find_node(trace, trace->nodes[i].parent);
        t->parent[i] = parent < i ? parent : TRACE_NONE; /* ids ascend from caller to callee: no cycles */
        t->last[i] = i;
    }
    for (uint32_t i = (uint32_t)trace->node_count; i-- > 0;) {
        uint32_t parent = t->parent[i];
        bool library = strncmp(trace->nodes[i].name, "fbgemm::", 8) == 0 || strstr(trace->nodes[i].name, "CppNode<") != NULL;
        t->launches[i] = (!t->below[i] || library) && may_launch(&trace->nodes[i]); /* those also fill their buffers by operators */
        if (parent != TRACE_NONE) {
            t->below[parent] = t->below[parent] || t->below[i] || t->launches[i];
            t->last[parent] = t->last[i] > t->last[parent] ? t->last[i] : t->last[parent];
        }
    }
}

static void add_events(struct trace_file *file, const struct execution_trace *trace, const struct tree_of_nodes *t, uint32_t i,
                       uint32_t device_track)
{
    static const int64_t step_ns = 10000;
    const struct execution_node *node = &trace->nodes[i];
    char thread[24];
    int length = snprintf(thread, sizeof thread, "%lld", (long long)node->thread);
    const char *thread_text = arena_intern(file->arena, thread, (size_t)length);
    int64_t start = (int64_t)i * step_ns, end = ((int64_t)t->last[i] + 1) * step_ns - (int64_t)1;
    struct trace_event event = { .start_ns = start,
                                 .duration_ns = end - start,
                                 .name = moved(file->arena, node->name),
                                 .args = moved_args(file->arena, node->args),
                                 .track = trace_file_track(file, arena_intern(file->arena, "host", 4), thread_text),
                                 .category = TRACE_OPERATOR };
    trace_file_add(file, &event);
    if (!t->launches[i]) {
        return;
    }
    const struct trace_operator_args *args = event.args;
    struct trace_device_args *device = arena_alloc(file->arena, sizeof *device);
    *device = (struct trace_device_args){ .bytes = -1, .collective = args->collective };
    struct trace_event call = { .start_ns = start + step_ns / 4,
                                .duration_ns = step_ns / 4,
                                .correlation = (uint64_t)i + 1,
                                .name = arena_intern(file->arena, "cudaLaunchKernel", 16),
                                .track = event.track,
                                .category = TRACE_CALL };
    trace_file_add(file, &call);
    struct trace_event kernel = { .start_ns = start + step_ns / 2,
                                  .correlation = call.correlation,
                                  .name = kernel_of(file->arena, node->name),
                                  .args = device,
                                  .track = device_track,
                                  .category = TRACE_KERNEL };
    trace_file_add(file, &kernel);
}

enum sim_status execution_trace_synthesise(const struct execution_trace *trace, struct trace_file **out,
                                           struct sim_error *error)
{
    size_t count = trace->node_count;
    struct tree_of_nodes t = { calloc(count + 1, sizeof *t.parent), calloc(count + 1, sizeof *t.last),
                               calloc(count + 1, sizeof *t.launches), calloc(count + 1, sizeof *t.below) };
    SIM_ASSERT(t.parent != NULL && t.last != NULL && t.launches != NULL && t.below != NULL, "out of memory");
    struct trace_file *file = trace_file_create(trace->path);
    file->synthetic = true;
    find_launching(&t, trace);
    uint32_t device_track = trace_file_track(file, arena_intern(file->arena, "device", 6), arena_intern(file->arena, "0", 1));
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        add_events(file, trace, &t, i, device_track);
        any = any || t.launches[i];
    }
    file->list_event_count = count;
    memcpy(file->odd_numbers, trace->odd_numbers, sizeof file->odd_numbers);
    free(t.parent);
    free(t.last);
    free(t.launches);
    free(t.below);
    if (!any) {
        trace_file_destroy(file);
        *out = NULL;
        return sim_fail(error, SIM_BAD_TRACE, "%s: %zu nodes and no operator with tensors in device memory", trace->path, count);
    }
    *out = file;
    return SIM_OK;
}
