/* kernels/cuda/slice.cuh - a row of logits in slices of one length, a block each, whose findings the row's last block
 * puts together. Slices are cut by the vocabulary alone, so a row's bits do not depend on other rows.
 *
 * Order is one integer: the key of (value, id) is the larger, the further in front it stands in falling order with ties
 * by smaller id. A NaN stands behind everything; 0 is nothing. */
#ifndef KERNELS_CUDA_SLICE_CUH
#define KERNELS_CUDA_SLICE_CUH
#include "kernels/cuda/prims.cuh"
#include "kernels/logprob_core.h"
#include "kernels/rows.h"

enum {
    SLICE = 4096,
    SLICE_THREADS = 512,
    SLICE_WARPS = 16,
    SLICE_EACH = 8, /* elements of a thread: SLICE / SLICE_THREADS */
    SLICE_TOP = PICK_TOP_MAX,
};

HD static inline int32_t slice_count(int32_t vocab) { return (vocab + SLICE - 1) / SLICE; }

/* What a block finds out about its slice. */
struct slice_part {
    uint64_t best;           /* key of what is chosen from */
    uint64_t top[SLICE_TOP]; /* keys of the largest logits, falling */
    float sum;               /* of exp(z - the largest) */
};

__device__ __forceinline__ uint32_t order_of(float y) {
    uint32_t u = bits_of_f32(y + 0.0f); /* -0 is 0 */
    return y != y ? 0 : u >> 31 ? ~u : u | 0x80000000u;
}
__device__ __forceinline__ float value_of_order(uint32_t order) {
    return f32_of_bits(order >> 31 ? order & 0x7FFFFFFFu : ~order);
}
__device__ __forceinline__ uint64_t key_of(float y, int32_t id) { return (uint64_t)order_of(y) << 32 | ~(uint32_t)id; }
__device__ __forceinline__ float key_value(uint64_t key) { return value_of_order((uint32_t)(key >> 32)); }
__device__ __forceinline__ int32_t key_id(uint64_t key) { return (int32_t) ~(uint32_t)key; }

/* --- reductions over the block, in one fixed order; `stage` has SLICE_WARPS --- */

struct join_max {
    template <class T> __device__ T operator()(T a, T b) const { return b > a ? b : a; }
};
struct join_sum {
    template <class T> __device__ T operator()(T a, T b) const { return a + b; }
};

template <class T, class J> __device__ __forceinline__ T warp_reduce(T v, J join) {
    for (int m = WARP / 2; m; m /= 2) v = join(v, warp_xor(v, m));
    return v;
}
template <class T, class J> __device__ __forceinline__ T block_reduce(T v, J join, uint64_t *stage) {
    static_assert(sizeof(T) == sizeof *stage, "one word");
    v = warp_reduce(v, join);
    block_sync(); /* the stage is free */
    if (lane_id() == 0) ((T *)stage)[warp_id()] = v;
    block_sync();
    T all = ((T *)stage)[0];
    for (int32_t i = 1; i < SLICE_WARPS; i++) all = join(all, ((T *)stage)[i]);
    return all;
}

/* --- the largest --- */

/* The k largest of a warp's keys, falling; used up. */
template <int N> __device__ __forceinline__ void warp_largest(uint64_t (&key)[N], int32_t k, uint64_t *out) {
    for (int32_t i = 0; i < k; i++) {
        uint64_t best = key[0];
        for (int32_t j = 1; j < N; j++) best = key[j] > best ? key[j] : best;
        best = warp_reduce(best, join_max());
        for (int32_t j = 0; j < N; j++) key[j] = key[j] == best ? 0 : key[j];
        if (lane_id() == 0) out[i] = best;
    }
}

/* The k largest of n values that stand for ids from `from` on; out is shared memory, as is stage with
 * SLICE_WARPS * SLICE_TOP. For the block. */
__device__ __forceinline__ void slice_largest(const float *z, int32_t from, int32_t n, int32_t k, uint64_t *stage,
                                              uint64_t *out) {
    uint64_t key[SLICE_EACH], late[SLICE_WARPS * SLICE_TOP / WARP];
    for (int32_t j = 0; j < SLICE_EACH; j++) {
        int32_t v = (int32_t)threadIdx.x + j * SLICE_THREADS;
        key[j] = v < n ? key_of(z[v], from + v) : 0;
    }
    warp_largest(key, k, stage + warp_id() * k);
    block_sync();
    if (warp_id() == 0) {
        for (int32_t j = 0; j < SLICE_WARPS * SLICE_TOP / WARP; j++) {
            int32_t i = lane_id() + j * WARP;
            late[j] = i < SLICE_WARPS * k ? stage[i] : 0;
        }
        warp_largest(late, k, out);
    }
    block_sync();
}

/* What exponentials of a slice are relative to: a number, also where nothing compares or everything is infinite. */
__device__ __forceinline__ float slice_origin(uint64_t largest) {
    float m = key_value(largest);
    return m >= -3.4e38f && m <= 3.4e38f ? m : m > 0.0f ? 3.4e38f : -3.4e38f;
}

/* Sum of exp(z - the largest) over the slice; rising within a thread, then the warps'. For the block. */
__device__ __forceinline__ float slice_sum(const float *z, int32_t n, uint64_t largest, float *stage) {
    float sum = 0.0f, origin = slice_origin(largest);
    for (int32_t v = (int32_t)threadIdx.x; v < n; v += SLICE_THREADS) sum += fm_exp(z[v] - origin);
    sum = warp_sum(sum);
    block_sync();
    if (lane_id() == 0) stage[warp_id()] = sum;
    block_sync();
    sum = stage[0];
    for (int32_t i = 1; i < SLICE_WARPS; i++) sum += stage[i];
    return sum;
}

/* --- putting slices together, by one warp --- */

/* The k largest of all slices, each of which holds k falling ones; `taken` has one entry per slice. */
__device__ __forceinline__ void merge_largest(const slice_part *part, int32_t slices, int32_t k, int32_t *taken,
                                              uint64_t *out) {
    for (int32_t s = lane_id(); s < slices; s += WARP) taken[s] = 0;
    for (int32_t i = 0; i < k; i++) {
        uint64_t mine = 0;
        for (int32_t s = lane_id(); s < slices; s += WARP) {
            uint64_t head = taken[s] < k ? part[s].top[taken[s]] : 0;
            mine = head > mine ? head : mine;
        }
        uint64_t best = warp_reduce(mine, join_max());
        for (int32_t s = lane_id(); s < slices; s += WARP)
            if (best && taken[s] < k && part[s].top[taken[s]] == best) taken[s]++;
        if (lane_id() == 0) out[i] = best;
    }
    warp_sync();
}

/* Logarithm of the sum of exp(z - top) over all slices: their sums brought to the one top, in FP64. */
__device__ __forceinline__ double merge_log_sum(const slice_part *part, int32_t slices, uint64_t top) {
    double sum = 0.0, origin = (double)slice_origin(top);
    for (int32_t s = lane_id(); s < slices; s += WARP) {
        double below = (double)slice_origin(part[s].top[0]) - origin;
        sum += (double)part[s].sum * fm_exp_d(below > -700.0 ? below : -700.0);
    }
    return fm_log_d(warp_reduce(sum, join_sum()));
}
#endif
