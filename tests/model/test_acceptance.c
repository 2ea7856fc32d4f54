/* The acceptance floor. A draft that is fed or placed wrongly still gives right text: low acceptance is its only
 * symptom. So the demo pair must reach its known tokens per round, and each of the usual faults must fall below the
 * floor.
 *
 * Greedy, 7 proposals, the first 10 prompts of the classes code and edit, at most 100 new tokens, an answer ends with
 * its end token. The token of the prefill belongs to no round. tests/demo_pair/measure.py measured the same in FP32.
 *
 * link: -Wl,--wrap=op_put
 */
#include "tests/model/model_fixture.h"

#include "engine/cli/prompts.h"
#include "engine/core/probe.h"
#include "kernels/rope_freq.h"

#define KNOWN 2.465 /* tests/demo_pair/acceptance.json, k7_code_edit */
#define FLOOR (0.95 * KNOWN)

enum { PROPOSALS = 7, NEW = 100, PER_CLASS = 10 };

typedef struct world {
    pair *p;
    prompt_set prompts;
} world;

/* A round behind the committed tokens. */
typedef const step_out *round_fn(void *arg, steps *s);

static const step_out *draft_round(void *arg, steps *s) {
    (void)arg;
    return steps_round(s, PROPOSALS);
}

/* Answers one prompt; adds to tokens and rounds. */
static void answer(const world *w, steps *s, const prompt *q, round_fn *round, void *arg, int32_t *tokens,
                   int32_t *rounds) {
    const text_model *tm = w->p->text;
    int32_t n = (int32_t)q->ids.n, token = 0;
    steps_seek(s, 0, 0, 0);
    for (int32_t at = 0, rows; at < n; at += rows) {
        rows = n - at < PREFILL_MAX ? n - at : PREFILL_MAX;
        token = steps_prefill(s, q->ids.ids + at, rows, at + rows == n)->token[0];
        steps_catch_up(s);
    }
    bool ended = text_is_end(tm, token);
    for (int32_t have = 1; have < NEW && !ended;) {
        const step_out *out = round(arg, s);
        ++*rounds;
        for (int32_t i = 0; i < out->n && !ended; i++, have++, ++*tokens) ended = text_is_end(tm, out->token[i]);
    }
}

static double tokens_per_round(const world *w, steps *s, round_fn *round, void *arg) {
    static const char *const CLASSES[] = { "code", "edit" };
    int32_t tokens = 0, rounds = 0, answered = 0;
    steps_set_pick(s, &(pick_params){ .top_p = 1.0f });
    for (int c = 0; c < 2; c++)
        for (size_t i = 0, n = 0; i < w->prompts.n && n < PER_CLASS; i++) {
            const prompt *q = &w->prompts.at[i];
            if (strcmp(q->class, CLASSES[c]) != 0) continue;
            answer(w, s, q, round, arg, &tokens, &rounds);
            n++, answered++;
        }
    assert_int_equal(answered, 2 * PER_CLASS);
    return (double)tokens / rounds;
}

/* The same over steps recorded for another target and draft, which share the memory of the pair. */
static double tokens_per_round_of(const world *w, const target *t, const draft *d) {
    steps *s;
    MUST(steps_open(&s, t, d, w->p->isa, 1, e));
    double found = tokens_per_round(w, s, draft_round, NULL);
    steps_close(s);
    return found;
}

static void expect_above(double found, const char *what) {
    print_message("%s: %.3f tokens per round (floor %.3f)\n", what, found, FLOOR);
    if (found < FLOOR) fail_msg("%s: %.3f tokens per round, expected at least %.3f", what, found, FLOOR);
}

static void expect_below(double found, const char *what) {
    print_message("%s: %.3f tokens per round (floor %.3f)\n", what, found, FLOOR);
    if (found >= FLOOR) fail_msg("%s: %.3f tokens per round: the floor of %.3f does not see it", what, found, FLOOR);
}

static void test_floor(void **state) {
    world *w = *state;
    expect_above(tokens_per_round(w, w->p->steps, draft_round, NULL), "the pair");
}

/* ---- the faults ---- */

/* Every column of the tap ring holds the layer of its neighbour. */
static void test_taps_permuted(void **state) {
    world *w = *state;
    target t = w->p->target;
    for (int32_t j = 0; j < t.taps; j++) t.tap_layer[j] = w->p->target.tap_layer[(j + 1) % t.taps];
    expect_below(tokens_per_round_of(w, &t, &w->p->draft), "taps permuted");
}

/* ---- missing norms ---- */

/* Of the draft's context. The hidden norm and the layers' input norms stand behind each other, so that one does the
 * work of the other when it is missing: only both together can be missed. */
typedef enum norms { NORMS_NONE, NORMS_TAP, NORMS_FEATURE, NORMS_KEY } norms;

/* Read while steps are recorded. */
static struct {
    norms missing;
    bool in_context; /* between the taps and the block */
    bf16 weight[4096];
} fault;

/* x * weight / sqrt(mean of squares + eps): with these two a norm passes its input through, but for the last bits. */
#define PASS_EPS 0x1p40f
#define PASS_WEIGHT 0x1p20f

void __real_op_put(op_sink *s, op_id id, const void *args, size_t bytes);
void __wrap_op_put(op_sink *s, op_id id, const void *args, size_t bytes);

void __wrap_op_put(op_sink *s, op_id id, const void *args, size_t bytes) {
    union {
        tap_norm_args tap;
        norm_args norm;
        linear_args linear;
        ctx_store_args store;
    } a;
    if (id == OP_BEGIN || id == OP_EMBED) fault.in_context = false;
    if (id == OP_TAP_NORM) fault.in_context = true;
    if (fault.missing == NORMS_NONE || !fault.in_context || bytes > sizeof a) {
        __real_op_put(s, id, args, bytes);
        return;
    }
    memcpy(&a, args, bytes);
    if (id == OP_TAP_NORM && fault.missing == NORMS_TAP) {
        a.tap.eps = PASS_EPS;
        for (int32_t j = 0; j < a.tap.taps; j++) a.tap.norm[j] = fault.weight;
    }
    if (id == OP_NORM && fault.missing == NORMS_FEATURE) a.norm.eps = PASS_EPS, a.norm.w = fault.weight;
    if (id == OP_LINEAR && a.linear.norm && fault.missing == NORMS_FEATURE)
        a.linear.eps = PASS_EPS, a.linear.norm = fault.weight;
    if (id == OP_CTX_STORE && fault.missing == NORMS_KEY) a.store.eps = PASS_EPS, a.store.k_norm = fault.weight;
    __real_op_put(s, id, &a, bytes);
}

static void check_missing(const world *w, norms missing, const char *what) {
    for (size_t i = 0; i < sizeof fault.weight / sizeof fault.weight[0]; i++)
        fault.weight[i] = bf16_of_f32(PASS_WEIGHT);
    assert_true((size_t)w->p->draft.cfg.hidden <= sizeof fault.weight / sizeof fault.weight[0]);
    fault.missing = missing;
    double found = tokens_per_round_of(w, &w->p->target, &w->p->draft);
    fault.missing = NORMS_NONE;
    expect_below(found, what);
}

static void test_tap_norms_missing(void **state) { check_missing(*state, NORMS_TAP, "tap norms missing"); }
static void test_feature_norms_missing(void **state) {
    check_missing(*state, NORMS_FEATURE, "hidden and input norms missing");
}
static void test_key_norms_missing(void **state) {
    check_missing(*state, NORMS_KEY, "key norms of the context missing");
}

/* ---- places ---- */

static void test_theta(void **state) {
    world *w = *state;
    draft d = w->p->draft;
    float *freq = xalloc((size_t)(d.cfg.head_dim / 2) * sizeof *freq);
    rope_inv_freq(&(rope_freq){ .theta = 10000.0, .dim = d.cfg.head_dim }, freq);
    d.freq = freq;
    double found = tokens_per_round_of(w, &w->p->target, &d);
    free(freq);
    expect_below(found, "rope theta 10000");
}

/* The draft reads at position c what the target left at c - 1. The ring is as long as the longest sequence, so that no
 * slot is used twice. */
static void test_context_shifted(void **state) {
    world *w = *state;
    target t = w->p->target;
    draft d = w->p->draft;
    size_t bytes = (size_t)(w->p->ctx + NODES_MAX + 1) * (size_t)t.tap_ring.stride;
    void *block;
    MUST(try_block(&block, bytes, "a long tap ring", e));
    t.tap_ring.data = (char *)block + t.tap_ring.stride;
    t.tap_ring.rows = w->p->ctx + NODES_MAX;
    d.in.tap_ring = t.tap_ring;
    double right = tokens_per_round_of(w, &t, &d);
    d.in.tap_ring.data = block;
    double shifted = tokens_per_round_of(w, &t, &d);
    block_free(block, bytes);
    expect_above(right, "a long tap ring");
    expect_below(shifted, "context shifted by one");
}

typedef struct probing {
    const pair *p;
    probe *probe;
    int32_t shift;
    float *logits;
} probing;

/* The round as separate parts, so that the block can be put elsewhere than at P. */
static const step_out *probe_round(void *arg, steps *s) {
    probing *g = arg;
    int32_t proposals[PROPOSALS], vocab = g->p->target.cfg.vocab;
    const step_state *st = &steps_params(s)->st;
    steps_catch_up(s);
    probe_block(g->probe, st->anchor, st->base + g->shift, PROPOSALS, g->logits);
    for (int32_t i = 0; i < PROPOSALS; i++) {
        const float *row = g->logits + (int64_t)i * vocab;
        proposals[i] = 0;
        for (int32_t v = 1; v < vocab; v++)
            if (row[v] > row[proposals[i]]) proposals[i] = v;
    }
    return steps_verify(s, proposals, PROPOSALS);
}

static void test_block_at_next(void **state) {
    world *w = *state;
    probing g = { .p = w->p, .logits = xalloc((size_t)PROPOSALS * (size_t)w->p->target.cfg.vocab * sizeof(float)) };
    MUST(probe_open(&g.probe, w->p, e));
    double right = tokens_per_round(w, w->p->steps, probe_round, &g);
    g.shift = 1;
    double next = tokens_per_round(w, w->p->steps, probe_round, &g);
    probe_close(g.probe);
    free(g.logits);
    expect_above(right, "block at P, by parts");
    expect_below(next, "block at P + 1");
}

/* ---- */

static int setup(void **state) {
    world *w = xalloc(sizeof *w);
    w->p = demo_open(1024);
    MUST(prompts_read(w->p, "tests/prompts.jsonl", INT32_MAX, &w->prompts, e));
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    prompts_free(&w->prompts);
    demo_close(w->p);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_floor),
                                        cmocka_unit_test(test_taps_permuted),
                                        cmocka_unit_test(test_tap_norms_missing),
                                        cmocka_unit_test(test_feature_norms_missing),
                                        cmocka_unit_test(test_key_norms_missing),
                                        cmocka_unit_test(test_theta),
                                        cmocka_unit_test(test_context_shifted),
                                        cmocka_unit_test(test_block_at_next) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
