#include "sim/fabric/fabric_rows.h"
#include "sim/fabric/library_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0
#define PARAM_TEXT_CAPACITY 64

/* The programs time `calls` calls queued back to back, between two events. Source: calib/data/h200/README.md (nccl: 4);
 * nccl-tests and rccl-tests run 20 iterations by default. */
struct suite_row {
    const char *name;
    const char *keys[6];
    double calls;
};

static const struct suite_row suites[] = {
    { "nccl", { "mb", "world" }, 4 },
    { "collective", { "bytes", "gpus", "nodes", "dtype", "library" }, 20 },
};

static const struct suite_row *find_suite(const char *name)
{
    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
        if (strcmp(suites[i].name, name) == 0) {
            return &suites[i];
        }
    }
    return NULL;
}

bool fabric_rows_cover(const char *suite)
{
    return find_suite(suite) != NULL;
}

/* Parameters by the position of their key in the suite's list. */
struct row_params {
    char text[6][PARAM_TEXT_CAPACITY];
    bool present[6];
};

static int find_key(const struct suite_row *suite, const char *key, size_t length)
{
    for (int i = 0; i < 6 && suite->keys[i] != NULL; i++) {
        if (strlen(suite->keys[i]) == length && strncmp(suite->keys[i], key, length) == 0) {
            return i;
        }
    }
    return -1;
}

static enum sim_status read_params(const struct suite_row *suite, const char *params, struct row_params *out,
                                   struct sim_error *error)
{
    memset(out, 0, sizeof *out);
    for (const char *at = params; *at != '\0';) {
        size_t length = strcspn(at, ";");
        const char *equals = memchr(at, '=', length);
        if (equals == NULL) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "%s: parameter \"%.*s\" must be key=value", suite->name,
                            (int)length, at);
        }
        int key = find_key(suite, at, (size_t)(equals - at));
        size_t value_length = length - (size_t)(equals + 1 - at);
        if (key < 0) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "%s: unknown parameter \"%.*s\"", suite->name,
                            (int)(equals - at), at);
        }
        if (out->present[key] || value_length >= PARAM_TEXT_CAPACITY) {
            return sim_fail(error, SIM_BAD_ARGUMENT, "%s: parameter %s is %s", suite->name, suite->keys[key],
                            out->present[key] ? "given twice" : "too long");
        }
        memcpy(out->text[key], equals + 1, value_length);
        out->present[key] = true;
        at += length + (at[length] == ';');
    }
    return SIM_OK;
}

static enum sim_status read_number(const struct suite_row *suite, const struct row_params *params, int key,
                                   double *out, struct sim_error *error)
{
    char *end = NULL;
    *out = params->present[key] ? strtod(params->text[key], &end) : 0;
    if (end == NULL || end == params->text[key] || *end != '\0' || !isfinite(*out)) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: parameter %s=\"%s\" must be a number", suite->name,
                        suite->keys[key], params->text[key]);
    }
    return SIM_OK;
}

static enum sim_status read_count(const struct suite_row *suite, const struct row_params *params, int key,
                                  uint32_t *out, struct sim_error *error)
{
    double number;
    enum sim_status status = read_number(suite, params, key, &number, error);
    if (status == SIM_OK && !(number >= 1 && number <= 1e6 && number == floor(number))) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: parameter %s=%g must be a whole number from 1",
                        suite->name, suite->keys[key], number);
    }
    *out = status == SIM_OK ? (uint32_t)number : 0;
    return status;
}

static enum sim_status nccl_request(const struct suite_row *suite, const struct row_params *params,
                                    struct collective_request *request, struct sim_error *error)
{
    double mib;
    enum sim_status status = read_number(suite, params, 0, &mib, error);
    if (status == SIM_OK) {
        status = read_count(suite, params, 1, &request->gpus, error);
    }
    /* nccl-tests counts the whole output of an all-gather */
    bool is_gather = collective_kind_parse(request->kind) == ALL_GATHER;
    request->bytes = mib * MIB * (is_gather ? request->gpus : 1.0);
    request->nodes = 1;
    return status;
}

static enum sim_status collective_request(const struct suite_row *suite, const struct row_params *params,
                                          struct collective_request *request, struct sim_error *error)
{
    uint32_t ranks = 0;
    enum sim_status status = read_number(suite, params, 0, &request->bytes, error);
    if (status == SIM_OK) {
        status = read_count(suite, params, 1, &ranks, error);
    }
    if (status == SIM_OK) {
        status = read_count(suite, params, 2, &request->nodes, error);
    }
    if (status == SIM_OK && ranks % request->nodes != 0) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "collective: %u gpus do not divide over %u nodes", ranks,
                        request->nodes);
    }
    request->gpus = status == SIM_OK ? ranks / request->nodes : 0;
    return status;
}

enum sim_status fabric_row_request(const char *suite_name, const char *kernel, const char *params,
                                   struct collective_request *request, struct sim_error *error)
{
    const struct suite_row *suite = find_suite(suite_name);
    if (suite == NULL) {
        return sim_fail(error, SIM_UNKNOWN_NAME, "unknown suite \"%s\": must be nccl or collective",
                        suite_name);
    }
    int kind = collective_kind_parse(kernel);
    if (kind < 0) {
        return sim_fail(error, SIM_UNKNOWN_NAME, "%s: unknown collective \"%s\": must be one of %s",
                        suite_name, kernel, collective_kind_list());
    }
    struct row_params values;
    enum sim_status status = read_params(suite, params, &values, error);
    if (status != SIM_OK) {
        return status;
    }
    *request = (struct collective_request){ .kind = collective_kind_text((enum collective_kind)kind) };
    return suite == &suites[0] ? nccl_request(suite, &values, request, error)
                               : collective_request(suite, &values, request, error);
}

/* Mean time of `calls` calls that the host launches `interval_us` apart at best and the device runs one after another. */
static double queued_call_us(double calls, double interval_us, double device_us)
{
    return (interval_us + (calls - 1) * fmax(interval_us, device_us) + device_us) / calls;
}

double fabric_called_us(const struct fabric_row_harness *harness, double calls, double device_us)
{
    return harness->floor_us / calls + queued_call_us(calls, harness->launch_interval_us, device_us);
}

enum sim_status fabric_row_time(const struct node_profile *node, const char *suite, const char *kernel,
                                const char *params, const struct fabric_row_harness *harness,
                                enum fabric_engine engine, double *time_us, double *value,
                                struct collective_result *detail, struct sim_error *error)
{
    struct collective_request request;
    struct collective_result result;
    enum sim_status status = fabric_row_request(suite, kernel, params, &request, error);
    if (status == SIM_OK) {
        status = collective_time(node, &request, engine, &result, error);
    }
    if (status != SIM_OK) {
        return status;
    }
    const struct suite_row *row = find_suite(suite);
    double calls = row->calls;
    *time_us = result.time_us;
    if (harness != NULL) {
        *time_us = fabric_called_us(harness, calls, result.time_us);
    }
    if (value != NULL) {
        bool is_per_rank = row == &suites[0] && collective_kind_parse(request.kind) == ALL_GATHER;
        *value = request.bytes / (is_per_rank ? request.gpus : 1.0) / *time_us / 1000;
    }
    if (detail != NULL) {
        *detail = result;
    }
    return SIM_OK;
}
