/* What an input is worth: how much of its GPU time was understood, before a step time is given. */
#ifndef SIM_STEP_INPUT_VERDICT_H
#define SIM_STEP_INPUT_VERDICT_H
#include "sim/reckon.h"
#include "workloads/graph.h"

struct input_share { /* one device node */
    const struct graph_node *node;
    enum reckon_priced priced;
    double us; /* predicted */
};

/* shares: [count], all device nodes. traced_here: recorded on the device asked for, so that replayed times are its own.
 * host_ms: predicted, mean over the ranks. */
void input_verdict_fill(const struct graph *graph, const struct input_share *shares, size_t count, bool traced_here,
                        double host_ms, struct reckon_input *out);

#endif
