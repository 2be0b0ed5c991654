#include "calib/chosen_rows.h"
#include "sim/core/data_path.h"
#include "sim/core/output_file.h"
#include "sim/core/json.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char header[] = "suite,kernel,params,time_us,value,unit";
enum { COLUMN_SUITE, COLUMN_KERNEL, COLUMN_PARAMS, COLUMN_TIME, COLUMN_VALUE, COLUMN_UNIT, COLUMNS };

struct reading {
    const struct fit_file *fit;
    const char *devices;
    struct chosen_rows *rows;
    size_t taken[FIT_ROWS_MAX]; /* rows, by entry of the fit file */
    size_t tables;
    struct sim_error *error;
};

/* Cut `line` in place; the tables quote nothing. False with fewer columns than the header has. */
static bool split(char *line, char *columns[COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++) {
        columns[c] = line;
        line = strchr(line, ',');
        if (line == NULL) {
            return c == COLUMNS - 1;
        }
        *line++ = '\0';
    }
    return true;
}

static enum sim_status number(const char *path, unsigned line, const char *name, const char *text,
                              double *out, struct sim_error *error)
{
    char *end = NULL;
    *out = strtod(text, &end);
    if (text[0] == '\0' || *end != '\0' || !isfinite(*out) || *out < 0) {
        return sim_fail(error, SIM_BAD_FILE, "%s:%u: %s is '%.40s', must be a number of 0 or more", path,
                        line, name, text);
    }
    return SIM_OK;
}

static enum sim_status take_line(struct reading *reading, const char *path, unsigned line_number,
                                 const char *line)
{
    char *columns[COLUMNS] = { 0 }, *cut = strdup(line);
    double time_us = 0, value = 0;
    SIM_ASSERT(cut != NULL, "no memory for a row");
    enum sim_status status = split(cut, columns) ? SIM_OK
                                                 : sim_fail(reading->error, SIM_BAD_FILE,
                                                            "%s:%u: fewer columns than the header '%s'", path,
                                                            line_number, header);
    if (status == SIM_OK) {
        status = number(path, line_number, "time_us", columns[COLUMN_TIME], &time_us, reading->error);
    }
    if (status == SIM_OK) {
        status = number(path, line_number, "value", columns[COLUMN_VALUE], &value, reading->error);
    }
    if (status == SIM_OK && time_us == 0 && value == 0) {
        status = sim_fail(reading->error, SIM_BAD_FILE, "%s:%u: neither time_us nor value is above 0", path,
                          line_number);
    }
    size_t entry = status == SIM_OK ? fit_file_entry_of(reading->fit, columns[COLUMN_SUITE],
                                                        columns[COLUMN_KERNEL], columns[COLUMN_PARAMS])
                                    : reading->fit->rows_count;
    if (entry < reading->fit->rows_count) {
        reading->taken[entry]++;
        if (reading->rows->count == FIT_ROWS_MAX) {
            status = sim_fail(reading->error, SIM_BAD_FILE,
                              "%s:%u: one row more than a fit may have, %d; narrow the entries of %s", path,
                              line_number, FIT_ROWS_MAX, reading->fit->path);
        } else {
            reading->rows->weight[reading->rows->count] = reading->fit->rows[entry].weight;
            reading->rows->line[reading->rows->count] = strdup(line);
            SIM_ASSERT(reading->rows->line[reading->rows->count++] != NULL, "no memory for a row");
        }
    }
    free(cut);
    return status;
}

/* ---- JSON lines */

static const char *text_of(const struct json *object, const char *key)
{
    const struct json *value = json_get(object, key);
    return value != NULL && json_kind_of(value) == JSON_STRING ? json_string(value) : NULL;
}

static bool is_among(const char *names, const char *name)
{
    for (size_t length = strlen(name); *names != '\0';) {
        size_t here = strcspn(names, "|");
        if (here == length && memcmp(names, name, length) == 0) {
            return true;
        }
        names += here + (names[here] == '|');
    }
    return false;
}

/* The table's line for a row of JSON; the caller frees it. */
static enum sim_status line_of_json(const struct reading *reading, const char *path, unsigned line_number,
                                    const struct json *row, char **line)
{
    const char *suite = text_of(row, "suite"), *kernel = text_of(row, "kernel"), *params = text_of(row, "params"),
               *unit = text_of(row, "unit"), *check = text_of(row, "check"), *device = text_of(row, "device"),
               *schema = text_of(row, "schema");
    const struct json *time_us = json_get(row, "time_us"), *value = json_get(row, "value");
    if (schema == NULL || strcmp(schema, "reckon.micro/1") != 0 || suite == NULL || kernel == NULL || params == NULL ||
        unit == NULL || check == NULL || device == NULL || time_us == NULL || value == NULL) {
        return sim_fail(reading->error, SIM_BAD_FILE,
                        "%s:%u: a row needs schema reckon.micro/1, suite, kernel, params, time_us, value, unit, check and "
                        "device",
                        path, line_number);
    }
    if (json_kind_of(time_us) != JSON_NUMBER || json_kind_of(value) != JSON_NUMBER) {
        return sim_fail(reading->error, SIM_BAD_FILE, "%s:%u: time_us and value must be numbers", path, line_number);
    }
    if (reading->devices[0] != '\0' && !is_among(reading->devices, device)) {
        return sim_fail(reading->error, SIM_BAD_FILE, "%s:%u: measured on '%s', but the base profile is of '%s'", path,
                        line_number, device, reading->devices);
    }
    if (strcmp(check, "ok") != 0 &&
        fit_file_entry_of(reading->fit, suite, kernel, params) < reading->fit->rows_count) {
        return sim_fail(reading->error, SIM_BAD_FILE, "%s:%u: %s/%s failed its own check, so its time says nothing", path,
                        line_number, suite, kernel);
    }
    SIM_ASSERT(asprintf(line, "%s,%s,%s,%.17g,%.17g,%s,", suite, kernel, params, json_number(time_us),
                        json_number(value), unit) > 0,
               "no memory for a row");
    return SIM_OK;
}

static enum sim_status read_json_lines(struct reading *reading, const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t capacity = 0;
    enum sim_status status = SIM_OK;
    if (file == NULL) {
        return sim_fail(reading->error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    reading->tables++;
    for (unsigned line_number = 1; status == SIM_OK && getline(&text, &capacity, file) >= 0; line_number++) {
        struct json *row = NULL;
        struct sim_error why = { 0 };
        char *line = NULL;
        text[strcspn(text, "\r\n")] = '\0';
        if (text[0] == '\0') {
            continue;
        }
        if (json_read_text(text, path, &row, &why) != SIM_OK) {
            status = sim_fail(reading->error, SIM_BAD_FILE, "%s:%u: the line is no JSON object", path, line_number);
        }
        if (status == SIM_OK) {
            status = line_of_json(reading, path, line_number, row, &line);
        }
        if (status == SIM_OK) {
            status = take_line(reading, path, line_number, line);
        }
        free(line);
        json_destroy(row);
    }
    free(text);
    fclose(file);
    return status;
}

/* ---- tables */

/* A file with another header is an error when it was named by itself. */
static enum sim_status read_table(struct reading *reading, const char *path, bool named_alone)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    unsigned line_number = 0;
    enum sim_status status = SIM_OK;
    if (file == NULL) {
        return sim_fail(reading->error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    while (status == SIM_OK && getline(&line, &capacity, file) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (++line_number == 1) {
            if (strncmp(line, header, sizeof header - 1) != 0) {
                break;
            }
            reading->tables++;
        } else if (line[0] != '\0' && line[0] != '#') {
            status = take_line(reading, path, line_number, line);
        }
    }
    if (status == SIM_OK && named_alone &&
        (line_number == 0 || (line_number == 1 && strncmp(line, header, sizeof header - 1) != 0))) {
        status = sim_fail(reading->error, SIM_BAD_FILE, "%s:1: the header is not '%s'", path, header);
    }
    free(line);
    fclose(file);
    return status;
}

static int is_table(const struct dirent *entry)
{
    return data_path_ends_in(entry->d_name, ".csv") || data_path_ends_in(entry->d_name, ".jsonl");
}

static enum sim_status read_file(struct reading *reading, const char *path, bool named_alone)
{
    return data_path_ends_in(path, ".jsonl") ? read_json_lines(reading, path) : read_table(reading, path, named_alone);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static enum sim_status read_folder(struct reading *reading, const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_table, by_name);
    enum sim_status status = count < 0
                                 ? sim_fail(reading->error, SIM_BAD_FILE, "%s: %s", path, strerror(errno))
                                 : SIM_OK;
    for (int i = 0; i < count; i++) {
        char *file = NULL;
        SIM_ASSERT(asprintf(&file, "%s/%s", path, entries[i]->d_name) > 0, "no memory for a path");
        if (status == SIM_OK) {
            status = read_file(reading, file, false);
        }
        free(file);
        free(entries[i]);
    }
    free(entries);
    return status;
}

enum sim_status chosen_rows_read(const char *const *paths, size_t path_count, const struct fit_file *fit,
                                 const char *devices, struct chosen_rows *rows, struct sim_error *error)
{
    struct reading reading = { .fit = fit, .devices = devices, .rows = rows, .error = error };
    enum sim_status status = SIM_OK;
    memset(rows, 0, sizeof *rows);
    for (size_t i = 0; status == SIM_OK && i < path_count; i++) {
        struct stat about;
        if (stat(paths[i], &about) != 0) {
            status = sim_fail(error, SIM_BAD_FILE, "%s: %s", paths[i], strerror(errno));
        } else {
            status = S_ISDIR(about.st_mode) ? read_folder(&reading, paths[i])
                                            : read_file(&reading, paths[i], true);
        }
    }
    for (size_t e = 0; status == SIM_OK && e < fit->rows_count; e++) {
        if (reading.taken[e] == 0) {
            status = sim_fail(error, SIM_BAD_FILE,
                              "%s: no row of %zu tables is %s/%s with '%s' (nor taken by an entry before it)",
                              fit->path, reading.tables, fit->rows[e].suite, fit->rows[e].kernel,
                              fit->rows[e].params);
        }
    }
    if (status != SIM_OK) {
        chosen_rows_finish(rows);
    }
    return status;
}

void chosen_rows_finish(struct chosen_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->line[i]);
    }
    rows->count = 0;
}

enum sim_status chosen_rows_write(const struct chosen_rows *rows, const char *path, struct sim_error *error)
{
    struct output_file file;
    enum sim_status status = output_file_open(&file, "", path, error);
    if (status != SIM_OK) {
        return status;
    }
    fprintf(file.stream, "%s\n", header);
    for (size_t i = 0; i < rows->count; i++) {
        fprintf(file.stream, "%s\n", rows->line[i]);
    }
    return output_file_close(&file, error);
}
