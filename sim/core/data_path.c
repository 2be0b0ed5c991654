#include "sim/core/data_path.h"
#include "reckon_version.h"
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const char *data_path_root(void)
{
    const char *chosen = getenv("RECKON_DATA");
    if (chosen != NULL && chosen[0] != '\0') {
        return chosen;
    }
    return access(RECKON_SOURCE_DIR "/devices", R_OK) == 0 ? RECKON_SOURCE_DIR : RECKON_DATA_DIR;
}

bool data_path_ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum sim_status data_path_list(const char *folder, struct data_names *names, struct sim_error *error)
{
    char path[DATA_PATH_CAPACITY];
    *names = (struct data_names){ 0 };
    snprintf(path, sizeof path, "%s/%s", data_path_root(), folder);
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s (set RECKON_DATA to the folder that holds devices/)",
                        path, strerror(errno));
    }
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] == '.' || !data_path_ends_in(entry->d_name, ".json")) {
            continue;
        }
        char **grown = realloc(names->name, (names->count + 1) * sizeof *grown);
        SIM_ASSERT(grown != NULL, "no memory for the names in %s", path);
        names->name = grown;
        grown[names->count] = strndup(entry->d_name, strlen(entry->d_name) - 5);
        SIM_ASSERT(grown[names->count] != NULL, "no memory for the names in %s", path);
        names->count++;
    }
    closedir(directory);
    if (names->count > 0) {
        qsort(names->name, names->count, sizeof *names->name, compare_names);
    }
    return SIM_OK;
}

void data_names_finish(struct data_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->name[i]);
    }
    free(names->name);
    *names = (struct data_names){ 0 };
}

static enum sim_status fail_unknown(const char *kind, const char *name, const struct data_names *known,
                                    struct sim_error *error)
{
    char list[SIM_ERROR_TEXT_CAPACITY / 2] = "";
    size_t length = 0;
    for (size_t i = 0; i < known->count && length < sizeof list; i++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i == 0 ? "" : ", ",
                                   known->name[i]);
    }
    return sim_fail(error, SIM_UNKNOWN_NAME,
                    "unknown %s \"%.200s\": known are %s, or the path of a .json file", kind, name,
                    known->count == 0 ? "none" : list);
}

enum sim_status data_path_find(const char *folder, const char *kind, const char *name,
                               char path[DATA_PATH_CAPACITY], struct sim_error *error)
{
    if (strchr(name, '/') != NULL || data_path_ends_in(name, ".json")) {
        int length = snprintf(path, DATA_PATH_CAPACITY, "%s", name);
        if (length >= DATA_PATH_CAPACITY || access(path, R_OK) != 0) {
            return sim_fail(error, SIM_BAD_FILE, "%s file %.400s: %s", kind, name, strerror(errno));
        }
        return SIM_OK;
    }
    struct data_names known;
    enum sim_status status = data_path_list(folder, &known, error);
    if (status != SIM_OK) {
        return status;
    }
    status = SIM_UNKNOWN_NAME;
    for (size_t i = 0; i < known.count; i++) {
        if (strcmp(known.name[i], name) == 0) {
            status = SIM_OK;
        }
    }
    if (status == SIM_OK) {
        snprintf(path, DATA_PATH_CAPACITY, "%s/%s/%s.json", data_path_root(), folder, name);
    } else {
        fail_unknown(kind, name, &known, error);
    }
    data_names_finish(&known);
    return status;
}

bool data_path_is_pipe(const char *path)
{
    struct stat state;
    return stat(path, &state) == 0 && S_ISFIFO(state.st_mode);
}
