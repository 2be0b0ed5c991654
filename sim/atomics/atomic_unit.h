/* Read-modify-write at the place where the profile says it executes: L2 slice or memory side.
 * A packet is one line's worth of a wave's atomic instruction, cut into blocks of the unit's granularity (32 or 64 B). Distinct
 * addresses of a block go together, in one turn. Where lanes share an address a block takes as many turns as its most frequent
 * address has lanes, or (atomic.repeats lane_by_lane) a turn for each of its lanes. The slice is in order: a packet whose block is
 * still busy with a dependent operation holds up those behind it. Slices share arithmetic units in pairs (or more), which bounds
 * the spread rate.
 * A compare-and-swap loop succeeds once per turn of all who contend for the word, since each success spoils what the others
 * have read: a lane that finds n waiting costs n turns. The waiting are read off the work that stands before the block.
 * Source: measured same-address, spread and strided rates (calib/data/h200/atomic.csv), calib/data/published/mi300x/atomic.csv;
 * docs/chip-model.md. */
#ifndef SIM_ATOMICS_ATOMIC_UNIT_H
#define SIM_ATOMICS_ATOMIC_UNIT_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include "sim/core/chip_profile.h"
#include "sim/core/status.h"
#include "sim/core/ticks.h"
#include "sim/core/wave_program.h"

#define ATOMIC_BLOCK_TABLE_BITS 14

struct atomic_rates { /* all in ticks */
    sim_ticks dependent[WAVE_ATOMIC_TYPES]; /* between operations on one address */
    sim_ticks cas;                          /* likewise, attempts of compare-and-swap loops */
    sim_ticks turnaround;                   /* of a block from one request to the next, beyond the operations */
    sim_ticks piece;                        /* each further piece of a request whose addresses differ */
    sim_ticks block;                        /* slice time of a block with one lane per address */
    sim_ticks lane;                         /* slice time per turn where lanes share an address */
    sim_ticks unit[WAVE_ATOMIC_TYPES];      /* arithmetic unit, per turn of a block */
    uint32_t slices_per_unit;
    uint32_t block_bytes;
    bool lane_by_lane; /* lanes of a block that repeats an address take a turn each */
};

enum atomic_swap { ATOMIC_NO_SWAP, ATOMIC_SWAP_ONCE, ATOMIC_SWAP_LOOP };

static inline enum atomic_swap atomic_swap_of(uint8_t wave_atomic_flags)
{
    return (wave_atomic_flags & WAVE_ATOMIC_CAS_LOOP) != 0   ? ATOMIC_SWAP_LOOP
           : (wave_atomic_flags & WAVE_ATOMIC_CAS_ONCE) != 0 ? ATOMIC_SWAP_ONCE
                                                             : ATOMIC_NO_SWAP;
}

/* The lanes of a wave's instruction that meet in one block. */
struct atomic_lanes {
    uint8_t all;    /* 0: the block is untouched */
    uint8_t on_one; /* on the most frequent address */
    uint8_t pieces; /* stretches of neighbouring lanes on neighbouring addresses */
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

/* Turns of the unit that the lanes take, for a compare-and-swap loop with `ahead` of work before the block. Of r lanes that race
 * for a word one wins a turn of all: r + (r - 1) + ..., and as many again per lane as others wait. */
static inline uint64_t atomic_turns(const struct atomic_rates *rates, struct atomic_lanes lanes, enum atomic_swap swap, sim_ticks ahead)
{
    uint64_t words = rates->lane_by_lane && lanes.on_one > 1 ? ((uint64_t)lanes.all + lanes.on_one - 1) / lanes.on_one : 1;
    if (swap != ATOMIC_SWAP_LOOP) {
        return words > 1 ? lanes.all : lanes.on_one;
    }
    uint64_t waiting = ahead > 0 ? (uint64_t)sqrt((double)ahead / (double)(rates->cas * (sim_ticks)words)) : 0;
    return words * ((uint64_t)lanes.on_one * (lanes.on_one + 1u) / 2 + lanes.on_one * waiting);
}

/* Slice time of a block. */
static inline sim_ticks atomic_service(const struct atomic_rates *rates, uint64_t turns)
{
    return turns > 1 ? rates->lane * (sim_ticks)turns : rates->block;
}

/* The time that a block's operations take one after another. */
static inline sim_ticks atomic_dependence(const struct atomic_rates *rates, struct atomic_lanes lanes, uint64_t turns,
                                          enum wave_atomic_type type, enum atomic_swap swap)
{
    sim_ticks each = swap != ATOMIC_NO_SWAP ? rates->cas : rates->dependent[type];
    sim_ticks pieces = lanes.on_one == 1 ? rates->piece * (lanes.pieces - 1) : 0;
    return each * (sim_ticks)turns + pieces;
}

struct atomic_visit { /* of one block at its slice */
    sim_ticks start; /* in order, and the block no longer busy */
    sim_ticks end;   /* of the last dependent operation */
    sim_ticks unit;  /* of the arithmetic unit, which lanes that go one by one do not hold */
};

/* The in-order front and the block, for an arrival at `t` that the slice's request server lets in at `let_in`. The attempts of a
 * compare-and-swap loop come and go: they hold the block, not the front. */
static inline struct atomic_visit atomic_front_visit(struct atomic_units *units, uint32_t slice, uint64_t block, struct atomic_lanes lanes,
                                                     enum wave_atomic_type type, enum atomic_swap swap, sim_ticks t, sim_ticks let_in)
{
    const struct atomic_rates *rates = &units->rates;
    struct atomic_front *front = &units->fronts[slice];
    struct atomic_block_state *state = &units->blocks[block * 0x9E3779B97F4A7C15u >> (64 - ATOMIC_BLOCK_TABLE_BITS)];
    sim_ticks block_free = state->key == block + 1 ? state->free : 0;
    uint64_t first_turns = atomic_turns(rates, lanes, ATOMIC_NO_SWAP, 0);
    uint64_t turns = swap == ATOMIC_SWAP_LOOP ? atomic_turns(rates, lanes, swap, block_free - t) : first_turns;
    struct atomic_visit visit = { .unit = rates->unit[type] * (rates->lane_by_lane ? 1 : (sim_ticks)first_turns) };
    let_in = let_in > front->in_order_free ? let_in : front->in_order_free;
    visit.start = block_free > let_in && swap != ATOMIC_SWAP_LOOP ? block_free : let_in; /* head of line waits for the block */
    front->in_order_free = visit.start + atomic_service(rates, first_turns);
    front->busy += front->in_order_free - let_in;
    visit.end = (block_free > visit.start ? block_free : visit.start) + atomic_dependence(rates, lanes, turns, type, swap);
    state->key = block + 1;
    state->free = visit.end + rates->turnaround;
    return visit;
}

/* Execute one block for `lanes` (lanes.all > 0), arriving at `t` before `slice_queue`, the slice's own request server.
 * Returns the end of the last operation. */
static inline sim_ticks atomic_unit_block(struct atomic_units *units, struct slotted_server *slice_queue, uint32_t slice,
                                          uint64_t block, struct atomic_lanes lanes, enum wave_atomic_type type, enum atomic_swap swap,
                                          sim_ticks t)
{
    const struct atomic_rates *rates = &units->rates;
    sim_ticks let_in = slotted_server_start(slice_queue, t, atomic_service(rates, atomic_turns(rates, lanes, ATOMIC_NO_SWAP, 0)));
    struct atomic_visit visit = atomic_front_visit(units, slice, block, lanes, type, swap, t, let_in);
    sim_ticks unit_end = slotted_server_start(&units->arithmetic[slice / rates->slices_per_unit], visit.start, visit.unit) + visit.unit;
    return visit.end > unit_end ? visit.end : unit_end;
}

#endif
