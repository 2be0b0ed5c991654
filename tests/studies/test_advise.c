/* Advice on a recorded step: the fix of atomics comes out on top where half of the lookups hit one row, and not where rows are
 * spread. The trace is of a small DLRM, whose sparse updates are scatter/index_add. */
#include "sim/core/json.h"
#include "sim/reckon.h"
#include "studies/advise.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRACE SOURCE_DIR "/tests/fixtures/traces/dlrm_small_w1_r0.kineto.json.gz"

static struct advise_result *advise(const char *const *settings, size_t count)
{
    struct reckon_options options = { .jobs = 2, .seed = 1 };
    const char *const paths[] = { TRACE };
    struct reckon *reckon = NULL;
    struct reckon_device *device = NULL;
    struct reckon_source *source = NULL;
    struct advise_result *result = NULL;
    struct sim_error error = { 0 };
    setenv("RECKON_DATA", SOURCE_DIR, 1);
    cr_assert(eq(int, reckon_create(&options, &reckon, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(int, reckon_device_open(reckon, "mi350x", NULL, &device, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(int, reckon_source_open(reckon, paths, 1, 0, &source, &error), SIM_OK), "%s", error.text);
    struct advise_request request = { .source = source, .settings = settings, .setting_count = count, .jobs = 2 };
    cr_assert(eq(int, advise_run(reckon, device, &request, &result, &error), SIM_OK), "%s", error.text);
    reckon_source_close(source);
    reckon_device_close(device);
    reckon_destroy(reckon);
    return result;
}

static const struct advice *find(const struct advise_result *result, const char *change)
{
    for (size_t i = 0; i < result->count; i++) {
        if (strcmp(result->advice[i].change, change) == 0) {
            return &result->advice[i];
        }
    }
    cr_assert(0, "%s is not among the advice", change);
    return NULL;
}

Test(advise, atomic_fix_is_first_where_one_row_is_hot)
{
    const char *const settings[] = { "hot_share=0.95" };
    struct advise_result *result = advise(settings, 1);
    const struct advice *first = &result->advice[0];
    cr_expect(eq(str, (char *)first->change, "fix=register-cache@scatter/index_add"));
    cr_expect(first->triggered && first->gain >= ADVICE_WORTH, "gain %g", first->gain);
    cr_expect(fabs(result->step_ms / first->step_ms - 1 - first->gain) < 1e-9, "gain is not before over after");
    cr_expect(first->gain_low <= first->gain && first->gain <= first->gain_high, "[%g, %g]", first->gain_low, first->gain_high);
    cr_expect(find(result, "fix=privatise@scatter/index_add")->gain < 0, "copies of a million rows do not pay");
    cr_expect(find(result, "fix=tree-reduction@scatter/index_add")->refused[0] != '\0', "it needs one word that all add to");
    cr_expect(result->combined_count >= 1 && result->combined[0] == 0 && result->combined_gain >= first->gain - 1e-9);
    for (size_t i = 1; i < result->count; i++) {
        bool in_order = !result->advice[i].priced || result->advice[i].gain <= result->advice[i - 1].gain;
        cr_expect(in_order, "place %zu", i);
    }
    advise_result_free(result);
}

Test(advise, atomic_fix_is_not_worth_it_where_rows_are_spread)
{
    struct advise_result *result = advise(NULL, 0);
    const struct advice *fix = find(result, "fix=register-cache@scatter/index_add");
    cr_expect(eq(int, fix->triggered, 0), "rows are spread");
    cr_expect(fix->gain < ADVICE_WORTH, "gain %g", fix->gain);
    cr_expect(eq(sz, result->combined_count, 0));
    struct json *answer = advise_json(result);
    cr_expect(eq(str, (char *)json_string(json_get(answer, "schema")), "reckon.advise/1"));
    cr_expect(eq(sz, json_count(json_get(answer, "advice")), result->count));
    json_destroy(answer);
    advise_result_free(result);
}
