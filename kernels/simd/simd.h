/* kernels/simd/simd.h - the vector implementations: the same sources compiled once per instruction set.
 * Inside a source, SIMD(name) is the name with the instruction set behind it. */
#ifndef KERNELS_SIMD_SIMD_H
#define KERNELS_SIMD_SIMD_H
#include "kernels/dispatch.h"

extern op_fn *const simd_table_avx2[OP_COUNT];
extern op_fn *const simd_table_avx512[OP_COUNT];
extern op_fn *const simd_table_avx512bf16[OP_COUNT];

#ifdef SIMD_ISA
#define SIMD_PASTE_(a, b) a##_##b
#define SIMD_PASTE(a, b) SIMD_PASTE_(a, b)
#define SIMD(name) SIMD_PASTE(simd_##name, SIMD_ISA)

op_fn SIMD(embed), SIMD(rope), SIMD(norm), SIMD(linear), SIMD(glu), SIMD(qkv_store), SIMD(attn), SIMD(route),
    SIMD(moe_up), SIMD(moe_down), SIMD(tap), SIMD(tap_norm), SIMD(ctx_store), SIMD(topk), SIMD(pick);
#endif
#endif
