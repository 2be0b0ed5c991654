/* The sparse kernels themselves: bounds check, group index select, and table-batched embeddings: forward, backward by atomics,
 * backward over sorted rows, and the fused library structure, in which long runs of one row are cut over workgroups and joined
 * by atomics. A "wave" of these kernels has as many lanes as the machine's. Indices are sorted on the host: only kernels are
 * timed here. */
#include "calib/microkernels/micro.h"
#include <cmath>

#if MICRO_AMD
#define LANES 64
#else
#define LANES 32
#endif
#define WAVES 8 /* of a workgroup of the kernels that give a wave a bag or a run */
#define PIECE 1024 /* rows of a long run that one workgroup adds up */

/* ---- bounds check */

__global__ void bounds(int64_t *indices, const int64_t *offsets, const int64_t *rows, int bags, unsigned long long *warnings, int tree)
{
    int table = blockIdx.y, bag = blockIdx.x * blockDim.y + threadIdx.y;
    uint32_t wrong = 0;
    if (bag < bags) {
        int64_t first = offsets[(size_t)table * bags + bag], last = offsets[(size_t)table * bags + bag + 1], limit = rows[table];
        for (int64_t i = first + threadIdx.x; i < last; i += blockDim.x) {
            int64_t v = indices[i];
            if (v != -1 && (v < 0 || v >= limit)) {
                wrong++;
                indices[i] = 0;
            }
        }
    }
    if (!tree) {
        if (wrong) {
            atomicAdd(warnings, (unsigned long long)wrong);
        }
    } else {
        __shared__ uint32_t sums[1024];
        int id = threadIdx.y * blockDim.x + threadIdx.x, n = blockDim.x * blockDim.y;
        sums[id] = wrong;
        __syncthreads();
        for (int k = n / 2; k; k >>= 1) {
            if (id < k) {
                sums[id] += sums[id + k];
            }
            __syncthreads();
        }
        if (id == 0 && sums[0]) {
            atomicAdd(warnings, (unsigned long long)sums[0]);
        }
    }
}

__device__ __host__ static inline bool is_spoilt(uint32_t i, uint32_t below)
{
    uint32_t h = i * 0x9E3779B1u;
    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    h ^= h >> 12;
    return h < below;
}

__global__ void spoil(int64_t *indices, size_t n, const int64_t *source, uint32_t below, int64_t bad)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) {
        indices[i] = is_spoilt((uint32_t)i, below) ? bad : source[i];
    }
}

static void bounds_rows(void)
{
    const int tables = 30, bags = 8192;
    const int64_t limit = 1000000;
    for (int bag : { 7, 28 }) {
        size_t n = (size_t)tables * bags * (size_t)bag;
        std::vector<int64_t> host(n), ends((size_t)tables * bags + 1), limits(tables, limit);
        uint64_t state = 3 * micro.seed;
        for (int64_t &x : host) {
            x = (int64_t)(next_random(state) % (uint64_t)limit);
        }
        for (size_t i = 0; i < ends.size(); i++) {
            ends[i] = (int64_t)i * bag;
        }
        device_array<int64_t> source(host), indices(n), offsets(ends), rows(limits);
        device_array<unsigned long long> warnings(1);
        for (int tree = 0; tree < 2; tree++) {
            for (double rate : { 0., 0.01, 0.1, 1. }) {
                for (int block_x : { 32, 8 }) {
                    uint32_t below = (uint32_t)std::min(4294967295.0, rate * 4294967296.0);
                    unsigned long long expected = 0;
                    for (size_t i = 0; i < n; i++) {
                        expected += is_spoilt((uint32_t)i, below);
                    }
                    dim3 block(block_x, 1024 / block_x), grid((bags + block.y - 1) / block.y, tables);
                    auto prepare = [&] { spoil<<<(n + 255) / 256, 256>>>(indices.at, n, source.at, below, limit + 5); };
                    auto call = [&] { bounds<<<grid, block>>>(indices.at, offsets.at, rows.at, bags, warnings.at, tree); };
                    warnings.zero();
                    prepare();
                    call();
                    bool right = warnings.get()[0] == expected;
                    struct timing t = timed(prepare, call);
                    row("bounds_check", tree ? "tree_reduction" : "per_thread_atomic",
                        text("tables=%d;batch=%d;bag=%d;indices=%zu;block_x=%d;rate=%g", tables, bags, bag, n, block_x, rate), t,
                        (double)n * 8 / t.median_us * 1e-3, "GB/s", right);
                }
            }
        }
    }
}

/* ---- group index select */

__global__ void gis_forward(const float *w, const int *index, int n, int width, float *out)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x, group = thread / width;
    if (group < n) {
        int d = thread % width;
        out[(size_t)group * width + d] = w[(size_t)index[group] * width + d];
    }
}

/* A wave walks `rows_per` neighbouring rows; cached: the last two rows' sums are kept in registers. */
__global__ void gis_backward(float *w, const int *index, int n, int width, const float *grad, int cached, int rows_per)
{
    int wave = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    int first = wave * rows_per, last = min(n, first + rows_per);
    for (int d = lane; d < width; d += LANES) {
        if (!cached) {
            for (int i = first; i < last; i++) {
                atomicAdd(w + (size_t)index[i] * width + d, grad[(size_t)i * width + d]);
            }
            continue;
        }
        int key0 = -1, key1 = -1;
        float sum0 = 0, sum1 = 0;
        for (int i = first; i < last; i++) {
            int r = index[i];
            float x = grad[(size_t)i * width + d];
            if (r == key0) {
                sum0 += x;
            } else if (r == key1) {
                sum1 += x;
            } else {
                if (key1 >= 0) {
                    atomicAdd(w + (size_t)key1 * width + d, sum1);
                }
                key1 = key0;
                sum1 = sum0;
                key0 = r;
                sum0 = x;
            }
        }
        if (key0 >= 0) {
            atomicAdd(w + (size_t)key0 * width + d, sum0);
        }
        if (key1 >= 0) {
            atomicAdd(w + (size_t)key1 * width + d, sum1);
        }
    }
}

static void gis_rows(void)
{
    const int n = 1 << 18;
    for (int width : { 32, 128 }) {
        for (int rows : { 1000, 100000, 10000000 }) {
            for (int run : { 1, 4, 16 }) {
                device_array<float> w((size_t)rows * width), other((size_t)n * width);
                std::vector<int> host(n), count((size_t)rows, 0);
                uint64_t state = 11 * micro.seed;
                for (int i = 0; i < n; i++) {
                    host[i] = i % run == 0 ? (int)(next_random(state) % (uint64_t)rows) : host[i - 1];
                    count[(size_t)host[i]]++;
                }
                device_array<int> index(host);
                std::string shape = text("D=%d;rows=%d;run=%d;n=%d", width, rows, run, n);
                double bytes = 2.0 * n * width * 4;
                std::vector<float> ones((size_t)n * width, 1.0f);
                w.zero();
                struct timing t = timed([&] { gis_forward<<<((size_t)n * width + 255) / 256, 256>>>(w.at, index.at, n, width, other.at); });
                row("gis", "forward", shape, t, bytes / t.median_us * 1e-6, "TB/s", other.get().back() == 0);
                other.put(ones);
                for (int cached = 0; cached < 2; cached++) {
                    auto call = [&] { gis_backward<<<(n / 16 * LANES + 255) / 256, 256>>>(w.at, index.at, n, width, other.at, cached, 16); };
                    std::vector<float> got((size_t)width);
                    size_t probe = (size_t)host[n / 2];
                    w.zero();
                    call();
                    CHECK_HIP(hipMemcpy(got.data(), w.at + probe * (size_t)width, got.size() * 4, hipMemcpyDeviceToHost));
                    t = timed(call);
                    row("gis", cached ? "backward_cached" : "backward_atomic", shape, t, bytes / t.median_us * 1e-6, "TB/s",
                        got.front() == (float)count[probe] && got.back() == (float)count[probe]);
                }
            }
        }
    }
}

/* ---- table-batched embeddings */

struct shape {
    int bags, tables, length, width;
    size_t rows;
    double alpha;
};

/* numpy's zipf modulo the rows, or even. */
static std::vector<int> draw_indices(const struct shape &s)
{
    std::vector<int> host((size_t)s.bags * s.tables * s.length);
    uint64_t state = 5 * micro.seed;
    for (int &x : host) {
        if (s.alpha <= 1) {
            x = (int)(next_random(state) % s.rows);
            continue;
        }
        for (;;) {
            double u = 1 - (double)(next_random(state) >> 11) * 0x1.0p-53, v = (double)(next_random(state) >> 11) * 0x1.0p-53;
            double k = floor(pow(u, -1 / (s.alpha - 1))), t = pow(1 + 1 / k, s.alpha - 1), b = pow(2, s.alpha - 1);
            if (v * k * (t - 1) / (b - 1) <= t / b && k <= 9e18) {
                x = (int)((uint64_t)k % s.rows);
                break;
            }
        }
    }
    return host;
}

template <class E> __device__ static inline float as_float(E x);
template <> __device__ inline float as_float(float x)
{
    return x;
}
template <> __device__ inline float as_float(__half x)
{
    return __half2float(x);
}
template <class E> __device__ static inline E as_element(float x);
template <> __device__ inline float as_element(float x)
{
    return x;
}
template <> __device__ inline __half as_element(float x)
{
    return __float2half(x);
}

/* A wave a bag; V: 16 bytes of elements E. */
template <class E, class V>
__global__ void tbe_forward(const E *w, const int *index, int bags, int tables, int length, int width, size_t rows, E *out)
{
    int bag = (int)((blockIdx.x * (size_t)blockDim.x + threadIdx.x) / LANES), lane = threadIdx.x % LANES;
    constexpr int K = sizeof(V) / sizeof(E), PARTS = 2;
    if (bag >= bags * tables) {
        return;
    }
    int t = bag / bags, b = bag % bags;
    float a[PARTS][K] = {};
    const int *own = index + ((size_t)t * bags + b) * length;
    for (int k = 0; k < length; k++) {
        const E *r = w + ((size_t)t * rows + own[k]) * width;
#pragma unroll
        for (int c = 0; c < PARTS; c++) {
            int d = (c * LANES + lane) * K;
            if (d < width) {
                V v = *(const V *)(r + d);
                const E *e = (const E *)&v;
#pragma unroll
                for (int j = 0; j < K; j++) {
                    a[c][j] += as_float(e[j]);
                }
            }
        }
    }
    for (int c = 0; c < PARTS; c++) {
        int d = (c * LANES + lane) * K;
        if (d < width) {
            V v;
            E *e = (E *)&v;
            for (int j = 0; j < K; j++) {
                e[j] = as_element<E>(a[c][j]);
            }
            *(V *)(out + ((size_t)b * tables + t) * width + d) = v;
        }
    }
}

__global__ void tbe_backward_atomic(float *w, const int *index, int bags, int tables, int length, int width, size_t rows, const float *grad)
{
    int bag = (int)((blockIdx.x * (size_t)blockDim.x + threadIdx.x) / LANES), lane = threadIdx.x % LANES;
    if (bag >= bags * tables) {
        return;
    }
    int t = bag / bags, b = bag % bags;
    const int *own = index + ((size_t)t * bags + b) * length;
    const float *g = grad + ((size_t)b * tables + t) * width;
    for (int k = 0; k < length; k++) {
        float *r = w + ((size_t)t * rows + own[k]) * width;
        for (int d = lane; d < width; d += LANES) {
            atomicAdd(r + d, g[d]);
        }
    }
}

/* A wave a unique row: adds its bags' gradients one after the other. */
__global__ void tbe_backward_sorted(float *w, const uint32_t *key, const uint32_t *bag_of, const int *run, int runs, int n, int bags,
                                    int tables, int width, const float *grad)
{
    int s = (int)((blockIdx.x * (size_t)blockDim.x + threadIdx.x) / LANES), lane = threadIdx.x % LANES;
    if (s >= runs) {
        return;
    }
    int first = run[s], last = s + 1 < runs ? run[s + 1] : n;
    float a[2][4] = {};
    for (int i = first; i < last; i++) {
        uint32_t bag = bag_of[i];
        int t = bag / bags, b = bag % bags;
        const float *q = grad + ((size_t)b * tables + t) * width;
#pragma unroll
        for (int c = 0; c < 2; c++) {
            int d = (c * LANES + lane) * 4;
            if (d < width) {
                float4 v = *(const float4 *)(q + d);
                a[c][0] += v.x;
                a[c][1] += v.y;
                a[c][2] += v.z;
                a[c][3] += v.w;
            }
        }
    }
    float *r = w + (size_t)key[first] * width;
    for (int c = 0; c < 2; c++) {
        int d = (c * LANES + lane) * 4;
        if (d < width) {
            float4 v = *(float4 *)(r + d);
            v.x -= a[c][0];
            v.y -= a[c][1];
            v.z -= a[c][2];
            v.w -= a[c][3];
            *(float4 *)(r + d) = v;
        }
    }
}

/* Runs of equal rows in the sorted indices. */
struct sorted {
    std::vector<uint32_t> key, bag;
    std::vector<int> run;
};

static struct sorted sort_indices(const struct shape &s, const std::vector<int> &host)
{
    struct sorted out;
    std::vector<std::pair<uint32_t, uint32_t>> pairs(host.size());
    for (size_t i = 0; i < host.size(); i++) {
        size_t bag = i / (size_t)s.length;
        pairs[i] = { (uint32_t)(bag / (size_t)s.bags * s.rows) + (uint32_t)host[i], (uint32_t)bag };
    }
    std::stable_sort(pairs.begin(), pairs.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    for (size_t i = 0; i < pairs.size(); i++) {
        out.key.push_back(pairs[i].first);
        out.bag.push_back(pairs[i].second);
        if (i == 0 || pairs[i].first != pairs[i - 1].first) {
            out.run.push_back((int)i);
        }
    }
    return out;
}

static int run_length(const struct sorted &s, size_t r)
{
    return (r + 1 < s.run.size() ? s.run[r + 1] : (int)s.key.size()) - s.run[r];
}

template <class E, class V> static void forward_row(const struct shape &s, const std::vector<int> &host, const char *precision)
{
    size_t weights = (size_t)s.tables * s.rows * s.width;
    device_array<E> w(weights), out((size_t)s.bags * s.tables * s.width);
    device_array<int> index(host);
    /* every weight 1, so that each output is the length of its bag */
    std::vector<E> ones((size_t)1 << 20, (E)1.0f);
    for (size_t at = 0; at < weights; at += ones.size()) {
        CHECK_HIP(hipMemcpy(w.at + at, ones.data(), std::min(ones.size(), weights - at) * sizeof(E), hipMemcpyHostToDevice));
    }
    int grid = (s.bags * s.tables + WAVES - 1) / WAVES;
    struct timing t = timed([&] {
        tbe_forward<E, V><<<grid, LANES * WAVES>>>(w.at, index.at, s.bags, s.tables, s.length, s.width, s.rows, out.at);
    });
    std::vector<E> got = out.get();
    row("tbe", "forward",
        text("B=%d;T=%d;L=%d;D=%d;rows=%zu;alpha=%g;prec=%s", s.bags, s.tables, s.length, s.width, s.rows, s.alpha, precision), t,
        (double)host.size() * s.width * sizeof(E) / t.median_us * 1e-6, "TB/s",
        (float)got.front() == (float)s.length && (float)got.back() == (float)s.length);
}

static void backward_rows(const struct shape &s, const std::vector<int> &host, const struct sorted &sorted)
{
    size_t n = host.size(), runs = sorted.run.size();
    device_array<float> w((size_t)s.tables * s.rows * s.width), grad((size_t)s.bags * s.tables * s.width);
    device_array<int> index(host), run(sorted.run);
    device_array<uint32_t> key(sorted.key), bag(sorted.bag);
    std::string parameters = text("B=%d;T=%d;L=%d;D=%d;rows=%zu;alpha=%g;prec=fp32", s.bags, s.tables, s.length, s.width, s.rows, s.alpha);
    grad.put(std::vector<float>(grad.count, 1.0f));
    size_t longest = 0;
    for (size_t r = 0; r < runs; r++) {
        longest = run_length(sorted, r) > run_length(sorted, longest) ? r : longest;
    }
    auto hottest = [&] {
        std::vector<float> got((size_t)s.width);
        CHECK_HIP(hipMemcpy(got.data(), w.at + (size_t)sorted.key[(size_t)sorted.run[longest]] * (size_t)s.width, got.size() * 4,
                            hipMemcpyDeviceToHost));
        return got;
    };
    int grid = (s.bags * s.tables + WAVES - 1) / WAVES;
    auto by_atomics = [&] {
        tbe_backward_atomic<<<grid, LANES * WAVES>>>(w.at, index.at, s.bags, s.tables, s.length, s.width, s.rows, grad.at);
    };
    w.zero();
    by_atomics();
    std::vector<float> got = hottest();
    float expected = (float)run_length(sorted, longest);
    bool right = got.front() == expected && got.back() == expected;
    struct timing t = timed(by_atomics);
    row("tbe", "backward_atomic", parameters, t, (double)n * s.width * 4 / t.median_us * 1e-6, "TB/s", right);
    auto by_runs = [&] {
        tbe_backward_sorted<<<(runs + WAVES - 1) / WAVES, LANES * WAVES>>>(w.at, key.at, bag.at, run.at, (int)runs, (int)n, s.bags,
                                                                          s.tables, s.width, grad.at);
    };
    w.zero();
    by_runs();
    got = hottest();
    right = got.front() == -expected && got.back() == -expected;
    t = timed(by_runs);
    row("tbe", "backward_sorted", parameters, t, (double)n * s.width * 4 / t.median_us * 1e-6, "TB/s", right,
        text("unique=%zu", runs));
}

/* ---- the fused library structure: row-wise Adagrad, fp16 weights, fp32 gradients; 8 elements a lane */

__device__ static void adagrad(__half *w, float *momentum, uint32_t key, int width, int lane, const float *a)
{
    float s = 0;
    for (int j = 0; j < 8; j++) {
        s += a[j] * a[j];
    }
    for (int o = LANES / 2; o; o >>= 1) {
        s += lane_xor(s, o);
    }
    float m = momentum[key] + s / width;
    if (lane == 0) {
        momentum[key] = m;
    }
    float rate = .01f / (sqrtf(m) + 1e-8f);
    if (lane * 8 < width) {
        uint4 *p = (uint4 *)(w + (size_t)key * width) + lane, v = *p;
        __half *h = (__half *)&v;
        for (int j = 0; j < 8; j++) {
            h[j] = __float2half(__half2float(h[j]) - rate * a[j]);
        }
        *p = v;
    }
}

__device__ static void add_gradient(const float *grad, uint32_t bag, int bags, int tables, int width, int lane, float *a)
{
    int t = bag / bags, b = bag % bags;
    const float4 *g = (const float4 *)(grad + ((size_t)b * tables + t) * width);
    if (lane * 8 < width) {
        float4 x = g[2 * lane], y = g[2 * lane + 1];
        a[0] += x.x;
        a[1] += x.y;
        a[2] += x.z;
        a[3] += x.w;
        a[4] += y.x;
        a[5] += y.y;
        a[6] += y.z;
        a[7] += y.w;
    }
}

__global__ void fused_short(__half *w, float *momentum, const uint32_t *key, const uint32_t *bag_of, const int *run, const int *list,
                            int listed, int runs, int n, int bags, int tables, int width, const float *grad)
{
    int q = (int)((blockIdx.x * (size_t)blockDim.x + threadIdx.x) / LANES), lane = threadIdx.x % LANES;
    if (q >= listed) {
        return;
    }
    int s = list[q], first = run[s], last = s + 1 < runs ? run[s + 1] : n;
    float a[8] = {};
    for (int i = first; i < last; i++) {
        add_gradient(grad, bag_of[i], bags, tables, width, lane, a);
    }
    adagrad(w, momentum, key[first], width, lane, a);
}

__global__ void fused_long(const uint32_t *bag_of, const int *run, const int *list, const int *piece_first, int listed, int runs, int n,
                           int bags, int tables, int width, const float *grad, float *sums)
{
    int piece = blockIdx.x, low = 0, high = listed - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (piece_first[middle] <= piece) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    int s = list[low], first = run[s] + (piece - piece_first[low]) * PIECE, last = min(s + 1 < runs ? run[s + 1] : n, first + PIECE);
    int wave = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    float a[8] = {};
    for (int i = first + wave; i < last; i += WAVES) {
        add_gradient(grad, bag_of[i], bags, tables, width, lane, a);
    }
    __shared__ float parts[WAVES][256];
    if (lane * 8 < width) {
        for (int j = 0; j < 8; j++) {
            parts[wave][lane * 8 + j] = a[j];
        }
    }
    __syncthreads();
    for (int d = threadIdx.x; d < width; d += blockDim.x) {
        float v = 0;
        for (int k = 0; k < WAVES; k++) {
            v += parts[k][d];
        }
        atomicAdd(sums + (size_t)low * width + d, v);
    }
}

__global__ void fused_finalise(__half *w, float *momentum, const uint32_t *key, const int *run, const int *list, int listed, int width,
                               const float *sums)
{
    int q = (int)((blockIdx.x * blockDim.x + threadIdx.x) / LANES), lane = threadIdx.x % LANES;
    if (q >= listed) {
        return;
    }
    float a[8] = {};
    if (lane * 8 < width) {
        for (int j = 0; j < 8; j++) {
            a[j] = sums[(size_t)q * width + lane * 8 + j];
        }
    }
    adagrad(w, momentum, key[run[list[q]]], width, lane, a);
}

/* The indices that the library's benchmark draws: a bag has no row twice; under Zipf it takes the smallest distinct of 3 L draws. */
static std::vector<int> draw_distinct(const struct shape &s)
{
    std::vector<int> host;
    uint64_t state = 1234 * micro.seed;
    for (int bag = 0; bag < s.bags * s.tables; bag++) {
        std::vector<uint64_t> drawn;
        if (s.alpha > 1) {
            struct shape one = { 1, 1, 3 * s.length, 0, s.rows, s.alpha };
            uint64_t kept = micro.seed;
            micro.seed = next_random(state);
            for (int x : draw_indices(one)) {
                drawn.push_back((uint64_t)x);
            }
            micro.seed = kept;
            std::sort(drawn.begin(), drawn.end());
            drawn.erase(std::unique(drawn.begin(), drawn.end()), drawn.end());
        }
        while ((int)drawn.size() < s.length) {
            uint64_t x = next_random(state) % s.rows;
            if (std::find(drawn.begin(), drawn.end(), x) == drawn.end()) {
                drawn.push_back(x);
            }
        }
        for (int k = 0; k < s.length; k++) {
            host.push_back((int)drawn[(size_t)k]);
        }
    }
    return host;
}

static void fused_rows(const struct shape &s)
{
    const int threshold = 32;
    std::vector<int> host = draw_distinct(s), short_list, long_list, piece_first;
    struct sorted sorted = sort_indices(s, host);
    int n = (int)host.size(), runs = (int)sorted.run.size(), pieces = 0;
    for (int r = 0; r < runs; r++) {
        int length = run_length(sorted, (size_t)r);
        if (length < threshold) {
            short_list.push_back(r);
        } else {
            long_list.push_back(r);
            piece_first.push_back(pieces);
            pieces += (length + PIECE - 1) / PIECE;
        }
    }
    device_array<__half> w((size_t)s.tables * s.rows * s.width);
    device_array<float> momentum((size_t)s.tables * s.rows), grad((size_t)s.bags * s.tables * s.width),
        sums(std::max<size_t>(1, long_list.size()) * (size_t)s.width);
    device_array<uint32_t> key(sorted.key), bag(sorted.bag);
    device_array<int> run(sorted.run), shorts(short_list), longs(long_list), firsts(piece_first);
    std::string parameters = text("B=%d;T=%d;L=%d;D=%d;rows=%zu;alpha=%g;prec=fp16;generator=%s;threshold=%d", s.bags, s.tables, s.length,
                                  s.width, s.rows, s.alpha, s.alpha > 1 ? "fbgemm_zipf" : "uniform_distinct", threshold);
    grad.put(std::vector<float>(grad.count, 1.0f));
    w.zero();
    momentum.zero();
    if (!short_list.empty()) {
        int count = (int)short_list.size();
        auto call = [&] {
            fused_short<<<(count + WAVES - 1) / WAVES, LANES * WAVES>>>(w.at, momentum.at, key.at, bag.at, run.at, shorts.at, count, runs, n,
                                                                       s.bags, s.tables, s.width, grad.at);
        };
        call();
        size_t first = (size_t)sorted.key[(size_t)sorted.run[(size_t)short_list[0]]];
        float m, length = (float)run_length(sorted, (size_t)short_list[0]);
        CHECK_HIP(hipMemcpy(&m, momentum.at + first, 4, hipMemcpyDeviceToHost));
        bool right = fabsf(m / (length * length) - 1) < 1e-5f; /* every element of the sum is the length of the run */
        struct timing t = timed(call);
        row("tbe_fused", "backward_short_runs", parameters, t, count, "runs", right);
    }
    if (!long_list.empty()) {
        int count = (int)long_list.size();
        auto clear = [&] { CHECK_HIP(hipMemsetAsync(sums.at, 0, (size_t)count * (size_t)s.width * 4, 0)); };
        auto call = [&] {
            fused_long<<<pieces, LANES * WAVES>>>(bag.at, run.at, longs.at, firsts.at, count, runs, n, s.bags, s.tables, s.width, grad.at,
                                                 sums.at);
        };
        clear();
        call();
        float expected = (float)run_length(sorted, (size_t)long_list[0]);
        bool right = sums.get()[0] == expected;
        struct timing t = timed([&] {
            clear();
            call();
        });
        row("tbe_fused", "backward_long_runs", parameters, t, count, "runs", right);
        t = timed([&] { fused_finalise<<<(count + WAVES - 1) / WAVES, LANES * WAVES>>>(w.at, momentum.at, key.at, run.at, longs.at, count,
                                                                                      s.width, sums.at); });
        row("tbe_fused", "backward_finalise", parameters, t, pieces, "pieces", momentum.get()[sorted.key[(size_t)sorted.run[(size_t)long_list[0]]]] > 0);
    }
}

int main(int argc, char **argv)
{
    micro_begin(argc, argv);
    bounds_rows();
    gis_rows();
    for (const struct shape &s : { shape{ 4096, 4, 20, 128, 100000, 1 }, shape{ 4096, 4, 20, 128, 100000, 1.15 },
                                   shape{ 4096, 4, 20, 128, 1000000, 1 }, shape{ 8192, 4, 20, 64, 1000000, 1.15 },
                                   shape{ 4096, 4, 40, 256, 1000000, 1 } }) {
        std::vector<int> host = draw_indices(s);
        struct sorted sorted = sort_indices(s, host);
        forward_row<float, float4>(s, host, "fp32");
        forward_row<__half, uint4>(s, host, "fp16");
        backward_rows(s, host, sorted);
    }
    for (const struct shape &s : { shape{ 8192, 4, 20, 128, 100000, 1 }, shape{ 8192, 4, 20, 128, 100000, 1.15 },
                                   shape{ 8192, 4, 20, 128, 1000000, 1 }, shape{ 8192, 4, 20, 128, 1000, 1 } }) {
        fused_rows(s);
    }
    return micro_end();
}
