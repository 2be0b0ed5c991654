/* One kernel on one package: occupancy, the initial cache state, what part of the kernel to simulate, and the result.
 * Sampling. A kernel whose requests exceed the window is cut in one of three ways:
 *   flow:       of a grid of many rounds, a stretch in the middle: its first resident workgroups are met spread over their
 *               lives, the run stops after the window, the rest follows at its rate; the end of the last ones is added. Grids
 *               whose workgroups are unlike in length run so, too, for some rounds from a common start;
 *   workgroups: the first N of the grid (or N spread over it, when they differ) run to their end, the rest is extrapolated at
 *               the rate between 40% and 85% of the window, counted in loop trips and not in finished workgroups;
 *   trips:      when one round of resident workgroups already exceeds the window, each wave runs its first trips only, and its
 *               last where its program can go on to them, the round is extended at that rate, and rounds are counted (wave
 *               quantisation).
 * Ramp and tail are simulated once. Caches are warmed functionally first, with the kernel's own address stream. */
#include "sim/chiplet/chip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chiplet/executor_internal.h"
#include "sim/chiplet/grid_work.h"
#include "sim/chiplet/part_internal.h"
#include "sim/chiplet/power.h"
#include "sim/chiplet/reference_internal.h"

#define QUICK_WARMING 4 /* requests replayed before a window, for each of the window: touching tags costs a fifth of timing them */
#define ROUNDS_UNLIKE 12   /* of workgroups of unlike length: the long ones of the first round outlast the next */
#define ROUNDS_UNLIKE_QUICK 6
#define ROUNDS_LEAST 3     /* of resident workgroups: the first fills the machine, the last keeps it full behind the others */
#define ROUNDS_MOST 5
#define ROUNDS_REQUESTS 3e6 /* may go into them, by the default window */
#define ROUNDS_WINDOWS 12   /* by a smaller one so many windows, up to */
#define ROUNDS_QUICK 1.2e6
#define ROUNDS_MORE 4       /* into more than the least of them, where those are small */
#define UNLIKE_ERROR 0.035 /* of their mean, one standard error: (variation / this)^2 of them are run */
#define SAMPLE_MOST 0.7    /* of a grid: beyond, all of it is run */
#define SAMPLE_MOST_SMALL 0.25 /* ... of one that fits in the default window */
#define FLOW_ROUNDS 4      /* from which on a grid is a flow and not a few volleys */
#define FLOW_STEPS 8       /* work units of a wave, to be met at one of them */
#define FLOW_SHARE 0.25    /* of a round, simulated at least */
#define SETTLING 2.5       /* times what can be under way */
#define SENT_MATTERS 0.2   /* share of stores and atomics from which on those under way count too */
#define TRIPS_LEAST 8
#define TRIPS_LAST 3
#define TRIPS_BEHIND 1.1   /* times the trips of the mean, of the wave that is farthest */
#define HITS_MATTER 0.1    /* of the fetches, expected to be hits once the caches are full */
#define DEFAULT_WINDOW_REQUESTS 1500000u
#define LONGEST_WAVE_TRIPS 2000u /* of a wave that may bound the kernel alone: simulated, then scaled */

enum cut { CUT_NONE, CUT_FLOW, CUT_WORKGROUPS, CUT_TRIPS };

struct plan {
    enum cut cut;
    struct run_request run;   /* what is simulated */
    double rounds;            /* CUT_TRIPS: full rounds of resident workgroups */
    uint64_t remainder;       /* CUT_TRIPS: workgroups of the last, partial round */
    double units_of_run_full; /* units of the simulated workgroups without the trip limit */
    double requests_per_unit;
    uint64_t resident;        /* workgroups */
    struct grid_work work;    /* of the grid, by dispatch group; of no dies where nothing is cut */
    uint32_t rounds_counted;  /* CUT_WORKGROUPS: the pace is that of so many workgroups of each slot, after its first; 0: by marks */
};

static struct run_request whole(const struct wave_program *program, double share)
{
    return (struct run_request){ .workgroup_count = program->workgroups, .window = { .trip_limit = UINT64_MAX }, .unit_share = share };
}

/* Where a stretch of `taken` workgroups stands for the grid: past the middle, and late in a stretch of like data if there are such. */
static uint64_t middle_of_grid(const struct wave_program *program, double taken)
{
    double all = (double)program->workgroups;
    double period = (double)program->workgroups_period;
    if (period > taken && period < all) {
        return (uint64_t)(floor(0.6 * all / period) * period + 0.8 * (period - taken));
    }
    return (uint64_t)(0.6 * fmax(all - taken, 0));
}

/* What the choice of a cut rests on, in work units where nothing else is said. */
struct stretch_sizes {
    double window;
    double per_workgroup;
    uint64_t round;    /* resident workgroups, or the grid's when they are fewer */
    double of_round;
    double rounds;     /* in the grid */
    double under_way;  /* may be: pace shows only once as much has come back */
    double rounds_run; /* when whole rounds are timed */
    bool is_in_rounds; /* and that is affordable */
    bool is_quick;
    bool is_small; /* all of the grid fits in the default window */
};

static struct stretch_sizes stretch_sizes_of(const struct package *package, const struct wave_program *program, const struct plan *plan,
                                             struct request_mix mix, double window_requests, double usable_units)
{
    /* an operation without requests costs the host about as much as one request */
    double cost_per_unit = fmax(mix.per_unit, 0.25);
    struct stretch_sizes sizes = { .window = window_requests / cost_per_unit,
                                   .per_workgroup = (double)program->work_units_total / (double)program->workgroups,
                                   .round = program->workgroups < plan->resident ? program->workgroups : plan->resident };
    sizes.of_round = (double)sizes.round * sizes.per_workgroup;
    sizes.rounds = (double)program->workgroups / (double)sizes.round;
    double under_way = package->profile->l1_mshr + (mix.sent_share > SENT_MATTERS ? package->profile->l1_store_credits : 0);
    sizes.under_way = usable_units * under_way / cost_per_unit;
    sizes.is_quick = window_requests < DEFAULT_WINDOW_REQUESTS;
    sizes.is_small = (double)program->work_units_total * cost_per_unit <= DEFAULT_WINDOW_REQUESTS;
    double affordable = (sizes.is_quick ? fmin(ROUNDS_WINDOWS * window_requests, ROUNDS_QUICK) : ROUNDS_REQUESTS) / cost_per_unit;
    if (mix.atomic_share > SENT_MATTERS) {
        affordable = ROUNDS_REQUESTS / cost_per_unit; /* queues at hot lines take lives to form */
    }
    sizes.is_in_rounds = sizes.rounds >= ROUNDS_LEAST && ROUNDS_LEAST * sizes.of_round <= affordable;
    double more = sizes.is_quick ? fmin(ROUNDS_MORE * sizes.window, affordable) : affordable;
    sizes.rounds_run = fmin(fmax(floor(more / sizes.of_round), ROUNDS_LEAST), ROUNDS_MOST);
    return sizes;
}

/* A run from the middle of the grid that stops after `run` work units, with workgroups left to start. */
static void cut_from_middle(struct plan *plan, const struct wave_program *program, const struct stretch_sizes *sizes, double run)
{
    plan->cut = CUT_FLOW;
    plan->run.stops_at_marks = true;
    plan->run.units_expected = (uint64_t)(run / MARKS_END); /* the last mark */
    double taken = ceil(run / MARKS_END / sizes->per_workgroup) + (double)sizes->round;
    plan->run.first_workgroup = middle_of_grid(program, taken);
    plan->run.workgroup_count = program->workgroups - plan->run.first_workgroup;
}

static void cut_flow(struct plan *plan, const struct wave_program *program, const struct stretch_sizes *sizes)
{
    plan->run.in_flow = true;
    cut_from_middle(plan, program, sizes, fmax(fmax(sizes->window, FLOW_SHARE * sizes->of_round), SETTLING * sizes->under_way));
}

/* So many of them that their mean is known, with workgroups left to start on every die; or all of a grid not much longer than that. */
static void cut_unlike(struct plan *plan, const struct wave_program *program, const struct stretch_sizes *sizes, bool is_flow)
{
    double deviations = plan->work.variation / UNLIKE_ERROR;
    double run = fmax(sizes->window, deviations * deviations * sizes->per_workgroup);
    run = fmax(run, (is_flow ? 1 : sizes->rounds_run) * sizes->of_round);
    double most = sizes->is_small ? SAMPLE_MOST_SMALL : SAMPLE_MOST;
    if (run + sizes->of_round < most * (double)program->work_units_total) {
        plan->run.in_flow = is_flow;
        cut_from_middle(plan, program, sizes, run);
    } else {
        plan->run.units_expected = program->work_units_total;
    }
}

static void cut_trips(struct plan *plan, const struct wave_program *program, const struct stretch_sizes *sizes)
{
    double trip_units = sizes->per_workgroup / (double)program->trips_per_wave;
    double trips = fmax(sizes->window, SETTLING * sizes->under_way) / ((double)sizes->round * trip_units);
    uint64_t limit = trips < TRIPS_LEAST ? TRIPS_LEAST : (uint64_t)ceil(trips);
    if (program->trips_period > 1) { /* whole periods between the first and the last mark, and some trips for waves that are behind */
        double first = fmax(MARKS_FIRST * trips, TRIPS_LEAST);
        double span = fmax(ceil(MARKS_SPAN * trips / (double)program->trips_period), 1) * (double)program->trips_period;
        limit = (uint64_t)ceil((first + span) * TRIPS_BEHIND) + 1;
        plan->run.marks_first = (uint32_t)(1000 * first / (double)limit);
        plan->run.marks_span = (uint32_t)(1000 * span / (double)limit);
    }
    if ((double)limit >= SAMPLE_MOST * (double)program->trips_per_wave && sizes->rounds <= 1) {
        plan->run.units_expected = program->work_units_total;
        return;
    }
    if ((double)limit >= SAMPLE_MOST * (double)program->trips_per_wave) {
        limit = program->trips_per_wave;
        plan->run.marks_first = plan->run.marks_span = 0;
    }
    plan->cut = CUT_TRIPS;
    plan->run.workgroup_count = sizes->round;
    if (program->can_leave_out_trips && program->trips_period <= 1) {
        plan->run.window.left_out_first = limit - TRIPS_LAST;
        plan->run.window.left_out = program->trips_per_wave - limit;
    } else {
        plan->run.window.trip_limit = limit;
    }
    plan->run.units_expected = (uint64_t)((double)sizes->round * trip_units * (double)limit);
    plan->units_of_run_full = sizes->of_round;
    plan->rounds = floor(sizes->rounds);
    plan->remainder = program->workgroups % sizes->round;
}

/* `count` workgroups spread over the grid, or over one of the like stretches that it repeats; or several of those whole. */
static void spread_workgroups(struct plan *plan, const struct wave_program *program, double count)
{
    bool repeats = program->workgroups_period > 0 && program->workgroups_period < program->workgroups;
    uint64_t period = repeats ? program->workgroups_period : program->workgroups;
    if (count > (double)period) {
        count = ceil(count / (double)period) * (double)period;
        count = count < (double)program->workgroups ? count : (double)program->workgroups;
    } else {
        plan->run.sample_of = period;
    }
    plan->run.workgroup_count = (uint64_t)count;
    plan->run.marks_by_dispatch = true;
}

static void cut_workgroups(struct plan *plan, const struct wave_program *program, const struct stretch_sizes *sizes, bool may_stop)
{
    double count = ceil(fmax(sizes->window, sizes->rounds_run * sizes->of_round) / sizes->per_workgroup);
    if (program->workgroups_differ) {
        count = fmax(count, (sizes->is_quick ? ROUNDS_UNLIKE_QUICK : ROUNDS_UNLIKE) * (double)sizes->round);
    }
    if (count >= (double)program->workgroups) {
        plan->run.units_expected = program->work_units_total;
        return;
    }
    plan->cut = CUT_WORKGROUPS;
    plan->run.workgroup_count = (uint64_t)count;
    if (program->workgroups_differ) {
        spread_workgroups(plan, program, count);
    } else {
        plan->rounds_counted = sizes->window <= ROUNDS_MOST * sizes->of_round ? (uint32_t)sizes->rounds_run - 2 : 0;
        may_stop = may_stop && plan->rounds_counted > 0 && sizes->rounds >= 2 * sizes->rounds_run;
        plan->run.rounds_wanted = may_stop ? plan->rounds_counted + 1 : 0;
        /* from the middle of the grid: its neighbours before it warm the caches, as they do in the whole run */
        plan->run.first_workgroup = middle_of_grid(program, count);
    }
    plan->units_of_run_full = (double)program->work_units_total * (double)plan->run.workgroup_count / (double)program->workgroups;
    plan->run.units_expected = (uint64_t)plan->units_of_run_full;
}

static struct plan make_plan(struct executor *executor, const struct package *package, const struct wave_program *program,
                             const struct occupancy *occupancy, const struct chip_options *options, double share)
{
    struct plan plan = { .cut = CUT_NONE, .run = whole(program, share), .rounds = 1 };
    uint32_t usable = (uint32_t)(package->units * share + 0.5);
    plan.resident = (uint64_t)(usable > 0 ? usable : 1) * occupancy->workgroups_per_unit;
    struct request_mix mix = executor_request_mix(executor, &plan.run, 64);
    plan.requests_per_unit = mix.per_unit;
    plan.units_of_run_full = (double)program->work_units_total;
    double window = options->window_requests > 0 ? (double)options->window_requests : DEFAULT_WINDOW_REQUESTS;
    struct stretch_sizes sizes = stretch_sizes_of(package, program, &plan, mix, window, usable);
    if (options->exact || (double)program->work_units_total <= sizes.window * 1.25) {
        plan.run.units_expected = program->work_units_total;
        return plan;
    }
    bool is_by_group = package->profile->dispatch_order == CHIP_DISPATCH_ROUND_ROBIN_GROUPS && package->groups <= GRID_DIES_MAX;
    plan.work = grid_work_of(program, is_by_group ? package->groups : 1);
    bool is_fast = options->engine == CHIP_ENGINE_FAST;
    bool has_steps = sizes.per_workgroup >= FLOW_STEPS * program->waves_per_workgroup;
    /* waves that loop over the grid's stride sweep memory side by side: met apart, they would not */
    bool is_apart = program->trips_per_wave <= 1 || mix.atomic_share > SENT_MATTERS;
    bool can_cut = !sizes.is_in_rounds && !program->workgroups_differ;
    bool is_flow = can_cut && has_steps && is_apart && sizes.rounds >= FLOW_ROUNDS && is_fast;
    if (is_fast && !program->workgroups_differ && plan.work.variation > GRID_UNLIKE) {
        cut_unlike(&plan, program, &sizes, is_flow);
    } else if (is_flow) {
        cut_flow(&plan, program, &sizes);
    } else if (can_cut && program->trips_per_wave > 1 && sizes.of_round * ROUNDS_LEAST > sizes.window) {
        cut_trips(&plan, program, &sizes);
    } else {
        cut_workgroups(&plan, program, &sizes, is_fast);
    }
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

/* Up to `count` workgroups that come before workgroup `before`. */
static struct run_request stretch_before(const struct wave_program *program, uint64_t before, uint64_t count, double share)
{
    struct run_request request = whole(program, share);
    request.workgroup_count = count < before ? count : before;
    request.first_workgroup = before - request.workgroup_count;
    return request;
}

/* So many workgroups ask for about `limit` lines of the kernel's `total`. */
static uint64_t workgroups_of_requests(const struct wave_program *program, double total, uint64_t limit)
{
    return (uint64_t)ceil((double)program->workgroups * (double)limit / total);
}

/* The part of the kernel whose replay is about `limit` requests: what comes before the window, or the end. */
static struct run_request replay_request(const struct wave_program *program, const struct plan *plan, double total, uint64_t limit,
                                         double share)
{
    struct run_request request = whole(program, share);
    if (total <= (double)limit) {
        return request;
    }
    if (plan->cut == CUT_TRIPS && program->workgroups <= plan->resident) {
        uint64_t trips = (uint64_t)ceil((double)program->trips_per_wave * (double)limit / total);
        if (trips < program->trips_per_wave) {
            request.window.trip_first = program->trips_per_wave - trips;
        }
        return request;
    }
    uint64_t count = workgroups_of_requests(program, total, limit);
    if (count >= program->workgroups) {
        return request;
    }
    if (program->workgroups_differ) {
        request.sample_of = plan->run.sample_of;
        request.workgroup_count = request.sample_of > 0 && count > request.sample_of ? request.sample_of : count;
        return request;
    }
    return stretch_before(program, plan->cut == CUT_WORKGROUPS || plan->cut == CUT_FLOW ? plan->run.first_workgroup : program->workgroups,
                          count, share);
}

/* Replay `request`, about `limit` line requests of the kernel's `total`, in two halves. Does it bring new lines all along, and more
 * of them in all than the caches hold? Then the caches' later contents follow from these in kind. Lines that the second half asked
 * memory for less often than the first are lines that come back. */
static bool is_stream_after(struct executor *executor, struct package *package, const struct wave_program *program, struct run_request request,
                            uint64_t limit, double total)
{
    struct run_request half[2] = { request, request };
    bool by_trips = request.window.trip_first > 0;
    if (by_trips) {
        uint64_t middle = (request.window.trip_first + program->trips_per_wave) / 2;
        half[0].window.trip_limit = middle;
        half[1].window.trip_first = middle;
    } else if (request.sample_of == 0 && request.workgroup_count > 1) {
        half[0].workgroup_count = request.workgroup_count / 2;
        half[1].first_workgroup = request.first_workgroup + half[0].workgroup_count;
        half[1].workgroup_count = request.workgroup_count - half[0].workgroup_count;
    } else {
        executor_warm(executor, &request, limit * 2);
        return true;
    }
    double fetches_a_request[2];
    uint64_t fetches = 0;
    for (int h = 0; h < 2; h++) {
        fetches = package->fetches;
        uint64_t requests = executor_warm(executor, &half[h], limit);
        fetches = package->fetches - fetches;
        fetches_a_request[h] = requests > 0 ? (double)fetches / (double)requests : 0;
    }
    if (fetches_a_request[1] * total < (double)package_line_places(package)) {
        return false; /* the next launch finds all of them */
    }
    double fewer = fetches_a_request[0] > 0 ? 1 - fetches_a_request[1] / fetches_a_request[0] : 0;
    return fewer * (double)package_line_places(package) <= HITS_MATTER * (double)fetches;
}

/* Replay the end of the kernel's own address stream: what a repeat finds in the caches. A quick look replays in proportion to its
 * window; a stream that kept bringing new lines meanwhile is continued in kind, one that comes back to its lines is replayed on. */
static void warm_own(struct executor *executor, struct package *package, const struct wave_program *program, const struct plan *plan,
                     const struct chip_options *options, double share)
{
    double total = (double)program->work_units_total * plan->requests_per_unit;
    uint64_t limit = warm_requests(package);
    uint64_t quick = QUICK_WARMING * options->window_requests;
    bool is_quick = quick > 0 && quick < limit && total > (double)quick;
    if (is_quick) {
        struct run_request request = replay_request(program, plan, total, quick, share);
        if (is_stream_after(executor, package, program, request, quick, total)) {
            package_fill_in_kind(package, total / (double)quick);
            return;
        }
        package_reset(package);
    }
    struct run_request request = replay_request(program, plan, total, limit, share);
    uint64_t held = workgroups_of_requests(program, total, limit); /* by the caches */
    if (request.first_workgroup == 0 && request.workgroup_count < held && held < program->workgroups && request.sample_of == 0) {
        /* fewer come before the window: the end of the launch before this one is still in the caches */
        struct run_request earlier = stretch_before(program, program->workgroups, held - request.workgroup_count, share);
        executor_warm(executor, &earlier, limit * 2);
    }
    executor_warm(executor, &request, limit * 2);
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

/* Of a package as it was made. */
static void prepare_caches(struct executor *executor, struct package *package, const struct wave_program *program, const struct plan *plan,
                           const struct chip_options *options, double share)
{
    package_reset_timing(package);
    switch (program->initial_cache) {
    case WAVE_CACHE_STATE_OWN:
        warm_own(executor, package, program, plan, options, share);
        break;
    case WAVE_CACHE_STATE_PREDECESSOR:
        warm_predecessor(package, program);
        if (plan->cut != CUT_NONE && plan->run.first_workgroup > 0) { /* what comes before the window has pushed some of it out */
            double requests_a_workgroup = (double)program->work_units_total * plan->requests_per_unit / (double)program->workgroups;
            uint64_t count = (uint64_t)ceil((double)warm_requests(package) / fmax(requests_a_workgroup, 1));
            struct run_request before = stretch_before(program, plan->run.first_workgroup, count, share);
            executor_warm(executor, &before, UINT64_MAX);
        }
        break;
    case WAVE_CACHE_STATE_FLUSHED:
        package_fill_dirty(package);
        if (plan->cut != CUT_NONE && plan->cut != CUT_TRIPS && package->mall != NULL) {
            /* behind small L2s the long transient is the memory side's: a window in the middle meets that one */
            uint64_t lines = (uint64_t)(package->profile->l2_capacity * 1048576.0) / package->line_bytes;
            double total = (double)program->work_units_total * plan->requests_per_unit;
            struct run_request request = replay_request(program, plan, total, lines, share);
            executor_warm(executor, &request, lines * 2);
        }
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

/* A run beside the kernel's own, from the caches as they are: its traffic is not the kernel's. */
static void run_aside(const struct engine *engine, struct package *package, const struct run_request *request, struct run_outcome *outcome)
{
    struct package_traffic kept = package->traffic;
    package_reset_timing(package);
    engine_run(engine, request, outcome);
    package->traffic = kept;
}

/* The time of one wave far longer than the others, alone on the package: its chain may bound the kernel. */
static sim_ticks longest_wave_time(const struct engine *engine, struct package *package, const struct wave_program *program, double share)
{
    struct run_request request = { .first_workgroup = program->longest_wave_workgroup, .workgroup_count = 1, .unit_share = share,
                                   .window = { .trip_limit = UINT64_MAX }, .one_wave_only = true, .one_wave = program->longest_wave_index };
    uint64_t trips = program->longest_wave_trips;
    uint64_t half = trips < LONGEST_WAVE_TRIPS ? trips / 2 : LONGEST_WAVE_TRIPS / 2;
    struct run_outcome short_run;
    struct run_outcome long_run;
    request.window.trip_limit = half > 0 ? half : 1;
    run_aside(engine, package, &request, &short_run);
    request.window.trip_limit = 2 * request.window.trip_limit;
    run_aside(engine, package, &request, &long_run);
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

/* Of the workgroups that are neither the first of their slot nor among the last; ticks, 0 when too few ended. `error`: how far the
 * rounds differ, which is most where the first does. A whole life has the reading and the writing of a workgroup in it, so the
 * rate that follows (as many lives at a time as are resident) holds for grids whose workgroups move in step, too. */
static double mean_life(const struct plan *plan, const struct run_outcome *outcome, double *error)
{
    double sum = 0;
    uint64_t count = 0;
    for (uint32_t k = 1; k <= plan->rounds_counted; k++) {
        sum += outcome->round_life[k];
        count += outcome->round_count[k];
    }
    if (count < plan->resident * plan->rounds_counted * 9 / 10) {
        return 0;
    }
    double mean = sum / (double)count;
    double worst = 0;
    for (uint32_t k = 0; k <= plan->rounds_counted; k++) {
        double life = outcome->round_life[k] / (double)outcome->round_count[k];
        worst = fmax(worst, fabs(life / mean - 1));
    }
    *error = 0.25 * worst;
    return mean;
}

/* Time of one workgroup with the package to itself, from its present caches. */
static double alone_ticks(const struct engine *engine, struct package *package, uint64_t workgroup)
{
    struct run_request request = { .first_workgroup = workgroup, .workgroup_count = 1, .unit_share = 1, .window = { .trip_limit = UINT64_MAX } };
    struct run_outcome alone;
    run_aside(engine, package, &request, &alone);
    return (double)alone.end;
}

/* What the end of a flow adds to its work at the full rate. When no workgroup is left to start, the resident ones are spread over
 * their lives of `round` ticks: the flow keeps its rate until so few are left that each runs as if alone, in `alone` ticks a
 * workgroup. With r = alone / round, that takes round (1 + r^2) / 2 for half a round of work. */
static double flow_end(const struct engine *engine, struct package *package, const struct wave_program *program, double round)
{
    double alone = alone_ticks(engine, package, program->workgroups - 1);
    double r = alone < round ? alone / round : 1;
    return 0.5 * round * r * r;
}

/* How many times as fast as `per_unit`, the pace with all dies at work, the die with the greatest share runs by itself. */
static double die_alone(const struct engine *engine, struct package *package, const struct plan *plan, double per_unit)
{
    uint32_t most = 0;
    for (uint32_t d = 1; d < plan->work.dies; d++) {
        most = plan->work.share[d] > plan->work.share[most] ? d : most;
    }
    if (plan->work.share[most] <= 1) {
        return 1;
    }
    struct run_request request = plan->run;
    struct run_outcome outcome;
    request.one_group_only = true;
    request.one_group = most;
    request.units_expected /= plan->work.dies;
    run_aside(engine, package, &request, &outcome);
    double ignored;
    double alone = steady_ticks_per_unit(&outcome, &ignored) / plan->work.dies;
    return alone > 0 ? fmax(per_unit / alone, 1) : 1;
}

/* Of a grid whose workgroups are unlike in length: its time over that of all its work at the pace `per_unit`. */
static double unlike_stretch(const struct engine *engine, struct package *package, const struct plan *plan, double per_unit, double share)
{
    const struct grid_work *work = &plan->work;
    uint32_t usable = (uint32_t)(package->units * share + 0.5);
    uint32_t units = usable > work->dies ? usable / work->dies : 1;
    uint64_t resident = plan->resident / ((uint64_t)units * work->dies);
    struct grid_slots slots = { .units = units, .resident = (uint32_t)(resident > 0 ? resident : 1),
                                .alone = 1, .die_alone = die_alone(engine, package, plan, per_unit) };
    if (work->units != NULL) {
        double among = (double)work->units[work->longest] * per_unit * (double)plan->resident;
        slots.alone = fmax(among / alone_ticks(engine, package, work->longest), 1);
    }
    return grid_work_stretch(work, &slots);
}

/* What waves do after their last trip (results leave, parts are added up) and a window of the first trips alone does not have: the last
 * trips against as many before them, each of both from its start. */
static double after_last_trip(const struct engine *engine, struct package *package, const struct wave_program *program, const struct plan *plan)
{
    uint64_t trips = program->trips_per_wave;
    if (program->trips_period > 1 || plan->run.window.left_out > 0 || trips < 2 * TRIPS_LAST) {
        return 0;
    }
    struct run_request request = plan->run;
    double end[2];
    for (int last = 0; last < 2; last++) {
        struct run_outcome outcome;
        request.window.trip_first = trips - (2 - (uint64_t)last) * TRIPS_LAST;
        request.window.trip_limit = last ? UINT64_MAX : trips - TRIPS_LAST;
        request.units_expected = 0;
        run_aside(engine, package, &request, &outcome);
        end[last] = (double)outcome.end;
    }
    return fmax(end[1] - end[0], 0);
}

/* The whole grid's time after a run of some of its workgroups, at `per_unit`. */
static double time_of_grid(const struct engine *engine, struct package *package, const struct wave_program *program, const struct plan *plan,
                           const struct run_outcome *outcome, double per_unit)
{
    double ticks = (double)outcome->end;
    double units = (double)program->work_units_total;
    double ran = (double)outcome->units;
    double stretch = plan->work.variation > GRID_UNLIKE ? unlike_stretch(engine, package, plan, per_unit, plan->run.unit_share) : 1;
    bool is_laid_out = plan->work.units != NULL && outcome->stopped; /* to the last workgroup */
    bool is_flow = plan->cut == CUT_FLOW || (outcome->stopped && !program->workgroups_differ);
    if (!is_laid_out && !is_flow) {
        return ticks + fmax(units - ran, 0) * stretch * per_unit;
    }
    double time = ticks + fmax(units * stretch - ran, 0) * per_unit;
    double round = per_unit * units * (double)plan->resident / (double)program->workgroups;
    return is_laid_out ? time : time + flow_end(engine, package, program, round);
}

/* Time of the grid's last workgroups, fewer than are resident, from the start of the first of them. `ending`: what follows their
 * last trip, ticks. */
static double time_of_remainder(const struct engine *engine, struct package *package, const struct wave_program *program,
                                const struct plan *plan, double ending)
{
    struct run_request request = plan->run;
    struct run_outcome partial;
    double ignored;
    double share = (double)plan->remainder / (double)plan->run.workgroup_count;
    request.first_workgroup = program->workgroups - plan->remainder;
    request.workgroup_count = plan->remainder;
    request.units_expected = (uint64_t)((double)plan->run.units_expected * share);
    run_aside(engine, package, &request, &partial);
    double rest = plan->units_of_run_full * share - (double)partial.units;
    return (double)partial.end + (rest > 0 ? rest * steady_ticks_per_unit(&partial, &ignored) + ending : 0);
}

/* The same after some trips of its first resident workgroups: a slot waits for no other before it takes its next workgroup, so that
 * all rounds but the last take the mean of the slots. */
static double time_of_rounds(const struct engine *engine, struct package *package, const struct wave_program *program, const struct plan *plan,
                             const struct run_outcome *outcome, double per_unit)
{
    double rest = plan->units_of_run_full - (double)outcome->units;
    double ending = rest > 0 ? after_last_trip(engine, package, program, plan) : 0;
    double after = rest > 0 ? rest * per_unit + ending : 0;
    if (plan->rounds + (plan->remainder > 0) <= 1) {
        return (double)outcome->end + after;
    }
    SIM_ASSERT(outcome->slots_ended > 0, "%s: no slot of a round ended", program->name); /* such a run is never stopped */
    double mean = outcome->slot_end / (double)outcome->slots_ended;
    double last = (double)outcome->end - mean; /* of the slots, behind the mean */
    if (plan->remainder > 0) {
        last = fmax(last, time_of_remainder(engine, package, program, plan, ending));
    }
    return (mean + after) * plan->rounds + last;
}

static double run_plan(const struct engine *engine, struct package *package, const struct wave_program *program, const struct plan *plan,
                       struct run_outcome *outcome, double *error)
{
    engine_run(engine, &plan->run, outcome);
    *error = 0;
    if (plan->cut == CUT_NONE) {
        return (double)outcome->end;
    }
    double per_unit = steady_ticks_per_unit(outcome, error);
    if (plan->rounds_counted > 0) {
        double round_units = (double)program->work_units_total * (double)plan->resident / (double)program->workgroups;
        double life = mean_life(plan, outcome, error);
        per_unit = life > 0 ? life / round_units : per_unit;
    }
    return plan->cut == CUT_TRIPS ? time_of_rounds(engine, package, program, plan, outcome, per_unit)
                                  : time_of_grid(engine, package, program, plan, outcome, per_unit);
}

/* A kernel that starts on empty caches, or on another's dirty lines, runs at that pace only until it has replaced them: beyond
 * that at the pace of its own stream. A window far from that end says nothing of the rest, which a second one does. */
static double run_from_strange_caches(const struct engine *engine, struct package *package, const struct wave_program *program,
                                      const struct plan *plan, const struct chip_options *options, double share, struct run_outcome *outcome,
                                      double *error)
{
    double first = run_plan(engine, package, program, plan, outcome, error);
    bool is_strange = program->initial_cache == WAVE_CACHE_STATE_FLUSHED || program->initial_cache == WAVE_CACHE_STATE_CLEAN;
    if (plan->cut == CUT_NONE || !is_strange) {
        return first;
    }
    double ran = (double)outcome->units / (double)program->work_units_total;
    double replaced = package_replaced_share(package);
    double lasts = replaced > 0 ? ran / replaced : 1;
    if (lasts >= 1 || lasts < 0.5 * ran) {
        return first;
    }
    struct package_traffic traffic = package->traffic;
    struct run_outcome later;
    double later_error;
    package_reset(package);
    warm_own(engine->executor, package, program, plan, options, share);
    package_reset_timing(package);
    double rest = run_plan(engine, package, program, plan, &later, &later_error);
    *error = lasts * *error + (1 - lasts) * later_error;
    if (lasts < 0.5) {
        *outcome = later;
    } else {
        package->traffic = traffic;
    }
    return lasts * first + (1 - lasts) * rest;
}

static void fill_watts(struct kernel_result *result, const struct chip_profile *profile)
{
    result->watts = profile->power_idle;
    if (result->duration_us > 0) {
        result->watts += (result->core_uj * power_core_scale(profile, result->clock_mhz) + result->memory_uj) / result->duration_us;
    }
}

static void fill_power(struct kernel_result *result, const struct chip_profile *profile, const struct wave_program *program)
{
    struct power_activity activity = power_activity_of(program, result, (uint32_t)profile->unit_lanes);
    struct power_energy energy = power_energy_of(profile, &activity);
    result->core_uj = energy.core_uj;
    result->memory_uj = energy.memory_uj;
    fill_watts(result, profile);
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
    double ticks = run_from_strange_caches(&engine, package, program, &plan, options, share, &outcome, &sampling_error);
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
        double chain = (double)longest_wave_time(&engine, package, program, share);
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
    grid_work_finish(&plan.work);
    reference_destroy(engine.reference);
    package_destroy(package);
    return SIM_OK;
}

enum sim_status chip_run(const struct chip_profile *profile, const struct wave_program *program, const struct chip_options *options,
                         struct kernel_result *result, struct sim_error *error)
{
    SIM_ASSERT(program->workgroups > 0 && program->waves_per_workgroup > 0, "%s: %llu workgroups of %u waves", program->name,
               (unsigned long long)program->workgroups, program->waves_per_workgroup);
    SIM_ASSERT(program->work_units_total > 0, "%s: no work units", program->name);
    struct part part;
    if (!part_of(profile, program, options, &part)) {
        return run_engine(profile, program, options, result, error);
    }
    enum sim_status status = run_engine(&part.profile, &part.program, options, result, error);
    if (status == SIM_OK) {
        part_extend(&part, result);
        fill_watts(result, profile);
    }
    return status;
}
