/* The parts of one package and the path of a line through them. Private to sim/chiplet.
 * Integer ticks everywhere; every part is a server with a rate, a latency and a bounded occupancy. */
#ifndef SIM_CHIPLET_PACKAGE_INTERNAL_H
#define SIM_CHIPLET_PACKAGE_INTERNAL_H
#include <stdbool.h>
#include <stdint.h>
#include "sim/atomics/atomic_unit.h"
#include "sim/chiplet/tags_internal.h"
#include "sim/core/chip_profile.h"
#include "sim/core/kernel_result.h"
#include "sim/core/ticks.h"

#define LINE_SECTORS_MAX 4
#define PENDING_BITS 15
#define HBM_OPEN_ROWS_MAX 64
#define HBM_WRITTEN_ROWS 16

/* Exact division and remainder of 32-bit numbers by a fixed divisor through one multiplication. */
struct fast_divisor {
    uint64_t magic;
    uint32_t divisor;
};
static inline struct fast_divisor fast_divisor_of(uint32_t divisor)
{
    return (struct fast_divisor){ .magic = divisor > 1 ? UINT64_MAX / divisor + 1 : 0, .divisor = divisor };
}
static inline uint32_t fast_quotient(struct fast_divisor d, uint32_t n)
{
    return d.divisor > 1 ? (uint32_t)(((unsigned __int128)d.magic * n) >> 64) : n;
}
static inline uint32_t fast_remainder(struct fast_divisor d, uint32_t n, uint32_t quotient)
{
    return n - quotient * d.divisor;
}

/* Where a line lives. Pure function of the address and the profile. */
struct line_place {
    uint32_t slice;   /* partitioned: home slice of the package; private: slice within each group */
    uint32_t channel; /* HBM channel, also memory-side slice */
    uint32_t home;    /* partitioned: home group; private: 0 */
    uint32_t local;   /* slice within its group */
    uint32_t die;     /* die of the channel */
    uint32_t set;     /* L2 set within the slice */
    uint32_t tag;     /* L2 tag, 24 bits */
    uint32_t row;     /* DRAM row within the channel */
    uint32_t mall_set, mall_tag;
};

struct hbm_channel {
    struct slotted_server data, activate;
    sim_ticks refresh_due;
    uint32_t row[HBM_OPEN_ROWS_MAX];
    uint32_t write_groups;      /* access units waiting in the write queue */
    uint32_t write_activations; /* row activations that they will need */
    uint32_t written[HBM_WRITTEN_ROWS]; /* rows written of late, by package_written_slot(): row + 1 */
};

struct package_traffic { /* counted while timed */
    uint64_t l1_requests, l1_hits;
    uint64_t l2_requests, l2_hits, far_requests, far_hits;
    uint64_t near_loads, near_hits; /* loads alone; far_requests and far_hits are loads too */
    uint64_t mall_requests, mall_hits;
    uint64_t l1_bytes, l2_bytes, link_bytes, mall_bytes;
    uint64_t hbm_read_bytes, hbm_write_bytes;
    uint64_t atomic_packets, atomic_lanes;
    uint64_t hottest_block_lanes;
    sim_ticks slice_busy, hbm_busy, matrix_busy;
};

/* Waits and work of one access, by stage; what the cycle stack is made of. */
struct access_blame {
    sim_ticks l1, l2, link, mall, hbm, atomic;
};

struct package {
    const struct chip_profile *profile;
    double core_mhz;
    uint32_t groups, units_per_group, units, dies, groups_per_die;
    bool is_private, copies_far, atomics_at_memory, has_mall, has_link, has_tlb;
    uint32_t line_bytes, line_shift, sector_bytes, sector_shift, sectors;
    uint32_t whole_line; /* mask of its sectors */
    uint32_t block_shift, lines_per_block_shift;
    uint32_t slices_per_group, slices; /* slices: of the package */
    uint8_t hash_of_byte[4][256];      /* block_hash: XOR of masks, byte by byte of the block address */
    uint32_t *slice_label;             /* [slices]: hash value -> slice, slices of one arithmetic unit side by side */
    uint32_t sets;                     /* per slice */
    int ways, dirty_ways;
    struct fast_divisor slice_divisor, channel_divisor, channels_per_slice_divisor, set_divisor, spg_divisor, row_divisor,
        mall_set_divisor, channels_per_die_divisor;
    uint32_t channels, channels_per_slice, lines_per_row;
    uint32_t mall_sets;
    int mall_ways;

    /* ticks */
    sim_ticks cycle;
    sim_ticks l1_hit, l1_request, l2_far, dram_latency, link_latency, mall_extra;
    sim_ticks slice_read[LINE_SECTORS_MAX + 1]; /* by sectors read */
    sim_ticks slice_write_sector, slice_far_request, bank_read_sector, bank_write_sector;
    sim_ticks fill_sector, store_sector; /* unit's return and request paths, per sector */
    sim_ticks mall_service;              /* per line and slice */
    sim_ticks hbm_access, hbm_activate, hbm_bubble, hbm_write_activate, hbm_turnaround, hbm_refresh_interval, hbm_refresh;
    uint32_t hbm_open_rows, hbm_access_sectors, hbm_write_batch;
    sim_ticks atomic_return, atomic_release, atomic_acquire;
    double cas_trips; /* of an uncontended loop: the load, the swap */
    sim_ticks *hit_latency; /* [units][slices seen by a unit]: partitioned: package slices; private: slices_per_group */
    uint32_t hit_latency_stride;
    sim_ticks tlb_miss;
    uint32_t tlb_entries, tlb_page_shift;

    /* state */
    struct tags_set *l2;          /* [groups * slices_per_group][sets] */
    struct slotted_server *slice;   /* [groups * slices_per_group] */
    struct slotted_server *bank; /* [groups * slices_per_group * banks][2]: read and write port of each */
    uint32_t banks;
    struct tags_set *mall;        /* [channels][mall_sets] or NULL */
    struct slotted_server *mall_slice;
    struct slotted_server *link;    /* [dies][2]: into and out of a die */
    struct hbm_channel *hbm;      /* [channels] */
    struct atomic_units atomics;  /* over L2 slices or channels */
    struct { uint64_t key; sim_ticks ready; } *pending; /* fills in flight, direct-mapped by line and group */
    uint64_t *tlb;                /* [groups][tlb_entries]: page + 1, direct-mapped */
    struct package_traffic traffic;
    uint64_t fetches;             /* lines asked of HBM since the package was made, timed or not */
    sim_ticks now;                /* arrival of the access at hand at its slice: when its evictions are charged */
};

/* Zeroed memory of a run, on the host's large pages: what a chip remembers is touched all over. The package is the first block of
 * a run; whoever asks for memory after it has it until the package is destroyed. */
void *package_zalloc(size_t count, size_t size);
/* Take back `block` of this thread and all that was asked for after it. */
void package_free_all(const void *block);

/* Build for a clock; aborts when host memory is short. Requires a checked profile. */
struct package *package_create(const struct chip_profile *profile, double core_mhz);
void package_destroy(struct package *package);
/* Empty caches and queues, zero counters. */
void package_reset(struct package *package);
/* Keep cache contents, forget queues, fills in flight and counters. */
void package_reset_timing(struct package *package);

static inline uint32_t sector_count(uint32_t mask)
{
    static const uint8_t bits[16] = { 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4 };
    return bits[mask & 15u];
}

/* Place of a fill of `line` in flight to slice or channel `where`. */
static inline uint64_t package_pending_key(uint64_t line, uint32_t where)
{
    return line * 64 + where + 1;
}
static inline uint64_t package_pending_slot(uint64_t line, uint32_t where)
{
    return (package_pending_key(line, where) * 0x9E3779B97F4A7C15u) >> (64 - PENDING_BITS);
}

/* Tell the host's cache which tag sets and channels an access by `group` will want. */
static inline void package_prefetch(const struct package *package, uint64_t line, const struct line_place *place, uint32_t group)
{
    uint32_t near;
    if (package->is_private) {
        near = group * package->slices_per_group + place->slice;
        __builtin_prefetch(&package->l2[(size_t)near * package->sets + place->set]);
    } else {
        near = group * package->slices_per_group + place->local;
        __builtin_prefetch(&package->l2[(size_t)near * package->sets + place->set]);
        if (place->home != group) {
            __builtin_prefetch(&package->l2[(size_t)place->slice * package->sets + place->set]);
        }
    }
    if (package->has_mall) {
        __builtin_prefetch(&package->mall[(size_t)place->channel * package->mall_sets + place->mall_set]);
    }
    __builtin_prefetch(&package->pending[package_pending_slot(line, near)]);
    const struct hbm_channel *channel = &package->hbm[place->channel];
    __builtin_prefetch(&channel->data);
    __builtin_prefetch(&channel->activate);
}

/* Place of a row among those of its channel that were written of late. */
static inline uint32_t package_written_slot(uint32_t row)
{
    return (row * 2654435761u) >> 28;
}

static inline uint64_t package_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* The port to the data bank of slice `global_slice` that holds `line`. Even over the slices is not even over their banks: sweeps of few blocks
 * are slower than of many (measured: writing 0.5, 2, 8 and 17 MB again and again runs at 0.59, 0.75, 0.88 and 0.95 of the rate of
 * 34 MB, which is what four banks and blocks of 256 B picked by chance give; calib/data/h200/sweeps.csv). */
static inline uint32_t package_bank(const struct package *package, uint32_t global_slice, uint64_t line, bool write)
{
    uint64_t mixed = package_mix(line >> package->lines_per_block_shift);
    uint32_t bank = global_slice * package->banks + (uint32_t)(((mixed >> 32) * package->banks) >> 32);
    return bank * 2 + write;
}

/* Tags keep what a write-back needs to find its way: line index within the slice, and the home group of a near copy. */
#define TAG_HOME_SHIFT 20

/* How many access units of a channel sectors `mask` lie in. */
static inline uint32_t package_access_groups(const struct package *package, uint32_t mask)
{
    if (package->hbm_access_sectors >= package->sectors) {
        return mask != 0;
    }
    if (package->hbm_access_sectors == 2) {
        return (uint32_t)((mask & 3u) != 0) + (uint32_t)((mask & 12u) != 0);
    }
    return sector_count(mask);
}

/* The sectors that arrive when `mask` is asked for: whole access units. */
static inline uint32_t package_fetched_mask(const struct package *package, uint32_t mask)
{
    if (package->hbm_access_sectors >= package->sectors) {
        return (1u << package->sectors) - 1;
    }
    if (package->hbm_access_sectors == 2) {
        return ((mask & 3u) != 0 ? 3u : 0) | ((mask & 12u) != 0 ? 12u : 0);
    }
    return mask;
}

/* Another line of a line's DRAM row, from another part of memory; both numbered within a channel, or a slice. There while memory is
 * swept in order, and hardly ever when lines are touched at random. */
static inline uint32_t package_row_mate(const struct package *package, uint32_t line_number)
{
    return line_number ^ (2u << package->lines_per_block_shift);
}

/* Whether a dirty line goes to memory with others of its DRAM row. */
enum write_company { WRITE_ALONE, WRITE_UNKNOWN /* the row's other line is gone: in company if it was written of late */, WRITE_IN_COMPANY };

static inline enum write_company package_write_company(const struct package *package, uint32_t entry, const struct tags_set *mates,
                                                       uint32_t mate_tag)
{
    if (TAGS_DIRTY(entry) != package->whole_line) {
        return WRITE_ALONE;
    }
    return tags_way(mates, mate_tag) >= 0 ? WRITE_IN_COMPANY : WRITE_UNKNOWN;
}

void package_set_hash(struct package *package);
/* Channel, row and memory-side position of the line `slice_line` (its index among the lines of place->slice). */
void package_place_memory(const struct package *package, struct line_place *place, uint32_t slice_line);
struct line_place package_place(const struct package *package, uint64_t line);
/* Slice number, channel, row and memory-side position of the line in an L2's tag store. */
struct line_place package_place_of_entry(const struct package *package, uint32_t global_slice, uint32_t set, uint32_t entry);

/* `place` is package_place(package, line), which callers need for the latency anyway.
 * Fetch sectors `mask` of `line` for a unit of `group`; `t` is the arrival at the L2. Returns when the data leave the slice
 * that answers. Untimed (functional warming) when `blame` is NULL: only cache contents change. */
sim_ticks package_read(struct package *package, uint64_t line, const struct line_place *place, uint32_t mask, uint32_t group, sim_ticks t, struct access_blame *blame);
/* Write sectors `mask`, of which `partial` are not covered whole; returns when the slice has taken them. */
sim_ticks package_write(struct package *package, uint64_t line, const struct line_place *place, uint32_t mask, uint32_t partial, uint32_t group, sim_ticks t, struct access_blame *blame);
#define ATOMIC_BLOCKS_MAX 8 /* of a line */

/* The least time a compare-and-swap loop of `lanes` takes when the unit keeps nobody waiting: lanes on one address win a trip each. */
static inline sim_ticks package_cas_latency(const struct package *package, const struct atomic_lanes *lanes, sim_ticks hit_latency)
{
    uint8_t on_one = 1;
    for (int b = 0; b < ATOMIC_BLOCKS_MAX; b++) {
        on_one = lanes[b].on_one > on_one ? lanes[b].on_one : on_one;
    }
    sim_ticks trip = hit_latency + package->atomic_return + (package->atomics_at_memory ? package->mall_extra : 0);
    return (sim_ticks)((package->cas_trips - 1 + on_one) * (double)trip);
}

/* One line's packet of an atomic instruction: sectors `mask` touched; lanes[b] meet in block b of the line (in units of
 * the atomic block). Returns the end of the last operation. */
sim_ticks package_atomic(struct package *package, uint64_t line, const struct line_place *place, uint32_t mask,
                         const struct atomic_lanes *lanes, enum wave_atomic_type type, enum atomic_swap swap, uint32_t group, sim_ticks t, struct access_blame *blame);
/* Forget the copies that partitions made of each other's lines: they end with the kernel that made them. */
void package_drop_copies(struct package *package);
/* Fill every cache with dirty lines of an unrelated region (what a flush by writing leaves). */
void package_fill_dirty(struct package *package);
/* After a warming that touched few lines of a stream that is `times` as long: fill the places still empty with lines like those there,
 * dirty and whole as they are, but of addresses of their own. Writes then push others out as they do in the middle of the stream. */
void package_fill_in_kind(struct package *package, double times);
/* Lines that the outermost cache holds. */
uint64_t package_line_places(const struct package *package);
/* Share of the outermost cache that is neither empty nor what package_fill_dirty() put there. */
double package_replaced_share(const struct package *package);
/* Dirty sectors left in private L2s, written back at the kernel's end: bytes. */
uint64_t package_dirty_bytes(const struct package *package);

#endif
