/* engine/core/bytes.h - the byte model: what one pass has to read. Decode speed is bytes over bandwidth, so every speed
 * is reported beside these numbers.
 *
 * A pass reads each dense weight once whatever its rows, `distinct` experts per sparse layer, and the keys and values
 * that its rows see once. Activations are left out. Pure. */
#ifndef ENGINE_CORE_BYTES_H
#define ENGINE_CORE_BYTES_H
#include "draft/weights.h"
#include "target/weights.h"

typedef struct pass_bytes {
    int64_t attention, dense, router, shared, experts, head; /* weights */
    int64_t kv_global, kv_sliding;
    int64_t total;
} pass_bytes;

/* One pass of the target. distinct: experts per sparse layer that its rows choose, a mean. ctx: committed positions;
 * kv: elements of their keys and values. */
pass_bytes bytes_target_pass(const target_config *c, const target_weights *w, double distinct, int64_t ctx, dtype kv);
/* One pass of the draft: context features, block, and the target's head again. */
pass_bytes bytes_draft_pass(const draft_config *c, const draft_weights *w, const target_weights *t, int64_t ctx);
/* Distinct experts of `rows` rows if each chose k of n independently: n (1 - (1 - k / n)^rows). Real text shares more.
 */
double bytes_independent_experts(int32_t n, int32_t k, int32_t rows);
#endif
