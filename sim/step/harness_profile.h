/* What a measuring program adds to device time, and the cache state it leaves before a measured call: a small profile of
 * that program (devices/harness/NAME.json), fitted once, never per row, and never part of the chip. */
#ifndef SIM_STEP_HARNESS_PROFILE_H
#define SIM_STEP_HARNESS_PROFILE_H
#include "sim/core/status.h"
#include "sim/step/kernel_price_loop.h"
#include "sim/step/value_table.h"
#include <stdbool.h>
#include <stddef.h>

enum harness_cache {
    HARNESS_CACHE_PROGRAM, /* as the kernel's wave program says: the state its own benchmark leaves */
    HARNESS_CACHE_CLEAN,
    HARNESS_CACHE_OWN,
    HARNESS_CACHE_PREDECESSOR,
    HARNESS_CACHE_FLUSHED,
    HARNESS_CACHES
};

struct harness_coverage {
    char suite[32],
        kernel[48]; /* kernel "": all of the suite; else one kernel, which wins over the suite's entry */
    char params[64]; /* "key=value;...": what its program is where a row does not say; "": nothing */
    enum harness_cache cache;
    double call_us; /* host time of one measured call: no measurement is below it; 0: the host runs ahead */
    double lead_us; /* the device waits for the host this long between the first event and the call's launch; 0: queued */
    struct kernel_price_loop loop; /* how it repeats the call, as board power sees it */
};

struct harness_profile {
    char name[32], title[128];
    double empty_us;           /* what the program reads for an empty kernel */
    double launch_interval_us; /* least time between calls that the program's host makes */
    double inner_interval_us;  /* least time between the launches that one call makes */
    struct value_kinds kinds;
    size_t coverage_count, library_count;
    struct harness_coverage coverage[48];
    char libraries[16][32]; /* library= values of tables that this program's profile speaks for */
};

enum sim_status harness_profile_read(const char *path, struct harness_profile *harness,
                                     struct sim_error *error);

/* Entry that covers (suite, kernel), or NULL. A harness with libraries covers only rows that name one of them
 * (`library`, NULL when the row names none), and one without covers only rows that name none. */
const struct harness_coverage *harness_covers(const struct harness_profile *harness, const char *suite,
                                              const char *kernel, const char *library);

/* The name in the harness's list that equals `library`; NULL where there is none. Borrowed from the harness. */
const char *harness_library(const struct harness_profile *harness, const char *library);

/* What the program adds to the device's time once per measured call: what it reads for an empty kernel less what an empty
 * kernel takes. */
double harness_floor_us(const struct harness_profile *harness, const struct chip_profile *chip);

/* Least time between the launches of a kernel: calls in a row, or what one call makes, which is none where the device is
 * still flushing its cache when the host is through with them. */
double harness_interval_us(const struct harness_profile *harness, const struct harness_coverage *coverage,
                           bool launches_are_calls);

/* "program", "clean", ...; -1 from parse when unknown. */
const char *harness_cache_text(enum harness_cache cache);
int harness_cache_parse(const char *text);

#endif
