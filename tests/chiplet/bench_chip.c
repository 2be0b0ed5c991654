/* Speed of the fast chip engine on one core, without sampling: simulated line requests and wave operations per second of
 * processor time, median of five runs, building the package included. The answer of each run is checked against the first: same
 * input, same bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/chiplet/chip.h"
#include "workloads/kernels/kernel.h"

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench(const struct chip_profile *profile, const char *suite, const char *kernel, const char *text)
{
    struct sim_error error;
    struct kernel_params *params = NULL;
    struct kernel_plan *plan = NULL;
    struct kernel_machine machine = { .units = chip_unit_count(profile), .lanes = (uint32_t)profile->unit_lanes,
                                      .hbm_bytes = (uint64_t)(profile->hbm_capacity * 1073741824.0),
                                      .lds_bytes_per_workgroup_max = (uint32_t)(profile->unit_lds_per_workgroup_max * 1024),
                                      .core_mhz = profile->clock_core_max };
    if (kernel_params_parse(text, &params, &error) != SIM_OK ||
        kernel_plan_create(suite, kernel, params, &machine, &plan, &error) != SIM_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    struct wave_program *program = plan->launches[0].program;
    program->initial_cache = WAVE_CACHE_STATE_CLEAN;
    struct chip_options options = { .exact = true };
    double took[5];
    double first_us = 0;
    struct kernel_result result;
    for (int i = 0; i < 5; i++) {
        double start = seconds();
        if (chip_run(profile, program, &options, &result, &error) != SIM_OK) {
            fprintf(stderr, "%s\n", error.text);
            exit(1);
        }
        took[i] = seconds() - start;
        if (i > 0 && result.duration_us != first_us) {
            fprintf(stderr, "%s/%s: %.17g us, then %.17g us\n", suite, kernel, first_us, result.duration_us);
            exit(1);
        }
        first_us = result.duration_us;
    }
    qsort(took, 5, sizeof *took, by_value);
    printf("%-12s %-18s %9llu lines %9llu wave ops  median %.2f M lines/s  best %.2f M lines/s  %.2f M wave ops/s\n", suite, kernel,
           (unsigned long long)result.simulated_line_requests, (unsigned long long)result.simulated_wave_ops,
           1e-6 * (double)result.simulated_line_requests / took[2], 1e-6 * (double)result.simulated_line_requests / took[0],
           1e-6 * (double)result.simulated_wave_ops / took[2]);
    kernel_plan_destroy(plan);
    kernel_params_destroy(params);
}

int main(void)
{
    struct chip_profile profile;
    struct sim_error error;
    memset(&profile, 0, sizeof profile);
    if (chip_profile_read(SOURCE_DIR "/devices/h200.json", &profile, &error) != SIM_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    bench(&profile, "bandwidth", "read", "mb=256;it=1");
    bench(&profile, "bandwidth", "write", "mb=256;it=1");
    bench(&profile, "gather", "random_rows", "row_bytes=128;table_mb=4096;n=2097152");
    bench(&profile, "atomic", "add_u32", "mode=0;naddr=65536;stride=4");
    bench(&profile, "atomic", "add_f32", "mode=2;naddr=16777216;stride=4");
    bench(&profile, "alu", "fma", "n=1000");
    chip_profile_finish(&profile);
    return 0;
}
