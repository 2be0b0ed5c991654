/* Real nodes stripped to their wires: no latencies, no protocol losses, workgroups without limit. What is left is the
 * network, so that closed forms hold to rounding. */
#ifndef TESTS_FABRIC_BARE_NODE_H
#define TESTS_FABRIC_BARE_NODE_H
#include "sim/fabric/fabric.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* SimGrid against fluid: a thread a flow is slow under sanitizers, and half of the GPUs walk the same code. */
#ifdef RECKON_SANITIZED
#define GPUS(n) ((n) / 2)
#else
#define GPUS(n) (n)
#endif

static inline struct node_profile *read_node(const char *name)
{
    char path[512];
    struct node_profile *node = NULL;
    struct sim_error error;
    snprintf(path, sizeof path, "%s/devices/nodes/%s.json", SOURCE_DIR, name);
    enum sim_status status = node_profile_read(path, &node, &error);
    cr_assert(status == SIM_OK, "%s", error.text);
    return node;
}

static inline void set_number(struct node_profile *node, const char *key, double value)
{
    double *number = node_profile_number(node, key);
    cr_assert(number != NULL, "node %s has no %s", node_profile_name(node), key);
    *number = value;
}

static inline void set_if_present(struct node_profile *node, const char *key, double value)
{
    double *number = node_profile_number(node, key);
    if (number != NULL) {
        *number = value;
    }
}

static inline struct node_profile *read_bare_node(const char *name)
{
    static const char *const zero[] = {
        "link.latency", "nic.latency", "nic.simple_latency", "nic.message_overhead", "library.launch",
        "p2p.hop",      "p2p.peer",    "simple.start",       "simple.hop",           "ll.start",
        "ll.hop",       "ll128.start", "ll128.hop",          "in_switch.latency",
    };
    static const char *const one[] = {
        "p2p.efficiency", "simple.efficiency", "simple.overlap",  "ll.efficiency",
        "ll.overlap",     "ll128.efficiency",  "tree.efficiency", "nic.oversubscription",
    };
    static const char *const endless[] = {
        "library.channel_rate",
        "p2p.part_rate",
        "p2p.buffer_rate",
        "memory.rate",
    };
    struct node_profile *node = read_node(name);
    for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++) {
        set_if_present(node, zero[i], 0);
    }
    for (size_t i = 0; i < sizeof one / sizeof one[0]; i++) {
        set_if_present(node, one[i], 1);
    }
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++) {
        set_number(node, endless[i], 1e9);
    }
    set_number(node, "simple.channel_bytes", 1e-6);
    set_number(node, "p2p.part", 1e-3);
    return node;
}

#endif
