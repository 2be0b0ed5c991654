/* Launch gap in a stream and in a captured graph, and the dispatch rate of empty workgroups. */
#include "calib/microkernels/micro.h"

__global__ void empty() {}

/* Four elements a lane, as frameworks' element-wise kernels do. */
__global__ void add_one(float4 *z, int n4)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n4) {
        float4 v = z[i];
        v.x += 1;
        v.y += 1;
        v.z += 1;
        v.w += 1;
        z[i] = v;
    }
}

static void empty_rows(void)
{
    for (int n : { 1, 10, 100, 1000 }) {
        struct timing t = timed([&] {
            for (int i = 0; i < n; i++) {
                empty<<<1, micro.lanes>>>();
            }
        });
        double each = t.median_us / n;
        row("launch", "empty", text("n=%d;grid=1", n), { each, t.low_us / n, t.high_us / n, t.repeats }, each, "us/kernel", true);
    }
    for (int per_unit : { 1, 10, 100, 1000 }) {
        int grid = micro.units * per_unit;
        struct timing t = timed([&] { empty<<<grid, 128>>>(); });
        row("launch", "dispatch", text("grid=%d;block=128", grid), t, grid / t.median_us, "blocks/us", true);
    }
}

static void chain_rows(void)
{
    const int kernels = 200;
    for (int n : { 1024, 262144, 1048576 }) {
        device_array<float> z((size_t)n);
        hipStream_t stream;
        hipGraph_t graph;
        hipGraphExec_t instance;
        CHECK_HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
        auto chain = [&](hipStream_t s) {
            for (int k = 0; k < kernels; k++) {
                add_one<<<(n / 4 + 127) / 128, 128, 0, s>>>((float4 *)z.at, n / 4);
            }
        };
        CHECK_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
        chain(stream);
        CHECK_HIP(hipStreamEndCapture(stream, &graph));
        CHECK_HIP(hipGraphInstantiate(&instance, graph, NULL, NULL, 0));
        for (bool captured : { false, true }) {
            z.zero();
            struct timing t = timed([&] {
                if (captured) {
                    CHECK_HIP(hipGraphLaunch(instance, 0));
                } else {
                    chain(0);
                }
            });
            float expected = (float)kernels * (float)(micro.repeats + 2);
            std::vector<float> got = z.get();
            double each = t.median_us / kernels;
            row("launch", captured ? "chain_graph" : "chain_stream", text("n=%d;kernels=%d", n, kernels),
                { each, t.low_us / kernels, t.high_us / kernels, t.repeats }, each, "us/kernel",
                got.front() == expected && got.back() == expected);
        }
        CHECK_HIP(hipGraphExecDestroy(instance));
        CHECK_HIP(hipGraphDestroy(graph));
        CHECK_HIP(hipStreamDestroy(stream));
    }
}

int main(int argc, char **argv)
{
    micro_begin(argc, argv);
    empty_rows();
    chain_rows();
    return micro_end();
}
