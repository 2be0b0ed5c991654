#include "sim/step/kernel_price.h"
#include "sim/step/params_text.h"
#include "sim/step/price_board.h"
#include "sim/step/session.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kernel_machine machine_of(const struct chip_profile *chip)
{
    struct kernel_machine machine = {
        .units = chip_unit_count(chip),
        .lanes = (uint32_t)chip->unit_lanes,
        .hbm_bytes = (uint64_t)(chip->hbm_capacity * 1073741824.0),
        .lds_bytes_per_workgroup_max = (uint32_t)(chip->unit_lds_per_workgroup_max * 1024),
        .core_mhz = chip->clock_core_memory_bound,
        .registers_per_lane_max = (uint32_t)chip->unit_registers_per_lane_max,
        .simd_registers = (uint32_t)(chip->unit_registers / chip->unit_simds / chip->unit_lanes),
        .dispatch_dies =
            chip->dispatch_order == CHIP_DISPATCH_ROUND_ROBIN_GROUPS ? (uint32_t)chip->package_groups : 1,
        .chip = chip,
    };
    machine.matrix_flops_per_cycle[WAVE_FP64] = chip->matrix_fp64;
    machine.matrix_flops_per_cycle[WAVE_FP32] = chip->matrix_fp32;
    machine.matrix_flops_per_cycle[WAVE_TF32] = chip->matrix_tf32;
    machine.matrix_flops_per_cycle[WAVE_BF16] = chip->matrix_bf16;
    machine.matrix_flops_per_cycle[WAVE_FP16] = chip->matrix_bf16;
    machine.matrix_flops_per_cycle[WAVE_FP8] = chip->matrix_fp8;
    return machine;
}

static void set_initial_cache(struct wave_program *program, enum harness_cache cache)
{
    switch (cache) {
    case HARNESS_CACHE_CLEAN: program->initial_cache = WAVE_CACHE_STATE_CLEAN; break;
    case HARNESS_CACHE_OWN: program->initial_cache = WAVE_CACHE_STATE_OWN; break;
    case HARNESS_CACHE_PREDECESSOR: program->initial_cache = WAVE_CACHE_STATE_PREDECESSOR; break;
    case HARNESS_CACHE_FLUSHED: program->initial_cache = WAVE_CACHE_STATE_FLUSHED; break;
    default: break;
    }
}

/* Share of the time that follows the core clock, where no second run tells: stages that run on it. */
static double exponent_of_stack(const struct chip_profile *chip, const struct kernel_result *result)
{
    double share = result->stack[KERNEL_STAGE_ISSUE] + result->stack[KERNEL_STAGE_MATRIX] +
                   result->stack[KERNEL_STAGE_L1] + result->stack[KERNEL_STAGE_DISPATCH];
    if (chip->l2_clock_domain == CHIP_L2_CLOCK_CORE) {
        share += result->stack[KERNEL_STAGE_L2];
    }
    return fmin(share, 1);
}

/* Inside a product the matrix unit is held beyond its arithmetic (matrix.sustained), since the supply droops under its current
 * and stretches the clock. A lower clock draws less, so it droops in proportion less; the program is the same in both runs and
 * holds the unit for the full share. Returns what is left of the slow run's time, where the unit bounds it. */
static double less_droop(const struct chip_profile *chip, const struct wave_program *program,
                         const struct kernel_result *fast, const struct kernel_result *slow)
{
    double held = program->matrix_arithmetic > 0 ? program->matrix_arithmetic : 1;
    double drawn = (slow->watts - chip->power_idle) / fmax(fast->watts - chip->power_idle, 1);
    double eased = 1 - (1 - held) * fmin(fmax(drawn, 0), 1);
    return 1 - fmin(slow->matrix_share, 1) * (1 - held / eased);
}

/* How the time follows the clock: by a second run at clock.core_dense for what draws more than the board's limit. */
static enum sim_status find_exponent(const struct chip_profile *chip, const struct wave_program *program,
                                     struct chip_options options, const struct kernel_result *result,
                                     double *exponent, struct sim_error *error)
{
    struct kernel_result slow;
    double mhz = options.core_mhz;
    *exponent = exponent_of_stack(chip, result);
    if (result->watts <= chip->power_board_limit || chip->clock_core_dense >= mhz) {
        return SIM_OK;
    }
    options.core_mhz = chip->clock_core_dense;
    enum sim_status status = chip_run(chip, program, &options, &slow, error);
    if (status == SIM_OK) {
        double slow_us = slow.duration_us * less_droop(chip, program, result, &slow);
        *exponent = fmin(fmax(log(slow_us / result->duration_us) / log(mhz / options.core_mhz), 0), 1);
    }
    return status;
}

/* The same droop in other kernels that keep the matrix units busy (attention): in proportion to what the core draws, against a
 * bf16 product at its sustained rate. Their own arithmetic does not hold the unit for it, so the clock of the whole is stretched;
 * the driver goes on reporting the clock it set. */
static void droop(const struct chip_profile *chip, const struct wave_program *program, double exponent,
                  struct kernel_result *result)
{
    if (program->matrix_arithmetic > 0 || result->matrix_share <= KERNEL_PRICE_MATRIX_HEAVY) {
        return;
    }
    double product = chip_unit_count(chip) * chip->matrix_bf16 * chip->clock_core_max * chip->power_matrix_bf16 * 1e-6 *
                     chip->matrix_sustained;
    double drawn = result->core_uj * power_core_scale(chip, result->clock_mhz) / result->duration_us / product;
    double stretch = pow(1 - (1 - chip->matrix_sustained) * fmin(drawn, 1), -exponent);
    result->duration_us *= stretch;
    result->hbm_share /= stretch;
    result->watts = chip->power_idle + (result->watts - chip->power_idle) / stretch;
}

/* A launch of a kernel, at the window it is run at. */
struct launch_run {
    const struct kernel_price_machine *machine;
    const struct kernel_price_request *request;
    const struct kernel_launch *launch;
    size_t index; /* in the plan */
    uint64_t window;
    bool cold;    /* kernel_price_request.in_step, of a plan of one launch */
};

#define LIKELY_HEAVY_US 3 /* of arithmetic at the matrix units' peak: such a launch is tried at the highest clock first */

static bool is_likely_heavy(const struct chip_profile *chip, const struct wave_program *program)
{
    double units = fmin(chip_unit_count(chip), (double)program->workgroups);
    double flops_per_us = units * chip->matrix_bf16 * chip->clock_core_max;
    return program->flops > LIKELY_HEAVY_US * flops_per_us && units > KERNEL_PRICE_MATRIX_HEAVY * chip_unit_count(chip);
}

/* Kernels without matrix work hold one clock, matrix-heavy ones start from the highest, which only the run itself tells:
 * run, and run again at the other clock when the first run says so. What is heavy at the highest clock is so at a lower one, so
 * that the order of the two only saves a run. Leaves the clock of `result` in `options`. */
static enum sim_status run_at_its_clock(const struct chip_profile *chip, const struct wave_program *program,
                                        struct chip_options *options, struct kernel_result *result, struct sim_error *error)
{
    double low = chip->clock_core_memory_bound, high = chip->clock_core_max;
    struct kernel_result at_high = { 0 };
    bool high_first = low != high && is_likely_heavy(chip, program);
    enum sim_status status = SIM_OK;
    if (high_first) {
        options->core_mhz = high;
        status = chip_run(chip, program, options, &at_high, error);
        if (status != SIM_OK || at_high.matrix_share > KERNEL_PRICE_MATRIX_HEAVY) {
            *result = at_high;
            return status;
        }
    }
    options->core_mhz = low;
    status = chip_run(chip, program, options, result, error);
    if (status != SIM_OK || low == high || result->matrix_share <= KERNEL_PRICE_MATRIX_HEAVY) {
        return status;
    }
    options->core_mhz = high;
    if (high_first) {
        *result = at_high;
        return SIM_OK;
    }
    return chip_run(chip, program, options, result, error);
}

static enum sim_status run_waves(const struct launch_run *run, struct kernel_result *result, double *exponent,
                                 struct sim_error *error)
{
    const struct kernel_price_machine *machine = run->machine;
    const struct kernel_price_request *request = run->request;
    struct wave_program *program = run->launch->program;
    const struct chip_profile *chip = machine->chip;
    bool fixed = request->core_mhz > 0;
    struct chip_options options = { .engine = machine->engine,
                                    .exact = request->exact,
                                    .seed = machine->seed,
                                    .window_requests = run->window,
                                    .core_mhz = fixed ? request->core_mhz : chip->clock_core_memory_bound };
    if (request->cache == HARNESS_CACHE_PREDECESSOR && program->predecessor_bytes == 0) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "%s/%s does not say what its predecessor wrote: use clean, own or flushed",
                        request->suite, request->kernel);
    }
    set_initial_cache(program, request->cache);
    if (run->cold && program->initial_cache == WAVE_CACHE_STATE_OWN) {
        program->initial_cache = WAVE_CACHE_STATE_CLEAN;
    }
    enum sim_status status = fixed ? chip_run(chip, program, &options, result, error)
                                   : run_at_its_clock(chip, program, &options, result, error);
    *exponent = 0;
    if (status == SIM_OK && !fixed) {
        status = find_exponent(chip, program, options, result, exponent, error);
    }
    if (status == SIM_OK && !fixed) {
        droop(chip, program, *exponent, result);
    }
    return status;
}

/* Is the whole copy in the host's pinned buffer before the device begins? */
static bool is_staged(const struct kernel_price_machine *machine, const struct kernel_launch *launch)
{
    return launch->kind == KERNEL_LAUNCH_COPY_PAGEABLE && launch->copy_bytes <= node_profile_staged_bytes(machine->node);
}

/* What the call does on the host before the device begins. */
static double staging_us(const struct kernel_price_machine *machine, const struct kernel_launch *launch)
{
    double rate_gbs = 0, fixed_us = 0;
    if (!is_staged(machine, launch)) {
        return 0;
    }
    node_profile_host_link(machine->node, false, true, &rate_gbs, &fixed_us);
    return launch->copy_bytes / (rate_gbs * 1e3);
}

static void run_copy(const struct kernel_price_machine *machine, const struct kernel_launch *launch,
                     struct kernel_result *result)
{
    double rate_gbs = 0, fixed_us = 0;
    node_profile_host_link(machine->node, launch->kind != KERNEL_LAUNCH_COPY_PAGEABLE || is_staged(machine, launch),
                           launch->kind != KERNEL_LAUNCH_COPY_D2H, &rate_gbs, &fixed_us);
    *result = (struct kernel_result){ .duration_us = fixed_us + launch->copy_bytes / (rate_gbs * 1e3),
                                      .sampled_fraction = 1,
                                      .atomic_executed_at = "none",
                                      .watts = machine->chip->power_idle,
                                      .clock_mhz = machine->chip->clock_core_memory_bound };
    result->stack[KERNEL_STAGE_LATENCY] = fixed_us / result->duration_us;
    result->stack[KERNEL_STAGE_DIE_LINK] = 1 - result->stack[KERNEL_STAGE_LATENCY]; /* the host link */
    result->bytes[KERNEL_LEVEL_HBM] = launch->copy_bytes;
}

/* What a launch is known by on the board, beside keys of whole kernels: by what it does, where its program says so, for other
 * kernels may have it too; else by the kernel it belongs to. */
static void launch_key(const struct launch_run *run, char key[PRICE_KEY_CAPACITY])
{
    const struct kernel_price_request *request = run->request;
    uint64_t identity = kernel_launch_identity(run->launch);
    int length = snprintf(key, PRICE_KEY_CAPACITY, "launch|%016llx|%d|%llu|%d|%d|%d|%llu|%.17g|%016llx|",
                          (unsigned long long)run->machine->chip->hash, (int)run->machine->engine,
                          (unsigned long long)run->machine->seed, (int)request->cache, (int)run->cold, (int)request->exact,
                          (unsigned long long)run->window, request->core_mhz, (unsigned long long)identity);
    if (identity == 0) {
        length += snprintf(key + length, PRICE_KEY_CAPACITY - (size_t)length, "%zu|%s/%s|%s", run->index, request->suite,
                           request->kernel, request->params != NULL ? request->params : "");
    }
    SIM_ASSERT(length < PRICE_KEY_CAPACITY, "key of a launch of %s/%s is %d bytes long", request->suite, request->kernel, length);
}

/* run_waves, once on this machine for launches of the same key. The run of a launch waits for nothing, so waiting for
 * another process's ends. */
static enum sim_status run_launch(const struct launch_run *run, struct kernel_result *result, double *exponent,
                                  struct sim_error *error)
{
    struct price_board *board = run->machine->board;
    char key[PRICE_KEY_CAPACITY];
    struct kernel_price shared;
    size_t slot = 0;
    if (board == NULL) {
        return run_waves(run, result, exponent, error);
    }
    launch_key(run, key);
    enum price_claim claim = price_board_claim(board, key, &slot);
    if (claim == PRICE_CLAIM_BUSY) {
        claim = price_board_wait(board, slot) ? PRICE_CLAIM_THERE : PRICE_CLAIM_MINE;
    }
    if (claim == PRICE_CLAIM_THERE) {
        price_board_take(board, slot, &shared);
    } else {
        memset(&shared, 0, sizeof shared);
        struct sim_error reason = { 0 };
        shared.status = run_waves(run, &shared.result, &shared.clock_exponent, &reason);
        snprintf(shared.error, sizeof shared.error, "%s", reason.text);
    }
    if (claim == PRICE_CLAIM_MINE) {
        price_board_publish(board, slot, &shared);
    }
    *result = shared.result;
    *exponent = shared.clock_exponent;
    return shared.status == SIM_OK ? SIM_OK : sim_fail(error, shared.status, "%s", shared.error);
}

/* Share of a kernel's doubt (time x relative doubt, over its launches) from which a launch is worth a wider window. */
#define WIDE_DOUBT_SHARE 0.1

static double doubt_us(const struct launch_run *run, const struct kernel_result *result)
{
    return result->duration_us * run->launch->repeat * result->sampling_error;
}

/* A launch again at the wider window, unless the first was as wide. */
static enum sim_status run_wider(struct launch_run *run, struct kernel_result *result, double *exponent, struct sim_error *error)
{
    uint64_t first = run->window;
    enum sim_status status = SIM_OK;
    run->window = run->request->wide_requests;
    if (result->simulated_line_requests < run->window) {
        status = run_launch(run, result, exponent, error);
    }
    run->window = first;
    return status;
}

/* Every launch of the plan at the request's window, then, where a wider one is asked for, those that the doubt is in. */
static enum sim_status run_launches(const struct kernel_price_machine *machine, const struct kernel_price_request *request,
                                    const struct kernel_plan *plan, struct kernel_result parts[], double exponents[],
                                    double *total_doubt_us, struct sim_error *error)
{
    double doubts[KERNEL_PRICE_LAUNCHES_MAX] = { 0 }, sum = 0;
    enum sim_status status = SIM_OK;
    struct launch_run run = { machine, request, NULL, 0, request->exact ? 0 : request->window_requests,
                              request->in_step && plan->launch_count == 1 };
    for (size_t i = 0; status == SIM_OK && i < plan->launch_count; i++) {
        run.launch = &plan->launches[i];
        run.index = i;
        if (run.launch->kind == KERNEL_LAUNCH_WAVES) {
            status = run_launch(&run, &parts[i], &exponents[i], error);
            doubts[i] = doubt_us(&run, &parts[i]);
            sum += doubts[i];
        } else {
            run_copy(machine, run.launch, &parts[i]);
        }
    }
    for (size_t i = 0; status == SIM_OK && request->wide_requests > 0 && i < plan->launch_count; i++) {
        run.launch = &plan->launches[i];
        run.index = i;
        if (doubts[i] > WIDE_DOUBT_SHARE * sum) {
            status = run_wider(&run, &parts[i], &exponents[i], error);
        }
    }
    *total_doubt_us = sum;
    return status;
}

/* Add `part`, run `repeat` times, to `sum`: times and bytes add, shares are weighted by time. */
static void result_add(struct kernel_result *sum, const struct kernel_result *part, double repeat,
                       double idle_watts)
{
    double us = part->duration_us * repeat, total = sum->duration_us + us;
    double weight = total > 0 ? us / total : 0;
#define MIX(field) sum->field += (part->field - sum->field) * weight
    for (int s = 0; s < KERNEL_STAGES; s++) {
        MIX(stack[s]);
    }
    MIX(l1_hit_rate);
    MIX(l2_hit_rate);
    MIX(l2_near_hit_rate);
    MIX(l2_far_hit_rate);
    MIX(mall_hit_rate);
    MIX(waves_per_unit);
    MIX(lanes);
    MIX(unit_share);
    MIX(rounds);
    MIX(hbm_share);
    MIX(matrix_share);
    MIX(clock_mhz);
    MIX(watts);
    MIX(sampled_fraction);
    MIX(sampling_error);
#undef MIX
    sum->core_uj += part->core_uj * repeat;
    sum->memory_uj += part->memory_uj * repeat;
    for (int l = 0; l < KERNEL_LEVELS; l++) {
        sum->bytes[l] += part->bytes[l] * repeat;
    }
    sum->hbm_read_bytes += part->hbm_read_bytes * repeat;
    sum->hbm_write_bytes += part->hbm_write_bytes * repeat;
    sum->atomic_count += part->atomic_count * repeat;
    sum->atomic_hottest_line_ops = fmax(sum->atomic_hottest_line_ops, part->atomic_hottest_line_ops);
    sum->clock_mhz = total > 0 ? sum->clock_mhz : part->clock_mhz;
    sum->watts = total > 0 ? sum->watts : fmin(part->watts, idle_watts);
    if (sum->atomic_executed_at == NULL || part->atomic_count > 0) {
        sum->atomic_executed_at = part->atomic_executed_at;
    }
    sum->simulated_line_requests += part->simulated_line_requests;
    sum->simulated_wave_ops += part->simulated_wave_ops;
    sum->duration_us = total;
}

static double gap_us_of(const struct kernel_price *price, const struct chip_profile *chip)
{
    return price->graph_style ? chip->launch_graph_gap : chip->launch_stream_gap;
}

/* Launches of one kernel in a row. */
struct run {
    double us, repeat;
    double first_gap, gap; /* before the first and before each other, less what of the launch path hides */
};

/* What of a launch path of `path` hides behind a launch of `us`, its own path included. */
static double hidden_us(double path, double us, double us_path)
{
    return fmin(path, fmax(us - us_path, 0));
}

/* End of a run of launches, in closed form. Launch k of the run may start when the host has issued it (first_ready +
 * k * interval) and the one before has ended, a gap later. The last end is linear in the launch that the device waited
 * for last, so only the extremes count. `end` is negative before the first launch of all. */
static double run_end_us(double end, double first_ready, double interval, const struct run *run)
{
    double rest = (run->repeat - 1) * (run->us + run->gap);
    double behind_device = end < 0 ? 0 : end + run->first_gap + run->us + rest;
    double waited_first = first_ready + run->us + rest;
    double waited_last = first_ready + (run->repeat - 1) * interval + run->us;
    return fmax(behind_device, fmax(waited_first, waited_last));
}

static double span_us(const struct kernel_price *price, const struct chip_profile *chip, double interval_us)
{
    double end = -1, issued = 0, gap = gap_us_of(price, chip), before_us = 0, before_path = 0;
    for (size_t i = 0; i < price->launch_count; i++) {
        double repeat = price->launch_repeat[i], us = price->launch_us[i], path = price->launch_path_us[i];
        if (repeat <= 0) {
            continue;
        }
        struct run run = { .us = us, .repeat = fmax(repeat, 1), .first_gap = gap - hidden_us(path, before_us, before_path),
                           .gap = gap - hidden_us(path, us, path) };
        end = price->launch_dependent[i] ? end + us : run_end_us(end, issued * interval_us, interval_us, &run);
        issued += repeat;
        before_us = us;
        before_path = path;
    }
    return fmax(end, 0);
}

double kernel_price_measured_us(const struct kernel_price *price, const struct chip_profile *chip,
                                double floor_us, double interval_us)
{
    double us = floor_us + span_us(price, chip, price->graph_style ? 0 : interval_us);
    return price->time_is_per_call ? us / fmax(price->launches, 1) : us;
}

bool kernel_price_value(const struct kernel_price *price, double time_us, double *value)
{
    switch (price->value_rule) {
    case KERNEL_VALUE_AMOUNT_PER_TIME: *value = time_us > 0 ? price->value_amount / time_us : 0; return true;
    case KERNEL_VALUE_TIME_PER_AMOUNT:
        *value = time_us * price->value_factor / price->value_amount;
        return true;
    case KERNEL_VALUE_COUNT: *value = price->value_amount; return true;
    case KERNEL_VALUE_WATTS: *value = price->result.watts; return true;
    default: return false;
    }
}

/* Of a kernel in a stream: what an empty one takes beyond its workgroups' own start and release. */
static double launch_path_us(const struct chip_profile *chip)
{
    double workgroup_us = (chip->dispatch_start_latency + chip->dispatch_release_latency) /
                          chip->clock_core_memory_bound;
    return fmax(chip->launch_latency - workgroup_us, 0);
}

static void add_launch_path(struct kernel_result *result, double us, double idle_watts)
{
    double share = us > 0 ? us / (result->duration_us + us) : 0;
    for (int s = 0; s < KERNEL_STAGES; s++) {
        result->stack[s] *= 1 - share;
    }
    result->stack[KERNEL_STAGE_LAUNCH] += share;
    result->unit_share *= 1 - share;
    result->hbm_share *= 1 - share;
    result->matrix_share *= 1 - share;
    result->watts -= (result->watts - idle_watts) * share;
    result->duration_us += us;
}

/* ---- power */

struct power_load kernel_price_load(const struct kernel_price *price, const struct chip_profile *chip)
{
    double us = price->device_us, mhz = price->result.clock_mhz > 0 ? price->result.clock_mhz : chip->clock_core_max;
    if (us <= 0) {
        return (struct power_load){ 0 };
    }
    double at_max_us = us * pow(mhz / chip->clock_core_max, price->clock_exponent);
    return (struct power_load){ .us = at_max_us,
                                .core_watts = price->result.core_uj / at_max_us,
                                .memory_watts = price->result.memory_uj / at_max_us,
                                .exponent = price->clock_exponent };
}

/* The launch again at a lower clock: its times stretch, its bytes stay. */
static void result_slow(struct kernel_result *result, double us, double mhz, double watts)
{
    double factor = us > 0 ? result->duration_us / us : 1;
    result->hbm_share *= factor;
    result->matrix_share *= factor * result->clock_mhz / mhz;
    result->duration_us = us;
    result->clock_mhz = mhz;
    result->watts = watts;
}

static struct power_load load_of(const struct chip_profile *chip, const struct kernel_result *part, double exponent,
                                 double gap_us, double repeat)
{
    double us = (part->duration_us * pow(part->clock_mhz / chip->clock_core_max, exponent) + gap_us) * repeat;
    return (struct power_load){ .us = us,
                                .core_watts = us > 0 ? part->core_uj * repeat / us : 0,
                                .memory_watts = us > 0 ? part->memory_uj * repeat / us : 0,
                                .exponent = exponent };
}

/* The pause after a burst of `burst_us`: whole copies, or waiting. */
static double pause_us(const struct chip_profile *chip, const struct kernel_duty *duty,
                       const struct kernel_price_loop *loop, double burst_us, double copy_us)
{
    double us = burst_us * (1 - duty->duty) / duty->duty;
    if (us <= 0) {
        return 0;
    }
    if (duty->copies) {
        double asked = loop->copy_pause_us > 0 ? loop->copy_pause_us : copy_us;
        return copy_us * fmax(1, floor(us / asked + 1e-9));
    }
    return loop->spin_mhz > 0 ? us * loop->spin_mhz / chip->clock_core_max : us;
}

/* The clock of the first launch when it runs in bursts with pauses for ever. */
static void settle(const struct chip_profile *chip, bool excursion, const struct power_load *burst,
                   const struct power_load *pause, double gap_us, double repeat, struct kernel_result *part)
{
    struct power_governor governor;
    struct power_load loads[2] = { *burst, *pause };
    struct power_run runs[2];
    power_governor_init(&governor, chip, excursion);
    power_governor_settle(&governor, loads, 2, runs);
    result_slow(part, fmax(runs[0].us / repeat - gap_us, 0), runs[0].mhz, runs[0].watts);
}

static void apply_duty(const struct kernel_price_machine *machine, const struct kernel_price_request *request,
                       const struct kernel_plan *plan, const double paths_us[], struct kernel_result parts[],
                       const double exponents[])
{
    const struct chip_profile *chip = machine->chip;
    double repeat = plan->launches[0].repeat;
    double gap = chip->launch_stream_gap - hidden_us(paths_us[0], parts[0].duration_us, paths_us[0]);
    struct power_load burst = load_of(chip, &parts[0], exponents[0], gap, repeat);
    struct power_load pause = { 0 };
    double copy_us = 0;
    if (plan->duty.copies) {
        pause = load_of(chip, &parts[1], exponents[1], chip->launch_stream_gap - hidden_us(paths_us[1], parts[1].duration_us, paths_us[1]), 1);
        copy_us = pause.us;
    }
    pause.us = pause_us(chip, &plan->duty, &request->loop, burst.us, copy_us);
    settle(chip, plan->duty.excursion, &burst, &pause, gap, repeat, &parts[0]);
}

/* A measuring loop, where the kernel draws more than the board can hold. */
static void apply_loop(const struct chip_profile *chip, const struct kernel_price_loop *loop, struct kernel_result *part,
                       double exponent)
{
    if (loop->calls <= 0 || part->watts <= chip->power_board_limit) {
        return;
    }
    struct power_load burst = load_of(chip, part, exponent, loop->between_us, loop->calls);
    struct power_load pause = { .us = loop->pause_us };
    settle(chip, true, &burst, &pause, loop->between_us, loop->calls, part);
}

/* Among the kernels of a step, whose power set the clock: this one's is no higher, though alone it might be. */
static void apply_step_clock(const struct kernel_price_loop *loop, struct kernel_result *part, double exponent)
{
    if (loop->step_mhz <= 0 || part->clock_mhz <= loop->step_mhz) {
        return;
    }
    double stretch = pow(part->clock_mhz / loop->step_mhz, exponent);
    result_slow(part, part->duration_us * stretch, loop->step_mhz, part->watts / stretch);
}

static void add_sustained(struct kernel_price *price, const struct chip_profile *chip)
{
    struct power_load load = kernel_price_load(price, chip);
    price->sustained_mhz = power_clock_for(&load, chip, chip->power_board_limit);
}

static void add_gaps(struct kernel_price *price, const struct chip_profile *chip)
{
    double busy = price->result.duration_us;
    price->device_us = fmax(span_us(price, chip, 0), busy);
    double launch_share = price->device_us > 0 ? (price->device_us - busy) / price->device_us : 0;
    for (int s = 0; s < KERNEL_STAGES; s++) {
        price->result.stack[s] *= 1 - launch_share;
    }
    price->result.stack[KERNEL_STAGE_LAUNCH] += launch_share;
    price->result.duration_us = price->device_us;
    price->result.limiter = KERNEL_STAGE_ISSUE;
    for (int s = 0; s < KERNEL_STAGES; s++) {
        if (price->result.stack[s] > price->result.stack[price->result.limiter]) {
            price->result.limiter = (enum kernel_stage)s;
        }
    }
}

__attribute__((format(printf, 2, 3))) static void note(struct kernel_price *price, const char *format, ...)
{
    if (price->assumption_count < sizeof price->assumptions / sizeof price->assumptions[0]) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(price->assumptions[price->assumption_count++].text, sizeof price->assumptions[0].text, format, arguments);
        va_end(arguments);
    }
}

static void copy_plan_facts(const struct kernel_plan *plan, struct kernel_price *price)
{
    price->graph_style = plan->style == KERNEL_STYLE_GRAPH;
    price->time_is_per_call = plan->time_is_per_call;
    price->value_only = plan->value_only;
    price->value_rule = plan->value_rule;
    price->value_amount = plan->value_amount;
    price->value_factor = plan->value_factor;
    memcpy(price->value_unit, plan->value_unit, sizeof price->value_unit);
    price->flops = plan->flops;
    price->assumption_count = plan->assumption_count;
    memcpy(price->assumptions, plan->assumptions, sizeof price->assumptions);
}

/* A product that takes no tile of its library's menu: the selector's tile at the efficiency of the class. */
static void apply_library(const struct kernel_price_machine *machine, const struct kernel_price_request *request,
                          const struct kernel_plan *plan, struct kernel_result *part, struct kernel_price *price)
{
    const struct library_profile *library = library_set_find(machine->libraries, request->library, machine->chip->name);
    if (library == NULL || plan->product.m <= 0) {
        return;
    }
    const struct library_class *class = library_class_of(library, chip_unit_count(machine->chip), &plan->product);
    if (class == NULL) {
        return;
    }
    double us = part->duration_us / class->efficiency;
    snprintf(price->library.name, sizeof price->library.name, "%s", library->name);
    snprintf(price->library.class, sizeof price->library.class, "%s", class->name);
    price->library.efficiency = class->efficiency;
    part->hbm_share *= class->efficiency;
    part->matrix_share *= class->efficiency;
    part->watts = machine->chip->power_idle + (part->watts - machine->chip->power_idle) * class->efficiency;
    part->duration_us = us;
    note(price, "%s, %s: %g of the rate of the selector's tile", library->name, class->name, class->efficiency);
}

static enum sim_status price_plan(const struct kernel_price_machine *machine,
                                  const struct kernel_price_request *request, const struct kernel_plan *plan,
                                  struct kernel_price *price, struct sim_error *error)
{
    struct kernel_result parts[KERNEL_PRICE_LAUNCHES_MAX] = { 0 };
    double exponents[KERNEL_PRICE_LAUNCHES_MAX] = { 0 }, exponent_us = 0;
    copy_plan_facts(plan, price);
    if (price->library.is_best) {
        note(price, "%s: tile %ux%u, the best of the kernels that it is known to hold", price->library.name, price->library.tile_m,
             price->library.tile_n);
    } else if (price->library.tile_m > 0 && price->library.filled <= 0) {
        note(price, "%s: tile %ux%u, its configuration for so many rows, K not split", price->library.name, price->library.tile_m,
             price->library.tile_n);
    } else if (price->library.tile_m > 0) {
        note(price, "%s: tile %ux%u, the largest of its menu that fills %g of the units, K not split", price->library.name,
             price->library.tile_m, price->library.tile_n, price->library.filled);
    }
    if (price->library.refused_m > 0) {
        note(price, "its library's tile of %ux%u does not run as the parameters have it: %s", price->library.refused_m,
             price->library.refused_n, price->library.tile_m > 0 ? "the next of its menu instead" : "the selector's tile instead");
    }
    SIM_ASSERT(plan->launch_count <= KERNEL_PRICE_LAUNCHES_MAX, "%zu launches", plan->launch_count);
    double doubt = 0;
    enum sim_status status = run_launches(machine, request, plan, parts, exponents, &doubt, error);
    if (status != SIM_OK) {
        return status;
    }
    for (size_t i = 0; i < plan->launch_count; i++) {
        const struct kernel_launch *launch = &plan->launches[i];
        if (launch->kind == KERNEL_LAUNCH_WAVES) {
            if (i == 0) {
                apply_library(machine, request, plan, &parts[i], price);
            }
            apply_loop(machine->chip, &request->loop, &parts[i], exponents[i]);
            apply_step_clock(&request->loop, &parts[i], exponents[i]);
            price->launch_path_us[i] = price->graph_style || launch->dependent ? 0 : launch_path_us(machine->chip);
            add_launch_path(&parts[i], price->launch_path_us[i], machine->chip->power_idle);
        }
        SIM_ASSERT(isfinite(parts[i].duration_us) && parts[i].duration_us >= 0, "%s/%s launch %zu takes %g us",
                   request->suite, request->kernel, i, parts[i].duration_us);
    }
    price->launch_count = plan->launch_count;
    if (plan->duty.given) {
        apply_duty(machine, request, plan, price->launch_path_us, parts, exponents);
        price->launch_count = 1; /* the pause is not part of the time */
    }
    for (size_t i = 0; i < price->launch_count; i++) {
        double repeat = plan->launches[i].repeat;
        price->launch_us[i] = parts[i].duration_us;
        price->launch_repeat[i] = repeat;
        price->launch_dependent[i] = plan->launches[i].dependent;
        price->launches += repeat;
        price->host_us += staging_us(machine, &plan->launches[i]) * repeat;
        exponent_us += exponents[i] * parts[i].duration_us * repeat;
        result_add(&price->result, &parts[i], repeat, machine->chip->power_idle);
    }
    price->clock_exponent = price->result.duration_us > 0 ? exponent_us / price->result.duration_us : 0;
    price->doubt = price->result.duration_us > 0 ? doubt / price->result.duration_us : 0;
    price->result.flops = plan->flops;
    add_gaps(price, machine->chip);
    add_sustained(price, machine->chip);
    return SIM_OK;
}

#define MENU_TEXT 1400 /* of parameters of a product on a given tile, or on one of LIBRARY_TILES_MAX */

static bool gives_a_tile(const char *params)
{
    static const char *const keys[] = { "tile_", "tiles", "split_k", "stream_k", "stages", "workgroups", "style" };
    bool gives = false;
    for (size_t i = 0; params != NULL && i < sizeof keys / sizeof keys[0]; i++) {
        gives = gives || strstr(params, keys[i]) != NULL;
    }
    return gives;
}

static enum sim_status plan_create(const struct kernel_price_machine *machine, const struct kernel_price_request *request,
                                   const char *text, struct kernel_plan **plan, struct sim_error *error)
{
    struct kernel_params *params = NULL;
    struct kernel_machine kernel_machine = machine_of(machine->chip);
    if (!request->exact && request->window_requests > 0 && machine->engine == CHIP_ENGINE_FAST) {
        kernel_machine.parts = chip_parts(machine->chip);
    }
    enum sim_status status = kernel_params_parse(text, &params, error);
    if (status == SIM_OK) {
        status = kernel_plan_create(request->suite, request->kernel, params, &kernel_machine, plan, error);
    }
    kernel_params_destroy(params);
    return status;
}

/* A product on a tile of its library. `text` then holds its parameters, by which its launches are kept. */
static bool take_tile(const struct kernel_price_machine *machine, const struct kernel_price_request *request, const char *library,
                      struct library_configuration tile, struct kernel_plan **plan, char text[MENU_TEXT], struct kernel_price *price)
{
    struct kernel_plan *taken = NULL;
    struct sim_error ignored = { 0 };
    char depth[40] = "";
    if (tile.k > 0) {
        snprintf(depth, sizeof depth, ";tile_k=%u;stages=%u", tile.k, tile.stages);
    }
    int length = snprintf(text, MENU_TEXT, "%s;tile_m=%u;tile_n=%u%s;split_k=1", request->params, tile.m, tile.n, depth);
    if (length >= MENU_TEXT || plan_create(machine, request, text, &taken, &ignored) != SIM_OK) {
        return false;
    }
    kernel_plan_destroy(*plan);
    *plan = taken;
    snprintf(price->library.name, sizeof price->library.name, "%s", library);
    price->library.tile_m = tile.m;
    price->library.tile_n = tile.n;
    price->library.efficiency = 1;
    return true;
}

/* A product on the best of the kernels that its library is known to hold. */
static bool take_best(const struct kernel_price_machine *machine, const struct kernel_price_request *request,
                      const struct library_profile *library, struct kernel_plan **plan, char text[MENU_TEXT], struct kernel_price *price)
{
    struct kernel_plan *taken = NULL;
    struct sim_error ignored = { 0 };
    char tiles[MENU_TEXT];
    if (!library_tiles_text(library, &(*plan)->product, tiles, sizeof tiles) ||
        snprintf(text, MENU_TEXT, "%s;tiles=%s", request->params, tiles) >= MENU_TEXT ||
        plan_create(machine, request, text, &taken, &ignored) != SIM_OK) {
        return false;
    }
    kernel_plan_destroy(*plan);
    *plan = taken;
    snprintf(price->library.name, sizeof price->library.name, "%s", library->name);
    price->library.tile_m = taken->product.tile_m;
    price->library.tile_n = taken->product.tile_n;
    price->library.efficiency = 1;
    price->library.is_best = true;
    return true;
}

/* A product on the tile that its library has for it: its configuration for so many rows, or the first of its menu that the device
 * can run; else the product is left alone, and a tile that was refused is noted. */
static void take_menu(const struct kernel_price_machine *machine, const struct kernel_price_request *request,
                      struct kernel_plan **plan, char text[MENU_TEXT], struct kernel_price *price)
{
    const struct library_profile *library = library_set_find(machine->libraries, request->library, machine->chip->name);
    double units = chip_unit_count(machine->chip);
    if (library == NULL || (*plan)->product.m <= 0 || strcmp(request->kernel, "grouped") == 0 || gives_a_tile(request->params)) {
        return;
    }
    if (library->tile_count > 0 && take_best(machine, request, library, plan, text, price)) {
        return;
    }
    const struct library_configuration *configuration = library_configuration_of(library, &(*plan)->product);
    if (configuration != NULL) {
        if (!take_tile(machine, request, library->name, *configuration, plan, text, price)) {
            price->library.refused_m = configuration->m;
            price->library.refused_n = configuration->n;
        }
        return;
    }
    struct library_configuration tile = { 0 };
    for (size_t i = 0; (i = library_menu_tile(library, units, &(*plan)->product, i, &tile.m, &tile.n)) < library->menu.tile_count; i++) {
        if (take_tile(machine, request, library->name, tile, plan, text, price)) {
            price->library.filled = library->menu.filled;
            return;
        }
        price->library.refused_m = tile.m;
        price->library.refused_n = tile.n;
    }
}

/* The call's parameters with those by which the library launches its kernel, but for what the caller gives; NULL: none. */
static char *launch_params(const struct kernel_price_machine *machine, const struct kernel_price_request *request)
{
    const struct library_profile *library = library_set_find(machine->libraries, request->library, machine->chip->name);
    const struct library_kernel *kernel = library != NULL ? library_kernel_of(library, request->suite, request->kernel) : NULL;
    char setup[32] = "";
    if (kernel == NULL) {
        return NULL;
    }
    if (kernel->setup_cycles > 0) {
        snprintf(setup, sizeof setup, "setup_cycles=%.0f", kernel->setup_cycles);
    }
    char *launched = params_with_defaults(request->params, kernel->params), *all = params_with_defaults(launched, setup);
    free(launched);
    return all;
}

void kernel_price_compute(const struct kernel_price_machine *machine,
                          const struct kernel_price_request *request, struct kernel_price *price)
{
    struct kernel_plan *plan = NULL;
    struct sim_error error = { 0 };
    char text[MENU_TEXT], *launched = launch_params(machine, request);
    struct kernel_price_request taken = *request;
    memset(price, 0, sizeof *price);
    if (launched != NULL) {
        taken.params = launched;
    }
    price->status = plan_create(machine, request, taken.params, &plan, &error);
    if (price->status == SIM_OK) {
        take_menu(machine, request, &plan, text, price);
        taken.params = price->library.tile_m > 0 ? text : taken.params;
        price->status = price_plan(machine, &taken, plan, price, &error);
    }
    kernel_plan_destroy(plan);
    free(launched);
    if (price->status != SIM_OK) {
        snprintf(price->error, sizeof price->error, "%s", error.text);
    }
}
