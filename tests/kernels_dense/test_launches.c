/* How the dense kernels are launched, and what follows from it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "sim/core/chip_profile.h"
#include "tests/kernels/walk.h"

/* The plan of a kernel on `machine`, or NULL. */
static struct kernel_plan *plan_on(const struct kernel_machine *machine, const char *suite,
                                   const char *kernel, const char *params)
{
    struct kernel_params *parsed;
    struct kernel_plan *plan = NULL;
    struct sim_error error = { .text = "" };
    cr_assert(eq(int, kernel_params_parse(params, &parsed, &error), SIM_OK), "%s", error.text);
    kernel_plan_create(suite, kernel, parsed, machine, &plan, &error);
    kernel_params_destroy(parsed);
    cr_assert(ne(ptr, plan, NULL), "%s/%s %s: %s", suite, kernel, params, error.text);
    return plan;
}

static struct kernel_machine units132(void)
{
    struct kernel_machine machine = walk_machine(132, 32);
    machine.lds_bytes_per_workgroup_max = 227 * 1024;
    return machine;
}

struct launch_case {
    char suite[16], kernel[20], params[120];
    uint64_t workgroups;
    uint32_t waves;
};

/* Grids of kernels in recorded steps of an H200 (132 units): name, block and grid of each are in the trace's events. */
ParameterizedTestParameters(dense, recorded_grids)
{
    static struct launch_case cases[] = {
        { "elementwise", "map", "n=16777216;bytes_in=4:4;bytes_out=4", 16384, 4 },
        { "elementwise", "map", "n=67108864;bytes_in=2;bytes_out=2", 65536, 4 },
        { "elementwise", "map", "n=16777216;bytes_in=2;bytes_out=4;style=unrolled", 32768, 4 },
        { "elementwise", "cast", "n=14155776;dtype_in=fp32;dtype_out=bf16", 13824, 4 },
        { "elementwise", "fill", "n=412090368;dtype=fp32", 402432, 4 },
        /* reduce_kernel<128, 4>: 27 x 79 and 4 x 128 workgroups of 32 x 4 */
        { "reduction", "columns", "rows=8192;cols=3456;dtype_in=bf16", 27 * 79, 4 },
        { "reduction", "columns", "rows=8192;cols=512;dtype_in=bf16", 4 * 128, 4 },
        { "norm", "layer_forward", "rows=32768;cols=512;dtype=fp32", 32768, 4 },
        { "norm", "layer_grad_weight", "rows=32768;cols=512;dtype=fp32", 16, 32 },
        { "norm", "layer_grad_weight", "rows=8192;cols=2048;dtype=fp32", 64, 32 },
        { "norm", "softmax_forward", "rows=8192;cols=50304;dtype_in=fp32;log=1", 8192, 32 },
        { "norm", "softmax_backward", "rows=8192;cols=50304;dtype_in=fp32;log=1", 8192, 16 },
        { "norm", "softmax_forward", "rows=32768;cols=128;dtype_in=fp32;log=1", 4096, 4 },
        { "loss", "nll_forward", "rows=32768;cols=128", 1, 32 },
        { "loss", "nll_forward", "rows=8192;cols=50304", 1, 16 },
        /* 132 x 32 workgroups per tensor at most */
        { "cat", "concat", "rows=32768;cols=2048:2048:2048:2048;dtype=bf16", 4224 * 4, 4 },
        { "optimizer", "multi_tensor", "elements=20971520;reads=4:4:4:4;writes=4:4:4", 320, 16 },
        /* persistent: as many workgroups as units, or as tiles */
        { "gemm", "tile",
          "M=32768;N=2048;K=512;dtype=bf16;tile_m=256;tile_n=128;tile_k=64;stages=4;cluster_n=2", 132, 8 },
        { "gemm", "tile",
          "M=8192;N=512;K=512;dtype=bf16;tile_m=256;tile_n=128;tile_k=64;stages=4;cluster_n=2", 128, 8 },
        { "attention", "sdpa_fwd", "b=32;h=8;s=1024;d=64;causal=1", 132, 8 },
        /* or one for each tile of 128 keys: 8 of 1,024, with a wave that adds dQ */
        { "attention", "sdpa_bwd", "b=32;h=8;s=1024;d=64;launches=main", 132, 9 },
        { "attention", "sdpa_bwd", "b=32;h=8;s=1024;d=64;launches=main;grid=tiles", 8 * 32 * 8, 9 },
        /* or for each of 4 tiles of 256 queries, where a mask makes them differ */
        { "attention", "sdpa_fwd", "b=32;h=8;s=1024;d=64;tile_q=256;causal=1;grid=masked_tiles", 4 * 32 * 8, 8 },
        { "attention", "sdpa_fwd", "b=32;h=8;s=1024;d=64;tile_q=256;grid=masked_tiles", 132, 8 },
        { "attention", "dot_do_o", "b=32;h=8;s=1024;d=64", 64 * 32 * 8, 4 },
        { "attention", "convert_dq", "b=32;h=8;s=1024;d=64", 32 * 32 * 8, 4 },
    };
    return cr_make_param_array(struct launch_case, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct launch_case *c, dense, recorded_grids)
{
    struct kernel_machine machine = units132();
    struct kernel_plan *plan = plan_on(&machine, c->suite, c->kernel, c->params);
    const struct wave_program *program = plan->launches[0].program;
    cr_expect(eq(u64, program->workgroups, c->workgroups), "%s/%s %s", c->suite, c->kernel, c->params);
    cr_expect(eq(u32, program->waves_per_workgroup, c->waves), "%s/%s %s", c->suite, c->kernel, c->params);
    kernel_plan_destroy(plan);
}

/* 1,024 x 1,024 is 16 tiles of 256 x 256 or 256 of 64 x 64: of a library that holds both, 132 units take the small ones, one a unit as
 * it says; of one that holds the large ones and what no LDS holds, the large ones; and a product that names none is the selector's. */
Test(dense, the_best_of_a_librarys_tiles_is_taken)
{
    static const struct { const char *params; uint32_t tile, resident; uint64_t workgroups; } cases[] = {
        { "M=1024;N=1024;K=1024;dtype=bf16;tiles=256:256:64:2:1:1:64:64:64:3:1:1", 64, 1, 256 },
        { "M=1024;N=1024;K=1024;dtype=bf16;tiles=64:64:64:3:1:2:256:256:64:2:1:1", 64, 2, 256 },
        { "M=1024;N=1024;K=1024;dtype=bf16;tiles=1024:1024:64:8:1:1:256:256:64:2:1:1", 256, 1, 16 },
    };
    struct kernel_machine machine = walk_machine(132, 64);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kernel_plan *plan = plan_on(&machine, "gemm", "mm", cases[i].params);
        cr_expect(eq(u32, plan->product.tile_m, cases[i].tile), "%s", cases[i].params);
        cr_expect(eq(u32, plan->launches[0].program->workgroups_per_unit_max, cases[i].resident), "%s", cases[i].params);
        cr_expect(eq(u64, plan->launches[0].program->workgroups, cases[i].workgroups), "%s", cases[i].params);
        kernel_plan_destroy(plan);
    }
}

/* The library's build for 64-lane chips, 256 units, 8,192 rows: blocks of 64 lanes by 2 with four columns a lane, so 4,096 values a
 * lane. It wants 2 x 256 workgroups: for 3,456 columns, 14 strips of 256, ceil(512 / 14) = 37 a strip, which it keeps; for 256, one
 * strip, min(512, 4,096 / 16) = 256, more than half of the units, so half: 128. 640 rows of 256 columns leave 320 values: 320 / 16 =
 * 20 workgroups; 512 rows leave 256: 16, still kept. */
Test(dense, wide_waves_split_a_sum_over_half_of_the_units)
{
    static const struct { const char *params; uint64_t workgroups; } cases[] = {
        { "rows=8192;cols=3456;dtype_in=fp32", 14 * 37 },
        { "rows=8192;cols=256;dtype_in=fp32", 128 },
        { "rows=640;cols=256;dtype_in=fp32", 20 },
        { "rows=512;cols=256;dtype_in=fp32", 16 },
    };
    struct kernel_machine machine = walk_machine(256, 64);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kernel_plan *plan = plan_on(&machine, "reduction", "columns", cases[i].params);
        cr_expect(eq(u64, plan->launches[0].program->workgroups, cases[i].workgroups), "%s", cases[i].params);
        kernel_plan_destroy(plan);
    }
}

/* 65,536 fp32 values in one workgroup of 512 lanes with vectors of 4: a lane has 128 values, 256 are needed to share the
 * sum; so 32 dependent loads one after another. 2^20 values are shared by max(min(528, 128), 8) = 128 workgroups. */
Test(dense, short_sums_stay_in_one_workgroup)
{
    struct kernel_machine machine = units132();
    struct kernel_plan *small = plan_on(&machine, "pointwise", "sum", "n=65536;dtype=fp32");
    struct kernel_plan *large = plan_on(&machine, "pointwise", "sum", "n=1048576;dtype=bf16");
    cr_expect(eq(u64, small->launches[0].program->workgroups, 1));
    cr_assert(eq(sz, large->launch_count, 2), "the counters are cleared first");
    cr_expect(eq(u64, large->launches[1].program->workgroups, 128));
    kernel_plan_destroy(small);
    kernel_plan_destroy(large);
}

/* Partial results: each of 128 workgroups stages 4 B and counts in; the last reads 128 x 4 B and stores the sum. */
Test(dense, shared_sums_meet_in_memory)
{
    struct kernel_machine machine = units132();
    struct kernel_plan *plan = plan_on(&machine, "reduction", "all", "n=1048576;dtype_in=bf16");
    struct walk walk = walk_program(plan->launches[0].program, 32, WALK_ALL, NULL, NULL);
    cr_expect(zero(int, walk.problem[0]), "%s", walk.problem);
    cr_expect(eq(u64, walk.load_bytes, 2 * 1048576 + 128 * 4));
    cr_expect(eq(u64, walk.store_bytes, 128 * 4 + 2));
    cr_expect(eq(u64, walk.atomic_lanes, 128));
    kernel_plan_destroy(plan);
}

/* Three splits of 128 x 128: the second launch reads 3 x 4 B an element and writes 2 B. */
Test(dense, split_k_adds_its_parts)
{
    struct kernel_plan *plan = walk_plan(
        "gemm", "tile", "M=128;N=128;K=320;dtype=bf16;tile_m=128;tile_n=128;tile_k=64;split_k=3", 32);
    cr_assert(eq(sz, plan->launch_count, 2));
    struct walk walk = walk_program(plan->launches[1].program, 32, WALK_ALL, NULL, NULL);
    cr_expect(zero(int, walk.problem[0]), "%s", walk.problem);
    cr_expect(eq(u64, walk.load_bytes, 3 * 128 * 128 * 4));
    cr_expect(eq(u64, walk.store_bytes, 128 * 128 * 2));
    cr_expect(eq(dbl, plan->flops, 2.0 * 128 * 128 * 320));
    kernel_plan_destroy(plan);
}

/* Weight gradients of many rows and few columns: 65,600 rows in tiles of 32 are 2,050 tiles; a grid of at most 32,768
 * workgroups over 2 strips; partial rows that two more launches add up. */
Test(dense, tall_weight_gradients_are_summed_in_two_passes)
{
    struct kernel_machine machine = units132();
    struct kernel_plan *plan = plan_on(&machine, "norm", "layer_grad_weight",
                                       "rows=65600;cols=64;dtype=fp32");
    cr_assert(eq(sz, plan->launch_count, 3));
    struct walk walk = walk_program(plan->launches[0].program, 32, WALK_ALL, NULL, NULL);
    cr_expect(zero(int, walk.problem[0]), "%s", walk.problem);
    cr_expect(eq(u64, walk.load_bytes, 2ull * 65600 * 64 * 4 + 2ull * 2 * 65600 * 4));
    cr_expect(eq(u64, walk.store_bytes, 2ull * 2050 * 64 * 4));
    cr_expect(eq(u64, walk.units, plan->launches[0].program->work_units_total));
    kernel_plan_destroy(plan);
}

/* Backward attention as a whole is three launches; the clearing of dQ is part of the first. */
Test(dense, attention_backward_is_three_launches)
{
    struct kernel_plan *plan = walk_plan("attention", "sdpa_bwd", "b=1;h=2;s=256;d=64", 32);
    cr_assert(eq(sz, plan->launch_count, 3));
    for (size_t i = 0; i < 3; i++) {
        struct walk walk = walk_program(plan->launches[i].program, 32, WALK_ALL, NULL, NULL);
        cr_expect(zero(int, walk.problem[0]), "launch %zu: %s", i, walk.problem);
    }
    kernel_plan_destroy(plan);
}

static bool notes_hold(const struct kernel_plan *plan, const char *text)
{
    for (size_t i = 0; i < plan->assumption_count; i++) {
        if (strstr(plan->assumptions[i].text, text) != NULL) {
            return true;
        }
    }
    return false;
}

struct matrix_total {
    double flops;
    uint8_t dtype;
};

static void add_flops(void *user, const struct wave_op *op)
{
    struct matrix_total *total = user;
    total->flops += (double)op->matrix_flops;
    total->dtype = op->matrix_flops > 0 ? op->matrix_dtype : total->dtype;
}

/* Without a tf32 unit: three bf16 products per product, and the notes say so. */
Test(dense, tf32_without_a_unit_is_three_bf16_products)
{
    struct kernel_machine machine = units132();
    machine.matrix_flops_per_cycle[WAVE_TF32] = 0;
    struct kernel_plan *plan = plan_on(&machine, "gemm", "tile",
                                       "M=128;N=128;K=64;dtype=tf32;tile_m=128;tile_n=128;tile_k=32");
    struct matrix_total total = { 0 };
    walk_program(plan->launches[0].program, 32, WALK_ALL, add_flops, &total);
    cr_expect(eq(dbl, total.flops, 3 * 2.0 * 128 * 128 * 64));
    cr_expect(eq(u8, total.dtype, WAVE_BF16));
    cr_expect(notes_hold(plan, "three bf16 products"));
    cr_expect(eq(dbl, plan->flops, 2.0 * 128 * 128 * 64), "useful work");
    kernel_plan_destroy(plan);
}

/* A square of 4096 wants large tiles; 16 rows want narrow ones; 128 x 128 with a long K wants it split. */
Test(dense, the_tile_rule_follows_the_shape)
{
    struct kernel_machine machine = units132();
    struct kernel_plan *square = plan_on(&machine, "gemm", "mm", "M=4096;N=4096;K=4096;dtype=bf16;trans=nt");
    struct kernel_plan *skinny = plan_on(&machine, "gemm", "mm", "M=16;N=4096;K=4096;dtype=bf16;trans=nt");
    struct kernel_plan *deep = plan_on(&machine, "gemm", "mm", "M=128;N=128;K=131072;dtype=bf16;trans=nt");
    cr_expect(gt(u32, square->launches[0].program->lds_bytes, 128 * 1024));
    cr_expect(notes_hold(square, "split_k 1,"));
    cr_expect(notes_hold(skinny, "tile 16x"));
    cr_expect(gt(sz, deep->launch_count, 1));
    kernel_plan_destroy(square);
    kernel_plan_destroy(skinny);
    kernel_plan_destroy(deep);
}

/* A forward workgroup keeps two tiles of the matrix unit's rows: 2 x 64 of 256 rows on the H200, hence 2 items a head, 2 x 128 on
 * the B200, hence one. */
Test(dense, attention_keeps_two_tiles_of_the_matrix_unit)
{
    static const struct {
        const char *device;
        uint64_t items;
    } cases[] = { { "h200", 2 }, { "b200", 1 } };
    for (size_t i = 0; i < 2; i++) {
        struct chip_profile chip;
        struct sim_error error = { 0 };
        char path[512];
        snprintf(path, sizeof path, SOURCE_DIR "/devices/%s.json", cases[i].device);
        cr_assert(eq(int, chip_profile_read(path, &chip, &error), SIM_OK), "%s", error.text);
        struct kernel_machine machine = units132();
        machine.chip = &chip;
        struct kernel_plan *plan = plan_on(&machine, "attention", "sdpa_fwd", "b=1;h=3;s=256;d=64");
        cr_expect(eq(u64, plan->launches[0].program->workgroups, 3 * cases[i].items), "%s", cases[i].device);
        kernel_plan_destroy(plan);
        chip_profile_finish(&chip);
    }
}

/* Items of causal attention differ up to eightfold; dealt to whoever is free first, no workgroup has over 1/8 more than
 * the mean. */
Test(dense, causal_items_are_dealt_evenly)
{
    struct kernel_machine machine = units132();
    struct kernel_plan *plan = plan_on(&machine, "attention", "sdpa_fwd", "b=32;h=8;s=1024;d=64;causal=1");
    const struct wave_program *program = plan->launches[0].program;
    double mean = (double)program->work_units_total /
                  (double)(program->workgroups * program->waves_per_workgroup);
    cr_expect(eq(dbl, mean * 132, 256.0 * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8)));
    cr_expect(lt(dbl, (double)program->longest_wave_trips, mean * 1.125));
    kernel_plan_destroy(plan);
}

/* Each value four times, 8 side by side, then 20 on: result 32 reads value 8, which lies at element 20. */
static void last_load(void *user, const struct wave_op *op)
{
    if (op->kind == WAVE_LOAD) {
        *(uint64_t *)user = op->spans[op->span_count - 1].address;
    }
}

Test(dense, strided_operands_lie_where_they_say)
{
    struct kernel_plan *plan = walk_plan(
        "elementwise", "map", "n=33;bytes_in=4;bytes_out=4;style=strided;repeat=4;run=8;pitch=20", 32);
    uint64_t address = 0;
    struct walk walk = walk_program(plan->launches[0].program, 32, WALK_ALL, last_load, &address);
    cr_expect(zero(int, walk.problem[0]), "%s", walk.problem);
    cr_expect(eq(u64, address, kernel_tensor_address(0) + 20 * 4));
    kernel_plan_destroy(plan);
}
