/* The texts of the engine, on the demo pair: they do not depend on the width, they end where they should, and the
 * numbers reported with them add up. */
#include "tests/model/engine_fixture.h"

#include "engine/text/chat.h"

static const int32_t WIDTHS[] = { 0, 1, 3, 7, 15 };
enum { N_WIDTHS = sizeof WIDTHS / sizeof WIDTHS[0] };

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

/* The reference's own answers. */
static void test_golden(void **state) {
    world *w = *state;
    const token_list *prompts[] = { &w->code, &w->tools, &w->thinking, &w->completion };
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "p%d.greedy_ids", i);
        token_list want = golden_ids(name);
        question q = ask(prompts[i], (int32_t)want.n, SPEC_DEFAULT);
        answer got = get_answer(w->en, &q);
        assert_int_equal(got.ids.n, want.n);
        assert_memory_equal(got.ids.ids, want.ids, want.n * sizeof *want.ids);
        token_list_free(&want);
        answer_free(&got);
    }
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

static void check_stop(engine *en, question q, const answer *whole, str stop) {
    str stops[2] = { STR("never in an answer"), stop }, text = buf_view(&whole->text);
    const char *found = memmem(text.p, text.n, stop.p, stop.n);
    str want = { text.p, (size_t)(found - text.p) };
    q.reply.stop = stops, q.reply.n_stop = 2;
    for (int i = 0; i < N_WIDTHS; i++) {
        q.width = WIDTHS[i];
        answer got = get_answer(en, &q);
        if (got.why != DONE_STOP || !str_eq(buf_view(&got.text), want))
            fail_msg("stop \"%.*s\", %d proposals: ended by %d with \"%.*s\", expected \"%.*s\"", STR_ARG(stop),
                     q.width, got.why, STR_ARG(buf_view(&got.text)), STR_ARG(want));
        assert_int_equal(got.totals.stop_index, 1);
        assert_true(got.ids.n <= whole->ids.n);
        assert_memory_equal(got.ids.ids, whole->ids.ids, got.ids.n * sizeof(int32_t));
        check_totals(&got, &q);
        answer_free(&got);
    }
}

/* Stop strings of three bytes cut out of answers at many places; the first place where one stands counts. */
static void test_stops(void **state) {
    world *w = *state;
    const token_list *prompts[] = { &w->code, &w->tools };
    for (int i = 0; i < 2; i++) {
        question q = ask(prompts[i], 60, 0);
        answer whole = get_answer(w->en, &q);
        str text = buf_view(&whole.text);
        assert_true(text.n > 40);
        for (size_t at = 0; at + 3 <= text.n; at += text.n / 11) check_stop(w->en, q, &whole, (str){ text.p + at, 3 });
        answer_free(&whole);
    }
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

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_facts),         cmocka_unit_test(test_widths),
                                        cmocka_unit_test(test_widths_seeded), cmocka_unit_test(test_golden),
                                        cmocka_unit_test(test_max_new),       cmocka_unit_test(test_stops),
                                        cmocka_unit_test(test_end_token),     cmocka_unit_test(test_long_prompt) };
    return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
