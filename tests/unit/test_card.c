/* Estimates for cards against the tables of bytes, break-even and best width that were worked out by hand for Laguna S
 * 2.1: each within 1 %. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "engine/core/bytes.h"
#include "engine/core/card.h"

enum { K4 = 4096, K32 = 32768, K256 = 262144 };

static model_shape s21;
static const card_inputs BYTES_ALONE = { .share = 1.0, .gap = 0.0 }, USUAL = { .share = 0.9, .gap = 1.3e-6 };

static int setup(void **state) {
    (void)state;
    shape_s21(&s21);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    shape_close(&s21);
    return 0;
}

static void expect_near(double found, double expected, double part, const char *what) {
    if (!(found >= expected * (1.0 - part) && found <= expected * (1.0 + part)))
        fail_msg("%s: %.5g, expected %.5g", what, found, expected);
}

static const card *find_card(const char *name) {
    for (int i = 0; i < CARDS; i++)
        if (strcmp(card_list[i].name, name) == 0) return &card_list[i];
    fail_msg("no card %s", name);
    return NULL;
}

static void test_bytes(void **state) {
    (void)state;
    card_work w = card_work_of(&s21, K4, DT_BF16);
    expect_near((double)w.pass[1], 10.04e9, 0.01, "plain step");
    expect_near((double)w.draft, 2.86e9, 0.01, "draft pass");
    expect_near((double)w.pass[8], 18.74e9, 0.01, "8 rows");
    expect_near((double)card_work_of(&s21, K32, DT_BF16).pass[1], 11.453e9, 0.01, "plain step at 32k");
    expect_near((double)card_work_of(&s21, K256, DT_BF16).pass[1], 22.728e9, 0.01, "plain step at 256k");
    assert_int_equal(w.weights, 68350039552LL + 2229955584LL);
    assert_true(w.memory > w.weights + 49152LL * K4);
}

static void test_union(void **state) {
    (void)state;
    static const double TABLE[][2] = { { 1, 10 },    { 2, 20 },    { 3, 26.4 }, { 4, 31.5 }, { 5, 36.1 },
                                       { 6, 39.7 },  { 7, 43.3 },  { 8, 46.8 }, { 9, 50.4 }, { 10, 52.9 },
                                       { 11, 55.3 }, { 12, 57.8 }, { 16, 67.6 } };
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        expect_near(card_union(256, 10, (int32_t)TABLE[i][0]), TABLE[i][1], 0.002, "union");
    /* Another model of the family, measured: 39.4 at 8 rows and 58.9 at 15, 8 of 256 experts. */
    expect_near(card_union(256, 8, 8), 39.4, 0.03, "8 of 256, 8 rows");
    expect_near(card_union(256, 8, 15), 58.9, 0.08, "8 of 256, 15 rows");
    for (int32_t r = 1; r < CARD_ROWS_MAX; r++) assert_true(card_union(32, 4, r) < card_union(32, 4, r + 1));
    assert_float_equal(card_union(32, 4, 1), 4.0, 1e-9);
    assert_true(card_union(4, 4, 2) <= 4.0); /* two rows measured a little more than independent ones would */
    assert_true(card_union(0, 0, 8) == 0.0); /* no sparse layer */
}

/* Bytes alone: any card. */
static void test_break_even(void **state) {
    (void)state;
    static const double AT_4K[][2] = { { 2, 1.52 }, { 3, 1.67 }, { 4, 1.79 },  { 5, 1.90 },  { 6, 1.98 }, { 7, 2.07 },
                                       { 8, 2.15 }, { 9, 2.23 }, { 10, 2.29 }, { 12, 2.41 }, { 16, 2.64 } };
    static const double AT_256K[][2] = { { 2, 1.23 }, { 4, 1.35 }, { 8, 1.51 }, { 16, 1.72 } };
    const card *c = find_card("H200");
    card_work w = card_work_of(&s21, K4, DT_BF16), far = card_work_of(&s21, K256, DT_BF16);
    for (size_t i = 0; i < sizeof AT_4K / sizeof *AT_4K; i++)
        expect_near(card_break_even(c, &BYTES_ALONE, &w, (int32_t)AT_4K[i][0]), AT_4K[i][1], 0.01, "break-even at 4k");
    for (size_t i = 0; i < sizeof AT_256K / sizeof *AT_256K; i++)
        expect_near(card_break_even(c, &BYTES_ALONE, &far, (int32_t)AT_256K[i][0]), AT_256K[i][1], 0.01,
                    "break-even at 256k");
    card_work mid = card_work_of(&s21, K32, DT_BF16);
    expect_near(card_break_even(c, &BYTES_ALONE, &mid, 8), 2.01, 0.01, "break-even at 32k");
    /* A gap is paid by a plain step for every token. */
    assert_true(card_break_even(c, &USUAL, &w, 8) < card_break_even(c, &BYTES_ALONE, &w, 8));
}

static void test_width(void **state) {
    (void)state;
    static const struct {
        double acceptance;
        int32_t rows;
        double tokens, gain;
    } TABLE[] = { { 0.6, 4, 2.18, 1.22 },   { 0.7, 6, 2.94, 1.48 },  { 0.8, 10, 4.46, 1.95 },
                  { 0.85, 13, 5.86, 2.38 }, { 0.9, 16, 8.15, 3.09 }, { 0.95, 16, 11.20, 4.25 } };
    const card *c = find_card("B200");
    card_work w = card_work_of(&s21, K4, DT_BF16);
    double plain = 1.0 / card_pass(c, &BYTES_ALONE, &w, 1);
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++) {
        card_width best = card_best(c, &BYTES_ALONE, &w, TABLE[i].acceptance);
        assert_int_equal(best.rows, TABLE[i].rows);
        expect_near(best.tokens, TABLE[i].tokens, 0.01, "tokens of a round");
        expect_near(best.rate / plain, TABLE[i].gain, 0.01, "gain");
    }
    card_width off = card_best(c, &BYTES_ALONE, &w, 0.4);
    assert_int_equal(off.rows, 1);
    assert_true(off.rate == plain);
    assert_true(card_tokens(0.0, 8) == 1.0 && card_tokens(1.0, 8) == 8.0);
}

/* Floors and times as the tables have them: 90 % of the peak, and so many microseconds per layer. */
static void test_time(void **state) {
    (void)state;
    card_work w = card_work_of(&s21, K4, DT_BF16);
    static const struct {
        const char *name;
        double floor, at_90; /* ms */
    } TABLE[] = { { "RTX PRO 6000 Blackwell", 5.61, 6.23 },
                  { "H200", 2.09, 2.33 },
                  { "B200", 1.26, 1.395 },
                  { "GB10", 36.8, 40.88 } };
    for (size_t i = 0; i < CARDS; i++) {
        const card *c = find_card(TABLE[i].name);
        expect_near(card_floor(c, &w) * 1e3, TABLE[i].floor, 0.01, TABLE[i].name);
        expect_near(card_pass(c, &(card_inputs){ .share = 0.9 }, &w, 1) * 1e3, TABLE[i].at_90, 0.01, TABLE[i].name);
        double gaps = card_pass(c, &USUAL, &w, 1) - card_pass(c, &(card_inputs){ .share = 0.9 }, &w, 1);
        assert_float_equal(gaps, w.pass_kernels * 1.3e-6, 1e-12);
        card_inputs in = { .share = 0.9, .gap = card_gap_for(c, &USUAL, &w, 1.2) };
        expect_near(card_pass(c, &in, &w, 1) / card_floor(c, &w), 1.2, 1e-9, "the gap for a ratio");
    }
    assert_int_equal(w.pass_kernels, 298);
    assert_int_equal(w.pass_kernels + w.draft_kernels, 352);
    assert_true(card_gap_for(find_card("H200"), &USUAL, &w, 1.1) < 0.0); /* 90 % alone takes 1.11 */
}

/* The largest context that fits is the last whose memory does; without a draft there is nothing but plain steps. */
static void test_memory(void **state) {
    (void)state;
    for (int i = 0; i < CARDS; i++) {
        const card *c = &card_list[i];
        int32_t most = card_ctx_max(c, &s21, DT_BF16);
        assert_true(most > K256 && most <= s21.target.positions_max);
        assert_true(card_work_of(&s21, most, DT_BF16).memory <= c->memory);
        if (most < s21.target.positions_max) assert_true(card_work_of(&s21, most + 1, DT_BF16).memory > c->memory);
        assert_true(card_ctx_max(c, &s21, DT_E4M3) >= most);
    }
    card small = { .name = "small", .bandwidth = 1e12, .memory = 64000000000 };
    assert_int_equal(card_ctx_max(&small, &s21, DT_BF16), 0);
    model_shape alone = s21;
    alone.has_draft = false;
    card_work w = card_work_of(&alone, K4, DT_BF16);
    assert_int_equal(w.rows_max, 1);
    assert_int_equal(w.draft + w.draft_kernels, 0);
    assert_int_equal(card_best(&card_list[0], &USUAL, &w, 0.99).rows, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bytes),      cmocka_unit_test(test_union),
                                        cmocka_unit_test(test_break_even), cmocka_unit_test(test_width),
                                        cmocka_unit_test(test_time),       cmocka_unit_test(test_memory) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
