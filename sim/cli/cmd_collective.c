/* reckon collective: one collective on one node or cluster, with what bounds it. */
#include "sim/cli/cli.h"
#include "sim/core/data_path.h"
#include "sim/core/json.h"
#include "sim/fabric/fabric.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GIB 1073741824.0

enum { OPTION_NODE = 0x2000, OPTION_GPUS, OPTION_NODES, OPTION_PROTOCOL, OPTION_ALGORITHM, OPTION_EXPLICIT };

static const struct argp_option options[] = {
    { "node", OPTION_NODE, "N", 0, "node by name (devices/nodes) or profile file; needed", 0 },
    { "gpus", OPTION_GPUS, "G", 0, "GPUs of the group, all nodes together (default: all of them)", 0 },
    { "nodes", OPTION_NODES, "M", 0, "nodes that they are spread over evenly (default 1)", 0 },
    { "protocol", OPTION_PROTOCOL, "P", 0, "simple, LL, LL128 or LL64 (default: as the library chooses)", 0 },
    { "algorithm", OPTION_ALGORITHM, "A", 0,
      "ring, direct, tree or in_switch (default: as the library chooses)", 0 },
    { "explicit", OPTION_EXPLICIT, NULL, 0, "a flow per pair of GPUs even where one GPU can stand for all",
      0 },
    { 0 },
};

struct arguments {
    struct cli_common common;
    const char *kind, *bytes_text, *node;
    double bytes;
    uint32_t gpus, nodes; /* gpus 0: all */
    const char *protocol, *algorithm;
    bool explicit_flows;
};

/* "1048576", "256MiB", "1.5 GB": decimal units are powers of ten, binary ones of two. NaN when it is neither. */
static double parse_bytes(const char *text)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {
        { "", 1 },          { "B", 1 },     { "KiB", 1024 },
        { "MiB", 1048576 }, { "GiB", GIB }, { "TiB", 1024 * GIB },
        { "KB", 1e3 },      { "MB", 1e6 },  { "GB", 1e9 },
        { "TB", 1e12 },
    };
    char *end = NULL;
    double number = strtod(text, &end);
    if (end == text || !isfinite(number) || isalpha((unsigned char)text[0])) {
        return NAN;
    }
    end += strspn(end, " ");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(end, units[i].unit) == 0) {
            return number * units[i].bytes;
        }
    }
    return NAN;
}

static void take_word(struct arguments *arguments, char *word)
{
    if (arguments->kind == NULL) {
        arguments->kind = word;
    } else if (arguments->bytes_text == NULL) {
        arguments->bytes_text = word;
    } else {
        cli_usage_error(&arguments->common, "'%s' is one word too many: KIND BYTES is needed", word);
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct cli_common *common = &arguments->common;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = common; return 0;
    case ARGP_KEY_ARG: take_word(arguments, argument); return 0;
    case OPTION_NODE: arguments->node = argument; return 0;
    case OPTION_GPUS:
        arguments->gpus = (uint32_t)cli_integer(common, "--gpus", argument, 1, 1000000);
        return 0;
    case OPTION_NODES:
        arguments->nodes = (uint32_t)cli_integer(common, "--nodes", argument, 1, 1000000);
        return 0;
    case OPTION_PROTOCOL: arguments->protocol = argument; return 0;
    case OPTION_ALGORITHM: arguments->algorithm = argument; return 0;
    case OPTION_EXPLICIT: arguments->explicit_flows = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 }, { 0 } };
static const struct argp argp = {
    options,
    parse,
    "KIND BYTES",
    "Time of one collective on a node or cluster, what bounds it and which part of the time that is.\n\n"
    "KIND is all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send_recv. BYTES is counted as "
    "nccl-tests "
    "counts (all_gather: total output; reduce_scatter: total input; all_to_all: per-rank total) and takes "
    "KiB, MiB, GiB, "
    "KB, MB, GB.\v"
    "Example: reckon collective all_to_all 256MiB --node mi350x8 --gpus 8",
    children,
    NULL,
    NULL
};

static void check_arguments(struct arguments *arguments)
{
    const struct cli_common *common = &arguments->common;
    if (arguments->kind == NULL || arguments->bytes_text == NULL) {
        cli_usage_error(common, "KIND BYTES is needed, as in: collective all_reduce 256MiB --node b200x8");
    }
    if (arguments->node == NULL) {
        cli_usage_error(common, "--node N is needed, as in: --node b200x8");
    }
    if (common->device_count > 0) {
        cli_usage_error(common, "--device '%s': a collective runs on a node, give --node alone",
                        common->devices[0]);
    }
    arguments->bytes = parse_bytes(arguments->bytes_text);
    if (isnan(arguments->bytes)) {
        cli_usage_error(
            common,
            "BYTES '%s': must be a number with B, KiB, MiB, GiB, TiB, KB, MB, GB, TB or nothing after it",
            arguments->bytes_text);
    }
}

/* GPUs per node from the user's total. */
static enum sim_status group_per_node(const struct arguments *arguments, const struct node_profile *node,
                                      uint32_t *gpus, struct sim_error *error)
{
    uint32_t per_node = node_profile_gpu_count(node);
    uint32_t total = arguments->gpus == 0 ? per_node * arguments->nodes : arguments->gpus;
    if (total % arguments->nodes != 0) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "--gpus %u over --nodes %u: the GPUs must divide evenly",
                        total, arguments->nodes);
    }
    *gpus = total / arguments->nodes;
    if (*gpus > per_node) {
        uint32_t needed = (total + per_node - 1) / per_node;
        return sim_fail(
            error, SIM_BAD_ARGUMENT,
            "--gpus %u: a group larger than %u node(s) of %s, which has %u GPUs; %u fit --nodes %u", total,
            arguments->nodes, node_profile_name(node), per_node, total, needed);
    }
    return SIM_OK;
}

/* ---- print */

static void print_size(double bytes, char *text, size_t capacity)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, capacity, "%.4g %s", bytes, units[unit]);
}

/* A line "time  694.8 us  note", in columns; note "": none. */
static void print_time(const char *label, double us, const char *note)
{
    bool is_long = us >= 1e4;
    printf("  %-15s %10.*f %s%s%s\n", label, is_long ? 2 : 1, is_long ? us / 1e3 : us, is_long ? "ms" : "us",
           note[0] != '\0' ? "    " : "", note);
}

/* "41 spec, 3 measured, ...": what kind of numbers the node's profile holds. */
static void print_basis(const struct node_profile *node, char *text, size_t capacity)
{
    static const char *const kinds[] = { "spec", "measured", "derived", "fitted", "assumed" };
    size_t length = 0;
    text[0] = '\0';
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        unsigned count = 0;
        struct node_profile_value value;
        for (size_t i = 0; i < node_profile_number_count(); i++) {
            count += node_profile_number_at(node, i, &value) && strcmp(value.kind, kinds[k]) == 0;
        }
        if (count > 0 && length < capacity) {
            length += (size_t)snprintf(text + length, capacity - length, "%s%u %s", length > 0 ? ", " : "",
                                       count, kinds[k]);
        }
    }
}

static void print_links(const struct node_profile *node, const struct collective_request *request)
{
    struct node_link_table links;
    node_profile_links(node, request->gpus, &links);
    printf("\n  one way                raw    usable\n");
    printf("  one link        %10.1f %9.1f GB/s\n", links.link_raw_gbs, links.link_usable_gbs);
    if (request->gpus > 1) {
        printf("  GPU to its group%10.1f %9.1f GB/s  %u link%s, %s\n", links.group_raw_gbs,
               links.group_usable_gbs, links.links_used, links.links_used == 1 ? "" : "s", links.topology);
    }
    if (request->nodes > 1) {
        printf("  NIC of a GPU    %10.1f %9.1f GB/s\n", links.nic_raw_gbs, links.nic_usable_gbs);
    }
}

static void print_text(const struct node_profile *node, const struct collective_request *request,
                       const struct collective_result *result)
{
    char size[32], memory[32], basis[128], bound_note[96];
    snprintf(bound_note, sizeof bound_note, "%.0f%% of the time: the bytes alone at usable link rates",
             100 * result->bound_us / result->time_us);
    print_size(request->bytes, size, sizeof size);
    print_size(result->hbm_bytes, memory, sizeof memory);
    print_basis(node, basis, sizeof basis);
    printf("%s of %s among %u GPUs on %u node%s %s: %s; %s\n\n", request->kind, size,
           request->gpus * request->nodes, request->nodes, request->nodes == 1 ? "" : "s",
           node_profile_name(node), node_profile_title(node), node_profile_library(node));
    print_time("time", result->time_us, "");
    print_time("bound", result->bound_us, bound_note);
    printf("  bus bandwidth   %10.1f GB/s%s\n", result->busbw_gbs,
           result->in_switch ? "  the switch adds, so it may exceed the usable link rate" : "");
    printf("  alg bandwidth   %10.1f GB/s\n", result->algbw_gbs);
    print_time("launch, steps", result->latency_us, "may overlap the transfer");
    print_time("transfer", result->wire_us, "");
    printf("  limiter         %10s\n", result->limiter);
    printf("  runs as         %s/%s on %u channels of each GPU\n", result->algorithm, result->protocol,
           result->channels);
    printf("  memory traffic  %10s in each GPU\n", memory);
    print_links(node, request);
    printf("\n  solved by       %s, %s\n", result->engine, result->choice);
    printf("  node profile    %s\n", basis);
}

static void print_json(const struct node_profile *node, const struct collective_request *request,
                       const struct collective_result *result)
{
    struct node_link_table links;
    struct json *root = json_new_object();
    node_profile_links(node, request->gpus, &links);
    json_set_string(root, "schema", "reckon.collective/1");
    json_set_string(root, "kind", request->kind);
    json_set_number(root, "bytes", request->bytes);
    json_set_integer(root, "gpus", (int64_t)request->gpus * request->nodes);
    json_set_integer(root, "nodes", request->nodes);
    json_set_string(root, "node", node_profile_name(node));
    json_set_number(root, "time_us", result->time_us);
    json_set_number(root, "algbw_gbs", result->algbw_gbs);
    json_set_number(root, "busbw_gbs", result->busbw_gbs);
    json_set_number(root, "bound_us", result->bound_us);
    json_set_number(root, "latency_us", result->latency_us);
    json_set_number(root, "transfer_us", result->wire_us);
    json_set_string(root, "limiter", result->limiter);
    json_set_string(root, "algorithm", result->algorithm);
    json_set_string(root, "protocol", result->protocol);
    json_set_integer(root, "channels", result->channels);
    json_set_bool(root, "in_switch", result->in_switch);
    json_set_number(root, "hbm_bytes", result->hbm_bytes);
    json_set_string(root, "engine", result->engine);
    json_set_string(root, "flows", result->choice);
    struct json *table = json_new_object();
    json_set_string(table, "topology", links.topology);
    json_set_integer(table, "links_per_gpu", links.links_used);
    json_set_number(table, "link_raw_gbs", links.link_raw_gbs);
    json_set_number(table, "link_usable_gbs", links.link_usable_gbs);
    json_set_number(table, "group_raw_gbs", links.group_raw_gbs);
    json_set_number(table, "group_usable_gbs", links.group_usable_gbs);
    json_set_number(table, "nic_raw_gbs", links.nic_raw_gbs);
    json_set_number(table, "nic_usable_gbs", links.nic_usable_gbs);
    json_set(root, "links", table);
    cli_print_json(root);
}

int cmd_collective(int argc, char **argv)
{
    struct arguments arguments = { .common = { .command = "reckon collective" }, .nodes = 1 };
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    check_arguments(&arguments);
    struct node_profile *node = NULL;
    struct sim_error error = { 0 };
    struct collective_result result;
    struct collective_request request = {
        .kind = arguments.kind,
        .bytes = arguments.bytes,
        .nodes = arguments.nodes,
        .protocol = arguments.protocol,
        .algorithm = arguments.algorithm,
        .explicit_flows = arguments.explicit_flows,
    };
    char path[DATA_PATH_CAPACITY];
    enum sim_status status = data_path_find("devices/nodes", "node", arguments.node, path, &error);
    if (status == SIM_OK) {
        status = node_profile_read(path, &node, &error);
    }
    if (status == SIM_OK) {
        status = group_per_node(&arguments, node, &request.gpus, &error);
    }
    if (status == SIM_OK) {
        enum fabric_engine engine = arguments.common.options.fabric_simgrid ? FABRIC_ENGINE_SIMGRID
                                                                            : FABRIC_ENGINE_FLUID;
        status = collective_time(node, &request, engine, &result, &error);
    }
    if (status != SIM_OK) {
        node_profile_destroy(node);
        cli_common_finish(&arguments.common);
        return cli_fail(&arguments.common, &error);
    }
    if (arguments.common.json) {
        print_json(node, &request, &result);
    } else {
        print_text(node, &request, &result);
    }
    node_profile_destroy(node);
    cli_common_finish(&arguments.common);
    return 0;
}
