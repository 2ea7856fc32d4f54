/* kernels/cuda/product.cuh - the one way in which all kernels multiply rows by a weight matrix.
 *
 * Weights take the 16-side of the tensor-core instruction, rows the 8-side, so columns of a tile do not influence each
 * other: one row and thirty-two rows run the same sequence for each row. The order of additions of an output element is
 * fixed by the length k alone:
 *   1. The blocks of 64 columns are shared out among `parts` warps, part p gets blocks [p B / parts, (p + 1) B /
 * parts).
 *   2. A warp adds its blocks in rising order, four instructions each.
 *   3. The parts are added in rising order, in FP32.
 * How many tiles a warp has in hand (TM) and how many groups of 8 rows (RG) changes no bit. */
#ifndef KERNELS_CUDA_PRODUCT_CUH
#define KERNELS_CUDA_PRODUCT_CUH
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/pack.h"

/* A matrix on the device, as a kernel takes it. */
typedef struct packed {
    const char *data, *scale;
    int32_t n, k;
    int32_t mxfp4;
} packed;

/* The first of a tile's blocks. */
typedef struct tile_at {
    const char *data, *scale;
} tile_at;

__device__ __forceinline__ tile_at tile_of(const packed &w, int32_t tile) {
    tile_at t;
    t.data = w.data + tile * pack_tile_bytes(w.k, w.mxfp4 ? DT_MXFP4 : DT_BF16);
    t.scale = w.mxfp4 ? w.scale + tile * pack_tile_scales(w.k) : nullptr;
    return t;
}

/* The tile's first bytes on their way to the second-level cache, while the kernel before still runs. For a block. */
__device__ __forceinline__ void prefetch_tile(const packed &w, const tile_at &t) {
    int32_t at = (int32_t)threadIdx.x * 128;
    if (at < pack_tile_bytes(w.k, w.mxfp4 ? DT_MXFP4 : DT_BF16)) prefetch_l2(t.data + at);
}

/* --- rows --- */

/* Rows of BF16; a row that does not exist is NULL and counts as zeros. Lane 4g + q has row g of every group. */
template <int RG> struct plain_rows {
    const bf16 *row[RG];
    int32_t k;

    /* Columns at .. at + 7, at a multiple of 8. */
    __device__ __forceinline__ uint4 take(int r, int32_t at) const {
        if (!row[r] || at >= k) return make_uint4(0, 0, 0, 0);
        if (at + 8 <= k) return load16(row[r] + at);
        uint32_t v[8];
        for (int i = 0; i < 8; i++) v[i] = at + i < k ? row[r][at + i] : 0;
        return make_uint4(v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16);
    }
};

/* Rows of FP32 behind RMSNorm, rounded to BF16 as they are taken. */
template <int RG> struct normed_rows {
    const float *row[RG];
    float scale[RG];
    const bf16 *norm;
    int32_t k;

    __device__ __forceinline__ uint32_t pair(int r, float a, float b, uint32_t w) const {
        return pack_bf16x2((a * scale[r]) * low_f32(w), (b * scale[r]) * high_f32(w));
    }
    __device__ __forceinline__ uint4 take(int r, int32_t at) const {
        if (!row[r] || at >= k) return make_uint4(0, 0, 0, 0);
        if (at + 8 <= k) {
            float4 a = *(const float4 *)(row[r] + at), b = *(const float4 *)(row[r] + at + 4);
            uint4 w = load16(norm + at);
            return make_uint4(pair(r, a.x, a.y, w.x), pair(r, a.z, a.w, w.y), pair(r, b.x, b.y, w.z),
                              pair(r, b.z, b.w, w.w));
        }
        uint32_t v[8];
        for (int i = 0; i < 8; i++)
            v[i] = at + i < k ? bf16_of_f32((row[r][at + i] * scale[r]) * f32_of_bf16(norm[at + i])) : 0;
        return make_uint4(v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16);
    }
};

/* --- one block of one tile --- */

template <bool MXFP4> struct piece;

template <> struct piece<false> {
    uint4 v[4];

    __device__ __forceinline__ void load(const tile_at &t, int32_t block) {
        const char *at = t.data + (int64_t)block * PACK_BF16 + lane_id() * 16;
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = stream16(at + i * (WARP * 16));
    }
    /* The operands of instruction i of 4. */
    __device__ __forceinline__ void operand(int i, uint32_t a[4]) const {
        const uint4 &g = v[i / 2 * 2], &h = v[i / 2 * 2 + 1];
        a[0] = i % 2 ? g.z : g.x, a[1] = i % 2 ? h.z : h.x;
        a[2] = i % 2 ? g.w : g.y, a[3] = i % 2 ? h.w : h.y;
    }
};

/* E2M1 at the top of each half of a word, as BF16 times 2^-126: the exponent's two bits and the mantissa's one go to
 * the lowest places of their fields, so a code without an exponent is a subnormal number, and stays exact. */
__device__ __forceinline__ uint32_t mxfp4_spread(uint32_t t) { return (t & 0x80008000u) | (t >> 6 & 0x01C001C0u); }
/* 2^(byte - 127 + 126) in both halves. */
__device__ __forceinline__ uint32_t mxfp4_factor(uint32_t byte) { return ((byte + 126) << 7) * 0x00010001u; }

template <> struct piece<true> {
    uint4 v;
    uint32_t s;

    __device__ __forceinline__ void load(const tile_at &t, int32_t block) {
        v = stream16(t.data + (int64_t)block * PACK_MXFP4 + lane_id() * 16);
        s = stream4(t.scale + (int64_t)block * PACK_SCALES + lane_id() / 4 * 4);
    }
    __device__ __forceinline__ void operand(int i, uint32_t a[4]) const {
        uint32_t w = i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
        uint32_t low = mxfp4_factor(s >> (i / 2 * 8) & 255), high = mxfp4_factor(s >> (16 + i / 2 * 8) & 255);
        a[0] = mul_bf16x2(mxfp4_spread(w << 12), low);
        a[1] = mul_bf16x2(mxfp4_spread(w << 8), high);
        a[2] = mul_bf16x2(mxfp4_spread(w << 4), low);
        a[3] = mul_bf16x2(mxfp4_spread(w), high);
    }
};

/* --- a warp's share --- */

/* acc[m][r] += tile m times rows of group r, over blocks [from, to). The first `tiles` of the TM tiles exist, and the
 * first `groups` of the RG groups have rows. The next block's weights are under way while one is multiplied. */
template <bool MXFP4, int TM, int RG, class Rows>
__device__ __forceinline__ void multiply(float (&acc)[TM][RG][4], const tile_at (&tile)[TM], int tiles, int groups,
                                         int32_t from, int32_t to, const Rows &rows) {
    if (from >= to) return;
    piece<MXFP4> next[TM] = {};
#pragma unroll
    for (int m = 0; m < TM; m++)
        if (m < tiles) next[m].load(tile[m], from);
    for (int32_t b = from; b < to; b++) {
        piece<MXFP4> now[TM];
#pragma unroll
        for (int m = 0; m < TM; m++) {
            now[m] = next[m];
            if (m < tiles && b + 1 < to) next[m].load(tile[m], b + 1);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t a[TM][2][4];
#pragma unroll
            for (int m = 0; m < TM; m++) {
                now[m].operand(2 * half, a[m][0]);
                now[m].operand(2 * half + 1, a[m][1]);
            }
#pragma unroll
            for (int r = 0; r < RG; r++) {
                if (r >= groups) break;
                uint4 x = rows.take(r, b * PACK_COLS + half * 32 + lane_id() % 4 * 8);
                uint32_t first[2] = { x.x, x.y }, second[2] = { x.z, x.w };
#pragma unroll
                for (int m = 0; m < TM; m++) {
                    if (m >= tiles) break;
                    mma_16x8x16(acc[m][r], a[m][0], first);
                    mma_16x8x16(acc[m][r], a[m][1], second);
                }
            }
        }
    }
}

/* For a matrix of either type. */
template <int TM, int RG, class Rows>
__device__ __forceinline__ void multiply_by(const packed &w, float (&acc)[TM][RG][4], const tile_at (&tile)[TM],
                                            int tiles, int groups, int32_t from, int32_t to, const Rows &rows) {
    if (w.mxfp4)
        multiply<true>(acc, tile, tiles, groups, from, to, rows);
    else
        multiply<false>(acc, tile, tiles, groups, from, to, rows);
}

template <int TM, int RG> __device__ __forceinline__ void clear(float (&acc)[TM][RG][4]) {
#pragma unroll
    for (int m = 0; m < TM; m++)
#pragma unroll
        for (int r = 0; r < RG; r++)
#pragma unroll
            for (int i = 0; i < 4; i++) acc[m][r][i] = 0.0f;
}

/* A tile's results for 8 rows, as the lanes hold them, to [column][row] of shared memory. */
constexpr int SUM_ROW = 8, SUM_TILE = PACK_ROWS * SUM_ROW;

__device__ __forceinline__ void spill_tile(float *to, const float d[4]) {
    int g = lane_id() / 4, q = lane_id() % 4;
    to[g * SUM_ROW + 2 * q] = d[0], to[g * SUM_ROW + 2 * q + 1] = d[1];
    to[(g + 8) * SUM_ROW + 2 * q] = d[2], to[(g + 8) * SUM_ROW + 2 * q + 1] = d[3];
}
#endif
