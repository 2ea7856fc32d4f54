#include "kernels/kv_map.h"
#include "kernels/ref/ref_int.h"

/* --- head norms, rotation, stores --- */

void ref_head(const float *x, const bf16 *norm, float eps, int32_t size, const float *cosine, const float *sine,
              int32_t half, float *y) {
    float s = fm_norm_scale(x, size, eps);
    for (int32_t i = 0; i < size; i++) y[i] = ref_normed(x, s, norm, i);
    for (int32_t i = 0; i < half; i++) {
        float a = y[i], b = y[i + half];
        y[i] = fmaf(a, cosine[i], -(b * sine[i]));
        y[i + half] = fmaf(b, cosine[i], a * sine[i]);
    }
}

void ref_qkv_store(const void *args, const lane *ln) {
    const qkv_store_args *a = args;
    const kv_store *kv = &a->kv;
    size_t used = 0;
    int32_t size = kv->size, groups = kv->heads, heads = a->heads + 2 * groups, base = a->rows->base;
    float *head = ref_take(ln, &used, (size_t)size * sizeof *head);
    int64_t from, to;
    lane_share(ln, (int64_t)a->rows->n * heads, 1, &from, &to);
    for (int64_t item = from; item < to; item++) {
        int32_t r = (int32_t)(item / heads), h = (int32_t)(item % heads);
        const float *x = (const float *)view_row(&a->qkv, r) + (int64_t)h * size;
        const float *cosine = view_row(&a->cos, r), *sine = view_row(&a->sin, r);
        if (h < a->heads) {
            ref_head(x, a->q_norm, a->eps, size, cosine, sine, a->cos.cols, head);
            ref_round((bf16 *)view_row(&a->q, r) + (int64_t)h * size, DT_BF16, head, size);
        } else if (h < a->heads + groups) {
            ref_head(x, a->k_norm, a->eps, size, cosine, sine, a->cos.cols, head);
            ref_round(kv_at(kv, kv->k, kv_offset(kv, h - a->heads, base + r, base)), kv->type, head, size);
        } else {
            ref_round(kv_at(kv, kv->v, kv_offset(kv, h - a->heads - groups, base + r, base)), kv->type, x, size);
        }
    }
}

/* --- attention --- */

/* Softmax in parts: maximum, sum of exponentials and weighted values of some positions. empty: no position yet. */
typedef struct part {
    float m, l, *o;
    bool empty;
} part;

/* into = into joined with the part to the right of it. */
static void part_join(part *into, const part *right, int32_t size) {
    if (into->empty) {
        into->m = right->m, into->l = right->l, into->empty = false;
        memcpy(into->o, right->o, (size_t)size * sizeof(float));
        return;
    }
    float m = into->m > right->m ? into->m : right->m;
    float a = fm_exp(into->m - m), b = fm_exp(right->m - m);
    into->l = fmaf(into->l, a, right->l * b);
    for (int32_t c = 0; c < size; c++) into->o[c] = fmaf(into->o[c], a, right->o[c] * b);
    into->m = m;
}

/* The key (or with `value` the value) of position pos for row r and kv head g, as BF16; buf has E elements. */
static const bf16 *key_of(const attn_args *a, int32_t r, int32_t g, int32_t pos, bool value, bf16 *buf) {
    const kv_store *s = pos >= a->rows->base && a->block.k ? &a->block : &a->past;
    int64_t offset = kv_offset(s, g, kv_index(a->rows, r, pos), a->rows->base);
    const void *row = kv_at(s, value ? s->v : s->k, offset);
    if (s->type == DT_BF16) return row;
    for (int32_t c = 0; c < s->size; c++) buf[c] = bf16_of_e4m3(((const e4m3 *)row)[c]);
    return buf;
}

/* What a query is worked out in. */
typedef struct parts {
    part block, run, all;
    bf16 *wide; /* [E], a row of a store that is not BF16 */
} parts;

/* Positions [from, to) of one block, to w->block. */
static void attend_block(const attn_args *a, int32_t r, int32_t h, int32_t from, int32_t to, parts *w) {
    int32_t size = a->past.size, g = h / (a->heads / a->past.heads);
    const bf16 *q = (const bf16 *)view_row(&a->q, r) + (int64_t)h * size;
    float score[KV_PAGE], acc[16] = { 0 };
    part *out = &w->block;
    out->m = -INFINITY;
    for (int32_t pos = from; pos < to; pos++) {
        float v = fm_dot(q, key_of(a, r, g, pos, false, w->wide), size) * a->scale;
        score[pos - from] = v;
        if (v > out->m) out->m = v;
    }
    for (int32_t c = 0; c < size; c++) out->o[c] = 0.0f;
    for (int32_t pos = from; pos < to; pos++) {
        const bf16 *v = key_of(a, r, g, pos, true, w->wide);
        float e = fm_exp(score[pos - from] - out->m);
        acc[pos % 16] += e;
        for (int32_t c = 0; c < size; c++) out->o[c] = fmaf(e, f32_of_bf16(v[c]), out->o[c]);
    }
    out->l = fm_tree16(acc);
}

static void attend(const attn_args *a, int32_t r, int32_t h, parts *w) {
    int32_t size = a->past.size, p = a->rows->pos[r], first = kv_first_seen(a->window, p), length = attn_run(p);
    w->run.empty = w->all.empty = true;
    for (int32_t b = first / KV_PAGE; b <= p / KV_PAGE; b++) {
        int32_t from = b * KV_PAGE > first ? b * KV_PAGE : first;
        int32_t to = (b + 1) * KV_PAGE < p + 1 ? (b + 1) * KV_PAGE : p + 1;
        attend_block(a, r, h, from, to, w);
        part_join(&w->run, &w->block, size);
        if ((b + 1) % length && b < p / KV_PAGE) continue;
        part_join(&w->all, &w->run, size);
        w->run.empty = true;
    }
    const float *gate = view_row(&a->gate, r);
    bf16 *y = (bf16 *)view_row(&a->y, r) + (int64_t)h * size;
    float inverse = 1.0f / w->all.l;
    for (int32_t c = 0; c < size; c++) {
        float g = fm_softplus(a->gate.cols == a->heads ? gate[h] : gate[(int64_t)h * size + c]);
        y[c] = bf16_of_f32((w->all.o[c] * inverse) * g);
    }
}

void ref_attn(const void *args, const lane *ln) {
    const attn_args *a = args;
    CHECK(a->rows->n <= a->rows_max);
    size_t used = 0, bytes = (size_t)a->past.size * sizeof(float);
    parts w = { 0 };
    w.block.o = ref_take(ln, &used, bytes);
    w.run.o = ref_take(ln, &used, bytes);
    w.all.o = ref_take(ln, &used, bytes);
    w.wide = ref_take(ln, &used, (size_t)a->past.size * sizeof *w.wide);
    int32_t groups = a->past.heads, share = a->heads / groups;
    int64_t from, to;
    lane_share(ln, (int64_t)a->rows->n * groups, 1, &from, &to);
    for (int64_t item = from; item < to; item++)
        for (int32_t i = 0; i < share; i++)
            attend(a, (int32_t)(item / groups), (int32_t)(item % groups) * share + i, &w);
}

/* --- commit --- */

/* Ascending and in place: a destination index is never above its source, so no row is overwritten before it is moved.
 */
static void move_store(const kv_store *s, const step_state *st) {
    for (int32_t j = 1; j < st->n_accepted; j++) {
        if (st->accepted[j] == j) continue;
        for (int32_t g = 0; g < s->heads; g++) {
            int64_t from = kv_offset(s, g, st->move_base + st->accepted[j], st->move_base);
            int64_t to = kv_offset(s, g, st->move_base + j, st->move_base);
            memcpy(kv_at(s, s->k, to), kv_at(s, s->k, from), (size_t)kv_bytes(s, s->size));
            memcpy(kv_at(s, s->v, to), kv_at(s, s->v, from), (size_t)kv_bytes(s, s->size));
        }
    }
}

static void move_taps(const view *ring, const step_state *st) {
    size_t bytes = (size_t)ring->cols * sizeof(bf16);
    for (int32_t j = 1; j < st->n_accepted; j++)
        if (st->accepted[j] != j)
            memcpy(view_row(ring, (st->move_base + j) % ring->rows),
                   view_row(ring, (st->move_base + st->accepted[j]) % ring->rows), bytes);
}

/* Lanes share the stores; the tap ring counts as one more. */
void ref_kv_move(const void *args, const lane *ln) {
    const kv_move_args *a = args;
    int64_t from, to;
    lane_share(ln, (int64_t)a->n + 1, 1, &from, &to);
    for (int64_t i = from; i < to; i++) {
        if (i < a->n)
            move_store(&a->stores[i], &a->p->st);
        else if (a->taps.data)
            move_taps(&a->taps, &a->p->st);
    }
}
