/* power: dense bursts beside pauses, a copy, and nothing, repeated for as long as board power is averaged over. The waves are
 * those of gemm/mm and pointwise/copy; what is asked here is the clock that board power leaves them. */
#include "workloads/kernels/kernels_internal.h"
#include <stdio.h>

#define COPY_ELEMENTS 268435456.0 /* fp32: what the measuring program copies */

/* The launch of another kernel's plan, which must have one. */
static struct wave_program *program_of(struct kernel_build *build, const char *suite, const char *kernel, const char *text)
{
    struct kernel_params *params = NULL;
    struct kernel_plan *plan = NULL;
    struct wave_program *program = NULL;
    struct sim_error error = { 0 };
    enum sim_status status = kernel_params_parse(text, &params, &error);
    if (status == SIM_OK) {
        status = kernel_plan_create(suite, kernel, params, build->machine, &plan, &error);
    }
    if (status == SIM_OK) {
        SIM_ASSERT(plan->launch_count >= 1, "%s/%s has no launch", suite, kernel);
        program = plan->launches[0].program;
        plan->launches[0].program = NULL;
    } else {
        kernel_fail(build, status, "%s", error.text);
    }
    kernel_plan_destroy(plan);
    kernel_params_destroy(params);
    return program;
}

static struct wave_program *copy_of(struct kernel_build *build, double elements)
{
    char text[64];
    snprintf(text, sizeof text, "n=%.0f;dtype=fp32", elements);
    return program_of(build, "pointwise", "copy", text);
}

static void add(struct kernel_build *build, struct wave_program *program, double repeat)
{
    if (program != NULL) {
        kernel_plan_add(build, program, repeat);
    }
}

static void gemm_duty_build(struct kernel_build *build)
{
    static const char *const dtypes[] = { "bf16", "fp16", "tf32", "fp32", "fp8" };
    char text[128];
    struct kernel_duty duty = { .given = true };
    uint64_t n = kernel_param_integer(build, "n", 16, 65536);
    int dtype = kernel_param_choice(build, "dtype", "bf16|fp16|tf32|fp32|fp8");
    duty.copies = kernel_param_choice_or(build, "low", "idle|copy", 0, "what the pauses hold") == 1;
    duty.duty = kernel_param_real_or(build, "duty", 0.001, 1, 0.25, "0.1..1: share of the bursts in the time");
    uint64_t burst = kernel_param_integer_or(build, "burst", 1, 100000, 1, "1..64: products in a burst");
    duty.excursion = kernel_param_choice_or(build, "excursion", "on|off", 0, NULL) == 0;
    if (!kernel_params_done(build)) {
        return;
    }
    snprintf(text, sizeof text, "M=%llu;N=%llu;K=%llu;dtype=%s", (unsigned long long)n, (unsigned long long)n,
             (unsigned long long)n, dtypes[dtype]);
    add(build, program_of(build, "gemm", "mm", text), (double)burst);
    if (duty.copies && kernel_build_ok(build)) {
        add(build, copy_of(build, COPY_ELEMENTS), 1);
    }
    build->plan->duty = duty;
    build->plan->time_is_per_call = true;
    build->plan->flops = 2.0 * (double)n * (double)n * (double)n;
    kernel_value_per_time(build, build->plan->flops * 1e-6, "TFLOP/s");
}

static void watts_build(struct kernel_build *build, struct wave_program *program, double repeat)
{
    add(build, program, repeat);
    build->plan->value_only = true;
    build->plan->value_rule = KERNEL_VALUE_WATTS;
    snprintf(build->plan->value_unit, sizeof build->plan->value_unit, "W");
}

static void copy_build(struct kernel_build *build)
{
    if (kernel_params_done(build)) {
        watts_build(build, copy_of(build, COPY_ELEMENTS), 1);
    }
}

static void idle_build(struct kernel_build *build)
{
    if (kernel_params_done(build)) {
        watts_build(build, copy_of(build, 1024), 0); /* a launch that never runs */
    }
}

const struct kernel_definition power_kernels[] = {
    { "power", "gemm_duty", "n x n x n products in bursts, with pauses: the clock that board power leaves them",
      "n, dtype (bf16|fp16|tf32|fp32|fp8), low (idle|copy; idle), duty (0..1; 0.25), burst (products; 1), excursion (on|off; on)",
      gemm_duty_build },
    { "power", "copy", "board power while 1 GiB is copied over and over", "none", copy_build },
    { "power", "idle", "board power without work, clocks up", "none", idle_build },
    { .suite = NULL },
};
