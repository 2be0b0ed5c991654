/* Tiny packages and hand-made programs for the laws of the chip model. The package is the H200 profile cut down and made
 * round, so that each test can state its arithmetic. */
#ifndef TESTS_CHIPLET_TINY_H
#define TESTS_CHIPLET_TINY_H
#include <stdlib.h>
#include <string.h>
#include "sim/chiplet/chip.h"

/* One unit, one slice, one channel; every time a round number at 1000 MHz (1 cycle = 1 ns). */
static inline struct chip_profile tiny_profile(void)
{
    struct chip_profile p;
    struct sim_error error;
    memset(&p, 0, sizeof p);
    if (chip_profile_read(SOURCE_DIR "/devices/h200.json", &p, &error) != SIM_OK) {
        abort();
    }
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        free(p.meta[i].source); /* no test reads where a value came from */
        p.meta[i].source = NULL;
    }
    for (int i = 0; i < CHIP_CHOICES; i++) {
        free(p.choice_meta[i].source);
        p.choice_meta[i].source = NULL;
    }
    p.clock_core_max = 1000;
    p.package_groups = 1;
    p.package_units_per_group = 1;
    p.package_dies = 1;
    p.unit_simds = 1;
    p.unit_issue_interval = 1;
    p.unit_valu_interval = 1;
    p.l1_request_interval = 1;
    p.l1_hit_latency = 30;
    p.l1_fill_rate = 64;
    p.l1_store_rate = 32;
    p.l1_mshr = 1024;
    p.l1_store_credits = 512;
    p.l2_capacity = 1;
    p.l2_slices_per_group = 1;
    p.l2_hit_latency = 200;
    p.l2_hit_latency_spread = 0;
    p.l2_far_latency = 0;
    p.l2_read_request_time = 1;
    p.l2_read_line_time = 2;
    p.l2_write_sector_time = 1;
    p.l2_banks = 1;
    p.l2_bank_read_time = 0.01;
    p.l2_bank_write_time = 1;
    p.hbm_channels = 1;
    p.hbm_channel_rate = 32; /* 64 B in 2 ns */
    p.hbm_access = 64;
    p.hbm_activate_interval = 5;
    p.hbm_row_bubble = 0;
    p.hbm_refresh_time = 0;
    p.hbm_latency = 300;
    p.atomic_int_interval = 1;
    p.atomic_fp32_interval = 3;
    p.atomic_block_time = 1;
    p.atomic_lane_time = 1;
    p.atomic_unit_time = 0.5;
    p.atomic_slices_per_unit = 1;
    p.atomic_return_latency = 100;
    p.dispatch_interval = 1;
    p.dispatch_start_latency = 10;
    p.dispatch_release_latency = 0;
    p.dispatch_wave_interval = 0;
    return p;
}

struct tiny_pattern {
    enum wave_op_kind kind;
    enum wave_cache cache;
    uint64_t stride;       /* bytes between consecutive trips of a wave */
    uint64_t wave_stride;  /* bytes between waves */
    uint64_t footprint;    /* addresses wrap here; 0: never */
    uint32_t bytes;        /* of one span */
    uint32_t trips;
    uint8_t wait;          /* before the op */
    uint8_t flags, type;   /* atomics */
    uint16_t lanes, valu;
    uint64_t flops;
};

static inline void tiny_next(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                             struct wave_op *op)
{
    const struct tiny_pattern *p = program->context;
    if (state->trip >= p->trips || state->trip >= window->trip_limit) {
        op->kind = WAVE_END;
        return;
    }
    uint64_t wave = state->workgroup * program->waves_per_workgroup + state->wave;
    uint64_t address = wave * p->wave_stride + state->trip * p->stride;
    op->kind = (uint8_t)p->kind;
    op->cache = (uint8_t)p->cache;
    op->wait_outstanding = p->wait;
    op->lanes_active = p->lanes;
    op->valu_slots = p->valu;
    op->atomic_flags = p->flags;
    op->atomic_type = p->type;
    op->element_bytes = 4;
    op->matrix_dtype = WAVE_BF16;
    op->matrix_flops = p->flops;
    op->work_units = 1;
    if (p->bytes > 0) {
        op->span_count = 1;
        op->spans[0].address = p->footprint > 0 ? address % p->footprint : address;
        op->spans[0].bytes = p->bytes;
    }
    state->trip++;
}

static inline void tiny_destroy(struct wave_program *program) { (void)program; }

static inline struct wave_program tiny_program(const struct tiny_pattern *pattern, uint64_t workgroups, uint32_t waves)
{
    struct wave_program program;
    memset(&program, 0, sizeof program);
    program.name = "tiny";
    program.workgroups = workgroups;
    program.waves_per_workgroup = waves;
    program.registers_per_lane = 32;
    program.work_units_total = workgroups * waves * pattern->trips;
    program.trips_per_wave = pattern->trips;
    program.next = tiny_next;
    program.destroy = tiny_destroy;
    program.context = (void *)pattern;
    return program;
}

static inline struct kernel_result tiny_run(const struct chip_profile *profile, const struct wave_program *program)
{
    struct kernel_result result;
    struct sim_error error;
    struct chip_options options = { .exact = true };
    if (chip_run(profile, program, &options, &result, &error) != SIM_OK) {
        abort();
    }
    return result;
}

#endif
