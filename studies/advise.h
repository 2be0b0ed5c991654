/* What would make a step shorter: fixes of its kernels and collectives, and changes of the model, each priced by playing the whole
 * step again, ranked by what it gains. Those that do not pay are answers too. */
#ifndef STUDIES_ADVISE_H
#define STUDIES_ADVISE_H
#include "sim/reckon.h"
#include <stddef.h>

enum advice_kind { ADVICE_FIX, ADVICE_LEVER, ADVICE_DESIGN };

struct advice {
    enum advice_kind kind;
    char change[96];   /* as predict takes it: "fix=NAME@suite/kernel", "batch=16384" */
    char program[64];  /* which it is for; "" for changes of the model */
    double share;      /* of the GPU time that the program holds before */
    char trigger[160]; /* when it is worth a look, */
    bool triggered;    /* and whether that is so here */
    char cost[160];    /* memory, registers, accuracy, effort */
    char refused[200]; /* why it could not be priced or changes nothing; "" it was priced */
    bool priced;
    double step_ms, gain, gain_low, gain_high; /* gain: time per example before over after, minus 1; 80% interval */
    double step_ms_low, step_ms_high;          /* of the samples; NAN without: not asked for, or not worth it */
    double memory_gib_change;                  /* NAN: not known */
};

#define ADVICE_COMBINED_MAX 8

struct advise_result {
    char device[32], source[256];
    uint32_t samples;               /* 0: none asked for */
    double step_ms, examples_per_s; /* as it is; with samples, the median of them */
    double step_ms_low, step_ms_high; /* NAN without samples */
    double host_ms, gpu_busy_ms;
    size_t count;
    struct advice *advice; /* most gain first; those not priced last */
    /* The best together, one after the other in order of their gains, each kept where it still gains beside those before. */
    size_t combined_count;
    size_t combined[ADVICE_COMBINED_MAX]; /* into advice */
    double combined_step_ms, combined_step_ms_low, combined_step_ms_high;
    double combined_gain, combined_gain_low, combined_gain_high, summed_gain;
    uint64_t asked, found; /* prices */
};

#define ADVICE_WORTH 0.005 /* gain below which a change is not worth it */
#define ADVISE_COMBINE_GAIN 0.002 /* what a change must still gain beside those before it, to be put with them */

struct advise_request {
    const struct reckon_source *source;
    const char *const *settings; /* of the step as it is */
    size_t setting_count;
    uint32_t jobs;
    uint32_t samples; /* of the step as it is, with each change that is worth it, and with all that go together; 0: none */
    void (*progress)(void *context, const char *what, size_t done, size_t total); /* NULL: silent */
    void *progress_context;
};

/* Forks workers that share the session's prices (reckon_share_prices, called here). Errors: as reckon_point of the step as it is;
 * SIM_DOES_NOT_FIT and SIM_UNSUPPORTED when that has no time. */
enum sim_status advise_run(struct reckon *reckon, struct reckon_device *device, const struct advise_request *request,
                           struct advise_result **out, struct sim_error *error);
void advise_result_free(struct advise_result *result); /* NULL is allowed */
struct json *advise_json(const struct advise_result *result);

#endif
