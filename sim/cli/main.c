/* reckon COMMAND ...: finds the command and leaves the rest to it. Exit codes: 0 done, 1 user error, 2 cannot, 3 internal. */
#include "reckon_version.h"
#include "sim/cli/cli.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
};

static const struct command commands[] = {
    { "predict", cmd_predict, "time of a recorded training step on one or more devices" },
    { "kernel", cmd_kernel, "time of one kernel, with its limiter and cycle stack" },
    { "atomics", cmd_atomics, "time against contention, before and after fixes, on several devices" },
    { "gemm", cmd_gemm, "tile, split and time of a matrix product, with its candidates" },
    { "collective", cmd_collective, "time of one collective on a node or cluster" },
    { "power", cmd_power, "what board power leaves dense products in bursts" },
    { "advise", cmd_advise, "changes that would make a step shorter, ranked by what they gain" },
    { "sweep", cmd_sweep, "a study: many points of one step, their front, kept in a store" },
    { "validate", cmd_validate, "predictions against measured tables" },
    { "calibrate", cmd_calibrate, "numbers of a device profile fitted to measured tables" },
    { "plan", cmd_plan, "what to buy or lease for a demand: GPUs, power, cost, the cheapest mix" },
    { "compare", cmd_compare, "what changed between two answers" },
    { "devices", cmd_devices, "the device profiles: list, show, check" },
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    fprintf(out, "Usage: reckon COMMAND [OPTION...]\n"
                 "How long a DLRM training step and its kernels take on GPUs you need not own, and why.\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-11s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(out,
            "\nreckon COMMAND --help says more. Example:\n"
            "  reckon predict step.kineto.json.gz --device mi350x,b200,h200\n\n"
            "Exit codes: 0 done, 1 wrong input, 2 cannot (does not fit, not modelled), 3 a bug of ours.\n");
}

/* SIM_ASSERT has printed what went wrong. */
static void on_abort(int signal_number)
{
    (void)signal_number;
    _exit(3);
}

static int unknown_command(const char *name)
{
    fprintf(stderr, "reckon: unknown command '%s' (commands:", name);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(stderr, "%s %s", i > 0 ? "," : "", commands[i].name);
    }
    fprintf(stderr, ")\n");
    return 1;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    char name[64];
    snprintf(name, sizeof name, "reckon %s", command->name);
    argv[1] = name; /* argp prints it in usage lines */
    int code = command->run(argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "%s: cannot write standard output: %s\n", name, strerror(errno));
        return code != 0 ? code : 1;
    }
    return code;
}

int main(int argc, char **argv)
{
    signal(SIGABRT, on_abort);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error on output, not a death */
    argp_program_version = "reckon " RECKON_VERSION " (" RECKON_COMMIT ")";
    argp_err_exit_status = 1;
    if (argc < 2) {
        fprintf(stderr, "reckon: a command is needed (reckon --help lists them)\n");
        return 1;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        cli_print_version();
        return 0;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return run_command(&commands[i], argc, argv);
        }
    }
    return unknown_command(argv[1]);
}
