/* The choice of a token: golden filter cases, the literal rule, frequencies. */
#include "kernels/pick_core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

enum { VOCAB_MAX = 4096 };

static pick_cand work[VOCAB_MAX];

static uint32_t random_state = 1;

static uint32_t random_word(void) { return random_state = random_state * 1664525u + 1013904223u, random_state >> 8; }

/* --- the literal rule: everything sorted, every noise evaluated --- */

static int by_order(const void *pa, const void *pb) {
    const pick_cand *a = pa, *b = pb;
    return pick_before(*a, *b) ? -1 : pick_before(*b, *a);
}

/* Survivors of all filters in the order; returns their number. */
static int32_t literal_filter(const float *z, int32_t n, const pick_params *p, pick_cand *out) {
    for (int32_t v = 0; v < n; v++) out[v] = (pick_cand){ z[v] / p->temperature, v };
    qsort(out, (size_t)n, sizeof *out, by_order);
    float top = out[0].y;
    if (p->top_k > 0 && p->top_k < n) {
        float kth = out[p->top_k - 1].y;
        while (out[n - 1].y < kth) n--;
    }
    if (p->top_p < 1.0f) {
        double acc[16] = { 0 }, sum = 0.0;
        for (int32_t v = 0; v < VOCAB_MAX; v++) /* in the order of ids */
            for (int32_t i = 0; i < n; i++)
                if (out[i].id == v) acc[v & 15] += (double)fm_exp(out[i].y - top);
        for (int h = 8; h; h /= 2)
            for (int i = 0; i < h; i++) acc[i] += acc[i + h];
        int32_t kept = 0;
        do sum += (double)fm_exp(out[kept++].y - top);
        while (sum < (double)p->top_p * acc[0] && kept < n);
        n = kept;
    }
    if (p->min_p > 0.0f)
        while ((double)out[n - 1].y - (double)top < fm_log_d((double)p->min_p)) n--;
    return n;
}

static int32_t literal_token(const pick_params *p, int64_t q, const pick_cand *survivor, int32_t n) {
    int32_t best = -1;
    double best_sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        double sum = (double)survivor[i].y + (double)noise_gumbel(p->seed, q, survivor[i].id);
        if (best >= 0 && !(sum > best_sum || (sum == best_sum && survivor[i].id < best))) continue;
        best = survivor[i].id, best_sum = sum;
    }
    return best;
}

/* --- golden cases --- */

static float number_or(const json_t *params, const char *key, double otherwise) {
    const json_t *v = json_object_get(params, key);
    return (float)(v ? json_number_value(v) : otherwise);
}

static bool has_penalties(const json_t *params) {
    return json_object_get(params, "repetition_penalty") || json_object_get(params, "frequency_penalty") ||
           json_object_get(params, "presence_penalty") || json_object_get(params, "logit_bias");
}

static bool contains(const json_t *list, int32_t id) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == id) return true;
    return false;
}

static void check_golden_row(const json_t *row) {
    const json_t *logits = json_object_get(row, "logits"), *params = json_object_get(row, "params");
    const json_t *survivors = json_object_get(row, "survivors");
    const char *name = json_string_value(json_object_get(row, "name"));
    float z[64];
    int32_t n = (int32_t)json_array_size(logits);
    for (int32_t v = 0; v < n; v++) {
        const json_t *l = json_array_get(logits, (size_t)v);
        z[v] = json_is_string(l) ? -INFINITY : (float)json_number_value(l);
    }
    pick_params p = { .temperature = number_or(params, "temperature", 1.0),
                      .top_p = number_or(params, "top_p", 1.0),
                      .min_p = number_or(params, "min_p", 0.0),
                      .top_k = (int32_t)number_or(params, "top_k", 0.0) };
    if (p.temperature >= PICK_GREEDY_BELOW) {
        pick_cut cut = pick_filter(z, n, &p, work);
        for (int32_t v = 0; v < n; v++)
            if (pick_survives(&cut, (pick_cand){ z[v] / p.temperature, v }) != contains(survivors, v))
                fail_msg("%s: token %d", name, v);
    }
    for (p.seed = 0; p.seed < 50; p.seed++)
        if (!contains(survivors, pick_token(z, n, &p, 3, work))) fail_msg("%s: a token that is filtered out", name);
}

static void test_golden(void **state) {
    (void)state;
    json_error_t e;
    json_t *j = json_load_file("tests/golden/sampling_ref.json", 0, &e);
    if (!j) fail_msg("sampling_ref.json:%d: %s", e.line, e.text);
    size_t checked = 0;
    for (size_t i = 0; i < json_array_size(j); i++) {
        const json_t *row = json_array_get(j, i);
        if (has_penalties(json_object_get(row, "params"))) continue; /* applied before this rule begins */
        check_golden_row(row);
        checked++;
    }
    assert_true(checked >= 45);
    json_decref(j);
}

/* --- shortcuts change nothing --- */

static void fill_logits(float *z, int32_t n, float spread, bool ties) {
    for (int32_t v = 0; v < n; v++) {
        float x = ((float)random_word() * 0x1p-24f - 0.5f) * spread;
        z[v] = ties ? floorf(x * 2.0f) / 2.0f : x;
    }
    if (random_word() % 4 == 0) z[random_word() % (uint32_t)n] = -INFINITY;
    if (random_word() % 4 == 0) z[random_word() % (uint32_t)n] = spread;
}

static pick_params random_params(int32_t n) {
    static const float TEMPERATURE[] = { 1.0f, 0.7f, 1.3f, 5.0f, 0.05f, 2e-5f };
    static const float TOP_P[] = { 1.0f, 0.95f, 0.5f, 0.999f, 1e-4f, 0.99999994f };
    static const float MIN_P[] = { 0.0f, 0.05f, 1e-4f, 1.0f };
    return (pick_params){ .temperature = TEMPERATURE[random_word() % 6],
                          .top_p = TOP_P[random_word() % 6],
                          .min_p = MIN_P[random_word() % 4],
                          .top_k = random_word() % 2 ? 0 : (int32_t)(random_word() % (uint32_t)(n + 2)),
                          .seed = random_word() };
}

static void test_equals_literal_rule(void **state) {
    (void)state;
    static const int32_t VOCAB[] = { 1, 2, 3, 7, 16, 33, 100, 257 };
    static float z[VOCAB_MAX];
    static pick_cand survivor[VOCAB_MAX];
    for (int trial = 0; trial < 1500; trial++) {
        int32_t n = VOCAB[random_word() % 8];
        fill_logits(z, n, trial % 3 ? 12.0f : 80.0f, trial % 5 == 0);
        pick_params p = random_params(n);
        int32_t left = literal_filter(z, n, &p, survivor);
        pick_cut cut = pick_filter(z, n, &p, work);
        for (int32_t v = 0; v < n; v++) {
            bool want = false;
            for (int32_t i = 0; i < left; i++) want |= survivor[i].id == v;
            if (pick_survives(&cut, (pick_cand){ z[v] / p.temperature, v }) != want)
                fail_msg("trial %d, token %d", trial, v);
        }
        for (int64_t q = 0; q < 4; q++)
            if (pick_token(z, n, &p, q, work) != literal_token(&p, q, survivor, left)) fail_msg("trial %d", trial);
    }
}

static void test_equals_literal_rule_large(void **state) {
    (void)state;
    static float z[VOCAB_MAX];
    static pick_cand survivor[VOCAB_MAX];
    for (int trial = 0; trial < 40; trial++) {
        fill_logits(z, VOCAB_MAX, 20.0f, trial % 4 == 0);
        pick_params p = random_params(VOCAB_MAX);
        p.top_p = 1.0f; /* the literal sum is quadratic */
        int32_t left = literal_filter(z, VOCAB_MAX, &p, survivor);
        for (int64_t q = 0; q < 20; q++)
            assert_int_equal(pick_token(z, VOCAB_MAX, &p, q, work), literal_token(&p, q, survivor, left));
    }
}

/* The bound of every step is one: no noise of a skipped word reaches it. And it is of use: the next words nearly do. */
static void test_noise_bound(void **state) {
    (void)state;
    for (int i = 0; i <= 16; i++) {
        for (int32_t h = (1 << 23) - 1; h >= 0; h -= h > (1 << 23) - 4096 ? 1 : 1021) {
            uint32_t word = (uint32_t)h << 9;
            bool below = pick_noise_below(word, i + 0.0);
            if (below && (double)noise_of_word(word) >= i) fail_msg("need %d, hash %d", i, h);
            if (!below && i >= 3 && (double)noise_of_word(word) < i - 0.5) fail_msg("need %d, hash %d: no use", i, h);
        }
    }
    assert_true(pick_noise_below(UINT32_MAX, 16.65));
    assert_false(pick_noise_below(0, -0.1));
}

/* --- distribution --- */

/* Chi-square of `draws` draws against the softmax of the survivors. With d degrees of freedom the statistic has mean d
 * and variance 2 d; d + 5 sqrt(2 d) is passed by chance less than once in ten thousand. Seeds are fixed, so nothing
 * flickers. */
static void check_frequencies(const float *z, int32_t n, pick_params p, bool over_positions) {
    enum { DRAWS = 40000 };
    pick_cand survivor[16];
    int32_t count[16] = { 0 }, left = literal_filter(z, n, &p, survivor);
    for (int i = 0; i < DRAWS; i++) {
        if (!over_positions) p.seed = (uint64_t)i * 0x9E3779B97F4A7C15u;
        count[pick_token(z, n, &p, over_positions ? i : 17, work)]++;
    }
    double total = 0.0, chi = 0.0;
    int32_t seen = 0;
    for (int32_t i = 0; i < left; i++) total += exp((double)survivor[i].y - (double)survivor[0].y);
    for (int32_t i = 0; i < left; i++) {
        double want = DRAWS * exp((double)survivor[i].y - (double)survivor[0].y) / total;
        chi += (count[survivor[i].id] - want) * (count[survivor[i].id] - want) / want;
        seen += count[survivor[i].id];
    }
    assert_int_equal(seen, DRAWS);
    assert_true(chi < left - 1 + 5.0 * sqrt(2.0 * (left - 1)) + 1.0);
}

static void test_frequencies(void **state) {
    (void)state;
    static const float Z[12] = { 1.0f, 0.0f, 2.5f, -1.0f, 2.5f, 0.5f, -3.0f, 1.5f, 0.25f, 2.0f, -0.5f, 1.0f };
    for (int over = 0; over < 2; over++) {
        check_frequencies(Z, 12, (pick_params){ .temperature = 1.0f, .top_p = 1.0f, .seed = 5 }, over);
        check_frequencies(Z, 12, (pick_params){ .temperature = 0.7f, .top_p = 0.8f, .seed = 6 }, over);
        check_frequencies(Z, 12, (pick_params){ .temperature = 1.5f, .top_p = 1.0f, .top_k = 4, .seed = 7 }, over);
        check_frequencies(Z, 12, (pick_params){ .temperature = 1.0f, .top_p = 1.0f, .min_p = 0.2f, .seed = 8 }, over);
    }
}

/* --- borders --- */

static void test_borders(void **state) {
    (void)state;
    pick_params greedy = { .temperature = 0.0f, .top_p = 1.0f },
                sampled = { .temperature = 1.0f, .top_p = 0.9f, .seed = 3 };
    float none[3] = { -INFINITY, -INFINITY, -INFINITY }, broken[3] = { NAN, NAN, NAN },
          one[3] = { NAN, 2.0f, -INFINITY };
    float tie[4] = { 1.0f, 3.0f, 3.0f, 2.0f }, high[3] = { 1.0f, INFINITY, 2.0f };
    assert_int_equal(pick_token(tie, 4, &greedy, 0, work), 1);
    greedy.temperature = 0.9e-5f;
    assert_int_equal(pick_token(tie, 4, &greedy, 0, work), 1);
    for (int32_t k = 0; k < 5; k++) {
        sampled.top_k = k;
        assert_int_equal(pick_token(none, 3, &sampled, 0, work), 0);
        assert_int_equal(pick_token(broken, 3, &sampled, 0, work), 0);
        assert_int_equal(pick_token(high, 3, &sampled, 0, work), 1);
        assert_int_equal(pick_token(tie, 1, &sampled, 0, work), 0);
    }
    sampled.top_k = 0;
    assert_int_equal(pick_token(one, 3, &sampled, 0, work), 1);
}

/* Two tokens that have each other's noise as their logit have equal sums: the smaller id is chosen. */
static void test_equal_sums(void **state) {
    (void)state;
    pick_params p = { .temperature = 1.0f, .top_p = 1.0f, .seed = 11 };
    for (int64_t q = 0; q < 50; q++) {
        float z[2] = { noise_gumbel(p.seed, q, 1), noise_gumbel(p.seed, q, 0) };
        assert_int_equal(pick_token(z, 2, &p, q, work), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),      cmocka_unit_test(test_equals_literal_rule),
        cmocka_unit_test(test_noise_bound), cmocka_unit_test(test_equals_literal_rule_large),
        cmocka_unit_test(test_frequencies), cmocka_unit_test(test_borders),
        cmocka_unit_test(test_equal_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
