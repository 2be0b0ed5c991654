#include "workloads/kernels/kernels_internal.h"
#include "sim/core/hash.h"
#include <stdio.h>
#include <stdlib.h>

#define ADOPTED_MAX 4

/* What the folder keeps behind a wave_program: its tensors and the memory it owns. The program comes first, so that
 * the engine's pointer is also ours; the context lies behind the struct in the same block. */
struct kernel_program {
    struct wave_program base;
    size_t context_bytes;
    bool is_plain;
    size_t tensor_count;
    struct kernel_tensor tensors[KERNEL_TENSORS_MAX];
    size_t adopted_count;
    struct {
        void *memory;
        void (*release)(void *memory);
    } adopted[ADOPTED_MAX];
    _Alignas(16) unsigned char context[];
};

static void program_destroy(struct wave_program *program)
{
    struct kernel_program *own = (struct kernel_program *)program;
    for (size_t i = 0; i < own->adopted_count; i++) {
        own->adopted[i].release(own->adopted[i].memory);
    }
    free(own);
}

struct wave_program *kernel_program_create(const char *name, size_t context_bytes, wave_next next)
{
    struct kernel_program *own = calloc(1, sizeof *own + context_bytes);
    SIM_ASSERT(own != NULL, "program %s: out of memory", name);
    own->base = (struct wave_program){
        .name = name,
        .workgroups = 1,
        .waves_per_workgroup = 1,
        .registers_per_lane = 32,
        .work_units_total = 1,
        .initial_cache = WAVE_CACHE_STATE_OWN,
        .next = next,
        .destroy = program_destroy,
        .context = own->context,
    };
    own->context_bytes = context_bytes;
    return &own->base;
}

void kernel_program_plain(struct wave_program *program)
{
    ((struct kernel_program *)program)->is_plain = true;
}

uint64_t kernel_launch_identity(const struct kernel_launch *launch)
{
    const struct wave_program *p = launch->program;
    const struct kernel_program *own = (const struct kernel_program *)p;
    if (launch->kind != KERNEL_LAUNCH_WAVES || !own->is_plain) {
        return 0;
    }
    const uint64_t counts[] = { p->workgroups,          p->waves_per_workgroup, p->registers_per_lane,
                                p->lds_bytes,           p->workgroups_per_unit_max, p->work_units_total,
                                p->trips_per_wave,      p->can_leave_out_trips, p->trips_period, p->workgroups_differ,   p->workgroups_period, p->is_divisible, p->part_of,
                                p->longest_wave_trips,  p->longest_wave_workgroup, p->longest_wave_index,
                                p->initial_cache,       p->predecessor.address, p->predecessor.bytes,
                                p->predecessor_bytes };
    const double amounts[] = { p->flops, p->matrix_arithmetic, p->l2_footprint_bytes };
    uint64_t hash = hash64_add_text(HASH64_START, p->name);
    hash = hash64_add_bytes(hash, counts, sizeof counts);
    hash = hash64_add_bytes(hash, amounts, sizeof amounts);
    hash = hash64_add_bytes(hash, own->context, own->context_bytes);
    return hash != 0 ? hash : 1;
}

uint64_t kernel_program_tensor(struct wave_program *program, const char *name, double bytes)
{
    struct kernel_program *own = (struct kernel_program *)program;
    SIM_ASSERT(own->tensor_count < KERNEL_TENSORS_MAX, "program %s has too many tensors", program->name);
    SIM_ASSERT(bytes <= 0x1p44, "tensor %s of %s is larger than its region", name, program->name);
    own->tensors[own->tensor_count] = (struct kernel_tensor){ name, bytes };
    return kernel_tensor_address(own->tensor_count++);
}

void kernel_program_adopt(struct wave_program *program, void *memory, void (*release)(void *memory))
{
    struct kernel_program *own = (struct kernel_program *)program;
    SIM_ASSERT(own->adopted_count < ADOPTED_MAX, "program %s owns too many blocks", program->name);
    own->adopted[own->adopted_count].memory = memory;
    own->adopted[own->adopted_count++].release = release;
}

void *kernel_program_scratch(struct wave_program *program, size_t bytes)
{
    void *memory = calloc(1, bytes);
    SIM_ASSERT(memory != NULL, "program %s: out of memory", program->name);
    kernel_program_adopt(program, memory, free);
    return memory;
}

size_t kernel_program_tensor_count(const struct wave_program *program)
{
    return ((const struct kernel_program *)program)->tensor_count;
}

struct kernel_tensor kernel_program_tensor_at(const struct wave_program *program, size_t index)
{
    const struct kernel_program *own = (const struct kernel_program *)program;
    SIM_ASSERT(index < own->tensor_count, "tensor %zu of %zu", index, own->tensor_count);
    return own->tensors[index];
}

void kernel_program_grid(struct wave_program *program, uint64_t total_threads, uint32_t threads, uint32_t lanes)
{
    SIM_ASSERT(total_threads > 0, "program %s has no threads", program->name);
    SIM_ASSERT(threads > 0, "program %s has workgroups of no threads", program->name);
    program->workgroups = ceil_div(total_threads, threads);
    program->waves_per_workgroup = (uint32_t)ceil_div(threads, lanes);
}

#define RESIDENT_WAVES_MAX 64 /* per unit, of the machines described in devices/ */
#define FEW_ROUNDS 2

void kernel_program_loops(struct wave_program *program, const struct kernel_machine *machine, uint64_t trips)
{
    uint64_t waves = program->workgroups * program->waves_per_workgroup;
    if (waves <= (uint64_t)FEW_ROUNDS * RESIDENT_WAVES_MAX * machine->units) {
        program->trips_per_wave = max_u64(trips, 1);
    }
}

static double tensor_bytes(const struct wave_program *program)
{
    double bytes = 0;
    for (size_t i = 0; i < kernel_program_tensor_count(program); i++) {
        bytes += kernel_program_tensor_at(program, i).bytes;
    }
    return bytes;
}

static struct kernel_launch *next_launch(struct kernel_build *build)
{
    struct kernel_plan *plan = build->plan;
    SIM_ASSERT(plan->launch_count < sizeof plan->launches / sizeof plan->launches[0], "%s/%s has too many launches",
               plan->suite, plan->kernel);
    return &plan->launches[plan->launch_count++];
}

void kernel_plan_add(struct kernel_build *build, struct wave_program *program, double repeat)
{
    kernel_require_hbm(build, tensor_bytes(program), "the sum of its tensors");
    if (build->status != SIM_OK) {
        program->destroy(program);
        return;
    }
    SIM_ASSERT(program->workgroups > 0, "program %s has no workgroups", program->name);
    SIM_ASSERT(program->work_units_total > 0, "program %s has no work units", program->name);
    *next_launch(build) = (struct kernel_launch){ .kind = KERNEL_LAUNCH_WAVES, .program = program, .repeat = repeat };
}

void kernel_plan_add_copy(struct kernel_build *build, enum kernel_launch_kind kind, double bytes)
{
    if (build->status == SIM_OK) {
        *next_launch(build) = (struct kernel_launch){ .kind = kind, .copy_bytes = bytes, .repeat = 1 };
    }
}

static void set_value(struct kernel_build *build, enum kernel_value_rule rule, double amount, double factor,
                      const char *unit)
{
    build->plan->value_rule = rule;
    build->plan->value_amount = amount;
    build->plan->value_factor = factor;
    snprintf(build->plan->value_unit, sizeof build->plan->value_unit, "%s", unit);
}

void kernel_value_per_time(struct kernel_build *build, double amount_per_us, const char *unit)
{
    set_value(build, KERNEL_VALUE_AMOUNT_PER_TIME, amount_per_us, 1, unit);
}

void kernel_value_time(struct kernel_build *build, double amount, double factor, const char *unit)
{
    set_value(build, KERNEL_VALUE_TIME_PER_AMOUNT, amount, factor, unit);
}

void kernel_value_count(struct kernel_build *build, double amount, const char *unit)
{
    set_value(build, KERNEL_VALUE_COUNT, amount, 1, unit);
}

bool op_span_apart(struct wave_op *op, uint64_t address, uint64_t bytes)
{
    if (bytes == 0) {
        return true;
    }
    if (op->span_count == WAVE_SPANS_MAX) {
        return false;
    }
    SIM_ASSERT(bytes <= UINT32_MAX, "span of %llu bytes", (unsigned long long)bytes);
    op->spans[op->span_count++] = (struct wave_span){ address, (uint32_t)bytes };
    return true;
}

bool op_span(struct wave_op *op, uint64_t address, uint64_t bytes)
{
    struct wave_span *last = op->span_count > 0 ? &op->spans[op->span_count - 1] : NULL;
    if (last != NULL && last->address + last->bytes == address && last->bytes + bytes <= UINT32_MAX) {
        last->bytes += (uint32_t)bytes;
        return true;
    }
    return op_span_apart(op, address, bytes);
}
