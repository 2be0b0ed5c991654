/* A network of links and the flows on it: what the flow engines solve. Knows nothing of GPUs or collectives.
 * A flow is a class of `multiplicity` equal flows that take the same path and start together; each of them moves `bytes`
 * and gets the same rate. Links share max-min fairly. Everything here is double: flow engines work in double and callers
 * round at the edge (style of the project). */
#ifndef SIM_FABRIC_NETWORK_H
#define SIM_FABRIC_NETWORK_H
#include <stddef.h>
#include <stdint.h>

#define FABRIC_PATH_LINKS_MAX 32

struct fabric_link {
    char name[48];       /* path of the object: "node[0].gpu[3].out" */
    double capacity_gbs; /* > 0, one way */
};

struct fabric_flow {
    size_t path_first;   /* first index into network->path */
    uint32_t path_count; /* 1..FABRIC_PATH_LINKS_MAX; no link twice */
    double bytes;        /* of each member, >= 0 */
    double multiplicity; /* members, >= 1 */
    double start_us;     /* >= 0 */
};

struct fabric_network {
    struct fabric_link *link;
    struct fabric_flow *flow;
    uint32_t *path; /* link indices */
    size_t link_count, flow_count, path_count;
    size_t link_capacity, flow_capacity, path_capacity; /* owned arrays */
    double
        together; /* ends within this share of the time are taken as one, early by that at most; 0: exact. A choice of
                      * speed that engine fluid alone takes */
};

struct fabric_network *fabric_network_create(void);          /* aborts if memory is short */
void fabric_network_destroy(struct fabric_network *network); /* NULL is allowed */
void fabric_network_clear(struct fabric_network *network);   /* no links, no flows; memory is kept */

/* Add a link; `name` is copied and cut to fit. Requires (asserted): 0 < capacity_gbs < 1e12. Returns its index. */
uint32_t fabric_network_add_link(struct fabric_network *network, const char *name, double capacity_gbs);

/* Add a flow class over `links`. Requires (asserted): what struct fabric_flow says. Returns its index. */
size_t fabric_network_add_flow(struct fabric_network *network, const uint32_t *links, uint32_t link_count,
                               double bytes, double multiplicity, double start_us);

#endif
