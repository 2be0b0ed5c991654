/* The file reader: what is kept of a real file, exact times, and every kind of wrong input. */
#include "tests/trace/trace_test.h"
#include "workloads/trace/trace_internal.h"
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

static struct trace_file *read_file(const char *path)
{
    struct trace_file *file = NULL;
    struct sim_error error = { 0 };
    cr_assert(trace_file_read(path, &file, &error) == SIM_OK, "%s", error.text);
    return file;
}

static size_t count_category(const struct trace_file *file, enum trace_category category)
{
    size_t count = 0;
    for (size_t i = 0; i < file->event_count; i++) {
        count += file->events[i].category == category;
    }
    return count;
}

/* Counted independently with jq: zcat F | jq '[.traceEvents[] | select(.cat == "kernel")] | length', and so on;
 * cuda_runtime 459 + cuda_driver 82 = 541 calls. */
Test(kineto_reader, keeps_every_event_of_its_categories)
{
    struct trace_file *file = read_file(FIXTURE("dlrm_dcnv2_w1_r0.kineto.json.gz"));
    cr_expect(eq(sz, file->list_event_count, 7767));
    cr_expect(eq(sz, count_category(file, TRACE_OPERATOR), 5138));
    cr_expect(eq(sz, count_category(file, TRACE_CALL), 459 + 82));
    cr_expect(eq(sz, count_category(file, TRACE_KERNEL), 494));
    cr_expect(eq(sz, count_category(file, TRACE_MEMSET), 34));
    cr_expect(eq(sz, count_category(file, TRACE_MEMCPY), 0));
    cr_expect(eq(sz, count_category(file, TRACE_ANNOTATION), 10));
    cr_expect(eq(sz, file->impossible_count + file->incomplete_count, 0));
    cr_expect(eq(str, file->device_title, "NVIDIA H200"));
    cr_expect(eq(i64, file->rank, -1));
    cr_expect(eq(i64, file->world_size, -1));
    trace_file_destroy(file);
}

/* The sum over all 494 kernels, again by jq: [.. .dur] | add = 15644.422 us. */
Test(kineto_reader, kernel_time_of_the_file_adds_up)
{
    struct trace_file *file = read_file(FIXTURE("dlrm_dcnv2_w1_r0.kineto.json.gz"));
    int64_t sum_ns = 0;
    for (size_t i = 0; i < file->event_count; i++) {
        sum_ns += file->events[i].category == TRACE_KERNEL ? file->events[i].duration_ns : 0;
    }
    cr_expect(eq(i64, sum_ns, 15644422));
    trace_file_destroy(file);
}

Test(kineto_reader, ranks_and_world_come_from_the_header)
{
    struct trace_file *file = read_file(FIXTURE("dlrm_dcnv2_B8192_w2_r1.kineto.json.gz"));
    cr_expect(eq(i64, file->rank, 1));
    cr_expect(eq(i64, file->world_size, 2));
    trace_file_destroy(file);
}

struct time_case {
    char text[40];
    int64_t ns;
};
ParameterizedTestParameters(kineto_reader, times_are_exact)
{
    static struct time_case cases[] = {
        { "0", 0 },
        { "12", 12000 },
        { "0.25", 250 },
        { "5114410821843.318", 5114410821843318 },
        { "1760000000000000.001", 1760000000000000001 }, /* epoch microseconds: 2^53 ns would be off by 256 */
        { "3.1415", 3142 },                              /* below the nanosecond: half up */
        { "1e3", 1000000 },
        { "2.5E-1", 250 },
    };
    return cr_make_param_array(struct time_case, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct time_case *c, kineto_reader, times_are_exact)
{
    char text[200];
    sprintf(text, "{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":%s,\"dur\":1}]}",
            c->text);
    const char *path = write_text(text);
    struct trace_file *file = read_file(path);
    unlink(path);
    cr_assert(eq(sz, file->event_count, 1));
    cr_expect(eq(i64, file->events[0].start_ns, c->ns), "%s", c->text);
    trace_file_destroy(file);
}

Test(kineto_reader, impossible_events_are_counted_not_kept)
{
    const char *path = write_text(
        "{\"traceEvents\": ["
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"good\",\"ts\":1,\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"negative\",\"ts\":1,\"dur\":-3},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"years\",\"ts\":1,\"dur\":7447000000000000},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"beyond\",\"ts\":1e400,\"dur\":1},"
        "{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"begun\",\"ts\":1},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"no duration\",\"ts\":1}]}");
    struct trace_file *file = read_file(path);
    unlink(path);
    cr_expect(eq(sz, file->event_count, 1));
    cr_expect(eq(sz, file->impossible_count, 3));
    cr_expect(eq(str, (char *)file->impossible_name, "negative"));
    cr_expect(eq(sz, file->incomplete_count, 2));
    trace_file_destroy(file);
}

/* Key order is the writer's choice: the category last, arguments first. */
Test(kineto_reader, keys_come_in_any_order)
{
    const char *path = write_text(
        "[{\"args\":{\"stream\":7,\"correlation\":9,\"grid\":[1, 2,3],\"junk\":{\"a\":[[1]]}},"
        "\"dur\":2,\"ts\":1,\"name\":\"k\",\"cat\":\"kernel\",\"ph\":\"X\"}]");
    struct trace_file *file = read_file(path); /* the bare list form */
    unlink(path);
    cr_assert(eq(sz, file->event_count, 1));
    const struct trace_device_args *args = file->events[0].args;
    cr_expect(eq(str, (char *)args->grid, "[1,2,3]"));
    cr_expect(eq(u64, file->events[0].correlation, 9));
    cr_expect(eq(str, (char *)file->tracks[file->events[0].track].thread, "7"));
    trace_file_destroy(file);
}

/* ---- wrong input ------------------------------------------------------------------------------------------------ */

static void expect_error(const char *path, const char *part, const char *another)
{
    struct sim_error error = read_fails(path);
    cr_expect(strstr(error.text, part) != NULL, "wanted '%s' in: %s", part, error.text);
    cr_expect(strstr(error.text, another) != NULL, "wanted '%s' in: %s", another, error.text);
}

Test(kineto_reader, missing_file)
{
    expect_error("/nonexistent/trace.json.gz", "/nonexistent/trace.json.gz", "No such file");
}

Test(kineto_reader, folder_without_traces)
{
    mkdir("/tmp/reckon_no_traces", 0700);
    expect_error("/tmp/reckon_no_traces", "/tmp/reckon_no_traces", "folder without traces");
    rmdir("/tmp/reckon_no_traces");
}

static void expect_bad_text(const char *text, const char *part, const char *another)
{
    const char *path = write_text(text);
    expect_error(path, part, another);
    unlink(path);
}

Test(kineto_reader, empty_file)
{
    expect_bad_text("", "empty", "/tmp/");
}

Test(kineto_reader, text_that_is_no_json)
{
    expect_bad_text("hello world\n", ":1:", "'hello'");
    expect_bad_text("{\"traceEvents\": [\n{\"ph\": \"X\",}]}", ":2:", "'}'");
    expect_bad_text("{\"traceEvents\": [\n\n{\"ts\": None}]}", ":3:", "'None'");
}

/* H20: one copy of no length with a bandwidth of inf; the kernel beside it is 5 us. */
Test(kineto_reader, bare_inf_is_taken_as_absent_and_told)
{
    struct graph *graph = read_one(FIXTURE("field/h20-memcpy-bandwidth-inf.json"));
    cr_expect(eq(dbl, graph->ranks[0].traced_kernel_us, 5));
    cr_expect(has_note(graph, "'inf' at line 4"));
    graph_destroy(graph);
}

struct odd_number_case {
    char text[16];
    bool valid;
};
ParameterizedTestParameters(kineto_reader, odd_numbers)
{
    static struct odd_number_case cases[] = {
        { "inf", true },  { "-inf", true },      { "Infinity", true }, { "-Infinity", true }, { "NaN", true },
        { "-nan", true }, { "information", false }, { "nano", false },    { "1e5inf", false },
    };
    return cr_make_param_array(struct odd_number_case, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct odd_number_case *c, kineto_reader, odd_numbers)
{
    char text[300];
    sprintf(text,
            "{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"NaN \\\" inf\",\"ts\":1,\"dur\":1,\"args\":{\"x\": %s}}]}",
            c->text);
    const char *path = write_text(text);
    if (c->valid) {
        struct trace_file *file = read_file(path);
        cr_expect(eq(sz, file->event_count, 1));
        cr_expect(eq(str, (char *)file->events[0].name, "NaN \" inf")); /* strings are left alone */
        cr_expect(strstr(file->odd_numbers, c->text) != NULL, "%s", file->odd_numbers);
        trace_file_destroy(file);
    } else {
        struct sim_error error = read_fails(path);
        cr_expect(strstr(error.text, "not JSON") != NULL, "%s", error.text);
    }
    unlink(path);
}

/* Kernels that all lie: that they were there is told. */
Test(kineto_reader, kernels_of_impossible_times_alone)
{
    expect_bad_text("{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":-2,\"tid\":7}]}",
                    "1 events in its list, 1 left out: no time or an impossible one", "no kernels");
}

/* A duration that is no number leaves its event out. */
Test(kineto_reader, event_of_duration_nan_is_counted_as_incomplete)
{
    const char *path = write_text("{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":nan}]}");
    struct trace_file *file = read_file(path);
    unlink(path);
    cr_expect(eq(sz, file->event_count, 0));
    cr_expect(eq(sz, file->incomplete_count, 1));
    trace_file_destroy(file);
}

/* The replacement of a chunk whose last bytes are half a word: a file of many inf, so that every place of the border is met. */
Test(kineto_reader, odd_numbers_across_chunks)
{
    size_t count = 60000; /* 60000 x 27 bytes: seven chunks of 256 KiB, borders 27 apart in phase */
    char *text = malloc(count * 40 + 400), *at = text;
    at += sprintf(at, "{\"x\": [");
    for (size_t i = 0; i < count; i++) {
        at += sprintf(at, "%s{\"a\":-Infinity, \"b\":NaN}", i == 0 ? "" : ",");
    }
    sprintf(at, "], \"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":1}]}");
    const char *path = write_text(text);
    struct trace_file *file = read_file(path);
    unlink(path);
    free(text);
    cr_expect(strstr(file->odd_numbers, "120000 bare inf or nan") != NULL, "%s", file->odd_numbers);
    cr_expect(eq(sz, file->event_count, 1));
    trace_file_destroy(file);
}

Test(kineto_reader, no_event_list)
{
    expect_error(FIXTURE("field/h26-no-traceevents.json"), "no traceEvents", "h26-no-traceevents.json");
}

Test(kineto_reader, json_cut_short)
{
    expect_bad_text("{\"traceEvents\": [\n{\"ph\": \"X\", \"cat\": \"ker", "line 2", "ends before");
}

Test(kineto_reader, no_kernels)
{
    expect_bad_text(
        "{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"ts\":1,\"dur\":1}]}",
        "no kernels", "1 events");
}

static const char *write_zstd(const void *bytes, size_t length, double share)
{
    static unsigned char packed[400000];
    size_t size = ZSTD_compress(packed, sizeof packed, bytes, length, 3);
    cr_assert(eq(u32, ZSTD_isError(size), 0));
    return write_bytes(packed, (size_t)((double)size * share));
}

Test(kineto_reader, zstd_is_read)
{
    static const char text[] = "{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":1}]}";
    const char *path = write_zstd(text, sizeof text - 1, 1);
    struct trace_file *file = read_file(path);
    cr_expect(eq(sz, file->event_count, 1));
    trace_file_destroy(file);
    unlink(path);
    path = write_zstd(text, sizeof text - 1, 0.6);
    expect_error(path, "cut short", path);
    unlink(path);
    const unsigned char magic[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    path = write_bytes(magic, sizeof magic);
    expect_error(path, "zstd", path);
    unlink(path);
}

/* The first half of the real file: the compressed stream stops in the middle. */
Test(kineto_reader, gzip_cut_short)
{
    static unsigned char bytes[200000];
    FILE *file = fopen(FIXTURE("dlrm_dcnv2_w1_r0.kineto.json.gz"), "rb");
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    cr_assert(eq(sz, length, 180607));
    const char *path = write_bytes(bytes, length / 2);
    expect_error(path, "cut short", "events read");
    unlink(path);
}

Test(kineto_reader, gzip_damaged)
{
    static unsigned char bytes[200000];
    FILE *file = fopen(FIXTURE("dlrm_dcnv2_w1_r0.kineto.json.gz"), "rb");
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    memset(bytes + length / 2, 0x5a, 64);
    const char *path = write_bytes(bytes, length);
    struct sim_error error = read_fails(path); /* damaged data, or the JSON it becomes */
    cr_expect(strstr(error.text, path) != NULL, "%s", error.text);
    unlink(path);
}

/* 100,000 opened lists: refused by depth, not by the stack. */
Test(kineto_reader, absurd_nesting)
{
    size_t depth = 100000;
    char *text = malloc(depth + 64);
    size_t used = (size_t)sprintf(text, "{\"x\": ");
    memset(text + used, '[', depth);
    text[used + depth] = '\0';
    const char *path = write_text(text);
    expect_error(path, "nested deeper", ":1:");
    unlink(path);
    free(text);
}

/* One string, escapes in it or none, or one number, of 17 MiB where 16 are the limit; the same bytes in many strings are read. */
Test(kineto_reader, a_string_of_17_mib_is_refused)
{
    const struct {
        const char *before, *filling;
    } cases[] = { { "{\"x\": \"", "a" }, { "{\"x\": \"a", "\\\"" }, { "{\"x\": \"", "\\\\" }, { "{\"x\": [1, ", "7" } };
    size_t bytes = (size_t)17 << 20;
    char *text = malloc(bytes + 256);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        size_t used = (size_t)sprintf(text, "%s", cases[c].before), step = strlen(cases[c].filling);
        for (; used + step <= bytes; used += step) {
            memcpy(text + used, cases[c].filling, step);
        }
        text[used] = '\0';
        const char *path = write_text(text);
        expect_error(path, "a string or number of more than 16 MiB", ":1:");
        unlink(path);
    }
    const char piece[] = "\"\\\"b\\\\\",\n";
    size_t used = (size_t)sprintf(text, "{\"x\": [");
    for (; used + sizeof piece < bytes; used += sizeof piece - 1) {
        memcpy(text + used, piece, sizeof piece - 1);
    }
    sprintf(text + used, "0], \"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 1, \"dur\": 2, \"tid\": 7}]}");
    const char *path = write_text(text);
    struct graph *graph = read_one(path);
    cr_expect(eq(sz, count_kind(graph, GRAPH_KERNEL), 1));
    graph_destroy(graph);
    unlink(path);
    free(text);
}

/* Damage behind the complete list loses nothing. */
Test(kineto_reader, damage_behind_the_events_is_survived_and_told)
{
    struct graph *graph = read_one(FIXTURE("field/h21-info-quotes.json"));
    cr_expect(eq(sz, count_kind(graph, GRAPH_KERNEL), 2));
    cr_expect(eq(dbl, graph->ranks[0].traced_busy_us, 150));
    cr_expect(has_note(graph, "recovered: line 11"));
    graph_destroy(graph);
}
