/* kernels/simd/vec.h - sixteen floats, the vocabulary of the vector sources. AVX-512: one register; AVX2: two.
 * Every function does, element by element, exactly the operations of its scalar namesake in fmath.h. */
#ifndef KERNELS_SIMD_VEC_H
#define KERNELS_SIMD_VEC_H
#include <immintrin.h>
#include <stdbool.h>
#include "kernels/e4m3.h"
#include "kernels/fmath.h"

/* SIMD_avx2, SIMD_avx512, SIMD_avx512bf16: exactly one is defined by the build. */
#ifdef SIMD_avx2
#define VEC_512 0
#else
#define VEC_512 1
#endif
#ifdef SIMD_avx512bf16
#define VEC_DPBF16 1
#else
#define VEC_DPBF16 0
#endif

#if VEC_512
typedef __m512 vf;
static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf vf_set1(float x) { return _mm512_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
/* Elements i with from <= i < to; the others are `other`. */
static inline vf vf_keep(vf a, int from, int to, float other) {
    __mmask16 m = (__mmask16)((to >= 16 ? 0xFFFFu : (1u << to) - 1) & ~((1u << from) - 1));
    return _mm512_mask_blend_ps(m, _mm512_set1_ps(other), a);
}
/* a + (bits of t - bits of FM_ROUND) * 2^23: multiplies a by a power of two. */
static inline vf vf_scale2(vf a, vf t) {
    __m512i n = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_castps_si512(_mm512_set1_ps(FM_ROUND)));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_slli_epi32(n, 23)));
}
static inline vf vf_of_bf16(const bf16 *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
static inline void vf_to_bf16(bf16 *p, vf a) {
    __m512i u = _mm512_castps_si512(a);
    __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(_mm512_set1_epi32(0x7FFF),
                                                     _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1))));
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}
/* As e4m3_of_f32. */
static inline void vf_to_e4m3(e4m3 *p, vf a) {
    __m512i u = _mm512_castps_si512(a), top = _mm512_set1_epi32((int)E4M3_MAX);
    __m512i m = _mm512_min_epu32(_mm512_and_si512(u, _mm512_set1_epi32(0x7FFFFFFF)), top);
    __m512i even = _mm512_and_si512(_mm512_srli_epi32(m, 20), _mm512_set1_epi32(1));
    __m512i r = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(m, even), _mm512_set1_epi32(0x7FFFF)), 20);
    r = _mm512_sub_epi32(r, _mm512_set1_epi32(E4M3_REBIAS));
    __m512i steps = _mm512_set1_epi32((int)E4M3_STEPS);
    __m512 sum = _mm512_add_ps(_mm512_castsi512_ps(m), _mm512_castsi512_ps(steps));
    __mmask16 small = _mm512_cmplt_epu32_mask(m, _mm512_set1_epi32((int)E4M3_NORMAL));
    r = _mm512_mask_sub_epi32(r, small, _mm512_castps_si512(sum), steps);
    r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), _mm512_set1_epi32(0x7F));
    r = _mm512_or_si512(r, _mm512_and_si512(_mm512_srli_epi32(u, 24), _mm512_set1_epi32(0x80)));
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(r));
}
/* As bf16_of_e4m3, 32 elements. All by the rule of normal values; from subnormal ones, found by a permute over the low
 * bits, what that gives too much is taken off again. */
enum { WIDEN = 32 };
static inline void vec_widen(bf16 *y, const e4m3 *x) {
    __m512i excess = _mm512_zextsi128_si512(_mm_setr_epi16(0x3C00, 0x110, 0xA0, 0x70, 0x40, 0x30, 0x20, 0x10));
    __m512i u = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)x));
    __m512i r = _mm512_and_si512(_mm512_slli_epi16(u, 4), _mm512_set1_epi16((short)0x87F0));
    r = _mm512_add_epi16(r, _mm512_set1_epi16(E4M3_REBIAS << 4));
    __mmask32 small = _mm512_testn_epi16_mask(u, _mm512_set1_epi16(0x78));
    r = _mm512_mask_sub_epi16(r, small, r, _mm512_permutexvar_epi16(u, excess));
    __mmask32 nan = _mm512_testn_epi16_mask(_mm512_add_epi16(u, _mm512_set1_epi16(1)), _mm512_set1_epi16(0x7F));
    r = _mm512_mask_blend_epi16(nan, r, _mm512_xor_si512(r, _mm512_set1_epi16(0x43F0 ^ 0x7FC0)));
    _mm512_storeu_si512(y, r);
}
static inline float vf_tree(vf a) {
    float t[16];
    _mm512_storeu_ps(t, a);
    return fm_tree16(t);
}
static inline float vf_max_of(vf a) { return _mm512_reduce_max_ps(a); }
static inline bool vf_any_above(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
#else
typedef struct vf {
    __m256 lo, hi;
} vf;
static inline vf vf_zero(void) { return (vf){ _mm256_setzero_ps(), _mm256_setzero_ps() }; }
static inline vf vf_set1(float x) { return (vf){ _mm256_set1_ps(x), _mm256_set1_ps(x) }; }
static inline vf vf_load(const float *p) { return (vf){ _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8) }; }
static inline void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a.lo), _mm256_storeu_ps(p + 8, a.hi); }
static inline vf vf_add(vf a, vf b) { return (vf){ _mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi) }; }
static inline vf vf_sub(vf a, vf b) { return (vf){ _mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi) }; }
static inline vf vf_mul(vf a, vf b) { return (vf){ _mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi) }; }
static inline vf vf_div(vf a, vf b) { return (vf){ _mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi) }; }
static inline vf vf_fma(vf a, vf b, vf c) {
    return (vf){ _mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi) };
}
static inline vf vf_max(vf a, vf b) { return (vf){ _mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi) }; }
static inline vf vf_min(vf a, vf b) { return (vf){ _mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi) }; }
static inline __m256 keep8(__m256 a, int first, int from, int to, float other) {
    __m256i i = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
    __m256i in = _mm256_and_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(to), i),
                                  _mm256_cmpgt_epi32(i, _mm256_set1_epi32(from - 1)));
    return _mm256_blendv_ps(_mm256_set1_ps(other), a, _mm256_castsi256_ps(in));
}
static inline vf vf_keep(vf a, int from, int to, float other) {
    return (vf){ keep8(a.lo, 0, from, to, other), keep8(a.hi, 8, from, to, other) };
}
static inline __m256 scale2_8(__m256 a, __m256 t) {
    __m256i n = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(_mm256_set1_ps(FM_ROUND)));
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_slli_epi32(n, 23)));
}
static inline vf vf_scale2(vf a, vf t) { return (vf){ scale2_8(a.lo, t.lo), scale2_8(a.hi, t.hi) }; }
static inline __m256 of_bf16_8(const bf16 *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline vf vf_of_bf16(const bf16 *p) { return (vf){ of_bf16_8(p), of_bf16_8(p + 8) }; }
static inline __m256i to_bf16_8(__m256 a) {
    __m256i u = _mm256_castps_si256(a);
    __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(_mm256_set1_epi32(0x7FFF),
                                                     _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1))));
    __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(r, quiet, nan), 16);
}
static inline void vf_to_bf16(bf16 *p, vf a) {
    __m256i packed = _mm256_packus_epi32(to_bf16_8(a.lo), to_bf16_8(a.hi)); /* per 128-bit half: 0 2 1 3 */
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(packed, 0xD8));
}
/* As e4m3_of_f32, 8 codes in 32 bits each. */
static inline __m256i to_e4m3_8(__m256 a) {
    __m256i u = _mm256_castps_si256(a), top = _mm256_set1_epi32((int)E4M3_MAX);
    __m256i m = _mm256_min_epi32(_mm256_and_si256(u, _mm256_set1_epi32(0x7FFFFFFF)), top);
    __m256i even = _mm256_and_si256(_mm256_srli_epi32(m, 20), _mm256_set1_epi32(1));
    __m256i r = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(m, even), _mm256_set1_epi32(0x7FFFF)), 20);
    r = _mm256_sub_epi32(r, _mm256_set1_epi32(E4M3_REBIAS));
    __m256i steps = _mm256_set1_epi32((int)E4M3_STEPS);
    __m256 sum = _mm256_add_ps(_mm256_castsi256_ps(m), _mm256_castsi256_ps(steps));
    __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)E4M3_NORMAL), m);
    r = _mm256_blendv_epi8(r, _mm256_sub_epi32(_mm256_castps_si256(sum), steps), small);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    r = _mm256_blendv_epi8(r, _mm256_set1_epi32(0x7F), nan);
    return _mm256_or_si256(r, _mm256_and_si256(_mm256_srli_epi32(u, 24), _mm256_set1_epi32(0x80)));
}
static inline void vf_to_e4m3(e4m3 *p, vf a) {
    __m256i packed = _mm256_packus_epi32(to_e4m3_8(a.lo), to_e4m3_8(a.hi)); /* per 128-bit half: 0 2 1 3 */
    packed = _mm256_permute4x64_epi64(packed, 0xD8);
    _mm_storeu_si128((__m128i *)p,
                     _mm_packus_epi16(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1)));
}
/* As bf16_of_e4m3, 32 elements: the two bytes of each apart, then side by side. All by the rule of normal values, the
 * upper byte from sign and upper exponent, the lower one by a shift; then subnormal values and NaN are put right, found
 * by their low bits. */
enum { WIDEN = 32 };
#define TWICE(...) _mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)
static inline void vec_widen(bf16 *y, const e4m3 *x) {
    const __m256i upper =
        TWICE(0x3C, 0x3D, 0x3E, 0x3F, 0x40, 0x41, 0x42, 0x43, -0x44, -0x43, -0x42, -0x41, -0x40, -0x3F, -0x3E, -0x3D);
    const __m256i excess = TWICE(0x3C, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0); /* of the upper byte */
    const __m256i change = TWICE(0, 0x10, -0x60, -0x10, 0x40, 0x70, 0x20, 0x10, 0, 0, 0, 0, 0, 0, 0, 0); /* lower */
    const __m256i nibble = _mm256_set1_epi8(0x0F);
    __m256i v = _mm256_permute4x64_epi64(_mm256_loadu_si256((const __m256i *)x), 0xD8); /* unpacking works by halves */
    __m256i low = _mm256_and_si256(v, nibble);
    __m256i hi = _mm256_shuffle_epi8(upper, _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble));
    __m256i small = _mm256_cmpeq_epi8(_mm256_and_si256(v, _mm256_set1_epi8(0x78)), _mm256_setzero_si256());
    hi = _mm256_sub_epi8(hi, _mm256_and_si256(small, _mm256_shuffle_epi8(excess, low)));
    __m256i lo = _mm256_xor_si256(_mm256_slli_epi16(low, 4), _mm256_and_si256(small, _mm256_shuffle_epi8(change, low)));
    __m256i nan = _mm256_cmpeq_epi8(_mm256_or_si256(v, _mm256_set1_epi8(-0x80)), _mm256_set1_epi8(-1));
    hi = _mm256_or_si256(hi, _mm256_and_si256(nan, _mm256_set1_epi8(0x3C)));
    lo = _mm256_andnot_si256(_mm256_and_si256(nan, _mm256_set1_epi8(0x30)), lo);
    _mm256_storeu_si256((__m256i *)y, _mm256_unpacklo_epi8(lo, hi));
    _mm256_storeu_si256((__m256i *)(y + 16), _mm256_unpackhi_epi8(lo, hi));
}
#undef TWICE
static inline float vf_tree(vf a) {
    float t[16];
    vf_store(t, a);
    return fm_tree16(t);
}
static inline bool vf_any_above(vf a, vf b) {
    return _mm256_movemask_ps(
               _mm256_or_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ))) != 0;
}
static inline float vf_max_of(vf a) {
    float t[8], m;
    _mm256_storeu_ps(t, _mm256_max_ps(a.lo, a.hi));
    m = t[0];
    for (int i = 1; i < 8; i++) m = t[i] > m ? t[i] : m;
    return m;
}
#endif

static inline void vec_of_e4m3(bf16 *y, const e4m3 *x, int64_t n) {
    int64_t i = 0;
    for (; i + WIDEN <= n; i += WIDEN) vec_widen(y + i, x + i);
    for (; i < n; i++) y[i] = bf16_of_e4m3(x[i]);
}

static inline vf vf_exp(vf x) {
    x = vf_max(x, vf_set1(FM_EXP_LO));
    x = vf_min(x, vf_set1(FM_EXP_HI));
    vf t = vf_fma(x, vf_set1(FM_LOG2E), vf_set1(FM_ROUND));
    vf n = vf_sub(t, vf_set1(FM_ROUND));
    vf r = vf_fma(n, vf_set1(-FM_LN2_HI), x);
    r = vf_fma(n, vf_set1(-FM_LN2_LO), r);
    vf p = vf_fma(vf_set1(FM_E0), r, vf_set1(FM_E1));
    p = vf_fma(p, r, vf_set1(FM_E2));
    p = vf_fma(p, r, vf_set1(FM_E3));
    p = vf_fma(p, r, vf_set1(FM_E4));
    p = vf_fma(p, r, vf_set1(FM_E5));
    p = vf_add(vf_fma(p, vf_mul(r, r), r), vf_set1(1.0f));
    return vf_scale2(p, t);
}

static inline vf vf_neg(vf x) { return vf_sub(vf_set1(-0.0f), x); }
static inline vf vf_sigmoid(vf x) { return vf_div(vf_set1(1.0f), vf_add(vf_set1(1.0f), vf_exp(vf_neg(x)))); }
static inline vf vf_silu(vf x) { return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(vf_neg(x)))); }

/* Factor of RMSNorm, as fm_norm_scale: element i into accumulator i mod 16. */
static inline float vec_norm_scale(const float *x, int32_t n, float eps) {
    vf acc = vf_zero();
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        vf v = vf_load(x + i);
        acc = vf_fma(v, v, acc);
    }
    float t[16];
    vf_store(t, acc);
    for (; i < n; i++) t[i & 15] = fmaf(x[i], x[i], t[i & 15]);
    return 1.0f / sqrtf(fm_tree16(t) / (float)n + eps);
}

/* y = bf16((x * scale) * w). */
static inline void vec_norm_bf16(bf16 *y, const float *x, const bf16 *w, int32_t n, float eps) {
    float scale = vec_norm_scale(x, n, eps);
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) vf_to_bf16(y + i, vf_mul(vf_mul(vf_load(x + i), vf_set1(scale)), vf_of_bf16(w + i)));
    for (; i < n; i++) y[i] = bf16_of_f32((x[i] * scale) * f32_of_bf16(w[i]));
}
#endif
