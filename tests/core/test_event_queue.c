#include "sim/core/event_queue.h"
#include "sim/core/rng.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MAX 200000

struct log {
    uint64_t at_ps[LOG_MAX];
    uint32_t id[LOG_MAX];
    size_t count;
};

struct item {
    struct event event;
    struct log *log;
    uint32_t id;
};

static void note(struct event *event, struct event_queue *queue)
{
    struct item *item = (struct item *)event;
    cr_assert(eq(u64, event_queue_now(queue).ps, event->at.ps));
    cr_assert(event_is_idle(event));
    item->log->at_ps[item->log->count] = event->at.ps;
    item->log->id[item->log->count++] = item->id;
}

static struct item *new_items(size_t count, struct log *log)
{
    struct item *items = calloc(count, sizeof *items);
    for (size_t i = 0; i < count; i++) {
        items[i] = (struct item){ .event = { .fire = note }, .log = log, .id = (uint32_t)i };
    }
    return items;
}

static struct log *new_log(void)
{
    return calloc(1, sizeof(struct log));
}

Test(event_queue, later_fires_later_and_equal_times_in_schedule_order)
{
    struct log *log = new_log();
    struct item *items = new_items(5, log);
    struct event_queue *queue = event_queue_create(5);
    const uint64_t at[] = { 30, 10, 10, UINT64_MAX, 10 };
    for (int i = 0; i < 5; i++) {
        event_queue_schedule(queue, &items[i].event, (sim_time){ at[i] });
    }
    cr_expect(eq(u64, event_queue_run(queue), 5));
    const uint32_t order[] = { 1, 2, 4, 0, 3 };
    for (int i = 0; i < 5; i++) {
        cr_expect(eq(u32, log->id[i], order[i]), "place %d", i);
    }
    cr_expect(eq(u64, event_queue_now(queue).ps, UINT64_MAX));
    event_queue_destroy(queue);
    free(items);
    free(log);
}

Test(event_queue, run_until_stops_at_the_limit_and_not_before)
{
    struct log *log = new_log();
    struct item *items = new_items(3, log);
    struct event_queue *queue = event_queue_create(3);
    event_queue_schedule(queue, &items[0].event, (sim_time){ 100 });
    event_queue_schedule(queue, &items[1].event, (sim_time){ 101 });
    cr_expect(eq(u64, event_queue_run_until(queue, (sim_time){ 99 }), 0));
    cr_expect(eq(u64, event_queue_now(queue).ps, 99));
    cr_expect(eq(u64, event_queue_run_until(queue, (sim_time){ 100 }), 1));
    cr_expect(eq(sz, event_queue_pending(queue), 1));
    /* between limit and the event already looked at */
    event_queue_schedule(queue, &items[2].event, (sim_time){ 100 });
    event_queue_check(queue);
    event_queue_run(queue);
    cr_expect(eq(u32, log->id[1], 2));
    cr_expect(eq(u32, log->id[2], 1));
    event_queue_destroy(queue);
    free(items);
    free(log);
}

Test(event_queue, a_cancelled_event_does_not_fire_and_an_idle_one_may_be_cancelled)
{
    struct log *log = new_log();
    struct item *items = new_items(3, log);
    struct event_queue *queue = event_queue_create(3);
    event_queue_cancel(queue, &items[0].event);
    for (int i = 0; i < 3; i++) {
        event_queue_schedule(queue, &items[i].event, (sim_time){ 10u + (uint64_t)i });
    }
    event_queue_cancel(queue, &items[1].event);
    event_queue_schedule(queue, &items[1].event, (sim_time){ 11 });
    event_queue_cancel(queue, &items[1].event);
    cr_expect(eq(u64, event_queue_run(queue), 2));
    cr_expect(eq(u32, log->id[0], 0));
    cr_expect(eq(u32, log->id[1], 2));
    event_queue_destroy(queue);
    free(items);
    free(log);
}

struct canceller {
    struct event event;
    struct event *victims[2];
};

static void cancel_victims(struct event *event, struct event_queue *queue)
{
    struct canceller *canceller = (struct canceller *)event;
    event_queue_cancel(queue, canceller->victims[0]);
    event_queue_cancel(queue, canceller->victims[1]);
    event_queue_schedule(queue, canceller->victims[0], event->at);
}

/* The victims are due at the same instant, so they are already taken out of their day when the canceller fires. */
Test(event_queue, an_event_of_the_same_instant_can_be_cancelled_and_scheduled_again)
{
    struct log *log = new_log();
    struct item *items = new_items(3, log);
    struct canceller canceller = { .event = { .fire = cancel_victims },
                                   .victims = { &items[0].event, &items[2].event } };
    struct event_queue *queue = event_queue_create(4);
    event_queue_schedule(queue, &canceller.event, (sim_time){ 50 });
    for (int i = 0; i < 3; i++) {
        event_queue_schedule(queue, &items[i].event, (sim_time){ 50 });
    }
    cr_expect(eq(u64, event_queue_run(queue), 3));
    cr_expect(eq(sz, log->count, 2));
    cr_expect(eq(u32, log->id[0], 1));
    cr_expect(eq(u32, log->id[1], 0)); /* 0 went to the end of the line */
    event_queue_destroy(queue);
    free(items);
    free(log);
}

Test(event_queue, the_past_is_closed, .signal = SIGABRT)
{
    struct item *items = new_items(2, new_log());
    struct event_queue *queue = event_queue_create(2);
    event_queue_schedule(queue, &items[0].event, (sim_time){ 10 });
    event_queue_run(queue);
    event_queue_schedule(queue, &items[1].event, (sim_time){ 9 });
}

Test(event_queue, a_full_queue_is_a_bug_of_the_caller, .signal = SIGABRT)
{
    struct item *items = new_items(2, new_log());
    struct event_queue *queue = event_queue_create(1);
    event_queue_schedule(queue, &items[0].event, (sim_time){ 10 });
    event_queue_schedule(queue, &items[1].event, (sim_time){ 10 });
}

Test(event_queue, a_pending_event_cannot_be_scheduled_again, .signal = SIGABRT)
{
    struct item *items = new_items(1, new_log());
    struct event_queue *queue = event_queue_create(2);
    event_queue_schedule(queue, &items[0].event, (sim_time){ 10 });
    event_queue_schedule(queue, &items[0].event, (sim_time){ 11 });
}

/* ---- against a plain sorted list: random schedules, cancels and partial runs on every scale of time at once */

struct pending {
    uint64_t at_ps, sequence;
    uint32_t id;
};

static int compare_pending(const void *a, const void *b)
{
    const struct pending *x = a, *y = b;
    return x->at_ps != y->at_ps ? (x->at_ps > y->at_ps) - (x->at_ps < y->at_ps)
                                : (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static uint64_t random_delay(struct rng *rng)
{
    switch (rng_below(rng, 6)) {
    case 0: return 0;
    case 1: return rng_below(rng, 3);
    case 2: return 1000 * rng_below(rng, 4); /* many equal times */
    case 3: return rng_below(rng, 1000000);
    case 4: return rng_below(rng, UINT64_C(1) << 34);
    default: return rng_below(rng, UINT64_C(1) << 44);
    }
}

/* Returns a hash of the firing order. */
static uint64_t run_random(uint64_t seed, size_t item_count, int steps)
{
    struct log *log = new_log();
    struct item *items = new_items(item_count, log);
    struct pending *model = calloc(item_count, sizeof *model);
    size_t model_count = 0;
    uint64_t sequence = 0, hash = HASH64_START;
    struct rng rng;
    struct event_queue *queue = event_queue_create(item_count);
    rng_init(&rng, seed, "event_queue test");
    for (size_t i = 0; i < item_count; i++) { /* a deep queue from the start */
        uint64_t at = rng_below(&rng, 1000000);
        event_queue_schedule(queue, &items[i].event, (sim_time){ at });
        model[model_count++] = (struct pending){ at, sequence++, items[i].id };
    }
    for (int step = 0; step < steps; step++) {
        struct item *item = &items[rng_below(&rng, item_count)];
        uint64_t now = event_queue_now(queue).ps, action = rng_below(&rng, 20);
        if (action < 12) {
            if (event_is_idle(&item->event)) {
                uint64_t at = now + random_delay(&rng);
                event_queue_schedule(queue, &item->event, (sim_time){ at });
                model[model_count++] = (struct pending){ at, sequence++, item->id };
            }
        } else if (action < 15) {
            event_queue_cancel(queue, &item->event);
            for (size_t i = 0; i < model_count; i++) {
                if (model[i].id == item->id) {
                    model[i] = model[--model_count];
                    break;
                }
            }
        } else if (action < 19 || step % 500 != 0) {
            uint64_t limit = now + (item_count > 1000 ? rng_below(&rng, 2000) : random_delay(&rng) / 8);
            log->count = 0;
            event_queue_run_until(queue, (sim_time){ limit });
            qsort(model, model_count, sizeof *model, compare_pending);
            size_t due = 0;
            while (due < model_count && model[due].at_ps <= limit) {
                due++;
            }
            cr_assert(eq(sz, log->count, due), "step %d", step);
            for (size_t i = 0; i < due; i++) {
                cr_assert(eq(u32, log->id[i], model[i].id), "step %d", step);
                cr_assert(eq(u64, log->at_ps[i], model[i].at_ps), "step %d", step);
                hash = hash64_add(hash64_add(hash, model[i].at_ps), model[i].id);
            }
            memmove(model, model + due, (model_count - due) * sizeof *model);
            model_count -= due;
        }
        cr_assert(eq(sz, event_queue_pending(queue), model_count), "step %d", step);
        if (step % 97 == 0) {
            event_queue_check(queue);
        }
    }
    event_queue_destroy(queue);
    free(model);
    free(items);
    free(log);
    return hash;
}

Test(event_queue, order_equals_a_sorted_list, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        run_random(seed, 700, 60000);
    }
    run_random(5, 8000, 4000); /* deep enough to look ahead in host memory */
}

Test(event_queue, two_runs_have_one_order, .timeout = 60)
{
    cr_expect(eq(u64, run_random(9, 700, 60000), run_random(9, 700, 60000)));
    cr_expect(ne(u64, run_random(9, 700, 60000), run_random(10, 700, 60000)));
}

/* A cancelled event belongs to the caller again, who may free it: the sanitized run fails if the queue still looks at it.
 * 4,000 events a nanosecond apart; before each fire one of the next 20 is cancelled and freed. */
Test(event_queue, a_cancelled_event_may_be_freed)
{
    enum { COUNT = 4000 };
    struct log *log = new_log();
    struct item **items = calloc(COUNT, sizeof *items);
    struct event_queue *queue = event_queue_create(COUNT);
    struct rng rng;
    size_t cancelled = 0;
    rng_init(&rng, 1, "free");
    for (size_t i = 0; i < COUNT; i++) {
        items[i] = new_items(1, log);
        event_queue_schedule(queue, &items[i]->event, (sim_time){ 1000 * i });
    }
    for (size_t i = 0; i < COUNT; i++) {
        size_t victim = i + 1 + rng_below(&rng, 20);
        if (victim < COUNT && items[victim] != NULL) {
            event_queue_cancel(queue, &items[victim]->event);
            free(items[victim]);
            items[victim] = NULL;
            cancelled++;
        }
        event_queue_run_until(queue, (sim_time){ 1000 * i });
    }
    cr_expect(gt(sz, cancelled, COUNT / 4));
    cr_expect(eq(sz, log->count, COUNT - cancelled));
    event_queue_destroy(queue);
    for (size_t i = 0; i < COUNT; i++) {
        free(items[i]);
    }
    free(items);
    free(log);
}

/* ---- the width of a day follows the load (many thousand fires), and the order stays that of a sorted list */

struct ticker {
    struct event event;
    uint64_t *last_at, *last_sequence, *fires;
    uint64_t period_ps;
    bool *ordered;
};

static void tick(struct event *event, struct event_queue *queue)
{
    struct ticker *ticker = (struct ticker *)event;
    bool after = event->at.ps > *ticker->last_at ||
                 (event->at.ps == *ticker->last_at && event->sequence > *ticker->last_sequence);
    *ticker->ordered = *ticker->ordered && (after || *ticker->fires == 0);
    *ticker->last_at = event->at.ps;
    *ticker->last_sequence = event->sequence;
    ++*ticker->fires;
    event_queue_schedule(queue, event, (sim_time){ event->at.ps + ticker->period_ps });
}

static void run_tickers(size_t count, uint64_t (*period)(size_t index), uint64_t until_ps)
{
    uint64_t last_at = 0, last_sequence = 0, fires = 0, expected = 0;
    bool ordered = true;
    struct ticker *tickers = calloc(count, sizeof *tickers);
    struct event_queue *queue = event_queue_create(count);
    for (size_t i = 0; i < count; i++) {
        tickers[i] = (struct ticker){ .event = { .fire = tick },
                                      .last_at = &last_at,
                                      .last_sequence = &last_sequence,
                                      .fires = &fires,
                                      .period_ps = period(i),
                                      .ordered = &ordered };
        event_queue_schedule(queue, &tickers[i].event, (sim_time){ tickers[i].period_ps });
        expected += until_ps / tickers[i].period_ps;
    }
    cr_expect(eq(u64, event_queue_run_until(queue, (sim_time){ until_ps }), expected));
    cr_expect(eq(u64, fires, expected));
    cr_expect(ordered);
    event_queue_check(queue);
    event_queue_destroy(queue);
    free(tickers);
}

static uint64_t period_dense(size_t i)
{
    return 1 + i % 7;
}
static uint64_t period_sparse(size_t i)
{
    return UINT64_C(10000000000) + i * 1000003;
}
static uint64_t period_mixed(size_t i)
{
    return UINT64_C(1) << (i % 40);
}
static uint64_t period_equal(size_t i)
{
    return 1000 + 0 * i;
}

Test(event_queue, order_holds_at_every_density, .timeout = 60)
{
    run_tickers(1000, period_dense, 200);
    run_tickers(1000, period_sparse, UINT64_C(2000000000000));
    run_tickers(400, period_mixed, 40000);
    run_tickers(5000, period_equal, 40000);
    run_tickers(1, period_equal, 20000000);
}
