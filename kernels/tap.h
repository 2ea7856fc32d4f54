/* kernels/tap.h - the residual taps that the draft reads, and the draft's context rows. */
#ifndef KERNELS_TAP_H
#define KERNELS_TAP_H
#include "kernels/attn.h"

/* ring[(base + r) mod ring.rows][column ..] = bf16(x[r]), for the last ring.rows live rows (earlier ones would be
 * overwritten). `column` is tap number * D. */
typedef struct tap_args {
    view x;    /* F32 [R][D] */
    view ring; /* BF16 [slots][taps * D] */
    int32_t column;
    const row_set *rows;
} tap_args;

enum { TAPS_MAX = 16 };

/* y[r] = concatenation over taps j of bf16( RMSNorm(ring[pos[r] mod slots][j]; norm[j], eps) ). */
typedef struct tap_norm_args {
    view ring; /* BF16 [slots][taps * D] */
    const bf16 *norm[TAPS_MAX];
    int32_t taps;
    float eps;
    view y; /* BF16 [R][taps * D] */
    const row_set *rows;
} tap_norm_args;

/* Context rows of one draft layer at positions pos[r]: k heads through RMSNorm and rotation (as in qkv_store), v as it
 * is, both to BF16, to index pos[r] of the ring. */
typedef struct ctx_store_args {
    view kv; /* F32 [R][2 G E]: k heads, v heads */
    view cos, sin;
    const bf16 *k_norm;
    float eps;
    kv_store ring;
    const row_set *rows;
} ctx_store_args;
#endif
