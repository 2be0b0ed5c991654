/* What the files behind platform.h share. */
#ifndef SIM_FABRIC_PLATFORM_INTERNAL_H
#define SIM_FABRIC_PLATFORM_INTERNAL_H
#include "sim/fabric/platform.h"
#include <stdio.h>

/* In simgrid_engine.c: have SimGrid load `path` in a child process and write what it finds as lines into `out`:
 *   H name          a host
 *   L name rate latency shared    a link; GB/s, us, 0 or 1
 *   R i j k k ...   the route from host i to host j over these links (indices in order of the L lines)
 *   X i j           there is no such route; the last line
 * A child that dies while it looks for a route leaves out the line. Returns the read end, or NULL: no pipe or no process;
 * *pid is then to be waited for. */
FILE *simgrid_platform_lines(const char *path, int *pid);

#endif
