/* The run loops allocate nothing: malloc, calloc and realloc are counted (the linker wraps them). The fast engine has all its
 * memory when it is built; the reference engine's pools grow in a run that has more under way than any before, and a second run
 * of the same work finds them large enough. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "sim/chiplet/executor_internal.h"
#include "sim/chiplet/package_internal.h"
#include "sim/chiplet/reference_internal.h"
#include "tests/chiplet/tiny.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static unsigned allocations;

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    allocations++;
    return __real_realloc(memory, size);
}

/* 64 workgroups of 4 waves on 8 units of two groups, one kind of access each, over more lines than the L2 of 2 MiB holds. */
static const struct tiny_pattern patterns[] = {
    { .kind = WAVE_LOAD,
      .cache = WAVE_CACHE_L1,
      .bytes = 512,
      .stride = 4096,
      .wave_stride = 99 * 4096,
      .trips = 200,
      .wait = 4,
      .lanes = 32 },
    { .kind = WAVE_STORE,
      .bytes = 512,
      .stride = 4096,
      .wave_stride = 99 * 4096,
      .trips = 200,
      .wait = WAVE_NO_WAIT,
      .lanes = 32 },
    { .kind = WAVE_ATOMIC,
      .bytes = 96,
      .stride = 4160,
      .wave_stride = 999 * 32,
      .trips = 200,
      .wait = 1,
      .lanes = 24 },
};

struct bed {
    struct chip_profile profile;
    struct tiny_pattern pattern;
    struct wave_program program;
    struct package *package;
    struct occupancy occupancy;
    struct run_request request;
};

static void bed_init(struct bed *bed, const struct tiny_pattern *pattern)
{
    struct sim_error error;
    memset(bed, 0, sizeof *bed);
    bed->profile = tiny_profile();
    bed->profile.package_groups = 2;
    bed->profile.package_units_per_group = 4;
    bed->profile.package_units_total = 8;
    bed->profile.hbm_channels = 2;
    bed->pattern = *pattern;
    bed->program = tiny_program(&bed->pattern, 64, 4);
    bed->package = package_create(&bed->profile, 1000);
    cr_assert(eq(int, occupancy_of(&bed->profile, &bed->program, &bed->occupancy, &error), SIM_OK));
    bed->request = (struct run_request){ .workgroup_count = 64,
                                         .window = { .trip_limit = UINT64_MAX },
                                         .unit_share = 1 };
}

Test(loop, counting_works)
{
    unsigned before = allocations;
    void *volatile memory = malloc(1);
    free(memory);
    cr_assert(eq(uint, allocations, before + 1));
}

Test(loop, fast_engine_allocates_nothing)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct bed bed;
        struct run_outcome outcome;
        bed_init(&bed, &patterns[i]);
        struct executor *executor = executor_create(bed.package, &bed.program, &bed.occupancy);
        unsigned before = allocations;
        executor_run(executor, &bed.request, &outcome);
        cr_expect(eq(uint, allocations, before), "pattern %zu", i);
        cr_expect(eq(u64, outcome.units, 64 * 4 * 200));
        package_destroy(bed.package);
    }
}

Test(loop, reference_engine_keeps_its_pools)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct bed bed;
        struct run_outcome first;
        struct run_outcome second;
        bed_init(&bed, &patterns[i]);
        struct reference *reference = reference_create(bed.package, &bed.program, &bed.occupancy);
        reference_run(reference, &bed.request, &first);
        package_reset(bed.package);
        unsigned before = allocations;
        reference_run(reference, &bed.request, &second);
        cr_expect(eq(uint, allocations, before), "pattern %zu", i);
        cr_expect(eq(i64, first.end, second.end), "pattern %zu", i);
        reference_destroy(reference);
        package_destroy(bed.package);
    }
}
