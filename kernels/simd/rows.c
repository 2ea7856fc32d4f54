/* Contracts: kernels/rows.h, kernels/attn.h (qkv_store), kernels/tap.h. Element-wise loops: the compiler makes vectors
 * of them, which changes no bit. */
#include "kernels/kv_map.h"
#include "kernels/simd/input.h"
#include "kernels/simd/simd.h"

enum { HEAD_MAX = 1024 }; /* elements of a head; the configs allow less */

void SIMD(embed)(const void *args, const lane *ln) {
    const embed_args *a = args;
    int64_t from, to;
    lane_share(ln, a->rows->n, 1, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const bf16 *t = view_row(&a->table, a->rows->token[r]);
        float *y = view_row(&a->y, r);
        for (int32_t c = 0; c < a->y.cols; c++) y[c] = f32_of_bf16(t[c]);
    }
}

/* The scalar definition, with fused operations as instructions instead of calls. */
void SIMD(rope)(const void *args, const lane *ln) {
    const rope_args *a = args;
    int64_t from, to;
    lane_share(ln, a->rows->n, 1, &from, &to);
    for (int64_t r = from; r < to; r++) {
        float *cos = view_row(&a->cos, r), *sin = view_row(&a->sin, r);
        for (int32_t i = 0; i < a->cos.cols; i++) {
            float s, c;
            fm_sincos((float)a->rows->pos[r] * a->inv_freq[i], &s, &c);
            cos[i] = c * a->factor;
            sin[i] = s * a->factor;
        }
    }
}

void SIMD(norm)(const void *args, const lane *ln) {
    const norm_args *a = args;
    int64_t from, to;
    lane_share(ln, *a->rows.n, 1, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const float *x = view_row(&a->x, live_first(&a->rows) + r);
        if (a->y.type == DT_BF16) {
            vec_norm_bf16(view_row(&a->y, r), x, a->w, a->x.cols, a->eps);
            continue;
        }
        float *y = view_row(&a->y, r), scale = vec_norm_scale(x, a->x.cols, a->eps);
        for (int32_t c = 0; c < a->x.cols; c++) y[c] = (x[c] * scale) * f32_of_bf16(a->w[c]);
    }
}

/* One head: norm and rotation. */
static void head_rotated(float *y, const float *x, const bf16 *norm, float eps, int32_t size, const float *cos,
                         const float *sin, int32_t half) {
    float t[HEAD_MAX];
    float scale = vec_norm_scale(x, size, eps);
    for (int32_t i = 0; i < size; i++) t[i] = (x[i] * scale) * f32_of_bf16(norm[i]);
    for (int32_t i = 0; i < half; i++) {
        y[i] = fmaf(t[i], cos[i], -(t[i + half] * sin[i]));
        y[i + half] = fmaf(t[i + half], cos[i], t[i] * sin[i]);
    }
    for (int32_t i = 2 * half; i < size; i++) y[i] = t[i];
}

static void copy_bf16(bf16 *y, const float *x, int32_t n) {
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) vf_to_bf16(y + i, vf_load(x + i));
    for (; i < n; i++) y[i] = bf16_of_f32(x[i]);
}

static void copy_e4m3(e4m3 *y, const float *x, int32_t n) {
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) vf_to_e4m3(y + i, vf_load(x + i));
    for (; i < n; i++) y[i] = e4m3_of_f32(x[i]);
}

/* One row to offset `at` of the store's k or v. */
static void store_row(const kv_store *s, void *rows, int64_t at, const float *x) {
    if (s->type == DT_E4M3)
        copy_e4m3(kv_at(s, rows, at), x, s->size);
    else
        copy_bf16(kv_at(s, rows, at), x, s->size);
}

void SIMD(qkv_store)(const void *args, const lane *ln) {
    const qkv_store_args *a = args;
    const row_set *rows = a->rows;
    const kv_store *kv = &a->kv;
    int32_t size = kv->size, all = a->heads + 2 * kv->heads;
    float turned[HEAD_MAX];
    int64_t from, to;
    lane_share(ln, (int64_t)rows->n * all, 1, &from, &to);
    for (int64_t item = from; item < to; item++) {
        int32_t r = (int32_t)(item / all), head = (int32_t)(item % all);
        const float *x = (const float *)view_row(&a->qkv, r) + (int64_t)head * size;
        const float *cos = view_row(&a->cos, r), *sin = view_row(&a->sin, r);
        if (head < a->heads) {
            head_rotated(turned, x, a->q_norm, a->eps, size, cos, sin, a->cos.cols);
            copy_bf16((bf16 *)view_row(&a->q, r) + (int64_t)head * size, turned, size);
        } else if (head < a->heads + kv->heads) {
            head_rotated(turned, x, a->k_norm, a->eps, size, cos, sin, a->cos.cols);
            store_row(kv, kv->k, kv_offset(kv, head - a->heads, rows->base + r, rows->base), turned);
        } else {
            store_row(kv, kv->v, kv_offset(kv, head - a->heads - kv->heads, rows->base + r, rows->base), x);
        }
    }
}

void SIMD(ctx_store)(const void *args, const lane *ln) {
    const ctx_store_args *a = args;
    int32_t size = a->ring.size, heads = a->ring.heads;
    float turned[HEAD_MAX];
    int64_t from, to;
    lane_share(ln, (int64_t)a->rows->n * 2 * heads, 1, &from, &to);
    for (int64_t item = from; item < to; item++) {
        int32_t r = (int32_t)(item / (2 * heads)), head = (int32_t)(item % (2 * heads));
        const float *x = (const float *)view_row(&a->kv, r) + (int64_t)head * size;
        int64_t at = kv_offset(&a->ring, head % heads, a->rows->pos[r], 0);
        if (head < heads) {
            head_rotated(turned, x, a->k_norm, a->eps, size, view_row(&a->cos, r), view_row(&a->sin, r), a->cos.cols);
            store_row(&a->ring, a->ring.k, at, turned);
        } else {
            store_row(&a->ring, a->ring.v, at, x);
        }
    }
}

void SIMD(tap)(const void *args, const lane *ln) {
    const tap_args *a = args;
    int64_t from, to;
    int32_t n = a->rows->n, kept = n < a->ring.rows ? n : a->ring.rows;
    lane_share(ln, kept, 1, &from, &to);
    for (int64_t i = from; i < to; i++) {
        int64_t r = n - kept + i;
        copy_bf16((bf16 *)view_row(&a->ring, (a->rows->base + r) % a->ring.rows) + a->column, view_row(&a->x, r),
                  a->x.cols);
    }
}

void SIMD(tap_norm)(const void *args, const lane *ln) {
    const tap_norm_args *a = args;
    int32_t width = a->ring.cols / a->taps;
    int64_t from, to;
    lane_share(ln, (int64_t)a->rows->n * a->taps, 1, &from, &to);
    scratch s = scratch_of(ln);
    float *x = scratch_take(&s, (size_t)width * sizeof *x);
    for (int64_t item = from; item < to; item++) {
        int32_t r = (int32_t)(item / a->taps), j = (int32_t)(item % a->taps);
        const bf16 *t = (const bf16 *)view_row(&a->ring, a->rows->pos[r] % a->ring.rows) + (int64_t)j * width;
        for (int32_t c = 0; c < width; c++) x[c] = f32_of_bf16(t[c]);
        vec_norm_bf16((bf16 *)view_row(&a->y, r) + (int64_t)j * width, x, a->norm[j], width, a->eps);
    }
}
