/* tests/simt/simt_mma.cpp - the tensor-core product of a warp: products are exact in FP32, sums go up k one by one,
 * from what D holds. (The device adds in an order of its own; results agree within rounding only.) */
#include "tests/simt/simt_int.h"

namespace simt {

typedef float float_x4 __attribute__((vector_size(16)));

static inline float low(uint32_t pair) {
    uint32_t bits = pair << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline float high(uint32_t pair) {
    uint32_t bits = pair & 0xFFFF0000u;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The layout is that of the PTX ISA for mma.m16n8k16, as kernels/cuda/mma.cuh repeats it. */
void mma_product(warp *w) {
    float a[16][16], d[16][8];
    alignas(16) float b[16][8];
    for (uint32_t lane = 0; lane < LANES; lane++) {
        const auto &m = w->mma[lane];
        uint32_t row = lane / 4, q = lane % 4 * 2;
        for (uint32_t i = 0; i < 4; i++) {
            float *to = &a[row + i % 2 * 8][q + i / 2 * 8];
            to[0] = low(m.a[i]);
            to[1] = high(m.a[i]);
            d[row + i / 2 * 8][q + i % 2] = m.d[i];
        }
        for (uint32_t i = 0; i < 2; i++) {
            b[q + i * 8][row] = low(m.b[i]);
            b[q + i * 8 + 1][row] = high(m.b[i]);
        }
    }
    for (uint32_t row = 0; row < 16; row++) {
        float_x4 left, right, x, y;
        memcpy(&left, d[row], sizeof left);
        memcpy(&right, d[row] + 4, sizeof right);
        for (uint32_t k = 0; k < 16; k++) {
            memcpy(&x, b[k], sizeof x);
            memcpy(&y, b[k] + 4, sizeof y);
            left += a[row][k] * x;
            right += a[row][k] * y;
        }
        memcpy(d[row], &left, sizeof left);
        memcpy(d[row] + 4, &right, sizeof right);
    }
    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t i = 0; i < 4; i++) w->mma[lane].d[i] = d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

} // namespace simt
