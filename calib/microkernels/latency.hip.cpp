/* Load latency at every level, TLB included, by pointer chases; and the latency of each unit to lines of every slice, which
 * shows near and far parts of the last-level cache and the XCD or die a unit sits on. */
#include "calib/microkernels/micro.h"

#define LINE_BYTES 128
#define LINE_WORDS (LINE_BYTES / 4)

struct chase_result {
    long long cycles;
    uint32_t at;
};

__global__ void chase_past_l1(const uint32_t *p, uint32_t start, int steps, struct chase_result *result)
{
    uint32_t i = start;
    for (int k = 0; k < 64; k++) {
        i = load_past_l1(p + i);
    }
    long long begin = clock64();
    for (int k = 0; k < steps; k++) {
        i = load_past_l1(p + i);
    }
    result->cycles = clock64() - begin;
    result->at = i;
}

__global__ void chase_l1(const uint32_t *p, uint32_t start, int steps, struct chase_result *result)
{
    uint32_t i = start;
    for (int k = 0; k < 512; k++) {
        i = p[i];
    }
    long long begin = clock64();
    for (int k = 0; k < steps; k++) {
        i = p[i];
    }
    result->cycles = clock64() - begin;
    result->at = i;
}

__global__ void touch(const uint4 *p, size_t n, uint4 *sink)
{
    uint4 a{ 0, 0, 0, 0 };
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        uint4 v = load_past_l1(p + i);
        a.x ^= v.x;
    }
    if (a.x == 0x12345) {
        *sink = a;
    }
}

/* One wave a workgroup; lane 0 chases each line on itself: the line holds the word 0. */
__global__ void unit_map(const uint32_t *p, int lines, int stride_words, uint32_t *cycles, uint32_t *unit)
{
    if (threadIdx.x != 0) {
        return;
    }
    unit[blockIdx.x] = unit_index();
    for (int l = 0; l < lines; l++) {
        const uint32_t *line = p + (size_t)l * stride_words;
        uint32_t i = 0;
        for (int k = 0; k < 10; k++) {
            i = load_past_l1(line + i);
        }
        long long begin = clock64();
#pragma unroll 1
        for (int k = 0; k < 64; k++) {
            i = load_past_l1(line + i);
        }
        cycles[blockIdx.x * lines + l] = (uint32_t)((clock64() - begin) / 64) + i;
    }
}

/* A random cycle over `lines`; visit[k] is the k-th line. */
static std::vector<uint32_t> random_cycle(size_t lines)
{
    std::vector<uint32_t> visit(lines);
    uint64_t state = 42;
    for (size_t i = 0; i < lines; i++) {
        visit[i] = (uint32_t)i;
    }
    for (size_t i = lines - 1; i > 0; i--) {
        std::swap(visit[i], visit[next_random(state) % i]);
    }
    return visit;
}

static void chase_rows(double kib)
{
    size_t lines = (size_t)(kib * 1024 / LINE_BYTES);
    int steps = kib < 100000 ? 4096 : 16384;
    std::vector<uint32_t> visit = random_cycle(lines), words(lines * LINE_WORDS, 0);
    for (size_t i = 0; i < lines; i++) {
        words[(size_t)visit[i] * LINE_WORDS] = visit[(i + 1) % lines] * LINE_WORDS;
    }
    device_array<uint32_t> table(words);
    device_array<struct chase_result> result(1);
    device_array<uint4> sink(1);
    for (bool through_l1 : { false, true }) {
        std::vector<double> cycles;
        bool right = true;
        int ahead = through_l1 ? 512 : 64, chains = through_l1 ? 1 : 3;
        if (through_l1 && kib > 512) {
            continue;
        }
        for (int c = 0; c < chains; c++) { /* from places a third of the table apart, so that none finds the other's trail */
            size_t first = (size_t)c * (lines / 3);
            uint32_t start = visit[first] * LINE_WORDS;
            if (!through_l1 && kib < 60000) {
                touch<<<micro.units, 256>>>((const uint4 *)table.at, lines * LINE_BYTES / 16, sink.at);
            }
            if (through_l1) {
                chase_l1<<<1, 1>>>(table.at, start, steps, result.at);
            } else {
                chase_past_l1<<<1, 1>>>(table.at, start, steps, result.at);
            }
            struct chase_result got = result.get()[0];
            right = right && got.at == visit[(first + (size_t)ahead + (size_t)steps) % lines] * LINE_WORDS;
            cycles.push_back((double)got.cycles / steps);
        }
        row_value("latency", through_l1 ? "chase_l1" : "chase_l2bypassl1", text("kb=%.0f", kib), summary(cycles).median_us, "cycles",
                  right);
    }
}

static void map_rows(void)
{
    const int lines = 64, stride_words = 1024;
    int blocks = micro.units;
    device_array<uint32_t> table((size_t)lines * stride_words), cycles((size_t)blocks * lines), unit((size_t)blocks);
    table.zero();
    for (int warm = 0; warm < 2; warm++) {
        unit_map<<<blocks, micro.lanes>>>(table.at, lines, stride_words, cycles.at, unit.at);
    }
    std::vector<uint32_t> c = cycles.get(), u = unit.get();
    for (int b = 0; b < blocks; b++) {
        double sum = 0;
        uint32_t least = UINT32_MAX, most = 0;
        for (int l = 0; l < lines; l++) {
            uint32_t x = c[(size_t)b * lines + l];
            sum += x;
            least = std::min(least, x);
            most = std::max(most, x);
        }
        row_value("latency", "unit_map", text("unit=%u;lines=%d;stride=%d", u[b], lines, stride_words * 4), sum / lines, "cycles",
                  least > 10, text("min=%u;max=%u", least, most));
    }
}

int main(int argc, char **argv)
{
    micro_begin(argc, argv);
    for (double kib : { 16., 64., 128., 192., 256., 512., 1024., 4096., 8192., 16384., 24576., 32768., 49152., 65536., 131072.,
                        524288., 2097152., 8388608. }) {
        if (kib * 1024 * 3 < (double)micro.memory_bytes) {
            chase_rows(kib);
        }
    }
    map_rows();
    return micro_end();
}
