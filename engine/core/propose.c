#include "engine/core/propose.h"

#include "engine/base/clock.h"
#include "engine/base/num.h"

#include <math.h>

const char *spec_reason_name(spec_reason r) {
    static const char *const NAME[SPEC_REASONS] = { "fixed", "plain", "draft", "lookup", "probe", "clock" };
    return NAME[r];
}

void propose_begin(propose *p, const int32_t *prompt, int32_t n, const int32_t *prediction, int32_t n_prediction,
                   bool sampled) {
    width_begin(p->width, sampled);
    if (!p->lookup) return;
    lookup_begin(p->lookup, prompt, n);
    lookup_set_prediction(p->lookup, prediction, n_prediction);
}

void propose_emitted(propose *p, const int32_t *tokens, int32_t n) {
    if (p->lookup) lookup_add(p->lookup, tokens, n);
}

/* What the look-up offers, cut at the limit and at an end of turn in the old text. */
static void look_up(propose *p, int32_t depth) {
    lookup_match *m = &p->match;
    m->n = 0;
    if (!p->lookup || depth == 0) return;
    lookup_propose(p->lookup, m);
    p->first = m->n ? m->p[0] : 0.0f;
    float trust = p->mode == SPEC_AUTO ? width_trust_in(p->width, p->first) : 1.0f;
    for (int32_t i = 0; i < m->n; i++) m->p[i] *= trust;
    int32_t n = min_i32(m->n, depth);
    for (m->n = 0; m->n < n && m->p[m->n] >= p->min_p && !text_is_end(p->text, m->token[m->n]); m->n++) {}
}

/* The width that was asked for, whatever it costs: both proposers fill it, most probable first. */
static void choose_fixed(const propose *p, int32_t depth, width_choice *c) {
    *c = (width_choice){ .draft = p->drafting ? depth : 0, .given = p->match.n, .why = SPEC_WHY_FIXED };
    int32_t most = p->tree_max ? p->tree_max : depth;
    c->nodes = c->draft ? most : min_i32(c->given, most);
}

static void choose(propose *p, int32_t depth) {
    p->choice = (width_choice){ .why = SPEC_WHY_PLAIN };
    if (depth == 0 || p->min_p >= 1.0f) return; /* nothing is ever certain */
    if (p->mode == SPEC_FIXED) {
        choose_fixed(p, depth, &p->choice);
        return;
    }
    width_input in = { .ctx = steps_len(p->steps),
                       .depth = depth,
                       .nodes = p->tree_max ? p->tree_max : depth,
                       .lag = steps_lag(p->steps),
                       .p = p->match.p,
                       .n = p->match.n };
    width_choose(p->width, &in, &p->choice);
}

const step_out *propose_step(propose *p, int32_t wanted) {
    int32_t depth = min_i32(wanted, p->depth_max);
    look_up(p, depth);
    choose(p, depth);
    const width_choice *c = &p->choice;
    p->caught_up_ns = 0;
    if (c->nodes == 0) return steps_plain(p->steps);
    if (c->draft && steps_lag(p->steps) > NODES_MAX / 2) {
        p->caught_up_ns = -clock_ns();
        steps_catch_up(p->steps);
        p->caught_up_ns += clock_ns();
    }
    bool clocked = c->why != SPEC_WHY_FIXED;
    for (int32_t i = 0; i < c->given; i++) p->chain[i] = logf(p->match.p[i]);
    return steps_speculate(p->steps, &(round_shape){ .depth = c->draft,
                                                     .branch = p->tree_max ? TREE_WIDTH : 1,
                                                     .nodes = c->nodes,
                                                     .nodes_min = c->nodes_min,
                                                     .given = p->match.token,
                                                     .given_logp = p->chain,
                                                     .n_given = c->given,
                                                     .cost = clocked ? p->width->cost : NULL,
                                                     .conf = clocked ? p->width->conf : NULL,
                                                     .min_p = p->min_p });
}

/* The looked-up chain's own part of the tree: nodes verified, and of these accepted. */
static void count_nodes(propose *p, const step_out *o, int32_t *verified, int32_t *right) {
    *verified = *right = 0;
    gen_totals *t = &p->totals;
    for (int32_t i = 1; i <= o->drafted; i++) {
        t->draft_drafted += (o->note[i].source & NODE_DRAFT) != 0;
        *verified += (o->note[i].source & NODE_GIVEN) != 0;
    }
    for (int32_t j = 1; j <= o->accepted; j++) {
        t->draft_accepted += (o->note[o->path[j]].source & NODE_DRAFT) != 0;
        *right += (o->note[o->path[j]].source & NODE_GIVEN) != 0;
    }
    t->lookup_drafted += *verified;
    t->lookup_accepted += *right;
}

void propose_measured(propose *p, const step_out *o, int64_t ns, int64_t now) {
    int32_t verified, right;
    p->totals.by_reason[p->choice.why]++;
    p->totals.by_rows[o->rows]++;
    count_nodes(p, o, &verified, &right);
    if (verified) lookup_feedback(p->lookup, &p->match, verified, right);
    if (p->depth_max == 0) return;
    if (p->match.n) width_copied(p->width, p->first, verified > 0, right > 0);
    width_time t = { .catch_up = p->caught_up_ns, .draft = step_draft_ns(o), .now = now };
    t.rest = ns - t.catch_up - t.draft;
    width_measured(p->width, o->base - o->n, &p->choice, o, &t);
}

void propose_totals(const propose *p, gen_totals *t) {
    t->draft_drafted = p->totals.draft_drafted, t->draft_accepted = p->totals.draft_accepted;
    t->lookup_drafted = p->totals.lookup_drafted, t->lookup_accepted = p->totals.lookup_accepted;
    memcpy(t->by_reason, p->totals.by_reason, sizeof t->by_reason);
    memcpy(t->by_rows, p->totals.by_rows, sizeof t->by_rows);
}

_Static_assert((int)SPEC_POSITIONS == (int)NODES_MAX, "rows of a pass");
