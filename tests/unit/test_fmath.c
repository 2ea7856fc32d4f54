/* The canonical arithmetic: its orders of additions, and its distance from exact values. */
#include "kernels/fmath.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { K_MAX = 4096 };

static uint32_t random_state = 1;

static float uniform(void) { /* in (-1, 1) */
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(int32_t)random_state * 0x1p-31f;
}

/* --- dot --- */

/* 2^24 + 1 is not an FP32 number, so a one that meets 2^24 is lost: what is left tells the order. */
static void test_dot_order(void **state) {
    (void)state;
    bf16 a[64] = { 0 }, b[64];
    for (int i = 0; i < 64; i++) b[i] = bf16_of_f32(1.0f);
    a[1] = bf16_of_f32(0x1p24f);   /* accumulator 0, first block */
    a[33] = bf16_of_f32(-0x1p24f); /* second block: the odd column comes first and clears it */
    a[32] = bf16_of_f32(1.0f);
    assert_true(fm_dot(a, b, 64) == 1.0f);
    a[1] = bf16_of_f32(-0x1p24f);
    a[33] = bf16_of_f32(1.0f);
    a[32] = bf16_of_f32(0x1p24f);
    assert_true(fm_dot(a, b, 64) == 1.0f); /* -(2^24 - 1) is exact */
    a[1] = bf16_of_f32(0x1p24f);
    a[32] = bf16_of_f32(-0x1p24f);
    assert_true(fm_dot(a, b, 64) == 0.0f); /* here the one is lost */
}

static void test_tree_order(void **state) {
    (void)state;
    float acc[16] = { 0 };
    acc[0] = 0x1p24f, acc[8] = 1.0f, acc[1] = -0x1p24f; /* 0 and 8 meet before 0 and 1 */
    assert_true(fm_tree16(acc) == 0.0f);
    float near[16] = { 0 };
    near[0] = 0x1p24f, near[8] = -0x1p24f, near[1] = 1.0f;
    assert_true(fm_tree16(near) == 1.0f);
}

/* Each product passes through at most k / 16 + 4 roundings, each of relative size 2^-24. */
static void test_dot_distance(void **state) {
    (void)state;
    static bf16 a[K_MAX], b[K_MAX];
    static const int32_t LENGTHS[] = { 1, 2, 31, 32, 33, 64, 100, 768, 3072, K_MAX };
    for (size_t l = 0; l < sizeof LENGTHS / sizeof *LENGTHS; l++) {
        int32_t k = LENGTHS[l];
        for (int trial = 0; trial < 20; trial++) {
            double sum = 0.0, size = 0.0;
            for (int32_t i = 0; i < k; i++) {
                a[i] = bf16_of_f32(uniform() * (i % 7 == 0 ? 100.0f : 1.0f));
                b[i] = bf16_of_f32(uniform());
                double p = (double)f32_of_bf16(a[i]) * (double)f32_of_bf16(b[i]);
                sum += p, size += fabs(p);
            }
            double steps = ceil(k / 32.0) * 2 + 4, bound = 1.001 * steps * 0x1p-24 * size;
            double error = fabs((double)fm_dot(a, b, k) - sum);
            if (error > bound) fail_msg("k %d: error %.3g, bound %.3g", k, error, bound);
        }
    }
}

static void test_dot_pads_with_zeros(void **state) {
    (void)state;
    bf16 a[64] = { 0 }, b[64] = { 0 };
    for (int i = 0; i < 45; i++) a[i] = bf16_of_f32(uniform()), b[i] = bf16_of_f32(uniform());
    assert_true(fm_dot(a, b, 45) == fm_dot(a, b, 64));
}

/* Squares: at most n / 16 + 4 roundings; mean, sum, root and division add four more, the root halves what came before.
 */
static void test_norm_scale(void **state) {
    (void)state;
    static float x[K_MAX];
    for (int32_t n = 1; n <= K_MAX; n = n * 3 + 1) {
        double sum = 0.0;
        for (int32_t i = 0; i < n; i++) x[i] = uniform() * 10.0f, sum += (double)x[i] * (double)x[i];
        double want = 1.0 / sqrt(sum / n + 1e-6), steps = (ceil(n / 16.0) + 4) / 2 + 4;
        assert_true(fabs((double)fm_norm_scale(x, n, 1e-6f) - want) <= want * steps * 0x1p-24);
    }
}

/* --- functions --- */

static double ulps(float got, double want) {
    int e;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1.0, e - 24);
}

static void test_exp(void **state) {
    (void)state;
    double worst = 0.0;
    for (float x = -87.0f; x <= 88.0f; x += 0.00137f) {
        double u = ulps(fm_exp(x), exp((double)x));
        if (u > worst) worst = u;
    }
    assert_true(worst < 2.0);
    assert_true(fm_exp(0.0f) == 1.0f);
    assert_true(fm_exp(-INFINITY) == fm_exp(-87.0f) && fm_exp(INFINITY) == fm_exp(88.0f));
}

/* One exponential (2 ulp), one addition, one division, one rounding of the argument's share: 4 ulp. */
static void test_sigmoid_silu(void **state) {
    (void)state;
    for (float x = -80.0f; x <= 80.0f; x += 0.0137f) {
        double s = 1.0 / (1.0 + exp(-(double)x));
        assert_true(ulps(fm_sigmoid(x), s) < 4.0);
        if (x != 0.0f) assert_true(ulps(fm_silu(x), (double)x * s) < 4.0);
    }
    assert_true(fm_silu(0.0f) == 0.0f);
}

static void test_double_functions(void **state) {
    (void)state;
    for (double x = -700.0; x <= 700.0; x += 0.377) assert_true(fabs(fm_exp_d(x) / exp(x) - 1.0) < 1e-15);
    for (double x = 1e-300; x < 1e300; x *= 1.73) assert_true(fabs(fm_log_d(x) - log(x)) <= fabs(log(x)) * 5e-16);
    for (int i = -1000; i <= 1000; i++) {
        double x = 1.0 + i * 1e-6;
        assert_true(fabs(fm_log_d(x) - log(x)) <= fabs(log(x)) * 5e-16 + 1e-18);
    }
    assert_true(fm_log_d(1.0) == 0.0);
}

/* Evaluated in double, rounded once: half an ulp, and what double leaves of 1 + e^-|x| and of a difference near zero.
 */
static void test_softplus_tanh(void **state) {
    (void)state;
    for (float x = -60.0f; x <= 100.0f; x += 0.0173f) {
        double want = fmax((double)x, 0.0) + log1p(exp(-fabs((double)x)));
        assert_true(fabs((double)fm_softplus(x) - want) <= want * 0x1.02p-24 + 1e-15);
    }
    for (float x = -25.0f; x <= 25.0f; x += 0.00173f) {
        double want = tanh((double)x);
        assert_true(fabs((double)fm_tanh(x) - want) <= fabs(want) * 0x1.02p-24 + 1e-15);
    }
    assert_true(fm_tanh(-INFINITY) == -1.0f && fm_softplus(-INFINITY) == 0.0f);
}

/* Angles up to 2^21; the reduction leaves less than 1e-10 at the far end. */
static void test_sincos(void **state) {
    (void)state;
    for (float angle = 0.0f; angle < 0x1p21f; angle = angle * 1.01f + 0.013f) {
        float s, c;
        fm_sincos(angle, &s, &c);
        double want_s = sin((double)angle), want_c = cos((double)angle);
        assert_true(fabs((double)s - want_s) <= fabs(want_s) * 0x1.01p-24 + 1e-10);
        assert_true(fabs((double)c - want_c) <= fabs(want_c) * 0x1.01p-24 + 1e-10);
        float back_s, back_c;
        fm_sincos(-angle, &back_s, &back_c);
        assert_true(back_s == -s && back_c == c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dot_order),     cmocka_unit_test(test_tree_order),
        cmocka_unit_test(test_dot_distance),  cmocka_unit_test(test_dot_pads_with_zeros),
        cmocka_unit_test(test_norm_scale),    cmocka_unit_test(test_exp),
        cmocka_unit_test(test_sigmoid_silu),  cmocka_unit_test(test_double_functions),
        cmocka_unit_test(test_softplus_tanh), cmocka_unit_test(test_sincos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
