/* The core clock that board power leaves to dense kernels of a step: a first, static governor. It knows two consumers above
 * idle: the matrix units and the HBM, each by its mean use over the step. */
#ifndef SIM_STEP_GOVERNOR_H
#define SIM_STEP_GOVERNOR_H
#include "sim/core/chip_profile.h"

/* Means over a step, 0..1: of the matrix units' rate at the clock they ran at, and of the HBM's data bus. Result in MHz,
 * within clock.core_dense..clock.core_max.
 *
 * Model. Above idle, sustained dense work takes the whole budget at clock.core_dense; its power goes with the clock to the
 * power 1.5 (voltage falls with it) and with the share of time it runs; a saturated HBM takes half the budget.
 * Source: calib/data/h200/power.csv (dense bf16 at duties 0.25 to 1 beside idling and copies, within 6%); that other
 * devices split their budget alike is an assumption. */
double governor_core_mhz(const struct chip_profile *chip, double matrix_share, double hbm_share);

#endif
