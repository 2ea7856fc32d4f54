#include "engine/core/shape.h"

#include "engine/load/model_dir.h"

#include <stdio.h>

/* hidden_size, num_hidden_layers, ... of Laguna-S-2.1; every fourth layer is full_attention with 48 query heads, the
 * others are sliding_attention with 72 (layer_types, num_attention_heads_per_layer); the first mlp_layer_type is dense.
 */
target_config shape_s21_target(void) {
    target_config c = { .hidden = 3072,             /* hidden_size */
                        .layers = 48,               /* num_hidden_layers */
                        .vocab = 100352,            /* vocab_size */
                        .head_dim = 128,            /* head_dim */
                        .kv_heads = 8,              /* num_key_value_heads */
                        .dense_width = 12288,       /* intermediate_size */
                        .window = 512,              /* sliding_window */
                        .experts = 256,             /* num_experts */
                        .experts_per_token = 10,    /* num_experts_per_tok */
                        .expert_width = 1024,       /* moe_intermediate_size */
                        .shared_width = 1024,       /* shared_expert_intermediate_size */
                        .normalize = true,          /* norm_topk_prob */
                        .routed_scale = 2.5,        /* moe_routed_scaling_factor */
                        .norm_eps = 1e-6,           /* rms_norm_eps */
                        .positions_max = 1048576 }; /* max_position_embeddings */
    for (int32_t l = 0; l < c.layers; l++)
        c.layer[l] = (target_layer_config){ .sliding = l % 4 != 0, .sparse = l > 0, .heads = l % 4 ? 72 : 48 };
    return c;
}

/* Laguna-S-2.1-DFlash; taps are dflash_config.target_layer_ids. */
draft_config shape_s21_draft(void) {
    return (draft_config){ .hidden = 3072,
                           .layers = 6,
                           .vocab = 100352,
                           .heads = 72,
                           .kv_heads = 8,
                           .head_dim = 128,
                           .width = 12288,
                           .window = 512,
                           .norm_eps = 1e-6,
                           .rope_theta = 500000.0,
                           .block_size = 16,
                           .mask_id = 12,
                           .target_layers = 48,
                           .taps = 6,
                           .tap_layer = { 1, 10, 19, 29, 38, 47 } };
}

static void shape_weights(model_shape *s) {
    target_weights_shape(&s->target_weights, &s->target, s->experts);
    if (s->has_draft) draft_weights_shape(&s->draft_weights, &s->draft);
}

void shape_s21(model_shape *out) {
    *out = (model_shape){ .name = "Laguna S 2.1",
                          .draft_name = "its DFlash draft",
                          .target = shape_s21_target(),
                          .draft = shape_s21_draft(),
                          .has_draft = true,
                          .experts = DT_MXFP4 };
    shape_weights(out);
}

static status read_target(model_shape *s, const char *folder, err *e) {
    model_dir *dir;
    TRY(model_dir_open_small(&dir, SOURCE_FOLDER, folder, e));
    cfg c = model_dir_config(dir);
    status st = target_config_read(&s->target, c, e);
    s->experts = target_config_says_mxfp4(c) ? DT_MXFP4 : DT_BF16;
    if (st == OK && s->experts == DT_BF16 && cfg_find(c, "quantization_config"))
        st = err_set(e, ERR_MODEL, "%s: quantization_config: expected MXFP4 or none", c.file);
    snprintf(s->name, sizeof s->name, "%s", model_dir_name(dir));
    model_dir_close(dir);
    return st == OK ? OK : err_wrap(e, "target %s", s->name);
}

static status read_draft(model_shape *s, const char *folder, err *e) {
    model_dir *dir;
    TRY(model_dir_open_small(&dir, SOURCE_FOLDER, folder, e));
    const target_config *t = &s->target;
    status st = draft_config_read(&s->draft, model_dir_config(dir), e);
    if (st == OK) st = draft_config_check(&s->draft, t->hidden, t->vocab, t->layers, e);
    snprintf(s->draft_name, sizeof s->draft_name, "%s", model_dir_name(dir));
    model_dir_close(dir);
    s->has_draft = st == OK;
    return st == OK ? OK : err_wrap(e, "draft %s", s->draft_name);
}

status shape_open(model_shape *out, const char *target_dir, const char *draft_dir, err *e) {
    model_shape s = { 0 };
    TRY(read_target(&s, target_dir, e));
    if (draft_dir) TRY(read_draft(&s, draft_dir, e));
    shape_weights(&s);
    *out = s;
    return OK;
}

void shape_close(model_shape *s) {
    target_weights_deinit(&s->target_weights);
    draft_weights_deinit(&s->draft_weights);
}
