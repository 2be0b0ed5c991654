/* index_put with accumulation over sorted indices of the last dimension, as PyTorch's gradient of indexing runs it
 * (aten/src/ATen/native/cuda/Indexing.cu, indexing_backward_kernel_stride_1): a wave per index and outer row finds whether
 * its index begins a run, adds the run's gradients with all lanes, and one lane updates the one element. Most lanes idle, and
 * the waves are so short that workgroup turnover and a chain of dependent loads are the time. */
#include "workloads/kernels/kernels_internal.h"

#define WAVES 4              /* indices a workgroup */
#define OUTER_MAX 65535      /* workgroups in the third dimension of a grid; more rows are walked in trips */
#define INDEX_BYTES 8
#define REDUCTION_STEPS 5    /* log2 of 32 lanes; one more on 64 */

struct put {
    uint64_t n, outer, row;  /* indices, outer rows, elements of an outer row of the result */
    uint64_t columns, depth; /* workgroups across the indices, and over the outer rows */
    uint32_t bytes;          /* of an element */
    uint32_t lanes;
    uint64_t sorted, order, gradient, result;
};

enum { PUT_START, PUT_KEY, PUT_BEFORE, PUT_BEHIND, PUT_ORDER, PUT_GRADIENT, PUT_RESULT, PUT_STORE };

/* Costs read from the source at one instruction an operation; 64-bit address arithmetic counts twice. */
static void put_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                     struct wave_op *op)
{
    const struct put *k = program->context;
    uint64_t index = state->workgroup % k->columns * WAVES + state->wave, z = state->workgroup / k->columns;
    if (state->pc == PUT_START) {
        wave_first_trip(window, state);
        op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, 8, 16, 20 + KERNEL_SPECIAL_CYCLES);
        state->pc = PUT_KEY;
        return;
    }
    uint64_t outer = z + state->trip * k->depth;
    if (index >= k->n || outer >= k->outer || state->trip >= window->trip_limit) {
        op_end(op);
        return;
    }
    op_begin(op, state->pc == PUT_STORE ? WAVE_STORE : WAVE_LOAD, 0);
    switch (state->pc) {
    case PUT_KEY:
        op_work(op, 2, 4, 8);
        op_span(op, k->sorted + index * INDEX_BYTES, INDEX_BYTES);
        op_lanes(op, k->lanes);
        state->pc = PUT_BEFORE;
        return;
    case PUT_BEFORE: /* does the run begin here? */
        op_work(op, 2, 4, 8);
        op_span(op, k->sorted + (index > 0 ? index - 1 : 0) * INDEX_BYTES, INDEX_BYTES);
        op_lanes(op, k->lanes);
        state->pc = PUT_BEHIND;
        return;
    case PUT_BEHIND: /* how long is it? */
        op_work(op, 3, 4, 8);
        op_span(op, k->sorted + min_u64(index + 1, k->n - 1) * INDEX_BYTES, INDEX_BYTES);
        op_lanes(op, k->lanes);
        state->pc = PUT_ORDER;
        return;
    case PUT_ORDER: /* behind the sum over lanes, which has nothing to add for runs below a wave */
        op_work(op, 4 + REDUCTION_STEPS, 10 + REDUCTION_STEPS, REDUCTION_STEPS * KERNEL_SHUFFLE_CYCLES);
        op_span(op, k->order + index * INDEX_BYTES, INDEX_BYTES);
        op_lanes(op, 1);
        state->pc = PUT_GRADIENT;
        return;
    case PUT_GRADIENT:
        op_work(op, 1, 6, 12);
        op_span(op, k->gradient + (outer * k->n + index) * k->bytes, k->bytes);
        op_lanes(op, 1);
        state->pc = PUT_RESULT;
        return;
    case PUT_RESULT: /* distinct indices, spread evenly over the row */
        op_work(op, 1, 4, 8);
        op_span(op, k->result + (outer * k->row + index * k->row / k->n) * k->bytes, k->bytes);
        op_lanes(op, 1);
        state->pc = PUT_STORE;
        return;
    default:
        op_work(op, 2, 3, 8);
        op_span(op, k->result + (outer * k->row + index * k->row / k->n) * k->bytes, k->bytes);
        op_lanes(op, 1);
        op->work_units = 1;
        state->pc = PUT_KEY;
        state->trip++;
        return;
    }
}

static void build_put_sorted(struct kernel_build *build)
{
    uint64_t n = kernel_param_integer(build, "n", 1, 1ull << 32);
    uint64_t outer = kernel_param_integer(build, "outer", 1, 1ull << 32);
    uint64_t row = kernel_param_integer(build, "row", 1, 1ull << 32);
    uint32_t bytes = kernel_dtype_bytes(kernel_param_dtype(build, "dtype"));
    kernel_require_hbm(build, (double)outer * (double)(row + n) * bytes, "result and gradients");
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("sorted index_put", sizeof(struct put), put_next);
    struct put *k = program->context;
    *k = (struct put){ .n = n, .outer = outer, .row = row, .bytes = bytes, .lanes = build->machine->lanes };
    k->columns = ceil_div(n, WAVES);
    k->depth = min_u64(outer, OUTER_MAX);
    k->sorted = kernel_program_tensor(program, "sorted indices", (double)n * INDEX_BYTES);
    k->order = kernel_program_tensor(program, "order", (double)n * INDEX_BYTES);
    k->gradient = kernel_program_tensor(program, "gradients", (double)outer * (double)n * bytes);
    k->result = kernel_program_tensor(program, "result", (double)outer * (double)row * bytes);
    program->registers_per_lane = 40;
    kernel_program_grid(program, k->columns * k->depth * WAVES * k->lanes, WAVES * k->lanes, k->lanes);
    program->work_units_total = n * outer;
    program->trips_per_wave = 0;
    program->l2_footprint_bytes = (double)outer * (double)(row + n) * bytes;
    kernel_plan_add(build, program, 1);
}

const struct kernel_definition index_kernels[] = {
    { "index", "put_sorted", "gradient of indexing the last dimension: sorted indices, a wave each",
      "n (indices), outer (rows), row (elements of a result's row), dtype (fp32|fp16|bf16)", build_put_sorted },
    { .suite = NULL },
};
