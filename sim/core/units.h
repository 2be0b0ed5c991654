/* Time, cycles and rates with the unit in the type or the name: a duration where cycles were meant does not compile.
 * Everything is an integer and rounds once, on the whole, in the direction that the name says. */
#ifndef SIM_CORE_UNITS_H
#define SIM_CORE_UNITS_H
#include "sim/core/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t ps;
} sim_time; /* instant or duration, picoseconds; 2^64 ps are 213 days */
typedef struct {
    uint64_t n;
} sim_cycles; /* cycles of ONE clock domain */

#define UNITS_PS_PER_US UINT64_C(1000000)
#define UNITS_BYTES_PER_KIB 1024.0
#define UNITS_BYTES_PER_MIB 1048576.0
#define UNITS_BYTES_PER_GIB 1073741824.0

static inline bool time_before(sim_time a, sim_time b)
{
    return a.ps < b.ps;
}

static inline sim_time time_max(sim_time a, sim_time b)
{
    return a.ps < b.ps ? b : a;
}

/* a + b; asserted not to wrap. */
static inline sim_time time_add(sim_time a, sim_time b)
{
    sim_time sum;
    SIM_ASSERT(!__builtin_add_overflow(a.ps, b.ps, &sum.ps), "%llu + %llu ps", (unsigned long long)a.ps,
               (unsigned long long)b.ps);
    return sum;
}

/* later - earlier; asserts later >= earlier. */
static inline sim_time time_since(sim_time later, sim_time earlier)
{
    SIM_ASSERT(later.ps >= earlier.ps, "%llu is before %llu ps", (unsigned long long)later.ps,
               (unsigned long long)earlier.ps);
    return (sim_time){ later.ps - earlier.ps };
}

/* Nearest picosecond, halves up. Requires 0 <= us < 2^63 ps. */
static inline sim_time time_of_us(double us)
{
    SIM_ASSERT(us >= 0 && us < 9.2e12, "%g us", us);
    return (sim_time){ (uint64_t)(us * 1e6 + 0.5) };
}

static inline double time_to_us(sim_time time)
{
    return (double)time.ps * 1e-6;
}

/* Start of cycle `c`, floor(c * 10^6 / freq_mhz) ps: from the index, not by adding a rounded period, for 1700 MHz is
 * 588.235... ps and must not drift. Requires freq_mhz > 0 and a result below 2^64. */
static inline sim_time clock_cycle_start(sim_cycles c, uint32_t freq_mhz)
{
    SIM_ASSERT(freq_mhz > 0, "cycle %llu of a stopped clock", (unsigned long long)c.n);
    unsigned __int128 ps = (unsigned __int128)c.n * 1000000u / freq_mhz;
    SIM_ASSERT(ps <= UINT64_MAX, "cycle %llu at %u MHz", (unsigned long long)c.n, freq_mhz);
    return (sim_time){ (uint64_t)ps };
}

/* First cycle that starts at or after `time`: a signal that arrives inside a cycle is seen at the next edge. */
static inline sim_cycles clock_cycle_at_ceil(sim_time time, uint32_t freq_mhz)
{
    SIM_ASSERT(freq_mhz > 0, "%llu ps of a stopped clock", (unsigned long long)time.ps);
    unsigned __int128 c = ((unsigned __int128)time.ps * freq_mhz + 999999u) / 1000000u;
    SIM_ASSERT(c <= UINT64_MAX, "%llu ps at %u MHz", (unsigned long long)time.ps, freq_mhz);
    return (sim_cycles){ (uint64_t)c };
}

/* Time on a wire, ceil(bytes / rate) ps, rounded once on the whole: 64 B at 900 GB/s are 71.1 ps, so 72. Rounded up: the
 * last bit is not there before. 1 MB/s is 10^6 B/s. Requires mb_per_s > 0. */
static inline sim_time wire_time(uint64_t bytes, uint64_t mb_per_s)
{
    SIM_ASSERT(mb_per_s > 0, "%llu bytes over a dead wire", (unsigned long long)bytes);
    unsigned __int128 ps = ((unsigned __int128)bytes * 1000000u + mb_per_s - 1) / mb_per_s;
    SIM_ASSERT(ps <= UINT64_MAX, "%llu bytes at %llu MB/s", (unsigned long long)bytes,
               (unsigned long long)mb_per_s);
    return (sim_time){ (uint64_t)ps };
}

#endif
