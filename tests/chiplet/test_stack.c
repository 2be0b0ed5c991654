/* The cycle stack's word on ten kernels of the H200: doubling the stage that it names as the limiter speeds the kernel up by at
 * least a tenth, and taking all of that stage's weight away gains no more than the stack claims for it, within 15 points. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chiplet/chip.h"
#include "workloads/kernels/kernel.h"

/* Profile times and rates behind each stage; a rate is multiplied by the factor, a time divided by it. */
struct lever { enum kernel_stage stage; const char *key; bool is_rate; };
static const struct lever levers[] = {
    { KERNEL_STAGE_ISSUE, "unit.issue_interval", false },      { KERNEL_STAGE_ISSUE, "unit.valu_interval", false },
    { KERNEL_STAGE_ISSUE, "unit.sfu_interval", false },        { KERNEL_STAGE_MATRIX, "matrix.bf16", true },
    { KERNEL_STAGE_L1, "l1.request_interval", false },         { KERNEL_STAGE_L1, "l1.fill_rate", true },
    { KERNEL_STAGE_L1, "l1.store_rate", true },                { KERNEL_STAGE_L1, "l1.mshr", true },
    { KERNEL_STAGE_L1, "unit.lds_rate", true },                { KERNEL_STAGE_L1, "unit.lds_atomic_rate", true },
    { KERNEL_STAGE_L2, "l2.read_request_time", false },        { KERNEL_STAGE_L2, "l2.read_line_time", false },
    { KERNEL_STAGE_L2, "l2.write_sector_time", false },        { KERNEL_STAGE_L2, "l2.far_request_time", false },
    { KERNEL_STAGE_L2, "l2.bank_read_time", false },           { KERNEL_STAGE_L2, "l2.bank_write_time", false },
    { KERNEL_STAGE_HBM, "hbm.channel_rate", true },            { KERNEL_STAGE_HBM, "hbm.activate_interval", false },
    { KERNEL_STAGE_HBM, "hbm.row_bubble", false },             { KERNEL_STAGE_HBM, "hbm.write_activate_interval", false },
    { KERNEL_STAGE_HBM, "hbm.turnaround", false },             { KERNEL_STAGE_HBM, "hbm.refresh_time", false },
    { KERNEL_STAGE_ATOMIC, "atomic.int_interval", false },     { KERNEL_STAGE_ATOMIC, "atomic.fp32_interval", false },
    { KERNEL_STAGE_ATOMIC, "atomic.block_time", false },       { KERNEL_STAGE_ATOMIC, "atomic.lane_time", false },
    { KERNEL_STAGE_ATOMIC, "atomic.unit_time", false },        { KERNEL_STAGE_LATENCY, "l2.hit_latency", false },
    { KERNEL_STAGE_LATENCY, "l2.far_latency", false },         { KERNEL_STAGE_LATENCY, "hbm.latency", false },
    { KERNEL_STAGE_LATENCY, "l1.hit_latency", false },         { KERNEL_STAGE_DISPATCH, "dispatch.interval", false },
    { KERNEL_STAGE_DISPATCH, "dispatch.start_latency", false },{ KERNEL_STAGE_DISPATCH, "dispatch.release_latency", false },
};

static struct chip_profile h200(void)
{
    struct chip_profile profile;
    struct sim_error error;
    memset(&profile, 0, sizeof profile);
    if (chip_profile_read(SOURCE_DIR "/devices/h200.json", &profile, &error) != SIM_OK) {
        abort();
    }
    return profile;
}

static struct kernel_result run(const struct chip_profile *profile, const char *suite, const char *kernel, const char *text)
{
    struct sim_error error;
    struct kernel_params *params = NULL;
    struct kernel_plan *plan = NULL;
    struct kernel_machine machine = { .units = chip_unit_count(profile), .lanes = (uint32_t)profile->unit_lanes,
                                      .hbm_bytes = (uint64_t)(profile->hbm_capacity * 1073741824.0),
                                      .lds_bytes_per_workgroup_max = (uint32_t)(profile->unit_lds_per_workgroup_max * 1024),
                                      .core_mhz = profile->clock_core_max };
    for (int d = 0; d < WAVE_DTYPES; d++) {
        machine.matrix_flops_per_cycle[d] = profile->matrix_bf16;
    }
    cr_assert(eq(int, kernel_params_parse(text, &params, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(int, kernel_plan_create(suite, kernel, params, &machine, &plan, &error), SIM_OK), "%s", error.text);
    struct kernel_result result;
    struct chip_options options = { .window_requests = 300000 };
    cr_assert(eq(int, chip_run(profile, plan->launches[0].program, &options, &result, &error), SIM_OK), "%s", error.text);
    kernel_plan_destroy(plan);
    kernel_params_destroy(params);
    return result;
}

static double with_stage_scaled(const char *suite, const char *kernel, const char *params, enum kernel_stage stage, double factor)
{
    struct chip_profile profile = h200();
    for (size_t i = 0; i < sizeof levers / sizeof *levers; i++) {
        if (levers[i].stage == stage) {
            double *value = chip_profile_number(&profile, levers[i].key, NULL);
            cr_assert(value != NULL, "no key %s", levers[i].key);
            *value = levers[i].is_rate ? *value * factor : *value / factor;
        }
    }
    double us = run(&profile, suite, kernel, params).duration_us;
    chip_profile_finish(&profile);
    return us;
}

struct stack_case { char suite[16], kernel[24], params[96]; };
ParameterizedTestParameters(stack, the_named_limiter_limits)
{
    static struct stack_case cases[] = {
        { "bandwidth", "read", "mb=2048;it=1" },
        { "bandwidth", "read", "mb=16;it=128" },
        { "gather", "random_rows", "row_bytes=32;table_mb=4096;n=33554432" },
        { "occupancy", "read", "blocks_per_sm=1;threads=128" },
        { "atomic", "add_u32", "mode=0;naddr=1;stride=4" },
        { "atomic", "add_f32", "mode=1;naddr=4096;stride=4" },
        { "launch", "dispatch", "grid=132000;block=128" },
        { "alu", "fma", "n=1000" },
        { "tbe", "forward", "B=65536;T=5;L=55;D=192;rows=1000000;alpha=1;prec=fp32;code=measured" },
        { "gis", "backward_atomic", "D=128;rows=10000000;run=1;n=2097152" },
    };
    return cr_make_param_array(struct stack_case, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct stack_case *c, stack, the_named_limiter_limits)
{
    struct chip_profile profile = h200();
    struct kernel_result before = run(&profile, c->suite, c->kernel, c->params);
    chip_profile_finish(&profile);
    double doubled = with_stage_scaled(c->suite, c->kernel, c->params, before.limiter, 2);
    cr_expect(before.duration_us / doubled >= 1.10, "%s/%s %s: twice the %s gives only x%.3f", c->suite, c->kernel, c->params,
              kernel_stage_text(before.limiter), before.duration_us / doubled);
    double gone = with_stage_scaled(c->suite, c->kernel, c->params, before.limiter, 64);
    double gain = 1 - gone / before.duration_us;
    cr_expect(gain <= before.stack[before.limiter] + 0.15, "%s/%s %s: without %s %.2f of the time is gone, the stack claims %.2f",
              c->suite, c->kernel, c->params, kernel_stage_text(before.limiter), gain, before.stack[before.limiter]);
}
