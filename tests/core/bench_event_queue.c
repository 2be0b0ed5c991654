/* Host speed of the event queue under a steady load: `depth` events pending, each fire schedules itself again.
 * The work is fixed and the answer is checked against a closed form: an event of period p fires floor(T / p) times until T.
 * Loads: "spread" has periods all over; "clusters" lets 64 events share each instant, as waves that meet at a barrier do.
 * Bar: 20 M schedule+fire per second at depth 4,096 and 10 M at 100,000, each on one core. */
#include "reckon_version.h"
#include "sim/core/event_queue.h"
#include "sim/core/hash.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define RUNS 5
#define FIRES_AIMED 4000000u

struct ticker {
    struct event event;
    uint64_t period_ps, fires;
};

static void tick(struct event *event, struct event_queue *queue)
{
    struct ticker *ticker = (struct ticker *)event;
    ticker->fires++;
    event_queue_schedule(queue, event, (sim_time){ event->at.ps + ticker->period_ps });
}

/* Of this process, so that a busy machine does not count. */
static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Periods of 0.5 to 1.5 us, so that an event fires about once a microsecond. */
static uint64_t period_of(size_t index, size_t cluster)
{
    return 500000 + hash64_mix(index / cluster + 1) % 1000001;
}

static int bench(const char *load, size_t depth, size_t cluster, double bar)
{
    uint64_t until_ps = FIRES_AIMED * UINT64_C(1000000) / depth;
    double fire_rate[RUNS], setup_s = 0;
    for (int run = 0; run < RUNS; run++) {
        double start = seconds_now();
        struct event_queue *queue = event_queue_create(depth);
        struct ticker *tickers = calloc(depth, sizeof *tickers);
        if (tickers == NULL) {
            return 1;
        }
        for (size_t i = 0; i < depth; i++) {
            tickers[i].event.fire = tick;
            tickers[i].period_ps = period_of(i, cluster);
            event_queue_schedule(queue, &tickers[i].event, (sim_time){ tickers[i].period_ps });
        }
        double begin = seconds_now();
        uint64_t fired = event_queue_run_until(queue, (sim_time){ until_ps });
        double end = seconds_now();
        uint64_t expected = 0;
        for (size_t i = 0; i < depth; i++) {
            expected += until_ps / tickers[i].period_ps;
            if (tickers[i].fires != until_ps / tickers[i].period_ps) {
                fprintf(stderr, "event %zu fired %lu times, expected %lu\n", i, tickers[i].fires,
                        until_ps / tickers[i].period_ps);
                return 1;
            }
        }
        if (fired != expected) {
            fprintf(stderr, "fired %lu, expected %lu\n", fired, expected);
            return 1;
        }
        fire_rate[run] = (double)fired / (end - begin);
        setup_s = begin - start;
        event_queue_destroy(queue);
        free(tickers);
    }
    qsort(fire_rate, RUNS, sizeof *fire_rate, compare_doubles);
    double median = fire_rate[RUNS / 2];
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%-9s depth %7zu: %5.1f M/s median, %5.1f least, %5.1f best; %4.1f ns per event; set-up %.2f ms; "
           "%.3g simulated "
           "us per CPU s; peak %ld MiB; 0 allocations in the loop; bar %.0f M/s: %s\n",
           load, depth, median * 1e-6, fire_rate[0] * 1e-6, fire_rate[RUNS - 1] * 1e-6, 1e9 / median,
           setup_s * 1e3, (double)until_ps * 1e-6 * median / (double)FIRES_AIMED, usage.ru_maxrss / 1024,
           bar * 1e-6, fire_rate[RUNS - 1] >= bar ? "met" : "MISSED");
    return 0;
}

int main(void)
{
    printf("event queue, commit %s, %s, %d runs\n", RECKON_COMMIT, __VERSION__, RUNS);
    return bench("spread", 4096, 1, 20e6) || bench("clusters", 4096, 64, 20e6) ||
           bench("spread", 100000, 1, 10e6) || bench("clusters", 100000, 64, 10e6) ||
           bench("spread", 16, 1, 20e6);
}
