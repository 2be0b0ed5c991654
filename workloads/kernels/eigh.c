/* eigh: all eigenvalues and vectors of a symmetric fp32 matrix, as PyTorch 2.11 calls cuSOLVER. From 32 to 512 rows by Jacobi
 * rotations (syevj): rounds of disjoint rotations, n - 1 to a sweep, a launch a round. Above by syevd: tridiagonalisation, of
 * whose work half is a product of the trailing matrix with a vector per column and half updates of it by panels; divide and
 * conquer, whose merges are products, less what deflates; and the back-transform by panels.
 *
 * A column takes two launches, so small matrices wait for the host. The product with the vector (symv) reads the lower triangle
 * once: a workgroup walks the blocks of one row of blocks and uses each for its own rows and for its columns', so the longest
 * row is a chain of n / 64 blocks whatever the chip's bandwidth (magmablas_ssymv; cuSOLVER's kernel is taken to be alike). The
 * other launch adds up the rows' parts and corrects the column by the panel's reflectors (LAPACK slatrd: three products with
 * each of V and W, half a panel wide in the mean). */
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

/* ---- symv: y = A x from the lower triangle, a workgroup a row of blocks ---- */

#define BLOCK 64u
#define SYMV_WAVES_OF(lanes) (256u / (lanes)) /* 64 x 4 threads */

struct symv {
    uint64_t n;
    uint64_t matrix, parts;
    uint32_t lanes, waves;
};

enum { SYMV_FIRST, SYMV_LOADED, SYMV_AHEAD, SYMV_USED, SYMV_STORE, SYMV_END };

/* A wave's columns of a block of its row of blocks. */
static void symv_load(const struct symv *k, const struct wave_state *state, uint64_t block, struct wave_op *op)
{
    uint64_t row = state->workgroup * BLOCK, rows = min_u64(BLOCK, k->n - row);
    uint64_t share = BLOCK / k->waves, first = block * BLOCK + state->wave * share;
    op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
    op_work(op, (uint32_t)share, (uint32_t)share, 0);
    for (uint64_t c = first; c < min_u64(k->n, first + share); c++) {
        op_span(op, k->matrix + (c * k->n + row) * 4, rows * 4);
    }
    if (op->span_count == 0) { /* the last block is not whole */
        op->kind = WAVE_COMPUTE;
    }
    op->cache = WAVE_CACHE_L2;
    op_lanes(op, k->lanes);
}

static void symv_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                      struct wave_op *op)
{
    const struct symv *k = program->context;
    uint32_t elements = BLOCK * BLOCK / (k->waves * k->lanes); /* of a block, a lane */
    (void)window;
    switch (state->pc) {
    case SYMV_FIRST:
        symv_load(k, state, 0, op);
        state->pc = SYMV_LOADED;
        return;
    case SYMV_LOADED: /* to LDS, where the columns' sums need it turned */
        op_begin(op, WAVE_BARRIER, 0);
        op_work(op, elements, 0, 0);
        op->lds_bytes = BLOCK * BLOCK * 4 / k->waves;
        state->pc = state->trip < state->workgroup ? SYMV_AHEAD : SYMV_USED;
        return;
    case SYMV_AHEAD:
        symv_load(k, state, state->trip + 1, op);
        state->pc = SYMV_USED;
        return;
    case SYMV_USED: /* each element twice, and the sums of 4 lanes a row and a column */
        op_begin(op, WAVE_BARRIER, WAVE_NO_WAIT);
        op_work(op, elements + 8, 2 * elements + 8, 0);
        op->lds_bytes = BLOCK * BLOCK * 4 / k->waves;
        op->work_units = 1;
        state->trip++;
        state->pc = state->trip > state->workgroup ? SYMV_STORE : SYMV_LOADED;
        return;
    case SYMV_STORE: /* one part of y for each block of the row */
        op_begin(op, WAVE_STORE, WAVE_NO_WAIT);
        op_work(op, 4, 4, 0);
        op_lanes(op, k->lanes);
        for (uint64_t b = state->wave; b <= state->workgroup; b += k->waves) {
            op_span(op, k->parts + ((state->workgroup * (state->workgroup + 1) / 2 + b) * BLOCK) * 4, BLOCK * 4);
            if (op->span_count == WAVE_SPANS_MAX) {
                break;
            }
        }
        if (op->span_count == 0) {
            op->kind = WAVE_COMPUTE;
        }
        state->pc = SYMV_END;
        return;
    default: op_end(op); return;
    }
}

static void add_symv(struct kernel_build *build, double n, double repeat)
{
    if (!kernel_build_ok(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("symv", sizeof(struct symv), symv_next);
    struct symv *k = program->context;
    uint64_t blocks = ceil_div((uint64_t)n, BLOCK), walked = blocks * (blocks + 1) / 2;
    *k = (struct symv){ .n = (uint64_t)n, .lanes = build->machine->lanes, .waves = SYMV_WAVES_OF(build->machine->lanes) };
    k->matrix = kernel_program_tensor(program, "matrix", n * n * 4);
    k->parts = kernel_program_tensor(program, "parts", (double)walked * BLOCK * 4);
    program->workgroups = blocks;
    program->waves_per_workgroup = k->waves;
    program->registers_per_lane = 64;
    program->lds_bytes = BLOCK * BLOCK * 4;
    program->work_units_total = walked * k->waves;
    program->workgroups_differ = true;
    program->longest_wave_trips = blocks;
    program->longest_wave_workgroup = blocks - 1;
    program->flops = 2 * n * n;
    kernel_program_plain(program);
    kernel_plan_add(build, program, repeat);
}

/* Columns in SEGMENTS stretches, each at the size of its middle. */
static void tridiagonalise(struct kernel_build *build, double n)
{
    char text[128];
    for (int s = 0; s < SEGMENTS; s++) {
        double left = ceil(n * (1 - (s + 0.5) / SEGMENTS)), columns = n / SEGMENTS;
        add_symv(build, left, columns);
        snprintf(text, sizeof text, "rows=%.0f;cols=%.0f;dtype_in=fp32", left, 6 * PANEL / 2 + ceil(left / BLOCK));
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
