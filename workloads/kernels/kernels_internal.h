/* What the kernel files of this folder share: how a file declares its kernels, reads their parameters, fills a plan
 * with launches and writes wave operations. Included by workloads/kernels and its tests alone.
 *
 * A kernel file holds, per kernel, a parameter struct (the program's context), a `next` function that yields its wave
 * operations, and a `build` function that reads parameters, creates programs and adds launches to the plan. It ends
 * with one `const struct kernel_definition X_kernels[]`, closed by an empty entry and listed in kernel_registry.c. */
#ifndef WORKLOADS_KERNELS_KERNELS_INTERNAL_H
#define WORKLOADS_KERNELS_KERNELS_INTERNAL_H
#include "workloads/kernels/kernel.h"

struct kernel_build; /* one kernel_plan_create in progress; see the readers below */

/* One registered kernel. All strings static. */
struct kernel_definition {
    const char *suite, *kernel; /* as in the measurement tables; NULL closes a list */
    const char *summary;        /* one line for help */
    const char *params_help;    /* "n (elements), dtype (fp32|bf16; fp32)": for people only, never parsed */
    void (*build)(struct kernel_build *build); /* errors stick in `build`, see kernel_fail */
};

/* The lists. Each ends with an entry whose suite is NULL. */
extern const struct kernel_definition launch_kernels[], latency_kernels[], stream_kernels[], alu_kernels[],
    gather_kernels[], atomic_kernels[], bounds_check_kernels[], gis_kernels[], tbe_kernels[], tbe_fused_kernels[],
    scatter_kernels[], embedding_kernels[], index_kernels[], sort_kernels[], linearize_kernels[], permute_kernels[],
    memcpy_kernels[], power_kernels[], eigh_kernels[];
extern const struct kernel_definition dense_pointwise_kernels[], dense_reduction_kernels[], dense_gemm_kernels[],
    dense_attention_kernels[], dense_jagged_kernels[], dense_sort_kernels[];

/* ---- reading parameters ---------------------------------------------------------------------------------------
 * The first error sticks: later reads return their minimum (or default) and change nothing, so a build function reads
 * everything it needs, then says `if (!kernel_params_done(build)) return;` before it computes or allocates. */

/* What a fix must know of a program that adds to memory (fix_internal.h). */
struct kernel_scatter {
    bool known;
    size_t launch;     /* of the plan */
    uint64_t address;  /* of the tensor added to */
    double bytes;
    uint32_t row_bytes, element_bytes;
    enum wave_atomic_type type;
    uint32_t copies;   /* asked for by the user; 0: not */
};

struct kernel_build {
    const struct kernel_definition *definition;
    const struct kernel_params *params;
    const struct kernel_machine *machine;
    struct kernel_plan *plan; /* name set, launches empty */
    struct sim_error *error;
    enum sim_status status;
    size_t asked_count;
    const char *asked[40]; /* keys read so far: what is valid */
    bool done;
    uint32_t fixes; /* 1 << enum kernel_fix */
    struct kernel_scatter scatter;
};

bool kernel_param_given(struct kernel_build *build, const char *key); /* counts the key as known */

/* Required values. Numbers may be written 1000000, 1e6 or 1048576.0; min and max are inclusive. */
uint64_t kernel_param_integer(struct kernel_build *build, const char *key, uint64_t min, uint64_t max);
double kernel_param_real(struct kernel_build *build, const char *key, double min, double max);
int kernel_param_choice(struct kernel_build *build, const char *key, const char *choices); /* index in "fp32|fp16" */

/* The text of `key`, borrowed, or NULL; does not count the key as known. */
const char *kernel_param_peek(const struct kernel_build *build, const char *key);
/* The text of `key`, borrowed, or `value`. */
const char *kernel_param_text_or(struct kernel_build *build, const char *key, const char *value);

/* Optional values with a documented one. When the default is taken and `why` is not NULL, the plan notes
 * "key = value (range): why" as an assumption; NULL is for conventions that assume nothing (an offset of 0). */
uint64_t kernel_param_integer_or(struct kernel_build *build, const char *key, uint64_t min, uint64_t max,
                                 uint64_t value, const char *why);
double kernel_param_real_or(struct kernel_build *build, const char *key, double min, double max, double value,
                            const char *why);
/* An integer whose plausible values are known to be [low, high], a part of [min, max]: intervals carry it when it is left out. */
struct kernel_unknown {
    uint64_t value, low, high;
    const char *why;
};
uint64_t kernel_param_unknown(struct kernel_build *build, const char *key, uint64_t min, uint64_t max, struct kernel_unknown unknown);
/* Rows of a table of the study, and of tables that nobody describes. */
#define TBE_ROWS_UNKNOWN \
    ((struct kernel_unknown){ 10000000, 1000000, 10000000, "the study does not say; public command lines of this case have 1e6 to 1e7" })
int kernel_param_choice_or(struct kernel_build *build, const char *key, const char *choices, int index,
                           const char *why);

/* After the last read: fails on any parameter nobody asked for (the message lists the valid ones). True when all is
 * well so far. */
bool kernel_params_done(struct kernel_build *build);
bool kernel_build_ok(const struct kernel_build *build);

/* Errors of the kernel itself; the message is prefixed with "suite/kernel: ". Only the first one is kept. */
void kernel_fail(struct kernel_build *build, enum sim_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails with SIM_DOES_NOT_FIT when `bytes` exceed the device's HBM; call it before host memory is taken for tables.
 * (Every added launch is checked again over the sum of its tensors.) */
void kernel_require_hbm(struct kernel_build *build, double bytes, const char *what);
/* Fails with SIM_DOES_NOT_FIT when one workgroup asks for more LDS than it can have. */
void kernel_require_lds(struct kernel_build *build, uint64_t bytes);
/* One line for the notes. */
void kernel_assume(struct kernel_build *build, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Element sizes that the measured tables spell in two ways (fp32, float32). */
enum kernel_dtype { KERNEL_FP32, KERNEL_FP16, KERNEL_BF16 };
#define KERNEL_DTYPE_CHOICES "fp32|fp16|bf16|float32|float16|bfloat16"
enum kernel_dtype kernel_param_dtype(struct kernel_build *build, const char *key);
uint32_t kernel_dtype_bytes(enum kernel_dtype dtype);

/* ---- programs --------------------------------------------------------------------------------------------------- */
#define KERNEL_TENSORS_MAX 16
#define KERNEL_TENSOR_SHIFT 44 /* each tensor has 16 TiB of the kernel's address space to itself */

/* A tensor of a program: tests hold every span inside one of them, the HBM check sums them. */
struct kernel_tensor {
    const char *name;
    double bytes;
};

typedef void (*wave_next)(const struct wave_program *program, const struct wave_window *window,
                          struct wave_state *state, struct wave_op *op);

/* A zeroed program with a zeroed context of `context_bytes` in the same block (program->context), one workgroup of one
 * wave, 32 registers, starting from its own data (benchmarks repeat). `name` is static. Aborts if memory is short. */
struct wave_program *kernel_program_create(const char *name, size_t context_bytes, wave_next next);
/* The context holds numbers alone, no pointer, and is all that the program's ops depend on: launches of equal programs are known
 * for equal (kernel_launch_identity). */
void kernel_program_plain(struct wave_program *program);
/* Give `tensor` the next region; returns its first address. `name` is static. Asserts that there is room. */
uint64_t kernel_program_tensor(struct wave_program *program, const char *name, double bytes);
/* Free `memory` with `release` when the program is destroyed (at most 4). */
void kernel_program_adopt(struct wave_program *program, void *memory, void (*release)(void *memory));
/* Zeroed memory that the program owns (counts as adopted). Aborts if memory is short. */
void *kernel_program_scratch(struct wave_program *program, size_t bytes);
size_t kernel_program_tensor_count(const struct wave_program *program);
struct kernel_tensor kernel_program_tensor_at(const struct wave_program *program, size_t index);
static inline uint64_t kernel_tensor_address(size_t index) { return (uint64_t)(index + 1) << KERNEL_TENSOR_SHIFT; }

/* Workgroups of `threads` threads that cover `total` threads; sets workgroups and waves_per_workgroup. A workgroup has
 * at least one wave; a grid of none is a bug (asserted). */
void kernel_program_grid(struct wave_program *program, uint64_t total_threads, uint32_t threads, uint32_t lanes);

/* Say that a typical wave runs `trips` loop trips, so that the engine may cut its loop short. Left at 0 where the grid is
 * many rounds of resident waves: its workgroups start and end at all times, which a round in step would not show, and
 * whole workgroups are sampled instead. Call it once the grid is set. */
void kernel_program_loops(struct wave_program *program, const struct kernel_machine *machine, uint64_t trips);

/* Add `program` as the next launch (the plan owns it; on an earlier error it is destroyed here). */
void kernel_plan_add(struct kernel_build *build, struct wave_program *program, double repeat);
void kernel_plan_add_copy(struct kernel_build *build, enum kernel_launch_kind kind, double bytes);

/* Work of one thread of an element-wise pass: before its load, between load and store. */
struct kernel_map_cost {
    uint32_t issue, valu, latency;             /* up to the load */
    uint32_t after_issue, after_valu, after_latency; /* up to the store */
    uint32_t registers;
};

/* ---- building blocks that several suites launch ---- */
/* A radix sort of n (key, value) pairs by `bits` key bits, of which the lowest `used_bits` differ between keys (sort.c):
 * 5 to 7 launches. */
void kernel_plan_add_sort(struct kernel_build *build, uint64_t n, uint32_t key_bytes, uint32_t value_bytes,
                          uint32_t bits, uint32_t used_bits);
/* Passes whose workgroups chain their sums by looking back (sort.c), two launches each. `item_bytes` are read per item. */
enum kernel_chained_pass {
    KERNEL_SELECT_FLAGGED, /* positions of set flags: `written` of them, 4 bytes each */
    KERNEL_UNIQUE_BY_KEY,  /* where runs of equal 8-byte keys start: `written` positions of 8 bytes */
    KERNEL_EXCLUSIVE_SUM   /* of n 8-byte numbers, `written` = n */
};
void kernel_plan_add_chained(struct kernel_build *build, enum kernel_chained_pass pass, uint64_t n, uint64_t written);
/* Set `bytes` to a value: a grid of 128-thread workgroups, 16 bytes a lane. */
void kernel_plan_add_fill(struct kernel_build *build, double bytes, double repeat);
/* An element-wise pass over n items, one thread each: reads `in_bytes`, writes `out_bytes` per item. */
void kernel_plan_add_map(struct kernel_build *build, const char *name, uint64_t n, uint32_t threads, uint32_t in_bytes,
                         uint32_t out_bytes, struct kernel_map_cost cost);
/* Whole key bits that number `count` values: the least b >= 1 with 2^b >= count. */
uint32_t kernel_key_bits(uint64_t count);

/* What the table's value column holds. */
void kernel_value_per_time(struct kernel_build *build, double amount_per_us, const char *unit);
void kernel_value_time(struct kernel_build *build, double amount, double factor, const char *unit);
void kernel_value_count(struct kernel_build *build, double amount, const char *unit);

/* ---- wave operations -------------------------------------------------------------------------------------------
 * How the costs of a step were read. The measuring programs were compiled with nvcc 13.0 -O3 -arch=sm_90 and the
 * machine code was decoded instruction by instruction, control bits included; comments cite it as "sm_90: ...". (The
 * flags of the measured binaries are not known; PyTorch's kernels were re-expressed and compiled the same way.)
 *   issue, valu  instructions between one memory access and the next, memory, branch and uniform ones apart from vector
 *                ones. Integer ones count 1 although they run at half rate: where they are fewer than half, the issue
 *                slot binds and not their pipe.
 *   latency      stall counts of those instructions beyond one cycle each: an in-order wave waits for them even when
 *                nobody else wants the issue slot. A result that comes over a scoreboard without touching memory
 *                (special register, constant, conversion, reciprocal) adds KERNEL_SPECIAL_CYCLES.
 *   wait         where the first instruction that needs the loaded value stands.
 * A program says the same on every machine; only the number of lanes changes it. */
#define KERNEL_SPECIAL_CYCLES 24 /* assumed, 18 to 30: S2R, LDC, I2F, F2I, MUFU on recent NVIDIA chips */
#define KERNEL_SHUFFLE_CYCLES 23 /* assumed, 20 to 25: SHFL, published microbenchmarks of the same generations */

/* Begin an op. `wait`: earlier load ops that may still be in flight, 0 for none, WAVE_NO_WAIT to go on. */
static inline void op_begin(struct wave_op *op, enum wave_op_kind kind, uint8_t wait)
{
    op->kind = (uint8_t)kind;
    op->wait_outstanding = wait;
}

/* Instructions of the step: memory, scalar and branch; vector (half rate counts 2); dependent latency beyond issue. */
static inline void op_work(struct wave_op *op, uint32_t issue, uint32_t valu, uint32_t latency_cycles)
{
    op->issue_slots = (uint16_t)(issue < UINT16_MAX ? issue : UINT16_MAX);
    op->valu_slots = (uint16_t)(valu < UINT16_MAX ? valu : UINT16_MAX);
    op->latency_cycles = (uint16_t)(latency_cycles < UINT16_MAX ? latency_cycles : UINT16_MAX);
}

/* Bytes that neighbouring lanes of one instruction touch; nothing for 0 bytes; grows the last span when it continues
 * it. Returns false when the op is full (nothing is added), so that a generator can go on in its next op. */
bool op_span(struct wave_op *op, uint64_t address, uint64_t bytes);
/* The same for the next instruction of an unrolled loop: never grows the span before it. */
bool op_span_apart(struct wave_op *op, uint64_t address, uint64_t bytes);

static inline void op_lanes(struct wave_op *op, uint64_t lanes) { op->lanes_active = (uint16_t)lanes; }

static inline void op_end(struct wave_op *op) { op_begin(op, WAVE_END, WAVE_NO_WAIT); }

/* The first loop trip of a wave, to be called when state->pc is still 0. */
static inline void wave_first_trip(const struct wave_window *window, struct wave_state *state)
{
    state->trip = window->trip_first;
}

/* Index of the wave in the grid. */
static inline uint64_t wave_index(const struct wave_program *program, const struct wave_state *state)
{
    return state->workgroup * program->waves_per_workgroup + state->wave;
}

/* ---- small arithmetic ------------------------------------------------------------------------------------------ */
static inline uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* splitmix64 (Steele, Lea, Flood 2014): its i-th output for a seed, without its predecessors. The measuring programs
 * draw their indices with it in order, so a lazily drawn index is the very one that was measured. */
static inline uint64_t splitmix64_at(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

#endif
