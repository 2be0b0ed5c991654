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
#include "sim/chiplet/reference_internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LOADS_MAX 256        /* load operations of a wave in flight */
#define FILL_TABLE_BITS 16
#define TAG_HOME_SHIFT 20    /* as in memory.c: the home group above the line index of a tag */
#define NOT_A_LOAD UINT64_MAX
#define PIECES_MAX 4096      /* lines of one operation */

struct reference;
typedef void step_fire(struct reference *reference, void *object);

struct step {
    sim_ticks at;
    uint64_t sequence;
    step_fire *fire;
    void *object;
};

struct strict_server {
    sim_ticks free, busy;
};

struct credits {
    uint32_t left;
    struct request *first, *last; /* wait for one, in order of arrival */
};

/* Sectors on their way to a cache. */
struct fill {
    uint64_t line;
    uint32_t where; /* L2 slice, then units' L1s, then memory-side slices */
    uint32_t mask;
    struct request *waiters;
    struct fill *next; /* hash chain, youngest first; or free list */
};

enum request_kind { REQUEST_LOAD, REQUEST_STORE, REQUEST_ATOMIC };

struct request {
    enum request_kind kind;
    struct wave *wave;
    uint64_t load_op; /* of the wave, or NOT_A_LOAD */
    uint32_t unit, group;
    uint64_t line;
    struct line_place place;
    uint32_t mask, partial;
    uint32_t wanted;     /* sectors asked of memory */
    uint32_t near, home; /* slices of the package; the same where the line is not far */
    uint8_t cache;       /* enum wave_cache */
    sim_ticks latency, there; /* unloaded, and its part on the way there */
    sim_ticks issued, since;  /* since: began to wait */
    step_fire *resume;        /* after a fill */
    struct fill *fills[4];    /* that this request brings: L1, near, home, memory side */
    struct atomic_lanes lanes[ATOMIC_BLOCKS_MAX];
    enum wave_atomic_type type;
    enum atomic_swap swap;
    bool is_ordered;
    uint32_t blocks_left;
    sim_ticks end; /* of the atomic's last block */
    struct request *packet; /* of a block */
    struct atomic_lanes block_lanes;
    struct atomic_visit visit;
    uint64_t block;
    struct access_blame blame;
    struct request *next;
};

enum fill_level { FILL_L1, FILL_NEAR, FILL_HOME, FILL_MALL };

struct l1_line {
    uint64_t line; /* + 1; 0: empty */
    uint32_t valid;
};

struct unit {
    struct strict_server lsu, out, fill, lds;
    struct strict_server issue[SIMDS_MAX], sfu[SIMDS_MAX], matrix[SIMDS_MAX];
    struct credits loads, stores;
    struct l1_line *l1; /* [sets][ways] */
    uint8_t *l1_victim;
    uint32_t group;
};

struct slot {
    uint32_t unit, first_wave, running, at_barrier;
    uint64_t position; /* of the workgroup that comes next */
    sim_ticks end;
};

struct wave {
    uint32_t unit, slot, simd;
    sim_ticks born, waits_since, matrix_done;
    uint64_t loads, loads_done; /* load operations issued; all before `loads_done` have returned */
    uint64_t waits_for;         /* loads_done that wakes it */
    bool asleep;
    bool in_order;              /* the next op waits for all before it */
    uint32_t unsent;            /* packets of the present store or atomic */
    uint16_t left[LOADS_MAX];   /* lines in flight of load operation i % LOADS_MAX */
    struct access_blame blame;  /* of the load that came back last */
    sim_ticks blame_total;
    struct wave_state state;
    struct wave_op op;
};

struct channel {
    struct strict_server data, activate;
};

/* One line of an operation. */
struct piece {
    uint64_t line;
    uint32_t mask, partial; /* partial: sectors not covered whole by any one span */
    struct atomic_lanes lanes[ATOMIC_BLOCKS_MAX];
};

struct block_of_requests {
    struct block_of_requests *next;
    struct request request[1024];
};

struct block_of_fills {
    struct block_of_fills *next;
    struct fill fill[1024];
};

struct reference {
    struct package *package;
    const struct wave_program *program;
    uint32_t units_used, l1_sets, l1_ways;
    struct unit *units;
    struct wave *waves;
    struct slot *slots;
    uint32_t slot_count;
    struct strict_server *dispatchers, *slices, *links, *mall_servers, *arithmetic;
    struct strict_server *banks; /* [slices * package->banks] */
    uint32_t dispatcher_count, arithmetic_count;
    struct channel *channels;
    uint64_t next_workgroup, *next_of_group, end_workgroup;
    /* events */
    sim_ticks now;
    struct step *heap;
    size_t heap_count, heap_capacity;
    uint64_t sequence;
    /* pools, grown while a run needs more than any before */
    struct block_of_requests *request_blocks;
    struct block_of_fills *fill_blocks;
    struct request *free_requests;
    struct fill *free_fills;
    struct fill **fill_table;
    /* per run */
    const struct run_request *request;
    struct run_outcome *outcome;
    uint32_t mark_index;
    uint64_t mark_due;
    uint32_t waves_alive;
    sim_ticks last_drain;
    enum kernel_stage last_drain_stage;
    double lifetime;
    double matrix_ticks_per_flop[WAVE_DTYPES];
    struct piece pieces[PIECES_MAX]; /* of the operation at hand */
};

/* ---- events and servers */

static void *zalloc(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size);
    SIM_ASSERT(p != NULL, "no memory for %zu x %zu bytes", count, size);
    return p;
}

static inline bool is_before(const struct step *a, const struct step *b)
{
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

static void schedule(struct reference *reference, sim_ticks at, step_fire *fire, void *object)
{
    SIM_ASSERT(at >= reference->now, "an event at %lld fs, before now, %lld fs", (long long)at, (long long)reference->now);
    if (reference->heap_count == reference->heap_capacity) {
        reference->heap_capacity = reference->heap_capacity > 0 ? 2 * reference->heap_capacity : 4096;
        reference->heap = realloc(reference->heap, reference->heap_capacity * sizeof *reference->heap);
        SIM_ASSERT(reference->heap != NULL, "no memory for %zu events", reference->heap_capacity);
    }
    struct step step = { at, reference->sequence++, fire, object };
    size_t i = reference->heap_count++;
    while (i > 0 && is_before(&step, &reference->heap[(i - 1) / 2])) {
        reference->heap[i] = reference->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    reference->heap[i] = step;
}

static struct step next_step(struct reference *reference)
{
    struct step first = reference->heap[0];
    struct step moved = reference->heap[--reference->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= reference->heap_count) {
            break;
        }
        if (child + 1 < reference->heap_count && is_before(&reference->heap[child + 1], &reference->heap[child])) {
            child++;
        }
        if (is_before(&moved, &reference->heap[child])) {
            break;
        }
        reference->heap[i] = reference->heap[child];
        i = child;
    }
    reference->heap[i] = moved;
    return first;
}

/* Take a place in the queue now; returns when service starts. */
static sim_ticks serve(struct reference *reference, struct strict_server *server, sim_ticks cost)
{
    sim_ticks start = server->free > reference->now ? server->free : reference->now;
    server->free = start + cost;
    server->busy += cost;
    return start;
}

/* Go on with `fire` as soon as a credit is free. */
static void take_credit(struct reference *reference, struct credits *credits, step_fire *fire, struct request *request)
{
    if (credits->left > 0) {
        credits->left--;
        fire(reference, request);
        return;
    }
    request->resume = fire;
    request->since = reference->now;
    request->next = NULL;
    if (credits->first == NULL) {
        credits->first = request;
    } else {
        credits->last->next = request;
    }
    credits->last = request;
}

static void give_credit(struct reference *reference, struct credits *credits)
{
    struct request *request = credits->first;
    if (request == NULL) {
        credits->left++;
        return;
    }
    credits->first = request->next;
    request->blame.l1 += reference->now - request->since;
    schedule(reference, reference->now, request->resume, request);
}

/* ---- pools */

static struct request *new_request(struct reference *reference)
{
    if (reference->free_requests == NULL) {
        struct block_of_requests *block = zalloc(1, sizeof *block);
        block->next = reference->request_blocks;
        reference->request_blocks = block;
        for (size_t i = 0; i < sizeof block->request / sizeof *block->request; i++) {
            block->request[i].next = reference->free_requests;
            reference->free_requests = &block->request[i];
        }
    }
    struct request *request = reference->free_requests;
    reference->free_requests = request->next;
    memset(request, 0, sizeof *request);
    return request;
}

static void free_request(struct reference *reference, struct request *request)
{
    request->next = reference->free_requests;
    reference->free_requests = request;
}

static struct fill *new_fill(struct reference *reference)
{
    if (reference->free_fills == NULL) {
        struct block_of_fills *block = zalloc(1, sizeof *block);
        block->next = reference->fill_blocks;
        reference->fill_blocks = block;
        for (size_t i = 0; i < sizeof block->fill / sizeof *block->fill; i++) {
            block->fill[i].next = reference->free_fills;
            reference->free_fills = &block->fill[i];
        }
    }
    struct fill *fill = reference->free_fills;
    reference->free_fills = fill->next;
    return fill;
}

/* ---- data in flight */

static struct fill **fill_chain(struct reference *reference, uint64_t line, uint32_t where)
{
    uint64_t hash = package_mix(line * 4096 + where);
    return &reference->fill_table[hash >> (64 - FILL_TABLE_BITS)];
}

static struct fill *start_fill(struct reference *reference, uint64_t line, uint32_t where, uint32_t mask)
{
    struct fill **chain = fill_chain(reference, line, where);
    struct fill *fill = new_fill(reference);
    *fill = (struct fill){ .line = line, .where = where, .mask = mask, .next = *chain };
    *chain = fill;
    return fill;
}

/* Wait for the youngest fill that brings any of `mask`; false: none is under way. */
static bool wait_for_fill(struct reference *reference, uint64_t line, uint32_t where, uint32_t mask, step_fire *resume,
                          struct request *request)
{
    for (struct fill *fill = *fill_chain(reference, line, where); fill != NULL; fill = fill->next) {
        if (fill->line == line && fill->where == where && (fill->mask & mask) != 0) {
            request->resume = resume;
            request->since = reference->now;
            request->next = fill->waiters;
            fill->waiters = request;
            return true;
        }
    }
    return false;
}

static void end_fill(struct reference *reference, struct request *bringer, enum fill_level level)
{
    struct fill *fill = bringer->fills[level];
    if (fill == NULL) {
        return;
    }
    bringer->fills[level] = NULL;
    struct fill **link = fill_chain(reference, fill->line, fill->where);
    while (*link != fill) {
        link = &(*link)->next;
    }
    *link = fill->next;
    struct request *waiter = fill->waiters;
    while (waiter != NULL) {
        struct request *next = waiter->next;
        *(level == FILL_L1 ? &waiter->blame.l2 : &waiter->blame.hbm) += reference->now - waiter->since;
        schedule(reference, reference->now, waiter->resume, waiter);
        waiter = next;
    }
    fill->next = reference->free_fills;
    reference->free_fills = fill;
}

/* ---- channels */

static uint32_t access_units(const struct package *package, uint32_t mask)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < package->sectors; s += package->hbm_access_sectors) {
        uint32_t unit = ((1u << package->hbm_access_sectors) - 1) << s;
        count += (mask & unit) != 0;
    }
    return count;
}

static uint32_t whole_access_units(const struct package *package, uint32_t mask)
{
    uint32_t fetched = 0;
    for (uint32_t s = 0; s < package->sectors; s += package->hbm_access_sectors) {
        uint32_t unit = ((1u << package->hbm_access_sectors) - 1) << s;
        fetched |= (mask & unit) != 0 ? unit & ((1u << package->sectors) - 1) : 0;
    }
    return fetched;
}

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
        start = serve(reference, &channel->activate, package->hbm_activate);
        cost += package->hbm_bubble;
    }
    sim_ticks bus = serve(reference, &channel->data, cost);
    package->traffic.hbm_read_bytes += (uint64_t)groups * package->hbm_access_sectors << package->sector_shift;
    package->traffic.hbm_busy += cost;
    return (bus > start ? bus : start) + cost;
}

static void hbm_write(struct reference *reference, uint32_t index, uint32_t groups, bool lone)
{
    struct package *package = reference->package;
    struct hbm_channel *queue = &package->hbm[index];
    queue->write_groups += groups;
    queue->write_activations += lone ? groups : 0;
    package->traffic.hbm_write_bytes += (uint64_t)groups * package->hbm_access_sectors << package->sector_shift;
    if (queue->write_groups < package->hbm_write_batch) {
        return;
    }
    sim_ticks transfer = package->hbm_access * queue->write_groups;
    sim_ticks activate = package->hbm_write_activate * queue->write_activations;
    sim_ticks cost = 2 * package->hbm_turnaround + (transfer > activate ? transfer : activate);
    serve(reference, &reference->channels[index].data, cost);
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
    sim_ticks there = serve(reference, &reference->links[to * 2], cost) + package->link_latency;
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
    uint32_t groups = access_units(package, TAGS_DIRTY(victim));
    if (groups > 0) {
        uint32_t channel_line = TAGS_TAG(victim) * package->mall_sets + place->mall_set;
        uint32_t mate = channel_line ^ (2u << package->lines_per_block_shift);
        const struct tags_set *mate_set = &package->mall[place->channel * package->mall_sets + mate % package->mall_sets];
        hbm_write(reference, place->channel, groups, tags_way(mate_set, mate / package->mall_sets) < 0);
    }
    return set->entry;
}

static void memory_write(struct reference *reference, const struct line_place *place, uint32_t mask, bool lone)
{
    struct package *package = reference->package;
    if (!package->has_mall) {
        hbm_write(reference, place->channel, access_units(package, mask), lone);
        return;
    }
    *mall_entry(reference, place) |= mask << 4 | mask;
    serve(reference, &reference->mall_servers[place->channel], package->mall_service);
    package->traffic.mall_bytes += (uint64_t)__builtin_popcount(mask) << package->sector_shift;
}

static step_fire memory_data;

static void fetch_from_channel(struct reference *reference, struct request *request)
{
    struct package *package = reference->package;
    sim_ticks end = hbm_read(reference, request->place.channel, request->place.row, access_units(package, request->wanted));
    request->blame.hbm += end - reference->now;
    schedule(reference, end + package->dram_latency, memory_data, request);
}

static void memory_side_lookup(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    uint32_t where = package->slices + package->units + request->place.channel;
    uint32_t *entry = mall_entry(reference, &request->place);
    if ((TAGS_VALID(*entry) & request->wanted) == request->wanted) {
        package->traffic.mall_hits++;
        if (!wait_for_fill(reference, request->line, where, request->wanted, memory_data, request)) {
            memory_data(reference, request);
        }
        return;
    }
    uint32_t fetched = whole_access_units(package, request->wanted);
    *entry |= fetched << 4;
    request->fills[FILL_MALL] = start_fill(reference, request->line, where, fetched);
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
    sim_ticks found = serve(reference, &reference->mall_servers[request->place.channel], package->mall_service) + package->mall_extra;
    request->blame.mall += found - reference->now;
    package->traffic.mall_requests++;
    package->traffic.mall_bytes += (uint64_t)__builtin_popcount(request->wanted) << package->sector_shift;
    schedule(reference, found, memory_side_lookup, request);
}

/* Fetch `wanted` for the die of `group`; goes on at memory_data(). */
static void read_memory(struct reference *reference, struct request *request, uint32_t group)
{
    sim_ticks there = cross(reference, request, request->place.die, die_of_group(reference->package, group), request->wanted);
    if (there > reference->now) {
        schedule(reference, there, memory_side, request);
    } else {
        memory_side(reference, request);
    }
}

/* ---- L2: contents */

static struct tags_set *l2_set(struct package *package, uint32_t slice, uint32_t set)
{
    return &package->l2[(size_t)slice * package->sets + set];
}

/* Channel, row and memory-side position of line `slice_line` of the slice in `place`: the inverse of package_place(). */
static void place_in_memory(const struct package *package, struct line_place *place, uint32_t slice_line)
{
    uint32_t index = slice_line >> package->lines_per_block_shift;
    uint32_t sub = slice_line & ((1u << package->lines_per_block_shift) - 1);
    uint32_t k = index % package->channels_per_slice;
    uint32_t channel_index = index / package->channels_per_slice;
    place->channel = package->is_private ? k * package->slices_per_group + place->slice
                                         : (place->slice * package->channels_per_slice + k) % package->channels;
    uint32_t channels_per_die = package->channels / package->dies > 0 ? package->channels / package->dies : 1;
    place->die = place->channel / channels_per_die < package->dies ? place->channel / channels_per_die : package->dies - 1;
    uint32_t channel_line = (channel_index << package->lines_per_block_shift) + sub;
    place->row = channel_line / package->lines_per_row;
    if (package->has_mall) {
        place->mall_tag = channel_line / package->mall_sets;
        place->mall_set = channel_line % package->mall_sets;
    }
}

static void write_back(struct reference *reference, uint32_t slice, uint32_t set, uint32_t entry)
{
    struct package *package = reference->package;
    uint32_t local = slice % package->slices_per_group;
    uint32_t tag = TAGS_TAG(entry);
    uint32_t home_bits = package->is_private ? 0 : tag >> TAG_HOME_SHIFT << TAG_HOME_SHIFT;
    struct line_place place = { .slice = package->is_private ? local : (tag >> TAG_HOME_SHIFT) * package->slices_per_group + local };
    uint32_t slice_line = (tag - home_bits) * package->sets + set;
    place_in_memory(package, &place, slice_line);
    bool lone = false;
    if (!package->has_mall) {
        uint32_t mate = slice_line ^ (2u << package->lines_per_block_shift);
        lone = tags_way(l2_set(package, slice, mate % package->sets), mate / package->sets | home_bits) < 0;
    }
    memory_write(reference, &place, TAGS_DIRTY(entry), lone);
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

static step_fire load_back, read_home, read_home_lookup;

/* The data leave the slice that the unit asked. */
static void read_leaves(struct reference *reference, void *object)
{
    struct request *request = object;
    end_fill(reference, request, FILL_NEAR);
    schedule(reference, reference->now + request->latency - request->there, load_back, request);
}

/* The data are at the home slice. */
static void read_leaves_home(struct reference *reference, void *object)
{
    struct request *request = object;
    end_fill(reference, request, FILL_HOME);
    if (request->near == request->home) {
        read_leaves(reference, request);
    } else {
        schedule(reference, reference->now + reference->package->l2_far, read_leaves, request);
    }
}

static void read_miss(struct reference *reference, struct request *request)
{
    struct package *package = reference->package;
    request->wanted = whole_access_units(package, request->mask);
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
        if (!wait_for_fill(reference, request->line, request->near, request->mask, read_leaves, request)) {
            read_leaves(reference, request);
        }
        return;
    }
    if (!far || package->copies_far) {
        if (entry == NULL) {
            entry = l2_insert(reference, request->near, &request->place, 0);
        }
        *entry |= request->mask << 4;
        request->fills[FILL_NEAR] = start_fill(reference, request->line, request->near, request->mask);
    }
    if (!far) {
        read_miss(reference, request);
        return;
    }
    package->traffic.far_requests++;
    sim_ticks there = cross(reference, request, die_of_group(package, request->place.home), die_of_group(package, request->group), request->mask);
    schedule(reference, there, read_home, request);
}

static void read_home(struct reference *reference, void *object)
{
    struct request *request = object;
    sim_ticks start = serve(reference, &reference->slices[request->home], reference->package->slice_far_request);
    request->blame.l2 += start - reference->now;
    schedule(reference, start, read_home_lookup, request);
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
        if (!wait_for_fill(reference, request->line, request->home, request->mask, read_leaves_home, request)) {
            read_leaves_home(reference, request);
        }
        return;
    }
    uint32_t *entry = tags_touch(set, request->place.tag);
    if (entry == NULL) {
        entry = l2_insert(reference, request->home, &request->place, 0);
    }
    uint32_t fetched = whole_access_units(package, request->mask);
    *entry |= fetched << 4;
    request->fills[FILL_HOME] = start_fill(reference, request->line, request->home, fetched);
    read_miss(reference, request);
}

/* The lookup `next` follows when the bank's port in front of it is free. */
static void serve_bank(struct reference *reference, struct request *request, uint32_t port, sim_ticks sector, void (*next)(struct reference *, void *))
{
    sim_ticks start = serve(reference, &reference->banks[port], sector * __builtin_popcount(request->mask));
    request->blame.l2 += start - reference->now;
    schedule(reference, start, next, request);
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
    sim_ticks start = serve(reference, &reference->slices[request->near], package->slice_read[sectors]);
    request->blame.l2 += start - reference->now;
    package->traffic.slice_busy += package->slice_read[sectors];
    package->traffic.l2_requests++;
    package->traffic.near_loads++;
    package->traffic.l2_bytes += (uint64_t)sectors << package->sector_shift;
    schedule(reference, start, read_at_bank, request);
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
    give_credit(reference, &reference->units[request->unit].stores);
    free_request(reference, request);
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
        hbm_read(reference, place->channel, place->row, access_units(package, fill));
    }
    l2_dirty(reference, request->home, place, entry, request->mask);
    sim_ticks backlog = reference->channels[place->channel].data.free - reference->now - package->hbm_refresh;
    request->blame.hbm += backlog > 0 ? backlog : 0;
    schedule(reference, reference->now + (backlog > 0 ? backlog : 0), store_taken, request);
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
    sim_ticks start = serve(reference, &reference->slices[request->home], package->slice_write_sector * sectors);
    request->blame.l2 += start - reference->now;
    package->traffic.slice_busy += package->slice_write_sector * sectors;
    package->traffic.l2_bytes += (uint64_t)sectors << package->sector_shift;
    schedule(reference, start, write_at_bank, request);
}

/* ---- atomics */

static void atomic_returned(struct reference *reference, void *object);

static void atomic_end(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    note_drain(reference, request);
    give_credit(reference, &reference->units[request->unit].stores);
    if (request->load_op == NOT_A_LOAD) {
        free_request(reference, request);
        return;
    }
    sim_ticks back = reference->now + request->latency * 9 / 16 + package->atomic_return;
    if (request->swap == ATOMIC_SWAP_LOOP) {
        sim_ticks trips = request->issued + package_cas_latency(package, request->lanes, request->latency);
        back = trips > back ? trips : back;
    }
    schedule(reference, back + (request->is_ordered ? package->atomic_acquire : 0), atomic_returned, request);
}

static void block_arithmetic(struct reference *reference, void *object)
{
    struct request *block = object;
    struct request *packet = block->packet;
    struct atomic_units *units = &reference->package->atomics;
    uint32_t slice = block->home;
    sim_ticks cost = block->visit.unit;
    sim_ticks end = serve(reference, &reference->arithmetic[slice / units->rates.slices_per_unit], cost) + cost;
    end = end > block->visit.end ? end : block->visit.end;
    packet->end = end > packet->end ? end : packet->end;
    free_request(reference, block);
    if (--packet->blocks_left == 0) {
        packet->blame.atomic += packet->end - packet->since;
        schedule(reference, packet->end, atomic_end, packet);
    }
}

/* In order per slice: a block whose predecessor on the same address is still at work holds up those behind it. */
static void block_at_front(struct reference *reference, void *object)
{
    struct request *block = object;
    struct request *packet = block->packet;
    block->visit = atomic_front_visit(&reference->package->atomics, block->home, block->block, block->block_lanes, packet->type,
                                      packet->swap, block->since, reference->now);
    schedule(reference, block->visit.start, block_arithmetic, block);
}

static void atomic_execute(struct reference *reference, void *object)
{
    struct request *packet = object;
    struct package *package = reference->package;
    end_fill(reference, packet, FILL_MALL);
    end_fill(reference, packet, FILL_HOME);
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
        struct request *block = new_request(reference);
        block->packet = packet;
        block->block = packet->line * blocks + b;
        block->block_lanes = packet->lanes[b];
        block->home = where;
        block->since = reference->now;
        sim_ticks start = serve(reference, queue, atomic_service(&package->atomics.rates, atomic_turns(&package->atomics.rates, packet->lanes[b], ATOMIC_NO_SWAP, 0)));
        schedule(reference, start, block_at_front, block);
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
        if (!wait_for_fill(reference, request->line, slice, request->mask, atomic_execute, request)) {
            atomic_execute(reference, request);
        }
        return;
    }
    if (entry == NULL) {
        entry = l2_insert(reference, slice, place, 0);
    }
    request->wanted = whole_access_units(package, missing);
    *entry |= request->wanted << 4;
    request->fills[FILL_HOME] = start_fill(reference, request->line, slice, request->wanted);
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
        if (!wait_for_fill(reference, request->line, where, request->mask, atomic_execute, request)) {
            atomic_execute(reference, request);
        }
        return;
    }
    uint32_t fetched = whole_access_units(package, request->mask);
    *entry |= fetched << 4;
    request->wanted = request->mask;
    request->fills[FILL_MALL] = start_fill(reference, request->line, where, fetched);
    fetch_from_channel(reference, request);
}

static void memory_data(struct reference *reference, void *object)
{
    struct request *request = object;
    end_fill(reference, request, FILL_MALL);
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
    schedule(reference, there, request->kind == REQUEST_STORE ? write_at_home : atomic_at_slice, request);
}

static void atomic_crosses_to_memory(struct reference *reference, void *object)
{
    struct request *request = object;
    sim_ticks there = cross(reference, request, die_of_group(reference->package, request->group), request->place.die, request->mask);
    schedule(reference, there, atomic_at_memory, request);
}

static void past_tlb(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    if (request->kind == REQUEST_LOAD) {
        read_at_slice(reference, request);
    } else if (request->kind == REQUEST_ATOMIC && package->atomics_at_memory) {
        schedule(reference, reference->now + package->mall_extra, atomic_crosses_to_memory, request);
    } else if (request->near != request->home) {
        /* a far write or atomic passes the near slice on its way */
        sim_ticks cost = package->slice_write_sector * __builtin_popcount(request->mask);
        sim_ticks start = serve(reference, &reference->slices[request->near], cost);
        request->blame.l2 += start - reference->now;
        package->traffic.slice_busy += cost;
        schedule(reference, start + package->l2_far, far_packet_at_home, request);
    } else if (request->kind == REQUEST_STORE) {
        write_at_home(reference, request);
    } else {
        atomic_at_slice(reference, request);
    }
}

static void arrive_at_l2(struct reference *reference, void *object)
{
    struct request *request = object;
    struct package *package = reference->package;
    if (package->has_tlb) {
        uint64_t page = request->line << package->line_shift >> package->tlb_page_shift;
        uint64_t *entry = &package->tlb[request->group * package->tlb_entries + page % package->tlb_entries];
        if (*entry != page + 1) {
            *entry = page + 1;
            schedule(reference, reference->now + package->tlb_miss, past_tlb, request);
            return;
        }
    }
    past_tlb(reference, request);
}

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
    free_request(reference, request);
    while (wave->loads_done < wave->loads && wave->left[wave->loads_done % LOADS_MAX] == 0) {
        wave->loads_done++;
    }
    if (wave->asleep && wave->loads_done >= wave->waits_for) {
        wave_wakes(reference, wave);
    }
}

static void atomic_returned(struct reference *reference, void *object)
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
    end_fill(reference, request, FILL_L1);
    give_credit(reference, &reference->units[request->unit].loads);
    line_of_load_done(reference, request);
}

static void load_back(struct reference *reference, void *object)
{
    struct request *request = object;
    sim_ticks cost = reference->package->fill_sector * __builtin_popcount(request->mask);
    sim_ticks start = serve(reference, &reference->units[request->unit].fill, cost);
    request->blame.l1 += start - reference->now;
    schedule(reference, start, load_complete, request);
}

static void load_out(struct reference *reference, void *object)
{
    struct request *request = object;
    sim_ticks sent = serve(reference, &reference->units[request->unit].out, reference->package->cycle);
    request->blame.l1 += sent - reference->now;
    schedule(reference, sent + request->there, arrive_at_l2, request);
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
            if (!wait_for_fill(reference, request->line, where, request->mask, load_hit, request)) {
                schedule(reference, reference->now + package->l1_hit, load_hit, request);
            }
            return;
        }
        line->valid |= request->mask;
        request->fills[FILL_L1] = start_fill(reference, request->line, where, request->mask);
    }
    take_credit(reference, &unit->loads, load_out, request);
}

static void packet_sent(struct reference *reference, void *object)
{
    struct request *request = object;
    struct wave *wave = request->wave;
    schedule(reference, reference->now + request->there, arrive_at_l2, request);
    if (--wave->unsent == 0) {
        wave_continue(reference, wave);
    }
}

static void packet_out(struct reference *reference, void *object)
{
    struct request *request = object;
    sim_ticks cost = reference->package->store_sector * __builtin_popcount(request->mask);
    schedule(reference, serve(reference, &reference->units[request->unit].out, cost), packet_sent, request);
}

static void packet_at_port(struct reference *reference, void *object)
{
    struct request *request = object;
    take_credit(reference, &reference->units[request->unit].stores, packet_out, request);
}

static struct request *issue_line(struct reference *reference, struct wave *wave, enum request_kind kind, uint64_t line, uint32_t mask)
{
    struct package *package = reference->package;
    struct unit *unit = &reference->units[wave->unit];
    struct request *request = new_request(reference);
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
    sim_ticks start = serve(reference, &unit->lsu, package->l1_request);
    request->blame.l1 += start - reference->now;
    schedule(reference, start, kind == REQUEST_LOAD ? load_at_l1 : packet_at_port, request);
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
        reference->mark_due = request->units_expected * (40 + 9 * reference->mark_index) / 100;
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
    schedule(reference, at, wave_issue, wave);
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
    sim_ticks start = serve(reference, dispatcher, ticks_of_cycles(profile->dispatch_interval, mhz)) + ticks_of_cycles(profile->dispatch_start_latency, mhz);
    slot->running = reference->program->waves_per_workgroup;
    slot->at_barrier = 0;
    slot->end = start;
    for (uint32_t w = 0; w < slot->running; w++) {
        uint32_t index = slot->first_wave + w;
        struct wave *wave = &reference->waves[index];
        memset(wave, 0, offsetof(struct wave, op));
        wave->unit = slot->unit;
        wave->slot = (uint32_t)(slot - reference->slots);
        wave->simd = index % (uint32_t)profile->unit_simds;
        wave->state.workgroup = workgroup_at(reference->request, slot->position);
        wave->state.wave = w;
        wave->state.trip = reference->request->window.trip_first;
        wave->born = start + w * ticks_of_cycles(profile->dispatch_wave_interval, mhz);
        fetch_next(reference, wave);
        if (reference->request->one_wave_only && w != reference->request->one_wave) {
            memset(&wave->op, 0, offsetof(struct wave_op, spans));
            wave->op.kind = WAVE_END;
        }
        schedule(reference, wave->born, wave_issue, wave);
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
        schedule(reference, reference->now + release, start_workgroup, slot);
        count_dispatch(reference, slot->position);
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
            schedule(reference, go, wave_leaves_barrier, other);
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
            schedule(reference, reference->now + reference->package->atomic_release, wave_atomics, wave);
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
    sim_ticks start = serve(reference, &reference->units[wave->unit].matrix[wave->simd], cost);
    reference->outcome->blame[KERNEL_STAGE_MATRIX] += (double)(start - reference->now);
    reference->package->traffic.matrix_busy += cost;
    wave->matrix_done = start + cost;
    schedule(reference, start, wave_access, wave);
}

static void past_lds(struct reference *reference, struct wave *wave, sim_ticks t)
{
    sim_ticks latency = reference->package->cycle * wave->op.latency_cycles;
    reference->outcome->blame[KERNEL_STAGE_LATENCY] += (double)latency;
    schedule(reference, t + latency, wave->op.matrix_flops > 0 ? wave_matrix : wave_access, wave);
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
    sim_ticks end = serve(reference, &reference->units[wave->unit].lds, cost) + cost;
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
        end = serve(reference, &unit->issue[wave->simd], cost) + cost;
    }
    if (op->sfu_slots > 0) {
        sim_ticks sfu = ticks_of_cycles(profile->unit_sfu_interval, mhz) * op->sfu_slots;
        sim_ticks sfu_end = serve(reference, &unit->sfu[wave->simd], sfu) + sfu;
        end = sfu_end > end ? sfu_end : end;
    }
    outcome->blame[KERNEL_STAGE_ISSUE] += (double)(end - reference->now);
    outcome->wave_ops++;
    if (op->lanes_active > 0) {
        outcome->lanes_sum += op->lanes_active;
        outcome->lanes_ops += 1;
    }
    if (op->lds_bytes > 0 || op->lds_atomics > 0) {
        schedule(reference, end, wave_lds, wave);
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
    reference->units = zalloc(reference->package->units, sizeof *reference->units);
    for (uint32_t u = 0; u < reference->package->units; u++) {
        reference->units[u].l1 = zalloc((size_t)reference->l1_sets * reference->l1_ways, sizeof(struct l1_line));
        reference->units[u].l1_victim = zalloc(reference->l1_sets, 1);
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
    struct reference *reference = zalloc(1, sizeof *reference);
    reference->package = package;
    reference->program = program;
    create_units(reference);
    set_matrix_rates(reference);
    reference->slot_count = package->units * occupancy->workgroups_per_unit;
    reference->slots = zalloc(reference->slot_count, sizeof *reference->slots);
    reference->waves = zalloc((size_t)reference->slot_count * program->waves_per_workgroup, sizeof *reference->waves);
    reference->dispatcher_count = (uint32_t)package->profile->dispatch_dispatchers;
    reference->dispatchers = zalloc(reference->dispatcher_count, sizeof *reference->dispatchers);
    reference->slices = zalloc(package->slices, sizeof *reference->slices);
    reference->banks = zalloc((size_t)package->slices * package->banks * 2, sizeof *reference->banks);
    reference->links = zalloc((size_t)package->dies * 2, sizeof *reference->links);
    reference->mall_servers = zalloc(package->channels, sizeof *reference->mall_servers);
    reference->channels = zalloc(package->channels, sizeof *reference->channels);
    reference->arithmetic_count = package->atomics.slice_count / package->atomics.rates.slices_per_unit + 1;
    reference->arithmetic = zalloc(reference->arithmetic_count, sizeof *reference->arithmetic);
    reference->next_of_group = zalloc(package->groups, sizeof *reference->next_of_group);
    reference->fill_table = zalloc((size_t)1 << FILL_TABLE_BITS, sizeof(struct fill *));
    return reference;
}

static void free_pools(struct reference *reference)
{
    while (reference->request_blocks != NULL) {
        struct block_of_requests *next = reference->request_blocks->next;
        free(reference->request_blocks);
        reference->request_blocks = next;
    }
    while (reference->fill_blocks != NULL) {
        struct block_of_fills *next = reference->fill_blocks->next;
        free(reference->fill_blocks);
        reference->fill_blocks = next;
    }
}

/* Everything ever taken for the pools is free again. */
static void refill_pools(struct reference *reference)
{
    reference->free_requests = NULL;
    for (struct block_of_requests *block = reference->request_blocks; block != NULL; block = block->next) {
        for (size_t i = 0; i < sizeof block->request / sizeof *block->request; i++) {
            free_request(reference, &block->request[i]);
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
    for (uint32_t u = 0; u < reference->package->units; u++) {
        free(reference->units[u].l1);
        free(reference->units[u].l1_victim);
    }
    free_pools(reference);
    free(reference->units);
    free(reference->slots);
    free(reference->waves);
    free(reference->dispatchers);
    free(reference->slices);
    free(reference->banks);
    free(reference->links);
    free(reference->mall_servers);
    free(reference->channels);
    free(reference->arithmetic);
    free(reference->next_of_group);
    free(reference->fill_table);
    free(reference->heap);
    free(reference);
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
        reference->next_of_group[g] = request->first_workgroup + g;
    }
    for (uint32_t s = 0; s < reference->slot_count; s++) {
        struct slot *slot = &reference->slots[s];
        *slot = (struct slot){ .unit = s % package->units, .first_wave = s * reference->program->waves_per_workgroup };
        if (slot->unit >= reference->units_used) {
            continue;
        }
        slot->position = take_workgroup(reference, reference->units[slot->unit].group);
        if (slot->position != UINT64_MAX) {
            schedule(reference, 0, start_workgroup, slot);
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
    reference->mark_due = request->units_expected * 40 / 100;
    reset(reference);
    fill_slots(reference);
    while (reference->heap_count > 0 && !outcome->stopped) {
        struct step step = next_step(reference);
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
