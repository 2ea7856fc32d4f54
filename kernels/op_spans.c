/* The memory every op reads and writes, for the recorder: two ops need a barrier between them when one writes what the
 * other reads or writes. Extents are hulls, so they may be too large and never too small. A written span may be read as
 * well. Constant memory is left out: weights, tables of frequencies, page tables and lists of stores, which only the
 * host writes, between steps. */
#include "engine/base/status.h"
#include "kernels/dispatch.h"

typedef struct span_list {
    span *at;
    int n;
} span_list;

static void put(span_list *l, const void *data, int64_t bytes, bool write) {
    if (!data || bytes <= 0) return;
    CHECK(l->n < SPANS_MAX);
    l->at[l->n++] = (span){ data, bytes, write };
}

static void put_view(span_list *l, const view *v, bool write) {
    int64_t row = (int64_t)v->cols * dtype_bits(v->type) / 8;
    put(l, v->data, (v->rows - 1) * v->stride + row, write);
}

static void put_live(span_list *l, const live_rows *rows) {
    put(l, rows->n, sizeof *rows->n, false);
    put(l, rows->first, sizeof *rows->first, false);
}

static void put_rows(span_list *l, const row_set *rows) { put(l, rows, sizeof *rows, false); }

static void put_block(span_list *l, const step_params *p, bool write) { put(l, p, sizeof *p, write); }

static void put_store(span_list *l, const kv_store *s, bool write) {
    put(l, s->k, s->bytes, write);
    put(l, s->v, s->bytes, write);
}

static void spans_begin(span_list *l, const begin_args *a) { put_block(l, a->p, true); }

static void spans_embed(span_list *l, const embed_args *a) {
    put_rows(l, a->rows);
    put_view(l, &a->y, true);
}

static void spans_rope(span_list *l, const rope_args *a) {
    put_rows(l, a->rows);
    put_view(l, &a->cos, true);
    put_view(l, &a->sin, true);
}

static void spans_norm(span_list *l, const norm_args *a) {
    put_live(l, &a->rows);
    put_view(l, &a->x, false);
    put_view(l, &a->y, true);
}

static void spans_linear(span_list *l, const linear_args *a) {
    put_live(l, &a->rows);
    put_view(l, &a->x, false);
    put_view(l, &a->add, false);
    put_view(l, &a->y, true);
}

static void spans_glu(span_list *l, const glu_args *a) {
    put_live(l, &a->rows);
    put_view(l, &a->x, false);
    put_view(l, &a->y, true);
}

static void spans_qkv_store(span_list *l, const qkv_store_args *a) {
    put_rows(l, a->rows);
    put_view(l, &a->qkv, false);
    put_view(l, &a->cos, false);
    put_view(l, &a->sin, false);
    put_view(l, &a->q, true);
    put_store(l, &a->kv, true);
}

static void spans_attn(span_list *l, const attn_args *a) {
    put_rows(l, a->rows);
    put_view(l, &a->q, false);
    put_view(l, &a->gate, false);
    put_store(l, &a->past, false);
    put_store(l, &a->block, false);
    put_view(l, &a->y, true);
}

static void spans_route(span_list *l, const route_args *a) {
    put_live(l, &a->rows);
    put_view(l, &a->x, false);
    put_view(l, &a->score, true);
    put_view(l, &a->id, true);
    put_view(l, &a->share, true);
}

static void spans_moe_up(span_list *l, const moe_up_args *a) {
    put_live(l, &a->rows);
    put_view(l, &a->x, false);
    put_view(l, &a->id, false);
    put_view(l, &a->h, true);
}

static void spans_moe_down(span_list *l, const moe_down_args *a) {
    put_live(l, &a->rows);
    put_view(l, &a->h, false);
    put_view(l, &a->id, false);
    put_view(l, &a->share, false);
    put_view(l, &a->x, true);
}

static void spans_tap(span_list *l, const tap_args *a) {
    put_rows(l, a->rows);
    put_view(l, &a->x, false);
    put_view(l, &a->ring, true);
}

static void spans_tap_norm(span_list *l, const tap_norm_args *a) {
    put_rows(l, a->rows);
    put_view(l, &a->ring, false);
    put_view(l, &a->y, true);
}

static void spans_ctx_store(span_list *l, const ctx_store_args *a) {
    put_rows(l, a->rows);
    put_view(l, &a->kv, false);
    put_view(l, &a->cos, false);
    put_view(l, &a->sin, false);
    put_store(l, &a->ring, true);
}

static void spans_topk(span_list *l, const topk_args *a) {
    put_live(l, &a->rows);
    put_view(l, &a->logits, false);
    put_view(l, &a->id, true);
    put_view(l, &a->logp, true);
}

static void spans_tree(span_list *l, const tree_args *a) {
    put_view(l, &a->id, false);
    put_view(l, &a->logp, false);
    put_block(l, a->p, true);
}

static void spans_pick(span_list *l, const pick_args *a) {
    int64_t table = (int64_t)a->logits.cols * (int64_t)sizeof(int32_t);
    put(l, a->lists, sizeof *a->lists, false);
    put(l, a->lists->count, table, false);
    put(l, a->lists->seen, table, false);
    put(l, a->lists->end, table, false);
    put_view(l, &a->logits, false);
    if (a->mask.data) put_view(l, &a->mask, false);
    put_block(l, a->p, true);
}

static void spans_accept(span_list *l, const accept_args *a) { put_block(l, a->p, true); }

/* The stores of all layers are more than a list can name: one hull around the keys and one around the values. */
static void put_hull(span_list *l, const kv_store *stores, int32_t n, bool values) {
    const char *low = NULL, *high = NULL;
    for (int32_t i = 0; i < n; i++) {
        const char *from = (const char *)(values ? stores[i].v : stores[i].k), *to = from + stores[i].bytes;
        if (!low || from < low) low = from;
        if (!high || to > high) high = to;
    }
    put(l, low, high - low, true);
}

static void spans_kv_move(span_list *l, const kv_move_args *a) {
    put_block(l, a->p, false);
    put_hull(l, a->stores, a->n, false);
    put_hull(l, a->stores, a->n, true);
    put_view(l, &a->taps, true);
}

static void spans_stamp(span_list *l, const stamp_args *a) { put_block(l, a->p, true); }

int op_spans(op_id id, const void *args, span out[SPANS_MAX]) {
    span_list l = { out, 0 };
    switch (id) {
#define OP(ID, name)                                                                                                   \
    case OP_##ID:                                                                                                      \
        spans_##name(&l, args);                                                                                        \
        return l.n;
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    CHECK(!"op id");
    return 0;
}
