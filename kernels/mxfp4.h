/* kernels/mxfp4.h - MXFP4 (OCP Microscaling 1.0): E2M1 codes in groups of 32 along the input columns, with one E8M0
 * scale. value = E2M1(code) * 2^(scale - 127). A scale byte of 0xFF is NaN; the loader refuses it. */
#ifndef KERNELS_MXFP4_H
#define KERNELS_MXFP4_H
#include <math.h>
#include <stdint.h>
#include "engine/base/hd.h"

enum { MXFP4_GROUP = 32, MXFP4_SCALE_NAN = 0xFF };

HD static inline float mxfp4_code_value(unsigned code) {
    static const float MAGNITUDE[8] = { 0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f };
    float m = MAGNITUDE[code & 7];
    return code & 8 ? -m : m;
}

/* Exact: at most two significant bits. Subnormal below scale 2; infinite from scale 253 on for the largest codes. */
HD static inline float mxfp4_value(unsigned code, uint8_t scale) {
    return ldexpf(mxfp4_code_value(code), (int)scale - 127);
}

/* Code of column c in a packed row. */
HD static inline unsigned mxfp4_code(const uint8_t *row, int64_t c) { return row[c / 2] >> (c & 1 ? 4 : 0) & 15; }
#endif
