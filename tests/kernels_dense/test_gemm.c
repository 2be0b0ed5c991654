/* The walk of a matrix product over its tiles, and the selector that chooses them. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/kernels/walk.h"
#include "workloads/kernels/gemm_select.h"

static struct gemm_machine machine_of(const char *name)
{
    char path[512];
    struct chip_profile chip;
    struct sim_error error = { 0 };
    struct gemm_machine machine;
    snprintf(path, sizeof path, SOURCE_DIR "/devices/%s.json", name);
    cr_assert(eq(int, chip_profile_read(path, &chip, &error), SIM_OK), "%s", error.text);
    gemm_machine_of_chip(&chip, &machine);
    chip_profile_finish(&chip);
    return machine;
}

static struct gemm_problem problem_of(const struct gemm_machine *machine, uint64_t m, uint64_t n, uint64_t k,
                                      enum gemm_dtype dtype)
{
    struct gemm_problem problem;
    cr_assert(gemm_problem_init(machine, m, n, k, 1, dtype, GEMM_NT, 0, GEMM_AUTO, 0.63, &problem));
    return problem;
}

static struct gemm_estimate best_of(const struct gemm_machine *machine, const struct gemm_problem *problem)
{
    const struct gemm_tile none = { 0 };
    struct gemm_estimate best;
    gemm_select(machine, problem, &none, &best, 1);
    return best;
}

/* ---- the walk: whatever the order of tiles, every result is stored once and every multiplication done once */

#define M 300u
#define N 260u
#define RESULT_BYTES ((uint64_t)M * N * 2)

struct stores {
    uint64_t result, matrix_flops;
    unsigned char seen[RESULT_BYTES];
    uint64_t twice;
};

static void add_store(void *user, const struct wave_op *op)
{
    struct stores *stores = user;
    uint64_t base = kernel_tensor_address(2);
    stores->matrix_flops += op->matrix_flops;
    for (uint32_t i = 0; op->kind == WAVE_STORE && i < op->span_count; i++) {
        uint64_t first = op->spans[i].address - base;
        if (op->spans[i].address < base || first >= RESULT_BYTES) {
            continue; /* partial results lie in a tensor behind */
        }
        for (uint64_t at = first; at < first + op->spans[i].bytes; at++) {
            stores->twice += stores->seen[at]++;
            stores->result++;
        }
    }
}

struct walk_case {
    char name[24], kernel[12], params[160];
    double flops; /* of the padded tiles: cycles that the unit is held without arithmetic are not among them */
};

/* 300 x 260 in tiles of 64 x 64: 5 x 5. K = 200 in steps of 32: 7. Flops of whole tiles, 2 x 25 x 64 x 64 x 7 x 32. Grouped,
 * 100 + 7 + 193 rows: 2 + 1 + 4 rows of tiles. */
#define TILED "dtype=bf16;tile_m=64;tile_n=64;tile_k=32;stages=3;"
ParameterizedTestParameters(gemm, every_result_is_stored_once)
{
    static struct walk_case cases[] = {
        { "band", "tile", "M=300;N=260;K=200;" TILED "split_k=1;mapping=band", 2.0 * 25 * 64 * 64 * 224 },
        { "row", "tile", "M=300;N=260;K=200;" TILED "split_k=1;mapping=row", 2.0 * 25 * 64 * 64 * 224 },
        { "column", "tile", "M=300;N=260;K=200;" TILED "split_k=1;mapping=column", 2.0 * 25 * 64 * 64 * 224 },
        { "curve", "tile", "M=300;N=260;K=200;" TILED "split_k=1;mapping=curve", 2.0 * 25 * 64 * 64 * 224 },
        { "stream-K", "tile", "M=300;N=260;K=200;" TILED "stream_k=1", 2.0 * 25 * 64 * 64 * 224 },
        { "stream-K of 3", "tile", "M=300;N=260;K=200;" TILED "stream_k=1;workgroups=3", 2.0 * 25 * 64 * 64 * 224 },
        { "grouped", "grouped", "sizes=100:7:193;N=260;K=200;" TILED "split_k=1;mapping=curve", 2.0 * 35 * 64 * 64 * 224 },
    };
    return cr_make_param_array(struct walk_case, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct walk_case *c, gemm, every_result_is_stored_once)
{
    struct kernel_plan *plan = walk_plan("gemm", c->kernel, c->params, 32);
    struct stores *stores = calloc(1, sizeof *stores);
    cr_assert(stores != NULL);
    struct walk walk = walk_program(plan->launches[0].program, 32, WALK_ALL, add_store, stores);
    cr_expect(zero(int, walk.problem[0]), "%s: %s", c->name, walk.problem);
    cr_expect(eq(u64, stores->result, RESULT_BYTES), "%s", c->name);
    cr_expect(zero(u64, stores->twice), "%s: bytes stored twice", c->name);
    double arithmetic = (double)stores->matrix_flops * plan->launches[0].program->matrix_arithmetic;
    cr_expect(ieee_ulp_eq(dbl, arithmetic / c->flops, 1, 1e3), "%s: %g of %g", c->name, arithmetic, c->flops);
    free(stores);
    kernel_plan_destroy(plan);
}

/* Each group reads its own B: rows of A once per column of tiles, 5; B of a group once per row of its tiles, 2 + 1 + 4. */
Test(gemm, a_grouped_product_reads_each_group_its_own_operand)
{
    struct kernel_plan *plan = walk_plan("gemm", "grouped", "sizes=100:7:193;N=260;K=200;" TILED "split_k=1", 32);
    struct walk walk = walk_program(plan->launches[0].program, 32, WALK_ALL, NULL, NULL);
    cr_expect(eq(u64, walk.load_bytes, 2 * (300ull * 200 * 5 + 260ull * 200 * 7)));
    kernel_plan_destroy(plan);
}

/* 25 tiles of 7 steps over 3 workgroups: 175 steps, 59 + 58 + 58. The first run ends at step 59 = 8 x 7 + 3, the second at
 * 117 = 16 x 7 + 5, inside tiles: two parts of 64 x 64 fp32 are left and read once more. */
Test(gemm, stream_k_leaves_a_part_where_a_run_ends_inside_a_tile)
{
    struct kernel_plan *plan = walk_plan("gemm", "tile", "M=300;N=260;K=200;" TILED "stream_k=1;workgroups=3", 32);
    struct walk walk = walk_program(plan->launches[0].program, 32, WALK_ALL, NULL, NULL);
    cr_expect(eq(u64, plan->launches[0].program->workgroups, 3));
    cr_expect(eq(u64, walk.store_bytes, RESULT_BYTES + 2 * 64 * 64 * 4));
    kernel_plan_destroy(plan);
}

/* ---- the selector */

/* 7 x 7 tiles of 256 x 256 at most would leave 49 of 132 units busy; the choice fills more of them. */
Test(gemm, the_choice_fills_the_units)
{
    struct gemm_machine machine = machine_of("h200");
    struct gemm_problem problem = problem_of(&machine, 1792, 1792, 8192, GEMM_BF16);
    cr_expect(gt(dbl, best_of(&machine, &problem).filled, 0.8));
}

/* K of 131072 and one tile: without a split one unit works. */
Test(gemm, a_deep_product_is_split)
{
    struct gemm_machine machine = machine_of("h200");
    struct gemm_problem problem = problem_of(&machine, 128, 128, 131072, GEMM_BF16);
    struct gemm_estimate best = best_of(&machine, &problem), whole;
    struct gemm_tile tile = best.tile;
    tile.split = 1;
    gemm_estimate_tile(&machine, &problem, &tile, &whole);
    cr_expect(gt(u32, best.tile.split, 4));
    cr_expect(gt(dbl, whole.us, 4 * best.us));
}

/* Eight private L2s: neighbouring tiles on one of them share operands there. One L2 for all: no groups to choose for. */
Test(gemm, tiles_are_grouped_where_l2s_are_private)
{
    struct gemm_machine private = machine_of("mi350x"), shared = machine_of("b200");
    struct gemm_problem a = problem_of(&private, 8192, 8192, 8192, GEMM_BF16), b = problem_of(&shared, 8192, 8192, 8192, GEMM_BF16);
    cr_expect(best_of(&private, &a).tile.by_group);
    cr_expect(not(best_of(&shared, &b).tile.by_group));
}

/* Twice the L2 rate, the HBM rate or the units never costs time. */
Test(gemm, a_better_machine_is_never_slower)
{
    static const uint64_t sizes[][3] = { { 64, 8192, 8192 }, { 8192, 8192, 512 }, { 2304, 2304, 9216 }, { 512, 256, 65536 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct gemm_machine machine = machine_of("mi350x");
        struct gemm_problem problem = problem_of(&machine, sizes[i][0], sizes[i][1], sizes[i][2], GEMM_BF16);
        double before = best_of(&machine, &problem).us;
        machine.l2_rate *= 2;
        cr_expect(le(dbl, best_of(&machine, &problem).us, before * 1.0001), "case %zu, L2", i);
        machine.hbm_rate *= 2;
        machine.mall_rate *= 2;
        cr_expect(le(dbl, best_of(&machine, &problem).us, before * 1.0001), "case %zu, HBM", i);
    }
}

/* No tf32 unit: three bf16 products. An H200 has one. */
Test(gemm, a_missing_dtype_is_emulated_and_said)
{
    struct gemm_machine without = machine_of("mi350x"), with = machine_of("h200");
    struct gemm_problem emulated = problem_of(&without, 512, 512, 512, GEMM_TF32), native = problem_of(&with, 512, 512, 512, GEMM_TF32);
    cr_expect(eq(dbl, emulated.type.products, 3));
    cr_expect(ne(ptr, (void *)emulated.type.emulation, NULL));
    cr_expect(eq(ptr, (void *)native.type.emulation, NULL));
    without.rate[WAVE_BF16] = 0;
    cr_expect(not(gemm_problem_init(&without, 8, 8, 8, 1, GEMM_TF32, GEMM_NT, 0, GEMM_AUTO, 0.63, &emulated)));
}

/* A list of one leaves out what cannot win unweighed, a list of all does not: both have the same head, and no estimate is below
 * the bound by which candidates are left out. */
Test(gemm, what_is_left_out_unweighed_could_not_win)
{
    static const char *const devices[] = { "h200", "mi350x" };
    static const uint64_t sizes[][3] = { { 8192, 8192, 8192 }, { 100, 4096, 65536 }, { 1, 512, 4096 }, { 5000, 384, 1000 } };
    static struct gemm_estimate all[1024];
    const struct gemm_tile none = { 0 };
    for (size_t i = 0; i < 2 * 4 * 2; i++) {
        struct gemm_machine machine = machine_of(devices[i % 2]);
        const uint64_t *size = sizes[i / 2 % 4];
        struct gemm_problem problem = problem_of(&machine, size[0], size[1], size[2], i / 8 == 0 ? GEMM_BF16 : GEMM_TF32);
        struct gemm_estimate one;
        size_t count = gemm_select(&machine, &problem, &none, all, 1024);
        gemm_select(&machine, &problem, &none, &one, 1);
        cr_assert(gt(sz, count, 1));
        cr_expect(eq(dbl, one.us, all[0].us), "%s, %llu x %llu x %llu", devices[i % 2], (unsigned long long)size[0],
                  (unsigned long long)size[1], (unsigned long long)size[2]);
        for (size_t c = 0; c < count && c < 1024; c++) {
            const struct gemm_tile *tile = &all[c].tile;
            double tiles = (double)(gemm_tile_rows(&problem, tile->m) * ((size[1] + tile->n - 1) / tile->n));
            double least = gemm_least_us(&machine, &problem, tile, tiles, gemm_least_step(&machine, &problem, tile));
            cr_assert(le(dbl, least, all[c].us), "tile %ux%ux%u split %u", tile->m, tile->n, tile->k, tile->split);
        }
    }
}

/* The list is in order, its head is what a list of one holds, and odd sizes have tiles too. */
Test(gemm, candidates_come_best_first)
{
    struct gemm_machine machine = machine_of("mi350x");
    struct gemm_problem problem = problem_of(&machine, 257, 8191, 1023, GEMM_BF16);
    const struct gemm_tile none = { 0 };
    struct gemm_estimate list[16];
    size_t weighed = gemm_select(&machine, &problem, &none, list, 16);
    cr_expect(ge(sz, weighed, 16));
    for (int i = 1; i < 16; i++) {
        cr_expect(le(dbl, list[i - 1].us, list[i].us));
    }
    cr_expect(eq(dbl, list[0].us, best_of(&machine, &problem).us));
}
