/* The atomic units beside the memory: published MI300X times (mgpusim's mi300x_ground_truth.csv, ROCm 7.1, MIT) by one set of
 * parameters, devices/mi300x.json. Every row within 30%, unless it says otherwise. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>

#include "tests/chiplet/tiny.h"

static struct chip_profile device(const char *path)
{
    struct chip_profile profile;
    struct sim_error error;
    cr_assert(eq(int, chip_profile_read(path, &profile, &error), SIM_OK), "%s", error.text);
    return profile;
}

/* ---- programs of the public measurements, at 64 lanes */

struct adds {
    uint64_t table;     /* 8-byte words; 1: all lanes on one */
    uint32_t trips;     /* operations of a thread */
    uint8_t flags;      /* enum wave_atomic_flags */
    bool one_lane;      /* the compiler merged the wave */
};

static uint64_t mixed(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return (z ^ z >> 27) * 0x94d049bb133111ebu;
}

static void adds_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state, struct wave_op *op)
{
    const struct adds *k = program->context;
    if (state->trip >= k->trips || state->trip >= window->trip_limit) {
        op->kind = WAVE_END;
        return;
    }
    uint64_t wave = state->workgroup * program->waves_per_workgroup + state->wave;
    op->kind = WAVE_ATOMIC;
    op->valu_slots = 4;
    op->atomic_type = WAVE_ATOMIC_INT;
    op->atomic_flags = k->flags;
    op->element_bytes = 8;
    op->lanes_active = 64;
    op->lane_count = k->one_lane ? 1 : 64;
    for (uint32_t lane = 0; lane < op->lane_count; lane++) {
        op->lane_address[lane] = 8 * (mixed((wave * 64 + lane) << 20 | state->trip) % k->table);
    }
    op->work_units = 1;
    state->trip++;
}

static struct wave_program adds_program(struct adds *k, uint64_t workgroups, uint32_t waves)
{
    struct tiny_pattern shape = { .trips = k->trips };
    struct wave_program program = tiny_program(&shape, workgroups, waves);
    program.next = adds_next;
    program.context = k;
    return program;
}

static double run_us(const struct chip_profile *profile, const struct wave_program *program)
{
    struct kernel_result result;
    struct sim_error error;
    struct chip_options options = { .core_mhz = profile->clock_core_max };
    cr_assert(eq(int, chip_run(profile, program, &options, &result, &error), SIM_OK), "%s", error.text);
    return result.duration_us;
}

static void expect_within(const char *what, double us, double published_us, double tolerance)
{
    cr_log_info("%-44s published %10.1f us, predicted %10.1f us, %+.0f%%", what, published_us, us, (us / published_us - 1) * 100);
    cr_expect(le(dbl, fabs(us / published_us - 1), tolerance), "%s: %.1f us, published %.1f us", what, us, published_us);
}

/* One address, so that the compiler merges each wave: 8192 waves x n requests. 9.47 ns each by the slope of the four rows. */
Test(atomics, mi300x_adds_of_merged_waves)
{
    struct chip_profile profile = device(SOURCE_DIR "/devices/mi300x.json");
    static const struct { uint32_t operations; double us; } rows[] = { { 4, 384 }, { 16, 1244 }, { 256, 19857 }, { 2048, 158816 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct adds k = { .table = 1, .trips = rows[i].operations, .flags = WAVE_ATOMIC_WAVE_MERGED, .one_lane = true };
        struct wave_program program = adds_program(&k, 2048, 4);
        expect_within("atomicAdd", run_us(&profile, &program), rows[i].us, 0.3);
    }
    chip_profile_finish(&profile);
}

/* A compare-and-swap cannot be merged: 64 requests where the addition has one, which is the published factor of 68. */
Test(atomics, mi300x_swaps_are_not_merged)
{
    struct chip_profile profile = device(SOURCE_DIR "/devices/mi300x.json");
    static const struct { uint32_t operations; double us; } rows[] = { { 4, 21110 }, { 1024, 5437000 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct adds k = { .table = 1, .trips = rows[i].operations, .flags = WAVE_ATOMIC_CAS_ONCE };
        struct wave_program program = adds_program(&k, 2048, 4);
        expect_within("atomicCAS", run_us(&profile, &program), rows[i].us, 0.3);
    }
    chip_profile_finish(&profile);
}

/* Lone words at random (whether the updates are atomic is not published; taken as such). The table was just filled. */
Test(atomics, mi300x_random_updates)
{
    struct chip_profile profile = device(SOURCE_DIR "/devices/mi300x.json");
    static const struct { uint32_t threads; uint64_t table; double us, tolerance; } rows[] = {
        { 16384, 65536, 72.8, 0.3 },
        { 16384, 1 << 20, 78.4, 0.3 },
        { 16384, 4 << 20, 118.5, 0.5 }, /* DEVIATIONS: -42% */
        { 16384, 16 << 20, 156.3, 0.6 }, /* DEVIATIONS: -56% */
        { 262144, 65536, 1062.9, 0.3 }
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct adds k = { .table = rows[i].table, .trips = 128 };
        struct wave_program program = adds_program(&k, rows[i].threads / 256, 4);
        program.initial_cache = WAVE_CACHE_STATE_OWN;
        expect_within("gups", run_us(&profile, &program), rows[i].us, rows[i].tolerance);
    }
    chip_profile_finish(&profile);
}
