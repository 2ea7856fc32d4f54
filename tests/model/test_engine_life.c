/* The life of requests and engines, on the demo pair: refusals, the queue, cancelling at every stage, closing at any
 * time. Every request that was accepted gets exactly one last event. */
#include "tests/model/engine_fixture.h"

#include <jansson.h>
#include <math.h>

/* ---- refusals ---- */

static void expect_refused(engine *en, const question *q, status want, const char *part) {
    err e = { 0 };
    answer a = { 0 };
    status s = submit(en, q, &a, &e);
    if (s != want || !strstr(e.text, part))
        fail_msg("status %d \"%s\", expected %d with \"%s\"", s, e.text, want, part);
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
    q = good, q.spec = spec_of(16);
    expect_refused(w->en, &q, ERR_REQUEST, "16 proposals");
    q = good, q.spec = spec_of(-2);
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
    token_list wrong = { beyond, 2, 2 };
    q = good, q.prediction = &wrong;
    expect_refused(w->en, &q, ERR_REQUEST, "token 1 of the prediction is 4096");
    q = good, q.spec.tree = 32;
    expect_refused(w->en, &q, ERR_REQUEST, "32 nodes");
    q = good, q.spec.min_p = 1.5f;
    expect_refused(w->en, &q, ERR_REQUEST, "1.5");
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
    engine_options chunk = { .prefill_chunk = 257 }, draft_only = { .draft_dir = "somewhere" },
                   isa_name = { .isa = "mmx" };
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
    engine *en = start((engine_options){ .queue_max = 1, .ctx = CTX, .spec = spec_of(SPEC_DEFAULT) });
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
    engine *en = start((engine_options){ .prefill_chunk = 1, .ctx = CTX, .spec = spec_of(SPEC_DEFAULT) });
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
    engine *fresh = start((engine_options){ .ctx = CTX, .spec = spec_of(SPEC_DEFAULT) }); /* nobody may wait */
    question q = ask(&w->tools, 60, 7);
    answer cold = get_answer(fresh, &q), a = { 0 };
    question other = endless(&w->completion);
    other.spec = spec_of(15);
    MUST(submit(fresh, &other, &a, e));
    wait_for(fresh, &a.steps, 5);
    engine_cancel(fresh, a.id);
    wait_for(fresh, &a.last, 1);
    check_cancelled(fresh, &a);
    assert_true(a.totals.generated >= 5);
    assert_int_equal(a.totals.generated, a.ids.n);
    answer warm = get_answer(fresh, &q);
    check_same(&warm, &cold, "after a cancelled request", q.spec.tokens);
    engine_close(fresh);
    answer_free(&cold);
    answer_free(&warm);
    answer_free(&a);
}

/* ---- calls ---- */

static const reply_tool TOOL = { .name = { "read_file", 9 } };
enum { ID_CALL_END = 26 };

static question ask_for_call(const world *w, int32_t max_new) {
    question q = ask(&w->tools, max_new, 7);
    q.reply.tools = &TOOL, q.reply.n_tools = 1;
    return q;
}

static void expect_object(const answer *a) {
    json_t *v = json_loadb(a->arguments.data, a->arguments.len, 0, NULL);
    if (!json_is_object(v)) fail_msg("arguments %.*s", STR_ARG(buf_view(&a->arguments)));
    json_decref(v);
}

static void test_one_call(void **state) {
    world *w = *state;
    question q = ask_for_call(w, 100);
    q.reply.one_call = true;
    answer a = get_answer(w->en, &q);
    assert_int_equal(a.why, DONE_CALL);
    assert_int_equal(a.calls, 1);
    assert_int_equal(a.complete, 1);
    assert_int_equal(a.ids.ids[a.ids.n - 1], ID_CALL_END);
    assert_int_equal(a.totals.generated, a.ids.n);
    expect_object(&a);
    answer_free(&a);
}

/* The tag that ends a call is never chosen, so every end of the answer cuts it. */
static void test_cut_call(void **state) {
    world *w = *state;
    const token_bias never = { ID_CALL_END, -INFINITY };
    question q = ask_for_call(w, 40);
    q.pick.bias = &never, q.pick.n_bias = 1;
    q.reply.ignore_end = true;
    answer limited = get_answer(w->en, &q), a = { 0 };
    assert_int_equal(limited.why, DONE_LENGTH);
    assert_int_equal(limited.calls, 1);
    assert_int_equal(limited.call_ends, 1);
    assert_int_equal(limited.complete, 0);
    for (size_t i = 0; i < limited.ids.n; i++) assert_int_not_equal(limited.ids.ids[i], ID_CALL_END);
    expect_object(&limited);
    q.max_new = CTX;
    MUST(submit(w->en, &q, &a, e));
    wait_for(w->en, &a.calls, 1);
    engine_cancel(w->en, a.id);
    wait_for(w->en, &a.last, 1);
    check_cancelled(w->en, &a);
    assert_int_equal(a.call_ends, 1);
    assert_int_equal(a.complete, 0);
    expect_object(&a);
    answer_free(&limited);
    answer_free(&a);
}

static void test_close_while_busy(void **state) {
    world *w = *state;
    engine *en = start((engine_options){ .queue_max = 3, .ctx = CTX, .spec = spec_of(SPEC_DEFAULT) });
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

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_refused),      cmocka_unit_test(test_open_refused),
                                        cmocka_unit_test(test_queue),        cmocka_unit_test(test_cancel_prefill),
                                        cmocka_unit_test(test_after_cancel), cmocka_unit_test(test_one_call),
                                        cmocka_unit_test(test_cut_call),     cmocka_unit_test(test_close_while_busy) };
    return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
