#include "tests/unit/load_fixture.h"
#include "engine/load/cfg.h"

static const char TEXT[] =
    "{\"n\": 5, \"r\": 2.5, \"neg\": -3, \"s\": \"x\", \"t\": true, \"nul\": null, \"list\": [1, 2, 300],"
    " \"deep\": {\"a\": [{\"b\": 7}, \"q\"]}, \"names\": [\"u\", \"v\"]}";

static json_t *root;

static int setup(void **state) {
    (void)state;
    root = parse_text(TEXT);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    json_decref(root);
    return 0;
}

static cfg test_cfg(void) { return (cfg){ root, "config.json" }; }

static void finds_by_path(void **state) {
    (void)state;
    cfg c = test_cfg();
    assert_int_equal(json_integer_value(cfg_find(c, "deep.a.0.b")), 7);
    assert_string_equal(json_string_value(cfg_find(c, "deep.a.1")), "q");
    assert_null(cfg_find(c, "deep.a.2"));
    assert_null(cfg_find(c, "deep.a.x"));
    assert_null(cfg_find(c, "deep.a.-1"));
    assert_null(cfg_find(c, "deep.none.b"));
    assert_null(cfg_find(c, "n.b"));
    assert_null(cfg_find(c, "nul"));
}

static void reads_integers(void **state) {
    (void)state;
    cfg c = test_cfg();
    err e;
    int64_t v = -1;
    assert_int_equal(cfg_get_int(c, "n", 1, 5, &v, &e), OK);
    assert_int_equal(v, 5);
    assert_int_equal(cfg_get_int(c, "neg", -3, 0, &v, &e), OK);
    assert_int_equal(v, -3);
    assert_int_equal(cfg_opt_int(c, "nul", 1, 5, 4, &v, &e), OK);
    assert_int_equal(v, 4);
    v = 99;
    assert_int_equal(cfg_get_int(c, "n", 6, 1048576, &v, &e), ERR_MODEL);
    assert_string_equal(e.text, "config.json: n: expected an integer from 6 to 1048576, found 5");
    assert_int_equal(cfg_get_int(c, "s", 1, 9, &v, &e), ERR_MODEL);
    assert_string_equal(e.text, "config.json: s: expected an integer from 1 to 9, found \"x\"");
    assert_int_equal(cfg_get_int(c, "r", 1, 9, &v, &e), ERR_MODEL);
    assert_int_equal(cfg_get_int(c, "nul", 1, 9, &v, &e), ERR_MODEL);
    assert_has(e.text, "absent");
    assert_int_equal(cfg_opt_int(c, "s", 1, 9, 3, &v, &e), ERR_MODEL);
    assert_int_equal(v, 99); /* outputs on success only */
    assert_int_equal(cfg_get_int(c, "s", 1, 9, &v, NULL), ERR_MODEL);
    int32_t size = 0;
    assert_int_equal(cfg_get_size(c, "n", 1, 9, 5, &size, &e), OK);
    assert_int_equal(size, 5);
    assert_int_equal(cfg_get_size(c, "n", 1, 9, 4, &size, &e), ERR_MODEL);
    assert_string_equal(e.text, "config.json: n: expected a multiple of 4, found 5");
    assert_int_equal(cfg_get_size(c, "n", 6, 9, 1, &size, &e), ERR_MODEL);
}

static void reads_reals(void **state) {
    (void)state;
    cfg c = test_cfg();
    err e;
    double v = -1;
    assert_int_equal(cfg_get_real(c, "r", 0, 3, &v, &e), OK);
    assert_true(v == 2.5);
    assert_int_equal(cfg_get_real(c, "n", 0, 5, &v, &e), OK);
    assert_true(v == 5.0);
    assert_int_equal(cfg_opt_real(c, "none", 0, 3, 1.5, &v, &e), OK);
    assert_true(v == 1.5);
    assert_int_equal(cfg_get_real(c, "r", 0, 2, &v, &e), ERR_MODEL);
    assert_string_equal(e.text, "config.json: r: expected a number from 0 to 2, found 2.5");
    assert_int_equal(cfg_get_real(c, "t", 0, 2, &v, &e), ERR_MODEL);
    assert_int_equal(cfg_get_real(c, "s", -1, 2, &v, &e), ERR_MODEL);
    assert_true(v == 1.5);
}

static void reads_the_rest(void **state) {
    (void)state;
    cfg c = test_cfg();
    err e;
    bool b = false;
    const char *s = NULL;
    int64_t list[3] = { 0 };
    assert_int_equal(cfg_opt_bool(c, "t", false, &b, &e), OK);
    assert_true(b);
    assert_int_equal(cfg_opt_bool(c, "none", true, &b, &e), OK);
    assert_true(b);
    assert_int_equal(cfg_opt_bool(c, "n", true, &b, &e), ERR_MODEL);
    assert_int_equal(cfg_opt_string(c, "s", "d", &s, &e), OK);
    assert_string_equal(s, "x");
    assert_int_equal(cfg_opt_string(c, "none", "d", &s, &e), OK);
    assert_string_equal(s, "d");
    assert_int_equal(cfg_opt_string(c, "n", "d", &s, &e), ERR_MODEL);
    assert_int_equal(cfg_get_ints(c, "list", 0, 300, list, 3, &e), OK);
    assert_int_equal(list[2], 300);
    assert_int_equal(cfg_get_ints(c, "list", 0, 299, list, 3, &e), ERR_MODEL);
    assert_string_equal(e.text, "config.json: list.2: expected an integer from 0 to 299, found 300");
    assert_int_equal(cfg_get_ints(c, "list", 0, 300, list, 4, &e), ERR_MODEL);
    assert_string_equal(e.text, "config.json: list: expected 4 elements, found 3");
    assert_int_equal(cfg_get_ints(c, "n", 0, 300, list, 3, &e), ERR_MODEL);
}

static void holds_to_one_value(void **state) {
    (void)state;
    cfg c = test_cfg();
    err e;
    bool there;
    assert_int_equal(cfg_only_bool(c, "t", true, &e), OK);
    assert_int_equal(cfg_only_bool(c, "none", false, &e), OK);
    assert_int_equal(cfg_only_bool(c, "t", false, &e), ERR_MODEL);
    assert_string_equal(e.text, "config.json: t: only false is offered, found true");
    assert_int_equal(cfg_only_string(c, "s", "x", &e), OK);
    assert_int_equal(cfg_only_string(c, "s", "y", &e), ERR_MODEL);
    assert_has(e.text, "\"y\"");
    assert_int_equal(cfg_opt_array(c, "names", 2, &there, &e), OK);
    assert_true(there);
    assert_int_equal(cfg_opt_array(c, "none", 2, &there, &e), OK);
    assert_false(there);
    assert_int_equal(cfg_opt_array(c, "names", 3, &there, &e), ERR_MODEL);
    assert_int_equal(cfg_opt_array(c, "s", 3, &there, &e), ERR_MODEL);
}

static void long_values_are_cut(void **state) {
    (void)state;
    char text[4096];
    memset(text, 'a', sizeof text);
    text[0] = text[sizeof text - 2] = '"';
    text[sizeof text - 1] = 0;
    json_t *v = json_pack("{s:o}", "k", parse_text(text));
    err e;
    int64_t n;
    assert_int_equal(cfg_get_int((cfg){ v, "f" }, "k", 0, 1, &n, &e), ERR_MODEL);
    assert_true(strlen(e.text) < 200);
    assert_has(e.text, "...");
    json_decref(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_by_path),  cmocka_unit_test(reads_integers),     cmocka_unit_test(reads_reals),
        cmocka_unit_test(reads_the_rest), cmocka_unit_test(holds_to_one_value), cmocka_unit_test(long_values_are_cut),
    };
    return cmocka_run_group_tests_name("cfg", tests, setup, teardown);
}
