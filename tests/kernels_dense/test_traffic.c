/* What the dense programs move and compute, against the arithmetic of their definition: bytes loaded and stored, matrix
 * work, work units; on 32 and 64 lanes. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "tests/kernels/walk.h"

struct traffic_case {
    char suite[16], kernel[20], params[80];
    uint32_t lanes;
    double load, store; /* bytes of the first launch */
};

#define BOTH(suite, kernel, params, load, store) \
    { suite, kernel, params, 32, load, store },  \
    {                                            \
        suite, kernel, params, 64, load, store   \
    }

ParameterizedTestParameters(dense, traffic)
{
    static struct traffic_case cases[] = {
        /* two operands and a result; 1000 is no multiple of anything */
        BOTH("pointwise", "add", "n=1000;dtype=fp32", 2 * 1000 * 4, 1000 * 4),
        BOTH("pointwise", "add", "n=4096;dtype=bf16", 2 * 4096 * 2, 4096 * 2),
        BOTH("pointwise", "gelu", "n=5001;dtype=bf16", 5001 * 2, 5001 * 2),
        BOTH("pointwise", "sigmoid", "n=1;dtype=fp32", 4, 4),
        BOTH("pointwise", "copy", "n=4096;dtype=fp32", 4096 * 4, 4096 * 4),
        /* four copies of 10 x 64: rows of 128 B take vectors; 10 x 33: element by element */
        BOTH("pointwise", "cat4", "rows=10;cols=64;dtype=bf16", 4 * 640 * 2, 4 * 640 * 2),
        BOTH("pointwise", "cat4", "rows=10;cols=33;dtype=bf16", 4 * 330 * 2, 4 * 330 * 2),
        BOTH("pointwise", "transpose", "rows=37;cols=53;dtype=bf16", 37 * 53 * 2, 37 * 53 * 2),
        BOTH("inductor", "sig_mul_tanh", "rows=9;cols=100;dtype=bf16", 1800, 1800),
        /* a sum: the input, one result; too short for more than one workgroup */
        BOTH("pointwise", "sum", "n=5000;dtype=fp32", 20000, 4),
        BOTH("pointwise", "sum_dim1", "rows=100;cols=64;dtype=bf16", 12800, 200),
        BOTH("pointwise", "sum_dim1", "rows=7;cols=1000;dtype=bf16", 14000, 14),
        BOTH("pointwise", "sum_dim0", "rows=40;cols=96;dtype=bf16", 7680, 192),
        BOTH("pointwise", "sum_dim0", "rows=100;cols=33;dtype=bf16", 6600, 66),
        /* the row twice, weight and bias (2 x 128 x 2 B) by each of 16 workgroups; result, mean and rstd */
        BOTH("pointwise", "layernorm", "rows=16;cols=128;dtype=bf16", 2 * 4096 + 16 * 512, 4096 + 16 * 8),
        /* moments of rows that are no multiple of 4 */
        BOTH("pointwise", "layernorm", "rows=3;cols=1001;dtype=bf16", 6006, 24),
        /* held: read once, written once */
        BOTH("pointwise", "softmax", "rows=50;cols=96;dtype=bf16", 9600, 9600),
        BOTH("pointwise", "softmax", "rows=3;cols=4096;dtype=bf16", 24576, 24576),
        BOTH("pointwise", "softmax", "rows=2;cols=16384;dtype=bf16", 65536, 65536),
        /* 1 x 50257 x 2 B is no multiple of 16: the row is read three times */
        BOTH("pointwise", "softmax", "rows=1;cols=50257;dtype=bf16", 3 * 100514, 100514),
        BOTH("inductor", "rmsnorm", "rows=20;cols=256;dtype=bf16", 10240, 10240),
        /* and the weight by every wave's row: 20 x 512 B */
        BOTH("inductor", "ln_gelu_mul", "rows=20;cols=256;dtype=bf16", 10240 + 20 * 512, 10240),
        BOTH("elementwise", "map", "n=777;bytes_in=4:2;bytes_out=4;style=unrolled", 777 * 6, 777 * 4),
        /* every 4 results read one value: 250 of them; waves of 32 or 64 share none, chunks of 512 neither */
        BOTH("elementwise", "map", "n=1000;bytes_in=4:4;bytes_out=4;style=strided;repeat=1:4", 4000 + 1000,
             4000),
        BOTH("elementwise", "cast", "n=1025;dtype_in=fp32;dtype_out=bf16", 4100, 2050),
        BOTH("elementwise", "cast", "n=1025;dtype_in=bf16;dtype_out=fp32", 2050, 4100),
        BOTH("elementwise", "fill", "n=999;dtype=bf16", 0, 1998),
        BOTH("memory", "copy", "bytes=4096", 4096, 4096),
        BOTH("memory", "set", "bytes=4000", 0, 4000),
        BOTH("cat", "concat", "rows=5;cols=16:8:24;dtype=fp32", 5 * 48 * 4, 5 * 48 * 4),
        BOTH("transpose", "strided_copy", "batch=2;rows=3;cols=5;inner=8;dtype=bf16", 480, 480),
        /* fused Adam: four lists read, three written */
        BOTH("optimizer", "multi_tensor", "elements=70001;reads=4:4:4:4;writes=4:4:4", 70001 * 16,
             70001 * 12),
        /* weight, x and dy in both passes; mean and rstd by each of a workgroup's waves: 128 threads */
        { "norm", "layer_grad_input", "rows=4;cols=64;dtype=fp32", 32, 2 * (2 * 1024 + 4 * 256) + 4 * 4 * 8,
          1024 },
        { "norm", "layer_grad_input", "rows=4;cols=64;dtype=fp32", 64, 2 * (2 * 1024 + 4 * 256) + 4 * 2 * 8,
          1024 },
        /* two tensors; mean and rstd of every row once per strip of 32 columns; two results */
        BOTH("norm", "layer_grad_weight", "rows=300;cols=64;dtype=fp32", 2 * 76800 + 2 * 2400, 512),
        BOTH("norm", "softmax_backward", "rows=9;cols=128;dtype_in=fp32", 2 * 4608, 4608),
        BOTH("norm", "softmax_backward", "rows=2;cols=5000;dtype_in=fp32;log=1", 3 * 40000, 40000),
        /* labels of 8 B, the value at each; the loss and its weight */
        BOTH("loss", "nll_forward", "rows=100;cols=50", 100 * 12, 8),
        BOTH("loss", "nll_backward", "rows=100;cols=50", 800, 400),
        BOTH("attention", "dot_do_o", "b=2;h=3;s=17;d=64", 2 * 102 * 128, 102 * 256 + 102 * 4),
        BOTH("attention", "convert_dq", "b=2;h=3;s=17;d=64", 102 * 256, 102 * 128),
    };
    return cr_make_param_array(struct traffic_case, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct traffic_case *c, dense, traffic)
{
    struct kernel_plan *plan = walk_plan(c->suite, c->kernel, c->params, c->lanes);
    const struct wave_program *program = plan->launches[0].program;
    struct walk walk = walk_program(program, c->lanes, WALK_ALL, NULL, NULL);
    cr_expect(zero(int, walk.problem[0]), "%s/%s %s: %s", c->suite, c->kernel, c->params, walk.problem);
    cr_expect(eq(dbl, (double)walk.load_bytes, c->load), "%s/%s %s on %u lanes", c->suite, c->kernel,
              c->params, c->lanes);
    cr_expect(eq(dbl, (double)walk.store_bytes, c->store), "%s/%s %s on %u lanes", c->suite, c->kernel,
              c->params, c->lanes);
    cr_expect(eq(u64, walk.units, program->work_units_total), "%s/%s %s on %u lanes", c->suite, c->kernel,
              c->params, c->lanes);
    struct walk again = walk_program(program, c->lanes, WALK_ALL, NULL, NULL);
    cr_expect(eq(u64, walk.hash, again.hash), "%s/%s is no function of its state", c->suite, c->kernel);
    kernel_plan_destroy(plan);
}

/* ---- matrix work ---- */

struct matrix_sum {
    double flops;
    uint64_t steps; /* ops with matrix work */
};

static void add_matrix(void *user, const struct wave_op *op)
{
    struct matrix_sum *sum = user;
    sum->flops += (double)op->matrix_flops;
    sum->steps += op->matrix_flops > 0;
}

struct matrix_case {
    char suite[12], kernel[12], params[150];
    uint32_t lanes;
    double flops, load, store;
};

ParameterizedTestParameters(dense, matrix_work)
{
    static struct matrix_case cases[] = {
        /* 256 x 256 x 128 in four tiles of 128 x 128 and two steps of 64: A and B are read by two tiles each */
        { "gemm", "tile", "M=256;N=256;K=128;dtype=bf16;tile_m=128;tile_n=128;tile_k=64;trans=nt", 32,
          2.0 * 256 * 256 * 128, 2 * 2 * 256 * 128 * 2, 256 * 256 * 2 },
        { "gemm", "tile", "M=256;N=256;K=128;dtype=bf16;tile_m=128;tile_n=128;tile_k=64;trans=tn", 64,
          2.0 * 256 * 256 * 128, 2 * 2 * 256 * 128 * 2, 256 * 256 * 2 },
        /* a cluster of two along N takes each A tile once */
        { "gemm", "tile", "M=256;N=256;K=128;dtype=bf16;tile_m=128;tile_n=128;tile_k=64;cluster_n=2", 32,
          2.0 * 256 * 256 * 128, (1 + 2) * 256 * 128 * 2, 256 * 256 * 2 },
        /* edges: whole tiles are computed (2 x 2 of 64 x 64, K in 2 steps of 64), what exists is moved; rows of 100
         * elements are 8 B apart, so lanes copy, and the matrix unit works at register_rate */
        { "gemm", "tile", "M=100;N=70;K=100;dtype=bf16;tile_m=64;tile_n=64;tile_k=64;register_rate=1", 32,
          2.0 * 128 * 128 * 128, (2 * 100 * 100 + 2 * 70 * 100) * 2, 100 * 70 * 2 },
        /* three splits of K write fp32 parts; 2 + 2 + 1 steps of 64 */
        { "gemm", "tile", "M=128;N=128;K=320;dtype=bf16;tile_m=128;tile_n=128;tile_k=64;split_k=3", 32,
          2.0 * 128 * 128 * 320, 2 * 128 * 320 * 2, 3 * 128 * 128 * 4 },
        /* a batch */
        { "gemm", "bmm", "b=5;M=64;N=64;K=64;dtype=fp16;tile_m=64;tile_n=64;tile_k=64", 32,
          5 * 2.0 * 64 * 64 * 64, 5 * 2 * 64 * 64 * 2, 5 * 64 * 64 * 2 },
        /* 2 heads of 256 queries in tiles of 128; 256 keys in tiles of 128; K and V read by both query tiles */
        { "attention", "sdpa_fwd", "b=1;h=2;s=256;d=64", 32, 2 * 2.0 * 2 * 256 * 256 * 64,
          2 * (256 * 128 + 2 * 2 * 256 * 128), 2 * 256 * (128 + 4) },
        /* eight waves of 64 lanes keep 256 queries: K and V are read once a head */
        { "attention", "sdpa_fwd", "b=1;h=2;s=256;d=64", 64, 2 * 2.0 * 2 * 256 * 256 * 64,
          2 * (256 * 128 + 2 * 256 * 128), 2 * 256 * (128 + 4) },
        /* causal: the first query tile sees one key tile, the second both */
        { "attention", "sdpa_fwd", "b=1;h=2;s=256;d=64;causal=1", 32, 2 * 2.0 * 2 * 3 * 128 * 128 * 64,
          2 * (256 * 128 + 2 * 3 * 128 * 128), 2 * 256 * (128 + 4) },
        /* one key head for two query heads; 100 keys fill one tile of 128 */
        { "attention", "sdpa_fwd", "b=1;h=2;s=128;d=64;kv_heads=1;s_kv=100", 32, 2 * 2.0 * 2 * 128 * 128 * 64,
          2 * (128 * 128 + 2 * 100 * 128), 2 * 128 * (128 + 4) },
        /* backward: 2 key tiles, 4 query tiles of 64: five products; Q, dO, lse, delta by each key tile; dK and dV */
        { "attention", "sdpa_bwd", "b=1;h=2;s=256;d=64;launches=main", 32, 5 * 2.0 * 2 * 256 * 256 * 64,
          2 * (2 * 256 * 128 + 2 * (2 * 256 * 128 + 2 * 256 * 4)), 2 * 2 * 256 * 128 },
        /* causal: 4 query tiles see the first key tile, 2 the second */
        { "attention", "sdpa_bwd", "b=1;h=2;s=256;d=64;causal=1;launches=main", 64,
          5 * 2.0 * 2 * 6 * 64 * 128 * 64, 2 * (2 * 256 * 128 + 6 * 64 * (2 * 128 + 2 * 4)),
          2 * 2 * 256 * 128 },
    };
    return cr_make_param_array(struct matrix_case, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct matrix_case *c, dense, matrix_work)
{
    struct kernel_plan *plan = walk_plan(c->suite, c->kernel, c->params, c->lanes);
    const struct wave_program *program = plan->launches[0].program;
    struct matrix_sum sum = { 0 };
    struct walk walk = walk_program(program, c->lanes, WALK_ALL, add_matrix, &sum);
    cr_expect(zero(int, walk.problem[0]), "%s %s: %s", c->kernel, c->params, walk.problem);
    cr_expect(eq(dbl, sum.flops, c->flops), "%s %s on %u lanes", c->kernel, c->params, c->lanes);
    cr_expect(eq(dbl, (double)walk.load_bytes, c->load), "%s %s on %u lanes", c->kernel, c->params, c->lanes);
    cr_expect(eq(dbl, (double)walk.store_bytes, c->store), "%s %s on %u lanes", c->kernel, c->params,
              c->lanes);
    cr_expect(eq(u64, walk.units, program->work_units_total), "%s %s on %u lanes", c->kernel, c->params,
              c->lanes);
    kernel_plan_destroy(plan);
}

/* The product with a vector of the first stretch of 640 rows (0.9 of them left: 576, 9 rows of blocks of 64): the lower triangle
 * of blocks once, 45 blocks of 64 x 64 x 4 B, and a part of 64 sums for each. A workgroup a row of blocks. */
Test(dense, symmetric_product_reads_its_triangle_once)
{
    static const uint32_t lanes[] = { 32, 64 };
    for (int i = 0; i < 2; i++) {
        struct kernel_plan *plan = walk_plan("eigh", "syevd", "n=640;dtype=fp32", lanes[i]);
        const struct wave_program *program = plan->launches[0].program;
        struct walk walk = walk_program(program, lanes[i], WALK_ALL, NULL, NULL);
        cr_expect(zero(int, walk.problem[0]), "%s", walk.problem);
        cr_expect(eq(u64, program->workgroups, 9));
        cr_expect(eq(u64, walk.load_bytes, 45 * 64 * 64 * 4));
        cr_expect(eq(u64, walk.store_bytes, 45 * 64 * 4));
        cr_expect(eq(u64, walk.units, program->work_units_total));
        kernel_plan_destroy(plan);
    }
}

/* dQ: every query row of every (64 keys, query tile) pair, d additions: 2 heads x 6 pairs of tiles x 2 x 64 rows x 64. */
Test(dense, backward_adds_dq_once_per_group_of_keys)
{
    struct kernel_plan *plan = walk_plan("attention", "sdpa_bwd", "b=1;h=2;s=256;d=64;causal=1;launches=main",
                                         32);
    struct walk walk = walk_program(plan->launches[0].program, 32, WALK_ALL, NULL, NULL);
    cr_assert(eq(u64, walk.atomic_lanes, 2 * 6 * 2 * 64 * 64));
    kernel_plan_destroy(plan);
}

/* Two heads of two tiles of keys: a workgroup for each moves what two persistent ones do, and each wave of it is set up once: (8 + the
 * one that adds dQ) waves x 4 workgroups x 500 cycles more. */
static void add_latency(void *user, const struct wave_op *op)
{
    *(uint64_t *)user += op->latency_cycles;
}

Test(dense, a_workgroup_a_tile_moves_the_same_and_is_set_up_each_time)
{
    static const char *const params[] = { "b=1;h=2;s=256;d=64;causal=1;launches=main;grid=persistent",
                                          "b=1;h=2;s=256;d=64;causal=1;launches=main;grid=tiles",
                                          "b=1;h=2;s=256;d=64;causal=1;launches=main;grid=tiles;setup_cycles=500" };
    struct walk walks[3];
    uint64_t latency[3] = { 0 };
    for (int i = 0; i < 3; i++) {
        struct kernel_machine machine = walk_machine(2, 32);
        struct kernel_params *given = NULL;
        struct kernel_plan *plan = NULL;
        struct sim_error error = { 0 };
        cr_assert(eq(int, kernel_params_parse(params[i], &given, &error), SIM_OK));
        cr_assert(eq(int, kernel_plan_create("attention", "sdpa_bwd", given, &machine, &plan, &error), SIM_OK), "%s", error.text);
        cr_expect(eq(u64, plan->launches[0].program->workgroups, i == 0 ? 2 : 4));
        walks[i] = walk_program(plan->launches[0].program, 32, WALK_ALL, add_latency, &latency[i]);
        cr_expect(zero(int, walks[i].problem[0]), "%s", walks[i].problem);
        cr_expect(eq(u64, walks[i].load_bytes, walks[0].load_bytes));
        cr_expect(eq(u64, walks[i].store_bytes, walks[0].store_bytes));
        cr_expect(eq(u64, walks[i].atomic_lanes, walks[0].atomic_lanes));
        cr_expect(eq(u64, walks[i].units, plan->launches[0].program->work_units_total));
        kernel_plan_destroy(plan);
        kernel_params_destroy(given);
    }
    cr_expect(eq(u64, latency[1], latency[0]));
    cr_expect(eq(u64, latency[2], latency[1] + 9 * 4 * 500));
}

static void add_valu(void *user, const struct wave_op *op)
{
    *(uint64_t *)user += op->matrix_flops > 0 ? op->valu_slots : 0;
}

/* Causal forward of 512 queries and keys in tiles of 128: 1 + 2 + 3 + 4 = 10 pairs of tiles, of which 4 are on the diagonal. Masking
 * 128 x 128 scores by 8 waves of 32 lanes takes 64 scores a lane x 4 slots, in 8 waves of every masked pair: six pairs fewer. */
Test(dense, a_mask_of_the_diagonal_alone_leaves_the_other_tiles_out)
{
    uint64_t slots[2] = { 0 };
    static const char *const params[] = { "b=1;h=1;s=512;d=64;causal=1;tile_q=128;tile_kv=128;mask=all",
                                          "b=1;h=1;s=512;d=64;causal=1;tile_q=128;tile_kv=128;mask=diagonal" };
    for (int i = 0; i < 2; i++) {
        struct kernel_plan *plan = walk_plan("attention", "sdpa_fwd", params[i], 32);
        struct walk walk = walk_program(plan->launches[0].program, 32, WALK_ALL, add_valu, &slots[i]);
        cr_expect(zero(int, walk.problem[0]), "%s", walk.problem);
        kernel_plan_destroy(plan);
    }
    cr_expect(eq(u64, slots[0] - slots[1], 6ull * 8 * 64 * 4));
}

/* Backward, 512 in key tiles of 128 and query tiles of 64: 8 + 6 + 4 + 2 = 20 pairs, the first two of every key tile masked. */
Test(dense, a_mask_of_the_diagonal_alone_works_backward_too)
{
    uint64_t slots[2] = { 0 };
    static const char *const params[] = { "b=1;h=1;s=512;d=64;causal=1;launches=main;mask=all",
                                          "b=1;h=1;s=512;d=64;causal=1;launches=main;mask=diagonal" };
    for (int i = 0; i < 2; i++) {
        struct kernel_plan *plan = walk_plan("attention", "sdpa_bwd", params[i], 32);
        struct walk walk = walk_program(plan->launches[0].program, 32, WALK_ALL, add_valu, &slots[i]);
        cr_expect(zero(int, walk.problem[0]), "%s", walk.problem);
        kernel_plan_destroy(plan);
    }
    cr_expect(eq(u64, slots[0] - slots[1], 12ull * 8 * 32 * 4));
}

/* ---- windows ---- */

/* A window [0, a) and the rest [a, end) do the steps of the whole: their matrix work and work units add up. Loads may be
 * taken twice: what [a, end) needs first, [0, a) had not prefetched, since prefetch ends with the window. */
static void windows_add_up(const char *suite, const char *kernel, const char *params, uint64_t cut)
{
    struct kernel_plan *plan = walk_plan(suite, kernel, params, 32);
    const struct wave_program *program = plan->launches[0].program;
    cr_expect(gt(u64, program->trips_per_wave, cut), "%s/%s loops %llu times", suite, kernel,
              (unsigned long long)program->trips_per_wave);
    struct matrix_sum all = { 0 }, parts = { 0 };
    struct walk whole = walk_program(program, 32, WALK_ALL, add_matrix, &all);
    struct walk first = walk_program(program, 32, (struct wave_window){ .trip_limit = cut }, add_matrix, &parts);
    struct walk rest = walk_program(program, 32, (struct wave_window){ .trip_first = cut, .trip_limit = UINT64_MAX }, add_matrix, &parts);
    cr_expect(zero(int, first.problem[0]), "%s", first.problem);
    cr_expect(zero(int, rest.problem[0]), "%s", rest.problem);
    cr_expect(eq(u64, first.units + rest.units, whole.units), "%s/%s", suite, kernel);
    cr_expect(eq(dbl, parts.flops, all.flops), "%s/%s", suite, kernel);
    cr_expect(ge(u64, first.load_bytes + rest.load_bytes, whole.load_bytes), "%s/%s", suite, kernel);
    kernel_plan_destroy(plan);
}

Test(dense, windows_of_a_gemm_add_up)
{
    windows_add_up("gemm", "tile", "M=256;N=256;K=1280;dtype=bf16;tile_m=128;tile_n=128;tile_k=64;stages=4",
                   7);
}

/* 256 x 256 in tiles of 128 are four workgroups; K = 1280 in steps of 64 is 20 trips, of which 9 are left out, four before the last
 * seven. A trip of a workgroup loads (128 + 128) x 64 values of 2 B; the results, 256 x 256 x 2 B, are all stored. */
Test(dense, a_gemm_goes_from_its_first_trips_to_its_last)
{
    struct kernel_plan *plan = walk_plan("gemm", "tile", "M=256;N=256;K=1280;dtype=bf16;tile_m=128;tile_n=128;tile_k=64;stages=4", 32);
    const struct wave_program *program = plan->launches[0].program;
    struct wave_window window = { .trip_limit = UINT64_MAX, .left_out_first = 4, .left_out = 9 };
    cr_assert(program->can_leave_out_trips);
    cr_assert(eq(u64, program->trips_per_wave, 20));
    struct walk some = walk_program(program, 32, window, NULL, NULL);
    cr_expect(zero(int, some.problem[0]), "%s", some.problem);
    cr_expect(eq(u64, some.units, 11ull * 4 * program->waves_per_workgroup));
    cr_expect(eq(u64, some.load_bytes, 11ull * 4 * (128 + 128) * 64 * 2));
    cr_expect(eq(u64, some.store_bytes, 256ull * 256 * 2));
    kernel_plan_destroy(plan);
}

/* 34 tiles on 8 workgroups: some have one more, and their last trips are not the others'. */
Test(dense, a_gemm_of_uneven_workgroups_leaves_no_trips_out)
{
    struct kernel_plan *plan = walk_plan("gemm", "tile", "M=2176;N=256;K=512;dtype=bf16;tile_m=128;tile_n=128;tile_k=64;stages=4;workgroups=8", 32);
    cr_expect(gt(u64, plan->launches[0].program->trips_per_wave, 0));
    cr_expect(not(plan->launches[0].program->can_leave_out_trips));
    kernel_plan_destroy(plan);
}

Test(dense, windows_of_attention_add_up)
{
    windows_add_up("attention", "sdpa_fwd", "b=1;h=1;s=2048;d=64;causal=1", 9);
    windows_add_up("attention", "sdpa_bwd", "b=1;h=1;s=1024;d=64;causal=1;launches=main", 11);
}
