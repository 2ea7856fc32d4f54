/* kernels/cuda/fast.cuh - around the products of fast.h. */
#ifndef KERNELS_CUDA_FAST_CUH
#define KERNELS_CUDA_FAST_CUH
#include "kernels/cuda/linear.cuh"

/* A packed matrix as rows of BF16; a stride of `stride` elements, whole blocks, those behind k zeros. A warp has one
 * block of one tile. Exact for MXFP4 as well (pack.h). */
template <bool MXFP4> __global__ void __launch_bounds__(256) expand_kernel(packed w, bf16 *out, int64_t stride) {
    int32_t blocks = pack_blocks(w.k), item = (int32_t)blockIdx.x * (256 / WARP) + warp_id();
    bool mine = item < pack_tiles(w.n) * blocks;
    int32_t tile = item / blocks, block = item % blocks, g = lane_id() / 4, q = lane_id() % 4;
    piece<MXFP4> p = {};
    if (mine) p.load(tile_of(w, tile), block);
    grid_release();
    grid_wait();
    if (!mine) return;
    int32_t row = tile * PACK_ROWS + g;
    bf16 *to = out + (int64_t)row * stride + block * PACK_COLS + q * 8;
#pragma unroll
    for (int half = 0; half < 2; half++, to += PACK_COLS / 2) {
        uint32_t a[4], b[4];
        p.operand(2 * half, a);
        p.operand(2 * half + 1, b);
        if (row < w.n) *(uint4 *)to = make_uint4(a[0], a[2], b[0], b[2]);
        if (row + 8 < w.n) *(uint4 *)(to + 8 * stride) = make_uint4(a[1], a[3], b[1], b[3]);
    }
}

/* y = bf16( silu(gate) * up ) of the live rows; F32 in. Grid: columns / 256, rows. */
static __global__ void __launch_bounds__(256) gate_kernel(view gate, view up, view y, live_rows live) {
    int32_t row = (int32_t)blockIdx.y, column = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    grid_release();
    grid_wait();
    if (row >= *live.n || column >= y.cols) return;
    float g = ((const float *)view_row(&gate, row))[column], u = ((const float *)view_row(&up, row))[column];
    ((bf16 *)view_row(&y, row))[column] = bf16_of_f32(fm_silu(g) * u);
}
#endif
