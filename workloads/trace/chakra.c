/* The one door to protobuf-c: a Chakra execution trace, each message behind its length as a varint, the metadata first. */
#include "workloads/trace/chakra_internal.h"
#include "workloads/trace/chakra_et.pb-c.h"
#include "workloads/trace/input_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES_MAX ((uint64_t)16 << 20) /* a node is tens to thousands of bytes */
#define NODES_MAX ((size_t)100 << 20)

struct chakra_file *chakra_file_create(const char *path)
{
    struct chakra_file *file = calloc(1, sizeof *file);
    SIM_ASSERT(file != NULL, "out of memory");
    file->arena = arena_create();
    file->path = path;
    file->world_size = -1;
    return file;
}

void chakra_file_destroy(struct chakra_file *file)
{
    if (file == NULL) {
        return;
    }
    arena_destroy(file->arena);
    free(file->nodes);
    free(file->deps);
    free(file);
}

struct chakra_node *chakra_add_node(struct chakra_file *file)
{
    if (file->node_count == file->node_capacity) {
        file->node_capacity = file->node_capacity == 0 ? 1024 : 2 * file->node_capacity;
        file->nodes = realloc(file->nodes, file->node_capacity * sizeof *file->nodes);
        SIM_ASSERT(file->nodes != NULL, "out of memory for %zu nodes", file->node_capacity);
    }
    struct chakra_node *node = &file->nodes[file->node_count++];
    *node = (struct chakra_node){ .duration_us = -1,
                                  .flops = -1,
                                  .bytes = -1,
                                  .comm_bytes = -1,
                                  .comm_type = -1,
                                  .source = -1,
                                  .destination = -1,
                                  .tag = -1,
                                  .dep_first = file->dep_count };
    return node;
}

void chakra_add_dep(struct chakra_file *file, uint64_t id)
{
    if (file->dep_count == file->dep_capacity) {
        file->dep_capacity = file->dep_capacity == 0 ? 1024 : 2 * file->dep_capacity;
        file->deps = realloc(file->deps, file->dep_capacity * sizeof *file->deps);
        SIM_ASSERT(file->deps != NULL, "out of memory for %zu dependencies", file->dep_capacity);
    }
    file->deps[file->dep_count++] = id;
    file->nodes[file->node_count - 1].dep_count++;
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

/* Bytes read ahead of what is taken. */
struct messages {
    struct byte_source *source;
    uint8_t *bytes;
    size_t from, until, capacity;
    uint64_t byte; /* of the file, at `from` */
    uint64_t count;
};

/* At least `wanted` bytes from `from` on, if the file has them. */
static bool have(struct messages *m, size_t wanted)
{
    if (m->until - m->from >= wanted) {
        return true;
    }
    if (m->from > 0) { /* NULL before the first read */
        memmove(m->bytes, m->bytes + m->from, m->until - m->from);
    }
    m->until -= m->from;
    m->from = 0;
    if (m->capacity < wanted + BYTE_SOURCE_CHUNK) {
        m->capacity = wanted + BYTE_SOURCE_CHUNK;
        m->bytes = realloc(m->bytes, m->capacity);
        SIM_ASSERT(m->bytes != NULL, "out of memory for a message of %zu bytes", wanted);
    }
    while (m->until < wanted) {
        size_t got = byte_source_read(m->source, m->bytes + m->until, m->capacity - m->until);
        if (got == 0) {
            return false;
        }
        m->until += got;
    }
    return true;
}

/* Length of the next message: 1, 0 at the clean end, -1 malformed. */
static int read_length(struct messages *m, uint64_t *length)
{
    *length = 0;
    for (unsigned shift = 0, i = 0; shift < 64; shift += 7, i++) {
        if (!have(m, i + 1)) {
            return i == 0 && byte_source_damage(m->source) == NULL ? 0 : -1;
        }
        uint8_t byte = m->bytes[m->from + i];
        *length |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            m->from += i + 1;
            m->byte += i + 1;
            return 1;
        }
    }
    return -1;
}

/* ---- attributes ------------------------------------------------------------------------------------------------ */

/* A writer takes the type it likes: signed, unsigned, wide or not. NAN: not a number. */
static double number_of(const ChakraEt__AttributeProto *attr)
{
    switch (attr->value_case) {
    case CHAKRA_ET__ATTRIBUTE_PROTO__VALUE_DOUBLE_VAL: return attr->double_val;
    case CHAKRA_ET__ATTRIBUTE_PROTO__VALUE_FLOAT_VAL: return (double)attr->float_val;
    case CHAKRA_ET__ATTRIBUTE_PROTO__VALUE_INT32_VAL: return attr->int32_val;
    case CHAKRA_ET__ATTRIBUTE_PROTO__VALUE_INT64_VAL: return (double)attr->int64_val;
    case CHAKRA_ET__ATTRIBUTE_PROTO__VALUE_UINT32_VAL: return attr->uint32_val;
    case CHAKRA_ET__ATTRIBUTE_PROTO__VALUE_UINT64_VAL: return (double)attr->uint64_val;
    case CHAKRA_ET__ATTRIBUTE_PROTO__VALUE_SINT32_VAL: return attr->sint32_val;
    case CHAKRA_ET__ATTRIBUTE_PROTO__VALUE_SINT64_VAL: return (double)attr->sint64_val;
    case CHAKRA_ET__ATTRIBUTE_PROTO__VALUE_BOOL_VAL: return attr->bool_val ? 1 : 0;
    default: return NAN;
    }
}

static double size_or_none(double value)
{
    return value >= 0 && value < 1e18 ? value : -1;
}

static int64_t index_or_none(double value)
{
    return value >= 0 && value < 1e7 ? (int64_t)value : -1;
}

static void take_attribute(struct chakra_file *file, struct chakra_node *node, const ChakraEt__AttributeProto *attr)
{
    double value = number_of(attr);
    const char *name = attr->name;
    if (strcmp(name, "is_cpu_op") == 0) {
        node->on_host = value == 1;
    } else if (strcmp(name, "comm_type") == 0) {
        node->comm_type = index_or_none(value);
    } else if (strcmp(name, "comm_size") == 0) {
        node->comm_bytes = size_or_none(value);
    } else if (strcmp(name, "comm_src") == 0) {
        node->source = index_or_none(value);
    } else if (strcmp(name, "comm_dst") == 0) {
        node->destination = index_or_none(value);
    } else if (strcmp(name, "comm_tag") == 0) {
        node->tag = index_or_none(value);
    } else if (strcmp(name, "num_ops") == 0) {
        node->flops = size_or_none(value);
    } else if (strcmp(name, "tensor_size") == 0) {
        node->bytes = size_or_none(value);
    } else if (strcmp(name, "pg_name") == 0 && attr->value_case == CHAKRA_ET__ATTRIBUTE_PROTO__VALUE_STRING_VAL) {
        node->group = arena_intern(file->arena, attr->string_val, strlen(attr->string_val));
    }
}

static void take_node(struct chakra_file *file, const ChakraEt__Node *message)
{
    struct chakra_node *node = chakra_add_node(file);
    node->id = message->id;
    node->name = arena_intern(file->arena, message->name, strlen(message->name));
    node->type = message->type;
    node->duration_us = message->duration_micros > 0 && message->duration_micros < UINT64_C(86400000000)
                            ? (double)message->duration_micros
                            : -1;
    for (size_t i = 0; i < message->n_attr; i++) {
        take_attribute(file, node, message->attr[i]);
    }
    if (message->inputs != NULL && node->on_host) {
        node->args = operator_args_from_lists(file->arena, message->inputs->values, message->inputs->shapes,
                                              message->inputs->types, NULL);
    }
    node->has_parent = message->n_ctrl_deps > 0;
    node->parent = node->has_parent ? message->ctrl_deps[0] : 0;
    for (size_t i = 0; i < message->n_ctrl_deps; i++) {
        chakra_add_dep(file, message->ctrl_deps[i]);
    }
    for (size_t i = 0; i < message->n_data_deps; i++) {
        chakra_add_dep(file, message->data_deps[i]);
    }
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static enum sim_status take_message(struct chakra_file *file, const struct messages *m, size_t length,
                                    struct sim_error *error)
{
    const uint8_t *bytes = m->bytes + m->from;
    if (m->count == 0) {
        ChakraEt__GlobalMetadata *metadata = chakra_et__global_metadata__unpack(NULL, length, bytes);
        if (metadata != NULL) {
            snprintf(file->version, sizeof file->version, "%.39s", metadata->version);
            chakra_et__global_metadata__free_unpacked(metadata, NULL);
            return SIM_OK;
        }
    } else {
        ChakraEt__Node *node = chakra_et__node__unpack(NULL, length, bytes);
        if (node != NULL) {
            take_node(file, node);
            chakra_et__node__free_unpacked(node, NULL);
            return SIM_OK;
        }
    }
    return sim_fail(error, SIM_BAD_TRACE, "%s: message %llu at byte %llu is no Chakra %s", file->path,
                    (unsigned long long)m->count, (unsigned long long)m->byte, m->count == 0 ? "metadata" : "node");
}

static enum sim_status read_messages(struct chakra_file *file, struct messages *m, struct sim_error *error)
{
    uint64_t length;
    int more;
    while ((more = read_length(m, &length)) > 0) {
        if (length > MESSAGE_BYTES_MAX) {
            return sim_fail(error, SIM_BAD_TRACE, "%s: message %llu at byte %llu says it has %llu bytes; nodes have at most 16 MiB",
                            file->path, (unsigned long long)m->count, (unsigned long long)m->byte,
                            (unsigned long long)length);
        }
        if (file->node_count >= NODES_MAX) {
            return sim_fail(error, SIM_BAD_TRACE, "%s: more than %zu nodes", file->path, NODES_MAX);
        }
        if (!have(m, (size_t)length)) {
            more = -1;
            break;
        }
        enum sim_status status = take_message(file, m, (size_t)length, error);
        if (status != SIM_OK) {
            return status;
        }
        m->from += (size_t)length;
        m->byte += length;
        m->count++;
    }
    if (more < 0) {
        const char *damage = byte_source_damage(m->source);
        return sim_fail(error, SIM_BAD_FILE, "%s: %s in message %llu at byte %llu: copy the file again", file->path,
                        damage != NULL ? damage : "the file ends", (unsigned long long)m->count,
                        (unsigned long long)m->byte);
    }
    return SIM_OK;
}

enum sim_status chakra_read(const char *path, struct chakra_file **out, struct sim_error *error)
{
    *out = NULL;
    struct messages m = { 0 };
    enum sim_status status = byte_source_open(path, &m.source, error);
    if (status != SIM_OK) {
        return status;
    }
    struct chakra_file *file = chakra_file_create(path);
    status = read_messages(file, &m, error);
    byte_source_close(m.source);
    free(m.bytes);
    if (status != SIM_OK) {
        chakra_file_destroy(file);
        return status;
    }
    *out = file;
    return SIM_OK;
}
