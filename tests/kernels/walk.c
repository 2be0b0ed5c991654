#include "tests/kernels/walk.h"
#include "sim/core/hash.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPS_MAX 100000000u

struct walker {
    const struct wave_program *program;
    uint32_t lanes;
    struct walk *walk;
    const struct wave_op *op;
};

static void breach(struct walker *w, const char *format, ...)
{
    if (w->walk->problem[0] != '\0') {
        return;
    }
    int used = snprintf(w->walk->problem, sizeof w->walk->problem, "%s, op %llu (kind %u): ", w->program->name,
                        (unsigned long long)w->walk->ops, w->op->kind);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->walk->problem + used, sizeof w->walk->problem - (size_t)used, format, arguments);
    va_end(arguments);
}

/* [address, address + bytes) must lie inside one tensor. */
static void check_place(struct walker *w, uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < kernel_program_tensor_count(w->program); i++) {
        struct kernel_tensor tensor = kernel_program_tensor_at(w->program, i);
        uint64_t base = kernel_tensor_address(i);
        if (address >= base && address < base + (1ull << KERNEL_TENSOR_SHIFT)) {
            if ((double)(address - base + bytes) > tensor.bytes) {
                breach(w, "%llu bytes at %llu of tensor '%s', which has %.0f", (unsigned long long)bytes,
                       (unsigned long long)(address - base), tensor.name, tensor.bytes);
            }
            return;
        }
    }
    breach(w, "address %llx is in no tensor", (unsigned long long)address);
}

static uint64_t check_spans(struct walker *w)
{
    uint64_t bytes = 0;
    const struct wave_op *op = w->op;
    if (op->span_count > WAVE_SPANS_MAX) {
        breach(w, "%u spans", op->span_count);
        return 0;
    }
    for (uint32_t i = 0; i < op->span_count; i++) {
        if (op->spans[i].bytes == 0) {
            breach(w, "span %u is empty", i);
        }
        check_place(w, op->spans[i].address, op->spans[i].bytes);
        bytes += op->spans[i].bytes;
    }
    return bytes;
}

static void check_atomic(struct walker *w, uint64_t span_bytes)
{
    const struct wave_op *op = w->op;
    if (op->atomic_type >= WAVE_ATOMIC_TYPES) {
        breach(w, "atomic type %u", op->atomic_type);
    }
    if (op->element_bytes != 2 && op->element_bytes != 4 && op->element_bytes != 8) {
        breach(w, "elements of %u bytes", op->element_bytes);
        return;
    }
    if ((op->span_count > 0) == (op->lane_count > 0) || op->lane_count > w->lanes) {
        breach(w, "%u spans and %u lane addresses", op->span_count, op->lane_count);
    }
    for (uint32_t i = 0; i < op->lane_count; i++) {
        check_place(w, op->lane_address[i], op->element_bytes);
    }
    w->walk->atomic_lanes += op->lane_count > 0 ? op->lane_count : span_bytes / op->element_bytes;
}

static void check_op(struct walker *w)
{
    const struct wave_op *op = w->op;
    struct walk *walk = w->walk;
    uint64_t bytes = check_spans(w);
    bool moves = op->kind == WAVE_LOAD || op->kind == WAVE_STORE || op->kind == WAVE_ATOMIC;
    if (op->kind > WAVE_END) {
        breach(w, "unknown kind");
    }
    if (moves != (op->span_count > 0 || op->lane_count > 0)) {
        breach(w, "%u spans and %u lanes", op->span_count, op->lane_count);
    }
    if (op->kind != WAVE_ATOMIC && op->lane_count > 0) {
        breach(w, "lane addresses outside an atomic");
    }
    if (op->lanes_active > w->lanes) {
        breach(w, "%u of %u lanes", op->lanes_active, w->lanes);
    }
    if (moves && op->lanes_active == 0) {
        breach(w, "an access by no lane");
    }
    if (op->kind == WAVE_END && op->work_units > 0) {
        breach(w, "work at the end of a wave");
    }
    if (op->kind == WAVE_ATOMIC) {
        check_atomic(w, bytes);
    }
    walk->load_bytes += op->kind == WAVE_LOAD ? bytes : 0;
    walk->store_bytes += op->kind == WAVE_STORE ? bytes : 0;
    walk->lds_atomics += op->lds_atomics;
    walk->units += op->work_units;
    walk->ops++;
    walk->hash = hash64_add_bytes(walk->hash, op, offsetof(struct wave_op, spans));
    walk->hash = hash64_add_bytes(walk->hash, op->spans, op->span_count * sizeof op->spans[0]);
    walk->hash = hash64_add_bytes(walk->hash, op->lane_address, op->lane_count * sizeof op->lane_address[0]);
}

/* Runs one wave; returns the barriers it met. */
static uint32_t walk_wave(struct walker *w, uint64_t workgroup, uint32_t wave, struct wave_window window,
                          walk_visit visit, void *user)
{
    struct wave_state state = { .workgroup = workgroup, .wave = wave, .trip = window.trip_first };
    static _Thread_local struct wave_op op;
    uint32_t barriers = 0;
    do {
        memset(&op, 0, offsetof(struct wave_op, spans));
        op.wait_outstanding = WAVE_NO_WAIT;
        w->op = &op;
        w->program->next(w->program, &window, &state, &op);
        check_op(w);
        barriers += op.kind == WAVE_BARRIER;
        if (visit != NULL) {
            visit(user, &op);
        }
        if (w->walk->ops > OPS_MAX) {
            breach(w, "no end after %u ops", OPS_MAX);
        }
    } while (op.kind != WAVE_END && w->walk->problem[0] == '\0');
    return barriers;
}

struct walk walk_program(const struct wave_program *program, uint32_t lanes, struct wave_window window,
                         walk_visit visit, void *user)
{
    struct walk walk = { .hash = HASH64_START };
    struct walker w = { .program = program, .lanes = lanes, .walk = &walk };
    for (uint64_t group = 0; group < program->workgroups && walk.problem[0] == '\0'; group++) {
        uint32_t barriers = 0;
        for (uint32_t wave = 0; wave < program->waves_per_workgroup && walk.problem[0] == '\0'; wave++) {
            uint32_t met = walk_wave(&w, group, wave, window, visit, user);
            if (wave > 0 && met != barriers) {
                breach(&w, "wave %u of workgroup %llu meets %u barriers, wave 0 meets %u", wave,
                       (unsigned long long)group, met, barriers);
            }
            barriers = met;
        }
    }
    return walk;
}

struct kernel_machine walk_machine(uint32_t units, uint32_t lanes)
{
    struct kernel_machine machine = { .units = units, .lanes = lanes, .hbm_bytes = 64ull << 30,
                                      .lds_bytes_per_workgroup_max = 160 * 1024, .core_mhz = 2000 };
    for (int i = 0; i < WAVE_DTYPES; i++) {
        machine.matrix_flops_per_cycle[i] = 4096;
    }
    return machine;
}

struct kernel_plan *walk_plan(const char *suite, const char *kernel, const char *params, uint32_t lanes)
{
    struct kernel_params *parsed;
    struct kernel_plan *plan = NULL;
    struct sim_error error = { .text = "" };
    struct kernel_machine machine = walk_machine(4, lanes);
    if (kernel_params_parse(params, &parsed, &error) != SIM_OK ||
        kernel_plan_create(suite, kernel, parsed, &machine, &plan, &error) != SIM_OK) {
        fprintf(stderr, "%s/%s %s: %s\n", suite, kernel, params, error.text);
        abort();
    }
    kernel_params_destroy(parsed);
    return plan;
}
