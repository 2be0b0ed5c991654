/* Kineto (PyTorch profiler) JSON, plain or gzip, streamed: one rank's file -> events of its steps.
 * Memory is bounded by the events kept (one step) and the distinct names, not by the file. */
#ifndef WORKLOADS_TRACE_KINETO_H
#define WORKLOADS_TRACE_KINETO_H
#include "sim/core/status.h"
#include "workloads/graph.h"

struct trace_options {
    int32_t step;         /* which ProfilerStep to take: -1 the last complete one */
    bool keep_host_times; /* use the trace's (inflated) host times instead of the host profile */
};

/* Read one or more rank files of one run into one graph; kernels recognised, host calls and dependencies joined.
 * Errors (one line, file named): missing file, truncated gzip, not JSON (byte or line), no traceEvents, no kernels,
 * two files with the same rank. */
enum sim_status trace_read(const char *const *paths, size_t path_count, const struct trace_options *options,
                           struct graph **out, struct sim_error *error);

#endif
