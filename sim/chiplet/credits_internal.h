/* Credits that come back in any order (outstanding loads of a unit, store packets under way): whoever finds none takes the first
 * that comes back. Private to sim/chiplet.
 * When a credit is taken, the time of its return is known, so that returns are counted in slots of time, which are looked at when
 * no credit is left. A return beyond the slots is kept by its time until they reach it.
 * Invariant between calls: left + near + far_count is the number of credits. */
#ifndef SIM_CHIPLET_CREDITS_INTERNAL_H
#define SIM_CHIPLET_CREDITS_INTERNAL_H
#include "sim/core/status.h"
#include "sim/core/ticks.h"
#include <stdint.h>
#include <string.h>

#define CREDIT_SLOTS 1024u
#define CREDIT_SLOT_BITS \
    22 /* a slot is 2^this ticks: 4.2 ns; returns of one slot are taken to come in its middle */

struct credit_pool {
    uint32_t left;      /* back before the end of slot `floor` */
    uint32_t near;      /* in the slots after it */
    uint32_t far_count; /* beyond them when given */
    uint64_t floor;
    uint64_t looked_far; /* `floor` when `far` was last looked through */
    sim_ticks *far;      /* [credits], owned by the caller */
    uint16_t returned[CREDIT_SLOTS];
};

static inline uint64_t credit_slot(sim_ticks t)
{
    return (uint64_t)t >> CREDIT_SLOT_BITS;
}

static inline void credit_pool_reset(struct credit_pool *pool, uint32_t credits, sim_ticks *far)
{
    memset(pool, 0, sizeof *pool);
    pool->left = credits;
    pool->far = far;
}

static inline void credit_pool_give(struct credit_pool *pool, sim_ticks t)
{
    uint64_t slot = credit_slot(t);
    if (slot <= pool->floor) {
        pool->left++;
    } else if (slot < pool->floor + CREDIT_SLOTS) {
        pool->returned[slot % CREDIT_SLOTS]++;
        pool->near++;
    } else {
        pool->far[pool->far_count++] = t;
    }
}

/* Put what the slots reach by now into them. */
static inline void credit_pool_look_far(struct credit_pool *pool)
{
    uint32_t count = pool->far_count;
    pool->far_count = 0;
    pool->looked_far = pool->floor;
    for (uint32_t i = 0; i < count; i++) {
        credit_pool_give(pool, pool->far[i]);
    }
}

/* Move on to slot `to`, or until a credit is left if that is later. */
static inline void credit_pool_advance(struct credit_pool *pool, uint64_t to)
{
    while (pool->floor < to || pool->left == 0) {
        if (pool->near == 0) {
            uint64_t next = UINT64_MAX;
            for (uint32_t i = 0; i < pool->far_count; i++) {
                next = credit_slot(pool->far[i]) < next ? credit_slot(pool->far[i]) : next;
            }
            SIM_ASSERT(next != UINT64_MAX || pool->left > 0, "no credit left and none under way");
            pool->floor = pool->left > 0 || next < to ? to : next;
            credit_pool_look_far(pool);
            continue;
        }
        pool->floor++;
        uint16_t *returned = &pool->returned[pool->floor % CREDIT_SLOTS];
        pool->left += *returned;
        pool->near -= *returned;
        *returned = 0;
        if (pool->far_count > 0 && pool->floor >= pool->looked_far + CREDIT_SLOTS / 2) {
            credit_pool_look_far(pool);
        }
    }
}

/* Take a credit at `t` or as soon as there is one; returns when. A credit_pool_return() follows before the next call. */
static inline sim_ticks credit_pool_take(struct credit_pool *pool, sim_ticks t)
{
    if (pool->left == 0) {
        credit_pool_advance(pool, credit_slot(t));
        sim_ticks back = (sim_ticks)((pool->floor << CREDIT_SLOT_BITS) + (1u << (CREDIT_SLOT_BITS - 1)));
        t = pool->floor > credit_slot(t) && back > t ? back : t;
    }
    pool->left--;
    return t;
}

/* The credit taken at `taken` comes back at `t`. */
static inline void credit_pool_return(struct credit_pool *pool, sim_ticks taken, sim_ticks t)
{
    if (credit_slot(t) >= pool->floor + CREDIT_SLOTS && credit_slot(taken) > pool->floor) {
        pool->left++; /* so that moving on ends there */
        credit_pool_advance(pool, credit_slot(taken));
        pool->left--;
    }
    credit_pool_give(pool, t);
}

#endif
