/* One training step of one or more ranks as a graph: what the host does, what it launches on which stream, what waits
 * for what. Both a trace (workloads/trace) and a model description (workloads/models) give this; sim/step prices it.
 *
 * Order of the host. Nodes of a rank are stored in the order in which its host began them, over all its threads, and the
 * host runs them one after another in that order: an eager framework hands the step from the main thread to the backward
 * thread and back (the main thread sleeps inside backward), so the threads form one chain and `thread` is only for
 * reports. A host node therefore depends on the host node before it in its rank. Threads that launch nothing (watchdogs,
 * data loading) are not in the graph. An operator comes before what it calls: its own time is spent at its start.
 *
 * Order of the device. A device node depends on the launch that names it and on the node before it on its stream; a
 * stream's nodes (device nodes, EVENT_RECORD, EVENT_WAIT) run in index order. Every device node has exactly one launch.
 * EVENT_RECORD and EVENT_WAIT are host calls too: they take their place in the host order, then in the stream. */
#ifndef WORKLOADS_GRAPH_H
#define WORKLOADS_GRAPH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sim/core/status.h"

struct arena;

enum graph_node_kind {
    GRAPH_HOST_OP,        /* host work: one framework operator (its own time, children excluded) */
    GRAPH_HOST_LAUNCH,    /* the runtime call that puts `launched` on its stream */
    GRAPH_HOST_SYNC,      /* host waits: device, stream or event; or a blocking copy */
    GRAPH_KERNEL,         /* device kernel, copy or fill on a stream */
    GRAPH_COLLECTIVE,     /* device collective on a stream */
    GRAPH_EVENT_RECORD,   /* on a stream, host-issued */
    GRAPH_EVENT_WAIT      /* a stream waits for a record on another */
};

enum graph_sync { GRAPH_SYNC_DEVICE, GRAPH_SYNC_STREAM, GRAPH_SYNC_EVENT };

enum graph_recognition {
    GRAPH_RECOGNISED,     /* suite/kernel + params name a wave program */
    GRAPH_BY_BYTES,       /* priced from its tensors' bytes and flops, flagged */
    GRAPH_REPLAYED        /* neither: replayed at its traced time, flagged, never scaled */
};

struct graph_collective {
    char kind[24];            /* all_reduce all_gather reduce_scatter all_to_all broadcast send_recv unknown */
    double bytes;             /* per-rank payload by nccl-tests convention */
    uint32_t group_size;
    char group[48];           /* process group name or ranks */
    uint64_t sequence;        /* n-th collective of its group: joins the ranks */
    bool in_place;
    const double *split_bytes_to; /* all_to_all with uneven splits: [group_size], or NULL; owned by the graph */
};

struct graph_node {
    uint32_t kind;            /* enum graph_node_kind */
    uint32_t rank;
    uint32_t thread;          /* host nodes: dense index of the host thread in the rank */
    uint32_t stream;          /* device nodes: dense index of the stream in the rank */
    const char *name;         /* interned; owned by the graph */
    const char *operator_name;/* framework operator that launched it, or NULL; interned */
    const char *category;     /* gemm attention embedding elementwise reduction normalisation collective memory optimizer
                                 sort other; interned */
    double traced_start_us;   /* relative to the step's start; < 0: not traced */
    double traced_us;         /* device nodes: duration (collectives: the least over the ranks, which is the transfer
                                 without waiting for late ranks); host nodes: own time */
    uint32_t launched;        /* GRAPH_HOST_LAUNCH: index of the device node; else UINT32_MAX */
    uint32_t waits_for;       /* GRAPH_EVENT_WAIT, GRAPH_SYNC_EVENT: index of the record; GRAPH_SYNC_STREAM: stream index */
    uint32_t sync;            /* enum graph_sync */
    uint32_t recognition;     /* enum graph_recognition, device kernels */
    char suite[24], kernel[32];
    const char *params;       /* "k=v;..." for the registry; interned; NULL unless recognised */
    double bytes_read, bytes_written, flops; /* of its tensors, where known; for GRAPH_BY_BYTES */
    char dtype[8];            /* fp32 bf16 fp16 tf32 ... of the main operand, "" unknown */
    struct graph_collective *collective; /* GRAPH_COLLECTIVE; owned by the graph */
    uint32_t launched_count;  /* GRAPH_HOST_LAUNCH: device nodes launched, launched+1, ... (a captured graph has many);
                                 0 is taken as 1 */
    double traced_wait_us;    /* GRAPH_COLLECTIVE: what this rank's recording lasts beyond the least of the ranks: waiting */
    uint32_t depth;           /* GRAPH_HOST_OP: operators around it, 0 is called by the program itself */
    const char *shapes;       /* dims of the arguments of the operator, or of the one around a kernel, as a trace has them:
                                 [[8192,128],[],[[4],[4]]]; NULL unknown; interned */
};

struct graph_rank {
    uint32_t rank_id;         /* in the run; graph_node.rank is the index into graph.ranks */
    uint32_t thread_count, stream_count;
    double traced_step_us;    /* this rank's own span of the step */
    double traced_busy_us;    /* union over its streams of the time something ran; 0: not traced */
    double traced_kernel_us;  /* sum of its device nodes' own durations: more than busy where they overlap */
};

/* What holds device memory. Of a model's graph; a trace does not record allocations. */
enum graph_memory_owner {
    GRAPH_MEMORY_PARAMETERS, /* dense parameters and buffers */
    GRAPH_MEMORY_GRADIENTS,
    GRAPH_MEMORY_OPTIMIZER,
    GRAPH_MEMORY_EMBEDDINGS, /* tables, their caches and their optimiser's state */
    GRAPH_MEMORY_ACTIVATIONS, /* inputs, results, saved tensors, temporaries */
    GRAPH_MEMORY_COMMUNICATION, /* buckets, gathered parameters, exchange buffers */
    GRAPH_MEMORY_WORKSPACE, /* of libraries, held by the framework's allocator */
    GRAPH_MEMORY_OWNERS
};

/* The allocator takes `bytes` when the host has issued the nodes before `from_node` and gives them back before
 * `until_node`: host order decides, not when kernels run, as in a caching allocator of one stream. */
struct graph_allocation {
    uint32_t rank;
    uint32_t from_node;  /* 0: there before the step */
    uint32_t until_node; /* UINT32_MAX: outlives the step */
    uint32_t owner;      /* enum graph_memory_owner */
    double bytes;        /* as the allocator rounds them */
};

/* Device nodes of a stream are in launch order. */
struct graph {
    uint32_t rank_count;      /* ranks present */
    uint32_t world_size;      /* ranks of the run, present or not */
    bool ranks_stand_for_all; /* the ranks of a trace of which another number of GPUs was asked */
    size_t node_count;
    struct graph_node *nodes;
    double traced_step_us;    /* span of the step in the trace, host included */
    double steps_in_trace;
    char device_title[96];    /* as the trace names the device, "" unknown */
    char source[256];         /* file or model name for reports */
    size_t note_count;
    char (*notes)[200];       /* verdict lines: oddities, repairs, assumptions */
    struct arena *arena;      /* owner of every borrowed pointer above; NULL: they are the caller's */
    struct graph_rank *ranks; /* [rank_count], ascending rank_id; NULL: not known (graphs built by hand) */
    size_t allocation_count;  /* 0: not known */
    struct graph_allocation *allocations;
    double batch;             /* examples per rank and step; 0: not known */
    double reserve_gib;       /* of a GPU that the description keeps free, in place of what the program assumes; below 0: not said */
    double reserve_share;     /* the same as a share of the device's memory; below 0: not said */
    bool ideal_issue;         /* the input states work and dependencies alone (Chakra): nothing between nodes is known, so they
                                 are issued at no cost and follow each other without a gap */
    double host_memory_bytes; /* of a rank's tables that live in host memory */
};

/* ---- building. Each aborts if memory is short. */
struct graph *graph_create(const char *source);
uint32_t graph_add(struct graph *graph, const struct graph_node *node); /* copies; returns the index */
void graph_add_ranks(struct graph *graph, uint32_t rank_count);         /* zeroed ranks; once */
void graph_note(struct graph *graph, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *graph_intern(struct graph *graph, const char *text);        /* NULL gives NULL */
struct graph_collective *graph_add_collective(struct graph *graph);     /* zeroed; owned by the graph */
uint32_t graph_add_allocation(struct graph *graph, const struct graph_allocation *allocation); /* copies; the index */
void graph_destroy(struct graph *graph);                                /* NULL is allowed */

bool graph_is_device(const struct graph_node *node); /* GRAPH_KERNEL or GRAPH_COLLECTIVE */
bool graph_is_host(const struct graph_node *node);   /* runs on the host: operators, launches, syncs, records, waits */

/* Check the laws: indices in range, a launch names device nodes of its rank behind it, every device node has one launch,
 * waits name records, device nodes of a stream in launch order, times finite, no dependency cycle through host order,
 * launches, streams, events, event and stream syncs and collectives that several ranks meet in (iterative; names one
 * cycle). O(nodes). Returns SIM_BAD_TRACE with one line. */
enum sim_status graph_check(const struct graph *graph, struct sim_error *error);

#endif
