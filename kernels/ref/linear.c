#include "kernels/ref/ref_int.h"

enum { COLUMN_UNIT = 16 }; /* lanes share output columns in these units */

view ref_input(const view *x, const bf16 *norm, float eps, const live_rows *rows, const lane *ln, size_t *used) {
    int32_t n = ref_live(rows), k = x->cols;
    view in = { view_row(x, live_first(rows)), x->stride, n, k, DT_BF16 };
    if (!norm) return in;
    in.stride = (int64_t)k * (int64_t)sizeof(bf16);
    in.data = ref_take(ln, used, (size_t)n * (size_t)in.stride);
    for (int32_t i = 0; i < n; i++) {
        const float *row = view_row(x, live_first(rows) + i);
        float s = fm_norm_scale(row, k, eps);
        bf16 *y = view_row(&in, i);
        for (int32_t c = 0; c < k; c++) y[c] = bf16_of_f32(ref_normed(row, s, norm, c));
    }
    return in;
}

void ref_linear(const void *args, const lane *ln) {
    const linear_args *a = args;
    size_t used = 0;
    view in = ref_input(&a->x, a->norm, a->eps, &a->rows, ln, &used);
    bf16 *buf = ref_take(ln, &used, (size_t)a->x.cols * sizeof *buf);
    int64_t from, to;
    lane_share(ln, a->y.cols, COLUMN_UNIT, &from, &to);
    int64_t start = 0; /* column of y at which the part begins */
    for (int p = 0; p < LINEAR_PARTS; start += a->part[p++].n) {
        for (int64_t j = 0; j < a->part[p].n; j++) {
            int64_t column = start + j;
            if (column < from || column >= to) continue;
            const bf16 *w = ref_weight_row(&a->part[p], j, buf);
            for (int32_t i = 0; i < in.rows; i++) {
                float y = fm_dot(view_row(&in, i), w, in.cols);
                if (a->add.data) y += ((const float *)view_row(&a->add, i))[column];
                ((float *)view_row(&a->y, i))[column] = y;
            }
        }
    }
}

void ref_glu(const void *args, const lane *ln) {
    const glu_args *a = args;
    size_t used = 0;
    view in = ref_input(&a->x, a->norm, a->eps, &a->rows, ln, &used);
    bf16 *gate_buf = ref_take(ln, &used, (size_t)a->x.cols * sizeof(bf16));
    bf16 *up_buf = ref_take(ln, &used, (size_t)a->x.cols * sizeof(bf16));
    int64_t from, to;
    lane_share(ln, a->y.cols, COLUMN_UNIT, &from, &to);
    for (int64_t j = from; j < to; j++) {
        const bf16 *gate = ref_weight_row(&a->gate, j, gate_buf), *up = ref_weight_row(&a->up, j, up_buf);
        for (int32_t i = 0; i < in.rows; i++) {
            const bf16 *x = view_row(&in, i);
            float g = fm_dot(x, gate, in.cols), u = fm_dot(x, up, in.cols);
            ((bf16 *)view_row(&a->y, i))[j] = bf16_of_f32(fm_silu(g) * u);
        }
    }
}
