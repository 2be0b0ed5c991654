/* Building a package from its profile; nothing here runs per event. */
#include "sim/chiplet/package_internal.h"

#include <math.h>
#include <string.h>

static uint32_t log2_exact(double value, const char *what)
{
    uint32_t n = (uint32_t)value;
    SIM_ASSERT(n > 0 && (n & (n - 1)) == 0, "%s = %g is not a power of two", what, value);
    return (uint32_t)__builtin_ctz(n);
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
    package_free_all(package); /* the first block of a run */
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

/* Line indices that no tensor of a kernel reaches: of tags that are all index, and of those that hold a home. */
#define UNRELATED_TAG_WHOLE 0x7ff000u
#define UNRELATED_TAG_OF_HOME 0xe0000u

void package_fill_dirty(struct package *package)
{
    uint32_t all = (1u << package->sectors) - 1;
    for (uint32_t slice = 0; slice < package->slices; slice++) {
        /* home in the group that holds them */
        uint32_t group = slice / package->slices_per_group;
        uint32_t base = package->is_private ? UNRELATED_TAG_WHOLE : UNRELATED_TAG_OF_HOME | group << TAG_HOME_SHIFT;
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
                package->mall[s].entry[w] = (UNRELATED_TAG_WHOLE + (uint32_t)w) << 8 | all << 4 | all;
            }
        }
    }
}

static int ways_known(const struct tags_set *set, int ways)
{
    int known = 0;
    while (known < ways && (set->entry[known] & 0xff) != 0) {
        known++;
    }
    return known;
}

/* The tag of a line like `entry`'s, `way` places further back in a stream. */
static uint32_t tag_further_back(uint32_t entry, int way, uint32_t free_bits)
{
    uint32_t tag = TAGS_TAG(entry);
    return (tag & ~free_bits) | ((tag + (uint32_t)way * 0x3d09u) & free_bits);
}

/* Of one set: `model` holds what is known of it or of a neighbour, most recent first. */
static void fill_l2_set(struct tags_set *set, const struct tags_set *model, int ways, int dirty_ways, double times, uint32_t free_bits)
{
    int known = ways_known(model, ways);
    int own = ways_known(set, ways);
    int dirty = 0;
    for (int way = 0; way < own; way++) {
        dirty += TAGS_DIRTY(set->entry[way]) != 0;
    }
    for (int way = own; way < ways && way < known * times; way++) {
        uint32_t entry = model->entry[way % known];
        bool is_dirty = TAGS_DIRTY(entry) != 0 && dirty < dirty_ways;
        dirty += is_dirty;
        set->entry[way] = tag_further_back(entry, way / known + 1, free_bits) << 8 | (is_dirty ? entry & 0xffu : entry & 0xf0u);
    }
}

struct mall_stream { /* lines */
    double clean, dirty;     /* at the memory side so far */
    double dirty_above;      /* in L2s, on their way */
    double dirty_above_here; /* of those: lines that the memory side holds too, since they were read first */
    double in_company;       /* of those at the memory side: the next line of their DRAM row is there too */
};

static bool mall_has_company(const struct package *package, size_t global_set, uint32_t entry)
{
    size_t channel = global_set / package->mall_sets;
    uint32_t mate = package_row_mate(package, TAGS_TAG(entry) * package->mall_sets + (uint32_t)(global_set % package->mall_sets));
    uint32_t tag = mate / package->mall_sets;
    return tags_way(&package->mall[channel * package->mall_sets + mate % package->mall_sets], tag) >= 0;
}

static struct mall_stream count_stream(const struct package *package)
{
    struct mall_stream stream = { 0 };
    for (size_t s = 0; s < (size_t)package->channels * package->mall_sets; s++) {
        for (int w = 0; w < package->mall_ways; w++) {
            uint32_t entry = package->mall[s].entry[w];
            stream.dirty += TAGS_DIRTY(entry) != 0;
            stream.clean += (entry & 0xff) != 0 && TAGS_DIRTY(entry) == 0;
            stream.in_company += (entry & 0xff) != 0 && mall_has_company(package, s, entry);
        }
    }
    for (uint32_t slice = 0; slice < package->slices; slice++) {
        for (uint32_t set = 0; set < package->sets; set++) {
            for (int w = 0; w < package->ways; w++) {
                uint32_t entry = package->l2[(size_t)slice * package->sets + set].entry[w];
                if (TAGS_DIRTY(entry) == 0) {
                    continue;
                }
                struct line_place place = package_place_of_entry(package, slice, set, entry);
                stream.dirty_above++;
                stream.dirty_above_here += tags_way(&package->mall[place.channel * package->mall_sets + place.mall_set], place.mall_tag) >= 0;
            }
        }
    }
    return stream;
}

/* What the memory side holds in the middle of the stream: lines that were read, and those that L2s have pushed out. */
static void fill_mall(struct package *package, const struct mall_stream *stream, double times, double l2_dirty)
{
    double both = stream->dirty_above > 0 ? stream->dirty_above_here / stream->dirty_above : 0;
    double dirty = (stream->dirty + stream->dirty_above) * times - l2_dirty;
    dirty = dirty > stream->dirty ? dirty : stream->dirty;
    double clean = (stream->clean + both * stream->dirty) * times - both * dirty;
    clean = clean > 0 ? clean : 0;
    double lines = clean + dirty;
    double per_set = lines / ((double)package->channels * package->mall_sets);
    uint32_t dirty_of_256 = lines > 0 ? (uint32_t)(256 * dirty / lines) : 0;
    uint32_t company_of_256 = lines > 0 ? (uint32_t)(256 * stream->in_company / (stream->clean + stream->dirty)) : 0;
    uint32_t tags = UINT32_MAX / package->mall_sets;
    tags = tags < 1u << 24 ? tags : 1u << 24;
    for (size_t s = 0; s < (size_t)package->channels * package->mall_sets; s++) {
        struct tags_set *set = &package->mall[s];
        for (int way = ways_known(set, package->mall_ways); way < package->mall_ways && way < per_set; way++) {
            /* the sets of a DRAM row's lines hold the same rows at the same places, if the stream brings rows whole */
            uint64_t row = package_mix(s / 64 * 64 + (uint64_t)way);
            bool is_dirty = (row & 255u) < dirty_of_256;
            uint64_t line = package_mix(s * 64 + (uint64_t)way);
            uint32_t tag = (uint32_t)((line >> 32 & 255u) < company_of_256 ? row >> 40 : line >> 40) % tags;
            set->entry[way] = tag << 8 | package->whole_line << 4 | (is_dirty ? package->whole_line : 0);
        }
    }
}

void package_fill_in_kind(struct package *package, double times)
{
    uint32_t free_bits = package->is_private ? 0xffffffu : (1u << TAG_HOME_SHIFT) - 1;
    struct mall_stream stream = { 0 };
    if (package->mall != NULL) {
        stream = count_stream(package);
    }
    const struct tags_set *model = package->l2;
    for (size_t s = 0; s < (size_t)package->slices * package->sets; s++) {
        model = (package->l2[s].entry[0] & 0xff) != 0 ? &package->l2[s] : model;
        fill_l2_set(&package->l2[s], model, package->ways, package->dirty_ways, times, free_bits);
    }
    if (package->mall != NULL) {
        fill_mall(package, &stream, times, (double)package_dirty_bytes(package) / package->line_bytes);
    }
}

struct outermost_cache {
    const struct tags_set *sets;
    size_t count;
    uint32_t ways, unrelated, index_bits;
};

static struct outermost_cache outermost_cache_of(const struct package *package)
{
    bool whole = package->mall != NULL || package->is_private;
    struct outermost_cache cache = { .unrelated = whole ? UNRELATED_TAG_WHOLE : UNRELATED_TAG_OF_HOME,
                                     .index_bits = whole ? 0xffffffu : (1u << TAG_HOME_SHIFT) - 1 };
    if (package->mall != NULL) {
        cache.sets = package->mall;
        cache.count = (size_t)package->channels * package->mall_sets;
        cache.ways = (uint32_t)package->mall_ways;
    } else {
        cache.sets = package->l2;
        cache.count = (size_t)package->slices * package->sets;
        cache.ways = (uint32_t)package->ways;
    }
    return cache;
}

uint64_t package_line_places(const struct package *package)
{
    struct outermost_cache cache = outermost_cache_of(package);
    return cache.count * cache.ways;
}

double package_replaced_share(const struct package *package)
{
    struct outermost_cache cache = outermost_cache_of(package);
    uint64_t old = 0;
    for (size_t s = 0; s < cache.count; s++) {
        for (uint32_t w = 0; w < cache.ways; w++) {
            uint32_t entry = cache.sets[s].entry[w];
            uint32_t index = TAGS_TAG(entry) & cache.index_bits;
            old += (entry & 0xff) == 0 || index - cache.unrelated < cache.ways;
        }
    }
    return 1 - (double)old / ((double)cache.count * cache.ways);
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
