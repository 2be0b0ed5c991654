/* Random sizes, most of them small and odd: every program keeps the contract (spans inside tensors, barriers met by all,
 * work units as announced) on both wave widths, whole and in windows. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>

#include "tests/kernels/walk.h"

#define SIZES_MAX 4
#define CASES_PER_KERNEL 24

/* `format` takes `count` sizes, drawn up to 2^bits each. */
struct shape_case {
    char suite[16], kernel[32], format[120];
    uint32_t count, bits[SIZES_MAX];
};

ParameterizedTestParameters(dense, random_shapes)
{
    static struct shape_case cases[] = {
        { "pointwise", "add", "n=%llu;dtype=bf16", 1, { 18 } },
        { "pointwise", "cat4", "rows=%llu;cols=%llu;dtype=bf16", 2, { 9, 9 } },
        { "pointwise", "transpose", "rows=%llu;cols=%llu;dtype=bf16", 2, { 8, 8 } },
        { "pointwise", "sum", "n=%llu;dtype=bf16", 1, { 21 } },
        { "pointwise", "sum_dim0", "rows=%llu;cols=%llu;dtype=bf16", 2, { 14, 9 } },
        { "pointwise", "sum_dim1", "rows=%llu;cols=%llu;dtype=fp32", 2, { 8, 13 } },
        { "pointwise", "layernorm", "rows=%llu;cols=%llu;dtype=bf16", 2, { 7, 11 } },
        { "pointwise", "softmax", "rows=%llu;cols=%llu;dtype=bf16", 2, { 6, 16 } },
        { "inductor", "ln_gelu_mul", "rows=%llu;cols=%llu;dtype=bf16", 2, { 7, 12 } },
        { "elementwise",
          "map",
          "n=%llu;bytes_in=4:2;bytes_out=2;style=strided;repeat=%llu:1;run=%llu:0;pitch=%llu:0",
          4,
          { 13, 6, 6, 7 } },
        { "cat", "concat", "rows=%llu;cols=%llu:%llu:%llu;dtype=fp32", 4, { 7, 8, 8, 5 } },
        { "transpose",
          "strided_copy",
          "batch=%llu;rows=%llu;cols=%llu;inner=%llu;dtype=bf16",
          4,
          { 2, 6, 6, 5 } },
        { "optimizer",
          "multi_tensor",
          "elements=%llu;tensors=%llu;reads=4:4:4:4;writes=4:4:4",
          2,
          { 18, 5 } },
        { "norm", "layer_grad_input", "rows=%llu;cols=%llu;dtype=fp32", 2, { 7, 11 } },
        { "norm", "layer_grad_weight", "rows=%llu;cols=%llu;dtype=fp32", 2, { 17, 7 } },
        { "norm", "softmax_backward", "rows=%llu;cols=%llu;dtype_in=fp32", 2, { 7, 13 } },
        { "loss", "nll_forward", "rows=%llu;cols=%llu", 2, { 13, 10 } },
        { "gemm", "mm", "M=%llu;N=%llu;K=%llu;dtype=bf16;trans=nn", 3, { 9, 9, 9 } },
        { "gemm", "mm", "M=%llu;N=%llu;K=%llu;dtype=tf32;trans=tn", 3, { 9, 9, 9 } },
        { "gemm", "bmm", "b=%llu;M=%llu;N=%llu;K=%llu;dtype=fp16", 4, { 3, 8, 8, 8 } },
        { "attention", "sdpa_fwd", "b=%llu;h=%llu;s=%llu;d=64;causal=1", 3, { 2, 2, 9 } },
        { "attention",
          "sdpa_bwd",
          "b=%llu;h=4;kv_heads=2;s=%llu;s_kv=600;d=64;causal=1;launches=main",
          2,
          { 2, 9 } },
        { "jagged", "forward", "B=%llu;S=%llu;heads=%llu;kv_heads=1;d=64;swizzle=1", 3, { 3, 9, 2 } },
        { "jagged", "backward_dkdv_atomic", "B=%llu;S=%llu;heads=4;kv_heads=2;d=32;block_n=32;stages=1", 2, { 3, 9 } },
        { "jagged", "backward_dkdv_accumulate", "B=%llu;S=%llu;heads=4;kv_heads=2;d=64;causal=0", 2, { 3, 9 } },
        { "attention", "jfa_bwd", "B=%llu;S=%llu;heads=4;kv_heads=2;d=64", 2, { 3, 9 } },
        { "attention", "gdpa_fwd", "B=%llu;S=%llu;fix=pipeline2+occupancy+mfma16+fast-gelu+xcd-swizzle", 2, { 3, 9 } },
    };
    return cr_make_param_array(struct shape_case, cases, sizeof cases / sizeof cases[0]);
}

/* Up to 2^bits, small ones often. */
static unsigned long long size_at(uint64_t draw, uint32_t bits)
{
    uint64_t span = 1ull << (splitmix64_at(draw, 0) % (bits + 1));
    return 1 + splitmix64_at(draw, 1) % span;
}

static void check_windows(const struct wave_program *program, uint32_t lanes, const char *params)
{
    uint64_t cut = program->trips_per_wave / 2;
    struct walk first = walk_program(program, lanes, (struct wave_window){ .trip_limit = cut }, NULL, NULL);
    struct walk rest = walk_program(program, lanes, (struct wave_window){ .trip_first = cut, .trip_limit = UINT64_MAX }, NULL, NULL);
    cr_expect(zero(int, first.problem[0]), "%s on %u lanes: %s", params, lanes, first.problem);
    cr_expect(zero(int, rest.problem[0]), "%s on %u lanes: %s", params, lanes, rest.problem);
}

static void check_plan(const struct kernel_plan *plan, uint32_t lanes, const char *params)
{
    for (size_t i = 0; i < plan->launch_count; i++) {
        const struct wave_program *program = plan->launches[i].program;
        struct walk walk = walk_program(program, lanes, WALK_ALL, NULL, NULL);
        cr_expect(zero(int, walk.problem[0]), "%s on %u lanes: %s", params, lanes, walk.problem);
        cr_expect(eq(u64, walk.units, program->work_units_total), "%s on %u lanes, launch %zu", params, lanes,
                  i);
        if (program->trips_per_wave > 1) {
            check_windows(program, lanes, params);
        }
    }
}

ParameterizedTest(struct shape_case *c, dense, random_shapes)
{
    for (uint64_t i = 0; i < CASES_PER_KERNEL; i++) {
        unsigned long long sizes[SIZES_MAX] = { 0 };
        for (uint32_t s = 0; s < c->count; s++) {
            sizes[s] = size_at(i * SIZES_MAX + s, c->bits[s]);
        }
        char params[200];
        snprintf(params, sizeof params, c->format, sizes[0], sizes[1], sizes[2], sizes[3]);
        uint32_t lanes = i % 2 == 0 ? 32 : 64;
        struct kernel_plan *plan = walk_plan(c->suite, c->kernel, params, lanes);
        check_plan(plan, lanes, params);
        kernel_plan_destroy(plan);
    }
}
