/* Contract: kernels/linear.h. Lanes share panels of 16 columns; a panel meets all rows while it is in cache. */
#include "kernels/simd/input.h"
#include "kernels/simd/simd.h"

/* Rows per pass: their results for one panel stay in the first-level cache. */
enum { ROWS_PASS = 64 };

/* y rows [from, from + n) of one panel: finished dots plus the addition. */
static void put_panel(const linear_args *a, const float *dots, int32_t from, int32_t n, int32_t col, int32_t cols) {
    for (int32_t i = 0; i < n; i++) {
        const float *d = dots + (int64_t)i * 16;
        float *y = (float *)view_row(&a->y, from + i) + col;
        if (a->add.data) {
            const float *add = (const float *)view_row(&a->add, from + i) + col;
            for (int32_t c = 0; c < cols; c++) y[c] = d[c] + add[c];
        } else {
            memcpy(y, d, (size_t)cols * sizeof *y);
        }
    }
}

void SIMD(linear)(const void *args, const lane *ln) {
    const linear_args *a = args;
    int32_t n = *a->rows.n;
    if (n == 0) return;
    scratch s = scratch_of(ln);
    const bf16 **x = input_rows(&s, &a->x, a->norm, a->eps, &a->rows);
    int64_t panels = 0, from, to, at = 0;
    for (int p = 0; p < LINEAR_PARTS; p++) panels += (a->part[p].n + 15) / 16;
    lane_share(ln, panels, 1, &from, &to);
    int32_t col0 = 0;
    for (int p = 0; p < LINEAR_PARTS; p++) {
        const weight *w = &a->part[p];
        for (int32_t col = 0; col < w->n; col += 16, at++) {
            if (at < from || at >= to) continue;
            panel pn = panel_of(w, col);
            for (int32_t r = 0; r < n; r += ROWS_PASS) {
                float dots[ROWS_PASS * 16];
                int32_t rows = n - r < ROWS_PASS ? n - r : ROWS_PASS;
                dot_panel(&pn, x + r, rows, dots, 16);
                put_panel(a, dots, r, rows, col0 + col, pn.last + 1);
            }
        }
        col0 += w->n;
    }
}

void SIMD(glu)(const void *args, const lane *ln) {
    const glu_args *a = args;
    int32_t n = *a->rows.n;
    if (n == 0) return;
    scratch s = scratch_of(ln);
    const bf16 **x = input_rows(&s, &a->x, a->norm, a->eps, &a->rows);
    int64_t from, to;
    lane_share(ln, a->gate.n, 16, &from, &to);
    for (int32_t col = (int32_t)from; col < to; col += 16) {
        panel gate = panel_of(&a->gate, col), up = panel_of(&a->up, col);
        for (int32_t r = 0; r < n; r += ROWS_PASS) {
            float g[ROWS_PASS * 16], u[ROWS_PASS * 16];
            int32_t rows = n - r < ROWS_PASS ? n - r : ROWS_PASS;
            dot_panel(&gate, x + r, rows, g, 16);
            dot_panel(&up, x + r, rows, u, 16);
            for (int32_t i = 0; i < rows; i++) {
                bf16 h[16];
                vf_to_bf16(h, vf_mul(vf_silu(vf_load(g + i * 16)), vf_load(u + i * 16)));
                memcpy((bf16 *)view_row(&a->y, r + i) + col, h, (size_t)(gate.last + 1) * sizeof *h);
            }
        }
    }
}
