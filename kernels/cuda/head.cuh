/* kernels/cuda/head.cuh - one head vector of a row: norm, rotation, and its way into a store. A warp works on one
 * vector; lane i holds the elements i + 32 k. Sums of squares go up over k in a lane, then through warp_sum(). */
#ifndef KERNELS_CUDA_HEAD_CUH
#define KERNELS_CUDA_HEAD_CUH
#include <math.h>
#include "kernels/cuda/prims.cuh"
#include "kernels/kv_map.h"

constexpr int HEADS_AT_ONCE = 4; /* vectors of a warp whose loads are under way together */

/* One vector of one row. norm NULL: it stays as it is. */
typedef struct head_in {
    const float *x;
    const bf16 *norm;
    const float *cosine, *sine;
    int32_t size, half;
    float eps;
} head_in;

template <int EP> struct head_values { float at[EP / WARP]; };

template <int EP> __device__ __forceinline__ head_values<EP> head_load(const head_in &in) {
    head_values<EP> v;
    UNROLL
    for (int k = 0; k < EP / WARP; k++) {
        int32_t e = lane_id() + k * WARP;
        v.at[k] = e < in.size ? in.x[e] : 0.0f;
    }
    return v;
}

/* Element i of the normed vector. */
__device__ __forceinline__ float head_normed(const head_in &in, float scale, int32_t i) {
    return (in.x[i] * scale) * f32_of_bf16(in.norm[i]);
}

/* Norm and rotation (kernels/attn.h), not rounded; 0 behind the vector's end. The other half of a pair may be held by
 * any lane, so it is read again. */
template <int EP> __device__ __forceinline__ head_values<EP> head_finish(const head_in &in, const head_values<EP> &x) {
    if (!in.norm) return x;
    float sum = 0.0f;
    UNROLL
    for (int k = 0; k < EP / WARP; k++) sum = fmaf(x.at[k], x.at[k], sum);
    float scale = 1.0f / sqrtf(warp_sum(sum) / (float)in.size + in.eps);
    head_values<EP> y;
    UNROLL
    for (int k = 0; k < EP / WARP; k++) {
        int32_t e = lane_id() + k * WARP, half = in.half;
        y.at[k] = 0.0f;
        if (e >= in.size) continue;
        float own = (x.at[k] * scale) * f32_of_bf16(in.norm[e]);
        if (e < half)
            own = fmaf(own, in.cosine[e], -(head_normed(in, scale, e + half) * in.sine[e]));
        else if (e < 2 * half)
            own = fmaf(own, in.cosine[e - half], head_normed(in, scale, e - half) * in.sine[e - half]);
        y.at[k] = own;
    }
    return y;
}

/* Element e of a row of a store. */
__device__ __forceinline__ void kv_put(void *row, dtype type, int32_t e, float v) {
    if (type == DT_E4M3)
        ((e4m3 *)row)[e] = e4m3_of_f32(v);
    else
        ((bf16 *)row)[e] = bf16_of_f32(v);
}

template <int EP>
__device__ __forceinline__ void kv_put_row(void *row, dtype type, int32_t size, const head_values<EP> &v) {
    UNROLL
    for (int k = 0; k < EP / WARP; k++) {
        int32_t e = lane_id() + k * WARP;
        if (e < size) kv_put(row, type, e, v.at[k]);
    }
}

/* Vector `head` of row r of qkv: q heads, k heads, v heads. */
__device__ __forceinline__ head_in head_of_qkv(const qkv_store_args &a, int32_t r, int32_t head) {
    head_in in;
    in.x = (const float *)view_row(&a.qkv, r) + (int64_t)head * a.kv.size;
    in.norm = head < a.heads ? a.q_norm : head < a.heads + a.kv.heads ? a.k_norm : (const bf16 *)nullptr;
    in.cosine = (const float *)view_row(&a.cos, r);
    in.sine = (const float *)view_row(&a.sin, r);
    in.size = a.kv.size;
    in.half = a.cos.cols;
    in.eps = a.eps;
    return in;
}
#endif
