/* What a flow engine provides, and the table of them. Both slots are mandatory, and every engine passes the same
 * contract suite (tests/fabric/test_engines.c): max-min fair rates, finish times equal to 1e-9. */
#ifndef SIM_FABRIC_ENGINE_H
#define SIM_FABRIC_ENGINE_H
#include "sim/core/status.h"
#include "sim/fabric/fabric.h"
#include "sim/fabric/network.h"

struct fabric_engine_ops {
    const char *name, *summary;
    /* Rate of one member of each flow class while all flows are under way at once.
     * rate_gbs: [flow_count], written. Start times and bytes are ignored. */
    enum sim_status (*rates)(const struct fabric_network *network, double *rate_gbs, struct sim_error *error);
    /* When each flow has moved its bytes; a flow of 0 bytes finishes as it starts.
     * finish_us: [flow_count], written. */
    enum sim_status (*finish)(const struct fabric_network *network, double *finish_us,
                              struct sim_error *error);
};

const struct fabric_engine_ops *fabric_engine_ops(enum fabric_engine engine);

extern const struct fabric_engine_ops fluid_engine_ops;   /* fluid_engine.c */
extern const struct fabric_engine_ops simgrid_engine_ops; /* simgrid_engine.c */

#endif
