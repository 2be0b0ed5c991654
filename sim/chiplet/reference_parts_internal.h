/* What the parts of the reference engine share: requests, servers, fills, and the doors from one part to another. Private to the
 * reference engine's files. */
#ifndef SIM_CHIPLET_REFERENCE_PARTS_INTERNAL_H
#define SIM_CHIPLET_REFERENCE_PARTS_INTERNAL_H
#include "sim/chiplet/reference_internal.h"

#include <stddef.h>

#define LOADS_MAX 256        /* load operations of a wave in flight */
#define FILL_TABLE_BITS 16
#define NOT_A_LOAD UINT64_MAX
#define PIECES_MAX 4096      /* lines of one operation */

struct reference;
typedef void step_fire(struct reference *reference, void *object);

struct step {
    sim_ticks at;
    uint64_t sequence;
    step_fire *fire;
    void *object;
};

struct strict_server {
    sim_ticks free, busy;
};

struct credits {
    uint32_t left;
    struct request *first, *last; /* wait for one, in order of arrival */
};

/* Sectors on their way to a cache. */
struct fill {
    uint64_t line;
    uint32_t where; /* L2 slice, then units' L1s, then memory-side slices */
    uint32_t mask;
    struct request *waiters;
    struct fill *next; /* hash chain, youngest first; or free list */
};

enum request_kind { REQUEST_LOAD, REQUEST_STORE, REQUEST_ATOMIC };

struct request {
    enum request_kind kind;
    struct wave *wave;
    uint64_t load_op; /* of the wave, or NOT_A_LOAD */
    uint32_t unit, group;
    uint64_t line;
    struct line_place place;
    uint32_t mask, partial;
    uint32_t wanted;     /* sectors asked of memory */
    uint32_t near, home; /* slices of the package; the same where the line is not far */
    uint8_t cache;       /* enum wave_cache */
    sim_ticks latency, there; /* unloaded, and its part on the way there */
    sim_ticks issued, since;  /* since: began to wait */
    step_fire *resume;        /* after a fill */
    struct fill *fills[4];    /* that this request brings: L1, near, home, memory side */
    struct atomic_lanes lanes[ATOMIC_BLOCKS_MAX];
    enum wave_atomic_type type;
    enum atomic_swap swap;
    bool is_ordered;
    uint32_t blocks_left;
    sim_ticks end; /* of the atomic's last block */
    struct request *packet; /* of a block */
    struct atomic_lanes block_lanes;
    struct atomic_visit visit;
    uint64_t block;
    struct access_blame blame;
    struct request *next;
};

enum fill_level { FILL_L1, FILL_NEAR, FILL_HOME, FILL_MALL };

struct l1_line {
    uint64_t line; /* + 1; 0: empty */
    uint32_t valid;
};

struct unit {
    struct strict_server lsu, out, fill, lds;
    struct strict_server issue[SIMDS_MAX], sfu[SIMDS_MAX], matrix[SIMDS_MAX];
    struct credits loads, stores;
    struct l1_line *l1; /* [sets][ways] */
    uint8_t *l1_victim;
    uint32_t group;
};

struct slot {
    uint32_t unit, first_wave, running, at_barrier;
    uint64_t position; /* of the workgroup that comes next */
    sim_ticks end;
};

struct wave {
    uint32_t unit, slot, simd;
    sim_ticks born, waits_since, matrix_done;
    uint64_t loads, loads_done; /* load operations issued; all before `loads_done` have returned */
    uint64_t waits_for;         /* loads_done that wakes it */
    bool asleep;
    bool in_order;              /* the next op waits for all before it */
    uint32_t unsent;            /* packets of the present store or atomic */
    uint16_t left[LOADS_MAX];   /* lines in flight of load operation i % LOADS_MAX */
    struct access_blame blame;  /* of the load that came back last */
    sim_ticks blame_total;
    struct wave_state state;
    struct wave_op op;
};

struct channel {
    struct strict_server data, activate;
};

/* One line of an operation. */
struct piece {
    uint64_t line;
    uint32_t mask, partial; /* partial: sectors not covered whole by any one span */
    struct atomic_lanes lanes[ATOMIC_BLOCKS_MAX];
};

struct block_of_requests {
    struct block_of_requests *next;
    struct request request[1024];
};

struct block_of_fills {
    struct block_of_fills *next;
    struct fill fill[1024];
};

struct reference {
    struct package *package;
    const struct wave_program *program;
    uint32_t units_used, l1_sets, l1_ways;
    struct unit *units;
    struct wave *waves;
    struct slot *slots;
    uint32_t slot_count;
    struct strict_server *dispatchers, *slices, *links, *mall_servers, *arithmetic;
    struct strict_server *banks; /* [slices * package->banks] */
    uint32_t dispatcher_count, arithmetic_count;
    struct channel *channels;
    uint64_t next_workgroup, *next_of_group, end_workgroup;
    /* events */
    sim_ticks now;
    struct step *heap;
    size_t heap_count, heap_capacity;
    uint64_t sequence;
    /* pools, grown while a run needs more than any before */
    struct block_of_requests *request_blocks;
    struct block_of_fills *fill_blocks;
    struct request *free_requests;
    struct fill *free_fills;
    struct fill **fill_table;
    /* per run */
    const struct run_request *request;
    struct run_outcome *outcome;
    uint32_t mark_index;
    uint64_t mark_due;
    uint32_t waves_alive;
    sim_ticks last_drain;
    enum kernel_stage last_drain_stage;
    double lifetime;
    double matrix_ticks_per_flop[WAVE_DTYPES];
    struct piece pieces[PIECES_MAX]; /* of the operation at hand */
};

/* ---- reference_events.c */

void reference_schedule(struct reference *reference, sim_ticks at, step_fire *fire, void *object);
struct step reference_next_step(struct reference *reference);
/* Take a place in the queue now; returns when service starts. */
sim_ticks reference_serve(struct reference *reference, struct strict_server *server, sim_ticks cost);
/* Go on with `fire` as soon as a credit is free. */
void reference_take_credit(struct reference *reference, struct credits *credits, step_fire *fire, struct request *request);
void reference_give_credit(struct reference *reference, struct credits *credits);
struct request *reference_new_request(struct reference *reference);
void reference_free_request(struct reference *reference, struct request *request);
/* Sectors `mask` of `line` are under way to `where`; who wants them meanwhile waits for them by name. */
struct fill *reference_start_fill(struct reference *reference, uint64_t line, uint32_t where, uint32_t mask);
bool reference_wait_for_fill(struct reference *reference, uint64_t line, uint32_t where, uint32_t mask, step_fire *resume,
                             struct request *request);
void reference_end_fill(struct reference *reference, struct request *bringer, enum fill_level level);

/* ---- reference_memory.c: from the arrival at the L2 on */

step_fire reference_arrive_at_l2;

/* ---- reference.c: back at the unit */

step_fire reference_load_back, reference_atomic_returned;

#endif
