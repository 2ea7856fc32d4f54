/* engine/text/stopseq: against a search of the whole text, for every cut of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/text/stopseq.h"

#include <stdio.h>
#include <string.h>

enum { STOPS_MAX = 4 };

typedef struct found {
    size_t at;    /* bytes in front of the match */
    int32_t stop; /* -1: none, and at is the length of the text */
} found;

/* What the header promises, said in the plainest way: smallest end, then smallest start, then first in the list. */
static found search(str text, const str *stops, size_t n) {
    for (size_t end = 1; end <= text.n; end++) {
        found best = { text.n + 1, -1 };
        for (size_t i = 0; i < n; i++) {
            if (stops[i].n > end || memcmp(text.p + end - stops[i].n, stops[i].p, stops[i].n) != 0) continue;
            if (end - stops[i].n < best.at) best = (found){ end - stops[i].n, (int32_t)i };
        }
        if (best.stop >= 0) return best;
    }
    return (found){ text.n, -1 };
}

/* Pushes text cut behind the bits of mask; after each push what is held back must be the beginning of a stop string. */
static void check_cut(str text, const str *stops, size_t n, uint32_t mask) {
    stopseq *s = stopseq_new(stops, n);
    found want = search(text, stops, n);
    buf out = { 0 };
    int32_t stop = -1;
    size_t from = 0;
    for (size_t i = 0; i < text.n && stop < 0; i++) {
        if (i + 1 < text.n && !(mask >> i & 1)) continue;
        stop = stopseq_push(s, (str){ text.p + from, i + 1 - from }, &out);
        from = i + 1;
        if (stop >= 0) break;
        str held = str_from((str){ text.p, from }, out.len);
        bool begins_one = !held.n;
        for (size_t k = 0; k < n; k++) begins_one |= held.n < stops[k].n && str_starts(stops[k], held);
        assert_true(begins_one);
    }
    if (stop < 0) stopseq_flush(s, &out);
    if (stop != want.stop || out.len != want.at || memcmp(text.p, out.data ? out.data : "", out.len) != 0)
        fail_msg("\"%.*s\" cut by %x: stop %d, \"%.*s\"; wanted %d at %zu", STR_ARG(text), mask, stop,
                 STR_ARG(buf_view(&out)), want.stop, want.at);
    buf_free(&out);
    stopseq_free(s);
}

static void check(const char *text, const char *const *list, size_t n) {
    str stops[STOPS_MAX], t = str_of(text);
    for (size_t i = 0; i < n; i++) stops[i] = str_of(list[i]);
    for (uint32_t mask = 0; mask < (uint32_t)1 << (t.n > 12 ? 12 : t.n); mask++) check_cut(t, stops, n, mask);
}

#define CHECK_STOPS(text, ...)                                                                                         \
    check(text, (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void test_known_shapes(void **state) {
    (void)state;
    CHECK_STOPS("alpha STOP tail", "STOP");
    CHECK_STOPS("x STORE y", "STOP");
    CHECK_STOPS("aaab", "aab");
    CHECK_STOPS("zABC q", "ABC", "AB");
    CHECK_STOPS("my STOP z", "TOP", "STOP");
    CHECK_STOPS("abcabcabd", "abcabd", "bca");
    CHECK_STOPS("go 雪 on", "雪");
    CHECK_STOPS("ababab", "abac", "babb", "c");
    CHECK_STOPS("STO", "STOP");
    CHECK_STOPS("xx", "x", "x");
    CHECK_STOPS("aaaaaaaaaaaab", "aaab", "aaaa");
}

static uint32_t next_random(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

/* Two letters make overlaps frequent. */
static void test_random_texts(void **state) {
    (void)state;
    uint32_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        char text[24], strings[STOPS_MAX][8];
        str stops[STOPS_MAX];
        size_t n = next_random(&seed) >> 16 & 3;
        size_t len = 1 + (next_random(&seed) >> 16) % (sizeof text - 1);
        for (size_t i = 0; i < len; i++) text[i] = "ab"[next_random(&seed) >> 20 & 1];
        for (size_t k = 0; k <= n; k++) {
            size_t bytes = 1 + (next_random(&seed) >> 16) % 7;
            for (size_t i = 0; i < bytes; i++) strings[k][i] = "ab"[next_random(&seed) >> 20 & 1];
            stops[k] = (str){ strings[k], bytes };
        }
        check_cut((str){ text, len }, stops, n + 1, next_random(&seed) >> 8);
    }
}

static void test_without_strings_everything_passes(void **state) {
    (void)state;
    stopseq *s = stopseq_new(NULL, 0);
    buf out = { 0 };
    assert_int_equal(stopseq_push(s, STR("any\0thing"), &out), -1);
    assert_int_equal(out.len, 9);
    stopseq_flush(s, &out);
    assert_int_equal(out.len, 9);
    buf_free(&out);
    stopseq_free(s);
}

/* A text that falls back at every byte costs as much as any other. */
static void test_long_texts_take_linear_time(void **state) {
    (void)state;
    enum { LEN = 4 << 20, STOP = 2000 };
    buf stop = { 0 }, text = { 0 }, out = { 0 };
    for (int i = 0; i < STOP; i++) buf_byte(&stop, 'a');
    buf_byte(&stop, 'b');
    for (int i = 0; i < LEN; i++) buf_byte(&text, i % (STOP + 1) == STOP ? 'c' : 'a');
    str one = buf_view(&stop);
    stopseq *s = stopseq_new(&one, 1);
    assert_int_equal(stopseq_push(s, buf_view(&text), &out), -1);
    stopseq_flush(s, &out);
    assert_int_equal(out.len, LEN);
    assert_memory_equal(out.data, text.data, LEN);
    stopseq_free(s);
    buf_free(&out);
    buf_free(&text);
    buf_free(&stop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_shapes),
        cmocka_unit_test(test_random_texts),
        cmocka_unit_test(test_without_strings_everything_passes),
        cmocka_unit_test(test_long_texts_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
