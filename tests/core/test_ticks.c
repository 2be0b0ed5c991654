/* Servers of the chip model: what arrives when, is served when. Times in nanoseconds; a slot is 2^24 fs = 16.777216 ns. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "sim/core/ticks.h"

#define NS ((sim_ticks)SIM_TICKS_PER_NS)

Test(slotted_server, idle_server_serves_at_once)
{
    struct slotted_server server = { 0 };
    cr_assert(eq(i64, slotted_server_start(&server, 100 * NS, 5 * NS), 100 * NS));
    cr_assert(eq(i64, slotted_server_start(&server, 1000 * NS, 5 * NS), 1000 * NS));
    cr_assert(eq(i64, server.busy, 10 * NS));
}

/* Ten at one instant, 5 ns each: the k-th waits for k before it, 0 5 10 ... 45, less at most the idle part of the slot
 * that they came in: slot 5 began at 83.9, 16.1 ns before them. Three fit into one slot and are told apart exactly. */
Test(slotted_server, a_burst_is_served_one_after_the_other)
{
    struct slotted_server server = { 0 };
    for (int k = 0; k < 10; k++) {
        sim_ticks start = slotted_server_start(&server, 100 * NS, 5 * NS);
        cr_assert(le(i64, start, (100 + 5 * k) * NS));
        cr_assert(ge(i64, start, (100 + 5 * k) * NS - (k < 3 ? 0 : 17) * NS));
    }
}

/* A reservation far ahead leaves the time before it to those that come later but arrive earlier. */
Test(slotted_server, a_reservation_ahead_does_not_block_the_present)
{
    struct slotted_server server = { 0 };
    slotted_server_start(&server, 900 * NS, 100 * NS);
    cr_assert(eq(i64, slotted_server_start(&server, 200 * NS, 10 * NS), 200 * NS));
}

/* Twice the work that fits: arrivals every 5 ns, in pairs swapped in time, 10 ns each. 1,000 of them keep the server busy for
 * 10,000 ns from the first arrival on; the order inside a slot is the only freedom, so that the last ends within a slot of it. */
Test(slotted_server, work_is_conserved_out_of_order)
{
    struct slotted_server server = { 0 };
    sim_ticks last = 0;
    for (int k = 0; k < 1000; k++) {
        sim_ticks end = slotted_server_start(&server, 5 * (k ^ 1) * NS, 10 * NS) + 10 * NS;
        last = end > last ? end : last;
    }
    cr_assert(ge(i64, last, 9999 * NS));
    cr_assert(le(i64, last, 10017 * NS));
}

/* Older than the ring of 64 slots (1,074 ns): at once where its oldest slot had room, queued where it was full. */
Test(slotted_server, arrivals_older_than_the_ring)
{
    struct slotted_server idle = { 0 };
    slotted_server_start(&idle, 5000 * NS, 10 * NS);
    cr_assert(eq(i64, slotted_server_start(&idle, 100 * NS, 10 * NS), 100 * NS));
    cr_assert(eq(i64, slotted_server_start(&idle, 100 * NS, 10 * NS), 110 * NS));
    struct slotted_server full = { 0 };
    slotted_server_start(&full, 0, 5000 * NS);
    /* each further reservation starts where the first ended, to a unit of 512 fs a slot (300 slots) */
    sim_ticks start = slotted_server_start(&full, 100 * NS, 10 * NS);
    cr_assert(ge(i64, start, 5000 * NS - 300 * 512));
    cr_assert(le(i64, start, 5000 * NS + 300 * 512));
}

Test(slotted_server, wait_is_what_a_start_would_wait)
{
    struct slotted_server server = { 0 };
    slotted_server_start(&server, 0, 200 * NS);
    sim_ticks wait = slotted_server_wait(&server, 50 * NS);
    cr_assert(eq(i64, slotted_server_start(&server, 50 * NS, 1 * NS), 50 * NS + wait));
}

Test(in_order_server, first_come_first_served)
{
    struct in_order_server server = { 0 };
    cr_assert(eq(i64, in_order_server_start(&server, 10, 5), 10));
    cr_assert(eq(i64, in_order_server_start(&server, 12, 5), 15));
    cr_assert(eq(i64, in_order_server_start(&server, 30, 5), 30));
    cr_assert(eq(i64, server.busy, 15));
}
