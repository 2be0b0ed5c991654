/* Board power: energies by arithmetic on round profile values, laws of the governor, and the measured bursts of
 * calib/data/h200/power.csv from the H200's profile, with the product's own figures given (no GEMM model takes part). */
#include "sim/chiplet/power.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NEAR(actual, expected) cr_expect(epsilon_eq(dbl, actual, expected, 1e-6))

static struct chip_profile round_chip(void)
{
    return (struct chip_profile){
        .clock_core_max = 2000, .power_board_limit = 500, .power_limit_window = 40, .power_excursion = 1.5,
        .power_excursion_window = 4, .power_response = 0.1, .power_idle = 100, .power_voltage_exponent = 1,
        .power_voltage_floor = 500, .power_matrix_bf16 = 1, .power_matrix_fp8 = 0.5, .power_matrix_tf32 = 2,
        .power_matrix_fp32 = 4, .power_matrix_fp64 = 8, .power_instruction = 10, .power_l2_byte = 5, .power_hbm_byte = 50,
    };
}

/* 1e6 FLOP bf16 x 1 pJ + 1e6 tf32 x 2 + 1e5 lane instructions x 10 + 2e5 B x 5 = 5 uJ; 1e5 B x 50 = 5 uJ. */
Test(power, energy_is_activity_times_cost)
{
    struct chip_profile chip = round_chip();
    struct power_activity activity = { .lane_instructions = 1e5, .l2_bytes = 2e5, .hbm_bytes = 1e5 };
    activity.matrix_flops[WAVE_BF16] = activity.matrix_flops[WAVE_TF32] = 1e6;
    struct power_energy energy = power_energy_of(&chip, &activity);
    NEAR(energy.core_uj, 5);
    NEAR(energy.memory_uj, 5);
}

/* Three waves a workgroup; each does 4 trips of 2 instructions and 100 bf16 FLOP, a trip a unit of work. */
static void next_trip(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                      struct wave_op *op)
{
    (void)program;
    op->kind = state->trip < 4 && state->trip < window->trip_limit ? WAVE_COMPUTE : WAVE_END;
    op->issue_slots = op->valu_slots = 1;
    op->matrix_flops = 100;
    op->matrix_dtype = WAVE_BF16;
    op->work_units = 1;
    state->trip++;
}

/* 7 workgroups x 3 waves x 4 trips = 84: 84 x 2 x 32 lanes, 84 x 100 FLOP. */
Test(power, activity_covers_the_whole_grid)
{
    struct wave_program program = {
        .name = "trips", .workgroups = 7, .waves_per_workgroup = 3, .work_units_total = 84, .trips_per_wave = 4, .next = next_trip
    };
    struct kernel_result result = { 0 };
    result.bytes[KERNEL_LEVEL_L2] = 12;
    result.bytes[KERNEL_LEVEL_HBM] = 34;
    struct power_activity activity = power_activity_of(&program, &result, 32);
    NEAR(activity.lane_instructions, 84 * 2 * 32);
    NEAR(activity.matrix_flops[WAVE_BF16], 8400);
    NEAR(activity.l2_bytes, 12);
    NEAR(activity.hbm_bytes, 34);
}

/* At half the clock and exponent 1 a load takes twice as long, and its core operations cost half: 100 + (40 + 200/2)/2. */
Test(power, a_load_at_half_the_clock)
{
    struct chip_profile chip = round_chip();
    struct power_load load = { .us = 10, .core_watts = 200, .memory_watts = 40, .exponent = 1 };
    NEAR(power_load_us(&load, &chip, 1000), 20);
    NEAR(power_load_watts(&load, &chip, 2000), 340);
    NEAR(power_load_watts(&load, &chip, 1000), 170);
    NEAR(power_core_scale(&chip, 100), 0.25); /* no lower than at the floor, 500 of 2000 MHz */
}

/* 100 + 1600 (f / 2000)^2 = 500 at half the clock. */
Test(power, clock_for_a_limit)
{
    struct chip_profile chip = round_chip();
    struct power_load load = { .us = 10, .core_watts = 1600, .exponent = 1 };
    cr_expect(epsilon_eq(dbl, power_clock_for(&load, &chip, 500), 1000, 0.6));
    cr_expect(eq(dbl, power_clock_for(&load, &chip, 1700), 2000));
}

/* A board at rest draws 100 W; at 900 W its 40 ms average (20 ms constant) reaches 500 after 20 ln(800/400) = 13.9 ms and the
 * 4 ms average (2 ms) 750 after 2 ln(800/150) = 3.3 ms, so the excursion window binds first. */
Test(power, windows_throttle_a_burst_when_they_are_full)
{
    struct chip_profile chip = round_chip();
    struct power_load load = { .us = 3200, .core_watts = 800, .exponent = 1 };
    struct power_governor governor;
    power_governor_init(&governor, &chip, true);
    struct power_run run = power_governor_run(&governor, &load);
    NEAR(run.us, 3200);
    NEAR(run.mhz, 2000);
    load.us = 1000;
    cr_expect(gt(dbl, power_governor_run(&governor, &load).us, 1050));
    chip.power_excursion = 10;
    power_governor_init(&governor, &chip, true);
    load.us = 13000;
    NEAR(power_governor_run(&governor, &load).us, 13000);
    load.us = 3000;
    cr_expect(gt(dbl, power_governor_run(&governor, &load).us, 3100));
}

/* Without excursion a load never draws more than the limit, from the first microsecond. */
Test(power, no_excursion_means_the_limit_always)
{
    struct chip_profile chip = round_chip();
    struct power_load load = { .us = 100, .core_watts = 1600, .exponent = 1 };
    struct power_governor governor;
    power_governor_init(&governor, &chip, false);
    struct power_run run = power_governor_run(&governor, &load);
    cr_expect(epsilon_eq(dbl, run.mhz, 1000, 0.6));
    cr_expect(epsilon_eq(dbl, run.us, 200, 0.2));
}

/* No window's average ends above its limit by more than one control period can add, and more duty is never faster. */
Test(power, average_holds_the_limit_and_duty_costs)
{
    struct chip_profile chip = round_chip();
    double before = 0;
    for (int duty = 1; duty <= 10; duty++) {
        struct power_load loads[2] = { { .us = 500.0 * duty, .core_watts = 900, .exponent = 0.6 }, { .us = 500.0 * (10 - duty) } };
        struct power_run runs[2];
        struct power_governor governor;
        power_governor_init(&governor, &chip, true);
        power_governor_settle(&governor, loads, 2, runs);
        double all_us = runs[0].us + runs[1].us;
        double watts = (runs[0].watts * runs[0].us + runs[1].watts * runs[1].us) / all_us;
        cr_expect(le(dbl, watts, 500 * 1.01), "duty %d: %g W", duty, watts);
        cr_expect(ge(dbl, runs[0].us / duty, before * (1 - 1e-3)), "duty %d", duty);
        before = runs[0].us / duty;
    }
    cr_expect(gt(dbl, before, 550));
}

/* The bursts that throttle, of power.csv: bf16 8192^3 lasts 1389 us at 1980 MHz (791 TFLOP/s) and 1656 at 1460, so exponent
 * 0.57; 790 TFLOP/s x matrix_bf16, and L2 and HBM as gemm/mm has them: 12.9 GB and 1.1 GB a product. */
Test(power, h200_bursts_within_3_percent)
{
    static const struct {
        double duty;
        int burst;
        bool copies;
        double us;
    } rows[] = {
        { 1, 1, false, 1641.7 },     { 1, 8, false, 1655.5 },     { 1, 64, false, 1656.2 },   { 0.75, 1, false, 1430.3 },
        { 0.75, 8, false, 1452.7 },  { 0.75, 64, false, 1533.9 }, { 0.5, 1, false, 1399.8 },  { 0.5, 8, false, 1397.5 },
        { 0.5, 64, false, 1509.2 },  { 0.25, 8, false, 1389.7 },  { 0.25, 64, false, 1500.8 }, { 0.1, 8, false, 1389.1 },
        { 0.1, 64, false, 1459.2 },  { 0.75, 1, true, 1504.6 },   { 0.75, 8, true, 1562.3 },  { 0.75, 64, true, 1551.8 },
        { 0.25, 8, true, 1397.2 },   { 0.25, 64, true, 1513.7 },
    };
    struct chip_profile chip = { 0 };
    struct sim_error error;
    cr_assert(eq(int, chip_profile_read(SOURCE_DIR "/devices/h200.json", &chip, &error), SIM_OK), "%s", error.text);
    struct power_activity product = { .l2_bytes = 12.9e9, .hbm_bytes = 1.1e9 };
    product.matrix_flops[WAVE_BF16] = 2 * pow(8192, 3);
    struct power_energy energy = power_energy_of(&chip, &product);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double us = 1389.0 * rows[i].burst, gap = us * (1 - rows[i].duty) / rows[i].duty;
        struct power_load loads[2] = {
            { .us = us, .core_watts = energy.core_uj / 1389, .memory_watts = energy.memory_uj / 1389, .exponent = 0.57 },
            { .us = rows[i].copies ? 530 * fmax(1, floor(gap / 530)) : gap * 1700 / 1980, .memory_watts = rows[i].copies ? 288 : 0 },
        };
        struct power_run runs[2];
        struct power_governor governor;
        power_governor_init(&governor, &chip, true);
        power_governor_settle(&governor, loads, 2, runs);
        double error_share = runs[0].us / rows[i].burst / rows[i].us - 1;
        cr_expect(lt(dbl, fabs(error_share), 0.03), "duty %g, bursts of %d%s: %+.1f%%", rows[i].duty, rows[i].burst,
                  rows[i].copies ? ", copies between" : "", error_share * 100);
    }
    chip_profile_finish(&chip);
}
