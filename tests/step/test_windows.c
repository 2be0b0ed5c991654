/* What a kernel of a step starts from, and which of its launches are looked at again: on the H200's profile, whose L2 holds
 * 50 MiB. Each quick price is held against the whole kernel's. */
#include "sim/core/data_path.h"
#include "sim/step/kernel_price.h"
#include "sim/step/price_board.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

static struct chip_profile h200(void)
{
    char path[DATA_PATH_CAPACITY];
    struct chip_profile chip;
    struct sim_error error = { 0 };
    memset(&chip, 0, sizeof chip);
    cr_assert(eq(int, data_path_find("devices", "device", "h200", path, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(int, chip_profile_read(path, &chip, &error), SIM_OK), "%s", error.text);
    return chip;
}

static struct kernel_price priced(const struct kernel_price_machine *machine, struct kernel_price_request request)
{
    struct kernel_price price;
    kernel_price_compute(machine, &request, &price);
    cr_assert(eq(int, price.status, SIM_OK), "%s", price.error);
    return price;
}

/* 67 MB in and 67 MB out, the input just written: a window at 60% of the grid would meet it in the L2, were it not for what the
 * kernel has read and written by then (134 MB at 4 TB/s: 34 us). */
Test(windows, what_comes_before_a_window_has_pushed_the_predecessors_data_out)
{
    struct chip_profile chip = h200();
    struct kernel_price_machine machine = { .chip = &chip };
    struct kernel_price_request request = {
        .suite = "elementwise",
        .kernel = "map",
        .params = "n=16777216;bytes_in=4;bytes_out=4;valu=1;sfu=0;style=vectorized;cache=produced",
    };
    double whole = priced(&machine, request).device_us;
    request.window_requests = 100000;
    struct kernel_price quick = priced(&machine, request);
    cr_expect(lt(dbl, quick.result.sampled_fraction, 0.9));
    cr_expect(epsilon_eq(dbl, quick.device_us / whole, 1, 0.12), "%g of %g us", quick.device_us, whole);
    chip_profile_finish(&chip);
}

/* 8 MB in all stay in the L2 beside what the predecessor left: the window is as good as the whole, and has no doubt of its own. */
Test(windows, small_traffic_is_in_no_doubt)
{
    struct chip_profile chip = h200();
    struct kernel_price_machine machine = { .chip = &chip };
    struct kernel_price_request request = {
        .suite = "elementwise",
        .kernel = "map",
        .params = "n=1048576;bytes_in=4;bytes_out=4;valu=1;sfu=0;style=vectorized;cache=produced",
        .window_requests = 20000,
    };
    struct kernel_price price = priced(&machine, request);
    cr_expect(lt(dbl, price.doubt, 0.4));
    chip_profile_finish(&chip);
}

/* 8,192 bags of one row of 512 B: repeated, its 4 MB lie in the L2; in a step other kernels' data does, and the rows come from
 * HBM. */
Test(windows, a_table_is_cold_in_a_step)
{
    struct chip_profile chip = h200();
    struct kernel_price_machine machine = { .chip = &chip };
    struct kernel_price_request request = {
        .suite = "embedding", .kernel = "bag_forward", .params = "B=8192;L=1;D=128;rows=1000000;dtype=fp32"
    };
    struct kernel_price repeated = priced(&machine, request);
    request.in_step = true;
    struct kernel_price cold = priced(&machine, request);
    cr_expect(gt(dbl, cold.result.hbm_read_bytes, repeated.result.hbm_read_bytes + 8192 * 512 * 0.9));
    cr_expect(gt(dbl, cold.device_us, repeated.device_us));
    chip_profile_finish(&chip);
}

/* The same answer with launches kept as without, and the launches of a sort are then there for the next kernel. */
Test(windows, kept_launches_change_nothing)
{
    struct chip_profile chip = h200();
    struct kernel_price_machine machine = { .chip = &chip };
    struct kernel_price_request request = { .suite = "tbe",
                                            .kernel = "backward",
                                            .params = "B=2048;T=1;L=2;D=64;rows=100000;prec=fp32",
                                            .window_requests = 20000,
                                            .wide_requests = 60000 };
    struct kernel_price alone = priced(&machine, request);
    cr_assert(eq(int, price_board_open(NULL, 64, &machine.board, NULL), SIM_OK));
    for (int i = 0; i < 2; i++) {
        struct kernel_price kept = priced(&machine, request);
        cr_expect(eq(dbl, kept.device_us, alone.device_us));
        cr_expect(eq(sz, kept.launch_count, alone.launch_count));
    }
    price_board_close(machine.board);
    chip_profile_finish(&chip);
}
