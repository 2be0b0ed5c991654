/* launch: what a launch costs. Empty kernels back to back, empty grids of many workgroups, and chains of small
 * dependent element-wise kernels in a stream and in a captured graph. */
#include "workloads/kernels/kernels_internal.h"

struct element_wise {
    uint64_t n;
    uint64_t array;
    uint32_t lanes;
};

/* sm_90: one EXIT. The wave does nothing; its one work unit is its life. */
static void empty_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                       struct wave_op *op)
{
    (void)program, (void)window;
    if (state->pc == 1) {
        op_end(op);
        return;
    }
    state->pc = 1;
    op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
    op_work(op, 1, 0, 0);
    op->work_units = 1;
}

static struct wave_program *empty_program(uint64_t grid, uint32_t block, uint32_t lanes)
{
    struct wave_program *program = kernel_program_create("empty kernel", 0, empty_next);
    program->registers_per_lane = 4; /* sm_90: 4 registers */
    program->initial_cache = WAVE_CACHE_STATE_CLEAN;
    kernel_program_grid(program, grid * block, block, lanes);
    program->work_units_total = program->workgroups * program->waves_per_workgroup;
    return program;
}

static void empty_build(struct kernel_build *build)
{
    uint64_t n = kernel_param_integer(build, "n", 1, 1000000);
    uint64_t grid = kernel_param_integer_or(build, "grid", 1, 100000000, 1, NULL);
    uint64_t block = kernel_param_integer_or(build, "block", 1, 1024, build->machine->lanes, NULL);
    if (!kernel_params_done(build)) {
        return;
    }
    kernel_plan_add(build, empty_program(grid, (uint32_t)block, build->machine->lanes), (double)n);
    build->plan->time_is_per_call = true;
    kernel_value_time(build, 1, 1, "us/kernel");
}

static void dispatch_build(struct kernel_build *build)
{
    uint64_t grid = kernel_param_integer(build, "grid", 1, 1000000000);
    uint64_t block = kernel_param_integer_or(build, "block", 1, 1024, 128, NULL);
    if (!kernel_params_done(build)) {
        return;
    }
    kernel_plan_add(build, empty_program(grid, (uint32_t)block, build->machine->lanes), 1);
    kernel_value_per_time(build, (double)grid, "blocks/us");
}

/* z.add_(1) on fp32: PyTorch's vectorised element-wise kernel, 128 threads a block, 16 bytes a lane. A wave lives for
 * one load and one store. */
static void add_scalar_next(const struct wave_program *program, const struct wave_window *window,
                            struct wave_state *state, struct wave_op *op)
{
    const struct element_wise *k = program->context;
    (void)window;
    uint64_t first = wave_index(program, state) * k->lanes * 4;
    uint64_t elements = first < k->n ? min_u64(k->n - first, (uint64_t)k->lanes * 4) : 0;
    if (elements == 0 || state->pc == 2) {
        op_end(op);
        return;
    }
    if (state->pc++ == 0) {
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 8, 22, 60 + 2 * KERNEL_SPECIAL_CYCLES);
    } else {
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 2, 6, 12);
        op->work_units = 1;
    }
    op_span(op, k->array + first * 4, elements * 4);
    op_lanes(op, ceil_div(elements, 4));
}

static void chain_build(struct kernel_build *build, enum kernel_launch_style style)
{
    uint64_t n = kernel_param_integer(build, "n", 1, 1000000000);
    uint64_t kernels = kernel_param_integer_or(build, "kernels", 1, 100000, 200, NULL);
    kernel_require_hbm(build, (double)n * 4, "the array");
    if (!kernel_params_done(build)) {
        return;
    }
    uint32_t lanes = build->machine->lanes;
    struct wave_program *program = kernel_program_create("add scalar in place", sizeof(struct element_wise),
                                                         add_scalar_next);
    struct element_wise *k = program->context;
    *k = (struct element_wise){ .n = n, .lanes = lanes };
    k->array = kernel_program_tensor(program, "array", (double)n * 4);
    program->registers_per_lane = 32;
    kernel_program_grid(program, ceil_div(n, 4), 128, lanes);
    program->work_units_total = ceil_div(n, (uint64_t)lanes * 4);
    program->l2_footprint_bytes = (double)n * 4;
    program->flops = (double)n;
    kernel_plan_add(build, program, (double)kernels);
    build->plan->style = style;
    build->plan->time_is_per_call = true;
    build->plan->flops = (double)n * (double)kernels;
    kernel_value_time(build, 1, 1, "us/kernel");
}

static void chain_stream_build(struct kernel_build *build)
{
    chain_build(build, KERNEL_STYLE_STREAM);
}

static void chain_graph_build(struct kernel_build *build)
{
    chain_build(build, KERNEL_STYLE_GRAPH);
}

const struct kernel_definition launch_kernels[] = {
    { "launch", "empty", "n empty kernels back to back; time per kernel", "n, grid (1), block (a wave)", empty_build },
    { "launch", "dispatch", "one empty grid of many workgroups", "grid, block (128)", dispatch_build },
    { "launch", "chain_stream", "dependent element-wise kernels in a stream; time per kernel",
      "n (elements), kernels (200)", chain_stream_build },
    { "launch", "chain_graph", "the same in a captured graph; time per kernel", "n (elements), kernels (200)",
      chain_graph_build },
    { .suite = NULL },
};
