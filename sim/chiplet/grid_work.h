/* How a grid's work falls on dies and units when its workgroups are unlike in length. Private to sim/chiplet. */
#ifndef SIM_CHIPLET_GRID_WORK_H
#define SIM_CHIPLET_GRID_WORK_H
#include <stdint.h>

#include "sim/core/wave_program.h"

#define GRID_DIES_MAX 16
#define GRID_RESIDENT_MAX 64
#define GRID_UNLIKE 0.1 /* variation above which no few workgroups stand for the others; up to it nothing more is walked */

struct grid_work {
    uint32_t dies;        /* workgroup n is dealt to die n mod dies, whatever the others do */
    double variation;     /* of a workgroup's work units, standard deviation over mean */
    double share[GRID_DIES_MAX]; /* a die's work units over the mean of all dies; sums to `dies` */
    float *units;         /* [workgroups] of each, owned; NULL: alike, or more of them than are walked one by one */
    uint64_t longest;     /* workgroup with the most units, where `units` is given */
    uint64_t workgroups;
};

/* Walks programs without timing them: every workgroup, or as many as a bound of calls allows, picked alike for every die; a wave of
 * each where its waves do the same. Shares closer to 1 than the pick can tell, or than 1%, are given as 1.
 * Requires 0 < dies <= GRID_DIES_MAX. */
struct grid_work grid_work_of(const struct wave_program *program, uint32_t dies);
void grid_work_finish(struct grid_work *work);

/* The machine that a grid is dealt out to. */
struct grid_slots {
    uint32_t units;    /* per die */
    uint32_t resident; /* workgroups on a unit */
    double alone;      /* times as fast runs a workgroup with a unit to itself as among `resident` (>= 1) */
    double die_alone;  /* times as fast runs a die by itself as among all (>= 1) */
};

/* The grid's time over that of its work dealt out evenly with every slot always taken (>= 1). Workgroups start in order as slots come
 * free, and share their unit; dies end one after the other, and the last run on as fast as what the others left allows. By the dies'
 * shares alone where the single workgroups were not walked. */
double grid_work_stretch(const struct grid_work *work, const struct grid_slots *slots);

#endif
