/* A kernel as the chip model sees it: a grid of workgroups whose waves yield operations lazily.
 * The one contract between workloads/kernels (which emits operations and has never heard of a cache) and
 * sim/chiplet (which executes them and has never heard of an embedding). */
#ifndef SIM_CORE_WAVE_PROGRAM_H
#define SIM_CORE_WAVE_PROGRAM_H
#include <stdbool.h>
#include <stdint.h>

#define WAVE_LANES_MAX 64
#define WAVE_SPANS_MAX 72
#define WAVE_NO_WAIT 255

enum wave_op_kind {
    WAVE_LOAD,    /* spans -> registers; the wave goes on at once and waits by wait_outstanding */
    WAVE_STORE,   /* spans, fire and forget */
    WAVE_ATOMIC,  /* spans (neighbouring lanes, each its own element) or lane addresses */
    WAVE_COMPUTE, /* vector, scalar, matrix and LDS work alone */
    WAVE_BARRIER, /* all waves of the workgroup meet */
    WAVE_END      /* the wave retires */
};

enum wave_cache {
    WAVE_CACHE_L1, /* may hit and allocate in L1 (ld.ca; ordinary loads) */
    WAVE_CACHE_L2  /* bypasses L1 (ld.cg, nontemporal) */
};

enum wave_atomic_type { WAVE_ATOMIC_INT, WAVE_ATOMIC_FP32, WAVE_ATOMIC_PACKED16, WAVE_ATOMIC_TYPES };

enum wave_atomic_flags {
    WAVE_ATOMIC_RETURN = 1,      /* the wave needs the old value: counts as an outstanding load */
    WAVE_ATOMIC_CAS_LOOP = 2,    /* read, compute, compare-and-swap until it sticks */
    WAVE_ATOMIC_ACQ_REL = 4,     /* release before and acquire after: cache write-back and invalidate where L2s are private */
    WAVE_ATOMIC_WAVE_MERGED = 8, /* the compiler merged uniform lanes: one lane issues */
    WAVE_ATOMIC_CAS_ONCE = 16    /* one compare-and-swap, whatever comes of it */
};

enum wave_dtype { WAVE_FP64, WAVE_FP32, WAVE_TF32, WAVE_BF16, WAVE_FP16, WAVE_FP8, WAVE_INT8, WAVE_DTYPES };

/* Contiguous bytes touched by neighbouring lanes of one instruction; bytes > 0. */
struct wave_span {
    uint64_t address; /* in the kernel's own flat address space; regions of different tensors must not overlap */
    uint32_t bytes;
};

/* One step of a wave: first the waits, then the issue work, then the access.
 * Loads of an unrolled loop are ONE op with several spans: they are in flight together. */
struct wave_op {
    uint8_t kind;             /* enum wave_op_kind */
    uint8_t wait_outstanding; /* before anything else: wait until at most this many of the wave's earlier load ops are
                                 in flight (0: all have returned); WAVE_NO_WAIT: do not wait */
    uint8_t wait_matrix;      /* 1: wait for the wave's matrix work in flight */
    uint8_t cache;            /* enum wave_cache, loads only */
    uint8_t atomic_type;      /* enum wave_atomic_type */
    uint8_t atomic_flags;     /* enum wave_atomic_flags, or'ed */
    uint8_t element_bytes;    /* of an atomic lane: 2, 4 or 8 */
    uint8_t matrix_dtype;     /* enum wave_dtype of matrix_flops */
    uint16_t issue_slots;     /* instructions issued for this step that do not hold a vector unit (memory, scalar, branch) */
    uint16_t valu_slots;      /* vector instructions (a half-rate one counts 2) */
    uint16_t sfu_slots;       /* special-function instructions (exp, rcp, sin) */
    uint16_t latency_cycles;  /* dependent latency that issue does not cover (a division, a chain), core cycles */
    uint16_t lanes_active;    /* for the lane-use statistic */
    uint16_t lds_conflict_x16;/* LDS time multiplier in 1/16 (16: conflict-free); 0 is read as 16 */
    uint32_t lds_bytes;       /* bytes moved through LDS by this step */
    uint32_t lds_atomics;     /* LDS atomic lane operations by this step */
    uint64_t matrix_flops;    /* matrix work of this wave in this step, FLOP (2 per multiply-add), runs asynchronously */
    uint32_t work_units;      /* loop trips (or what work_units_total counts) that this op completes */
    uint32_t span_count;      /* <= WAVE_SPANS_MAX */
    uint32_t lane_count;      /* > 0: lane_address is used instead of spans (WAVE_ATOMIC only) */
    struct wave_span spans[WAVE_SPANS_MAX];
    uint64_t lane_address[WAVE_LANES_MAX];
};

/* What a wave remembers between ops; zeroed by the engine when the wave starts, the first two fields set. */
struct wave_state {
    uint64_t workgroup; /* index in the grid */
    uint32_t wave;      /* index in the workgroup */
    uint32_t pc;        /* program's own */
    uint64_t trip;      /* program's own: loop counter; starts at window->trip_first for looping programs */
    uint64_t r[6];      /* program's own */
};

/* Which loop trips of each wave run: all of them (0, UINT64_MAX), or a sample. A looping program (trips_per_wave > 0)
 * runs trips t with trip_first <= t < trip_limit, and t below the wave's own count; one that can_leave_out_trips runs without the
 * `left_out` trips from `left_out_first` on, and numbers those behind them on: the wave goes from its first trips to its last. */
struct wave_window {
    uint64_t trip_first;
    uint64_t trip_limit;
    uint64_t left_out_first, left_out; /* 0, 0: none */
};

enum wave_initial_cache {
    WAVE_CACHE_STATE_CLEAN,       /* nothing of the kernel in any cache */
    WAVE_CACHE_STATE_OWN,         /* the kernel ran just before (benchmark repeats): its own data, dirty where it wrote */
    WAVE_CACHE_STATE_PREDECESSOR, /* a predecessor wrote `predecessor` (dirty lines), nothing else */
    WAVE_CACHE_STATE_FLUSHED      /* caches full of a predecessor's unrelated dirty lines (an L2 flush by writing) */
};

struct wave_program {
    const char *name;              /* static or owned by the program, for reports */
    uint64_t workgroups;           /* > 0 */
    uint32_t waves_per_workgroup;  /* > 0 */
    uint32_t registers_per_lane;   /* 32-bit registers; occupancy */
    uint32_t lds_bytes;            /* per workgroup; occupancy */
    uint32_t workgroups_per_unit_max; /* 0: as resources allow; else a limit that the launch sets (cooperative, launch bounds) */
    uint64_t work_units_total;     /* units of work_units over the whole kernel; exact for regular kernels, expected value
                                      for random ones; > 0 */
    uint64_t trips_per_wave;       /* of a typical wave; 0: waves do not loop (sampling then takes workgroups only) */
    bool can_leave_out_trips;      /* wave_window.left_out; trips_per_wave is then that of every wave */
    uint64_t trips_period;         /* 0, or the trips after which a wave does something else once (the end of a bag): a sample
                                      of trips is then of whole periods */
    bool workgroups_differ;        /* true: neighbouring workgroups have unlike amounts of work, so that a sample must be
                                      spread over the grid and not taken from its head */
    uint64_t workgroups_period;    /* 0, or the workgroups after which the grid starts over on like data elsewhere (the next
                                      table of many): a spread sample stays within one period, or it would mix working
                                      sets that never meet */
    bool is_divisible;             /* true: workgroups are alike, share data with their neighbours alone and take nothing from the grid's
                                      size, so that the first of them on a like part of a package say what the whole does */
    uint32_t part_of;              /* 0 or 1: the whole launch; n: its n-th part in work and data, for the n-th part of every group, cache
                                      and channel of a package (kernel_machine.parts) */
    uint64_t longest_wave_trips;   /* 0, or the trips of one wave so long that it may bound the kernel (a hot run) */
    uint64_t longest_wave_workgroup;
    uint32_t longest_wave_index;
    enum wave_initial_cache initial_cache;
    struct wave_span predecessor;  /* for WAVE_CACHE_STATE_PREDECESSOR (bytes: low 32 bits) */
    uint64_t predecessor_bytes;
    double flops;                  /* useful arithmetic, for reports; 0: undefined */
    double matrix_arithmetic;      /* share of the ops' matrix_flops that is arithmetic; the rest only holds the matrix unit
                                      (it waits for operands, or may not start every cycle); 0: all of it */
    double l2_footprint_bytes;     /* distinct bytes touched, as far as known; 0: unknown */

    /* Fill `op` with the wave's next step; the engine zeroes op's fixed fields before the call. Must be a pure function of
     * (program, window, state): the engine may replay waves to warm caches. */
    void (*next)(const struct wave_program *program, const struct wave_window *window, struct wave_state *state,
                 struct wave_op *op);
    void (*destroy)(struct wave_program *program); /* frees the program itself; never NULL */
    void *context;                                 /* the program's parameters and tables, read-only while running */
};

#endif
