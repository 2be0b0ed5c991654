/* atomic: read-modify-write on device and shared memory, many shapes of contention. */
#include "workloads/kernels/fix_internal.h"

/* How the lanes of a wave choose addresses. */
enum atomic_mode { ATOMIC_EACH_LANE, ATOMIC_SHARED_BY_WAVE, ATOMIC_CONSECUTIVE };

struct atomic {
    uint32_t addresses; /* drawn from */
    enum atomic_mode mode;
    uint32_t per_lane; /* operations of a lane */
    uint32_t block;    /* threads of a workgroup */
    struct index_source *drawn; /* NULL: the measuring program's hash */
    uint64_t stride;   /* bytes between addresses */
    uint64_t target;
    uint32_t lanes;
    enum wave_atomic_type type;
    uint8_t element_bytes;
    uint8_t flags;     /* enum wave_atomic_flags */
    bool one_lane;     /* one address for all, so that the compiler merges a wave into one lane's operation */
    uint32_t issue, valu, latency; /* per operation */
};

/* The measuring program's hash of (thread or wave, trip). */
static uint32_t atomic_hash(uint32_t id, uint32_t trip)
{
    uint32_t h = id * 0x9E3779B1u + trip * 0x85EBCA77u;
    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    return h ^ h >> 12;
}

static uint64_t atomic_address(const struct atomic *k, uint32_t thread, uint32_t trip)
{
    uint32_t wave = thread / k->lanes, lane = thread % k->lanes;
    uint32_t h = atomic_hash(k->mode == ATOMIC_EACH_LANE ? thread : wave, trip);
    if (k->drawn != NULL) {
        h = (uint32_t)index_source_row(k->drawn, 0, k->mode == ATOMIC_EACH_LANE ? thread : wave, trip);
    }
    uint32_t blocks = k->addresses / k->lanes > 0 ? k->addresses / k->lanes : 1;
    uint32_t index = k->mode == ATOMIC_CONSECUTIVE ? (h % blocks * k->lanes + lane) % k->addresses : h % k->addresses;
    return k->target + (uint64_t)index * k->stride;
}

static uint32_t atomic_lanes(const struct atomic *k, uint32_t wave)
{
    return (uint32_t)min_u64(k->lanes, k->block - (uint64_t)wave * k->lanes);
}

static void atomic_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                        struct wave_op *op)
{
    const struct atomic *k = program->context;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->pc = 1;
    }
    if (state->trip >= min_u64(k->per_lane, window->trip_limit)) {
        op_end(op);
        return;
    }
    uint32_t first = (uint32_t)(state->workgroup * k->block + (uint64_t)state->wave * k->lanes);
    op_begin(op, WAVE_ATOMIC, WAVE_NO_WAIT);
    op_work(op, k->issue, k->valu, k->latency);
    op->atomic_type = (uint8_t)k->type;
    op->atomic_flags = k->flags;
    op->element_bytes = k->element_bytes;
    op->lane_count = k->one_lane ? 1 : atomic_lanes(k, state->wave);
    for (uint32_t lane = 0; lane < op->lane_count; lane++) {
        op->lane_address[lane] = atomic_address(k, first + lane, (uint32_t)state->trip);
    }
    op_lanes(op, k->one_lane ? atomic_lanes(k, state->wave) : op->lane_count);
    op->work_units = 1;
    state->trip++;
}

/* Instructions of one operation, sm_90, modes 0 and 1 then mode 2 (which divides twice). The integer and fp32 loops are
 * unrolled by 4: 81 instructions in 145 cycles, or 117 in 218. Packed fp16 takes the generic-address path: the operation
 * returns a predicate that picks a path, so operations do not overlap: 36 instructions in 176 cycles, or 54 in 262,
 * less the path not taken (13 instructions, 73 cycles). */
static void atomic_costs(struct atomic *k)
{
    if (k->type == WAVE_ATOMIC_PACKED16) {
        bool divides_twice = k->mode == ATOMIC_CONSECUTIVE;
        k->issue = 6;
        k->valu = divides_twice ? 36 : 18;
        k->latency = divides_twice ? 148 + 3 * KERNEL_SPECIAL_CYCLES : 80;
    } else {
        k->issue = 1;
        k->valu = k->mode == ATOMIC_CONSECUTIVE ? 28 : 19;
        k->latency = k->mode == ATOMIC_CONSECUTIVE ? 25 : 16;
    }
}

static struct wave_program *atomic_program(struct kernel_build *build, struct atomic parameters, uint64_t grid)
{
    struct wave_program *program = kernel_program_create("device atomics", sizeof(struct atomic), atomic_next);
    struct atomic *k = program->context;
    *k = parameters;
    k->lanes = build->machine->lanes;
    atomic_costs(k);
    double bytes = (double)(k->addresses - 1) * (double)k->stride + k->element_bytes;
    k->target = kernel_program_tensor(program, "target", bytes);
    program->registers_per_lane = k->type == WAVE_ATOMIC_PACKED16 ? 20 : 28; /* sm_90: half2 20, others 28 */
    kernel_program_grid(program, grid * k->block, k->block, k->lanes);
    program->work_units_total = program->workgroups * program->waves_per_workgroup * k->per_lane;
    program->trips_per_wave = k->per_lane;
    program->l2_footprint_bytes = bytes;
    return program;
}

/* Adds the program; what it adds to is its first tensor. */
static void add_and_name_target(struct kernel_build *build, struct wave_program *program)
{
    const struct atomic *k = program->context;
    uint64_t target = k->target;
    double bytes = kernel_program_tensor_at(program, 0).bytes;
    uint32_t element_bytes = k->element_bytes;
    enum wave_atomic_type type = k->type;
    kernel_plan_add(build, program, 1);
    kernel_fix_target(build, target, bytes, element_bytes, element_bytes, type);
}

/* Grid 8 workgroups of 256 per unit; 8 operations a lane up to 8 addresses, else 32. A table gives their product as
 * `ops`, which then fixes the grid (another machine's grid can be asked for). */
static void add_build(struct kernel_build *build, enum wave_atomic_type type, uint8_t element_bytes)
{
    uint64_t addresses = kernel_param_integer(build, "naddr", 1, UINT32_MAX);
    uint64_t mode = kernel_param_integer(build, "mode", 0, 2);
    uint64_t stride = kernel_param_integer_or(build, "stride", element_bytes, 1 << 20, element_bytes, NULL);
    uint64_t per_lane = addresses <= 8 ? 8 : 32;
    uint64_t operations = kernel_param_integer_or(build, "ops", 256 * per_lane, 1ull << 40,
                                                  8ull * build->machine->units * 256 * per_lane, NULL);
    struct index_request request = index_request_read(build, INDEX_UNIFORM, INDEX_ZIPF);
    bool asked = request.kind != INDEX_UNIFORM || request.file != NULL || request.hot_share > 0;
    kernel_fix_read_copies(build);
    if (asked && mode == ATOMIC_CONSECUTIVE) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter mode=2 draws blocks of neighbours, which no index distribution names: "
                    "give mode 0 or 1");
    }
    if (stride % element_bytes != 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter stride=%llu is not valid: must be a multiple of %u bytes",
                    (unsigned long long)stride, element_bytes);
    }
    if (operations % (256 * per_lane) != 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "parameter ops=%llu is not valid: must be a multiple of %llu (a workgroup)",
                    (unsigned long long)operations, (unsigned long long)(256 * per_lane));
    }
    kernel_require_hbm(build, (double)addresses * (double)stride, "the target");
    if (!kernel_params_done(build)) {
        return;
    }
    uint64_t threads = operations / per_lane;
    struct index_source *drawn = index_request_open(build, &request, 1, threads, per_lane, addresses, 29);
    if (drawn == NULL) {
        return;
    }
    kernel_value_per_time(build, (double)operations * 1e-3, "Gop/s");
    if (kernel_has_fix(build, KERNEL_FIX_SORT_SEGMENT)) { /* of the indices as drawn, one a lane */
        kernel_plan_add_sort_segment(build, drawn, &(struct segment_shape){ 1, element_bytes, 4, type, type != WAVE_ATOMIC_INT });
        return;
    }
    struct atomic k = { .addresses = (uint32_t)addresses, .drawn = asked ? drawn : NULL, .mode = (enum atomic_mode)mode, .stride = stride,
                        .per_lane = (uint32_t)per_lane, .block = 256, .type = type, .element_bytes = element_bytes };
    struct wave_program *program = atomic_program(build, k, operations / (256 * per_lane));
    kernel_program_adopt(program, drawn, index_source_release);
    add_and_name_target(build, program);
}

static void add_u32_build(struct kernel_build *build)
{
    add_build(build, WAVE_ATOMIC_INT, 4);
}

static void add_u64_build(struct kernel_build *build)
{
    add_build(build, WAVE_ATOMIC_INT, 8);
}

static void add_f32_build(struct kernel_build *build)
{
    add_build(build, WAVE_ATOMIC_FP32, 4);
}

static void add_f16x2_build(struct kernel_build *build)
{
    add_build(build, WAVE_ATOMIC_PACKED16, 4);
}

static void same_addr_scale_build(struct kernel_build *build)
{
    uint64_t grid = kernel_param_integer(build, "grid", 1, 1000000);
    uint64_t block = kernel_param_integer(build, "block", 1, 1024);
    kernel_fix_read_copies(build);
    if (!kernel_params_done(build)) {
        return;
    }
    struct atomic k = { .addresses = 1, .mode = ATOMIC_EACH_LANE, .stride = 4, .per_lane = 64,
                        .block = (uint32_t)block, .type = WAVE_ATOMIC_INT, .element_bytes = 4 };
    add_and_name_target(build, atomic_program(build, k, grid));
    kernel_value_per_time(build, (double)grid * (double)block * 64 * 1e-3, "Gop/s");
}

/* ---- the atomic programs of a public collection of MI300X times (calib/data/published/mi300x/atomics.csv) ---- */

/* Every thread adds to (or swaps) one word, again and again. The collection does not name the address; its times ask for one: the
 * compiler merges each wave's additions, a swap cannot be merged. */
static void one_word_build(struct kernel_build *build, bool swap)
{
    uint64_t groups = kernel_param_integer(build, "blocks", 1, 1000000);
    uint64_t threads = kernel_param_integer(build, "threads", 1, 1024);
    uint64_t operations = kernel_param_integer(build, "ops_per_thread", 1, 1000000000);
    if (!kernel_params_done(build)) {
        return;
    }
    kernel_assume(build, "all threads work on one word");
    struct atomic k = { .addresses = 1, .mode = ATOMIC_EACH_LANE, .stride = 4, .per_lane = (uint32_t)operations, .block = (uint32_t)threads,
                        .type = WAVE_ATOMIC_INT, .element_bytes = 4, .one_lane = !swap,
                        .flags = swap ? WAVE_ATOMIC_CAS_ONCE : WAVE_ATOMIC_WAVE_MERGED };
    kernel_plan_add(build, atomic_program(build, k, groups), 1);
    kernel_value_per_time(build, (double)groups * (double)threads * (double)operations * 1e-3, "Gop/s");
}

static void atomic_add_build(struct kernel_build *build)
{
    one_word_build(build, false);
}

static void atomic_cas_build(struct kernel_build *build)
{
    one_word_build(build, true);
}

/* Updates of words drawn at random, taken as atomic. */
static void update_build(struct kernel_build *build)
{
    uint64_t threads = kernel_param_integer(build, "threads", 1, 1ull << 30);
    uint64_t updates = kernel_param_integer(build, "updates", 1, 1000000000);
    uint64_t words = kernel_param_integer(build, "table", 1, UINT32_MAX);
    kernel_require_hbm(build, (double)words * 8, "the table");
    if (!kernel_params_done(build)) {
        return;
    }
    kernel_assume(build, "the updates are atomic, of 8 bytes each");
    struct atomic k = { .addresses = (uint32_t)words, .mode = ATOMIC_EACH_LANE, .stride = 8, .per_lane = (uint32_t)updates,
                        .block = (uint32_t)min_u64(threads, 256), .type = WAVE_ATOMIC_INT, .element_bytes = 8 };
    kernel_plan_add(build, atomic_program(build, k, ceil_div(threads, k.block)), 1);
    kernel_value_per_time(build, (double)threads * (double)updates * 1e-3, "Gop/s");
}

/* A dependent chain on one address. The address is uniform, so the compiler merges the wave: vote, a shuffle tree over
 * the active lanes, one lane's atomic, two shuffles to hand the result out. sm_90: a wave of one lane skips the
 * shuffles: 14 instructions, 43 cycles a step; a full one runs 26 in 86 and 7 shuffles in a row (lane count 32; a wider
 * wave adds a level). */
struct atomic_chain {
    uint64_t target;
    uint32_t steps, lanes, block;
};

static void atomic_chain_next(const struct wave_program *program, const struct wave_window *window,
                              struct wave_state *state, struct wave_op *op)
{
    const struct atomic_chain *k = program->context;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->pc = 1;
    }
    if (state->trip >= min_u64(k->steps, window->trip_limit)) {
        op_end(op);
        return;
    }
    uint32_t lanes = (uint32_t)min_u64(k->lanes, k->block - (uint64_t)state->wave * k->lanes);
    uint32_t shuffles = 2;
    for (uint32_t width = 1; width < k->lanes; width *= 2) {
        shuffles++;
    }
    op_begin(op, WAVE_ATOMIC, 0);
    op_work(op, lanes == 1 ? 3 : 3 + shuffles, lanes == 1 ? 11 : 23 - shuffles,
            lanes == 1 ? 29 : 60 + shuffles * KERNEL_SHUFFLE_CYCLES);
    op->atomic_type = WAVE_ATOMIC_INT;
    op->atomic_flags = WAVE_ATOMIC_RETURN | (lanes == 1 ? 0 : WAVE_ATOMIC_WAVE_MERGED);
    op->element_bytes = 4;
    op->lane_count = 1;
    op->lane_address[0] = k->target;
    op_lanes(op, lanes);
    op->work_units = 1;
    state->trip++;
}

static void same_addr_return_build(struct kernel_build *build)
{
    uint64_t grid = kernel_param_integer(build, "grid", 1, 1000000);
    uint64_t block = kernel_param_integer(build, "block", 1, 1024);
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("atomic chain", sizeof(struct atomic_chain),
                                                         atomic_chain_next);
    struct atomic_chain *k = program->context;
    *k = (struct atomic_chain){ .steps = 64, .lanes = build->machine->lanes, .block = (uint32_t)block };
    k->target = kernel_program_tensor(program, "target", 4);
    program->registers_per_lane = 13; /* sm_90: 13 registers */
    kernel_program_grid(program, grid * block, k->block, k->lanes);
    program->work_units_total = program->workgroups * program->waves_per_workgroup * k->steps;
    program->trips_per_wave = k->steps;
    kernel_plan_add(build, program, 1);
    kernel_value_time(build, 64, 1e3, "ns/op-chain");
}

#define LDS_WORDS 4096
#define LDS_BANKS 32 /* of 4 bytes; the same on the machines described in devices/ */

struct lds_atomic {
    uint32_t addresses, per_lane, block, lanes;
};

/* Bank conflicts of a wave's real addresses: the most distinct words that fall on one bank (equal words go together). */
static uint32_t lds_conflict(const struct lds_atomic *k, uint32_t first_thread, uint32_t trip)
{
    uint32_t words[WAVE_LANES_MAX], word_count = 0, degree = 1;
    uint8_t load[LDS_BANKS] = { 0 };
    for (uint32_t lane = 0; lane < k->lanes; lane++) {
        uint32_t h = (first_thread + lane) * 0x9E3779B1u + trip * 0x85EBCA77u;
        uint32_t word = (h ^ h >> 15) % k->addresses;
        bool seen = false;
        for (uint32_t i = 0; i < word_count && !seen; i++) {
            seen = words[i] == word;
        }
        if (!seen) {
            words[word_count++] = word;
            uint32_t conflicts = ++load[word % LDS_BANKS];
            degree = conflicts > degree ? conflicts : degree;
        }
    }
    return degree;
}

/* sm_90: the zeroing loop, a barrier, then a loop unrolled by 4 of 56 instructions in 112 cycles. */
static void lds_atomic_next(const struct wave_program *program, const struct wave_window *window,
                            struct wave_state *state, struct wave_op *op)
{
    const struct lds_atomic *k = program->context;
    switch (state->pc) {
    case 0:
        wave_first_trip(window, state);
        op_begin(op, WAVE_BARRIER, WAVE_NO_WAIT);
        op_work(op, 6 + 2 * LDS_WORDS / k->block, 12 + 3 * LDS_WORDS / k->block, 54);
        op->lds_bytes = 4 * LDS_WORDS / k->block * k->lanes;
        state->pc = 1;
        return;
    case 1:
        if (state->trip < min_u64(k->per_lane, window->trip_limit)) {
            uint32_t trip = (uint32_t)state->trip++;
            op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
            op_work(op, 1, 13, 14);
            op->lds_atomics = k->lanes;
            op->lds_conflict_x16 = (uint16_t)(16 * lds_conflict(k, state->wave * k->lanes, trip));
            op_lanes(op, k->lanes);
            op->work_units = 1;
            return;
        }
        state->pc = 2;
        op_begin(op, WAVE_BARRIER, WAVE_NO_WAIT);
        op_work(op, 1, 1, 13);
        return;
    default:
        op_end(op);
    }
}

static void shared_u32_build(struct kernel_build *build)
{
    uint64_t addresses = kernel_param_integer(build, "naddr", 1, LDS_WORDS);
    kernel_require_lds(build, 4 * LDS_WORDS);
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = kernel_program_create("shared-memory atomics", sizeof(struct lds_atomic),
                                                         lds_atomic_next);
    struct lds_atomic *k = program->context;
    *k = (struct lds_atomic){ (uint32_t)addresses, 256, 512, build->machine->lanes };
    uint64_t threads = 4ull * build->machine->units * k->block;
    program->registers_per_lane = 18; /* sm_90: 18 registers */
    program->lds_bytes = 4 * LDS_WORDS;
    program->initial_cache = WAVE_CACHE_STATE_CLEAN;
    kernel_program_grid(program, threads, k->block, k->lanes);
    program->work_units_total = program->workgroups * program->waves_per_workgroup * k->per_lane;
    program->trips_per_wave = k->per_lane;
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, (double)threads * k->per_lane * 1e-3, "Gop/s");
}

#define ADD_HELP "naddr, mode (0: each lane draws, 1: a wave shares, 2: neighbouring lanes), stride (bytes), ops, copies" INDEX_HELP

const struct kernel_definition atomic_kernels[] = {
    { "atomic", "add_u32", "32-bit integer additions without return", ADD_HELP, add_u32_build },
    { "atomic", "add_u64", "64-bit integer additions without return", ADD_HELP, add_u64_build },
    { "atomic", "add_f32", "fp32 additions without return", ADD_HELP, add_f32_build },
    { "atomic", "add_f16x2", "packed fp16 additions without return", ADD_HELP, add_f16x2_build },
    { "atomic", "same_addr_scale", "64 integer additions a thread on one address", "grid, block",
      same_addr_scale_build },
    { "atomic", "same_addr_return", "a dependent chain of 64 additions with return on one address", "grid, block",
      same_addr_return_build },
    { "atomic", "shared_u32", "integer additions in shared memory, 4 workgroups of 512 per unit",
      "naddr (up to 4096)", shared_u32_build },
    { "atomic_operations", "atomicAdd", "additions of all threads to one word", "blocks, threads, ops_per_thread", atomic_add_build },
    { "atomic_operations", "atomicCAS", "single compare-and-swaps of all threads on one word", "blocks, threads, ops_per_thread",
      atomic_cas_build },
    { "altis_gups", "update", "random 8-byte words updated", "threads, updates (of a thread), table (words)", update_build },
    { .suite = NULL },
};
