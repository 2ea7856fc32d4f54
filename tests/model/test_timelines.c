/* Remembered conversations against a naive model that keeps everything: some hundred thousand steps of prompts, rounds,
 * plain stretches, cancels, cuts, edits and returns, and after each of them the visible keys and values, byte for byte.
 *
 * What is tested is real: timelines, the recorded steps, their parameter block, trees, acceptance, moves, KV memory.
 * Only arithmetic is replaced, in the table of ops. A row's keys and values are made from its token and from what its
 * predecessor's row in memory says about everything before it; so a row that was taken over wrongly makes all rows
 * behind it wrong. The next token is made from the last row in the same way, a context row from the taps in their ring.
 *
 * usage: test_timelines [SEED [STEPS]]
 *
 * link: -Wl,--wrap=op_table,--wrap=prefix_choose,--wrap=kv_image_save,--wrap=kv_image_load
 */
#include "tests/model/model_fixture.h"

#include "engine/core/timelines.c" /* with its insides: who holds which page */

enum {
    TALKS = 48,    /* conversations that the user may come back to */
    BOOKS = 16,    /* requests from one look at all remembered pages to the next */
    PLENTY = 4096, /* longest context of a world */
    NEVER = INT32_MAX,
};

static uint64_t seed = 20261130, random_state;
static int32_t steps_wanted = 400000;

static int32_t draw(int32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((uint32_t)(random_state >> 33) % (uint32_t)below);
}

static bool one_in(int32_t n) { return draw(n) == 0; }

/* ---- contents ---- */

static const uint64_t ROOT = 0x6a09e667f3bcc908u;

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* What a row knows: its token and everything before it. */
static uint64_t history(uint64_t before, int32_t token) {
    return mix(before + ((uint64_t)token + 1) * 0x9e3779b97f4a7c15u);
}

static int32_t next_token(uint64_t h, int32_t vocab) { return (int32_t)(mix(h) % (uint64_t)vocab); }

/* Word i of the row of some memory. Word 0 tells the history again. */
static uint64_t word_of(uint64_t h, int32_t memory, int32_t i) {
    uint64_t x = h ^ (uint64_t)(memory * 1024 + i) * 0xd6e8feb86659fd93u;
    return i == 0 ? x : x * 0xff51afd7ed558ccdu ^ x >> 32;
}

static uint64_t history_of(uint64_t word, int32_t memory) { return word_of(word, memory, 0); }

enum { WORDS_MAX = 64, CONTEXT_MEMORY = 300, TAP_MEMORY = 400 };

/* ---- the ops that stand for arithmetic ---- */

typedef struct counters {
    int64_t rows, comparisons, saved, loaded; /* rows through the target; calls of prefix_choose; images */
} counters;

static counters did;
static const pair *subject;
static uint64_t *known; /* history by position of the running request, by the naive model */

/* A row that a step should have seen and did not; memory 0, a global layer: none; -1: more rows than the step's bucket
 * has. */
static struct torn_row { int32_t memory, pos; } torn;

/* Candidates of the draft's next block, best first. */
static struct script {
    int32_t token[DEPTH_MAX][TREE_WIDTH];
    float logp[DEPTH_MAX][TREE_WIDTH];
} script;

static int32_t head_words(const kv_store *s) { return s->size / 4; }

/* A row: k of all heads, then v of all heads. */
static void write_row(const kv_store *s, int32_t index, uint64_t h, int32_t memory) {
    int32_t words = head_words(s);
    uint64_t row[WORDS_MAX];
    for (int32_t part = 0; part < 2 * s->heads; part++) {
        void *to = kv_at(s, part < s->heads ? s->k : s->v, kv_offset(s, part % s->heads, index, 0));
        for (int32_t i = 0; i < words; i++) row[i] = word_of(h, memory, part * words + i);
        memcpy(to, row, (size_t)words * sizeof *row);
    }
}

static uint64_t read_history(const kv_store *s, int32_t index, int32_t memory) {
    uint64_t word;
    memcpy(&word, kv_at(s, s->k, kv_offset(s, 0, index, 0)), sizeof word);
    return history_of(word, memory);
}

static void nothing(const void *args, const lane *ln) { (void)args, (void)ln; }

static void fake_qkv_store(const void *args, const lane *ln) {
    const qkv_store_args *a = args;
    (void)ln;
    if (a->rows->n > a->qkv.rows) torn.memory = -1;
    if (a->kv.kind == KV_BLOCK) return; /* the draft's block vanishes after the round */
    int32_t layer = 0;
    while (subject->target.kv.layer[layer].k != a->kv.k) layer++;
    for (int32_t r = 0; r < a->rows->n; r++) {
        int32_t pos = a->rows->pos[r];
        uint64_t before = pos ? read_history(&a->kv, kv_index(a->rows, r, pos - 1), layer) : ROOT;
        write_row(&a->kv, a->rows->base + r, history(before, a->rows->token[r]), layer);
    }
    if (layer == 0) did.rows += a->rows->n;
}

/* History of a live row, by its keys in the first layer. */
static uint64_t row_history(const row_set *rows, int32_t r) {
    return read_history(&subject->target.kv.layer[0], rows->base + r, 0);
}

/* Every row's window is whole when it is read, the draft's too: no key of a committed position is missing, or of
 * another text, or already overwritten by the rows of this step. */
static void fake_attn(const void *args, const lane *ln) {
    const attn_args *a = args;
    const target_kv *kv = &subject->target.kv;
    (void)ln;
    if (a->window == 0 || a->rows->n == 0 || torn.memory) return;
    int32_t layer = 0, context = 0;
    while (layer < kv->layers && kv->layer[layer].k != a->past.k) layer++;
    while (layer == kv->layers && subject->draft.ring[context].k != a->past.k) context++;
    int32_t memory = layer < kv->layers ? layer : CONTEXT_MEMORY + context;
    for (int32_t pos = kv_first_seen(a->window, a->rows->base); pos < a->rows->base; pos++)
        if (read_history(&a->past, pos, memory) != known[pos]) torn.memory = memory, torn.pos = pos;
}

static void fake_tap(const void *args, const lane *ln) {
    const tap_args *a = args;
    (void)ln;
    int32_t n = a->rows->n, slots = a->ring.rows;
    for (int32_t r = max_i32(n - slots, 0); r < n; r++) {
        uint64_t h = row_history(a->rows, r), *to = view_row(&a->ring, (a->rows->base + r) % slots);
        for (int32_t i = 0, words = a->x.cols / 4, at = a->column / 4; i < words; i++)
            to[at + i] = word_of(h, TAP_MEMORY + a->column, i);
    }
}

/* The history that all taps of a position agree on, or something else. */
static void fake_ctx_store(const void *args, const lane *ln) {
    const ctx_store_args *a = args;
    const view *taps = &subject->target.tap_ring;
    (void)ln;
    if (a->rows->n > a->kv.rows) torn.memory = -1;
    int32_t layer = 0, width = taps->cols / subject->target.taps;
    while (subject->draft.ring[layer].k != a->ring.k) layer++;
    for (int32_t r = 0; r < a->rows->n; r++) {
        const uint64_t *tap = view_row(taps, a->rows->pos[r] % taps->rows);
        uint64_t first = history_of(tap[0], TAP_MEMORY), h = first;
        for (int32_t column = width; column < taps->cols; column += width)
            h += (history_of(tap[column / 4], TAP_MEMORY + column) - first) * 0x9e3779b97f4a7c15u;
        write_row(&a->ring, a->rows->pos[r], h, CONTEXT_MEMORY + layer);
    }
}

static void fake_topk(const void *args, const lane *ln) {
    const topk_args *a = args;
    (void)ln;
    for (int32_t r = 0; r < *a->rows.n; r++) {
        memcpy(view_row(&a->id, r), script.token[r], sizeof script.token[r]);
        memcpy(view_row(&a->logp, r), script.logp[r], sizeof script.logp[r]);
    }
}

static void fake_pick(const void *args, const lane *ln) {
    const pick_args *a = args;
    step_state *st = &a->p->st;
    (void)ln;
    for (int32_t i = 0; i < st->head_n; i++)
        st->choice[i] = next_token(row_history(&st->rows, st->head_first + i), subject->target.cfg.vocab);
}

op_fn *const *__real_op_table(isa i);
op_fn *const *__wrap_op_table(isa i);

op_fn *const *__wrap_op_table(isa i) {
    static op_fn *table[OP_COUNT];
    static const op_id REAL[] = { OP_BEGIN, OP_TREE, OP_ACCEPT, OP_KV_MOVE };
    for (int id = 0; id < OP_COUNT; id++) table[id] = nothing;
    for (size_t k = 0; k < sizeof REAL / sizeof REAL[0]; k++) table[REAL[k]] = __real_op_table(i)[REAL[k]];
    table[OP_QKV_STORE] = fake_qkv_store, table[OP_CTX_STORE] = fake_ctx_store, table[OP_TAP] = fake_tap;
    table[OP_TOPK] = fake_topk, table[OP_ATTN] = fake_attn, table[OP_PICK] = fake_pick;
    return table;
}

/* ---- what is counted ---- */

prefix_choice __real_prefix_choose(const prefix_line *line, int32_t lines, const int32_t *token, int32_t n);
prefix_choice __wrap_prefix_choose(const prefix_line *line, int32_t lines, const int32_t *token, int32_t n);
void __real_kv_image_save(const kv_store *s, int32_t from, int32_t to, void *out);
void __wrap_kv_image_save(const kv_store *s, int32_t from, int32_t to, void *out);
void __real_kv_image_load(const kv_store *s, int32_t from, int32_t to, const void *in);
void __wrap_kv_image_load(const kv_store *s, int32_t from, int32_t to, const void *in);

prefix_choice __wrap_prefix_choose(const prefix_line *line, int32_t lines, const int32_t *token, int32_t n) {
    did.comparisons++;
    return __real_prefix_choose(line, lines, token, n);
}

void __wrap_kv_image_save(const kv_store *s, int32_t from, int32_t to, void *out) {
    did.saved += to - from;
    __real_kv_image_save(s, from, to, out);
}

void __wrap_kv_image_load(const kv_store *s, int32_t from, int32_t to, const void *in) {
    did.loaded += to - from;
    __real_kv_image_load(s, from, to, in);
}

/* ---- a world ---- */

typedef struct shape {
    const char *name;
    int32_t window, draft_window;           /* 0: no sliding layer, no draft */
    int32_t ctx, cache, checkpoints, usual; /* usual: length of a fresh prompt, most of the time */
    int32_t share;                          /* of the steps, in a hundred */
} shape;

typedef struct talk {
    int32_t n, *token;
    int32_t parted; /* where an edit has left it before */
} talk;

/* How often what happened; a kind that never happens is not tested. */
typedef enum event_kind {
    EXTENDED,
    REWOUND,
    RESTORED,
    BEFORE_MARK,
    FORKED,
    LINE_EVICTED,
    MARK_EVICTED,
    WRAPPED,
    MOVED,
    REJECTED,
    CAUGHT_UP,
    CANCELLED_PROMPT,
    CANCELLED_ANSWER,
    CUT,
    NOT_KEPT,
    EVENT_KINDS
} event_kind;

static const char *const EVENT_NAME[EVENT_KINDS] = { "live line extended",
                                                     "live rings rewound",
                                                     "checkpoint restored",
                                                     "started before a checkpoint",
                                                     "line forked",
                                                     "line evicted",
                                                     "checkpoint evicted",
                                                     "ring wrapped",
                                                     "nodes moved",
                                                     "rows rejected",
                                                     "context caught up",
                                                     "prompt cancelled",
                                                     "answer cancelled",
                                                     "burst cut",
                                                     "not kept" };

/* Least of 100,000 steps. */
static const int64_t EVENT_LEAST[EVENT_KINDS] = { 500, 200,  150, 40,  12, 200, 200, 400,
                                                  400, 5000, 100, 100, 50, 100, 100 };

static int64_t events[EVENT_KINDS];

typedef struct world {
    const shape *shape;
    pair *p;
    steps *s;
    timelines *tl;
    talk talk[TALKS];
    int32_t last; /* talk of the last request */
    int32_t prompt_before, prompt;
    int32_t *token;                          /* of the running request */
    uint64_t *made;                          /* history by position that `want` is for */
    uint64_t *want;                          /* [memory][k, v][head][position][words] */
    int32_t words, memories, positions;      /* target layers, then the draft's */
    int32_t steps_done, requests, was, wrap; /* was: length of the live line before; wrap: turns of its ring */
} world;

static bool has_draft(const world *w) { return w->shape->draft_window > 0; }

static const kv_store *store_of(const world *w, int32_t memory) {
    int32_t layers = w->p->target.cfg.layers;
    return memory < layers ? &w->p->target.kv.layer[memory] : &w->p->draft.ring[memory - layers];
}

static int32_t memory_name(const world *w, int32_t memory) {
    int32_t layers = w->p->target.cfg.layers;
    return memory < layers ? memory : CONTEXT_MEMORY + memory - layers;
}

static uint64_t *wanted(const world *w, int32_t memory, int32_t part, int32_t pos) {
    int32_t parts = 2 * w->p->target.cfg.kv_heads;
    return w->want + (((int64_t)memory * parts + part) * w->positions + pos) * w->words;
}

static void set_window(world *w) {
    target_config *c = &w->p->target.cfg;
    if (w->shape->window)
        c->window = w->shape->window;
    else
        for (int32_t l = 0; l < c->layers; l++) c->layer[l].sliding = false;
    if (has_draft(w)) w->p->draft.cfg.window = w->shape->draft_window;
}

static world *world_open(const shape *sh) {
    world *w = xalloc(sizeof *w);
    w->shape = sh;
    w->p = xalloc(sizeof *w->p);
    engine_options opt = {
        .lanes = 1, .ctx = sh->ctx, .cache_tokens = sh->cache, .checkpoints = sh->checkpoints, .isa = "ref"
    };
    MUST(pair_load(w->p, "tests/golden/tiny_target", sh->draft_window ? "tests/golden/tiny_draft" : NULL, false, NULL,
                   NULL, e));
    set_window(w);
    subject = w->p;
    MUST(pair_start(w->p, &opt, e));
    w->s = w->p->steps;
    MUST(timelines_open(&w->tl, &w->p->target, has_draft(w) ? &w->p->draft : NULL, w->s, sh->checkpoints, e));
    memset(w->p->target.kv.block, 0xFF, w->p->target.kv.bytes);
    if (has_draft(w)) memset(w->p->draft.memory, 0xFF, w->p->draft.bytes);
    w->positions = sh->ctx + NODES_MAX;
    w->words = head_words(&w->p->target.kv.layer[0]);
    w->memories = w->p->target.cfg.layers + (has_draft(w) ? w->p->draft.cfg.layers : 0);
    assert_true(w->words <= WORDS_MAX);
    w->token = xalloc((size_t)w->positions * sizeof *w->token);
    known = xalloc((size_t)w->positions * sizeof *known);
    w->made = xalloc((size_t)w->positions * sizeof *w->made);
    w->want = xalloc((size_t)(w->memories * 2 * w->p->target.cfg.kv_heads) * (size_t)w->positions * (size_t)w->words *
                     sizeof *w->want);
    return w;
}

static void world_close(world *w) {
    timelines_close(w->tl);
    pair_close(w->p);
    for (int i = 0; i < TALKS; i++) free(w->talk[i].token);
    free(w->p);
    free(w->token);
    free(known);
    free(w->made);
    free(w->want);
    free(w);
}

/* ---- the naive model ---- */

static void naive_set(world *w, int32_t pos, int32_t token) {
    uint64_t h = history(pos ? known[pos - 1] : ROOT, token);
    w->token[pos] = token;
    known[pos] = h;
    if (w->made[pos] == h) return;
    w->made[pos] = h;
    for (int32_t m = 0; m < w->memories; m++)
        for (int32_t part = 0; part < 2 * w->p->target.cfg.kv_heads; part++) {
            uint64_t *row = wanted(w, m, part, pos);
            for (int32_t i = 0; i < w->words; i++) row[i] = word_of(h, memory_name(w, m), part * w->words + i);
        }
}

static int32_t naive_next(const world *w, int32_t len) { return next_token(known[len - 1], w->p->target.cfg.vocab); }

/* What the model would write behind `len` tokens and an anchor. */
static void naive_answer(const world *w, int32_t len, int32_t anchor, int32_t *out, int32_t n) {
    uint64_t h = history(known[len - 1], anchor);
    for (int32_t i = 0; i < n; i++) {
        out[i] = next_token(h, w->p->target.cfg.vocab);
        h = history(h, out[i]);
    }
}

/* ---- checks ---- */

static void fault(const world *w, const char *what, int32_t memory, int32_t pos) {
    fail_msg("seed %llu, %s, request %d, step %d: %s %d at position %d of %d is not what it should be",
             (unsigned long long)seed, w->shape->name, w->requests, w->steps_done, what, memory, pos,
             timelines_len(w->tl));
}

static void check_rows(const world *w, int32_t memory, int32_t from, int32_t to, const char *what) {
    const kv_store *s = store_of(w, memory);
    size_t row = (size_t)w->words * sizeof(uint64_t);
    for (int32_t part = 0; part < 2 * s->heads; part++)
        for (int32_t pos = from, n; pos < to; pos += n) {
            n = min_i32(kv_contiguous(s, pos, 0), to - pos);
            const bf16 *got = kv_at(s, part < s->heads ? s->k : s->v, kv_offset(s, part % s->heads, pos, 0));
            const uint64_t *want = wanted(w, memory, part, pos);
            if (memcmp(got, want, (size_t)n * row) == 0) continue;
            while (memcmp(got, want, row) == 0) got += s->size, want += w->words, pos++;
            fault(w, what, memory, pos);
        }
}

/* All that a row behind the committed ones sees. */
static void check_visible(const world *w) {
    const target_config *c = &w->p->target.cfg;
    int32_t len = timelines_len(w->tl);
    assert_int_equal(steps_len(w->s), len);
    for (int32_t l = 0; l < c->layers; l++) {
        bool ring = c->layer[l].sliding;
        check_rows(w, l, ring ? kv_first_seen(c->window, len) : 0, len, ring ? "ring of layer" : "pages of layer");
    }
    if (!has_draft(w)) return;
    int32_t have = steps_ctx_len(w->s);
    assert_true(have <= len);
    for (int32_t l = 0; l < w->p->draft.cfg.layers; l++)
        check_rows(w, c->layers + l, kv_first_seen(w->shape->draft_window, len), have, "draft context");
}

/* Every page is free or held by as many lines as it counts, never twice by one; likewise checkpoints. */
static void check_books(const world *w) {
    const timelines *tl = w->tl;
    int32_t n_pages = w->p->target.kv.n_pages, *page = xalloc((size_t)n_pages * sizeof *page), used = 0;
    int32_t mark[CHECKPOINTS_MAX] = { 0 }, marks = 0;
    for (int32_t i = 0; i < TIMELINES_MAX; i++) {
        const line *l = &tl->line[i];
        if (!l->taken) {
            assert_int_equal(l->n_pages + l->n_marks + l->n, 0);
            continue;
        }
        assert_true(l->n_pages >= (l->n + KV_PAGE - 1) / KV_PAGE);
        for (int32_t k = 0; k < l->n_pages; k++) page[l->page[k]]++;
        for (int32_t k = 0, pos = 0; k < l->n_marks; pos = tl->mark[l->mark[k++]].at.pos) {
            mark[l->mark[k]]++;
            assert_in_range(tl->mark[l->mark[k]].at.pos, pos + 1, l->n);
        }
    }
    for (int32_t i = 0; i < tl->n_free; i++) assert_int_equal(page[tl->page_free[i]]--, 0); /* once in the list */
    for (int32_t i = 0; i < n_pages; i++) {
        assert_int_equal(max_i32(page[i], 0), page[i] < 0 ? 0 : tl->page_refs[i]);
        assert_true(page[i] != 0); /* neither held nor free: lost */
        used += page[i] > 0;
    }
    for (int32_t i = 0; i < tl->marks; i++) {
        assert_int_equal(mark[i], tl->mark[i].refs);
        marks += mark[i] > 0;
    }
    timelines_stats st = timelines_get_stats(tl);
    assert_int_equal(st.pages, n_pages);
    assert_int_equal(st.pages_used, used);
    assert_int_equal(st.checkpoints, marks);
    free(page);
}

/* Remembered lines that are not live keep their pages as they were written. */
static void check_remembered(const world *w) {
    target_kv *kv = &w->p->target.kv;
    for (int32_t i = 0; i < TIMELINES_MAX; i++) {
        const line *l = &w->tl->line[i];
        uint64_t h = ROOT;
        for (int32_t pos = 0; pos < l->n; pos++) {
            h = history(h, l->token[pos]);
            for (int32_t m = 0; m < kv->layers; m++) {
                kv_store s = kv->layer[m];
                if (s.kind != KV_PAGES) continue;
                s.pages = l->page;
                if (read_history(&s, pos, m) != h) fault(w, "a remembered line, layer", m, pos);
            }
        }
    }
}

/* ---- prompts ---- */

static int32_t put_tail(const world *w, int32_t *out, int32_t n, int32_t tail) {
    for (int32_t end = min_i32(n + tail, w->shape->ctx - 1); n < end; n++) out[n] = draw(w->p->target.cfg.vocab);
    return n;
}

/* How far back the live rings can go, rejected rows left out. */
static int32_t ring_reach(const world *w) {
    const shape *sh = w->shape;
    int32_t target = sh->window ? kv_ring_slots(sh->window, PREFILL_MAX) - sh->window : 0;
    int32_t context = has_draft(w) ? kv_ring_slots(sh->draft_window, NODES_MAX) - sh->draft_window : target;
    return min_i32(target, context);
}

/* Where an edit parts from an old text: where one did before, near the end, where the rings end, at a border, anywhere.
 */
static int32_t cut_point(const world *w, talk *t) {
    static const int32_t BORDER[] = { KV_PAGE, 16, 320 };
    int32_t unit = BORDER[draw(3)], reach = ring_reach(w);
    switch (draw(8)) {
    case 0: return t->n;
    case 1: return max_i32(t->n - draw(40), 0);
    case 2: return min_i32(t->n, max_i32(t->n / unit * unit - 1 + draw(3), 0));
    case 3: return t->parted = draw(t->n + 1);
    case 4:
    case 5: return min_i32(t->n, max_i32(t->n - reach - 8 + draw(40), 0));
    default: return min_i32(t->parted, t->n);
    }
}

static int32_t old_text(const world *w, int32_t *out, int32_t which, int32_t n) {
    const talk *t = &w->talk[which];
    n = min_i32(min_i32(n, t->n), w->shape->ctx - 1);
    if (n) memcpy(out, t->token, (size_t)n * sizeof *out);
    return n;
}

/* A few are taken up often, as people do. */
static int32_t any_talk(void) { return draw(one_in(3) ? TALKS : 6); }

static int32_t tail_length(const world *w) { return one_in(5) ? draw(max_i32(w->shape->usual, 400)) : draw(40); }

static int32_t make_prompt(world *w, int32_t *out) {
    int32_t kind = draw(20), n = 0, last = w->talk[w->last].n, other;
    if (last == 0 || kind < 3) {
        w->last = any_talk();
        return put_tail(w, out, 0, 1 + (one_in(5) ? draw(w->shape->ctx) : draw(w->shape->usual)));
    }
    if (kind < 8) {                                    /* the answer goes back with the next message */
        if (one_in(4)) w->talk[w->last].parted = last; /* a later edit may go back to here */
        n = put_tail(w, out, old_text(w, out, w->last, last), 1 + tail_length(w));
    } else if (kind < 10) { /* the same again */
        n = old_text(w, out, w->last, w->prompt_before);
    } else if (kind < 14) {
        n = put_tail(w, out, old_text(w, out, w->last, cut_point(w, &w->talk[w->last])), 1 + tail_length(w));
    } else {
        other = any_talk();
        n = put_tail(w, out, old_text(w, out, other, cut_point(w, &w->talk[other])), 1 + tail_length(w));
        w->last = one_in(2) ? other : any_talk();
    }
    return n ? n : put_tail(w, out, 0, 1 + draw(20));
}

static void keep_talk(world *w, int32_t n) {
    talk *t = &w->talk[w->last];
    t->token = xrealloc(t->token, (size_t)n * sizeof *t->token);
    memcpy(t->token, w->token, (size_t)n * sizeof *t->token);
    t->n = n;
    w->prompt_before = w->prompt;
}

/* ---- a request, as engine/core/generate.c does it ---- */

static void step_done(world *w) {
    w->steps_done++;
    if (torn.memory) fault(w, "what a step saw of", torn.memory, torn.pos);
    int32_t slots = w->tl->ring_slots, turn = timelines_len(w->tl) / slots;
    events[WRAPPED] += turn > w->wrap;
    w->wrap = turn;
    check_visible(w);
}

static void begin(world *w, int32_t n, const int32_t *prompt, bool reuse) {
    timelines_stats a = timelines_get_stats(w->tl);
    bool live = w->tl->live >= 0, extends = live && w->was < n;
    for (int32_t i = 0; extends && i < w->was; i++) extends = prompt[i] == w->token[i];
    int32_t start = timelines_begin(w->tl, prompt, n, reuse);
    timelines_stats b = timelines_get_stats(w->tl);
    assert_in_range(start, 0, n - 1);
    assert_int_equal(timelines_len(w->tl), start);
    assert_int_equal(b.reused - a.reused, start);
    assert_int_equal(b.asked - a.asked, n);
    if (!reuse) assert_int_equal(start, 0);
    if (reuse && extends && start < w->was) fault(w, "the live line's start, part", 0, start);
    for (int32_t i = 0; i < n; i++) naive_set(w, i, prompt[i]);
    bool restored = b.restored > a.restored;
    events[EXTENDED] += extends && start == w->was && start > 0;
    events[REWOUND] += live && !restored && start > 0 && start < w->was;
    events[RESTORED] += restored;
    events[BEFORE_MARK] += restored && w->tl->high > start;
    events[NOT_KEPT] += !reuse;
    w->prompt = n;
    w->wrap = start / w->tl->ring_slots;
    check_visible(w);
}

/* Returns the prompt's rows that are there when it ends. */
static int32_t prefill(world *w, int32_t *anchor) {
    int32_t at = timelines_len(w->tl), n = w->prompt, cancel = one_in(8) ? draw(3) : NEVER;
    int32_t most = one_in(3) ? 1 + draw(PREFILL_MAX) : PREFILL_MAX;
    int64_t rows = did.rows - at;
    while (at < n) {
        if (cancel-- == 0) return at;
        int32_t chunk = timelines_chunk(w->tl, min_i32(most, n - at));
        assert_in_range(chunk, 1, min_i32(most, n - at));
        timelines_reserve(w->tl, chunk);
        const step_out *out = steps_prefill(w->s, w->token + at, chunk, at + chunk == n);
        timelines_prefilled(w->tl, w->token + at, chunk);
        at += chunk;
        assert_int_equal(did.rows - rows, at); /* what was there is not run again */
        step_done(w);
        if (at == n) *anchor = out->token[0];
    }
    assert_int_equal(*anchor, naive_next(w, n));
    return n;
}

/* Proposals: per depth the right token among wrong ones, or none; how often depends on the round. */
static void write_script(const int32_t *right, int32_t branch, int32_t vocab) {
    int32_t luck = draw(5);
    for (int32_t d = 0; d < DEPTH_MAX; d++) {
        float p = -0.05f - 0.01f * (float)draw(20);
        for (int32_t k = 0; k < TREE_WIDTH; k++) {
            script.token[d][k] = (right[d] + 1 + k) % vocab;
            script.logp[d][k] = p - 0.3f * (float)k;
        }
        if (draw(5) < luck) script.token[d][draw(branch)] = right[d];
    }
}

static const step_out *decode_round(world *w, int32_t anchor, int32_t wanted_tokens) {
    int32_t right[DEPTH_MAX], given[DEPTH_MAX], len = timelines_len(w->tl), vocab = w->p->target.cfg.vocab;
    int32_t depth = min_i32(1 + draw(one_in(4) ? DEPTH_MAX : 8), wanted_tokens);
    int32_t branch = one_in(3) ? 1 : 1 + draw(TREE_WIDTH);
    bool drafts = has_draft(w) && !one_in(4);
    if (depth <= 0) return steps_plain(w->s);
    naive_answer(w, len, anchor, right, DEPTH_MAX);
    write_script(right, branch, vocab);
    round_shape r = { .depth = drafts ? depth : 0, .branch = branch };
    if (!drafts || one_in(3)) {
        r.given = given, r.n_given = depth;
        int32_t good = draw(depth + 1);
        for (int32_t i = 0; i < depth; i++) given[i] = i < good ? right[i] : (right[i] + 5) % vocab;
    }
    r.nodes = branch > 1 ? min_i32(depth + draw(16), NODES_MAX - 1) : depth;
    r.nodes_min = r.nodes;
    if (drafts && steps_lag(w->s) > NODES_MAX / 2) {
        events[CAUGHT_UP]++;
        steps_catch_up(w->s);
    }
    return steps_speculate(w->s, &r);
}

/* Takes over what a step committed; returns the new anchor. */
static int32_t committed(world *w, const step_out *out, int32_t anchor) {
    int32_t token[DEPTH_MAX + 1] = { anchor }, len = timelines_len(w->tl);
    for (int32_t i = 0; i < out->n; i++) {
        naive_set(w, len + i, i ? out->token[i - 1] : anchor);
        assert_int_equal(out->token[i], naive_next(w, len + i + 1));
        if (i) token[i] = out->token[i - 1];
        events[MOVED] += out->drafted && out->path[i] != i;
    }
    events[REJECTED] += out->rows > out->n;
    timelines_step(w->tl, token, out->n, out->rows);
    return out->token[out->n - 1];
}

/* Returns how many tokens of the answer are kept. */
static int32_t decode(world *w, int32_t anchor, int32_t most) {
    int32_t generated = 1, style = draw(3), plain = 0; /* style 0: plain, 1: rounds, 2: stretches of both */
    int32_t cancel = one_in(12) ? draw(10) : NEVER;
    while (generated < most) {
        if (cancel-- == 0) {
            events[CANCELLED_ANSWER]++;
            break;
        }
        timelines_reserve(w->tl, NODES_MAX);
        if (style == 2 && plain == 0 && one_in(4)) plain = 1 + draw(50);
        bool as_plain = style == 0 || plain > 0;
        plain -= plain > 0;
        const step_out *out = as_plain ? steps_plain(w->s) : decode_round(w, anchor, most - generated - 1);
        anchor = committed(w, out, anchor);
        step_done(w);
        generated += out->n;
        if (out->n == 1 || !one_in(12)) continue;
        int32_t stop = 1 + draw(out->n); /* a stop string in mid-burst */
        events[CUT] += stop < out->n - 1;
        generated -= out->n - stop;
        break;
    }
    w->token[timelines_len(w->tl)] = anchor;
    return generated;
}

static void request(world *w) {
    static int32_t prompt[PLENTY];
    assert_true(w->shape->ctx <= PLENTY);
    bool reuse = !one_in(12);
    int32_t n = make_prompt(w, prompt), anchor = 0, generated = 0;
    w->requests++;
    begin(w, n, prompt, reuse);
    int32_t at = prefill(w, &anchor);
    if (at < n) {
        events[CANCELLED_PROMPT]++;
    } else {
        int32_t most = min_i32(one_in(5) ? 1 + draw(300) : 1 + draw(40), w->shape->ctx - n);
        if (most > 1) timelines_mark(w->tl);
        check_visible(w);
        generated = decode(w, anchor, most);
    }
    int32_t kept = min_i32(timelines_len(w->tl), n + generated);
    timelines_end(w->tl, kept);
    assert_int_equal(timelines_len(w->tl), reuse ? kept : 0);
    assert_int_equal(steps_len(w->s), kept);
    if (has_draft(w) && reuse) assert_int_equal(steps_ctx_len(w->s), kept);
    if (reuse) check_visible(w);
    w->was = reuse ? kept : 0;
    keep_talk(w, n + generated);
    if (w->requests % BOOKS) return;
    check_books(w);
    check_remembered(w);
}

static void test_world(void **state) {
    world *w = world_open(*state);
    int32_t wanted_steps = (int32_t)((int64_t)steps_wanted * w->shape->share / 100);
    random_state = mix(seed + (uint64_t)w->shape->ctx);
    while (w->steps_done < wanted_steps) request(w);
    timelines_stats st = timelines_get_stats(w->tl);
    events[FORKED] += st.forked, events[LINE_EVICTED] += st.evicted_lines, events[MARK_EVICTED] += st.evicted_marks;
    print_message("%s: %d steps of %d requests, %.1f %% of prompt tokens reused\n", w->shape->name, w->steps_done,
                  w->requests, 100.0 * (double)st.reused / (double)st.asked);
    check_books(w);
    check_remembered(w);
    for (int32_t i = 0; i < TIMELINES_MAX; i++)
        if (w->tl->line[i].taken) drop_line(w->tl, i);
    st = timelines_get_stats(w->tl);
    assert_int_equal(st.pages_used + st.checkpoints + st.timelines, 0);
    world_close(w);
}

static void test_all_happened(void **state) {
    (void)state;
    int short_of = 0;
    for (int i = 0; i < EVENT_KINDS; i++) {
        int64_t least = EVENT_LEAST[i] * steps_wanted / 100000;
        print_message("%8lld (at least %lld) %s\n", (long long)events[i], (long long)least, EVENT_NAME[i]);
        short_of += events[i] < least;
    }
    assert_int_equal(short_of, 0);
}

/* ---- scripts ---- */

static shape SCRIPTS_ALONE = { "scripts without a draft", 16, 0, 4000, 40000, 64, 200, 0 };
static shape SCRIPTS = { "scripts", 16, 16, 4000, 40000, 64, 200, 0 };

static void answer_plainly(world *w, int32_t anchor, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        timelines_reserve(w->tl, NODES_MAX);
        anchor = committed(w, steps_plain(w->s), anchor);
    }
}

/* A prompt of n tokens that begins with `shared` tokens of a text of its own, and so many plain steps. Returns where it
 * started. */
static int32_t simple_request(world *w, int32_t text, int32_t shared, int32_t n, int32_t answer) {
    static int32_t prompt[PLENTY];
    for (int32_t i = 0; i < n; i++) prompt[i] = i < shared ? (text * 7 + i) % 400 : draw(400);
    int32_t anchor = 0;
    begin(w, n, prompt, true);
    w->requests++;
    int32_t start = timelines_len(w->tl);
    for (int32_t at = start, chunk; at < n; at += chunk) {
        chunk = timelines_chunk(w->tl, min_i32(PREFILL_MAX, n - at));
        timelines_reserve(w->tl, chunk);
        anchor = steps_prefill(w->s, prompt + at, chunk, at + chunk == n)->token[0];
        timelines_prefilled(w->tl, prompt + at, chunk);
    }
    step_done(w);
    timelines_mark(w->tl);
    answer_plainly(w, anchor, answer);
    timelines_end(w->tl, n + answer);
    w->was = n + answer;
    return start;
}

/* Checkpoints lie where later prompts come back to. */
static void test_places(void **state) {
    (void)state;
    world *w = world_open(&SCRIPTS);
    assert_int_equal(simple_request(w, 1, 3000, 3000, 20), 0);
    assert_int_equal(simple_request(w, 2, 500, 500, 0), 0);
    assert_int_equal(simple_request(w, 1, 3000, 3000, 20), 2999); /* the end of the prompt */
    assert_int_equal(simple_request(w, 2, 500, 600, 0), 500);
    assert_int_equal(simple_request(w, 1, 2500, 2700, 0), CHECKPOINT_EVERY); /* on a long way */
    assert_int_equal(simple_request(w, 2, 500, 600, 0), 500);
    assert_int_equal(simple_request(w, 1, 2500, 2700, 0), 2500); /* where a prompt has parted before */
    assert_int_equal(simple_request(w, 1, 2500, 2700, 300), 2500);
    assert_int_equal(simple_request(w, 3, 100, 100, 0), 0); /* chunks that do not begin at a border end there */
    assert_int_equal(simple_request(w, 3, 2400, 2400, 0), 100);
    assert_int_equal(simple_request(w, 2, 500, 600, 30), 500);
    static int32_t prompt[PLENTY];
    memcpy(prompt, w->token, 630 * sizeof *prompt);
    prompt[630] = 1;
    assert_int_equal(simple_request(w, 3, 2200, 2300, 0), CHECKPOINT_EVERY);
    begin(w, 631, prompt, true); /* the end of the answer */
    assert_int_equal(timelines_len(w->tl), 630);
    timelines_end(w->tl, 630);
    world_close(w);
}

/* Rows that were rejected have displaced others all the same: the rings reach back so much less. */
static void test_rejected_rows(void **state) {
    (void)state;
    enum { N = 600, ROWS = NODES_MAX, LOW = N + ROWS - 320 + 16 - 1 }; /* 320 slots, window 16 */
    world *w = world_open(&SCRIPTS_ALONE);
    for (int32_t shared = LOW; shared >= LOW - 1; shared--) {
        int32_t right[DEPTH_MAX], wrong[DEPTH_MAX];
        simple_request(w, 1 + shared, N, N, 0);
        naive_answer(w, N - 1, w->token[N - 1], right, DEPTH_MAX); /* the first of them is the anchor */
        for (int32_t i = 0; i < DEPTH_MAX; i++) wrong[i] = (right[min_i32(i + 1, DEPTH_MAX - 1)] + 1) % 400;
        static int32_t prompt[PLENTY];
        memcpy(prompt, w->token, N * sizeof *prompt);
        begin(w, N, prompt, true);
        timelines_reserve(w->tl, NODES_MAX + 1);
        int32_t anchor = steps_prefill(w->s, prompt + N - 1, 1, true)->token[0];
        timelines_prefilled(w->tl, prompt + N - 1, 1);
        const step_out *out = steps_verify(w->s, wrong, DEPTH_MAX);
        assert_int_equal(out->rows, ROWS);
        assert_int_equal(out->accepted, 0);
        committed(w, out, anchor);
        timelines_end(w->tl, N + 1);
        w->was = N + 1;
        int32_t start = simple_request(w, 1 + shared, shared, shared + 1, 0);
        assert_int_equal(start, shared == LOW ? LOW : 0);
    }
    world_close(w);
}

/* Two lines share pages; one goes back to a page border below what they share and writes there. */
static void test_shared_pages(void **state) {
    (void)state;
    world *w = world_open(&SCRIPTS);
    simple_request(w, 1, 256, 256, 0); /* checkpoints at the borders */
    simple_request(w, 1, 512, 512, 0);
    simple_request(w, 1, 1100, 1100, 0);
    simple_request(w, 1, 512, 530, 0);
    assert_int_equal(timelines_get_stats(w->tl).forked, 1);
    check_remembered(w);
    for (int32_t shared = 256; shared > 0; shared -= 10) { /* and a little before it, by the checkpoint's slack */
        simple_request(w, 1, shared, 300, 0);
        check_books(w);
        check_remembered(w);
        simple_request(w, 1, 1100, 1100 + shared, 0); /* the long one is still whole */
        check_remembered(w);
    }
    world_close(w);
}

/* ---- costs that may not grow ---- */

/* However many are remembered, a request compares once, copies one set of rings, and a step does neither. */
static void test_cost_of_remembering(void **state) {
    (void)state;
    world *w = world_open(&SCRIPTS);
    counters cost[2];
    for (int32_t i = 0, lines = 4; i < 2; i++, lines *= 4) {
        while (timelines_get_stats(w->tl).timelines < lines) simple_request(w, w->requests, 100, 100, 5);
        did = (counters){ 0 };
        simple_request(w, 1 + i, 100, 300, 20); /* goes on behind the prompt of one of the first */
        cost[i] = did;
    }
    assert_int_equal(cost[0].comparisons, 1);
    assert_int_equal(cost[1].comparisons, 1);
    assert_int_equal(cost[0].rows, 200 + 20);
    assert_int_equal(cost[1].rows, cost[0].rows);
    assert_int_equal(cost[1].loaded, cost[0].loaded);
    assert_int_equal(cost[1].saved, cost[0].saved);
    world_close(w);
}

/* A plain step behind twice as much takes a page when one is full, and nothing else. */
static void test_cost_of_context(void **state) {
    (void)state;
    enum { STEPS = 512 };
    world *w = world_open(&SCRIPTS);
    for (int32_t n = 768; n <= 2 * 768; n *= 2) {
        int32_t anchor = 0;
        simple_request(w, 1, n, n, 0);
        static int32_t prompt[PLENTY];
        for (int32_t i = 0; i < n; i++) prompt[i] = (7 + i) % 400;
        begin(w, n, prompt, true);
        int32_t at = timelines_len(w->tl);
        assert_int_equal(at, n - 1); /* the same again: one row */
        timelines_reserve(w->tl, NODES_MAX + STEPS % KV_PAGE);
        anchor = steps_prefill(w->s, prompt + at, 1, true)->token[0];
        timelines_prefilled(w->tl, prompt + at, 1);
        timelines_mark(w->tl);
        timelines_stats before = timelines_get_stats(w->tl);
        did = (counters){ 0 };
        answer_plainly(w, anchor, STEPS);
        timelines_stats after = timelines_get_stats(w->tl);
        assert_int_equal(after.pages_used - before.pages_used, STEPS / KV_PAGE);
        assert_int_equal(after.checkpoints, before.checkpoints);
        assert_int_equal(did.comparisons + did.saved + did.loaded, 0);
        assert_int_equal(did.rows, STEPS);
        timelines_end(w->tl, n);
        w->was = n;
    }
    world_close(w);
}

/* Of a known prompt only what is new runs, however long it is. */
static void test_cost_of_a_prefix(void **state) {
    (void)state;
    world *w = world_open(&SCRIPTS);
    for (int32_t n = 1000; n <= 2000; n *= 2) {
        simple_request(w, n, n, n, 10);
        simple_request(w, 3, 50, 50, 3); /* somebody else in between */
        did = (counters){ 0 };
        simple_request(w, n, n, n + 64, 0);
        assert_int_equal(did.rows, 64);
        assert_true(did.loaded <= (int64_t)w->memories * (16 + CHECKPOINT_SLACK));
    }
    world_close(w);
}

static shape SHAPES[] = {
    { "many lines", 16, 16, 1200, 9000, 40, 120, 25 },        { "little room", 8, 40, 900, 300, 3, 300, 20 },
    { "long windows, no room", 512, 512, 640, 0, 4, 400, 8 }, { "no draft", 16, 0, 1100, 1100, 6, 300, 15 },
    { "no checkpoints", 16, 16, 700, 700, 0, 200, 10 },       { "global layers only", 0, 0, 900, 0, 2, 300, 8 },
    { "long prompts", 16, 100, 4000, 6000, 8, 2600, 4 },      { "branches", 16, 16, 2600, 9000, 40, 900, 10 },
};

enum { N_SHAPES = sizeof SHAPES / sizeof SHAPES[0] };

int main(int argc, char **argv) {
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    if (argc > 2) steps_wanted = (int32_t)strtol(argv[2], NULL, 10);
    printf("seed %llu, %d steps\n", (unsigned long long)seed, steps_wanted);
    struct CMUnitTest tests[N_SHAPES + 7] = { [N_SHAPES] = cmocka_unit_test(test_all_happened),
                                              cmocka_unit_test(test_places),
                                              cmocka_unit_test(test_shared_pages),
                                              cmocka_unit_test(test_rejected_rows),
                                              cmocka_unit_test(test_cost_of_remembering),
                                              cmocka_unit_test(test_cost_of_context),
                                              cmocka_unit_test(test_cost_of_a_prefix) };
    for (int i = 0; i < N_SHAPES; i++)
        tests[i] = (struct CMUnitTest){ .name = SHAPES[i].name, .test_func = test_world, .initial_state = &SHAPES[i] };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
