/* Building a package from its profile; nothing here runs per event. */
#include "sim/chiplet/package_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static uint32_t log2_exact(double value, const char *what)
{
    uint32_t n = (uint32_t)value;
    SIM_ASSERT(n > 0 && (n & (n - 1)) == 0, "%s = %g is not a power of two", what, value);
    return (uint32_t)__builtin_ctz(n);
}

#define LARGE_PAGE (2u << 20)

void *package_zalloc(size_t count, size_t size)
{
    void *p = NULL;
    size_t bytes = count * size > 0 ? count * size : 1;
    bool large = bytes >= LARGE_PAGE / 2;
    if (large) {
        bytes = (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    }
    int failed = posix_memalign(&p, large ? LARGE_PAGE : 64, bytes);
    SIM_ASSERT(failed == 0 && p != NULL, "no memory for %zu bytes", bytes);
    if (large) {
        (void)madvise(p, bytes, MADV_HUGEPAGE); /* a wish: without it the pages are small */
    }
    memset(p, 0, bytes);
    return p;
}

static void set_geometry(struct package *package, const struct chip_profile *p)
{
    package->groups = (uint32_t)p->package_groups;
    package->units_per_group = (uint32_t)p->package_units_per_group;
    package->units = package->groups * package->units_per_group;
    package->dies = (uint32_t)p->package_dies;
    package->groups_per_die = package->groups / package->dies > 0 ? package->groups / package->dies : 1;
    package->is_private = p->l2_organisation == CHIP_L2_PRIVATE;
    package->copies_far = p->l2_copies == CHIP_L2_COPIES_FAR;
    package->atomics_at_memory = p->atomic_executed_at == CHIP_ATOMIC_MEMORY_SIDE;
    package->has_mall = p->has_mall;
    package->has_link = p->has_die_link && package->dies > 1;
    package->has_tlb = p->has_tlb;
    package->line_bytes = (uint32_t)p->l2_line;
    package->line_shift = log2_exact(p->l2_line, "l2.line");
    package->sector_bytes = (uint32_t)p->l2_sector;
    package->sector_shift = log2_exact(p->l2_sector, "l2.sector");
    package->sectors = package->line_bytes >> package->sector_shift;
    package->whole_line = (1u << package->sectors) - 1;
    SIM_ASSERT(package->sectors <= LINE_SECTORS_MAX, "%u sectors per line", package->sectors);
    package->block_shift = log2_exact(p->l2_interleave, "l2.interleave");
    package->lines_per_block_shift = package->block_shift - package->line_shift;
    package->slices_per_group = (uint32_t)p->l2_slices_per_group;
    package->slices = package->groups * package->slices_per_group;
    package->ways = (int)p->l2_ways;
    SIM_ASSERT(package->ways <= TAGS_WAYS, "%d ways", package->ways);
    package->dirty_ways = (int)(p->l2_dirty_share * package->ways + 0.5);
    double slice_lines = p->l2_capacity * 1048576.0 / package->slices / package->line_bytes;
    package->sets = (uint32_t)(slice_lines / package->ways);
    SIM_ASSERT(package->sets > 0, "l2 of %g MiB has no sets", p->l2_capacity);
    package->channels = (uint32_t)p->hbm_channels;
    /* partitioned: channels behind one slice; private: channels that one slice number of each group serves */
    uint32_t sharers = package->is_private ? package->slices_per_group : package->slices;
    package->channels_per_slice = package->channels / sharers > 0 ? package->channels / sharers : 1;
    package->lines_per_row = (uint32_t)(p->hbm_row / package->line_bytes);
    if (package->lines_per_row == 0) {
        package->lines_per_row = 1;
    }
    package->slice_divisor = fast_divisor_of(package->slices);
    package->channel_divisor = fast_divisor_of(package->channels);
    package->channels_per_slice_divisor = fast_divisor_of(package->channels_per_slice);
    package->spg_divisor = fast_divisor_of(package->slices_per_group);
    package->set_divisor = fast_divisor_of(package->sets);
    package->row_divisor = fast_divisor_of(package->lines_per_row);
    package->channels_per_die_divisor = fast_divisor_of(package->channels / package->dies > 0 ? package->channels / package->dies : 1);
    if (package->has_mall) {
        package->mall_ways = (int)p->mall_ways;
        SIM_ASSERT(package->mall_ways <= TAGS_WAYS, "%d memory-side ways", package->mall_ways);
        package->mall_sets = (uint32_t)(p->mall_capacity * 1048576.0 / package->channels / package->line_bytes / package->mall_ways);
        package->mall_set_divisor = fast_divisor_of(package->mall_sets);
    }
}

static void set_times(struct package *package, const struct chip_profile *p)
{
    double mhz = package->core_mhz;
    double scale = p->l2_clock_domain == CHIP_L2_CLOCK_CORE ? p->clock_core_max / mhz : 1;
    package->cycle = ticks_of_cycles(1, mhz);
    package->l1_hit = ticks_of_cycles(p->l1_hit_latency, mhz);
    package->l1_request = ticks_of_cycles(p->l1_request_interval, mhz);
    package->l2_far = ticks_of_cycles(p->l2_far_latency, mhz);
    for (uint32_t n = 1; n <= package->sectors; n++) {
        double share = package->sectors > 1 ? (n - 1.0) / (package->sectors - 1.0) : 1;
        package->slice_read[n] = ticks_of_ns((p->l2_read_request_time + (p->l2_read_line_time - p->l2_read_request_time) * share) * scale);
    }
    package->slice_far_request = ticks_of_ns(p->l2_far_request_time * scale);
    package->slice_write_sector = ticks_of_ns(p->l2_write_sector_time * scale);
    package->bank_read_sector = ticks_of_ns(p->l2_bank_read_time * scale);
    package->bank_write_sector = ticks_of_ns(p->l2_bank_write_time * scale);
    package->fill_sector = ticks_of_cycles(package->sector_bytes / p->l1_fill_rate, mhz);
    package->store_sector = ticks_of_cycles(package->sector_bytes / p->l1_store_rate, mhz);
    package->hbm_access = ticks_of_ns(p->hbm_access / p->hbm_channel_rate);
    package->hbm_access_sectors = (uint32_t)(p->hbm_access / p->l2_sector);
    if (package->hbm_access_sectors == 0) {
        package->hbm_access_sectors = 1;
    }
    package->hbm_activate = ticks_of_ns(p->hbm_activate_interval);
    package->hbm_bubble = ticks_of_ns(p->hbm_row_bubble);
    package->hbm_write_activate = ticks_of_ns(p->hbm_write_activate_interval);
    package->hbm_turnaround = ticks_of_ns(p->hbm_turnaround);
    package->hbm_refresh_interval = ticks_of_ns(p->hbm_refresh_interval);
    package->hbm_refresh = ticks_of_ns(p->hbm_refresh_time);
    package->hbm_open_rows = (uint32_t)p->hbm_open_rows < HBM_OPEN_ROWS_MAX ? (uint32_t)p->hbm_open_rows : HBM_OPEN_ROWS_MAX;
    package->hbm_write_batch = (uint32_t)p->hbm_write_batch;
    package->dram_latency = ticks_of_ns(p->hbm_latency);
    package->atomic_return = ticks_of_cycles(p->atomic_return_latency, mhz);
    package->atomic_release = ticks_of_ns(p->atomic_release_latency);
    package->atomic_acquire = ticks_of_ns(p->atomic_acquire_latency);
    package->cas_trips = p->atomic_cas_round_trips;
    if (package->has_link) {
        package->link_latency = ticks_of_ns(p->die_link_latency);
    }
    if (package->has_mall) {
        package->mall_service = ticks_of_ns(package->line_bytes / (p->mall_rate / package->channels));
        package->mall_extra = ticks_of_ns(p->mall_latency) - ticks_of_cycles(p->l2_hit_latency, p->clock_core_max);
        SIM_ASSERT(package->mall_extra > 0, "memory-side cache faster than the L2 of %s", p->name);
    }
    if (package->has_tlb) {
        package->tlb_miss = ticks_of_ns(p->tlb_miss_latency);
        package->tlb_entries = (uint32_t)(p->tlb_reach * 1024 / p->tlb_page);
        package->tlb_page_shift = log2_exact(p->tlb_page, "tlb.page") + 10;
    }
}

static void set_hit_latencies(struct package *package, const struct chip_profile *p)
{
    package->hit_latency_stride = package->is_private ? package->slices_per_group : package->slices;
    package->hit_latency = package_zalloc((size_t)package->units * package->hit_latency_stride, sizeof(sim_ticks));
    for (uint32_t unit = 0; unit < package->units; unit++) {
        for (uint32_t slice = 0; slice < package->hit_latency_stride; slice++) {
            /* where on the die a unit and a slice sit is not published: an even spread over the measured range */
            double u = (double)(package_mix(unit * 4099u + slice) >> 11) * 0x1.0p-53 * 2 - 1;
            package->hit_latency[unit * package->hit_latency_stride + slice] =
                ticks_of_cycles(p->l2_hit_latency + u * p->l2_hit_latency_spread, package->core_mhz);
        }
    }
}

/* Slices that share an arithmetic unit were found by timing pairs of addresses (calib/data/h200/slices.csv): in hash order
 * the first slices % 16 pair as neighbours, the rest in fours as (0,3) and (1,2). Labels put the two side by side. */
static void set_slice_labels(struct package *package)
{
    package->slice_label = package_zalloc(package->slices, sizeof(uint32_t));
    uint32_t head = package->slices % 16;
    for (uint32_t s = 0; s < package->slices; s++) {
        uint32_t label = s;
        if (s >= head && (package->slices - head) % 4 == 0) {
            static const uint32_t in_four[4] = { 0, 2, 3, 1 };
            label = head + ((s - head) & ~3u) + in_four[(s - head) & 3u];
        }
        package->slice_label[s] = label;
    }
}

struct package *package_create(const struct chip_profile *profile, double core_mhz)
{
    struct package *package = package_zalloc(1, sizeof *package);
    package->profile = profile;
    package->core_mhz = core_mhz;
    set_geometry(package, profile);
    set_times(package, profile);
    package_set_hash(package);
    set_slice_labels(package);
    set_hit_latencies(package, profile);
    package->l2 = package_zalloc((size_t)package->slices * package->sets, sizeof *package->l2);
    package->slice = package_zalloc(package->slices, sizeof *package->slice);
    package->banks = (uint32_t)profile->l2_banks;
    package->bank = package_zalloc((size_t)package->slices * package->banks * 2, sizeof *package->bank);
    package->hbm = package_zalloc(package->channels, sizeof *package->hbm);
    if (package->has_mall) {
        package->mall = package_zalloc((size_t)package->channels * package->mall_sets, sizeof *package->mall);
    }
    package->mall_slice = package_zalloc(package->channels, sizeof *package->mall_slice);
    package->link = package_zalloc((size_t)package->dies * 2, sizeof *package->link);
    package->pending = package_zalloc((size_t)1 << PENDING_BITS, sizeof *package->pending);
    if (package->has_tlb) {
        package->tlb = package_zalloc((size_t)package->groups * package->tlb_entries, sizeof *package->tlb);
    }
    /* units beside the memory run on its fabric's clock */
    bool on_core_clock = profile->l2_clock_domain == CHIP_L2_CLOCK_CORE && !package->atomics_at_memory;
    double scale = on_core_clock ? profile->clock_core_max / core_mhz : 1;
    atomic_units_create(&package->atomics, profile, package->atomics_at_memory ? package->channels : package->slices, scale);
    return package;
}

void package_destroy(struct package *package)
{
    if (package == NULL) {
        return;
    }
    atomic_units_destroy(&package->atomics);
    free(package->slice_label);
    free(package->hit_latency);
    free(package->l2);
    free(package->slice);
    free(package->bank);
    free(package->hbm);
    free(package->mall);
    free(package->mall_slice);
    free(package->link);
    free(package->pending);
    free(package->tlb);
    free(package);
}

void package_reset_timing(struct package *package)
{
    memset(package->slice, 0, package->slices * sizeof *package->slice);
    memset(package->bank, 0, (size_t)package->slices * package->banks * 2 * sizeof *package->bank);
    memset(package->mall_slice, 0, package->channels * sizeof *package->mall_slice);
    memset(package->link, 0, (size_t)package->dies * 2 * sizeof *package->link);
    for (uint32_t c = 0; c < package->channels; c++) {
        struct hbm_channel *channel = &package->hbm[c];
        memset(channel, 0, sizeof *channel);
        /* channels refresh in turn, not together */
        channel->refresh_due = package->hbm_refresh_interval * (c * 37 % 97) / 97;
    }
    memset(package->pending, 0, sizeof *package->pending << PENDING_BITS);
    atomic_units_reset(&package->atomics);
    memset(&package->traffic, 0, sizeof package->traffic);
}

void package_reset(struct package *package)
{
    memset(package->l2, 0, (size_t)package->slices * package->sets * sizeof *package->l2);
    if (package->mall != NULL) {
        memset(package->mall, 0, (size_t)package->channels * package->mall_sets * sizeof *package->mall);
    }
    if (package->tlb != NULL) {
        memset(package->tlb, 0, (size_t)package->groups * package->tlb_entries * sizeof *package->tlb);
    }
    package_reset_timing(package);
}

void package_fill_dirty(struct package *package)
{
    uint32_t all = (1u << package->sectors) - 1;
    for (uint32_t slice = 0; slice < package->slices; slice++) {
        /* line indices that no tensor of a kernel reaches, home in the group that holds them */
        uint32_t group = slice / package->slices_per_group;
        uint32_t base = package->is_private ? 0x7ff000u : 0xe0000u | group << 20;
        for (uint32_t s = 0; s < package->sets; s++) {
            for (int w = 0; w < package->ways; w++) {
                uint32_t dirty = w < package->dirty_ways ? all : 0;
                package->l2[(size_t)slice * package->sets + s].entry[w] = (base + (uint32_t)w) << 8 | all << 4 | dirty;
            }
        }
    }
    if (package->mall != NULL) {
        for (size_t s = 0; s < (size_t)package->channels * package->mall_sets; s++) {
            for (int w = 0; w < package->mall_ways; w++) {
                package->mall[s].entry[w] = (0x7ff000u + (uint32_t)w) << 8 | all << 4 | all;
            }
        }
    }
}

/* Of one set: `model` holds what is known of it or of a neighbour, most recent first. */
static void fill_set_in_kind(struct tags_set *set, const struct tags_set *model, int ways, int dirty_ways, double times, uint32_t free_bits)
{
    int known = 0;
    int own = 0;
    int dirty = 0;
    while (known < ways && (model->entry[known] & 0xff) != 0) {
        known++;
    }
    while (own < ways && (set->entry[own] & 0xff) != 0) {
        dirty += TAGS_DIRTY(set->entry[own++]) != 0;
    }
    for (int way = own; way < ways && way < known * times; way++) {
        uint32_t entry = model->entry[way % known];
        uint32_t tag = TAGS_TAG(entry);
        uint32_t away = (tag + (uint32_t)(way / known + 1) * 0x3d09u) & free_bits;
        bool is_dirty = TAGS_DIRTY(entry) != 0 && dirty < dirty_ways;
        dirty += is_dirty;
        set->entry[way] = ((tag & ~free_bits) | away) << 8 | (is_dirty ? entry & 0xffu : entry & 0xf0u);
    }
}

void package_fill_in_kind(struct package *package, double times)
{
    uint32_t free_bits = package->is_private ? 0xffffffu : (1u << TAG_HOME_SHIFT) - 1;
    const struct tags_set *model = package->l2;
    for (size_t s = 0; s < (size_t)package->slices * package->sets; s++) {
        model = (package->l2[s].entry[0] & 0xff) != 0 ? &package->l2[s] : model;
        fill_set_in_kind(&package->l2[s], model, package->ways, package->dirty_ways, times, free_bits);
    }
    for (size_t s = 0; package->mall != NULL && s < (size_t)package->channels * package->mall_sets; s++) {
        model = s == 0 || (package->mall[s].entry[0] & 0xff) != 0 ? &package->mall[s] : model;
        fill_set_in_kind(&package->mall[s], model, package->mall_ways, package->mall_ways, times, 0xffffffu);
    }
}

uint64_t package_dirty_bytes(const struct package *package)
{
    uint64_t sectors = 0;
    for (size_t s = 0; s < (size_t)package->slices * package->sets; s++) {
        for (int w = 0; w < package->ways; w++) {
            sectors += (uint64_t)__builtin_popcount(TAGS_DIRTY(package->l2[s].entry[w]));
        }
    }
    return sectors << package->sector_shift;
}
