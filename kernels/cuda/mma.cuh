/* kernels/cuda/mma.cuh - the tensor-core product, and the layout in which weights lie for it.
 *
 * D[16][8] += A[16][16] B[16][8], BF16 with FP32 sums (PTX ISA, mma.m16n8k16). Lane 4g + q holds
 *   A: a[0] row g, a[1] row g + 8, a[2] and a[3] the same rows, eight columns further; two columns each
 *   B: b[0] two rows of column g, b[1] the same eight rows further
 *   D: d[0], d[1] row g, columns 2q and 2q + 1; d[2], d[3] row g + 8
 *
 * Which column of a matrix is which k of the instruction is free as long as A and B agree. Here lane q of four holds
 * eight neighbouring columns of a 32-column block, columns 8q .. 8q + 7: the first four for one instruction, the others
 * for the next. So a lane reads its part of a row of activations, or of keys, with one load of 16 bytes, and rows need
 * no layout of their own. */
#ifndef KERNELS_CUDA_MMA_CUH
#define KERNELS_CUDA_MMA_CUH
#include "kernels/cuda/prims.cuh"
#include "engine/base/dtype.h"

__device__ __forceinline__ void mma_16x8x16(float d[4], const uint32_t a[4], const uint32_t b[2]) {
#ifdef SKIFF_SIMT
    simt_mma_16x8x16(d, a, b);
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Two BF16 products, each rounded once; the low half is the first. */
__device__ __forceinline__ uint32_t mul_bf16x2(uint32_t a, uint32_t b) {
#ifdef SKIFF_SIMT
    float lo = f32_of_bits(a << 16) * f32_of_bits(b << 16);
    float hi = f32_of_bits(a & 0xFFFF0000u) * f32_of_bits(b & 0xFFFF0000u);
    return (uint32_t)bf16_of_f32(hi) << 16 | bf16_of_f32(lo);
#else
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(0x80008000u));
    return d;
#endif
}

/* Two FP32 numbers rounded to BF16. */
__device__ __forceinline__ uint32_t pack_bf16x2(float lo, float hi) {
#ifdef SKIFF_SIMT
    return (uint32_t)bf16_of_f32(hi) << 16 | bf16_of_f32(lo);
#else
    uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
#endif
}
__device__ __forceinline__ float low_f32(uint32_t pair) { return f32_of_bits(pair << 16); }
__device__ __forceinline__ float high_f32(uint32_t pair) { return f32_of_bits(pair & 0xFFFF0000u); }
#endif
