/* Events in (time, sequence) order: a later time fires later, equal times in the order they were scheduled.
 * A leaf of sim/core: knows nothing of caches or links. The queue never allocates after create; callers embed
 * `struct event` in what is to be woken. */
#ifndef SIM_CORE_EVENT_QUEUE_H
#define SIM_CORE_EVENT_QUEUE_H
#include "sim/core/units.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_queue; /* opaque: the layout lives in event_queue.c */

/* Zeroed memory with `fire` set is an idle event. The caller writes `fire` alone, and only while the event is idle. */
struct event {
    sim_time at;
    uint64_t sequence; /* set by the queue */
    void (*fire)(struct event *self, struct event_queue *queue);
    struct event *next, *previous; /* the queue's own */
    uint32_t place, index;         /* the queue's own; place 0: idle */
};

static inline bool event_is_idle(const struct event *event)
{
    return event->place == 0;
}

/* capacity_events: most events pending at once, > 0. Aborts if memory is short; about 100 bytes an event. */
struct event_queue *event_queue_create(size_t capacity_events);
void event_queue_destroy(struct event_queue *queue); /* NULL is allowed; pending events stay as they are */

/* Have `event` fire at `at`; constant time on average. The queue borrows `event` until it fires or is cancelled; when it
 * fires it is idle again and may be scheduled or freed.
 * Requires (asserted): at >= event_queue_now(queue), event idle with `fire` set, queue not full. */
void event_queue_schedule(struct event_queue *queue, struct event *event, sim_time at);

/* Take a pending event back; an idle event is left alone. */
void event_queue_cancel(struct event_queue *queue, struct event *event);

/* Fire events until none is pending, or until none at or before `limit` is. Returns how many fired.
 * After run_until, now is `limit` even when nothing was due. */
uint64_t event_queue_run(struct event_queue *queue);
uint64_t event_queue_run_until(struct event_queue *queue, sim_time limit);

sim_time event_queue_now(
    const struct event_queue *queue); /* of the event that fired last; 0 before the first */
size_t event_queue_pending(const struct event_queue *queue);

/* Walk the invariants; aborts on a breach. O(capacity), for tests. */
void event_queue_check(const struct event_queue *queue);

#endif
