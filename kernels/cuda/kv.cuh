/* kernels/cuda/kv.cuh - stores: head vectors into them, and rows that move within them. */
#ifndef KERNELS_CUDA_KV_CUH
#define KERNELS_CUDA_KV_CUH
#include "kernels/cuda/head.cuh"
#include "kernels/tap.h"

/* --- a warp takes HEADS_AT_ONCE vectors --- */

constexpr int STORE_THREADS = 256, STORE_VECTORS = STORE_THREADS / WARP * HEADS_AT_ONCE;

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

constexpr int MOVE_STORES = 60, MOVE_THREADS = 64, TAP_THREADS = 128;

/* Stores of one launch; they fit a kernel's 4 KiB of arguments. */
typedef struct move_stores {
    kv_store at[MOVE_STORES];
} move_stores;
static_assert(sizeof(move_stores) + sizeof(step_params *) <= 4096, "arguments of kv_move_kernel");

/* One row over another, in pieces of 16 bytes where all rows allow it. A thread takes the same bytes of every row, so
 * that it reads its part of a row before it writes over it later, and no thread waits for another: a destination is
 * never above its source, and rows come in ascending order. */
__device__ __forceinline__ void move_bytes(void *to, const void *from, int64_t bytes, bool pieces, int64_t at,
                                           int64_t threads) {
    if (pieces) {
        for (int64_t i = 16 * at; i < bytes; i += 16 * threads)
            *(uint4 *)((char *)to + i) = load16((const char *)from + i);
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
