#include "sim/atomics/atomic_unit.h"

#include <stdlib.h>
#include <string.h>

void atomic_units_create(struct atomic_units *units, const struct chip_profile *profile, uint32_t slice_count, double time_scale)
{
    struct atomic_rates *rates = &units->rates;
    rates->dependent[WAVE_ATOMIC_INT] = ticks_of_ns(profile->atomic_int_interval * time_scale);
    rates->dependent[WAVE_ATOMIC_FP32] = ticks_of_ns(profile->atomic_fp32_interval * time_scale);
    rates->dependent[WAVE_ATOMIC_PACKED16] = ticks_of_ns(profile->atomic_packed16_interval * time_scale);
    rates->cas = ticks_of_ns(profile->atomic_cas_interval * time_scale);
    rates->turnaround = ticks_of_ns(profile->atomic_turnaround * time_scale);
    rates->piece = ticks_of_ns(profile->atomic_piece_time * time_scale);
    rates->block = ticks_of_ns(profile->atomic_block_time * time_scale);
    rates->lane = ticks_of_ns(profile->atomic_lane_time * time_scale);
    rates->unit[WAVE_ATOMIC_INT] = ticks_of_ns(profile->atomic_unit_time * time_scale);
    rates->unit[WAVE_ATOMIC_FP32] = rates->unit[WAVE_ATOMIC_INT];
    rates->unit[WAVE_ATOMIC_PACKED16] = ticks_of_ns(profile->atomic_unit_time_packed16 * time_scale);
    rates->slices_per_unit = (uint32_t)profile->atomic_slices_per_unit;
    rates->block_bytes = (uint32_t)profile->atomic_block;
    rates->lane_by_lane = profile->atomic_repeats == CHIP_ATOMIC_REPEATS_LANE_BY_LANE;
    SIM_ASSERT(rates->cas > 0, "compare-and-swap interval of %g ns", profile->atomic_cas_interval);
    SIM_ASSERT(slice_count > 0 && rates->slices_per_unit > 0, "slices %u, per unit %u", slice_count, rates->slices_per_unit);
    units->slice_count = slice_count;
    units->fronts = calloc(slice_count, sizeof *units->fronts);
    units->arithmetic = calloc(slice_count / rates->slices_per_unit + 1, sizeof *units->arithmetic);
    units->blocks = calloc((size_t)1 << ATOMIC_BLOCK_TABLE_BITS, sizeof *units->blocks);
    SIM_ASSERT(units->fronts != NULL && units->arithmetic != NULL && units->blocks != NULL, "out of memory");
}

void atomic_units_reset(struct atomic_units *units)
{
    memset(units->fronts, 0, units->slice_count * sizeof *units->fronts);
    memset(units->arithmetic, 0, (units->slice_count / units->rates.slices_per_unit + 1) * sizeof *units->arithmetic);
    memset(units->blocks, 0, sizeof *units->blocks << ATOMIC_BLOCK_TABLE_BITS);
}

void atomic_units_destroy(struct atomic_units *units)
{
    free(units->fronts);
    free(units->arithmetic);
    free(units->blocks);
    memset(units, 0, sizeof *units);
}
