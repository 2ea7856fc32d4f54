/* The choice of a token: golden filter cases, the literal rule, frequencies. */
#include "kernels/logprob_core.h"
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

static bool contains(const json_t *list, int32_t id) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == id) return true;
    return false;
}

/* --- a request's text --- */

static struct { int32_t count[VOCAB_MAX], seen[VOCAB_MAX], end[VOCAB_MAX]; } table;

static pick_lists empty_lists(void) {
    memset(&table, 0, sizeof table);
    return (pick_lists){ .count = table.count, .seen = table.seen, .end = table.end };
}

static void count_token(pick_lists *l, int32_t token) {
    if (l->count[token]++ == 0) l->seen[l->n_seen++] = token;
}

static void count_tokens(pick_lists *l, const json_t *ids) {
    for (size_t i = 0; i < json_array_size(ids); i++)
        count_token(l, (int32_t)json_integer_value(json_array_get(ids, i)));
}

static void add_biases(pick_lists *l, const json_t *bias) {
    const char *id;
    json_t *value;
    json_object_foreach((json_t *)bias, id, value) l->bias[l->n_bias++] =
        (pick_bias){ atoi(id), (float)json_number_value(value) };
}

/* The last n_path tokens of the output are proposals on the row's path, the others have been emitted. */
static void check_golden_row(const json_t *row, size_t n_path) {
    const json_t *logits = json_object_get(row, "logits"), *params = json_object_get(row, "params");
    const json_t *survivors = json_object_get(row, "survivors"), *output = json_object_get(row, "output_ids");
    const char *name = json_string_value(json_object_get(row, "name"));
    float raw[64], copy[64];
    pick_row r = { .z = raw, .n = (int32_t)json_array_size(logits), .q = 3 };
    for (int32_t v = 0; v < r.n; v++) {
        const json_t *l = json_array_get(logits, (size_t)v);
        raw[v] = json_is_string(l) ? -INFINITY : (float)json_number_value(l);
    }
    pick_params p = { .temperature = number_or(params, "temperature", 1.0),
                      .top_p = number_or(params, "top_p", 1.0),
                      .min_p = number_or(params, "min_p", 0.0),
                      .top_k = (int32_t)number_or(params, "top_k", 0.0),
                      .repeat = number_or(params, "repetition_penalty", 1.0),
                      .presence = number_or(params, "presence_penalty", 0.0),
                      .frequency = number_or(params, "frequency_penalty", 0.0) };
    pick_lists lists = empty_lists();
    count_tokens(&lists, json_object_get(row, "prompt_ids"));
    for (size_t i = 0; i < json_array_size(output); i++) {
        int32_t token = (int32_t)json_integer_value(json_array_get(output, i));
        if (i + n_path < json_array_size(output))
            count_token(&lists, token);
        else
            r.path[r.n_path++] = token;
    }
    add_biases(&lists, json_object_get(params, "logit_bias"));
    const float *z = pick_adjust(&r, &p, &lists, copy);
    if (p.temperature >= PICK_GREEDY_BELOW) {
        pick_cut cut = pick_filter(z, r.n, &p, work);
        for (int32_t v = 0; v < r.n; v++)
            if (pick_survives(&cut, (pick_cand){ z[v] / p.temperature, v }) != contains(survivors, v))
                fail_msg("%s: token %d", name, v);
    }
    for (p.seed = 0; p.seed < 50; p.seed++)
        if (!contains(survivors, pick_token(z, r.n, &p, r.q, work))) fail_msg("%s: a token that is filtered out", name);
}

static void test_golden(void **state) {
    (void)state;
    json_error_t e;
    json_t *j = json_load_file("tests/golden/sampling_ref.json", 0, &e);
    if (!j) fail_msg("sampling_ref.json:%d: %s", e.line, e.text);
    for (size_t i = 0; i < json_array_size(j); i++) {
        const json_t *row = json_array_get(j, i);
        size_t output = json_array_size(json_object_get(row, "output_ids"));
        for (size_t n_path = 0; n_path <= output; n_path++) check_golden_row(row, n_path);
    }
    assert_true(json_array_size(j) >= 65);
    json_decref(j);
}

/* Every penalty by itself on numbers that can be done by hand; the path counts with the text. */
static void test_penalties(void **state) {
    (void)state;
    float z[5] = { 4.0f, -4.0f, 4.0f, -4.0f, 1.0f }, copy[5];
    pick_row r = { .z = z, .n = 5, .path = { 2, 3, 2 }, .n_path = 3 };
    pick_lists l = empty_lists();
    count_token(&l, 0), count_token(&l, 1), count_token(&l, 0), count_token(&l, 2);
    pick_params p = { .repeat = 2.0f };
    float repeated[5] = { 2.0f, -8.0f, 2.0f, -8.0f, 1.0f }, present[5] = { 3.0f, -5.0f, 3.0f, -5.0f, 1.0f };
    float frequent[5] = { 3.0f, -4.5f, 2.5f, -4.5f, 1.0f };
    assert_memory_equal(pick_adjust(&r, &p, &l, copy), repeated, sizeof repeated);
    p = (pick_params){ .presence = 1.0f };
    assert_memory_equal(pick_adjust(&r, &p, &l, copy), present, sizeof present);
    p = (pick_params){ .repeat = 1.0f, .frequency = 0.5f };
    assert_memory_equal(pick_adjust(&r, &p, &l, copy), frequent, sizeof frequent);
    assert_ptr_equal(pick_adjust(&r, &(pick_params){ .repeat = 1.0f }, &l, copy),
                     z); /* nothing to do, nothing copied */
    assert_ptr_equal(pick_adjust(&r, &(pick_params){ .repeat = 0.0f }, &l, copy), z);
    l.bias[l.n_bias++] = (pick_bias){ 4, 2.0f };
    l.bias[l.n_bias++] = (pick_bias){ 0, -1.0f };
    l.bias[l.n_bias++] = (pick_bias){ 4, 3.0f };
    p = (pick_params){ .presence = 1.0f };
    present[0] = 2.0f, present[4] = 6.0f;
    assert_memory_equal(pick_adjust(&r, &p, &l, copy), present, sizeof present);
}

static void test_end_tokens(void **state) {
    (void)state;
    float z[4] = { 1.0f, 9.0f, 5.0f, 8.0f }, copy[4];
    pick_row r = { .z = z, .n = 4 };
    pick_lists l = empty_lists();
    pick_params p = { .end_from = 12 };
    l.end[l.n_end++] = 1, l.end[l.n_end++] = 3;
    l.bias[l.n_bias++] = (pick_bias){ 1, 100.0f }; /* a mask is stronger */
    for (r.q = 10; r.q < 14; r.q++)
        assert_int_equal(pick_token(pick_adjust(&r, &p, &l, copy), 4, &p, r.q, work), r.q < 12 ? 2 : 1);
}

/* --- log-probabilities --- */

/* Against double precision. The result, down to -80, is rounded once: half an ulp, 3.8e-6. An exponential is off by 2
 * ulp, 2.4e-7, and by the rounding of its argument, which is 2.4e-7 at most where the argument is above -4; those below
 * weigh next to nothing. */
#define LOGPROB_ERROR 5e-6

static void test_logprobs(void **state) {
    (void)state;
    static float z[VOCAB_MAX];
    static const int32_t VOCAB[] = { 1, 2, 15, 16, 17, 100, VOCAB_MAX };
    for (int trial = 0; trial < 70; trial++) {
        int32_t n = VOCAB[trial % 7], most = trial % 22, chosen = (int32_t)(random_word() % (uint32_t)n);
        for (int32_t v = 0; v < n; v++) z[v] = ((float)random_word() * 0x1p-24f - 0.5f) * (trial % 2 ? 8.0f : 80.0f);
        for (int32_t v = 0; trial % 3 == 0 && v < n; v++) z[v] = floorf(z[v]);
        double acc[16] = { 0 }, sum = 0.0;
        float top = z[pick_largest(z, n, 1.0f).id];
        for (int32_t v = 0; v < n; v++)
            acc[v & 15] += (double)fm_exp(z[v] - top), sum += exp((double)z[v] - (double)top);
        double log_sum = log(fmax(sum, 1.0)); /* the largest alone makes it 1 */
        pick_logprobs got;
        logprob_fill(&got, z, n, chosen, most, top, logprob_close(acc));
        int32_t told = most < PICK_TOP_MAX ? most : PICK_TOP_MAX;
        assert_int_equal(got.n, told < n ? told : n);
        assert_true(fabs((double)got.own - ((double)z[chosen] - (double)top - log_sum)) < LOGPROB_ERROR);
        for (int32_t v = 0; v < n; v++) work[v] = (pick_cand){ z[v], v };
        qsort(work, (size_t)n, sizeof *work, by_order);
        for (int32_t i = 0; i < got.n; i++) {
            assert_int_equal(got.id[i], work[i].id);
            assert_true(fabs((double)got.logp[i] - ((double)work[i].y - (double)top - log_sum)) < LOGPROB_ERROR);
        }
    }
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
        cmocka_unit_test(test_equal_sums),  cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_end_tokens),  cmocka_unit_test(test_logprobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
