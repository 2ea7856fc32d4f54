/* kernels/cuda/norm.cuh - the factor of RMSNorm, in one order of additions for all kernels. */
#ifndef KERNELS_CUDA_NORM_CUH
#define KERNELS_CUDA_NORM_CUH
#include "kernels/cuda/prims.cuh"
#include <math.h>
#include "engine/base/dtype.h"

__device__ __forceinline__ bool aligned(const void *p, uintptr_t bytes) { return (uintptr_t)p % bytes == 0; }

/* Four neighbouring elements; with `whole` in one load, which wants 16 bytes (F32) or 8 (BF16) of alignment. */
__device__ __forceinline__ float4 take4(const float *x, bool whole) {
    return whole ? *(const float4 *)x : make_float4(x[0], x[1], x[2], x[3]);
}
__device__ __forceinline__ float4 take4(const bf16 *x, bool whole) {
    uint2 v = whole ? load8(x) : make_uint2(x[0] | (uint32_t)x[1] << 16, x[2] | (uint32_t)x[3] << 16);
    return make_float4(f32_of_bits(v.x << 16), f32_of_bits(v.x & 0xFFFF0000u), f32_of_bits(v.y << 16),
                       f32_of_bits(v.y & 0xFFFF0000u));
}
__device__ __forceinline__ float take1(const float *x) { return *x; }
__device__ __forceinline__ float take1(const bf16 *x) { return f32_of_bf16(*x); }

/* Can every fourth element from x on be taken whole? */
template <class T> __device__ __forceinline__ bool takes_whole(const T *x) { return aligned(x, 4 * sizeof(T)); }

/* 1 / sqrt(mean of squares + eps), for a warp. Lane l takes elements 4l .. 4l + 3 of every 128, rising and fused; then
 * warp_sum. x is F32 or BF16, at any address; where it lies changes no bit. */
template <class T> __device__ __forceinline__ float warp_norm_scale(const T *x, int32_t n, float eps) {
    bool whole = takes_whole(x);
    float sum = 0.0f;
    for (int32_t at = 4 * lane_id(); at < n; at += 4 * WARP) {
        if (at + 4 <= n) {
            float4 v = take4(x + at, whole);
            sum = fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, fmaf(v.x, v.x, sum))));
        } else {
            for (int32_t i = at; i < n; i++) sum = fmaf(take1(x + i), take1(x + i), sum);
        }
    }
    return 1.0f / sqrtf(warp_sum(sum) / (float)n + eps);
}
#endif
