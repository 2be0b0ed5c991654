/* A calendar of days with a sorted present.
 *
 * Time is cut into days of 2^shift ps. Every pending event is in exactly one place, which its `place` names:
 *   RUN, HEAP  day <= today. RUN: loaded in order, taken from the front; HEAP: came later, or did not load in order.
 *   DAY        today < day < today + day_count, in the list of bucket day % day_count. A bucket holds one day alone.
 *   FAR        day >= today + day_count: a heap, moved into buckets as today advances.
 * The next event is the lesser of RUN's front and HEAP's top; when both are empty, the next day that has a bucket is loaded.
 * Order rests on (at, sequence) alone, so the width of a day changes the speed and never the order; it follows the measured
 * gap between events, so that a day holds a few of them. */
#include "sim/core/event_queue.h"
#include <stdlib.h>
#include <string.h>

enum place { PLACE_IDLE, PLACE_RUN, PLACE_HEAP, PLACE_DAY, PLACE_FAR };

#define DAYS_MIN 64u
#define DAYS_MAX (1u << 20)
#define EVENTS_PER_DAY 8  /* aimed at; a day with many is still right, only slower */
#define RUN_SORT_MAX 24   /* a day that loads out of order is insertion-sorted up to here, else heaped */
#define RETUNE_FIRES 4096 /* look at the gap between events at least this rarely */
#define HEAP_ARITY 4
#define LOOK_AHEAD_EVENTS 1024 /* below, the events fit the host's near caches and asking ahead only costs */

struct slot { /* sort key beside the pointer, so that sifting does not touch the events' memory */
    uint64_t at_ps, sequence;
    struct event *event; /* NULL in RUN: cancelled */
};

struct heap {
    struct slot *slot;
    size_t count;
    uint32_t place; /* PLACE_HEAP or PLACE_FAR */
};

struct day {
    struct event *head, *tail;
};

struct event_queue {
    sim_time now;
    uint64_t next_sequence;
    size_t pending, capacity;
    unsigned shift;     /* log2 of a day in ps */
    uint64_t today;     /* day number */
    uint64_t day_count; /* power of two */
    struct day *days;
    uint64_t *bits[3]; /* bit i of bits[0]: bucket i is not empty; of bits[k]: word i of bits[k-1] is not 0 */
    size_t day_events; /* in buckets */
    struct event *ahead; /* in the next day's list: asked of host memory before it is needed; NULL: none */
    struct slot *run;
    size_t run_first, run_end;
    struct heap heap, far;
    uint64_t fires_since_retune;
    sim_time retuned_at;
};

/* ---- create and destroy */

static void *allocate(size_t count, size_t size_bytes)
{
    void *memory = calloc(count, size_bytes);
    SIM_ASSERT(memory != NULL, "no memory for %zu x %zu bytes of event queue", count, size_bytes);
    return memory;
}

struct event_queue *event_queue_create(size_t capacity_events)
{
    SIM_ASSERT(capacity_events > 0 && capacity_events < UINT32_MAX, "capacity %zu", capacity_events);
    struct event_queue *queue = allocate(1, sizeof *queue);
    queue->capacity = capacity_events;
    queue->day_count = DAYS_MIN;
    while (queue->day_count < capacity_events && queue->day_count < DAYS_MAX) {
        queue->day_count *= 2;
    }
    queue->shift = 10; /* about a nanosecond, until the gap is known */
    queue->days = allocate(queue->day_count, sizeof *queue->days);
    size_t words = queue->day_count;
    for (int level = 0; level < 3; level++) {
        words = (words + 63) / 64;
        queue->bits[level] = allocate(words, sizeof(uint64_t));
    }
    SIM_ASSERT(words <= 64, "%zu words in the top level", words);
    queue->run = allocate(capacity_events, sizeof *queue->run);
    queue->heap = (struct heap){ .slot = allocate(capacity_events, sizeof(struct slot)),
                                 .place = PLACE_HEAP };
    queue->far = (struct heap){ .slot = allocate(capacity_events, sizeof(struct slot)), .place = PLACE_FAR };
    return queue;
}

void event_queue_destroy(struct event_queue *queue)
{
    if (queue == NULL) {
        return;
    }
    for (int level = 0; level < 3; level++) {
        free(queue->bits[level]);
    }
    free(queue->days);
    free(queue->run);
    free(queue->heap.slot);
    free(queue->far.slot);
    free(queue);
}

/* ---- heaps */

static inline bool slot_before(const struct slot *a, const struct slot *b)
{
    return a->at_ps != b->at_ps ? a->at_ps < b->at_ps : a->sequence < b->sequence;
}

static inline void heap_put(struct heap *heap, size_t index, struct slot slot)
{
    heap->slot[index] = slot;
    slot.event->index = (uint32_t)index;
}

static void heap_up(struct heap *heap, size_t index, struct slot slot)
{
    while (index > 0) {
        size_t parent = (index - 1) / HEAP_ARITY;
        if (!slot_before(&slot, &heap->slot[parent])) {
            break;
        }
        heap_put(heap, index, heap->slot[parent]);
        index = parent;
    }
    heap_put(heap, index, slot);
}

static void heap_down(struct heap *heap, size_t index, struct slot slot)
{
    for (;;) {
        size_t first = index * HEAP_ARITY + 1;
        if (first >= heap->count) {
            break;
        }
        size_t end = first + HEAP_ARITY < heap->count ? first + HEAP_ARITY : heap->count;
        size_t least = first;
        for (size_t child = first + 1; child < end; child++) {
            least = slot_before(&heap->slot[child], &heap->slot[least]) ? child : least;
        }
        if (!slot_before(&heap->slot[least], &slot)) {
            break;
        }
        heap_put(heap, index, heap->slot[least]);
        index = least;
    }
    heap_put(heap, index, slot);
}

static void heap_push(struct heap *heap, struct slot slot)
{
    slot.event->place = heap->place;
    heap_up(heap, heap->count++, slot);
}

static void heap_remove(struct heap *heap, size_t index)
{
    struct slot last = heap->slot[--heap->count];
    if (index == heap->count) {
        return;
    }
    if (index > 0 && slot_before(&last, &heap->slot[(index - 1) / HEAP_ARITY])) {
        heap_up(heap, index, last);
    } else {
        heap_down(heap, index, last);
    }
}

static inline struct slot slot_of(struct event *event)
{
    return (struct slot){ event->at.ps, event->sequence, event };
}

/* ---- buckets */

static void bits_set(struct event_queue *queue, uint64_t bucket)
{
    for (int level = 0; level < 3; level++) {
        uint64_t *word = &queue->bits[level][bucket / 64];
        bool was_empty = *word == 0;
        *word |= UINT64_C(1) << (bucket % 64);
        if (!was_empty) {
            return;
        }
        bucket /= 64;
    }
}

static void bits_clear(struct event_queue *queue, uint64_t bucket)
{
    for (int level = 0; level < 3; level++) {
        uint64_t *word = &queue->bits[level][bucket / 64];
        *word &= ~(UINT64_C(1) << (bucket % 64));
        if (*word != 0) {
            return;
        }
        bucket /= 64;
    }
}

/* First set bucket in [from, day_count), or UINT64_MAX. */
static uint64_t bits_next(const struct event_queue *queue, uint64_t from)
{
    uint64_t position = from, limit = queue->day_count;
    for (int level = 0; level < 3; level++) {
        if (position >= limit) {
            return UINT64_MAX;
        }
        uint64_t word = queue->bits[level][position / 64] >> (position % 64);
        if (word != 0) {
            position += (uint64_t)__builtin_ctzll(word);
            for (; level > 0; level--) {
                position = position * 64 + (uint64_t)__builtin_ctzll(queue->bits[level - 1][position]);
            }
            return position;
        }
        position = position / 64 + 1;
        limit = (limit + 63) / 64;
    }
    for (; position < limit; position++) { /* words of the top level, at most 64 */
        uint64_t word = queue->bits[2][position];
        if (word != 0) {
            position = position * 64 + (uint64_t)__builtin_ctzll(word);
            position = position * 64 + (uint64_t)__builtin_ctzll(queue->bits[1][position]);
            return position * 64 + (uint64_t)__builtin_ctzll(queue->bits[0][position]);
        }
    }
    return UINT64_MAX;
}

static void day_append(struct event_queue *queue, struct event *event, uint64_t day)
{
    uint64_t bucket = day & (queue->day_count - 1);
    struct day *list = &queue->days[bucket];
    event->place = PLACE_DAY;
    event->next = NULL;
    event->previous = list->tail;
    if (list->tail == NULL) {
        list->head = event;
        bits_set(queue, bucket);
    } else {
        list->tail->next = event;
    }
    list->tail = event;
    queue->day_events++;
}

static void day_unlink(struct event_queue *queue, struct event *event)
{
    uint64_t bucket = (event->at.ps >> queue->shift) & (queue->day_count - 1);
    struct day *list = &queue->days[bucket];
    if (queue->ahead == event) {
        queue->ahead = event->next;
    }
    *(event->previous == NULL ? &list->head : &event->previous->next) = event->next;
    *(event->next == NULL ? &list->tail : &event->next->previous) = event->previous;
    if (list->head == NULL) {
        bits_clear(queue, bucket);
    }
    queue->day_events--;
}

/* Put a pending event where its day belongs. */
static void place_event(struct event_queue *queue, struct event *event)
{
    uint64_t day = event->at.ps >> queue->shift;
    if (day <= queue->today) {
        heap_push(&queue->heap, slot_of(event));
    } else if (day - queue->today < queue->day_count) {
        day_append(queue, event, day);
    } else {
        heap_push(&queue->far, slot_of(event));
    }
}

/* ---- days */

static void run_sort(struct event_queue *queue)
{
    struct slot *run = queue->run;
    for (size_t i = 1; i < queue->run_end; i++) {
        struct slot slot = run[i];
        size_t at = i;
        for (; at > 0 && slot_before(&slot, &run[at - 1]); at--) {
            run[at] = run[at - 1];
        }
        run[at] = slot;
    }
}

/* Take a bucket's list into RUN (or HEAP, when it is long and out of order). Requires RUN and HEAP empty. */
static void load_bucket(struct event_queue *queue, uint64_t bucket)
{
    struct day *list = &queue->days[bucket];
    bool ordered = true;
    queue->run_first = queue->run_end = 0;
    for (struct event *event = list->head; event != NULL; event = event->next) {
        queue->run[queue->run_end] = slot_of(event);
        ordered = ordered && (queue->run_end == 0 ||
                              slot_before(&queue->run[queue->run_end - 1], &queue->run[queue->run_end]));
        queue->run_end++;
    }
    *list = (struct day){ NULL, NULL };
    bits_clear(queue, bucket);
    queue->day_events -= queue->run_end;
    if (!ordered && queue->run_end > RUN_SORT_MAX) {
        for (size_t i = 0; i < queue->run_end; i++) {
            heap_push(&queue->heap, queue->run[i]);
        }
        queue->run_end = 0;
        return;
    }
    if (!ordered) {
        run_sort(queue);
    }
    for (size_t i = 0; i < queue->run_end; i++) {
        queue->run[i].event->place = PLACE_RUN;
        queue->run[i].event->index = (uint32_t)i;
    }
}

/* The list that load_next_day will take next from the buckets, or NULL. */
static struct event *next_list(const struct event_queue *queue)
{
    if (queue->day_events < LOOK_AHEAD_EVENTS) {
        return NULL;
    }
    uint64_t bucket = bits_next(queue, (queue->today & (queue->day_count - 1)) + 1);
    bucket = bucket == UINT64_MAX ? bits_next(queue, 0) : bucket;
    return queue->days[bucket].head;
}

/* A list's events lie all over memory, and walking it would wait for each: ask for one more at every fire. */
static inline void look_ahead(struct event_queue *queue)
{
    if (queue->ahead != NULL) {
        queue->ahead = queue->ahead->next;
        __builtin_prefetch(queue->ahead);
    }
}

/* Advance to the next day that has events and load it; false when nothing is pending. */
static bool load_next_day(struct event_queue *queue)
{
    if (queue->pending == 0) {
        return false;
    }
    uint64_t mask = queue->day_count - 1;
    if (queue->day_events > 0) {
        uint64_t here = queue->today & mask;
        uint64_t bucket = bits_next(queue, here + 1);
        if (bucket == UINT64_MAX) {
            bucket = bits_next(queue, 0);
        }
        queue->today += (bucket - here) & mask;
    } else {
        queue->today = queue->far.slot[0].at_ps >> queue->shift;
    }
    while (queue->far.count > 0 &&
           (queue->far.slot[0].at_ps >> queue->shift) - queue->today < queue->day_count) {
        struct event *event = queue->far.slot[0].event;
        heap_remove(&queue->far, 0);
        day_append(queue, event, event->at.ps >> queue->shift);
    }
    load_bucket(queue, queue->today & mask);
    queue->ahead = next_list(queue);
    __builtin_prefetch(queue->ahead);
    return true;
}

/* ---- width of a day */

/* Collect every pending event of heaps and run, then of the buckets, and place them again under the new width. The list is
 * threaded through `next`, so nothing is allocated. */
static void rebuild(struct event_queue *queue, unsigned shift)
{
    struct event *all = NULL;
    for (size_t i = queue->run_first; i < queue->run_end; i++) {
        if (queue->run[i].event != NULL) {
            queue->run[i].event->next = all;
            all = queue->run[i].event;
        }
    }
    struct heap *heaps[] = { &queue->heap, &queue->far };
    for (int h = 0; h < 2; h++) {
        for (size_t i = 0; i < heaps[h]->count; i++) {
            heaps[h]->slot[i].event->next = all;
            all = heaps[h]->slot[i].event;
        }
        heaps[h]->count = 0;
    }
    for (uint64_t bucket = 0; (bucket = bits_next(queue, bucket)) != UINT64_MAX; bucket++) {
        struct day *list = &queue->days[bucket];
        list->tail->next = all;
        all = list->head;
        *list = (struct day){ NULL, NULL };
        bits_clear(queue, bucket);
    }
    queue->run_first = queue->run_end = 0;
    queue->day_events = 0;
    queue->ahead = NULL;
    queue->shift = shift;
    queue->today = queue->now.ps >> shift;
    while (all != NULL) {
        struct event *next = all->next;
        place_event(queue, all);
        all = next;
    }
}

/* Aim at EVENTS_PER_DAY by the gap seen since the last look. Costs O(pending) at most once per that many fires. */
static void retune(struct event_queue *queue)
{
    uint64_t gap_ps = (queue->now.ps - queue->retuned_at.ps) * EVENTS_PER_DAY / queue->fires_since_retune;
    unsigned shift = gap_ps < 2 ? 0 : 63u - (unsigned)__builtin_clzll(gap_ps);
    shift = shift > 50 ? 50 : shift;
    queue->fires_since_retune = 0;
    queue->retuned_at = queue->now;
    if (gap_ps > 0 && (shift > queue->shift + 1 || shift + 1 < queue->shift)) {
        rebuild(queue, shift);
    }
}

/* ---- public */

void event_queue_schedule(struct event_queue *queue, struct event *event, sim_time at)
{
    SIM_ASSERT(at.ps >= queue->now.ps, "scheduled for %llu ps at %llu ps", (unsigned long long)at.ps,
               (unsigned long long)queue->now.ps);
    SIM_ASSERT(event->place == PLACE_IDLE, "event for %llu ps is already pending for %llu ps",
               (unsigned long long)at.ps, (unsigned long long)event->at.ps);
    SIM_ASSERT(event->fire != NULL, "event for %llu ps has nothing to fire", (unsigned long long)at.ps);
    SIM_ASSERT(queue->pending < queue->capacity, "queue of %zu events is full", queue->capacity);
    event->at = at;
    event->sequence = queue->next_sequence++;
    queue->pending++;
    place_event(queue, event);
}

void event_queue_cancel(struct event_queue *queue, struct event *event)
{
    switch ((enum place)event->place) {
    case PLACE_IDLE: return;
    case PLACE_RUN: queue->run[event->index].event = NULL; break;
    case PLACE_HEAP: heap_remove(&queue->heap, event->index); break;
    case PLACE_DAY: day_unlink(queue, event); break;
    case PLACE_FAR: heap_remove(&queue->far, event->index); break;
    }
    event->place = PLACE_IDLE;
    queue->pending--;
}

/* The event to fire next, still in its place, or NULL. */
static struct event *first_event(struct event_queue *queue)
{
    for (;;) {
        while (queue->run_first < queue->run_end && queue->run[queue->run_first].event == NULL) {
            queue->run_first++;
        }
        bool has_run = queue->run_first < queue->run_end;
        if (queue->heap.count > 0 &&
            (!has_run || slot_before(&queue->heap.slot[0], &queue->run[queue->run_first]))) {
            return queue->heap.slot[0].event;
        }
        if (has_run) {
            return queue->run[queue->run_first].event;
        }
        if (!load_next_day(queue)) {
            return NULL;
        }
    }
}

static void fire_event(struct event_queue *queue, struct event *event)
{
    if (event->place == PLACE_RUN) {
        queue->run_first++;
    } else {
        heap_remove(&queue->heap, 0);
    }
    event->place = PLACE_IDLE;
    queue->pending--;
    queue->now = event->at;
    look_ahead(queue);
    queue->fires_since_retune++;
    if (queue->fires_since_retune >= RETUNE_FIRES && queue->fires_since_retune >= queue->pending) {
        retune(queue);
    }
    event->fire(event, queue);
}

uint64_t event_queue_run(struct event_queue *queue)
{
    uint64_t fired = 0;
    for (struct event *event; (event = first_event(queue)) != NULL; fired++) {
        fire_event(queue, event);
    }
    return fired;
}

uint64_t event_queue_run_until(struct event_queue *queue, sim_time limit)
{
    uint64_t fired = 0;
    for (struct event *event; (event = first_event(queue)) != NULL && event->at.ps <= limit.ps; fired++) {
        fire_event(queue, event);
    }
    queue->now = time_max(queue->now, limit);
    return fired;
}

sim_time event_queue_now(const struct event_queue *queue)
{
    return queue->now;
}

size_t event_queue_pending(const struct event_queue *queue)
{
    return queue->pending;
}

static size_t check_heap(const struct event_queue *queue, const struct heap *heap)
{
    for (size_t i = 0; i < heap->count; i++) {
        const struct event *event = heap->slot[i].event;
        SIM_ASSERT(event->place == heap->place && event->index == i, "slot %zu holds place %u index %u", i,
                   event->place, event->index);
        SIM_ASSERT(i == 0 || !slot_before(&heap->slot[i], &heap->slot[(i - 1) / HEAP_ARITY]),
                   "slot %zu is before its parent", i);
        uint64_t day = event->at.ps >> queue->shift;
        SIM_ASSERT(heap->place == PLACE_FAR ? day >= queue->today + queue->day_count : day <= queue->today,
                   "day %llu in place %u", (unsigned long long)day, heap->place);
    }
    return heap->count;
}

void event_queue_check(const struct event_queue *queue)
{
    size_t found = check_heap(queue, &queue->heap) + check_heap(queue, &queue->far);
    for (size_t i = queue->run_first; i < queue->run_end; i++) {
        const struct slot *slot = &queue->run[i];
        SIM_ASSERT(i == queue->run_first || !slot_before(slot, slot - 1), "run is out of order at %zu", i);
        found += slot->event != NULL;
    }
    size_t in_days = 0;
    for (uint64_t bucket = 0; bucket < queue->day_count; bucket++) {
        bool marked = queue->bits[0][bucket / 64] >> (bucket % 64) & 1;
        SIM_ASSERT(marked == (queue->days[bucket].head != NULL), "bit of bucket %llu",
                   (unsigned long long)bucket);
        for (const struct event *event = queue->days[bucket].head; event != NULL; event = event->next) {
            uint64_t day = event->at.ps >> queue->shift;
            SIM_ASSERT(event->place == PLACE_DAY && (day & (queue->day_count - 1)) == bucket,
                       "bucket %llu holds day %llu", (unsigned long long)bucket, (unsigned long long)day);
            SIM_ASSERT(day > queue->today && day - queue->today < queue->day_count, "day %llu on day %llu",
                       (unsigned long long)day, (unsigned long long)queue->today);
            in_days++;
        }
    }
    SIM_ASSERT(in_days == queue->day_events, "%zu in buckets, counted %zu", in_days, queue->day_events);
    SIM_ASSERT(found + in_days == queue->pending, "%zu found, %zu pending", found + in_days, queue->pending);
}
