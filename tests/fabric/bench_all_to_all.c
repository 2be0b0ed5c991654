/* How fast the simulator is, not how fast the fabric is: all-to-all over growing clusters, both engines side by side.
 * Each answer is checked against the closed form (N - n) b / B of a bare cluster. Prints the least of five runs. */
#include "sim/fabric/fabric.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void set(struct node_profile *node, const char *key, double value)
{
    double *number = node_profile_number(node, key);
    if (number == NULL) {
        fprintf(stderr, "no %s\n", key);
        exit(1);
    }
    *number = value;
}

static struct node_profile *bare_node(void)
{
    struct node_profile *node;
    struct sim_error error;
    if (node_profile_read(SOURCE_DIR "/devices/nodes/mi355x8.json", &node, &error) != SIM_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    static const char *const zero[] = {
        "link.latency", "nic.latency", "nic.simple_latency", "nic.message_overhead", "library.launch",
        "p2p.hop",      "p2p.peer"
    };
    static const char *const endless[] = { "p2p.part_rate", "p2p.buffer_rate", "memory.rate",
                                           "library.channel_rate" };
    for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++) {
        set(node, zero[i], 0);
    }
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++) {
        set(node, endless[i], 1e9);
    }
    set(node, "p2p.efficiency", 1);
    return node;
}

/* Seconds of one call; exits 1 when the answer is wrong. */
static double timed_call(const struct node_profile *node, struct collective_request request,
                         enum fabric_engine engine, double want_us)
{
    struct collective_result result;
    struct sim_error error;
    double started = seconds_now();
    if (collective_time(node, &request, engine, &result, &error) != SIM_OK) {
        return NAN;
    }
    double took = seconds_now() - started;
    if (want_us > 0 && fabs(result.time_us / want_us - 1) > 1e-6) {
        fprintf(stderr, "wrong answer: %.9g us, %.9g expected\n", result.time_us, want_us);
        exit(1);
    }
    return took;
}

static double least_of(int runs, const struct node_profile *node, struct collective_request request,
                       enum fabric_engine engine, double want_us)
{
    double least = INFINITY;
    for (int i = 0; i < runs; i++) {
        least = fmin(least, timed_call(node, request, engine, want_us));
    }
    return least;
}

int main(void)
{
    struct node_profile *node = bare_node();
    double nic = *node_profile_number(node, "nic.usable");
    printf("all-to-all, 64 MiB per rank, host seconds per call (least of 5; others once)\n");
    printf("%6s %12s %12s %12s %12s %12s\n", "GPUs", "classes", "simgrid", "explicit", "by source",
           "same, explicit");
    for (uint32_t nodes = 1; nodes <= 128; nodes *= 2) {
        uint32_t ranks = 8 * nodes;
        double bytes = 64.0 * 1048576, message = bytes / ranks;
        double want_us = fmax(message / (61.4 * 1000), (ranks - 8.0) * message / (nic * 1000));
        struct collective_request request = {
            .kind = "all_to_all", .bytes = bytes, .gpus = 8, .nodes = nodes, .protocol = "simple"
        };
        double classes = least_of(5, node, request, FABRIC_ENGINE_FLUID, want_us);
        double simgrid = least_of(1, node, request, FABRIC_ENGINE_SIMGRID, want_us);
        request.explicit_flows = true;
        double flows = least_of(1, node, request, FABRIC_ENGINE_FLUID, want_us);
        double *split = malloc(sizeof *split * ranks * ranks);
        for (size_t i = 0; i < (size_t)ranks * ranks; i++) {
            split[i] = message * (0.7 + 0.6 * (double)(i / ranks * 2654435761u % 1000) / 1000);
        }
        request.split_bytes = split;
        double skewed = ranks <= 128 ? least_of(1, node, request, FABRIC_ENGINE_FLUID, 0) : NAN;
        request.explicit_flows = false;
        double by_source = least_of(1, node, request, FABRIC_ENGINE_FLUID, 0);
        free(split);
        printf("%6u %12.6f %12.4f %12.4f %12.4f %12.4f\n", ranks, classes, simgrid, flows, by_source, skewed);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("peak memory %ld MiB\n", usage.ru_maxrss / 1024);
    node_profile_destroy(node);
    return 0;
}
