/* latency: chains of dependent loads by one lane. The table gives cycles per load, no time. */
#include "workloads/kernels/kernels_internal.h"

#define CHASE_LINE 128 /* the measuring program's stride, one line a step */

struct chase {
    uint64_t lines;       /* visited in a random cycle */
    uint64_t touched;     /* visits before the clock starts, loaded many at a time (their own time is not measured) */
    uint64_t first;       /* visit that the timed chain starts with */
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

static uint64_t chase_line(const struct chase *k, uint64_t visit)
{
    uint64_t at = visit / k->repeat % k->lines;
    return k->table + (k->random ? permute(at, k->lines) : at) * k->stride;
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
    if (state->r[0] < k->touched) {
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 1, 1, 0);
        op->cache = (uint8_t)k->cache;
        for (uint32_t i = 0; i < 64 && state->r[0] < k->touched; i++) {
            op_span_apart(op, chase_line(k, state->r[0]++), 4);
        }
        op_lanes(op, 1);
        return;
    }
    if (state->trip >= k->steps || state->trip >= window->trip_limit) {
        op_end(op);
        return;
    }
    op_begin(op, WAVE_LOAD, 0);
    op_work(op, 1, 1, 5);
    op->cache = (uint8_t)k->cache;
    op->work_units = 1;
    op_span(op, chase_line(k, k->first + state->trip++), 4);
    op_lanes(op, 1);
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

/* Steps of the timed chain: 4096, 16384 from 100 MB on. */
static struct chase chase_read(struct kernel_build *build, enum wave_cache cache)
{
    double kib = kernel_param_real(build, "kb", 0.25, 1e9);
    kernel_require_hbm(build, kib * 1024, "the table");
    return (struct chase){ .lines = (uint64_t)(kib * 1024 / CHASE_LINE), .steps = kib < 100000 ? 4096 : 16384,
                           .stride = CHASE_LINE, .repeat = 1, .cache = cache, .random = true };
}

/* All units read the whole table just before (the host wrote it where it is larger). Then three chains start a third of
 * the table apart, each with 64 loads ahead of its 4096 timed ones; the table gives the median, which is the second: it
 * meets again what the first has touched, if the table is small enough. */
static void chase_l2_build(struct kernel_build *build)
{
    struct chase k = chase_read(build, WAVE_CACHE_L2);
    if (!kernel_params_done(build)) {
        return;
    }
    uint64_t run = 64 + k.steps;
    k.touched = k.lines / 3 < run ? run : 64;
    k.first = k.touched > 64 ? k.lines / 3 + 64 : 64;
    struct wave_program *program = chase_program(build, k);
    program->initial_cache = WAVE_CACHE_STATE_PREDECESSOR;
    program->predecessor_bytes = k.lines * CHASE_LINE;
    program->predecessor = (struct wave_span){ kernel_tensor_address(0), (uint32_t)program->predecessor_bytes };
    kernel_plan_add(build, program, 1);
}

/* One chain after 512 loads. */
static void chase_l1_build(struct kernel_build *build)
{
    struct chase k = chase_read(build, WAVE_CACHE_L1);
    if (!kernel_params_done(build)) {
        return;
    }
    k.touched = k.first = 512;
    kernel_plan_add(build, chase_program(build, k), 1);
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
