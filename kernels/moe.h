/* kernels/moe.h - router and mixture of experts. */
#ifndef KERNELS_MOE_H
#define KERNELS_MOE_H
#include "kernels/linear.h"

/* Per live row: xn = RMSNorm(x) to BF16; r = canonical dot with each router row; with softcap c > 0: r = c * fm_tanh(r
 * / c); score = fm_sigmoid(r). Selected: the k largest of score + bias, falling; ties: lower expert first. weight =
 * score / (sum of the selected scores, added in that order), or the score itself without `normalize`. */
typedef struct route_args {
    view x; /* F32 [R][D] */
    const bf16 *norm;
    float eps;
    weight w;          /* BF16 [X][D] */
    const float *bias; /* [X], NULL: zeros */
    float softcap;     /* 0: off */
    bool normalize;
    view score; /* F32 [R][X]: scores of all experts */
    view id;    /* I32 [R][k] */
    view share; /* F32 [R][k] */
    live_rows rows;
} route_args;

/* h[r * (k + 1) + i] = bf16( silu(gate_e xn) * (up_e xn) ) for the i-th selected expert e of row r, i < k;
 * i = k is the shared expert (absent when shared_gate.n is 0). Row slots have the stride of h; a row uses its expert's
 * width. Every lane takes the same share of each expert's columns. */
typedef struct moe_up_args {
    view x; /* F32 [R][D] */
    const bf16 *norm;
    float eps;
    const weight *gate, *up; /* X each */
    int32_t experts;         /* X */
    weight shared_gate, shared_up;
    view id; /* I32 [R][k] */
    view h;  /* BF16 [R * (k + 1)][max width] */
    live_rows rows;
} moe_up_args;

/* Per live row and column j:
 *   t = share[0] * d[0];  t = fma(share[i], d[i], t) for i = 1..k-1;   d[i] = dot(h[i], down_e[j]), in routing order
 *   x = x + fma(scale, t, s)        s = dot(h[k], shared_down[j]), 0 without a shared expert */
typedef struct moe_down_args {
    view h;
    view id, share;
    const weight *down; /* X */
    int32_t experts;
    weight shared_down;
    float scale;
    view x; /* F32 [R][D], read and written */
    live_rows rows;
} moe_down_args;
#endif
