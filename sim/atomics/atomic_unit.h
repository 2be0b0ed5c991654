/* Read-modify-write at the place where the profile says it executes: L2 slice or memory side.
 * A packet is one line's worth of a wave's atomic instruction, cut into blocks of the unit's granularity (32 or 64 B). A
 * block takes as many rounds as its most frequent address has lanes; distinct addresses of a block go together. The slice is
 * in order: a packet whose block is still busy with a dependent operation holds up those behind it. Slices share arithmetic
 * units in pairs (or more), which bounds the spread rate.
 * Source: measured same-address, spread and strided rates (calib/data/h200/atomic.csv); docs/chip-model.md. */
#ifndef SIM_ATOMICS_ATOMIC_UNIT_H
#define SIM_ATOMICS_ATOMIC_UNIT_H
#include <stdint.h>
#include "sim/core/chip_profile.h"
#include "sim/core/status.h"
#include "sim/core/ticks.h"
#include "sim/core/wave_program.h"

#define ATOMIC_BLOCK_TABLE_BITS 14

struct atomic_rates { /* all in ticks */
    sim_ticks dependent[WAVE_ATOMIC_TYPES]; /* between operations on one address */
    sim_ticks block;                        /* slice time of a block with one lane per address */
    sim_ticks lane;                         /* slice time per round where lanes share an address */
    sim_ticks unit[WAVE_ATOMIC_TYPES];      /* arithmetic unit, per round of a block */
    uint32_t slices_per_unit;
    uint32_t block_bytes;
};

struct atomic_block_state {
    uint64_t key;   /* block address + 1; 0: empty */
    sim_ticks free; /* end of the last dependent operation */
};

struct atomic_front {       /* one per slice or channel that executes atomics */
    sim_ticks in_order_free;/* strict: order is the mechanism here */
    sim_ticks busy;         /* service and head-of-line waits */
};

/* Units of one place (all slices of a package or all memory channels). Build once, reset per run. */
struct atomic_units {
    struct atomic_rates rates;
    uint32_t slice_count;
    struct atomic_front *fronts;      /* [slice_count] */
    struct slotted_server *arithmetic;  /* [slice_count / slices_per_unit, rounded up] */
    struct atomic_block_state *blocks;/* [1 << ATOMIC_BLOCK_TABLE_BITS], direct-mapped */
};

/* Rates from the profile; `time_scale` multiplies every rate (a slower core clock where the unit follows it). */
void atomic_units_create(struct atomic_units *units, const struct chip_profile *profile, uint32_t slice_count, double time_scale);
void atomic_units_reset(struct atomic_units *units);
void atomic_units_destroy(struct atomic_units *units); /* zeroed memory is allowed */

/* Execute one block: `rounds` >= 1 dependent operations on its most frequent address, arriving at `t` after `slice_queue`
 * (the slice's own request server) let it in. Returns the end of the last operation. */
static inline sim_ticks atomic_unit_block(struct atomic_units *units, struct slotted_server *slice_queue, uint32_t slice,
                                          uint64_t block, uint32_t rounds, enum wave_atomic_type type, sim_ticks t)
{
    const struct atomic_rates *rates = &units->rates;
    sim_ticks service = rounds > 1 ? rates->lane * rounds : rates->block;
    sim_ticks start = slotted_server_start(slice_queue, t, service);
    struct atomic_front *front = &units->fronts[slice];
    if (start < front->in_order_free) {
        start = front->in_order_free;
    }
    sim_ticks let_in = start;
    uint64_t hash = block * 0x9E3779B97F4A7C15u;
    struct atomic_block_state *state = &units->blocks[hash >> (64 - ATOMIC_BLOCK_TABLE_BITS)];
    if (state->key == block + 1 && state->free > start) {
        start = state->free; /* head of line waits for the block */
    }
    front->in_order_free = start + service;
    front->busy += start + service - let_in;
    state->key = block + 1;
    state->free = start + rates->dependent[type] * rounds;
    sim_ticks unit_cost = rates->unit[type] * rounds;
    sim_ticks unit_start = slotted_server_start(&units->arithmetic[slice / rates->slices_per_unit], start, unit_cost);
    sim_ticks end = state->free;
    return end > unit_start + unit_cost ? end : unit_start + unit_cost;
}

#endif
