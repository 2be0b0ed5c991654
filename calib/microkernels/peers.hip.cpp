/* Between the GPUs of one host: load latency and bandwidth over the link from a kernel, copy engines, and an all-to-all by
 * kernels that read from every peer. One GPU: nothing to measure. */
#include "calib/microkernels/micro.h"

struct chase_result {
    long long cycles;
    uint32_t at;
};

__global__ void chase(const uint32_t *p, int steps, struct chase_result *result)
{
    uint32_t i = 0;
    long long begin = clock64();
    for (int k = 0; k < steps; k++) {
        i = load_past_l1(p + i);
    }
    result->cycles = clock64() - begin;
    result->at = i;
}

__global__ void pull(const uint4 *from, uint4 *to, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        to[i] = from[i];
    }
}

static void latency_row(int peer)
{
    const size_t lines = 1 << 16;
    const int steps = 4096;
    std::vector<uint32_t> words(lines * 32, 0);
    for (size_t i = 0; i < lines; i++) {
        words[i * 32] = (uint32_t)((i + 12345) % lines) * 32; /* 12345 is odd, so this visits every line */
    }
    CHECK_HIP(hipSetDevice(peer));
    device_array<uint32_t> remote(words);
    CHECK_HIP(hipDeviceSynchronize());
    CHECK_HIP(hipSetDevice(0));
    device_array<struct chase_result> result(1);
    chase<<<1, 1>>>(remote.at, steps, result.at);
    struct chase_result got = result.get()[0];
    row_value("peer", "chase", text("peer=%d;kb=%zu", peer, lines * 128 / 1024), (double)got.cycles / steps, "cycles",
              got.at == (uint32_t)((uint64_t)steps * 12345 % lines) * 32);
}

static void bandwidth_rows(int peer)
{
    for (size_t bytes : { (size_t)1 << 20, (size_t)16 << 20, (size_t)256 << 20 }) {
        size_t n = bytes / 16;
        double mib = (double)bytes / 1048576;
        CHECK_HIP(hipSetDevice(peer));
        device_array<uint4> remote(n);
        CHECK_HIP(hipMemset(remote.at, 7, bytes));
        CHECK_HIP(hipDeviceSynchronize());
        CHECK_HIP(hipSetDevice(0));
        device_array<uint4> local(n);
        local.zero();
        struct timing t = timed([&] { pull<<<micro.units * 4, 256>>>(remote.at, local.at, n); });
        bool right = local.get()[n - 1].w == 0x07070707u;
        row("peer", "kernel_read", text("peer=%d;mb=%g", peer, mib), t, (double)bytes / t.median_us * 1e-3, "GB/s", right);
        t = timed([&] { pull<<<micro.units * 4, 256>>>(local.at, remote.at, n); });
        row("peer", "kernel_write", text("peer=%d;mb=%g", peer, mib), t, (double)bytes / t.median_us * 1e-3, "GB/s", right);
        t = timed([&] { CHECK_HIP(hipMemcpyPeerAsync(local.at, 0, remote.at, peer, bytes, 0)); });
        row("peer", "copy_engine", text("peer=%d;mb=%g", peer, mib), t, (double)bytes / t.median_us * 1e-3, "GB/s", right);
    }
}

/* Every GPU pulls its part from every other at once; the time is that of the slowest, by the host's clock over 10 rounds. */
static void all_to_all_row(int gpus, size_t bytes)
{
    size_t n = bytes / 16;
    std::vector<uint4 *> parts((size_t)gpus), taken((size_t)gpus);
    std::vector<double> times;
    for (int g = 0; g < gpus; g++) {
        CHECK_HIP(hipSetDevice(g));
        CHECK_HIP(hipMalloc((void **)&parts[(size_t)g], bytes));
        CHECK_HIP(hipMalloc((void **)&taken[(size_t)g], bytes * (size_t)gpus));
        CHECK_HIP(hipMemset(parts[(size_t)g], g + 1, bytes));
        CHECK_HIP(hipDeviceSynchronize());
    }
    for (int r = -2; r < micro.repeats; r++) {
        hipEvent_t start, stop;
        float ms = 0, worst = 0;
        std::vector<hipEvent_t> starts, stops;
        for (int g = 0; g < gpus; g++) {
            CHECK_HIP(hipSetDevice(g));
            CHECK_HIP(hipEventCreate(&start));
            CHECK_HIP(hipEventCreate(&stop));
            CHECK_HIP(hipEventRecord(start, 0));
            for (int k = 1; k < gpus; k++) {
                int from = (g + k) % gpus;
                pull<<<micro.units, 256>>>(parts[(size_t)from], taken[(size_t)g] + n * (size_t)from, n);
            }
            CHECK_HIP(hipEventRecord(stop, 0));
            starts.push_back(start);
            stops.push_back(stop);
        }
        for (int g = 0; g < gpus; g++) {
            CHECK_HIP(hipSetDevice(g));
            CHECK_HIP(hipEventSynchronize(stops[(size_t)g]));
            CHECK_HIP(hipEventElapsedTime(&ms, starts[(size_t)g], stops[(size_t)g]));
            worst = std::max(worst, ms);
            CHECK_HIP(hipEventDestroy(starts[(size_t)g]));
            CHECK_HIP(hipEventDestroy(stops[(size_t)g]));
        }
        if (r >= 0) {
            times.push_back(worst * 1e3);
        }
    }
    uint4 got;
    CHECK_HIP(hipSetDevice(0));
    CHECK_HIP(hipMemcpy(&got, taken[0] + n * (size_t)(gpus - 1), 16, hipMemcpyDeviceToHost));
    struct timing t = summary(times);
    row("peer", "all_to_all", text("gpus=%d;bytes_per_pair=%zu", gpus, bytes), t, (double)bytes * (gpus - 1) / t.median_us * 1e-3, "GB/s",
        got.x == 0x01010101u * (uint32_t)gpus);
    for (int g = 0; g < gpus; g++) {
        CHECK_HIP(hipSetDevice(g));
        CHECK_HIP(hipFree(parts[(size_t)g]));
        CHECK_HIP(hipFree(taken[(size_t)g]));
    }
    CHECK_HIP(hipSetDevice(0));
}

int main(int argc, char **argv)
{
    int gpus = 0;
    micro_begin(argc, argv);
    CHECK_HIP(hipGetDeviceCount(&gpus));
    if (gpus < 2) {
        skipped("peer", "one GPU on this machine");
        return micro_end();
    }
    for (int a = 0; a < gpus; a++) {
        CHECK_HIP(hipSetDevice(a));
        for (int b = 0; b < gpus; b++) {
            int can = 0;
            if (a != b) {
                CHECK_HIP(hipDeviceCanAccessPeer(&can, a, b));
                if (!can || (hipDeviceEnablePeerAccess(b, 0) != hipSuccess && (hipGetLastError(), true))) {
                    skipped("peer", "the GPUs have no access to each other");
                    return micro_end();
                }
            }
        }
    }
    for (int peer = 1; peer < gpus; peer++) {
        latency_row(peer);
        bandwidth_rows(peer);
    }
    for (size_t bytes : { (size_t)1 << 16, (size_t)1 << 20, (size_t)16 << 20, (size_t)128 << 20 }) {
        all_to_all_row(gpus, bytes);
    }
    return micro_end();
}
