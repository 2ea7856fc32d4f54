/* tests/model/laguna_s21.h - the shapes of Laguna S 2.1 and its draft, without their weights: configs as their files
 * state them, and weight structs in which every matrix has its size and type and no data. For models of memory and
 * bytes. */
#ifndef TESTS_MODEL_LAGUNA_S21_H
#define TESTS_MODEL_LAGUNA_S21_H
#include "draft/weights.h"
#include "engine/base/arena.h"
#include "target/weights.h"

#define S21 __attribute__((unused)) static

S21 target_config s21_target(void) {
    target_config c = { .hidden = 3072,
                        .layers = 48,
                        .vocab = 100352,
                        .head_dim = 128,
                        .kv_heads = 8,
                        .dense_width = 12288,
                        .window = 512,
                        .experts = 256,
                        .experts_per_token = 10,
                        .expert_width = 1024,
                        .shared_width = 1024,
                        .normalize = true,
                        .routed_scale = 2.5,
                        .norm_eps = 1e-6,
                        .positions_max = 1048576 };
    for (int32_t l = 0; l < c.layers; l++)
        c.layer[l] = (target_layer_config){ .sliding = l % 4 != 0, .sparse = l > 0, .heads = l % 4 ? 72 : 48 };
    return c;
}

S21 draft_config s21_draft(void) {
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

static weight s21_bf16(int32_t n, int32_t k) { return (weight){ .n = n, .k = k, .type = DT_BF16 }; }
static weight s21_mxfp4(int32_t n, int32_t k) { return (weight){ .n = n, .k = k, .type = DT_MXFP4 }; }

/* The arrays belong to mem. Experts MXFP4, everything else BF16. */
S21 target_weights s21_target_weights(const target_config *c, arena *mem) {
    target_weights w = { .embed = s21_bf16(c->vocab, c->hidden), .head = s21_bf16(c->vocab, c->hidden) };
    int32_t kv = c->kv_heads * c->head_dim;
    w.layer = arena_alloc(mem, (size_t)c->layers * sizeof *w.layer);
    for (int32_t l = 0; l < c->layers; l++) {
        target_layer_weights *y = &w.layer[l];
        int32_t heads = c->layer[l].heads, width = c->layer[l].sparse ? c->shared_width : c->dense_width;
        y->q = s21_bf16(heads * c->head_dim, c->hidden);
        y->k = y->v = s21_bf16(kv, c->hidden);
        y->g = s21_bf16(heads, c->hidden);
        y->o = s21_bf16(c->hidden, heads * c->head_dim);
        y->gate = y->up = s21_bf16(width, c->hidden);
        y->down = s21_bf16(c->hidden, width);
        if (!c->layer[l].sparse) continue;
        y->router = s21_bf16(c->experts, c->hidden);
        weight *x = arena_alloc(mem, 3 * (size_t)c->experts * sizeof *x);
        y->expert_gate = x, y->expert_up = x + c->experts, y->expert_down = x + 2 * c->experts;
        for (int32_t i = 0; i < c->experts; i++) {
            y->expert_gate[i] = y->expert_up[i] = s21_mxfp4(c->expert_width, c->hidden);
            y->expert_down[i] = s21_mxfp4(c->hidden, c->expert_width);
        }
    }
    return w;
}

S21 draft_weights s21_draft_weights(const draft_config *c, arena *mem) {
    draft_weights w = { .fc = s21_bf16(c->hidden, c->taps * c->hidden) };
    w.layer = arena_alloc(mem, (size_t)c->layers * sizeof *w.layer);
    for (int32_t l = 0; l < c->layers; l++)
        w.layer[l] = (draft_layer_weights){ .q = s21_bf16(c->heads * c->head_dim, c->hidden),
                                            .k = s21_bf16(c->kv_heads * c->head_dim, c->hidden),
                                            .v = s21_bf16(c->kv_heads * c->head_dim, c->hidden),
                                            .g = s21_bf16(c->heads, c->hidden),
                                            .o = s21_bf16(c->hidden, c->heads * c->head_dim),
                                            .gate = s21_bf16(c->width, c->hidden),
                                            .up = s21_bf16(c->width, c->hidden),
                                            .down = s21_bf16(c->hidden, c->width) };
    return w;
}
#endif
