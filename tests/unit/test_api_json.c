/* engine/server/api_json: integers beyond 64 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/server/api_json.h"

static void test_wide_integers(void **state) {
    (void)state;
    static const char text[] = "{\"a\": [18446744073709551615, -9223372036854775809, 1e3, -9223372036854775808,\n"
                               "9223372036854775807, 1000000000000000000000.5e1], \"99999999999999999999\\\"\":"
                               "\"\\\\\", \"z\": -123456789012345678901234567890}";
    json_error_t why;
    json_t *v = api_json_load(str_of(text), &why);
    assert_non_null(v);
    const json_t *a = json_object_get(v, "a");
    assert_true(json_real_value(json_array_get(a, 0)) == 18446744073709551615.0);
    assert_true(json_real_value(json_array_get(a, 1)) == -9223372036854775809.0);
    assert_true(json_real_value(json_array_get(a, 2)) == 1000.0);
    assert_true(json_integer_value(json_array_get(a, 3)) == INT64_MIN);
    assert_true(json_integer_value(json_array_get(a, 4)) == INT64_MAX);
    assert_true(json_real_value(json_array_get(a, 5)) == 1e22);
    assert_string_equal(json_string_value(json_object_get(v, "99999999999999999999\"")), "\\");
    assert_true(json_real_value(json_object_get(v, "z")) == -123456789012345678901234567890.0);
    json_decref(v);
}

static void test_refusals(void **state) {
    (void)state;
    static const char *const bad[] = { "",
                                       "[99999999999999999999",
                                       "[99999999999999999999, ]",
                                       "[1e999]",
                                       "[\"",
                                       "[99999999999999999999\"",
                                       "[099999999999999999999]",
                                       "[-]",
                                       "[1.99999999999999999999e99999999999999999999]" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_error_t why = { 0 };
        assert_null(api_json_load(str_of(bad[i]), &why));
        assert_true(why.text[0]);
    }
    json_error_t why;
    assert_null(api_json_load(STR("{\n\"a\": 1\0}"), &why)); /* jansson would not see it */
    assert_int_equal(why.line, 2);
    assert_int_equal(why.column, 7);
    assert_int_equal(json_error_code(&why), json_error_invalid_syntax);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide_integers),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
