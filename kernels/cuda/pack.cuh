/* kernels/cuda/pack.cuh - between the layout of files and that of pack.h. A warp has one block of one tile. */
#ifndef KERNELS_CUDA_PACK_CUH
#define KERNELS_CUDA_PACK_CUH
#include "kernels/cuda/pack.h"
#include "kernels/cuda/prims.cuh"
#include "kernels/mxfp4.h"

/* Some rows of a matrix as they lie in a file, row 0 being the first row of a tile. */
typedef struct file_rows {
    unsigned char *data, *scale;
    int32_t rows, k;
} file_rows;

enum { PACK_FLAG_SCALE = 0 };

/* Column of the block that element j (of eight) of piece i of lane q stands for; rows are g and g + 8. */
__device__ __forceinline__ int32_t bf16_column(int i, int q, int j) { return i / 2 * 32 + q * 8 + j; }
/* Word w, register a: of the register's two columns the first. */
__device__ __forceinline__ int32_t mxfp4_column(int w, int a, int q) {
    return w / 2 * 32 + q * 8 + (2 * (w % 2) + a / 2) * 2;
}

static __global__ void __launch_bounds__(256) pack_bf16_kernel(file_rows in, int32_t tiles, char *out) {
    int32_t blocks = pack_blocks(in.k), item = (int32_t)blockIdx.x * (256 / WARP) + warp_id();
    if (item >= tiles * blocks) return;
    int32_t tile = item / blocks, block = item % blocks, g = lane_id() / 4, q = lane_id() % 4;
    for (int i = 0; i < 4; i++) {
        int32_t row = tile * PACK_ROWS + g + i % 2 * 8;
        uint16_t *to = (uint16_t *)(out + (int64_t)item * PACK_BF16 + (i * WARP + lane_id()) * 16);
        for (int j = 0; j < 8; j++) {
            int32_t c = block * PACK_COLS + bf16_column(i, q, j);
            const unsigned char *from = in.data + ((int64_t)row * in.k + c) * 2;
            to[j] = row < in.rows && c < in.k ? (uint16_t)(from[0] | from[1] << 8) : 0;
        }
    }
}

static __global__ void __launch_bounds__(256) unpack_bf16_kernel(file_rows out, int32_t tiles, const char *in) {
    int32_t blocks = pack_blocks(out.k), item = (int32_t)blockIdx.x * (256 / WARP) + warp_id();
    if (item >= tiles * blocks) return;
    int32_t tile = item / blocks, block = item % blocks, g = lane_id() / 4, q = lane_id() % 4;
    for (int i = 0; i < 4; i++) {
        int32_t row = tile * PACK_ROWS + g + i % 2 * 8;
        const uint16_t *from = (const uint16_t *)(in + (int64_t)item * PACK_BF16 + (i * WARP + lane_id()) * 16);
        for (int j = 0; j < 8; j++) {
            int32_t c = block * PACK_COLS + bf16_column(i, q, j);
            if (row >= out.rows || c >= out.k) continue;
            unsigned char *to = out.data + ((int64_t)row * out.k + c) * 2;
            to[0] = (unsigned char)from[j], to[1] = (unsigned char)(from[j] >> 8);
        }
    }
}

/* k is a multiple of 32, so no byte is half in and half out. */
static __global__ void __launch_bounds__(256)
    pack_mxfp4_kernel(file_rows in, int32_t tiles, char *out, char *scales, int32_t *flags) {
    int32_t blocks = pack_blocks(in.k), item = (int32_t)blockIdx.x * (256 / WARP) + warp_id();
    if (item >= tiles * blocks) return;
    int32_t tile = item / blocks, block = item % blocks, g = lane_id() / 4, q = lane_id() % 4;
    uint32_t *to = (uint32_t *)(out + (int64_t)item * PACK_MXFP4 + lane_id() * 16);
    for (int w = 0; w < 4; w++) {
        uint32_t word = 0;
        for (int a = 0; a < 4; a++) {
            int32_t row = tile * PACK_ROWS + g + a % 2 * 8, c = block * PACK_COLS + mxfp4_column(w, a, q);
            if (row >= in.rows || c >= in.k) continue;
            uint32_t byte = in.data[((int64_t)row * in.k + c) / 2];
            word |= (byte & 15) << 4 * a | (byte >> 4) << (16 + 4 * a);
        }
        to[w] = word;
    }
    if (q) return;
    unsigned char *scale = (unsigned char *)(scales + (int64_t)item * PACK_SCALES + g * 4);
    for (int i = 0; i < 4; i++) {
        int32_t row = tile * PACK_ROWS + g + i / 2 * 8, group = block * 2 + i % 2;
        bool here = row < in.rows && group < in.k / MXFP4_GROUP;
        scale[i] = here ? in.scale[(int64_t)row * (in.k / MXFP4_GROUP) + group] : 0;
        if (scale[i] > PACK_SCALE_MAX) flags[PACK_FLAG_SCALE] = 1;
    }
}

static __global__ void __launch_bounds__(256)
    unpack_mxfp4_kernel(file_rows out, int32_t tiles, const char *in, const char *scales) {
    int32_t blocks = pack_blocks(out.k), item = (int32_t)blockIdx.x * (256 / WARP) + warp_id();
    if (item >= tiles * blocks) return;
    int32_t tile = item / blocks, block = item % blocks, g = lane_id() / 4, q = lane_id() % 4;
    const uint32_t *from = (const uint32_t *)(in + (int64_t)item * PACK_MXFP4 + lane_id() * 16);
    for (int w = 0; w < 4; w++) {
        for (int a = 0; a < 4; a++) {
            int32_t row = tile * PACK_ROWS + g + a % 2 * 8, c = block * PACK_COLS + mxfp4_column(w, a, q);
            if (row >= out.rows || c >= out.k) continue;
            uint32_t low = from[w] >> 4 * a & 15, high = from[w] >> (16 + 4 * a) & 15;
            out.data[((int64_t)row * out.k + c) / 2] = (unsigned char)(low | high << 4);
        }
    }
    if (q) return;
    const unsigned char *scale = (const unsigned char *)(scales + (int64_t)item * PACK_SCALES + g * 4);
    for (int i = 0; i < 4; i++) {
        int32_t row = tile * PACK_ROWS + g + i / 2 * 8, group = block * 2 + i % 2;
        if (row < out.rows && group < out.k / MXFP4_GROUP)
            out.scale[(int64_t)row * (out.k / MXFP4_GROUP) + group] = scale[i];
    }
}
#endif
