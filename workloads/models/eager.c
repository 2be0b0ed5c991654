/* Graph and memory side of the eager step: host calls, launches, kernels, blocks. The tape is in tape.c. */
#include "workloads/models/eager_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define ALLOCATOR_ROUNDING 512.0 /* c10 CUDACachingAllocator: kMinBlockSize */

struct storage {
    uint32_t references;
    uint32_t allocation; /* index into graph->allocations */
    double bytes;
};

double eager_type_bytes(enum eager_type type)
{
    static const double bytes[EAGER_TYPES] = { 4, 2, 2, 8 };
    return bytes[type];
}

const char *eager_type_text(enum eager_type type)
{
    static const char *const texts[EAGER_TYPES] = { "fp32", "bf16", "fp16", "int64" };
    return texts[type];
}

struct eager *eager_create(struct graph *graph, uint32_t rank)
{
    struct eager *eager = calloc(1, sizeof *eager);
    SIM_ASSERT(eager != NULL, "out of memory");
    eager->graph = graph;
    eager->rank = rank;
    eager->matrix_type = EAGER_FP32;
    eager->streams = 1;
    eager->parameter_shards = eager->state_shards = 1;
    return eager;
}

void eager_destroy(struct eager *eager)
{
    if (eager == NULL) {
        return;
    }
    for (size_t i = 0; i < eager->function_count; i++) {
        free(eager->functions[i]->edges);
        free(eager->functions[i]->out);
        free(eager->functions[i]);
    }
    for (uint32_t i = 0; i < eager->parameter_count; i++) {
        free(eager->parameters[i]->storage);
        free(eager->parameters[i]->gradient);
        free(eager->parameters[i]);
    }
    for (uint32_t i = 0; i < eager->region_count; i++) {
        free(eager->regions[i]->functions);
        free(eager->regions[i]);
    }
    free(eager->regions);
    free(eager->parameters);
    free(eager->functions);
    free(eager);
}

/* ---- host and device ------------------------------------------------------------------------------------------- */

static struct graph_node node_of(const struct eager *eager, enum graph_node_kind kind, const char *name)
{
    return (struct graph_node){ .kind = (uint32_t)kind,
                                .rank = eager->rank,
                                .thread = eager->thread,
                                .name = graph_intern(eager->graph, name),
                                .traced_start_us = -1,
                                .launched = NONE,
                                .waits_for = NONE };
}

void eager_host(struct eager *eager, const char *calls)
{
    if (eager->stopped) {
        return;
    }
    for (const char *at = calls; *at != '\0';) {
        size_t length = strcspn(at, " "), depth = strspn(at, ".");
        char name[96];
        if (length > depth) {
            snprintf(name, sizeof name, "%.*s", (int)(length - depth), at + depth);
            struct graph_node node = node_of(eager, GRAPH_HOST_OP, name);
            node.depth = (uint32_t)depth;
            graph_add(eager->graph, &node);
        }
        at += length + (at[length] == ' ' ? 1 : 0);
    }
}

static uint32_t launch(struct eager *eager, uint32_t stream, struct graph_node *device)
{
    struct graph_node host = node_of(eager, GRAPH_HOST_LAUNCH, "launch");
    host.launched = (uint32_t)eager->graph->node_count + 1;
    graph_add(eager->graph, &host);
    device->stream = stream;
    eager->streams = stream >= eager->streams ? stream + 1 : eager->streams;
    return graph_add(eager->graph, device);
}

static void kernel(struct eager *eager, uint32_t stream, const char *category, const char *name,
                   const char *suite, const char *kernel_name, const char *format, va_list arguments)
{
    char params[512];
    if (eager->stopped) {
        return;
    }
    int length = vsnprintf(params, sizeof params, format, arguments);
    SIM_ASSERT(length >= 0 && length < (int)sizeof params, "%s/%s: parameters too long", suite, kernel_name);
    struct graph_node node = node_of(eager, GRAPH_KERNEL, name);
    node.operator_name = node.name;
    node.category = graph_intern(eager->graph, category);
    node.recognition = GRAPH_RECOGNISED;
    node.params = graph_intern(eager->graph, params);
    node.traced_us = 0;
    snprintf(node.suite, sizeof node.suite, "%s", suite);
    snprintf(node.kernel, sizeof node.kernel, "%s", kernel_name);
    launch(eager, stream, &node);
}

void eager_kernel(struct eager *eager, const char *category, const char *name, const char *suite,
                  const char *kernel_name, const char *params, ...)
{
    va_list arguments;
    va_start(arguments, params);
    kernel(eager, 0, category, name, suite, kernel_name, params, arguments);
    va_end(arguments);
}

void eager_kernel_on(struct eager *eager, uint32_t stream, const char *category, const char *name,
                     const char *suite, const char *kernel_name, const char *params, ...)
{
    va_list arguments;
    va_start(arguments, params);
    kernel(eager, stream, category, name, suite, kernel_name, params, arguments);
    va_end(arguments);
}

void eager_kernel_bytes(struct eager *eager, const char *category, const char *name, double bytes_read,
                        double bytes_written)
{
    if (eager->stopped) {
        return;
    }
    struct graph_node node = node_of(eager, GRAPH_KERNEL, name);
    node.operator_name = node.name;
    node.category = graph_intern(eager->graph, category);
    node.recognition = GRAPH_BY_BYTES;
    node.bytes_read = bytes_read;
    node.bytes_written = bytes_written;
    launch(eager, 0, &node);
}

uint32_t eager_collective(struct eager *eager, uint32_t stream, const char *kind, double bytes,
                          uint32_t group_size, const char *group, uint64_t sequence)
{
    struct graph_collective *collective = graph_add_collective(eager->graph);
    struct graph_node node = node_of(eager, GRAPH_COLLECTIVE, kind);
    snprintf(collective->kind, sizeof collective->kind, "%s", kind);
    snprintf(collective->group, sizeof collective->group, "%s", group);
    collective->bytes = bytes;
    collective->group_size = group_size;
    collective->sequence = sequence;
    node.collective = collective;
    node.category = graph_intern(eager->graph, "collective");
    return launch(eager, stream, &node);
}

uint32_t eager_record(struct eager *eager, uint32_t stream)
{
    struct graph_node node = node_of(eager, GRAPH_EVENT_RECORD, "record");
    node.stream = stream;
    eager->streams = stream >= eager->streams ? stream + 1 : eager->streams;
    return graph_add(eager->graph, &node);
}

void eager_wait(struct eager *eager, uint32_t stream, uint32_t record)
{
    struct graph_node node = node_of(eager, GRAPH_EVENT_WAIT, "wait");
    node.stream = stream;
    node.waits_for = record;
    eager->streams = stream >= eager->streams ? stream + 1 : eager->streams;
    graph_add(eager->graph, &node);
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static double rounded(double bytes)
{
    return ceil(bytes / ALLOCATOR_ROUNDING) * ALLOCATOR_ROUNDING;
}

struct storage *eager_storage(struct eager *eager, double bytes, enum graph_memory_owner owner)
{
    struct storage *storage = calloc(1, sizeof *storage);
    SIM_ASSERT(storage != NULL, "out of memory");
    storage->references = 1;
    storage->bytes = eager->stopped ? 0 : bytes;
    struct graph_allocation allocation = { .rank = eager->rank,
                                           .from_node = (uint32_t)eager->graph->node_count,
                                           .until_node = NONE,
                                           .owner = (uint32_t)owner,
                                           .bytes = rounded(storage->bytes) };
    storage->allocation = graph_add_allocation(eager->graph, &allocation);
    return storage;
}

struct storage *eager_keep(struct storage *storage)
{
    if (storage != NULL) {
        storage->references++;
    }
    return storage;
}

void eager_drop(struct eager *eager, struct storage *storage)
{
    if (storage != NULL && --storage->references == 0) {
        eager->graph->allocations[storage->allocation].until_node = (uint32_t)eager->graph->node_count;
        free(storage);
    }
}

double eager_storage_bytes(const struct storage *storage)
{
    return storage->bytes;
}

bool eager_is_shared(const struct storage *storage)
{
    return storage->references > 1;
}

void eager_owned_by(struct eager *eager, const struct storage *storage, enum graph_memory_owner owner)
{
    eager->graph->allocations[storage->allocation].owner = (uint32_t)owner;
}

void eager_permanent(struct eager *eager, double bytes, enum graph_memory_owner owner)
{
    struct graph_allocation allocation = { .rank = eager->rank,
                                           .from_node = 0,
                                           .until_node = NONE,
                                           .owner = (uint32_t)owner,
                                           .bytes = rounded(bytes) };
    graph_add_allocation(eager->graph, &allocation);
}

struct tensor *eager_tensor(struct eager *eager, double rows, double columns, enum eager_type type)
{
    struct tensor *tensor = calloc(1, sizeof *tensor);
    SIM_ASSERT(tensor != NULL, "out of memory");
    tensor->rows = rows;
    tensor->columns = columns;
    tensor->type = type;
    tensor->storage = eager_storage(eager, rows * columns * eager_type_bytes(type), GRAPH_MEMORY_ACTIVATIONS);
    return tensor;
}

struct tensor *eager_view(struct eager *eager, const struct tensor *of, double rows, double columns)
{
    struct tensor *tensor = malloc(sizeof *tensor);
    (void)eager;
    SIM_ASSERT(tensor != NULL, "out of memory");
    *tensor = *of;
    tensor->rows = rows;
    tensor->columns = columns;
    tensor->parameter = NULL;
    eager_keep(tensor->storage);
    return tensor;
}

void eager_release(struct eager *eager, struct tensor *tensor)
{
    if (tensor != NULL) {
        eager_drop(eager, tensor->storage);
        free(tensor);
    }
}

double tensor_elements_of(const struct tensor *tensor)
{
    return tensor->rows * tensor->columns;
}

void eager_id_params(const struct parameter *table, char text[64])
{
    int used = 0;
    text[0] = '\0';
    if (table->skew > 0) {
        used = snprintf(text, 64, ";generator=zipf;alpha=%g", table->skew);
    }
    if (table->hot_share > 0) {
        snprintf(text + used, 64 - (size_t)used, ";hot_share=%g", table->hot_share);
    }
}

struct parameter *eager_parameter(struct eager *eager, const char *name, double rows, double columns)
{
    struct parameter *parameter = calloc(1, sizeof *parameter);
    struct parameter **all = realloc(eager->parameters, (eager->parameter_count + 1) * sizeof(void *));
    SIM_ASSERT(parameter != NULL && all != NULL, "out of memory");
    eager->parameters = all;
    all[eager->parameter_count] = parameter;
    parameter->name = graph_intern(eager->graph, name);
    parameter->rows = rows;
    parameter->columns = columns;
    parameter->index = eager->parameter_count++;
    return parameter;
}
