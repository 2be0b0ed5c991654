/* Sweeps as a user meets them: a store that survives kill -9, has the same bytes whoever worked, and says no in one line. */
#include "tests/studies/run_program.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TINY SOURCE_DIR "/tests/fixtures/studies/tiny.json"
#define MODEL SOURCE_DIR "/tests/fixtures/models/tiny.json"
#define TINY_POINTS 12 /* 2 devices x 3 batches x 2 bucket sizes */
#define TINY_INFEASIBLE 4 /* batch 256 on one GPU is above global_batch 200: 2 devices x 2 bucket sizes */

static void sweep(const char *study, const char *database, const char *more)
{
    char arguments[1024];
    snprintf(arguments, sizeof arguments, "sweep %s --db %s/%s --json %s", study, folder, database, more);
    struct run result = run(arguments);
    cr_expect(eq(int, result.code, 0), "%s", result.error);
    run_free(&result);
}

static int64_t number(const char *database, const char *sql)
{
    char path[256];
    sqlite3 *open = NULL;
    sqlite3_stmt *statement = NULL;
    int64_t value = -1;
    snprintf(path, sizeof path, "%s/%s", folder, database);
    if (sqlite3_open_v2(path, &open, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(open, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
        value = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    sqlite3_close(open);
    return value;
}

static void expect_same_files(const char *a, const char *b)
{
    char command[512];
    snprintf(command, sizeof command, "cmp %s/%s %s/%s", folder, a, folder, b);
    cr_expect(eq(int, system(command), 0), "%s and %s differ", a, b);
}

Test(sweep, bytes_do_not_depend_on_workers, .init = make_folder, .fini = remove_folder)
{
    sweep(TINY, "one.db", "--jobs 1");
    sweep(TINY, "three.db", "--jobs 3");
    expect_same_files("one.db", "three.db");
    cr_expect(eq(i64, number("one.db", "SELECT count(*) FROM point"), TINY_POINTS));
    cr_expect(eq(i64, number("one.db", "SELECT count(*) FROM point WHERE status='infeasible' AND reason LIKE 'global_batch 256 is above 200%'"),
                 TINY_INFEASIBLE));
    cr_expect(eq(i64, number("one.db", "SELECT count(*) FROM meta WHERE key='state' AND value='finished'"), 1));
}

/* The `nth` number behind `key` in a text of JSON; NAN: there are not so many. */
static double json_value(const char *text, const char *key, size_t nth)
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    for (const char *at = strstr(text, quoted); at != NULL; at = strstr(at + 1, quoted)) {
        if (nth-- == 0) {
            return strtod(at + strlen(quoted), NULL);
        }
    }
    return NAN;
}

/* Eight samples of the first point of the front are those of the same step by predict; the store does not hold them. */
Test(sweep, intervals_are_what_predict_says, .init = make_folder, .fini = remove_folder)
{
    char arguments[512];
    sweep(TINY, "plain.db", "--jobs 2");
    snprintf(arguments, sizeof arguments, "sweep " TINY " --db %s/sampled.db --json --uncertainty 8", folder);
    struct run swept = run(arguments), predicted = run("predict " MODEL " --device h200 --set batch=64 --set bucket_mib=10 --uncertainty 8 --json");
    cr_assert(eq(int, swept.code, 0), "%s", swept.error);
    cr_assert(strstr(swept.out, "\"batch\": \"64\"") != NULL, "the first point of the front is another: %s", swept.out);
    static const char *const keys[] = { "step_ms", "step_ms_low", "step_ms_high", "examples_per_s" };
    for (size_t k = 0; k < 4; k++) {
        double own = json_value(swept.out, keys[k], 0), other = json_value(predicted.out, keys[k], 0);
        cr_expect(fabs(own / other - 1) < 1e-9, "%s: %g by sweep, %g by predict", keys[k], own, other);
    }
    double low = json_value(swept.out, "examples_per_s_low", 0), high = json_value(swept.out, "examples_per_s_high", 0);
    cr_expect(fabs(low * json_value(swept.out, "step_ms_high", 0) / (64 * 1e3) - 1) < 1e-9, "the slowest step is the least throughput");
    cr_expect(fabs(high * json_value(swept.out, "step_ms_low", 0) / (64 * 1e3) - 1) < 1e-9, "the fastest step is the most throughput");
    cr_expect(low < high);
    expect_same_files("plain.db", "sampled.db");
    run_free(&swept);
    run_free(&predicted);
}

Test(sweep, values_are_what_predict_says, .init = make_folder, .fini = remove_folder)
{
    sweep(TINY, "one.db", "--jobs 2");
    struct run result = run("predict " MODEL " --device mi350x --set batch=128 --set bucket_mib=25 --jobs 2 --json");
    const char *at = strstr(result.out, "\"step_ms\":");
    char sql[256];
    cr_assert(at != NULL, "%s", result.out);
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM point WHERE device='mi350x' AND settings='batch=128;bucket_mib=25' AND abs(step_ms/%.17g-1)<1e-12 "
             "AND abs(examples_per_s/(128/(step_ms*1e-3))-1)<1e-9 AND abs(examples_per_cost/(examples_per_s*3600/3)-1)<1e-9",
             strtod(at + strlen("\"step_ms\":"), NULL));
    cr_expect(eq(i64, number("one.db", sql), 1));
    run_free(&result);
}

static pid_t start_sweep(const char *study, const char *database)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, database);
    pid_t child = fork();
    if (child == 0) {
        setenv("RECKON_DATA", SOURCE_DIR, 1);
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        execl(RECKON_PROGRAM, "reckon", "sweep", study, "--db", path, "--jobs", "2", (char *)NULL);
        _exit(127);
    }
    return child;
}

/* Workers hold no store: it is free when the process that wrote it has ended, though they may take a moment to notice. */
static bool store_is_free(const char *database)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, database);
    int file = open(path, O_RDWR);
    bool is_free = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0;
    close(file);
    return is_free;
}

/* Killed as soon as there are some points: what was there stays as it was, nothing is done twice, and the end is the same file. */
Test(sweep, killed_sweep_goes_on_where_it_was, .init = make_folder, .fini = remove_folder)
{
    int state = 0;
    int64_t there = 0;
    pid_t child = start_sweep(TINY, "killed.db");
    for (int i = 0; i < 6000 && there < 2; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        there = number("killed.db", "SELECT count(*) FROM point");
    }
    kill(child, SIGKILL);
    waitpid(child, &state, 0);
    bool killed = WIFSIGNALED(state);
    cr_assert(killed, "the sweep was done before it was killed");
    cr_expect(store_is_free("killed.db"));
    there = number("killed.db", "SELECT count(*) FROM point");
    cr_expect(there >= 2 && there < TINY_POINTS, "%d points", (int)there);
    sweep(TINY, "killed.db", "--jobs 2");
    char arguments[512], before[64];
    snprintf(arguments, sizeof arguments, "sweep %s --db %s/killed.db --json", TINY, folder);
    struct run again = run(arguments); /* nothing is left to do: all were there before */
    snprintf(before, sizeof before, "\"tried_before\": %d", TINY_POINTS);
    cr_expect(strstr(again.out, before) != NULL, "%s", again.out);
    run_free(&again);
    sweep(TINY, "whole.db", "--jobs 1");
    expect_same_files("killed.db", "whole.db");
}

Test(sweep, csv_has_a_row_a_point, .init = make_folder, .fini = remove_folder)
{
    char arguments[512], path[128];
    snprintf(path, sizeof path, "%s/all.csv", folder);
    snprintf(arguments, sizeof arguments, "--csv %s", path);
    sweep(TINY, "one.db", arguments);
    char *text = take_file(path);
    size_t lines = 0;
    for (const char *at = text; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    cr_expect(eq(sz, lines, TINY_POINTS + 1));
    cr_expect(strncmp(text, "point,device,node,set_batch,set_bucket_mib,status,reason,step_ms,", 65) == 0, "%.80s", text);
    free(text);
}

/* ---- stores that cannot be gone on with */

static void execute(const char *database, const char *sql)
{
    char path[256];
    sqlite3 *open = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, database);
    cr_assert(eq(int, sqlite3_open(path, &open), SQLITE_OK));
    cr_assert(eq(int, sqlite3_exec(open, sql, NULL, NULL, NULL), SQLITE_OK), "%s", sqlite3_errmsg(open));
    sqlite3_close(open);
}

static void expect_store_refused(const char *study, const char *database, const char *piece)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "sweep %s --db %s/%s", study, folder, database);
    refused(arguments, 1, piece);
}

Test(sweep, stores_of_others_are_left_alone, .init = make_folder, .fini = remove_folder)
{
    char path[256];
    sweep(TINY, "one.db", "");
    execute("one.db", "UPDATE meta SET value='0.0.0 older' WHERE key='program'");
    expect_store_refused(TINY, "one.db", "is of another version of the program (0.0.0 older");
    execute("one.db", "PRAGMA user_version=7");
    expect_store_refused(TINY, "one.db", "is a store of version 7");
    execute("one.db", "PRAGMA application_id=0");
    expect_store_refused(TINY, "one.db", "is no store of sweeps");
    cr_expect(eq(i64, number("one.db", "SELECT count(*) FROM point"), TINY_POINTS), "a refused store was changed");
    snprintf(path, sizeof path, "%s/text.db", folder);
    FILE *file = fopen(path, "w");
    fputs("this is no database, though it is long enough to be taken for the first page of one\n", file);
    fclose(file);
    expect_store_refused(TINY, "text.db", "is no store of sweeps");
    expect_store_refused(TINY, "nowhere/one.db", "cannot be opened");
}

Test(sweep, two_writers_are_one_too_many, .init = make_folder, .fini = remove_folder)
{
    char path[256];
    sweep(TINY, "one.db", "");
    snprintf(path, sizeof path, "%s/one.db", folder);
    int file = open(path, O_RDWR);
    cr_assert(file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0);
    expect_store_refused(TINY, "one.db", "another sweep is writing it");
    close(file);
    sweep(TINY, "one.db", "");
}

/* ---- studies that cannot be run */

#define HEAD "{\"schema\": \"reckon.study/1\", \"name\": \"s\", \"input\": \"" MODEL "\", "

static const struct {
    const char *text, *piece;
} bad[] = {
    { HEAD "\"grid\": {\"device\": [\"h200\"]}, \"colour\": 1}", "unknown key \"colour\": must be schema, name" },
    { HEAD "\"grid\": {}}", "grid is empty" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"batch\": []}}", "\"batch\" has no value, so the grid is empty" },
    { HEAD "\"grid\": {\"batch\": [64]}}", "\"device\" is missing" },
    { "{\"schema\": \"reckon.study/1\", \"name\": \"s\", \"input\": \"" MODEL "\"}", "no point: \"grid\" or \"points\" is needed" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"batch\": [64]}, \"constraints\": {\"step_ms\": {\"min\": 5, \"max\": 1}}}",
      "constraints contradict each other: step_ms must be at least 5 and at most 1" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"batch\": [64, 128]}, \"constraints\": {\"global_batch\": {\"min\": 1000}}}",
      "no point of 2 can meet them" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"batch\": [64]}, \"constraints\": {\"speed\": {\"min\": 1}}}", "unknown metric 'speed'" },
    { HEAD "\"grid\": {\"device\": [\"h300\"], \"batch\": [64]}}", "device: unknown device" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"batch\": [\"many\"]}}", "batch: --set batch=many: must be a number" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"bach\": [64]}}", "bach: --set bach=64: not a key of a model" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"fix\": [\"magic\"]}}", "fix: unknown fix 'magic'" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"plan\": [\"sideways\"]}}", "plan: 'sideways' is neither auto" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"batch\": [64, 64]}}", "points 0 and 1 are the same" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"batch\": {\"from\": 1, \"to\": 4}}}", "a range of \"batch\" must be" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"batch\": [64]}, \"pareto\": [\"core_mhz\"]}", "neither more nor less is better" },
    { HEAD "\"grid\": {\"device\": [\"h200\"], \"batch\": [64]}, \"pareto\": [\"examples_per_cost\"]}", "cost_per_gpu_hour has no h200" },
    /* 100,000 values each: refused at the second, not after all are laid out */
    { HEAD "\"grid\": {\"batch\": {\"from\": 1, \"to\": 1e5, \"step\": 1}, \"sequence\": {\"from\": 1, \"to\": 1e5, \"step\": 1}}}",
      "grid has 10000000000 points up to \"sequence\", more than 1000000" },
    { HEAD "\"points\": [{\"batch\": 64}]}", "a point names no \"device\"" },
};

Test(sweep, wrong_studies_are_one_line, .init = make_folder, .fini = remove_folder)
{
    char path[128], arguments[512];
    snprintf(path, sizeof path, "%s/bad.json", folder);
    snprintf(arguments, sizeof arguments, "sweep %s --db %s/bad.db", path, folder);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        FILE *file = fopen(path, "w");
        fputs(bad[i].text, file);
        fclose(file);
        refused(arguments, 1, bad[i].piece);
    }
    refused("sweep " TINY, 1, "--db FILE is needed");
    refused("sweep", 1, "a study is needed");
    refused("sweep " TINY " --db x.db --device h200", 1, "the study names its devices");
}

/* Nothing that was tried can be: a line that says so and why, exit 2, and the points kept with their reasons. */
Test(sweep, nothing_feasible_is_said_and_kept, .init = make_folder, .fini = remove_folder)
{
    static const char *const more[] = { "", ", \"search\": {\"objective\": \"examples_per_s\", \"evaluations\": 4}" };
    char path[128], arguments[512];
    snprintf(path, sizeof path, "%s/none.json", folder);
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(path, "w");
        fprintf(file, HEAD "\"grid\": {\"device\": [\"h200\"], \"batch\": [64, 128]}, \"constraints\": {\"step_ms\": {\"max\": 0.001}}%s}",
                more[i]);
        fclose(file);
        snprintf(arguments, sizeof arguments, "sweep %s --db %s/none%d.db --json", path, folder, i);
        struct run result = run(arguments);
        cr_expect(eq(int, result.code, 2), "%s", result.error);
        cr_expect(strstr(result.error, "none of the 2 points tried is feasible; 2 of them: step_ms ") != NULL, "%s", result.error);
        cr_expect(strchr(result.error, '\n') == result.error + strlen(result.error) - 1, "not one line: %s", result.error);
        cr_expect(strstr(result.out, "\"infeasible\": 2") != NULL, "%s", result.out);
        run_free(&result);
    }
    cr_expect(eq(i64, number("none0.db", "SELECT count(*) FROM point WHERE status='infeasible' AND reason LIKE 'step_ms % is above 0.001 ms'"), 2));
    cr_expect(eq(i64, number("none0.db", "SELECT count(*) FROM meta WHERE key='state' AND value='finished'"), 1));
}

/* ---- search */

Test(sweep, search_finds_the_best_of_the_grid, .init = make_folder, .fini = remove_folder)
{
    char path[128];
    snprintf(path, sizeof path, "%s/search.json", folder);
    FILE *file = fopen(path, "w");
    /* Host-bound: examples/s grow with the batch up to the bound, 160, which is the 10th of 16 batches. */
    fputs(HEAD "\"grid\": {\"device\": [\"h200\"], \"batch\": {\"from\": 16, \"to\": 256, \"step\": 16}}, \"constraints\": {\"global_batch\": "
               "{\"max\": 160}}, \"search\": {\"objective\": \"examples_per_s\", \"evaluations\": 12}}",
          file);
    fclose(file);
    sweep(path, "search.db", "--jobs 2");
    cr_expect(eq(i64, number("search.db", "SELECT id FROM point ORDER BY examples_per_s DESC LIMIT 1"), 9));
    int64_t tried = number("search.db", "SELECT count(*) FROM point");
    cr_expect(tried <= 12 && tried >= 4, "%d tried", (int)tried);
    sweep(path, "again.db", "--jobs 1");
    expect_same_files("search.db", "again.db");
}

#ifdef RECKON_MPIRUN
Test(sweep, bytes_do_not_depend_on_ranks, .init = make_folder, .fini = remove_folder)
{
    char command[1024];
    sweep(TINY, "alone.db", "--jobs 1");
    snprintf(command, sizeof command, "RECKON_DATA=%s OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 %s --oversubscribe -n 3 %s sweep %s --db %s/ranks.db >/dev/null",
             SOURCE_DIR, RECKON_MPIRUN, RECKON_PROGRAM, TINY, folder);
    cr_expect(eq(int, system(command), 0));
    expect_same_files("alone.db", "ranks.db");
}
#endif
