/* What the dense kernels (dense_*.c) share: three shapes of wave program that most of them are instances of.
 *   dense_map      every element by itself: loads, arithmetic, stores (element-wise, casts, copies, optimisers)
 *   dense_rows     a row by some lanes, in passes with reductions between (norms, softmax, sums over the inner dimension)
 *   dense_columns  a strip of columns by a workgroup that walks down the rows (sums over the outer dimension)
 * The owner fills the plain fields of the context, then calls the `_finish`, which fixes grid, work units and steps.
 * Instruction counts are per element of one lane unless they say otherwise; each owner states its reasoning. */
#ifndef WORKLOADS_KERNELS_DENSE_INTERNAL_H
#define WORKLOADS_KERNELS_DENSE_INTERNAL_H
#include "workloads/kernels/kernels_internal.h"

/* ---- operands: where the elements of a tensor lie ---- */
#define DENSE_DIMS_MAX 4

/* Innermost first, in elements; stride 0 repeats an element. The last dimension has no end. */
struct dense_dim {
    uint64_t size, stride;
};

struct dense_operand {
    uint64_t base;
    uint32_t bytes;     /* of an element */
    uint32_t dim_count; /* 0: contiguous */
    struct dense_dim dims[DENSE_DIMS_MAX];
};

/* Most spans that `count` consecutive elements need, wherever they start. */
uint64_t dense_spans_max(const struct dense_operand *operand, uint64_t count);
/* Spans of elements [first, first + count): one instruction, so its first span never joins the one before. */
void dense_spans(const struct dense_operand *operand, uint64_t first, uint64_t count, struct wave_op *op);

/* ---- map ---- */
#define DENSE_OPERANDS_MAX 36
#define DENSE_STEPS_MAX 256

enum dense_map_order {
    DENSE_MAP_BATCHED, /* all loads of a trip in flight together, then the stores */
    DENSE_MAP_SERIAL_LOADS, /* each access waits for the one before (a conversion behind a switch on the type), then
                               the stores */
    DENSE_MAP_INTERLEAVED /* load, then store, access by access (stores may alias, so loads stay behind them) */
};

struct dense_step {
    bool store, computes, scattered;
    uint8_t lane_element; /* scattered: which element of each lane's vector */
    uint8_t operand_first, operand_count;
    uint16_t access_first, access_count;
};

/* How a lane's elements are cut into instructions. */
struct dense_shape {
    uint32_t vector, accesses; /* elements per access, accesses per lane and trip */
    uint32_t step_count;
    struct dense_step steps[DENSE_STEPS_MAX];
};

/* Operands of one of several like tensors that one launch handles (concatenation). */
struct dense_part {
    uint64_t elements;
    struct dense_operand load, store;
};

struct dense_map {
    uint64_t elements; /* of each part, at most, when there are parts */
    uint32_t threads;  /* of a workgroup */
    uint32_t elements_per_lane, vector;
    enum dense_map_order order;
    bool scattered_stores; /* vectors are loaded whole and stored element by element */
    uint64_t
        workgroups; /* 0: one per chunk of threads x elements_per_lane; else a grid-stride loop over chunks */
    uint64_t workgroup_elements;      /* > 0: each workgroup owns that many consecutive elements, in a loop */
    uint32_t load_count, store_count; /* operands: loads first */
    struct dense_operand operands[DENSE_OPERANDS_MAX];
    double valu, sfu;        /* slots per element */
    uint32_t access_issue;   /* issue slots of one access of one operand: the instruction and its address */
    uint32_t start_issue;    /* index arithmetic and branches of a trip, once */
    uint32_t first_issue;    /* more of it in the first trip */
    uint32_t latency_cycles; /* dependent arithmetic between load and store */
    uint32_t part_count;     /* 0: one tensor */
    const struct dense_part *parts;
    /* Set by dense_map_finish: */
    uint32_t lanes;
    uint64_t trips, part_workgroups, chunk;
    struct dense_shape full, tail; /* tail: a chunk that is not full falls back to single elements */
};

/* A program whose context is a zeroed struct dense_map. */
struct wave_program *dense_map_create(const char *name, struct dense_map **map);
/* Add operands (a tensor each): loads before stores. Returns the operand for its dims; `tensor_elements` sizes it. */
struct dense_operand *dense_map_load(struct wave_program *program, const char *name, uint32_t bytes,
                                     double tensor_elements);
struct dense_operand *dense_map_store(struct wave_program *program, const char *name, uint32_t bytes,
                                      double tensor_elements);
void dense_map_finish(struct wave_program *program, const struct kernel_machine *machine);

/* FillFunctor, or a memset: n elements of `bytes`. */
struct wave_program *dense_fill_program(const char *name, uint64_t n, uint32_t bytes,
                                        const struct kernel_machine *machine);

/* ---- rows ---- */
#define DENSE_PASSES_MAX 6

/* What the cooperating lanes do between passes; slots per wave. */
struct dense_combine {
    uint32_t issue, valu, sfu, latency_cycles, barriers, lds_bytes;
    uint32_t idle_valu; /* valu of a wave whose lanes held no element, where that is less; 0: the same */
};

struct dense_pass_operand {
    uint64_t base;
    uint32_t bytes;
    bool store;
    bool shared; /* the same for every row (weights) */
};

struct dense_pass {
    uint32_t operand_count;
    struct dense_pass_operand operands[6];
    uint32_t vector;    /* elements per access of a lane */
    uint32_t in_flight; /* accesses whose loads are issued together */
    double valu, sfu;
    uint32_t access_issue;    /* as in dense_map */
    uint32_t element_latency; /* of a dependent chain over the elements of a lane, cycles per element */
    uint32_t element_lds_bytes;
    struct dense_combine after;
};

/* Results of a row beyond its elements (mean, sum). */
struct dense_row_result {
    uint64_t base;
    uint32_t bytes; /* 0: none */
};

/* Partial results that meet in memory: the last workgroup of a group reads what the others staged. */
struct dense_meeting {
    uint32_t splits; /* 0 or 1: none */
    uint64_t staging, semaphores;
    uint32_t item_bytes;
    uint32_t readers; /* staged results that one step of the last workgroup's loop takes */
};

struct dense_rows {
    uint64_t rows, columns;
    uint32_t threads;
    uint32_t lanes_per_row; /* a power of two; a divisor or a multiple of the wave */
    uint32_t batch;         /* rows that the same lanes hold at once */
    uint32_t pass_count;
    struct dense_pass passes[DENSE_PASSES_MAX];
    struct dense_row_result results[2];
    uint32_t scalar_count; /* fp32 values per row that every wave reads first (mean, rstd) */
    uint64_t scalars[2];
    uint32_t start_issue;
    struct dense_meeting meeting;
    /* Set by dense_rows_finish: */
    uint32_t lanes, waves_per_row, rows_per_wave, rows_per_workgroup;
    uint64_t row_groups;
};

struct wave_program *dense_rows_create(const char *name, struct dense_rows **rows);
void dense_rows_finish(struct wave_program *program, const struct kernel_machine *machine);

/* ---- columns ---- */
struct dense_columns {
    uint64_t rows, columns;
    uint32_t width, height; /* lanes across columns, rows of lanes; width a power of two, at most the wave */
    uint32_t vector;        /* columns per lane */
    uint32_t unroll;        /* rows in flight per lane */
    uint64_t wave_stride, unroll_stride, split_stride, trip_stride; /* of the row index */
    uint32_t operand_count;
    struct dense_pass_operand operands[4]; /* loads; shared is ignored */
    uint32_t scalar_count;                 /* per-row values that a wave loads once per trip (mean, rstd) */
    uint64_t scalars[2];
    double valu; /* per element */
    uint32_t access_issue, trip_issue, start_issue;
    struct dense_combine after;
    bool partial; /* every row of lanes stores its own result: no meeting inside the workgroup */
    uint32_t result_count;
    struct dense_row_result results[2]; /* a row of columns x bytes each */
    struct dense_meeting meeting;
    /* Set by dense_columns_finish: */
    uint32_t lanes;
    uint64_t strips, trips;
};

struct wave_program *dense_columns_create(const char *name, struct dense_columns **columns);
void dense_columns_finish(struct wave_program *program, const struct kernel_machine *machine);

/* The steps of a meeting after a workgroup has its partial result (`items` of them per workgroup): stage it, count in,
 * and for the last workgroup read `splits` results. `step` counts from 0; false when there is no such step.
 * Barriers keep the waves of a workgroup together, as the kernels do. */
bool dense_meeting_step(const struct dense_meeting *meeting, uint64_t group, uint32_t split, uint32_t wave,
                        uint32_t waves, uint64_t items, uint64_t step, struct wave_op *op);

/* ---- parameters ---- */
/* "a:b:c", each in [min, max]; returns how many. Missing: fails unless `optional`, then 0. */
uint32_t dense_param_list(struct kernel_build *build, const char *key, uint64_t min, uint64_t max,
                          uint64_t *values, uint32_t capacity, bool optional);
/* cache (flushed|own|clean|produced; flushed): what the caches hold when the kernel starts. In a step they hold what
 * other kernels left; `produced` says that the first input was written just before. */
void dense_cache_param(struct kernel_build *build);
void dense_cache_apply(struct kernel_build *build, struct wave_program *program);

/* Bytes of an element by name, spelled as in the tables or as one-byte and integer types. `fallback`: index in the
 * list when the key is absent, -1 where it is required. */
#define DENSE_DTYPES "fp32|fp16|bf16|float32|float16|bfloat16|fp8|int8|int32|int64|fp64|bool"
enum { DENSE_REQUIRED = -1, DENSE_FP32 = 0, DENSE_BF16 = 2, DENSE_INT64 = 9 };
uint32_t dense_param_bytes(struct kernel_build *build, const char *key, int fallback);

static inline uint32_t slots16(double slots)
{
    return slots <= 0 ? 0 : slots < 65535 ? (uint32_t)(slots + 0.5) : 65535;
}
static inline uint64_t last_pow2(uint64_t n)
{
    uint64_t p = 1;
    while (p <= n / 2) {
        p *= 2;
    }
    return p;
}
static inline uint64_t next_pow2(uint64_t n)
{
    uint64_t p = 1;
    while (p < n) {
        p *= 2;
    }
    return p;
}

#endif
