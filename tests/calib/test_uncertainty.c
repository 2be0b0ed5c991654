/* Intervals: samples cover what was not measured and no more, are paired over devices, and name what drives the answer. */
#include "sim/core/rng.h"
#include "sim/reckon.h"
#include "sim/step/doubt_values.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 32

/* Three milliseconds of simulation: a dependent chain of atomics by one lane, all latency. */
static const struct reckon_kernel_request chain = { .suite = "atomic", .kernel = "same_addr_return", .params = "grid=1;block=1" };

static struct reckon *session(void)
{
    struct reckon_options options = { .jobs = 2, .seed = 1 };
    struct reckon *reckon = NULL;
    struct sim_error error = { 0 };
    setenv("RECKON_DATA", SOURCE_DIR, 1);
    cr_assert(eq(int, reckon_create(&options, &reckon, &error), SIM_OK), "%s", error.text);
    return reckon;
}

static struct reckon_device *device(struct reckon *reckon, const char *name)
{
    struct reckon_device *opened = NULL;
    struct sim_error error = { 0 };
    cr_assert(eq(int, reckon_device_open(reckon, name, NULL, &opened, &error), SIM_OK), "%s", error.text);
    return opened;
}

static struct reckon_doubts *doubts_of(struct reckon *reckon, struct reckon_device **devices, size_t count)
{
    struct reckon_doubts *doubts = NULL;
    struct sim_error error = { 0 };
    cr_assert(eq(int, reckon_kernel_doubts(reckon, devices, count, &chain, SAMPLES, &doubts, &error), SIM_OK), "%s", error.text);
    return doubts;
}

/* 64 points of 50 dimensions: every dimension's mean is within 2.5% of a half and each half of it holds 30 to 34 points, as
 * random ones (standard deviation of the mean 3.6%) would not be in all 50. */
Test(uncertainty, quasi_points_fill_every_dimension_evenly)
{
    double points[64 * 50], again[64 * 50];
    rng_quasi_points(7, 64, 50, points);
    rng_quasi_points(7, 64, 50, again);
    cr_expect(memcmp(points, again, sizeof points) == 0, "same seed, same points");
    for (size_t d = 0; d < 50; d++) {
        double mean = 0;
        int below = 0;
        for (size_t i = 0; i < 64; i++) {
            double x = points[i * 50 + d];
            cr_expect(x > 0 && x < 1);
            mean += x / 64;
            below += x < 0.5;
        }
        cr_expect(fabs(mean - 0.5) < 0.025 && below >= 30 && below <= 34, "dimension %zu: mean %g, %d below", d, mean, below);
    }
}

/* The middle of every coordinate is the profile's own value, its ends are low and high, and NULL puts everything back. */
Test(uncertainty, coordinates_run_from_low_over_the_value_to_high)
{
    struct reckon *reckon = session();
    struct reckon_device *mi350x = device(reckon, "mi350x");
    struct doubt_values values = { 0 };
    uint64_t hash = mi350x->chip.hash;
    doubt_values_collect(&mi350x, 1, true, DOUBT_MODEL_KERNEL, &values);
    double *at = calloc(values.unknown_count, sizeof *at);
    const double places[3] = { 1e-9, 0.5, 1 - 1e-9 };
    for (size_t p = 0; p < 3; p++) {
        for (size_t u = 0; u < values.unknown_count; u++) {
            at[u] = places[p];
        }
        doubt_values_set(&values, 0, at, mi350x);
        for (size_t i = 0; i < values.device[0].count; i++) {
            const struct doubt_value *value = &values.device[0].values[i];
            if (value->where == DOUBT_MODEL) {
                continue;
            }
            double expected = p == 0 ? value->low : p == 1 ? value->value : value->high;
            double got = chip_number_value(&mi350x->chip, value->index);
            cr_expect(fabs(got - expected) <= 1e-6 * fabs(value->high), "%s at %g is %g, not %g", value->key, places[p], got, expected);
            cr_expect(value->kind != PROFILE_MEASURED && value->low < value->high, "%s is no unknown", value->key);
        }
    }
    doubt_values_set(&values, 0, NULL, mi350x);
    cr_expect(mi350x->chip.hash == hash, "the profile is as it was");
    doubt_values_finish(&values);
    free(at);
    reckon_device_close(mi350x);
    reckon_destroy(reckon);
}

/* Parameters that a question leaves out are drawn like the profile's values: 7 in [4, 14] is 4 + 3/2 = 5.5, rounded to 6, a
 * quarter of the way, and 7 + 7/2 = 10.5, rounded to 11, at three quarters; 32 in [32, 2048], a factor of 64, goes by its
 * logarithm, so that three quarters are 32 * sqrt(64) = 256. The same parameter on two devices is one unknown, another is not. */
Test(uncertainty, unknown_parameters_are_drawn_between_their_bounds)
{
    static const struct reckon_assumed inputs[2] = { { "bag", 7, 4, 14 }, { "threshold", 32, 32, 2048 } };
    struct doubt_values values = { .device_count = 2, .unknown_count = 5, .device = calloc(2, sizeof *values.device) };
    doubt_values_add_inputs(&values, 0, inputs, 2);
    doubt_values_add_inputs(&values, 1, inputs, 1);
    cr_assert(eq(sz, values.unknown_count, 7));
    cr_expect(eq(sz, values.device[0].values[0].unknown, 5));
    cr_expect(eq(sz, values.device[0].values[1].unknown, 6));
    cr_expect(eq(sz, values.device[1].values[0].unknown, 5));
    double at[7] = { 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.75 };
    char text[128];
    doubt_values_params(&values, 0, at, "rate=0.1", text, sizeof text);
    cr_expect(eq(str, text, "rate=0.1;bag=6;threshold=256"));
    at[5] = 0.75;
    doubt_values_params(&values, 1, at, NULL, text, sizeof text);
    cr_expect(eq(str, text, "bag=11"));
    at[5] = at[6] = 0.5;
    doubt_values_params(&values, 0, at, "", text, sizeof text);
    cr_expect(eq(str, text, "bag=7;threshold=32"));
    doubt_values_finish(&values);
}

/* Violations of one bag in ten each cost an atomic, so bags of 4 to 14 of the same indices move the time: beside values that are
 * all taken as measured, a question without its bag has a wider interval than one that gives it, and the bag is what drives it. */
Test(uncertainty, a_parameter_left_out_widens_the_interval)
{
    struct reckon *reckon = session();
    struct reckon_device *mi350x = device(reckon, "mi350x");
    struct chip_profile *chip = reckon_device_chip_edit(mi350x);
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        chip->meta[i].kind = PROFILE_MEASURED;
    }
    struct reckon_kernel_request given = { .suite = "bounds_check", .kernel = "per_thread_atomic",
                                           .params = "tables=2;indices=200000;rate=0.1;bag=7" }, open = given;
    open.params = "tables=2;indices=200000;rate=0.1";
    struct reckon_doubts *narrow = NULL, *wide = NULL;
    struct sim_error error = { 0 };
    cr_assert(eq(int, reckon_kernel_doubts(reckon, &mi350x, 1, &given, 16, &narrow, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(int, reckon_kernel_doubts(reckon, &mi350x, 1, &open, 16, &wide, &error), SIM_OK), "%s", error.text);
    cr_expect(eq(dbl, narrow->time[0].nominal, wide->time[0].nominal));
    cr_expect(eq(sz, wide->value_count, narrow->value_count + 1));
    double spread[2] = { 0 };
    const struct reckon_doubts *both[2] = { narrow, wide };
    for (int i = 0; i < 2; i++) {
        for (uint32_t s = 0; s < 16; s++) {
            spread[i] += pow(log(both[i]->time[0].samples[s] / both[i]->time[0].nominal), 2);
        }
    }
    cr_expect(gt(dbl, spread[1], 1.2 * spread[0]), "%g against %g", spread[1], spread[0]);
    reckon_doubts_free(narrow);
    reckon_doubts_free(wide);
    reckon_device_close(mi350x);
    reckon_destroy(reckon);
}

/* The same profile twice is one set of unknowns: the ratio is 1 in every sample, though the time is not. */
Test(uncertainty, devices_are_compared_on_paired_samples)
{
    struct reckon *reckon = session();
    struct reckon_device *devices[2] = { device(reckon, "mi350x"), device(reckon, "mi350x") };
    struct reckon_doubts *doubts = doubts_of(reckon, devices, 2);
    cr_expect(doubts->time[0].high > 1.05 * doubts->time[0].low, "%g..%g", doubts->time[0].low, doubts->time[0].high);
    for (size_t s = 0; s < SAMPLES; s++) {
        cr_expect(eq(dbl, doubts->ratio[1].samples[s], 1));
    }
    cr_expect(eq(dbl, doubts->ratio[1].low, 1));
    reckon_doubts_free(doubts);
    reckon_device_close(devices[0]);
    reckon_device_close(devices[1]);
    reckon_destroy(reckon);
}

/* With one value left unmeasured, a round trip that is a large part of each step, that value drives the time most, and upwards.
 * With none left the interval is the model's own error: the 10% and 90% quantiles of a normal are 1.28 deviations away, of which
 * 32 samples know a fifth. */
Test(uncertainty, the_one_open_value_is_the_driver)
{
    struct reckon *reckon = session();
    struct reckon_device *h200 = device(reckon, "h200");
    struct chip_profile *chip = reckon_device_chip_edit(h200);
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        if (i != CHIP_NUMBER_atomic_return_latency) {
            chip->meta[i].kind = PROFILE_MEASURED;
        }
    }
    chip->meta[CHIP_NUMBER_atomic_return_latency].kind = PROFILE_ASSUMED;
    chip->meta[CHIP_NUMBER_atomic_return_latency].low = 0;
    chip->meta[CHIP_NUMBER_atomic_return_latency].high = 6 * chip->atomic_return_latency;
    struct reckon_doubts *doubts = doubts_of(reckon, &h200, 1);
    const struct reckon_interval *time = &doubts->time[0];
    cr_assert(eq(sz, doubts->value_count, 3));
    cr_assert(ge(sz, time->driver_count, 1));
    cr_expect(eq(str, (char *)time->drivers[0].key, "atomic.return_latency"));
    cr_expect(time->drivers[0].share > 0.5 && time->drivers[0].effect > 0, "share %g, effect %g", time->drivers[0].share,
              time->drivers[0].effect);
    cr_expect(time->low < time->nominal && time->nominal < time->high, "%g %g %g", time->low, time->nominal, time->high);
    reckon_doubts_free(doubts);
    chip->meta[CHIP_NUMBER_atomic_return_latency].kind = PROFILE_MEASURED;
    doubts = doubts_of(reckon, &h200, 1);
    cr_expect(eq(sz, doubts->value_count, 2));
    double width = log(doubts->time[0].high / doubts->time[0].low), expected = 2 * 1.28 * DOUBT_MODEL_KERNEL;
    cr_expect(fabs(width / expected - 1) < 0.25, "width %g, expected %g", width, expected);
    reckon_doubts_free(doubts);
    reckon_device_close(h200);
    reckon_destroy(reckon);
}

/* The time of the model that is asked about, in a session that may have priced another before. */
static struct reckon_doubts *doubts_of_step(struct reckon *reckon, struct reckon_device *device, const char *setting, double sample_work)
{
    struct reckon_model_request model = { .path = SOURCE_DIR "/tests/fixtures/models/tiny.json", .settings = &setting, .setting_count = 1 };
    struct reckon_predict_request request = { .model = &model, .window_requests = 5000, .sample_work = sample_work };
    struct reckon_doubts *doubts = NULL;
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    cr_assert(eq(int, reckon_graph_describe(reckon, &model, &graph, &error), SIM_OK), "%s", error.text);
    request.graph = graph;
    cr_assert(eq(int, reckon_predict_doubts(reckon, &device, 1, &request, 8, &doubts, &error), SIM_OK), "%s", error.text);
    reckon_graph_free(graph);
    return doubts;
}

/* An interval is of its step alone: the kernels of a larger step, which the session priced before, are neither weighed nor
 * simulated again, so the samples are those of a new session. Less work to spend means that less is simulated anew. */
Test(uncertainty, earlier_steps_of_a_session_are_not_weighed)
{
    struct reckon *sessions[2] = { session(), session() };
    struct reckon_device *devices[2] = { device(sessions[0], "h200"), device(sessions[1], "h200") };
    reckon_doubts_free(doubts_of_step(sessions[0], devices[0], "batch=16384", 0));
    struct reckon_doubts *after = doubts_of_step(sessions[0], devices[0], "batch=256", 0);
    struct reckon_doubts *alone = doubts_of_step(sessions[1], devices[1], "batch=256", 0);
    struct reckon_doubts *little = doubts_of_step(sessions[1], devices[1], "batch=256", 1);
    cr_expect(eq(dbl, after->time[0].anew, alone->time[0].anew));
    for (size_t s = 0; s < 8; s++) {
        cr_expect(eq(dbl, after->time[0].samples[s], alone->time[0].samples[s]), "sample %zu", s);
    }
    cr_expect(little->time[0].anew > 0 && little->time[0].anew < alone->time[0].anew, "%g, %g", little->time[0].anew, alone->time[0].anew);
    reckon_doubts_free(after);
    reckon_doubts_free(alone);
    reckon_doubts_free(little);
    for (size_t i = 0; i < 2; i++) {
        reckon_device_close(devices[i]);
        reckon_destroy(sessions[i]);
    }
}

Test(uncertainty, too_few_samples_are_refused)
{
    struct reckon *reckon = session();
    struct reckon_device *h200 = device(reckon, "h200");
    struct reckon_doubts *doubts = NULL;
    struct sim_error error = { 0 };
    cr_expect(eq(int, reckon_kernel_doubts(reckon, &h200, 1, &chain, 4, &doubts, &error), SIM_BAD_ARGUMENT));
    cr_expect(doubts == NULL && strstr(error.text, "8..4096") != NULL, "%s", error.text);
    reckon_device_close(h200);
    reckon_destroy(reckon);
}
