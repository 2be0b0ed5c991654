/* Fixes of a whole step, as text: "NAME[@WHERE]+NAME[@WHERE]+...". NAME is a fix of kernels (workloads/kernels/fix.h), a lever of
 * collectives (sim/fabric/fabric.h) or "stream-k" of matrix products; WHERE is "suite/kernel" or "collective/KIND" and limits it
 * to that program; without it every program that takes the fix gets it.
 *
 * Beside the fixes of kernels stands the input they work on: which rows are looked up, for traces, which do not say. */
#ifndef SIM_STEP_STEP_FIXES_H
#define SIM_STEP_STEP_FIXES_H
#include "sim/core/status.h"
#include "sim/fabric/fabric.h"
#include <stdbool.h>
#include <stddef.h>

#define STEP_FIX_TEXT_CAPACITY 64 /* of one NAME@WHERE */

/* NULL or "" is none. SIM_UNKNOWN_NAME lists the names; SIM_BAD_ARGUMENT: an empty name, the same fix twice. */
enum sim_status step_fixes_check(const char *fixes, struct sim_error *error);

/* The index-th NAME[@WHERE]; false behind the last. */
bool step_fixes_at(const char *fixes, size_t index, char *item, size_t capacity);

/* Parameters of (suite, kernel) with the fixes it takes: "PARAMS;fix=A+B". False when it takes none of them, or has a fix among
 * its parameters already, or the text does not fit. */
bool step_fixes_of_kernel(const char *fixes, const char *suite, const char *kernel, const char *params, char *out,
                          size_t capacity);

/* Calls use(context, name) for each fix that may change collectives of `kind`, in the order given. */
void step_fixes_of_collective(const char *fixes, const char *kind, void (*use)(void *context, const char *name), void *context);

/* Parameters with `inputs` ("alpha=1.2;hot_share=0.1") where the kernel looks rows up and they say nothing of which. */
bool step_inputs_of_kernel(const char *inputs, const char *suite, const char *params, char *out, size_t capacity);

#endif
