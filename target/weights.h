/* target/weights.h - the tensors of a Laguna checkpoint, bound to typed places. Weights stay mapped in the layout of
 * the file; only F16 and F32 matrices are converted to BF16, and small vectors that ops want in FP32. */
#ifndef TARGET_WEIGHTS_H
#define TARGET_WEIGHTS_H
#include "engine/load/model_dir.h"
#include "kernels/linear.h"
#include "target/config.h"

typedef struct target_layer_weights {
    const bf16 *input_norm, *post_norm, *q_norm, *k_norm;
    weight q, k, v, g, o;
    weight gate, up, down; /* dense MLP, or the shared expert (n 0: none) */
    weight router;
    const float *router_bias;                      /* [X] */
    weight *expert_gate, *expert_up, *expert_down; /* X each */
} target_layer_weights;

typedef struct target_weights {
    weight embed, head;
    const bf16 *final_norm;
    target_layer_weights *layer;
    int64_t parameters;
    int64_t bytes;     /* of tensors in the file */
    struct arena *mem; /* owns the arrays and the converted copies */
} target_weights;

/* Binds every tensor by name, aliases included; lists every missing, extra, wrong-shaped or wrong-typed one in one
 * ERR_MODEL. Scale bytes are scanned: 0xFF, and codes beyond FP32 at 253 and 254, are refused by name; codes that are
 * subnormal at 0 and 1, and so count as zero, are reported on the log. progress (may be NULL) is told the share of the
 * scan that is done. */
status target_weights_bind(target_weights *out, const model_dir *dir, const target_config *c,
                           void (*progress)(void *arg, float fraction), void *arg, err *e);
/* The same without files: every matrix has its size and type and no data, vectors are NULL. For models of bytes and
 * memory. experts: DT_MXFP4 or DT_BF16; everything else counts as BF16. */
void target_weights_shape(target_weights *out, const target_config *c, dtype experts);
void target_weights_deinit(target_weights *w);
#endif
