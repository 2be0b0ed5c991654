/* Where data files are: profiles by name. The folder is $RECKON_DATA when that is set, else the checkout that the program
 * was built from, else the install prefix; below it lie devices/NAME.json, devices/nodes, devices/hosts, devices/harness. */
#ifndef SIM_CORE_DATA_PATH_H
#define SIM_CORE_DATA_PATH_H
#include "sim/core/status.h"
#include <stdbool.h>
#include <stddef.h>

#define DATA_PATH_CAPACITY 4096

struct data_names {
    char **name; /* sorted, without ".json"; owned */
    size_t count;
};

/* The file that `name` means in `folder` ("devices", "devices/nodes", ...): an existing file when the name holds a '/' or
 * ends in ".json", else FOLDER/NAME.json of the data folder, spelled exactly. SIM_UNKNOWN_NAME lists the known names and
 * never takes a near one; `kind` is what the message calls the thing ("device"). */
enum sim_status data_path_find(const char *folder, const char *kind, const char *name,
                               char path[DATA_PATH_CAPACITY], struct sim_error *error);

/* All names of a folder. SIM_BAD_FILE when the folder cannot be read. */
enum sim_status data_path_list(const char *folder, struct data_names *names, struct sim_error *error);
void data_names_finish(struct data_names *names); /* zeroed memory is allowed */

/* Whether a file's name ends in `ending` (".json") and has something before it. */
bool data_path_ends_in(const char *path, const char *ending);

/* A named pipe: opening one waits for a writer, and what is looked into first cannot be read again. */
bool data_path_is_pipe(const char *path);

/* The data folder itself, for messages. */
const char *data_path_root(void);

#endif
