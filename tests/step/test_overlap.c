/* Two streams side by side: how HBM is shared, by hand; and the measured rows of the suites overlap and overlap2. */
#include "sim/step/overlap.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR(actual, expected) cr_expect(epsilon_eq(dbl, actual, expected, 1e-6))

/* One kernel on stream 0 and another on stream 1, both launched at 0 (calls cost nothing): when each ends. */
static void end_of_two(struct step_price first, struct step_price second, double end_us[2])
{
    struct graph_node nodes[5];
    struct step_price prices[5] = { { 0 } };
    memset(nodes, 0, sizeof nodes);
    for (uint32_t i = 0; i < 5; i++) {
        nodes[i] = (struct graph_node){ .kind = i == 4 ? GRAPH_HOST_SYNC : GRAPH_HOST_LAUNCH,
                                        .launched = UINT32_MAX,
                                        .waits_for = UINT32_MAX,
                                        .traced_us = -1,
                                        .name = "node",
                                        .category = "other" };
    }
    for (uint32_t s = 0; s < 2; s++) {
        nodes[2 * s].launched = 2 * s + 1;
        nodes[2 * s + 1].kind = GRAPH_KERNEL;
        nodes[2 * s + 1].stream = s;
        prices[2 * s + 1] = s == 0 ? first : second;
    }
    struct graph graph = { .rank_count = 1, .world_size = 1, .node_count = 5, .nodes = nodes };
    struct step_host_costs costs = { .queue_depth = 100 };
    struct step_options options = { .synchronise_each_step = true };
    struct step_timeline *timeline = NULL;
    struct sim_error error = { 0 };
    enum sim_status status = step_schedule(&graph, prices, &costs, &options, &timeline, &error);
    cr_assert(status == SIM_OK, "%s", error.text);
    end_us[0] = timeline->end_us[1] - timeline->start_us[1];
    end_us[1] = timeline->end_us[3] - timeline->start_us[3];
    step_timeline_destroy(timeline);
}

/* A kernel that HBM holds all the time and that uses no HBM share of others keeps its speed with 0.75 of its slots (0.75 x 2.4
 * headroom is above 1); one that HBM holds half of the time stretches the other half: 0.5 + 0.5 / 0.75 = 1.1667 per unit. The
 * neighbour takes 0.25 of the slots for 1,000 us and no HBM. */
Test(overlap, hbm_bound_kernels_do_not_miss_their_slots)
{
    struct step_price neighbour = { .us = 1000, .unit_share = 0.25 };
    struct step_price held = { .us = 60, .unit_share = 1, .hbm_share = 1, .hbm_held = 1 };
    struct step_price half = { .us = 60, .unit_share = 1, .hbm_share = 0.5, .hbm_held = 0.5 };
    double end_us[2];
    end_of_two(neighbour, held, end_us);
    NEAR(end_us[1], 60.0);
    end_of_two(neighbour, half, end_us);
    NEAR(end_us[1], 70.0);
}

/* One workgroup a slot, with 0.75 of the slots: a quarter of them wait for a second round, so 60 us become 120. Of five rounds in
 * 0.75 of the slots 6.67 are needed, so 7: 1.4 times. Without rounds 1 / 0.75. */
Test(overlap, workgroups_take_whole_rounds)
{
    static const double rounds[] = { 1, 5, 0 }, expect_us[] = { 120, 84, 80 };
    struct step_price neighbour = { .us = 1000, .unit_share = 0.25 };
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        struct step_price product = { .us = 60, .unit_share = 1, .rounds = rounds[i] };
        double end_us[2];
        end_of_two(neighbour, product, end_us);
        NEAR(end_us[1], expect_us[i]);
    }
}

/* A collective-like neighbour uses 0.25 of the slots and 0.25 of the HBM; a copy keeps HBM full from what is left of its
 * slots: it pulls 0.75 x 2.4 = 1.8, the neighbour 0.25, together 2.05. The copy runs at 1.8 / 2.05, the neighbour at 1 / 2.05:
 * a copy of 180 us ends at 205, when the neighbour has done 100 of its 150 and needs 50 more alone. */
Test(overlap, memory_goes_to_outstanding_requests)
{
    struct step_price neighbour = { .us = 150, .unit_share = 0.25, .hbm_share = 0.25 };
    struct step_price copy = { .us = 180, .unit_share = 1, .hbm_share = 1, .hbm_held = 1 };
    double end_us[2];
    end_of_two(neighbour, copy, end_us);
    NEAR(end_us[1], 205.0);
    NEAR(end_us[0], 255.0);
}

/* Below what HBM gives nobody waits: 0.5 and 0.4. */
Test(overlap, memory_for_both_slows_neither)
{
    struct step_price a = { .us = 100, .unit_share = 0.5, .hbm_share = 0.5 };
    struct step_price b = { .us = 100, .unit_share = 0.5, .hbm_share = 0.4 };
    double end_us[2];
    end_of_two(a, b, end_us);
    NEAR(end_us[0], 100.0);
    NEAR(end_us[1], 100.0);
}

/* ---- measured rows */

static void open_h200(struct reckon **reckon, struct reckon_device **device)
{
    struct sim_error error = { 0 };
    struct reckon_options options = { .jobs = 1 };
    cr_assert(reckon_create(&options, reckon, &error) == SIM_OK, "%s", error.text);
    cr_assert(reckon_device_open(*reckon, "h200", NULL, device, &error) == SIM_OK, "%s", error.text);
}

/* Small collectives behind full-chip kernels wait for their end and nearly serialise; large ones overlap with what is
 * left. Copies are compared, as their own time is within 2% and what is seen is the overlap: measured 7,997 and 3,500 us for
 * all-to-all, 9,141 and 6,079 for all-reduce (calib/data/h200/overlap2.csv). */
Test(overlap, collectives_beside_copies_as_measured)
{
    static const struct {
        const char *kernel, *params;
        double measured_us, within;
    } rows[] = {
        { "all_to_all_copy", "mb=16;calls=64;reps=2", 7996.9, 0.25 },
        { "all_to_all_copy", "mb=256;calls=4;reps=1", 3500.5, 0.10 },
        { "all_reduce_copy", "mb=16;calls=64;reps=2", 9141.3, 0.15 },
        { "all_reduce_copy", "mb=256;calls=4;reps=2", 6079.3, 0.10 },
    };
    struct reckon *reckon;
    struct reckon_device *device;
    struct harness_profile harness;
    struct sim_error error = { 0 };
    open_h200(&reckon, &device);
    cr_assert(session_harness_read("pytorch_nccl", &harness, &error) == SIM_OK, "%s", error.text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct overlap_times times;
        enum sim_status status = overlap_row_time(reckon, device, "overlap2", rows[i].kernel, rows[i].params,
                                                  &harness, &times, &error);
        cr_assert(status == SIM_OK, "%s", error.text);
        double off = times.together_us / rows[i].measured_us - 1;
        cr_expect(fabs(off) < rows[i].within, "%s %s: %.0f us, measured %.0f", rows[i].kernel, rows[i].params,
                  times.together_us, rows[i].measured_us);
        cr_expect(times.together_us >= fmax(times.first_alone_us, times.second_alone_us));
    }
    reckon_device_close(device);
    reckon_destroy(reckon);
}

/* A product beside copies draws more than the board's 700 W. Repeated for less than the 86 ms that the board averages (30 calls of
 * about 1.65 ms are 50) it keeps its clock, for longer (100 calls) it loses a part of it, whatever the suite is called. */
Test(overlap, only_rows_that_outlast_the_limit_window_lose_clock)
{
    struct reckon *reckon;
    struct reckon_device *device;
    struct harness_profile harness;
    struct sim_error error = { 0 };
    double us[2];
    open_h200(&reckon, &device);
    cr_assert(session_harness_read("pytorch", &harness, &error) == SIM_OK, "%s", error.text);
    for (int longer = 0; longer < 2; longer++) {
        struct overlap_times times;
        for (size_t i = 0; longer && i < harness.coverage_count; i++) {
            if (strcmp(harness.coverage[i].suite, "overlap") == 0) {
                cr_assert(eq(dbl, harness.coverage[i].loop.calls, 30));
                harness.coverage[i].loop.calls = 100;
            }
        }
        cr_assert(overlap_row_time(reckon, device, "overlap", "gemm_plus_copy", "copies=1", &harness, &times, &error) == SIM_OK,
                  "%s", error.text);
        us[longer] = times.together_us;
    }
    cr_expect(us[1] > 1.02 * us[0], "%.0f us at once, %.0f us for ever", us[0], us[1]);
    reckon_device_close(device);
    reckon_destroy(reckon);
}

Test(overlap, wrong_rows_are_one_line)
{
    static const struct {
        const char *suite, *kernel, *params, *says;
    } cases[] = {
        { "overlap2", "all_reduce_sort", "mb=1;calls=1;reps=1", "all_to_all" },
        { "overlap2", "all_reduce_copy", "mb=1;calls=1", "reps is missing" },
        { "overlap2", "all_reduce_copy", "mb=1;calls=1.5;reps=1", "whole" },
        { "overlap2", "all_reduce_copy", "mb=1;calls=1;reps=1;colour=2", "colour" },
        { "overlap2", "all_reduce_copy", "mb=1;mb=1;calls=1;reps=1", "twice" },
        { "overlap2", "all_reduce_copy", "mb=0;calls=1;reps=1", "above 0" },
        { "overlap", "gemm_plus_copy", "", "copies is missing" },
    };
    struct reckon *reckon;
    struct reckon_device *device;
    struct harness_profile harness;
    struct sim_error error = { 0 };
    open_h200(&reckon, &device);
    cr_assert(session_harness_read("pytorch_nccl", &harness, &error) == SIM_OK, "%s", error.text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct overlap_times times = { 0 };
        enum sim_status status = overlap_row_time(reckon, device, cases[i].suite, cases[i].kernel,
                                                  cases[i].params, &harness, &times, &error);
        cr_expect(status != SIM_OK && sim_status_exit_code(status) == 1, "%s", cases[i].params);
        cr_expect(strstr(error.text, cases[i].says) != NULL && strchr(error.text, '\n') == NULL, "%s: %s",
                  cases[i].params, error.text);
    }
    reckon_device_close(device);
    reckon_destroy(reckon);
}
