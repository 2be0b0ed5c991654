/* latency: chains of dependent loads by one lane. The table gives cycles per load, no time. */
#include "workloads/kernels/kernels_internal.h"

#define CHASE_LINE 128 /* the measuring program's stride, one line a step */

struct chase {
    uint64_t lines;       /* visited in a random cycle */
    uint64_t steps;
    uint64_t table;
    uint64_t stride;
    uint64_t repeat;      /* loads of one line before the next line (1: a true chase) */
    enum wave_cache cache;
    bool random;
};

/* A permutation of 0..lines-1 by a four-round Feistel network, walked until the value is in range: the same order of
 * visits on every run, no table of gigabytes on the host. */
static uint64_t permute(uint64_t i, uint64_t lines)
{
    uint32_t bits = 2;
    while (bits < 62 && (1ull << bits) < lines) {
        bits += 2;
    }
    uint32_t half = bits / 2;
    uint64_t mask = (1ull << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t mixed = left ^ (splitmix64_at(42 + round, right) & mask);
            left = right;
            right = mixed;
        }
        i = left << half | right;
    } while (i >= lines);
    return i;
}

/* sm_90: a step is IMAD.WIDE (stall 6) and the load, which waits for the one before. */
static void chase_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                       struct wave_op *op)
{
    const struct chase *k = program->context;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->pc = 1;
    }
    if (state->trip >= k->steps || state->trip >= window->trip_limit) {
        op_end(op);
        return;
    }
    uint64_t visit = state->trip / k->repeat % k->lines;
    uint64_t line = k->random ? permute(visit, k->lines) : visit;
    op_begin(op, WAVE_LOAD, 0);
    op_work(op, 1, 1, 5);
    op->cache = (uint8_t)k->cache;
    op->work_units = 1;
    op_span(op, k->table + line * k->stride, 4);
    op_lanes(op, 1);
    state->trip++;
}

static struct wave_program *chase_program(struct kernel_build *build, struct chase parameters)
{
    double bytes = (double)parameters.lines * (double)parameters.stride;
    struct wave_program *program = kernel_program_create("pointer chase", sizeof(struct chase), chase_next);
    struct chase *k = program->context;
    *k = parameters;
    k->table = kernel_program_tensor(program, "table", bytes);
    program->registers_per_lane = 24; /* sm_90: 24 registers */
    program->work_units_total = k->steps;
    program->trips_per_wave = k->steps;
    program->l2_footprint_bytes = bytes;
    build->plan->value_only = true;
    kernel_value_time(build, (double)k->steps, build->machine->core_mhz, "cycles");
    return program;
}

static void chase_build(struct kernel_build *build, enum wave_cache cache, uint64_t steps_small, uint64_t steps_large)
{
    double kib = kernel_param_real(build, "kb", 0.25, 1e9);
    kernel_require_hbm(build, kib * 1024, "the table");
    if (!kernel_params_done(build)) {
        return;
    }
    struct chase k = { .lines = (uint64_t)(kib * 1024 / CHASE_LINE), .stride = CHASE_LINE, .repeat = 1,
                       .cache = cache, .random = true };
    k.steps = kib < 100000 ? steps_small : steps_large;
    struct wave_program *program = chase_program(build, k);
    if (cache == WAVE_CACHE_L2) {
        /* All units read (small tables), or the host wrote (large ones), the whole table just before. */
        program->initial_cache = WAVE_CACHE_STATE_PREDECESSOR;
        program->predecessor_bytes = k.lines * CHASE_LINE;
        program->predecessor = (struct wave_span){ kernel_tensor_address(0), (uint32_t)program->predecessor_bytes };
    }
    kernel_plan_add(build, program, 1);
}

/* 64 loads before the clock starts, then 4096 (16384 from 100 MB on). */
static void chase_l2_build(struct kernel_build *build)
{
    chase_build(build, WAVE_CACHE_L2, 64 + 4096, 64 + 16384);
}

static void chase_l1_build(struct kernel_build *build)
{
    chase_build(build, WAVE_CACHE_L1, 512 + 4096, 512 + 16384);
}

/* The mean over 64 lines, 4 KiB apart, as one unit sees them; each line is read 74 times in a dependent chain. The
 * model draws no distinction between units, so `sm` only has to exist. */
static void per_sm_build(struct kernel_build *build)
{
    kernel_param_integer_or(build, "sm", 0, build->machine->units - 1, 0, NULL);
    if (!kernel_params_done(build)) {
        return;
    }
    struct chase k = { .lines = 64, .steps = 64 * 74, .stride = 4096, .repeat = 74, .cache = WAVE_CACHE_L2 };
    kernel_plan_add(build, chase_program(build, k), 1);
}

const struct kernel_definition latency_kernels[] = {
    { "latency", "chase_l2bypassl1", "dependent loads in random order, L1 bypassed; cycles per load",
      "kb (KiB of table)", chase_l2_build },
    { "latency", "chase_l1", "dependent loads in random order through L1; cycles per load", "kb (KiB of table)",
      chase_l1_build },
    { "latency", "per_sm", "mean L2 latency of 64 lines from one unit; cycles per load", "sm (0)", per_sm_build },
    { .suite = NULL },
};
