/* tbe_fused: table-batched embedding as the public library structures it. fp16 weights, fp32 pooled rows and gradients,
 * 64-bit indices with offsets. Backward fuses row-wise Adagrad: linearise and sort, find the runs of equal rows, then
 * runs below a threshold by a wave each, longer ones in pieces of 1024 lookups by a workgroup each, joined by fp32
 * atomics and finished by a wave per run. */
#include "workloads/kernels/fix_internal.h"
#include <stdlib.h>
#include <string.h>

#define FUSED_SEED 1234 /* the measuring program's */
#define PIECE 1024      /* lookups of a long run that one workgroup sums */
#define THREADS 256
#define WIDTH_MAX 256   /* 8 elements a lane, 32 lanes */

/* The runs of one table that a launch takes, and for long ones the first piece of each. */
struct run_list {
    uint64_t count, pieces, lookups;
    uint64_t piece_stride; /* tbe/backward: workgroup w takes piece w * piece_stride of its table, modulo pieces */
    uint32_t *runs;
    uint32_t *first_piece; /* [count] */
};

struct fused {
    struct index_source *source;
    struct run_table *runs;
    struct run_list list;
    uint64_t tables, bags, length, rows;
    uint32_t width, lanes, active; /* active: lanes that hold 8 elements each */
    uint32_t weight_bytes;         /* of an element: 2; 4 in tbe/backward with fp32 tables */
    uint64_t weights, momentum, gradient, indices, offsets, output;
    uint64_t lists, pieces, segments, keys, values, sums;
    uint64_t run_keys, tables_info; /* tbe/backward: the rows of the runs, offsets and sizes of the tables */
    uint32_t rows_in_flight;        /* tbe/backward: gradient rows that a wave loads before it waits */
    bool ahead, adagrad;            /* metadata of the next run fetched ahead; momentum */
};

static void fused_row(const struct fused *k, struct wave_op *op, uint64_t table, uint64_t row)
{
    uint64_t bytes = (uint64_t)k->width * k->weight_bytes;
    op_span_apart(op, k->weights + (table * k->rows + row) * bytes, bytes);
    op_lanes(op, k->active);
}

/* Two 16-byte loads a lane, 32 bytes apart: each instruction touches every sector of the row. */
static void fused_gradient(const struct fused *k, struct wave_op *op, uint64_t table, uint64_t bag)
{
    uint64_t address = k->gradient + (bag * k->tables + table) * k->width * 4;
    op_span_apart(op, address, k->width * 4ull);
    op_span_apart(op, address, k->width * 4ull);
    op_lanes(op, k->active);
}

/* ---- forward ---- */

/* r[0]: lookups of the unrolled trip; r[1]: step within it. */
enum fused_forward_step { FUSED_START, FUSED_TRIP, FUSED_STORE, FUSED_END };

/* sm_90: 31 registers. Unrolled by 4, but only the second index is loaded ahead: seven waits per four rows. */
static const struct {
    int8_t index, row;      /* loaded by the step, -1: none */
    uint8_t issue, valu, latency;
} fused_steps[] = {
    { 0, -1, 8, 27, 62 }, { 1, 0, 2, 12, 27 }, { -1, 1, 1, 18, 35 }, { 2, -1, 4, 26, 37 },
    { -1, 2, 1, 12, 28 }, { 3, -1, 2, 16, 14 }, { -1, 3, 1, 12, 28 },
};
static const struct {
    int8_t index, row;
    uint8_t issue, valu, latency;
} fused_single[] = { { 0, -1, 3, 20, 28 }, { -1, 0, 1, 13, 36 } };

static void fused_forward_next(const struct wave_program *program, const struct wave_window *window,
                               struct wave_state *state, struct wave_op *op)
{
    const struct fused *k = program->context;
    uint64_t wave = wave_index(program, state), table = wave / k->bags, bag = wave % k->bags;
    if (wave >= k->tables * k->bags) {
        op_end(op);
        return;
    }
    uint64_t limit = min_u64(k->length, window->trip_limit);
    if (state->pc == FUSED_START) {
        wave_first_trip(window, state);
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 15, 51, 137 + 5 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->offsets + wave * 8, 16);
        op_lanes(op, k->lanes);
        state->pc = FUSED_TRIP;
        return;
    }
    if (state->pc == FUSED_TRIP && state->r[1] == 0 && state->trip >= limit) {
        state->pc = FUSED_STORE;
    }
    if (state->pc == FUSED_TRIP) {
        if (state->r[1] == 0) {
            state->r[0] = limit - state->trip >= 4 ? 4 : 1;
        }
        bool unrolled = state->r[0] == 4;
        uint64_t s = state->r[1]++;
        int index = unrolled ? fused_steps[s].index : fused_single[s].index;
        int row = unrolled ? fused_steps[s].row : fused_single[s].row;
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, unrolled ? fused_steps[s].issue : fused_single[s].issue,
                unrolled ? fused_steps[s].valu : fused_single[s].valu,
                unrolled ? fused_steps[s].latency : fused_single[s].latency);
        if (index >= 0) {
            op_span(op, k->indices + (wave * k->length + state->trip + (uint64_t)index) * 8, 8);
            op_lanes(op, k->lanes);
        }
        if (row >= 0) {
            fused_row(k, op, table, index_source_row(k->source, table, bag, state->trip + (uint64_t)row));
            op->work_units = 1;
        }
        if (state->r[1] == (unrolled ? sizeof fused_steps / sizeof fused_steps[0]
                                     : sizeof fused_single / sizeof fused_single[0])) {
            state->r[1] = 0;
            state->trip += state->r[0];
        }
        return;
    }
    if (state->pc == FUSED_STORE) {
        /* Eight 4-byte stores a lane in a row, 32 bytes between lanes: a sector gets all of its bytes within 32 cycles.
         * Model: they leave as one write. (As eight partial writes of every sector the kernel would be bound by the L2's
         * write rate, a third slower than measured.) */
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 16, 48, 126 + 5 * KERNEL_SPECIAL_CYCLES + 7 * 3);
        op_span(op, k->output + (bag * k->tables + table) * k->width * 4, k->width * 4ull);
        op_lanes(op, k->active);
        state->pc = FUSED_END;
        return;
    }
    op_end(op);
}

/* ---- the row update: Adagrad's momentum, then the weights ---- */

enum update_step { UPDATE_KEY, UPDATE_MOMENTUM, UPDATE_STORE_MOMENTUM, UPDATE_WEIGHT, UPDATE_STORE_WEIGHT, UPDATE_END };

/* sm_90: the row number, five shuffles for the sum of squares, momentum load and store, square root and division, then
 * the weights. */
static bool update_next(const struct fused *k, uint64_t table, uint64_t run, uint64_t *step, struct wave_op *op)
{
    uint64_t row = k->runs->rows[run], all_rows = table * k->rows + row;
    switch ((*step)++) {
    case UPDATE_KEY:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 3, 4, 6);
        op_span(op, k->keys + (table * k->runs->lookups + k->runs->starts[run]) * 4, 4);
        op_lanes(op, k->lanes);
        return true;
    case UPDATE_MOMENTUM:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 5, 30, 76 + 5 * KERNEL_SHUFFLE_CYCLES + 2 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->momentum + all_rows * 4, 4);
        op_lanes(op, k->lanes);
        return true;
    case UPDATE_STORE_MOMENTUM:
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 3, 6, 22);
        op_span(op, k->momentum + all_rows * 4, 4);
        op_lanes(op, 1);
        return true;
    case UPDATE_WEIGHT:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 13, 28, 98 + 3 * KERNEL_SPECIAL_CYCLES);
        fused_row(k, op, table, row);
        return true;
    case UPDATE_STORE_WEIGHT:
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 2, 20, 16);
        fused_row(k, op, table, row);
        return true;
    default:
        return false;
    }
}

/* ---- short runs: a wave each ---- */

/* pc 0: list entry, 1: segment bounds, 2: lookups, 3: update. r[0]: lookups of the trip, r[1]: step, r[2]: update step.
 * sm_90: 32 registers. Unrolled by 4, but only the second bag number is loaded ahead; each gradient row is waited for
 * before the next. A division by the bag count stands before each row. */
static const struct {
    int8_t value, row;
    uint8_t issue, valu, latency;
} short_steps[] = {
    { 0, -1, 7, 21, 50 }, { -1, 0, 1, 34, 100 }, { -1, 1, 3, 37, 88 }, { 2, -1, 4, 10, 17 },
    { -1, 2, 2, 35, 100 }, { 3, -1, 2, 8, 5 }, { -1, 3, 2, 35, 100 },
};
static const struct {
    int8_t value, row;
    uint8_t issue, valu, latency;
} short_single[] = { { 0, -1, 3, 11, 19 }, { -1, 0, 2, 35, 103 } };

static void fused_short_next(const struct wave_program *program, const struct wave_window *window,
                             struct wave_state *state, struct wave_op *op)
{
    const struct fused *k = program->context;
    uint64_t entry = wave_index(program, state), table = entry / k->list.count;
    if (table >= k->tables) {
        op_end(op);
        return;
    }
    uint64_t run = k->list.runs[entry % k->list.count], segment = table * k->runs->count + run;
    uint64_t limit = min_u64(run_table_length(k->runs, run), window->trip_limit);
    uint64_t first = table * k->runs->lookups + k->runs->starts[run];
    switch (state->pc) {
    case 0:
        wave_first_trip(window, state);
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 12, 12, 37 + 3 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->lists + entry * 4, 4);
        op_lanes(op, k->lanes);
        state->pc = 1;
        return;
    case 1:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 3, 4, 12);
        op_span(op, k->segments + segment * 4, segment + 1 < k->tables * k->runs->count ? 8 : 4);
        op_lanes(op, k->lanes);
        state->pc = 2;
        return;
    case 2:
        if (state->r[1] > 0 || state->trip < limit) {
            if (state->r[1] == 0) {
                state->r[0] = limit - state->trip >= 4 ? 4 : 1;
            }
            bool unrolled = state->r[0] == 4;
            uint64_t s = state->r[1]++;
            int value = unrolled ? short_steps[s].value : short_single[s].value;
            int row = unrolled ? short_steps[s].row : short_single[s].row;
            op_begin(op, WAVE_LOAD, 0);
            op_work(op, unrolled ? short_steps[s].issue : short_single[s].issue,
                    unrolled ? short_steps[s].valu : short_single[s].valu,
                    (unrolled ? short_steps[s].latency : short_single[s].latency) +
                        (row >= 0 ? 2u * KERNEL_SPECIAL_CYCLES : 0u));
            if (value >= 0) {
                uint64_t count = unrolled && value == 0 ? 2 : 1;
                op_span(op, k->values + (first + state->trip + (uint64_t)value) * 4, count * 4);
                op_lanes(op, k->lanes);
            }
            if (row >= 0) {
                fused_gradient(k, op, table, run_table_bag(k->runs, k->source, table, run,
                                                           state->trip + (uint64_t)row));
                op->work_units = 1;
            }
            if (state->r[1] == (unrolled ? sizeof short_steps / sizeof short_steps[0]
                                         : sizeof short_single / sizeof short_single[0])) {
                state->r[1] = 0;
                state->trip += state->r[0];
            }
            return;
        }
        state->pc = 3;
        __attribute__((fallthrough));
    default:
        if (!update_next(k, table, run, &state->r[2], op)) {
            op_end(op);
        }
    }
}

/* ---- long runs: a workgroup a piece ---- */

enum long_step { LONG_SEARCH, LONG_RUN, LONG_BOUNDS, LONG_VALUE, LONG_ROW, LONG_MEET, LONG_SUM, LONG_END };

/* First global piece of long run `entry`. */
static uint64_t long_first_piece(const struct fused *k, uint64_t entry)
{
    return entry / k->list.count * k->list.pieces + k->list.first_piece[entry % k->list.count];
}

/* r[0], r[1]: the search's bounds, then r[0] the entry found; trip: lookups of the wave. sm_90: 32 registers, 8 KiB of
 * shared memory. A binary search over the runs' first pieces (5 instructions, 35 cycles and a load a step), the piece's
 * bounds by three loads in a row, then a lookup a trip: 3 instructions to the bag number (9), 37 to its row (139), 12
 * after (41). At the end the waves' sums meet in shared memory and are added to the run's row by atomics. */
static void fused_long_next(const struct wave_program *program, const struct wave_window *window,
                            struct wave_state *state, struct wave_op *op)
{
    const struct fused *k = program->context;
    uint64_t piece = state->workgroup, entry = state->r[0], table = entry / k->list.count;
    uint64_t run = k->list.runs[entry % k->list.count];
    uint32_t waves = program->waves_per_workgroup;
    switch (state->pc) {
    case LONG_SEARCH:
        if (state->r[2] == 0) {
            wave_first_trip(window, state);
            state->r[1] = k->tables * k->list.count - 1;
        }
        if (state->r[0] < state->r[1]) {
            uint64_t middle = (state->r[0] + state->r[1] + 1) / 2;
            op_begin(op, WAVE_LOAD, state->r[2] == 0 ? WAVE_NO_WAIT : 0);
            op_work(op, state->r[2] == 0 ? 4 : 2, state->r[2] == 0 ? 13 : 8,
                    state->r[2] == 0 ? 49 + 2 * KERNEL_SPECIAL_CYCLES : 40);
            op_span(op, k->pieces + middle * 4, 4);
            op_lanes(op, k->lanes);
            state->r[2] = 1;
            if (long_first_piece(k, middle) <= piece) {
                state->r[0] = middle;
            } else {
                state->r[1] = middle - 1;
            }
            return;
        }
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 5, 9, 30);
        op_span(op, k->lists + entry * 4, 4);
        op_span_apart(op, k->pieces + entry * 4, 4);
        op_lanes(op, k->lanes);
        state->pc = LONG_RUN;
        return;
    case LONG_RUN:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 4, 6, 24);
        op_span(op, k->segments + (table * k->runs->count + run) * 4,
                table * k->runs->count + run + 1 < k->tables * k->runs->count ? 8 : 4);
        op_lanes(op, k->lanes);
        state->pc = LONG_VALUE;
        return;
    case LONG_VALUE: {
        uint64_t from = (piece - long_first_piece(k, entry)) * PIECE;
        uint64_t rows = min_u64(PIECE, run_table_length(k->runs, run) - from);
        uint64_t trips = state->wave < rows ? ceil_div(rows - state->wave, waves) : 0;
        if (state->trip < min_u64(trips, window->trip_limit)) {
            bool first = state->trip == window->trip_first;
            op_begin(op, WAVE_LOAD, 0);
            op_work(op, first ? 7 : 3, first ? 25 : 12, first ? 56 + 2 * KERNEL_SPECIAL_CYCLES : 35);
            state->r[3] = from + state->trip * waves + state->wave;
            op_span(op, k->values + (table * k->runs->lookups + k->runs->starts[run] + state->r[3]) * 4, 4);
            op_lanes(op, k->lanes);
            state->pc = LONG_ROW;
            return;
        }
        op_begin(op, WAVE_BARRIER, 0);
        op_work(op, 7, 18, 69 + KERNEL_SPECIAL_CYCLES);
        op->lds_bytes = k->active * 32;
        state->pc = LONG_SUM;
        return;
    }
    case LONG_ROW:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 2, 35, 102 + 2 * KERNEL_SPECIAL_CYCLES);
        fused_gradient(k, op, table, run_table_bag(k->runs, k->source, table, run, state->r[3]));
        op->work_units = 1;
        state->trip++;
        state->pc = LONG_VALUE;
        return;
    case LONG_SUM: {
        uint64_t first = (uint64_t)state->wave * k->lanes;
        state->pc = LONG_END;
        if (first < k->width) {
            uint64_t count = min_u64(k->lanes, k->width - first);
            op_begin(op, WAVE_ATOMIC, WAVE_NO_WAIT);
            op_work(op, 22, 46, 129 + 2 * 33);
            op->lds_bytes = (uint32_t)count * 4 * waves;
            op->atomic_type = WAVE_ATOMIC_FP32;
            op->element_bytes = 4;
            op_span(op, k->sums + (entry * k->width + first) * 4, count * 4);
            op_lanes(op, count);
            return;
        }
        __attribute__((fallthrough));
    }
    default:
        op_end(op);
    }
}

/* ---- finalise: a wave per long run ---- */

/* sm_90: 27 registers; list entry, segment bound and row number in a row, the sums by eight 4-byte loads a lane. */
static void fused_finalise_next(const struct wave_program *program, const struct wave_window *window,
                                struct wave_state *state, struct wave_op *op)
{
    const struct fused *k = program->context;
    (void)window;
    uint64_t entry = wave_index(program, state), table = entry / k->list.count;
    if (table >= k->tables) {
        op_end(op);
        return;
    }
    uint64_t run = k->list.runs[entry % k->list.count];
    switch (state->pc) {
    case 0:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 5, 10, 41 + 3 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->lists + entry * 4, 4);
        op_lanes(op, k->lanes);
        break;
    case 1:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 1, 13, 33 + KERNEL_SPECIAL_CYCLES);
        op_span(op, k->segments + (table * k->runs->count + run) * 4, 4);
        op_lanes(op, k->lanes);
        break;
    case 2:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 8, 4, 20);
        for (uint32_t j = 0; j < 8; j++) {
            op_span_apart(op, k->sums + entry * k->width * 4, k->width * 4ull);
        }
        op_lanes(op, k->active);
        break;
    default:
        if (!update_next(k, table, run, &state->r[0], op)) {
            op_end(op);
        } else if (state->r[0] == UPDATE_END) {
            op->work_units = 1;
        }
        return;
    }
    state->pc++;
}

/* ---- tbe/backward: the kernels of the public library, as its sources read ---- */

/* What stands between the library and the measuring program's re-expression above: 64-bit keys; the table's offsets, sizes
 * and placements read through memory at three places of a run's chain; bag numbers a wave's width at a time, dealt out by
 * shuffles; a grid of at most 64 workgroups a unit that walks the runs; 512 threads resident, which is what its launch
 * bound leaves the compiler. Instruction counts are those of the measuring program where the work is the same; rounding to
 * fp16 is stochastic (ten rounds of Philox).
 * The chain of a run: its row and bounds; the first lookup's number; the table; its lookups' numbers; the table's column;
 * the gradient rows, each waited for; the table again; momentum; the weights.
 * fix wave-per-row (the study's, by its public change): metadata by scalar loads, fetched while the run before is summed, so
 * that no table stands in the chain; two gradient rows in flight; a quarter of the registers, so that four times the threads
 * are resident. What is left of the chain: gradient rows, momentum, weights. */
#define LIBRARY_GRID 64       /* workgroups a unit */
#define LIBRARY_RESIDENT 512  /* threads a unit */
#define ROWS_AHEAD 2
#define RESIDENT_FACTOR 4 /* of fix wave-per-row */
#define TABLE_INFO_BYTES 64
#define PHILOX_VALU 60

enum library_step { LIB_RUN, LIB_INFO, LIB_TABLE, LIB_NUMBERS, LIB_COLUMN, LIB_ROWS, LIB_PLACE, LIB_MOMENTUM,
                    LIB_STORE_MOMENTUM, LIB_WEIGHT, LIB_STORE_WEIGHT };

/* A row four elements a lane: so many bytes a load. */
static void library_row(const struct fused *k, uint64_t address, uint32_t element_bytes, struct wave_op *op)
{
    uint64_t bytes = (uint64_t)k->width * element_bytes, reach = 4ull * element_bytes * k->lanes;
    for (uint64_t at = 0; at < bytes; at += reach) {
        op_span_apart(op, address + at, min_u64(reach, bytes - at));
    }
    op_lanes(op, min_u64(k->lanes, k->width / 4));
}

static uint32_t library_vectors(const struct fused *k)
{
    return (uint32_t)ceil_div(k->width, 4ull * k->lanes);
}

static void library_weights(const struct fused *k, uint64_t table, uint64_t row, struct wave_op *op)
{
    library_row(k, k->weights + (table * k->rows + row) * k->width * k->weight_bytes, k->weight_bytes, op);
}

static void library_table(const struct fused *k, uint64_t table, struct wave_op *op)
{
    op_begin(op, WAVE_LOAD, 0);
    op_work(op, 3, 8, 24);
    op_span(op, k->tables_info + table * TABLE_INFO_BYTES, TABLE_INFO_BYTES / 2);
    op_lanes(op, k->lanes);
}

static void library_metadata(const struct fused *k, uint64_t entry, struct wave_op *op)
{
    uint64_t table = entry / k->list.count, run = k->list.runs[entry % k->list.count], at = table * k->runs->count + run;
    op_span_apart(op, k->run_keys + at * 8, 8);
    op_span_apart(op, k->segments + at * 4, at + 1 < k->tables * k->runs->count ? 8 : 4);
}

/* Lookups that the wave's next gradient load covers. */
static uint64_t library_group(const struct fused *k, uint64_t done, uint64_t length)
{
    return min_u64(k->rows_in_flight, length - done);
}

static void library_rows(const struct fused *k, uint64_t table, uint64_t run, uint64_t first, uint64_t count,
                         struct wave_op *op)
{
    uint32_t vectors = library_vectors(k);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bag = run_table_bag(k->runs, k->source, table, run, first + i);
        library_row(k, k->gradient + (bag * k->tables + table) * k->width * 4, 4, op);
    }
    op_work(op, (uint32_t)(count * (2 + vectors)), (uint32_t)(count * (14 + 8 * vectors)),
            (uint32_t)(50 + 10 * count + 2 * KERNEL_SHUFFLE_CYCLES));
    op->work_units = (uint32_t)count;
}

/* The row's update from step `pc` on (LIB_PLACE at its start); the step that follows, LIB_RUN behind the last. */
static uint32_t library_update(const struct fused *k, uint64_t table, uint64_t run, uint32_t pc, struct wave_op *op)
{
    uint64_t row = table * k->rows + k->runs->rows[run];
    uint32_t vectors = library_vectors(k), rounding = k->weight_bytes == 2 ? PHILOX_VALU : 0;
    switch (pc) {
    case LIB_PLACE:
        library_table(k, table, op);
        return k->adagrad ? LIB_MOMENTUM : LIB_WEIGHT;
    case LIB_MOMENTUM: /* sum of squares over the wave first */
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 5, 30, 76 + 5 * KERNEL_SHUFFLE_CYCLES + 2 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->momentum + row * 4, 4);
        op_lanes(op, 1);
        return LIB_STORE_MOMENTUM;
    case LIB_STORE_MOMENTUM:
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 3, 6, 22);
        op_span(op, k->momentum + row * 4, 4);
        op_lanes(op, 1);
        return LIB_WEIGHT;
    case LIB_WEIGHT:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 12 + vectors, 20 + 8 * vectors, 98 + 3 * KERNEL_SPECIAL_CYCLES);
        library_weights(k, table, k->runs->rows[run], op);
        return LIB_STORE_WEIGHT;
    default:
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 3 + vectors, 12 + 8 * vectors + rounding, 16 + rounding);
        library_weights(k, table, k->runs->rows[run], op);
        return LIB_RUN;
    }
}

/* trip: runs of the wave; r[0]: lookups summed. */
static void library_short_next(const struct wave_program *program, const struct wave_window *window,
                               struct wave_state *state, struct wave_op *op)
{
    const struct fused *k = program->context;
    uint64_t waves = program->workgroups * program->waves_per_workgroup, all = k->tables * k->list.count;
    if (state->r[1] == 0) {
        state->r[1] = 1;
        wave_first_trip(window, state);
    }
    uint64_t entry = wave_index(program, state) + state->trip * waves;
    if (entry >= all || state->trip >= window->trip_limit) {
        op_end(op);
        return;
    }
    uint64_t table = entry / k->list.count, run = k->list.runs[entry % k->list.count];
    uint64_t length = run_table_length(k->runs, run), first = table * k->runs->lookups + k->runs->starts[run];
    bool ahead = k->ahead && state->r[2] > 0; /* this run's metadata came with the run before */
    switch (state->pc) {
    case LIB_RUN:
        state->r[0] = 0;
        if (!ahead) {
            op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
            op_work(op, 12, 24, 60 + 3 * KERNEL_SPECIAL_CYCLES);
            library_metadata(k, entry, op);
            op_lanes(op, k->lanes);
            state->pc = LIB_INFO;
            return;
        }
        __attribute__((fallthrough));
    case LIB_INFO:
        if (!ahead) {
            op_begin(op, WAVE_LOAD, 0);
            op_work(op, 4, 10, 30);
            op_span(op, k->values + first * 4, 4);
            op_lanes(op, k->lanes);
            state->pc = k->ahead ? LIB_ROWS : LIB_TABLE;
            return;
        }
        state->pc = LIB_ROWS;
        break;
    case LIB_TABLE:
        library_table(k, table, op);
        state->pc = LIB_NUMBERS;
        return;
    case LIB_NUMBERS:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 3, 12, 24);
        op_span(op, k->values + (first + state->r[0]) * 4, min_u64(k->lanes, length - state->r[0]) * 4);
        op_lanes(op, min_u64(k->lanes, length - state->r[0]));
        state->pc = LIB_COLUMN;
        return;
    case LIB_COLUMN:
        library_table(k, table, op);
        state->pc = LIB_ROWS;
        return;
    case LIB_PLACE:
    case LIB_MOMENTUM:
    case LIB_STORE_MOMENTUM:
    case LIB_WEIGHT:
    case LIB_STORE_WEIGHT:
        state->trip += state->pc == LIB_STORE_WEIGHT;
        state->pc = library_update(k, table, run, state->pc, op);
        return;
    default:
        break;
    }
    /* LIB_ROWS */
    uint64_t count = library_group(k, state->r[0], length);
    op_begin(op, WAVE_LOAD, 0);
    library_rows(k, table, run, state->r[0], count, op);
    if (k->ahead && state->r[0] == 0 && entry + waves < all && state->trip + 1 < window->trip_limit) {
        uint64_t next = entry + waves, next_run = k->list.runs[next % k->list.count];
        library_metadata(k, next, op);
        op_span_apart(op, k->values + (next / k->list.count * k->runs->lookups + k->runs->starts[next_run]) * 4, 4);
        state->r[2] = 1;
    }
    state->r[0] += count;
    if (state->r[0] < length) {
        state->pc = !k->ahead && state->r[0] % k->lanes == 0 ? LIB_NUMBERS : LIB_ROWS;
    } else {
        state->pc = !k->ahead ? LIB_PLACE : k->adagrad ? LIB_MOMENTUM : LIB_WEIGHT;
    }
}

/* A workgroup a piece of a long run, its waves a contiguous part each; as many waves as 1,024 threads are, fewer where their
 * sums would not fit in shared memory. The waves' sums meet there, halved stage by stage. A run of one piece is then updated by
 * its first wave; of several, each adds its sum to the run's by atomics, an element in four at a time (x of all vectors, then y),
 * and counts itself off, and the last reads the sum and updates. pc as above, then the update's. trip: lookups of the wave;
 * r[1]: numbers at hand up to here; r[2]: stage of the meeting; r[3]: atomics issued. */
#define LIBRARY_LONG_THREADS 1024
#define LIBRARY_LONG_RESIDENT 1024 /* threads a unit: as its launch bound leaves it to the compiler */
enum library_long_step { LONG_LIST = 100, LONG_RUN_BOUNDS, LONG_FIRST, LONG_COLUMNS, LONG_NUMBERS, LONG_COLUMN, LONG_GRADIENT,
                         LONG_JOIN, LONG_ADD, LONG_COUNT, LONG_TAKE, LONG_END_STEP };

static void library_long_next(const struct wave_program *program, const struct wave_window *window,
                              struct wave_state *state, struct wave_op *op)
{
    const struct fused *k = program->context;
    uint32_t waves = program->waves_per_workgroup;
    uint64_t table = state->workgroup / k->list.pieces, entry = state->r[0];
    uint64_t piece = state->workgroup % k->list.pieces * k->list.piece_stride % k->list.pieces;
    if (state->pc == 0) { /* which run the piece is of: a list says so */
        wave_first_trip(window, state);
        uint64_t low = 0, high = k->list.count;
        while (high - low > 1) {
            uint64_t middle = (low + high) / 2;
            low = k->list.first_piece[middle] <= piece ? middle : low;
            high = k->list.first_piece[middle] <= piece ? high : middle;
        }
        state->r[0] = entry = low;
        state->pc = LONG_LIST;
    }
    uint64_t run = k->list.runs[entry], from = (piece - k->list.first_piece[entry]) * PIECE;
    uint64_t rows = min_u64(PIECE, run_table_length(k->runs, run) - from), share = ceil_div(rows, waves);
    uint64_t begin = min_u64(rows, state->wave * share), mine = min_u64(share, rows - begin);
    uint64_t limit = min_u64(mine, window->trip_limit), at = table * k->runs->count + run;
    uint64_t first = table * k->runs->lookups + k->runs->starts[run] + from + begin;
    op_lanes(op, k->lanes);
    switch (state->pc) {
    case LONG_LIST:
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 9, 22, 79 + 2 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->lists + (table * k->list.count + entry) * 4, 4);
        op_span_apart(op, k->pieces + (table * k->list.count + entry) * 4, 4);
        state->pc = LONG_RUN_BOUNDS;
        return;
    case LONG_RUN_BOUNDS:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 4, 6, 24);
        op_span_apart(op, k->run_keys + at * 8, 8);
        op_span_apart(op, k->segments + at * 4, at + 1 < k->tables * k->runs->count ? 8 : 4);
        state->pc = LONG_FIRST;
        return;
    case LONG_FIRST:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 4, 10, 30);
        op_span(op, k->values + (first - begin) * 4, 4);
        state->pc = LONG_COLUMNS;
        return;
    case LONG_COLUMNS:
        library_table(k, table, op);
        state->pc = LONG_NUMBERS;
        return;
    case LONG_NUMBERS:
        if (state->trip < limit) {
            op_begin(op, WAVE_LOAD, 0);
            op_work(op, 3, 12, 35);
            uint64_t count = min_u64(k->lanes, mine - state->trip);
            op_span(op, k->values + (first + state->trip) * 4, count * 4);
            op_lanes(op, count);
            state->r[1] = state->trip + count;
            state->pc = LONG_COLUMN;
            return;
        }
        op_begin(op, WAVE_BARRIER, 0);
        op_work(op, 3, 8, 30);
        op->lds_bytes = k->width * 4;
        state->pc = LONG_JOIN;
        return;
    case LONG_COLUMN:
        library_table(k, table, op);
        state->pc = LONG_GRADIENT;
        return;
    case LONG_GRADIENT: {
        uint64_t count = min_u64(library_group(k, state->trip, limit), state->r[1] - state->trip);
        op_begin(op, WAVE_LOAD, 0);
        library_rows(k, table, run, from + begin + state->trip, count, op);
        state->trip += count;
        state->pc = state->trip < min_u64(limit, state->r[1]) ? LONG_GRADIENT : LONG_NUMBERS;
        return;
    }
    case LONG_JOIN: {
        uint32_t left = waves >> ++state->r[2]; /* waves that add another's sum to their own */
        if (left > 0) {
            op_begin(op, WAVE_BARRIER, 0);
            op_work(op, 4, 10, 40);
            op->lds_bytes = state->wave < left ? 3 * k->width * 4 : 0;
            return;
        }
        if (state->wave > 0) {
            op_end(op);
            return;
        }
        state->pc = run_table_length(k->runs, run) > PIECE ? LONG_ADD : LIB_PLACE;
        op_begin(op, WAVE_COMPUTE, 0);
        op_work(op, 2, 4, 12);
        return;
    }
    case LONG_ADD: { /* lanes 16 bytes apart */
        uint32_t vectors = library_vectors(k), vector = (uint32_t)state->r[3] / 4, element = (uint32_t)state->r[3] % 4;
        uint64_t sum = k->sums + (table * k->list.count + entry) * k->width * 4 + vector * 16ull * k->lanes;
        op_begin(op, WAVE_ATOMIC, WAVE_NO_WAIT);
        op_work(op, 2, 4, 8);
        op->atomic_type = WAVE_ATOMIC_FP32;
        op->element_bytes = 4;
        op->lane_count = (uint32_t)min_u64(k->lanes, k->width / 4 - vector * (uint64_t)k->lanes);
        for (uint32_t lane = 0; lane < op->lane_count; lane++) {
            op->lane_address[lane] = sum + lane * 16ull + element * 4ull;
        }
        op_lanes(op, op->lane_count);
        state->pc = ++state->r[3] < 4ull * vectors ? LONG_ADD : LONG_COUNT;
        return;
    }
    case LONG_COUNT:
        op_begin(op, WAVE_ATOMIC, 0);
        op_work(op, 4, 4, 30);
        op->atomic_type = WAVE_ATOMIC_INT;
        op->atomic_flags = WAVE_ATOMIC_RETURN;
        op->element_bytes = 4;
        op_span(op, k->pieces + (table * k->list.count + entry) * 4, 4);
        op_lanes(op, 1);
        state->pc = from + PIECE < run_table_length(k->runs, run) ? LONG_END_STEP : LONG_TAKE;
        return;
    case LONG_TAKE:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 2, 6, 20);
        library_row(k, k->sums + (table * k->list.count + entry) * k->width * 4, 4, op);
        state->pc = LIB_PLACE;
        return;
    case LIB_PLACE:
    case LIB_MOMENTUM:
    case LIB_STORE_MOMENTUM:
    case LIB_WEIGHT:
    case LIB_STORE_WEIGHT:
        state->pc = library_update(k, table, run, state->pc, op);
        state->pc = state->pc == LIB_RUN ? LONG_END_STEP : state->pc;
        return;
    default:
        op_end(op);
    }
}

/* ---- building ---- */

struct fused_shape {
    uint64_t bags, tables, length, width, rows, threshold;
    uint64_t resident;      /* tbe/backward: threads a unit */
    uint32_t units;
    uint32_t parts;         /* this is one of so many like parts */
    bool library, wave_per_row, adagrad;
    uint32_t weight_bytes;
    bool zipf; /* skewed: runs differ in length */
    struct index_request request;
};

static double fused_lookups(const struct fused_shape *shape)
{
    return (double)shape->bags * (double)shape->tables * (double)shape->length;
}

/* The two programs of this file. Skewed indices without a generator are drawn as each one's tables had them drawn. */
struct fused_kind {
    bool library;
    enum index_kind skewed;
    uint32_t width_multiple, width_most;
};

static const struct fused_kind fused_measured = { false, INDEX_FBGEMM_ZIPF, 8, WIDTH_MAX };
static const struct fused_kind fused_library = { true, INDEX_ZIPF, 4, 2048 }; /* numpy's: DEVIATIONS D20 */

static struct fused_shape fused_read(struct kernel_build *build, const struct fused_kind *program, bool with_threshold)
{
    struct fused_shape shape = { .weight_bytes = 2 };
    shape.bags = kernel_param_integer(build, "B", 1, 1ull << 30);
    shape.tables = kernel_param_integer(build, "T", 1, 100000);
    shape.length = kernel_param_integer(build, "L", 1, 1ull << 20);
    shape.library = program->library;
    shape.width = kernel_param_integer(build, "D", program->width_multiple, program->width_most);
    shape.rows = kernel_param_unknown(build, "rows", 1, UINT32_MAX, TBE_ROWS_UNKNOWN);
    shape.request = index_request_read(build, INDEX_UNIFORM_DISTINCT, program->skewed);
    shape.zipf = shape.request.kind != INDEX_UNIFORM_DISTINCT && shape.request.kind != INDEX_UNIFORM;
    shape.zipf = shape.zipf || shape.request.file != NULL || shape.request.hot_share > 0;
    shape.wave_per_row = kernel_has_fix(build, KERNEL_FIX_WAVE_PER_ROW);
    shape.adagrad = true;
    shape.units = build->machine->units;
    shape.parts = 1;
    if (shape.library) {
        shape.adagrad = kernel_param_choice_or(build, "optimizer", "rowwise_adagrad|sgd", 0, "the benchmark's default") == 0;
        uint64_t resident = LIBRARY_RESIDENT * (shape.wave_per_row ? RESIDENT_FACTOR : 1u);
        shape.resident = kernel_param_unknown(build, "resident", 256, 2048, (struct kernel_unknown){
            resident, shape.wave_per_row ? resident / 2 : resident, shape.wave_per_row ? resident : 2 * resident,
            "threads a unit; the launch bound leaves 512 to 1024 to the compiler, fix wave-per-row 1024 to 2048" });
        shape.weight_bytes = kernel_param_choice_or(build, "prec", "fp32|fp16", 0, "the study's tables vary") == 0 ? 4 : 2;
    } else {
        kernel_param_choice_or(build, "prec", "fp16", 0, NULL); /* all that was measured */
    }
    if (with_threshold) {
        shape.threshold = shape.library ? kernel_param_unknown(build, "threshold", 0, 1u << 30, (struct kernel_unknown){
                                              32, 32, 64, "runs this long are split; 64 in the library's build for wide waves" })
                                        : kernel_param_integer_or(build, "threshold", 0, 1u << 30, 32, "runs this long are split; "
                                                                  "the measuring program's value, 0: none");
    }
    if (shape.width % program->width_multiple != 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter D=%llu is not valid: must be a multiple of %u up to %u",
                    (unsigned long long)shape.width, program->width_multiple, program->width_most);
    }
    double lookups = fused_lookups(&shape), rows = (double)shape.tables * (double)shape.rows;
    if (lookups >= 4294967296.0 || rows >= 4294967296.0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameters B, T, L, rows are not valid: the kernels number lookups and rows "
                    "in 32 bits, got %.3g lookups and %.3g rows", lookups, rows);
    }
    kernel_require_hbm(build, rows * ((double)shape.weight_bytes * (double)shape.width + 4), "the tables");
    kernel_require_hbm(build, lookups * 8 + 4.0 * (double)shape.tables * (double)shape.bags * (double)shape.width,
                       "indices and pooled rows");
    return shape;
}

static struct index_source *fused_source(struct kernel_build *build, const struct fused_shape *shape)
{
    return index_request_open(build, &shape->request, shape->tables, shape->bags, shape->length, shape->rows, FUSED_SEED);
}

static struct wave_program *fused_program(struct kernel_build *build, const char *name, wave_next next,
                                          const struct fused_shape *shape, struct index_source *source,
                                          struct run_table *runs)
{
    struct wave_program *program = kernel_program_create(name, sizeof(struct fused), next);
    struct fused *k = program->context;
    program->part_of = shape->parts;
    *k = (struct fused){ .source = index_source_share(source), .tables = shape->tables, .bags = shape->bags,
                         .length = shape->length, .rows = shape->rows, .width = (uint32_t)shape->width,
                         .lanes = build->machine->lanes, .active = (uint32_t)shape->width / 8,
                         .weight_bytes = shape->weight_bytes };
    kernel_program_adopt(program, source, index_source_release);
    k->weights = kernel_program_tensor(program, "weights",
                                       (double)k->weight_bytes * (double)k->tables * (double)k->rows * k->width);
    if (runs == NULL) {
        return program;
    }
    k->runs = run_table_share(runs);
    kernel_program_adopt(program, runs, run_table_release);
    double lookups = fused_lookups(shape);
    k->momentum = kernel_program_tensor(program, "momentum", 4.0 * (double)k->tables * (double)k->rows);
    k->gradient = kernel_program_tensor(program, "gradient", 4.0 * (double)k->tables * (double)k->bags * k->width);
    k->segments = kernel_program_tensor(program, "segments", 4.0 * (double)k->tables * (double)runs->count);
    if (shape->library) {
        k->run_keys = kernel_program_tensor(program, "rows of runs", 8.0 * (double)k->tables * (double)runs->count);
        k->tables_info = kernel_program_tensor(program, "tables", (double)k->tables * TABLE_INFO_BYTES);
        k->rows_in_flight = shape->wave_per_row ? ROWS_AHEAD : 1;
        k->ahead = shape->wave_per_row;
        k->adagrad = shape->adagrad;
        program->workgroups_per_unit_max = (uint32_t)max_u64(1, (shape->resident + THREADS / 2) / THREADS);
    }
    k->keys = kernel_program_tensor(program, "sorted rows", (shape->library ? 8 : 4) * lookups);
    k->values = kernel_program_tensor(program, "sorted bags", 4 * lookups);
    return program;
}

static bool is_long(const struct run_table *runs, uint64_t run, uint64_t threshold)
{
    return threshold > 0 && run_table_length(runs, run) >= threshold;
}

static uint64_t count_runs(const struct run_table *runs, uint64_t threshold, bool longs)
{
    uint64_t count = 0;
    for (uint64_t run = 0; run < runs->count; run++) {
        count += is_long(runs, run, threshold) == longs;
    }
    return count;
}

static void fill_list(struct wave_program *program, uint64_t threshold, bool longs)
{
    struct fused *k = program->context;
    struct run_list *list = &k->list;
    uint64_t count = count_runs(k->runs, threshold, longs);
    list->runs = kernel_program_scratch(program, (size_t)max_u64(count, 1) * sizeof *list->runs);
    list->first_piece = kernel_program_scratch(program, (size_t)max_u64(count, 1) * sizeof *list->first_piece);
    for (uint64_t run = 0; run < k->runs->count; run++) {
        if (is_long(k->runs, run, threshold) == longs) {
            list->first_piece[list->count] = (uint32_t)list->pieces;
            list->runs[list->count++] = (uint32_t)run;
            list->pieces += ceil_div(run_table_length(k->runs, run), PIECE);
            list->lookups += run_table_length(k->runs, run);
        }
    }
    k->lists = kernel_program_tensor(program, "run list", 4.0 * (double)k->tables * (double)count);
}

/* The list is filled by all waves of the pass that finds the runs at once, so its order within a table is that of their race, not
 * that of the rows. Modelled as strides of the golden section, in stretches that share the lines of their metadata: hot rows,
 * which have the low numbers here, are then met all along the grid, and any window of it is like the whole. */
#define RACE_STRETCH 32 /* runs: whole lines of their metadata */

static uint64_t coprime_stride(uint64_t count)
{
    uint64_t stride = max_u64(1, (uint64_t)(0.6180339887 * (double)count)), a, b;
    for (;; stride++) {
        for (a = count, b = stride; b > 0;) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) {
            return stride;
        }
    }
}

static void deal_short_runs(struct wave_program *program)
{
    struct run_list *list = &((struct fused *)program->context)->list;
    uint64_t stretches = ceil_div(list->count, RACE_STRETCH), stride = coprime_stride(stretches), filled = 0;
    uint32_t *dealt = malloc((size_t)max_u64(list->count, 1) * sizeof *dealt);
    SIM_ASSERT(dealt != NULL, "no memory for %llu runs", (unsigned long long)list->count);
    for (uint64_t i = 0; i < stretches; i++) {
        uint64_t first = i * stride % stretches * RACE_STRETCH, count = min_u64(RACE_STRETCH, list->count - first);
        memcpy(dealt + filled, list->runs + first, count * sizeof *dealt);
        filled += count;
    }
    memcpy(list->runs, dealt, (size_t)list->count * sizeof *dealt);
    free(dealt);
}

static void add_short(struct kernel_build *build, const struct fused_shape *shape, struct index_source *source,
                      struct run_table *runs)
{
    struct wave_program *program = fused_program(build, "tbe backward, short runs",
                                                 shape->library ? library_short_next : fused_short_next, shape, source,
                                                 runs);
    struct fused *k = program->context;
    fill_list(program, shape->threshold, false);
    program->registers_per_lane = 32;
    if (shape->library) {
        uint64_t all = k->tables * k->list.count, per_group = THREADS / k->lanes;
        if (shape->zipf) {
            deal_short_runs(program);
        }
        uint64_t groups = min_u64(ceil_div(all, per_group), (uint64_t)LIBRARY_GRID * shape->units);
        kernel_program_grid(program, groups * THREADS, THREADS, k->lanes);
        program->work_units_total = k->tables * k->list.lookups;
        /* Skewed runs differ from trip to trip and every workgroup walks all of them: whole workgroups are sampled. */
        program->trips_per_wave = shape->zipf ? 0 : ceil_div(all, groups * per_group);
        kernel_plan_add(build, program, 1);
        return;
    }
    kernel_program_grid(program, k->tables * k->list.count * k->lanes, THREADS, k->lanes);
    program->work_units_total = k->tables * k->list.lookups;
    kernel_program_loops(program, build->machine, k->list.lookups / k->list.count);
    program->workgroups_differ = shape->zipf;
    program->workgroups_period = max_u64(1, program->workgroups / k->tables);
    for (uint64_t i = 0; i < k->list.count; i++) {
        uint64_t length = run_table_length(runs, k->list.runs[i]);
        if (length > program->longest_wave_trips) {
            program->longest_wave_trips = length;
            program->longest_wave_workgroup = i / program->waves_per_workgroup;
            program->longest_wave_index = (uint32_t)(i % program->waves_per_workgroup);
        }
    }
    kernel_plan_add(build, program, 1);
}

static void add_long(struct kernel_build *build, const struct fused_shape *shape, struct index_source *source,
                     struct run_table *runs)
{
    struct wave_program *program = fused_program(build, "tbe backward, long runs",
                                                 shape->library ? library_long_next : fused_long_next, shape, source, runs);
    struct fused *k = program->context;
    fill_list(program, shape->threshold, true);
    k->list.piece_stride = coprime_stride(k->list.pieces);
    double sums = 4.0 * (double)k->tables * (double)k->list.count * k->width;
    k->pieces = kernel_program_tensor(program, "first pieces", 4.0 * (double)k->tables * (double)k->list.count);
    k->sums = kernel_program_tensor(program, "sums", sums);
    program->registers_per_lane = 32;
    program->lds_bytes = 8 * WIDTH_MAX * 4;
    program->workgroups = k->tables * k->list.pieces;
    program->waves_per_workgroup = (uint32_t)ceil_div(THREADS, k->lanes);
    if (shape->library) {
        uint32_t waves = LIBRARY_LONG_THREADS / k->lanes, sum_bytes = k->width * 4;
        while (waves > 1 && waves * sum_bytes > build->machine->lds_bytes_per_workgroup_max) {
            waves /= 2;
        }
        program->waves_per_workgroup = waves;
        program->lds_bytes = waves * sum_bytes;
        program->workgroups_per_unit_max = (uint32_t)max_u64(1, LIBRARY_LONG_RESIDENT / (waves * k->lanes));
    }
    program->work_units_total = k->tables * k->list.lookups;
    struct kernel_machine machine = *build->machine;
    machine.units = shape->units;
    kernel_program_loops(program, &machine, k->list.lookups / (k->list.pieces * program->waves_per_workgroup));
    program->workgroups_differ = shape->zipf;
    program->workgroups_period = k->list.pieces;
    kernel_require_lds(build, program->lds_bytes);
    kernel_plan_add_fill(build, sums * shape->parts, 1);
    kernel_plan_add(build, program, 1);
}

static void add_finalise(struct kernel_build *build, const struct fused_shape *shape, struct index_source *source,
                         struct run_table *runs)
{
    struct wave_program *program = fused_program(build, "tbe backward, finalise", fused_finalise_next, shape, source,
                                                 runs);
    struct fused *k = program->context;
    fill_list(program, shape->threshold, true);
    k->sums = kernel_program_tensor(program, "sums", 4.0 * (double)k->tables * (double)k->list.count * k->width);
    program->registers_per_lane = 27;
    kernel_program_grid(program, k->tables * k->list.count * k->lanes, THREADS, k->lanes);
    program->work_units_total = k->tables * k->list.count;
    kernel_plan_add(build, program, 1);
}

/* sm_90: 16 registers, two 32-bit divisions; reads a 64-bit index, writes row number and bag. */
static void add_linearise(struct kernel_build *build, uint64_t lookups)
{
    kernel_plan_add_map(build, "linearise", lookups, THREADS, 8, 8,
                        (struct kernel_map_cost){ 15, 32, 145 + 5 * KERNEL_SPECIAL_CYCLES, 4, 24,
                                                  71 + 2 * KERNEL_SPECIAL_CYCLES, 16 });
}

/* sm_90: 12 registers; each thread compares its key with the one before (the same lines). */
static void add_run_lengths(struct kernel_build *build, uint64_t lookups, uint64_t runs)
{
    kernel_plan_add_map(build, "flag run heads", lookups, THREADS, 4, 4,
                        (struct kernel_map_cost){ 6, 13, 57 + 2 * KERNEL_SPECIAL_CYCLES, 2, 5, 10, 12 });
    kernel_plan_add_chained(build, KERNEL_SELECT_FLAGGED, lookups, runs);
}

static void forward_build(struct kernel_build *build)
{
    struct fused_shape shape = fused_read(build, &fused_measured, false);
    if (!kernel_params_done(build)) {
        return;
    }
    struct index_source *source = fused_source(build, &shape);
    if (source == NULL) {
        return;
    }
    struct wave_program *program = fused_program(build, "tbe forward, fp16 rows", fused_forward_next, &shape, source,
                                                 NULL);
    struct fused *k = program->context;
    double lookups = fused_lookups(&shape);
    k->indices = kernel_program_tensor(program, "indices", 8 * lookups);
    k->offsets = kernel_program_tensor(program, "offsets", 8 * ((double)k->tables * (double)k->bags + 1));
    k->output = kernel_program_tensor(program, "pooled rows", 4.0 * (double)k->tables * (double)k->bags * k->width);
    program->registers_per_lane = 31;
    kernel_program_grid(program, k->tables * k->bags * k->lanes, THREADS, k->lanes);
    program->work_units_total = (uint64_t)lookups;
    kernel_program_loops(program, build->machine, shape.length);
    program->flops = lookups * k->width;
    build->plan->flops = program->flops;
    kernel_plan_add(build, program, 1);
    index_source_release(source);
    kernel_value_per_time(build, lookups * (double)shape.width * 2 * 1e-6, "TB/s");
}

static void linearise_sort_build(struct kernel_build *build)
{
    struct fused_shape shape = fused_read(build, &fused_measured, false);
    if (!kernel_params_done(build)) {
        return;
    }
    uint64_t lookups = (uint64_t)fused_lookups(&shape);
    add_linearise(build, lookups);
    uint32_t bits = kernel_key_bits(shape.tables * shape.rows);
    kernel_plan_add_sort(build, lookups, 4, 4, bits, bits);
    kernel_value_per_time(build, (double)lookups * 1e-3, "Gkeys/s");
}

/* What the kernels behind the sort have in common: the runs, and the value column's count. */
enum fused_part { FUSED_RUN_LENGTHS, FUSED_SHORT, FUSED_LONG, FUSED_FINALISE, FUSED_ALL };

/* `own`: the shape that `runs` are of, the whole or a like part. */
static void fused_parts(struct kernel_build *build, const struct fused_shape *shape, const struct fused_shape *own, enum fused_part part,
                        struct index_source *source, struct run_table *runs)
{
    uint64_t lookups = (uint64_t)fused_lookups(shape), all_runs = shape->tables * runs->count * own->parts;
    uint64_t shorts = count_runs(runs, shape->threshold, false), longs = runs->count - shorts, pieces = 0;
    for (uint64_t run = 0; run < runs->count; run++) {
        pieces += is_long(runs, run, shape->threshold) ? ceil_div(run_table_length(runs, run), PIECE) : 0;
    }
    if ((part == FUSED_SHORT && shorts == 0) || ((part == FUSED_LONG || part == FUSED_FINALISE) && longs == 0)) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter threshold=%llu leaves no %s run: the longest has %llu lookups",
                    (unsigned long long)shape->threshold, part == FUSED_SHORT ? "shorter" : "longer",
                    (unsigned long long)run_table_length(runs, runs->longest));
        return;
    }
    if (shape->bags * shape->length > RUN_TABLE_DRAWS || (shape->zipf && shape->bags > INDEX_POOL_BAGS)) {
        kernel_assume(build, "run lengths: drawn from a part of one table's lookups and scaled");
    }
    if (part == FUSED_ALL) {
        add_linearise(build, lookups);
        uint32_t bits = kernel_key_bits(shape->tables * shape->rows);
        kernel_plan_add_sort(build, lookups, shape->library ? 8 : 4, 4, bits, bits);
    }
    if (shape->library) { /* run-length encoding of the keys, then sums of the lengths */
        kernel_plan_add_chained(build, KERNEL_UNIQUE_BY_KEY, lookups, all_runs);
        kernel_plan_add_chained(build, KERNEL_EXCLUSIVE_SUM, all_runs, all_runs);
    } else if (part == FUSED_ALL || part == FUSED_RUN_LENGTHS) {
        add_run_lengths(build, lookups, all_runs);
    }
    if ((part == FUSED_ALL && shorts > 0) || part == FUSED_SHORT) {
        add_short(build, own, source, runs);
    }
    if ((part == FUSED_ALL && longs > 0) || part == FUSED_LONG) {
        add_long(build, own, source, runs);
    }
    if ((part == FUSED_ALL && longs > 0 && !shape->library) || part == FUSED_FINALISE) {
        add_finalise(build, own, source, runs);
    }
    double counts[] = { (double)runs->count, (double)shorts, (double)longs, (double)pieces };
    if (part == FUSED_ALL) { /* the table's time is the sum of its parts, timed one by one */
        build->plan->timed_calls = shape->library ? 1 : 2u + (shorts > 0 ? 1 : 0) + (longs > 0 ? 2 : 0);
        kernel_value_per_time(build, (double)lookups * (double)shape->width * shape->weight_bytes * 1e-6, "TB/s");
    } else {
        kernel_value_count(build, (double)shape->tables * counts[part], part == FUSED_FINALISE ? "pieces" : "runs");
    }
}

static void fused_build(struct kernel_build *build, const struct fused_kind *program, enum fused_part part)
{
    struct fused_shape shape = fused_read(build, program, part != FUSED_RUN_LENGTHS);
    if (!kernel_params_done(build)) {
        return;
    }
    struct fused_shape own = shape;
    own.parts = part == FUSED_ALL && shape.library
                    ? index_request_parts(build, &shape.request, shape.bags, shape.rows, shape.width * shape.weight_bytes,
                                          (uint64_t)fused_lookups(&shape))
                    : 1;
    own.bags /= own.parts;
    own.rows /= own.parts;
    own.units /= own.parts;
    struct index_source *source = fused_source(build, &own);
    if (source == NULL) {
        return;
    }
    struct run_table *runs = run_table_create(source);
    fused_parts(build, &shape, &own, part, source, runs);
    run_table_release(runs);
    index_source_release(source);
}

static void run_lengths_build(struct kernel_build *build)
{
    fused_build(build, &fused_measured, FUSED_RUN_LENGTHS);
}

static void short_runs_build(struct kernel_build *build)
{
    fused_build(build, &fused_measured, FUSED_SHORT);
}

static void long_runs_build(struct kernel_build *build)
{
    fused_build(build, &fused_measured, FUSED_LONG);
}

static void finalise_build(struct kernel_build *build)
{
    fused_build(build, &fused_measured, FUSED_FINALISE);
}

static void backward_build(struct kernel_build *build)
{
    fused_build(build, &fused_measured, FUSED_ALL);
}

static void library_backward_build(struct kernel_build *build)
{
    fused_build(build, &fused_library, FUSED_ALL);
}

#define FUSED_HELP "B, T, L, D (up to 256), rows (1e7), prec (fp16)" INDEX_HELP
#define FUSED_HELP_THRESHOLD FUSED_HELP ", threshold (32)"

const struct kernel_definition tbe_fused_kernels[] = {
    { "tbe_fused", "forward", "sum-pooled lookups of fp16 rows into fp32", FUSED_HELP, forward_build },
    { "tbe_fused", "linearise_sort", "row numbers over all tables, then a radix sort", FUSED_HELP,
      linearise_sort_build },
    { "tbe_fused", "run_lengths", "where runs of equal rows start", FUSED_HELP, run_lengths_build },
    { "tbe_fused", "backward_short_runs", "runs below the threshold, a wave each", FUSED_HELP_THRESHOLD,
      short_runs_build },
    { "tbe_fused", "backward_long_runs", "pieces of longer runs, a workgroup each", FUSED_HELP_THRESHOLD,
      long_runs_build },
    { "tbe_fused", "backward_finalise", "the update of the longer runs' rows", FUSED_HELP_THRESHOLD, finalise_build },
    { "tbe_fused", "backward", "all of backward, from sort to update", FUSED_HELP_THRESHOLD, backward_build },
    { "tbe", "backward", "as the library runs it: sort, short runs by a wave, long ones by workgroups",
      "B, T, L, D (a multiple of 4 up to 2048), rows (1e7), prec (fp32|fp16), threshold (32), optimizer (rowwise_adagrad|sgd), "
      "resident (threads a unit, 512)" INDEX_HELP,
      library_backward_build },
    { .suite = NULL },
};
