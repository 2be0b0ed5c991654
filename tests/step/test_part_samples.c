/* Intervals of an answer's parts from samples that are told in any order. */
#include "sim/reckon.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>

struct answer {
    struct reckon_prediction prediction;
    struct reckon_category categories[1];
    struct reckon_kernel_row kernels[3];
};

/* Kernels b and a of one category; a third shares b's key when `twice`. */
static void make(struct answer *answer, double category_ms, double b_ms, double a_ms, bool twice)
{
    *answer = (struct answer){ .prediction = { .step_ms = category_ms, .category_count = 1, .kernel_count = twice ? 3 : 2 } };
    snprintf(answer->prediction.device, sizeof answer->prediction.device, "h200");
    snprintf(answer->categories[0].name, sizeof answer->categories[0].name, "gemm");
    answer->categories[0].ms = category_ms;
    static char b[] = "b", a[] = "a";
    answer->kernels[0] = (struct reckon_kernel_row){ .key = b, .ms = b_ms };
    answer->kernels[1] = (struct reckon_kernel_row){ .key = a, .ms = a_ms };
    answer->kernels[2] = (struct reckon_kernel_row){ .key = b, .ms = b_ms };
    answer->prediction.categories = answer->categories;
    answer->prediction.kernels = answer->kernels;
}

/* Eleven samples of 0, 1 .. 10 ms: the 10% and 90% quantiles are 1 and 9. The answer itself, asked again, is none of them, and
 * a sample without a part says nothing of it. */
Test(part_samples, quantiles_of_what_the_samples_say)
{
    struct answer answer, sample;
    struct reckon_predict_request request = { 0 };
    struct reckon_prediction *answers[] = { &answer.prediction };
    make(&answer, 3.5, 2.5, 1, false);
    struct reckon_part_samples *samples = reckon_part_samples_create(answers, 1, 11, &request);
    cr_assert(request.played != NULL);
    request.played(request.played_context, &answer.prediction);
    for (int i = 0; i < 11; i++) {
        double ms = (i * 7) % 11; /* each of 0 .. 10 once */
        make(&sample, ms, 10 * ms, 1, false);
        sample.prediction.kernel_count = i < 6 ? 1 : 2; /* `a` in five of eleven: too few */
        request.played(request.played_context, &sample.prediction);
    }
    snprintf(sample.prediction.device, sizeof sample.prediction.device, "b200");
    request.played(request.played_context, &sample.prediction); /* another device's */
    reckon_part_samples_conclude(samples);
    cr_expect(answer.prediction.parts_have_intervals);
    cr_expect(epsilon_eq(dbl, answer.categories[0].ms_low, 1, 1e-12));
    cr_expect(epsilon_eq(dbl, answer.categories[0].ms_high, 9, 1e-12));
    cr_expect(epsilon_eq(dbl, answer.kernels[0].ms_low, 10, 1e-12));
    cr_expect(epsilon_eq(dbl, answer.kernels[0].ms_high, 90, 1e-12));
    cr_expect(isnan(answer.kernels[1].ms_low) && isnan(answer.kernels[1].ms_high));
    cr_expect(eq(dbl, answer.categories[0].ms, 3.5), "its own value stays");
    reckon_part_samples_free(samples, &request);
    cr_expect(request.played == NULL);
}

/* Rows that share a key cannot be told apart in a sample; without any sample unlike it, an answer is sure. */
Test(part_samples, shared_keys_and_sure_answers)
{
    struct answer answer, sample;
    struct reckon_predict_request request = { 0 };
    struct reckon_prediction *answers[] = { &answer.prediction };
    make(&answer, 3, 1, 1, true);
    struct reckon_part_samples *samples = reckon_part_samples_create(answers, 1, 8, &request);
    for (int i = 0; i < 8; i++) {
        make(&sample, 4, 2, 3, true);
        request.played(request.played_context, &sample.prediction);
    }
    reckon_part_samples_conclude(samples);
    cr_expect(isnan(answer.kernels[0].ms_low) && isnan(answer.kernels[2].ms_high));
    cr_expect(eq(dbl, answer.kernels[1].ms_low, 3));
    reckon_part_samples_free(samples, &request);
    samples = reckon_part_samples_create(answers, 1, 8, &request);
    reckon_part_samples_conclude(samples);
    cr_expect(eq(dbl, answer.categories[0].ms_low, 3));
    cr_expect(eq(dbl, answer.categories[0].ms_high, 3));
    reckon_part_samples_free(samples, &request);
}
