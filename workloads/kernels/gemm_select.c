/* What a tile costs, level by level. */
#include "workloads/kernels/gemm_select.h"
#include "workloads/kernels/dense_internal.h"
#include <math.h>
#include <string.h>

#define TURN_READINGS 3 /* an operand that is turned over reads its words from LDS one by one, four to a bank */
#define STAGING_BYTES 16384.0 /* of LDS through which a result leaves */
#define VECTOR_WORK 1.25 /* of the multiply-adds alone, where vector units do them: beside 64 of them, 16 slots for LDS, addresses and banks */
#define SLOWEST_LINE 0.5 /* of what a miss takes longer than a step's mean line: the step's last one, not hidden behind the others */
#define OUT_OF_STEP 1.25 /* stream-K: workgroups at different K find less in the L2; the event-driven model says 1.15 to 1.4 */
#define BUSIEST_SLICE 2.5 /* standard deviations above the mean: the largest of a hundred */
#define OVERLAP_LOSS 0.15   /* of the smaller side of a step that is not hidden behind the larger */
#define BELOW (1 - 1e-9) /* an order of additions is not another's */
#define THREADS_SMALL 128u
#define THREADS_LARGE 256u

/* fmin, fmax, ceil and floor of what occurs here (no NaN, at most 2^52), inlined: they are most of a selection's time. */
static inline double least(double a, double b)
{
    return a < b ? a : b;
}
static inline double most(double a, double b)
{
    return a > b ? a : b;
}
static inline double down(double x)
{
    return (double)(int64_t)x;
}
static inline double up(double x)
{
    double whole = down(x);
    return whole < x ? whole + 1 : whole;
}

const char *gemm_mapping_text(enum gemm_mapping mapping)
{
    static const char *const texts[GEMM_MAPPINGS] = { "band", "row", "column", "curve" };
    return texts[mapping];
}

const char *gemm_limit_text(enum gemm_limit limit)
{
    static const char *const texts[GEMM_LIMITS] = { "matrix", "lds", "issue", "l1", "l2", "mall", "hbm", "latency", "launch" };
    return texts[limit];
}

/* ---- rules shared with the wave program ---- */

uint64_t gemm_tile_rows(const struct gemm_problem *problem, uint32_t tile_m)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < problem->group_count; i++) {
        rows += ceil_div(problem->group_m[i], tile_m);
    }
    return problem->group_count > 0 ? rows : ceil_div(problem->m, tile_m);
}

uint32_t gemm_tile_lds(const struct gemm_problem *problem, const struct gemm_tile *tile)
{
    return tile->stages * (tile->m + tile->n) * tile->k * problem->type.bytes;
}

static double multiply_cycles(const struct gemm_machine *machine, const struct gemm_problem *problem,
                              const struct gemm_tile *tile)
{
    bool direct = (problem->style == GEMM_ASYNC && !problem->through_registers) || problem->type.dtype == WAVE_FP32;
    double rate = problem->type.rate * (direct ? 1 : problem->register_rate);
    if (problem->type.dtype != WAVE_FP32) {
        rate *= machine->sustained;
    }
    return 2.0 * tile->m * tile->n * tile->k * problem->type.products / rate;
}

static double lds_cycles(const struct gemm_machine *machine, const struct gemm_problem *problem,
                         const struct gemm_tile *tile)
{
    double wide = tile->m > tile->n ? tile->m : tile->n, narrow = tile->m > tile->n ? tile->n : tile->m;
    double readings = up(wide / machine->operand_rows);
    double turned = problem->turned == 2 ? tile->n : problem->turned == 1 ? tile->m : 0;
    return (wide + readings * narrow + TURN_READINGS * turned) * tile->k * problem->type.bytes / machine->lds_rate;
}

double gemm_step_cycles(const struct gemm_machine *machine, const struct gemm_problem *problem,
                        const struct gemm_tile *tile)
{
    return most(multiply_cycles(machine, problem, tile), lds_cycles(machine, problem, tile));
}

double gemm_drain_cycles(const struct gemm_machine *machine, const struct gemm_problem *problem,
                         const struct gemm_tile *tile)
{
    double bytes = (double)tile->m * tile->n * (tile->split > 1 ? 4 : problem->type.out_bytes);
    if (machine->result_buffers > 1) { /* other waves store it meanwhile */
        return 0;
    }
    return most(0, bytes - STAGING_BYTES) / machine->store_rate;
}

double gemm_setup_cycles(const struct gemm_problem *problem)
{
    return problem->style == GEMM_ASYNC ? 900 : 600;
}

uint32_t gemm_threads(const struct gemm_machine *machine, const struct gemm_tile *tile)
{
    (void)machine;
    return (uint64_t)tile->m * tile->n >= 128 * 128 ? THREADS_LARGE : THREADS_SMALL;
}

uint32_t gemm_registers(const struct gemm_machine *machine, const struct gemm_tile *tile)
{
    uint64_t results = (uint64_t)tile->m * tile->n / gemm_threads(machine, tile);
    uint64_t registers = (machine->result_buffers > 1 ? 88 : results) + 40; /* 88: of a part on its way out */
    return (uint32_t)min_u64((uint64_t)machine->lanes * 8 - 2, registers);
}

bool gemm_is_persistent(const struct gemm_machine *machine, const struct gemm_problem *problem,
                        const struct gemm_tile *tile)
{
    return machine->runs_ahead && problem->style == GEMM_ASYNC && 2 * gemm_tile_lds(problem, tile) > machine->lds_workgroup_max;
}

/* ---- a tile on the machine ---- */

/* Everything about one candidate that its estimate is made from. */
struct plan {
    const struct gemm_machine *machine;
    const struct gemm_problem *problem;
    struct gemm_tile tile;
    double tiles_m, tiles_n, tiles, items; /* tiles along M and N of one product, in all; items: tiles x split */
    double steps;                          /* of K per item */
    double per_unit, slots;                /* resident workgroups of a unit, of the package */
    double rounds, rest;                   /* full rounds, and workgroups of one unit in the last */
    double rest_units;                     /* units busy in the last round */
    double matrix, lds, issue, bytes;      /* of a step: cycles; operand bytes that a workgroup asks L2 for */
    double rows, columns;                  /* of a tile that there are, in the mean */
    double asked;                          /* lines of a step, of those that a unit can have under way */
    double hbm_cost;                       /* of reading operands, against whole DRAM rows */
    bool persistent;
};

static double resident(const struct plan *plan)
{
    const struct gemm_machine *machine = plan->machine;
    double lds = gemm_tile_lds(plan->problem, &plan->tile) + machine->lds_reserved;
    double lanes = gemm_threads(machine, &plan->tile);
    double by_lds = down(machine->lds_bytes / lds);
    double by_registers = down(machine->registers / (gemm_registers(machine, &plan->tile) * lanes));
    double most_resident = plan->tile.resident > 0 ? plan->tile.resident : 16;
    return most(1, least(most_resident, least(by_lds, by_registers)));
}

/* Instructions that move operands where bulk copies cannot: a lane moves `width` bytes an access, and every access has
 * its address and bounds. The more lanes may issue, the faster, whatever the tile. */
static double issue_cycles(const struct plan *plan)
{
    const struct gemm_problem *problem = plan->problem;
    if (problem->style == GEMM_ASYNC) {
        return 0;
    }
    double accesses = (double)(plan->tile.m + plan->tile.n) * plan->tile.k * problem->type.bytes /
                      (plan->machine->lanes * problem->width);
    double slots = problem->style == GEMM_REGISTER ? 28 : 6;
    return accesses * (slots * plan->machine->valu_interval + plan->machine->issue_interval) / plan->machine->simds;
}

static void set_steps(struct plan *plan)
{
    const struct gemm_tile *tile = &plan->tile;
    double depth = up((double)plan->problem->k / tile->k);
    plan->items = plan->tiles * tile->split;
    plan->steps = up(depth / tile->split);
    if (tile->stream_k) {
        plan->items = least(plan->machine->units * plan->per_unit, plan->tiles * depth);
        plan->steps = up(plan->tiles * depth / plan->items);
    }
}

/* Workgroups are dealt to groups in turn, then to units: the fullest group counts. */
static void set_rounds(struct plan *plan)
{
    const struct gemm_machine *machine = plan->machine;
    double group_items = up(plan->items / machine->groups), group_slots = machine->units_per_group * plan->per_unit;
    plan->rounds = down(group_items / group_slots);
    double rest = group_items - plan->rounds * group_slots;
    plan->rest = up(rest / machine->units_per_group);
    plan->rest_units = least(rest, machine->units_per_group) * machine->groups;
    plan->slots = group_slots * machine->groups;
}

/* Bytes side by side in memory that a step reads of an operand: of a row of it along K, or of a row of K. */
struct pieces {
    double a, b;
};

static struct pieces pieces_of(const struct gemm_problem *problem, const struct gemm_tile *tile)
{
    bool a_along_k = problem->trans < GEMM_TT, b_along_k = problem->trans == GEMM_NT || problem->trans == GEMM_TT;
    return (struct pieces){ (a_along_k ? tile->k : tile->m) * problem->type.bytes, (b_along_k ? tile->k : tile->n) * problem->type.bytes };
}

/* A step reads a piece of each row of an operand; the next piece comes when the DRAM row has been closed again. */
static double hbm_cost_of(const struct plan *plan)
{
    const struct gemm_machine *machine = plan->machine;
    struct pieces piece = pieces_of(plan->problem, &plan->tile);
    double m = (double)plan->problem->m, n = (double)plan->problem->n;
    double openings = m / least(piece.a, machine->hbm_row_bytes) + n / least(piece.b, machine->hbm_row_bytes);
    return 1 + machine->hbm_row_loss * openings / (m + n);
}

/* Rows and columns of a tile that there are, in the mean. */
static double tile_rows_filled(const struct gemm_problem *problem, const struct gemm_tile *tile)
{
    return (double)problem->m / (double)gemm_tile_rows(problem, tile->m);
}

static double tile_columns_filled(const struct gemm_problem *problem, const struct gemm_tile *tile)
{
    return (double)problem->n / up((double)problem->n / tile->n);
}

/* Operand bytes that a workgroup asks for in a step, of which a cluster loads each once; `line`: in whole lines of so many bytes, of which a shorter piece takes one. */
static double step_bytes(const struct gemm_problem *problem, const struct gemm_tile *tile, double line)
{
    struct pieces piece = pieces_of(problem, tile);
    double a = tile_rows_filled(problem, tile) / tile->cluster_n * most(1, line / piece.a);
    double b = tile_columns_filled(problem, tile) / tile->cluster_m * most(1, line / piece.b);
    return (a + b) * tile->k * problem->type.bytes;
}

static void plan_init(struct plan *plan, const struct gemm_machine *machine, const struct gemm_problem *problem,
                      const struct gemm_tile *tile)
{
    *plan = (struct plan){ .machine = machine, .problem = problem, .tile = *tile };
    double rows = (double)gemm_tile_rows(problem, tile->m), products = (double)max_u64(1, problem->group_count);
    plan->tiles_m = up(rows / products);
    plan->tiles_n = up((double)problem->n / tile->n);
    plan->tiles = rows * plan->tiles_n * (double)problem->batch;
    plan->rows = tile_rows_filled(problem, tile);
    plan->columns = tile_columns_filled(problem, tile);
    plan->persistent = gemm_is_persistent(machine, problem, tile);
    plan->per_unit = plan->persistent ? 1 : resident(plan);
    set_steps(plan);
    set_rounds(plan);
    plan->matrix = multiply_cycles(machine, problem, tile);
    plan->lds = lds_cycles(machine, problem, tile);
    plan->issue = issue_cycles(plan);
    plan->hbm_cost = hbm_cost_of(plan);
    plan->asked = step_bytes(problem, tile, machine->line_bytes) / machine->in_flight;
    plan->bytes = step_bytes(problem, tile, 0);
}

/* ---- caches: what runs together shares rows of A and columns of B ---- */

struct patch {
    double m, n; /* M_C x N_C tiles of one product that run together behind one L2 */
};

/* `together` tiles of a product, `height` of them along M before the next along N, then anew below. */
static struct patch patch_from(const struct plan *plan, double height, double together)
{
    double n = up(together / height);
    return n <= plan->tiles_n ? (struct patch){ height, n } : (struct patch){ least(plan->tiles_m, up(together / plan->tiles_n)), plan->tiles_n };
}

static struct patch patch_of(const struct plan *plan, enum gemm_mapping mapping, double group, double together)
{
    double m = plan->tiles_m, n = plan->tiles_n;
    together = most(1, least(together, m * n));
    switch (mapping) {
    case GEMM_MAP_ROW: return (struct patch){ up(together / n), least(together, n) };
    case GEMM_MAP_COLUMN: return (struct patch){ least(together, m), up(together / m) };
    case GEMM_MAP_BAND: {
        double height = least(least(group, m), together);
        return patch_from(plan, height, together);
    }
    default: {
        double side = 1; /* a Hilbert curve fills squares, at worst two half ones */
        while (side * side < together) {
            side *= 2;
        }
        return patch_from(plan, least(m, side), together);
    }
    }
}

static double patch_bytes(const struct plan *plan, struct patch patch)
{
    return (patch.m * plan->rows + patch.n * plan->columns) * plan->tile.k * plan->problem->type.bytes;
}

/* Rows of the near-square band for `together` tiles at once. */
static uint32_t band_for(const struct plan *plan, double together)
{
    double rows = sqrt(together * plan->tile.n / plan->tile.m);
    return (uint32_t)most(1, least(plan->tiles_m, down(rows)));
}

/* Bytes of one step of all tiles that run together: asked of the L2s, of the memory-side cache, of HBM. */
struct traffic {
    double l2, mall, hbm;
    struct patch patch; /* of one product, behind one L2 */
    double patches;     /* that run side by side */
    double uneven;      /* busiest slice over the mean */
};

/* Parts of K and products of a batch that `together` tiles belong to, dealt out one after the other: two have no operand in common. */
static double apart_of(const struct plan *plan, double together)
{
    return most(1, together / (plan->tiles_m * plan->tiles_n));
}

static struct traffic traffic_of(const struct plan *plan, enum gemm_mapping mapping, double group, bool by_group,
                                 double together)
{
    const struct gemm_machine *machine = plan->machine;
    double domains = machine->private_l2 ? machine->groups : 1;
    double apart = apart_of(plan, together);
    double per_product = together / apart;
    struct patch all = patch_of(plan, mapping, group, per_product);
    struct traffic traffic = { .l2 = together * plan->bytes };
    if (plan->tile.stream_k) { /* each is at another K */
        traffic.mall = traffic.hbm = traffic.l2;
        return traffic;
    }
    double device = patch_bytes(plan, all) * apart;
    double domain = device;
    traffic.patch = all;
    traffic.patches = apart;
    if (domains > 1 && by_group) { /* runs of them: a domain has whole parts, or a piece of one */
        traffic.patches = most(1, apart / domains);
        traffic.patch = patch_of(plan, mapping, group, together / (domains * traffic.patches));
    } else if (domains > 1) { /* dealt out in turn: every domain sees most rows and columns of the patch */
        traffic.patch = (struct patch){ least(all.m, per_product / domains), least(all.n, per_product / domains) };
    }
    if (domains > 1) {
        domain = domains * patch_bytes(plan, traffic.patch) * traffic.patches;
    }
    traffic.mall = least(domain, traffic.l2);
    traffic.hbm = least(device, traffic.mall);
    return traffic;
}

/* Load of the busiest slice of an L2 over the mean: the lines of a step fall on slices by chance, and a line of A is read by
 * every column of tiles, one of B by every row. Steps in flight even it out, and workgroups that share a unit, each at its own step. */
static double slice_unevenness(const struct plan *plan, const struct traffic *traffic, double together)
{
    const struct gemm_tile *tile = &plan->tile;
    double steps = most(1, tile->stages - 1.0) * most(1, together / plan->machine->units);
    double a_lines = traffic->patch.m * tile->m, a_reads = most(1, traffic->patch.n / tile->cluster_n);
    double b_lines = traffic->patch.n * tile->n, b_reads = most(1, traffic->patch.m / tile->cluster_m);
    double sum = a_lines * a_reads + b_lines * b_reads;
    double squares = a_lines * a_reads * a_reads + b_lines * b_reads * b_reads;
    if (tile->stream_k) {
        return 1;
    }
    double deviation = sqrt(squares * plan->machine->l2_slices / (traffic->patches * steps)) / sum;
    return 1 + BUSIEST_SLICE * deviation;
}

/* Operands that stay in a cache from round to round come from HBM once. */
static void limit_hbm(const struct plan *plan, struct traffic *traffic, double together)
{
    const struct gemm_problem *problem = plan->problem;
    double b_rows = (double)problem->n * (double)max_u64(1, problem->group_count);
    double once = ((double)problem->m + b_rows) * (double)problem->k * (double)problem->batch * problem->type.bytes;
    double total_steps = most(1, plan->items / together * plan->steps);
    double cache = plan->machine->mall_bytes > 0 ? plan->machine->mall_bytes : plan->machine->l2_bytes;
    if (once < 0.7 * cache) {
        traffic->hbm = least(traffic->hbm, once / total_steps);
    }
    if (plan->machine->mall_bytes <= 0) {
        traffic->mall = least(traffic->mall, traffic->hbm);
    }
}

/* ---- time ---- */

static void step_parts(const struct plan *plan, const struct traffic *traffic, double workgroups,
                       double parts[GEMM_LIMITS])
{
    const struct gemm_machine *machine = plan->machine;
    double hit = traffic->l2 > 0 ? 1 - traffic->mall / traffic->l2 : 0;
    double beyond = traffic->mall > 0 ? traffic->hbm / traffic->mall : 1;
    double miss = beyond * machine->hbm_latency + (1 - beyond) * machine->mall_latency;
    double latency = hit * machine->l2_latency + (1 - hit) * miss, asked = plan->asked * workgroups;
    double ahead = most(1, plan->tile.stages - 1.0), depth = most(1, least(ahead, 1 / asked)); /* steps under way: as buffers, as lines allow */
    memset(parts, 0, sizeof(double) * GEMM_LIMITS);
    double waves = up(gemm_threads(machine, &plan->tile) / machine->lanes) * workgroups;
    double fullest = up(waves / machine->simds) * machine->simds / waves; /* the SIMD of most waves over the mean one */
    parts[GEMM_LIMIT_MATRIX] = plan->matrix * workgroups * fullest;
    parts[GEMM_LIMIT_LDS] = plan->lds * workgroups;
    parts[GEMM_LIMIT_ISSUE] = plan->issue * workgroups * fullest;
    parts[GEMM_LIMIT_L1] = plan->bytes * workgroups / machine->fill_rate;
    parts[GEMM_LIMIT_L2] = traffic->l2 * traffic->uneven / machine->l2_rate;
    parts[GEMM_LIMIT_MALL] = machine->mall_rate > 0 ? traffic->mall / machine->mall_rate : 0;
    parts[GEMM_LIMIT_HBM] = traffic->hbm * plan->hbm_cost / machine->hbm_rate;
    parts[GEMM_LIMIT_LATENCY] =
        most(miss / ahead + parts[GEMM_LIMIT_HBM] / 2, asked * latency + SLOWEST_LINE * most(0, miss - latency) / (depth * workgroups));
    if (plan->problem->type.dtype == WAVE_FP32) { /* a wave multiplies on its own SIMD, then waits for LDS as long as all of them would multiply */
        double alone = most(1, machine->simds * machine->lanes / gemm_threads(machine, &plan->tile));
        parts[GEMM_LIMIT_LATENCY] = most(parts[GEMM_LIMIT_LATENCY], (VECTOR_WORK * alone + 1) * plan->matrix);
        parts[GEMM_LIMIT_MATRIX] *= VECTOR_WORK;
    }
}

/* Operands on their way, and what is done with them: the larger side of a step, and a share of the other. */
static double step_time(const double parts[GEMM_LIMITS], enum gemm_limit *limit)
{
    double work = 0, loads = 0;
    enum gemm_limit by_work = GEMM_LIMIT_MATRIX, by_loads = GEMM_LIMIT_L1;
    for (int i = GEMM_LIMIT_MATRIX; i <= GEMM_LIMIT_ISSUE; i++) {
        by_work = parts[i] > work ? (enum gemm_limit)i : by_work;
        work = most(work, parts[i]);
    }
    for (int i = GEMM_LIMIT_L1; i <= GEMM_LIMIT_LATENCY; i++) {
        by_loads = parts[i] > loads ? (enum gemm_limit)i : by_loads;
        loads = most(loads, parts[i]);
    }
    *limit = loads > work ? by_loads : by_work;
    return most(work, loads) + OVERLAP_LOSS * least(work, loads);
}

static double store_cycles(const struct plan *plan, double workgroups)
{
    const struct gemm_machine *machine = plan->machine;
    double bytes = (double)plan->tile.m * plan->tile.n * (plan->tile.split > 1 ? 4 : plan->problem->type.out_bytes);
    double from_unit = bytes * workgroups / machine->store_rate;
    double all = bytes * workgroups * machine->units / machine->hbm_rate;
    return most(from_unit, all) + machine->l2_latency;
}

/* The launch that adds up the parts of split tiles, or the tail in which owners of shared tiles read what others left. */
static double reduction_cycles(const struct plan *plan)
{
    const struct gemm_machine *machine = plan->machine;
    const struct gemm_problem *problem = plan->problem;
    double elements = (double)problem->m * (double)problem->n * (double)problem->batch;
    if (plan->tile.stream_k) {
        double tile_bytes = 4.0 * plan->tile.m * plan->tile.n;
        return 2 * (tile_bytes / machine->store_rate + machine->l2_latency + machine->workgroup_end);
    }
    if (plan->tile.split <= 1) {
        return 0;
    }
    if (machine->split_in_kernel) {
        double tile_bytes = 4.0 * plan->tile.m * plan->tile.n;
        return tile_bytes / machine->store_rate + (plan->tile.split - 1) * tile_bytes / machine->fill_rate +
               2 * machine->hbm_latency;
    }
    double bytes = elements * (4.0 * plan->tile.split + problem->type.out_bytes);
    double start = machine->split_early ? machine->workgroup_start + machine->workgroup_end : machine->gap + machine->launch;
    return start + machine->hbm_latency + bytes / least(machine->l2_rate, machine->hbm_rate * 2);
}

static double round_cycles(const struct plan *plan, const double parts[GEMM_LIMITS], double workgroups, bool first,
                           bool last, enum gemm_limit *limit)
{
    double cycles = plan->steps * step_time(parts, limit) * (plan->tile.stream_k ? OUT_OF_STEP : 1);
    bool runs_ahead = plan->persistent || plan->per_unit > 1; /* another tile's loads or work fill the gap */
    double start = plan->machine->hbm_latency * most(1, plan->asked * workgroups) + plan->machine->workgroup_start +
                   gemm_setup_cycles(plan->problem); /* the first step's operands come from memory, as many lines at once as a unit can ask for */
    if (first || !runs_ahead) {
        cycles += start;
    } else if (!plan->persistent) { /* the others have the unit meanwhile: one of them is missing */
        cycles += start / workgroups;
    }
    cycles += last || !runs_ahead ? store_cycles(plan, workgroups)
                                  : gemm_drain_cycles(plan->machine, plan->problem, &plan->tile);
    return cycles;
}

static void choose_mapping(struct plan *plan, double together, struct traffic *best)
{
    best->mall = INFINITY;
    for (int by_group = 0; by_group <= (plan->machine->groups > 1); by_group++) {
        double domains = plan->machine->private_l2 && by_group ? plan->machine->groups : 1;
        uint32_t band = band_for(plan, most(1, together / most(domains, apart_of(plan, together))));
        for (int mapping = 0; mapping < GEMM_MAPPINGS; mapping++) {
            struct traffic traffic = traffic_of(plan, (enum gemm_mapping)mapping, band, by_group, together);
            if (traffic.mall < best->mall * 0.999 || (traffic.mall <= best->mall && traffic.hbm < best->hbm * 0.999)) {
                *best = traffic;
                plan->tile.mapping = (enum gemm_mapping)mapping;
                plan->tile.group = band;
                plan->tile.by_group = by_group;
            }
        }
    }
}

static double useful_share(const struct plan *plan)
{
    const struct gemm_problem *problem = plan->problem;
    double depth = plan->tile.stream_k ? up((double)problem->k / plan->tile.k) : plan->steps * plan->tile.split;
    return (double)problem->m * (double)problem->n * (double)problem->k * (double)problem->batch /
           (plan->tiles * plan->tile.m * plan->tile.n * depth * plan->tile.k);
}

double gemm_least_step(const struct gemm_machine *machine, const struct gemm_problem *problem, const struct gemm_tile *tile)
{
    struct plan plan = { .machine = machine, .problem = problem, .tile = *tile };
    double latency = least(machine->l2_latency, least(machine->mall_latency, machine->hbm_latency));
    double parts[GEMM_LIMITS] = {
        [GEMM_LIMIT_MATRIX] = multiply_cycles(machine, problem, tile),
        [GEMM_LIMIT_LDS] = lds_cycles(machine, problem, tile),
        [GEMM_LIMIT_ISSUE] = issue_cycles(&plan),
        [GEMM_LIMIT_L1] = step_bytes(problem, tile, 0) / machine->fill_rate,
        [GEMM_LIMIT_LATENCY] = step_bytes(problem, tile, machine->line_bytes) * latency / machine->in_flight,
    };
    enum gemm_limit limit;
    return step_time(parts, &limit);
}

double gemm_least_us(const struct gemm_machine *machine, const struct gemm_problem *problem, const struct gemm_tile *tile,
                     double tiles, double step)
{
    struct plan plan = { .machine = machine, .problem = problem, .tile = *tile };
    double steps = up((double)problem->k / tile->k);
    double busiest = tile->stream_k ? OUT_OF_STEP * tiles * steps / machine->units
                                    : up(tiles * tile->split / machine->units) * up(steps / tile->split);
    double stored = (double)tile->m * tile->n * (tile->split > 1 ? 4 : problem->type.out_bytes) / machine->store_rate;
    double once = machine->launch + machine->workgroup_start + machine->hbm_latency + gemm_setup_cycles(problem) + stored +
                  machine->l2_latency + machine->workgroup_end + reduction_cycles(&plan);
    return (busiest * step + once) * BELOW / machine->mhz;
}

void gemm_estimate_tile(const struct gemm_machine *machine, const struct gemm_problem *problem,
                        const struct gemm_tile *tile, struct gemm_estimate *estimate)
{
    struct plan plan;
    struct traffic traffic = { 0 };
    double parts[GEMM_LIMITS], rest_parts[GEMM_LIMITS];
    enum gemm_limit limit = GEMM_LIMIT_MATRIX, rest_limit = GEMM_LIMIT_MATRIX;
    plan_init(&plan, machine, problem, tile);
    double full = least(plan.slots, plan.items);
    choose_mapping(&plan, full, &traffic);
    limit_hbm(&plan, &traffic, full);
    traffic.uneven = slice_unevenness(&plan, &traffic, full);
    step_parts(&plan, &traffic, plan.rounds > 0 ? plan.per_unit : plan.rest, parts);
    double cycles = machine->launch + machine->workgroup_end;
    if (plan.rounds > 0) {
        cycles += round_cycles(&plan, parts, plan.per_unit, true, plan.rest == 0, &limit) +
                  (plan.rounds - 1) * round_cycles(&plan, parts, plan.per_unit, false, false, &limit);
    }
    if (plan.rest > 0) {
        double share = plan.rest * plan.rest_units / full;
        struct traffic rest = { traffic.l2 * share, traffic.mall * share, traffic.hbm * share, .uneven = traffic.uneven };
        step_parts(&plan, &rest, plan.rest, rest_parts);
        cycles += round_cycles(&plan, rest_parts, plan.rest, plan.rounds == 0, true, plan.rounds > 0 ? &rest_limit : &limit);
    }
    double reduction = reduction_cycles(&plan), step = plan.steps * (plan.rounds + (plan.rest > 0)) * step_time(parts, &limit);
    *estimate = (struct gemm_estimate){
        .tile = plan.tile,
        .us = (cycles + reduction) / machine->mhz,
        .reduction_us = reduction / machine->mhz,
        .limit = step < 0.5 * (cycles + reduction) ? GEMM_LIMIT_LAUNCH : limit,
        .steps = plan.steps,
        .rounds = plan.rounds + (plan.rest > 0),
        .filled = plan.items / ((plan.rounds + (plan.rest > 0)) * plan.slots),
        .useful = useful_share(&plan),
        .hit_l2 = traffic.l2 > 0 ? 1 - traffic.mall / traffic.l2 : 0,
        .workgroups = plan.items,
        .per_unit = plan.per_unit,
    };
    memcpy(estimate->step, parts, sizeof parts);
}
