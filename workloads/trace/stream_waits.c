/* Which event waits order which streams.
 *
 * Most recordings name neither the stream nor the event of a record or wait call, so both are inferred, for each thread in
 * host order. Where the profiler does say (cuda_sync events), that is taken instead.
 *
 *   own-stream collective  one whose operator waits before it launches: the process group brings its stream up to date.
 *                      Any other collective was launched on the caller's stream, like a kernel
 *   current stream     that of the thread's last launch that is no own-stream collective (before any: of its next one)
 *   record             is on the current stream. Inside a library region (nccl: annotation) records and waits are the
 *                      library's own bookkeeping and order nothing else, but the last record behind an own-stream
 *                      collective marks its end
 *   wait, in an operator that launches an own-stream collective behind it: the collective's stream waits for the thread's
 *                      last record
 *   wait, elsewhere    the stream of the thread's next launch that is no own-stream collective waits for: the record just
 *                      before it (nothing launched between), or the oldest end of an own-stream collective that nobody
 *                      waited for, or the latest record on another stream that nobody waited for
 *   event sync         waits for the latest record that was complete when it returned
 *
 * Some profilers record waits and no records. A record is then taken to stand behind the launch it would follow: that of
 * the collective, or the thread's last one. Many ends of collectives are then never waited for in sight (the next step does), so
 * that the oldest says little: a collective as whose end the waiting kernel began on the device goes first.
 *
 * A guess that device times contradict (the waiting kernel began before the awaited one had ended) is dropped and counted.
 * What orders nothing becomes part of the operator around it. */
#include "workloads/trace/trace_internal.h"
#include <stdlib.h>
#include <string.h>

#define CLOCK_SLACK_NS 1000 /* device clocks of different engines differ by less */
#define RELEASE_NS 20000    /* a stream that waits goes on within */
#define LOOK_BACK 64        /* records tried for a wait without one beside it */

struct sync_fact {
    uint64_t correlation;
    const struct trace_sync_args *args;
};

/* Arrays over items unless said otherwise; TRACE_NONE where there is none. A launch stands for the record behind it when
 * the trace has no records. */
struct resolver {
    struct host_step *step;
    bool *own_stream;          /* launches: an own-stream collective */
    uint32_t *next_launch;     /* the thread's next launch that is none */
    uint32_t *next_collective; /* the next own-stream collective under the same operator */
    bool no_records;
    uint32_t *device_before; /* records: last device item of their stream launched before */
    bool *needed;            /* records that something waits for */
    uint32_t *ends; /* records that mark the end of a collective, in host order; not yet waited for */
    size_t end_count;
    uint32_t *records; /* all others, in host order */
    size_t record_count;
    uint32_t *stream_last; /* [stream] last device item so far */
    uint32_t *current;     /* [thread] stream */
    uint32_t *last_launch; /* [thread] stream of the last launch of any kind */
    uint32_t *last_record; /* [thread] */
    bool *launched_since;  /* [thread] something was launched behind last_record */
    uint32_t *region_end;  /* [thread] last record of the open library region behind its launch */
    struct sync_fact *facts;
    size_t fact_count;
};

static uint32_t *none_array(size_t count)
{
    uint32_t *array = malloc((count + 1) * sizeof *array);
    SIM_ASSERT(array != NULL, "out of memory");
    for (size_t i = 0; i <= count; i++) {
        array[i] = TRACE_NONE;
    }
    return array;
}

static int compare_facts(const void *a, const void *b)
{
    const struct sync_fact *x = a, *y = b;
    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

static void find_facts(struct resolver *r)
{
    const struct trace_file *file = r->step->file;
    for (size_t pass = 0; pass < 2; pass++) {
        size_t count = 0;
        for (size_t i = 0; i < file->event_count; i++) {
            const struct trace_event *event = &file->events[i];
            if (event->category == TRACE_SYNC_INFO && event->correlation != 0) {
                if (pass == 1) {
                    r->facts[count] = (struct sync_fact){ event->correlation, event->args };
                }
                count++;
            }
        }
        if (pass == 0) {
            r->fact_count = count;
            r->facts = malloc((count + 1) * sizeof *r->facts);
            SIM_ASSERT(r->facts != NULL, "out of memory");
        }
    }
    if (r->fact_count > 0) {
        qsort(r->facts, r->fact_count, sizeof *r->facts, compare_facts);
    }
}

static const struct trace_sync_args *fact_of(const struct resolver *r, const struct host_item *item)
{
    struct sync_fact key = { item->event->correlation, NULL };
    const struct sync_fact *fact = r->fact_count == 0 ? NULL
                                                      : bsearch(&key, r->facts, r->fact_count,
                                                                sizeof *r->facts, compare_facts);
    return fact == NULL ? NULL : fact->args;
}

static uint32_t stream_named(const struct resolver *r, const char *id)
{
    for (size_t i = 0; id != NULL && i < r->step->device_count; i++) {
        const struct device_item *device = &r->step->device[i];
        if (r->step->file->tracks[device->event->track].thread == id) {
            return device->stream;
        }
    }
    return TRACE_NONE;
}

static uint32_t stream_of_launch(const struct host_step *step, uint32_t item)
{
    return step->device[step->items[item].device_first].stream;
}

/* Forward: does the operator around a collective's launch wait before it? */
static void find_own_stream_collectives(struct resolver *r)
{
    const struct host_step *step = r->step;
    bool *waited_in = calloc(step->item_count + 1, sizeof *waited_in); /* [operator item] */
    SIM_ASSERT(waited_in != NULL, "out of memory");
    for (size_t i = 0; i < step->item_count; i++) {
        const struct host_item *item = &step->items[i];
        if (item->parent == TRACE_NONE) {
            continue;
        }
        if (item->kind == HOST_WAIT && item->region == TRACE_NONE) {
            waited_in[item->parent] = true;
        } else if (item->kind == HOST_LAUNCH && collective_is(step->device[item->device_first].event)) {
            r->own_stream[i] = waited_in[item->parent];
        }
    }
    free(waited_in);
}

/* Backward, once. Under an operator: only the innermost one counts, as it holds the waits and the launch. */
static void look_ahead(struct resolver *r)
{
    struct host_step *step = r->step;
    uint32_t *next = none_array(step->thread_count);
    uint32_t *collective_in = none_array(step->item_count); /* [operator item] */
    for (size_t i = step->item_count; i-- > 0;) {
        const struct host_item *item = &step->items[i];
        r->next_launch[i] = next[item->thread];
        r->next_collective[i] = item->parent == TRACE_NONE ? TRACE_NONE : collective_in[item->parent];
        if (item->kind != HOST_LAUNCH || item->event == NULL) {
            continue;
        }
        if (r->own_stream[i]) {
            collective_in[item->parent] = (uint32_t)i;
        } else {
            next[item->thread] = (uint32_t)i;
        }
    }
    free(next);
    free(collective_in);
}

static uint32_t current_stream(const struct resolver *r, size_t i)
{
    uint32_t thread = r->step->items[i].thread;
    if (r->current[thread] != TRACE_NONE) {
        return r->current[thread];
    }
    return r->next_launch[i] != TRACE_NONE ? stream_of_launch(r->step, r->next_launch[i]) : 0;
}

/* First device item of the stream launched behind item i. */
static uint32_t device_behind(const struct host_step *step, uint32_t stream, size_t i)
{
    size_t low = 0, high = step->device_count; /* device items are in launch order */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (step->device[middle].launch <= i) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < step->device_count; low++) {
        if (step->device[low].stream == stream) {
            return (uint32_t)low;
        }
    }
    return TRACE_NONE;
}

static bool contradicted(const struct resolver *r, uint32_t record, size_t wait, uint32_t stream)
{
    uint32_t before = r->device_before[record], behind = device_behind(r->step, stream, wait);
    if (before == TRACE_NONE || behind == TRACE_NONE) {
        return false;
    }
    const struct trace_event *awaited = r->step->device[before].event,
                             *waiting = r->step->device[behind].event;
    return waiting->start_ns < awaited->start_ns + awaited->duration_ns - CLOCK_SLACK_NS;
}

static void resolve_to(struct resolver *r, size_t wait, uint32_t record, uint32_t stream)
{
    struct host_item *item = &r->step->items[wait];
    item->waits_for = record;
    item->stream = stream;
    item->skip = false;
    r->needed[record] = true;
}

static void wait_for_fact(struct resolver *r, size_t i, const struct trace_sync_args *fact)
{
    uint32_t waiting = stream_named(r, fact->waiting_stream), waited = stream_named(r, fact->waited_stream);
    if (waiting == TRACE_NONE || waited == TRACE_NONE || waiting == waited) {
        return;
    }
    for (size_t k = i; k-- > 0;) {
        const struct host_item *record = &r->step->items[k];
        if (record->kind == HOST_RECORD && record->stream == waited) {
            resolve_to(r, i, (uint32_t)k, waiting);
            return;
        }
    }
}

/* Could `record` be what the wait is for? On another stream, and not against the device times. */
static bool is_candidate(const struct resolver *r, uint32_t record, size_t wait, uint32_t stream,
                         bool *refused)
{
    if (record == TRACE_NONE || r->step->items[record].stream == stream) {
        return false;
    }
    bool against = contradicted(r, record, wait, stream);
    *refused = *refused || against;
    return !against;
}

/* Device times show the wait: the kernel behind it began as the awaited one ended, though its stream had been idle and its
 * launch was long over. */
static bool explains_start(const struct resolver *r, uint32_t record, size_t wait, uint32_t stream)
{
    uint32_t before = r->device_before[record], behind = device_behind(r->step, stream, wait), own = r->stream_last[stream];
    if (before == TRACE_NONE || behind == TRACE_NONE) {
        return false;
    }
    const struct trace_event *awaited = r->step->device[before].event, *waiting = r->step->device[behind].event;
    int64_t end_ns = awaited->start_ns + awaited->duration_ns;
    const struct host_item *launch = &r->step->items[r->step->device[behind].launch];
    const struct trace_event *last = own != TRACE_NONE ? r->step->device[own].event : NULL;
    bool idle = last == NULL || last->start_ns + last->duration_ns < end_ns - RELEASE_NS;
    return idle && launch->start_ns < end_ns - RELEASE_NS && waiting->start_ns >= end_ns - CLOCK_SLACK_NS &&
           waiting->start_ns <= end_ns + RELEASE_NS;
}

static uint32_t take_end(struct resolver *r, size_t k)
{
    uint32_t end = r->ends[k];
    memmove(&r->ends[k], &r->ends[k + 1], (r->end_count - k - 1) * sizeof *r->ends);
    r->end_count--;
    return end;
}

static uint32_t find_awaited(struct resolver *r, size_t i, uint32_t stream, bool *refused)
{
    uint32_t thread = r->step->items[i].thread, beside = r->last_record[thread];
    if (!r->launched_since[thread] && is_candidate(r, beside, i, stream, refused)) {
        return beside;
    }
    for (size_t k = r->no_records ? r->end_count : 0; k-- > 0;) {
        if (r->step->items[r->ends[k]].stream != stream && explains_start(r, r->ends[k], i, stream)) {
            return take_end(r, k);
        }
    }
    for (size_t k = 0; k < r->end_count; k++) {
        if (is_candidate(r, r->ends[k], i, stream, refused)) {
            return take_end(r, k);
        }
    }
    for (size_t back = 1; back <= r->record_count && back <= LOOK_BACK; back++) {
        uint32_t record = r->records[r->record_count - back];
        if (!r->needed[record] && is_candidate(r, record, i, stream, refused)) {
            return record;
        }
    }
    return TRACE_NONE;
}

static void wait_elsewhere(struct resolver *r, size_t i)
{
    uint32_t next = r->next_launch[i];
    uint32_t stream = next != TRACE_NONE ? stream_of_launch(r->step, next) : current_stream(r, i);
    bool refused = false;
    uint32_t awaited = find_awaited(r, i, stream, &refused);
    if (awaited != TRACE_NONE) {
        resolve_to(r, i, awaited, stream);
        return;
    }
    r->step->waits_contradicted += refused;
    r->step->waits_unresolved += !refused;
}

static void on_wait(struct resolver *r, size_t i)
{
    struct host_item *item = &r->step->items[i];
    item->skip = true;
    const struct trace_sync_args *fact = fact_of(r, item);
    if (fact != NULL && fact->waited_stream != NULL) {
        wait_for_fact(r, i, fact);
    } else if (r->step->stream_count > 1 && item->region == TRACE_NONE) {
        uint32_t collective = r->next_collective[i];
        uint32_t record = r->last_record[item->thread];
        if (collective == TRACE_NONE) {
            wait_elsewhere(r, i);
        } else if (record != TRACE_NONE &&
                   r->step->items[record].stream != stream_of_launch(r->step, collective)) {
            resolve_to(r, i, record, stream_of_launch(r->step, collective));
        }
    }
}

static void remember_record(struct resolver *r, size_t i)
{
    uint32_t thread = r->step->items[i].thread;
    r->last_record[thread] = (uint32_t)i;
    r->launched_since[thread] = false;
    r->records[r->record_count++] = (uint32_t)i;
}

static void on_record(struct resolver *r, size_t i)
{
    struct host_item *item = &r->step->items[i];
    item->skip = true; /* until something waits for it */
    item->stream = current_stream(r, i);
    if (item->region == TRACE_NONE) {
        remember_record(r, i);
    } else if (r->last_launch[item->thread] != TRACE_NONE) {
        item->stream = r->last_launch[item->thread];
        r->region_end[item->thread] = (uint32_t)i;
    }
    r->device_before[i] = r->stream_last[item->stream];
}

/* When all that was launched on the record's stream before it had ended. */
static int64_t complete_ns(const struct resolver *r, uint32_t record)
{
    uint32_t before = r->device_before[record];
    const struct trace_event *event = before == TRACE_NONE ? NULL : r->step->device[before].event;
    return event == NULL ? INT64_MIN : event->start_ns + event->duration_ns;
}

static uint32_t record_awaited_by_host(const struct resolver *r, const struct host_item *sync)
{
    int64_t returned_ns = sync->start_ns + sync->event->duration_ns;
    for (size_t back = 1; back <= r->record_count && back <= LOOK_BACK; back++) {
        uint32_t record = r->records[r->record_count - back];
        if (complete_ns(r, record) <= returned_ns + CLOCK_SLACK_NS) {
            return record;
        }
    }
    return r->record_count > 0 ? r->records[r->record_count - 1] : TRACE_NONE;
}

static void on_sync(struct resolver *r, struct host_item *item, size_t i)
{
    if (item->kind == HOST_SYNC_EVENT) {
        item->waits_for = record_awaited_by_host(r, item);
        if (item->waits_for != TRACE_NONE) {
            r->needed[item->waits_for] = true;
            return;
        }
        item->kind =
            HOST_SYNC_STREAM; /* the record is not in the step: the stream so far is the best reading */
    }
    const struct trace_sync_args *fact = fact_of(r, item);
    uint32_t named = fact == NULL ? TRACE_NONE : stream_named(r, fact->waiting_stream);
    uint32_t last = r->last_launch[item->thread];
    item->stream = named != TRACE_NONE ? named : last != TRACE_NONE ? last : current_stream(r, i);
}

static void on_launch(struct resolver *r, size_t i)
{
    struct host_step *step = r->step;
    struct host_item *item = &step->items[i];
    for (uint32_t k = item->device_first; k < item->device_first + item->device_count; k++) {
        r->stream_last[step->device[k].stream] = k;
    }
    if (item->event == NULL) {
        return;
    }
    item->stream = step->device[item->device_first].stream;
    r->last_launch[item->thread] = item->stream;
    r->launched_since[item->thread] = true;
    r->device_before[i] = item->device_first + item->device_count - 1;
    if (!r->own_stream[i]) {
        r->current[item->thread] = item->stream;
    }
    if (r->no_records && !r->own_stream[i]) {
        remember_record(r, i);
    } else if (r->no_records && item->stream != r->current[item->thread]) {
        r->ends[r->end_count++] = (uint32_t)i;
    }
}

/* A library region is over when its thread's next item is outside it: its last record is the collective's end. */
static void close_region(struct resolver *r, const struct host_item *item)
{
    uint32_t *end = &r->region_end[item->thread];
    if (*end == TRACE_NONE || r->step->items[*end].region == item->region) {
        return;
    }
    if (r->step->items[*end].stream != r->current[item->thread]) {
        r->ends[r->end_count++] = *end;
    }
    *end = TRACE_NONE;
}

static void fold_skipped(struct host_step *step)
{
    for (size_t i = 0; i < step->item_count; i++) {
        struct host_item *item = &step->items[i];
        if (item->skip && item->parent != TRACE_NONE) {
            step->items[item->parent].own_ns += item->own_ns;
        }
    }
}

static void resolve_items(struct resolver *r)
{
    for (size_t i = 0; i < r->step->item_count; i++) {
        struct host_item *item = &r->step->items[i];
        close_region(r, item);
        switch (item->kind) {
        case HOST_LAUNCH: on_launch(r, i); break;
        case HOST_RECORD: on_record(r, i); break;
        case HOST_WAIT: on_wait(r, i); break;
        case HOST_SYNC_STREAM:
        case HOST_SYNC_EVENT: on_sync(r, item, i); break;
        default: break;
        }
    }
    for (size_t i = 0; i < r->step->item_count; i++) {
        struct host_item *item = &r->step->items[i];
        item->skip = item->kind == HOST_RECORD ? !r->needed[i] : item->skip;
        item->record_behind = item->kind == HOST_LAUNCH && r->needed[i];
    }
}

void stream_waits_resolve(struct host_step *step)
{
    size_t count = step->item_count;
    struct resolver r = { .step = step, .no_records = true };
    r.own_stream = calloc(count + 1, sizeof *r.own_stream);
    r.next_launch = none_array(count);
    r.next_collective = none_array(count);
    r.device_before = none_array(count);
    r.needed = calloc(count + 1, sizeof *r.needed);
    r.ends = none_array(count);
    r.records = none_array(count);
    r.stream_last = none_array(step->stream_count);
    r.current = none_array(step->thread_count);
    r.last_launch = none_array(step->thread_count);
    r.last_record = none_array(step->thread_count);
    r.launched_since = calloc(step->thread_count + 1, sizeof *r.launched_since);
    r.region_end = none_array(step->thread_count);
    SIM_ASSERT(r.own_stream != NULL && r.needed != NULL && r.launched_since != NULL, "out of memory");
    for (size_t i = 0; i < count; i++) {
        r.no_records = r.no_records && step->items[i].kind != HOST_RECORD;
    }
    find_facts(&r);
    find_own_stream_collectives(&r);
    look_ahead(&r);
    resolve_items(&r);
    fold_skipped(step);
    free(r.own_stream);
    free(r.next_launch);
    free(r.next_collective);
    free(r.device_before);
    free(r.needed);
    free(r.ends);
    free(r.records);
    free(r.stream_last);
    free(r.current);
    free(r.last_launch);
    free(r.last_record);
    free(r.launched_since);
    free(r.region_end);
    free(r.facts);
}
