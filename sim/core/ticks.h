/* Time inside the chip model: integer femtoseconds. A core cycle of 1980 MHz is 505,050.5 fs, so a cost rounded once to a
 * tick is right to a millionth, and sums are exact and the same on every machine (picoseconds would be off by a thousandth
 * per cycle, doubles would depend on the order of additions). 2^63 fs are 2.5 hours of simulated time. */
#ifndef SIM_CORE_TICKS_H
#define SIM_CORE_TICKS_H
#include <stdbool.h>
#include <stdint.h>

typedef int64_t sim_ticks; /* femtoseconds, instant or duration */

#define SIM_TICKS_PER_NS 1000000
#define SIM_TICKS_NEVER INT64_MAX

static inline sim_ticks ticks_of_ns(double ns)
{
    return (sim_ticks)(ns * SIM_TICKS_PER_NS + 0.5);
}

static inline sim_ticks ticks_of_cycles(double cycles, double mhz)
{
    return (sim_ticks)(cycles * 1e9 / mhz + 0.5);
}

static inline double ticks_to_us(sim_ticks ticks)
{
    return (double)ticks * 1e-9;
}

/* A server whose reservations may arrive out of time order (a request held upstream reserves in the future): time is cut into
 * slots, and each slot remembers how much of it is taken. A reservation gets the first free time at or after its arrival, also
 * before a later one that came first, so that neither idle time is lost (as with `start = max(free, t)`) nor is an early arrival
 * charged with the work of later ones (as with one backlog that drains). Within a slot only runs of arrivals in
 * order are kept apart in time, otherwise order is lost: an error of half a slot at most. The latest SERVER_SLOTS slots are remembered. An older arrival takes the server to have been as its oldest slot is: full,
 * and it queues from there on; or not, and it shares a draining backlog with other such. */
#define SERVER_SLOTS 128
#define SERVER_SLOT_BITS 24 /* a slot is 2^this ticks: 17 ns */
#define SERVER_UNIT_BITS 9  /* its use is counted in 2^this ticks */
#define SERVER_SLOT_UNITS (1u << (SERVER_SLOT_BITS - SERVER_UNIT_BITS))

/* Use of the latest slot stands apart from the others', so that what comes about in order touches one line of the host's cache. */
struct slotted_server {
    sim_ticks busy;              /* all work ever taken */
    sim_ticks old_last;          /* latest arrival older than the ring */
    sim_ticks old_backlog;       /* work waiting at `old_last` */
    sim_ticks run_last, run_end; /* latest reservation: when it came, when it will have been served */
    uint32_t run_slot;           /* where it ended */
    uint32_t top;                /* latest slot in the ring */
    uint32_t full_from, full_to; /* slots known to be full */
    uint16_t top_used;
    uint16_t used[SERVER_SLOTS] __attribute__((aligned(64))); /* of slots before `top` */
} __attribute__((aligned(64)));

/* Make `slot` the latest. */
static inline void slotted_server_advance(struct slotted_server *server, uint32_t slot)
{
    if (slot >= server->top + SERVER_SLOTS) {
        __builtin_memset(server->used, 0, sizeof server->used);
    } else {
        server->used[server->top % SERVER_SLOTS] = server->top_used;
        for (uint32_t s = server->top + 1; s < slot; s++) {
            server->used[s % SERVER_SLOTS] = 0;
        }
    }
    server->top = slot;
    server->top_used = 0;
}

/* `slot` within the ring. */
static inline uint16_t *slotted_server_place(struct slotted_server *server, uint32_t slot)
{
    return slot == server->top ? &server->top_used : &server->used[slot % SERVER_SLOTS];
}

/* Before the ring, and not full at its beginning. */
static inline bool slotted_server_is_old(const struct slotted_server *server, sim_ticks t)
{
    return (uint32_t)((uint64_t)t >> SERVER_SLOT_BITS) + SERVER_SLOTS <= server->top &&
           server->used[(server->top + 1) % SERVER_SLOTS] < SERVER_SLOT_UNITS;
}

static inline uint32_t slotted_server_first_free(struct slotted_server *server, sim_ticks t)
{
    uint32_t slot = (uint32_t)((uint64_t)t >> SERVER_SLOT_BITS);
    if (slot + SERVER_SLOTS <= server->top) {
        slot = server->top - SERVER_SLOTS + 1;
    }
    bool in_full = slot >= server->full_from && slot < server->full_to;
    uint32_t first = slot;
    if (in_full) {
        slot = server->full_to;
    }
    while (slot < server->top && server->used[slot % SERVER_SLOTS] >= SERVER_SLOT_UNITS) {
        slot++;
    }
    slot += slot == server->top && server->top_used >= SERVER_SLOT_UNITS;
    if (slot > first) {
        server->full_from = in_full ? server->full_from : first;
        server->full_to = slot;
    }
    return slot;
}

static inline sim_ticks slotted_server_old_wait(const struct slotted_server *server, sim_ticks t)
{
    sim_ticks idle = t > server->old_last ? t - server->old_last : 0;
    return server->old_backlog > idle ? server->old_backlog - idle : 0;
}

static inline uint64_t slotted_server_units(sim_ticks cost)
{
    return (uint64_t)(cost + (1 << (SERVER_UNIT_BITS - 1))) >> SERVER_UNIT_BITS;
}

static inline sim_ticks slotted_server_end_run(struct slotted_server *server, uint32_t slot, sim_ticks t, sim_ticks at, sim_ticks cost)
{
    at = at > t ? at : t;
    if (server->run_slot == slot && t >= server->run_last && server->run_end > at) {
        at = server->run_end;
    }
    server->run_slot = slot;
    server->run_last = t;
    server->run_end = at + cost;
    return at;
}

/* slotted_server_start() where the slot of the arrival has no room for all of it. */
static __attribute__((noinline, unused)) sim_ticks slotted_server_search(struct slotted_server *server, sim_ticks t, sim_ticks cost)
{
    if (slotted_server_is_old(server, t)) {
        sim_ticks wait = slotted_server_old_wait(server, t);
        server->old_last = t > server->old_last ? t : server->old_last;
        server->old_backlog = wait + cost;
        return t + wait;
    }
    uint32_t slot = slotted_server_first_free(server, t);
    if (slot > server->top) {
        slotted_server_advance(server, slot);
    }
    uint16_t *used = slotted_server_place(server, slot);
    sim_ticks at = ((sim_ticks)slot << SERVER_SLOT_BITS) + ((sim_ticks)*used << SERVER_UNIT_BITS);
    uint64_t left = slotted_server_units(cost);
    uint32_t room = SERVER_SLOT_UNITS - *used;
    while (left > room) {
        *used = SERVER_SLOT_UNITS;
        left -= room;
        if (++slot > server->top) {
            slotted_server_advance(server, slot);
        }
        used = slotted_server_place(server, slot);
        room = SERVER_SLOT_UNITS - *used;
        at = ((sim_ticks)slot << SERVER_SLOT_BITS) + ((sim_ticks)(*used + left) << SERVER_UNIT_BITS) - cost;
    }
    *used = (uint16_t)(*used + left);
    return slotted_server_end_run(server, slot, t, at, cost);
}

/* Reserve `cost` for an arrival at `t`; returns the start of service. */
static inline sim_ticks slotted_server_start(struct slotted_server *server, sim_ticks t, sim_ticks cost)
{
    server->busy += cost;
    uint32_t slot = (uint32_t)((uint64_t)t >> SERVER_SLOT_BITS);
    if (slot - server->full_from < server->full_to - server->full_from) {
        slot = server->full_to;
    }
    if (__builtin_expect(server->top - slot >= SERVER_SLOTS, 0)) { /* before the ring or beyond it */
        return slotted_server_search(server, t, cost);
    }
    uint16_t *place = slotted_server_place(server, slot);
    uint64_t used = *place + slotted_server_units(cost);
    if (used > SERVER_SLOT_UNITS) {
        return slotted_server_search(server, t, cost);
    }
    sim_ticks at = ((sim_ticks)slot << SERVER_SLOT_BITS) + ((sim_ticks)*place << SERVER_UNIT_BITS);
    *place = (uint16_t)used;
    return slotted_server_end_run(server, slot, t, at, cost);
}

/* How long an arrival at `t` would wait. */
static inline sim_ticks slotted_server_wait(struct slotted_server *server, sim_ticks t)
{
    if (slotted_server_is_old(server, t)) {
        return slotted_server_old_wait(server, t);
    }
    uint32_t slot = slotted_server_first_free(server, t);
    sim_ticks used = slot <= server->top ? *slotted_server_place(server, slot) : 0;
    sim_ticks at = ((sim_ticks)slot << SERVER_SLOT_BITS) + (used << SERVER_UNIT_BITS);
    return at > t ? at - t : 0;
}

/* A server whose reservations come in time order: first come, first served. */
struct in_order_server {
    sim_ticks free, busy;
};

static inline sim_ticks in_order_server_start(struct in_order_server *server, sim_ticks t, sim_ticks cost)
{
    sim_ticks start = server->free > t ? server->free : t;
    server->free = start + cost;
    server->busy += cost;
    return start;
}

#endif
