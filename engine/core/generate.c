/* The host's side of decoding. A round is propose, verify, accept, commit, emit. What a round computes
 * lies in the recorded step; here only counts and tokens are handled. */
#include "engine/core/generate.h"

#include "engine/base/clock.h"
#include "engine/base/num.h"
#include "engine/core/constraint.h"
#include "engine/core/pair.h"
#include "engine/core/propose.h"
#include "engine/core/reply.h"
#include "engine/core/turn.h"

#include <math.h>

typedef struct run {
    const generate_env *env;
    const taken_request *tr;
    reply *reply;
    parts text;
    gen_totals totals;
    propose propose;
    turn turn;
    constraint *constraint; /* NULL: the answer is free */
    int32_t max_new;
    int32_t anchor;                         /* last token that was chosen; it has no keys and values yet */
    token_logprobs logprobs[DEPTH_MAX + 1]; /* of the step's tokens, when the request asks */
    bool ended, failed;                     /* failed: the device is gone, nothing of the last step means anything */
    gen_done why;
    int64_t mark; /* end of the last step or event: where the next interval starts */
} run;

static gen_event event(const run *r, gen_event_kind kind) {
    return (gen_event){ .kind = kind, .id = r->tr->id, .user = r->tr->rq.user };
}

static void post_one(const run *r, const gen_event *ev) {
    mailbox_post_begin(r->env->box);
    mailbox_post(r->env->box, ev);
    mailbox_post_end(r->env->box);
}

static void end(run *r, gen_done why) {
    r->ended = true;
    r->why = why;
}

/* Whether the step that just ran did not. */
static bool is_lost(run *r) {
    if (steps_status(r->env->steps, NULL) == OK) return false;
    r->ended = r->failed = true;
    return true;
}

static void post_parts(run *r) {
    for (size_t i = 0; i < r->text.n; i++) {
        gen_event ev = event(r, r->text.list[i].kind);
        ev.text = parts_text(&r->text, i);
        ev.u.call.complete = r->text.list[i].complete;
        mailbox_post(r->env->box, &ev);
    }
    parts_clear(&r->text);
}

/* Posts the texts of one step, then its round record: one burst for the client. */
static void post_step(run *r, const int32_t *tokens, int32_t n, const step_out *out, int64_t ns) {
    mailbox *box = r->env->box;
    mailbox_post_begin(box);
    post_parts(r);
    gen_event ev = event(r, GEN_ROUND);
    ev.u.round.tokens = tokens;
    ev.u.round.logprobs = r->tr->rq.logprobs >= 0 ? r->logprobs : NULL;
    ev.u.round.n = n;
    ev.u.round.rows = out->rows;
    ev.u.round.drafted = out->drafted;
    ev.u.round.accepted = out->accepted;
    ev.u.round.micros = (int32_t)(ns / 1000);
    mailbox_post(box, &ev);
    mailbox_post_end(box);
}

static token_logprobs logprobs_of(const pick_logprobs *p, bool in_content) {
    token_logprobs l = { .in_content = in_content, .logprob = p->own, .n_top = p->n };
    for (int32_t i = 0; i < p->n; i++) l.top[i].token = p->id[i], l.top[i].logprob = p->logp[i];
    return l;
}

/* Walks through the tokens of one step in order; the first that ends the answer ends it, what follows is dropped.
 * Returns how many were kept. */
static int32_t emit(run *r, const step_out *out, int64_t ns) {
    int32_t kept = 0;
    while (kept < out->n && !r->ended) {
        int32_t token = out->token[kept++];
        r->totals.generated++;
        switch (reply_push(r->reply, token, &r->text)) {
        case REPLY_ENDED:
            r->totals.end_token = token;
            end(r, DONE_END);
            break;
        case REPLY_STOPPED: end(r, DONE_STOP); break;
        case REPLY_CALLED: end(r, DONE_CALL); break;
        case REPLY_GOES_ON:
            if (r->totals.generated >= r->max_new) end(r, DONE_LENGTH);
            break;
        }
        if (r->tr->rq.logprobs >= 0)
            r->logprobs[kept - 1] = logprobs_of(&out->logprobs[kept - 1], reply_was_content(r->reply));
    }
    if (r->ended && r->why == DONE_LENGTH) reply_finish(r->reply, true, &r->text);
    if (r->constraint) constraint_emitted(r->constraint, out->token, kept);
    post_step(r, out->token, kept, out, ns);
    return kept;
}

/* Prompt in chunks behind what is known of it; the first token is chosen with the last chunk and leaves alone, before
 * any drafting. */
static void prefill(run *r) {
    while (!mailbox_cancelled(r->env->box)) {
        const step_out *out = turn_prefill(&r->turn, r->env->prefill_chunk);
        if (is_lost(r)) return;
        if (out->n) {
            int64_t now = clock_ns();
            r->totals.prefill_ns = now - r->mark;
            propose_emitted(&r->propose, out->token, emit(r, out, r->totals.prefill_ns));
            r->mark = now;
            return;
        }
        gen_event ev = event(r, GEN_PREFILL);
        ev.u.prefill.done = r->turn.done, ev.u.prefill.total = r->turn.n;
        post_one(r, &ev);
    }
    end(r, DONE_CANCELLED);
}

static void count(run *r, const step_out *out, int64_t ns) {
    gen_totals *t = &r->totals;
    t->steps++;
    t->decode_ns += ns;
    int64_t propose = step_draft_ns(out), verify = out->stamp[2] - out->stamp[0] - propose;
    t->draft_ns += propose;
    t->verify_ns += verify;
    t->rest_ns += ns - propose - verify;
    if (out->drafted == 0) return;
    t->rounds++;
    t->drafted += out->drafted;
    t->accepted += out->accepted;
    for (int32_t i = 0; i < out->accepted && i < SPEC_POSITIONS; i++) t->accepted_at[i]++;
    if (out->accepted < SPEC_POSITIONS) t->by_length[out->accepted]++;
}

static void decode(run *r) {
    while (!r->ended) {
        if (mailbox_cancelled(r->env->box)) {
            end(r, DONE_CANCELLED);
            return;
        }
        /* no proposal stands behind the last token that is still wanted */
        const step_out *out = turn_round(&r->turn, &r->propose, r->max_new - r->totals.generated - 1);
        if (is_lost(r)) return;
        int64_t now = clock_ns(), ns = now - r->mark;
        r->mark = now;
        count(r, out, ns);
        propose_measured(&r->propose, out, ns, now);
        propose_emitted(&r->propose, out->token, emit(r, out, ns));
    }
}

/* What was held back, and the end of an open call: the arguments of a call are an object however the answer ends. */
static void finish_cancelled(run *r) {
    reply_finish(r->reply, true, &r->text);
    mailbox_post_begin(r->env->box);
    post_parts(r);
    mailbox_post_end(r->env->box);
}

_Static_assert((int)LOGPROBS_MAX == (int)PICK_TOP_MAX && (int)BIAS_MAX == (int)PICK_BIAS_MAX,
               "what may be asked for can be done");

/* What forbids tokens is part of the masks when there is a grammar: one that it allows must be left. */
static void set_pick(const run *r) {
    const gen_request *rq = &r->tr->rq;
    pick_params pick = pair_pick_params(&rq->pick);
    if (!rq->reply.ignore_end && !rq->grammar)
        pick.end_from = (int32_t)rq->n_tokens + min_i32(rq->pick.min_new, r->max_new);
    steps_set_pick(r->env->steps, &pick);
    steps_set_logprobs(r->env->steps, rq->logprobs);
    for (int32_t i = 0; i < rq->pick.n_bias; i++) {
        const token_bias *b = &rq->pick.bias[i];
        if (!rq->grammar || b->bias != -INFINITY) pick_lists_add_bias(steps_lists(r->env->steps), b->token, b->bias);
    }
}

void generate_refuse(const generate_env *env, const taken_request *tr) {
    err why = { 0 };
    run r = { .env = env, .tr = tr };
    gen_event failed = event(&r, GEN_FAILED);
    failed.u.fail.code = steps_status(env->steps, &why);
    failed.text = str_of(why.text);
    post_one(&r, &failed);
}

static void constrain(run *r, generate_env *env) {
    const gen_request *rq = &r->tr->rq;
    if (!constraint_is_wanted(rq)) return;
    if (!env->trie) env->trie = token_trie_of_model(env->text);
    r->constraint = constraint_new(env->trie, env->text, rq);
    steps_set_mask(env->steps, constraint_fill, r->constraint);
}

void generate(generate_env *env, const taken_request *tr) {
    const gen_request *rq = &tr->rq;
    run r = { .env = env, .tr = tr, .mark = clock_ns() };
    r.totals = (gen_totals){ .prompt = (int32_t)rq->n_tokens, .end_token = -1, .stop_index = -1 };
    r.totals.queue_ns = r.mark - tr->submitted_ns;
    r.max_new = min_i32(rq->max_new, env->ctx - (int32_t)rq->n_tokens);
    r.propose = (propose){ .steps = env->steps,
                           .text = env->text,
                           .drafting = env->drafting,
                           .width = env->width,
                           .lookup = env->lookup,
                           .mode = rq->spec.mode,
                           .depth_max = rq->spec.mode == SPEC_OFF ? 0 : rq->spec.tokens,
                           .tree_max = rq->spec.tree,
                           .min_p = rq->spec.min_p };
    propose_begin(&r.propose, rq->tokens, (int32_t)rq->n_tokens, rq->prediction, (int32_t)rq->n_prediction,
                  rq->pick.temperature >= 1e-5f);
    reply_options how = rq->reply;
    if (rq->grammar) how.ignore_end = false; /* behind a complete text there is nothing but an end token */
    r.reply = reply_new(env->text, &how);
    r.turn = (turn){ .steps = env->steps, .timelines = env->timelines };
    set_pick(&r);
    constrain(&r, env);
    r.totals.cached = turn_begin(&r.turn, rq->tokens, (int32_t)rq->n_tokens, !rq->no_cache);
    gen_event started = event(&r, GEN_STARTED);
    started.u.started.cached = r.totals.cached;
    post_one(&r, &started);
    prefill(&r);
    if (!r.ended) timelines_mark(env->timelines); /* an answer may be asked for again */
    decode(&r);
    if (r.why == DONE_CANCELLED) finish_cancelled(&r);
    propose_totals(&r.propose, &r.totals);
    r.totals.reasoning = reply_reasoning_tokens(r.reply);
    if (r.constraint) r.totals.mask_ns = constraint_ns(r.constraint);
    r.totals.stop_index = r.why == DONE_STOP ? reply_stop_index(r.reply) : -1;
    if (r.failed) {
        generate_refuse(env, tr);
    } else {
        gen_event done = event(&r, GEN_DONE);
        done.u.end.why = r.why;
        done.u.end.totals = &r.totals;
        post_one(&r, &done);
    }
    turn_end(&r.turn, r.totals.generated);
    steps_set_mask(env->steps, NULL, NULL);
    constraint_free(r.constraint);
    reply_free(r.reply);
    parts_free(&r.text);
}
