/* HTTP/1.x bytes: heads, targets, chunked bodies. Every input is also fed in every split, where splits exist. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/server/net/wire.h"

static void test_head_end(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t end;
    } CASES[] = {
        { "GET / HTTP/1.1\r\n\r\n", 18 },
        { "a\n\n", 3 },
        { "a\n\r\n", 4 },
        { "a\r\n\nrest", 4 },
        { "a\r\nb\r\n\r\nbody\r\n\r\n", 8 },
        { "a\r\nb\r\n\r", 0 },
        { "a\r\nb\r\n", 0 },
        { "", 0 },
        { "\r\r\r", 0 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        str s = str_of(CASES[i].text);
        assert_int_equal(wire_head_end(s, 0), CASES[i].end);
        /* byte by byte: found with the byte that completes it, not before */
        size_t found = 0;
        for (size_t n = 1; n <= s.n && !found; n++) found = wire_head_end((str){ s.p, n }, n - 1);
        assert_int_equal(found, CASES[i].end);
    }
}

static int parse(const char *text, wire_head *h) {
    const char *why = NULL;
    *h = (wire_head){ 0 };
    int code = wire_head_parse(h, str_of(text), &why);
    assert_true(code == 0 || why);
    return code;
}

static void test_head(void **state) {
    (void)state;
    wire_head h;
    assert_int_equal(
        parse("POST /a?b HTTP/1.1\r\nHost: x\r\nA:  b c \r\nContent-Length: 12\r\nConnection: foo, Close\r\n\r\n", &h),
        0);
    assert_true(str_eq(h.method, STR("POST")) && str_eq(h.target, STR("/a?b")));
    assert_int_equal(h.minor, 1);
    assert_int_equal(h.length, 12);
    assert_false(h.keep_alive || h.chunked || h.expect_continue);
    assert_true(str_eq(wire_head_find(&h, "a"), STR("b c")));
    assert_null(wire_head_find(&h, "b").p);
    assert_int_equal(parse("GET / HTTP/1.0\nConnection: keep-alive\n\n", &h), 0);
    assert_true(h.keep_alive);
    assert_int_equal(h.length, -1);
    assert_int_equal(parse("GET / HTTP/1.1\r\nhost:\r\nTransfer-Encoding: Chunked\r\nExpect: 100-Continue\r\n\r\n", &h),
                     0);
    assert_true(h.chunked && h.keep_alive && h.expect_continue);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
    } CASES[] = {
        { "GET /\r\n\r\n", 400 },
        { "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
        { "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
        { "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505 },
        { "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501 },
        { "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501 },
        { "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", 417 },
    };
    wire_head h;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) assert_int_equal(parse(CASES[i].text, &h), CASES[i].code);
}

static void test_target(void **state) {
    (void)state;
    static const struct {
        const char *target, *path, *query; /* path NULL: malformed */
    } CASES[] = {
        { "/", "/", "" },           { "/a%20b?q=1?2", "/a b", "q=1?2" },
        { "/a%2Fb/", "/a/b/", "" }, { "http://h:1/p?q", "/p", "q" },
        { "http://h", "/", "" },    { "/a#f", "/a", "" },
        { "*", "*", "" },           { "/%", NULL, "" },
        { "/%4", NULL, "" },        { "/%4g", NULL, "" },
        { "/%00", NULL, "" },       { "a/b", NULL, "" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        buf path = { 0 };
        str query;
        bool good = wire_target_parse(str_of(CASES[i].target), &path, &query);
        assert_int_equal(good, CASES[i].path != NULL);
        if (good)
            assert_true(str_eq(buf_view(&path), str_of(CASES[i].path)) && str_eq(query, str_of(CASES[i].query)));
        else
            assert_int_equal(path.len, 0);
        buf_free(&path);
    }
}

/* Feeds text in pieces of `step` bytes; the state after the last one, the body in b, what was left over in *rest. */
static wire_more feed(str text, size_t step, size_t max, buf *b, size_t *rest) {
    wire_chunked d = { 0 };
    wire_more more = WIRE_MORE;
    buf_clear(b);
    for (size_t at = 0; at < text.n && more == WIRE_MORE;) {
        size_t n = text.n - at < step ? text.n - at : step, used = 0;
        more = wire_chunked_push(&d, (str){ text.p + at, n }, &used, b, max);
        if (more == WIRE_MORE) assert_int_equal(used, n);
        at += used;
        *rest = text.n - at;
    }
    return more;
}

static void test_chunked(void **state) {
    (void)state;
    static const struct {
        const char *text;
        wire_more more;
        const char *body;
        size_t rest;
    } CASES[] = {
        { "5\r\nhello\r\n0\r\n\r\n", WIRE_END, "hello", 0 },
        { "5;a=b\r\nhello\r\n001 \r\n!\r\n0;x\r\nA: b\r\nC: d\r\n\r\nNEXT", WIRE_END, "hello!", 4 },
        { "A\n0123456789\n0\n\n", WIRE_END, "0123456789", 0 },
        { "0\r\n\r\n", WIRE_END, "", 0 },
        { "5\r\nhel", WIRE_MORE, "hel", 0 },
        { "5\r\nhello\r\n0\r\n", WIRE_MORE, "hello", 0 },
        { "\r\n", WIRE_BAD, "", 0 },
        { "g\r\n", WIRE_BAD, "", 0 },
        { "-1\r\n", WIRE_BAD, "", 0 },
        { "1\r\nab\r\n", WIRE_BAD, "a", 0 },
        { "1\rx", WIRE_BAD, "", 0 },
        { "11\r\n", WIRE_TOO_LARGE, "", 0 },
        { "ffffffffffffffff\r\n", WIRE_BAD, "", 0 },
        { "000000000000000000000000000000000000\r\n", WIRE_BAD, "", 0 },
    };
    buf b = { 0 };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        str text = str_of(CASES[i].text);
        for (size_t step = 1; step <= text.n; step++) {
            size_t rest = 0;
            assert_int_equal(feed(text, step, 16, &b, &rest), CASES[i].more);
            assert_true(str_eq(buf_view(&b), str_of(CASES[i].body)));
            if (CASES[i].more == WIRE_END) assert_int_equal(rest, CASES[i].rest);
        }
    }
    buf_free(&b);
}

static void test_lists(void **state) {
    (void)state;
    assert_true(wire_list_has(STR("a, Keep-Alive ,b"), STR("keep-alive")));
    assert_false(wire_list_has(STR("keep-alives"), STR("keep-alive")));
    assert_false(wire_list_has(STR(""), STR("a")));
    assert_true(wire_name_eq(STR("Host"), STR("hOST")));
    assert_false(wire_name_eq(STR("Host"), STR("Hos")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_end), cmocka_unit_test(test_head),    cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_target),   cmocka_unit_test(test_chunked), cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
