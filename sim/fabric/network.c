#include "sim/fabric/network.h"
#include "sim/core/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fabric_network *fabric_network_create(void)
{
    struct fabric_network *network = calloc(1, sizeof *network);
    SIM_ASSERT(network != NULL, "no memory for a network");
    return network;
}

void fabric_network_destroy(struct fabric_network *network)
{
    if (network == NULL) {
        return;
    }
    free(network->link);
    free(network->flow);
    free(network->path);
    free(network);
}

void fabric_network_clear(struct fabric_network *network)
{
    network->link_count = network->flow_count = network->path_count = 0;
    network->together = 0;
}

/* Room for `count` more elements in an owned array. */
static void *grow(void *array, size_t *capacity, size_t used, size_t count, size_t element_bytes)
{
    if (used + count <= *capacity) {
        return array;
    }
    *capacity = *capacity < 16 ? 16 : 2 * *capacity;
    if (*capacity < used + count) {
        *capacity = used + count;
    }
    void *grown = realloc(array, *capacity * element_bytes);
    SIM_ASSERT(grown != NULL, "no memory for %zu network elements", *capacity);
    return grown;
}

uint32_t fabric_network_add_link(struct fabric_network *network, const char *name, double capacity_gbs)
{
    SIM_ASSERT(capacity_gbs > 0 && capacity_gbs < 1e12, "link %s: %g GB/s", name, capacity_gbs);
    network->link = grow(network->link, &network->link_capacity, network->link_count, 1,
                         sizeof *network->link);
    struct fabric_link *link = &network->link[network->link_count];
    snprintf(link->name, sizeof link->name, "%s", name);
    link->capacity_gbs = capacity_gbs;
    return (uint32_t)network->link_count++;
}

size_t fabric_network_add_flow(struct fabric_network *network, const uint32_t *links, uint32_t link_count,
                               double bytes, double multiplicity, double start_us)
{
    SIM_ASSERT(link_count >= 1 && link_count <= FABRIC_PATH_LINKS_MAX, "path of %u links", link_count);
    SIM_ASSERT(bytes >= 0 && bytes < 1e18, "flow of %g bytes", bytes);
    SIM_ASSERT(multiplicity >= 1, "multiplicity %g", multiplicity);
    SIM_ASSERT(start_us >= 0, "start at %g us", start_us);
    for (uint32_t i = 0; i < link_count; i++) {
        SIM_ASSERT(links[i] < network->link_count, "link %u of %zu", links[i], network->link_count);
        for (uint32_t k = 0; k < i; k++) {
            SIM_ASSERT(links[i] != links[k], "link %s twice on a path", network->link[links[i]].name);
        }
    }
    network->path = grow(network->path, &network->path_capacity, network->path_count, link_count,
                         sizeof *network->path);
    network->flow = grow(network->flow, &network->flow_capacity, network->flow_count, 1,
                         sizeof *network->flow);
    network->flow[network->flow_count] = (struct fabric_flow){
        .path_first = network->path_count,
        .path_count = link_count,
        .bytes = bytes,
        .multiplicity = multiplicity,
        .start_us = start_us,
    };
    memcpy(network->path + network->path_count, links, link_count * sizeof *links);
    network->path_count += link_count;
    return network->flow_count++;
}
