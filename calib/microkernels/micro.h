/* What the microkernels share: the device, timing, checks, and one JSON line a row on standard output:
 *   {"schema": "reckon.micro/1", "suite": .., "kernel": .., "params": "k=v;..", "time_us": median, "value": .., "unit": ..,
 *    "low_us": .., "high_us": .., "repeats": n, "check": "ok", "device": .., "driver": .., "clock_mhz": .., "seed": n, ..}
 * Suites, kernels and parameters are those that `reckon kernel` knows wherever it has a program for them. A time is that of one
 * call between two device events, the launch included. Host code is C++ because the compilers for both vendors are. */
#ifndef CALIB_MICROKERNELS_MICRO_H
#define CALIB_MICROKERNELS_MICRO_H
#if defined(__HIP_PLATFORM_AMD__) || defined(__HIPCC__)
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#define MICRO_AMD 1
#else
#include "calib/microkernels/hip_compat.h"
#define MICRO_AMD 0
#endif
#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

#define MICRO_LIBRARY "reckon_micro" /* names the harness of these rows: devices/harness */

#define CHECK_HIP(call)                                                                                     \
    do {                                                                                                    \
        hipError_t status_ = (call);                                                                        \
        if (status_ != hipSuccess) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(status_));      \
            exit(2);                                                                                        \
        }                                                                                                   \
    } while (0)

struct micro {
    char device[256];
    char driver[64];
    int units, lanes, clock_mhz;
    size_t memory_bytes;
    uint64_t seed;
    int repeats;
    bool failed; /* some check */
};

static struct micro micro;

struct timing {
    double median_us, low_us, high_us;
    int repeats;
};

/* ---- set-up */

static inline void micro_driver_version(char *text, size_t capacity)
{
    int driver = 0, runtime = 0;
    CHECK_HIP(hipDriverGetVersion(&driver));
    CHECK_HIP(hipRuntimeGetVersion(&runtime));
    snprintf(text, capacity, "%s driver %d, runtime %d", MICRO_AMD ? "hip" : "cuda", driver, runtime);
}

/* Options: --seed N, --repeats N, --device N. Exits 2 without a device. */
static inline void micro_begin(int argc, char **argv)
{
    int count = 0, device = 0, clock_khz = 0;
    micro.seed = 1;
    micro.repeats = 15;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            micro.seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--repeats") == 0) {
            micro.repeats = std::max(3, atoi(argv[i + 1]));
        } else if (strcmp(argv[i], "--device") == 0) {
            device = atoi(argv[i + 1]);
        } else {
            fprintf(stderr, "%s: unknown option '%s' (valid: --seed N, --repeats N, --device N)\n", argv[0], argv[i]);
            exit(1);
        }
    }
    if (hipGetDeviceCount(&count) != hipSuccess || count == 0) {
        fprintf(stderr, "%s: no GPU on this machine\n", argv[0]);
        exit(2);
    }
    hipDeviceProp_t properties;
    CHECK_HIP(hipSetDevice(device));
    CHECK_HIP(hipGetDeviceProperties(&properties, device));
    CHECK_HIP(hipDeviceGetAttribute(&clock_khz, hipDeviceAttributeClockRate, device));
    snprintf(micro.device, sizeof micro.device, "%s", properties.name);
    micro_driver_version(micro.driver, sizeof micro.driver);
    micro.units = properties.multiProcessorCount;
    micro.lanes = properties.warpSize;
    micro.memory_bytes = properties.totalGlobalMem;
    micro.clock_mhz = clock_khz / 1000;
}

static inline int micro_end(void)
{
    CHECK_HIP(hipDeviceSynchronize());
    return micro.failed ? 3 : 0;
}

static inline std::string text(const char *format, ...)
{
    char out[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out, sizeof out, format, arguments);
    va_end(arguments);
    return out;
}

/* ---- random numbers: splitmix64, so that a seed gives the same indices everywhere */

static inline uint64_t next_random(uint64_t &state)
{
    state += 0x9E3779B97f4A7C15ull;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* ---- device memory that frees itself */

template <class T> struct device_array {
    T *at = nullptr;
    size_t count;
    explicit device_array(size_t n) : count(n) { CHECK_HIP(hipMalloc((void **)&at, std::max<size_t>(n, 1) * sizeof(T))); }
    explicit device_array(const std::vector<T> &host) : device_array(host.size()) { put(host); }
    device_array(const device_array &) = delete;
    ~device_array() { (void)hipFree(at); }
    void put(const std::vector<T> &host) { CHECK_HIP(hipMemcpy(at, host.data(), host.size() * sizeof(T), hipMemcpyHostToDevice)); }
    void zero() { CHECK_HIP(hipMemset(at, 0, count * sizeof(T))); }
    std::vector<T> get() const
    {
        std::vector<T> host(count);
        CHECK_HIP(hipMemcpy(host.data(), at, count * sizeof(T), hipMemcpyDeviceToHost));
        return host;
    }
};

/* ---- timing */

static inline struct timing summary(std::vector<double> times)
{
    std::sort(times.begin(), times.end());
    size_t n = times.size();
    return { n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2, times[n / 10], times[n - 1 - n / 10], (int)n };
}

/* Time of call() between two events, after two calls that do not count; before() runs ahead of the first event each time. */
template <class Before, class Call> static struct timing timed(Before before, Call call)
{
    hipEvent_t start, stop;
    std::vector<double> times;
    CHECK_HIP(hipEventCreate(&start));
    CHECK_HIP(hipEventCreate(&stop));
    for (int i = -2; i < micro.repeats; i++) {
        float ms = 0;
        before();
        CHECK_HIP(hipEventRecord(start, 0));
        call();
        CHECK_HIP(hipEventRecord(stop, 0));
        CHECK_HIP(hipEventSynchronize(stop));
        CHECK_HIP(hipGetLastError());
        CHECK_HIP(hipEventElapsedTime(&ms, start, stop));
        if (i >= 0) {
            times.push_back(ms * 1e3);
        }
    }
    CHECK_HIP(hipEventDestroy(start));
    CHECK_HIP(hipEventDestroy(stop));
    return summary(times);
}

template <class Call> static struct timing timed(Call call)
{
    return timed([] {}, call);
}

/* ---- rows */

static inline void put_row(const char *suite, const char *kernel, const std::string &params, const struct timing &time,
                           double value, const char *unit, const std::string &check, const std::string &observed)
{
    printf("{\"schema\": \"reckon.micro/1\", \"suite\": \"%s\", \"kernel\": \"%s\", \"params\": \"%s%slibrary=" MICRO_LIBRARY "\", "
           "\"time_us\": %.4f, \"value\": %.6g, \"unit\": \"%s\", \"low_us\": %.4f, \"high_us\": %.4f, \"repeats\": %d, "
           "\"check\": \"%s\", \"observed\": \"%s\", \"device\": \"%s\", \"driver\": \"%s\", \"clock_mhz\": %d, \"seed\": %llu}\n",
           suite, kernel, params.c_str(), params.empty() ? "" : ";", time.median_us, value, unit, time.low_us, time.high_us,
           time.repeats, check.c_str(), observed.c_str(), micro.device, micro.driver, micro.clock_mhz,
           (unsigned long long)micro.seed);
    fflush(stdout);
}

/* A row whose own check failed is printed as such, which no fit takes. */
static inline void row(const char *suite, const char *kernel, const std::string &params, const struct timing &time, double value,
                       const char *unit, bool right, const std::string &observed = "")
{
    micro.failed = micro.failed || !right;
    put_row(suite, kernel, params, time, value, unit, right ? "ok" : "failed", observed);
    if (!right) {
        fprintf(stderr, "%s/%s %s: the result is wrong\n", suite, kernel, params.c_str());
    }
}

/* Only the value counts: no time. */
static inline void row_value(const char *suite, const char *kernel, const std::string &params, double value, const char *unit,
                             bool right, const std::string &observed = "")
{
    row(suite, kernel, params, { 0, 0, 0, micro.repeats }, value, unit, right, observed);
}

static inline void skipped(const char *suite, const char *why)
{
    fprintf(stderr, "%s: not measured: %s\n", suite, why);
}

/* ---- device helpers that differ between the vendors */

#if MICRO_AMD
__device__ static inline uint32_t load_past_l1(const uint32_t *p)
{
    return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
typedef uint32_t micro_u32x4 __attribute__((ext_vector_type(4)));
__device__ static inline uint4 load_past_l1(const uint4 *p)
{
    micro_u32x4 v = __builtin_nontemporal_load((const micro_u32x4 *)p);
    return uint4{ v.x, v.y, v.z, v.w };
}
__device__ static inline float lane_xor(float v, int mask)
{
    return __shfl_xor(v, mask);
}
/* Compute unit and XCD that run this wave: the hardware's own numbers. */
__device__ static inline uint32_t unit_index(void)
{
    uint32_t id = 0, xcc = 0;
    asm volatile("s_getreg_b32 %0, hwreg(HW_REG_HW_ID)" : "=s"(id));
#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
    asm volatile("s_getreg_b32 %0, hwreg(20, 0, 4)" : "=s"(xcc)); /* XCC_ID */
#endif
    return xcc << 8 | (id >> 8 & 0xff); /* CU, SH and SE of HW_ID */
}
#else
__device__ static inline uint32_t load_past_l1(const uint32_t *p)
{
    return __ldcg(p);
}
__device__ static inline uint4 load_past_l1(const uint4 *p)
{
    return __ldcg(p);
}
__device__ static inline float lane_xor(float v, int mask)
{
    return __shfl_xor_sync(~0u, v, mask);
}
__device__ static inline uint32_t unit_index(void)
{
    uint32_t id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}
#endif

#endif
