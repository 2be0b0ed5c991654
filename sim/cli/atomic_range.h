/* What a kernel's time owes to numbers of the atomic unit that nobody has published: of kind
 * assumed or derived in the profile, with a range. */
#ifndef SIM_CLI_ATOMIC_RANGE_H
#define SIM_CLI_ATOMIC_RANGE_H
#include "sim/reckon.h"

/* A kernel leans on its atomics from this share of its time on. */
#define ATOMIC_RANGE_LEANS 0.02
/* A value (or all of them) matters when an end of its range moves the time by more. */
#define ATOMIC_RANGE_MOVES 0.01

/* Whether `index` is such a number. */
bool atomic_range_unpublished(const struct chip_profile *chip, enum chip_number index);

/* Time of `request` with the numbers of `indices` at their low (or high) end; the device is as before afterwards. */
enum sim_status atomic_range_price(struct reckon *reckon, struct reckon_device *device,
                                   const struct reckon_kernel_request *request,
                                   const enum chip_number *indices, size_t count, bool high, double *us,
                                   struct sim_error *error);

/* One note on `kernel`, an answer to `request`: its time with all of them low, and high. None where it does not lean on
 * atomics, all is published, or neither moves it. Costs two more answers. */
enum sim_status atomic_range_note(struct reckon *reckon, struct reckon_device *device,
                                  const struct reckon_kernel_request *request, struct reckon_kernel *kernel,
                                  struct sim_error *error);

#endif
