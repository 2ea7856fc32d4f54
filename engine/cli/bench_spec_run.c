/* One answer with one setting, decoded as the engine does it (engine/core/generate.c), without mailbox and texts. */
#include "engine/cli/bench_spec.h"

#include "engine/base/clock.h"
#include "engine/base/num.h"
#include "engine/core/calibrate.h"

const spec_setting spec_settings[SPEC_SETTINGS] = {
    [SET_PLAIN] = { "plain", SPEC_OFF, 0, 0, false, false },
    [SET_CHAINS] = { "chain 1", SPEC_FIXED, 1, 0, true, false },
    [SET_CHAINS + 1] = { "chain 2", SPEC_FIXED, 2, 0, true, false },
    [SET_CHAINS + 2] = { "chain 3", SPEC_FIXED, 3, 0, true, false },
    [SET_CHAINS + 3] = { "chain 5", SPEC_FIXED, 5, 0, true, false },
    [SET_CHAIN_7] = { "chain 7", SPEC_FIXED, 7, 0, true, false },
    [SET_CHAINS + 5] = { "chain 11", SPEC_FIXED, 11, 0, true, false },
    [SET_CHAIN_15] = { "chain 15", SPEC_FIXED, 15, 0, true, false },
    [SET_TREE_7] = { "tree 7", SPEC_FIXED, 7, 7, true, false },
    [SET_TREE_15] = { "tree 15", SPEC_FIXED, 15, 15, true, false },
    [SET_LOOKUP] = { "auto lookup", SPEC_AUTO, 0, 0, false, true },
    [SET_AUTO_DRAFT] = { "auto dflash", SPEC_AUTO, 0, 0, true, false },
    [SET_AUTO] = { "auto", SPEC_AUTO, 0, 0, true, true },
};

static int32_t draft_most(const spec_bench *b) { return b->pair.has_draft ? b->pair.draft.cfg.block_size - 1 : 0; }

/* ---- standing state ---- */

/* Without a draft the settings that need one are left out; auto looks up. */
static status open_player(spec_bench *b, int setting, err *e) {
    const spec_setting *set = &spec_settings[setting];
    spec_player *pl = &b->player[setting];
    int32_t most = draft_most(b);
    pl->on = !set->drafting || (set->looking ? true : set->depth <= most && most > 0);
    if (!pl->on) return OK;
    if (set->looking) {
        lookup_options lo = { .timeline_max = b->pair.ctx + 1, .prediction_max = 0, .min_match = LOOKUP_MIN_MATCH };
        TRY(lookup_new(&pl->lookup, &lo, e));
    }
    width_init(&pl->width, set->drafting ? most : 0);
    if (set->mode == SPEC_AUTO) calibrate(&b->pair, &pl->width);
    return OK;
}

status spec_players_open(spec_bench *b, err *e) {
    for (int s = 0; s < SPEC_SETTINGS; s++) TRY(open_player(b, s, e));
    return OK;
}

void spec_players_close(spec_bench *b) {
    for (int s = 0; s < SPEC_SETTINGS; s++) lookup_free(b->player[s].lookup);
}

/* ---- decoding ---- */

static propose start(spec_bench *b, int setting) {
    const spec_setting *set = &spec_settings[setting];
    spec_player *pl = &b->player[setting];
    int32_t most = draft_most(b);
    propose p = { .steps = b->pair.steps,
                  .text = b->pair.text,
                  .width = &pl->width,
                  .lookup = pl->lookup,
                  .drafting = set->drafting && most > 0,
                  .mode = set->mode,
                  .depth_max = set->depth,
                  .tree_max = set->tree };
    if (set->mode != SPEC_AUTO) return p;
    p.depth_max = p.drafting ? most : LOOKUP_DEPTH;
    p.tree_max = NODES_MAX - 1;
    return p;
}

static void count(spec_sum *sum, const propose *p, const step_out *o, int32_t kept, int64_t ns) {
    int64_t inside = o->draft_depth ? step_draft_ns(o) : 0, draft = p->caught_up_ns + inside,
            verify = o->stamp[2] - o->stamp[0] - inside;
    sum->steps++;
    sum->tokens += kept;
    sum->rows += o->rows;
    sum->draft_ns += draft;
    sum->verify_ns += verify;
    sum->rest_ns += ns - draft - verify;
    sum->outside_ns += ns - p->caught_up_ns - (o->stamp[3] - o->stamp[0]);
}

static void count_totals(spec_sum *sum, const propose *p) {
    gen_totals t = { 0 };
    propose_totals(p, &t);
    for (int i = 0; i < SPEC_REASONS; i++) sum->by_reason[i] += t.by_reason[i];
    for (int i = 0; i <= SPEC_POSITIONS; i++) sum->by_rows[i] += t.by_rows[i];
    sum->draft_drafted += t.draft_drafted, sum->draft_accepted += t.draft_accepted;
    sum->lookup_drafted += t.lookup_drafted, sum->lookup_accepted += t.lookup_accepted;
}

/* Appends the tokens of a step up to the end of the answer; true: it goes on. */
static bool keep(const spec_bench *b, spec_answer *a, const step_out *o, int32_t *kept) {
    bool ended = false;
    for (*kept = 0; *kept < o->n && !ended && a->n < a->max_new; ++*kept) {
        a->ids[a->n++] = o->token[*kept];
        ended = !a->ignore_end && text_is_end(b->pair.text, o->token[*kept]);
    }
    return !ended && a->n < a->max_new;
}

void spec_decode(spec_bench *b, int setting, spec_answer *a, spec_sum *sum, spec_trace *t) {
    propose p = start(b, setting);
    steps *s = b->pair.steps;
    int32_t kept;
    propose_begin(&p, a->prompt, a->n_prompt, NULL, 0, b->pick.temperature >= 1e-5f);
    a->n = 0, a->ns = 0;
    bool goes_on = keep(b, a, steps_prompt(s, &b->pick, a->prompt, (size_t)a->n_prompt), &kept);
    steps_catch_up(s); /* for all settings alike: an engine that keeps prefixes does it then, too */
    propose_emitted(&p, a->ids, kept);
    int64_t begin = clock_ns(), mark = begin;
    while (goes_on) {
        int32_t wanted = a->max_new - a->n - 1;
        width_input in = { .ctx = steps_len(s), .depth = min_i32(wanted, p.depth_max), .lag = steps_lag(s) };
        const step_out *o = propose_step(&p, wanted);
        int64_t now = clock_ns(), ns = now - mark;
        mark = now;
        goes_on = keep(b, a, o, &kept);
        if (sum) count(sum, &p, o, kept, ns);
        if (t && t->n < t->cap) {
            in.nodes = p.tree_max, in.n = p.match.n;
            t->at[t->n++] = (spec_step){ in, p.choice, p.match, *o, ns, now };
        }
        propose_measured(&p, o, ns, now);
        propose_emitted(&p, o->token, kept);
    }
    a->ns = mark - begin;
    if (sum) count_totals(sum, &p);
}

status spec_compare(const char *what, const spec_answer *plain, const spec_answer *other, int setting, err *e) {
    const char *name = spec_settings[setting].name;
    int32_t at = 0, n = min_i32(plain->n, other->n);
    while (at < n && plain->ids[at] == other->ids[at]) at++;
    if (at < n)
        return err_set(e, ERR_FAULT, "%s, %s: token %d is %d, with plain steps %d", what, name, at, other->ids[at],
                       plain->ids[at]);
    if (plain->n != other->n)
        return err_set(e, ERR_FAULT, "%s, %s: the answer ends after %d tokens, with plain steps after %d", what, name,
                       other->n, plain->n);
    return OK;
}
