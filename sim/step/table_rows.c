#include "sim/step/table_rows.h"
#include "sim/core/data_path.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COLUMNS_MAX 16
static const char kernel_header[] = "suite,kernel,params,time_us,value,unit";
static const char steps_header[] = "gpus,case,params,sync_ms,step_ms,examples_per_s,peak_gib";

static void *grown(void *items, size_t count, size_t size)
{
    void *more = realloc(items, (count + 1) * size);
    SIM_ASSERT(more != NULL, "no memory for %zu rows", count + 1);
    return more;
}

static char *copied(const char *text)
{
    char *copy = strdup(text);
    SIM_ASSERT(copy != NULL, "no memory for a row");
    return copy;
}

/* Split in place at commas; the tables quote nothing. */
static size_t split(char *line, char *columns[COLUMNS_MAX])
{
    size_t count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *at = line; at != NULL && count < COLUMNS_MAX;) {
        columns[count++] = at;
        at = strchr(at, ',');
        if (at != NULL) {
            *at++ = '\0';
        }
    }
    return count;
}

static enum sim_status number(const char *path, uint32_t line, const char *column, const char *text,
                              double *out, struct sim_error *error)
{
    char *end = NULL;
    *out = strtod(text, &end);
    if (text[0] == '\0' || *end != '\0' || !isfinite(*out)) {
        return sim_fail(error, SIM_BAD_FILE, "%s:%u: %s is '%s', must be a number", path, line, column, text);
    }
    return SIM_OK;
}

static enum sim_status add_kernel_row(struct measured_table *table, const char *path, uint32_t line,
                                      char *columns[], size_t count, struct sim_error *error)
{
    struct table_row row = { .path = path, .line = line };
    if (count < 6) {
        return sim_fail(error, SIM_BAD_FILE, "%s:%u: %zu columns, at least 6 needed (%s)", path, line, count,
                        kernel_header);
    }
    enum sim_status status = number(path, line, "time_us", columns[3], &row.time_us, error);
    if (status == SIM_OK && (columns[4][0] != '\0' || row.time_us <= 0)) { /* beside a time, a value may be left out */
        status = number(path, line, "value", columns[4], &row.value, error);
    }
    if (status != SIM_OK) {
        return status;
    }
    row.suite = copied(columns[0]);
    row.kernel = copied(columns[1]);
    row.params = copied(columns[2]);
    row.unit = copied(columns[5]);
    table->rows = grown(table->rows, table->row_count, sizeof *table->rows);
    table->rows[table->row_count++] = row;
    return SIM_OK;
}

struct step_samples {
    struct step_row *items;
    size_t count;
};

static enum sim_status add_step_sample(struct step_samples *samples, const char *path, uint32_t line,
                                       char *columns[], size_t count, struct sim_error *error)
{
    struct step_row row = { .path = path };
    double gpus = 0;
    if (count < 7) {
        return sim_fail(error, SIM_BAD_FILE, "%s:%u: %zu columns, 7 needed (%s)", path, line, count,
                        steps_header);
    }
    if (strstr(columns[2], "OOM") != NULL) {
        return SIM_OK; /* did not fit when measured: there is no time to compare with */
    }
    enum sim_status status = number(path, line, "gpus", columns[0], &gpus, error);
    if (status == SIM_OK) {
        status = number(path, line, "step_ms", columns[4], &row.step_ms, error);
    }
    if (status == SIM_OK) {
        status = number(path, line, "peak_gib", columns[6], &row.peak_gib, error);
    }
    if (status != SIM_OK) {
        return status;
    }
    if (gpus < 1 || gpus > 1e6) {
        return sim_fail(error, SIM_BAD_FILE, "%s:%u: gpus is %g, must be 1..1e6", path, line, gpus);
    }
    row.gpus = (uint32_t)gpus;
    row.name = copied(columns[1]);
    row.params = copied(columns[2]);
    samples->items = grown(samples->items, samples->count, sizeof *samples->items);
    samples->items[samples->count++] = row;
    return SIM_OK;
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof values[0], by_number);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static bool same_case(const struct step_row *a, const struct step_row *b)
{
    return a->gpus == b->gpus && strcmp(a->name, b->name) == 0 && strcmp(a->params, b->params) == 0;
}

/* Rows of one case become one, with the medians of step time and peak. */
static void reduce_steps(struct measured_table *table, struct step_samples *samples)
{
    double *times = malloc((samples->count + 1) * sizeof *times),
           *peaks = malloc((samples->count + 1) * sizeof *peaks);
    bool *taken = calloc(samples->count + 1, sizeof *taken);
    SIM_ASSERT(times != NULL && peaks != NULL && taken != NULL, "no memory for %zu steps", samples->count);
    for (size_t i = 0; i < samples->count; i++) {
        struct step_row row = samples->items[i];
        size_t count = 0;
        if (taken[i]) {
            continue;
        }
        for (size_t j = i; j < samples->count; j++) {
            if (same_case(&row, &samples->items[j])) {
                times[count] = samples->items[j].step_ms;
                peaks[count++] = samples->items[j].peak_gib;
                taken[j] = true;
            }
        }
        row.step_ms = median(times, count);
        row.peak_gib = median(peaks, count);
        row.repeats = count;
        row.name = copied(row.name);
        row.params = copied(row.params);
        table->steps = grown(table->steps, table->step_count, sizeof *table->steps);
        table->steps[table->step_count++] = row;
    }
    free(times);
    free(peaks);
    free(taken);
}

static void samples_finish(struct step_samples *samples)
{
    for (size_t i = 0; i < samples->count; i++) {
        free(samples->items[i].name);
        free(samples->items[i].params);
    }
    free(samples->items);
}

enum table_kind { TABLE_KERNELS, TABLE_STEPS, TABLE_OTHER };

static enum table_kind kind_of(const char *header)
{
    if (strncmp(header, kernel_header, sizeof kernel_header - 1) == 0) {
        return TABLE_KERNELS;
    }
    return strncmp(header, steps_header, sizeof steps_header - 1) == 0 ? TABLE_STEPS : TABLE_OTHER;
}

static enum sim_status read_lines(FILE *file, const char *path, struct measured_table *table,
                                  enum table_kind *kind, struct sim_error *error)
{
    char *line = NULL, *columns[COLUMNS_MAX];
    size_t capacity = 0;
    enum sim_status status = SIM_OK;
    struct step_samples samples = { 0 };
    uint32_t number_of_line = 0;
    *kind = TABLE_OTHER;
    while (status == SIM_OK && getline(&line, &capacity, file) >= 0) {
        number_of_line++;
        if (number_of_line == 1) {
            *kind = kind_of(line);
            if (*kind == TABLE_OTHER) {
                break;
            }
            continue;
        }
        if (line[0] == '#' || line[strspn(line, " \r\n")] == '\0') {
            continue;
        }
        size_t count = split(line, columns);
        status = *kind == TABLE_KERNELS
                     ? add_kernel_row(table, path, number_of_line, columns, count, error)
                     : add_step_sample(&samples, path, number_of_line, columns, count, error);
    }
    if (status == SIM_OK) {
        reduce_steps(table, &samples);
    }
    samples_finish(&samples);
    free(line);
    return status;
}

static enum sim_status file_read(const char *path, bool named_alone, struct measured_table *table,
                                 struct sim_error *error)
{
    enum table_kind kind = TABLE_OTHER;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    char *owned = copied(path);
    enum sim_status status = read_lines(file, owned, table, &kind, error);
    fclose(file);
    if (status == SIM_OK && kind == TABLE_OTHER && named_alone) {
        free(owned);
        return sim_fail(error, SIM_BAD_FILE, "%s:1: the header is neither '%s' nor '%s'", path, kernel_header,
                        steps_header);
    }
    if (kind == TABLE_OTHER) {
        table->ignored = grown(table->ignored, table->ignored_count, sizeof *table->ignored);
        table->ignored[table->ignored_count++] = owned;
    } else { /* rows borrow the path, also those of a file that failed half way */
        table->paths = grown(table->paths, table->path_count, sizeof *table->paths);
        table->paths[table->path_count++] = owned;
    }
    return status;
}

static int is_csv(const struct dirent *entry)
{
    return data_path_ends_in(entry->d_name, ".csv");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static enum sim_status folder_read(const char *path, struct measured_table *table, struct sim_error *error)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_csv, by_name);
    enum sim_status status = SIM_OK;
    if (count < 0) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    size_t before = table->path_count;
    for (int i = 0; i < count; i++) {
        char *file = NULL;
        if (status == SIM_OK) {
            SIM_ASSERT(asprintf(&file, "%s/%s", path, entries[i]->d_name) > 0, "no memory for a path");
            status = file_read(file, false, table, error);
            free(file);
        }
        free(entries[i]);
    }
    free(entries);
    if (status == SIM_OK && table->path_count == before) {
        return sim_fail(error, SIM_BAD_FILE, "%s: no CSV file with the header '%s' or '%s'", path,
                        kernel_header, steps_header);
    }
    return status;
}

enum sim_status measured_table_read(const char *path, struct measured_table *table, struct sim_error *error)
{
    struct stat about;
    if (stat(path, &about) != 0) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    return S_ISDIR(about.st_mode) ? folder_read(path, table, error) : file_read(path, true, table, error);
}

void measured_table_finish(struct measured_table *table)
{
    for (size_t i = 0; i < table->row_count; i++) {
        free(table->rows[i].suite);
        free(table->rows[i].kernel);
        free(table->rows[i].params);
        free(table->rows[i].unit);
    }
    for (size_t i = 0; i < table->step_count; i++) {
        free(table->steps[i].name);
        free(table->steps[i].params);
    }
    for (size_t i = 0; i < table->path_count; i++) {
        free(table->paths[i]);
    }
    for (size_t i = 0; i < table->ignored_count; i++) {
        free(table->ignored[i]);
    }
    free(table->rows);
    free(table->steps);
    free(table->paths);
    free(table->ignored);
    memset(table, 0, sizeof *table);
}
