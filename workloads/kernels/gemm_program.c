/* The wave program of a matrix product. One program serves every tile kernel: a workgroup owns output tiles, walks K with
 * `stages` of prefetch, feeds the matrix unit asynchronously and stores the tile. Three ways to bring operands:
 *
 * async:    whole tiles go to LDS in bulk (TMA, direct-to-LDS) and the matrix unit reads them there, so only bytes, matrix
 *           work and the depth of the prefetch matter. Kernels that fill LDS are persistent: as many workgroups as units,
 *           each with several tiles, whose loads run ahead across tiles.
 * copies:   rows of A, B or C that are not 16 B apart, or operands that the matrix unit cannot read from LDS as they lie.
 *           Lanes copy 4 to 16 B each into LDS, some steps ahead, with a barrier a step; matrix instructions take their
 *           operands from registers, at a part of the rate (`register_rate`).
 * register: the same where rows are 2 B apart, less than such a copy can move: loads pass registers, one step ahead.
 *
 * Neighbouring workgroups of a cluster share tiles: each loads its part and the hardware delivers it to all.
 * Where a tile is and which workgroup has it is gemm_walk.c's business. */
#include "workloads/kernels/gemm_walk_internal.h"
#include "workloads/kernels/dense_internal.h"
#include <math.h>
#include <stdlib.h>

#define SPANS_PER_OP 64u
#define DRAINED UINT64_MAX /* in r[4] */
#define PARTIAL_SPAN 512u /* bytes of a partial result that a wave's access covers */

/* Lines of an operand tile in memory: `count` pieces of `length` elements, `pitch` apart. */
struct lines {
    uint64_t first, count, length;
};

/* The part of an operand tile that this workgroup loads: along K-major rows, or rows of K. `from`, `extent`: the tile's
 * place along the other dimension and that dimension's size; `share` of `shares` in the cluster. */
static struct lines operand_lines(const struct gemm_operand *operand, const struct gemm_step *step, uint64_t from,
                                  uint64_t tile, uint64_t extent, uint32_t share, uint32_t shares)
{
    uint64_t end = min_u64(from + tile, extent);
    if (from >= end) {
        return (struct lines){ 0, 0, 0 };
    }
    if (operand->k_major) {
        uint64_t part = ceil_div(tile, shares), first = min_u64(end, from + share * part);
        uint64_t count = min_u64(part, end - first);
        return (struct lines){ first * operand->pitch + step->k, count, step->k_count };
    }
    uint64_t part = ceil_div(step->k_count, shares), first = min_u64(step->k_count, share * part);
    return (struct lines){ (step->k + first) * operand->pitch + from, min_u64(part, step->k_count - first),
                           end - from };
}

static struct lines a_lines(const struct gemm *gemm, const struct gemm_step *step)
{
    struct lines lines = operand_lines(&gemm->a, step, step->item.row, gemm->tile.m, step->item.row_end,
                                       step->item.rank_n, gemm->tile.cluster_n);
    lines.first += step->item.batch * gemm->a.batch_stride;
    return lines;
}

static struct lines b_lines(const struct gemm *gemm, const struct gemm_step *step)
{
    struct lines lines = operand_lines(&gemm->b, step, step->item.column, gemm->tile.n, gemm->n,
                                       step->item.rank_m, gemm->tile.cluster_m);
    lines.first += step->item.batch * gemm->b.batch_stride;
    return lines;
}

/* Lines [first, end) of the A and B lines together that a wave loads. */
static void wave_share(const struct gemm *gemm, uint32_t wave, uint64_t lines, uint64_t *first, uint64_t *end)
{
    *first = lines * wave / gemm->waves;
    *end = lines * (wave + 1) / gemm->waves;
}

/* ---- the program ----
 * r[0]: steps whose loads have all been issued lie below it. r[1]: next load op of step r[0]. r[2]: phase within the
 * current step. r[3]: next store op. r[4]: next part to read, r[5]: next op of it. Steps are numbered as the window has them. */
enum { PHASE_SETUP, PHASE_FILL, PHASE_STEP, PHASE_LOADS, PHASE_BARRIER, PHASE_EPILOGUE, PHASE_PARTS, PHASE_STORE, PHASE_DRAIN };

struct walk {
    const struct gemm *gemm;
    const struct wave_window *window;
    struct wave_state *state;
    struct wave_op *op;
    uint64_t limit; /* steps of this window */
};

static bool step_of(const struct walk *walk, uint64_t trip, struct gemm_step *step)
{
    const struct wave_window *window = walk->window;
    uint64_t left_out = trip >= window->left_out_first ? window->left_out : 0;
    return gemm_step_of(walk->gemm, walk->state->workgroup, trip + left_out, step);
}

/* Load ops that step `trip` takes in a wave. */
static uint64_t load_ops(const struct walk *walk, uint64_t trip)
{
    const struct gemm *gemm = walk->gemm;
    const struct wave_state *state = walk->state;
    struct gemm_step step;
    uint64_t first, end;
    if (!step_of(walk, trip, &step)) {
        return 0;
    }
    wave_share(gemm, state->wave, a_lines(gemm, &step).count + b_lines(gemm, &step).count, &first, &end);
    return ceil_div(end - first, SPANS_PER_OP);
}

/* The part-th op of the loads of a step. */
static void load_spans(const struct walk *walk, uint64_t trip, uint64_t part)
{
    const struct gemm *gemm = walk->gemm;
    const struct wave_state *state = walk->state;
    struct wave_op *op = walk->op;
    struct gemm_step step;
    uint64_t first, end;
    bool exists = step_of(walk, trip, &step);
    SIM_ASSERT(exists, "loads of step %llu, which does not exist", (unsigned long long)trip);
    struct lines a = a_lines(gemm, &step), b = b_lines(gemm, &step);
    wave_share(gemm, state->wave, a.count + b.count, &first, &end);
    first += part * SPANS_PER_OP;
    end = min_u64(end, first + SPANS_PER_OP);
    for (uint64_t i = first; i < end; i++) {
        bool of_a = i < a.count;
        const struct gemm_operand *operand = of_a ? &gemm->a : &gemm->b;
        const struct lines *lines = of_a ? &a : &b;
        uint64_t index = lines->first + (of_a ? i : i - a.count) * operand->pitch;
        op_span(op, operand->base + index * gemm->bytes, lines->length * gemm->bytes);
    }
    op->cache = gemm->style == GEMM_REGISTER ? WAVE_CACHE_L1 : WAVE_CACHE_L2;
}

/* Issue one load op of the steps below `target`; false when none is left. */
static bool issue_load(const struct walk *walk, uint64_t target)
{
    struct wave_state *state = walk->state;
    for (; state->r[0] < min_u64(target, walk->limit); state->r[0]++, state->r[1] = 0) {
        if (state->r[1] < load_ops(walk, state->r[0])) {
            load_spans(walk, state->r[0], state->r[1]++);
            op_begin(walk->op, WAVE_LOAD, WAVE_NO_WAIT);
            op_work(walk->op, walk->gemm->step_issue, walk->gemm->step_valu, 0);
            op_lanes(walk->op, walk->gemm->lanes);
            return true;
        }
    }
    return false;
}

/* Load ops issued for steps after `trip`: what may stay in flight while its data are used. */
static uint8_t loads_after(const struct walk *walk, uint64_t trip)
{
    uint64_t count = 0;
    for (uint64_t t = trip + 1; t < walk->state->r[0]; t++) {
        count += load_ops(walk, t);
    }
    return (uint8_t)min_u64(count, WAVE_NO_WAIT - 1);
}

static void matrix_step(const struct walk *walk)
{
    const struct gemm *gemm = walk->gemm;
    op_begin(walk->op, WAVE_COMPUTE, loads_after(walk, walk->state->trip));
    op_work(walk->op, 8, 0, 0);
    walk->op->wait_matrix = 1; /* the step before has left its buffer */
    walk->op->matrix_flops = gemm->step_flops;
    walk->op->matrix_dtype = gemm->dtype;
    walk->op->latency_cycles = gemm->step_latency;
    walk->op->work_units = 1;
    op_lanes(walk->op, gemm->lanes);
}

static uint64_t partial_bytes(const struct gemm *gemm)
{
    return 4ull * gemm->tile.m * gemm->tile.n;
}

/* A wave's share of the part that a workgroup left, as one op of loads or stores; false when `index` is beyond it. */
static bool partial_op(const struct walk *walk, uint64_t owner, uint64_t index, uint8_t kind)
{
    const struct gemm *gemm = walk->gemm;
    uint64_t share = ceil_div(partial_bytes(gemm), gemm->waves * PARTIAL_SPAN) * PARTIAL_SPAN;
    uint64_t first = walk->state->wave * share + index * SPANS_PER_OP * PARTIAL_SPAN;
    uint64_t end = min_u64((walk->state->wave + 1) * share, partial_bytes(gemm));
    if (first >= end) {
        return false;
    }
    end = min_u64(end, first + SPANS_PER_OP * PARTIAL_SPAN);
    for (uint64_t at = first; at < end; at += PARTIAL_SPAN) {
        op_span(walk->op, gemm->partial + owner * partial_bytes(gemm) + at, min_u64(PARTIAL_SPAN, end - at));
    }
    op_begin(walk->op, kind, WAVE_NO_WAIT);
    op_work(walk->op, 4, kind == WAVE_LOAD ? gemm->store_valu / 2 : 0, 0);
    walk->op->cache = WAVE_CACHE_L2;
    op_lanes(walk->op, gemm->lanes);
    return true;
}

/* Rows of the tile that a wave stores. */
static bool result_op(const struct walk *walk, const struct gemm_step *step)
{
    const struct gemm *gemm = walk->gemm;
    const struct gemm_item *item = &step->item;
    uint64_t first = min_u64(item->row_end, item->row + (uint64_t)gemm->tile.m * walk->state->wave / gemm->waves);
    uint64_t end = min_u64(item->row_end, item->row + (uint64_t)gemm->tile.m * (walk->state->wave + 1) / gemm->waves);
    uint64_t row = first + walk->state->r[3] * SPANS_PER_OP;
    if (row >= end || item->column >= gemm->n) {
        return false;
    }
    uint64_t columns = min_u64(gemm->tile.n, gemm->n - item->column);
    uint64_t parts = gemm->adds_up ? 1 : gemm->tile.split; /* that are results of their own */
    uint64_t slice = (gemm->group_count > 0 ? 0 : item->batch * parts) + (gemm->adds_up ? 0 : item->split);
    for (uint64_t r = row; r < min_u64(end, row + SPANS_PER_OP); r++) {
        op_span(walk->op, gemm->c + ((slice * gemm->m + r) * gemm->n + item->column) * gemm->c_bytes,
                columns * gemm->c_bytes);
    }
    op_begin(walk->op, WAVE_STORE, step->parts_before > 0 ? 0 : WAVE_NO_WAIT);
    op_work(walk->op, 4, 0, 0);
    op_lanes(walk->op, gemm->lanes);
    return true;
}

static bool store_step(const struct walk *walk, const struct gemm_step *step)
{
    bool more = step->part_of_tile ? partial_op(walk, step->run, walk->state->r[3], WAVE_STORE)
                                   : result_op(walk, step);
    walk->state->r[3] += more;
    return more;
}

/* Read what the workgroups before this one left of the tile. */
static bool part_step(const struct walk *walk, const struct gemm_step *step)
{
    struct wave_state *state = walk->state;
    for (; !step->part_of_tile && state->r[4] < step->parts_before; state->r[4]++, state->r[5] = 0) {
        if (partial_op(walk, step->run - 1 - state->r[4], state->r[5], WAVE_LOAD)) {
            state->r[5]++;
            return true;
        }
    }
    return false;
}

static void next_trip(struct wave_state *state)
{
    state->trip++;
    state->r[2] = PHASE_STEP;
    state->r[3] = state->r[4] = state->r[5] = 0;
}

static void epilogue(const struct walk *walk)
{
    const struct gemm *gemm = walk->gemm;
    op_begin(walk->op, WAVE_COMPUTE, WAVE_NO_WAIT);
    op_work(walk->op, 20, gemm->store_valu, 0);
    walk->op->wait_matrix = 1;
    walk->op->lds_bytes = 2 * gemm->tile.m * gemm->tile.n * gemm->c_bytes / gemm->waves;
}

/* One phase; true when it filled the op. */
static bool walk_phase(const struct walk *walk)
{
    const struct gemm *gemm = walk->gemm;
    struct wave_state *state = walk->state;
    struct gemm_step step;
    switch (state->r[2]) {
    case PHASE_SETUP:
        op_begin(walk->op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(walk->op, 20, 20, 0);
        walk->op->latency_cycles = gemm->setup;
        state->r[2] = PHASE_FILL;
        return true;
    case PHASE_FILL:
        if (issue_load(walk, state->trip + gemm->tile.stages - 1)) {
            return true;
        }
        state->r[2] = PHASE_STEP;
        return false;
    case PHASE_STEP:
        if (!step_of(walk, state->trip, &step)) {
            next_trip(state);
            return false;
        }
        matrix_step(walk);
        state->r[2] = PHASE_LOADS;
        return true;
    case PHASE_LOADS:
        if (issue_load(walk, state->trip + gemm->tile.stages)) {
            return true;
        }
        state->r[2] = gemm->style == GEMM_ASYNC ? PHASE_EPILOGUE : PHASE_BARRIER;
        return false;
    case PHASE_BARRIER:
        op_begin(walk->op, WAVE_BARRIER, loads_after(walk, state->trip + 1));
        op_work(walk->op, 4, 0, 0);
        walk->op->wait_matrix = 1;
        walk->op->lds_bytes = gemm->step_lds;
        state->r[2] = PHASE_EPILOGUE;
        return true;
    case PHASE_EPILOGUE:
        if (!step_of(walk, state->trip, &step) || !step.last) {
            next_trip(state);
            return false;
        }
        epilogue(walk);
        state->r[2] = PHASE_PARTS;
        return true;
    default: break;
    }
    bool exists = step_of(walk, state->trip, &step);
    SIM_ASSERT(exists, "store of an item that does not exist");
    if (state->r[2] == PHASE_PARTS) {
        if (part_step(walk, &step)) {
            return true;
        }
        state->r[2] = PHASE_STORE;
    }
    if (state->r[2] == PHASE_STORE) {
        if (store_step(walk, &step)) {
            return true;
        }
        state->r[2] = PHASE_DRAIN;
    }
    if (state->r[4] != DRAINED && gemm->drain > 0 && step_of(walk, state->trip + 1, &step)) {
        op_begin(walk->op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(walk->op, 4, 0, 0);
        walk->op->latency_cycles = gemm->drain;
        state->r[4] = DRAINED;
        return true;
    }
    next_trip(state);
    return false;
}

static void gemm_next(const struct wave_program *program, const struct wave_window *window,
                      struct wave_state *state, struct wave_op *op)
{
    const struct gemm *gemm = program->context;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->r[0] = state->trip;
        state->pc = 1;
    }
    struct walk walk = { gemm, window, state, op, min_u64(window->trip_limit, gemm->trips - window->left_out) };
    while (state->trip < walk.limit) {
        if (walk_phase(&walk)) {
            return;
        }
    }
    op_end(op);
}

/* ---- building ---- */

static void set_operand(struct gemm_operand *operand, struct wave_program *program, const char *name,
                        bool k_major, const struct gemm_problem *p, uint64_t other, uint64_t count)
{
    operand->k_major = k_major;
    operand->pitch = k_major ? p->k : other;
    operand->batch_stride = count > 1 ? p->k * other : 0;
    operand->base = kernel_program_tensor(program, name,
                                          (double)p->k * (double)other * (double)count * p->type.bytes);
}

/* Instructions per wave and step. async: a bulk copy per operand. copies: each copy has its bounds check and address, 6.
 * register: each access has those, its conversion and its LDS store, 28 in kernels for single elements. */
static void set_step_cost(struct gemm *gemm, const struct gemm_machine *machine, const struct gemm_problem *problem)
{
    const struct gemm_tile *tile = &gemm->tile;
    gemm->step_flops =
        (uint64_t)(gemm_step_cycles(machine, problem, tile) * problem->type.rate / gemm->waves);
    gemm->step_issue = 6;
    gemm->setup = (uint16_t)slots16(gemm_setup_cycles(problem));
    gemm->drain = (uint16_t)slots16(gemm_drain_cycles(machine, problem, tile));
    if (problem->type.dtype == WAVE_FP32) {
        gemm->step_flops += gemm->step_flops / 4; /* LDS reads, addresses and register banks: 16 slots beside 64 multiply-adds */
        gemm->step_latency = (uint16_t)slots16(gemm_step_cycles(machine, problem, tile)); /* of LDS; see gemm_select.c */
    }
    if (gemm->style == GEMM_ASYNC) {
        return;
    }
    double accesses = (double)(tile->m + tile->n) * tile->k * gemm->bytes /
                      (double)(gemm->waves * gemm->lanes * problem->width);
    double ops = (double)ceil_div(ceil_div(tile->m + tile->n, gemm->waves), SPANS_PER_OP);
    gemm->step_valu = slots16(accesses * (gemm->style == GEMM_REGISTER ? 28 : 6) / ops);
    uint64_t wide = max_u64(tile->m, tile->n), narrow = min_u64(tile->m, tile->n);
    gemm->step_lds = (uint32_t)((tile->m + tile->n + ceil_div(wide, 64) * (64 + narrow)) * tile->k *
                                gemm->bytes / gemm->waves);
}

struct wave_program *gemm_program_create(const struct gemm_machine *machine, const struct gemm_launch *launch)
{
    const struct gemm_problem *p = &launch->problem;
    const struct gemm_tile *tile = &launch->tile;
    struct wave_program *program = kernel_program_create("gemm", sizeof(struct gemm), gemm_next);
    struct gemm *gemm = program->context;
    uint32_t threads = gemm_threads(machine, tile);
    *gemm = (struct gemm){ .m = p->m, .n = p->n, .k = p->k, .batch = p->batch, .tile = *tile, .bytes = p->type.bytes,
                           .dtype = p->type.dtype, .style = p->style, .lanes = (uint32_t)machine->lanes };
    gemm->waves = (uint32_t)ceil_div(threads, gemm->lanes);
    set_operand(&gemm->a, program, "a", p->trans < GEMM_TT, p, p->m, p->batch);
    set_operand(&gemm->b, program, "b", p->trans == GEMM_NT || p->trans == GEMM_TT, p, p->n,
                p->group_count > 0 ? p->group_count : p->batch);
    bool parts_as_result = tile->split > 1 && !machine->split_in_kernel;
    gemm->c_bytes = parts_as_result ? 4 : p->type.out_bytes;
    gemm->c = kernel_program_tensor(
        program, "c", (double)p->m * (double)p->n * (double)p->batch * (parts_as_result ? tile->split : 1) * gemm->c_bytes);
    if (p->group_count > 0) {
        kernel_program_adopt(program, gemm_groups_create(gemm, p), free);
    }
    gemm_walk_init(gemm, machine, p, launch->workgroups);
    if (gemm->curve != NULL) {
        kernel_program_adopt(program, gemm->curve, free);
    }
    if (gemm->parts > 0) {
        gemm->partial = kernel_program_tensor(program, "partial", (double)gemm->parts * (double)partial_bytes(gemm));
    }
    set_step_cost(gemm, machine, p);
    gemm->store_valu = slots16((double)tile->m * tile->n / threads * (launch->bias ? 3.0 : 2.0));
    program->workgroups = gemm->workgroups;
    program->waves_per_workgroup = gemm->waves;
    program->registers_per_lane = gemm_registers(machine, tile);
    program->lds_bytes = gemm_tile_lds(p, tile);
    program->workgroups_per_unit_max = tile->resident;
    program->work_units_total = gemm_steps_total(gemm) * gemm->waves;
    /* Steps cost alike, so a sample may take any; workgroups with one tile more end later and may bound the kernel. */
    uint64_t trips = program->work_units_total / gemm->waves / program->workgroups;
    program->trips_per_wave = trips >= 8 ? trips : 0;
    program->longest_wave_trips = gemm_is_uneven(gemm) ? gemm->trips : 0;
    program->can_leave_out_trips = program->trips_per_wave == gemm->trips;
    double step_flops = 2.0 * tile->m * tile->n * tile->k * p->type.products;
    program->matrix_arithmetic = fmin(1, step_flops / ((double)gemm->step_flops * gemm->waves));
    program->flops = 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
    return program;
}
