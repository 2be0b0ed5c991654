/* The step scheduler on graphs small enough to time by hand. Unless a test says otherwise: an operator costs 10 us, a launch
 * 5 us, an event call 1 us, a synchronise 2 us, a launch reaches an idle stream after 3 us, kernels of a stream are 1 us
 * apart, and launch queues are deep. Steps are queued back to back. */
#include "sim/step/schedule.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#define NODES_MAX 32

static const struct step_host_costs costs = {
    .operator_us = 10, .launch_us = 5, .event_us = 1, .sync_us = 2, .start_us = 3, .queue_depth = 1000
};
static const struct step_options back_to_back = { .stream_gap_us = 1 };

struct small { /* a graph under construction */
    struct graph_node nodes[NODES_MAX];
    struct step_price prices[NODES_MAX];
    struct graph_collective collectives[NODES_MAX];
    struct graph graph;
};

static void small_init(struct small *small, uint32_t ranks)
{
    memset(small, 0, sizeof *small);
    small->graph = (struct graph){ .rank_count = ranks, .world_size = ranks, .nodes = small->nodes };
    strcpy(small->graph.source, "small");
}

static uint32_t add(struct small *small, uint32_t kind, uint32_t rank, uint32_t stream)
{
    uint32_t index = (uint32_t)small->graph.node_count++;
    cr_assert(lt(u32, index, NODES_MAX));
    small->nodes[index] = (struct graph_node){ .kind = kind,
                                               .rank = rank,
                                               .stream = stream,
                                               .name = "node",
                                               .category = "other",
                                               .traced_start_us = -1,
                                               .traced_us = -1,
                                               .launched = UINT32_MAX,
                                               .waits_for = UINT32_MAX };
    return index;
}

static void add_operator(struct small *small, uint32_t rank)
{
    add(small, GRAPH_HOST_OP, rank, 0);
}

/* A launch and its kernel; returns the kernel. */
static uint32_t add_kernel(struct small *small, uint32_t rank, uint32_t stream, struct step_price price)
{
    uint32_t launch = add(small, GRAPH_HOST_LAUNCH, rank, 0), kernel = add(small, GRAPH_KERNEL, rank, stream);
    small->nodes[launch].launched = kernel;
    small->prices[kernel] = price;
    return kernel;
}

static uint32_t add_collective(struct small *small, uint32_t rank, uint32_t stream, uint64_t sequence,
                               struct step_price price)
{
    uint32_t node = add_kernel(small, rank, stream, price);
    struct graph_collective *collective = &small->collectives[node];
    small->nodes[node].kind = GRAPH_COLLECTIVE;
    small->nodes[node].collective = collective;
    collective->sequence = sequence;
    collective->group_size = 2;
    strcpy(collective->kind, "all_reduce");
    strcpy(collective->group, "all");
    return node;
}

static void add_wait(struct small *small, uint32_t rank, uint32_t stream, uint32_t record)
{
    small->nodes[add(small, GRAPH_EVENT_WAIT, rank, stream)].waits_for = record;
}

/* Stream 0 goes on when stream 1 has come this far: keeps the streams of successive steps together, as real steps do. */
static void add_join(struct small *small, uint32_t rank)
{
    uint32_t record = add(small, GRAPH_EVENT_RECORD, rank, 1);
    add_wait(small, rank, 0, record);
}

/* Stream 1 goes on when stream 0 has come this far. */
static void add_fork(struct small *small, uint32_t rank)
{
    uint32_t record = add(small, GRAPH_EVENT_RECORD, rank, 0);
    add_wait(small, rank, 1, record);
}

static void add_sync(struct small *small, uint32_t rank)
{
    small->nodes[add(small, GRAPH_HOST_SYNC, rank, 0)].sync = GRAPH_SYNC_DEVICE;
}

static struct step_timeline *run(const struct small *small, const struct step_host_costs *host,
                                 const struct step_options *options)
{
    struct step_timeline *timeline = NULL;
    struct sim_error error = { 0 };
    enum sim_status status = step_schedule(&small->graph, small->prices, host, options, &timeline, &error);
    cr_assert(eq(int, status, SIM_OK), "%s", error.text);
    return timeline;
}

#define NEAR(actual, expected) cr_expect(epsilon_eq(dbl, actual, expected, 1e-6))
#define FULL(us_) ((struct step_price){ .us = us_, .unit_share = 1, .hbm_share = 0.5 })
#define PART(us_, units) ((struct step_price){ .us = us_, .unit_share = units })

/* Two kernels of 100 us in one stream: 2 x (100 + 1 gap) a step; the host needs only 10. */
Test(schedule, device_bound_step_is_its_kernels_and_gaps)
{
    struct small small;
    small_init(&small, 1);
    uint32_t first = add_kernel(&small, 0, 0, FULL(100)), second = add_kernel(&small, 0, 0, FULL(100));
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    NEAR(timeline->step_ms, 0.202);
    NEAR(timeline->start_us[second] - timeline->end_us[first], 1.0);
    NEAR(timeline->ranks[0].gpu_busy_ms, 0.200);
    NEAR(timeline->ranks[0].host_ms, 0.010);
    /* From idle: launch 5, start 3, two kernels, a gap. */
    NEAR(timeline->first_step_ms, 0.209);
    step_timeline_destroy(timeline);
}

/* Three operators and two launches: 3 x 10 + 2 x 5 = 40 us of host for 2 us of kernels. */
Test(schedule, host_bound_step_is_its_calls)
{
    struct small small;
    small_init(&small, 1);
    add_operator(&small, 0);
    add_kernel(&small, 0, 0, FULL(1));
    add_operator(&small, 0);
    add_operator(&small, 0);
    add_kernel(&small, 0, 0, FULL(1));
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    NEAR(timeline->step_ms, 0.040);
    NEAR(timeline->ranks[0].host_ms, 0.040);
    NEAR(timeline->ranks[0].gpu_busy_ms, 0.002);
    NEAR(timeline->drift, 0.0);
    step_timeline_destroy(timeline);
}

/* The same with operators at their traced 4 us: 3 x 4 + 2 x 5. */
Test(schedule, traced_operator_times_are_used_on_request)
{
    struct small small;
    struct step_host_costs traced = costs;
    traced.traced_operators = true;
    small_init(&small, 1);
    for (int i = 0; i < 3; i++) {
        add_operator(&small, 0);
        small.nodes[small.graph.node_count - 1].traced_us = 4;
    }
    add_kernel(&small, 0, 0, FULL(1));
    add_kernel(&small, 0, 0, FULL(1));
    struct step_timeline *timeline = run(&small, &traced, &back_to_back);
    NEAR(timeline->step_ms, 0.022);
    step_timeline_destroy(timeline);
}

/* Two streams, half the chip each, forked and joined every step: the 60 us kernel runs beside the 100 us one, which starts a
 * gap after its predecessor; a step is 100 + 1. The other starts with the fork, at the predecessor's end. */
Test(schedule, streams_overlap_when_slots_allow)
{
    struct small small;
    small_init(&small, 1);
    add_fork(&small, 0);
    uint32_t long_one = add_kernel(&small, 0, 0, PART(100, 0.5)),
             short_one = add_kernel(&small, 0, 1, PART(60, 0.5));
    add_join(&small, 0);
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    NEAR(timeline->step_ms, 0.101);
    NEAR(timeline->ranks[0].gpu_busy_ms, 0.101);
    NEAR(timeline->start_us[long_one] - timeline->start_us[short_one], 1.0);
    step_timeline_destroy(timeline);
}

/* Both full: the one launched first takes the slots and the other waits for it: 100 + 60. */
Test(schedule, full_chip_kernels_take_turns)
{
    struct small small;
    small_init(&small, 1);
    add_fork(&small, 0);
    uint32_t long_one = add_kernel(&small, 0, 0, FULL(100)), short_one = add_kernel(&small, 0, 1, FULL(60));
    add_join(&small, 0);
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    NEAR(timeline->step_ms, 0.160);
    NEAR(timeline->start_us[short_one], timeline->end_us[long_one]);
    step_timeline_destroy(timeline);
}

/* A collective with 0.25 of the slots runs first (120 us); the full-chip kernel of 90 us starts in the 0.75 that are left.
 * From its start (5 us later, one launch) 115 us remain of the collective: 115 x 0.75 = 86.25 us of work done, then
 * 3.75 us alone at full speed. */
Test(schedule, slots_lost_to_a_neighbour_slow_a_kernel)
{
    struct small small;
    struct step_options alone = { .stream_gap_us = 1, .synchronise_each_step = true };
    small_init(&small, 1);
    uint32_t narrow = add_kernel(&small, 0, 1, PART(120, 0.25)), wide = add_kernel(&small, 0, 0, PART(90, 1));
    add_sync(&small, 0);
    struct step_timeline *timeline = run(&small, &costs, &alone);
    NEAR(timeline->end_us[narrow] - timeline->start_us[narrow], 120.0);
    NEAR(timeline->start_us[wide] - timeline->start_us[narrow], 5.0);
    NEAR(timeline->end_us[wide] - timeline->start_us[wide], 118.75);
    step_timeline_destroy(timeline);
}

/* Both want 0.8 of the HBM and half the slots: together 1.6, so both run at 1/1.6. The second starts 5 us after the first.
 * First: 5 + 95 x 1.6 = 157 us. */
Test(schedule, hbm_wanted_twice_is_shared)
{
    struct small small;
    struct step_options alone = { .stream_gap_us = 1, .synchronise_each_step = true };
    struct step_price price = { .us = 100, .unit_share = 0.5, .hbm_share = 0.8 };
    small_init(&small, 1);
    uint32_t first = add_kernel(&small, 0, 0, price), second = add_kernel(&small, 0, 1, price);
    add_sync(&small, 0);
    struct step_timeline *timeline = run(&small, &costs, &alone);
    NEAR(timeline->end_us[first] - timeline->start_us[first], 157.0);
    /* The second has then done 95 and runs its last 5 alone. */
    NEAR(timeline->end_us[second] - timeline->start_us[second], 157.0);
    step_timeline_destroy(timeline);
}

/* Stream 1 waits for a record behind stream 0's kernel: a step is the chain 100 + 50, as the gap of stream 0 hides. */
Test(schedule, event_wait_orders_two_streams)
{
    struct small small;
    small_init(&small, 1);
    uint32_t producer = add_kernel(&small, 0, 0, PART(100, 0.4));
    uint32_t record = add(&small, GRAPH_EVENT_RECORD, 0, 0);
    add_wait(&small, 0, 1, record);
    uint32_t consumer = add_kernel(&small, 0, 1, PART(50, 0.4));
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    NEAR(timeline->start_us[consumer], timeline->end_us[producer] - timeline->start_us[producer]);
    NEAR(timeline->start_us[record], 100.0);
    /* Next step's producer does not wait for the consumer. */
    NEAR(timeline->step_ms, 0.101);
    step_timeline_destroy(timeline);
}

/* A device synchronise in mid-step: launch 5, start 3, kernel 40, return 2, then launch 5 and the next step's launch after
 * it: the second kernel (20 us) must be over before the next step's synchronise, not before its launch.
 * Step k: the first launch is issued right behind the second launch of step k-1, 5 us later; its kernel waits for the second
 * kernel (3 + 20 after that launch) and a gap: starts at +24, ends +64, return 2, launch 5: 71 us. */
Test(schedule, mid_step_synchronise_stalls_the_host)
{
    struct small small;
    small_init(&small, 1);
    add_kernel(&small, 0, 0, FULL(40));
    add_sync(&small, 0);
    add_kernel(&small, 0, 0, FULL(20));
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    NEAR(timeline->step_ms, 0.071);
    cr_expect(eq(sz, timeline->dropped_syncs, 0));
    step_timeline_destroy(timeline);
}

/* A synchronise behind the last launch is the recording loop's: left out (100 + 1 gap) unless asked for, and then
 * launch 5, start 3, kernel 100, return 2. */
Test(schedule, trailing_synchronise_is_left_out_unless_asked_for)
{
    struct small small;
    struct step_options synchronised = { .stream_gap_us = 1, .synchronise_each_step = true };
    small_init(&small, 1);
    add_kernel(&small, 0, 0, FULL(100));
    add_sync(&small, 0);
    struct step_timeline *queued = run(&small, &costs, &back_to_back),
                         *alone = run(&small, &costs, &synchronised);
    NEAR(queued->step_ms, 0.101);
    cr_expect(eq(sz, queued->dropped_syncs, 1));
    NEAR(alone->step_ms, 0.110);
    cr_expect(eq(sz, alone->dropped_syncs, 0));
    step_timeline_destroy(queued);
    step_timeline_destroy(alone);
}

/* A host that may be 1 launch ahead issues a launch when the one before is done: launch 5, start 3, kernel 10. */
Test(schedule, full_launch_queue_blocks_the_host)
{
    struct small small;
    struct step_host_costs shallow = costs;
    shallow.queue_depth = 1;
    small_init(&small, 1);
    add_kernel(&small, 0, 0, FULL(10));
    add_kernel(&small, 0, 0, FULL(10));
    struct step_timeline *timeline = run(&small, &shallow, &back_to_back);
    NEAR(timeline->step_ms, 0.036);
    step_timeline_destroy(timeline);
}

/* Rank 0 reaches the collective after 50 us of kernel, rank 1 after 20: both move for 30 us from the later arrival. Rank 0: 50 +
 * 1 + 30 + 1 = 82 us a step, and rank 1 waits. Its collective spans 82 - 20 - 1 - 1 = 60 us, of which 30 are waiting. */
Test(schedule, collective_starts_with_the_last_rank)
{
    struct small small;
    small_init(&small, 2);
    add_kernel(&small, 0, 0, FULL(50));
    uint32_t at_late = add_collective(&small, 0, 0, 0, PART(30, 0.1));
    add_kernel(&small, 1, 0, FULL(20));
    uint32_t at_early = add_collective(&small, 1, 0, 0, PART(30, 0.1));
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    NEAR(timeline->step_ms, 0.082);
    NEAR(timeline->end_us[at_late] - timeline->start_us[at_late], 30.0);
    NEAR(timeline->end_us[at_early] - timeline->start_us[at_early], 60.0);
    NEAR(timeline->end_us[at_early], timeline->end_us[at_late]);
    NEAR(timeline->ranks[0].exposed_comm_ms, 0.030);
    NEAR(timeline->ranks[1].exposed_comm_ms, 0.060);
    NEAR(timeline->ranks[0].gpu_moving_ms, 0.080); /* 50 of kernel and 30 of transfer */
    NEAR(timeline->ranks[1].gpu_busy_ms, 0.080);
    NEAR(timeline->ranks[1].gpu_moving_ms, 0.050); /* 20 and 30; it waits for 30 */
    step_timeline_destroy(timeline);
}

/* A collective of 50 us on its own stream beside a kernel of 80 us that leaves it slots: nothing of it is exposed but the
 * microsecond before the kernel, which starts a gap after its predecessor while the fork lets the collective go at once. */
Test(schedule, overlapped_collective_is_not_exposed)
{
    struct small small;
    small_init(&small, 2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        add_fork(&small, rank);
        add_kernel(&small, rank, 0, PART(80, 0.9));
        add_collective(&small, rank, 1, 0, PART(50, 0.1));
        add_join(&small, rank);
    }
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    NEAR(timeline->step_ms, 0.081);
    NEAR(timeline->ranks[0].exposed_comm_ms, 0.001);
    NEAR(timeline->ranks[0].gpu_busy_ms, 0.081);
    step_timeline_destroy(timeline);
}

/* The same behind a kernel that fills the chip and was launched before it, with a synchronise each step: the collective waits
 * for slots, all of it exposed. Launch 5, start 3, kernel 80, collective 50, return 2; the collective's launch hides. */
Test(schedule, collective_behind_a_full_chip_kernel_waits)
{
    struct small small;
    small_init(&small, 2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        add_kernel(&small, rank, 0, FULL(80));
        add_collective(&small, rank, 1, 0, PART(50, 0.1));
        add_sync(&small, rank);
    }
    struct step_options alone = { .stream_gap_us = 1, .synchronise_each_step = true };
    struct step_timeline *timeline = run(&small, &costs, &alone);
    NEAR(timeline->step_ms, 0.140);
    NEAR(timeline->ranks[0].exposed_comm_ms, 0.050);
    step_timeline_destroy(timeline);
}

/* One rank of two in the graph: the other is taken to arrive with it. */
Test(schedule, missing_ranks_arrive_in_time)
{
    struct small small;
    small_init(&small, 1);
    small.graph.world_size = 2;
    add_collective(&small, 0, 0, 7, PART(30, 0.1));
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    NEAR(timeline->step_ms, 0.031);
    step_timeline_destroy(timeline);
}

/* Rank 0 runs collective 0 then 1, rank 1 the other way round, in one stream each: neither can go on. */
Test(schedule, crossed_collectives_are_named_as_the_traces_fault)
{
    struct small small;
    struct step_timeline *timeline = NULL;
    struct sim_error error = { 0 };
    small_init(&small, 2);
    add_collective(&small, 0, 0, 0, PART(10, 0.1));
    add_collective(&small, 0, 0, 1, PART(10, 0.1));
    add_collective(&small, 1, 0, 1, PART(10, 0.1));
    add_collective(&small, 1, 0, 0, PART(10, 0.1));
    cr_expect(eq(int, step_schedule(&small.graph, small.prices, &costs, &back_to_back, &timeline, &error),
                 SIM_BAD_TRACE));
    cr_expect(ne(ptr, strstr(error.text, "do not all reach it"), NULL), "%s", error.text);
    cr_expect(eq(ptr, timeline, NULL));
}

/* A captured graph: one launch of three kernels, 10 us each and a gap apart: launch 5, start 3, 10 + 1 + 10 + 1 + 10. */
Test(schedule, one_launch_may_start_many_kernels)
{
    struct small small;
    small_init(&small, 1);
    uint32_t launch = add_kernel(&small, 0, 0, FULL(10)) - 1;
    for (int i = 0; i < 2; i++) {
        small.prices[add(&small, GRAPH_KERNEL, 0, 0)] = FULL(10);
    }
    small.nodes[launch].launched_count = 3;
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    NEAR(timeline->first_step_ms, 0.040);
    NEAR(timeline->ranks[0].host_ms, 0.005);
    step_timeline_destroy(timeline);
}

/* Host nodes of a rank run in graph order, whatever their thread: operator 10, launch 5, start 3, kernel 1. */
Test(schedule, threads_of_a_rank_form_one_chain)
{
    struct small small;
    small_init(&small, 1);
    add_operator(&small, 0);
    add_kernel(&small, 0, 0, FULL(1));
    small.nodes[1].thread = 1;
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    NEAR(timeline->first_step_ms, 0.019);
    step_timeline_destroy(timeline);
}

/* Two runs of one graph give the same bytes. */
Test(schedule, is_deterministic)
{
    struct small small;
    small_init(&small, 2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        add_operator(&small, rank);
        add_kernel(&small, rank, 0, PART(33.333 + rank, 0.7));
        add_collective(&small, rank, 1, 0, PART(21.7, 0.2));
        add_kernel(&small, rank, 0, PART(17.1, 0.95));
    }
    struct step_timeline *a = run(&small, &costs, &back_to_back), *b = run(&small, &costs, &back_to_back);
    cr_expect(zero(int, memcmp(a->start_us, b->start_us, small.graph.node_count * sizeof(double))));
    cr_expect(zero(int, memcmp(a->end_us, b->end_us, small.graph.node_count * sizeof(double))));
    step_timeline_destroy(a);
    step_timeline_destroy(b);
}

/* An operator of 10 us and a launch of 5 that stages a copy for 40 more: the copy of 20 us reaches the device 3 us after, and a
 * step a host's 55 us. */
Test(schedule, a_call_that_stages_holds_the_host)
{
    struct small small;
    small_init(&small, 1);
    add_operator(&small, 0);
    uint32_t copy = add_kernel(&small, 0, 0, (struct step_price){ .us = 20, .call_us = 40 });
    struct step_timeline *timeline = run(&small, &costs, &back_to_back);
    cr_expect(epsilon_eq(dbl, timeline->step_ms, 0.055, 1e-9));
    cr_expect(epsilon_eq(dbl, timeline->ranks[0].host_ms, 0.055, 1e-9));
    cr_expect(epsilon_eq(dbl, timeline->ranks[0].gpu_busy_ms, 0.020, 1e-9));
    cr_expect(epsilon_eq(dbl, timeline->end_us[copy] - timeline->start_us[copy], 20, 1e-9));
    step_timeline_destroy(timeline);
}
