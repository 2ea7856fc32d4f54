/* kernels/fmath.h - the canonical arithmetic: one definition of every elementary operation, with its order of
 * additions.
 *
 * Every backend of the CPU gives exactly these bits. Functions here are the scalar definition; kernels/simd/vec.h has
 * the same operations, in the same order, on vectors. Fused operations are written as fmaf; the compiler contracts
 * nothing (-ffp-contract=off). Lanes run with flush-to-zero and denormals-are-zero (kernels/pool.c), because the BF16
 * dot instruction has them always.
 *
 * The canonical dot is what one VDPBF16PS does per block of 32 columns: accumulator j first takes the product of
 * columns 2j + 1, then of columns 2j, both fused. Checked against the instruction on AMD family 25 and 26 processors;
 * the op parity tests check it wherever they run. */
#ifndef KERNELS_FMATH_H
#define KERNELS_FMATH_H
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "engine/base/dtype.h"

/* acc[i] += acc[i + h] for h = 8, 4, 2, 1. */
HD static inline float fm_tree16(float acc[16]) {
    for (int h = 8; h; h /= 2)
        for (int i = 0; i < h; i++) acc[i] += acc[i + h];
    return acc[0];
}

/* Canonical dot of k columns; a length that is no multiple of 32 counts as padded with zeros. */
HD static inline float fm_dot(const bf16 *a, const bf16 *b, int32_t k) {
    float acc[16] = { 0 };
    for (int32_t at = 0; at < k; at += 32) {
        for (int j = 0; j < 16; j++) {
            int32_t even = at + 2 * j, odd = even + 1;
            acc[j] = fmaf(odd < k ? f32_of_bf16(a[odd]) : 0.0f, odd < k ? f32_of_bf16(b[odd]) : 0.0f, acc[j]);
            acc[j] = fmaf(even < k ? f32_of_bf16(a[even]) : 0.0f, even < k ? f32_of_bf16(b[even]) : 0.0f, acc[j]);
        }
    }
    return fm_tree16(acc);
}

/* Factor of RMSNorm: 1 / sqrt(mean of squares + eps); squares in sixteen accumulators by index mod 16, fused.
 * The normed value is (x * factor) * w, two products. */
HD static inline float fm_norm_scale(const float *x, int32_t n, float eps) {
    float acc[16] = { 0 };
    for (int32_t i = 0; i < n; i++) acc[i & 15] = fmaf(x[i], x[i], acc[i & 15]);
    return 1.0f / sqrtf(fm_tree16(acc) / (float)n + eps);
}

/* e^x for x clamped to [-87, 88]; relative error below 2 ulp. Cody and Waite reduction, degree 6. */
#define FM_EXP_LO (-87.0f)
#define FM_EXP_HI 88.0f
#define FM_LOG2E 1.44269504088896341f
#define FM_ROUND 12582912.0f /* 1.5 * 2^23: adding it rounds to the nearest integer */
#define FM_LN2_HI 0.693359375f
#define FM_LN2_LO (-2.12194440e-4f)
#define FM_E0 1.9875691500e-4f
#define FM_E1 1.3981999507e-3f
#define FM_E2 8.3334519073e-3f
#define FM_E3 4.1665795894e-2f
#define FM_E4 1.6666665459e-1f
#define FM_E5 5.0000001201e-1f

HD static inline float fm_exp(float x) {
    x = x > FM_EXP_LO ? x : FM_EXP_LO;
    x = x < FM_EXP_HI ? x : FM_EXP_HI;
    float t = fmaf(x, FM_LOG2E, FM_ROUND);
    float n = t - FM_ROUND;
    float r = fmaf(n, -FM_LN2_HI, x);
    r = fmaf(n, -FM_LN2_LO, r);
    float p = fmaf(FM_E0, r, FM_E1);
    p = fmaf(p, r, FM_E2);
    p = fmaf(p, r, FM_E3);
    p = fmaf(p, r, FM_E4);
    p = fmaf(p, r, FM_E5);
    p = fmaf(p, r * r, r) + 1.0f;
    return f32_of_bits(bits_of_f32(p) + ((bits_of_f32(t) - bits_of_f32(FM_ROUND)) << 23));
}

HD static inline float fm_sigmoid(float x) { return 1.0f / (1.0f + fm_exp(-x)); }
HD static inline float fm_silu(float x) { return x / (1.0f + fm_exp(-x)); }

/* Double precision where values are few: gates, noise, angles. No libm, so that a C library cannot change a bit. */
HD static inline double fm_bits_double(uint64_t u) {
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

HD static inline double fm_exp_d(double x) { /* |x| <= 700 */
    double n = fma(x, 1.4426950408889634, 6755399441055744.0) - 6755399441055744.0;
    double r = fma(n, -0.693147180369123816490, x);
    r = fma(n, -1.90821492927058770002e-10, r);
    double p = 1.0;
    for (int i = 14; i >= 1; i--) p = fma(p, r / (double)i, 1.0); /* Taylor; |r| <= 0.35 */
    return p * fm_bits_double((uint64_t)((int64_t)n + 1023) << 52);
}

HD static inline double fm_log_d(double x) { /* normal, positive */
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    int64_t e = (int64_t)(u >> 52) - 1023;
    double m = fm_bits_double((u & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
    if (m > 1.4142135623730951) m *= 0.5, e++;
    double s = (m - 1.0) / (m + 1.0), q = s * s, p = 0.0; /* log m = 2 atanh s, |s| <= 0.172 */
    for (int i = 21; i >= 1; i -= 2) p = fma(p, q, 1.0 / (double)i);
    return fma((double)e, 0.69314718055994530942, 2.0 * s * p);
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|). */
HD static inline float fm_softplus(float x) {
    double a = fabs((double)x);
    double tail = a > 60.0 ? 0.0 : fm_log_d(1.0 + fm_exp_d(-a));
    return (float)((x > 0.0f ? (double)x : 0.0) + tail);
}

HD static inline float fm_tanh(float x) {
    double a = fabs((double)x);
    if (a > 20.0) return x > 0.0f ? 1.0f : -1.0f;
    double e = fm_exp_d(2.0 * a), t = (e - 1.0) / (e + 1.0);
    return (float)(x < 0.0f ? -t : t);
}

/* Sine and cosine of a rotation angle, |angle| up to 2^21: reduced by pi/2 in two parts, Taylor on [-pi/4, pi/4]. */
HD static inline void fm_sincos(float angle, float *sine, float *cosine) {
    double a = (double)angle;
    double n = fma(a, 0.63661977236758134308, 6755399441055744.0) - 6755399441055744.0;
    double r = fma(n, -1.57079632679489655800, a);
    r = fma(n, -6.12323399573676603587e-17, r);
    double q = r * r, s = 1.0, c = 1.0;
    for (int i = 20; i >= 2; i -= 2) {
        s = fma(s, -q / (double)(i * (i + 1)), 1.0);
        c = fma(c, -q / (double)(i * (i - 1)), 1.0);
    }
    s *= r;
    switch ((int64_t)n & 3) {
    case 0: *sine = (float)s, *cosine = (float)c; break;
    case 1: *sine = (float)c, *cosine = (float)-s; break;
    case 2: *sine = (float)-s, *cosine = (float)-c; break;
    default: *sine = (float)-c, *cosine = (float)s; break;
    }
}
#endif
