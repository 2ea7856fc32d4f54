/* The width controller in scripted worlds: what passes cost, how sure the draft says it is, how often it is right. */
#include "engine/core/width.h"
#include "kernels/tree_core.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

enum { BLOCK = 15, STEPS_MAX = 4000 };

/* ---- a world ---- */

typedef struct world {
    double verify[NODES_MAX + 1], draft[BLOCK + 1]; /* ns */
    double ctx_row;
    double said;  /* probability that the draft gives each of its proposals */
    double right; /* how often one is right below a right one */
    width w;
    uint64_t rng;
    int64_t now;
    int32_t ctx, lag;
    double spent, drafted_ns;
    int64_t tokens;
    int32_t rows, why;
    width_choice choice;
} world;

static double dice(world *o) {
    o->rng = o->rng * 6364136223846793005u + 1442695040888963407u;
    return (double)(o->rng >> 11) / 9007199254740992.0;
}

/* Bytes of a plain step and of each further row, as measured on Laguna S 2.1 at 4k tokens (contract, 7.1), 1 ms a plain
 * step. */
static void set_card_costs(world *o) {
    static const double MORE[] = { 0, 0, .235, .150, .120, .108, .084, .084, .083, .083, .058 };
    o->verify[1] = 1e6;
    for (int32_t r = 2; r <= NODES_MAX; r++) o->verify[r] = o->verify[r - 1] + 1e6 * MORE[r < 10 ? r : 10];
    for (int32_t k = 1; k <= BLOCK; k++) o->draft[k] = 0.285e6;
}

/* A model in the cache of a processor: every row costs arithmetic. */
static void set_cache_costs(world *o) {
    for (int32_t r = 1; r <= NODES_MAX; r++) o->verify[r] = 58e3 + 42e3 * r;
    for (int32_t k = 1; k <= BLOCK; k++) o->draft[k] = 35e3 + 14e3 * k;
    o->ctx_row = 1300;
}

static void start(world *o, double scale_told) {
    static const int32_t SIZE[] = { 1, 2, 4, 8, 15 };
    float v[5], d[5];
    for (int i = 0; i < 5; i++) {
        v[i] = (float)(o->verify[SIZE[i]] * (SIZE[i] > 1 ? scale_told : 1.0));
        d[i] = (float)o->draft[SIZE[i]];
    }
    o->rng = 1, o->now = 1, o->ctx = 100;
    width_init(&o->w, BLOCK);
    width_set_verify(&o->w, SIZE, v, 5);
    width_set_draft(&o->w, SIZE, d, 5, (float)o->ctx_row);
    width_begin(&o->w, false);
}

/* One step as the engine does it: choice, growth by candidates of the said probability, cut, outcome by dice. */
static void step(world *o) {
    static row_set t;
    node_note note[NODES_MAX];
    int32_t token[BLOCK];
    float logp[BLOCK];
    step_out out = { 0 };
    width_input in = { .ctx = o->ctx, .depth = BLOCK, .nodes = NODES_MAX - 1, .lag = o->lag };
    width_choose(&o->w, &in, &o->choice);
    const width_choice *c = &o->choice;
    for (int32_t i = 0; i < BLOCK; i++) token[i] = 2 + i, logp[i] = logf((float)o->said);
    tree_candidates cand = { token, logp, c->draft, 1, 1, 1, o->w.conf };
    tree_begin(&t, o->ctx, 1);
    tree_grow(&t, &cand, &(tree_given){ 0 }, c->nodes, note);
    tree_cut(&t, note, o->w.cost, c->nodes_min, -INFINITY);
    out.draft_depth = c->draft;
    for (int32_t i = 0; i < c->draft; i++) out.draft_conf[i] = (uint8_t)tree_conf(logp[i]);
    out.rows = t.n, out.drafted = t.n - 1;
    memcpy(out.note, note, sizeof out.note);
    while (out.accepted < out.drafted && dice(o) < o->right) out.accepted++;
    out.n = out.accepted + 1;
    for (int32_t i = 0; i < out.n; i++) out.path[i] = i;
    double draft = c->draft ? o->draft[c->draft] : 0.0, late = c->draft ? o->ctx_row * o->lag : 0.0;
    width_time time = { (int64_t)late, (int64_t)draft, (int64_t)o->verify[t.n], o->now };
    o->lag = (c->draft ? 0 : o->lag) + out.n;
    if (o->lag > 128) o->lag = 128;
    o->now += time.catch_up + time.draft + time.rest;
    width_measured(&o->w, o->ctx, c, &out, &time);
    o->spent += (double)(time.catch_up + time.draft + time.rest);
    o->tokens += out.n;
    o->rows = out.rows, o->why = (int32_t)c->why;
    o->ctx += out.n;
}

/* Tokens per time against plain steps, over n steps. */
static double run(world *o, int32_t n) {
    double spent = o->spent;
    int64_t tokens = o->tokens;
    for (int32_t i = 0; i < n; i++) step(o);
    return (double)(o->tokens - tokens) * o->verify[1] / (o->spent - spent);
}

static double mean_rows(world *o, int32_t n) {
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) step(o), sum += o->rows;
    return sum / n;
}

/* Of all fixed widths the fastest, plain steps included. */
static double best_fixed(const world *o, double right, int32_t *rows) {
    double best = 1.0, sum = 1.0, path = 1.0;
    *rows = 1;
    for (int32_t k = 1; k <= BLOCK; k++) {
        sum += path *= right;
        double rate = sum * o->verify[1] / (o->verify[k + 1] + o->draft[k]);
        if (rate > best) best = rate, *rows = k + 1;
    }
    return best;
}

/* ---- cost ---- */

static step_out plain_out(void) { return (step_out){ .n = 1, .rows = 1 }; }

static void feed(width *w, int32_t ctx, int32_t rows, double ns, int64_t now) {
    width_choice c = { .why = SPEC_WHY_LOOKUP };
    step_out o = plain_out();
    o.rows = rows, o.drafted = rows - 1;
    width_measured(w, ctx, &c, &o, &(width_time){ .rest = (int64_t)ns, .now = now });
}

static void test_costs(void **state) {
    (void)state;
    static width w;
    width_init(&w, BLOCK);
    static const int32_t SIZE[] = { 1, 4, 8 };
    width_set_verify(&w, SIZE, (float[]){ 100, 160, 200 }, 3);
    assert_float_equal(width_verify_ns(&w, 0, 2), 120, 0.01);
    assert_float_equal(width_verify_ns(&w, 0, 6), 180, 0.01);
    assert_float_equal(width_verify_ns(&w, 0, 16), 280, 0.01); /* the last slope goes on */
    for (int i = 0; i < 2; i++) feed(&w, 0, 1, 50, 1);
    assert_float_equal(width_verify_ns(&w, 0, 1), 100, 0.01); /* two times are no median */
    feed(&w, 0, 1, 9000, 1);
    for (int i = 0; i < 20; i++) feed(&w, 0, 1, i % 5 ? 50 : 7000, 1);
    assert_float_equal(width_verify_ns(&w, 0, 1), 50, 0.01);  /* a busy machine now and then changes nothing */
    assert_float_equal(width_verify_ns(&w, 0, 8), 100, 0.01); /* the shape, on this machine */
    for (int i = 0; i < 5; i++) feed(&w, 0, 8, 150, 2);
    assert_float_equal(width_verify_ns(&w, 0, 8), 150, 0.01);
    assert_float_equal(width_verify_ns(&w, 0, 7), 150 * 190.0 / 200.0, 0.01); /* from the nearest */
    assert_float_equal(width_verify_ns(&w, 0, 2), 60, 0.01);
    /* a minute later 8 rows are as old as that: known from the plain steps and their own old share */
    int64_t later = 61000000000;
    for (int i = 0; i < 30; i++) feed(&w, 0, 1, 25, later + i);
    assert_float_equal(width_verify_ns(&w, 0, 8), 75, 0.01);
}

static void test_tiers(void **state) {
    (void)state;
    static world o;
    set_card_costs(&o);
    start(&o, 1.0);
    for (int i = 0; i < 5; i++) feed(&o.w, 500, 1, 2e6, 1);
    width_choice c;
    width_choose(&o.w, &(width_input){ .ctx = 5000, .depth = 7, .nodes = 7 }, &c);
    assert_float_equal(width_verify_ns(&o.w, 5000, 1), 2e6, 1); /* as the shorter contexts */
    for (int i = 0; i < 5; i++) feed(&o.w, 5000, 1, 3e6, 2);
    assert_float_equal(width_verify_ns(&o.w, 5000, 1), 3e6, 1);
    assert_float_equal(width_verify_ns(&o.w, 500, 1), 2e6, 1);
    width_choose(&o.w, &(width_input){ .ctx = 1 << 20, .depth = 7, .nodes = 7 }, &c);
    assert_float_equal(width_verify_ns(&o.w, 1 << 20, 1), 3e6, 1);
}

/* ---- widths ---- */

/* The contract's table 7.4: near the best width, and never far from the best speed. */
static void test_best_width(void **state) {
    (void)state;
    static const double RIGHT[] = { 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95 };
    for (size_t i = 0; i < sizeof RIGHT / sizeof *RIGHT; i++) {
        static world o;
        o = (world){ .said = RIGHT[i], .right = RIGHT[i] };
        set_card_costs(&o);
        start(&o, 1.0);
        run(&o, 300);
        int32_t want;
        double best = best_fixed(&o, RIGHT[i], &want), rows = mean_rows(&o, 500), got = run(&o, 2000);
        print_message("right %.2f: %.2f rows of %d, %.3f of %.3f\n", RIGHT[i], rows, want, got, best);
        assert_true(got >= 0.93 * best);
        if (RIGHT[i] >= 0.6) assert_true(fabs(rows - want) <= 1.0 + 0.25 * want);
    }
}

/* A draft that is far too sure of itself is found out. */
static void test_overconfident(void **state) {
    (void)state;
    static world o;
    o = (world){ .said = 0.95, .right = 0.6 };
    set_card_costs(&o);
    start(&o, 1.0);
    run(&o, 200);
    int32_t want;
    double best = best_fixed(&o, 0.6, &want);
    assert_true(run(&o, 2000) >= 0.93 * best);
}

/* Where nothing is to be won: plain steps, and probes within their share. */
static void test_off(void **state) {
    (void)state;
    static const double RIGHT[] = { 0.0, 0.05, 0.3 };
    for (int card = 0; card < 2; card++)
        for (size_t i = 0; i < sizeof RIGHT / sizeof *RIGHT; i++) {
            static world o;
            o = (world){ .said = 0.8, .right = RIGHT[i] };
            (card ? set_card_costs : set_cache_costs)(&o);
            start(&o, 1.0);
            run(&o, 100);
            double got = run(&o, 2000);
            assert_true(got >= 0.98);
            assert_true(mean_rows(&o, 200) < 1.2);
        }
}

/* Costs are learned while serving: told half of what a row costs, and twice. */
static void test_wrong_costs(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        static world right, wrong;
        right = (world){ .said = 0.8, .right = 0.8 };
        set_card_costs(&right);
        wrong = right;
        start(&right, 1.0);
        start(&wrong, i ? 2.0 : 0.5);
        run(&right, 300), run(&wrong, 300);
        assert_true(run(&wrong, 1500) >= 0.97 * run(&right, 1500));
    }
}

/* ---- case C30 ---- */

/* Steps until the mean of the last ten rows is at most (least: at least) `rows`; n: never. */
static int32_t steps_until(world *o, bool falling, double rows, int32_t n) {
    double last[10] = { 0 };
    for (int32_t i = 0; i < n; i++) {
        step(o);
        last[i % 10] = o->rows;
        double sum = 0.0;
        for (int32_t j = 0; j < 10; j++) sum += last[j];
        if (i >= 9 && (falling ? sum / 10 <= rows : sum / 10 >= rows)) return i;
    }
    return n;
}

static void test_script(void **state) {
    (void)state;
    static world o;
    o = (world){ .said = 0.8, .right = 0.05 };
    set_card_costs(&o);
    start(&o, 1.0);
    assert_true(run(&o, 300) >= 0.97);
    o.right = 0.9;
    assert_true(steps_until(&o, false, 3.0, 100) <= 40); /* rising within 30, the mean of ten ten later */
    assert_true(run(&o, 250) >= 2.0);
    o.right = 0.05;
    assert_true(steps_until(&o, true, 2.0, 100) <= 40);
    assert_true(run(&o, 250) >= 0.97);
}

static void test_flapping(void **state) {
    (void)state;
    static world o;
    o = (world){ .said = 0.8 };
    set_card_costs(&o);
    start(&o, 1.0);
    double spent[STEPS_MAX];
    int64_t tokens[STEPS_MAX];
    int32_t n = 0;
    for (int32_t i = 0; i < 20; i++)
        for (int32_t j = 0; j < 20; j++) {
            o.right = j < 10 ? 0.0 : 1.0;
            step(&o);
            spent[n] = o.spent, tokens[n++] = o.tokens;
        }
    for (int32_t i = 0, from = 0; i < n; i++)
        for (; tokens[i] - tokens[from] >= 200; from++)
            assert_true((double)(tokens[i] - tokens[from]) * o.verify[1] >= 0.97 * (spent[i] - spent[from]));
}

static void test_short_answers(void **state) {
    (void)state;
    static world o;
    o = (world){ .said = 0.8, .right = 0.05 };
    set_card_costs(&o);
    start(&o, 1.0);
    for (int32_t i = 0; i < 100; i++) {
        width_begin(&o.w, false);
        run(&o, 30);
    }
    assert_true((double)o.tokens * o.verify[1] >= 0.97 * o.spent);
}

static void test_bad_start(void **state) {
    (void)state;
    static world o;
    o = (world){ .said = 0.8, .right = 0.0 };
    set_card_costs(&o);
    start(&o, 1.0);
    run(&o, 20);
    o.right = 0.9;
    assert_true(steps_until(&o, false, 3.0, 100) <= 40);
}

/* ---- the other proposer ---- */

static void test_lookup(void **state) {
    (void)state;
    static world o;
    o = (world){ .said = 0.5, .right = 0.1 };
    set_card_costs(&o);
    start(&o, 1.0);
    run(&o, 100); /* drafting does not pay here */
    float sure[8], doubtful[8] = { 0.4f, 0.2f, 0.1f, 0.05f, 0.01f, 0.01f, 0.01f, 0.01f }, junk[8] = { 0.05f, 0.01f };
    for (int i = 0; i < 8; i++) sure[i] = 0.97f;
    width_choice c;
    o.w.first_look = false, o.w.credit = 0.0f;
    width_choose(&o.w, &(width_input){ .ctx = 300, .depth = 8, .nodes = 31, .p = sure, .n = 8 }, &c);
    assert_true(c.why == SPEC_WHY_LOOKUP && c.given == 8 && c.nodes == 8 && c.draft == 0);
    width_choose(&o.w, &(width_input){ .ctx = 300, .depth = 8, .nodes = 5, .p = sure, .n = 8 }, &c);
    assert_true(c.why == SPEC_WHY_LOOKUP && c.given == 5);
    width_choose(&o.w, &(width_input){ .ctx = 300, .depth = 8, .nodes = 31, .p = doubtful, .n = 8 }, &c);
    assert_true(c.why == SPEC_WHY_LOOKUP && c.given == 2); /* 0.4 and 0.2 pay for their rows, 0.1 does not */
    width_choose(&o.w, &(width_input){ .ctx = 300, .depth = 8, .nodes = 31, .p = junk, .n = 2 }, &c);
    assert_true(c.why == SPEC_WHY_PLAIN && c.nodes == 0);

    o = (world){ .said = 0.9, .right = 0.9 };
    set_card_costs(&o);
    start(&o, 1.0);
    run(&o, 100); /* here it pays: what is doubtful stands beside the draft's, what is sure saves it */
    width_choose(&o.w, &(width_input){ .ctx = 300, .depth = 8, .nodes = 31, .p = doubtful, .n = 8 }, &c);
    assert_true(c.why == SPEC_WHY_DRAFT && c.given == 8 && c.draft > 0);
    float certain[16];
    for (int i = 0; i < 16; i++) certain[i] = 0.995f;
    width_choose(&o.w, &(width_input){ .ctx = 300, .depth = 16, .nodes = 31, .p = certain, .n = 16 }, &c);
    assert_true(c.why == SPEC_WHY_LOOKUP && c.given == 16 && c.draft == 0);
}

static void test_no_draft(void **state) {
    (void)state;
    static width w;
    width_init(&w, 0);
    width_choice c;
    float sure[2] = { 0.95f, 0.9f };
    for (int i = 0; i < 300; i++) {
        width_choose(&w, &(width_input){ .ctx = 10, .depth = 8, .nodes = 31, .p = sure, .n = i % 2 ? 2 : 0 }, &c);
        assert_true(c.draft == 0 && (c.nodes > 0) == (i % 2 == 1));
        step_out o = plain_out();
        width_measured(&w, 10, &c, &o, &(width_time){ .rest = 1000, .now = i });
    }
}

/* A plain step is measured again even where drafting always pays. */
static void test_clock(void **state) {
    (void)state;
    static world o;
    o = (world){ .said = 0.95, .right = 0.95 };
    set_card_costs(&o);
    start(&o, 1.0);
    int32_t plain = 0;
    for (int32_t i = 0; i < 2000; i++) step(&o), plain += o.why == SPEC_WHY_CLOCK;
    assert_true(plain >= 35 && plain <= 80);
}

/* A round may not be deeper than what is wanted. */
static void test_depth(void **state) {
    (void)state;
    static world o;
    o = (world){ .said = 0.95, .right = 0.95 };
    set_card_costs(&o);
    start(&o, 1.0);
    run(&o, 100);
    width_choice c;
    for (int32_t depth = 1; depth <= BLOCK; depth++) {
        width_choose(&o.w, &(width_input){ .ctx = 300, .depth = depth, .nodes = 31 }, &c);
        assert_true(c.draft <= depth && (c.why == SPEC_WHY_PLAIN || c.draft > 0));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs),         cmocka_unit_test(test_tiers),    cmocka_unit_test(test_best_width),
        cmocka_unit_test(test_overconfident), cmocka_unit_test(test_off),      cmocka_unit_test(test_wrong_costs),
        cmocka_unit_test(test_script),        cmocka_unit_test(test_flapping), cmocka_unit_test(test_short_answers),
        cmocka_unit_test(test_bad_start),     cmocka_unit_test(test_lookup),   cmocka_unit_test(test_no_draft),
        cmocka_unit_test(test_clock),         cmocka_unit_test(test_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
