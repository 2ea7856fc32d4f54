/* target/target.h - the Laguna target: weights, KV, and its forward pass as ops on a sink.
 *
 * Knows nothing of a draft. What a draft needs is exposed as plain views: the tap ring, the embedding table, the head.
 */
#ifndef TARGET_TARGET_H
#define TARGET_TARGET_H
#include "graphs/work.h"
#include "kernels/op.h"
#include "target/kv.h"
#include "target/weights.h"

typedef struct target {
    device *on; /* where weights and memory are; NULL: the host */
    target_config cfg;
    target_weights w;
    target_kv kv;
    float *inv_freq_global, *inv_freq_sliding;
    const float *freq_global, *freq_sliding; /* the same where the ops run */
    int32_t taps, tap_layer[TAPS_MAX];
    view tap_ring; /* BF16 [slots][taps * D]; data NULL without taps */
} target;

/* Reads the config and binds the weights of dir, which must outlive the target. */
status target_init(target *out, const model_dir *dir, void (*progress)(void *arg, float fraction), void *arg, err *e);
/* Sends the weights to a device, before target_alloc; until target_deinit they are nowhere else. `verify`: every matrix
 * is read back and compared. head_rows and embedding rows are two matrices there, in two layouts. */
size_t target_device_bytes(const target *t);
status target_to_device(target *t, device *on, bool verify, void (*progress)(void *arg, float fraction), void *arg,
                        err *e);
/* For measuring: instead of weights of files those of a shape (target_weights_shape), with numbers of a seed, which is
 * not 0. on NULL: *bytes alone, which is what is to be reserved. */
status target_seed(target *t, device *on, uint32_t seed, size_t *bytes, err *e);
/* What target_alloc makes room for: KV of this type for ctx positions and some pages more, and a ring for the residuals
 * after the `taps` layers in tap_layer (window: how many positions back the reader looks). */
typedef struct target_room {
    int32_t ctx, spare_pages;
    dtype kv; /* DT_BF16 or DT_E4M3 */
    const int32_t *tap_layer;
    int32_t taps, window;
} target_room;

status target_alloc(target *t, const target_room *room, err *e);
void target_deinit(target *t);
size_t target_tap_bytes(const target_config *c, int32_t taps, int32_t window);

/* Activations of one pass over a bucket of rows; the views are the target's to fill. */
typedef struct target_pass {
    const row_set *rows;
    int32_t bucket;
    view x;                   /* F32 [R][D] residual stream */
    view qkvg, q, heads;      /* attention */
    view h, score, id, share; /* MLP and router */
    view cos_global, sin_global, cos_sliding, sin_sliding;
} target_pass;

target_pass target_pass_take(const target *t, work *w, const row_set *rows, int32_t bucket);
/* Embedding, all layers, taps. */
void target_rows(const target *t, op_sink *s, const target_pass *p);
/* The parts of target_rows, for tests that feed one layer alone. */
void target_angles(const target *t, op_sink *s, const target_pass *p);
void target_layer(const target *t, op_sink *s, const target_pass *p, int32_t layer);
/* logits[i] = head of residual row first + i; F32 [rows->max][V]. */
void target_head(const target *t, op_sink *s, const view *x, const view *logits, live_rows rows);
view target_embedding(const target *t);
#endif
