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

/* Before anything is computed: the missing parameter of the kernel would be found later. */
Test(robust, a_file_that_cannot_be_written_is_said_first)
{
    expect(RECKON_PROGRAM " kernel launch/empty --device h200 --html /nonexistent/a.html", 1, "--html /nonexistent/a.html: No such file");
    expect(RECKON_PROGRAM " kernel launch/empty --device h200 --html /tmp", 1, "--html /tmp: Is a directory");
    expect(RECKON_PROGRAM " kernel launch/empty --device h200 --html ''", 1, "--html '': the name of a file is needed");
    expect(RECKON_PROGRAM " predict nofile --device h200 --perfetto /nonexistent/a.json", 1, "--perfetto /nonexistent/a.json: No such file");
    expect(RECKON_PROGRAM " sweep nofile --db x.db --csv /nonexistent/a.csv", 1, "--csv /nonexistent/a.csv: No such file");
    expect(RECKON_PROGRAM " sweep nofile --db ''", 1, "--db '': the name of a file is needed");
}

/* The second would replace the first without a word. */
Test(robust, two_outputs_do_not_share_a_file)
{
    expect(RECKON_PROGRAM " predict nofile --device h200 --html /tmp/reckon_same --perfetto /tmp/reckon_same", 1,
           "--perfetto '/tmp/reckon_same': --html writes there");
    expect(RECKON_PROGRAM " sweep nofile --db /tmp/reckon_same --csv /tmp/reckon_same", 1, "--csv '/tmp/reckon_same': --db writes there");
    expect(RECKON_PROGRAM " compare a b --html /tmp/reckon_a --html /tmp/reckon_b", 1, "given twice (/tmp/reckon_a before)");
}

Test(robust, nothing_given_is_dropped)
{
    expect(RECKON_PROGRAM " compare " SOURCE_DIR "/tests/fixtures/answers/minimal_h200.json " SOURCE_DIR
                          "/tests/fixtures/answers/minimal_mi350x.json --device h200",
           1, "--device 'h200': the answers name their devices");
    expect(RECKON_PROGRAM " predict tiny --device h200 --set batch=64 --set batch=128", 1,
           "--set batch=128: batch is set already (batch=64): give it once");
    expect(RECKON_PROGRAM " advise tiny --device h200 --set batch=64 --set batch=128", 1, "batch is set already (batch=64)");
    expect(RECKON_PROGRAM " predict " FIELD "ok-minimal.json --device h200 --fix ''", 1, "--fix '': the name of a fix is needed");
    expect(RECKON_PROGRAM " predict " FIELD "ok-minimal.json --device h200 --set fix=", 1, "--set fix '': the name of a fix is needed");
    expect(RECKON_PROGRAM " advise " FIELD "ok-minimal.json --device h200 --fix ''", 1, "--fix '': the name of a fix is needed");
    expect(RECKON_PROGRAM " kernel scatter/index_add n=200 D=64 rows=100 --fix privatise --fix privatise --device h200", 1,
           "--fix 'privatise': given twice");
    expect(RECKON_PROGRAM " predict " FIELD "ok-minimal.json --device h200 --set foo=1", 2, "skew, hot_share and fix set");
}

#define TINY SOURCE_DIR "/tests/fixtures/models/tiny.json"

Test(robust, of_a_description_nothing_is_said_twice)
{
    expect(RECKON_PROGRAM " predict " TINY " --device h200 --batch 100 --set batch=50", 1, "--set batch=100: batch is set already (batch=50)");
    expect(RECKON_PROGRAM " predict " TINY " --device h200 --gpus 2 --set gpus=1", 1, "--set gpus=2: gpus is set already (gpus=1)");
    expect(RECKON_PROGRAM " predict " TINY " --device h200 --traced-host", 1, "is a model description, without traced times");
}

/* argp does not say which; the last argument is not it. */
Test(robust, the_unknown_option_is_named)
{
    expect(RECKON_PROGRAM " kernel --frob launch/empty n=1 --device h200", 1, "option '--frob' is not known");
    expect(RECKON_PROGRAM " kernel launch/empty -z n=1 --device h200", 1, "option '-z' is not known");
    expect(RECKON_PROGRAM " kernel --json=3 launch/empty n=1 -d h200", 1, "option '--json=3' is not known, lacks its value, or takes none");
    expect(RECKON_PROGRAM " kernel --e fluid launch/empty n=1 -dh200", 1, "option '--e' is not known"); /* engine or exact */
    expect(RECKON_PROGRAM " kernel launch/empty n=1 --device h200 --uncertainty", 1, "option '--uncertainty' is not known, lacks");
    expect(RECKON_PROGRAM " collective all_reduce -1 --node h200x8 --gpus 8", 1, "option '-1' is not known");
}

/* Not what it lacks. */
Test(robust, another_kind_of_file_is_no_study)
{
    expect(RECKON_PROGRAM " sweep " SOURCE_DIR "/tests/fixtures/demands/tiny.json --db /tmp/reckon_no.db", 1,
           "\"schema\" must be \"reckon.study/1\"");
}

Test(robust, closed_output_is_an_error)
{
    expect(RECKON_PROGRAM " devices >/dev/full", 1, "cannot write standard output");
}

/* The reader has gone before anything is written. */
Test(robust, closed_pipe_is_an_error)
{
    expect("( sleep 0.2; " RECKON_PROGRAM " devices h200; echo code $? >&2 ) | true", 0, "cannot write standard output: Broken pipe\ncode 1");
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
        setpgid(0, 0);
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
    bool left = true; /* the workers, in its process group, were not sent anything */
    for (int i = 0; i < 100 && left; i++) {
        left = kill(-child, 0) == 0;
        usleep(20000);
    }
    cr_expect(not(left), "workers outlive an interrupted parent");
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

/* Opening one would wait for a writer. */
Test(robust, a_pipe_is_no_trace)
{
    char command[400];
    char *folder = temporary_folder();
    snprintf(command, sizeof command, "mkfifo %s/p.json && timeout 20 " RECKON_PROGRAM " predict %s/p.json --device b200", folder, folder);
    expect(command, 1, "/p.json: a pipe, and a trace is read more than once: write it to a file");
    snprintf(command, sizeof command, "rm -r %s", folder);
    expect(command, 0, "");
}

/* A kernel called by an escape, a line end and a byte that is no UTF-8: none of them reaches a terminal, and JSON stays JSON. */
Test(robust, names_from_a_trace_are_printable)
{
    char command[700];
    int code;
    char *folder = temporary_folder();
    snprintf(command, sizeof command,
             "LC_ALL=C sed 's/\"name\": \"tbe_forward\"/\"name\": \"ker\\\\u001b[31m\\\\nnel\\x9a\"/' " FIELD "ok-minimal.json >%s/t.json && "
             RECKON_PROGRAM " predict %s/t.json --device mi350x",
             folder, folder);
    expect(command, 0, "ker?[31m nel?");
    snprintf(command, sizeof command, RECKON_PROGRAM " predict %s/t.json --device mi350x --json | iconv -f UTF-8 -t UTF-8 | grep -c 'ker?.31m nel?'", folder);
    char *text = output_of(command, &code);
    cr_expect(eq(int, code, 0), "%s", text);
    free(text);
    snprintf(command, sizeof command, "rm -r %s", folder);
    expect(command, 0, "");
}
