/* Token lists of a million: the look-up pays the same for every token, however long the text is, and the choice of a
 * remembered conversation reads no further than the first difference. */
#include "tests/unit/long_fixture.h"

#include "engine/core/lookup.h"
#include "engine/core/prefix.h"

#include <stdlib.h>

enum { MOST = 2 * LOOKUP_WALK * (1 + LOOKUP_MATCH_MAX + 1 + DEPTH_MAX + 1) + 2 * LOOKUP_WALK * 4 + DEPTH_MAX };

/* ---- look-up ---- */

static lookup *open_lookup(int32_t max) {
    lookup *l;
    err e;
    if (lookup_new(&l, &(lookup_options){ max, 0, 2 }, &e) != OK) fail_msg("%s", e.text);
    return l;
}

static int32_t scattered(int32_t i) { return (int32_t)(((uint32_t)i * 2654435761u ^ (uint32_t)i >> 7) % 100352); }
static int32_t repeating(int32_t i) { return i % 1000 < 990 ? i % 1000 : scattered(i); }
static int32_t equal(int32_t i) { return i * 0 + 5; }

typedef struct cost {
    int64_t add, cut;
    int32_t most; /* of one lookup_propose */
} cost;

static cost measure(int32_t (*token)(int32_t i), int32_t n) {
    lookup *l = open_lookup(MILLION + 1);
    cost c = { 0 };
    int64_t before = lookup_work(l);
    for (int32_t i = 0; i < n; i++) {
        int32_t t = token(i);
        lookup_add(l, &t, 1);
        if (i % 61 && i < n - 100) continue;
        lookup_match m;
        lookup_propose(l, &m);
        if (m.work > c.most) c.most = m.work;
    }
    c.add = lookup_work(l) - before;
    lookup_truncate(l, n / 2);
    c.cut = lookup_work(l) - before - c.add;
    lookup_free(l);
    return c;
}

static void test_lookup_cost(void **state) {
    (void)state;
    static int32_t (*const TEXT[])(int32_t i) = { scattered, repeating, equal };
    for (int i = 0; i < 3; i++) {
        cost half = measure(TEXT[i], MILLION / 2), full = measure(TEXT[i], MILLION);
        double add = (double)full.add / (double)half.add, cut = (double)full.cut / (double)half.cut;
        if (add < 1.9 || add > 2.1) fail_msg("text %d: twice the tokens cost %g times as much", i, add);
        if (cut < 1.9 || cut > 2.1) fail_msg("text %d: twice the cut costs %g times as much", i, cut);
        assert_in_range(full.most, 1, MOST);
    }
}

/* What stands at the very start is found from the very end, and the same after a cut and again. */
static void test_lookup_reach(void **state) {
    (void)state;
    enum { GRAM = 40, FROM = 100 };
    lookup *l = open_lookup(MILLION + 1);
    for (int32_t i = 0; i < MILLION - GRAM; i++) lookup_add(l, &(int32_t){ i }, 1); /* no token twice */
    for (int round = 0; round < 2; round++) {
        for (int32_t i = 0; i < GRAM; i++) lookup_add(l, &(int32_t){ FROM + i }, 1);
        assert_int_equal(lookup_len(l), MILLION);
        lookup_match m;
        lookup_propose(l, &m);
        assert_int_equal(m.n, DEPTH_MAX);
        assert_int_equal(m.len, GRAM);
        for (int32_t i = 0; i < m.n; i++) assert_int_equal(m.token[i], FROM + GRAM + i);
        lookup_truncate(l, MILLION - GRAM);
        lookup_propose(l, &m);
        assert_int_equal(m.n, 0);
    }
    lookup_free(l);
}

/* ---- remembered conversations ---- */

/* Tokens of which nothing behind the first n may be read. */
static int32_t *fenced(int32_t n) {
    size_t page = 4096, bytes = ((size_t)n * sizeof(int32_t) + page - 1) / page * page;
    char *at = reserve(bytes + page);
    assert_int_equal(mprotect(at + bytes, page, PROT_NONE), 0);
    return (int32_t *)(void *)(at + bytes) - n;
}

static void test_prefix(void **state) {
    (void)state;
    enum { LINES = 32, PARTED = 1048000, MARKS = 511 };
    int32_t *prompt = fenced(MILLION), *same = fenced(MILLION - 5), *other = fenced(PARTED + 1), *strange = fenced(1);
    for (int32_t i = 0; i < MILLION; i++) prompt[i] = scattered(i);
    memcpy(same, prompt, (MILLION - 5) * sizeof *same);
    memcpy(other, prompt, PARTED * sizeof *other);
    other[PARTED] = prompt[PARTED] + 1;
    strange[0] = prompt[0] + 1;
    prefix_mark mark[MARKS];
    for (int32_t i = 0; i < MARKS; i++) mark[i] = (prefix_mark){ 2048 * (i + 1) - 31, 2048 * (i + 1) };
    prefix_line line[LINES];
    /* all say that they are as long as the prompt: behind the first difference nothing is there to be read */
    for (int i = 0; i < LINES; i++) line[i] = (prefix_line){ strange, MILLION, mark, MARKS, MILLION + 1 };
    line[20] = (prefix_line){ other, MILLION, mark, MARKS, MILLION + 1 };
    prefix_choice c = prefix_choose(line, LINES, prompt, MILLION);
    assert_int_equal(c.line, 20);
    assert_int_equal(c.common, PARTED);
    assert_int_equal(c.start, PARTED / 2048 * 2048);
    assert_int_equal(mark[c.mark].pos, c.start);
    line[25] = (prefix_line){ same, MILLION - 5, mark, MARKS, MILLION - 40 };
    c = prefix_choose(line, LINES, prompt, MILLION);
    assert_int_equal(c.line, 25);
    assert_int_equal(c.mark, -1);
    assert_int_equal(c.start, MILLION - 5);
    line[25].live_low = MILLION;
    c = prefix_choose(line, LINES, prompt, MILLION);
    assert_int_equal(c.line, 25);
    assert_int_equal(c.common, MILLION - 5);
    assert_int_equal(c.start, PARTED / 2048 * 2048); /* both have it; this one knows more of the prompt */
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_lookup_cost), cmocka_unit_test(test_lookup_reach),
                                        cmocka_unit_test(test_prefix) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
