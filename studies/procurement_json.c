#include "studies/procurement_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define HOURS_PER_YEAR 8760.0
#define DAYS_PER_YEAR 365.0

static void set(struct json *object, const char *key, double value)
{
    if (isfinite(value)) {
        json_set_number(object, key, value);
    } else {
        json_set_null(object, key);
    }
}

static double whole_examples(const struct procurement *plan)
{
    double years = procurement_number(plan, plan->years, 1), examples = 0;
    for (size_t m = 0; m < plan->model_count; m++) {
        for (double y = 0; y < years; y++) {
            examples += procurement_demand_of(plan, &plan->models[m], y) * DAYS_PER_YEAR * fmin(1, years - y);
        }
    }
    return examples;
}

static struct json *fleet_json(const struct procurement *plan, const struct procurement_mix *mix, size_t o)
{
    const struct procurement_offer *offer = &plan->offers[o];
    struct json *fleet = json_new_object();
    json_set_string(fleet, "offer", offer->name);
    json_set_string(fleet, "device", reckon_device_chip(offer->open)->name);
    json_set_number(fleet, "nodes", mix->nodes[o]);
    json_set_number(fleet, "gpus", mix->nodes[o] * offer->gpus_per_node);
    json_set_number(fleet, "racks", mix->racks[o]);
    json_set_number(fleet, "kw_rated", mix->kw_rated[o]);
    json_set_number(fleet, "kw_mean", mix->kw_mean[o]);
    json_set_number(fleet, "capital", mix->capital[o] + mix->rack_cost[o]);
    json_set_number(fleet, "lease", mix->lease[o]);
    json_set_number(fleet, "energy", mix->energy[o]);
    json_set_number(fleet, "upkeep", mix->upkeep[o]);
    json_set_number(fleet, "cost", mix->capital[o] + mix->rack_cost[o] + mix->lease[o] + mix->energy[o] + mix->upkeep[o]);
    return fleet;
}

/* Totals of a mix: what both the answer and each offer alone are judged by. */
static void set_totals(struct json *object, const struct procurement *plan, const struct procurement_mix *mix)
{
    double gpus = 0, lease = 0, energy = 0, upkeep = 0, mean = 0;
    for (size_t o = 0; o < plan->offer_count; o++) {
        gpus += mix->nodes[o] * plan->offers[o].gpus_per_node;
        lease += mix->lease[o];
        energy += mix->energy[o];
        upkeep += mix->upkeep[o];
        mean += mix->kw_mean[o];
    }
    json_set_number(object, "gpus", gpus);
    json_set_number(object, "nodes", procurement_goal_of(mix, PLAN_GOAL_NODES));
    json_set_number(object, "racks", procurement_goal_of(mix, PLAN_GOAL_RACKS));
    json_set_number(object, "kw_rated", procurement_goal_of(mix, PLAN_GOAL_KW));
    json_set_number(object, "kw_mean", mean);
    json_set_number(object, "capital", procurement_goal_of(mix, PLAN_GOAL_CAPITAL));
    json_set_number(object, "running", lease + energy + upkeep);
    json_set_number(object, "running_per_year", (lease + energy + upkeep) / procurement_number(plan, plan->years, 1));
    json_set_number(object, "lease", lease);
    json_set_number(object, "energy", energy);
    json_set_number(object, "upkeep", upkeep);
    json_set_number(object, "cost_total", mix->cost);
    set(object, "cost_per_billion_examples", mix->cost / (whole_examples(plan) * 1e-9));
}

static struct json *goodput_json(const struct procurement_job *job)
{
    struct json *object = json_new_object();
    json_set_number(object, "mtbf_hours", job->mtbf_hours);
    json_set_number(object, "checkpoint_s", job->checkpoint_s);
    json_set_number(object, "checkpoint_interval_s", job->interval_s);
    json_set_number(object, "after_failures", job->goodput_failures);
    json_set_number(object, "after_checks", job->goodput_checks);
    json_set_number(object, "goodput", job->goodput);
    return object;
}

static struct json *headroom_json(const struct procurement_headroom *room)
{
    struct json *object = json_new_object();
    set(object, "layers_now", room->layers_now);
    set(object, "layers", room->layers);
    set(object, "rows_now", room->rows_now);
    set(object, "rows", room->rows);
    set(object, "sequence_now", room->sequence_now);
    set(object, "sequence", room->sequence);
    json_set_bool(object, "layers_more", room->layers_more);
    json_set_bool(object, "rows_more", room->rows_more);
    json_set_bool(object, "sequence_more", room->sequence_more);
    return object;
}

static void set_job(struct json *object, const struct procurement_job *job)
{
    json_set_integer(object, "gpus_per_job", job->gpus);
    json_set_number(object, "step_ms", job->step_ms);
    json_set_number(object, "examples_per_s", job->examples_per_s);
    json_set_number(object, "examples_per_s_low", job->examples_per_s * job->rate_low);
    json_set_number(object, "examples_per_s_high", job->examples_per_s * job->rate_high);
    json_set_number(object, "watts", job->watts);
    json_set_number(object, "examples_per_day", job->examples_per_day);
    json_set_number(object, "memory_peak_gib", job->peak_gib);
    json_set_number(object, "memory_reserve_gib", job->reserve_gib);
    json_set_number(object, "memory_capacity_gib", job->capacity_gib);
    json_set_number(object, "memory_free_gib", job->capacity_gib - job->peak_gib - job->reserve_gib);
    json_set(object, "goodput", goodput_json(job));
}

static struct json *candidate_json(const struct procurement *plan, size_t m, size_t o)
{
    struct json *object = json_new_object();
    size_t c = plan->chosen[m][o];
    json_set_string(object, "offer", plan->offers[o].name);
    json_set_number(object, "jobs", plan->mix.jobs[m][o]);
    if (c == SIZE_MAX) {
        const struct procurement_job *last = &plan->jobs[m][o][plan->models[m].count_count - 1];
        json_set_bool(object, "possible", false);
        json_set_string(object, "reason", last->possible ? "too slow for its days, or no node fits a rack" : last->reason);
        return object;
    }
    json_set_bool(object, "possible", true);
    set_job(object, &plan->jobs[m][o][c]);
    json_set(object, "headroom", headroom_json(&plan->headroom[m][o]));
    return object;
}

static struct json *model_json(const struct procurement *plan, size_t m)
{
    const struct procurement_model *model = &plan->models[m];
    struct json *object = json_new_object(), *offers = json_new_array(), *years = json_new_array();
    double given = 0;
    json_set_string(object, "model", model->name);
    json_set_string(object, "kind", model->one_job ? "time to train" : "rate");
    for (double y = 0; y <= procurement_last_year(plan); y++) {
        json_append_number(years, procurement_demand_of(plan, model, y));
    }
    json_set(object, "examples_per_day_by_year", years);
    json_set_number(object, "demand_per_day", procurement_demand_of(plan, model, procurement_last_year(plan)));
    for (size_t o = 0; o < plan->offer_count; o++) {
        json_append(offers, candidate_json(plan, m, o));
        if (plan->mix.jobs[m][o] > 0) {
            given += plan->mix.jobs[m][o] * plan->jobs[m][o][plan->chosen[m][o]].examples_per_day;
        }
    }
    json_set_number(object, "given_per_day", given);
    json_set_number(object, "spare_share", given / procurement_demand_of(plan, model, procurement_last_year(plan)) - 1);
    json_set(object, "offers", offers);
    return object;
}

static struct json *alone_json(const struct procurement *plan, size_t o)
{
    struct json *object = json_new_object();
    const struct procurement_break_even *even = &plan->break_even[o];
    json_set_string(object, "offer", plan->offers[o].name);
    json_set_bool(object, "possible", plan->alone[o].found);
    if (plan->alone[o].found) {
        set_totals(object, plan, &plan->alone[o]);
        json_set_number(object, "cost_over_mix", plan->alone[o].cost / plan->mix.cost);
    }
    struct json *ratio = json_new_object();
    json_set_string(ratio, "against", plan->offers[0].name);
    if (even->possible) {
        set(ratio, "ratio", even->ratio);
        set(ratio, "ratio_low", even->low);
        set(ratio, "ratio_high", even->high);
        set(ratio, "given", even->given);
        set(ratio, "gpus", even->gpus);
    } else {
        json_set_null(ratio, "ratio");
        json_set_string(ratio, "reason", even->reason);
    }
    json_set(object, "break_even", ratio);
    return object;
}

static struct json *swings_json(const struct procurement *plan)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < plan->swing_count; i++) {
        const struct procurement_swing *swing = &plan->swings[i];
        struct json *object = json_new_object();
        json_set_string(object, "key", swing->key);
        json_set_number(object, "low", swing->low);
        json_set_number(object, "high", swing->high);
        json_set_bool(object, "range_given", swing->given_range);
        set(object, "cost_low", swing->cost_low);
        set(object, "cost_high", swing->cost_high);
        json_append(list, object);
    }
    return list;
}

static struct json *assumptions_json(const struct procurement *plan)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < plan->value_count; i++) {
        const struct procurement_value *value = &plan->values[i];
        struct json *object = json_new_object();
        json_set_string(object, "key", value->key);
        json_set_number(object, "value", value->value);
        json_set_number(object, "low", value->low);
        json_set_number(object, "high", value->high);
        json_set_bool(object, "range_given", value->given_range);
        json_set_string(object, "source", value->source);
        json_append(list, object);
    }
    return list;
}

static void note(struct json *notes, const char *text)
{
    json_append_string(notes, text);
}

static struct json *notes_json(const struct procurement *plan)
{
    struct json *notes = json_new_array();
    char text[240];
    if (plan->example_prices) {
        note(notes, "prices are examples, of no vendor and no quote: put your own in");
    }
    if (plan->note[0] != '\0') {
        note(notes, plan->note);
    }
    note(notes, "the fleet is bought, or leased, at the start for the demand of the last year; money has no interest and nothing is sold again");
    note(notes, "jobs smaller than a node share nodes; larger ones take whole nodes; a split of one model over offers is tried in steps of a fortieth");
    note(notes, "a model with examples and days is trained again without pause by one job; others by as many jobs side by side as it takes");
    note(notes, "mean power is that of the predicted step on every GPU in use, beside what node_kw leaves over its boards; idle boards of spare nodes draw none");
    note(notes, "a checkpoint is every GPU's parameters, optimiser state and tables; the interval is Daly's (Young's with higher terms)");
    if (plan->samples > 0) {
        snprintf(text, sizeof text, "in each of the %u samples kernels of %.0f to %.0f%% of a step's kernel time are simulated anew, the others follow those of "
                 "their limiter", plan->samples, plan->anew_least * 100, plan->anew_most * 100);
        note(notes, text);
    }
    if (plan->window_requests > 0) {
        snprintf(text, sizeof text, "kernels are simulated for %llu line requests and extrapolated, as the demand asks", (unsigned long long)plan->window_requests);
        note(notes, text);
    }
    note(notes, plan->samples > 0 ? "intervals hold 80% of the samples of what nobody measured, and the model's own error; prices do not vary in them"
                                  : "no samples were asked for (\"samples\" in the demand): speeds are at the profiles' own values");
    if (plan->mix.cut) {
        note(notes, "the search ended at its bound of steps: a cheaper mix may exist");
    }
    return notes;
}

struct json *procurement_json(const struct procurement *plan)
{
    struct json *root = json_new_object(), *fleet = json_new_array(), *models = json_new_array(), *alone = json_new_array();
    json_set_string(root, "schema", "reckon.procurement/1");
    json_set_string(root, "demand", plan->name);
    json_set_string(root, "currency", plan->currency);
    json_set_bool(root, "example_prices", plan->example_prices);
    json_set_number(root, "years", procurement_number(plan, plan->years, 1));
    json_set_integer(root, "samples", plan->samples);
    set_totals(root, plan, &plan->mix);
    set(root, "cost_total_low", plan->cost_low);
    set(root, "cost_total_high", plan->cost_high);
    set(root, "cost_per_billion_examples_low", plan->cost_low / whole_examples(plan) * 1e9);
    set(root, "cost_per_billion_examples_high", plan->cost_high / whole_examples(plan) * 1e9);
    json_set_number(root, "examples_total", whole_examples(plan));
    json_set_bool(root, "search_complete", !plan->mix.cut);
    for (size_t o = 0; o < plan->offer_count; o++) {
        json_append(fleet, fleet_json(plan, &plan->mix, o));
        json_append(alone, alone_json(plan, o));
    }
    for (size_t m = 0; m < plan->model_count; m++) {
        json_append(models, model_json(plan, m));
    }
    json_set(root, "fleet", fleet);
    json_set(root, "models", models);
    json_set(root, "alone", alone);
    json_set(root, "sensitivity", swings_json(plan));
    json_set(root, "assumptions", assumptions_json(plan));
    struct json *limits = json_new_object();
    set(limits, "kw_max", plan->limits.kw);
    set(limits, "racks_max", plan->limits.racks);
    set(limits, "capital_max", plan->limits.capital);
    set(limits, "nodes_max", plan->limits.nodes);
    json_set(root, "constraints", limits);
    json_set(root, "notes", notes_json(plan));
    return root;
}
