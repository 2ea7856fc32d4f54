/* Remembered conversations on a device: a second turn, an answer asked for again, another conversation in between, an
 * edit far back. What is taken over changes nothing: tokens, what the draft proposes and what is accepted are those of
 * a cold run. Images of checkpoints lie in the device's memory, and nothing there is touched by the host. */
#include "tests/model/device_fixture.h"

#include "engine/core/turn.h"

enum { CHECKPOINTS = 8, NEW = 8, ROUNDS_MAX = 2 * NEW };

static const pick_params GREEDY = { .top_p = 1.0f };
static const pick_params SAMPLED = {
    .temperature = 0.8f, .top_p = 0.9f, .seed = 4, .repeat = 1.2f, .presence = 0.4f, .frequency = 0.2f
};

/* A pair with its memory of conversations, and one that forgets. */
typedef struct world {
    pair *warm, *cold;
    timelines *kept, *none;
} world;

typedef struct reply {
    int32_t cached, n, id[NEW + DEPTH_MAX + 1];
    int32_t n_rounds;
    struct {
        int32_t drafted, accepted, proposal[NODES_MAX];
    } round[ROUNDS_MAX];
} reply;

static void take(reply *r, const step_out *o) {
    assert_int_equal(o->fault, FAULT_NONE);
    memcpy(r->id + r->n, o->token, (size_t)o->n * sizeof *r->id);
    r->n += o->n;
}

static void take_round(reply *r, const step_out *o) {
    assert_true(r->n_rounds < ROUNDS_MAX);
    r->round[r->n_rounds].drafted = o->drafted;
    r->round[r->n_rounds].accepted = o->accepted;
    memcpy(r->round[r->n_rounds++].proposal, o->proposal, (size_t)o->drafted * sizeof *o->proposal);
    take(r, o);
}

/* As the engine does it. */
static reply answer(pair *p, timelines *tl, const int32_t *prompt, int32_t n, const pick_params *pick, bool reuse) {
    reply r = { 0 };
    turn t = { .steps = p->steps, .timelines = tl };
    steps_set_pick(p->steps, pick);
    r.cached = turn_begin(&t, prompt, n, reuse);
    while (t.done < n) {
        const step_out *o = turn_prefill(&t, PREFILL_MAX);
        if (o->n) take(&r, o);
    }
    timelines_mark(tl);
    round_shape shape = { .depth = 7, .branch = pick->temperature > 0.0f ? TREE_WIDTH : 1, .nodes = 7 };
    while (r.n < NEW) take_round(&r, turn_speculate(&t, &shape));
    turn_end(&t, NEW);
    return r;
}

static reply ask(world *w, const token_list *prompt, const pick_params *pick, const char *what) {
    reply got = answer(w->warm, w->kept, prompt->ids, (int32_t)prompt->n, pick, true);
    reply want = answer(w->cold, w->none, prompt->ids, (int32_t)prompt->n, pick, false);
    assert_int_equal(want.cached, 0);
    for (int32_t i = 0; i < NEW; i++)
        if (got.id[i] != want.id[i])
            fail_msg("%s, %d cached: token %d is %d, in a cold run %d", what, got.cached, i, got.id[i], want.id[i]);
    assert_int_equal(got.n_rounds, want.n_rounds);
    if (memcmp(got.round, want.round, sizeof got.round) != 0)
        fail_msg("%s, %d cached: the draft proposes something else than in a cold run", what, got.cached);
    return got;
}

static void expect_cached(const reply *r, int32_t least, int32_t most, const char *what) {
    if (r->cached < least || r->cached > most)
        fail_msg("%s: %d tokens cached, expected %d to %d", what, r->cached, least, most);
}

static token_list text(int32_t n, uint32_t seed) {
    token_list l = { 0 };
    int32_t *ids = xalloc((size_t)n * sizeof *ids);
    junk_tokens(ids, n, seed);
    for (int32_t i = 0; i < n; i++) token_list_push(&l, ids[i]);
    free(ids);
    return l;
}

static void append(token_list *l, const int32_t *ids, int32_t n) {
    for (int32_t i = 0; i < n; i++) token_list_push(l, ids[i]);
}

/* ---- conversations ---- */

static void converse(world *w, uint32_t seed, const pick_params *pick) {
    token_list p = text(70, seed), more = text(20, seed + 1), other = text(50, seed + 2);
    reply first = ask(w, &p, pick, "first turn");
    assert_int_equal(first.cached, 0);
    reply again = ask(w, &p, pick, "asked again");
    assert_int_equal(again.cached, 69);
    append(&p, first.id, NEW);
    int32_t before = (int32_t)p.n;
    append(&p, more.ids, (int32_t)more.n);
    reply second = ask(w, &p, pick, "second turn");
    expect_cached(&second, before - 1, before, "second turn");
    ask(w, &other, pick, "another conversation");
    int64_t restored = timelines_get_stats(w->kept).restored;
    reply back = ask(w, &p, pick, "back again"); /* the rings were the other one's */
    expect_cached(&back, before, (int32_t)p.n - 1, "back again");
    assert_int_equal(timelines_get_stats(w->kept).restored, restored + 1);
    p.n = (size_t)before - 3; /* a little before the end of the first answer */
    token_list_push(&p, 3);
    ask(w, &p, pick, "cut back");
    token_list_free(&p);
    token_list_free(&more);
    token_list_free(&other);
}

static void test_greedy(void **state) { converse(*state, 100, &GREEDY); }
static void test_sampled(void **state) { converse(*state, 200, &SAMPLED); }

/* An edit so far back that the old end is kept beside it, and then goes on. */
static void test_fork(void **state) {
    world *w = *state;
    token_list p = text(300, 300), old = { 0 }, tail = text(540, 301), other = text(30, 302);
    append(&old, p.ids, (int32_t)p.n);
    append(&old, tail.ids, (int32_t)tail.n);
    ask(w, &p, &GREEDY, "the stem"); /* its end has a checkpoint */
    ask(w, &old, &GREEDY, "the old end");
    int64_t forked = timelines_get_stats(w->kept).forked;
    append(&p, other.ids, (int32_t)other.n);
    reply r = ask(w, &p, &GREEDY, "the edit");
    expect_cached(&r, 256, 301, "the edit");
    assert_int_equal(timelines_get_stats(w->kept).forked, forked + 1);
    token_list_push(&old, 5);
    r = ask(w, &old, &GREEDY, "the old end goes on");
    expect_cached(&r, 800, (int32_t)old.n - 1, "the old end goes on");
    token_list_free(&p);
    token_list_free(&old);
    token_list_free(&tail);
    token_list_free(&other);
}

static int setup(void **state) {
    world *w = xalloc(sizeof *w);
    w->warm =
        pair_on_with(TINY_TARGET,
                     &(engine_options){
                         .backend = BACKEND_CUDA, .ctx = 1024, .cache_tokens = 2048, .checkpoints = CHECKPOINTS });
    w->cold = pair_on(BACKEND_CUDA, TINY_TARGET, KV_BF16);
    size_t before = simt_device_bytes();
    MUST(timelines_open(&w->kept, &w->warm->target, pair_draft(w->warm), w->warm->steps, CHECKPOINTS, e));
    size_t images =
        CHECKPOINTS * timelines_checkpoint_bytes(&w->warm->target.cfg, &w->warm->draft.cfg, pair_kv_type(KV_BF16));
    assert_true(simt_device_bytes() - before >= images);
    MUST(timelines_open(&w->none, &w->cold->target, pair_draft(w->cold), w->cold->steps, 0, e));
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    timelines_close(w->kept);
    timelines_close(w->none);
    pair_off(w->warm);
    pair_off(w->cold);
    assert_int_equal(simt_device_allocations() + simt_host_allocations(), 0);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_sampled),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
