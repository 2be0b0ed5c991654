/* What reckon advise does not take, each said in one line before anything is priced. */
#include "tests/studies/run_program.h"

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
    { MODEL " --device mi350x --uncertainty 8", 1, "this command's answers have no intervals" },
    { TRACE " --device mi350x --set colour=1", 2, "of a trace only batch, sequence and gpus" },
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
