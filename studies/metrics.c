#include "studies/metrics.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *text, *unit, *summary;
    int better;
} metrics[METRICS] = {
#define METRIC_ROW(name, text, unit, better, summary) { text, unit, summary, better },
    METRIC_LIST(METRIC_ROW)
#undef METRIC_ROW
};

const char *metric_text(enum metric metric)
{
    SIM_ASSERT(metric < METRICS, "metric %d", (int)metric);
    return metrics[metric].text;
}

const char *metric_unit(enum metric metric)
{
    SIM_ASSERT(metric < METRICS, "metric %d", (int)metric);
    return metrics[metric].unit;
}

const char *metric_summary(enum metric metric)
{
    SIM_ASSERT(metric < METRICS, "metric %d", (int)metric);
    return metrics[metric].summary;
}

int metric_better(enum metric metric)
{
    SIM_ASSERT(metric < METRICS, "metric %d", (int)metric);
    return metrics[metric].better;
}

enum sim_status metric_parse(const char *text, enum metric *out, struct sim_error *error)
{
    char list[400] = "";
    size_t used = 0;
    for (int i = 0; i < METRICS; i++) {
        if (strcmp(metrics[i].text, text) == 0) {
            *out = (enum metric)i;
            return SIM_OK;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", metrics[i].text);
    }
    return sim_fail(error, SIM_UNKNOWN_NAME, "unknown metric '%.40s': must be one of %s", text, list);
}

void record_fill(struct study_record *record, const struct reckon_prediction *prediction, double batch, double cost_per_gpu_hour)
{
    double *m = record->metric, gpus = prediction->gpus;
    m[METRIC_STEP_MS] = prediction->step_ms;
    m[METRIC_EXAMPLES] = prediction->examples_per_s;
    m[METRIC_EXAMPLES_GPU] = prediction->examples_per_s / gpus;
    m[METRIC_EXAMPLES_WATT] = prediction->examples_per_s / gpus / prediction->watts;
    m[METRIC_EXAMPLES_COST] = prediction->examples_per_s * 3600 / gpus / cost_per_gpu_hour;
    m[METRIC_MEMORY_GIB] = prediction->memory_known ? prediction->memory_gib.peak + prediction->memory_gib.reserve : NAN;
    m[METRIC_CAPACITY_GIB] = prediction->capacity_gib;
    m[METRIC_EXPOSED_COMM_MS] = prediction->exposed_comm_ms;
    m[METRIC_GPU_BUSY_MS] = prediction->gpu_busy_ms;
    m[METRIC_HOST_MS] = prediction->host_ms;
    m[METRIC_BOARD_WATTS] = prediction->watts;
    m[METRIC_CORE_MHZ] = prediction->clock_mhz;
    m[METRIC_RECOGNISED] = prediction->recognised_fraction;
    m[METRIC_GPUS] = gpus;
    m[METRIC_BATCH] = batch > 0 ? batch : NAN;
    m[METRIC_GLOBAL_BATCH] = batch > 0 ? batch * gpus : NAN;
}
