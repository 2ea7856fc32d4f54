/* The byte model against figures that were computed by hand from the shapes of Laguna S 2.1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "engine/base/mem.h"
#include "engine/core/bytes.h"
#include "kernels/params.h"
#include "tests/model/laguna_s21.h"

typedef struct world {
    target_config target;
    draft_config draft;
    target_weights target_weights;
    draft_weights draft_weights;
    arena *mem;
} world;

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
    const world *w = *state;
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
    const world *w = *state;
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
    const world *w = *state;
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
    const world *w = *state;
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

static int setup(void **state) {
    world *w = xalloc(sizeof *w);
    w->mem = arena_new();
    w->target = s21_target();
    w->draft = s21_draft();
    w->target_weights = s21_target_weights(&w->target, w->mem);
    w->draft_weights = s21_draft_weights(&w->draft, w->mem);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    arena_free(w->mem);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_parts), cmocka_unit_test(test_passes),
                                        cmocka_unit_test(test_context), cmocka_unit_test(test_fp8),
                                        cmocka_unit_test(test_independent) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
