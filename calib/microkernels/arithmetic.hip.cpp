/* Vector and matrix rates by type, on registers alone. */
#include "calib/microkernels/matrix.h"

/* one and half come from outside, or the compiler would leave the products out. */
template <class T> __global__ void vector_fma(T *out, int trips, T one, T half)
{
    T a = (T)threadIdx.x, b = one, c = half, d = a + (T)1, e = a + (T)2, f = a + (T)3;
    for (int k = 0; k < trips; k++) {
        a = a * b + c;
        d = d * b + c;
        e = e * b + c;
        f = f * b + c;
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = a + d + e + f;
    }
}

__global__ void vector_half2(__half2 *out, int trips, __half2 one, __half2 zero)
{
    __half2 a = one, d = one, e = one, f = one;
    for (int k = 0; k < trips; k++) {
        a = __hfma2(a, one, zero);
        d = __hfma2(d, one, zero);
        e = __hfma2(e, one, zero);
        f = __hfma2(f, one, zero);
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = __hadd2(__hadd2(a, d), __hadd2(e, f));
    }
}

/* Four chains; a starts at 0 in thread 0, and each trip adds a half: a sum of 4 starts and 2 a trip. */
template <class T> static void vector_row(const char *kernel, int trips)
{
    int grid = micro.units * 8;
    device_array<T> out((size_t)grid);
    struct timing t = timed([&] { vector_fma<T><<<grid, 256>>>(out.at, trips, (T)1, (T)0.5); });
    double sum = (double)out.get()[0], expected = 0 + 1 + 2 + 3 + 4 * 0.5 * trips;
    row("alu", kernel, text("n=%d", trips), t, (double)trips * 4 * 2 * grid * 256 / t.median_us * 1e-6, "TFLOP/s", sum == expected);
}

static void integer_row(int trips)
{
    int grid = micro.units * 8;
    device_array<uint32_t> out((size_t)grid);
    struct timing t = timed([&] { vector_fma<uint32_t><<<grid, 256>>>(out.at, trips, 1u, 0u); });
    row("alu", "fma_int", text("n=%d", trips), t, (double)trips * 4 * 2 * grid * 256 / t.median_us * 1e-6, "TOP/s",
        out.get()[0] == 6); /* 0 + 1 + 2 + 3, each times one plus nothing */
}

static void half_row(int trips)
{
    int grid = micro.units * 8;
    device_array<__half2> out((size_t)grid);
    __half2 one = __floats2half2_rn(1.f, 1.f), zero = __floats2half2_rn(0.f, 0.f);
    struct timing t = timed([&] { vector_half2<<<grid, 256>>>(out.at, trips, one, zero); });
    row("alu", "fma_half2", text("n=%d", trips), t, (double)trips * 4 * 4 * grid * 256 / t.median_us * 1e-6, "TFLOP/s",
        __half2float(__low2half(out.get()[0])) == 4);
}

template <int TYPE> static void matrix_row(int trips)
{
    int grid = micro.units;
    device_array<float> out((size_t)grid);
    device_array<long long> cycles((size_t)grid);
    if (matrix_flops(TYPE) <= 0) {
        return;
    }
    struct timing t = timed([&] { matrix_kernel<TYPE><<<grid, micro.lanes * MATRIX_WAVES>>>(trips, out.at, cycles.at); });
    double sum = out.get()[0], expected = MATRIX_WAVE_ACCUMULATORS * matrix_depth(TYPE) * trips;
    double flops = matrix_flops(TYPE) * MATRIX_WAVE_ACCUMULATORS * trips * MATRIX_WAVES;
    if (sum == 0) {
        skipped(matrix_names[TYPE], "this chip has no such matrix instruction");
        return;
    }
    row("matrix", matrix_names[TYPE], text("trips=%d;waves=%d", trips, MATRIX_WAVES), t, flops * grid / t.median_us * 1e-6, "TFLOP/s",
        sum == expected, text("flop_per_cycle=%.0f", flops / (double)cycles.get()[0]));
}

int main(int argc, char **argv)
{
    micro_begin(argc, argv);
    vector_row<float>("fma", 1000);
    vector_row<double>("fma_fp64", 1000);
    integer_row(1000);
    half_row(1000);
    matrix_row<MATRIX_BF16>(4096);
    matrix_row<MATRIX_FP16>(4096);
    matrix_row<MATRIX_TF32>(4096);
    matrix_row<MATRIX_FP8>(4096);
    matrix_row<MATRIX_FP64>(4096);
    return micro_end();
}
