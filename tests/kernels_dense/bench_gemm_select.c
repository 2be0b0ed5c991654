/* Selections a second on one core: 720 products of every dtype and alignment, small to large, on three devices. */
#include "workloads/kernels/gemm_select.h"
#include <stdio.h>
#include <time.h>

#define RUNS 5

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static size_t select_all(const struct gemm_machine *machine, double *checksum)
{
    static const uint64_t m[] = { 16, 100, 512, 2048, 8192, 40000 }, n[] = { 64, 199, 512, 1024, 4096, 8192 },
                          k[] = { 64, 512, 2048, 8192, 65536 };
    const struct gemm_tile none = { 0 };
    size_t count = 0;
    for (size_t i = 0; i < 6 * 6 * 5 * 4; i++) {
        struct gemm_problem problem;
        struct gemm_estimate best;
        gemm_problem_init(machine, m[i % 6], n[i / 6 % 6], k[i / 36 % 5], 1, (enum gemm_dtype)(i / 180), GEMM_NT, 0, GEMM_AUTO,
                          0.63, &problem);
        gemm_select(machine, &problem, &none, &best, 1);
        *checksum += best.us;
        count++;
    }
    return count;
}

int main(void)
{
    static const char *const devices[] = { "h200", "b200", "mi350x" };
    for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++) {
        char path[512];
        struct chip_profile chip;
        struct sim_error error = { 0 };
        struct gemm_machine machine;
        snprintf(path, sizeof path, SOURCE_DIR "/devices/%s.json", devices[d]);
        if (chip_profile_read(path, &chip, &error) != SIM_OK) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        gemm_machine_of_chip(&chip, &machine);
        double least = 1e9, first = 0;
        size_t count = 0;
        for (int run = 0; run < RUNS; run++) {
            double checksum = 0, before = seconds();
            count = select_all(&machine, &checksum);
            double took = seconds() - before;
            least = took < least ? took : least;
            first = run == 0 ? checksum : first;
            if (checksum != first) {
                fprintf(stderr, "%s: selections differ between runs\n", devices[d]);
                return 1;
            }
        }
        printf("gemm_select %-7s %zu selections, least of %d: %.1f us each, %.0f a second\n", devices[d], count, RUNS,
               least / (double)count * 1e6, (double)count / least);
        chip_profile_finish(&chip);
    }
    return 0;
}
