/* Trees, the accepting walk, and the ops that turn the parameter block from one step to the next. */
#include "kernels/accept_core.h"
#include "kernels/kv_map.h"
#include "kernels/ref/ref.h"
#include "kernels/tree_core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

enum { GOLDEN_NODES = 64, ROWS_MAX = 8, MASK = 99, WINDOW = 16 };

static int32_t int_at(const json_t *list, size_t i) { return (int32_t)json_integer_value(json_array_get(list, i)); }

static int32_t int_of(const json_t *object, const char *key) {
    return (int32_t)json_integer_value(json_object_get(object, key));
}

/* --- golden trees --- */

/* The nodes added in the order of the file: paths and positions equal the rows that the file calls visible. */
static void check_growth(const json_t *nodes, const json_t *visibility) {
    static row_set t;
    tree_begin(&t, 1000, 7);
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        assert_int_equal(tree_add(&t, int_of(node, "parent"), int_of(node, "token")), (int32_t)i + 1);
    }
    bool chain = true;
    for (int32_t r = 0; r < t.n; r++) {
        const json_t *seen = json_array_get(visibility, (size_t)r);
        assert_int_equal(t.pos[r], 1000 + (int32_t)json_array_size(seen) - 1);
        for (size_t d = 0; d < json_array_size(seen); d++) {
            assert_int_equal(t.path[r][d], int_at(seen, d));
            chain &= t.path[r][d] == d;
        }
        chain &= tree_depth(&t, r) == r;
    }
    assert_int_equal(t.chain, chain);
}

/* Best-first growth from the candidates of the case gives its nodes in its order, as far as there is room. */
static void check_best_first(const json_t *row) {
    enum { WIDTH = 8 };
    static row_set t;
    int32_t token[DEPTH_MAX * WIDTH], depth = 0, width = WIDTH, budget = int_of(row, "budget");
    float logp[DEPTH_MAX * WIDTH];
    node_note note[NODES_MAX];
    const json_t *rows = json_object_get(row, "rows"), *nodes = json_object_get(row, "nodes");
    for (; depth < (int32_t)json_array_size(rows); depth++) {
        const json_t *at = json_array_get(rows, (size_t)depth), *tokens = json_object_get(at, "tokens");
        int32_t n = (int32_t)json_array_size(tokens);
        assert_true(n <= WIDTH);
        width = n < width ? n : width;
        for (int32_t i = 0; i < n; i++) {
            token[depth * WIDTH + i] = int_at(tokens, (size_t)i);
            logp[depth * WIDTH + i] =
                (float)json_real_value(json_array_get(json_object_get(at, "log_probs"), (size_t)i));
        }
    }
    tree_begin(&t, 1000, 1);
    tree_candidates c = { token, logp, depth, width, WIDTH, WIDTH, NULL };
    tree_grow(&t, &c, &(tree_given){ 0 }, budget, note);
    int32_t want = (int32_t)json_array_size(nodes);
    assert_int_equal(t.n, 1 + (want < NODES_MAX - 1 ? want : NODES_MAX - 1));
    for (int32_t i = 1; i < t.n; i++) {
        const json_t *node = json_array_get(nodes, (size_t)i - 1);
        assert_int_equal(t.token[i], int_of(node, "token"));
        assert_int_equal(t.parent[i], int_of(node, "parent"));
        assert_int_equal(tree_depth(&t, i), int_of(node, "depth"));
        assert_float_equal(note[i].score, (float)json_real_value(json_object_get(node, "score")), 0.0f);
        assert_true(note[i].parent == t.parent[i] && note[i].source == NODE_DRAFT);
    }
}

static void check_walk(const json_t *nodes, const json_t *walk) {
    int32_t parent[GOLDEN_NODES] = { -1 }, token[GOLDEN_NODES] = { 0 }, choice[GOLDEN_NODES], accepted[GOLDEN_NODES];
    int32_t n = (int32_t)json_array_size(nodes) + 1;
    for (int32_t i = 1; i < n; i++) {
        parent[i] = int_of(json_array_get(nodes, (size_t)i - 1), "parent");
        token[i] = int_of(json_array_get(nodes, (size_t)i - 1), "token");
    }
    for (int32_t i = 0; i < n; i++) choice[i] = int_at(json_object_get(walk, "posterior"), (size_t)i);
    int32_t count = accept_walk(n, parent, token, choice, accepted);
    const json_t *want = json_object_get(walk, "accepted"), *emitted = json_object_get(walk, "emitted");
    assert_int_equal(count, json_array_size(want));
    for (int32_t i = 0; i < count; i++) assert_int_equal(accepted[i], int_at(want, (size_t)i));
    for (int32_t i = 1; i < count; i++) assert_int_equal(token[accepted[i]], int_at(emitted, (size_t)i - 1));
    assert_int_equal(choice[accepted[count - 1]], int_of(walk, "next"));
}

static void test_golden_trees(void **state) {
    (void)state;
    json_error_t e;
    json_t *j = json_load_file("tests/golden/tree_ref.json", 0, &e);
    if (!j) fail_msg("tree_ref.json:%d: %s", e.line, e.text);
    size_t cases = json_array_size(j), grown = 0;
    for (size_t i = 0; i < cases; i++) {
        const json_t *row = json_array_get(j, i), *nodes = json_object_get(row, "nodes");
        const json_t *walks = json_object_get(row, "walks");
        check_best_first(row);
        if (json_array_size(nodes) < NODES_MAX) check_growth(nodes, json_object_get(row, "visibility")), grown++;
        for (size_t k = 0; k < json_array_size(walks); k++) check_walk(nodes, json_array_get(walks, k));
    }
    assert_true(cases >= 30 && grown >= 25);
    json_decref(j);
}

/* --- every small tree --- */

/* The walk in its own words: go to the first child that has the chosen token, until there is none. */
static int32_t literal_walk(int32_t n, const int32_t *parent, const int32_t *token, const int32_t *choice,
                            int32_t *path) {
    int32_t count = 0;
    for (int32_t at = 0, next; at >= 0; at = next) {
        path[count++] = at;
        next = -1;
        for (int32_t c = n - 1; c > 0; c--)
            if (parent[c] == at && token[c] == choice[at]) next = c;
    }
    return count;
}

static void check_every_choice(int32_t n, const int32_t *parent) {
    for (uint32_t bits = 0; bits < 1u << (2 * n); bits++) {
        int32_t token[6], choice[6], got[6], want[6];
        for (int32_t i = 0; i < n; i++) token[i] = bits >> i & 1, choice[i] = bits >> (n + i) & 1;
        int32_t count = accept_walk(n, parent, token, choice, got);
        assert_int_equal(count, literal_walk(n, parent, token, choice, want));
        assert_memory_equal(got, want, (size_t)count * sizeof *got);
    }
}

static void each_tree(int32_t *parent, int32_t at, int32_t n) {
    if (at == n) {
        check_every_choice(n, parent);
        return;
    }
    for (parent[at] = 0; parent[at] < at; parent[at]++) each_tree(parent, at + 1, n);
}

static void test_every_small_tree(void **state) {
    (void)state;
    int32_t parent[5] = { -1 };
    for (int32_t n = 1; n <= 5; n++) each_tree(parent, 1, n);
}

static void test_room(void **state) {
    (void)state;
    static row_set t;
    tree_begin(&t, 0, 1);
    for (int32_t i = 1; i < NODES_MAX; i++) assert_int_equal(tree_add(&t, i - 1, i), i); /* DEPTH_MAX deep */
    assert_int_equal(t.chain, 1);
    assert_int_equal(tree_add(&t, 0, 5), -1);
    assert_int_equal(t.n, NODES_MAX);
}

/* --- the ops --- */

static step_params p; /* large; every test sets what it reads */

static void run(op_id id, const void *args) {
    op_check(id, args);
    ref_table[id](args, &(lane){ .n = 1 });
}

static void begin(step_kind kind) {
    run(OP_BEGIN, &(begin_args){ .p = &p, .kind = kind, .rows_max = ROWS_MAX, .mask_id = MASK, .window = WINDOW });
}

static void tree(const int32_t *candidate, int32_t n) {
    static float logp[2 * DEPTH_MAX]; /* all equal: a chain with one candidate a row */
    view id = { (void *)(uintptr_t)candidate, 2 * sizeof *candidate, n, 2, DT_I32 };
    view scores = { logp, 2 * sizeof *logp, n, 2, DT_F32 };
    if (n == 0) id.data = scores.data = NULL;
    run(OP_TREE, &(tree_args){ .p = &p, .id = id, .logp = scores, .rows_max = ROWS_MAX });
}

static void accept(step_kind kind) { run(OP_ACCEPT, &(accept_args){ .p = &p, .kind = kind }); }

static void start(int32_t base, int32_t anchor, int32_t ctx_len) {
    memset(&p, 0x5A, sizeof p);
    p.in.seq = 41;
    p.in.base = base, p.in.anchor = anchor, p.in.ctx_len = ctx_len;
    p.in.n_proposals = 0, p.in.calibrated = 0, p.in.min_logp = -INFINITY;
    memset(p.in.cost, 0, sizeof p.in.cost);
    p.in.nodes_max = DEPTH_MAX, p.in.nodes_min = 0;
    p.in.branch = 1;
    p.in.draft_rows = 4;
}

static void test_prefill(void **state) {
    (void)state;
    start(10, 0, 4);
    p.in.rows = 3, p.in.want_head = 0;
    for (int32_t i = 0; i < 3; i++) p.in.tokens[i] = 70 + i;
    begin(STEP_PREFILL);
    assert_int_equal(p.st.rows.n, 3);
    assert_int_equal(p.st.rows.chain, 1);
    assert_int_equal(p.st.rows.base, 10);
    for (int32_t r = 0; r < 3; r++) assert_true(p.st.rows.token[r] == 70 + r && p.st.rows.pos[r] == 10 + r);
    assert_true(p.st.head_n == 0 && p.st.draft.n == 0 && p.st.ctx.n == 0);
    accept(STEP_PREFILL);
    assert_true(p.st.base == 13 && p.out.base == 13 && p.out.n == 0 && p.out.rows == 3 && p.out.seq == 41);

    p.in.base = -1, p.in.rows = 2, p.in.want_head = 1, p.in.seq = 42; /* goes on where the last one ended */
    begin(STEP_PREFILL);
    assert_true(p.st.rows.base == 13 && p.st.head_n == 1 && p.st.head_first == 1);
    p.st.choice[0] = 5;
    accept(STEP_PREFILL);
    assert_true(p.st.base == 15 && p.st.anchor == 5 && p.out.n == 1 && p.out.token[0] == 5 && p.out.seq == 42);
    assert_int_equal(p.st.ctx_len, 4);
}

static void test_plain(void **state) {
    (void)state;
    start(10, 77, 10);
    begin(STEP_PLAIN);
    assert_true(p.st.rows.n == 1 && p.st.rows.token[0] == 77 && p.st.rows.pos[0] == 10 && p.st.rows.parent[0] == -1);
    assert_true(p.st.head_n == 1 && p.st.head_first == 0 && p.st.ctx.n == 0);
    p.st.choice[0] = 6;
    accept(STEP_PLAIN);
    assert_true(p.st.base == 11 && p.st.anchor == 6 && p.out.n == 1 && p.out.token[0] == 6);
    assert_true(p.st.ctx_len == 10 && p.st.n_accepted == 1 && p.out.drafted == 0 && p.out.accepted == 0);
}

/* Two of three proposals are right; the next round projects the three rows that were committed. */
static void test_round(void **state) {
    (void)state;
    start(20, 77, 18);
    begin(STEP_ROUND);
    assert_true(p.st.ctx.n == 2 && p.st.ctx.pos[0] == 18 && p.st.ctx.pos[1] == 19);
    assert_true(p.st.draft.n == 4 && p.st.draft.chain == 1 && p.st.draft.base == 20);
    assert_true(p.st.draft.token[0] == 77 && p.st.draft.token[1] == MASK && p.st.draft.token[3] == MASK);
    assert_true(p.st.draft.pos[3] == 23 && p.st.draft_head_first == 1 && p.st.draft_head_n == 3);
    assert_int_equal(p.st.rows.n, 0);
    const int32_t candidate[3][2] = { { 1, 90 }, { 2, 91 }, { 3, 92 } };
    tree(candidate[0], 3);
    assert_true(p.st.rows.n == 4 && p.st.rows.chain == 1 && p.st.head_n == 4 && p.st.head_first == 0);
    assert_true(p.out.drafted == 3 && p.out.proposal[0] == 1 && p.out.proposal[2] == 3);
    const int32_t choice[4] = { 1, 2, 8, 4 };
    memcpy(p.st.choice, choice, sizeof choice);
    accept(STEP_ROUND);
    assert_true(p.out.n == 3 && p.out.token[0] == 1 && p.out.token[1] == 2 && p.out.token[2] == 8);
    assert_true(p.out.accepted == 2 && p.out.rows == 4 && p.out.base == 23);
    assert_true(p.st.base == 23 && p.st.anchor == 8 && p.st.ctx_len == 20 && p.st.move_base == 20 &&
                p.st.n_accepted == 3);

    p.in.base = -1;
    begin(STEP_ROUND);
    assert_true(p.st.ctx.n == 3 && p.st.ctx.pos[0] == 20 && p.st.draft.pos[0] == 23 && p.st.draft.token[0] == 8);
    assert_true(p.out.n == 0 && p.out.accepted == 0);
}

static void test_round_limits(void **state) {
    (void)state;
    const int32_t candidate[16][2] = { { 1, 0 }, { 2, 0 }, { 3, 0 }, { 4, 0 }, { 5, 0 },
                                       { 6, 0 }, { 7, 0 }, { 8, 0 }, { 9, 0 } };
    start(20, 77, 20);
    p.in.draft_rows = 16;
    begin(STEP_ROUND);
    tree(candidate[0], 16);
    assert_int_equal(p.st.rows.n, ROWS_MAX); /* the bucket */
    p.in.nodes_max = 2;
    tree(candidate[0], 16);
    assert_int_equal(p.st.rows.n, 3);
    p.in.nodes_max = 0;
    tree(candidate[0], 16);
    assert_true(p.st.rows.n == 1 && p.st.head_n == 1 && p.out.drafted == 0);
}

/* Proposals from elsewhere need no draft, and then no context rows. */
static void test_round_without_draft(void **state) {
    (void)state;
    start(20, 77, 19);
    p.in.n_proposals = 2, p.in.proposals[0] = 31, p.in.proposals[1] = 32, p.in.draft_rows = 1;
    p.in.proposal_logp[0] = -0.1f, p.in.proposal_logp[1] = -0.2f;
    begin(STEP_ROUND);
    assert_true(p.st.draft.n == 0 && p.st.draft_head_n == 0 && p.st.ctx.n == 0 && p.st.ctx_len == 19);
    tree(NULL, 0);
    assert_true(p.st.rows.n == 3 && p.st.rows.token[1] == 31 && p.st.rows.token[2] == 32 && p.out.proposal[1] == 32);
    p.in.n_proposals = 0;
    begin(STEP_ROUND);
    assert_true(p.st.draft.n == 0 && p.st.draft_head_n == 0);
    tree(NULL, 0);
    assert_int_equal(p.st.rows.n, 1);
}

/* --- two proposers, and the cut --- */

/* Two candidates at each of three depths, of probabilities 0.6 and 0.3. */
static const int32_t TWO_TOKENS[6] = { 10, 11, 20, 21, 30, 31 };
static const float TWO_LOGP[6] = { -0.510826f, -1.203973f, -0.510826f, -1.203973f, -0.510826f, -1.203973f };

static tree_candidates two_candidates(int32_t depth) {
    return (tree_candidates){ TWO_TOKENS, TWO_LOGP, depth, 2, 2, 2, NULL };
}

static void grow(row_set *t, const tree_candidates *c, const int32_t *token, const float *logp, int32_t n,
                 int32_t budget, node_note *note) {
    tree_begin(t, 50, 1);
    tree_grow(t, c, &(tree_given){ token, logp, n }, budget, note);
}

static int32_t find_path(const row_set *t, const int32_t *token, int32_t n) {
    int32_t at = 0;
    for (int32_t i = 0; i < n && at >= 0; i++) at = tree_find_child(t, at, token[i]);
    return at;
}

/* A given token that is also a candidate is one node with two proposers, costs nothing of the budget, and both go on
 * below it. */
static void test_merged_proposers(void **state) {
    (void)state;
    static row_set t;
    node_note note[NODES_MAX];
    const int32_t given[3] = { 11, 77, 78 }; /* the draft's second choice, then words of its own */
    const float logp[3] = { -0.1f, -0.2f, -0.3f };
    tree_candidates c = two_candidates(3), none = { .depth = 0 };
    grow(&t, &c, given, logp, 3, 8, note);
    assert_int_equal(t.n, 9);
    assert_int_equal(t.token[1], 11); /* the surest first */
    int32_t both = find_path(&t, given, 1), end = find_path(&t, given, 3),
            drafted = find_path(&t, (int32_t[]){ 11, 20 }, 2);
    assert_true(note[both].source == NODE_DRAFT + NODE_GIVEN && note[both].score == -0.1f);
    assert_true(end > 0 && note[end].source == NODE_GIVEN && tree_depth(&t, end) == 3);
    assert_true(drafted > 0 && note[drafted].source == NODE_DRAFT); /* the draft goes on below the shared node */
    assert_float_equal(note[drafted].score, -1.203973f - 0.510826f, 1e-6f); /* by its own word */
    for (int32_t i = 1; i < t.n; i++) assert_true(note[i].parent == t.parent[i] && t.parent[i] < i);
    for (int32_t i = 1; i < t.n; i++)
        for (int32_t j = 1; j < i; j++) assert_false(t.parent[i] == t.parent[j] && t.token[i] == t.token[j]);

    grow(&t, &none, given, logp, 3, 8, note);
    assert_true(t.n == 4 && t.chain && note[3].source == NODE_GIVEN);
    grow(&t, &none, given, logp, 3, 2, note);
    assert_int_equal(t.n, 3);
}

/* Whoever brings a node, each is worth its score: with 31 nodes every prefix of either proposer above the last one's
 * score is there. */
static void test_best_of_both(void **state) {
    (void)state;
    static row_set t;
    node_note note[NODES_MAX];
    const int32_t given[5] = { 90, 91, 92, 93, 94 };
    const float logp[5] = { -0.4f, -0.9f, -1.4f, -1.9f, -2.4f };
    for (int32_t budget = 0; budget <= 12; budget++) {
        tree_candidates c = two_candidates(3);
        grow(&t, &c, given, logp, 5, budget, note);
        assert_int_equal(t.n, 1 + budget);
        float least = 0.0f;
        for (int32_t i = 1; i < t.n; i++) least = note[i].score < least ? note[i].score : least;
        int32_t better = 0;
        for (int32_t i = 0; i < 5; i++) better += logp[i] > least;
        for (int32_t path = 0; path < 14; path++) { /* 2 + 4 + 8 prefixes of the draft */
            int32_t depth = path < 2 ? 1 : path < 6 ? 2 : 3, bits = path < 2 ? path : path < 6 ? path - 2 : path - 6;
            float sum = 0.0f;
            for (int32_t d = 0; d < depth; d++) sum += TWO_LOGP[2 * d + (bits >> d & 1)];
            better += sum > least + 1e-6f;
        }
        assert_true(better < t.n);
    }
}

/* Nodes are kept up to where the sum of chances less the cost of rows is largest. */
static void test_cut(void **state) {
    (void)state;
    static row_set t;
    node_note note[NODES_MAX];
    float cost[NODES_MAX + 1];
    const int32_t given[6] = { 1, 2, 3, 4, 5, 6 };
    const float p[6] = { 0.9f, 0.8f, 0.5f, 0.3f, 0.25f, 0.01f };
    float logp[6];
    for (int i = 0; i < 6; i++) logp[i] = logf(p[i]);
    static const struct {
        float row, cliff; /* each row; and once from row 4 on */
        int32_t least, keep;
        float min_p;
    } CASES[] = {
        { 0.0f, 0.0f, 0, 6, 0.0f },  { 0.4f, 0.0f, 0, 3, 0.0f }, { 0.95f, 0.0f, 0, 0, 0.0f },
        { 0.95f, 0.0f, 2, 2, 0.0f }, { 0.2f, 0.3f, 0, 5, 0.0f }, { 0.2f, 0.5f, 0, 2, 0.0f },
        { 0.0f, 0.0f, 0, 3, 0.4f },  { 0.0f, 0.0f, 9, 6, 0.4f },
    };
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        tree_candidates none = { .depth = 0 };
        grow(&t, &none, given, logp, 6, 31, note);
        for (int32_t r = 0; r <= NODES_MAX; r++) cost[r] = CASES[k].row * (float)r + (r >= 4 ? CASES[k].cliff : 0.0f);
        tree_cut(&t, note, cost, CASES[k].least, CASES[k].min_p > 0.0f ? logf(CASES[k].min_p) : -INFINITY);
        if (t.n != 1 + CASES[k].keep) fail_msg("case %zu keeps %d nodes, expected %d", k, t.n - 1, CASES[k].keep);
        assert_true(t.chain);
    }
}

static void test_cut_keeps_order(void **state) {
    (void)state;
    static row_set t;
    node_note note[NODES_MAX];
    float cost[NODES_MAX + 1] = { 0 };
    tree_candidates c = two_candidates(3);
    grow(&t, &c, NULL, NULL, 0, 6, note);
    assert_false(t.chain);
    for (int32_t r = 0; r <= NODES_MAX; r++) cost[r] = 0.55f * (float)r;
    tree_cut(&t, note, cost, 0, -INFINITY);
    assert_true(t.n == 2 && t.chain && t.token[1] == 10);
}

static void test_confidence_classes(void **state) {
    (void)state;
    for (int32_t i = 0; i < 1000; i++) {
        float p = ((float)i + 0.5f) / 1000.0f;
        int32_t want = (int32_t)floorf(-4.0f * log2f(1.0f - p));
        assert_int_equal(tree_conf(logf(p)), want < CONF_CLASSES - 1 ? want : CONF_CLASSES - 1);
    }
    assert_true(tree_conf(0.0f) == CONF_CLASSES - 1 && tree_conf(-INFINITY) == 0);
}

/* A calibrated draft is ranked by what its classes proved to be. */
static void test_calibrated(void **state) {
    (void)state;
    static row_set t;
    node_note note[NODES_MAX];
    float conf[CONF_CLASSES];
    tree_candidates c = two_candidates(2);
    for (int32_t i = 0; i < CONF_CLASSES; i++) conf[i] = -2.0f;
    conf[tree_conf(TWO_LOGP[0])] = -0.25f;
    c.conf = conf;
    grow(&t, &c, NULL, NULL, 0, 3, note);
    assert_true(note[1].score == -0.25f && note[2].score == -0.5f && t.token[2] == 20);
    assert_true(note[3].score == -2.0f && note[3].conf == tree_conf(TWO_LOGP[1]));
}

static void test_context(void **state) {
    (void)state;
    start(100, 77, 10);
    p.in.rows = 6;
    begin(STEP_CONTEXT);
    assert_true(p.st.ctx.n == 6 && p.st.ctx.pos[0] == 100 - WINDOW &&
                p.st.ctx.chain == 1); /* older ones are never seen */
    assert_true(p.st.rows.n == 0 && p.st.draft.n == 0 && p.st.head_n == 0);
    accept(STEP_CONTEXT);
    assert_true(p.st.ctx_len == 90 && p.st.base == 100 && p.st.anchor == 77 && p.out.n == 0);
    p.in.base = -1, p.in.rows = 200;
    begin(STEP_CONTEXT);
    assert_int_equal(p.st.ctx.n, 10);
    accept(STEP_CONTEXT);
    assert_int_equal(p.st.ctx_len, 100);
    begin(STEP_CONTEXT);
    assert_int_equal(p.st.ctx.n, 0);
    accept(STEP_CONTEXT);
    assert_int_equal(p.st.ctx_len, 100);
}

/* --- compaction --- */

/* Rows carry their index; after a move, base + j carries the index of the j-th accepted node, and nothing else changed.
 */
static void check_move(kv_store *s, view *taps, int32_t base, int32_t rows) {
    enum { SIZE = 2, HEADS = 2 };
    for (int32_t index = base - 3; index < base + rows; index++) {
        for (int32_t g = 0; g < HEADS; g++)
            for (int32_t c = 0; c < SIZE; c++) {
                ((bf16 *)s->k)[kv_offset(s, g, index, base) + c] = (bf16)(10 * index + g);
                ((bf16 *)s->v)[kv_offset(s, g, index, base) + c] = (bf16)(10 * index + g + 5);
            }
        ((bf16 *)view_row(taps, index % taps->rows))[0] = (bf16)index;
    }
    run(OP_KV_MOVE, &(kv_move_args){ .p = &p, .stores = s, .n = 1, .taps = *taps });
    for (int32_t index = base - 3; index < base + p.st.n_accepted; index++) {
        int32_t from = index < base ? index : base + p.st.accepted[index - base];
        for (int32_t g = 0; g < HEADS; g++)
            for (int32_t c = 0; c < SIZE; c++) {
                assert_int_equal(((bf16 *)s->k)[kv_offset(s, g, index, base) + c], 10 * from + g);
                assert_int_equal(((bf16 *)s->v)[kv_offset(s, g, index, base) + c], 10 * from + g + 5);
            }
        assert_int_equal(((bf16 *)view_row(taps, index % taps->rows))[0], from);
    }
}

static void test_compaction(void **state) {
    (void)state;
    static const int32_t PATHS[][5] = { { 1, 0 }, { 4, 0, 1, 2, 3 }, { 2, 0, 5 }, { 4, 0, 2, 3, 7 }, { 3, 0, 1, 6 } };
    static bf16 k[2 * KV_PAGE * 2 * 2], v[2 * KV_PAGE * 2 * 2], tap[11 * 4];
    int32_t pages[2] = { 1, 0 };
    view taps = { tap, 8, 11, 4, DT_BF16 };
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        for (int32_t base = KV_PAGE - 9; base <= KV_PAGE + 1; base++) {
            p.st.move_base = base;
            p.st.n_accepted = PATHS[i][0];
            memcpy(p.st.accepted, &PATHS[i][1], 4 * sizeof(int32_t));
            kv_store ring = { k, v, NULL, 13, 2, 2, KV_RING, DT_BF16, 13 * 2 * 2 * (int64_t)sizeof(bf16), NULL };
            kv_store paged = { k, v, pages, 0, 2, 2, KV_PAGES, DT_BF16, sizeof k, NULL };
            check_move(&ring, &taps, base, 8);
            check_move(&paged, &taps, base, 8);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_trees),
        cmocka_unit_test(test_every_small_tree),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_prefill),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_round_limits),
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_merged_proposers),
        cmocka_unit_test(test_best_of_both),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_cut_keeps_order),
        cmocka_unit_test(test_confidence_classes),
        cmocka_unit_test(test_calibrated),
        cmocka_unit_test(test_compaction),
        cmocka_unit_test(test_round_without_draft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
