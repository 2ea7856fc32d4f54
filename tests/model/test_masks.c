/* Constrained choices: which tokens a row may choose depends on the whole path to it, so a mask that belongs to another
 * row, or is made from another tree, changes the answer. The rule here is arithmetic on the last two tokens; what is
 * promised is that rounds of every shape give the tokens of plain steps, and that no token breaks the rule. */
#include "tests/model/model_fixture.h"

enum { PROMPT = 70, ANSWER = 60 };

typedef struct world {
    pair *p;
    int32_t *tokens;
} world;

/* The last two tokens in front of a row. */
typedef struct context {
    int32_t last, before;
} context;

typedef struct rule {
    context at; /* behind what was emitted */
    int32_t vocab;
    int calls, rows;
} rule;

static bool allows(context c, int32_t token) {
    uint32_t x = (uint32_t)c.last * 2654435761u ^ (uint32_t)c.before * 40503u ^ (uint32_t)token * 2246822519u;
    return (x >> 20) % 4 != 0;
}

static void fill_row(const rule *r, context c, uint32_t *bits, int32_t words) {
    memset(bits, 0, (size_t)words * sizeof *bits);
    for (int32_t v = 0; v < r->vocab; v++)
        if (allows(c, v)) bits[v / 32] |= 1u << v % 32;
}

static void fill(void *arg, const step_out *tree, int32_t rows, uint32_t *bits, int32_t words) {
    rule *r = arg;
    context at[NODES_MAX] = { r->at };
    r->calls++, r->rows += rows;
    for (int32_t i = 0; i < rows; i++) {
        if (i) at[i] = (context){ tree->proposal[i - 1], at[tree->note[i].parent].last };
        fill_row(r, at[i], bits + (int64_t)i * words, words);
    }
}

static void push(rule *r, int32_t token) { r->at = (context){ token, r->at.last }; }

typedef struct way {
    const char *name;
    int32_t depth, nodes, branch; /* depth 0: plain steps */
} way;

static void answer(world *w, const way *y, const pick_params *pick, int32_t *out) {
    steps *s = w->p->steps;
    rule r = { .at = { w->tokens[PROMPT - 1], w->tokens[PROMPT - 2] }, .vocab = w->p->target.cfg.vocab };
    memory_poison(w->p);
    steps_set_mask(s, fill, &r);
    const step_out *o = steps_prompt(s, pick, w->tokens, PROMPT);
    int32_t n = 0, accepted = 0;
    while (n < ANSWER) {
        for (int32_t i = 0; i < o->n && n < ANSWER; i++) {
            if (!allows(r.at, o->token[i])) fail_msg("%s: token %d of the answer is forbidden", y->name, n);
            push(&r, o->token[i]);
            out[n++] = o->token[i];
        }
        accepted += o->accepted;
        if (n < ANSWER) o = y->depth ? steps_tree(s, y->depth, y->nodes, y->branch) : steps_plain(s);
    }
    steps_set_mask(s, NULL, NULL);
    if (y->depth) assert_true(accepted > 0 && r.rows > r.calls);
}

static void test_lossless(void **state) {
    static const way WAYS[] = { { "plain", 0, 0, 0 },
                                { "chain 3", 3, 3, 1 },
                                { "chain 7", 7, 7, 1 },
                                { "tree 12", 7, 12, 4 },
                                { "tree 31", 15, 31, TREE_WIDTH } };
    static const pick_params PICK[] = {
        { .top_p = 1.0f },
        { .temperature = 0.8f, .top_p = 1.0f, .seed = 5 },
        { .temperature = 0.7f, .top_p = 0.9f, .top_k = 20, .seed = 6, .repeat = 1.1f }
    };
    world *w = *state;
    for (size_t p = 0; p < sizeof PICK / sizeof *PICK; p++) {
        int32_t want[ANSWER], got[ANSWER];
        answer(w, &WAYS[0], &PICK[p], want);
        for (size_t i = 1; i < sizeof WAYS / sizeof *WAYS; i++) {
            answer(w, &WAYS[i], &PICK[p], got);
            for (int32_t t = 0; t < ANSWER; t++)
                if (got[t] != want[t])
                    fail_msg("setting %zu, %s: token %d is %d, plain steps choose %d", p, WAYS[i].name, t, got[t],
                             want[t]);
        }
    }
}

/* Behind a constrained answer the next one is free again: the same tokens as if there had been none. */
static void test_ends(void **state) {
    world *w = *state;
    steps *s = w->p->steps;
    const pick_params greedy = { .top_p = 1.0f };
    int32_t free_first = steps_prompt(s, &greedy, w->tokens, PROMPT)->token[0], free_next = steps_plain(s)->token[0];
    int32_t masked[ANSWER];
    answer(w, &(way){ "chain 7", 7, 7, 1 }, &greedy, masked);
    assert_int_equal(steps_prompt(s, &greedy, w->tokens, PROMPT)->token[0], free_first);
    assert_int_equal(steps_plain(s)->token[0], free_next);
}

static int setup(void **state) {
    world *w = xalloc(sizeof *w);
    w->p = demo_open(PROMPT + ANSWER + NODES_MAX);
    w->tokens = demo_tokens(PROMPT);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    demo_close(w->p);
    free(w->tokens);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_lossless), cmocka_unit_test(test_ends) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
