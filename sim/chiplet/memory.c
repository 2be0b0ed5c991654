/* The path of a line beyond the unit: L2 slices, die links, memory-side cache, HBM channels, and the place of atomics.
 * Reads walk the whole path at once and reserve every server on it; see ticks.h for how servers take what arrives out of order.
 * Rules that keep out-of-order reservations honest: nothing is reserved far ahead of the other users of a server (write-backs
 * and refreshes are charged at the arrival that causes them), and where order is the mechanism (atomics) it is strict. */
#include "sim/chiplet/package_internal.h"

/* Which slice (or channel) serves a block: XORs of block-address bits fold into seven bits, the bits above 128 KiB (of
 * 256-byte blocks) go on top, and the whole is taken modulo the number of slices. Found on an H200 from the atomics of
 * address pairs, where it separates all 94 slices up to 1 GiB (calib/data/h200/slices.csv: 4,104 of 4,160 offsets, the others
 * are the mate on a shared arithmetic unit); bits 31 and up could not be seen and are continued in kind. Taken over for
 * other packages, whose hashes nobody has published, as a stand-in that is as even (DEVIATIONS).
 * Each stretch of 512 blocks meets every value of the seven bits four times; `sub` tells the four apart, so that (hash, sub)
 * is a bijection of the block address. */
void package_set_hash(struct package *package)
{
    static const uint8_t mask_of_bit[32] = { 0x10, 0x00, 0x28, 0x42, 0x11, 0x2b, 0x44, 0x09, 0x3e, 0x65, 0x7c,
                                             0x2f, 0x1a, 0x6b, 0x37, 0x2a, 0x39, 0x4c, 0x3b, 0x2d, 0x69, 0x15,
                                             0x36, 0x5e, 0x73, 0x0d, 0x58, 0x26, 0x61, 0x3d, 0x4b, 0x17 };
    for (uint32_t byte = 0; byte < 4; byte++) {
        for (uint32_t value = 0; value < 256; value++) {
            uint8_t x = 0;
            for (uint32_t bit = 0; bit < 8; bit++) {
                x ^= value >> bit & 1u ? mask_of_bit[byte * 8 + bit] : 0;
            }
            package->hash_of_byte[byte][value] = x;
        }
    }
}

static inline uint32_t block_hash(const struct package *package, uint32_t block, uint32_t *sub)
{
    uint32_t x = package->hash_of_byte[0][block & 255u] ^ package->hash_of_byte[1][block >> 8 & 255u] ^
                 package->hash_of_byte[2][block >> 16 & 255u] ^ package->hash_of_byte[3][block >> 24];
    *sub = (block >> 1 & 1u) | (block >> 8 & 1u) << 1;
    return (block >> 9) << 7 | x;
}

void package_place_memory(const struct package *package, struct line_place *place, uint32_t slice_line)
{
    uint32_t index = slice_line >> package->lines_per_block_shift;
    uint32_t sub = slice_line - (index << package->lines_per_block_shift);
    uint32_t channel_index;
    if (!package->is_private) {
        channel_index = fast_quotient(package->channels_per_slice_divisor, index);
        place->channel = place->slice * package->channels_per_slice +
                         fast_remainder(package->channels_per_slice_divisor, index, channel_index);
        if (place->channel >= package->channels) {
            place->channel -= fast_quotient(package->channel_divisor, place->channel) * package->channels;
        }
    } else {
        channel_index = fast_quotient(package->channels_per_slice_divisor, index);
        place->channel =
            fast_remainder(package->channels_per_slice_divisor, index, channel_index) * package->slices_per_group + place->slice;
    }
    place->die = fast_quotient(package->channels_per_die_divisor, place->channel);
    if (place->die >= package->dies) {
        place->die = package->dies - 1;
    }
    uint32_t channel_line = (channel_index << package->lines_per_block_shift) + sub;
    place->row = fast_quotient(package->row_divisor, channel_line);
    if (package->has_mall) {
        place->mall_tag = fast_quotient(package->mall_set_divisor, channel_line);
        place->mall_set = fast_remainder(package->mall_set_divisor, channel_line, place->mall_tag);
    }
}

/* Kernels put their tensors 2^44 bytes apart; folding gives each its own stretch of a 1 TiB space, so that two tensors cannot share a tag. */
struct line_place package_place(const struct package *package, uint64_t line)
{
    struct line_place place = { 0 };
    uint64_t block = line >> package->lines_per_block_shift;
    uint32_t sub = (uint32_t)(line & ((1u << package->lines_per_block_shift) - 1));
    uint64_t region = block >> 12;
    uint32_t folded = (uint32_t)(region + (region >> 24) * 0x2545F) & 0xfffff;
    uint32_t four;
    uint32_t hash = block_hash(package, folded << 12 | ((uint32_t)block & 0xfff), &four);
    uint32_t index;
    if (!package->is_private) {
        uint32_t q = fast_quotient(package->slice_divisor, hash);
        place.slice = package->slice_label[fast_remainder(package->slice_divisor, hash, q)];
        place.home = fast_quotient(package->spg_divisor, place.slice);
        place.local = place.slice - place.home * package->slices_per_group;
        index = q * 4 + four;
    } else {
        uint32_t q = fast_quotient(package->channel_divisor, hash);
        uint32_t channel = fast_remainder(package->channel_divisor, hash, q);
        uint32_t k = fast_quotient(package->spg_divisor, channel);
        place.slice = fast_remainder(package->spg_divisor, channel, k);
        place.local = place.slice;
        index = (q * 4 + four) * package->channels_per_slice + k;
    }
    uint32_t slice_line = (index << package->lines_per_block_shift) + sub;
    package_place_memory(package, &place, slice_line);
    uint32_t t = fast_quotient(package->set_divisor, slice_line);
    place.set = fast_remainder(package->set_divisor, slice_line, t);
    place.tag = (t | place.home << TAG_HOME_SHIFT) & 0xffffffu;
    return place;
}

/* ---- HBM */

static inline void hbm_refresh(struct package *package, struct hbm_channel *channel, sim_ticks t)
{
    if (t > channel->refresh_due) {
        /* the latest refresh began when it was due; earlier ones fell into idle time or are reserved already */
        sim_ticks missed = (t - channel->refresh_due) / package->hbm_refresh_interval;
        slotted_server_start(&channel->data, channel->refresh_due + missed * package->hbm_refresh_interval, package->hbm_refresh);
        channel->refresh_due += (missed + 1) * package->hbm_refresh_interval;
    }
}

/* Read `groups` access units of one row; returns the end of the transfer. */
static inline sim_ticks hbm_read(struct package *package, uint32_t index, uint32_t row, uint32_t groups, sim_ticks t)
{
    struct hbm_channel *channel = &package->hbm[index];
    hbm_refresh(package, channel, t);
    sim_ticks cost = package->hbm_access * groups;
    sim_ticks start = t;
    uint32_t slot = (row * 2654435761u) >> 26;
    if (slot >= package->hbm_open_rows) {
        slot %= package->hbm_open_rows;
    }
    if (channel->row[slot] != row + 1) {
        channel->row[slot] = row + 1;
        start = slotted_server_start(&channel->activate, t, package->hbm_activate);
        cost += package->hbm_bubble;
    }
    sim_ticks bus = slotted_server_start(&channel->data, t, cost);
    if (bus > start) {
        start = bus;
    }
    package->traffic.hbm_read_bytes += (uint64_t)groups * package->hbm_access_sectors << package->sector_shift;
    package->traffic.hbm_busy += cost;
    return start + cost;
}

static inline void hbm_drain_writes(struct package *package, struct hbm_channel *channel)
{
    sim_ticks transfer = package->hbm_access * channel->write_groups;
    sim_ticks activate = package->hbm_write_activate * channel->write_activations;
    sim_ticks cost = 2 * package->hbm_turnaround + (transfer > activate ? transfer : activate);
    slotted_server_start(&channel->data, package->now, cost);
    package->traffic.hbm_busy += cost;
    channel->write_groups = 0;
    channel->write_activations = 0;
}

/* Queue a write-back; the controller lets reads pass and drains the queue in batches. A line written in part, or whose DRAM row
 * has no other line here nor had one written of late, opens the row for each of its access units (measured,
 * calib/data/h200/counters.csv: a random 128 B line costs twice a random sector, 13 and 6.5 ns, and random sectors of 64 MiB, nearly
 * all of it in the cache, no less); units that leave in company come for the bus time. */
static inline void hbm_write(struct package *package, uint32_t index, uint32_t row, uint32_t groups, enum write_company company)
{
    struct hbm_channel *channel = &package->hbm[index];
    uint32_t *latest = &channel->written[package_written_slot(row)];
    bool lone = company == WRITE_ALONE || (company == WRITE_UNKNOWN && *latest != row + 1);
    *latest = row + 1;
    channel->write_groups += groups;
    channel->write_activations += lone ? groups : 0;
    package->traffic.hbm_write_bytes += (uint64_t)groups * package->hbm_access_sectors << package->sector_shift;
    if (channel->write_groups >= package->hbm_write_batch) {
        hbm_drain_writes(package, channel);
    }
}

/* ---- memory side: link between dies, memory-side cache, channel */

static inline void link_cross(struct package *package, uint32_t from, uint32_t to, uint64_t bytes, sim_ticks *t, struct access_blame *blame)
{
    if (!package->has_link || from == to) {
        return;
    }
    sim_ticks cost = ticks_of_ns((double)bytes / package->profile->die_link_rate * package->dies / 2.0);
    sim_ticks start = slotted_server_start(&package->link[to * 2], *t, cost);
    blame->link += start - *t + package->link_latency;
    *t = start + package->link_latency;
    package->traffic.link_bytes += bytes;
}

static void mall_evict(struct package *package, const struct line_place *place, uint32_t entry, bool timed)
{
    uint32_t groups = package_access_groups(package, TAGS_DIRTY(entry));
    if (groups != 0 && timed) {
        /* in company when the line's neighbour in the channel is here too */
        uint32_t channel_line = TAGS_TAG(entry) * package->mall_sets + place->mall_set;
        uint32_t mate = package_row_mate(package, channel_line);
        uint32_t tag = fast_quotient(package->mall_set_divisor, mate);
        uint32_t set = fast_remainder(package->mall_set_divisor, mate, tag);
        hbm_write(package, place->channel, fast_quotient(package->row_divisor, channel_line), groups,
                  package_write_company(package, entry, &package->mall[place->channel * package->mall_sets + set], tag));
    }
}

/* Sectors `mask` arrive dirty at the memory side. */
static void memory_write(struct package *package, const struct line_place *place, uint32_t mask, enum write_company company, bool timed)
{
    if (package->has_mall) {
        struct tags_set *set = &package->mall[place->channel * package->mall_sets + place->mall_set];
        uint32_t *entry = tags_touch(set, place->mall_tag);
        if (entry == NULL) {
            uint32_t victim = tags_insert(set, place->mall_tag, 0, package->mall_ways);
            mall_evict(package, place, victim, timed);
            entry = set->entry;
        }
        *entry |= mask << 4 | mask;
        if (timed) {
            slotted_server_start(&package->mall_slice[place->channel], package->now, package->mall_service);
            package->traffic.mall_bytes += (uint64_t)sector_count(mask) << package->sector_shift;
        }
    } else if (timed) {
        hbm_write(package, place->channel, place->row, package_access_groups(package, mask), company);
    }
}

/* Fetch at the memory side; returns the data's arrival back at the level that asked. */
static sim_ticks memory_read(struct package *package, const struct line_place *place, uint32_t mask, uint32_t die, sim_ticks t,
                             struct access_blame *blame)
{
    bool timed = blame != NULL;
    if (timed) {
        link_cross(package, place->die, die, (uint64_t)sector_count(mask) << package->sector_shift, &t, blame);
    }
    if (package->has_mall) {
        if (timed) {
            sim_ticks start = slotted_server_start(&package->mall_slice[place->channel], t, package->mall_service);
            blame->mall += start - t + package->mall_extra;
            t = start + package->mall_extra;
            package->traffic.mall_requests++;
            package->traffic.mall_bytes += (uint64_t)sector_count(mask) << package->sector_shift;
        }
        struct tags_set *set = &package->mall[place->channel * package->mall_sets + place->mall_set];
        uint32_t *entry = tags_touch(set, place->mall_tag);
        if (entry != NULL && (TAGS_VALID(*entry) & mask) == mask) {
            package->traffic.mall_hits += timed;
            return t;
        }
        if (entry == NULL) {
            uint32_t victim = tags_insert(set, place->mall_tag, 0, package->mall_ways);
            mall_evict(package, place, victim, timed);
            entry = set->entry;
        }
        *entry |= package_fetched_mask(package, mask) << 4;
    }
    package->fetches++;
    if (timed) {
        sim_ticks end = hbm_read(package, place->channel, place->row, package_access_groups(package, mask), t);
        blame->hbm += end - t;
        t = end + package->dram_latency;
    }
    return t;
}

/* ---- L2 */

static inline struct tags_set *l2_set(struct package *package, uint32_t global_slice, const struct line_place *place)
{
    return &package->l2[(size_t)global_slice * package->sets + place->set];
}

static inline struct line_place place_of_entry(const struct package *package, uint32_t global_slice, uint32_t set, uint32_t entry,
                                               uint32_t *slice_line)
{
    uint32_t local = global_slice - fast_quotient(package->spg_divisor, global_slice) * package->slices_per_group;
    struct line_place place = { .slice = local };
    uint32_t t = TAGS_TAG(entry);
    if (!package->is_private) {
        place.slice = (t >> TAG_HOME_SHIFT) * package->slices_per_group + local;
        t &= (1u << TAG_HOME_SHIFT) - 1;
    }
    *slice_line = t * package->sets + set;
    package_place_memory(package, &place, *slice_line);
    return place;
}

struct line_place package_place_of_entry(const struct package *package, uint32_t global_slice, uint32_t set, uint32_t entry)
{
    uint32_t slice_line;
    return place_of_entry(package, global_slice, set, entry, &slice_line);
}

/* Send the dirty sectors of `entry` to its own channel and row. */
static void write_back(struct package *package, uint32_t global_slice, uint32_t set, uint32_t entry, bool timed)
{
    uint32_t slice_line;
    struct line_place place = place_of_entry(package, global_slice, set, entry, &slice_line);
    enum write_company company = WRITE_IN_COMPANY;
    if (timed && !package->has_mall) {
        /* in company: a whole line, with another line of the same DRAM row, from another part of memory: there while memory is
         * written in order, and hardly ever when lines are touched at random */
        uint32_t mate = package_row_mate(package, slice_line);
        uint32_t mate_t = fast_quotient(package->set_divisor, mate);
        uint32_t mate_tag = package->is_private ? mate_t : mate_t | (TAGS_TAG(entry) >> TAG_HOME_SHIFT) << TAG_HOME_SHIFT;
        uint32_t mate_set = fast_remainder(package->set_divisor, mate, mate_t);
        company = package_write_company(package, entry, &package->l2[(size_t)global_slice * package->sets + mate_set], mate_tag);
    }
    memory_write(package, &place, TAGS_DIRTY(entry), company, timed);
}

/* Give `place` an entry at recency `position`; a dirty victim goes to memory. */
static inline uint32_t *l2_insert(struct package *package, uint32_t global_slice, const struct line_place *place, int position, bool timed)
{
    struct tags_set *set = l2_set(package, global_slice, place);
    uint32_t victim = tags_insert(set, place->tag, position, package->ways);
    if (TAGS_DIRTY(victim) != 0) {
        write_back(package, global_slice, place->set, victim, timed);
    }
    return &set->entry[position];
}

/* Mark `mask` dirty. A set may hold only so many dirty lines: one too many sends a dirty line, picked without regard to age,
 * to memory early; it stays, clean. (Measured: rewriting 48 MiB in a 58.75 MiB cache sends half of the writes to memory.) */
static inline void l2_dirty(struct package *package, uint32_t global_slice, const struct line_place *place, uint32_t *entry, uint32_t mask,
                            bool timed)
{
    bool was_dirty = TAGS_DIRTY(*entry) != 0;
    *entry |= mask << 4 | mask;
    if (was_dirty || package->dirty_ways >= package->ways) {
        return;
    }
    struct tags_set *set = l2_set(package, global_slice, place);
    int dirty = 0;
    for (int way = 0; way < package->ways; way++) {
        dirty += TAGS_DIRTY(set->entry[way]) != 0;
    }
    if (dirty <= package->dirty_ways) {
        return;
    }
    int pick = (int)((package_mix((uint64_t)place->tag << 32 | (uint64_t)global_slice << 16 | place->set) >> 33) % (uint64_t)dirty);
    for (int way = 0; way < package->ways; way++) {
        if (TAGS_DIRTY(set->entry[way]) != 0 && pick-- == 0) {
            write_back(package, global_slice, place->set, set->entry[way], timed);
            set->entry[way] &= ~15u;
            return;
        }
    }
}

static inline sim_ticks pending_wait(struct package *package, uint64_t line, uint32_t where, sim_ticks t)
{
    uint64_t key = package_pending_key(line, where);
    uint64_t slot = package_pending_slot(line, where);
    return package->pending[slot].key == key && package->pending[slot].ready > t ? package->pending[slot].ready : t;
}

static inline void pending_set(struct package *package, uint64_t line, uint32_t where, sim_ticks ready)
{
    uint64_t key = package_pending_key(line, where);
    uint64_t slot = package_pending_slot(line, where);
    package->pending[slot].key = key;
    package->pending[slot].ready = ready;
}

static inline void slice_serve(struct package *package, uint32_t global_slice, sim_ticks cost, sim_ticks *t, struct access_blame *blame)
{
    sim_ticks start = slotted_server_start(&package->slice[global_slice], *t, cost);
    blame->l2 += start - *t;
    package->traffic.slice_busy += cost;
    *t = start;
    package->now = start;
}

static inline void bank_serve(struct package *package, uint32_t port, sim_ticks cost, sim_ticks *t, struct access_blame *blame)
{
    sim_ticks start = slotted_server_start(&package->bank[port], *t, cost);
    blame->l2 += start - *t;
    *t = start;
}

static inline void tlb_access(struct package *package, uint64_t line, uint32_t group, sim_ticks *t, struct access_blame *blame)
{
    if (!package->has_tlb) {
        return;
    }
    uint64_t page = line << package->line_shift >> package->tlb_page_shift;
    uint64_t *entry = &package->tlb[group * package->tlb_entries + page % package->tlb_entries];
    if (*entry != page + 1) {
        *entry = page + 1;
        if (blame != NULL) {
            *t += package->tlb_miss;
        }
    }
}

sim_ticks package_read(struct package *package, uint64_t line, const struct line_place *place, uint32_t mask, uint32_t group, sim_ticks t, struct access_blame *blame)
{
    bool timed = blame != NULL;
    uint32_t near = group * package->slices_per_group + place->local;
    uint32_t sectors = sector_count(mask);
    tlb_access(package, line, group, &t, blame);
    if (timed) {
        slice_serve(package, near, package->slice_read[sectors], &t, blame);
        bank_serve(package, package_bank(package, near, line, false), package->bank_read_sector * sectors, &t, blame);
        package->traffic.l2_requests++;
        package->traffic.near_loads++;
        package->traffic.l2_bytes += (uint64_t)sectors << package->sector_shift;
    }
    uint32_t *entry = tags_touch(l2_set(package, near, place), place->tag);
    if (entry != NULL && (TAGS_VALID(*entry) & mask) == mask) {
        if (timed) {
            package->traffic.l2_hits++;
            package->traffic.near_hits++;
            sim_ticks ready = pending_wait(package, line, near, t);
            blame->hbm += ready - t;
            t = ready;
        }
        return t;
    }
    uint32_t wanted = mask;
    sim_ticks extra = 0;
    bool have = false;
    bool far = !package->is_private && place->home != group;
    if (far) {
        extra = package->l2_far;
        if (timed) {
            package->traffic.far_requests++;
            link_cross(package, place->home / package->groups_per_die, group / package->groups_per_die,
                       (uint64_t)sectors << package->sector_shift, &t, blame);
            slice_serve(package, place->slice, package->slice_far_request, &t, blame);
        }
        int way = tags_way(l2_set(package, place->slice, place), place->tag);
        uint32_t found = way >= 0 ? l2_set(package, place->slice, place)->entry[way] : 0;
        if (way >= 0 && (TAGS_VALID(found) & mask) == mask) {
            have = true;
            if (timed) {
                package->traffic.l2_hits++;
                package->traffic.far_hits++;
                sim_ticks ready = pending_wait(package, line, place->slice, t);
                blame->hbm += ready - t;
                t = ready;
            }
        }
    }
    sim_ticks arrival = t;
    if (!have) {
        wanted = package_fetched_mask(package, mask);
        uint32_t die = package->is_private ? group / package->groups_per_die : place->home / package->groups_per_die;
        t = memory_read(package, place, wanted, die, t, blame);
    }
    bool keep_near = !far || package->copies_far;
    if (far && !have) {
        /* the home keeps the line too (measured: sweeps of 40, 48, 56 and 64 MiB read 2, 11, 46 and 95% of it from memory, and
         * with a home that gave way first no more than 41%; calib/data/h200/counters.csv) */
        uint32_t *home_entry = tags_touch(l2_set(package, place->slice, place), place->tag);
        if (home_entry == NULL) {
            home_entry = l2_insert(package, place->slice, place, 0, timed);
        }
        *home_entry |= wanted << 4;
        if (timed) {
            pending_set(package, line, place->slice, t);
        }
    }
    if (keep_near) {
        if (entry == NULL) {
            entry = l2_insert(package, near, place, 0, timed);
        }
        *entry |= wanted << 4;
        if (timed && t > arrival) {
            pending_set(package, line, near, t + extra);
        }
    }
    return t + extra;
}

/* A far write or atomic passes the near slice on its way (measured: half as many write sectors again as the units send). */
static inline void pass_near_slice(struct package *package, const struct line_place *place, uint32_t mask, uint32_t group, sim_ticks *t,
                                   struct access_blame *blame)
{
    uint32_t sectors = sector_count(mask);
    uint32_t near = group * package->slices_per_group + place->local;
    slice_serve(package, near, package->slice_write_sector * sectors, t, blame);
    *t += package->l2_far;
    link_cross(package, group / package->groups_per_die, place->home / package->groups_per_die, (uint64_t)sectors << package->sector_shift, t, blame);
}

sim_ticks package_write(struct package *package, uint64_t line, const struct line_place *at, uint32_t mask, uint32_t partial, uint32_t group,
                        sim_ticks t, struct access_blame *blame)
{
    const struct line_place place = *at;
    bool timed = blame != NULL;
    uint32_t slice = package->is_private ? group * package->slices_per_group + place.slice : place.slice;
    tlb_access(package, line, group, &t, blame);
    if (timed) {
        if (!package->is_private && place.home != group) {
            pass_near_slice(package, &place, mask, group, &t, blame);
        }
        slice_serve(package, slice, package->slice_write_sector * sector_count(mask), &t, blame);
        bank_serve(package, package_bank(package, slice, line, true), package->bank_write_sector * sector_count(mask), &t, blame);
        package->traffic.l2_bytes += (uint64_t)sector_count(mask) << package->sector_shift;
    }
    uint32_t *entry = tags_touch(l2_set(package, slice, &place), place.tag);
    if (entry == NULL) {
        entry = l2_insert(package, slice, &place, 0, timed);
    }
    uint32_t fill = partial & ~TAGS_VALID(*entry);
    if (fill != 0 && timed) {
        /* the rest of a sector written in part has to be fetched before it can go to memory; nobody waits for it */
        hbm_read(package, place.channel, place.row, package_access_groups(package, fill), t);
    }
    l2_dirty(package, slice, &place, entry, mask, timed);
    if (timed) {
        /* a store is taken when the channel that its evictions load keeps up */
        sim_ticks backlog = slotted_server_wait(&package->hbm[place.channel].data, t);
        if (backlog > package->hbm_refresh) {
            blame->hbm += backlog - package->hbm_refresh;
            t += backlog - package->hbm_refresh;
        }
    }
    return t;
}

static sim_ticks atomic_execute(struct package *package, uint64_t line, const struct atomic_lanes *lanes, enum wave_atomic_type type,
                                enum atomic_swap swap, struct slotted_server *queue, uint32_t where, sim_ticks t, struct access_blame *blame)
{
    uint32_t blocks = package->line_bytes / package->atomics.rates.block_bytes;
    sim_ticks end = t;
    for (uint32_t b = 0; b < blocks; b++) {
        if (lanes[b].all == 0) {
            continue;
        }
        sim_ticks done = atomic_unit_block(&package->atomics, queue, where, line * blocks + b, lanes[b], type, swap, t);
        if (done > end) {
            end = done;
        }
    }
    blame->atomic += end - t;
    package->traffic.atomic_packets++;
    return end;
}

sim_ticks package_atomic(struct package *package, uint64_t line, const struct line_place *at, uint32_t mask,
                         const struct atomic_lanes *lanes, enum wave_atomic_type type, enum atomic_swap swap, uint32_t group, sim_ticks t, struct access_blame *blame)
{
    const struct line_place place = *at;
    bool timed = blame != NULL;
    package->now = t;
    tlb_access(package, line, group, &t, blame);
    if (package->atomics_at_memory) {
        if (timed) {
            t += package->mall_extra;
            link_cross(package, group / package->groups_per_die, place.die, (uint64_t)sector_count(mask) << package->sector_shift, &t, blame);
        }
        if (package->has_mall) {
            struct tags_set *set = &package->mall[place.channel * package->mall_sets + place.mall_set];
            uint32_t *entry = tags_touch(set, place.mall_tag);
            if (entry == NULL || (TAGS_VALID(*entry) & mask) != mask) {
                if (entry == NULL) {
                    uint32_t victim = tags_insert(set, place.mall_tag, 0, package->mall_ways);
                    mall_evict(package, &place, victim, timed);
                    entry = set->entry;
                }
                *entry |= package_fetched_mask(package, mask) << 4;
                if (timed) {
                    sim_ticks ready = hbm_read(package, place.channel, place.row, package_access_groups(package, mask), t);
                    blame->hbm += ready - t;
                    t = ready + package->dram_latency;
                }
            }
            *entry |= mask;
        }
        return timed ? atomic_execute(package, line, lanes, type, swap, &package->mall_slice[place.channel], place.channel, t, blame) : t;
    }
    uint32_t slice = package->is_private ? group * package->slices_per_group + place.slice : place.slice;
    if (timed && !package->is_private && place.home != group) {
        pass_near_slice(package, &place, mask, group, &t, blame);
    }
    uint32_t *entry = tags_touch(l2_set(package, slice, &place), place.tag);
    if (timed) {
        package->traffic.l2_requests++;
        package->traffic.l2_bytes += (uint64_t)sector_count(mask) << package->sector_shift;
    }
    if (entry == NULL || (TAGS_VALID(*entry) & mask) != mask) {
        uint32_t missing = entry != NULL ? mask & ~TAGS_VALID(*entry) : mask;
        uint32_t wanted = package_fetched_mask(package, missing);
        uint32_t die = package->is_private ? group / package->groups_per_die : place.home / package->groups_per_die;
        t = memory_read(package, &place, wanted, die, t, blame);
        if (entry == NULL) {
            entry = l2_insert(package, slice, &place, 0, timed);
        }
        *entry |= wanted << 4;
    } else if (timed) {
        package->traffic.l2_hits++;
    }
    l2_dirty(package, slice, &place, entry, mask, timed);
    return timed ? atomic_execute(package, line, lanes, type, swap, &package->slice[slice], slice, t, blame) : t;
}

void package_drop_copies(struct package *package)
{
    if (package->is_private || !package->copies_far) {
        return;
    }
    for (uint32_t slice = 0; slice < package->slices; slice++) {
        uint32_t group = fast_quotient(package->spg_divisor, slice);
        for (uint32_t index = 0; index < package->sets; index++) {
            struct tags_set *set = &package->l2[(size_t)slice * package->sets + index];
            for (int way = 0; way < package->ways; way++) {
                if (TAGS_TAG(set->entry[way]) >> TAG_HOME_SHIFT != group) {
                    set->entry[way] &= ~0xffu;
                }
            }
        }
    }
}
