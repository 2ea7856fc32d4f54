#include "engine/core/bytes.h"

static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t sum(const pass_bytes *b) {
    return b->attention + b->dense + b->router + b->shared + b->experts + b->head + b->kv_global + b->kv_sliding;
}

/* Mean bytes of one expert of a layer. */
static double expert_bytes(const target_config *c, const target_layer_weights *l) {
    int64_t all = 0;
    for (int32_t e = 0; e < c->experts; e++)
        all += weight_bytes(&l->expert_gate[e]) + weight_bytes(&l->expert_up[e]) + weight_bytes(&l->expert_down[e]);
    return c->experts ? (double)all / c->experts : 0.0;
}

pass_bytes bytes_target_pass(const target_config *c, const target_weights *w, double distinct, int64_t ctx, dtype kv) {
    pass_bytes b = { .head = weight_bytes(&w->head) };
    int64_t row = 2 * (int64_t)c->kv_heads * c->head_dim * dtype_bits(kv) / 8;
    for (int32_t l = 0; l < c->layers; l++) {
        const target_layer_weights *lw = &w->layer[l];
        b.attention += weight_bytes(&lw->q) + weight_bytes(&lw->k) + weight_bytes(&lw->v) + weight_bytes(&lw->g) +
                       weight_bytes(&lw->o);
        int64_t mlp = weight_bytes(&lw->gate) + weight_bytes(&lw->up) + weight_bytes(&lw->down);
        *(c->layer[l].sparse ? &b.shared : &b.dense) += mlp;
        if (c->layer[l].sparse) {
            b.router += weight_bytes(&lw->router);
            b.experts += (int64_t)(distinct * expert_bytes(c, lw));
        }
        if (c->layer[l].sliding)
            b.kv_sliding += row * min_i64(ctx, c->window);
        else
            b.kv_global += row * ctx;
    }
    b.total = sum(&b);
    return b;
}

pass_bytes bytes_draft_pass(const draft_config *c, const draft_weights *w, const target_weights *t, int64_t ctx) {
    pass_bytes b = { .head = weight_bytes(&t->head), .dense = weight_bytes(&w->fc) };
    for (int32_t l = 0; l < c->layers; l++) {
        const draft_layer_weights *lw = &w->layer[l];
        b.attention += weight_bytes(&lw->q) + weight_bytes(&lw->k) + weight_bytes(&lw->v) + weight_bytes(&lw->g) +
                       weight_bytes(&lw->o);
        b.dense += weight_bytes(&lw->gate) + weight_bytes(&lw->up) + weight_bytes(&lw->down);
    }
    b.kv_sliding = 2 * (int64_t)c->layers * c->kv_heads * c->head_dim * (int64_t)sizeof(bf16) * min_i64(ctx, c->window);
    b.total = sum(&b);
    return b;
}

double bytes_independent_experts(int32_t n, int32_t k, int32_t rows) {
    double missed = 1.0;
    for (int32_t r = 0; r < rows; r++) missed *= 1.0 - (double)k / (n ? n : 1);
    return n * (1.0 - missed);
}
