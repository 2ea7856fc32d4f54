/* Prompts in chunks, on the demo pair: what the draft reads and how much of it is accepted does not depend on the
 * chunks; progress counts what was known and what was computed; cancelling ends it with the chunk that runs.
 *
 * Prompt rows are counted where they are computed: link: -Wl,--wrap=steps_prefill */
#include "tests/model/engine_fixture.h"

#include <sched.h>
#include <stdatomic.h>

enum { PROMPT = 1000, ANSWER = 64, WIDTH = 7 };

/* ---- prompt rows, counted; and a request that is cancelled while its n-th chunk runs ---- */

static struct {
    _Atomic int32_t chunks, rows, widest, cancel_in; /* cancel_in 0: never */
    _Atomic gen_id id;                               /* of the request to be cancelled; 0: not known yet */
    engine *en;
} seen;

const step_out *__real_steps_prefill(steps *s, const int32_t *tokens, int32_t n, bool want_head);
const step_out *__wrap_steps_prefill(steps *s, const int32_t *tokens, int32_t n, bool want_head);
const step_out *__wrap_steps_prefill(steps *s, const int32_t *tokens, int32_t n, bool want_head) {
    seen.rows += n;
    if (n > seen.widest) seen.widest = n;
    if (++seen.chunks == seen.cancel_in) {
        while (seen.id == 0) sched_yield();
        engine_cancel(seen.en, seen.id);
    }
    return __real_steps_prefill(s, tokens, n, want_head);
}

static void count_from_here(engine *en, int32_t cancel_in) {
    seen.chunks = seen.rows = seen.widest = 0;
    seen.id = 0;
    seen.en = en;
    seen.cancel_in = cancel_in;
}

/* ---- chunks ---- */

enum { LIST = 8 };
typedef struct chunks {
    int32_t n[LIST]; /* the last one again and again */
} chunks;

/* The taps that the draft will read, then for every round what it accepted and emitted. */
static void decode_behind(pair *p, const int32_t *tokens, const chunks *c, buf *out) {
    steps *s = p->steps;
    memory_poison(p);
    steps_seek(s, 0, 0, 0);
    steps_set_pick(s, &(pick_params){ .top_p = 1.0f });
    for (int32_t at = 0, i = 0, n; at < PROMPT; at += n) {
        n = PROMPT - at < c->n[i] ? PROMPT - at : c->n[i];
        steps_prefill(s, tokens + at, n, at + n == PROMPT);
        if (i + 1 < LIST && c->n[i + 1]) i++;
    }
    for (int32_t pos = PROMPT - p->draft.cfg.window; pos < PROMPT; pos++)
        buf_put(out, tap_row(p, pos), (size_t)p->target.tap_ring.cols * sizeof(bf16));
    for (int32_t have = 1; have < ANSWER;) {
        const step_out *o = steps_round(s, WIDTH);
        assert_int_equal(o->draft_depth, WIDTH); /* drafting is on */
        buf_put(out, &o->accepted, sizeof o->accepted);
        buf_put(out, o->token, (size_t)o->n * sizeof *o->token);
        have += o->n;
    }
}

static void test_chunks(void **state) {
    (void)state;
    static const chunks CHUNKS[] = { { { 256 } },
                                     { { 1 } },
                                     { { 16 } },
                                     { { 64 } },
                                     { { 255 } },
                                     { { 250 } },
                                     { { 111 } },
                                     { { 37 } },
                                     { { 1, 2, 200, 256 } },
                                     { { 256, 256, 256, 231, 1 } } };
    pair *p = demo_open(PROMPT + 2 * ANSWER);
    int32_t *tokens = demo_tokens(PROMPT);
    buf want = { 0 }, got = { 0 };
    for (size_t k = 0; k < sizeof CHUNKS / sizeof *CHUNKS; k++) {
        buf_clear(&got);
        decode_behind(p, tokens, &CHUNKS[k], k ? &got : &want);
        if (k && (got.len != want.len || memcmp(got.data, want.data, got.len)))
            fail_msg("chunks of %d, %d, ...: taps, accepted proposals or tokens differ", CHUNKS[k].n[0],
                     CHUNKS[k].n[1]);
    }
    buf_free(&want);
    buf_free(&got);
    free(tokens);
    demo_close(p);
}

/* The same through an engine: rounds by the number of proposals that were right. */
static void test_engines(void **state) {
    world *w = *state;
    static const int32_t CHUNKS[] = { 16, 255 };
    token_list prompt = { demo_tokens(PROMPT), PROMPT, PROMPT };
    question q = ask(&prompt, ANSWER, WIDTH);
    q.reply.ignore_end = true;
    count_from_here(NULL, 0);
    answer want = get_answer(w->en, &q);
    assert_int_equal(seen.rows, PROMPT);
    assert_int_equal(seen.widest, PREFILL_MAX);
    assert_true(want.totals.rounds > 0 && want.totals.accepted > 0);
    for (int k = 0; k < 2; k++) {
        engine *en = start((engine_options){
            .prefill_chunk = CHUNKS[k], .ctx = CTX, .proposers = PROPOSE_DRAFT, .spec = spec_of(SPEC_DEFAULT) });
        count_from_here(NULL, 0);
        answer got = get_answer(en, &q);
        check_same(&got, &want, "chunks", CHUNKS[k]);
        assert_int_equal(seen.rows, PROMPT);
        assert_int_equal(seen.widest, CHUNKS[k]);
        assert_memory_equal(got.totals.by_length, want.totals.by_length, sizeof want.totals.by_length);
        answer_free(&got);
        engine_close(en);
    }
    answer_free(&want);
    token_list_free(&prompt);
}

/* ---- progress ---- */

typedef struct progress {
    int32_t cached, n, done[PROMPT], total;
    bool token; /* the first token has come */
} progress;

/* Until the request has ended; all that is told of its prompt. */
static progress listen(engine *en, answer *a) {
    progress p = { .cached = -1 };
    int64_t end = clock_ns() + (int64_t)PATIENCE_S * 1000000000;
    while (a->last == 0) {
        gen_event ev[DRAIN];
        if (clock_ns() > end) fail_msg("the engine has been silent for %d s", PATIENCE_S);
        size_t n = engine_drain(en, ev, DRAIN);
        if (n == 0) engine_wait(en, 100000000);
        for (size_t i = 0; i < n; i++) {
            if (ev[i].kind == GEN_STARTED) p.cached = ev[i].u.started.cached;
            if (ev[i].kind == GEN_ROUND) p.token = true;
            if (ev[i].kind == GEN_PREFILL) {
                assert_true(p.cached >= 0 && !p.token && p.n < PROMPT);
                p.done[p.n++] = ev[i].u.prefill.done;
                p.total = ev[i].u.prefill.total;
            }
            take(&ev[i]);
        }
    }
    return p;
}

/* From what was known to the prompt's end, in steps no larger than a chunk. */
static void check_progress(const progress *p, int32_t prompt, int32_t chunk, int32_t end) {
    assert_int_equal(p->total, prompt);
    for (int32_t i = 0, before = p->cached; i < p->n; before = p->done[i++])
        assert_in_range(p->done[i], before + 1, before + chunk);
    assert_int_equal(p->n ? p->done[p->n - 1] : p->cached, end);
}

static void test_progress(void **state) {
    (void)state;
    enum { CHUNK = 64, KNOWN = 600, NEW = 4 };
    /* nothing known; the first 600 tokens, and the answer as far as the prompt says the same; all but the last one */
    static const int32_t LOW[] = { 0, KNOWN - 1, PROMPT - 1 }, HIGH[] = { 0, KNOWN + NEW - 1, PROMPT - 1 };
    engine *en = start((engine_options){
        .prefill_chunk = CHUNK, .ctx = CTX, .cache_tokens = CTX, .checkpoints = 8, .spec = spec_of(SPEC_DEFAULT) });
    token_list prompt = { demo_tokens(PROMPT), PROMPT, PROMPT };
    question q = ask(&prompt, NEW, 0);
    q.reuse = true;
    for (int turn = 0; turn < 3; turn++) {
        answer a = { 0 };
        q.n = turn == 0 ? KNOWN : PROMPT;
        count_from_here(en, 0);
        MUST(submit(en, &q, &a, e));
        progress p = listen(en, &a);
        assert_int_equal(p.cached, a.totals.cached);
        assert_in_range(p.cached, LOW[turn], HIGH[turn]);
        assert_int_equal(seen.rows, (int32_t)q.n - p.cached);
        /* the last chunk is told by the first token */
        assert_int_equal(p.n, seen.chunks - 1);
        if (p.n) {
            int32_t last = p.done[p.n - 1];
            check_progress(&p, (int32_t)q.n, CHUNK, last);
            assert_in_range((int32_t)q.n - last, 1, CHUNK);
        }
        answer_free(&a);
    }
    engine_close(en);
    token_list_free(&prompt);
}

/* ---- cancelling ---- */

/* The chunk that runs is the last one, and the next request is answered. */
static void test_cancel(void **state) {
    world *w = *state;
    static const int32_t CHUNKS[] = { 1, 64, 256 }, IN[] = { 1, 2, 3 };
    token_list prompt = { demo_tokens(PROMPT), PROMPT, PROMPT };
    question q = ask(&prompt, 8, 0), small = ask(&w->code, 8, WIDTH);
    count_from_here(NULL, 0);
    answer want = get_answer(w->en, &small);
    for (int k = 0; k < 3; k++) {
        engine *en = start((engine_options){ .prefill_chunk = CHUNKS[k], .ctx = CTX, .spec = spec_of(SPEC_DEFAULT) });
        for (int i = 0; i < 3; i++) {
            answer a = { 0 };
            count_from_here(en, IN[i]);
            MUST(submit(en, &q, &a, e));
            seen.id = a.id;
            progress p = listen(en, &a);
            assert_int_equal(a.why, DONE_CANCELLED);
            assert_int_equal(a.totals.generated, 0);
            assert_int_equal(seen.chunks, IN[i]);
            assert_int_equal(seen.rows, IN[i] * CHUNKS[k]);
            check_progress(&p, PROMPT, CHUNKS[k], IN[i] * CHUNKS[k]);
            count_from_here(en, 0);
            answer next = get_answer(en, &small);
            check_same(&next, &want, "after a cancelled prompt", WIDTH);
            answer_free(&next);
            answer_free(&a);
        }
        engine_close(en);
    }
    answer_free(&want);
    token_list_free(&prompt);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_chunks), cmocka_unit_test(test_engines),
                                        cmocka_unit_test(test_progress), cmocka_unit_test(test_cancel) };
    return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
