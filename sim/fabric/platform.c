#include "sim/fabric/library_internal.h"
#include "sim/core/output_file.h"
#include "sim/fabric/network.h"
#include "sim/fabric/platform_internal.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES_PER_GB 1e9
#define BYTES_PER_US 1000.0 /* of one GB/s */
#define BYTES_MAX 1e15

/* ---- reading what SimGrid found */

struct building {
    struct platform *platform;
    size_t route_count; /* complete routes, in order of pairs without the diagonal */
    size_t used, capacity;
};

static void *resized(void *array, size_t bytes)
{
    void *more = realloc(array, bytes);
    SIM_ASSERT(more != NULL, "no memory for a platform of %zu bytes", bytes);
    return more;
}

static void add_host(struct platform *platform, const char *name)
{
    platform->host = resized(platform->host, (platform->host_count + 1) * sizeof *platform->host);
    snprintf(platform->host[platform->host_count++], sizeof *platform->host, "%s", name);
}

static bool add_link(struct platform *platform, const char *text)
{
    struct platform_link link;
    int shared;
    if (sscanf(text, "%63s %lf %lf %d", link.name, &link.rate_gbs, &link.latency_us, &shared) != 4) {
        return false;
    }
    link.shared = shared != 0;
    platform->link = resized(platform->link, (platform->link_count + 1) * sizeof link);
    platform->link[platform->link_count++] = link;
    return true;
}

/* The pair that comes after `count` complete routes. */
static void pair_at(const struct platform *platform, size_t count, uint32_t *from, uint32_t *to)
{
    uint32_t others = platform->host_count - 1;
    *from = (uint32_t)(count / others);
    *to = (uint32_t)(count % others);
    *to += *to >= *from ? 1 : 0;
}

static enum sim_status add_route(struct building *building, char *text, struct sim_error *error)
{
    struct platform *platform = building->platform;
    uint32_t from, to, length = 0;
    pair_at(platform, building->route_count, &from, &to);
    size_t pair = (size_t)from * platform->host_count + to;
    platform->route_first[pair] = building->used;
    char *at = text;
    strtoul(at, &at, 10); /* the pair, known */
    strtoul(at, &at, 10);
    for (;;) {
        char *end;
        long link = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        at = end;
        bool twice = false;
        for (size_t k = platform->route_first[pair]; k < building->used; k++) {
            twice = twice || platform->route[k] == (uint32_t)link;
        }
        if (link < 0 || (size_t)link >= platform->link_count || twice || ++length > FABRIC_PATH_LINKS_MAX) {
            return sim_fail(error, SIM_BAD_FILE,
                            "%s: the route from host %s to host %s %s: must be at most %d different links",
                            platform->path, platform->host[from], platform->host[to],
                            twice ? "takes a link twice" : "is too long or names an unknown link",
                            FABRIC_PATH_LINKS_MAX);
        }
        if (building->used == building->capacity) {
            building->capacity = 2 * building->capacity + 64;
            platform->route = resized(platform->route, building->capacity * sizeof *platform->route);
        }
        platform->route[building->used++] = (uint32_t)link;
    }
    building->route_count++;
    platform->route_first[(size_t)platform->host_count * platform->host_count] = building->used;
    return SIM_OK;
}

static enum sim_status take_line(struct building *building, char *line, struct sim_error *error)
{
    struct platform *platform = building->platform;
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == 'H') {
        add_host(platform, line + 2);
    } else if (line[0] == 'L' && !add_link(platform, line + 2)) {
        return sim_fail(error, SIM_BAD_FILE, "%s: a link of it cannot be read: %s", platform->path, line + 2);
    } else if (line[0] == 'R') {
        if (platform->route_first == NULL) {
            size_t pairs = (size_t)platform->host_count * platform->host_count;
            platform->route_first = resized(NULL, (pairs + 1) * sizeof *platform->route_first);
            memset(platform->route_first, 0, (pairs + 1) * sizeof *platform->route_first);
        }
        return add_route(building, line + 2, error);
    }
    return SIM_OK;
}

/* What must hold once the child has ended. */
static enum sim_status check_complete(const struct building *building, struct sim_error *error)
{
    const struct platform *platform = building->platform;
    size_t wanted = (size_t)platform->host_count * (platform->host_count - 1);
    if (platform->host_count == 0) {
        return sim_fail(error, SIM_BAD_FILE, "%s: SimGrid finds no hosts in it: must be a platform file",
                        platform->path);
    }
    if (platform->host_count < 2 || platform->host_count > PLATFORM_HOSTS_MAX) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %u hosts: must be 2 to %d", platform->path,
                        platform->host_count, PLATFORM_HOSTS_MAX);
    }
    if (building->route_count < wanted) {
        uint32_t from, to;
        pair_at(platform, building->route_count, &from, &to);
        return sim_fail(error, SIM_BAD_FILE, "%s: disconnected: no route from rank %u (%s) to rank %u (%s)",
                        platform->path, from, platform->host[from], to, platform->host[to]);
    }
    return SIM_OK;
}

enum sim_status platform_read(const char *path, struct platform **out, struct sim_error *error)
{
    struct building building = { .platform = calloc(1, sizeof *building.platform) };
    SIM_ASSERT(building.platform != NULL, "no memory for a platform");
    snprintf(building.platform->path, sizeof building.platform->path, "%s", path);
    *out = NULL;
    int pid = -1;
    char *line = NULL;
    size_t capacity = 0;
    enum sim_status status = SIM_OK;
    if (access(path, R_OK) != 0) {
        status = sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
        goto fail;
    }
    FILE *lines = simgrid_platform_lines(path, &pid);
    if (lines == NULL) {
        status = sim_fail(error, SIM_UNSUPPORTED, "%s: no process for SimGrid: %s", path, strerror(errno));
        goto fail;
    }
    while (status == SIM_OK && getline(&line, &capacity, lines) >= 0) {
        status = take_line(&building, line, error);
    }
    fclose(lines);
    free(line);
    waitpid(pid, NULL, 0);
    if (status == SIM_OK) {
        status = check_complete(&building, error);
    }
    if (status == SIM_OK) {
        *out = building.platform;
        return SIM_OK;
    }
fail:
    platform_destroy(building.platform);
    return status;
}

void platform_destroy(struct platform *platform)
{
    if (platform != NULL) {
        free(platform->host);
        free(platform->link);
        free(platform->route_first);
        free(platform->route);
        free(platform);
    }
}

/* ---- collectives on it */

static size_t pair_index(const struct platform *platform, uint32_t from, uint32_t to)
{
    return (size_t)from * platform->host_count + to;
}

/* Links of a route: up to the start of the next pair's, which is the one behind it in the order of pairs. */
static size_t route_end(const struct platform *platform, uint32_t from, uint32_t to, size_t used)
{
    size_t pairs = (size_t)platform->host_count * platform->host_count;
    for (size_t pair = pair_index(platform, from, to) + 1; pair < pairs; pair++) {
        if (pair / platform->host_count != pair % platform->host_count) {
            return platform->route_first[pair];
        }
    }
    return used;
}

/* One step under construction. */
struct platform_step {
    const struct platform *platform;
    struct fabric_network *network;
    double latency_us; /* the longest */
};

static void step_add(struct platform_step *step, uint32_t from, uint32_t to, double bytes)
{
    const struct platform *platform = step->platform;
    size_t pairs = (size_t)platform->host_count * platform->host_count;
    size_t first = platform->route_first[pair_index(platform, from, to)];
    size_t end = route_end(platform, from, to, platform->route_first[pairs]);
    uint32_t path[FABRIC_PATH_LINKS_MAX], length = 0;
    double latency_us = 0;
    for (size_t k = first; k < end; k++) {
        const struct platform_link *link = &platform->link[platform->route[k]];
        latency_us += link->latency_us;
        path[length++] = link->shared ? platform->route[k]
                                      : fabric_network_add_link(step->network, link->name, link->rate_gbs);
    }
    step->latency_us = fmax(step->latency_us, latency_us);
    if (bytes > 0) {
        fabric_network_add_flow(step->network, path, length, bytes, 1, 0);
    }
}

static enum sim_status step_time(struct platform_step *step, const struct fabric_engine_ops *engine,
                                 double *time_us, struct sim_error *error)
{
    double *finish_us = calloc(step->network->flow_count + 1, sizeof *finish_us);
    SIM_ASSERT(finish_us != NULL, "no memory for %zu flows", step->network->flow_count);
    enum sim_status status = engine->finish(step->network, finish_us, error);
    *time_us = 0;
    for (size_t f = 0; status == SIM_OK && f < step->network->flow_count; f++) {
        *time_us = fmax(*time_us, finish_us[f]);
    }
    free(finish_us);
    return status;
}

/* Steps of a kind among `ranks`: how many, and the bytes that each rank sends on in one. */
static double ring_steps(enum collective_kind kind, double ranks, double bytes, double *piece_bytes)
{
    bool is_whole = kind == BROADCAST || kind == SEND_RECV; /* a pipelined ring moves all bytes once */
    *piece_bytes = is_whole ? bytes : bytes / ranks;
    return is_whole ? 1 : (kind == ALL_REDUCE ? 2 : 1) * (ranks - 1);
}

static enum sim_status check_request(const struct platform *platform,
                                     const struct collective_request *request, int kind, uint32_t ranks,
                                     struct sim_error *error)
{
    if (kind < 0) {
        return sim_fail(error, SIM_UNKNOWN_NAME, "unknown collective \"%s\": must be one of %s",
                        request->kind == NULL ? "" : request->kind, collective_kind_list());
    }
    if (ranks < 2 || ranks > platform->host_count) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: a group of %u ranks: %s has hosts for 2 to %u",
                        request->kind, ranks, platform->path, platform->host_count);
    }
    if (request->split_bytes == NULL && !(request->bytes > 0 && request->bytes <= BYTES_MAX)) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "%s: rank 0 gives %g bytes, as all ranks do: must be above 0 and at most %g",
                        request->kind, request->bytes, BYTES_MAX);
    }
    if (request->algorithm != NULL || request->protocol != NULL) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "%s: a platform file has wires and no library: algorithm and protocol do not apply",
                        request->kind);
    }
    return SIM_OK;
}

enum sim_status platform_collective_time(const struct platform *platform,
                                         const struct collective_request *request, enum fabric_engine engine,
                                         struct collective_result *result, struct sim_error *error)
{
    const struct fabric_engine_ops *ops = fabric_engine_ops(engine);
    uint32_t ranks = request->gpus == 0 ? platform->host_count : request->gpus;
    int kind = request->kind == NULL ? -1 : collective_kind_parse(request->kind);
    enum sim_status status = check_request(platform, request, kind, ranks, error);
    if (status != SIM_OK) {
        return status;
    }
    struct platform_step step = { platform, fabric_network_create(), 0 };
    double piece_bytes = request->bytes / ranks, count = 1, wire_us, total = request->bytes;
    for (size_t l = 0; l < platform->link_count; l++) {
        fabric_network_add_link(step.network, platform->link[l].name, platform->link[l].rate_gbs);
    }
    if (kind == ALL_TO_ALL) {
        total = request->split_bytes == NULL ? total : 0;
        for (uint32_t from = 0; from < ranks; from++) {
            double sent = 0;
            for (uint32_t to = 0; to < ranks; to++) {
                double bytes = request->split_bytes == NULL ? piece_bytes
                                                            : request->split_bytes[(size_t)from * ranks + to];
                sent += bytes;
                if (from != to) {
                    step_add(&step, from, to, bytes);
                }
            }
            total = request->split_bytes == NULL ? total : fmax(total, sent);
        }
    } else {
        count = ring_steps((enum collective_kind)kind, ranks, request->bytes, &piece_bytes);
        for (uint32_t from = 0; from < ranks; from++) {
            step_add(&step, from, (from + 1) % ranks, piece_bytes);
        }
    }
    size_t flow_count = step.network->flow_count;
    status = step_time(&step, ops, &wire_us, error);
    fabric_network_destroy(step.network);
    double hops = kind == BROADCAST ? ranks - 1.0 : count; /* a pipelined ring waits for each hop once */
    *result = (struct collective_result){ .latency_us = hops * step.latency_us,
                                          .wire_us = count * wire_us,
                                          .bound_us = count * wire_us };
    result->time_us = result->latency_us + result->wire_us;
    result->algbw_gbs = total / result->time_us / BYTES_PER_US;
    result->busbw_gbs = result->algbw_gbs * collective_bus_factor((enum collective_kind)kind, ranks);
    snprintf(result->limiter, sizeof result->limiter, "%s",
             result->latency_us > result->wire_us ? "latency" : "link");
    snprintf(result->algorithm, sizeof result->algorithm, "%s", kind == ALL_TO_ALL ? "direct" : "ring");
    snprintf(result->protocol, sizeof result->protocol, "wire");
    snprintf(result->engine, sizeof result->engine, "%s", ops->name);
    snprintf(result->choice, sizeof result->choice, "explicit flows (%zu flows)", flow_count);
    return status;
}

/* ---- ours as a platform */

static void write_links(FILE *out, const struct node_profile *node, const struct fabric_network *network)
{
    for (size_t l = 0; l < network->link_count; l++) {
        const struct fabric_link *link = &network->link[l];
        const char *last = strrchr(link->name, '.');
        bool is_out = last != NULL && strcmp(last, ".out") == 0;
        bool is_nic = strstr(link->name, ".nic.") != NULL, is_leaf = strstr(link->name, ".leaf.") != NULL;
        bool is_mesh = strstr(link->name, ".to_gpu[") != NULL;
        bool is_counted = !is_leaf && (is_mesh || is_out); /* once on each route */
        double latency_us = !is_counted ? 0 : is_nic ? node->nic_latency : node->link_latency;
        fprintf(out, "    <link id=\"%s\" bandwidth=\"%.17gBps\" latency=\"%.17gus\"/>\n", link->name,
                link->capacity_gbs * BYTES_PER_GB, latency_us);
    }
}

static void write_platform(FILE *out, const struct node_profile *node, uint32_t gpus, uint32_t nodes,
                           const struct fabric_network *network)
{
    uint32_t ranks = gpus * nodes;
    fprintf(out,
            "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
            "<!-- %u x %u GPUs of node %s, written by reckon: usable rates one way. -->\n"
            "<platform version=\"4.1\">\n  <zone id=\"%s\" routing=\"Full\">\n",
            nodes, gpus, node->name, node->name);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        fprintf(out, "    <host id=\"node%04u_gpu%02u\" speed=\"1Gf\"/>\n", rank / gpus, rank % gpus);
    }
    write_links(out, node, network);
    for (size_t f = 0; f < network->flow_count; f++) {
        uint32_t from = (uint32_t)(f / (ranks - 1)), to = (uint32_t)(f % (ranks - 1));
        to += to >= from ? 1 : 0;
        fprintf(out, "    <route src=\"node%04u_gpu%02u\" dst=\"node%04u_gpu%02u\" symmetrical=\"NO\">",
                from / gpus, from % gpus, to / gpus, to % gpus);
        const struct fabric_flow *flow = &network->flow[f];
        for (uint32_t k = 0; k < flow->path_count; k++) {
            fprintf(out, "<link_ctn id=\"%s\"/>", network->link[network->path[flow->path_first + k]].name);
        }
        fprintf(out, "</route>\n");
    }
    fprintf(out, "  </zone>\n</platform>\n");
}

enum sim_status platform_write(const struct node_profile *node, uint32_t gpus, uint32_t nodes,
                               const char *path, struct sim_error *error)
{
    struct collective_request probe = { .kind = "all_to_all", .bytes = 1, .gpus = gpus, .nodes = nodes };
    struct collective_result unused;
    enum sim_status status = collective_time(node, &probe, FABRIC_ENGINE_FLUID, &unused, error);
    if (status != SIM_OK) {
        return status;
    }
    if ((double)gpus * nodes > PLATFORM_HOSTS_MAX) {
        return sim_fail(error, SIM_UNSUPPORTED,
                        "%s: a platform of %.0f GPUs has a route for each pair: at most %d", path,
                        (double)gpus * nodes, PLATFORM_HOSTS_MAX);
    }
    struct output_file file;
    status = output_file_open(&file, "", path, error);
    if (status != SIM_OK) {
        return status;
    }
    struct cluster cluster = { node, gpus, nodes };
    struct fabric_network *network = cluster_pairs_network(&cluster);
    SIM_ASSERT(network->flow_count == (size_t)gpus * nodes * (gpus * nodes - 1), "%zu routes",
               network->flow_count);
    write_platform(file.stream, node, gpus, nodes, network);
    fabric_network_destroy(network);
    return output_file_close(&file, error);
}
