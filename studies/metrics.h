/* What a point of a study is judged by, by name, and the record of one point: plain data, so that processes and ranks can hand
 * it on. */
#ifndef STUDIES_METRICS_H
#define STUDIES_METRICS_H
#include "sim/reckon.h"
#include <stdbool.h>
#include <stdint.h>

/* In the order of columns. X(ENUM, name, unit, better, summary); better: 1 more, -1 less, 0 neither. */
#define METRIC_LIST(X)                                                                                                  \
    X(STEP_MS, "step_ms", "ms", -1, "steps queued back to back")                                                        \
    X(EXAMPLES, "examples_per_s", "1/s", 1, "of all GPUs")                                                              \
    X(EXAMPLES_GPU, "examples_per_s_per_gpu", "1/s", 1, "of one GPU")                                                   \
    X(EXAMPLES_WATT, "examples_per_s_per_watt", "1/J", 1, "over the boards' power on average, hosts left out")          \
    X(EXAMPLES_COST, "examples_per_cost", "1/cost", 1, "per unit of the study's cost_per_gpu_hour")                     \
    X(MEMORY_GIB, "memory_gib", "GiB", -1, "peak and reserve of the fullest GPU")                                       \
    X(CAPACITY_GIB, "capacity_gib", "GiB", 0, "of one GPU")                                                             \
    X(EXPOSED_COMM_MS, "exposed_comm_ms", "ms", -1, "communication that nothing hides")                                 \
    X(GPU_BUSY_MS, "gpu_busy_ms", "ms", 0, "mean over the ranks")                                                       \
    X(HOST_MS, "host_ms", "ms", 0, "mean over the ranks")                                                               \
    X(BOARD_WATTS, "board_watts", "W", -1, "of one board, on average over the step")                                    \
    X(CORE_MHZ, "core_mhz", "MHz", 0, "while busy")                                                                     \
    X(RECOGNISED, "recognised_fraction", "", 0, "of GPU time, by programs and the fabric model")                        \
    X(GPUS, "gpus", "", -1, "of the run")                                                                               \
    X(BATCH, "batch", "", 0, "examples per GPU and step")                                                               \
    X(GLOBAL_BATCH, "global_batch", "", 0, "examples of all GPUs a step")

enum metric {
#define METRIC_ENUM(name, text, unit, better, summary) METRIC_##name,
    METRIC_LIST(METRIC_ENUM)
#undef METRIC_ENUM
        METRICS
};

const char *metric_text(enum metric metric);
const char *metric_unit(enum metric metric);
const char *metric_summary(enum metric metric);
int metric_better(enum metric metric); /* 1, -1 or 0 */
/* SIM_UNKNOWN_NAME lists the names. */
enum sim_status metric_parse(const char *text, enum metric *out, struct sim_error *error);

enum record_status { RECORD_FEASIBLE, RECORD_INFEASIBLE, RECORD_ERROR };

struct study_record {
    uint32_t point;           /* index in the study */
    uint32_t status;          /* enum record_status; ERROR: not a result, the sweep ends with it */
    uint32_t error_status;    /* enum sim_status behind it */
    char reason[240];         /* why not feasible */
    double metric[METRICS];   /* NAN: not known */
    uint64_t asked, found;    /* prices, of the process that worked on it: how many it shared shows nowhere in the store */
};

/* Fill the metrics from an answer. cost_per_gpu_hour NAN: unknown. */
void record_fill(struct study_record *record, const struct reckon_prediction *prediction, double batch,
                 double cost_per_gpu_hour);

#endif
