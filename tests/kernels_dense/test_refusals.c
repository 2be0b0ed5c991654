/* Wrong parameters of the dense kernels: refused in one line that names the parameter, with nothing built. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "tests/kernels/walk.h"

struct refusal {
    char suite[16], kernel[20], params[110];
    int status;
    char says[24];
};

ParameterizedTestParameters(dense, refusals)
{
    static struct refusal cases[] = {
        { "pointwise", "add", "n=0;dtype=fp32", SIM_BAD_ARGUMENT, "n=0" },
        { "pointwise", "add", "n=-5;dtype=fp32", SIM_BAD_ARGUMENT, "n=-5" },
        { "pointwise", "add", "n=1.5;dtype=fp32", SIM_BAD_ARGUMENT, "n=1.5" },
        { "pointwise", "add", "n=100;dtype=fp31", SIM_BAD_ARGUMENT, "fp31" },
        { "pointwise", "add", "n=100", SIM_BAD_ARGUMENT, "dtype" },
        { "pointwise", "add", "n=100;dtype=fp32;m=3", SIM_BAD_ARGUMENT, "'m'" },
        { "pointwise", "add", "n=1e12;dtype=fp32", SIM_DOES_NOT_FIT, "HBM" },
        { "pointwise", "softmax", "rows=0;cols=5;dtype=bf16", SIM_BAD_ARGUMENT, "rows=0" },
        { "pointwise", "cat4", "rows=5;dtype=bf16", SIM_BAD_ARGUMENT, "cols" },
        { "pointwise", "sum_dim0", "rows=1e9;cols=1e6;dtype=bf16", SIM_DOES_NOT_FIT, "HBM" },
        { "elementwise", "map", "n=10", SIM_BAD_ARGUMENT, "bytes_out" },
        { "elementwise", "map", "n=10;bytes_in=4:x;bytes_out=4", SIM_BAD_ARGUMENT, "bytes_in=4:x" },
        { "elementwise", "map", "n=10;bytes_in=4:;bytes_out=4", SIM_BAD_ARGUMENT, "bytes_in=4:" },
        { "elementwise", "map", "n=10;bytes_in=0;bytes_out=4", SIM_BAD_ARGUMENT, "bytes_in=0" },
        { "elementwise", "map", "n=10;bytes_in=4:4;inputs=3;bytes_out=4", SIM_BAD_ARGUMENT, "inputs" },
        { "elementwise", "map", "n=10;bytes_in=4;bytes_out=4;vector=3", SIM_BAD_ARGUMENT, "vector=3" },
        { "elementwise", "map", "n=10;bytes_in=4;bytes_out=4;vector=4;elements_per_lane=6", SIM_BAD_ARGUMENT,
          "elements_per_lane=6" },
        { "elementwise", "map", "n=10;bytes_in=4;bytes_out=4;repeat=2", SIM_BAD_ARGUMENT, "style" },
        { "elementwise", "map", "n=10;bytes_in=4:4;bytes_out=4;style=strided;run=2", SIM_BAD_ARGUMENT,
          "run" },
        { "cat", "concat", "rows=4;cols=8:8;tensors=3;dtype=fp32", SIM_BAD_ARGUMENT, "tensors=3" },
        { "optimizer", "multi_tensor", "elements=1e6;reads=4;writes=4;chunks=2", SIM_BAD_ARGUMENT,
          "chunks=2" },
        { "optimizer", "multi_tensor", "elements=1e6;reads=4", SIM_BAD_ARGUMENT, "writes" },
        { "norm", "softmax_forward", "rows=4;cols=2000;dtype_in=fp32;style=wave", SIM_BAD_ARGUMENT,
          "style=wave" },
        { "norm", "softmax_forward", "rows=4;cols=200000;dtype_in=fp32;style=lds", SIM_DOES_NOT_FIT, "LDS" },
        { "norm", "layer_forward", "rows=4;cols=64;dtype=fp32;cache=warm", SIM_BAD_ARGUMENT, "cache=warm" },
        { "loss", "nll_forward", "rows=4;cols=0", SIM_BAD_ARGUMENT, "cols=0" },
        { "gemm", "mm", "M=0;N=4;K=4;dtype=bf16", SIM_BAD_ARGUMENT, "M=0" },
        { "gemm", "mm", "M=4;N=4;K=-4;dtype=bf16", SIM_BAD_ARGUMENT, "K=-4" },
        { "gemm", "mm", "M=4;N=4;K=4;dtype=int4", SIM_BAD_ARGUMENT, "int4" },
        { "gemm", "mm", "M=4;N=4;K=4;dtype=bf16;trans=xx", SIM_BAD_ARGUMENT, "trans=xx" },
        { "gemm", "mm", "M=268435456;N=4;K=268435456;dtype=bf16", SIM_DOES_NOT_FIT, "HBM" },
        { "gemm", "mm", "M=64;N=64;K=64;dtype=bf16;tiles=64:64:64:2:1", SIM_BAD_ARGUMENT, "resident of each" },
        { "gemm", "mm", "M=64;N=64;K=64;dtype=bf16;tiles=64:64:64:1:1:1", SIM_BAD_ARGUMENT, "1 stages" },
        { "gemm", "mm", "M=64;N=64;K=64;dtype=bf16;tiles=64:x", SIM_BAD_ARGUMENT, "tiles=64:x" },
        { "gemm", "mm", "M=64;N=64;K=64;dtype=bf16;tile_m=64;tile_n=64;tiles=64:64:64:2:1:1", SIM_BAD_ARGUMENT, "without tile_m" },
        { "gemm", "tile", "M=4;N=4;K=4;dtype=bf16", SIM_BAD_ARGUMENT, "tile_m" },
        { "gemm", "tile", "M=4096;N=4096;K=64;dtype=bf16;tile_m=128;tile_n=128;split_k=9", SIM_BAD_ARGUMENT,
          "split_k=9" },
        { "gemm", "tile", "M=4096;N=4096;K=64;dtype=bf16;tile_m=512;tile_n=512;stages=4", SIM_DOES_NOT_FIT,
          "LDS" },
        { "attention", "sdpa_fwd", "b=1;h=1;s=0;d=64", SIM_BAD_ARGUMENT, "s=0" },
        { "attention", "sdpa_fwd", "b=1;h=3;s=64;d=64;kv_heads=2", SIM_BAD_ARGUMENT, "kv_heads=2" },
        { "attention", "sdpa_fwd", "b=1;h=1;s=64;d=64;causal=1;s_kv=32", SIM_BAD_ARGUMENT, "s_kv=32" },
        { "attention", "sdpa_fwd", "b=1;h=1;s=64;d=64;causal=2", SIM_BAD_ARGUMENT, "causal=2" },
        { "jagged", "forward", "B=0;S=64;heads=2;d=64", SIM_BAD_ARGUMENT, "B=0" },
        { "jagged", "forward", "B=2;S=64;heads=3;kv_heads=2;d=64", SIM_BAD_ARGUMENT, "kv_heads=2" },
        { "jagged", "forward", "B=2;S=64;heads=2;d=64;tokens=1000", SIM_BAD_ARGUMENT, "tokens=1000" },
        { "jagged", "forward", "B=2;S=64;heads=2;d=64;tokens=64;sum_len2=9", SIM_BAD_ARGUMENT, "sum_len2=9" },
        { "power", "gemm_duty", "n=4096;dtype=bf16;duty=0", SIM_BAD_ARGUMENT, "duty=0" },
        { "attention", "hstu_fwd", "fix=fast-gelu", SIM_BAD_ARGUMENT, "fast-gelu" },
        { "attention", "sdpa_bwd", "b=1e6;h=64;s=65536;d=128", SIM_DOES_NOT_FIT, "HBM" },
    };
    return cr_make_param_array(struct refusal, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct refusal *c, dense, refusals)
{
    struct kernel_machine machine = walk_machine(4, 32);
    struct kernel_params *parsed;
    struct kernel_plan *plan = NULL;
    struct sim_error error = { .text = "" };
    cr_assert(eq(int, kernel_params_parse(c->params, &parsed, &error), SIM_OK));
    cr_expect(eq(int, kernel_plan_create(c->suite, c->kernel, parsed, &machine, &plan, &error), c->status),
              "%s/%s %s: %s", c->suite, c->kernel, c->params, error.text);
    cr_expect(eq(ptr, plan, NULL), "%s/%s %s", c->suite, c->kernel, c->params);
    cr_expect(ne(ptr, strstr(error.text, c->says), NULL), "'%s' does not say '%s'", error.text, c->says);
    cr_expect(eq(ptr, strchr(error.text, '\n'), NULL), "'%s' has more than one line", error.text);
    kernel_params_destroy(parsed);
}

/* No matrix rate at all: refused, not priced as zero. */
Test(dense, a_device_without_matrix_rate_is_refused)
{
    struct kernel_machine machine = walk_machine(4, 32);
    machine.matrix_flops_per_cycle[WAVE_BF16] = machine.matrix_flops_per_cycle[WAVE_FP16] = 0;
    const char *const kernels[][3] = { { "gemm", "mm", "M=64;N=64;K=64;dtype=fp16" },
                                       { "attention", "sdpa_fwd", "b=1;h=1;s=64;d=64" } };
    for (size_t i = 0; i < 2; i++) {
        struct kernel_params *parsed;
        struct kernel_plan *plan = NULL;
        struct sim_error error;
        kernel_params_parse(kernels[i][2], &parsed, &error);
        cr_expect(eq(int, kernel_plan_create(kernels[i][0], kernels[i][1], parsed, &machine, &plan, &error),
                     SIM_UNSUPPORTED));
        kernel_params_destroy(parsed);
    }
}
