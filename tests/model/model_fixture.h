/* tests/model/model_fixture.h - what the model tests share: the demo pair, token sequences, and what a sequence leaves
 * in memory as a record by position (trace), which any later run over the same tokens must reproduce bit for bit.
 *
 * Memory is filled with NaN patterns before a sequence (memory_poison): a row that was not written, or that belongs to
 * another sequence, cannot pass for a right one, and whoever reads it shows it in everything behind. */
#ifndef TESTS_MODEL_MODEL_FIXTURE_H
#define TESTS_MODEL_MODEL_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/core/pair.h"
#include "engine/load/safetensors.h"
#include "kernels/kv_map.h"

#define FIXTURE __attribute__((unused)) static

/* The expression succeeds, or the test ends with its message. */
#define MUST(expr)                                                                                                     \
    do {                                                                                                               \
        err must_err_ = { 0 }, *e = &must_err_;                                                                        \
        if ((expr) != OK) fail_msg("%s: %s", #expr, must_err_.text);                                                   \
    } while (0)

/* ---- the demo pair ---- */

/* Best instruction set, one lane; more steps can be opened over the same memory. */
FIXTURE pair *demo_open_kv(int32_t ctx, kv_dtype kv) {
    pair *p = xalloc(sizeof *p);
    engine_options opt = { .lanes = 1, .ctx = ctx, .kv_dtype = kv };
    MUST(pair_load(p, NULL, NULL, true, NULL, NULL, e));
    MUST(pair_start(p, &opt, e));
    return p;
}

FIXTURE pair *demo_open(int32_t ctx) { return demo_open_kv(ctx, KV_BF16); }

FIXTURE void demo_close(pair *p) {
    pair_close(p);
    free(p);
}

FIXTURE int find_step(steps *s, const char *name) {
    for (int i = 0; i < STEPS_COUNT; i++)
        if (steps_get(s, i) && strcmp(step_name(steps_get(s, i)), name) == 0) return i;
    fail_msg("there is no step %s", name);
    return -1;
}

/* The logits that a step left, as bits; to be freed. */
FIXTURE uint32_t *copy_rows(view v, int32_t n) {
    size_t row = (size_t)v.cols * sizeof(float);
    uint32_t *out = xalloc((size_t)n * row);
    for (int32_t r = 0; r < n; r++) memcpy((char *)out + (size_t)r * row, view_row(&v, r), row);
    return out;
}

/* ---- tokens ---- */

/* A list of ids of the golden file: "p0.ids" (code), "p1" (tools), "p2" (thinking), "p3" (completion); "p0.greedy_ids"
 * ... */
FIXTURE token_list golden_ids(const char *name) {
    static const char PATH[] = "tests/golden/demo/demo_ref_bf16in.safetensors";
    file_map map;
    tensor_list list = { 0 };
    token_list out = { 0 };
    arena *mem = arena_new();
    MUST(file_map_open(&map, PATH, e));
    MUST(safetensors_read(&list, (str){ (const char *)map.data, map.bytes }, PATH, 0, mem, e));
    const tensor *t = tensor_list_find(&list, str_of(name));
    if (!t || t->type != TENSOR_I32) fail_msg("%s has no ids %s", PATH, name);
    for (int64_t at = 0; at < t->bytes; at += (int64_t)sizeof(int32_t)) {
        int32_t id;
        memcpy(&id, t->data + at, sizeof id);
        token_list_push(&out, id);
    }
    tensor_list_free(&list);
    arena_free(mem);
    file_map_close(&map);
    return out;
}

/* The prompts and answers of the golden file, one behind the other and from the start again until there are n tokens:
 * text of the kind the pair knows. To be freed. */
FIXTURE int32_t *demo_tokens(int32_t n) {
    static const char *const NAMES[] = { "p1.ids", "p1.greedy_ids", "p0.ids", "p0.greedy_ids",
                                         "p3.ids", "p3.greedy_ids", "p2.ids", "p2.greedy_ids" };
    int32_t *out = xalloc((size_t)n * sizeof *out), have = 0;
    for (size_t i = 0; have < n; i++) {
        token_list l = golden_ids(NAMES[i % 8]);
        for (size_t j = 0; j < l.n && have < n; j++) out[have++] = l.ids[j];
        token_list_free(&l);
    }
    return out;
}

/* ---- memory of a sequence ---- */

typedef struct memory_part {
    void *at;
    size_t bytes;
} memory_part;

enum { MEMORY_PARTS = 4 };

/* KV, taps, the draft's rows; with steps also the state of their parameter block. */
static int memory_parts(const pair *p, steps *s, memory_part out[MEMORY_PARTS]) {
    const view *taps = &p->target.tap_ring;
    int n = 0;
    out[n++] = (memory_part){ p->target.kv.block, p->target.kv.bytes };
    out[n++] = (memory_part){ taps->data, (size_t)taps->stride * (size_t)taps->rows };
    out[n++] = (memory_part){ p->draft.memory, p->draft.bytes };
    if (s) out[n++] = (memory_part){ &steps_params(s)->st, sizeof steps_params(s)->st };
    return n;
}

FIXTURE void memory_poison(const pair *p) {
    memory_part part[MEMORY_PARTS];
    int n = memory_parts(p, NULL, part);
    for (int i = 0; i < n; i++) memset(part[i].at, 0xFF, part[i].bytes);
}

FIXTURE void memory_save(const pair *p, steps *s, buf *out) {
    memory_part part[MEMORY_PARTS];
    int n = memory_parts(p, s, part);
    buf_clear(out);
    for (int i = 0; i < n; i++) buf_put(out, part[i].at, part[i].bytes);
}

FIXTURE void memory_restore(const pair *p, steps *s, const buf *image) {
    memory_part part[MEMORY_PARTS];
    int n = memory_parts(p, s, part);
    size_t at = 0;
    for (int i = 0; i < n; at += part[i++].bytes) memcpy(part[i].at, image->data + at, part[i].bytes);
    assert_int_equal(at, image->len);
}

/* ---- traces ---- */

/* Rows by position, each as it was when first computed. A KV or context row is its key heads, then its value heads, as
 * BF16 whatever the store holds. */
typedef struct trace {
    const pair *p;
    int32_t positions, kv_cols, tap_cols, ctx_cols;
    bf16 *kv, *tap, *ctx; /* [layers][positions][cols], [positions][cols], [draft layers][positions][cols] */
} trace;

FIXTURE trace trace_new(const pair *p, int32_t positions) {
    trace t = { .p = p, .positions = positions };
    t.kv_cols = 2 * p->target.cfg.kv_heads * p->target.cfg.head_dim;
    t.tap_cols = p->target.tap_ring.cols;
    t.ctx_cols = 2 * p->draft.cfg.kv_heads * p->draft.cfg.head_dim;
    size_t n = (size_t)positions * sizeof(bf16);
    t.kv = xalloc(n * (size_t)t.kv_cols * (size_t)p->target.cfg.layers);
    t.tap = xalloc(n * (size_t)t.tap_cols);
    t.ctx = xalloc(n * (size_t)t.ctx_cols * (size_t)p->draft.cfg.layers);
    return t;
}

FIXTURE void trace_free(trace *t) {
    free(t->kv);
    free(t->tap);
    free(t->ctx);
    *t = (trace){ 0 };
}

static bf16 *trace_row(const trace *t, bf16 *rows, int32_t cols, int32_t layer, int32_t pos) {
    return rows + ((int64_t)layer * t->positions + pos) * cols;
}

static void copy_head(const kv_store *s, const void *head, bf16 *out) {
    if (s->type == DT_BF16) memcpy(out, head, (size_t)s->size * sizeof *out);
    for (int32_t c = 0; s->type == DT_E4M3 && c < s->size; c++) out[c] = bf16_of_e4m3(((const e4m3 *)head)[c]);
}

static void copy_kv_row(const kv_store *s, int32_t pos, bf16 *out) {
    for (int32_t g = 0; g < s->heads; g++) {
        int64_t at = kv_offset(s, g, pos, 0);
        copy_head(s, kv_at(s, s->k, at), out + g * s->size);
        copy_head(s, kv_at(s, s->v, at), out + (s->heads + g) * s->size);
    }
}

static const bf16 *tap_row(const pair *p, int32_t pos) {
    return view_row(&p->target.tap_ring, pos % p->target.tap_ring.rows);
}

/* Records what memory holds of the target at positions from .. to - 1. */
FIXTURE void trace_keep(trace *t, int32_t from, int32_t to) {
    for (int32_t pos = from; pos < to; pos++) {
        for (int32_t l = 0; l < t->p->target.cfg.layers; l++)
            copy_kv_row(&t->p->target.kv.layer[l], pos, trace_row(t, t->kv, t->kv_cols, l, pos));
        memcpy(trace_row(t, t->tap, t->tap_cols, 0, pos), tap_row(t->p, pos), (size_t)t->tap_cols * sizeof(bf16));
    }
}

/* The same of the draft's context rows. */
FIXTURE void trace_keep_context(trace *t, int32_t from, int32_t to) {
    for (int32_t pos = from; pos < to; pos++)
        for (int32_t l = 0; l < t->p->draft.cfg.layers; l++)
            copy_kv_row(&t->p->draft.ring[l], pos, trace_row(t, t->ctx, t->ctx_cols, l, pos));
}

static void check_row(const bf16 *got, const bf16 *want, int32_t cols, const char *label, const char *what,
                      int32_t pos) {
    if (memcmp(got, want, (size_t)cols * sizeof *got) == 0) return;
    int32_t i = 0;
    while (got[i] == want[i]) i++;
    fail_msg("%s: %s, position %d, element %d of %d is 0x%04x, expected 0x%04x", label, what, pos, i, cols, got[i],
             want[i]);
}

/* All that a row at position base would see of the target, and of the draft's context below ctx_len. `label` says in a
 * failure which run this is. */
FIXTURE void trace_check(const trace *t, int32_t base, int32_t ctx_len, const char *label) {
    const pair *p = t->p;
    const target_config *c = &p->target.cfg;
    bf16 row[4096];
    assert_true(t->kv_cols <= 4096 && t->ctx_cols <= 4096 && base <= t->positions);
    char what[48];
    for (int32_t l = 0; l < c->layers; l++) {
        snprintf(what, sizeof what, "keys and values of layer %d", l);
        for (int32_t pos = kv_first_seen(c->layer[l].sliding ? c->window : 0, base); pos < base; pos++) {
            copy_kv_row(&p->target.kv.layer[l], pos, row);
            check_row(row, trace_row(t, t->kv, t->kv_cols, l, pos), t->kv_cols, label, what, pos);
        }
    }
    int32_t seen = base > p->draft.cfg.window ? base - p->draft.cfg.window : 0;
    for (int32_t pos = seen; pos < base; pos++)
        check_row(tap_row(p, pos), trace_row(t, t->tap, t->tap_cols, 0, pos), t->tap_cols, label, "taps", pos);
    for (int32_t l = 0; l < p->draft.cfg.layers; l++) {
        snprintf(what, sizeof what, "context rows of draft layer %d", l);
        for (int32_t pos = seen; pos < ctx_len; pos++) {
            copy_kv_row(&p->draft.ring[l], pos, row);
            check_row(row, trace_row(t, t->ctx, t->ctx_cols, l, pos), t->ctx_cols, label, what, pos);
        }
    }
}

/* Rows of FP32 as bits. */
FIXTURE void check_logits(const uint32_t *got, const uint32_t *want, int32_t rows, int32_t cols, const char *label,
                          const char *what) {
    for (int64_t i = 0; i < (int64_t)rows * cols; i++)
        if (got[i] != want[i])
            fail_msg("%s: %s, row %d, token %d: 0x%08x, expected 0x%08x", label, what, (int)(i / cols), (int)(i % cols),
                     got[i], want[i]);
}
#endif
