/* A step's window of a kernel with like parts runs on a like part of the package (sim/chiplet/part.c): its time and bytes against
 * the same window on the whole package, launch by launch. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>

#include "sim/chiplet/chip.h"
#include "workloads/kernels/kernel.h"

#define QUICK 100000

struct parted_case {
    char device[16], suite[16], kernel[24], params[96];
    unsigned parted; /* launches that are run on a part */
    double within;   /* of the whole package's time, where both are simulated by the same rule */
};

ParameterizedTestParameters(part, takes_the_time_of_the_whole)
{
    static struct parted_case cases[] = {
        /* of linearise, a sort of three passes over 803 or 1,138 tiles, and the passes behind it, those that fill the machine */
        { "mi350x", "tbe", "backward", "B=262144;T=1;L=20;D=32;rows=4000000;prec=fp32", 6, 0.05 },
        { "mi350x", "elementwise", "map", "n=28311552;bytes_in=4;bytes_out=4", 1, 0.05 },
        { "mi350x", "elementwise", "cast", "n=28311552;dtype_in=bf16;dtype_out=fp32", 1, 0.05 },
        { "mi350x", "pointwise", "copy", "n=8388608;dtype=fp32", 1, 0.05 },
        /* too few workgroups for all units, a grid-stride loop, one L2 for all */
        { "mi350x", "elementwise", "map", "n=8192;bytes_in=4;bytes_out=4", 0, 0 },
        { "mi350x", "bandwidth", "copy", "mb=64", 0, 0 },
        { "h200", "pointwise", "copy", "n=8388608;dtype=fp32", 0, 0 },
    };
    return cr_make_param_array(struct parted_case, cases, sizeof cases / sizeof cases[0]);
}

static struct kernel_result run(const struct chip_profile *profile, const struct wave_program *program, bool exact)
{
    struct chip_options options = { .exact = exact, .window_requests = exact ? 0 : QUICK, .core_mhz = profile->clock_core_memory_bound };
    struct kernel_result result;
    struct sim_error error;
    cr_assert(chip_run(profile, program, &options, &result, &error) == SIM_OK, "%s", error.text);
    return result;
}

/* The launch on a part and on the whole; returns whether a part was taken: results of the same run are the same to the bit. */
static bool compare(const struct parted_case *c, const struct chip_profile *profile, struct wave_program *program)
{
    program->initial_cache = WAVE_CACHE_STATE_OWN;
    struct kernel_result part = run(profile, program, false);
    program->is_divisible = false;
    struct kernel_result whole = run(profile, program, false);
    if (part.simulated_line_requests == whole.simulated_line_requests && part.duration_us == whole.duration_us) {
        return false;
    }
    cr_expect(epsilon_eq(dbl, part.duration_us / whole.duration_us, 1, c->within), "%s %s/%s %s, %s: %.3f us on a part, %.3f on the whole",
              c->device, c->suite, c->kernel, c->params, program->name, part.duration_us, whole.duration_us);
    cr_expect(epsilon_eq(dbl, part.bytes[KERNEL_LEVEL_L1] / whole.bytes[KERNEL_LEVEL_L1], 1, 0.08)); /* of a window: with what was under way at its end */
    cr_expect(epsilon_eq(dbl, part.unit_share, whole.unit_share, 0.01));
    /* of the whole board; what each finds in its memory-side cache is warmed by its own rule, which bytes of HBM show */
    cr_expect(epsilon_eq(dbl, part.watts / whole.watts, 1, 0.3), "%s: %.0f W, %.0f W", program->name, part.watts, whole.watts);
    cr_expect(lt(dbl, part.sampled_fraction, 0.26)); /* one of four groups of each die */
    cr_expect(lt(dbl, (double)part.simulated_line_requests, 0.4 * (double)whole.simulated_line_requests));
    cr_expect(gt(dbl, part.sampling_error, 0));
    return true;
}

ParameterizedTest(struct parted_case *c, part, takes_the_time_of_the_whole)
{
    struct chip_profile profile;
    struct sim_error error;
    struct kernel_params *params;
    struct kernel_plan *plan;
    char path[512];
    snprintf(path, sizeof path, "%s/devices/%s.json", SOURCE_DIR, c->device);
    cr_assert(chip_profile_read(path, &profile, &error) == SIM_OK, "%s", error.text);
    struct kernel_machine machine = { .units = chip_unit_count(&profile), .lanes = (uint32_t)profile.unit_lanes,
                                      .hbm_bytes = (uint64_t)(profile.hbm_capacity * 1073741824.0),
                                      .lds_bytes_per_workgroup_max = (uint32_t)(profile.unit_lds_per_workgroup_max * 1024),
                                      .core_mhz = profile.clock_core_memory_bound };
    cr_assert(kernel_params_parse(c->params, &params, &error) == SIM_OK, "%s", error.text);
    cr_assert(kernel_plan_create(c->suite, c->kernel, params, &machine, &plan, &error) == SIM_OK, "%s", error.text);
    unsigned parted = 0;
    for (size_t i = 0; i < plan->launch_count; i++) {
        struct wave_program *program = plan->launches[i].program;
        if (plan->launches[i].kind == KERNEL_LAUNCH_WAVES && program->is_divisible) {
            parted += compare(c, &profile, program);
        }
    }
    cr_expect(eq(uint, parted, c->parted), "%s %s/%s", c->device, c->suite, c->kernel);
    kernel_plan_destroy(plan);
    kernel_params_destroy(params);
    chip_profile_finish(&profile);
}

/* What is asked for whole, or by the default window, is run on the whole package. */
Test(part, is_for_windows_of_a_step_alone)
{
    struct chip_profile profile;
    struct sim_error error;
    struct kernel_params *params;
    struct kernel_plan *plan;
    cr_assert(chip_profile_read(SOURCE_DIR "/devices/mi350x.json", &profile, &error) == SIM_OK, "%s", error.text);
    struct kernel_machine machine = { .units = chip_unit_count(&profile), .lanes = (uint32_t)profile.unit_lanes,
                                      .hbm_bytes = (uint64_t)(profile.hbm_capacity * 1073741824.0),
                                      .lds_bytes_per_workgroup_max = (uint32_t)(profile.unit_lds_per_workgroup_max * 1024),
                                      .core_mhz = profile.clock_core_memory_bound };
    cr_assert(kernel_params_parse("n=4194304;dtype=fp32", &params, &error) == SIM_OK, "%s", error.text);
    cr_assert(kernel_plan_create("pointwise", "copy", params, &machine, &plan, &error) == SIM_OK, "%s", error.text);
    struct wave_program *program = plan->launches[0].program;
    cr_assert(program->is_divisible);
    struct kernel_result exact = run(&profile, program, true);
    cr_expect(eq(dbl, exact.sampled_fraction, 1));
    struct chip_options by_default = { .core_mhz = profile.clock_core_memory_bound };
    struct kernel_result result;
    cr_assert(chip_run(&profile, program, &by_default, &result, &error) == SIM_OK);
    cr_expect(eq(dbl, result.duration_us, exact.duration_us)); /* 2,048 workgroups are below the default window: run whole */
    program->initial_cache = WAVE_CACHE_STATE_FLUSHED; /* another's lines fill the whole package */
    struct kernel_result flushed = run(&profile, program, false);
    program->is_divisible = false;
    cr_expect(eq(dbl, flushed.duration_us, run(&profile, program, false).duration_us));
    kernel_plan_destroy(plan);
    kernel_params_destroy(params);
    chip_profile_finish(&profile);
}
