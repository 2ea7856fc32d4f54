/* tests/simt/simt_mma.cpp - the tensor-core product of a warp: products are exact in FP32, sums go up k one by one,
 * from what D holds. (The device adds in an order of its own; results agree within rounding only.) */
#include "tests/simt/simt_int.h"

namespace simt {

static inline void put_pair(float *first, float *second, uint32_t pair) {
    uint32_t low = pair << 16, high = pair & 0xFFFF0000u;
    memcpy(first, &low, sizeof low);
    memcpy(second, &high, sizeof high);
}

/* The layout is that of the PTX ISA for mma.m16n8k16, as kernels/cuda/mma.cuh repeats it. */
void mma_put(warp *w, uint32_t lane, const float d[4], const uint32_t a[4], const uint32_t b[2]) {
    uint32_t row = lane / 4, q = lane % 4 * 2;
    for (uint32_t i = 0; i < 4; i++) {
        float *to = &w->mma.a[row + i % 2 * 8][q + i / 2 * 8];
        put_pair(to, to + 1, a[i]);
        w->mma.d[row + i / 2 * 8][q + i % 2] = d[i];
    }
    for (uint32_t i = 0; i < 2; i++) put_pair(&w->mma.b[q + i * 8][row], &w->mma.b[q + i * 8 + 1][row], b[i]);
}

void mma_take(const warp *w, uint32_t lane, float d[4]) {
    uint32_t row = lane / 4, q = lane % 4 * 2;
    for (uint32_t i = 0; i < 4; i++) d[i] = w->mma.d[row + i / 2 * 8][q + i % 2];
}

/* D += A B, one row of D per register; a compiler without AVX2 splits it in two, with the same results. */
typedef float row_x8 __attribute__((vector_size(32)));

static inline __attribute__((always_inline)) void rows_product(float (*d)[8], const float (*a)[16],
                                                               const float (*b)[8]) {
    row_x8 rows[16];
    memcpy(rows, b, sizeof rows);
    for (uint32_t r = 0; r < 16; r++) {
        row_x8 sum;
        memcpy(&sum, d[r], sizeof sum);
        for (uint32_t k = 0; k < 16; k++) sum += a[r][k] * rows[k];
        memcpy(d[r], &sum, sizeof sum);
    }
}
__attribute__((target("avx2"))) static void rows_product_avx2(float (*d)[8], const float (*a)[16],
                                                              const float (*b)[8]) {
    rows_product(d, a, b);
}
static void rows_product_plain(float (*d)[8], const float (*a)[16], const float (*b)[8]) { rows_product(d, a, b); }

void mma_product(warp *w) {
    if (__builtin_cpu_supports("avx2"))
        rows_product_avx2(w->mma.d, w->mma.a, w->mma.b);
    else
        rows_product_plain(w->mma.d, w->mma.a, w->mma.b);
}

} // namespace simt
