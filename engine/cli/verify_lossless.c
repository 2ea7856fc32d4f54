/* Speculation may change nothing but speed: plain steps give the reference ids, rounds must give the same ones. */
#include "engine/base/mem.h"
#include "engine/cli/progress.h"
#include "engine/cli/prompts.h"
#include "engine/cli/verify.h"

#include <stdlib.h>

/* n tokens behind the prompt with k proposals a round; fewer when the context ends. */
static int32_t decode(pair *p, const prompt *q, const pick_params *pick, int32_t k, int32_t n, int32_t *out,
                      int32_t *rounds) {
    steps *s = p->steps;
    int32_t room = p->ctx - (int32_t)q->ids.n, have = 1;
    if (n > room) n = room;
    out[0] = steps_prompt(s, pick, q->ids.ids, q->ids.n)->token[0];
    for (*rounds = 0; have < n; ++*rounds) {
        int32_t width = n - have - 1 < k ? n - have - 1 : k;
        const step_out *o = width > 0 ? steps_round(s, width) : steps_plain(s);
        for (int32_t i = 0; i < o->n; i++) out[have++] = o->token[i];
    }
    return have;
}

static const struct {
    const char *name;
    pick_params pick;
} SETTINGS[] = {
    { "greedy", { .top_p = 1.0f } },
    { "temperature 1, top-k 20, seed 1", { 1.0f, 1.0f, 0.0f, 20, 1 } },
    { "temperature 0.7, top-p 0.95, seed 2", { 0.7f, 0.95f, 0.0f, 0, 2 } },
    { "temperature 1.2, min-p 0.05, top-k 50, seed 3", { 1.2f, 1.0f, 0.05f, 50, 3 } },
};
enum { SETTINGS_N = sizeof SETTINGS / sizeof *SETTINGS, WIDTHS_N = 4 };

/* One setting over all prompts: plain once, then every width. */
static void verify_setting(pair *p, const prompt_set *ps, int setting, int32_t tokens, int lanes, tally *t) {
    static const int32_t WIDTHS[WIDTHS_N] = { 1, 3, 7, 15 };
    int32_t *plain = xalloc((size_t)(tokens + NODES_MAX) * sizeof *plain),
            *spec = xalloc((size_t)(tokens + NODES_MAX) * sizeof *spec);
    int64_t rounds[WIDTHS_N] = { 0 }, emitted = 0;
    bool broken[WIDTHS_N] = { false };
    for (size_t i = 0; i < ps->n; i++) {
        progress_show(SETTINGS[setting].name, (float)i / (float)ps->n);
        int32_t steps_taken, n = decode(p, &ps->at[i], &SETTINGS[setting].pick, 0, tokens, plain, &steps_taken);
        emitted += n - 1;
        for (int w = 0; w < WIDTHS_N; w++) {
            if (WIDTHS[w] >= p->draft.cfg.block_size || broken[w]) continue;
            int32_t r, m = decode(p, &ps->at[i], &SETTINGS[setting].pick, WIDTHS[w], tokens, spec, &r);
            rounds[w] += r;
            for (int32_t j = 0; j < n && j < m; j++) {
                if (spec[j] == plain[j]) continue;
                tally_line(t, false,
                           "%s, %d proposals, %d threads: prompt %zu differs at token %d: plain %d, speculative %d",
                           SETTINGS[setting].name, WIDTHS[w], lanes, i, j, plain[j], spec[j]);
                broken[w] = true;
                break;
            }
        }
    }
    progress_clear();
    for (int w = 0; w < WIDTHS_N; w++) {
        if (WIDTHS[w] >= p->draft.cfg.block_size)
            tally_skip(t, "%s, %d proposals: the draft's block has %d rows", SETTINGS[setting].name, WIDTHS[w],
                       p->draft.cfg.block_size);
        else if (!broken[w])
            tally_line(t, true, "%s, %d proposals, %d threads: %zu prompts, %lld tokens equal; %.2f tokens per step",
                       SETTINGS[setting].name, WIDTHS[w], lanes, ps->n, (long long)emitted,
                       (double)emitted / (double)rounds[w]);
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
    for (int i = 0; s == OK && i < SETTINGS_N; i++) verify_setting(&p, &ps, i, (int32_t)lo->tokens, p.lanes, t);
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
