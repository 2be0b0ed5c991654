#include "sim/core/kernel_result.h"
#include "sim/core/status.h"

const char *kernel_stage_text(enum kernel_stage stage)
{
    static const char *const texts[KERNEL_STAGES] = {
#define KERNEL_STAGE_TEXT(name, text) [KERNEL_STAGE_##name] = text,
        KERNEL_STAGE_LIST(KERNEL_STAGE_TEXT)
#undef KERNEL_STAGE_TEXT
    };
    SIM_ASSERT((unsigned)stage < KERNEL_STAGES, "stage %d", (int)stage);
    return texts[stage];
}
