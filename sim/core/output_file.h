/* A file that a command writes: it takes its place whole or not at all. What is written goes to a new file beside `path`;
 * closing renames it. A full disk, an interrupt or an error leaves what was there. */
#ifndef SIM_CORE_OUTPUT_FILE_H
#define SIM_CORE_OUTPUT_FILE_H
#include "sim/core/status.h"
#include <stdio.h>

struct output_file {
    FILE *stream; /* to write to */
    const char *option, *path; /* borrowed */
    char *target, *beside;     /* owned; beside NULL: written in place, since it is no regular file (a pipe, a terminal) */
};

/* option: "--svg " or "", before the path in messages. Errors: SIM_BAD_FILE. */
enum sim_status output_file_open(struct output_file *file, const char *option, const char *path, struct sim_error *error);
/* Could `path` be written? Leaves it as it is; for a command to ask before it computes what it will write there.
 * Errors: SIM_BAD_FILE, as of opening. */
enum sim_status output_file_check(const char *option, const char *path, struct sim_error *error);
/* Puts it in place. Errors: SIM_BAD_FILE, when any write failed or this does; then `path` is as before. */
enum sim_status output_file_close(struct output_file *file, struct sim_error *error);
/* Instead of closing: leaves `path` as before. Zeroed memory is allowed. */
void output_file_drop(struct output_file *file);

#endif
