#include "sim/core/units.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <signal.h>

/* Wire time is ceil(bytes / rate), rounded once: 64 B at 900 GB/s is 71.1 ps, so 72. */
struct wire_case {
    char name[24];
    uint64_t bytes, mb_per_s, expect_ps;
};

ParameterizedTestParameters(units, wire_time)
{
    static struct wire_case cases[] = {
        { "nothing", 0, 900000, 0 },
        { "one line", 64, 900000, 72 },
        { "exact", 900, 900000, 1000 },
        { "1 TB at 1 MB/s", 1000000000000u, 1, 1000000000000000000u },
    };
    return cr_make_param_array(struct wire_case, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct wire_case *c, units, wire_time)
{
    cr_expect(eq(u64, wire_time(c->bytes, c->mb_per_s).ps, c->expect_ps), "case: %s", c->name);
}

Test(units, zero_rate_is_a_bug, .signal = SIGABRT)
{
    wire_time(64, 0);
}

Test(units, a_cycle_starts_from_its_index_and_does_not_drift)
{
    /* 1700 MHz: 588.235... ps. A million rounded periods of 588 would be 235 ns early. */
    cr_expect(eq(u64, clock_cycle_start((sim_cycles){ 1 }, 1700).ps, 588));
    cr_expect(eq(u64, clock_cycle_start((sim_cycles){ 1700000 }, 1700).ps, 1000000000));
    cr_expect(eq(u64, clock_cycle_start((sim_cycles){ 17000000000000u }, 1700).ps, 10000000000000000u));
}

Test(units, an_arrival_inside_a_cycle_is_seen_at_the_next_edge)
{
    cr_expect(eq(u64, clock_cycle_at_ceil((sim_time){ 0 }, 1700).n, 0));
    cr_expect(eq(u64, clock_cycle_at_ceil((sim_time){ 588 }, 1700).n, 1));
    cr_expect(eq(u64, clock_cycle_at_ceil((sim_time){ 589 }, 1700).n, 2));
}

Test(units, microseconds_round_to_the_nearest_picosecond)
{
    cr_expect(eq(u64, time_of_us(0.0000014).ps, 1));
    cr_expect(eq(u64, time_of_us(0.0000015).ps, 2));
    cr_expect(eq(dbl, time_to_us((sim_time){ 1500000 }), 1.5));
}

Test(units, a_negative_duration_is_a_bug, .signal = SIGABRT)
{
    time_since((sim_time){ 1 }, (sim_time){ 2 });
}

Test(units, a_sum_that_wraps_is_a_bug, .signal = SIGABRT)
{
    time_add((sim_time){ UINT64_MAX }, (sim_time){ 1 });
}
