/* engine/base/dtype.h - element types of tensors, and BF16 / F16 conversions.
 * BF16 is the upper half of an FP32; to BF16 is round to nearest, ties to even. */
#ifndef ENGINE_BASE_DTYPE_H
#define ENGINE_BASE_DTYPE_H
#include <stdint.h>
#include <string.h>
#include "engine/base/hd.h"

typedef enum dtype { DT_F32, DT_BF16, DT_F16, DT_I32, DT_U8, DT_MXFP4, DT_E4M3, DT_COUNT } dtype;

int dtype_bits(dtype t); /* MXFP4: 4, without its scales */

typedef uint16_t bf16;

HD static inline float f32_of_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
HD static inline uint32_t bits_of_f32(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
HD static inline float f32_of_bf16(bf16 b) { return f32_of_bits((uint32_t)b << 16); }
HD static inline bf16 bf16_of_f32(float f) {
    uint32_t u = bits_of_f32(f);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return (bf16)(u >> 16 | 0x40); /* NaN stays NaN */
    return (bf16)((u + 0x7FFFu + (u >> 16 & 1)) >> 16);
}
float f32_of_f16(uint16_t h);
#endif
