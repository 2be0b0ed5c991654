/* Price of a collective call: the plans that may run are built by library.c, their steps' transfers solved by a flow
 * engine, and the one that the library would choose (or was told to run) is returned. */
#include "sim/fabric/library_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_PER_US 1000.0 /* of one GB/s */
#define BYTES_MAX 1e15
#define RANKS_MAX 65536
#define EXPLICIT_RANKS_MAX 2048

/* A plan with its price. */
struct priced {
    struct library_plan plan;
    double time_us, latency_us, transfer_us; /* transfer: with protocol and workgroups, at its own pace */
    double bound_us;                         /* the same bytes at usable link rates */
    double memory_us;
    enum cluster_view view; /* of the first steps */
    size_t flow_count;
    double expected_us; /* by the library's own model; negative: it has none */
};

/* ---- checks */

static enum sim_status check_group(const struct node_profile *node, const struct collective_request *request,
                                   struct sim_error *error)
{
    double ranks = (double)request->gpus * request->nodes;
    if (request->nodes < 1 || request->gpus < 1 || ranks < 2) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "%s: rank 0 in a group of %.0f GPUs has nobody to talk to: must be at least 2",
                        request->kind, ranks);
    }
    if (request->gpus > node->topology_gpus) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "%s: rank %g has no GPU: a group of %u GPUs per node is larger than node %s: 1 to %g",
                        request->kind, node->topology_gpus, request->gpus, node->name, node->topology_gpus);
    }
    if (request->nodes > 1 && !node->has_nic) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "%s: rank 0 has no way to rank %u: node %s has no network (section nic), so %u nodes "
                        "cannot be joined",
                        request->kind, request->gpus, node->name, request->nodes);
    }
    if (ranks > RANKS_MAX) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: %.0f ranks: must be at most %d", request->kind, ranks,
                        RANKS_MAX);
    }
    return SIM_OK;
}

static enum sim_status check_bytes(const struct library_call *call, struct sim_error *error)
{
    const char *kind = collective_kind_text(call->kind);
    if (!(call->bytes > 0) || call->bytes > BYTES_MAX) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "%s: rank 0 gives %g bytes, as all ranks do: must be above 0 and at most %g", kind,
                        call->bytes, BYTES_MAX);
    }
    return SIM_OK;
}

/* Largest row sum, so that `bytes` means what it means for equal splits; errors name the rank. */
static enum sim_status check_split(const double *split, size_t ranks, double *bytes, struct sim_error *error)
{
    *bytes = 0;
    for (size_t from = 0; from < ranks; from++) {
        double sent = 0;
        for (size_t to = 0; to < ranks; to++) {
            double piece = split[from * ranks + to];
            if (!(piece >= 0 && piece <= BYTES_MAX)) {
                return sim_fail(error, SIM_BAD_ARGUMENT,
                                "all_to_all: rank %zu sends %g bytes to rank %zu: must be 0 to %g", from,
                                piece, to, BYTES_MAX);
            }
            sent += piece;
        }
        *bytes = fmax(*bytes, sent);
    }
    return SIM_OK;
}

static enum sim_status read_call(const struct node_profile *node, const struct collective_request *request,
                                 struct library_call *call, struct sim_error *error)
{
    int kind = request->kind == NULL ? -1 : collective_kind_parse(request->kind);
    if (kind < 0) {
        return sim_fail(error, SIM_UNKNOWN_NAME, "unknown collective \"%s\": must be one of %s",
                        request->kind == NULL ? "" : request->kind, collective_kind_list());
    }
    enum sim_status status = check_group(node, request, error);
    if (status != SIM_OK) {
        return status;
    }
    *call = (struct library_call){
        .cluster = { node, request->gpus, request->nodes },
        .kind = (enum collective_kind)kind,
        .bytes = request->bytes,
        .split = request->split_bytes,
        .queue_pairs = request->queue_pairs > 0 ? request->queue_pairs
                                                : (node->has_nic ? node->nic_queue_pairs : 1),
        .p2p_batch = request->p2p_batch > 0 ? request->p2p_batch : node->p2p_batch,
        .channels_max = request->channels > 0                      ? request->channels
                        : (enum collective_kind)kind == ALL_REDUCE ? node->library_all_reduce_channels
                                                                   : node->library_channels,
        .threads = request->threads > 0 ? request->threads : node->library_threads,
    };
    if (call->split != NULL && call->kind != ALL_TO_ALL) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s has no splits: only all_to_all does", request->kind);
    }
    if (call->split != NULL) {
        status = check_split(call->split, (size_t)request->gpus * request->nodes, &call->bytes, error);
    }
    return status != SIM_OK ? status : check_bytes(call, error);
}

/* ---- price */

/* norm (a^k + b^k)^(1/k): 1 adds, infinity takes the larger. */
static double norm(double a, double b, double k)
{
    double larger = fmax(a, b), smaller = fmin(a, b);
    return larger <= 0 ? 0 : larger * pow(1 + pow(smaller / larger, k), 1 / k);
}

/* A flow per pair takes memory and time in the square of the ranks. */
static enum sim_status check_view(const struct library_call *call, enum cluster_view view,
                                  struct sim_error *error)
{
    double ranks = (double)call->cluster.gpus * call->cluster.nodes;
    if (view == CLUSTER_PER_PAIR && ranks > EXPLICIT_RANKS_MAX) {
        return sim_fail(error, SIM_UNSUPPORTED,
                        "%s: %.0f ranks need a flow per pair here (splits, explicit flows or uneven leaves): "
                        "at most %d",
                        collective_kind_text(call->kind), ranks, EXPLICIT_RANKS_MAX);
    }
    return SIM_OK;
}

static const struct cluster_wire bare_wire = { .link_share = 1, .nic_share = 1 };

static enum sim_status price(const struct library_call *call, bool explicit_flows,
                             const struct fabric_engine_ops *engine, struct priced *priced,
                             struct sim_error *error)
{
    const struct library_plan *plan = &priced->plan;
    double step_us[LIBRARY_STEPS_MAX];
    priced->latency_us = plan->fixed_us;
    for (int i = 0; i < plan->step_kinds; i++) {
        const struct library_steps *steps = &plan->steps[i];
        double bound_us;
        size_t bound_flows = 0;
        enum cluster_view view = cluster_view_of(&call->cluster, &steps->traffic);
        view = explicit_flows && steps->traffic.switch_bytes == 0 ? CLUSTER_PER_PAIR : view;
        priced->view = i == 0 ? view : priced->view;
        enum sim_status status = check_view(call, view, error);
        if (status == SIM_OK) {
            status = cluster_step_time(&call->cluster, &steps->traffic, &plan->wire, view, engine,
                                       &step_us[i], &priced->flow_count, error);
        }
        if (status == SIM_OK) {
            status = cluster_step_time(&call->cluster, &steps->traffic, &bare_wire, view, engine, &bound_us,
                                       &bound_flows, error);
        }
        if (status != SIM_OK) {
            return status;
        }
        priced->latency_us += steps->count * steps->latency_us;
        priced->transfer_us += steps->count * step_us[i];
        priced->bound_us += steps->count * bound_us;
    }
    /* Memory that cannot keep up slows every step alike. */
    priced->memory_us = plan->hbm_bytes / (call->cluster.node->memory_rate * BYTES_PER_US);
    double slower = priced->memory_us > priced->transfer_us ? priced->memory_us / priced->transfer_us : 1;
    priced->transfer_us *= slower;
    priced->time_us = plan->fixed_us;
    for (int i = 0; i < plan->step_kinds; i++) {
        priced->time_us += plan->steps[i].count *
                           norm(plan->steps[i].latency_us, slower * step_us[i], plan->overlap);
    }
    return SIM_OK;
}

/* ---- choice */

static bool is_allowed(const struct library_call *call, int algorithm, int protocol, int forced_algorithm,
                       int forced_protocol)
{
    if ((forced_algorithm >= 0 && algorithm != forced_algorithm) ||
        (forced_protocol >= 0 && protocol != forced_protocol)) {
        return false;
    }
    /* What the user forces need only exist; what is left open is the library's. */
    bool is_forced = forced_algorithm >= 0 || forced_protocol >= 0;
    return is_forced ? library_can(call, (enum collective_algorithm)algorithm,
                                   (enum collective_protocol)protocol) &&
                           (forced_protocol >= 0 || protocol != PROTOCOL_LL64)
                     : library_considers(call, (enum collective_algorithm)algorithm,
                                         (enum collective_protocol)protocol);
}

/* The library's rules for algorithms know nothing of LL64; forced, it goes where LL128 would. */
static bool would_consider(const struct library_call *call, int algorithm, int protocol)
{
    return library_considers(call, (enum collective_algorithm)algorithm,
                             protocol == PROTOCOL_LL64 ? PROTOCOL_LL128 : (enum collective_protocol)protocol);
}

/* A forced algorithm leaves the protocol open and the other way round; where the library would consider some of what is
 * left, the rest is out. */
static bool any_considered(const struct library_call *call, int forced_algorithm, int forced_protocol)
{
    for (int a = 0; a < ALGORITHMS; a++) {
        for (int p = 0; p < PROTOCOLS; p++) {
            if (is_allowed(call, a, p, forced_algorithm, forced_protocol) && would_consider(call, a, p)) {
                return true;
            }
        }
    }
    return false;
}

/* The library's own expectation decides where both have one, else the price. */
static bool is_better(const struct priced *a, const struct priced *b)
{
    bool both_expect = a->expected_us >= 0 && b->expected_us >= 0;
    return both_expect ? a->expected_us < b->expected_us : a->time_us < b->time_us;
}

static enum sim_status parse_forced(const char *what, const char *name, int (*parse)(const char *),
                                    const char *list, int *forced, struct sim_error *error)
{
    *forced = name == NULL ? -1 : parse(name);
    if (name != NULL && *forced < 0) {
        return sim_fail(error, SIM_UNKNOWN_NAME, "unknown %s \"%s\": must be one of %s", what, name, list);
    }
    return SIM_OK;
}

static enum sim_status fail_not_possible(const struct library_call *call,
                                         const struct collective_request *request, struct sim_error *error)
{
    char valid[256] = "";
    for (int a = 0; a < ALGORITHMS; a++) {
        for (int p = 0; p < PROTOCOLS; p++) {
            if (library_can(call, (enum collective_algorithm)a, (enum collective_protocol)p)) {
                size_t length = strlen(valid);
                snprintf(valid + length, sizeof valid - length, "%s%s/%s", length == 0 ? "" : ", ",
                         collective_algorithm_text((enum collective_algorithm)a),
                         collective_protocol_text((enum collective_protocol)p));
            }
        }
    }
    return sim_fail(error, SIM_BAD_ARGUMENT,
                    "%s: ranks 0 to %u on %u node(s) %s cannot run as %s/%s: must be one of %s",
                    collective_kind_text(call->kind), request->gpus * request->nodes - 1, request->nodes,
                    call->cluster.node->name, request->algorithm == NULL ? "any" : request->algorithm,
                    request->protocol == NULL ? "any" : request->protocol, valid);
}

static enum sim_status choose(const struct library_call *call, const struct collective_request *request,
                              const struct fabric_engine_ops *engine, struct priced *best,
                              struct sim_error *error)
{
    int algorithm, protocol;
    enum sim_status status = parse_forced("algorithm", request->algorithm, collective_algorithm_parse,
                                          collective_algorithm_list(), &algorithm, error);
    if (status == SIM_OK) {
        status = parse_forced("protocol", request->protocol, collective_protocol_parse,
                              collective_protocol_list(), &protocol, error);
    }
    if (status != SIM_OK) {
        return status;
    }
    bool found = false, considered = any_considered(call, algorithm, protocol);
    for (int a = 0; a < ALGORITHMS; a++) {
        for (int p = 0; p < PROTOCOLS; p++) {
            if (!is_allowed(call, a, p, algorithm, protocol) || (considered && !would_consider(call, a, p))) {
                continue;
            }
            struct priced candidate = { 0 };
            library_plan(call, (enum collective_algorithm)a, (enum collective_protocol)p, &candidate.plan);
            candidate.expected_us = library_expects_us(call, (enum collective_algorithm)a,
                                                       (enum collective_protocol)p);
            status = price(call, request->explicit_flows, engine, &candidate, error);
            if (status != SIM_OK) {
                library_plan_finish(&candidate.plan);
                return status;
            }
            bool is_best = !found || is_better(&candidate, best);
            library_plan_finish(is_best ? &best->plan : &candidate.plan);
            *best = is_best ? candidate : *best;
            found = true;
        }
    }
    return found ? SIM_OK : fail_not_possible(call, request, error);
}

/* ---- result */

/* True when NICs, not links inside nodes, would bind the bare bytes of the plan's first steps. */
static bool is_nic_bound(const struct library_call *call, const struct library_plan *plan)
{
    const struct cluster *cluster = &call->cluster;
    if (cluster->nodes == 1) {
        return false;
    }
    const struct cluster_traffic *traffic = &plan->steps[0].traffic;
    double remote = traffic->remote_bytes * (cluster->nodes - 1.0) * cluster->gpus + traffic->rail_bytes +
                    traffic->neighbour_bytes;
    double local = traffic->pair_bytes * (cluster->gpus - 1.0);
    double local_us = cluster->gpus > 1 ? local / node_profile_group_rate(cluster->node, cluster->gpus, false)
                                        : 0;
    return remote / cluster->node->nic_usable > local_us;
}

static const char *limiter_text(const struct library_call *call, const struct priced *priced)
{
    if (priced->latency_us >= priced->transfer_us) {
        return "latency";
    }
    if (priced->memory_us >= priced->transfer_us) {
        return "memory";
    }
    if (priced->plan.algorithm == ALGORITHM_IN_SWITCH) {
        return "in_switch";
    }
    if (priced->bound_us < 0.75 * priced->transfer_us) { /* the rest is flags, loops and workgroups */
        return "protocol";
    }
    return is_nic_bound(call, &priced->plan) ? "nic" : "link";
}

/* What a GPU reads to send it. In-switch: half of the traffic, the other half is the switch's answer. */
static double sent_bytes(const struct library_call *call, const struct library_plan *plan)
{
    double n = call->cluster.gpus, m = call->cluster.nodes, bytes = 0;
    if (plan->algorithm == ALGORITHM_IN_SWITCH) {
        return plan->hbm_bytes / 2;
    }
    if (call->split != NULL) {
        return fmin(call->bytes, plan->hbm_bytes);
    }
    for (int i = 0; i < plan->step_kinds; i++) {
        const struct cluster_traffic *traffic = &plan->steps[i].traffic;
        bytes += plan->steps[i].count *
                 (traffic->pair_bytes * (n - 1) + traffic->neighbour_bytes + traffic->rail_bytes +
                  (m - 1) * (traffic->rail_each_bytes + n * traffic->remote_bytes));
    }
    return fmin(bytes, plan->hbm_bytes);
}

static void fill_result(const struct library_call *call, const struct priced *priced,
                        const struct fabric_engine_ops *engine, struct collective_result *result)
{
    double ranks = (double)call->cluster.gpus * call->cluster.nodes;
    *result = (struct collective_result){
        .time_us = priced->time_us,
        .algbw_gbs = call->bytes / priced->time_us / BYTES_PER_US,
        .bound_us = priced->bound_us,
        .channels = priced->plan.channels,
        .hbm_bytes = priced->plan.hbm_bytes,
        .hbm_send_bytes = sent_bytes(call, &priced->plan),
        .latency_us = priced->latency_us,
        .wire_us = priced->transfer_us,
        .in_switch = priced->plan.algorithm == ALGORITHM_IN_SWITCH,
    };
    result->hbm_receive_bytes = result->hbm_bytes - result->hbm_send_bytes;
    result->busbw_gbs = result->algbw_gbs * collective_bus_factor(call->kind, ranks);
    snprintf(result->limiter, sizeof result->limiter, "%s", limiter_text(call, priced));
    snprintf(result->algorithm, sizeof result->algorithm, "%s",
             collective_algorithm_text(priced->plan.algorithm));
    snprintf(result->protocol, sizeof result->protocol, "%s",
             collective_protocol_text(priced->plan.protocol));
    snprintf(result->engine, sizeof result->engine, "%s", engine->name);
    double together = priced->view == CLUSTER_PER_PAIR && engine == &fluid_engine_ops
                          ? cluster_ends_together(&call->cluster, &priced->plan.steps[0].traffic)
                          : 0;
    snprintf(result->choice, sizeof result->choice, "%s (%zu flow%s)%s", cluster_view_text(priced->view),
             priced->flow_count, priced->flow_count == 1 ? "" : "s",
             together > 0 ? ", ends within 0.5% as one" : "");
}

enum sim_status collective_time(const struct node_profile *node, const struct collective_request *request,
                                enum fabric_engine engine, struct collective_result *result,
                                struct sim_error *error)
{
    const struct fabric_engine_ops *ops = fabric_engine_ops(engine);
    struct library_call call;
    struct priced best = { 0 };
    enum sim_status status = read_call(node, request, &call, error);
    if (status == SIM_OK) {
        status = choose(&call, request, ops, &best, error);
    }
    if (status == SIM_OK) {
        fill_result(&call, &best, ops, result);
        result->threads = request->threads > 0 ? request->threads : (uint32_t)node->library_threads;
        result->registers = request->registers > 0 ? request->registers : (uint32_t)node->library_registers;
    }
    library_plan_finish(&best.plan);
    return status;
}

double collective_units_taken(const struct collective_result *result, double unit_registers,
                              double unit_threads)
{
    double lanes = result->threads;
    return result->channels * fmax(lanes * result->registers / unit_registers, lanes / unit_threads);
}

bool collective_same_kind(const char *a, const char *b)
{
    return collective_kind_parse(a) >= 0 && collective_kind_parse(a) == collective_kind_parse(b);
}

enum sim_status collective_check_sizes(const char *kind, const double *bytes, uint32_t rank_count,
                                       struct sim_error *error)
{
    for (uint32_t rank = 1; collective_kind_parse(kind) != ALL_TO_ALL && rank < rank_count; rank++) {
        if (bytes[rank] != bytes[0]) {
            return sim_fail(error, SIM_BAD_ARGUMENT,
                            "%s: rank %u gives %.10g bytes and rank 0 gives %.10g: must be the same on all",
                            kind, rank, bytes[rank], bytes[0]);
        }
    }
    return SIM_OK;
}
