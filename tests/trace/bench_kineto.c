/* Host speed of reading a trace: the event list of a recorded step, repeated to a file of about 90 MB, read as JSON and as
 * JSON.gz. The answer is checked: every repetition's events are counted. Bar: 150 MB of JSON a second on one core. */
#include "reckon_version.h"
#include "workloads/trace/trace_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define RUNS 5
#define REPEATS 32
#define LIST_EVENTS 7767 /* of the fixture, counted by jq */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The text between the brackets of the fixture's event list. */
static char *read_list(size_t *length)
{
    gzFile file = gzopen(SOURCE_DIR "/tests/fixtures/traces/dlrm_dcnv2_w1_r0.kineto.json.gz", "rb");
    static char text[4 << 20];
    int count = file == NULL ? 0 : gzread(file, text, sizeof text - 1);
    gzclose(file);
    text[count < 0 ? 0 : count] = '\0';
    char *from = strstr(text, "\"traceEvents\": ["), *to = NULL;
    if (from == NULL) {
        return NULL;
    }
    from += strlen("\"traceEvents\": [");
    for (char *at = from; (at = strstr(at, "\n  ]")) != NULL; at++) {
        to = at;
    }
    *length = to == NULL ? 0 : (size_t)(to - from);
    return to == NULL ? NULL : from;
}

static int write_repeated(const char *path, const char *mode, const char *list, size_t length, double *bytes)
{
    gzFile file = gzopen(path, mode);
    if (file == NULL) {
        return 1;
    }
    *bytes = (double)gzputs(file, "{\"traceEvents\": [");
    for (int i = 0; i < REPEATS; i++) {
        *bytes += gzwrite(file, list, (unsigned)length);
        *bytes += gzputs(file, i + 1 < REPEATS ? "," : "]}");
    }
    return gzclose(file) == Z_OK ? 0 : 1;
}

/* Read whole, by the JSON library; or in two passes by the scanner of event_scan.c, as big files are. */
static enum sim_status read_trace(const char *path, bool passes, struct trace_file **out, struct sim_error *error)
{
    if (!passes) {
        return trace_file_read(path, out, error);
    }
    return trace_file_read_two_passes(path, -1, out) ? SIM_OK : sim_fail(error, SIM_BAD_TRACE, "%s: not read in two passes", path);
}

static int bench(const char *load, const char *path, double bytes, bool passes)
{
    double rates[RUNS];
    for (int run = 0; run < RUNS; run++) {
        struct trace_file *file = NULL;
        struct sim_error error;
        double start = seconds_now();
        if (read_trace(path, passes, &file, &error) != SIM_OK) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        rates[run] = bytes / (seconds_now() - start) / 1e6;
        if (file->list_event_count != (size_t)REPEATS * LIST_EVENTS) {
            fprintf(stderr, "%s: %zu events, wanted %zu\n", load, file->list_event_count,
                    (size_t)REPEATS * LIST_EVENTS);
            return 1;
        }
        trace_file_destroy(file);
    }
    qsort(rates, RUNS, sizeof rates[0], compare_doubles);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("kineto %-18s %6.1f MB  median %6.1f MB/s of JSON  best %6.1f  bar 150  peak %ld MiB\n", load,
           bytes / 1e6, rates[RUNS / 2], rates[RUNS - 1], usage.ru_maxrss / 1024);
    return 0;
}

int main(void)
{
    size_t length;
    const char *list = read_list(&length);
    char plain[] = "/tmp/reckon_bench_XXXXXX", packed[] = "/tmp/reckon_bench_XXXXXX";
    if (list == NULL || close(mkstemp(plain)) != 0 || close(mkstemp(packed)) != 0) {
        fprintf(stderr, "the fixture cannot be read, or /tmp not written\n");
        return 1;
    }
    printf("reading traces, commit %s, %s, %d runs\n", RECKON_COMMIT, __VERSION__, RUNS);
    double bytes = 0;
    int failed = write_repeated(plain, "wbT", list, length, &bytes) != 0 ||
                 bench("JSON", plain, bytes, false) != 0 || bench("JSON, two passes", plain, bytes, true) != 0 ||
                 write_repeated(packed, "wb1", list, length, &bytes) != 0 ||
                 bench("JSON.gz", packed, bytes, false) != 0;
    unlink(plain);
    unlink(packed);
    return failed;
}
