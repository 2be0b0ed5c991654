/* eigh: all eigenvalues and vectors of a symmetric fp32 matrix, as PyTorch 2.11 calls cuSOLVER. From 32 to 512 rows by Jacobi
 * rotations (syevj): rounds of disjoint rotations, n - 1 to a sweep, a launch a round. Above by syevd: tridiagonalisation, of
 * whose work half is a product of the trailing matrix with a vector per column (two launches a column, so small matrices wait
 * for the host) and half updates of it by panels; divide and conquer, whose merges are products, less what deflates; and the
 * back-transform by panels. */
#include "workloads/kernels/dense_internal.h"
#include <math.h>
#include <stdio.h>

#define PANEL 64.0
#define SEGMENTS 5
#define JACOBI_MOST 512u
#define SWEEPS "5..8: sweeps until the rotations vanish, of a random matrix in single precision"
#define DEFLATED "0.1..0.6: share of a merge's columns that deflate; a random matrix has few"

static void add(struct kernel_build *build, const char *suite, const char *kernel, const char *text, double repeat)
{
    struct kernel_params *params = NULL;
    struct kernel_plan *plan = NULL;
    struct sim_error error = { 0 };
    if (!kernel_build_ok(build)) {
        return;
    }
    enum sim_status status = kernel_params_parse(text, &params, &error);
    if (status == SIM_OK) {
        status = kernel_plan_create(suite, kernel, params, build->machine, &plan, &error);
    }
    if (status == SIM_OK) {
        struct wave_program *program = plan->launches[plan->launch_count - 1].program;
        plan->launches[plan->launch_count - 1].program = NULL;
        program->initial_cache = WAVE_CACHE_STATE_OWN; /* the step before touched the same matrix */
        kernel_plan_add(build, program, repeat);
    } else {
        kernel_fail(build, status, "%s", error.text);
    }
    kernel_plan_destroy(plan);
    kernel_params_destroy(params);
}

static void add_product(struct kernel_build *build, double m, double n, double k, double repeat)
{
    char text[128];
    snprintf(text, sizeof text, "M=%.0f;N=%.0f;K=%.0f;dtype=fp32", fmax(m, 1), fmax(n, 1), fmax(k, 1));
    if (repeat >= 0.5) {
        add(build, "gemm", "mm", text, repeat);
    }
}

/* Rotations of a round: every row and column once, so the matrix and the vectors are read and written. */
static void jacobi(struct kernel_build *build, double n, double sweeps)
{
    char text[128];
    snprintf(text, sizeof text, "n=%.0f;bytes_in=4:4;bytes_out=4;valu=8", n * n);
    add(build, "elementwise", "map", text, sweeps * (n - 1));
}

/* Columns in SEGMENTS stretches, each at the size of its middle. */
static void tridiagonalise(struct kernel_build *build, double n)
{
    char text[128];
    for (int s = 0; s < SEGMENTS; s++) {
        double left = ceil(n * (1 - (s + 0.5) / SEGMENTS)), columns = n / SEGMENTS;
        snprintf(text, sizeof text, "rows=%.0f;cols=%.0f;dtype_in=fp32", left, left);
        add(build, "reduction", "rows", text, columns);
        snprintf(text, sizeof text, "rows=1;cols=%.0f;dtype_in=fp32", left);
        add(build, "reduction", "rows", text, columns);
        add_product(build, left, left, 2 * PANEL, columns / PANEL); /* a panel's update of rank 2 x 64 */
    }
}

static void syevd(struct kernel_build *build, double n, double deflated)
{
    tridiagonalise(build, n);
    double kept = 1 - deflated;
    for (double size = n, merges = 1; size > 256; size /= 2, merges *= 2) { /* two halves' vectors times the merge's */
        add_product(build, size / 2, size * kept, size / 2 * kept, 2 * merges);
    }
    add_product(build, n, n, PANEL, 2 * n / PANEL); /* each panel of reflectors, in two products */
}

static void syevd_build(struct kernel_build *build)
{
    uint64_t n = kernel_param_integer(build, "n", 2, 32768);
    kernel_param_choice_or(build, "dtype", "fp32|float32", 0, NULL);
    double sweeps = n <= JACOBI_MOST ? kernel_param_real_or(build, "sweeps", 1, 30, 6, SWEEPS) : 0;
    double deflated = n > JACOBI_MOST ? kernel_param_real_or(build, "deflated", 0, 0.99, 0.2, DEFLATED) : 0;
    kernel_require_hbm(build, 3.0 * (double)n * (double)n * 4, "the matrix, its vectors and a workspace");
    if (!kernel_params_done(build)) {
        return;
    }
    if (n <= JACOBI_MOST) {
        jacobi(build, (double)n, sweeps);
    } else {
        syevd(build, (double)n, deflated);
    }
    if (kernel_build_ok(build)) {
        build->plan->flops = (4.0 / 3 + 4.0 / 3 + 2) * pow((double)n, 3);
        kernel_value_time(build, 1, 1e-6, "s");
    }
}

const struct kernel_definition eigh_kernels[] = {
    { "eigh", "syevd", "all eigenvalues and vectors of a symmetric matrix",
      "n, dtype (fp32), sweeps (up to 512 rows: of Jacobi rotations; 6), deflated (above: share of a merge; 0.2)", syevd_build },
    { .suite = NULL },
};
