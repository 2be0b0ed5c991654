/* The selector against the event-driven model: the tile it chooses is near the best of its candidates there, and its time
 * near that tile's. Tiles are compared on clean caches, at the highest clock. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include "sim/chiplet/chip.h"
#include "workloads/kernels/gemm_internal.h"

#define CANDIDATES 4

struct shape {
    uint64_t m, n, k;
    enum gemm_dtype dtype;
};
static const struct shape shapes[] = {
    { 4096, 3456, 512, GEMM_BF16 },  { 2048, 2048, 2048, GEMM_BF16 }, { 1024, 1024, 1024, GEMM_BF16 },
    { 12288, 192, 2048, GEMM_BF16 }, { 16, 4096, 4096, GEMM_BF16 },   { 4096, 3456, 512, GEMM_TF32 },
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static double simulated_us(const struct chip_profile *chip, const struct gemm_machine *machine,
                           const struct gemm_problem *problem, const struct gemm_tile *tile)
{
    struct gemm_launch launch = { .problem = *problem, .tile = *tile };
    struct wave_program *program = gemm_program_create(machine, &launch);
    struct chip_options options = { .seed = 1, .core_mhz = chip->clock_core_max };
    struct kernel_result result;
    struct sim_error error = { 0 };
    program->initial_cache = WAVE_CACHE_STATE_CLEAN;
    cr_assert(eq(int, chip_run(chip, program, &options, &result, &error), SIM_OK), "%s", error.text);
    program->destroy(program);
    return result.duration_us;
}

/* Means over the shapes: of the chosen tile's time over the best candidate's, and of |log| of estimate over model. */
static void compare(const char *device, double *loss, double *apart)
{
    char path[512];
    struct chip_profile chip;
    struct sim_error error = { 0 };
    struct gemm_machine machine;
    snprintf(path, sizeof path, SOURCE_DIR "/devices/%s.json", device);
    cr_assert(eq(int, chip_profile_read(path, &chip, &error), SIM_OK), "%s", error.text);
    gemm_machine_of_chip(&chip, &machine);
    *loss = *apart = 0;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct gemm_tile none = { 0 };
        struct gemm_problem problem;
        struct gemm_estimate list[CANDIDATES];
        double least = INFINITY, chosen = 0;
        gemm_problem_init(&machine, shapes[i].m, shapes[i].n, shapes[i].k, 1, shapes[i].dtype, GEMM_NT, 0, GEMM_AUTO,
                          GEMM_REGISTER_RATE, &problem);
        gemm_select(&machine, &problem, &none, list, CANDIDATES);
        for (int c = 0; c < CANDIDATES; c++) {
            /* the launch that adds up split parts is the same to all that have one: the selector's figure for it */
            double us = simulated_us(&chip, &machine, &problem, &list[c].tile) +
                        (machine.split_in_kernel || list[c].tile.stream_k ? 0 : list[c].reduction_us);
            least = fmin(least, us);
            chosen = c == 0 ? us : chosen;
        }
        double estimate = list[0].us - chip.launch_latency;
        *loss += (chosen / least - 1) / SHAPES;
        *apart += fabs(log(estimate / chosen)) / SHAPES;
    }
    chip_profile_finish(&chip);
}

/* 7% is the aim. On the MI350X the model holds operands back by lines in flight, which the selector only sees as a mean
 * latency: 11% over these shapes. */
Test(gemm_choice, the_chosen_tile_is_near_the_best_candidate)
{
    static const char *const devices[] = { "h200", "mi350x" };
    static const double most[] = { 0.07, 0.13 };
    for (int d = 0; d < 2; d++) {
        double loss, apart;
        compare(devices[d], &loss, &apart);
        cr_expect(lt(dbl, loss, most[d]), "%s: %.1f%%", devices[d], loss * 100);
        cr_expect(lt(dbl, apart, 0.35), "%s: the selector is off by a factor of %.2f", devices[d], exp(apart));
    }
}
