/* The sorted index_put: what each wave touches, against the counts of the recorded kernel. */
#include "workloads/kernels/kernel.h"
#include <criterion/criterion.h>
#include <string.h>

static const struct kernel_machine machine = { .units = 132, .lanes = 32, .hbm_bytes = 1ull << 37,
                                               .lds_bytes_per_workgroup_max = 1u << 17, .core_mhz = 1980 };

static struct kernel_plan *plan_of(const char *text)
{
    struct kernel_params *params = NULL;
    struct kernel_plan *plan = NULL;
    struct sim_error error = { 0 };
    cr_assert_eq(kernel_params_parse(text, &params, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(kernel_plan_create("index", "put_sorted", params, &machine, &plan, &error), SIM_OK, "%s", error.text);
    kernel_params_destroy(params);
    return plan;
}

/* 351 indices, four a workgroup, over 8192 rows: 88 x 8192 = 720,896 workgroups of 128 threads, as recorded. */
Test(index_put, the_grid_is_the_recorded_one)
{
    struct kernel_plan *plan = plan_of("n=351;outer=8192;row=729;dtype=bf16");
    cr_expect_eq(plan->launch_count, 1);
    cr_expect_eq(plan->launches[0].program->workgroups, 720896);
    cr_expect_eq(plan->launches[0].program->waves_per_workgroup, 4);
    cr_expect_eq(plan->launches[0].program->work_units_total, 351 * 8192);
    kernel_plan_destroy(plan);
}

/* A wave with an index: six loads, of which three look at keys, one store of one element. One without: nothing. */
Test(index_put, a_wave_updates_one_element)
{
    struct kernel_plan *plan = plan_of("n=6;outer=2;row=12;dtype=bf16");
    const struct wave_program *program = plan->launches[0].program;
    const struct wave_window all = { .trip_limit = UINT64_MAX };
    size_t elements = 0;
    for (uint64_t workgroup = 0; workgroup < program->workgroups; workgroup++) {
        for (uint32_t wave = 0; wave < program->waves_per_workgroup; wave++) {
            struct wave_state state = { .workgroup = workgroup, .wave = wave };
            size_t loads = 0, stores = 0;
            for (;;) {
                struct wave_op op = { 0 };
                program->next(program, &all, &state, &op);
                if (op.kind == WAVE_END) {
                    break;
                }
                loads += op.kind == WAVE_LOAD;
                stores += op.kind == WAVE_STORE;
                elements += op.work_units;
                cr_expect(op.kind != WAVE_STORE || (op.span_count == 1 && op.spans[0].bytes == 2));
            }
            cr_expect_eq(loads, stores * 6);
            cr_expect(stores <= 1);
        }
    }
    cr_expect_eq(elements, 12, "%zu of 6 indices in 2 rows", elements);
    kernel_plan_destroy(plan);
}

/* Above 65,535 rows the grid ends and waves walk on. */
Test(index_put, many_rows_are_walked)
{
    struct kernel_plan *plan = plan_of("n=4;outer=131072;row=8;dtype=fp32");
    cr_expect_eq(plan->launches[0].program->workgroups, 65535);
    cr_expect_eq(plan->launches[0].program->work_units_total, 4 * 131072);
    kernel_plan_destroy(plan);
}
