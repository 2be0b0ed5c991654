/* A row by some lanes of a workgroup, in passes with reductions between.
 * A wave's life: for each pass its groups of accesses (loads, then arithmetic and stores), then the pass's barriers;
 * then the row results, or the meeting of the workgroups that share a row. */
#include "workloads/kernels/dense_internal.h"

/* Where a wave stands; kept in state->r so that `next` stays a function of the state. */
enum { AT_PASS, AT_GROUP, AT_PHASE, AT_CURSOR };
enum { PHASE_LOAD, PHASE_USE, PHASE_COMBINE, PHASE_BARRIER };

struct place {
    uint64_t first_row, row_count; /* rows of this wave */
    uint32_t part;                 /* which part of the row this wave has */
    uint32_t split;
};

/* Which part of a row a wave has. Units deal waves to their SIMDs so that busy ones spread, and do not give every workgroup's
 * first wave to one of them: a layer norm issues 3.46 of 4 instructions a cycle while half of its waves find no element
 * (calib/data/h200/counters_torch.csv). The simulated unit deals by position, so the parts trade places instead. */
static uint32_t part_of(const struct dense_rows *rows, const struct wave_state *state)
{
    uint64_t turn = (state->workgroup * 0x9e3779b97f4a7c15u) >> 40;
    return (uint32_t)((state->wave + turn) % rows->waves_per_row);
}

static struct place place_of(const struct dense_rows *rows, const struct wave_state *state)
{
    uint32_t split = (uint32_t)(state->workgroup / rows->row_groups);
    uint64_t group = state->workgroup % rows->row_groups;
    uint64_t first = group * rows->rows_per_workgroup +
                     (uint64_t)(state->wave / rows->waves_per_row) * rows->rows_per_wave;
    uint64_t count = first >= rows->rows ? 0 : min_u64(rows->rows_per_wave, rows->rows - first);
    return (struct place){ first, count, part_of(rows, state), split };
}

static uint32_t splits(const struct dense_rows *rows)
{
    return rows->meeting.splits > 1 ? rows->meeting.splits : 1;
}

static uint64_t lanes_in_row(const struct dense_rows *rows)
{
    return min_u64(rows->lanes_per_row, rows->lanes);
}

/* Accesses that the lanes of a row make in a pass. */
static uint64_t access_count(const struct dense_rows *rows, const struct dense_pass *pass)
{
    return ceil_div(rows->columns, (uint64_t)rows->lanes_per_row * splits(rows) * pass->vector);
}

/* Columns [*first, *first + result) of one access. */
static uint64_t access_columns(const struct dense_rows *rows, const struct dense_pass *pass,
                               const struct place *place, uint64_t access, uint64_t *first)
{
    uint64_t step = (access * splits(rows) + place->split) * rows->lanes_per_row;
    *first = (step + (uint64_t)place->part * rows->lanes) * pass->vector;
    return *first >= rows->columns ? 0 : min_u64(lanes_in_row(rows) * pass->vector, rows->columns - *first);
}

/* The spans of one operand in one access, a row each; joined where rows lie end to end. */
static void operand_spans(const struct dense_rows *rows, const struct dense_pass *pass,
                          const struct place *place, const struct dense_pass_operand *operand,
                          uint64_t access, struct wave_op *op)
{
    uint64_t first, count = access_columns(rows, pass, place, access, &first);
    bool apart = true;
    for (uint64_t row = 0; row < (operand->shared ? min_u64(1, place->row_count) : place->row_count); row++) {
        uint64_t index = (operand->shared ? 0 : (place->first_row + row) * rows->columns) + first;
        bool fits = apart ? op_span_apart(op, operand->base + index * operand->bytes, count * operand->bytes)
                          : op_span(op, operand->base + index * operand->bytes, count * operand->bytes);
        SIM_ASSERT(fits, "an access needs more than %d spans", WAVE_SPANS_MAX);
        apart = false;
    }
}

/* Accesses of the group that have columns for this wave. */
static uint64_t group_accesses(const struct dense_rows *rows, const struct dense_pass *pass,
                               const struct place *place, uint64_t group)
{
    uint64_t first, count = 0;
    for (uint32_t i = 0; i < pass->in_flight && place->row_count > 0; i++) {
        count += access_columns(rows, pass, place, group * pass->in_flight + i, &first) > 0;
    }
    return count;
}

/* Add (access, operand) pairs from the cursor on until the op is full; false when nothing was left to add. */
static bool emit_accesses(const struct dense_rows *rows, const struct dense_pass *pass,
                          const struct place *place, struct wave_state *state, bool store, struct wave_op *op)
{
    uint64_t accesses = group_accesses(rows, pass, place, state->r[AT_GROUP]),
             pairs = accesses * pass->operand_count;
    uint32_t instructions = 0;
    while (state->r[AT_CURSOR] < pairs) {
        const struct dense_pass_operand *operand = &pass->operands[state->r[AT_CURSOR] % pass->operand_count];
        if (operand->store == store) {
            if (op->span_count + (operand->shared ? 1 : place->row_count) > WAVE_SPANS_MAX) {
                break;
            }
            uint64_t access = state->r[AT_GROUP] * pass->in_flight +
                              state->r[AT_CURSOR] / pass->operand_count;
            operand_spans(rows, pass, place, operand, access, op);
            instructions += operand->shared ? 1 : rows->batch;
        }
        state->r[AT_CURSOR]++;
    }
    op->issue_slots = (uint16_t)(op->issue_slots + instructions * pass->access_issue);
    op_lanes(op, ceil_div(lanes_in_row(rows) * place->row_count, rows->batch));
    return instructions > 0;
}

/* The arithmetic of a group, once, on the first op after its loads. */
static void group_work(const struct dense_rows *rows, const struct dense_pass *pass,
                       const struct place *place, uint64_t group, struct wave_op *op)
{
    uint64_t accesses = group_accesses(rows, pass, place, group);
    double elements = (double)accesses * pass->vector * rows->batch;
    op->valu_slots = (uint16_t)slots16(elements * pass->valu);
    op->sfu_slots = (uint16_t)slots16(elements * pass->sfu);
    op->latency_cycles = (uint16_t)slots16((double)accesses * pass->vector * pass->element_latency);
    op->lds_bytes = (uint32_t)(elements * rows->lanes) * pass->element_lds_bytes;
}

static void combine_work(const struct dense_combine *combine, bool idle, struct wave_op *op)
{
    uint32_t valu = idle && combine->idle_valu > 0 ? combine->idle_valu : combine->valu;
    op_work(op, combine->issue, valu, combine->latency_cycles);
    op->sfu_slots = (uint16_t)slots16(combine->sfu);
    op->lds_bytes = combine->lds_bytes;
}

/* The next op of the passes, or false when they are over. */
static bool pass_step(const struct dense_rows *rows, const struct place *place, struct wave_state *state,
                      struct wave_op *op)
{
    while (state->r[AT_PASS] < rows->pass_count) {
        const struct dense_pass *pass = &rows->passes[state->r[AT_PASS]];
        uint64_t groups = ceil_div(access_count(rows, pass), pass->in_flight);
        bool busy = state->r[AT_GROUP] < groups && group_accesses(rows, pass, place, state->r[AT_GROUP]) > 0;
        switch (state->r[AT_PHASE]) {
        case PHASE_LOAD:
            if (busy && emit_accesses(rows, pass, place, state, false, op)) {
                op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
                return true;
            }
            state->r[AT_CURSOR] = 0;
            state->r[AT_PHASE] = busy ? PHASE_USE : PHASE_COMBINE;
            state->pc = 1; /* the group's arithmetic is still to come */
            break;
        case PHASE_USE: {
            bool stores = emit_accesses(rows, pass, place, state, true, op);
            bool first = state->pc == 1;
            state->pc = 2;
            if (stores || first) {
                op_begin(op, stores ? WAVE_STORE : WAVE_COMPUTE, 0);
                if (first) {
                    group_work(rows, pass, place, state->r[AT_GROUP], op);
                }
                op_lanes(op, ceil_div(lanes_in_row(rows) * place->row_count, rows->batch));
                return true;
            }
            state->r[AT_CURSOR] = 0;
            state->r[AT_GROUP]++;
            state->r[AT_PHASE] = PHASE_LOAD;
            break;
        }
        case PHASE_COMBINE:
            op_begin(op, WAVE_COMPUTE, 0);
            combine_work(&pass->after, group_accesses(rows, pass, place, 0) == 0, op);
            state->r[AT_CURSOR] = 0;
            state->r[AT_PHASE] = PHASE_BARRIER;
            if (pass->after.issue + pass->after.valu + pass->after.latency_cycles > 0) {
                return true;
            }
            break;
        default:
            if (state->r[AT_CURSOR]++ < pass->after.barriers) {
                op_begin(op, WAVE_BARRIER, WAVE_NO_WAIT);
                op_work(op, 1, 0, 0);
                return true;
            }
            state->r[AT_PASS]++;
            state->r[AT_GROUP] = state->r[AT_PHASE] = state->r[AT_CURSOR] = 0;
            break;
        }
    }
    return false;
}

/* The results of the wave's rows, from the wave that holds them. */
static void result_spans(const struct dense_rows *rows, const struct place *place, struct wave_op *op)
{
    for (uint32_t i = 0; i < 2 && place->part == 0; i++) {
        op_span_apart(op, rows->results[i].base + place->first_row * rows->results[i].bytes,
                      place->row_count * rows->results[i].bytes);
    }
}

static bool last_split(const struct dense_rows *rows, const struct place *place)
{
    return place->split + 1 == splits(rows);
}

static void rows_next(const struct wave_program *program, const struct wave_window *window,
                      struct wave_state *state, struct wave_op *op)
{
    (void)window; /* rows are short: samples take workgroups */
    const struct dense_rows *rows = program->context;
    struct place place = place_of(rows, state);
    if (state->pc == 0) {
        state->pc = 1;
        for (uint32_t i = 0; i < rows->scalar_count; i++) {
            op_span_apart(op, rows->scalars[i] + place.first_row * 4, place.row_count * 4);
        }
        op_begin(op, op->span_count > 0 ? WAVE_LOAD : WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, rows->start_issue, 0, 0);
        op_lanes(op, op->span_count > 0 ? min_u64(place.row_count, rows->lanes) : rows->lanes);
        return;
    }
    if (pass_step(rows, &place, state, op)) {
        return;
    }
    uint64_t step = state->r[4]++, group = state->workgroup % rows->row_groups;
    if (dense_meeting_step(&rows->meeting, group, place.split, state->wave, program->waves_per_workgroup,
                           rows->rows_per_workgroup, step, op)) {
        return;
    }
    if (state->r[5]++ == 0) {
        if (last_split(rows, &place)) {
            result_spans(rows, &place, op);
        }
        op_begin(op, op->span_count > 0 ? WAVE_STORE : WAVE_COMPUTE, 0);
        op_work(op, 4, 0, 0); /* who stores, where */
        op_lanes(op, min_u64(place.row_count, rows->lanes));
        op->work_units = 1;
        return;
    }
    op_end(op);
}

struct wave_program *dense_rows_create(const char *name, struct dense_rows **rows)
{
    struct wave_program *program = kernel_program_create(name, sizeof **rows, rows_next);
    *rows = program->context;
    (*rows)->batch = 1;
    return program;
}

void dense_rows_finish(struct wave_program *program, const struct kernel_machine *machine)
{
    struct dense_rows *rows = program->context;
    rows->lanes = machine->lanes;
    SIM_ASSERT(rows->lanes_per_row > 0 && rows->lanes_per_row <= rows->threads,
               "program %s: %u lanes a row of %u", program->name, rows->lanes_per_row, rows->threads);
    rows->waves_per_row = (uint32_t)max_u64(1, rows->lanes_per_row / rows->lanes);
    rows->rows_per_wave = (uint32_t)max_u64(1, rows->lanes / rows->lanes_per_row) * rows->batch;
    uint32_t waves = (uint32_t)ceil_div(rows->threads, rows->lanes);
    rows->rows_per_workgroup = waves / rows->waves_per_row * rows->rows_per_wave;
    rows->row_groups = ceil_div(rows->rows, rows->rows_per_workgroup);
    for (uint32_t p = 0; p < rows->pass_count; p++) {
        SIM_ASSERT(rows->passes[p].vector > 0 && rows->passes[p].in_flight > 0,
                   "program %s: pass %u is empty", program->name, p);
    }
    kernel_program_grid(program, rows->row_groups * splits(rows) * rows->threads, rows->threads, rows->lanes);
    program->work_units_total = program->workgroups * program->waves_per_workgroup;
}

/* ---- meetings in memory ---- */

/* The fence between staging and counting in waits for the store to be acknowledged: a round trip to L2. */
#define FENCE_CYCLES 600u

static void stage(const struct dense_meeting *meeting, uint64_t group, uint32_t split, uint64_t items,
                  struct wave_op *op)
{
    op->kind = WAVE_STORE;
    op_span_apart(op, meeting->staging + (group * meeting->splits + split) * items * meeting->item_bytes,
                  items * meeting->item_bytes);
    op_lanes(op, min_u64(items, 32));
}

static void count_in(const struct dense_meeting *meeting, uint64_t group, struct wave_op *op)
{
    op->kind = WAVE_ATOMIC;
    op->atomic_type = WAVE_ATOMIC_INT;
    op->atomic_flags = WAVE_ATOMIC_RETURN;
    op->element_bytes = 4;
    op_span_apart(op, meeting->semaphores + group * 4, 4);
    op_lanes(op, 1);
}

/* Trip `trip` of the last workgroup's loop: `readers` staged results, dealt to its waves; the loop is serial. */
static void read_back(const struct dense_meeting *meeting, uint64_t group, uint64_t items, uint64_t trip,
                      uint32_t wave, uint32_t waves, struct wave_op *op)
{
    uint64_t first = trip * meeting->readers, count = min_u64(meeting->readers, meeting->splits - first);
    uint64_t from = count * wave / waves, to = count * (wave + 1) / waves, item = items * meeting->item_bytes;
    op->kind = WAVE_LOAD;
    op->wait_outstanding = 0; /* the loop adds what it has read before it reads on */
    op_work(op, 16, 6, 60); /* four values one by one, each at a 64-bit offset that it waits for */
    op_lanes(op, min_u64(to - from, 32));
    op_span_apart(op, meeting->staging + (group * meeting->splits + first + from) * item, (to - from) * item);
    if (to == from) {
        op->kind = WAVE_COMPUTE;
    }
}

/* Steps: 0 stage, 1 fence and barrier, 2 count in, 3 barrier; the last workgroup: its loop, then two barriers. */
bool dense_meeting_step(const struct dense_meeting *meeting, uint64_t group, uint32_t split, uint32_t wave,
                        uint32_t waves, uint64_t items, uint64_t step, struct wave_op *op)
{
    uint64_t trips = meeting->splits > 1 ? ceil_div(meeting->splits, meeting->readers) : 0;
    bool last = split + 1 == meeting->splits;
    if (meeting->splits <= 1 || step >= (last ? 4 + trips + 2 : 4)) {
        return false;
    }
    op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
    if (step < 4 && step % 2 == 0) {
        op_work(op, 6, 0, 0);
        if (wave == 0 && step == 0) {
            stage(meeting, group, split, items, op);
        } else if (wave == 0) {
            count_in(meeting, group, op);
        }
    } else if (step >= 4 && step < 4 + trips) {
        read_back(meeting, group, items, step - 4, wave, waves, op);
    } else {
        op_begin(op, WAVE_BARRIER, 0); /* for the counter's answer or what was read */
        op_work(op, 2, step > 4 ? 12 : 0, step == 1 ? FENCE_CYCLES : 0);
    }
    return true;
}
