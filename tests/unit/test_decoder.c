/* Bytes of tokens to whole characters: every way to cut a text, and the maximal ill-formed parts. */
#include "tests/unit/tok_fixture.h"
#include "engine/base/utf8.h"

#define R "\xEF\xBF\xBD"

/* What comes out of the pieces one by one is checked against shown[], and what flush adds against the last of them. */
typedef struct row {
    const char *pieces[5]; /* NULL ends */
    const char *shown[6];  /* one per piece, and one for the flush */
} row;

static const row rows[] = {
    { { "abc" }, { "abc", "" } },
    { { "" }, { "", "" } },
    { { "\xF0\x9F", "\x98\xB8" }, { "", "\xF0\x9F\x98\xB8", "" } },
    { { "\xE4", "\xBD", "\xA0" }, { "", "", "\xE4\xBD\xA0", "" } },
    { { "ok \xF0\x9F" }, { "ok ", R } },
    { { "a", "\x80", "b" }, { "a", R, "b", "" } },
    { { "a", "\xC0\xAF", "b" }, { "a", R R, "b", "" } },
    { { "\xED\xA0\x80" }, { R R R, "" } },
    { { "\xED", "\xA0", "\x80" }, { "", "", R R R, "" } },
    { { "\xED\xA0", "x" }, { "", R R "x", "" } },
    { { "\xED\xBF" }, { "", R R } },
    { { "\xED\x9F", "\xBF" }, { "", "\xED\x9F\xBF", "" } },
    { { "\xF0\x9F", "x" }, { "", R "x", "" } },
    { { "\xF0\x9F", "\xF0\x9F\x98\xB8" }, { "", R "\xF0\x9F\x98\xB8", "" } },
    { { "\xF4\x90\x80\x80" }, { R R R R, "" } },
    { { "\xF0\x9F\x98" }, { "", R } },
    { { "\xE1\x80", "\xE1\x80\x80" }, { "", R "\xE1\x80\x80", "" } },
    { { "\xFF\xC3", "\xA9" }, { R, "\xC3\xA9", "" } },
    { { "\xC3", "\xC3", "\xC3\xA9" }, { "", R, R "\xC3\xA9", "" } },
};

static void test_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text_decoder d = { 0 };
        buf out = { 0 };
        size_t n = 0;
        for (; rows[i].pieces[n]; n++) {
            buf_clear(&out);
            text_decoder_push(&d, str_of(rows[i].pieces[n]), &out);
            assert_str(buf_view(&out), str_of(rows[i].shown[n]));
        }
        buf_clear(&out);
        text_decoder_flush(&d, &out);
        assert_str(buf_view(&out), str_of(rows[i].shown[n]));
        assert_int_equal(d.n, 0);
        buf_free(&out);
    }
}

/* However a text is cut, the same comes out, never a split character, and never more than 3 bytes late. */
static void check_cuts(str text) {
    buf whole = { 0 };
    text_decoder d = { 0 };
    text_decoder_push(&d, text, &whole);
    text_decoder_flush(&d, &whole);
    assert_true(utf8_valid(buf_view(&whole)));
    for (uint32_t mask = 0; mask < 1u << (text.n - 1); mask++) {
        buf out = { 0 };
        for (size_t at = 0, end = 1; end <= text.n; end++) {
            if (end < text.n && !(mask >> (end - 1) & 1)) continue;
            text_decoder_push(&d, (str){ text.p + at, end - at }, &out);
            assert_true(utf8_valid(buf_view(&out)));
            assert_in_range(d.n, 0, 3);
            at = end;
        }
        text_decoder_flush(&d, &out);
        assert_str(buf_view(&out), buf_view(&whole));
        buf_free(&out);
    }
    buf_free(&whole);
}

static void test_every_cut(void **state) {
    (void)state;
    check_cuts(STR("a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\xB8"));
    check_cuts(STR("\xF0\x9F\xE4\xBD\xC3\xED\xA0\x80\xF4\x90"));
    check_cuts(STR("\xE0\x80\x80\xF0\x80\x80\x80\xFE\xFFz"));
}

static void test_valid_text_is_untouched(void **state) {
    (void)state;
    buf text = { 0 }, out = { 0 };
    for (uint32_t cp = 0; cp < 0x110000; cp += cp < 0x1000 ? 1 : 37) {
        char utf8[4];
        if (cp >= 0xD800 && cp < 0xE000) continue;
        buf_put(&text, utf8, utf8_encode(cp, utf8));
    }
    text_decoder d = { 0 };
    for (size_t i = 0; i < text.len; i++) text_decoder_push(&d, (str){ text.data + i, 1 }, &out);
    text_decoder_flush(&d, &out);
    assert_true(str_eq(buf_view(&out), buf_view(&text)));
    buf_free(&text);
    buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_valid_text_is_untouched),
    };
    return cmocka_run_group_tests_name("decoder", tests, NULL, NULL);
}
