#include "tests/e2e/script_engine.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/core/constraint.h"
#include "engine/core/mailbox.h"
#include "engine/core/reply.h"
#include "engine/load/source.h"
#include "engine/text/text.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { VOCAB = 1 << 20, LOAD_STEPS = 10, SPEC_WIDTH = 7 };

struct engine {
    script_options opt;
    source *src;
    text_model *text;
    token_trie *trie; /* made for the first answer that must have a form */
    engine_facts facts;
    thread *thread;
    mailbox *box;
    _Atomic bool closing;
    _Atomic int state, permille;
};

/* ------------------------------------------------------------------------------- scripts */

typedef struct script {
    int64_t prefill_ms, chunks, step_ms, times, fail_at; /* fail_at -1: never, 0: prefill */
    str think, say;
    bool no_end;
} script;

static int64_t number(str s) {
    int64_t v = 0;
    for (size_t i = 0; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) v = v * 10 + s.p[i] - '0';
    return v;
}

static void read_word(script *s, str w) {
    const char *eq = memchr(w.p, '=', w.n);
    if (!eq) return;
    str key = { w.p, (size_t)(eq - w.p) }, v = str_from(w, key.n + 1);
    if (str_eq(key, STR("prefill")))
        s->prefill_ms = number(v);
    else if (str_eq(key, STR("chunks")))
        s->chunks = number(v);
    else if (str_eq(key, STR("step")))
        s->step_ms = number(v);
    else if (str_eq(key, STR("times")))
        s->times = number(v);
    else if (str_eq(key, STR("think")))
        s->think = v;
    else if (str_eq(key, STR("say")))
        s->say = v;
    else if (str_eq(key, STR("end")))
        s->no_end = true;
    else if (str_eq(key, STR("fail")))
        s->fail_at = str_eq(v, STR("prefill")) ? 0 : number(v);
}

/* Views into prompt. */
static script read_script(str prompt) {
    script s = { .chunks = 1, .times = 1, .fail_at = -1, .think = STR("Let_me|_think."), .say = STR("Hello|_there|.") };
    const char *at = NULL;
    for (str rest = prompt; rest.n >= 2;) {
        const char *p = memmem(rest.p, rest.n, "[[", 2);
        if (!p) break;
        at = p;
        rest = str_from(rest, (size_t)(p - rest.p) + 2);
    }
    if (!at) return s;
    str body = str_from(prompt, (size_t)(at - prompt.p) + 2);
    const char *close = memmem(body.p, body.n, "]]", 2);
    if (close) body.n = (size_t)(close - body.p);
    while (body.n) {
        const char *blank = memchr(body.p, ' ', body.n);
        size_t n = blank ? (size_t)(blank - body.p) : body.n;
        read_word(&s, (str){ body.p, n });
        body = str_from(body, blank ? n + 1 : n);
    }
    return s;
}

/* ---------------------------------------------------------------------------- generation */

typedef struct run {
    engine *en;
    const taken_request *tr;
    script s;
    reply *reply;
    constraint *form; /* that the answer should have; NULL: any */
    parts text;       /* of the open round */
    buf logprobs;     /* token_logprobs of its tokens */
    gen_totals t;
    int round;
    int32_t max_new, width;
    bool thinks; /* the prompt opens a think block */
    bool full;   /* max_new reached */
    reply_state state;
} run;

static void sleep_ms(int64_t ms) {
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
}

/* False: cancelled. */
static bool pause_ms(const run *r, int64_t ms) {
    int64_t until = clock_ns() + ms * 1000000;
    while (!mailbox_cancelled(r->en->box)) {
        int64_t left = (until - clock_ns() + 999999) / 1000000;
        if (left <= 0) return true;
        sleep_ms(left < 5 ? left : 5);
    }
    return false;
}

static gen_event event(const run *r, gen_event_kind kind) {
    return (gen_event){ .kind = kind, .id = r->tr->id, .user = r->tr->rq.user, .text = STR("") };
}

static void post(const run *r, gen_event ev) {
    mailbox_post_begin(r->en->box);
    mailbox_post(r->en->box, &ev);
    mailbox_post_end(r->en->box);
}

/* Made up from the id: a sixteenth of id mod 64 below zero for the token itself, one less for every alternative. */
static token_logprobs logprobs_of(const run *r, int32_t id) {
    token_logprobs l = { .in_content = reply_was_content(r->reply),
                         .logprob = (float)(id % 64) / -16.0f,
                         .n_top = r->tr->rq.logprobs };
    for (int32_t k = 0; k < l.n_top; k++) {
        l.top[k].token = (id + k) % text_vocab(r->en->text);
        l.top[k].logprob = l.logprob - (float)k;
    }
    return l;
}

/* Texts and the record of a round leave together. */
static void post_round(run *r, const token_list *ids, int32_t n, int32_t drafted, int32_t accepted) {
    gen_event round = event(r, GEN_ROUND);
    round.u.round.tokens = ids->ids;
    if (r->tr->rq.logprobs >= 0) round.u.round.logprobs = (const token_logprobs *)(const void *)r->logprobs.data;
    round.u.round.n = n;
    round.u.round.rows = drafted + 1;
    round.u.round.drafted = drafted;
    round.u.round.accepted = accepted;
    round.u.round.micros = (int32_t)(r->s.step_ms * 1000 + 100);
    mailbox_post_begin(r->en->box);
    for (size_t i = 0; i < r->text.n; i++) {
        gen_event ev = event(r, r->text.list[i].kind);
        ev.text = parts_text(&r->text, i);
        ev.u.call.complete = r->text.list[i].complete;
        mailbox_post(r->en->box, &ev);
    }
    mailbox_post(r->en->box, &round);
    mailbox_post_end(r->en->box);
    parts_clear(&r->text);
    buf_clear(&r->logprobs);
}

static void count_step(run *r, int32_t drafted, int32_t accepted) {
    r->t.steps++;
    r->t.rounds += drafted > 0;
    r->t.drafted += drafted;
    r->t.accepted += accepted;
    for (int32_t i = 0; i < accepted && i < SPEC_POSITIONS; i++) r->t.accepted_at[i]++;
}

/* One round: these tokens as far as limit, stops and end tokens let them through. */
static void play_tokens(run *r, const token_list *ids) {
    int32_t n = 0;
    while ((size_t)n < ids->n && r->state == REPLY_GOES_ON && !r->full) {
        r->state = reply_push(r->reply, ids->ids[n], &r->text);
        if (r->form) constraint_emitted(r->form, &ids->ids[n], 1);
        if (r->state == REPLY_ENDED) r->t.end_token = ids->ids[n];
        token_logprobs l = logprobs_of(r, ids->ids[n]);
        buf_put(&r->logprobs, &l, sizeof l);
        n++;
        r->full = ++r->t.generated >= r->max_new;
    }
    if (r->full && r->state == REPLY_GOES_ON) reply_finish(r->reply, true, &r->text);
    int32_t drafted = r->round == 1 ? 0 : r->width, accepted = drafted && n > 1 ? n - 1 : 0;
    if (accepted > drafted) drafted = accepted;
    if (r->round > 1) count_step(r, drafted, accepted);
    post_round(r, ids, n, drafted, accepted);
}

static unsigned char hex_byte(str s, size_t at) {
    unsigned v = 0;
    for (size_t i = at; i < at + 2 && i < s.n; i++)
        v = v * 16 + (unsigned)(s.p[i] <= '9' ? s.p[i] - '0' : (s.p[i] | 32) - 'a' + 10);
    return (unsigned char)v;
}

/* False: cancelled or failed. */
static bool play_round(run *r, str piece, str before) {
    buf text = { 0 };
    token_list ids = { 0 };
    r->round++;
    if (r->round > 1 && !pause_ms(r, r->s.step_ms)) return false;
    if (r->round == r->s.fail_at) return false;
    buf_str(&text, before);
    for (size_t i = 0; i < piece.n; i++) {
        if (piece.p[i] == '~') {
            buf_str(&text, STR("</think>"));
        } else if (piece.p[i] == '%') {
            buf_byte(&text, (char)hex_byte(piece, i + 1));
            i += 2;
        } else {
            buf_byte(&text, piece.p[i] == '_' ? ' ' : piece.p[i]);
        }
    }
    CHECK(text_encode(r->en->text, buf_view(&text), true, &ids, NULL) == OK);
    play_tokens(r, &ids);
    token_list_free(&ids);
    buf_free(&text);
    return true;
}

static bool is_done(const run *r) { return r->state != REPLY_GOES_ON || r->full; }

static bool play_pieces(run *r, str pieces, str before) {
    while (pieces.n && !is_done(r)) {
        const char *bar = memchr(pieces.p, '|', pieces.n);
        size_t n = bar ? (size_t)(bar - pieces.p) : pieces.n;
        if (!play_round(r, (str){ pieces.p, n }, before)) return false;
        before = STR("");
        pieces = str_from(pieces, bar ? n + 1 : n);
    }
    return true;
}

static bool play_prefill(run *r) {
    int64_t chunks = r->s.chunks > 0 ? r->s.chunks : 1;
    int32_t total = (int32_t)r->tr->rq.n_tokens;
    for (int64_t i = 1; i <= chunks; i++) {
        if (!pause_ms(r, r->s.prefill_ms / chunks)) return false;
        if (i == chunks) break;
        gen_event ev = event(r, GEN_PREFILL);
        ev.u.prefill.done = (int32_t)(total * i / chunks);
        ev.u.prefill.total = total;
        post(r, ev);
    }
    return r->s.fail_at != 0;
}

static bool play_answer(run *r) {
    bool thinks = r->thinks;
    bool closes = r->s.think.n && memchr(r->s.think.p, '~', r->s.think.n);
    if (thinks && !play_pieces(r, r->s.think, STR(""))) return false;
    for (int64_t i = 0; i < r->s.times && !is_done(r); i++)
        if (!play_pieces(r, r->s.say, i == 0 && thinks && !closes ? STR("</think>") : STR(""))) return false;
    if (!is_done(r) && !r->s.no_end) return play_round(r, STR("</assistant>"), STR(""));
    return true;
}

static void post_end(run *r, bool played) {
    gen_event ev = event(r, GEN_DONE);
    ev.u.end.why = DONE_LENGTH;
    ev.u.end.totals = &r->t;
    if (mailbox_cancelled(r->en->box))
        ev.u.end.why = DONE_CANCELLED;
    else if (r->state != REPLY_GOES_ON)
        ev.u.end.why = r->state == REPLY_ENDED ? DONE_END : r->state == REPLY_CALLED ? DONE_CALL : DONE_STOP;
    if (!played && ev.u.end.why != DONE_CANCELLED) {
        ev = event(r, GEN_FAILED);
        ev.text = STR("the script says: fail");
        ev.u.fail.code = ERR_FAULT;
    }
    const char *form = !r->form ? "" : constraint_is_complete(r->form) ? ", form kept" : ", form not kept";
    log_info("script", "done %llu %s, %d tokens%s", (unsigned long long)r->tr->id,
             ev.kind == GEN_FAILED            ? "failed"
             : ev.u.end.why == DONE_CANCELLED ? "cancelled"
                                              : "finished",
             r->t.generated, form);
    post(r, ev);
}

static constraint *form_of(engine *en, const gen_request *rq) {
    if (!en->trie) en->trie = token_trie_of_model(en->text);
    return constraint_new(en->trie, en->text, rq);
}

static void play(engine *en, const taken_request *tr) {
    buf prompt = { 0 };
    const gen_request *rq = &tr->rq;
    for (size_t i = 0; i < rq->n_tokens; i++) buf_str(&prompt, text_token_bytes(en->text, rq->tokens[i]));
    int64_t began = clock_ns();
    run r = { .en = en, .tr = tr, .s = read_script(buf_view(&prompt)), .reply = reply_new(en->text, &rq->reply) };
    r.t = (gen_totals){
        .prompt = (int32_t)rq->n_tokens, .queue_ns = began - tr->submitted_ns, .end_token = -1, .stop_index = -1
    };
    r.thinks = str_ends(buf_view(&prompt), STR("<think>"));
    int32_t room = en->facts.ctx - r.t.prompt;
    r.max_new = rq->max_new < room ? rq->max_new : room;
    r.width = rq->spec.mode == SPEC_OFF ? 0 : rq->spec.tokens == SPEC_DEFAULT ? SPEC_WIDTH : rq->spec.tokens;
    log_info("script", "run %llu: prompt ends in %s, width %d", (unsigned long long)tr->id,
             r.thinks ? "<think>" : "</think>", r.width);
    const pick_options *p = &rq->pick;
    log_info("script", "choice: repeat %g, presence %g, frequency %g, min %d, logprobs %d, bias%s", (double)p->repeat,
             (double)p->presence, (double)p->frequency, p->min_new, rq->logprobs, p->n_bias ? "" : " none");
    for (int32_t i = 0; i < p->n_bias; i++) log_info("script", "bias %d %g", p->bias[i].token, (double)p->bias[i].bias);
    if (rq->grammar) r.form = form_of(en, rq);
    post(&r, event(&r, GEN_STARTED));
    bool played = play_prefill(&r);
    int64_t prefilled = clock_ns();
    played = played && play_answer(&r);
    r.t.prefill_ns = prefilled - began;
    r.t.decode_ns = clock_ns() - prefilled;
    r.t.reasoning = reply_reasoning_tokens(r.reply);
    r.t.stop_index = reply_stop_index(r.reply);
    post_end(&r, played);
    constraint_free(r.form);
    reply_free(r.reply);
    parts_free(&r.text);
    buf_free(&r.logprobs);
    buf_free(&prompt);
}

/* ---------------------------------------------------------------------------------- life */

static void set_state(engine *en, engine_state s) {
    atomic_store(&en->state, (int)s);
    mailbox_notify(en->box);
}

static void engine_main(void *arg) {
    engine *en = arg;
    for (int i = 0; i < LOAD_STEPS && !atomic_load(&en->closing); i++) {
        atomic_store(&en->permille, i * 1000 / LOAD_STEPS);
        sleep_ms(en->opt.load_ms / LOAD_STEPS);
    }
    set_state(en, en->opt.load_fails ? ENGINE_FAILED : ENGINE_READY);
    for (taken_request tr; mailbox_take(en->box, &tr);) {
        play(en, &tr);
        arena_free(tr.rq.mem);
    }
}

static status open_text(engine *en, err *e) {
    const char *dir = en->opt.model_dir;
    text_files f = { 0 };
    TRY(source_open(&en->src, dir ? SOURCE_FOLDER : SOURCE_DEMO_TARGET, dir, e));
    TRY(source_map(en->src, "tokenizer.json", &f.tokenizer, e));
    TRY(source_map(en->src, "tokenizer_config.json", &f.tokenizer_config, e));
    TRY(source_map(en->src, "chat_template.jinja", &f.chat_template, e));
    TRY(source_map(en->src, "generation_config.json", &f.generation_config, e));
    TRY(source_map(en->src, "config.json", &f.config, e));
    return text_model_open(&en->text, &f, VOCAB, e);
}

status script_engine_open(engine **out, const script_options *opt, err *e) {
    engine *en = xalloc(sizeof *en);
    en->opt = *opt;
    en->box = mailbox_new(opt->queue_max);
    en->facts = (engine_facts){ .model_name = "script",
                                .source = "scripts",
                                .ctx = opt->ctx,
                                .ctx_trained = 262144,
                                .vocab = 100352,
                                .hidden = 64,
                                .layers = 1,
                                .parameters = 1,
                                .has_draft = true,
                                .spec_max = SPEC_WIDTH,
                                .spec_tree_max = 31,
                                .pick = { .temperature = 1, .top_p = 1 },
                                .isa = "script",
                                .lanes = 1 };
    status s = open_text(en, e);
    if (s == OK) s = thread_start(&en->thread, "script", engine_main, en, e);
    if (s != OK) {
        engine_close(en);
        return s;
    }
    *out = en;
    return OK;
}

void engine_close(engine *en) {
    if (!en) return;
    atomic_store(&en->closing, true);
    mailbox_close(en->box);
    if (en->thread) thread_join(en->thread);
    mailbox_free(en->box);
    token_trie_free(en->trie);
    text_model_close(en->text);
    source_close(en->src);
    free(en);
}

engine_state engine_get_state(const engine *en, float *fraction) {
    if (fraction) *fraction = (float)atomic_load(&en->permille) / 1000;
    return (engine_state)atomic_load(&en->state);
}

void engine_get_failure(const engine *en, err *e) {
    (void)en;
    err_set(e, ERR_MODEL, "the script says: loading fails");
}

const engine_facts *engine_get_facts(const engine *en) { return &en->facts; }
const text_model *engine_get_text(const engine *en) { return en->text; }
void engine_set_waker(engine *en, void (*wake)(void *arg), void *arg) { mailbox_set_waker(en->box, wake, arg); }

status engine_submit(engine *en, const gen_request *rq, gen_id *id, err *e) {
    if (rq->n_tokens >= (size_t)en->facts.ctx)
        return err_set(e, ERR_TOO_LONG, "%zu tokens in a context of %d", rq->n_tokens, en->facts.ctx);
    return mailbox_submit(en->box, rq, id, e);
}

void engine_cancel(engine *en, gen_id id) { mailbox_cancel(en->box, id); }
size_t engine_drain(engine *en, gen_event *out, size_t max) { return mailbox_drain(en->box, out, max); }
bool engine_wait(engine *en, int64_t timeout_ns) { return mailbox_wait(en->box, timeout_ns); }
