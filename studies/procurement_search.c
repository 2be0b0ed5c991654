/* The mix of offers that meets the demand at least cost: how many jobs of each model run on each offer, by branch and bound over
 * the models. A bound is what is spent so far plus, of each model left, its cheapest way without rounding. Racks, spare nodes and
 * limits are counted where all models are placed. Splits of one model over offers are tried in steps of a fortieth of its jobs. */
#include "studies/procurement_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_PER_MODEL 40
#define WAYS_MAX 20000
#define VISITS_MAX 400000
#define HOURS_PER_YEAR 8760.0
#define NO_COUNT SIZE_MAX

struct way { /* to run one model */
    double jobs[PLAN_OFFERS_MAX];
    double bound; /* the goal, without rounding up nodes */
};

struct search {
    const struct procurement *plan;
    const struct procurement_limits *limits;
    enum procurement_goal goal;
    int only;
    struct way *ways[PLAN_MODELS_MAX];
    size_t way_count[PLAN_MODELS_MAX];
    double rest[PLAN_MODELS_MAX + 1]; /* least bound of this model and those behind it */
    size_t at[PLAN_MODELS_MAX];
    struct procurement_mix *best;
    double best_goal;
    size_t visits;
};

static double host_kw(const struct procurement *plan, const struct procurement_offer *offer)
{
    double boards = offer->gpus_per_node * reckon_device_chip(offer->open)->power_board_limit * 1e-3;
    return fmax(procurement_number(plan, offer->node_kw, 0) - boards, 0);
}

/* Money over the years for a node in use, by what it is spent on; watts: mean of its GPUs. */
static void node_money(const struct procurement *plan, const struct procurement_offer *offer, double nodes, double gpu_kw, struct procurement_mix *mix, size_t o)
{
    double years = procurement_number(plan, plan->years, 1), hours = years * HOURS_PER_YEAR;
    mix->capital[o] = nodes * procurement_number(plan, offer->node_price, 0);
    mix->lease[o] = nodes * offer->gpus_per_node * procurement_number(plan, offer->gpu_hour_price, 0) * hours;
    mix->upkeep[o] = nodes * procurement_number(plan, offer->opex_per_node_year, 0) * years;
    mix->kw_mean[o] = (nodes * host_kw(plan, offer) + gpu_kw) * procurement_number(plan, plan->pue, 1);
    mix->kw_rated[o] = nodes * procurement_number(plan, offer->node_kw, 0) * procurement_number(plan, plan->pue, 1);
    mix->energy[o] = mix->kw_mean[o] * hours * procurement_number(plan, plan->power_price, 0);
}

static double nodes_per_rack(const struct procurement *plan, const struct procurement_offer *offer)
{
    return fmin(procurement_number(plan, plan->rack_slots, 1), floor(procurement_number(plan, plan->rack_kw, 1) / procurement_number(plan, offer->node_kw, 1)));
}

/* What a set of jobs needs and costs: whole nodes (jobs smaller than a node share one), spares, racks. */
static void settle(const struct procurement *plan, struct procurement_mix *mix)
{
    mix->cost = 0;
    for (size_t o = 0; o < plan->offer_count; o++) {
        const struct procurement_offer *offer = &plan->offers[o];
        double whole = 0, parts = 0, gpu_kw = 0;
        for (size_t m = 0; m < plan->model_count; m++) {
            if (mix->jobs[m][o] <= 0) {
                continue;
            }
            const struct procurement_job *job = &plan->jobs[m][o][plan->chosen[m][o]];
            bool shares = job->gpus < offer->gpus_per_node && offer->gpus_per_node % job->gpus == 0;
            if (shares) {
                parts += mix->jobs[m][o] * job->gpus;
            } else {
                whole += mix->jobs[m][o] * ceil((double)job->gpus / offer->gpus_per_node);
            }
            gpu_kw += mix->jobs[m][o] * job->gpus * job->watts * 1e-3;
        }
        double nodes = whole + fmax(ceil(parts / offer->gpus_per_node - 1e-9), 0);
        nodes = fmax(ceil(nodes * (1 + procurement_number(plan, plan->spare_share, 0)) - 1e-9), 0) + 0.0;
        mix->nodes[o] = nodes;
        node_money(plan, offer, nodes, gpu_kw, mix, o);
        double per_rack = nodes_per_rack(plan, offer);
        mix->racks[o] = nodes > 0 ? ceil(nodes / per_rack) : 0;
        mix->rack_cost[o] = mix->racks[o] * procurement_number(plan, plan->rack_price, 0);
        mix->cost += mix->capital[o] + mix->lease[o] + mix->upkeep[o] + mix->energy[o] + mix->rack_cost[o];
    }
}

static double sum_of(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum;
}

double procurement_goal_of(const struct procurement_mix *mix, enum procurement_goal goal)
{
    switch (goal) {
    case PLAN_GOAL_KW: return sum_of(mix->kw_rated, PLAN_OFFERS_MAX);
    case PLAN_GOAL_RACKS: return sum_of(mix->racks, PLAN_OFFERS_MAX);
    case PLAN_GOAL_CAPITAL: return sum_of(mix->capital, PLAN_OFFERS_MAX) + sum_of(mix->rack_cost, PLAN_OFFERS_MAX);
    case PLAN_GOAL_NODES: return sum_of(mix->nodes, PLAN_OFFERS_MAX);
    default: return mix->cost;
    }
}

static bool within(const struct search *search, const struct procurement_mix *mix)
{
    const struct procurement_limits *limits = search->limits;
    for (size_t o = 0; o < search->plan->offer_count; o++) {
        if (mix->nodes[o] > search->plan->offers[o].nodes_max) {
            return false;
        }
    }
    return limits == NULL || (procurement_goal_of(mix, PLAN_GOAL_KW) <= limits->kw && procurement_goal_of(mix, PLAN_GOAL_RACKS) <= limits->racks &&
                              procurement_goal_of(mix, PLAN_GOAL_CAPITAL) <= limits->capital && procurement_goal_of(mix, PLAN_GOAL_NODES) <= limits->nodes);
}

/* Goal of one job without rounding: its share of nodes, racks and spares. */
static double job_bound(const struct search *search, size_t m, size_t o)
{
    const struct procurement *plan = search->plan;
    const struct procurement_offer *offer = &plan->offers[o];
    const struct procurement_job *job = &plan->jobs[m][o][plan->chosen[m][o]];
    bool shares = job->gpus < offer->gpus_per_node && offer->gpus_per_node % job->gpus == 0;
    double nodes = shares ? (double)job->gpus / offer->gpus_per_node : ceil((double)job->gpus / offer->gpus_per_node);
    nodes *= 1 + procurement_number(plan, plan->spare_share, 0);
    struct procurement_mix mix = { 0 };
    node_money(plan, offer, nodes, job->gpus * job->watts * 1e-3, &mix, o);
    mix.nodes[o] = nodes;
    mix.racks[o] = nodes / nodes_per_rack(plan, offer);
    mix.rack_cost[o] = mix.racks[o] * procurement_number(plan, plan->rack_price, 0);
    mix.cost = mix.capital[o] + mix.lease[o] + mix.upkeep[o] + mix.energy[o] + mix.rack_cost[o];
    return procurement_goal_of(&mix, search->goal);
}

double procurement_last_year(const struct procurement *plan)
{
    return fmax(ceil(procurement_number(plan, plan->years, 1)) - 1, 0);
}

double procurement_demand_of(const struct procurement *plan, const struct procurement_model *model, double year)
{
    double first = model->one_job ? procurement_number(plan, model->examples, 0) / procurement_number(plan, model->days, 1)
                                  : procurement_number(plan, model->examples_per_day, 0);
    return first * pow(1 + procurement_number(plan, model->growth, 0), year);
}

static int by_bound(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    if (x->bound != y->bound) {
        return x->bound < y->bound ? -1 : 1;
    }
    return memcmp(x->jobs, y->jobs, sizeof x->jobs);
}

static bool usable(const struct search *search, size_t m, size_t o)
{
    return search->plan->chosen[m][o] != NO_COUNT && (search->only < 0 || (size_t)search->only == o) && search->plan->offers[o].nodes_max > 0;
}

static void add_way(struct search *search, size_t m, const double jobs[PLAN_OFFERS_MAX])
{
    if (search->way_count[m] == WAYS_MAX) {
        search->best->cut = true;
        return;
    }
    struct way *way = &search->ways[m][search->way_count[m]++];
    memset(way, 0, sizeof *way);
    memcpy(way->jobs, jobs, sizeof way->jobs);
    for (size_t o = 0; o < search->plan->offer_count; o++) {
        way->bound += jobs[o] > 0 ? jobs[o] * job_bound(search, m, o) : 0;
    }
}

/* Every split of what is left of the demand over offers o and behind. */
static void split(struct search *search, size_t m, size_t o, double left, double step_share, double jobs[PLAN_OFFERS_MAX])
{
    const struct procurement *plan = search->plan;
    if (left <= 0) {
        add_way(search, m, jobs);
        return;
    }
    if (o == plan->offer_count) {
        return;
    }
    jobs[o] = 0;
    split(search, m, o + 1, left, step_share, jobs);
    if (usable(search, m, o)) {
        double rate = plan->jobs[m][o][plan->chosen[m][o]].examples_per_day, most = ceil(left / rate - 1e-9);
        double step = fmax(1, ceil(most * step_share));
        for (double n = step; n < most; n += step) {
            jobs[o] = n;
            split(search, m, o + 1, left - n * rate, step_share, jobs);
        }
        jobs[o] = most;
        split(search, m, o + 1, 0, step_share, jobs);
    }
    jobs[o] = 0;
}

static void list_ways(struct search *search, size_t m)
{
    const struct procurement *plan = search->plan;
    const struct procurement_model *model = &plan->models[m];
    double jobs[PLAN_OFFERS_MAX] = { 0 }, demand = procurement_demand_of(plan, model, procurement_last_year(plan));
    search->ways[m] = malloc(WAYS_MAX * sizeof(struct way));
    SIM_ASSERT(search->ways[m] != NULL, "no memory for the ways to run a model");
    if (model->one_job) {
        for (size_t o = 0; o < plan->offer_count; o++) {
            if (usable(search, m, o)) {
                jobs[o] = 1;
                add_way(search, m, jobs);
                jobs[o] = 0;
            }
        }
    } else {
        split(search, m, 0, demand, 1.0 / STEPS_PER_MODEL, jobs);
    }
    qsort(search->ways[m], search->way_count[m], sizeof(struct way), by_bound);
}

static void place(struct search *search, size_t m, struct procurement_mix *mix, double spent)
{
    const struct procurement *plan = search->plan;
    if (search->visits++ > VISITS_MAX) {
        search->best->cut = true;
        return;
    }
    if (m == plan->model_count) {
        settle(plan, mix);
        double goal = procurement_goal_of(mix, search->goal);
        if (within(search, mix) && goal < search->best_goal) {
            bool cut = search->best->cut;
            *search->best = *mix;
            search->best->found = true;
            search->best->cut = cut;
            search->best_goal = goal;
        }
        return;
    }
    for (size_t w = 0; w < search->way_count[m]; w++) {
        const struct way *way = &search->ways[m][w];
        if (spent + way->bound + search->rest[m + 1] >= search->best_goal * (1 - 1e-12)) {
            return; /* ways are sorted: none behind is better */
        }
        memcpy(mix->jobs[m], way->jobs, sizeof mix->jobs[m]);
        place(search, m + 1, mix, spent + way->bound);
    }
    memset(mix->jobs[m], 0, sizeof mix->jobs[m]);
}

void procurement_search(const struct procurement *plan, int only, const struct procurement_limits *limits, enum procurement_goal goal, struct procurement_mix *mix)
{
    struct search search = { .plan = plan, .limits = limits, .goal = goal, .only = only, .best = mix, .best_goal = INFINITY };
    struct procurement_mix trial;
    memset(mix, 0, sizeof *mix);
    memset(&trial, 0, sizeof trial);
    for (size_t m = 0; m < plan->model_count; m++) {
        list_ways(&search, m);
    }
    for (size_t m = plan->model_count; m-- > 0;) {
        search.rest[m] = search.rest[m + 1] + (search.way_count[m] > 0 ? search.ways[m][0].bound : INFINITY);
    }
    place(&search, 0, &trial, 0);
    for (size_t m = 0; m < plan->model_count; m++) {
        free(search.ways[m]);
    }
}

/* Goodputs anew, and of each model and offer the job size that costs least for an example; of one_job models the least size
 * that is fast enough. Racks that hold no node leave an offer without jobs. */
void procurement_prepare(struct procurement *plan)
{
    struct search search = { .plan = plan, .goal = PLAN_GOAL_COST, .only = -1 };
    for (size_t m = 0; m < plan->model_count; m++) {
        const struct procurement_model *model = &plan->models[m];
        double demand = procurement_demand_of(plan, model, procurement_last_year(plan));
        for (size_t o = 0; o < plan->offer_count; o++) {
            double best = INFINITY;
            size_t taken = NO_COUNT;
            for (size_t c = 0; c < model->count_count && nodes_per_rack(plan, &plan->offers[o]) >= 1; c++) {
                struct procurement_job *job = &plan->jobs[m][o][c];
                if (!job->possible) {
                    continue;
                }
                procurement_goodput(plan, &plan->offers[o], job);
                job->examples_per_day = job->examples_per_s * plan->rate_factor[o] * procurement_speed(job, plan->sample) * 86400 * job->goodput;
                if (!(job->examples_per_day > 0) || (model->one_job && job->examples_per_day < demand)) {
                    continue;
                }
                plan->chosen[m][o] = c;
                double cost = job_bound(&search, m, o) / (model->one_job ? 1 : job->examples_per_day);
                if (cost < best) {
                    best = cost;
                    taken = c;
                }
            }
            plan->chosen[m][o] = taken;
        }
    }
}
