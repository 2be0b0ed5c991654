/* The reference engine: its event heap, servers and credits, and data in flight. */
#include "sim/chiplet/reference_parts_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- events and servers */

static inline bool is_before(const struct step *a, const struct step *b)
{
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

void reference_schedule(struct reference *reference, sim_ticks at, step_fire *fire, void *object)
{
    SIM_ASSERT(at >= reference->now, "an event at %lld fs, before now, %lld fs", (long long)at, (long long)reference->now);
    if (reference->heap_count == reference->heap_capacity) {
        reference->heap_capacity = reference->heap_capacity > 0 ? 2 * reference->heap_capacity : 4096;
        reference->heap = realloc(reference->heap, reference->heap_capacity * sizeof *reference->heap);
        SIM_ASSERT(reference->heap != NULL, "no memory for %zu events", reference->heap_capacity);
    }
    struct step step = { at, reference->sequence++, fire, object };
    size_t i = reference->heap_count++;
    while (i > 0 && is_before(&step, &reference->heap[(i - 1) / 2])) {
        reference->heap[i] = reference->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    reference->heap[i] = step;
}

struct step reference_next_step(struct reference *reference)
{
    struct step first = reference->heap[0];
    struct step moved = reference->heap[--reference->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= reference->heap_count) {
            break;
        }
        if (child + 1 < reference->heap_count && is_before(&reference->heap[child + 1], &reference->heap[child])) {
            child++;
        }
        if (is_before(&moved, &reference->heap[child])) {
            break;
        }
        reference->heap[i] = reference->heap[child];
        i = child;
    }
    reference->heap[i] = moved;
    return first;
}

/* Take a place in the queue now; returns when service starts. */
sim_ticks reference_serve(struct reference *reference, struct strict_server *server, sim_ticks cost)
{
    sim_ticks start = server->free > reference->now ? server->free : reference->now;
    server->free = start + cost;
    server->busy += cost;
    return start;
}

/* Go on with `fire` as soon as a credit is free. */
void reference_take_credit(struct reference *reference, struct credits *credits, step_fire *fire, struct request *request)
{
    if (credits->left > 0) {
        credits->left--;
        fire(reference, request);
        return;
    }
    request->resume = fire;
    request->since = reference->now;
    request->next = NULL;
    if (credits->first == NULL) {
        credits->first = request;
    } else {
        credits->last->next = request;
    }
    credits->last = request;
}

void reference_give_credit(struct reference *reference, struct credits *credits)
{
    struct request *request = credits->first;
    if (request == NULL) {
        credits->left++;
        return;
    }
    credits->first = request->next;
    request->blame.l1 += reference->now - request->since;
    reference_schedule(reference, reference->now, request->resume, request);
}

/* ---- pools */

struct request *reference_new_request(struct reference *reference)
{
    if (reference->free_requests == NULL) {
        struct block_of_requests *block = package_zalloc(1, sizeof *block);
        block->next = reference->request_blocks;
        reference->request_blocks = block;
        for (size_t i = 0; i < sizeof block->request / sizeof *block->request; i++) {
            block->request[i].next = reference->free_requests;
            reference->free_requests = &block->request[i];
        }
    }
    struct request *request = reference->free_requests;
    reference->free_requests = request->next;
    memset(request, 0, sizeof *request);
    return request;
}

void reference_free_request(struct reference *reference, struct request *request)
{
    request->next = reference->free_requests;
    reference->free_requests = request;
}

static struct fill *new_fill(struct reference *reference)
{
    if (reference->free_fills == NULL) {
        struct block_of_fills *block = package_zalloc(1, sizeof *block);
        block->next = reference->fill_blocks;
        reference->fill_blocks = block;
        for (size_t i = 0; i < sizeof block->fill / sizeof *block->fill; i++) {
            block->fill[i].next = reference->free_fills;
            reference->free_fills = &block->fill[i];
        }
    }
    struct fill *fill = reference->free_fills;
    reference->free_fills = fill->next;
    return fill;
}

/* ---- data in flight */

static struct fill **fill_chain(struct reference *reference, uint64_t line, uint32_t where)
{
    uint64_t hash = package_mix(line * 4096 + where);
    return &reference->fill_table[hash >> (64 - FILL_TABLE_BITS)];
}

struct fill *reference_start_fill(struct reference *reference, uint64_t line, uint32_t where, uint32_t mask)
{
    struct fill **chain = fill_chain(reference, line, where);
    struct fill *fill = new_fill(reference);
    *fill = (struct fill){ .line = line, .where = where, .mask = mask, .next = *chain };
    *chain = fill;
    return fill;
}

/* Wait for the youngest fill that brings any of `mask`; false: none is under way. */
bool reference_wait_for_fill(struct reference *reference, uint64_t line, uint32_t where, uint32_t mask, step_fire *resume,
                          struct request *request)
{
    for (struct fill *fill = *fill_chain(reference, line, where); fill != NULL; fill = fill->next) {
        if (fill->line == line && fill->where == where && (fill->mask & mask) != 0) {
            request->resume = resume;
            request->since = reference->now;
            request->next = fill->waiters;
            fill->waiters = request;
            return true;
        }
    }
    return false;
}

void reference_end_fill(struct reference *reference, struct request *bringer, enum fill_level level)
{
    struct fill *fill = bringer->fills[level];
    if (fill == NULL) {
        return;
    }
    bringer->fills[level] = NULL;
    struct fill **link = fill_chain(reference, fill->line, fill->where);
    while (*link != fill) {
        link = &(*link)->next;
    }
    *link = fill->next;
    struct request *waiter = fill->waiters;
    while (waiter != NULL) {
        struct request *next = waiter->next;
        *(level == FILL_L1 ? &waiter->blame.l2 : &waiter->blame.hbm) += reference->now - waiter->since;
        reference_schedule(reference, reference->now, waiter->resume, waiter);
        waiter = next;
    }
    fill->next = reference->free_fills;
    reference->free_fills = fill;
}
