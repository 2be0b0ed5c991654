#include "workloads/kernels/fix_internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The order is the order of `reckon kernel --help`. The HAVE_ guards fall when the dense files have landed. */
static const struct kernel_definition *const lists[] = {
    launch_kernels, latency_kernels, stream_kernels, alu_kernels, gather_kernels, atomic_kernels,
    bounds_check_kernels, gis_kernels, tbe_kernels, linearize_kernels, permute_kernels, tbe_fused_kernels, scatter_kernels,
    embedding_kernels, index_kernels, sort_kernels,
#ifdef HAVE_DENSE_POINTWISE
    dense_pointwise_kernels,
#endif
#ifdef HAVE_DENSE_REDUCTION
    dense_reduction_kernels,
#endif
#ifdef HAVE_DENSE_GEMM
    dense_gemm_kernels,
#endif
#ifdef HAVE_DENSE_ATTENTION
    dense_attention_kernels,
#endif
#ifdef HAVE_DENSE_JAGGED
    dense_jagged_kernels,
#endif
#ifdef HAVE_DENSE_SORT
    dense_sort_kernels,
#endif
    memcpy_kernels, power_kernels, eigh_kernels,
};

#define LIST_COUNT (sizeof lists / sizeof lists[0])

/* The index-th definition over all lists, or NULL. */
static const struct kernel_definition *definition_at(size_t index)
{
    for (size_t i = 0; i < LIST_COUNT; i++) {
        for (const struct kernel_definition *d = lists[i]; d != NULL && d->suite != NULL; d++) {
            if (index-- == 0) {
                return d;
            }
        }
    }
    return NULL;
}

static const struct kernel_definition *definition_find(const char *suite, const char *kernel)
{
    const struct kernel_definition *d;
    for (size_t i = 0; (d = definition_at(i)) != NULL; i++) {
        if (strcmp(d->suite, suite) == 0 && strcmp(d->kernel, kernel) == 0) {
            return d;
        }
    }
    return NULL;
}

size_t kernel_registry_count(void)
{
    size_t count = 0;
    while (definition_at(count) != NULL) {
        count++;
    }
    return count;
}

struct kernel_entry kernel_registry_at(size_t index)
{
    const struct kernel_definition *d = definition_at(index);
    SIM_ASSERT(d != NULL, "registry index %zu of %zu", index, kernel_registry_count());
    return (struct kernel_entry){ d->suite, d->kernel, d->summary, d->params_help };
}

bool kernel_is_registered(const char *suite, const char *kernel)
{
    return definition_find(suite, kernel) != NULL;
}

static void append(char *text, size_t capacity, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, capacity - used, format, arguments);
    va_end(arguments);
}

/* Whether an entry before `index` has the same suite. */
static bool suite_seen(size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(kernel_registry_at(i).suite, kernel_registry_at(index).suite) == 0) {
            return true;
        }
    }
    return false;
}

/* Suite unknown: the suites. Suite known: its kernels. */
static enum sim_status fail_unknown(const char *suite, const char *kernel, struct sim_error *error)
{
    char suites[512] = "", kernels[512] = "";
    for (size_t i = 0; i < kernel_registry_count(); i++) {
        struct kernel_entry entry = kernel_registry_at(i);
        if (strcmp(entry.suite, suite) == 0) {
            append(kernels, sizeof kernels, "%s%s", kernels[0] == '\0' ? "" : ", ", entry.kernel);
        }
        if (!suite_seen(i)) {
            append(suites, sizeof suites, "%s%s", suites[0] == '\0' ? "" : ", ", entry.suite);
        }
    }
    if (kernels[0] == '\0') {
        return sim_fail(error, SIM_UNKNOWN_NAME, "unknown suite '%s' of kernel %s/%s (suites: %s)", suite, suite, kernel,
                        suites);
    }
    return sim_fail(error, SIM_UNKNOWN_NAME, "unknown kernel '%s' in suite %s (kernels: %s)", kernel, suite, kernels);
}

enum sim_status kernel_plan_create(const char *suite, const char *kernel, const struct kernel_params *params,
                                   const struct kernel_machine *machine, struct kernel_plan **out,
                                   struct sim_error *error)
{
    *out = NULL;
    const struct kernel_definition *definition = definition_find(suite, kernel);
    if (definition == NULL) {
        return fail_unknown(suite, kernel, error);
    }
    SIM_ASSERT(machine->lanes >= 16 && machine->lanes <= WAVE_LANES_MAX, "machine with %u lanes", machine->lanes);
    SIM_ASSERT(machine->units > 0, "machine without units");
    struct kernel_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        return sim_fail(error, SIM_NO_MEMORY, "%s/%s: host memory exhausted", suite, kernel);
    }
    snprintf(plan->suite, sizeof plan->suite, "%s", suite);
    snprintf(plan->kernel, sizeof plan->kernel, "%s", kernel);
    struct kernel_build build = {
        .definition = definition, .params = params, .machine = machine, .plan = plan, .error = error
    };
    kernel_fixes_read(&build);
    definition->build(&build);
    kernel_fixes_apply(&build);
    if (build.status != SIM_OK) {
        kernel_plan_destroy(plan);
        return build.status;
    }
    SIM_ASSERT(build.done, "%s/%s never called kernel_params_done", suite, kernel);
    SIM_ASSERT(plan->launch_count > 0, "%s/%s has no launch", suite, kernel);
    *out = plan;
    return SIM_OK;
}

void kernel_plan_destroy(struct kernel_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    for (size_t i = 0; i < plan->launch_count; i++) {
        if (plan->launches[i].program != NULL) {
            plan->launches[i].program->destroy(plan->launches[i].program);
        }
    }
    free(plan);
}
