/* Row numbers of all tables in one order, ahead of a sorted backward (FBGEMM, embedding_backward_template_helpers.cuh and
 * linearize_index_kernel): a thread a bag reads where the bag lies; then the wave takes its threads' bags one after the other,
 * learns each by shuffles, and its lanes read the bag's indices, add the table's first row, and write it and the bag. Of short
 * bags most lanes idle, and a wave is a chain of as many loads as it has lanes. */
#include "workloads/kernels/kernels_internal.h"

#define LINEARIZE_THREADS 1024
#define SHUFFLES 6 /* start (64 bits), bag, length, first row of the table (64 bits) */

struct linearize {
    uint64_t n, bags, offsets, indices, infos, rows;
    uint32_t index_bytes, lanes;
};

enum { LINEARIZE_OFFSETS, LINEARIZE_BAG, LINEARIZE_READ, LINEARIZE_INFO, LINEARIZE_ROW };

/* Bags are as equal as whole indices allow. */
static uint64_t bag_start(const struct linearize *k, uint64_t bag)
{
    return bag >= k->bags ? k->n : (uint64_t)((double)k->n / (double)k->bags * (double)bag);
}

/* Costs from the source at one instruction an operation; 64-bit address arithmetic counts twice. A shuffle holds the
 * shared-memory port as an access of 4 bytes a lane does. */
static void linearize_next(const struct wave_program *program, const struct wave_window *window,
                           struct wave_state *state, struct wave_op *op)
{
    const struct linearize *k = program->context;
    uint64_t first = state->workgroup * LINEARIZE_THREADS + (uint64_t)state->wave * k->lanes;
    uint64_t bags = first < k->bags ? min_u64(k->lanes, k->bags - first) : 0;
    if (state->pc == LINEARIZE_OFFSETS) {
        wave_first_trip(window, state);
        op_begin(op, bags > 0 ? WAVE_LOAD : WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, 10, 30, 80 + 2 * KERNEL_SPECIAL_CYCLES); /* a division for the table */
        op_span(op, k->offsets + first * 8, bags > 0 ? (bags + 1) * 8 : 0);
        op_lanes(op, bags);
        state->pc = LINEARIZE_BAG;
        return;
    }
    if (state->trip >= min_u64(k->lanes, window->trip_limit) && state->pc == LINEARIZE_BAG) {
        op_end(op);
        return;
    }
    uint64_t bag = first + state->trip, start = bag_start(k, bag), length = bag_start(k, bag + 1) - start;
    uint64_t done = state->r[0], count = min_u64(k->lanes, length - min_u64(done, length));
    switch (state->pc) {
    case LINEARIZE_BAG:
        op_begin(op, WAVE_COMPUTE, 0);
        op_work(op, 4 + SHUFFLES, 4, KERNEL_SHUFFLE_CYCLES + 8);
        op->lds_bytes = SHUFFLES * 4 * k->lanes;
        op->work_units = 1;
        state->r[0] = 0;
        state->trip += length == 0;
        state->pc = length == 0 ? LINEARIZE_BAG : LINEARIZE_READ;
        return;
    case LINEARIZE_READ:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 4, 10, 24);
        op_span(op, k->indices + (start + done) * k->index_bytes, count * k->index_bytes);
        break;
    case LINEARIZE_INFO: /* does not need what was read */
        op_begin(op, WAVE_STORE, WAVE_NO_WAIT);
        op_work(op, 1, 4, 8);
        op_span(op, k->infos + (start + done) * 4, count * 4);
        break;
    default:
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 2, 6, 10);
        op_span(op, k->rows + (start + done) * 8, count * 8);
        state->r[0] += count;
        break;
    }
    op_lanes(op, count);
    if (state->pc != LINEARIZE_ROW) {
        state->pc++;
        return;
    }
    bool more = state->r[0] < length;
    state->trip += !more;
    state->pc = more ? LINEARIZE_READ : LINEARIZE_BAG;
}

static void build_linearize(struct kernel_build *build)
{
    uint64_t bags = kernel_param_integer(build, "bags", 1, 1ull << 32);
    uint64_t n = kernel_param_integer(build, "n", 0, 1ull << 40);
    uint32_t index_bytes = kernel_param_choice_or(build, "index_bytes", "4|8", 1, NULL) == 0 ? 4 : 8;
    kernel_require_hbm(build, (double)n * (index_bytes + 12) + (double)bags * 8, "indices and rows");
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("linearised indices", sizeof(struct linearize),
                                                         linearize_next);
    struct linearize *k = program->context;
    *k = (struct linearize){
        .n = n, .bags = bags, .index_bytes = index_bytes, .lanes = build->machine->lanes
    };
    k->offsets = kernel_program_tensor(program, "offsets", ((double)bags + 1) * 8);
    k->indices = kernel_program_tensor(program, "indices", (double)n * index_bytes);
    k->infos = kernel_program_tensor(program, "bags of the indices", (double)n * 4);
    k->rows = kernel_program_tensor(program, "linear rows", (double)n * 8);
    program->registers_per_lane = 48;
    kernel_program_grid(program, bags, LINEARIZE_THREADS, k->lanes);
    program->work_units_total = program->workgroups * LINEARIZE_THREADS;
    program->l2_footprint_bytes = (double)n * (index_bytes + 12);
    kernel_program_plain(program);
    kernel_plan_add(build, program, 1);
}

const struct kernel_definition linearize_kernels[] = {
    { "tbe", "linearize", "row numbers of all tables in one order, ahead of a sorted backward",
      "bags (of all tables), n (indices), index_bytes (4|8; 8)", build_linearize },
    { .suite = NULL },
};
