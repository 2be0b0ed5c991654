#include "reports/perfetto.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Processes of one prediction: its devices by rank, hosts and counters far above any rank; all of them above what a profile
 * numbers (devices from 0, processes below 2^22), so that the two can be joined in one view and no track becomes both. */
#define DEVICE_STRIDE 10000000u
#define HOST_BASE 100000u
#define EXPOSED_TID 99999u

struct writer {
    FILE *out;
    bool any;
};

static void put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') {
            fprintf(out, "\\%c", *at);
        } else if (*at < 0x20) {
            fprintf(out, "\\u%04x", *at);
        } else {
            fputc(*at, out);
        }
    }
    fputc('"', out);
}

static void next(struct writer *writer)
{
    fputs(writer->any ? ",\n" : "\n", writer->out);
    writer->any = true;
}

static void put_metadata(struct writer *writer, const char *what, unsigned pid, unsigned tid, const char *name)
{
    next(writer);
    fprintf(writer->out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":", what, pid, tid);
    put_string(writer->out, name);
    fputs("}}", writer->out);
}

static unsigned pid_of(const struct reckon_lane *lane, size_t prediction)
{
    return (unsigned)(prediction + 1) * DEVICE_STRIDE + lane->rank + (lane->kind == RECKON_LANE_HOST ? HOST_BASE : 0);
}

static unsigned tid_of(const struct reckon_lane *lane)
{
    return lane->kind == RECKON_LANE_EXPOSED ? EXPOSED_TID : lane->index;
}

static void put_lane(struct writer *writer, const struct reckon_prediction *prediction, const struct reckon_lane *lane, size_t index)
{
    char name[120];
    snprintf(name, sizeof name, lane->kind == RECKON_LANE_HOST ? "%s rank %u host (predicted)" : "%s rank %u GPU (predicted)", prediction->device,
             lane->rank);
    put_metadata(writer, "process_name", pid_of(lane, index), 0, name);
    snprintf(name, sizeof name,
             lane->kind == RECKON_LANE_STREAM ? "stream %u" : lane->kind == RECKON_LANE_HOST ? "host calls" : "communication not hidden",
             lane->index);
    put_metadata(writer, "thread_name", pid_of(lane, index), tid_of(lane), name);
}

/* As a PyTorch profile names them. */
static const char *category_text(const struct reckon_lane *lane, const char *category, const char *name)
{
    if (lane->kind == RECKON_LANE_HOST) {
        bool driver = strncmp(name, "cu", 2) == 0 && strncmp(name, "cuda", 4) != 0;
        return strcmp(category, "host operator") == 0 ? "cpu_op" : driver ? "cuda_driver" : "cuda_runtime";
    }
    return lane->kind == RECKON_LANE_EXPOSED     ? "user_annotation"
           : strncmp(name, "Memcpy ", 7) == 0 ? "gpu_memcpy"
           : strncmp(name, "Memset ", 7) == 0 ? "gpu_memset"
                                              : "kernel";
}

static void put_spans(struct writer *writer, const struct reckon_timeline *timeline, size_t index)
{
    for (size_t i = 0; i < timeline->span_count; i++) {
        const struct reckon_span *span = &timeline->spans[i];
        const struct reckon_lane *lane = &timeline->lanes[span->lane];
        next(writer);
        fputs("{\"ph\":\"X\",\"name\":", writer->out);
        put_string(writer->out, timeline->names[span->name]);
        fprintf(writer->out, ",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"category\":",
                category_text(lane, timeline->categories[span->category], timeline->names[span->name]), pid_of(lane, index), tid_of(lane), span->start_us - timeline->start_us,
                span->end_us - span->start_us);
        put_string(writer->out, timeline->categories[span->category]);
        if (lane->kind == RECKON_LANE_STREAM) {
            fprintf(writer->out, ",\"stream\":%u", lane->index);
        }
        fputs("}}", writer->out);
    }
}

static void put_counters(struct writer *writer, const struct reckon_timeline *timeline, size_t index)
{
    const struct reckon_counters *counters = &timeline->counters;
    const struct {
        const char *name, *unit;
        const double *values;
        double factor;
    } list[] = { { "HBM use", "percent", counters->hbm_share, 100 },
                 { "board power", "W", counters->watts, 1 },
                 { "core clock", "MHz", counters->clock_mhz, 1 } };
    unsigned pid = (unsigned)(index + 1) * DEVICE_STRIDE;
    for (size_t l = 0; l < timeline->lane_count; l++) { /* of the first rank's device */
        if (timeline->lanes[l].kind == RECKON_LANE_STREAM) {
            pid = pid_of(&timeline->lanes[l], index);
            break;
        }
    }
    for (size_t k = 0; k < sizeof list / sizeof list[0]; k++) {
        for (size_t b = 0; b < counters->count; b++) {
            next(writer);
            fprintf(writer->out, "{\"ph\":\"C\",\"name\":\"%s\",\"pid\":%u,\"ts\":%.3f,\"args\":{\"%s\":%.2f}}", list[k].name, pid,
                    counters->start_us + counters->bin_us * (double)b - timeline->start_us, list[k].unit, list[k].values[b] * list[k].factor);
        }
    }
}

enum sim_status perfetto_write(struct reckon_prediction *const *predictions, size_t count, const char *path, struct sim_error *error)
{
    struct output_file file;
    enum sim_status status = output_file_open(&file, "--perfetto ", path, error);
    if (status != SIM_OK) {
        return status;
    }
    struct writer writer = { .out = file.stream };
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", writer.out);
    for (size_t i = 0; i < count; i++) {
        const struct reckon_timeline *timeline = predictions[i]->timeline;
        for (size_t l = 0; timeline != NULL && l < timeline->lane_count; l++) {
            put_lane(&writer, predictions[i], &timeline->lanes[l], i);
        }
        if (timeline != NULL) {
            put_spans(&writer, timeline, i);
            put_counters(&writer, timeline, i);
        }
    }
    fputs("\n]}\n", writer.out);
    return output_file_close(&file, error);
}
