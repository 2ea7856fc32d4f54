/* Conversations on the demo pair, through the engine: second turns, regenerated and edited answers, cuts, cancels. What
 * is remembered saves work and changes nothing: ids, log-probabilities and the draft's acceptance are those of an
 * engine that remembers nothing (cases C24, C26, C27, C28; window 128, context 4096). */
#include "tests/model/engine_fixture.h"

#include "engine/core/timelines.h"

enum { WINDOW = 128, NEW = 40, LABEL = 96 };

/* Two turns of some 3,000 tokens in all; `second` is the prompt of the second one, `whole` with its answer. */
typedef struct conversation {
    token_list first, second, whole;
    int32_t message; /* where the last message begins */
} conversation;

typedef struct engines {
    engine *warm, *cold;
    int32_t *tokens;
    conversation talk;
} engines;

/* ---- asking both ---- */

typedef enum setting { GREEDY_CHAIN, SAMPLED_CHAIN, GREEDY_TREE, SETTINGS } setting;

static question ask_so(const token_list *prompt, int32_t max_new, setting how) {
    question q = ask(prompt, max_new, 7);
    q.reply.ignore_end = true; /* answers as long as they are asked to be */
    q.logprobs = 3;
    if (how == GREEDY_TREE) q.spec.tree = 12;
    if (how == SAMPLED_CHAIN) /* counts of tokens that were not computed again are counts all the same */
        q.pick = (pick_options){
            .temperature = 0.8f, .top_p = 0.95f, .seed = 5, .repeat = 1.2f, .presence = 0.4f, .frequency = 0.3f
        };
    return q;
}

static void check_as_cold(const answer *got, const answer *want, const question *q, const char *what) {
    check_same(got, want, what, q->spec.tokens);
    check_totals(got, q);
    if (got->logprobs.len != want->logprobs.len ||
        memcmp(got->logprobs.data, want->logprobs.data, want->logprobs.len) != 0)
        fail_msg("%s: log-probabilities are not those of a cold run", what);
    for (int32_t i = 0; i < SPEC_POSITIONS; i++)
        if (got->totals.by_length[i] != want->totals.by_length[i])
            fail_msg("%s: %d rounds accepted %d, in a cold run %d", what, got->totals.by_length[i], i,
                     want->totals.by_length[i]);
}

/* Rows that were computed are those that the counter of cached ones leaves. */
static void check_counters(const answer *a, const question *q, const char *what) {
    int32_t rows = (int32_t)q->n - a->totals.cached, chunks = a->prefills + 1;
    if (a->totals.cached < 0 || rows < 1 || chunks < (rows + 255) / 256 || chunks > (rows + 255) / 256 + 2)
        fail_msg("%s: %d of %zu cached, %d chunks", what, a->totals.cached, q->n, chunks);
}

/* Asks the engine that remembers and, if the answer is to be compared, the one that does not. */
static answer turn(const engines *w, question q, const char *what) {
    q.reuse = true;
    answer got = get_answer(w->warm, &q);
    q.reuse = false;
    answer want = get_answer(w->cold, &q);
    assert_int_equal(want.totals.cached, 0);
    check_as_cold(&got, &want, &q, what);
    check_counters(&got, &q, what);
    answer_free(&want);
    return got;
}

/* The same question once more, where the answer is known. */
static int32_t cached_again(const engines *w, question q, const answer *want, const char *what) {
    q.reuse = true;
    answer got = get_answer(w->warm, &q);
    int32_t cached = got.totals.cached;
    check_as_cold(&got, want, &q, what);
    check_counters(&got, &q, what);
    answer_free(&got);
    return cached;
}

static int32_t cached_in_turn(const engines *w, question q, const char *what) {
    answer a = turn(w, q, what);
    int32_t cached = a.totals.cached;
    answer_free(&a);
    return cached;
}

static void expect_cached(int32_t got, int32_t least, int32_t most, const char *what) {
    if (got < least || got > most) fail_msg("%s: %d tokens cached, expected %d to %d", what, got, least, most);
}

/* ---- texts ---- */

static void append(token_list *l, const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++) token_list_push(l, ids[i]);
}

/* n tokens that share no prefix with those of another number. */
static token_list text(const engines *w, int32_t number, int32_t n) {
    token_list l = { 0 };
    token_list_push(&l, 300 + number);
    append(&l, w->tokens + number * 61, (size_t)n - 1);
    return l;
}

/* The first n tokens of `of`, then `tail` tokens that differ from what follows there. */
static token_list edited(const engines *w, const token_list *of, int32_t n, int32_t tail) {
    token_list l = { 0 };
    append(&l, of->ids, (size_t)n);
    int32_t next = (size_t)n < of->n ? of->ids[n] : -1;
    token_list_push(&l, next == 1000 ? 1001 : 1000);
    append(&l, w->tokens + 777, (size_t)tail - 1);
    return l;
}

/* ---- C24: the second request ---- */

static void ask_lengths(const engines *w, int32_t number, const int32_t *length, int n, bool one_text) {
    char what[LABEL];
    for (int i = 0; i < n; i++) {
        token_list p = text(w, one_text ? number : number + i, length[i]);
        snprintf(what, sizeof what, "request %d of %d tokens", i, length[i]);
        int32_t cached = cached_in_turn(w, ask_so(&p, 32, GREEDY_CHAIN), what);
        if (!one_text || i == 0) assert_int_equal(cached, 0);
        token_list_free(&p);
    }
}

static void test_lengths(void **state) {
    static const int32_t SHRINKING[] = { 600, 40, 600, 41 }, ONE[] = { 600, 1, 600 }, AROUND[] = { 511, 513, 512, 1 };
    for (int one_text = 0; one_text < 2; one_text++) {
        ask_lengths(*state, 10 + 20 * one_text, SHRINKING, 4, one_text);
        ask_lengths(*state, 15 + 20 * one_text, ONE, 3, one_text);
        ask_lengths(*state, 20 + 20 * one_text, AROUND, 4, one_text);
    }
}

/* An answer that was cancelled after some tokens, then asked for again, and continued. */
static void test_cancelled_answer(void **state) {
    const engines *w = *state;
    token_list p = text(w, 50, 600);
    question q = ask_so(&p, 2000, GREEDY_CHAIN);
    q.reuse = true;
    answer a = { 0 };
    MUST(submit(w->warm, &q, &a, e));
    wait_for(w->warm, &a.steps, 4);
    engine_cancel(w->warm, a.id);
    wait_for(w->warm, &a.last, 1);
    assert_int_equal(a.why, DONE_CANCELLED);
    q = ask_so(&p, NEW, GREEDY_CHAIN);
    assert_int_equal(cached_in_turn(w, q, "cancelled, then again"), 599);
    size_t kept = a.ids.n < 300 ? a.ids.n : 300;
    append(&p, a.ids.ids, kept);
    token_list more = edited(w, &p, (int32_t)p.n, 30);
    q = ask_so(&more, NEW, GREEDY_CHAIN);
    /* asking again has cut the line to the prompt and NEW tokens; from there on it is computed */
    expect_cached(cached_in_turn(w, q, "cancelled, then continued"), 600, (int32_t)p.n, "cancelled, then continued");
    token_list_free(&more);
    token_list_free(&p);
    answer_free(&a);
}

/* ---- C26: reuse and the draft ---- */

static void check_longer(const engines *w, int32_t number, int32_t n, int32_t more, int32_t least) {
    token_list p = text(w, number, n), longer = text(w, number, n + more);
    cached_in_turn(w, ask_so(&p, NEW, GREEDY_CHAIN), "a prompt");
    answer a = turn(w, ask_so(&longer, NEW, GREEDY_CHAIN), "and more");
    expect_cached(a.totals.cached, least, n + more - 1, "the same and more"); /* the answer may be the text */
    assert_true(a.totals.accepted > 0);
    answer_free(&a);
    token_list_free(&p);
    token_list_free(&longer);
}

static void test_longer(void **state) {
    check_longer(*state, 60, 3000, 50, 2900);
    check_longer(*state, 61, 300, 40, 290);
    check_longer(*state, 62, 100, 40, 90); /* shorter than the window */
}

/* Three turns, each extending the last; the second one without the draft, or one that the look-up alone serves. */
static void test_draft_off_for_a_turn(void **state) {
    const engines *w = *state;
    token_list p = text(w, 65, 700);
    for (int i = 0; i < 3; i++) {
        question q = ask_so(&p, 180, GREEDY_CHAIN); /* longer than the draft's window */
        if (i == 1) q.spec = spec_of(0);
        answer a = turn(w, q, i == 1 ? "turn without the draft" : "turn with the draft");
        if (i) expect_cached(a.totals.cached, (int32_t)p.n - 31, (int32_t)p.n - 30, "next turn");
        assert_true(i == 1 ? a.totals.drafted == 0 : a.totals.accepted > 0);
        append(&p, a.ids.ids, a.ids.n);
        append(&p, w->tokens + 400 + i, 30);
        answer_free(&a);
    }
    token_list_free(&p);
}

static void test_cancelled_prefill(void **state) {
    enum { CHUNK = 16, N = 3200 };
    const engines *shared = *state;
    engines w = *shared;
    w.warm = start((engine_options){
        .ctx = CTX, .prefill_chunk = CHUNK, .proposers = PROPOSE_DRAFT, .cache_tokens = 4096, .checkpoints = 8 });
    token_list p = text(&w, 70, N);
    question q = ask_so(&p, NEW, GREEDY_CHAIN);
    q.reuse = true;
    answer a = { 0 }, again;
    MUST(submit(w.warm, &q, &a, e));
    wait_for(w.warm, &a.prefills, 10);
    engine_cancel(w.warm, a.id);
    wait_for(w.warm, &a.last, 1);
    assert_int_equal(a.why, DONE_CANCELLED);
    assert_int_equal(a.ids.n, 0);
    again = get_answer(w.warm, &q);
    assert_int_equal(again.totals.cached, CHUNK * a.prefills);
    assert_int_equal(again.prefills, (N - again.totals.cached) / CHUNK - 1); /* only what was missing */
    q.reuse = false;
    answer want = get_answer(w.cold, &q);
    check_as_cold(&again, &want, &q, "after a cancelled prefill");
    engine_close(w.warm);
    answer_free(&a);
    answer_free(&again);
    answer_free(&want);
    token_list_free(&p);
}

/* ---- C27: cuts around the window ---- */

/* Back to n of `whole`, then other tokens. */
static void cut_to(const engines *w, const token_list *whole, int32_t n, int32_t tail, const char *what) {
    token_list p = edited(w, whole, n, tail);
    expect_cached(cached_in_turn(w, ask_so(&p, 12, GREEDY_CHAIN), what), 0, (int32_t)p.n - 1, what);
    token_list_free(&p);
}

static void test_cuts(void **state) {
    const engines *w = *state;
    static const int32_t TO[] = { 390, 397, 399, 400, 460, 5, 127, 128, 129, 508, 512, 519, 392, 0 };
    char what[LABEL];
    for (size_t i = 0; i < sizeof TO / sizeof TO[0]; i++) {
        token_list p = text(w, 80 + (int32_t)i, 400);
        answer a = turn(w, ask_so(&p, 120, GREEDY_CHAIN), "before the cut");
        append(&p, a.ids.ids, a.ids.n);
        snprintf(what, sizeof what, "520 tokens cut to %d", TO[i]);
        cut_to(w, &p, TO[i], 12, what);
        cut_to(w, &p, TO[i] > 9 ? TO[i] - 9 : TO[i], 60, "and again");
        cut_to(w, &p, TO[i], 12, "and back");
        answer_free(&a);
        token_list_free(&p);
    }
}

/* ---- C28: regenerate and edit ---- */

static conversation converse(const engines *w, int32_t number) {
    conversation c = { .first = text(w, number, 2700) };
    answer a = turn(w, ask_so(&c.first, 100, GREEDY_CHAIN), "first turn");
    append(&c.second, c.first.ids, c.first.n);
    append(&c.second, a.ids.ids, a.ids.n);
    c.message = (int32_t)c.second.n;
    append(&c.second, w->tokens + 901, 150);
    answer b = turn(w, ask_so(&c.second, 100, GREEDY_CHAIN), "second turn");
    expect_cached(b.totals.cached, c.message - 1, c.message, "second turn");
    append(&c.whole, c.second.ids, c.second.n);
    append(&c.whole, b.ids.ids, b.ids.n);
    answer_free(&a);
    answer_free(&b);
    return c;
}

static void conversation_free(conversation *c) {
    token_list_free(&c->first);
    token_list_free(&c->second);
    token_list_free(&c->whole);
}

/* Each row starts from the whole conversation, as it was left. */
static const conversation *whole_again(const engines *w) {
    question q = ask_so(&w->talk.whole, 1, GREEDY_CHAIN);
    q.reuse = true;
    answer a = get_answer(w->warm, &q);
    expect_cached(a.totals.cached, CHECKPOINT_EVERY, (int32_t)q.n - 1, "the whole again");
    answer_free(&a);
    return &w->talk;
}

static void test_regenerate(void **state) {
    const engines *w = *state;
    const conversation *c = whole_again(w);
    answer known[SETTINGS];
    for (int i = 0; i < 5; i++) { /* each time as cheap as the first time, whatever the settings */
        int how = i % SETTINGS, cached;
        question q = ask_so(&c->second, NEW + 20 * how, (setting)how);
        if (i < SETTINGS)
            known[how] = turn(w, q, "regenerated"), cached = known[how].totals.cached;
        else
            cached = cached_again(w, q, &known[how], "regenerated");
        assert_int_equal(cached, c->second.n - 1);
    }
    for (int how = 0; how < SETTINGS; how++) answer_free(&known[how]);
}

static void test_edits(void **state) {
    const engines *w = *state;
    static const struct {
        const char *what;
        int32_t back, tail; /* before the end of the whole; 0: of the last message */
        setting how;
    } ROW[] = { { "last message changed", 0, 150, GREEDY_CHAIN },
                { "last message changed, sampled", 0, 80, SAMPLED_CHAIN },
                { "last message of one word", 0, 1, GREEDY_TREE },
                { "cut 10 before the end", 10, 20, GREEDY_CHAIN },
                { "cut 10 before the end, sampled", 10, 20, SAMPLED_CHAIN },
                { "cut 300 before the end", 300, 40, GREEDY_CHAIN },
                { "cut 300 before the end, tree", 300, 40, GREEDY_TREE },
                { "cut 2000 before the end", 2000, 60, SAMPLED_CHAIN } };
    const conversation *c = &w->talk;
    for (size_t i = 0; i < sizeof ROW / sizeof ROW[0]; i++) {
        int32_t parts = ROW[i].back ? (int32_t)c->whole.n - ROW[i].back : c->message;
        whole_again(w);
        token_list p = edited(w, &c->whole, parts, ROW[i].tail);
        question q = ask_so(&p, NEW, ROW[i].how);
        answer known = turn(w, q, ROW[i].what);
        expect_cached(known.totals.cached, parts - WINDOW - CHECKPOINT_EVERY, parts, ROW[i].what);
        assert_int_equal(cached_again(w, q, &known, ROW[i].what), p.n - 1);
        if (ROW[i].tail > CHECKPOINT_SLACK) { /* another edit at the same place finds a checkpoint there */
            p.ids[parts] = 1002;
            question other = ask_so(&p, 1, ROW[i].how);
            other.reuse = true;
            answer a = get_answer(w->warm, &other);
            assert_int_equal(a.totals.cached, parts);
            answer_free(&a);
        }
        answer_free(&known);
        token_list_free(&p);
    }
}

/* The last two turns removed; then the answer deleted and another question asked. */
static void test_turns_removed(void **state) {
    const engines *w = *state;
    const conversation *c = whole_again(w);
    token_list p = edited(w, &c->first, (int32_t)c->first.n, 60);
    int32_t cached = cached_in_turn(w, ask_so(&p, NEW, GREEDY_CHAIN), "two turns removed");
    assert_int_equal(cached, c->first.n); /* the end of the first prompt has a checkpoint */
    token_list other = edited(w, &c->second, c->message, 70);
    cached = cached_in_turn(w, ask_so(&other, NEW, GREEDY_TREE), "another question");
    expect_cached(cached, c->message - WINDOW - CHECKPOINT_EVERY, c->message, "another question");
    token_list_free(&p);
    token_list_free(&other);
}

/* ---- who is remembered ---- */

static void test_no_cache(void **state) {
    const engines *w = *state;
    token_list known = text(w, 110, 900), secret = text(w, 111, 700);
    cached_in_turn(w, ask_so(&known, NEW, GREEDY_CHAIN), "a known prompt");
    question q = ask_so(&known, NEW, GREEDY_CHAIN);
    answer not_used = get_answer(w->warm, &q); /* reuse false */
    assert_int_equal(not_used.totals.cached, 0);
    q = ask_so(&secret, NEW, GREEDY_CHAIN);
    answer not_kept = get_answer(w->warm, &q);
    assert_int_equal(not_kept.totals.cached, 0);
    assert_int_equal(cached_in_turn(w, q, "not kept before"), 0);
    assert_int_equal(cached_in_turn(w, ask_so(&known, NEW, GREEDY_CHAIN), "still known"), 899);
    answer_free(&not_used);
    answer_free(&not_kept);
    token_list_free(&known);
    token_list_free(&secret);
}

/* Titles and summaries do not push out the conversation that they are about. */
static void test_side_requests(void **state) {
    const engines *shared = *state;
    engines w = *shared;
    w.warm = start((engine_options){
        .ctx = CTX, .proposers = PROPOSE_DRAFT, .cache_tokens = 512, .checkpoints = 4, .queue_max = 4 });
    token_list p = text(&w, 120, 3000);
    answer a = turn(&w, ask_so(&p, 60, GREEDY_CHAIN), "the conversation");
    for (int i = 0; i < 8; i++) {
        token_list side = text(&w, 121 + i, 150);
        assert_int_equal(cached_in_turn(&w, ask_so(&side, 10, GREEDY_CHAIN), "a side request"), 0);
        token_list_free(&side);
    }
    append(&p, a.ids.ids, a.ids.n);
    append(&p, w.tokens, 50);
    int32_t cached = cached_in_turn(&w, ask_so(&p, NEW, GREEDY_CHAIN), "the conversation goes on");
    expect_cached(cached, 3000, (int32_t)p.n - 50, "the conversation goes on");
    engine_close(w.warm);
    answer_free(&a);
    token_list_free(&p);
}

/* With nothing kept beside it the running conversation still goes on, and other prompts are right. */
static void test_no_room(void **state) {
    const engines *shared = *state;
    engines w = *shared;
    w.warm = start((engine_options){ .ctx = CTX, .proposers = PROPOSE_DRAFT, .queue_max = 4 });
    token_list p = text(&w, 130, 600), other = text(&w, 131, 3900);
    answer a = turn(&w, ask_so(&p, NEW, GREEDY_CHAIN), "no checkpoints");
    append(&p, a.ids.ids, a.ids.n);
    append(&p, w.tokens, 20);
    int32_t cached = cached_in_turn(&w, ask_so(&p, NEW, GREEDY_CHAIN), "no checkpoints, next turn");
    expect_cached(cached, 600 + NEW - 1, 600 + NEW, "no checkpoints, next turn");
    assert_int_equal(cached_in_turn(&w, ask_so(&other, NEW, GREEDY_CHAIN), "all pages"), 0);
    assert_int_equal(cached_in_turn(&w, ask_so(&p, NEW, GREEDY_CHAIN), "pushed out"), 0);
    engine_close(w.warm);
    answer_free(&a);
    token_list_free(&p);
    token_list_free(&other);
}

/* ---- group fixture ---- */

static int setup(void **state) {
    engines *w = xalloc(sizeof *w);
    engine_options opt = { .ctx = CTX,
                           .spec = { SPEC_FIXED, 7, 0, 0.0f },
                           .proposers = PROPOSE_DRAFT,
                           .queue_max = 4,
                           .cache_tokens = 3 * CTX,
                           .checkpoints = 32 };
    w->warm = start(opt);
    opt.cache_tokens = opt.checkpoints = 0;
    w->cold = start(opt);
    w->tokens = demo_tokens(3 * CTX);
    w->talk = converse(w, 100);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    engines *w = *state;
    engine_close(w->warm);
    engine_close(w->cold);
    conversation_free(&w->talk);
    free(w->tokens);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regenerate),
        cmocka_unit_test(test_edits),
        cmocka_unit_test(test_turns_removed),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_cancelled_answer),
        cmocka_unit_test(test_longer),
        cmocka_unit_test(test_draft_off_for_a_turn),
        cmocka_unit_test(test_cancelled_prefill),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_no_cache),
        cmocka_unit_test(test_side_requests),
        cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
