/* The library of changes: what each is for, when it is worth a look, what it costs. A trigger is a claim about the step as it is,
 * read from what the simulator found there; every candidate that applies is priced all the same. */
#include "studies/advise_internal.h"
#include "workloads/kernels/fix.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_MIN 0.002 /* of GPU time: programs below it are not priced with each fix */

struct rule {
    const char *name;
    const char *limiters; /* of the program: any of these words meets the trigger; NULL: its share alone does */
    const char *trigger, *cost;
};

static const struct rule fix_rules[] = {
    { "tree-reduction", "atomic", "many lanes add to one word, and the atomic unit is what it waits for",
      "shared memory for one partial sum a lane, a barrier a level; sums in another order" },
    { "register-cache", "atomic", "rows repeat soon after one another, and the atomic unit is what it waits for",
      "registers for two rows a wave; sums in another order" },
    { "wave-aggregate", "atomic", "lanes of a wave hit the same words, and the atomic unit is what it waits for",
      "instructions to match lanes, paid by waves without repeats too; sums in another order" },
    { "sort-segment", "atomic", "rows repeat often, and the atomic unit is what it waits for",
      "a sort a call and memory for its keys; sums in a fixed order" },
    { "privatise", "atomic", "a small target takes many additions, and the atomic unit is what it waits for",
      "memory for copies of the target, zeroed before and summed after" },
    { "row-pack", "issue latency dispatch", "rows or bags narrower than a wave leave lanes idle", "another geometry of the launch" },
    { "xcd-swizzle", "die_link l2 mall hbm latency", "neighbouring workgroups share data and land on different dies",
      "an index computation a workgroup" },
    { "wave-per-row", "latency issue", "few rows in flight: it waits for memory, not for its rate", "registers for more rows" },
    { "occupancy", "latency hbm", "registers bound the waves of a SIMD, and it waits for memory", "registers spilled to memory" },
    { "mfma16", "matrix latency issue", "tiles of 32 x 32 hold more registers than they win in rate", "more instructions a tile" },
    { "fast-gelu", "issue", "activations take the issue slots", "accuracy: the sigmoid differs from tanh by up to 0.02" },
    { "pipeline2", "latency hbm l2", "it waits for the next tiles", "shared memory for a second stage" },
    { "kv-accumulate", "atomic", "dK and dV go out as atomics", "registers or shared memory for the sums of a key head" },
    { "stream-k", "matrix issue dispatch", "the last round of tiles leaves units idle", "partial tiles in memory, added up at the end" },
};

static const struct rule lever_rules[] = {
    { "ll64", "protocol latency", "messages of the size that flags of 128-byte lines carry", "bandwidth: half of each line is flag" },
    { "single-qp", "nic latency", "more than one queue pair splits messages that are small already", "less of a NIC where it has ports" },
    { "direct-allgather", "latency", "ring hops add up: small messages on many GPUs", "all peers' buffers at once" },
    { "p2p-batch", "latency", "peers start one by one: small messages on many GPUs", "buffers of a batch of peers" },
    { "wave-per-peer", NULL, "a collective takes units from kernels beside it", "another kernel of the library" },
};

/* Changes of a described step; `scale` of its batch, else a setting. */
static const struct {
    const char *setting;
    double scale;
    const char *trigger, *cost;
    bool host, exposed; /* met when the host binds, when communication is not hidden */
} design_rules[] = {
    { "batch", 2, "the GPU is not full: fixed times weigh", "convergence: the global batch doubles; memory for activations", true, true },
    { "batch", 0.5, "memory is short", "convergence: the global batch halves", false, false },
    { "precision=bf16-autocast", 0, "dense products run in fp32", "accuracy: products of 8 bits of mantissa", false, false },
    { "lookup=fused", 0, "an operator a table", "another operator library", true, false },
    { "pipelined=true", 0, "the exchange of ids is not hidden", "a batch of ids more in memory", false, true },
    { "plan=auto", 0, "tables lie as by hand", "tables move", false, true },
    { "plan=row_wise", 0, "lookups are uneven over the GPUs", "partial sums are exchanged", false, true },
    { "plan=column_wise", 0, "few large tables hold the step", "ids go to more GPUs", false, true },
    { "plan=data_parallel", 0, "tables are small", "every GPU holds all tables; their gradients are reduced", false, true },
    { "parallel=zero1", 0, "optimiser state fills memory", "an all-gather of parameters a step", false, false },
    { "bucket_mib=50", 0, "gradients are reduced in many small messages", "memory for larger buckets", false, true },
    { "checkpoint=0", 0, "blocks are computed again", "memory for all activations", false, false },
};

double advise_program_ms(const struct reckon_prediction *prediction, const char *program)
{
    double ms = 0;
    for (size_t i = 0; i < prediction->kernel_count; i++) {
        ms += strcmp(prediction->kernels[i].program, program) == 0 ? prediction->kernels[i].ms : 0;
    }
    return ms;
}

static double device_ms(const struct reckon_prediction *prediction)
{
    double ms = 0;
    for (size_t i = 0; i < prediction->kernel_count; i++) {
        ms += prediction->kernels[i].ms;
    }
    return ms;
}

static struct advice *add(struct advice_list *list, enum advice_kind kind)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        struct advice *grown = realloc(list->advice, list->capacity * sizeof *grown);
        SIM_ASSERT(grown != NULL, "no memory for %zu candidates", list->capacity);
        list->advice = grown;
    }
    struct advice *advice = &list->advice[list->count++];
    memset(advice, 0, sizeof *advice);
    advice->kind = kind;
    advice->step_ms = advice->step_ms_low = advice->step_ms_high = advice->gain = advice->gain_low = advice->gain_high = advice->memory_gib_change = NAN;
    return advice;
}

/* Share of the program's time whose rows have one of these limiters. */
static double limited_share(const struct reckon_prediction *base, const char *program, const char *limiters)
{
    double all = 0, met = 0;
    for (size_t i = 0; i < base->kernel_count; i++) {
        const struct reckon_kernel_row *row = &base->kernels[i];
        if (strcmp(row->program, program) == 0) {
            all += row->ms;
            met += strstr(limiters, row->limiter) != NULL && row->limiter[0] != '\0' ? row->ms : 0;
        }
    }
    return all > 0 ? met / all : 0;
}

static void add_rule(const struct reckon_prediction *base, const struct rule *rule, enum advice_kind kind, const char *program,
                     double share, struct advice_list *list)
{
    struct advice *advice = add(list, kind);
    double limited = rule->limiters != NULL ? limited_share(base, program, rule->limiters) : 1;
    snprintf(advice->change, sizeof advice->change, "fix=%s@%s", rule->name, program);
    snprintf(advice->program, sizeof advice->program, "%s", program);
    snprintf(advice->trigger, sizeof advice->trigger, "%s", rule->trigger);
    snprintf(advice->cost, sizeof advice->cost, "%s", rule->cost);
    advice->share = share;
    advice->triggered = limited >= 0.25 && share >= 0.01;
    if (share < SHARE_MIN) {
        snprintf(advice->refused, sizeof advice->refused, "%s holds %.2g%% of GPU time", program, share * 100);
    }
}

static bool takes(const char *list, const char *name)
{
    size_t length = strlen(name);
    const char *at = strstr(list, name);
    return at != NULL && (at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0');
}

static void add_fixes(const struct reckon_prediction *base, const char *program, double share, struct advice_list *list)
{
    char suite[32], fixes[256];
    size_t slash = strcspn(program, "/");
    snprintf(suite, sizeof suite, "%.*s", (int)slash, program);
    const char *kernel = program + slash + (program[slash] == '/');
    kernel_fixes_of(suite, kernel, fixes, sizeof fixes);
    for (size_t i = 0; i < sizeof fix_rules / sizeof fix_rules[0]; i++) {
        bool stream_k = strcmp(fix_rules[i].name, "stream-k") == 0 && strcmp(program, "gemm/mm") == 0;
        if (takes(fixes, fix_rules[i].name) || stream_k) {
            add_rule(base, &fix_rules[i], ADVICE_FIX, program, share, list);
        }
    }
}

static void add_levers(const struct reckon_prediction *base, const char *program, double share, struct advice_list *list)
{
    const char *kind = program + strlen("collective/");
    for (size_t i = 0; i < sizeof lever_rules / sizeof lever_rules[0]; i++) {
        bool gathers = strcmp(lever_rules[i].name, "direct-allgather") == 0,
             peers = strcmp(lever_rules[i].name, "p2p-batch") == 0 || strcmp(lever_rules[i].name, "wave-per-peer") == 0;
        if ((!gathers || strcmp(kind, "all_gather") == 0) && (!peers || strcmp(kind, "all_to_all") == 0)) {
            add_rule(base, &lever_rules[i], ADVICE_LEVER, program, share, list);
        }
    }
}

static void add_designs(const struct reckon_prediction *base, const struct reckon_source *source, double batch,
                        struct advice_list *list)
{
    bool host = base->host_ms > base->gpu_busy_ms, exposed = base->exposed_comm_ms > 0.1 * base->step_ms;
    for (size_t i = 0; i < sizeof design_rules / sizeof design_rules[0]; i++) {
        bool of_batch = design_rules[i].scale > 0;
        double changed = floor(batch * design_rules[i].scale);
        if ((!of_batch && !reckon_source_is_model(source)) || (of_batch && !(batch > 0 && changed >= 1))) {
            continue;
        }
        if (base->gpus < 2 && (strncmp(design_rules[i].setting, "plan", 4) == 0 || strncmp(design_rules[i].setting, "pipe", 4) == 0 ||
                               strncmp(design_rules[i].setting, "parallel", 8) == 0 || strncmp(design_rules[i].setting, "bucket", 6) == 0)) {
            continue;
        }
        struct advice *advice = add(list, ADVICE_DESIGN);
        if (of_batch) {
            snprintf(advice->change, sizeof advice->change, "batch=%.12g", changed);
        } else {
            snprintf(advice->change, sizeof advice->change, "%s", design_rules[i].setting);
        }
        snprintf(advice->trigger, sizeof advice->trigger, "%s", design_rules[i].trigger);
        snprintf(advice->cost, sizeof advice->cost, "%s", design_rules[i].cost);
        advice->share = 1;
        advice->triggered = (design_rules[i].host && host) || (design_rules[i].exposed && exposed);
    }
}

void advise_candidates(const struct reckon_prediction *base, const struct reckon_source *source, struct advice_list *list)
{
    double all = device_ms(base), per_gpu = base->examples_per_s * base->step_ms * 1e-3 / base->gpus;
    for (size_t i = 0; i < base->kernel_count; i++) {
        const char *program = base->kernels[i].program;
        bool seen = false;
        for (size_t k = 0; !seen && k < i; k++) {
            seen = strcmp(base->kernels[k].program, program) == 0;
        }
        double share = all > 0 ? advise_program_ms(base, program) / all : 0;
        if (!seen && base->kernels[i].priced == RECKON_PRICED_PROGRAM) {
            add_fixes(base, program, share, list);
        } else if (!seen && base->kernels[i].priced == RECKON_PRICED_FABRIC) {
            add_levers(base, program, share, list);
        }
    }
    add_designs(base, source, isfinite(per_gpu) ? round(per_gpu) : 0, list);
}
