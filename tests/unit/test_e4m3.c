/* E4M3 against a table in double that is built from the format's definition, and rounding against a search for the
 * nearest of its values. */
#include "kernels/e4m3.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

enum { FINITE = 127, CODE_NAN = 0x7F, SIGN = 0x80 }; /* codes of finite values, sign left out: 0 .. 126 */

static double value[FINITE];

static int setup(void **state) {
    (void)state;
    for (int c = 0; c < FINITE; c++) {
        int exponent = c / 8, mantissa = c % 8;
        value[c] = exponent ? (1.0 + mantissa / 8.0) * pow(2.0, exponent - 7) : mantissa / 8.0 * pow(2.0, -6);
    }
    return 0;
}

/* The nearest value, of two the one with the even code; beyond the last one the last one. */
static e4m3 nearest(float f) {
    double x = fabs((double)f), best = INFINITY;
    int code = 0;
    for (int c = 0; c < FINITE; c++) {
        double distance = fabs(fmin(x, 1e30) - value[c]);
        if (distance > best || (distance == best && c % 2)) continue;
        best = distance;
        code = c;
    }
    return (e4m3)(code | (signbit(f) ? SIGN : 0));
}

static void check(float f) {
    e4m3 got = e4m3_of_f32(f), want = nearest(f);
    if (got != want) fail_msg("%a (%g) became 0x%02x, expected 0x%02x", f, f, got, want);
}

static void check_both(float f) {
    check(f);
    check(-f);
}

/* All codes: the right value, as FP32 and as BF16, and back. */
static void test_codes(void **state) {
    (void)state;
    assert_true(value[FINITE - 1] == 448.0 && value[1] == 1.0 / 512.0);
    for (int c = 0; c < 256; c++) {
        float f = f32_of_e4m3((e4m3)c);
        assert_int_equal(bits_of_f32(f), bits_of_f32(f32_of_bf16(bf16_of_e4m3((e4m3)c))));
        assert_int_equal(e4m3_of_f32(f), c);
        if (c % SIGN == CODE_NAN) {
            assert_true(isnan(f));
            continue;
        }
        assert_true((double)fabsf(f) == value[c % SIGN]);
        assert_int_equal(!!signbit(f), c >= SIGN);
    }
}

/* Halfway between two neighbours the even code wins; the next numbers on both sides are nearer to one of them. */
static void test_midpoints(void **state) {
    (void)state;
    for (int c = 0; c + 1 < FINITE; c++) {
        float middle = (float)((value[c] + value[c + 1]) / 2.0); /* exact: one bit more than a value has */
        assert_int_equal(e4m3_of_f32(middle), c + c % 2);
        assert_int_equal(e4m3_of_f32(nextafterf(middle, 0.0f)), c);
        assert_int_equal(e4m3_of_f32(nextafterf(middle, INFINITY)), c + 1);
        check_both(middle);
        check_both(nextafterf(middle, 0.0f));
        check_both(nextafterf(middle, INFINITY));
    }
}

static void test_saturation(void **state) {
    (void)state;
    static const float LARGE[] = {
        448.0f, 448.00003f, 463.99997f, 464.0f, 464.00003f, 480.0f, 512.0f, 3e38f, INFINITY
    };
    for (size_t i = 0; i < sizeof LARGE / sizeof *LARGE; i++) {
        assert_int_equal(e4m3_of_f32(LARGE[i]), 0x7E);
        assert_int_equal(e4m3_of_f32(-LARGE[i]), 0xFE);
    }
}

static void test_nan_and_zero(void **state) {
    (void)state;
    static const uint32_t NANS[] = { 0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x7FA00000 };
    for (size_t i = 0; i < sizeof NANS / sizeof *NANS; i++) {
        assert_int_equal(e4m3_of_f32(f32_of_bits(NANS[i])), 0x7F);
        assert_int_equal(e4m3_of_f32(f32_of_bits(NANS[i] | 0x80000000u)), 0xFF);
    }
    assert_int_equal(e4m3_of_f32(0.0f), 0x00);
    assert_int_equal(e4m3_of_f32(-0.0f), 0x80);
    check_both(1e-45f);
    check_both(0x1p-10f); /* half a step: to zero */
    check_both(nextafterf(0x1p-10f, 1.0f));
}

/* Numbers all over FP32, most of them within the format's range. */
static void test_everywhere(void **state) {
    (void)state;
    for (uint64_t u = 0; u < 0x7F800000u; u += 4093) check_both(f32_of_bits((uint32_t)u));
    for (uint32_t u = 0x3A000000u; u < 0x44000000u; u += 1021) check(f32_of_bits(u));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes),        cmocka_unit_test(test_midpoints),  cmocka_unit_test(test_saturation),
        cmocka_unit_test(test_nan_and_zero), cmocka_unit_test(test_everywhere),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
