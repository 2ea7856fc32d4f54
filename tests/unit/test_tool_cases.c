/* engine/core/reply with tools: the stream cases about calls, as streams and whole, whatever way a text is cut into
 * tokens; calls that come back as history. */
#include "tests/unit/tool_fixture.h"

#include <stdlib.h>

/* ---- cases ---- */

/* What the deltas up to a step demand must be out by then; a name never before the case says so: there it is complete
 * at the earliest. */
static void check_deltas(const json_t *deltas, size_t steps, const run *r, const char *name) {
    size_t due[2] = { 0 }, calls = 0, i, k;
    const json_t *step, *delta;
    if (!deltas) return;
    json_array_foreach(deltas, i, step) {
        if (i >= steps) break;
        json_array_foreach(step, k, delta) {
            due[0] += fixture_str(delta, "reasoning").n;
            due[1] += fixture_str(delta, "content").n;
            calls += json_object_get(delta, "name") != NULL;
        }
    }
    stream s = stream_of(r);
    if (s.text.reasoning.len < due[0] || s.text.content.len < due[1] || s.n_calls < calls)
        fail_msg("%s: step %zu is late", name, steps);
    answer_free(&s.text);
}

static bool calls_are(const answer *a, const json_t *want) {
    if (json_array_size(want) != a->n_calls) return false;
    for (size_t i = 0; i < a->n_calls; i++) {
        const json_t *call = json_array_get(want, i);
        if (!str_eq(buf_view(&a->calls[i].name), fixture_str(call, "name"))) return false;
        if (!same_json(buf_view(&a->calls[i].arguments), fixture_str(call, "arguments"))) return false;
    }
    return true;
}

static bool outcome_is(const answer *a, const json_t *want) {
    const char *finish = a->n_calls ? "tool_calls" : "stop";
    return json_object_get(want, "content") && str_eq(buf_view(&a->reasoning), fixture_str(want, "reasoning")) &&
           str_eq(buf_view(&a->content), fixture_str(want, "content")) &&
           calls_are(a, json_object_get(want, "tool_calls")) &&
           str_eq(str_of(finish), fixture_str(want, "finish_reason"));
}

static void check_outcome(const answer *a, const json_t *want, const char *name) {
    const json_t *choice;
    size_t i;
    bool fine = outcome_is(a, want);
    json_array_foreach(json_object_get(want, "one_of"), i, choice) fine |= outcome_is(a, choice);
    if (!fine)
        fail_msg("%s: reasoning \"%.*s\", content \"%.*s\", %zu calls, arguments %.*s", name,
                 STR_ARG(buf_view(&a->reasoning)), STR_ARG(buf_view(&a->content)), a->n_calls,
                 STR_ARG(a->n_calls ? buf_view(&a->calls[0].arguments) : STR("")));
}

static void check_item(const json_t *item, const char *name, cut how) {
    str stops[STOPS_MAX];
    reply_options opt = case_options(item, stops);
    set_tools(&opt, json_object_get(item, "tools"));
    run r = run_new(opt);
    const json_t *step, *token;
    size_t i, k;
    json_array_foreach(json_object_get(item, "steps"), i, step) {
        token_list ids = { 0 };
        json_array_foreach(step, k, token) put_case_token(&ids, token, how);
        run_push(&r, &ids);
        token_list_free(&ids);
        check_deltas(json_object_get(item, "deltas"), i + 1, &r, name);
    }
    run_finish(&r, false);
    stream s = stream_of(&r);
    check_outcome(&r.text, json_object_get(item, "expect"), name);
    check_outcome(&s.text, json_object_get(item, "expect"), name);
    answer_free(&s.text);
    run_deinit(&r);
}

static void check_file(const char *stem, size_t items) {
    char path[128], name[128];
    snprintf(path, sizeof path, "tests/cases/streams/%s.json", stem);
    json_t *file = fixture_json(path), *item;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(file, "items")), items);
    json_array_foreach(json_object_get(file, "items"), i, item) {
        snprintf(name, sizeof name, "%.3s/%s", stem, json_string_value(json_object_get(item, "name")));
        for (cut how = 0; how < CUTS; how++) check_item(item, name, how);
    }
    json_decref(file);
}

static void test_text_that_looks_like_a_call(void **state) {
    (void)state;
    check_file("C06-untagged-json", 6);
}

static void test_calls_without_arguments(void **state) {
    (void)state;
    check_file("C07-no-argument-call", 8);
}

static void test_argument_types(void **state) {
    (void)state;
    check_file("C08-argument-types", 18);
}

static void test_calls_in_open_thinking(void **state) {
    (void)state;
    check_file("C09-call-in-open-thinking", 8);
}

static void test_nothing_is_held_back(void **state) {
    (void)state;
    check_file("C10-four-combinations", 9);
}

static void test_call_deltas(void **state) {
    (void)state;
    check_file("C13-call-deltas", 5);
}

/* ---- calls in the history ---- */

static status render(const json_t *messages, buf *out) {
    const json_t *tools = json_object_get(fixture_tools, "tools");
    json_t *kwargs = json_pack("{sb}", "enable_thinking", 0);
    err e;
    status s =
        chat_render(tm, &(chat_request){ .messages = messages, .tools = tools, .kwargs = kwargs }, out, NULL, &e);
    json_decref(kwargs);
    return s;
}

static void test_history_cases(void **state) {
    (void)state;
    json_t *file = fixture_json("tests/cases/requests/C02-history-arguments.json"), *item, *choice;
    size_t i, k, n = 0;
    json_array_foreach(json_object_get(file, "items"), i, item) {
        const json_t *want = json_object_get(item, "expect");
        buf prompt = { 0 };
        bool rendered = render(json_object_get(json_object_get(item, "body"), "messages"), &prompt) == OK, fine = false;
        json_t *wants =
            json_object_get(want, "one_of") ? json_incref(json_object_get(want, "one_of")) : json_pack("[O]", want);
        json_array_foreach(wants, k, choice) {
            str part = fixture_str(choice, "prompt_contains");
            bool accepted = json_integer_value(json_object_get(choice, "status")) == 200;
            fine |= accepted == rendered && (!rendered || !part.p || memmem(prompt.data, prompt.len, part.p, part.n));
        }
        if (!fine) fail_msg("C02/%s: %s", fixture_str(item, "name").p, rendered ? buf_cstr(&prompt) : "refused");
        json_decref(wants);
        buf_free(&prompt);
        n++;
    }
    json_decref(file);
    assert_true(n >= 15);
}

/* A call that goes back as history and is read again is the same call. */
static void test_round_trips(void **state) {
    (void)state;
    json_t *file = fixture_json("tests/cases/requests/C02-history-arguments.json"), *item;
    size_t i;
    json_array_foreach(json_object_get(file, "round_trip"), i, item) {
        const json_t *call = json_object_get(item, "call");
        json_t *messages = json_pack("[{ss,ss},{ss,s[{sO}]}]", "role", "user", "content", "u", "role", "assistant",
                                     "tool_calls", "function", call);
        buf prompt = { 0 };
        assert_int_equal(render(messages, &prompt), OK);
        const char *from = strstr(buf_cstr(&prompt), "<assistant></think>");
        assert_non_null(from);
        for (cut how = 0; how < CUTS; how++) {
            reply_options opt = { 0 };
            set_tools(&opt, json_object_get(fixture_tools, "tools"));
            run r = run_new(opt);
            token_list ids = { 0 };
            put_text(&ids, str_of(from + strlen("<assistant></think>")), how);
            run_push(&r, &ids);
            char *want = json_dumps(json_object_get(call, "arguments"), 0);
            assert_int_equal(r.state, REPLY_ENDED);
            assert_int_equal(r.text.n_calls, 1);
            assert_true(str_eq(buf_view(&r.text.calls[0].name), fixture_str(call, "name")));
            assert_true(same_json(buf_view(&r.text.calls[0].arguments), str_of(want)));
            free(want);
            token_list_free(&ids);
            run_deinit(&r);
        }
        json_decref(messages);
        buf_free(&prompt);
    }
    assert_int_equal(i, 5);
    json_decref(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_that_looks_like_a_call),
        cmocka_unit_test(test_calls_without_arguments),
        cmocka_unit_test(test_argument_types),
        cmocka_unit_test(test_calls_in_open_thinking),
        cmocka_unit_test(test_nothing_is_held_back),
        cmocka_unit_test(test_call_deltas),
        cmocka_unit_test(test_history_cases),
        cmocka_unit_test(test_round_trips),
    };
    return cmocka_run_group_tests(tests, setup_tools, teardown_tools);
}
