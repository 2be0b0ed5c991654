/* What is said of a recorded step: here its waiting in collectives. */
#include "sim/step/input_verdict.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>

#define NODES 3

/* A rank: a kernel of 0..100 us, a collective of 100..400 and a kernel of 150..200 beside it. */
struct recording {
    struct graph graph;
    struct graph_rank ranks[2];
    struct graph_node nodes[2 * NODES];
    struct input_share shares[2 * NODES];
};

static void record(struct recording *r, uint32_t ranks)
{
    *r = (struct recording){ .graph = { .rank_count = ranks, .world_size = 2, .ranks = r->ranks, .nodes = r->nodes } };
    r->graph.node_count = ranks * NODES;
    for (uint32_t i = 0; i < ranks * NODES; i++) {
        static const double start[NODES] = { 0, 100, 150 }, duration[NODES] = { 100, 300, 50 };
        uint32_t k = i % NODES;
        r->nodes[i] = (struct graph_node){ .kind = k == 1 ? GRAPH_COLLECTIVE : GRAPH_KERNEL,
                                           .rank = i / NODES,
                                           .traced_start_us = start[k],
                                           .traced_us = duration[k] };
        r->shares[i] = (struct input_share){ &r->nodes[i], k == 1 ? RECKON_PRICED_FABRIC : RECKON_PRICED_PROGRAM, 60 };
    }
}

static struct reckon_input verdict_of(const struct recording *r, bool traced_here)
{
    struct reckon_input input;
    input_verdict_fill(&r->graph, r->shares, r->graph.node_count, traced_here, 1, &input);
    return input;
}

/* One rank, fabric 60 us: of 300 us 240 are waiting, from 100 to 340, of which a kernel covers 50. */
Test(input_verdict, one_rank_waits_beyond_the_fabrics_time)
{
    struct recording r;
    record(&r, 1);
    struct reckon_input input = verdict_of(&r, true);
    cr_expect(epsilon_eq(dbl, input.traced_wait_ms, 0.190, 1e-12));
    cr_expect(eq(int, input.wait_by_ranks, false));
    cr_expect(isnan(verdict_of(&r, false).traced_wait_ms), "the fabric of another device says nothing of it");
    r.shares[1].us = 500; /* slower than recorded: no waiting */
    cr_expect(eq(dbl, verdict_of(&r, true).traced_wait_ms, 0));
    r.nodes[1].kind = GRAPH_KERNEL;
    cr_expect(isnan(verdict_of(&r, true).traced_wait_ms), "no collectives");
}

/* Two ranks, the least of them 120 us: rank 0 waits from 100 to 280 us, less the kernel's 50; rank 1 does not. Mean of 130 and 0,
 * whatever the device and its fabric. */
Test(input_verdict, ranks_tell_their_waiting)
{
    struct recording r;
    record(&r, 2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        r.nodes[rank * NODES + 1].traced_us = 120;
        r.nodes[rank * NODES + 1].traced_wait_us = rank == 0 ? 180 : 0;
    }
    struct reckon_input input = verdict_of(&r, false);
    cr_expect(epsilon_eq(dbl, input.traced_wait_ms, 0.065, 1e-12));
    cr_expect(eq(int, input.wait_by_ranks, true));
}
