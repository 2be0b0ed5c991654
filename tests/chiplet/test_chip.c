/* Laws of the chip model on tiny packages (tiny.h: one unit, one slice, one channel, 1 cycle = 1 ns). */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>

#include "tests/chiplet/tiny.h"

static double ns(double us) { return us * 1000; }

/* Ten dependent loads of one line that misses once: start 10 + first (200 + 300 latency, 4 transfer; activation does not
 * delay the first) + nine L2 hits of 200. Each step also issues nothing else. */
Test(chip, unloaded_latency_is_the_sum_of_the_path)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern chase = { .kind = WAVE_LOAD, .cache = WAVE_CACHE_L2, .bytes = 32, .trips = 10, .lanes = 1 };
    struct wave_program program = tiny_program(&chase, 1, 1);
    struct kernel_result result = tiny_run(&profile, &program);
    /* 32 B fetch one 64 B access: 2 ns on the bus */
    cr_assert(ieee_ulp_eq(dbl, ns(result.duration_us), 10 + (200 + 300 + 2) + 9 * 200, 1 << 20));
}

Test(chip, l1_hits_cost_their_latency_alone)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern chase = { .kind = WAVE_LOAD, .cache = WAVE_CACHE_L1, .bytes = 32, .trips = 11, .lanes = 1 };
    struct wave_program program = tiny_program(&chase, 1, 1);
    struct kernel_result result = tiny_run(&profile, &program);
    cr_assert(epsilon_eq(dbl, ns(result.duration_us), 10 + 502 + 10 * 30, 1e-6));
    cr_assert(epsilon_eq(dbl, result.l1_hit_rate, 10.0 / 11, 1e-12));
}

/* 32 waves stream whole lines out of L2: the slice gives a line in 2 ns, the fill path 128 B at 64 B a cycle: 2 ns. */
Test(chip, peak_rate_is_the_narrowest_stage)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern stream = { .kind = WAVE_LOAD, .cache = WAVE_CACHE_L2, .bytes = 128, .stride = 128, .wave_stride = 8192,
                                   .trips = 400, .footprint = 65536, .wait = 4, .lanes = 32 };
    struct wave_program program = tiny_program(&stream, 1, 32);
    program.initial_cache = WAVE_CACHE_STATE_OWN;
    struct kernel_result slice = tiny_run(&profile, &program);
    double lines = 32 * 400;
    cr_assert(epsilon_eq(dbl, ns(slice.duration_us), lines * 2, lines * 2 * 0.03));
    cr_assert(any(eq(int, slice.limiter, KERNEL_STAGE_L2), eq(int, slice.limiter, KERNEL_STAGE_L1)));
    /* twice as fast a slice leaves the fill path; half the fill path then doubles the time */
    profile.l2_read_line_time = 1;
    profile.l1_fill_rate = 32;
    struct kernel_result fill = tiny_run(&profile, &program);
    cr_assert(epsilon_eq(dbl, ns(fill.duration_us), lines * 4, lines * 4 * 0.03));
    cr_assert(eq(int, fill.limiter, KERNEL_STAGE_L1));
}

/* A stream beyond the cache: 128 B from one row cost 4 ns on the bus. */
Test(chip, hbm_stream_runs_at_the_bus_rate)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern stream = { .kind = WAVE_LOAD, .cache = WAVE_CACHE_L2, .bytes = 128, .stride = 32 * 128, .wave_stride = 128,
                                   .trips = 1000, .wait = 8, .lanes = 32 };
    struct wave_program program = tiny_program(&stream, 1, 32);
    struct kernel_result result = tiny_run(&profile, &program);
    double lines = 32 * 1000;
    cr_assert(epsilon_eq(dbl, ns(result.duration_us), lines * 4, lines * 4 * 0.05), "%g", ns(result.duration_us));
    cr_assert(eq(int, result.limiter, KERNEL_STAGE_HBM));
    cr_assert(epsilon_eq(dbl, result.hbm_read_bytes, lines * 128, 1));
    cr_assert(epsilon_eq(dbl, result.bytes[KERNEL_LEVEL_L2], lines * 128, 1));
}

/* What is written comes out again: all but the dirty share of the cache has left it. */
Test(chip, written_bytes_reach_memory)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern stream = { .kind = WAVE_STORE, .bytes = 128, .stride = 32 * 128, .wave_stride = 128, .trips = 1000, .lanes = 32 };
    struct wave_program program = tiny_program(&stream, 1, 32);
    struct kernel_result result = tiny_run(&profile, &program);
    double written = 32 * 1000 * 128.0;
    cr_assert(epsilon_eq(dbl, result.hbm_write_bytes, written - profile.l2_dirty_share * 1048576, 0.02 * written));
    cr_assert(epsilon_eq(dbl, result.hbm_read_bytes, 0, 0.5));
}

/* Dependent operations on one word: 1 ns (integer) or 3 ns (fp32) each once the pipe is full; 32 lanes on it: 32 rounds. */
Test(chip, same_address_atomics_serialise_at_their_interval)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern add = { .kind = WAVE_ATOMIC, .bytes = 4, .trips = 100, .lanes = 32, .wait = WAVE_NO_WAIT };
    struct wave_program program = tiny_program(&add, 1, 8);
    double lanes = 8 * 100 * 32;
    cr_assert(epsilon_eq(dbl, ns(tiny_run(&profile, &program).duration_us), lanes, lanes * 0.05));
    add.type = WAVE_ATOMIC_FP32;
    struct kernel_result fp32 = tiny_run(&profile, &program);
    cr_assert(epsilon_eq(dbl, ns(fp32.duration_us), 3 * lanes, 3 * lanes * 0.05));
    cr_assert(eq(int, fp32.limiter, KERNEL_STAGE_ATOMIC));
    cr_assert(epsilon_eq(dbl, fp32.atomic_count, lanes, 0.5));
    cr_assert(eq(str, (char *)fp32.atomic_executed_at, "l2"));
    add.flags = WAVE_ATOMIC_WAVE_MERGED; /* one lane issues for all */
    double merged = 8 * 100;
    cr_assert(epsilon_eq(dbl, ns(tiny_run(&profile, &program).duration_us), 3 * merged, 3 * merged * 0.3));
}

/* A returning chain: each waits for the one before: L2 latency 200 + return 100 (+ 502 - 200 for the first miss). */
Test(chip, returning_atomics_chain)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern add = { .kind = WAVE_ATOMIC, .bytes = 4, .trips = 20, .lanes = 1, .flags = WAVE_ATOMIC_RETURN };
    struct wave_program program = tiny_program(&add, 1, 1);
    double expected = 10 + 302 + 20 * (200 + 100 + 1);
    cr_assert(epsilon_eq(dbl, ns(tiny_run(&profile, &program).duration_us), expected, 0.02 * expected));
}

/* Empty workgroups: one every dispatch.interval. */
Test(chip, dispatcher_bounds_empty_workgroups)
{
    struct chip_profile profile = tiny_profile();
    profile.package_units_per_group = 64;
    profile.dispatch_interval = 7;
    struct tiny_pattern nothing = { .kind = WAVE_COMPUTE, .trips = 1, .valu = 1 };
    struct wave_program program = tiny_program(&nothing, 20000, 1);
    struct kernel_result result = tiny_run(&profile, &program);
    cr_assert(epsilon_eq(dbl, ns(result.duration_us), 20000 * 7.0, 20000 * 7 * 0.02));
    cr_assert(eq(int, result.limiter, KERNEL_STAGE_DISPATCH));
}

/* Two workgroups of two waves on each of four units of four SIMDs: a wave a SIMD, each of 100 trips of 50 cycles. On two of the SIMDs they
 * would take twice as long. */
Test(chip, small_workgroups_share_the_simds)
{
    struct chip_profile profile = tiny_profile();
    profile.package_units_per_group = 4;
    profile.unit_simds = 4;
    struct tiny_pattern sums = { .kind = WAVE_COMPUTE, .trips = 100, .valu = 50 };
    struct wave_program program = tiny_program(&sums, 8, 2);
    double expected = 10 + 100 * 50;
    cr_assert(epsilon_eq(dbl, ns(tiny_run(&profile, &program).duration_us), expected, 0.02 * expected));
}

/* Matrix work: 4096 FLOP a cycle and unit. */
Test(chip, matrix_rate_is_the_profiles)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern mma = { .kind = WAVE_COMPUTE, .trips = 500, .flops = 65536 };
    struct wave_program program = tiny_program(&mma, 1, 4);
    double cycles = 4 * 500 * 65536 / profile.matrix_bf16;
    struct kernel_result result = tiny_run(&profile, &program);
    cr_assert(epsilon_eq(dbl, ns(result.duration_us), cycles, cycles * 0.03));
    cr_assert(eq(int, result.limiter, KERNEL_STAGE_MATRIX));
}

/* More of anything never slower: each resource doubled in turn on a mixed stream. 0.5% is left for the order of
 * evictions, which shifts with every change of timing. */
struct more_case { char key[32]; double factor; };
ParameterizedTestParameters(chip, more_is_never_slower)
{
    static struct more_case cases[] = { { "l2.capacity", 2 }, { "hbm.channel_rate", 2 }, { "l1.fill_rate", 2 }, { "l1.mshr", 2 },
                                        { "l2.read_line_time", 0.5 }, { "hbm.activate_interval", 0.5 }, { "l2.hit_latency", 0.5 },
                                        { "l1.store_rate", 2 }, { "dispatch.interval", 0.5 }, { "atomic.int_interval", 0.5 } };
    return cr_make_param_array(struct more_case, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct more_case *c, chip, more_is_never_slower)
{
    static const enum wave_op_kind kinds[] = { WAVE_LOAD, WAVE_STORE, WAVE_ATOMIC };
    for (int k = 0; k < 3; k++) {
        struct chip_profile profile = tiny_profile();
        profile.package_units_per_group = 4;
        struct tiny_pattern mixed = { .kind = kinds[k], .cache = WAVE_CACHE_L2, .bytes = 64, .stride = 8192 + 128, .wave_stride = 128 * 77,
                                      .trips = 200, .footprint = 1 << 21, .wait = 2, .lanes = 16 };
        struct wave_program program = tiny_program(&mixed, 16, 4);
        double before = tiny_run(&profile, &program).duration_us;
        *chip_profile_number(&profile, c->key, NULL) *= c->factor;
        double after = tiny_run(&profile, &program).duration_us;
        cr_expect(after <= before * 1.005, "%s x %g, kind %d: %g -> %g us", c->key, c->factor, k, before, after);
    }
}

Test(chip, same_input_same_bytes)
{
    struct chip_profile profile = tiny_profile();
    profile.package_units_per_group = 8;
    struct tiny_pattern mixed = { .kind = WAVE_LOAD, .bytes = 96, .stride = 4160, .wave_stride = 999 * 32, .trips = 50, .wait = 1, .lanes = 24 };
    struct wave_program program = tiny_program(&mixed, 40, 4);
    struct kernel_result a = tiny_run(&profile, &program);
    struct kernel_result b = tiny_run(&profile, &program);
    cr_assert(eq(dbl, a.duration_us, b.duration_us));
    cr_assert(memcmp(a.stack, b.stack, sizeof a.stack) == 0);
    cr_assert(memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0);
}

Test(chip, stack_sums_to_one)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern stream = { .kind = WAVE_LOAD, .bytes = 128, .stride = 128, .wave_stride = 1 << 16, .trips = 100, .wait = 1, .lanes = 32 };
    struct wave_program program = tiny_program(&stream, 4, 4);
    struct kernel_result result = tiny_run(&profile, &program);
    double sum = 0;
    for (int s = 0; s < KERNEL_STAGES; s++) {
        cr_assert(ge(dbl, result.stack[s], 0));
        sum += result.stack[s];
    }
    cr_assert(epsilon_eq(dbl, sum, 1, 1e-12));
}

/* A sample of the grid against all of it. */
Test(chip, sampled_stays_near_exact)
{
    struct chip_profile profile = tiny_profile();
    profile.package_units_per_group = 4;
    struct tiny_pattern stream = { .kind = WAVE_LOAD, .bytes = 128, .stride = 128, .wave_stride = 128 * 64, .trips = 64, .wait = 1, .lanes = 32 };
    struct wave_program program = tiny_program(&stream, 4000, 2);
    double exact = tiny_run(&profile, &program).duration_us;
    struct kernel_result sampled;
    struct sim_error error;
    struct chip_options options = { .window_requests = 60000 };
    cr_assert(eq(int, chip_run(&profile, &program, &options, &sampled, &error), SIM_OK));
    cr_assert(lt(dbl, sampled.sampled_fraction, 0.2));
    cr_assert(epsilon_eq(dbl, sampled.duration_us, exact, 0.02 * exact), "%g against %g", sampled.duration_us, exact);
}

/* ---- what does not fit */
struct misfit { char name[24]; uint32_t waves, registers, lds; char says[24]; };
ParameterizedTestParameters(chip, what_does_not_fit_says_so)
{
    static struct misfit cases[] = { { "waves", 65, 32, 0, "waves" }, { "registers", 8, 300, 0, "registers" },
                                     { "registers of all waves", 32, 128, 0, "registers" }, { "lds", 8, 32, 1 << 20, "LDS" } };
    return cr_make_param_array(struct misfit, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct misfit *c, chip, what_does_not_fit_says_so)
{
    struct chip_profile profile = tiny_profile();
    struct tiny_pattern nothing = { .kind = WAVE_COMPUTE, .trips = 1, .valu = 1 };
    struct wave_program program = tiny_program(&nothing, 1, c->waves);
    program.registers_per_lane = c->registers;
    program.lds_bytes = c->lds;
    struct kernel_result result;
    struct sim_error error;
    struct chip_options options = { 0 };
    cr_assert(eq(int, chip_run(&profile, &program, &options, &result, &error), SIM_DOES_NOT_FIT));
    cr_assert(strstr(error.text, c->says) != NULL, "%s", error.text);
}
