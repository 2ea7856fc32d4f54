/* kernels/e4m3.h - E4M3 (OCP 8-bit floating point, the variant without infinities): sign, four bits of exponent with
 * bias 7, three of mantissa. Values reach 448; exponent 0 is subnormal, in steps of 2^-9; S.1111.111 is NaN. Every
 * value is a BF16 value too, so an E4M3 store means the BF16 store with the same numbers.
 *
 * Pure functions on bits: flushing of subnormal FP32 numbers cannot change a result. */
#ifndef KERNELS_E4M3_H
#define KERNELS_E4M3_H
#include <stdint.h>
#include "engine/base/dtype.h"

typedef uint8_t e4m3;

/* FP32 bits, sign left out, and the distance of the exponents' biases in front of three bits of mantissa. */
#define E4M3_MAX 0x43E00000u    /* 448 */
#define E4M3_NORMAL 0x3C800000u /* 2^-6, the least normal value */
#define E4M3_STEPS 0x46800000u  /* 2^14: a sum with it is rounded to steps of 2^-9 */
#define E4M3_REBIAS 960         /* (127 - 7) * 8 */

/* To nearest, ties to even, saturating: what is larger than 448, infinities too, becomes 448. NaN stays NaN, and zero
 * keeps its sign. */
HD static inline e4m3 e4m3_of_f32(float f) {
    uint32_t u = bits_of_f32(f), sign = u >> 24 & 0x80, a = u & 0x7FFFFFFFu;
    if (a > 0x7F800000u) return (e4m3)(sign | 0x7F);
    if (a > E4M3_MAX) a = E4M3_MAX;
    if (a < E4M3_NORMAL) return (e4m3)(sign | (bits_of_f32(f32_of_bits(a) + f32_of_bits(E4M3_STEPS)) - E4M3_STEPS));
    return (e4m3)(sign | (((a + 0x7FFFFu + (a >> 20 & 1)) >> 20) - E4M3_REBIAS));
}

/* Exact. */
HD static inline bf16 bf16_of_e4m3(e4m3 c) {
    static const bf16 SUBNORMAL[8] = { 0, 0x3B00, 0x3B80, 0x3BC0, 0x3C00, 0x3C20, 0x3C40, 0x3C60 }; /* i * 2^-9 */
    uint32_t sign = (uint32_t)(c & 0x80) << 8, a = c & 0x7F;
    if (a == 0x7F) return (bf16)(sign | 0x7FC0);
    return (bf16)(sign | (a < 8 ? SUBNORMAL[a] : (a + E4M3_REBIAS) << 4));
}
HD static inline float f32_of_e4m3(e4m3 c) { return f32_of_bf16(bf16_of_e4m3(c)); }
#endif
