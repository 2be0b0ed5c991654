/* Copies and fills that are no kernels: by the direction in their name and the bytes the profiler recorded. */
#include "workloads/trace/recognise_internal.h"
#include <string.h>

static bool build_device_copy(struct recogniser *r)
{
    if (!(r->site->bytes >= 1)) {
        return false;
    }
    recognised_as(r, "memory", "copy");
    param_number(r, "bytes", r->site->bytes);
    param_in_step_cache(r);
    result_bytes(r, r->site->bytes, r->site->bytes, 0);
    return true;
}

static bool build_set(struct recogniser *r)
{
    if (!(r->site->bytes >= 1)) {
        return false;
    }
    recognised_as(r, "memory", "set");
    param_number(r, "bytes", r->site->bytes);
    param_in_step_cache(r);
    result_bytes(r, 0, r->site->bytes, 0);
    return true;
}

static bool build_host_copy(struct recogniser *r, const char *kernel)
{
    if (!(r->site->bytes >= 1)) {
        return false;
    }
    recognised_as(r, "memcpy", kernel);
    param_number(r, "mb", r->site->bytes / 1048576);
    result_bytes(r, r->site->bytes, r->site->bytes, 0);
    return true;
}

static bool build_to_device(struct recogniser *r)
{
    return build_host_copy(r, strstr(r->site->name, "Pageable") != NULL ? "h2d_pageable" : "h2d_pinned");
}

static bool build_to_host(struct recogniser *r)
{
    if (strstr(r->site->name, "Pageable") != NULL) {
        r->out->assumption = "a copy to pageable host memory takes as long as one to pinned memory";
    }
    return build_host_copy(r, "d2h_pinned");
}

const struct recogniser_rule recogniser_memory_rules[] = {
    { "Memcpy DtoD", NULL, "memory", build_device_copy },
    { "Memcpy HtoD", NULL, "memory", build_to_device },
    { "Memcpy DtoH", NULL, "memory", build_to_host },
    { "Memcpy PtoP", NULL, "memory", NULL },
    { "Memcpy", NULL, "memory", NULL },
    { "Memset", NULL, "memory", build_set },
    { NULL, NULL, NULL, NULL },
};
