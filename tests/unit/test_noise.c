#include "kernels/noise.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

static json_t *golden(void) {
    json_error_t e;
    json_t *j = json_load_file("tests/golden/noise_ref.json", 0, &e);
    if (!j) fail_msg("noise_ref.json:%d: %s", e.line, e.text);
    return j;
}

static uint32_t hex_word(const json_t *j) { return (uint32_t)strtoul(json_string_value(j), NULL, 16); }

static void test_known_answers(void **state) {
    (void)state;
    json_t *j = golden();
    const json_t *rows = json_object_get(j, "known_answers");
    assert_int_equal(json_array_size(rows), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *row = json_array_get(rows, i);
        uint32_t counter[4], key[2], out[4];
        for (size_t k = 0; k < 4; k++) counter[k] = hex_word(json_array_get(json_object_get(row, "counter"), k));
        for (size_t k = 0; k < 2; k++) key[k] = hex_word(json_array_get(json_object_get(row, "key"), k));
        philox4x32_10(counter, key, out);
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(out[k], hex_word(json_array_get(json_object_get(row, "out"), k)));
    }
    json_decref(j);
}

static void test_vectors(void **state) {
    (void)state;
    json_t *j = golden();
    const json_t *rows = json_object_get(j, "vectors");
    assert_int_equal(json_array_size(rows), 212);
    for (size_t i = 0; i < 212; i++) {
        const json_t *row = json_array_get(rows, i);
        uint64_t seed = strtoull(json_string_value(json_object_get(row, "seed")), NULL, 10);
        int64_t position = json_integer_value(json_object_get(row, "position"));
        int32_t token = (int32_t)json_integer_value(json_object_get(row, "token"));
        uint32_t word = noise_word(seed, position, token);
        assert_int_equal(word, hex_word(json_object_get(row, "word")));
        assert_true((double)noise_uniform(word) == json_number_value(json_object_get(row, "u")));
        /* Two logarithms in double, then one rounding to FP32. */
        double want = json_number_value(json_object_get(row, "gumbel"));
        assert_true(fabs((double)noise_gumbel(seed, position, token) - want) <= fabs(want) * 0x1.01p-24 + 1e-15);
    }
    json_decref(j);
}

/* Every one of the 2^23 uniform numbers lies strictly between 0 and 1, and they rise. */
static void test_uniform_range(void **state) {
    (void)state;
    float last = 0.0f;
    for (uint32_t h = 0; h < 1u << 23; h++) {
        float u = noise_uniform(h << 9 | 0x1FF);
        if (!(u > last && u < 1.0f)) fail_msg("hash %u: %.9g after %.9g", h, (double)u, (double)last);
        last = u;
    }
}

/* Finite, rising, at most 16.64: at both ends word by word, between them in steps. */
static void test_gumbel_range(void **state) {
    (void)state;
    const uint32_t n = 1u << 23, end = 4096;
    float last = -3.0f;
    for (uint32_t h = 0; h < n; h += h < end || h >= n - end ? 1 : 257) {
        float g = noise_of_word(h << 9);
        if (!(g >= last && g <= 16.64f)) fail_msg("hash %u: %.9g after %.9g", h, (double)g, (double)last);
        last = g;
    }
    assert_true(last > 16.6f);
}

/* Neighbours in position, token and seed are unrelated: half of the 32 bits differ, on average over 3 * 4096 pairs.
 * The mean of 12288 * 32 fair bits stays within 6 standard deviations, 6 * sqrt(0.25 / 393216) = 0.0048. */
static void test_avalanche(void **state) {
    (void)state;
    int64_t bits = 0;
    for (int32_t i = 0; i < 4096; i++) {
        uint32_t w = noise_word(7, i, 3 * i);
        bits += __builtin_popcount(w ^ noise_word(7, i + 1, 3 * i)) +
                __builtin_popcount(w ^ noise_word(7, i, 3 * i + 1)) + __builtin_popcount(w ^ noise_word(8, i, 3 * i));
    }
    double share = (double)bits / (4096.0 * 3 * 32);
    assert_true(share > 0.4952 && share < 0.5048);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers), cmocka_unit_test(test_vectors),   cmocka_unit_test(test_uniform_range),
        cmocka_unit_test(test_gumbel_range),  cmocka_unit_test(test_avalanche),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
