/* Sparse features put into another order (FBGEMM, sparse_ops.cu: permute_2D_data_kernel, permute_indices_weights_kernel): 32
 * lanes a bag read where it goes, its length and, through the order of the features, where it comes from, and copy its indices
 * and weights. Of short bags most lanes idle, and a bag is a chain of four loads. */
#include "workloads/kernels/kernels_internal.h"

#define PERMUTE_THREADS 1024
#define BAG_LANES 32

struct permute {
    uint64_t features, batch, n, bags, order, in_offsets, out_offsets, in, out, in_weights, out_weights;
    uint32_t index_bytes, weight_bytes, lanes;
};

enum { PERMUTE_OUT, PERMUTE_ORDER, PERMUTE_IN, PERMUTE_READ, PERMUTE_WRITE };

/* Bags are as equal as whole indices allow. */
static uint64_t bag_start(const struct permute *k, uint64_t bag)
{
    return bag >= k->bags ? k->n : (uint64_t)((double)k->n / (double)k->bags * (double)bag);
}

/* The order of the features: backwards. */
static uint64_t source_bag(const struct permute *k, uint64_t bag)
{
    return (k->features - 1 - bag / k->batch) * k->batch + bag % k->batch;
}

/* The bags of the wave, `lanes` / 32 of them: first and count. */
static uint64_t wave_bags(const struct permute *k, const struct wave_program *program,
                          const struct wave_state *state, uint64_t *first)
{
    uint64_t bags = k->lanes / BAG_LANES;
    *first = min_u64(wave_index(program, state) * bags, k->bags);
    return min_u64(bags, k->bags - *first);
}

static uint64_t bag_length(const struct permute *k, uint64_t bag)
{
    return bag_start(k, bag + 1) - bag_start(k, bag);
}

/* Trip `trip` over the bags: 32 indices of each, of one side's indices and weights. Returns the lanes that have one. */
static uint64_t copy_spans(const struct permute *k, uint64_t first, uint64_t bags, uint64_t trip, bool from,
                           struct wave_op *op)
{
    uint64_t lanes = 0, done = trip * BAG_LANES;
    for (uint64_t bag = first; bag < first + bags; bag++) {
        uint64_t length = bag_length(k, bag), count = min_u64(BAG_LANES, length - min_u64(done, length));
        /* a source bag of like place has as many indices; the last ones are kept inside the tensor */
        uint64_t start = from ? min_u64(bag_start(k, source_bag(k, bag)), k->n - length) : bag_start(k, bag);
        op_span(op, (from ? k->in : k->out) + (start + done) * k->index_bytes, count * k->index_bytes);
        op_span(op, (from ? k->in_weights : k->out_weights) + (start + done) * k->weight_bytes,
                count * k->weight_bytes);
        lanes += count;
    }
    return lanes;
}

/* Costs from the source at one instruction an operation; 64-bit address arithmetic counts twice, a division by a variable 20. */
static void permute_next(const struct wave_program *program, const struct wave_window *window,
                         struct wave_state *state, struct wave_op *op)
{
    const struct permute *k = program->context;
    uint64_t first, bags = wave_bags(k, program, state, &first), longest = 0;
    (void)window;
    for (uint64_t bag = first; bag < first + bags; bag++) {
        longest = max_u64(longest, bag_length(k, bag));
    }
    bool over = state->pc >= PERMUTE_READ && state->trip * BAG_LANES >= longest;
    if (bags == 0 || over) {
        op_end(op);
        return;
    }
    op_begin(op, WAVE_LOAD, state->pc == PERMUTE_OUT ? WAVE_NO_WAIT : 0);
    op_lanes(op, k->lanes);
    switch (state->pc) {
    case PERMUTE_OUT:
        op_work(op, 8, 34, 100 + 2 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->out_offsets + first * 4, (bags + 1) * 4);
        state->pc = PERMUTE_ORDER;
        return;
    case PERMUTE_ORDER: /* does not need the offsets */
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 1, 4, 8);
        op_span(op, k->order + first / k->batch * 4, 4);
        state->pc = PERMUTE_IN;
        return;
    case PERMUTE_IN:
        op_work(op, 2, 6, 16);
        for (uint64_t bag = first; bag < first + bags; bag++) {
            op_span(op, k->in_offsets + source_bag(k, bag) * 4, 4);
        }
        op->work_units = longest == 0;
        state->pc = PERMUTE_READ;
        return;
    case PERMUTE_READ:
        op_work(op, 4, 10, 20);
        op_lanes(op, copy_spans(k, first, bags, state->trip, true, op));
        state->pc = PERMUTE_WRITE;
        return;
    default:
        op->kind = WAVE_STORE;
        op_work(op, 3, 6, 12);
        op_lanes(op, copy_spans(k, first, bags, state->trip, false, op));
        state->trip++;
        op->work_units = state->trip * BAG_LANES >= longest;
        state->pc = PERMUTE_READ;
        return;
    }
}

static void build_permute(struct kernel_build *build)
{
    uint64_t features = kernel_param_integer(build, "features", 1, 1000000);
    uint64_t batch = kernel_param_integer(build, "batch", 1, 1ull << 30);
    uint64_t n = kernel_param_integer(build, "n", 0, 1ull << 40);
    uint32_t index_bytes = kernel_param_choice_or(build, "index_bytes", "4|8", 1, NULL) == 0 ? 4 : 8;
    uint32_t weight_bytes = (uint32_t)kernel_param_integer_or(build, "weight_bytes", 0, 8, 0, NULL);
    kernel_require_hbm(build, 2 * (double)n * (index_bytes + weight_bytes), "the indices, twice");
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("permuted features", sizeof(struct permute),
                                                         permute_next);
    struct permute *k = program->context;
    *k = (struct permute){ .features = features,
                           .batch = batch,
                           .n = n,
                           .bags = features * batch,
                           .index_bytes = index_bytes,
                           .weight_bytes = weight_bytes,
                           .lanes = build->machine->lanes };
    k->order = kernel_program_tensor(program, "order", (double)features * 4);
    k->in_offsets = kernel_program_tensor(program, "offsets in", ((double)k->bags + 1) * 4);
    k->out_offsets = kernel_program_tensor(program, "offsets out", ((double)k->bags + 1) * 4);
    k->in = kernel_program_tensor(program, "indices in", (double)n * index_bytes);
    k->out = kernel_program_tensor(program, "indices out", (double)n * index_bytes);
    k->in_weights = kernel_program_tensor(program, "weights in", (double)n * weight_bytes);
    k->out_weights = kernel_program_tensor(program, "weights out", (double)n * weight_bytes);
    program->registers_per_lane = 32;
    kernel_program_grid(program, k->bags * BAG_LANES, PERMUTE_THREADS, k->lanes);
    program->work_units_total = ceil_div(k->bags, k->lanes / BAG_LANES);
    program->l2_footprint_bytes = 2 * (double)n * (index_bytes + weight_bytes);
    program->is_divisible = true;
    kernel_program_plain(program);
    kernel_plan_add(build, program, 1);
}

const struct kernel_definition permute_kernels[] = {
    { "tbe", "permute", "sparse features put into another order, 32 lanes a bag",
      "features, batch (bags of a feature), n (indices), index_bytes (4|8; 8), weight_bytes (0)",
      build_permute },
    { .suite = NULL },
};
