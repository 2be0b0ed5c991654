/* Device atomics: types, spread over addresses, hot line, scopes, returns, compare-and-swap loops, ordering, and how many units
 * (on chips with several XCDs: one XCD or all) take part. */
#include "calib/microkernels/micro.h"

template <class T> __device__ static inline void add(T *p);
template <> __device__ inline void add(uint32_t *p)
{
    atomicAdd(p, 1u);
}
template <> __device__ inline void add(unsigned long long *p)
{
    atomicAdd(p, 1ull);
}
template <> __device__ inline void add(float *p)
{
    atomicAdd(p, 1.0f);
}
template <> __device__ inline void add(__half2 *p)
{
#if MICRO_AMD
    /* One packed instruction where the compiler offers it, a loop on the word elsewhere. */
    uint32_t *word = (uint32_t *)p, seen = *word, wanted;
    do {
        wanted = seen;
        __half2 sum = __hadd2(*(__half2 *)&wanted, __floats2half2_rn(1.f, 1.f));
        seen = atomicCAS(word, wanted, *(uint32_t *)&sum);
    } while (seen != wanted);
#else
    atomicAdd(p, __floats2half2_rn(1.f, 1.f));
#endif
}

__device__ static inline uint32_t draw(uint32_t id, uint32_t trip)
{
    uint32_t h = id * 0x9E3779B1u + trip * 0x85EBCA77u;
    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    return h ^ h >> 12;
}

/* mode 0: every lane draws an address; 1: a wave shares one; 2: neighbouring lanes, the block drawn by the wave. A wave is 32
 * lanes here on every machine, so that the addresses are the same. every: only workgroups divisible by it take part. */
template <class T> __global__ void spread(T *p, uint32_t addresses, int mode, int per_lane, int stride, int every)
{
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, wave = thread >> 5, lane = thread & 31;
    if (every > 1 && blockIdx.x % every != 0) {
        return;
    }
    for (int k = 0; k < per_lane; k++) {
        uint32_t h = draw(mode ? wave : thread, (uint32_t)k);
        uint32_t blocks = addresses / 32 ? addresses / 32 : 1;
        uint32_t at = mode == 2 ? (h % blocks * 32 + lane) % addresses : h % addresses;
        add(p + (size_t)at * stride);
    }
}

__global__ void return_chain(uint32_t *p, int steps, uint32_t *out)
{
    uint32_t a = 0;
    for (int k = 0; k < steps; k++) {
        a += atomicAdd(p, a & 1);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a;
}

enum scope { SCOPE_WORKGROUP, SCOPE_DEVICE, SCOPE_SYSTEM };
enum order { ORDER_RELAXED, ORDER_ACQ_REL };

/* ordered: a fence before and after, which on private L2s writes back and invalidates. */
__global__ void scoped(uint32_t *p, uint32_t addresses, int per_lane, int scope, int order)
{
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < per_lane; k++) {
        uint32_t *at = p + draw(thread, (uint32_t)k) % addresses;
        if (order == ORDER_ACQ_REL) {
            scope == SCOPE_SYSTEM ? __threadfence_system() : __threadfence();
        }
        if (scope == SCOPE_SYSTEM) {
            atomicAdd_system(at, 1u);
        } else if (scope == SCOPE_DEVICE) {
            atomicAdd(at, 1u);
        } else {
#if MICRO_AMD
            __hip_atomic_fetch_add(at, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
#else
            atomicAdd_block(at, 1u);
#endif
        }
        if (order == ORDER_ACQ_REL) {
            scope == SCOPE_SYSTEM ? __threadfence_system() : __threadfence();
        }
    }
}

/* An fp32 addition by compare-and-swap, as where the type has no instruction. */
__global__ void cas_add(float *p, uint32_t addresses, int per_lane)
{
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < per_lane; k++) {
        uint32_t *word = (uint32_t *)(p + draw(thread, (uint32_t)k) % addresses), seen = *word, wanted;
        do {
            wanted = seen;
            seen = atomicCAS(word, wanted, __float_as_uint(__uint_as_float(wanted) + 1.0f));
        } while (seen != wanted);
    }
}

/* ---- checks: the sum over all addresses is the number of operations (and warm-up calls are part of it) */

template <class T> static double total(const device_array<T> &target, size_t count);
template <> double total(const device_array<uint32_t> &target, size_t count)
{
    double sum = 0;
    std::vector<uint32_t> host(count);
    CHECK_HIP(hipMemcpy(host.data(), target.at, count * 4, hipMemcpyDeviceToHost));
    for (uint32_t x : host) {
        sum += x;
    }
    return sum;
}
template <> double total(const device_array<unsigned long long> &target, size_t count)
{
    double sum = 0;
    std::vector<unsigned long long> host(count);
    CHECK_HIP(hipMemcpy(host.data(), target.at, count * 8, hipMemcpyDeviceToHost));
    for (unsigned long long x : host) {
        sum += (double)x;
    }
    return sum;
}
template <> double total(const device_array<float> &target, size_t count)
{
    double sum = 0;
    std::vector<float> host(count);
    CHECK_HIP(hipMemcpy(host.data(), target.at, count * 4, hipMemcpyDeviceToHost));
    for (float x : host) {
        sum += x;
    }
    return sum;
}
template <> double total(const device_array<__half2> &target, size_t count)
{
    double sum = 0;
    std::vector<__half2> host(count);
    CHECK_HIP(hipMemcpy(host.data(), target.at, count * 4, hipMemcpyDeviceToHost));
    for (const __half2 &x : host) {
        sum += __half2float(__low2half(x));
    }
    return sum;
}

/* Sums in fp32 are exact up to 2^24 an address, in fp16 up to 2^11; beyond, only that something was added is checked. */
static bool adds_up(double sum, double operations, double exact_to, double addresses)
{
    return operations / addresses < exact_to ? sum == operations : sum > 0;
}

template <class T> static void spread_row(device_array<T> &target, const char *kernel, uint32_t addresses, int mode, int stride,
                                          int per_lane_many, double exact_to)
{
    int grid = micro.units * 8, per_lane = addresses <= 8 ? 8 : per_lane_many;
    size_t reach = (size_t)addresses * (size_t)stride;
    if (reach > target.count) {
        return;
    }
    double operations = (double)grid * 256 * per_lane;
    CHECK_HIP(hipMemset(target.at, 0, reach * sizeof(T)));
    spread<T><<<grid, 256>>>(target.at, addresses, mode, per_lane, stride, 1);
    double sum = reach <= (1 << 24) ? total(target, reach) : operations;
    bool right = adds_up(sum, operations, exact_to, mode == 2 ? std::min<double>(addresses, 32) : 1);
    struct timing t = timed([&] { spread<T><<<grid, 256>>>(target.at, addresses, mode, per_lane, stride, 1); });
    row("atomic", kernel, text("mode=%d;naddr=%u;stride=%d;ops=%.0f", mode, addresses, (int)(stride * sizeof(T)), operations), t,
        operations / t.median_us * 1e-3, "Gop/s", right, text("per_lane=%d", per_lane));
}

static void spread_rows(void)
{
    const size_t most = 1ull << 28;
    device_array<uint32_t> u32(most);
    device_array<unsigned long long> u64(most / 2);
    device_array<float> f32(most);
    device_array<__half2> f16x2(most);
    for (int mode = 0; mode < 3; mode++) {
        for (uint32_t n : { 1u, 2u, 8u, 32u, 64u, 256u, 1024u, 4096u, 65536u, 1048576u, 16777216u, 268435456u }) {
            spread_row(u32, "add_u32", n, mode, 1, 32, 4e9);
            spread_row(u64, "add_u64", n, mode, 1, 32, 1e15);
            spread_row(f32, "add_f32", n, mode, 1, 32, 16777216);
            spread_row(f16x2, "add_f16x2", n, mode, 1, 32, 2048);
            if (n <= 65536) {
                spread_row(u32, "add_u32", n, mode, 64, 32, 4e9);
            }
        }
    }
}

/* One workgroup in `every` at work: on a chip that deals workgroups over 8 XCDs, every = 8 is one XCD. */
static void share_rows(device_array<uint32_t> &target)
{
    for (uint32_t addresses : { 1u, 4096u, 65536u }) {
        for (int every : { 1, 2, 4, 8 }) {
            int grid = micro.units * 8, per_lane = addresses == 1 ? 8 : 32;
            double operations = (double)((grid + every - 1) / every) * 256 * per_lane;
            target.zero();
            spread<uint32_t><<<grid, 256>>>(target.at, addresses, 0, per_lane, 1, every);
            bool right = total(target, addresses) == operations;
            struct timing t = timed([&] { spread<uint32_t><<<grid, 256>>>(target.at, addresses, 0, per_lane, 1, every); });
            row("atomic", "add_u32_share", text("naddr=%u;every=%d;ops=%.0f", addresses, every, operations), t,
                operations / t.median_us * 1e-3, "Gop/s", right);
        }
    }
}

static void one_address_rows(device_array<uint32_t> &target)
{
    device_array<uint32_t> out((size_t)micro.units * 8 * 1024);
    for (int grid : { 1, 8, micro.units / 2, micro.units }) {
        for (int block : { 1, 32, 256 }) {
            double operations = (double)grid * block * 64;
            target.zero();
            spread<uint32_t><<<grid, block>>>(target.at, 1, 0, 64, 1, 1);
            bool right = total(target, 1) == operations;
            struct timing t = timed([&] { spread<uint32_t><<<grid, block>>>(target.at, 1, 0, 64, 1, 1); });
            row("atomic", "same_addr_scale", text("grid=%d;block=%d", grid, block), t, operations / t.median_us * 1e-3, "Gop/s", right);
            if (block <= 32) {
                target.zero();
                return_chain<<<grid, block>>>(target.at, 64, out.at);
                right = total(target, 1) == 0 && out.get()[0] == 0; /* a stays 0, so nothing is added */
                t = timed([&] { return_chain<<<grid, block>>>(target.at, 64, out.at); });
                row("atomic", "same_addr_return", text("grid=%d;block=%d", grid, block), t, t.median_us * 1e3 / 64, "ns/op-chain",
                    right);
            }
        }
    }
}

static void scope_rows(device_array<uint32_t> &target)
{
    static const char *const scopes[] = { "workgroup", "device", "system" }, *const orders[] = { "relaxed", "acq_rel" };
    int grid = micro.units * 2, per_lane = 8;
    double operations = (double)grid * 256 * per_lane;
    for (uint32_t addresses : { 64u, 65536u }) {
        for (int scope = SCOPE_WORKGROUP; scope <= SCOPE_SYSTEM; scope++) {
            for (int order = ORDER_RELAXED; order <= ORDER_ACQ_REL; order++) {
                target.zero();
                scoped<<<grid, 256>>>(target.at, addresses, per_lane, scope, order);
                double sum = total(target, addresses);
                bool right = scope == SCOPE_WORKGROUP ? sum > 0 : sum == operations; /* shared between workgroups by this grid */
                struct timing t = timed([&] { scoped<<<grid, 256>>>(target.at, addresses, per_lane, scope, order); });
                row("atomic", "scoped_u32",
                    text("naddr=%u;scope=%s;order=%s;ops=%.0f", addresses, scopes[scope], orders[order], operations), t,
                    operations / t.median_us * 1e-3, "Gop/s", right);
            }
        }
    }
}

static void cas_rows(void)
{
    device_array<float> target(1 << 20);
    int grid = micro.units * 2, per_lane = 4;
    double operations = (double)grid * 256 * per_lane;
    for (uint32_t addresses : { 64u, 1024u, 65536u, 1048576u }) {
        target.zero();
        cas_add<<<grid, 256>>>(target.at, addresses, per_lane);
        bool right = total(target, addresses) == operations;
        struct timing t = timed([&] { cas_add<<<grid, 256>>>(target.at, addresses, per_lane); });
        row("atomic", "cas_f32", text("naddr=%u;ops=%.0f", addresses, operations), t, operations / t.median_us * 1e-3, "Gop/s", right);
    }
}

int main(int argc, char **argv)
{
    micro_begin(argc, argv);
    spread_rows();
    device_array<uint32_t> target(1 << 20);
    share_rows(target);
    one_address_rows(target);
    scope_rows(target);
    cas_rows();
    return micro_end();
}
