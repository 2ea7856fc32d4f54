/* Steps at the end of a context of 2^20 tokens: the tiny pair with a longer limit in its config, over keys and values
 * that nobody computed. Most of the page table names the same few pages, so that a million rows take little memory. */
#include "tests/model/tiny_fixture.h"

#include "engine/base/num.h"
#include "engine/core/turn.h"

enum {
    MILLION = 1 << 20,
    SHARED = 8,                  /* pages that stand for all earlier ones */
    OWN = MILLION / KV_PAGE - 4, /* pages from here on are their own */
    NEW = 20,                    /* tokens up to the end of the context */
    START = MILLION - NEW,       /* tokens of the prompt; the first new one stands there */
    CHUNKED = 17,                /* prompt tokens that are really computed, in the test of chunks */
    FIRST = 17,                  /* the first anchor */
};

typedef struct world {
    scratch dir;
    pair p;
    int32_t plain[NEW];
    trace trace;
} world;

/* ---- a past that nobody computed ---- */

static uint32_t seed;

static void fill(bf16 *at, int64_t n, float scale) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        at[i] = bf16_of_f32(scale * ((float)(seed >> 8) * 0x1p-23f - 1.0f));
    }
}

static void fill_store(const kv_store *s) {
    int64_t page = (int64_t)s->heads * KV_PAGE * s->size;
    if (s->kind == KV_RING) {
        fill(s->k, s->bytes / 2, 1.0f);
        fill(s->v, s->bytes / 2, 1.0f);
        return;
    }
    for (int32_t i = 0; i <= MILLION / KV_PAGE; i++) {
        if (i == SHARED) i = OWN;
        fill(kv_at(s, s->k, i * page), page, 1.0f);
        fill(kv_at(s, s->v, i * page), page, 1.0f);
    }
}

/* The same every time: what a sequence of any length may have left in front of its last page. */
static void fabricate(world *w) {
    target_kv *kv = &w->p.target.kv;
    view *taps = &w->p.target.tap_ring;
    seed = 1;
    for (int32_t l = 0; l < kv->layers; l++) fill_store(&kv->layer[l]);
    for (int32_t l = 0; l < w->p.draft.cfg.layers; l++) fill_store(&w->p.draft.ring[l]);
    for (int32_t r = 0; r < taps->rows; r++) fill(view_row(taps, r), taps->cols, 1.0f);
    for (int32_t i = 0; i < kv->n_table; i++) kv->pages[i] = i < OWN ? i * 3 % SHARED : i;
}

static void seek(world *w, int32_t base, int32_t anchor) {
    steps *s = w->p.steps;
    fabricate(w);
    steps_seek(s, base, anchor, base - w->p.draft.cfg.window);
    steps_set_pick(s, &(pick_params){ .top_p = 1.0f });
}

/* Rows of layer or draft at positions from .. to - 1, as they lie now. */
static void keep(trace *t, int32_t from, int32_t to) {
    const pair *p = t->p;
    for (int32_t pos = from; pos < to; pos++) {
        for (int32_t l = 0; l < p->target.cfg.layers; l++)
            copy_kv_row(&p->target.kv.layer[l], pos, trace_row(t, t->kv, t->kv_cols, l, pos - from));
        memcpy(trace_row(t, t->tap, t->tap_cols, 0, pos - from), tap_row(p, pos), (size_t)t->tap_cols * sizeof(bf16));
    }
}

static void compare(const trace *t, int32_t from, int32_t n, const char *label) {
    const pair *p = t->p;
    bf16 row[4096];
    assert_true(t->kv_cols <= 4096);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t l = 0; l < p->target.cfg.layers; l++) {
            const kv_store *s = &p->target.kv.layer[l];
            if (s->kind == KV_RING && i < n - p->target.cfg.window) continue; /* out of sight */
            copy_kv_row(s, from + i, row);
            check_row(row, trace_row(t, t->kv, t->kv_cols, l, i), t->kv_cols, label, "keys and values", from + i);
        }
        if (i < n - p->draft.cfg.window) continue;
        check_row(tap_row(p, from + i), trace_row(t, t->tap, t->tap_cols, 0, i), t->tap_cols, label, "taps", from + i);
    }
}

/* Context rows of the draft in front of the last committed position, all caught up. */
static void draft_rows(world *w, bf16 *out) {
    const draft_config *c = &w->p.draft.cfg;
    size_t row = (size_t)(2 * c->kv_heads * c->head_dim);
    steps_catch_up(w->p.steps);
    int32_t base = steps_len(w->p.steps);
    assert_int_equal(steps_ctx_len(w->p.steps), base);
    for (int32_t l = 0; l < c->layers; l++)
        for (int32_t pos = base - c->window; pos < base; pos++, out += row) copy_kv_row(&w->p.draft.ring[l], pos, out);
}

/* ---- decoding ---- */

typedef const step_out *round_fn(world *w, int32_t have, int32_t most);

static const step_out *plain(world *w, int32_t have, int32_t most) {
    (void)have, (void)most;
    return steps_plain(w->p.steps);
}

static const step_out *drafted(world *w, int32_t have, int32_t most) {
    (void)have;
    return steps_round(w->p.steps, min_i32(most, 3));
}

/* The right chain up to its `have % 8`-th token. */
static const step_out *given(world *w, int32_t have, int32_t most) {
    int32_t n = min_i32(most, 7), right[DEPTH_MAX];
    for (int32_t i = 0; i < n; i++) right[i] = (w->plain[have + i] + (i >= have % 8)) % w->p.target.cfg.vocab;
    return steps_verify(w->p.steps, right, n);
}

/* Candidates of the draft in a wide tree, and in it the right chain, whose nodes do not follow each other. */
static const step_out *tree(world *w, int32_t have, int32_t most) {
    int32_t n = min_i32(most, 5);
    float logp[DEPTH_MAX];
    for (int32_t i = 0; i < n; i++) logp[i] = -2.0f * (float)(i + 1);
    return steps_speculate(w->p.steps, &(round_shape){ .depth = min_i32(most, 7),
                                                       .branch = 4,
                                                       .nodes = 15,
                                                       .given = w->plain + have,
                                                       .given_logp = logp,
                                                       .n_given = n });
}

/* From the anchor to the last token that the context has room for; no proposal stands behind it. */
static void check_decoding(world *w, round_fn *round, const char *label, int32_t *accepted, int32_t *moved) {
    int32_t have = 1; /* the anchor is the first token of the answer */
    *accepted = *moved = 0;
    seek(w, START, FIRST);
    while (have < NEW) {
        const step_out *out = have == NEW - 1 ? steps_plain(w->p.steps) : round(w, have, NEW - have - 1);
        for (int32_t i = 0; i < out->n; i++)
            if (round != plain && out->token[i] != w->plain[have + i])
                fail_msg("%s: token %d is %d, in plain decoding %d", label, have + i, out->token[i],
                         w->plain[have + i]);
        if (round == plain) w->plain[have] = out->token[0];
        for (int32_t j = 1; j < out->n; j++) *moved += out->path[j] != j;
        *accepted += out->accepted;
        have += out->n;
        assert_int_equal(out->base, START + have - 1);
    }
    assert_int_equal(steps_len(w->p.steps), MILLION - 1); /* the last token needs no keys */
}

static void test_decoding(void **state) {
    world *w = *state;
    static const struct {
        round_fn *round;
        const char *label;
    } KINDS[] = { { drafted, "chains of the draft" }, { given, "given chains" }, { tree, "trees" } };
    int32_t accepted, moved, cols = 2 * w->p.draft.cfg.kv_heads * w->p.draft.cfg.head_dim;
    size_t bytes = (size_t)(w->p.draft.cfg.layers * w->p.draft.cfg.window * cols) * sizeof(bf16);
    bf16 *want = xalloc(bytes), *got = xalloc(bytes);
    w->plain[0] = FIRST;
    check_decoding(w, plain, "plain", &accepted, &moved);
    keep(&w->trace, START, MILLION - 1);
    draft_rows(w, want);
    bool varied = false;
    for (int32_t i = 2; i < NEW; i++) varied |= w->plain[i] != w->plain[1];
    assert_true(varied);
    for (int k = 0; k < 3; k++) {
        check_decoding(w, KINDS[k].round, KINDS[k].label, &accepted, &moved);
        if (KINDS[k].round != drafted) assert_true(accepted > NEW / 4);
        if (KINDS[k].round == tree) assert_true(moved > 0);
        compare(&w->trace, START, NEW - 1, KINDS[k].label);
        draft_rows(w, got);
        assert_memory_equal(got, want, bytes);
    }
    free(want);
    free(got);
}

/* The last prompt rows in one chunk or several: the same rows, and the same first token. */
static void test_chunks(void **state) {
    world *w = *state;
    static const int32_t CHUNK[][4] = { { CHUNKED }, { 8, 8, 1 }, { 1, 3, 13 } };
    int32_t tokens[CHUNKED], first = -1;
    for (int32_t i = 0; i < CHUNKED; i++) tokens[i] = 30 + i * 7 % 400;
    for (int k = 0; k < 3; k++) {
        const step_out *out = NULL;
        seek(w, START - CHUNKED, 0);
        for (int32_t at = 0, c = 0; at < CHUNKED; at += CHUNK[k][c++])
            out = steps_prefill(w->p.steps, tokens + at, CHUNK[k][c], at + CHUNK[k][c] == CHUNKED);
        assert_int_equal(out->n, 1);
        assert_int_equal(out->base, START);
        if (k == 0) {
            first = out->token[0];
            keep(&w->trace, START - CHUNKED, START);
        }
        assert_int_equal(out->token[0], first);
        compare(&w->trace, START - CHUNKED, CHUNKED, "chunks");
    }
}

/* ---- remembered ---- */

/* A prompt that fills the context but for NEW tokens is taken over by the next one; pages are just enough. Its rows are
 * not computed: timelines only count them. */
static void test_timelines(void **state) {
    world *w = *state;
    timelines *tl;
    steps *s = w->p.steps;
    MUST(timelines_open(&tl, &w->p.target, &w->p.draft, s, 0, e));
    int32_t *tokens = xalloc(MILLION * sizeof *tokens);
    for (int32_t i = 0; i < START; i++) tokens[i] = (int32_t)((uint32_t)i * 2654435761u >> 8) % 448;
    steps_set_pick(s, &(pick_params){ .top_p = 1.0f });
    turn t = { .steps = s, .timelines = tl };
    assert_int_equal(turn_begin(&t, tokens, START, true), 0);
    for (int32_t at = 0, n; at < START; at += n) {
        n = timelines_chunk(tl, min_i32(PREFILL_MAX, START - at));
        timelines_reserve(tl, n);
        timelines_prefilled(tl, tokens + at, n);
    }
    for (int32_t i = 0; i < w->p.target.kv.n_table - 1; i++) assert_int_equal(w->p.target.kv.pages[i], i);
    seek(w, START, FIRST);
    timelines_reserve(tl, NODES_MAX);
    for (int32_t i = OWN; i < w->p.target.kv.n_table; i++) assert_int_equal(w->p.target.kv.pages[i], i);
    t.anchor = w->plain[0], t.done = START;
    int32_t have = 1;
    while (have < NEW) {
        int32_t most = min_i32(7, NEW - have - 1);
        const step_out *out = turn_verify(&t, w->plain + have, most);
        for (int32_t i = 0; i < out->n; i++) assert_int_equal(out->token[i], w->plain[have + i]);
        have += out->n;
    }
    assert_int_equal(timelines_get_stats(tl).pages_used, w->p.target.kv.n_table);
    turn_end(&t, NEW);
    assert_int_equal(timelines_len(tl), MILLION - 1);
    memcpy(tokens + START, w->plain, NEW * sizeof *tokens);
    assert_int_equal(turn_begin(&t, tokens, MILLION, true), MILLION - 1);
    assert_int_equal(timelines_get_stats(tl).reused, MILLION - 1);
    turn_end(&t, 0);
    timelines_close(tl);
    free(tokens);
}

/* ---- */

static int setup(void **state) {
    world *w = xalloc(sizeof *w);
    char target[256], draft_dir[256];
    scratch_init(&w->dir);
    tiny_folder(&w->dir, "target", "tests/golden/tiny_target", "1048576", target);
    tiny_folder(&w->dir, "draft", "tests/golden/tiny_draft", "1048576", draft_dir);
    engine_options opt = { .lanes = 1, .ctx = MILLION };
    MUST(pair_load(&w->p, target, draft_dir, false, NULL, NULL, e));
    MUST(pair_start(&w->p, &opt, e));
    w->trace = trace_new(&w->p, NEW > CHUNKED ? NEW : CHUNKED);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    trace_free(&w->trace);
    pair_close(&w->p);
    scratch_deinit(&w->dir);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_decoding), cmocka_unit_test(test_chunks),
                                        cmocka_unit_test(test_timelines) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
