/* draft/weights.h - the tensors of a DFlash checkpoint, bound to typed places. */
#ifndef DRAFT_WEIGHTS_H
#define DRAFT_WEIGHTS_H
#include "draft/config.h"
#include "engine/load/model_dir.h"
#include "kernels/linear.h"

typedef struct draft_layer_weights {
    const bf16 *input_norm, *post_norm, *q_norm, *k_norm;
    weight q, k, v, g, o; /* q, k, v: rows of the fused qkv_proj, or the split tensors */
    weight gate, up, down;
} draft_layer_weights;

typedef struct draft_weights {
    weight fc;
    const bf16 *hidden_norm, *norm, *tap_norm[TAPS_MAX];
    draft_layer_weights *layer;
    int64_t parameters, bytes;
    bool unit_norms; /* every norm weight is exactly 1 */
    struct arena *mem;
} draft_weights;

/* As target_weights_bind; a "model." prefix on every name is accepted. */
status draft_weights_bind(draft_weights *out, const model_dir *dir, const draft_config *c, err *e);
/* The same without files: every matrix has its size, in BF16, and no data; vectors are NULL. */
void draft_weights_shape(draft_weights *out, const draft_config *c);
void draft_weights_deinit(draft_weights *w);
#endif
