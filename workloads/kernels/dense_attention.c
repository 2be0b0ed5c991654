/* Flash attention. A workgroup keeps one tile (of Q forward, of K and V backward) and walks the other side in tiles that
 * are loaded ahead; scores never leave the unit. cuDNN's sm_90 kernels, which recorded steps show, are the pattern: as
 * many workgroups as units (grid=persistent; others start one for each kept tile, or do so for masked calls, whose tiles differ), two groups of waves with 64 rows each, three tiles of K and V in LDS; backward walks Q and dO
 * in tiles of 64 rows and adds dQ to an fp32 buffer by atomics, which a wave of its own issues from LDS, with one kernel
 * before (row sums of dO x O, buffer cleared) and one after (buffer to 16 bits).
 *
 * Instruction slots per score, from the algorithm, where maxima and conversions of pairs run at half rate: forward one EX2
 * and 5 (scale and subtract, 2 of a max, sum, conversion), plus the rescaling of the output tile once per step; backward
 * one EX2 and 7 (scale and subtract, dP - delta, product, two conversions, select, LDS addresses). A causal mask adds an
 * index comparison and a select, both at half rate, to every score: measured causal calls cost a third more per tile than
 * others, so these generated kernels do not single out the tiles on the diagonal. Kernels for waves of 64 lanes do (their libraries'
 * loop over whole tiles and mask what is left: ROCm/composable_kernel, HazyResearch/HipKittens). */
#include "sim/core/chip_profile.h"
#include "workloads/kernels/dense_internal.h"
#include <math.h>
#include <stdlib.h>

#define SPANS_PER_OP 64u
#define BACKWARD_ROWS 128u /* kept; two tensors and two accumulators */
#define KEPT_ROWS_PER_LANE 4u /* 16 rows a wave of 32 lanes, 32 a wave of 64, as their matrix instructions have them */
#define GROUP_ROWS 64u /* of the kept tile, for each group of waves, or the matrix unit's rows where it has more */
#define WAVES 8u /* two a SIMD: one multiplies while the other is at its exponentials */
#define ITEM_STEPS 1u /* what starting and storing an item costs, in steps: for dealing items alone */
#define ITEMS_MAX (1u << 24)
#define ADD_BYTES 4096u /* that one atomic op covers */

/* Rows of one tensor: [batch][head][row][depth]. */
struct row_tensor {
    uint64_t base;
    uint32_t heads, row_bytes;
};

struct flash {
    uint64_t batch, heads, kept_rows, moving_rows; /* rows per head of the kept and the moving side */
    uint32_t kept, moving, group_rows;             /* rows of a tile; kept rows that share a dQ */
    uint32_t setup_cycles;                         /* of a workgroup, before its first load */
    uint32_t stages, waves, lanes;
    bool causal, backward;
    uint64_t tiles, items, section;   /* kept tiles per head; items: over batch and heads */
    uint64_t *first_item, *item_list; /* by workgroup: its items are list[first[w] .. first[w + 1]) */
    uint32_t kept_loads, moving_loads, kept_stores;
    struct row_tensor kept_in[2], moving_in[4], kept_out[2], accumulated;
    uint64_t first_flops, second_flops,
        third_flops;    /* matrix work of a wave before and after the exponentials, and
                                                        after the waves have met (backward) */
    uint32_t score_lds; /* P and dS through LDS, a wave and step */
    uint32_t score_valu, score_sfu, store_valu;
    uint32_t mask_valu; /* beside score_valu, in tiles that are masked */
    bool masks_all;     /* every tile, not those on the diagonal alone */
    uint8_t dtype;
};

/* ---- items ---- */

struct item {
    uint64_t head, row, first,
        count; /* head over the batch; first kept row; moving tiles [first, first + count) */
};

/* Items in the order in which they are handed out: sections of heads that fill the workgroups twice, so that their K and V
 * stay in the caches; in a section the longest tiles of all heads first. */
static struct item item_at(const struct flash *flash, uint64_t index)
{
    struct item item_found, *item = &item_found;
    uint64_t heads = flash->batch * flash->heads, section = index / (flash->section * flash->tiles);
    uint64_t in_section = index % (flash->section * flash->tiles);
    uint64_t section_heads = min_u64(flash->section, heads - section * flash->section);
    uint64_t rank = in_section / section_heads, tile = flash->backward ? rank : flash->tiles - 1 - rank;
    uint64_t all = ceil_div(flash->moving_rows, flash->moving);
    item->head = section * flash->section + in_section % section_heads;
    item->row = tile * flash->kept;
    item->first = 0;
    item->count = all;
    if (!flash->causal) {
        return item_found;
    }
    if (flash
            ->backward) { /* queries from the first that sees this key on; the last query sees the last key */
        uint64_t ahead = flash->kept_rows - flash->moving_rows; /* keys that every query sees */
        item->first = min_u64(all - 1, (item->row > ahead ? item->row - ahead : 0) / flash->moving);
        item->count = all - item->first;
    } else {
        uint64_t end = min_u64(item->row + flash->kept, flash->kept_rows);
        uint64_t seen = end + flash->moving_rows > flash->kept_rows
                            ? end + flash->moving_rows - flash->kept_rows
                            : 1;
        item->count = min_u64(all, ceil_div(seen, flash->moving));
    }
    return item_found;
}

/* Do moving tile `step` of the item and the kept tile have a pair that the mask takes out? */
static bool is_masked(const struct flash *flash, const struct item *item, uint64_t step)
{
    uint64_t moving = (item->first + step) * flash->moving; /* first row of it */
    if (!flash->causal || flash->masks_all) {
        return flash->causal;
    }
    uint64_t ahead = flash->backward ? flash->kept_rows - flash->moving_rows : flash->moving_rows - flash->kept_rows; /* all see them */
    return flash->backward ? moving + ahead + 1 < item->row + flash->kept : moving + flash->moving > item->row + ahead + 1;
}

/* The round-th item of a workgroup; false beyond its last. */
static bool item_of(const struct flash *flash, uint64_t workgroup, uint64_t round, struct item *item)
{
    uint64_t at = flash->first_item[workgroup] + round;
    if (at >= flash->first_item[workgroup + 1]) {
        return false;
    }
    *item = item_at(flash, flash->item_list[at]);
    return true;
}

/* Deal the items: each goes to the workgroup that will be free first, as a scheduler that hands them out one by one would
 * have it. A heap of workgroups by their work so far, ties by index. */
struct queue_entry {
    uint64_t steps;
    uint32_t workgroup;
};

static bool comes_before(struct queue_entry a, struct queue_entry b)
{
    return a.steps < b.steps || (a.steps == b.steps && a.workgroup < b.workgroup);
}

static void sift_down(struct queue_entry *heap, size_t count)
{
    for (size_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && comes_before(heap[child + 1], heap[child]);
        if (!comes_before(heap[child], heap[at])) {
            return;
        }
        struct queue_entry lower = heap[at];
        heap[at] = heap[child];
        heap[child] = lower;
    }
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    SIM_ASSERT(memory != NULL, "attention: no memory for %zu items", count);
    return memory;
}

static void deal_items(struct flash *flash, struct wave_program *program)
{
    size_t workgroups = (size_t)program->workgroups;
    uint32_t *owner = allocate(flash->items, sizeof *owner);
    struct queue_entry *heap = allocate(workgroups, sizeof *heap);
    flash->first_item = allocate(workgroups + 1, sizeof *flash->first_item);
    flash->item_list = allocate(flash->items, sizeof *flash->item_list);
    kernel_program_adopt(program, flash->first_item, free);
    kernel_program_adopt(program, flash->item_list, free);
    for (size_t w = 0; w < workgroups; w++) {
        heap[w].workgroup = (uint32_t)w;
    }
    for (uint64_t i = 0; i < flash->items; i++) {
        owner[i] = heap[0].workgroup;
        flash->first_item[owner[i] + 1]++;
        heap[0].steps += item_at(flash, i).count + ITEM_STEPS;
        sift_down(heap, workgroups);
    }
    for (size_t w = 0; w < workgroups; w++) {
        flash->first_item[w + 1] += flash->first_item[w];
        heap[w].steps = flash->first_item[w]; /* from here on: where the workgroup's next item goes */
    }
    for (uint64_t i = 0; i < flash->items; i++) {
        flash->item_list[heap[owner[i]].steps++] = i;
    }
    free(owner);
    free(heap);
}

/* ---- loads and stores: lists of rows, dealt to the waves ---- */

/* Rows [first, end) of a tensor's head, cut to the rows that exist. */
static void add_row(const struct row_tensor *tensor, const struct flash *flash, uint64_t head, uint64_t rows,
                    uint64_t row, struct wave_op *op)
{
    uint64_t group = flash->heads / tensor->heads; /* query heads that share a key head */
    uint64_t own = head / flash->heads * tensor->heads + head % flash->heads / group;
    op_span(op, tensor->base + (own * rows + row) * tensor->row_bytes, tensor->row_bytes);
}

/* The part-th op of `tensors` x rows [row, row + count) for a wave; false when there is none. */
static bool rows_op(const struct flash *flash, const struct row_tensor *tensors, uint32_t tensor_count,
                    uint64_t head, uint64_t rows, uint64_t row, uint64_t count, uint32_t wave, uint64_t part,
                    struct wave_op *op)
{
    uint64_t own = row < rows ? min_u64(count, rows - row) : 0, all = own * tensor_count;
    uint64_t first = all * wave / flash->waves + part * SPANS_PER_OP, end = all * (wave + 1) / flash->waves;
    for (uint64_t i = first; i < min_u64(end, first + SPANS_PER_OP); i++) {
        add_row(&tensors[i / own], flash, head, rows, row + i % own, op);
    }
    return first < end;
}

static uint64_t rows_op_count(const struct flash *flash, uint32_t tensor_count, uint64_t rows, uint64_t row,
                              uint64_t count, uint32_t wave)
{
    uint64_t all = (row < rows ? min_u64(count, rows - row) : 0) * tensor_count;
    return ceil_div(all * (wave + 1) / flash->waves - all * wave / flash->waves, SPANS_PER_OP);
}

/* ---- the walk ----
 * r[0], r[1]: round and step of the item in use. r[2], r[3]: of the next load of a moving tile. r[4]: load op within it.
 * r[5]: op of the kept tile, or store op. pc: phase. trip counts steps over all items of the wave. */
enum {
    PHASE_START,
    PHASE_FILL,
    PHASE_KEPT,
    PHASE_FIRST,
    PHASE_LOADS,
    PHASE_SECOND,
    PHASE_MEET,
    PHASE_THIRD,
    PHASE_EPILOGUE,
    PHASE_STORE,
    PHASE_DRAIN,
    PHASE_NEXT
};

/* The result leaves through the kept tile's buffer: the next kept tile waits until the store has been taken, a trip to
 * L2. */
#define DRAIN_CYCLES 600u

/* From the last matrix instruction to probabilities: the unit's pipeline (about 100 cycles), the row maximum over a lane's
 * scores and two shuffles, the last exponentials and conversions. */
#define SCORE_CHAIN_CYCLES 250u
#define MASK_SLOTS 4

struct walk {
    const struct flash *flash;
    struct wave_state *state;
    struct wave_op *op;
    uint64_t limit;
};

/* Load ops of step `step` of an item. */
static uint64_t load_op_count(const struct walk *walk, const struct item *item, uint64_t step)
{
    const struct flash *flash = walk->flash;
    return rows_op_count(flash, flash->moving_loads, flash->moving_rows, (item->first + step) * flash->moving,
                         flash->moving, walk->state->wave);
}

static void load_begin(const struct walk *walk)
{
    op_begin(walk->op, WAVE_LOAD, WAVE_NO_WAIT);
    op_work(walk->op, 6, 0, 0);
    op_lanes(walk->op, walk->flash->lanes);
    walk->op->cache = WAVE_CACHE_L2;
}

static void load_op(const struct walk *walk, const struct item *item, uint64_t step, uint64_t part)
{
    const struct flash *flash = walk->flash;
    bool any = rows_op(flash, flash->moving_in, flash->moving_loads, item->head, flash->moving_rows,
                       (item->first + step) * flash->moving, flash->moving, walk->state->wave, part,
                       walk->op);
    SIM_ASSERT(any, "load op %llu does not exist", (unsigned long long)part);
    load_begin(walk);
}

/* The kept tile has one buffer: it is loaded when the item before is done with it, and its latency shows. */
static bool kept_op(const struct walk *walk, const struct item *item, uint64_t part)
{
    const struct flash *flash = walk->flash;
    if (!rows_op(flash, flash->kept_in, flash->kept_loads, item->head, flash->kept_rows, item->row,
                 flash->kept, walk->state->wave, part, walk->op)) {
        return false;
    }
    load_begin(walk);
    return true;
}

/* Steps between the one in use and the next load: walked, for items differ in length. */
static uint64_t steps_ahead(const struct walk *walk)
{
    const struct wave_state *state = walk->state;
    struct item item;
    uint64_t ahead = 0, round = state->r[0], step = state->r[1];
    while (round < state->r[2] && item_of(walk->flash, state->workgroup, round, &item)) {
        ahead += item.count - step;
        step = 0;
        round++;
    }
    return ahead + (state->r[3] - step);
}

/* Issue a load op of the steps fewer than `ahead` before the one in use; false when none is left. */
static bool issue_load(const struct walk *walk, uint64_t ahead)
{
    struct wave_state *state = walk->state;
    struct item item;
    for (;;) {
        uint64_t now = steps_ahead(walk);
        if (now >= ahead || state->trip + now >= walk->limit ||
            !item_of(walk->flash, state->workgroup, state->r[2], &item)) {
            return false;
        }
        if (state->r[4] < load_op_count(walk, &item, state->r[3])) {
            load_op(walk, &item, state->r[3], state->r[4]++);
            return true;
        }
        state->r[4] = 0;
        if (++state->r[3] == item.count) {
            state->r[3] = 0;
            state->r[2]++;
        }
    }
}

/* Load ops issued after those of the step in use. */
static uint8_t loads_after(const struct walk *walk)
{
    const struct wave_state *state = walk->state;
    struct item item;
    uint64_t count = 0, round = state->r[0], step = state->r[1] + 1;
    while (item_of(walk->flash, state->workgroup, round, &item)) {
        for (; step < item.count && (round < state->r[2] || step < state->r[3]); step++) {
            count += load_op_count(walk, &item, step);
        }
        if (round >= state->r[2]) {
            break;
        }
        round++;
        step = 0;
    }
    return (uint8_t)min_u64(count, WAVE_NO_WAIT - 1);
}

static bool current_item(const struct walk *walk, struct item *item)
{
    return item_of(walk->flash, walk->state->workgroup, walk->state->r[0], item);
}

/* Skip whole items before the window. */
static void start(const struct walk *walk, const struct wave_window *window)
{
    struct wave_state *state = walk->state;
    struct item item;
    uint64_t skip = window->trip_first;
    while (current_item(walk, &item) && skip >= item.count) {
        skip -= item.count;
        state->r[0]++;
    }
    state->trip = window->trip_first;
    state->r[1] = state->r[3] = skip;
    state->r[2] = state->r[0];
    state->pc = PHASE_FILL;
}

static void matrix_op(const struct walk *walk, uint8_t wait, bool wait_matrix, uint64_t flops)
{
    op_begin(walk->op, WAVE_COMPUTE, wait);
    op_work(walk->op, 8, 0, 0);
    walk->op->wait_matrix = wait_matrix;
    walk->op->matrix_flops = flops;
    walk->op->matrix_dtype = walk->flash->dtype;
    op_lanes(walk->op, walk->flash->lanes);
}

/* The part-th op that adds dQ of moving tile `step`: fp32, ADD_BYTES of whole rows; false when there is none. Each group of
 * group_rows kept rows has a dQ of its own. */
static bool add_op(const struct walk *walk, const struct item *item, uint64_t step, uint64_t part)
{
    const struct flash *flash = walk->flash;
    uint64_t tile = (item->first + step) * flash->moving,
             end = min_u64(flash->moving_rows, tile + flash->moving);
    uint64_t rows = max_u64(1, ADD_BYTES / flash->accumulated.row_bytes), parts = ceil_div(end - tile, rows);
    uint64_t groups = ceil_div(min_u64(flash->kept, flash->kept_rows - item->row), flash->group_rows);
    if (part >= parts * groups) {
        return false;
    }
    uint64_t row = tile + part % parts * rows;
    for (uint64_t r = row; r < min_u64(end, row + rows); r++) {
        add_row(&flash->accumulated, flash, item->head, flash->moving_rows, r, walk->op);
    }
    op_begin(walk->op, WAVE_ATOMIC, WAVE_NO_WAIT);
    op_work(walk->op, 8, 0, 0);
    walk->op->atomic_type = WAVE_ATOMIC_FP32;
    walk->op->element_bytes = 4;
    op_lanes(walk->op, flash->lanes);
    return true;
}

static bool store_op(const struct walk *walk, const struct item *item)
{
    const struct flash *flash = walk->flash;
    if (!rows_op(flash, flash->kept_out, flash->kept_stores, item->head, flash->kept_rows, item->row,
                 flash->kept, walk->state->wave, walk->state->r[5]++, walk->op)) {
        return false;
    }
    op_begin(walk->op, WAVE_STORE, WAVE_NO_WAIT);
    op_work(walk->op, 4, 0, 0);
    op_lanes(walk->op, flash->lanes);
    return true;
}

static void next_step(const struct walk *walk, const struct item *item)
{
    struct wave_state *state = walk->state;
    state->trip++;
    state->pc = PHASE_FILL;
    state->r[5] = 0;
    if (++state->r[1] == item->count) {
        state->r[1] = 0;
        state->r[0]++;
    }
}

/* One phase of the step in use; true when it filled the op. */
static bool walk_phase(const struct walk *walk, const struct wave_window *window)
{
    const struct flash *flash = walk->flash;
    struct wave_state *state = walk->state;
    struct item item;
    bool exists = current_item(walk, &item);
    SIM_ASSERT(exists, "step %llu belongs to no item", (unsigned long long)state->trip);
    bool last = state->r[1] + 1 == item.count, begins = state->r[1] == 0 || state->trip == window->trip_first;
    switch (state->pc) {
    case PHASE_FILL:
        state->pc = issue_load(walk, flash->stages - 1) ? PHASE_FILL : PHASE_KEPT;
        return state->pc == PHASE_FILL;
    case PHASE_KEPT:
        if (begins && kept_op(walk, &item, state->r[5]++)) {
            return true;
        }
        state->r[5] = 0;
        state->pc = PHASE_FIRST;
        return false;
    case PHASE_FIRST:
        /* a group's products follow one another; the other group fills the gap */
        matrix_op(walk, begins ? 0 : loads_after(walk), true, flash->first_flops);
        state->pc = PHASE_LOADS;
        return true;
    case PHASE_LOADS:
        state->pc = issue_load(walk, flash->stages) ? PHASE_LOADS : PHASE_SECOND;
        return state->pc == PHASE_LOADS;
    case PHASE_SECOND:
        matrix_op(walk, WAVE_NO_WAIT, true, flash->second_flops);
        op_work(walk->op, 12, flash->score_valu + (is_masked(flash, &item, state->r[1]) ? flash->mask_valu : 0), SCORE_CHAIN_CYCLES);
        walk->op->sfu_slots = (uint16_t)flash->score_sfu;
        walk->op->work_units = 1;
        state->pc = flash->backward ? PHASE_MEET : last ? PHASE_EPILOGUE : PHASE_NEXT;
        return true;
    case PHASE_MEET: /* dS of all waves is in LDS before dK and dQ are made of it */
        op_begin(walk->op, WAVE_BARRIER, WAVE_NO_WAIT);
        op_work(walk->op, 8, 0, 0);
        walk->op->lds_bytes = flash->score_lds;
        state->pc = PHASE_THIRD;
        return true;
    case PHASE_THIRD:
        matrix_op(walk, WAVE_NO_WAIT, false, flash->third_flops);
        state->pc = last ? PHASE_EPILOGUE : PHASE_NEXT;
        return true;
    case PHASE_EPILOGUE:
        matrix_op(walk, WAVE_NO_WAIT, true, 0);
        op_work(walk->op, 20, flash->store_valu, SCORE_CHAIN_CYCLES);
        walk->op->lds_bytes = 2 * flash->kept * flash->kept_stores * flash->kept_out[0].row_bytes /
                              flash->waves;
        state->pc = PHASE_STORE;
        return true;
    case PHASE_STORE:
        if (store_op(walk, &item)) {
            return true;
        }
        state->pc = PHASE_DRAIN;
        return false;
    case PHASE_DRAIN:
        op_begin(walk->op, WAVE_BARRIER, WAVE_NO_WAIT);
        op_work(walk->op, 4, 0, DRAIN_CYCLES);
        state->pc = PHASE_NEXT;
        return true;
    default: next_step(walk, &item); return false;
    }
}

/* The wave that adds dQ: it meets the others once a step and then adds the tile, which they made in the step before; its
 * queue is short, so that its step simply follows the meeting. */
static bool writer_phase(const struct walk *walk)
{
    struct wave_state *state = walk->state;
    struct item item;
    bool exists = current_item(walk, &item);
    SIM_ASSERT(exists, "step %llu belongs to no item", (unsigned long long)state->trip);
    if (state->pc == PHASE_FILL) {
        op_begin(walk->op, WAVE_BARRIER, WAVE_NO_WAIT);
        op_work(walk->op, 4, 0, 0);
        state->pc = PHASE_STORE;
        return true;
    }
    if (state->pc == PHASE_STORE) {
        if (add_op(walk, &item, state->r[1], state->r[5]++)) {
            return true;
        }
        state->pc = PHASE_DRAIN;
        if (state->r[1] + 1 == item.count) { /* it meets the others at the end of an item too */
            op_begin(walk->op, WAVE_BARRIER, WAVE_NO_WAIT);
            op_work(walk->op, 4, 0, 0);
            return true;
        }
    }
    next_step(walk, &item);
    return false;
}

static uint64_t wave_steps(const struct flash *flash, uint64_t workgroup)
{
    uint64_t steps = 0;
    struct item item;
    for (uint64_t round = 0; item_of(flash, workgroup, round, &item); round++) {
        steps += item.count;
    }
    return steps;
}

static void flash_next(const struct wave_program *program, const struct wave_window *window,
                       struct wave_state *state, struct wave_op *op)
{
    struct walk walk = { program->context, state, op, window->trip_limit };
    struct item item;
    if (state->pc == PHASE_START) {
        start(&walk, window);
        if (walk.flash->setup_cycles > 0 && window->trip_first == 0) {
            op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
            op_work(op, 40, 0, walk.flash->setup_cycles);
            return;
        }
    }
    while (state->trip < walk.limit && current_item(&walk, &item)) {
        bool writes = state->wave == walk.flash->waves;
        if (writes ? writer_phase(&walk) : walk_phase(&walk, window)) {
            return;
        }
    }
    op_end(op);
}

/* ---- building ---- */

struct attention_params {
    uint64_t batch, heads, kv_heads, rows, kv_rows, depth, tile_q, tile_kv, stages;
    bool causal, masks_all, persistent;
    uint32_t bytes, setup_cycles;
};

static struct attention_params read_attention(struct kernel_build *build)
{
    struct attention_params p = { 0 };
    p.batch = kernel_param_integer(build, "b", 1, 1u << 24);
    p.heads = kernel_param_integer(build, "h", 1, 65536);
    p.rows = kernel_param_integer(build, "s", 1, 1u << 24);
    p.depth = kernel_param_integer(build, "d", 8, 512);
    p.causal = kernel_param_integer_or(build, "causal", 0, 1, 0, NULL) == 1;
    p.masks_all = kernel_param_choice_or(build, "mask", "all|diagonal", build->machine->lanes > 32, NULL) == 0;
    p.kv_heads = kernel_param_integer_or(build, "kv_heads", 1, 65536, p.heads, NULL);
    p.kv_rows = kernel_param_integer_or(build, "s_kv", 1, 1u << 24, p.rows, NULL);
    kernel_param_choice_or(build, "dtype", "bf16|fp16", 0, NULL); /* both have two bytes and one rate */
    p.bytes = 2;
    p.tile_q = kernel_param_integer_or(build, "tile_q", 16, 256, 0, NULL);
    p.tile_kv = kernel_param_integer_or(build, "tile_kv", 16, 256, 0, NULL);
    p.stages = kernel_param_integer_or(build, "stages", 2, 8, 0, NULL);
    int grid = kernel_param_choice_or(build, "grid", "persistent|tiles|masked_tiles", 0, NULL);
    p.persistent = grid == 0 || (grid == 2 && !p.causal);
    p.setup_cycles = (uint32_t)kernel_param_integer_or(build, "setup_cycles", 0, 60000, 0, NULL);
    dense_cache_param(build);
    return p;
}

static bool check_attention(struct kernel_build *build, const struct attention_params *p)
{
    if (!kernel_params_done(build)) {
        return false;
    }
    if (p->heads % p->kv_heads != 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "kv_heads=%llu is not valid: must divide h=%llu",
                    (unsigned long long)p->kv_heads, (unsigned long long)p->heads);
    }
    if (p->causal && p->kv_rows < p->rows) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "s_kv=%llu is not valid with causal=1: must be at least s=%llu",
                    (unsigned long long)p->kv_rows, (unsigned long long)p->rows);
    }
    if (build->machine->matrix_flops_per_cycle[WAVE_BF16] <= 0 && kernel_build_ok(build)) {
        kernel_fail(build, SIM_UNSUPPORTED, "the device has no matrix rate for bf16");
    }
    double rows = (double)p->batch *
                  ((double)p->heads * (double)p->rows + (double)p->kv_heads * (double)p->kv_rows);
    kernel_require_hbm(build, 2 * rows * (double)p->depth * p->bytes, "Q, K, V and O");
    return kernel_build_ok(build);
}

static struct row_tensor tensor(struct wave_program *program, const char *name,
                                const struct attention_params *p, bool kv, uint64_t bytes)
{
    uint64_t heads = kv ? p->kv_heads : p->heads, rows = kv ? p->kv_rows : p->rows;
    double size = (double)p->batch * (double)heads * (double)rows * (double)bytes;
    return (struct row_tensor){ kernel_program_tensor(program, name, size), (uint32_t)heads,
                                (uint32_t)bytes };
}

/* Useful multiply-adds of one product, times 2: half the square (or the trapezoid) when causal. */
static double product_flops(const struct attention_params *p)
{
    double scores = (double)p->rows * (double)p->kv_rows;
    if (p->causal) {
        scores -= (double)p->rows * (double)p->rows / 2;
    }
    return 2.0 * (double)p->batch * (double)p->heads * scores * (double)p->depth;
}

/* Rows of Q and dO in a backward step: the matrix unit's, 64 on sm_90 (cuDNN), 128 on sm_100 (FlashAttention-4). */
static uint64_t backward_step_rows(const struct kernel_machine *machine)
{
    uint64_t unit_rows = machine->chip != NULL ? (uint64_t)machine->chip->matrix_operand_rows : 0;
    return max_u64(GROUP_ROWS, min_u64(unit_rows, BACKWARD_ROWS));
}

/* Rows of Q that a workgroup keeps: what its waves hold, and a tile of the matrix unit for each of two groups of waves, which
 * take turns at it: 2 x 64 on sm_90, 2 x 128 on sm_100 (FlashAttention-4, Triton's TLX tutorials). */
static uint64_t forward_rows(const struct kernel_machine *machine)
{
    uint64_t unit_rows = machine->chip != NULL ? (uint64_t)machine->chip->matrix_operand_rows : 0;
    return max_u64((uint64_t)KEPT_ROWS_PER_LANE * machine->lanes, 2 * unit_rows);
}

/* Rows halve until the kept tile and two moving ones fit in LDS: of the moving tile down to 16, then of the kept one. */
static void flash_tiles(struct kernel_build *build, struct flash *flash, struct wave_program *program,
                        const struct attention_params *p)
{
    uint64_t row = p->depth * p->bytes, most = build->machine->lds_bytes_per_workgroup_max;
    uint64_t given_kept = flash->backward ? p->tile_kv : p->tile_q,
             given = flash->backward ? p->tile_q : p->tile_kv;
    uint64_t usual = flash->backward ? BACKWARD_ROWS : forward_rows(build->machine);
    uint64_t kept = given_kept > 0 ? given_kept : usual, moving = given > 0 ? given : flash->backward ? backward_step_rows(build->machine) : 128;
    while (given == 0 && moving > 16 && kept * flash->kept_loads * row + 4 * moving * row > most) {
        moving /= 2;
    }
    while (given_kept == 0 && kept > 16 && kept * flash->kept_loads * row + 4 * moving * row > most) {
        kept /= 2;
    }
    flash->kept = (uint32_t)kept;
    flash->moving = (uint32_t)moving;
    flash->group_rows = (uint32_t)min_u64(kept, backward_step_rows(build->machine));
    uint64_t kept_bytes = kept * flash->kept_loads * row, moving_bytes = 2 * moving * row;
    uint64_t room = most > kept_bytes ? (most - kept_bytes) / moving_bytes : 0;
    flash->stages = (uint32_t)(p->stages > 0 ? p->stages : max_u64(2, min_u64(3, room)));
    program->lds_bytes = (uint32_t)(kept_bytes + flash->stages * moving_bytes);
    kernel_require_lds(build, program->lds_bytes);
}

static void flash_finish(struct kernel_build *build, struct wave_program *program,
                         const struct attention_params *p)
{
    struct flash *flash = program->context;
    flash->lanes = build->machine->lanes;
    flash->waves = WAVES;
    uint64_t threads = (uint64_t)flash->waves * flash->lanes;
    flash->batch = p->batch;
    flash->heads = p->heads;
    flash->causal = p->causal;
    flash->setup_cycles = p->setup_cycles;
    flash->dtype = WAVE_BF16;
    flash_tiles(build, flash, program, p);
    flash->tiles = ceil_div(flash->kept_rows, flash->kept);
    flash->items = flash->tiles * p->batch * p->heads;
    if (flash->items > ITEMS_MAX) {
        kernel_fail(build, SIM_UNSUPPORTED, "b x h x s make %llu tiles, at most %u are dealt out",
                    (unsigned long long)flash->items, ITEMS_MAX);
        flash->items = 1; /* the program is destroyed with the plan */
    }
    program->workgroups = p->persistent ? min_u64(build->machine->units, flash->items) : flash->items;
    program->waves_per_workgroup = flash->waves + flash->backward;
    flash->section = ceil_div(2 * min_u64(build->machine->units, flash->items), flash->tiles);
    program->workgroups_differ = !p->persistent && p->causal;
    program->workgroups_period = p->persistent ? 0 : flash->section * flash->tiles;
    deal_items(flash, program);
    program->registers_per_lane =
        168; /* of the launch; consumers take more from the waves that only move data */
    uint64_t product = 2ull * flash->kept * flash->moving * p->depth / flash->waves;
    double scores = (double)flash->kept * flash->moving / (double)threads;
    double outputs = (double)flash->kept * (double)p->depth / (double)threads;
    flash->first_flops = flash->backward ? 2 * product : product;
    flash->second_flops = product;
    flash->third_flops = flash->backward ? 2 * product : 0;
    double handed = (double)flash->moving * (double)p->depth * 4 /
                    flash->waves; /* dQ on its way to the writer */
    flash->score_lds = (uint32_t)(scores * flash->lanes * 2 * p->bytes + 2 * handed);
    flash->score_sfu = slots16(scores);
    flash->score_valu = slots16(flash->backward ? 7 * scores : 5 * scores + outputs);
    flash->mask_valu = slots16(MASK_SLOTS * scores);
    flash->masks_all = p->masks_all;
    flash->store_valu = slots16(outputs * (flash->backward ? 3 : 2));
    uint64_t units = 0, longest = 0;
    for (uint64_t w = 0; w < program->workgroups; w++) {
        uint64_t steps = wave_steps(flash, w);
        units += steps;
        if (steps > longest) {
            longest = steps;
            program->longest_wave_workgroup = w;
        }
    }
    program->work_units_total = units * flash->waves;
    program->trips_per_wave = units / program->workgroups >= 8 ? units / program->workgroups : 0;
    if (p->persistent && program->trips_per_wave > 0) { /* a section gives each workgroup its long and its short tiles */
        double sections = fmax(1, (double)(p->batch * p->heads) / (double)flash->section);
        program->trips_period = max_u64(1, (uint64_t)((double)program->trips_per_wave / sections + 0.5));
    }
    bool uneven = (double)longest * (double)program->workgroups > 1.05 * (double)units; /* steps cost alike */
    program->longest_wave_trips = uneven ? longest : 0;
}

static void add_attention(struct kernel_build *build, struct wave_program *program)
{
    dense_cache_apply(build, program);
    if (!kernel_param_given(build, "cache")) {
        program->initial_cache = WAVE_CACHE_STATE_OWN; /* the measuring program repeats the call */
    }
    kernel_plan_add(build, program, 1);
}

static void build_sdpa_fwd(struct kernel_build *build)
{
    struct attention_params p = read_attention(build);
    if (!check_attention(build, &p)) {
        return;
    }
    struct wave_program *program = kernel_program_create("sdpa_fwd", sizeof(struct flash), flash_next);
    struct flash *flash = program->context;
    flash->kept_rows = p.rows;
    flash->moving_rows = p.kv_rows;
    flash->kept_loads = 1;
    flash->moving_loads = 2;
    flash->kept_stores = 2;
    flash->kept_in[0] = tensor(program, "q", &p, false, p.depth * p.bytes);
    flash->moving_in[0] = tensor(program, "k", &p, true, p.depth * p.bytes);
    flash->moving_in[1] = tensor(program, "v", &p, true, p.depth * p.bytes);
    flash->kept_out[0] = tensor(program, "o", &p, false, p.depth * p.bytes);
    flash->kept_out[1] = tensor(program, "lse", &p, false, 4);
    flash_finish(build, program, &p);
    program->flops = 2 * product_flops(&p);
    add_attention(build, program);
    kernel_value_per_time(build, 2 * product_flops(&p) * 1e-6, "TFLOP/s");
}

/* cudnn compute_dot_do_o: workgroups of 128, 16 B a lane: the row sums, and zeros into the fp32 dQ. */
static void add_dot_do_o(struct kernel_build *build, const struct attention_params *p)
{
    struct dense_rows *rows;
    struct wave_program *program = dense_rows_create("dot_do_o", &rows);
    double elements = (double)p->batch * (double)p->heads * (double)p->rows * (double)p->depth;
    uint64_t lanes = max_u64(1, last_pow2(p->depth) * p->bytes / 16);
    rows->rows = p->batch * p->heads * p->rows;
    rows->columns = p->depth;
    rows->threads = 128;
    rows->lanes_per_row = (uint32_t)min_u64(lanes, build->machine->lanes);
    rows->start_issue = 40;
    program->registers_per_lane = 28;
    rows->pass_count = 1;
    struct dense_pass *pass = &rows->passes[0];
    pass->vector = 16 / p->bytes;
    pass->in_flight = 1;
    pass->valu = 3;
    pass->access_issue = 4;
    pass->operand_count = 3;
    pass->operands[0] = (struct dense_pass_operand){
        kernel_program_tensor(program, "do", elements * p->bytes), p->bytes, false, false
    };
    pass->operands[1] = (struct dense_pass_operand){ kernel_program_tensor(program, "o", elements * p->bytes),
                                                     p->bytes, false, false };
    pass->operands[2] = (struct dense_pass_operand){ kernel_program_tensor(program, "dq32", elements * 4), 4,
                                                     true, false };
    pass->after = (struct dense_combine){ .issue = 4, .valu = 4, .latency_cycles = 100 };
    rows->results[0] = (struct dense_row_result){
        kernel_program_tensor(program, "delta", (double)rows->rows * 4), 4
    };
    dense_rows_finish(program, build->machine);
    program->flops = 2 * elements;
    add_attention(build, program);
}

/* cudnn convert_dq_to_16bits: 16 elements a lane. */
static void add_convert_dq(struct kernel_build *build, const struct attention_params *p)
{
    struct dense_map *map;
    struct wave_program *program = dense_map_create("convert_dq", &map);
    uint64_t elements = p->batch * p->heads * p->rows * p->depth;
    map->elements = elements;
    map->threads = 128;
    map->elements_per_lane = 16;
    map->vector = 8;
    map->access_issue = 4;
    map->start_issue = 40;
    map->valu = 1.5;
    program->registers_per_lane = 30;
    dense_map_load(program, "dq32", 4, (double)elements);
    dense_map_store(program, "dq", p->bytes, (double)elements);
    dense_map_finish(program, build->machine);
    add_attention(build, program);
}

static void build_sdpa_bwd(struct kernel_build *build)
{
    struct attention_params p = read_attention(build);
    bool whole = kernel_param_choice_or(build, "launches", "all|main", 0, NULL) == 0;
    if (!check_attention(build, &p)) {
        return;
    }
    struct wave_program *program = kernel_program_create("sdpa_bwd", sizeof(struct flash), flash_next);
    struct flash *flash = program->context;
    flash->backward = true;
    flash->kept_rows = p.kv_rows;
    flash->moving_rows = p.rows;
    flash->kept_loads = 2;
    flash->moving_loads = 4;
    flash->kept_stores = 2;
    flash->kept_in[0] = tensor(program, "k", &p, true, p.depth * p.bytes);
    flash->kept_in[1] = tensor(program, "v", &p, true, p.depth * p.bytes);
    flash->moving_in[0] = tensor(program, "q", &p, false, p.depth * p.bytes);
    flash->moving_in[1] = tensor(program, "do", &p, false, p.depth * p.bytes);
    flash->moving_in[2] = tensor(program, "lse", &p, false, 4);
    flash->moving_in[3] = tensor(program, "delta", &p, false, 4);
    struct attention_params own = p; /* each query head writes its own dK and dV; groups are summed outside */
    own.kv_heads = p.heads;
    flash->kept_out[0] = tensor(program, "dk", &own, true, p.depth * p.bytes);
    flash->kept_out[1] = tensor(program, "dv", &own, true, p.depth * p.bytes);
    flash->accumulated = tensor(program, "dq32", &p, false, p.depth * 4);
    flash_finish(build, program, &p);
    program->flops = 5 * product_flops(&p);
    if (whole) {
        add_dot_do_o(build, &p);
    }
    add_attention(build, program);
    if (whole && kernel_build_ok(build)) {
        add_convert_dq(build, &p);
    }
    kernel_value_per_time(build, 5 * product_flops(&p) * 1e-6, "TFLOP/s");
}

static struct attention_params read_rows(struct kernel_build *build)
{
    struct attention_params p = { .bytes = 2 };
    p.batch = kernel_param_integer(build, "b", 1, 1u << 24);
    p.heads = kernel_param_integer(build, "h", 1, 65536);
    p.rows = kernel_param_integer(build, "s", 1, 1u << 24);
    p.depth = kernel_param_integer(build, "d", 8, 512);
    dense_cache_param(build);
    return p;
}

static double all_elements(const struct attention_params *p)
{
    return (double)p->batch * (double)p->heads * (double)p->rows * (double)p->depth;
}

static void build_dot_do_o(struct kernel_build *build)
{
    struct attention_params p = read_rows(build);
    if (kernel_params_done(build)) {
        add_dot_do_o(build, &p);
        kernel_value_per_time(build, all_elements(&p) * 8e-6, "TB/s");
    }
}

static void build_convert_dq(struct kernel_build *build)
{
    struct attention_params p = read_rows(build);
    if (kernel_params_done(build)) {
        add_convert_dq(build, &p);
        kernel_value_per_time(build, all_elements(&p) * 6e-6, "TB/s");
    }
}

#define ATTENTION_HELP                                                                                     \
    "b, h (query heads), s, d, causal (0|1; 0), mask (all|diagonal tiles; diagonal where waves have 64 lanes), kv_heads (h), s_kv (s), dtype (bf16|fp16; bf16), tile_q, " \
    "tile_kv, "                                                                                            \
    "stages (by rule), grid (persistent|tiles: a workgroup for each of the kept tiles|masked_tiles: where causal; persistent), setup_cycles (of a workgroup before its first load; 0), cache (flushed|own|clean|produced; own)"

const struct kernel_definition dense_attention_kernels[] = {
    { "attention", "sdpa_fwd", "flash attention, forward", ATTENTION_HELP, build_sdpa_fwd },
    { "attention", "sdpa_bwd", "flash attention, backward: row sums, main kernel, conversion of dQ",
      ATTENTION_HELP ", launches (all|main; all)", build_sdpa_bwd },
    { "attention", "dot_do_o", "row sums of dO x O, and dQ cleared", "b, h, s, d, cache (own)",
      build_dot_do_o },
    { "attention", "convert_dq", "fp32 dQ to 16 bits", "b, h, s, d, cache (own)", build_convert_dq },
    { NULL, NULL, NULL, NULL, NULL },
};
