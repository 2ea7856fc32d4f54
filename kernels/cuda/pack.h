/* kernels/cuda/pack.h - how a matrix [n][k] lies on the device.
 *
 * Tiles of 16 rows, blocks of 64 columns; both are filled up with zeros. A block of a tile is what one warp multiplies
 * in four tensor-core instructions (mma.cuh), and each lane finds its part as pieces of 16 bytes:
 *   BF16:  [tile][block][i][lane 4g + q] of 16 bytes, i = 2 * half + side: row g + 8 * side, columns 32 * half + 8q ..
 *          8q + 7 of the block
 *   MXFP4: [tile][block][lane] of 16 bytes: one word an instruction, four instructions along the columns. Nibbles j and
 *          j + 4 of a word are the two columns of register a[j]
 *   its scales: [tile][block][g] of 4 bytes: row g first and second 32 columns, then row g + 8 likewise */
#ifndef KERNELS_CUDA_PACK_H
#define KERNELS_CUDA_PACK_H
#include "engine/base/hd.h"
#include "kernels/linear.h"

enum {
    PACK_ROWS = 16,
    PACK_COLS = 64,
    PACK_BF16 = PACK_ROWS * PACK_COLS * 2, /* bytes of a block */
    PACK_MXFP4 = PACK_ROWS * PACK_COLS / 2,
    PACK_SCALES = PACK_ROWS * PACK_COLS / 32,
    PACK_SCALE_MAX = 128 /* largest E8M0 byte that can be held, 2^1: a value is a BF16 product with 2^(byte - 1) */
};

HD static inline int32_t pack_tiles(int32_t n) { return (n + PACK_ROWS - 1) / PACK_ROWS; }
HD static inline int32_t pack_blocks(int32_t k) { return (k + PACK_COLS - 1) / PACK_COLS; }
HD static inline int64_t pack_tile_bytes(int32_t k, dtype type) {
    return (int64_t)pack_blocks(k) * (type == DT_MXFP4 ? PACK_MXFP4 : PACK_BF16);
}
HD static inline int64_t pack_tile_scales(int32_t k) { return (int64_t)pack_blocks(k) * PACK_SCALES; }
/* Bytes of the whole matrix, and of its scales (0 for BF16). */
HD static inline int64_t pack_bytes(int32_t n, int32_t k, dtype type) {
    return pack_tiles(n) * pack_tile_bytes(k, type);
}
HD static inline int64_t pack_scale_bytes(int32_t n, int32_t k, dtype type) {
    return type == DT_MXFP4 ? pack_tiles(n) * pack_tile_scales(k) : 0;
}
#endif
