/* kernels/cuda/kv.cuh - head vectors on their way into stores, and rows that move within them. */
#ifndef KERNELS_CUDA_KV_CUH
#define KERNELS_CUDA_KV_CUH
#include "kernels/cuda/prims.cuh"
#include "kernels/kv_map.h"
#include "kernels/tap.h"

/* --- one head vector, by one warp ---
 * Lane i holds the elements i + 32 k. Sums of squares go up over k in a lane, then through warp_sum(). */

enum { HEADS_AT_ONCE = 4 }; /* vectors of a warp whose loads are under way together */

/* One vector of one row. norm NULL: it stays as it is. */
typedef struct head_in {
    const float *x;
    const bf16 *norm;
    const float *cosine, *sine;
    int32_t size, half;
    float eps;
} head_in;

template <int EP> struct head_values {
    float at[EP / WARP];
};

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

template <int EP> __device__ __forceinline__ void kv_put_row(void *row, dtype type, int32_t size, const head_values<EP> &v) {
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

/* --- stores as kernels of their own: a warp takes HEADS_AT_ONCE vectors --- */

enum { STORE_THREADS = 256, STORE_VECTORS = STORE_THREADS / WARP * HEADS_AT_ONCE };

template <int EP> __global__ void __launch_bounds__(STORE_THREADS) qkv_store_kernel(qkv_store_args a) {
    grid_wait();
    grid_release();
    int32_t base = a.rows->base, heads = a.heads + 2 * a.kv.heads, items = a.rows->n * heads;
    int32_t at = (int32_t)blockIdx.x * STORE_VECTORS + warp_id() * HEADS_AT_ONCE;
    head_in in[HEADS_AT_ONCE];
    head_values<EP> x[HEADS_AT_ONCE];
    UNROLL
    for (int i = 0; i < HEADS_AT_ONCE; i++) {
        if (at + i >= items) continue;
        in[i] = head_of_qkv(a, (at + i) / heads, (at + i) % heads);
        x[i] = head_load<EP>(in[i]);
    }
    UNROLL
    for (int i = 0; i < HEADS_AT_ONCE; i++) {
        if (at + i >= items) continue;
        int32_t r = (at + i) / heads, h = (at + i) % heads, g = h - a.heads;
        head_values<EP> y = head_finish<EP>(in[i], x[i]);
        if (g < 0) {
            kv_put_row<EP>((bf16 *)view_row(&a.q, r) + (int64_t)h * a.kv.size, DT_BF16, a.kv.size, y);
            continue;
        }
        bool value = g >= a.kv.heads;
        int64_t to = kv_offset(&a.kv, value ? g - a.kv.heads : g, base + r, base);
        kv_put_row<EP>(kv_at(&a.kv, value ? a.kv.v : a.kv.k, to), a.kv.type, a.kv.size, y);
    }
}

template <int EP> __global__ void __launch_bounds__(STORE_THREADS) ctx_store_kernel(ctx_store_args a) {
    grid_wait();
    grid_release();
    int32_t groups = a.ring.heads, items = a.rows->n * 2 * groups;
    int32_t at = (int32_t)blockIdx.x * STORE_VECTORS + warp_id() * HEADS_AT_ONCE;
    head_in in[HEADS_AT_ONCE];
    head_values<EP> x[HEADS_AT_ONCE];
    UNROLL
    for (int i = 0; i < HEADS_AT_ONCE; i++) {
        if (at + i >= items) continue;
        int32_t r = (at + i) / (2 * groups), h = (at + i) % (2 * groups);
        in[i].x = (const float *)view_row(&a.kv, r) + (int64_t)h * a.ring.size;
        in[i].norm = h < groups ? a.k_norm : (const bf16 *)nullptr;
        in[i].cosine = (const float *)view_row(&a.cos, r);
        in[i].sine = (const float *)view_row(&a.sin, r);
        in[i].size = a.ring.size;
        in[i].half = a.cos.cols;
        in[i].eps = a.eps;
        x[i] = head_load<EP>(in[i]);
    }
    UNROLL
    for (int i = 0; i < HEADS_AT_ONCE; i++) {
        if (at + i >= items) continue;
        int32_t r = (at + i) / (2 * groups), h = (at + i) % (2 * groups);
        int64_t to = kv_offset(&a.ring, h % groups, a.rows->pos[r], 0);
        head_values<EP> y = head_finish<EP>(in[i], x[i]);
        kv_put_row<EP>(kv_at(&a.ring, h < groups ? a.ring.k : a.ring.v, to), DT_BF16, a.ring.size, y);
    }
}

/* --- commit --- */

enum { MOVE_STORES = 64, MOVE_THREADS = 64, TAP_THREADS = 128 };

/* Stores of one launch; they fit a kernel's 4 KiB of arguments. */
typedef struct move_stores {
    kv_store at[MOVE_STORES];
} move_stores;

/* One row over another, in pieces of 16 bytes where all rows allow it. A thread takes the same bytes of every row, so that it reads its part
 * of a row before it writes over it later, and no thread waits for another: a destination is never above its source,
 * and rows come in ascending order. */
__device__ __forceinline__ void move_bytes(void *to, const void *from, int64_t bytes, bool pieces, int64_t at,
                                           int64_t threads) {
    if (pieces) {
        for (int64_t i = 16 * at; i < bytes; i += 16 * threads) *(uint4 *)((char *)to + i) = load16((const char *)from + i);
    } else {
        for (int64_t i = at; i < bytes; i += threads) ((char *)to)[i] = ((const char *)from)[i];
    }
}

/* Block (store, kv head). */
__global__ void __launch_bounds__(MOVE_THREADS) kv_move_kernel(const step_params *p, move_stores stores) {
    grid_wait();
    grid_release();
    const kv_store s = stores.at[blockIdx.x];
    const step_state *st = &p->st;
    int32_t g = (int32_t)blockIdx.y, base = st->move_base;
    if (g >= s.heads) return;
    int64_t bytes = kv_bytes(&s, s.size);
    bool pieces = ((uintptr_t)s.k | (uintptr_t)s.v | (uint64_t)bytes) % 16 == 0;
    for (int32_t j = 1; j < st->n_accepted; j++) {
        if (st->accepted[j] == j) continue;
        int64_t from = kv_offset(&s, g, base + st->accepted[j], base), to = kv_offset(&s, g, base + j, base);
        move_bytes(kv_at(&s, s.k, to), kv_at(&s, s.k, from), bytes, pieces, threadIdx.x, MOVE_THREADS);
        move_bytes(kv_at(&s, s.v, to), kv_at(&s, s.v, from), bytes, pieces, threadIdx.x, MOVE_THREADS);
    }
}

/* Blocks share the columns of the tap ring. */
__global__ void __launch_bounds__(TAP_THREADS) tap_move_kernel(const step_params *p, view ring) {
    grid_wait();
    grid_release();
    const step_state *st = &p->st;
    int64_t bytes = (int64_t)ring.cols * (int64_t)sizeof(bf16);
    bool pieces = ((uintptr_t)ring.data | (uint64_t)ring.stride | (uint64_t)bytes) % 16 == 0;
    for (int32_t j = 1; j < st->n_accepted; j++) {
        if (st->accepted[j] == j) continue;
        move_bytes(view_row(&ring, (st->move_base + j) % ring.rows),
                   view_row(&ring, (st->move_base + st->accepted[j]) % ring.rows), bytes, pieces,
                   (int64_t)blockIdx.x * TAP_THREADS + threadIdx.x, (int64_t)gridDim.x * TAP_THREADS);
    }
}
#endif
