#include "sim/fabric/engine.h"
#include <stdio.h>
#include <string.h>

static const struct fabric_engine_ops *const engines[] = {
    [FABRIC_ENGINE_FLUID] = &fluid_engine_ops,
    [FABRIC_ENGINE_SIMGRID] = &simgrid_engine_ops,
};
#define ENGINES (sizeof engines / sizeof engines[0])

const struct fabric_engine_ops *fabric_engine_ops(enum fabric_engine engine)
{
    SIM_ASSERT((size_t)engine < ENGINES, "engine %d", (int)engine);
    return engines[engine];
}

enum sim_status fabric_engine_parse(const char *name, enum fabric_engine *out, struct sim_error *error)
{
    char choices[256] = "";
    for (size_t i = 0; i < ENGINES; i++) {
        if (strcmp(name, engines[i]->name) == 0) {
            *out = (enum fabric_engine)i;
            return SIM_OK;
        }
        size_t length = strlen(choices);
        snprintf(choices + length, sizeof choices - length, "%s%s (%s)", i == 0 ? "" : ", ", engines[i]->name,
                 engines[i]->summary);
    }
    return sim_fail(error, SIM_UNKNOWN_NAME, "unknown engine \"%s\": must be %s", name, choices);
}
