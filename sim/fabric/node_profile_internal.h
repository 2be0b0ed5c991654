/* Everything the fabric knows of one node: topology, links, NICs, host link, and the collective library that runs on it.
 * Read from devices/nodes/NAME.json; the lists below are the reader's table, the manual and the struct in one, as in
 * sim/core/chip_profile.h. Raw rates are what the vendor signals on the wire; usable rates are what is left after
 * encoding, checksums and headers. */
#ifndef SIM_FABRIC_NODE_PROFILE_INTERNAL_H
#define SIM_FABRIC_NODE_PROFILE_INTERNAL_H
#include <stdbool.h>
#include <stdint.h>
#include "sim/core/chip_profile.h"
#include "sim/fabric/fabric.h"

/* Sections. X(section, required, help) */
#define NODE_PROFILE_SECTIONS(X)                                                                   \
    X(topology, true, "how many GPUs, and how they are joined")                                    \
    X(link, true, "one point-to-point link between GPUs, or from a GPU to the switch, one way")    \
    X(in_switch, false, "reduction inside the switch; absent where the switch cannot add")         \
    X(nic, false, "network of one GPU; absent where the node stands alone")                        \
    X(host, true, "link between one GPU and host memory")                                          \
    X(memory, true, "GPU memory as collectives use it")                                            \
    X(library, true, "the collective library: launch, channels")                                   \
    X(p2p, true, "point-to-point kernels of the library: all-to-all, send and receive, direct algorithms") \
    X(simple, true, "protocol simple: plain stores, one flag per chunk")                           \
    X(ll, true, "protocol LL: a flag beside every word")                                           \
    X(ll128, false, "protocol LL128: a flag per 128-byte line")                                    \
    X(ll64, false, "protocol LL64: a flag per 64-byte line")                                       \
    X(direct, false, "direct algorithms of ring collectives: every GPU sends to all others at once") \
    X(tree, false, "tree all-reduce across nodes: a chain in each node, a double binary tree over nodes") \
    X(tuner, false, "the library's own cost model; absent: it chooses what is really fastest")

/* The numbers of a protocol. */
#define NODE_PROTOCOL_NUMBERS(X, protocol)                                                         \
    X(protocol, payload, "ratio", 0.1, 1, "payload bytes per byte on the wire")                    \
    X(protocol, efficiency, "ratio", 0.05, 1, "share of the usable link rate that its loops keep up") \
    X(protocol, start, "us", 0, 1000, "once per ring or tree call: connections made ready, last chunk flushed") \
    X(protocol, hop, "us", 0, 1000, "one dependent step beyond the link's own latency")            \
    X(protocol, overlap, "ratio", 1, 8, "how far a step's latency hides behind its transfer: norm (latency^k + transfer^k)^(1/k)") \
    X(protocol, channel_bytes, "KiB", 0.01, 65536, "bytes of a call per further channel")

/* Numbers. X(section, key, unit, min, max, help); the C name is section_key, the C type double. */
#define NODE_PROFILE_NUMBERS(X)                                                                    \
    X(topology, gpus, "count", 2, 1024, "GPUs of the node")                                        \
    X(link, count, "count", 1, 64, "mesh: parallel links of a pair; switched: links of one GPU")   \
    X(link, raw, "GB/s", 0.1, 10000, "signalling rate of one link, one way")                       \
    X(link, usable, "GB/s", 0.1, 10000, "payload rate of one link, one way, large transfers")      \
    X(link, latency, "us", 0, 100, "one way, store to visible, without software")                  \
    X(link, line, "B", 16, 4096, "unit in which stores over the link become visible at once")      \
    X(in_switch, rate, "GB/s", 1, 100000, "all-reduce bus bandwidth per GPU with in-switch reduction, large sizes") \
    X(in_switch, latency, "us", 0, 1000, "beyond the kernel's launch")                             \
    X(in_switch, gpus_min, "count", 2, 1024, "fewest GPUs of a group for which the library uses it") \
    X(nic, raw, "GB/s", 0.1, 10000, "line rate of the NIC (or NICs) of one GPU, one way")          \
    X(nic, usable, "GB/s", 0.1, 10000, "payload rate of it, large messages")                       \
    X(nic, latency, "us", 0, 1000, "one way, GPU to GPU of another node, post to visible")         \
    X(nic, simple_latency, "us", 0, 10000, "further latency of a step in protocol simple: proxy, flush, chunk") \
    X(nic, message_overhead, "KiB", 0, 1024, "bytes that each message costs on top of its own: rate = usable c/(c + this)") \
    X(nic, leaf_nodes, "count", 1, 4096, "nodes under one leaf switch (rail)")                     \
    X(nic, oversubscription, "ratio", 1, 64, "leaf downlinks over uplinks")                        \
    X(nic, ll_efficiency, "ratio", 0.05, 1, "share of nic.usable that LL keeps, whose messages are small") \
    X(nic, ll128, "count", 0, 1, "1: LL128 goes over the network; 0: the path does not keep 128-byte stores whole") \
    X(nic, rails, "count", 1, 64, "rails that the NICs of a node are dealt to, a leaf switch each; 1: all of a node under one leaf") \
    X(nic, queue_pairs, "count", 1, 64, "queue pairs of a connection: each message goes out in so many pieces") \
    X(host, to_device_pinned, "GB/s", 0.1, 1000, "host to device, pinned memory")                  \
    X(host, to_host_pinned, "GB/s", 0.1, 1000, "device to host, pinned memory")                    \
    X(host, to_device_pageable, "GB/s", 0.1, 1000, "host to device, pageable memory")              \
    X(host, to_host_pageable, "GB/s", 0.1, 1000, "device to host, pageable memory")                \
    X(host, fixed_pinned, "us", 0, 1000, "of one pinned copy on the device, beyond bytes over rate") \
    X(host, fixed_pageable, "us", 0, 1000, "of one pageable copy on the device, beyond bytes over rate") \
    X(host, staged, "KiB", 0, 1048576, "largest pageable copy that the host puts into a pinned buffer before the device begins") \
    X(memory, rate, "GB/s", 1, 100000, "memory traffic that copying kernels reach, read and write together") \
    X(memory, latency, "us", 0, 10, "of a ring step that adds behind a flag per line: load of its own operand") \
    X(library, launch, "us", 0, 1000, "kernel launch, entry and exit of a collective, as the device sees it") \
    X(library, channels, "count", 1, 1024, "most workgroups of one collective on a GPU")           \
    X(library, all_reduce_channels, "count", 1, 1024, "the same for all-reduce")                   \
    X(library, threads, "count", 32, 1024, "lanes of one of these workgroups")                     \
    X(library, registers, "count", 16, 512, "32-bit registers of each lane")                       \
    X(library, channel_rate, "GB/s", 0.1, 1000, "bytes that one channel moves, its own copies included") \
    X(p2p, hop, "us", 0, 1000, "handshake of a message in protocol simple, beyond the link's latency") \
    X(p2p, peer, "us", 0, 100, "each further peer of a call")                                      \
    X(p2p, batch, "count", 1, 64, "peers whose messages start together and pay that once")         \
    X(p2p, part, "KiB", 1, 65536, "smallest piece of a message that gets a channel of its own")    \
    X(p2p, part_rate, "GB/s", 0.1, 1000, "one channel filling and draining its first piece")       \
    X(p2p, buffer, "KiB", 1, 1048576, "buffer of a connection: what a message fills once before it is reused") \
    X(p2p, buffer_rate, "GB/s", 1, 100000, "filling the buffers of a GPU's connections for the first time, beyond the transfer") \
    X(p2p, ll_limit, "KiB", 0, 65536, "largest message per peer that goes by LL")                  \
    X(p2p, efficiency, "ratio", 0.05, 1, "share of the usable link rate, protocol simple")         \
    NODE_PROTOCOL_NUMBERS(X, simple)                                                               \
    NODE_PROTOCOL_NUMBERS(X, ll)                                                                   \
    NODE_PROTOCOL_NUMBERS(X, ll128)                                                                \
    NODE_PROTOCOL_NUMBERS(X, ll64)                                                                 \
    X(ll64, thread_bytes, "B", 8, 256, "stores of a lane between two waits for flags")             \
    X(direct, all_reduce_min, "KiB", 0, 1e9, "smallest direct all-reduce that the library chooses") \
    X(direct, all_reduce_limit, "KiB", 0, 1e9, "largest direct all-reduce that the library chooses; 0: none") \
    X(direct, all_gather_limit, "KiB", 0, 1e9, "the same for all-gather (total output)")           \
    X(direct, reduce_scatter_limit, "KiB", 0, 1e9, "the same for reduce-scatter (total input)")    \
    X(tree, efficiency, "ratio", 0.05, 1, "share of the ring's rate that tree kernels keep")       \
    X(tuner, base_ll, "us", 0, 1000, "fixed time it assumes for LL")                               \
    X(tuner, base_ll128, "us", 0, 1000, "for LL128")                                               \
    X(tuner, base_simple, "us", 0, 1000, "for simple")                                             \
    X(tuner, hop_ll, "us", 0, 1000, "time per ring step it assumes for LL")                        \
    X(tuner, hop_ll128, "us", 0, 1000, "for LL128")                                                \
    X(tuner, hop_simple, "us", 0, 1000, "for simple")                                              \
    X(tuner, cap_ll, "GB/s", 0.1, 10000, "most bus bandwidth it assumes for LL; half of the usable rate at most") \
    X(tuner, share_ll128, "ratio", 0.1, 1, "share of the usable rate it assumes for LL128")        \
    X(tuner, in_switch_latency, "us", 0, 1000, "fixed time it assumes for in-switch reduction")    \
    X(tuner, in_switch_share, "ratio", 0.1, 4, "bus bandwidth it assumes for in-switch all-reduce, over the usable rate")

enum node_topology { NODE_MESH, NODE_SWITCHED };

enum node_number {
#define NODE_NUMBER_ENUM(section, key, unit, min, max, help) NODE_NUMBER_##section##_##key,
    NODE_PROFILE_NUMBERS(NODE_NUMBER_ENUM)
#undef NODE_NUMBER_ENUM
        NODE_NUMBERS
};

struct node_profile {
    char name[32];         /* "mi350x8" */
    char title[128];       /* for reports; no code branches on it */
    char device[32];       /* the chip in each slot */
    char library_name[64]; /* whose collectives the library sections describe */
    enum node_topology topology;
#define NODE_PROFILE_HAS(section, required, help) bool has_##section;
    NODE_PROFILE_SECTIONS(NODE_PROFILE_HAS)
#undef NODE_PROFILE_HAS
#define NODE_PROFILE_FIELD(section, key, unit, min, max, help) double section##_##key; /* in `unit` */
    NODE_PROFILE_NUMBERS(NODE_PROFILE_FIELD)
#undef NODE_PROFILE_FIELD
    struct profile_value_meta meta[NODE_NUMBERS];
    struct profile_value_meta topology_meta;
};

/* Usable rate [GB/s, one way] of one GPU towards a group of `gpus` (itself included) in its node:
 * (gpus - 1) x link on a mesh, where a pair has its own link; all links behind a switch. */
double node_profile_group_rate(const struct node_profile *node, uint32_t gpus, bool raw);

#endif
