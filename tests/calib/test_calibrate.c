/* reckon calibrate as a user meets it: disturbed values of a real profile come back, other text of the profile stays, a fit
 * that does not converge writes nothing, wrong input is one line. */
#include "sim/core/chip_profile.h"
#include "sim/core/json.h"
#include "tests/core/profile_edit.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_CAPACITY (1 << 20)
#define ROWS 6

/* Six chases that take milliseconds: two hit L1, one the near L2, three near and far parts in growing shares. */
static const char *const rows[ROWS][2] = {
    { "chase_l1", "kb=16" },           { "chase_l1", "kb=64" },           { "chase_l2bypassl1", "kb=64" },
    { "chase_l2bypassl1", "kb=1024" }, { "chase_l2bypassl1", "kb=4096" }, { "chase_l2bypassl1", "kb=8192" }
};

static const char fit_text[] = "{\"schema\": \"reckon.fit/1\", %s\"values\": [\n"
                               "{\"key\": \"l1.hit_latency\", \"low\": 25, \"high\": 45},\n"
                               "{\"key\": \"l2.hit_latency\", \"low\": 240, \"high\": 330},\n"
                               "{\"key\": \"l2.far_latency\", \"low\": 60, \"high\": 120}],\n"
                               "\"rows\": [{\"suite\": \"latency\", \"kernel\": \"chase_l1\"}, {\"suite\": "
                               "\"latency\", \"kernel\": \"chase_l2bypassl1\"}]}";

struct files {
    char table[64], fit[64], base[64], out[64], stdout_text[64], stderr_text[64];
};

static struct files files_named(void)
{
    struct files files;
    snprintf(files.table, 64, "/tmp/reckon_calib_%d.csv", (int)getpid());
    snprintf(files.fit, 64, "/tmp/reckon_calib_%d.fit.json", (int)getpid());
    snprintf(files.out, 64, "/tmp/reckon_calib_%d.out.json", (int)getpid());
    snprintf(files.stdout_text, 64, "/tmp/reckon_calib_%d.stdout", (int)getpid());
    snprintf(files.stderr_text, 64, "/tmp/reckon_calib_%d.stderr", (int)getpid());
    files.base[0] = '\0';
    return files;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static char *take_text(const char *path)
{
    char *text = calloc(1, OUTPUT_CAPACITY);
    FILE *file = fopen(path, "r");
    cr_assert(text != NULL && file != NULL);
    cr_expect(lt(sz, fread(text, 1, OUTPUT_CAPACITY - 1, file), OUTPUT_CAPACITY - 1));
    fclose(file);
    unlink(path);
    return text;
}

/* Standard output and error of `reckon ARGUMENTS`; the caller frees both. */
static int run(const struct files *files, const char *arguments, char **out, char **error)
{
    char command[1024];
    snprintf(command, sizeof command, "RECKON_DATA=%s %s %s >%s 2>%s", SOURCE_DIR, RECKON_PROGRAM, arguments,
             files->stdout_text, files->stderr_text);
    int state = system(command);
    *out = take_text(files->stdout_text);
    *error = take_text(files->stderr_text);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

static struct json *run_json(const struct files *files, const char *arguments)
{
    char *out, *text;
    struct json *root = NULL;
    struct sim_error error = { 0 };
    cr_assert(eq(int, run(files, arguments, &out, &text), 0), "%s: %s", arguments, text);
    cr_assert(eq(int, json_read_text(out, "output", &root, &error), SIM_OK), "%s", error.text);
    free(out);
    free(text);
    return root;
}

static void expect_refused(const struct files *files, const char *arguments, int code, const char *piece)
{
    char *out, *text;
    int got = run(files, arguments, &out, &text);
    size_t length = strlen(text);
    cr_expect(eq(int, got, code), "%s: %s", arguments, text);
    cr_expect(eq(str, out, ""), "%s printed a result", arguments);
    cr_expect(length > 0 && strchr(text, '\n') == text + length - 1, "%s: not one line: %s", arguments, text);
    cr_expect(strstr(text, piece) != NULL, "%s: \"%s\" lacks \"%s\"", arguments, text, piece);
    cr_expect(ne(int, access(files->out, F_OK), 0), "%s wrote a profile", arguments);
    free(out);
    free(text);
}

static double answer(const struct files *files, size_t row)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments, "kernel latency/%s %s --device h200 --harness micro_cu --json",
             rows[row][0], rows[row][1]);
    struct json *root = run_json(files, arguments);
    double value = json_number(json_get(root, "value"));
    json_destroy(root);
    return value;
}

/* The simulator's own answers as a table. */
static void write_table(const struct files *files)
{
    char text[1024] = "suite,kernel,params,time_us,value,unit,observed\n";
    for (size_t r = 0; r < ROWS; r++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "latency,%s,%s,0,%.10g,cycles,\n", rows[r][0], rows[r][1],
                 answer(files, r));
    }
    write_text(files->table, text);
}

static void write_fit(const struct files *files, const char *more)
{
    char text[1024];
    snprintf(text, sizeof text, fit_text, more);
    write_text(files->fit, text);
}

/* h200 with three latencies about 10% off. */
static void write_disturbed(struct files *files)
{
    char *text = profile_text("h200");
    text = profile_set_number(text, "l1", "hit_latency", "36", "cycle");
    text = profile_set_number(text, "l2", "hit_latency", "305", "cycle");
    text = profile_set_number(text, "l2", "far_latency", "78", "cycle");
    profile_write(text, files->base);
}

static void remove_all(const struct files *files)
{
    unlink(files->table);
    unlink(files->fit);
    unlink(files->out);
    unlink(files->base);
}

static double value_of(const char *device_path, const char *key)
{
    struct chip_profile profile = { 0 };
    struct sim_error error = { 0 };
    enum chip_number index;
    cr_assert(eq(int, chip_profile_read(device_path, &profile, &error), SIM_OK), "%s", error.text);
    double value = *chip_profile_number(&profile, key, &index);
    cr_expect(eq(int, (int)profile.meta[index].kind, PROFILE_FITTED), "%s", key);
    cr_expect(le(dbl, profile.meta[index].low, value));
    cr_expect(ge(dbl, profile.meta[index].high, value));
    cr_expect(strstr(profile.meta[index].source, "6 rows of latency") != NULL, "%s",
              profile.meta[index].source);
    chip_profile_finish(&profile);
    return value;
}

/* Made with 33, 278 and 87 (devices/h200.json), started at 36, 305 and 78. */
Test(calibrate, disturbed_values_of_a_profile_return)
{
    struct files files = files_named();
    char arguments[512];
    write_table(&files);
    write_fit(&files, "");
    write_disturbed(&files);
    snprintf(arguments, sizeof arguments, "calibrate --from %s --base %s --fit %s -o %s --json", files.table,
             files.base, files.fit, files.out);
    struct json *root = run_json(&files, arguments);
    static const struct {
        const char *key;
        double made_with;
    } expected[] = { { "l1.hit_latency", 33 }, { "l2.hit_latency", 278 }, { "l2.far_latency", 87 } };
    for (size_t i = 0; i < 3; i++) {
        double value = value_of(files.out, expected[i].key);
        cr_expect(fabs(value / expected[i].made_with - 1) < 0.05, "%s is %g, made with %g", expected[i].key,
                  value, expected[i].made_with);
    }
    for (size_t r = 0; r < ROWS; r++) {
        const struct json *row = json_at(json_get(root, "rows"), r);
        cr_expect(fabs(json_number(json_get(row, "residual"))) < 0.01, "%s",
                  json_string(json_get(row, "params")));
    }
    json_destroy(root);
    remove_all(&files);
}

/* Rows take the base's own answers, so their figures do not matter; the values start 30% off and come back. */
Test(calibrate, a_rehearsal_finds_what_it_moved)
{
    struct files files = files_named();
    char arguments[512];
    write_text(files.table, "suite,kernel,params,time_us,value,unit,observed\n"
                            "latency,chase_l1,kb=16,0,1,cycles,\nlatency,chase_l1,kb=64,0,1,cycles,\n"
                            "latency,chase_l2bypassl1,kb=64,0,1,cycles,\nlatency,chase_l2bypassl1,kb=1024,0,1,cycles,\n"
                            "latency,chase_l2bypassl1,kb=4096,0,1,cycles,\nlatency,chase_l2bypassl1,kb=8192,0,1,cycles,\n");
    write_fit(&files, "");
    snprintf(arguments, sizeof arguments, "calibrate --rehearse --from %s --base h200 --fit %s --json", files.table, files.fit);
    struct json *root = run_json(&files, arguments);
    const struct json *values = json_get(root, "values");
    cr_expect(json_bool(json_get(root, "rehearsal")));
    for (size_t i = 0; i < 3; i++) {
        const struct json *value = json_at(values, i);
        double base = json_number(json_get(value, "base"));
        cr_expect(fabs(fabs(json_number(json_get(value, "start")) / base - 1) - 0.3) < 1e-9);
        cr_expect(fabs(json_number(json_get(value, "value")) / base - 1) < 0.05, "%s: %g of %g", json_string(json_get(value, "key")),
                  json_number(json_get(value, "value")), base);
    }
    json_destroy(root);
    snprintf(arguments, sizeof arguments, "calibrate --rehearse --from %s --base h200 --fit %s -o %s", files.table, files.fit, files.out);
    expect_refused(&files, arguments, 1, "--rehearse");
    remove_all(&files);
}

/* Only the fitted lines of the profile differ from its base: here none is disturbed, so h200 itself is the base. */
Test(calibrate, the_rest_of_the_profile_stays)
{
    struct files files = files_named();
    char arguments[512], *out, *text;
    write_table(&files);
    write_fit(&files, "");
    snprintf(arguments, sizeof arguments, "calibrate --from %s --base h200 --fit %s -o %s", files.table,
             files.fit, files.out);
    cr_assert(eq(int, run(&files, arguments, &out, &text), 0), "%s", text);
    struct json *base = NULL, *fitted = NULL;
    struct sim_error error = { 0 };
    cr_assert(eq(int, json_read_file(SOURCE_DIR "/devices/h200.json", &base, &error), SIM_OK));
    cr_assert(eq(int, json_read_file(files.out, &fitted, &error), SIM_OK));
    cr_assert(eq(sz, json_count(base), json_count(fitted)));
    size_t changed = 0;
    for (size_t s = 0; s < json_count(base); s++) {
        const struct json *was = json_at(base, s), *is = json_at(fitted, s);
        cr_expect(eq(str, (char *)json_key(was), (char *)json_key(is)));
        for (size_t k = 0; k < json_count(was); k++) {
            char *before = json_print(json_at(was, k), false), *after = json_print(json_at(is, k), false);
            changed += strcmp(before, after) != 0;
            free(before);
            free(after);
        }
    }
    cr_expect(eq(sz, changed, 3));
    json_destroy(base);
    json_destroy(fitted);
    free(out);
    free(text);
    remove_all(&files);
}

Test(calibrate, no_convergence_writes_nothing)
{
    struct files files = files_named();
    char arguments[512];
    write_table(&files);
    write_fit(&files, "\"iterations\": 1, ");
    write_disturbed(&files);
    snprintf(arguments, sizeof arguments, "calibrate --from %s --base %s --fit %s -o %s", files.table,
             files.base, files.fit, files.out);
    expect_refused(&files, arguments, 2, "does not converge");
    remove_all(&files);
}

Test(calibrate, wrong_input_is_one_line)
{
    struct files files = files_named();
    char arguments[512];
    expect_refused(&files, "calibrate --run --base h200", 1, "-o");
    expect_refused(&files, "calibrate --from x.csv --fit x.json -o y.json", 1, "--base");
    expect_refused(&files, "calibrate --base h200 --fit x.json -o y.json", 1, "--from");
    expect_refused(&files, "calibrate --base mi300x --from x.csv -o y.json", 1, "calib/fits/mi300x.json");
    expect_refused(&files, "calibrate --base h200 --from x.csv --fit x.json", 1, "-o");
    expect_refused(&files, "calibrate --base nothing --from x.csv --fit x.json -o y.json", 1, "nothing");
    expect_refused(&files, "calibrate --base h200 --from x.csv --fit nowhere.json -o y.json", 1,
                   "nowhere.json");
    write_text(files.table, "suite,kernel,params,time_us,value,unit\nlatency,chase_l1,kb=16,0,39,"
                            "cycles\nlatency,chase_l2bypassl1,kb=64,0,nan,cycles\n");
    write_fit(&files, "");
    snprintf(arguments, sizeof arguments, "calibrate --from %s --base h200 --fit %s -o %s", files.table,
             files.fit, files.out);
    expect_refused(&files, arguments, 1, ":3: value is 'nan'");
    write_text(files.table, "suite,kernel,params,time_us,value,unit\nlatency,chase_l1,kb=16,0,39,"
                            "cycles\nlatency,chase_l2bypassl1,kb=64,0,280,cycles\n");
    expect_refused(&files, arguments, 1, "2 rows for 3 free values");
    snprintf(arguments, sizeof arguments, "calibrate --from nowhere.csv --base h200 --fit %s -o %s",
             files.fit, files.out);
    expect_refused(&files, arguments, 1, "nowhere.csv");
    remove_all(&files);
}

/* The base starts outside the range that the fit allows. */
Test(calibrate, a_base_outside_the_range_is_refused)
{
    struct files files = files_named();
    char arguments[512], *text = profile_text("h200");
    write_text(files.table, "suite,kernel,params,time_us,value,unit\nlatency,chase_l1,kb=16,0,39,"
                            "cycles\nlatency,chase_l2bypassl1,kb=64,0,280,cycles\n");
    write_fit(&files, "");
    profile_write(profile_set_number(text, "l1", "hit_latency", "60", "cycle"), files.base);
    snprintf(arguments, sizeof arguments, "calibrate --from %s --base %s --fit %s -o %s", files.table,
             files.base, files.fit, files.out);
    expect_refused(&files, arguments, 1, "l1.hit_latency is 60 cycle, outside the range 25..45");
    remove_all(&files);
}

/* Of two measured rows the fit takes one: they stand in two halves of the suite's line. */
Test(calibrate, accuracy_keeps_fitted_rows_apart)
{
    struct files files = files_named();
    char folder[64], table[128], arguments[512], *out, *text;
    snprintf(folder, sizeof folder, "/tmp/reckon_calib_%d", (int)getpid());
    snprintf(table, sizeof table, "%s/latency.csv", folder);
    snprintf(arguments, sizeof arguments, "mkdir %s", folder);
    cr_assert(eq(int, system(arguments), 0));
    write_text(table, "suite,kernel,params,time_us,value,unit\nlatency,chase_l1,kb=16,0,39,cycles\n"
                      "latency,chase_l2bypassl1,kb=64,0,280,cycles\n");
    write_text(files.fit, "{\"schema\": \"reckon.fit/1\", \"values\": [{\"key\": \"l1.hit_latency\", "
                          "\"low\": 25, \"high\": 45}],\n"
                          "\"rows\": [{\"suite\": \"latency\", \"kernel\": \"chase_l1\"}]}");
    snprintf(arguments, sizeof arguments, "calibrate --accuracy %s --base h200 --fit %s -o %s", folder,
             files.fit, files.out);
    cr_assert(eq(int, run(&files, arguments, &out, &text), 0), "%s", text);
    char *report = take_text(files.out);
    const char *line = strstr(out, "| latency | 1 | ");
    cr_assert(line != NULL, "%s", out);
    double rest[3], fitted[3];
    int fitted_rows = 0;
    cr_assert(eq(int,
                 sscanf(line, "| latency | 1 | %lf | %lf | %lf | %d | %lf | %lf | %lf |", &rest[0], &rest[1],
                        &rest[2], &fitted_rows, &fitted[0], &fitted[1], &fitted[2]),
                 7));
    cr_expect(eq(int, fitted_rows, 1));
    cr_expect(fabs(fabs(rest[2]) - rest[0]) < 1e-9 && fabs(rest[1] - rest[0]) < 1e-9,
              "one row: median, p90 and |bias| are one figure");
    cr_expect(ne(dbl, rest[0], fitted[0]));
    cr_expect(strstr(report, "latency/chase_l1 kb=16 | 39 cycles") != NULL, "%s", report);
    free(report);
    free(out);
    free(text);
    unlink(table);
    rmdir(folder);
    remove_all(&files);
}
