/* The streaming JSON writer: its output is what a JSON reader understands, with commas in the right places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>

#include "engine/server/jsonw.h"

static void expect(buf *b, const char *text) {
    assert_string_equal(buf_cstr(b), text);
    json_t *v = json_loadb(b->data, b->len, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(v);
    json_decref(v);
    buf_free(b);
}

static void test_values(void **state) {
    (void)state;
    buf b = { 0 };
    jsonw w;
    jsonw_init(&w, &b);
    jsonw_begin_array(&w);
    jsonw_int(&w, 0);
    jsonw_int(&w, INT64_MAX);
    jsonw_int(&w, INT64_MIN);
    jsonw_double(&w, 0.1);
    jsonw_double(&w, 3);
    jsonw_double(&w, 0.0 / 0.0);
    jsonw_bool(&w, true);
    jsonw_bool(&w, false);
    jsonw_null(&w);
    jsonw_str(&w, STR("a"));
    jsonw_str(&w, STR(""));
    jsonw_str(&w, (str){ 0 });
    jsonw_raw(&w, STR("{\"x\":[]}"));
    jsonw_end_array(&w);
    jsonw_deinit(&w);
    expect(&b, "[0,9223372036854775807,-9223372036854775808,0.1,3.0,null,true,false,null,\"a\",\"\",null,{\"x\":[]}]");
}

static void test_single_values(void **state) {
    (void)state;
    buf b = { 0 };
    jsonw w;
    jsonw_init(&w, &b);
    jsonw_int(&w, -7);
    jsonw_deinit(&w);
    expect(&b, "-7");
    jsonw_init(&w, &b);
    jsonw_begin_object(&w);
    jsonw_end_object(&w);
    jsonw_deinit(&w);
    expect(&b, "{}");
}

static void test_nesting(void **state) {
    (void)state;
    buf b = { 0 };
    jsonw w;
    jsonw_init(&w, &b);
    jsonw_begin_object(&w);
    jsonw_key(&w, "a");
    jsonw_begin_array(&w);
    jsonw_begin_object(&w);
    jsonw_key_int(&w, "i", 1);
    jsonw_key_str(&w, "s", STR("x"));
    jsonw_end_object(&w);
    jsonw_begin_array(&w);
    jsonw_end_array(&w);
    jsonw_begin_object(&w);
    jsonw_end_object(&w);
    jsonw_end_array(&w);
    jsonw_key_null(&w, "n");
    jsonw_key_bool(&w, "b", true);
    jsonw_key_double(&w, "d", 0.5);
    jsonw_end_object(&w);
    jsonw_deinit(&w);
    expect(&b, "{\"a\":[{\"i\":1,\"s\":\"x\"},[],{}],\"n\":null,\"b\":true,\"d\":0.5}");
}

static void test_members(void **state) {
    (void)state;
    buf b = { 0 };
    jsonw w;
    jsonw_init(&w, &b);
    jsonw_begin_object(&w);
    jsonw_members(&w, STR("\"a\":1,\"b\":2"));
    jsonw_key_int(&w, "c", 3);
    jsonw_members(&w, STR("\"d\":4"));
    jsonw_end_object(&w);
    jsonw_deinit(&w);
    expect(&b, "{\"a\":1,\"b\":2,\"c\":3,\"d\":4}");
}

static void test_milliseconds(void **state) {
    (void)state;
    buf b = { 0 };
    jsonw w;
    jsonw_init(&w, &b);
    jsonw_begin_object(&w);
    jsonw_key_ms(&w, "a", 1.23456);
    jsonw_key_ms(&w, "b", 0.0004);
    jsonw_key_ms(&w, "c", 12);
    jsonw_end_object(&w);
    jsonw_deinit(&w);
    expect(&b, "{\"a\":1.235,\"b\":0.0,\"c\":12.0}");
}

/* Every string comes back from a reader as it went in; what is not UTF-8 comes back as U+FFFD. */
static void test_strings(void **state) {
    (void)state;
    char all[512];
    size_t n = 0;
    for (int c = 0; c < 128; c++) all[n++] = (char)c;
    memcpy(all + n, "\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\xB8", 9);
    n += 9;
    buf b = { 0 };
    jsonw w;
    jsonw_init(&w, &b);
    jsonw_str(&w, (str){ all, n });
    jsonw_deinit(&w);
    json_t *v = json_loadb(b.data, b.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(v);
    assert_int_equal(json_string_length(v), n);
    assert_memory_equal(json_string_value(v), all, n);
    json_decref(v);
    buf_free(&b);
    jsonw_init(&w, &b);
    jsonw_str(&w, STR("a\xE5"
                      "b\xC0\x80"));
    jsonw_deinit(&w);
    expect(&b, "\"a\xEF\xBF\xBD"
               "b\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

static void test_depth(void **state) {
    (void)state;
    buf b = { 0 };
    jsonw w;
    jsonw_init(&w, &b);
    for (int i = 0; i < JSONW_DEPTH_MAX; i++) {
        if (i % 2) jsonw_key(&w, "k");
        if (i % 2)
            jsonw_begin_array(&w);
        else
            jsonw_begin_object(&w);
        if (i % 2 == 0 && i + 1 == JSONW_DEPTH_MAX) jsonw_key_null(&w, "k");
    }
    for (int i = JSONW_DEPTH_MAX; i-- > 0;) {
        if (i % 2)
            jsonw_end_array(&w);
        else
            jsonw_end_object(&w);
    }
    jsonw_deinit(&w);
    json_t *v = json_loadb(b.data, b.len, 0, NULL);
    assert_non_null(v);
    json_decref(v);
    buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_single_values), cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_members), cmocka_unit_test(test_milliseconds),  cmocka_unit_test(test_strings),
        cmocka_unit_test(test_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
