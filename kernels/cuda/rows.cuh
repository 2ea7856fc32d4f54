/* kernels/cuda/rows.cuh - the ops that take rows one by one: embedding, angles, norm, taps. Every row of the grid's y
 * is one live row; rows beyond the live ones leave at once. Rows may lie anywhere: four elements at a time are loaded
 * and stored where addresses allow, and no bit depends on it. */
#ifndef KERNELS_CUDA_ROWS_CUH
#define KERNELS_CUDA_ROWS_CUH
#include "kernels/cuda/norm.cuh"
#include "kernels/fmath.h"
#include "kernels/tap.h"

enum { ROW_THREADS = 256, NORM_THREADS = 128 };

/* Live rows, whatever the block says: never more than there is room for. */
__device__ __forceinline__ int32_t live_count(int32_t n, int32_t room) { return n < 0 ? 0 : n < room ? n : room; }

__device__ __forceinline__ void put1(float *y, float v) { *y = v; }
__device__ __forceinline__ void put1(bf16 *y, float v) { *y = bf16_of_f32(v); }
__device__ __forceinline__ void put4(float *y, float4 v, bool whole) {
    if (whole)
        *(float4 *)y = v;
    else
        y[0] = v.x, y[1] = v.y, y[2] = v.z, y[3] = v.w;
}
__device__ __forceinline__ void put4(bf16 *y, float4 v, bool whole) {
    uint2 pairs = make_uint2(bf16_of_f32(v.x) | (uint32_t)bf16_of_f32(v.y) << 16,
                             bf16_of_f32(v.z) | (uint32_t)bf16_of_f32(v.w) << 16);
    if (whole)
        *(uint2 *)y = pairs;
    else
        put1(y, v.x), put1(y + 1, v.y), put1(y + 2, v.z), put1(y + 3, v.w);
}

/* y[c] = x[c], converted, for the block. */
template <class X, class Y> __device__ __forceinline__ void convert_row(Y *y, const X *x, int32_t n) {
    bool from = takes_whole(x), to = takes_whole(y);
    for (int32_t c = 4 * (int32_t)threadIdx.x; c < n; c += 4 * (int32_t)blockDim.x) {
        if (c + 4 <= n)
            put4(y + c, take4(x + c, from), to);
        else
            for (int32_t i = c; i < n; i++) put1(y + i, take1(x + i));
    }
}

/* y[c] = (x[c] * s) * w[c], for the block. */
template <class X, class Y>
__device__ __forceinline__ void norm_row(Y *y, const X *x, const bf16 *w, float s, int32_t n) {
    bool from = takes_whole(x), by = takes_whole(w), to = takes_whole(y);
    for (int32_t c = 4 * (int32_t)threadIdx.x; c < n; c += 4 * (int32_t)blockDim.x) {
        if (c + 4 <= n) {
            float4 v = take4(x + c, from), g = take4(w + c, by);
            put4(y + c, make_float4(v.x * s * g.x, v.y * s * g.y, v.z * s * g.z, v.w * s * g.w), to);
        } else {
            for (int32_t i = c; i < n; i++) put1(y + i, take1(x + i) * s * take1(w + i));
        }
    }
}

__global__ void embed_kernel(embed_args a) {
    grid_wait();
    grid_release();
    int32_t r = (int32_t)blockIdx.y;
    if (r >= live_count(a.rows->n, a.y.rows)) return;
    int32_t token = a.rows->token[r];
    token = token < 0 ? 0 : token < a.table.rows ? token : a.table.rows - 1;
    convert_row((float *)view_row(&a.y, r), (const bf16 *)view_row(&a.table, token), a.y.cols);
}

__global__ void rope_kernel(rope_args a) {
    grid_wait();
    grid_release();
    int32_t r = (int32_t)blockIdx.y;
    if (r >= live_count(a.rows->n, a.cos.rows)) return;
    float *cosine = (float *)view_row(&a.cos, r), *sine = (float *)view_row(&a.sin, r);
    float pos = (float)a.rows->pos[r];
    for (int32_t i = (int32_t)threadIdx.x; i < a.cos.cols; i += (int32_t)blockDim.x) {
        float s, c;
        fm_sincos(pos * a.inv_freq[i], &s, &c);
        cosine[i] = c * a.factor;
        sine[i] = s * a.factor;
    }
}

/* Each warp finds the factor for itself: that costs no time, and nothing has to be waited for. */
__global__ void norm_kernel(norm_args a) {
    grid_wait();
    grid_release();
    int32_t r = (int32_t)blockIdx.y;
    if (r >= live_count(*a.rows.n, a.rows.max)) return;
    const float *x = (const float *)view_row(&a.x, live_first(&a.rows) + r);
    float s = warp_norm_scale(x, a.x.cols, a.eps);
    if (a.y.type == DT_F32)
        norm_row((float *)view_row(&a.y, r), x, a.w, s, a.x.cols);
    else
        norm_row((bf16 *)view_row(&a.y, r), x, a.w, s, a.x.cols);
}

/* Only the last ring.rows live rows: earlier ones would be overwritten. */
__global__ void tap_kernel(tap_args a) {
    grid_wait();
    grid_release();
    int32_t n = live_count(a.rows->n, a.x.rows), slots = a.ring.rows, kept = n < slots ? n : slots;
    int32_t r = n - kept + (int32_t)blockIdx.y;
    if (r >= n) return;
    bf16 *y = (bf16 *)view_row(&a.ring, (a.rows->base + r) % slots) + a.column;
    convert_row(y, (const float *)view_row(&a.x, r), a.x.cols);
}

/* x of the grid: the taps. */
__global__ void tap_norm_kernel(tap_norm_args a) {
    grid_wait();
    grid_release();
    int32_t r = (int32_t)blockIdx.y, width = a.ring.cols / a.taps, at = (int32_t)blockIdx.x * width;
    if (r >= live_count(a.rows->n, a.y.rows)) return;
    const bf16 *tap = (const bf16 *)view_row(&a.ring, a.rows->pos[r] % a.ring.rows) + at;
    float s = warp_norm_scale(tap, width, a.eps);
    norm_row((bf16 *)view_row(&a.y, r) + at, tap, a.norm[blockIdx.x], s, width);
}
#endif
