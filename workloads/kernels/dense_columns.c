/* A strip of columns by a workgroup that walks down the rows.
 * A wave's trip: the per-row values it needs, then `unroll` rows in flight, then the arithmetic. After the trips the
 * rows of lanes meet in LDS, and workgroups that share a strip meet in memory. */
#include "workloads/kernels/dense_internal.h"

/* Rows of lanes that one wave holds (narrow strips). */
static uint32_t rows_of_lanes(const struct dense_columns *columns)
{
    return (uint32_t)max_u64(1, columns->lanes / columns->width);
}

static uint32_t splits(const struct dense_columns *columns)
{
    return columns->meeting.splits > 1 ? columns->meeting.splits : 1;
}

static uint64_t split_of(const struct dense_columns *columns, const struct wave_state *state)
{
    return state->workgroup / columns->strips;
}

/* The row that row of lanes `y` reads in access `u` of a trip; may lie beyond the end. */
static uint64_t row_of(const struct dense_columns *columns, const struct wave_state *state, uint32_t y,
                       uint32_t u)
{
    return state->trip * columns->trip_stride + split_of(columns, state) * columns->split_stride +
           y * columns->wave_stride + u * columns->unroll_stride;
}

static uint64_t strip_columns(const struct dense_columns *columns, uint64_t strip, uint64_t *first)
{
    *first = strip * columns->width * columns->vector;
    return min_u64((uint64_t)columns->width * columns->vector, columns->columns - *first);
}

/* Spans of access `u` of all operands; returns how many rows of lanes are busy. */
static uint32_t access_spans(const struct dense_columns *columns, const struct wave_state *state, uint32_t u,
                             struct wave_op *op)
{
    uint64_t first, count = strip_columns(columns, state->workgroup % columns->strips, &first);
    uint32_t busy = 0, group = rows_of_lanes(columns);
    for (uint32_t i = 0; i < columns->operand_count; i++) {
        const struct dense_pass_operand *operand = &columns->operands[i];
        busy = 0;
        for (uint32_t y = state->wave * group; y < (state->wave + 1) * group && y < columns->height; y++) {
            uint64_t row = row_of(columns, state, y, u), index = row * columns->columns + first;
            if (row < columns->rows) {
                bool fits = busy == 0
                                ? op_span_apart(op, operand->base + index * operand->bytes,
                                                count * operand->bytes)
                                : op_span(op, operand->base + index * operand->bytes, count * operand->bytes);
                SIM_ASSERT(fits, "an access needs more than %d spans", WAVE_SPANS_MAX);
                busy++;
            }
        }
    }
    return busy;
}

/* Lanes 0..unroll-1 load the values of the wave's rows of a trip; one instruction per tensor. */
static void scalar_spans(const struct dense_columns *columns, const struct wave_state *state,
                         struct wave_op *op)
{
    uint64_t row = row_of(columns, state, state->wave * rows_of_lanes(columns), 0);
    if (row >= columns->rows) {
        return;
    }
    uint32_t lane_rows = rows_of_lanes(columns) < columns->height ? rows_of_lanes(columns) : columns->height;
    uint64_t count = min_u64((uint64_t)columns->unroll * lane_rows, columns->rows - row);
    for (uint32_t i = 0; i < columns->scalar_count; i++) {
        op_span_apart(op, columns->scalars[i] + row * 4, count * 4);
    }
}

/* One load op: accesses from r[0] on, as many as fit. False when none is left. */
static bool load_step(const struct dense_columns *columns, struct wave_state *state, struct wave_op *op)
{
    uint32_t per_access = columns->operand_count * rows_of_lanes(columns), busy = 0, instructions = 0;
    if (state->r[0] == 0) {
        scalar_spans(columns, state, op);
        op->issue_slots = (uint16_t)(columns->trip_issue + op->span_count);
    }
    while (state->r[0] < columns->unroll && op->span_count + per_access <= WAVE_SPANS_MAX) {
        uint32_t rows = access_spans(columns, state, (uint32_t)state->r[0]++, op);
        busy = rows > busy ? rows : busy;
        instructions += rows > 0 ? columns->operand_count : 0;
    }
    op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
    op->issue_slots = (uint16_t)(op->issue_slots + instructions * columns->access_issue);
    op_lanes(op, (uint64_t)busy * columns->width);
    return op->span_count > 0;
}

/* Accesses of a trip that have a row, for the wave's first row of lanes. */
static uint32_t busy_accesses(const struct dense_columns *columns, const struct wave_state *state)
{
    uint32_t count = 0;
    for (uint32_t u = 0; u < columns->unroll; u++) {
        count += row_of(columns, state, state->wave * rows_of_lanes(columns), u) < columns->rows;
    }
    return count;
}

/* r[0] cursor in the trip, r[1] set once the trip's loads are out. */
static bool trip_step(const struct dense_columns *columns, const struct wave_window *window,
                      struct wave_state *state, struct wave_op *op)
{
    while (state->trip < min_u64(columns->trips, window->trip_limit)) {
        if (state->r[0] < columns->unroll && load_step(columns, state, op)) {
            return true;
        }
        uint32_t busy = busy_accesses(columns, state);
        state->r[0] = 0;
        if (busy > 0) {
            op_begin(op, WAVE_COMPUTE, 0);
            op_work(op, 0, slots16((double)busy * columns->vector * columns->valu), 0);
            op_lanes(op, columns->lanes);
            op->work_units = 1;
            state->trip++;
            return true;
        }
        state->trip++;
    }
    return false;
}

static void result_step(const struct dense_columns *columns, const struct wave_state *state,
                        struct wave_op *op)
{
    uint64_t first, count = strip_columns(columns, state->workgroup % columns->strips, &first);
    uint64_t split = split_of(columns, state);
    bool stores = columns->partial || (state->wave == 0 && split + 1 == splits(columns));
    for (uint32_t i = 0; i < columns->result_count && stores; i++) {
        uint64_t row = columns->partial ? split * columns->height + state->wave * rows_of_lanes(columns) : 0;
        op_span_apart(op,
                      columns->results[i].base + (row * columns->columns + first) * columns->results[i].bytes,
                      count * columns->results[i].bytes);
    }
    op_begin(op, op->span_count > 0 ? WAVE_STORE : WAVE_COMPUTE, 0);
    op_work(op, 4, 0, 0);
    op_lanes(op, columns->width);
    op->work_units = 1;
}

/* pc: 0 start, 1 trips, 2 combine, 3 barriers, 4 meeting, 5 result, 6 end. */
static void columns_next(const struct wave_program *program, const struct wave_window *window,
                         struct wave_state *state, struct wave_op *op)
{
    const struct dense_columns *columns = program->context;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->pc = 1;
    }
    if (state->pc == 1) {
        if (trip_step(columns, window, state, op)) {
            return;
        }
        state->pc = 2;
    }
    if (state->pc == 2) {
        state->pc = 3;
        op_begin(op, WAVE_COMPUTE, 0);
        op_work(op, columns->start_issue + columns->after.issue, columns->after.valu,
                columns->after.latency_cycles);
        op->lds_bytes = columns->after.lds_bytes;
        return;
    }
    if (state->pc == 3) {
        if (state->r[2]++ < columns->after.barriers) {
            op_begin(op, WAVE_BARRIER, WAVE_NO_WAIT);
            op_work(op, 2, 0, 0);
            return;
        }
        state->pc = 4;
    }
    if (state->pc == 4) {
        if (!columns->partial &&
            dense_meeting_step(&columns->meeting, state->workgroup % columns->strips,
                               (uint32_t)split_of(columns, state), state->wave, program->waves_per_workgroup,
                               (uint64_t)columns->width * columns->vector, state->r[3]++, op)) {
            return;
        }
        state->pc = 5;
    }
    if (state->pc == 5) {
        state->pc = 6;
        result_step(columns, state, op);
        return;
    }
    op_end(op);
}

struct wave_program *dense_columns_create(const char *name, struct dense_columns **columns)
{
    struct wave_program *program = kernel_program_create(name, sizeof **columns, columns_next);
    *columns = program->context;
    return program;
}

/* Waves of a workgroup that have a row in a trip, summed over trips and splits: rows of lanes interleave in ways that
 * differ by kernel, so they are counted, not derived. */
static uint64_t busy_trips(const struct dense_columns *columns, uint32_t waves)
{
    uint64_t units = 0;
    for (uint32_t split = 0; split < splits(columns); split++) {
        for (uint32_t wave = 0; wave < waves; wave++) {
            uint64_t first = split * columns->split_stride +
                             (uint64_t)wave * rows_of_lanes(columns) * columns->wave_stride;
            units += first >= columns->rows ? 0 : ceil_div(columns->rows - first, columns->trip_stride);
        }
    }
    return units;
}

void dense_columns_finish(struct wave_program *program, const struct kernel_machine *machine)
{
    struct dense_columns *columns = program->context;
    columns->lanes = machine->lanes;
    SIM_ASSERT(columns->width <= columns->lanes, "program %s: strips of %u lanes", program->name,
               columns->width);
    columns->strips = ceil_div(columns->columns, (uint64_t)columns->width * columns->vector);
    columns->trips = ceil_div(columns->rows, columns->trip_stride);
    uint32_t waves = (uint32_t)ceil_div((uint64_t)columns->width * columns->height, columns->lanes);
    program->workgroups = columns->strips * splits(columns);
    program->waves_per_workgroup = waves;
    program->trips_per_wave = columns->trips >= 16 ? columns->trips : 0;
    program->work_units_total = columns->strips *
                                (busy_trips(columns, waves) + (uint64_t)splits(columns) * waves);
}
