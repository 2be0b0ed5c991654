/* The fast engine: one event per wave operation. When a wave's event fires its pending operation is issued, its lines walk
 * the whole path and reserve every server on it, and the next operation is fetched; the wave sleeps until that one's waits
 * are over. Nothing else is an event. Facts behind this choice: docs/chip-model.md. */
#include "sim/chiplet/credits_internal.h"
#include "sim/chiplet/executor_internal.h"

#include <stddef.h>
#include <string.h>

#define CALENDAR_BITS 14
#define CALENDAR_SIZE (1u << CALENDAR_BITS)
#define COMPLETIONS 16 /* load operations of a wave that wait_outstanding can tell apart */
#define NO_WAVE UINT32_MAX

struct l1_line {
    uint32_t key; /* folded line << 4 | valid sectors */
};

struct unit {
    uint32_t group;
    struct l1_line *l1;
    sim_ticks *l1_ready;
    uint8_t *l1_victim;
    struct slotted_server lsu, out, fill, lds;
    struct in_order_server issue[SIMDS_MAX], sfu[SIMDS_MAX];
    struct slotted_server matrix[SIMDS_MAX];
    struct credit_pool loads, stores; /* outstanding load requests, store packets not yet taken */
};

struct workgroup_slot {
    uint32_t unit, first_wave;
    uint32_t running, at_barrier;
    sim_ticks barrier_time, end;
    sim_ticks started; /* the slot was free for the workgroup at hand */
    uint32_t round;    /* workgroups before it in this run */
};

struct wave {
    sim_ticks at;
    uint32_t unit, slot;
    uint8_t simd, in_flight;
    uint8_t in_order; /* the next op waits for all before it */
    sim_ticks born;
    sim_ticks done[COMPLETIONS]; /* ring of the last load operations' completions */
    uint32_t loads;
    sim_ticks done_all, matrix_done;
    struct access_blame blame;   /* of the load that completes last */
    sim_ticks blame_total;
    struct wave_state state;
    struct wave_op op;           /* pending; only its used parts are ever touched */
} __attribute__((aligned(64)));

/* Lines of one operation, placed, with the host's cache told ahead: what a chip remembers does not fit the host's nearest
 * caches, and the misses of several lines overlap. */
#define LINES_AHEAD 64

struct line_access {
    uint64_t line;
    uint32_t mask, partial;
    struct line_place place;
};

/* Of the load or store that runs after the one at hand, so that its misses overlap that one's work. */
struct lines_ahead {
    uint32_t wave; /* NO_WAVE: none, or it has too many lines */
    uint32_t count;
    struct line_access lines[LINES_AHEAD];
};

struct executor {
    struct package *package;
    const struct wave_program *program;
    struct occupancy occupancy;
    uint32_t units_used;
    struct unit *units;
    struct fast_divisor l1_divisor;
    uint32_t l1_sets, l1_ways, load_credits, store_credits;
    struct wave *waves;
    struct workgroup_slot *slots;
    uint32_t wave_count, slot_count;
    uint32_t *next; /* [waves] calendar lists */
    struct lines_ahead ahead[2]; /* in turn of the wave at hand and of the one after it */
    uint32_t calendar[CALENDAR_SIZE]; /* last wave of a bucket's ring, whose next is the first */
    uint64_t calendar_used[CALENDAR_SIZE / 64];
    uint64_t calendar_position, calendar_waves; /* waves: in buckets */
    uint32_t far_waves; /* list of those beyond the horizon, unordered */
    uint64_t far_first; /* bucket of the earliest of them */
    sim_ticks bucket;
    struct in_order_server *dispatchers;
    uint32_t dispatcher_count;
    /* per-run */
    const struct run_request *request;
    struct run_outcome *outcome;
    uint64_t next_workgroup;    /* breadth first */
    uint64_t *next_of_group;    /* round robin over groups */
    uint64_t end_workgroup;
    uint32_t mark_index;
    uint64_t mark_due;
    sim_ticks last_drain;
    enum kernel_stage last_drain_stage;
    double lifetime;
    /* costs in ticks */
    sim_ticks issue_cost, valu_cost, sfu_cost, matrix_per_flop_num, start_latency, release_latency, wave_interval,
        dispatch_interval, barrier, lds_latency;
    double matrix_ticks_per_flop[WAVE_DTYPES];
    double lds_ticks_per_byte, lds_ticks_per_atomic;
};

/* ---- occupancy */

enum sim_status occupancy_of(const struct chip_profile *profile, const struct wave_program *program, struct occupancy *out,
                             struct sim_error *error)
{
    uint32_t simds = (uint32_t)profile->unit_simds;
    uint32_t waves = program->waves_per_workgroup;
    uint32_t granularity = (uint32_t)profile->unit_register_granularity;
    uint32_t registers = (program->registers_per_lane + granularity - 1) / granularity * granularity;
    if (registers == 0) {
        registers = granularity;
    }
    if (program->registers_per_lane > (uint32_t)profile->unit_registers_per_lane_max) {
        return sim_fail(error, SIM_DOES_NOT_FIT, "%s: %u registers per lane, but %s has at most %g", program->name,
                        program->registers_per_lane, profile->name, profile->unit_registers_per_lane_max);
    }
    if (waves > (uint32_t)profile->unit_waves_max) {
        return sim_fail(error, SIM_DOES_NOT_FIT, "%s: a workgroup of %u waves, but a unit of %s holds at most %g", program->name, waves,
                        profile->name, profile->unit_waves_max);
    }
    double lds_limit = profile->unit_lds_per_workgroup_max * 1024;
    if (program->lds_bytes > lds_limit) {
        return sim_fail(error, SIM_DOES_NOT_FIT, "%s: a workgroup needs %u B of LDS, but %s gives at most %.0f B (%.0f B too many)",
                        program->name, program->lds_bytes, profile->name, lds_limit, program->lds_bytes - lds_limit);
    }
    uint32_t waves_by_registers =
        (uint32_t)(profile->unit_registers / simds / profile->unit_lanes / registers) * simds;
    uint32_t by_registers = waves_by_registers / waves;
    if (by_registers == 0) {
        return sim_fail(error, SIM_DOES_NOT_FIT,
                        "%s: a workgroup of %u waves x %u registers per lane needs more registers than a unit of %s has (room for %u waves)",
                        program->name, waves, registers, profile->name, waves_by_registers);
    }
    uint32_t by_waves = (uint32_t)profile->unit_waves_max / waves;
    uint32_t by_slots = (uint32_t)profile->unit_workgroups_max;
    double lds = program->lds_bytes + profile->unit_lds_reserved_per_workgroup;
    uint32_t by_lds = lds > 0 ? (uint32_t)(profile->unit_lds * 1024 / lds) : by_slots;
    uint32_t by_launch = program->workgroups_per_unit_max != 0 ? program->workgroups_per_unit_max : UINT32_MAX;
    out->workgroups_per_unit = by_waves;
    out->limit = "waves";
    const struct { uint32_t n; const char *text; } bounds[] = {
        { by_slots, "workgroup slots" }, { by_registers, "registers" }, { by_lds, "LDS" }, { by_launch, "launch bounds" } };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        if (bounds[i].n < out->workgroups_per_unit) {
            out->workgroups_per_unit = bounds[i].n;
            out->limit = bounds[i].text;
        }
    }
    if (out->workgroups_per_unit == 0) {
        return sim_fail(error, SIM_DOES_NOT_FIT, "%s: not one workgroup fits a unit of %s (limit: %s)", program->name, profile->name, out->limit);
    }
    out->waves_per_unit = out->workgroups_per_unit * waves;
    return SIM_OK;
}

/* ---- build */

static void create_units(struct executor *executor)
{
    const struct chip_profile *p = executor->package->profile;
    uint32_t lines = (uint32_t)(p->l1_capacity * 1024 / p->l2_line);
    executor->l1_ways = (uint32_t)p->l1_ways;
    executor->l1_sets = lines / executor->l1_ways > 0 ? lines / executor->l1_ways : 1;
    executor->l1_divisor = fast_divisor_of(executor->l1_sets);
    executor->load_credits = (uint32_t)p->l1_mshr;
    executor->store_credits = (uint32_t)p->l1_store_credits;
    executor->units = package_zalloc(executor->package->units, sizeof *executor->units);
    for (uint32_t u = 0; u < executor->package->units; u++) {
        struct unit *unit = &executor->units[u];
        unit->group = u % executor->package->groups;
        unit->loads.far = package_zalloc(executor->load_credits, sizeof(sim_ticks));
        unit->stores.far = package_zalloc(executor->store_credits, sizeof(sim_ticks));
        unit->l1 = package_zalloc((size_t)executor->l1_sets * executor->l1_ways, sizeof *unit->l1);
        unit->l1_ready = package_zalloc((size_t)executor->l1_sets * executor->l1_ways, sizeof(sim_ticks));
        unit->l1_victim = package_zalloc(executor->l1_sets, 1);
    }
}

static void set_costs(struct executor *executor)
{
    const struct chip_profile *p = executor->package->profile;
    double mhz = executor->package->core_mhz;
    executor->issue_cost = ticks_of_cycles(p->unit_issue_interval, mhz);
    executor->valu_cost = ticks_of_cycles(p->unit_valu_interval, mhz);
    executor->sfu_cost = ticks_of_cycles(p->unit_sfu_interval, mhz);
    executor->start_latency = ticks_of_cycles(p->dispatch_start_latency, mhz);
    executor->release_latency = ticks_of_cycles(p->dispatch_release_latency, mhz);
    executor->wave_interval = ticks_of_cycles(p->dispatch_wave_interval, mhz);
    executor->dispatch_interval = ticks_of_cycles(p->dispatch_interval, mhz);
    executor->barrier = ticks_of_cycles(p->unit_barrier_latency, mhz);
    executor->lds_latency = ticks_of_cycles(p->unit_lds_latency, mhz);
    executor->lds_ticks_per_byte = 1e9 / mhz / p->unit_lds_rate;
    executor->lds_ticks_per_atomic = 1e9 / mhz / p->unit_lds_atomic_rate;
    /* a dtype without a native rate is emulated: TF32 and fp32 by three bf16 products, fp8 through bf16 */
    double rate[WAVE_DTYPES] = { [WAVE_FP64] = p->matrix_fp64, [WAVE_FP32] = p->matrix_fp32, [WAVE_TF32] = p->matrix_tf32,
                                 [WAVE_BF16] = p->matrix_bf16, [WAVE_FP16] = p->matrix_bf16, [WAVE_FP8] = p->matrix_fp8,
                                 [WAVE_INT8] = p->matrix_fp8 };
    if (!(rate[WAVE_TF32] > 0)) {
        rate[WAVE_TF32] = p->matrix_bf16 / 3;
    }
    if (!(rate[WAVE_FP8] > 0)) {
        rate[WAVE_FP8] = p->matrix_bf16;
        rate[WAVE_INT8] = p->matrix_bf16;
    }
    for (int d = 0; d < WAVE_DTYPES; d++) {
        executor->matrix_ticks_per_flop[d] = rate[d] > 0 ? 1e9 / mhz / (rate[d] / p->unit_simds) : 0;
    }
}

struct executor *executor_create(struct package *package, const struct wave_program *program, const struct occupancy *occupancy)
{
    struct executor *executor = package_zalloc(1, sizeof *executor);
    executor->package = package;
    executor->program = program;
    executor->occupancy = *occupancy;
    SIM_ASSERT(package->profile->unit_simds <= SIMDS_MAX, "%g SIMDs", package->profile->unit_simds);
    create_units(executor);
    set_costs(executor);
    executor->slot_count = package->units * occupancy->workgroups_per_unit;
    if (program->workgroups < executor->slot_count) {
        /* slots beyond the grid would never be used */
        uint64_t rows = (program->workgroups + package->units - 1) / package->units;
        executor->slot_count = (uint32_t)(rows * package->units);
    }
    executor->wave_count = executor->slot_count * program->waves_per_workgroup;
    executor->waves = package_zalloc(executor->wave_count, sizeof *executor->waves);
    executor->next = package_zalloc(executor->wave_count, sizeof *executor->next);
    executor->slots = package_zalloc(executor->slot_count, sizeof *executor->slots);
    executor->dispatcher_count = (uint32_t)package->profile->dispatch_dispatchers;
    executor->dispatchers = package_zalloc(executor->dispatcher_count, sizeof *executor->dispatchers);
    executor->next_of_group = package_zalloc(package->groups, sizeof *executor->next_of_group);
    executor->bucket = package->cycle;
    return executor;
}

static void reset_units(struct executor *executor)
{
    for (uint32_t u = 0; u < executor->package->units; u++) {
        struct unit *unit = &executor->units[u];
        memset(&unit->lsu, 0, sizeof unit->lsu);
        memset(&unit->out, 0, sizeof unit->out);
        memset(&unit->fill, 0, sizeof unit->fill);
        memset(&unit->lds, 0, sizeof unit->lds);
        memset(unit->issue, 0, sizeof unit->issue);
        memset(unit->sfu, 0, sizeof unit->sfu);
        memset(unit->matrix, 0, sizeof unit->matrix);
        credit_pool_reset(&unit->loads, executor->load_credits, unit->loads.far);
        credit_pool_reset(&unit->stores, executor->store_credits, unit->stores.far);
        memset(unit->l1, 0xff, (size_t)executor->l1_sets * executor->l1_ways * sizeof *unit->l1);
        for (size_t i = 0; i < (size_t)executor->l1_sets * executor->l1_ways; i++) {
            unit->l1[i].key &= ~15u;
        }
        memset(unit->l1_ready, 0, (size_t)executor->l1_sets * executor->l1_ways * sizeof(sim_ticks));
        memset(unit->l1_victim, 0, executor->l1_sets);
    }
}

/* ---- calendar: buckets of a cycle, first in, first out; waves beyond the horizon wait in a list */

static inline void calendar_push(struct executor *executor, uint32_t index)
{
    uint64_t bucket = (uint64_t)(executor->waves[index].at / executor->bucket);
    if (bucket < executor->calendar_position) {
        bucket = executor->calendar_position;
    }
    if (bucket >= executor->calendar_position + CALENDAR_SIZE) {
        executor->next[index] = executor->far_waves;
        executor->far_waves = index;
        executor->far_first = bucket < executor->far_first ? bucket : executor->far_first;
        return;
    }
    uint32_t at = (uint32_t)bucket & (CALENDAR_SIZE - 1);
    uint32_t last = executor->calendar[at];
    if (last == NO_WAVE) {
        executor->next[index] = index;
        executor->calendar_used[at / 64] |= 1ull << at % 64;
    } else {
        executor->next[index] = executor->next[last];
        executor->next[last] = index;
    }
    executor->calendar[at] = index;
    executor->calendar_waves++;
}

/* Waves that the horizon has reached, to their buckets. */
static void calendar_bring_far(struct executor *executor)
{
    uint32_t index = executor->far_waves;
    executor->far_waves = NO_WAVE;
    executor->far_first = UINT64_MAX;
    while (index != NO_WAVE) {
        uint32_t next = executor->next[index];
        calendar_push(executor, index);
        index = next;
    }
}

/* Move on to the first bucket with a wave. */
static inline uint32_t calendar_seek(struct executor *executor)
{
    for (;;) {
        uint32_t at = (uint32_t)executor->calendar_position & (CALENDAR_SIZE - 1);
        uint64_t used = executor->calendar_used[at / 64] >> at % 64;
        if (used != 0) {
            executor->calendar_position += (uint64_t)__builtin_ctzll(used);
            return (uint32_t)executor->calendar_position & (CALENDAR_SIZE - 1);
        }
        executor->calendar_position += 64 - at % 64;
    }
}

/* Everything of a wave that its operation's run touches, but for long lists of spans. */
static inline void prefetch_wave(const struct wave *wave)
{
    const char *first = (const char *)wave;
    for (size_t byte = 0; byte < offsetof(struct wave, op.spans) + 2 * sizeof(struct wave_span); byte += 64) {
        __builtin_prefetch(first + byte);
    }
}

/* The waves that come first and second by now, or NO_WAVE when they are not near. */
static inline uint32_t calendar_first(const struct executor *executor, uint32_t *second)
{
    uint32_t at = (uint32_t)executor->calendar_position & (CALENDAR_SIZE - 1);
    uint64_t used = executor->calendar_used[at / 64] >> at % 64;
    *second = NO_WAVE;
    if (used == 0) {
        return NO_WAVE;
    }
    at += (uint32_t)__builtin_ctzll(used);
    uint32_t last = executor->calendar[at];
    uint32_t first = executor->next[last];
    if (first != last) {
        *second = executor->next[first];
        return first;
    }
    used &= used - 1;
    if (used != 0) {
        at = ((uint32_t)executor->calendar_position & (CALENDAR_SIZE - 1)) + (uint32_t)__builtin_ctzll(used);
        *second = executor->next[executor->calendar[at]];
    }
    return first;
}

static inline uint32_t calendar_pop(struct executor *executor)
{
    uint64_t before = executor->calendar_position;
    uint32_t at = executor->calendar_waves > 0 ? calendar_seek(executor) : 0;
    if (executor->calendar_waves == 0 || executor->calendar_position >= executor->far_first) {
        /* a wave from beyond the horizon comes first; all that the horizon has reached by now come along */
        executor->calendar_position = executor->calendar_waves > 0 ? before : executor->far_first;
        calendar_bring_far(executor);
        at = calendar_seek(executor);
    }
    uint32_t last = executor->calendar[at];
    uint32_t index = executor->next[last];
    executor->calendar_waves--;
    if (index == last) {
        executor->calendar[at] = NO_WAVE;
        executor->calendar_used[at / 64] &= ~(1ull << at % 64);
    } else {
        executor->next[last] = executor->next[index];
    }
    return index;
}

/* ---- one access */

/* Consecutive lines in consecutive sets: a contiguous footprint up to the capacity hits whole (measured). */
static inline uint32_t l1_set(const struct executor *executor, uint64_t line)
{
    uint32_t folded = (uint32_t)(line ^ line >> 32);
    return fast_remainder(executor->l1_divisor, folded, fast_quotient(executor->l1_divisor, folded));
}

static inline uint32_t *l1_find(struct executor *executor, struct unit *unit, uint64_t line, uint32_t *position)
{
    uint64_t hash = line * 0x9E3779B97F4A7C15u;
    uint32_t set = l1_set(executor, line);
    uint32_t key = (uint32_t)((hash ^ line << 7) & 0x0fffffffu) << 4;
    uint32_t base = set * executor->l1_ways;
    for (uint32_t w = 0; w < executor->l1_ways; w++) {
        if ((unit->l1[base + w].key & ~15u) == key) {
            *position = base + w;
            return &unit->l1[base + w].key;
        }
    }
    uint32_t victim = base + unit->l1_victim[set];
    unit->l1_victim[set] = (uint8_t)((unit->l1_victim[set] + 1u) % executor->l1_ways);
    unit->l1[victim].key = key;
    *position = victim;
    return &unit->l1[victim].key;
}

static inline uint32_t latency_slice(const struct package *package, const struct line_place *place, uint32_t group)
{
    return package->is_private ? place->slice : group * package->slices_per_group + place->local;
}

static inline void look_ahead(const struct package *package, struct line_access *access, uint32_t group)
{
    access->place = package_place(package, access->line);
    package_prefetch(package, access->line, &access->place, group);
}

/* One line of a load issued at `t`; returns when the data are in the unit. */
static inline sim_ticks load_line(struct executor *executor, uint32_t unit_index, const struct line_access *access, uint32_t cache, sim_ticks t,
                                  struct access_blame *blame)
{
    struct package *package = executor->package;
    struct unit *unit = &executor->units[unit_index];
    uint64_t line = access->line;
    uint32_t mask = access->mask;
    const struct line_place *place = &access->place;
    uint32_t sectors = sector_count(mask);
    sim_ticks a = slotted_server_start(&unit->lsu, t, package->l1_request);
    blame->l1 += a - t;
    package->traffic.l1_requests++;
    package->traffic.l1_bytes += (uint64_t)sectors << package->sector_shift;
    uint32_t position = UINT32_MAX;
    if (cache == WAVE_CACHE_L1) {
        uint32_t *key = l1_find(executor, unit, line, &position);
        if ((*key & mask) == mask) {
            package->traffic.l1_hits++;
            sim_ticks hit = a + package->l1_hit;
            if (unit->l1_ready[position] > hit) {
                blame->l2 += unit->l1_ready[position] - hit;
                hit = unit->l1_ready[position];
            }
            return hit;
        }
        *key |= mask;
    }
    sim_ticks taken = credit_pool_take(&unit->loads, a);
    blame->l1 += taken - a;
    a = taken;
    sim_ticks sent = slotted_server_start(&unit->out, a, package->cycle);
    blame->l1 += sent - a;
    sim_ticks latency = package->hit_latency[unit_index * package->hit_latency_stride + latency_slice(package, place, unit->group)];
    sim_ticks there = latency * 7 / 16;
    sim_ticks data = package_read(package, line, place, mask, unit->group, sent + there, blame);
    sim_ticks back = slotted_server_start(&unit->fill, data + (latency - there), package->fill_sector * sectors);
    blame->l1 += back - (data + (latency - there));
    credit_pool_return(&unit->loads, taken, back);
    if (position != UINT32_MAX) {
        unit->l1_ready[position] = back;
    }
    return back;
}

static inline enum kernel_stage blame_largest(const struct access_blame *blame)
{
    const struct { sim_ticks wait; enum kernel_stage stage; } part[] = {
        { blame->l1, KERNEL_STAGE_L1 }, { blame->l2, KERNEL_STAGE_L2 }, { blame->link, KERNEL_STAGE_DIE_LINK },
        { blame->mall, KERNEL_STAGE_MALL }, { blame->hbm, KERNEL_STAGE_HBM }, { blame->atomic, KERNEL_STAGE_ATOMIC } };
    int best = 0;
    for (int i = 1; i < 6; i++) {
        if (part[i].wait > part[best].wait) {
            best = i;
        }
    }
    return part[best].wait > 0 ? part[best].stage : KERNEL_STAGE_LATENCY;
}

static inline void note_drain(struct executor *executor, sim_ticks end, const struct access_blame *blame)
{
    if (end > executor->last_drain) {
        executor->last_drain = end;
        executor->last_drain_stage = blame_largest(blame);
    }
}

/* One line of a store; returns when the unit has sent it. */
static inline sim_ticks store_line(struct executor *executor, uint32_t unit_index, const struct line_access *access, sim_ticks t,
                                   struct access_blame *blame)
{
    struct package *package = executor->package;
    struct unit *unit = &executor->units[unit_index];
    uint64_t line = access->line;
    uint32_t mask = access->mask;
    uint32_t partial = access->partial;
    struct line_place place = access->place;
    uint32_t sectors = sector_count(mask);
    sim_ticks a = slotted_server_start(&unit->lsu, t, package->l1_request);
    package->traffic.l1_requests++;
    package->traffic.l1_bytes += (uint64_t)sectors << package->sector_shift;
    sim_ticks taken = credit_pool_take(&unit->stores, a);
    a = slotted_server_start(&unit->out, taken, package->store_sector * sectors);
    sim_ticks latency = package->hit_latency[unit_index * package->hit_latency_stride + latency_slice(package, &place, unit->group)];
    sim_ticks end = package_write(package, line, &place, mask, partial, unit->group, a + latency * 7 / 16, blame);
    credit_pool_return(&unit->stores, taken, end);
    note_drain(executor, end, blame);
    return a;
}

static inline sim_ticks atomic_line(struct executor *executor, uint32_t unit_index, uint64_t line, struct line_place place, uint32_t mask, const struct atomic_lanes *lanes,
                                    const struct wave_op *op, sim_ticks t, sim_ticks *returned, struct access_blame *blame)
{
    struct package *package = executor->package;
    struct unit *unit = &executor->units[unit_index];
    uint32_t sectors = sector_count(mask);
    sim_ticks a = slotted_server_start(&unit->lsu, t, package->l1_request);
    package->traffic.l1_requests++;
    package->traffic.l1_bytes += (uint64_t)sectors << package->sector_shift;
    sim_ticks taken = credit_pool_take(&unit->stores, a);
    a = slotted_server_start(&unit->out, taken, package->store_sector * sectors);
    sim_ticks latency = package->hit_latency[unit_index * package->hit_latency_stride + latency_slice(package, &place, unit->group)];
    enum atomic_swap swap = atomic_swap_of(op->atomic_flags);
    sim_ticks end = package_atomic(package, line, &place, mask, lanes, (enum wave_atomic_type)op->atomic_type, swap, unit->group,
                                   a + latency * 7 / 16, blame);
    credit_pool_return(&unit->stores, taken, end);
    *returned = end + latency * 9 / 16 + package->atomic_return;
    if (swap == ATOMIC_SWAP_LOOP) {
        sim_ticks trips = a + package_cas_latency(package, lanes, latency);
        *returned = trips > *returned ? trips : *returned;
    }
    note_drain(executor, end, blame);
    return a;
}

/* ---- cutting operations into lines */

static inline uint32_t sector_mask(const struct package *package, uint32_t first_byte, uint32_t last_byte)
{
    uint32_t low = first_byte >> package->sector_shift;
    uint32_t high = last_byte >> package->sector_shift;
    return ((2u << high) - 1) & ~((1u << low) - 1);
}

/* Sectors of [first, last] that the bytes do not cover whole. */
static inline uint32_t partial_mask(const struct package *package, uint32_t first_byte, uint32_t last_byte)
{
    uint32_t low = first_byte >> package->sector_shift;
    uint32_t high = last_byte >> package->sector_shift;
    uint32_t inside = package->sector_bytes - 1;
    return ((first_byte & inside) != 0 ? 1u << low : 0) | ((last_byte & inside) != inside ? 1u << high : 0);
}

/* Walk the lines of the op's spans; neighbouring spans that meet in one line are one request. The last argument is a statement
 * that sees `line`, `mask` and `partial` (sectors not covered whole by any one span). */
#define FOR_EACH_LINE(package, op, ...)                                                                              \
    do {                                                                                                               \
        uint64_t line = UINT64_MAX;                                                                                    \
        uint32_t mask = 0;                                                                                             \
        uint32_t partial = 0;                                                                                          \
        for (uint32_t s_ = 0; s_ < (op)->span_count; s_++) {                                                           \
            uint64_t first_ = (op)->spans[s_].address;                                                                 \
            uint64_t last_ = first_ + (op)->spans[s_].bytes - 1;                                                       \
            for (uint64_t l_ = first_ >> (package)->line_shift; l_ <= last_ >> (package)->line_shift; l_++) {          \
                uint64_t base_ = l_ << (package)->line_shift;                                                          \
                uint32_t m_ = (package)->whole_line;                                                                   \
                uint32_t p_ = 0;                                                                                       \
                if (first_ > base_ || last_ - base_ < (package)->line_bytes - 1) {                                     \
                    uint32_t from_ = first_ > base_ ? (uint32_t)(first_ - base_) : 0;                                  \
                    uint32_t to_ = last_ - base_ < (package)->line_bytes ? (uint32_t)(last_ - base_) : (package)->line_bytes - 1; \
                    m_ = sector_mask(package, from_, to_);                                                             \
                    p_ = partial_mask(package, from_, to_);                                                            \
                }                                                                                                      \
                if (l_ == line) {                                                                                      \
                    mask |= m_;                                                                                        \
                    partial |= p_;                                                                                     \
                } else {                                                                                               \
                    if (line != UINT64_MAX) {                                                                          \
                        __VA_ARGS__;                                                                                         \
                    }                                                                                                  \
                    line = l_;                                                                                         \
                    mask = m_;                                                                                         \
                    partial = p_;                                                                                      \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        (void)partial;                                                                                                 \
        if (line != UINT64_MAX) {                                                                                      \
            __VA_ARGS__;                                                                                                     \
        }                                                                                                              \
    } while (0)


struct atomic_packet {
    uint64_t line;
    uint32_t mask;
    struct atomic_lanes lanes[ATOMIC_BLOCKS_MAX];
};

static inline void add_lane(const struct package *package, const struct wave_op *op, struct atomic_packet *packet, uint32_t lane, uint32_t block_shift,
                            uint8_t on_one)
{
    uint64_t address = op->lane_address[lane];
    uint32_t offset = (uint32_t)(address & (package->line_bytes - 1));
    packet->mask |= sector_mask(package, offset, offset + op->element_bytes - 1u);
    struct atomic_lanes *lanes = &packet->lanes[offset >> block_shift];
    bool goes_on = lanes->all > 0 && address == op->lane_address[lane - 1] + op->element_bytes;
    lanes->all++;
    lanes->pieces = (uint8_t)(lanes->pieces + !goes_on);
    lanes->on_one = on_one > lanes->on_one ? on_one : lanes->on_one;
}

static bool lanes_ascend(const struct wave_op *op)
{
    for (uint32_t i = 1; i < op->lane_count; i++) {
        if (op->lane_address[i] <= op->lane_address[i - 1]) {
            return false;
        }
    }
    return true;
}

/* group_lanes() of addresses in ascending order: each line comes once, each address too. */
static uint32_t group_ascending(const struct package *package, const struct wave_op *op, struct atomic_packet *packets)
{
    uint32_t count = 0;
    uint32_t block_shift = (uint32_t)__builtin_ctz(package->atomics.rates.block_bytes);
    for (uint32_t i = 0; i < op->lane_count; i++) {
        uint64_t line = op->lane_address[i] >> package->line_shift;
        if (count == 0 || packets[count - 1].line != line) {
            packets[count++] = (struct atomic_packet){ .line = line };
        }
        add_lane(package, op, &packets[count - 1], i, block_shift, 1);
    }
    return count;
}

/* Group a wave's lanes by line and block. */
static uint32_t group_lanes(const struct package *package, const struct wave_op *op, struct atomic_packet *packets)
{
    if (lanes_ascend(op)) {
        return group_ascending(package, op, packets);
    }
    uint8_t table[128];
    uint8_t lane_packet[WAVE_LANES_MAX];
    memset(table, 0xff, sizeof table);
    uint32_t count = 0;
    uint32_t block_shift = (uint32_t)__builtin_ctz(package->atomics.rates.block_bytes);
    for (uint32_t i = 0; i < op->lane_count; i++) {
        uint64_t line = op->lane_address[i] >> package->line_shift;
        uint32_t slot = (uint32_t)(line * 0x9E3779B97F4A7C15u >> 57);
        while (table[slot] != 0xff && packets[table[slot]].line != line) {
            slot = (slot + 1) & 127u;
        }
        if (table[slot] == 0xff) {
            table[slot] = (uint8_t)count;
            packets[count] = (struct atomic_packet){ .line = line };
            count++;
        }
        lane_packet[i] = table[slot];
    }
    uint8_t address_lanes[128];
    uint64_t address_key[128];
    memset(address_lanes, 0, sizeof address_lanes);
    for (uint32_t i = 0; i < op->lane_count; i++) {
        uint64_t address = op->lane_address[i];
        uint32_t slot = (uint32_t)((address ^ address >> 20) * 0x9E3779B97F4A7C15u >> 57);
        while (address_lanes[slot] != 0 && address_key[slot] != address) {
            slot = (slot + 1) & 127u;
        }
        address_key[slot] = address;
        add_lane(package, op, &packets[lane_packet[i]], i, block_shift, ++address_lanes[slot]);
    }
    return count;
}

static uint32_t group_spans(const struct package *package, const struct wave_op *op, struct atomic_packet *packets)
{
    uint32_t count = 0;
    uint32_t block_shift = (uint32_t)__builtin_ctz(package->atomics.rates.block_bytes);
    /* one element under several lanes: a uniform address that no compiler merged */
    uint8_t lanes_on_one = 1;
    if (op->span_count == 1 && op->spans[0].bytes == op->element_bytes && op->lanes_active > 1 &&
        (op->atomic_flags & WAVE_ATOMIC_WAVE_MERGED) == 0) {
        lanes_on_one = (uint8_t)op->lanes_active;
    }
    FOR_EACH_LINE(package, op, {
        SIM_ASSERT(count < WAVE_SPANS_MAX, "an atomic op covers more than %d lines", WAVE_SPANS_MAX);
        struct atomic_packet *packet = &packets[count++];
        *packet = (struct atomic_packet){ .line = line, .mask = mask };
        for (uint32_t s = 0; s < package->sectors; s++) {
            if (mask >> s & 1u) {
                uint32_t block = (s << package->sector_shift) >> block_shift;
                packet->lanes[block] = (struct atomic_lanes){ .all = lanes_on_one, .on_one = lanes_on_one, .pieces = 1 };
            }
        }
    });
    return count;
}

static uint32_t group_atomic(const struct package *package, const struct wave_op *op, struct atomic_packet *packets)
{
    return op->lane_count > 0 ? group_lanes(package, op, packets) : group_spans(package, op, packets);
}

/* ---- one operation */

static inline void fetch_next(struct executor *executor, struct wave *wave)
{
    memset(&wave->op, 0, offsetof(struct wave_op, spans));
    wave->op.wait_outstanding = WAVE_NO_WAIT;
    executor->program->next(executor->program, &executor->request->window, &wave->state, &wave->op);
}

static inline void set_mark(struct executor *executor, sim_ticks t)
{
    executor->outcome->mark[executor->mark_index] = t;
    executor->outcome->mark_units[executor->mark_index] = executor->outcome->units;
    executor->mark_index++;
}

static inline void count_units(struct executor *executor, uint32_t units, sim_ticks t)
{
    struct run_outcome *outcome = executor->outcome;
    outcome->units += units;
    while (executor->mark_index < RUN_MARKS && !executor->request->marks_by_dispatch && outcome->units >= executor->mark_due) {
        set_mark(executor, t);
        executor->mark_due = run_mark_due(executor->request, executor->mark_index);
    }
    if (executor->request->stops_at_marks && executor->mark_index == RUN_MARKS) {
        outcome->stopped = true;
        outcome->end = t;
    }
}

/* The position-th workgroup has been dispatched at `t`. */
static void count_dispatch(struct executor *executor, uint64_t position, sim_ticks t)
{
    const struct run_request *request = executor->request;
    if (!request->marks_by_dispatch) {
        return;
    }
    uint64_t done = position - request->first_workgroup + 1;
    while (executor->mark_index < RUN_MARKS && done * 100 >= request->workgroup_count * (40 + 12 * executor->mark_index)) {
        set_mark(executor, t);
    }
    if (executor->mark_index == RUN_MARKS) {
        executor->outcome->stopped = true;
        executor->outcome->end = t;
    }
}

static sim_ticks issue_work(struct executor *executor, struct wave *wave, sim_ticks t)
{
    const struct wave_op *op = &wave->op;
    struct unit *unit = &executor->units[wave->unit];
    struct run_outcome *outcome = executor->outcome;
    sim_ticks cost = executor->issue_cost * op->issue_slots + executor->valu_cost * op->valu_slots;
    if (op->sfu_slots > 0) {
        cost += executor->issue_cost * op->sfu_slots;
    }
    sim_ticks now = t;
    if (cost > 0) {
        now = in_order_server_start(&unit->issue[wave->simd], now, cost) + cost;
    }
    if (op->sfu_slots > 0) {
        sim_ticks sfu = executor->sfu_cost * op->sfu_slots;
        sim_ticks end = in_order_server_start(&unit->sfu[wave->simd], t, sfu) + sfu;
        now = end > now ? end : now;
    }
    outcome->blame[KERNEL_STAGE_ISSUE] += (double)(now - t);
    if (op->lds_bytes > 0 || op->lds_atomics > 0) {
        double conflict = op->lds_conflict_x16 > 0 ? op->lds_conflict_x16 / 16.0 : 1;
        sim_ticks lds = (sim_ticks)(op->lds_bytes * executor->lds_ticks_per_byte * conflict + op->lds_atomics * executor->lds_ticks_per_atomic + 0.5);
        sim_ticks end = slotted_server_start(&unit->lds, now, lds) + lds;
        if (op->matrix_flops == 0) {
            end += executor->lds_latency;
        }
        outcome->blame[KERNEL_STAGE_L1] += (double)(end - now);
        outcome->lds_atomics += op->lds_atomics;
        now = end;
    }
    if (op->latency_cycles > 0) {
        sim_ticks latency = executor->package->cycle * op->latency_cycles;
        outcome->blame[KERNEL_STAGE_LATENCY] += (double)latency;
        now += latency;
    }
    if (op->matrix_flops > 0) {
        sim_ticks cost_matrix = (sim_ticks)((double)op->matrix_flops * executor->matrix_ticks_per_flop[op->matrix_dtype] + 0.5);
        SIM_ASSERT(cost_matrix > 0, "matrix work of dtype %u without a rate in %s", op->matrix_dtype, executor->program->name);
        sim_ticks start = slotted_server_start(&unit->matrix[wave->simd], now, cost_matrix);
        outcome->blame[KERNEL_STAGE_MATRIX] += (double)(start - now);
        executor->package->traffic.matrix_busy += cost_matrix;
        wave->matrix_done = start + cost_matrix;
        now = start;
    }
    return now;
}

static inline void note_load(struct wave *wave, sim_ticks issued, sim_ticks done, const struct access_blame *blame)
{
    wave->done[wave->loads++ % COMPLETIONS] = done;
    if (done > wave->done_all) {
        wave->done_all = done;
        wave->blame = *blame;
        wave->blame_total = done - issued;
    }
}

static void load_lines(struct executor *executor, struct wave *wave, const struct line_access *lines, uint32_t count, sim_ticks t,
                       sim_ticks *done, struct access_blame *worst)
{
    for (uint32_t i = 0; i < count; i++) {
        struct access_blame blame = { 0 };
        sim_ticks end = load_line(executor, wave->unit, &lines[i], wave->op.cache, t, &blame);
        if (end > *done) {
            *done = end;
            *worst = blame;
        }
    }
}

/* Places of the lines of `op`, of a unit of `group`, put into `lines`; the statement runs when there are LINES_AHEAD or no more. */
#define FOR_LINES_PLACED(package, op, group, lines, count, ...)                          \
    do {                                                                                 \
        FOR_EACH_LINE(package, op, {                                                     \
            (lines)[count].line = line;                                                  \
            (lines)[count].mask = mask;                                                  \
            (lines)[count].partial = partial;                                            \
            look_ahead(package, &(lines)[count], group);                                 \
            if (++count == LINES_AHEAD) {                                                \
                __VA_ARGS__;                                                             \
                count = 0;                                                               \
            }                                                                            \
        });                                                                              \
        __VA_ARGS__;                                                                     \
    } while (0)

static sim_ticks access_load(struct executor *executor, struct wave *wave, const struct lines_ahead *ahead, sim_ticks t)
{
    struct package *package = executor->package;
    const struct wave_op *op = &wave->op;
    sim_ticks done = t;
    struct access_blame worst = { 0 };
    if (ahead != NULL) {
        load_lines(executor, wave, ahead->lines, ahead->count, t, &done, &worst);
    } else {
        uint32_t group = executor->units[wave->unit].group;
        struct line_access lines[LINES_AHEAD];
        uint32_t count = 0;
        FOR_LINES_PLACED(package, op, group, lines, count, load_lines(executor, wave, lines, count, t, &done, &worst));
    }
    note_load(wave, t, done, &worst);
    return t;
}

static sim_ticks store_lines(struct executor *executor, struct wave *wave, const struct line_access *lines, uint32_t count, sim_ticks t,
                             struct access_blame *blame)
{
    sim_ticks sent = t;
    for (uint32_t i = 0; i < count; i++) {
        sim_ticks end = store_line(executor, wave->unit, &lines[i], t, blame);
        sent = end > sent ? end : sent;
    }
    return sent;
}

static sim_ticks access_store(struct executor *executor, struct wave *wave, const struct lines_ahead *ahead, sim_ticks t)
{
    struct package *package = executor->package;
    const struct wave_op *op = &wave->op;
    sim_ticks sent = t;
    struct access_blame blame = { 0 };
    if (ahead != NULL) {
        sent = store_lines(executor, wave, ahead->lines, ahead->count, t, &blame);
    } else {
        uint32_t group = executor->units[wave->unit].group;
        struct line_access lines[LINES_AHEAD];
        uint32_t count = 0;
        FOR_LINES_PLACED(package, op, group, lines, count, {
            sim_ticks end = store_lines(executor, wave, lines, count, t, &blame);
            sent = end > sent ? end : sent;
        });
    }
    executor->outcome->blame[blame_largest(&blame)] += (double)(sent - t);
    return sent;
}

static sim_ticks access_atomic(struct executor *executor, struct wave *wave, sim_ticks t)
{
    struct package *package = executor->package;
    const struct wave_op *op = &wave->op;
    struct atomic_packet packets[WAVE_SPANS_MAX > WAVE_LANES_MAX ? WAVE_SPANS_MAX : WAVE_LANES_MAX];
    uint32_t count = group_atomic(package, op, packets);
    sim_ticks sent = t;
    sim_ticks done = t;
    struct access_blame worst = { 0 };
    bool is_ordered = (op->atomic_flags & WAVE_ATOMIC_ACQ_REL) != 0 && package->atomic_release + package->atomic_acquire > 0;
    if (is_ordered) {
        t += package->atomic_release;
    }
    struct line_place places[WAVE_SPANS_MAX > WAVE_LANES_MAX ? WAVE_SPANS_MAX : WAVE_LANES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        places[i] = package_place(package, packets[i].line);
        package_prefetch(package, packets[i].line, &places[i], executor->units[wave->unit].group);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct access_blame blame = { 0 };
        sim_ticks returned = t;
        sim_ticks end = atomic_line(executor, wave->unit, packets[i].line, places[i], packets[i].mask, packets[i].lanes, op, t, &returned, &blame);
        sent = end > sent ? end : sent;
        if (returned > done) {
            done = returned;
            worst = blame;
        }
    }
    uint32_t lanes = op->lane_count > 0 ? op->lane_count : op->lanes_active > 0 ? op->lanes_active : 1;
    package->traffic.atomic_lanes += lanes;
    if (is_ordered) { /* nothing of the wave may pass it */
        note_load(wave, t, done + package->atomic_acquire, &worst);
        wave->in_order = 1;
    } else if ((op->atomic_flags & (WAVE_ATOMIC_RETURN | WAVE_ATOMIC_CAS_LOOP | WAVE_ATOMIC_CAS_ONCE)) != 0) {
        note_load(wave, t, done, &worst);
    } else {
        executor->outcome->blame[KERNEL_STAGE_ATOMIC] += (double)(sent - t);
    }
    return sent;
}

/* When may the pending op start: its waits, counted from `t`. */
static sim_ticks ready_time(struct executor *executor, struct wave *wave, sim_ticks t)
{
    const struct wave_op *op = &wave->op;
    struct run_outcome *outcome = executor->outcome;
    sim_ticks ready = t;
    uint32_t allowed = op->kind == WAVE_END || wave->in_order ? 0 : op->wait_outstanding;
    wave->in_order = 0;
    if (allowed == 0) {
        ready = wave->done_all > ready ? wave->done_all : ready;
    } else if (allowed < COMPLETIONS && wave->loads > allowed) {
        uint32_t oldest = wave->loads > COMPLETIONS ? wave->loads - COMPLETIONS : 0;
        for (uint32_t i = oldest; i < wave->loads - allowed; i++) {
            sim_ticks done = wave->done[i % COMPLETIONS];
            ready = done > ready ? done : ready;
        }
    }
    if (ready > t) {
        double share = wave->blame_total > 0 ? (double)(ready - t) / (double)wave->blame_total : 0;
        const struct access_blame *b = &wave->blame;
        outcome->blame[KERNEL_STAGE_L1] += share * (double)b->l1;
        outcome->blame[KERNEL_STAGE_L2] += share * (double)b->l2;
        outcome->blame[KERNEL_STAGE_DIE_LINK] += share * (double)b->link;
        outcome->blame[KERNEL_STAGE_MALL] += share * (double)b->mall;
        outcome->blame[KERNEL_STAGE_HBM] += share * (double)b->hbm;
        outcome->blame[KERNEL_STAGE_ATOMIC] += share * (double)b->atomic;
        double named = share * (double)(b->l1 + b->l2 + b->link + b->mall + b->hbm + b->atomic);
        double rest = (double)(ready - t) - named;
        outcome->blame[KERNEL_STAGE_LATENCY] += rest > 0 ? rest : 0;
    }
    if (op->wait_matrix && wave->matrix_done > ready) {
        outcome->blame[KERNEL_STAGE_MATRIX] += (double)(wave->matrix_done - ready);
        ready = wave->matrix_done;
    }
    return ready;
}

/* ---- dispatch */

static uint64_t workgroup_at(const struct executor *executor, uint64_t position)
{
    const struct run_request *request = executor->request;
    if (request->sample_of == 0) {
        return position;
    }
    /* spread positions [0, workgroup_count) over [0, sample_of) */
    return (uint64_t)((unsigned __int128)position * request->sample_of / request->workgroup_count);
}

static void start_workgroup(struct executor *executor, uint32_t slot_index, uint64_t position, sim_ticks t)
{
    struct workgroup_slot *slot = &executor->slots[slot_index];
    struct unit *unit = &executor->units[slot->unit];
    uint32_t waves = executor->program->waves_per_workgroup;
    struct in_order_server *dispatcher = &executor->dispatchers[unit->group % executor->dispatcher_count];
    sim_ticks start = in_order_server_start(dispatcher, t, executor->dispatch_interval) + executor->start_latency;
    slot->running = waves;
    slot->at_barrier = 0;
    slot->barrier_time = 0;
    slot->end = start;
    for (uint32_t w = 0; w < waves; w++) {
        uint32_t index = slot->first_wave + w;
        struct wave *wave = &executor->waves[index];
        wave->unit = slot->unit;
        wave->slot = slot_index;
        wave->simd = (uint8_t)run_simd_of(slot_index, executor->package->units, waves, w,
                                          (uint32_t)executor->package->profile->unit_simds);
        wave->loads = 0;
        wave->done_all = 0;
        wave->matrix_done = 0;
        wave->blame_total = 0;
        memset(&wave->state, 0, sizeof wave->state);
        wave->state.workgroup = workgroup_at(executor, position);
        wave->state.wave = w;
        wave->state.trip = executor->request->window.trip_first;
        wave->born = start + w * executor->wave_interval;
        wave->at = wave->born;
        fetch_next(executor, wave);
        if (executor->request->one_wave_only && w != executor->request->one_wave) {
            memset(&wave->op, 0, offsetof(struct wave_op, spans));
            wave->op.kind = WAVE_END;
        }
        calendar_push(executor, index);
    }
}

/* Next workgroup for a slot of `group`, or UINT64_MAX. */
static uint64_t take_workgroup(struct executor *executor, uint32_t group)
{
    if (executor->package->profile->dispatch_order == CHIP_DISPATCH_ROUND_ROBIN_GROUPS) {
        uint64_t position = executor->next_of_group[group];
        if (position >= executor->end_workgroup) {
            return UINT64_MAX;
        }
        executor->next_of_group[group] += executor->package->groups;
        return position;
    }
    return executor->next_workgroup < executor->end_workgroup ? executor->next_workgroup++ : UINT64_MAX;
}

static uint64_t apply_functional(struct executor *executor, const struct wave_op *op, uint32_t group);

/* The workgroup of a slot just started is met when `share` of its work is behind it: that part changes caches alone. Its waves stay
 * within an operation of each other, so that those of one barrier meet. */
static void advance_workgroup(struct executor *executor, struct workgroup_slot *slot, double share)
{
    const struct wave_program *program = executor->program;
    uint32_t group = executor->units[slot->unit].group;
    double units_left = share * (double)program->work_units_total / (double)program->workgroups;
    bool moved = true;
    while (units_left > 0 && moved) {
        uint32_t at_barrier = 0;
        uint32_t ended = 0;
        moved = false;
        for (uint32_t w = 0; w < program->waves_per_workgroup; w++) {
            struct wave *wave = &executor->waves[slot->first_wave + w];
            at_barrier += wave->op.kind == WAVE_BARRIER;
            ended += wave->op.kind == WAVE_END;
        }
        bool all_wait = at_barrier > 0 && at_barrier + ended == program->waves_per_workgroup;
        for (uint32_t w = 0; w < program->waves_per_workgroup; w++) {
            struct wave *wave = &executor->waves[slot->first_wave + w];
            if (wave->op.kind == WAVE_END || (wave->op.kind == WAVE_BARRIER && !all_wait)) {
                continue;
            }
            apply_functional(executor, &wave->op, group);
            units_left -= wave->op.work_units;
            fetch_next(executor, wave);
            moved = true;
        }
    }
}

static void fill_slots(struct executor *executor, const struct run_request *request)
{
    uint32_t usable = (uint32_t)(executor->package->units * request->unit_share + 0.5);
    executor->units_used = usable > 0 ? usable : 1;
    executor->next_workgroup = request->first_workgroup;
    executor->end_workgroup = request->first_workgroup + request->workgroup_count;
    for (uint32_t g = 0; g < executor->package->groups; g++) {
        bool starts = !request->one_group_only || g == request->one_group;
        executor->next_of_group[g] = starts ? request->first_workgroup + g : executor->end_workgroup;
    }
    for (uint32_t s = 0; s < executor->slot_count; s++) {
        executor->slots[s].unit = s % executor->package->units;
        executor->slots[s].first_wave = s * executor->program->waves_per_workgroup;
        executor->slots[s].running = 0;
        executor->slots[s].round = 0;
        executor->slots[s].started = 0;
    }
}

/* A workgroup of `slot` has ended and another follows it. */
static void count_round(struct executor *executor, struct workgroup_slot *slot)
{
    struct run_outcome *outcome = executor->outcome;
    uint32_t wanted = executor->request->rounds_wanted;
    if (slot->round < RUN_ROUNDS) {
        outcome->round_life[slot->round] += (double)(slot->end - slot->started);
        outcome->round_count[slot->round]++;
        if (slot->round + 1 == wanted && outcome->round_count[slot->round] * executor->program->waves_per_workgroup == outcome->resident_waves) {
            outcome->stopped = true;
            outcome->end = slot->end;
        }
    }
    slot->round++;
    slot->started = slot->end;
}

static void end_wave(struct executor *executor, struct wave *wave, sim_ticks t)
{
    struct workgroup_slot *slot = &executor->slots[wave->slot];
    executor->lifetime += (double)(t - wave->born);
    if (t > slot->end) {
        slot->end = t;
    }
    if (--slot->running > 0) {
        return;
    }
    if (slot->end > executor->outcome->end) {
        executor->outcome->end = slot->end;
    }
    uint64_t position = take_workgroup(executor, executor->units[slot->unit].group);
    if (position != UINT64_MAX) {
        count_round(executor, slot);
        start_workgroup(executor, wave->slot, position, slot->end + executor->release_latency);
        count_dispatch(executor, position, slot->end);
    } else {
        executor->outcome->slot_end += (double)slot->end;
        executor->outcome->slots_ended++;
    }
}

static void arrive_at_barrier(struct executor *executor, struct wave *wave, sim_ticks t)
{
    struct workgroup_slot *slot = &executor->slots[wave->slot];
    if (t > slot->barrier_time) {
        slot->barrier_time = t;
    }
    wave->at = t;
    if (++slot->at_barrier < slot->running) {
        return; /* woken by the last one; waves of a workgroup all pass its barriers */
    }
    sim_ticks go = slot->barrier_time + executor->barrier;
    for (uint32_t w = 0; w < executor->program->waves_per_workgroup; w++) {
        struct wave *other = &executor->waves[slot->first_wave + w];
        if (other->op.kind != WAVE_BARRIER) {
            continue;
        }
        executor->outcome->blame[KERNEL_STAGE_LATENCY] += (double)(go - other->at);
        fetch_next(executor, other);
        other->at = ready_time(executor, other, go);
        calendar_push(executor, slot->first_wave + w);
    }
    slot->at_barrier = 0;
    slot->barrier_time = 0;
}

/* Tell the host's cache what the wave `index`, due next, will want. */
static void plan_ahead(struct executor *executor, uint32_t index, struct lines_ahead *ahead)
{
    const struct package *package = executor->package;
    const struct wave *wave = &executor->waves[index];
    const struct wave_op *op = &wave->op;
    const struct unit *unit = &executor->units[wave->unit];
    ahead->wave = NO_WAVE;
    ahead->count = 0;
    __builtin_prefetch(&unit->lsu);
    __builtin_prefetch(&unit->issue[wave->simd]);
    if (op->kind != WAVE_LOAD && op->kind != WAVE_STORE) {
        return;
    }
    __builtin_prefetch(&unit->out);
    if (op->kind == WAVE_LOAD) {
        __builtin_prefetch(&unit->fill);
        __builtin_prefetch(&unit->loads);
    } else {
        __builtin_prefetch(&unit->stores);
    }
    bool fits = true;
    FOR_EACH_LINE(package, op, {
        if (ahead->count < LINES_AHEAD) {
            struct line_access *access = &ahead->lines[ahead->count++];
            access->line = line;
            access->mask = mask;
            access->partial = partial;
            look_ahead(package, access, unit->group);
            if (op->kind == WAVE_LOAD && op->cache == WAVE_CACHE_L1) {
                uint32_t first = l1_set(executor, line) * executor->l1_ways;
                __builtin_prefetch(&unit->l1[first]);
                __builtin_prefetch(&unit->l1_ready[first]);
            }
        } else {
            fits = false;
        }
    });
    if (fits) {
        ahead->wave = index;
    }
}

/* `ahead` of its lines, or NULL. */
static void run_event(struct executor *executor, uint32_t index, const struct lines_ahead *ahead)
{
    struct wave *wave = &executor->waves[index];
    const struct wave_op *op = &wave->op;
    struct run_outcome *outcome = executor->outcome;
    sim_ticks t = issue_work(executor, wave, wave->at);
    outcome->wave_ops++;
    if (op->lanes_active > 0) {
        outcome->lanes_sum += op->lanes_active;
        outcome->lanes_ops += 1;
    }
    switch (op->kind) {
    case WAVE_LOAD:
        t = access_load(executor, wave, ahead, t);
        break;
    case WAVE_STORE:
        t = access_store(executor, wave, ahead, t);
        break;
    case WAVE_ATOMIC:
        t = access_atomic(executor, wave, t);
        break;
    default:
        break;
    }
    if (op->work_units > 0) {
        count_units(executor, op->work_units, t);
    }
    if (op->kind == WAVE_END) {
        end_wave(executor, wave, t);
        return;
    }
    if (op->kind == WAVE_BARRIER) {
        arrive_at_barrier(executor, wave, t);
        return;
    }
    fetch_next(executor, wave);
    wave->at = ready_time(executor, wave, t);
    calendar_push(executor, index);
}

static inline double busier(double utilisation, sim_ticks busy, sim_ticks span)
{
    double mine = span > 0 ? (double)busy / (double)span : 0;
    mine = mine < 1 ? mine : 1;
    return mine > utilisation ? mine : utilisation;
}

static void measure_utilisation(struct executor *executor, struct run_outcome *outcome)
{
    const struct package *package = executor->package;
    double *u = outcome->utilisation;
    sim_ticks span = outcome->end;
    for (uint32_t i = 0; i < package->units; i++) {
        const struct unit *unit = &executor->units[i];
        for (uint32_t s = 0; s < (uint32_t)package->profile->unit_simds; s++) {
            u[KERNEL_STAGE_ISSUE] = busier(u[KERNEL_STAGE_ISSUE], unit->issue[s].busy, span);
            u[KERNEL_STAGE_ISSUE] = busier(u[KERNEL_STAGE_ISSUE], unit->sfu[s].busy, span);
            u[KERNEL_STAGE_MATRIX] = busier(u[KERNEL_STAGE_MATRIX], unit->matrix[s].busy, span);
        }
        u[KERNEL_STAGE_L1] = busier(u[KERNEL_STAGE_L1], unit->lsu.busy, span);
        u[KERNEL_STAGE_L1] = busier(u[KERNEL_STAGE_L1], unit->out.busy, span);
        u[KERNEL_STAGE_L1] = busier(u[KERNEL_STAGE_L1], unit->fill.busy, span);
        u[KERNEL_STAGE_L1] = busier(u[KERNEL_STAGE_L1], unit->lds.busy, span);
    }
    /* the part of a slice's work that is atomics counts as atomics */
    for (uint32_t i = 0; i < package->slices; i++) {
        sim_ticks atomic = package->atomics_at_memory ? 0 : package->atomics.fronts[i].busy;
        sim_ticks cache = package->slice[i].busy > atomic ? package->slice[i].busy - atomic : 0;
        u[KERNEL_STAGE_L2] = busier(u[KERNEL_STAGE_L2], cache, span);
        for (uint32_t p = 0; p < package->banks * 2; p++) {
            u[KERNEL_STAGE_L2] = busier(u[KERNEL_STAGE_L2], package->bank[i * package->banks * 2 + p].busy, span);
        }
    }
    for (uint32_t i = 0; i < package->atomics.slice_count; i++) {
        u[KERNEL_STAGE_ATOMIC] = busier(u[KERNEL_STAGE_ATOMIC], package->atomics.fronts[i].busy, span);
    }
    for (uint32_t i = 0; i < package->atomics.slice_count / package->atomics.rates.slices_per_unit; i++) {
        u[KERNEL_STAGE_ATOMIC] = busier(u[KERNEL_STAGE_ATOMIC], package->atomics.arithmetic[i].busy, span);
    }
    for (uint32_t i = 0; i < package->channels; i++) {
        sim_ticks atomic = package->atomics_at_memory ? package->atomics.fronts[i].busy : 0;
        sim_ticks cache = package->mall_slice[i].busy > atomic ? package->mall_slice[i].busy - atomic : 0;
        u[KERNEL_STAGE_MALL] = busier(u[KERNEL_STAGE_MALL], cache, span);
        u[KERNEL_STAGE_HBM] = busier(u[KERNEL_STAGE_HBM], package->hbm[i].data.busy, span);
        u[KERNEL_STAGE_HBM] = busier(u[KERNEL_STAGE_HBM], package->hbm[i].activate.busy, span);
    }
    for (uint32_t i = 0; i < package->dies * 2; i++) {
        u[KERNEL_STAGE_DIE_LINK] = busier(u[KERNEL_STAGE_DIE_LINK], package->link[i].busy, span);
    }
    for (uint32_t i = 0; i < executor->dispatcher_count; i++) {
        u[KERNEL_STAGE_DISPATCH] = busier(u[KERNEL_STAGE_DISPATCH], executor->dispatchers[i].busy, span);
    }
}

void executor_run(struct executor *executor, const struct run_request *request, struct run_outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    executor->request = request;
    executor->outcome = outcome;
    executor->mark_index = request->units_expected > 0 || request->marks_by_dispatch ? 0 : RUN_MARKS;
    executor->mark_due = run_mark_due(request, 0);
    executor->last_drain = 0;
    executor->last_drain_stage = KERNEL_STAGE_LATENCY;
    executor->lifetime = 0;
    reset_units(executor);
    memset(executor->dispatchers, 0, executor->dispatcher_count * sizeof *executor->dispatchers);
    for (uint32_t i = 0; i < CALENDAR_SIZE; i++) {
        executor->calendar[i] = NO_WAVE;
    }
    memset(executor->calendar_used, 0, sizeof executor->calendar_used);
    executor->calendar_position = 0;
    executor->calendar_waves = 0;
    executor->far_waves = NO_WAVE;
    executor->far_first = UINT64_MAX;
    fill_slots(executor, request);
    for (uint32_t s = 0; s < executor->slot_count; s++) {
        struct workgroup_slot *slot = &executor->slots[s];
        if (slot->unit >= executor->units_used) {
            continue;
        }
        uint64_t position = take_workgroup(executor, executor->units[slot->unit].group);
        if (position != UINT64_MAX) {
            start_workgroup(executor, s, position, 0);
            outcome->resident_waves += executor->program->waves_per_workgroup;
            if (request->in_flow) {
                double turn = s * 0.6180339887498949; /* of the golden section: even over any run of slots */
                advance_workgroup(executor, slot, turn - (double)(uint64_t)turn);
            }
        }
    }
    executor->ahead[0].wave = NO_WAVE;
    executor->ahead[1].wave = NO_WAVE;
    for (uint32_t turn = 0; (executor->calendar_waves > 0 || executor->far_waves != NO_WAVE) && !outcome->stopped; turn ^= 1) {
        uint32_t index = calendar_pop(executor);
        uint32_t second = NO_WAVE;
        uint32_t first = calendar_first(executor, &second);
        if (second != NO_WAVE) {
            prefetch_wave(&executor->waves[second]);
        }
        struct lines_ahead *mine = &executor->ahead[turn];
        struct lines_ahead *of_next = &executor->ahead[turn ^ 1];
        if (first == NO_WAVE) {
            of_next->wave = NO_WAVE;
        } else {
            plan_ahead(executor, first, of_next);
        }
        run_event(executor, index, mine->wave == index ? mine : NULL);
    }
    if (outcome->stopped) {
        executor->last_drain = 0; /* what was still under way belongs to the extrapolated rest */
        executor->lifetime = (double)outcome->resident_waves * (double)outcome->end;
    }
    double slots_time = (double)outcome->resident_waves * (double)outcome->end;
    double idle = slots_time - executor->lifetime;
    outcome->blame[KERNEL_STAGE_DISPATCH] += idle > 0 ? idle : 0;
    if (executor->last_drain > outcome->end) {
        outcome->blame[executor->last_drain_stage] += (double)outcome->resident_waves * (double)(executor->last_drain - outcome->end);
        outcome->end = executor->last_drain;
    }
    measure_utilisation(executor, outcome);
}

/* ---- functional runs */

static void apply_lines(struct package *package, bool load, const struct line_access *lines, uint32_t count, uint32_t group)
{
    for (uint32_t i = 0; i < count; i++) {
        if (load) {
            package_read(package, lines[i].line, &lines[i].place, lines[i].mask, group, 0, NULL);
        } else {
            package_write(package, lines[i].line, &lines[i].place, lines[i].mask, lines[i].partial, group, 0, NULL);
        }
    }
}

static uint64_t apply_functional(struct executor *executor, const struct wave_op *op, uint32_t group)
{
    struct package *package = executor->package;
    uint64_t requests = 0;
    if (op->kind == WAVE_ATOMIC) {
        struct atomic_packet packets[WAVE_SPANS_MAX > WAVE_LANES_MAX ? WAVE_SPANS_MAX : WAVE_LANES_MAX];
        uint32_t count = group_atomic(package, op, packets);
        for (uint32_t i = 0; i < count; i++) {
            struct line_place place = package_place(package, packets[i].line);
            package_atomic(package, packets[i].line, &place, packets[i].mask, packets[i].lanes, WAVE_ATOMIC_INT, ATOMIC_NO_SWAP, group, 0, NULL);
        }
        return count;
    }
    if (op->kind != WAVE_LOAD && op->kind != WAVE_STORE) {
        return 0;
    }
    struct line_access lines[LINES_AHEAD];
    uint32_t count = 0;
    FOR_LINES_PLACED(package, op, group, lines, count, {
        apply_lines(package, op->kind == WAVE_LOAD, lines, count, group);
        requests += count;
    });
    return requests;
}

uint64_t executor_warm(struct executor *executor, const struct run_request *request, uint64_t request_limit)
{
    struct run_outcome scratch = { 0 };
    executor->request = request;
    executor->outcome = &scratch;
    fill_slots(executor, request);
    uint32_t waves = executor->program->waves_per_workgroup;
    uint64_t requests = 0;
    uint32_t live = 0;
    for (uint32_t s = 0; s < executor->slot_count; s++) {
        struct workgroup_slot *slot = &executor->slots[s];
        uint64_t position = slot->unit < executor->units_used ? take_workgroup(executor, executor->units[slot->unit].group) : UINT64_MAX;
        slot->running = position != UINT64_MAX ? waves : 0;
        live += slot->running;
        for (uint32_t w = 0; w < waves; w++) {
            struct wave *wave = &executor->waves[slot->first_wave + w];
            memset(&wave->state, 0, sizeof wave->state);
            wave->state.workgroup = position != UINT64_MAX ? workgroup_at(executor, position) : 0;
            wave->state.wave = w;
            wave->state.trip = request->window.trip_first;
            wave->in_flight = position != UINT64_MAX;
        }
    }
    while (live > 0 && requests < request_limit) {
        for (uint32_t s = 0; s < executor->slot_count && requests < request_limit; s++) {
            struct workgroup_slot *slot = &executor->slots[s];
            for (uint32_t w = 0; w < waves && slot->running > 0; w++) {
                struct wave *wave = &executor->waves[slot->first_wave + w];
                if (!wave->in_flight) {
                    continue;
                }
                fetch_next(executor, wave);
                if (wave->op.kind != WAVE_END) {
                    requests += apply_functional(executor, &wave->op, executor->units[slot->unit].group);
                    continue;
                }
                wave->in_flight = 0;
                live--;
                if (--slot->running == 0) {
                    uint64_t position = take_workgroup(executor, executor->units[slot->unit].group);
                    if (position == UINT64_MAX) {
                        break;
                    }
                    slot->running = waves;
                    live += waves;
                    for (uint32_t v = 0; v < waves; v++) {
                        struct wave *fresh = &executor->waves[slot->first_wave + v];
                        memset(&fresh->state, 0, sizeof fresh->state);
                        fresh->state.workgroup = workgroup_at(executor, position);
                        fresh->state.wave = v;
                        fresh->state.trip = request->window.trip_first;
                        fresh->in_flight = 1;
                    }
                    break;
                }
            }
        }
    }
    return requests;
}

static uint64_t count_requests(struct executor *executor, const struct wave_op *op)
{
    struct package *package = executor->package;
    uint64_t requests = 0;
    if (op->kind == WAVE_ATOMIC) {
        struct atomic_packet packets[WAVE_SPANS_MAX > WAVE_LANES_MAX ? WAVE_SPANS_MAX : WAVE_LANES_MAX];
        return group_atomic(package, op, packets);
    }
    if (op->kind == WAVE_LOAD || op->kind == WAVE_STORE) {
        FOR_EACH_LINE(package, op, { requests += mask != 0; });
    }
    return requests;
}

struct request_mix executor_request_mix(struct executor *executor, const struct run_request *request, uint32_t waves)
{
    executor->request = request;
    struct wave *wave = &executor->waves[0];
    uint64_t requests = 0;
    uint64_t sent = 0;
    uint64_t atomics = 0;
    uint64_t units = 0;
    uint64_t total = request->workgroup_count * executor->program->waves_per_workgroup;
    for (uint32_t i = 0; i < waves; i++) {
        uint64_t pick = (uint64_t)((unsigned __int128)i * total / waves);
        memset(&wave->state, 0, sizeof wave->state);
        wave->state.workgroup = workgroup_at(executor, request->first_workgroup + pick / executor->program->waves_per_workgroup);
        wave->state.wave = (uint32_t)(pick % executor->program->waves_per_workgroup);
        wave->state.trip = request->window.trip_first;
        for (uint32_t n = 0; n < 400; n++) {
            fetch_next(executor, wave);
            if (wave->op.kind == WAVE_END) {
                break;
            }
            uint64_t count = count_requests(executor, &wave->op);
            requests += count;
            sent += wave->op.kind == WAVE_LOAD ? 0 : count;
            atomics += wave->op.kind == WAVE_ATOMIC ? count : 0;
            units += wave->op.work_units;
        }
    }
    return (struct request_mix){ .per_unit = units > 0 ? (double)requests / (double)units : (double)requests / waves,
                                 .sent_share = requests > 0 ? (double)sent / (double)requests : 0,
                                 .atomic_share = requests > 0 ? (double)atomics / (double)requests : 0 };
}
