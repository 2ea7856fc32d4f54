/* Token ids as they are written: separators, JSON, and what is said about what is no id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/cli/id_list.h"

enum { VOCAB = 4096 };

static void expect(str text, const int32_t *want, size_t n) {
    token_list got = { 0 };
    err e;
    if (id_list_read(text, VOCAB, &got, &e) != OK) fail_msg("%.*s: %s", STR_ARG(text), e.text);
    assert_int_equal(got.n, n);
    for (size_t i = 0; i < n; i++) assert_int_equal(got.ids[i], want[i]);
    token_list_free(&got);
}

static void refuse(str text, const char *why) {
    token_list got = { 0 };
    token_list_push(&got, 7);
    err e;
    assert_int_equal(id_list_read(text, VOCAB, &got, &e), ERR_REQUEST);
    if (!strstr(e.text, why)) fail_msg("expected \"%s\" in: %s", why, e.text);
    assert_int_equal(got.n, 1);
    token_list_free(&got);
}

static void test_words(void **state) {
    (void)state;
    const int32_t ids[] = { 1, 4095, 0 };
    expect(STR("1 4095 0"), ids, 3);
    expect(STR("1,4095,0"), ids, 3);
    expect(STR("\r\n1\n4095,\t0\n"), ids, 3);
    expect(STR("001 , 00000000000000000000004095 0,"), ids, 3);
    expect(STR(""), NULL, 0);
    expect(STR(" \n,\n"), NULL, 0);
}

static void test_json(void **state) {
    (void)state;
    const int32_t ids[] = { 1, 4095, 0 };
    expect(STR(" [1, 4095, 0]\n"), ids, 3);
    expect(STR("[{\"id\":1,\"text\":\"a\\u0000\"},{\"text\":\"\",\"id\":4095},0]"), ids, 3);
    expect(STR("[]"), NULL, 0);
}

static void test_ids_beyond_the_vocabulary(void **state) {
    (void)state;
    const char *range = " does not exist: the vocabulary has 4096 tokens, ids 0 to 4095";
    const struct {
        const char *text, *id;
    } rows[] = { { "1 4096", "token 4096" },
                 { "-1", "token -1" },
                 { "99999999999999999999999", "token 99999999999999999999999" },
                 { "[1, 4096]", "token 4096" },
                 { "[-5]", "token -5" },
                 { "[1e300]", "token 1.0000000000000001e+300" },
                 { "[123456789012345678901234567890]", "token 1.2345678901234568e+29" },
                 { "[{\"id\": 70000}]", "token 70000" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        refuse(str_of(rows[i].text), rows[i].id);
        refuse(str_of(rows[i].text), range);
    }
}

static void test_what_is_no_id(void **state) {
    (void)state;
    refuse(STR("1 two 3"), "\"two\" is no token id");
    refuse(STR("1.5"), "\"1.5\" is no token id");
    refuse(STR("-"), "\"-\" is no token id");
    refuse(STR("1\0"), "is no token id");
    refuse(STR("\xC3\xA9\xFF"), "is no token id");
    refuse(STR("{\"id\": 1}"), "is no token id");
    refuse(STR("[1, \"2\"]"), "element 1 of the JSON array is no token id");
    refuse(STR("[1.5]"), "element 0");
    refuse(STR("[[1]]"), "element 0");
    refuse(STR("[{\"text\": \"a\"}]"), "element 0");
    refuse(STR("[1, 2"), "no JSON array of token ids: line 1");
    refuse(STR("[1]\n[2]"), "no JSON array of token ids: line 2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_ids_beyond_the_vocabulary),
        cmocka_unit_test(test_what_is_no_id),
    };
    return cmocka_run_group_tests_name("id_list", tests, NULL, NULL);
}
