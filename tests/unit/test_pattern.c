/* engine/text/pattern: what expressions accept, said by hand; what is refused; size and time. */
#include "tests/unit/grammar_fixture.h"

#include "engine/text/pattern.h"

#include <stdlib.h>

static pattern *make(const char *regex, body_mode mode, int64_t min, int64_t max) {
    pattern *p = NULL;
    err e;
    if (pattern_new(&p, str_of(regex), mode, min, max, &e) != OK) fail_msg("%s: %s", regex, e.text);
    return p;
}

static bool matches(const pattern *p, str text) {
    uint32_t s = pattern_start(p);
    for (size_t i = 0; i < text.n && s; i++) s = pattern_step(p, s, (uint8_t)text.p[i]);
    return pattern_accepts(p, s);
}

/* Texts as they are spelled inside of a JSON string. */
typedef struct row {
    const char *regex, *yes[8], *no[8];
} row;

static const row ROWS[] = {
    { "^abc$", { "abc" }, { "", "ab", "abcd", "xabc" } },
    { "abc", { "abc", "xxabcxx", "abcabc" }, { "", "ab", "abxc" } },
    { "^abc", { "abc", "abcd" }, { "xabc" } },
    { "abc$", { "abc", "xabc" }, { "abcx" } },
    { "^a|b$", { "a", "axx", "xxb", "b" }, { "", "xa", "bx" } },
    { "^(a|b)*$", { "", "a", "abba" }, { "c", "abc" } },
    { "^(?:ab)+$", { "ab", "abab" }, { "", "aba" } },
    { "^(?<name>x)y$", { "xy" }, { "x" } },
    { "^a{2}$", { "aa" }, { "a", "aaa" } },
    { "^a{2,}$", { "aa", "aaaaa" }, { "a" } },
    { "^a{0,2}b?$", { "", "aa", "aab", "b" }, { "aaa", "bb" } },
    { "^a+?b*?$", { "a", "aabb" }, { "b" } },
    { "^[a-c]$", { "a", "b", "c" }, { "d", "ab", "-" } },
    { "^[^a-c]$", { "d", "é", "\\\"", "\\n", "😀" }, { "a", "", "\\" } },
    { "^[-a]$", { "-", "a" }, { "b" } },
    { "^[a-]$", { "-", "a" }, { "b" } },
    { "^[\\]\\\\]$", { "]", "\\\\" }, { "[" } },
    { "^[\\b]$", { "\\b" }, { "b" } },
    { "^[]$", { NULL }, { "", "a" } },
    { "^[^]$", { "a", "\\n" }, { "" } },
    { "^.$", { "a", "é", "日", "😀", "\\t" }, { "", "\\n", "\\r", "ab", "\xE2\x80\xA8" } },
    { "^\\d\\D$", { "1a", "0é" }, { "11", "aa" } },
    { "^\\w\\W$", { "_-", "A " }, { "__", "-_" } },
    { "^\\s\\S$", { " a", "\\ta", "\\u000ba" }, { "aa", "  " } },
    { "^\\.\\*\\/$", { ".*/" }, { "a*/" } },
    { "^\\x41\\u00e9\\n\\0$", { "Aé\\n\\u0000" }, { "Ae" } },
    { "^é+$", { "é", "éé" }, { "e", "\xC3" } },
    { "^[α-ω]{2}$", { "αω", "λμ" }, { "α", "aω" } },
    { "^[\\u0000-\\uffff]$", { "a", "\xEF\xBF\xBF" }, { "😀" } },
    { "^\\$\\^$", { "$^" }, { "" } },
    { "^a$|^b$", { "a", "b" }, { "ab" } },
    { "^$", { "" }, { "a" } },
    { "", { "", "anything" }, { "\"" } },
};

static void test_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        pattern *p = make(ROWS[i].regex, BODY_JSON, 0, -1);
        for (int k = 0; k < 8; k++) {
            if (ROWS[i].yes[k] && !matches(p, str_of(ROWS[i].yes[k])))
                fail_msg("%s does not accept %s", ROWS[i].regex, ROWS[i].yes[k]);
            if (ROWS[i].no[k] && matches(p, str_of(ROWS[i].no[k])))
                fail_msg("%s accepts %s", ROWS[i].regex, ROWS[i].no[k]);
        }
        pattern_free(p);
    }
}

static void test_every_state_leads_to_an_end(void **state) {
    (void)state;
    pattern *p = make("^(ab|ac[^\\d\\D])$", BODY_JSON, 0, -1); /* the second alternative can never end */
    assert_true(matches(p, STR("ab")));
    uint32_t a = pattern_step(p, pattern_start(p), 'a');
    assert_int_not_equal(a, 0);
    assert_int_equal(pattern_step(p, a, 'c'), 0);
    pattern_free(p);
    p = make("^[^\\d\\D]$", BODY_JSON, 0, -1);
    assert_int_equal(pattern_start(p), 0);
    pattern_free(p);
}

static void test_lengths_count_characters(void **state) {
    (void)state;
    pattern *p = make("^[a-zé\\n]*$", BODY_JSON, 2, 4);
    assert_false(matches(p, STR("a")));
    assert_true(matches(p, STR("\\né")));
    assert_true(matches(p, STR("éééé")));
    assert_false(matches(p, STR("ééééé")));
    pattern_free(p);
    p = make("^(aa)*$", BODY_JSON, 3, 3); /* no length fits */
    assert_int_equal(pattern_start(p), 0);
    pattern_free(p);
    p = make("a", BODY_JSON, 3, -1);
    assert_false(matches(p, STR("xa")));
    assert_true(matches(p, STR("xaxxxx")));
    pattern_free(p);
}

static void test_raw_text(void **state) {
    (void)state;
    pattern *p = make("^.*$", BODY_RAW, 0, -1);
    assert_true(matches(p, STR("a\"b\\c < </arg </tool_call")));
    assert_false(matches(p, STR("x</arg_value>y")));
    assert_false(matches(p, STR("x</tool_call>y")));
    assert_true(matches(p, STR("</</arg_value")));
    pattern_free(p);
    p = make("^.*$", BODY_JSON_GUARDED, 0, -1);
    assert_true(matches(p, STR("a\\\"b")));
    assert_false(matches(p, STR("x</arg_value>")));
    pattern_free(p);
}

static void refuse(const char *regex, status code, const char *why) {
    pattern *p = NULL;
    err e;
    assert_int_equal(pattern_new(&p, str_of(regex), BODY_JSON, 0, -1, &e), code);
    assert_null(p);
    if (!strstr(e.text, why)) fail_msg("%s: expected \"%s\" in: %s", regex, why, e.text);
}

static void test_refusals(void **state) {
    (void)state;
    refuse("(?=a)", ERR_UNSUPPORTED, "group at offset 0");
    refuse("a(?<!b)", ERR_UNSUPPORTED, "group at offset 1");
    refuse("(a)\\1", ERR_UNSUPPORTED, "back reference at offset 3");
    refuse("\\bword", ERR_UNSUPPORTED, "escape at offset 0");
    refuse("\\p{L}", ERR_UNSUPPORTED, "escape");
    refuse("x(^a)", ERR_UNSUPPORTED, "anchor");
    refuse("a$b", ERR_UNSUPPORTED, "at offset 1");
    refuse("(a", ERR_REQUEST, "not closed");
    refuse("a)", ERR_REQUEST, "not opened");
    refuse("[a", ERR_REQUEST, "not closed");
    refuse("[b-a]", ERR_REQUEST, "backwards");
    refuse("*a", ERR_REQUEST, "nothing to repeat");
    refuse("a{2,1}", ERR_REQUEST, "backwards");
    refuse("a{99999}", ERR_UNSUPPORTED, "count");
    refuse("\\", ERR_REQUEST, "backslash");
    refuse("\xFF", ERR_REQUEST, "UTF-8");
    refuse("[\\d-z]", ERR_UNSUPPORTED, "class");
}

static void test_large_ones_are_refused(void **state) {
    (void)state;
    refuse("^((a{100}){100}){100}$", ERR_UNSUPPORTED, "more than");
    refuse("((((){9999}){9999}){9999}){9999}", ERR_UNSUPPORTED, "more than");
    refuse("(x|y)*x(x|y){20}", ERR_UNSUPPORTED, "more than"); /* 2^21 states */
    buf deep = { 0 };
    for (int i = 0; i < 100000; i++) buf_byte(&deep, '(');
    refuse(buf_cstr(&deep), ERR_UNSUPPORTED, "deep");
    buf_free(&deep);
    pattern *p = NULL;
    assert_int_equal(pattern_new(&p, STR("a*"), BODY_JSON, 1000000, -1, NULL), ERR_UNSUPPORTED);
}

static void make_long(int n) {
    buf regex = { 0 };
    buf_byte(&regex, '^');
    for (int i = 0; i < n; i++) buf_str(&regex, STR("[a-y0-9é]z?"));
    buf_byte(&regex, '$');
    pattern_free(make(buf_cstr(&regex), BODY_JSON, 0, -1));
    buf_free(&regex);
}

static void test_time_is_linear(void **state) {
    (void)state;
    assert_linear(make_long, 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_every_state_leads_to_an_end),
        cmocka_unit_test(test_lengths_count_characters),
        cmocka_unit_test(test_raw_text),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_large_ones_are_refused),
        cmocka_unit_test(test_time_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
