/* What a vendor's library makes of a matrix product, against the selector's tile: an efficiency by class of shape
 * (devices/libraries/NAME.json), fitted on tables, never by shape. Libraries pick from a menu that was built for large
 * products; where a round of large tiles leaves most units idle, or sizes are odd, they are far from the best tile. */
#ifndef SIM_STEP_LIBRARY_PROFILE_H
#define SIM_STEP_LIBRARY_PROFILE_H
#include "sim/core/status.h"
#include "sim/step/value_table.h"
#include "workloads/kernels/kernel.h"

struct library_class {
    char name[64];
    char dtypes[32], trans[16];   /* "bf16|fp16"; "": any */
    double side_least, side_most; /* of M and N, the smaller */
    double n_most;
    double k_least, k_most;
    double fill_least, fill_below; /* units that large tiles keep busy, of the rounds they take, 0..1 */
    double multiple;               /* N is no multiple of it; 0: whatever N is */
    double efficiency;             /* of the selector's rate, 0..1 */
    double low, high;              /* of the efficiency */
    enum profile_kind kind;
    uint64_t source; /* hash of its text */
};

struct library_profile {
    char name[32], title[128];
    size_t table_count, device_count;
    char tables[16][32];  /* library= of tables that it speaks for */
    char devices[16][32]; /* whose products are its own where no library is named */
    double large_tile;    /* rows and columns of its large tiles */
    struct value_kinds kinds;
    size_t class_count;
    struct library_class classes[16]; /* the first that holds counts */
};

struct library_set {
    size_t count;
    struct library_profile *libraries; /* [count], owned */
};

enum sim_status library_profile_read(const char *path, struct library_profile *library, struct sim_error *error);
/* All of devices/libraries. */
enum sim_status library_set_read(struct library_set *set, struct sim_error *error);
void library_set_finish(struct library_set *set); /* zeroed memory is allowed */

/* The library of a table's library=, or of a device where `table` is NULL; NULL: none, every product runs the selector's tile. */
struct library_profile *library_set_find(const struct library_set *set, const char *table, const char *device);

/* The class that a product falls in on a chip of `units`; NULL: as good as the selector's. */
const struct library_class *library_class_of(const struct library_profile *library, double units,
                                             const struct kernel_product *product);

#endif
