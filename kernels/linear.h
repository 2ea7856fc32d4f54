/* kernels/linear.h - matrix products.
 *
 * y[i][j] = dot(xn, W[j]) (+ add[i][j]), where xn is input row first + i, or that row after RMSNorm, rounded to BF16.
 * The dot is the canonical dot of fmath.h over K columns; K is a multiple of 32 or is treated as padded with zeros.
 * An MXFP4 weight counts with its exact value (kernels/mxfp4.h). The addition of `add` is one FP32 addition behind the
 * finished dot. y may be add. y may not be x. Rows that are not live are neither read nor written.
 * Lanes share output columns in units of 16. */
#ifndef KERNELS_LINEAR_H
#define KERNELS_LINEAR_H
#include "kernels/rows.h"

/* A matrix [n][k], k contiguous, in the layout of the file.
 * BF16: n * k values. MXFP4: k / 2 bytes a row, column 2j in the low and 2j + 1 in the high nibble of byte j; `scale`
 * has k / 32 E8M0 bytes a row. No alignment is assumed. n 0: absent. */
typedef struct weight {
    const void *data;
    const uint8_t *scale; /* MXFP4 only */
    int32_t n, k;
    dtype type; /* DT_BF16 or DT_MXFP4 */
} weight;

int64_t weight_bytes(const weight *w);

enum { LINEAR_PARTS = 4 };

/* Several matrices that read the same input give neighbouring column ranges of y. */
typedef struct linear_args {
    view x;   /* BF16 [R][K]; F32 with a norm */
    view y;   /* F32 [R][sum of n] */
    view add; /* F32, same shape as y; data NULL: none */
    weight part[LINEAR_PARTS];
    const bf16 *norm; /* [K], NULL: x is used as it is */
    float eps;
    live_rows rows;
} linear_args;

/* y[i][j] = bf16( silu(g) * u ), g = dot(xn, gate[j]), u = dot(xn, up[j]); silu of fmath.h, one FP32 product. */
typedef struct glu_args {
    view x; /* F32 [R][K] */
    view y; /* BF16 [R][F] */
    weight gate, up;
    const bf16 *norm;
    float eps;
    live_rows rows;
} glu_args;
#endif
