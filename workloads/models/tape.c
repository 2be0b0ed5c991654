/* The tape and the engine that plays it: functions run by descending sequence number once all their gradients have come,
 * gradients of parameters at once; a second gradient for one output is added to the first in place where nobody else
 * holds it (torch/csrc/autograd/engine.cpp and input_buffer.cpp). */
#include "workloads/models/eager_internal.h"
#include "workloads/models/tape_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct function *eager_function(struct eager *eager, const char *name,
                                void (*backward)(struct eager *, struct function *), uint32_t edge_count)
{
    if (eager->replaying != NULL) {
        if (eager->stopped) {
            return NULL;
        }
        SIM_ASSERT(eager->replay_at < eager->replaying->function_count, "a replay makes more functions than its region");
        return eager->replaying->functions[eager->replay_at++];
    }
    struct function *function = calloc(1, sizeof *function);
    struct function **all = realloc(eager->functions, (eager->function_count + 1) * sizeof(void *));
    SIM_ASSERT(function != NULL && all != NULL, "out of memory");
    eager->functions = all;
    all[eager->function_count++] = function;
    function->name = name;
    function->backward = backward;
    function->sequence = ++eager->sequence;
    function->edge_count = edge_count;
    function->edges = calloc(edge_count + 1, sizeof *function->edges);
    function->out = calloc(edge_count + 1, sizeof(struct tensor *));
    SIM_ASSERT(function->edges != NULL && function->out != NULL, "out of memory");
    if (eager->recording != NULL) {
        struct checkpoint *region = eager->recording;
        struct function **members = realloc(region->functions, (region->function_count + 1) * sizeof(void *));
        SIM_ASSERT(members != NULL, "out of memory");
        region->functions = members;
        members[region->function_count++] = function;
        function->checkpoint = region;
    }
    return function;
}

static void accumulate(struct eager *eager, struct function *function);

static struct function *accumulator_of(struct eager *eager, struct parameter *parameter)
{
    if (parameter->accumulate == NULL) {
        struct checkpoint *recording = eager->recording;
        eager->recording = NULL; /* belongs to the parameter, not to the region */
        parameter->accumulate = eager_function(eager, "torch::autograd::AccumulateGrad", accumulate, 0);
        parameter->accumulate->sequence = UINT64_MAX;
        parameter->accumulate->parameter = parameter;
        eager->recording = recording;
    }
    return parameter->accumulate;
}

void eager_edge_parameter(struct eager *eager, struct function *function, uint32_t index,
                          struct parameter *parameter)
{
    if (function != NULL && eager->replaying == NULL) {
        function->edges[index] = (struct edge){ accumulator_of(eager, parameter), 0 };
    }
}

void eager_edge(struct function *function, uint32_t index, const struct tensor *input)
{
    if (function != NULL && function->edges[index].next == NULL && input != NULL && input->wants_gradient) {
        function->edges[index] = (struct edge){ input->producer, input->slot };
    }
}

void eager_save(struct eager *eager, struct function *function, uint32_t index, struct storage *storage)
{
    if (function == NULL || (eager->recording != NULL && storage != NULL)) {
        return; /* a checkpoint keeps nothing of its region */
    }
    SIM_ASSERT(function->saved[index] == NULL, "%s saves %u twice", function->name, index);
    function->saved[index] = eager_keep(storage);
}

void eager_saved(struct eager *eager, struct function *function)
{
    if (eager->recording != NULL && function != NULL) {
        function->number[FUNCTION_NUMBERS - 1] = 1; /* has tensors to save: a replay may stop behind the last such */
    }
    if (eager->replaying == NULL || function == NULL) {
        return;
    }
    for (uint32_t i = eager->replay_at; i < eager->replaying->function_count; i++) {
        if (eager->replaying->functions[i]->number[FUNCTION_NUMBERS - 1] > 0) {
            return;
        }
    }
    eager->stopped = true;
}

void eager_produce(struct tensor *tensor, struct function *function, uint32_t slot)
{
    if (function != NULL) {
        tensor->producer = function;
        tensor->slot = slot;
        tensor->wants_gradient = true;
    }
}

/* ---- checkpoints ----------------------------------------------------------------------------------------------- */

void eager_checkpoint(struct eager *eager, void (*run)(struct eager *eager, void *context), void *context)
{
    struct checkpoint *region = calloc(1, sizeof *region);
    struct checkpoint **regions = realloc(eager->regions, (eager->region_count + 1) * sizeof(void *));
    SIM_ASSERT(region != NULL && regions != NULL, "out of memory");
    eager->regions = regions;
    regions[eager->region_count++] = region;
    region->run = run;
    region->context = context;
    eager->recording = region;
    run(eager, context);
    eager->recording = NULL;
    for (uint32_t i = 0; i < region->function_count; i++) {
        region->functions[i]->checkpoint = region;
    }
}

static void recompute(struct eager *eager, struct checkpoint *region)
{
    if (region->recomputed) {
        return;
    }
    bool inside = eager->inside_autocast;
    region->recomputed = true;
    eager->replaying = region;
    eager->replay_at = 0;
    eager_autocast_begin(eager);
    region->run(eager, region->context);
    eager->stopped = false;
    eager_autocast_end(eager);
    eager->inside_autocast = inside;
    eager->replaying = NULL;
}

void eager_autocast_begin(struct eager *eager)
{
    eager->inside_autocast = eager->autocast;
}

void eager_autocast_end(struct eager *eager)
{
    for (uint32_t i = 0; i < eager->parameter_count; i++) {
        eager_release(eager, eager->parameters[i]->cast);
        eager->parameters[i]->cast = NULL;
    }
    eager->inside_autocast = false;
}

/* ---- engine ---------------------------------------------------------------------------------------------------- */

static void count_pending(struct function *root)
{
    struct function **stack = NULL;
    size_t count = 0, capacity = 0;
    struct function *at = root;
    root->visited = true;
    for (;;) {
        for (uint32_t i = 0; i < at->edge_count; i++) {
            struct function *next = at->edges[i].next;
            if (next == NULL) {
                continue;
            }
            next->pending++;
            if (!next->visited) {
                next->visited = true;
                if (count == capacity) {
                    capacity = capacity == 0 ? 64 : 2 * capacity;
                    stack = realloc(stack, capacity * sizeof(void *));
                    SIM_ASSERT(stack != NULL, "out of memory");
                }
                stack[count++] = next;
            }
        }
        if (count == 0) {
            break;
        }
        at = stack[--count];
    }
    free(stack);
}

static void add_gradient(struct eager *eager, struct function *to, uint32_t slot, struct tensor *gradient)
{
    struct tensor *first = to->in[slot];
    if (first == NULL) {
        to->in[slot] = gradient;
        return;
    }
    bool in_place = !eager_is_shared(first->storage);
    bool strided = first->strided || gradient->strided;
    double n = tensor_elements_of(first);
    struct tensor *sum = first;
    eager_host(eager, in_place ? ".add_" : ".add");
    if (!in_place) {
        sum = eager_tensor(eager, first->rows, first->columns, first->type);
    }
    int bytes = (int)eager_type_bytes(first->type);
    eager_kernel(eager, "elementwise", "aten::add_", "elementwise", "map",
                 "n=%.0f;bytes_in=%d:%d;bytes_out=%d;valu=1;sfu=0;style=%s;cache=produced", n, bytes, bytes,
                 bytes, strided ? "strided" : "vectorized");
    if (!in_place) {
        eager_release(eager, first);
    }
    eager_release(eager, gradient);
    to->in[slot] = sum;
}

static void finish_function(struct eager *eager, struct function *function)
{
    for (uint32_t i = 0; i < FUNCTION_SAVED; i++) {
        eager_drop(eager, function->saved[i]);
        function->saved[i] = NULL;
    }
    for (uint32_t i = 0; i < FUNCTION_SLOTS; i++) {
        eager_release(eager, function->in[i]);
        function->in[i] = NULL;
    }
}

/* Ready functions, a heap by sequence. */
struct ready {
    struct function **items;
    size_t count, capacity;
};

static void ready_add(struct ready *ready, struct function *function)
{
    if (ready->count == ready->capacity) {
        ready->capacity = ready->capacity == 0 ? 64 : 2 * ready->capacity;
        ready->items = realloc(ready->items, ready->capacity * sizeof(void *));
        SIM_ASSERT(ready->items != NULL, "out of memory");
    }
    size_t at = ready->count++;
    while (at > 0 && ready->items[at - 1]->sequence > function->sequence) {
        ready->items[at] = ready->items[at - 1];
        at--;
    }
    ready->items[at] = function;
}

static void evaluate(struct eager *eager, struct function *function)
{
    char calls[160];
    snprintf(calls, sizeof calls, "autograd::engine::evaluate_function:%s .%s", function->name, function->name);
    eager_host(eager, calls);
    if (function->checkpoint != NULL && function->number[FUNCTION_NUMBERS - 1] > 0) {
        recompute(eager, function->checkpoint);
    }
    function->backward(eager, function);
}

void eager_backward(struct eager *eager, struct tensor *loss)
{
    struct ready ready = { 0 };
    SIM_ASSERT(loss->producer != NULL, "a loss without a tape");
    count_pending(loss->producer);
    eager->thread = 1;
    eager_host(eager, "ones_like .empty_like ..empty_strided .fill_");
    loss->producer->in[0] = eager_tensor(eager, 1, 1, EAGER_FP32);
    eager_kernel(eager, "elementwise", "aten::fill_", "elementwise", "fill", "n=1;dtype=fp32;cache=produced");
    ready_add(&ready, loss->producer);
    while (ready.count > 0) {
        struct function *function = ready.items[--ready.count];
        evaluate(eager, function);
        struct tensor *given[function->edge_count + 1];
        memcpy(given, function->out, function->edge_count * sizeof given[0]);
        memset(function->out, 0, function->edge_count * sizeof given[0]);
        finish_function(eager, function);
        for (uint32_t i = 0; i < function->edge_count; i++) {
            struct function *next = function->edges[i].next;
            if (next == NULL) {
                eager_release(eager, given[i]);
                continue;
            }
            SIM_ASSERT(given[i] != NULL, "%s gives no gradient for its input %u", function->name, i);
            add_gradient(eager, next, function->edges[i].slot, given[i]);
            if (--next->pending == 0) {
                ready_add(&ready, next);
            }
        }
    }
    free(ready.items);
    eager->thread = 0;
}

/* The gradient becomes the parameter's own, without a copy. */
static void accumulate(struct eager *eager, struct function *function)
{
    struct parameter *parameter = function->parameter;
    if (parameter->update == UPDATE_SPARSE) {
        eager_host(eager, ".._indices .._values .._indices .._values .._values .._indices "
                          ".._sparse_coo_tensor_unsafe ..._sparse_coo_tensor_with_dims_and_tensors ....empty "
                          "....empty ....resize_ ....resize_");
    } else {
        eager_host(eager, "..detach ...detach");
    }
    parameter->gradient = eager_keep(function->in[0]->storage);
    eager_owned_by(eager, parameter->gradient, GRAPH_MEMORY_GRADIENTS);
    if (eager->hooks.gradient_ready != NULL) {
        eager->hooks.gradient_ready(eager->hooks.context, eager, parameter);
    }
}
