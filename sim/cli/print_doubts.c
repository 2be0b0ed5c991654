#include "sim/cli/print_doubts.h"
#include <math.h>
#include <stdio.h>

static void print_drivers(const struct reckon_interval *interval)
{
    for (size_t i = 0; i < interval->driver_count; i++) {
        const struct reckon_driver *driver = &interval->drivers[i];
        printf("  %3.0f%%  %-44s %-8s %+.0f%% over its range\n", driver->share * 100, driver->key, driver->kind,
               driver->effect * 100);
    }
    if (interval->driver_count == 0) {
        printf("  no value stands out\n");
    }
}

static void print_ratio(const struct reckon_doubts *doubts, const char *const *names, size_t d)
{
    const struct reckon_interval *ratio = &doubts->ratio[d];
    printf("%s takes %.2fx the time of %s [%.2f, %.2f]", names[d], ratio->median, names[0], ratio->low, ratio->high);
    if (ratio->driver_count > 0) {
        printf(", mostly because of %s (%s)", ratio->drivers[0].key, ratio->drivers[0].kind);
    }
    putchar('\n');
    print_drivers(ratio);
}

void print_doubts(const struct reckon_doubts *doubts, const char *const *names, const char *unit)
{
    printf("\ndoubt: %u samples of %zu unknowns: values that nobody measured, each within its range, and the model's own "
           "error; 80%% intervals\n",
           doubts->samples, doubts->value_count);
    for (size_t d = 0; d < doubts->device_count; d++) {
        const struct reckon_interval *time = &doubts->time[d];
        printf("%s  %.4g %s [%.4g, %.4g]", names[d], time->median, unit, time->low, time->high);
        if (isfinite(time->anew)) {
            printf(", kernels of %.0f%% of the time simulated anew, the others as those of their limiter", time->anew * 100);
        }
        printf("\n");
        print_drivers(time);
    }
    for (size_t d = 1; d < doubts->device_count; d++) {
        print_ratio(doubts, names, d);
    }
}

struct json *doubts_json(const struct reckon_doubts *doubts, size_t d)
{
    struct json *object = reckon_interval_json(&doubts->time[d]);
    json_set_integer(object, "samples", doubts->samples);
    json_set_integer(object, "values", (int64_t)doubts->value_count);
    if (d > 0) {
        json_set(object, "ratio_to_first", reckon_interval_json(&doubts->ratio[d]));
    }
    return object;
}

struct json *doubts_answers(struct json *const *objects, const double *figure, size_t count, const struct reckon_doubts *doubts)
{
    struct json *list = count > 1 ? json_new_array() : NULL;
    for (size_t i = 0; i < count; i++) {
        double ratio = figure[i] / figure[0];
        if (count > 1 && isfinite(ratio)) {
            json_set_number(objects[i], "time_to_first", ratio);
        }
        if (doubts != NULL) {
            json_set(objects[i], "uncertainty", doubts_json(doubts, i));
        }
        if (count > 1) {
            json_append(list, objects[i]);
        }
    }
    return count > 1 ? list : objects[0];
}
