#include "sim/chiplet/power.h"
#include <math.h>
#include <string.h>

/* ---- activity and energy */

#define SAMPLE_WORKGROUPS 5
#define SAMPLE_TRIPS 64   /* loop trips of a wave that are looked at */
#define SAMPLE_OPS 4000   /* operations of a wave that are looked at */

struct sample {
    double instructions; /* of waves */
    double matrix_flops[WAVE_DTYPES];
    double units;
};

static void sample_wave(const struct wave_program *program, uint64_t workgroup, uint32_t wave, struct sample *sample)
{
    struct wave_window window = { .trip_limit = program->trips_per_wave > 0 ? SAMPLE_TRIPS : UINT64_MAX };
    struct wave_state state = { .workgroup = workgroup, .wave = wave };
    struct wave_op op;
    for (uint32_t i = 0; i < SAMPLE_OPS; i++) {
        memset(&op, 0, offsetof(struct wave_op, spans));
        program->next(program, &window, &state, &op);
        if (op.kind == WAVE_END) {
            return;
        }
        sample->instructions += op.issue_slots + op.valu_slots + op.sfu_slots;
        sample->matrix_flops[op.matrix_dtype] += (double)op.matrix_flops;
        sample->units += op.work_units;
    }
}

struct power_activity power_activity_of(const struct wave_program *program, const struct kernel_result *result,
                                        uint32_t lanes)
{
    struct sample sample = { 0 };
    uint64_t count = program->workgroups < SAMPLE_WORKGROUPS ? program->workgroups : SAMPLE_WORKGROUPS;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t workgroup = (uint64_t)((double)program->workgroups * ((double)i + 0.5) / (double)count);
        for (uint32_t w = 0; w < program->waves_per_workgroup; w++) {
            sample_wave(program, workgroup, w, &sample);
        }
    }
    /* per unit of work; per workgroup where the sample completes none */
    double scale = sample.units > 0 ? (double)program->work_units_total / sample.units
                                    : (double)program->workgroups / (double)count;
    struct power_activity activity = { .lane_instructions = sample.instructions * lanes * scale,
                                       .l2_bytes = result->bytes[KERNEL_LEVEL_L2],
                                       .hbm_bytes = result->bytes[KERNEL_LEVEL_HBM] };
    double arithmetic = program->matrix_arithmetic > 0 ? program->matrix_arithmetic : 1;
    for (int d = 0; d < WAVE_DTYPES; d++) {
        activity.matrix_flops[d] = sample.matrix_flops[d] * scale * arithmetic;
    }
    return activity;
}

struct power_energy power_energy_of(const struct chip_profile *chip, const struct power_activity *activity)
{
    const double flop_pj[WAVE_DTYPES] = {
        [WAVE_FP64] = chip->power_matrix_fp64, [WAVE_FP32] = chip->power_matrix_fp32, [WAVE_TF32] = chip->power_matrix_tf32,
        [WAVE_BF16] = chip->power_matrix_bf16, [WAVE_FP16] = chip->power_matrix_bf16, [WAVE_FP8] = chip->power_matrix_fp8,
        [WAVE_INT8] = chip->power_matrix_fp8,
    };
    double core_pj = activity->lane_instructions * chip->power_instruction + activity->l2_bytes * chip->power_l2_byte;
    for (int d = 0; d < WAVE_DTYPES; d++) {
        core_pj += activity->matrix_flops[d] * flop_pj[d];
    }
    return (struct power_energy){ .core_uj = core_pj * 1e-6,
                                  .memory_uj = activity->hbm_bytes * chip->power_hbm_byte * 1e-6 };
}

double power_core_scale(const struct chip_profile *chip, double mhz)
{
    double clock = fmax(mhz, chip->power_voltage_floor);
    return pow(clock / chip->clock_core_max, chip->power_voltage_exponent);
}

/* ---- a load at a clock */

double power_load_us(const struct power_load *load, const struct chip_profile *chip, double mhz)
{
    return load->us * pow(chip->clock_core_max / mhz, load->exponent);
}

double power_load_watts(const struct power_load *load, const struct chip_profile *chip, double mhz)
{
    double pace = pow(mhz / chip->clock_core_max, load->exponent);
    return chip->power_idle + pace * (load->memory_watts + load->core_watts * power_core_scale(chip, mhz));
}

double power_clock_for(const struct power_load *load, const struct chip_profile *chip, double watts)
{
    double high = chip->clock_core_max, low = high * POWER_CLOCK_LEAST;
    if (power_load_watts(load, chip, high) <= watts) {
        return high;
    }
    while (high - low > 0.5) { /* power rises with the clock */
        double middle = (low + high) / 2;
        *(power_load_watts(load, chip, middle) <= watts ? &low : &high) = middle;
    }
    return low;
}

/* ---- the governor */

struct limit {
    double window_us, watts;
};

static void limits_of(const struct chip_profile *chip, struct limit limits[POWER_WINDOWS])
{
    limits[0] = (struct limit){ chip->power_limit_window * 1e3, chip->power_board_limit };
    limits[1] = (struct limit){ chip->power_excursion_window * 1e3, chip->power_board_limit * chip->power_excursion };
}

void power_governor_init(struct power_governor *governor, const struct chip_profile *chip, bool excursion)
{
    *governor = (struct power_governor){ .chip = chip, .excursion = excursion, .mhz = chip->clock_core_max };
    for (int w = 0; w < POWER_WINDOWS; w++) {
        governor->average_watts[w] = chip->power_idle;
    }
}

/* Share of an average that `us` of new power replace. */
static double renewed(double us, double window_us)
{
    return -expm1(-us / (window_us / 2));
}

static void average_update(struct power_governor *governor, double watts, double us)
{
    struct limit limits[POWER_WINDOWS];
    limits_of(governor->chip, limits);
    for (int w = 0; w < POWER_WINDOWS; w++) {
        governor->average_watts[w] += (watts - governor->average_watts[w]) * renewed(us, limits[w].window_us);
    }
}

/* What the windows leave for the next `us`. */
static double allowed_watts(const struct power_governor *governor, double us)
{
    struct limit limits[POWER_WINDOWS];
    double allowed = INFINITY;
    if (!governor->excursion) {
        return governor->chip->power_board_limit;
    }
    limits_of(governor->chip, limits);
    for (int w = 0; w < POWER_WINDOWS; w++) {
        double room = (limits[w].watts - governor->average_watts[w]) / renewed(us, limits[w].window_us);
        allowed = fmin(allowed, governor->average_watts[w] + room);
    }
    return allowed;
}

static void choose_clock(struct power_governor *governor, double next_us)
{
    double us = governor->seen_us;
    struct power_load seen = { .us = us,
                               .core_watts = us > 0 ? governor->seen_core_uj / us : 0,
                               .memory_watts = us > 0 ? governor->seen_memory_uj / us : 0,
                               .exponent = us > 0 ? governor->seen_exponent_us / us : 0 };
    governor->mhz = power_clock_for(&seen, governor->chip, allowed_watts(governor, next_us));
    governor->since_us = governor->seen_us = governor->seen_core_uj = 0;
    governor->seen_memory_uj = governor->seen_exponent_us = 0;
}

struct power_run power_governor_run(struct power_governor *governor, const struct power_load *load)
{
    const struct chip_profile *chip = governor->chip;
    double period = chip->power_response * 1e3, left = 1;
    struct power_run run = { 0 };
    if (!governor->excursion) { /* it knows the load at once */
        governor->mhz = power_clock_for(load, chip, chip->power_board_limit);
        return (struct power_run){ power_load_us(load, chip, governor->mhz), governor->mhz,
                                   power_load_watts(load, chip, governor->mhz) };
    }
    while (left > 1e-12 && load->us > 0) {
        double whole = power_load_us(load, chip, governor->mhz);
        double watts = power_load_watts(load, chip, governor->mhz);
        double us = fmin(whole * left, fmax(period - governor->since_us, 0));
        double share = whole * left <= us ? left : us / whole;
        average_update(governor, watts, us);
        governor->since_us += us;
        governor->seen_us += share * load->us;
        governor->seen_core_uj += share * load->us * load->core_watts;
        governor->seen_memory_uj += share * load->us * load->memory_watts;
        governor->seen_exponent_us += share * load->us * load->exponent;
        run.us += us;
        run.mhz += us * governor->mhz;
        run.watts += us * watts;
        left -= share;
        if (governor->since_us >= period * (1 - 1e-9)) {
            choose_clock(governor, period);
        }
    }
    run.mhz = run.us > 0 ? run.mhz / run.us : governor->mhz;
    run.watts = run.us > 0 ? run.watts / run.us : chip->power_idle;
    return run;
}

/* Repetitions until three of the longest window have passed, then as many again for the means: bursts and control periods
 * beat against each other. */
unsigned power_governor_settle(struct power_governor *governor, const struct power_load *loads, size_t count,
                               struct power_run *runs)
{
    const struct chip_profile *chip = governor->chip;
    double period_us = 0, mean = 0, settle_us = 0;
    for (size_t i = 0; i < count; i++) {
        period_us += loads[i].us;
        mean += loads[i].us * power_load_watts(&loads[i], chip, chip->clock_core_max);
        runs[i] = (struct power_run){ 0 };
    }
    if (period_us <= 0) {
        return 0;
    }
    mean = fmin(mean / period_us, chip->power_board_limit);
    for (int w = 0; w < POWER_WINDOWS; w++) { /* near the end state, which spares most of the run */
        governor->average_watts[w] = mean;
    }
    settle_us = 3 * fmax(fmax(chip->power_limit_window, chip->power_excursion_window), chip->power_response) * 1e3;
    unsigned repetitions = (unsigned)fmin(fmax(ceil(settle_us / period_us), 3), 20000);
    for (unsigned r = 0; r < 2 * repetitions; r++) {
        for (size_t i = 0; i < count; i++) {
            struct power_run run = power_governor_run(governor, &loads[i]);
            double weight = r < repetitions ? 0 : 1.0 / repetitions;
            runs[i].us += weight * run.us;
            runs[i].mhz += weight * run.mhz;
            runs[i].watts += weight * run.watts;
        }
    }
    return 2 * repetitions;
}
