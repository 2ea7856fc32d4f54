/* Which conversation a prompt continues: scripted ones, and every answer against a naive model over random ones.
 * usage: test_prefix [SEED] */
#include "engine/core/prefix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LEN = 12, LINES = 5, MARKS = 4, CASES = 60000, NOT_LIVE = LEN + 1 };

static uint64_t seed = 20261130, random_state;

static uint32_t draw(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

/* ---- scripted ---- */

static const int32_t COUNT[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 };

/* The first n of COUNT, not live. */
static prefix_line counted(int32_t n, const prefix_mark *mark, int32_t n_marks) {
    return (prefix_line){ COUNT, n, mark, n_marks, n + 1 };
}

static prefix_line live(prefix_line l, int32_t low) {
    l.live_low = low;
    return l;
}

static void expect(prefix_choice got, int32_t line, int32_t mark, int32_t start, int32_t common) {
    assert_int_equal(got.line, line);
    assert_int_equal(got.mark, mark);
    assert_int_equal(got.start, start);
    assert_int_equal(got.common, common);
}

static void test_nothing(void **state) {
    (void)state;
    static const int32_t OTHER[] = { 9, 9, 9 };
    prefix_line none[3] = { { NULL, 0, NULL, 0, 1 }, { NULL, 0, NULL, 0, 0 }, { NULL, 0, NULL, 0, 1 } };
    expect(prefix_choose(NULL, 0, COUNT, 5), -1, -1, 0, 0);
    expect(prefix_choose(none, 3, COUNT, 5), -1, -1, 0, 0);
    prefix_line l = live(counted(10, NULL, 0), 0);
    expect(prefix_choose(&l, 1, OTHER, 3), -1, -1, 0, 0);
    expect(prefix_choose(&l, 1, COUNT, 1), -1, -1, 0, 0); /* its one row must run */
    prefix_line bare = counted(10, NULL, 0);              /* known, and nowhere to start from */
    expect(prefix_choose(&bare, 1, COUNT, 20), -1, -1, 0, 10);
}

static void test_live(void **state) {
    (void)state;
    prefix_line l = live(counted(10, NULL, 0), 7);
    expect(prefix_choose(&l, 1, COUNT, 20), 0, -1, 10, 10); /* goes on */
    expect(prefix_choose(&l, 1, COUNT, 11), 0, -1, 10, 10);
    expect(prefix_choose(&l, 1, COUNT, 10), 0, -1, 9, 9); /* the same again: the last row runs */
    expect(prefix_choose(&l, 1, COUNT, 9), 0, -1, 8, 8);
    expect(prefix_choose(&l, 1, COUNT, 8), 0, -1, 7, 7); /* as far back as the rings reach */
    expect(prefix_choose(&l, 1, COUNT, 7), -1, -1, 0, 6);
    int32_t edited[20];
    memcpy(edited, COUNT, sizeof edited);
    edited[7] = 99;
    expect(prefix_choose(&l, 1, edited, 20), 0, -1, 7, 7);
    edited[6] = 99;
    expect(prefix_choose(&l, 1, edited, 20), -1, -1, 0, 6);
}

static void test_marks(void **state) {
    (void)state;
    const prefix_mark mark[] = { { 0, 3 }, { 5, 8 }, { 12, 14 } };
    prefix_line l = counted(16, mark, 3);
    expect(prefix_choose(&l, 1, COUNT, 20), 0, 2, 14, 16);
    expect(prefix_choose(&l, 1, COUNT, 14), 0, 2, 13, 13); /* before the checkpoint, inside its slack */
    expect(prefix_choose(&l, 1, COUNT, 13), 0, 2, 12, 12);
    expect(prefix_choose(&l, 1, COUNT, 12), 0, 1, 8, 11); /* 12 > 11: the one before it */
    expect(prefix_choose(&l, 1, COUNT, 6), 0, 1, 5, 5);
    expect(prefix_choose(&l, 1, COUNT, 5), 0, 0, 3, 4);
    expect(prefix_choose(&l, 1, COUNT, 3), 0, 0, 2, 2);
    prefix_line rings = live(l, 15); /* rings first, where they reach */
    expect(prefix_choose(&rings, 1, COUNT, 20), 0, -1, 16, 16);
    expect(prefix_choose(&rings, 1, COUNT, 15), 0, 2, 14, 14);
}

static void test_ties(void **state) {
    (void)state;
    const prefix_mark mark = { 6, 6 };
    static int32_t branch[20];
    memcpy(branch, COUNT, sizeof branch);
    branch[9] = 99;
    prefix_line shorter = { branch, 12, &mark, 1, 13 }, longer = counted(12, &mark, 1), last = live(shorter, 12);
    prefix_line both[] = { shorter, longer }, again[] = { longer, shorter, longer }, three[] = { longer, last, longer };
    expect(prefix_choose(both, 2, COUNT, 20), 1, 0, 6, 12); /* more in common */
    expect(prefix_choose(again, 3, COUNT, 20), 0, 0, 6, 12);
    expect(prefix_choose(three, 3, COUNT, 20), 1, 0, 6, 12); /* the live one, though it restores too */
    const prefix_mark further = { 7, 7 };
    prefix_line more[] = { last, counted(12, &further, 1) };
    expect(prefix_choose(more, 2, COUNT, 20), 1, 0, 7, 12); /* a larger start beats the live line */
}

/* `common` is of any line, also of one that cannot be started from. */
static void test_two_lengths(void **state) {
    (void)state;
    const prefix_mark mark = { 4, 4 };
    prefix_line two[] = { counted(15, NULL, 0), counted(6, &mark, 1) };
    expect(prefix_choose(two, 2, COUNT, 20), 1, 0, 4, 15);
    expect(prefix_choose(two, 2, COUNT, 9), 1, 0, 4, 8);
}

/* ---- against a naive model ---- */

typedef struct script {
    int32_t lines, n, token[LEN], line_token[LINES][LEN];
    prefix_mark mark[LINES][MARKS];
    prefix_line line[LINES];
} script;

static void make_line(script *s, int32_t i) {
    prefix_line *l = &s->line[i];
    int32_t n = (int32_t)draw(LEN + 1), marks = n ? (int32_t)draw(MARKS + 1) : 0;
    for (int32_t k = 0; k < n; k++) s->line_token[i][k] = k < s->n && draw(6) ? s->token[k] : (int32_t)draw(3);
    for (int32_t k = 0; k < marks; k++) {
        int32_t pos = 1 + (int32_t)draw((uint32_t)n);
        s->mark[i][k] = (prefix_mark){ (int32_t)draw((uint32_t)pos + 1), pos };
    }
    *l = (prefix_line){ s->line_token[i], n, s->mark[i], marks, NOT_LIVE };
}

static void make_script(script *s) {
    s->lines = (int32_t)draw(LINES + 1);
    s->n = 1 + (int32_t)draw(LEN);
    for (int32_t k = 0; k < s->n; k++) s->token[k] = (int32_t)draw(3);
    for (int32_t i = 0; i < s->lines; i++) make_line(s, i);
    if (s->lines == 0 || draw(4) == 0) return; /* nobody is live */
    prefix_line *l = &s->line[draw((uint32_t)s->lines)];
    l->live_low = (int32_t)draw((uint32_t)l->n + 1);
}

static bool agrees(const script *s, int32_t line, int32_t upto) {
    return upto <= s->line[line].n && memcmp(s->line[line].token, s->token, (size_t)upto * sizeof(int32_t)) == 0;
}

static bool is_live(const script *s, int32_t line) { return s->line[line].live_low <= s->line[line].n; }

static bool rings_serve(const script *s, int32_t line, int32_t start) {
    return is_live(s, line) && s->line[line].live_low <= start;
}

static bool mark_serves(const prefix_mark *m, int32_t start) { return m->low <= start && start <= m->pos; }

static bool can_start(const script *s, int32_t line, int32_t start) {
    if (!agrees(s, line, start)) return false;
    if (rings_serve(s, line, start)) return true;
    for (int32_t k = 0; k < s->line[line].n_marks; k++)
        if (mark_serves(&s->line[line].mark[k], start)) return true;
    return false;
}

static int32_t common_of(const script *s, int32_t line) {
    int32_t most = s->n - 1;
    while (!agrees(s, line, most)) most--;
    return most;
}

static bool is_better(const script *s, int32_t a, int32_t b) {
    if (is_live(s, a) != is_live(s, b)) return is_live(s, a);
    return common_of(s, a) > common_of(s, b);
}

static prefix_choice naive_choice(const script *s) {
    prefix_choice c = { .line = -1 };
    for (int32_t i = 0; i < s->lines; i++)
        if (common_of(s, i) > c.common) c.common = common_of(s, i);
    for (int32_t start = s->n - 1; start > 0 && c.line < 0; start--)
        for (int32_t i = 0; i < s->lines; i++)
            if (can_start(s, i, start) && (c.line < 0 || is_better(s, i, c.line))) c.line = i, c.start = start;
    return c;
}

static void test_naive(void **state) {
    (void)state;
    int32_t starts = 0, rings = 0;
    random_state = seed;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int32_t i = 0; i < CASES; i++) {
        script s = { 0 };
        make_script(&s);
        prefix_choice want = naive_choice(&s), got = prefix_choose(s.line, s.lines, s.token, s.n);
        if (got.line != want.line || got.start != want.start || got.common != want.common)
            fail_msg("seed %llu, case %d: line %d at %d of %d, expected line %d at %d of %d", (unsigned long long)seed,
                     i, got.line, got.start, got.common, want.line, want.start, want.common);
        if (got.line < 0) continue;
        starts++;
        if (got.mark < 0) {
            rings++;
            if (!rings_serve(&s, got.line, got.start)) fail_msg("case %d: the rings do not reach %d", i, got.start);
        } else if (!mark_serves(&s.line[got.line].mark[got.mark], got.start)) {
            fail_msg("case %d: checkpoint %d does not serve %d", i, got.mark, got.start);
        }
    }
    assert_true(rings > CASES / 20 && starts - rings > CASES / 20 && starts < CASES * 19 / 20);
}

/* ---- cost and value ---- */

/* A comparison ends where the texts part: what lies behind is memory that must not be touched. */
static void test_reads_no_further(void **state) {
    (void)state;
    enum { CLAIMED = 1000000 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = page / sizeof(int32_t);
    int32_t *text[3];
    prefix_line line[2];
    for (int i = 0; i < 3; i++) {
        text[i] = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(text[i] != MAP_FAILED);
        assert_int_equal(mprotect((char *)text[i] + page, page, PROT_NONE), 0);
        if (i == 2) continue;
        text[i][n - 1] = 1 + i; /* the prompt, text[2], has 0 there */
        line[i] = (prefix_line){ text[i], CLAIMED, NULL, 0, i ? CLAIMED + 1 : 0 };
    }
    expect(prefix_choose(line, 2, text[2], CLAIMED), 0, -1, (int32_t)n - 1, (int32_t)n - 1);
    for (int i = 0; i < 3; i++) assert_int_equal(munmap(text[i], 2 * page), 0);
}

static void test_value(void **state) {
    (void)state;
    assert_true(prefix_value(100, 0) > prefix_value(99, 0));
    assert_true(prefix_value(100, 1) < prefix_value(100, 0));
    assert_true(prefix_value(100, 9) > prefix_value(100, 10));
    assert_true(prefix_value(4000, 8) > prefix_value(200, 0)); /* a long conversation outlives short requests */
    assert_true(prefix_value(4000, 400) < prefix_value(200, 0));
    assert_true(prefix_value(0, 0) == 0.0);
    for (int32_t saves = 1; saves < 50; saves++)
        for (int64_t age = 0; age < 50; age++) {
            assert_true(prefix_value(saves, age) > prefix_value(saves - 1, age));
            assert_true(prefix_value(saves, age) > prefix_value(saves, age + 1));
        }
    assert_true(prefix_value(INT32_MAX, 0) > prefix_value(INT32_MAX, INT32_MAX));
    assert_true(prefix_value(INT32_MAX, INT64_MAX / 2) > 0.0);
}

int main(int argc, char **argv) {
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_naive),
        cmocka_unit_test(test_two_lengths),
        cmocka_unit_test(test_reads_no_further),
        cmocka_unit_test(test_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
