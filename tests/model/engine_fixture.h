/* tests/model/engine_fixture.h - a front end for tests of the engine: asks questions, collects answers, and checks what
 * holds for every answer. */
#ifndef TESTS_MODEL_ENGINE_FIXTURE_H
#define TESTS_MODEL_ENGINE_FIXTURE_H
#include "tests/model/model_fixture.h"

#include "engine/base/clock.h"
#include "engine/engine.h"
#include "engine/text/answer_shape.h"

enum { PATIENCE_S = 60, CTX = 4096, DRAIN = 3 };

/* ---- asking ---- */

typedef struct question {
    const int32_t *tokens;
    size_t n;
    int32_t max_new;
    spec_options spec;
    const token_list *prediction; /* NULL: none; lives as long as the answer takes */
    bool reuse;                   /* of what earlier questions left; ask() says no */
    int32_t logprobs;             /* as in gen_request */
    pick_options pick;
    reply_options reply;
    const answer_shape *shape; /* NULL: any */
    bool thinks_at_most;       /* as in gen_request */
    int32_t thinking_max;
} question;

/* What came back; the `user` of the request. */
typedef struct answer {
    buf text, reasoning, logprobs; /* token_logprobs */
    token_list ids;
    int32_t started, prefills, steps, rounds, drafted, accepted, last; /* events of a kind, and sums over them */
    int32_t first_n, first_drafted;                                    /* of the first step */
    bool text_late;                                                    /* text came behind the last event */
    buf names, arguments;                                              /* of calls, a line each */
    int32_t calls, call_ends, complete;                                /* events; complete: of the ends */
    gen_done why;
    gen_totals totals;
    gen_id id;
} answer;

FIXTURE void answer_free(answer *a) {
    buf_free(&a->text);
    buf_free(&a->reasoning);
    buf_free(&a->logprobs);
    buf_free(&a->names);
    buf_free(&a->arguments);
    token_list_free(&a->ids);
    *a = (answer){ 0 };
}

/* width proposals in a chain, 0: plain steps, SPEC_DEFAULT: as the engine likes. */
FIXTURE spec_options spec_of(int32_t width) {
    return (spec_options){ width == SPEC_DEFAULT ? SPEC_MODE_DEFAULT : SPEC_FIXED, width, SPEC_DEFAULT, 0.0f };
}

FIXTURE question ask(const token_list *prompt, int32_t max_new, int32_t width) {
    return (question){ .tokens = prompt->ids,
                       .n = prompt->n,
                       .max_new = max_new,
                       .spec = spec_of(width),
                       .logprobs = -1,
                       .pick = { .top_p = 1.0f },
                       .reply = { .start = REPLY_CONTENT } };
}

FIXTURE status submit(engine *en, const question *q, answer *a, err *e) {
    arena *mem = arena_new();
    int32_t *tokens = arena_alloc(mem, (q->n + 1) * sizeof *tokens);
    memcpy(tokens, q->tokens, q->n * sizeof *tokens);
    gen_request rq = { .tokens = tokens,
                       .n_tokens = q->n,
                       .max_new = q->max_new,
                       .pick = q->pick,
                       .reply = q->reply,
                       .spec = q->spec,
                       .no_cache = !q->reuse,
                       .prediction = q->prediction ? q->prediction->ids : NULL,
                       .n_prediction = q->prediction ? q->prediction->n : 0,
                       .logprobs = q->logprobs,
                       .thinks = q->reply.start == REPLY_REASONING,
                       .thinks_at_most = q->thinks_at_most,
                       .thinking_max = q->thinking_max,
                       .mem = mem,
                       .user = a };
    str *stop = arena_alloc(mem, (q->reply.n_stop + 1) * sizeof *stop);
    for (size_t i = 0; i < q->reply.n_stop; i++) stop[i] = arena_str(mem, q->reply.stop[i]);
    rq.reply.stop = stop;
    status s = q->shape ? answer_shape_apply(q->shape, engine_get_text(en), &rq, NULL, e) : OK;
    if (s == OK) s = engine_submit(en, &rq, &a->id, e);
    if (s != OK) arena_free(mem);
    return s;
}

/* ---- listening ---- */

static void take_round(answer *a, const gen_event *ev) {
    if (a->steps == 0) a->first_n = ev->u.round.n, a->first_drafted = ev->u.round.drafted;
    for (int32_t i = 0; i < ev->u.round.n; i++) token_list_push(&a->ids, ev->u.round.tokens[i]);
    if (ev->u.round.logprobs)
        buf_put(&a->logprobs, ev->u.round.logprobs, (size_t)ev->u.round.n * sizeof *ev->u.round.logprobs);
    a->steps++;
    a->rounds += ev->u.round.drafted > 0;
    a->drafted += ev->u.round.drafted;
    a->accepted += ev->u.round.accepted;
}

static void take(const gen_event *ev) {
    answer *a = ev->user;
    assert_int_equal(ev->id, a->id);
    if (a->last) a->text_late = true;
    switch (ev->kind) {
    case GEN_STARTED: a->started++; break;
    case GEN_PREFILL: a->prefills++; break;
    case GEN_TEXT: buf_str(&a->text, ev->text); break;
    case GEN_REASONING: buf_str(&a->reasoning, ev->text); break;
    case GEN_CALL:
        a->calls++;
        buf_str(&a->names, ev->text);
        buf_byte(&a->names, '\n');
        break;
    case GEN_ARGUMENTS: buf_str(&a->arguments, ev->text); break;
    case GEN_CALL_END:
        a->call_ends++;
        buf_byte(&a->arguments, '\n');
        a->complete += ev->u.call.complete;
        break;
    case GEN_ROUND: take_round(a, ev); break;
    case GEN_DONE:
        a->last++;
        a->why = ev->u.end.why;
        a->totals = *ev->u.end.totals;
        break;
    case GEN_FAILED: fail_msg("the request failed: %.*s", STR_ARG(ev->text)); break;
    }
}

FIXTURE void drain(engine *en) {
    gen_event ev[DRAIN];
    for (size_t n; (n = engine_drain(en, ev, DRAIN)) > 0;)
        for (size_t i = 0; i < n; i++) take(&ev[i]);
}

/* Until *counter has reached n. */
FIXTURE void wait_for(engine *en, const int32_t *counter, int32_t n) {
    int64_t end = clock_ns() + (int64_t)PATIENCE_S * 1000000000;
    drain(en);
    while (*counter < n) {
        if (clock_ns() > end) fail_msg("the engine has been silent for %d s", PATIENCE_S);
        engine_wait(en, 100000000);
        drain(en);
    }
}

FIXTURE answer get_answer(engine *en, const question *q) {
    answer *a = xalloc(sizeof *a), out;
    MUST(submit(en, q, a, e));
    wait_for(en, &a->last, 1);
    out = *a;
    free(a);
    return out;
}

/* ---- engines ---- */

FIXTURE engine *start(engine_options opt) {
    engine *en;
    opt.lanes = 1;
    MUST(engine_open(&en, &opt, e));
    while (engine_get_state(en, NULL) == ENGINE_LOADING) engine_wait(en, 100000000);
    if (engine_get_state(en, NULL) != ENGINE_READY) {
        err why;
        engine_get_failure(en, &why);
        fail_msg("the engine did not start: %s", why.text);
    }
    return en;
}

/* The shared engine, and the prompts of the golden file. */
typedef struct world {
    engine *en;
    token_list code, tools, thinking, completion;
} world;

/* ---- what holds ---- */

FIXTURE void check_same(const answer *got, const answer *want, const char *what, int32_t width) {
    for (size_t i = 0; i < got->ids.n && i < want->ids.n; i++)
        if (got->ids.ids[i] != want->ids.ids[i])
            fail_msg("%s, %d proposals: token %zu is %d, expected %d", what, width, i, got->ids.ids[i],
                     want->ids.ids[i]);
    if (got->ids.n != want->ids.n)
        fail_msg("%s, %d proposals: %zu tokens, expected %zu", what, width, got->ids.n, want->ids.n);
    if (got->why != want->why) fail_msg("%s, %d proposals: ended by %d, expected %d", what, width, got->why, want->why);
    if (!str_eq(buf_view(&got->text), buf_view(&want->text)))
        fail_msg("%s, %d proposals: text \"%.*s\", expected \"%.*s\"", what, width, STR_ARG(buf_view(&got->text)),
                 STR_ARG(buf_view(&want->text)));
    if (!str_eq(buf_view(&got->reasoning), buf_view(&want->reasoning)))
        fail_msg("%s, %d proposals: reasoning \"%.*s\", expected \"%.*s\"", what, width,
                 STR_ARG(buf_view(&got->reasoning)), STR_ARG(buf_view(&want->reasoning)));
}

/* Sums of one answer, against each other and against its events. */
FIXTURE void check_totals(const answer *a, const question *q) {
    const gen_totals *t = &a->totals;
    int32_t rounds = 0, accepted = 0;
    assert_int_equal(a->last, 1);
    assert_int_equal(a->started, 1);
    assert_false(a->text_late);
    assert_int_equal(t->prompt, q->n);
    assert_int_equal(t->generated, a->ids.n);
    assert_int_equal(t->steps, a->steps - 1); /* the first one is the prefill's */
    assert_int_equal(t->rounds, a->rounds);
    assert_int_equal(t->drafted, a->drafted);
    assert_int_equal(t->accepted, a->accepted);
    for (int32_t i = 0; i < SPEC_POSITIONS; i++) rounds += t->by_length[i], accepted += i * t->by_length[i];
    assert_int_equal(rounds, t->rounds);
    assert_int_equal(accepted, t->accepted);
    for (int32_t i = 0, longer = t->rounds; i < SPEC_POSITIONS; i++) {
        longer -= t->by_length[i]; /* rounds that accepted more than i proposals accepted number i */
        assert_int_equal(t->accepted_at[i], longer);
    }
    int32_t emitted = 1 + t->steps + t->accepted;
    if (a->why == DONE_LENGTH)
        assert_int_equal(t->generated, emitted);
    else
        assert_true(t->generated <= emitted);
    assert_true(t->prefill_ns > 0 && t->decode_ns == t->draft_ns + t->verify_ns + t->rest_ns);
    assert_int_equal(a->first_n, 1);
    assert_int_equal(a->first_drafted, 0);
}

/* ---- group fixture ---- */

FIXTURE int engine_setup(void **state) {
    world *w = xalloc(sizeof *w);
    w->en = start((engine_options){ .ctx = CTX,
                                    .spec = { SPEC_FIXED, SPEC_DEFAULT, SPEC_DEFAULT, 0.0f },
                                    .proposers = PROPOSE_DRAFT,
                                    .queue_max = 4 });
    w->code = golden_ids("p0.ids");
    w->tools = golden_ids("p1.ids");
    w->thinking = golden_ids("p2.ids");
    w->completion = golden_ids("p3.ids");
    *state = w;
    return 0;
}

FIXTURE int engine_teardown(void **state) {
    world *w = *state;
    engine_close(w->en);
    token_list_free(&w->code);
    token_list_free(&w->tools);
    token_list_free(&w->thinking);
    token_list_free(&w->completion);
    free(w);
    return 0;
}

#endif
