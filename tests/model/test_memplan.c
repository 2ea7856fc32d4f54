/* What a context costs, before anything is allocated: figures of the demo pair and of Laguna S 2.1, the choice of a
 * context, and addresses at a million positions. */
#include "tests/model/model_fixture.h"
#include "engine/core/shape.h"

enum { MILLION = 1048576 };

/* Positions of the pages of global layers: those of the context and of one widest round, in whole pages. */
static int64_t paged(int64_t ctx) { return (ctx + NODES_MAX + KV_PAGE - 1) / KV_PAGE * KV_PAGE; }

static void test_s21(void **state) {
    (void)state;
    target_config t = shape_s21_target();
    draft_config d = shape_s21_draft();
    static const int32_t CTX[] = { 1, 224, 225, 4096, 32768, 262144, MILLION };
    for (int i = 0; i < 7; i++) {
        memplan p = memplan_make(&t, &d, DT_BF16, CTX[i]);
        assert_int_equal(p.kv_global, 49152 * paged(CTX[i]));
        assert_int_equal(p.kv_sliding, 147456LL * kv_ring_slots(512, PREFILL_MAX));
        assert_int_equal(p.draft_kv, 24576LL * (kv_ring_slots(512, NODES_MAX) + NODES_MAX));
        assert_int_equal(p.taps, 36864LL * (512 + NODES_MAX));
        assert_int_equal(p.total, p.kv_global + p.kv_sliding + p.draft_kv + p.taps);
    }
    memplan none = memplan_make(&t, NULL, DT_BF16, 4096), both = memplan_make(&t, &d, DT_BF16, 4096);
    assert_int_equal(none.draft_kv + none.taps, 0);
    assert_int_equal(none.total, both.total - both.draft_kv - both.taps);
}

/* Rings hold the window and the rows that a step writes beside it. */
static void test_rings(void **state) {
    (void)state;
    assert_true(kv_ring_slots(512, PREFILL_MAX) >= 512 + PREFILL_MAX - 1);
    assert_true(kv_ring_slots(512, NODES_MAX) >= 512 + NODES_MAX - 1);
}

/* The plan is what the pair then holds. */
static void test_demo(void **state) {
    (void)state;
    pair *p = demo_open(4096);
    memplan m = memplan_make(&p->target.cfg, &p->draft.cfg, DT_BF16, p->ctx);
    assert_int_equal(m.kv_global, 2 * 512 * paged(4096));
    assert_int_equal(m.kv_sliding, 6 * 512 * 384);
    assert_int_equal(m.draft_kv, 2 * 512 * (192 + NODES_MAX));
    assert_int_equal(m.taps, 3 * 512 * (128 + NODES_MAX));
    assert_int_equal(m.kv_global + m.kv_sliding, p->target.kv.bytes);
    assert_int_equal(m.draft_kv, p->draft.bytes);
    assert_int_equal(m.taps, p->target.tap_ring.stride * p->target.tap_ring.rows);
    demo_close(p);
}

/* FP8 halves the target's keys and values and leaves the draft's side alone; the pair then holds what the plan says. */
static void test_fp8(void **state) {
    (void)state;
    target_config t = shape_s21_target();
    draft_config d = shape_s21_draft();
    memplan wide = memplan_make(&t, &d, DT_BF16, 32768), half = memplan_make(&t, &d, DT_E4M3, 32768);
    assert_int_equal(half.kv_global * 2, wide.kv_global);
    assert_int_equal(half.kv_sliding * 2, wide.kv_sliding);
    assert_int_equal(half.draft_kv, wide.draft_kv);
    assert_int_equal(half.taps, wide.taps);
    assert_true(memplan_largest_ctx(&t, &d, DT_E4M3, 2000000000) > memplan_largest_ctx(&t, &d, DT_BF16, 2000000000));
    pair *p = demo_open_kv(4096, KV_FP8_E4M3);
    memplan m = memplan_make(&p->target.cfg, &p->draft.cfg, DT_E4M3, p->ctx);
    assert_int_equal(m.kv_global + m.kv_sliding, p->target.kv.bytes);
    assert_int_equal(m.draft_kv, p->draft.bytes);
    demo_close(p);
}

static int32_t choose(const target_config *t, const draft_config *d, int32_t wanted, int64_t bytes) {
    int32_t ctx = -1;
    MUST(memplan_choose_ctx(t, d, DT_BF16, wanted, bytes, &ctx, e));
    return ctx;
}

/* The largest context is exact: its plan fits, that of one token more does not. */
static void test_largest(void **state) {
    (void)state;
    target_config t = shape_s21_target();
    draft_config d = shape_s21_draft();
    for (int64_t gb = 1; gb < 60; gb += 3) {
        int64_t bytes = gb * 1000000000;
        int32_t ctx = memplan_largest_ctx(&t, &d, DT_BF16, bytes);
        assert_true(memplan_make(&t, &d, DT_BF16, ctx).total <= bytes);
        if (ctx < MILLION) assert_true(memplan_make(&t, &d, DT_BF16, ctx + 1).total > bytes);
        assert_int_equal(choose(&t, &d, 0, bytes), ctx);
        assert_int_equal(choose(&t, &d, ctx, bytes), ctx);
        assert_int_equal(choose(&t, &d, 1, bytes), 1);
    }
    assert_int_equal(memplan_largest_ctx(&t, &d, DT_BF16, INT64_MAX), MILLION);
    assert_int_equal(memplan_largest_ctx(&t, &d, DT_BF16, 1000), 0);
}

static void expect_refused(const target_config *t, int32_t wanted, int64_t bytes, status code, const char *part) {
    draft_config d = shape_s21_draft();
    err e = { 0 };
    int32_t ctx = -7;
    assert_int_equal(memplan_choose_ctx(t, &d, DT_BF16, wanted, bytes, &ctx, &e), code);
    assert_int_equal(ctx, -7);
    if (!strstr(e.text, part)) fail_msg("expected \"%s\" in: %s", part, e.text);
}

static void test_refused(void **state) {
    (void)state;
    target_config t = shape_s21_target();
    draft_config d = shape_s21_draft();
    char largest[64];
    int32_t fits = memplan_largest_ctx(&t, &d, DT_BF16, 2000000000);
    snprintf(largest, sizeof largest, "the largest context that fits is %d", fits);
    expect_refused(&t, MILLION + 1, INT64_MAX, ERR_MODEL, "1048577");
    expect_refused(&t, MILLION, 2000000000, ERR_MEMORY, largest);
    expect_refused(&t, fits + 1, 2000000000, ERR_MEMORY, largest);
    expect_refused(&t, 0, 1000, ERR_MEMORY, "the largest context that fits is 0");
    expect_refused(&t, MILLION, 50LL * 1000000000, ERR_MEMORY, "MiB are missing");
}

/* 51.5 GB of keys and values: the last row lies where int64 says. */
static void test_million(void **state) {
    (void)state;
    int32_t n = (int32_t)(paged(MILLION) / KV_PAGE), *pages = xalloc((size_t)n * sizeof *pages);
    for (int32_t i = 0; i < n; i++) pages[i] = i;
    kv_store s = { .pages = pages, .heads = 8, .size = 128, .kind = KV_PAGES };
    int64_t last = MILLION + NODES_MAX - 1;
    int64_t want = ((last / KV_PAGE * 8 + 7) * KV_PAGE + last % KV_PAGE) * 128;
    assert_int_equal(kv_offset(&s, 7, (int32_t)last, 0), want);
    assert_true(want < paged(MILLION) * 8 * 128);
    /* pages need not lie in order: the largest table entry that fits a page number */
    pages[n - 1] = INT32_MAX;
    assert_int_equal(kv_offset(&s, 7, (int32_t)last, 0),
                     (((int64_t)INT32_MAX * 8 + 7) * KV_PAGE + last % KV_PAGE) * 128);
    free(pages);
    target_config t = shape_s21_target();
    assert_true(memplan_make(&t, NULL, DT_BF16, MILLION).kv_global > (int64_t)51 * 1000000000);
    assert_true(target_kv_bytes(&t, MILLION, 0, DT_BF16) > (size_t)51 * 1000000000);
}

/* ---- remembered conversations ---- */

/* Bytes of one checkpoint of Laguna S 2.1: the windows of its rings and a little more. */
static int64_t s21_checkpoint(bool with_draft) { return (int64_t)(36 + 6 * with_draft) * 2 * 8 * 128 * 2 * (512 + 31); }

/* Sums of the largest numbers that can be asked for. */
static void test_cache_sums(void **state) {
    (void)state;
    target_config t = shape_s21_target();
    draft_config d = shape_s21_draft();
    static const int32_t TOKENS[] = { 0, 1, 256, 257, 2 * MILLION, INT32_MAX }, MARKS[] = { 0, 1, 24, 1024 };
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 4; k++)
            for (int with = 0; with < 2; with++) {
                memplan p = memplan_make(&t, with ? &d : NULL, DT_BF16, MILLION), before = p;
                memplan_add_cache(&p, &t, with ? &d : NULL, DT_BF16, TOKENS[i], MARKS[k]);
                assert_int_equal(memplan_cache_pages(TOKENS[i]), ((int64_t)TOKENS[i] + KV_PAGE - 1) / KV_PAGE);
                int64_t pages = ((int64_t)TOKENS[i] + KV_PAGE - 1) / KV_PAGE * KV_PAGE * 49152;
                assert_int_equal(p.cache, pages + MARKS[k] * s21_checkpoint(with));
                assert_int_equal(p.total, before.total + p.cache);
            }
    /* the longest context that a config may state */
    assert_int_equal(memplan_make(&t, &d, DT_BF16, 1 << 30).kv_global, 49152 * paged(1 << 30));
    t.positions_max = 1 << 30;
    int32_t ctx = memplan_largest_ctx(&t, &d, DT_BF16, INT64_MAX);
    assert_int_equal(ctx, 1 << 30);
    assert_true(memplan_largest_ctx(&t, &d, DT_BF16, memplan_make(&t, &d, DT_BF16, 1 << 30).total - 1) < 1 << 30);
}

/* The context comes first: what is remembered shrinks, down to nothing, and takes a quarter of the rest at most. */
static void test_cache_choice(void **state) {
    (void)state;
    target_config t = shape_s21_target();
    draft_config d = shape_s21_draft();
    static const int32_t CTX[] = { 1, 4096, 262144, MILLION };
    for (int i = 0; i < 4; i++) {
        int64_t plan = memplan_make(&t, &d, DT_BF16, CTX[i]).total, most = 0;
        int32_t tokens, marks, last_tokens = 0, last_marks = 0;
        for (int64_t room = 1; room < (int64_t)1 << 43; room *= 2) {
            memplan_choose_cache(&t, &d, DT_BF16, CTX[i], plan + room, &tokens, &marks);
            memplan p = memplan_make(&t, &d, DT_BF16, CTX[i]);
            memplan_add_cache(&p, &t, &d, DT_BF16, tokens, marks);
            assert_true(p.cache <= room / 4 && p.total <= plan + room);
            assert_true(tokens >= last_tokens && marks >= last_marks);
            last_tokens = tokens, last_marks = marks, most = p.cache;
        }
        assert_int_equal(last_tokens, 2 * CTX[i]);
        assert_int_equal(last_marks, CHECKPOINTS_USUAL);
        assert_true(most > 0);
        /* no room, and not even room for the context */
        const int64_t none[] = { plan, plan + 3, plan - 1, plan / 2, 0 };
        for (int k = 0; k < 5; k++) {
            memplan_choose_cache(&t, &d, DT_BF16, CTX[i], none[k], &tokens, &marks);
            assert_true(tokens == 0 && marks == 0);
        }
        /* a context that just fits is still chosen */
        assert_int_equal(choose(&t, &d, CTX[i], plan), CTX[i]);
    }
}

static void test_available(void **state) {
    (void)state;
    assert_true(memplan_available() > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_s21),        cmocka_unit_test(test_rings),
                                        cmocka_unit_test(test_demo),       cmocka_unit_test(test_largest),
                                        cmocka_unit_test(test_refused),    cmocka_unit_test(test_million),
                                        cmocka_unit_test(test_cache_sums), cmocka_unit_test(test_cache_choice),
                                        cmocka_unit_test(test_fp8),        cmocka_unit_test(test_available) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
