/* Field cases about answers: device facts, what-if questions, capacity, sharding, trust. As practitioners met them in public threads;
 * docs/field-cases.md lists all 44 with what reckon gives. */
#include "sim/core/json.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIELD SOURCE_DIR "/tests/fixtures/traces/field/"
#define TINY SOURCE_DIR "/tests/fixtures/models/tiny.json"

/* What the command says, standard error included; the caller frees it. */
static char *say(const char *arguments, int *code)
{
    char command[4096], *text = calloc(1, 1 << 20);
    snprintf(command, sizeof command, "RECKON_DATA=%s %s %s%s 2>&1", SOURCE_DIR, RECKON_PROGRAM, arguments,
             strncmp(arguments, "devices", 7) == 0 ? "" : " --jobs 1");
    FILE *pipe = popen(command, "r");
    cr_assert(pipe != NULL && text != NULL);
    text[fread(text, 1, (1 << 20) - 1, pipe)] = '\0';
    int state = pclose(pipe);
    *code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    return text;
}

static void expect(const char *arguments, int code, const char *piece)
{
    int got;
    char *text = say(arguments, &got);
    cr_expect(eq(int, got, code), "%s: %s", arguments, text);
    cr_expect(strstr(text, piece) != NULL, "%s lacks '%s': %s", arguments, piece, text);
    free(text);
}

static struct json *answer(const char *arguments)
{
    char with_json[2048];
    int code;
    struct json *root = NULL;
    struct sim_error error = { .text = "" };
    snprintf(with_json, sizeof with_json, "%s --json --quiet", arguments);
    char *text = say(with_json, &code), *start = strpbrk(text, "[{");
    cr_assert(start != NULL, "%s: %s", arguments, text);
    if (code != 0) { /* the message behind the answer */
        *(strrchr(start, '}') + (start[0] == '[' ? 3 : 1)) = '\0';
    }
    cr_assert(eq(int, json_read_text(start, "output", &root, &error), SIM_OK), "%s: %s", error.text, text);
    free(text);
    return root;
}

static double number_of(const char *arguments, const char *key)
{
    struct json *root = answer(arguments);
    const struct json *value = json_get(root, key);
    cr_assert(value != NULL && json_kind_of(value) == JSON_NUMBER, "%s has no number %s", arguments, key);
    double number = json_number(value);
    json_destroy(root);
    return number;
}

static void write_file(char *path, const char *text)
{
    int file = mkstemps(path, 5);
    cr_assert(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
}

/* H11, pytorch/ao#3945, stackav-oss/conch#42: acquire-release atomics, 45 to 90% slower on MI300X, alike on B200. */
#define H11 "kernel scatter/index_add n=200000 D=64 rows=10000 "
Test(field_answers, h11_ordering_costs_where_caches_are_not_coherent, .timeout = 120)
{
    double mi350x = number_of(H11 "order=acq_rel --device mi350x", "time_us") / number_of(H11 "order=relaxed --device mi350x", "time_us");
    double b200 = number_of(H11 "order=acq_rel --device b200", "time_us") / number_of(H11 "order=relaxed --device b200", "time_us");
    printf("H11: acq_rel over relaxed: mi350x %.2f, b200 %.3f\n", mi350x, b200);
    cr_expect(ge(dbl, mi350x, 1.3));
    cr_expect(lt(dbl, b200, 1.05));
}

/* H16, pytorch/pytorch#183945: heads kept on one die: between -0.3 and 2.4% on MI350X, 373 to 570 TFLOP/s. Numbered tiles first, a die has
 * every eighth causal tile of a head: of 64 the heaviest die's are (64 - 8) / 2 + 8 + 0.5 = 36.5 steps in the mean where all have 32.5, and
 * the fix, which evens that out, gains up to 12% (D35). */
Test(field_answers, h16_keeping_heads_on_a_die_gains_little, .timeout = 200)
{
    static const char *const shapes[] = { "B=1 S=16384", "B=2 S=8192" };
    for (int i = 0; i < 2; i++) {
        char arguments[256];
        double us[2], hits[2];
        for (int fix = 0; fix < 2; fix++) {
            snprintf(arguments, sizeof arguments,
                     "kernel attention/jfa_fwd %s heads=64 kv_heads=64 d=128 causal=1 sparsity=0 act=softmax %s --device mi350x", shapes[i],
                     fix ? "fix=xcd-swizzle" : "");
            struct json *root = answer(arguments);
            us[fix] = json_number(json_get(root, "time_us"));
            hits[fix] = json_number(json_get(json_get(root, "hit_rate"), "l2"));
            json_destroy(root);
        }
        printf("H16 %s: gain %.3f, L2 hits %.2f to %.2f\n", shapes[i], us[0] / us[1], hits[0], hits[1]);
        cr_expect(us[0] / us[1] > 0.98 && us[0] / us[1] < (i == 0 ? 1.08 : 36.5 / 32.5), "%s: %g", shapes[i], us[0] / us[1]);
        cr_expect(gt(dbl, hits[1], hits[0]));
    }
}

/* H17, pytorch/ao#4002: 7,680 bits at 3,996 MHz are 7.672 TB/s; 178.35 GiB, of which 179 do not fit and 170 do. A table of 128 floats has
 * 512 bytes a row: rows = GiB x 2^30 / 512. */
Test(field_answers, h17_b200_as_its_driver_reports_it)
{
    char path[] = "/tmp/reckon_h17_XXXXXX.json", text[900], arguments[200];
    static const struct { double gib; int code; } sets[] = { { 179, 2 }, { 170, 0 } };
    expect("devices b200", 0, "178.35 GiB");
    expect("devices b200", 0, "7.6728 TB/s");
    expect("devices b200", 0, "pytorch/ao PR 4002");
    for (int i = 0; i < 2; i++) {
        strcpy(path + strlen(path) - 11, "XXXXXX.json");
        snprintf(text, sizeof text,
                 "{\"schema\": \"reckon.model/1\", \"name\": \"one\", \"title\": \"t\", \"source\": \"t\", \"batch\": 256, \"tables\": [{\"name\": \"big\", "
                 "\"count\": 1, \"rows\": %.0f, \"dim\": 128, \"pooling\": [2], \"optimizer\": \"sgd\"}], \"layers\": [{\"kind\": \"mlp\", \"name\": "
                 "\"bottom\", \"input\": 4, \"widths\": [32, 128]}, {\"kind\": \"dot\"}, {\"kind\": \"mlp\", \"name\": \"top\", \"widths\": [8, 1]}]}",
                 sets[i].gib * 1073741824.0 / 512);
        write_file(path, text);
        snprintf(arguments, sizeof arguments, "predict %s --device b200", path);
        expect(arguments, sets[i].code, "in 178 GiB");
        unlink(path);
    }
}

/* The profile of a device with one value changed, as a file; the caller frees the path and removes the file. */
static char *edited(const char *file, const char *from, const char *to)
{
    static char text[1 << 18];
    char *path = strdup("/tmp/reckon_edit_XXXXXX.json"), *out = malloc(sizeof text);
    FILE *in = fopen(file, "r");
    cr_assert(in != NULL && path != NULL && out != NULL);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    char *at = strstr(text, from);
    cr_assert(at != NULL, "%s has no %s", file, from);
    snprintf(out, sizeof text, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    write_file(path, out);
    free(out);
    return path;
}

/* H18, ROCm/rocm-systems#5168 and others: 4 dies in place of 8. With as many units in all (64 a die) a kernel that contends and one that
 * lives in the L2 both move: a die's L2 is shared by twice the units. Native adds are done at the memory side and stay within 0.1%, as the mechanism
 * has it; the loop of compare-and-swap passes through the dies. */
Test(field_answers, h18_the_count_of_dies_moves_predictions, .timeout = 120)
{
    static const char *const kernels[] = { "kernel scatter/index_add n=200000 D=64 rows=100 kind=cas ", "kernel gather/random_rows row_bytes=256 table_mb=16 n=400000 " };
    char *half = edited(SOURCE_DIR "/devices/mi350x.json", "\"groups\": { \"value\": 8, \"unit\": \"count\", \"low\": 8, \"high\": 8",
                        "\"groups\": { \"value\": 4, \"unit\": \"count\", \"low\": 4, \"high\": 4");
    char *whole = edited(half, "\"units_per_group\": { \"value\": 32, \"unit\": \"count\", \"low\": 32, \"high\": 32",
                         "\"units_per_group\": { \"value\": 64, \"unit\": \"count\", \"low\": 64, \"high\": 64");
    char *path = edited(whole, "\"dispatchers\": { \"value\": 8, \"unit\": \"count\", \"low\": 8, \"high\": 8",
                        "\"dispatchers\": { \"value\": 4, \"unit\": \"count\", \"low\": 4, \"high\": 4");
    for (int i = 0; i < 2; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "%s--device %s", kernels[i], path);
        double four = number_of(arguments, "time_us");
        snprintf(arguments, sizeof arguments, "%s--device mi350x", kernels[i]);
        double eight = number_of(arguments, "time_us");
        printf("H18 %s: 8 dies %.2f us, 4 dies %.2f\n", kernels[i], eight, four);
        cr_expect(four / eight > 1.01 || four / eight < 0.99, "%s: %g and %g us", kernels[i], eight, four);
    }
    unlink(half);
    unlink(whole);
    unlink(path);
    free(half);
    free(whole);
    free(path);
}

/* H33, astra-sim/astra-sim#207 and others: half the link, twice the GPUs, another fabric: each moves the exchange, the right way; a node
 * that nothing crosses is said to change nothing. */
Test(field_answers, h33_what_is_changed_has_an_effect_or_a_word, .timeout = 200)
{
#define STEP "predict " SOURCE_DIR "/workloads/models/mlperf_dlrm_v2.json --set batch=1024 --set plan=row_wise --device mi350x "
    char arguments[600], *slow = edited(SOURCE_DIR "/devices/nodes/mi350x8.json", "\"usable\": { \"value\": 61.4, \"unit\": \"GB/s\", \"low\": 58, \"high\": 62",
                                        "\"usable\": { \"value\": 30.7, \"unit\": \"GB/s\", \"low\": 30, \"high\": 62");
    double whole = number_of(STEP "--gpus 8", "exposed_comm_ms");
    snprintf(arguments, sizeof arguments, STEP "--gpus 8 --node %s", slow);
    double half = number_of(arguments, "exposed_comm_ms"), twice = number_of(STEP "--gpus 16", "exposed_comm_ms"),
           other = number_of(STEP "--gpus 8 --node b200x8", "exposed_comm_ms");
    printf("H33: exposed %.3f ms; half the link %.3f, 16 GPUs %.3f, behind a switch %.3f\n", whole, half, twice, other);
    cr_expect(gt(dbl, half, 1.2 * whole));
    cr_expect(gt(dbl, twice, whole)); /* two nodes: over the network */
    cr_expect(lt(dbl, other, whole)); /* 900 GB/s for 7 links of 77 */
    expect("predict " TINY " --device mi350x --node mi300x8", 0, "node mi300x8 changes nothing: the step has no collective");
    unlink(slow);
    free(slow);
}

/* H34, astra-sim/astra-sim#208 and others: GB and GiB are two things, a size without a unit is bytes, each number printed has a unit. */
Test(field_answers, h34_units_are_told_apart, .timeout = 60)
{
#define REDUCE "collective all_reduce %s --node mi350x8 --gpus 8"
    char arguments[200];
    double us[3];
    static const char *const sizes[] = { "64MiB", "64MB", "67108864" };
    for (int i = 0; i < 3; i++) {
        snprintf(arguments, sizeof arguments, REDUCE, sizes[i]);
        us[i] = number_of(arguments, "time_us");
    }
    cr_expect(lt(dbl, us[1], us[0]));
    cr_expect(eq(dbl, us[2], us[0]));
    expect("collective all_reduce 64Mbit --node mi350x8 --gpus 8", 1, "must be a number with B, KiB, MiB, GiB, TiB, KB, MB, GB, TB or nothing after it");
    expect("predict " FIELD "ok-minimal.json --device mi350x", 0, "GPU busy                                                   0.150 ms");
}

/* H36, meta-pytorch/torchrec#4595: what does not fit says by how much, what is largest and one way out, whatever the reserve. 838,860,800 rows of
 * 512 B are 400 GiB, half of them 200. */
static char *table_of(const char *rows)
{
    char text[900], *path = strdup("/tmp/reckon_table_XXXXXX.json");
    snprintf(text, sizeof text,
             "{\"schema\": \"reckon.model/1\", \"name\": \"one\", \"title\": \"t\", \"source\": \"t\", \"batch\": 256, \"tables\": [{\"name\": \"big\", \"count\": 1, "
             "\"rows\": %s, \"dim\": 128, \"pooling\": [2], \"optimizer\": \"sgd\"}], \"layers\": [{\"kind\": \"mlp\", \"name\": \"bottom\", \"input\": 4, "
             "\"widths\": [32, 128]}, {\"kind\": \"dot\"}, {\"kind\": \"mlp\", \"name\": \"top\", \"widths\": [8, 1]}]}",
             rows);
    write_file(path, text);
    return path;
}

Test(field_answers, h36_what_does_not_fit_is_explained, .timeout = 60)
{
    static const struct { const char *rows, *device, *reserve, *says; } cases[] = {
        { "838860800", "mi350x", "", "peak 400.1 GiB and reserve 0.6 GiB are 112.7 GiB more than 288.0 GiB; its largest table, big, takes 400.0 GiB; --set" },
        { "419430400", "b200", "", "peak 200.1 GiB and reserve 0.6 GiB are 22.3 GiB more than 178.3 GiB; its largest table, big, takes 200.0 GiB; --set" },
        { "419430400", "b200", " --set reserve=10%", "reserve 17.8 GiB are 39.5 GiB more than 178.3 GiB; its largest table, big," },
        { "419430400", "b200", " --set reserve=20GiB", "reserve 20.0 GiB are 41.7 GiB more than 178.3 GiB; its largest table, big," },
        { "419430400", "b200", " --set reserve=0", "reserve 0.0 GiB are 21.7 GiB more than 178.3 GiB; its largest table, big," },
        { "838860800", "mi350x", " --set lookup=fused", "tables take 400.0 GiB (the largest, big, 400.0), 1 GPU has 192.0 GiB for them: 208.0 GiB too much; 3 GPUs would do" },
        { "838860800", "mi350x", " --set lookup=fused --set plan=table_wise", "are 112.7 GiB more than 288.0 GiB; its largest table, big, takes 400.0 GiB" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char arguments[300], *path = table_of(cases[i].rows);
        snprintf(arguments, sizeof arguments, "predict %s --device %s%s", path, cases[i].device, cases[i].reserve);
        expect(arguments, 2, cases[i].says);
        unlink(path);
        free(path);
    }
}

/* H37, meta-pytorch/torchrec#4397 and others: 25% are 72 GiB of 288 and 44.6 of 178.35, said; 24 GiB are 24 on both. The parts add up to the peak. */
Test(field_answers, h37_a_reserve_in_percent_is_printed_in_bytes, .timeout = 60)
{
    static const char *const parts[] = { "parameters", "gradients", "optimizer", "embeddings", "activations", "communication", "workspace" };
    static const struct { const char *reserve; double gib[2]; } cases[] = { { "25%", { 72, 44.5875 } }, { "24GiB", { 24, 24 } } };
    for (int c = 0; c < 2; c++) {
        char arguments[300];
        snprintf(arguments, sizeof arguments, "predict " TINY " --device mi350x,b200 --set reserve=%s", cases[c].reserve);
        struct json *root = answer(arguments);
        for (size_t d = 0; d < 2; d++) {
            const struct json *memory = json_get(json_at(root, d), "memory_gib");
            double sum = 0;
            for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
                sum += json_number(json_get(memory, parts[i]));
            }
            cr_expect(epsilon_eq(dbl, json_number(json_get(memory, "reserve")), cases[c].gib[d], 1e-9));
            cr_expect(epsilon_eq(dbl, sum, json_number(json_get(memory, "peak")), 1e-9));
        }
        json_destroy(root);
    }
    expect("predict " TINY " --device mi350x,b200 --set reserve=25%", 0, "b200: memory: a reserve of 25% is 44.59 GiB of this device's 178.35, and another amount");
    expect("predict " TINY " --device b200 --set reserve=24", 1, "--set reserve=24: must be a share of the device's memory (10%), an amount (24GiB), or 0");
    expect("predict " TINY " --device b200 --set reserve=101%", 1, "--set reserve=101%");
}

/* H38, AMD-AGI/TraceLens#942, AMD-AGI/Primus#1178: a device nobody knows is not taken for its neighbour. */
Test(field_answers, h38_an_unknown_device_has_no_stand_in)
{
    char *path = edited(FIELD "ok-minimal.json", "AMD Instinct MI350X", "AMD Instinct MI399X"), arguments[200];
    expect("predict " FIELD "ok-minimal.json --device MI350", 1, "unknown device \"MI350\": known are a100");
    snprintf(arguments, sizeof arguments, "predict %s --device mi350x", path);
    expect(arguments, 2, "recorded on AMD Instinct MI399X: traced times are of that device"); /* replayed times of it would stand for MI350X ones */
    unlink(path);
    free(path);
}

/* H40, meta-pytorch/torchrec#602: D = 6 is no width that fused lookups take, however sharded; 16 columns stay one shard and 5 rows lie on
 * five of 8 GPUs, which is said; a file that cuts 32 columns in three is refused (tests/models/test_plan.c). */
Test(field_answers, h40_sharding_that_cannot_be_is_refused, .timeout = 60)
{
    static const char *const kinds[] = { "table_wise", "row_wise", "column_wise", "table_row_wise", "data_parallel" };
    char *six = edited(TINY, "\"rows\": 1000, \"dim\": 16", "\"rows\": 1000, \"dim\": 6"), *fitting = edited(six, "[32, 16]", "[32, 6]"),
         *few = edited(TINY, "\"rows\": 1000", "\"rows\": 5"), arguments[300];
    for (int i = 0; i < 5; i++) {
        snprintf(arguments, sizeof arguments, "predict %s --device b200 --gpus 8 --set lookup=fused --set plan=%s", fitting, kinds[i]);
        expect(arguments, 2, "table t0 has a dim of 6: fused lookups, sharded or not, take multiples of 4");
        snprintf(arguments, sizeof arguments, "predict %s --device b200 --gpus 8 --set lookup=fused --set plan=%s", few, kinds[i]);
        expect(arguments, 0, i == 2             ? "one shard: 16 columns make no two of 32 or more"
                             : i == 1 || i == 3 ? "3 of 8 GPUs hold none of its 5 rows"
                                                : "step, queued back to back");
    }
    unlink(six);
    unlink(fitting);
    unlink(few);
    free(six);
    free(fitting);
    free(few);
}

/* H41, sarchlab/mgpusim#260 and others: what was measured says so, what was not is marked, version and device values are named, and the same question has
 * the same bytes. */
Test(field_answers, h41_an_answer_says_how_far_to_trust_it, .timeout = 60)
{
    int code;
    expect("kernel gather/random_rows row_bytes=256 table_mb=64 n=10000 --device h200", 0, "calibrated: suite gather has 24 measured rows of this device");
    expect("kernel gather/random_rows row_bytes=256 table_mb=64 n=10000 --device mi350x", 0,
           "uncalibrated: no measured row of suite gather on this device; the kernel's program is held by 24 of h200");
    char *once = say("predict " TINY " --device mi350x", &code), *again = say("predict " TINY " --device mi350x", &code);
    cr_expect(eq(str, once, again));
    cr_expect(strstr(once, "), device values mi350x ") != NULL, "%s", once);
    free(once);
    free(again);
}
