/* alu: fp32 multiply-adds, four independent chains a thread. */
#include "workloads/kernels/kernels_internal.h"

#define FMA_UNROLL 16 /* sm_90: unrolled by 16: 64 FFMA and 4 other instructions, 80 cycles for a lone wave */
#define FMA_CHAINS 4

struct fma {
    uint64_t iterations;
    uint32_t lanes;
};

static void fma_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                     struct wave_op *op)
{
    const struct fma *k = program->context;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->pc = 1;
    }
    uint64_t limit = min_u64(k->iterations, window->trip_limit);
    if (state->trip >= limit) {
        op_end(op);
        return;
    }
    uint64_t trips = min_u64(FMA_UNROLL, limit - state->trip);
    op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
    op_work(op, 1, (uint32_t)(trips * FMA_CHAINS) + 3, 12);
    op->work_units = (uint32_t)trips;
    op_lanes(op, k->lanes);
    state->trip += trips;
}

static void fma_build(struct kernel_build *build)
{
    uint64_t iterations = kernel_param_integer(build, "n", 1, 1000000000);
    if (!kernel_params_done(build)) {
        return;
    }
    uint64_t threads = 8ull * build->machine->units * 256;
    struct wave_program *program = kernel_program_create("fp32 multiply-add", sizeof(struct fma), fma_next);
    *(struct fma *)program->context = (struct fma){ iterations, build->machine->lanes };
    program->registers_per_lane = 13; /* sm_90: 13 registers */
    kernel_program_grid(program, threads, 256, build->machine->lanes);
    program->trips_per_wave = iterations;
    program->work_units_total = iterations * program->workgroups * program->waves_per_workgroup;
    program->flops = 2.0 * FMA_CHAINS * (double)iterations * (double)threads;
    program->initial_cache = WAVE_CACHE_STATE_CLEAN;
    build->plan->flops = program->flops;
    kernel_value_per_time(build, program->flops * 1e-6, "TFLOP/s");
    kernel_plan_add(build, program, 1);
}

const struct kernel_definition alu_kernels[] = {
    { "alu", "fma", "fp32 multiply-adds, 4 chains a thread, 8 workgroups of 256 per unit", "n (iterations)",
      fma_build },
    { .suite = NULL },
};
