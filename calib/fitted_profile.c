/* Writes a calibrated device file: the base's own text, one value a line, with the fitted values in place. */
#include "calib/calibrate.h"
#include "sim/core/json.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIGNIFICANT_DIGITS 5 /* of a fitted value: more than any fit knows */

static double rounded(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.*g", SIGNIFICANT_DIGITS, value);
    return strtod(text, NULL);
}

/* "latency, gather" of the rows, each suite once. */
static void suites_text(const struct calibration *calibration, char *text, size_t capacity)
{
    text[0] = '\0';
    for (size_t r = 0; r < calibration->row_count; r++) {
        bool again = false;
        for (size_t k = 0; k < r; k++) {
            again = again || strcmp(calibration->rows[k].suite, calibration->rows[r].suite) == 0;
        }
        size_t used = strlen(text);
        if (!again) {
            snprintf(text + used, capacity - used, "%s%s", used > 0 ? ", " : "", calibration->rows[r].suite);
        }
    }
}

static void set_fitted(const struct calibration *calibration, size_t i, struct json *value)
{
    const struct fit_solution *solution = &calibration->solution;
    const struct fit_file_value *range = &calibration->fit.values[i];
    char source[512], suites[160];
    double error = solution->standard_error[i], at = rounded(solution->value[i]);
    suites_text(calibration, suites, sizeof suites);
    snprintf(source, sizeof source, "reckon calibrate, %s: fitted to %zu rows of %s; standard error %.2g",
             calibration->fit.path, calibration->row_count, suites, error);
    json_set_number(value, "value", at);
    json_set_number(value, "low", fmin(fmax(rounded(at - 2 * error), range->low), at));
    json_set_number(value, "high", fmax(fmin(rounded(at + 2 * error), range->high), at));
    json_set_string(value, "kind", "fitted");
    json_set_string(value, "source", source);
}

static enum sim_status set_values(const struct calibration *calibration, struct json *root,
                                  struct sim_error *error)
{
    for (size_t i = 0; i < calibration->solution.value_count; i++) {
        char section[32];
        const char *key = chip_number_key(calibration->fit.values[i].index), *dot = strchr(key, '.');
        snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
        struct json *parent = json_child(root, section),
                    *value = parent != NULL ? json_child(parent, dot + 1) : NULL;
        if (value == NULL) {
            return sim_fail(error, SIM_BAD_PROFILE, "%s: %s is not there", calibration->base_path, key);
        }
        if (calibration->solution.identified[i]) {
            set_fitted(calibration, i, value);
        }
    }
    return SIM_OK;
}

/* ---- layout of device files: one value a line */

static void put_scalar(FILE *file, const struct json *value)
{
    char *text = json_print(value, false);
    fputs(text, file);
    free(text);
}

static void put_value(FILE *file, const struct json *value)
{
    if (json_kind_of(value) != JSON_OBJECT) {
        put_scalar(file, value);
        return;
    }
    fputs("{ ", file);
    for (size_t i = 0; i < json_count(value); i++) {
        fprintf(file, "%s\"%s\": ", i > 0 ? ", " : "", json_key(json_at(value, i)));
        put_scalar(file, json_at(value, i));
    }
    fputs(" }", file);
}

static void put_section(FILE *file, const struct json *section)
{
    fputs("{\n", file);
    for (size_t i = 0; i < json_count(section); i++) {
        fprintf(file, "    \"%s\": ", json_key(json_at(section, i)));
        put_value(file, json_at(section, i));
        fprintf(file, "%s\n", i + 1 < json_count(section) ? "," : "");
    }
    fputs("  }", file);
}

static void put_root(FILE *file, const struct json *root)
{
    fputs("{\n", file);
    for (size_t i = 0; i < json_count(root); i++) {
        const struct json *child = json_at(root, i);
        fprintf(file, "  \"%s\": ", json_key(child));
        if (json_kind_of(child) == JSON_OBJECT) {
            put_section(file, child);
        } else if (json_kind_of(child) == JSON_ARRAY) {
            fputc('[', file);
            for (size_t k = 0; k < json_count(child); k++) {
                fputs(k > 0 ? ", " : "", file);
                put_scalar(file, json_at(child, k));
            }
            fputc(']', file);
        } else {
            put_scalar(file, child);
        }
        fprintf(file, "%s\n", i + 1 < json_count(root) ? "," : "");
    }
    fputs("}\n", file);
}

static enum sim_status put_file(const struct json *root, const char *path, struct sim_error *error)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    put_root(file, root);
    bool failed = ferror(file) != 0;
    return fclose(file) == 0 && !failed
               ? SIM_OK
               : sim_fail(error, SIM_BAD_FILE, "%s: cannot be written: %s", path, strerror(errno));
}

enum sim_status calibration_write_profile(const struct calibration *calibration, const char *path,
                                          struct sim_error *error)
{
    struct json *root = NULL;
    struct chip_profile written = { 0 };
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) {
        return sim_fail(error, SIM_BAD_FILE, "%s: is there and no regular file, so it is not replaced", path);
    }
    char *beside = NULL; /* in the same folder, so that it can take the path's place at once */
    SIM_ASSERT(asprintf(&beside, "%s.part.json", path) > 0, "no memory for a path");
    enum sim_status status = json_read_file(calibration->base_path, &root, error);
    if (status == SIM_OK) {
        status = set_values(calibration, root, error);
    }
    if (status == SIM_OK) {
        status = put_file(root, beside, error);
    }
    if (status == SIM_OK) {
        status = chip_profile_read(beside, &written, error);
        chip_profile_finish(&written);
        if (status == SIM_OK && rename(beside, path) != 0) {
            status = sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
        }
        if (status != SIM_OK) {
            unlink(beside);
        }
    }
    json_destroy(root);
    free(beside);
    return status;
}
