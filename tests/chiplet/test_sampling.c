/* A sampled run against the whole kernel, each sampled for real: by the default window within 2%, by the quick windows of a step within
 * 10%; the gap of the others is listed. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>

#include "sim/chiplet/chip.h"
#include "workloads/kernels/kernel.h"

#define QUICK 100000 /* of a step: most of a kernel is replayed or filled in, not timed */

struct sampled_case {
    char device[16], suite[16], kernel[24], params[112];
    double known_ratio; /* sampled / exact where it is off by more than that, not settled; 1: it is not */
    uint64_t window;    /* line requests; 0: the default */
};

ParameterizedTestParameters(sampling, sampled_is_within_two_percent_of_exact)
{
    static struct sampled_case cases[] = {
        { "h200", "bandwidth", "read", "mb=512;it=1", 1, 0 },
        { "h200", "bandwidth", "write", "mb=512;it=1", 1, 0 },
        { "h200", "bandwidth", "copy", "mb=512", 1, 0 },
        { "h200", "gather", "random_rows", "row_bytes=128;table_mb=16384;n=4000000", 1, 0 },
        { "h200", "atomic", "add_u32", "naddr=65536;mode=0;stride=4;ops=8650752", 1, 0 },
        { "h200", "tbe", "forward", "B=16384;T=4;L=20;D=128;rows=1000000;alpha=1;prec=fp32;code=measured", 1, 0 },
        /* a round and a third: those that start in slots which chance has freed fill some units more than others */
        { "h200", "embedding", "bag_forward", "B=65536;L=20;D=64;rows=1000000;dtype=float32", 0.98, 0 },
        { "h200", "norm", "layer_forward", "rows=262144;cols=256;dtype=bf16", 1, 0 },
        { "h200", "pointwise", "add", "n=67108864;dtype=fp32", 1, 0 },
        { "h200", "tbe", "backward_atomic", "B=16384;T=4;L=10;D=128;rows=100000;alpha=1;prec=fp32", 1.027, 0 },
        { "mi350x", "bandwidth", "copy", "mb=512", 1, 0 },
        { "mi350x", "gather", "random_rows", "row_bytes=128;table_mb=16384;n=4000000", 1, 0 },
        { "mi350x", "gemm", "mm", "M=4096;N=4096;K=1024;dtype=bf16", 1, 0 }, /* the ends of its workgroups are an eighth of it */
        { "h200", "bandwidth", "write", "mb=512;it=1", 1, QUICK },
        { "h200", "bandwidth", "copy", "mb=512", 1, QUICK },
        { "h200", "tbe", "forward", "B=65536;T=2;L=10;D=64;rows=1000000;alpha=1;prec=fp16;code=measured", 1, QUICK },
        { "h200", "embedding", "bag_forward", "B=65536;L=20;D=64;rows=1000000;dtype=float32", 1, QUICK },
        /* three rounds: a slot does not wait for the round's last workgroup */
        { "h200", "tbe", "forward", "B=4096;T=4;L=20;D=128;rows=100000;alpha=1.15;prec=fp32;code=measured", 1, QUICK },
        { "h200", "gis", "backward_cached", "D=32;rows=1000;run=4;n=262144", 1, QUICK },
        { "h200", "norm", "layer_forward", "rows=262144;cols=256;dtype=bf16", 1, QUICK },
        { "h200", "pointwise", "add", "n=67108864;dtype=fp32", 1, QUICK },
        { "mi350x", "bandwidth", "write", "mb=512;it=1", 1, QUICK }, /* its evictions are of lines filled in, not replayed */
        { "mi350x", "bandwidth", "copy", "mb=512", 1, QUICK },
        { "mi350x", "tbe", "forward", "B=65536;T=2;L=10;D=64;rows=1000000;alpha=1;prec=fp16;code=measured", 1, QUICK }, /* half of it found */
        { "mi350x", "pointwise", "add", "n=67108864;dtype=fp32", 0.83, QUICK },
        /* of 16 causal tiles a head each die has its own two, the longest one die alone */
        { "mi350x", "attention", "jfa_fwd", "B=4;heads=64;kv_heads=64;S=2048;d=128;causal=1;sparsity=0;act=softmax", 1, QUICK },
        { "mi350x", "attention", "hstu_bwd", "B=256;heads=4;S=2048;d=64;causal=1;sparsity=0.8", 1, QUICK }, /* lengths from 1 to 818 */
        /* persistent: a long and a short tile in turn */
        { "mi350x", "attention", "sdpa_fwd", "b=16;h=16;s=2048;d=128;causal=1", 1, QUICK },
        { "h200", "attention", "sdpa_fwd", "b=8;h=16;s=2048;d=128;causal=1", 1, QUICK },
        { "mi350x", "gemm", "mm", "M=8192;N=3456;K=1024;dtype=bf16;tile_m=256;tile_n=256;split_k=1", 1, QUICK }, /* a round and three quarters */
        { "mi350x", "gemm", "mm", "M=2048;N=2048;K=8192;dtype=bf16", 1, QUICK }, /* K in four parts, added up after the last trip */
    };
    return cr_make_param_array(struct sampled_case, cases, sizeof cases / sizeof cases[0]);
}

static double duration_us(const struct chip_profile *profile, const struct wave_program *program, bool exact,
                          uint64_t window, double *fraction)
{
    struct chip_options options = { .exact = exact, .window_requests = window };
    struct kernel_result result;
    struct sim_error error;
    cr_assert(chip_run(profile, program, &options, &result, &error) == SIM_OK, "%s", error.text);
    *fraction = result.sampled_fraction;
    return result.duration_us;
}

ParameterizedTest(struct sampled_case *c, sampling, sampled_is_within_two_percent_of_exact)
{
    struct chip_profile profile;
    struct sim_error error;
    struct kernel_params *params;
    struct kernel_plan *plan;
    char path[512];
    snprintf(path, sizeof path, "%s/devices/%s.json", SOURCE_DIR, c->device);
    cr_assert(chip_profile_read(path, &profile, &error) == SIM_OK, "%s", error.text);
    struct kernel_machine machine = {
        .units = chip_unit_count(&profile),
        .lanes = (uint32_t)profile.unit_lanes,
        .hbm_bytes = (uint64_t)(profile.hbm_capacity * 1073741824.0),
        .lds_bytes_per_workgroup_max = (uint32_t)(profile.unit_lds_per_workgroup_max * 1024),
        .core_mhz = profile.clock_core_max,
        .registers_per_lane_max = (uint32_t)profile.unit_registers_per_lane_max,
        .simd_registers = (uint32_t)(profile.unit_registers / profile.unit_simds / profile.unit_lanes),
        .dispatch_dies = profile.dispatch_order == CHIP_DISPATCH_ROUND_ROBIN_GROUPS ? (uint32_t)profile.package_groups : 1,
        .chip = &profile
    };
    machine.matrix_flops_per_cycle[WAVE_BF16] = profile.matrix_bf16;
    cr_assert(kernel_params_parse(c->params, &params, &error) == SIM_OK, "%s", error.text);
    cr_assert(kernel_plan_create(c->suite, c->kernel, params, &machine, &plan, &error) == SIM_OK, "%s",
              error.text);
    double fraction;
    double whole;
    const struct wave_program *program = plan->launches[0].program;
    double sampled = duration_us(&profile, program, false, c->window, &fraction);
    double exact = duration_us(&profile, program, true, 0, &whole);
    cr_expect(lt(dbl, fraction, 0.8), "%s/%s was not sampled", c->suite, c->kernel);
    cr_expect(eq(dbl, whole, 1));
    cr_expect(epsilon_eq(dbl, sampled / exact, c->known_ratio, c->window == QUICK ? 0.1 : 0.02),
              "%s %s/%s %s: sampled %.3f us (%.2f of it), exact %.3f us", c->device, c->suite, c->kernel, c->params,
              sampled, fraction, exact);
    kernel_plan_destroy(plan);
    kernel_params_destroy(params);
    chip_profile_finish(&profile);
}
