/* What passes cost by rows and context, how speed follows the context, and what the controller itself takes. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/cli/bench_spec.h"
#include "engine/cli/progress.h"

#include <stdio.h>
#include <stdlib.h>

const int32_t spec_pass_rows[COST_PASSES] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 };
const int32_t spec_draft_rows[COST_DRAFTS] = { 1, 2, 4, 7, 11, 15 };

/* ---- passes ---- */

enum { COST_TIMES = 41, COST_SIZES = COST_PASSES + COST_DRAFTS };

/* ns of one pass behind ctx tokens: the rows are the text that follows, so that they choose experts as text does. */
static double time_pass(spec_bench *b, const int32_t *text, int32_t ctx, int32_t rows) {
    steps *s = b->pair.steps;
    steps_seek(s, ctx, text[ctx], ctx);
    const step_out *o = rows == 1 ? steps_plain(s) : steps_verify(s, text + ctx + 1, rows - 1);
    return (double)(o->stamp[3] - o->stamp[rows == 1 ? 0 : 1]);
}

/* ns of a draft block of `rows` proposals and of the one context row that the last token left behind. */
static double time_draft(spec_bench *b, const int32_t *text, int32_t ctx, int32_t rows) {
    steps_seek(b->pair.steps, ctx, text[ctx], ctx - 1);
    const step_out *o = steps_speculate(b->pair.steps, &(round_shape){ .depth = rows, .branch = 1 });
    return (double)step_draft_ns(o);
}

/* Which size is the k-th of turn i: as for settings, another begins each time and neighbours differ. */
static int size_at(int i, int k) {
    int step = 1 + i * 6 % COST_SIZES; /* odd, so that all sizes have their turn */
    return (i + k * step) % COST_SIZES;
}
_Static_assert(COST_SIZES == 16, "a power of two: odd steps reach every size");

/* Sizes take turns: what the machine does meanwhile hits all of them. */
static void run_cost(spec_bench *b, spec_cost *c, const int32_t *text) {
    samples t[COST_SIZES] = { 0 };
    steps_prompt(b->pair.steps, &b->pick, text, (size_t)c->ctx);
    steps_catch_up(b->pair.steps);
    for (int i = -1; i < COST_TIMES; i++) { /* -1 warms up */
        for (int k = 0; k < COST_SIZES; k++) {
            int at = size_at(i + 1, k), draft = at - COST_PASSES;
            if (draft >= 0 && (!b->pair.has_draft || spec_draft_rows[draft] >= b->pair.draft.cfg.block_size)) continue;
            double ns = draft >= 0 ? time_draft(b, text, c->ctx, spec_draft_rows[draft])
                                   : time_pass(b, text, c->ctx, spec_pass_rows[at]);
            if (i >= 0) samples_add(&t[at], ns);
        }
    }
    for (int at = 0; at < COST_SIZES; at++) {
        *(at < COST_PASSES ? &c->pass[at] : &c->draft[at - COST_PASSES]) = samples_median(&t[at]);
        samples_free(&t[at]);
    }
}

void spec_run_costs(spec_bench *b) {
    static const int32_t AT[COST_CONTEXTS] = { 64, 1024, 4000 };
    int32_t room = b->pair.ctx - 2 * NODES_MAX, before = 1;
    int32_t *text = xalloc((size_t)b->pair.ctx * sizeof *text);
    bench_text(&b->prompts, 0, text, b->pair.ctx);
    for (int i = 0; i < COST_CONTEXTS; i++) {
        int32_t ctx = AT[i] < room ? AT[i] : room;
        if (ctx <= before) break;
        progress_show("passes", (float)i / COST_CONTEXTS);
        b->cost[i].ctx = before = ctx;
        run_cost(b, &b->cost[i], text);
    }
    progress_clear();
    free(text);
}

/* ---- speed by context ---- */

enum { SPEED_TOKENS = 64, SPEED_PAIRS = 4 }; /* so many pairs per --repeat */

/* One pair behind text that begins with another prompt each time. */
static status run_speed(spec_bench *b, spec_speed *v, size_t turn, int32_t *text, err *e) {
    int32_t ids[2][SPEED_TOKENS + 1 + NODES_MAX];
    spec_answer a[2];
    bench_text(&b->prompts, turn * 7, text, v->ctx);
    for (size_t k = 0; k < 2; k++) {
        size_t is_auto = (k + turn) & 1;
        a[is_auto] = (spec_answer){
            .prompt = text, .n_prompt = v->ctx, .max_new = SPEED_TOKENS + 1, .ignore_end = true, .ids = ids[is_auto]
        };
        spec_decode(b, is_auto ? SET_AUTO : SET_PLAIN, &a[is_auto], NULL, NULL);
    }
    char what[48];
    snprintf(what, sizeof what, "text of %d tokens", v->ctx);
    TRY(spec_compare(what, &a[0], &a[1], SET_AUTO, e));
    samples_add(&v->plain, SPEED_TOKENS * 1e9 / (double)a[0].ns);
    samples_add(&v->adaptive, SPEED_TOKENS * 1e9 / (double)a[1].ns);
    samples_add(&v->ratio, (double)a[0].ns / (double)a[1].ns);
    return OK;
}

/* The contexts take turns too. */
status spec_run_speeds(spec_bench *b, err *e) {
    static const int32_t AT[SPEED_CONTEXTS] = { 64, 512, 1024, 2048, 3800 };
    size_t turns = (size_t)b->o->repeat * SPEED_PAIRS;
    int32_t *text = xalloc((size_t)b->pair.ctx * sizeof *text);
    status s = OK;
    for (size_t turn = 0; turn < turns && s == OK; turn++)
        for (int i = 0; i < SPEED_CONTEXTS && s == OK; i++) {
            if (AT[i] + SPEED_TOKENS + 1 > b->pair.ctx) continue;
            progress_show("contexts", (float)turn / (float)turns);
            b->speed[i].ctx = AT[i];
            s = run_speed(b, &b->speed[i], turn, text, e);
        }
    for (int i = 0; i < SPEED_CONTEXTS; i++) {
        samples_sort(&b->speed[i].plain);
        samples_sort(&b->speed[i].adaptive);
        samples_sort(&b->speed[i].ratio);
    }
    progress_clear();
    free(text);
    return s;
}

/* ---- the controller ---- */

enum { CONTROL_REPLAYS = 16 };

/* The recorded steps once more, without the steps: look up, choose, learn. State is as it was before the answer. */
static void replay(spec_bench *b, const spec_trace *t, const spec_answer *a, propose *p, spec_control *sum) {
    propose_begin(p, a->prompt, a->n_prompt, NULL, 0, b->pick.temperature >= 1e-5f);
    propose_emitted(p, a->ids, 1);
    int32_t at = 1;
    for (int32_t i = 0; i < t->n; i++) {
        const spec_step *r = &t->at[i];
        width_input in = r->in;
        width_choice choice;
        in.p = r->match.p;
        int64_t begin = clock_ns();
        lookup_propose(p->lookup, &p->match);
        int64_t looked_up = clock_ns();
        width_choose(p->width, &in, &choice);
        int64_t chosen = clock_ns();
        p->choice = r->choice, p->match = r->match; /* the outcome belongs to these */
        int64_t learning = clock_ns();
        propose_measured(p, &r->out, r->ns, r->now);
        int32_t n = r->out.n < a->n - at ? r->out.n : a->n - at;
        propose_emitted(p, a->ids + at, n);
        sum->look_up += (double)(looked_up - begin);
        sum->choose += (double)(chosen - looked_up);
        sum->learn += (double)(clock_ns() - learning);
        at += n;
    }
}

/* Of a prompt's answer with auto: the controller's times, and the steps' own. */
static int64_t control_of(spec_bench *b, const prompt *q, spec_trace *t, int32_t *ids, width *w, int64_t *rounds) {
    spec_answer a = { q->ids.ids, (int32_t)q->ids.n, b->max_new, b->o->ignore_eos, ids, 0, 0 };
    if (a.max_new > b->pair.ctx - a.n_prompt) a.max_new = b->pair.ctx - a.n_prompt;
    spec_player *pl = &b->player[SET_AUTO];
    width before = pl->width;
    t->n = 0;
    spec_decode(b, SET_AUTO, &a, NULL, t);
    for (int k = 0; k < CONTROL_REPLAYS; k++) {
        *w = before;
        propose p = {
            .text = b->pair.text, .width = w, .lookup = pl->lookup, .mode = SPEC_AUTO, .depth_max = DEPTH_MAX
        };
        replay(b, t, &a, &p, &b->control);
    }
    for (int32_t i = 0; i < t->n; i++) {
        if (!t->at[i].out.drafted) continue;
        b->control.round += (double)t->at[i].ns;
        ++*rounds;
    }
    return t->n;
}

void spec_run_control(spec_bench *b) {
    spec_control *c = &b->control;
    spec_trace t = { xalloc((size_t)b->max_new * sizeof *t.at), 0, b->max_new };
    int32_t *ids = xalloc((size_t)(b->max_new + NODES_MAX) * sizeof *ids);
    width *w = xalloc(sizeof *w);
    int64_t steps = 0, rounds = 0, plain = 0, plain_steps = 0;
    for (int k = 0; k < b->n_classes; k++) {
        size_t i = 0;
        while (strcmp(b->prompts.at[i].class, b->class[k].name) != 0) i++;
        steps += control_of(b, &b->prompts.at[i], &t, ids, w, &rounds);
        plain += b->class[k].sum[SET_PLAIN].draft_ns + b->class[k].sum[SET_PLAIN].verify_ns +
                 b->class[k].sum[SET_PLAIN].rest_ns;
        plain_steps += b->class[k].sum[SET_PLAIN].steps;
    }
    double n = steps ? (double)steps * CONTROL_REPLAYS : 1.0;
    c->look_up /= n, c->choose /= n, c->learn /= n;
    c->step = plain_steps ? (double)plain / (double)plain_steps : 0.0;
    c->round = rounds ? c->round / (double)rounds : 0.0;
    free(t.at);
    free(ids);
    free(w);
}
