/* engine/text/toolarg and pyliteral against what Python makes of the same texts. */
#include "tests/unit/json_fixture.h"

#include "engine/text/pyliteral.h"
#include "engine/text/toolarg.h"

#include <string.h>

static json_t *parse(str text) {
    return json_loadb(text.p, text.n, JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
}

static void expect(str text, str want) {
    buf got = { 0 };
    toolarg_put(&got, text);
    json_t *a = parse(buf_view(&got)), *b = parse(want);
    assert_non_null(b);
    if (!a || !json_equal(a, b)) fail_msg("%.*s: expected %.*s, got %s", STR_ARG(text), STR_ARG(want), buf_cstr(&got));
    json_decref(a);
    json_decref(b);
    buf_free(&got);
}

static void test_as_python_reads_it(void **state) {
    (void)state;
    json_t *file = fixture_json("tests/cases/tables/tool-arguments.json"), *row;
    size_t i;
    json_array_foreach(json_object_get(file, "rows"), i, row)
        expect(fixture_str(row, "text"), fixture_str(row, "expect"));
    assert_true(i > 300);
    json_decref(file);
}

static void expect_spelling(const char *text, const char *want) {
    buf got = { 0 };
    toolarg_put(&got, str_of(text));
    assert_string_equal(buf_cstr(&got), want);
    buf_free(&got);
}

/* JSON stays as it is written, and numbers keep their digits. */
static void test_spelling(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { " {\"b\":1.50,  \"a\" : [1e3]}\n", "{\"b\":1.50,  \"a\" : [1e3]}" },
        { "12345678901234567890", "12345678901234567890" },
        { "[1.50, 'a',]", "[1.50, \"a\"]" },
        { "(+1.50, .5, 5., 1_0)", "[1.50, 0.5, 5.0, 10]" },
        { "{'\xC3\xA9': '\\xe9\"'}", "{\"\xC3\xA9\": \"\xC3\xA9\\\"\"}" },
        { " a\tb ", "\"a\\tb\"" },
        { "0x10", "\"0x10\"" },
        { "{'a', 'b'}", "\"{'a', 'b'}\"" },
        { "b'a'", "\"b'a'\"" },
        { "'a' 'b'", "\"'a' 'b'\"" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) expect_spelling(rows[i][0], rows[i][1]);
}

static void expect_depth(char open, char close, size_t depth, bool is_value) {
    buf text = { 0 }, got = { 0 };
    for (size_t i = 0; i < depth; i++) buf_byte(&text, open);
    for (size_t i = 0; i < depth; i++) buf_byte(&text, close);
    toolarg_put(&got, buf_view(&text));
    assert_int_equal(got.data[0] != '"', is_value);
    json_t *v = parse(buf_view(&got));
    assert_non_null(v);
    json_decref(v);
    buf_free(&text);
    buf_free(&got);
}

static void test_depth_is_bounded(void **state) {
    (void)state;
    expect_depth('[', ']', 500, true);
    expect_depth('[', ']', 100000, false);
    expect_depth('(', ')', PYLITERAL_DEPTH_MAX, true);
    expect_depth('(', ')', PYLITERAL_DEPTH_MAX + 1, false);
    expect_depth('(', ')', 100000, false);
}

/* Any bytes of UTF-8, cut anywhere, are JSON afterwards. */
static void test_any_text_becomes_json(void **state) {
    (void)state;
    static const char alphabet[] = "[](){}'\"\\,: \n01.-+e_tTnNfFxu\xC3\xA9";
    uint64_t x = 1;
    buf got = { 0 };
    for (int round = 0; round < 50000; round++) {
        buf text = { 0 };
        for (int n = (int)(x >> 60); n >= 0; n--) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            size_t i = (size_t)(x >> 33) % (sizeof alphabet - 2);
            if (i == sizeof alphabet - 3)
                buf_str(&text, STR("\xC3\xA9"));
            else
                buf_byte(&text, alphabet[i]);
        }
        buf_clear(&got);
        toolarg_put(&got, buf_view(&text));
        json_t *v = parse(buf_view(&got));
        if (!v) fail_msg("%s: %s", buf_cstr(&text), buf_cstr(&got));
        json_decref(v);
        buf_free(&text);
    }
    buf_free(&got);
}

static void test_escape_in_pieces(void **state) {
    (void)state;
    const char *text = "a\"\\\n\x01<\xC3\xA9>/";
    buf whole = { 0 }, pieces = { 0 };
    buf_json_str(&whole, str_of(text));
    buf_byte(&pieces, '"');
    for (size_t i = 0, n; text[i]; i += n) {
        n = text[i] == '\xC3' ? 2 : 1;
        toolarg_escape(&pieces, (str){ text + i, n });
    }
    buf_byte(&pieces, '"');
    assert_string_equal(buf_cstr(&whole), buf_cstr(&pieces));
    buf_free(&whole);
    buf_free(&pieces);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_python_reads_it), cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_depth_is_bounded),   cmocka_unit_test(test_any_text_becomes_json),
        cmocka_unit_test(test_escape_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
