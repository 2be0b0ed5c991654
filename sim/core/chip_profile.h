/* Everything the chip model knows of one package, read from devices/NAME.json.
 * Each value has a value, unit, low, high, kind and source there; the lists below are the reader's table, the manual
 * (`reckon devices --help`) and the struct in one. Units are fixed by the list: a file that gives another unit is refused.
 * A field that a device has no value for belongs to an optional section that is absent as a whole, never to a default. */
#ifndef SIM_CORE_CHIP_PROFILE_H
#define SIM_CORE_CHIP_PROFILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sim/core/status.h"

/* Sections. X(section, required, help) */
#define CHIP_PROFILE_SECTIONS(X)                                                                   \
    X(clock, true, "clocks of the package")                                                        \
    X(package, true, "how many of what")                                                           \
    X(unit, true, "one CU or SM")                                                                  \
    X(matrix, true, "matrix and vector arithmetic of one CU or SM")                                \
    X(l1, true, "vector L1 cache of one CU or SM")                                                 \
    X(l2, true, "L2: private per compute group, or one cache in partitions")                       \
    X(die_link, false, "link between dies (or I/O dies); absent on one die")                       \
    X(mall, false, "memory-side cache (Infinity Cache)")                                           \
    X(hbm, true, "HBM stacks, per channel")                                                        \
    X(tlb, false, "address translation beyond a reach; absent where measurements show none")       \
    X(atomic, true, "atomic units")                                                                \
    X(dispatch, true, "workgroup dispatch")                                                        \
    X(launch, true, "kernel launch as the device sees it")                                         \
    X(power, true, "board power")

/* Numbers. X(section, key, unit, min, max, help); the C name is section_key, the C type double.
 * A number that the reader checks and no model uses says "(informational)" at the end of its help; a test holds both ways. */
#define CHIP_PROFILE_NUMBERS(X)                                                                    \
    X(clock, core_max, "MHz", 100, 5000, "highest core (CU/SM) clock")                             \
    X(clock, core_memory_bound, "MHz", 100, 5000, "core clock that memory-bound kernels hold")     \
    X(clock, core_dense, "MHz", 100, 5000, "core clock that sustained dense matrix work holds")    \
    X(package, groups, "count", 1, 64, "compute groups: XCDs, or L2 partitions of a GPU")          \
    X(package, units_per_group, "count", 1, 256, "active CUs or SMs per group")                    \
    X(package, units_total, "count", 1, 4096, "active CUs or SMs of the package; must be groups x units_per_group (informational)") \
    X(package, dies, "count", 1, 16, "dies that carry memory: I/O dies, or compute dies")          \
    X(unit, lanes, "count", 16, 64, "lanes of a wave")                                             \
    X(unit, simds, "count", 1, 16, "schedulers (SIMDs) per unit")                                  \
    X(unit, waves_max, "count", 1, 128, "resident waves per unit")                                 \
    X(unit, workgroups_max, "count", 1, 128, "resident workgroups per unit")                       \
    X(unit, registers, "count", 1024, 1048576, "32-bit registers per unit, lanes counted")         \
    X(unit, register_granularity, "count", 1, 1024, "registers per lane are rounded up to this")   \
    X(unit, registers_per_lane_max, "count", 16, 1024, "most registers a lane can have")           \
    X(unit, lds, "KiB", 1, 1024, "LDS or shared memory per unit usable by workgroups")             \
    X(unit, lds_per_workgroup_max, "KiB", 1, 1024, "most LDS one workgroup can have")              \
    X(unit, lds_reserved_per_workgroup, "B", 0, 65536, "LDS the system takes per workgroup")       \
    X(unit, lds_rate, "B/cycle", 1, 4096, "LDS bytes per core cycle and unit")                     \
    X(unit, lds_latency, "cycle", 1, 1000, "LDS load latency")                                     \
    X(unit, lds_atomic_rate, "op/cycle", 0.01, 128, "LDS atomic lane operations per cycle, distinct or merged") \
    X(unit, issue_interval, "cycle", 0.1, 16, "cycles a SIMD is held per non-vector instruction")  \
    X(unit, valu_interval, "cycle", 0.1, 16, "cycles a SIMD is held per vector instruction of a wave") \
    X(unit, sfu_interval, "cycle", 0.1, 64, "cycles a SIMD is held per special-function instruction of a wave") \
    X(unit, barrier_latency, "cycle", 0, 10000, "last wave's arrival at a barrier to all waves going on") \
    X(unit, bulk_interval, "cycle", 0, 10000, "between requests of the unit's engine for bulk copies and reductions; 0: it has none") \
    X(matrix, bf16, "FLOP/cycle", 0, 1e6, "dense matrix rate per unit; fp16 alike")                \
    X(matrix, fp8, "FLOP/cycle", 0, 1e6, "dense matrix rate per unit; 0: not native")              \
    X(matrix, tf32, "FLOP/cycle", 0, 1e6, "dense matrix rate per unit; 0: emulated by three bf16 products") \
    X(matrix, fp32, "FLOP/cycle", 0, 1e6, "fp32 multiply-add rate of the vector (or matrix) units per unit") \
    X(matrix, fp64, "FLOP/cycle", 0, 1e6, "fp64 rate per unit")                                    \
    X(matrix, latency, "cycle", 1, 1000, "one matrix instruction, issue to result (informational)")                \
    X(matrix, sustained, "ratio", 0.1, 1, "share of the matrix rate at clock.core_max that instructions back to back with random operands reach") \
    X(matrix, accumulators, "count", 1024, 1048576, "fp32 results that one workgroup can hold") \
    X(matrix, instruction_m, "count", 1, 1024, "rows of the matrix instruction") \
    X(matrix, instruction_n, "count", 1, 1024, "its columns are multiples of this") \
    X(matrix, operand_rows, "count", 1, 1024, "rows of one operand that a reading of the other from LDS serves") \
    X(matrix, stages_max, "count", 2, 64, "K steps of operands that library kernels of matrix products hold at once") \
    X(matrix, result_buffers, "count", 1, 4, "tiles of results held at once; above 1 they have a memory of their own beside the registers") \
    X(matrix, multicast, "count", 1, 16, "neighbouring units that one load of an operand tile serves in library kernels") \
    X(l1, capacity, "KiB", 1, 1024, "data capacity per unit as cache")                             \
    X(l1, line, "B", 32, 512, "line (informational)")                                                              \
    X(l1, sector, "B", 16, 512, "fetch granularity (informational)")                                               \
    X(l1, ways, "count", 1, 128, "associativity")                                                  \
    X(l1, hit_latency, "cycle", 1, 1000, "load hit latency")                                       \
    X(l1, request_interval, "cycle", 0.1, 64, "cycles per line request of the address port")       \
    X(l1, fill_rate, "B/cycle", 1, 1024, "bytes per cycle from L2 into one unit")                  \
    X(l1, store_rate, "B/cycle", 1, 1024, "bytes per cycle from one unit towards L2")              \
    X(l1, mshr, "count", 1, 65536, "line requests in flight per unit, loads")                      \
    X(l1, store_credits, "count", 1, 65536, "store and atomic packets in flight per unit")         \
    X(l2, capacity, "MiB", 0.25, 1024, "all L2 of the package")                                    \
    X(l2, ways, "count", 1, 64, "associativity")                                                   \
    X(l2, line, "B", 32, 512, "line (tag) size")                                                   \
    X(l2, sector, "B", 16, 512, "sector: valid and dirty granularity")                             \
    X(l2, slices_per_group, "count", 1, 256, "slices (channels) per compute group")                \
    X(l2, interleave, "B", 32, 65536, "block of consecutive bytes on one slice")                   \
    X(l2, hit_latency, "cycle", 1, 5000, "load hit latency, near copy, mean over (unit, slice)")   \
    X(l2, hit_latency_spread, "cycle", 0, 1000, "half width of the hit latency over (unit, slice)") \
    X(l2, far_latency, "cycle", 0, 5000, "extra when only the other partition holds the line (0 for private L2s)") \
    X(l2, dirty_share, "ratio", 0.05, 1, "most of a set's ways that may be dirty; beyond it a dirty line is written back and kept") \
    X(l2, read_request_time, "ns", 0.01, 100, "slice time per read request of one sector")         \
    X(l2, read_line_time, "ns", 0.01, 100, "slice time per read request of a whole line")          \
    X(l2, far_request_time, "ns", 0, 100, "home slice time per read request from the other partition") \
    X(l2, write_sector_time, "ns", 0.01, 100, "slice time per written sector")                     \
    X(l2, banks, "count", 1, 16, "data banks of a slice, picked by a hash of the interleaved block") \
    X(l2, bank_read_time, "ns", 0.01, 100, "time of a bank per sector read")                        \
    X(l2, bank_write_time, "ns", 0.01, 100, "time of a bank per written sector")                    \
    X(die_link, rate, "GB/s", 1, 1e6, "one-way rate of the cut between dies")                      \
    X(die_link, latency, "ns", 0, 10000, "added one-way latency of a crossing")                    \
    X(mall, capacity, "MiB", 1, 4096, "memory-side cache of the package")                          \
    X(mall, ways, "count", 1, 64, "associativity")                                                 \
    X(mall, line, "B", 32, 512, "line (informational)")                                                            \
    X(mall, slices, "count", 1, 1024, "slices of the package (informational)")                                     \
    X(mall, rate, "GB/s", 1, 1e6, "read rate of the package")                                      \
    X(mall, latency, "ns", 1, 10000, "load latency from the unit on a hit here")                   \
    X(hbm, capacity, "GiB", 1, 4096, "HBM usable by a program")                                    \
    X(hbm, channels, "count", 1, 1024, "independent (pseudo-)channels")                            \
    X(hbm, channel_rate, "GB/s", 0.1, 1000, "data-bus rate of one channel")                        \
    X(hbm, access, "B", 16, 512, "fetch and write-back unit")                                      \
    X(hbm, row, "B", 128, 65536, "bytes of one open row in a channel")                             \
    X(hbm, open_rows, "count", 1, 4096, "rows open at once per channel (banks that stay open)")    \
    X(hbm, activate_interval, "ns", 0, 1000, "least time between row activations of a channel")    \
    X(hbm, row_bubble, "ns", 0, 1000, "data-bus time lost per row change")                         \
    X(hbm, write_activate_interval, "ns", 0, 1000, "activation cost of a scattered write-back")    \
    X(hbm, turnaround, "ns", 0, 1000, "data-bus time lost per change between reading and writing") \
    X(hbm, write_batch, "count", 1, 1024, "access units a channel gathers before it turns round to write them") \
    X(hbm, refresh_interval, "ns", 100, 100000, "time between refreshes of a channel")             \
    X(hbm, refresh_time, "ns", 0, 10000, "time a refresh blocks the channel")                      \
    X(hbm, latency, "ns", 1, 10000, "load latency beyond the last cache's miss, unloaded, without refresh") \
    X(tlb, reach, "MiB", 0.1, 1e6, "bytes covered per compute group before misses")                \
    X(tlb, miss_latency, "ns", 0, 100000, "added latency of a miss")                               \
    X(tlb, page, "KiB", 4, 2097152, "bytes covered by one entry")                                  \
    X(atomic, block, "B", 4, 512, "bytes that serialise together in the unit")                     \
    X(atomic, int_interval, "ns", 0.01, 1000, "between dependent integer operations on one address") \
    X(atomic, fp32_interval, "ns", 0.01, 1000, "between dependent fp32 additions on one address")  \
    X(atomic, packed16_interval, "ns", 0.01, 1000, "between dependent packed fp16/bf16 additions on one address") \
    X(atomic, cas_interval, "ns", 0.01, 1000, "between attempts of compare-and-swap loops on one address") \
    X(atomic, turnaround, "ns", 0, 1000, "of a block between two requests, beyond the interval of its operations") \
    X(atomic, piece_time, "ns", 0, 1000, "of a block per further piece of a request of distinct addresses (a piece: neighbouring lanes on neighbouring addresses)") \
    X(atomic, block_time, "ns", 0.01, 1000, "slice or channel time per block request, one lane per address") \
    X(atomic, lane_time, "ns", 0, 1000, "slice or channel time per lane where lanes share addresses") \
    X(atomic, unit_time, "ns", 0, 1000, "arithmetic-unit time per block request, int and fp32")    \
    X(atomic, unit_time_packed16, "ns", 0, 1000, "arithmetic-unit time per block request, packed 16-bit") \
    X(atomic, slices_per_unit, "count", 1, 64, "slices or channels that share an arithmetic unit") \
    X(atomic, return_latency, "cycle", 0, 10000, "round trip beyond a load of the same place")     \
    X(atomic, cas_round_trips, "count", 0.1, 100, "load-and-swap round trips per successful compare-and-swap, uncontended") \
    X(atomic, release_latency, "ns", 0, 100000, "write-back of a private L2 on release, quiet; 0 where L2 is coherent") \
    X(atomic, acquire_latency, "ns", 0, 100000, "invalidate on acquire, quiet; 0 where L2 is coherent") \
    X(dispatch, interval, "cycle", 0.01, 1000, "between workgroups, one dispatcher")               \
    X(dispatch, dispatchers, "count", 1, 64, "dispatchers that work side by side (1: whole chip; groups: one per XCD)") \
    X(dispatch, start_latency, "cycle", 0, 100000, "workgroup assigned to its first instruction")  \
    X(dispatch, release_latency, "cycle", 0, 100000, "last wave's end to the slot being free for the dispatcher") \
    X(dispatch, wave_interval, "cycle", 0, 1000, "between waves of one workgroup being started")   \
    X(launch, latency, "us", 0, 1000, "launch and drain of an empty kernel as the device sees it, in a full stream") \
    X(launch, stream_gap, "us", 0, 1000, "end of a kernel to the start of the next one in a stream, both queued") \
    X(launch, graph_gap, "us", 0, 1000, "the same inside a captured graph")                        \
    X(power, board_limit, "W", 10, 5000, "board power held over limit_window")                     \
    X(power, limit_window, "ms", 0.001, 10000, "window over which the average stays below board_limit") \
    X(power, excursion, "ratio", 1, 10, "most of board_limit over excursion_window")               \
    X(power, excursion_window, "ms", 0.001, 10000, "window over which the average stays below excursion x board_limit") \
    X(power, response, "ms", 0.001, 1000, "between two choices of the clock by the governor")      \
    X(power, idle, "W", 0, 2000, "board power without work, clocks up")                            \
    X(power, voltage_exponent, "ratio", 0, 3, "energy of a core operation goes with the clock to this power") \
    X(power, voltage_floor, "MHz", 10, 5000, "core clock below which the voltage falls no further") \
    X(power, matrix_bf16, "pJ/FLOP", 0.001, 100, "bf16 and fp16 matrix work at clock.core_max, operands from LDS and registers included") \
    X(power, matrix_fp8, "pJ/FLOP", 0.001, 100, "8-bit matrix work, likewise")                     \
    X(power, matrix_tf32, "pJ/FLOP", 0.001, 100, "tf32 matrix work, likewise")                     \
    X(power, matrix_fp32, "pJ/FLOP", 0.001, 100, "fp32 matrix or vector multiply-adds, likewise")  \
    X(power, matrix_fp64, "pJ/FLOP", 0.001, 100, "fp64 matrix work, likewise")                     \
    X(power, instruction, "pJ/lane", 0.01, 1000, "an instruction of one lane at clock.core_max")   \
    X(power, l2_byte, "pJ/B", 0.01, 1000, "a byte through L2 and the crossbar at clock.core_max")  \
    X(power, hbm_byte, "pJ/B", 0.1, 1000, "a byte on the HBM bus, controller and die links included")

/* Choices. X(section, key, "a|b|c", help); the C name is section_key, the C type int: index in the list. */
#define CHIP_PROFILE_CHOICES(X)                                                                    \
    X(matrix, split_reduction, "launch|workgroup|early_launch", "who adds up the parts of a product split over K in library kernels: a launch of its own, the last part's workgroup, or a launch that is in place when the product ends") \
    X(l2, organisation, "private|partitioned", "private: one per group, not coherent between groups; partitioned: one coherent cache, hashed over groups") \
    X(l2, copies, "none|far", "far: a line read from the other partition is also kept in the near one") \
    X(l2, clock_domain, "core|own", "whether slice times scale with the core clock")               \
    X(atomic, executed_at, "l2|memory_side", "where device-scope atomics execute")                 \
    X(atomic, repeats, "together|lane_by_lane", "a block whose lanes repeat an address takes as many turns as its most frequent address has lanes, or as it has lanes") \
    X(dispatch, order, "round_robin_groups|breadth_first_units", "how workgroups are dealt out")

enum chip_split_reduction { CHIP_SPLIT_BY_LAUNCH, CHIP_SPLIT_BY_WORKGROUP, CHIP_SPLIT_BY_EARLY_LAUNCH };
enum chip_l2_organisation { CHIP_L2_PRIVATE, CHIP_L2_PARTITIONED };
enum chip_l2_copies { CHIP_L2_COPIES_NONE, CHIP_L2_COPIES_FAR };
enum chip_l2_clock { CHIP_L2_CLOCK_CORE, CHIP_L2_CLOCK_OWN };
enum chip_atomic_place { CHIP_ATOMIC_L2, CHIP_ATOMIC_MEMORY_SIDE };
enum chip_atomic_repeats { CHIP_ATOMIC_REPEATS_TOGETHER, CHIP_ATOMIC_REPEATS_LANE_BY_LANE };
enum chip_dispatch_order { CHIP_DISPATCH_ROUND_ROBIN_GROUPS, CHIP_DISPATCH_BREADTH_FIRST_UNITS };

enum profile_kind { PROFILE_SPEC, PROFILE_MEASURED, PROFILE_DERIVED, PROFILE_FITTED, PROFILE_ASSUMED, PROFILE_KINDS };

enum chip_number { /* index of a number in chip_profile.meta: CHIP_NUMBER_section_key */
#define CHIP_NUMBER_ENUM(section, key, unit, min, max, help) CHIP_NUMBER_##section##_##key,
    CHIP_PROFILE_NUMBERS(CHIP_NUMBER_ENUM)
#undef CHIP_NUMBER_ENUM
        CHIP_NUMBERS
};

enum chip_choice { /* index of a choice in chip_profile.choice_meta: CHIP_CHOICE_section_key */
#define CHIP_CHOICE_ENUM(section, key, choices, help) CHIP_CHOICE_##section##_##key,
    CHIP_PROFILE_CHOICES(CHIP_CHOICE_ENUM)
#undef CHIP_CHOICE_ENUM
        CHIP_CHOICES
};

struct profile_value_meta {
    double low, high;       /* plausible range; low <= value <= high; 0 for a choice */
    enum profile_kind kind;
    char *source;           /* owned by the profile; NULL when the section is absent */
};

struct chip_profile {
    char name[32];          /* "mi350x" */
    char title[96];         /* for reports; no code branches on it */
    char node[32];          /* the node profile that --node defaults to */
    char host[32];          /* the host profile */
    char trace_names[256];  /* device names in traces that mean this profile, '|' between them */
#define CHIP_PROFILE_HAS(section, required, help) bool has_##section;
    CHIP_PROFILE_SECTIONS(CHIP_PROFILE_HAS)
#undef CHIP_PROFILE_HAS
#define CHIP_PROFILE_FIELD(section, key, unit, min, max, help) double section##_##key; /* in `unit` */
    CHIP_PROFILE_NUMBERS(CHIP_PROFILE_FIELD)
#undef CHIP_PROFILE_FIELD
#define CHIP_PROFILE_CHOICE(section, key, choices, help) int section##_##key;
    CHIP_PROFILE_CHOICES(CHIP_PROFILE_CHOICE)
#undef CHIP_PROFILE_CHOICE
    struct profile_value_meta meta[CHIP_NUMBERS];
    struct profile_value_meta choice_meta[CHIP_CHOICES];
    uint64_t hash;          /* of every number and choice, for memo keys and reports; recompute after changes */
};

/* Read and check a device file: unknown or missing key, wrong or missing unit, value outside [min,max] or its own
 * [low,high], impossible combinations (register file larger than L2, groups x units against the total given in the file,
 * sector larger than line, ...). Each error is one line with file, section.key, value and the valid range. */
enum sim_status chip_profile_read(const char *path, struct chip_profile *profile, struct sim_error *error);
void chip_profile_finish(struct chip_profile *profile); /* zeroed memory is allowed */

/* All that is wrong with a device file, one complaint a call, in the order of the file's sections and then of the
 * combinations; returns their number (0: the file is valid). chip_profile_read reports the first of the same. */
typedef void (*chip_profile_complaint)(void *context, const struct sim_error *error);
size_t chip_profile_check(const char *path, chip_profile_complaint complain, void *context);

/* Address of a number by "section.key" (fits, --set-device, uncertainty), or NULL. */
double *chip_profile_number(struct chip_profile *profile, const char *dotted_key, enum chip_number *index);
const char *chip_number_key(enum chip_number index);  /* "l2.hit_latency" */
const char *chip_number_unit(enum chip_number index);
const char *chip_number_help(enum chip_number index);
void chip_number_range(enum chip_number index, double *min, double *max); /* what any device may have */
bool chip_number_present(const struct chip_profile *profile, enum chip_number index); /* false: its section is absent */
double chip_number_value(const struct chip_profile *profile, enum chip_number index);
const char *chip_choice_key(enum chip_choice index);  /* "l2.organisation" */
const char *chip_choice_list(enum chip_choice index); /* "private|partitioned" */
const char *chip_choice_help(enum chip_choice index);
void chip_choice_text(const struct chip_profile *profile, enum chip_choice index, char *text, size_t capacity); /* the chosen word */
const char *profile_kind_text(enum profile_kind kind);
void chip_profile_rehash(struct chip_profile *profile);

static inline uint32_t chip_unit_count(const struct chip_profile *profile)
{
    return (uint32_t)(profile->package_groups * profile->package_units_per_group);
}

#endif
