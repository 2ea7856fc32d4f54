/* engine/text/grammar and grammar_run: white space, states, trimming, sets of positions. */
#include "tests/unit/grammar_fixture.h"

#include <stdlib.h>

static void test_any_object(void **state) {
    (void)state;
    grammar *g = grammar_any_object();
    assert_allows(g, "{}");
    assert_allows(g, "{\"a\": {\"a\": 1, \"b\": [null, true, false, -0.5e+10]}}");
    assert_refuses(g, "[]");
    assert_refuses(g, "{} ");
    assert_refuses(g, " {}");
    assert_refuses(g, "");
    grammar_free(g);
}

static void test_white_space(void **state) {
    (void)state;
    grammar *g = grammar_any_object();
    assert_allows(g, "{ \"a\": [ 1, 2 ], \"b\":\n1 }");
    assert_allows(g, "{\n  \"a\": [\n    1,\n    2\n  ]\n}");
    assert_allows(g, "{\n\t\"a\": 1\n}");
    assert_refuses(g, "{  \"a\": 1}");
    assert_refuses(g, "{\n\n\"a\": 1}");
    assert_refuses(g, "{\n \t\"a\": 1}");
    assert_refuses(g, "{\t\"a\": 1}");
    assert_refuses(g, "{\r\n\"a\": 1}");
    assert_refuses(g, "{\"a\" : 1}");
    assert_refuses(g, "{\"a\": 1 , \"b\": 2}");
    buf text = { 0 };
    for (int tab = 0; tab < 2; tab++)
        for (int over = 0; over < 2; over++) {
            buf_clear(&text);
            buf_str(&text, STR("{\n"));
            for (int i = 0; i < (tab ? GRAMMAR_TABS : GRAMMAR_INDENT) + over; i++) buf_byte(&text, tab ? '\t' : ' ');
            buf_str(&text, STR("\"a\": 1}"));
            assert_int_equal(allows(g, buf_view(&text)), !over);
        }
    buf_free(&text);
    grammar_free(g);
}

static grammar_state step_all(grammar_run *r, grammar_state s, const char *text) {
    for (; *text && s; text++) s = grammar_run_step(r, s, (uint8_t)*text);
    return s;
}

/* What may follow is the same: so is the state. Where it differs, so does the state. */
static void test_equal_states_have_equal_numbers(void **state) {
    (void)state;
    grammar *g = grammar_any_object();
    grammar_run *r = grammar_run_new(g);
    grammar_state s = grammar_run_start(r);
    grammar_state a = step_all(r, s, "{\"a\": [1, {\"x\": \"some text"),
                  b = step_all(r, s, "{\"long name\":[null,\"\",{\n\"y\": \"z");
    assert_int_not_equal(a, GRAMMAR_DEAD);
    assert_int_equal(a, b);
    assert_int_not_equal(a, step_all(r, s, "{\"a\": [1, {\"x\": [\"z"));
    assert_int_not_equal(a, step_all(r, s, "{\"a\": {\"x\": \"z"));
    assert_int_equal(step_all(r, s, "{\"a\": 1x"), GRAMMAR_DEAD);
    assert_int_equal(grammar_run_step(r, GRAMMAR_DEAD, '{'), GRAMMAR_DEAD);
    assert_false(grammar_run_ends(r, GRAMMAR_DEAD));
    grammar_run_free(r);
    grammar_free(g);
}

/* A long list is walked with little memory: its states repeat. */
static void test_lists_repeat_their_states(void **state) {
    (void)state;
    grammar *g = schema_grammar("{\"items\": {\"type\": \"string\", \"minLength\": 2}, \"minItems\": 3}");
    grammar_run *r = grammar_run_new(g);
    grammar_state s = step_all(r, grammar_run_start(r), "[\"ab\",\"abcdefgh\",\"ab\"");
    grammar_state again = step_all(r, s, ",\"abcdefgh\"");
    assert_int_equal(s, again);
    grammar_run_free(r);
    grammar_free(g);
}

static void test_trim_keeps_what_is_given(void **state) {
    (void)state;
    grammar *g = schema_grammar(
        "{\"items\": {\"anyOf\": [{\"type\": \"integer\", \"minimum\": 3}, {\"items\": {\"$ref\": \"#\"}}, {\"type\": "
        "\"array\", \"maxItems\": 2}]}}");
    grammar_run *r = grammar_run_new(g);
    grammar_state start = grammar_run_start(r),
                  states[4] = { start, step_all(r, start, "[[[[1],"), GRAMMAR_DEAD, step_all(r, start, "[1234, [") };
    char digits[8];
    for (int i = 0; i < 30000; i++) { /* states that nobody needs */
        snprintf(digits, sizeof digits, "[%d", 3 + i);
        assert_int_not_equal(step_all(r, start, digits), GRAMMAR_DEAD);
    }
    grammar_run_trim(r, states, 4);
    assert_int_equal(states[2], GRAMMAR_DEAD);
    assert_int_equal(step_all(r, states[0], "[[[[1],"), states[1]);
    assert_int_equal(step_all(r, states[0], "[1234, ["), states[3]);
    assert_true(grammar_run_ends(r, step_all(r, states[1], "[]]]]")));
    assert_true(grammar_run_ends(r, step_all(r, states[3], "]]")));
    assert_false(grammar_run_is_big(r));
    grammar_run_free(r);
    grammar_free(g);
}

static void test_runs_tell_when_they_are_big(void **state) {
    (void)state;
    grammar *g = schema_grammar("{\"type\": \"integer\", \"minimum\": 0}");
    grammar_run *r = grammar_run_new(g);
    grammar_state s = grammar_run_start(r);
    char digits[16];
    int i = 0;
    for (; !grammar_run_is_big(r) && i < 1000000; i++) {
        snprintf(digits, sizeof digits, "%d", i);
        assert_int_not_equal(step_all(r, s, digits), GRAMMAR_DEAD);
    }
    assert_true(grammar_run_is_big(r));
    grammar_run_trim(r, &s, 1);
    assert_false(grammar_run_is_big(r));
    assert_true(grammar_run_ends(r, step_all(r, s, "77")));
    grammar_run_free(r);
    grammar_free(g);
}

/* Two readings at each level: 2^depth of them are cut to GRAMMAR_SET_MAX, and the text can still be ended. */
static void test_ambiguous_grammars_stay_small(void **state) {
    (void)state;
    grammar *g = schema_grammar(
        "{\"anyOf\": [{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}, {\"type\": \"array\", \"maxItems\": 9, "
        "\"items\": {\"$ref\": \"#\"}}]}");
    grammar_run *r = grammar_run_new(g);
    grammar_state s = grammar_run_start(r);
    for (int i = 0; i < 60; i++) s = grammar_run_step(r, s, '[');
    assert_int_not_equal(s, GRAMMAR_DEAD);
    for (int i = 0; i < 60; i++) s = grammar_run_step(r, s, ']');
    assert_true(grammar_run_ends(r, s));
    grammar_run_free(r);
    grammar_free(g);
}

/* The alternatives go separate ways and meet again. */
static void test_alternatives_are_followed_together(void **state) {
    (void)state;
    grammar *g = schema_grammar(
        "{\"anyOf\": [{\"type\": \"string\", \"maxLength\": 3}, {\"enum\": [\"abcdef\", \"abx\"]}, {\"pattern\": "
        "\"^[a-c]+z$\"}]}");
    assert_allows(g, "\"abc\"");
    assert_allows(g, "\"abcdef\"");
    assert_allows(g, "\"abcabcz\"");
    assert_refuses(g, "\"abcd\"");
    assert_refuses(g, "\"abcabc\"");
    grammar_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_object),
        cmocka_unit_test(test_white_space),
        cmocka_unit_test(test_equal_states_have_equal_numbers),
        cmocka_unit_test(test_lists_repeat_their_states),
        cmocka_unit_test(test_trim_keeps_what_is_given),
        cmocka_unit_test(test_runs_tell_when_they_are_big),
        cmocka_unit_test(test_ambiguous_grammars_stay_small),
        cmocka_unit_test(test_alternatives_are_followed_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
