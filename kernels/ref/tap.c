#include "kernels/kv_map.h"
#include "kernels/ref/ref_int.h"

void ref_tap(const void *args, const lane *ln) {
    const tap_args *a = args;
    int32_t n = a->rows->n, slots = a->ring.rows, kept = n < slots ? n : slots;
    int64_t from, to;
    lane_share(ln, kept, 1, &from, &to);
    for (int64_t i = from; i < to; i++) {
        int64_t r = n - kept + i;
        const float *x = view_row(&a->x, r);
        bf16 *y = (bf16 *)view_row(&a->ring, (a->rows->base + r) % slots) + a->column;
        for (int32_t c = 0; c < a->x.cols; c++) y[c] = bf16_of_f32(x[c]);
    }
}

void ref_tap_norm(const void *args, const lane *ln) {
    const tap_norm_args *a = args;
    size_t used = 0;
    int32_t width = a->ring.cols / a->taps;
    float *x = ref_take(ln, &used, (size_t)width * sizeof *x);
    int64_t from, to;
    lane_share(ln, a->rows->n, 1, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const bf16 *tap = view_row(&a->ring, a->rows->pos[r] % a->ring.rows);
        bf16 *y = view_row(&a->y, r);
        for (int32_t j = 0; j < a->taps; j++) {
            for (int32_t c = 0; c < width; c++) x[c] = f32_of_bf16(tap[j * width + c]);
            float s = fm_norm_scale(x, width, a->eps);
            for (int32_t c = 0; c < width; c++) y[j * width + c] = bf16_of_f32(ref_normed(x, s, a->norm[j], c));
        }
    }
}

void ref_ctx_store(const void *args, const lane *ln) {
    const ctx_store_args *a = args;
    size_t used = 0;
    int32_t size = a->ring.size, groups = a->ring.heads;
    float *head = ref_take(ln, &used, (size_t)size * sizeof *head);
    int64_t from, to;
    lane_share(ln, a->rows->n, 1, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const float *k = view_row(&a->kv, r), *v = k + (int64_t)groups * size;
        const float *cosine = view_row(&a->cos, r), *sine = view_row(&a->sin, r);
        for (int32_t g = 0; g < groups; g++) {
            int64_t at = kv_offset(&a->ring, g, a->rows->pos[r], 0);
            ref_head(k + (int64_t)g * size, a->k_norm, a->eps, size, cosine, sine, a->cos.cols, head);
            ref_round(kv_at(&a->ring, a->ring.k, at), DT_BF16, head, size);
            ref_round(kv_at(&a->ring, a->ring.v, at), DT_BF16, v + (int64_t)g * size, size);
        }
    }
}
