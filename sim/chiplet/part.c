#include "sim/chiplet/part_internal.h"

#include <math.h>

#define WINDOW_MOST 600000 /* line requests: a step's windows, narrow and wide */
#define PART_ERROR 0.01    /* of the time: what a part may miss of the whole, where it was run to its end */

static bool is_divisible_by(double count, uint32_t by)
{
    return count >= by && fmod(count, by) == 0;
}

/* One group of each die, so that the links between dies are there; 1: the package has no like parts. */
static uint32_t parts_of_package(const struct chip_profile *profile)
{
    if (profile->l2_organisation != CHIP_L2_PRIVATE || profile->dispatch_order != CHIP_DISPATCH_ROUND_ROBIN_GROUPS) {
        return 1;
    }
    double parts = profile->package_groups / profile->package_dies;
    if (!(parts > 1) || parts != floor(parts)) {
        return 1;
    }
    uint32_t of = (uint32_t)parts;
    bool are_alike = is_divisible_by(profile->hbm_channels, of * (uint32_t)profile->l2_slices_per_group) &&
                     is_divisible_by(profile->dispatch_dispatchers, of);
    return are_alike ? of : 1;
}

static void take_profile(struct part *part, const struct chip_profile *profile)
{
    struct chip_profile *p = &part->profile;
    *p = *profile;
    p->package_groups /= part->of;
    p->dispatch_dispatchers /= part->of;
    p->l2_capacity /= part->of;
    p->hbm_channels /= part->of;
    if (p->has_die_link) {
        p->die_link_rate /= part->of;
    }
    if (p->has_mall) {
        p->mall_capacity /= part->of;
        p->mall_rate /= part->of;
    }
}

static void take_program(struct part *part, const struct wave_program *program)
{
    struct wave_program *p = &part->program;
    *p = *program;
    p->workgroups = (program->workgroups + part->of - 1) / part->of;
    double share = (double)p->workgroups / (double)program->workgroups;
    p->work_units_total = (uint64_t)ceil((double)program->work_units_total * share);
    p->predecessor_bytes = (uint64_t)((double)program->predecessor_bytes * share);
    p->flops *= share;
    p->l2_footprint_bytes *= share;
}

bool part_of(const struct chip_profile *profile, const struct wave_program *program, const struct chip_options *options,
             struct part *part)
{
    bool is_window = !options->exact && options->window_requests > 0 && options->window_requests <= WINDOW_MOST;
    uint32_t of = parts_of_package(profile);
    double units = profile->package_groups * profile->package_units_per_group;
    if (!program->is_divisible || !is_window || of == 1 || (double)program->workgroups < units ||
        options->engine != CHIP_ENGINE_FAST || program->initial_cache == WAVE_CACHE_STATE_FLUSHED) {
        return false;
    }
    part->of = of;
    take_profile(part, profile);
    take_program(part, program);
    part->options = *options;
    part->options.window_requests = (options->window_requests + of - 1) / of;
    return true;
}

void part_extend(const struct part *part, const struct wave_program *program, struct kernel_result *result)
{
    double times = (double)program->workgroups / (double)part->program.workgroups;
    for (int level = 0; level < KERNEL_LEVELS; level++) {
        result->bytes[level] *= times;
    }
    result->hbm_read_bytes *= times;
    result->hbm_write_bytes *= times;
    result->atomic_count *= times;
    result->atomic_hottest_line_ops *= times;
    result->flops = program->flops;
    result->sampled_fraction /= times;
    result->sampling_error = hypot(result->sampling_error, PART_ERROR);
}
