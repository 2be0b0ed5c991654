/* Recorded steps of the measured device against their measured times: the whole chain from trace to step. */
#include "sim/core/json.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TRACES SOURCE_DIR "/tests/fixtures/traces/"

static struct json *predict(const char *arguments)
{
    char command[2048];
    size_t capacity = 1 << 21;
    char *text = calloc(1, capacity);
    struct json *root = NULL;
    struct sim_error error = { 0 };
    snprintf(command, sizeof command, "RECKON_DATA=%s %s predict %s --json", SOURCE_DIR, RECKON_PROGRAM,
             arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe != NULL && text != NULL);
    cr_assert(lt(sz, fread(text, 1, capacity - 1, pipe), capacity - 1));
    cr_assert(eq(int, pclose(pipe), 0));
    cr_assert(eq(int, json_read_text(text, "output", &root, &error), SIM_OK), "%s", error.text);
    free(text);
    return root;
}

static double number_at(const struct json *object, const char *key)
{
    cr_assert(json_get(object, key) != NULL && json_kind_of(json_get(object, key)) == JSON_NUMBER, "%s", key);
    return json_number(json_get(object, key));
}

/* Medians of calib/data/h200/steps.csv: dlrm_small 5.623 and 6.229, dlrm_dcnv2 8.130 and 8.275, two ranks 9.988 ms. The bars
 * are those the step level is held to: 25% of the step, and 80% of the kernel time within a factor of 2 of the trace. */
static void expect_step(const char *traces, double measured_ms)
{
    struct json *root = predict(traces);
    double step_ms = number_at(root, "step_ms");
    cr_expect(lt(dbl, fabs(step_ms / measured_ms - 1), 0.25), "%s: %g ms against %g", traces, step_ms,
              measured_ms);
    cr_expect(gt(dbl, number_at(root, "within_2x_fraction"), 0.8), "%s", traces);
    cr_expect(gt(dbl, number_at(root, "recognised_fraction"), 0.95), "%s", traces);
    json_destroy(root);
}

Test(steps, dlrm_small_is_bound_by_its_host)
{
    expect_step(TRACES "dlrm_small_w1_r0.kineto.json.gz --device h200", 5.926);
}

Test(steps, dlrm_dcnv2_on_one_gpu)
{
    expect_step(TRACES "dlrm_dcnv2_w1_r0.kineto.json.gz --device h200", 8.203);
}

/* Both ranks of one run: their collectives meet, and some of them cannot be hidden. */
Test(steps, dlrm_dcnv2_on_two_gpus)
{
    expect_step(TRACES "dlrm_dcnv2_B8192_w2_r0.kineto.json.gz " TRACES
                       "dlrm_dcnv2_B8192_w2_r1.kineto.json.gz --device h200",
                9.988);
}

/* Three devices answer for one trace, each with its own price. */
Test(steps, three_devices_from_one_trace)
{
    struct json *root = predict(TRACES
                                "dlrm_small_w1_r0.kineto.json.gz --device mi350x,b200,h200 --batch 8192");
    cr_assert(eq(sz, json_count(root), 3));
    for (size_t i = 0; i < 3; i++) {
        const struct json *one = json_at(root, i);
        cr_expect(gt(dbl, number_at(one, "step_ms"), 0.5));
        cr_expect(epsilon_eq(dbl, number_at(one, "examples_per_s"), 8192e3 / number_at(one, "step_ms"), 1));
        cr_expect(gt(dbl, number_at(one, "recognised_fraction"), 0.9));
    }
    json_destroy(root);
}
