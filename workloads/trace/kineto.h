/* Kineto (PyTorch profiler) JSON, plain or gzip, streamed: the files of one run's ranks -> one graph of one step.
 * Memory follows the events kept of one file at a time (64 bytes each: operators, calls, device events) and the distinct
 * texts, not the file's size; of a big file (64 MiB of JSON) with marked steps, the events of the one step that is read. What the reader inferred, repaired, left out or assumed stands in the graph's notes. */
#ifndef WORKLOADS_TRACE_KINETO_H
#define WORKLOADS_TRACE_KINETO_H
#include "sim/core/status.h"
#include "workloads/graph.h"

struct trace_options {
    int32_t step;         /* N of ProfilerStep#N; -1 the last complete one */
    bool keep_host_times; /* also put what lies between framework calls into the graph, as host operators named
                             "(between operators)", so that traced host times add up to the step */
};

/* Read one or more rank files of one run into one graph; kernels recognised, host calls and dependencies joined.
 * Errors (one line, file named): missing file, truncated gzip, not JSON (byte or line), no traceEvents, no kernels,
 * two files with the same rank. */
enum sim_status trace_read(const char *const *paths, size_t path_count, const struct trace_options *options,
                           struct graph **out, struct sim_error *error);

#endif
