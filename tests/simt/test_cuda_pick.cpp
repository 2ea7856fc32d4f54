/* Candidates and choices on CUDA kernels, against the reference. */
#include "tests/simt/cuda_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" {
#include <cmocka.h>
#include "kernels/pick_core.h"
#include "kernels/ref/ref.h"
}
#include "tests/simt/simt_control.h"

/* How far two logarithms of a sum of n exponentials are apart: FP32 additions in a row, n / 16 + 4 in the reference's
 * topk, 8 + 5 + 16 here; two fm_exp of different arguments, each within 2 ulp, which is 8 * 2^-24 together. */
static float log_sum_error(int32_t n) { return ((float)(n / 16) + 4.0f + 29.0f + 8.0f) * 0x1p-24f; }

static const char *settle_topk(const tcase *t, const block *b, char *got, const char *want) {
    if (b->type != DT_F32 || b->kind != BLOCK_OUTPUT) return nullptr;
    /* behind it the logarithm, at most 24 here, and the difference are rounded */
    return cuda_settle_floats(b, got, want, 0x1p-23f,
                              log_sum_error(((const topk_args *)t->args)->logits.cols) + 24.0f * 0x1p-24f);
}

static bool near(float got, float want, float error) {
    return memcmp(&got, &want, sizeof got) == 0 || fabsf(got - want) <= error + fabsf(want) * 0x1p-23f;
}

/* Log-probabilities may be off as above; ids, their number and everything else of the block may not. */
static const char *settle_pick(const tcase *t, const block *b, char *got, const char *want) {
    const pick_args *a = (const pick_args *)t->args;
    if (b->at != (const char *)a->p) return nullptr;
    step_params *g = (step_params *)got;
    const step_params *w = (const step_params *)want;
    float error = log_sum_error(0);
    for (int32_t i = 0; i < g->st.head_n && g->in.logprobs >= 0; i++) {
        pick_logprobs *x = &g->st.logprobs[i];
        const pick_logprobs *y = &w->st.logprobs[i];
        if (x->n != y->n) return "another number of alternatives";
        if (!near(x->own, y->own, error)) return "log-probability of the choice";
        x->own = y->own;
        for (int32_t k = 0; k < x->n; k++) {
            if (!near(x->logp[k], y->logp[k], error)) return "log-probability of an alternative";
            x->logp[k] = y->logp[k];
        }
    }
    return nullptr;
}

static const cuda_op OPS[] = {
    { OP_TOPK, CUDA_RUN(topk), CUDA_SCRATCH(topk), settle_topk },
    { OP_PICK, CUDA_RUN(pick), CUDA_SCRATCH(pick), settle_pick },
};

static void test_cases(void **) {
    const case_list list[] = { cases_pick() };
    assert_int_equal(cuda_check(list, 1, OPS, 2, nullptr, false), 0);
}

/* --- wrong on purpose --- */

/* pick with something of its parameters changed while it runs. */
template <class F> static void pick_with(const void *args, const cuda_work *w, const F &change) {
    const pick_args *a = (const pick_args *)args;
    pick_params kept = a->p->in.pick;
    change(&a->p->in.pick);
    cuda_pick(a, w);
    a->p->in.pick = kept;
}

static void topk_one_less(const void *args, const cuda_work *w) {
    topk_args a;
    memcpy((void *)&a, args, sizeof a);
    a.logits.cols--;
    cuda_topk(&a, w);
}

static void test_wrong(void **) {
    const case_list list[] = { cases_pick() };
    static const struct {
        int op;
        void (*run)(const void *, const cuda_work *);
        const char *name;
    } WRONG[] = {
        { 0, topk_one_less, "eight" },
        { 1, [](const void *a, const cuda_work *w) { pick_with(a, w, [](pick_params *p) { p->seed++; }); }, "sampled" },
        { 1, [](const void *a, const cuda_work *w) { pick_with(a, w, [](pick_params *p) { p->top_k = 1; }); },
          "all filters" },
        { 1, [](const void *a, const cuda_work *w) { pick_with(a, w, [](pick_params *p) { p->top_p = 0.1f; }); },
          "top_p alone" },
        { 1, [](const void *a, const cuda_work *w) { pick_with(a, w, [](pick_params *p) { p->min_p = 0.9f; }); },
          "sampled" },
        { 1, [](const void *a, const cuda_work *w) { pick_with(a, w, [](pick_params *p) { p->repeat = 1.0f; }); },
          "penalties on a tree" },
        { 1, [](const void *a, const cuda_work *w) { pick_with(a, w, [](pick_params *p) { p->end_from = 0; }); },
          "end tokens masked" },
    };
    for (const auto &x : WRONG) {
        cuda_op op = OPS[x.op];
        op.run = x.run;
        if (cuda_check(list, 1, &op, 1, x.name, true) == 0) fail_msg("%s with a wrong kernel passes", x.name);
    }
}

/* --- the rule on many rows --- */

enum { V_MAX = 100352 };

static uint32_t state = 1;
static uint32_t draw(uint32_t n) { return (state = state * 1664525u + 1013904223u, state >> 8) % n; }

typedef struct scene {
    step_params *p;
    pick_lists lists;
    view logits;
} scene;

static scene scene_new(int32_t rows, int32_t vocab) {
    scene s = {};
    size_t bytes = (size_t)vocab * sizeof(int32_t);
    s.p = (step_params *)calloc(1, sizeof *s.p);
    s.lists.count = (int32_t *)calloc(1, bytes), s.lists.seen = (int32_t *)calloc(1, bytes);
    s.lists.end = (int32_t *)calloc(1, bytes);
    s.logits = { calloc((size_t)rows, (size_t)vocab * sizeof(float)), vocab * (int64_t)sizeof(float), rows, vocab,
                 DT_F32 };
    s.p->st.rows.n = s.p->st.head_n = rows;
    s.p->st.rows.chain = 1;
    s.p->in.logprobs = -1;
    for (int32_t r = 0; r < rows; r++) s.p->st.rows.pos[r] = 100 + r;
    return s;
}

static void scene_free(scene *s) {
    free(s->lists.count), free(s->lists.seen), free(s->lists.end);
    free(s->logits.data);
    free(s->p);
}

static void scene_run(scene *s) {
    static int32_t counters[CUDA_COUNTERS];
    pick_args a = { s->p, &s->lists, s->logits };
    cuda_work w = {};
    w.counters = counters;
    w.scratch = (char *)malloc(cuda_scratch_pick(&a));
    simt_set_order((simt_order)draw(3), state);
    cuda_pick(&a, &w);
    free(w.scratch);
}

/* Peaks, plateaus, infinities, equal values, tiny and huge spreads. */
static float draw_logit(int kind) {
    float x = (float)draw(1 << 20) * 0x1p-20f;
    switch (kind) {
    case 0: return 20.0f * x - 10.0f;
    case 1: return floorf(6.0f * x);
    case 2: return -30.0f * x * x * x;
    case 3: return draw(50) ? x : -INFINITY;
    case 4: return 1e-4f * x;
    case 5: return draw(2) ? 0.0f : -0.0f;
    default: return 1e4f * x;
    }
}

/* The choice of every row is that of pick_token. */
static void test_many(void **) {
    static pick_cand work[V_MAX];
    static const int32_t VOCAB[] = { 1, 2, 31, 300, 4096, 4097, 5000 };
    static const float TEMPERATURE[] = { 0.3f, 1.0f, 1.0f, 3.0f, 0.01f },
                       TOP_P[] = { 1.0f, 0.95f, 0.5f, 0.999f, 1e-6f }, MIN_P[] = { 0.0f, 0.0f, 0.05f, 1.0f };
    for (int round = 0; round < 300; round++) {
        int32_t vocab = round % 25 ? VOCAB[draw(7)] : (int32_t)V_MAX, top_k[] = { 0, 1, 2, 20, 1000, vocab - 1, vocab };
        scene s = scene_new(2, vocab);
        pick_params *p = &s.p->in.pick;
        *p = pick_params{};
        p->temperature = TEMPERATURE[draw(5)], p->top_p = TOP_P[draw(5)], p->min_p = MIN_P[draw(4)];
        p->top_k = top_k[draw(7)], p->seed = draw(1 << 20);
        for (int32_t r = 0; r < 2; r++)
            for (int32_t v = 0, kind = (int32_t)draw(7); v < vocab; v++)
                ((float *)view_row(&s.logits, r))[v] = draw_logit(kind);
        scene_run(&s);
        for (int32_t r = 0; r < 2; r++) {
            const float *z = (const float *)view_row(&s.logits, r);
            int32_t want = pick_token(z, vocab, p, s.p->st.rows.pos[r] + 1, work);
            if (s.p->st.choice[r] != want)
                fail_msg("round %d vocab %d t %g k %d p %g m %g: %d, expected %d", round, vocab, p->temperature,
                         p->top_k, p->top_p, p->min_p, s.p->st.choice[r], want);
        }
        scene_free(&s);
    }
}

/* Logits that mean nothing still give an id of the vocabulary. */
static void test_no_numbers(void **) {
    for (int kind = 0; kind < 5; kind++) {
        scene s = scene_new(1, 5000);
        s.p->in.logprobs = PICK_TOP_MAX;
        s.p->in.pick = { .temperature = 1.0f, .top_p = 0.9f, .top_k = 4990 };
        float *z = (float *)s.logits.data;
        for (int32_t v = 0; v < 5000; v++)
            z[v] = kind == 0    ? NAN
                   : kind == 1  ? -INFINITY
                   : kind == 2  ? INFINITY
                   : v % 3 == 0 ? NAN
                   : kind == 3  ? 1.0f
                                : (float)v;
        scene_run(&s);
        assert_in_range(s.p->st.choice[0], 0, 4999);
        for (int32_t i = 0; i < PICK_TOP_MAX; i++) assert_in_range(s.p->st.logprobs[0].id[i], 0, 4999);
        assert_int_equal(s.p->out.fault, FAULT_NONE);
        scene_free(&s);
    }
}

static void test_faults(void **) {
    static const int32_t BAD[] = { -1, 3, 1000000, INT32_MIN };
    for (int i = 0; i < 4; i++) {
        scene s = scene_new(2, 300);
        s.p->st.head_n = BAD[i];
        scene_run(&s);
        assert_int_equal(s.p->out.fault, FAULT_PICK);
        s.p->st.head_n = 1, s.p->st.head_first = i < 2 ? INT32_MIN : PREFILL_MAX, s.p->out.fault = 0;
        scene_run(&s);
        assert_int_equal(s.p->out.fault, FAULT_PICK);
        scene_free(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),      cmocka_unit_test(test_wrong),  cmocka_unit_test(test_many),
        cmocka_unit_test(test_no_numbers), cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
