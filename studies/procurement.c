/* Prices the models on the offers, asks the search, and says what the answer rests on. */
#include "studies/procurement_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOURS_PER_YEAR 8760.0
#define SAMPLE_WORK 1.2e8 /* line requests and wave operations of all samples of all models on all offers: about a minute of a core */
#define HEADROOM_DOUBLINGS 7
#define HEADROOM_HALVINGS 4

/* ---- predictions */

static struct reckon_model_request request_of(const struct procurement_model *model, uint32_t gpus)
{
    return (struct reckon_model_request){ .path = model->path, .settings = model->setting_pointers, .setting_count = model->setting_count,
                                          .gpus = gpus };
}

static void take_prediction(const struct reckon_prediction *prediction, struct procurement_job *job)
{
    const struct reckon_memory *memory = &prediction->memory_gib;
    job->capacity_gib = prediction->capacity_gib;
    job->peak_gib = memory->peak;
    job->reserve_gib = memory->reserve;
    job->state_gib = memory->parameters + memory->optimizer + memory->embeddings;
    if (prediction->fits_known && !prediction->fits) {
        snprintf(job->reason, sizeof job->reason, "does not fit: %.180s", prediction->memory_advice);
        return;
    }
    job->possible = true;
    job->step_ms = prediction->step_ms;
    job->examples_per_s = prediction->examples_per_s;
    job->watts = prediction->watts;
    job->rate_low = job->rate_high = 1;
}

static enum sim_status predict_job(struct reckon *reckon, struct procurement *plan, size_t m, size_t o, size_t c, struct sim_error *error)
{
    struct procurement_job *job = &plan->jobs[m][o][c];
    struct reckon_model_request request = request_of(&plan->models[m], plan->models[m].counts[c]);
    struct reckon_predict_request ask = { .model = &request, .window_requests = plan->window_requests };
    struct reckon_prediction *prediction = NULL;
    struct graph *graph = NULL;
    struct sim_error own = { 0 };
    job->gpus = plan->models[m].counts[c];
    enum sim_status status = reckon_graph_describe(reckon, &request, &graph, &own);
    if (status == SIM_OK) {
        ask.graph = graph;
        status = reckon_predict(reckon, plan->offers[o].open, &ask, &prediction, &own);
    }
    if (status == SIM_OK) {
        take_prediction(prediction, job);
    } else if (status == SIM_UNSUPPORTED || status == SIM_DOES_NOT_FIT) {
        snprintf(job->reason, sizeof job->reason, "%.190s", own.text);
        status = SIM_OK;
    } else {
        sim_fail(error, status, "model %s on offer %s with %u GPUs: %.800s", plan->models[m].name, plan->offers[o].name, job->gpus, own.text);
    }
    reckon_prediction_free(prediction);
    reckon_graph_free(graph);
    return status;
}

/* Paired samples of the speed, at the model's largest job that every offer that can run it at all can run. */
static enum sim_status sample_model(struct reckon *reckon, struct procurement *plan, size_t m, struct sim_error *error)
{
    struct reckon_device *devices[PLAN_OFFERS_MAX];
    size_t offers[PLAN_OFFERS_MAX], count = 0, c = plan->models[m].count_count;
    while (c-- > 0 && count < plan->offer_count) {
        count = 0;
        for (size_t o = 0; o < plan->offer_count; o++) {
            if (plan->jobs[m][o][c].possible) {
                devices[count] = plan->offers[o].open;
                offers[count++] = o;
            }
        }
        if (c == 0 || count == plan->offer_count) {
            break;
        }
    }
    if (count == 0) {
        return SIM_OK;
    }
    struct reckon_model_request request = request_of(&plan->models[m], plan->models[m].counts[c]);
    struct reckon_predict_request ask = { .model = &request, .window_requests = plan->window_requests,
                                          .sample_work = SAMPLE_WORK / (double)(plan->model_count * plan->offer_count) };
    struct reckon_doubts *doubts = NULL;
    struct graph *graph = NULL;
    enum sim_status status = reckon_graph_describe(reckon, &request, &graph, error);
    if (status == SIM_OK) {
        ask.graph = graph;
        status = reckon_predict_doubts(reckon, devices, count, &ask, plan->samples, &doubts, error);
    }
    for (size_t i = 0; status == SIM_OK && i < count; i++) {
        const struct reckon_interval *time = &doubts->time[i];
        plan->anew_least = fmin(plan->anew_least, time->anew);
        plan->anew_most = fmax(plan->anew_most, time->anew);
        for (size_t k = 0; k < plan->models[m].count_count; k++) {
            struct procurement_job *job = &plan->jobs[m][offers[i]][k];
            job->rate_samples = malloc(plan->samples * sizeof(double));
            SIM_ASSERT(job->rate_samples != NULL, "no memory for %u samples", plan->samples);
            for (uint32_t s = 0; s < plan->samples; s++) {
                job->rate_samples[s] = time->median / time->samples[s];
            }
            job->rate_low = time->median / time->high;
            job->rate_high = time->median / time->low;
            job->step_ms *= time->median / time->nominal; /* as predict: with samples, a time is their median */
            job->examples_per_s *= time->nominal / time->median;
        }
    }
    reckon_doubts_free(doubts);
    reckon_graph_free(graph);
    return status;
}

static enum sim_status predict_all(struct reckon *reckon, struct procurement *plan, struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    for (size_t o = 0; status == SIM_OK && o < plan->offer_count; o++) {
        struct procurement_offer *offer = &plan->offers[o];
        status = reckon_device_open(reckon, offer->device, offer->node[0] != '\0' ? offer->node : NULL, &offer->open, error);
        if (status == SIM_OK) {
            double boards = offer->gpus_per_node * reckon_device_chip(offer->open)->power_board_limit * 1e-3;
            if (procurement_number(plan, offer->node_kw, 0) < boards) {
                return sim_fail(error, SIM_BAD_ARGUMENT, "%s: offers.%s.node_kw %g is less than its %u boards of %g W take together (%g kW)", plan->path,
                                offer->name, procurement_number(plan, offer->node_kw, 0), offer->gpus_per_node,
                                reckon_device_chip(offer->open)->power_board_limit, boards);
            }
        }
    }
    for (size_t m = 0; status == SIM_OK && m < plan->model_count; m++) {
        for (size_t o = 0; status == SIM_OK && o < plan->offer_count; o++) {
            for (size_t c = 0; status == SIM_OK && c < plan->models[m].count_count; c++) {
                status = predict_job(reckon, plan, m, o, c, error);
            }
        }
        if (status == SIM_OK && plan->samples > 0) {
            status = sample_model(reckon, plan, m, error);
        }
    }
    return status;
}

/* ---- memory headroom: the most of one size that still fits, all else as it is, to a sixteenth of its power of two above now */

static bool fits_with(const struct procurement *plan, size_t m, size_t o, uint32_t gpus, const char *key, double value)
{
    struct reckon_model_request request = request_of(&plan->models[m], gpus);
    const char *settings[PLAN_SETTINGS_MAX + 1];
    char text[96];
    bool fits = false;
    double peak = 0, reserve = 0;
    memcpy(settings, plan->models[m].setting_pointers, sizeof plan->models[m].setting_pointers);
    snprintf(text, sizeof text, "%s=%.0f", key, value);
    settings[request.setting_count] = text;
    request.settings = settings;
    request.setting_count++;
    return reckon_model_memory(plan->offers[o].open, &request, &fits, &peak, &reserve, NULL) == SIM_OK && fits;
}

static double most_that_fits(const struct procurement *plan, size_t m, size_t o, uint32_t gpus, const char *key, double now, bool *more)
{
    double fits = now, not = now;
    if (!(now > 0) || !fits_with(plan, m, o, gpus, key, now)) {
        return NAN;
    }
    for (int i = 0; i < HEADROOM_DOUBLINGS; i++) {
        not = fits * 2;
        if (!fits_with(plan, m, o, gpus, key, not)) {
            break;
        }
        fits = not;
    }
    *more = fits == not;
    for (int i = 0; i < HEADROOM_HALVINGS && not > fits; i++) {
        double middle = floor((fits + not) / 2);
        if (middle <= fits) {
            break;
        }
        if (fits_with(plan, m, o, gpus, key, middle)) {
            fits = middle;
        } else {
            not = middle;
        }
    }
    return fits;
}

/* What the description says now, with the demand's settings; NAN: not of this model. Tables: the one with most rows. */
static void sizes_now(const struct procurement_model *model, double *layers, double *rows, double *sequence)
{
    struct json *root = NULL;
    *layers = *rows = *sequence = NAN;
    if (json_read_file(model->path, &root, NULL) != SIM_OK) {
        return;
    }
    const struct json *tables = json_get(root, "tables"), *list = json_get(root, "layers"), *length = json_get(root, "sequence");
    for (size_t i = 0; tables != NULL && json_kind_of(tables) == JSON_ARRAY && i < json_count(tables); i++) {
        const struct json *count = json_get(json_at(tables, i), "rows");
        *rows = count != NULL && json_kind_of(count) == JSON_NUMBER ? fmax(isnan(*rows) ? 0 : *rows, json_number(count)) : *rows;
    }
    for (size_t i = 0; list != NULL && json_kind_of(list) == JSON_ARRAY && i < json_count(list) && isnan(*layers); i++) {
        const struct json *count = json_get(json_at(list, i), "count"), *heads = json_get(json_at(list, i), "heads");
        *layers = count != NULL && heads != NULL && json_kind_of(count) == JSON_NUMBER ? json_number(count) : NAN;
    }
    *sequence = length != NULL && json_kind_of(length) == JSON_NUMBER && json_number(length) > 1 ? json_number(length) : NAN;
    json_destroy(root);
    for (size_t i = 0; i < model->setting_count; i++) {
        const char *equals = strchr(model->settings[i], '=');
        double value = equals != NULL ? strtod(equals + 1, NULL) : NAN;
        *layers = strncmp(model->settings[i], "layers=", 7) == 0 ? value : *layers;
        *rows = strncmp(model->settings[i], "rows=", 5) == 0 ? value : *rows;
        *sequence = strncmp(model->settings[i], "sequence=", 9) == 0 ? value : *sequence;
    }
}

static void find_headroom(struct procurement *plan)
{
    for (size_t m = 0; m < plan->model_count; m++) {
        double layers, rows, sequence;
        sizes_now(&plan->models[m], &layers, &rows, &sequence);
        for (size_t o = 0; o < plan->offer_count; o++) {
            struct procurement_headroom *room = &plan->headroom[m][o];
            *room = (struct procurement_headroom){ .layers = NAN, .layers_now = layers, .rows = NAN, .rows_now = rows, .sequence = NAN,
                                                   .sequence_now = sequence };
            if (plan->chosen[m][o] != SIZE_MAX) {
                uint32_t gpus = plan->jobs[m][o][plan->chosen[m][o]].gpus;
                room->layers = most_that_fits(plan, m, o, gpus, "layers", layers, &room->layers_more);
                room->rows = most_that_fits(plan, m, o, gpus, "rows", rows, &room->rows_more);
                room->sequence = most_that_fits(plan, m, o, gpus, "sequence", sequence, &room->sequence_more);
            }
        }
    }
}

/* ---- when nothing will do */

static enum sim_status refuse_model(const struct procurement *plan, size_t m, struct sim_error *error)
{
    const struct procurement_model *model = &plan->models[m];
    char why[700] = "";
    double best = 0;
    for (size_t o = 0; o < plan->offer_count; o++) {
        const struct procurement_job *last = &plan->jobs[m][o][model->count_count - 1];
        for (size_t c = 0; c < model->count_count; c++) {
            best = fmax(best, plan->jobs[m][o][c].examples_per_day);
        }
        size_t used = strlen(why);
        snprintf(why + used, sizeof why - used, "%s%s: %.150s", used > 0 ? "; " : "", plan->offers[o].name,
                 !last->possible ? last->reason
                 : procurement_number(plan, plan->rack_kw, 0) < procurement_number(plan, plan->offers[o].node_kw, 0) ? "a rack of rack_kw holds no node of node_kw"
                                                                                                         : "too slow");
    }
    if (model->one_job && best > 0) {
        return sim_fail(error, SIM_UNSUPPORTED, "%s: models.%s: examples in days: no job size of any offer is fast enough: %.3g days are needed at best, %g are given (%s)",
                        plan->path, model->name, procurement_number(plan, model->days, 0) * procurement_demand_of(plan, model, procurement_last_year(plan)) / best,
                        procurement_number(plan, model->days, 0), why);
    }
    return sim_fail(error, SIM_UNSUPPORTED, "%s: models.%s: no offer can run it: %s", plan->path, model->name, why);
}

static enum sim_status refuse_mix(const struct procurement *plan, struct sim_error *error)
{
    const struct {
        enum procurement_goal goal;
        const char *key, *unit;
    } goals[] = { { PLAN_GOAL_KW, "kw_max", "kW" }, { PLAN_GOAL_RACKS, "racks_max", "racks" }, { PLAN_GOAL_CAPITAL, "capital_max", plan->currency },
                  { PLAN_GOAL_NODES, "nodes_max", "nodes" } };
    char together[64] = "";
    const double limits[] = { plan->limits.kw, plan->limits.racks, plan->limits.capital, plan->limits.nodes };
    struct procurement_mix *mix = calloc(1, sizeof *mix);
    SIM_ASSERT(mix != NULL, "no memory for a mix");
    for (size_t g = 0; g < 4; g++) {
        if (!isfinite(limits[g])) {
            continue;
        }
        size_t used = strlen(together);
        snprintf(together + used, sizeof together - used, "%s%s", used > 0 ? ", " : "", goals[g].key);
        procurement_search(plan, -1, NULL, goals[g].goal, mix);
        double least = procurement_goal_of(mix, goals[g].goal);
        if (mix->found && least > limits[g]) {
            free(mix);
            return sim_fail(error, SIM_UNSUPPORTED, "%s: constraints.%s %g: no mix of the offers meets the demand within it; the least needs %.6g %s",
                            plan->path, goals[g].key, limits[g], least, goals[g].unit);
        }
    }
    procurement_search(plan, -1, NULL, PLAN_GOAL_COST, mix);
    bool by_offers = !mix->found;
    free(mix);
    return sim_fail(error, SIM_UNSUPPORTED, by_offers ? "%s: offers' nodes_max together are too few for the demand"
                                                      : "%s: constraints %s: each can be met alone, but no mix of the offers meets them together",
                    plan->path, together);
}

/* ---- the cost's interval, and the sensitivity: the plan anew in each sample, and at each assumption's ends */

double procurement_speed(const struct procurement_job *job, int sample)
{
    return sample >= 0 && job->rate_samples != NULL ? job->rate_samples[sample] : 1;
}

static double cost_now(struct procurement *plan)
{
    struct procurement_mix *mix = calloc(1, sizeof *mix);
    SIM_ASSERT(mix != NULL, "no memory for a mix");
    procurement_prepare(plan);
    procurement_search(plan, -1, &plan->limits, PLAN_GOAL_COST, mix);
    double cost = mix->found ? mix->cost : NAN;
    free(mix);
    return cost;
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 10% and 90% of the samples' values, which it sorts; a sample without a value is INFINITY. */
static void interval_of(double *values, size_t count, double *low, double *high)
{
    qsort(values, count, sizeof *values, by_number);
    *low = values[(size_t)(0.1 * (double)(count - 1) + 0.5)];
    *high = values[(size_t)(0.9 * (double)(count - 1) + 0.5)];
}

static void find_cost_interval(struct procurement *plan)
{
    plan->cost_low = plan->cost_high = NAN;
    if (plan->samples == 0) {
        return;
    }
    double *costs = malloc(plan->samples * sizeof *costs);
    SIM_ASSERT(costs != NULL, "no memory for %u samples", plan->samples);
    for (uint32_t s = 0; s < plan->samples; s++) {
        plan->sample = (int)s;
        double cost = cost_now(plan);
        costs[s] = isnan(cost) ? INFINITY : cost;
    }
    plan->sample = -1;
    procurement_prepare(plan);
    interval_of(costs, plan->samples, &plan->cost_low, &plan->cost_high);
    free(costs);
}

static int by_swing(const void *a, const void *b)
{
    const struct procurement_swing *x = a, *y = b;
    double p = isnan(x->cost_low) || isnan(x->cost_high) ? INFINITY : fabs(x->cost_high - x->cost_low);
    double q = isnan(y->cost_low) || isnan(y->cost_high) ? INFINITY : fabs(y->cost_high - y->cost_low);
    return p != q ? (p > q ? -1 : 1) : strcmp(x->key, y->key);
}

static void find_swings(struct procurement *plan)
{
    for (size_t i = 0; i < plan->value_count; i++) {
        struct procurement_value *value = &plan->values[i];
        double nominal = value->value;
        if ((int)i == plan->years && !value->given_range) {
            continue; /* a choice, not an assumption */
        }
        struct procurement_swing *swing = &plan->swings[plan->swing_count++];
        *swing = (struct procurement_swing){ .low = value->low, .high = value->high, .given_range = value->given_range };
        snprintf(swing->key, sizeof swing->key, "%s", value->key);
        value->value = value->low;
        swing->cost_low = cost_now(plan);
        value->value = value->high;
        swing->cost_high = cost_now(plan);
        value->value = nominal;
    }
    for (size_t o = 0; o < plan->offer_count && plan->samples > 0; o++) {
        double low = 0, high = 0, count = 0;
        for (size_t m = 0; m < plan->model_count; m++) {
            if (plan->chosen[m][o] != SIZE_MAX) {
                low += plan->jobs[m][o][plan->chosen[m][o]].rate_low;
                high += plan->jobs[m][o][plan->chosen[m][o]].rate_high;
                count++;
            }
        }
        if (count == 0) {
            continue;
        }
        struct procurement_swing *swing = &plan->swings[plan->swing_count++];
        *swing = (struct procurement_swing){ .low = low / count, .high = high / count, .given_range = true };
        snprintf(swing->key, sizeof swing->key, "predicted speed on %s", plan->offers[o].name);
        plan->rate_factor[o] = swing->low;
        swing->cost_low = cost_now(plan);
        plan->rate_factor[o] = swing->high;
        swing->cost_high = cost_now(plan);
        plan->rate_factor[o] = 1;
    }
    procurement_prepare(plan);
    qsort(plan->swings, plan->swing_count, sizeof plan->swings[0], by_swing);
}

/* ---- break-even: the price of one offer over that of the first at which the whole demand costs the same on either */

/* GPUs of this offer alone for the whole demand, without rounding, and the mean kW they draw. sample < 0: at the predicted speed. */
static bool alone_need(const struct procurement *plan, size_t o, int sample, double *gpus, double *board_kw)
{
    *gpus = *board_kw = 0;
    for (size_t m = 0; m < plan->model_count; m++) {
        if (plan->chosen[m][o] == SIZE_MAX) {
            return false;
        }
        const struct procurement_job *job = &plan->jobs[m][o][plan->chosen[m][o]];
        double jobs = procurement_demand_of(plan, &plan->models[m], procurement_last_year(plan)) / (job->examples_per_day * procurement_speed(job, sample));
        *gpus += jobs * job->gpus;
        *board_kw += jobs * job->gpus * job->watts * 1e-3;
    }
    return true;
}

/* Money for a unit of price (a node bought, or a GPU hour leased) and what is spent beside the price. */
static void spent_of(const struct procurement *plan, size_t o, double gpus, double board_kw, double *units, double *beside)
{
    const struct procurement_offer *offer = &plan->offers[o];
    double years = procurement_number(plan, plan->years, 1), hours = years * HOURS_PER_YEAR, spare = 1 + procurement_number(plan, plan->spare_share, 0);
    double nodes = gpus * spare / offer->gpus_per_node;
    double boards = offer->gpus_per_node * reckon_device_chip(offer->open)->power_board_limit * 1e-3;
    double host_kw = nodes * fmax(procurement_number(plan, offer->node_kw, 0) - boards, 0);
    double per_rack = fmin(procurement_number(plan, plan->rack_slots, 1), floor(procurement_number(plan, plan->rack_kw, 1) / procurement_number(plan, offer->node_kw, 1)));
    *units = offer->node_price >= 0 ? nodes : nodes * offer->gpus_per_node * hours;
    *beside = (host_kw + board_kw) * procurement_number(plan, plan->pue, 1) * hours * procurement_number(plan, plan->power_price, 0) +
              nodes * procurement_number(plan, offer->opex_per_node_year, 0) * years + nodes / fmax(per_rack, 1) * procurement_number(plan, plan->rack_price, 0);
}

static double price_of(const struct procurement *plan, size_t o)
{
    const struct procurement_offer *offer = &plan->offers[o];
    return procurement_number(plan, offer->node_price >= 0 ? offer->node_price : offer->gpu_hour_price, NAN);
}

static double ratio_at(const struct procurement *plan, size_t o, int sample)
{
    double gpus[2], kw[2], units[2], beside[2];
    if (!alone_need(plan, 0, sample, &gpus[0], &kw[0]) || !alone_need(plan, o, sample, &gpus[1], &kw[1])) {
        return NAN;
    }
    spent_of(plan, 0, gpus[0], kw[0], &units[0], &beside[0]);
    spent_of(plan, o, gpus[1], kw[1], &units[1], &beside[1]);
    return (units[0] * price_of(plan, 0) + beside[0] - beside[1]) / units[1] / price_of(plan, 0);
}

static void find_break_even(struct procurement *plan, size_t o)
{
    struct procurement_break_even *even = &plan->break_even[o];
    double kw = 0;
    bool same_kind = (plan->offers[o].node_price >= 0) == (plan->offers[0].node_price >= 0);
    for (size_t m = 0; m < plan->model_count; m++) {
        for (size_t k = 0; k < 2; k++) {
            size_t which = k == 0 ? 0 : o;
            if (plan->chosen[m][which] == SIZE_MAX && even->reason[0] == '\0') {
                snprintf(even->reason, sizeof even->reason, "%s cannot run %s", plan->offers[which].name, plan->models[m].name);
            }
        }
    }
    if (even->reason[0] == '\0' && !same_kind) {
        snprintf(even->reason, sizeof even->reason, "one of the two is bought and the other leased");
    }
    if (even->reason[0] == '\0' && !(price_of(plan, 0) > 0)) {
        snprintf(even->reason, sizeof even->reason, "%s costs nothing", plan->offers[0].name);
    }
    if (even->reason[0] != '\0') {
        return;
    }
    even->possible = true;
    even->ratio = ratio_at(plan, o, -1);
    even->given = price_of(plan, o) / price_of(plan, 0);
    alone_need(plan, o, -1, &even->gpus, &kw);
    even->low = even->high = NAN;
    if (plan->samples > 0) {
        double *ratios = malloc(plan->samples * sizeof *ratios);
        SIM_ASSERT(ratios != NULL, "no memory for %u samples", plan->samples);
        for (uint32_t s = 0; s < plan->samples; s++) {
            ratios[s] = ratio_at(plan, o, (int)s);
        }
        interval_of(ratios, plan->samples, &even->low, &even->high);
        free(ratios);
    }
}

enum sim_status procurement_solve(struct reckon *reckon, struct procurement *plan, struct sim_error *error)
{
    enum sim_status status = predict_all(reckon, plan, error);
    if (status != SIM_OK) {
        return status;
    }
    procurement_prepare(plan);
    for (size_t m = 0; m < plan->model_count; m++) {
        bool any = false;
        for (size_t o = 0; o < plan->offer_count; o++) {
            any = any || plan->chosen[m][o] != SIZE_MAX;
        }
        if (!any) {
            return refuse_model(plan, m, error);
        }
    }
    procurement_search(plan, -1, &plan->limits, PLAN_GOAL_COST, &plan->mix);
    if (!plan->mix.found) {
        return refuse_mix(plan, error);
    }
    for (size_t o = 0; o < plan->offer_count; o++) {
        procurement_search(plan, (int)o, &plan->limits, PLAN_GOAL_COST, &plan->alone[o]);
        find_break_even(plan, o);
    }
    find_headroom(plan);
    find_cost_interval(plan);
    find_swings(plan);
    return SIM_OK;
}

size_t procurement_device_count(const struct procurement *plan)
{
    size_t count = 0;
    for (size_t o = 0; o < plan->offer_count; o++) {
        bool seen = false;
        for (size_t p = 0; p < o; p++) {
            seen = seen || strcmp(plan->offers[p].device, plan->offers[o].device) == 0;
        }
        count += !seen;
    }
    return count;
}

const struct chip_profile *procurement_chip(const struct procurement *plan, size_t index)
{
    for (size_t o = 0; o < plan->offer_count; o++) {
        bool seen = false;
        for (size_t p = 0; p < o; p++) {
            seen = seen || strcmp(plan->offers[p].device, plan->offers[o].device) == 0;
        }
        if (!seen && index-- == 0) {
            return reckon_device_chip(plan->offers[o].open);
        }
    }
    return NULL;
}
