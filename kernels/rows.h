/* kernels/rows.h - views, live rows, the parameter block's row sets, and the ops that only move rows about. */
#ifndef KERNELS_ROWS_H
#define KERNELS_ROWS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "kernels/params.h"

/* A window on memory: `rows` x `cols` elements, columns contiguous. rows is the capacity, never the live count.
 * data NULL: absent. */
typedef struct view {
    void *data;
    int64_t stride; /* bytes from row to row */
    int32_t rows, cols;
    dtype type;
} view;

HD static inline void *view_row(const view *v, int64_t row) { return (char *)v->data + row * v->stride; }

/* Which rows of the input are live; read while the op runs. Input row first + i gives output row i, i < n. */
typedef struct live_rows {
    const int32_t *n;     /* live count */
    const int32_t *first; /* NULL: 0 */
    int32_t max;          /* the bucket: n never exceeds it */
} live_rows;

HD static inline int32_t live_first(const live_rows *l) { return l->first ? *l->first : 0; }

/* Fills the row sets of the block for one kind of step (kernels/params.h). One lane. */
typedef struct begin_args {
    step_params *p;
    step_kind kind;
    int32_t rows_max;  /* bucket of the rows that the target sees */
    int32_t mask_id;   /* token of the draft's mask rows */
    int32_t window;    /* of the draft: older positions are not projected */
    pick_lists *lists; /* the ops' own copy, which counts in.counted; NULL: the ops read the host's */
} begin_args;

/* y[r] = table[token[r]], BF16 -> F32. Lanes share rows. */
typedef struct embed_args {
    view table; /* BF16 [V][D] */
    view y;     /* F32 [R][D] */
    const row_set *rows;
} embed_args;

/* angle = (float)pos[r] * inv_freq[i], one FP32 product; cosine and sine of it evaluated in double, rounded to FP32,
 * then one FP32 product with `factor`. Source: YaRN as transformers computes it. */
typedef struct rope_args {
    const float *inv_freq; /* [cols] */
    float factor;          /* attention factor; 1 for plain rotation */
    view cos, sin;         /* F32 [R][rotated / 2] */
    const row_set *rows;
} rope_args;

/* y[r] = RMSNorm(x[r]; w, eps), see fmath.h (fm_norm_scale); y is F32 or BF16. */
typedef struct norm_args {
    view x; /* F32 [R][D] */
    view y; /* F32 or BF16 [R][D] */
    const bf16 *w;
    float eps;
    live_rows rows;
} norm_args;

/* Candidates of draft rows: the k largest logits of each row, falling, ties by smaller id; logp = (logit - max) -
 * (float)fm_log_d(sum), each exponential by fm_exp, the sum in sixteen accumulators by id mod 16 and the tree of
 * fmath.h. */
typedef struct topk_args {
    view logits; /* F32 [R][V] */
    view id;     /* I32 [R][k] */
    view logp;   /* F32 [R][k] */
    live_rows rows;
} topk_args;

/* Builds p->st.rows from the draft's candidates and the given proposals, best first, and keeps as many as are worth
 * their rows (tree_grow and tree_cut of kernels/tree_core.h): row d-1 of `id` holds the candidates of depth d, of which
 * in.branch are used; one candidate per depth gives a chain. One lane. */
typedef struct tree_args {
    step_params *p;
    view id, logp;
    int32_t rows_max; /* bucket of the verify rows */
} tree_args;

/* p->st.choice[i] = the target's own choice for head row i, by the one rule for greedy and sampled decoding, over the
 * row's own path (kernels/pick_core.h); p->st.logprobs[i] with it when p->in.logprobs asks (kernels/logprob_core.h).
 * Lanes share rows. */
typedef struct pick_args {
    step_params *p;
    const pick_lists *lists;
    view logits; /* F32 [R][V] */
    view mask;   /* I32 [R][ceil(V / 32)], read when in.masked: bit v % 32 of word v / 32 says whether row i may choose
                    token v; data NULL: no step is masked */
} pick_args;

/* Walks from the anchor while the choice is a child, then sets base, anchor and the result record. One lane. */
typedef struct accept_args {
    step_params *p;
    step_kind kind;
} accept_args;

/* p->out.stamp[which] = monotonic nanoseconds. One lane. */
typedef struct stamp_args {
    step_params *p;
    int32_t which;
} stamp_args;
#endif
