/* reckon gemm M N K ...: which tile a matrix product takes on a device, what it costs and what the other choices would.
 * Candidates are weighed by the analytical selector (workloads/kernels/gemm_select.h); the chosen one is then run on the
 * event-driven chip model, which gives its time; what the device's library makes of such a shape (devices/libraries) gives the
 * answer's. */
#include "sim/cli/cli.h"
#include "sim/cli/print_doubts.h"
#include "workloads/kernels/gemm_select.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPTION_DTYPE = 0x3000, OPTION_TRANS, OPTION_BATCH, OPTION_GROUPED, OPTION_ALL, OPTION_ESTIMATE, OPTION_NO_LIBRARY };

#define SIZE_MAX_GEMM (1u << 28)
#define GROUPS_MAX 256
#define LISTED 8     /* candidates in an answer without --all */
#define ALL_MAX 4096
#define REPEATS 16   /* of a selection, for its time */

static const char doc[] = "Tile, split and order of a matrix product C[M,N] = A[M,K] B[K,N]: what the analytical selector "
                          "chooses, why, and what the other candidates would cost.\v"
                          "Example:\n  reckon gemm 8192 3456 512 --dtype tf32 --device mi350x,b200";

static const struct argp_option options[] = {
    { "dtype", OPTION_DTYPE, "T", 0, "bf16, fp16, tf32, fp32 or fp8 (needed)", 1 },
    { "trans", OPTION_TRANS, "nt|nn|tt|tn", 0, "A then B: n row-major, t transposed (default nt, a linear layer's)", 1 },
    { "batch", OPTION_BATCH, "B", 0, "as many products side by side", 1 },
    { "grouped", OPTION_GROUPED, "M1,M2,...", 0, "rows of each of several products that share N and K; M may then be left out", 1 },
    { "all", OPTION_ALL, NULL, 0, "list every candidate", 1 },
    { "estimate", OPTION_ESTIMATE, NULL, 0, "the selector alone, without the event-driven model", 1 },
    { "no-library", OPTION_NO_LIBRARY, NULL, 0, "the selector's tile itself, not what the vendor's library makes of such a shape", 1 },
    { 0 },
};

struct arguments {
    struct cli_common common;
    uint64_t size[3]; /* M, N, K */
    size_t size_count;
    uint64_t batch, group_m[GROUPS_MAX];
    size_t group_count;
    int dtype, trans; /* dtype -1: not given */
    bool all, estimate, no_library;
    char params[GROUPS_MAX * 12 + 128];
};

struct answer {
    const char *device;
    struct gemm_problem problem;
    struct gemm_estimate *candidates; /* best first; owned */
    size_t candidate_count, weighed;
    double select_us, time_us, tile_us; /* tile_us: of the selector's tile itself, on the event-driven model */
    struct reckon_kernel *simulated; /* NULL with --estimate */
};

/* ---- options */

static void take_groups(struct arguments *arguments, const char *text)
{
    uint64_t sum = 0;
    for (const char *at = text; at != NULL;) {
        char number[24];
        size_t length = strcspn(at, ",");
        snprintf(number, sizeof number, "%.*s", (int)(length < 23 ? length : 23), at);
        if (arguments->group_count == GROUPS_MAX) {
            cli_usage_error(&arguments->common, "--grouped: at most %d products", GROUPS_MAX);
        }
        arguments->group_m[arguments->group_count] =
            cli_integer(&arguments->common, "--grouped", number, 1, SIZE_MAX_GEMM);
        sum += arguments->group_m[arguments->group_count++];
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    if (sum > SIZE_MAX_GEMM) {
        cli_usage_error(&arguments->common, "--grouped: %llu rows in all, at most %u", (unsigned long long)sum, SIZE_MAX_GEMM);
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    static const char *const dtypes[] = { "bf16", "fp16", "tf32", "fp32", "fp8" };
    static const char *const trans[] = { "nt", "nn", "tt", "tn" };
    static const char *const names[] = { "M", "N", "K" };
    struct arguments *arguments = state->input;
    struct cli_common *common = &arguments->common;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = common; return 0;
    case OPTION_DTYPE: arguments->dtype = (int)cli_choice(common, "--dtype", argument, dtypes, GEMM_DTYPES); return 0;
    case OPTION_TRANS: arguments->trans = (int)cli_choice(common, "--trans", argument, trans, 4); return 0;
    case OPTION_BATCH: arguments->batch = cli_integer(common, "--batch", argument, 1, SIZE_MAX_GEMM); return 0;
    case OPTION_GROUPED: take_groups(arguments, argument); return 0;
    case OPTION_ALL: arguments->all = true; return 0;
    case OPTION_ESTIMATE: arguments->estimate = true; return 0;
    case OPTION_NO_LIBRARY: arguments->no_library = true; return 0;
    case ARGP_KEY_ARG:
        if (arguments->size_count == 3) {
            cli_usage_error(common, "'%s': a product has three sizes, M N K", argument);
        }
        arguments->size[arguments->size_count] =
            cli_integer(common, names[arguments->size_count], argument, 1, SIZE_MAX_GEMM);
        arguments->size_count++;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void check_groups(struct arguments *arguments)
{
    const struct cli_common *common = &arguments->common;
    uint64_t sum = 0;
    for (size_t i = 0; i < arguments->group_count; i++) {
        sum += arguments->group_m[i];
    }
    if (arguments->group_count > 0 && arguments->size_count == 2) { /* N and K: M follows */
        arguments->size[2] = arguments->size[1];
        arguments->size[1] = arguments->size[0];
        arguments->size[0] = sum;
        arguments->size_count = 3;
    }
    if (arguments->group_count > 0 && arguments->size_count == 3 && sum != arguments->size[0]) {
        cli_usage_error(common, "--grouped: rows add up to %llu, M is %llu (it may be left out)", (unsigned long long)sum,
                        (unsigned long long)arguments->size[0]);
    }
    if (arguments->group_count > 0 && arguments->batch > 1) {
        cli_usage_error(common, "--grouped: rows of each product are given, --batch=%llu does not go with them",
                        (unsigned long long)arguments->batch);
    }
    if (arguments->group_count > 0 && arguments->trans > GEMM_NN) {
        cli_usage_error(common, "--grouped: A is row-major, so --trans is nt or nn");
    }
}

static void check_arguments(struct arguments *arguments)
{
    const struct cli_common *common = &arguments->common;
    check_groups(arguments);
    if (arguments->size_count < 3) {
        cli_usage_error(common, "three sizes M N K are needed, as in: reckon gemm 8192 3456 512 --dtype bf16 --device mi350x");
    }
    if (arguments->dtype < 0) {
        cli_usage_error(common, "--dtype is needed: bf16, fp16, tf32, fp32 or fp8");
    }
    if (arguments->estimate && common->uncertainty > 0) {
        cli_usage_error(common, "--uncertainty: the selector alone (--estimate) has no intervals");
    }
}

/* ---- the answer */

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static enum sim_status select_tile(const struct arguments *arguments, const struct chip_profile *chip,
                                   struct answer *answer, struct sim_error *error)
{
    struct gemm_machine machine;
    const struct gemm_tile none = { 0 };
    size_t capacity = arguments->all ? ALL_MAX : LISTED;
    answer->device = chip->name;
    gemm_machine_of_chip(chip, &machine);
    if (!gemm_problem_init(&machine, arguments->size[0], arguments->size[1], arguments->size[2], arguments->batch,
                           (enum gemm_dtype)arguments->dtype, (enum gemm_trans)arguments->trans, 0, GEMM_AUTO, GEMM_REGISTER_RATE,
                           &answer->problem)) {
        return sim_fail(error, SIM_UNSUPPORTED, "%s has no matrix rate for this dtype: use another --dtype", chip->name);
    }
    if (arguments->group_count > 0) {
        gemm_problem_group(&answer->problem, arguments->group_m, arguments->group_count);
    }
    answer->candidates = calloc(capacity, sizeof *answer->candidates);
    SIM_ASSERT(answer->candidates != NULL, "no memory for %zu candidates", capacity);
    double before = now_us();
    for (int i = 0; i < REPEATS; i++) {
        struct gemm_estimate best;
        gemm_select(&machine, &answer->problem, &none, &best, 1);
    }
    answer->select_us = (now_us() - before) / REPEATS;
    answer->weighed = gemm_select(&machine, &answer->problem, &none, answer->candidates, capacity);
    answer->candidate_count = answer->weighed < capacity ? answer->weighed : capacity;
    answer->time_us = answer->candidates[0].us;
    return SIM_OK;
}

/* The kernel of the registry that is this product. */
static void kernel_params_of(const struct arguments *arguments, char *text, size_t capacity)
{
    static const char *const dtypes[] = { "bf16", "fp16", "tf32", "fp32", "fp8" };
    static const char *const trans[] = { "nt", "nn", "tt", "tn" };
    size_t used = 0;
    if (arguments->group_count > 0) {
        used += (size_t)snprintf(text, capacity, "sizes=");
        for (size_t i = 0; i < arguments->group_count; i++) {
            used += (size_t)snprintf(text + used, capacity - used, "%s%llu", i > 0 ? ":" : "",
                                     (unsigned long long)arguments->group_m[i]);
        }
    } else {
        used += (size_t)snprintf(text, capacity, "M=%llu", (unsigned long long)arguments->size[0]);
        if (arguments->batch > 1) {
            used += (size_t)snprintf(text + used, capacity - used, ";b=%llu", (unsigned long long)arguments->batch);
        }
    }
    snprintf(text + used, capacity - used, ";N=%llu;K=%llu;dtype=%s;trans=%s", (unsigned long long)arguments->size[1],
             (unsigned long long)arguments->size[2], dtypes[arguments->dtype], trans[arguments->trans]);
}

static struct reckon_kernel_request request_of(const struct arguments *arguments)
{
    return (struct reckon_kernel_request){
        .suite = "gemm",
        .kernel = arguments->group_count > 0 ? "grouped" : arguments->batch > 1 ? "bmm" : "mm",
        .params = arguments->params,
        .no_library = arguments->no_library,
        .cache = RECKON_CACHE_CLEAN,
    };
}

static enum sim_status answer_one(struct reckon *reckon, const struct reckon_device *device,
                                  const struct arguments *arguments, struct answer *answer, struct sim_error *error)
{
    enum sim_status status = select_tile(arguments, reckon_device_chip(device), answer, error);
    if (status != SIM_OK || arguments->estimate) {
        return status;
    }
    struct reckon_kernel_request request = request_of(arguments);
    status = reckon_kernel(reckon, device, &request, &answer->simulated, error);
    if (status == SIM_OK) {
        answer->time_us = answer->tile_us = answer->simulated->time_us;
    }
    if (status == SIM_OK && answer->simulated->library.name[0] != '\0') {
        struct reckon_kernel *tile = NULL;
        request.no_library = true;
        status = reckon_kernel(reckon, device, &request, &tile, error);
        answer->tile_us = status == SIM_OK ? tile->time_us : NAN;
        reckon_kernel_free(tile);
    }
    return status;
}

/* With doubt the answer is the median; its parts stay those at the profile's own values. */
static enum sim_status add_doubts(const struct arguments *arguments, struct reckon *reckon, struct reckon_device *const *devices,
                                  struct answer *answers, struct reckon_doubts **doubts, struct sim_error *error)
{
    struct reckon_kernel_request request = request_of(arguments);
    enum sim_status status = reckon_kernel_doubts(reckon, devices, arguments->common.device_count, &request,
                                                  arguments->common.uncertainty, doubts, error);
    for (size_t i = 0; status == SIM_OK && i < arguments->common.device_count; i++) {
        const struct reckon_interval *time = &(*doubts)->time[i];
        answers[i].time_us = time->median;
        answers[i].simulated->time_us_low = time->low;
        answers[i].simulated->time_us_high = time->high;
    }
    return status;
}

static double flops_of(const struct answer *answer)
{
    const struct gemm_problem *p = &answer->problem;
    return 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
}

static const char *limiter_of(const struct answer *answer)
{
    return answer->simulated != NULL ? kernel_stage_text(answer->simulated->result.limiter)
                                     : gemm_limit_text(answer->candidates[0].limit);
}

/* ---- JSON */

static struct json *tile_json(const struct gemm_tile *tile)
{
    struct json *json = json_new_object();
    json_set_number(json, "m", tile->m);
    json_set_number(json, "n", tile->n);
    json_set_number(json, "k", tile->k);
    return json;
}

static void set_choice(struct json *json, const struct gemm_estimate *e)
{
    json_set(json, "tile", tile_json(&e->tile));
    json_set_number(json, "stages", e->tile.stages);
    json_set_number(json, "grid", e->workgroups);
    json_set_number(json, "split", e->tile.split);
    json_set_bool(json, "stream_k", e->tile.stream_k);
    json_set_string(json, "mapping", gemm_mapping_text(e->tile.mapping));
    json_set_bool(json, "mapping_per_group", e->tile.by_group);
    json_set_number(json, "estimate_us", e->us);
}

static struct json *candidate_json(const struct gemm_estimate *e, double best_us)
{
    struct json *json = json_new_object();
    set_choice(json, e);
    json_set_number(json, "penalty", e->us / best_us - 1);
    json_set_string(json, "limiter", gemm_limit_text(e->limit));
    return json;
}

/* What the device's library makes of the shape; null where no class holds it. */
static void set_library(struct json *json, const struct answer *answer)
{
    if (answer->simulated == NULL || answer->simulated->library.name[0] == '\0') {
        json_set_null(json, "library");
        return;
    }
    struct json *library = json_new_object();
    json_set_string(library, "name", answer->simulated->library.name);
    if (answer->simulated->library.tile_m > 0) {
        struct json *tile = json_new_object();
        json_set_number(tile, "m", answer->simulated->library.tile_m);
        json_set_number(tile, "n", answer->simulated->library.tile_n);
        json_set(library, "tile", tile);
    } else {
        json_set_null(library, "tile");
    }
    json_set_string(library, "class", answer->simulated->library.class);
    json_set_number(library, "efficiency", answer->simulated->library.efficiency);
    json_set(json, "library", library);
}

static struct json *answer_json(const struct arguments *arguments, const struct answer *answer)
{
    static const char *const dtypes[] = { "bf16", "fp16", "tf32", "fp32", "fp8" };
    static const char *const trans[] = { "nt", "nn", "tt", "tn" };
    const struct gemm_estimate *best = &answer->candidates[0];
    struct json *json = json_new_object(), *candidates = json_new_array();
    json_set_string(json, "schema", "reckon.gemm/1");
    json_set_string(json, "device", answer->device);
    json_set_number(json, "m", (double)answer->problem.m);
    json_set_number(json, "n", (double)answer->problem.n);
    json_set_number(json, "k", (double)answer->problem.k);
    json_set_number(json, "batch", (double)answer->problem.batch);
    json_set_number(json, "groups", (double)arguments->group_count);
    json_set_string(json, "dtype", dtypes[arguments->dtype]);
    json_set_string(json, "trans", trans[arguments->trans]);
    if (answer->problem.type.emulation != NULL) {
        json_set_string(json, "emulation", answer->problem.type.emulation);
    } else {
        json_set_null(json, "emulation");
    }
    set_choice(json, best);
    json_set_number(json, "time_us", answer->time_us);
    if (answer->simulated != NULL) {
        json_set_number(json, "time_us_low", answer->simulated->time_us_low);
        json_set_number(json, "time_us_high", answer->simulated->time_us_high);
        json_set_number(json, "tile_us", answer->tile_us);
    }
    set_library(json, answer);
    json_set_string(json, "time_from", answer->simulated != NULL ? "event-driven model" : "selector");
    json_set_number(json, "tflops", flops_of(answer) / answer->time_us * 1e-6);
    json_set_string(json, "limiter", limiter_of(answer));
    json_set_number(json, "rounds", best->rounds);
    json_set_number(json, "filled", best->filled);
    json_set_number(json, "useful", best->useful);
    json_set_number(json, "hit_l2", best->hit_l2);
    for (size_t i = 0; i < answer->candidate_count; i++) {
        json_append(candidates, candidate_json(&answer->candidates[i], best->us));
    }
    json_set(json, "candidates", candidates);
    json_set_number(json, "weighed", (double)answer->weighed);
    json_set_number(json, "select_us", answer->select_us);
    return json;
}

static void print_json(const struct arguments *arguments, const struct answer *answers, const struct reckon_doubts *doubts)
{
    struct json *objects[CLI_DEVICES_MAX];
    double figure[CLI_DEVICES_MAX];
    for (size_t i = 0; i < arguments->common.device_count; i++) {
        objects[i] = answer_json(arguments, &answers[i]);
        figure[i] = answers[i].time_us;
    }
    cli_print_json(doubts_answers(objects, figure, arguments->common.device_count, doubts));
}

/* ---- text */

static void split_text(const struct gemm_tile *tile, char *text, size_t capacity)
{
    if (tile->stream_k) {
        snprintf(text, capacity, "stream-K");
    } else {
        snprintf(text, capacity, tile->split > 1 ? "K in %u parts" : "none", tile->split);
    }
}

static void print_candidates(const struct answer *answer)
{
    const struct gemm_estimate *best = &answer->candidates[0];
    printf("    %-13s %6s %-13s %-16s %6s %7s %6s %10s %9s  %s\n", "tile", "stages", "split", "mapping", "rounds", "filled",
           "L2 hit", "estimate", "penalty", "limit");
    for (size_t i = 0; i < answer->candidate_count; i++) {
        const struct gemm_estimate *e = &answer->candidates[i];
        char tile[32], split[24], mapping[32];
        snprintf(tile, sizeof tile, "%ux%ux%u", e->tile.m, e->tile.n, e->tile.k);
        snprintf(mapping, sizeof mapping, "%s%s", gemm_mapping_text(e->tile.mapping), e->tile.by_group ? " per group" : "");
        split_text(&e->tile, split, sizeof split);
        printf("    %-13s %6u %-13s %-16s %6.0f %6.0f%% %5.0f%% %7.4g us %8.1f%%  %s\n", tile, e->tile.stages, split, mapping,
               e->rounds, e->filled * 100, e->hit_l2 * 100, e->us, (e->us / best->us - 1) * 100, gemm_limit_text(e->limit));
    }
}

static void print_why(const struct answer *answer)
{
    const struct gemm_estimate *e = &answer->candidates[0];
    printf("  why: %.0f workgroups of %.0f K steps fill %.0f%% of the slots of %.0f round%s; edges leave %.1f%% of the matrix work "
           "useful;\n       tiles that run together find %.0f%% of their operands in L2. A K step takes, in cycles:",
           e->workgroups, e->steps, e->filled * 100, e->rounds, e->rounds == 1 ? "" : "s", e->useful * 100, e->hit_l2 * 100);
    for (int i = 0; i < GEMM_LIMITS; i++) {
        if (e->step[i] > 0) {
            printf(" %s %.0f", gemm_limit_text((enum gemm_limit)i), e->step[i]);
        }
    }
    puts("");
    if (e->reduction_us > 0) {
        printf("       adding up the parts takes %.3g us of it\n", e->reduction_us);
    }
}

static void print_library(const struct reckon_kernel *simulated)
{
    if (simulated->library.name[0] == '\0') {
        return;
    }
    printf("  its library, %s, takes ", simulated->library.name);
    if (simulated->library.tile_m > 0) {
        printf("the tile %ux%u of its menu, K not split", simulated->library.tile_m, simulated->library.tile_n);
    } else {
        printf("such a tile");
    }
    if (simulated->library.class[0] != '\0') {
        printf(" at %g of its rate (%s)", simulated->library.efficiency, simulated->library.class);
    }
    printf(": %.4g us; --no-library leaves that out\n", simulated->time_us);
}

static void print_answer(const struct answer *answer)
{
    const struct gemm_estimate *e = &answer->candidates[0];
    char split[24];
    split_text(&e->tile, split, sizeof split);
    printf("%s: %.4g us, %.4g TFLOP/s, limited by %s\n", answer->device, answer->time_us,
           flops_of(answer) / answer->time_us * 1e-6, limiter_of(answer));
    if (answer->problem.type.emulation != NULL) {
        printf("  %s\n", answer->problem.type.emulation);
    }
    printf("  tile %ux%ux%u, %u stages, split %s, grid %.0f, mapping %s%s, cluster %ux%u\n", e->tile.m, e->tile.n, e->tile.k,
           e->tile.stages, split, e->workgroups, gemm_mapping_text(e->tile.mapping), e->tile.by_group ? " per group" : "",
           e->tile.cluster_m, e->tile.cluster_n);
    print_why(answer);
    if (answer->simulated != NULL) {
        printf("  the event-driven model of this tile says %.4g us, the selector %.4g us (%+.1f%%)\n", answer->tile_us, e->us,
               (e->us / answer->tile_us - 1) * 100);
        print_library(answer->simulated);
    }
    printf("  %zu candidates in %.0f us; the best:\n", answer->weighed, answer->select_us);
    print_candidates(answer);
}

static void print_text(const struct arguments *arguments, const struct answer *answers, const struct reckon_doubts *doubts)
{
    const char *names[CLI_DEVICES_MAX];
    static const char *const dtypes[] = { "bf16", "fp16", "tf32", "fp32", "fp8" };
    static const char *const trans[] = { "nt", "nn", "tt", "tn" };
    printf("%llu x %llu x %llu, %s, %s", (unsigned long long)arguments->size[0], (unsigned long long)arguments->size[1],
           (unsigned long long)arguments->size[2], dtypes[arguments->dtype], trans[arguments->trans]);
    if (arguments->batch > 1) {
        printf(", %llu side by side", (unsigned long long)arguments->batch);
    }
    if (arguments->group_count > 0) {
        printf(", %zu products", arguments->group_count);
    }
    puts("");
    for (size_t i = 0; i < arguments->common.device_count; i++) {
        puts("");
        print_answer(&answers[i]);
        names[i] = answers[i].device;
    }
    if (doubts != NULL) {
        print_doubts(doubts, names, "us");
    }
}

/* Does the argument leave its value to the next one? `--name` of an option with a value, in whole or as far as typed, or -d. */
static bool takes_next(const char *argument)
{
    static const char *const flags[] = { "--all", "--estimate", "--no-library", "--json", "--quiet", "--help", "--usage", "--version" };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (strcmp(argument, flags[i]) == 0) {
            return false;
        }
    }
    return strcmp(argument, "-d") == 0 || (strncmp(argument, "--", 2) == 0 && argument[2] != '\0' && strchr(argument, '=') == NULL);
}

/* A negative size would be read as an option; what is an option's value is for the option to refuse. */
static void refuse_negatives(const struct cli_common *common, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] >= '0' && argv[i][1] <= '9' && !(i > 1 && takes_next(argv[i - 1]))) {
            cli_usage_error(common, "size '%s': a whole number in 1..%u is needed", argv[i], SIZE_MAX_GEMM);
        }
    }
}

int cmd_gemm(int argc, char **argv)
{
    static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 90 }, { 0 } };
    static const struct argp argp = { options, parse, "M N K\nN K --grouped=M1,M2,...", doc, children, NULL, NULL };
    struct arguments arguments = { .common = { .command = argv[0], .options = { .seed = 1 }, .has_intervals = true }, .batch = 1, .dtype = -1 };
    struct reckon_doubts *doubts = NULL;
    struct reckon *reckon = NULL;
    struct reckon_device *devices[CLI_DEVICES_MAX];
    struct answer answers[CLI_DEVICES_MAX] = { 0 };
    struct sim_error error = { 0 };
    refuse_negatives(&arguments.common, argc, argv);
    cli_parse(&argp, argc, argv, &arguments.common, &arguments);
    check_arguments(&arguments);
    kernel_params_of(&arguments, arguments.params, sizeof arguments.params);
    int code = cli_open(&arguments.common, NULL, &reckon, devices);
    for (size_t i = 0; code == 0 && i < arguments.common.device_count; i++) {
        if (answer_one(reckon, devices[i], &arguments, &answers[i], &error) != SIM_OK) {
            code = cli_fail(&arguments.common, &error);
        }
    }
    if (code == 0 && arguments.common.uncertainty > 0 &&
        add_doubts(&arguments, reckon, devices, answers, &doubts, &error) != SIM_OK) {
        code = cli_fail(&arguments.common, &error);
    }
    if (code == 0) {
        (arguments.common.json ? print_json : print_text)(&arguments, answers, doubts);
    }
    reckon_doubts_free(doubts);
    for (size_t i = 0; i < CLI_DEVICES_MAX; i++) {
        reckon_kernel_free(answers[i].simulated);
        free(answers[i].candidates);
    }
    cli_close(&arguments.common, reckon, devices);
    return code;
}
