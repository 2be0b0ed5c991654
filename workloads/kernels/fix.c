#include "workloads/kernels/fix_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(fix) (1u << KERNEL_FIX_##fix)
#define ON_ATOMICS (BIT(WAVE_AGGREGATE) | BIT(SORT_SEGMENT) | BIT(PRIVATISE))

#define ON_ATTENTION (BIT(OCCUPANCY) | BIT(MFMA16) | BIT(PIPELINE2) | BIT(XCD_SWIZZLE))

/* Which kernel takes which fix. tree-reduction where all may add to one word; register-cache where a wave adds whole rows
 * one after the other; row-pack where a row or bag can be narrower than a wave. */
static const struct {
    const char *suite, *kernel;
    uint32_t fixes;
} takers[] = {
    { "atomic", "add_u32", ON_ATOMICS | BIT(TREE_REDUCTION) },
    { "atomic", "add_u64", ON_ATOMICS | BIT(TREE_REDUCTION) },
    { "atomic", "add_f32", ON_ATOMICS | BIT(TREE_REDUCTION) },
    { "atomic", "add_f16x2", ON_ATOMICS | BIT(TREE_REDUCTION) },
    { "atomic", "same_addr_scale", BIT(WAVE_AGGREGATE) | BIT(PRIVATISE) | BIT(TREE_REDUCTION) },
    { "bounds_check", "per_thread_atomic",
      BIT(TREE_REDUCTION) | BIT(WAVE_AGGREGATE) | BIT(PRIVATISE) | BIT(ROW_PACK) | BIT(XCD_SWIZZLE) },
    { "bounds_check", "tree_reduction", BIT(ROW_PACK) | BIT(XCD_SWIZZLE) },
    { "gis", "forward", BIT(ROW_PACK) | BIT(XCD_SWIZZLE) },
    { "gis", "backward_atomic", ON_ATOMICS | BIT(REGISTER_CACHE) | BIT(XCD_SWIZZLE) },
    { "gis", "backward_cached", BIT(WAVE_AGGREGATE) | BIT(PRIVATISE) | BIT(XCD_SWIZZLE) },
    { "tbe", "forward", BIT(ROW_PACK) | BIT(XCD_SWIZZLE) },
    { "tbe", "backward_atomic", ON_ATOMICS | BIT(REGISTER_CACHE) | BIT(XCD_SWIZZLE) },
    { "tbe", "backward", BIT(WAVE_PER_ROW) },
    { "scatter", "index_add", ON_ATOMICS | BIT(REGISTER_CACHE) | BIT(TREE_REDUCTION) | BIT(XCD_SWIZZLE) },
    { "scatter", "index_put", ON_ATOMICS | BIT(REGISTER_CACHE) | BIT(TREE_REDUCTION) | BIT(XCD_SWIZZLE) },
    { "scatter", "scatter_add", ON_ATOMICS | BIT(REGISTER_CACHE) | BIT(TREE_REDUCTION) | BIT(XCD_SWIZZLE) },
    { "scatter", "histogram", ON_ATOMICS | BIT(TREE_REDUCTION) },
    { "attention", "gdpa_fwd", ON_ATTENTION | BIT(FAST_GELU) },
    { "attention", "gdpa_bwd", ON_ATTENTION | BIT(FAST_GELU) | BIT(KV_ACCUMULATE) },
    { "attention", "hstu_fwd", ON_ATTENTION },
    { "attention", "hstu_bwd", ON_ATTENTION | BIT(KV_ACCUMULATE) },
    { "attention", "jfa_fwd", ON_ATTENTION },
    { "attention", "jfa_bwd", ON_ATTENTION | BIT(KV_ACCUMULATE) },
    { "embedding", "backward_atomic", ON_ATOMICS | BIT(REGISTER_CACHE) | BIT(XCD_SWIZZLE) },
};
#define TAKER_COUNT (sizeof takers / sizeof takers[0])

/* At most one of these: each removes what the others work on. */
#define EXCLUSIVE (BIT(TREE_REDUCTION) | BIT(SORT_SEGMENT) | BIT(PRIVATISE))
#define LDS_CYCLES 33 /* load or atomic in shared memory to its use, as in sort.c */

static const char *const fix_texts[] = {
#define FIX_TEXT(name, text, summary) text,
    KERNEL_FIX_LIST(FIX_TEXT)
#undef FIX_TEXT
};
static const char *const fix_summaries[] = {
#define FIX_SUMMARY(name, text, summary) summary,
    KERNEL_FIX_LIST(FIX_SUMMARY)
#undef FIX_SUMMARY
};

const char *kernel_fix_text(enum kernel_fix fix)
{
    SIM_ASSERT(fix < KERNEL_FIXES, "fix %d", (int)fix);
    return fix_texts[fix];
}

const char *kernel_fix_summary(enum kernel_fix fix)
{
    SIM_ASSERT(fix < KERNEL_FIXES, "fix %d", (int)fix);
    return fix_summaries[fix];
}

static uint32_t fixes_taken(const char *suite, const char *kernel)
{
    for (size_t i = 0; i < TAKER_COUNT; i++) {
        if (strcmp(takers[i].suite, suite) == 0 && strcmp(takers[i].kernel, kernel) == 0) {
            return takers[i].fixes;
        }
    }
    return 0;
}

static const char *list_fixes(uint32_t fixes, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (int fix = 0; fix < KERNEL_FIXES; fix++) {
        if (fixes & 1u << fix && used < capacity) {
            int written = snprintf(text + used, capacity - used, "%s%s", used > 0 ? ", " : "",
                                   fix_texts[fix]);
            used += written > 0 ? (size_t)written : 0;
        }
    }
    return text;
}

const char *kernel_fixes_of(const char *suite, const char *kernel, char *text, size_t capacity)
{
    return list_fixes(fixes_taken(suite, kernel), text, capacity);
}

bool kernel_has_fix(const struct kernel_build *build, enum kernel_fix fix)
{
    return build->fixes & 1u << fix;
}

static void add_fix(struct kernel_build *build, const char *name, size_t length, uint32_t taken)
{
    char list[256];
    for (int fix = 0; fix < KERNEL_FIXES; fix++) {
        if (strlen(fix_texts[fix]) != length || strncmp(fix_texts[fix], name, length) != 0) {
            continue;
        }
        if (!(taken & 1u << fix)) {
            kernel_fail(build, SIM_BAD_ARGUMENT, "fix '%s' does not apply to this kernel (%s%s)",
                        fix_texts[fix], taken != 0 ? "those that do: " : "none does",
                        list_fixes(taken, list, sizeof list));
        }
        build->fixes |= 1u << fix;
        return;
    }
    kernel_fail(build, SIM_BAD_ARGUMENT, "unknown fix '%.*s' (%s%s)", (int)(length < 40 ? length : 40), name,
                taken != 0 ? "this kernel takes: " : "this kernel takes none",
                list_fixes(taken, list, sizeof list));
}

void kernel_fixes_read(struct kernel_build *build)
{
    uint32_t taken = fixes_taken(build->definition->suite, build->definition->kernel);
    if (taken == 0 && kernel_param_peek(build, "fix") == NULL) {
        return;
    }
    const char *text = kernel_param_text_or(build, "fix", NULL);
    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, "+");
        add_fix(build, text, length, taken);
        text += length + (text[length] == '+');
    }
    uint32_t exclusive = build->fixes & EXCLUSIVE;
    if ((exclusive & (exclusive - 1)) != 0) {
        char list[256];
        kernel_fail(build, SIM_BAD_ARGUMENT, "fixes exclude each other: give one of %s",
                    list_fixes(exclusive, list, sizeof list));
    }
}

void kernel_fix_read_copies(struct kernel_build *build)
{
    build->scatter.copies = (uint32_t)kernel_param_integer_or(build, "copies", 0, 4096, 0, NULL);
}

void kernel_fix_target(struct kernel_build *build, uint64_t address, double bytes, uint32_t row_bytes,
                       uint32_t element_bytes, enum wave_atomic_type type)
{
    if (!kernel_build_ok(build)) {
        return;
    }
    SIM_ASSERT(build->plan->launch_count > 0, "%s/%s has no launch to fix", build->plan->suite,
               build->plan->kernel);
    uint32_t copies = build->scatter.copies;
    build->scatter = (struct kernel_scatter){ .launch = build->plan->launch_count - 1,
                                              .address = address,
                                              .bytes = bytes,
                                              .row_bytes = row_bytes,
                                              .element_bytes = element_bytes,
                                              .type = type,
                                              .copies = copies,
                                              .known = true };
}

/* ---- a program around a program ---- */

/* A wrapper keeps its own step in the top byte of pc and, where it says so, in r[3] to r[5], which no wrapped program of
 * this folder uses. */
#define STAGE_SHIFT 24
#define INNER_PC 0xffffffu

struct wrapper {
    struct wave_program *inner;
    struct kernel_scatter scatter;
    uint32_t lanes, threads;
    uint64_t copies_address, copy_stride; /* privatise in memory */
    uint32_t copies, levels, dies;
};

static void destroy_inner(void *program)
{
    struct wave_program *inner = program;
    inner->destroy(inner);
}

/* The wrapper takes the place of its program in the plan: same grid, same tensors at the same addresses. */
static struct wrapper *wrap(struct kernel_build *build, wave_next next, struct wave_program **out)
{
    struct kernel_launch *launch = &build->plan->launches[build->scatter.launch];
    struct wave_program *inner = launch->program;
    struct wave_program *program = kernel_program_create(inner->name, sizeof(struct wrapper), next),
                        own = *program;
    *program = *inner;
    program->next = own.next;
    program->destroy = own.destroy;
    program->context = own.context;
    for (size_t i = 0; i < kernel_program_tensor_count(inner); i++) {
        struct kernel_tensor tensor = kernel_program_tensor_at(inner, i);
        kernel_program_tensor(program, tensor.name, tensor.bytes);
    }
    kernel_program_adopt(program, inner, destroy_inner);
    launch->program = program;
    struct wrapper *k = program->context;
    *k = (struct wrapper){ .inner = inner,
                           .scatter = build->scatter,
                           .lanes = build->machine->lanes,
                           .threads = program->waves_per_workgroup * build->machine->lanes };
    *out = program;
    return k;
}

static void inner_next(const struct wrapper *k, const struct wave_window *window, struct wave_state *state,
                       struct wave_op *op)
{
    uint32_t stage = state->pc & ~INNER_PC;
    state->pc &= INNER_PC;
    k->inner->next(k->inner, window, state, op);
    state->pc |= stage;
}

static uint32_t stage_of(const struct wave_state *state)
{
    return state->pc >> STAGE_SHIFT;
}

static void set_stage(struct wave_state *state, uint32_t stage)
{
    state->pc = (state->pc & INNER_PC) | stage << STAGE_SHIFT;
}

static bool adds_to_target(const struct wrapper *k, const struct wave_op *op)
{
    if (op->kind != WAVE_ATOMIC) {
        return false;
    }
    uint64_t address = op->lane_count > 0 ? op->lane_address[0] : op->spans[0].address;
    return address >= k->scatter.address && (double)(address - k->scatter.address) < k->scatter.bytes;
}

static uint64_t atomic_lanes_of(const struct wave_op *op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->span_count; i++) {
        bytes += op->spans[i].bytes;
    }
    return op->lane_count > 0 ? op->lane_count : bytes / op->element_bytes;
}

static void add_cost(struct wave_op *op, uint64_t issue, uint64_t valu, uint64_t latency)
{
    op_work(op, (uint32_t)(op->issue_slots + issue), (uint32_t)(op->valu_slots + valu),
            (uint32_t)(op->latency_cycles + latency));
}

/* The atomic becomes an addition in registers or shared memory: same waits, same work, no access. */
static void drop_access(struct wave_op *op)
{
    op->kind = WAVE_COMPUTE;
    op->span_count = op->lane_count = 0;
    op->atomic_flags = 0;
}

/* ---- wave-aggregate ---- */

/* As libraries write it for wide targets (a match by leader, then a walk over the leader's lanes): a round per distinct
 * word (first lane's address by two scalar reads, 64-bit comparison, vote, mask arithmetic, branch), then a shuffle and an
 * addition per lane between a leader and its last follower. Lanes on a span are all distinct: they pay and gain nothing. */
#define MATCH_ISSUE 7
#define MATCH_VALU 15
#define MATCH_CYCLES 12
#define GATHER_ISSUE 4
#define GATHER_VALU 5

static void aggregate_next(const struct wave_program *program, const struct wave_window *window,
                           struct wave_state *state, struct wave_op *op)
{
    const struct wrapper *k = program->context;
    inner_next(k, window, state, op);
    if (!adds_to_target(k, op)) {
        return;
    }
    uint64_t distinct = atomic_lanes_of(op), extent = 1;
    if (op->lane_count > 0) {
        uint32_t kept = 0, first[WAVE_LANES_MAX];
        for (uint32_t lane = 0; lane < op->lane_count; lane++) {
            uint32_t j = 0;
            while (j < kept && op->lane_address[j] != op->lane_address[lane]) {
                j++;
            }
            if (j == kept) {
                first[kept] = lane;
                op->lane_address[kept++] = op->lane_address[lane];
            }
            extent = max_u64(extent, lane - first[j] + 1);
        }
        op->lane_count = kept;
        distinct = kept;
    }
    add_cost(op, MATCH_ISSUE * distinct + GATHER_ISSUE * extent, MATCH_VALU * distinct + GATHER_VALU * extent,
             MATCH_CYCLES * distinct + KERNEL_SHUFFLE_CYCLES * extent);
}

/* ---- register-cache ---- */

/* Keys are byte offsets into the target, of a row or of a lone piece, plus one; the piece's bytes go in the top. r[3]: row
 * being evicted, r[4]: newest, r[5]: oldest. Costs as compiled for the two-row cache of gis. */
#define KEY_BYTES_SHIFT 52

static uint64_t cache_key(const struct wrapper *k, const struct wave_op *op, uint64_t *offset)
{
    uint64_t at = op->spans[0].address - k->scatter.address, row = k->scatter.row_bytes;
    bool pieces = row > k->scatter.element_bytes;
    *offset = pieces ? at % row : 0;
    return (at - *offset + 1) | (uint64_t)(pieces ? 0 : op->spans[0].bytes) << KEY_BYTES_SHIFT;
}

static void evict(const struct wrapper *k, uint64_t key, uint64_t offset, uint64_t bytes, struct wave_op *op)
{
    op->kind = WAVE_ATOMIC;
    op->atomic_type = (uint8_t)k->scatter.type;
    op->element_bytes = (uint8_t)k->scatter.element_bytes;
    op->span_count = op->lane_count = 0;
    uint64_t own = key >> KEY_BYTES_SHIFT;
    op_span(op, k->scatter.address + (key & ((1ull << KEY_BYTES_SHIFT) - 1)) - 1 + offset,
            own > 0 ? own : bytes);
    op_lanes(op, (own > 0 ? own : bytes) / op->element_bytes);
}

/* After the inner program's end: both rows, oldest first, piece by piece. r[3]: pieces of the row written. */
static void cache_flush(const struct wrapper *k, struct wave_state *state, struct wave_op *op)
{
    uint64_t *slot = state->r[5] != 0 ? &state->r[5] : &state->r[4];
    if (*slot == 0) {
        op_end(op);
        return;
    }
    uint64_t piece = (uint64_t)k->lanes * k->scatter.element_bytes, offset = state->r[3] * piece;
    uint64_t row = k->scatter.row_bytes;
    op_begin(op, WAVE_ATOMIC, 0);
    op_work(op, 5, 11, 29);
    evict(k, *slot, offset, offset < row ? min_u64(piece, row - offset) : 0, op);
    bool more = (*slot >> KEY_BYTES_SHIFT) == 0 && offset + piece < row;
    state->r[3] = more ? state->r[3] + 1 : 0;
    *slot = more ? *slot : 0;
}

static void cache_next(const struct wave_program *program, const struct wave_window *window,
                       struct wave_state *state, struct wave_op *op)
{
    const struct wrapper *k = program->context;
    if (stage_of(state) == 1) {
        cache_flush(k, state, op);
        return;
    }
    inner_next(k, window, state, op);
    if (op->kind == WAVE_END) {
        set_stage(state, 1);
        state->r[3] = 0;
        cache_flush(k, state, op);
        return;
    }
    if (!adds_to_target(k, op) || op->lane_count > 0 || op->span_count != 1) {
        return;
    }
    uint64_t offset, key = cache_key(k, op, &offset), bytes = op->spans[0].bytes;
    bool hit = key == state->r[4] || key == state->r[5];
    add_cost(op, 4, 6, hit ? 24 : 39);
    if (offset == 0 && !hit) {
        state->r[3] = state->r[5];
        state->r[5] = state->r[4];
        state->r[4] = key;
    }
    if (state->r[3] != 0) {
        evict(k, state->r[3], offset, bytes, op);
    } else {
        drop_access(op);
    }
    if (offset + bytes >= k->scatter.row_bytes || k->scatter.row_bytes <= k->scatter.element_bytes) {
        state->r[3] = 0;
    }
}

/* ---- privatise: in shared memory ---- */

#define LDS_BANKS 32

/* Most distinct words on one bank; equal words go together (atomic/shared_u32 on the H200). */
static uint32_t bank_conflict(const struct wrapper *k, const struct wave_op *op)
{
    uint64_t words[WAVE_LANES_MAX];
    uint32_t count = 0, degree = 1;
    uint8_t load[LDS_BANKS] = { 0 };
    for (uint32_t lane = 0; lane < op->lane_count; lane++) {
        uint64_t word = (op->lane_address[lane] - k->scatter.address) / 4;
        uint32_t i = 0;
        while (i < count && words[i] != word) {
            i++;
        }
        if (i == count) {
            words[count++] = word;
            degree = (uint32_t)max_u64(degree, ++load[word % LDS_BANKS]);
        }
    }
    return degree;
}

enum private_stage { PRIVATE_ZERO, PRIVATE_RUN, PRIVATE_FLUSH };

/* r[4]: flushes of the wave's threads so far. */
static void private_lds_next(const struct wave_program *program, const struct wave_window *window,
                             struct wave_state *state, struct wave_op *op)
{
    const struct wrapper *k = program->context;
    uint64_t elements = (uint64_t)k->scatter.bytes / k->scatter.element_bytes;
    uint32_t share = (uint32_t)ceil_div(elements, k->threads);
    if (stage_of(state) == PRIVATE_ZERO) {
        op_begin(op, WAVE_BARRIER, WAVE_NO_WAIT);
        op_work(op, 6 + 2 * share, 12 + 3 * share, 54);
        op->lds_bytes = share * k->lanes * k->scatter.element_bytes;
        set_stage(state, PRIVATE_RUN);
        return;
    }
    if (stage_of(state) == PRIVATE_RUN) {
        inner_next(k, window, state, op);
        if (adds_to_target(k, op)) {
            op->lds_atomics = (uint32_t)atomic_lanes_of(op);
            op->lds_conflict_x16 = (uint16_t)(16 * bank_conflict(k, op));
            drop_access(op);
        } else if (op->kind == WAVE_END) {
            op_begin(op, WAVE_BARRIER, 0);
            op_work(op, 2, 2, 13);
            set_stage(state, PRIVATE_FLUSH);
            state->r[4] = 0;
        }
        return;
    }
    uint64_t first = (uint64_t)state->wave * k->lanes + state->r[4]++ * k->threads;
    if (first >= elements) {
        op_end(op);
        return;
    }
    uint64_t count = min_u64(k->lanes, elements - first);
    op_begin(op, WAVE_ATOMIC, WAVE_NO_WAIT);
    op_work(op, 3, 4, 12 + LDS_CYCLES);
    op->lds_bytes = (uint32_t)count * k->scatter.element_bytes;
    op->atomic_type = (uint8_t)k->scatter.type;
    op->element_bytes = (uint8_t)k->scatter.element_bytes;
    op_span(op, k->scatter.address + first * k->scatter.element_bytes, count * k->scatter.element_bytes);
    op_lanes(op, count);
}

/* ---- privatise: copies in memory ---- */

static void private_copy_next(const struct wave_program *program, const struct wave_window *window,
                              struct wave_state *state, struct wave_op *op)
{
    const struct wrapper *k = program->context;
    inner_next(k, window, state, op);
    if (!adds_to_target(k, op)) {
        return;
    }
    uint64_t move = k->copies_address + state->workgroup % k->copies * k->copy_stride - k->scatter.address;
    for (uint32_t i = 0; i < op->span_count; i++) {
        op->spans[i].address += move;
    }
    for (uint32_t lane = 0; lane < op->lane_count; lane++) {
        op->lane_address[lane] += move;
    }
    add_cost(op, 0, 3, 8);
}

#define COPIES_DEFAULT 8
#define COPY_ALIGN 256

static void privatise_in_memory(struct kernel_build *build)
{
    struct wave_program *program;
    struct wrapper *k = wrap(build, private_copy_next, &program);
    uint64_t bytes = (uint64_t)k->scatter.bytes;
    k->copies = k->scatter.copies > 0 ? k->scatter.copies : COPIES_DEFAULT;
    k->copy_stride = ceil_div(bytes, COPY_ALIGN) * COPY_ALIGN;
    double total = (double)k->copies * (double)k->copy_stride;
    kernel_require_hbm(build, total, "the private copies");
    if (!kernel_build_ok(build)) {
        return;
    }
    k->copies_address = kernel_program_tensor(program, "private copies", total);
    kernel_assume(
        build, "privatise: %u copies of the target take %.4g MiB more memory, zeroed before and summed after",
        k->copies, total / 1048576);
    uint32_t element = k->scatter.element_bytes;
    size_t before = build->scatter.launch;
    kernel_plan_add_fill(build, total, 1);
    struct kernel_plan *plan = build->plan;
    if (!kernel_build_ok(build)) {
        return;
    }
    struct kernel_launch fill = plan->launches[plan->launch_count - 1]; /* to its place before the program */
    memmove(&plan->launches[before + 1], &plan->launches[before],
            (plan->launch_count - 1 - before) * sizeof plan->launches[0]);
    plan->launches[before] = fill;
    build->scatter.launch++;
    kernel_plan_add_map(build, "sum of private copies", bytes / element, 256, element * k->copies, element,
                        (struct kernel_map_cost){ 4 + k->copies, 10, 40 + 2 * KERNEL_SPECIAL_CYCLES, 2,
                                                  4 + k->copies, 4 * k->copies, 24 });
}

static void privatise(struct kernel_build *build)
{
    struct kernel_scatter *scatter = &build->scatter;
    /* Two workgroups a unit must still fit, or what is won on atomics is lost on latency. */
    if (scatter->copies > 0 || scatter->bytes > build->machine->lds_bytes_per_workgroup_max / 2.0) {
        privatise_in_memory(build);
        return;
    }
    struct wave_program *program;
    wrap(build, private_lds_next, &program);
    program->lds_bytes += (uint32_t)scatter->bytes;
    program->registers_per_lane += 4;
    kernel_require_lds(build, program->lds_bytes);
}

/* ---- tree-reduction ---- */

/* The sum stays in a register; at the end of the wave a tree over the workgroup in shared memory, costs as compiled for
 * bounds_check. r[4]: barriers passed. */
static void tree_next(const struct wave_program *program, const struct wave_window *window,
                      struct wave_state *state, struct wave_op *op)
{
    const struct wrapper *k = program->context;
    if (stage_of(state) == 0) {
        inner_next(k, window, state, op);
        if (adds_to_target(k, op)) {
            drop_access(op);
            add_cost(op, 0, 1, 3);
            return;
        }
        if (op->kind != WAVE_END) {
            return;
        }
        set_stage(state, 1);
        state->r[4] = 0;
    }
    if (state->r[4] <= k->levels) {
        bool first = state->r[4] == 0,
             busy = first || (uint64_t)state->wave * k->lanes < k->threads >> state->r[4];
        op_begin(op, WAVE_BARRIER, 0);
        op_work(op,
                first  ? 5
                : busy ? 6
                       : 3,
                first  ? 9
                : busy ? 7
                       : 2,
                first  ? 40 + KERNEL_SPECIAL_CYCLES
                : busy ? 49 + KERNEL_SPECIAL_CYCLES
                       : 20);
        op->lds_bytes = busy ? k->scatter.element_bytes * k->lanes * (first ? 1 : 3) : 0;
        state->r[4]++;
        return;
    }
    if (state->wave > 0 || state->r[4] > k->levels + 1) {
        op_end(op);
        return;
    }
    state->r[4]++;
    op_begin(op, WAVE_ATOMIC, WAVE_NO_WAIT);
    op_work(op, 7, 10, 50 + 2 * KERNEL_SPECIAL_CYCLES);
    op->atomic_type = (uint8_t)k->scatter.type;
    op->element_bytes = (uint8_t)k->scatter.element_bytes;
    op->lane_count = 1;
    op->lane_address[0] = k->scatter.address;
    op_lanes(op, 1);
}

static void reduce_by_tree(struct kernel_build *build)
{
    if (build->scatter.bytes > build->scatter.element_bytes) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "fix tree-reduction needs one word that all add to; this target has %.4g "
                    "(privatise takes several)",
                    build->scatter.bytes / build->scatter.element_bytes);
        return;
    }
    struct wave_program *program;
    struct wrapper *k = wrap(build, tree_next, &program);
    for (uint32_t width = k->threads / 2; width > 0; width /= 2) {
        k->levels++;
    }
    program->lds_bytes += k->threads * k->scatter.element_bytes;
    program->registers_per_lane += 2;
    kernel_require_lds(build, program->lds_bytes);
}

/* ---- xcd-swizzle ---- */

/* Workgroups are dealt round robin over the dies: the w-th of die d (index w x dies + d) does the work of workgroup
 * d x share + w, so that a die gets neighbours. What does not divide evenly stays where it was. */
static void swizzle_next(const struct wave_program *program, const struct wave_window *window,
                         struct wave_state *state, struct wave_op *op)
{
    const struct wrapper *k = program->context;
    uint64_t own = state->workgroup, share = program->workgroups / k->dies;
    state->workgroup = own < share * k->dies ? own % k->dies * share + own / k->dies : own;
    bool first = (state->pc & INNER_PC) == 0;
    inner_next(k, window, state, op);
    state->workgroup = own;
    if (first) {
        add_cost(op, 2, 6, 24);
    }
}

static void swizzle(struct kernel_build *build)
{
    if (build->machine->dispatch_dies < 2) {
        kernel_assume(build, "xcd-swizzle: this device deals workgroups over one die; nothing moves");
        return;
    }
    struct wave_program *program;
    wrap(build, swizzle_next, &program)->dies = build->machine->dispatch_dies;
}

/* ---- all ---- */

void kernel_fixes_apply(struct kernel_build *build)
{
    static void (*const transforms[KERNEL_FIXES])(struct kernel_build *) = {
        [KERNEL_FIX_TREE_REDUCTION] = reduce_by_tree,
        [KERNEL_FIX_PRIVATISE] = privatise,
        [KERNEL_FIX_XCD_SWIZZLE] = swizzle,
    };
    if (!kernel_build_ok(build) || !build->scatter.known) {
        return;
    }
    struct wave_program *program;
    if (kernel_has_fix(build, KERNEL_FIX_REGISTER_CACHE)) {
        wrap(build, cache_next, &program);
        uint32_t piece = build->machine->lanes * build->scatter.element_bytes;
        uint32_t pieces = (uint32_t)max_u64(1, ceil_div(build->scatter.row_bytes, piece));
        program->registers_per_lane += 6 + 2 * pieces;
    }
    if (kernel_has_fix(build, KERNEL_FIX_WAVE_AGGREGATE)) {
        wrap(build, aggregate_next, &program);
        program->registers_per_lane += 10;
    }
    for (int fix = 0; fix < KERNEL_FIXES && kernel_build_ok(build); fix++) {
        if (transforms[fix] != NULL && kernel_has_fix(build, (enum kernel_fix)fix)) {
            transforms[fix](build);
        }
    }
}
