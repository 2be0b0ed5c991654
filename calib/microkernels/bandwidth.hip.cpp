/* Bandwidth by footprint (read, write, copy) and by occupancy (waves and workgroups that stream). 16 bytes a lane. */
#include "calib/microkernels/micro.h"

/* The sums go to `sink` only when it is asked for: that is the check, outside the timing. */
__device__ static void give_sum(uint4 a, uint32_t *sink)
{
    if (sink != nullptr) {
        atomicXor(sink, a.x ^ a.y ^ a.z ^ a.w);
    }
}

__global__ void read_sweeps(const uint4 *p, size_t n, int sweeps, uint32_t *sink)
{
    uint4 a{ 0, 0, 0, 0 };
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (int s = 0; s < sweeps; s++) {
        for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += stride) {
            uint4 v = load_past_l1(p + i);
            a.x ^= v.x;
            a.y ^= v.y;
            a.z ^= v.z;
            a.w ^= v.w;
        }
    }
    give_sum(a, sink);
}

__global__ void write_sweeps(uint4 *p, size_t n, int sweeps)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (int s = 0; s < sweeps; s++) {
        for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += stride) {
            p[i] = uint4{ 1, 2, 3, (uint32_t)s };
        }
    }
}

__global__ void copy(const uint4 *p, uint4 *q, size_t n)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += stride) {
        q[i] = p[i];
    }
}

/* Workgroups per unit are limited by the dynamic LDS that the launch asks for. */
__global__ void read_limited(const uint4 *p, size_t n, uint32_t *sink)
{
    extern __shared__ char padding[];
    uint4 a{ 0, 0, 0, 0 };
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += stride) {
        uint4 v = load_past_l1(p + i);
        a.x ^= v.x;
        a.y ^= v.y;
    }
    if (sink != nullptr) {
        padding[threadIdx.x] = 0;
        atomicXor(sink, a.x ^ a.y);
    }
}

__global__ void fill_pattern(uint4 *p, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 0x9E3779B1u;
        p[i] = uint4{ h, h ^ 0x5bd1e995u, h << 1, h >> 1 };
    }
}

static uint32_t pattern_sum(size_t n, bool half)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t h = (uint32_t)i * 0x9E3779B1u;
        sum ^= half ? h ^ h ^ 0x5bd1e995u : h ^ h ^ 0x5bd1e995u ^ h << 1 ^ h >> 1;
    }
    return sum;
}

static void footprint_rows(double mib)
{
    size_t n = (size_t)(mib * 1048576 / 16);
    int grid = micro.units * 8, sweeps = mib < 100 ? (int)std::max(1., 64 / mib) : 1;
    device_array<uint4> buffer(n);
    device_array<uint32_t> sink(1);
    fill_pattern<<<grid, 256>>>(buffer.at, n);
    sink.zero();
    read_sweeps<<<grid, 256>>>(buffer.at, n, 1, sink.at);
    bool right = sink.get()[0] == pattern_sum(n, false);
    struct timing t = timed([&] { read_sweeps<<<grid, 256>>>(buffer.at, n, sweeps, nullptr); });
    row("bandwidth", "read", text("mb=%g;it=%d", mib, sweeps), t, n * 16.0 * sweeps / t.median_us * 1e-6, "TB/s", right);
    if (mib >= 2) {
        t = timed([&] { copy<<<grid, 256>>>(buffer.at, buffer.at + n / 2, n / 2); });
        uint4 first, last;
        CHECK_HIP(hipMemcpy(&first, buffer.at + n / 2, 16, hipMemcpyDeviceToHost));
        CHECK_HIP(hipMemcpy(&last, buffer.at + n - 1, 16, hipMemcpyDeviceToHost));
        right = first.x == 0 && last.x == (uint32_t)(n / 2 - 1) * 0x9E3779B1u;
        row("bandwidth", "copy", text("mb=%g", mib), t, n * 16.0 / t.median_us * 1e-6, "TB/s", right);
    }
    t = timed([&] { write_sweeps<<<grid, 256>>>(buffer.at, n, sweeps); });
    uint4 last;
    CHECK_HIP(hipMemcpy(&last, buffer.at + n - 1, 16, hipMemcpyDeviceToHost));
    row("bandwidth", "write", text("mb=%g;it=%d", mib, sweeps), t, n * 16.0 * sweeps / t.median_us * 1e-6, "TB/s",
        last.y == 2 && last.w == (uint32_t)(sweeps - 1));
}

static void occupancy_rows(void)
{
    size_t n = (4ull << 30) / 16; /* far beyond the caches */
    int lds_max = 0;
    device_array<uint4> buffer(n);
    device_array<uint32_t> sink(1);
#if MICRO_AMD
    lds_max = 64 * 1024;
#else
    CHECK_HIP(hipDeviceGetAttribute(&lds_max, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
#endif
    fill_pattern<<<micro.units * 8, 256>>>(buffer.at, n);
    uint32_t expected = pattern_sum(n, true);
    for (int blocks : { 1, 2, 4, 8, 16 }) {
        for (int threads : { 64, 128, 256, 512 }) {
            if (blocks * threads > 2048) {
                continue;
            }
            size_t lds = std::min<size_t>((size_t)lds_max, (size_t)(200 * 1024 / blocks) & ~(size_t)1023);
            CHECK_HIP(hipFuncSetAttribute((const void *)read_limited, hipFuncAttributeMaxDynamicSharedMemorySize, (int)lds));
            sink.zero();
            read_limited<<<micro.units * blocks, threads, lds>>>(buffer.at, n, sink.at);
            bool right = sink.get()[0] == expected;
            struct timing t = timed([&] { read_limited<<<micro.units * blocks, threads, lds>>>(buffer.at, n, nullptr); });
            row("occupancy", "read", text("blocks_per_sm=%d;threads=%d", blocks, threads), t,
                n * 16.0 / t.median_us * 1e-6, "TB/s", right);
        }
    }
    for (double share : { 0.0, 0.015, 0.03, 0.06, 0.125, 0.25, 0.5, 0.75, 1.0 }) {
        int groups = std::max(1, (int)(micro.units * share + 0.5));
        size_t part = std::min(n, n * (size_t)groups / 132); /* 31 MiB each, on any machine */
        struct timing t = timed([&] { read_sweeps<<<groups, 1024>>>(buffer.at, part, 1, nullptr); });
        row("occupancy", "read_ctas", text("ctas=%d;threads=1024", groups), t,
            part * 16.0 / t.median_us * 1e-6, "TB/s", true);
    }
}

int main(int argc, char **argv)
{
    micro_begin(argc, argv);
    for (double mib : { 0.5, 2., 8., 16., 24., 32., 40., 48., 64., 96., 128., 192., 256., 384., 512., 2048., 8192. }) {
        footprint_rows(mib);
    }
    occupancy_rows();
    return micro_end();
}
