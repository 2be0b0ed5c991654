/* reckon collective: one collective on one node or cluster, with what bounds it, what levers change, and its curve. */
#include "sim/cli/cli.h"
#include "sim/cli/collective_curve.h"
#include "sim/cli/print_collective.h"
#include "sim/step/uncertainty.h"
#include "sim/core/chip_profile.h"
#include "sim/core/data_path.h"
#include "sim/core/rng.h"
#include "sim/fabric/platform.h"
#include "sim/step/session.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GIB 1073741824.0
#define SETS_MAX 32
#define RANK_LIST_MAX 4096
#define SPLIT_RANKS_MAX 8192 /* half a GiB of splits */
#define CALLS 20.0           /* as nccl-tests times them */

enum {
    OPTION_NODE = 0x2000,
    OPTION_GPUS,
    OPTION_NODES,
    OPTION_RANKS,
    OPTION_PROTOCOL,
    OPTION_ALGORITHM,
    OPTION_EXPLICIT,
    OPTION_FIX,
    OPTION_SET,
    OPTION_SKEW,
    OPTION_SPLITS,
    OPTION_HARNESS,
    OPTION_SVG,
    OPTION_MEASURED,
    OPTION_PLATFORM,
    OPTION_EXPORT
};

static const struct argp_option options[] = {
    { "node", OPTION_NODE, "N", 0, "node by name (devices/nodes) or profile file", 0 },
    { "gpus", OPTION_GPUS, "G", 0, "GPUs of the group, all nodes together (default: all of them)", 0 },
    { "nodes", OPTION_NODES, "M", 0, "nodes that they are spread over evenly (default 1)", 0 },
    { "ranks", OPTION_RANKS, "LIST", 0, "the group by rank, as in 0-3,6,7, instead of --gpus", 0 },
    { "protocol", OPTION_PROTOCOL, "P", 0, "simple, LL, LL128 or LL64 (default: as the library chooses)", 0 },
    { "algorithm", OPTION_ALGORITHM, "A", 0,
      "ring, direct, tree, in_switch or hierarchical (default: as the library chooses)", 0 },
    { "fix", OPTION_FIX, "F", 0,
      "a lever, before and after: ll64, single-qp, direct-allgather, p2p-batch, wave-per-peer; repeatable",
      0 },
    { "set", OPTION_SET, "K=V", 0, "a number of the node, as in nic.rails=8; repeatable", 0 },
    { "skew", OPTION_SKEW, "S", 0, "all_to_all: sources send up to S more or less than BYTES, 0 to 1", 0 },
    { "splits", OPTION_SPLITS, "FILE", 0,
      "all_to_all: bytes from rank (line) to rank (column), commas between", 0 },
    { "explicit", OPTION_EXPLICIT, NULL, 0, "a flow per pair of GPUs even where one GPU can stand for all",
      0 },
    { "harness", OPTION_HARNESS, "H", 0, "also a call as that measuring program reads it (devices/harness)",
      0 },
    { "svg", OPTION_SVG, "FILE", 0, "predicted and measured curves over sizes", 1 },
    { "measured", OPTION_MEASURED, "CSV", 0,
      "measured rows of --svg (default: the node's table in calib/data)", 1 },
    { "platform", OPTION_PLATFORM, "FILE", 0, "a SimGrid platform file instead of --node: wires alone", 1 },
    { "export-platform", OPTION_EXPORT, "FILE", 0, "write the cluster as a SimGrid platform file", 1 },
    { 0 },
};

struct arguments {
    struct cli_common common;
    const char *kind, *bytes_text, *node, *platform, *export_path;
    const char *svg, *measured, *splits, *harness, *ranks;
    double bytes, skew;
    uint32_t gpus, nodes; /* gpus 0: all */
    const char *protocol, *algorithm;
    const char *fixes[COLLECTIVE_LEVERS_MAX], *sets[SETS_MAX];
    size_t fix_count, set_count;
    bool explicit_flows;
    double *split; /* owned; [ranks][ranks] */
    struct reckon_doubts *doubts; /* owned */
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

static void keep(struct arguments *arguments, const char *option, const char **list, size_t *count,
                 size_t capacity, const char *text)
{
    if (*count == capacity) {
        cli_usage_error(&arguments->common, "%s is given more than %zu times", option, capacity);
    }
    list[(*count)++] = text;
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
    case OPTION_RANKS: arguments->ranks = argument; return 0;
    case OPTION_PROTOCOL: arguments->protocol = argument; return 0;
    case OPTION_ALGORITHM: arguments->algorithm = argument; return 0;
    case OPTION_EXPLICIT: arguments->explicit_flows = true; return 0;
    case OPTION_FIX:
        keep(arguments, "--fix", arguments->fixes, &arguments->fix_count, COLLECTIVE_LEVERS_MAX, argument);
        return 0;
    case OPTION_SET:
        keep(arguments, "--set", arguments->sets, &arguments->set_count, SETS_MAX, argument);
        return 0;
    case OPTION_SKEW: arguments->skew = cli_number(common, "--skew", argument, 0, 1); return 0;
    case OPTION_SPLITS: arguments->splits = argument; return 0;
    case OPTION_HARNESS: arguments->harness = argument; return 0;
    case OPTION_SVG: arguments->svg = cli_output(common, "--svg", argument); return 0;
    case OPTION_MEASURED: arguments->measured = argument; return 0;
    case OPTION_PLATFORM: arguments->platform = argument; return 0;
    case OPTION_EXPORT: arguments->export_path = cli_output(common, "--export-platform", argument); return 0;
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
    "nccl-tests counts (all_gather: total output; reduce_scatter: total input; all_to_all: per-rank total) "
    "and "
    "takes KiB, MiB, GiB, KB, MB, GB; a list with commas gives a size per rank, of all_to_all what each "
    "sends.\v"
    "Example:\n  reckon collective all_to_all 256MiB --node mi350x8 --gpus 8",
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
    if ((arguments->node == NULL) == (arguments->platform == NULL)) {
        cli_usage_error(common, "--node N is needed, as in: --node b200x8 (or --platform FILE, not both)");
    }
    bool needs_node = arguments->svg != NULL || arguments->export_path != NULL || arguments->fix_count > 0 ||
                      arguments->set_count > 0 || arguments->harness != NULL || arguments->nodes > 1;
    if (arguments->platform != NULL && needs_node) {
        cli_usage_error(common, "--platform is wires alone: --nodes, --fix, --set, --harness, --svg and "
                                "--export-platform need --node");
    }
    if (arguments->measured != NULL && arguments->svg == NULL) {
        cli_usage_error(common, "--measured '%s' is drawn by --svg FILE, which is missing",
                        arguments->measured);
    }
    bool has_splits = arguments->splits != NULL || arguments->skew > 0;
    if (has_splits && !collective_same_kind(arguments->kind, "all_to_all")) {
        cli_usage_error(common, "%s has no splits: --skew and --splits are for all_to_all", arguments->kind);
    }
    if (arguments->splits != NULL && arguments->skew > 0) {
        cli_usage_error(common, "--splits and --skew both say what is sent: give one");
    }
}

/* ---- the group */

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

/* One item of a rank list, "4" or "0-3", into `taken`. */
static enum sim_status take_ranks(const struct arguments *arguments, const char *text, size_t length,
                                  uint32_t rank_count, bool *taken, struct sim_error *error)
{
    char *end = NULL;
    unsigned long first = strtoul(text, &end, 10), last = first;
    if (end != text && *end == '-') {
        const char *second = end + 1;
        last = strtoul(second, &end, 10);
    }
    if (!isdigit((unsigned char)text[0]) || end != text + length || last < first) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "--ranks '%s': must be ranks and ranges, as in 0-3,6",
                        arguments->ranks);
    }
    for (unsigned long rank = first; rank <= last; rank++) {
        if (rank >= rank_count || taken[rank]) {
            return sim_fail(error, SIM_BAD_ARGUMENT,
                            "%s: rank %lu of the group %s: ranks are 0 to %u, each once", arguments->kind,
                            rank, rank >= rank_count ? "is not one of the GPUs there are" : "is named twice",
                            rank_count - 1);
        }
        taken[rank] = true;
    }
    return SIM_OK;
}

/* A group by its ranks: as many GPUs on each node that it touches. Links of a node are alike, so which ones does not
 * matter beyond that. */
static enum sim_status group_of_ranks(struct arguments *arguments, const struct node_profile *node,
                                      uint32_t *gpus, struct sim_error *error)
{
    uint32_t per_node = node_profile_gpu_count(node), touched = 0;
    uint64_t rank_count = (uint64_t)per_node * arguments->nodes;
    if (rank_count > RANK_LIST_MAX) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "--ranks of %ju GPUs: at most %d", (uintmax_t)rank_count,
                        RANK_LIST_MAX);
    }
    bool taken[RANK_LIST_MAX] = { false };
    enum sim_status status = SIM_OK;
    for (const char *at = arguments->ranks; status == SIM_OK;) {
        size_t length = strcspn(at, ",");
        status = take_ranks(arguments, at, length, (uint32_t)rank_count, taken, error);
        at += length;
        if (*at++ == '\0') {
            break;
        }
    }
    *gpus = 0;
    for (uint32_t n = 0; status == SIM_OK && n < arguments->nodes; n++) {
        uint32_t here = 0;
        for (uint32_t g = 0; g < per_node; g++) {
            here += taken[n * per_node + g];
        }
        if (here > 0 && *gpus > 0 && here != *gpus) {
            return sim_fail(error, SIM_BAD_ARGUMENT,
                            "%s: the group has %u ranks on node %u and %u on an earlier one: must be even",
                            arguments->kind, here, n, *gpus);
        }
        *gpus = here > 0 ? here : *gpus;
        touched += here > 0;
    }
    arguments->nodes = touched > 0 ? touched : 1;
    return status;
}

/* ---- sizes and splits */

static enum sim_status read_bytes(const struct arguments *arguments, const char *text, double *bytes,
                                  struct sim_error *error)
{
    *bytes = parse_bytes(text);
    if (isnan(*bytes)) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "BYTES '%s': must be a number with B, KiB, MiB, GiB, TiB, KB, MB, GB, TB or nothing "
                        "after it",
                        text);
    }
    (void)arguments;
    return SIM_OK;
}

static double *new_splits(uint32_t ranks)
{
    double *split = calloc((size_t)ranks * ranks, sizeof *split);
    SIM_ASSERT(split != NULL, "no memory for the splits of %u ranks", ranks);
    return split;
}

/* A size per rank: of all_to_all what each sends in all, of others the same on all. */
static enum sim_status bytes_by_rank(struct arguments *arguments, uint32_t ranks, struct sim_error *error)
{
    double *bytes = calloc(ranks, sizeof *bytes);
    char *list = strdup(arguments->bytes_text), *rest = list;
    SIM_ASSERT(bytes != NULL && list != NULL, "no memory for %u sizes", ranks);
    uint32_t count = 0;
    enum sim_status status = SIM_OK;
    for (char *item; status == SIM_OK && (item = strsep(&rest, ",")) != NULL; count++) {
        double size = 0;
        status = read_bytes(arguments, item, &size, error);
        if (count < ranks) {
            bytes[count] = size;
        }
    }
    if (status == SIM_OK && count != ranks) {
        status = sim_fail(error, SIM_BAD_ARGUMENT, "%s: %u sizes for %u ranks: must be one, or one per rank",
                          arguments->kind, count, ranks);
    }
    if (status == SIM_OK) {
        status = collective_check_sizes(arguments->kind, bytes, ranks, error);
    }
    if (status == SIM_OK) {
        arguments->bytes = bytes[0];
    }
    if (status == SIM_OK && collective_same_kind(arguments->kind, "all_to_all")) {
        arguments->split = new_splits(ranks);
        for (size_t i = 0; i < (size_t)ranks * ranks; i++) {
            arguments->split[i] = bytes[i / ranks] / ranks;
        }
    }
    free(bytes);
    free(list);
    return status;
}

static enum sim_status read_splits(struct arguments *arguments, uint32_t ranks, struct sim_error *error)
{
    FILE *file = fopen(arguments->splits, "r");
    if (file == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: cannot be read", arguments->splits);
    }
    char *line = NULL;
    size_t capacity = 0;
    uint32_t from = 0;
    enum sim_status status = SIM_OK;
    arguments->split = new_splits(ranks);
    for (; status == SIM_OK && getline(&line, &capacity, file) >= 0; from++) {
        char *rest = line, *item;
        uint32_t to = 0;
        line[strcspn(line, "\r\n")] = '\0';
        for (; status == SIM_OK && (item = strsep(&rest, ",")) != NULL; to++) {
            double bytes = parse_bytes(item);
            if (from >= ranks || to >= ranks || !(bytes >= 0)) {
                status = sim_fail(error, SIM_BAD_FILE,
                                  "%s:%u: all_to_all: rank %u sends '%.40s' to rank %u: must be bytes of at "
                                  "least 0, %u lines of %u",
                                  arguments->splits, from + 1, from, item, to, ranks, ranks);
            } else {
                arguments->split[(size_t)from * ranks + to] = bytes;
            }
        }
        if (status == SIM_OK && to != ranks) {
            status = sim_fail(error, SIM_BAD_FILE,
                              "%s:%u: all_to_all: rank %u has %u sizes: %u ranks need %u", arguments->splits,
                              from + 1, from, to, ranks, ranks);
        }
    }
    if (status == SIM_OK && from != ranks) {
        status = sim_fail(error, SIM_BAD_FILE, "%s: all_to_all: %u lines for %u ranks", arguments->splits,
                          from, ranks);
    }
    free(line);
    fclose(file);
    return status;
}

/* Sources that send up to `skew` more or less, drawn by the seed. */
static void skew_splits(struct arguments *arguments, uint32_t ranks)
{
    struct rng rng;
    rng_init(&rng, arguments->common.options.seed, "collective.skew");
    arguments->split = new_splits(ranks);
    for (uint32_t from = 0; from < ranks; from++) {
        double scale = 1 + arguments->skew * (2 * rng_uniform(&rng) - 1);
        for (uint32_t to = 0; to < ranks; to++) {
            arguments->split[(size_t)from * ranks + to] = scale * arguments->bytes / ranks;
        }
    }
}

/* Bytes and splits once the number of ranks is known. */
static enum sim_status read_sizes(struct arguments *arguments, uint32_t ranks, struct sim_error *error)
{
    bool has_splits = arguments->skew > 0 || arguments->splits != NULL ||
                      strchr(arguments->bytes_text, ',') != NULL;
    if (has_splits && ranks > SPLIT_RANKS_MAX) {
        return sim_fail(error, SIM_UNSUPPORTED, "%s: sizes for each of %u ranks: at most %d", arguments->kind,
                        ranks, SPLIT_RANKS_MAX);
    }
    enum sim_status status = strchr(arguments->bytes_text, ',') != NULL
                                 ? bytes_by_rank(arguments, ranks, error)
                                 : read_bytes(arguments, arguments->bytes_text, &arguments->bytes, error);
    if (status == SIM_OK && (arguments->skew > 0 || arguments->splits != NULL) && arguments->split != NULL) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "BYTES '%s' and --skew or --splits both say what is sent",
                        arguments->bytes_text);
    }
    if (status == SIM_OK && arguments->splits != NULL) {
        status = read_splits(arguments, ranks, error);
    }
    if (status == SIM_OK && arguments->skew > 0) {
        skew_splits(arguments, ranks);
    }
    return status;
}

/* ---- the answer */

static enum fabric_engine engine_of(const struct arguments *arguments)
{
    return arguments->common.options.fabric_simgrid ? FABRIC_ENGINE_SIMGRID : FABRIC_ENGINE_FLUID;
}

static double units_of(const struct chip_profile *chip, const struct collective_result *result)
{
    return chip == NULL ? 0
                        : collective_units_taken(result, chip->unit_registers,
                                                 chip->unit_waves_max * chip->unit_lanes);
}

/* Each lever off and on, the ones before it staying on; `request` ends with all of them. */
static enum sim_status run_levers(const struct arguments *arguments, const struct chip_profile *chip,
                                  struct collective_answer *answer, struct sim_error *error)
{
    for (size_t i = 0; i < arguments->fix_count; i++) {
        struct collective_lever_answer *lever = &answer->levers[i];
        struct collective_request off, on;
        lever->name = arguments->fixes[i];
        enum sim_status status = collective_lever(answer->node, lever->name, &answer->request, &off, &on,
                                                  error);
        if (status == SIM_OK) {
            status = collective_time(answer->node, &off, engine_of(arguments), &lever->off, error);
        }
        if (status == SIM_OK) {
            status = collective_time(answer->node, &on, engine_of(arguments), &lever->on, error);
        }
        if (status != SIM_OK) {
            return status;
        }
        lever->off_units = units_of(chip, &lever->off);
        lever->on_units = units_of(chip, &lever->on);
        answer->request = on;
        answer->lever_count = i + 1;
    }
    return SIM_OK;
}

static enum sim_status read_harness(const struct arguments *arguments, const struct chip_profile *chip,
                                    struct fabric_row_harness *out, struct sim_error *error)
{
    struct harness_profile harness;
    enum sim_status status = session_harness_read(arguments->harness, &harness, error);
    if (status == SIM_OK) {
        *out = (struct fabric_row_harness){ harness_floor_us(&harness, chip), harness.launch_interval_us };
    }
    return status;
}

static enum sim_status write_files(const struct arguments *arguments, const struct collective_answer *answer,
                                   const struct fabric_row_harness *harness, struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    if (arguments->export_path != NULL) {
        status = platform_write(answer->node, answer->request.gpus, answer->request.nodes,
                                arguments->export_path, error);
    }
    if (status == SIM_OK && arguments->svg != NULL) {
        struct collective_curve_request curve = { .node = answer->node,
                                                  .call = answer->request,
                                                  .engine = engine_of(arguments),
                                                  .harness = *harness,
                                                  .measured = arguments->measured };
        size_t measured_count;
        status = collective_curve_write(&curve, arguments->svg, &measured_count, error);
    }
    return status;
}

/* With doubt the time is the median of the samples; its parts stay those at the node's own numbers. */
static enum sim_status add_doubts(struct arguments *arguments, struct node_profile *node, struct collective_answer *answer,
                                  struct sim_error *error)
{
    enum sim_status status = uncertainty_collective(arguments->common.options.seed, node, &answer->request, &answer->result,
                                                    engine_of(arguments), arguments->common.uncertainty, &arguments->doubts,
                                                    error);
    if (status == SIM_OK) {
        const struct reckon_interval *time = &arguments->doubts->time[0];
        answer->result.algbw_gbs *= answer->result.time_us / time->median;
        answer->result.busbw_gbs *= answer->result.time_us / time->median;
        answer->result.time_us = time->median;
        answer->has_interval = true;
        answer->low_us = time->low;
        answer->high_us = time->high;
        answer->doubts = arguments->doubts;
    }
    return status;
}

static enum sim_status answer_node(struct arguments *arguments, struct node_profile *node,
                                   struct collective_answer *answer, struct sim_error *error)
{
    char path[DATA_PATH_CAPACITY];
    struct chip_profile *chip = calloc(1, sizeof *chip);
    SIM_ASSERT(chip != NULL, "no memory for a chip profile");
    struct fabric_row_harness harness = { 0 };
    enum sim_status status = SIM_OK;
    for (size_t i = 0; status == SIM_OK && i < arguments->set_count; i++) {
        status = node_profile_set(node, arguments->sets[i], error);
    }
    if (status == SIM_OK) {
        status = arguments->ranks != NULL ? group_of_ranks(arguments, node, &answer->request.gpus, error)
                                          : group_per_node(arguments, node, &answer->request.gpus, error);
    }
    answer->request.nodes = arguments->nodes;
    if (status == SIM_OK) {
        status = read_sizes(arguments, answer->request.gpus * answer->request.nodes, error);
    }
    answer->request.bytes = arguments->bytes;
    answer->request.split_bytes = arguments->split;
    if (status == SIM_OK) {
        status = data_path_find("devices", "device", node_profile_device(node), path, error);
    }
    if (status == SIM_OK) {
        status = chip_profile_read(path, chip, error);
    }
    if (status == SIM_OK && arguments->harness != NULL) {
        status = read_harness(arguments, chip, &harness, error);
    }
    answer->node = node;
    if (status == SIM_OK) {
        status = run_levers(arguments, chip, answer, error);
    }
    if (status == SIM_OK) {
        status = collective_time(node, &answer->request, engine_of(arguments), &answer->result, error);
    }
    if (status == SIM_OK) {
        answer->has_interval = collective_interval(node, &answer->request, &answer->result,
                                                   FABRIC_ENGINE_FLUID, &answer->low_us, &answer->high_us);
        answer->units_taken = units_of(chip, &answer->result);
        status = arguments->common.uncertainty > 0 ? add_doubts(arguments, node, answer, error) : SIM_OK;
    }
    if (status == SIM_OK) {
        answer->unit_count = chip_unit_count(chip);
        answer->harness = arguments->harness;
        answer->called_us = fabric_called_us(&harness, CALLS, answer->result.time_us);
        status = write_files(arguments, answer, &harness, error);
    }
    chip_profile_finish(chip);
    free(chip);
    return status;
}

static enum sim_status answer_platform(struct arguments *arguments, struct collective_answer *answer,
                                       struct sim_error *error)
{
    struct platform *platform = NULL;
    enum sim_status status = platform_read(arguments->platform, &platform, error);
    if (status == SIM_OK) {
        answer->platform = arguments->platform;
        answer->request.gpus = arguments->gpus == 0 ? platform->host_count : arguments->gpus;
        answer->request.nodes = 1;
        status = read_sizes(arguments, answer->request.gpus, error);
    }
    if (status == SIM_OK) {
        answer->request.bytes = arguments->bytes;
        answer->request.split_bytes = arguments->split;
        status = platform_collective_time(platform, &answer->request, engine_of(arguments), &answer->result,
                                          error);
    }
    platform_destroy(platform);
    return status;
}

int cmd_collective(int argc, char **argv)
{
    struct arguments arguments = { .common = { .command = "reckon collective", .has_intervals = true, .has_html = true,
                                                .names_devices = "a collective runs on a node, give --node alone" }, .nodes = 1 };
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    check_arguments(&arguments);
    struct node_profile *node = NULL;
    struct sim_error error = { 0 };
    struct collective_answer answer = { .request = { .kind = arguments.kind,
                                                     .protocol = arguments.protocol,
                                                     .algorithm = arguments.algorithm,
                                                     .explicit_flows = arguments.explicit_flows } };
    enum sim_status status = SIM_OK;
    if (arguments.platform != NULL) {
        status = answer_platform(&arguments, &answer, &error);
    } else {
        char path[DATA_PATH_CAPACITY];
        status = data_path_find("devices/nodes", "node", arguments.node, path, &error);
        if (status == SIM_OK) {
            status = node_profile_read(path, &node, &error);
        }
        if (status == SIM_OK) {
            status = answer_node(&arguments, node, &answer, &error);
        }
    }
    int code = 0;
    if (status != SIM_OK) {
        code = cli_fail(&arguments.common, &error);
    } else {
        struct json *document = collective_json(&answer);
        code = cli_write_page(&arguments.common, NULL, document, &error) == SIM_OK ? 0 : cli_fail(&arguments.common, &error);
        if (code == 0 && arguments.common.json) {
            cli_print_json(document);
            document = NULL;
        } else if (code == 0) {
            collective_print_text(&answer);
        }
        json_destroy(document);
    }
    reckon_doubts_free(arguments.doubts);
    node_profile_destroy(node);
    free(arguments.split);
    cli_common_finish(&arguments.common);
    return code;
}
