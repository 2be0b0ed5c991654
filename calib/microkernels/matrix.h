/* One matrix instruction of each type per call, on registers: what a matrix unit does when nothing else holds it back.
 * NVIDIA: warp-level mma.sync, which reaches about two thirds of the dense peak on chips whose peak needs warp-group
 * instructions. AMD: MFMA. A type that the chip lacks has no flops. */
#ifndef CALIB_MICROKERNELS_MATRIX_H
#define CALIB_MICROKERNELS_MATRIX_H
#include "calib/microkernels/micro.h"

enum matrix_type { MATRIX_BF16, MATRIX_FP16, MATRIX_TF32, MATRIX_FP8, MATRIX_FP64, MATRIX_TYPES };
static const char *const matrix_names[MATRIX_TYPES] = { "bf16", "fp16", "tf32", "fp8", "fp64" };

#if MICRO_AMD
typedef float matrix_f32x16 __attribute__((ext_vector_type(16)));
typedef double matrix_f64x4 __attribute__((ext_vector_type(4)));
typedef _Float16 matrix_f16x4 __attribute__((ext_vector_type(4)));
typedef short matrix_i16x4 __attribute__((ext_vector_type(4)));
#define MATRIX_WAVE_ACCUMULATORS 4

/* Adds ones times ones, `trips` times on each of 4 accumulators; returns one element. */
template <int TYPE> __device__ static inline double matrix_loop(int trips)
{
    double sum = 0;
#if defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
    if (TYPE == MATRIX_FP64) {
        matrix_f64x4 c[4] = {};
        for (int k = 0; k < trips; k++) {
            for (int i = 0; i < 4; i++) {
                c[i] = __builtin_amdgcn_mfma_f64_16x16x4f64(1.0, 1.0, c[i], 0, 0, 0);
            }
        }
        sum = c[0][0] + c[1][0] + c[2][0] + c[3][0];
    } else {
        matrix_f32x16 c[4] = {};
        matrix_f16x4 h = { 1, 1, 1, 1 };
        matrix_i16x4 b = { 0x3f80, 0x3f80, 0x3f80, 0x3f80 }; /* 1.0 in bf16 */
        for (int k = 0; k < trips; k++) {
            for (int i = 0; i < 4; i++) {
                if (TYPE == MATRIX_FP16) {
                    c[i] = __builtin_amdgcn_mfma_f32_32x32x8f16(h, h, c[i], 0, 0, 0);
                } else if (TYPE == MATRIX_BF16) {
                    c[i] = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(b, b, c[i], 0, 0, 0);
                }
#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
                else if (TYPE == MATRIX_FP8) {
                    c[i] = __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(0x3838383838383838l, 0x3838383838383838l, c[i], 0, 0, 0);
                }
#endif
            }
        }
        sum = c[0][0] + c[1][0] + c[2][0] + c[3][0];
    }
#endif
    return sum;
}

/* Multiply-adds times two of one instruction, and the value it adds to each element of ones. */
static inline double matrix_flops(int type)
{
    static const double flops[MATRIX_TYPES] = { 32. * 32 * 8 * 2, 32. * 32 * 8 * 2, 0, 32. * 32 * 16 * 2, 16. * 16 * 4 * 2 };
    return flops[type];
}
static inline double matrix_depth(int type)
{
    static const double depth[MATRIX_TYPES] = { 8, 8, 0, 16, 4 };
    return depth[type];
}
#else
#define MATRIX_WAVE_ACCUMULATORS 4

template <int TYPE> __device__ static inline double matrix_loop(int trips)
{
    float c[4][4] = {};
    double d[4][2] = {};
    for (int k = 0; k < trips; k++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (TYPE == MATRIX_BF16) {
                uint32_t one = 0x3f803f80u;
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%4,%4,%4},{%4,%4},{%0,%1,%2,%3};"
                             : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
                             : "r"(one));
            } else if (TYPE == MATRIX_FP16) {
                uint32_t one = 0x3c003c00u;
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%4,%4,%4},{%4,%4},{%0,%1,%2,%3};"
                             : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
                             : "r"(one));
            } else if (TYPE == MATRIX_TF32) {
                uint32_t one = 0x3f800000u;
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%4,%4,%4},{%4,%4},{%0,%1,%2,%3};"
                             : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
                             : "r"(one));
            } else if (TYPE == MATRIX_FP8) {
                uint32_t one = 0x38383838u;
                asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3},{%4,%4,%4,%4},{%4,%4},{%0,%1,%2,%3};"
                             : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
                             : "r"(one));
            } else {
                double one = 1;
                asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%2},{%0,%1};"
                             : "+d"(d[i][0]), "+d"(d[i][1])
                             : "d"(one));
            }
        }
    }
    return c[0][0] + c[1][0] + c[2][0] + c[3][0] + d[0][0] + d[1][0] + d[2][0] + d[3][0];
}

static inline double matrix_flops(int type)
{
    static const double flops[MATRIX_TYPES] = { 16. * 8 * 16 * 2, 16. * 8 * 16 * 2, 16. * 8 * 8 * 2, 16. * 8 * 32 * 2, 8. * 8 * 4 * 2 };
    return flops[type];
}
static inline double matrix_depth(int type)
{
    static const double depth[MATRIX_TYPES] = { 16, 16, 8, 32, 4 };
    return depth[type];
}
#endif

template <int TYPE> __global__ void matrix_kernel(int trips, float *out, long long *cycles)
{
    long long begin = clock64();
    double sum = matrix_loop<TYPE>(trips);
    __syncthreads(); /* the last wave's end */
    if (threadIdx.x == 0) {
        cycles[blockIdx.x] = clock64() - begin;
        out[blockIdx.x] = (float)sum;
    }
}

/* Waves that fill the matrix units: 8 a unit of 4 matrix pipes. */
#define MATRIX_WAVES 8

#endif
