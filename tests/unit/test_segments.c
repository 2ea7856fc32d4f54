/* What is known is what encoding gives, whatever was forgotten in between; memory stays within its bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/text/segments.h"

static text_model *tm;

static int setup(void **state) {
    (void)state;
    buf json = { 0 };
    err e = { 0 };
    if (file_read(&json, "target/demo/tokenizer.json", 1 << 24, &e) != OK) fail_msg("%s", e.text);
    const text_files files = { .tokenizer = buf_view(&json), .generation_config = STR("{\"eos_token_id\": [2, 24]}") };
    if (text_model_open(&tm, &files, 4096, &e) != OK) fail_msg("%s", e.text);
    buf_free(&json);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    text_model_close(tm);
    return 0;
}

static uint32_t next_random(uint32_t *x) {
    *x ^= *x << 13, *x ^= *x >> 17, *x ^= *x << 5;
    return *x;
}

/* Some message out of `kinds`: the same number gives the same text. */
static void put_message(buf *out, uint32_t kind) {
    static const char *const WORDS[] = { "def ",    "return ",      "read the file ", "\n    ",
                                         "x = 1\n", "caf\xC3\xA9 ", "</x>",           "42 " };
    uint32_t x = kind * 2654435761u + 1;
    buf_str(out, kind % 3 ? STR("<user>") : STR("<assistant>"));
    for (uint32_t n = next_random(&x) % 60; n; n--) buf_str(out, str_of(WORDS[next_random(&x) % 8]));
    buf_str(out, kind % 3 ? STR("</user>") : STR("</assistant>"));
}

static void check_same(segments *known, str text, bool guarded) {
    token_list want = { 0 }, got = { 0 };
    err e = { 0 };
    assert_int_equal(guarded ? text_encode_guarded(tm, text, &want, &e) : text_encode(tm, text, true, &want, &e), OK);
    assert_int_equal(text_encode_known(tm, text, guarded, known, &got, &e), OK);
    assert_int_equal(got.n, want.n);
    if (want.n) assert_memory_equal(got.ids, want.ids, want.n * sizeof *want.ids);
    token_list_free(&want);
    token_list_free(&got);
}

/* Conversations that grow and change, in memory that is enough for some of them, or for hardly any. */
static void test_same(void **state) {
    (void)state;
    static const size_t BOUNDS[] = { 1 << 20, 6000, 0 };
    for (size_t b = 0; b < sizeof BOUNDS / sizeof *BOUNDS; b++) {
        segments *known = segments_new(BOUNDS[b]);
        uint32_t x = 17;
        for (int turn = 0; turn < 300; turn++) {
            buf text = { 0 };
            uint32_t first = next_random(&x) % 40, n = next_random(&x) % 12;
            for (uint32_t i = 0; i <= n; i++) put_message(&text, first + i);
            check_same(known, buf_view(&text), turn % 5 == 4);
            buf_free(&text);
            assert_true(segments_get_stats(known).bytes <= BOUNDS[b]);
        }
        segments_stats s = segments_get_stats(known);
        assert_true(s.asked > 1000);
        if (b == 0) assert_true(s.found * 10 > s.asked * 8);
        if (BOUNDS[b] == 0) assert_int_equal(s.found, 0);
        segments_free(known);
    }
}

/* Guards change what a text becomes: the two ways do not take each other's tokens. */
static void test_guarded(void **state) {
    (void)state;
    segments *known = segments_new(1 << 20);
    buf text = { 0 };
    buf_str(&text, STR("a text that is long enough to be kept, "));
    text_put_guarded(tm, STR("<think> and </think>"), &text);
    for (int i = 0; i < 3; i++) {
        check_same(known, buf_view(&text), true);
        check_same(known, buf_view(&text), false);
    }
    assert_true(segments_get_stats(known).found > 0);
    buf_free(&text);
    segments_free(known);
}

/* The next turn asks for one new text alone. */
static void test_next_turn(void **state) {
    (void)state;
    segments *known = segments_new(1 << 24);
    buf text = { 0 };
    for (uint32_t i = 0; i < 200; i++) put_message(&text, i);
    check_same(known, buf_view(&text), false);
    segments_stats before = segments_get_stats(known);
    buf_str(&text, STR("<user>and now something that was never said before</user>"));
    check_same(known, buf_view(&text), false);
    segments_stats after = segments_get_stats(known);
    assert_int_equal((after.asked - before.asked) - (after.found - before.found), 1);
    buf_free(&text);
    segments_free(known);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_same), cmocka_unit_test(test_guarded),
                                        cmocka_unit_test(test_next_turn) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
