/* From launches to what a table holds: gaps, launch path, a host that is slower than the device, values; rechoosing; and
 * tasks over worker processes. Prices are given by hand, so that each figure is arithmetic. */
#include "sim/step/kernel_price.h"
#include "sim/step/parallel.h"
#include "sim/step/rechoose.h"
#include "sim/step/session.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR(actual, expected) cr_expect(epsilon_eq(dbl, actual, expected, 1e-9))

static const struct chip_profile chip = { .launch_latency = 0.7,
                                          .launch_stream_gap = 1,
                                          .launch_graph_gap = 0.5 };

static struct kernel_price price_of(double us, double repeat)
{
    return (struct kernel_price){
        .launch_count = 1, .launch_us = { us }, .launch_repeat = { repeat }, .launches = repeat
    };
}

/* One launch of 10 us behind an event floor of 2. */
Test(pricing, one_launch_is_floor_and_kernel)
{
    struct kernel_price price = price_of(10, 1);
    NEAR(kernel_price_measured_us(&price, &chip, 2, 5), 12);
}

/* 100 launches of 1 us, a launch every 5 us: the last is issued at 99 x 5 and lasts 1. */
Test(pricing, slow_host_spaces_launches)
{
    struct kernel_price price = price_of(1, 100);
    NEAR(kernel_price_measured_us(&price, &chip, 0, 5), 496);
    price.time_is_per_call = true;
    NEAR(kernel_price_measured_us(&price, &chip, 4, 5), 5);
}

/* 100 launches of 9 us and gaps of 1: 100 x 9 + 99; the host's 5 us hide. */
Test(pricing, slow_device_queues_launches)
{
    struct kernel_price price = price_of(9, 100);
    NEAR(kernel_price_measured_us(&price, &chip, 0, 5), 999);
}

/* 100 launches of 9 us of which 0.8 are the launch path, read while the launch before runs: 9 + 99 x (9 + 1 - 0.8). With 0.3 us
 * of own work only 0.3 hide: 1.1 + 99 x (1.1 + 1 - 0.3). */
Test(pricing, launch_paths_hide_behind_the_launch_before)
{
    struct kernel_price price = price_of(9, 100);
    price.launch_path_us[0] = 0.8;
    NEAR(kernel_price_measured_us(&price, &chip, 0, 0.1), 9 + 99 * 9.2);
    price.launch_us[0] = 1.1;
    NEAR(kernel_price_measured_us(&price, &chip, 0, 0.1), 1.1 + 99 * 1.8);
}

/* In a graph nothing waits for the host and the gap is 0.5: 100 x 1 + 99 x 0.5. */
Test(pricing, graph_launches_do_not_wait_for_the_host)
{
    struct kernel_price price = price_of(1, 100);
    price.graph_style = true;
    NEAR(kernel_price_measured_us(&price, &chip, 0, 5), 149.5);
}

/* 2 x 20 us, then 3 x 1 us, host 5 us a launch: the device is behind until 20 + 1 + 20 = 41, then 1 + 1, 1 + 1, 1 + 1. */
Test(pricing, classes_of_launches_follow_each_other)
{
    struct kernel_price price = {
        .launch_count = 2, .launch_us = { 20, 1 }, .launch_repeat = { 2, 3 }, .launches = 5
    };
    NEAR(kernel_price_measured_us(&price, &chip, 0, 5), 47);
    /* At 30 us a launch the host is behind: launch k is issued at 30 k, so the last ends at 4 x 30 + 1. */
    NEAR(kernel_price_measured_us(&price, &chip, 0, 30), 121);
}

/* The closed form against launch by launch, over many mixes. */
Test(pricing, closed_form_equals_the_sum_over_launches)
{
    for (int mix = 0; mix < 200; mix++) {
        struct kernel_price price = { .launch_count = 3 };
        double end = -1, interval = 0.5 + mix % 7, own_before = 0;
        size_t launch = 0;
        for (int c = 0; c < 3; c++) {
            price.launch_us[c] = 0.3 + (mix * 7 + c * 13) % 11;
            price.launch_path_us[c] = 0.1 * (mix % 4);
            price.launch_repeat[c] = 1 + (mix + c * 5) % 6;
            for (int r = 0; r < (int)price.launch_repeat[c]; r++, launch++) {
                double path = price.launch_path_us[c], hidden = fmin(path, own_before);
                double start = fmax((double)launch * interval, end < 0 ? 0 : end + chip.launch_stream_gap - hidden);
                end = start + price.launch_us[c];
                own_before = price.launch_us[c] - path;
            }
        }
        NEAR(kernel_price_measured_us(&price, &chip, 0, interval), end);
    }
}

Test(pricing, value_rules)
{
    double value = 0;
    struct kernel_price price = { .value_rule = KERNEL_VALUE_AMOUNT_PER_TIME,
                                  .value_amount = 100,
                                  .value_factor = 3 };
    cr_expect(kernel_price_value(&price, 4, &value));
    NEAR(value, 25); /* 100 per 4 us */
    price.value_rule = KERNEL_VALUE_TIME_PER_AMOUNT;
    cr_expect(kernel_price_value(&price, 4, &value));
    NEAR(value, 0.12); /* 4 x 3 / 100 */
    price.value_rule = KERNEL_VALUE_COUNT;
    cr_expect(kernel_price_value(&price, 4, &value));
    NEAR(value, 100);
    price.value_rule = KERNEL_VALUE_NONE;
    cr_expect(not(kernel_price_value(&price, 4, &value)));
}

Test(rechoose, drops_the_librarys_choices_and_keeps_the_shape)
{
    char params[RECHOOSE_PARAMS_CAPACITY];
    const char *kernel = NULL;
    cr_assert(rechoose("gemm", "tile", "M=8;N=16;tile_m=64;K=4;dtype=bf16;stages=3;trans=nt;bias=1", &kernel,
                       params));
    cr_expect(eq(str, (char *)kernel, "mm"));
    cr_expect(eq(str, params, "M=8;N=16;K=4;dtype=bf16;trans=nt;bias=1"));
    cr_assert(rechoose("gemm", "tile", "batch=7;M=8;split_k=2", &kernel, params));
    cr_expect(eq(str, (char *)kernel, "bmm"));
    cr_expect(eq(str, params, "b=7;M=8"));
    cr_expect(not(rechoose("gemm", "mm", "M=8", &kernel, params)));
    cr_expect(not(rechoose("pointwise", "tile", "M=8", &kernel, params)));
}

/* ---- workers */

struct squares {
    double *shared;
};

static void square(void *context, size_t index)
{
    ((struct squares *)context)->shared[index] = (double)index * (double)index;
}

Test(parallel, every_task_runs_once_whatever_the_workers)
{
    static const uint32_t jobs[] = { 1, 2, 5, 200 };
    for (size_t j = 0; j < 4; j++) {
        struct squares squares = { parallel_share(100 * sizeof(double)) };
        cr_assert(eq(int, parallel_run(jobs[j], 100, square, &squares, NULL, NULL, NULL), SIM_OK));
        for (size_t i = 0; i < 100; i++) {
            cr_expect(eq(dbl, squares.shared[i], (double)(i * i)), "task %zu of %u jobs", i, jobs[j]);
        }
        parallel_unshare(squares.shared, 100 * sizeof(double));
    }
    cr_expect(eq(int, parallel_run(4, 0, square, NULL, NULL, NULL, NULL), SIM_OK));
}

static void die(void *context, size_t index)
{
    (void)context;
    if (index == 3) {
        abort();
    }
}

Test(parallel, dead_worker_takes_the_program_down, .signal = SIGABRT)
{
    parallel_run(2, 8, die, NULL, NULL, NULL, NULL);
}

/* ---- memo */

Test(memo, keeps_prices_by_key_over_growth)
{
    struct price_memo *memo = price_memo_create();
    struct kernel_price price = { 0 };
    char key[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "kernel %d", i);
        price.device_us = i;
        cr_expect(price_memo_find(memo, key) == NULL);
        price_memo_add(memo, key, &price);
    }
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "kernel %d", i);
        cr_assert(price_memo_find(memo, key) != NULL);
        cr_expect(eq(dbl, price_memo_find(memo, key)->device_us, i));
    }
    price_memo_destroy(memo);
}

/* Same text twice is one note; too long a text is cut, not lost. */
Test(notes, are_kept_once_and_cut)
{
    struct reckon_notes notes = { 0 };
    char text[400];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    notes_add(&notes, "a %d", 1);
    notes_add(&notes, "a 1");
    notes_add(&notes, "%s", text);
    cr_expect(eq(sz, notes.count, 2));
    cr_expect(eq(sz, strlen(notes.text[1]), sizeof notes.text[0] - 1));
    cr_expect(strstr(notes.text[1], "...") != NULL);
    notes_free(&notes);
}
