#include "studies/advise.h"
#include <math.h>

static void set_or_null(struct json *object, const char *key, double value)
{
    if (isfinite(value)) {
        json_set_number(object, key, value);
    } else {
        json_set_null(object, key);
    }
}

static struct json *advice_json(const struct advice *advice)
{
    static const char *const kinds[] = { "fix", "lever", "design" };
    struct json *object = json_new_object();
    json_set_string(object, "change", advice->change);
    json_set_string(object, "kind", kinds[advice->kind]);
    json_set_string(object, "program", advice->program);
    json_set_number(object, "share", advice->share);
    json_set_string(object, "trigger", advice->trigger);
    json_set_bool(object, "triggered", advice->triggered);
    json_set_string(object, "cost", advice->cost);
    json_set_bool(object, "worth_it", advice->priced && advice->gain >= ADVICE_WORTH);
    set_or_null(object, "gain", advice->gain);
    set_or_null(object, "gain_low", advice->gain_low);
    set_or_null(object, "gain_high", advice->gain_high);
    set_or_null(object, "step_ms", advice->step_ms);
    set_or_null(object, "step_ms_low", advice->step_ms_low);
    set_or_null(object, "step_ms_high", advice->step_ms_high);
    set_or_null(object, "memory_gib_change", advice->memory_gib_change);
    if (advice->refused[0] != '\0') {
        json_set_string(object, "refused", advice->refused);
    } else {
        json_set_null(object, "refused");
    }
    return object;
}

struct json *advise_json(const struct advise_result *result)
{
    struct json *object = json_new_object(), *list = json_new_array(), *together = json_new_object(), *changes = json_new_array();
    struct json *notes = json_new_array();
    json_set_string(object, "schema", "reckon.advise/1");
    json_set_string(object, "device", result->device);
    json_set_string(object, "source", result->source);
    json_set_integer(object, "samples", result->samples);
    json_set_number(object, "step_ms", result->step_ms);
    set_or_null(object, "step_ms_low", result->step_ms_low);
    set_or_null(object, "step_ms_high", result->step_ms_high);
    set_or_null(object, "examples_per_s", result->examples_per_s);
    for (size_t i = 0; i < result->count; i++) {
        json_append(list, advice_json(&result->advice[i]));
    }
    json_set(object, "advice", list);
    for (size_t i = 0; i < result->combined_count; i++) {
        json_append_string(changes, result->advice[result->combined[i]].change);
    }
    json_set(together, "changes", changes);
    json_set_number(together, "step_ms", result->combined_step_ms);
    set_or_null(together, "step_ms_low", result->combined_step_ms_low);
    set_or_null(together, "step_ms_high", result->combined_step_ms_high);
    json_set_number(together, "gain", result->combined_gain);
    json_set_number(together, "gain_low", result->combined_gain_low);
    json_set_number(together, "gain_high", result->combined_gain_high);
    json_set_number(together, "summed_gain", result->summed_gain);
    json_set(object, "combination", together);
    json_append_string(notes, result->samples > 0
                                  ? "steps and gains of changes that are worth it: median and 80% interval of samples of what nobody measured, "
                                    "before and after at the same values, and the model's own error on what changes; other gains: that error alone"
                                  : "gains hold the model's own error on what changes (80%), not the profile's unpublished values: --uncertainty N "
                                    "adds them");
    json_append_string(notes, "gains do not add up: the best are put together one after the other, each kept where it still gains 0.2%");
    json_set(object, "notes", notes);
    return object;
}
