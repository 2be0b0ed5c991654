/* LDS (shared memory): bandwidth by conflict degree, load latency, and atomics. */
#include "calib/microkernels/micro.h"

#define WORDS 4096

__global__ void lds_atomics(uint32_t *out, uint32_t addresses, int per_lane)
{
    __shared__ uint32_t words[WORDS];
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x) {
        words[i] = 0;
    }
    __syncthreads();
    for (int k = 0; k < per_lane; k++) {
        uint32_t h = threadIdx.x * 0x9E3779B1u + k * 0x85EBCA77u;
        h ^= h >> 15;
        atomicAdd(&words[h % addresses], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t sum = 0;
        for (uint32_t i = 0; out != nullptr && i < addresses; i++) {
            sum += words[i];
        }
        if (out != nullptr) {
            out[blockIdx.x] = sum;
        }
    }
}

/* Lanes of a wave read words `step` apart: step 1 has no conflicts, step 2 two lanes a bank, and so on. */
__global__ void lds_reads(uint32_t *out, int step, int trips)
{
    __shared__ uint32_t words[WORDS];
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x) {
        words[i] = (uint32_t)i;
    }
    __syncthreads();
    uint32_t at = threadIdx.x * step % WORDS, sum = 0;
    for (int k = 0; k < trips; k++) {
        sum += words[(at + k * 32) % WORDS];
    }
    if (sum == 0x7fffffff || out[0] == 1) {
        out[1 + threadIdx.x] = sum;
    }
}

__global__ void lds_chase(uint32_t *out, int steps)
{
    __shared__ uint32_t words[WORDS];
    for (int i = 0; i < WORDS; i++) {
        words[i] = (uint32_t)(i * 5 + 1) % WORDS;
    }
    uint32_t i = 0;
    long long begin = clock64();
    for (int k = 0; k < steps; k++) {
        i = words[i];
    }
    out[0] = (uint32_t)(clock64() - begin);
    out[1] = i;
}

int main(int argc, char **argv)
{
    micro_begin(argc, argv);
    device_array<uint32_t> out((size_t)micro.units * 16 + 2048);
    for (uint32_t addresses : { 1u, 2u, 8u, 32u, 256u, 4096u }) {
        int grid = micro.units * 4, per_lane = 256;
        double operations = (double)grid * 512 * per_lane;
        lds_atomics<<<grid, 512>>>(out.at, addresses, per_lane);
        std::vector<uint32_t> sums = out.get();
        bool right = sums[0] == 512u * 256u && sums[(size_t)grid - 1] == 512u * 256u;
        struct timing t = timed([&] { lds_atomics<<<grid, 512>>>(nullptr, addresses, per_lane); });
        row("atomic", "shared_u32", text("naddr=%u", addresses), t, operations / t.median_us * 1e-3, "Gop/s", right);
    }
    for (int step : { 1, 2, 4, 8, 16, 32 }) {
        int grid = micro.units * 4, trips = 4096;
        uint32_t expected = 0;
        std::vector<uint32_t> flag(out.count, 0);
        flag[0] = 1;
        out.put(flag);
        lds_reads<<<1, 512>>>(out.at, step, trips);
        for (int k = 0; k < trips; k++) {
            expected += (uint32_t)((3 * step % WORDS + k * 32) % WORDS);
        }
        bool right = out.get()[1 + 3] == expected;
        out.zero();
        struct timing t = timed([&] { lds_reads<<<grid, 512>>>(out.at, step, trips); });
        row("lds", "read", text("step=%d;trips=%d", step, trips), t, (double)grid * 512 * trips * 4 / t.median_us * 1e-6, "TB/s", right);
    }
    int steps = 4096;
    lds_chase<<<1, 1>>>(out.at, steps);
    lds_chase<<<1, 1>>>(out.at, steps);
    std::vector<uint32_t> got = out.get();
    uint32_t at = 0;
    for (int k = 0; k < steps; k++) {
        at = (at * 5 + 1) % WORDS;
    }
    row_value("lds", "chase", text("steps=%d", steps), (double)got[0] / steps, "cycles", got[1] == at);
    return micro_end();
}
