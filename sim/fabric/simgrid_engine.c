/* The same flows on a SimGrid platform: the second engine, and the oracle of the first. The one door to SimGrid.
 *
 * SimGrid runs one simulation per process, so each call forks; the child builds a platform in which every flow class has
 * its own pair of hosts and a route of its links, runs it and writes the times into a pipe. All link latencies are 0 and
 * start times are sleeps, because SimGrid shares a bottleneck in inverse proportion to latency. A class is as many actors
 * as it has members, at most MEMBERS_MAX in all.
 *
 * SimGrid moves whole bytes. Sizes and start times are therefore scaled up by a power of two before the run and the
 * times back down after it, so that what rounding loses is far below the 1e-9 that the engines are held to.
 *
 * SimGrid gives no access to a flow's rate. A rate is read from a run in which that flow moves PROBE_BYTES and all others
 * far more: it ends before anything else changes. So rates cost a run per flow; finish times cost one. */
#include "sim/fabric/engine.h"
#include "sim/fabric/platform_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RECKON_CLANG_ASAN
#endif
#endif

#define MEMBERS_MAX 20000
#define PROBE_BYTES 1e6
#define ENDLESS_BYTES 1e15
#define SCALE_MAX 1048576.0 /* 2^20 */
#define BYTES_MAX 4e18      /* of one flow after scaling: SimGrid counts in 64 bits */
#define US_PER_S 1e6
#define BYTES_PER_GB 1e9

/* Of the child process: actors are plain functions that get texts, so what they share has to be here. */
struct simulation {
    const struct fabric_network *network;
    double *finish_s; /* [flow_count] of a class: when its last member ended */
    long probe;       /* flow whose rate is wanted, or -1 */
    double scale;     /* of bytes and times */
    int result;       /* pipe */
};
static struct simulation simulation;

static void write_all(int to, const void *data, size_t size_bytes)
{
    const char *at = data;
    while (size_bytes > 0) {
        ssize_t wrote = write(to, at, size_bytes);
        if (wrote < 0) {
            _exit(1);
        }
        at += wrote;
        size_bytes -= (size_t)wrote;
    }
}

/* One member of flow class argv[1]; argv[2]: which member. */
static void member_actor(int argc, char **argv)
{
    SIM_ASSERT(argc == 3, "actor with %d arguments", argc);
    size_t index = strtoul(argv[1], NULL, 10);
    bool is_probe = simulation.probe == (long)index && strcmp(argv[2], "0") == 0;
    const struct fabric_flow *flow = &simulation.network->flow[index];
    char from[32], to[32];
    snprintf(from, sizeof from, "s%zu", index);
    snprintf(to, sizeof to, "d%zu", index);
    double bytes = simulation.probe < 0 ? round(flow->bytes * simulation.scale)
                   : is_probe           ? PROBE_BYTES
                                        : ENDLESS_BYTES;
    if (simulation.probe < 0) {
        sg_actor_sleep_until(flow->start_us * simulation.scale / US_PER_S);
    }
    if (bytes > 0) {
        sg_host_sendto(sg_host_by_name(from), sg_host_by_name(to), bytes);
    }
    double now_s = simgrid_get_clock();
    simulation.finish_s[index] = fmax(simulation.finish_s[index], now_s);
    if (is_probe) {
        double rate_gbs = PROBE_BYTES / now_s / BYTES_PER_GB;
        write_all(simulation.result, &rate_gbs, sizeof rate_gbs);
        _exit(0);
    }
}

static void platform_print(FILE *out, const struct fabric_network *network)
{
    fprintf(out, "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                 "<platform version=\"4.1\"><zone id=\"network\" routing=\"Full\">\n");
    for (size_t f = 0; f < network->flow_count; f++) {
        fprintf(out, "<host id=\"s%zu\" speed=\"1Gf\"/><host id=\"d%zu\" speed=\"1Gf\"/>\n", f, f);
    }
    for (size_t l = 0; l < network->link_count; l++) {
        fprintf(out, "<link id=\"l%zu\" bandwidth=\"%.17gBps\" latency=\"0ns\"/>\n", l,
                network->link[l].capacity_gbs * BYTES_PER_GB);
    }
    for (size_t f = 0; f < network->flow_count; f++) {
        const struct fabric_flow *flow = &network->flow[f];
        fprintf(out, "<route src=\"s%zu\" dst=\"d%zu\" symmetrical=\"NO\">", f, f);
        for (uint32_t k = 0; k < flow->path_count; k++) {
            fprintf(out, "<link_ctn id=\"l%u\"/>", network->path[flow->path_first + k]);
        }
        fprintf(out, "</route>\n");
    }
    fprintf(out, "</zone></platform>\n");
}

/* In a child: SimGrid with our settings; each is one of its traps. */
static void simgrid_start(void)
{
    static char settings[][40] = {
        "reckon",
        "--log=root.thres:critical",
        "--cfg=network/model:CM02",
        "--cfg=network/TCP-gamma:0",    /* else long paths are capped */
        "--cfg=network/crosstraffic:0", /* else 5% of the opposite direction */
        "--cfg=maxmin/precision:1e-3",  /* B/s; the default crashes on large platforms */
        "--cfg=surf/precision:1e-12",
#if defined(__SANITIZE_ADDRESS__) || defined(RECKON_CLANG_ASAN)
        "--cfg=contexts/factory:thread", /* AddressSanitizer does not follow hand-made stacks */
#endif
    };
    char *arguments[sizeof settings / sizeof settings[0] + 1] = { NULL };
    int count = sizeof settings / sizeof settings[0];
    for (int i = 0; i < count; i++) {
        arguments[i] = settings[i];
    }
    simgrid_init(&count, arguments);
}

/* In a child: the platform of `network`. */
static void simgrid_load(const struct fabric_network *network)
{
    simgrid_start();
    int memory = memfd_create("platform.xml", 0);
    FILE *out = memory < 0 ? NULL : fdopen(memory, "w");
    if (out == NULL) {
        _exit(1);
    }
    platform_print(out, network);
    fflush(out);
    char path[48];
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    simgrid_load_platform(path);
    fclose(out);
}

static void start_actors(void)
{
    for (size_t f = 0; f < simulation.network->flow_count; f++) {
        char class_text[24], member_text[24], host[32];
        snprintf(class_text, sizeof class_text, "%zu", f);
        snprintf(host, sizeof host, "s%zu", f);
        for (long m = 0; m < lround(simulation.network->flow[f].multiplicity); m++) {
            snprintf(member_text, sizeof member_text, "%ld", m);
            char *arguments[] = { "member", class_text, member_text, NULL };
            sg_actor_create("member", sg_host_by_name(host), member_actor, 3, arguments);
        }
    }
}

static double largest_scale(const struct fabric_network *network)
{
    double scale = SCALE_MAX;
    for (size_t f = 0; f < network->flow_count; f++) {
        while (scale > 1 && network->flow[f].bytes * scale > BYTES_MAX) {
            scale /= 2;
        }
    }
    return scale;
}

static void child_finish_times(const struct fabric_network *network, int result)
{
    simgrid_load(network);
    double *finish_s = calloc(network->flow_count, sizeof *finish_s);
    if (finish_s == NULL) {
        _exit(1);
    }
    simulation = (struct simulation){ .network = network,
                                      .finish_s = finish_s,
                                      .probe = -1,
                                      .scale = largest_scale(network),
                                      .result = result };
    start_actors();
    simgrid_run();
    for (size_t f = 0; f < network->flow_count; f++) {
        finish_s[f] *= US_PER_S / simulation.scale;
    }
    write_all(result, finish_s, network->flow_count * sizeof *finish_s);
    _exit(0);
}

static void child_rates(const struct fabric_network *network, int result)
{
    simgrid_load(network);
    for (size_t f = 0; f < network->flow_count; f++) {
        pid_t child = fork();
        if (child == 0) {
            double *finish_s = calloc(network->flow_count, sizeof *finish_s);
            if (finish_s == NULL) {
                _exit(1);
            }
            simulation = (struct simulation){ network, finish_s, (long)f, 1, result };
            start_actors();
            simgrid_run();
            _exit(1); /* the probe ends the process */
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            _exit(1);
        }
    }
    _exit(0);
}

static enum sim_status check_size(const struct fabric_network *network, struct sim_error *error)
{
    double members = 0;
    for (size_t f = 0; f < network->flow_count; f++) {
        double multiplicity = network->flow[f].multiplicity;
        if (multiplicity != floor(multiplicity)) {
            return sim_fail(error, SIM_UNSUPPORTED,
                            "engine simgrid: a flow class of %g members must be whole", multiplicity);
        }
        members += multiplicity;
    }
    if (members > MEMBERS_MAX) {
        return sim_fail(error, SIM_UNSUPPORTED,
                        "engine simgrid: %.0f flows are above its limit of %d; use --engine fluid", members,
                        MEMBERS_MAX);
    }
    return SIM_OK;
}

/* Fork, let `run` write flow_count doubles, read them into `out`. */
static enum sim_status run_child(const struct fabric_network *network,
                                 void (*run)(const struct fabric_network *network, int result), double *out,
                                 struct sim_error *error)
{
    enum sim_status status = check_size(network, error);
    int ends[2];
    if (status != SIM_OK || network->flow_count == 0) {
        return status;
    }
    if (pipe(ends) != 0) {
        return sim_fail(error, SIM_UNSUPPORTED, "engine simgrid: no pipe: %s", strerror(errno));
    }
    fflush(NULL); /* or the child prints what we have not yet */
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        run(network, ends[1]);
        _exit(1);
    }
    close(ends[1]);
    size_t wanted = network->flow_count * sizeof *out, had = 0;
    while (child > 0 && had < wanted) {
        ssize_t got = read(ends[0], (char *)out + had, wanted - had);
        if (got <= 0) {
            break;
        }
        had += (size_t)got;
    }
    close(ends[0]);
    int ended = 0;
    if (child < 0 || waitpid(child, &ended, 0) != child || ended != 0 || had != wanted) {
        return sim_fail(error, SIM_UNSUPPORTED,
                        "engine simgrid: its process failed (status %d) on %zu flow classes", ended,
                        network->flow_count);
    }
    return SIM_OK;
}

static enum sim_status simgrid_rates(const struct fabric_network *network, double *rate_gbs,
                                     struct sim_error *error)
{
    return run_child(network, child_rates, rate_gbs, error);
}

static enum sim_status simgrid_finish_times(const struct fabric_network *network, double *finish_us,
                                            struct sim_error *error)
{
    return run_child(network, child_finish_times, finish_us, error);
}

/* ---- platform files of others */

static int by_host_name(const void *a, const void *b)
{
    return strverscmp(sg_host_get_name(*(const sg_host_t *)a), sg_host_get_name(*(const sg_host_t *)b));
}

static int by_link_name(const void *a, const void *b)
{
    return strcmp(sg_link_get_name(*(const sg_link_t *)a), sg_link_get_name(*(const sg_link_t *)b));
}

/* False: no route. Each line is flushed, for a route that SimGrid cannot give ends the process. */
static bool print_route(FILE *out, sg_host_t *hosts, size_t from, size_t to, sg_link_t *links,
                        size_t link_count)
{
    xbt_dynar_t route = xbt_dynar_new(sizeof(sg_link_t), NULL);
    sg_host_get_route(hosts[from], hosts[to], route);
    unsigned long length = xbt_dynar_length(route);
    fprintf(out, "%c %zu %zu", length == 0 ? 'X' : 'R', from, to);
    for (unsigned long k = 0; k < length; k++) {
        sg_link_t link = xbt_dynar_get_as(route, k, sg_link_t);
        const sg_link_t *found = bsearch(&link, links, link_count, sizeof *links, by_link_name);
        fprintf(out, " %td", found == NULL ? (ptrdiff_t)-1 : found - links);
    }
    fputc('\n', out);
    fflush(out);
    xbt_dynar_free_container(&route);
    return length > 0;
}

static void child_platform(const char *path, FILE *out)
{
    simgrid_start();
    simgrid_load_platform(path);
    size_t host_count = sg_host_count(), link_count = sg_link_count();
    sg_host_t *hosts = sg_host_list();
    sg_link_t *links = sg_link_list();
    qsort(hosts, host_count, sizeof *hosts, by_host_name);
    qsort(links, link_count, sizeof *links, by_link_name);
    for (size_t i = 0; i < host_count; i++) {
        fprintf(out, "H %s\n", sg_host_get_name(hosts[i]));
    }
    for (size_t i = 0; i < link_count; i++) {
        fprintf(out, "L %s %.17g %.17g %d\n", sg_link_get_name(links[i]),
                sg_link_get_bandwidth(links[i]) / BYTES_PER_GB, sg_link_get_latency(links[i]) * US_PER_S,
                sg_link_is_shared(links[i]) != 0);
    }
    fflush(out);
    if (host_count < 2 || host_count > PLATFORM_HOSTS_MAX) {
        _exit(0); /* the reader counts them */
    }
    for (size_t i = 0; i < host_count; i++) {
        for (size_t k = 0; k < host_count; k++) {
            if (i != k && !print_route(out, hosts, i, k, links, link_count)) {
                _exit(0);
            }
        }
    }
    _exit(0);
}

FILE *simgrid_platform_lines(const char *path, int *pid)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return NULL;
    }
    fflush(NULL);
    *pid = fork();
    if (*pid == 0) {
        close(ends[0]);
        int nowhere = open("/dev/null", O_WRONLY); /* SimGrid explains itself at length on standard error */
        if (nowhere >= 0) {
            dup2(nowhere, 2);
            dup2(nowhere, 1);
        }
        signal(SIGSEGV, SIG_DFL); /* how SimGrid ends on some bad files: the reader sees what is missing */
        FILE *out = fdopen(ends[1], "w");
        if (out != NULL) {
            child_platform(path, out);
        }
        _exit(1);
    }
    close(ends[1]);
    if (*pid < 0) {
        close(ends[0]);
        return NULL;
    }
    return fdopen(ends[0], "r");
}

const struct fabric_engine_ops simgrid_engine_ops = {
    .name = "simgrid",
    .summary = "max-min fair flows on a SimGrid platform",
    .rates = simgrid_rates,
    .finish = simgrid_finish_times,
};
