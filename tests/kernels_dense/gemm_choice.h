/* A product's candidates on the event-driven model, for the test and the check of the selector: clean caches, the highest clock. */
#ifndef TESTS_KERNELS_DENSE_GEMM_CHOICE_H
#define TESTS_KERNELS_DENSE_GEMM_CHOICE_H
#include "sim/chiplet/chip.h"
#include "workloads/kernels/gemm_internal.h"
#include <math.h>

#define CHOICE_MOST 64

/* The time of one candidate [us]; NAN: it does not run. The launch that adds up split parts is the same to all that have one:
 * the selector's figure for it. */
static inline double choice_simulated_us(const struct chip_profile *chip, const struct gemm_machine *machine,
                                         const struct gemm_problem *problem, const struct gemm_estimate *candidate)
{
    struct gemm_launch launch = { .problem = *problem, .tile = candidate->tile };
    struct wave_program *program = gemm_program_create(machine, &launch);
    struct chip_options options = { .seed = 1, .core_mhz = chip->clock_core_max };
    struct kernel_result result;
    struct sim_error error = { 0 };
    program->initial_cache = WAVE_CACHE_STATE_CLEAN;
    enum sim_status status = chip_run(chip, program, &options, &result, &error);
    program->destroy(program);
    bool adds_up_in_place = machine->split_in_kernel || candidate->tile.stream_k;
    return status == SIM_OK ? result.duration_us + (adds_up_in_place ? 0 : candidate->reduction_us) : NAN;
}

struct choice {
    double chosen_us, least_us, estimate_us; /* of the selector's choice, of the best candidate; the selector's own */
    size_t best;                             /* which candidate that is */
};

/* The selector's choice for `problem` against its best `count` candidates. */
static inline struct choice choice_of(const struct chip_profile *chip, const struct gemm_machine *machine,
                                      const struct gemm_problem *problem, size_t count)
{
    const struct gemm_tile none = { 0 };
    struct gemm_estimate list[CHOICE_MOST];
    struct choice choice = { NAN, INFINITY, NAN, 0 };
    size_t weighed = gemm_select(machine, problem, &none, list, count);
    for (size_t c = 0; c < count && c < weighed; c++) {
        double us = choice_simulated_us(chip, machine, problem, &list[c]);
        choice.chosen_us = c == 0 ? us : choice.chosen_us;
        choice.best = us < choice.least_us ? c : choice.best;
        choice.least_us = fmin(choice.least_us, us);
    }
    choice.estimate_us = list[0].us - chip->launch_latency;
    return choice;
}

#endif
