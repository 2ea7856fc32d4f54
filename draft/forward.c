/* Both passes of the draft, one op call a line of the equations. */
#include "draft/draft.h"

#include <math.h>

/* cos and sin are taken from the work of the caller's part: the rows of context and block stand at different positions.
 */
static void angles(const draft *d, op_sink *s, const view *cos, const view *sin, const row_set *rows) {
    op_rope(s, &(rope_args){ .inv_freq = d->freq, .factor = 1.0f, .cos = *cos, .sin = *sin, .rows = rows });
}

/* taps -> one norm each -> fc -> hidden_norm -> per layer: input norm, K and V rows of the projection -> ring */
void draft_context(const draft *d, op_sink *s, work *w, const row_set *rows, int32_t bucket) {
    const draft_config *c = &d->cfg;
    float eps = (float)c->norm_eps;
    live_rows live = { &rows->n, NULL, bucket };
    view taps = work_take(w, "taps", bucket, c->taps * c->hidden, DT_BF16);
    view f = work_take(w, "features", bucket, c->hidden, DT_F32),
         g = work_take(w, "context", bucket, c->hidden, DT_F32);
    view kv = work_take(w, "context_kv", bucket, 2 * c->kv_heads * c->head_dim, DT_F32);
    view cos = work_take(w, "context_cos", bucket, c->head_dim / 2, DT_F32);
    view sin = work_take(w, "context_sin", bucket, c->head_dim / 2, DT_F32);
    tap_norm_args norm = { .ring = d->in.tap_ring, .taps = c->taps, .eps = eps, .y = taps, .rows = rows };
    memcpy(norm.norm, d->w.tap_norm, sizeof norm.norm);
    angles(d, s, &cos, &sin, rows);
    op_tap_norm(s, &norm);
    op_linear(s, &(linear_args){ .x = taps, .y = f, .part = { d->w.fc }, .rows = live });
    op_norm(s, &(norm_args){ .x = f, .y = g, .w = d->w.hidden_norm, .eps = eps, .rows = live });
    for (int32_t l = 0; l < c->layers; l++) {
        const draft_layer_weights *lw = &d->w.layer[l];
        op_linear(s, &(linear_args){
                         .x = g, .y = kv, .part = { lw->k, lw->v }, .norm = lw->input_norm, .eps = eps, .rows = live });
        op_ctx_store(
            s,
            &(ctx_store_args){
                .kv = kv, .cos = cos, .sin = sin, .k_norm = lw->k_norm, .eps = eps, .ring = d->ring[l], .rows = rows });
    }
}

typedef struct block_views {
    view x, qkvg, q, heads, h, cos, sin;
} block_views;

static void layer(const draft *d, op_sink *s, const block_views *v, const row_set *rows, int32_t bucket, int32_t l) {
    const draft_config *c = &d->cfg;
    const draft_layer_weights *w = &d->w.layer[l];
    float eps = (float)c->norm_eps;
    live_rows live = { &rows->n, NULL, bucket };
    int32_t qkv = (c->heads + 2 * c->kv_heads) * c->head_dim;
    view gate = { (float *)v->qkvg.data + qkv, v->qkvg.stride, bucket, v->qkvg.cols - qkv, DT_F32 };
    op_linear(s, &(linear_args){ .x = v->x,
                                 .y = v->qkvg,
                                 .part = { w->q, w->k, w->v, w->g },
                                 .norm = w->input_norm,
                                 .eps = eps,
                                 .rows = live });
    op_qkv_store(s, &(qkv_store_args){ .qkv = view_cols(v->qkvg, qkv),
                                       .q = v->q,
                                       .cos = v->cos,
                                       .sin = v->sin,
                                       .q_norm = w->q_norm,
                                       .k_norm = w->k_norm,
                                       .eps = eps,
                                       .heads = c->heads,
                                       .kv = d->block[l],
                                       .rows = rows });
    op_attn(s, &(attn_args){ .q = v->q,
                             .gate = gate,
                             .y = v->heads,
                             .past = d->ring[l],
                             .block = d->block[l],
                             .heads = c->heads,
                             .window = c->window,
                             .scale = 1.0f / sqrtf((float)c->head_dim),
                             .rows_max = bucket,
                             .rows = rows });
    op_linear(s, &(linear_args){ .x = v->heads, .y = v->x, .add = v->x, .part = { w->o }, .rows = live });
    op_glu(s, &(glu_args){
                  .x = v->x, .y = v->h, .gate = w->gate, .up = w->up, .norm = w->post_norm, .eps = eps, .rows = live });
    op_linear(s, &(linear_args){ .x = v->h, .y = v->x, .add = v->x, .part = { w->down }, .rows = live });
}

draft_pass draft_block(const draft *d, op_sink *s, work *w, const row_set *rows, int32_t bucket, live_rows head) {
    const draft_config *c = &d->cfg;
    int32_t gates = c->gate_per_element ? c->heads * c->head_dim : c->heads;
    block_views v = {
        .x = work_take(w, "draft_x", bucket, c->hidden, DT_F32),
        .qkvg = work_take(w, "draft_qkvg", bucket, (c->heads + 2 * c->kv_heads) * c->head_dim + gates, DT_F32),
        .q = work_take(w, "draft_q", bucket, c->heads * c->head_dim, DT_BF16),
        .heads = work_take(w, "draft_heads", bucket, c->heads * c->head_dim, DT_BF16),
        .h = work_take(w, "draft_h", bucket, c->width, DT_BF16),
        .cos = work_take(w, "draft_cos", bucket, c->head_dim / 2, DT_F32),
        .sin = work_take(w, "draft_sin", bucket, c->head_dim / 2, DT_F32),
    };
    draft_pass p = { v.x, work_take(w, "draft_logits", head.max, c->vocab, DT_F32) };
    op_embed(s, &(embed_args){ .table = d->in.embedding, .y = v.x, .rows = rows });
    angles(d, s, &v.cos, &v.sin, rows);
    for (int32_t l = 0; l < c->layers; l++) layer(d, s, &v, rows, bucket, l);
    op_linear(s, &(linear_args){ .x = v.x,
                                 .y = p.logits,
                                 .part = { d->in.head },
                                 .norm = d->w.norm,
                                 .eps = (float)c->norm_eps,
                                 .rows = head });
    return p;
}
