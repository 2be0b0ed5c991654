/* Reductions, norms, softmax and losses as PyTorch 2.11 launches them (aten/src/ATen/native/cuda): Reduce.cuh,
 * layer_norm_kernel.cu, SoftMax.cu and PersistentSoftmax.cuh, NLLLoss2d; and two row kernels of its compiler.
 * The launch rules are theirs; a step's recorded grids agree (dlrm: 27 x 79 workgroups of 32 x 4 for a bf16 sum over
 * 8,192 x 3,456; 16 workgroups for the weight gradient of 512 columns).
 * Instruction counts are read off the source and the usual expansion of its operations: a correctly rounded division or
 * reciprocal is 8 to 9 instructions and one special one (RCP, refinement, range check), expf 6 and one (EX2), a shuffle
 * one issue slot and about 25 cycles. */
#include "workloads/kernels/dense_internal.h"

#define ROWS_MAX (1ull << 36)
#define THREADS_PER_UNIT 2048u /* resident threads a unit can have: the launch rules divide by it */
#define SHUFFLE_CYCLES 25u

static double widen_slots(uint32_t bytes)
{
    return bytes < 4 ? 1 : 0;
}

static double narrow_slots(uint32_t bytes)
{
    return bytes < 4 ? 0.5 : 0;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t log2_ceil(uint64_t n)
{
    uint32_t bits = 0;
    while ((1ull << bits) < n) {
        bits++;
    }
    return bits;
}

/* `slots` vector instructions per step of a tree over `lanes` lanes by shuffles; about half of them wait for the one before,
 * 4 cycles each. */
static struct dense_combine shuffle_tree(uint64_t lanes, uint32_t values, uint32_t slots, uint32_t sfu)
{
    uint32_t steps = log2_ceil(lanes);
    return (struct dense_combine){ .issue = steps * values,
                                   .lds_bytes = steps * values * (uint32_t)lanes * 4, /* shuffles take its crossbar */
                                   .valu = steps * slots,
                                   .sfu = steps * sfu,
                                   .latency_cycles = steps * (SHUFFLE_CYCLES + 2 + 2 * slots) };
}

/* ---- reduce_kernel ---- */

#define REDUCE_THREADS 512u
/* The kernel is generic: offsets of output and input through calculators for up to 16 dimensions, four accumulators with
 * bounds checks, combined at the end, and which of five kinds of result to store: about 150 instructions around the loop.
 * Its shuffle loops are not unrolled: 7 instructions a step. */
#define REDUCE_START_ISSUE 150u
#define REDUCE_SHUFFLE_ISSUE 6u

/* Block of width x height lanes; what a lane reads; how many workgroups share an output. */
struct reduce_launch {
    uint32_t width, height, vector, splits;
    bool height_reduces; /* rows of lanes share an output */
    uint64_t grid;       /* workgroups along the outputs */
};

static void reduce_block(struct reduce_launch *launch, uint64_t dim0, uint64_t dim1, uint32_t most,
                         uint32_t lanes)
{
    uint64_t width = dim0 < most ? last_pow2(max_u64(dim0, 1)) : most;
    uint64_t height = dim1 < most ? last_pow2(max_u64(dim1, 1)) : most;
    launch->height = (uint32_t)min_u64(height, most / min_u64(width, lanes));
    launch->width = (uint32_t)min_u64(width, most / launch->height);
}

/* The library's build for 64-lane chips (PyTorch, Reduce.cuh) asks for fewer workgroups a unit, twice as many for one output, and
 * deals an output to whole or half as many workgroups as there are units, to one rather than to fewer than 16. */
#define WIDE_THREADS_PER_UNIT 256u

static uint64_t wide_splits(uint64_t wanted, uint64_t units)
{
    uint64_t half = ceil_div(units, 2);
    if (wanted > units) {
        return units >= 128 ? units : units * (wanted > 512 ? 4 : 2);
    }
    return wanted > half ? half : wanted < 16 ? 1 : wanted;
}

/* setReduceConfig: rows of lanes share an output when each lane still has 16 values for every one of them; workgroups
 * share it when a lane has 256 values and the grid leaves units idle. */
static void reduce_split(struct reduce_launch *launch, uint64_t outputs, uint64_t inputs,
                         uint32_t lanes_on_input, uint32_t lanes_on_output,
                         const struct kernel_machine *machine)
{
    uint64_t values = ceil_div(inputs, lanes_on_input);
    launch->height_reduces = values >= min_u64((uint64_t)launch->height * 16, 256);
    if (launch->height_reduces) {
        values = ceil_div(inputs, (uint64_t)lanes_on_input * launch->height);
    }
    launch->grid = ceil_div(outputs,
                            (uint64_t)lanes_on_output * (launch->height_reduces ? 1 : launch->height));
    bool wide = machine->lanes > 32;
    uint64_t threads = !wide ? THREADS_PER_UNIT : outputs > 1 ? WIDE_THREADS_PER_UNIT : 2 * WIDE_THREADS_PER_UNIT;
    uint64_t target = machine->units * max_u64(1, threads / (launch->width * launch->height));
    launch->splits = 1;
    if (launch->height_reduces && values >= 256 && launch->grid <= target) {
        uint64_t wanted = max_u64(min_u64(ceil_div(target, launch->grid), ceil_div(values, 16)), ceil_div(values, 256));
        launch->splits = (uint32_t)(wide ? wide_splits(wanted, machine->units) : wanted);
    }
}

/* `readers`: where lanes share the inner dimension every lane takes a staged result; else only rows of lanes do, and the
 * last workgroup's loop over a thousand of them is long. */
static void add_meeting(struct wave_program *program, struct dense_meeting *meeting, uint32_t splits,
                        uint64_t groups, uint64_t items, uint32_t readers)
{
    meeting->splits = splits;
    meeting->readers = readers;
    meeting->item_bytes = 4;
    if (splits > 1) {
        meeting->staging = kernel_program_tensor(program, "staging",
                                                 (double)groups * splits * (double)items * 4);
        meeting->semaphores = kernel_program_tensor(program, "semaphores", (double)groups * 4);
    }
}

/* Sum over the inner dimension: `outputs` rows of `inputs`. One loop trip loads a vector (16 B; a 128-column row or
 * more) or 4 single values a lane, and the next trip waits for it. */
static struct wave_program *reduce_rows(uint64_t outputs, uint64_t inputs, uint32_t in_bytes,
                                        uint32_t out_bytes, const struct kernel_machine *machine)
{
    struct reduce_launch launch = { .vector = inputs >= 128 ? (uint32_t)max_u64(16 / in_bytes, 1) : 1 };
    reduce_block(&launch, inputs / launch.vector, outputs, REDUCE_THREADS, machine->lanes);
    reduce_split(&launch, outputs, inputs, launch.width, 1, machine);
    struct dense_rows *rows;
    struct wave_program *program = dense_rows_create("reduce_rows", &rows);
    rows->rows = outputs;
    rows->columns = inputs;
    rows->threads = launch.width * launch.height;
    rows->lanes_per_row = launch.height_reduces ? rows->threads : launch.width;
    rows->start_issue = REDUCE_START_ISSUE;
    program->registers_per_lane = 32;
    struct dense_pass *pass = &rows->passes[0];
    rows->pass_count = 1;
    pass->operand_count = 1;
    pass->operands[0] = (struct dense_pass_operand){
        .base = kernel_program_tensor(program, "in", (double)outputs * (double)inputs * in_bytes),
        .bytes = in_bytes
    };
    pass->vector = launch.vector;
    pass->in_flight = launch.vector > 1 ? 1 : 4;
    pass->valu = 1 + widen_slots(in_bytes);
    pass->access_issue = 5; /* with the loop's own */
    pass->after = shuffle_tree(min_u64(launch.width, machine->lanes), REDUCE_SHUFFLE_ISSUE, 1, 0);
    uint32_t lds_rounds = (launch.height_reduces ? log2_ceil(launch.height) : 0) +
                          (launch.width > machine->lanes ? log2_ceil(launch.width / machine->lanes) : 0);
    pass->after.barriers = lds_rounds + 1;
    pass->after.issue += lds_rounds * 12;
    pass->after.latency_cycles += lds_rounds * 60; /* store, load, add */
    pass->after.lds_bytes += lds_rounds * machine->lanes * 8;
    rows->results[0] = (struct dense_row_result){
        kernel_program_tensor(program, "out", (double)outputs * out_bytes), out_bytes
    };
    add_meeting(program, &rows->meeting, launch.splits, launch.grid,
                launch.height_reduces ? 1 : launch.height, rows->threads);
    dense_rows_finish(program, machine);
    program->flops = (double)outputs * (double)inputs;
    return program;
}

/* Sum over the outer dimension: each of `columns` outputs over `rows`. A lane has up to 4 neighbouring outputs and 4
 * rows in flight. */
static struct wave_program *reduce_columns(uint64_t row_count, uint64_t column_count, uint32_t in_bytes,
                                           uint32_t out_bytes, const struct kernel_machine *machine)
{
    struct reduce_launch launch = { .vector = 4 };
    while (column_count % launch.vector != 0) {
        launch.vector /= 2;
    }
    reduce_block(&launch, column_count / launch.vector, row_count, REDUCE_THREADS / launch.vector,
                 machine->lanes);
    reduce_split(&launch, column_count / launch.vector, row_count, 1, launch.width, machine);
    if (!launch.height_reduces) { /* rows of lanes take further columns: the same waves, a workgroup each */
        launch.width = (uint32_t)min_u64((uint64_t)launch.width * launch.height, machine->lanes);
        launch.height = 1;
    }
    launch.width = (uint32_t)min_u64(launch.width, machine->lanes);
    struct dense_columns *columns;
    struct wave_program *program = dense_columns_create("reduce_columns", &columns);
    columns->rows = row_count;
    columns->columns = column_count;
    columns->width = launch.width;
    columns->height = launch.height;
    columns->vector = launch.vector;
    columns->unroll = 4;
    columns->wave_stride = 1;
    columns->split_stride = launch.height;
    columns->unroll_stride = (uint64_t)launch.height * launch.splits;
    columns->trip_stride = 4 * columns->unroll_stride;
    columns->operand_count = 1;
    columns->operands[0] = (struct dense_pass_operand){
        .base = kernel_program_tensor(program, "in", (double)row_count * (double)column_count * in_bytes),
        .bytes = in_bytes
    };
    columns->valu = 1 + widen_slots(in_bytes);
    columns->access_issue = 5;
    columns->trip_issue = 8;
    columns->start_issue = REDUCE_START_ISSUE;
    uint32_t rounds = log2_ceil(launch.height);
    columns->after = (struct dense_combine){ .issue = 8 * rounds,
                                             .valu = launch.vector * (3 + rounds),
                                             .barriers = rounds,
                                             .latency_cycles = 30 * rounds,
                                             .lds_bytes = rounds * machine->lanes * launch.vector * 8 };
    program->registers_per_lane = launch.vector > 1 ? 54 : 32;
    program->lds_bytes = launch.width * launch.height * launch.vector * 4;
    columns->result_count = 1;
    columns->results[0] = (struct dense_row_result){
        kernel_program_tensor(program, "out", (double)column_count * out_bytes), out_bytes
    };
    add_meeting(program, &columns->meeting, launch.splits,
                ceil_div(column_count, launch.width * launch.vector), (uint64_t)launch.width * launch.vector,
                launch.height);
    dense_columns_finish(program, machine);
    program->flops = (double)row_count * (double)column_count;
    return program;
}

struct matrix_params {
    uint64_t rows, columns;
    uint32_t in_bytes, out_bytes;
};

/* rows, cols and a dtype, as the measuring program names them. */
static struct matrix_params read_matrix(struct kernel_build *build)
{
    struct matrix_params p;
    p.rows = kernel_param_integer(build, "rows", 1, ROWS_MAX);
    p.columns = kernel_param_integer(build, "cols", 1, ROWS_MAX);
    p.in_bytes = p.out_bytes = dense_param_bytes(build, "dtype", DENSE_REQUIRED);
    return p;
}

static struct matrix_params read_typed_matrix(struct kernel_build *build)
{
    struct matrix_params p;
    p.rows = kernel_param_integer(build, "rows", 1, ROWS_MAX);
    p.columns = kernel_param_integer(build, "cols", 1, ROWS_MAX);
    p.in_bytes = dense_param_bytes(build, "dtype_in", DENSE_REQUIRED);
    bool given = kernel_param_given(build, "dtype_out");
    p.out_bytes = given ? dense_param_bytes(build, "dtype_out", DENSE_REQUIRED) : p.in_bytes;
    dense_cache_param(build);
    return p;
}

static double matrix_bytes(struct matrix_params p)
{
    return (double)p.rows * (double)p.columns * p.in_bytes;
}

/* The measuring program flushes the L2 by writing before each call. */
static void add_flushed(struct kernel_build *build, struct wave_program *program)
{
    program->initial_cache = WAVE_CACHE_STATE_FLUSHED;
    kernel_plan_add(build, program, 1);
}

static void add_general(struct kernel_build *build, struct wave_program *program)
{
    dense_cache_apply(build, program);
    kernel_plan_add(build, program, 1);
}

static bool matrix_fits(struct kernel_build *build, struct matrix_params p)
{
    if (!kernel_params_done(build)) {
        return false;
    }
    kernel_require_hbm(build, matrix_bytes(p), "the input");
    return kernel_build_ok(build);
}

/* A reduction as a framework call: where workgroups meet, their counters are cleared by a memset before. (A recorded step
 * shows the memset as an operation of its own, so reduction/... does not have it.) */
static void add_call(struct kernel_build *build, struct wave_program *program,
                     const struct dense_meeting *meeting)
{
    if (meeting->splits > 1) {
        uint64_t groups = program->workgroups / meeting->splits;
        kernel_plan_add(build, dense_fill_program("clear_semaphores", groups, 4, build->machine), 1);
    }
    add_flushed(build, program);
}

static void add_rows_call(struct kernel_build *build, struct wave_program *program)
{
    add_call(build, program, &((const struct dense_rows *)program->context)->meeting);
}

static void build_sum(struct kernel_build *build)
{
    uint64_t n = kernel_param_integer(build, "n", 1, ROWS_MAX);
    uint32_t bytes = dense_param_bytes(build, "dtype", DENSE_REQUIRED);
    if (kernel_params_done(build)) {
        add_rows_call(build, reduce_rows(1, n, bytes, bytes, build->machine));
        kernel_value_per_time(build, (double)n * bytes * 1e-6, "TB/s");
    }
}

static void build_sum_dim1(struct kernel_build *build)
{
    struct matrix_params p = read_matrix(build);
    if (matrix_fits(build, p)) {
        add_rows_call(build, reduce_rows(p.rows, p.columns, p.in_bytes, p.out_bytes, build->machine));
        kernel_value_per_time(build, matrix_bytes(p) * 1e-6, "TB/s");
    }
}

static void build_sum_dim0(struct kernel_build *build)
{
    struct matrix_params p = read_matrix(build);
    if (matrix_fits(build, p)) {
        struct wave_program *program = reduce_columns(p.rows, p.columns, p.in_bytes, p.out_bytes,
                                                      build->machine);
        add_call(build, program, &((const struct dense_columns *)program->context)->meeting);
        kernel_value_per_time(build, matrix_bytes(p) * 1e-6, "TB/s");
    }
}

static void build_reduction_rows(struct kernel_build *build)
{
    struct matrix_params p = read_typed_matrix(build);
    if (matrix_fits(build, p)) {
        add_general(build, reduce_rows(p.rows, p.columns, p.in_bytes, p.out_bytes, build->machine));
        kernel_value_per_time(build, matrix_bytes(p) * 1e-6, "TB/s");
    }
}

static void build_reduction_columns(struct kernel_build *build)
{
    struct matrix_params p = read_typed_matrix(build);
    if (matrix_fits(build, p)) {
        add_general(build, reduce_columns(p.rows, p.columns, p.in_bytes, p.out_bytes, build->machine));
        kernel_value_per_time(build, matrix_bytes(p) * 1e-6, "TB/s");
    }
}

static void build_reduction_all(struct kernel_build *build)
{
    struct matrix_params p = { .rows = 1 };
    p.columns = kernel_param_integer(build, "n", 1, ROWS_MAX);
    p.in_bytes = dense_param_bytes(build, "dtype_in", DENSE_REQUIRED);
    bool given = kernel_param_given(build, "dtype_out");
    p.out_bytes = given ? dense_param_bytes(build, "dtype_out", DENSE_REQUIRED) : p.in_bytes;
    dense_cache_param(build);
    if (matrix_fits(build, p)) {
        add_general(build, reduce_rows(1, p.columns, p.in_bytes, p.out_bytes, build->machine));
        kernel_value_per_time(build, matrix_bytes(p) * 1e-6, "TB/s");
    }
}

/* ---- rows: common parts ---- */

static void add_operand(struct dense_pass *pass, uint64_t base, uint32_t bytes, bool store, bool shared)
{
    pass->operands[pass->operand_count++] = (struct dense_pass_operand){ base, bytes, store, shared };
}

static struct dense_pass *add_pass(struct dense_rows *rows, uint32_t vector, uint32_t in_flight, double valu,
                                   double sfu)
{
    struct dense_pass *pass = &rows->passes[rows->pass_count++];
    pass->vector = vector;
    pass->in_flight = in_flight;
    pass->valu = valu;
    pass->sfu = sfu;
    pass->access_issue = 4;
    return pass;
}

/* ---- layer norm ---- */

#define NORM_THREADS 128u

/* Welford over an element: subtract, count, reciprocal of the count (11 with its slow path's branch), three multiply-adds; the
 * reciprocals of a vector do not depend on each other, so the chain is about 20 cycles an element. Combining two halves:
 * three shuffles and 26 instructions with one reciprocal; 12 where both counts are 0, as in waves beyond a short row. Between
 * waves only half of them combine in the first round, a quarter in the second. By the counters a wave of the kernel runs 293
 * instructions over rows of 256 columns, 6.8 of them special. */
#define WELFORD_SLOTS 17.0
#define WELFORD_CHAIN 20u
#define COMBINE_SLOTS 26u
#define COMBINE_EMPTY_SLOTS 12u

static struct dense_combine welford_tree(uint32_t waves, uint32_t lanes)
{
    struct dense_combine tree = shuffle_tree(lanes, 3, COMBINE_SLOTS, 1);
    uint32_t rounds = log2_ceil(waves);
    tree.idle_valu = log2_ceil(lanes) * COMBINE_EMPTY_SLOTS + 12;
    tree.issue += rounds * 6 + 6;
    tree.valu += waves > 1 ? COMBINE_SLOTS * (waves - 1) / waves + 12 : 12; /* and the root */
    tree.sfu += 1;
    tree.latency_cycles += rounds * (60 + 2 * COMBINE_SLOTS);
    tree.barriers = waves > 1 ? 2 * rounds + 1 : 0;
    return tree;
}

/* vectorized_layer_norm_kernel: a workgroup of 128 a row, vectors of 4, the row read twice (the second time from L1). */
static struct wave_program *layer_forward(struct matrix_params p, const struct kernel_machine *machine)
{
    struct dense_rows *rows;
    struct wave_program *program = dense_rows_create("layer_norm_forward", &rows);
    double elements = (double)p.rows * (double)p.columns;
    uint64_t x = kernel_program_tensor(program, "x", elements * p.in_bytes);
    uint64_t gamma = kernel_program_tensor(program, "gamma", (double)p.columns * p.in_bytes);
    uint64_t beta = kernel_program_tensor(program, "beta", (double)p.columns * p.in_bytes);
    uint64_t y = kernel_program_tensor(program, "y", elements * p.out_bytes);
    rows->rows = p.rows;
    rows->columns = p.columns;
    rows->threads = rows->lanes_per_row = NORM_THREADS;
    rows->start_issue = 60;
    program->registers_per_lane = 32;
    program->lds_bytes = 24;
    struct dense_pass *moments = add_pass(rows, 4, 1, WELFORD_SLOTS + widen_slots(p.in_bytes), 1);
    add_operand(moments, x, p.in_bytes, false, false);
    moments->element_latency = WELFORD_CHAIN;
    moments->after = welford_tree(NORM_THREADS / machine->lanes, machine->lanes);
    struct dense_pass *scale = add_pass(rows, 4, 1,
                                        3 + 3 * widen_slots(p.in_bytes) + narrow_slots(p.out_bytes), 0);
    add_operand(scale, x, p.in_bytes, false, false);
    add_operand(scale, gamma, p.in_bytes, false, true);
    add_operand(scale, beta, p.in_bytes, false, true);
    add_operand(scale, y, p.out_bytes, true, false);
    rows->results[0] = (struct dense_row_result){ kernel_program_tensor(program, "mean", (double)p.rows * 4),
                                                  4 };
    rows->results[1] = (struct dense_row_result){ kernel_program_tensor(program, "rstd", (double)p.rows * 4),
                                                  4 };
    dense_rows_finish(program, machine);
    program->flops = 8 * elements;
    return program;
}

/* Rows that are no multiple of 4: RowwiseMoments (512 threads, single elements), then LayerNormForward (256). */
static void layer_forward_plain(struct kernel_build *build, struct matrix_params p,
                                void (*add)(struct kernel_build *build, struct wave_program *program))
{
    const struct kernel_machine *machine = build->machine;
    double elements = (double)p.rows * (double)p.columns;
    struct dense_rows *rows;
    struct wave_program *program = dense_rows_create("row_moments", &rows);
    rows->rows = p.rows;
    rows->columns = p.columns;
    rows->threads = rows->lanes_per_row = 512;
    rows->start_issue = 30;
    struct dense_pass *moments = add_pass(rows, 1, 1, WELFORD_SLOTS + 4 + widen_slots(p.in_bytes), 1);
    add_operand(moments, kernel_program_tensor(program, "x", elements * p.in_bytes), p.in_bytes, false,
                false);
    moments->element_latency = 60; /* one element at a time: its reciprocal is on the chain */
    moments->after = shuffle_tree(machine->lanes, 4, COMBINE_SLOTS, 1);
    moments->after.barriers = 2;
    rows->results[0] = (struct dense_row_result){ kernel_program_tensor(program, "mean", (double)p.rows * 4),
                                                  4 };
    rows->results[1] = (struct dense_row_result){ kernel_program_tensor(program, "rstd", (double)p.rows * 4),
                                                  4 };
    dense_rows_finish(program, machine);
    program->flops = 5 * elements;
    add(build, program);

    program = dense_rows_create("layer_norm_scale", &rows);
    rows->rows = p.rows;
    rows->columns = p.columns;
    rows->threads = rows->lanes_per_row = 256;
    rows->start_issue = 30;
    rows->scalar_count = 2;
    struct dense_pass *scale = add_pass(rows, 1, 1,
                                        3 + 3 * widen_slots(p.in_bytes) + narrow_slots(p.out_bytes), 0);
    add_operand(scale, kernel_program_tensor(program, "x", elements * p.in_bytes), p.in_bytes, false, false);
    add_operand(scale, kernel_program_tensor(program, "gamma", (double)p.columns * p.in_bytes), p.in_bytes,
                false, true);
    add_operand(scale, kernel_program_tensor(program, "beta", (double)p.columns * p.in_bytes), p.in_bytes,
                false, true);
    add_operand(scale, kernel_program_tensor(program, "y", elements * p.out_bytes), p.out_bytes, true, false);
    rows->scalars[0] = kernel_program_tensor(program, "mean", (double)p.rows * 4);
    rows->scalars[1] = kernel_program_tensor(program, "rstd", (double)p.rows * 4);
    dense_rows_finish(program, machine);
    program->flops = 3 * elements;
    add(build, program);
}

static void add_layer_forward(struct kernel_build *build, struct matrix_params p,
                              void (*add)(struct kernel_build *build, struct wave_program *program))
{
    if (p.columns % 4 == 0) {
        add(build, layer_forward(p, build->machine));
    } else {
        layer_forward_plain(build, p, add);
    }
}

static void build_layernorm(struct kernel_build *build)
{
    struct matrix_params p = read_matrix(build);
    if (matrix_fits(build, p)) {
        add_layer_forward(build, p, add_flushed);
        kernel_value_per_time(build, 2 * matrix_bytes(p) * 1e-6, "TB/s");
    }
}

static struct matrix_params read_norm(struct kernel_build *build)
{
    struct matrix_params p = read_matrix(build);
    dense_cache_param(build);
    return p;
}

static void build_layer_forward(struct kernel_build *build)
{
    struct matrix_params p = read_norm(build);
    if (matrix_fits(build, p)) {
        add_layer_forward(build, p, add_general);
        kernel_value_per_time(build, 2 * matrix_bytes(p) * 1e-6, "TB/s");
    }
}

/* layer_norm_grad_input_kernel_vectorized: a workgroup of 128 a row; two sums over the row, then the row again. */
static void build_layer_grad_input(struct kernel_build *build)
{
    struct matrix_params p = read_norm(build);
    if (!matrix_fits(build, p)) {
        return;
    }
    struct dense_rows *rows;
    struct wave_program *program = dense_rows_create("layer_norm_grad_input", &rows);
    double elements = (double)p.rows * (double)p.columns;
    uint64_t dy = kernel_program_tensor(program, "dy", elements * p.in_bytes);
    uint64_t x = kernel_program_tensor(program, "x", elements * p.in_bytes);
    uint64_t gamma = kernel_program_tensor(program, "gamma", (double)p.columns * p.in_bytes);
    uint64_t dx = kernel_program_tensor(program, "dx", elements * p.in_bytes);
    uint32_t vector = p.columns % 4 == 0 ? 4 : 1;
    rows->rows = p.rows;
    rows->columns = p.columns;
    rows->threads = rows->lanes_per_row = NORM_THREADS;
    rows->start_issue = 30;
    rows->scalar_count = 2;
    rows->scalars[0] = kernel_program_tensor(program, "mean", (double)p.rows * 4);
    rows->scalars[1] = kernel_program_tensor(program, "rstd", (double)p.rows * 4);
    program->registers_per_lane = 32;
    program->lds_bytes = 16;
    struct dense_pass *sums = add_pass(rows, vector, 1, 5 + 3 * widen_slots(p.in_bytes), 0);
    struct dense_pass *apply = add_pass(rows, vector, 1,
                                        6 + 3 * widen_slots(p.in_bytes) + narrow_slots(p.in_bytes), 0);
    for (struct dense_pass *pass = sums; pass <= apply; pass++) {
        add_operand(pass, gamma, p.in_bytes, false, true);
        add_operand(pass, x, p.in_bytes, false, false);
        add_operand(pass, dy, p.in_bytes, false, false);
    }
    add_operand(apply, dx, p.in_bytes, true, false);
    sums->after = shuffle_tree(build->machine->lanes, 2, 2,
                               0); /* two BlockReduceSum: shuffles, LDS, shuffles */
    sums->after.issue *= 2;
    sums->after.latency_cycles *= 2;
    sums->after.barriers = 5;
    dense_rows_finish(program, build->machine);
    program->flops = 11 * elements;
    add_general(build, program);
    kernel_value_per_time(build, 3 * matrix_bytes(p) * 1e-6, "TB/s");
}

/* GammaBetaBackwardCUDAKernelTemplate: strips of 32 columns, tiles of rows by the number of rows; 8 rows (32 in the
 * partial form) of both tensors in flight per lane. */
struct gamma_launch {
    uint32_t height, rows_per_tile;
    uint64_t splits;
    bool partial;
};

static struct gamma_launch gamma_launch(struct matrix_params p, const struct kernel_machine *machine)
{
    uint64_t strips = ceil_div(p.columns, 32);
    if (p.rows > 64 * 1024 && p.columns / 32 < machine->units / 2) {
        uint64_t most = 64 * 1024 / 2 / strips;
        return (struct gamma_launch){ 1, 32, max_u64(1, min_u64(most, ceil_div(p.rows, 32))), true };
    }
    if (p.rows < 64) {
        return (struct gamma_launch){ 1, 8, 1, true };
    }
    uint32_t height = p.rows < 128 ? 8 : p.rows < 256 ? 16 : 32;
    return (struct gamma_launch){ height, 8 * height, 1, false };
}

static void build_layer_grad_weight(struct kernel_build *build)
{
    struct matrix_params p = read_norm(build);
    if (!matrix_fits(build, p)) {
        return;
    }
    const struct kernel_machine *machine = build->machine;
    struct gamma_launch launch = gamma_launch(p, machine);
    struct dense_columns *columns;
    struct wave_program *program = dense_columns_create("layer_norm_grad_weight", &columns);
    double elements = (double)p.rows * (double)p.columns;
    columns->rows = p.rows;
    columns->columns = p.columns;
    columns->width = 32;
    columns->height = launch.height;
    columns->vector = 1;
    columns->unroll = launch.rows_per_tile / launch.height;
    columns->wave_stride = columns->unroll;
    columns->unroll_stride = 1;
    columns->split_stride = launch.rows_per_tile;
    columns->trip_stride = launch.rows_per_tile * launch.splits;
    columns->operand_count = 2;
    columns->operands[0].base = kernel_program_tensor(program, "dy", elements * p.in_bytes);
    columns->operands[1].base = kernel_program_tensor(program, "x", elements * p.in_bytes);
    columns->operands[0].bytes = columns->operands[1].bytes = p.in_bytes;
    columns->scalar_count = 2;
    columns->scalars[0] = kernel_program_tensor(program, "mean", (double)p.rows * 4);
    columns->scalars[1] = kernel_program_tensor(program, "rstd", (double)p.rows * 4);
    columns->valu = 4 + 2 * widen_slots(p.in_bytes);
    columns->access_issue = 4; /* with a shuffle of the row's mean or rstd */
    columns->trip_issue = 12;
    columns->partial = launch.partial;
    program->registers_per_lane = launch.partial ? 100 : 31;
    if (!launch.partial) {
        columns->after = shuffle_tree(launch.height, 2, 2, 0);
        columns->after.barriers = 1;
        columns->after.lds_bytes += machine->lanes * 16;
        program->lds_bytes = 33 * launch.height * 8;
    }
    columns->result_count = 2;
    columns->meeting.splits = (uint32_t)launch.splits;
    for (uint32_t i = 0; i < 2; i++) {
        double result_rows = launch.partial ? (double)launch.splits : 1;
        columns->results[i].bytes = launch.partial ? 4 : p.in_bytes;
        columns->results[i].base = kernel_program_tensor(program, i == 0 ? "dgamma" : "dbeta",
                                                         result_rows * (double)p.columns *
                                                             columns->results[i].bytes);
    }
    dense_columns_finish(program, machine);
    program->flops = 5 * elements;
    add_general(build, program);
    if (launch.splits > 1) {
        for (int i = 0; i < 2; i++) {
            struct wave_program *sum = reduce_columns(launch.splits, p.columns, 4, p.in_bytes, machine);
            sum->initial_cache = WAVE_CACHE_STATE_PREDECESSOR;
            sum->predecessor = (struct wave_span){ kernel_tensor_address(0),
                                                   (uint32_t)(launch.splits * p.columns * 4) };
            sum->predecessor_bytes = launch.splits * p.columns * 4;
            kernel_plan_add(build, sum, 1);
        }
    }
    kernel_value_per_time(build, 2 * matrix_bytes(p) * 1e-6, "TB/s");
}

/* ---- softmax ---- */

enum softmax_style { SOFTMAX_AUTO, SOFTMAX_WAVE, SOFTMAX_REGISTERS, SOFTMAX_LDS, SOFTMAX_BLOCK };
#define SOFTMAX_STYLES "auto|wave|registers|lds|block"
#define EXP_SLOTS 7.0
/* IEEE division, not by a reciprocal: quotient, remainder, a range check (special, like the reciprocal) and a branch. */
#define DIVIDE_SLOTS 13.0
#define DIVIDE_SPECIAL 2.0
/* A maximum, and widening two-byte values by shifts, run on the pipe of half rate. */
#define MAXIMUM_SLOTS 2.0

/* host_softmax: a wave (part) a row up to 1,024 columns and 4 KiB; then a workgroup a row that keeps it in registers (up
 * to 9 values a lane), in LDS (up to 48 KiB), or reads it three times. */
static enum softmax_style softmax_style(struct matrix_params p)
{
    uint64_t row_bytes = p.columns * p.in_bytes;
    if (p.columns <= 1024 && row_bytes <= 4096) {
        return SOFTMAX_WAVE;
    }
    if (ceil_div(p.columns, 1024) < 10) {
        return SOFTMAX_REGISTERS;
    }
    return row_bytes % 16 == 0 && row_bytes < 48 * 1024 - 128 ? SOFTMAX_LDS : SOFTMAX_BLOCK;
}

static struct dense_combine block_tree(uint32_t lanes, uint32_t waves)
{
    struct dense_combine tree = shuffle_tree(lanes, 1, 1, 0);
    if (waves > 1) { /* results of the waves through LDS, then once more by shuffles */
        struct dense_combine again = shuffle_tree(waves, 1, 1, 0);
        tree.issue += again.issue + 8;
        tree.lds_bytes += again.lds_bytes;
        tree.valu += again.valu;
        tree.latency_cycles += again.latency_cycles + 60;
        tree.barriers = 2;
        tree.lds_bytes += lanes * 4;
    }
    return tree;
}

static void times(struct dense_combine *combine, uint32_t batch)
{
    combine->issue *= batch; /* rows of a batch are independent: slots add up, latencies do not */
    combine->valu *= batch;
    combine->lds_bytes *= batch;
}

/* Lanes, rows and vectors of a style. */
static void softmax_geometry(struct dense_rows *rows, struct wave_program *program, struct matrix_params p,
                             enum softmax_style style, uint32_t lanes, uint32_t *vector, uint32_t *in_flight)
{
    uint64_t width = next_pow2(p.columns);
    if (style == SOFTMAX_WAVE) {
        rows->threads = NORM_THREADS;
        rows->lanes_per_row = (uint32_t)min_u64(width, lanes);
        bool pairs = width <= 128 && 2 * lanes / rows->lanes_per_row <= 64; /* what one operation can span */
        rows->batch = pairs ? 2 : 1;
        *vector = 1;
        *in_flight = (uint32_t)ceil_div(width, rows->lanes_per_row);
        program->registers_per_lane = (uint32_t)min_u64(255, 20 + *in_flight * rows->batch);
        return;
    }
    rows->threads = rows->lanes_per_row = (uint32_t)max_u64(lanes, min_u64(width, 1024));
    rows->batch = 1;
    *vector = style == SOFTMAX_REGISTERS ? 1 : (uint32_t)max_u64(1, 16 / p.in_bytes);
    *in_flight = style == SOFTMAX_REGISTERS ? (uint32_t)ceil_div(p.columns, rows->threads) : 1;
    program->lds_bytes = 128 + (style == SOFTMAX_LDS ? (uint32_t)(p.columns * p.in_bytes) : 0);
}

static struct wave_program *softmax_forward(struct matrix_params p, enum softmax_style style, bool logarithm,
                                            const struct kernel_machine *machine)
{
    struct dense_rows *rows;
    struct wave_program *program = dense_rows_create("softmax_forward", &rows);
    double elements = (double)p.rows * (double)p.columns;
    uint64_t x = kernel_program_tensor(program, "x", elements * p.in_bytes);
    uint64_t y = kernel_program_tensor(program, "y", elements * p.out_bytes);
    uint32_t vector, in_flight;
    rows->rows = p.rows;
    rows->columns = p.columns;
    rows->start_issue = 50;
    softmax_geometry(rows, program, p, style, machine->lanes, &vector, &in_flight);
    bool again = style == SOFTMAX_BLOCK; /* the row is read in every pass */
    uint32_t lds = style == SOFTMAX_LDS ? p.in_bytes : 0;
    double widen = widen_slots(p.in_bytes), divide = logarithm ? 1 : DIVIDE_SLOTS;
    bool keeps_exp = style == SOFTMAX_WAVE; /* the others compute the exponential again in the last pass */
    struct dense_pass *maximum = add_pass(rows, vector, in_flight, MAXIMUM_SLOTS + 2 * widen, 0);
    struct dense_pass *sum = add_pass(rows, vector, in_flight, 1 + EXP_SLOTS + (keeps_exp ? 0 : widen), 1);
    double last = divide + narrow_slots(p.out_bytes) + (keeps_exp || logarithm ? 0 : EXP_SLOTS);
    struct dense_pass *write = add_pass(rows, vector, in_flight, last + (keeps_exp ? 0 : widen),
                                        logarithm   ? 0
                                        : keeps_exp ? DIVIDE_SPECIAL
                                                    : 1 + DIVIDE_SPECIAL);
    if (style == SOFTMAX_WAVE) {
        maximum->access_issue = write->access_issue = 8; /* single elements, each with its bounds check at half rate */
    }
    add_operand(maximum, x, p.in_bytes, false, false);
    if (again) {
        add_operand(sum, x, p.in_bytes, false, false);
        add_operand(write, x, p.in_bytes, false, false);
    }
    add_operand(write, y, p.out_bytes, true, false);
    maximum->element_lds_bytes = sum->element_lds_bytes = write->element_lds_bytes = lds;
    maximum->after = sum->after = block_tree(min_u32(rows->lanes_per_row, machine->lanes),
                                             rows->lanes_per_row / machine->lanes);
    times(&maximum->after, rows->batch);
    times(&sum->after, rows->batch);
    dense_rows_finish(program, machine);
    program->flops = 5 * elements;
    return program;
}

static void build_softmax(struct kernel_build *build)
{
    struct matrix_params p = read_matrix(build);
    if (matrix_fits(build, p)) {
        add_flushed(build, softmax_forward(p, softmax_style(p), false, build->machine));
        kernel_value_per_time(build, 2 * matrix_bytes(p) * 1e-6, "TB/s");
    }
}

static enum softmax_style checked_style(struct kernel_build *build, struct matrix_params p, int style)
{
    if (style == SOFTMAX_AUTO) {
        return softmax_style(p);
    }
    if (style == SOFTMAX_WAVE && p.columns > 1024) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "style=wave holds at most 1024 columns, cols=%llu: use block",
                    (unsigned long long)p.columns);
    } else if (style == SOFTMAX_REGISTERS && p.columns > 32 * 1024) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "style=registers holds at most 32768 columns, cols=%llu: use block",
                    (unsigned long long)p.columns);
    } else if (style == SOFTMAX_LDS) {
        kernel_require_lds(build, 128 + p.columns * p.in_bytes);
    }
    return (enum softmax_style)style;
}

static void build_softmax_forward(struct kernel_build *build)
{
    struct matrix_params p = read_typed_matrix(build);
    int style = kernel_param_choice_or(build, "style", SOFTMAX_STYLES, SOFTMAX_AUTO, NULL);
    bool logarithm = kernel_param_integer_or(build, "log", 0, 1, 0, NULL) == 1;
    if (!matrix_fits(build, p)) {
        return;
    }
    enum softmax_style chosen = checked_style(build, p, style);
    if (kernel_build_ok(build)) {
        add_general(build, softmax_forward(p, chosen, logarithm, build->machine));
        kernel_value_per_time(build, (double)p.rows * (double)p.columns * (p.in_bytes + p.out_bytes) * 1e-6,
                              "TB/s");
    }
}

/* softmax_warp_backward (both tensors held) or cunn_SoftMaxBackward (read twice): sum over the row, then the result.
 * dtype_in: of the gradient and the output; dtype_out: of the result. The sum of a logarithmic softmax needs the
 * gradient alone. */
static void build_softmax_backward(struct kernel_build *build)
{
    struct matrix_params p = read_typed_matrix(build);
    int style = kernel_param_choice_or(build, "style", "auto|wave|block", 0, NULL);
    bool logarithm = kernel_param_integer_or(build, "log", 0, 1, 0, NULL) == 1;
    if (!matrix_fits(build, p)) {
        return;
    }
    bool wave = style == 1 || (style == 0 && softmax_style(p) == SOFTMAX_WAVE);
    checked_style(build, p, wave ? SOFTMAX_WAVE : SOFTMAX_BLOCK);
    if (!kernel_build_ok(build)) {
        return;
    }
    const struct kernel_machine *machine = build->machine;
    struct dense_rows *rows;
    struct wave_program *program = dense_rows_create("softmax_backward", &rows);
    double elements = (double)p.rows * (double)p.columns;
    uint64_t dy = kernel_program_tensor(program, "dy", elements * p.in_bytes);
    uint64_t y = kernel_program_tensor(program, "y", elements * p.in_bytes);
    uint64_t dx = kernel_program_tensor(program, "dx", elements * p.out_bytes);
    uint32_t vector, in_flight;
    rows->rows = p.rows;
    rows->columns = p.columns;
    rows->start_issue = 30;
    softmax_geometry(rows, program, p, wave ? SOFTMAX_WAVE : SOFTMAX_BLOCK, machine->lanes, &vector,
                     &in_flight);
    if (wave) {
        program->registers_per_lane = min_u32(255, 20 + 2 * in_flight * rows->batch);
    } else {
        uint64_t most = min_u64(max_u64(p.columns / vector, 1),
                                1024); /* SoftMax_getBlockSize: under half of `most` doubles */
        uint64_t threads = 1;
        while (threads < most / 2) {
            threads *= 2;
        }
        rows->threads = rows->lanes_per_row = (uint32_t)max_u64(threads, machine->lanes);
        program->registers_per_lane = 56;
    }
    double widen = widen_slots(p.in_bytes);
    struct dense_pass *sum = add_pass(rows, vector, in_flight, 1 + 2 * widen, 0);
    add_operand(sum, dy, p.in_bytes, false, false);
    if (wave || !logarithm) {
        add_operand(sum, y, p.in_bytes, false, false);
    }
    sum->after = block_tree(min_u32(rows->lanes_per_row, machine->lanes),
                            rows->lanes_per_row / machine->lanes);
    times(&sum->after, rows->batch);
    double last = 2 + narrow_slots(p.out_bytes) + (logarithm ? EXP_SLOTS : 0) + (wave ? 0 : 2 * widen);
    struct dense_pass *write = add_pass(rows, vector, in_flight, last, logarithm ? 1 : 0);
    if (!wave) {
        add_operand(write, dy, p.in_bytes, false, false);
        add_operand(write, y, p.in_bytes, false, false);
    }
    add_operand(write, dx, p.out_bytes, true, false);
    dense_rows_finish(program, machine);
    program->flops = 4 * elements;
    add_general(build, program);
    kernel_value_per_time(build, elements * (2 * p.in_bytes + p.out_bytes) * 1e-6, "TB/s");
}

/* ---- the compiler's row kernels ---- */

/* A Triton persistent reduction holds rows of up to 1,024 elements in registers: 8 rows and 8 waves to a program, so a wave a
 * row, 16 B a lane and access, all in flight (a row a program would need 65,536 of them for 65,536 rows, 39 us of dispatch
 * where 17 are measured). Below 256 columns the compiler times programs of 1, 8 and 32 rows and keeps the fastest: 32 rows, so
 * that each lane has two accesses. Longer rows take the program and are read again. `moments` and `apply` are slots per
 * element. */
static void inductor_rows(struct kernel_build *build, const char *name, double moments, double apply,
                          double sfu, bool weight, uint32_t sums)
{
    struct matrix_params p = read_matrix(build);
    if (!matrix_fits(build, p)) {
        return;
    }
    const struct kernel_machine *machine = build->machine;
    struct dense_rows *rows;
    struct wave_program *program = dense_rows_create(name, &rows);
    double elements = (double)p.rows * (double)p.columns;
    uint64_t x = kernel_program_tensor(program, "x", elements * p.in_bytes);
    bool held = p.columns <= 1024;
    uint32_t vector = (uint32_t)min_u64(16 / p.in_bytes, ceil_div(p.columns, machine->lanes));
    rows->rows = p.rows;
    rows->columns = p.columns;
    rows->threads = 8 * machine->lanes;
    rows->lanes_per_row = held ? machine->lanes : rows->threads;
    if (p.columns < 256) {
        vector = 16 / p.in_bytes;
        rows->lanes_per_row = (uint32_t)min_u64(machine->lanes, max_u64(1, next_pow2(p.columns) / vector));
        rows->batch = 2;
    }
    rows->start_issue = 40;
    uint32_t in_flight = held ? (uint32_t)ceil_div(p.columns, (uint64_t)rows->lanes_per_row * vector) : 1;
    program->registers_per_lane = 32 + in_flight * vector * rows->batch;
    uint32_t waves = (uint32_t)max_u64(1, rows->lanes_per_row / machine->lanes);
    struct dense_pass *first = add_pass(rows, vector, in_flight, moments + widen_slots(p.in_bytes), 0);
    add_operand(first, x, p.in_bytes, false, false);
    first->after = block_tree(min_u32(rows->lanes_per_row, machine->lanes), waves);
    times(&first->after, sums * rows->batch);
    struct dense_pass *second = add_pass(
        rows, vector, in_flight, apply + narrow_slots(p.out_bytes) + (weight ? widen_slots(p.in_bytes) : 0),
        sfu);
    if (!held) {
        add_operand(second, x, p.in_bytes, false, false);
    }
    if (weight) {
        add_operand(second, kernel_program_tensor(program, "weight", (double)p.columns * p.in_bytes),
                    p.in_bytes, false, true);
    }
    add_operand(second, kernel_program_tensor(program, "y", elements * p.out_bytes), p.out_bytes, true,
                false);
    dense_rows_finish(program, machine);
    program->flops = (moments + apply) * elements;
    add_flushed(build, program);
    kernel_value_per_time(build, 2 * matrix_bytes(p) * 1e-6, "TB/s");
}

static void build_rmsnorm(struct kernel_build *build)
{
    inductor_rows(build, "rmsnorm", 1, 1, 0, false, 1);
}

/* Mean and variance (two sums over the held row), scale by one weight for both, exact GELU (25 and one), product. */
static void build_ln_gelu_mul(struct kernel_build *build)
{
    inductor_rows(build, "ln_gelu_mul", 5, 3 + 25 + 1 + 4, 1, true, 2); /* erf's selects at half rate: 4 more */
}

/* ---- losses ---- */

/* nll_loss_*_reduce_cuda_kernel_2d: ONE workgroup; a lane walks rows, reads a label, then the value at the label. */
struct nll {
    uint64_t rows, classes, trips, labels, values, result;
    uint32_t bytes, threads, lanes;
    bool backward;
};

static void nll_gather(const struct nll *nll, uint64_t first, uint64_t count, struct wave_op *op)
{
    for (uint64_t row = first; row < first + count; row++) {
        uint64_t label = splitmix64_at(1, row) % nll->classes;
        op_span_apart(op, nll->values + (row * nll->classes + label) * nll->bytes, nll->bytes);
    }
}

/* pc 1: labels, 2: values of the trip; then 3 barrier, 4 the sum by one lane. */
static void nll_next(const struct wave_program *program, const struct wave_window *window,
                     struct wave_state *state, struct wave_op *op)
{
    const struct nll *nll = program->context;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->pc = 1;
    }
    uint64_t first = state->trip * nll->threads + (uint64_t)state->wave * nll->lanes;
    uint64_t count = first < nll->rows ? min_u64(nll->lanes, nll->rows - first) : 0;
    bool looping = state->pc <= 2 && state->trip < min_u64(nll->trips, window->trip_limit) && count > 0;
    if (looping && state->pc == 1) {
        state->pc = 2;
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 8, 3, 0);
        op_span_apart(op, nll->labels + first * 8, count * 8);
        op_lanes(op, count);
        return;
    }
    if (looping) {
        state->pc = 1;
        state->trip++;
        op_begin(op, nll->backward ? WAVE_STORE : WAVE_LOAD, 0);
        op_work(op, 6, 8, 0);
        nll_gather(nll, first, count, op);
        op_lanes(op, count);
        op->work_units = 1;
        return;
    }
    if (state->pc <= 2 && !nll->backward) {
        state->pc = 3;
        op_begin(op, WAVE_BARRIER, 0);
        op_work(op, 6, 4, 0);
        op->lds_bytes = nll->lanes * 8;
        return;
    }
    if (state->pc == 3) { /* lane 0 adds the lanes' sums one after another */
        state->pc = 4;
        op_begin(op, state->wave == 0 ? WAVE_STORE : WAVE_COMPUTE, WAVE_NO_WAIT);
        if (state->wave == 0) {
            op_work(op, 2 * nll->threads, 2 * nll->threads, 4 * nll->threads);
            op_span_apart(op, nll->result, 8);
            op_lanes(op, 1);
        }
        return;
    }
    op_end(op);
}

static void nll_build(struct kernel_build *build, bool backward)
{
    uint64_t rows = kernel_param_integer(build, "rows", 1, ROWS_MAX);
    uint64_t classes = kernel_param_integer(build, "cols", 1, 1u << 30);
    uint32_t bytes = dense_param_bytes(build, "dtype", DENSE_FP32);
    dense_cache_param(build);
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create(backward ? "nll_backward" : "nll_forward",
                                                         sizeof(struct nll), nll_next);
    struct nll *nll = program->context;
    *nll = (struct nll){
        .rows = rows, .classes = classes, .bytes = bytes, .lanes = build->machine->lanes, .backward = backward
    };
    nll->threads = (uint32_t)max_u64(build->machine->lanes, min_u64(1024, next_pow2(max_u64(rows / 16, 32))));
    nll->trips = ceil_div(rows, nll->threads);
    nll->values = kernel_program_tensor(program, "values", (double)rows * (double)classes * bytes);
    nll->labels = kernel_program_tensor(program, "labels", (double)rows * 8);
    nll->result = kernel_program_tensor(program, "result", 8);
    kernel_program_grid(program, nll->threads, nll->threads, nll->lanes);
    program->work_units_total = ceil_div(rows, nll->lanes);
    program->trips_per_wave = nll->trips >= 64 ? nll->trips : 0;
    program->lds_bytes = backward ? 0 : nll->threads * 8;
    program->flops = (double)rows;
    add_general(build, program);
    kernel_value_per_time(build, (double)rows * 1e-3, "Grow/s");
}

static void build_nll_forward(struct kernel_build *build)
{
    nll_build(build, false);
}

static void build_nll_backward(struct kernel_build *build)
{
    nll_build(build, true);
}

#define CACHE_HELP "cache (flushed|own|clean|produced; flushed)"

const struct kernel_definition dense_reduction_kernels[] = {
    { "pointwise", "sum", "sum of all elements", "n, dtype", build_sum },
    { "pointwise", "sum_dim0", "sum over the outer dimension", "rows, cols, dtype", build_sum_dim0 },
    { "pointwise", "sum_dim1", "sum over the inner dimension", "rows, cols, dtype", build_sum_dim1 },
    { "pointwise", "layernorm", "layer norm with weight and bias", "rows, cols, dtype", build_layernorm },
    { "pointwise", "softmax", "softmax over the inner dimension", "rows, cols, dtype", build_softmax },
    { "inductor", "rmsnorm", "root mean square norm, one compiled kernel", "rows, cols, dtype",
      build_rmsnorm },
    { "inductor", "ln_gelu_mul", "gelu(layer_norm(x)) x, one compiled kernel", "rows, cols, dtype",
      build_ln_gelu_mul },
    { "reduction", "rows", "reduce the inner dimension",
      "rows (results), cols, dtype_in, dtype_out (as in), " CACHE_HELP, build_reduction_rows },
    { "reduction", "columns", "reduce the outer dimension",
      "rows, cols (results), dtype_in, dtype_out (as in), " CACHE_HELP, build_reduction_columns },
    { "reduction", "all", "reduce everything", "n, dtype_in, dtype_out (as in), " CACHE_HELP,
      build_reduction_all },
    { "norm", "layer_forward", "layer norm", "rows, cols, dtype, " CACHE_HELP, build_layer_forward },
    { "norm", "layer_grad_input", "layer norm: gradient of the input", "rows, cols, dtype, " CACHE_HELP,
      build_layer_grad_input },
    { "norm", "layer_grad_weight", "layer norm: gradients of weight and bias",
      "rows, cols, dtype, " CACHE_HELP, build_layer_grad_weight },
    { "norm", "softmax_forward", "softmax or log-softmax",
      "rows, cols, dtype_in, dtype_out (as in), style (" SOFTMAX_STYLES "; auto), log (0|1; 0), " CACHE_HELP,
      build_softmax_forward },
    { "norm", "softmax_backward", "gradient of softmax or log-softmax",
      "rows, cols, dtype_in, dtype_out (as in), style (auto|wave|block; auto), log (0|1; 0), " CACHE_HELP,
      build_softmax_backward },
    { "loss", "nll_forward", "negative log likelihood, mean over rows, one workgroup",
      "rows, cols (classes), dtype (fp32), " CACHE_HELP, build_nll_forward },
    { "loss", "nll_backward", "its gradient, scattered into a zeroed tensor, one workgroup",
      "rows, cols (classes), dtype (fp32), " CACHE_HELP, build_nll_backward },
    { NULL, NULL, NULL, NULL, NULL },
};
