#include "sim/chiplet/part_internal.h"

#include <math.h>

#define PARTS_MOST 8      /* a group keeps so few units and slices that they still share its L2 as many do */
#define WINDOW_MOST 600000 /* line requests: a step's windows, narrow and wide */
#define PART_ERROR 0.02   /* of the time: what a part run to its end may miss of the whole */

static bool is_divisible_by(double count, uint32_t by)
{
    return count >= by && fmod(count, by) == 0;
}

uint32_t chip_parts(const struct chip_profile *profile)
{
    uint32_t of = profile->l2_organisation == CHIP_L2_PRIVATE ? PARTS_MOST : 1;
    while (of > 1 && !(is_divisible_by(profile->package_units_per_group, of) && is_divisible_by(profile->l2_slices_per_group, of) &&
                       is_divisible_by(profile->hbm_channels, of * (uint32_t)profile->package_dies))) {
        of /= 2;
    }
    return of;
}

static void take_of_groups(struct chip_profile *p, uint32_t of)
{
    p->package_units_per_group /= of;
    p->l2_slices_per_group /= of;
    p->l2_capacity /= of;
    p->dispatch_interval *= of; /* a dispatcher serves the whole group */
    p->dispatch_wave_interval *= of;
    p->hbm_channels /= of;
    if (p->has_die_link) {
        p->die_link_rate /= of;
    }
    if (p->has_mall) {
        p->mall_capacity /= of;
        p->mall_rate /= of;
    }
    if (p->has_tlb) {
        p->tlb_reach /= of;
    }
}

static void take_workgroups(struct part *part, uint32_t of)
{
    struct wave_program *p = &part->program;
    uint64_t all = p->workgroups;
    p->workgroups = (all + of - 1) / of;
    part->work = (double)all / (double)p->workgroups;
    p->work_units_total = (uint64_t)ceil((double)p->work_units_total / part->work);
    p->predecessor_bytes = (uint64_t)((double)p->predecessor_bytes / part->work);
    p->l2_footprint_bytes /= part->work;
    p->flops /= part->work;
}

bool part_of(const struct chip_profile *profile, const struct wave_program *program, const struct chip_options *options,
             struct part *part)
{
    uint32_t of = chip_parts(profile);
    part->profile = *profile;
    part->program = *program;
    if (program->part_of > 1) {
        SIM_ASSERT(of % program->part_of == 0, "%s: a part of %u of a package that has %u", program->name, program->part_of, of);
        part->work = program->part_of;
        take_of_groups(&part->profile, program->part_of);
        return true;
    }
    bool is_window = !options->exact && options->window_requests > 0 && options->window_requests <= WINDOW_MOST;
    double units = profile->package_groups * profile->package_units_per_group;
    if (of == 1 || !program->is_divisible || !is_window || (double)program->workgroups < units ||
        options->engine != CHIP_ENGINE_FAST || program->initial_cache == WAVE_CACHE_STATE_FLUSHED) {
        return false;
    }
    take_of_groups(&part->profile, of);
    take_workgroups(part, of);
    return true;
}

void part_extend(const struct part *part, struct kernel_result *result)
{
    for (int level = 0; level < KERNEL_LEVELS; level++) {
        result->bytes[level] *= part->work;
    }
    result->hbm_read_bytes *= part->work;
    result->hbm_write_bytes *= part->work;
    result->atomic_count *= part->work;
    result->atomic_hottest_line_ops *= part->work;
    result->core_uj *= part->work;
    result->memory_uj *= part->work;
    result->flops *= part->work;
    result->sampled_fraction /= part->work;
    result->sampling_error = hypot(result->sampling_error, PART_ERROR);
}
