/* What the files of the plan share. Amounts of money are in the demand's own currency. */
#ifndef STUDIES_PROCUREMENT_INTERNAL_H
#define STUDIES_PROCUREMENT_INTERNAL_H
#include "studies/procurement.h"

enum { PLAN_MODELS_MAX = 24, PLAN_OFFERS_MAX = 6, PLAN_COUNTS_MAX = 8, PLAN_SETTINGS_MAX = 16, PLAN_VALUES_MAX = 160, PLAN_YEARS_MAX = 10 };

/* A number of the demand, with its range: what the sensitivity goes through. */
struct procurement_value {
    char key[80];    /* "offers.mi350x.node_price" */
    double value, low, high;
    bool given_range; /* low and high are the demand's, not a tenth either way */
    bool known;       /* in the demand; else value is the default and stays */
    char source[160];
};

/* Indices into plan->values; -1 where the demand does not say. */
struct procurement_model {
    char name[48], path[1024];
    char settings[PLAN_SETTINGS_MAX][96];
    const char *setting_pointers[PLAN_SETTINGS_MAX];
    size_t setting_count;
    uint32_t counts[PLAN_COUNTS_MAX]; /* GPUs a job may have */
    size_t count_count;
    bool one_job; /* `examples` within `days` by a single job; else as many jobs side by side as it takes */
    int examples_per_day, examples, days, growth;
};

struct procurement_offer {
    char name[48], device[64], node[64];
    uint32_t gpus_per_node;
    int node_price, gpu_hour_price, node_kw, opex_per_node_year;
    double nodes_max; /* INFINITY: as many as one likes */
    struct reckon_device *open;
};

struct procurement_limits { /* INFINITY: none */
    double kw, racks, capital, nodes;
};

/* One model on one offer with jobs of one size. */
struct procurement_job {
    bool possible;
    char reason[200]; /* why not */
    uint32_t gpus;
    double step_ms, examples_per_s, watts; /* predicted; watts: mean of a GPU */
    double peak_gib, reserve_gib, capacity_gib, state_gib; /* state: of a GPU, what a checkpoint holds */
    double rate_low, rate_high; /* examples_per_s over its nominal, 10% and 90%; 1 without samples */
    double *rate_samples;       /* [plan->samples], or NULL */
    /* goodput, from procurement_goodput */
    double mtbf_hours, checkpoint_s, interval_s, goodput_failures, goodput_checks, goodput;
    double examples_per_day; /* useful ones */
};

struct procurement_mix {
    bool found, cut; /* cut: the search ended at its bound of steps */
    double jobs[PLAN_MODELS_MAX][PLAN_OFFERS_MAX];
    double nodes[PLAN_OFFERS_MAX], racks[PLAN_OFFERS_MAX], kw_rated[PLAN_OFFERS_MAX], kw_mean[PLAN_OFFERS_MAX];
    double capital[PLAN_OFFERS_MAX], lease[PLAN_OFFERS_MAX], energy[PLAN_OFFERS_MAX], upkeep[PLAN_OFFERS_MAX], rack_cost[PLAN_OFFERS_MAX];
    double cost;
};

struct procurement_headroom { /* the most that still fits; NAN: not of this model */
    double layers, layers_now, rows, rows_now, sequence, sequence_now;
    bool layers_more, rows_more, sequence_more; /* that was as far as was looked: more may fit */
};

struct procurement_swing {
    char key[80];
    double low, high;           /* of the assumption */
    double cost_low, cost_high; /* of the plan there; NAN: no mix meets the demand there */
    bool given_range;
};

struct procurement_break_even {
    bool possible;
    char reason[200];
    double ratio, low, high; /* price of a node (or GPU hour) over the reference's at which both cost alike */
    double given;            /* the ratio of the prices in the demand; NAN: one is bought and the other leased */
    double gpus;             /* of this offer alone for the whole demand, without rounding */
};

struct procurement {
    char path[1024], name[96], currency[16], note[240];
    bool example_prices;
    size_t model_count, offer_count, value_count;
    struct procurement_model models[PLAN_MODELS_MAX];
    struct procurement_offer offers[PLAN_OFFERS_MAX];
    struct procurement_value values[PLAN_VALUES_MAX];
    int years, power_price, pue, rack_kw, rack_slots, rack_price, gpu_mtbf, node_mtbf, restart, checkpoint_rate, silent_mtbf,
        check_interval, check_share, spare_share;
    struct procurement_limits limits;
    uint32_t samples;
    uint64_t window_requests; /* as reckon_predict_request's */
    /* answers */
    double anew_least, anew_most; /* over models and offers: share of a step's kernel time that each sample simulates anew */
    struct procurement_job jobs[PLAN_MODELS_MAX][PLAN_OFFERS_MAX][PLAN_COUNTS_MAX];
    size_t chosen[PLAN_MODELS_MAX][PLAN_OFFERS_MAX]; /* index of the GPU count taken, or SIZE_MAX */
    struct procurement_mix mix, alone[PLAN_OFFERS_MAX];     /* the answer, and each offer by itself */
    struct procurement_headroom headroom[PLAN_MODELS_MAX][PLAN_OFFERS_MAX];
    struct procurement_swing swings[PLAN_VALUES_MAX + PLAN_OFFERS_MAX];
    size_t swing_count;
    struct procurement_break_even break_even[PLAN_OFFERS_MAX];
    double cost_low, cost_high;          /* of the cheapest mix, 10% and 90% of the samples; NAN without samples, or where one has no mix */
    double rate_factor[PLAN_OFFERS_MAX]; /* a change of the predicted speed, for the sensitivity; 1 */
    int sample;                          /* every speed at this sample; -1: as predicted */
};

double procurement_number(const struct procurement *plan, int index, double otherwise);

/* Speed of a job over the predicted one in a sample; 1 for sample -1 and without samples. */
double procurement_speed(const struct procurement_job *job, int sample);

/* Useful share of the time of a job, and how often it writes a checkpoint. */
void procurement_goodput(const struct procurement *plan, const struct procurement_offer *offer, struct procurement_job *job);

/* Examples a day that the model wants in year `year` (0: the first); of one_job models, examples over days. */
double procurement_demand_of(const struct procurement *plan, const struct procurement_model *model, double year);
double procurement_last_year(const struct procurement *plan);

enum procurement_goal { PLAN_GOAL_COST, PLAN_GOAL_KW, PLAN_GOAL_RACKS, PLAN_GOAL_CAPITAL, PLAN_GOAL_NODES };

/* Refresh goodputs and choose job sizes, then search. only: index of the one offer allowed, or -1. limits NULL: none. */
void procurement_prepare(struct procurement *plan);
void procurement_search(const struct procurement *plan, int only, const struct procurement_limits *limits, enum procurement_goal goal, struct procurement_mix *mix);
double procurement_goal_of(const struct procurement_mix *mix, enum procurement_goal goal);

#endif
