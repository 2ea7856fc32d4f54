#include "engine/core/probe.h"

#include "engine/base/mem.h"
#include "kernels/kv_image.h"
#include "kernels/memory.h"

#include <stdlib.h>
#include <string.h>

/* Which rows the ops work on. */
typedef struct probe_rows {
    row_set set;
    int32_t head_n, head_first;
} probe_rows;

struct probe {
    pair *pair;
    device *on;
    op_sink sink;
    probe_rows rows, *at; /* the host's, and where the ops run */
    void *block;
    size_t bytes;
    target_pass pass;
    view norm, logits;
    work draft_work; /* the draft's passes take their views anew from here, every time the same ones */
};

/* The target's views; with a base also what is left of the block for the draft. */
static void take_views(probe *b, work *w) {
    const target_config *c = &b->pair->target.cfg;
    view rows = work_take(w, "rows", 1, (int32_t)sizeof *b->at, DT_U8);
    b->at = rows.data;
    b->pass = target_pass_take(&b->pair->target, w, &b->at->set, PREFILL_MAX);
    b->norm = work_take(w, "norm", PREFILL_MAX, c->hidden, DT_F32);
    b->logits = work_take(w, "logits", PREFILL_MAX, c->vocab, DT_F32);
}

static live_rows all_rows(const probe *b) { return (live_rows){ &b->at->set.n, NULL, PREFILL_MAX }; }

static draft_pass describe_block(probe *b, op_sink *s, work *w) {
    return draft_block(&b->pair->draft, s, w, &b->at->set, NODES_MAX,
                       (live_rows){ &b->at->head_n, &b->at->head_first, NODES_MAX });
}

static status reserve(probe *b, size_t scratch, err *e) {
    return b->on ? device_reserve_scratch(b->on, scratch, e) : pool_reserve(steps_pool(b->pair->steps), scratch, e);
}

status probe_open(probe **out, pair *p, err *e) {
    probe *b = xalloc(sizeof *b);
    b->pair = p;
    b->on = p->target.on;
    op_sink measure = { .kind = SINK_MEASURE, .lanes = p->lanes, .device = b->on };
    work w = { 0 };
    take_views(b, &w);
    for (int32_t l = 0; l < p->target.cfg.layers; l++) target_layer(&p->target, &measure, &b->pass, l);
    target_head(&p->target, &measure, &b->pass.x, &b->logits, all_rows(b));
    if (p->has_draft) {
        w.n = 0;
        draft_context(&p->draft, &measure, &w, &b->at->set, PREFILL_MAX);
        describe_block(b, &measure, &w);
    }
    status s = reserve(b, measure.scratch, e);
    if (s == OK) s = memory_alloc(b->on, &b->block, w.used, "activations of the probe", e);
    if (s != OK) {
        free(b);
        return s;
    }
    b->bytes = w.used;
    b->sink = steps_eager(p->steps);
    w = (work){ .base = b->block };
    take_views(b, &w);
    w.n = 0;
    b->draft_work = w;
    *out = b;
    return OK;
}

void probe_close(probe *b) {
    if (!b) return;
    memory_free(b->on, b->block, b->bytes);
    free(b);
}

static void send_rows(probe *b) { memory_copy(b->on, b->at, &b->rows, sizeof b->rows); }

/* n rows of a chain from position `from` on; base 0: none is committed, every key is in the place of its position. */
static void set_rows(probe *b, int32_t base, int32_t from, int32_t n) {
    row_set *rows = &b->rows.set;
    CHECK(n <= PREFILL_MAX);
    rows->n = n;
    rows->base = base;
    rows->chain = 1;
    for (int32_t r = 0; r < n; r++) rows->pos[r] = from + r;
    send_rows(b);
}

static void put_rows(const probe *b, const view *v, const float *x, int32_t n, int32_t cols) {
    for (int32_t r = 0; r < n; r++) memory_copy(b->on, view_row(v, r), x + (int64_t)r * cols, (size_t)cols * sizeof *x);
}

/* Rows of 4-byte elements, behind whatever is still under way. */
static void get_rows(probe *b, const view *v, void *x, int32_t n, int32_t cols) {
    if (b->on) device_flush(b->on);
    for (int32_t r = 0; r < n; r++)
        memory_copy(b->on, (char *)x + (int64_t)r * cols * 4, view_row(v, r), (size_t)cols * 4);
    memory_wait(b->on);
}

void probe_embed(probe *b, const int32_t *ids, int32_t n, float *x) {
    memcpy(b->rows.set.token, ids, (size_t)n * sizeof *ids);
    set_rows(b, 0, 0, n);
    op_embed(&b->sink,
             &(embed_args){ .table = target_embedding(&b->pair->target), .y = b->pass.x, .rows = &b->at->set });
    get_rows(b, &b->pass.x, x, n, b->pair->target.cfg.hidden);
}

void probe_layer(probe *b, int32_t layer, int32_t n, float *x, int32_t *id, float *share) {
    const target_config *c = &b->pair->target.cfg;
    int32_t k = c->experts_per_token;
    set_rows(b, 0, 0, n);
    put_rows(b, &b->pass.x, x, n, c->hidden);
    target_angles(&b->pair->target, &b->sink, &b->pass);
    target_layer(&b->pair->target, &b->sink, &b->pass, layer);
    get_rows(b, &b->pass.x, x, n, c->hidden);
    if (!c->layer[layer].sparse) return;
    if (id) get_rows(b, &b->pass.id, id, n, k);
    if (share) get_rows(b, &b->pass.share, share, n, k);
}

void probe_head(probe *b, int32_t n, const float *x, float *norm, float *logits) {
    const target *t = &b->pair->target;
    set_rows(b, 0, 0, n);
    put_rows(b, &b->pass.x, x, n, t->cfg.hidden);
    op_norm(&b->sink, &(norm_args){ .x = b->pass.x,
                                    .y = b->norm,
                                    .w = t->w.final_norm,
                                    .eps = (float)t->cfg.norm_eps,
                                    .rows = all_rows(b) });
    target_head(t, &b->sink, &b->pass.x, &b->logits, all_rows(b));
    get_rows(b, &b->norm, norm, n, t->cfg.hidden);
    get_rows(b, &b->logits, logits, n, t->cfg.vocab);
}

void probe_prefill(probe *b, const int32_t *tokens, int32_t n, float *logits) {
    steps_prefill(b->pair->steps, tokens, n, false);
    view x = steps_prefilled(b->pair->steps, n);
    set_rows(b, 0, 0, n);
    target_head(&b->pair->target, &b->sink, &x, &b->logits, (live_rows){ &b->at->set.n, NULL, x.rows });
    get_rows(b, &b->logits, logits, n, b->pair->target.cfg.vocab);
}

void probe_step_logits(probe *b, int step, int32_t n, float *logits) {
    view v = steps_logits(b->pair->steps, step);
    get_rows(b, &v, logits, n, v.cols);
}

/* ---- draft ---- */

/* n elements of BF16 to FP32 and back, over what lies where the ops run. */
static void get_bf16(const probe *b, const bf16 *at, int32_t n, float *out) {
    bf16 *row = xalloc((size_t)n * sizeof *row);
    memory_copy(b->on, row, at, (size_t)n * sizeof *row);
    memory_wait(b->on);
    for (int32_t i = 0; i < n; i++) out[i] = f32_of_bf16(row[i]);
    free(row);
}

static void put_bf16(const probe *b, bf16 *at, int32_t n, const float *x) {
    bf16 *row = xalloc((size_t)n * sizeof *row);
    for (int32_t i = 0; i < n; i++) row[i] = bf16_of_f32(x[i]);
    memory_copy(b->on, at, row, (size_t)n * sizeof *row);
    memory_wait(b->on);
    free(row);
}

static bf16 *tap_at(const probe *b, int32_t j, int32_t pos) {
    const target *t = &b->pair->target;
    return (bf16 *)view_row(&t->tap_ring, pos % t->tap_ring.rows) + (int64_t)j * t->cfg.hidden;
}

void probe_get_tap(const probe *b, int32_t j, int32_t n, float *out) {
    int32_t hidden = b->pair->target.cfg.hidden;
    if (b->on) device_flush(b->on);
    for (int32_t r = 0; r < n; r++) get_bf16(b, tap_at(b, j, r), hidden, out + (int64_t)r * hidden);
}

void probe_set_tap(probe *b, int32_t j, int32_t from, int32_t n, const float *x) {
    int32_t hidden = b->pair->target.cfg.hidden;
    for (int32_t r = 0; r < n; r++) put_bf16(b, tap_at(b, j, from + r), hidden, x + (int64_t)r * hidden);
}

void probe_context(probe *b, int32_t from, int32_t n) {
    work w = b->draft_work;
    set_rows(b, from, from, n);
    draft_context(&b->pair->draft, &b->sink, &w, &b->at->set, PREFILL_MAX);
    if (b->on) device_flush(b->on);
}

void probe_get_context(const probe *b, int32_t layer, int32_t pos, float *k, float *v) {
    const kv_store *s = &b->pair->draft.ring[layer];
    for (int32_t g = 0; g < s->heads; g++) {
        int64_t at = kv_offset(s, g, pos, 0);
        get_bf16(b, kv_at(s, s->k, at), s->size, k + g * s->size);
        get_bf16(b, kv_at(s, s->v, at), s->size, v + g * s->size);
    }
}

void probe_set_context(probe *b, int32_t layer, int32_t pos, const float *k, const float *v) {
    const kv_store *s = &b->pair->draft.ring[layer];
    for (int32_t g = 0; g < s->heads; g++) {
        int64_t at = kv_offset(s, g, pos, 0);
        put_bf16(b, kv_at(s, s->k, at), s->size, k + g * s->size);
        put_bf16(b, kv_at(s, s->v, at), s->size, v + g * s->size);
    }
}

void probe_block(probe *b, int32_t anchor, int32_t P, int32_t k, float *logits) {
    const draft *d = &b->pair->draft;
    CHECK(k + 1 <= NODES_MAX);
    work w = b->draft_work;
    b->rows.set.token[0] = anchor;
    for (int32_t r = 1; r <= k; r++) b->rows.set.token[r] = d->cfg.mask_id;
    b->rows.head_n = k, b->rows.head_first = 1;
    set_rows(b, P, P, k + 1);
    draft_pass pass = describe_block(b, &b->sink, &w);
    get_rows(b, &pass.logits, logits, k, d->cfg.vocab);
}

/* ---- keys and values ---- */

struct probe_kv {
    int32_t to, layers;
    struct {
        int32_t from; /* first position that is kept */
        char *image;
    } layer[];
};

probe_kv *probe_kv_copy(const pair *p, int32_t to) {
    const target_kv *kv = &p->target.kv;
    probe_kv *c = xalloc(sizeof *c + (size_t)kv->layers * sizeof *c->layer);
    c->to = to, c->layers = kv->layers;
    for (int32_t l = 0; l < kv->layers; l++) {
        const kv_store *s = &kv->layer[l];
        int32_t from = s->kind == KV_RING ? kv_first_seen(p->target.cfg.window, to) : 0;
        c->layer[l].from = from;
        c->layer[l].image = xalloc(kv_image_bytes(s, to - from));
        kv_image_save(s, from, to, c->layer[l].image);
    }
    return c;
}

void probe_kv_free(probe_kv *c) {
    for (int32_t l = 0; l < c->layers; l++) free(c->layer[l].image);
    free(c);
}

static bool same_row(const kv_store *s, const probe_kv *c, int32_t l, int32_t pos, char *row) {
    int32_t heads = 2 * s->heads, rows = c->to - c->layer[l].from, at = pos - c->layer[l].from;
    size_t bytes = kv_image_bytes(s, 1) / (size_t)heads;
    kv_image_save(s, pos, pos + 1, row);
    for (int32_t i = 0; i < heads; i++)
        if (memcmp(row + (size_t)i * bytes, c->layer[l].image + ((size_t)i * (size_t)rows + (size_t)at) * bytes, bytes))
            return false;
    return true;
}

bool probe_kv_differs(const pair *p, const probe_kv *c, int32_t *pos, int32_t *layer) {
    char *row = xalloc(kv_image_bytes(&p->target.kv.layer[0], 1));
    bool differs = false;
    for (*pos = 0; *pos < c->to && !differs; ++*pos)
        for (*layer = 0; *layer < c->layers && !differs; ++*layer)
            differs = *pos >= c->layer[*layer].from && !same_row(&p->target.kv.layer[*layer], c, *layer, *pos, row);
    if (differs) --*pos, --*layer;
    free(row);
    return differs;
}
