/* Collectives on a node or cluster: how long, and what limits them. Engines (fluid, simgrid) sit behind it. */
#ifndef SIM_FABRIC_FABRIC_H
#define SIM_FABRIC_FABRIC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sim/core/status.h"

struct node_profile; /* opaque; devices/nodes/NAME.json, same value format as device files */
enum sim_status node_profile_read(const char *path, struct node_profile **out, struct sim_error *error);
void node_profile_destroy(struct node_profile *node);
uint32_t node_profile_gpu_count(const struct node_profile *node); /* per node */
const char *node_profile_name(const struct node_profile *node);
const char *node_profile_device(const struct node_profile *node);
uint64_t node_profile_hash(const struct node_profile *node);
/* Host link of one GPU (PCIe): usable rate [GB/s] and fixed time [us] of one copy. */
void node_profile_host_link(const struct node_profile *node, bool pinned, bool to_device, double *rate_gbs, double *fixed_us);

enum fabric_engine { FABRIC_ENGINE_FLUID, FABRIC_ENGINE_SIMGRID };

struct collective_request {
    const char *kind;      /* all_reduce all_gather reduce_scatter all_to_all broadcast send_recv */
    double bytes;          /* nccl-tests convention: all_gather total output, reduce_scatter total input, all_to_all per-rank total */
    uint32_t gpus;         /* in the group, per node */
    uint32_t nodes;
    const char *protocol;  /* NULL: as the library chooses; simple LL LL128 LL64 */
    const char *algorithm; /* NULL: as the library chooses; ring direct tree */
    const double *split_bytes; /* all_to_all: [gpus*nodes][gpus*nodes] bytes from i to j, or NULL for equal */
};

struct collective_result {
    double time_us;        /* one call, all ranks ready at 0 */
    double algbw_gbs, busbw_gbs;
    double bound_us;       /* wire bound alone, no latencies */
    char limiter[32];      /* latency, link, protocol, memory, nic */
    char algorithm[16], protocol[16], engine[16];
    uint32_t channels;     /* workgroups the collective occupies on each GPU */
    double hbm_bytes;      /* read + written at each end */
    char choice[96];       /* symmetric classes or explicit flows */
};

/* Errors: unknown kind, zero bytes, gpus not in 2..node size, protocol the node lacks; one line. */
enum sim_status collective_time(const struct node_profile *node, const struct collective_request *request,
                                enum fabric_engine engine, struct collective_result *result, struct sim_error *error);

#endif
