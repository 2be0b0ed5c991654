/* Which format a file is of, and which files a folder of ranks holds. */
#include "sim/core/data_path.h"
#include "workloads/trace/input_internal.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define SNIFF_BYTES ((size_t)1 << 20) /* headers with a machine's environment are tens of KiB */
#define FILES_MAX 65536

/* ---- kinds ----------------------------------------------------------------------------------------------------- */

struct kind_key {
    const char *key;
    enum input_kind kind;
};

/* Top-level keys that no other kind has. */
static const struct kind_key kind_keys[] = {
    { "traceEvents", INPUT_KINETO },
    { "nodes", INPUT_EXECUTION_TRACE },
    { "workload_graph", INPUT_CHAKRA_JSON },
    { "rocprofiler-sdk-tool", INPUT_ROCPROF },
};

/* The first top-level key that tells. Not a parser: what is no JSON is for the reader to say. */
static enum input_kind kind_of_json(const char *bytes, size_t count)
{
    size_t depth = 0, key_from = 0, key_length = 0;
    bool quoted = false;
    for (size_t i = 0; i < count; i++) {
        char c = bytes[i];
        if (quoted) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                quoted = false;
                key_length = i - key_from;
            }
        } else if (c == '"') {
            quoted = true;
            key_from = i + 1;
        } else if (c == ':' && depth == 1) {
            for (size_t k = 0; k < sizeof kind_keys / sizeof kind_keys[0]; k++) {
                if (strlen(kind_keys[k].key) == key_length &&
                    memcmp(kind_keys[k].key, bytes + key_from, key_length) == 0) {
                    return kind_keys[k].kind;
                }
            }
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        }
    }
    return INPUT_KINETO;
}

/* A length of one or more bytes, then a message whose first field is a text or message of number 1 or 2: the metadata. */
static bool is_chakra(const unsigned char *bytes, size_t count)
{
    size_t at = 0;
    while (at < count && at < 5 && (bytes[at] & 0x80) != 0) {
        at++;
    }
    return at + 1 < count && (bytes[at + 1] == 0x0a || bytes[at + 1] == 0x12);
}

enum sim_status input_kind_of(const char *path, enum input_kind *out, struct sim_error *error)
{
    struct byte_source *source;
    enum sim_status status = byte_source_open(path, &source, error);
    if (status != SIM_OK) {
        return status;
    }
    char *bytes = malloc(SNIFF_BYTES);
    SIM_ASSERT(bytes != NULL, "out of memory");
    size_t count = 0, got;
    while (count < SNIFF_BYTES && (got = byte_source_read(source, bytes + count, SNIFF_BYTES - count)) > 0) {
        count += got;
    }
    byte_source_close(source);
    size_t first = 0;
    while (first < count && isspace((unsigned char)bytes[first])) {
        first++;
    }
    bool json = first < count && (bytes[first] == '{' || bytes[first] == '[');
    *out = json                                                  ? kind_of_json(bytes, count)
           : is_chakra((const unsigned char *)bytes, count) ? INPUT_CHAKRA
                                                                 : INPUT_KINETO;
    free(bytes);
    return SIM_OK;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static bool is_trace_name(const char *name)
{
    static const char *const endings[] = { ".json", ".json.gz", ".json.zst", ".et", ".et.gz", ".et.zst" };
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (name[0] != '.' && data_path_ends_in(name, endings[i])) {
            return true;
        }
    }
    return false;
}

struct file_list {
    char **files;
    size_t count, capacity;
};

static void add_file(struct file_list *list, char *path)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        list->files = realloc(list->files, list->capacity * sizeof *list->files);
        SIM_ASSERT(list->files != NULL, "out of memory");
    }
    SIM_ASSERT(path != NULL, "out of memory");
    list->files[list->count++] = path;
}

static int compare_names(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

static enum sim_status list_folder(struct file_list *list, const char *folder, struct sim_error *error)
{
    DIR *directory = opendir(folder);
    if (directory == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", folder, strerror(errno));
    }
    size_t before = list->count;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char *path = NULL;
        struct stat state;
        if (!is_trace_name(entry->d_name) || list->count == FILES_MAX ||
            asprintf(&path, "%s%s%s", folder, data_path_ends_in(folder, "/") ? "" : "/", entry->d_name) < 0) {
            continue;
        }
        if (stat(path, &state) == 0 && S_ISREG(state.st_mode)) {
            add_file(list, path);
        } else {
            free(path);
        }
    }
    closedir(directory);
    if (list->count == before) {
        return sim_fail(error, SIM_BAD_FILE,
                        "%s: a folder without traces (files that end in .json, .json.gz, .json.zst or .et)", folder);
    }
    qsort(list->files + before, list->count - before, sizeof *list->files, compare_names);
    return SIM_OK;
}

enum sim_status input_files_list(const char *const *paths, size_t path_count, char ***out, size_t *count,
                                 struct sim_error *error)
{
    struct file_list list = { 0 };
    enum sim_status status = SIM_OK;
    for (size_t i = 0; i < path_count && status == SIM_OK; i++) {
        struct stat state;
        if (stat(paths[i], &state) == 0 && S_ISDIR(state.st_mode)) {
            status = list_folder(&list, paths[i], error);
        } else {
            add_file(&list, strdup(paths[i]));
        }
    }
    if (status != SIM_OK) {
        input_files_free(list.files, list.count);
        list = (struct file_list){ 0 };
    }
    *out = list.files;
    *count = list.count;
    return status;
}

void input_files_free(char **files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(files[i]);
    }
    free(files);
}

/* The number that `at` begins with, of at most 7 digits; -1: none. */
static int64_t number_at(const char *at)
{
    int64_t value = 0;
    int digits = 0;
    for (; *at >= '0' && *at <= '9' && digits < 8; at++, digits++) {
        value = value * 10 + (*at - '0');
    }
    return digits > 0 && digits < 8 ? value : -1;
}

int64_t input_rank_of_name(const char *path)
{
    static const char *const words[] = { "rank", "worker", "gpu", "_r" };
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        for (const char *at = name; (at = strcasestr(at, words[w])) != NULL; at++) {
            const char *digits = at + strlen(words[w]);
            digits += strspn(digits, "-_.#") > 0;
            if (number_at(digits) >= 0) {
                return number_at(digits);
            }
        }
    }
    /* name.3.et, name_3.json.gz */
    const char *dot = strchr(name, '.');
    for (const char *at = name; *at != '\0'; at++) {
        bool begins = (*at == '.' || *at == '_' || *at == '-') && at[1] >= '0' && at[1] <= '9';
        const char *end = at + 1 + (begins ? strspn(at + 1, "0123456789") : 0);
        if (begins && *end == '.' && (at == dot || end == dot || strchr(end + 1, '.') == NULL)) {
            return number_at(at + 1);
        }
    }
    return -1;
}
