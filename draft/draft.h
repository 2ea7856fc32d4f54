/* draft/draft.h - the DFlash draft: context rows from target taps, and one block pass that proposes a token per mask
 * row.
 *
 * Knows the target only through draft_inputs. Source: DFlash block diffusion (z-lab), in the causal Laguna form. */
#ifndef DRAFT_DRAFT_H
#define DRAFT_DRAFT_H
#include "draft/weights.h"
#include "graphs/work.h"
#include "kernels/op.h"

typedef struct draft_inputs {
    view tap_ring;  /* BF16 [slots][taps * D] */
    view embedding; /* BF16 [V][D] */
    weight head;    /* BF16 [V][D] */
} draft_inputs;

typedef struct draft {
    device *on; /* where weights and memory are; NULL: the host */
    draft_config cfg;
    draft_weights w;
    float *inv_freq;
    const float *freq; /* the same where the ops run */
    draft_inputs in;
    kv_store *ring;  /* [layers] context rows of committed positions */
    kv_store *block; /* [layers] rows of the block in flight: anchor and masks */
    void *memory;
    size_t bytes;
} draft;

status draft_init(draft *out, const model_dir *dir, err *e); /* dir must outlive the draft */
/* As target_device_bytes and target_to_device. */
size_t draft_device_bytes(const draft *d);
status draft_to_device(draft *d, device *on, bool verify, err *e);
status draft_seed(draft *d, device *on, uint32_t seed, size_t *bytes, err *e); /* as target_seed */
size_t draft_kv_bytes(const draft_config *c);
status draft_alloc(draft *d, draft_inputs in, err *e);
void draft_deinit(draft *d);

/* Context K and V of the positions in rows (taps of these positions are in the ring). */
void draft_context(const draft *d, op_sink *s, work *w, const row_set *rows, int32_t bucket);

typedef struct draft_pass {
    view x;      /* F32 [R][D] residual stream of the block */
    view logits; /* F32 [R][V]; live: head->n rows */
} draft_pass;

/* The block: rows->token (anchor, masks) at rows->pos; logits of the rows that `head` names. */
draft_pass draft_block(const draft *d, op_sink *s, work *w, const row_set *rows, int32_t bucket, live_rows head);
#endif
