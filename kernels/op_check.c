/* Shapes of every op, checked when it is put. A wrong one is a bug of the forward code: CHECK. */
#include "engine/base/status.h"
#include "kernels/dispatch.h"
#include "kernels/kv_map.h"
#include "kernels/mxfp4.h"

/* --- parts --- */

static bool is_view(const view *v, dtype type) {
    return v->data && v->type == type && v->rows > 0 && v->cols > 0 &&
           v->stride * 8 >= (int64_t)v->cols * dtype_bits(type);
}

static bool is_matrix(const weight *w, int32_t k) {
    if (!w->data || w->n <= 0 || w->k != k) return false;
    return w->type == DT_BF16 || (w->type == DT_MXFP4 && w->scale && k % MXFP4_GROUP == 0);
}

/* The bucket fits into the input, where rows may start further down, and into the output. */
static bool is_bucket(const live_rows *rows, const view *in, const view *out) {
    return rows->n && rows->max > 0 && rows->max <= out->rows && (rows->first ? in->rows > 0 : rows->max <= in->rows);
}

static bool is_store(const kv_store *s) {
    if (!s->k || !s->v || s->heads <= 0 || s->size <= 0) return false;
    if (s->type != DT_BF16 && s->type != DT_E4M3) return false;
    int64_t row = kv_bytes(s, (int64_t)s->heads * s->size);
    if (s->kind == KV_PAGES) return s->pages && s->slots == 0 && s->bytes > 0 && s->bytes % (row * KV_PAGE) == 0;
    return s->slots > 0 && s->bytes >= row * s->slots;
}

/* Tables of cosines and sines for heads of this size. */
static bool is_rotation(const view *cosine, const view *sine, int32_t size) {
    return is_view(cosine, DT_F32) && is_view(sine, DT_F32) && cosine->cols == sine->cols && 2 * cosine->cols <= size;
}

/* --- ops --- */

static void check_begin(const begin_args *a) {
    CHECK(a->p);
    CHECK(a->rows_max > 0 && a->rows_max <= (a->kind == STEP_ROUND ? NODES_MAX : PREFILL_MAX));
    CHECK(a->window >= 0);
}

static void check_embed(const embed_args *a) {
    CHECK(is_view(&a->table, DT_BF16) && is_view(&a->y, DT_F32) && a->rows);
    CHECK(a->table.cols == a->y.cols);
}

static void check_rope(const rope_args *a) {
    CHECK(is_rotation(&a->cos, &a->sin, 2 * a->cos.cols));
    CHECK(a->inv_freq && a->rows);
}

static void check_norm(const norm_args *a) {
    CHECK(is_view(&a->x, DT_F32) && (is_view(&a->y, DT_F32) || is_view(&a->y, DT_BF16)) && a->w);
    CHECK(a->x.cols == a->y.cols);
    CHECK(is_bucket(&a->rows, &a->x, &a->y));
}

static void check_linear(const linear_args *a) {
    CHECK(is_view(&a->x, a->norm ? DT_F32 : DT_BF16) && is_view(&a->y, DT_F32));
    CHECK(a->x.data != a->y.data);
    CHECK(is_bucket(&a->rows, &a->x, &a->y));
    int32_t columns = 0;
    for (int i = 0; i < LINEAR_PARTS; i++) {
        CHECK(a->part[i].n == 0 || is_matrix(&a->part[i], a->x.cols));
        columns += a->part[i].n;
    }
    CHECK(columns == a->y.cols);
    if (!a->add.data) return;
    CHECK(is_view(&a->add, DT_F32) && a->add.cols == a->y.cols && a->add.rows >= a->rows.max);
}

static void check_glu(const glu_args *a) {
    CHECK(is_view(&a->x, DT_F32) && a->norm && is_view(&a->y, DT_BF16));
    CHECK(is_matrix(&a->gate, a->x.cols) && is_matrix(&a->up, a->x.cols));
    CHECK(a->gate.n == a->y.cols && a->up.n == a->y.cols);
    CHECK(is_bucket(&a->rows, &a->x, &a->y));
}

static void check_qkv_store(const qkv_store_args *a) {
    CHECK(is_store(&a->kv) && a->rows && a->q_norm && a->k_norm);
    CHECK(a->heads > 0);
    CHECK(is_view(&a->qkv, DT_F32) && a->qkv.cols >= (a->heads + 2 * a->kv.heads) * a->kv.size);
    CHECK(is_view(&a->q, DT_BF16) && a->q.cols == a->heads * a->kv.size);
    CHECK(is_rotation(&a->cos, &a->sin, a->kv.size));
}

static void check_attn(const attn_args *a) {
    CHECK(is_store(&a->past) && a->past.kind != KV_BLOCK && a->rows);
    if (a->block.k) {
        CHECK(is_store(&a->block) && a->block.kind == KV_BLOCK);
        CHECK(a->block.heads == a->past.heads && a->block.size == a->past.size);
    }
    CHECK(a->heads > 0 && a->heads % a->past.heads == 0);
    int32_t width = a->heads * a->past.size;
    CHECK(is_view(&a->q, DT_BF16) && a->q.cols == width);
    CHECK(is_view(&a->y, DT_BF16) && a->y.cols == width);
    CHECK(is_view(&a->gate, DT_F32) && (a->gate.cols == a->heads || a->gate.cols == width));
    CHECK(a->rows_max > 0 && a->rows_max <= a->q.rows && a->rows_max <= a->y.rows && a->rows_max <= a->gate.rows);
    CHECK(a->window >= 0 && a->scale > 0.0f);
}

static void check_route(const route_args *a) {
    CHECK(is_view(&a->x, DT_F32) && a->norm);
    CHECK(is_matrix(&a->w, a->x.cols) && a->w.type == DT_BF16);
    CHECK(is_view(&a->score, DT_F32) && a->score.cols == a->w.n && a->score.rows >= a->rows.max);
    CHECK(is_view(&a->id, DT_I32) && a->id.cols <= a->w.n && a->id.rows >= a->rows.max);
    CHECK(is_view(&a->share, DT_F32) && a->share.cols == a->id.cols);
    CHECK(a->softcap >= 0.0f);
    CHECK(is_bucket(&a->rows, &a->x, &a->share));
}

static void check_moe_up(const moe_up_args *a) {
    CHECK(is_view(&a->x, DT_F32) && a->norm && is_view(&a->h, DT_BF16));
    CHECK(is_view(&a->id, DT_I32) && a->experts > 0);
    for (int32_t e = 0; e < a->experts; e++) {
        CHECK(is_matrix(&a->gate[e], a->x.cols) && is_matrix(&a->up[e], a->x.cols));
        CHECK(a->gate[e].n == a->up[e].n && a->gate[e].n <= a->h.cols);
    }
    CHECK(a->shared_gate.n == a->shared_up.n && a->shared_gate.n <= a->h.cols);
    if (a->shared_gate.n) CHECK(is_matrix(&a->shared_gate, a->x.cols) && is_matrix(&a->shared_up, a->x.cols));
    CHECK(a->h.rows >= a->rows.max * (a->id.cols + 1));
    CHECK(is_bucket(&a->rows, &a->x, &a->id));
}

static void check_moe_down(const moe_down_args *a) {
    CHECK(is_view(&a->x, DT_F32) && is_view(&a->h, DT_BF16));
    CHECK(is_view(&a->id, DT_I32) && a->experts > 0);
    CHECK(is_view(&a->share, DT_F32) && a->share.cols == a->id.cols && a->share.rows >= a->rows.max);
    for (int32_t e = 0; e < a->experts; e++)
        CHECK(a->down[e].n == a->x.cols && a->down[e].k <= a->h.cols && is_matrix(&a->down[e], a->down[e].k));
    if (a->shared_down.n) {
        CHECK(a->shared_down.n == a->x.cols && a->shared_down.k <= a->h.cols);
        CHECK(is_matrix(&a->shared_down, a->shared_down.k));
    }
    CHECK(a->h.rows >= a->rows.max * (a->id.cols + 1));
    CHECK(is_bucket(&a->rows, &a->x, &a->id));
}

static void check_tap(const tap_args *a) {
    CHECK(is_view(&a->x, DT_F32) && is_view(&a->ring, DT_BF16) && a->rows);
    CHECK(a->column >= 0 && a->column + a->x.cols <= a->ring.cols);
}

static void check_tap_norm(const tap_norm_args *a) {
    CHECK(is_view(&a->ring, DT_BF16) && is_view(&a->y, DT_BF16) && a->rows);
    CHECK(a->taps > 0 && a->taps <= TAPS_MAX && a->ring.cols % a->taps == 0 && a->y.cols == a->ring.cols);
    for (int32_t j = 0; j < a->taps; j++) CHECK(a->norm[j]);
}

static void check_ctx_store(const ctx_store_args *a) {
    CHECK(is_store(&a->ring) && a->ring.kind != KV_BLOCK && a->ring.type == DT_BF16 && a->k_norm && a->rows);
    CHECK(is_view(&a->kv, DT_F32) && a->kv.cols == 2 * a->ring.heads * a->ring.size);
    CHECK(is_rotation(&a->cos, &a->sin, a->ring.size));
}

static void check_topk(const topk_args *a) {
    CHECK(is_view(&a->logits, DT_F32) && is_view(&a->id, DT_I32) && is_view(&a->logp, DT_F32));
    CHECK(a->id.cols == a->logp.cols && a->id.cols <= a->logits.cols && a->id.cols <= PICK_TOP_MAX &&
          a->id.rows >= a->rows.max);
    CHECK(is_bucket(&a->rows, &a->logits, &a->logp));
}

static void check_tree(const tree_args *a) {
    CHECK(a->p && a->rows_max > 0 && a->rows_max <= NODES_MAX);
    if (a->id.data) CHECK(is_view(&a->id, DT_I32)); /* absent: there is no draft, proposals are given */
}

static void check_pick(const pick_args *a) {
    CHECK(a->p && is_view(&a->logits, DT_F32));
    CHECK(a->lists);
    if (a->mask.data) CHECK(is_view(&a->mask, DT_I32) && a->mask.cols >= (a->logits.cols + 31) / 32);
}

static void check_accept(const accept_args *a) { CHECK(a->p); }

static void check_kv_move(const kv_move_args *a) {
    CHECK(a->p && a->n >= 0);
    for (int32_t i = 0; i < a->n; i++) CHECK(is_store(&a->stores[i]) && a->stores[i].kind != KV_BLOCK);
    if (a->taps.data) CHECK(is_view(&a->taps, DT_BF16));
}

static void check_stamp(const stamp_args *a) { CHECK(a->p && a->which >= 0 && a->which < STAMPS); }

void op_check(op_id id, const void *args) {
    switch (id) {
#define OP(ID, name)                                                                                                   \
    case OP_##ID:                                                                                                      \
        check_##name(args);                                                                                            \
        return;
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    CHECK(!"op id");
}
