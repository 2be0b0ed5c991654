/* A traced library kernel on another device: its tile, stages, split and cluster were that device's library's choice, and
 * another device's library makes its own. Shapes, types and layouts stay. */
#ifndef SIM_STEP_RECHOOSE_H
#define SIM_STEP_RECHOOSE_H
#include <stdbool.h>
#include <stddef.h>

#define RECHOOSE_PARAMS_CAPACITY 256

/* False when (suite, kernel) carries no such choice, or the rest of its parameters does not fit: use it as traced. Else the
 * kernel that chooses by itself (static text) and its parameters. */
bool rechoose(const char *suite, const char *kernel, const char *params, const char **kernel_out,
              char params_out[RECHOOSE_PARAMS_CAPACITY]);

#endif
