/* The fast engine against the reference engine: an event per line and contended stage, in true arrival order. Every kind of
 * kernel, small and exact, on a full package: within 2% unless listed with its gap and the cause. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>

#include "tests/chiplet/tiny.h"
#include "workloads/kernels/kernel.h"

#define TOLERANCE 0.02

static void must(enum sim_status status, const struct sim_error *error)
{
    cr_assert(eq(int, status, SIM_OK), "%s", error->text);
}

static struct kernel_result run(const struct chip_profile *profile, const struct wave_program *program, enum chip_engine engine,
                                double core_mhz)
{
    struct kernel_result result;
    struct sim_error error;
    struct chip_options options = { .engine = engine, .exact = true, .core_mhz = core_mhz };
    must(chip_run(profile, program, &options, &result, &error), &error);
    return result;
}

/* ---- what the reference itself must do, on a package of one unit, one slice and one channel (tiny.h) */

/* Start 10, a miss of 200 + 300 and 2 on the bus, nine hits of 200: the same sum as chip.unloaded_latency_is_the_sum_of_the_path,
 * which the fast engine meets. Nothing contends, so the two engines agree to the tick. */
Test(reference, unloaded_latency_is_the_sum_of_the_path)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern chase = { .kind = WAVE_LOAD, .cache = WAVE_CACHE_L2, .bytes = 32, .trips = 10, .lanes = 1 };
    struct wave_program program = tiny_program(&chase, 1, 1);
    double us = run(&profile, &program, CHIP_ENGINE_REFERENCE, 0).duration_us;
    cr_assert(epsilon_eq(dbl, us * 1000, 10 + (200 + 300 + 2) + 9 * 200, 1e-6));
    cr_assert(eq(dbl, us, run(&profile, &program, CHIP_ENGINE_FAST, 0).duration_us));
}

/* 32 lines asked for at once, hits all: the address port passes one a cycle, the slice takes 2 ns a line, so that the last one
 * leaves the slice 31 x 2 after the first: 10 (start) + 200 + 62. First come, first served, whatever comes later. */
Test(reference, a_burst_waits_its_turn)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern burst = { .kind = WAVE_LOAD, .cache = WAVE_CACHE_L2, .bytes = 32 * 128, .trips = 1, .lanes = 32 };
    struct wave_program program = tiny_program(&burst, 1, 1);
    program.initial_cache = WAVE_CACHE_STATE_OWN;
    double us = run(&profile, &program, CHIP_ENGINE_REFERENCE, 0).duration_us;
    cr_assert(epsilon_eq(dbl, us * 1000, 10 + 200 + 31 * 2, 1e-6));
}

/* Two loads in flight of one line that misses: one access of 64 B, and both are back with it. */
Test(reference, a_line_under_way_is_fetched_once)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern twice = { .kind = WAVE_LOAD, .cache = WAVE_CACHE_L2, .bytes = 32, .trips = 2, .wait = WAVE_NO_WAIT, .lanes = 1 };
    struct wave_program program = tiny_program(&twice, 1, 1);
    struct kernel_result result = run(&profile, &program, CHIP_ENGINE_REFERENCE, 0);
    cr_assert(epsilon_eq(dbl, result.hbm_read_bytes, 64, 0));
    /* the return path gives 32 B in half a cycle */
    cr_assert(epsilon_eq(dbl, result.duration_us * 1000, 10 + 502 + 0.5, 1e-6));
}

Test(reference, same_input_same_bytes)
{
    struct chip_profile profile = tiny_profile();
    profile.package_units_per_group = 8;
    struct tiny_pattern mixed = { .kind = WAVE_ATOMIC, .bytes = 96, .stride = 4160, .wave_stride = 999 * 32, .trips = 50,
                                  .wait = 1, .lanes = 24 };
    struct wave_program program = tiny_program(&mixed, 40, 4);
    struct kernel_result a = run(&profile, &program, CHIP_ENGINE_REFERENCE, 0);
    struct kernel_result b = run(&profile, &program, CHIP_ENGINE_REFERENCE, 0);
    cr_assert(eq(dbl, a.duration_us, b.duration_us));
    cr_assert(memcmp(a.stack, b.stack, sizeof a.stack) == 0);
    cr_assert(memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0);
}

/* ---- the fast engine against it */

#define AS_REGISTERED (-1)

/* Why the fast engine is off where it is, found by changing one rule at a time. A listed case fails too when its gap moves by
 * more than the tolerance, also towards none: then its row is to go. */

#define BURSTS "not settled; gone when slices read in no time"
#define PORT "stores of several lines wait longer for the unit's port; within 1 and 3% when it sends a line in a cycle, and 1.4% at four times the size"
#define LINES "an operation reserves all its lines at once, where those of other units come in between: 333 ns instead of 299 at the slices"
#define EDGE "at the edge of the tolerance since homes keep what their far side reads; not settled"
#define FULL "60 MB of lines and copies in 58.75: which of them leave hangs on the order of arrivals"
#define TURNS "waves of a workgroup meet at its shared memory: turns are given in order of issue; within 0.2% without it"
#define NOT_SETTLED "tiles of few rows and many columns: not settled"
#define OPEN "not settled; 0.986 without refresh, within 0.3% with a channel 40 times as fast"

struct case_of_kind {
    char suite[16], kernel[24], params[96];
    int cache;             /* enum wave_initial_cache, or AS_REGISTERED */
    double known_ratio;    /* fast / reference where it is off by more than the tolerance, and why; 0: it is not */
    char reason[160];
};

ParameterizedTestParameters(reference, fast_engine_is_within_two_percent)
{
    static struct case_of_kind cases[] = {
        { "bandwidth", "read", "mb=24", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "bandwidth", "read", "mb=24", WAVE_CACHE_STATE_FLUSHED, 0, "" },
        { "bandwidth", "read", "mb=1;it=16", AS_REGISTERED, 0, "" },
        { "bandwidth", "read", "mb=40;it=1", AS_REGISTERED, 0.971, FULL },
        { "bandwidth", "write", "mb=24", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "bandwidth", "write", "mb=24", WAVE_CACHE_STATE_FLUSHED, 0, "" },
        { "bandwidth", "copy", "mb=32", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "bandwidth", "copy", "mb=64", WAVE_CACHE_STATE_FLUSHED, 0, "" },
        { "gather", "random_rows", "row_bytes=16;table_mb=4096;n=200000", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "gather", "random_rows", "row_bytes=64;table_mb=4096;n=200000", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "gather", "random_rows", "row_bytes=128;table_mb=4096;n=200000", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "gather", "random_rows", "row_bytes=512;table_mb=4096;n=50000", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "gather", "random_rows", "row_bytes=128;table_mb=16;n=200000", AS_REGISTERED, 0.979, BURSTS },
        { "atomic", "add_u32", "naddr=1;mode=0;stride=4;ops=135168", AS_REGISTERED, 0, "" },
        { "atomic", "add_f32", "naddr=1;mode=1;stride=4;ops=135168", AS_REGISTERED, 0, "" },
        { "atomic", "add_f32", "naddr=32;mode=0;stride=4;ops=540672", AS_REGISTERED, 0, "" },
        { "atomic", "add_u32", "naddr=256;mode=0;stride=256;ops=540672", AS_REGISTERED, 0, "" },
        { "atomic", "add_u32", "naddr=65536;mode=0;stride=4;ops=540672", AS_REGISTERED, 0, "" },
        { "atomic", "add_u32", "naddr=268435456;mode=0;stride=4;ops=540672", AS_REGISTERED, 0, "" },
        { "atomic", "add_u32", "naddr=268435456;mode=0;stride=4;ops=270336", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "atomic", "add_f32", "naddr=268435456;mode=2;stride=4;ops=4325376", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "atomic", "add_f32", "naddr=268435456;mode=2;stride=4;ops=4325376", WAVE_CACHE_STATE_FLUSHED, 0, "" },
        { "atomic", "add_f16x2", "naddr=65536;mode=2;stride=4;ops=2162688", AS_REGISTERED, 0, "" },
        { "atomic", "same_addr_return", "grid=132;block=256", AS_REGISTERED, 0, "" },
        { "bounds_check", "per_thread_atomic", "tables=4;batch=16384;bag=32;block_x=32;rate=0", AS_REGISTERED, 0, "" },
        { "bounds_check", "per_thread_atomic", "tables=4;batch=16384;bag=32;block_x=32;rate=0.01", AS_REGISTERED, 0, "" },
        { "bounds_check", "tree_reduction", "tables=4;batch=16384;bag=32;block_x=32;rate=0.01", AS_REGISTERED, 0, "" },
        { "gis", "forward", "D=64;rows=1000000;n=65536", AS_REGISTERED, 0.979, EDGE },
        { "gis", "backward_atomic", "D=64;rows=1000000;n=65536", AS_REGISTERED, 0, "" },
        { "gis", "backward_atomic", "D=64;rows=1000;n=65536", AS_REGISTERED, 0, "" },
        { "gis", "backward_cached", "D=64;rows=1000000;run=4;n=65536", AS_REGISTERED, 0, "" },
        { "gis", "backward_sorted", "D=64;rows=100000;run=4;n=32768", AS_REGISTERED, 0, "" },
        { "tbe", "forward", "B=1024;T=4;L=10;D=128;rows=1000000;alpha=1;prec=fp32;code=measured", AS_REGISTERED, 0, "" },
        { "tbe", "forward", "B=1024;T=4;L=10;D=128;rows=1000000;alpha=1;prec=fp32;code=measured", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "tbe", "forward", "B=4096;T=4;L=10;D=128;rows=1000000;alpha=1;prec=fp32;code=measured", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "tbe", "forward", "B=1024;T=4;L=10;D=128;rows=1000000;alpha=1.15;prec=fp16;code=measured", AS_REGISTERED, 0, "" },
        { "tbe", "backward_atomic", "B=1024;T=4;L=10;D=128;rows=1000000;alpha=1;prec=fp32", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "tbe", "backward_atomic", "B=1024;T=4;L=10;D=128;rows=1000000;alpha=1.15;prec=fp32", AS_REGISTERED, 0, "" },
        { "tbe", "sort", "B=1024;T=4;L=10;D=128;rows=1000000;alpha=1;prec=fp32", AS_REGISTERED, 0, "" },
        { "tbe", "linearize", "bags=65536;n=300000", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "tbe", "permute", "features=16;batch=4096;n=300000;index_bytes=4", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "sort", "single_tile", "n=768;bits=24", WAVE_CACHE_STATE_CLEAN, 0.966, TURNS },
        { "sort", "sweep", "n=300000;threads=256;items=11", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "tbe", "backward_sorted", "B=1024;T=4;L=10;D=128;rows=1000000;alpha=1;prec=fp32", WAVE_CACHE_STATE_CLEAN, 0, "" },
        { "tbe", "backward_sorted", "B=1024;T=4;L=10;D=128;rows=1000000;alpha=1.15;prec=fp32", AS_REGISTERED, 0, "" },
        { "tbe_fused", "forward", "B=1024;T=4;L=10;D=128;rows=1000000", AS_REGISTERED, 0, "" },
        { "tbe_fused", "backward", "B=1024;T=4;L=10;D=128;rows=1000000", AS_REGISTERED, 0, "" },
        { "embedding", "bag_forward", "B=2048;L=20;D=64;rows=1000000;dtype=float32", AS_REGISTERED, 0, "" },
        { "embedding", "bag_backward_dense", "B=2048;L=20;D=64;rows=10000;dtype=float32", AS_REGISTERED, 0, "" },
        { "scatter", "index_add", "n=32768;D=64;rows=1000000;dtype=fp32", AS_REGISTERED, 0, "" },
        { "scatter", "index_add", "n=32768;D=64;rows=10;dtype=fp32", AS_REGISTERED, 0, "" },
        { "scatter", "index_add", "n=16384;D=64;rows=1000;dtype=fp32;kind=cas", AS_REGISTERED, 0, "" },
        { "scatter", "index_select", "n=32768;D=64;rows=100000;dtype=fp32", AS_REGISTERED, 0, "" },
        { "scatter", "histogram", "n=262144;rows=65536", AS_REGISTERED, 1.045, PORT },
        { "scatter", "histogram", "n=1048576;rows=65536", AS_REGISTERED, 0, "" },
        { "reduction", "rows", "rows=2048;cols=2048;dtype_in=fp32", AS_REGISTERED, 0, "" },
        { "reduction", "columns", "rows=2048;cols=2048;dtype_in=fp32", AS_REGISTERED, 0, "" },
        { "reduction", "all", "n=4194304;dtype_in=fp32", AS_REGISTERED, 0, "" },
        { "norm", "layer_forward", "rows=16384;cols=256;dtype=bf16", AS_REGISTERED, 0, "" },
        { "pointwise", "add", "n=2097152;dtype=fp32", AS_REGISTERED, 0, "" },
        { "pointwise", "gelu", "n=4194304;dtype=bf16", AS_REGISTERED, 0.947, OPEN },
        { "pointwise", "transpose", "rows=768;cols=768;dtype=fp32", AS_REGISTERED, 0.981, BURSTS },
        { "gemm", "mm", "M=1024;N=2048;K=512;dtype=bf16;trans=nt;tile_m=128;tile_n=128;split_k=1", AS_REGISTERED, 1.024, EDGE },
        { "gemm", "tile", "M=1024;N=2048;K=512;dtype=bf16;tile_m=128;tile_n=128", AS_REGISTERED, 1.024, EDGE },
        { "gemm", "tile", "M=1024;N=2048;K=512;dtype=bf16;tile_m=64;tile_n=256", AS_REGISTERED, 1.051, NOT_SETTLED },
        { "attention", "sdpa_fwd", "b=4;h=8;s=512;d=64", AS_REGISTERED, 1.067, LINES },
    };
    return cr_make_param_array(struct case_of_kind, cases, sizeof cases / sizeof cases[0]);
}

static struct kernel_machine machine_of(const struct chip_profile *profile)
{
    struct kernel_machine machine = {
        .units = chip_unit_count(profile),
        .lanes = (uint32_t)profile->unit_lanes,
        .hbm_bytes = (uint64_t)(profile->hbm_capacity * 1073741824.0),
        .lds_bytes_per_workgroup_max = (uint32_t)(profile->unit_lds_per_workgroup_max * 1024),
        .core_mhz = profile->clock_core_memory_bound,
    };
    machine.matrix_flops_per_cycle[WAVE_TF32] = profile->matrix_tf32;
    machine.matrix_flops_per_cycle[WAVE_BF16] = profile->matrix_bf16;
    machine.matrix_flops_per_cycle[WAVE_FP16] = profile->matrix_bf16;
    machine.matrix_flops_per_cycle[WAVE_FP8] = profile->matrix_fp8;
    return machine;
}

ParameterizedTest(struct case_of_kind *c, reference, fast_engine_is_within_two_percent)
{
    struct chip_profile profile;
    struct sim_error error;
    must(chip_profile_read(SOURCE_DIR "/devices/h200.json", &profile, &error), &error);
    struct kernel_machine machine = machine_of(&profile);
    struct kernel_params *params;
    struct kernel_plan *plan;
    must(kernel_params_parse(c->params, &params, &error), &error);
    must(kernel_plan_create(c->suite, c->kernel, params, &machine, &plan, &error), &error);
    double fast_us = 0;
    double reference_us = 0;
    for (size_t i = 0; i < plan->launch_count; i++) {
        struct kernel_launch *launch = &plan->launches[i];
        if (launch->kind != KERNEL_LAUNCH_WAVES) {
            continue;
        }
        if (c->cache != AS_REGISTERED) {
            launch->program->initial_cache = (enum wave_initial_cache)c->cache;
        }
        struct kernel_result fast = run(&profile, launch->program, CHIP_ENGINE_FAST, machine.core_mhz);
        struct kernel_result reference = run(&profile, launch->program, CHIP_ENGINE_REFERENCE, machine.core_mhz);
        cr_expect(eq(u64, fast.simulated_line_requests, reference.simulated_line_requests), "%s/%s", c->suite, c->kernel);
        cr_expect(eq(u64, fast.simulated_wave_ops, reference.simulated_wave_ops), "%s/%s", c->suite, c->kernel);
        fast_us += fast.duration_us * launch->repeat;
        reference_us += reference.duration_us * launch->repeat;
    }
    double ratio = fast_us / reference_us;
    double expected = c->known_ratio > 0 ? c->known_ratio : 1;
    bool is_listed = c->known_ratio > 0;
    bool has_reason = c->reason[0] != '\0';
    cr_expect(is_listed == has_reason, "%s/%s: a gap goes with its reason", c->suite, c->kernel);
    cr_expect(fabs(ratio - expected) <= TOLERANCE, "%s/%s %s, cache %d: fast %.3f us, reference %.3f us, ratio %.3f, listed %.3f (%s)",
              c->suite, c->kernel, c->params, c->cache, fast_us, reference_us, ratio, expected, c->known_ratio > 0 ? c->reason : "none");
    kernel_plan_destroy(plan);
    kernel_params_destroy(params);
    chip_profile_finish(&profile);
}
