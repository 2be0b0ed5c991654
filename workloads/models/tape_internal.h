/* What tape.c and the operators share beyond eager_internal.h. */
#ifndef WORKLOADS_MODELS_TAPE_INTERNAL_H
#define WORKLOADS_MODELS_TAPE_INTERNAL_H
#include "workloads/models/eager_internal.h"

bool eager_is_shared(const struct storage *storage); /* somebody else holds it too */
void eager_owned_by(struct eager *eager, const struct storage *storage, enum graph_memory_owner owner);
/* An edge straight to a parameter's gradient. */
void eager_edge_parameter(struct eager *eager, struct function *function, uint32_t index,
                          struct parameter *parameter);
/* Whether the backward of `function` has to give a gradient for edge `index`. */
static inline bool wants(const struct function *function, uint32_t index)
{
    return function->edges[index].next != NULL;
}

#endif
