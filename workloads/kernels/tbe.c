/* tbe: table-batched embedding bags as the measuring program writes them: a wave per bag, sum pooling; backward by
 * atomics, or sorted: a radix sort of (row, bag) pairs and then a wave per distinct row, which walks its lookups one
 * after the other, so that the hottest row bounds the kernel. */
#include "workloads/kernels/fix_internal.h"

#define TBE_SEED 5 /* the measuring program's */
#define THREADS 256
#define ROW_GROUP 32 /* lanes that a bag keeps under fix row-pack */

struct library_variant;

struct tbe {
    struct index_source *source;
    struct run_table *runs; /* sorted backward only */
    uint64_t tables, bags, length, rows;
    uint32_t width, element_bytes, row_bytes, lanes, chunk; /* chunk: bytes that a bag's lanes read at 16 B each */
    uint32_t together;                                     /* forward: bags side by side in a wave */
    uint64_t weights, indices, output;                     /* output: of forward; the gradient in backward */
    uint64_t segments, keys, values;                       /* sorted backward */
    uint64_t tables_info, offsets;                         /* code=library, and how its loop was compiled */
    uint64_t bag_map, places;                              /* of bags, batches=variable: which of which table; where its row goes */
    bool variable, copies;                                 /* copies: pooling=none, by so many rows of a wave at once */
    uint32_t copied_together;
    const struct library_variant *variant;
};

static uint64_t tbe_row_address(const struct tbe *k, uint64_t table, uint64_t row)
{
    return k->weights + (table * k->rows + row) * k->row_bytes;
}

/* Pooled rows lie by bag, then table. */
static uint64_t tbe_output_address(const struct tbe *k, uint64_t table, uint64_t bag)
{
    return k->output + (bag * k->tables + table) * k->row_bytes;
}

/* One instruction reads 16 bytes a lane; wider rows take a second one (the compiled loop has two). */
static void tbe_span(const struct tbe *k, struct wave_op *op, uint64_t address)
{
    for (uint32_t at = 0; at < k->row_bytes; at += k->chunk) {
        op_span_apart(op, address + at, min_u64(k->chunk, k->row_bytes - at));
    }
    op_lanes(op, min_u64(k->lanes, op->lanes_active + ceil_div(k->row_bytes, 16)));
}

/* Bags of the wave: [*first, end) over all tables. */
static uint64_t tbe_bags(const struct tbe *k, uint64_t wave, uint64_t *first)
{
    *first = wave * k->together;
    return min_u64(*first + k->together, k->tables * k->bags);
}

static void tbe_lookups(const struct tbe *k, uint64_t table, uint64_t bag, uint64_t first, uint64_t count,
                        struct wave_op *op)
{
    for (uint64_t i = first; i < first + count; i++) {
        tbe_span(k, op, tbe_row_address(k, table, index_source_row(k->source, table, bag, i)));
    }
}

/* ---- forward ---- */

/* r[0]: lookups of the unrolled trip. pc: 0 start, 1 indices, 2.. rows of a trip, last: output. */
enum forward_step { FORWARD_START, FORWARD_INDICES, FORWARD_ROWS, FORWARD_OUTPUT, FORWARD_END };

/* sm_90, unrolled by 4: four index loads, then the rows in groups that wait for each other, as registers allow.
 *   fp32: 44 registers; rows {0,1} then {2,3}; 93 instructions a trip: 9 to the indices (14 cycles), 27 to the first
 *         rows (76), 31 to the others (59), 26 to the branch (34). A remainder lookup: 43 (94).
 *   fp16: 52 registers; rows {0}, {1}, {2,3}; 186 instructions: 7 (13), 12 (48), 49 (107), 36 (83), 82 (143). A
 *         remainder lookup: 67 (141). Conversion is by HADD2.F32, at full rate (256 half additions per clock and SM, two
 *         a lane); what is predicated off for rows that one instruction covers still issues. */
struct forward_group {
    uint8_t first, count;
    uint16_t issue, valu, latency;
};

static const struct forward_group fp32_groups[] = { { 0, 2, 4, 23, 49 }, { 2, 2, 4, 27, 28 } };
static const struct forward_group fp16_groups[] = { { 0, 1, 2, 10, 36 }, { 1, 1, 2, 47, 58 }, { 2, 2, 4, 32, 47 } };

static void tbe_forward_next(const struct wave_program *program, const struct wave_window *window,
                             struct wave_state *state, struct wave_op *op)
{
    const struct tbe *k = program->context;
    bool half = k->element_bytes == 2;
    const struct forward_group *groups = half ? fp16_groups : fp32_groups;
    uint32_t group_count = half ? 3 : 2;
    uint64_t first, end = tbe_bags(k, wave_index(program, state), &first);
    if (first >= end) {
        op_end(op);
        return;
    }
    uint64_t limit = min_u64(k->length, window->trip_limit);
    switch (state->pc) {
    case FORWARD_START:
        wave_first_trip(window, state);
        op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, half ? 21 : 11, half ? 72 : 65, (half ? 171 : 162) + 6 * KERNEL_SPECIAL_CYCLES);
        op_lanes(op, k->lanes);
        state->pc = FORWARD_INDICES;
        return;
    case FORWARD_INDICES:
        if (state->trip >= limit) {
            op_begin(op, WAVE_STORE, 0);
            op_work(op, half ? 16 : 10, half ? 113 : 45, half ? 127 : 51);
            for (uint64_t bag = first; bag < end; bag++) {
                tbe_span(k, op, tbe_output_address(k, bag / k->bags, bag % k->bags));
            }
            state->pc = FORWARD_END;
            return;
        }
        state->r[0] = limit - state->trip >= 4 ? 4 : 1;
        state->r[1] = 0; /* group */
        op_begin(op, WAVE_LOAD, 0);
        if (state->r[0] == 4) {
            op_work(op, half ? 7 : 5, half ? 82 : 30, half ? 67 : 13);
        } else {
            op_work(op, half ? 4 : 2, half ? 45 : 21, half ? 26 : 13);
        }
        for (uint64_t i = 0; i < state->r[0]; i++) {
            for (uint64_t bag = first; bag < end; bag++) { /* one instruction */
                op_span_apart(op, k->indices + (bag * k->length + state->trip + i) * 4, 4);
            }
        }
        op_lanes(op, k->lanes);
        state->pc = FORWARD_ROWS;
        return;
    case FORWARD_ROWS: {
        bool unrolled = state->r[0] == 4;
        struct forward_group group = unrolled ? groups[state->r[1]] : (struct forward_group){ 0, 1, 2, 10, 26 };
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, group.issue, group.valu, group.latency);
        for (uint64_t bag = first; bag < end; bag++) {
            tbe_lookups(k, bag / k->bags, bag % k->bags, state->trip + group.first, group.count, op);
        }
        state->r[1]++;
        op->work_units = (uint32_t)(group.count * (end - first));
        if (!unrolled || state->r[1] == group_count) {
            state->trip += state->r[0];
            state->pc = FORWARD_INDICES;
        }
        return;
    }
    default:
        op_end(op);
    }
}

/* ---- forward as the public library runs it ---- */

/* code=library: a wave a bag, then the next of its grid's; the bag's offsets and its table's data; lookups a wave's width of
 * 64-bit indices at a time, dealt out by shuffles; fp32 out. The grid has at most LIBRARY_GRID workgroups a unit
 * (embedding_forward_split_template.cu of pytorch/FBGEMM, get_max_thread_blocks). With pooling=none a wave copies the rows of
 * its bag one after the other, each read before the last is known to be written, and has no next bag.
 * Four elements a lane. For wide waves the library loads four rows before the first is added; for waves of 32 lanes a row a
 * trip, which the compiler unrolls but does not load ahead (as measured of the same loop: tbe_fused/forward).
 * Instruction counts: of wide waves what clang 15 makes of such loops for gfx90a (integer products and 64-bit shifts at full
 * rate; dependent ones without a gap), 40 registers; of waves of 32 lanes from the source. */
#define TABLE_INFO_BYTES 64
#define LIBRARY_ROW_BYTES 8192
#define LIBRARY_SPANS 64     /* loads that a trip issues at most */
#define LIBRARY_THREADS 512
#define LIBRARY_GRID 64
#define LIBRARY_LONG 8       /* bags of a wave from which its walk is sampled by trips */
#define LIBRARY_SMALL 32     /* elements of a row up to which pooling=none gives a row as many lanes as it has */

struct library_cost {
    uint16_t issue, valu, latency;
};

struct library_variant {
    uint32_t elements;            /* a lane and load */
    uint32_t rows;                /* loaded before they are added */
    uint32_t registers, registers_vector; /* of the loop over bags; more for each further vector of a row */
    struct library_cost start;    /* once a wave */
    struct library_cost map;      /* batches=variable: to the bag's table and offsets */
    struct library_cost bag[2];   /* to the loads of the table's data; [1]: batches=variable */
    struct library_cost indices;  /* from there to the load of indices */
    struct library_cost rows_start;
    struct library_cost row;      /* to a row's first load, two shuffles included */
    struct library_cost vector[2];/* loaded and added; [1]: of fp16 */
    struct library_cost copy;     /* pooling=none: from a row's load to its store */
    struct library_cost place, store;
};

static const struct library_variant library_narrow = {
    .elements = 4, .rows = 1, .registers = 40, .map = { 8, 16, 60 + 3 * KERNEL_SPECIAL_CYCLES },
    .bag = { { 15, 45, 130 + 5 * KERNEL_SPECIAL_CYCLES }, { 15, 20, 40 } }, .indices = { 4, 12, 30 },
    .rows_start = { 2, 3, 20 + 2 * KERNEL_SHUFFLE_CYCLES }, .row = { 2, 4, 0 }, .vector = { { 1, 4, 0 }, { 1, 6, 0 } },
    .copy = { 3, 8, 10 }, .place = { 3, 6, 16 }, .store = { 3, 12, 30 },
}, library_wide = {
    .elements = 4, .rows = 4, .registers = 40, .registers_vector = 16, .start = { 34, 15, 0 }, .map = { 8, 21, 0 },
    .bag = { { 8, 39, 0 }, { 7, 23, 0 } }, .indices = { 25, 65, 0 }, .rows_start = { 22, 5, 2 * KERNEL_SHUFFLE_CYCLES },
    .row = { 2, 7, 0 }, .vector = { { 1, 5, 0 }, { 1, 9, 0 } }, .copy = { 12, 18, 0 }, .place = { 14, 16, 0 },
    .store = { 5, 22, 0 },
};

enum library_forward {
    LIBRARY_START, LIBRARY_BAG, LIBRARY_TABLE, LIBRARY_INDICES, LIBRARY_ROWS, LIBRARY_COPY, LIBRARY_STORE, LIBRARY_END
};

static void library_work(struct wave_op *op, const struct library_cost *cost)
{
    op_work(op, cost->issue, cost->valu, cost->latency);
}

/* A trip is a lookup of one of the wave's bags (of bags side by side, fix row-pack, which have equal lengths and go in step):
 * trip = (bag of the wave) x length + lookup. */
struct library_bag {
    uint64_t first, end; /* bags over all tables */
    uint64_t base;       /* trip of their first lookup */
    uint64_t limit;      /* lookups of the bag that the window holds */
};

static bool library_bag_of(const struct wave_program *program, const struct wave_window *window, const struct wave_state *state,
                           struct library_bag *bag)
{
    const struct tbe *k = program->context;
    uint64_t round = state->trip / k->length, waves = program->workgroups * program->waves_per_workgroup;
    bag->base = round * k->length;
    bag->end = tbe_bags(k, wave_index(program, state) + round * waves, &bag->first);
    bag->limit = bag->base < window->trip_limit ? min_u64(k->length, window->trip_limit - bag->base) : 0;
    return bag->first < bag->end && bag->limit > 0;
}

/* Rows [lookup, lookup + count) of the wave's bags, a load a vector; returns the loads. */
static uint64_t library_rows(const struct tbe *k, const struct library_bag *at, uint64_t lookup, uint64_t count,
                             uint32_t reach, struct wave_op *op)
{
    uint64_t bags = at->end - at->first, loads = 0;
    for (uint64_t i = 0; i < count * bags; i++) {
        uint64_t bag = at->first + i % bags, table = bag / k->bags;
        uint64_t row = tbe_row_address(k, table, index_source_row(k->source, table, bag % k->bags, lookup + i / bags));
        for (uint32_t byte = 0; byte < k->row_bytes; byte += reach, loads++) {
            op_span_apart(op, row + byte, min_u64(reach, k->row_bytes - byte));
        }
    }
    return loads;
}

/* r[0]: lookups of the bag whose indices are at hand; r[1]: the bag's place is at hand (batches=variable); r[2]: lookups
 * done, which trip says too until the last is: then only the store moves it, since trip says which bag this is. */
static void tbe_library_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                             struct wave_op *op)
{
    const struct tbe *k = program->context;
    const struct library_variant *variant = k->variant;
    struct library_bag at;
    if (state->pc == LIBRARY_START) {
        wave_first_trip(window, state);
        state->pc = LIBRARY_BAG;
        if (variant->start.valu > 0) {
            op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
            library_work(op, &variant->start);
            op_lanes(op, k->lanes);
            return;
        }
    }
    if (!library_bag_of(program, window, state, &at) || state->pc == LIBRARY_END) {
        op_end(op);
        return;
    }
    uint32_t group = k->lanes / k->together, reach = variant->elements * k->element_bytes * group; /* bytes of a row a load */
    uint64_t bags = at.end - at.first, lanes = bags * min_u64(group, k->width / variant->elements);
    switch (state->pc) {
    case LIBRARY_BAG:
        state->r[0] = state->r[2] = state->trip - at.base;
        state->r[1] = !k->variable;
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        library_work(op, k->variable ? &variant->map : &variant->bag[0]);
        op_span_apart(op, k->offsets + at.first * 8, 8 * (bags + 1));
        if (k->variable) { /* which table and which bag of it: no division tells */
            op_span_apart(op, k->bag_map + at.first * 4, 4 * bags);
        } else {
            op_span_apart(op, k->tables_info + at.first / k->bags * TABLE_INFO_BYTES, TABLE_INFO_BYTES / 2);
        }
        op_lanes(op, k->lanes);
        state->pc = k->variable ? LIBRARY_TABLE : LIBRARY_INDICES;
        return;
    case LIBRARY_TABLE:
        op_begin(op, WAVE_LOAD, 0);
        library_work(op, &variant->bag[1]);
        op_span_apart(op, k->tables_info + at.first / k->bags * TABLE_INFO_BYTES, TABLE_INFO_BYTES / 2);
        op_lanes(op, k->lanes);
        state->pc = LIBRARY_INDICES;
        return;
    case LIBRARY_INDICES:
        if (state->r[2] >= at.limit && state->r[1] == 0) {
            state->r[1] = 1;
            op_begin(op, WAVE_LOAD, 0);
            library_work(op, &variant->place);
            op_span(op, k->places + at.first * 8, 8 * bags);
            op_lanes(op, k->lanes);
            return;
        }
        if (state->r[2] >= at.limit) {
            op_begin(op, WAVE_STORE, 0);
            library_work(op, &variant->store);
            for (uint64_t bag = at.first; bag < at.end; bag++) {
                op_span(op, k->output + (bag % k->bags * k->tables + bag / k->bags) * k->width * 4ull, k->width * 4ull);
            }
            op_lanes(op, lanes);
            state->trip = at.base + k->length;
            state->pc = LIBRARY_BAG;
            return;
        }
        op_begin(op, WAVE_LOAD, 0);
        library_work(op, &variant->indices);
        state->r[0] = min_u64(at.limit, state->r[2] + group);
        for (uint64_t bag = at.first; bag < at.end; bag++) {
            op_span_apart(op, k->indices + (bag * k->length + state->r[2]) * 8, (state->r[0] - state->r[2]) * 8);
        }
        op_lanes(op, bags * (state->r[0] - state->r[2]));
        state->pc = LIBRARY_ROWS;
        return;
    case LIBRARY_ROWS: {
        const struct library_cost *start = &variant->rows_start, *row = &variant->row,
                                  *vector = &variant->vector[k->element_bytes == 2];
        uint64_t together = k->copies ? k->copied_together
                                      : min_u64(variant->rows, max_u64(1, LIBRARY_SPANS / (ceil_div(k->row_bytes, reach) * bags)));
        uint64_t left = state->r[0] - state->r[2], count = k->copies ? min_u64(left, together) : left >= together ? together : 1;
        op_begin(op, WAVE_LOAD, 0);
        uint64_t vectors = library_rows(k, &at, state->r[2], count, reach, op) / bags;
        op_work(op, (uint32_t)(start->issue + count * row->issue + vectors * vector->issue),
                (uint32_t)(start->valu + count * row->valu + vectors * vector->valu), start->latency);
        op_lanes(op, k->copies ? count * (k->width / variant->elements) : lanes);
        op->work_units = (uint32_t)(count * bags);
        state->r[3] = count;
        if (k->copies) {
            state->pc = LIBRARY_COPY;
            return;
        }
        state->r[2] += count;
        if (state->r[2] < at.limit) {
            state->trip = at.base + state->r[2];
        }
        state->pc = state->r[2] < state->r[0] ? LIBRARY_ROWS : LIBRARY_INDICES;
        return;
    }
    case LIBRARY_COPY: {
        uint64_t from = k->output + (at.first * k->length + state->r[2]) * k->width * 4ull;
        op_begin(op, WAVE_STORE, 0);
        library_work(op, &variant->copy);
        op_span(op, from, state->r[3] * k->width * 4ull);
        op_lanes(op, state->r[3] * (k->width / variant->elements));
        state->r[2] += state->r[3];
        state->trip = at.base + state->r[2];
        state->pc = state->r[2] >= at.limit ? LIBRARY_END : state->r[2] < state->r[0] ? LIBRARY_ROWS : LIBRARY_INDICES;
        return;
    }
    default:
        op_end(op);
    }
}

/* ---- backward by atomics ---- */

/* A row is walked in pieces of one 4-byte element (fp32, or two halves) per lane: gradient load, atomic, in turn; the
 * index load of the next lookup stands behind the last atomic. r[0]: piece.
 * sm_90, per lookup: 8 instructions to the index; the first piece's gradient load 20 more (48 cycles), a further one 4
 * (11 to 15); atomics 4 to 10. Packed fp16 takes the generic-address path, 18 instructions (82 cycles) an atomic less
 * the path not taken (11, 54). Registers: fp32 32, fp16 31. */
enum scatter_step { SCATTER_START, SCATTER_INDEX, SCATTER_GRADIENT, SCATTER_ADD };

static void tbe_scatter_next(const struct wave_program *program, const struct wave_window *window,
                             struct wave_state *state, struct wave_op *op)
{
    const struct tbe *k = program->context;
    bool half = k->element_bytes == 2;
    uint64_t wave = wave_index(program, state), table = wave / k->bags, bag = wave % k->bags;
    if (wave >= k->tables * k->bags) {
        op_end(op);
        return;
    }
    uint64_t piece_bytes = k->lanes * 4ull, offset = state->r[0] * piece_bytes;
    uint64_t bytes = offset < k->row_bytes ? min_u64(piece_bytes, k->row_bytes - offset) : 0;
    switch (state->pc) {
    case SCATTER_START:
        wave_first_trip(window, state);
        op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, 11, 70, 150 + 6 * KERNEL_SPECIAL_CYCLES);
        op_lanes(op, k->lanes);
        state->pc = SCATTER_INDEX;
        return;
    case SCATTER_INDEX:
        if (state->trip >= min_u64(k->length, window->trip_limit)) {
            op_end(op);
            return;
        }
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, half ? 4 : 3, 7, half ? 26 : 15);
        op_span(op, k->indices + (wave * k->length + state->trip) * 4, 4);
        op_lanes(op, k->lanes);
        state->pc = SCATTER_GRADIENT;
        return;
    case SCATTER_GRADIENT:
        op_begin(op, WAVE_LOAD, state->r[0] == 0 ? 0 : WAVE_NO_WAIT);
        op_work(op, state->r[0] == 0 ? 6 : 2, state->r[0] == 0 ? (half ? 20 : 14) : 3,
                state->r[0] == 0 ? (half ? 31 : 28) : 10);
        op_span(op, tbe_output_address(k, table, bag) + offset, bytes);
        op_lanes(op, bytes / 4);
        state->pc = SCATTER_ADD;
        return;
    default:
        op_begin(op, WAVE_ATOMIC, 0);
        op_work(op, half ? 4 : 2, half ? 3 : 3, half ? 28 : 6);
        op->atomic_type = half ? WAVE_ATOMIC_PACKED16 : WAVE_ATOMIC_FP32;
        op->element_bytes = 4;
        op_span(op, tbe_row_address(k, table, index_source_row(k->source, table, bag, state->trip)) + offset, bytes);
        op_lanes(op, bytes / 4);
        if (offset + bytes < k->row_bytes) {
            state->r[0]++;
            state->pc = SCATTER_GRADIENT;
            return;
        }
        op->work_units = 1;
        state->r[0] = 0;
        state->trip++;
        state->pc = SCATTER_INDEX;
    }
}

/* ---- sorted backward ---- */

enum sorted_step { SORTED_BOUNDS, SORTED_VALUES, SORTED_ROWS, SORTED_KEY, SORTED_WEIGHT, SORTED_UPDATE, SORTED_END };

/* sm_90. Per distinct row: both segment bounds, then its lookups, then key, weight row, store.
 *   fp32: 40 registers, unrolled by 4: 13 instructions to the four bag numbers (30 cycles), 94 to the rows {0,1} with a
 *         division each (281), 36 to {2,3} (118), 25 after (33). A single lookup: 28 (105), 14 (23).
 *   fp16: 48 registers, unrolled by 2: 24 (56), 67 (250) to both rows, 67 after (113). A single lookup: 42 (148), 57
 *         (100).
 * r[0]: lookups of the trip, r[1]: group within it. */
static void tbe_sorted_next(const struct wave_program *program, const struct wave_window *window,
                            struct wave_state *state, struct wave_op *op)
{
    const struct tbe *k = program->context;
    bool half = k->element_bytes == 2;
    uint64_t segment = wave_index(program, state), table = segment / k->runs->count, run = segment % k->runs->count;
    if (table >= k->tables) {
        op_end(op);
        return;
    }
    uint64_t length = run_table_length(k->runs, run), first = table * k->runs->lookups + k->runs->starts[run];
    uint64_t limit = min_u64(length, window->trip_limit), unroll = half ? 2 : 4;
    uint64_t weight = tbe_row_address(k, table, k->runs->rows[run]);
    switch (state->pc) {
    case SORTED_BOUNDS:
        wave_first_trip(window, state);
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, half ? 10 : 13, 14, 41 + 3 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->segments + segment * 4, segment + 1 < k->tables * k->runs->count ? 8 : 4);
        op_lanes(op, k->lanes);
        state->pc = SORTED_VALUES;
        return;
    case SORTED_VALUES:
        if (state->trip >= limit) {
            op_begin(op, WAVE_LOAD, 0);
            op_work(op, 4, 5, 4 + KERNEL_SPECIAL_CYCLES);
            op_span(op, k->keys + first * 4, 4);
            op_lanes(op, k->lanes);
            state->pc = SORTED_WEIGHT;
            return;
        }
        state->r[0] = limit - state->trip >= unroll ? unroll : 1;
        state->r[1] = 0;
        op_begin(op, WAVE_LOAD, 0);
        if (state->trip == window->trip_first) {
            op_work(op, 9, 41, 68 + 3 * KERNEL_SPECIAL_CYCLES);
        } else if (state->r[0] == 1) {
            op_work(op, half ? 3 : 2, half ? 57 : 14, half ? 43 : 9);
        } else {
            op_work(op, half ? 7 : 5, half ? 84 : 33, half ? 78 + KERNEL_SPECIAL_CYCLES : 25);
        }
        for (uint64_t i = 0; i < state->r[0]; i++) {
            op_span_apart(op, k->values + (first + state->trip + i) * 4, 4);
        }
        op_lanes(op, k->lanes);
        state->pc = SORTED_ROWS;
        return;
    case SORTED_ROWS: {
        uint64_t group = state->r[0] == 1 ? 1 : 2;
        op_begin(op, WAVE_LOAD, 0);
        if (state->r[0] == 1) {
            op_work(op, 2, half ? 40 : 26, half ? 106 + 3 * KERNEL_SPECIAL_CYCLES : 77);
        } else if (half) {
            op_work(op, 6, 61, 183 + 2 * KERNEL_SPECIAL_CYCLES);
        } else {
            op_work(op, 4, state->r[1] == 0 ? 90 : 32, state->r[1] == 0 ? 187 + 3 * KERNEL_SPECIAL_CYCLES : 82);
        }
        for (uint64_t i = 0; i < group; i++) {
            uint64_t j = state->trip + state->r[1] * 2 + i;
            tbe_span(k, op, tbe_output_address(k, table, run_table_bag(k->runs, k->source, table, run, j)));
        }
        op->work_units = (uint32_t)group;
        if (++state->r[1] * group >= state->r[0]) {
            state->trip += state->r[0];
            state->pc = SORTED_VALUES;
        }
        return;
    }
    case SORTED_WEIGHT: /* the first 16 bytes a lane, and for wider rows the rest behind the first store */
    case SORTED_UPDATE: {
        bool loads = state->pc == SORTED_WEIGHT;
        uint64_t at = state->r[2], bytes = min_u64(k->chunk, k->row_bytes - at);
        op_begin(op, loads ? WAVE_LOAD : WAVE_STORE, 0);
        op_work(op, loads ? 3 : 1, loads ? 10 : half ? 20 : 6, loads ? 20 : half ? 16 : 10);
        op_span(op, weight + at, bytes);
        op_lanes(op, ceil_div(bytes, 16));
        state->pc = loads ? SORTED_UPDATE : at + bytes < k->row_bytes ? SORTED_WEIGHT : SORTED_END;
        state->r[2] += loads ? 0 : bytes;
        return;
    }
    default:
        op_end(op);
    }
}

/* ---- building ---- */

struct tbe_shape {
    uint64_t bags, tables, length, width, rows;
    uint32_t element_bytes;
    struct index_request request;
};

#define INDEX_BYTES 4

static double tbe_lookup_count(const struct tbe_shape *shape)
{
    return (double)shape->bags * (double)shape->tables * (double)shape->length;
}

static struct tbe_shape tbe_read(struct kernel_build *build, uint32_t row_bytes_most)
{
    struct tbe_shape shape;
    shape.bags = kernel_param_integer(build, "B", 1, 1ull << 30);
    shape.tables = kernel_param_integer(build, "T", 1, 100000);
    shape.length = kernel_param_integer(build, "L", 1, 1ull << 20);
    shape.width = kernel_param_integer(build, "D", 4, 2048);
    shape.rows = kernel_param_unknown(build, "rows", 1, UINT32_MAX, TBE_ROWS_UNKNOWN);
    shape.request = index_request_read(build, INDEX_UNIFORM, INDEX_ZIPF);
    static const uint32_t bytes[] = { 4, 2 };
    shape.element_bytes = bytes[kernel_param_choice_or(build, "prec", "fp32|fp16", 0, "the study's tables vary")];
    uint32_t row_bytes = (uint32_t)shape.width * shape.element_bytes;
    if (row_bytes % 16 != 0 || row_bytes > row_bytes_most) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter D=%llu is not valid: a row must be a multiple of 16 bytes and at "
                    "most %u", (unsigned long long)shape.width, row_bytes_most);
    }
    double lookups = tbe_lookup_count(&shape);
    if (lookups >= 4294967296.0 || (double)shape.tables * (double)shape.rows >= 4294967296.0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameters B, T, L, rows are not valid: the kernels number lookups and rows "
                    "in 32 bits, got %.3g lookups and %.3g rows", lookups, (double)shape.tables * (double)shape.rows);
    }
    kernel_require_hbm(build, (double)shape.tables * (double)shape.rows * row_bytes, "the tables");
    kernel_require_hbm(build, (double)shape.tables * (double)shape.bags * row_bytes + lookups * INDEX_BYTES,
                       "indices and pooled rows");
    return shape;
}

static struct index_source *tbe_source(struct kernel_build *build, const struct tbe_shape *shape)
{
    return index_request_open(build, &shape->request, shape->tables, shape->bags, shape->length, shape->rows, TBE_SEED);
}

/* A program over the tables; takes one hold of `source`. */
static struct wave_program *tbe_program(struct kernel_build *build, const char *name, wave_next next,
                                        const struct tbe_shape *shape, bool copies, struct index_source *source)
{
    struct wave_program *program = kernel_program_create(name, sizeof(struct tbe), next);
    struct tbe *k = program->context;
    *k = (struct tbe){ .source = source, .tables = shape->tables, .bags = shape->bags, .length = shape->length,
                       .rows = shape->rows, .width = (uint32_t)shape->width, .element_bytes = shape->element_bytes,
                       .lanes = build->machine->lanes, .chunk = 16 * build->machine->lanes, .together = 1 };
    k->row_bytes = k->width * k->element_bytes;
    kernel_program_adopt(program, source, index_source_release);
    k->weights = kernel_program_tensor(program, "weights", (double)k->tables * (double)k->rows * k->row_bytes);
    k->copies = copies;
    k->output = kernel_program_tensor(program, copies ? "copied rows" : "pooled rows", 4.0 * k->width *
                                      (copies ? tbe_lookup_count(shape) : (double)k->tables * (double)k->bags));
    program->work_units_total = (uint64_t)tbe_lookup_count(shape);
    program->flops = tbe_lookup_count(shape) * k->width;
    build->plan->flops = program->flops;
    return program;
}

static void tbe_value(struct kernel_build *build, const struct tbe_shape *shape)
{
    double bytes = tbe_lookup_count(shape) * (double)shape->width * shape->element_bytes;
    kernel_value_per_time(build, bytes * 1e-6, "TB/s");
}

static void library_program(struct kernel_build *build, struct wave_program *program, bool variable)
{
    struct tbe *k = program->context;
    double bags = (double)k->tables * (double)k->bags;
    program->next = tbe_library_next;
    k->variant = build->machine->lanes > 32 ? &library_wide : &library_narrow;
    k->tables_info = kernel_program_tensor(program, "tables", (double)k->tables * TABLE_INFO_BYTES);
    k->offsets = kernel_program_tensor(program, "offsets", 8 * (bags + 1));
    k->variable = variable;
    if (k->copies) {
        k->copied_together = k->width <= LIBRARY_SMALL ? k->lanes / (uint32_t)ceil_div(k->width, k->variant->elements) : 1;
    }
    if (variable) {
        k->bag_map = kernel_program_tensor(program, "bags", 4 * bags);
        k->places = kernel_program_tensor(program, "places", 8 * bags);
    }
    uint32_t vectors = (uint32_t)ceil_div(k->width, (uint64_t)k->lanes * k->variant->elements);
    program->registers_per_lane = k->variant->registers + (vectors - 1) * k->variant->registers_vector;
}

/* As many workgroups as the library launches; each of their waves walks bags. */
static void library_grid(const struct kernel_build *build, struct wave_program *program)
{
    const struct tbe *k = program->context;
    struct kernel_machine machine = *build->machine;
    machine.units /= program->part_of > 1 ? program->part_of : 1;
    uint64_t bags = ceil_div(k->tables * k->bags, k->together);
    if (!k->copies) {
        program->workgroups = min_u64(program->workgroups, (uint64_t)LIBRARY_GRID * machine.units);
    }
    uint64_t rounds = ceil_div(bags, program->workgroups * program->waves_per_workgroup);
    if (rounds >= LIBRARY_LONG) { /* so many bags in series that the first stand for all even in many rounds */
        program->trips_per_wave = rounds * k->length;
    } else if (!k->copies) { /* copies: a wave's few writes at a time settle only once the caches have been replaced whole */
        kernel_program_loops(program, &machine, rounds * k->length);
    }
}

/* A wave per bag: forward and the atomic backward. */
static void tbe_bag_build(struct kernel_build *build, bool forward)
{
    bool library = false;
    if (forward) { /* the measuring program's is for the rows that it measured (devices/harness) */
        library = kernel_param_choice_or(build, "code", "measured|library", 1, NULL) == 1;
    } else {
        kernel_fix_read_copies(build);
    }
    bool variable = library && kernel_param_choice_or(build, "batches", "equal|variable", 0, NULL) == 1;
    bool copies = library && kernel_param_choice_or(build, "pooling", "sum|none", 0, NULL) == 1;
    struct tbe_shape shape = tbe_read(build, library ? LIBRARY_ROW_BYTES : 32 * build->machine->lanes);
    if (!kernel_params_done(build)) {
        return;
    }
    if (library) {
        kernel_require_hbm(build, tbe_lookup_count(&shape) * 8, "indices");
    }
    if (copies && (variable || kernel_has_fix(build, KERNEL_FIX_ROW_PACK))) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter pooling=none goes without %s, which share out bags that are summed",
                    variable ? "batches=variable" : "fix row-pack");
        return;
    }
    tbe_value(build, &shape);
    uint32_t parts = 1;
    if (library && !variable && !copies && !kernel_has_fix(build, KERNEL_FIX_SORT_SEGMENT)) {
        parts = index_request_parts(build, &shape.request, shape.bags, shape.rows, shape.width * shape.element_bytes, (uint64_t)tbe_lookup_count(&shape));
        shape.bags /= parts;
        shape.rows /= parts;
    }
    struct index_source *source = tbe_source(build, &shape);
    if (source == NULL) {
        return;
    }
    if (kernel_has_fix(build, KERNEL_FIX_SORT_SEGMENT)) {
        bool half = shape.element_bytes == 2;
        kernel_plan_add_sort_segment(build, source,
                                     &(struct segment_shape){ (uint32_t)shape.width / (half ? 2 : 1), 4, INDEX_BYTES,
                                                              half ? WAVE_ATOMIC_PACKED16 : WAVE_ATOMIC_FP32, true });
        return;
    }
    struct wave_program *program = tbe_program(build, forward ? "tbe forward" : "tbe backward, atomics",
                                               forward ? tbe_forward_next : tbe_scatter_next, &shape, copies, source);
    struct tbe *k = program->context;
    program->part_of = parts;
    build->plan->flops = program->flops * parts;
    k->indices = kernel_program_tensor(program, "indices", tbe_lookup_count(&shape) * (library ? 8 : INDEX_BYTES));
    bool half = shape.element_bytes == 2;
    if (library) {
        library_program(build, program, variable);
    } else {
        program->registers_per_lane = forward ? (half ? 52 : 44) : (half ? 31 : 32);
    }
    if (kernel_has_fix(build, KERNEL_FIX_ROW_PACK)) {
        if (k->lanes <= ROW_GROUP) {
            kernel_assume(build, "row-pack: a wave of this device is a group of %d lanes; nothing moves", ROW_GROUP);
        } else {
            k->together = k->lanes / ROW_GROUP;
            k->chunk = 16 * ROW_GROUP;
        }
    }
    kernel_program_grid(program, ceil_div(shape.bags * shape.tables, k->together) * k->lanes, library ? LIBRARY_THREADS : THREADS,
                        k->lanes);
    if (library) {
        library_grid(build, program);
    } else if (forward) {
        kernel_program_loops(program, build->machine, shape.length);
    } else { /* hundreds of serial accesses a wave: its first trips stand for all even in many rounds */
        program->trips_per_wave = shape.length;
    }
    if (!library || k->copies) {
        program->workgroups_period = program->workgroups / k->tables; /* a table's bags follow another's */
    }
    uint64_t weights = k->weights;
    double bytes = (double)k->tables * (double)k->rows * k->row_bytes * parts;
    uint32_t row_bytes = k->row_bytes;
    kernel_plan_add(build, program, 1);
    kernel_fix_target(build, weights, bytes, row_bytes, 4, half ? WAVE_ATOMIC_PACKED16 : WAVE_ATOMIC_FP32);
}

static void forward_build(struct kernel_build *build)
{
    tbe_bag_build(build, true);
}

static void backward_atomic_build(struct kernel_build *build)
{
    tbe_bag_build(build, false);
}

static void sort_build(struct kernel_build *build)
{
    struct tbe_shape shape = tbe_read(build, 32 * build->machine->lanes);
    if (!kernel_params_done(build)) {
        return;
    }
    uint64_t lookups = (uint64_t)tbe_lookup_count(&shape);
    uint32_t bits = kernel_key_bits(shape.tables * shape.rows);
    kernel_plan_add_sort(build, lookups, 4, 4, bits, bits);
    kernel_value_per_time(build, (double)lookups * 1e-3, "Gkeys/s");
}

static void note_scaled_runs(struct kernel_build *build, const struct index_source *source)
{
    if (source->bags * source->length > RUN_TABLE_DRAWS) {
        kernel_assume(build, "run lengths: drawn from %llu lookups of one table and scaled",
                      RUN_TABLE_DRAWS);
    }
}

void kernel_plan_add_sorted_backward(struct kernel_build *build, struct index_source *source, uint32_t width,
                                     uint32_t element_bytes)
{
    struct tbe_shape shape = { .bags = source->bags, .tables = source->tables, .length = source->length, .width = width,
                               .rows = source->rows, .element_bytes = element_bytes };
    struct wave_program *program = tbe_program(build, "tbe backward, sorted", tbe_sorted_next, &shape, false, source);
    struct tbe *k = program->context;
    k->runs = run_table_create(source);
    kernel_program_adopt(program, k->runs, run_table_release);
    note_scaled_runs(build, source);
    double lookups = tbe_lookup_count(&shape);
    uint64_t segments = k->tables * k->runs->count;
    k->segments = kernel_program_tensor(program, "segments", (double)segments * 4);
    k->keys = kernel_program_tensor(program, "sorted rows", lookups * 4);
    k->values = kernel_program_tensor(program, "sorted bags", lookups * 4);
    program->registers_per_lane = element_bytes == 2 ? 48 : 40;
    kernel_program_grid(program, segments * k->lanes, THREADS, k->lanes);
    kernel_program_loops(program, build->machine, k->runs->lookups / k->runs->count);
    program->workgroups_differ = source->kind != INDEX_UNIFORM;
    program->workgroups_period = max_u64(1, program->workgroups / k->tables);
    program->longest_wave_trips = run_table_length(k->runs, k->runs->longest);
    program->longest_wave_workgroup = k->runs->longest / program->waves_per_workgroup;
    program->longest_wave_index = (uint32_t)(k->runs->longest % program->waves_per_workgroup);
    kernel_plan_add(build, program, 1);
}

static void backward_sorted_build(struct kernel_build *build)
{
    struct tbe_shape shape = tbe_read(build, 32 * build->machine->lanes);
    if (!kernel_params_done(build)) {
        return;
    }
    struct index_source *source = tbe_source(build, &shape);
    if (source != NULL) {
        kernel_plan_add_sorted_backward(build, source, (uint32_t)shape.width, shape.element_bytes);
        tbe_value(build, &shape);
    }
}

#define TBE_HELP "B (bags), T (tables), L (lookups a bag), D, rows (a table, 1e7), prec (fp32|fp16)" INDEX_HELP
#define FORWARD_HELP TBE_HELP ", code (measured|library), batches (equal|variable), pooling (sum|none); both of code=library"

const struct kernel_definition tbe_kernels[] = {
    { "tbe", "forward", "sum-pooled lookups, a wave per bag", FORWARD_HELP, forward_build },
    { "tbe", "backward_atomic", "gradients added to their rows by atomics, a wave per bag", TBE_HELP,
      backward_atomic_build },
    { "tbe", "sort", "radix sort of (row, bag) pairs", TBE_HELP, sort_build },
    { "tbe", "backward_sorted", "sorted lookups, a wave per distinct row", TBE_HELP, backward_sorted_build },
    { .suite = NULL },
};
