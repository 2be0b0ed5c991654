/* A file read in two passes, the events of one step kept, gives the step that the whole file gives. */
#include "tests/trace/trace_test.h"
#include "workloads/trace/input_internal.h"
#include "workloads/trace/trace_internal.h"
#include <glob.h>
#include <zstd.h>

static void same_event(const struct trace_event *a, const struct trace_event *b, const char *where)
{
    bool one_missing = (a == NULL) != (b == NULL);
    cr_assert(one_missing == false, "%s", where);
    if (a != NULL) {
        cr_assert(strcmp(a->name, b->name) == 0, "%s: %s, %s", where, a->name, b->name);
        cr_assert(a->start_ns == b->start_ns && a->duration_ns == b->duration_ns && a->correlation == b->correlation &&
                      a->category == b->category && (a->args == NULL) == (b->args == NULL),
                  "%s: %s", where, a->name);
    }
}

static void same_step(const struct host_step *a, const struct host_step *b, const char *where)
{
    cr_assert(a->start_ns == b->start_ns && a->end_ns == b->end_ns && a->last_ns == b->last_ns, "%s", where);
    cr_assert(a->item_count == b->item_count, "%s: %zu items, %zu", where, a->item_count, b->item_count);
    cr_assert(a->device_count == b->device_count, "%s: %zu device events, %zu", where, a->device_count, b->device_count);
    for (size_t i = 0; i < a->item_count; i++) {
        const struct host_item *x = &a->items[i], *y = &b->items[i];
        same_event(x->event, y->event, where);
        cr_assert(x->own_ns == y->own_ns && x->kind == y->kind && x->parent == y->parent && x->region == y->region &&
                      x->depth == y->depth && x->thread == y->thread && x->device_first == y->device_first &&
                      x->device_count == y->device_count && x->blocking == y->blocking && x->skip == y->skip &&
                      x->waits_for == y->waits_for && x->stream == y->stream && x->record_behind == y->record_behind,
                  "%s: item %zu", where, i);
    }
    for (size_t i = 0; i < a->device_count; i++) {
        same_event(a->device[i].event, b->device[i].event, where);
        cr_assert(a->device[i].stream == b->device[i].stream && a->device[i].launch == b->device[i].launch, "%s", where);
    }
    cr_assert(strcmp(a->step_name, b->step_name) == 0 && a->has_marker == b->has_marker && a->steps_found == b->steps_found &&
                  a->thread_count == b->thread_count && a->stream_count == b->stream_count,
              "%s", where);
    cr_assert(a->unlaunched_count == b->unlaunched_count && a->outside_count == b->outside_count &&
                  a->silent_launch_count == b->silent_launch_count && a->unplaced_call_count == b->unplaced_call_count &&
                  a->other_thread_count == b->other_thread_count && a->waits_contradicted == b->waits_contradicted &&
                  a->waits_unresolved == b->waits_unresolved,
              "%s: counts for the notes", where);
    const struct trace_file *f = a->file, *g = b->file;
    cr_assert(f->list_event_count == g->list_event_count && f->impossible_count == g->impossible_count &&
                  f->incomplete_count == g->incomplete_count && f->rank == g->rank && f->world_size == g->world_size &&
                  strcmp(f->device_title, g->device_title) == 0,
              "%s", where);
    const char *x = f->impossible_name != NULL ? f->impossible_name : "", *y = g->impossible_name != NULL ? g->impossible_name : "";
    cr_assert(strcmp(x, y) == 0, "%s", where);
}

/* 1: compared; 0: the file cannot be read in two passes. */
static int compare(const char *path, int32_t number)
{
    struct trace_file *whole = NULL, *chosen = NULL;
    struct host_step *a = NULL, *b = NULL;
    struct sim_error error = { 0 };
    if (!trace_file_read_two_passes(path, number, &chosen)) {
        return 0;
    }
    cr_assert(trace_file_read(path, &whole, &error) == SIM_OK, "%s", error.text);
    cr_assert(host_step_create(whole, number, &a, &error) == SIM_OK, "%s", error.text);
    cr_assert(host_step_create(chosen, number, &b, &error) == SIM_OK, "%s", error.text);
    cr_assert(chosen->event_count <= whole->event_count);
    stream_waits_resolve(a);
    stream_waits_resolve(b);
    same_step(a, b, path);
    host_step_destroy(a);
    host_step_destroy(b);
    trace_file_destroy(whole);
    trace_file_destroy(chosen);
    return 1;
}

/* The steps of a file that its first pass finds, and the default one. */
static int compare_steps(const char *path)
{
    struct trace_file *file = NULL;
    if (!trace_file_read_two_passes(path, -1, &file)) {
        return 0;
    }
    int compared = compare(path, -1);
    for (size_t i = 0; i < file->survey->marker_count && i < 4; i++) {
        compared += compare(path, (int32_t)file->survey->markers[i].number);
    }
    trace_file_destroy(file);
    return compared;
}

/* Files without marked steps are left to the reader of whole files. */
Test(step_file, every_recorded_step_is_the_same)
{
    static const char *const folders[] = { FIXTURE("*.json.gz"), FIXTURE("field/*.json"), FIXTURE("public/*.json*"),
                                           SOURCE_DIR "/calib/data/h200/traces/*.json.gz" };
    int compared = 0, files = 0;
    for (size_t f = 0; f < sizeof folders / sizeof folders[0]; f++) {
        glob_t found = { 0 };
        glob(folders[f], 0, NULL, &found);
        for (size_t i = 0; i < found.gl_pathc; i++, files++) {
            compared += compare_steps(found.gl_pathv[i]);
        }
        globfree(&found);
    }
    cr_expect(files >= 30, "%d files", files);
    cr_expect(compared >= 30, "%d steps compared", compared);
}

#define STEP(number, ts) \
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#" number "\",\"pid\":1,\"tid\":1,\"ts\":" ts ",\"dur\":100},\n"
#define CALL(name, correlation, ts) \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":" ts \
    ",\"dur\":2,\"args\":{\"correlation\":" correlation "}},"
#define KERNEL(name, correlation, ts) \
    "{\"args\":{\"correlation\": " correlation ",\"stream\":7,\"device\":0},\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name \
    "\",\"pid\":0,\"tid\":7,\"ts\":" ts ",\"dur\":5 },"

/* Steps 1 (0..100) and 2 (100..200), 3 kernels and 2. Device events come before their calls; one runs long after its step; two
 * calls of one correlation lie in different steps, of which the launch counts; one kernel has no call. */
static const char awkward[] =
    "{\"schemaVersion\": 1, \"odd\": [[1, 2], {\"a\": [\"[\"]}], \"traceEvents\": [\n" KERNEL("late", "3", "350") KERNEL("b", "4", "120")
        KERNEL("a", "1", "20") KERNEL("lost", "99", "130") KERNEL("shared", "5", "140") KERNEL("first", "6", "30")
            STEP("1", "0") STEP("2", "100") CALL("cudaLaunchKernel", "1", "10") CALL("cudaGetLastError", "5", "15")
                CALL("cudaLaunchKernel", "6", "18") CALL("cudaLaunchKernel", "3", "30") CALL("cuLaunchKernel", "4", "110")
                    CALL("cudaLaunchKernel", "5", "115") CALL("cudaDeviceSynchronize", "7", "150")
    "{\"ph\":\"i\",\"name\":\"a \\\"marker\\\" \\u00e9\",\"ts\":1},{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"backwards\",\"ts\":110,"
    "\"dur\":-1},{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"open\",\"ts\":110}, {} ]\n, \"after\": [ ] }";

Test(step_file, awkward_orders)
{
    const char *path = write_text(awkward);
    cr_expect(eq(int, compare(path, -1), 1));
    cr_expect(eq(int, compare(path, 1), 1));
    cr_expect(eq(int, compare(path, 2), 1));
    cr_expect(eq(int, compare(path, 3), 0), "no such step");
    struct trace_file *file = NULL;
    cr_assert(trace_file_read_two_passes(path, 1, &file));
    cr_expect(eq(sz, file->event_count, 8), "the marker, 4 calls and their 3 kernels");
    cr_expect(eq(sz, file->list_event_count, 19));
    cr_expect(eq(sz, file->survey->device_total, 6));
    trace_file_destroy(file);
    unlink(path);
}

/* What is no JSON, or said so that only the parser understands it, is left to the reader of whole files. */
Test(step_file, what_is_odd_is_read_whole)
{
    static const char head[] = "{\"traceEvents\": [" STEP("1", "0") CALL("cudaLaunchKernel", "1", "10") KERNEL("a", "1", "20");
    static const char *const tails[] = {
        "{\"x\": inf}]}",       "{\"x\": 01}]}",      "{\"x\": [1,]}]}",   "{\"x\": \"\\q\"}]}", "{\"x\": \"a\tb\"}]}",
        "{\"x\" 1}]}",          "{\"x\": 1} {}]}",    "{\"x\": 1},]}",     "7]}",                "{\"x\": tru}]}",
        "{\"x\": 1}]",          "{\"x\": 1",          "{\"x\": 1}]}}",     "{\"cat\":\"k\\u0065rnel\"}]}",
        "{\"cat\":\"kernel\",\"cat\":\"x\"}]}",       "{}], \"traceEvents\": [{}]}",
    };
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s", head, tails[i]);
        const char *path = write_text(text);
        struct trace_file *file = NULL;
        bool read = trace_file_read_two_passes(path, -1, &file);
        cr_expect(read == false && file == NULL, "%s", tails[i]);
        unlink(path);
    }
    char text[1024];
    snprintf(text, sizeof text, "%s{\"x\": [-0.5e+3, 0, {\"a\": {}}, true, null, \"\\u00e9\\n\"]}]}", head);
    const char *path = write_text(text);
    cr_expect(eq(int, compare(path, -1), 1));
    unlink(path);
}

/* Longer than the window that is read at once: elements cut by its end, each place in an element in turn. */
Test(step_file, elements_cut_by_the_window)
{
    size_t capacity = (size_t)6 << 20, length = 0;
    char *text = malloc(capacity);
    length += (size_t)sprintf(text, "{\"traceEvents\": [");
    for (int i = 0; length + 4096 < capacity; i++) {
        length += (size_t)sprintf(text + length, "{\"x\": \"%0*d\", \"y\": [true, -1.5e3, \"\\u00e9\"]},", i % 97 + 1, i);
    }
    length += (size_t)sprintf(text + length, STEP("1", "0") CALL("cudaLaunchKernel", "1", "10") "%s", KERNEL("a", "1", "20"));
    length += (size_t)sprintf(text + length - 1, "]}") - 1;
    const char *path = write_bytes(text, length);
    cr_expect(eq(int, compare(path, -1), 1));
    unlink(path);
    free(text);
}

/* Plain and zstd, whose blocks without events of the step are passed over in ways of their own; 7,767 events, two steps. */
Test(step_file, blocks_are_passed_over_in_every_packing)
{
    size_t capacity = (size_t)8 << 20, length = 0, got;
    char *text = malloc(capacity), *packed = malloc(ZSTD_compressBound(capacity));
    struct byte_source *source;
    struct sim_error error;
    cr_assert(eq(int, byte_source_open(FIXTURE("dlrm_dcnv2_w1_r0.kineto.json.gz"), &source, &error), SIM_OK));
    while ((got = byte_source_read(source, text + length, capacity - length)) > 0) {
        length += got;
    }
    byte_source_close(source);
    cr_assert(length > (size_t)2 << 20 && length < capacity, "%zu bytes", length);
    const char *plain = write_bytes(text, length);
    const char *zstd = write_bytes(packed, ZSTD_compress(packed, ZSTD_compressBound(capacity), text, length, 1));
    for (int32_t number = -1; number < 12; number++) {
        cr_expect(eq(int, compare(plain, number), compare(zstd, number)));
    }
    cr_expect(eq(int, compare(zstd, -1), 1));
    unlink(plain);
    unlink(zstd);
    free(packed);
    free(text);
}
