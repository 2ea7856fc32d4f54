/* engine/core/probe.h - doors into a started pair for verify and tests: one layer alone, the head alone, the draft's
 * two passes alone, each fed with given values. Ops run one by one. Never used by the engine. */
#ifndef ENGINE_CORE_PROBE_H
#define ENGINE_CORE_PROBE_H
#include "engine/core/pair.h"

typedef struct probe probe;

status probe_open(probe **out, pair *p, err *e);
void probe_close(probe *b);

/* All rows stand at positions 0 .. n - 1 of an empty sequence; n <= PREFILL_MAX. x: F32 [n][D]. */
void probe_embed(probe *b, const int32_t *ids, int32_t n, float *x);
/* x is read and replaced. id, share ([n][experts per token]) are written for sparse layers; NULL is fine. */
void probe_layer(probe *b, int32_t layer, int32_t n, float *x, int32_t *id, float *share);
/* norm: F32 [n][D] before rounding; logits: F32 [n][V]. */
void probe_head(probe *b, int32_t n, const float *x, float *norm, float *logits);

/* steps_prefill of n tokens, and then the head over all their rows: row i has the logits of the token behind tokens[i].
 * F32 [n][V]. */
void probe_prefill(probe *b, const int32_t *tokens, int32_t n, float *logits);
/* What step number `step` left as the target's logits of its first n head rows, F32 [n][V]. */
void probe_step_logits(probe *b, int step, int32_t n, float *logits);

/* What the tap ring holds for tap j at positions 0 .. n - 1 after probe_layer of its layer; F32 [n][D]. n <= ring rows.
 */
void probe_get_tap(const probe *b, int32_t j, int32_t n, float *out);
/* Puts residual rows of tap j for positions from .. from + n - 1 into the ring, rounded to BF16. */
void probe_set_tap(probe *b, int32_t j, int32_t from, int32_t n, const float *x);

/* Context rows at positions from .. from + n - 1 out of the tap ring. */
void probe_context(probe *b, int32_t from, int32_t n);
/* One context row of a draft layer: F32 [G * E] each. */
void probe_get_context(const probe *b, int32_t layer, int32_t pos, float *k, float *v);
void probe_set_context(probe *b, int32_t layer, int32_t pos, const float *k, const float *v);
/* The block [anchor, masks] at position P over the context rows that are in the ring: logits of rows 1 .. k, F32
 * [k][V]. */
void probe_block(probe *b, int32_t anchor, int32_t P, int32_t k, float *logits);

/* ---- keys and values of the live sequence ---- */

/* Those of the target below position `to`, as far as a row there sees them. */
typedef struct probe_kv probe_kv;
probe_kv *probe_kv_copy(const pair *p, int32_t to);
void probe_kv_free(probe_kv *c);
/* The first position, and there the first layer, where they are no longer the same; false: none. */
bool probe_kv_differs(const pair *p, const probe_kv *c, int32_t *pos, int32_t *layer);
#endif
