/* sort-segment: instead of an atomic per lookup, (row, place) pairs are sorted and runs of equal rows summed. A wave takes a
 * piece of up to SEGMENT_MOST lookups of one run; rows of one piece are read, added to and written, pieces of longer runs
 * meet by one atomic per column (the rule of a published grouped index select). */
#include "workloads/kernels/fix_internal.h"

struct segments {
    struct index_source *source;
    struct run_table *runs;
    uint32_t *first_piece; /* [runs + 1] */
    uint32_t lanes, row_bytes, element_bytes;
    uint32_t chunk_bytes, chunks; /* of a row that one wave takes; waves side by side over a row */
    uint32_t together; /* lookups that one load covers: lanes left over by narrow rows, or unrolled by 4 */
    uint8_t type;
    uint64_t starts, keys, places, rows, target;
};

/* The run of piece `id` of one table. */
static uint64_t piece_run(const struct segments *k, uint64_t id)
{
    uint64_t low = 0, high = k->runs->count;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        if (k->first_piece[middle] <= id) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

enum segment_step {
    SEGMENT_BOUNDS,
    SEGMENT_PLACES,
    SEGMENT_ROWS,
    SEGMENT_KEY,
    SEGMENT_TARGET,
    SEGMENT_WRITE,
    SEGMENT_END
};

/* r[0]: run, r[1]: first lookup of the piece in the run, r[2]: lookups of the piece, r[3]: table. Costs of the loop as
 * compiled for tbe/backward_sorted, per load; lanes that took different lookups meet by shuffles at the end. */
static void segment_next(const struct wave_program *program, const struct wave_window *window,
                         struct wave_state *state, struct wave_op *op)
{
    const struct segments *k = program->context;
    uint64_t wave = wave_index(program, state), piece = wave / k->chunks,
             pieces = k->first_piece[k->runs->count];
    uint64_t offset = wave % k->chunks * k->chunk_bytes,
             bytes = min_u64(k->chunk_bytes, k->row_bytes - offset);
    uint64_t limit = min_u64(state->r[2], window->trip_limit);
    uint64_t count = state->trip < limit ? min_u64(k->together, limit - state->trip) : 0;
    uint64_t sorted = state->r[3] * k->runs->lookups + k->runs->starts[state->r[0]] + state->r[1];
    uint64_t target = 0;
    op_lanes(op, min_u64(k->lanes, max_u64(1, bytes / 4)));
    if (state->pc >= SEGMENT_KEY) {
        target = k->target + (state->r[3] * k->source->rows + k->runs->rows[state->r[0]]) * k->row_bytes +
                 offset;
    }
    switch (state->pc) {
    case SEGMENT_BOUNDS:
        if (piece / pieces >= k->source->tables) {
            op_end(op);
            return;
        }
        wave_first_trip(window, state);
        state->r[3] = piece / pieces;
        state->r[0] = piece_run(k, piece % pieces);
        state->r[1] = (piece % pieces - k->first_piece[state->r[0]]) * SEGMENT_MOST;
        state->r[2] = min_u64(SEGMENT_MOST, run_table_length(k->runs, state->r[0]) - state->r[1]);
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 12, 20, 60 + 3 * KERNEL_SPECIAL_CYCLES);
        op_span(op, k->starts + (state->r[3] * k->runs->count + state->r[0]) * 4, 4);
        state->pc = SEGMENT_PLACES;
        return;
    case SEGMENT_PLACES:
        if (count == 0) {
            uint32_t shuffles = 0;
            for (uint32_t width = 1; width < k->together && k->together > 4; width *= 2) {
                shuffles++;
            }
            op_begin(op, WAVE_LOAD, 0);
            op_work(op, 4 + shuffles, 5 + 2 * shuffles,
                    4 + KERNEL_SPECIAL_CYCLES + shuffles * KERNEL_SHUFFLE_CYCLES);
            op_span(op, k->keys + sorted * 4, 4);
            state->pc = SEGMENT_TARGET;
            return;
        }
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 4, 20, 25);
        op_span(op, k->places + (sorted + state->trip) * 4, count * 4);
        state->pc = SEGMENT_ROWS;
        return;
    case SEGMENT_ROWS:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 4, 40, 80 + KERNEL_SPECIAL_CYCLES);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t bag = run_table_bag(k->runs, k->source, state->r[3], state->r[0],
                                         state->r[1] + state->trip + i);
            op_span_apart(op, k->rows + (bag * k->source->tables + state->r[3]) * k->row_bytes + offset,
                          bytes);
        }
        op_lanes(op, min_u64(k->lanes, max_u64(1, count * bytes / 4)));
        op->work_units = (uint32_t)count;
        state->trip += count;
        state->pc = SEGMENT_PLACES;
        return;
    case SEGMENT_TARGET:
        if (run_table_length(k->runs, state->r[0]) > SEGMENT_MOST) {
            op_begin(op, WAVE_ATOMIC, 0);
            op_work(op, 3, 10, 20);
            op->atomic_type = k->type;
            op->element_bytes = (uint8_t)k->element_bytes;
            op_span(op, target, bytes);
            op_lanes(op, min_u64(k->lanes, bytes / k->element_bytes));
            state->pc = SEGMENT_END;
            return;
        }
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 3, 10, 20);
        op_span(op, target, bytes);
        state->pc = SEGMENT_WRITE;
        return;
    case SEGMENT_WRITE:
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 1, 6, 10);
        op_span(op, target, bytes);
        state->pc = SEGMENT_END;
        return;
    default: op_end(op);
    }
}

static void add_segments(struct kernel_build *build, struct index_source *source, struct run_table *runs,
                         const struct segment_shape *shape)
{
    struct wave_program *program = kernel_program_create("segments of sorted rows", sizeof(struct segments),
                                                         segment_next);
    struct segments *k = program->context;
    *k = (struct segments){ .source = index_source_share(source),
                            .runs = run_table_share(runs),
                            .lanes = build->machine->lanes,
                            .row_bytes = shape->width * shape->element_bytes,
                            .element_bytes = shape->element_bytes,
                            .type = (uint8_t)shape->type };
    kernel_program_adopt(program, source, index_source_release);
    kernel_program_adopt(program, runs, run_table_release);
    k->first_piece = kernel_program_scratch(program, (runs->count + 1) * sizeof *k->first_piece);
    for (uint64_t run = 0; run < runs->count; run++) {
        k->first_piece[run + 1] = k->first_piece[run] +
                                  (uint32_t)ceil_div(run_table_length(runs, run), SEGMENT_MOST);
    }
    /* An atomic span is one element a lane wide at most: a wave's part of a row is that wide too. */
    k->chunk_bytes = (uint32_t)min_u64(k->lanes * shape->element_bytes, k->row_bytes);
    k->chunks = (uint32_t)ceil_div(k->row_bytes, k->chunk_bytes);
    k->together = (uint32_t)max_u64(4, k->lanes * shape->element_bytes / k->chunk_bytes);
    double lookups = (double)runs->lookups * (double)source->tables;
    uint64_t pieces = k->first_piece[runs->count] * source->tables;
    k->starts = kernel_program_tensor(program, "run starts",
                                      4.0 * (double)runs->count * (double)source->tables);
    k->keys = kernel_program_tensor(program, "sorted rows", 4 * lookups);
    k->places = kernel_program_tensor(program, "sorted places", 4 * lookups);
    k->rows = kernel_program_tensor(program, "rows to add",
                                    (double)source->bags * (double)source->tables * k->row_bytes);
    k->target = kernel_program_tensor(program, "target",
                                      (double)source->rows * (double)source->tables * k->row_bytes);
    program->registers_per_lane = 40;
    kernel_program_grid(program, pieces * k->chunks * k->lanes, 256, k->lanes);
    program->work_units_total = runs->lookups * source->tables * k->chunks;
    kernel_program_loops(program, build->machine, min_u64(SEGMENT_MOST, runs->lookups / runs->count));
    program->workgroups_differ = source->kind != INDEX_UNIFORM || source->hot_share > 0;
    program->longest_wave_trips = min_u64(SEGMENT_MOST, run_table_length(runs, runs->longest));
    uint64_t wave = (uint64_t)k->first_piece[runs->longest] * k->chunks;
    program->longest_wave_workgroup = wave / program->waves_per_workgroup;
    program->longest_wave_index = (uint32_t)(wave % program->waves_per_workgroup);
    program->flops = (double)lookups * shape->width;
    kernel_plan_add(build, program, 1);
}

void kernel_plan_add_sort_segment(struct kernel_build *build, struct index_source *source,
                                  const struct segment_shape *shape)
{
    double lookups = (double)source->bags * (double)source->length * (double)source->tables;
    if (lookups >= 4294967296.0 || (double)source->rows * (double)source->tables >= 4294967296.0) {
        kernel_fail(build, SIM_UNSUPPORTED,
                    "fix sort-segment numbers lookups and rows in 32 bits, got %.3g and %.3g", lookups,
                    (double)source->rows * (double)source->tables);
        index_source_release(source);
        return;
    }
    struct run_table *runs = run_table_create(source);
    uint64_t n = (uint64_t)lookups;
    uint32_t bits = kernel_key_bits(source->rows * source->tables);
    if (source->bags * source->length > RUN_TABLE_DRAWS) {
        kernel_assume(build, "run lengths: drawn from a part of one table's lookups and scaled");
    }
    kernel_plan_add_map(build, "pairs", n, 256, shape->index_bytes, 8,
                        (struct kernel_map_cost){ 4, 10, 40 + 2 * KERNEL_SPECIAL_CYCLES, 4, 6, 12, 12 });
    kernel_plan_add_sort(build, n, 4, 4, bits, bits);
    kernel_plan_add_map(build, "flag run heads", n, 256, 4, 4,
                        (struct kernel_map_cost){ 6, 13, 57 + 2 * KERNEL_SPECIAL_CYCLES, 2, 5, 10, 12 });
    kernel_plan_add_chained(build, KERNEL_SELECT_FLAGGED, n, runs->count * source->tables);
    if (kernel_build_ok(build) && shape->reads) {
        add_segments(build, source, runs, shape);
    } else if (kernel_build_ok(build)) { /* occurrences: two starts apart, added to the run's counter */
        kernel_plan_add_map(build, "count runs", runs->count * source->tables, 256, 4 + shape->element_bytes,
                            shape->element_bytes,
                            (struct kernel_map_cost){ 6, 12, 45 + 2 * KERNEL_SPECIAL_CYCLES, 2, 6, 12, 16 });
    }
    run_table_release(runs);
    index_source_release(source);
}
