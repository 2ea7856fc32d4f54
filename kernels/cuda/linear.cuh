/* kernels/cuda/linear.cuh - products of dense matrices: linear, glu, and the scores of the router. */
#ifndef KERNELS_CUDA_LINEAR_CUH
#define KERNELS_CUDA_LINEAR_CUH
#include "kernels/cuda/product.cuh"
#include "kernels/fmath.h"
#include "kernels/op.h"

#include <type_traits>

constexpr int PRODUCT_WARPS = 8, PRODUCT_ROWS = 32; /* most rows that a product with a norm takes */

/* Rows of one product. */
typedef struct product_rows {
    view x;           /* BF16, or F32 with a norm */
    const bf16 *norm; /* NULL: none */
    float eps;
    live_rows live;
} product_rows;

/* The norm's factors of rows [from, from + n) of the input, n <= PRODUCT_ROWS, to shared memory. For a block. */
__device__ __forceinline__ void block_norm_scales(const product_rows &in, int32_t from, int32_t n, float *scale) {
    for (int32_t i = warp_id(); i < n; i += (int)blockDim.x / WARP) {
        float s = warp_norm_scale((const float *)view_row(&in.x, from + i), in.x.cols, in.eps);
        if (lane_id() == 0) scale[i] = s;
    }
}

/* Rows first + 8r + g of the input for lane 4g + q; `n` exist. */
template <int RG>
__device__ __forceinline__ plain_rows<RG> lane_rows(const product_rows &in, int32_t first, int32_t n, const float *,
                                                    const plain_rows<RG> *) {
    plain_rows<RG> rows;
    rows.k = in.x.cols;
#pragma unroll
    for (int r = 0; r < RG; r++) {
        int32_t i = 8 * r + lane_id() / 4;
        rows.row[r] = i < n ? (const bf16 *)view_row(&in.x, first + i) : nullptr;
    }
    return rows;
}
template <int RG>
__device__ __forceinline__ normed_rows<RG> lane_rows(const product_rows &in, int32_t first, int32_t n,
                                                     const float *scale, const normed_rows<RG> *) {
    normed_rows<RG> rows;
    rows.k = in.x.cols;
    rows.norm = in.norm;
#pragma unroll
    for (int r = 0; r < RG; r++) {
        int32_t i = 8 * r + lane_id() / 4;
        rows.row[r] = i < n ? (const float *)view_row(&in.x, first + i) : nullptr;
        rows.scale[r] = i < n ? scale[i] : 0.0f;
    }
    return rows;
}

/* Shared memory of a block: partial sums of all warps for 8 rows, then the norm's factors. */
template <int TM> struct product_shared {
    float sum[PRODUCT_WARPS][TM][SUM_TILE];
    float scale[PRODUCT_ROWS];
    int32_t flag;
};

/* The whole product of a block: TM tiles (the first `tiles` exist) with all live rows, 8 RG at a time. `finish` is
 * called once for every (tile, column of the tile, row) by some thread, with a function that adds up any tile's parts:
 * finish(m, j, i, sum), sum(m) for column j and row i. */
template <int TM, int RG, bool NORMED, class Finish>
__device__ __forceinline__ void block_product(const product_rows &in, const packed &w, const tile_at (&tile)[TM],
                                              int tiles, int finish_tiles, product_shared<TM> *s, int32_t n,
                                              const Finish &finish) {
    typedef typename std::conditional<NORMED, normed_rows<RG>, plain_rows<RG>>::type rows_type;
    int32_t blocks = pack_blocks(w.k), first = live_first(&in.live);
    int32_t from = warp_id() * blocks / PRODUCT_WARPS, to = (warp_id() + 1) * blocks / PRODUCT_WARPS;
    for (int32_t at = 0; at < n; at += 8 * RG) {
        int32_t here = n - at < 8 * RG ? n - at : 8 * RG, groups = (here + 7) / 8;
        if (NORMED) {
            block_norm_scales(in, first + at, here, s->scale);
            block_sync();
        }
        float acc[TM][RG][4];
        clear(acc);
        rows_type rows = lane_rows<RG>(in, first + at, here, s->scale, (const rows_type *)nullptr);
        multiply_by(w, acc, tile, tiles, groups, from, to, rows);
#pragma unroll
        for (int r = 0; r < RG; r++) {
            if (r >= groups) break;
#pragma unroll
            for (int m = 0; m < TM; m++)
                if (m < tiles) spill_tile(s->sum[warp_id()][m], acc[m][r]);
            block_sync();
            for (int i = (int)threadIdx.x; i < finish_tiles * SUM_TILE; i += (int)blockDim.x) {
                /* neighbouring threads have neighbouring columns */
                int row = i / (finish_tiles * PACK_ROWS), m = i / PACK_ROWS % finish_tiles, j = i % PACK_ROWS;
                if (8 * r + row >= here) continue;
                auto sum = [&](int tile_number) {
                    float v = 0.0f;
                    for (int p = 0; p < PRODUCT_WARPS; p++) v += s->sum[p][tile_number][j * SUM_ROW + row];
                    return v;
                };
                finish(m, j, at + 8 * r + row, sum);
            }
            block_sync();
        }
    }
}

/* --- linear --- */

typedef struct linear_part {
    packed w;
    int32_t column; /* of y at which the part begins */
    int32_t block;  /* of the grid, likewise */
} linear_part;

/* Rows of the result that go to the tap ring as well; rows NULL: none. */
typedef struct tap_also {
    view ring;
    int32_t column;
    const row_set *rows;
} tap_also;

__device__ __forceinline__ void tap_store(const tap_also &tap, int32_t i, int32_t n, int32_t column, float v) {
    if (!tap.rows || i < n - tap.ring.rows) return;
    ((bf16 *)view_row(&tap.ring, (tap.rows->base + i) % tap.ring.rows))[tap.column + column] = bf16_of_f32(v);
}

typedef struct linear_job {
    product_rows in;
    view y, add;
    linear_part part[LINEAR_PARTS];
    tap_also tap;
} linear_job;

template <int TM, int RG, bool NORMED>
__global__ void __launch_bounds__(PRODUCT_WARPS *WARP, 1) linear_kernel(linear_job job) {
    product_shared<TM> *s = (product_shared<TM> *)shared_memory();
    int p = 0;
    while (p + 1 < LINEAR_PARTS && (int32_t)blockIdx.x >= job.part[p + 1].block) p++;
    const linear_part &part = job.part[p];
    int32_t at = ((int32_t)blockIdx.x - part.block) * TM, left = pack_tiles(part.w.n) - at;
    int tiles = left < TM ? left : TM;
    tile_at tile[TM];
#pragma unroll
    for (int m = 0; m < TM; m++) tile[m] = tile_of(part.w, at + (m < tiles ? m : 0));
    for (int m = 0; m < tiles; m++) prefetch_tile(part.w, tile[m]);
    grid_release();
    grid_wait();
    int32_t n = *job.in.live.n;
    block_product<TM, RG, NORMED>(job.in, part.w, tile, tiles, tiles, s, n, [&](int m, int j, int32_t i, auto sum) {
        int32_t local = (at + m) * PACK_ROWS + j, column = part.column + local;
        if (local >= part.w.n) return;
        float v = sum(m);
        if (job.add.data) v += ((const float *)view_row(&job.add, i))[column];
        ((float *)view_row(&job.y, i))[column] = v;
        tap_store(job.tap, i, n, column, v);
    });
}

/* --- gate and up --- */

typedef struct glu_job {
    product_rows in;
    view y;
    packed gate, up;
} glu_job;

/* The first half of the tiles is of the gate, the second of up, for the same columns. */
template <int T, int RG, bool NORMED>
__global__ void __launch_bounds__(PRODUCT_WARPS *WARP, 1) glu_kernel(glu_job job) {
    product_shared<2 *T> *s = (product_shared<2 * T> *)shared_memory();
    int32_t at = (int32_t)blockIdx.x * T;
    tile_at tile[2 * T];
#pragma unroll
    for (int m = 0; m < T; m++) tile[m] = tile_of(job.gate, at + m), tile[T + m] = tile_of(job.up, at + m);
    for (int m = 0; m < 2 * T; m++) prefetch_tile(job.gate, tile[m]);
    grid_release();
    grid_wait();
    int32_t n = *job.in.live.n;
    block_product<2 * T, RG, NORMED>(job.in, job.gate, tile, 2 * T, T, s, n, [&](int m, int j, int32_t i, auto sum) {
        int32_t column = (at + m) * PACK_ROWS + j;
        if (column >= job.gate.n) return;
        ((bf16 *)view_row(&job.y, i))[column] = bf16_of_f32(fm_silu(sum(m)) * sum(T + m));
    });
}
#endif
