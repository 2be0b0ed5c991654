/* bandwidth and occupancy: persistent grids that sweep a buffer, 16 bytes a lane. */
#include "workloads/kernels/kernels_internal.h"

enum stream_kind { STREAM_READ, STREAM_WRITE, STREAM_COPY, STREAM_READ_NARROW };

struct stream {
    enum stream_kind kind;
    uint64_t elements;         /* of 16 bytes, per sweep */
    uint64_t sweeps;
    uint64_t threads;          /* of the grid: the stride of a sweep */
    uint64_t source, target;
    uint32_t lanes, block;
};

#define ELEMENT 16

/* The first element of a wave, and how many of its lanes exist. */
static uint64_t stream_first(const struct stream *k, uint64_t workgroup, uint32_t wave)
{
    return workgroup * k->block + (uint64_t)wave * k->lanes;
}

static uint64_t stream_lanes(const struct stream *k, uint32_t wave)
{
    return min_u64(k->lanes, k->block - (uint64_t)wave * k->lanes);
}

/* Trips of one sweep by the wave that starts at element `first`. */
static uint64_t stream_trips(const struct stream *k, uint64_t first)
{
    return first < k->elements ? ceil_div(k->elements - first, k->threads) : 0;
}

/* sm_90, none of the loops is unrolled; one access in flight per wave:
 *   read          12 instructions a trip: 4 index updates hide under the load, 8 (27 cycles) follow it
 *   read, narrow  10 instructions (occupancy only needs 8 of each 16 bytes, and loads 8): 27 cycles after the load
 *   write          8 instructions, 34 cycles; the branch waits until the store has read its registers
 *   copy          13 instructions: 15 cycles to the load, 17 from its return through the store to the branch
 * A repeated sweep begins with the outer loop: 9 instructions to the test of the first element and 2 after the last, among
 * them two constant loads, a convergence barrier and two branches; waves beyond the buffer's end run these alone. */
#define SWEEP_ISSUE 11u
#define SWEEP_LATENCY (60u + KERNEL_SPECIAL_CYCLES)

static void stream_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                        struct wave_op *op)
{
    const struct stream *k = program->context;
    uint64_t first = stream_first(k, state->workgroup, state->wave);
    uint64_t trips = stream_trips(k, first);
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->pc = 1;
    }
    if (trips == 0 && k->sweeps > 1 && state->trip < min_u64(k->sweeps, window->trip_limit)) {
        op_begin(op, WAVE_COMPUTE, WAVE_NO_WAIT);
        op_work(op, SWEEP_ISSUE, 0, SWEEP_LATENCY);
        state->trip++;
        return;
    }
    if (state->trip >= min_u64(trips * k->sweeps, window->trip_limit)) {
        op_end(op);
        return;
    }
    bool sweep_begins = k->sweeps > 1 && state->trip % trips == 0;
    uint64_t element = first + state->trip % trips * k->threads;
    uint64_t lanes = min_u64(stream_lanes(k, state->wave), k->elements - element);
    bool loads = state->pc == 1 && k->kind != STREAM_WRITE;
    if (!loads) {
        op_begin(op, WAVE_STORE, k->kind == STREAM_COPY ? 0 : WAVE_NO_WAIT);
        op_work(op, 2 + (sweep_begins ? SWEEP_ISSUE : 0), 6,
                (k->kind == STREAM_COPY ? 9u : 26u) + (sweep_begins ? SWEEP_LATENCY : 0));
    } else if (k->kind == STREAM_COPY) {
        op_begin(op, WAVE_LOAD, WAVE_NO_WAIT);
        op_work(op, 1, 4, 10);
    } else {
        op_begin(op, WAVE_LOAD, 0);
        op_work(op, 2 + (sweep_begins ? SWEEP_ISSUE : 0), k->kind == STREAM_READ ? 10 : 8,
                (k->kind == STREAM_READ ? 15u : 17u) + (sweep_begins ? SWEEP_LATENCY : 0));
        op->cache = WAVE_CACHE_L2;
    }
    op_span(op, (loads ? k->source : k->target) + element * ELEMENT, lanes * ELEMENT);
    op_lanes(op, lanes);
    if (loads && k->kind == STREAM_COPY) {
        state->pc = 2;
        return;
    }
    op->work_units = 1;
    state->pc = 1;
    state->trip++;
}

static uint64_t stream_work(const struct stream *k, const struct wave_program *program)
{
    uint64_t trips = 0;
    for (uint64_t group = 0; group < program->workgroups; group++) {
        for (uint32_t wave = 0; wave < program->waves_per_workgroup; wave++) {
            trips += stream_trips(k, stream_first(k, group, wave));
        }
    }
    return trips * k->sweeps;
}

static struct wave_program *stream_program(struct kernel_build *build, const char *name, struct stream parameters,
                                           uint64_t grid, uint32_t block)
{
    double bytes = (double)parameters.elements * ELEMENT;
    struct wave_program *program = kernel_program_create(name, sizeof(struct stream), stream_next);
    struct stream *k = program->context;
    *k = parameters;
    k->lanes = build->machine->lanes;
    k->block = block;
    k->threads = grid * block;
    kernel_program_grid(program, grid * block, block, k->lanes);
    if (k->kind != STREAM_WRITE) {
        k->source = kernel_program_tensor(program, "source", bytes);
    }
    if (k->kind == STREAM_WRITE || k->kind == STREAM_COPY) {
        k->target = kernel_program_tensor(program, "target", bytes);
    }
    program->work_units_total = stream_work(k, program);
    program->trips_per_wave = max_u64(1, ceil_div(k->elements, k->threads) * k->sweeps);
    program->l2_footprint_bytes = bytes * (k->kind == STREAM_COPY ? 2 : 1);
    return program;
}

#define MIB 1048576.0

static void bandwidth_build(struct kernel_build *build, enum stream_kind kind)
{
    /* mb counts both halves of a copy. A sweep of at least one element per half. */
    double mib = kernel_param_real(build, "mb", 32 / MIB, 1e7);
    uint64_t sweeps = kind == STREAM_COPY ? 1 : kernel_param_integer_or(build, "it", 1, 10000000, 1, NULL);
    kernel_require_hbm(build, mib * MIB, "the buffer");
    if (!kernel_params_done(build)) {
        return;
    }
    uint64_t elements = (uint64_t)(mib * MIB / ELEMENT) / (kind == STREAM_COPY ? 2 : 1);
    struct stream k = { .kind = kind, .elements = elements, .sweeps = sweeps };
    struct wave_program *program = stream_program(build, "stream", k, 8ull * build->machine->units, 256);
    program->registers_per_lane = kind == STREAM_COPY ? 14 : 16; /* sm_90: read 16, write 16, copy 14 */
    kernel_plan_add(build, program, 1);
    double moved = (double)elements * ELEMENT * (double)sweeps * (kind == STREAM_COPY ? 2 : 1);
    kernel_value_per_time(build, moved * 1e-6, "TB/s");
}

static void read_build(struct kernel_build *build)
{
    bandwidth_build(build, STREAM_READ);
}

static void write_build(struct kernel_build *build)
{
    bandwidth_build(build, STREAM_WRITE);
}

static void copy_build(struct kernel_build *build)
{
    bandwidth_build(build, STREAM_COPY);
}

#define OCCUPANCY_BYTES 4294967296.0 /* the measuring program's buffer */

static void occupancy_build(struct kernel_build *build)
{
    uint64_t blocks = kernel_param_integer(build, "blocks_per_sm", 1, 32);
    uint64_t threads = kernel_param_integer(build, "threads", 1, 1024);
    kernel_require_hbm(build, OCCUPANCY_BYTES, "the buffer");
    if (!kernel_params_done(build)) {
        return;
    }
    struct stream k = { .kind = STREAM_READ_NARROW, .elements = (uint64_t)(OCCUPANCY_BYTES / ELEMENT), .sweeps = 1 };
    struct wave_program *program = stream_program(build, "read at limited occupancy", k,
                                                  blocks * build->machine->units, (uint32_t)threads);
    program->registers_per_lane = 12; /* sm_90: 12 registers */
    program->workgroups_per_unit_max = (uint32_t)blocks;
    /* Shared memory pads a block to its share of 200 KiB, or of what the machine has. */
    uint64_t pool = min_u64(200 * 1024, build->machine->lds_bytes_per_workgroup_max);
    program->lds_bytes = (uint32_t)(pool / blocks & ~1023ull);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, OCCUPANCY_BYTES * 1e-6, "TB/s");
}

static void read_ctas_build(struct kernel_build *build)
{
    uint64_t blocks = kernel_param_integer(build, "ctas", 1, 65536);
    uint64_t threads = kernel_param_integer_or(build, "threads", 1, 1024, 1024, NULL);
    /* The measuring program gives each of its 132 blocks an equal share of the buffer. */
    uint64_t elements = (uint64_t)(OCCUPANCY_BYTES / ELEMENT) * blocks / 132;
    kernel_require_hbm(build, (double)elements * ELEMENT, "the buffer");
    if (!kernel_params_done(build)) {
        return;
    }
    struct stream k = { .kind = STREAM_READ, .elements = elements, .sweeps = 1 };
    struct wave_program *program = stream_program(build, "read by few workgroups", k, blocks, (uint32_t)threads);
    program->registers_per_lane = 16; /* sm_90: 16 registers */
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, (double)elements * ELEMENT * 1e-6, "TB/s");
}

const struct kernel_definition stream_kernels[] = {
    { "bandwidth", "read", "sweeps over a buffer, L1 bypassed", "mb (MiB of buffer), it (sweeps, 1)", read_build },
    { "bandwidth", "write", "sweeps over a buffer", "mb (MiB of buffer), it (sweeps, 1)", write_build },
    { "bandwidth", "copy", "one half of a buffer to the other", "mb (MiB of both halves)", copy_build },
    { "occupancy", "read", "one sweep over 4 GiB with few workgroups per unit", "blocks_per_sm, threads",
      occupancy_build },
    { "occupancy", "read_ctas", "one sweep by few workgroups, 31 MiB each", "ctas, threads (1024)", read_ctas_build },
    { .suite = NULL },
};
