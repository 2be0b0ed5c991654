#include "sim/step/schedule.h"
#include "sim/core/event_queue.h"
#include "sim/core/units.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ITERATIONS 6u                /* steps played */
#define WINDOW_STEPS 2u              /* the steady state is looked at over these, */
#define SHOWN_STEP (ITERATIONS - 2u) /* the last of which is this one: the very last has nothing behind it */
#define NONE UINT32_MAX
#define SHARE_EPSILON 1e-9
/* A streaming kernel keeps HBM busy from 1/2.4 of its slots: an eighth of the waves reads 1,337 of 4,410 GB/s
 * (calib/data/h200/occupancy.csv, blocks_per_sm=4 and 16). */
#define HBM_SLOT_HEADROOM 2.4

struct simulation;
struct meeting;

/* A device node of one iteration, or an event record or wait on its stream. Lives in exactly one place after its launch:
 * its stream's queue (head: next to run, or running) until it is done. */
struct item {
    struct event event; /* completion; scheduled while running alone, idle while in a meeting */
    struct simulation *simulation;
    struct item *next;       /* in the stream's queue */
    struct meeting *meeting; /* collectives */
    uint32_t node, iteration, rank, stream;
    uint64_t sequence; /* order of arrival at the device */
    sim_time ready;    /* the launch has reached the device */
    sim_time start, end;
    double remaining_us, rate, granted; /* while running */
    bool pushed, running, done;
};

struct stream {
    struct event timer; /* wakes the rank when the head may start */
    struct simulation *simulation;
    struct item *head, *tail;
    uint32_t rank;
    sim_time free_at; /* end of the last kernel */
    bool used, timer_armed;
    size_t unfinished; /* items pushed and not done */
};

/* A collective of one iteration: the items of its ranks. */
struct meeting {
    struct event event;
    struct simulation *simulation;
    struct item **items; /* [size]; filled as ranks start */
    uint32_t size, arrived;
    bool moving, done;
    double remaining_us, rate;
    sim_time settled, began; /* began: when it began to move */
};

struct host {
    struct event event;
    struct simulation *simulation;
    uint32_t *program; /* host-issued nodes of the rank in order */
    size_t program_length, at;
    uint32_t rank, iteration;
    uint32_t pending; /* node whose call ends when the event fires; NONE: only time passes */
    bool blocked, finished;
};

struct rank {
    struct host host;
    struct stream *streams;
    uint32_t stream_count;
    struct item **running; /* in start order; at most one per stream */
    size_t running_count;
    size_t outstanding; /* launches not done */
    size_t unfinished;  /* items pushed and not done */
    sim_time settled;
    bool changed; /* the running set changed since the last retime */
};

struct simulation {
    const struct graph *graph;
    const struct step_price *prices;
    const struct step_host_costs *host;
    const struct step_options *options;
    struct event_queue *queue;
    struct rank *ranks;
    struct item *items;   /* [ITERATIONS][node_count] */
    uint32_t *meeting_of; /* [node_count]: meeting index, NONE for other nodes */
    uint32_t meeting_count;
    uint32_t *meeting_size;      /* [meeting_count] */
    struct meeting *meetings;    /* [ITERATIONS][meeting_count] */
    struct item **meeting_items; /* backing of meeting.items */
    bool *dropped;               /* [node_count]: synchronises left out */
    double *host_start, *host_end; /* [node_count], us: the host's calls of SHOWN_STEP */
    sim_time last_end[ITERATIONS];
    uint64_t sequence;
};

static sim_time after(sim_time from, double us)
{
    return time_add(from, time_of_us(us));
}

static double us_between(sim_time from, sim_time to)
{
    return time_to_us(time_since(to, from));
}

static struct item *item_of(struct simulation *sim, uint32_t iteration, uint32_t node)
{
    return &sim->items[(size_t)iteration * sim->graph->node_count + node];
}

static void note_end(struct simulation *sim, uint32_t iteration, sim_time at)
{
    sim->last_end[iteration] = time_max(sim->last_end[iteration], at);
}

/* ---- rates */

static void meeting_settle(struct meeting *meeting, sim_time now)
{
    if (meeting->moving) {
        meeting->remaining_us -= us_between(meeting->settled, now) * meeting->rate;
        meeting->remaining_us = meeting->remaining_us < 0 ? 0 : meeting->remaining_us;
    }
    meeting->settled = now;
}

static void meeting_retime(struct meeting *meeting, sim_time now)
{
    meeting_settle(meeting, now);
    meeting->rate = INFINITY;
    for (uint32_t i = 0; i < meeting->size; i++) {
        meeting->rate = fmin(meeting->rate, meeting->items[i]->rate);
    }
    event_queue_cancel(meeting->simulation->queue, &meeting->event);
    event_queue_schedule(meeting->simulation->queue, &meeting->event,
                         after(now, meeting->remaining_us / meeting->rate));
}

static void rank_settle(struct rank *rank, sim_time now)
{
    for (size_t i = 0; i < rank->running_count; i++) {
        struct item *item = rank->running[i];
        if (item->meeting == NULL) {
            item->remaining_us -= us_between(rank->settled, now) * item->rate;
            item->remaining_us = item->remaining_us < 0 ? 0 : item->remaining_us;
        }
    }
    rank->settled = now;
}

/* Rounds of its workgroups in `kept` of its slots, over those in all. */
static double slot_stretch(const struct step_price *price, double kept)
{
    double rounds = fmax(price->rounds, 1);
    bool divisible = price->rounds <= 0 || kept <= 0 || kept >= 1;
    return divisible ? 1 / kept : ceil(rounds / kept - SHARE_EPSILON) / ceil(rounds - SHARE_EPSILON);
}

/* Speed of an item that got `kept` of its slots, over its speed with all: HBM's part of its time stays, the rest stretches. */
static double slot_rate(const struct step_price *price, double kept)
{
    double held = fmin(fmax(price->hbm_held, 0), 1);
    return fmin(1 / (held + (1 - held) * slot_stretch(price, kept)), fmin(kept * HBM_SLOT_HEADROOM, 1));
}

/* Share of HBM that an item pulls at: what it uses, or, while HBM holds it, all that its waves have outstanding. */
static double hbm_pull(const struct step_price *price, const struct item *item)
{
    double kept = price->unit_share > 0 ? item->granted / price->unit_share : 1;
    double held = price->hbm_held * fmax(kept * HBM_SLOT_HEADROOM, item->rate);
    return price->hbm_share * (held + (1 - price->hbm_held) * item->rate);
}

/* Slots go to items in the order they started. HBM wanted more than once is shared by requests outstanding: a kernel that
 * keeps it full by itself makes the others wait longer than its need alone would. */
static void rank_share(const struct simulation *sim, struct rank *rank)
{
    double free_units = 1, pull = 0;
    for (size_t i = 0; i < rank->running_count; i++) {
        struct item *item = rank->running[i];
        const struct step_price *price = &sim->prices[item->node];
        item->granted = fmin(price->unit_share, free_units);
        free_units -= item->granted;
        item->rate = price->unit_share > 0 ? slot_rate(price, item->granted / price->unit_share) : 1;
        if (item->meeting == NULL || item->meeting->moving) {
            pull += hbm_pull(price, item);
        }
    }
    for (size_t i = 0; i < rank->running_count && pull > 1; i++) {
        struct item *item = rank->running[i];
        const struct step_price *price = &sim->prices[item->node];
        if (price->hbm_share > 0) {
            item->rate = fmin(item->rate, hbm_pull(price, item) / pull / price->hbm_share);
        }
    }
}

static void rank_retime(struct simulation *sim, struct rank *rank)
{
    sim_time now = event_queue_now(sim->queue);
    rank_settle(rank, now);
    rank_share(sim, rank);
    for (size_t i = 0; i < rank->running_count; i++) {
        struct item *item = rank->running[i];
        if (item->meeting == NULL) {
            event_queue_cancel(sim->queue, &item->event);
            event_queue_schedule(sim->queue, &item->event, after(now, item->remaining_us / item->rate));
        } else if (item->meeting->moving) {
            meeting_retime(item->meeting, now);
        }
    }
    rank->changed = false;
}

/* ---- streams */

static double free_units_of(const struct rank *rank)
{
    double free_units = 1;
    for (size_t i = 0; i < rank->running_count; i++) {
        free_units -= rank->running[i]->granted;
    }
    return free_units;
}

/* A kernel goes on as soon as some slots are free; a collective's workgroups must all be resident. */
static bool finds_slots(const struct simulation *sim, const struct rank *rank, const struct item *item)
{
    double wanted = sim->prices[item->node].unit_share, free_units = free_units_of(rank);
    if (wanted <= 0 || rank->running_count == 0) {
        return true;
    }
    return item->meeting != NULL ? free_units >= wanted - SHARE_EPSILON : free_units > SHARE_EPSILON;
}

static void arm_timer(struct simulation *sim, struct stream *stream, sim_time at)
{
    if (stream->timer_armed) {
        if (stream->timer.at.ps == at.ps) {
            return;
        }
        event_queue_cancel(sim->queue, &stream->timer);
    }
    stream->timer_armed = true;
    event_queue_schedule(sim->queue, &stream->timer, at);
}

/* May the head of the stream go on now? Arms the stream's timer when only time is missing. */
static bool head_may_start(struct simulation *sim, struct rank *rank, struct stream *stream)
{
    struct item *item = stream->head;
    sim_time now = event_queue_now(sim->queue);
    if (item == NULL || item->running) {
        return false;
    }
    sim_time earliest = item->ready;
    const struct graph_node *node = &sim->graph->nodes[item->node];
    if (graph_is_device(node) && stream->used) {
        earliest = time_max(earliest, after(stream->free_at, sim->options->stream_gap_us));
    }
    if (time_before(now, earliest)) {
        arm_timer(sim, stream, earliest);
        return false;
    }
    if (node->kind == GRAPH_EVENT_WAIT) {
        return node->waits_for == NONE || item_of(sim, item->iteration, node->waits_for)->done;
    }
    return node->kind == GRAPH_EVENT_RECORD || finds_slots(sim, rank, item);
}

static void item_finish(struct simulation *sim, struct item *item)
{
    struct rank *rank = &sim->ranks[item->rank];
    struct stream *stream = &rank->streams[item->stream];
    SIM_ASSERT(stream->head == item, "stream %u of rank %u finished out of order", item->stream, item->rank);
    sim_time now = event_queue_now(sim->queue);
    item->done = true;
    item->end = now;
    stream->head = item->next;
    stream->tail = stream->head == NULL ? NULL : stream->tail;
    stream->unfinished--;
    rank->unfinished--;
    note_end(sim, item->iteration, now);
    if (graph_is_device(&sim->graph->nodes[item->node])) {
        stream->free_at = now;
        stream->used = true;
        rank->outstanding--;
    }
}

static void running_remove(struct rank *rank, struct item *item)
{
    size_t i = 0;
    while (rank->running[i] != item) {
        i++;
        SIM_ASSERT(i < rank->running_count, "item of node %u is not running", item->node);
    }
    memmove(&rank->running[i], &rank->running[i + 1],
            (rank->running_count - i - 1) * sizeof rank->running[0]);
    rank->running_count--;
    item->running = false;
    rank->changed = true;
}

static void item_start(struct simulation *sim, struct rank *rank, struct item *item)
{
    const struct step_price *price = &sim->prices[item->node];
    sim_time now = event_queue_now(sim->queue);
    rank_settle(rank, now); /* before the set changes */
    item->running = true;
    item->start = now;
    item->remaining_us = price->us;
    item->granted = fmin(price->unit_share, free_units_of(rank));
    item->rate = 1;
    rank->running[rank->running_count++] = item;
    rank->changed = true;
    struct meeting *meeting = item->meeting;
    if (meeting != NULL) {
        meeting->items[meeting->arrived++] = item;
        meeting->remaining_us = fmax(meeting->remaining_us, price->us);
        if (meeting->arrived == meeting->size) {
            meeting->moving = true;
            meeting->settled = meeting->began = now;
            for (uint32_t i = 0; i < meeting->size; i++) {
                sim->ranks[meeting->items[i]->rank].changed = true;
            }
        }
    }
}

/* Start whatever can start on the rank, oldest launch first. */
static void rank_start_heads(struct simulation *sim, struct rank *rank)
{
    for (;;) {
        struct item *oldest = NULL;
        for (uint32_t s = 0; s < rank->stream_count; s++) {
            if (head_may_start(sim, rank, &rank->streams[s]) &&
                (oldest == NULL || rank->streams[s].head->sequence < oldest->sequence)) {
                oldest = rank->streams[s].head;
            }
        }
        if (oldest == NULL) {
            return;
        }
        if (graph_is_device(&sim->graph->nodes[oldest->node])) {
            item_start(sim, rank, oldest);
        } else {
            oldest->start = event_queue_now(sim->queue);
            item_finish(sim, oldest);
        }
    }
}

static void item_push(struct simulation *sim, uint32_t iteration, uint32_t node_index)
{
    const struct graph_node *node = &sim->graph->nodes[node_index];
    struct rank *rank = &sim->ranks[node->rank];
    struct stream *stream = &rank->streams[node->stream];
    struct item *item = item_of(sim, iteration, node_index);
    SIM_ASSERT(!item->pushed, "node %u launched twice in a step", node_index);
    item->pushed = true;
    item->sequence = sim->sequence++;
    item->ready = after(event_queue_now(sim->queue), sim->host->start_us);
    item->next = NULL;
    if (stream->tail != NULL) {
        stream->tail->next = item;
    } else {
        stream->head = item;
    }
    stream->tail = item;
    stream->unfinished++;
    rank->unfinished++;
    rank->outstanding += graph_is_device(node) ? 1 : 0;
}

/* What a launch call put on the device: one node, or those of a captured graph. */
static void push_launched(struct simulation *sim, uint32_t iteration, const struct graph_node *launch)
{
    uint32_t count = launch->launched_count > 0 ? launch->launched_count : 1;
    for (uint32_t i = 0; launch->launched != NONE && i < count; i++) {
        item_push(sim, iteration, launch->launched + i);
    }
}

/* ---- host */

static bool sync_is_over(struct simulation *sim, const struct host *host, const struct graph_node *node)
{
    struct rank *rank = &sim->ranks[host->rank];
    switch (node->sync) {
    case GRAPH_SYNC_STREAM:
        return node->waits_for >= rank->stream_count || rank->streams[node->waits_for].unfinished == 0;
    case GRAPH_SYNC_EVENT:
        return node->waits_for == NONE || item_of(sim, host->iteration, node->waits_for)->done ||
               !item_of(sim, host->iteration, node->waits_for)->pushed;
    default: return rank->unfinished == 0;
    }
}

static void host_spend(struct host *host, double us, uint32_t pending)
{
    host->pending = pending;
    event_queue_schedule(host->simulation->queue, &host->event,
                         after(event_queue_now(host->simulation->queue), us));
}

static double operator_cost(const struct step_host_costs *costs, const struct graph_node *node)
{
    return costs->traced_operators && node->traced_us >= 0 ? node->traced_us : costs->operator_us;
}

/* A launch call, with what it does beyond one for the copies that it puts on the device. */
static double launch_cost(const struct simulation *sim, const struct graph_node *launch)
{
    double us = sim->host->launch_us;
    uint32_t count = launch->launched_count > 0 ? launch->launched_count : 1;
    for (uint32_t i = 0; launch->launched != NONE && i < count; i++) {
        us += sim->prices[launch->launched + i].call_us;
    }
    return us;
}

/* End of a step's program: true when another step follows. */
static bool host_next_iteration(struct host *host)
{
    note_end(host->simulation, host->iteration, event_queue_now(host->simulation->queue));
    host->iteration++;
    host->at = 0;
    host->finished = host->iteration == ITERATIONS;
    return !host->finished;
}

/* The host is in the call of `index`, from the first time that it comes to it until `us` after now. */
static void note_call(struct simulation *sim, const struct host *host, uint32_t index, double start_us, double us)
{
    double now = time_to_us(event_queue_now(sim->queue));
    if (host->iteration == SHOWN_STEP) {
        if (isnan(sim->host_start[index])) {
            sim->host_start[index] = now + start_us;
        }
        sim->host_end[index] = now + start_us + us;
    }
}

/* Run the host until it spends time in a call or blocks. `us` gathers calls that hand nothing to the device. */
static void host_run(struct simulation *sim, struct host *host)
{
    const struct step_host_costs *costs = sim->host;
    double us = 0;
    host->blocked = false;
    while (!host->finished) {
        if (host->at == host->program_length) {
            if (us > 0) {
                host_spend(host, us, NONE);
                return;
            }
            if (!host_next_iteration(host)) {
                return;
            }
            continue;
        }
        uint32_t index = host->program[host->at];
        const struct graph_node *node = &sim->graph->nodes[index];
        bool waits = (node->kind == GRAPH_HOST_SYNC && !sim->dropped[index] &&
                      !sync_is_over(sim, host, node)) ||
                     (node->kind == GRAPH_HOST_LAUNCH &&
                      (double)sim->ranks[host->rank].outstanding >= costs->queue_depth);
        if (us > 0 && (waits || node->kind == GRAPH_HOST_SYNC)) {
            host_spend(host, us, NONE); /* look again when the calls before it are over */
            return;
        }
        if (waits) {
            note_call(sim, host, index, us, 0);
            host->blocked = true;
            return;
        }
        switch (node->kind) {
        case GRAPH_HOST_OP:
            note_call(sim, host, index, us, operator_cost(costs, node));
            us += operator_cost(costs, node);
            host->at++;
            break;
        case GRAPH_HOST_SYNC:
            note_call(sim, host, index, us, sim->dropped[index] ? 0 : costs->sync_us);
            us += sim->dropped[index] ? 0 : costs->sync_us;
            host->at++;
            break;
        case GRAPH_HOST_LAUNCH:
            note_call(sim, host, index, us, launch_cost(sim, node));
            host_spend(host, us + launch_cost(sim, node), index);
            return;
        default: /* record or wait */
            note_call(sim, host, index, us, costs->event_us);
            host_spend(host, us + costs->event_us, index);
            return;
        }
    }
}

/* After anything happened on a rank: start what can start, let a blocked host look again, retime what changed. */
static void rank_advance(struct simulation *sim, struct rank *rank)
{
    rank_start_heads(sim, rank);
    if (rank->host.blocked) {
        host_run(sim, &rank->host);
    }
    for (uint32_t r = 0; r < sim->graph->rank_count; r++) {
        if (sim->ranks[r].changed) {
            rank_retime(sim, &sim->ranks[r]);
        }
    }
}

static void on_host(struct event *event, struct event_queue *queue)
{
    (void)queue;
    struct host *host = (struct host *)((char *)event - offsetof(struct host, event));
    struct simulation *sim = host->simulation;
    if (host->pending != NONE) {
        const struct graph_node *node = &sim->graph->nodes[host->pending];
        if (node->kind == GRAPH_HOST_LAUNCH) {
            push_launched(sim, host->iteration, node);
        } else {
            item_push(sim, host->iteration, host->pending);
        }
        host->pending = NONE;
        host->at++;
    }
    host_run(sim, host);
    rank_advance(sim, &sim->ranks[host->rank]);
}

static void on_timer(struct event *event, struct event_queue *queue)
{
    (void)queue;
    struct stream *stream = (struct stream *)((char *)event - offsetof(struct stream, timer));
    stream->timer_armed = false;
    rank_advance(stream->simulation, &stream->simulation->ranks[stream->rank]);
}

static void on_item(struct event *event, struct event_queue *queue)
{
    struct item *item = (struct item *)((char *)event - offsetof(struct item, event));
    struct simulation *sim = item->simulation;
    struct rank *rank = &sim->ranks[item->rank];
    rank_settle(rank, event_queue_now(queue));
    running_remove(rank, item);
    item_finish(sim, item);
    rank_advance(sim, rank);
}

static void on_meeting(struct event *event, struct event_queue *queue)
{
    struct meeting *meeting = (struct meeting *)((char *)event - offsetof(struct meeting, event));
    struct simulation *sim = meeting->simulation;
    meeting->done = true;
    for (uint32_t i = 0; i < meeting->size; i++) {
        struct item *item = meeting->items[i];
        rank_settle(&sim->ranks[item->rank], event_queue_now(queue));
        running_remove(&sim->ranks[item->rank], item);
        item_finish(sim, item);
    }
    for (uint32_t i = 0; i < meeting->size; i++) {
        rank_advance(sim, &sim->ranks[meeting->items[i]->rank]);
    }
}

/* ---- build */

static void drop_trailing_syncs(struct simulation *sim, const struct host *host, size_t *dropped)
{
    for (size_t i = host->program_length; i-- > 0;) {
        const struct graph_node *node = &sim->graph->nodes[host->program[i]];
        if (node->kind == GRAPH_HOST_SYNC && node->sync == GRAPH_SYNC_DEVICE) {
            sim->dropped[host->program[i]] = true;
            (*dropped)++;
        } else if (node->kind != GRAPH_HOST_OP) {
            return;
        }
    }
}

/* Which collectives are one: same group, kind and sequence number, on different ranks. */
struct meeting_key {
    const struct graph_collective *collective;
    uint32_t rank, node;
};

static int by_meeting(const void *a, const void *b)
{
    const struct meeting_key *x = a, *y = b;
    int order = strcmp(x->collective->group, y->collective->group);
    if (order == 0) {
        order = x->collective->sequence < y->collective->sequence
                    ? -1
                    : x->collective->sequence > y->collective->sequence;
    }
    if (order == 0) {
        order = strcmp(x->collective->kind, y->collective->kind);
    }
    if (order == 0) {
        order = x->rank < y->rank ? -1 : x->rank > y->rank;
    }
    return order != 0 ? order : (x->node < y->node ? -1 : x->node > y->node);
}

static bool same_meeting(const struct meeting_key *a, const struct meeting_key *b)
{
    return a->collective->sequence == b->collective->sequence &&
           strcmp(a->collective->group, b->collective->group) == 0 &&
           strcmp(a->collective->kind, b->collective->kind) == 0 && a->rank != b->rank;
}

static void meetings_join(struct simulation *sim, struct meeting_key *keys, size_t key_count)
{
    qsort(keys, key_count, sizeof keys[0], by_meeting);
    for (size_t k = 0; k < key_count; k++) {
        bool joins = k > 0 && same_meeting(&keys[k - 1], &keys[k]);
        sim->meeting_count += joins ? 0 : 1;
        sim->meeting_of[keys[k].node] = sim->meeting_count - 1;
        sim->meeting_size[sim->meeting_count - 1]++;
    }
}

static bool meetings_build(struct simulation *sim)
{
    const struct graph *graph = sim->graph;
    size_t key_count = 0;
    struct meeting_key *keys = calloc(graph->node_count + 1, sizeof *keys);
    sim->meeting_of = malloc((graph->node_count + 1) * sizeof *sim->meeting_of);
    sim->meeting_size = calloc(graph->node_count + 1, sizeof *sim->meeting_size);
    if (keys == NULL || sim->meeting_of == NULL || sim->meeting_size == NULL) {
        free(keys);
        return false;
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        sim->meeting_of[i] = NONE;
        if (graph->nodes[i].kind == GRAPH_COLLECTIVE && graph->nodes[i].collective != NULL) {
            keys[key_count++] = (struct meeting_key){ graph->nodes[i].collective, graph->nodes[i].rank,
                                                      (uint32_t)i };
        }
    }
    meetings_join(sim, keys, key_count);
    free(keys);
    sim->meetings = calloc((size_t)ITERATIONS * sim->meeting_count + 1, sizeof *sim->meetings);
    sim->meeting_items = calloc(ITERATIONS * key_count + 1, sizeof *sim->meeting_items);
    if (sim->meetings == NULL || sim->meeting_items == NULL) {
        return false;
    }
    struct item **backing = sim->meeting_items;
    for (uint32_t m = 0; m < ITERATIONS * sim->meeting_count; m++) {
        struct meeting *meeting = &sim->meetings[m];
        meeting->event.fire = on_meeting;
        meeting->simulation = sim;
        meeting->size = sim->meeting_size[m % sim->meeting_count];
        meeting->items = backing;
        backing += meeting->size;
    }
    return true;
}

static void items_build(struct simulation *sim)
{
    for (uint32_t iteration = 0; iteration < ITERATIONS; iteration++) {
        for (uint32_t n = 0; n < sim->graph->node_count; n++) {
            struct item *item = item_of(sim, iteration, n);
            item->event.fire = on_item;
            item->simulation = sim;
            item->node = n;
            item->iteration = iteration;
            item->rank = sim->graph->nodes[n].rank;
            item->stream = sim->graph->nodes[n].stream;
            if (sim->meeting_of[n] != NONE) {
                item->meeting = &sim->meetings[(size_t)iteration * sim->meeting_count + sim->meeting_of[n]];
            }
        }
    }
}

static bool rank_build(struct simulation *sim, uint32_t index)
{
    const struct graph *graph = sim->graph;
    struct rank *rank = &sim->ranks[index];
    struct host *host = &rank->host;
    host->program = malloc((graph->node_count + 1) * sizeof *host->program);
    for (uint32_t i = 0; host->program != NULL && i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        if (node->rank == index && graph_is_host(node)) {
            host->program[host->program_length++] = i;
        }
        if (node->rank == index && node->kind >= GRAPH_KERNEL && node->stream >= rank->stream_count) {
            rank->stream_count = node->stream + 1;
        }
    }
    rank->streams = calloc(rank->stream_count + 1, sizeof *rank->streams);
    rank->running = calloc(rank->stream_count + 1, sizeof(struct item *));
    if (host->program == NULL || rank->streams == NULL || rank->running == NULL) {
        return false;
    }
    host->event.fire = on_host;
    host->simulation = sim;
    host->rank = index;
    host->pending = NONE;
    for (uint32_t s = 0; s < rank->stream_count; s++) {
        rank->streams[s].timer.fire = on_timer;
        rank->streams[s].simulation = sim;
        rank->streams[s].rank = index;
    }
    return true;
}

static void simulation_finish(struct simulation *sim)
{
    for (uint32_t r = 0; sim->ranks != NULL && r < sim->graph->rank_count; r++) {
        free(sim->ranks[r].host.program);
        free(sim->ranks[r].streams);
        free(sim->ranks[r].running);
    }
    event_queue_destroy(sim->queue);
    free(sim->ranks);
    free(sim->items);
    free(sim->meeting_of);
    free(sim->meeting_size);
    free(sim->meetings);
    free(sim->meeting_items);
    free(sim->dropped);
    free(sim->host_start);
    free(sim->host_end);
}

/* Everything the run loop needs; false when memory is short (finish is safe then). */
static bool simulation_build(struct simulation *sim, size_t *dropped)
{
    const struct graph *graph = sim->graph;
    size_t events = 0;
    sim->ranks = calloc(graph->rank_count, sizeof *sim->ranks);
    sim->items = calloc(ITERATIONS * graph->node_count + 1, sizeof *sim->items);
    sim->dropped = calloc(graph->node_count + 1, sizeof *sim->dropped);
    sim->host_start = malloc((graph->node_count + 1) * sizeof(double));
    sim->host_end = malloc((graph->node_count + 1) * sizeof(double));
    bool built = sim->ranks != NULL && sim->items != NULL && sim->dropped != NULL && sim->host_start != NULL &&
                 sim->host_end != NULL && meetings_build(sim);
    if (built) {
        items_build(sim);
    }
    for (size_t i = 0; built && i < graph->node_count; i++) {
        sim->host_start[i] = sim->host_end[i] = NAN;
    }
    for (uint32_t r = 0; built && r < graph->rank_count; r++) {
        built = rank_build(sim, r);
        events +=
            1 + 2 * (size_t)sim->ranks[r].stream_count; /* the host; per stream a timer and a running item */
        if (built && !sim->options->synchronise_each_step) {
            drop_trailing_syncs(sim, &sim->ranks[r].host, dropped);
        }
    }
    sim->queue = built ? event_queue_create(events) : NULL;
    return built;
}

/* ---- results */

struct interval {
    double start, end, moving; /* moving: from when on it is no waiting */
    bool communication;
};

static int by_start(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static double union_us(const struct interval *intervals, size_t count, bool kernels_only)
{
    double covered = 0, until = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (kernels_only && intervals[i].communication) {
            continue;
        }
        if (intervals[i].end > until) {
            covered += intervals[i].end - fmax(until, intervals[i].start);
            until = intervals[i].end;
        }
    }
    return covered;
}

static double host_us_of(const struct simulation *sim, const struct host *host)
{
    double us = 0;
    for (size_t i = 0; i < host->program_length; i++) {
        const struct graph_node *node = &sim->graph->nodes[host->program[i]];
        switch (node->kind) {
        case GRAPH_HOST_OP: us += operator_cost(sim->host, node); break;
        case GRAPH_HOST_LAUNCH: us += launch_cost(sim, node); break;
        case GRAPH_HOST_SYNC: us += sim->dropped[host->program[i]] ? 0 : sim->host->sync_us; break;
        case GRAPH_EVENT_RECORD:
        case GRAPH_EVENT_WAIT: us += sim->host->event_us; break;
        default: break;
        }
    }
    return us;
}

/* Per step, over the window: whatever runs in it, of whichever step, since steps overlap. */
static void rank_measure(struct simulation *sim, uint32_t rank, struct interval *intervals,
                         struct step_rank_times *times)
{
    double from = time_to_us(sim->last_end[SHOWN_STEP - WINDOW_STEPS]),
           to = time_to_us(sim->last_end[SHOWN_STEP]);
    size_t count = 0, moving = 0;
    for (size_t i = 0; i < ITERATIONS * sim->graph->node_count; i++) {
        const struct item *item = &sim->items[i];
        double start = fmax(time_to_us(item->start), from), end = fmin(time_to_us(item->end), to);
        if (item->rank == rank && item->done && graph_is_device(&sim->graph->nodes[item->node]) &&
            end > start) {
            bool collective = item->meeting != NULL;
            intervals[count++] =
                (struct interval){ start, end, collective ? time_to_us(item->meeting->began) : start, collective };
        }
    }
    qsort(intervals, count, sizeof intervals[0], by_start);
    double busy = union_us(intervals, count, false), kernels = union_us(intervals, count, true);
    times->gpu_busy_ms = busy / WINDOW_STEPS * 1e-3;
    times->exposed_comm_ms = (busy - kernels) / WINDOW_STEPS * 1e-3;
    for (size_t i = 0; i < count; i++) {
        intervals[i].start = fmax(intervals[i].start, intervals[i].moving);
        if (intervals[i].end > intervals[i].start) {
            intervals[moving++] = intervals[i];
        }
    }
    if (moving > 0) {
        qsort(intervals, moving, sizeof intervals[0], by_start);
    }
    times->gpu_moving_ms = union_us(intervals, moving, false) / WINDOW_STEPS * 1e-3;
    times->host_ms = host_us_of(sim, &sim->ranks[rank].host) * 1e-3;
}

static bool timeline_fill(struct simulation *sim, struct step_timeline *timeline)
{
    size_t nodes = sim->graph->node_count;
    struct interval *intervals = malloc((ITERATIONS * nodes + 1) * sizeof *intervals);
    timeline->node_count = nodes;
    timeline->rank_count = sim->graph->rank_count;
    timeline->start_us = malloc((nodes + 1) * sizeof(double));
    timeline->end_us = malloc((nodes + 1) * sizeof(double));
    timeline->host_start_us = malloc((nodes + 1) * sizeof(double));
    timeline->host_end_us = malloc((nodes + 1) * sizeof(double));
    timeline->ranks = calloc(sim->graph->rank_count, sizeof *timeline->ranks);
    if (intervals == NULL || timeline->host_start_us == NULL || timeline->host_end_us == NULL || timeline->start_us == NULL || timeline->end_us == NULL ||
        timeline->ranks == NULL) {
        free(intervals);
        return false;
    }
    double last = us_between(sim->last_end[SHOWN_STEP - 1], sim->last_end[SHOWN_STEP]);
    double before = us_between(sim->last_end[SHOWN_STEP - 2], sim->last_end[SHOWN_STEP - 1]);
    timeline->step_ms = us_between(sim->last_end[SHOWN_STEP - WINDOW_STEPS], sim->last_end[SHOWN_STEP]) /
                        WINDOW_STEPS * 1e-3;
    timeline->first_step_ms = time_to_us(sim->last_end[0]) * 1e-3;
    timeline->drift = before > 0 ? fabs(last / before - 1) : 0;
    sim_time origin = { UINT64_MAX };
    for (uint32_t n = 0; n < nodes; n++) {
        const struct item *item = item_of(sim, SHOWN_STEP, n);
        origin = item->done && time_before(item->start, origin) ? item->start : origin;
    }
    for (uint32_t n = 0; n < nodes; n++) {
        const struct item *item = item_of(sim, SHOWN_STEP, n);
        timeline->start_us[n] = item->done ? us_between(origin, item->start) : -1;
        timeline->end_us[n] = item->done ? us_between(origin, item->end) : -1;
        timeline->host_start_us[n] = sim->host_start[n] - time_to_us(origin);
        timeline->host_end_us[n] = sim->host_end[n] - time_to_us(origin);
    }
    for (uint32_t r = 0; r < timeline->rank_count; r++) {
        rank_measure(sim, r, intervals, &timeline->ranks[r]);
    }
    free(intervals);
    return true;
}

/* Everything ran, or say what the first unfinished item waits for. */
static enum sim_status check_finished(struct simulation *sim, struct sim_error *error)
{
    for (uint32_t r = 0; r < sim->graph->rank_count; r++) {
        for (uint32_t s = 0; s < sim->ranks[r].stream_count; s++) {
            const struct item *item = sim->ranks[r].streams[s].head;
            if (item == NULL) {
                continue;
            }
            const struct graph_node *node = &sim->graph->nodes[item->node];
            return sim_fail(error, SIM_BAD_TRACE, "%s: rank %u stream %u never gets past '%s' (step %u): %s",
                            sim->graph->source, r, s, node->name != NULL ? node->name : "?", item->iteration,
                            item->meeting != NULL ? "the ranks of this collective do not all reach it"
                                                  : "what it waits for never happens");
        }
        if (!sim->ranks[r].host.finished) {
            return sim_fail(error, SIM_BAD_TRACE, "%s: the host of rank %u waits for ever",
                            sim->graph->source, r);
        }
    }
    return SIM_OK;
}

enum sim_status step_schedule(const struct graph *graph, const struct step_price *prices,
                              const struct step_host_costs *host, const struct step_options *options,
                              struct step_timeline **out, struct sim_error *error)
{
    struct simulation sim = { .graph = graph, .prices = prices, .host = host, .options = options };
    struct step_timeline *timeline = calloc(1, sizeof *timeline);
    enum sim_status status = SIM_OK;
    if (timeline == NULL || !simulation_build(&sim, &timeline->dropped_syncs)) {
        status = sim_fail(error, SIM_NO_MEMORY, "no memory to schedule %zu nodes", graph->node_count);
        goto done;
    }
    for (uint32_t r = 0; r < graph->rank_count; r++) {
        event_queue_schedule(sim.queue, &sim.ranks[r].host.event, (sim_time){ 0 });
    }
    event_queue_run(sim.queue);
    status = check_finished(&sim, error);
    if (status == SIM_OK && !timeline_fill(&sim, timeline)) {
        status = sim_fail(error, SIM_NO_MEMORY, "no memory for the timeline of %zu nodes", graph->node_count);
    }
done:
    simulation_finish(&sim);
    if (status != SIM_OK) {
        step_timeline_destroy(timeline);
        timeline = NULL;
    }
    *out = timeline;
    return status;
}

void step_timeline_destroy(struct step_timeline *timeline)
{
    if (timeline != NULL) {
        free(timeline->start_us);
        free(timeline->end_us);
        free(timeline->host_start_us);
        free(timeline->host_end_us);
        free(timeline->ranks);
        free(timeline);
    }
}
