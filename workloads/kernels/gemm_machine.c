/* The device as the selector sees it, and a product as the device can run it. */
#include "workloads/kernels/dense_internal.h"
#include "workloads/kernels/gemm_select.h"
#include <string.h>

/* Prefetch deeper than this is the work of a copy engine, which knows no end of a tile; waves that prefetch do. */
#define STAGES_OF_AN_ENGINE 6

/* ---- the machine ---- */

static double cycles_of_us(double us, double mhz)
{
    return us * mhz;
}

static void set_rates(const struct chip_profile *chip, struct gemm_machine *machine)
{
    machine->rate[WAVE_FP64] = chip->matrix_fp64;
    machine->rate[WAVE_FP32] = chip->matrix_fp32;
    machine->rate[WAVE_TF32] = chip->matrix_tf32;
    machine->rate[WAVE_BF16] = chip->matrix_bf16;
    machine->rate[WAVE_FP16] = chip->matrix_bf16;
    machine->rate[WAVE_FP8] = chip->matrix_fp8;
    machine->sustained = chip->matrix_sustained;
    machine->accumulators = (uint32_t)chip->matrix_accumulators;
    machine->instruction_m = (uint32_t)chip->matrix_instruction_m;
    machine->instruction_n = (uint32_t)chip->matrix_instruction_n;
    machine->operand_rows = chip->matrix_operand_rows;
    machine->multicast = (uint32_t)chip->matrix_multicast;
    machine->stages_max = (uint32_t)chip->matrix_stages_max;
    machine->split_in_kernel = chip->matrix_split_reduction == CHIP_SPLIT_BY_WORKGROUP;
    machine->split_early = chip->matrix_split_reduction == CHIP_SPLIT_BY_EARLY_LAUNCH;
    machine->runs_ahead = chip->matrix_stages_max >= STAGES_OF_AN_ENGINE;
    machine->result_buffers = (uint32_t)chip->matrix_result_buffers;
}

/* Slices' times are in ns whatever the clock; a rate in bytes per core cycle follows from the clock the kernel runs at. */
static void set_levels(const struct chip_profile *chip, struct gemm_machine *machine)
{
    double cycle_ns = 1e3 / machine->mhz;
    double slices = chip->l2_slices_per_group * chip->package_groups;
    machine->fill_rate = chip->l1_fill_rate;
    machine->store_rate = chip->l1_store_rate;
    machine->l2_rate = slices * chip->l2_line / chip->l2_read_line_time * cycle_ns;
    machine->l2_bytes = chip->l2_capacity * 1048576 / (machine->private_l2 ? chip->package_groups : 1);
    machine->l2_slices = slices / (machine->private_l2 ? chip->package_groups : 1);
    machine->l2_latency = chip->l2_hit_latency;
    machine->in_flight = chip->l1_mshr * chip->l2_line;
    machine->line_bytes = chip->l2_line;
    machine->hbm_rate = chip->hbm_channels * chip->hbm_channel_rate *
                        (1 - chip->hbm_refresh_time / chip->hbm_refresh_interval) * cycle_ns;
    machine->hbm_row_bytes = chip->l2_interleave;
    machine->hbm_row_loss = chip->hbm_row_bubble * chip->hbm_channel_rate;
    machine->hbm_latency = chip->l2_hit_latency + chip->hbm_latency / cycle_ns;
    machine->mall_latency = machine->hbm_latency;
    if (chip->has_mall) {
        machine->mall_latency = chip->mall_latency / cycle_ns;
        machine->hbm_latency = machine->mall_latency + chip->hbm_latency / cycle_ns;
        machine->mall_rate = chip->mall_rate * cycle_ns;
        machine->mall_bytes = chip->mall_capacity * 1048576;
    }
}

void gemm_machine_of_chip(const struct chip_profile *chip, struct gemm_machine *machine)
{
    bool by_group = chip->dispatch_order == CHIP_DISPATCH_ROUND_ROBIN_GROUPS;
    memset(machine, 0, sizeof *machine);
    machine->mhz = chip->clock_core_max;
    machine->units = chip_unit_count(chip);
    machine->groups = by_group ? chip->package_groups : 1;
    machine->units_per_group = machine->units / machine->groups;
    machine->private_l2 = chip->l2_organisation == CHIP_L2_PRIVATE;
    machine->simds = chip->unit_simds;
    machine->lanes = chip->unit_lanes;
    machine->issue_interval = chip->unit_issue_interval;
    machine->valu_interval = chip->unit_valu_interval;
    machine->lds_bytes = chip->unit_lds * 1024;
    machine->lds_reserved = chip->unit_lds_reserved_per_workgroup;
    machine->lds_workgroup_max = chip->unit_lds_per_workgroup_max * 1024;
    machine->lds_rate = chip->unit_lds_rate;
    machine->registers = chip->unit_registers;
    set_rates(chip, machine);
    set_levels(chip, machine);
    machine->workgroup_start = chip->dispatch_start_latency;
    machine->workgroup_end = chip->dispatch_release_latency;
    machine->launch = cycles_of_us(chip->launch_latency, machine->mhz);
    machine->gap = cycles_of_us(chip->launch_stream_gap, machine->mhz);
}

/* Launch facts alone (tests of programs): the rest is round numbers of no device. */
static void set_round_numbers(const struct kernel_machine *kernel, struct gemm_machine *machine)
{
    memset(machine, 0, sizeof *machine);
    machine->mhz = kernel->core_mhz;
    machine->units = machine->units_per_group = kernel->units;
    machine->groups = 1;
    machine->simds = 4;
    machine->lanes = kernel->lanes;
    machine->issue_interval = machine->valu_interval = 1;
    machine->lds_bytes = machine->lds_workgroup_max = kernel->lds_bytes_per_workgroup_max;
    machine->lds_rate = 128;
    machine->registers = 65536;
    memcpy(machine->rate, kernel->matrix_flops_per_cycle, sizeof machine->rate);
    machine->sustained = 1;
    machine->accumulators = kernel->lanes * 1024;
    machine->instruction_m = machine->instruction_n = 16;
    machine->operand_rows = 64;
    machine->multicast = kernel->multicast_units;
    machine->fill_rate = machine->store_rate = 64;
    machine->l2_rate = 40.0 * machine->units;
    machine->l2_bytes = 32 << 20;
    machine->hbm_rate = 20.0 * machine->units;
    machine->l2_slices = 32;
    machine->hbm_row_bytes = 256;
    machine->l2_latency = 300;
    machine->in_flight = 65536;
    machine->line_bytes = 128;
    machine->hbm_latency = machine->mall_latency = 800;
    machine->result_buffers = 1;
    machine->stages_max = 16;
    machine->runs_ahead = true;
    machine->workgroup_start = machine->workgroup_end = 300;
    machine->launch = machine->gap = 2000;
}

void gemm_machine_of(const struct kernel_machine *kernel, struct gemm_machine *machine)
{
    if (kernel->chip == NULL) {
        set_round_numbers(kernel, machine);
        return;
    }
    gemm_machine_of_chip(kernel->chip, machine);
    if (kernel->multicast_units > 0) {
        machine->multicast = kernel->multicast_units;
    }
}

/* ---- the product ---- */

static bool matrix_type_init(const struct gemm_machine *machine, enum gemm_dtype dtype, struct matrix_type *type)
{
    static const uint8_t dtypes[] = { WAVE_BF16, WAVE_FP16, WAVE_TF32, WAVE_FP32, WAVE_FP8 };
    static const uint32_t bytes[] = { 2, 2, 4, 4, 1 };
    const double *rates = machine->rate;
    *type = (struct matrix_type){ .bytes = bytes[dtype],
                                  .out_bytes = bytes[dtype] < 2 ? 2 : bytes[dtype],
                                  .dtype = dtypes[dtype],
                                  .products = 1,
                                  .rate = rates[dtypes[dtype]] };
    if (type->rate <= 0 && dtype == GEMM_FP16) {
        type->rate = rates[WAVE_BF16];
    }
    if (type->rate <= 0 && (dtype == GEMM_TF32 || dtype == GEMM_FP8)) {
        type->dtype = WAVE_BF16;
        type->rate = rates[WAVE_BF16];
        type->products = dtype == GEMM_TF32 ? 3 : 1;
        type->emulation = dtype == GEMM_TF32 ? "tf32 has no matrix rate here: emulated by three bf16 products"
                                             : "fp8 has no matrix rate here: widened to bf16";
    }
    return type->rate > 0;
}

/* The common alignment of the rows of A, B and C, at most 16 B. */
static uint32_t copy_width(const struct gemm_problem *p)
{
    uint64_t rows[] = { (p->trans < GEMM_TT ? p->k : p->m) * p->type.bytes,
                        (p->trans == GEMM_NT || p->trans == GEMM_TT ? p->k : p->n) * p->type.bytes,
                        p->n * p->type.out_bytes };
    uint32_t width = 16;
    for (int i = 0; i < 3; i++) {
        while (rows[i] % width != 0) {
            width /= 2;
        }
    }
    return width > p->type.bytes ? width : p->type.bytes;
}

/* The vector units always take their operands from registers. */
static enum gemm_style style_of(const struct gemm_problem *p)
{
    bool bulk = p->width == 16 && p->type.dtype != WAVE_FP32;
    return bulk ? GEMM_ASYNC : p->width < 4 ? GEMM_REGISTER : GEMM_COPIES;
}

bool gemm_problem_init(const struct gemm_machine *machine, uint64_t m, uint64_t n, uint64_t k, uint64_t batch,
                       enum gemm_dtype dtype, enum gemm_trans trans, uint32_t out_bytes, enum gemm_style style,
                       double register_rate, struct gemm_problem *problem)
{
    *problem = (struct gemm_problem){ .m = m, .n = n, .k = k, .batch = batch, .trans = trans, .style = style,
                                      .register_rate = register_rate };
    if (!matrix_type_init(machine, dtype, &problem->type)) {
        return false;
    }
    problem->type.out_bytes = out_bytes != 0 ? out_bytes : problem->type.out_bytes;
    problem->width = copy_width(problem);
    if (problem->style == GEMM_AUTO) {
        problem->style = style_of(problem);
    }
    /* Four-byte operands are read from LDS along K only; one of the two may come from registers instead, not both. */
    if (problem->style == GEMM_ASYNC && problem->type.bytes == 4 && problem->type.products <= 1) {
        problem->through_registers = trans == GEMM_TN;
        problem->turned = trans == GEMM_NN ? 2 : trans == GEMM_TT ? 1 : 0;
    }
    return true;
}

void gemm_problem_group(struct gemm_problem *problem, const uint64_t *group_m, size_t group_count)
{
    problem->group_m = group_m;
    problem->group_count = group_count;
    problem->m = 0;
    for (size_t i = 0; i < group_count; i++) {
        problem->m += group_m[i];
    }
}
