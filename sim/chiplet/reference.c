/* The reference engine. Where the fast engine walks a line through all servers at issue, a line here is an object that moves
 * from stage to stage, one event each:
 *   load:   address port -> L1 -> (MSHR) -> request path -> near slice -> (home slice) -> (die link, memory-side cache, channel)
 *           -> return path -> wave
 *   store:  address port -> (credit) -> request path -> (near slice) -> home slice -> taken
 *   atomic: as a store, then a packet's blocks one by one: slice queue -> in-order front and block -> arithmetic unit
 * Every server is a strict first-come first-served queue at the time of arrival, credits are counters with a queue, and data in
 * flight are waited for by name. Policies (tags, near copies, dirty shares, open rows, write batches) are the package's.
 * Invariants: an event's time is never before `now`; equal times fire in the order they were scheduled; a request is in exactly
 * one of: the event heap, a credit queue, a fill's list of waiters, the free list. */
#include "sim/chiplet/reference_parts_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- the unit's side of a line */

static void wave_continue(struct reference *reference, struct wave *wave);
static void wave_wakes(struct reference *reference, struct wave *wave);

static void line_of_load_done(struct reference *reference, struct request *request)
{
    struct wave *wave = request->wave;
    if (--wave->left[request->load_op % LOADS_MAX] == 0) {
        wave->blame = request->blame;
        wave->blame_total = reference->now - request->issued;
    }
    reference_free_request(reference, request);
    while (wave->loads_done < wave->loads && wave->left[wave->loads_done % LOADS_MAX] == 0) {
        wave->loads_done++;
    }
    if (wave->asleep && wave->loads_done >= wave->waits_for) {
        wave_wakes(reference, wave);
    }
}

void reference_atomic_returned(struct reference *reference, void *object)
{
    line_of_load_done(reference, object);
}

static void load_hit(struct reference *reference, void *object)
{
    line_of_load_done(reference, object);
}

static void load_complete(struct reference *reference, void *object)
{
    struct request *request = object;
    reference_end_fill(reference, request, FILL_L1);
    reference_give_credit(reference, &reference->units[request->unit].loads);
    line_of_load_done(reference, request);
}

void reference_load_back(struct reference *reference, void *object)
{
    struct request *request = object;
    sim_ticks cost = reference->package->fill_sector * __builtin_popcount(request->mask);
    sim_ticks start = reference_serve(reference, &reference->units[request->unit].fill, cost);
    request->blame.l1 += start - reference->now;
    reference_schedule(reference, start, load_complete, request);
}

static void load_out(struct reference *reference, void *object)
{
    struct request *request = object;
    sim_ticks sent = reference_serve(reference, &reference->units[request->unit].out, reference->package->cycle);
    request->blame.l1 += sent - reference->now;
    reference_schedule(reference, sent + request->there, reference_arrive_at_l2, request);
}

/* The line's place in L1, found or taken from the oldest of its set. */
static struct l1_line *l1_find(struct reference *reference, struct unit *unit, uint64_t line)
{
    uint32_t set = (uint32_t)(line ^ line >> 32) % reference->l1_sets;
    struct l1_line *ways = &unit->l1[(size_t)set * reference->l1_ways];
    for (uint32_t way = 0; way < reference->l1_ways; way++) {
        if (ways[way].line == line + 1) {
            return &ways[way];
        }
    }
    uint32_t victim = unit->l1_victim[set];
    unit->l1_victim[set] = (uint8_t)((victim + 1) % reference->l1_ways);
    ways[victim] = (struct l1_line){ .line = line + 1 };
    return &ways[victim];
}

static void load_at_l1(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    struct unit *unit = &reference->units[request->unit];
    if (request->cache == WAVE_CACHE_L1) {
        uint32_t where = package->slices + request->unit;
        struct l1_line *line = l1_find(reference, unit, request->line);
        if ((line->valid & request->mask) == request->mask) {
            package->traffic.l1_hits++;
            if (!reference_wait_for_fill(reference, request->line, where, request->mask, load_hit, request)) {
                reference_schedule(reference, reference->now + package->l1_hit, load_hit, request);
            }
            return;
        }
        line->valid |= request->mask;
        request->fills[FILL_L1] = reference_start_fill(reference, request->line, where, request->mask);
    }
    reference_take_credit(reference, &unit->loads, load_out, request);
}

static void packet_sent(struct reference *reference, void *object)
{
    struct request *request = object;
    struct wave *wave = request->wave;
    reference_schedule(reference, reference->now + request->there, reference_arrive_at_l2, request);
    if (--wave->unsent == 0) {
        wave_continue(reference, wave);
    }
}

static void packet_out(struct reference *reference, void *object)
{
    struct request *request = object;
    sim_ticks cost = reference->package->store_sector * __builtin_popcount(request->mask);
    reference_schedule(reference, reference_serve(reference, &reference->units[request->unit].out, cost), packet_sent, request);
}

static void packet_at_port(struct reference *reference, void *object)
{
    struct request *request = object;
    reference_take_credit(reference, &reference->units[request->unit].stores, packet_out, request);
}

static struct request *issue_line(struct reference *reference, struct wave *wave, enum request_kind kind, uint64_t line, uint32_t mask)
{
    struct package *package = reference->package;
    struct unit *unit = &reference->units[wave->unit];
    struct request *request = reference_new_request(reference);
    request->kind = kind;
    request->wave = wave;
    request->unit = wave->unit;
    request->group = unit->group;
    request->line = line;
    request->mask = mask;
    request->load_op = NOT_A_LOAD;
    request->issued = reference->now;
    request->place = package_place(package, line);
    uint32_t local = request->place.slice - request->place.home * package->slices_per_group;
    request->near = unit->group * package->slices_per_group + (package->is_private ? request->place.slice : local);
    request->home = package->is_private ? request->near : request->place.slice;
    uint32_t seen = package->is_private ? request->place.slice : request->near;
    request->latency = package->hit_latency[wave->unit * package->hit_latency_stride + seen];
    request->there = request->latency * 7 / 16;
    package->traffic.l1_requests++;
    package->traffic.l1_bytes += (uint64_t)__builtin_popcount(mask) << package->sector_shift;
    sim_ticks start = reference_serve(reference, &unit->lsu, package->l1_request);
    request->blame.l1 += start - reference->now;
    reference_schedule(reference, start, kind == REQUEST_LOAD ? load_at_l1 : packet_at_port, request);
    return request;
}

/* ---- cutting operations into lines: neighbouring spans that meet in one line are one request */

static uint32_t cut_spans(struct reference *reference, const struct wave_op *op)
{
    const struct package *package = reference->package;
    struct piece *pieces = reference->pieces;
    uint32_t count = 0;
    for (uint32_t s = 0; s < op->span_count; s++) {
        uint64_t first = op->spans[s].address;
        uint64_t end = first + op->spans[s].bytes;
        for (uint64_t sector = first >> package->sector_shift; sector << package->sector_shift < end; sector++) {
            uint64_t line = sector / package->sectors;
            uint32_t bit = 1u << (sector % package->sectors);
            bool is_whole = first <= sector << package->sector_shift && (sector + 1) << package->sector_shift <= end;
            if (count == 0 || pieces[count - 1].line != line) {
                SIM_ASSERT(count < PIECES_MAX, "%s: an operation of more than %d lines", reference->program->name, PIECES_MAX);
                pieces[count++] = (struct piece){ .line = line };
            }
            pieces[count - 1].mask |= bit;
            pieces[count - 1].partial |= is_whole ? 0 : bit;
        }
    }
    return count;
}

/* An atomic's lanes by line and block. */
static uint32_t cut_lanes(struct reference *reference, const struct wave_op *op)
{
    const struct package *package = reference->package;
    struct piece *pieces = reference->pieces;
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->lane_count; i++) {
        uint64_t address = op->lane_address[i];
        uint64_t line = address >> package->line_shift;
        uint32_t offset = (uint32_t)(address & (package->line_bytes - 1));
        uint32_t p = 0;
        while (p < count && pieces[p].line != line) {
            p++;
        }
        if (p == count) {
            pieces[count++] = (struct piece){ .line = line };
        }
        for (uint32_t byte = offset; byte < offset + op->element_bytes; byte++) {
            pieces[p].mask |= 1u << (byte >> package->sector_shift);
        }
        uint8_t on_one = 0;
        for (uint32_t j = 0; j <= i; j++) {
            on_one = (uint8_t)(on_one + (op->lane_address[j] == address));
        }
        struct atomic_lanes *lanes = &pieces[p].lanes[offset / package->atomics.rates.block_bytes];
        lanes->pieces = (uint8_t)(lanes->pieces + (lanes->all == 0 || address != op->lane_address[i - 1] + op->element_bytes));
        lanes->all++;
        lanes->on_one = on_one > lanes->on_one ? on_one : lanes->on_one;
    }
    return count;
}

static uint32_t cut_atomic(struct reference *reference, const struct wave_op *op)
{
    const struct package *package = reference->package;
    if (op->lane_count > 0) {
        return cut_lanes(reference, op);
    }
    bool on_one = op->span_count == 1 && op->spans[0].bytes == op->element_bytes && op->lanes_active > 1 &&
                  (op->atomic_flags & WAVE_ATOMIC_WAVE_MERGED) == 0;
    uint32_t count = cut_spans(reference, op);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t s = 0; s < package->sectors; s++) {
            if (reference->pieces[i].mask >> s & 1u) {
                uint32_t block = (s << package->sector_shift) / package->atomics.rates.block_bytes;
                uint8_t lanes = (uint8_t)(on_one ? op->lanes_active : 1);
                reference->pieces[i].lanes[block] = (struct atomic_lanes){ .all = lanes, .on_one = lanes, .pieces = 1 };
            }
        }
    }
    return count;
}

/* ---- waves */

static step_fire wave_issue;

static void set_mark(struct reference *reference)
{
    reference->outcome->mark[reference->mark_index] = reference->now;
    reference->outcome->mark_units[reference->mark_index] = reference->outcome->units;
    reference->mark_index++;
}

static void count_units(struct reference *reference, uint32_t units)
{
    const struct run_request *request = reference->request;
    reference->outcome->units += units;
    while (units > 0 && !request->marks_by_dispatch && reference->mark_index < RUN_MARKS && reference->outcome->units >= reference->mark_due) {
        set_mark(reference);
        reference->mark_due = run_mark_due(request, reference->mark_index);
    }
}

static void count_dispatch(struct reference *reference, uint64_t position)
{
    const struct run_request *request = reference->request;
    if (!request->marks_by_dispatch) {
        return;
    }
    uint64_t done = position - request->first_workgroup + 1;
    while (reference->mark_index < RUN_MARKS && done * 100 >= request->workgroup_count * (40 + 12 * reference->mark_index)) {
        set_mark(reference);
    }
    if (reference->mark_index == RUN_MARKS) {
        reference->outcome->stopped = true;
        reference->outcome->end = reference->now;
    }
}

static void fetch_next(struct reference *reference, struct wave *wave)
{
    memset(&wave->op, 0, offsetof(struct wave_op, spans));
    wave->op.wait_outstanding = WAVE_NO_WAIT;
    reference->program->next(reference->program, &reference->request->window, &wave->state, &wave->op);
}

/* The waits of the pending operation on loads are over. */
static void wave_wakes(struct reference *reference, struct wave *wave)
{
    double *blame = reference->outcome->blame;
    double waited = (double)(reference->now - wave->waits_since);
    wave->asleep = false;
    if (waited > 0) {
        const struct access_blame *b = &wave->blame;
        double share = wave->blame_total > 0 ? waited / (double)wave->blame_total : 0;
        blame[KERNEL_STAGE_L1] += share * (double)b->l1;
        blame[KERNEL_STAGE_L2] += share * (double)b->l2;
        blame[KERNEL_STAGE_DIE_LINK] += share * (double)b->link;
        blame[KERNEL_STAGE_MALL] += share * (double)b->mall;
        blame[KERNEL_STAGE_HBM] += share * (double)b->hbm;
        blame[KERNEL_STAGE_ATOMIC] += share * (double)b->atomic;
        double rest = waited - share * (double)(b->l1 + b->l2 + b->link + b->mall + b->hbm + b->atomic);
        blame[KERNEL_STAGE_LATENCY] += rest > 0 ? rest : 0;
    }
    sim_ticks at = reference->now;
    if (wave->op.wait_matrix && wave->matrix_done > at) {
        blame[KERNEL_STAGE_MATRIX] += (double)(wave->matrix_done - at);
        at = wave->matrix_done;
    }
    reference_schedule(reference, at, wave_issue, wave);
}

/* The operation before is issued: fetch the next and wait for what it needs. */
static void wave_continue(struct reference *reference, struct wave *wave)
{
    fetch_next(reference, wave);
    const struct wave_op *op = &wave->op;
    uint64_t allowed = op->kind == WAVE_END || wave->in_order ? 0 : op->wait_outstanding == WAVE_NO_WAIT ? LOADS_MAX - 1 : op->wait_outstanding;
    wave->in_order = false;
    wave->waits_for = wave->loads > allowed ? wave->loads - allowed : 0;
    wave->waits_since = reference->now;
    if (wave->loads_done >= wave->waits_for) {
        wave_wakes(reference, wave);
    } else {
        wave->asleep = true;
    }
}

static uint64_t take_workgroup(struct reference *reference, uint32_t group)
{
    bool breadth_first = reference->package->profile->dispatch_order != CHIP_DISPATCH_ROUND_ROBIN_GROUPS;
    uint64_t *next = breadth_first ? &reference->next_workgroup : &reference->next_of_group[group];
    uint64_t position = *next;
    if (position >= reference->end_workgroup) {
        return UINT64_MAX;
    }
    *next += breadth_first ? 1 : reference->package->groups;
    return position;
}

static uint64_t workgroup_at(const struct run_request *request, uint64_t position)
{
    return request->sample_of == 0 ? position : (uint64_t)((unsigned __int128)position * request->sample_of / request->workgroup_count);
}

/* The slot's next workgroup asks for the dispatcher. */
static void start_workgroup(struct reference *reference, void *object)
{
    struct slot *slot = object;
    const struct chip_profile *profile = reference->package->profile;
    double mhz = reference->package->core_mhz;
    struct strict_server *dispatcher = &reference->dispatchers[reference->units[slot->unit].group % reference->dispatcher_count];
    sim_ticks start = reference_serve(reference, dispatcher, ticks_of_cycles(profile->dispatch_interval, mhz)) + ticks_of_cycles(profile->dispatch_start_latency, mhz);
    slot->running = reference->program->waves_per_workgroup;
    slot->at_barrier = 0;
    slot->end = start;
    for (uint32_t w = 0; w < slot->running; w++) {
        uint32_t index = slot->first_wave + w;
        struct wave *wave = &reference->waves[index];
        memset(wave, 0, offsetof(struct wave, op));
        wave->unit = slot->unit;
        wave->slot = (uint32_t)(slot - reference->slots);
        wave->simd = run_simd_of(wave->slot, reference->package->units, slot->running, w, (uint32_t)profile->unit_simds);
        wave->state.workgroup = workgroup_at(reference->request, slot->position);
        wave->state.wave = w;
        wave->state.trip = reference->request->window.trip_first;
        wave->born = start + w * ticks_of_cycles(profile->dispatch_wave_interval, mhz);
        fetch_next(reference, wave);
        if (reference->request->one_wave_only && w != reference->request->one_wave) {
            memset(&wave->op, 0, offsetof(struct wave_op, spans));
            wave->op.kind = WAVE_END;
        }
        reference_schedule(reference, wave->born, wave_issue, wave);
    }
    reference->waves_alive += slot->running;
}

static void wave_end(struct reference *reference, struct wave *wave)
{
    struct slot *slot = &reference->slots[wave->slot];
    reference->lifetime += (double)(reference->now - wave->born);
    reference->waves_alive--;
    slot->end = reference->now;
    if (--slot->running > 0) {
        return;
    }
    reference->outcome->end = slot->end;
    slot->position = take_workgroup(reference, reference->units[slot->unit].group);
    if (slot->position != UINT64_MAX) {
        sim_ticks release = ticks_of_cycles(reference->package->profile->dispatch_release_latency, reference->package->core_mhz);
        reference_schedule(reference, reference->now + release, start_workgroup, slot);
        count_dispatch(reference, slot->position);
    } else {
        reference->outcome->slot_end += (double)slot->end;
        reference->outcome->slots_ended++;
    }
}

static void wave_leaves_barrier(struct reference *reference, void *object)
{
    struct wave *wave = object;
    reference->outcome->blame[KERNEL_STAGE_LATENCY] += (double)(reference->now - wave->waits_since);
    wave_continue(reference, wave);
}

static void wave_at_barrier(struct reference *reference, struct wave *wave)
{
    struct slot *slot = &reference->slots[wave->slot];
    wave->waits_since = reference->now;
    if (++slot->at_barrier < slot->running) {
        return;
    }
    slot->at_barrier = 0;
    sim_ticks go = reference->now + ticks_of_cycles(reference->package->profile->unit_barrier_latency, reference->package->core_mhz);
    for (uint32_t w = 0; w < reference->program->waves_per_workgroup; w++) {
        struct wave *other = &reference->waves[slot->first_wave + w];
        if (other->op.kind == WAVE_BARRIER) {
            reference_schedule(reference, go, wave_leaves_barrier, other);
        }
    }
}

static void wave_loads(struct reference *reference, struct wave *wave)
{
    uint32_t count = cut_spans(reference, &wave->op);
    SIM_ASSERT(count <= UINT16_MAX, "%u lines", count);
    for (uint32_t i = 0; i < count; i++) {
        const struct piece *piece = &reference->pieces[i];
        struct request *request = issue_line(reference, wave, REQUEST_LOAD, piece->line, piece->mask);
        request->load_op = wave->loads;
        request->cache = wave->op.cache;
    }
    wave->left[wave->loads % LOADS_MAX] = (uint16_t)count;
    wave->loads++;
    wave->loads_done += count == 0 && wave->loads_done + 1 == wave->loads;
}

static void wave_stores(struct reference *reference, struct wave *wave)
{
    wave->unsent = cut_spans(reference, &wave->op);
    for (uint32_t i = 0; i < wave->unsent; i++) {
        const struct piece *piece = &reference->pieces[i];
        issue_line(reference, wave, REQUEST_STORE, piece->line, piece->mask)->partial = piece->partial;
    }
}

/* Release and acquire cost something: nothing of the wave may pass the operation. */
static bool is_ordering(const struct package *package, const struct wave_op *op)
{
    return (op->atomic_flags & WAVE_ATOMIC_ACQ_REL) != 0 && package->atomic_release + package->atomic_acquire > 0;
}

static void wave_atomics(struct reference *reference, void *object)
{
    struct wave *wave = object;
    const struct wave_op *op = &wave->op;
    bool is_ordered = is_ordering(reference->package, op);
    bool returns = (op->atomic_flags & (WAVE_ATOMIC_RETURN | WAVE_ATOMIC_CAS_LOOP | WAVE_ATOMIC_CAS_ONCE)) != 0 || is_ordered;
    wave->in_order = is_ordered;
    wave->unsent = cut_atomic(reference, op);
    reference->package->traffic.atomic_lanes += op->lane_count > 0 ? op->lane_count : op->lanes_active > 0 ? op->lanes_active : 1;
    for (uint32_t i = 0; i < wave->unsent; i++) {
        const struct piece *piece = &reference->pieces[i];
        struct request *request = issue_line(reference, wave, REQUEST_ATOMIC, piece->line, piece->mask);
        request->type = (enum wave_atomic_type)op->atomic_type;
        request->load_op = returns ? wave->loads : NOT_A_LOAD;
        request->swap = atomic_swap_of(op->atomic_flags);
        request->is_ordered = is_ordered;
        memcpy(request->lanes, piece->lanes, sizeof request->lanes);
    }
    if (returns) {
        wave->left[wave->loads % LOADS_MAX] = (uint16_t)wave->unsent;
        wave->loads++;
    }
    if (wave->unsent == 0) {
        wave_continue(reference, wave);
    }
}

static void wave_access(struct reference *reference, void *object)
{
    struct wave *wave = object;
    const struct wave_op *op = &wave->op;
    count_units(reference, op->work_units);
    switch (op->kind) {
    case WAVE_LOAD:
        wave_loads(reference, wave);
        wave_continue(reference, wave);
        break;
    case WAVE_STORE:
        wave_stores(reference, wave);
        if (wave->unsent == 0) {
            wave_continue(reference, wave);
        }
        break;
    case WAVE_ATOMIC:
        if (is_ordering(reference->package, op)) {
            reference_schedule(reference, reference->now + reference->package->atomic_release, wave_atomics, wave);
        } else {
            wave_atomics(reference, wave);
        }
        break;
    case WAVE_BARRIER:
        wave_at_barrier(reference, wave);
        break;
    case WAVE_END:
        wave_end(reference, wave);
        break;
    default:
        wave_continue(reference, wave);
        break;
    }
}

/* Matrix work runs beside the wave, which goes on when it has begun. */
static void wave_matrix(struct reference *reference, void *object)
{
    struct wave *wave = object;
    const struct wave_op *op = &wave->op;
    sim_ticks cost = (sim_ticks)((double)op->matrix_flops * reference->matrix_ticks_per_flop[op->matrix_dtype] + 0.5);
    SIM_ASSERT(cost > 0, "matrix work of dtype %u without a rate in %s", op->matrix_dtype, reference->program->name);
    sim_ticks start = reference_serve(reference, &reference->units[wave->unit].matrix[wave->simd], cost);
    reference->outcome->blame[KERNEL_STAGE_MATRIX] += (double)(start - reference->now);
    reference->package->traffic.matrix_busy += cost;
    wave->matrix_done = start + cost;
    reference_schedule(reference, start, wave_access, wave);
}

static void past_lds(struct reference *reference, struct wave *wave, sim_ticks t)
{
    sim_ticks latency = reference->package->cycle * wave->op.latency_cycles;
    reference->outcome->blame[KERNEL_STAGE_LATENCY] += (double)latency;
    reference_schedule(reference, t + latency, wave->op.matrix_flops > 0 ? wave_matrix : wave_access, wave);
}

static void wave_lds(struct reference *reference, void *object)
{
    struct wave *wave = object;
    const struct wave_op *op = &wave->op;
    const struct chip_profile *profile = reference->package->profile;
    double mhz = reference->package->core_mhz;
    double conflict = op->lds_conflict_x16 > 0 ? op->lds_conflict_x16 / 16.0 : 1;
    double cycles = op->lds_bytes / profile->unit_lds_rate * conflict + op->lds_atomics / profile->unit_lds_atomic_rate;
    sim_ticks cost = ticks_of_cycles(cycles, mhz);
    sim_ticks end = reference_serve(reference, &reference->units[wave->unit].lds, cost) + cost;
    if (op->matrix_flops == 0) {
        end += ticks_of_cycles(profile->unit_lds_latency, mhz);
    }
    reference->outcome->blame[KERNEL_STAGE_L1] += (double)(end - reference->now);
    reference->outcome->lds_atomics += op->lds_atomics;
    past_lds(reference, wave, end);
}

static void wave_issue(struct reference *reference, void *object)
{
    struct wave *wave = object;
    const struct wave_op *op = &wave->op;
    const struct chip_profile *profile = reference->package->profile;
    struct unit *unit = &reference->units[wave->unit];
    struct run_outcome *outcome = reference->outcome;
    double mhz = reference->package->core_mhz;
    sim_ticks slot = ticks_of_cycles(profile->unit_issue_interval, mhz);
    sim_ticks cost = slot * (op->issue_slots + op->sfu_slots) + ticks_of_cycles(profile->unit_valu_interval, mhz) * op->valu_slots;
    sim_ticks end = reference->now;
    if (cost > 0) {
        end = reference_serve(reference, &unit->issue[wave->simd], cost) + cost;
    }
    if (op->sfu_slots > 0) {
        sim_ticks sfu = ticks_of_cycles(profile->unit_sfu_interval, mhz) * op->sfu_slots;
        sim_ticks sfu_end = reference_serve(reference, &unit->sfu[wave->simd], sfu) + sfu;
        end = sfu_end > end ? sfu_end : end;
    }
    outcome->blame[KERNEL_STAGE_ISSUE] += (double)(end - reference->now);
    outcome->wave_ops++;
    if (op->lanes_active > 0) {
        outcome->lanes_sum += op->lanes_active;
        outcome->lanes_ops += 1;
    }
    if (op->lds_bytes > 0 || op->lds_atomics > 0) {
        reference_schedule(reference, end, wave_lds, wave);
    } else {
        past_lds(reference, wave, end);
    }
}

/* ---- build and run */

static void create_units(struct reference *reference)
{
    const struct chip_profile *p = reference->package->profile;
    uint32_t lines = (uint32_t)(p->l1_capacity * 1024 / p->l2_line);
    reference->l1_ways = (uint32_t)p->l1_ways;
    reference->l1_sets = lines / reference->l1_ways > 0 ? lines / reference->l1_ways : 1;
    reference->units = package_zalloc(reference->package->units, sizeof *reference->units);
    for (uint32_t u = 0; u < reference->package->units; u++) {
        reference->units[u].l1 = package_zalloc((size_t)reference->l1_sets * reference->l1_ways, sizeof(struct l1_line));
        reference->units[u].l1_victim = package_zalloc(reference->l1_sets, 1);
    }
}

/* A dtype without a native rate is emulated, as in executor.c. */
static void set_matrix_rates(struct reference *reference)
{
    const struct chip_profile *p = reference->package->profile;
    double tf32 = p->matrix_tf32 > 0 ? p->matrix_tf32 : p->matrix_bf16 / 3;
    double fp8 = p->matrix_fp8 > 0 ? p->matrix_fp8 : p->matrix_bf16;
    const double rate[WAVE_DTYPES] = { [WAVE_FP64] = p->matrix_fp64, [WAVE_FP32] = p->matrix_fp32, [WAVE_TF32] = tf32,
                                       [WAVE_BF16] = p->matrix_bf16, [WAVE_FP16] = p->matrix_bf16, [WAVE_FP8] = fp8, [WAVE_INT8] = fp8 };
    for (int d = 0; d < WAVE_DTYPES; d++) {
        reference->matrix_ticks_per_flop[d] = rate[d] > 0 ? 1e9 / reference->package->core_mhz / (rate[d] / p->unit_simds) : 0;
    }
}

struct reference *reference_create(struct package *package, const struct wave_program *program, const struct occupancy *occupancy)
{
    struct reference *reference = package_zalloc(1, sizeof *reference);
    reference->package = package;
    reference->program = program;
    create_units(reference);
    set_matrix_rates(reference);
    reference->slot_count = package->units * occupancy->workgroups_per_unit;
    reference->slots = package_zalloc(reference->slot_count, sizeof *reference->slots);
    reference->waves = package_zalloc((size_t)reference->slot_count * program->waves_per_workgroup, sizeof *reference->waves);
    reference->dispatcher_count = (uint32_t)package->profile->dispatch_dispatchers;
    reference->dispatchers = package_zalloc(reference->dispatcher_count, sizeof *reference->dispatchers);
    reference->slices = package_zalloc(package->slices, sizeof *reference->slices);
    reference->banks = package_zalloc((size_t)package->slices * package->banks * 2, sizeof *reference->banks);
    reference->links = package_zalloc((size_t)package->dies * 2, sizeof *reference->links);
    reference->mall_servers = package_zalloc(package->channels, sizeof *reference->mall_servers);
    reference->channels = package_zalloc(package->channels, sizeof *reference->channels);
    reference->arithmetic_count = package->atomics.slice_count / package->atomics.rates.slices_per_unit + 1;
    reference->arithmetic = package_zalloc(reference->arithmetic_count, sizeof *reference->arithmetic);
    reference->next_of_group = package_zalloc(package->groups, sizeof *reference->next_of_group);
    reference->fill_table = package_zalloc((size_t)1 << FILL_TABLE_BITS, sizeof(struct fill *));
    return reference;
}

/* Everything ever taken for the pools is free again. */
static void refill_pools(struct reference *reference)
{
    reference->free_requests = NULL;
    for (struct block_of_requests *block = reference->request_blocks; block != NULL; block = block->next) {
        for (size_t i = 0; i < sizeof block->request / sizeof *block->request; i++) {
            reference_free_request(reference, &block->request[i]);
        }
    }
    reference->free_fills = NULL;
    for (struct block_of_fills *block = reference->fill_blocks; block != NULL; block = block->next) {
        for (size_t i = 0; i < sizeof block->fill / sizeof *block->fill; i++) {
            block->fill[i].next = reference->free_fills;
            reference->free_fills = &block->fill[i];
        }
    }
}

void reference_destroy(struct reference *reference)
{
    if (reference == NULL) {
        return;
    }
    free(reference->heap);
}

static void reset(struct reference *reference)
{
    struct package *package = reference->package;
    for (uint32_t u = 0; u < package->units; u++) {
        struct unit kept = reference->units[u];
        reference->units[u] = (struct unit){ .l1 = kept.l1, .l1_victim = kept.l1_victim, .group = u % package->groups };
        reference->units[u].loads.left = (uint32_t)package->profile->l1_mshr;
        reference->units[u].stores.left = (uint32_t)package->profile->l1_store_credits;
        memset(kept.l1, 0, (size_t)reference->l1_sets * reference->l1_ways * sizeof *kept.l1);
        memset(kept.l1_victim, 0, reference->l1_sets);
    }
    memset(reference->dispatchers, 0, reference->dispatcher_count * sizeof *reference->dispatchers);
    memset(reference->slices, 0, package->slices * sizeof *reference->slices);
    memset(reference->banks, 0, (size_t)package->slices * package->banks * 2 * sizeof *reference->banks);
    memset(reference->links, 0, (size_t)package->dies * 2 * sizeof *reference->links);
    memset(reference->mall_servers, 0, package->channels * sizeof *reference->mall_servers);
    memset(reference->channels, 0, package->channels * sizeof *reference->channels);
    memset(reference->arithmetic, 0, reference->arithmetic_count * sizeof *reference->arithmetic);
    memset(reference->fill_table, 0, sizeof(struct fill *) << FILL_TABLE_BITS);
    refill_pools(reference); /* a run that was stopped leaves requests under way */
    reference->now = 0;
    reference->heap_count = 0;
    reference->sequence = 0;
    reference->waves_alive = 0;
    reference->last_drain = 0;
    reference->last_drain_stage = KERNEL_STAGE_LATENCY;
    reference->lifetime = 0;
}

static void fill_slots(struct reference *reference)
{
    const struct run_request *request = reference->request;
    struct package *package = reference->package;
    uint32_t usable = (uint32_t)(package->units * request->unit_share + 0.5);
    reference->units_used = usable > 0 ? usable : 1;
    reference->next_workgroup = request->first_workgroup;
    reference->end_workgroup = request->first_workgroup + request->workgroup_count;
    for (uint32_t g = 0; g < package->groups; g++) {
        bool starts = !request->one_group_only || g == request->one_group;
        reference->next_of_group[g] = starts ? request->first_workgroup + g : reference->end_workgroup;
    }
    for (uint32_t s = 0; s < reference->slot_count; s++) {
        struct slot *slot = &reference->slots[s];
        *slot = (struct slot){ .unit = s % package->units, .first_wave = s * reference->program->waves_per_workgroup };
        if (slot->unit >= reference->units_used) {
            continue;
        }
        slot->position = take_workgroup(reference, reference->units[slot->unit].group);
        if (slot->position != UINT64_MAX) {
            reference_schedule(reference, 0, start_workgroup, slot);
            reference->outcome->resident_waves += reference->program->waves_per_workgroup;
        }
    }
}

/* The busiest of `count` servers that lie `stride` bytes apart, as a share of the run; keeps the larger of it and *most. */
static void busiest(double *most, const struct strict_server *servers, size_t count, size_t stride, sim_ticks span)
{
    for (size_t i = 0; i < count; i++) {
        const struct strict_server *server = (const struct strict_server *)((const char *)servers + i * stride);
        double share = span > 0 ? (double)server->busy / (double)span : 0;
        share = share < 1 ? share : 1;
        *most = share > *most ? share : *most;
    }
}

static void measure_utilisation(struct reference *reference)
{
    struct package *package = reference->package;
    double *u = reference->outcome->utilisation;
    sim_ticks span = reference->outcome->end;
    size_t one = sizeof(struct strict_server);
    size_t apart = sizeof(struct unit);
    struct unit *units = reference->units;
    for (uint32_t s = 0; s < (uint32_t)package->profile->unit_simds; s++) {
        busiest(&u[KERNEL_STAGE_ISSUE], &units->issue[s], package->units, apart, span);
        busiest(&u[KERNEL_STAGE_ISSUE], &units->sfu[s], package->units, apart, span);
        busiest(&u[KERNEL_STAGE_MATRIX], &units->matrix[s], package->units, apart, span);
    }
    busiest(&u[KERNEL_STAGE_L1], &units->lsu, package->units, apart, span);
    busiest(&u[KERNEL_STAGE_L1], &units->out, package->units, apart, span);
    busiest(&u[KERNEL_STAGE_L1], &units->fill, package->units, apart, span);
    busiest(&u[KERNEL_STAGE_L1], &units->lds, package->units, apart, span);
    for (uint32_t i = 0; i < package->atomics.slice_count; i++) {
        struct strict_server front = { .busy = package->atomics.fronts[i].busy };
        busiest(&u[KERNEL_STAGE_ATOMIC], &front, 1, one, span);
        if (!package->atomics_at_memory) {
            /* the front's time is the slice's too: what is left are reads and writes */
            sim_ticks rest = reference->slices[i].busy - front.busy;
            reference->slices[i].busy = rest > 0 ? rest : 0;
        }
    }
    busiest(&u[KERNEL_STAGE_L2], reference->slices, package->slices, one, span);
    busiest(&u[KERNEL_STAGE_L2], reference->banks, package->slices * package->banks * 2, one, span);
    busiest(&u[KERNEL_STAGE_ATOMIC], reference->arithmetic, reference->arithmetic_count, one, span);
    busiest(&u[KERNEL_STAGE_MALL], reference->mall_servers, package->channels, one, span);
    busiest(&u[KERNEL_STAGE_HBM], &reference->channels->data, package->channels, sizeof *reference->channels, span);
    busiest(&u[KERNEL_STAGE_HBM], &reference->channels->activate, package->channels, sizeof *reference->channels, span);
    busiest(&u[KERNEL_STAGE_DIE_LINK], reference->links, (size_t)package->dies * 2, one, span);
    busiest(&u[KERNEL_STAGE_DISPATCH], reference->dispatchers, reference->dispatcher_count, one, span);
}

void reference_run(struct reference *reference, const struct run_request *request, struct run_outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    reference->request = request;
    reference->outcome = outcome;
    reference->mark_index = request->units_expected > 0 || request->marks_by_dispatch ? 0 : RUN_MARKS;
    reference->mark_due = run_mark_due(request, 0);
    reset(reference);
    fill_slots(reference);
    while (reference->heap_count > 0 && !outcome->stopped) {
        struct step step = reference_next_step(reference);
        reference->now = step.at;
        step.fire(reference, step.object);
    }
    double slots_time = (double)outcome->resident_waves * (double)outcome->end;
    if (outcome->stopped) {
        reference->last_drain = 0; /* what was still under way belongs to the extrapolated rest */
        reference->lifetime = slots_time;
    } else {
        SIM_ASSERT(reference->waves_alive == 0, "%s: %u waves never retired", reference->program->name, reference->waves_alive);
    }
    double idle = slots_time - reference->lifetime;
    outcome->blame[KERNEL_STAGE_DISPATCH] += idle > 0 ? idle : 0;
    if (reference->last_drain > outcome->end) {
        outcome->blame[reference->last_drain_stage] += (double)outcome->resident_waves * (double)(reference->last_drain - outcome->end);
        outcome->end = reference->last_drain;
    }
    measure_utilisation(reference);
}
