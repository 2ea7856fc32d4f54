/* kernels/simd/dot.h - the canonical dot on tiles of 16 outputs.
 *
 * A tile has C columns (weight rows) and R input rows, C * R = 16, and keeps one accumulator vector per output over the
 * whole length, so the order of additions is that of fm_dot. The sixteen vectors are then summed at once by a
 * transposing tree with the pairs of fm_tree16. Larger tiles read weights once for more rows; the result of an output
 * never depends on the tile it was part of. */
#ifndef KERNELS_SIMD_DOT_H
#define KERNELS_SIMD_DOT_H
#include "kernels/linear.h"
#include "kernels/mxfp4_table.h"
#include "kernels/simd/vec.h"

/* Sixteen-column panel of a matrix: where column c of the tile starts. */
typedef struct panel {
    const uint8_t *data, *scale;
    int64_t stride, scale_stride; /* bytes from column to column */
    int32_t last;                 /* columns above it repeat it: their results are not used */
    int32_t k;
} panel;

static inline panel panel_of(const weight *w, int32_t col) {
    bool packed = w->type == DT_MXFP4;
    int64_t stride = packed ? w->k / 2 : (int64_t)w->k * 2, scale_stride = w->k / 32;
    return (panel){ .data = (const uint8_t *)w->data + col * stride,
                    .scale = packed ? w->scale + col * scale_stride : NULL,
                    .stride = stride,
                    .scale_stride = scale_stride,
                    .last = w->n - col < 16 ? w->n - col - 1 : 15,
                    .k = w->k };
}

/* ---- one block of 32 columns of one operand ---- */
#if VEC_512
typedef __m512i block;
static inline block block_load(const void *p) { return _mm512_loadu_si512(p); }
static inline block block_load_part(const bf16 *p, int32_t n) { return _mm512_maskz_loadu_epi16((1u << n) - 1, p); }
static inline block block_expand(const uint8_t *codes, uint8_t scale) {
    __m512i x = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)codes));
    x = _mm512_or_si512(x, _mm512_slli_epi32(x, 12)); /* low half: low nibble; high half: high nibble */
    return _mm512_permutexvar_epi16(x, _mm512_load_si512(mxfp4_table[scale]));
}
#if VEC_DPBF16
static inline vf block_dot(vf acc, block a, block b) { return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b); }
#else
static inline vf block_odd(block a) {
    return _mm512_castsi512_ps(_mm512_and_si512(a, _mm512_set1_epi32((int)0xFFFF0000)));
}
static inline vf block_even(block a) { return _mm512_castsi512_ps(_mm512_slli_epi32(a, 16)); }
static inline vf block_dot(vf acc, block a, block b) {
    acc = _mm512_fmadd_ps(block_odd(a), block_odd(b), acc);
    return _mm512_fmadd_ps(block_even(a), block_even(b), acc);
}
#endif
#else
typedef struct block {
    __m256 odd_lo, odd_hi, even_lo, even_hi;
} block;
static inline block block_split(__m256i lo, __m256i hi) {
    __m256i top = _mm256_set1_epi32((int)0xFFFF0000);
    return (block){ _mm256_castsi256_ps(_mm256_and_si256(lo, top)), _mm256_castsi256_ps(_mm256_and_si256(hi, top)),
                    _mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16)) };
}
static inline block block_load(const void *p) {
    return block_split(_mm256_loadu_si256(p), _mm256_loadu_si256((const __m256i *)p + 1));
}
static inline block block_load_part(const bf16 *p, int32_t n) {
    bf16 t[32] = { 0 };
    memcpy(t, p, (size_t)n * sizeof *t);
    return block_load(t);
}
/* Magnitudes by an eight-entry permute, sign by bit 3. */
static inline __m256 expand8(__m256i code, __m256 magnitudes) {
    __m256 m = _mm256_permutevar8x32_ps(magnitudes, code);
    __m256i sign = _mm256_slli_epi32(_mm256_and_si256(code, _mm256_set1_epi32(8)), 28);
    return _mm256_xor_ps(m, _mm256_castsi256_ps(sign));
}
static inline block block_expand(const uint8_t *codes, uint8_t scale) {
    __m256 mag = of_bf16_8(mxfp4_table[scale]);
    __m256i lo = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)codes));
    __m256i hi = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(codes + 8)));
    return (block){ expand8(_mm256_srli_epi32(lo, 4), mag), expand8(_mm256_srli_epi32(hi, 4), mag), expand8(lo, mag),
                    expand8(hi, mag) };
}
static inline vf block_dot(vf acc, block a, block b) {
    acc.lo = _mm256_fmadd_ps(a.odd_lo, b.odd_lo, acc.lo);
    acc.hi = _mm256_fmadd_ps(a.odd_hi, b.odd_hi, acc.hi);
    acc.lo = _mm256_fmadd_ps(a.even_lo, b.even_lo, acc.lo);
    acc.hi = _mm256_fmadd_ps(a.even_hi, b.even_hi, acc.hi);
    return acc;
}
#endif

/* ---- sixteen sums at once, with the pairs of fm_tree16 ---- */
#if VEC_512
/* Element m of 128-bit lane l is the sum of a[4 m + l]. */
static inline vf tree16x16(const vf a[16]) {
    vf s[8], t[4], u[2];
    for (int i = 0; i < 8; i++)
        s[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0x44),
                             _mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0xEE));
    for (int i = 0; i < 4; i++)
        t[i] = _mm512_add_ps(_mm512_shuffle_f32x4(s[2 * i], s[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(s[2 * i], s[2 * i + 1], 0xDD));
    for (int i = 0; i < 2; i++)
        u[i] = _mm512_add_ps(_mm512_shuffle_ps(t[2 * i], t[2 * i + 1], 0x44),
                             _mm512_shuffle_ps(t[2 * i], t[2 * i + 1], 0xEE));
    return _mm512_add_ps(_mm512_shuffle_ps(u[0], u[1], 0x88), _mm512_shuffle_ps(u[0], u[1], 0xDD));
}
#else
/* Four at a time: register pressure. */
static inline void tree16x4(const vf a[4], float out[4]) {
    __m256 s[4];
    for (int i = 0; i < 4; i++) s[i] = _mm256_add_ps(a[i].lo, a[i].hi);
    __m256 t0 = _mm256_add_ps(_mm256_permute2f128_ps(s[0], s[1], 0x20), _mm256_permute2f128_ps(s[0], s[1], 0x31));
    __m256 t1 = _mm256_add_ps(_mm256_permute2f128_ps(s[2], s[3], 0x20), _mm256_permute2f128_ps(s[2], s[3], 0x31));
    __m256 u = _mm256_add_ps(_mm256_shuffle_ps(t0, t1, 0x44), _mm256_shuffle_ps(t0, t1, 0xEE));
    __m256 v = _mm256_add_ps(_mm256_shuffle_ps(u, u, 0x88), _mm256_shuffle_ps(u, u, 0xDD));
    __m128 lo = _mm256_castps256_ps128(v), hi = _mm256_extractf128_ps(v, 1); /* 0 2 . . | 1 3 . . */
    _mm_storeu_ps(out, _mm_unpacklo_ps(lo, hi));
}
#endif

/* ---- tiles ---- */

/* Columns c .. c + C - 1 of the panel times R rows: out[r * ld + c]. */
#define TILE(C, R, PACKED)                                                                                             \
    static inline                                                                                                      \
        __attribute__((always_inline)) void tile_##C##x##R##_##PACKED(const panel *p, int32_t c0,                      \
                                                                      const bf16 *const *x, float *out, int32_t ld) {  \
        const uint8_t *w[C], *s[C];                                                                                    \
        vf acc[C * R];                                                                                                 \
        for (int c = 0; c < C; c++) {                                                                                  \
            int32_t col = c0 + c < p->last ? c0 + c : p->last;                                                         \
            w[c] = p->data + col * p->stride;                                                                          \
            s[c] = PACKED ? p->scale + col * p->scale_stride : NULL;                                                   \
        }                                                                                                              \
        _Pragma("GCC unroll 16") for (int i = 0; i < C * R; i++) acc[i] = vf_zero();                                   \
        int32_t full = p->k / 32;                                                                                      \
        for (int32_t b = 0; b < full; b++) {                                                                           \
            block xb[R];                                                                                               \
            _Pragma("GCC unroll 4") for (int r = 0; r < R; r++) xb[r] = block_load(x[r] + 32 * b);                     \
            _Pragma("GCC unroll 16") for (int c = 0; c < C; c++) {                                                     \
                block wb = PACKED ? block_expand(w[c] + 16 * b, s[c][b]) : block_load(w[c] + 64 * b);                  \
                _Pragma("GCC unroll 4") for (int r = 0; r < R; r++) acc[c * R + r] =                                   \
                    block_dot(acc[c * R + r], wb, xb[r]);                                                              \
            }                                                                                                          \
        }                                                                                                              \
        if (!PACKED && p->k % 32) {                                                                                    \
            int32_t n = p->k % 32;                                                                                     \
            for (int c = 0; c < C; c++) {                                                                              \
                block wb = block_load_part((const bf16 *)(const void *)(w[c] + 64 * full), n);                         \
                for (int r = 0; r < R; r++)                                                                            \
                    acc[c * R + r] = block_dot(acc[c * R + r], wb, block_load_part(x[r] + 32 * full, n));              \
            }                                                                                                          \
        }                                                                                                              \
        TILE_STORE(C, R)                                                                                               \
    }

#if VEC_512
/* The order of accumulators makes the sums of a row neighbours: C x R = 4 x 4 leaves the tree with row r in lane r. */
static inline __attribute__((always_inline)) void tile_store(const vf *acc, int c, int r, float *out, int32_t ld) {
    vf order[16], sums;
    if (c == 4 && r == 4) {
        sums = tree16x16(acc);
        _mm_storeu_ps(out, _mm512_castps512_ps128(sums));
        _mm_storeu_ps(out + ld, _mm512_extractf32x4_ps(sums, 1));
        _mm_storeu_ps(out + 2 * (int64_t)ld, _mm512_extractf32x4_ps(sums, 2));
        _mm_storeu_ps(out + 3 * (int64_t)ld, _mm512_extractf32x4_ps(sums, 3));
        return;
    }
    /* the tree puts input 4 m + l to element m of lane l: hand it output 4 l + m there */
    _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) {
        int to = i % 4 * 4 + i / 4; /* place in the result, by row, then column */
        order[i] = acc[to % c * r + to / c];
    }
    sums = tree16x16(order);
    if (r == 1) {
        vf_store(out, sums);
        return;
    }
    _mm256_storeu_ps(out, _mm512_castps512_ps256(sums));
    _mm256_storeu_ps(out + ld, _mm512_extractf32x8_ps(sums, 1));
}
#define TILE_STORE(C, R) tile_store(acc, C, R, out + c0, ld);
TILE(16, 1, 0)
TILE(16, 1, 1)
TILE(8, 2, 0)
TILE(8, 2, 1)
TILE(4, 4, 0)
TILE(4, 4, 1)
#else
#define TILE_STORE(C, R)                                                                                               \
    float sums[4];                                                                                                     \
    tree16x4(acc, sums);                                                                                               \
    for (int r = 0; r < R; r++)                                                                                        \
        for (int c = 0; c < C; c++) out[r * ld + c0 + c] = sums[c * R + r];
TILE(4, 1, 0)
TILE(4, 1, 1)
TILE(2, 2, 0)
TILE(2, 2, 1)
#endif

/* All sixteen columns of the panel times n rows: out[r * ld + c], r < n; ld >= 16. */
static inline void dot_panel(const panel *p, const bf16 *const *x, int32_t n, float *out, int32_t ld) {
    bool packed = p->scale != NULL;
    int32_t r = 0;
#if VEC_512
    for (int32_t c = 0; c < 16 && n >= 3; c += 4) {
        for (r = 0; n - r >= 3; r += 4) {
            /* three rows left: the last one twice, its second result lands in a place that is not kept */
            float spare[4 * 16];
            bool whole = n - r >= 4;
            const bf16 *const rows[4] = { x[r], x[r + 1], x[r + 2], x[whole ? r + 3 : r + 2] };
            float *to = whole ? out + (int64_t)r * ld : spare;
            if (packed)
                tile_4x4_1(p, c, rows, to, whole ? ld : 16);
            else
                tile_4x4_0(p, c, rows, to, whole ? ld : 16);
            if (!whole)
                for (int i = 0; i < 3; i++)
                    memcpy(out + (int64_t)(r + i) * ld + c, spare + i * 16 + c, 4 * sizeof(float));
        }
    }
    if (r > n) r = n;
    if (n - r == 2) {
        for (int32_t c = 0; c < 16; c += 8) {
            if (packed)
                tile_8x2_1(p, c, x + r, out + (int64_t)r * ld, ld);
            else
                tile_8x2_0(p, c, x + r, out + (int64_t)r * ld, ld);
        }
    } else if (n - r == 1) {
        if (packed)
            tile_16x1_1(p, 0, x + r, out + (int64_t)r * ld, ld);
        else
            tile_16x1_0(p, 0, x + r, out + (int64_t)r * ld, ld);
    }
#else
    for (; n - r >= 2; r += 2) {
        for (int32_t c = 0; c < 16; c += 2) {
            if (packed)
                tile_2x2_1(p, c, x + r, out + (int64_t)r * ld, ld);
            else
                tile_2x2_0(p, c, x + r, out + (int64_t)r * ld, ld);
        }
    }
    if (r < n) {
        for (int32_t c = 0; c < 16; c += 4) {
            if (packed)
                tile_4x1_1(p, c, x + r, out + (int64_t)r * ld, ld);
            else
                tile_4x1_0(p, c, x + r, out + (int64_t)r * ld, ld);
        }
    }
#endif
}
#endif
