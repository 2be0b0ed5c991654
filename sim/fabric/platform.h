/* SimGrid platform files: a node or cluster of ours written as one, and collectives on a platform read from one. A platform
 * has hosts, links and a route for each pair of hosts; of a file read, hosts are the ranks, in natural order of their names.
 * Prices on it are of the wire: link latencies and max-min shared bandwidths, no protocols, launches or workgroups. */
#ifndef SIM_FABRIC_PLATFORM_H
#define SIM_FABRIC_PLATFORM_H
#include "sim/fabric/fabric.h"

struct platform_link {
    char name[64];
    double rate_gbs, latency_us;
    bool shared; /* false: each flow gets all of it (SimGrid's FATPIPE) */
};

struct platform {
    char path[256];
    uint32_t host_count;
    char (*host)[64]; /* [host_count] */
    size_t link_count;
    struct platform_link *link;
    size_t *route_first; /* [host_count * host_count + 1]: links of the route from i to j in `route` */
    uint32_t *route;
};

#define PLATFORM_HOSTS_MAX 512

/* SimGrid reads the file (every zone kind it knows); it must be installed where reckon runs, as it always is.
 * Errors, one line: unreadable, not a platform, fewer than 2 or more than PLATFORM_HOSTS_MAX hosts, a pair of hosts without
 * route (names both, and their ranks), a route over a link twice or too long. */
enum sim_status platform_read(const char *path, struct platform **out, struct sim_error *error);
void platform_destroy(struct platform *platform); /* NULL is allowed */

/* One collective of the first `request->gpus` hosts (0: all; nodes, protocol and library settings do not apply): all_to_all
 * at once, all_gather, reduce_scatter and all_reduce as a ring, broadcast as a pipelined ring, send_recv to the next rank.
 * Errors: those of collective_time that apply, and an algorithm or protocol asked for. */
enum sim_status platform_collective_time(const struct platform *platform,
                                         const struct collective_request *request, enum fabric_engine engine,
                                         struct collective_result *result, struct sim_error *error);

/* Write `gpus` GPUs per node of `nodes` nodes as a platform: usable rates, link and NIC latencies, a route per pair.
 * Errors: as collective_time for the group; more than PLATFORM_HOSTS_MAX ranks; a file that cannot be written. */
enum sim_status platform_write(const struct node_profile *node, uint32_t gpus, uint32_t nodes,
                               const char *path, struct sim_error *error);

#endif
