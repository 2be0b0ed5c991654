/* Kernels in which every element stands by itself, as PyTorch 2.11 launches them (aten/src/ATen/native/cuda):
 * - CUDALoops.cuh: workgroups of 128. Contiguous without a type change: vectorized_elementwise_kernel, 8 elements a lane
 *   (16 when input and output are one byte in all), 16 B vectors of the result type, all loads before the first store.
 *   Contiguous with a type change: unrolled_elementwise_kernel, 4 elements a lane. Strided: elementwise_kernel, 4
 *   elements a lane (2 when the result has 4 or more bytes), load and store one by one. A 16,777,216-element recorded
 *   step shows grids of 16,384, 32,768 and 32,768 of them.
 * - MultiTensorApply.cuh: workgroups of 512, a chunk of 65,536 elements each, vectors of 4.
 * - Shape.cu: CatArrayBatchedCopy.
 * Instruction counts. Vectorized kernels, by the counters of calib/data/h200/counters_torch.csv (29 instructions a wave for
 * x * 2, 34 for x + y, 227 for GELU in fp32): 11 at the start, 3 per tensor for its address, one per access. Others, read off
 * the source: a load or store instruction and its address 3, the start of a thread 20. A bf16 or fp16 value costs one
 * instruction to widen and half of one to narrow (two at a time). */
#include "workloads/kernels/dense_internal.h"

#define THREADS 128u
#define ACCESS_ISSUE 3u
#define START_ISSUE 20u
#define VECTORIZED_START_ISSUE 11u
#define VECTORIZED_TENSOR_ISSUE 3u
#define ELEMENTS_MAX (1ull << 40)

/* Arithmetic in fp32: slots per element. */
struct arithmetic {
    double valu, sfu;
    uint32_t latency_cycles;
};

static const struct arithmetic add_arithmetic = { 1, 0, 10 };
/* x/2 (1 + erf(x/sqrt 2)): erff evaluates one of two polynomials of degree 7 and one exponential, with selects; 25.75
 * instructions an element in fp32 by the counters, one of them special. */
static const struct arithmetic gelu_arithmetic = { 24.75, 1, 120 };
/* 1 / (1 + exp(-x)): expf is range-scaled around one EX2; the correctly rounded reciprocal is one RCP with a refinement and a
 * range check; 19 instructions in fp32 by the counters, two of them special. */
static const struct arithmetic sigmoid_arithmetic = { 17, 2, 100 };
/* tanhf: exponential, reciprocal, a polynomial for small arguments; compares, selects and the sign at half rate. */
static const struct arithmetic tanh_arithmetic = { 23, 2, 110 };

/* Slots to widen the loads and narrow the stores of one element, by its bytes. */
static double widen_slots(uint32_t bytes)
{
    return bytes < 4 ? 1 : 0;
}

static double narrow_slots(uint32_t bytes)
{
    return bytes < 4 ? 0.5 : 0;
}

static void set_arithmetic(struct dense_map *map, struct arithmetic arithmetic)
{
    map->valu = arithmetic.valu;
    map->sfu = arithmetic.sfu;
    map->latency_cycles = arithmetic.latency_cycles;
    for (uint32_t i = 0; i < map->load_count + map->store_count; i++) {
        map->valu += i < map->load_count ? widen_slots(map->operands[i].bytes)
                                         : narrow_slots(map->operands[i].bytes);
        map->start_issue += map->vector > 1 && map->access_issue == 1 ? VECTORIZED_TENSOR_ISSUE : 0;
    }
}

static struct dense_map *vectorized(struct dense_map *map, uint64_t elements, uint32_t result_bytes)
{
    map->elements = elements;
    map->threads = THREADS;
    map->elements_per_lane = 8;
    map->vector = (uint32_t)min_u64(8, 16 / result_bytes);
    map->order = DENSE_MAP_BATCHED;
    map->access_issue = 1;
    map->start_issue = VECTORIZED_START_ISSUE;
    return map;
}

/* ---- pointwise/add, gelu, sigmoid, copy ---- */

/* `inputs` tensors and a result of n elements of dtype, as the measuring program calls them: with the L2 just flushed
 * by writing 256 MiB. */
static void pointwise(struct kernel_build *build, const char *name, uint32_t inputs,
                      struct arithmetic arithmetic)
{
    uint64_t n = kernel_param_integer(build, "n", 1, ELEMENTS_MAX);
    uint32_t bytes = dense_param_bytes(build, "dtype", DENSE_REQUIRED);
    if (!kernel_params_done(build)) {
        return;
    }
    struct dense_map *map;
    struct wave_program *program = dense_map_create(name, &map);
    vectorized(map, n, bytes);
    for (uint32_t i = 0; i < inputs; i++) {
        dense_map_load(program, i == 0 ? "x" : "y", bytes, (double)n);
    }
    dense_map_store(program, "out", bytes, (double)n);
    set_arithmetic(map, arithmetic);
    program->initial_cache = WAVE_CACHE_STATE_FLUSHED;
    dense_map_finish(program, build->machine);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, (inputs + 1.0) * (double)n * bytes * 1e-6, "TB/s");
}

static void build_add(struct kernel_build *build)
{
    pointwise(build, "add", 2, add_arithmetic);
}

static void build_gelu(struct kernel_build *build)
{
    pointwise(build, "gelu", 1, gelu_arithmetic);
}

static void build_sigmoid(struct kernel_build *build)
{
    pointwise(build, "sigmoid", 1, sigmoid_arithmetic);
}

/* A copy within the device is the driver's copy kernel: 16 B per lane and access, four in flight. */
static struct wave_program *copy_program(const char *name, double bytes, const struct kernel_machine *machine)
{
    struct dense_map *map;
    struct wave_program *program = dense_map_create(name, &map);
    uint64_t vectors = (uint64_t)((bytes + 15) / 16);
    map->elements = vectors;
    map->threads = THREADS;
    map->elements_per_lane = 4;
    map->vector = 1;
    map->order = DENSE_MAP_BATCHED;
    map->access_issue = ACCESS_ISSUE;
    map->start_issue = START_ISSUE;
    dense_map_load(program, "source", 16, (double)vectors);
    dense_map_store(program, "target", 16, (double)vectors);
    dense_map_finish(program, machine);
    return program;
}

static void build_copy(struct kernel_build *build)
{
    uint64_t n = kernel_param_integer(build, "n", 1, ELEMENTS_MAX);
    uint32_t bytes = dense_param_bytes(build, "dtype", DENSE_REQUIRED);
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = copy_program("copy", (double)n * bytes, build->machine);
    program->initial_cache = WAVE_CACHE_STATE_FLUSHED;
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, 2.0 * (double)n * bytes * 1e-6, "TB/s");
}

/* ---- concatenation ---- */

#define CAT_TENSORS_MAX 128

struct cat {
    uint64_t rows, columns[CAT_TENSORS_MAX], row_elements;
    uint32_t tensors, bytes;
    bool same_input; /* every input is the same tensor */
};

/* parallel_cat: where all rows are multiples of 16 B, 16 B vectors both ways; else vectors of 16 B (8 B for two-byte
 * elements) are loaded and their elements stored one by one. At most 32 workgroups per unit and tensor, which loop. */
static struct wave_program *cat_program(const struct cat *cat, const struct kernel_machine *machine)
{
    struct dense_map *map;
    struct wave_program *program = dense_map_create("cat", &map);
    struct dense_part *parts = kernel_program_scratch(program, cat->tensors * sizeof *parts);
    bool aligned = true;
    uint64_t most = 0, input = 0;
    for (uint32_t t = 0; t < cat->tensors; t++) {
        aligned = aligned && cat->columns[t] * cat->bytes % 16 == 0;
        most = max_u64(most, cat->columns[t]);
    }
    uint32_t vector = (aligned || cat->bytes > 2 ? 16u : 8u) / cat->bytes;
    map->vector = map->elements_per_lane = vector > 0 ? vector : 1;
    map->threads = THREADS;
    map->scattered_stores = !aligned;
    map->elements = cat->rows * most;
    map->workgroups = (uint64_t)machine->units * 32;
    map->access_issue = ACCESS_ISSUE;
    map->start_issue = START_ISSUE;
    map->valu = 14.0 / (aligned ? map->vector
                                : 1); /* a division by the row length, where a whole vector shares one */
    double input_elements = (double)cat->rows * (double)(cat->same_input ? most : cat->row_elements);
    uint64_t source = dense_map_load(program, "inputs", cat->bytes, input_elements)->base, column = 0;
    uint64_t target =
        dense_map_store(program, "out", cat->bytes, (double)cat->rows * (double)cat->row_elements)->base;
    for (uint32_t t = 0; t < cat->tensors; t++) {
        parts[t] = (struct dense_part){
            .elements = cat->rows * cat->columns[t],
            .load = { .base = source + input * cat->bytes, .bytes = cat->bytes },
            .store = { .base = target + column * cat->bytes,
                       .bytes = cat->bytes,
                       .dim_count = 2,
                       .dims = { { cat->columns[t], 1 }, { cat->rows, cat->row_elements } } },
        };
        column += cat->columns[t];
        input += cat->same_input ? 0 : parts[t].elements;
    }
    map->operands[1].dim_count = 2; /* the narrowest rows bound the spans of an access */
    map->operands[1].dims[0] = (struct dense_dim){ cat->columns[0], 1 };
    for (uint32_t t = 1; t < cat->tensors; t++) {
        map->operands[1].dims[0].size = min_u64(map->operands[1].dims[0].size, cat->columns[t]);
    }
    map->operands[1].dims[1] = (struct dense_dim){ cat->rows, cat->row_elements };
    map->part_count = cat->tensors;
    map->parts = parts;
    dense_map_finish(program, machine);
    return program;
}

static void build_cat4(struct kernel_build *build)
{
    struct cat cat = { .tensors = 4, .same_input = true };
    cat.rows = kernel_param_integer(build, "rows", 1, 1u << 31);
    cat.columns[0] = kernel_param_integer(build, "cols", 1, 1u << 28);
    cat.bytes = dense_param_bytes(build, "dtype", DENSE_REQUIRED);
    if (!kernel_params_done(build)) {
        return;
    }
    for (uint32_t t = 0; t < 4; t++) {
        cat.columns[t] = cat.columns[0];
    }
    cat.row_elements = 4 * cat.columns[0];
    struct wave_program *program = cat_program(&cat, build->machine);
    program->initial_cache = WAVE_CACHE_STATE_FLUSHED;
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, 5.0 * (double)cat.rows * (double)cat.columns[0] * cat.bytes * 1e-6, "TB/s");
}

static void build_concat(struct kernel_build *build)
{
    struct cat cat = { 0 };
    uint64_t repeat = kernel_param_integer_or(build, "tensors", 1, CAT_TENSORS_MAX, 1, NULL);
    cat.rows = kernel_param_integer(build, "rows", 1, 1u << 31);
    uint32_t listed = dense_param_list(build, "cols", 1, 1ull << 36, cat.columns, CAT_TENSORS_MAX, false);
    cat.bytes = dense_param_bytes(build, "dtype", DENSE_REQUIRED);
    dense_cache_param(build);
    if (!kernel_params_done(build)) {
        return;
    }
    if (listed > 1 && repeat > 1 && repeat != listed) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "tensors=%llu but cols lists %u widths: give one width, or one per tensor",
                    (unsigned long long)repeat, listed);
        return;
    }
    cat.tensors = listed > 1 ? listed : (uint32_t)repeat;
    for (uint32_t t = 0; t < cat.tensors; t++) {
        cat.columns[t] = cat.columns[listed > 1 ? t : 0];
        cat.row_elements += cat.columns[t];
    }
    struct wave_program *program = cat_program(&cat, build->machine);
    dense_cache_apply(build, program);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, 2.0 * (double)cat.rows * (double)cat.row_elements * cat.bytes * 1e-6,
                          "TB/s");
}

/* ---- transposition and other strided copies ---- */

struct strided_copy {
    uint64_t batch, rows, columns, inner;
    uint32_t bytes;
};

/* out[b][c][r][i] = in[b][r][c][i]: elementwise_kernel walks the output, so a wave's loads are a column of the input.
 * The offset of an element takes a division by a constant per dimension: 6 vector instructions each, and 8 around. */
static struct wave_program *strided_copy_program(const struct strided_copy *copy,
                                                 const struct kernel_machine *machine)
{
    struct dense_map *map;
    struct wave_program *program = dense_map_create("strided_copy", &map);
    uint64_t elements = copy->batch * copy->rows * copy->columns * copy->inner;
    map->elements = elements;
    map->threads = THREADS;
    map->elements_per_lane = copy->bytes >= 4 ? 2 : 4;
    map->vector = 1;
    map->order = DENSE_MAP_INTERLEAVED;
    map->access_issue = ACCESS_ISSUE;
    map->start_issue = START_ISSUE;
    program->registers_per_lane = 18;
    map->valu = 16 + 7 * (2.0 + (copy->inner > 1) + (copy->batch > 1)); /* 170 instructions a wave of 4 values: counters */
    struct dense_operand *load = dense_map_load(program, "in", copy->bytes, (double)elements);
    uint64_t row = copy->columns * copy->inner;
    load->dim_count = 4;
    load->dims[0] = (struct dense_dim){ copy->inner, 1 };
    load->dims[1] = (struct dense_dim){ copy->rows, row };
    load->dims[2] = (struct dense_dim){ copy->columns, copy->inner };
    load->dims[3] = (struct dense_dim){ copy->batch, copy->rows * row };
    dense_map_store(program, "out", copy->bytes, (double)elements);
    dense_map_finish(program, machine);
    return program;
}

static void build_transpose(struct kernel_build *build)
{
    struct strided_copy copy = { .batch = 1, .inner = 1 };
    copy.rows = kernel_param_integer(build, "rows", 1, 1u << 31);
    copy.columns = kernel_param_integer(build, "cols", 1, 1u << 31);
    copy.bytes = dense_param_bytes(build, "dtype", DENSE_REQUIRED);
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = strided_copy_program(&copy, build->machine);
    program->initial_cache = WAVE_CACHE_STATE_FLUSHED;
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, 2.0 * (double)copy.rows * (double)copy.columns * copy.bytes * 1e-6, "TB/s");
}

static void build_strided_copy(struct kernel_build *build)
{
    struct strided_copy copy;
    copy.batch = kernel_param_integer_or(build, "batch", 1, 1u << 31, 1, NULL);
    copy.rows = kernel_param_integer(build, "rows", 1, 1u << 31);
    copy.columns = kernel_param_integer(build, "cols", 1, 1u << 31);
    copy.inner = kernel_param_integer_or(build, "inner", 1, 1u << 24, 1, NULL);
    copy.bytes = dense_param_bytes(build, "dtype", DENSE_REQUIRED);
    dense_cache_param(build);
    if (!kernel_params_done(build)) {
        return;
    }
    double elements = (double)copy.batch * (double)copy.rows * (double)copy.columns * (double)copy.inner;
    kernel_require_hbm(build, 2 * elements * copy.bytes, "the copy");
    if (!kernel_build_ok(build)) {
        return;
    }
    struct wave_program *program = strided_copy_program(&copy, build->machine);
    dense_cache_apply(build, program);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, 2 * elements * copy.bytes * 1e-6, "TB/s");
}

/* ---- elementwise/map: what a recorded operator is turned into ---- */

/* fetch_and_cast and cast_and_store: a jump over some 25 types with its convergence barrier, address arithmetic in 64 bits
 * and the conversion, per access of an operand. Recorded casts, additions and products of this style cost 96 to 125 issue
 * slots an element, 42 to 48 per operand, whether they have two operands or three; nothing else in them is that long.
 * Each load waits for the one before, since its conversion is behind the jump. */
#define CAST_ISSUE 38u

enum map_style { STYLE_VECTORIZED, STYLE_UNROLLED, STYLE_STRIDED };

#define MAP_OPERANDS 5

struct map_params {
    uint64_t n, in_bytes[MAP_OPERANDS], out_bytes[MAP_OPERANDS];
    uint64_t repeat[MAP_OPERANDS], run[MAP_OPERANDS], pitch[MAP_OPERANDS];
    uint32_t inputs, outputs, repeats, runs, pitches;
    uint64_t broadcast_bytes;
    struct arithmetic arithmetic;
    int style;
    bool casts; /* operands go through the switch on the type */
    uint32_t vector, elements_per_lane, registers;
};

static void read_count(struct kernel_build *build, const char *key, const char *list, uint32_t listed)
{
    if (kernel_param_given(build, key) && kernel_param_integer(build, key, 0, MAP_OPERANDS) != listed) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "%s does not agree with %s, which lists %u: leave it out or make them agree", key, list,
                    listed);
    }
}

static bool fits_operand(struct kernel_build *build, const char *key, uint32_t listed, uint32_t inputs)
{
    if (listed != 0 && listed != inputs) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "%s lists %u inputs, bytes_in %u: give one entry per input", key,
                    listed, inputs);
        return false;
    }
    return true;
}

static void read_map(struct kernel_build *build, struct map_params *p)
{
    p->n = kernel_param_integer(build, "n", 1, ELEMENTS_MAX);
    p->inputs = dense_param_list(build, "bytes_in", 1, 16, p->in_bytes, MAP_OPERANDS, true);
    p->outputs = dense_param_list(build, "bytes_out", 1, 16, p->out_bytes, MAP_OPERANDS, true);
    read_count(build, "inputs", "bytes_in", p->inputs);
    read_count(build, "outputs", "bytes_out", p->outputs);
    p->repeats = dense_param_list(build, "repeat", 1, ELEMENTS_MAX, p->repeat, MAP_OPERANDS, true);
    p->runs = dense_param_list(build, "run", 0, ELEMENTS_MAX, p->run, MAP_OPERANDS, true);
    p->pitches = dense_param_list(build, "pitch", 0, ELEMENTS_MAX, p->pitch, MAP_OPERANDS, true);
    p->broadcast_bytes = kernel_param_integer_or(build, "broadcast_bytes", 0, 1u << 30, 0, NULL);
    p->style = kernel_param_choice_or(build, "style", "vectorized|unrolled|strided", STYLE_VECTORIZED, NULL);
    uint64_t widest = 1;
    for (uint32_t i = 0; i < p->outputs; i++) {
        widest = max_u64(widest, p->out_bytes[i]);
    }
    bool mixed = false;
    for (uint32_t i = 0; i < p->inputs && p->outputs > 0; i++) {
        mixed = mixed || p->in_bytes[i] != p->out_bytes[0];
    }
    bool usually = p->style == STYLE_UNROLLED || (p->style == STYLE_STRIDED && mixed);
    p->casts = kernel_param_integer_or(build, "casts", 0, 1, usually, NULL) == 1;
    bool bytes_only = p->inputs + p->outputs == 1 && widest == 1;
    uint64_t usual = p->style == STYLE_VECTORIZED                            ? (bytes_only ? 16 : 8)
                     : p->style == STYLE_STRIDED && widest >= 4 && !p->casts ? 2
                                                                             : 4;
    p->elements_per_lane = (uint32_t)kernel_param_integer_or(build, "elements_per_lane", 1, 16, usual, NULL);
    uint64_t vector = p->style == STYLE_VECTORIZED ? min_u64(8, 16 / widest) : 1;
    p->vector = (uint32_t)kernel_param_integer_or(build, "vector", 1, 16, vector, NULL);
    p->arithmetic.valu = kernel_param_real_or(build, "valu", 0, 1000, 2, NULL);
    p->arithmetic.sfu = kernel_param_real_or(build, "sfu", 0, 100, 0, NULL);
    p->arithmetic.latency_cycles = slots16(10 + 4 * p->arithmetic.valu + 20 * p->arithmetic.sfu);
    p->registers = (uint32_t)kernel_param_integer_or(build, "registers", 16, 256, 32, NULL);
    dense_cache_param(build);
}

static bool check_map(struct kernel_build *build, const struct map_params *p)
{
    if (p->inputs + p->outputs == 0 && kernel_build_ok(build)) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "neither bytes_in nor bytes_out: give the bytes per element of each tensor");
    }
    if (kernel_build_ok(build) && p->outputs == 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "parameter 'bytes_out' is missing: an element-wise kernel stores something");
    }
    bool shapes = kernel_build_ok(build) && fits_operand(build, "repeat", p->repeats, p->inputs) &&
                  fits_operand(build, "run", p->runs, p->inputs) &&
                  fits_operand(build, "pitch", p->pitches, p->inputs);
    if (shapes && (p->vector & (p->vector - 1)) != 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "vector=%u is not valid: must be 1, 2, 4, 8 or 16", p->vector);
    }
    if (shapes && p->elements_per_lane % p->vector != 0) {
        kernel_fail(build, SIM_BAD_ARGUMENT, "elements_per_lane=%u is not a multiple of vector=%u",
                    p->elements_per_lane, p->vector);
    }
    bool strided = p->repeats + p->runs + p->pitches > 0;
    if (shapes && strided && (p->style == STYLE_VECTORIZED || p->vector > 1)) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "repeat, run and pitch need style=unrolled or style=strided and vector=1: vectors are "
                    "contiguous");
    }
    return kernel_build_ok(build) && kernel_params_done(build);
}

/* Each value for `repeat` outputs, `run` values side by side, then `pitch` on; pitch 0 reads the run again. */
static double shape_operand(struct dense_operand *operand, const struct map_params *p, uint32_t index)
{
    uint64_t repeat = p->repeats > 0 ? p->repeat[index] : 1, run = p->runs > 0 ? p->run[index] : 0;
    uint64_t pitch = p->pitches > 0 ? p->pitch[index] : 0, values = ceil_div(p->n, repeat);
    if (repeat == 1 && run == 0) {
        return (double)p->n;
    }
    if (repeat > 1) {
        operand->dims[operand->dim_count++] = (struct dense_dim){ repeat, 0 };
    }
    operand->dims[operand->dim_count++] = (struct dense_dim){ run > 0 ? run : values, 1 };
    if (run > 0) {
        operand->dims[operand->dim_count++] = (struct dense_dim){ UINT64_MAX, pitch };
    }
    return run == 0     ? (double)values
           : pitch == 0 ? (double)run
                        : (double)(ceil_div(values, run) - 1) * (double)pitch + (double)run;
}

static void build_map(struct kernel_build *build)
{
    struct map_params p = { 0 };
    read_map(build, &p);
    if (!check_map(build, &p)) {
        return;
    }
    struct dense_map *map;
    struct wave_program *program = dense_map_create("map", &map);
    double bytes = 0;
    map->elements = p.n;
    map->threads = THREADS;
    map->elements_per_lane = p.elements_per_lane;
    map->vector = p.vector;
    map->order = p.style == STYLE_VECTORIZED ? DENSE_MAP_BATCHED
                 : p.style == STYLE_UNROLLED ? DENSE_MAP_SERIAL_LOADS
                                             : DENSE_MAP_INTERLEAVED;
    bool plain = p.style == STYLE_VECTORIZED && p.vector > 1;
    map->access_issue = plain ? 1 : ACCESS_ISSUE + (p.casts ? CAST_ISSUE : 0);
    map->start_issue = plain ? VECTORIZED_START_ISSUE : START_ISSUE;
    program->registers_per_lane = p.registers;
    for (uint32_t i = 0; i < p.inputs; i++) {
        struct dense_operand shape = { 0 };
        double elements = shape_operand(&shape, &p, i);
        struct dense_operand *operand = dense_map_load(program, "in", (uint32_t)p.in_bytes[i], elements);
        operand->dim_count = shape.dim_count;
        for (uint32_t d = 0; d < shape.dim_count; d++) {
            operand->dims[d] = shape.dims[d];
        }
        bytes += elements * (double)p.in_bytes[i];
    }
    if (p.broadcast_bytes > 0) {
        uint64_t item = min_u64(p.out_bytes[0], p.broadcast_bytes), items = p.broadcast_bytes / item;
        struct dense_operand *operand = dense_map_load(program, "broadcast", (uint32_t)item, (double)items);
        operand->dim_count = 2;
        operand->dims[0] = (struct dense_dim){ items, 1 };
        operand->dims[1] = (struct dense_dim){ UINT64_MAX, 0 };
    }
    for (uint32_t i = 0; i < p.outputs; i++) {
        dense_map_store(program, "out", (uint32_t)p.out_bytes[i], (double)p.n);
        bytes += (double)p.n * (double)p.out_bytes[i];
    }
    set_arithmetic(map, p.arithmetic);
    if (p.style == STYLE_STRIDED) {
        map->valu += 8 + 12.0; /* offsets: as in strided copies, two dimensions */
    }
    dense_map_finish(program, build->machine);
    dense_cache_apply(build, program);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, bytes * 1e-6, "TB/s");
}

/* Read fp32 (or another type), write another: bfloat16_copy and its like when the result is narrower and vectors work. */
static void build_cast(struct kernel_build *build)
{
    uint64_t n = kernel_param_integer(build, "n", 1, ELEMENTS_MAX);
    uint32_t in = dense_param_bytes(build, "dtype_in", DENSE_REQUIRED);
    uint32_t out = dense_param_bytes(build, "dtype_out", DENSE_REQUIRED);
    int style = kernel_param_choice_or(build, "style", "vectorized|unrolled",
                                       in > out ? STYLE_VECTORIZED : STYLE_UNROLLED, NULL);
    dense_cache_param(build);
    if (!kernel_params_done(build)) {
        return;
    }
    struct dense_map *map;
    struct wave_program *program = dense_map_create("cast", &map);
    vectorized(map, n, out);
    if (style == STYLE_UNROLLED) {
        map->elements_per_lane = 4;
        map->vector = 1;
        map->order = DENSE_MAP_SERIAL_LOADS;
        map->access_issue = ACCESS_ISSUE + CAST_ISSUE;
    }
    dense_map_load(program, "in", in, (double)n);
    dense_map_store(program, "out", out, (double)n);
    set_arithmetic(map, (struct arithmetic){ 0, 0, 10 });
    dense_map_finish(program, build->machine);
    dense_cache_apply(build, program);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, (double)n * (in + out) * 1e-6, "TB/s");
}

struct wave_program *dense_fill_program(const char *name, uint64_t n, uint32_t bytes,
                                        const struct kernel_machine *machine)
{
    struct dense_map *map;
    struct wave_program *program = dense_map_create(name, &map);
    vectorized(map, n, bytes);
    program->registers_per_lane = 16;
    dense_map_store(program, "out", bytes, (double)n);
    dense_map_finish(program, machine);
    return program;
}

static void build_fill(struct kernel_build *build)
{
    uint64_t n = kernel_param_integer(build, "n", 1, ELEMENTS_MAX);
    uint32_t bytes = dense_param_bytes(build, "dtype", DENSE_FP32);
    dense_cache_param(build);
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = dense_fill_program("fill", n, bytes, build->machine);
    dense_cache_apply(build, program);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, (double)n * bytes * 1e-6, "TB/s");
}

/* ---- memory/copy, memory/set ---- */

static void build_memory_copy(struct kernel_build *build)
{
    uint64_t bytes = kernel_param_integer(build, "bytes", 1, 1ull << 44);
    dense_cache_param(build);
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = copy_program("memory_copy", (double)bytes, build->machine);
    dense_cache_apply(build, program);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, 2.0 * (double)bytes * 1e-6, "TB/s");
}

static void build_memory_set(struct kernel_build *build)
{
    uint64_t bytes = kernel_param_integer(build, "bytes", 1, 1ull << 44);
    dense_cache_param(build);
    if (!kernel_params_done(build)) {
        return;
    }
    struct wave_program *program = dense_fill_program("memory_set", ceil_div(bytes, 4), 4, build->machine);
    dense_cache_apply(build, program);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, (double)bytes * 1e-6, "TB/s");
}

/* ---- optimizer/multi_tensor ---- */

#define CHUNK_ELEMENTS 65536u
#define CHUNK_THREADS 512u

/* A chunk per workgroup, read in vectors of 4 by all lists at once, computed, written. Fused Adam: the betas and epsilon are
 * doubles, so both moments and the denominator are computed in double (about 10 operations at half rate, and 10
 * conversions at the special-function rate), then a root and two divisions in fp32 (10 each, 3 special): 60 slots and 13
 * special ones an element. Each thread first raises the betas to the step, two double powers of about 250 instructions. */
#define MULTI_TENSOR_START_ISSUE 500u

static void build_multi_tensor(struct kernel_build *build)
{
    uint64_t reads[MAP_OPERANDS], writes[MAP_OPERANDS];
    uint64_t n = kernel_param_integer(build, "elements", 1, ELEMENTS_MAX);
    uint64_t tensors = kernel_param_integer_or(build, "tensors", 1, 1u << 20, 1, NULL);
    uint64_t chunks = kernel_param_integer_or(build, "chunks", 1, 1u << 30,
                                              max_u64(tensors, ceil_div(n, CHUNK_ELEMENTS)), NULL);
    uint32_t read_count = dense_param_list(build, "reads", 1, 16, reads, MAP_OPERANDS, false);
    uint32_t write_count = dense_param_list(build, "writes", 1, 16, writes, MAP_OPERANDS, false);
    double valu = kernel_param_real_or(build, "valu", 0, 1000, 60, "fused Adam, moments in double");
    double sfu = kernel_param_real_or(build, "sfu", 0, 100, 13, "fused Adam: conversions, root, reciprocals");
    uint64_t registers = kernel_param_integer_or(build, "registers", 16, 256, 64, NULL);
    dense_cache_param(build);
    if (!kernel_params_done(build)) {
        return;
    }
    if (ceil_div(n, chunks) > CHUNK_ELEMENTS) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "chunks=%llu is not valid: %llu elements need at least %llu chunks of %u",
                    (unsigned long long)chunks, (unsigned long long)n,
                    (unsigned long long)ceil_div(n, CHUNK_ELEMENTS), CHUNK_ELEMENTS);
        return;
    }
    struct dense_map *map;
    struct wave_program *program = dense_map_create("multi_tensor", &map);
    double bytes = 0;
    map->elements = n;
    map->threads = CHUNK_THREADS;
    map->elements_per_lane = map->vector = 4;
    map->workgroup_elements = ceil_div(ceil_div(n, chunks), 4) * 4;
    map->access_issue = ACCESS_ISSUE;
    map->start_issue = START_ISSUE;
    map->first_issue = valu > 40 ? MULTI_TENSOR_START_ISSUE : 0; /* plain scaling raises nothing to a power */
    program->registers_per_lane = (uint32_t)registers;
    for (uint32_t i = 0; i < read_count; i++) {
        dense_map_load(program, "list", (uint32_t)reads[i], (double)n);
        bytes += (double)reads[i];
    }
    for (uint32_t i = 0; i < write_count; i++) {
        bool in_place = i < read_count;
        dense_map_store(program, "list", (uint32_t)writes[i], in_place ? 1 : (double)n);
        if (in_place) {
            map->operands[read_count + i].base = map->operands[i].base;
        }
        bytes += (double)writes[i];
    }
    set_arithmetic(map, (struct arithmetic){ valu, sfu, slots16(10 + 4 * valu) });
    dense_map_finish(program, build->machine);
    dense_cache_apply(build, program);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, bytes * (double)n * 1e-6, "TB/s");
}

/* ---- inductor/sig_mul_tanh ---- */

/* sigmoid(x) x + tanh(x) in one Triton kernel: programs of 1,024 elements on 4 waves of 32, 16 B vectors. The duplicate
 * arguments are one tensor to the compiler. Its sigmoid divides with the
 * approximate division (two scalings, a range test at half rate, one RCP: 11). */
static void build_sig_mul_tanh(struct kernel_build *build)
{
    uint64_t rows = kernel_param_integer(build, "rows", 1, 1u << 31);
    uint64_t columns = kernel_param_integer(build, "cols", 1, 1u << 28);
    uint32_t bytes = dense_param_bytes(build, "dtype", DENSE_REQUIRED);
    if (!kernel_params_done(build)) {
        return;
    }
    struct dense_map *map;
    struct wave_program *program = dense_map_create("sig_mul_tanh", &map);
    vectorized(map, rows * columns, bytes);
    dense_map_load(program, "x", bytes, (double)rows * (double)columns);
    dense_map_store(program, "out", bytes, (double)rows * (double)columns);
    set_arithmetic(map, (struct arithmetic){ 15 + tanh_arithmetic.valu + 2, 2 + tanh_arithmetic.sfu, 200 });
    program->initial_cache = WAVE_CACHE_STATE_FLUSHED;
    dense_map_finish(program, build->machine);
    kernel_plan_add(build, program, 1);
    kernel_value_per_time(build, 2.0 * (double)rows * (double)columns * bytes * 1e-6, "TB/s");
}

#define CACHE_HELP "cache (flushed|own|clean|produced; flushed): what the caches hold at the start"

const struct kernel_definition dense_pointwise_kernels[] = {
    { "pointwise", "add", "out = x + y", "n (elements), dtype (fp32|bf16|fp16|..)", build_add },
    { "pointwise", "gelu", "exact GELU", "n, dtype", build_gelu },
    { "pointwise", "sigmoid", "sigmoid", "n, dtype", build_sigmoid },
    { "pointwise", "copy", "copy within the device", "n, dtype", build_copy },
    { "pointwise", "cat4", "one tensor four times side by side", "rows, cols, dtype", build_cat4 },
    { "pointwise", "transpose", "contiguous copy of a transposed matrix", "rows, cols, dtype",
      build_transpose },
    { "inductor", "sig_mul_tanh", "sigmoid(x) x + tanh(x), one compiled kernel", "rows, cols, dtype",
      build_sig_mul_tanh },
    { "elementwise", "map", "any element-wise operator by its bytes and instructions",
      "n (elements), bytes_in (b1:b2:.. per element; none), bytes_out (b1:..), inputs, outputs (optional, "
      "must agree), valu, "
      "sfu (slots per element, conversions apart; 2, 0), style (vectorized: contiguous, no cast|unrolled: "
      "with a cast|"
      "strided; vectorized), casts (0|1: operands of several types go through a switch; unrolled 1, strided "
      "if their bytes "
      "differ), vector (elements per access; 16 B), elements_per_lane (8; unrolled 4; strided 4, 2 from 4 B "
      "on without casts), repeat, run, pitch (per input, elements: each value repeat times, run side by "
      "side, then pitch on; pitch 0 "
      "reads the run again), broadcast_bytes (a small operand read cyclically; 0), registers "
      "(32), " CACHE_HELP,
      build_map },
    { "elementwise", "cast", "change of type",
      "n, dtype_in, dtype_out, style (vectorized|unrolled; vectorized when narrowing), " CACHE_HELP,
      build_cast },
    { "elementwise", "fill", "write a constant", "n, dtype (fp32), " CACHE_HELP, build_fill },
    { "cat", "concat", "concatenate matrices along their columns (any dimension, flattened to rows x cols)",
      "rows (product of the dimensions before), cols (c1:c2:.. elements per row, or one width), tensors "
      "(with one width; "
      "1), dtype, " CACHE_HELP,
      build_concat },
    { "transpose", "strided_copy", "out[b][c][r][i] = in[b][r][c][i]",
      "batch (1), rows, cols, inner (1), dtype, " CACHE_HELP, build_strided_copy },
    { "optimizer", "multi_tensor", "one multi-tensor launch (fused Adam, SGD, scaling)",
      "elements, reads, writes (b1:b2:.. bytes per element of each list; writes are in place), tensors (1), "
      "chunks "
      "(workgroups; as elements and tensors need), valu (60), sfu (13), registers (64), " CACHE_HELP,
      build_multi_tensor },
    { "memory", "copy", "device-to-device copy", "bytes, " CACHE_HELP, build_memory_copy },
    { "memory", "set", "device memset", "bytes, " CACHE_HELP, build_memory_set },
    { NULL, NULL, NULL, NULL, NULL },
};
