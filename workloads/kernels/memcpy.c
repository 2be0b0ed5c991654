/* memcpy: copies over the host link, closed forms by design: a copy engine (or a host thread) at a rate, no waves. */
#include "workloads/kernels/kernels_internal.h"

static void copy_build(struct kernel_build *build, enum kernel_launch_kind kind)
{
    double mib = kernel_param_real(build, "mb", 9.5e-7, 1e7); /* a byte, also when said in few digits */
    kernel_require_hbm(build, mib * 1048576, "the device buffer");
    if (!kernel_params_done(build)) {
        return;
    }
    kernel_plan_add_copy(build, kind, mib * 1048576);
    kernel_value_per_time(build, mib * 1048576 * 1e-3, "GB/s");
}

static void h2d_pinned_build(struct kernel_build *build)
{
    copy_build(build, KERNEL_LAUNCH_COPY_H2D);
}

static void d2h_pinned_build(struct kernel_build *build)
{
    copy_build(build, KERNEL_LAUNCH_COPY_D2H);
}

static void h2d_pageable_build(struct kernel_build *build)
{
    copy_build(build, KERNEL_LAUNCH_COPY_PAGEABLE);
}

const struct kernel_definition memcpy_kernels[] = {
    { "memcpy", "h2d_pinned", "host to device, pinned memory", "mb (MiB)", h2d_pinned_build },
    { "memcpy", "d2h_pinned", "device to host, pinned memory", "mb (MiB)", d2h_pinned_build },
    { "memcpy", "h2d_pageable", "host to device, pageable memory staged by the host", "mb (MiB)", h2d_pageable_build },
    { .suite = NULL },
};
