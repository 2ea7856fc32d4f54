/* Bytes of tokens to whole characters: golden streams, every way to cut a text, and the maximal ill-formed parts. */
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

static void test_golden_streams(void **state) {
    (void)state;
    buf file = { 0 };
    err e;
    text_model *tm;
    assert_int_equal(file_read(&file, GOLDEN_TOKENIZER, 1 << 24, &e), OK);
    assert_int_equal(text_model_open(&tm, &(text_files){ .tokenizer = buf_view(&file) }, GOLDEN_VOCAB, &e), OK);
    buf_free(&file);
    json_t *cases = load_cases();
    size_t n_decoded = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *ids = json_object_get(c, "ids");
        if (strcmp(json_string_value(json_object_get(c, "kind")), "decode") != 0) continue;
        text_decoder d = { 0 };
        buf hex = { 0 }, all = { 0 };
        for (size_t k = 0; k < json_array_size(ids); k++) {
            str bytes = text_token_bytes(tm, (int32_t)json_integer_value(json_array_get(ids, k)));
            for (size_t b = 0; b < bytes.n; b++) buf_printf(&hex, "%02x", (unsigned char)bytes.p[b]);
            size_t before = all.len;
            text_decoder_push(&d, bytes, &all);
            assert_str(str_from(buf_view(&all), before), json_str(json_array_get(json_object_get(c, "stream"), k)));
        }
        size_t before = all.len;
        text_decoder_flush(&d, &all);
        assert_str(str_from(buf_view(&all), before), json_str(json_object_get(c, "flush")));
        assert_str(buf_view(&all), json_str(json_object_get(c, "text")));
        assert_str(buf_view(&hex), json_str(json_object_get(c, "bytes")));
        buf_free(&hex);
        buf_free(&all);
        n_decoded++;
    }
    assert_true(n_decoded > 50);
    json_decref(cases);
    text_model_close(tm);
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
        cmocka_unit_test(test_golden_streams),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_valid_text_is_untouched),
    };
    return cmocka_run_group_tests_name("decoder", tests, NULL, NULL);
}
