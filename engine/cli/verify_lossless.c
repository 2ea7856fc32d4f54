/* Speculation may change nothing but speed: plain steps give the reference ids, rounds must give the same ones. */
#include "engine/base/mem.h"
#include "engine/cli/progress.h"
#include "engine/cli/prompts.h"
#include "engine/cli/verify.h"

#include <stdlib.h>

/* A way to speculate. nodes 0: a chain. */
typedef struct shape {
    const char *name;
    int32_t depth, nodes;
    bool junk; /* proposals that have nothing to do with the text */
    lossless_shapes set;
} shape;

static const shape SHAPES[] = {
    { "1 proposal", 1, 0, false, LOSSLESS_CHAINS },          { "3 proposals", 3, 0, false, LOSSLESS_CHAINS },
    { "7 proposals", 7, 0, false, LOSSLESS_CHAINS },         { "15 proposals", 15, 0, false, LOSSLESS_CHAINS },
    { "a tree of 4 nodes", 7, 4, false, LOSSLESS_TREES },    { "a tree of 12 nodes", 7, 12, false, LOSSLESS_TREES },
    { "a tree of 31 nodes", 15, 31, false, LOSSLESS_TREES }, { "7 junk proposals", 7, 0, true, LOSSLESS_TREES },
};
enum { SHAPES_N = sizeof SHAPES / sizeof *SHAPES };

static const step_out *junk_round(steps *s, int32_t width, int32_t vocab) {
    int32_t proposals[NODES_MAX];
    uint32_t x = 2463534242u ^ (uint32_t)steps_params(s)->st.base;
    for (int32_t i = 0; i < width; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        proposals[i] = (int32_t)(x % (uint32_t)vocab);
    }
    return steps_verify(s, proposals, width);
}

/* n tokens behind the prompt, sh NULL: with plain steps; fewer when the context ends. */
static int32_t decode(pair *p, const prompt *q, const pick_params *pick, const shape *sh, int32_t n, int32_t *out,
                      int32_t *rounds) {
    steps *s = p->steps;
    int32_t room = p->ctx - (int32_t)q->ids.n, have = 1;
    if (n > room) n = room;
    out[0] = steps_prompt(s, pick, q->ids.ids, q->ids.n)->token[0];
    for (*rounds = 0; have < n; ++*rounds) {
        int32_t depth = sh ? sh->depth : 0, width = n - have - 1 < depth ? n - have - 1 : depth;
        const step_out *o = width <= 0  ? steps_plain(s)
                            : sh->junk  ? junk_round(s, width, p->target.cfg.vocab)
                            : sh->nodes ? steps_tree(s, width, sh->nodes, TREE_WIDTH)
                                        : steps_round(s, width);
        for (int32_t i = 0; i < o->n; i++) out[have++] = o->token[i];
    }
    return have;
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

/* First place where two runs differ, n: none. */
static int32_t first_difference(const int32_t *a, const int32_t *b, int32_t n) {
    int32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* One setting over all prompts: plain once, then every shape. */
static void verify_setting(pair *p, const prompt_set *ps, int setting, const lossless_options *lo, tally *t) {
    int32_t tokens = (int32_t)lo->tokens;
    int32_t *plain = xalloc((size_t)(tokens + NODES_MAX) * sizeof *plain),
            *spec = xalloc((size_t)(tokens + NODES_MAX) * sizeof *spec);
    int64_t rounds[SHAPES_N] = { 0 }, emitted = 0;
    bool broken[SHAPES_N] = { false };
    const char *name = SETTINGS[setting].name;
    for (size_t i = 0; i < ps->n; i++) {
        progress_show(name, (float)i / (float)ps->n);
        int32_t taken, n = decode(p, &ps->at[i], &SETTINGS[setting].pick, NULL, tokens, plain, &taken);
        emitted += n - 1;
        for (int k = 0; k < SHAPES_N; k++) {
            const shape *sh = &SHAPES[k];
            if (!(lo->shapes & sh->set) || sh->depth >= p->draft.cfg.block_size || broken[k]) continue;
            int32_t m = decode(p, &ps->at[i], &SETTINGS[setting].pick, sh, tokens, spec, &taken);
            rounds[k] += taken;
            int32_t at = first_difference(plain, spec, n < m ? n : m);
            if (at == n && m == n) continue;
            tally_line(t, false, "%s, %s, %d threads: prompt %zu differs at token %d: plain %d, speculative %d", name,
                       sh->name, p->lanes, i, at, plain[at], spec[at]);
            broken[k] = true;
        }
    }
    progress_clear();
    for (int k = 0; k < SHAPES_N; k++) {
        const shape *sh = &SHAPES[k];
        if (!(lo->shapes & sh->set) || broken[k]) continue;
        if (sh->depth >= p->draft.cfg.block_size)
            tally_skip(t, "%s, %s: the draft's block has %d rows", name, sh->name, p->draft.cfg.block_size);
        else
            tally_line(t, true, "%s, %s, %d threads: %zu prompts, %lld tokens equal; %.2f tokens per step", name,
                       sh->name, p->lanes, ps->n, (long long)emitted, (double)emitted / (double)rounds[k]);
    }
    free(plain);
    free(spec);
}

static status verify_lanes(const engine_options *opt, const lossless_options *lo, tally *t, err *e) {
    pair p = { 0 };
    prompt_set ps = { 0 };
    status s = pair_load(&p, opt->target_dir, opt->draft_dir, true, NULL, NULL, e);
    if (s == OK && !p.has_draft)
        s = err_set(e, ERR_USAGE, "verify lossless: there is no draft; name one with --draft-model");
    if (s == OK) s = pair_start(&p, opt, e);
    if (s == OK) steps_set_lanes(p.steps, LANES_BEST); /* as the engine runs */
    if (s == OK) s = prompts_read(&p, lo->prompts, lo->limit, &ps, e);
    for (size_t i = 0; s == OK && i < ps.n; i++)
        if (ps.at[i].ids.n == 0 || ps.at[i].ids.n >= (size_t)p.ctx)
            s = err_set(e, ERR_TOO_LONG, "prompt %zu has %zu tokens; the context is %d", i, ps.at[i].ids.n, p.ctx);
    for (int i = 0; s == OK && i < SETTINGS_N; i++) verify_setting(&p, &ps, i, lo, t);
    prompts_free(&ps);
    pair_close(&p);
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
