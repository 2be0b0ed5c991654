/* Time inside the chip model: integer femtoseconds. A core cycle of 1980 MHz is 505,050.5 fs, so a cost rounded once to a
 * tick is right to a millionth, and sums are exact and the same on every machine (picoseconds would be off by a thousandth
 * per cycle, doubles would depend on the order of additions). 2^63 fs are 2.5 hours of simulated time. */
#ifndef SIM_CORE_TICKS_H
#define SIM_CORE_TICKS_H
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

/* A server under a leaky backlog. Reservations may arrive out of time order (a request held upstream reserves in the
 * future); with `start = max(free, t)` the idle gap before such a one would be lost for good. The backlog drains with
 * time and grows with cost, so work is conserved whatever the order of arrival. */
struct leaky_server {
    sim_ticks last;    /* latest arrival seen */
    sim_ticks backlog; /* work waiting at `last` */
    sim_ticks busy;    /* all work ever taken */
};

/* Reserve `cost` for an arrival at `t`; returns the start of service. */
static inline sim_ticks leaky_server_start(struct leaky_server *server, sim_ticks t, sim_ticks cost)
{
    if (t > server->last) {
        sim_ticks idle = t - server->last;
        server->backlog = server->backlog > idle ? server->backlog - idle : 0;
        server->last = t;
    }
    sim_ticks wait = server->backlog;
    server->backlog = wait + cost;
    server->busy += cost;
    return t + wait;
}

/* Work that nobody waits for (a write-back, a refresh): delays others, does not move the clock of the server. */
static inline void leaky_server_add(struct leaky_server *server, sim_ticks cost)
{
    server->backlog += cost;
    server->busy += cost;
}

#endif
