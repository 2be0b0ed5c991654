/* Described steps from the command line: what changes what, and what is refused how. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define MODELS SOURCE_DIR "/workloads/models/"
#define TINY SOURCE_DIR "/tests/fixtures/models/tiny.json "

static int run(const char *arguments, char *text, size_t capacity)
{
    char command[2048];
    snprintf(command, sizeof command, "RECKON_DATA=%s %s %s 2>&1", SOURCE_DIR, RECKON_PROGRAM, arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe != NULL);
    text[fread(text, 1, capacity - 1, pipe)] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

static void expect(const char *arguments, int code, const char *says)
{
    static char text[1 << 18];
    int got = run(arguments, text, sizeof text);
    cr_expect(got == code, "%s: exit %d, expected %d: %.400s", arguments, got, code, text);
    cr_expect(strstr(text, says) != NULL, "%s: '%.400s' does not say '%s'", arguments, text, says);
}

Test(described, a_model_has_a_step_and_a_memory)
{
    expect("predict " TINY "--device h200 --json --jobs 1", 0, "\"bound\": \"host\"");
    expect("predict " TINY "--device h200 --set batch=64 --jobs 1", 0, "held by");
}

Test(described, what_does_not_fit_has_no_time)
{
    expect("predict " MODELS "gpt13b.json --set batch=64 --device h200 --jobs 1", 2, "--set checkpoint=0.25 fits");
    expect("predict " MODELS "gpt13b.json --set batch=64 --device h200 --json --jobs 1", 2, "\"step_ms\": null");
    expect("predict " MODELS "mlperf_dlrm_v2.json --gpus 1 --device h200", 2, "2 GPUs would do");
    /* eight tables of 98 M x 128 fp16 and 4 B of state, 23.7 GiB each, are 190 GiB on every GPU and a GPU has 178 */
    expect("predict " MODELS "study_model_b.json --set plan=data_parallel --device b200", 2, "--set plan=auto fits");
}

/* Whole tables on 8 ranks: 26 of them do not divide evenly, and who has most is waited for. */
Test(described, a_collective_that_waits_says_so)
{
    expect("predict " MODELS "mlperf_dlrm_v2.json --gpus 8 --set batch=1024 --device b200 --jobs 1", 0, "slow rank");
}

Test(described, wrong_input_is_one_line)
{
    expect("predict " TINY "--set batch=-3 --device h200", 1, "must be a number of 1");
    expect("predict " TINY "--set colour=red --device h200", 1, "not a key of a model");
    expect("predict " TINY TINY "--device h200", 1, "the only input");
    expect("predict " MODELS "mlperf_dlrm_v2.json --set plan=" SOURCE_DIR "/tests/fixtures/plans/three_tables.json --device h200", 1,
           "has no table 'a'");
    expect("predict " MODELS "mlperf_dlrm_v2.json --set plan=diagonal --device h200", 1, "not one of auto|table_wise");
    expect("predict " SOURCE_DIR "/tests/fixtures/traces/dlrm_small_w1_r0.kineto.json.gz --set batch=64 --device h200", 1,
           "say --batch");
    expect("predict " SOURCE_DIR "/tests/fixtures/traces/dlrm_small_w1_r0.kineto.json.gz --batch 8192 --set layers=2 --device h200",
           1, "layers=RECORDED:NEW");
    expect("predict " SOURCE_DIR "/tests/fixtures/traces/dlrm_small_w1_r0.kineto.json.gz --batch 8192 --set checkpoint=1 --device h200", 1,
           "say layers=RECORDED:NEW too");
    expect("predict " SOURCE_DIR "/tests/fixtures/traces/dlrm_small_w1_r0.kineto.json.gz --batch 8192 --set precision=fp8 --device h200", 2,
           "which casts another precision adds or drops");
    expect("predict " SOURCE_DIR "/tests/fixtures/traces/dlrm_small_w1_r0.kineto.json.gz --batch 8192 --set plan=x.json --device h200", 2,
           "which table a lookup belongs to");
    expect("predict " SOURCE_DIR "/tests/fixtures/traces/dlrm_small_w1_r0.kineto.json.gz --set sequence=512 --device h200", 1,
           "sequence=RECORDED:NEW");
    expect("predict " SOURCE_DIR "/tests/fixtures/traces/dlrm_small_w1_r0.kineto.json.gz --set gpus=4 --device h200", 1,
           "recorded on one GPU");
}
