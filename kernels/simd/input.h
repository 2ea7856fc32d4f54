/* kernels/simd/input.h - the rows that enter products: normed into the lane's own scratch, or taken as they are. Every
 * lane norms all rows for itself, which costs less than a barrier. */
#ifndef KERNELS_SIMD_INPUT_H
#define KERNELS_SIMD_INPUT_H
#include "kernels/dispatch.h"
#include "kernels/simd/dot.h"

/* A bump pointer over the lane's scratch, for the length of one op. */
typedef struct scratch {
    char *at, *end;
} scratch;

static inline scratch scratch_of(const lane *ln) {
    return (scratch){ ln->scratch, (char *)ln->scratch + ln->scratch_bytes };
}

static inline void *scratch_take(scratch *s, size_t bytes) {
    char *p = s->at;
    s->at += (bytes + 63) & ~(size_t)63;
    CHECK(s->at <= s->end);
    return p;
}

/* BF16 rows first .. first + n - 1 of x; with a norm they are computed into scratch. row[i] is input row i. */
static inline const bf16 **input_rows(scratch *s, const view *x, const bf16 *norm, float eps, const live_rows *live) {
    int32_t n = *live->n, first = live_first(live);
    const bf16 **row = scratch_take(s, (size_t)n * sizeof *row);
    if (!norm) {
        for (int32_t i = 0; i < n; i++) row[i] = view_row(x, first + i);
        return row;
    }
    bf16 *to = scratch_take(s, (size_t)n * (size_t)x->cols * sizeof *to);
    for (int32_t i = 0; i < n; i++, to += x->cols) {
        vec_norm_bf16(to, view_row(x, first + i), norm, x->cols, eps);
        row[i] = to;
    }
    return row;
}
#endif
