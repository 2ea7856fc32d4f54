/* The byte model against figures that were computed by hand from the shapes of Laguna S 2.1. */
#include "tests/model/model_fixture.h"
#include "engine/core/bytes.h"
#include "engine/core/shape.h"
#include "kernels/params.h"

enum { CTX_4K = 4096 };

/* Figures in GB with three decimals. */
static void expect_gb(int64_t bytes, double gb, const char *what) {
    double found = (double)bytes / 1e9;
    if (found < gb - 0.0005 || found > gb + 0.0005) fail_msg("%s: %.4f GB, expected %.3f", what, found, gb);
}

static int64_t parts_sum(const pass_bytes *b) {
    return b->attention + b->dense + b->router + b->shared + b->experts + b->head + b->kv_global + b->kv_sliding;
}

static void test_parts(void **state) {
    const model_shape *w = *state;
    const target_layer_weights *y = &w->target_weights.layer[1];
    assert_int_equal(weight_bytes(&y->expert_gate[0]) + weight_bytes(&y->expert_up[0]) +
                         weight_bytes(&y->expert_down[0]),
                     5013504);
    pass_bytes b = bytes_target_pass(&w->target, &w->target_weights, 10.0, CTX_4K, DT_BF16);
    expect_gb(b.attention, 5.606, "attention");
    assert_int_equal(b.head, 2LL * 100352 * 3072);
    assert_int_equal(b.router, 47LL * 2 * 256 * 3072);
    assert_int_equal(b.shared, 47LL * 2 * 3 * 1024 * 3072);
    assert_int_equal(b.dense, 2LL * 3 * 12288 * 3072);
    assert_int_equal(b.experts, 47LL * 10 * 5013504);
    assert_int_equal(b.kv_global, 49152LL * CTX_4K);
    assert_int_equal(b.kv_sliding, 147456LL * 512);
    assert_int_equal(b.total, parts_sum(&b));
}

static void test_passes(void **state) {
    const model_shape *w = *state;
    pass_bytes plain = bytes_target_pass(&w->target, &w->target_weights, 10.0, CTX_4K, DT_BF16);
    pass_bytes eight = bytes_target_pass(&w->target, &w->target_weights, 46.9, CTX_4K, DT_BF16);
    pass_bytes draft_pass = bytes_draft_pass(&w->draft, &w->draft_weights, &w->target_weights, CTX_4K);
    expect_gb(plain.total, 10.044, "plain step at 4k");
    expect_gb(eight.total, 18.738, "8 rows at U = 46.9");
    expect_gb(draft_pass.total, 2.859, "draft pass");
    assert_int_equal(draft_pass.total, parts_sum(&draft_pass));
}

/* Below the window every layer reads the context; above, sliding layers read the window; at a million nothing
 * overflows. */
static void test_context(void **state) {
    const model_shape *w = *state;
    pass_bytes b = bytes_target_pass(&w->target, &w->target_weights, 10.0, 100, DT_BF16);
    assert_int_equal(b.kv_global, 49152LL * 100);
    assert_int_equal(b.kv_sliding, 147456LL * 100);
    b = bytes_target_pass(&w->target, &w->target_weights, 10.0, 1048576, DT_BF16);
    assert_int_equal(b.kv_global, 51539607552LL);
    assert_int_equal(b.kv_sliding, 147456LL * 512);
    assert_int_equal(bytes_draft_pass(&w->draft, &w->draft_weights, &w->target_weights, 1048576).kv_sliding, 12582912);
    assert_int_equal(bytes_draft_pass(&w->draft, &w->draft_weights, &w->target_weights, 10).kv_sliding, 245760);
}

static void test_fp8(void **state) {
    const model_shape *w = *state;
    pass_bytes wide = bytes_target_pass(&w->target, &w->target_weights, 10.0, CTX_4K, DT_BF16);
    pass_bytes half = bytes_target_pass(&w->target, &w->target_weights, 10.0, CTX_4K, DT_E4M3);
    assert_int_equal(2 * half.kv_global, wide.kv_global);
    assert_int_equal(2 * half.kv_sliding, wide.kv_sliding);
    assert_int_equal(half.total, wide.total - half.kv_global - half.kv_sliding);
}

static void test_independent(void **state) {
    (void)state;
    assert_true(bytes_independent_experts(256, 10, 0) == 0.0);
    assert_float_equal(bytes_independent_experts(256, 10, 1), 10.0, 1e-9);
    assert_float_equal(bytes_independent_experts(256, 10, 2), 10.0 + 10.0 * 246.0 / 256.0, 1e-9);
    assert_float_equal(bytes_independent_experts(256, 256, 5), 256.0, 1e-9);
    for (int32_t r = 1; r < NODES_MAX; r++)
        assert_true(bytes_independent_experts(256, 10, r) < bytes_independent_experts(256, 10, r + 1));
}

/* ---- sizes from a config and weights in memory give the same bytes ---- */

static void expect_same(const pass_bytes *found, const pass_bytes *expected, const char *what) {
    if (memcmp(found, expected, sizeof *found) != 0)
        fail_msg("%s: %lld bytes from the config, %lld from the weights", what, (long long)found->total,
                 (long long)expected->total);
}

static void check_pair(const char *target, const char *draft_dir) {
    pair p;
    model_shape m;
    MUST(pair_load(&p, target, draft_dir, false, NULL, NULL, e));
    MUST(shape_open(&m, target, draft_dir, e));
    for (int i = 0; i < 4; i++) {
        int32_t ctx = 1 << (4 * i);
        for (int kv = 0; kv < 2; kv++) {
            dtype type = kv ? DT_E4M3 : DT_BF16;
            double distinct = 1.0 + i * 0.7;
            pass_bytes a = bytes_target_pass(&m.target, &m.target_weights, distinct, ctx, type);
            pass_bytes b = bytes_target_pass(&p.target.cfg, &p.target.w, distinct, ctx, type);
            expect_same(&a, &b, target);
        }
        if (!draft_dir) continue;
        pass_bytes a = bytes_draft_pass(&m.draft, &m.draft_weights, &m.target_weights, ctx);
        pass_bytes b = bytes_draft_pass(&p.draft.cfg, &p.draft.w, &p.target.w, ctx);
        expect_same(&a, &b, draft_dir);
    }
    assert_int_equal(m.target_weights.parameters, p.target.w.parameters);
    if (draft_dir) assert_int_equal(m.draft_weights.parameters, p.draft.w.parameters);
    shape_close(&m);
    pair_close(&p);
}

static void test_shape(void **state) {
    (void)state;
    check_pair("target/demo", "draft/demo");
    check_pair("tests/golden/tiny_target", "tests/golden/tiny_draft");
    check_pair("tests/golden/tiny_target_per_element", NULL);
}

static void test_resident(void **state) {
    const model_shape *w = *state;
    assert_int_equal(w->target_weights.bytes, 68350039552LL);
    assert_int_equal(w->target_weights.parameters, 117561977600LL);
    assert_int_equal(w->draft_weights.bytes, 2229955584LL);
    assert_int_equal(w->draft_weights.parameters, 1114977792LL);
}

static int setup(void **state) {
    model_shape *m = xalloc(sizeof *m);
    shape_s21(m);
    *state = m;
    return 0;
}

static int teardown(void **state) {
    shape_close(*state);
    free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_parts),       cmocka_unit_test(test_passes),
                                        cmocka_unit_test(test_context),     cmocka_unit_test(test_fp8),
                                        cmocka_unit_test(test_independent), cmocka_unit_test(test_shape),
                                        cmocka_unit_test(test_resident) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
