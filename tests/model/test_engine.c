/* The texts of the engine, on the demo pair: they do not depend on the width, they end where they should, and the
 * numbers reported with them add up. */
#include "tests/model/engine_fixture.h"

#include "engine/text/chat.h"

#include <math.h>

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
    assert_true(f->spec.mode == SPEC_FIXED && f->spec.tokens == 7 && f->spec.tree == 0);
}

static void check_widths(world *w, question q, const char *what) {
    q.spec = spec_of(0);
    answer want = get_answer(w->en, &q);
    check_totals(&want, &q);
    assert_int_equal(want.totals.rounds, 0);
    assert_true(want.ids.n > 1);
    for (int i = 0; i <= N_WIDTHS; i++) {
        q.spec = spec_of(i < N_WIDTHS ? WIDTHS[i] : SPEC_DEFAULT);
        answer got = get_answer(w->en, &q);
        check_same(&got, &want, what, q.spec.tokens);
        check_totals(&got, &q);
        if (q.spec.tokens) assert_true(got.totals.rounds > 0);
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

static void test_widths_penalties(void **state) {
    world *w = *state;
    question q = ask(&w->code, 80, 0);
    answer free_of = get_answer(w->en, &q);
    q.pick.repeat = 1.5f, q.pick.presence = 1.0f, q.pick.frequency = 0.2f;
    check_widths(w, q, "penalties, greedy");
    answer bound = get_answer(w->en, &q);
    assert_false(str_eq(buf_view(&bound.text), buf_view(&free_of.text)));
    q.pick.temperature = 0.8f, q.pick.top_k = 60, q.pick.seed = 4;
    check_widths(w, q, "penalties, seed 4");
    /* The same again and again, never for sure: whether a token stands on the path decides. */
    q.pick = (pick_options){ .temperature = 1.2f, .top_p = 1.0f, .seed = 4, .frequency = -0.5f };
    q.reply.ignore_end = true, q.max_new = 150;
    check_widths(w, q, "negative penalty, seed 4");
    answer_free(&free_of);
    answer_free(&bound);
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
            q.max_new = MOST[i], q.spec = spec_of(WIDTHS[j]);
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
        q.spec = spec_of(WIDTHS[i]);
        answer got = get_answer(en, &q);
        if (got.why != DONE_STOP || !str_eq(buf_view(&got.text), want))
            fail_msg("stop \"%.*s\", %d proposals: ended by %d with \"%.*s\", expected \"%.*s\"", STR_ARG(stop),
                     q.spec.tokens, got.why, STR_ARG(buf_view(&got.text)), STR_ARG(want));
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

/* ---- wishes about single tokens ---- */

static bool has_token(const answer *a, int32_t token) {
    for (size_t i = 0; i < a->ids.n; i++)
        if (a->ids.ids[i] == token) return true;
    return false;
}

static void test_bias(void **state) {
    world *w = *state;
    question q = ask(&w->code, 24, 0);
    answer whole = get_answer(w->en, &q);
    token_bias forced[] = { { 777, 60.0f }, { 777, 40.0f } }, forbidden[] = { { 5, 1.0f }, { whole.ids.ids[0], -100 } };
    assert_false(has_token(&whole, 777));
    for (int i = 0; i < N_WIDTHS; i++) {
        q.spec = spec_of(WIDTHS[i]);
        q.pick.bias = forced, q.pick.n_bias = 2;
        answer got = get_answer(w->en, &q);
        assert_int_equal(got.ids.n, 24);
        for (size_t t = 0; t < got.ids.n; t++) assert_int_equal(got.ids.ids[t], 777);
        answer_free(&got);
    }
    q.pick.bias = forbidden;
    check_widths(w, q, "a token forbidden");
    answer got = get_answer(w->en, &q);
    assert_false(has_token(&got, whole.ids.ids[0]));
    answer_free(&got);
    answer_free(&whole);
}

/* End tokens are masked while fewer tokens were emitted, and not a token longer. */
static void test_min_new(void **state) {
    world *w = *state;
    question q = ask(&w->code, 200, 0);
    answer ended = get_answer(w->en, &q);
    int32_t end = ended.totals.end_token, n = (int32_t)ended.ids.n;
    assert_int_equal(ended.why, DONE_END);
    token_bias bias = { end, 100.0f };
    for (int i = 0; i < N_WIDTHS; i++) {
        q = ask(&w->code, 200, WIDTHS[i]);
        q.pick.min_new = n - 1; /* as many as there are before the end token */
        answer got = get_answer(w->en, &q);
        check_same(&got, &ended, "as long as it is", WIDTHS[i]);
        answer_free(&got);
        q.pick.min_new = n + 9;
        got = get_answer(w->en, &q);
        assert_true((int32_t)got.ids.n >= n + 9);
        assert_memory_equal(got.ids.ids, ended.ids.ids, (size_t)(n - 1) * sizeof(int32_t));
        for (int32_t t = 0; t < n + 9; t++) assert_false(text_is_end(engine_get_text(w->en), got.ids.ids[t]));
        check_totals(&got, &q);
        answer_free(&got);
        q.pick.min_new = 6, q.pick.bias = &bias, q.pick.n_bias = 1; /* it wants to end at once */
        got = get_answer(w->en, &q);
        assert_int_equal(got.ids.n, 7);
        assert_int_equal(got.totals.end_token, end);
        answer_free(&got);
        q.reply.ignore_end = true, q.max_new = 8; /* end tokens are ordinary */
        got = get_answer(w->en, &q);
        assert_int_equal(got.ids.ids[0], end);
        answer_free(&got);
    }
    answer_free(&ended);
}

static void refuse(engine *en, question q, const char *field) {
    answer a = { 0 };
    err e = { 0 };
    assert_int_equal(submit(en, &q, &a, &e), ERR_REQUEST);
    if (!strstr(e.text, field)) fail_msg("\"%s\" does not name %s", e.text, field);
}

static void test_ranges(void **state) {
    world *w = *state;
    const question fine = ask(&w->code, 4, 0);
    token_bias one = { 5, 1.0f };
    question q = fine;
    for (int i = 0; i < 3; i++) {
        q = fine, q.pick.repeat = ((float[]){ -0.1f, 10.1f, NAN })[i], refuse(w->en, q, "repetition_penalty");
        q = fine, q.pick.presence = ((float[]){ -2.1f, 2.1f, NAN })[i], refuse(w->en, q, "presence_penalty");
        q = fine, q.pick.frequency = ((float[]){ -2.1f, 2.1f, NAN })[i], refuse(w->en, q, "frequency_penalty");
        q = fine, q.pick.bias = &one, q.pick.n_bias = 1;
        one = (token_bias){ 5, ((float[]){ -100.5f, 101.0f, NAN })[i] }, refuse(w->en, q, "logit_bias");
        one = (token_bias){ ((int32_t[]){ -1, 4096, INT32_MAX })[i], 1.0f }, refuse(w->en, q, "logit_bias");
    }
    q = fine, q.pick.n_bias = BIAS_MAX + 1, refuse(w->en, q, "logit_bias");
    q = fine, q.pick.min_new = -1, refuse(w->en, q, "min_tokens");
    q = fine, q.pick.min_new = 5, refuse(w->en, q, "min_tokens");
    q = fine, q.logprobs = -2, refuse(w->en, q, "top_logprobs");
    q = fine, q.logprobs = LOGPROBS_MAX + 1, refuse(w->en, q, "top_logprobs");
}

/* ---- log-probabilities ---- */

static void check_logprobs(const answer *a, int32_t n_top, const text_model *tm) {
    const token_logprobs *l = (const token_logprobs *)(const void *)a->logprobs.data;
    assert_int_equal(a->logprobs.len, a->ids.n * sizeof *l);
    for (size_t i = 0; i < a->ids.n; i++) {
        double mass = 0.0;
        assert_int_equal(l[i].n_top, n_top);
        assert_int_equal(l[i].in_content, !text_is_end(tm, a->ids.ids[i]));
        assert_true(l[i].logprob <= 0.0f);
        for (int32_t k = 0; k < n_top; k++) {
            mass += exp((double)l[i].top[k].logprob);
            if (k) assert_true(l[i].top[k].logprob <= l[i].top[k - 1].logprob);
            if (l[i].top[k].token == a->ids.ids[i]) assert_true(l[i].top[k].logprob == l[i].logprob);
        }
        assert_true(mass < 1.00001);
    }
}

/* The same for every width; what bends the choice does not bend what is told. */
static void test_logprobs(void **state) {
    world *w = *state;
    static const int32_t TOPS[] = { 0, 3, LOGPROBS_MAX };
    for (int t = 0; t < 3; t++) {
        question q = ask(&w->code, 60, 0);
        q.logprobs = TOPS[t];
        q.pick = (pick_options){ .temperature = 0.9f, .top_p = 0.9f, .seed = 5, .repeat = 1.2f, .presence = 0.5f };
        answer plain = get_answer(w->en, &q);
        check_logprobs(&plain, TOPS[t], engine_get_text(w->en));
        for (int i = 1; i < N_WIDTHS; i++) {
            q.spec = spec_of(WIDTHS[i]);
            answer got = get_answer(w->en, &q);
            check_same(&got, &plain, "log-probabilities", q.spec.tokens);
            assert_int_equal(got.logprobs.len, plain.logprobs.len);
            assert_memory_equal(got.logprobs.data, plain.logprobs.data, plain.logprobs.len);
            answer_free(&got);
        }
        answer_free(&plain);
    }
}

/* Greedy and undisturbed, the token chosen is the likeliest; none is told unasked; reasoning is not content. */
static void test_logprobs_parts(void **state) {
    world *w = *state;
    question q = ask(&w->thinking, 300, 7);
    answer silent = get_answer(w->en, &q);
    assert_int_equal(silent.logprobs.len, 0);
    q.reply.start = REPLY_REASONING;
    q.logprobs = 1;
    answer got = get_answer(w->en, &q);
    const token_logprobs *l = (const token_logprobs *)(const void *)got.logprobs.data;
    int32_t content = 0;
    for (size_t i = 0; i < got.ids.n; i++) {
        assert_int_equal(l[i].top[0].token, got.ids.ids[i]);
        assert_int_equal(l[i].in_content, (int32_t)i >= got.totals.reasoning && got.ids.ids[i] != got.totals.end_token);
        content += l[i].in_content;
    }
    assert_true(content > 0 && got.totals.reasoning > 0);
    answer_free(&silent);
    answer_free(&got);
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
        check_same(&got, &plain, "4000 tokens", q.spec.tokens);
        answer_free(&got);
    }
    answer_free(&plain);
    token_list_free(&prompt);
}

/* The draft, looking up, both, chains and trees: other speed, same text. The prompt says everything three times, so
 * that there is something to copy. */
static void test_proposers(void **state) {
    world *w = *state;
    token_list prompt = { 0 };
    for (int i = 0; i < 3; i++)
        for (size_t j = 0; j < w->code.n; j++) token_list_push(&prompt, w->code.ids[j]);
    static const engine_options KINDS[] = {
        { .proposers = PROPOSE_LOOKUP, .spec = { SPEC_FIXED, 7, 0, 0 } },
        { .proposers = PROPOSE_DRAFT + PROPOSE_LOOKUP, .spec = { SPEC_FIXED, 7, 0, 0 } },
        { .proposers = PROPOSE_DRAFT, .spec = { SPEC_FIXED, 7, 12, 0 } },
        { .proposers = PROPOSE_DRAFT + PROPOSE_LOOKUP, .spec = { SPEC_FIXED, 15, 31, 0.05f } },
        { .proposers = PROPOSE_LOOKUP, .spec = { SPEC_AUTO, SPEC_DEFAULT, SPEC_DEFAULT, 0 } },
        { .proposers = PROPOSE_DRAFT + PROPOSE_LOOKUP, .spec = { SPEC_AUTO, SPEC_DEFAULT, SPEC_DEFAULT, 0 } },
    };
    for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++) {
        engine_options o = KINDS[k];
        o.ctx = CTX;
        engine *en = start(o);
        for (uint64_t seed = 0; seed < 3; seed++) { /* 0: greedy */
            question q = ask(&prompt, 150, 0);
            if (seed) q.pick = (pick_options){ .temperature = 0.8f, .top_p = 0.95f, .seed = seed };
            q.reply.ignore_end = true;
            answer want = get_answer(w->en, &q);
            q.spec = spec_of(SPEC_DEFAULT);
            answer got = get_answer(en, &q);
            check_same(&got, &want, "proposers", (int32_t)k);
            check_totals(&got, &q);
            bool looks_up = o.proposers & PROPOSE_LOOKUP, drafts = o.proposers & PROPOSE_DRAFT;
            if (o.spec.mode == SPEC_FIXED) { /* auto: as far as it pays */
                assert_true((got.totals.lookup_accepted > 0) == looks_up);
                assert_true((got.totals.draft_accepted > 0) == drafts);
            }
            answer_free(&want);
            answer_free(&got);
        }
        engine_close(en);
    }
    token_list_free(&prompt);
}

/* What was predicted is copied, as far as it comes true; the text stays the same. */
static void test_prediction(void **state) {
    world *w = *state;
    engine *en = start((engine_options){ .ctx = CTX, .proposers = PROPOSE_LOOKUP, .spec = { SPEC_FIXED, 7, 0, 0 } });
    question q = ask(&w->code, 100, SPEC_DEFAULT);
    q.reply.ignore_end = true;
    answer alone = get_answer(en, &q);
    token_list half = { alone.ids.ids, alone.ids.n / 2, alone.ids.n };
    const token_list *predictions[] = { &alone.ids, &half, &w->tools };
    int32_t steps[3];
    for (int i = 0; i < 3; i++) {
        q.prediction = predictions[i];
        answer got = get_answer(en, &q);
        check_same(&got, &alone, "a prediction", i);
        steps[i] = got.totals.steps;
        answer_free(&got);
    }
    assert_true(steps[0] <= 25); /* nearly eight tokens a step */
    assert_true(steps[1] < alone.totals.steps && steps[0] < steps[1]);
    answer_free(&alone);
    engine_close(en);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_facts),
                                        cmocka_unit_test(test_widths),
                                        cmocka_unit_test(test_widths_seeded),
                                        cmocka_unit_test(test_golden),
                                        cmocka_unit_test(test_max_new),
                                        cmocka_unit_test(test_stops),
                                        cmocka_unit_test(test_end_token),
                                        cmocka_unit_test(test_long_prompt),
                                        cmocka_unit_test(test_widths_penalties),
                                        cmocka_unit_test(test_bias),
                                        cmocka_unit_test(test_min_new),
                                        cmocka_unit_test(test_ranges),
                                        cmocka_unit_test(test_logprobs),
                                        cmocka_unit_test(test_logprobs_parts),
                                        cmocka_unit_test(test_proposers),
                                        cmocka_unit_test(test_prediction) };
    return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
