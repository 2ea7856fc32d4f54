/* A prompt leaves the same bits whatever computes it: instruction set, lanes, rows per step. Logits of the last row,
 * keys and values of every layer, taps, the draft's context rows, and the block that the draft puts behind them. For
 * each type of keys and values. */
#include "tests/model/model_fixture.h"

#include "engine/core/probe.h"
#include "kernels/dispatch.h"

enum { LANES = 3, PROPOSALS = 7 };

/* Past the window (128) and past the first page (256); past the window; past the small prefill bucket. */
typedef enum length { LONG, MIDDLE, SHORT, LENGTHS } length;
static const int32_t TOKENS[LENGTHS] = { 300, 140, 36 };

static const int32_t CHUNKS[] = { 1, 7, 32, 256 };

typedef struct result {
    uint32_t *logits, *draft_logits;
} result;

typedef struct world {
    pair *p;
    int32_t *tokens;
    trace trace; /* of the base configuration */
    result base[LENGTHS];
} world;

static void result_free(result *r) {
    free(r->logits);
    free(r->draft_logits);
}

static const char *head_step(int32_t last) { return last <= prefill_bucket[0] ? "prefill-32" : "prefill-256"; }

/* n tokens in chunks over poisoned memory, then one block of the draft. `keep` records the trace, else it is checked
 * after every chunk. */
static result compute(world *w, steps *s, int32_t n, int32_t chunk, bool keep, const char *label) {
    int32_t last = 0;
    memory_poison(w->p);
    steps_seek(s, 0, 0, 0);
    steps_set_pick(s, &(pick_params){ .top_p = 1.0f });
    for (int32_t at = 0; at < n; at += last) {
        last = n - at < chunk ? n - at : chunk;
        const step_out *out = steps_prefill(s, w->tokens + at, last, at + last == n);
        assert_int_equal(out->base, at + last);
        if (keep) {
            steps_catch_up(s);
            trace_keep(&w->trace, at, at + last);
            trace_keep_context(&w->trace, at, at + last);
        } else {
            trace_check(&w->trace, at + last, 0, label);
        }
    }
    result r = { .logits = copy_rows(steps_logits(s, find_step(s, head_step(last))), 1) };
    steps_catch_up(s);
    trace_check(&w->trace, n, n, label);
    steps_round(s, PROPOSALS);
    r.draft_logits = copy_rows(steps_draft_logits(s, find_step(s, "round-8")), PROPOSALS);
    return r;
}

/* The reference computes slowly, and more lanes than processors wait for each other in every row of its own step. */
static length choose_length(isa i, int lanes, int32_t chunk) {
    if (i == ISA_REF) return SHORT;
    return lanes > 1 && chunk == 1 ? MIDDLE : LONG;
}

static void check_isa(void **state, isa i) {
    world *w = *state;
    if (!isa_usable(i)) {
        print_message("skip: this processor does not have %s\n", isa_name(i));
        skip();
    }
    int32_t vocab = w->p->target.cfg.vocab;
    for (int lanes = 1; lanes <= LANES; lanes++) {
        steps *s;
        MUST(steps_open(&s, &w->p->target, &w->p->draft, i, lanes, e));
        for (size_t c = 0; c < sizeof CHUNKS / sizeof CHUNKS[0]; c++) {
            char label[64];
            snprintf(label, sizeof label, "%s, %d lanes, chunks of %d", isa_name(i), lanes, CHUNKS[c]);
            length n = choose_length(i, lanes, CHUNKS[c]);
            const result *want = &w->base[n];
            result got = compute(w, s, TOKENS[n], CHUNKS[c], false, label);
            check_logits(got.logits, want->logits, 1, vocab, label, "logits");
            check_logits(got.draft_logits, want->draft_logits, PROPOSALS, vocab, label, "logits of the draft");
            result_free(&got);
        }
        steps_close(s);
    }
}

static void test_ref(void **state) { check_isa(state, ISA_REF); }
static void test_avx2(void **state) { check_isa(state, ISA_AVX2); }
static void test_avx512(void **state) { check_isa(state, ISA_AVX512); }
static void test_avx512bf16(void **state) { check_isa(state, ISA_AVX512BF16); }

/* The head over all rows of a prompt: each row has the logits that a prompt which ends there has. */
static void test_all_rows(void **state) {
    world *w = *state;
    probe *b;
    MUST(probe_open(&b, w->p, e));
    memory_poison(w->p);
    steps_seek(w->p->steps, 0, 0, 0);
    steps_set_pick(w->p->steps, &(pick_params){ .top_p = 1.0f });
    int checked = 0;
    int32_t vocab = w->p->target.cfg.vocab;
    float *logits = xalloc((size_t)PREFILL_MAX * (size_t)vocab * sizeof *logits);
    for (int32_t at = 0, n; at < TOKENS[LONG]; at += n) {
        n = TOKENS[LONG] - at < PREFILL_MAX ? TOKENS[LONG] - at : PREFILL_MAX;
        probe_prefill(b, w->tokens + at, n, logits);
        for (length l = LONG; l < LENGTHS; l++) {
            int32_t row = TOKENS[l] - 1 - at;
            if (row < 0 || row >= n) continue;
            check_logits((const uint32_t *)(const void *)(logits + (int64_t)row * vocab), w->base[l].logits, 1, vocab,
                         "all rows", "logits");
            checked++;
        }
    }
    assert_int_equal(checked, LENGTHS);
    free(logits);
    probe_close(b);
}

/* The base configuration: the pair's own steps, chunks of 32. */
static int setup(void **state, kv_dtype kv) {
    world *w = xalloc(sizeof *w);
    w->p = demo_open_kv(TOKENS[LONG] + NODES_MAX, kv);
    w->tokens = demo_tokens(TOKENS[LONG]);
    w->trace = trace_new(w->p, TOKENS[LONG]);
    for (length n = LONG; n < LENGTHS; n++) w->base[n] = compute(w, w->p->steps, TOKENS[n], 32, n == LONG, "base");
    *state = w;
    return 0;
}

static int setup_bf16(void **state) { return setup(state, KV_BF16); }
static int setup_fp8(void **state) { return setup(state, KV_FP8_E4M3); }

static int teardown(void **state) {
    world *w = *state;
    for (length n = LONG; n < LENGTHS; n++) result_free(&w->base[n]);
    trace_free(&w->trace);
    free(w->tokens);
    demo_close(w->p);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ref), cmocka_unit_test(test_avx2),
                                        cmocka_unit_test(test_avx512), cmocka_unit_test(test_avx512bf16),
                                        cmocka_unit_test(test_all_rows) };
    int failed = cmocka_run_group_tests_name("BF16 keys and values", tests, setup_bf16, teardown);
    return failed + cmocka_run_group_tests_name("FP8 keys and values", tests, setup_fp8, teardown);
}
