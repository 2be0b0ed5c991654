/* Hard knocks: an input that is not understood, disks that are full or read-only, an interrupt, a closed pipe, odd names, a
 * locale with decimal commas. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIELD SOURCE_DIR "/tests/fixtures/traces/field/"

/* Standard output and error of a shell command together; its exit code in *code. */
static char *output_of(const char *command, int *code)
{
    char *text = calloc(1, 1 << 20), line[6000];
    snprintf(line, sizeof line, "{ export RECKON_DATA=%s; %s ; } 2>&1", SOURCE_DIR, command);
    FILE *pipe = popen(line, "r");
    cr_assert(pipe != NULL && text != NULL);
    size_t used = 0, got;
    while ((got = fread(text + used, 1, (1 << 20) - 1 - used, pipe)) > 0) {
        used += got;
    }
    int state = pclose(pipe);
    *code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    return text;
}

static void expect(const char *command, int code, const char *piece)
{
    int got;
    char *text = output_of(command, &got);
    cr_expect(eq(int, got, code), "%s: %s", command, text);
    cr_expect(strstr(text, piece) != NULL, "wanted '%s' from %s: %s", piece, command, text);
    free(text);
}

static char *temporary_folder(void)
{
    static char path[64];
    strcpy(path, "/tmp/reckon_robust_XXXXXX");
    cr_assert(mkdtemp(path) != NULL);
    return path;
}

/* All of the control's kernels lack shapes: on another device they could only be replayed. */
Test(robust, no_step_time_where_too_little_is_understood)
{
    expect(RECKON_PROGRAM " predict " FIELD "ok-minimal.json --device b200 --json", 2, "no step time on b200: not enough is understood");
    expect(RECKON_PROGRAM " predict " FIELD "ok-minimal.json --device b200 --json", 2, "\"step_ms\": null");
    expect(RECKON_PROGRAM " predict " FIELD "ok-minimal.json --device b200 --json --force", 0, "\"enough\": false");
    expect(RECKON_PROGRAM " predict " FIELD "ok-minimal.json --device mi350x", 0, "usable on the device it was recorded on");
}

Test(robust, verdict_comes_before_the_result)
{
    int code;
    char *text = output_of(RECKON_PROGRAM " predict " FIELD "h23-rccl-correlation-zero.json --device mi350x", &code);
    const char *verdict = strstr(text, "input: usable"), *result = strstr(text, "step, queued back to back");
    cr_expect(verdict != NULL && result != NULL && verdict < result, "%s", text);
    cr_expect(strstr(text, "GPU busy 0.500 ms (union), kernel time 0.580 ms (sum)") != NULL, "%s", text);
    free(text);
}

Test(robust, chakra_nodes_follow_each_other_without_a_gap)
{
    expect(RECKON_PROGRAM " predict " FIELD "h30-dangling-dep.et --device mi350x --json", 0, "\"step_ms\": 0.02,");
    expect(RECKON_PROGRAM " predict " FIELD "h29-deep-chain.et.gz --device mi350x --json", 0, "\"step_ms\": 5,");
    expect(RECKON_PROGRAM " predict " FIELD "h28-cycle.et --device mi350x", 1, "cycle of 3");
}

/* Written whole or not at all: a page for which there is no room leaves the old one. A file limit stands for the disk. */
Test(robust, full_disk_leaves_the_old_file)
{
    char command[1000];
    const char *folder = temporary_folder();
    snprintf(command, sizeof command,
             "cd %s && echo old >page.html && (ulimit -f 16; trap '' XFSZ; " RECKON_PROGRAM " predict " FIELD
             "ok-minimal.json --device mi350x --html page.html >/dev/null); echo code $?; cat page.html; ls | wc -l",
             folder);
    expect(command, 0, "File too large\ncode 1\nold\n1\n");
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect(eq(int, system(command), 0));
}

Test(robust, closed_output_is_an_error)
{
    expect(RECKON_PROGRAM " devices >/dev/full", 1, "cannot write standard output");
}

Test(robust, names_with_spaces_quotes_and_letters)
{
    char command[1500];
    const char *folder = temporary_folder();
    snprintf(command, sizeof command,
             "cd %s && cp " FIELD "ok-minimal.json 'sp\xc3\xa4 ce \"q\" $(touch x) ;.json' && " RECKON_PROGRAM
             " predict 'sp\xc3\xa4 ce \"q\" $(touch x) ;.json' --device mi350x --html '<b>.html' | head -1; ls | wc -l",
             folder);
    expect(command, 0, "\n2\n"); /* the trace and the page: nothing was run */
    snprintf(command, sizeof command, "grep -c '<b>' %s/'<b>.html'; rm -r %s", folder, folder);
    expect(command, 0, "0"); /* no name passes into the page as markup */
}

Test(robust, interrupt_ends_all_of_it)
{
    pid_t child = fork();
    if (child == 0) {
        setenv("RECKON_DATA", SOURCE_DIR, 1);
        signal(SIGINT, SIG_DFL);
        if (freopen("/dev/null", "w", stdout) == NULL) {
            _exit(9);
        }
        execl(RECKON_PROGRAM, "reckon", "predict", SOURCE_DIR "/tests/fixtures/traces/dlrm_dcnv2_w1_r0.kineto.json.gz",
              "--device", "mi350x", "--jobs", "2", (char *)NULL);
        _exit(9);
    }
    usleep(700000);
    kill(child, SIGINT);
    int state;
    cr_assert(eq(i32, waitpid(child, &state, 0), child));
    bool started = WIFSIGNALED(state) ? true : WEXITSTATUS(state) != 9;
    cr_expect(started, "state %d", state);
}

Test(robust, decimal_comma_changes_nothing)
{
    int code;
    char *plain = output_of("LC_ALL=C " RECKON_PROGRAM " predict " FIELD "ok-minimal.json --device mi350x --json", &code);
    char *comma = output_of("LC_ALL=de_DE.UTF-8 LC_NUMERIC=de_DE.UTF-8 " RECKON_PROGRAM " predict " FIELD "ok-minimal.json --device mi350x --json",
                            &code);
    cr_expect(eq(str, plain, comma));
    free(plain);
    free(comma);
}

Test(robust, version_names_code_and_profiles)
{
    expect(RECKON_PROGRAM " --version", 0, "\nprofiles ");
}
