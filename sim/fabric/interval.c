/* Interval of a collective's time from the ranges of the node's numbers. */
#include "sim/fabric/node_profile_internal.h"
#include <math.h>

#define EXPLICIT_RANKS_MAX 16 /* each number costs two solutions */

/* The call again with one number changed; NAN when it then cannot run. */
static double time_with(struct node_profile *node, const char *key, double value,
                        const struct collective_request *request, enum fabric_engine engine)
{
    struct collective_result result;
    struct sim_error error;
    double *number = node_profile_number(node, key), was = *number;
    *number = value;
    enum sim_status status = collective_time(node, request, engine, &result, &error);
    *number = was;
    return status == SIM_OK ? result.time_us : NAN;
}

bool collective_interval(const struct node_profile *node, const struct collective_request *request,
                         const struct collective_result *result, enum fabric_engine engine, double *low_us,
                         double *high_us)
{
    struct node_profile changed = *node; /* borrows the texts */
    struct collective_request same = *request;
    double below = 0, above = 0;
    bool is_explicit = request->explicit_flows || request->split_bytes != NULL;
    if (is_explicit && (double)request->gpus * request->nodes > EXPLICIT_RANKS_MAX) {
        return false;
    }
    same.algorithm = result->algorithm;
    same.protocol = result->protocol;
    for (size_t i = 0; i < node_profile_number_count(); i++) {
        struct node_profile_value value;
        if (!node_profile_number_at(node, i, &value) || !(value.low < value.high)) {
            continue;
        }
        double at_low = time_with(&changed, value.key, value.low, &same, engine);
        double at_high = time_with(&changed, value.key, value.high, &same, engine);
        double least = fmin(at_low, at_high), most = fmax(at_low, at_high);
        below += least < result->time_us ? pow(result->time_us - least, 2) : 0;
        above += most > result->time_us ? pow(most - result->time_us, 2) : 0;
    }
    *low_us = fmax(result->time_us - sqrt(below), 0);
    *high_us = result->time_us + sqrt(above);
    return true;
}
