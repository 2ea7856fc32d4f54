/* The merges of one piece: against a list of merges done by hand, and against the plain definition. */
#include "tests/unit/tok_fixture.h"
#include "engine/text/bpe.h"

enum { LETTERS = 3, MERGES_MAX = 12, PIECE_MAX = 9 };

static int32_t own_ids[256];

static int setup(void **state) {
    (void)state;
    for (int i = 0; i < 256; i++) own_ids[i] = i;
    return 0;
}

static bpe *make(const bpe_merge *merges, size_t n) {
    bpe *b;
    err e;
    if (bpe_new(&b, own_ids, merges, n, &e) != OK) fail_msg("%s", e.text);
    return b;
}

static void check(const bpe *b, str piece, const int32_t *want, size_t n) {
    bpe_work w = { 0 };
    token_list got = { 0 };
    bpe_encode(b, &w, piece, &got);
    assert_int_equal(got.n, n);
    assert_memory_equal(got.ids, want, n * sizeof *want);
    token_list_free(&got);
    bpe_work_deinit(&w);
}

static void test_rank_before_place(void **state) {
    (void)state;
    bpe *b = make((bpe_merge[]){ { 'b', 'c', 300 }, { 'a', 'b', 301 }, { 'a', 300, 302 } }, 3);
    check(b, STR("abc"), (int32_t[]){ 302 }, 1);
    check(b, STR("abab"), (int32_t[]){ 301, 301 }, 2);
    check(b, STR("abcab"), (int32_t[]){ 302, 301 }, 2);
    bpe_free(b);
}

static void test_leftmost_on_equal_rank(void **state) {
    (void)state;
    bpe *b = make((bpe_merge[]){ { 'a', 'a', 300 }, { 300, 300, 301 } }, 2);
    check(b, STR("a"), (int32_t[]){ 'a' }, 1);
    check(b, STR("aaa"), (int32_t[]){ 300, 'a' }, 2);
    check(b, STR("aaaaa"), (int32_t[]){ 301, 'a' }, 2);
    check(b, STR("aaaaaaa"), (int32_t[]){ 301, 300, 'a' }, 3);
    bpe_free(b);
}

static void test_no_merge_applies(void **state) {
    (void)state;
    bpe *b = make((bpe_merge[]){ { 'x', 'y', 300 } }, 1);
    check(b, STR("yxz\xFF"), (int32_t[]){ 'y', 'x', 'z', 255 }, 4);
    bpe_free(b);
    b = make(NULL, 0);
    check(b, STR("ab"), (int32_t[]){ 'a', 'b' }, 2);
    bpe_free(b);
}

static void test_same_pair_twice(void **state) {
    (void)state;
    bpe *b = NULL;
    err e;
    assert_int_equal(bpe_new(&b, own_ids, (bpe_merge[]){ { 1, 2, 300 }, { 2, 1, 301 }, { 1, 2, 302 } }, 3, &e),
                     ERR_MODEL);
    assert_string_equal(e.text, "entry 2 repeats entry 0");
    assert_null(b);
}

/* ---- the definition, step by step ---- */

static size_t encode_plainly(const bpe_merge *merges, size_t n_merges, int32_t *ids, size_t n) {
    for (;;) {
        size_t best = n_merges, at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t m = 0; m < best; m++)
                if (merges[m].left == ids[i] && merges[m].right == ids[i + 1]) best = m, at = i;
        if (best == n_merges) return n;
        ids[at] = merges[best].result;
        n--;
        memmove(ids + at + 1, ids + at + 2, (n - at - 1) * sizeof *ids);
    }
}

static uint32_t random_state = 7;

static uint32_t below(uint32_t n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 16) % n;
}

/* Random rules over a small alphabet, in which a token may be made in several ways and late rules may come first. */
static size_t random_merges(bpe_merge *out) {
    size_t n = 0, tokens = LETTERS;
    while (n < MERGES_MAX) {
        bpe_merge m = { (int32_t)below((uint32_t)tokens), (int32_t)below((uint32_t)tokens), (int32_t)tokens };
        bool known = false;
        for (size_t i = 0; i < n; i++) known |= out[i].left == m.left && out[i].right == m.right;
        if (known) continue;
        size_t at = below((uint32_t)n + 1); /* the rank is not the order of making */
        memmove(out + at + 1, out + at, (n - at) * sizeof *out);
        out[at] = m;
        n++;
        tokens++;
    }
    return n;
}

static void check_all_pieces(const bpe_merge *merges, size_t n_merges) {
    bpe *b = make(merges, n_merges);
    size_t count = 1;
    for (size_t i = 0; i < PIECE_MAX; i++) count *= LETTERS;
    for (size_t code = 0; code < count; code++) {
        char piece[PIECE_MAX];
        int32_t want[PIECE_MAX];
        for (size_t i = 0, rest = code; i < PIECE_MAX; i++, rest /= LETTERS)
            want[i] = piece[i] = (char)(rest % LETTERS);
        size_t n = encode_plainly(merges, n_merges, want, PIECE_MAX);
        check(b, (str){ piece, PIECE_MAX }, want, n);
    }
    bpe_free(b);
}

static void test_equals_the_definition(void **state) {
    (void)state;
    for (int round = 0; round < 12; round++) {
        bpe_merge merges[MERGES_MAX];
        check_all_pieces(merges, random_merges(merges));
    }
}

/* ---- cost ---- */

static uint64_t steps_of(const bpe *b, size_t n) {
    buf piece = { 0 };
    for (size_t i = 0; i < n; i++) buf_byte(&piece, (char)('a' + (i / 3 + i / 7) % 2));
    bpe_work w = { 0 };
    token_list got = { 0 };
    bpe_encode(b, &w, buf_view(&piece), &got);
    uint64_t steps = w.steps;
    bpe_work_deinit(&w);
    token_list_free(&got);
    buf_free(&piece);
    return steps;
}

static void test_cost_is_nearly_linear(void **state) {
    (void)state;
    bpe *b = make(
        (bpe_merge[]){ { 'a', 'a', 300 }, { 'b', 'b', 301 }, { 300, 'a', 302 }, { 302, 301, 303 }, { 303, 303, 304 } },
        5);
    for (size_t n = 1000; n < 2000000; n *= 2) {
        uint64_t once = steps_of(b, n), twice = steps_of(b, 2 * n);
        /* n log n: twice as much and a little; quadratic would be four times as much */
        if (twice > once * 5 / 2)
            fail_msg("%zu bytes: %llu steps, twice as many: %llu", n, (unsigned long long)once,
                     (unsigned long long)twice);
    }
    bpe_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank_before_place),     cmocka_unit_test(test_leftmost_on_equal_rank),
        cmocka_unit_test(test_no_merge_applies),      cmocka_unit_test(test_same_pair_twice),
        cmocka_unit_test(test_equals_the_definition), cmocka_unit_test(test_cost_is_nearly_linear),
    };
    return cmocka_run_group_tests_name("bpe", tests, setup, NULL);
}
