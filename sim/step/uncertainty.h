/* Intervals of what reckon.h has no question for: a collective on a node. */
#ifndef SIM_STEP_UNCERTAINTY_H
#define SIM_STEP_UNCERTAINTY_H
#include "sim/fabric/fabric.h"
#include "sim/reckon.h"

/* As reckon_kernel_doubts, for the time of one collective over the node's numbers that were not measured; algorithm and
 * protocol of `result` are held, as a library chose them knowing its node. Errors: fewer than 8 samples; what
 * collective_time returned. */
enum sim_status uncertainty_collective(uint64_t seed, struct node_profile *node, const struct collective_request *request,
                                       const struct collective_result *result, enum fabric_engine engine, uint32_t samples,
                                       struct reckon_doubts **out, struct sim_error *error);

#endif
