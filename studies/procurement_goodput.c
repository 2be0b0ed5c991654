/* Useful share of a job's time.
 *
 * Failures arrive at random: a job of G GPUs on N nodes has M = 1 / (G / mtbf_gpu + N / mtbf_node) between them. A checkpoint takes
 * d seconds; Young's interval between checkpoints is sqrt(2 d M), Daly's is the series below (J. T. Daly, Future Generation
 * Computer Systems 22, 2006, eq. 37), and the expected time to do T of work is M exp(R/M) (exp((tau + d)/M) - 1) T / tau (his eq. 20).
 * Silent corruption: a check every V hours takes a share of the time; what it finds throws away the work since the last check. */
#include "studies/procurement_internal.h"
#include <math.h>

#define GB_PER_GIB 1.073741824
#define SECONDS_PER_HOUR 3600.0

/* Daly's interval of work between checkpoints, same unit as its arguments. */
static double best_interval(double checkpoint, double mtbf)
{
    if (checkpoint >= 2 * mtbf) {
        return mtbf;
    }
    double x = checkpoint / (2 * mtbf);
    return sqrt(2 * checkpoint * mtbf) * (1 + sqrt(x) / 3 + x / 9) - checkpoint;
}

void procurement_goodput(const struct procurement *plan, const struct procurement_offer *offer, struct procurement_job *job)
{
    double nodes = ceil((double)job->gpus / offer->gpus_per_node);
    double mtbf = 1 / (job->gpus / procurement_number(plan, plan->gpu_mtbf, 1e9) + nodes / procurement_number(plan, plan->node_mtbf, 1e9));
    double restart = procurement_number(plan, plan->restart, 0) / 60; /* hours */
    /* Every GPU writes its own state; nodes write side by side. */
    double seconds = job->state_gib * GB_PER_GIB * job->gpus / (procurement_number(plan, plan->checkpoint_rate, 1) * nodes);
    double checkpoint = fmax(seconds, 1e-3) / SECONDS_PER_HOUR, interval = best_interval(checkpoint, mtbf);
    job->mtbf_hours = mtbf;
    job->checkpoint_s = seconds;
    job->interval_s = interval * SECONDS_PER_HOUR;
    job->goodput_failures = interval / (mtbf * exp(restart / mtbf) * expm1((interval + checkpoint) / mtbf));
    job->goodput_checks = 1;
    if (plan->silent_mtbf >= 0) {
        double every = procurement_number(plan, plan->check_interval, 1), found_per_hour = job->gpus / procurement_number(plan, plan->silent_mtbf, 1e12);
        job->goodput_checks = (1 - procurement_number(plan, plan->check_share, 0)) / (1 + (every + restart) * found_per_hour);
    }
    job->goodput = job->goodput_failures * job->goodput_checks;
}
