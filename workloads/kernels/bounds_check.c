/* bounds_check: every index of every bag is compared with its table's row count; invalid ones are rewritten and
 * counted. The count reaches one word of memory either by an atomic per thread that saw one, or by a tree in shared
 * memory and one atomic per workgroup. */
#include "workloads/kernels/fix_internal.h"

struct bounds {
    uint64_t tables, bags, length; /* per table; indices per bag */
    uint32_t block_x, block_y;     /* threads along a bag, bags per workgroup */
    uint32_t lanes, threads;
    uint64_t groups_per_table;
    uint64_t groups, grid;         /* workgroups' worth of bags; workgroups that walk them, `grid` apart */
    uint32_t invalid_below; /* an index is invalid when its hash is below */
    bool tree;
    enum bounds_claim { CLAIM_NONE, CLAIM_WAVE, CLAIM_THREAD } claim; /* who asks the counter whether to print a warning */
    uint64_t indices, offsets, rows, counter;
};

/* The measuring program's rule for which index it spoils. */
static bool is_invalid(const struct bounds *k, uint64_t index)
{
    uint32_t h = (uint32_t)index * 0x9E3779B1u;
    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    h ^= h >> 12;
    return h < k->invalid_below;
}

/* A wave's part of one bag: the lanes `first_lane`.. of the wave are threads `x`..`x + width` along bag `bag`. */
struct bag_part {
    uint64_t bag; /* over all tables */
    uint32_t first_lane, x, width;
};

/* Trips over a bag; a wave's trip t is trip t % that of its group number t / that. r[2]: the group it is at. */
static uint64_t bag_trips(const struct bounds *k)
{
    return ceil_div(k->length, k->block_x);
}

static uint64_t bounds_group(const struct bounds *k, const struct wave_state *state)
{
    return state->workgroup + state->r[2] * k->grid;
}

/* The part-th bag that the wave works on; false when there is none (end of the wave, of the workgroup or the table). */
static bool bounds_part(const struct bounds *k, const struct wave_state *state, uint32_t part, struct bag_part *out)
{
    uint64_t first = (uint64_t)state->wave * k->lanes;
    uint64_t y = first / k->block_x + part;
    uint64_t from = max_u64(y * k->block_x, first);
    uint64_t to = min_u64(min_u64((y + 1) * k->block_x, first + k->lanes), k->threads);
    uint64_t group = bounds_group(k, state), table = group / k->groups_per_table;
    uint64_t bag = group % k->groups_per_table * k->block_y + y;
    if (from >= to || bag >= k->bags) {
        return false;
    }
    *out = (struct bag_part){ table * k->bags + bag, (uint32_t)(from - first), (uint32_t)(from - y * k->block_x),
                              (uint32_t)(to - from) };
    return true;
}

/* Elements of the bag that a part touches in trip `t`: [first, first + count) of the index array. */
static uint64_t part_elements(const struct bounds *k, const struct bag_part *part, uint64_t trip, uint64_t *first)
{
    uint64_t at = trip % bag_trips(k) * k->block_x + part->x;
    *first = part->bag * k->length + at;
    return at < k->length ? min_u64(part->width, k->length - at) : 0;
}

static uint64_t bounds_trips(const struct bounds *k, const struct wave_state *state)
{
    uint64_t trips = 0;
    struct bag_part part;
    for (uint32_t i = 0; bounds_part(k, state, i, &part); i++) {
        if (part.x < k->length) {
            trips = max_u64(trips, ceil_div(k->length - part.x, k->block_x));
        }
    }
    return trips;
}

/* Whether the wave's next trip is over the bags it is at. */
static bool bounds_within_bags(const struct bounds *k, const struct wave_window *window, const struct wave_state *state)
{
    return state->trip < window->trip_limit && state->trip / bag_trips(k) == state->r[2] &&
           state->trip % bag_trips(k) < bounds_trips(k, state);
}

/* On to the next group of bags that has one for this wave; false when there is none. */
static bool bounds_next_bags(const struct bounds *k, const struct wave_window *window, struct wave_state *state,
                             struct bag_part *part)
{
    for (; state->trip < window->trip_limit; state->trip = (state->r[2] + 1) * bag_trips(k)) {
        state->r[2] = state->trip / bag_trips(k);
        if (bounds_group(k, state) >= k->groups) {
            return false;
        }
        if (bounds_part(k, state, 0, part)) {
            return true;
        }
    }
    return false;
}

/* Spans of the elements of a trip, all of them or the invalid ones; the lanes that hold an invalid one go to `bad`. */
static uint64_t bounds_spans(const struct bounds *k, const struct wave_state *state, uint64_t trip, bool invalid_only,
                             struct wave_op *op, uint64_t *bad)
{
    uint64_t lanes = 0, first;
    struct bag_part part;
    for (uint32_t i = 0; bounds_part(k, state, i, &part); i++) {
        uint64_t count = part_elements(k, &part, trip, &first);
        if (!invalid_only) {
            op_span(op, k->indices + first * 8, count * 8);
            lanes += count;
            continue;
        }
        for (uint64_t e = 0; e < count; e++) {
            if (is_invalid(k, first + e)) {
                op_span(op, k->indices + (first + e) * 8, 8);
                *bad |= 1ull << (part.first_lane + e);
                lanes++;
            }
        }
    }
    return lanes;
}

/* Whether any index of the workgroup is invalid (the tree's last thread asks). */
static bool bounds_group_has_invalid(const struct bounds *k, uint64_t workgroup)
{
    for (uint64_t group = workgroup; k->invalid_below > 0 && group < k->groups; group += k->grid) {
        uint64_t table = group / k->groups_per_table;
        uint64_t bag = group % k->groups_per_table * k->block_y;
        uint64_t end = (table * k->bags + min_u64(bag + k->block_y, k->bags)) * k->length;
        for (uint64_t i = (table * k->bags + bag) * k->length; i < end; i++) {
            if (is_invalid(k, i)) {
                return true;
            }
        }
    }
    return false;
}

static void count_op(const struct bounds *k, struct wave_op *op, uint32_t lanes)
{
    op_begin(op, WAVE_ATOMIC, WAVE_NO_WAIT);
    op->atomic_type = WAVE_ATOMIC_INT;
    op->element_bytes = 8; /* 64-bit: the compiler does not merge the wave's lanes */
    op->lane_count = lanes;
    for (uint32_t lane = 0; lane < lanes; lane++) {
        op->lane_address[lane] = k->counter;
    }
    op_lanes(op, lanes);
}

enum bounds_step { BOUNDS_OFFSETS, BOUNDS_ROWS, BOUNDS_LOAD, BOUNDS_FIX, BOUNDS_CLAIM, BOUNDS_COUNT, BOUNDS_TREE, BOUNDS_END };

/* sm_90: 22 registers, 4 KiB of shared memory in both variants.
 *   offsets   20 instructions, 53 cycles, three special registers and constants on the way
 *   rows      8 instructions after the offsets (31 cycles), the row count
 *   first     54 instructions meanwhile, a division for the trip count among them (196 cycles, four conversions)
 *   a trip    10 instructions from the index's return to the next load (31 cycles): the store of a spoiled index may
 *             alias, so nothing is hoisted; the predicated store costs its issue slot either way
 *   tree      14 to the first barrier, then 13 (62 cycles, one shared-memory round trip) and a barrier per level,
 *             17 and the atomic at the end */
static void bounds_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                        struct wave_op *op)
{
    const struct bounds *k = program->context;
    struct bag_part part, last;
    uint64_t ignored = 0;
    uint32_t levels = 0;
    switch (state->pc) {
    case BOUNDS_OFFSETS:
        if (state->r[3] == 0) {
            state->r[3] = 1;
            wave_first_trip(window, state);
        }
        if (bounds_next_bags(k, window, state, &part)) {
            last = part;
            for (uint32_t i = 1; bounds_part(k, state, i, &last); i++) {
            }
            op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
            op_work(op, 8, 12, 33 + 3 * KERNEL_SPECIAL_CYCLES);
            op_span(op, k->offsets + part.bag * 8, (last.bag - part.bag + 2) * 8);
            op_lanes(op, k->lanes);
            state->pc = BOUNDS_ROWS;
            return;
        }
        state->pc = BOUNDS_CLAIM;
        bounds_next(program, window, state, op);
        return;
    case BOUNDS_ROWS:
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 2, 6, 23 + KERNEL_SPECIAL_CYCLES);
        op_span(op, k->rows + bounds_group(k, state) / k->groups_per_table * 8, 8);
        op_lanes(op, k->lanes);
        state->pc = BOUNDS_LOAD;
        return;
    case BOUNDS_FIX: {
        uint64_t bad = 0;
        op_begin(op, WAVE_STORE, 0);
        op_work(op, 1, 0, 0);
        op_lanes(op, bounds_spans(k, state, state->trip - 1, true, op, &bad));
        state->r[0] |= bad;
        state->pc = BOUNDS_LOAD;
        if (bad != 0) {
            return;
        }
        __attribute__((fallthrough)); /* nothing to fix */
    }
    case BOUNDS_LOAD:
        if (bounds_within_bags(k, window, state)) {
            bool first = state->trip == window->trip_first || state->trip % bag_trips(k) == 0;
            op_begin(op, WAVE_LOAD, first ? WAVE_NO_WAIT : 0);
            op_work(op, first ? 9 : 2, first ? 45 : 8, first ? 142 + 4 * KERNEL_SPECIAL_CYCLES : 21);
            op_lanes(op, bounds_spans(k, state, state->trip, false, op, &ignored));
            op->work_units = 1;
            state->trip++;
            state->pc = k->invalid_below > 0 ? BOUNDS_FIX : BOUNDS_LOAD;
            return;
        }
        state->trip = max_u64(state->trip, (state->r[2] + 1) * bag_trips(k));
        state->pc = BOUNDS_OFFSETS;
        bounds_next(program, window, state, op); /* the wave's next bags, or the end of them */
        return;
    case BOUNDS_CLAIM:
        state->pc = k->tree ? BOUNDS_TREE : BOUNDS_COUNT;
        if (k->claim != CLAIM_NONE && state->r[0] != 0) {
            /* Adds nothing and looks at the old value; address and value are uniform, so a compiler may merge the wave. */
            count_op(k, op, k->claim == CLAIM_WAVE ? 1 : (uint32_t)__builtin_popcountll(state->r[0]));
            op->wait_outstanding = 0;
            op->atomic_flags = WAVE_ATOMIC_RETURN | (k->claim == CLAIM_WAVE ? WAVE_ATOMIC_WAVE_MERGED : 0);
            op_work(op, 4, 8, 24);
            return;
        }
        break;
    default:
        break;
    }
    for (uint32_t width = k->threads / 2; width > 0; width /= 2) {
        levels++;
    }
    if (state->pc == BOUNDS_COUNT) {
        op_begin(op, WAVE_COMPUTE, 0);
        op_work(op, 2, 2, 20);
        state->pc = BOUNDS_END;
        if (state->r[0] != 0) {
            count_op(k, op, (uint32_t)__builtin_popcountll(state->r[0]));
            op->wait_outstanding = 0;
        }
        return;
    }
    if (state->pc >= BOUNDS_TREE && k->tree && state->r[1] <= levels) {
        /* r[1]: barriers passed. Threads beyond a level's width only wait. */
        uint64_t width = (uint64_t)k->threads >> state->r[1];
        bool busy = state->r[1] == 0 || (uint64_t)state->wave * k->lanes < width;
        op_begin(op, WAVE_BARRIER, 0);
        op_work(op, state->r[1] == 0 ? 5 : busy ? 6 : 3, state->r[1] == 0 ? 9 : busy ? 7 : 2,
                state->r[1] == 0 ? 40 + KERNEL_SPECIAL_CYCLES : busy ? 49 + KERNEL_SPECIAL_CYCLES : 20);
        op->lds_bytes = busy ? 4 * k->lanes * (state->r[1] == 0 ? 1 : 3) : 0;
        state->r[1]++;
        return;
    }
    if (k->tree && state->r[1] == levels + 1 && state->wave == 0) {
        state->r[1]++;
        if (bounds_group_has_invalid(k, state->workgroup)) {
            count_op(k, op, 1);
            op_work(op, 7, 10, 50 + 2 * KERNEL_SPECIAL_CYCLES);
            return;
        }
    }
    op_end(op);
}

static uint64_t bounds_work(const struct bounds *k, const struct wave_program *program)
{
    /* Workgroups of a table differ only in the last one, which may lack bags. */
    uint64_t full = 0, partial = 0;
    for (uint32_t wave = 0; wave < program->waves_per_workgroup; wave++) {
        struct wave_state state = { .workgroup = 0, .wave = wave };
        full += bounds_trips(k, &state);
        state.workgroup = k->groups_per_table - 1;
        partial += bounds_trips(k, &state);
    }
    return k->tables * (full * (k->groups_per_table - 1) + partial);
}

/* fix tree-reduction is the library's own tree; fix row-pack its later geometry, a lane a bag in workgroups of 256. */
static void bounds_build(struct kernel_build *build, bool tree)
{
    bool packed = kernel_has_fix(build, KERNEL_FIX_ROW_PACK);
    tree = tree || kernel_has_fix(build, KERNEL_FIX_TREE_REDUCTION);
    const char *shape = "the study gives 30 tables, 13.8 M indices and blocks of 1024 threads";
    uint64_t tables = kernel_param_integer_or(build, "tables", 1, 100000, 30, shape);
    uint64_t length = kernel_param_unknown(build, "bag", 1, 1000000000, (struct kernel_unknown){
        7, 4, 14, "13.8 M indices of 30 tables at batches of 32,768 to 131,072; 7 fits the study's times" });
    bool by_indices = kernel_param_given(build, "indices") && !kernel_param_given(build, "batch");
    uint64_t indices = kernel_param_integer_or(build, "indices", 1, 1ull << 50, 0, NULL), bags;
    if (by_indices) { /* a round figure: the nearest whole bags */
        bags = max_u64(1, (indices + tables * length / 2) / (tables * length));
        if (indices != tables * bags * length) {
            kernel_assume(build, "indices = %llu: %llu whole bags of %llu a table come nearest to %llu",
                          (unsigned long long)(tables * bags * length), (unsigned long long)bags, (unsigned long long)length,
                          (unsigned long long)indices);
        }
        indices = tables * bags * length;
    } else {
        bags = kernel_param_integer_or(build, "batch", 1, 1000000000, 65536, "65536 bags of 7 fit the study's 13.8 M indices");
        indices = indices > 0 ? indices : tables * bags * length;
    }
    uint64_t threads = kernel_param_integer_or(build, "block", 32, 1024, packed ? 256 : 1024, NULL);
    /* The library's geometry, unless one is named: a wave a bag, at most 64 workgroups a unit that walk the bags. */
    bool named = kernel_param_given(build, "block_x");
    uint64_t block_x = packed ? 1 : kernel_param_integer_or(build, "block_x", 1, 1024, build->machine->lanes,
                                                            "a wave a bag, as the study's library; others have 8 to 64");
    uint64_t grid = kernel_param_integer_or(build, "grid", 0, 1000000, named || packed ? 0 : 64,
                                            named || packed ? NULL : "workgroups a unit that walk the bags, as the study's "
                                            "library; 0: one for each share of bags");
    if (packed && kernel_param_given(build, "block_x")) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter block_x goes without fix row-pack, which gives each bag one lane");
    }
    if (block_x > threads) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter block_x=%llu is not valid: at most block=%llu threads",
                    (unsigned long long)block_x, (unsigned long long)threads);
    }
    double rate = kernel_param_real(build, "rate", 0, 1);
    /* The study's library warns; a program that names its geometry is taken as it says. */
    int claim = kernel_param_choice_or(build, "claim", "none|wave|thread", named ? CLAIM_NONE : CLAIM_WAVE,
                                       named ? NULL : "the study's library asks its counter who prints a warning; none where "
                                       "the geometry (block_x) is given");
    if (indices != tables * bags * length && kernel_build_ok(build)) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter indices=%llu is not valid: tables x batch x bag is %llu",
                    (unsigned long long)indices, (unsigned long long)(tables * bags * length));
    }
    kernel_require_hbm(build, (double)tables * (double)bags * (double)length * 8, "the indices");
    kernel_require_lds(build, threads * 4);
    kernel_fix_read_copies(build);
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("bounds check", sizeof(struct bounds), bounds_next);
    struct bounds *k = program->context;
    *k = (struct bounds){ .tables = tables, .bags = bags, .length = length, .block_x = (uint32_t)block_x,
                          .block_y = (uint32_t)(threads / block_x), .lanes = build->machine->lanes, .tree = tree,
                          .claim = (enum bounds_claim)claim };
    k->threads = k->block_x * k->block_y;
    k->groups_per_table = ceil_div(bags, k->block_y);
    k->groups = tables * k->groups_per_table;
    k->grid = grid > 0 ? min_u64(k->groups, grid * build->machine->units) : k->groups;
    double threshold = rate * 4294967296.0;
    k->invalid_below = threshold >= 4294967295.0 ? UINT32_MAX : (uint32_t)threshold;
    double bytes = (double)indices * 8;
    k->indices = kernel_program_tensor(program, "indices", bytes);
    k->offsets = kernel_program_tensor(program, "offsets", ((double)tables * (double)bags + 1) * 8);
    k->rows = kernel_program_tensor(program, "rows", (double)tables * 8);
    k->counter = kernel_program_tensor(program, "counter", 8);
    program->workgroups = k->grid;
    program->waves_per_workgroup = (uint32_t)ceil_div(k->threads, k->lanes);
    program->registers_per_lane = 22;
    program->lds_bytes = (uint32_t)threads * 4;
    program->work_units_total = max_u64(1, bounds_work(k, program));
    kernel_program_loops(program, build->machine, ceil_div(length, block_x) * ceil_div(k->groups, k->grid));
    program->l2_footprint_bytes = bytes;
    /* The measuring program rewrites the indices just before. */
    program->initial_cache = WAVE_CACHE_STATE_PREDECESSOR;
    program->predecessor_bytes = indices * 8;
    program->predecessor = (struct wave_span){ k->indices, (uint32_t)program->predecessor_bytes };
    uint64_t counter = k->counter;
    kernel_plan_add(build, program, 1);
    if (!tree || kernel_has_fix(build, KERNEL_FIX_XCD_SWIZZLE)) {
        kernel_fix_target(build, counter, 8, 8, 8, WAVE_ATOMIC_INT);
    }
    build->fixes &= ~(1u << KERNEL_FIX_TREE_REDUCTION);
    kernel_value_per_time(build, bytes * 1e-3, "GB/s");
}

static void per_thread_atomic_build(struct kernel_build *build)
{
    bounds_build(build, false);
}

static void tree_reduction_build(struct kernel_build *build)
{
    bounds_build(build, true);
}

#define BOUNDS_HELP "tables (30), batch (65536), bag (7), block_x (lanes a bag: a wave), rate (of invalid indices), indices, " \
                    "block (threads, 1024), grid (workgroups a unit, 0: not bounded), claim (none|wave|thread: a second " \
                    "atomic of those that saw one, to print once), copies"

const struct kernel_definition bounds_check_kernels[] = {
    { "bounds_check", "per_thread_atomic", "indices against row counts; an atomic per thread that saw a bad one",
      BOUNDS_HELP, per_thread_atomic_build },
    { "bounds_check", "tree_reduction", "the same; a tree in shared memory, an atomic per workgroup", BOUNDS_HELP,
      tree_reduction_build },
    { .suite = NULL },
};
