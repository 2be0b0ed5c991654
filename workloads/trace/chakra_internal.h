/* Nodes of a Chakra execution trace, read from protobuf (chakra.c) or JSON (chakra_json.c), and the graph they make
 * (chakra_graph.c). A node states its own time or work; nothing was recorded beside it. */
#ifndef WORKLOADS_TRACE_CHAKRA_INTERNAL_H
#define WORKLOADS_TRACE_CHAKRA_INTERNAL_H
#include "workloads/trace/trace_internal.h"

enum chakra_type { /* the format's numbers */
    CHAKRA_METADATA = 1,
    CHAKRA_MEM_LOAD = 2,
    CHAKRA_MEM_STORE = 3,
    CHAKRA_COMPUTE = 4,
    CHAKRA_SEND = 5,
    CHAKRA_RECEIVE = 6,
    CHAKRA_COLLECTIVE = 7
};

struct chakra_node {
    uint64_t id;
    const char *name;
    int type;         /* enum chakra_type, or one that is not known */
    bool on_host;
    double duration_us; /* < 0: not given */
    double flops, bytes; /* of compute nodes: num_ops, tensor_size; < 0: not given */
    double comm_bytes;   /* < 0: not given */
    int64_t comm_type;   /* the format's number; -1: not given */
    int64_t source, destination, tag; /* of sends and receives; -1: not given */
    const char *group;   /* process group, NULL: all */
    const struct trace_operator_args *args; /* of host operators; NULL: none */
    uint64_t parent;     /* first control dependency: the operator around it */
    bool has_parent;
    size_t dep_first, dep_count; /* into chakra_file.deps: ids */
};

struct chakra_file {
    struct arena *arena;
    const char *path; /* borrowed */
    size_t node_count, node_capacity;
    struct chakra_node *nodes;
    size_t dep_count, dep_capacity;
    uint64_t *deps;
    int64_t world_size; /* -1: not said */
    char version[40], odd_numbers[160];
};

struct chakra_file *chakra_file_create(const char *path);
void chakra_file_destroy(struct chakra_file *file); /* NULL is allowed */
struct chakra_node *chakra_add_node(struct chakra_file *file); /* defaults; valid until the next */
void chakra_add_dep(struct chakra_file *file, uint64_t id);    /* of the node added last */

/* Errors: SIM_BAD_FILE, SIM_BAD_TRACE with the message's number and byte, or the line. */
enum sim_status chakra_read(const char *path, struct chakra_file **out, struct sim_error *error);
enum sim_status chakra_json_read(const char *path, struct chakra_file **out, struct sim_error *error);

/* Put the nodes into the graph as rank `rank` (an index into graph->ranks). world_size: ranks of the run; label: before
 * each note. Errors: SIM_BAD_TRACE for two nodes of one id, a cycle (names it), nothing to run. */
enum sim_status chakra_build(const struct chakra_file *file, struct graph *graph, uint32_t rank, uint32_t world_size,
                             const char *label, struct sim_error *error);

#endif
