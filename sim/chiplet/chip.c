/* One kernel on one package: occupancy, the initial cache state, what part of the kernel to simulate, and the result.
 * Sampling. A kernel whose requests exceed the window is cut in one of two ways:
 *   workgroups: the first N of the grid (or N spread over it, when they differ) run to their end, the rest is extrapolated at
 *               the rate between 40% and 85% of the window, counted in loop trips and not in finished workgroups;
 *   trips:      when one round of resident workgroups already exceeds the window, each wave runs its first trips only, the
 *               round is extended at that rate, and rounds are counted (wave quantisation).
 * Ramp and tail are simulated once. Caches are warmed functionally first, with the kernel's own address stream. */
#include "sim/chiplet/chip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chiplet/executor_internal.h"
#include "sim/chiplet/power.h"
#include "sim/chiplet/reference_internal.h"

#define QUICK_WARMING 4 /* requests replayed before a window, for each of the window: touching tags costs a fifth of timing them */
#define DEFAULT_WINDOW_REQUESTS 1500000u
#define LONGEST_WAVE_TRIPS 2000u /* of a wave that may bound the kernel alone: simulated, then scaled */

enum cut { CUT_NONE, CUT_WORKGROUPS, CUT_TRIPS };

struct plan {
    enum cut cut;
    struct run_request run;   /* what is simulated */
    double rounds;            /* CUT_TRIPS: full rounds of resident workgroups */
    uint64_t remainder;       /* CUT_TRIPS: workgroups of the last, partial round */
    double units_of_run_full; /* units of the simulated workgroups without the trip limit */
    double requests_per_unit;
    uint64_t resident;        /* workgroups */
};

static struct run_request whole(const struct wave_program *program, double share)
{
    return (struct run_request){ .workgroup_count = program->workgroups, .window = { 0, UINT64_MAX }, .unit_share = share };
}

static struct plan make_plan(struct executor *executor, const struct package *package, const struct wave_program *program,
                             const struct occupancy *occupancy, const struct chip_options *options, double share)
{
    struct plan plan = { .cut = CUT_NONE, .run = whole(program, share), .rounds = 1 };
    uint32_t usable = (uint32_t)(package->units * share + 0.5);
    plan.resident = (uint64_t)(usable > 0 ? usable : 1) * occupancy->workgroups_per_unit;
    plan.requests_per_unit = executor_requests_per_unit(executor, &plan.run, 64);
    double units = (double)program->work_units_total;
    double window = options->window_requests > 0 ? (double)options->window_requests : DEFAULT_WINDOW_REQUESTS;
    /* an operation without requests costs the host about as much as one request */
    double cost_per_unit = plan.requests_per_unit > 0.25 ? plan.requests_per_unit : 0.25;
    plan.units_of_run_full = units;
    if (options->exact || units * cost_per_unit <= window * 1.25) {
        plan.run.units_expected = program->work_units_total;
        return plan;
    }
    double window_units = window / cost_per_unit;
    double units_per_workgroup = units / (double)program->workgroups;
    uint64_t round = program->workgroups < plan.resident ? program->workgroups : plan.resident;
    if (program->trips_per_wave > 1 && (double)round * units_per_workgroup * 3 > window_units && !program->workgroups_differ) {
        plan.cut = CUT_TRIPS;
        double trip_units = units_per_workgroup / (double)program->trips_per_wave;
        double trips = window_units / ((double)round * trip_units);
        uint64_t limit = trips < 4 ? 4 : (uint64_t)trips;
        if (limit >= program->trips_per_wave) {
            limit = program->trips_per_wave;
        }
        plan.run.workgroup_count = round;
        plan.run.window.trip_limit = limit;
        plan.run.units_expected = (uint64_t)((double)round * trip_units * (double)limit);
        plan.units_of_run_full = (double)round * units_per_workgroup;
        plan.rounds = floor((double)program->workgroups / (double)round);
        plan.remainder = program->workgroups % round;
        return plan;
    }
    double count = ceil(window_units / units_per_workgroup);
    double rounds = options->window_requests > 0 && options->window_requests < DEFAULT_WINDOW_REQUESTS ? 2 : 3;
    if (count < rounds * (double)round) {
        count = rounds * (double)round;
    }
    if (count >= (double)program->workgroups) {
        plan.run.units_expected = program->work_units_total;
        return plan;
    }
    plan.cut = CUT_WORKGROUPS;
    plan.run.workgroup_count = (uint64_t)count;
    if (program->workgroups_differ) {
        /* spread over the grid, or over one of the like stretches it repeats; or several of those whole */
        uint64_t period = program->workgroups_period > 0 && program->workgroups_period < program->workgroups ? program->workgroups_period
                                                                                                              : program->workgroups;
        if (count > (double)period) {
            count = ceil(count / (double)period) * (double)period;
            count = count < (double)program->workgroups ? count : (double)program->workgroups;
            plan.run.workgroup_count = (uint64_t)count;
        } else {
            plan.run.sample_of = period;
        }
        plan.run.marks_by_dispatch = true;
    } else {
        /* from the middle of the grid: its neighbours before it warm the caches, as they do in the whole run */
        plan.run.first_workgroup = (uint64_t)(0.6 * ((double)program->workgroups - count));
    }
    plan.units_of_run_full = units * count / (double)program->workgroups;
    plan.run.units_expected = (uint64_t)plan.units_of_run_full;
    return plan;
}

/* Lines that fill every cache that keeps data across kernels about twice. */
static uint64_t warm_requests(const struct package *package)
{
    double bytes = package->profile->l2_capacity * 1048576.0;
    if (package->has_mall) {
        bytes += package->profile->mall_capacity * 1048576.0;
    }
    return (uint64_t)(2.0 * bytes / package->line_bytes);
}

/* Replay the end of the kernel's own address stream: what a repeat finds in the caches. */
static void warm_own(struct executor *executor, struct package *package, const struct wave_program *program, const struct plan *plan,
                     const struct chip_options *options, double share)
{
    uint64_t limit = warm_requests(package);
    bool quick = options->window_requests > 0 && limit > QUICK_WARMING * options->window_requests;
    if (quick) {
        limit = QUICK_WARMING * options->window_requests; /* a quick look replays in proportion; what else was there is filled in kind */
    }
    struct run_request request = whole(program, share);
    double total = (double)program->work_units_total * plan->requests_per_unit;
    if (total > (double)limit) {
        if (plan->cut == CUT_TRIPS && program->workgroups <= plan->resident) {
            double fraction = (double)limit / total;
            uint64_t trips = (uint64_t)ceil((double)program->trips_per_wave * fraction);
            if (trips < program->trips_per_wave) {
                request.window.trip_first = program->trips_per_wave - trips;
            }
        } else {
            uint64_t count = (uint64_t)ceil((double)program->workgroups * (double)limit / total);
            if (count < program->workgroups) {
                if (program->workgroups_differ) {
                    request.sample_of = plan->run.sample_of;
                    request.workgroup_count = request.sample_of > 0 && count > request.sample_of ? request.sample_of : count;
                } else {
                    uint64_t before = plan->cut == CUT_WORKGROUPS ? plan->run.first_workgroup : program->workgroups;
                    request.workgroup_count = count < before ? count : before;
                    request.first_workgroup = before - request.workgroup_count;
                }
            }
        }
    }
    executor_warm(executor, &request, limit * 2);
    if (quick && total > (double)limit) {
        package_fill_in_kind(package, total / (double)limit);
    }
    if (plan->cut == CUT_NONE || total <= (double)limit) {
        package_drop_copies(package); /* the whole kernel was replayed: what is run follows it */
        if (plan->run.first_workgroup > 0) { /* and what comes before the window */
            request.workgroup_count = plan->run.first_workgroup;
            executor_warm(executor, &request, limit * 2);
        }
    }
}

static void warm_predecessor(struct package *package, const struct wave_program *program)
{
    uint64_t first = program->predecessor.address >> package->line_shift;
    uint64_t lines = program->predecessor_bytes >> package->line_shift;
    uint64_t limit = warm_requests(package);
    uint64_t from = lines > limit ? lines - limit : 0;
    uint32_t all = (1u << package->sectors) - 1;
    for (uint64_t l = from; l < lines; l++) {
        struct line_place place = package_place(package, first + l);
        package_write(package, first + l, &place, all, 0, (uint32_t)(l % package->groups), 0, NULL);
    }
}

static void prepare_caches(struct executor *executor, struct package *package, const struct wave_program *program, const struct plan *plan,
                           const struct chip_options *options, double share)
{
    package_reset(package);
    switch (program->initial_cache) {
    case WAVE_CACHE_STATE_OWN:
        warm_own(executor, package, program, plan, options, share);
        break;
    case WAVE_CACHE_STATE_PREDECESSOR:
        warm_predecessor(package, program);
        break;
    case WAVE_CACHE_STATE_FLUSHED:
        package_fill_dirty(package);
        break;
    case WAVE_CACHE_STATE_CLEAN:
        break;
    }
    package_reset_timing(package);
}

/* Ticks per unit between the 40% and 85% marks; `error`: relative standard error over the marks' intervals. */
static double steady_ticks_per_unit(const struct run_outcome *outcome, double *error)
{
    *error = 0;
    double first = 0;
    double last = 0;
    uint64_t from = 0;
    uint64_t to = 0;
    int reached = 0;
    for (int i = 0; i < RUN_MARKS && outcome->mark[i] > 0; i++) {
        reached = i;
    }
    if (reached < 1) {
        return outcome->units > 0 ? (double)outcome->end / (double)outcome->units : 0;
    }
    first = (double)outcome->mark[0];
    last = (double)outcome->mark[reached];
    from = outcome->mark_units[0];
    to = outcome->mark_units[reached];
    if (to <= from || last <= first) {
        return (double)outcome->end / (double)outcome->units;
    }
    double rate = (last - first) / (double)(to - from);
    double sum = 0;
    for (int i = 0; i < reached; i++) {
        double units = (double)(outcome->mark_units[i + 1] - outcome->mark_units[i]);
        double local = units > 0 ? (double)(outcome->mark[i + 1] - outcome->mark[i]) / units : rate;
        sum += (local / rate - 1) * (local / rate - 1);
    }
    *error = reached > 1 ? sqrt(sum / (reached - 1.0) / reached) : 0;
    return rate;
}

/* The executor plans and warms caches for either engine; `reference`, where it is not NULL, runs what is timed. */
struct engine {
    struct executor *executor;
    struct reference *reference;
};

static void engine_run(const struct engine *engine, const struct run_request *request, struct run_outcome *outcome)
{
    if (engine->reference != NULL) {
        reference_run(engine->reference, request, outcome);
    } else {
        executor_run(engine->executor, request, outcome);
    }
}

/* The time of one wave far longer than the others, alone on the package: its chain may bound the kernel. */
static sim_ticks longest_wave_time(const struct engine *engine, struct package *package, const struct wave_program *program, double share)
{
    struct run_request request = { .first_workgroup = program->longest_wave_workgroup, .workgroup_count = 1, .unit_share = share,
                                   .window = { 0, UINT64_MAX }, .one_wave_only = true, .one_wave = program->longest_wave_index };
    uint64_t trips = program->longest_wave_trips;
    uint64_t half = trips < LONGEST_WAVE_TRIPS ? trips / 2 : LONGEST_WAVE_TRIPS / 2;
    struct run_outcome short_run;
    struct run_outcome long_run;
    request.window.trip_limit = half > 0 ? half : 1;
    package_reset_timing(package);
    engine_run(engine, &request, &short_run);
    request.window.trip_limit = 2 * request.window.trip_limit;
    package_reset_timing(package);
    engine_run(engine, &request, &long_run);
    double per_trip = (double)(long_run.end - short_run.end) / (double)request.window.trip_limit * 2;
    double rest = trips > request.window.trip_limit ? (double)(trips - request.window.trip_limit) : 0;
    return long_run.end + (sim_ticks)(per_trip * rest);
}

/* A server that is always busy is the limiter, however long its requests wait for other reasons: latency behind a full
 * queue is hidden. The less busy the busiest is, the more counts what waves wait for. Fourth power: 0.95 busy -> 0.81 of the
 * stack, 0.6 -> 0.13. */
static void fill_stack(struct kernel_result *result, const struct run_outcome *outcome)
{
    double sum = 0;
    int busiest = 0;
    for (int s = 0; s < KERNEL_STAGES; s++) {
        sum += outcome->blame[s];
        if (outcome->utilisation[s] > outcome->utilisation[busiest]) {
            busiest = s;
        }
    }
    double u = outcome->utilisation[busiest];
    double bound = u * u * u * u;
    for (int s = 0; s < KERNEL_STAGES; s++) {
        result->stack[s] = sum > 0 ? (1 - bound) * outcome->blame[s] / sum : 0;
    }
    result->stack[sum > 0 ? busiest : KERNEL_STAGE_DISPATCH] += sum > 0 ? bound : 1;
    for (int s = 0; s < KERNEL_STAGES; s++) {
        if (result->stack[s] > result->stack[result->limiter]) {
            result->limiter = (enum kernel_stage)s;
        }
    }
}

static void fill_result(struct kernel_result *result, const struct package *package, const struct wave_program *program,
                        const struct occupancy *occupancy, const struct run_outcome *outcome, double ticks, double scale, double share)
{
    const struct package_traffic *traffic = &package->traffic;
    memset(result, 0, sizeof *result);
    result->duration_us = ticks * 1e-9;
    fill_stack(result, outcome);
    result->bytes[KERNEL_LEVEL_L1] = (double)traffic->l1_bytes * scale;
    result->bytes[KERNEL_LEVEL_L2] = (double)traffic->l2_bytes * scale;
    result->bytes[KERNEL_LEVEL_DIE_LINK] = (double)traffic->link_bytes * scale;
    result->bytes[KERNEL_LEVEL_MALL] = (double)traffic->mall_bytes * scale;
    result->hbm_read_bytes = (double)traffic->hbm_read_bytes * scale;
    result->hbm_write_bytes = (double)traffic->hbm_write_bytes * scale;
    result->bytes[KERNEL_LEVEL_HBM] = result->hbm_read_bytes + result->hbm_write_bytes;
    result->l1_hit_rate = traffic->l1_requests > 0 ? (double)traffic->l1_hits / (double)traffic->l1_requests : 0;
    result->l2_hit_rate = traffic->l2_requests > 0 ? (double)traffic->l2_hits / (double)traffic->l2_requests : 0;
    result->l2_near_hit_rate = traffic->near_loads > 0 ? (double)traffic->near_hits / (double)traffic->near_loads : 0;
    result->l2_far_hit_rate = traffic->far_requests > 0 ? (double)traffic->far_hits / (double)traffic->far_requests : 0;
    result->mall_hit_rate = traffic->mall_requests > 0 ? (double)traffic->mall_hits / (double)traffic->mall_requests : 0;
    result->waves_per_unit = occupancy->waves_per_unit;
    result->lanes = outcome->lanes_ops > 0 ? outcome->lanes_sum / outcome->lanes_ops : 0;
    double units_busy = (double)program->workgroups / occupancy->workgroups_per_unit;
    result->rounds = units_busy / package->units;
    result->unit_share = units_busy < package->units * share ? units_busy / package->units : share;
    if (program->workgroups < package->units) {
        result->unit_share = (double)program->workgroups / package->units;
    }
    double run_ticks = outcome->end > 0 ? (double)outcome->end : 1;
    result->hbm_share = (double)traffic->hbm_busy / run_ticks / package->channels;
    result->matrix_share = (double)traffic->matrix_busy / run_ticks / package->units / package->profile->unit_simds;
    result->atomic_count = ((double)traffic->atomic_lanes + (double)outcome->lds_atomics) * scale;
    result->atomic_hottest_line_ops = (double)traffic->hottest_block_lanes * scale;
    result->atomic_executed_at = traffic->atomic_lanes > 0 ? package->atomics_at_memory ? "memory_side" : "l2"
                                 : outcome->lds_atomics > 0 ? "lds" : "none";
    result->flops = program->flops;
    result->clock_mhz = package->core_mhz;
    result->simulated_line_requests = traffic->l1_requests;
    result->simulated_wave_ops = outcome->wave_ops;
}

static double run_plan(const struct engine *engine, struct package *package, const struct wave_program *program, const struct plan *plan,
                       struct run_outcome *outcome, double *error)
{
    engine_run(engine, &plan->run, outcome);
    double ticks = (double)outcome->end;
    *error = 0;
    if (plan->cut == CUT_NONE) {
        return ticks;
    }
    double per_unit = steady_ticks_per_unit(outcome, error);
    if (plan->cut == CUT_WORKGROUPS) {
        double rest = (double)program->work_units_total - (double)outcome->units;
        return ticks + (rest > 0 ? rest * per_unit : 0);
    }
    double rest = plan->units_of_run_full - (double)outcome->units;
    double round = ticks + (rest > 0 ? rest * per_unit : 0);
    double last = 0;
    if (plan->remainder > 0) {
        struct run_request request = plan->run;
        struct package_traffic kept = package->traffic;
        double share = (double)plan->remainder / (double)plan->run.workgroup_count;
        request.first_workgroup = program->workgroups - plan->remainder;
        request.workgroup_count = plan->remainder;
        request.units_expected = (uint64_t)((double)plan->run.units_expected * share);
        struct run_outcome partial;
        package_reset_timing(package);
        engine_run(engine, &request, &partial);
        package->traffic = kept;
        double ignored = 0;
        double partial_rest = plan->units_of_run_full * share - (double)partial.units;
        last = (double)partial.end + (partial_rest > 0 ? partial_rest * steady_ticks_per_unit(&partial, &ignored) : 0);
    }
    return round * plan->rounds + last;
}

static void fill_power(struct kernel_result *result, const struct chip_profile *profile, const struct wave_program *program)
{
    struct power_activity activity = power_activity_of(program, result, (uint32_t)profile->unit_lanes);
    struct power_energy energy = power_energy_of(profile, &activity);
    result->core_uj = energy.core_uj;
    result->memory_uj = energy.memory_uj;
    result->watts = profile->power_idle;
    if (result->duration_us > 0) {
        result->watts += (energy.core_uj * power_core_scale(profile, result->clock_mhz) + energy.memory_uj) / result->duration_us;
    }
}

static enum sim_status run_engine(const struct chip_profile *profile, const struct wave_program *program, const struct chip_options *options,
                                struct kernel_result *result, struct sim_error *error)
{
    struct occupancy occupancy;
    enum sim_status status = occupancy_of(profile, program, &occupancy, error);
    if (status != SIM_OK) {
        return status;
    }
    double mhz = options->core_mhz > 0 ? options->core_mhz : profile->clock_core_max;
    double share = options->available_unit_share > 0 ? options->available_unit_share : 1;
    struct package *package = package_create(profile, mhz);
    struct executor *executor = executor_create(package, program, &occupancy);
    struct engine engine = { executor, NULL };
    if (options->engine == CHIP_ENGINE_REFERENCE) {
        engine.reference = reference_create(package, program, &occupancy);
    }
    struct plan plan = make_plan(executor, package, program, &occupancy, options, share);
    prepare_caches(executor, package, program, &plan, options, share);
    struct run_outcome outcome;
    double sampling_error = 0;
    double ticks = run_plan(&engine, package, program, &plan, &outcome, &sampling_error);
    double scale = outcome.units > 0 ? (double)program->work_units_total / (double)outcome.units : 1;
    if (plan.cut == CUT_NONE) {
        scale = 1;
    }
    if (package->is_private) {
        /* a kernel's end is a release: what it left dirty in private L2s goes to the memory side */
        double dirty = (double)package_dirty_bytes(package);
        double rate = profile->has_mall ? profile->mall_rate : profile->hbm_channel_rate * profile->hbm_channels;
        if (program->initial_cache != WAVE_CACHE_STATE_FLUSHED) {
            ticks += dirty / rate * SIM_TICKS_PER_NS;
            outcome.blame[KERNEL_STAGE_MALL] += dirty / rate * SIM_TICKS_PER_NS * outcome.resident_waves;
        }
    }
    fill_result(result, package, program, &occupancy, &outcome, ticks, scale, share);
    result->sampled_fraction = plan.cut == CUT_NONE ? 1 : 1 / scale;
    result->sampling_error = sampling_error * (1 - result->sampled_fraction);
    if (plan.cut != CUT_NONE && program->longest_wave_trips > 0) {
        struct package_traffic kept = package->traffic;
        double chain = (double)longest_wave_time(&engine, package, program, share);
        package->traffic = kept;
        if (chain > ticks) {
            result->duration_us = chain * 1e-9;
            for (int s = 0; s < KERNEL_STAGES; s++) {
                result->stack[s] *= ticks / chain;
            }
            result->stack[KERNEL_STAGE_LATENCY] += 1 - ticks / chain;
            result->limiter = KERNEL_STAGE_LATENCY;
        }
    }
    fill_power(result, profile, program);
    reference_destroy(engine.reference);
    executor_destroy(executor);
    package_destroy(package);
    return SIM_OK;
}

enum sim_status chip_run(const struct chip_profile *profile, const struct wave_program *program, const struct chip_options *options,
                         struct kernel_result *result, struct sim_error *error)
{
    SIM_ASSERT(program->workgroups > 0 && program->waves_per_workgroup > 0, "%s: %llu workgroups of %u waves", program->name,
               (unsigned long long)program->workgroups, program->waves_per_workgroup);
    SIM_ASSERT(program->work_units_total > 0, "%s: no work units", program->name);
    return run_engine(profile, program, options, result, error);
}
