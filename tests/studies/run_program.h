/* Runs the program as a user does, in a folder of the test's own; each test is a process. */
#ifndef TESTS_STUDIES_RUN_PROGRAM_H
#define TESTS_STUDIES_RUN_PROGRAM_H
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct run {
    int code;
    char *out, *error;
};

static char folder[64]; /* of this test; each is a process */

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/reckon_sweep_%d", (int)getpid());
    mkdir(folder, 0700);
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect(eq(int, system(command), 0));
}

static char *take_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    cr_assert(file != NULL && text != NULL, "%s", path);
    cr_expect(lt(sz, fread(text, 1, (1 << 20) - 1, file), (1 << 20) - 1));
    fclose(file);
    return text;
}

static struct run run(const char *arguments)
{
    char command[4096], out[128], error[128];
    struct run result;
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(error, sizeof error, "%s/error", folder);
    snprintf(command, sizeof command, "RECKON_DATA=%s %s %s >%s 2>%s", SOURCE_DIR, RECKON_PROGRAM, arguments, out, error);
    int state = system(command);
    result.code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    result.out = take_file(out);
    result.error = take_file(error);
    return result;
}

static void run_free(struct run *result)
{
    free(result->out);
    free(result->error);
}

static void refused(const char *arguments, int code, const char *piece)
{
    struct run result = run(arguments);
    size_t length = strlen(result.error);
    cr_expect(eq(int, result.code, code), "%s: exit %d, %s", arguments, result.code, result.error);
    cr_expect(eq(str, result.out, ""), "%s printed a result", arguments);
    cr_expect(length > 0 && strchr(result.error, '\n') == result.error + length - 1, "not one line: %s", result.error);
    cr_expect(strstr(result.error, piece) != NULL, "\"%s\" is not in: %s", piece, result.error);
    run_free(&result);
}

#endif
