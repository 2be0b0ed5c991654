/* The reference engine beyond the unit: slices, die links, memory-side cache, channels and atomics. */
#include "sim/chiplet/reference_parts_internal.h"

#include <string.h>

/* ---- channels */

static sim_ticks hbm_read(struct reference *reference, uint32_t index, uint32_t row, uint32_t groups)
{
    struct package *package = reference->package;
    struct channel *channel = &reference->channels[index];
    struct hbm_channel *rows = &package->hbm[index];
    while (rows->refresh_due < reference->now && package->hbm_refresh > 0) {
        sim_ticks start = channel->data.free > rows->refresh_due ? channel->data.free : rows->refresh_due;
        channel->data.free = start + package->hbm_refresh;
        channel->data.busy += package->hbm_refresh;
        rows->refresh_due += package->hbm_refresh_interval;
    }
    sim_ticks cost = package->hbm_access * groups;
    sim_ticks start = reference->now;
    uint32_t slot = (row * 2654435761u >> 26) % package->hbm_open_rows;
    if (rows->row[slot] != row + 1) {
        rows->row[slot] = row + 1;
        start = reference_serve(reference, &channel->activate, package->hbm_activate);
        cost += package->hbm_bubble;
    }
    sim_ticks bus = reference_serve(reference, &channel->data, cost);
    package->traffic.hbm_read_bytes += (uint64_t)groups * package->hbm_access_sectors << package->sector_shift;
    package->traffic.hbm_busy += cost;
    return (bus > start ? bus : start) + cost;
}

static void hbm_write(struct reference *reference, uint32_t index, uint32_t row, uint32_t groups, enum write_company company)
{
    struct package *package = reference->package;
    struct hbm_channel *queue = &package->hbm[index];
    queue->write_groups += groups;
    uint32_t *latest = &queue->written[package_written_slot(row)];
    queue->write_activations += company == WRITE_ALONE || (company == WRITE_UNKNOWN && *latest != row + 1) ? groups : 0;
    *latest = row + 1;
    package->traffic.hbm_write_bytes += (uint64_t)groups * package->hbm_access_sectors << package->sector_shift;
    if (queue->write_groups < package->hbm_write_batch) {
        return;
    }
    sim_ticks transfer = package->hbm_access * queue->write_groups;
    sim_ticks activate = package->hbm_write_activate * queue->write_activations;
    sim_ticks cost = 2 * package->hbm_turnaround + (transfer > activate ? transfer : activate);
    reference_serve(reference, &reference->channels[index].data, cost);
    package->traffic.hbm_busy += cost;
    queue->write_groups = 0;
    queue->write_activations = 0;
}

/* ---- memory side */

/* When a message that leaves now for die `to` is there. */
static sim_ticks cross(struct reference *reference, struct request *request, uint32_t from, uint32_t to, uint32_t mask)
{
    struct package *package = reference->package;
    if (!package->has_link || from == to) {
        return reference->now;
    }
    uint64_t bytes = (uint64_t)__builtin_popcount(mask) << package->sector_shift;
    sim_ticks cost = ticks_of_ns((double)bytes / package->profile->die_link_rate * package->dies / 2.0);
    sim_ticks there = reference_serve(reference, &reference->links[to * 2], cost) + package->link_latency;
    request->blame.link += there - reference->now;
    package->traffic.link_bytes += bytes;
    return there;
}

static uint32_t die_of_group(const struct package *package, uint32_t group)
{
    return group / package->groups_per_die;
}

static struct tags_set *mall_set(struct package *package, const struct line_place *place)
{
    return &package->mall[place->channel * package->mall_sets + place->mall_set];
}

/* The line's entry in the memory-side cache, made if need be. */
static uint32_t *mall_entry(struct reference *reference, const struct line_place *place)
{
    struct package *package = reference->package;
    struct tags_set *set = mall_set(package, place);
    uint32_t *entry = tags_touch(set, place->mall_tag);
    if (entry != NULL) {
        return entry;
    }
    uint32_t victim = tags_insert(set, place->mall_tag, 0, package->mall_ways);
    uint32_t groups = package_access_groups(package, TAGS_DIRTY(victim));
    if (groups > 0) {
        uint32_t channel_line = TAGS_TAG(victim) * package->mall_sets + place->mall_set;
        uint32_t mate = channel_line ^ (2u << package->lines_per_block_shift);
        const struct tags_set *mate_set = &package->mall[place->channel * package->mall_sets + mate % package->mall_sets];
        hbm_write(reference, place->channel, channel_line / package->lines_per_row, groups,
                  package_write_company(package, victim, mate_set, mate / package->mall_sets));
    }
    return set->entry;
}

static void memory_write(struct reference *reference, const struct line_place *place, uint32_t mask, enum write_company company)
{
    struct package *package = reference->package;
    if (!package->has_mall) {
        hbm_write(reference, place->channel, place->row, package_access_groups(package, mask), company);
        return;
    }
    *mall_entry(reference, place) |= mask << 4 | mask;
    reference_serve(reference, &reference->mall_servers[place->channel], package->mall_service);
    package->traffic.mall_bytes += (uint64_t)__builtin_popcount(mask) << package->sector_shift;
}

static step_fire memory_data;

static void fetch_from_channel(struct reference *reference, struct request *request)
{
    struct package *package = reference->package;
    sim_ticks end = hbm_read(reference, request->place.channel, request->place.row, package_access_groups(package, request->wanted));
    request->blame.hbm += end - reference->now;
    reference_schedule(reference, end + package->dram_latency, memory_data, request);
}

static void memory_side_lookup(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    uint32_t where = package->slices + package->units + request->place.channel;
    uint32_t *entry = mall_entry(reference, &request->place);
    if ((TAGS_VALID(*entry) & request->wanted) == request->wanted) {
        package->traffic.mall_hits++;
        if (!reference_wait_for_fill(reference, request->line, where, request->wanted, memory_data, request)) {
            memory_data(reference, request);
        }
        return;
    }
    uint32_t fetched = package_fetched_mask(package, request->wanted);
    *entry |= fetched << 4;
    request->fills[FILL_MALL] = reference_start_fill(reference, request->line, where, fetched);
    fetch_from_channel(reference, request);
}

static void memory_side(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    if (!package->has_mall) {
        fetch_from_channel(reference, request);
        return;
    }
    sim_ticks found = reference_serve(reference, &reference->mall_servers[request->place.channel], package->mall_service) + package->mall_extra;
    request->blame.mall += found - reference->now;
    package->traffic.mall_requests++;
    package->traffic.mall_bytes += (uint64_t)__builtin_popcount(request->wanted) << package->sector_shift;
    reference_schedule(reference, found, memory_side_lookup, request);
}

/* Fetch `wanted` for the die of `group`; goes on at memory_data(). */
static void read_memory(struct reference *reference, struct request *request, uint32_t group)
{
    sim_ticks there = cross(reference, request, request->place.die, die_of_group(reference->package, group), request->wanted);
    if (there > reference->now) {
        reference_schedule(reference, there, memory_side, request);
    } else {
        memory_side(reference, request);
    }
}

/* ---- L2: contents */

static struct tags_set *l2_set(struct package *package, uint32_t slice, uint32_t set)
{
    return &package->l2[(size_t)slice * package->sets + set];
}

static void write_back(struct reference *reference, uint32_t slice, uint32_t set, uint32_t entry)
{
    struct package *package = reference->package;
    uint32_t local = slice % package->slices_per_group;
    uint32_t tag = TAGS_TAG(entry);
    uint32_t home_bits = package->is_private ? 0 : tag >> TAG_HOME_SHIFT << TAG_HOME_SHIFT;
    struct line_place place = { .slice = package->is_private ? local : (tag >> TAG_HOME_SHIFT) * package->slices_per_group + local };
    uint32_t slice_line = (tag - home_bits) * package->sets + set;
    package_place_memory(package, &place, slice_line);
    enum write_company company = WRITE_IN_COMPANY;
    if (!package->has_mall) {
        uint32_t mate = slice_line ^ (2u << package->lines_per_block_shift);
        company = package_write_company(package, entry, l2_set(package, slice, mate % package->sets), mate / package->sets | home_bits);
    }
    memory_write(reference, &place, TAGS_DIRTY(entry), company);
}

static uint32_t *l2_insert(struct reference *reference, uint32_t slice, const struct line_place *place, int position)
{
    struct package *package = reference->package;
    struct tags_set *set = l2_set(package, slice, place->set);
    uint32_t victim = tags_insert(set, place->tag, position, package->ways);
    if (TAGS_DIRTY(victim) != 0) {
        write_back(reference, slice, place->set, victim);
    }
    return &set->entry[position];
}

static void l2_dirty(struct reference *reference, uint32_t slice, const struct line_place *place, uint32_t *entry, uint32_t mask)
{
    struct package *package = reference->package;
    bool was_dirty = TAGS_DIRTY(*entry) != 0;
    *entry |= mask << 4 | mask;
    if (was_dirty || package->dirty_ways >= package->ways) {
        return;
    }
    struct tags_set *set = l2_set(package, slice, place->set);
    int dirty = 0;
    for (int way = 0; way < package->ways; way++) {
        dirty += TAGS_DIRTY(set->entry[way]) != 0;
    }
    if (dirty <= package->dirty_ways) {
        return;
    }
    int pick = (int)((package_mix((uint64_t)place->tag << 32 | (uint64_t)slice << 16 | place->set) >> 33) % (uint64_t)dirty);
    for (int way = 0; way < package->ways; way++) {
        if (TAGS_DIRTY(set->entry[way]) != 0 && pick-- == 0) {
            write_back(reference, slice, place->set, set->entry[way]);
            set->entry[way] &= ~15u;
            return;
        }
    }
}

/* ---- L2: the path of a load */

static step_fire read_home, read_home_lookup;

/* The data leave the slice that the unit asked. */
static void read_leaves(struct reference *reference, void *object)
{
    struct request *request = object;
    reference_end_fill(reference, request, FILL_NEAR);
    reference_schedule(reference, reference->now + request->latency - request->there, reference_load_back, request);
}

/* The data are at the home slice. */
static void read_leaves_home(struct reference *reference, void *object)
{
    struct request *request = object;
    reference_end_fill(reference, request, FILL_HOME);
    if (request->near == request->home) {
        read_leaves(reference, request);
    } else {
        reference_schedule(reference, reference->now + reference->package->l2_far, read_leaves, request);
    }
}

static void read_miss(struct reference *reference, struct request *request)
{
    struct package *package = reference->package;
    request->wanted = package_fetched_mask(package, request->mask);
    if (request->fills[FILL_NEAR] != NULL) {
        request->fills[FILL_NEAR]->mask |= request->wanted;
        int way = tags_way(l2_set(package, request->near, request->place.set), request->place.tag);
        if (way >= 0) {
            l2_set(package, request->near, request->place.set)->entry[way] |= request->wanted << 4;
        }
    }
    read_memory(reference, request, package->is_private ? request->group : request->place.home);
}

static void read_lookup(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    bool far = request->near != request->home;
    uint32_t *entry = tags_touch(l2_set(package, request->near, request->place.set), request->place.tag);
    if (entry != NULL && (TAGS_VALID(*entry) & request->mask) == request->mask) {
        package->traffic.l2_hits++;
        package->traffic.near_hits++;
        if (!reference_wait_for_fill(reference, request->line, request->near, request->mask, read_leaves, request)) {
            read_leaves(reference, request);
        }
        return;
    }
    if (!far || package->copies_far) {
        if (entry == NULL) {
            entry = l2_insert(reference, request->near, &request->place, 0);
        }
        *entry |= request->mask << 4;
        request->fills[FILL_NEAR] = reference_start_fill(reference, request->line, request->near, request->mask);
    }
    if (!far) {
        read_miss(reference, request);
        return;
    }
    package->traffic.far_requests++;
    sim_ticks there = cross(reference, request, die_of_group(package, request->place.home), die_of_group(package, request->group), request->mask);
    reference_schedule(reference, there, read_home, request);
}

static void read_home(struct reference *reference, void *object)
{
    struct request *request = object;
    sim_ticks start = reference_serve(reference, &reference->slices[request->home], reference->package->slice_far_request);
    request->blame.l2 += start - reference->now;
    reference_schedule(reference, start, read_home_lookup, request);
}

static void read_home_lookup(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    struct tags_set *set = l2_set(package, request->home, request->place.set);
    int way = tags_way(set, request->place.tag);
    uint32_t found = way >= 0 ? set->entry[way] : 0;
    if (way >= 0 && (TAGS_VALID(found) & request->mask) == request->mask) {
        package->traffic.l2_hits++;
        package->traffic.far_hits++;
        if (!reference_wait_for_fill(reference, request->line, request->home, request->mask, read_leaves_home, request)) {
            read_leaves_home(reference, request);
        }
        return;
    }
    uint32_t *entry = tags_touch(set, request->place.tag);
    if (entry == NULL) {
        entry = l2_insert(reference, request->home, &request->place, 0);
    }
    uint32_t fetched = package_fetched_mask(package, request->mask);
    *entry |= fetched << 4;
    request->fills[FILL_HOME] = reference_start_fill(reference, request->line, request->home, fetched);
    read_miss(reference, request);
}

/* The lookup `next` follows when the bank's port in front of it is free. */
static void serve_bank(struct reference *reference, struct request *request, uint32_t port, sim_ticks sector, void (*next)(struct reference *, void *))
{
    sim_ticks start = reference_serve(reference, &reference->banks[port], sector * __builtin_popcount(request->mask));
    request->blame.l2 += start - reference->now;
    reference_schedule(reference, start, next, request);
}

static void read_at_bank(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    serve_bank(reference, request, package_bank(package, request->near, request->line, false), package->bank_read_sector, read_lookup);
}

static void read_at_slice(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    uint32_t sectors = (uint32_t)__builtin_popcount(request->mask);
    sim_ticks start = reference_serve(reference, &reference->slices[request->near], package->slice_read[sectors]);
    request->blame.l2 += start - reference->now;
    package->traffic.slice_busy += package->slice_read[sectors];
    package->traffic.l2_requests++;
    package->traffic.near_loads++;
    package->traffic.l2_bytes += (uint64_t)sectors << package->sector_shift;
    reference_schedule(reference, start, read_at_bank, request);
}

/* ---- L2: the path of a store */

static void note_drain(struct reference *reference, const struct request *request)
{
    if (reference->now > reference->last_drain) {
        reference->last_drain = reference->now;
        reference->last_drain_stage = request->blame.hbm > 0 ? KERNEL_STAGE_HBM
                                      : request->kind == REQUEST_ATOMIC ? KERNEL_STAGE_ATOMIC : KERNEL_STAGE_L2;
    }
}

static void store_taken(struct reference *reference, void *object)
{
    struct request *request = object;
    note_drain(reference, request);
    reference_give_credit(reference, &reference->units[request->unit].stores);
    reference_free_request(reference, request);
}

static void write_lookup(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    const struct line_place *place = &request->place;
    uint32_t *entry = tags_touch(l2_set(package, request->home, place->set), place->tag);
    if (entry == NULL) {
        entry = l2_insert(reference, request->home, place, 0);
    }
    uint32_t fill = request->partial & ~TAGS_VALID(*entry);
    if (fill != 0) {
        hbm_read(reference, place->channel, place->row, package_access_groups(package, fill));
    }
    l2_dirty(reference, request->home, place, entry, request->mask);
    sim_ticks backlog = reference->channels[place->channel].data.free - reference->now - package->hbm_refresh;
    request->blame.hbm += backlog > 0 ? backlog : 0;
    reference_schedule(reference, reference->now + (backlog > 0 ? backlog : 0), store_taken, request);
}

static void write_at_bank(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    serve_bank(reference, request, package_bank(package, request->home, request->line, true), package->bank_write_sector, write_lookup);
}

static void write_at_home(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    uint32_t sectors = (uint32_t)__builtin_popcount(request->mask);
    sim_ticks start = reference_serve(reference, &reference->slices[request->home], package->slice_write_sector * sectors);
    request->blame.l2 += start - reference->now;
    package->traffic.slice_busy += package->slice_write_sector * sectors;
    package->traffic.l2_bytes += (uint64_t)sectors << package->sector_shift;
    reference_schedule(reference, start, write_at_bank, request);
}

/* ---- atomics */

static void atomic_end(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    note_drain(reference, request);
    reference_give_credit(reference, &reference->units[request->unit].stores);
    if (request->load_op == NOT_A_LOAD) {
        reference_free_request(reference, request);
        return;
    }
    sim_ticks back = reference->now + request->latency * 9 / 16 + package->atomic_return;
    if (request->swap == ATOMIC_SWAP_LOOP) {
        sim_ticks trips = request->issued + package_cas_latency(package, request->lanes, request->latency);
        back = trips > back ? trips : back;
    }
    reference_schedule(reference, back + (request->is_ordered ? package->atomic_acquire : 0), reference_atomic_returned, request);
}

static void block_arithmetic(struct reference *reference, void *object)
{
    struct request *block = object;
    struct request *packet = block->packet;
    struct atomic_units *units = &reference->package->atomics;
    uint32_t slice = block->home;
    sim_ticks cost = block->visit.unit;
    sim_ticks end = reference_serve(reference, &reference->arithmetic[slice / units->rates.slices_per_unit], cost) + cost;
    end = end > block->visit.end ? end : block->visit.end;
    packet->end = end > packet->end ? end : packet->end;
    reference_free_request(reference, block);
    if (--packet->blocks_left == 0) {
        packet->blame.atomic += packet->end - packet->since;
        reference_schedule(reference, packet->end, atomic_end, packet);
    }
}

/* In order per slice: a block whose predecessor on the same address is still at work holds up those behind it. */
static void block_at_front(struct reference *reference, void *object)
{
    struct request *block = object;
    struct request *packet = block->packet;
    block->visit = atomic_front_visit(&reference->package->atomics, block->home, block->block, block->block_lanes, packet->type,
                                      packet->swap, block->since, reference->now);
    reference_schedule(reference, block->visit.start, block_arithmetic, block);
}

static void atomic_execute(struct reference *reference, void *object)
{
    struct request *packet = object;
    struct package *package = reference->package;
    reference_end_fill(reference, packet, FILL_MALL);
    reference_end_fill(reference, packet, FILL_HOME);
    uint32_t blocks = package->line_bytes / package->atomics.rates.block_bytes;
    uint32_t where = package->atomics_at_memory ? packet->place.channel : packet->home;
    struct strict_server *queue = package->atomics_at_memory ? &reference->mall_servers[where] : &reference->slices[where];
    packet->since = reference->now;
    package->traffic.atomic_packets++;
    for (uint32_t b = 0; b < blocks; b++) {
        packet->blocks_left += packet->lanes[b].all > 0;
    }
    SIM_ASSERT(packet->blocks_left > 0, "an atomic packet without lanes in %s", reference->program->name);
    for (uint32_t b = 0; b < blocks; b++) {
        if (packet->lanes[b].all == 0) {
            continue;
        }
        struct request *block = reference_new_request(reference);
        block->packet = packet;
        block->block = packet->line * blocks + b;
        block->block_lanes = packet->lanes[b];
        block->home = where;
        block->since = reference->now;
        sim_ticks start = reference_serve(reference, queue, atomic_service(&package->atomics.rates, atomic_turns(&package->atomics.rates, packet->lanes[b], ATOMIC_NO_SWAP, 0)));
        reference_schedule(reference, start, block_at_front, block);
    }
}

static void atomic_at_slice(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    const struct line_place *place = &request->place;
    uint32_t slice = request->home;
    package->traffic.l2_requests++;
    package->traffic.l2_bytes += (uint64_t)__builtin_popcount(request->mask) << package->sector_shift;
    uint32_t *entry = tags_touch(l2_set(package, slice, place->set), place->tag);
    uint32_t missing = entry != NULL ? request->mask & ~TAGS_VALID(*entry) : request->mask;
    if (missing == 0) {
        package->traffic.l2_hits++;
        l2_dirty(reference, slice, place, entry, request->mask);
        if (!reference_wait_for_fill(reference, request->line, slice, request->mask, atomic_execute, request)) {
            atomic_execute(reference, request);
        }
        return;
    }
    if (entry == NULL) {
        entry = l2_insert(reference, slice, place, 0);
    }
    request->wanted = package_fetched_mask(package, missing);
    *entry |= request->wanted << 4;
    request->fills[FILL_HOME] = reference_start_fill(reference, request->line, slice, request->wanted);
    l2_dirty(reference, slice, place, entry, request->mask);
    read_memory(reference, request, package->is_private ? request->group : place->home);
}

static void atomic_at_memory(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    if (!package->has_mall) {
        atomic_execute(reference, request);
        return;
    }
    uint32_t where = package->slices + package->units + request->place.channel;
    uint32_t *entry = mall_entry(reference, &request->place);
    bool hit = (TAGS_VALID(*entry) & request->mask) == request->mask;
    *entry |= request->mask;
    if (hit) {
        if (!reference_wait_for_fill(reference, request->line, where, request->mask, atomic_execute, request)) {
            atomic_execute(reference, request);
        }
        return;
    }
    uint32_t fetched = package_fetched_mask(package, request->mask);
    *entry |= fetched << 4;
    request->wanted = request->mask;
    request->fills[FILL_MALL] = reference_start_fill(reference, request->line, where, fetched);
    fetch_from_channel(reference, request);
}

static void memory_data(struct reference *reference, void *object)
{
    struct request *request = object;
    reference_end_fill(reference, request, FILL_MALL);
    if (request->kind == REQUEST_ATOMIC) {
        atomic_execute(reference, request);
    } else {
        read_leaves_home(reference, request);
    }
}

/* ---- arrival at the L2 */

static void far_packet_at_home(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    sim_ticks there = cross(reference, request, die_of_group(package, request->group), die_of_group(package, request->place.home), request->mask);
    reference_schedule(reference, there, request->kind == REQUEST_STORE ? write_at_home : atomic_at_slice, request);
}

static void atomic_crosses_to_memory(struct reference *reference, void *object)
{
    struct request *request = object;
    sim_ticks there = cross(reference, request, die_of_group(reference->package, request->group), request->place.die, request->mask);
    reference_schedule(reference, there, atomic_at_memory, request);
}

static void past_tlb(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    if (request->kind == REQUEST_LOAD) {
        read_at_slice(reference, request);
    } else if (request->kind == REQUEST_ATOMIC && package->atomics_at_memory) {
        reference_schedule(reference, reference->now + package->mall_extra, atomic_crosses_to_memory, request);
    } else if (request->near != request->home) {
        /* a far write or atomic passes the near slice on its way */
        sim_ticks cost = package->slice_write_sector * __builtin_popcount(request->mask);
        sim_ticks start = reference_serve(reference, &reference->slices[request->near], cost);
        request->blame.l2 += start - reference->now;
        package->traffic.slice_busy += cost;
        reference_schedule(reference, start + package->l2_far, far_packet_at_home, request);
    } else if (request->kind == REQUEST_STORE) {
        write_at_home(reference, request);
    } else {
        atomic_at_slice(reference, request);
    }
}

void reference_arrive_at_l2(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    if (package->has_tlb) {
        uint64_t page = request->line << package->line_shift >> package->tlb_page_shift;
        uint64_t *entry = &package->tlb[request->group * package->tlb_entries + page % package->tlb_entries];
        if (*entry != page + 1) {
            *entry = page + 1;
            reference_schedule(reference, reference->now + package->tlb_miss, past_tlb, request);
            return;
        }
    }
    past_tlb(reference, request);
}
