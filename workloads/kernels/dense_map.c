/* Every element by itself: loads, arithmetic, stores. */
#include "workloads/kernels/dense_internal.h"

/* ---- operands ---- */

/* A small tensor read over and over. */
static bool is_cycle(const struct dense_operand *operand)
{
    return operand->dim_count == 2 && operand->dims[0].stride == 1 && operand->dims[1].stride == 0;
}

uint64_t dense_spans_max(const struct dense_operand *operand, uint64_t count)
{
    if (operand->dim_count == 0) {
        return 1;
    }
    struct dense_dim inner = operand->dims[0];
    if (inner.stride > 1) {
        return count;
    }
    if (operand->dim_count == 1) {
        return 1;
    }
    return min_u64(count, is_cycle(operand) ? 2 : ceil_div(count, inner.size) + 1);
}

/* Element index of the tensor's storage for the index-th element of the iteration. */
static uint64_t storage_index(const struct dense_operand *operand, uint64_t index)
{
    uint64_t at = 0;
    for (uint32_t d = 0; d < operand->dim_count; d++) {
        bool last = d + 1 == operand->dim_count;
        at += (last ? index : index % operand->dims[d].size) * operand->dims[d].stride;
        index = last ? 0 : index / operand->dims[d].size;
    }
    return operand->dim_count == 0 ? index : at;
}

/* Elements from `index` on that one span can hold, and how many storage elements that is. */
static uint64_t run_length(const struct dense_operand *operand, uint64_t index, uint64_t count,
                           uint64_t *stored)
{
    if (operand->dim_count == 0) {
        return *stored = count;
    }
    struct dense_dim inner = operand->dims[0];
    if (is_cycle(operand) && index % inner.size == 0 && count >= inner.size) {
        *stored = inner.size; /* lanes of one instruction that read the same element share its sector */
        return count;
    }
    uint64_t run = operand->dim_count == 1 ? count : min_u64(count, inner.size - index % inner.size);
    if (inner.stride == 1) {
        return *stored = run;
    }
    *stored = 1;
    return inner.stride == 0 ? run : 1;
}

void dense_spans(const struct dense_operand *operand, uint64_t first, uint64_t count, struct wave_op *op)
{
    bool apart = true;
    if (is_cycle(operand) && count >= operand->dims[0].size) {
        first = 0;
    }
    while (count > 0) {
        uint64_t stored, run = run_length(operand, first, count, &stored);
        uint64_t address = operand->base + storage_index(operand, first) * operand->bytes;
        bool fits = apart ? op_span_apart(op, address, stored * operand->bytes)
                          : op_span(op, address, stored * operand->bytes);
        SIM_ASSERT(fits, "an access needs more than %d spans", WAVE_SPANS_MAX);
        apart = false;
        first += run;
        count -= run;
    }
}

/* ---- steps: which accesses of which operands share a wave op ---- */

static void add_step(struct dense_shape *shape, struct dense_step step)
{
    SIM_ASSERT(shape->step_count < DENSE_STEPS_MAX, "a trip of more than %d steps", DENSE_STEPS_MAX);
    shape->steps[shape->step_count++] = step;
}

static uint64_t operands_spans(const struct dense_map *map, const struct dense_shape *shape, uint32_t first,
                               uint32_t count)
{
    uint64_t spans = 0, elements = (uint64_t)shape->vector * map->lanes;
    for (uint32_t i = first; i < first + count; i++) {
        spans += dense_spans_max(&map->operands[i], elements);
    }
    return spans;
}

/* Vector loads, but a lane's elements are stored one by one: an instruction per element, its lanes `vector` apart. */
static void add_scattered(struct dense_map *map, struct dense_shape *shape, uint32_t first, uint32_t count,
                          uint32_t a, uint32_t n)
{
    for (uint32_t access = a; access < a + n; access++) {
        for (uint32_t i = first; i < first + count; i++) {
            for (uint32_t lane_element = 0; lane_element < shape->vector; lane_element++) {
                add_step(shape, (struct dense_step){ .store = true,
                                                     .computes = i == map->load_count && lane_element == 0,
                                                     .scattered = true,
                                                     .lane_element = (uint8_t)lane_element,
                                                     .operand_first = (uint8_t)i,
                                                     .operand_count = 1,
                                                     .access_first = (uint16_t)access,
                                                     .access_count = 1 });
            }
        }
    }
}

/* Accesses [a, a + n) of operands [first, first + count), in as few ops as their spans allow. */
static void add_accesses(struct dense_map *map, struct dense_shape *shape, bool store, uint32_t first,
                         uint32_t count, uint32_t a, uint32_t n)
{
    if (store && map->scattered_stores && shape->vector > 1) {
        add_scattered(map, shape, first, count, a, n);
        return;
    }
    uint64_t spans = operands_spans(map, shape, first, count);
    if (spans > WAVE_SPANS_MAX) {
        for (uint32_t i = first; i < first + count && count > 1; i++) {
            add_accesses(map, shape, store, i, 1, a, n);
        }
        SIM_ASSERT(count > 1, "one access needs %llu spans", (unsigned long long)spans);
        return;
    }
    uint32_t per_op = spans == 0 ? n : (uint32_t)min_u64(n, WAVE_SPANS_MAX / spans);
    for (uint32_t done = 0; done < n; done += per_op) {
        uint32_t part = (uint32_t)min_u64(per_op, n - done);
        add_step(shape, (struct dense_step){ .store = store,
                                             .computes = store && first == map->load_count,
                                             .operand_first = (uint8_t)first,
                                             .operand_count = (uint8_t)count,
                                             .access_first = (uint16_t)(a + done),
                                             .access_count = (uint16_t)part });
    }
}

static void shape_init(struct dense_map *map, struct dense_shape *shape, uint32_t vector)
{
    shape->vector = vector;
    shape->accesses = map->elements_per_lane / vector;
    shape->step_count = 0;
    uint32_t together = map->order == DENSE_MAP_BATCHED ? shape->accesses : 1;
    for (uint32_t a = 0; a < shape->accesses; a += together) {
        if (map->load_count > 0) {
            add_accesses(map, shape, false, 0, map->load_count, a, together);
        }
        if (map->order == DENSE_MAP_INTERLEAVED) {
            add_accesses(map, shape, true, map->load_count, map->store_count, a, together);
        }
    }
    if (map->order != DENSE_MAP_INTERLEAVED) {
        add_accesses(map, shape, true, map->load_count, map->store_count, 0, shape->accesses);
    }
}

/* ---- the program ---- */

struct chunk {
    uint64_t start, end; /* elements */
};

static uint64_t part_elements(const struct dense_map *map, uint64_t workgroup)
{
    return map->part_count == 0 ? map->elements : map->parts[workgroup / map->part_workgroups].elements;
}

static struct chunk chunk_of(const struct dense_map *map, uint64_t workgroup, uint64_t trip)
{
    uint64_t n = part_elements(map, workgroup), local = workgroup % map->part_workgroups;
    if (map->workgroup_elements > 0) {
        uint64_t end = min_u64(n, (local + 1) * map->workgroup_elements);
        return (struct chunk){ min_u64(end, local * map->workgroup_elements + trip * map->chunk), end };
    }
    return (struct chunk){ min_u64(n, (trip * map->part_workgroups + local) * map->chunk), n };
}

static const struct dense_shape *shape_of(const struct dense_map *map, struct chunk chunk)
{
    return chunk.end - chunk.start < map->chunk ? &map->tail : &map->full;
}

/* First element of a wave's access; may lie beyond the chunk. */
static uint64_t access_start(const struct dense_map *map, const struct dense_shape *shape, struct chunk chunk,
                             uint32_t wave, uint32_t access)
{
    return chunk.start + ((uint64_t)access * map->threads + (uint64_t)wave * map->lanes) * shape->vector;
}

static const struct dense_operand *operand_of(const struct dense_map *map, uint64_t workgroup, uint32_t index)
{
    if (map->part_count == 0) {
        return &map->operands[index];
    }
    const struct dense_part *part = &map->parts[workgroup / map->part_workgroups];
    return index == 0 ? &part->load : &part->store;
}

/* Does the wave have an element in any step from `first` on? Steps of a kind walk the accesses upwards, but a store
 * follows its loads, so every later step is looked at. */
static bool steps_left(const struct dense_map *map, const struct dense_shape *shape, struct chunk chunk,
                       uint32_t wave, uint32_t first)
{
    for (uint32_t s = first; s < shape->step_count; s++) {
        if (access_start(map, shape, chunk, wave, shape->steps[s].access_first) < chunk.end) {
            return true;
        }
    }
    return false;
}

static void emit_access(const struct dense_shape *shape, const struct dense_step *step,
                        const struct dense_operand *operand, uint64_t start, uint64_t count,
                        struct wave_op *op)
{
    if (!step->scattered) {
        dense_spans(operand, start, count, op);
        return;
    }
    for (uint64_t i = step->lane_element; i < count; i += shape->vector) {
        dense_spans(operand, start + i, 1, op);
    }
}

static void emit_step(const struct dense_map *map, const struct dense_shape *shape, struct chunk chunk,
                      const struct wave_state *state, uint32_t index, struct wave_op *op)
{
    const struct dense_step *step = &shape->steps[index];
    uint64_t elements = 0, accesses = 0;
    for (uint32_t a = step->access_first; a < (uint32_t)step->access_first + step->access_count; a++) {
        uint64_t start = access_start(map, shape, chunk, state->wave, a);
        uint64_t count = start >= chunk.end
                             ? 0
                             : min_u64((uint64_t)map->lanes * shape->vector, chunk.end - start);
        for (uint32_t i = step->operand_first; i < (uint32_t)step->operand_first + step->operand_count; i++) {
            emit_access(shape, step, operand_of(map, state->workgroup, i), start, count, op);
        }
        accesses += count > 0;
        elements = max_u64(elements, count);
    }
    bool waits = step->store || (map->order == DENSE_MAP_SERIAL_LOADS && step->access_first > 0);
    op_begin(op, step->store ? WAVE_STORE : WAVE_LOAD, waits && map->load_count > 0 ? 0 : WAVE_NO_WAIT);
    uint32_t start = index > 0 ? 0 : map->start_issue + (state->trip == 0 ? map->first_issue : 0);
    double lane_elements = step->computes ? (double)accesses * shape->vector : 0;
    op_work(op, (uint32_t)accesses * step->operand_count * map->access_issue + start,
            slots16(lane_elements * map->valu), step->computes ? map->latency_cycles : 0);
    op->sfu_slots = (uint16_t)slots16(lane_elements * map->sfu);
    op_lanes(op, ceil_div(elements, shape->vector));
    op->work_units = !steps_left(map, shape, chunk, state->wave, index + 1);
}

static void map_next(const struct wave_program *program, const struct wave_window *window,
                     struct wave_state *state, struct wave_op *op)
{
    const struct dense_map *map = program->context;
    if (state->pc == 0) {
        wave_first_trip(window, state);
        state->pc = 1;
    }
    while (state->trip < min_u64(map->trips, window->trip_limit)) {
        struct chunk chunk = chunk_of(map, state->workgroup, state->trip);
        const struct dense_shape *shape = shape_of(map, chunk);
        while (state->r[0] < shape->step_count && chunk.start < chunk.end) {
            uint32_t index = (uint32_t)state->r[0]++;
            if (access_start(map, shape, chunk, state->wave, shape->steps[index].access_first) < chunk.end) {
                emit_step(map, shape, chunk, state, index, op);
                return;
            }
        }
        state->trip++;
        state->r[0] = 0;
    }
    op_end(op);
}

struct wave_program *dense_map_create(const char *name, struct dense_map **map)
{
    struct wave_program *program = kernel_program_create(name, sizeof **map, map_next);
    *map = program->context;
    return program;
}

static struct dense_operand *add_operand(struct wave_program *program, const char *name, uint32_t bytes,
                                         double tensor_elements)
{
    struct dense_map *map = program->context;
    uint32_t index = map->load_count + map->store_count;
    SIM_ASSERT(index < DENSE_OPERANDS_MAX, "program %s has too many operands", program->name);
    map->operands[index] = (struct dense_operand){
        .base = kernel_program_tensor(program, name, tensor_elements * bytes), .bytes = bytes
    };
    return &map->operands[index];
}

struct dense_operand *dense_map_load(struct wave_program *program, const char *name, uint32_t bytes,
                                     double tensor_elements)
{
    struct dense_map *map = program->context;
    SIM_ASSERT(map->store_count == 0, "program %s adds a load after a store", program->name);
    struct dense_operand *operand = add_operand(program, name, bytes, tensor_elements);
    map->load_count++;
    return operand;
}

struct dense_operand *dense_map_store(struct wave_program *program, const char *name, uint32_t bytes,
                                      double tensor_elements)
{
    struct dense_map *map = program->context;
    struct dense_operand *operand = add_operand(program, name, bytes, tensor_elements);
    map->store_count++;
    return operand;
}

/* Waves with at least one element, over all trips of a workgroup's elements [0, n). */
static uint64_t busy_waves(const struct dense_map *map, uint64_t n, uint32_t waves)
{
    uint64_t full = n / map->chunk, rest = n % map->chunk;
    return full * waves + min_u64(waves, ceil_div(rest, (uint64_t)map->lanes * map->tail.vector));
}

static uint64_t work_units(const struct dense_map *map, const struct wave_program *program)
{
    uint64_t units = 0;
    for (uint32_t p = 0; p < (map->part_count == 0 ? 1 : map->part_count); p++) {
        uint64_t n = part_elements(map, p * map->part_workgroups), own = map->workgroup_elements;
        units += own == 0 ? busy_waves(map, n, program->waves_per_workgroup)
                          : n / own * busy_waves(map, own, program->waves_per_workgroup) +
                                busy_waves(map, n % own, program->waves_per_workgroup);
    }
    return units;
}

#define CYCLE_BYTES_MOST 1048576 /* of a small tensor read over and over: every group's L2 holds it */

/* Do neighbouring elements lie in the order of the iteration, but for a small tensor's? */
static bool is_in_order(const struct dense_operand *operand)
{
    uint64_t reach = 1;
    for (uint32_t d = 0; d < operand->dim_count; d++) {
        struct dense_dim dim = operand->dims[d];
        bool last = d + 1 == operand->dim_count;
        if (last && dim.stride == 0) {
            return reach * operand->bytes <= CYCLE_BYTES_MOST;
        }
        if (dim.stride != 0 && dim.stride < reach) {
            return false;
        }
        reach = dim.stride != 0 && !last ? dim.stride * dim.size : reach;
    }
    return true;
}

/* A chunk a workgroup, in order. */
static bool is_divisible(const struct dense_map *map)
{
    bool divisible = map->part_count == 0 && (map->trips == 1 || map->workgroup_elements > 0);
    for (uint32_t i = 0; i < map->load_count + map->store_count; i++) {
        divisible = divisible && is_in_order(&map->operands[i]);
    }
    return divisible;
}

void dense_map_finish(struct wave_program *program, const struct kernel_machine *machine)
{
    struct dense_map *map = program->context;
    SIM_ASSERT(map->elements > 0, "program %s has no elements", program->name);
    SIM_ASSERT(map->elements_per_lane % map->vector == 0, "program %s: %u elements in vectors of %u",
               program->name, map->elements_per_lane, map->vector);
    map->lanes = machine->lanes;
    map->chunk = (uint64_t)map->threads * map->elements_per_lane;
    uint64_t chunks = ceil_div(map->elements, map->chunk);
    if (map->workgroup_elements > 0) {
        map->part_workgroups = ceil_div(map->elements, map->workgroup_elements);
        map->trips = ceil_div(map->workgroup_elements, map->chunk);
    } else {
        map->part_workgroups = map->workgroups == 0 ? chunks : min_u64(map->workgroups, chunks);
        map->trips = ceil_div(chunks, map->part_workgroups);
    }
    shape_init(map, &map->full, map->vector);
    shape_init(map, &map->tail, map->order == DENSE_MAP_BATCHED ? 1 : map->vector);
    uint64_t workgroups = map->part_workgroups * (map->part_count == 0 ? 1 : map->part_count);
    kernel_program_grid(program, workgroups * map->threads, map->threads, machine->lanes);
    program->work_units_total = work_units(map, program);
    program->trips_per_wave = map->trips >= 8 ? map->trips : 0;
    program->workgroups_differ = map->part_count > 1;
    program->is_divisible = is_divisible(map);
}
