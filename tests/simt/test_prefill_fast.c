/* Exact and fast prefill on the CUDA backend over the shim, where lt_model.cpp multiplies in place of cuBLASLt: what
 * stays the same to the bit, how far the rest may go, what fails.
 *
 * How far: the CPU backend differs from the exact CUDA kernels in the order of additions alone, as a fast prefill does.
 * Its distance from them is what one other order does to a model and a prompt, and twice that is allowed. */
#include "engine/core/fingerprint.h"
#include "engine/core/probe.h"
#include "kernels/memory.h"
#include "tests/model/model_fixture.h"
#include "tests/simt/lt_model.h"
#include "tests/simt/simt_control.h"

#include <math.h>

enum { CTX = 320, PROMPT = 256, SHORT = 32, ANSWER = 24, STEPS = 3 };

static const pick_params GREEDY = { .top_p = 1.0f };

/* ---- pairs ---- */

typedef struct model {
    const char *target, *draft; /* NULL: the demo pair */
} model;
static const model DEMO, TINY = { "tests/golden/tiny_target", "tests/golden/tiny_draft" };

static status try_start(pair *p, const model *m, backend_kind backend, prefill_kind prefill, err *e) {
    engine_options opt = { .lanes = 1, .ctx = CTX, .backend = backend, .prefill = prefill };
    TRY(pair_load(p, m->target, m->draft, true, NULL, NULL, e));
    return pair_start(p, &opt, e);
}

static pair *start(const model *m, backend_kind backend, prefill_kind prefill) {
    pair *p = xalloc(sizeof *p);
    MUST(try_start(p, m, backend, prefill, e));
    return p;
}

/* The same model three times. */
typedef struct world {
    pair *exact, *fast, *cpu;
    int32_t *tokens, vocab;
} world;

/* Text for the demo pair, any tokens for the one that knows none. */
static int32_t *make_tokens(const model *m, int32_t vocab) {
    if (!m->target) return demo_tokens(CTX);
    int32_t *out = xalloc(CTX * sizeof *out);
    for (int32_t i = 0; i < CTX; i++) out[i] = (int32_t)((int64_t)(i + 1) * 7919 % vocab);
    return out;
}

static world world_open(const model *m) {
    world w = { start(m, BACKEND_CUDA, PREFILL_EXACT), start(m, BACKEND_CUDA, PREFILL_FAST),
                start(m, BACKEND_CPU, PREFILL_EXACT), NULL, 0 };
    w.vocab = w.cpu->target.cfg.vocab;
    w.tokens = make_tokens(m, w.vocab);
    return w;
}

/* Nothing stays behind: neither on the device nor of the library. */
static void world_close(world *w) {
    demo_close(w->exact);
    demo_close(w->fast);
    demo_close(w->cpu);
    free(w->tokens);
    assert_int_equal(simt_device_bytes(), 0);
    assert_int_equal(lt_model_plans(), 0);
}

/* ---- runs ---- */

/* What a prompt leaves: logits of the rows of its last chunk, then those of some plain steps; all keys and values; what
 * the draft reads. */
typedef struct trail {
    float *rows, *decoded;
    char *kv;
    bf16 *taps;
    size_t kv_bytes, tap_bytes;
    int32_t n, vocab;
} trail;

static void trail_free(trail *t) {
    free(t->rows);
    free(t->decoded);
    free(t->kv);
    free(t->taps);
}

static size_t tap_bytes(const pair *p) {
    const view *taps = &p->target.tap_ring;
    return (size_t)taps->stride * (size_t)taps->rows;
}

/* Keys, values and taps: all bits set, so that whoever reads what was not written shows it. */
static void fill_memory(const pair *p) {
    size_t kv = p->target.kv.bytes, taps = tap_bytes(p);
    char *ones = xalloc(kv + taps);
    memset(ones, 0xFF, kv + taps);
    memory_copy(p->device, p->target.kv.block, ones, kv);
    memory_copy(p->device, p->target.tap_ring.data, ones, taps);
    memory_wait(p->device);
    free(ones);
}

/* n tokens in chunks of `chunk`. */
static trail follow(pair *p, const int32_t *tokens, int32_t n, int32_t chunk) {
    steps *s = p->steps;
    int32_t vocab = p->target.cfg.vocab, at = 0;
    trail t = { .kv_bytes = p->target.kv.bytes, .tap_bytes = tap_bytes(p), .vocab = vocab };
    probe *b;
    MUST(probe_open(&b, p, e));
    fill_memory(p);
    steps_seek(s, 0, 0, 0);
    steps_set_pick(s, &GREEDY);
    for (; n - at > chunk; at += chunk) steps_prefill(s, tokens + at, chunk, false);
    t.n = n - at;
    t.rows = xalloc((size_t)t.n * (size_t)vocab * sizeof(float));
    t.decoded = xalloc((size_t)STEPS * (size_t)vocab * sizeof(float));
    t.kv = xalloc(t.kv_bytes);
    t.taps = xalloc(t.tap_bytes);
    probe_prefill(b, tokens + at, t.n, t.rows);
    steps_seek(s, n, tokens[n], 0);
    for (int32_t i = 0; i < STEPS; i++) {
        steps_plain(s);
        probe_step_logits(b, find_step(s, "plain-1"), 1, t.decoded + i * vocab);
    }
    memory_copy(p->device, t.kv, p->target.kv.block, t.kv_bytes);
    memory_copy(p->device, t.taps, p->target.tap_ring.data, t.tap_bytes);
    memory_wait(p->device);
    MUST(steps_status(s, e));
    probe_close(b);
    return t;
}

static const float *last_row(const trail *t) { return t->rows + (int64_t)(t->n - 1) * t->vocab; }

static void check_same(const trail *got, const trail *want) {
    size_t row = (size_t)want->vocab * sizeof(float);
    assert_memory_equal(last_row(got), last_row(want), row);
    assert_memory_equal(got->decoded, want->decoded, STEPS * row);
    assert_memory_equal(got->kv, want->kv, want->kv_bytes);
    assert_memory_equal(got->taps, want->taps, want->tap_bytes);
}

static bool differ(const trail *a, const trail *b) {
    return memcmp(a->rows, b->rows, (size_t)a->n * (size_t)a->vocab * sizeof(float)) != 0;
}

/* ---- distances ---- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Largest difference of each row of logits, in units of the row's RMS: of the median row, and of the row that nine in
 * ten stay below. absolute: largest difference of all. taps: RMS of their difference over their RMS. */
typedef struct distance {
    double median, most, absolute, taps;
} distance;

static double tap_distance(const trail *got, const trail *want) {
    double off = 0.0, all = 0.0;
    for (size_t i = 0; i < want->tap_bytes / sizeof(bf16); i++) {
        double a = (double)f32_of_bf16(got->taps[i]), b = (double)f32_of_bf16(want->taps[i]);
        if (want->taps[i] == 0xFFFF && got->taps[i] == 0xFFFF) continue; /* written by neither */
        off += (a - b) * (a - b), all += b * b;
    }
    return sqrt(off / all);
}

static distance distance_of(const trail *got, const trail *want) {
    double row[PROMPT], absolute = 0.0;
    for (int32_t r = 0; r < want->n; r++) {
        double worst = 0.0, squares = 0.0;
        for (int32_t v = 0; v < want->vocab; v++) {
            double a = (double)got->rows[(int64_t)r * want->vocab + v], b = want->rows[(int64_t)r * want->vocab + v];
            if (!(fabs(a - b) <= worst)) worst = fabs(a - b); /* a NaN stays */
            squares += b * b;
        }
        row[r] = worst / sqrt(squares / want->vocab);
        if (!(worst <= absolute)) absolute = worst;
    }
    qsort(row, (size_t)want->n, sizeof *row, by_size);
    return (distance){ row[want->n / 2], row[want->n * 9 / 10], absolute, tap_distance(got, want) };
}

static bool within(const distance *d, const distance *limit) {
    return d->median <= 2.0 * limit->median && d->most <= 2.0 * limit->most && d->taps <= 2.0 * limit->taps;
}

/* ---- exact ---- */

/* What is known of a prompt equals what is computed again, to the bit, however it was cut. */
static void test_exact_is_one(void **state) {
    world *w = *state;
    static const int32_t CHUNKS[] = { 131, 64, 32 };
    int before = lt_model_products();
    trail cold = follow(w->exact, w->tokens, PROMPT, PROMPT);
    for (int i = 0; i < 3; i++) {
        trail warm = follow(w->exact, w->tokens, PROMPT, CHUNKS[i]);
        check_same(&warm, &cold);
        trail_free(&warm);
    }
    assert_int_equal(lt_model_products(), before);
    trail_free(&cold);
}

/* ---- fast ---- */

/* Other bits, but no further away than those of any other order of additions; decoding behind it likewise. */
static void test_fast_is_close(void **state) {
    world *w = *state;
    trail exact = follow(w->exact, w->tokens, PROMPT, PROMPT), cpu = follow(w->cpu, w->tokens, PROMPT, PROMPT);
    trail fast = follow(w->fast, w->tokens, PROMPT, PROMPT);
    distance limit = distance_of(&cpu, &exact), d = distance_of(&fast, &exact);
    assert_true(differ(&fast, &exact));
    printf("median row %.2e, nine in ten %.2e, taps %.2e; of the CPU %.2e, %.2e, %.2e\n", d.median, d.most, d.taps,
           limit.median, limit.most, limit.taps);
    assert_true(within(&d, &limit));
    for (int32_t i = 0; i < STEPS * w->vocab; i++)
        assert_true(fabs((double)fast.decoded[i] - (double)exact.decoded[i]) <= 2.0 * limit.absolute);
    trail_free(&exact);
    trail_free(&cpu);
    trail_free(&fast);
}

/* The same bits every time: rows of an earlier step that are still about, and ops one by one, make no difference. */
static void test_fast_is_sure(void **state) {
    world *w = *state;
    enum { ROWS = 150 };
    trail first = follow(w->fast, w->tokens, ROWS, PROMPT);
    trail other = follow(w->fast, w->tokens + 3, PROMPT, PROMPT);
    trail again = follow(w->fast, w->tokens, ROWS, PROMPT);
    check_same(&again, &first);
    steps_set_eager(w->fast->steps, true);
    trail eager = follow(w->fast, w->tokens, ROWS, PROMPT);
    steps_set_eager(w->fast->steps, false);
    check_same(&eager, &first);
    trail_free(&first);
    trail_free(&other);
    trail_free(&again);
    trail_free(&eager);
}

/* A prompt that fits the small bucket, and decoding behind it, have the bits of the exact pair. */
static void test_short_is_exact(void **state) {
    world *w = *state;
    static const int32_t N[] = { 1, SHORT, PROMPT };
    for (int i = 0; i < 3; i++) {
        trail exact = follow(w->exact, w->tokens, N[i], SHORT), fast = follow(w->fast, w->tokens, N[i], SHORT);
        check_same(&fast, &exact);
        trail_free(&exact);
        trail_free(&fast);
    }
}

/* Only the graph of the large bucket has products of the library, and all others are the kernels of the exact pair. */
static void test_graphs(void **state) {
    (void)state;
    const void *graph[2 * STEPS_COUNT];
    assert_int_equal(simt_graph_list(graph, 2 * STEPS_COUNT), 2 * STEPS_COUNT);
    int with = 0;
    for (int g = 0; g < STEPS_COUNT; g++) {
        const void *exact = graph[g], *fast = graph[STEPS_COUNT + g];
        size_t n = simt_graph_size(fast);
        bool library = false, same = n == simt_graph_size(exact);
        for (size_t i = 0; i < n; i++) {
            const char *name = simt_graph_node(fast, i).name;
            library |= strcmp(name, "lt_model_kernel") == 0;
            same = same && strcmp(name, simt_graph_node(exact, i).name) == 0;
        }
        with += library;
        assert_true(library != same);
    }
    assert_int_equal(with, 1);
}

/* Conversations of the one are not continued by the other. */
static void test_fingerprints(void **state) {
    world *w = *state;
    pair *again = start(&DEMO, BACKEND_CUDA, PREFILL_FAST);
    assert_true(fingerprint_pair(w->fast) == fingerprint_pair(again));
    assert_true(fingerprint_pair(w->fast) != fingerprint_pair(w->exact));
    demo_close(again);
}

/* ---- text ---- */

/* Both pairs choose greedily; where they part, the exact one finds both choices close. */
static int32_t same_tokens(world *w, double limit) {
    steps *a = w->exact->steps, *b = w->fast->steps;
    float *logits = xalloc((size_t)w->vocab * sizeof *logits);
    probe *look;
    MUST(probe_open(&look, w->exact, e));
    const step_out *x = steps_prompt(a, &GREEDY, w->tokens, PROMPT), *y = steps_prompt(b, &GREEDY, w->tokens, PROMPT);
    int step = steps_prefill_index(PROMPT);
    int32_t n = 0;
    while (n < ANSWER && x->token[0] == y->token[0]) {
        x = steps_plain(a), y = steps_plain(b);
        step = find_step(a, "plain-1");
        n++;
    }
    if (n < ANSWER) {
        probe_step_logits(look, step, 1, logits);
        double margin = (double)logits[x->token[0]] - (double)logits[y->token[0]];
        if (margin > limit) fail_msg("token %d: %d and %d, which are %.3e apart", n, x->token[0], y->token[0], margin);
    }
    probe_close(look);
    free(logits);
    return n;
}

static void check_text(world *w) {
    trail exact = follow(w->exact, w->tokens, PROMPT, PROMPT), cpu = follow(w->cpu, w->tokens, PROMPT, PROMPT);
    double limit = 2.0 * distance_of(&cpu, &exact).absolute;
    int32_t n = same_tokens(w, limit);
    printf("%d of %d tokens are the same\n", n, ANSWER);
    assert_true(n > 0);
    trail_free(&exact);
    trail_free(&cpu);
}

static void test_text(void **state) { check_text(*state); }

/* ---- what is wrong ---- */

static void test_wrong_products(void **state) {
    world *w = *state;
    static const lt_model_fault WRONG[] = { LT_MODEL_SHORT, LT_MODEL_SHIFTED, LT_MODEL_NO_ADD };
    trail exact = follow(w->exact, w->tokens, PROMPT, PROMPT), cpu = follow(w->cpu, w->tokens, PROMPT, PROMPT);
    distance limit = distance_of(&cpu, &exact);
    for (int i = 0; i < 3; i++) {
        lt_model_set(WRONG[i]);
        pair *p = start(&DEMO, BACKEND_CUDA, PREFILL_FAST);
        lt_model_set(LT_MODEL_RIGHT);
        trail t = follow(p, w->tokens, PROMPT, PROMPT);
        distance d = distance_of(&t, &exact);
        if (within(&d, &limit)) fail_msg("wrong products %d pass: median %.2e, most %.2e", i, d.median, d.most);
        trail_free(&t);
        demo_close(p);
    }
    trail_free(&exact);
    trail_free(&cpu);
}

static void check_refused(backend_kind backend, status code, const char *text) {
    pair p = { 0 };
    err e = { 0 };
    size_t bytes = simt_device_bytes();
    int plans = lt_model_plans();
    assert_int_equal(try_start(&p, &DEMO, backend, PREFILL_FAST, &e), code);
    if (!strstr(e.text, text)) fail_msg("\"%s\" is not in \"%s\"", text, e.text);
    pair_close(&p);
    assert_int_equal(simt_device_bytes(), bytes);
    assert_int_equal(lt_model_plans(), plans);
}

static void test_refusals(void **state) {
    (void)state;
    check_refused(BACKEND_CPU, ERR_USAGE, "--backend cuda");
    lt_model_set(LT_MODEL_NO_ALGORITHM);
    check_refused(BACKEND_CUDA, ERR_DEVICE, "choosing an algorithm for a product of 256 x");
    lt_model_set(LT_MODEL_NO_START);
    check_refused(BACKEND_CUDA, ERR_DEVICE, "starting a product");
    lt_model_set(LT_MODEL_RIGHT);
}

/* ---- groups ---- */

static int setup_demo(void **state) {
    world *w = xalloc(sizeof *w);
    *w = world_open(&DEMO);
    *state = w;
    return 0;
}
static int setup_tiny(void **state) {
    world *w = xalloc(sizeof *w);
    *w = world_open(&TINY);
    *state = w;
    return 0;
}
static int teardown(void **state) {
    world_close(*state);
    free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest demo[] = { cmocka_unit_test(test_graphs),         cmocka_unit_test(test_exact_is_one),
                                       cmocka_unit_test(test_fast_is_close),  cmocka_unit_test(test_fast_is_sure),
                                       cmocka_unit_test(test_short_is_exact), cmocka_unit_test(test_text),
                                       cmocka_unit_test(test_wrong_products), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_fingerprints) };
    const struct CMUnitTest tiny[] = { cmocka_unit_test(test_fast_is_close), cmocka_unit_test(test_text) };
    int failed = cmocka_run_group_tests_name("demo pair", demo, setup_demo, teardown);
    return failed + cmocka_run_group_tests_name("tiny pair", tiny, setup_tiny, teardown);
}
