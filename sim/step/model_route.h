/* The route from a model description to a prediction: its graph, and what to change when it does not fit. */
#ifndef SIM_STEP_MODEL_ROUTE_H
#define SIM_STEP_MODEL_ROUTE_H
#include <stddef.h>
#include "sim/reckon.h"

/* One line: by how much `peak_gib` + `reserve_gib` exceed the capacity, and the cheapest change that fits: recomputing
 * blocks before a smaller batch. `model` NULL: only by how much. */
void model_route_advise(const struct reckon_model_request *model, double capacity_gib, double peak_gib,
                        double reserve_gib, char *text, size_t capacity);

bool model_route_knows(const char *name); /* whether a measured case has a description */

/* The description in workloads/models that a measured case is of, with its parameters as changes: the longest model name
 * that begins the case's name. SIM_UNSUPPORTED when there is none. */
enum sim_status model_route_case(struct reckon *reckon, const char *name, const char *params, uint32_t gpus,
                                 struct graph **out, struct sim_error *error);

#endif
