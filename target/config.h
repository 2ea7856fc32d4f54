/* target/config.h - the Laguna config, typed and validated. Nothing that a config states is known elsewhere. */
#ifndef TARGET_CONFIG_H
#define TARGET_CONFIG_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/load/cfg.h"

enum { TARGET_LAYERS_MAX = 256 };

/* Rotation of one layer type; inv_freq is computed by kernels/rope_freq.h from these. */
typedef struct rope_config {
    bool yarn;
    double theta, factor, beta_fast, beta_slow;
    double original; /* original_max_position_embeddings */
    double
        attention_factor; /* final scale of cosine and sine: given, or derived as model.md 4.1 says; 1 without YaRN */
    bool truncate;
    int32_t dim; /* rotated elements of a head: head_dim * partial_rotary_factor, even */
} rope_config;

typedef struct target_layer_config {
    bool sliding;  /* window of target_config; else global */
    bool sparse;   /* mixture of experts; else dense MLP */
    int32_t heads; /* query heads */
} target_layer_config;

typedef struct target_config {
    int32_t hidden, layers, vocab, head_dim, kv_heads, dense_width, window; /* window 0: no sliding layer */
    int32_t experts, experts_per_token, expert_width, shared_width;         /* shared_width 0: no shared expert */
    bool normalize;                                                         /* norm_topk_prob */
    bool gate_per_element;                                                  /* else per head */
    double routed_scale, softcap, norm_eps;
    int32_t positions_max; /* max_position_embeddings */
    rope_config rope_global, rope_sliding;
    target_layer_config layer[TARGET_LAYERS_MAX];
} target_config;

/* ERR_MODEL names file, field, expected and found. Refuses what is known and not offered: attention sinks, other score
 * functions, attention bias, router weight on input, tied embeddings. */
status target_config_read(target_config *out, cfg c, err *e);

/* Does quantization_config say MXFP4? Where there are tensors, they decide. */
bool target_config_says_mxfp4(cfg c);
#endif
