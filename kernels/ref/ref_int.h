/* kernels/ref/ref_int.h - what the families of the reference backend share. */
#ifndef KERNELS_REF_REF_INT_H
#define KERNELS_REF_REF_INT_H
#include <string.h>
#include "engine/base/status.h"
#include "kernels/e4m3.h"
#include "kernels/fmath.h"
#include "kernels/mxfp4.h"
#include "kernels/ref/ref.h"

/* Takes bytes from the lane's scratch behind *used, 64-byte aligned. */
static inline void *ref_take(const lane *ln, size_t *used, size_t bytes) {
    void *p = (char *)ln->scratch + *used;
    *used += (bytes + 63) / 64 * 64;
    CHECK(*used <= ln->scratch_bytes);
    return p;
}

static inline int32_t ref_live(const live_rows *rows) {
    int32_t n = *rows->n;
    CHECK(n >= 0 && n <= rows->max);
    return n;
}

/* Element of a BF16 vector that lies in a file, at whatever address. */
static inline float ref_weight_at(const void *w, int64_t i) {
    bf16 b;
    memcpy(&b, (const char *)w + i * (int64_t)sizeof b, sizeof b);
    return f32_of_bf16(b);
}

/* Element i of a normed vector; s is its fm_norm_scale. */
static inline float ref_normed(const float *x, float s, const bf16 *w, int32_t i) {
    return (x[i] * s) * ref_weight_at(w, i);
}

/* Row j of a matrix as BF16. Exact for MXFP4 too: a value has at most two significant bits. */
static inline const bf16 *ref_weight_row(const weight *w, int64_t j, bf16 *buf) {
    if (w->type == DT_BF16) {
        memcpy(buf, (const char *)w->data + j * w->k * (int64_t)sizeof(bf16), (size_t)w->k * sizeof(bf16));
        return buf;
    }
    const uint8_t *codes = (const uint8_t *)w->data + j * (w->k / 2), *scale = w->scale + j * (w->k / MXFP4_GROUP);
    for (int32_t c = 0; c < w->k; c++) buf[c] = bf16_of_f32(mxfp4_value(mxfp4_code(codes, c), scale[c / MXFP4_GROUP]));
    return buf;
}

/* The live input rows of a product as BF16, row i at view row i: the view's own rows, or with a norm copies in scratch.
 */
view ref_input(const view *x, const bf16 *norm, float eps, const live_rows *rows, const lane *ln, size_t *used);

/* One head: RMSNorm over `size` elements, rotation of the first 2 * half; y is not rounded. */
void ref_head(const float *x, const bf16 *norm, float eps, int32_t size, const float *cosine, const float *sine,
              int32_t half, float *y);

/* n elements rounded to a type of stores. */
static inline void ref_round(void *y, dtype type, const float *x, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        if (type == DT_E4M3)
            ((e4m3 *)y)[i] = e4m3_of_f32(x[i]);
        else
            ((bf16 *)y)[i] = bf16_of_f32(x[i]);
    }
}
#endif
