/* Host and harness profiles: the shipped ones read, and each kind of damage is named. */
#include "sim/step/harness_profile.h"
#include "sim/step/host_profile.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VALUE(unit)                    \
    "{\"value\": 2, \"unit\": \"" unit \
    "\", \"low\": 1, \"high\": 3, \"kind\": \"measured\", \"source\": \"s\"}"

static char *write_file(const char *text)
{
    char *path = strdup("/tmp/reckon_test_XXXXXX");
    int descriptor = mkstemp(path);
    cr_assert(ge(int, descriptor, 0));
    FILE *file = fdopen(descriptor, "w");
    fputs(text, file);
    fclose(file);
    return path;
}

static void expect_host_error(const char *text, const char *piece)
{
    struct host_profile host;
    struct sim_error error = { 0 };
    char *path = write_file(text);
    cr_expect(ne(int, host_profile_read(path, &host, &error), SIM_OK), "accepted: %s", text);
    cr_expect(strstr(error.text, piece) != NULL, "\"%s\" lacks \"%s\"", error.text, piece);
    cr_expect(strstr(error.text, path) != NULL, "\"%s\" does not name the file", error.text);
    unlink(path);
    free(path);
}

static char *host_text(const char *operator_value)
{
    char *text = NULL;
    cr_assert(
        gt(int,
           asprintf(&text,
                    "{\"schema\": \"reckon.host/1\", \"name\": \"h\", \"title\": \"t\", \"values\": {%s%s"
                    "\"launch_us\": " VALUE("us") ", \"event_us\": " VALUE("us") ", \"sync_us\": " VALUE(
                        "us") ", \"start_us\": " VALUE("us") ", \"queue_depth\": " VALUE("count") "}}",
                    operator_value[0] != '\0' ? "\"operator_us\": " : "", operator_value),
           0));
    return text;
}

Test(profiles, host_values_arrive_in_their_fields)
{
    struct host_profile host;
    struct sim_error error = { 0 };
    char *text = host_text("{\"value\": 7.5, \"unit\": \"us\", \"low\": 1, \"high\": 9, \"kind\": "
                           "\"fitted\", \"source\": \"s\"}, ");
    char *path = write_file(text);
    cr_assert(eq(int, host_profile_read(path, &host, &error), SIM_OK), "%s", error.text);
    cr_expect(eq(dbl, host.operator_us, 7.5));
    cr_expect(eq(dbl, host.queue_depth, 2));
    cr_expect(eq(str, host.name, "h"));
    cr_expect(eq(sz, host.kinds.count[PROFILE_FITTED], 1));
    cr_expect(eq(sz, host.kinds.count[PROFILE_MEASURED], 5));
    unlink(path);
    free(path);
    free(text);
}

Test(profiles, damage_is_named_with_its_key)
{
    static const char *const cases[][2] = {
        { "", "'operator_us' [us] is missing" },
        { "{\"value\": 2, \"unit\": \"ms\", \"low\": 1, \"high\": 3, \"kind\": \"fitted\", \"source\": "
          "\"s\"}, ",
          "unit is 'ms', must be 'us'" },
        { "{\"value\": 2e6, \"unit\": \"us\", \"low\": 1, \"high\": 3e6, \"kind\": \"fitted\", \"source\": "
          "\"s\"}, ",
          "outside 0..1000" },
        { "{\"value\": 4, \"unit\": \"us\", \"low\": 1, \"high\": 3, \"kind\": \"fitted\", \"source\": "
          "\"s\"}, ",
          "its own low..high" },
        { "{\"value\": 2, \"unit\": \"us\", \"low\": 1, \"high\": 3, \"kind\": \"hoped\", \"source\": "
          "\"s\"}, ",
          "kind 'hoped'" },
        { "{\"value\": 2, \"unit\": \"us\", \"low\": 1, \"high\": 3, \"kind\": \"fitted\", \"source\": "
          "\"\"}, ",
          "source" },
        { "{\"value\": \"2\", \"unit\": \"us\", \"low\": 1, \"high\": 3, \"kind\": \"fitted\", \"source\": "
          "\"s\"}, ",
          "operator_us.value" },
        { VALUE("us") ", \"operator_ms\": " VALUE("us") ", ", "unknown key 'operator_ms'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = host_text(cases[i][0]);
        expect_host_error(text, cases[i][1]);
        free(text);
    }
    expect_host_error("{\"name\": \"h\", \"title\": \"t\", \"speed\": 3, \"values\": {}}",
                      "unknown key 'speed'");
    expect_host_error("{\"title\": \"t\", \"values\": {}}", "'name'");
}

static const char harness_text[] = "{\"name\": \"x\", \"title\": \"t\", \"libraries\": [%s], \"covers\": ["
                                   "{\"suite\": \"launch\", \"cache\": \"own\"}, {\"suite\": \"launch\", "
                                   "\"kernel\": \"chain\", \"cache\": \"%s\", \"call_us\": " VALUE(
                                       "us") "}],"
                                             "\"values\": {\"empty_us\": " VALUE(
                                                 "us") ", \"launch_interval_us\": " VALUE("us") ", \"inner_interval_us\": " VALUE("us") "}}";

static enum sim_status read_harness(const char *libraries, const char *cache, struct harness_profile *harness,
                                    struct sim_error *error)
{
    char text[2048];
    snprintf(text, sizeof text, harness_text, libraries, cache);
    char *path = write_file(text);
    enum sim_status status = harness_profile_read(path, harness, error);
    unlink(path);
    free(path);
    return status;
}

Test(profiles, harness_covers_by_kernel_before_suite_and_by_library)
{
    struct harness_profile harness;
    struct sim_error error = { 0 };
    cr_assert(eq(int, read_harness("", "flushed", &harness, &error), SIM_OK), "%s", error.text);
    cr_expect(eq(int, (int)harness_covers(&harness, "launch", "empty", NULL)->cache, HARNESS_CACHE_OWN));
    cr_expect(eq(int, (int)harness_covers(&harness, "launch", "chain", NULL)->cache, HARNESS_CACHE_FLUSHED));
    cr_expect(harness_covers(&harness, "gemm", "mm", NULL) == NULL);
    cr_expect(eq(dbl, harness_covers(&harness, "launch", "chain", NULL)->call_us, 2));
    cr_expect(eq(dbl, harness_covers(&harness, "launch", "empty", NULL)->call_us, 0));
    cr_expect(harness_covers(&harness, "launch", "empty", "cublas") == NULL,
              "a row of a library is another program's");
    cr_assert(eq(int, read_harness("\"cublas\"", "own", &harness, &error), SIM_OK), "%s", error.text);
    cr_expect(harness_covers(&harness, "launch", "empty", "cublas") != NULL);
    cr_expect(harness_covers(&harness, "launch", "empty", NULL) == NULL);
    cr_expect(eq(int, read_harness("", "warm", &harness, &error), SIM_BAD_PROFILE));
    cr_expect(strstr(error.text, "'warm'") != NULL, "%s", error.text);
}

/* The program reads 2 us for an empty kernel that itself lasts 0.7: the rest, 1.3, is the program's; never below 0. */
Test(profiles, harness_floor_is_what_an_empty_kernel_does_not_explain)
{
    struct harness_profile harness;
    struct sim_error error = { 0 };
    struct chip_profile chip = { .launch_latency = 0.7 };
    cr_assert(eq(int, read_harness("", "own", &harness, &error), SIM_OK), "%s", error.text);
    cr_expect(epsilon_eq(dbl, harness_floor_us(&harness, &chip), 1.3, 1e-12));
    chip.launch_latency = 5;
    cr_expect(eq(dbl, harness_floor_us(&harness, &chip), 0));
}

Test(profiles, shipped_hosts_and_harnesses_read)
{
    static const char *const hosts[] = { "h200_host", "b200_host", "mi350x_host" };
    static const char *const harnesses[] = { "micro_cu", "pytorch", "pytorch_nccl", "nccl_tests",
                                             "gemm_tables", "hipkittens", "aiter", "profiled_loop",
                                             "triton_bench" };
    struct host_profile host;
    struct harness_profile harness;
    struct sim_error error = { 0 };
    char path[512];
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        snprintf(path, sizeof path, "%s/devices/hosts/%s.json", SOURCE_DIR, hosts[i]);
        cr_expect(eq(int, host_profile_read(path, &host, &error), SIM_OK), "%s", error.text);
        cr_expect(eq(str, host.name, (char *)hosts[i]));
    }
    for (size_t i = 0; i < sizeof harnesses / sizeof harnesses[0]; i++) {
        snprintf(path, sizeof path, "%s/devices/harness/%s.json", SOURCE_DIR, harnesses[i]);
        cr_expect(eq(int, harness_profile_read(path, &harness, &error), SIM_OK), "%s", error.text);
        cr_expect(eq(str, harness.name, (char *)harnesses[i]));
    }
}
