/* Rounds are plain decoding, bit for bit. Whatever is proposed and however much of it is accepted, the tokens, keys and
 * values, taps and context rows of committed positions are those of plain steps, and a rejected row leaves nothing
 * behind. Prompts end where rings (window 128), pages and attention blocks (256) begin. For each type of keys and
 * values. */
#include "tests/model/model_fixture.h"

#include <math.h>

enum {
    NEW = 120,   /* tokens of the plain answer */
    ROUNDS = 4,  /* of one accept count */
    CHUNK = 32,  /* prompt rows per step; no more than the tap ring has slots */
    WIDEST = 15, /* proposals of the draft */
};

static const int32_t PROMPTS[] = { 127, 128, 129, 255, 256, 257, 700 };
static const int32_t WIDTHS[] = { 1, 3, 7, WIDEST };
enum { N_PROMPTS = sizeof PROMPTS / sizeof PROMPTS[0], N_WIDTHS = sizeof WIDTHS / sizeof WIDTHS[0] };

static const pick_params GREEDY = { .top_p = 1.0f };

/* A prompt, its plain answer, and the memory as it was between the two. */
typedef struct world {
    pair *p;
    steps *s;
    int32_t *tokens;
    int32_t prompt, plain[NEW + 1];
    trace trace;
    buf prompted;
} world;

static void keep_context(world *w, int32_t from, int32_t to) {
    steps_catch_up(w->s);
    trace_keep_context(&w->trace, from, to);
}

static void prepare(world *w, int32_t prompt, pick_params pick) {
    memory_poison(w->p);
    w->prompt = prompt;
    steps_seek(w->s, 0, 0, 0);
    steps_set_pick(w->s, &pick);
    for (int32_t at = 0, n; at < prompt; at += n) {
        n = prompt - at < CHUNK ? prompt - at : CHUNK;
        w->plain[0] = steps_prefill(w->s, w->tokens + at, n, at + n == prompt)->token[0];
        trace_keep(&w->trace, at, at + n);
        keep_context(w, at, at + n);
    }
    memory_save(w->p, w->s, &w->prompted);
    for (int32_t i = 0; i < NEW; i++) {
        w->plain[i + 1] = steps_plain(w->s)->token[0];
        trace_keep(&w->trace, prompt + i, prompt + i + 1);
        keep_context(w, prompt + i, prompt + i + 1);
    }
}

/* The counts of prompt and first token are told anew: whatever rounds have left there is forgotten. */
static void back_to_prompt(world *w) {
    memory_restore(w->p, w->s, &w->prompted);
    pick_lists_clear(steps_lists(w->s));
    pick_lists_count(steps_lists(w->s), w->tokens, w->prompt);
    pick_lists_count(steps_lists(w->s), w->plain, 1);
}

/* Tokens emitted so far: the first stands at position `prompt` and is the first anchor. */
static int32_t emitted(const world *w) { return steps_params(w->s)->st.base - w->prompt + 1; }

/* What holds after every round that started at `base` and proposed k tokens. */
static void check_round(const world *w, const step_out *out, int32_t base, int32_t k, const char *label) {
    const step_state *st = &steps_params(w->s)->st;
    int32_t first = base - w->prompt + 1;
    if (out->n != out->accepted + 1 || out->drafted != k || out->rows != k + 1)
        fail_msg("%s: %d tokens, %d accepted of %d, %d rows", label, out->n, out->accepted, out->drafted, out->rows);
    for (int32_t i = 0; i < out->n; i++)
        if (out->token[i] != w->plain[first + i])
            fail_msg("%s: token %d is %d, in plain decoding %d", label, first + i, out->token[i], w->plain[first + i]);
    if (out->base != base + out->n || st->base != out->base)
        fail_msg("%s: base %d then %d (state: %d) with %d tokens", label, base, out->base, st->base, out->n);
    assert_int_equal(st->anchor, out->token[out->n - 1]);
    /* context of all that was committed before, when the draft was asked, and of nothing else */
    assert_true(out->draft_depth ? st->ctx_len == base : st->ctx_len <= base);
    trace_check(&w->trace, st->base, st->ctx_len, label);
}

/* The plain continuation, wrong from proposal `right` on. */
static const step_out *verify(world *w, int32_t k, int32_t right) {
    int32_t proposals[DEPTH_MAX], vocab = w->p->target.cfg.vocab, first = emitted(w);
    for (int32_t i = 0; i < k; i++) proposals[i] = (w->plain[first + i] + (i >= right)) % vocab;
    return steps_verify(w->s, proposals, k);
}

/* The counts are those of prompt and answer: no proposal that was not emitted is in them. */
static void check_counts(const world *w, const char *label) {
    const pick_lists *l = steps_lists(w->s);
    int32_t vocab = w->p->target.cfg.vocab, *want = xalloc((size_t)vocab * sizeof *want);
    for (int32_t i = 0; i < w->prompt; i++) want[w->tokens[i]]++;
    for (int32_t i = 0; i < emitted(w); i++) want[w->plain[i]]++;
    for (int32_t v = 0; v < vocab; v++)
        if (l->count[v] != want[v]) fail_msg("%s: token %d counts %d, expected %d", label, v, l->count[v], want[v]);
    free(want);
}

static void check_caught_up(world *w, const char *label) {
    int32_t base = steps_params(w->s)->st.base;
    steps_catch_up(w->s);
    assert_int_equal(steps_params(w->s)->st.ctx_len, base);
    trace_check(&w->trace, base, base, label);
    check_counts(w, label);
}

static void check_accept_counts(world *w) {
    char label[80];
    for (int32_t i = 0; i < N_WIDTHS; i++)
        for (int32_t k = WIDTHS[i], right = 0; right <= k; right++) {
            snprintf(label, sizeof label, "prompt of %d, %d of %d proposals right", w->prompt, right, k);
            back_to_prompt(w);
            for (int32_t round = 0; round < ROUNDS && emitted(w) + k <= NEW; round++) {
                int32_t base = steps_params(w->s)->st.base;
                const step_out *out = verify(w, k, right);
                assert_int_equal(out->accepted, right);
                check_round(w, out, base, k, label);
            }
            check_caught_up(w, label);
        }
}

/* 0 of k is junk, k of k the oracle. */
static void test_accept_counts(void **state) {
    world *w = *state;
    for (int i = 0; i < N_PROMPTS; i++) {
        prepare(w, PROMPTS[i], GREEDY);
        check_accept_counts(w);
    }
}

static void test_seeded(void **state) {
    world *w = *state;
    prepare(w, 129, (pick_params){ .temperature = 0.9f, .top_p = 0.95f, .min_p = 0.01f, .top_k = 50, .seed = 7 });
    check_accept_counts(w);
}

/* Rounds over trees of the draft's candidates emit the plain answer. */
static void check_tree_rounds(world *w, int32_t depth, int32_t nodes, int32_t branch) {
    char label[80];
    snprintf(label, sizeof label, "tree of %d nodes, depth %d", nodes, depth);
    back_to_prompt(w);
    while (emitted(w) + depth <= NEW) {
        int32_t first = emitted(w);
        const step_out *out = steps_tree(w->s, depth, nodes, branch);
        for (int32_t i = 0; i < out->n; i++)
            if (out->token[i] != w->plain[first + i])
                fail_msg("%s: token %d is %d, in plain decoding %d", label, first + i, out->token[i],
                         w->plain[first + i]);
    }
    check_caught_up(w, label);
}

/* Each row has its own counts. */
static void test_penalties(void **state) {
    world *w = *state;
    prepare(w, 129, (pick_params){ .top_p = 1.0f, .frequency = 0.7f });
    check_tree_rounds(w, 7, 15, 4);
    check_tree_rounds(w, 15, 31, 8);
    prepare(w, 129, (pick_params){ .top_p = 1.0f, .repeat = 1.2f, .presence = 0.5f, .frequency = 0.3f });
    check_accept_counts(w);
    prepare(w, 255,
            (pick_params){ .temperature = 0.8f, .top_p = 0.95f, .seed = 4, .repeat = 1.1f, .frequency = -0.5f });
    check_accept_counts(w);
}

/* Against double precision. The result, down to -64, is rounded once: half an ulp, 1.9e-6. An exponential is off by 2
 * ulp, 2.4e-7, and by the rounding of its argument, 2.4e-7 at most where it weighs anything. */
static void check_softmax(const pick_logprobs *got, view logits, int32_t chosen) {
    const double error = 3e-6;
    const float *z = view_row(&logits, 0);
    double top = (double)z[0], sum = 0.0;
    for (int32_t v = 0; v < logits.cols; v++) top = (double)z[v] > top ? (double)z[v] : top;
    for (int32_t v = 0; v < logits.cols; v++) sum += exp((double)z[v] - top);
    double log_sum = log(fmax(sum, 1.0)); /* the largest alone makes it 1 */
    assert_true(fabs((double)got->own - ((double)z[chosen] - top - log_sum)) < error);
    assert_true((double)z[got->id[0]] == top);
    for (int32_t i = 0; i < got->n; i++)
        assert_true(fabs((double)got->logp[i] - ((double)z[got->id[i]] - top - log_sum)) < error);
}

/* Log-probabilities are those of the row that chose, whatever the round. */
static void test_logprobs(void **state) {
    world *w = *state;
    pick_logprobs *want = xalloc(NEW * sizeof *want);
    prepare(w, 129, (pick_params){ .temperature = 0.8f, .top_p = 1.0f, .seed = 9, .presence = 0.5f });
    back_to_prompt(w);
    steps_set_logprobs(w->s, 5);
    for (int32_t i = 0; i < NEW; i++) {
        const step_out *out = steps_plain(w->s);
        want[i] = out->logprobs[0];
        assert_int_equal(want[i].n, 5);
        check_softmax(&want[i], steps_logits(w->s, find_step(w->s, "plain-1")), out->token[0]);
    }
    for (int32_t right = 0; right <= 7; right++) {
        back_to_prompt(w);
        while (emitted(w) + 7 <= NEW) {
            int32_t first = emitted(w) - 1;
            const step_out *out = verify(w, 7, right);
            for (int32_t i = 0; i < out->n; i++) assert_memory_equal(&out->logprobs[i], &want[first + i], sizeof *want);
        }
    }
    steps_set_logprobs(w->s, -1);
    free(want);
}

/* Widths up to the widest pass change from round to round, plain steps stand between them: the context lags behind. */
static void test_mixture(void **state) {
    static const int32_t ANY_WIDTH[] = { 0, 1, 2, 3, 7, 8, 15, 16, DEPTH_MAX };
    world *w = *state;
    char label[80];
    uint32_t random = 1;
    for (int i = 0; i < N_PROMPTS; i++) {
        prepare(w, PROMPTS[i], GREEDY);
        back_to_prompt(w);
        for (int round = 0; emitted(w) + DEPTH_MAX + 2 <= NEW; round++) {
            random = random * 1664525 + 1013904223;
            int32_t k = ANY_WIDTH[(random >> 24) % (sizeof ANY_WIDTH / sizeof ANY_WIDTH[0])];
            int32_t right = (int32_t)((random >> 16) % (uint32_t)(k + 1));
            for (uint32_t n = (random >> 8) % 3; n > 0; n--) assert_int_equal(steps_plain(w->s)->n, 1);
            snprintf(label, sizeof label, "prompt of %d, mixed round %d", w->prompt, round);
            int32_t base = steps_params(w->s)->st.base;
            check_round(w, verify(w, k, right), base, k, label);
        }
        check_caught_up(w, label);
    }
}

static void test_draft_rounds(void **state) {
    world *w = *state;
    char label[80];
    for (int i = 0; i < N_PROMPTS; i++) {
        prepare(w, PROMPTS[i], GREEDY);
        for (int j = 0; j < N_WIDTHS; j++) {
            int32_t k = WIDTHS[j];
            snprintf(label, sizeof label, "prompt of %d, %d proposals of the draft", w->prompt, k);
            back_to_prompt(w);
            while (emitted(w) + k <= NEW) {
                int32_t base = steps_params(w->s)->st.base;
                check_round(w, steps_round(w->s, k), base, k, label);
            }
            check_caught_up(w, label);
        }
    }
}

static uint32_t *draft_logits(const world *w, int32_t k) {
    return copy_rows(steps_draft_logits(w->s, find_step(w->s, k < round_bucket[0] ? "round-8" : "round-16")), k);
}

/* A proposal does not depend on how many are asked for behind it. */
static void test_subset(void **state) {
    world *w = *state;
    char label[80];
    for (int i = 0; i < N_PROMPTS; i++) {
        int32_t widest[WIDEST];
        prepare(w, PROMPTS[i], GREEDY);
        back_to_prompt(w);
        memcpy(widest, steps_round(w->s, WIDEST)->proposal, sizeof widest);
        uint32_t *want = draft_logits(w, WIDEST);
        for (int32_t k = 1; k < WIDEST; k++) {
            back_to_prompt(w);
            snprintf(label, sizeof label, "prompt of %d, %d proposals against %d", w->prompt, k, WIDEST);
            const step_out *out = steps_round(w->s, k);
            for (int32_t n = 0; n < k; n++)
                if (out->proposal[n] != widest[n])
                    fail_msg("%s: number %d is %d, expected %d", label, n, out->proposal[n], widest[n]);
            uint32_t *got = draft_logits(w, k);
            check_logits(got, want, k, w->p->target.cfg.vocab, label, "logits of the draft");
            free(got);
        }
        free(want);
    }
}

/* ---- no trace ---- */

/* Takes these live bytes over into the image: here a step was allowed to write. */
static void permit(const pair *p, buf *image, const void *live, size_t bytes) {
    memory_part part[MEMORY_PARTS];
    int n = memory_parts(p, NULL, part);
    size_t at = 0;
    for (int i = 0; i < n; at += part[i++].bytes) {
        const char *from = part[i].at;
        if ((const char *)live < from || (const char *)live >= from + part[i].bytes) continue;
        memcpy(image->data + at + ((const char *)live - from), live, bytes);
        return;
    }
    fail_msg("the memory of the pair does not have these bytes");
}

static void permit_rows(const pair *p, buf *image, const kv_store *s, int32_t from, int32_t to) {
    for (int32_t pos = from; pos < to; pos++)
        for (int32_t g = 0; g < s->heads; g++) {
            int64_t at = kv_offset(s, g, pos, from);
            permit(p, image, kv_at(s, s->k, at), (size_t)kv_bytes(s, s->size));
            permit(p, image, kv_at(s, s->v, at), (size_t)kv_bytes(s, s->size));
        }
}

/* A round that verified `rows` rows at base changed their own rows of KV and taps, the context rows of ctx_from .. base
 * - 1 and the draft's block, and not one byte more. */
static void check_changes(world *w, buf *before, int32_t base, int32_t rows, int32_t ctx_from, const char *label) {
    const pair *p = w->p;
    buf after = { 0 };
    for (int32_t l = 0; l < p->target.cfg.layers; l++)
        permit_rows(p, before, &p->target.kv.layer[l], base, base + rows);
    for (int32_t r = 0; r < rows; r++)
        permit(p, before, tap_row(p, base + r), (size_t)w->trace.tap_cols * sizeof(bf16));
    for (int32_t l = 0; l < p->draft.cfg.layers; l++) {
        permit_rows(p, before, &p->draft.ring[l], ctx_from, base);
        permit_rows(p, before, &p->draft.block[l], base, base + rows);
    }
    memory_save(p, NULL, &after);
    for (size_t i = 0; i < after.len; i++)
        if (after.data[i] != before->data[i]) fail_msg("%s: byte %zu of the pair's memory was changed", label, i);
    buf_free(&after);
}

static void test_no_trace(void **state) {
    world *w = *state;
    char label[80];
    buf before = { 0 };
    const step_state *st = &steps_params(w->s)->st;
    for (int i = 0; i < N_PROMPTS; i++) {
        prepare(w, PROMPTS[i], GREEDY);
        back_to_prompt(w);
        for (int round = 0; round < 3; round++) {
            snprintf(label, sizeof label, "prompt of %d, round %d", w->prompt, round);
            int32_t base = st->base, ctx_len = st->ctx_len;
            memory_save(w->p, NULL, &before);
            if (round == 1)
                steps_round(w->s, WIDEST);
            else
                verify(w, WIDEST, round);
            check_changes(w, &before, base, WIDEST + 1, ctx_len, label);
        }
    }
    buf_free(&before);
}

static int setup(void **state, kv_dtype kv) {
    world *w = xalloc(sizeof *w);
    int32_t most = PROMPTS[N_PROMPTS - 1];
    w->p = demo_open_kv(most + NEW + NODES_MAX, kv);
    w->s = w->p->steps;
    w->tokens = demo_tokens(most);
    w->trace = trace_new(w->p, most + NEW);
    *state = w;
    return 0;
}

static int setup_bf16(void **state) { return setup(state, KV_BF16); }
static int setup_fp8(void **state) { return setup(state, KV_FP8_E4M3); }

static int teardown(void **state) {
    world *w = *state;
    trace_free(&w->trace);
    buf_free(&w->prompted);
    free(w->tokens);
    demo_close(w->p);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_accept_counts), cmocka_unit_test(test_seeded),
                                        cmocka_unit_test(test_penalties),     cmocka_unit_test(test_logprobs),
                                        cmocka_unit_test(test_mixture),       cmocka_unit_test(test_draft_rounds),
                                        cmocka_unit_test(test_subset),        cmocka_unit_test(test_no_trace) };
    int failed = cmocka_run_group_tests_name("BF16 keys and values", tests, setup_bf16, teardown);
    return failed + cmocka_run_group_tests_name("FP8 keys and values", tests, setup_fp8, teardown);
}
