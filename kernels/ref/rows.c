#include "kernels/ref/ref_int.h"

void ref_embed(const void *args, const lane *ln) {
    const embed_args *a = args;
    int64_t from, to;
    lane_share(ln, a->rows->n, 1, &from, &to);
    for (int64_t r = from; r < to; r++) {
        int32_t token = a->rows->token[r];
        CHECK(token >= 0 && token < a->table.rows);
        const void *row = view_row(&a->table, token);
        float *y = view_row(&a->y, r);
        for (int32_t c = 0; c < a->y.cols; c++) y[c] = ref_weight_at(row, c);
    }
}

void ref_rope(const void *args, const lane *ln) {
    const rope_args *a = args;
    int64_t from, to;
    lane_share(ln, a->rows->n, 1, &from, &to);
    for (int64_t r = from; r < to; r++) {
        float *cosine = view_row(&a->cos, r), *sine = view_row(&a->sin, r);
        for (int32_t i = 0; i < a->cos.cols; i++) {
            fm_sincos((float)a->rows->pos[r] * a->inv_freq[i], &sine[i], &cosine[i]);
            cosine[i] *= a->factor;
            sine[i] *= a->factor;
        }
    }
}

void ref_norm(const void *args, const lane *ln) {
    const norm_args *a = args;
    int64_t from, to;
    lane_share(ln, ref_live(&a->rows), 1, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const float *x = view_row(&a->x, live_first(&a->rows) + r);
        float s = fm_norm_scale(x, a->x.cols, a->eps);
        float *wide = view_row(&a->y, r);
        bf16 *narrow = view_row(&a->y, r);
        for (int32_t c = 0; c < a->x.cols; c++) {
            float y = ref_normed(x, s, a->w, c);
            if (a->y.type == DT_F32)
                wide[c] = y;
            else
                narrow[c] = bf16_of_f32(y);
        }
    }
}
