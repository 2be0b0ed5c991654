/* What the rewrites of a recorded step share. Private to workloads. */
#ifndef WORKLOADS_REWRITE_INTERNAL_H
#define WORKLOADS_REWRITE_INTERNAL_H
#include "workloads/rewrite.h"

/* The new graph, without nodes: the ranks and notes of `graph`, not its device title, since nothing in it will have been timed so. */
struct graph *rewrite_begin(const struct graph *graph);
/* Checks the laws; on an error destroys `to` and leaves *out alone. */
enum sim_status rewrite_finish(struct graph *to, enum sim_status status, struct graph **out, struct sim_error *error);
/* The node's texts, of another graph until now, kept by `to`. */
void rewrite_copy_texts(struct graph_node *node, struct graph *to);

#endif
