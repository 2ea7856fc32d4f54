/* Laguna's forward pass (Hugging Face transformers, models/laguna), one op call a line of the equations. */
#include "target/target.h"

#include "engine/base/num.h"

#include <math.h>

static int32_t gate_cols(const target_config *c, int32_t heads) {
    return c->gate_per_element ? heads * c->head_dim : heads;
}

target_pass target_pass_take(const target *t, work *w, const row_set *rows, int32_t bucket) {
    const target_config *c = &t->cfg;
    int32_t heads = 0, slots = c->experts_per_token + 1;
    for (int32_t l = 0; l < c->layers; l++) heads = max_i32(heads, c->layer[l].heads);
    int32_t moe = max_i32(c->expert_width, c->shared_width), experts = max_i32(c->experts, 1);
    int32_t qkvg = (heads + 2 * c->kv_heads) * c->head_dim + gate_cols(c, heads);
    target_pass p = { .rows = rows, .bucket = bucket };
    p.x = work_take(w, "x", bucket, c->hidden, DT_F32);
    p.qkvg = work_take(w, "qkvg", bucket, qkvg, DT_F32);
    p.q = work_take(w, "q", bucket, heads * c->head_dim, DT_BF16);
    p.heads = work_take(w, "heads", bucket, heads * c->head_dim, DT_BF16);
    p.h = work_take(w, "h", bucket * slots, max_i32(moe, c->dense_width), DT_BF16);
    p.score = work_take(w, "score", bucket, experts, DT_F32);
    p.id = work_take(w, "expert", bucket, max_i32(c->experts_per_token, 1), DT_I32);
    p.share = work_take(w, "share", bucket, max_i32(c->experts_per_token, 1), DT_F32);
    p.cos_global = work_take(w, "cos", bucket, c->rope_global.dim / 2, DT_F32);
    p.sin_global = work_take(w, "sin", bucket, c->rope_global.dim / 2, DT_F32);
    p.cos_sliding = work_take(w, "cos_sliding", bucket, c->rope_sliding.dim / 2, DT_F32);
    p.sin_sliding = work_take(w, "sin_sliding", bucket, c->rope_sliding.dim / 2, DT_F32);
    return p;
}

view target_embedding(const target *t) {
    const weight *e = &t->w.embed;
    return (view){ (void *)(uintptr_t)e->data, (int64_t)e->k * (int64_t)sizeof(bf16), e->n, e->k, DT_BF16 };
}

void target_angles(const target *t, op_sink *s, const target_pass *p) {
    const target_config *c = &t->cfg;
    bool global = false, sliding = false;
    for (int32_t l = 0; l < c->layers; l++) *(c->layer[l].sliding ? &sliding : &global) = true;
    if (global)
        op_rope(s, &(rope_args){ .inv_freq = t->freq_global,
                                 .factor = (float)c->rope_global.attention_factor,
                                 .cos = p->cos_global,
                                 .sin = p->sin_global,
                                 .rows = p->rows });
    if (sliding)
        op_rope(s, &(rope_args){ .inv_freq = t->freq_sliding,
                                 .factor = (float)c->rope_sliding.attention_factor,
                                 .cos = p->cos_sliding,
                                 .sin = p->sin_sliding,
                                 .rows = p->rows });
}

/* x += o_proj( attention(x) * softplus gate ) */
static void attention(const target *t, op_sink *s, const target_pass *p, int32_t l) {
    const target_config *c = &t->cfg;
    const target_layer_weights *w = &t->w.layer[l];
    const kv_store *kv = &t->kv.seen[l];
    bool sliding = c->layer[l].sliding;
    int32_t heads = c->layer[l].heads, qkv = (heads + 2 * c->kv_heads) * c->head_dim, gates = gate_cols(c, heads);
    live_rows live = { &p->rows->n, NULL, p->bucket };
    view qkvg = view_cols(p->qkvg, qkv + gates), q = view_cols(p->q, heads * c->head_dim);
    view y = view_cols(p->heads, heads * c->head_dim);
    view gate = { (float *)qkvg.data + qkv, qkvg.stride, qkvg.rows, gates, DT_F32 };
    op_linear(s, &(linear_args){ .x = p->x,
                                 .y = qkvg,
                                 .part = { w->q, w->k, w->v, w->g },
                                 .norm = w->input_norm,
                                 .eps = (float)c->norm_eps,
                                 .rows = live });
    op_qkv_store(s, &(qkv_store_args){ .qkv = view_cols(qkvg, qkv),
                                       .q = q,
                                       .cos = sliding ? p->cos_sliding : p->cos_global,
                                       .sin = sliding ? p->sin_sliding : p->sin_global,
                                       .q_norm = w->q_norm,
                                       .k_norm = w->k_norm,
                                       .eps = (float)c->norm_eps,
                                       .heads = heads,
                                       .kv = *kv,
                                       .rows = p->rows });
    op_attn(s, &(attn_args){ .q = q,
                             .gate = gate,
                             .y = y,
                             .past = *kv,
                             .heads = heads,
                             .window = sliding ? c->window : 0,
                             .scale = 1.0f / sqrtf((float)c->head_dim),
                             .rows_max = p->bucket,
                             .rows = p->rows });
    op_linear(s, &(linear_args){ .x = y, .y = p->x, .add = p->x, .part = { w->o }, .rows = live });
}

/* x += down( silu(gate x) * up x ) */
static void dense(const target *t, op_sink *s, const target_pass *p, int32_t l) {
    const target_layer_weights *w = &t->w.layer[l];
    live_rows live = { &p->rows->n, NULL, p->bucket };
    view h = { p->h.data, p->h.stride, p->bucket, t->cfg.dense_width, DT_BF16 };
    op_glu(s, &(glu_args){ .x = p->x,
                           .y = h,
                           .gate = w->gate,
                           .up = w->up,
                           .norm = w->post_norm,
                           .eps = (float)t->cfg.norm_eps,
                           .rows = live });
    op_linear(s, &(linear_args){ .x = h, .y = p->x, .add = p->x, .part = { w->down }, .rows = live });
}

/* x += scale * (routed experts of x) + shared expert of x */
static void experts(const target *t, op_sink *s, const target_pass *p, int32_t l) {
    const target_config *c = &t->cfg;
    const target_layer_weights *w = &t->w.layer[l];
    live_rows live = { &p->rows->n, NULL, p->bucket };
    view h = view_cols(p->h, max_i32(c->expert_width, c->shared_width));
    op_route(s, &(route_args){ .x = p->x,
                               .norm = w->post_norm,
                               .eps = (float)c->norm_eps,
                               .w = w->router,
                               .bias = w->router_bias,
                               .softcap = (float)c->softcap,
                               .normalize = c->normalize,
                               .score = p->score,
                               .id = p->id,
                               .share = p->share,
                               .rows = live });
    op_moe_up(s, &(moe_up_args){ .x = p->x,
                                 .norm = w->post_norm,
                                 .eps = (float)c->norm_eps,
                                 .gate = w->expert_gate,
                                 .up = w->expert_up,
                                 .experts = c->experts,
                                 .shared_gate = w->gate,
                                 .shared_up = w->up,
                                 .id = p->id,
                                 .h = h,
                                 .rows = live });
    op_moe_down(s, &(moe_down_args){ .h = h,
                                     .id = p->id,
                                     .share = p->share,
                                     .down = w->expert_down,
                                     .experts = c->experts,
                                     .shared_down = w->down,
                                     .scale = (float)c->routed_scale,
                                     .x = p->x,
                                     .rows = live });
}

void target_layer(const target *t, op_sink *s, const target_pass *p, int32_t l) {
    attention(t, s, p, l);
    if (t->cfg.layer[l].sparse)
        experts(t, s, p, l);
    else
        dense(t, s, p, l);
    for (int32_t j = 0; j < t->taps; j++)
        if (t->tap_layer[j] == l)
            op_tap(s, &(tap_args){ .x = p->x, .ring = t->tap_ring, .column = j * t->cfg.hidden, .rows = p->rows });
}

void target_rows(const target *t, op_sink *s, const target_pass *p) {
    op_embed(s, &(embed_args){ .table = target_embedding(t), .y = p->x, .rows = p->rows });
    target_angles(t, s, p);
    for (int32_t l = 0; l < t->cfg.layers; l++) target_layer(t, s, p, l);
}

void target_head(const target *t, op_sink *s, const view *x, const view *logits, live_rows rows) {
    op_linear(s, &(linear_args){ .x = *x,
                                 .y = *logits,
                                 .part = { t->w.head },
                                 .norm = t->w.final_norm,
                                 .eps = (float)t->cfg.norm_eps,
                                 .rows = rows });
}
