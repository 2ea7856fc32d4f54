/* draft/config.h - the DFlash draft's config, typed and validated. */
#ifndef DRAFT_CONFIG_H
#define DRAFT_CONFIG_H
#include "engine/load/cfg.h"
#include "kernels/tap.h"

typedef struct draft_config {
    int32_t hidden, layers, vocab, heads, kv_heads, head_dim, width, window;
    bool gate_per_element;
    double norm_eps, rope_theta;
    int32_t block_size, mask_id, target_layers; /* dflash_config.num_target_layers; 0: not stated */
    int32_t taps, tap_layer[TAPS_MAX]; /* 0-based target layers, ascending; the tap is the residual after the layer */
} draft_config;

/* Reads dflash_config.target_layer_ids and eagle_aux_hidden_state_layer_ids (= ids + 1): both must agree, one is
 * derived from the other. Plain rotation with the top-level rope_theta. Refuses layers that are not sliding, causal
 * false. */
status draft_config_read(draft_config *out, cfg c, err *e);

/* Does this draft belong to a target of these sizes? One message lists every disagreement. */
status draft_config_check(const draft_config *c, int32_t hidden, int32_t vocab, int32_t layers, err *e);
#endif
