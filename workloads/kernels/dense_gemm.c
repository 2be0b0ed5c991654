/* Matrix products as kernels: parameters, the selector's choice where no tile is given, the launches. */
#include "workloads/kernels/dense_internal.h"
#include "workloads/kernels/gemm_internal.h"

#define SIZE_MAX_GEMM (1ull << 28)
#define GROUPS_MAX 256
#define TILES_MAX 40u
#define TILE_NUMBERS 6u /* m, n, k, stages, split, resident */
#define SPLIT_MAX (DENSE_OPERANDS_MAX - 1) /* the reduction loads all parts of an element together */

static const char *const dtype_texts[GEMM_DTYPES] = { "bf16", "fp16", "tf32", "fp32", "fp8" };
static const char *const trans_texts[] = { "nt", "nn", "tt", "tn" };

struct gemm_params {
    uint64_t m, n, k, batch;
    uint64_t group_m[GROUPS_MAX];
    size_t group_count;
    int dtype, trans, style;
    struct gemm_tile tile; /* 0 where not given */
    uint32_t tile_count;
    struct gemm_tile tiles[TILES_MAX]; /* those that the library has; split, resident 0: any */
    int mapping;           /* -1 where not given */
    uint64_t workgroups;
    double register_rate;
    uint32_t out_bytes;
    bool bias, reduction;
};

static void read_tile(struct kernel_build *build, struct gemm_params *p)
{
    p->tile.m = (uint32_t)kernel_param_integer_or(build, "tile_m", 8, 1024, 0, NULL);
    p->tile.n = (uint32_t)kernel_param_integer_or(build, "tile_n", 8, 1024, 0, NULL);
    p->tile.k = (uint32_t)kernel_param_integer_or(build, "tile_k", 4, 1024, 0, NULL);
    p->tile.stages = (uint32_t)kernel_param_integer_or(build, "stages", 2, 64, 0, NULL);
    p->tile.split = (uint32_t)kernel_param_integer_or(build, "split_k", 1, SPLIT_MAX, 0, NULL);
    p->tile.stream_k = kernel_param_integer_or(build, "stream_k", 0, 1, 0, NULL) == 1;
    bool cluster = kernel_param_given(build, "cluster_m") || kernel_param_given(build, "cluster_n");
    p->tile.cluster_m = (uint32_t)kernel_param_integer_or(build, "cluster_m", 1, 16, cluster ? 1 : 0, NULL);
    p->tile.cluster_n = (uint32_t)kernel_param_integer_or(build, "cluster_n", 1, 16, cluster ? 1 : 0, NULL);
    bool mapped = kernel_param_given(build, "mapping");
    int mapping = kernel_param_choice_or(build, "mapping", "band|row|column|curve", 0, NULL);
    p->mapping = mapped ? mapping : -1;
    p->workgroups = kernel_param_integer_or(build, "workgroups", 1, 1u << 20, 0, NULL);
    p->style = kernel_param_choice_or(build, "style", "auto|async|copies|register", GEMM_AUTO, NULL);
    if (p->tile.stream_k && (p->tile.split > 1 || p->tile.cluster_m > 1 || p->tile.cluster_n > 1)) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "stream_k=1 is not valid with split_k or clusters above 1");
    }
    if (p->tile.stream_k) {
        p->tile.split = p->tile.cluster_m = p->tile.cluster_n = 1;
    }
}

/* m:n:k:stages:split:resident of each, twelve numbers for two tiles. */
static void read_tiles(struct kernel_build *build, struct gemm_params *p)
{
    uint64_t numbers[TILES_MAX * TILE_NUMBERS];
    uint32_t count = dense_param_list(build, "tiles", 0, 1024, numbers, TILES_MAX * TILE_NUMBERS, true);
    if (count % TILE_NUMBERS != 0 || (count > 0 && (p->tile.m | p->tile.n | p->tile.k | p->tile.stages | p->tile.split) != 0)) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "tiles is not valid: must be m:n:k:stages:split:resident of each tile, without tile_m, tile_n, tile_k, "
                    "stages and split_k");
        return;
    }
    for (uint32_t i = 0; i < count; i += TILE_NUMBERS) {
        const uint64_t *at = &numbers[i];
        if (at[0] < 8 || at[1] < 8 || at[2] < 4 || at[3] < 2 || at[3] > 64 || at[4] > SPLIT_MAX || at[5] > 16) {
            kernel_fail(build, SIM_BAD_ARGUMENT, "tiles is not valid: %llux%llux%llu, %llu stages, split %llu, resident %llu", (unsigned long long)at[0],
                        (unsigned long long)at[1], (unsigned long long)at[2], (unsigned long long)at[3], (unsigned long long)at[4],
                        (unsigned long long)at[5]);
            return;
        }
        p->tiles[p->tile_count++] = (struct gemm_tile){ .m = (uint32_t)at[0], .n = (uint32_t)at[1], .k = (uint32_t)at[2],
                                                        .stages = (uint32_t)at[3], .split = (uint32_t)at[4], .resident = (uint32_t)at[5] };
    }
}

/* The best of the library's tiles, as whoever tunes it would find by running them all; false where none fits in LDS. Its kernels
 * share K by whole parts, not stream-K. */
static bool select_among(const struct gemm_machine *machine, const struct gemm_problem *problem, const struct gemm_params *p,
                         struct gemm_estimate *best)
{
    bool any = false;
    for (uint32_t i = 0; i < p->tile_count; i++) {
        struct gemm_estimate found[2];
        struct gemm_tile tile = p->tiles[i];
        uint64_t depth = ceil_div(problem->k, tile.k);
        tile.split = (uint32_t)min_u64(tile.split, depth);
        if (gemm_tile_lds(problem, &tile) > machine->lds_workgroup_max) {
            continue;
        }
        size_t count = min_u64(2, gemm_select(machine, problem, &tile, found, 2));
        size_t at = found[0].tile.stream_k && count > 1;
        if (!found[at].tile.stream_k && (!any || found[at].us < best->us)) {
            *best = found[at];
            any = true;
        }
    }
    return any;
}

static void read_params(struct kernel_build *build, struct gemm_params *p)
{
    p->register_rate = kernel_param_real_or(build, "register_rate", 0.1, 1, GEMM_REGISTER_RATE, NULL);
    bool out_given = kernel_param_given(build, "dtype_out");
    p->out_bytes = out_given ? dense_param_bytes(build, "dtype_out", DENSE_REQUIRED) : 0;
    p->bias = kernel_param_integer_or(build, "bias", 0, 1, 0, NULL) == 1;
    p->reduction = kernel_param_integer_or(build, "reduction", 0, 1, 1, NULL) == 1;
    read_tile(build, p);
    read_tiles(build, p);
    dense_cache_param(build);
}

/* splitKreduce: workgroups of 512 add the partial results, two elements a lane, all splits in flight. */
static void add_split_reduction(struct kernel_build *build, const struct gemm_problem *p, uint32_t split, bool early)
{
    struct dense_map *map;
    struct wave_program *program = dense_map_create("split_k_reduction", &map);
    double elements = (double)p->m * (double)p->n * (double)p->batch;
    map->elements = p->m * p->n * p->batch;
    map->threads = 512;
    map->elements_per_lane = 2;
    map->vector = elements >= 2 && map->elements % 2 == 0 ? 2 : 1;
    map->access_issue = 3;
    map->start_issue = 30;
    map->valu = split + 1.0;
    uint64_t partial = kernel_program_tensor(program, "partial", elements * 4 * split);
    for (uint32_t i = 0; i < split; i++) {
        map->operands[map->load_count++] = (struct dense_operand){ .base = partial + i * map->elements * 4,
                                                                   .bytes = 4 };
    }
    dense_map_store(program, "c", p->type.out_bytes, elements);
    dense_map_finish(program, build->machine);
    program->initial_cache = WAVE_CACHE_STATE_PREDECESSOR;
    program->predecessor.address = kernel_tensor_address(0);
    program->predecessor_bytes = (uint64_t)elements * 4 * split;
    program->predecessor.bytes = (uint32_t)program->predecessor_bytes;
    program->flops = elements * split;
    kernel_plan_add(build, program, 1);
    if (kernel_build_ok(build)) {
        build->plan->launches[build->plan->launch_count - 1].dependent = early;
    }
}

static void check_tile(struct kernel_build *build, const struct gemm_problem *problem, const struct gemm_tile *tile)
{
    if (tile->split > ceil_div(problem->k, tile->k)) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "split_k=%u is not valid: K=%llu has %llu steps of tile_k=%u",
                    tile->split, (unsigned long long)problem->k,
                    (unsigned long long)ceil_div(problem->k, tile->k), tile->k);
    }
    kernel_require_lds(build, gemm_tile_lds(problem, tile));
}

static void note_choice(struct kernel_build *build, const struct gemm_params *p, const struct gemm_problem *problem,
                        const struct gemm_tile *tile)
{
    if (problem->type.emulation != NULL) {
        kernel_assume(build, "%s", problem->type.emulation);
    }
    if (problem->style != GEMM_ASYNC && problem->type.dtype != WAVE_FP32) {
        kernel_assume(build, "register_rate = %g (range 0.4 to 1): of the matrix rate, operands from registers",
                      p->register_rate);
    }
    kernel_assume(build, "tile %ux%ux%u, %u stages, %s %u, cluster %ux%u, mapping %s%s%s", tile->m, tile->n, tile->k,
                  tile->stages, tile->stream_k ? "stream-K, split_k" : "split_k", tile->split, tile->cluster_m,
                  tile->cluster_n, gemm_mapping_text(tile->mapping), tile->by_group ? " per group" : "",
                  p->tile.m != 0 ? ": as given" : p->tile_count > 0 ? ": chosen among those given" : ": chosen by the selector");
}

/* Everything after the sizes. Fills M, N, K, batch before. */
static void build_gemm(struct kernel_build *build, struct gemm_params *p, bool measured_cold)
{
    struct gemm_machine machine;
    struct gemm_launch launch;
    struct gemm_estimate best;
    read_params(build, p);
    if (!kernel_params_done(build)) {
        return;
    }
    gemm_machine_of(build->machine, &machine);
    if (!gemm_problem_init(&machine, p->m, p->n, p->k, p->batch, (enum gemm_dtype)p->dtype, (enum gemm_trans)p->trans,
                           p->out_bytes, (enum gemm_style)p->style, p->register_rate, &launch.problem)) {
        kernel_fail(build, SIM_UNSUPPORTED, "the device has no matrix rate for this dtype");
        return;
    }
    if (p->group_count > 0) {
        gemm_problem_group(&launch.problem, p->group_m, p->group_count);
    }
    if (!select_among(&machine, &launch.problem, p, &best)) {
        gemm_select(&machine, &launch.problem, &p->tile, &best, 1);
    }
    launch.tile = best.tile;
    if (p->mapping >= 0) {
        launch.tile.mapping = (enum gemm_mapping)p->mapping;
    }
    launch.workgroups = p->workgroups;
    launch.bias = p->bias;
    check_tile(build, &launch.problem, &launch.tile);
    double products = (double)max_u64(p->batch, p->group_count);
    double elements = ((double)p->m * (double)p->batch + (double)p->n * products) * (double)p->k;
    kernel_require_hbm(build, elements * launch.problem.type.bytes, "the operands");
    if (!kernel_build_ok(build)) {
        return;
    }
    note_choice(build, p, &launch.problem, &launch.tile);
    struct wave_program *program = gemm_program_create(&machine, &launch);
    dense_cache_apply(build, program);
    if (!measured_cold && !kernel_param_given(build, "cache")) {
        program->initial_cache = WAVE_CACHE_STATE_OWN;
    }
    double flops = program->flops;
    kernel_plan_add(build, program, 1);
    if (launch.tile.split > 1 && p->reduction && !machine.split_in_kernel && kernel_build_ok(build)) {
        add_split_reduction(build, &launch.problem, launch.tile.split, machine.split_early);
    }
    build->plan->flops = flops;
    if (p->tile.m == 0 && p->tile.n == 0) {
        build->plan->product = (struct kernel_product){ .m = (double)p->m, .n = (double)p->n, .k = (double)p->k, .batch = (double)p->batch,
                                                        .dtype = dtype_texts[p->dtype], .trans = trans_texts[p->trans],
                                                        .tile_m = launch.tile.m, .tile_n = launch.tile.n };
    }
    kernel_value_per_time(build, flops * 1e-6, "TFLOP/s");
}

static void read_sizes(struct kernel_build *build, struct gemm_params *p)
{
    p->m = kernel_param_integer(build, "M", 1, SIZE_MAX_GEMM);
    p->n = kernel_param_integer(build, "N", 1, SIZE_MAX_GEMM);
    p->k = kernel_param_integer(build, "K", 1, SIZE_MAX_GEMM);
    p->dtype = kernel_param_choice(build, "dtype", GEMM_DTYPE_CHOICES);
}

/* The measuring program flushes the L2 before calls of fewer than 2^38 multiply-adds, and repeats the others. */
static void build_mm(struct kernel_build *build)
{
    struct gemm_params p = { .batch = 1 };
    read_sizes(build, &p);
    p.trans = kernel_param_choice_or(build, "trans", GEMM_TRANS_CHOICES, 0, NULL);
    build_gemm(build, &p, (double)p.m * (double)p.n * (double)p.k < 0x1p38);
}

static void build_bmm(struct kernel_build *build)
{
    struct gemm_params p = { 0 };
    p.batch = kernel_param_integer(build, "b", 1, 1u << 28);
    read_sizes(build, &p);
    p.trans = kernel_param_choice_or(build, "trans", GEMM_TRANS_CHOICES, 1, NULL);
    build_gemm(build, &p, true);
}

static void build_grouped(struct kernel_build *build)
{
    struct gemm_params p = { .batch = 1 };
    p.group_count = dense_param_list(build, "sizes", 1, SIZE_MAX_GEMM, p.group_m, GROUPS_MAX, false);
    for (size_t i = 0; i < p.group_count; i++) {
        p.m += p.group_m[i];
    }
    p.n = kernel_param_integer(build, "N", 1, SIZE_MAX_GEMM);
    p.k = kernel_param_integer(build, "K", 1, SIZE_MAX_GEMM);
    p.dtype = kernel_param_choice(build, "dtype", GEMM_DTYPE_CHOICES);
    p.trans = kernel_param_choice_or(build, "trans", "nt|nn", 0, NULL);
    build_gemm(build, &p, true);
}

static void build_tile(struct kernel_build *build)
{
    struct gemm_params p = { 0 };
    p.batch = kernel_param_integer_or(build, "batch", 1, 1u << 28, 1, NULL);
    read_sizes(build, &p);
    p.trans = kernel_param_choice_or(build, "trans", GEMM_TRANS_CHOICES, 0, NULL);
    if (!kernel_param_given(build, "tile_m") || !kernel_param_given(build, "tile_n")) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "tile_m and tile_n must be given: gemm/mm chooses a tile by itself");
    }
    build_gemm(build, &p, true);
}

#define TILE_HELP                                                                                          \
    "tile_m, tile_n, tile_k, stages, split_k, cluster_m, cluster_n (by rule; cluster: workgroups that "    \
    "share loads), "                                                                                       \
    "tiles (m:n:k:stages:split:resident of each that may be chosen, split and workgroups a unit 0: any), stream_k (0|1; 0), mapping (band|row|column|curve; by rule), reduction (0|1: add up split parts; 1), " \
    "workgroups (grid; by rule), style (auto|async|copies|register; auto), register_rate (0.1..1; 0.63), " \
    "dtype_out (fp8: bf16, "                                                                               \
    "else dtype), bias (0|1; 0), cache (flushed|own|clean|produced)"

const struct kernel_definition dense_gemm_kernels[] = {
    { "gemm", "mm", "matrix product; trans: n row-major, t transposed, of A then B",
      "M, N, K, dtype (bf16|fp16|tf32|fp32|fp8), trans (nt|nn|tt|tn; nt), " TILE_HELP, build_mm },
    { "gemm", "bmm", "batch of matrix products", "b (batch), M, N, K, dtype, trans (nn), " TILE_HELP,
      build_bmm },
    { "gemm", "tile", "matrix product with the tile of a traced kernel",
      "M, N, K, dtype, tile_m, tile_n, trans (nt), batch (1), " TILE_HELP, build_tile },
    { "gemm", "grouped", "products of the same N and K, each with its own rows and its own B",
      "sizes (rows of each, M1:M2:...), N, K, dtype, trans (nt|nn; nt), " TILE_HELP, build_grouped },
    { NULL, NULL, NULL, NULL, NULL },
};
