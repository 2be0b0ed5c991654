/* How fast the simulator is, not how fast the fabric is: collectives over growing clusters, both engines side by side.
 * Answers are checked against closed forms of a bare cluster: all-to-all (N - n) b / B, ring all-reduce 2 (N - 1) steps of an
 * eighth of a piece over each NIC. Times are of the wall clock, minimum and median of five calls; memory is the peak of a
 * process that makes that call alone. nan: not run,
 * or more flows than the engine takes. Exits 1 on a wrong answer and when a bound of the project is missed. */
#include "sim/fabric/fabric.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUNS 5

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
    static const char *const zero[] = { "link.latency",       "nic.latency",
                                        "nic.simple_latency", "nic.message_overhead",
                                        "library.launch",     "p2p.hop",
                                        "p2p.peer",           "simple.start",
                                        "simple.hop" };
    static const char *const endless[] = { "p2p.part_rate", "p2p.buffer_rate", "memory.rate",
                                           "library.channel_rate" };
    for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++) {
        set(node, zero[i], 0);
    }
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++) {
        set(node, endless[i], 1e9);
    }
    set(node, "p2p.efficiency", 1);
    set(node, "simple.efficiency", 1);
    set(node, "link.usable", 70); /* links do not bind a ring over nodes */
    set(node, "simple.channel_bytes", 1e-2);
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

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct timing {
    double least_s, median_s; /* NAN: the engine refuses this many flows */
};

static struct timing repeated(int runs, const struct node_profile *node, struct collective_request request,
                              enum fabric_engine engine, double want_us)
{
    double took[RUNS];
    for (int i = 0; i < runs; i++) {
        took[i] = timed_call(node, request, engine, want_us);
    }
    qsort(took, (size_t)runs, sizeof took[0], compare);
    return (struct timing){ took[0], took[runs / 2] };
}

static void print_timing(struct timing timing)
{
    printf("  %10.6f %10.6f", timing.least_s, timing.median_s);
}

/* Peak memory [MiB] of a process that makes one call. */
static double peak_mib(const struct node_profile *node, struct collective_request request)
{
    struct rusage usage;
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        timed_call(node, request, FABRIC_ENGINE_FLUID, 0);
        _exit(0);
    }
    return child > 0 && wait4(child, &status, 0, &usage) == child ? (double)usage.ru_maxrss / 1024 : NAN;
}

static double *skewed_splits(uint32_t ranks, double message, bool both_ends)
{
    double *split = malloc(sizeof *split * ranks * ranks);
    for (size_t i = 0; split != NULL && i < (size_t)ranks * ranks; i++) {
        size_t drawn = both_ends ? i : i / ranks;
        split[i] = message * (0.7 + 0.6 * (double)(drawn * 2654435761u % 1000) / 1000);
    }
    return split;
}

static bool missed(const char *what, double got, double most, const char *unit)
{
    if (got <= most) {
        return false;
    }
    printf("MISSED: %s: %.3g %s, at most %g\n", what, got, unit, most);
    return true;
}

static bool bench_all_to_all(const struct node_profile *node)
{
    double nic = *node_profile_number((struct node_profile *)node, "nic.usable");
    bool bad = false;
    printf("all-to-all, 64 MiB per rank: seconds, minimum and median of %d\n", RUNS);
    printf("%6s  %21s  %21s  %21s  %21s  %21s %9s\n", "GPUs", "fluid, classes", "simgrid, classes",
           "fluid, a flow a pair", "simgrid, a flow a pair", "fluid, skew by source", "MiB");
    for (uint32_t nodes = 1; nodes <= 128; nodes *= 2) {
        uint32_t ranks = 8 * nodes;
        double bytes = 64.0 * 1048576, message = bytes / ranks;
        double want_us = fmax(message / (70 * 1000), (ranks - 8.0) * message / (nic * 1000));
        struct collective_request request = {
            .kind = "all_to_all", .bytes = bytes, .gpus = 8, .nodes = nodes, .protocol = "simple"
        };
        struct timing classes = repeated(RUNS, node, request, FABRIC_ENGINE_FLUID, want_us);
        double mib = peak_mib(node, request);
        printf("%6u", ranks);
        print_timing(classes);
        print_timing(repeated(RUNS, node, request, FABRIC_ENGINE_SIMGRID, want_us));
        request.explicit_flows = true;
        print_timing(repeated(ranks <= 256 ? RUNS : 1, node, request, FABRIC_ENGINE_FLUID, want_us));
        print_timing(ranks <= 64
                         ? repeated(ranks < 64 ? RUNS : 1, node, request, FABRIC_ENGINE_SIMGRID, want_us)
                         : (struct timing){ NAN, NAN });
        request.explicit_flows = false;
        double *split = skewed_splits(ranks, message, false);
        request.split_bytes = split;
        struct timing skewed = repeated(RUNS, node, request, FABRIC_ENGINE_FLUID, 0);
        print_timing(skewed);
        printf(" %9.1f\n", mib);
        free(split);
        if (ranks == 1024) {
            bad = missed("all-to-all of 1,024, equal sizes", classes.median_s, 0.5, "s") || bad;
            bad = missed("its memory", mib, 200, "MiB") || bad;
            bad = missed("all-to-all of 1,024, skewed by source", skewed.median_s, 1, "s") || bad;
        }
    }
    return bad;
}

static bool bench_ring(const struct node_profile *node)
{
    double nic = *node_profile_number((struct node_profile *)node, "nic.usable");
    bool bad = false;
    printf("\nring all-reduce, 1 GiB: seconds, minimum and median of %d\n", RUNS);
    printf("%6s  %21s  %21s  %21s  %21s\n", "GPUs", "fluid, classes", "simgrid, classes",
           "fluid, a flow a pair", "simgrid, a flow a pair");
    for (uint32_t nodes = 2; nodes <= 128; nodes *= 4) {
        double ranks = 8.0 * nodes, bytes = 1073741824.0;
        double want_us = 2 * (ranks - 1) * (bytes / ranks / 8 / (nic * 1000));
        struct collective_request request = { .kind = "all_reduce",
                                              .bytes = bytes,
                                              .gpus = 8,
                                              .nodes = nodes,
                                              .algorithm = "ring",
                                              .protocol = "simple" };
        struct timing classes = repeated(RUNS, node, request, FABRIC_ENGINE_FLUID, want_us);
        printf("%6.0f", ranks);
        print_timing(classes);
        print_timing(repeated(RUNS, node, request, FABRIC_ENGINE_SIMGRID, want_us));
        request.explicit_flows = true;
        struct timing flows = repeated(RUNS, node, request, FABRIC_ENGINE_FLUID, want_us);
        print_timing(flows);
        print_timing(ranks <= 64 ? repeated(RUNS, node, request, FABRIC_ENGINE_SIMGRID, want_us)
                                 : (struct timing){ NAN, NAN });
        printf("\n");
        if (ranks == 1024) {
            bad = missed("ring all-reduce of 1,024, a flow a pair", flows.median_s, 5, "s");
        }
    }
    return bad;
}

/* The collectives of a recommendation step on 128 GPUs: indices and pooled embeddings out, their gradients back, skewed at both
 * ends; dense gradients in buckets; gathered parameters; and a barrier. */
static bool bench_step(const struct node_profile *node)
{
    static const struct {
        const char *kind;
        double mib;
        int count;
        bool skewed;
    } calls[] = {
        { "all_to_all", 16, 1, true },   { "all_to_all", 64, 2, false },
        { "all_reduce", 25, 20, false }, { "reduce_scatter", 200, 4, false },
        { "all_gather", 200, 4, false }, { "all_reduce", 1e-5, 1, false },
    };
    double started = seconds_now();
    int count = 0;
    double *split = skewed_splits(128, 16.0 * 1048576 / 128, true);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (int k = 0; k < calls[i].count; k++, count++) {
            struct collective_request request = { .kind = calls[i].kind,
                                                  .bytes = calls[i].mib * 1048576,
                                                  .gpus = 8,
                                                  .nodes = 16,
                                                  .split_bytes = calls[i].skewed ? split : NULL };
            timed_call(node, request, FABRIC_ENGINE_FLUID, 0);
        }
    }
    free(split);
    double took = seconds_now() - started;
    printf("\na step's %d collectives among 128 GPUs, one all-to-all skewed at both ends: %.3f s\n", count,
           took);
    return missed("a 128-GPU step's collectives", took, 1, "s");
}

int main(void)
{
    struct node_profile *node = bare_node();
    bool bad = bench_all_to_all(node);
    bad = bench_ring(node) || bad;
    bad = bench_step(node) || bad;
    node_profile_destroy(node);
    return bad ? 1 : 0;
}
