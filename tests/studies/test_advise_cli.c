/* What reckon advise does not take, each said in one line before anything is priced. */
#include "tests/studies/run_program.h"
#include <math.h>

#define TRACE SOURCE_DIR "/tests/fixtures/traces/dlrm_small_w1_r0.kineto.json.gz"
#define MODEL SOURCE_DIR "/tests/fixtures/models/tiny.json"

static const struct {
    const char *arguments;
    int code;
    const char *piece;
} wrong[] = {
    { "", 1, "a trace or a model description is needed" },
    { MODEL, 1, "--device is needed" },
    { MODEL " --device mi350x,b200", 1, "advice is for one device at a time" },
    { MODEL " --device mi999", 1, "unknown device \"mi999\": known are" },
    { MODEL " --device mi350x --node mi999x8", 1, "unknown node \"mi999x8\": known are" },
    { "/nowhere.json --device mi350x", 1, "/nowhere.json: No such file" },
    { MODEL " " TRACE " --device mi350x", 1, "a model description is the only input" },
    { MODEL " --device mi350x --fix magic", 1, "unknown fix 'magic': must be one of tree-reduction" },
    { MODEL " --device mi350x --fix mfma16@gemm/nothing", 1, "no kernel or collective of" },
    { MODEL " --device mi350x --batch many", 1, "--batch 'many': a number in" },
    { MODEL " --device mi350x --gpus 0", 1, "--gpus '0': a whole number in" },
    { MODEL " --device mi350x --set colour=1", 1, "colour=1: not a key of a model" },
    { MODEL " --device mi350x --set lookup=fused --set plan=sideways", 1, "sideways" },
    { MODEL " --device mi350x --html /nowhere/x.html", 1, "--html /nowhere/x.html: No such file" },
    { MODEL " --device mi350x --uncertainty 4", 1, "--uncertainty '4': a whole number in 8..4096" },
    { TRACE " --device mi350x --set colour=1", 2, "of a trace only batch, sequence, gpus, layers" },
    { TRACE " --device mi350x --set hot_share=2", 1, "hot_share=2: must be a number of 0 to 1" },
    { TRACE " --device mi350x --set skew=-1", 1, "skew=-1: must be a number of 0 to 8" },
    { TRACE " --device mi350x --set batch=4096", 1, "a trace does not know its batch: say --batch" },
    { MODEL " --device mi350x --set rows=4000000000", 2, "the step does not fit mi350x: peak " }, /* 2 tables of 16 floats */
};

Test(advise_cli, wrong_input_is_one_line, .init = make_folder, .fini = remove_folder)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char arguments[1024];
        snprintf(arguments, sizeof arguments, "advise %s", wrong[i].arguments);
        refused(arguments, wrong[i].code, wrong[i].piece);
    }
}

static double value_after(const char *text, const char *key)
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = text != NULL ? strstr(text, quoted) : NULL;
    cr_assert(at != NULL, "no %s", key);
    return strtod(at + strlen(quoted), NULL);
}

/* Samples: the step is as predict has it, and so is the step with a change; a gain's interval is at least that of the model's
 * own error, which advice without samples gives alone, and at most both laid end to end. */
Test(advise_cli, samples_are_what_predict_says, .init = make_folder, .fini = remove_folder)
{
    struct run plain = run("advise " MODEL " --device h200 --json"), sampled = run("advise " MODEL " --device h200 --uncertainty 8 --json");
    struct run before = run("predict " MODEL " --device h200 --uncertainty 8 --json");
    struct run after = run("predict " MODEL " --device h200 --set lookup=fused --uncertainty 8 --json");
    cr_assert(eq(int, sampled.code, 0), "%s", sampled.error);
    static const char *const keys[] = { "step_ms", "step_ms_low", "step_ms_high" };
    const char *change = strstr(sampled.out, "\"change\": \"lookup=fused\""), *alone = strstr(plain.out, "\"change\": \"lookup=fused\"");
    for (size_t k = 0; k < 3; k++) {
        cr_expect(fabs(value_after(sampled.out, keys[k]) / value_after(before.out, keys[k]) - 1) < 1e-9, "%s of the step", keys[k]);
        cr_expect(fabs(value_after(change, keys[k]) / value_after(after.out, keys[k]) - 1) < 1e-9, "%s with the change", keys[k]);
    }
    cr_expect(strstr(plain.out, "\"step_ms_low\": null") != NULL, "an interval that nobody asked for");
    double gain = 1 + value_after(change, "gain"), low = 1 + value_after(change, "gain_low"), high = 1 + value_after(change, "gain_high");
    double own = (1 + value_after(alone, "gain")) / (1 + value_after(alone, "gain_low"));
    cr_expect(low < gain && gain < high, "[%g, %g] does not hold %g", low, high, gain);
    cr_expect(gain / low >= own * (1 - 1e-9), "narrower than without samples: %g < %g", gain / low, own);
    double unpaired = value_after(before.out, "step_ms_high") / value_after(before.out, "step_ms_low"); /* what both steps have in common cancels */
    cr_expect(gain / low < own * unpaired, "as wide as if the two steps were sampled apart: %g", gain / low);
    run_free(&plain);
    run_free(&sampled);
    run_free(&before);
    run_free(&after);
}
