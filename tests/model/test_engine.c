/* The engine as a front end sees it, on the demo pair: texts do not depend on the width, answers end where they should,
 * every request gets exactly one last event, and the numbers reported add up. */
#include "tests/model/model_fixture.h"

#include <math.h>
#include "engine/base/clock.h"
#include "engine/engine.h"
#include "engine/text/chat.h"

enum { PATIENCE_S = 60, CTX = 4096, DRAIN = 3 };

static const int32_t WIDTHS[] = { 0, 1, 3, 7, 15 };
enum { N_WIDTHS = sizeof WIDTHS / sizeof WIDTHS[0] };

/* ---- asking ---- */

typedef struct question {
    const int32_t *tokens;
    size_t n;
    int32_t max_new, width;
    pick_options pick;
    reply_options reply;
} question;

/* What came back; the `user` of the request. */
typedef struct answer {
    buf text, reasoning;
    token_list ids;
    int32_t started, prefills, steps, rounds, drafted, accepted, last; /* events of a kind, and sums over them */
    int32_t first_n, first_drafted;                                   /* of the first step */
    bool text_late; /* text came behind the last event */
    gen_done why;
    gen_totals totals;
    gen_id id;
} answer;

static void answer_free(answer *a) {
    buf_free(&a->text);
    buf_free(&a->reasoning);
    token_list_free(&a->ids);
    *a = (answer){ 0 };
}

static question ask(const token_list *prompt, int32_t max_new, int32_t width) {
    return (question){ .tokens = prompt->ids,
                       .n = prompt->n,
                       .max_new = max_new,
                       .width = width,
                       .pick = { .top_p = 1.0f },
                       .reply = { .start = REPLY_CONTENT } };
}

static status submit(engine *en, const question *q, answer *a, err *e) {
    arena *mem = arena_new();
    int32_t *tokens = arena_alloc(mem, (q->n + 1) * sizeof *tokens);
    memcpy(tokens, q->tokens, q->n * sizeof *tokens);
    gen_request rq = { .tokens = tokens,
                       .n_tokens = q->n,
                       .max_new = q->max_new,
                       .pick = q->pick,
                       .reply = q->reply,
                       .spec_tokens = q->width,
                       .mem = mem,
                       .user = a };
    str *stop = arena_alloc(mem, (q->reply.n_stop + 1) * sizeof *stop);
    for (size_t i = 0; i < q->reply.n_stop; i++) stop[i] = arena_str(mem, q->reply.stop[i]);
    rq.reply.stop = stop;
    status s = engine_submit(en, &rq, &a->id, e);
    if (s != OK) arena_free(mem);
    return s;
}

/* ---- listening ---- */

static void take_round(answer *a, const gen_event *ev) {
    if (a->steps == 0) a->first_n = ev->u.round.n, a->first_drafted = ev->u.round.drafted;
    for (int32_t i = 0; i < ev->u.round.n; i++) token_list_push(&a->ids, ev->u.round.tokens[i]);
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
    case GEN_ROUND: take_round(a, ev); break;
    case GEN_DONE:
        a->last++;
        a->why = ev->u.end.why;
        a->totals = *ev->u.end.totals;
        break;
    case GEN_FAILED: fail_msg("the request failed: %.*s", STR_ARG(ev->text)); break;
    }
}

static void drain(engine *en) {
    gen_event ev[DRAIN];
    for (size_t n; (n = engine_drain(en, ev, DRAIN)) > 0;)
        for (size_t i = 0; i < n; i++) take(&ev[i]);
}

/* Until *counter has reached n. */
static void wait_for(engine *en, const int32_t *counter, int32_t n) {
    int64_t end = clock_ns() + (int64_t)PATIENCE_S * 1000000000;
    drain(en);
    while (*counter < n) {
        if (clock_ns() > end) fail_msg("the engine has been silent for %d s", PATIENCE_S);
        engine_wait(en, 100000000);
        drain(en);
    }
}

static answer get_answer(engine *en, const question *q) {
    answer *a = xalloc(sizeof *a), out;
    MUST(submit(en, q, a, e));
    wait_for(en, &a->last, 1);
    out = *a;
    free(a);
    return out;
}

/* ---- engines ---- */

static engine *start(engine_options opt) {
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

typedef struct world {
    engine *en;
    token_list code, tools, thinking, completion;
} world;

static void check_same(const answer *got, const answer *want, const char *what, int32_t width) {
    for (size_t i = 0; i < got->ids.n && i < want->ids.n; i++)
        if (got->ids.ids[i] != want->ids.ids[i])
            fail_msg("%s, %d proposals: token %zu is %d, expected %d", what, width, i, got->ids.ids[i], want->ids.ids[i]);
    if (got->ids.n != want->ids.n) fail_msg("%s, %d proposals: %zu tokens, expected %zu", what, width, got->ids.n, want->ids.n);
    if (got->why != want->why) fail_msg("%s, %d proposals: ended by %d, expected %d", what, width, got->why, want->why);
    if (!str_eq(buf_view(&got->text), buf_view(&want->text)))
        fail_msg("%s, %d proposals: text \"%.*s\", expected \"%.*s\"", what, width, STR_ARG(buf_view(&got->text)),
                 STR_ARG(buf_view(&want->text)));
    if (!str_eq(buf_view(&got->reasoning), buf_view(&want->reasoning)))
        fail_msg("%s, %d proposals: reasoning \"%.*s\", expected \"%.*s\"", what, width,
                 STR_ARG(buf_view(&got->reasoning)), STR_ARG(buf_view(&want->reasoning)));
}

/* Sums of one answer, against each other and against its events. */
static void check_totals(const answer *a, const question *q) {
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
        longer -= t->by_length[i];
        assert_int_equal(t->accepted_at[i], longer); /* proposal i was accepted in every round that accepted more than i */
    }
    int32_t emitted = 1 + t->steps + t->accepted;
    if (a->why == DONE_LENGTH) assert_int_equal(t->generated, emitted);
    else assert_true(t->generated <= emitted);
    assert_true(t->prefill_ns > 0 && t->decode_ns == t->draft_ns + t->verify_ns + t->rest_ns);
    assert_int_equal(a->first_n, 1);
    assert_int_equal(a->first_drafted, 0);
}

/* ---- texts ---- */

static void test_facts(void **state) {
    const engine_facts *f = engine_get_facts(((world *)*state)->en);
    assert_string_equal(f->model_name, "laguna-demo");
    assert_int_equal(f->ctx, CTX);
    assert_int_equal(f->vocab, 4096);
    assert_true(f->has_draft);
    assert_int_equal(f->spec_max, 15);
    assert_int_equal(f->spec_tokens, 7);
}

static void check_widths(world *w, question q, const char *what) {
    q.width = 0;
    answer want = get_answer(w->en, &q);
    check_totals(&want, &q);
    assert_int_equal(want.totals.rounds, 0);
    assert_true(want.ids.n > 1);
    for (int i = 0; i <= N_WIDTHS; i++) {
        q.width = i < N_WIDTHS ? WIDTHS[i] : SPEC_DEFAULT;
        answer got = get_answer(w->en, &q);
        check_same(&got, &want, what, q.width);
        check_totals(&got, &q);
        if (q.width) assert_true(got.totals.rounds > 0);
        answer_free(&got);
    }
    answer_free(&want);
}

static void test_widths(void **state) {
    world *w = *state;
    check_widths(w, ask(&w->code, 100, 0), "code");
    check_widths(w, ask(&w->tools, 100, 0), "tools");
    check_widths(w, ask(&w->completion, 100, 0), "completion");
    question q = ask(&w->thinking, 100, 0);
    q.reply.start = chat_start(engine_get_text(w->en), q.tokens, q.n);
    assert_int_equal(q.reply.start, REPLY_REASONING);
    check_widths(w, q, "thinking");
}

static void test_widths_seeded(void **state) {
    world *w = *state;
    question q = ask(&w->code, 80, 0);
    q.pick = (pick_options){ .temperature = 1.0f, .top_p = 0.95f, .top_k = 40, .seed = 11 };
    check_widths(w, q, "seed 11");
    answer first = get_answer(w->en, &q), again = get_answer(w->en, &q);
    check_same(&again, &first, "seed 11 again", 0);
    q.pick.seed = 12;
    answer other = get_answer(w->en, &q);
    assert_false(str_eq(buf_view(&other.text), buf_view(&first.text)));
    answer_free(&first);
    answer_free(&again);
    answer_free(&other);
}

/* The same ids as the reference computed, as far as that goes. */
static void test_golden(void **state) {
    world *w = *state;
    token_list want = golden_ids("p0.greedy_ids");
    question q = ask(&w->code, (int32_t)want.n, SPEC_DEFAULT);
    answer got = get_answer(w->en, &q);
    assert_int_equal(got.ids.n, want.n);
    assert_memory_equal(got.ids.ids, want.ids, want.n * sizeof *want.ids);
    token_list_free(&want);
    answer_free(&got);
}

/* ---- ends ---- */

static void test_max_new(void **state) {
    world *w = *state;
    static const int32_t MOST[] = { 1, 2, 3, 8, 9 };
    question q = ask(&w->tools, 9, 0);
    answer whole = get_answer(w->en, &q);
    assert_int_equal(whole.ids.n, 9);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < N_WIDTHS; j++) {
            q.max_new = MOST[i], q.width = WIDTHS[j];
            answer got = get_answer(w->en, &q);
            assert_int_equal(got.why, DONE_LENGTH);
            assert_int_equal(got.ids.n, MOST[i]);
            assert_memory_equal(got.ids.ids, whole.ids.ids, got.ids.n * sizeof(int32_t));
            assert_int_equal(got.totals.end_token, -1);
            check_totals(&got, &q);
            answer_free(&got);
        }
    answer_free(&whole);
}

/* Stop strings of three bytes cut out of the answer at many places; the first place where one stands counts. */
static void test_stops(void **state) {
    world *w = *state;
    question q = ask(&w->completion, 60, 0);
    answer whole = get_answer(w->en, &q);
    str text = buf_view(&whole.text);
    assert_true(text.n > 40);
    for (size_t at = 0; at + 3 <= text.n; at += text.n / 7) {
        str stop[2] = { STR("never in an answer"), { text.p + at, 3 } };
        const char *found = memmem(text.p, text.n, stop[1].p, stop[1].n);
        q.reply.stop = stop, q.reply.n_stop = 2;
        for (int i = 0; i < N_WIDTHS; i++) {
            q.width = WIDTHS[i];
            answer got = get_answer(w->en, &q);
            str want = { text.p, (size_t)(found - text.p) };
            if (got.why != DONE_STOP || !str_eq(buf_view(&got.text), want))
                fail_msg("stop \"%.*s\", %d proposals: ended by %d with \"%.*s\", expected \"%.*s\"", STR_ARG(stop[1]),
                         q.width, got.why, STR_ARG(buf_view(&got.text)), STR_ARG(want));
            assert_int_equal(got.totals.stop_index, 1);
            assert_true(got.ids.n <= whole.ids.n);
            assert_memory_equal(got.ids.ids, whole.ids.ids, got.ids.n * sizeof(int32_t));
            check_totals(&got, &q);
            answer_free(&got);
        }
    }
    answer_free(&whole);
}

static void test_end_token(void **state) {
    world *w = *state;
    const text_model *tm = engine_get_text(w->en);
    for (int i = 0; i < N_WIDTHS; i++) {
        question q = ask(&w->code, 200, WIDTHS[i]);
        answer ended = get_answer(w->en, &q);
        int32_t last = ended.ids.ids[ended.ids.n - 1];
        assert_int_equal(ended.why, DONE_END);
        assert_true(text_is_end(tm, last));
        assert_int_equal(ended.totals.end_token, last);
        for (size_t t = 0; t + 1 < ended.ids.n; t++) assert_false(text_is_end(tm, ended.ids.ids[t]));
        check_totals(&ended, &q);
        q.reply.ignore_end = true;
        q.max_new = (int32_t)ended.ids.n + 20;
        answer longer = get_answer(w->en, &q);
        assert_int_equal(longer.why, DONE_LENGTH);
        assert_int_equal(longer.ids.n, q.max_new);
        assert_memory_equal(longer.ids.ids, ended.ids.ids, ended.ids.n * sizeof(int32_t));
        assert_int_equal(longer.totals.end_token, -1);
        check_totals(&longer, &q);
        answer_free(&ended);
        answer_free(&longer);
    }
}

/* 4000 tokens of prompt leave 96 of the context. */
static void test_long_prompt(void **state) {
    world *w = *state;
    token_list prompt = { demo_tokens(4000), 4000, 4000 };
    answer plain = { 0 };
    for (int i = 0; i < 2; i++) {
        question q = ask(&prompt, 1000, i ? 7 : 0);
        q.reply.ignore_end = true;
        answer got = get_answer(w->en, &q);
        assert_int_equal(got.why, DONE_LENGTH);
        assert_int_equal(got.ids.n, CTX - 4000);
        assert_int_equal(got.prefills, (4000 - 1) / PREFILL_MAX); /* between the chunks */
        check_totals(&got, &q);
        if (i == 0) {
            plain = got;
            continue;
        }
        check_same(&got, &plain, "4000 tokens", q.width);
        answer_free(&got);
    }
    answer_free(&plain);
    token_list_free(&prompt);
}

/* ---- refusals ---- */

static void expect_refused(engine *en, const question *q, status want, const char *part) {
    err e = { 0 };
    answer a = { 0 };
    status s = submit(en, q, &a, &e);
    if (s != want || !strstr(e.text, part)) fail_msg("status %d \"%s\", expected %d with \"%s\"", s, e.text, want, part);
}

static void test_refused(void **state) {
    world *w = *state;
    const question good = ask(&w->code, 10, 7);
    int32_t beyond[] = { 2, 4096 }, negative[] = { -1 };
    question q = good;
    q.n = 0;
    expect_refused(w->en, &q, ERR_REQUEST, "no tokens");
    q = good, q.max_new = 0;
    expect_refused(w->en, &q, ERR_REQUEST, "max_tokens 0");
    q = good, q.tokens = beyond, q.n = 2;
    expect_refused(w->en, &q, ERR_REQUEST, "prompt token 1 is 4096");
    q = good, q.tokens = negative, q.n = 1;
    expect_refused(w->en, &q, ERR_REQUEST, "prompt token 0 is -1");
    q = good, q.width = 16;
    expect_refused(w->en, &q, ERR_REQUEST, "16 proposals");
    q = good, q.width = -2;
    expect_refused(w->en, &q, ERR_REQUEST, "-2 proposals");
    q = good, q.pick.temperature = -0.5f;
    expect_refused(w->en, &q, ERR_REQUEST, "temperature -0.5");
    q = good, q.pick.temperature = NAN;
    expect_refused(w->en, &q, ERR_REQUEST, "temperature nan");
    q = good, q.pick.top_p = 0.0f;
    expect_refused(w->en, &q, ERR_REQUEST, "top_p 0");
    q = good, q.pick.min_p = 1.5f;
    expect_refused(w->en, &q, ERR_REQUEST, "min_p 1.5");
    q = good, q.pick.top_k = -1;
    expect_refused(w->en, &q, ERR_REQUEST, "top_k -1");
    token_list prompt = { demo_tokens(CTX), CTX, CTX };
    q = ask(&prompt, 1, 0);
    expect_refused(w->en, &q, ERR_TOO_LONG, "4096 tokens");
    q.n = CTX - 1; /* room for exactly one */
    answer one = get_answer(w->en, &q);
    assert_int_equal(one.ids.n, 1);
    answer_free(&one);
    token_list_free(&prompt);
}

static void test_open_refused(void **state) {
    (void)state;
    err why = { 0 };
    engine *en = NULL;
    engine_options chunk = { .prefill_chunk = 257 }, draft_only = { .draft_dir = "somewhere" }, isa_name = { .isa = "mmx" };
    assert_int_equal(engine_open(&en, &chunk, &why), ERR_USAGE);
    assert_non_null(strstr(why.text, "257"));
    assert_int_equal(engine_open(&en, &draft_only, &why), ERR_USAGE);
    MUST(engine_open(&en, &isa_name, e));
    while (engine_get_state(en, NULL) == ENGINE_LOADING) engine_wait(en, 100000000);
    assert_int_equal(engine_get_state(en, NULL), ENGINE_FAILED);
    engine_get_failure(en, &why);
    assert_int_equal(why.code, ERR_USAGE);
    assert_non_null(strstr(why.text, "mmx"));
    engine_close(en);
}

/* ---- cancelling, waiting, closing ---- */

/* Nothing more comes. */
static void check_quiet(engine *en) {
    assert_false(engine_wait(en, 20000000));
    gen_event ev;
    assert_int_equal(engine_drain(en, &ev, 1), 0);
}

static void check_cancelled(engine *en, const answer *a) {
    check_quiet(en);
    assert_int_equal(a->last, 1);
    assert_int_equal(a->why, DONE_CANCELLED);
    assert_false(a->text_late);
}

static question endless(const token_list *prompt) {
    question q = ask(prompt, CTX, 0);
    q.reply.ignore_end = true;
    return q;
}

/* One runs, one waits, a third is too many. */
static void test_queue(void **state) {
    world *w = *state;
    engine *en = start((engine_options){ .queue_max = 1, .ctx = CTX, .spec_tokens = SPEC_DEFAULT });
    answer running = { 0 }, waiting = { 0 }, third = { 0 }, next = { 0 };
    question q = endless(&w->code), small = ask(&w->code, 4, 7);
    MUST(submit(en, &q, &running, e));
    wait_for(en, &running.steps, 1);
    MUST(submit(en, &small, &waiting, e));
    assert_int_equal(submit(en, &small, &third, NULL), ERR_BUSY);
    engine_cancel(en, 987654); /* nobody */
    engine_cancel(en, waiting.id);
    wait_for(en, &waiting.last, 1);
    assert_int_equal(waiting.started, 0);
    assert_int_equal(waiting.why, DONE_CANCELLED);
    assert_int_equal(waiting.totals.generated, 0);
    assert_int_equal(running.last, 0);
    MUST(submit(en, &small, &next, e)); /* its place is free again */
    engine_cancel(en, running.id);
    wait_for(en, &next.last, 1);
    check_quiet(en);
    assert_int_equal(running.last, 1);
    assert_int_equal(running.why, DONE_CANCELLED);
    assert_int_equal(waiting.last, 1);
    assert_int_equal(next.why, DONE_LENGTH);
    engine_cancel(en, next.id); /* too late */
    check_quiet(en);
    engine_close(en);
    answer_free(&running);
    answer_free(&waiting);
    answer_free(&next);
}

static void test_cancel_prefill(void **state) {
    (void)state;
    engine *en = start((engine_options){ .prefill_chunk = 1, .ctx = CTX, .spec_tokens = SPEC_DEFAULT });
    token_list prompt = { demo_tokens(4000), 4000, 4000 };
    question q = endless(&prompt);
    answer a = { 0 };
    MUST(submit(en, &q, &a, e));
    wait_for(en, &a.prefills, 3);
    engine_cancel(en, a.id);
    wait_for(en, &a.last, 1);
    check_cancelled(en, &a);
    assert_int_equal(a.steps, 0);
    assert_int_equal(a.totals.generated, 0);
    assert_true(a.prefills < 3999);
    engine_close(en);
    answer_free(&a);
    token_list_free(&prompt);
}

/* What a cancelled request leaves behind does not reach the next one: the same ids as from an engine that is new. */
static void test_after_cancel(void **state) {
    world *w = *state;
    engine *fresh = start((engine_options){ .queue_max = 1, .ctx = CTX, .spec_tokens = SPEC_DEFAULT });
    question q = ask(&w->tools, 60, 7);
    answer cold = get_answer(fresh, &q), a = { 0 };
    question other = endless(&w->completion);
    other.width = 15;
    MUST(submit(fresh, &other, &a, e));
    wait_for(fresh, &a.steps, 5);
    engine_cancel(fresh, a.id);
    wait_for(fresh, &a.last, 1);
    check_cancelled(fresh, &a);
    assert_true(a.totals.generated >= 5);
    assert_int_equal(a.totals.generated, a.ids.n);
    answer warm = get_answer(fresh, &q);
    check_same(&warm, &cold, "after a cancelled request", q.width);
    engine_close(fresh);
    answer_free(&cold);
    answer_free(&warm);
    answer_free(&a);
}

static void test_close_while_busy(void **state) {
    world *w = *state;
    engine *en = start((engine_options){ .queue_max = 3, .ctx = CTX, .spec_tokens = SPEC_DEFAULT });
    answer running = { 0 }, waiting = { 0 };
    question q = endless(&w->code);
    MUST(submit(en, &q, &running, e));
    MUST(submit(en, &q, &waiting, e));
    wait_for(en, &running.steps, 2);
    engine_close(en);
    answer_free(&running);
    answer_free(&waiting);
    MUST(engine_open(&en, &(engine_options){ .lanes = 1, .ctx = CTX }, e));
    engine_close(en); /* while loading */
    engine_close(NULL);
}

/* ---- */

static int setup(void **state) {
    world *w = xalloc(sizeof *w);
    w->en = start((engine_options){ .ctx = CTX, .spec_tokens = SPEC_DEFAULT, .queue_max = 4 });
    w->code = golden_ids("p0.ids");
    w->tools = golden_ids("p1.ids");
    w->thinking = golden_ids("p2.ids");
    w->completion = golden_ids("p3.ids");
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    engine_close(w->en);
    token_list_free(&w->code);
    token_list_free(&w->tools);
    token_list_free(&w->thinking);
    token_list_free(&w->completion);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),          cmocka_unit_test(test_widths),       cmocka_unit_test(test_widths_seeded),
        cmocka_unit_test(test_golden),         cmocka_unit_test(test_max_new),      cmocka_unit_test(test_stops),
        cmocka_unit_test(test_end_token),      cmocka_unit_test(test_long_prompt),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_open_refused),   cmocka_unit_test(test_queue),        cmocka_unit_test(test_cancel_prefill),
        cmocka_unit_test(test_after_cancel),   cmocka_unit_test(test_close_while_busy),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
