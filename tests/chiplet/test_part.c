/* A step's window of a kernel with like parts runs on a like part of the package (sim/chiplet/part.c), against the whole kernel on
 * the whole package, launch by launch. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "sim/chiplet/chip.h"
#include "workloads/kernels/kernel.h"

#define QUICK 100000

static struct chip_profile profile;

static struct kernel_machine machine_of(const char *device)
{
    struct sim_error error;
    char path[512];
    snprintf(path, sizeof path, "%s/devices/%s.json", SOURCE_DIR, device);
    cr_assert(chip_profile_read(path, &profile, &error) == SIM_OK, "%s", error.text);
    return (struct kernel_machine){ .units = chip_unit_count(&profile), .lanes = (uint32_t)profile.unit_lanes,
                                    .hbm_bytes = (uint64_t)(profile.hbm_capacity * 1073741824.0),
                                    .lds_bytes_per_workgroup_max = (uint32_t)(profile.unit_lds_per_workgroup_max * 1024),
                                    .core_mhz = profile.clock_core_memory_bound };
}

static struct kernel_plan *plan_of(const struct kernel_machine *machine, const char *suite, const char *kernel, const char *text)
{
    struct sim_error error;
    struct kernel_params *params;
    struct kernel_plan *plan;
    cr_assert(kernel_params_parse(text, &params, &error) == SIM_OK, "%s", error.text);
    cr_assert(kernel_plan_create(suite, kernel, params, machine, &plan, &error) == SIM_OK, "%s", error.text);
    kernel_params_destroy(params);
    return plan;
}

static struct kernel_result run(const struct wave_program *program, bool exact)
{
    struct chip_options options = { .exact = exact, .window_requests = exact ? 0 : QUICK, .core_mhz = profile.clock_core_memory_bound };
    struct kernel_result result;
    struct sim_error error;
    cr_assert(chip_run(&profile, program, &options, &result, &error) == SIM_OK, "%s", error.text);
    return result;
}

/* ---- the first workgroups of a grid */

struct parted_case {
    char device[16], suite[16], kernel[24], params[96];
    unsigned parted; /* launches that are run on a part */
};

ParameterizedTestParameters(part, of_a_grid_takes_the_time_of_the_whole)
{
    static struct parted_case cases[] = {
        /* of linearise, a sort of three passes over 569 tiles, and the passes behind it, those that fill the machine */
        { "mi350x", "tbe", "backward", "B=131072;T=1;L=20;D=32;rows=4000000;prec=fp32", 6 },
        { "mi350x", "elementwise", "map", "n=28311552;bytes_in=4;bytes_out=4", 1 },
        { "mi350x", "elementwise", "cast", "n=28311552;dtype_in=bf16;dtype_out=fp32", 1 },
        { "mi350x", "pointwise", "copy", "n=8388608;dtype=fp32", 1 },
        /* too few workgroups for all units, a grid-stride loop, one L2 for all */
        { "mi350x", "elementwise", "map", "n=8192;bytes_in=4;bytes_out=4", 0 },
        { "mi350x", "bandwidth", "copy", "mb=64", 0 },
        { "h200", "pointwise", "copy", "n=8388608;dtype=fp32", 0 },
    };
    return cr_make_param_array(struct parted_case, cases, sizeof cases / sizeof cases[0]);
}

static bool takes_part(const struct parted_case *c, const struct wave_program *program)
{
    struct kernel_result part = run(program, false);
    struct kernel_result whole = run(program, true);
    if (part.sampling_error == 0 || part.sampled_fraction > 0.2) { /* run whole, or sampled on the whole package */
        return false;
    }
    cr_expect(epsilon_eq(dbl, part.duration_us / whole.duration_us, 1, 0.1), "%s %s/%s %s, %s: %.3f us on a part, %.3f on the whole",
              c->device, c->suite, c->kernel, c->params, program->name, part.duration_us, whole.duration_us);
    cr_expect(epsilon_eq(dbl, part.bytes[KERNEL_LEVEL_L1] / whole.bytes[KERNEL_LEVEL_L1], 1, 0.08)); /* with what is under way at its end */
    cr_expect(epsilon_eq(dbl, part.unit_share, whole.unit_share, 0.01));
    cr_expect(epsilon_eq(dbl, part.watts / whole.watts, 1, 0.25), "%s: %.0f W, %.0f W", program->name, part.watts, whole.watts);
    cr_expect(lt(dbl, (double)part.simulated_line_requests, 0.2 * (double)whole.simulated_line_requests)); /* an eighth, and a rest */
    return true;
}

ParameterizedTest(struct parted_case *c, part, of_a_grid_takes_the_time_of_the_whole)
{
    struct kernel_machine machine = machine_of(c->device);
    struct kernel_plan *plan = plan_of(&machine, c->suite, c->kernel, c->params);
    unsigned parted = 0;
    for (size_t i = 0; i < plan->launch_count; i++) {
        struct wave_program *program = plan->launches[i].program;
        if (plan->launches[i].kind == KERNEL_LAUNCH_WAVES && program->is_divisible) {
            program->initial_cache = WAVE_CACHE_STATE_OWN;
            parted += takes_part(c, program);
        }
    }
    cr_expect(eq(uint, parted, c->parted), "%s %s/%s", c->device, c->suite, c->kernel);
    kernel_plan_destroy(plan);
    chip_profile_finish(&profile);
}

/* What is asked for whole, or by the default window, is run on the whole package; another's lines fill all of it. */
Test(part, is_for_windows_of_a_step_alone)
{
    struct kernel_machine machine = machine_of("mi350x");
    struct kernel_plan *plan = plan_of(&machine, "pointwise", "copy", "n=4194304;dtype=fp32");
    struct wave_program *program = plan->launches[0].program;
    struct sim_error error;
    cr_assert(program->is_divisible);
    struct kernel_result exact = run(program, true);
    cr_expect(eq(dbl, exact.sampled_fraction, 1));
    struct chip_options by_default = { .core_mhz = profile.clock_core_memory_bound };
    struct kernel_result result;
    cr_assert(chip_run(&profile, program, &by_default, &result, &error) == SIM_OK);
    cr_expect(eq(dbl, result.duration_us, exact.duration_us)); /* 2,048 workgroups are below the default window: run to the end */
    program->initial_cache = WAVE_CACHE_STATE_FLUSHED;
    struct kernel_result flushed = run(program, false);
    program->is_divisible = false;
    cr_expect(eq(dbl, flushed.duration_us, run(program, false).duration_us));
    kernel_plan_destroy(plan);
    chip_profile_finish(&profile);
}

/* ---- programs that are parts of their launches */

struct table_case {
    char device[16], kernel[16], params[80], launch[16];
    unsigned of; /* parts */
};

ParameterizedTestParameters(part, of_the_lookups_takes_the_time_of_all)
{
    static struct table_case cases[] = {
        { "mi350x", "forward", "B=65536;T=1;L=10;D=32;rows=400000;prec=fp32", "tbe forward", 8 },
        { "mi350x", "forward", "B=131072;T=1;L=3;D=128;rows=1000000;prec=fp32", "tbe forward", 8 }, /* beyond the caches */
        { "mi350x", "backward", "B=131072;T=1;L=4;D=128;rows=100000;prec=fp32", "short runs", 8 },
        { "mi350x", "backward", "B=131072;T=1;L=20;D=64;rows=65536;prec=fp32", "long runs", 8 },
        { "mi350x", "forward", "B=65536;T=1;L=3;D=256;rows=5000;prec=fp32", "tbe forward", 4 }, /* a part keeps 1 MB of rows */
        { "mi300x", "forward", "B=65536;T=1;L=10;D=32;rows=400000;prec=fp32", "tbe forward", 2 }, /* 38 units a group */
        /* skewed, with a hot row, too few rows, one L2 for all */
        { "mi350x", "forward", "B=65536;T=1;L=10;D=32;rows=400000;prec=fp32;alpha=1.1", "tbe forward", 0 },
        { "mi350x", "forward", "B=65536;T=1;L=10;D=32;rows=400000;prec=fp32;hot_share=0.1", "tbe forward", 0 },
        { "mi350x", "forward", "B=65536;T=1;L=10;D=32;rows=2000;prec=fp32", "tbe forward", 0 },
        { "h200", "forward", "B=65536;T=1;L=10;D=32;rows=400000;prec=fp32", "tbe forward", 0 },
    };
    return cr_make_param_array(struct table_case, cases, sizeof cases / sizeof cases[0]);
}

static struct wave_program *launch_named(const struct kernel_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->launch_count; i++) {
        if (plan->launches[i].kind == KERNEL_LAUNCH_WAVES && strstr(plan->launches[i].program->name, name) != NULL) {
            return plan->launches[i].program;
        }
    }
    cr_assert(false, "no launch %s", name);
    return NULL;
}

ParameterizedTest(struct table_case *c, part, of_the_lookups_takes_the_time_of_all)
{
    struct kernel_machine machine = machine_of(c->device), in_parts = machine;
    in_parts.parts = chip_parts(&profile);
    struct kernel_plan *parts = plan_of(&in_parts, "tbe", c->kernel, c->params), *plan = plan_of(&machine, "tbe", c->kernel, c->params);
    struct wave_program *part = launch_named(parts, c->launch), *whole = launch_named(plan, c->launch);
    cr_expect(eq(flt, (float)parts->flops, (float)plan->flops));
    cr_expect(eq(sz, parts->launch_count, plan->launch_count)); /* the sort is of all lookups, its keys of all rows */
    if (c->of == 0) {
        cr_expect(le(uint, part->part_of, 1), "%s %s", c->kernel, c->params);
        cr_expect(eq(u64, part->work_units_total, whole->work_units_total));
    } else {
        cr_expect(eq(uint, part->part_of, c->of), "%s %s", c->kernel, c->params);
        part->initial_cache = whole->initial_cache = WAVE_CACHE_STATE_OWN;
        struct kernel_result a = run(part, true), b = run(whole, true);
        /* both to their end; rows are drawn anew, and queues at an eighth of the slices are less even: 233.9 and 243.8 us at worst */
        cr_expect(epsilon_eq(dbl, a.duration_us / b.duration_us, 1, 0.05), "%s %s, %s: %.3f us for %.3f", c->kernel, c->params, c->launch,
                  a.duration_us, b.duration_us);
        cr_expect(epsilon_eq(dbl, a.bytes[KERNEL_LEVEL_L1] / b.bytes[KERNEL_LEVEL_L1], 1, 0.01));
        cr_expect(epsilon_eq(dbl, a.bytes[KERNEL_LEVEL_L2] / b.bytes[KERNEL_LEVEL_L2], 1, 0.02));
        cr_expect(epsilon_eq(dbl, a.watts / b.watts, 1, 0.02), "%.0f W, %.0f W", a.watts, b.watts);
    }
    kernel_plan_destroy(parts);
    kernel_plan_destroy(plan);
    chip_profile_finish(&profile);
}
