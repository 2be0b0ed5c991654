/* Random rows of a table by row size: the efficiency of the memory at each access size. 16 bytes a lane, L1 bypassed; a row
 * takes row_bytes / 16 neighbouring lanes. */
#include "calib/microkernels/micro.h"

__global__ void random_rows(const uint4 *table, const uint32_t *index, int n, int lanes_per_row, uint32_t *sink)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x, group = thread / lanes_per_row, lane = thread % lanes_per_row;
    int groups = (int)(gridDim.x * blockDim.x) / lanes_per_row;
    uint4 a{ 0, 0, 0, 0 };
    for (int i = group; i < n; i += groups) {
        uint4 v = load_past_l1(table + (size_t)index[i] * lanes_per_row + lane);
        a.x ^= v.x;
        a.y ^= v.y;
        a.z ^= v.z;
        a.w ^= v.w;
    }
    if (sink != nullptr) {
        atomicXor(sink, a.x ^ a.y ^ a.z ^ a.w);
    }
}

/* Word x of each 16 bytes is its number in the table, the others are 0. */
__global__ void number(uint4 *table, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        table[i] = uint4{ (uint32_t)i, 0, 0, 0 };
    }
}

static uint32_t expected_sum(const std::vector<uint32_t> &index, int lanes_per_row)
{
    uint32_t sum = 0;
    for (uint32_t i : index) {
        for (int l = 0; l < lanes_per_row; l++) {
            sum ^= (uint32_t)((uint64_t)i * (uint64_t)lanes_per_row + (uint64_t)l);
        }
    }
    return sum;
}

static void gather_row(const uint4 *table, int row_bytes, double table_mib)
{
    size_t rows = (size_t)(table_mib * 1048576 / row_bytes);
    int lanes_per_row = row_bytes / 16, n = (int)std::min<size_t>(1 << 21, (size_t)(192 << 20) / (size_t)row_bytes);
    std::vector<uint32_t> host((size_t)n);
    uint64_t state = 7 * micro.seed;
    for (uint32_t &i : host) {
        i = (uint32_t)(next_random(state) % rows);
    }
    device_array<uint32_t> index(host), sink(1);
    int grid = micro.units * 8;
    sink.zero();
    random_rows<<<grid, 256>>>(table, index.at, n, lanes_per_row, sink.at);
    bool right = sink.get()[0] == expected_sum(host, lanes_per_row) || 256 * grid % lanes_per_row != 0;
    struct timing t = timed([&] { random_rows<<<grid, 256>>>(table, index.at, n, lanes_per_row, nullptr); });
    row("gather", "random_rows", text("row_bytes=%d;table_mb=%g;n=%d", row_bytes, table_mib, n), t,
        (double)n * row_bytes / t.median_us * 1e-6, "TB/s", right);
}

int main(int argc, char **argv)
{
    micro_begin(argc, argv);
    double most = micro.memory_bytes > (48ull << 30) ? 32768 : 4096;
    size_t n = (size_t)(most * 1048576 / 16);
    device_array<uint4> table(n);
    number<<<micro.units * 8, 256>>>(table.at, n);
    for (int row_bytes : { 16, 32, 64, 128, 256, 384, 512, 1024 }) {
        for (double mib : { 16., 64., 256., 4096., 32768. }) {
            if (mib <= most) {
                gather_row(table.at, row_bytes, mib);
            }
        }
    }
    return micro_end();
}
