/* Speculation may change nothing but speed: plain steps give the reference ids, every way to speculate, cold or from a
 * remembered conversation, must give the same ones. */
#include "engine/base/mem.h"
#include "engine/cli/progress.h"
#include "engine/cli/prompts.h"
#include "engine/cli/verify.h"
#include "engine/core/probe.h"
#include "engine/core/turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is tried ---- */

/* How much is verified. nodes 0: a chain. */
typedef struct shape {
    const char *name;
    int32_t depth, nodes;
    spec_mode mode;
} shape;

static const shape CHAINS[] = {
    { "1 proposal", 1, 0, SPEC_FIXED },
    { "3 proposals", 3, 0, SPEC_FIXED },
    { "7 proposals", 7, 0, SPEC_FIXED },
    { "15 proposals", 15, 0, SPEC_FIXED },
};
static const shape SHAPES[] = {
    { "chain of 7", 7, 0, SPEC_FIXED },   { "tree of 4", 7, 4, SPEC_FIXED }, { "tree of 12", 7, 12, SPEC_FIXED },
    { "tree of 31", 15, 31, SPEC_FIXED }, { "auto", 15, 31, SPEC_AUTO },
};

/* Who proposes. Junk: made-up tokens in front of the draft's. */
typedef enum proposer_kind { SOURCE_DRAFT = 1, SOURCE_LOOKUP = 2, SOURCE_BOTH = 3, SOURCE_JUNK = 4 } proposer_kind;
static const char *proposer_name(proposer_kind s) {
    return s == SOURCE_DRAFT ? "dflash" : s == SOURCE_LOOKUP ? "lookup" : s == SOURCE_BOTH ? "both" : "junk";
}

static const struct {
    const char *name;
    pick_params pick;
} SETTINGS[] = {
    { "greedy", { .top_p = 1.0f } },
    { "temperature 1, top-k 20, seed 1", { .temperature = 1.0f, .top_p = 1.0f, .top_k = 20, .seed = 1 } },
    { "temperature 0.7, top-p 0.95, seed 2", { .temperature = 0.7f, .top_p = 0.95f, .seed = 2 } },
    { "temperature 1.2, min-p 0.05, top-k 50, seed 3",
      { .temperature = 1.2f, .top_p = 1.0f, .min_p = 0.05f, .top_k = 50, .seed = 3 } },
    { "repetition 1.1, presence 0.3, frequency 0.2, temperature 0.8, seed 4",
      { .temperature = 0.8f, .top_p = 1.0f, .seed = 4, .repeat = 1.1f, .presence = 0.3f, .frequency = 0.2f } },
};
enum { SETTINGS_N = sizeof SETTINGS / sizeof *SETTINGS };

/* ---- one run ---- */

typedef struct world {
    pair p;
    prompt_set prompts;
    timelines *timelines;
    lookup *lookup;
    width width;
    int32_t tokens;         /* of an answer */
    int32_t *plain, *spec;  /* [tokens + NODES_MAX] */
    int32_t *row, *rows_of; /* of the speculative run, by answer position: row that committed it, rows of its pass */
} world;

/* A way to speculate; shape NULL: plain steps. */
typedef struct way {
    const shape *shape;
    proposer_kind source;
    bool warm; /* from what earlier runs left of the same prompt */
} way;

typedef struct run {
    int32_t n, steps, cached;
    int64_t drafted, accepted;
} run;

static propose proposer(world *w, const way *y) {
    return (propose){ .steps = w->p.steps,
                      .text = w->p.text,
                      .width = &w->width,
                      .drafting = y->shape && (y->source & SOURCE_DRAFT),
                      .lookup = y->shape && (y->source & SOURCE_LOOKUP) ? w->lookup : NULL,
                      .mode = y->shape ? y->shape->mode : SPEC_FIXED,
                      .depth_max = y->shape ? y->shape->depth : 0,
                      .tree_max = y->shape ? y->shape->nodes : 0 };
}

static const step_out *junk_round(world *w, turn *t, const shape *sh, int32_t wanted) {
    int32_t token[DEPTH_MAX], depth = wanted < sh->depth ? wanted : sh->depth, junk = depth < 4 ? depth : 4;
    uint32_t x = 2463534242u ^ (uint32_t)steps_len(w->p.steps);
    for (int32_t i = 0; i < junk; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        token[i] = (int32_t)(x % (uint32_t)w->p.target.cfg.vocab);
    }
    if (depth <= 0) return turn_verify(t, NULL, 0);
    int32_t nodes = junk + (sh->nodes ? sh->nodes : depth);
    return turn_speculate(t, &(round_shape){ .depth = depth,
                                             .branch = sh->nodes ? TREE_WIDTH : 1,
                                             .nodes = nodes < NODES_MAX ? nodes : NODES_MAX - 1,
                                             .given = token,
                                             .n_given = junk });
}

/* `most` tokens behind the prompt; fewer when the context ends. */
static run decode(world *w, const prompt *q, const pick_params *pick, const way *y, int32_t most, int32_t *out) {
    steps *s = w->p.steps;
    turn t = { .steps = s, .timelines = w->timelines };
    propose pr = proposer(w, y);
    run r = { .n = 1 };
    int32_t n = (int32_t)q->ids.n, room = w->p.ctx - n, from = 0;
    if (most > room) most = room;
    steps_set_pick(s, pick);
    r.cached = turn_begin(&t, q->ids.ids, n, y->warm);
    const step_out *o;
    do o = turn_prefill(&t, PREFILL_MAX);
    while (o->n == 0);
    out[0] = o->token[0];
    propose_begin(&pr, q->ids.ids, n, NULL, 0, pick->temperature > 0.0f);
    propose_emitted(&pr, out, 1);
    for (; r.n < most; r.steps++) {
        int32_t wanted = most - r.n - 1;
        bool junk = y->shape && y->source == SOURCE_JUNK;
        o = junk ? junk_round(w, &t, y->shape, wanted) : turn_round(&t, &pr, wanted);
        if (!junk) propose_measured(&pr, o, o->stamp[3] - o->stamp[0], o->stamp[3]);
        propose_emitted(&pr, o->token, o->n);
        for (int32_t i = 0; i < o->n; i++, from++)
            w->row[from] = o->rows > 1 ? o->path[i] : 0, w->rows_of[from] = o->rows;
        for (int32_t i = 0; i < o->n; i++) out[r.n++] = o->token[i];
        r.drafted += o->drafted, r.accepted += o->accepted;
    }
    turn_end(&t, r.n);
    return r;
}

/* ---- where a difference comes from ---- */

/* Both runs again up to the token that differs: the first position, and there the first layer, whose keys and values
 * are not the same. */
static void explain(world *w, const prompt *q, const pick_params *pick, const way *y, int32_t at, tally *t) {
    int32_t to = (int32_t)q->ids.n + at, first = (int32_t)q->ids.n;
    static const way PLAIN = { 0 };
    decode(w, q, pick, &PLAIN, at + 1, w->plain);
    probe_kv *want = probe_kv_copy(&w->p, to);
    int32_t pos, layer, last = at ? at - 1 : 0;
    decode(w, q, pick, y, at + 1, w->spec);
    if (!probe_kv_differs(&w->p, want, &pos, &layer))
        tally_line(t, false, "  keys and values below position %d agree: row %d of a pass of %d chose another token",
                   to, w->row[last], w->rows_of[last]);
    else if (pos < first)
        tally_line(t, false, "  first different keys and values: position %d (prompt), layer %d", pos, layer);
    else
        tally_line(t, false, "  first different keys and values: position %d, layer %d; row %d of a pass of %d", pos,
                   layer, w->row[pos - first], w->rows_of[pos - first]);
    probe_kv_free(want);
}

/* ---- all of it ---- */

/* First place where two runs differ, n: none. */
static int32_t first_difference(const int32_t *a, const int32_t *b, int32_t n) {
    int32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

typedef struct result {
    int64_t emitted, steps, cached, drafted, accepted;
    bool broken;
} result;

enum { WAYS_MAX = 64 };

static int list_ways(const pair *p, lossless_shapes set, way out[WAYS_MAX]) {
    int n = 0;
    int32_t deepest = p->draft.cfg.block_size - 1;
    if (set & LOSSLESS_CHAINS)
        for (size_t i = 0; i < sizeof CHAINS / sizeof *CHAINS; i++)
            if (CHAINS[i].depth <= deepest) out[n++] = (way){ &CHAINS[i], SOURCE_DRAFT, false };
    if (set & LOSSLESS_COMBINATIONS)
        for (int warm = 0; warm < 2; warm++)
            for (int s = SOURCE_DRAFT; s <= SOURCE_JUNK; s++)
                for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
                    if (SHAPES[i].depth <= deepest && (s != SOURCE_JUNK || SHAPES[i].mode == SPEC_FIXED))
                        out[n++] = (way){ &SHAPES[i], (proposer_kind)s, warm };
    return n;
}

static void verify_prompt(world *w, const prompt *q, int setting, const way *ways, int n_ways, result *results,
                          tally *t) {
    static const way REMEMBERED = { .warm = true };
    const pick_params *pick = &SETTINGS[setting].pick;
    run plain = decode(w, q, pick, &REMEMBERED, w->tokens, w->plain);
    for (int k = 0; k < n_ways; k++) {
        result *r = &results[k];
        if (r->broken) continue;
        run got = decode(w, q, pick, &ways[k], w->tokens, w->spec);
        r->emitted += got.n - 1, r->steps += got.steps, r->cached += got.cached;
        r->drafted += got.drafted, r->accepted += got.accepted;
        int32_t at = first_difference(w->plain, w->spec, plain.n < got.n ? plain.n : got.n);
        if (at == plain.n && got.n == plain.n) continue;
        r->broken = true;
        tally_line(t, false, "%s; %s, %s, %s, %d threads: prompt %zu differs at token %d: plain %d, speculative %d",
                   SETTINGS[setting].name, ways[k].shape->name, proposer_name(ways[k].source),
                   ways[k].warm ? "warm" : "cold", w->p.lanes, (size_t)(q - w->prompts.at), at, w->plain[at],
                   w->spec[at]);
        explain(w, q, pick, &ways[k], at, t);
        plain = decode(w, q, pick, &REMEMBERED, w->tokens, w->plain);
    }
}

static void verify_setting(world *w, int setting, lossless_shapes set, tally *t) {
    way ways[WAYS_MAX];
    result results[WAYS_MAX] = { 0 };
    int n = list_ways(&w->p, set, ways);
    for (size_t i = 0; i < w->prompts.n; i++) {
        progress_show(SETTINGS[setting].name, (float)i / (float)w->prompts.n);
        verify_prompt(w, &w->prompts.at[i], setting, ways, n, results, t);
    }
    progress_clear();
    for (int k = 0; k < n; k++) {
        const result *r = &results[k];
        if (r->broken) continue;
        /* a dead proposer would pass; auto may find that nothing pays */
        bool proposed =
            ways[k].shape->mode == SPEC_AUTO || (r->drafted > 0 && (ways[k].source == SOURCE_JUNK || r->accepted > 0));
        tally_line(t, proposed && (!ways[k].warm || r->cached > 0),
                   "%s; %s, %s, %s, %d threads: %zu prompts, %lld tokens equal; %.2f tokens per step",
                   SETTINGS[setting].name, ways[k].shape->name, proposer_name(ways[k].source),
                   ways[k].warm ? "warm" : "cold", w->p.lanes, w->prompts.n, (long long)r->emitted,
                   (double)r->emitted / (double)r->steps);
    }
}

/* ---- life ---- */

static status open_world(world *w, const engine_options *opt, const lossless_options *lo, err *e) {
    engine_options o = *opt;
    o.cache_tokens = CACHE_DEFAULT, o.checkpoints = CACHE_DEFAULT;
    TRY(pair_load(&w->p, o.target_dir, o.draft_dir, true, NULL, NULL, e));
    if (!w->p.has_draft)
        return err_set(e, ERR_USAGE, "verify lossless: there is no draft; name one with --draft-model");
    TRY(pair_start(&w->p, &o, e));
    steps_set_lanes(w->p.steps, LANES_BEST); /* as the engine runs */
    TRY(prompts_read(&w->p, lo->prompts, lo->limit, &w->prompts, e));
    for (size_t i = 0; i < w->prompts.n; i++)
        if (w->prompts.at[i].ids.n == 0 || w->prompts.at[i].ids.n >= (size_t)w->p.ctx)
            return err_set(e, ERR_TOO_LONG, "prompt %zu has %zu tokens; the context is %d", i, w->prompts.at[i].ids.n,
                           w->p.ctx);
    TRY(timelines_open(&w->timelines, &w->p.target, pair_draft(&w->p), w->p.steps, w->p.checkpoints, e));
    TRY(lookup_new(&w->lookup, &(lookup_options){ .timeline_max = w->p.ctx + 1, .min_match = 2 }, e));
    width_init(&w->width, w->p.draft.cfg.block_size - 1);
    w->tokens = (int32_t)lo->tokens;
    int32_t **lists[] = { &w->plain, &w->spec, &w->row, &w->rows_of };
    for (int i = 0; i < 4; i++) *lists[i] = xalloc((size_t)(w->tokens + NODES_MAX) * sizeof **lists[i]);
    return OK;
}

static void close_world(world *w) {
    free(w->plain);
    free(w->spec);
    free(w->row);
    free(w->rows_of);
    lookup_free(w->lookup);
    timelines_close(w->timelines);
    prompts_free(&w->prompts);
    pair_close(&w->p);
}

static status verify_lanes(const engine_options *opt, const lossless_options *lo, tally *t, err *e) {
    world *w = xalloc(sizeof *w);
    status s = open_world(w, opt, lo, e);
    for (int i = 0; s == OK && i < SETTINGS_N; i++) verify_setting(w, i, lo->shapes, t);
    close_world(w);
    free(w);
    return s;
}

status verify_lossless(const engine_options *opt, const lossless_options *lo, tally *t, err *e) {
    if (opt->lanes) return verify_lanes(opt, lo, t, e);
    for (int32_t lanes = 1; lanes <= 2; lanes++) {
        engine_options o = *opt;
        o.lanes = lanes;
        TRY(verify_lanes(&o, lo, t, e));
    }
    return OK;
}
