#include "engine/base/dtype.h"

static const int BITS[DT_COUNT] = {
    [DT_F32] = 32, [DT_BF16] = 16, [DT_F16] = 16, [DT_I32] = 32, [DT_U8] = 8, [DT_MXFP4] = 4, [DT_E4M3] = 8
};

int dtype_bits(dtype t) { return BITS[t]; }

float f32_of_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 0x3FF;
    if (exp == 31) return f32_of_bits(sign | 0x7F800000u | man << 13);
    if (exp) return f32_of_bits(sign | (exp + 112) << 23 | man << 13);
    float tiny = (float)man * 0x1p-24f; /* subnormal half: exact in FP32 */
    return sign ? -tiny : tiny;
}
